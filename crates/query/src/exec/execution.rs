//! State that runs share: the execution context of a query, the task of one of its threads, and the
//! view that a stage has of the stages behind it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use record::Batch;

use super::context::{Context, RunError};
use super::delivery::Delivery;
use super::meter::Meter;
use super::scan::Found;
use super::sharing::Sharing;
use super::sides::arrived_unit;
use super::{Outcome, run_within};
use crate::block::Block;
use crate::pipe::Processor;
use crate::plan::Plan;
use crate::plan::rolled::Weighted;
use crate::source::{ScanUnit, Source, TimeRange, Whose};
use crate::syntax::query::Query;

/// The execution context: what a query shares with all queries inside it.
#[derive(Clone)]
pub(crate) struct ExecutionContext<'a> {
    pub source: &'a dyn Source,
    pub context: &'a Context,
    /// When the outermost query began.
    pub started: Instant,
    /// Counts the memory of all these queries.
    pub meter: Meter,
}

impl ExecutionContext<'_> {
    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.context.check(self.started)
    }
}

/// The work of one thread for a query.
#[derive(Clone)]
pub(crate) struct Task<'a> {
    pub execution: ExecutionContext<'a>,
    /// Event times that the query reads.
    pub range: TimeRange,
    /// Whose lines the query reads.
    pub whose: Whose,
    /// Counts what this thread did.
    pub outcome: Outcome,
    /// Index of the unit whose rows are being handed on.
    pub unit: usize,
}

impl<'a> Task<'a> {
    /// Starts a task for a plan. `lines_before`: lines already read for queries inside its filters.
    pub fn new(plan: &Plan<'_>, execution: &ExecutionContext<'a>, lines_before: u64) -> Task<'a> {
        Task {
            execution: execution.clone(),
            range: plan.range,
            whose: plan.whose,
            outcome: Outcome { lines_scanned: lines_before, ..Outcome::default() },
            unit: 0,
        }
    }

    /// Records that a unit is done, and how many of its lines were read or counted.
    pub fn pass(&mut self, unit: &dyn ScanUnit, lines: u64) {
        let progress = &self.execution.context.progress;
        progress.bytes_scanned.fetch_add(unit.bytes(), Relaxed);
        progress.lines_scanned.fetch_add(lines, Relaxed);
        self.outcome.lines_scanned += lines;
    }
}

/// Called with the rows of a query inside another one, and with the stages behind the pipe that
/// runs it.
pub(crate) type EachBlock<'e> =
    &'e mut dyn FnMut(Block, &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError>;

/// The stages behind a pipe, and the delivery behind the last one.
pub(crate) struct Next<'a, 'r> {
    pub rest: &'a mut [Box<dyn Processor>],
    pub task: &'a mut Task<'r>,
    /// None for a thread whose last stage only collects.
    pub delivery: Option<&'a mut Delivery<'r>>,
}

impl<'r> Next<'_, 'r> {
    /// The first of these stages, and the stages behind it.
    fn split(&mut self) -> Option<(&mut Box<dyn Processor>, Next<'_, 'r>)> {
        let (stage, rest) = self.rest.split_first_mut()?;
        let delivery = self.delivery.as_deref_mut();
        Some((stage, Next { rest, task: self.task, delivery }))
    }

    /// Passes rows to the next stage. Break: no more rows are wanted.
    pub fn push(&mut self, block: Block) -> Result<ControlFlow<()>, RunError> {
        if block.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some((stage, mut next)) = self.split() {
            return stage.push(block, &mut next);
        }
        let delivery = self.delivery.as_mut().expect("what is only collected goes nowhere yet");
        delivery.take(block, self.task)
    }

    /// Passes what a unit gave to the first stage. None: the unit was deleted.
    pub fn take(
        &mut self,
        place: usize,
        unit: &dyn ScanUnit,
        found: Found,
    ) -> Result<Option<ControlFlow<()>>, RunError> {
        self.task.unit = place;
        self.task.execution.context.progress.units_done.fetch_add(1, Relaxed);
        let mut flow = ControlFlow::Continue(());
        let mut lines_read = 0;
        match found {
            Found::Outside => {}
            Found::Skipped => self.task.outcome.units_skipped += 1,
            Found::Gone => {
                self.task.outcome.units_gone += 1;
                return Ok(None);
            }
            Found::Counted(rows) => {
                lines_read = unit.lines();
                self.push_weighted(&rows)?;
            }
            Found::Tallied(tally) => {
                lines_read = unit.lines();
                let (stage, mut next) = self.split().expect("it has a pipe that counts");
                stage.push_tally(&tally, &mut next)?;
            }
            Found::Lines(block, lines) => {
                lines_read = lines;
                if let Some(block) = block {
                    flow = self.push(block)?;
                }
            }
        }
        // Lines of another node have been counted there.
        self.task.pass(unit, lines_read.min(unit.lines()));
        Ok(Some(flow))
    }

    /// Passes rows that stand for many lines to the first stage.
    pub fn push_weighted(&mut self, rows: &Weighted) -> Result<(), RunError> {
        let (stage, mut next) = self.split().expect("it has a pipe that counts");
        stage.push_weighted(rows, &mut next)
    }

    /// Whether the receiver of these rows gives identical results for any order of them.
    pub fn takes_any_order(&self) -> bool {
        self.rest.first().is_some_and(|stage| stage.takes_any_order())
    }

    /// Index of the unit that the rows come from, among the units that are read.
    pub fn unit(&self) -> usize {
        self.task.unit
    }

    /// Event times that the query reads.
    pub fn range(&self) -> TimeRange {
        self.task.range
    }

    /// Whose lines the query reads.
    pub fn whose(&self) -> Whose {
        self.task.whose
    }

    /// The source of the lines.
    pub fn source(&self) -> &dyn Source {
        self.task.execution.source
    }

    /// Runs a query inside this one, and calls `each` with its rows until `each` breaks.
    pub fn run_query(&mut self, query: &Query, each: EachBlock<'_>) -> Result<(), RunError> {
        let execution = self.task.execution.clone();
        let mut failed = None;
        let outcome =
            run_within(query, &execution, &mut |rows| match each(rows.into_block(), self) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })?;
        self.task.outcome.lines_scanned += outcome.lines_scanned;
        failed.map_or(Ok(()), Err)
    }

    /// The lines that `query` selects on the sides of the source, in event times of `range`, as
    /// units. They are held in memory, which counts as memory of the query until it ends.
    pub fn lines_of_sides(
        &mut self,
        query: &Query,
        range: TimeRange,
    ) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
        let execution = self.task.execution.clone();
        let mut meter = execution.meter.clone();
        let context = Context {
            range,
            limit: None,
            offset: 0,
            order: None,
            oldest_first: false,
            include: Vec::new(),
            ..execution.context.clone()
        };
        let execution = ExecutionContext { context: &context, ..execution };
        let mut batches: Vec<Arc<Batch>> = Vec::new();
        let mut failed = None;
        run_within(query, &execution, &mut |rows| {
            // Several blocks may be of one piece.
            if let Block::Lines(lines) = rows.into_block()
                && batches.last().is_none_or(|last| !Arc::ptr_eq(last, &lines.batch))
            {
                if let Err(error) = meter.take(lines.batch.memory_bytes()) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                batches.push(lines.batch);
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(batches.into_iter().map(arrived_unit).collect()), Err)
    }

    /// What threads need to work for the query in parallel.
    pub fn sharing(&self) -> Sharing<'_> {
        Sharing { execution: self.task.execution.clone() }
    }

    /// Counts the memory of the query.
    pub fn meter(&mut self) -> &mut Meter {
        &mut self.task.execution.meter
    }

    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.task.execution.check()
    }
}
