//! The export format of systemd's journal (`journalctl -o export`), and entries as
//! `journalctl -o json` writes them: an entry gives the line that following the journal gives.
//!
//! A field is `NAME=value`, or, if the value holds bytes that are not text or newlines, `NAME`, a
//! newline, the length in 8 bytes, the value and a newline. An empty line ends an entry
//! (systemd.io/JOURNAL_EXPORT_FORMATS).

use std::io::{BufRead, Read};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::dump::Unpacked;

/// Bytes of a value. Of a longer one, a memory dump for example, its length is kept.
const VALUE_BYTES_MAX: u64 = 1 << 20;
/// Fields of an entry. Further ones are left out.
const FIELDS_MAX: usize = 1000;
/// Fields that name the stream of an entry.
const STREAM_FIELDS: [&str; 2] = ["hostname", "app_name"];

/// Whether a file in the export format may begin so.
pub fn is_export(start: &[u8]) -> bool {
    start.starts_with(b"__CURSOR=") || start.starts_with(b"__REALTIME_TIMESTAMP=")
}

/// The line of an entry; `None` if it is not one.
pub fn line_of(fields: &Map<String, Value>) -> Option<Unpacked> {
    let json = serde_json::to_vec(fields).expect("its keys are text");
    let entry = collector::journald::parse_entry(&json)?;
    Some(Unpacked { line: entry.line, stream_fields: STREAM_FIELDS.map(str::to_owned).into() })
}

/// Reads the next entry; `None` at the end of the file.
pub fn next_entry(reader: &mut impl BufRead) -> Result<Option<Unpacked>> {
    let Some(mut fields) = next_fields(reader)? else { return Ok(None) };
    fields.entry("__CURSOR").or_insert_with(|| "".into());
    match line_of(&fields) {
        Some(line) => Ok(Some(line)),
        None => {
            bail!("an entry of the journal has no __REALTIME_TIMESTAMP; the file is damaged there")
        }
    }
}

fn next_fields(reader: &mut impl BufRead) -> Result<Option<Map<String, Value>>> {
    let mut fields = Map::new();
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(VALUE_BYTES_MAX).read_until(b'\n', &mut line);
        read.context("cannot read further")?;
        let whole = line.strip_suffix(b"\n");
        if whole.is_none() && line.len() as u64 == VALUE_BYTES_MAX {
            reader.skip_until(b'\n').context("cannot read further")?;
        }
        let is_end = line.is_empty();
        let line = whole.unwrap_or(&line);
        if line.is_empty() {
            match (is_end, fields.is_empty()) {
                (true, true) => return Ok(None),
                // Several empty lines.
                (false, true) => continue,
                (_, false) => return Ok(Some(fields)),
            }
        }
        let (name, value) = match memchr::memchr(b'=', line) {
            Some(at) => (&line[..at], text(&line[at + 1..])),
            None => (line, binary(reader)?),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        if fields.len() < FIELDS_MAX || name.starts_with("__") {
            // Of a field with several values, the first counts.
            fields.entry(name).or_insert(value);
        }
    }
}

/// A value with its length in front.
fn binary(reader: &mut impl BufRead) -> Result<Value> {
    let mut length = [0; 8];
    reader.read_exact(&mut length).context("the file ends within a field of the journal")?;
    let length = u64::from_le_bytes(length);
    let mut value = Vec::new();
    let kept = length.min(VALUE_BYTES_MAX);
    reader.by_ref().take(kept).read_to_end(&mut value).context("cannot read further")?;
    let mut rest = reader.by_ref().take(length - kept);
    let skipped = std::io::copy(&mut rest, &mut std::io::sink()).context("cannot read further")?;
    let mut newline = [0];
    reader.read_exact(&mut newline).context("the file ends within a field of the journal")?;
    if newline != *b"\n" || value.len() as u64 + skipped != length {
        bail!(
            "a field of the journal does not end where its length says; the file is damaged there"
        );
    }
    if length > VALUE_BYTES_MAX {
        return Ok(format!("({length} bytes, left out)").into());
    }
    Ok(text(&value))
}

/// A value as `journalctl -o json` writes it: bytes that are not text as numbers.
fn text(value: &[u8]) -> Value {
    match std::str::from_utf8(value) {
        Ok(text) => text.into(),
        Err(_) => value.iter().map(|byte| Value::from(*byte)).collect::<Vec<_>>().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn field(name: &str, value: &[u8]) -> Vec<u8> {
        let mut bytes = format!("{name}\n").into_bytes();
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
        bytes.push(b'\n');
        bytes
    }

    fn entries(bytes: &[u8]) -> Result<Vec<Value>> {
        let mut reader = Cursor::new(bytes);
        let mut found = Vec::new();
        while let Some(entry) = next_entry(&mut reader)? {
            found.push(serde_json::from_slice(&entry.line).unwrap());
        }
        Ok(found)
    }

    #[test]
    fn entries_of_the_export_format() {
        let mut bytes = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1769860800250000\n_HOSTNAME=web1\n\
            SYSLOG_IDENTIFIER=cart\nPRIORITY=3\n"
            .to_vec();
        bytes.extend(field("MESSAGE", b"two\nlines"));
        bytes.extend(field("COREDUMP", &vec![b'x'; VALUE_BYTES_MAX as usize + 1]));
        bytes.extend_from_slice(
            b"\n\n__CURSOR=s=2\n__REALTIME_TIMESTAMP=1769860801000000\nMESSAGE=a=b",
        );
        let found = entries(&bytes).unwrap();
        let get = |entry: usize, name: &str| found[entry][name].clone();
        assert_eq!(found.len(), 2);
        assert_eq!(get(0, "_msg"), "two\nlines");
        assert_eq!(get(0, "_time"), 1_769_860_800_250_000_u64);
        assert_eq!((get(0, "hostname"), get(0, "app_name")), ("web1".into(), "cart".into()));
        assert_eq!(get(0, "level"), "error");
        assert_eq!(get(0, "COREDUMP"), "(1048577 bytes, left out)");
        assert_eq!(get(1, "_msg"), "a=b");
        let mut invalid = b"__REALTIME_TIMESTAMP=1769860800250000\n".to_vec();
        invalid.extend(field("MESSAGE", b"\xff h\xc3\xa9"));
        let found = entries(&invalid).unwrap();
        assert_eq!(found[0]["_msg"], "\u{fffd} hé");
    }

    #[test]
    fn damaged_entries_are_errors() {
        let mut bytes = b"__REALTIME_TIMESTAMP=1\n".to_vec();
        bytes.extend(field("MESSAGE", b"abc"));
        for cut in 24..bytes.len() {
            assert!(entries(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(entries(b"MESSAGE=x\n\n").is_err());
    }
}
