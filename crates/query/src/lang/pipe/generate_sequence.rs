//! `generate_sequence N`: replaces all rows by the numbers from 0 to N-1 in `_msg`, one per row.

use std::fmt;
use std::ops::ControlFlow;

use super::limit::parse_count;
use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `generate_sequence` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerateSequence {
    /// Number of rows.
    pub count: u64,
}

pub(super) static GENERATE_SEQUENCE: Registration = Registration {
    doc: Documentation {
        name: "generate_sequence",
        aliases: &[],
        syntax: "generate_sequence <n>",
        summary: "replaces all rows by <n> rows with the numbers from 0 on in _msg",
        example: "generate_sequence 10",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<GenerateSequence, ParseError> {
    let position = cursor.position();
    match parse_count(cursor, None)? {
        0 => Err(cursor.error_at(
            position,
            &["a number from 1 on"],
            "a sequence needs at least one number",
        )),
        count => Ok(GenerateSequence { count }),
    }
}

impl fmt::Display for GenerateSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generate_sequence {}", self.count)
    }
}

impl Operator for GenerateSequence {
    fn mode(&self) -> Mode {
        Mode::Streaming
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::none()
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(Sequence { count: self.count })
    }
}

struct Sequence {
    count: u64,
}

impl Processor for Sequence {
    fn push(&mut self, _: Block, _: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        Ok(ControlFlow::Break(()))
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let name: std::sync::Arc<str> = MSG.into();
        for from in (0..self.count).step_by(BLOCK_ROWS_MAX) {
            next.check()?;
            let row = |number: u64| {
                let mut row = MadeRow::default();
                row.push(name.clone(), number.to_string().as_bytes());
                row
            };
            let to = self.count.min(from.saturating_add(BLOCK_ROWS_MAX as u64));
            if next.push(Block::Made((from..to).map(row).collect()))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn numbers_in_place_of_rows() {
        let records = [record(1, &[("_msg", "a")]), record(2, &[("_msg", "b")])];
        check_pipe(&records, "generate_sequence 3", &["_msg=0", "_msg=1", "_msg=2"]);
        check_pipe(&records, "generate_sequence 5000 | stats sum(_msg) s", &["s=12497500"]);
        check_pipe(&records, "generate_sequence 1000000000000 | limit 1", &["_msg=0"]);
        assert!(crate::Query::parse("* | generate_sequence 0", 0).is_err());
    }
}
