//! Writing the fields of a row: own names by number, names from the line by text.
//!
//! Own names are looked up once a batch. What a line brings keeps its name and its value, also
//! where Loginson gives lines a field of that name: then that one is left out, or is put elsewhere
//! ([`Rows::put_beside`]). Such a row is marked, since it has less in common with others
//! ([`Rows::is_apart`]).
//!
//! Invariant: whatever the line has, there is room for all own fields of a row and all own names of
//! a batch.

use crate::batch::{BatchBuilder, FieldId, ROW_FIELDS_MAX};
use crate::frame::Line;

/// Bytes of the name of a field. A key that is longer, the keys around it included, is only in the
/// raw line, with a note: the name of an object stands before those of all its members, so that a
/// line would grow by a thousand times.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Fields of a row that are kept free for Loginson's own. Keys of a line get [`ROW_FIELDS_MAX`]
/// less these.
pub const OWN_FIELDS_MAX: usize = 64;
/// Extra fields of an origin that its lines get; each costs memory for each line, be it empty.
/// Lines with more are noted.
pub const EXTRA_FIELDS_MAX: usize = 32;
/// Keys of a line that become fields; a line with more is noted and the rest is only in the raw
/// line.
pub const LINE_KEYS_MAX: usize = ROW_FIELDS_MAX - OWN_FIELDS_MAX;

macro_rules! own_names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The field names that parsers give themselves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Own { $($variant),+ }
        const OWN_NAMES: &[&str] = &[$($name),+];
    };
}

own_names! {
    Type = "_type", Msg = "_msg", Severe = "_level", Level = "level", Note = "_note",
    Priority = "priority", Facility = "facility", FacilityKeyword = "facility_keyword",
    Severity = "severity", Format = "format", Hostname = "hostname", AppName = "app_name",
    ProcId = "proc_id", MsgId = "msg_id", Sequence = "sequence",
    Vhost = "vhost", ClientIp = "client_ip", Ident = "ident", User = "user", Method = "method",
    Path = "path", Protocol = "protocol", Request = "request", Status = "status", Bytes = "bytes",
    Referer = "referer", UserAgent = "user_agent", RemoteIp = "_remote_ip", File = "_file",
}

/// The level, and keys of JSON objects that say it where there is none.
pub(crate) const LEVEL_KEYS: [&str; 4] = ["level", "severity", "lvl", "log.level"];

const OWN_COUNT: usize = OWN_NAMES.len();
const _: () = assert!(OWN_COUNT + EXTRA_FIELDS_MAX <= OWN_FIELDS_MAX);

/// Notes of one line that are told apart; what fails beyond them is not noted.
const NOTES_MAX: usize = 4;

/// A batch being built, and the row of it that is being written.
pub(crate) struct Rows<'f> {
    pub builder: BatchBuilder,
    line: &'f [u8],
    ids: [Option<FieldId>; OWN_COUNT],
    /// The numbers of [`LEVEL_KEYS`], as far as they are names, when there were so many names to be
    /// had.
    level_keys: [Option<FieldId>; LEVEL_KEYS.len()],
    level_keys_left: usize,
    apart: bool,
    /// The time was said by a key that was named for it.
    named_time: bool,
    /// Each with the place it is of, in bytes of the line, if it is of one.
    notes: [(&'static str, Option<u32>); NOTES_MAX],
    notes_count: usize,
}

impl<'f> Rows<'f> {
    pub fn new(builder: BatchBuilder) -> Self {
        Rows {
            builder,
            line: b"",
            ids: [None; OWN_COUNT],
            level_keys: [None; LEVEL_KEYS.len()],
            level_keys_left: usize::MAX,
            apart: false,
            named_time: false,
            notes: [("", None); NOTES_MAX],
            notes_count: 0,
        }
    }

    pub fn begin(&mut self, line: &Line<'f>) {
        self.builder.begin_row(line);
        self.line = line.bytes;
        self.notes_count = 0;
        self.apart = false;
        self.named_time = false;
    }

    /// Takes fields and notes back, to parse the line in another way.
    pub fn clear(&mut self) {
        self.builder.clear_fields();
        self.notes_count = 0;
        self.apart = false;
        self.named_time = false;
    }

    /// Marks the row as one whose message brings a name of those that are given to lines.
    #[inline]
    pub fn set_apart(&mut self) {
        self.apart = true;
    }

    /// Whether it is marked so: it shares no fields with other rows.
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Remembers that a key that was named for the time has said it.
    #[inline]
    pub fn set_named_time(&mut self, named: bool) {
        self.named_time = named;
    }

    /// Whether it has: then no other time counts.
    #[inline]
    pub fn has_named_time(&self) -> bool {
        self.named_time
    }

    /// Whether the row has a value under an own name already: one that the line brought.
    #[inline]
    pub fn has(&self, own: Own) -> bool {
        let id = self.ids[own as usize].or_else(|| self.builder.known_id(OWN_NAMES[own as usize]));
        id.and_then(|id| self.builder.get(id)).is_some_and(|value| !value.is_empty())
    }

    /// The name under which something of the head is put in a row apart: its own, or that behind
    /// `syslog.` where the message brings another value under its own. None: it brings the same, or
    /// there are too many names.
    pub fn put_beside(&mut self, own: Own, value: &[u8]) -> Option<FieldId> {
        let id = self.id(own);
        match self.builder.get(id) {
            None | Some(b"") => Some(id),
            Some(same) if same == value => None,
            Some(_) => self.key_id(&format!("syslog.{}", OWN_NAMES[own as usize])),
        }
    }

    /// Writes the notes and closes the row.
    pub fn end(&mut self) {
        if self.builder.overflowed() {
            self.note("too many fields, or a name too long; the rest is only in the raw line");
        }
        if self.notes_count > 0 {
            self.write_notes();
        }
        self.builder.end_row();
    }

    /// Whether the row gets a note.
    #[inline]
    pub fn has_notes(&self) -> bool {
        self.notes_count > 0 || self.builder.overflowed()
    }

    /// Says what failed; the line is kept all the same.
    pub fn note(&mut self, note: &'static str) {
        self.add_note((note, None));
    }

    /// As [`note`](Self::note), with the place in the line: so many bytes stand before it.
    pub fn note_at(&mut self, note: &'static str, at: u32) {
        self.add_note((note, Some(at)));
    }

    fn add_note(&mut self, note: (&'static str, Option<u32>)) {
        if self.notes_count < NOTES_MAX && !self.notes[..self.notes_count].contains(&note) {
            self.notes[self.notes_count] = note;
            self.notes_count += 1;
        }
    }

    #[cold]
    fn write_notes(&mut self) {
        let id = self.id(Own::Note);
        let own = self.builder.get(id).filter(|own| !own.is_empty());
        if let (None, [(note, None)]) = (own, &self.notes[..self.notes_count]) {
            return self.builder.push_static(id, note);
        }
        let mut all = own.unwrap_or_default().to_vec();
        for (note, at) in &self.notes[..self.notes_count] {
            if !all.is_empty() {
                all.extend_from_slice(b"; ");
            }
            all.extend_from_slice(note.as_bytes());
            if let Some(at) = at {
                all.extend_from_slice(format!(" at byte {at}").as_bytes());
            }
        }
        self.builder.push_made(id, &all);
    }

    /// The number of an own name.
    #[inline]
    pub fn id(&mut self, own: Own) -> FieldId {
        match self.ids[own as usize] {
            Some(id) => id,
            None => {
                let id = self.builder.field_id(OWN_NAMES[own as usize]);
                let id = id.expect("room is kept for own names");
                self.ids[own as usize] = Some(id);
                id
            }
        }
    }

    /// Adds a part of the line.
    #[inline]
    pub fn put(&mut self, own: Own, part: &[u8]) {
        let id = self.id(own);
        self.put_as(id, part);
    }

    /// Adds a part of the line unless it is empty.
    #[inline]
    pub fn put_some(&mut self, own: Own, part: &[u8]) {
        if !part.is_empty() {
            self.put(own, part);
        }
    }

    /// Place of a part in the line.
    #[inline]
    pub fn offset(&self, part: &[u8]) -> usize {
        // An empty part may come from anywhere.
        match part.is_empty() {
            true => 0,
            false => part.as_ptr().addr() - self.line.as_ptr().addr(),
        }
    }

    /// Adds a part of the line under a name from the line.
    #[inline]
    pub fn put_as(&mut self, id: FieldId, part: &[u8]) {
        let offset = self.offset(part);
        self.builder.push_slice(id, offset, part.len());
    }

    /// Adds one of few values.
    #[inline]
    pub fn put_static(&mut self, own: Own, value: &'static str) {
        let id = self.id(own);
        self.builder.push_static(id, value);
    }

    /// Numbers of the keys that may say the level, those of [`LEVEL_KEYS`], in this order.
    #[inline]
    pub fn level_keys(&mut self) -> [Option<FieldId>; LEVEL_KEYS.len()] {
        let left = self.builder.names_left();
        if self.level_keys_left != left {
            self.level_keys = LEVEL_KEYS.map(|name| self.builder.known_id(name));
            self.level_keys_left = left;
        }
        self.level_keys
    }

    /// The value of the key `level`, if the message has it.
    #[inline]
    pub fn level(&mut self) -> Option<&[u8]> {
        let id = self.level_keys()[0]?;
        self.builder.get(id).filter(|level| !level.is_empty())
    }

    /// The number of a name from the line. None when there are too many names, or this one is too
    /// long.
    pub fn key_id(&mut self, name: &str) -> Option<FieldId> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if self.builder.names_left() > OWN_COUNT {
            return self.builder.field_id(name);
        }
        self.builder.known_id(name)
    }

    /// Whether a field from the line still has room in the row; notes it when not.
    #[inline]
    pub fn has_room(&mut self, id: FieldId) -> bool {
        if self.builder.row_fields() < LINE_KEYS_MAX || self.builder.get(id).is_some() {
            return true;
        }
        self.no_room();
        false
    }

    /// Notes that a key became no field.
    #[cold]
    pub fn no_room(&mut self) {
        self.note("too many fields, or a name too long; the rest is only in the raw line");
    }
}

/// What Loginson says of a line besides what it says of every line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// There is a syslog head.
    pub head: bool,
    /// There is a sender's address.
    pub sender: bool,
    /// There is a file.
    pub file: bool,
}

/// Whether a line is given a field of this name, whatever its message is: a message that brings the
/// name keeps its value, and its row is one apart. Without `level`, which [`Rows::level`] is asked
/// for.
pub(crate) fn is_given(name: &str, given: Given) -> bool {
    match name {
        "_type" | "_level" => true,
        "_remote_ip" => given.sender,
        "_file" => given.file,
        "priority" | "facility" | "facility_keyword" | "severity" | "format" | "hostname"
        | "app_name" | "proc_id" | "msg_id" | "sequence" => given.head,
        _ => false,
    }
}

/// Whether a name means something else in every line, so that a key of a line cannot have it: the
/// time is that of the row, and there is one message. Such a key is stored behind `json.`, an extra
/// field behind `extra.`.
pub(crate) fn is_taken(name: &str) -> bool {
    matches!(name, "_time" | "_msg")
}
