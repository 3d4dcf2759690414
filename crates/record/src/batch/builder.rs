//! Builds batches of frames; used by the parsers.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    BATCH_NAMES_MAX, Batch, Field, FieldId, IN_ARENA, PLACE, ROW_FIELDS_MAX, RowHead, SHARED,
    STEMS_MAX, Stem, StemId, Text, stems_of,
};
use crate::frame::Frame;

/// A value kept in a batch for any number of rows; made by [`BatchBuilder::keep`] and valid for
/// that batch only.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    at: u32,
    length: u32,
}

impl Kept {
    /// Whether it is an empty value.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// Builds a batch row by row.
///
/// For each line of the frame in order: [`begin_row`](Self::begin_row), any number of `push_*`,
/// then [`end_row`](Self::end_row).
pub struct BatchBuilder {
    batch: Batch,
    /// Row being built.
    head: RowHead,
    /// The number of its own fields, once it has a stem.
    own: Option<u16>,
    overflowed: bool,
    /// The event time of the row being built was set.
    has_time: bool,
    /// Bit `name % 64` is set for each field of the row, so that a new name is mostly recognised
    /// without a search.
    names_seen: u64,
    statics: HashMap<&'static str, u32, foldhash::fast::RandomState>,
    /// The most recent values of `statics`, found by address without hashing.
    recent: [Recent; RECENT_STATICS],
}

/// Address, length and position of a static value; unused if the length is 0.
type Recent = (usize, usize, u32);
const RECENT_STATICS: usize = 64;

impl BatchBuilder {
    /// A batch over `frame`, without rows yet.
    pub fn new(frame: Arc<Frame>) -> Self {
        let lines = frame.header().lines as usize;
        // As many fields as a line without stem usually has.
        Self::with_fields(frame, lines * 10)
    }

    /// A batch over `lines` of the lines of a frame.
    pub fn of_part(frame: Arc<Frame>, lines: usize) -> Self {
        let part = Text::Part(frame.clone(), Vec::with_capacity(lines));
        Self::over(&frame, part, lines, lines * 10)
    }

    /// As [`new`](Self::new), with room for `fields`, the expected number of fields of rows and
    /// stems.
    pub fn with_fields(frame: Arc<Frame>, fields: usize) -> Self {
        let lines = frame.header().lines as usize;
        Self::over(&frame, Text::Frame(frame.clone()), lines, fields)
    }

    fn over(frame: &Frame, text: Text, rows: usize, fields: usize) -> Self {
        let payload_bytes = frame.payload().len();
        let head = RowHead {
            time_ns: 0,
            received_ns: 0,
            line_at: 0,
            line_length: 0,
            fields_at: 0,
            fields: 0,
            stem: StemId(0),
        };
        let batch = Batch {
            stems: stems_of(frame.origins()),
            text,
            rows: Vec::with_capacity(rows),
            // No more than the bytes can have, except that lines may be empty.
            fields: Vec::with_capacity(fields.min(payload_bytes / 6 + 16)),
            arena: Vec::new(),
            names: Vec::new(),
            name_ids: HashMap::default(),
            time_min_ns: i64::MAX,
            time_max_ns: i64::MIN,
        };
        let recent = [(0, 0, 0); RECENT_STATICS];
        BatchBuilder {
            batch,
            head,
            own: None,
            overflowed: false,
            has_time: false,
            names_seen: 0,
            statics: HashMap::default(),
            recent,
        }
    }

    /// The number of `name`, assigned at first use. `None` if there are [`BATCH_NAMES_MAX`] names
    /// already.
    pub fn field_id(&mut self, name: &str) -> Option<FieldId> {
        if let Some(&id) = self.batch.name_ids.get(name) {
            return Some(id);
        }
        if self.batch.names.len() >= BATCH_NAMES_MAX {
            return None;
        }
        let id = FieldId(self.batch.names.len() as u16);
        let name: Arc<str> = name.into();
        self.batch.names.push(name.clone());
        self.batch.name_ids.insert(name, id);
        Some(id)
    }

    /// Begins the row of the next line: its position in the frame, its arrival time, and the index
    /// of its origin.
    pub fn begin_row(&mut self, line: &crate::frame::Line<'_>) {
        if let Text::Part(_, lines) = &mut self.batch.text {
            lines.push(line.index);
        }
        self.overflowed = false;
        self.has_time = false;
        self.own = None;
        self.names_seen = 0;
        self.head = RowHead {
            time_ns: line.received_ns,
            received_ns: line.received_ns,
            line_at: line.offset,
            line_length: line.bytes.len() as u32,
            fields_at: self.batch.fields.len() as u32,
            fields: 0,
            stem: StemId(line.origin_index),
        };
    }

    /// Makes a stem of the fields of the row being built from the `own`-th on, and assigns it to
    /// the row, which gets no more fields. `None` if there are [`STEMS_MAX`] already.
    pub fn share_from(&mut self, own: usize) -> Option<StemId> {
        let fields_at = self.head.fields_at + own as u32;
        let fields = (self.batch.fields.len() - fields_at as usize) as u16;
        if self.batch.stems.len() >= STEMS_MAX {
            return None;
        }
        let origin = self.batch.stems[usize::from(self.head.stem.0)].origin;
        let stem = StemId(self.batch.stems.len() as u16);
        self.batch.stems.push(Stem { fields_at, fields, origin });
        self.own = Some(own as u16);
        self.head.stem = stem;
        Some(stem)
    }

    /// Assigns a stem of its origin to the row being built. The stem's fields must have other names
    /// than the row's own; the row gets no more fields.
    #[inline]
    pub fn use_stem(&mut self, stem: StemId) {
        self.own = Some(self.row_fields() as u16);
        self.head.stem = stem;
    }

    /// Sets the event time, nanoseconds since 1970 UTC; without it, the arrival time is used.
    pub fn set_time(&mut self, time_ns: i64) {
        self.head.time_ns = time_ns;
        self.has_time = true;
    }

    /// Whether the row being built has an event time that was set.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// Event time of the row being built.
    pub fn time_ns(&self) -> i64 {
        self.head.time_ns
    }

    /// Replaces the event time of a closed row, by its place in the batch.
    pub fn set_time_of_row(&mut self, row: usize, time_ns: i64) {
        self.batch.rows[row].time_ns = time_ns;
        let times = || self.batch.rows.iter().map(|row| row.time_ns);
        self.batch.time_min_ns = times().min().unwrap_or(i64::MAX);
        self.batch.time_max_ns = times().max().unwrap_or(i64::MIN);
    }

    /// Adds a field whose value is in the line, at `offset..offset + length`.
    #[inline]
    pub fn push_slice(&mut self, name: FieldId, offset: usize, length: usize) {
        assert!(offset + length <= self.head.line_length as usize, "a field lies in its line");
        self.push(name, offset as u32, length as u32);
    }

    /// Adds a field with a value that is not in the line. The value is copied.
    pub fn push_made(&mut self, name: FieldId, value: &[u8]) {
        let value = self.keep_made(value);
        self.push_kept(name, value);
    }

    /// Adds a field with one of few values known beforehand (`error`, `rfc5424`), which is stored
    /// once per batch.
    pub fn push_static(&mut self, name: FieldId, value: &'static str) {
        let address = value.as_ptr().addr();
        let slot = (address / 4) % RECENT_STATICS;
        let (recent_address, recent_length, recent_at) = self.recent[slot];
        if (recent_address, recent_length) == (address, value.len()) {
            return self.push(name, recent_at, value.len() as u32);
        }
        let at = match self.statics.get(value) {
            Some(&at) => at,
            None => {
                let at = self.keep(value.as_bytes()).at;
                self.statics.insert(value, at);
                at
            }
        };
        self.recent[slot] = (address, value.len(), at);
        self.push(name, at, value.len() as u32);
    }

    /// Keeps a value that many rows will have, so that it is stored once.
    pub fn keep(&mut self, value: &[u8]) -> Kept {
        let kept = self.keep_made(value);
        Kept { at: kept.at | SHARED, ..kept }
    }

    /// Keeps a value for the row being built, whose field name is not decided yet.
    pub fn keep_made(&mut self, value: &[u8]) -> Kept {
        let at = self.batch.arena.len() as u32 | IN_ARENA;
        self.batch.arena.extend_from_slice(value);
        Kept { at, length: value.len() as u32 }
    }

    /// A value kept before.
    pub fn kept(&self, kept: Kept) -> &[u8] {
        &self.batch.arena[(kept.at & PLACE) as usize..][..kept.length as usize]
    }

    /// Adds a field with a value kept before.
    pub fn push_kept(&mut self, name: FieldId, value: Kept) {
        self.push(name, value.at, value.length);
    }

    /// Fields of the row being built so far.
    pub fn row_fields(&self) -> usize {
        self.batch.fields.len() - self.head.fields_at as usize
    }

    /// How many names can still be added before [`BATCH_NAMES_MAX`] is reached.
    pub fn names_left(&self) -> usize {
        BATCH_NAMES_MAX - self.batch.names.len()
    }

    /// The number of `name`, if it has one already.
    pub fn known_id(&self, name: &str) -> Option<FieldId> {
        self.batch.name_ids.get(name).copied()
    }

    /// The value of a field of the row being built.
    pub fn get(&self, name: FieldId) -> Option<&[u8]> {
        if self.names_seen & seen_bit(name) == 0 {
            return None;
        }
        let fields = &self.batch.fields[self.head.fields_at as usize..];
        fields.iter().find(|f| f.name == name).map(|f| self.batch.value(&self.head, f))
    }

    /// Replaces values of the row's own fields: `change` gets name and value, and returns the new
    /// value, or `None` to keep the old one.
    pub fn rewrite_values(&mut self, mut change: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>) {
        let begin = self.head.fields_at as usize;
        let end = begin + usize::from(self.own.unwrap_or(self.row_fields() as u16));
        for index in begin..end {
            let field = self.batch.fields[index];
            let name = &self.batch.names[usize::from(field.name.0)];
            let Some(value) = change(name, self.batch.value(&self.head, &field)) else { continue };
            let Kept { at, length } = self.keep_made(&value);
            self.batch.fields[index] = Field { at, length, ..field };
        }
    }

    /// Whether a field of the row being built was dropped because of [`ROW_FIELDS_MAX`].
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Removes the fields of the row being built, to parse the line in another way.
    pub fn clear_fields(&mut self) {
        self.batch.fields.truncate(self.head.fields_at as usize);
        self.head.time_ns = self.head.received_ns;
        self.has_time = false;
        self.overflowed = false;
        self.names_seen = 0;
    }

    /// Closes the row.
    pub fn end_row(&mut self) {
        self.head.fields = self.own.unwrap_or(self.row_fields() as u16);
        self.batch.time_min_ns = self.batch.time_min_ns.min(self.head.time_ns);
        self.batch.time_max_ns = self.batch.time_max_ns.max(self.head.time_ns);
        self.batch.rows.push(self.head);
    }

    /// The batch, once each line of the frame has a row, or each that is wanted of it.
    ///
    /// # Panics
    /// When rows of a whole frame are missing.
    pub fn finish(mut self) -> Batch {
        if let Text::Frame(frame) = &self.batch.text {
            let lines = frame.header().lines as usize;
            assert_eq!(self.batch.rows.len(), lines, "a row for each line");
        }
        // Freeing a little memory is not worth a copy.
        if self.batch.fields.len() < self.batch.fields.capacity() / 8 * 7 {
            self.batch.fields.shrink_to_fit();
        }
        self.batch.arena.shrink_to_fit();
        self.batch
    }

    /// Adds or replaces a field of the row being built: the last value of a repeated key wins.
    #[inline]
    fn push(&mut self, name: FieldId, at: u32, length: u32) {
        debug_assert!(self.own.is_none(), "a row with a stem gets no more fields");
        let begin = self.head.fields_at as usize;
        if self.names_seen & seen_bit(name) != 0
            && let Some(field) = self.batch.fields[begin..].iter_mut().find(|f| f.name == name)
        {
            (field.at, field.length) = (at, length);
            return;
        }
        if self.batch.fields.len() - begin >= ROW_FIELDS_MAX {
            self.overflowed = true;
            return;
        }
        self.names_seen |= seen_bit(name);
        self.batch.fields.push(Field { name, at, length });
    }
}

#[inline]
fn seen_bit(name: FieldId) -> u64 {
    1 << (name.0 % 64)
}
