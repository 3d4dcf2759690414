//! `limit N` and `offset N`: keeps or skips a number of rows. Behind lines these are any rows, in
//! practice those of the newest units; behind `sort` they are the first rows.

use std::fmt;
use std::ops::ControlFlow;

use super::operator::{Documentation, Mode, Names, Operator, Processor, Registration, one};
use super::shown::Shown;
use crate::base::number::parse_number;
use crate::base::{FieldSet, RunError};
use crate::block::Block;
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `limit` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Rows that pass.
    pub count: u64,
}

/// The `offset` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Rows that are skipped.
    pub count: u64,
}

pub(super) static LIMIT: Registration = Registration {
    doc: Documentation {
        name: "limit",
        aliases: &["head"],
        syntax: "limit [<n>]",
        summary: "passes at most <n> rows, 10 by default; put sort before it to choose which",
        example: "limit 10",
    },
    parse: |cursor| parse_count(cursor, Some(10)).map(|count| one(Limit { count })),
};

pub(super) static OFFSET: Registration = Registration {
    doc: Documentation {
        name: "offset",
        aliases: &["skip"],
        syntax: "offset <n>",
        summary: "skips the first <n> rows; put sort before it to choose which",
        example: "offset 10",
    },
    parse: |cursor| parse_count(cursor, None).map(|count| one(Offset { count })),
};

/// Parses a number of rows; `otherwise` is the default.
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
        _ => Err(cursor.error_at(written.position, &[what], "this is not a number of rows")),
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}", self.count)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.count)
    }
}

/// Implements the operator for both pipes.
macro_rules! operator_by_count {
    ($operator:ty, $rows:ident) => {
        impl Operator for $operator {
            fn mode(&self) -> Mode {
                Mode::Streaming
            }

            fn needed_fields(&self, wanted: FieldSet) -> FieldSet {
                wanted
            }

            fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
                Box::new($rows { left: self.count })
            }

            fn names(&self) -> Names {
                Names::Same
            }

            fn value_field(&self) -> Names {
                Names::Same
            }

            fn follow_names(&self, _shown: &mut Shown, _is_range: bool) -> Result<(), String> {
                Ok(())
            }
        }
    };
}
operator_by_count!(Limit, LimitRows);
operator_by_count!(Offset, OffsetRows);

struct LimitRows {
    left: u64,
}

impl Processor for LimitRows {
    fn push(&mut self, mut block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let taken = self.left.min(block.len() as u64);
        self.left -= taken;
        block.slice(0, taken as usize);
        let flow = next.push(block)?;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { flow })
    }
}

struct OffsetRows {
    left: u64,
}

impl Processor for OffsetRows {
    fn push(&mut self, mut block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let skipped = self.left.min(block.len() as u64);
        self.left -= skipped;
        block.slice(skipped as usize, usize::MAX);
        next.push(block)
    }
}
