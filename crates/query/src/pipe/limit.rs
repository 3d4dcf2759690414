//! `limit N` and `offset N`: rows by count. Behind lines these are any rows, in practice of the newest units;
//! behind `sort` they are the first ones.

use std::ops::ControlFlow;

use super::Processor;
use crate::block::Block;
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::number::parse_number;
use crate::run::{Next, RunError};

/// Reads a count of rows; `otherwise` when there is none.
pub(super) fn parse_count(
    cursor: &mut Cursor<'_>,
    otherwise: Option<u64>,
) -> Result<u64, ParseError> {
    if let (None | Some('|' | ')'), Some(count)) = (cursor.peek(), otherwise) {
        return Ok(count);
    }
    let what = "a number of rows";
    let written = cursor.expect_string(false, what)?;
    match parse_number(written.text.as_bytes()) {
        Some(count) if count >= 0.0 && count.fract() == 0.0 && count <= u64::MAX as f64 => {
            Ok(count as u64)
        }
        _ => Err(cursor.error_at(written.position, &[what], "not a number of rows")),
    }
}

pub(super) struct LimitRows {
    pub left: u64,
}

impl Processor for LimitRows {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let taken = self.left.min(block.len() as u64);
        self.left -= taken;
        block.slice(0, taken as usize);
        let flow = next.push(block)?;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { flow })
    }
}

pub(super) struct OffsetRows {
    pub left: u64,
}

impl Processor for OffsetRows {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let skipped = self.left.min(block.len() as u64);
        self.left -= skipped;
        block.slice(skipped as usize, usize::MAX);
        next.push(block)
    }
}
