//! Walks over JSON where it stands: members, items and values as slices of the text.
//!
//! The text was checked by `serde_json` before; what walks over it relies on that for its results,
//! but not for its safety. Strings are given as they are written, escapes and quotes included.

/// The first byte that is no white space.
pub(super) fn first(content: &[u8]) -> Option<u8> {
    content.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

/// The members of an object: keys without their quotes, values without white space around them.
pub(super) struct Members<'b>(&'b [u8]);

impl<'b> Members<'b> {
    pub(super) fn of(object: &'b [u8]) -> Members<'b> {
        Members(object.trim_ascii_start().strip_prefix(b"{").unwrap_or_default())
    }
}

impl<'b> Iterator for Members<'b> {
    type Item = (&'b [u8], &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = take_value(self.0)?;
        let key = key.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let rest = rest.trim_ascii_start().strip_prefix(b":")?;
        let (value, rest) = take_value(rest)?;
        self.0 = rest;
        Some((key, value))
    }
}

/// The values of a list.
pub(super) struct Items<'b>(&'b [u8]);

impl<'b> Items<'b> {
    pub(super) fn of(list: &'b [u8]) -> Items<'b> {
        Items(list.trim_ascii_start().strip_prefix(b"[").unwrap_or_default())
    }
}

impl<'b> Iterator for Items<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let (value, rest) = take_value(self.0)?;
        self.0 = rest;
        Some(value)
    }
}

/// The value at the start, behind a comma if there is one, and what follows it.
fn take_value(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let content = content.trim_ascii_start();
    let content = content.strip_prefix(b",").map_or(content, <[u8]>::trim_ascii_start);
    let end = match content.first()? {
        b'"' => string_end(content)?,
        b'{' | b'[' => nested_end(content)?,
        b'}' | b']' => return None,
        _ => {
            let is_end =
                |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            content.iter().position(is_end).unwrap_or(content.len())
        }
    };
    Some(content.split_at(end))
}

/// Where the string at the start ends.
fn string_end(content: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', content.get(at..)?)?;
        match content[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Where the object or list at the start ends.
fn nested_end(content: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    loop {
        match content.get(at)? {
            b'"' => at += string_end(&content[at..])?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}
