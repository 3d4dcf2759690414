//! The grammar of JSON (RFC 8259) over a text: strings, numbers, literals, nested values.
//!
//! Positions only stop next to ASCII bytes, so that slices of a UTF-8 text are UTF-8. The caller
//! must check that the text is.
//!
//! A mending scan ([`Scan::mending`]) continues over errors that can be tolerated, and remembers
//! the first one ([`Fault`]): control characters, invalid escapes, words for numbers (`NaN`), an
//! extra comma, text that ends within a string. It is the slow path, used after the grammar failed.

use text::json;

use super::short;

/// The text is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The problem with a text that could be read nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The problem, to be followed by its offset.
    pub what: &'static str,
    /// Offset of the problem.
    pub at: u32,
}

/// A position in a text.
pub(crate) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    mends: bool,
    fault: Option<Fault>,
    end: Option<Fault>,
}

impl<'a> Scan<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Scan { text, at: 0, mends: false, fault: None, end: None }
    }

    /// A scan over a text in which the grammar has failed, or may fail.
    pub fn mending(text: &'a [u8]) -> Self {
        Scan { mends: true, ..Scan::new(text) }
    }

    /// Whether this is a mending scan.
    #[inline]
    pub fn mends(&self) -> bool {
        self.mends
    }

    /// The first problem that was tolerated, and where reading had to stop.
    pub fn faults(&self) -> [Option<Fault>; 2] {
        [self.fault, self.end]
    }

    /// Whether the text ended too early.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.end.is_some() && self.at >= self.text.len()
    }

    /// Remembers a problem at the current position.
    #[cold]
    pub fn set_fault(&mut self, what: &'static str) {
        self.set_fault_at(what, self.at);
    }

    /// Remembers a problem at a given position.
    #[cold]
    fn set_fault_at(&mut self, what: &'static str, at: usize) {
        self.fault.get_or_insert(Fault { what, at: at as u32 });
    }

    /// Remembers that the rest is not read.
    #[cold]
    pub fn set_end(&mut self, what: &'static str) {
        self.end.get_or_insert(Fault { what, at: self.at as u32 });
    }

    /// Remembers that reading cannot continue here.
    #[cold]
    pub fn give_up(&mut self) {
        let is_cut = self.at >= self.text.len();
        self.set_end(if is_cut { "JSON cut off" } else { "JSON broken" });
    }

    /// The current offset.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.at as u32
    }

    /// A part of the text by its offset and length.
    pub fn part(&self, at: u32, length: u32) -> &'a [u8] {
        &self.text[at as usize..][..length as usize]
    }

    /// Skips `text` if it is at the current position; returns the skipped part.
    #[inline]
    pub fn skip_text(&mut self, text: &[u8]) -> Option<&'a [u8]> {
        let part = self.text.get(self.at..self.at + text.len())?;
        short::same(part, text).then(|| {
            self.at += text.len();
            part
        })
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    pub fn skip(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        if self.skip(byte) { Ok(()) } else { Err(Broken) }
    }

    pub fn end(&self) -> Result<(), Broken> {
        if self.at == self.text.len() { Ok(()) } else { Err(Broken) }
    }

    /// Whether an empty object is at the current position.
    pub fn at_empty_object(&self) -> bool {
        let rest = self.text[self.at..].strip_prefix(b"{").unwrap_or_default();
        rest.iter().find(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r')) == Some(&b'}')
    }

    /// The rest of a string whose opening quote was consumed, still escaped, and whether it has
    /// escapes.
    #[inline]
    pub fn string(&mut self) -> Result<(&'a [u8], bool), Broken> {
        let bytes = self.text;
        let begin = self.at;
        let mut escaped = false;
        loop {
            self.at = match special(bytes, self.at) {
                Some(at) => at,
                None if self.mends => {
                    self.at = bytes.len();
                    self.give_up();
                    return Ok((&bytes[begin..], escaped));
                }
                None => return Err(Broken),
            };
            match bytes[self.at] {
                b'"' => {
                    let text = &self.text[begin..self.at];
                    self.at += 1;
                    return Ok((text, escaped));
                }
                b'\\' => {
                    escaped = true;
                    self.at += match json::escape_bytes(&bytes[self.at..]) {
                        Some(length) => length,
                        None if self.mends => {
                            self.set_fault("JSON with a wrong escape");
                            1
                        }
                        None => return Err(Broken),
                    };
                }
                _ if self.mends => {
                    self.set_fault("JSON with a control character");
                    self.at += 1;
                }
                _ => return Err(Broken),
            }
        }
    }

    /// A number or literal.
    #[inline]
    pub fn scalar(&mut self) -> Result<&'a [u8], Broken> {
        if self.mends {
            return self.scalar_leniently();
        }
        let rest = &self.text[self.at..];
        let length = match rest.first() {
            Some(b'-' | b'0'..=b'9') => number_length(rest)?,
            Some(b't') if rest.starts_with(b"true") => 4,
            Some(b'f') if rest.starts_with(b"false") => 5,
            Some(b'n') if rest.starts_with(b"null") => 4,
            _ => return Err(Broken),
        };
        self.at += length;
        Ok(&self.text[self.at - length..self.at])
    }

    /// A number, literal, or another word without blanks. The last word of a truncated text is not
    /// taken: a number may have had more digits.
    #[cold]
    fn scalar_leniently(&mut self) -> Result<&'a [u8], Broken> {
        let rest = &self.text[self.at..];
        let of_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_');
        let length = rest.iter().take_while(|b| of_word(b)).count();
        if length == 0 || length == rest.len() {
            self.at += length;
            return Err(Broken);
        }
        let mut strict = Scan::new(rest);
        if strict.scalar().is_err() || strict.at != length {
            self.set_fault("JSON with a wrong value");
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// An array or object with all its content, as text. Not recursive: each level takes a byte of
    /// `stack`.
    pub fn nested(&mut self, stack: &mut Vec<u8>) -> Result<&'a [u8], Broken> {
        let begin = self.at;
        if self.mends {
            let mut strict = Scan { at: begin, ..Scan::new(self.text) };
            let Ok(found) = strict.nested(stack) else {
                let found = self.nested_leniently(stack)?;
                self.set_fault_at("JSON broken", strict.at);
                return Ok(found);
            };
            self.at = strict.at;
            return Ok(found);
        }
        stack.clear();
        'values: loop {
            self.blanks();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    self.blanks();
                    if !self.skip(open + 2) {
                        stack.push(open);
                        if open == b'{' {
                            self.key()?;
                        }
                        continue 'values;
                    }
                }
                Some(b'"') => {
                    self.at += 1;
                    self.string()?;
                }
                _ => {
                    self.scalar()?;
                }
            }
            // Behind a value: the next value, or the end of the enclosing array or object.
            while let Some(&open) = stack.last() {
                self.blanks();
                if self.skip(b',') {
                    if open == b'{' {
                        self.blanks();
                        self.key()?;
                    }
                    continue 'values;
                }
                // '}' and ']' are two code points after '{' and '['.
                self.expect(open + 2)?;
                stack.pop();
            }
            return Ok(&self.text[begin..self.at]);
        }
    }

    /// From a bracket to the matching closing one, whatever is between them.
    #[cold]
    fn nested_leniently(&mut self, stack: &mut Vec<u8>) -> Result<&'a [u8], Broken> {
        let begin = self.at;
        stack.clear();
        loop {
            let byte = self.peek().ok_or(Broken)?;
            self.at += 1;
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => stack.push(byte),
                // '}' and ']' are two code points after '{' and '['.
                b'}' | b']' if stack.pop() != Some(byte - 2) => return Err(Broken),
                _ => {}
            }
            if stack.is_empty() {
                return Ok(&self.text[begin..self.at]);
            }
        }
    }

    fn key(&mut self) -> Result<(), Broken> {
        self.expect(b'"')?;
        self.string()?;
        self.blanks();
        self.expect(b':')
    }
}

/// The next quote, backslash or control character from `at` on.
#[inline]
fn special(bytes: &[u8], at: usize) -> Option<usize> {
    // Most strings are short; longer ones are skipped in blocks.
    const NEAR_BYTES: usize = 16;
    let near = bytes.len().min(at + NEAR_BYTES);
    match special_by_eight(&bytes[..near], at) {
        Ok(found) => Some(found),
        Err(at) => special_by_blocks(bytes, at),
    }
}

fn special_by_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    // Without branches, so that it is vectorised.
    let any = |block: &[u8; 32]| {
        block.iter().fold(false, |any, b| any | (*b == b'"') | (*b == b'\\') | (*b < 0x20))
    };
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>())
        && !any(block)
    {
        at += 32;
    }
    let rest_at = match special_by_eight(bytes, at) {
        Ok(found) => return Some(found),
        Err(at) => at,
    };
    let rest = bytes.get(rest_at..)?;
    rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).map(|n| rest_at + n)
}

/// The next special byte from `at` on, or else the offset from which fewer than eight bytes are
/// left.
#[inline]
fn special_by_eight(bytes: &[u8], mut at: usize) -> Result<usize, usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The highest bit of each zero byte; bits behind the first zero byte may be wrong.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(word) = short::eight(bytes, at) {
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let slashes = zeros(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = quotes | slashes | controls;
        if found != 0 {
            return Ok(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Err(at)
}

fn number_length(text: &[u8]) -> Result<usize, Broken> {
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(text[0] == b'-');
    match digits(at) {
        0 => return Err(Broken),
        1 => at += 1,
        _ if text[at] == b'0' => return Err(Broken),
        n => at += n,
    }
    if text.get(at) == Some(&b'.') {
        match digits(at + 1) {
            0 => return Err(Broken),
            n => at += 1 + n,
        }
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        match digits(at) {
            0 => return Err(Broken),
            n => at += n,
        }
    }
    Ok(at)
}

/// Appends a validated string without its escapes.
pub(crate) fn unescape(text: &str, out: &mut String) {
    let mut bytes = std::mem::take(out).into_bytes();
    json::unescape(text.as_bytes(), &mut bytes);
    *out = String::from_utf8(bytes).expect("escapes are characters");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_are_found_at_each_place() {
        for special_byte in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for length in 0..80 {
                for filler in [b'a', 0x7f, 0x80, 0xff, b'!', b'#', b'[', b']', b' '] {
                    let mut bytes = vec![filler; length];
                    assert_eq!(special(&bytes, 0), None);
                    bytes.push(special_byte);
                    bytes.extend([filler, b'"', filler]);
                    assert_eq!(special(&bytes, 0), Some(length), "{special_byte} {filler}");
                    assert_eq!(special(&bytes, length), Some(length));
                    assert_eq!(special(&bytes, length + 3), None);
                }
            }
        }
    }

    #[test]
    fn numbers() {
        let rows = [
            ("0", Some(1)),
            ("-0.5e+3,", Some(7)),
            ("12345678901234567890.1", Some(22)),
            ("1E5]", Some(3)),
            ("01", None),
            ("-", None),
            ("1.", None),
            ("1e", None),
            ("1e+", None),
            ("0x1", Some(1)),
        ];
        for (text, length) in rows {
            assert_eq!(number_length(text.as_bytes()).ok(), length, "{text}");
        }
    }

    #[test]
    fn deep_nesting_does_not_recurse() {
        let deep = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let mut scan = Scan::new(deep.as_bytes());
        assert_eq!(scan.nested(&mut Vec::new()), Ok(deep.as_bytes()));
        let cut = "[".repeat(1_000_000);
        assert_eq!(Scan::new(cut.as_bytes()).nested(&mut Vec::new()), Err(Broken));
    }
}
