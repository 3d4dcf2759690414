//! The interface that every pipe implements, and its entry in the table of pipes.
//!
//! An operator describes itself: how rows go through it ([`Mode`]), which fields it needs, and what
//! runs it ([`Processor`]). Nothing outside its file depends on its type: the parser, the planner
//! and the executor use [`Operator`]. Row-wise operators give a [`RowWise`] instead of a processor,
//! which live tails and queries run in the same way.
//!
//! Dispatch is dynamic once per block of rows, never once per row.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

use super::Pipe;
use super::shown::Shown;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{FieldSet, Meter, RunError};
use crate::block::{Block, NewNames, Scratch, Tally, Vectors, Weighted};
use crate::lang::filter::Filter;
use crate::lang::pipe::{ComputesNumbers, CountedBy, Next, VectorsRead};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// Documentation of a pipe or a stats function for users: in help, completion and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Documentation {
    /// Its name in queries.
    pub name: &'static str,
    /// Other names with the same meaning.
    pub aliases: &'static [&'static str],
    /// Syntax: optional parts are in brackets.
    pub syntax: &'static str,
    /// What it does, in a sentence without a full stop.
    pub summary: &'static str,
    /// A complete example, as it stands behind a `|` or behind `stats`.
    pub example: &'static str,
}

/// An entry of the table of pipes.
pub(crate) struct Registration {
    /// Documentation for users.
    pub doc: Documentation,
    /// Parses the text behind the name, as one or more pipes.
    pub parse: fn(&mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError>,
}

/// Wraps a parsed operator as the result of [`Registration::parse`].
pub(super) fn one(operator: impl Operator) -> Vec<Pipe> {
    vec![Pipe::new(operator)]
}

/// How rows go through an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Handles each row by itself and keeps the order of event time. The newest rows of a query can
    /// pass through it, and it can run wherever the rows are.
    RowWise,
    /// Hands rows on as they come, but depends on earlier rows or sets the time of rows.
    Streaming,
    /// Hands nothing on before all rows have come.
    Collecting,
}

/// How the partial states of an operator are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merges {
    /// States cannot be merged: one operator must see all rows.
    Never,
    /// The result equals that of one operator if each state is of a contiguous range of the rows,
    /// and the states are merged in the order of the ranges.
    InOrder,
    /// The result equals that of one operator, however the rows are distributed.
    AnyOrder,
}

/// What is known about the field names behind an operator without looking at rows.
pub(crate) enum Names {
    /// The same fields as before the operator.
    Same,
    /// Exactly these fields, in this order.
    Are(Vec<String>),
    /// Unknown.
    Unknown,
}

/// Makes operators comparable and cloneable behind `dyn`; implemented here for every operator.
pub(crate) trait Node: Any {
    fn boxed_clone(&self) -> Box<dyn Operator>;
    fn equals(&self, other: &dyn Operator) -> bool;
}

impl<O: Operator + Clone + PartialEq> Node for O {
    fn boxed_clone(&self) -> Box<dyn Operator> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Operator) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<O>().is_some_and(|other| self == other)
    }
}

/// A pipe as it is written in a query. The text of `Display` is parsed as an equal pipe.
pub(crate) trait Operator: Node + fmt::Debug + fmt::Display + Send + Sync {
    /// How rows go through the operator.
    fn mode(&self) -> Mode;

    /// Turns the fields that rows need behind the operator into those they need before it.
    fn needed_fields(&self, wanted: FieldSet) -> FieldSet;

    /// Runs the operator on the rows of a block, if it is row-wise.
    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        None
    }

    /// The stage that runs the operator; `carried` are hidden fields that copies of rows keep.
    /// Operators that are not row-wise must implement it.
    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        let rows = self.row_wise().expect("others have a processor of their own");
        let (scratch, names) = (Scratch::default(), NewNames::default());
        Box::new(RowWiseStage { rows, scratch, names })
    }

    /// How partial states of this operator are merged.
    fn merges(&self) -> Merges {
        Merges::Never
    }

    /// Whether each row behind the operator has the time of a line, as far as names tell.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Whether the operator adds the same duration to the time of each row, so that rows behind it
    /// have the order of their lines, but other times.
    fn moves_time(&self) -> bool {
        false
    }

    /// Whether the operator passes exactly the rows it takes, with other columns at most.
    fn keeps_rows(&self) -> bool {
        false
    }

    /// Whether the operator passes exactly the rows it takes, with fields that it computes of each
    /// row besides those that the row has, and not another time.
    fn only_adds_fields(&self) -> bool {
        false
    }

    /// Filters inside the operator.
    fn filters(&self) -> Vec<&Filter> {
        Vec::new()
    }

    /// As [`Operator::filters`], mutable.
    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        assert!(self.filters().is_empty(), "filters can be changed where there are any");
        Vec::new()
    }

    /// Queries that the operator runs, mutable; without those inside its filters.
    fn queries_mut(&mut self) -> Vec<&mut Query> {
        Vec::new()
    }

    /// Whether the operator hands on lines of the store that the filter of the query did not
    /// select.
    fn reads_other_lines(&self) -> bool {
        false
    }

    /// Why the operator must be the first pipe; none if it need not be.
    fn first_because(&self) -> Option<&'static str> {
        None
    }

    /// What is known of the fields behind the operator, and of their order.
    fn names(&self) -> Names {
        Names::Unknown
    }

    /// The only field of the rows, for a query inside a filter.
    fn value_field(&self) -> Names {
        Names::Unknown
    }

    /// Passes the fields before the operator, in their order, once the whole query is parsed; none
    /// where they are unknown.
    fn settle_order(&mut self, _before: &dyn Fn() -> Option<Vec<String>>) {}

    /// By which fields the operator counts rows; none unless it only counts.
    fn counted_by(&self) -> Option<CountedBy> {
        None
    }

    /// What the operator reads of the rows, if it takes vectors ([`Processor::push_vectors`]).
    fn vectors_read(&self) -> Option<VectorsRead<'_>> {
        None
    }

    /// The operator as one that computes numbers from numbers of the same row, and does nothing
    /// else.
    fn computes_numbers(&self) -> Option<&dyn ComputesNumbers> {
        None
    }

    /// Updates which fields are labels and which are numbers, for an operator behind the last
    /// `stats`. `is_range`: the query is over many time steps. The error explains why the operator
    /// is not allowed there.
    fn follow_names(&self, _shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        Err("may not follow the last stats pipe here".to_owned())
    }
}

/// What a row-wise operator works with besides the rows.
pub(crate) struct Work<'a> {
    /// Buffers for computed values.
    pub scratch: &'a mut Scratch,
    /// Field names that the operator made for earlier blocks.
    pub names: &'a mut NewNames,
    /// Counts the memory.
    pub meter: &'a mut Meter,
}

/// Runs a row-wise operator.
pub(crate) trait RowWise: Send + Sync {
    /// Changes a block of at most [`rows_max`](Self::rows_max) rows. Returns the bytes of memory
    /// that were counted for new values.
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError>;

    /// Most rows of a block for one call.
    fn rows_max(&self) -> usize {
        usize::MAX
    }
}

/// The stage of a row-wise operator: changes blocks, and hands them on.
struct RowWiseStage {
    rows: Box<dyn RowWise>,
    scratch: Scratch,
    names: NewNames,
}

impl Processor for RowWiseStage {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let rows_max = self.rows.rows_max();
        if rows_max == usize::MAX {
            return self.pass(block, next);
        }
        for part in block.into_parts(rows_max) {
            next.check()?;
            let flow = self.pass(part, next)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Passes each row with the number of lines that it stands for. The operator only adds fields
    /// ([`Operator::only_adds_fields`]).
    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        let rows_max = self.rows.rows_max();
        let mut lines = rows.lines.chunks(rows_max);
        let mut times_ns = rows.times_ns.chunks(rows_max);
        for mut block in rows.block.clone().into_parts(rows_max) {
            next.check()?;
            let (scratch, names, meter) = (&mut self.scratch, &mut self.names, next.meter());
            let held = self.rows.apply(&mut block, &mut Work { scratch, names, meter })?;
            let lines = lines.next().unwrap_or_default().to_vec();
            assert_eq!(block.len(), lines.len(), "it keeps rows");
            let times_ns = times_ns.next().unwrap_or_default().to_vec();
            next.push_weighted(&Weighted { block, lines, times_ns })?;
            next.meter().give_back(held);
        }
        Ok(())
    }
}

impl RowWiseStage {
    fn pass(&mut self, mut block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        if block.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let (scratch, names, meter) = (&mut self.scratch, &mut self.names, next.meter());
        let held = self.rows.apply(&mut block, &mut Work { scratch, names, meter })?;
        let flow = next.push(block)?;
        if held > 0 {
            next.meter().give_back(held);
        }
        Ok(flow)
    }
}

/// A running pipe.
pub(crate) trait Processor: Send {
    /// Takes rows, and hands on what it can. Break: it needs no more rows.
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError>;

    /// Takes rows that each stand for many lines; only for pipes that count rows, and those before
    /// them.
    fn push_weighted(&mut self, _rows: &Weighted, _next: &mut Next<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that are counted by fields count rows that they have not seen");
    }

    /// Takes the values of the only counted field with their numbers of lines; only for pipes that
    /// count rows.
    fn push_tally(&mut self, _tally: &Tally, _next: &mut Next<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that are counted by fields count rows that they have not seen");
    }

    /// Takes the rows of a unit as vectors; only for pipes that say which they read
    /// ([`Operator::vectors_read`]).
    fn push_vectors(&mut self, _rows: &Vectors, _next: &mut Next<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that say which vectors they read are given any");
    }

    /// Rows older than this can no longer change the result; for the pipe that keeps the newest
    /// rows ([`crate::plan::QueryPlan::newest_at`]).
    fn oldest_wanted_ns(&self) -> i64 {
        i64::MIN
    }

    /// Rows newer than this can no longer change the result; for the pipe that keeps the oldest
    /// rows ([`crate::plan::QueryPlan::oldest_at`]).
    fn newest_wanted_ns(&self) -> i64 {
        i64::MAX
    }

    /// The partial state: what the stage has collected so far. Only for operators whose states are
    /// merged ([`Operator::merges`]); these hand nothing on before [`finish`](Self::finish).
    fn collected(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Whether the output is identical for any order of the rows. It is not for `sort`, where of
    /// rows with equal keys the first comes first, nor for a sum that may be rounded differently.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Merges the state of another stage of the same pipe.
    fn merge(&mut self, _collected: &mut dyn Any, _next: &mut Next<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are merged");
    }

    /// Encodes the partial state, for another process that runs the same pipe.
    fn encode(&self, _out: &mut Encoder<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are written");
    }

    /// Decodes a state of [`encode`](Self::encode) into a stage that has collected nothing yet.
    fn decode(&mut self, _from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are read");
    }

    /// Hands on what is held, after the last row.
    fn finish(&mut self, _next: &mut Next<'_>) -> Result<(), RunError> {
        Ok(())
    }
}
