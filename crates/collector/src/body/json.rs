//! Walks over JSON where it stands: members, items and values as slices of the text.
//!
//! The text was checked by `serde_json` before; what walks over it relies on that for its results,
//! but not for its safety. Strings are given as they are written, escapes and quotes included.

use serde::de::IgnoredAny;

/// What should be JSON is none, or no object where one should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The objects of a body: one after the other, or elements of arrays.
pub(super) struct Objects<'b> {
    /// What is not read yet.
    rest: &'b [u8],
    /// Elements of the array that is read, from the next one on.
    list: Option<Items<'b>>,
}

impl<'b> Objects<'b> {
    pub(super) fn of(body: &'b [u8]) -> Objects<'b> {
        Objects { rest: body, list: None }
    }

    /// The text of the next object.
    pub(super) fn next(&mut self) -> Result<Option<&'b [u8]>, Broken> {
        loop {
            if let Some(item) = self.list.as_mut().and_then(Iterator::next) {
                return if first(item) == Some(b'{') { Ok(Some(item)) } else { Err(Broken) };
            }
            self.list = None;
            match first(self.rest) {
                None => return Ok(None),
                Some(b'{' | b'[') => {}
                Some(_) => return Err(Broken),
            }
            let value = take_checked(&mut self.rest).ok_or(Broken)?;
            if first(value) == Some(b'{') {
                return Ok(Some(value));
            }
            self.list = Some(Items::of(value));
        }
    }
}

/// Appends the objects of a body as lines, up to the first thing that is none; whether it is all.
pub fn write_objects(body: &[u8], out: &mut Vec<u8>) -> bool {
    let mut objects = Objects::of(body);
    loop {
        match objects.next() {
            Ok(Some(object)) => {
                write_in_a_line(object, out);
                out.push(b'\n');
            }
            Ok(None) => return true,
            Err(Broken) => return false,
        }
    }
}

/// Takes a whole value from the front, which is JSON as far as `serde_json` sees.
fn take_checked<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let (value, behind) = rest.split_at(values.byte_offset());
    std::str::from_utf8(value).ok()?;
    *rest = behind;
    Some(value)
}

/// Appends a member, whose key is written as it is.
pub(super) fn write_member(key: &[u8], value: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":");
    value(out);
}

/// Appends JSON whose newlines, which are outside of texts, become blanks.
pub(super) fn write_in_a_line(json: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(json);
    for byte in &mut out[begin..] {
        if *byte < b' ' {
            *byte = b' ';
        }
    }
}

/// Appends a number.
pub(super) fn write_number(number: impl std::fmt::Display, out: &mut Vec<u8>) {
    use std::io::Write;
    write!(out, "{number}").expect("memory takes everything");
}

/// Numbers that JSON has not are texts, as in the JSON of protobuf.
pub(super) fn write_double(number: f64, out: &mut Vec<u8>) {
    use std::io::Write;
    let written = match number {
        _ if number.is_nan() => write!(out, "\"NaN\""),
        _ if number.is_infinite() && number > 0.0 => write!(out, "\"Infinity\""),
        _ if number.is_infinite() => write!(out, "\"-Infinity\""),
        _ if number != 0.0 && !(1e-7..1e17).contains(&number.abs()) => write!(out, "{number:e}"),
        _ => write!(out, "{number}"),
    };
    written.expect("memory takes everything");
}

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
