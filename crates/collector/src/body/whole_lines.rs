//! Cuts a stream that arrives in pieces into blocks of whole lines.

use record::frame::LINE_BYTES_MAX;

/// Pieces smaller than this are collected; larger ones are passed on in place, without a copy.
const SMALL_BYTES: usize = 16 << 10;
/// Collected small pieces are emitted when they reach this many bytes, or by [`WholeLines::flush`].
const COLLECTED_BYTES_MAX: usize = 64 << 10;

/// Cuts one stream. Holds at most one line and [`COLLECTED_BYTES_MAX`].
///
/// A line over [`LINE_BYTES_MAX`] is emitted one byte longer than that, so that the receiver sees
/// that it is too long; the rest is skipped and counted in [`WholeLines::take_skipped_bytes`].
#[derive(Default)]
pub struct WholeLines {
    /// Collected whole lines, then the start of an incomplete line.
    held: Vec<u8>,
    /// Bytes of the whole lines in `held`.
    whole: usize,
    /// Inside the rest of a line that is too long.
    skipping: bool,
    skipped_bytes: u64,
}

impl WholeLines {
    /// Starts at the beginning of a stream.
    pub fn new() -> WholeLines {
        WholeLines::default()
    }

    /// Takes the next piece and calls `emit` with blocks of whole lines, each line with its
    /// newline.
    pub fn take<E>(
        &mut self,
        mut piece: &[u8],
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.skipping {
            let skipped = memchr::memchr(b'\n', piece).unwrap_or(piece.len());
            self.skipped_bytes += skipped as u64;
            piece = &piece[skipped..];
            self.skipping = piece.is_empty();
        }
        if piece.len() < SMALL_BYTES {
            return self.collect(piece, emit);
        }
        if !self.held.is_empty() {
            // The line that earlier pieces began.
            let end = memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at + 1);
            self.hold(&piece[..end]);
            piece = &piece[end..];
            self.flush(&mut emit)?;
        }
        if let Some(last) = memchr::memrchr(b'\n', piece) {
            emit(&piece[..=last])?;
            piece = &piece[last + 1..];
        }
        self.hold(piece);
        Ok(())
    }

    /// Emits the whole lines that were collected.
    pub fn flush<E>(&mut self, mut emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let whole = std::mem::take(&mut self.whole);
        let result = if whole > 0 { emit(&self.held[..whole]) } else { Ok(()) };
        self.held.drain(..whole);
        result
    }

    /// Ends the stream: emits the collected lines, and a last line without newline.
    pub fn end<E>(&mut self, emit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.whole = self.held.len();
        self.skipping = false;
        self.flush(emit)
    }

    /// Whether [`WholeLines::flush`] has something to emit.
    pub fn has_collected(&self) -> bool {
        self.whole > 0
    }

    /// Bytes taken and not emitted: collected lines, and an incomplete line.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Bytes of memory held. Memory that an earlier, longer line needed is freed.
    pub fn bytes_held(&mut self) -> usize {
        if self.held.len() <= COLLECTED_BYTES_MAX && self.held.capacity() > COLLECTED_BYTES_MAX {
            self.held.shrink_to(self.held.len());
        }
        self.held.capacity()
    }

    /// Bytes skipped in lines that are too long, since the last call.
    pub fn take_skipped_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.skipped_bytes)
    }

    fn collect<E>(
        &mut self,
        piece: &[u8],
        emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let lines = memchr::memrchr(b'\n', piece).map_or(0, |last| last + 1);
        // Only the first line can be too long, together with the held part.
        let first = memchr::memchr(b'\n', piece).map_or(0, |at| at + 1);
        self.hold(&piece[..first]);
        self.hold(&piece[first..lines]);
        self.hold(&piece[lines..]);
        if self.held.len() < COLLECTED_BYTES_MAX { Ok(()) } else { self.flush(emit) }
    }

    /// Holds whole lines, or a part of one line.
    fn hold(&mut self, bytes: &[u8]) {
        let ends = bytes.last() == Some(&b'\n');
        let begun = self.held.len() - self.whole;
        let part = bytes.len() - usize::from(ends);
        if begun + part > LINE_BYTES_MAX + 1 {
            let room = (LINE_BYTES_MAX + 1).saturating_sub(begun).min(part);
            self.held.extend_from_slice(&bytes[..room]);
            self.skipped_bytes += (part - room) as u64;
            if ends {
                self.held.push(b'\n');
            }
            self.skipping = !ends;
        } else {
            self.held.extend_from_slice(bytes);
        }
        if ends {
            self.whole = self.held.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// The lines of a stream that arrives in these pieces, and the number of skipped bytes.
    fn lines_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, u64) {
        let mut lines = Vec::new();
        let mut whole = WholeLines::new();
        let mut emit = |block: &[u8]| {
            assert!(!block.is_empty());
            lines.extend(block.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec));
            Ok::<(), Infallible>(())
        };
        for piece in pieces {
            whole.take(piece, &mut emit).unwrap();
            assert!(whole.held.len() <= LINE_BYTES_MAX + 2 + COLLECTED_BYTES_MAX);
        }
        whole.end(&mut emit).unwrap();
        assert!(whole.held().is_empty());
        (lines, whole.take_skipped_bytes())
    }

    #[test]
    fn lines_are_cut_one_byte_above_the_limit_and_the_rest_is_counted() {
        let most = LINE_BYTES_MAX + 1;
        for length in [most - 2, most - 1, most, most + 1, most + 300_000] {
            let mut text = b"before\n".to_vec();
            text.resize(text.len() + length, b'x');
            text.extend_from_slice(b"\nbehind\n");
            let kept = length.min(most);
            for piece_bytes in [9_999, 200_001, text.len()] {
                let check = |text: &[u8], expected: &[usize]| {
                    let (lines, skipped) = lines_of(text.chunks(piece_bytes));
                    let lengths: Vec<usize> = lines.iter().map(Vec::len).collect();
                    // The receiver cuts a line that arrives in one piece.
                    let in_one_piece = skipped == 0 && lengths[1] == expected[1] + length - kept;
                    assert!(
                        in_one_piece || (lengths == expected && skipped == (length - kept) as u64),
                        "{length} by {piece_bytes}: {lengths:?}, {skipped}"
                    );
                };
                check(&text, &[7, kept + 1, 7]);
                check(&text[..text.len() - 8], &[7, kept]);
            }
        }
    }

    #[test]
    fn flush_emits_collected_lines() {
        let mut whole = WholeLines::new();
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut emit = |block: &[u8]| {
            blocks.push(block.to_vec());
            Ok::<(), Infallible>(())
        };
        whole.take(b"a\nb", &mut emit).unwrap();
        whole.take(b"c\nd", &mut emit).unwrap();
        whole.flush(&mut emit).unwrap();
        whole.flush(&mut emit).unwrap();
        assert_eq!((whole.held(), whole.has_collected()), (&b"d"[..], false));
        whole.take(&[&[b'e'; SMALL_BYTES][..], b"\nf\ng"].concat(), &mut emit).unwrap();
        whole.end(&mut emit).unwrap();
        let long = [b"d", &[b'e'; SMALL_BYTES][..], b"\n"].concat();
        assert_eq!(blocks, [b"a\nbc\n".to_vec(), long, b"f\n".to_vec(), b"g".to_vec()]);
    }

    #[test]
    fn an_error_of_emit_is_returned() {
        let mut whole = WholeLines::new();
        let refuse = |_: &[u8]| Err("full");
        assert_eq!(whole.take(&[b'\n'; SMALL_BYTES], refuse), Err("full"));
        assert_eq!(whole.take(b"a\n", refuse), Ok(()));
        assert_eq!(whole.end(refuse), Err("full"));
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_came(
            text in prop::collection::vec(
                prop_oneof![4 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..200),
            long in prop::collection::vec(0usize..40_000, 0..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut text = text;
            for length in long {
                text.resize(text.len() + length, b'y');
                text.push(b'\n');
            }
            text.extend_from_slice(b"end");
            let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            borders.extend([0, text.len()]);
            borders.sort_unstable();
            let pieces = borders.windows(2).map(|border| &text[border[0]..border[1]]);
            let expected: Vec<Vec<u8>> =
                text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(lines_of(pieces), (expected, 0));
        }
    }
}
