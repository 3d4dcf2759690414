//! Entries of systemd's journal in its export format, as `systemd-journal-upload` and
//! `journalctl -o export` write them, and the line that an entry becomes.
//!
//! A field is `NAME=value`, or, if the value holds bytes that are not text or newlines, `NAME`, a
//! newline, the length in 8 bytes, the value and a newline. An empty line ends an entry
//! (systemd.io/JOURNAL_EXPORT_FORMATS).
//!
//! Fields are renamed to their syslog names; fields that only describe the position in the journal
//! are removed, and all others stay under their name. A field with several values has them as
//! lines.
//!
//! Invariants: entries do not depend on how the stream was cut into pieces, and memory depends on
//! the limits here alone, whatever lengths the stream names.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fields that describe the position in the journal. The cursor is partly random, and would be most
/// of the stored bytes.
const POSITION: [&str; 5] =
    ["__CURSOR", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "__SEQNUM", "__SEQNUM_ID"];
/// New names and the journal fields they come from; the first field that is present gives the
/// value.
const NAMES: [(&str, &[&str]); 5] = [
    ("hostname", &["_HOSTNAME"]),
    ("app_name", &["SYSLOG_IDENTIFIER", "_COMM"]),
    ("proc_id", &["_PID", "SYSLOG_PID"]),
    ("severity", &["PRIORITY"]),
    ("_msg", &["MESSAGE"]),
];
/// Words for priorities 0 to 7 (syslog.h).
const LEVELS: [&str; 8] =
    ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"];
/// The names that the fields of a stream have in a line.
pub const STREAM_FIELDS: [&str; 2] = ["hostname", "app_name"];

/// Bytes of a value, for example a memory dump.
///
/// limits.md, Lines on their way in: a value of an entry of the journal, uploaded or imported | {}
/// | its length is kept instead
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Fields of an entry, besides those of [`POSITION`].
///
/// limits.md, Lines on their way in: fields of an entry of the journal, uploaded or imported | {} |
/// further values are left out, and counted in the field `values_left_out`
const FIELDS_MAX: usize = 1000;
/// Bytes of the fields of an entry. Of values beyond them, the length is kept.
const ENTRY_BYTES_MAX: usize = 4 << 20;
/// The field that says how many values are left out without a trace of their own.
const LEFT_OUT: &str = "values_left_out";
/// The longest name; systemd refuses longer ones.
const NAME_BYTES_MAX: usize = 64;

/// The stream is not in the export format, or is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// What should be a name is none.
    #[error(
        "entry {0} is not in the export format of the journal: a line is neither empty, nor NAME=value, nor NAME"
    )]
    Name(u64),
    /// A value has another length.
    #[error("a field of entry {0} of the journal does not end where its length says")]
    Length(u64),
    /// The end is missing.
    #[error("the journal ends within entry {0}")]
    Cut(u64),
}

/// The line of an entry, a JSON object without newline, whose fields are sorted by name: the same
/// entry gives the same line when it is read again.
pub fn line_of(mut fields: BTreeMap<String, String>) -> Vec<u8> {
    let mut line: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(time) = fields.get("__REALTIME_TIMESTAMP").and_then(|time| time.parse::<u64>().ok())
    {
        line.insert("_time".into(), time.into());
    }
    for field in POSITION {
        fields.remove(field);
    }
    for (name, sources) in NAMES {
        if let Some(value) = sources.iter().find_map(|source| fields.remove(*source)) {
            line.insert(name.into(), value.into());
        }
    }
    let severity = line.get("severity").and_then(|value| value.as_str()?.parse::<usize>().ok());
    if let Some(level) = severity.and_then(|severity| LEVELS.get(severity)) {
        line.insert("level".into(), (*level).into());
    }
    for (name, value) in fields {
        line.entry(name).or_insert_with(|| value.into());
    }
    serde_json::to_vec(&line).expect("text and numbers only")
}

/// Finds the entries of a stream.
#[derive(Default)]
pub struct Entries {
    fields: BTreeMap<String, String>,
    /// Bytes of the fields.
    bytes: usize,
    /// Values that are not among them.
    left_out: u64,
    part: Part,
    /// What was read of the part.
    held: Vec<u8>,
    /// Bytes of a value that are left out.
    skipped: u64,
    /// Entries so far.
    entries: u64,
}

/// Where in an entry the stream is.
#[derive(Default)]
enum Part {
    /// In a line: empty, or a field that is text, or the name of another one.
    #[default]
    Line,
    /// In the length of a value.
    Length { name: Vec<u8> },
    /// In a value, of which this many bytes are missing.
    Value { name: Vec<u8>, missing: u64 },
    /// At the newline behind a value.
    End,
}

impl Entries {
    /// Reads on in `input` up to the end of an entry; `None` when the input is used up.
    pub fn next(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<BTreeMap<String, String>>, JournalError> {
        while !input.is_empty() {
            match &mut self.part {
                Part::Line => {
                    let newline = memchr::memchr(b'\n', input);
                    let (piece, rest) = input.split_at(newline.unwrap_or(input.len()));
                    *input = rest;
                    self.hold(piece);
                    let has_name = || memchr::memchr(b'=', &self.held).is_some();
                    if self.held.len() > NAME_BYTES_MAX && !has_name() {
                        return Err(JournalError::Name(self.entries));
                    }
                    if newline.is_some() {
                        *input = &input[1..];
                        if let Some(entry) = self.end_line()? {
                            return Ok(Some(entry));
                        }
                    }
                }
                Part::Length { name } => {
                    let wanted = 8 - self.held.len();
                    let (piece, rest) = input.split_at(wanted.min(input.len()));
                    self.held.extend_from_slice(piece);
                    *input = rest;
                    if let Ok(length) = <[u8; 8]>::try_from(&self.held[..]) {
                        let name = std::mem::take(name);
                        self.held.clear();
                        self.part = Part::Value { name, missing: u64::from_le_bytes(length) };
                        self.end_value();
                    }
                }
                Part::Value { missing, .. } => {
                    let bytes = usize::try_from(*missing).unwrap_or(usize::MAX).min(input.len());
                    let (piece, rest) = input.split_at(bytes);
                    *missing -= bytes as u64;
                    *input = rest;
                    self.hold(piece);
                    self.end_value();
                }
                Part::End => {
                    if input[0] != b'\n' {
                        return Err(JournalError::Length(self.entries));
                    }
                    *input = &input[1..];
                    self.part = Part::Line;
                }
            }
        }
        Ok(None)
    }

    /// Ends the stream: the last entry may lack its empty line, and a text at its end its newline.
    pub fn end(&mut self) -> Result<Option<BTreeMap<String, String>>, JournalError> {
        match self.part {
            Part::Line if memchr::memchr(b'=', &self.held).is_some() => {
                self.end_line()?;
            }
            Part::Line if self.held.is_empty() => {}
            _ => return Err(JournalError::Cut(self.entries)),
        }
        Ok(self.end_entry())
    }

    /// Bytes of memory held, about.
    pub fn bytes_held(&self) -> usize {
        self.bytes + self.held.capacity()
    }

    /// Appends to what is held, but no more than a name and a value of full length.
    fn hold(&mut self, piece: &[u8]) {
        let room = (NAME_BYTES_MAX + VALUE_BYTES_MAX + 1).saturating_sub(self.held.len());
        let (kept, left_out) = piece.split_at(room.min(piece.len()));
        self.held.extend_from_slice(kept);
        self.skipped += left_out.len() as u64;
    }

    fn end_line(&mut self) -> Result<Option<BTreeMap<String, String>>, JournalError> {
        let line = std::mem::take(&mut self.held);
        if line.is_empty() {
            return Ok(self.end_entry());
        }
        match memchr::memchr(b'=', &line) {
            Some(at) => self.add(&line[..at], &line[at + 1..]),
            None => self.part = Part::Length { name: line },
        }
        Ok(None)
    }

    /// Adds the value if all of it was read.
    fn end_value(&mut self) {
        if let Part::Value { name, missing: 0 } = &mut self.part {
            let (name, value) = (std::mem::take(name), std::mem::take(&mut self.held));
            self.add(&name, &value);
            self.part = Part::End;
        }
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        let bytes = value.len() as u64 + std::mem::take(&mut self.skipped);
        let mut value = String::from_utf8_lossy(value);
        let is_full = self.bytes + name.len() + value.len() > ENTRY_BYTES_MAX;
        if bytes > VALUE_BYTES_MAX as u64 || is_full {
            value = format!("({bytes} bytes, left out)").into();
        }
        let name = String::from_utf8_lossy(name);
        if self.fields.len() >= FIELDS_MAX && !POSITION.contains(&name.as_ref()) {
            self.left_out += 1;
            return;
        }
        match self.fields.get_mut(name.as_ref()) {
            None => {
                self.bytes += name.len() + value.len();
                self.fields.insert(name.into_owned(), value.into_owned());
            }
            Some(_) if is_full => self.left_out += 1,
            Some(values) => {
                self.bytes += 1 + value.len();
                values.push('\n');
                values.push_str(&value);
            }
        }
    }

    fn end_entry(&mut self) -> Option<BTreeMap<String, String>> {
        self.bytes = 0;
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            self.fields.insert(LEFT_OUT.to_owned(), left_out.to_string());
        }
        let fields = std::mem::take(&mut self.fields);
        self.entries += u64::from(!fields.is_empty());
        Some(fields).filter(|fields| !fields.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &[u8]) -> Vec<u8> {
        let length = (value.len() as u64).to_le_bytes();
        [name.as_bytes(), b"\n", &length, value, b"\n"].concat()
    }

    /// The lines of a stream in pieces of `bytes` bytes.
    fn lines(stream: &[u8], bytes: usize) -> (String, Result<(), JournalError>) {
        let (mut entries, mut found) = (Entries::default(), Vec::new());
        let mut add = |entry| {
            found.extend(line_of(entry));
            found.push(b'\n');
        };
        let mut result = Ok(());
        'stream: for mut piece in stream.chunks(bytes) {
            loop {
                match entries.next(&mut piece) {
                    Ok(Some(entry)) => add(entry),
                    Ok(None) => break,
                    Err(error) => {
                        result = Err(error);
                        break 'stream;
                    }
                }
            }
        }
        if result.is_ok() {
            match entries.end() {
                Ok(entry) => entry.into_iter().for_each(add),
                Err(error) => result = Err(error),
            }
        }
        (String::from_utf8(found).unwrap(), result)
    }

    #[track_caller]
    fn check(stream: &[u8], expected: &str, result: Result<(), JournalError>) {
        for bytes in 1..=stream.len().clamp(1, 200) {
            assert_eq!(lines(stream, bytes), (expected.to_owned(), result), "by {bytes}");
        }
    }

    #[test]
    fn entries_become_lines_however_they_are_cut() {
        let stream = [
            b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1769860800250000\n_HOSTNAME=web1\n"[..].to_vec(),
            b"SYSLOG_IDENTIFIER=cart\n_COMM=java\nPRIORITY=3\nN=1\nN=2\n".to_vec(),
            field("MESSAGE", b"two\n\nlines=\xff"),
            field("EMPTY", b""),
            b"\n\n\n__CURSOR=s=2\nMESSAGE=a=b\n".to_vec(),
        ]
        .concat();
        let expected = "{\"EMPTY\":\"\",\"N\":\"1\\n2\",\"_COMM\":\"java\",\"_msg\":\"two\\n\\nlines=\u{fffd}\",\
            \"_time\":1769860800250000,\"app_name\":\"cart\",\"hostname\":\"web1\",\"level\":\"error\",\
            \"severity\":\"3\"}\n{\"_msg\":\"a=b\"}\n";
        check(&stream, expected, Ok(()));
        check(&stream[..stream.len() - 1], expected, Ok(()));
        check(b"", "", Ok(()));
        check(b"\n\n", "", Ok(()));
    }

    #[test]
    fn damage_is_an_error_behind_the_entries_before_it() {
        let whole = b"MESSAGE=a\n\n";
        let line = "{\"_msg\":\"a\"}\n";
        let behind = |rest: &[u8]| [whole, rest].concat();
        let long_name = "X".repeat(NAME_BYTES_MAX + 1);
        check(&behind(long_name.as_bytes()), line, Err(JournalError::Name(1)));
        check(&behind(b"A\n\x01\0\0\0\0\0\0\0ab\n\n"), line, Err(JournalError::Length(1)));
        let cuts = [&b"A"[..], b"A\n\x01\0", b"A\n\x02\0\0\0\0\0\0\0a", b"A\n\x01\0\0\0\0\0\0\0a"];
        for cut in cuts {
            check(&behind(cut), line, Err(JournalError::Cut(1)));
        }
    }

    #[test]
    fn fields_beyond_the_limit_are_counted() {
        let mut entry = Vec::new();
        for n in 0..FIELDS_MAX {
            entry.extend(format!("F{n}=v\n").into_bytes());
        }
        // Names with underscores have no more room than others, save for those of the position.
        entry.extend(b"__A=v\n__B=v\nF0=w\n__REALTIME_TIMESTAMP=7\n\nMESSAGE=next\n\n");
        let (mut entries, mut rest) = (Entries::default(), &entry[..]);
        let fields = entries.next(&mut rest).unwrap().unwrap();
        assert_eq!(fields.len(), FIELDS_MAX + 2);
        assert_eq!((&fields[LEFT_OUT][..], &fields["F0"][..]), ("3", "v"));
        assert_eq!(fields["__REALTIME_TIMESTAMP"], "7");
        let next = entries.next(&mut rest).unwrap().unwrap();
        assert_eq!(next.into_keys().collect::<Vec<_>>(), ["MESSAGE"]);
    }

    #[test]
    fn memory_is_bounded_whatever_the_lengths() {
        let huge = [&b"CORE\n"[..], &u64::MAX.to_le_bytes()].concat();
        let (mut entries, piece) = (Entries::default(), vec![b'x'; 64 << 10]);
        assert_eq!(entries.next(&mut &huge[..]), Ok(None));
        for _ in 0..100 {
            assert_eq!(entries.next(&mut &piece[..]), Ok(None));
            assert!(entries.bytes_held() <= 4 * VALUE_BYTES_MAX);
        }
        let mut entries = Entries::default();
        let long = vec![b'x'; VALUE_BYTES_MAX];
        for n in 0..20 {
            let field = field(&format!("A{n}"), &long);
            assert_eq!(entries.next(&mut &field[..]), Ok(None));
            assert!(entries.bytes_held() <= ENTRY_BYTES_MAX + 3 * VALUE_BYTES_MAX);
        }
        let fields = entries.next(&mut &b"\n"[..]).unwrap().unwrap();
        assert_eq!(fields["A0"].len(), VALUE_BYTES_MAX);
        assert_eq!(fields["A19"], "(1048576 bytes, left out)");
        let longer = [&b"A="[..], &long, b"x\n\n"].concat();
        let fields = Entries::default().next(&mut &longer[..]).unwrap().unwrap();
        assert_eq!(fields["A"], "(1048577 bytes, left out)");
    }
}
