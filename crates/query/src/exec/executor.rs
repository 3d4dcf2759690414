//! Carries out a plan: passes units of the source through the filter and the pipes to the client.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use super::Outcome;
use super::context::RunError;
use super::deferred_drop::drop_deferred;
use super::delivery::Delivery;
use super::execution::{ExecutionContext, Next, Task};
use super::rows::Rows;
use super::scan::{Found, Scan, Worker};
use super::sides::{self, Pieces};
use crate::pipe::Processor;
use crate::plan::Plan;
use crate::plan::rolled::Weighted;
use crate::source::ScanUnit;

/// Runs a plan in an execution context and calls `out` with its rows. `lines_before`: lines already
/// read for queries inside its filters. `pieces`: lines of the sides, in place of the source's.
pub(super) fn execute(
    plan: &Plan<'_>,
    execution: &ExecutionContext<'_>,
    lines_before: u64,
    pieces: Option<&mut dyn Pieces>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let task = Task::new(plan, execution, lines_before);
    let delivery = Delivery::new(&plan.order, task.execution.context, out);
    let mut executor =
        Executor { plan, task, delivery, stages: plan.stages(), numbers: Vec::new() };
    match executor.work(pieces) {
        Ok(()) => Ok(executor.task.outcome),
        Err(error) => {
            let Executor { task, delivery, stages, .. } = executor;
            // The meter is dropped last: the memory it counts exists until then.
            let held = task.execution.meter.held();
            drop_deferred((stages, delivery.into_held(), task.execution.meter), held);
            Err(error)
        }
    }
}

/// Runs the first part of a plan, up to the stage at index `place`, and returns that stage with
/// what it collected.
pub(super) fn collect(
    plan: &Plan<'_>,
    execution: &ExecutionContext<'_>,
    place: usize,
) -> Result<(Box<dyn Processor>, Outcome), RunError> {
    let task = Task::new(plan, execution, 0);
    let mut out = |_| ControlFlow::Continue(());
    let delivery = Delivery::new(&plan.order, execution.context, &mut out);
    let mut stages = plan.stages();
    stages.truncate(place + 1);
    let mut executor = Executor { plan, task, delivery, stages, numbers: Vec::new() };
    executor.scan()?;
    // All stages before it are row-wise and have no rows left to hand on.
    let stage = executor.stages.pop().expect("it is the last");
    Ok((stage, executor.task.outcome))
}

/// Runs the second part of a plan: merges the partial states for the stage at index `place`, and
/// runs the stages behind it.
pub(super) fn finish_merged(
    plan: &Plan<'_>,
    execution: &ExecutionContext<'_>,
    place: usize,
    collected: impl IntoIterator<Item = Result<Box<dyn Processor>, RunError>>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let task = Task::new(plan, execution, 0);
    let delivery = Delivery::new(&plan.order, execution.context, out);
    let stages = plan.stages().split_off(place);
    let mut executor = Executor { plan, task, delivery, stages, numbers: Vec::new() };
    for other in collected {
        executor.task.execution.check()?;
        executor.merge(0, &mut *other?)?;
    }
    executor.finish()?;
    Ok(executor.task.outcome)
}

/// A plan that is being executed.
struct Executor<'a, 'q> {
    plan: &'a Plan<'q>,
    task: Task<'a>,
    delivery: Delivery<'a>,
    stages: Vec<Box<dyn Processor>>,
    /// The numbers of the units that are read, where they are not their indexes.
    numbers: Vec<usize>,
}

impl<'a> Executor<'a, '_> {
    /// All stages, with the delivery behind them.
    fn chain(&mut self) -> Next<'_, 'a> {
        let rest = &mut self.stages[..];
        Next { rest, task: &mut self.task, delivery: Some(&mut self.delivery) }
    }

    /// Reads the units and passes their rows through the stages.
    fn work(&mut self, pieces: Option<&mut dyn Pieces>) -> Result<(), RunError> {
        if self.task.execution.context.limit != Some(0) {
            match pieces {
                Some(pieces) => self.scan_pieces(pieces)?,
                None => self.scan()?,
            }
        }
        self.finish()
    }

    /// Finishes the stages one after the other, and sends the last rows.
    fn finish(&mut self) -> Result<(), RunError> {
        for place in 0..self.stages.len() {
            if self.task.outcome.stopped {
                break;
            }
            let (stage, rest) = self.stages[place..].split_first_mut().expect("inside");
            let delivery = Some(&mut self.delivery);
            stage.finish(&mut Next { rest, task: &mut self.task, delivery })?;
        }
        self.delivery.finish(&mut self.task)
    }

    /// Lines older than this are no longer needed.
    fn oldest_wanted_ns(&self) -> i64 {
        let newest = self.plan.newest_at.and_then(|place| self.stages.get(place));
        let wanted = newest.map_or(i64::MIN, |stage| stage.oldest_wanted_ns());
        self.delivery.oldest_wanted_ns().max(wanted)
    }

    /// Lines newer than this are no longer needed.
    fn newest_wanted_ns(&self) -> i64 {
        let oldest = self.plan.oldest_at.and_then(|place| self.stages.get(place));
        oldest.map_or(i64::MAX, |stage| stage.newest_wanted_ns())
    }

    /// The units that the plan leaves to be read, in the order of reading.
    fn units(&mut self) -> Result<Vec<Box<dyn ScanUnit>>, RunError> {
        let execution = &self.task.execution;
        let mut range = self.plan.range;
        range.start_ns = range.start_ns.max(self.delivery.oldest_wanted_ns());
        let mut units = execution.source.units(range, self.plan.whose)?;
        if self.plan.oldest_at.is_some() && !execution.context.oldest_first {
            // Of rows with the same time, the first is that of any other sort: units are numbered
            // in the order in which that reads them.
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
        let ExecutionContext { source, context, meter, started } = self.task.execution.clone();
        let oldest_wanted_ns = self.delivery.oldest_wanted_ns();
        let scan = Scan::new(self.plan, oldest_wanted_ns, source.answers(), meter);
        if let Some(rolled) = &scan.rolled {
            let (needs, range) = (&self.plan.needs, scan.range());
            let check = || context.check(started);
            let mut first = self.chain();
            let mut each = |rows: Weighted| first.push_weighted(&rows);
            let counted = rolled.count_segments(&mut units, range, needs, &check, &mut each)?;
            context.progress.units_done.fetch_add(counted.len() as u64, Relaxed);
            counted.iter().for_each(|unit| self.task.pass(&**unit, unit.lines()));
        }
        for (unit, answer) in scan.take_known(&mut units) {
            self.chain().take(0, &*unit, Found::Counted(answer))?;
        }
        if let Some(place) = self.plan.merged_at
            && context.limits.threads > 1
            && units.len() > 1
        {
            return self.gather(&scan, &units, place);
        }
        loop {
            let _ = self.scan_units(&scan, &units)?;
            if self.delivery.send_older(i64::MAX, &mut self.task)?.is_break() {
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
    fn scan_pieces(&mut self, pieces: &mut dyn Pieces) -> Result<(), RunError> {
        let ExecutionContext { context, meter, started, .. } = self.task.execution.clone();
        let scan = Scan::new(self.plan, self.delivery.oldest_wanted_ns(), None, meter);
        let mut left = pieces.sides();
        while left > 0 {
            match pieces.next(None, &|| context.check(started))? {
                (_, None) => left -= 1,
                (side, Some(piece)) => {
                    let (unit, rest_ns) = sides::arrived(&piece)?;
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
        let ExecutionContext { context, started, .. } = self.task.execution;
        let mut last = ControlFlow::Continue(());
        scan.run(
            units,
            context.limits.threads,
            || context.check(started),
            |place, found| {
                context.check(started)?;
                let number = self.numbers.get(place).copied().unwrap_or(place);
                let Some(flow) = self.chain().take(number, &*units[place], found)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                last = flow;
                let next = units.get(place + 1);
                if let Some(next) = next
                    && let Some(sent) =
                        self.delivery.before_unit(oldest_ns(&**next), &mut self.task)
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
        let other = |_| {
            let mut stages = self.plan.stages();
            stages.truncate(place + 1);
            let task = Task { outcome: Outcome::default(), ..self.task.clone() };
            Gatherer { stages, task }
        };
        let threads = self.task.execution.context.limits.threads.min(units.len());
        let mut others: Vec<Gatherer<'_>> = (1..threads).map(other).collect();
        let mut own = Own { task: &mut self.task, stages: &mut self.stages[..=place] };
        if let Err(error) = scan.gather(units, &mut own, &mut others) {
            let collected: Vec<_> = others.into_iter().map(|other| other.stages).collect();
            let meter = self.task.execution.meter.clone();
            let held = meter.held();
            drop_deferred((collected, meter), held);
            return Err(error);
        }
        for mut other in others {
            let Outcome { lines_scanned, units_skipped, units_gone, .. } = other.task.outcome;
            self.task.outcome.lines_scanned += lines_scanned;
            self.task.outcome.units_skipped += units_skipped;
            self.task.outcome.units_gone += units_gone;
            self.merge(place, &mut *other.stages[place])?;
        }
        Ok(())
    }

    /// Merges the state of another stage of the same pipe into the stage at index `place`.
    fn merge(&mut self, place: usize, other: &mut dyn Processor) -> Result<(), RunError> {
        let collected = other.collected().expect("it is of the same pipe");
        let mut next = Next { rest: &mut [], task: &mut self.task, delivery: None };
        self.stages[place].merge(collected, &mut next)
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

/// The query's own thread, where several threads collect.
struct Own<'t, 'a> {
    task: &'t mut Task<'a>,
    stages: &'t mut [Box<dyn Processor>],
}

impl Worker for Own<'_, '_> {
    fn check(&self) -> Result<(), RunError> {
        self.task.execution.check()
    }

    fn take(&mut self, place: usize, unit: &dyn ScanUnit, found: Found) -> Result<(), RunError> {
        let mut next = Next { rest: self.stages, task: self.task, delivery: None };
        next.take(place, unit, found).map(drop)
    }
}

/// Another thread, with its own copy of the pipes up to the one that collects.
struct Gatherer<'a> {
    stages: Vec<Box<dyn Processor>>,
    task: Task<'a>,
}

impl Worker for Gatherer<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.task.execution.check()
    }

    fn take(&mut self, place: usize, unit: &dyn ScanUnit, found: Found) -> Result<(), RunError> {
        let mut next = Next { rest: &mut self.stages, task: &mut self.task, delivery: None };
        next.take(place, unit, found).map(drop)
    }
}
