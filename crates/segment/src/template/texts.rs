//! Byte strings, back to back: the input and the output of a column.

/// Values of a column: one text, and the end of each value in it. The first value begins at 0.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    text: &'a [u8],
    ends: &'a [u32],
}

impl<'a> Values<'a> {
    /// The text of all values, and the end of each in it, in bytes.
    ///
    /// # Panics
    /// If the ends do not ascend, or the last end is not that of the text.
    pub fn new(text: &'a [u8], ends: &'a [u32]) -> Self {
        assert!(ends.is_sorted(), "values end in order");
        assert_eq!(ends.last().map_or(0, |&end| end as usize), text.len(), "values fill the text");
        Values { text, ends }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of all values.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Iterates over the values.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (text, ends) = (self.text, self.ends);
        let mut start = 0;
        ends.iter().map(move |&end| {
            let value = &text[start..end as usize];
            start = end as usize;
            value
        })
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        spans_of_ends(self.ends)
    }
}

/// Decoded values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// All values, one behind the other.
    pub bytes: Vec<u8>,
    /// Where each value ends in `bytes`.
    pub ends: Vec<u32>,
    /// Bytes behind each value: 1 for a newline, or 0.
    pub gap: u32,
}

impl Texts {
    /// The value at an index.
    ///
    /// # Panics
    /// If the index is out of range.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] + self.gap };
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The values, borrowed.
    ///
    /// # Panics
    /// If there are bytes between the values.
    pub fn values(&self) -> Values<'_> {
        assert_eq!(self.gap, 0, "values fill the text");
        Values { text: &self.bytes, ends: &self.ends }
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
        self.bytes.extend((0..self.gap).map(|_| b'\n'));
    }
}

/// Short pieces are copied with this fixed number of bytes: a fixed-size copy is a few moves, any
/// other is a call. So a text from which pieces are copied needs this many spare bytes behind it.
pub(super) const STRIDE_BYTES: usize = 32;

/// Builds texts of many short pieces.
pub(super) struct Builder {
    /// Written up to `at`.
    bytes: Vec<u8>,
    at: usize,
    ends: Vec<u32>,
    gap: u32,
}

impl Builder {
    /// A builder with room for `values` values and `bytes` bytes; it can grow beyond both.
    pub fn new(values: usize, bytes: usize) -> Self {
        let bytes = vec![0; bytes + STRIDE_BYTES];
        Builder { bytes, at: 0, ends: Vec::with_capacity(values), gap: 0 }
    }

    /// As [`Builder::new`], with a newline behind each value.
    pub fn lines(values: usize, bytes: usize) -> Self {
        Builder { gap: 1, ..Builder::new(values, bytes + values) }
    }

    /// Bytes of the values written.
    pub fn len(&self) -> usize {
        self.at - self.ends.len() * self.gap as usize
    }

    /// Appends `length` bytes of `source`.
    #[inline(always)]
    pub fn append(&mut self, source: &[u8], start: usize, length: usize) {
        let from = source.get(start..).and_then(<[u8]>::first_chunk::<STRIDE_BYTES>);
        let to = self.bytes.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut::<STRIDE_BYTES>);
        match (from, to) {
            (Some(from), Some(to)) if length <= STRIDE_BYTES => {
                *to = *from;
                self.at += length;
            }
            _ => self.append_slowly(&source[start..start + length]),
        }
    }

    #[cold]
    #[inline(never)]
    fn append_slowly(&mut self, piece: &[u8]) {
        self.room(piece.len())[..piece.len()].copy_from_slice(piece);
        self.at += piece.len();
    }

    /// Room for the next `bytes` bytes and a stride.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.at + bytes + STRIDE_BYTES;
        if self.bytes.len() < end {
            self.bytes.resize(end.max(self.bytes.len() * 2), 0);
        }
        &mut self.bytes[self.at..]
    }

    /// Commits `bytes` bytes of the room.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Ends the value whose pieces were appended.
    #[inline]
    pub fn end(&mut self) {
        self.ends.push(self.at as u32);
        if self.gap > 0 {
            self.room(1)[0] = b'\n';
            self.at += 1;
        }
    }

    /// The texts, with a stride of spare bytes behind the last value, and the span of each value.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Span>) {
        debug_assert_eq!(self.gap, 0, "spans are back to back");
        self.bytes.truncate(self.at + STRIDE_BYTES);
        let spans = spans_of_ends(&self.ends);
        (self.bytes, spans)
    }

    /// The texts, without spare bytes.
    pub fn finish_exactly(mut self) -> Texts {
        self.bytes.truncate(self.at);
        Texts { bytes: self.bytes, ends: self.ends, gap: self.gap }
    }
}

fn spans_of_ends(ends: &[u32]) -> Vec<Span> {
    let mut start = 0;
    let span = |&end: &u32| {
        let span = Span { start, end };
        start = end;
        span
    };
    ends.iter().map(span).collect()
}

/// A piece of the text that is being encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    #[inline]
    pub fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start as usize..self.end as usize]
    }

    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn spans_of<T: AsRef<[u8]>>(values: &[T]) -> (Vec<u8>, Vec<Span>) {
        let mut texts = Texts::default();
        for value in values {
            texts.push(value.as_ref());
        }
        let spans = texts.values().spans();
        (texts.bytes, spans)
    }
}
