//! What is read from each unit, and how several threads read the units.
//!
//! [`Scan::look`] handles one unit, independently of all others. Where the unit has columns, the
//! filter runs over them. Of the rows that remain, only what the query needs is read: their number,
//! one row for each combination of values, vectors of values, some fields, or the lines. Where the
//! unit has no columns, its lines are loaded and the filter runs over them.
//!
//! The units are processed in one of two ways. Where the first collecting pipe can be merged with
//! another instance of itself, each thread has its own instance and takes units in no order
//! ([`Scan::gather`]). Otherwise the results of units are handed on in the order of units
//! ([`Scan::run`]). The query's own thread reads the first units, since often no others are needed.
//! The other threads share the rest: of `n` threads, each takes every `n`-th unit and sends what it
//! finds through a channel of its own. The pipes, which see all rows, therefore need no locks, and
//! a thread is ahead by [`AHEAD_UNITS`] at most.
//!
//! The memory of units that are being read, or wait to be handed on, is reported with the memory of
//! the query ([`UnitMemory`]): raw lines, and the records made of them. Whether the query may
//! continue is checked before each unit and, within the columns of a unit, after some bytes
//! ([`Pulse`]). Left out: avoiding the few units per thread that are read for nothing when the
//! query ends early.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use platform::pressure;

use super::counting::{count, stored_fields, tally, tally_few};
use super::first_rows::keep_first;
use super::rollups::count_unit;
use super::task::QueryThread;
use super::vectors::VectorReader;
use super::words::ruled_out;
use crate::base::bitmap::Bitmap;
use crate::base::names::{HIDDEN, LINE, TIME};
use crate::base::parallel::{in_parallel, with_helpers};
use crate::base::{FieldSet, Meter, Pulse, RunError, SourceError, TimeRange, UnitMemory};
use crate::block::{BatchLines, Block, Scratch, Tally, Vectors, Weighted};
use crate::lang::context::Context;
use crate::lang::filter::{ColumnSelector, Fields, Filter, Selector};
use crate::lang::source::{Answers, ScanUnit, SomeLines, UnitKey};
use crate::plan::QueryPlan;
use crate::plan::rolled::{Rolled, without_time};

/// Units that the query's own thread reads before it starts helpers, at least.
const UNITS_ALONE: usize = 2;
/// Raw bytes that the query's own thread reads before it starts helpers, where there are as many: a
/// block of the largest size. The newest lines are often in many small units. Tests have small
/// units only, and must still use helpers.
const BYTES_ALONE: u64 = if cfg!(test) { 1 } else { 8 << 20 };
/// Units that a thread has finished before they are wanted, besides the unit that it is reading.
const AHEAD_UNITS: usize = 1;
/// How often cancellation is checked while threads are at work.
const CANCEL_TICK: Duration = Duration::from_millis(10);

/// How many units the query's own thread reads before it starts helpers, which would read more than
/// are wanted.
fn alone(units: &[Box<dyn ScanUnit>]) -> usize {
    let mut bytes = 0;
    let lacking = units.iter().take_while(|unit| {
        let before = bytes;
        bytes += unit.bytes();
        before < BYTES_ALONE
    });
    lacking.count().max(UNITS_ALONE).min(units.len())
}

/// The result of reading a unit.
pub(crate) enum UnitResult {
    /// The unit holds no line in the time range.
    Outside,
    /// The unit holds none of the words that the filter needs, and was not read.
    Skipped,
    /// The unit was deleted meanwhile.
    Gone,
    /// The unit is damaged, and the caller takes an answer without it.
    Damaged,
    /// Lines that were counted without reading them.
    Counted(Arc<Weighted>),
    /// Lines that were counted by the values of a field that has many.
    Tallied(Tally),
    /// The values that functions read of the lines.
    Vectors(Vectors),
    /// The lines that the filter selects, if any, and the number of lines examined.
    Lines(Option<Block>, u64),
}

/// Reads units for one plan.
pub(crate) struct Scan<'q> {
    plan: &'q QueryPlan<'q>,
    range: TimeRange,
    selector: Selector,
    /// The filter for columns, if it can run over them.
    columns: Option<ColumnSelector>,
    /// Whether the filter takes all rows.
    takes_all: bool,
    /// The fields that the pipes read; none: any field.
    fields: Option<Vec<String>>,
    /// Computed fields that the pipes read, and that a line may also bring itself.
    hidden: Vec<&'static str>,
    /// Reads vectors instead of rows, where the pipes take them.
    vectors: Option<VectorReader<'q>>,
    /// The cache of answers of units, and the number of this query in it.
    answers: Option<(&'q Answers, u32)>,
    /// How lines are counted from the counts that segments keep, if that is possible.
    pub rolled: Option<&'q Rolled>,
    /// Knows whether damaged units may be passed over.
    context: &'q Context,
    /// Counts the memory of units.
    meter: Meter,
    /// Lines older than this are no longer wanted. The value only grows.
    oldest_wanted_ns: AtomicI64,
    newest_wanted_ns: AtomicI64,
}

impl<'q> Scan<'q> {
    /// Scans for a plan the lines that are not older than `oldest_wanted_ns`.
    pub fn new(
        plan: &'q QueryPlan<'q>,
        oldest_wanted_ns: i64,
        answers: Option<&'q Answers>,
        context: &'q Context,
        meter: Meter,
    ) -> Self {
        let QueryPlan { query, needed, range, .. } = plan;
        let numbered = |answers: &'q Answers| {
            let pipe = plan.counted.as_ref().and(query.pipes().first())?;
            let text = format!("{} | {pipe}", without_time(query.filter()));
            Some((answers, answers.number_of(&text)))
        };
        Scan {
            plan,
            range: TimeRange { start_ns: range.start_ns.max(oldest_wanted_ns), ..*range },
            selector: Selector::new(query.filter()),
            columns: ColumnSelector::new(query.filter()),
            takes_all: matches!(without_time(query.filter()), Filter::All),
            hidden: HIDDEN.into_iter().filter(|name| needed.contains(name)).collect(),
            fields: stored_names(needed),
            vectors: plan.vectors.as_ref().and_then(VectorReader::new),
            answers: answers.and_then(numbered),
            rolled: plan.rolled.as_ref(),
            context,
            meter,
            oldest_wanted_ns: AtomicI64::new(i64::MIN),
            newest_wanted_ns: AtomicI64::new(i64::MAX),
        }
    }

    /// Event times of the lines that are read.
    pub fn range(&self) -> TimeRange {
        self.range
    }

    /// Excludes units whose lines are all older than `oldest_wanted_ns`, or newer than
    /// `newest_wanted_ns`.
    pub fn want(&self, oldest_wanted_ns: i64, newest_wanted_ns: i64) {
        self.oldest_wanted_ns.store(oldest_wanted_ns, Relaxed);
        self.newest_wanted_ns.store(newest_wanted_ns, Relaxed);
    }

    /// Takes those units out of `units` whose answers are cached, and returns the answers. All are
    /// looked up at once, because a lock for each would cost more than the lookup behind it.
    pub fn take_known(
        &self,
        units: &mut Vec<Box<dyn ScanUnit>>,
    ) -> Vec<(Box<dyn ScanUnit>, Arc<Weighted>)> {
        let Some((answers, query)) = self.answers else { return Vec::new() };
        let keys = units.iter().map(|unit| self.key_inside(&**unit));
        let mut kept = answers.get_all(keys, query).into_iter();
        if kept.as_slice().iter().all(Option::is_none) {
            return Vec::new();
        }
        let mut known = Vec::new();
        let all = std::mem::take(units);
        for unit in all {
            match kept.next().expect("one for each unit") {
                Some(answer) => known.push((unit, answer)),
                None => units.push(unit),
            }
        }
        known
    }

    /// The cache key of a unit. None unless all its lines are in the time range. A damaged unit has
    /// none: whatever was counted before, its lines are missing now.
    fn key_inside(&self, unit: &dyn ScanUnit) -> Option<UnitKey> {
        let (oldest, newest) = unit.time_range_ns()?;
        let inside = self.range.contains(oldest) && self.range.contains(newest);
        unit.key().filter(|_| inside && unit.damage().is_none())
    }

    /// Reads `units` on up to `threads` threads besides this one, and calls `each` with the index
    /// of each unit, in order, and what it gives. `each` ends the scan by breaking. `check` is
    /// called now and then on any of the threads, and ends the scan by an error.
    pub fn run(
        &self,
        units: &[Box<dyn ScanUnit>],
        threads: usize,
        check: impl Fn() -> Result<(), RunError> + Sync,
        mut each: impl FnMut(usize, UnitResult) -> Result<ControlFlow<()>, RunError>,
    ) -> Result<(), RunError> {
        let alone = if threads > 1 { alone(units) } else { units.len() };
        let mut scratch = Scratch::default();
        for (place, unit) in units[..alone].iter().enumerate() {
            let (found, _held) = self.look(&**unit, &mut scratch, &check)?;
            if each(place, found)?.is_break() {
                return Ok(());
            }
        }
        let rest = &units[alone..];
        let threads = threads.min(rest.len());
        if threads == 0 {
            return Ok(());
        }
        let check = &check;
        with_helpers(threads, |scope| {
            let start = |first| {
                let (found, finds) = mpsc::sync_channel(AHEAD_UNITS);
                let work = move || {
                    let mut scratch = Scratch::default();
                    for unit in rest.iter().skip(first).step_by(threads) {
                        // An error means that no more results are wanted.
                        if found.send(self.look(&**unit, &mut scratch, check)).is_err() {
                            return;
                        }
                    }
                };
                scope.spawn(move |_| work());
                finds
            };
            let finds: Vec<_> = (0..threads).map(start).collect();
            for place in 0..rest.len() {
                let (found, _held) = loop {
                    check()?;
                    match finds[place % threads].recv_timeout(CANCEL_TICK) {
                        Ok(found) => break found?,
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        // The thread panicked; the panic resumes at the end of the scope.
                        Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                    }
                };
                if each(alone + place, found)?.is_break() {
                    break;
                }
            }
            Ok(())
        })?
    }

    /// Reads `units` in no order: `own` on this thread, each of `others` on a thread of its own.
    /// All stop at the first error.
    pub fn gather(
        &self,
        units: &[Box<dyn ScanUnit>],
        own: &mut QueryThread<'_>,
        others: &mut [QueryThread<'_>],
    ) -> Result<(), RunError> {
        let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let places = || (!stopped.load(Relaxed)).then(|| next.fetch_add(1, Relaxed));
        let (places, stopped) = (&places, &stopped);
        let others = others.iter_mut();
        in_parallel(
            || self.work(own, units, places, stopped),
            others.map(|thread| move || self.work(thread, units, places, stopped)),
        )
    }

    /// Reads the units whose indexes `places` gives, until there are no more.
    fn work(
        &self,
        thread: &mut QueryThread<'_>,
        units: &[Box<dyn ScanUnit>],
        places: &impl Fn() -> Option<usize>,
        stopped: &AtomicBool,
    ) -> Result<(), RunError> {
        let mut scratch = Scratch::default();
        let mut look = |place: usize, unit: &dyn ScanUnit| {
            let execution = &thread.task.execution;
            execution.check()?;
            let (found, _held) = self.look(unit, &mut scratch, &|| execution.check())?;
            thread.take(place, unit, found, None).map(drop)
        };
        while let Some((place, unit)) = places().and_then(|p| Some((p, units.get(p)?))) {
            look(place, &**unit).inspect_err(|_| stopped.store(true, Relaxed))?;
        }
        Ok(())
    }

    /// What a unit gives, and the memory that it takes meanwhile.
    fn look(
        &self,
        unit: &dyn ScanUnit,
        scratch: &mut Scratch,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(UnitResult, UnitMemory), RunError> {
        pressure::give_way();
        let mut held = UnitMemory::default();
        let found = match self.look_holding(unit, scratch, check, &mut held) {
            Err(RunError::Source(error)) => {
                self.context.pass_over(unit.damage().ok_or(error)?)?;
                UnitResult::Damaged
            }
            found => found?,
        };
        Ok((found, held))
    }

    fn look_holding(
        &self,
        unit: &dyn ScanUnit,
        scratch: &mut Scratch,
        check: &dyn Fn() -> Result<(), RunError>,
        held: &mut UnitMemory,
    ) -> Result<UnitResult, RunError> {
        let range = self.range;
        let known = unit.time_range_ns();
        let oldest_wanted_ns = self.oldest_wanted_ns.load(Relaxed);
        let newest_wanted_ns = self.newest_wanted_ns.load(Relaxed);
        if known.is_some_and(|(oldest, newest)| {
            !range.overlaps(oldest, newest)
                || newest < oldest_wanted_ns
                || oldest > newest_wanted_ns
        }) {
            return Ok(UnitResult::Outside);
        }
        let kept = self.answers.zip(self.key_inside(unit));
        let words = ruled_out(&self.plan.needs, unit)?;
        if words.unit {
            return Ok(UnitResult::Skipped);
        }
        if let Some(damage) = unit.damage() {
            self.context.pass_over(damage)?;
            return Ok(UnitResult::Damaged);
        }
        if let Some(counts) = self.rolled.and_then(|rolled| rolled.whole.as_ref())
            && let Some(rows) = count_unit(counts, unit, range, scratch)
        {
            return Ok(UnitResult::Counted(rows.into()));
        }
        let wanted = range.intersect(TimeRange {
            start_ns: oldest_wanted_ns,
            end_ns: newest_wanted_ns.saturating_add(1),
        });
        held.add(&self.meter, unit.bytes() as usize)?;
        if let Some(found) = self.look_at_columns(unit, wanted, &words.tests, check)? {
            match &found {
                UnitResult::Lines(Some(block), _) => held.add(&self.meter, block.memory_bytes())?,
                UnitResult::Tallied(tally) => held.add(&self.meter, tally.memory_bytes())?,
                UnitResult::Vectors(vectors) => held.add(&self.meter, vectors.memory_bytes())?,
                _ => {}
            }
            if let (UnitResult::Counted(answer), Some(((answers, query), key))) = (&found, kept) {
                answers.put(key, query, answer.clone());
            }
            return Ok(found);
        }
        let some = match &self.plan.raw_lines {
            Some(raw_lines) => unit.load_lines(&|frame| raw_lines.lines(frame))?,
            None => None,
        };
        let (batch, lines, mut rows) = match some {
            Some(SomeLines { batch, rows }) => (batch, unit.lines(), rows),
            None => {
                let Some(batch) = unit.load()? else { return Ok(UnitResult::Gone) };
                let lines = batch.len() as u32;
                (batch, u64::from(lines), (0..lines).collect())
            }
        };
        held.add(&self.meter, batch.memory_bytes())?;
        let (oldest, newest) = batch.time_range_ns();
        if !wanted.contains(oldest) || !wanted.contains(newest) {
            rows.retain(|&row| wanted.contains(batch.row(row as usize).time_ns()));
        }
        let mut block = Block::Lines(BatchLines::new(batch, rows));
        let pulse = Pulse::new(check);
        self.selector.select(&mut block, scratch, &pulse);
        pulse.end()?;
        Ok(UnitResult::Lines(Some(block), lines))
    }

    /// What the columns of a unit give. None where the unit must be loaded.
    fn look_at_columns(
        &self,
        unit: &dyn ScanUnit,
        wanted: TimeRange,
        ruled_out: &[bool],
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<Option<UnitResult>, RunError> {
        let Some(selector) = &self.columns else { return Ok(None) };
        // Columns save nothing where all fields of all lines are wanted.
        if self.takes_all
            && self.plan.counted.is_none()
            && self.vectors.is_none()
            && self.plan.first_by.is_none()
            && self.fields.is_none()
            && self.plan.newest_lines.is_none()
        {
            return Ok(None);
        }
        let known = unit.time_range_ns();
        let mut found = None;
        let pulse = Pulse::new(check);
        unit.with_columns(&mut |columns| {
            let mut bits = Bitmap::full(columns.rows());
            let inside = known
                .is_some_and(|(oldest, newest)| wanted.contains(oldest) && wanted.contains(newest));
            if !inside {
                let times = columns.times_ns()?;
                bits.retain(|row| wanted.contains(times[row]));
            }
            let fields = Fields::new(columns, &pulse, ruled_out);
            if selector.narrow(&fields, &mut bits)? && !pulse.is_over() {
                found = self.read(&fields, bits)?;
            }
            Ok(())
        })?;
        pulse.end()?;
        Ok(found)
    }

    /// Reads what the query needs of the selected rows. None where the unit must be loaded.
    fn read(&self, fields: &Fields<'_>, bits: Bitmap) -> Result<Option<UnitResult>, SourceError> {
        let columns = fields.columns();
        let lines = columns.rows() as u64;
        if let Some(counted) = &self.plan.counted
            && !bits.is_empty()
            && let Some(tally) = tally_few(counted, fields, &bits)?
        {
            return Ok(Some(UnitResult::Tallied(tally)));
        }
        if let Some(counted) = &self.plan.counted
            && let Some(rows) = count(counted, fields, &bits)?
        {
            return Ok(Some(UnitResult::Counted(rows.into())));
        }
        if bits.is_empty() {
            return Ok(Some(UnitResult::Lines(None, lines)));
        }
        if let Some(counted) = &self.plan.counted
            && let Some(tally) = tally(counted, fields, &bits)?
        {
            return Ok(Some(UnitResult::Tallied(tally)));
        }
        if let Some(reader) = &self.vectors
            && let Some(vectors) = reader.read(fields, &bits)?
        {
            return Ok(Some(UnitResult::Vectors(vectors)));
        }
        let mut bits = bits;
        if let Some(first) = &self.plan.first_by
            && bits.count() > first.count
            && let Some(column) = fields.get(&first.field)?
        {
            keep_first(first, &column, &mut bits);
        }
        let rows: Vec<u32> = match self.plan.newest_lines {
            Some(count) if bits.count() > count => newest_rows(columns.times_ns()?, &bits, count),
            _ => {
                let wanted = self.plan.lines_wanted.unwrap_or(usize::MAX);
                bits.iter().take(wanted).map(|row| row as u32).collect()
            }
        };
        let brought = |names: Vec<&str>| names.iter().any(|name| self.hidden.contains(name));
        let stored = match &self.fields {
            // A field that a line brings under the name of a computed field is found only in the
            // line.
            Some(_) if !self.hidden.is_empty() && brought(columns.names()) => None,
            Some(fields) => stored_fields(fields, columns)?,
            None => None,
        };
        let some = match &stored {
            Some(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                columns.batch_of(&rows, &names)?
            }
            None => None,
        };
        let batch = match some {
            Some(batch) => batch,
            None => columns.batch(&rows)?,
        };
        let rows = (0..rows.len() as u32).collect();
        let block = Block::Lines(BatchLines::new(Arc::new(batch), rows));
        Ok(Some(UnitResult::Lines(Some(block), lines)))
    }
}

/// The fields of a set that can be read from columns, with the fields of `_stream` in place of it.
/// None where lines must be read.
fn stored_names(set: &FieldSet) -> Option<Vec<String>> {
    let mut names = set.names()?;
    // The other computed fields are known of each row without its line.
    names.retain(|name| *name != TIME && (!HIDDEN.contains(name) || *name == LINE));
    (!names.contains(&LINE)).then(|| names.into_iter().map(str::to_owned).collect())
}

/// The newest `count` rows, and those as old as the oldest of them.
fn newest_rows(times: &[i64], bits: &Bitmap, count: usize) -> Vec<u32> {
    let mut newest: Vec<i64> = bits.iter().map(|row| times[row]).collect();
    let place = newest.len() - count.min(newest.len());
    let oldest = match newest.get(place) {
        Some(_) => *newest.select_nth_unstable(place).1,
        None => return Vec::new(),
    };
    bits.iter().filter(|&row| times[row] >= oldest).map(|row| row as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_rows_with_those_as_old() {
        let check = |count: usize, expected: &[u32]| {
            let mut bits = Bitmap::full(6);
            bits.retain(|row| row != 3);
            assert_eq!(newest_rows(&[5, 1, 4, 9, 4, 2], &bits, count), expected, "{count}");
        };
        check(0, &[]);
        check(1, &[0]);
        check(2, &[0, 2, 4]);
        check(3, &[0, 2, 4]);
        check(4, &[0, 2, 4, 5]);
        check(5, &[0, 1, 2, 4, 5]);
        check(6, &[0, 1, 2, 4, 5]);
    }
}
