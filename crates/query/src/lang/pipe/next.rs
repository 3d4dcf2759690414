//! What a running pipe can reach: the stages behind it ([`Next`]), and the query that it is a part
//! of ([`RunningQuery`]).
//!
//! Dispatch through these traits is dynamic once per block of rows or query, never once per row:
//! the meter, which pipes use for every row, is reached directly.

use std::ops::ControlFlow;

use super::Processor;
use crate::base::parallel::in_parallel;
use crate::base::{Meter, RunError, TimeRange, Whose};
use crate::block::{Block, Tally, Weighted};
use crate::lang::context::Context;
use crate::lang::source::{ScanUnit, Source};
use crate::lang::syntax::query::Query;

/// The query that a stage is a part of, as its pipes see it. Each thread of the query has one.
pub(crate) trait RunningQuery {
    /// Checks that the query may continue.
    fn check(&self) -> Result<(), RunError>;

    /// Event times that the query reads.
    fn range(&self) -> TimeRange;

    /// Whose lines the query reads.
    fn whose(&self) -> Whose;

    /// The source of the lines.
    fn source(&self) -> &dyn Source;

    /// What threads need to work for the query in parallel.
    fn sharing(&self) -> Sharing<'_>;

    /// Runs a query inside this one, and calls `each` with its rows until `each` breaks.
    fn run_query(&mut self, query: &Query, each: EachInner<'_>) -> Result<(), RunError>;

    /// The lines that `query` selects on the sides of the source, in event times of `range`, as
    /// units. They are held in memory, which counts as memory of the query until it ends.
    fn lines_of_sides(
        &mut self,
        query: &Query,
        range: TimeRange,
    ) -> Result<Vec<Box<dyn ScanUnit>>, RunError>;
}

/// Called with the rows of a query inside another one, and with the outer query.
pub(crate) type EachInner<'e> =
    &'e mut dyn FnMut(Block, &mut dyn RunningQuery) -> Result<ControlFlow<()>, RunError>;

/// Called with the rows of a query inside another one, and with the stages behind the pipe that
/// runs it.
pub(crate) type EachBlock<'e> =
    &'e mut dyn FnMut(Block, &mut Next<'_>) -> Result<ControlFlow<()>, RunError>;

/// Receives the rows behind the last pipe.
pub(crate) trait RowReceiver {
    /// Takes rows. Break: no more rows are wanted.
    fn take(&mut self, block: Block) -> Result<ControlFlow<()>, RunError>;
}

/// The stages behind a pipe, and the receiver behind the last one.
pub(crate) struct Next<'a> {
    pub rest: &'a mut [Box<dyn Processor>],
    /// Counts the memory of the query.
    pub meter: &'a mut Meter,
    /// Index of the unit that the rows come from, among the units that are read.
    pub unit: usize,
    pub query: &'a mut dyn RunningQuery,
    /// None for a thread whose last stage only collects.
    pub receiver: Option<&'a mut dyn RowReceiver>,
}

/// The receiver for a shorter time.
fn reborrowed<'s>(
    receiver: &'s mut Option<&mut dyn RowReceiver>,
) -> Option<&'s mut dyn RowReceiver> {
    match receiver {
        Some(receiver) => Some(&mut **receiver),
        None => None,
    }
}

impl Next<'_> {
    /// The first of these stages, and the stages behind it.
    fn split(&mut self) -> Option<(&mut Box<dyn Processor>, Next<'_>)> {
        let (stage, rest) = self.rest.split_first_mut()?;
        let receiver = reborrowed(&mut self.receiver);
        let (meter, query) = (&mut *self.meter, &mut *self.query);
        Some((stage, Next { rest, meter, unit: self.unit, query, receiver }))
    }

    /// Passes rows to the next stage. Break: no more rows are wanted.
    pub fn push(&mut self, block: Block) -> Result<ControlFlow<()>, RunError> {
        if block.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some((stage, mut next)) = self.split() {
            return stage.push(block, &mut next);
        }
        let receiver = self.receiver.as_mut().expect("what is only collected goes nowhere yet");
        receiver.take(block)
    }

    /// Passes rows that stand for many lines to the first stage.
    pub fn push_weighted(&mut self, rows: &Weighted) -> Result<(), RunError> {
        let (stage, mut next) = self.split().expect("it has a pipe that counts");
        stage.push_weighted(rows, &mut next)
    }

    /// Passes values with their numbers of lines to the first stage.
    pub fn push_tally(&mut self, tally: &Tally) -> Result<(), RunError> {
        let (stage, mut next) = self.split().expect("it has a pipe that counts");
        stage.push_tally(tally, &mut next)
    }

    /// Whether the receiver of these rows gives identical results for any order of them.
    pub fn takes_any_order(&self) -> bool {
        self.rest.first().is_some_and(|stage| stage.takes_any_order())
    }

    /// Runs a query inside this one, and calls `each` with its rows until `each` breaks.
    pub fn run_query(&mut self, query: &Query, each: EachBlock<'_>) -> Result<(), RunError> {
        let Next { rest, meter, unit, query: outer, receiver } = self;
        outer.run_query(query, &mut |block, outer| {
            let receiver = reborrowed(receiver);
            each(block, &mut Next { rest, meter, unit: *unit, query: outer, receiver })
        })
    }

    /// Counts the memory of the query.
    #[inline]
    pub fn meter(&mut self) -> &mut Meter {
        self.meter
    }

    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.query.check()
    }
}

/// What threads need to work for a query in parallel, beyond reading.
pub(crate) struct Sharing<'a> {
    pub context: &'a Context,
    pub meter: Meter,
}

impl Sharing<'_> {
    /// Threads that the query may use.
    pub fn threads(&self) -> usize {
        self.context.limits.threads.max(1)
    }

    /// A meter for one of the threads.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.meter.check()
    }

    /// Does `work` with each share on a thread of its own, with the first share on this thread.
    /// Returns the error of the first share that has one. `work` must end soon after
    /// [`Sharing::check`] fails.
    pub fn each<S: Send>(
        &self,
        mut shares: impl Iterator<Item = S>,
        work: impl Fn(S) -> Result<(), RunError> + Sync,
    ) -> Result<(), RunError> {
        let Some(own) = shares.next() else { return Ok(()) };
        let work = &work;
        in_parallel(|| work(own), shares.map(|share| move || work(share)))
    }
}
