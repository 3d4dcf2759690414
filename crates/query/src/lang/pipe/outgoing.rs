//! Rows that a pipe made and hands on: in blocks that are bounded in rows and in bytes, so that a
//! thousand rows with values of megabytes never exist at once. Their memory is counted until the
//! next pipe has handled them.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::base::{Meter, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow};
use crate::lang::pipe::Next;

/// Bytes of rows in one block, unless one row has more.
const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Bytes of rows up to which their memory is not counted.
const UNCOUNTED_BYTES_MAX: usize = 512 << 10;

/// Rows that wait to be handed on.
#[derive(Default)]
pub(super) struct Outgoing {
    rows: Vec<MadeRow>,
    bytes: usize,
    counted: usize,
}

impl Outgoing {
    /// Adds a row, and hands rows on once there are enough. Break: no more rows are wanted.
    pub fn push(
        &mut self,
        row: RowBuilder,
        next: &mut Next<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let RowBuilder { row, counted } = row;
        self.bytes += row.memory_bytes();
        self.counted += counted;
        self.rows.push(row);
        if self.bytes > self.counted + UNCOUNTED_BYTES_MAX {
            next.meter().take(self.bytes - self.counted)?;
            self.counted = self.bytes;
        }
        if self.rows.len() < BLOCK_ROWS_MAX && self.bytes < BLOCK_BYTES_MAX {
            return Ok(ControlFlow::Continue(()));
        }
        self.flush(next)
    }

    /// Hands on the waiting rows.
    pub fn flush(&mut self, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let flow = next.push(Block::Made(std::mem::take(&mut self.rows)))?;
        self.bytes = 0;
        next.meter().give_back(std::mem::take(&mut self.counted));
        Ok(flow)
    }
}

/// Builds a row; its memory is counted unless it is small.
#[derive(Default)]
pub(super) struct RowBuilder {
    row: MadeRow,
    counted: usize,
}

impl RowBuilder {
    /// Reserves room for `fields` fields and `bytes` bytes of values; the row may exceed both.
    pub fn with_room(
        fields: usize,
        bytes: usize,
        meter: &mut Meter,
    ) -> Result<RowBuilder, RunError> {
        let mut builder = RowBuilder::default();
        builder.row.make_room(bytes, &mut builder.counted, meter)?;
        builder.row.reserve(fields, bytes);
        Ok(builder)
    }

    /// Appends a field.
    pub fn push(
        &mut self,
        name: Arc<str>,
        value: &[u8],
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        self.row.make_room(value.len(), &mut self.counted, meter)?;
        self.row.push(name, value);
        Ok(())
    }
}
