//! What a pipe is: the interface that each of them implements, and what the table of pipes has of
//! each.
//!
//! An operator says of itself how rows go through it ([`Mode`]), which fields it needs, and what
//! runs it ([`Processor`]). Nothing outside its file has to know it: the parser, the planner and
//! the executor ask through [`Operator`]. Operators that look at each row by itself give a
//! [`RowWise`] instead of a processor; live tails and queries run it alike.
//!
//! Dispatch is dynamic once a block of rows, never once a row.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;

use super::Pipe;
use super::partial::{Decoder, Encoder};
use super::shown::Shown;
use crate::block::{Block, NewNames, Scratch};
use crate::exec::{Meter, Next, RunError};
use crate::filter::Filter;
use crate::plan::counting::{CountedBy, Tally};
use crate::plan::fields::FieldSet;
use crate::plan::rolled::Weighted;
use crate::syntax::cursor::Cursor;
use crate::syntax::error::ParseError;
use crate::syntax::query::Query;

/// What users are told of a pipe or a stats function: by help, completion and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Documentation {
    /// Its name in queries.
    pub name: &'static str,
    /// Other names with the same meaning.
    pub aliases: &'static [&'static str],
    /// How it is written: optional parts in brackets.
    pub syntax: &'static str,
    /// What it does, in a sentence without a stop.
    pub summary: &'static str,
    /// A complete use of it, as it stands behind a `|` or behind `stats`.
    pub example: &'static str,
}

/// A line of the table of pipes.
pub(crate) struct Registration {
    /// What users are told.
    pub doc: Documentation,
    /// Reads what stands behind the name, as one or more pipes.
    pub parse: fn(&mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError>,
}

/// A parsed operator as what [`Registration::parse`] returns.
pub(super) fn one(operator: impl Operator) -> Vec<Pipe> {
    vec![Pipe::new(operator)]
}

/// How rows go through an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It looks at each row by itself and leaves the order of event time: the newest rows of a
    /// query can go through it, and it can run wherever the rows are.
    RowWise,
    /// It hands rows on as they come, but depends on which rows came before or changes their time.
    Streaming,
    /// It hands nothing on before all rows have come.
    Collecting,
}

/// How the partial states of an operator become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merges {
    /// They do not: one operator has to see all rows.
    Never,
    /// The result is that of one operator if each took a stretch of the rows, and they are merged
    /// in the order of these.
    InOrder,
    /// The result is that of one operator whichever rows each took.
    AnyOrder,
}

/// What is known of the names of fields behind an operator, without looking at rows.
pub(crate) enum Names {
    /// The same fields as before it.
    Same,
    /// These, in this order.
    Are(Vec<String>),
    /// Not known.
    Unknown,
}

/// What makes operators comparable and copyable although their types are not known; implemented for
/// each of them here.
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

/// A pipe as it is written in a query. `Display` writes it so that it is parsed as the same again.
pub(crate) trait Operator: Node + fmt::Debug + fmt::Display + Send + Sync {
    /// How rows go through it.
    fn mode(&self) -> Mode;

    /// Turns the fields that rows are to have behind it into those that they must have before it.
    fn needed_fields(&self, wanted: FieldSet) -> FieldSet;

    /// What runs it on the rows of a block, if it looks at each row by itself.
    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        None
    }

    /// What runs it; `carried` are hidden fields that copies of rows keep. To be given by operators
    /// that are not row-wise.
    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        let rows = self.row_wise().expect("others have a processor of their own");
        let (scratch, names) = (Scratch::default(), NewNames::default());
        Box::new(RowWiseStage { rows, scratch, names })
    }

    /// How what it collected is merged with what another one of the same collected.
    fn merges(&self) -> Merges {
        Merges::Never
    }

    /// Whether the rows behind it have the time of a line each, as far as names tell.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Whether exactly the rows that come go on, with other columns at most.
    fn keeps_rows(&self) -> bool {
        false
    }

    /// Filters in it.
    fn filters(&self) -> Vec<&Filter> {
        Vec::new()
    }

    /// The same, to be changed.
    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        assert!(self.filters().is_empty(), "filters can be changed where there are any");
        Vec::new()
    }

    /// Queries that it runs, to be changed: those inside its filters are not among them.
    fn queries_mut(&mut self) -> Vec<&mut Query> {
        Vec::new()
    }

    /// Whether it hands on lines of the store that the filter of the query has not selected.
    fn reads_other_lines(&self) -> bool {
        false
    }

    /// Why it has to be the first pipe, if it has to.
    fn first_because(&self) -> Option<&'static str> {
        None
    }

    /// What is known of the fields behind it and of their order.
    fn names(&self) -> Names {
        Names::Unknown
    }

    /// The only field of its rows, for a query inside a filter.
    fn value_field(&self) -> Names {
        Names::Unknown
    }

    /// Tells it the fields before it and their order, once the whole query is parsed; none where
    /// they are not known.
    fn settle_order(&mut self, _before: &dyn Fn() -> Option<Vec<String>>) {}

    /// By which fields it counts rows, if it does nothing but count them.
    fn counted_by(&self) -> Option<CountedBy> {
        None
    }

    /// Follows what it does to labels and numbers behind the last `stats`; `is_range`: of many
    /// steps of time. The error says why it may not stand there.
    fn follow_names(&self, _shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        Err("may not follow the last stats pipe here".to_owned())
    }
}

/// What a row-wise operator works with beside the rows.
pub(crate) struct Work<'a> {
    /// Room for computed values.
    pub scratch: &'a mut Scratch,
    /// Names of fields that the operator made before.
    pub names: &'a mut NewNames,
    /// Counts the memory.
    pub meter: &'a mut Meter,
}

/// Runs an operator that looks at each row by itself.
pub(crate) trait RowWise: Send + Sync {
    /// Changes a block of at most [`rows_max`](Self::rows_max) rows; returns the bytes of memory
    /// that were counted for new values.
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError>;

    /// Most rows of a block that it takes at once.
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
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
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
}

impl RowWiseStage {
    fn pass(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
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

/// A pipe that runs.
pub(crate) trait Processor: Send {
    /// Takes rows; hands on what it can. Break: it wants no more.
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError>;

    /// Takes rows that stand for many lines each; only for pipes that count rows.
    fn push_weighted(
        &mut self,
        _rows: &Weighted,
        _next: &mut Next<'_, '_>,
    ) -> Result<(), RunError> {
        unreachable!("only pipes that are counted by fields count rows that they have not seen");
    }

    /// Takes how many lines have which values of its only field; only for pipes that count rows.
    fn push_tally(&mut self, _tally: &Tally, _next: &mut Next<'_, '_>) -> Result<(), RunError> {
        unreachable!("only pipes that are counted by fields count rows that they have not seen");
    }

    /// Rows that are older can change nothing any more; for the pipe that keeps the newest rows
    /// ([`crate::plan::Plan::newest_at`]).
    fn oldest_wanted_ns(&self) -> i64 {
        i64::MIN
    }

    /// The partial state: what it collected so far. Of operators that are merged
    /// ([`Operator::merges`]); they hand nothing on before [`finish`](Self::finish).
    fn collected(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Whether it hands on the very same for any order of the rows. Of rows with equal keys, `sort`
    /// gives the first first, and a sum may be rounded otherwise.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Takes over what another one collected.
    fn merge(
        &mut self,
        _collected: &mut dyn Any,
        _next: &mut Next<'_, '_>,
    ) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are merged");
    }

    /// Writes the partial state, for another process that runs the same pipe.
    fn encode(&self, _out: &mut Encoder<'_>) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are written");
    }

    /// Reads what [`encode`](Self::encode) wrote, into a stage that has collected nothing yet.
    fn decode(&mut self, _from: &mut Decoder<'_>, _meter: &mut Meter) -> Result<(), RunError> {
        unreachable!("only pipes that say what they collected are read");
    }

    /// Hands on what it kept; no more rows come.
    fn finish(&mut self, _next: &mut Next<'_, '_>) -> Result<(), RunError> {
        Ok(())
    }
}
