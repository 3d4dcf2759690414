//! Runs a query: units of the source through the filter and the pipes to the client.
//!
//! Units are read and filtered newest first by some threads ([`crate::exec::scan`]), and the query's own pushes blocks of rows
//! through the chain of pipes. With a limit
//! and no pipe that makes rows of its own, the newest rows come, newest first, and units that cannot hold newer
//! ones are not read. Without a limit rows are sent on unit by unit, in bounded memory.
//!
//! Where the first pipe that collects rows can be merged with another of its kind, each thread has one of its own, and
//! the pipes before it, and they are merged when all units are read.
//!
//! Asked for the order of time, rows come oldest first, line by line, and can be gone on behind any of them
//! ([`crate::exec::ordered`]).
//!
//! Limits: time, memory of what the pipes collect, rows sent. They and the wish to
//! cancel are looked at before each unit, within the columns of one, and at least every [`CHECK_ROWS`] rows that a pipe
//! holds or sends.

pub(crate) mod answers;
mod context;
mod deferred_drop;
mod meter;
mod newest;
pub(crate) mod ordered;
mod parallel;
pub(crate) mod queue;
mod rows;
mod scan;
mod sharing;
pub(crate) mod sorted;
mod subquery;
pub(crate) mod tail;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use self::deferred_drop::drop_deferred;
use crate::block::{BLOCK_ROWS_MAX, Block, Scratch};
use crate::exec::newest::Newest;
use crate::exec::ordered::{Ordered, RowKey};
use crate::exec::scan::{Found, Scan, Worker};
use crate::pipe::{Pipe, Processor};
use crate::plan::rolled::Weighted;
use crate::source::{ScanUnit, Source, TimeRange, Whose};
use crate::syntax::query::Query;

pub use context::{Context, Limits, Progress, RunError};
pub(crate) use meter::Held;
pub use meter::{Account, Buffer, Meter};
pub(crate) use parallel::{in_parallel, with_helpers};
pub use rows::Rows;
pub(crate) use sharing::Sharing;

/// Rows between two looks at the clock and the wish to cancel.
pub const CHECK_ROWS: usize = 4_096;

/// What a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows sent.
    pub rows: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Units that were not read because they hold none of the words asked for.
    pub units_skipped: u64,
    /// Units that retention deleted while the query ran.
    pub units_gone: u64,
    /// The client wanted no more.
    pub stopped: bool,
}

/// Runs `query` over `source` and calls `out` with its rows; `out` ends the query by breaking.
pub fn run(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let context = &query.options().applied_to(context);
    let restricted = context.restriction.as_deref().map(|to| query.restricted(to)).transpose();
    let restricted = restricted.map_err(|error| RunError::Failed(error.message))?;
    let query = restricted.as_ref().unwrap_or(query);
    let around = Around { source, context, started: Instant::now(), meter: Meter::new(context) };
    run_in(query, &around, out)
}

/// What a query runs in; queries inside it share it.
pub(crate) struct Around<'a> {
    source: &'a dyn Source,
    context: &'a Context,
    /// When the outermost query began.
    started: Instant,
    /// Counts the memory of all of them.
    pub meter: Meter,
}

/// Runs a query that is inside another one, over the same range of times and within what is left of the other's time and
/// memory. All its rows are given, however many.
pub(crate) fn run_within(
    query: &Query,
    around: &Around<'_>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    // What the outer query's options say holds for those inside it too.
    let outer = query.options().applied_to(around.context);
    let context = Context {
        limit: None,
        offset: 0,
        limits: Limits { rows_max: u64::MAX, ..outer.limits },
        // How far it is, says nothing of the query that people see.
        progress: Arc::default(),
        ..outer
    };
    let meter = around.meter.clone();
    run_in(query, &Around { context: &context, meter, ..*around }, out)
}

fn run_in(
    query: &Query,
    around: &Around<'_>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let &Around { source, context, started, .. } = around;
    // What a query inside its filter gives names nothing.
    let whose = query.filter().whose();
    let (query, lines_before) = crate::exec::subquery::fill(query, around)?;
    let query = &*query;
    let row_wise = query.pipes().iter().all(Pipe::is_row_wise);
    let include: Arc<[String]> = context.include.clone().into();
    let sink = match (&context.order, context.limit) {
        (Some(order), _) if row_wise => {
            Sink::Ordered(Ordered::new(order.clone(), context.limits.memory_bytes_max))
        }
        (None, Some(limit)) if row_wise && !context.oldest_first => {
            Sink::Newest(Newest::new(limit.saturating_add(context.offset)))
        }
        _ => Sink::Stream,
    };
    let mut run = Run {
        source,
        meter: around.meter.clone(),
        started,
        context,
        range: context.range.intersect(query.filter().time_range()),
        whose,
        out,
        sink,
        skip: context.offset,
        left: context.limit.unwrap_or(usize::MAX),
        include,
        scratch: Scratch::default(),
        outcome: Outcome { lines_scanned: lines_before, ..Outcome::default() },
        unit: 0,
    };
    let mut stages = processors(query, context);
    match run.work(query, source, &mut stages) {
        Ok(()) => Ok(run.outcome),
        Err(error) => {
            let sink = std::mem::replace(&mut run.sink, Sink::Stream);
            // The meter goes last: what it counts is there until then.
            let held = run.meter.held();
            drop_deferred((stages, sink, run.meter.clone()), held);
            Err(error)
        }
    }
}

/// What runs the pipes of a query.
fn processors(query: &Query, context: &Context) -> Vec<Box<dyn Processor>> {
    let carried = query.computed_fields(&context.include);
    query.pipes().iter().map(|pipe| pipe.processor(&carried)).collect()
}

/// Where rows go behind the last pipe.
enum Sink {
    Stream,
    Newest(Newest),
    Ordered(Ordered),
}

/// A query that runs.
pub(crate) struct Run<'a> {
    source: &'a dyn Source,
    meter: Meter,
    started: Instant,
    context: &'a Context,
    /// Event times that the query looks at.
    range: TimeRange,
    /// Whose lines it looks at.
    whose: Whose,
    out: &'a mut dyn FnMut(Rows) -> ControlFlow<()>,
    sink: Sink,
    /// Rows to leave out, and to send after that, unless the newest are wanted.
    skip: usize,
    left: usize,
    include: Arc<[String]>,
    scratch: Scratch,
    outcome: Outcome,
    /// The place of the unit whose rows come.
    unit: usize,
}

impl Run<'_> {
    /// Reads, lets the pipes end one after the other, and sends the last rows.
    fn work(
        &mut self,
        query: &Query,
        source: &dyn Source,
        stages: &mut [Box<dyn Processor>],
    ) -> Result<(), RunError> {
        if self.context.limit != Some(0) {
            self.scan(query, source, stages)?;
        }
        for place in 0..stages.len() {
            if self.outcome.stopped {
                break;
            }
            let (stage, rest) = stages[place..].split_first_mut().expect("inside");
            stage.finish(&mut Next { rest, run: self })?;
        }
        self.finish()
    }

    fn scan(
        &mut self,
        query: &Query,
        source: &dyn Source,
        stages: &mut [Box<dyn Processor>],
    ) -> Result<(), RunError> {
        let mut range = self.range;
        range.start_ns = range.start_ns.max(self.oldest_wanted_ns());
        let progress = self.context.progress.clone();
        let mut units = source.units(range, self.whose)?;
        if self.context.order.is_some() || self.context.oldest_first {
            // They come newest first; so those of the same time are in the order of their arrival.
            units.reverse();
            units.sort_by_key(|unit| oldest_ns(&**unit));
        } else {
            // So that the newest rows are found soon; unknown ones could be the newest.
            units.sort_by_key(|unit| {
                std::cmp::Reverse(unit.time_range_ns().map_or(i64::MAX, |(_, newest)| newest))
            });
        }
        progress.units_planned.store(units.len() as u64, Relaxed);
        progress.bytes_planned.store(units.iter().map(|u| u.bytes()).sum(), Relaxed);
        // Behind a filter, more than the newest lines may be needed for as many rows.
        let only_columns = query.pipes().iter().all(Pipe::keeps_rows);
        let newest = match &self.sink {
            Sink::Newest(newest) if only_columns => Some(newest.limit()),
            _ => None,
        };
        let (include, meter) = (&self.context.include, self.meter.clone());
        let scan = Scan::new(query, range, include, newest, source.answers(), meter);
        if let Some(rolled) = &scan.rolled {
            let counted = rolled
                .count_segments(&mut units, range, &mut |rows| self.push_weighted(&rows, stages))?;
            progress.units_done.fetch_add(counted.len() as u64, Relaxed);
            counted.iter().for_each(|unit| self.pass(&**unit, unit.lines()));
        }
        for (unit, answer) in scan.take_known(&mut units) {
            self.take(0, &*unit, Found::Counted(answer), stages)?;
        }
        let collects = query.pipes().iter().position(|pipe| !pipe.is_row_wise());
        if let Some(place) = collects
            && stages[place].collected().is_some()
            && self.context.limits.threads > 1
            && units.len() > 1
        {
            return self.gather(query, &scan, &units, &mut stages[..=place]);
        }
        loop {
            self.scan_units(&scan, &units, stages)?;
            if self.send_older(i64::MAX)?.is_break() {
                return Ok(());
            }
            let again = match &mut self.sink {
                Sink::Ordered(ordered) => ordered.next_pass(),
                Sink::Stream | Sink::Newest(_) => false,
            };
            if !again {
                return Ok(());
            }
            let newest = |unit: &dyn ScanUnit| unit.time_range_ns().map_or(i64::MAX, |t| t.1);
            let oldest_wanted_ns = self.oldest_wanted_ns();
            units.retain(|unit| newest(&**unit) >= oldest_wanted_ns);
            progress.units_planned.fetch_add(units.len() as u64, Relaxed);
            progress.bytes_planned.fetch_add(units.iter().map(|u| u.bytes()).sum(), Relaxed);
        }
    }

    /// Reads `units` once.
    fn scan_units(
        &mut self,
        scan: &Scan<'_>,
        units: &[Box<dyn ScanUnit>],
        stages: &mut [Box<dyn Processor>],
    ) -> Result<(), RunError> {
        let context = self.context;
        let started = self.started;
        scan.run(
            units,
            context.limits.threads,
            || context.check(started),
            |place, found| {
                context.check(started)?;
                let Some(flow) = self.take(place, &*units[place], found, stages)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                let next = units.get(place + 1);
                if let (Sink::Ordered(ordered), Some(next)) = (&self.sink, next) {
                    let next_ns = oldest_ns(&**next);
                    if next_ns > ordered.newest_wanted_ns() {
                        return Ok(ControlFlow::Break(()));
                    }
                    return self.send_older(next_ns);
                }
                let oldest_wanted = self.oldest_wanted_ns();
                scan.want_from(oldest_wanted);
                let next = next.and_then(|unit| unit.time_range_ns());
                let enough = next.is_some_and(|(_, newest)| newest < oldest_wanted);
                Ok(if enough { ControlFlow::Break(()) } else { flow })
            },
        )
    }

    /// Sends the rows that are held to be brought into order and are older than an instant; all of them for the last.
    fn send_older(&mut self, before_ns: i64) -> Result<ControlFlow<()>, RunError> {
        while let Sink::Ordered(ordered) = &mut self.sink {
            if self.left == 0 || self.outcome.stopped {
                return Ok(ControlFlow::Break(()));
            }
            let taken = ordered.take(before_ns, BLOCK_ROWS_MAX, &mut self.meter);
            let Some((rows, key)) = taken else { break };
            let _ = self.send_wanted(Block::Made(rows), Some(key))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes what a unit gave. None: the unit was gone.
    fn take(
        &mut self,
        place: usize,
        unit: &dyn ScanUnit,
        found: Found,
        stages: &mut [Box<dyn Processor>],
    ) -> Result<Option<ControlFlow<()>>, RunError> {
        self.unit = place;
        self.context.progress.units_done.fetch_add(1, Relaxed);
        let mut flow = ControlFlow::Continue(());
        let mut lines_read = 0;
        match found {
            Found::Outside => {}
            Found::Skipped => self.outcome.units_skipped += 1,
            Found::Gone => {
                self.outcome.units_gone += 1;
                return Ok(None);
            }
            Found::Counted(rows) => {
                lines_read = unit.lines();
                self.push_weighted(&rows, stages)?;
            }
            Found::Tallied(tally) => {
                lines_read = unit.lines();
                let (stage, rest) = stages.split_first_mut().expect("it has a pipe that counts");
                stage.push_tally(&tally, &mut Next { rest, run: self })?;
            }
            Found::Lines(block, lines) => {
                lines_read = lines;
                if let Some(block) = block {
                    flow = Next { rest: stages, run: self }.push(block)?;
                }
            }
        }
        self.pass(unit, lines_read);
        Ok(Some(flow))
    }

    /// Reads the units by several threads, each of which collects for itself; what the others collected is merged into the
    /// last of `stages`.
    fn gather(
        &mut self,
        query: &Query,
        scan: &Scan<'_>,
        units: &[Box<dyn ScanUnit>],
        stages: &mut [Box<dyn Processor>],
    ) -> Result<(), RunError> {
        let place = stages.len() - 1;
        let other = |_| {
            let mut stages = processors(query, self.context);
            stages.truncate(place + 1);
            let (meter, outcome) = (self.meter.clone(), Outcome::default());
            let Run { source, context, started, range, whose, .. } = *self;
            Gatherer { stages, meter, source, context, started, range, whose, outcome }
        };
        let threads = self.context.limits.threads.min(units.len());
        let mut others: Vec<Gatherer<'_>> = (1..threads).map(other).collect();
        if let Err(error) = scan.gather(units, &mut Own { run: self, stages }, &mut others) {
            let collected: Vec<_> = others.into_iter().map(|other| other.stages).collect();
            drop_deferred((collected, self.meter.clone()), self.meter.held());
            return Err(error);
        }
        for mut other in others {
            self.outcome.lines_scanned += other.outcome.lines_scanned;
            self.outcome.units_skipped += other.outcome.units_skipped;
            self.outcome.units_gone += other.outcome.units_gone;
            let collected = other.stages[place].collected().expect("it is of the same kind");
            stages[place].merge(collected, &mut Next { rest: &mut [], run: self })?;
        }
        Ok(())
    }

    /// Sends rows that stand for many lines to the first pipe.
    fn push_weighted(
        &mut self,
        rows: &Weighted,
        stages: &mut [Box<dyn Processor>],
    ) -> Result<(), RunError> {
        let (stage, rest) = stages.split_first_mut().expect("it has a pipe that counts");
        stage.push_weighted(rows, &mut Next { rest, run: self })
    }

    /// Notes a unit that is done, and how many of its lines were looked at or counted.
    fn pass(&mut self, unit: &dyn ScanUnit, lines: u64) {
        let progress = &self.context.progress;
        progress.bytes_scanned.fetch_add(unit.bytes(), Relaxed);
        progress.lines_scanned.fetch_add(lines, Relaxed);
        self.outcome.lines_scanned += lines;
    }

    /// Rows older than that are not needed any more.
    fn oldest_wanted_ns(&self) -> i64 {
        match &self.sink {
            Sink::Newest(newest) => newest.oldest_wanted_ns(),
            Sink::Ordered(ordered) => ordered.oldest_wanted_ns(),
            Sink::Stream => i64::MIN,
        }
    }

    /// Whether the query may go on.
    pub fn check(&self) -> Result<(), RunError> {
        self.context.check(self.started)
    }

    /// Takes rows from behind the last pipe.
    fn deliver(&mut self, block: Block) -> Result<ControlFlow<()>, RunError> {
        match &mut self.sink {
            Sink::Newest(newest) => {
                newest.add(&block, &self.include, &mut self.meter, &mut self.scratch)?;
                Ok(ControlFlow::Continue(()))
            }
            Sink::Ordered(ordered) => {
                ordered.add(&block, &self.include, &mut self.meter, &mut self.scratch)?;
                Ok(ControlFlow::Continue(()))
            }
            Sink::Stream => self.send_wanted(block, None),
        }
    }

    /// Sends what offset and limit leave of rows; `last_key` is that of the last one.
    fn send_wanted(
        &mut self,
        mut block: Block,
        last_key: Option<RowKey>,
    ) -> Result<ControlFlow<()>, RunError> {
        let skipped = self.skip.min(block.len());
        let taken = (block.len() - skipped).min(self.left);
        self.skip -= skipped;
        self.left -= taken;
        let last_key = last_key.filter(|_| skipped + taken == block.len());
        block.slice(skipped, taken);
        let flow = self.send(block, last_key)?;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { flow })
    }

    /// Sends rows to the client in small blocks.
    fn send(
        &mut self,
        block: Block,
        last_key: Option<RowKey>,
    ) -> Result<ControlFlow<()>, RunError> {
        let mut rest = block;
        while !rest.is_empty() {
            self.check()?;
            // Rows in order are few already, and the key is that of the last.
            let behind =
                rest.split_off(if last_key.is_some() { rest.len() } else { BLOCK_ROWS_MAX });
            let count = rest.len() as u64;
            let rows_max = self.context.limits.rows_max;
            if self.outcome.rows + count > rows_max {
                rest.slice(0, (rows_max - self.outcome.rows) as usize);
                let _ = (self.out)(Rows::new(rest, self.include.clone()));
                self.outcome.rows = rows_max;
                self.context.progress.rows.store(rows_max, Relaxed);
                return Err(RunError::RowLimit(rows_max));
            }
            self.outcome.rows += count;
            self.context.progress.rows.store(self.outcome.rows, Relaxed);
            let rows = Rows { last_key, ..Rows::new(rest, self.include.clone()) };
            if (self.out)(rows).is_break() {
                self.outcome.stopped = true;
                return Ok(ControlFlow::Break(()));
            }
            rest = behind;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self) -> Result<(), RunError> {
        if let Sink::Newest(newest) = &mut self.sink {
            let mut rows = newest.take();
            rows.drain(..self.context.offset.min(rows.len()));
            let _ = self.send(Block::Made(rows), None)?;
        }
        Ok(())
    }
}

/// The earliest event time of a unit; one that is not known could be any.
fn oldest_ns(unit: &dyn ScanUnit) -> i64 {
    unit.time_range_ns().map_or(i64::MIN, |(oldest, _)| oldest)
}

/// The query's own thread, where several collect.
struct Own<'a, 'r> {
    run: &'a mut Run<'r>,
    stages: &'a mut [Box<dyn Processor>],
}

impl Worker for Own<'_, '_> {
    fn check(&self) -> Result<(), RunError> {
        self.run.check()
    }

    fn take(&mut self, place: usize, unit: &dyn ScanUnit, found: Found) -> Result<(), RunError> {
        self.run.take(place, unit, found, self.stages).map(drop)
    }
}

/// Another one: it has the pipes up to the one that collects.
struct Gatherer<'a> {
    stages: Vec<Box<dyn Processor>>,
    meter: Meter,
    source: &'a dyn Source,
    context: &'a Context,
    started: Instant,
    range: TimeRange,
    whose: Whose,
    outcome: Outcome,
}

impl Worker for Gatherer<'_> {
    fn check(&self) -> Result<(), RunError> {
        self.context.check(self.started)
    }

    fn take(&mut self, place: usize, unit: &dyn ScanUnit, found: Found) -> Result<(), RunError> {
        let mut run = Run {
            source: self.source,
            meter: self.meter.clone(),
            started: self.started,
            range: self.range,
            whose: self.whose,
            context: self.context,
            out: &mut |_| unreachable!("what is collected goes nowhere yet"),
            sink: Sink::Stream,
            skip: 0,
            left: usize::MAX,
            include: Arc::default(),
            scratch: Scratch::default(),
            outcome: self.outcome,
            unit: place,
        };
        let taken = run.take(place, unit, found, &mut self.stages);
        self.outcome = run.outcome;
        taken.map(drop)
    }
}

/// Calls `with` with the stages behind a last pipe, for tests of single pipes.
#[cfg(test)]
pub(crate) fn with_next<T>(with: impl FnOnce(&mut Next<'_, '_>) -> T) -> (T, Vec<Rows>) {
    let mut sent = Vec::new();
    let context = Context::default();
    let nothing = crate::testing::Memory::new(Vec::new());
    let result = {
        let mut run = Run {
            source: &nothing,
            meter: Meter::new(&context),
            started: Instant::now(),
            context: &context,
            range: context.range,
            whose: Whose::Sent,
            out: &mut |rows| {
                sent.push(rows);
                ControlFlow::Continue(())
            },
            sink: Sink::Stream,
            skip: 0,
            left: usize::MAX,
            include: Arc::default(),
            scratch: Scratch::default(),
            outcome: Outcome::default(),
            unit: 0,
        };
        with(&mut Next { rest: &mut [], run: &mut run })
    };
    (result, sent)
}

/// Called with rows of a query inside another one, and what is behind the pipe that runs it.
pub(crate) type EachBlock<'e> =
    &'e mut dyn FnMut(Block, &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError>;

/// The stages behind a pipe.
pub(crate) struct Next<'a, 'r> {
    rest: &'a mut [Box<dyn Processor>],
    run: &'a mut Run<'r>,
}

impl Next<'_, '_> {
    /// Hands rows on. Break: nobody wants more.
    pub fn push(&mut self, block: Block) -> Result<ControlFlow<()>, RunError> {
        if block.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        match self.rest.split_first_mut() {
            None => self.run.deliver(block),
            Some((stage, rest)) => stage.push(block, &mut Next { rest, run: self.run }),
        }
    }

    /// Whether what takes the rows that are handed on gives the very same for any order of them.
    pub fn takes_any_order(&self) -> bool {
        self.rest.first().is_some_and(|stage| stage.takes_any_order())
    }

    /// The place of the unit that the rows come from, among those that are read.
    pub fn unit(&self) -> usize {
        self.run.unit
    }

    /// Event times that the query looks at.
    pub fn range(&self) -> TimeRange {
        self.run.range
    }

    /// Whose lines the query looks at.
    pub fn whose(&self) -> Whose {
        self.run.whose
    }

    /// Where lines come from.
    pub fn source(&self) -> &dyn Source {
        self.run.source
    }

    /// Runs a query inside this one, and calls `each` with its rows until it breaks.
    pub fn run_query(&mut self, query: &Query, each: EachBlock<'_>) -> Result<(), RunError> {
        let Run { source, context, started, .. } = *self.run;
        let around = Around { source, context, started, meter: self.run.meter.clone() };
        let mut failed = None;
        let outcome = run_within(query, &around, &mut |rows| match each(rows.block, self) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        self.run.outcome.lines_scanned += outcome.lines_scanned;
        failed.map_or(Ok(()), Err)
    }

    /// What several threads need that work for the query side by side.
    pub fn sharing(&self) -> Sharing<'_> {
        let Run { context, started, .. } = *self.run;
        Sharing { context, started, meter: self.run.meter.clone() }
    }

    /// What counts the memory.
    pub fn meter(&mut self) -> &mut Meter {
        &mut self.run.meter
    }

    /// Whether the query may go on.
    pub fn check(&self) -> Result<(), RunError> {
        self.run.check()
    }
}
