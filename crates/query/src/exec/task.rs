//! What the runs of a query share ([`ExecutionContext`]), and what one thread of a query works with
//! ([`QueryThread`]).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use record::Batch;

use super::delivery::RowDelivery;
use super::rows::ResultRows;
use super::run_within;
use super::scan::UnitResult;
use crate::base::{Meter, Outcome, RunError, TimeRange, Whose};
use crate::block::Block;
use crate::lang::context::Context;
use crate::lang::pipe::{EachInner, Next, Processor, RowReceiver, RunningQuery, Sharing};
use crate::lang::source::{ScanUnit, Source, arrived_unit};
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

/// Receives the rows of a query; it ends the query by breaking.
pub(crate) type RowsOut<'o> = &'o mut dyn FnMut(ResultRows) -> ControlFlow<()>;

/// Carries out a plan, over the lines of this node or over those of several ones. The number is
/// that of the lines already read for queries inside the filters of the plan.
pub(crate) type CarryOut =
    fn(&QueryPlan<'_>, &ExecutionContext<'_>, u64, RowsOut<'_>) -> Result<Outcome, RunError>;

/// The execution context: what a query shares with all queries inside it.
#[derive(Clone)]
pub(crate) struct ExecutionContext<'a> {
    pub source: &'a dyn Source,
    pub context: &'a Context,
    /// When the outermost query began.
    pub started: Instant,
    /// Counts the memory of all these queries.
    pub meter: Meter,
    /// Carries out the plans of the queries inside.
    pub carry_out: CarryOut,
}

impl<'a> ExecutionContext<'a> {
    /// Begins a query.
    pub fn new(source: &'a dyn Source, context: &'a Context, carry_out: CarryOut) -> Self {
        let started = Instant::now();
        let meter = context.meter_since(started);
        ExecutionContext { source, context, started, meter, carry_out }
    }

    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.meter.check()
    }
}

/// A query as the pipes of one thread see it, and what the thread did for it.
#[derive(Clone)]
pub(crate) struct Task<'a> {
    pub execution: ExecutionContext<'a>,
    /// Event times that the query reads.
    pub range: TimeRange,
    /// Whose lines the query reads.
    pub whose: Whose,
    /// Counts what this thread did; the delivery counts the rows.
    pub outcome: Outcome,
}

impl<'a> Task<'a> {
    /// Starts a task for a plan. `lines_before`: lines already read for queries inside its filters.
    pub fn new(
        plan: &QueryPlan<'_>,
        execution: &ExecutionContext<'a>,
        lines_before: u64,
    ) -> Task<'a> {
        Task {
            execution: execution.clone(),
            range: plan.range,
            whose: plan.whose,
            outcome: Outcome { lines_scanned: lines_before, ..Outcome::default() },
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

impl RunningQuery for Task<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.execution.check()
    }

    fn range(&self) -> TimeRange {
        self.range
    }

    fn whose(&self) -> Whose {
        self.whose
    }

    fn source(&self) -> &dyn Source {
        self.execution.source
    }

    fn sharing(&self) -> Sharing<'_> {
        let ExecutionContext { context, ref meter, .. } = self.execution;
        Sharing { context, meter: meter.clone() }
    }

    fn run_query(&mut self, query: &Query, each: EachInner<'_>) -> Result<(), RunError> {
        let execution = self.execution.clone();
        let mut failed = None;
        let outcome =
            run_within(query, &execution, &mut |rows| match each(rows.into_block(), self) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })?;
        self.outcome.lines_scanned += outcome.lines_scanned;
        failed.map_or(Ok(()), Err)
    }

    fn lines_of_sides(
        &mut self,
        query: &Query,
        range: TimeRange,
    ) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
        let mut meter = self.execution.meter.clone();
        let context = Context {
            range,
            limit: None,
            offset: 0,
            order: None,
            oldest_first: false,
            include: Vec::new(),
            ..self.execution.context.clone()
        };
        let execution = ExecutionContext { context: &context, ..self.execution.clone() };
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
}

/// One of the threads that read and collect for a query, with its own stages.
pub(crate) struct QueryThread<'a> {
    pub stages: Vec<Box<dyn Processor>>,
    pub task: Task<'a>,
    /// Index of the unit whose rows are being handed on.
    unit: usize,
    /// What the stages count memory with.
    meter: Meter,
}

impl<'a> QueryThread<'a> {
    pub fn new(stages: Vec<Box<dyn Processor>>, task: Task<'a>) -> QueryThread<'a> {
        let meter = task.execution.meter.clone();
        QueryThread { stages, task, unit: 0, meter }
    }

    /// All stages, with the receiver behind the last one.
    pub fn chain<'n>(&'n mut self, receiver: Option<&'n mut dyn RowReceiver>) -> Next<'n> {
        Next {
            rest: &mut self.stages,
            meter: &mut self.meter,
            unit: self.unit,
            query: &mut self.task,
            receiver,
        }
    }

    /// The stage at index `place`, and the stages behind it.
    pub fn stage_at<'n>(
        &'n mut self,
        place: usize,
        receiver: Option<&'n mut dyn RowReceiver>,
    ) -> (&'n mut Box<dyn Processor>, Next<'n>) {
        let (stage, rest) = self.stages[place..].split_first_mut().expect("inside");
        let (meter, unit, query) = (&mut self.meter, self.unit, &mut self.task);
        (stage, Next { rest, meter, unit, query, receiver })
    }

    /// Passes what the unit at index `place` gave to the first stage. None: the unit was deleted.
    pub fn take(
        &mut self,
        place: usize,
        unit: &dyn ScanUnit,
        found: UnitResult,
        delivery: Option<&mut RowDelivery<'_>>,
    ) -> Result<Option<ControlFlow<()>>, RunError> {
        self.unit = place;
        let receiver = delivery.map(|delivery| delivery as &mut dyn RowReceiver);
        self.task.execution.context.progress.units_done.fetch_add(1, Relaxed);
        let mut flow = ControlFlow::Continue(());
        let mut lines_read = 0;
        match found {
            UnitResult::Outside | UnitResult::Damaged => {}
            UnitResult::Skipped => self.task.outcome.units_skipped += 1,
            UnitResult::Gone => {
                self.task.outcome.units_gone += 1;
                return Ok(None);
            }
            UnitResult::Counted(rows) => {
                lines_read = unit.lines();
                self.chain(receiver).push_weighted(&rows)?;
            }
            UnitResult::Tallied(tally) => {
                lines_read = unit.lines();
                self.chain(receiver).push_tally(&tally)?;
            }
            UnitResult::Vectors(vectors) => {
                lines_read = unit.lines();
                let (stage, mut next) = self.stage_at(vectors.place, receiver);
                stage.push_vectors(&vectors, &mut next)?;
            }
            UnitResult::Lines(block, lines) => {
                lines_read = lines;
                if let Some(block) = block {
                    flow = self.chain(receiver).push(block)?;
                }
            }
        }
        // Lines of another node have been counted there.
        self.task.pass(unit, lines_read.min(unit.lines()));
        Ok(Some(flow))
    }
}
