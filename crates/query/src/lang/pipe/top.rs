//! `top N by (a, b) [hits as name] [rank as name]`: the most frequent values, with the number of
//! rows that have them.
//!
//! All different values are counted, up to the memory limit of queries.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Operator, Processor, Registration, one};
use super::sort::{parse_rank, write_rank};
use super::tuples::Tuples;
use super::uniq::{hits_name, push_tuples};
use super::{parse_by, write_names};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{Block, Column, Tally, Weighted};
use crate::lang::pipe::{CountedBy, Next};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `top` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    /// Most rows of the result.
    pub limit: u64,
    /// Fields whose values are counted; at least one.
    pub by: Vec<String>,
    /// Name of the field for the number of rows.
    pub hits: String,
    /// Field for the position of a row, from 1.
    pub rank: Option<String>,
}

/// Default number of rows.
const TOP_ROWS: u64 = 10;

pub(super) static TOP: Registration = Registration {
    doc: Documentation {
        name: "top",
        aliases: &[],
        syntax: "top [<n>] by (<field>, …) [hits as <name>] [rank as <name>]",
        summary: "passes the most frequent values, with the number of rows that have each",
        example: "top 5 by (hostname) hits as n rank as r",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Top, ParseError> {
    let number = cursor.peek().is_some_and(|c| c.is_ascii_digit());
    let limit = if number { parse_count(cursor, None)? } else { TOP_ROWS };
    cursor.eat_keyword("by");
    let position = cursor.position();
    let by = parse_by(cursor)?;
    if by.is_empty() {
        return Err(cursor.error_at(
            position,
            &["field names"],
            "top needs the fields whose values it counts",
        ));
    }
    let mut top = Top { limit, hits: hits_name(&by), by, rank: None };
    loop {
        if cursor.eat_keyword("hits") {
            cursor.eat_keyword("as");
            top.hits = cursor.expect_string(false, "a name for the number of hits")?.text;
        } else if let Some(name) = parse_rank(cursor)? {
            top.rank = Some(name);
        } else {
            return Ok(top);
        }
    }
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "top {} by ({})", self.limit, write_names(&self.by))?;
        if self.hits != hits_name(&self.by) {
            write!(f, " hits as {}", quote_name(&self.hits))?;
        }
        write_rank(&self.rank, f)
    }
}

impl Operator for Top {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::of(&self.by)
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(TopRows { top: self.clone(), tuples: Tuples::default() })
    }

    fn counted_by(&self) -> Option<CountedBy> {
        Some(CountedBy::fields(self.by.iter().map(String::as_str)))
    }
}

struct TopRows {
    top: Top,
    tuples: Tuples,
}

impl TopRows {
    fn count(
        &mut self,
        block: &Block,
        hits: impl Fn(usize) -> u64,
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        let columns: Vec<Column<'_>> = self.top.by.iter().map(|name| block.column(name)).collect();
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            self.tuples.count(block, row, &columns, hits(row), false, next.meter())?;
        }
        Ok(())
    }
}

impl Processor for TopRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        self.count(&block, |_| 1, next)?;
        Ok(ControlFlow::Continue(()))
    }

    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        self.count(&rows.block, |row| rows.lines[row], next)
    }

    fn push_tally(&mut self, tally: &Tally, next: &mut Next<'_>) -> Result<(), RunError> {
        self.tuples.count_tally(tally, next)
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.tuples)
    }

    fn takes_any_order(&self) -> bool {
        true
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let other = collected.downcast_mut::<Tuples>().expect("of the same pipe");
        self.tuples.merge(std::mem::take(other), next)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        self.tuples.encode(out)
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.tuples.decode(self.top.by.len(), from, meter)
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let count = usize::try_from(self.top.limit).unwrap_or(usize::MAX);
        let tuples = self.tuples.first(count, self.top.by.len() == 1, next)?;
        push_tuples(&self.top.by, Some(&self.top.hits), self.top.rank.as_deref(), tuples, next)
    }
}
