//! The grammar of JSON (RFC 8259) over a text: strings, numbers, literals, nested values.
//!
//! Positions only ever stop next to ASCII bytes, so that slices of a text that is UTF-8 are so too. That it is, is
//! for the caller to see.

use super::short;

/// The text is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A place in a text.
pub(crate) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Scan { text, at: 0 }
    }

    /// Bytes in front of this place.
    #[inline]
    pub fn place(&self) -> u32 {
        self.at as u32
    }

    /// A part of the text by its place and length.
    pub fn part(&self, at: u32, length: u32) -> &'a [u8] {
        &self.text[at as usize..][..length as usize]
    }

    /// Passes over `text` if it stands here; the part passed over.
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

    /// Whether an object without members stands here.
    pub fn at_empty_object(&self) -> bool {
        let rest = self.text[self.at..].strip_prefix(b"{").unwrap_or_default();
        rest.iter().find(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r')) == Some(&b'}')
    }

    /// The rest of a string whose opening quote is behind us, still escaped, and whether it has escapes.
    #[inline]
    pub fn string(&mut self) -> Result<(&'a [u8], bool), Broken> {
        let bytes = self.text;
        let begin = self.at;
        let mut escaped = false;
        loop {
            self.at = special(bytes, self.at).ok_or(Broken)?;
            match bytes[self.at] {
                b'"' => {
                    let text = &self.text[begin..self.at];
                    self.at += 1;
                    return Ok((text, escaped));
                }
                b'\\' => {
                    escaped = true;
                    self.at += match bytes.get(self.at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') => {
                            let digits = bytes.get(self.at + 2..self.at + 6).ok_or(Broken)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(Broken);
                            }
                            6
                        }
                        _ => return Err(Broken),
                    };
                }
                _ => return Err(Broken), // a control character
            }
        }
    }

    /// A number or literal.
    #[inline]
    pub fn scalar(&mut self) -> Result<&'a [u8], Broken> {
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

    /// An array or object with all that is in it, as text. Not recursive: depth costs a byte of `stack` a level.
    pub fn nested(&mut self, stack: &mut Vec<u8>) -> Result<&'a [u8], Broken> {
        let begin = self.at;
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
            // Behind a value: the next one, or the ends of what it is in.
            while let Some(&open) = stack.last() {
                self.blanks();
                if self.skip(b',') {
                    if open == b'{' {
                        self.blanks();
                        self.key()?;
                    }
                    continue 'values;
                }
                // '}' and ']' are two behind '{' and '['.
                self.expect(open + 2)?;
                stack.pop();
            }
            return Ok(&self.text[begin..self.at]);
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
    // Most strings are short; the longer ones are passed over by blocks.
    const NEAR_BYTES: usize = 16;
    let near = bytes.len().min(at + NEAR_BYTES);
    match special_by_eight(&bytes[..near], at) {
        Ok(found) => Some(found),
        Err(at) => special_by_blocks(bytes, at),
    }
}

fn special_by_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    // Without a branch in between, so that it becomes vector code.
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

/// The next special byte from `at` on, or else the place from where on there are not eight bytes.
#[inline]
fn special_by_eight(bytes: &[u8], mut at: usize) -> Result<usize, usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The highest bit of each byte that is zero; bytes behind a zero byte may be wrong, the first is right.
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

/// Appends a checked string without its escapes.
pub(crate) fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let letter = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        out.push(match letter {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (character, length) = unicode(rest);
                rest = &rest[length..];
                character
            }
            other => char::from(other),
        });
    }
    out.push_str(rest);
}

/// The character of four hexadecimal digits, or of eight as a pair `dddd\udddd`, and the bytes taken; half a pair is
/// U+FFFD.
fn unicode(text: &str) -> (char, usize) {
    let unit = |at: usize| u32::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let first = unit(0).expect("checked by the scan");
    if let Some(character) = char::from_u32(first) {
        return (character, 4);
    }
    if first < 0xdc00
        && text[4..].starts_with("\\u")
        && let Some(second @ 0xdc00..0xe000) = unit(6)
    {
        let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(point).expect("pairs are valid"), 10);
    }
    (char::REPLACEMENT_CHARACTER, 4)
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
    fn escapes() {
        let rows = [
            (r"a\nb", "a\nb"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u00e9\ud83d\ude00!", "é😀!"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        ];
        for (text, expected) in rows {
            let mut out = String::new();
            unescape(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let mut scan = Scan::new(deep.as_bytes());
        assert_eq!(scan.nested(&mut Vec::new()), Ok(deep.as_bytes()));
        let cut = "[".repeat(1_000_000);
        assert_eq!(Scan::new(cut.as_bytes()).nested(&mut Vec::new()), Err(Broken));
    }
}
