//! The export format of systemd's journal (`journalctl -o export`), and entries as
//! `journalctl -o json` writes them: an entry gives the line that following the journal gives.

use std::io::BufRead;

use anyhow::{Context, Result, bail};
use collector::body::journal::{self, Entries, STREAM_FIELDS};
use serde_json::{Map, Value};

use super::dump::Unpacked;

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
pub fn next_entry(reader: &mut impl BufRead, entries: &mut Entries) -> Result<Option<Unpacked>> {
    loop {
        let piece = reader.fill_buf().context("cannot read further")?;
        let mut rest = piece;
        let (entry, is_end) = match piece.is_empty() {
            true => (entries.end()?, true),
            false => (entries.next(&mut rest)?, false),
        };
        let used = piece.len() - rest.len();
        reader.consume(used);
        match entry {
            Some(fields) if !fields.contains_key("__REALTIME_TIMESTAMP") => {
                bail!(
                    "an entry of the journal has no __REALTIME_TIMESTAMP; the file is damaged there"
                )
            }
            Some(fields) => {
                let stream_fields = STREAM_FIELDS.map(str::to_owned).into();
                return Ok(Some(Unpacked { line: journal::line_of(fields), stream_fields }));
            }
            None if is_end => return Ok(None),
            None => {}
        }
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
        let (mut reader, mut read) = (Cursor::new(bytes), Entries::default());
        let mut found = Vec::new();
        while let Some(entry) = next_entry(&mut reader, &mut read)? {
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
        bytes.extend(field("COREDUMP", &vec![b'x'; journal::VALUE_BYTES_MAX + 1]));
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
