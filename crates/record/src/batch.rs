//! A batch: the records of one frame, parsed once and read by live queries, summaries and sealing;
//! or the same records restored from a block of a sealed segment.
//!
//! A record is a row of fields. A field's value is a position in the text of the batch (the frame's
//! bytes, or the lines of the block) or, if the parser had to make it (an unescaped JSON string, a
//! derived level), in the batch's arena; the lines are not copied. Field names are numbered per
//! batch, so that a query resolves a name once per batch and then compares numbers.
//!
//! Most lines of one sender differ in little but time and message. The fields that many rows share
//! are therefore stored once, as a [`StemId`], and a row consists of its own fields and those of
//! its stem. Positions in a line are relative to the line's first byte, so that they are valid for
//! all rows of a stem.
//!
//! Invariants: row `i` of a parsed frame is its line `i`; row `i` of a frame that was parsed in
//! part is the `i`-th of the lines that were parsed; every field is in the text or the arena; a
//! name occurs at most once per row; the rows of a stem have the same values in its fields; each
//! parsed row has a `_type`. Left out: which fields there are (see the parsers), and types of
//! values: a value is bytes, as in the line.
//!
//! Fields that Loginson adds to a line have names that begin with an underscore: `_type`, `_level`,
//! `_remote_ip`, `_file`, `_msg`, `_note` (why a line was not fully parsed), `_tenant` are stored
//! as fields; `_time`, `_received`, `_stream`, the line itself and its id are computed from the
//! row. A line that has a field with such a name keeps its own value under it, but for `_tenant`.

use std::collections::HashMap;
use std::sync::Arc;

use text::quoted::write_quoted;

use crate::frame::{Frame, LineId, Origin, Transport};

mod builder;
mod hidden;
mod merged;
mod restored;
mod travel;

pub use builder::{BatchBuilder, Kept};
pub use restored::RestoredBuilder;
pub use travel::{RowsWriter, read_rows};

/// Number of a field name in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub u16);

/// Fields of one row. Further keys of a line do not become fields; the line is kept and gets a
/// `_note`.
pub const ROW_FIELDS_MAX: usize = 1_000;
/// Distinct field names of one batch. Beyond this, the same happens as beyond [`ROW_FIELDS_MAX`].
pub const BATCH_NAMES_MAX: usize = 20_000;

/// The default fields that identify the stream of a line.
pub const STREAM_FIELDS: [&str; 3] = ["_type", "hostname", "app_name"];

/// The type of rows of the summary.
pub const OWN_TYPE: &str = "summary";

/// The type of rows of alerts: changes of their states, and rows of recording rules.
pub const ALERT_TYPE: &str = "alert";

/// The type of lines of the audit log: who did what, and who read what. Callers that may not read
/// them are restricted to other lines, even where they name the type.
pub const AUDIT_TYPE: &str = "audit";
/// The type of lines of senders that name themselves lines of the audit log.
pub const SENT_AUDIT_TYPE: &str = "sent.audit";

/// The types of the lines that Loginson makes itself. Only queries that name such a type see them.
pub const OWN_TYPES: [&str; 3] = [OWN_TYPE, ALERT_TYPE, AUDIT_TYPE];

/// The field with the [`Tenant`](crate::Tenant) of a line, which lines of the default tenant do not
/// have. It comes from the origin alone: no line can bring it.
pub const TENANT: &str = "_tenant";
/// The field that keeps what a sender calls [`TENANT`].
pub const SENT_TENANT: &str = "sent.tenant";

/// The field with the stream of a line, for lines that have their own.
pub const STREAM: &str = "_stream";

/// Bits of [`Field::at`]: the value is in the arena; and if so, it is a shared value, stored once
/// per batch. The text and the arena are shorter than 1 GiB.
const IN_ARENA: u32 = 1 << 31;
const SHARED: u32 = 1 << 30;
const PLACE: u32 = SHARED - 1;

/// Number of a stem in one batch: the origin and the fields, with their values, that rows have in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StemId(pub u16);

/// Stems of one batch. Beyond this, rows store all their fields themselves.
pub const STEMS_MAX: usize = u16::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    name: FieldId,
    /// Offset in the line, or in the arena with [`IN_ARENA`] set.
    at: u32,
    length: u32,
}

impl Field {
    /// Name, position and length. An empty value has the position of the beginning of the line.
    #[inline]
    fn place(&self) -> (FieldId, Place, u32) {
        let position = match (self.at & IN_ARENA != 0, self.at & SHARED != 0) {
            (false, _) if self.length == 0 => Place::Line(0),
            (false, _) => Place::Line(self.at),
            (true, false) => Place::Made(self.at & PLACE),
            (true, true) => Place::Shared(self.at & PLACE),
        };
        (self.name, position, self.length)
    }
}

/// Where a field's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the row's line, at this offset.
    Line(u32),
    /// In the arena, for this row only: text that is not in the line literally.
    Made(u32),
    /// In the arena, for any number of rows: one of few values, at this offset.
    Shared(u32),
}

#[derive(Clone, Copy, Debug)]
struct RowHead {
    time_ns: i64,
    received_ns: i64,
    line_at: u32,
    line_length: u32,
    /// The row's own fields.
    fields_at: u32,
    fields: u16,
    stem: StemId,
}

/// The shared part of rows. The stems `0..origins` have no fields, one for each origin: those of
/// rows that share nothing else.
#[derive(Clone, Copy, Debug)]
struct Stem {
    fields_at: u32,
    fields: u16,
    origin: u16,
}

/// The text that the rows point into.
#[derive(Clone, Debug)]
enum Text {
    Frame(Arc<Frame>),
    /// Some lines of a frame: for each row the index of its line.
    Part(Arc<Frame>, Vec<u32>),
    /// Lines of many frames, with the id of each.
    Block {
        bytes: Vec<u8>,
        origins: Arc<[Origin]>,
        ids: Vec<LineId>,
        /// Sequence numbers of their frames in this store.
        sequences: Vec<u64>,
    },
}

impl Text {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Text::Frame(frame) | Text::Part(frame, _) => frame.bytes(),
            Text::Block { bytes, .. } => bytes,
        }
    }
}

/// The records of one frame, or of one block of a sealed segment.
#[derive(Clone, Debug)]
pub struct Batch {
    text: Text,
    rows: Vec<RowHead>,
    stems: Vec<Stem>,
    fields: Vec<Field>,
    arena: Vec<u8>,
    names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, FieldId, foldhash::fast::RandomState>,
    time_min_ns: i64,
    time_max_ns: i64,
}

impl Batch {
    /// The frame whose lines were all parsed; `None` where some of its lines were, and for the rows
    /// of a sealed block.
    pub fn frame(&self) -> Option<&Arc<Frame>> {
        match &self.text {
            Text::Frame(frame) => Some(frame),
            Text::Part(..) | Text::Block { .. } => None,
        }
    }

    /// Whether Loginson made the lines itself. A frame or block has either only such lines or none.
    pub fn is_internal(&self) -> bool {
        self.origins().iter().any(|origin| origin.transport == Transport::Internal)
    }

    /// The origins of the lines; rows refer to theirs by [`Row::origin_index`].
    pub fn origins(&self) -> &[Origin] {
        match &self.text {
            Text::Frame(frame) | Text::Part(frame, _) => frame.origins(),
            Text::Block { origins, .. } => origins,
        }
    }

    /// Latest arrival of the rows, nanoseconds since 1970 UTC; `None` without rows.
    pub fn received_max_ns(&self) -> Option<i64> {
        self.rows.iter().map(|row| row.received_ns).max()
    }

    /// The text that the rows point into: the bytes of the frame, or the lines of the block back to
    /// back, in order.
    pub fn text(&self) -> &[u8] {
        self.text.bytes()
    }

    /// Bytes of the lines, without separators.
    pub fn raw_bytes(&self) -> u64 {
        self.rows.iter().map(|row| u64::from(row.line_length)).sum()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Earliest and latest event time of the rows, nanoseconds since 1970 UTC.
    pub fn time_range_ns(&self) -> (i64, i64) {
        (self.time_min_ns, self.time_max_ns)
    }

    /// The number of a field name, if any row has that field.
    pub fn field_id(&self, name: &str) -> Option<FieldId> {
        self.name_ids.get(name).copied()
    }

    /// All field names of the batch, by number.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The name with that number.
    pub fn name(&self, id: FieldId) -> &str {
        &self.names[id.0 as usize]
    }

    /// Row `index`.
    #[inline]
    pub fn row(&self, index: usize) -> Row<'_> {
        Row { batch: self, head: &self.rows[index], index: index as u32 }
    }

    /// All rows, in order of the lines.
    #[inline]
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row<'_>> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(i, head)| Row { batch: self, head, index: i as u32 })
    }

    /// The number of stored fields; those of a stem count once.
    pub(crate) fn fields_stored(&self) -> usize {
        self.fields.len()
    }

    /// Number of stems, the range of [`Row::stem`]; some may have no row.
    pub fn stems(&self) -> usize {
        self.stems.len()
    }

    /// Memory held, including the frame, in bytes. Used by caches.
    pub fn memory_bytes(&self) -> usize {
        // A name: its text with the two counts of its Arc, its entry in the list, and in the hash
        // table, which is at least half full.
        let name_bytes =
            |name: &Arc<str>| name.len() + 16 + 16 + 2 * (size_of::<(Arc<str>, FieldId)>() + 1);
        let text_bytes = match &self.text {
            Text::Frame(frame) => frame.memory_bytes(),
            Text::Part(frame, lines) => frame.memory_bytes() + lines.capacity() * size_of::<u32>(),
            Text::Block { bytes, ids, sequences, .. } => {
                bytes.capacity()
                    + ids.capacity() * size_of::<LineId>()
                    + sequences.capacity() * size_of::<u64>()
            }
        };
        text_bytes
            + self.rows.capacity() * size_of::<RowHead>()
            + self.stems.capacity() * size_of::<Stem>()
            + self.fields.capacity() * size_of::<Field>()
            + self.arena.capacity()
            + self.names.iter().map(name_bytes).sum::<usize>()
            + size_of::<Self>()
    }
}

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    batch: &'a Batch,
    head: &'a RowHead,
    index: u32,
}

impl<'a> Row<'a> {
    /// Index in the batch; where a whole frame was parsed also that of the line in it.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The id of the line.
    #[inline]
    pub fn id(&self) -> LineId {
        match &self.batch.text {
            Text::Frame(frame) => {
                let (node, sequence) = frame.header().name();
                LineId { node, sequence, line: self.index }
            }
            Text::Part(frame, lines) => {
                let (node, sequence) = frame.header().name();
                LineId { node, sequence, line: lines[self.index as usize] }
            }
            Text::Block { ids, .. } => ids[self.index as usize],
        }
    }

    /// Sequence number of the line's frame in the store that keeps it: grows in the order in which
    /// the store took frames. Meaningless on another machine; use the [id](Self::id) for that.
    #[inline]
    pub fn sequence(&self) -> u64 {
        match &self.batch.text {
            Text::Frame(frame) | Text::Part(frame, _) => frame.header().sequence,
            Text::Block { sequences, .. } => sequences[self.index as usize],
        }
    }

    /// Index of the row's origin in [`Batch::origins`].
    #[inline]
    pub fn origin_index(&self) -> u16 {
        self.stem_of().origin
    }

    /// The shared part of the row: rows of one stem have the same origin, and the same values in
    /// the last [`stem_fields`](Self::stem_fields) of their fields.
    #[inline]
    pub fn stem(&self) -> StemId {
        self.head.stem
    }

    /// How many of the row's fields, counted from the end, belong to its stem.
    #[inline]
    pub fn stem_fields(&self) -> usize {
        usize::from(self.stem_of().fields)
    }

    /// Event time, nanoseconds since 1970 UTC.
    #[inline]
    pub fn time_ns(&self) -> i64 {
        self.head.time_ns
    }

    /// Arrival, nanoseconds since 1970 UTC.
    #[inline]
    pub fn received_ns(&self) -> i64 {
        self.head.received_ns
    }

    /// The line as it was sent.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        let at = self.head.line_at as usize;
        &self.batch.text.bytes()[at..at + self.head.line_length as usize]
    }

    /// Bytes of the line.
    #[inline]
    pub fn raw_bytes(&self) -> usize {
        self.head.line_length as usize
    }

    /// The value of a field, or `None`. A field may exist and be empty.
    pub fn get(&self, name: FieldId) -> Option<&'a [u8]> {
        let (own, shared) = self.stored();
        let named = |f: &&Field| f.name == name;
        let field = own.iter().find(named).or_else(|| shared.iter().find(named))?;
        Some(self.value(field))
    }

    /// The value of a field by name: for single rows; loops resolve the name once with
    /// [`Batch::field_id`].
    pub fn get_by_name(&self, name: &str) -> Option<&'a [u8]> {
        self.get(self.batch.field_id(name)?)
    }

    /// All stored fields in the order they were parsed.
    pub fn fields(&self) -> impl Iterator<Item = (FieldId, &'a [u8])> + use<'a> {
        let row = *self;
        let (own, shared) = self.stored();
        own.iter().chain(shared).map(move |f| (f.name, row.value(f)))
    }

    /// The value of the field at `index` in that order.
    pub fn field_at(&self, index: usize) -> Option<&'a [u8]> {
        let (own, shared) = self.stored();
        let field = own.get(index).or_else(|| shared.get(index - own.len()))?;
        Some(self.value(field))
    }

    /// As [`fields`](Self::fields), each with the position of its value: sealing splits a line by
    /// these.
    pub fn places(&self) -> impl Iterator<Item = (FieldId, Place, u32)> + use<'a> {
        let (own, shared) = self.stored();
        own.iter().chain(shared).map(Field::place)
    }

    /// As [`places`](Self::places), without the fields of the stem.
    #[inline]
    pub fn own_places(&self) -> impl ExactSizeIterator<Item = (FieldId, Place, u32)> + use<'a> {
        self.stored().0.iter().map(Field::place)
    }

    /// The entry at `index` of [`places`](Self::places), which must exist.
    #[inline]
    pub fn place_at(&self, index: usize) -> (FieldId, Place, u32) {
        let (own, shared) = self.stored();
        own.get(index).unwrap_or_else(|| &shared[index - own.len()]).place()
    }

    /// How many fields the row has, including those of its stem.
    #[inline]
    pub fn fields_count(&self) -> usize {
        usize::from(self.head.fields) + self.stem_fields()
    }

    /// The names of the fields that identify the row's stream.
    pub fn stream_fields(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let own = &self.batch.origins()[usize::from(self.origin_index())].hints.stream_fields;
        let common: &[&str] = if own.is_empty() { &STREAM_FIELDS } else { &[] };
        common.iter().copied().chain(own.iter().map(String::as_str))
    }

    /// The stream as text, `{_type="syslog",app_name="sshd",hostname="web1"}`, names in order;
    /// appended to `out`. A line with a stream field of its own is in that stream.
    pub fn write_stream(&self, out: &mut String) {
        if let Some(own) = self.get_by_name(STREAM).filter(|own| !own.is_empty()) {
            return out.push_str(&String::from_utf8_lossy(own));
        }
        let mut tags: Vec<(&str, &[u8])> =
            self.stream_fields().filter_map(|n| Some((n, self.get_by_name(n)?))).collect();
        tags.retain(|(_, value)| !value.is_empty());
        tags.sort_unstable();
        tags.dedup();
        out.push('{');
        for (i, (name, value)) in tags.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(name);
            out.push('=');
            write_quoted(&String::from_utf8_lossy(value), out);
        }
        out.push('}');
    }

    #[inline]
    fn stem_of(&self) -> &'a Stem {
        &self.batch.stems[usize::from(self.head.stem.0)]
    }

    /// The row's own fields, and those of its stem.
    #[inline]
    fn stored(&self) -> (&'a [Field], &'a [Field]) {
        let part = |at: u32, fields: u16| &self.batch.fields[at as usize..][..usize::from(fields)];
        let stem = self.stem_of();
        (part(self.head.fields_at, self.head.fields), part(stem.fields_at, stem.fields))
    }

    #[inline]
    fn value(&self, field: &Field) -> &'a [u8] {
        self.batch.value(self.head, field)
    }
}

impl Batch {
    #[inline]
    fn value(&self, row: &RowHead, field: &Field) -> &[u8] {
        let length = field.length as usize;
        let position = (field.at & PLACE) as usize;
        if field.at & IN_ARENA == 0 {
            &self.text.bytes()[row.line_at as usize + position..][..length]
        } else {
            &self.arena[position..][..length]
        }
    }
}

/// The stems of rows that share nothing but their origin.
fn stems_of(origins: &[Origin]) -> Vec<Stem> {
    let origins = u16::try_from(origins.len()).expect("origins are numbered by 16 bits");
    (0..origins).map(|origin| Stem { fields_at: 0, fields: 0, origin }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Format, FrameBuilder};

    fn batch(lines: &[u8], fill: impl Fn(&mut BatchBuilder, &[u8])) -> Batch {
        let mut frame = FrameBuilder::new();
        frame.push_lines(&Origin::new(Transport::Http, Format::Auto, None), 7, lines);
        let frame = Arc::new(frame.finish(1, 5).unwrap());
        let mut builder = BatchBuilder::new(frame.clone());
        for line in frame.lines() {
            builder.begin_row(&line);
            fill(&mut builder, line.bytes);
            builder.end_row();
        }
        builder.finish()
    }

    #[test]
    fn fields_point_into_line_and_arena() {
        let batch = batch(b"k=v\nk=w\n", |b, line| {
            let (k, t, h) = (
                b.field_id("k").unwrap(),
                b.field_id("_type").unwrap(),
                b.field_id("hostname").unwrap(),
            );
            b.push_slice(k, 2, 1);
            b.push_static(t, "plain");
            b.push_made(h, format!("h\"{}", line[2] as char).as_bytes());
            b.set_time(line[2] as i64);
        });
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.time_range_ns(), (i64::from(b'v'), i64::from(b'w')));
        let row = batch.row(1);
        assert_eq!(row.raw(), b"k=w");
        assert_eq!(row.get_by_name("k"), Some(&b"w"[..]));
        assert_eq!(row.get_by_name("absent"), None);
        assert_eq!(row.id().to_string(), "00000001-5-1");
        let mut stream = String::new();
        row.write_stream(&mut stream);
        assert_eq!(stream, r#"{_type="plain",hostname="h\"w"}"#);
    }

    #[test]
    fn a_repeated_name_keeps_the_last_value_and_too_many_are_noted() {
        let batch = batch(b"x\n", |b, _| {
            for i in 0..ROW_FIELDS_MAX + 1 {
                let id = b.field_id(&i.to_string()).unwrap();
                b.push_made(id, b"1");
            }
            assert!(b.overflowed());
            let id = b.field_id("0").unwrap();
            b.push_made(id, b"2");
        });
        assert_eq!(batch.row(0).fields().count(), ROW_FIELDS_MAX);
        assert_eq!(batch.row(0).get_by_name("0"), Some(&b"2"[..]));
    }

    #[test]
    fn a_restored_row_equals_the_split_one() {
        let parsed = batch(b"k=v\nk=w\n", |b, _| {
            let ids = ["k", "type", "made", "empty"].map(|name| b.field_id(name).unwrap());
            b.push_slice(ids[0], 2, 1);
            b.push_static(ids[1], "plain");
            b.push_made(ids[2], b"m");
            b.push_slice(ids[3], 0, 0);
            b.set_time(9);
        });
        let names = parsed.names().to_vec();
        let mut builder = RestoredBuilder::new(names, parsed.origins().into(), 2, 8, 8);
        builder.arena().extend_from_slice(b"plainm");
        for row in parsed.rows() {
            builder.line().extend_from_slice(row.raw());
            for (name, position, length) in row.places() {
                let position = match position {
                    Place::Line(at) => Place::Line(at),
                    Place::Made(_) => Place::Made(5),
                    Place::Shared(_) => Place::Shared(0),
                };
                builder.push_field(name, position, length);
            }
            let stem = builder.stem_of(row.origin_index());
            builder.end_row((row.id(), row.sequence()), row.time_ns(), row.received_ns(), stem);
        }
        let restored = builder.finish();
        assert_eq!(restored.time_range_ns(), parsed.time_range_ns());
        for (a, b) in restored.rows().zip(parsed.rows()) {
            assert_eq!((a.raw(), a.id(), a.received_ns()), (b.raw(), b.id(), b.received_ns()));
            assert!(a.fields().eq(b.fields()));
        }
    }
}
