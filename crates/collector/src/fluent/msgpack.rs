//! Reads MessagePack where it lies, and writes its values as JSON.
//!
//! Own code, because a value goes from its bytes to the text of a line in one pass: `rmp` reads
//! single heads and leaves the rest to its caller, and `rmp-serde` would build each value, or
//! fail for keys that are no texts and texts that are no UTF-8, which Ruby sends.
//!
//! Invariants: no length or count is trusted before the bytes are there, memory grows only with
//! the bytes that came, and recursion ends at [`DEPTH_MAX`]. The end of a value is found without
//! recursion, however deep it is: so a record that is nested too deeply is rejected alone, and the
//! other records of its message are kept. Source: the specification of MessagePack of 2017.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use text::json::write_text;
use text::time::write_time;

/// Values within values of a record. Records that are nested more deeply are rejected.
///
/// limits.md, Lines on their way in: values within values of a record of Fluent forward | {} | the
/// record is rejected and counted as `bad_request`
pub const DEPTH_MAX: usize = 32;
/// Levels that a key takes which is an array or a map. Its JSON is a text within JSON, where each
/// quote gets twice as many backslashes as in the text; so a key within a key is too deep.
const KEY_LEVELS: usize = DEPTH_MAX / 2 + 1;

/// Bytes that are no MessagePack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A value without its content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head {
    /// No value.
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number of 32 bits.
    Float32(f32),
    /// A number of 64 bits.
    Float64(f64),
    /// A text of so many bytes.
    Text(usize),
    /// So many bytes.
    Bytes(usize),
    /// So many values.
    Array(usize),
    /// So many keys, each with a value.
    Map(usize),
    /// A type and so many bytes.
    Extension(i8, usize),
}

impl Head {
    /// Bytes of the content that are no values.
    fn content_bytes(self) -> usize {
        match self {
            Head::Text(bytes) | Head::Bytes(bytes) | Head::Extension(_, bytes) => bytes,
            _ => 0,
        }
    }

    /// Values of the content.
    fn values(self) -> u64 {
        match self {
            Head::Array(values) => values as u64,
            Head::Map(pairs) => 2 * pairs as u64,
            _ => 0,
        }
    }
}

/// The head at the start of `bytes` and its length; `None` if it is not whole.
pub fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Broken> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let number = |bytes_of: usize| {
        let number = bytes.get(1..1 + bytes_of)?;
        Some(number.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let size = |bytes_of: usize| number(bytes_of).map(|size| size as usize);
    let extension = |bytes_of: usize, size: usize| {
        let kind = *bytes.get(1 + bytes_of)?;
        Some((Head::Extension(kind as i8, size), 2 + bytes_of))
    };
    let found = match first {
        0..=0x7f => Some((Head::Int(i128::from(first)), 1)),
        0x80..=0x8f => Some((Head::Map(usize::from(first & 15)), 1)),
        0x90..=0x9f => Some((Head::Array(usize::from(first & 15)), 1)),
        0xa0..=0xbf => Some((Head::Text(usize::from(first & 31)), 1)),
        0xc0 => Some((Head::Nil, 1)),
        0xc1 => return Err(Broken),
        0xc2 | 0xc3 => Some((Head::Bool(first == 0xc3), 1)),
        0xc4..=0xc6 => {
            let width = 1 << (first - 0xc4);
            size(width).map(|size| (Head::Bytes(size), 1 + width))
        }
        0xc7..=0xc9 => {
            let width = 1 << (first - 0xc7);
            size(width).and_then(|size| extension(width, size))
        }
        0xca => number(4).map(|bits| (Head::Float32(f32::from_bits(bits as u32)), 5)),
        0xcb => number(8).map(|bits| (Head::Float64(f64::from_bits(bits)), 9)),
        0xcc..=0xcf => {
            let width = 1 << (first - 0xcc);
            number(width).map(|number| (Head::Int(i128::from(number)), 1 + width))
        }
        0xd0..=0xd3 => {
            let width = 1 << (first - 0xd0);
            let unused = 64 - 8 * width as u32;
            let signed = |number: u64| i128::from((number << unused) as i64 >> unused);
            number(width).map(|number| (Head::Int(signed(number)), 1 + width))
        }
        0xd4..=0xd8 => extension(0, 1 << (first - 0xd4)),
        0xd9..=0xdb => {
            let width = 1 << (first - 0xd9);
            size(width).map(|size| (Head::Text(size), 1 + width))
        }
        0xdc | 0xdd => {
            let width = 2 << (first - 0xdc);
            size(width).map(|size| (Head::Array(size), 1 + width))
        }
        0xde | 0xdf => {
            let width = 2 << (first - 0xde);
            size(width).map(|size| (Head::Map(size), 1 + width))
        }
        0xe0.. => Some((Head::Int(i128::from(first as i8)), 1)),
    };
    Ok(found)
}

/// Looks for the end of a value that arrives piece by piece, without looking at a byte twice.
#[derive(Debug)]
pub struct Scan {
    /// Where the next head is, from the start of the value.
    at: usize,
    /// Values that are not passed yet.
    left: u64,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan { at: 0, left: 1 }
    }
}

impl Scan {
    /// The end of the value at the start of `bytes`; `None` if it is not whole. `bytes` are those
    /// of the last call, and perhaps more.
    pub fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        while self.left > 0 {
            let Some((head, length)) = head(bytes.get(self.at..).unwrap_or_default())? else {
                return Ok(None);
            };
            self.at = self.at.saturating_add(length).saturating_add(head.content_bytes());
            self.left = self.left.saturating_add(head.values()) - 1;
        }
        Ok((self.at <= bytes.len()).then_some(self.at))
    }
}

/// A whole value in bytes that are all there.
pub fn take_value<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], Broken> {
    let end = Scan::default().end(rest)?.ok_or(Broken)?;
    let (value, behind) = rest.split_at(end);
    *rest = behind;
    Ok(value)
}

/// Takes a head.
pub fn take_head(rest: &mut &[u8]) -> Result<Head, Broken> {
    let (head, length) = head(rest)?.ok_or(Broken)?;
    *rest = &rest[length..];
    Ok(head)
}

/// Takes content.
pub fn take_bytes<'b>(rest: &mut &'b [u8], bytes: usize) -> Result<&'b [u8], Broken> {
    let (taken, behind) = rest.split_at_checked(bytes).ok_or(Broken)?;
    *rest = behind;
    Ok(taken)
}

/// Takes a text, or bytes that stand for one; `None` if it is another value.
pub fn take_text<'b>(rest: &mut &'b [u8]) -> Result<Option<&'b [u8]>, Broken> {
    match head(rest)?.ok_or(Broken)? {
        (Head::Text(bytes) | Head::Bytes(bytes), length) => {
            *rest = &rest[length..];
            take_bytes(rest, bytes).map(Some)
        }
        _ => {
            take_value(rest)?;
            Ok(None)
        }
    }
}

/// Why a value is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// It is no MessagePack.
    Broken,
    /// It is nested more than [`DEPTH_MAX`] deep.
    Deep,
    /// What a group states is more than is written with each of its events.
    Large,
}

impl From<Broken> for Unwritten {
    fn from(_: Broken) -> Unwritten {
        Unwritten::Broken
    }
}

/// Takes a value, and appends it as JSON. Bytes are a text if they are UTF-8, a time of Fluentd is
/// one by RFC 3339, and any other extension is Base64.
pub fn write_value(rest: &mut &[u8], depth: usize, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    if depth > DEPTH_MAX {
        return Err(Unwritten::Deep);
    }
    match take_head(rest)? {
        Head::Nil => out.extend_from_slice(b"null"),
        Head::Bool(true) => out.extend_from_slice(b"true"),
        Head::Bool(false) => out.extend_from_slice(b"false"),
        Head::Int(number) => write!(out, "{number}").expect("memory takes all"),
        Head::Float32(number) => write_float(number.is_finite(), number, out),
        Head::Float64(number) => write_float(number.is_finite(), number, out),
        Head::Text(bytes) | Head::Bytes(bytes) => write_lossy(take_bytes(rest, bytes)?, out),
        Head::Extension(kind, bytes) => {
            let content = take_bytes(rest, bytes)?;
            out.push(b'"');
            match event_time(kind, content) {
                Some(time_ns) => write_time(time_ns, out),
                None => out.extend_from_slice(BASE64.encode(content).as_bytes()),
            }
            out.push(b'"');
        }
        Head::Array(values) => {
            out.push(b'[');
            for index in 0..values {
                if index > 0 {
                    out.push(b',');
                }
                write_value(rest, depth + 1, out)?;
            }
            out.push(b']');
        }
        Head::Map(pairs) => {
            out.push(b'{');
            for index in 0..pairs {
                if index > 0 {
                    out.push(b',');
                }
                write_key(rest, depth, out)?;
                out.push(b':');
                write_value(rest, depth + 1, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Takes a key. One that is no text is the text of its JSON; an array or a map takes
/// [`KEY_LEVELS`].
pub fn write_key(rest: &mut &[u8], depth: usize, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let mut key = take_value(rest)?;
    let value = key;
    match take_head(&mut key)? {
        Head::Text(bytes) | Head::Bytes(bytes) => write_lossy(take_bytes(&mut key, bytes)?, out),
        head => {
            let levels = if head.values() > 0 { KEY_LEVELS } else { 1 };
            let mut json = Vec::new();
            write_value(&mut &*value, depth + levels, &mut json)?;
            let is_text = json.first() == Some(&b'"');
            match is_text {
                true => out.append(&mut json),
                false => write_text(&json, out),
            }
        }
    }
    Ok(())
}

fn write_float(
    is_finite: bool,
    number: impl serde::Serialize + std::fmt::Display,
    out: &mut Vec<u8>,
) {
    match is_finite {
        true => serde_json::to_writer(out, &number).expect("memory takes all"),
        false => write!(out, "\"{number}\"").expect("memory takes all"),
    }
}

/// Appends a text in quotes.
pub fn write_lossy(text: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(text) {
        Ok(_) => write_text(text, out),
        Err(_) => write_text(String::from_utf8_lossy(text).as_bytes(), out),
    }
}

/// The time of Fluentd's extension `EventTime`, nanoseconds since 1970.
pub fn event_time(kind: i8, content: &[u8]) -> Option<i64> {
    let content: [u8; 8] = content.try_into().ok().filter(|_| kind == 0)?;
    let number = u64::from_be_bytes(content);
    let (seconds, ns) = (number >> 32, number & 0xffff_ffff);
    (ns < 1_000_000_000).then_some(seconds as i64 * 1_000_000_000 + ns as i64)
}
