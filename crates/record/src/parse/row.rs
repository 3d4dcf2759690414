//! Writes the fields of a row: own names by number, names from the line by text.
//!
//! Own names are looked up once per batch. A field of a line keeps its name and its value, even if
//! Loginson gives lines a field of that name: then Loginson's is omitted, or stored under another
//! name ([`RowsBuilder::put_beside`]). Such a row is marked, since it shares less with others
//! ([`RowsBuilder::is_apart`]).
//!
//! Invariant: whatever the line contains, there is room for all own fields of a row and all own
//! names of a batch.

use super::servers::{NAMES_COUNT, Name};
use crate::batch::{
    AUDIT_TYPE, BatchBuilder, FieldId, ROW_FIELDS_MAX, SENT_AUDIT_TYPE, SENT_TENANT, TENANT,
};
use crate::frame::Line;

/// Length of a field name. A longer key, including the enclosing keys, stays only in the raw line,
/// with a note: an object's name precedes the names of all its members, so a line could grow a
/// thousandfold.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Fields of a row that are reserved for Loginson's own. Keys of a line get [`ROW_FIELDS_MAX`]
/// minus these.
pub const OWN_FIELDS_MAX: usize = 64;
/// Extra fields of an origin that its lines get; each takes memory for each line, even if the line
/// is empty. If there are more, lines get a note.
pub const EXTRA_FIELDS_MAX: usize = 32;
/// Keys of a line that become fields. If there are more, the line gets a note, and the rest stays
/// only in the raw line.
pub const LINE_KEYS_MAX: usize = ROW_FIELDS_MAX - OWN_FIELDS_MAX;

macro_rules! own_names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The names of fields that the parsers add themselves.
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
    Continuation = "_continuation", Referer = "referer", UserAgent = "user_agent", RemoteIp = "_remote_ip", File = "_file", Tenant = "_tenant",
}

/// The level, and keys of JSON objects that contain it if there is no `level`.
pub(crate) const LEVEL_KEYS: [&str; 4] = ["level", "severity", "lvl", "log.level"];

const OWN_COUNT: usize = OWN_NAMES.len();
const _: () = assert!(OWN_COUNT + EXTRA_FIELDS_MAX <= OWN_FIELDS_MAX);

/// Distinct notes of one line; further problems are not noted.
const NOTES_MAX: usize = 4;

/// A batch being built, and its row that is being written.
pub(crate) struct RowsBuilder<'f> {
    pub builder: BatchBuilder,
    line: &'f [u8],
    ids: [Option<FieldId>; OWN_COUNT],
    /// The numbers of the names that lines of servers get, as far as they are known.
    server_ids: [Option<FieldId>; NAMES_COUNT],
    /// The numbers of those [`LEVEL_KEYS`] that are field names in the batch, as of when
    /// `names_left` was `level_keys_left`.
    level_keys: [Option<FieldId>; LEVEL_KEYS.len()],
    level_keys_left: usize,
    apart: bool,
    /// The message is text, and one of its fields is `level`.
    text_level: bool,
    /// The time is from a key that was configured for it.
    named_time: bool,
    /// Each note with its byte offset in the line, if it has one.
    notes: [(&'static str, Option<u32>); NOTES_MAX],
    notes_count: usize,
}

impl<'f> RowsBuilder<'f> {
    pub fn new(builder: BatchBuilder) -> Self {
        RowsBuilder {
            builder,
            line: b"",
            ids: [None; OWN_COUNT],
            server_ids: [None; NAMES_COUNT],
            level_keys: [None; LEVEL_KEYS.len()],
            level_keys_left: usize::MAX,
            apart: false,
            text_level: false,
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
        self.text_level = false;
        self.named_time = false;
    }

    /// Removes fields and notes, to parse the line in another way.
    pub fn clear(&mut self) {
        self.builder.clear_fields();
        self.notes_count = 0;
        self.apart = false;
        self.text_level = false;
        self.named_time = false;
    }

    /// Marks the row as one whose message has a field with a name that lines are given.
    #[inline]
    pub fn set_apart(&mut self) {
        self.apart = true;
    }

    /// Whether the row is marked as such: it shares no fields with other rows.
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Marks the row as one whose message is text and has a field `level`.
    #[inline]
    pub fn set_text_level(&mut self) {
        self.text_level = true;
    }

    /// Whether the row is marked so.
    #[inline]
    pub fn has_text_level(&self) -> bool {
        self.text_level
    }

    /// Records whether a key that was configured for the time provided it.
    #[inline]
    pub fn set_named_time(&mut self, named: bool) {
        self.named_time = named;
    }

    /// Whether such a key provided the time: then no other time counts.
    #[inline]
    pub fn has_named_time(&self) -> bool {
        self.named_time
    }

    /// Whether the row already has a value under an own name: one from the line.
    #[inline]
    pub fn has(&self, own: Own) -> bool {
        let id = self.ids[own as usize].or_else(|| self.builder.known_id(OWN_NAMES[own as usize]));
        id.and_then(|id| self.builder.get(id)).is_some_and(|value| !value.is_empty())
    }

    /// The name under which a value of the head is stored in a marked row: its own name, or with
    /// the prefix `syslog.` if the message has another value under its own. `None`: the message has
    /// the same value, or there are too many names.
    pub fn put_beside(&mut self, own: Own, value: &[u8]) -> Option<FieldId> {
        let id = self.id(own);
        match self.builder.get(id) {
            None | Some(b"") => Some(id),
            Some(same) if same == value => None,
            Some(_) => self.key_id(&format!("syslog.{}", OWN_NAMES[own as usize])),
        }
    }

    /// Gives a line of a sender that names the type of the audit log another type: who reads the
    /// audit log trusts that Loginson wrote it.
    pub fn disown_type(&mut self) {
        let id = self.id(Own::Type);
        if self.builder.get(id) == Some(AUDIT_TYPE.as_bytes()) {
            self.builder.rewrite_values(|name, value| {
                (name == "_type" && value == AUDIT_TYPE.as_bytes())
                    .then(|| SENT_AUDIT_TYPE.as_bytes().to_vec())
            });
            self.note("the type 'audit' is that of Loginson's own audit log");
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

    /// Whether the row will get a note.
    #[inline]
    pub fn has_notes(&self) -> bool {
        self.notes_count > 0 || self.builder.overflowed()
    }

    /// Whether a note says that the line states a time that could not be taken.
    pub fn has_bad_time(&self) -> bool {
        self.notes[..self.notes_count].iter().any(|(note, _)| note.ends_with("arrival taken"))
    }

    /// Notes a problem; the line is kept anyway.
    pub fn note(&mut self, note: &'static str) {
        self.add_note((note, None));
    }

    /// As [`note`](Self::note), with the byte offset in the line.
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

    /// Offset of a part in the line.
    #[inline]
    pub fn offset(&self, part: &[u8]) -> usize {
        // An empty part may be a slice of anything.
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

    /// Numbers of the keys that may contain the level, those of [`LEVEL_KEYS`], in this order.
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

    /// The number of a name from the line. `None` if there are too many names, or this one is too
    /// long. The name [`TENANT`] becomes [`SENT_TENANT`]: no line says whose it is.
    pub fn key_id(&mut self, name: &str) -> Option<FieldId> {
        let name = if name == TENANT { SENT_TENANT } else { name };
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if self.builder.names_left() > OWN_COUNT {
            return self.builder.field_id(name);
        }
        self.builder.known_id(name)
    }

    /// The number of a name from the line that may be one of Loginson's own, as
    /// [`key_id`](Self::key_id): a name that lines are given marks the row, and a name with a fixed
    /// meaning gets the prefix `json.`.
    pub fn sent_id(&mut self, name: &str, given: GivenFields) -> Option<FieldId> {
        if is_given(name, given) {
            self.set_apart();
        }
        match is_taken(name) {
            true => self.key_id(&format!("json.{name}")),
            false => self.key_id(name),
        }
    }

    /// The number of a name of a server's field, as [`key_id`](Self::key_id).
    #[inline]
    pub fn server_id(&mut self, name: Name) -> Option<FieldId> {
        match self.server_ids[name as usize] {
            Some(id) => Some(id),
            None => {
                self.server_ids[name as usize] = self.key_id(name.text());
                self.server_ids[name as usize]
            }
        }
    }

    /// Whether the row has room for a field from the line; notes it if not.
    #[inline]
    pub fn has_room(&mut self, id: FieldId) -> bool {
        if self.builder.row_fields() < LINE_KEYS_MAX || self.builder.get(id).is_some() {
            return true;
        }
        self.no_room();
        false
    }

    /// Notes that a key did not become a field.
    #[cold]
    pub fn no_room(&mut self) {
        self.note("too many fields, or a name too long; the rest is only in the raw line");
    }
}

/// The kinds of fields that Loginson gives a line, besides those of every line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenFields {
    /// The fields of a syslog head.
    pub head: bool,
    /// The sender's address.
    pub sender: bool,
    /// The file.
    pub file: bool,
}

/// Whether a line is given a field of this name, whatever its message contains: a message with a
/// field of that name keeps its value, and the row is marked. Without `level`; see
/// [`RowsBuilder::level`].
pub(crate) fn is_given(name: &str, given: GivenFields) -> bool {
    match name {
        "_type" | "_level" => true,
        "_remote_ip" => given.sender,
        "_file" => given.file,
        "priority" | "facility" | "facility_keyword" | "severity" | "format" | "hostname"
        | "app_name" | "proc_id" | "msg_id" | "sequence" => given.head,
        _ => false,
    }
}

/// Whether a name has a fixed meaning in every line, so that a key of a line cannot use it: the
/// time is that of the row, and there is one message. Such a key gets the prefix `json.`, an extra
/// field the prefix `extra.`.
pub(crate) fn is_taken(name: &str) -> bool {
    matches!(name, "_time" | "_msg")
}
