//! Carries out a plan: passes units of the source through the filter and the pipes to the client.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use super::deferred_drop::drop_deferred;
use super::delivery::RowDelivery;
use super::rollups::count_segments;
use super::scan::{Scan, UnitResult};
use super::task::{ExecutionContext, QueryThread, RowsOut, Task};
use crate::base::{Outcome, RunError};
use crate::block::Weighted;
use crate::lang::pipe::{Next, Pipe, Processor, Sort};
use crate::lang::source::{ScanUnit, SharePieces, arrived};
use crate::plan::QueryPlan;

/// Runs a plan in an execution context and calls `out` with its rows. `lines_before`: lines already
/// read for queries inside its filters. `pieces`: lines of the sides, in place of the source's.
pub(crate) fn execute(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    lines_before: u64,
    pieces: Option<&mut dyn SharePieces>,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    let task = Task::new(plan, execution, lines_before);
    let mut executor = Executor::new(plan, task, stages(plan), out);
    match executor.work(pieces) {
        Ok(()) => Ok(executor.outcome()),
        Err(error) => {
            let Executor { thread: QueryThread { stages, task, .. }, delivery, .. } = executor;
            // The meter is dropped last: the memory it counts exists until then.
            let held = task.execution.meter.held();
            drop_deferred((stages, delivery.into_held(), task.execution.meter), held);
            Err(error)
        }
    }
}

/// Runs the first part of a plan, up to the stage at index `place`, and returns that stage with
/// what it collected.
pub(crate) fn collect(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    place: usize,
) -> Result<(Box<dyn Processor>, Outcome), RunError> {
    let mut stages = stages(plan);
    stages.truncate(place + 1);
    let mut out = |_| ControlFlow::Continue(());
    let mut executor = Executor::new(plan, Task::new(plan, execution, 0), stages, &mut out);
    executor.scan()?;
    // All stages before it are row-wise and have no rows left to hand on.
    let stage = executor.thread.stages.pop().expect("it is the last");
    Ok((stage, executor.outcome()))
}

/// Runs the second part of a plan: merges the partial states for the stage at index `place`, and
/// runs the stages behind it.
pub(crate) fn finish_merged(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    place: usize,
    collected: impl IntoIterator<Item = Result<Box<dyn Processor>, RunError>>,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    let stages = stages(plan).split_off(place);
    let mut executor = Executor::new(plan, Task::new(plan, execution, 0), stages, out);
    for other in collected {
        execution.check()?;
        executor.merge(0, &mut *other?)?;
    }
    executor.finish()?;
    Ok(executor.outcome())
}

/// Merges the partial states for the stage at index `place`, and returns that stage.
pub(crate) fn merge_states(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    place: usize,
    collected: impl IntoIterator<Item = Result<Box<dyn Processor>, RunError>>,
) -> Result<Box<dyn Processor>, RunError> {
    let mut stages = stages(plan);
    stages.truncate(place + 1);
    let mut out = |_| ControlFlow::Continue(());
    let mut executor = Executor::new(plan, Task::new(plan, execution, 0), stages, &mut out);
    for other in collected {
        execution.check()?;
        executor.merge(place, &mut *other?)?;
    }
    Ok(executor.thread.stages.pop().expect("it is the last"))
}

/// The stages that run the pipes of a plan.
fn stages(plan: &QueryPlan<'_>) -> Vec<Box<dyn Processor>> {
    let pipes = plan.query.pipes().iter().zip(&plan.rows_wanted);
    let stage = |(pipe, wanted): (&Pipe, &Option<u64>)| match (pipe.get::<Sort>(), wanted) {
        (Some(sort), Some(rows)) => Pipe::new(sort.limited(*rows)).processor(&plan.carried),
        _ => pipe.processor(&plan.carried),
    };
    pipes.map(stage).collect()
}

/// A plan that is being executed.
struct Executor<'a, 'q> {
    plan: &'a QueryPlan<'q>,
    /// The query's own thread.
    thread: QueryThread<'a>,
    delivery: RowDelivery<'a>,
    /// The numbers of the units that are read, where they are not their indexes.
    numbers: Vec<usize>,
}

impl<'a, 'q> Executor<'a, 'q> {
    fn new(
        plan: &'a QueryPlan<'q>,
        task: Task<'a>,
        stages: Vec<Box<dyn Processor>>,
        out: RowsOut<'a>,
    ) -> Self {
        let delivery = RowDelivery::new(&plan.order, &task.execution, out);
        Executor { plan, thread: QueryThread::new(stages, task), delivery, numbers: Vec::new() }
    }

    fn outcome(&self) -> Outcome {
        self.delivery.outcome(self.thread.task.outcome)
    }

    /// All stages, with the delivery behind them.
    fn chain(&mut self) -> Next<'_> {
        self.thread.chain(Some(&mut self.delivery))
    }

    /// Reads the units and passes their rows through the stages.
    fn work(&mut self, pieces: Option<&mut dyn SharePieces>) -> Result<(), RunError> {
        if self.thread.task.execution.context.limit != Some(0) {
            match pieces {
                Some(pieces) => self.scan_pieces(pieces)?,
                None => self.scan()?,
            }
        }
        self.finish()
    }

    /// Finishes the stages one after the other, and sends the last rows.
    fn finish(&mut self) -> Result<(), RunError> {
        for place in 0..self.thread.stages.len() {
            if self.delivery.is_stopped() {
                break;
            }
            let (stage, mut next) = self.thread.stage_at(place, Some(&mut self.delivery));
            stage.finish(&mut next)?;
        }
        self.delivery.finish()
    }

    /// Lines older than this are no longer needed.
    fn oldest_wanted_ns(&self) -> i64 {
        let newest = self.plan.newest_at.and_then(|place| self.thread.stages.get(place));
        let wanted = newest.map_or(i64::MIN, |stage| stage.oldest_wanted_ns());
        self.delivery.oldest_wanted_ns().max(wanted)
    }

    /// Lines newer than this are no longer needed.
    fn newest_wanted_ns(&self) -> i64 {
        let oldest = self.plan.oldest_at.and_then(|place| self.thread.stages.get(place));
        oldest.map_or(i64::MAX, |stage| stage.newest_wanted_ns())
    }

    /// The units that the plan leaves to be read, in the order of reading.
    fn units(&mut self) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
        let execution = &self.thread.task.execution;
        let mut range = self.plan.range;
        range.start_ns = range.start_ns.max(self.delivery.oldest_wanted_ns());
        let mut units = execution.source.units(range, self.plan.whose)?;
        if let Some(damages) = &execution.context.damages {
            // The head of the answer names them, before any is met. Some may turn out to hold none
            // of the words, which is no reason to look for them now.
            units.iter().filter_map(|unit| unit.damage()).for_each(|unit| _ = damages.add(&unit));
        }
        if self.plan.oldest_at.is_some() && !execution.context.oldest_first {
            // Rows with equal times come in the order of the numbers of their units. Any other sort
            // reads the newest units first, so units are numbered in that order, and both give the
            // same rows.
            units.sort_by_key(|unit| Reverse(newest_ns(&**unit)));
            let mut numbered: Vec<_> = units.into_iter().enumerate().collect();
            numbered.sort_by_key(|(_, unit)| oldest_ns(&**unit));
            (self.numbers, units) = numbered.into_iter().unzip();
        } else if self.plan.oldest_first {
            // The source lists the newest first; reversed, units of the same time are in order of
            // arrival.
            units.reverse();
            units.sort_by_key(|unit| oldest_ns(&**unit));
        } else {
            // Finds the newest rows early. Units of unknown time go first: they could hold the
            // newest.
            units.sort_by_key(|unit| Reverse(newest_ns(&**unit)));
        }
        let progress = &execution.context.progress;
        progress.units_planned.store(units.len() as u64, Relaxed);
        progress.bytes_planned.store(units.iter().map(|u| u.bytes()).sum(), Relaxed);
        Ok(units)
    }

    fn scan(&mut self) -> Result<(), RunError> {
        let mut units = self.units()?;
        let ExecutionContext { source, context, meter, started, .. } =
            self.thread.task.execution.clone();
        let oldest_wanted_ns = self.delivery.oldest_wanted_ns();
        let scan = Scan::new(self.plan, oldest_wanted_ns, source.answers(), context, meter);
        if let Some(rolled) = &scan.rolled {
            let (needs, range) = (&self.plan.needs, scan.range());
            let check = || context.check(started);
            let mut first = self.chain();
            let mut each = |rows: Weighted| first.push_weighted(&rows);
            let counted = count_segments(rolled, &mut units, range, needs, &check, &mut each)?;
            context.progress.units_done.fetch_add(counted.len() as u64, Relaxed);
            counted.iter().for_each(|unit| self.thread.task.pass(&**unit, unit.lines()));
        }
        for (unit, answer) in scan.take_known(&mut units) {
            self.thread.take(0, &*unit, UnitResult::Counted(answer), Some(&mut self.delivery))?;
        }
        if let Some(place) = self.plan.merged_at
            && context.limits.threads > 1
            && units.len() > 1
        {
            return self.gather(&scan, &units, place);
        }
        loop {
            let _ = self.scan_units(&scan, &units)?;
            if self.delivery.send_older(i64::MAX)?.is_break() {
                return Ok(());
            }
            if !self.delivery.next_pass() {
                return Ok(());
            }
            let oldest_wanted_ns = self.delivery.oldest_wanted_ns();
            units.retain(|unit| newest_ns(&**unit) >= oldest_wanted_ns);
            context.progress.units_planned.fetch_add(units.len() as u64, Relaxed);
            let bytes = units.iter().map(|unit| unit.bytes()).sum();
            context.progress.bytes_planned.fetch_add(bytes, Relaxed);
        }
    }

    /// Reads the lines that the sides send, in the order in which they arrive.
    fn scan_pieces(&mut self, pieces: &mut dyn SharePieces) -> Result<(), RunError> {
        let ExecutionContext { context, meter, started, .. } = self.thread.task.execution.clone();
        let oldest_wanted_ns = self.delivery.oldest_wanted_ns();
        let scan = Scan::new(self.plan, oldest_wanted_ns, None, context, meter);
        let mut left = pieces.sides();
        while left > 0 {
            match pieces.next(None, &|| context.check(started))? {
                (_, None) => left -= 1,
                (side, Some(piece)) => {
                    let (unit, rest_ns) = arrived(&piece)?;
                    if self.scan_units(&scan, &[unit])?.is_break() {
                        break;
                    }
                    let newest_first = !self.plan.oldest_first;
                    if newest_first && rest_ns.is_some_and(|rest| rest < self.oldest_wanted_ns()) {
                        pieces.end(side);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads `units` once, and processes their results in order. Breaks when no further unit is
    /// needed.
    fn scan_units(
        &mut self,
        scan: &Scan<'_>,
        units: &[Box<dyn ScanUnit>],
    ) -> Result<ControlFlow<()>, RunError> {
        let ExecutionContext { context, started, .. } = self.thread.task.execution;
        let mut last = ControlFlow::Continue(());
        scan.run(
            units,
            context.limits.threads,
            || context.check(started),
            |place, found| {
                context.check(started)?;
                let number = self.numbers.get(place).copied().unwrap_or(place);
                let delivery = Some(&mut self.delivery);
                let Some(flow) = self.thread.take(number, &*units[place], found, delivery)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                last = flow;
                let next = units.get(place + 1);
                if let Some(next) = next
                    && let Some(sent) = self.delivery.before_unit(oldest_ns(&**next))
                {
                    return sent;
                }
                let oldest_wanted = self.oldest_wanted_ns();
                let newest_wanted = self.newest_wanted_ns();
                scan.want(oldest_wanted, newest_wanted);
                let next = next.and_then(|unit| unit.time_range_ns());
                let enough = next.is_some_and(|(oldest, newest)| {
                    newest < oldest_wanted || oldest > newest_wanted
                });
                Ok(if enough { ControlFlow::Break(()) } else { flow })
            },
        )?;
        Ok(last)
    }

    /// Reads the units on several threads, each of which collects for itself. What the other
    /// threads collected is then merged into the stage at index `place`.
    fn gather(
        &mut self,
        scan: &Scan<'_>,
        units: &[Box<dyn ScanUnit>],
        place: usize,
    ) -> Result<(), RunError> {
        let task = &self.thread.task;
        let other = |_| {
            let mut stages = stages(self.plan);
            stages.truncate(place + 1);
            QueryThread::new(stages, Task { outcome: Outcome::default(), ..task.clone() })
        };
        let threads = match scan.leaves_few(units) {
            true => 1,
            false => task.execution.context.limits.threads.min(units.len()),
        };
        let mut others: Vec<QueryThread<'_>> = (1..threads).map(other).collect();
        if let Err(error) = scan.gather(units, &mut self.thread, &mut others) {
            let collected: Vec<_> = others.into_iter().map(|other| other.stages).collect();
            let meter = self.thread.task.execution.meter.clone();
            let held = meter.held();
            drop_deferred((collected, meter), held);
            return Err(error);
        }
        for mut other in others {
            let Outcome { lines_scanned, units_skipped, units_gone, .. } = other.task.outcome;
            let own = &mut self.thread.task.outcome;
            own.lines_scanned += lines_scanned;
            own.units_skipped += units_skipped;
            own.units_gone += units_gone;
            self.merge(place, &mut *other.stages[place])?;
        }
        Ok(())
    }

    /// Merges the state of another stage of the same pipe into the stage at index `place`.
    fn merge(&mut self, place: usize, other: &mut dyn Processor) -> Result<(), RunError> {
        let collected = other.collected().expect("it is of the same pipe");
        let (stage, mut next) = self.thread.stage_at(place, None);
        stage.merge(collected, &mut next)
    }
}

/// The earliest event time of a unit; the lowest possible value if it is unknown.
fn oldest_ns(unit: &dyn ScanUnit) -> i64 {
    unit.time_range_ns().map_or(i64::MIN, |(oldest, _)| oldest)
}

/// The latest event time of a unit; the highest possible value if it is unknown.
fn newest_ns(unit: &dyn ScanUnit) -> i64 {
    unit.time_range_ns().map_or(i64::MAX, |(_, newest)| newest)
}
