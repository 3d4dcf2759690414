//! `sample N`, `drop_empty_fields` and `blocks_count`: pipes that only use the number of rows, or
//! whether a row has any value.
//!
//! `sample` keeps each row with probability 1/N. Empty fields are never shown, so
//! `drop_empty_fields` only has to drop rows without any value. A block, for `blocks_count`, is a
//! unit of rows that passes through the pipes at once: the selected lines of a unit of the store,
//! or a part of them.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

use super::compute::parse_field;
use super::limit::parse_count;
use super::operator::{
    Documentation, Merges, Mode, Names, Operator, Processor, Registration, RowWise, Work, one,
};
use crate::base::bitmap::Bitmap;
use crate::base::names::NamePattern;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{FieldSet, Meter, RunError};
use crate::block::{Block, MadeRow};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `sample` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// On average one of this many rows passes; at least 1.
    pub one_in: u64,
}

/// The `drop_empty_fields` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropEmptyFields;

/// The `blocks_count` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlocksCount {
    /// Name of the result field.
    pub name: String,
}

pub(super) static SAMPLE: Registration = Registration {
    doc: Documentation {
        name: "sample",
        aliases: &[],
        syntax: "sample <n>",
        summary: "passes one row of <n> on average, chosen at random",
        example: "sample 100",
    },
    parse: |cursor| parse_sample(cursor).map(one),
};

pub(super) static DROP_EMPTY_FIELDS: Registration = Registration {
    doc: Documentation {
        name: "drop_empty_fields",
        aliases: &[],
        syntax: "drop_empty_fields",
        summary: "drops rows in which no field has a value",
        example: "drop_empty_fields",
    },
    parse: |_| Ok(one(DropEmptyFields)),
};

pub(super) static BLOCKS_COUNT: Registration = Registration {
    doc: Documentation {
        name: "blocks_count",
        aliases: &[],
        syntax: "blocks_count [as <name>]",
        summary: "counts the blocks in which the rows are processed",
        example: "blocks_count as n",
    },
    parse: |cursor| parse_blocks_count(cursor).map(one),
};

/// Default name of the result field of `blocks_count`.
const BLOCKS_COUNT_FIELD: &str = "blocks_count";

fn parse_sample(cursor: &mut Cursor<'_>) -> Result<Sample, ParseError> {
    let position = cursor.position();
    match parse_count(cursor, None)? {
        0 => {
            Err(cursor.error_at(position, &["a number from 1 on"], "one row in 0 cannot be passed"))
        }
        one_in => Ok(Sample { one_in }),
    }
}

fn parse_blocks_count(cursor: &mut Cursor<'_>) -> Result<BlocksCount, ParseError> {
    let name = parse_field(cursor, "as")?.unwrap_or(BLOCKS_COUNT_FIELD.to_owned());
    Ok(BlocksCount { name })
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {}", self.one_in)
    }
}

impl fmt::Display for DropEmptyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("drop_empty_fields")
    }
}

impl fmt::Display for BlocksCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name == BLOCKS_COUNT_FIELD {
            true => f.write_str("blocks_count"),
            false => write!(f, "blocks_count as {}", quote_name(&self.name)),
        }
    }
}

impl Operator for Sample {
    fn mode(&self) -> Mode {
        Mode::RowWise
    }

    fn needed_fields(&self, wanted: FieldSet) -> FieldSet {
        wanted
    }

    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        Some(Box::new(self.clone()))
    }

    fn names(&self) -> Names {
        Names::Same
    }
}

impl RowWise for Sample {
    fn apply(&self, block: &mut Block, _work: &mut Work<'_>) -> Result<usize, RunError> {
        let mut rows = Bitmap::full(block.len());
        rows.retain(|_| fastrand::u64(..self.one_in) == 0);
        block.retain(&rows);
        Ok(0)
    }
}

impl Operator for DropEmptyFields {
    fn mode(&self) -> Mode {
        Mode::RowWise
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        // Any field with a value makes a row pass.
        wanted.add_pattern(&NamePattern::ANY);
        wanted
    }

    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        Some(Box::new(DropEmptyFields))
    }

    fn keeps_time(&self) -> bool {
        true
    }
}

impl RowWise for DropEmptyFields {
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError> {
        let mut rows = Bitmap::full(block.len());
        rows.retain(|row| {
            let mut any = false;
            block.visit(row, &[], work.scratch, &mut |_, _, _| any = true);
            any
        });
        block.retain(&rows);
        Ok(0)
    }
}

impl Operator for BlocksCount {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::none()
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(CountBlocks { name: self.name.clone(), blocks: 0 })
    }
}

struct CountBlocks {
    name: String,
    blocks: u64,
}

impl Processor for CountBlocks {
    fn push(&mut self, block: Block, _next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        self.blocks += u64::from(!block.is_empty());
        Ok(ControlFlow::Continue(()))
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.blocks)
    }

    fn merge(&mut self, collected: &mut dyn Any, _: &mut Next<'_>) -> Result<(), RunError> {
        self.blocks += *collected.downcast_mut::<u64>().expect("of the same pipe");
        Ok(())
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.blocks)
    }

    fn decode(&mut self, from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<(), RunError> {
        self.blocks = from.count()?;
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let mut row = MadeRow::default();
        row.push(self.name.as_str().into(), self.blocks.to_string().as_bytes());
        next.push(Block::Made(vec![row])).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Record, check_pipe, record};

    #[test]
    fn rows_by_number() {
        let records: Vec<Record> = (0..1_000).map(|i| record(i, &[("a", "x")])).collect();
        check_pipe(&records, "sample 1 | stats count() n", &["n=1000"]);
        // One in a hundred of 1,000 rows: no row, or more than a hundred, is practically
        // impossible.
        check_pipe(
            &records,
            "sample 100 | stats count() n | filter n:range[1, 100] | fields none",
            &[""],
        );
        check_pipe(&records, "blocks_count", &["blocks_count=1"]);
        check_pipe(&records, "blocks_count as n", &["n=1"]);
        check_pipe(&records[..1], "fields b | drop_empty_fields", &[]);
        check_pipe(&records[..1], "fields a, b | drop_empty_fields", &["a=x"]);
    }
}
