//! Batches of sealed blocks: rows that were split into columns and are assembled again.
//!
//! Left out: validation of the block; its reader does that.

use std::sync::Arc;

use super::{
    BATCH_NAMES_MAX, Batch, Field, FieldId, IN_ARENA, Place, RowHead, SHARED, STEMS_MAX, Stem,
    StemId, Text, stems_of,
};
use crate::frame::{LineId, Origin};

/// Assembles the records of a sealed block. Trusts its caller, who validated the block: positions
/// must be in data that was written before.
pub struct RestoredBuilder {
    batch: Batch,
    bytes: Vec<u8>,
    ids: Vec<LineId>,
    sequences: Vec<u64>,
    origins: Arc<[Origin]>,
    line_at: u32,
    fields_at: usize,
}

impl RestoredBuilder {
    /// A batch without rows. `names` are numbered in their order, all distinct and at most
    /// [`BATCH_NAMES_MAX`]; `rows`, `fields` (those of stems once) and `text_bytes` are used to
    /// reserve memory.
    pub fn new(
        names: Vec<Arc<str>>,
        origins: Arc<[Origin]>,
        rows: usize,
        fields: usize,
        text_bytes: usize,
    ) -> Self {
        assert!(names.len() <= BATCH_NAMES_MAX, "a block has no more names than a batch");
        let ids = (0..names.len()).map(|id| FieldId(id as u16));
        let name_ids = names.iter().cloned().zip(ids).collect();
        let batch = Batch {
            text: Text::Block {
                bytes: Vec::new(),
                origins: Arc::clone(&origins),
                ids: Vec::new(),
                sequences: Vec::new(),
            },
            rows: Vec::with_capacity(rows),
            stems: stems_of(&origins),
            fields: Vec::with_capacity(fields),
            arena: Vec::new(),
            names,
            name_ids,
            time_min_ns: i64::MAX,
            time_max_ns: i64::MIN,
        };
        RestoredBuilder {
            batch,
            bytes: Vec::with_capacity(text_bytes),
            ids: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(rows),
            origins,
            line_at: 0,
            fields_at: 0,
        }
    }

    /// The target of [`Place::Made`] and [`Place::Shared`]; must be written before fields that
    /// point to it.
    #[inline]
    pub fn arena(&mut self) -> &mut Vec<u8> {
        &mut self.batch.arena
    }

    /// The buffer to which the line of the next row is appended.
    #[inline]
    pub fn line(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds a field of the next row; a position in the line is relative to the line's first byte.
    #[inline]
    pub fn push_field(&mut self, name: FieldId, position: Place, length: u32) {
        let at = match position {
            Place::Line(at) => at,
            Place::Made(at) => at | IN_ARENA,
            Place::Shared(at) => at | IN_ARENA | SHARED,
        };
        self.batch.fields.push(Field { name, at, length });
    }

    /// Makes a stem of the fields added since the last row or stem. As for [`Row::stem`], they must
    /// be valid for every line of its rows. If there are [`STEMS_MAX`] already, returns `None` and
    /// drops the fields.
    pub fn share(&mut self, origin: u16) -> Option<StemId> {
        debug_assert!(usize::from(origin) < self.origins.len());
        if self.batch.stems.len() >= STEMS_MAX {
            self.batch.fields.truncate(self.fields_at);
            return None;
        }
        let stem = StemId(self.batch.stems.len() as u16);
        let fields = (self.batch.fields.len() - self.fields_at) as u16;
        self.batch.stems.push(Stem { fields_at: self.fields_at as u32, fields, origin });
        self.fields_at = self.batch.fields.len();
        Some(stem)
    }

    /// The stem of an origin's rows that share nothing else.
    pub fn stem_of(&self, origin: u16) -> StemId {
        debug_assert!(usize::from(origin) < self.origins.len());
        StemId(origin)
    }

    /// Closes the row, whose line is the text written since the previous row. Its fields are those
    /// added since then, and those of its stem. `id` is the line id, `sequence` the number of its
    /// frame in this store.
    #[inline]
    pub fn end_row(
        &mut self,
        (id, sequence): (LineId, u64),
        time_ns: i64,
        received_ns: i64,
        stem: StemId,
    ) {
        self.batch.rows.push(RowHead {
            time_ns,
            received_ns,
            line_at: self.line_at,
            line_length: self.bytes.len() as u32 - self.line_at,
            fields_at: self.fields_at as u32,
            fields: (self.batch.fields.len() - self.fields_at) as u16,
            stem,
        });
        self.batch.time_min_ns = self.batch.time_min_ns.min(time_ns);
        self.batch.time_max_ns = self.batch.time_max_ns.max(time_ns);
        self.ids.push(id);
        self.sequences.push(sequence);
        self.line_at = self.bytes.len() as u32;
        self.fields_at = self.batch.fields.len();
    }

    /// The batch.
    pub fn finish(mut self) -> Batch {
        self.batch.fields.shrink_to_fit();
        let RestoredBuilder { bytes, origins, ids, sequences, .. } = self;
        self.batch.text = Text::Block { bytes, origins, ids, sequences };
        self.batch
    }
}
