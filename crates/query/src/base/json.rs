//! Writes JSON: what functions and pipes put into one value, counted.

use text::json::{text_bytes, write_text};

use crate::base::{Buffer, Meter, RunError};

/// For a shorter text, room is made for its longest escaped form, without counting the bytes that
/// need an escape.
const TEXT_BYTES_FEW: usize = 1 << 10;

/// Appends a text as [`write_text`] does, counted before.
pub(crate) fn put_text(text: &[u8], out: &mut Buffer, meter: &mut Meter) -> Result<(), RunError> {
    let most = match text.len() > TEXT_BYTES_FEW {
        true => text_bytes(text),
        false => 6 * text.len() + 2,
    };
    write_text(text, out.room(most, meter)?);
    Ok(())
}

/// Appends a member as [`write_member`] does, after counting the memory.
pub(crate) fn put_member(
    name: &str,
    value: &[u8],
    out: &mut Buffer,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let out = match name.len() + value.len() > TEXT_BYTES_FEW {
        true => out.room(text_bytes(name.as_bytes()) + text_bytes(value) + 2, meter)?,
        false => out.room(6 * (name.len() + value.len()) + 6, meter)?,
    };
    write_member(name, value, out);
    Ok(())
}

/// Appends a member of an object behind the others, or behind its `{`.
pub(crate) fn write_member(name: &str, value: &[u8], out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_text(name.as_bytes(), out);
    out.push(b':');
    write_text(value, out);
}
