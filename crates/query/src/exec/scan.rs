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

use super::counting::{count, count_rows, stored_fields, tally, tally_few};
use super::facets::FacetReader;
use super::first_rows::keep_first;
use super::rollups::{count_times, count_unit};
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
/// Units that the query's own thread rules out by their words before it starts helpers: to ask one
/// takes a microsecond, to wake a helper takes a hundred.
const RULED_OUT_ALONE: usize = if cfg!(test) { 8 } else { 512 };
/// Most units that were ruled out and are told of at once by a helper.
const SKIPPED_TOGETHER: usize = if cfg!(test) { 3 } else { 32 };
/// Units that a thread has finished before they are wanted, besides the unit that it is reading,
/// and those that are ruled out.
const AHEAD_UNITS: usize = 1;
/// How often cancellation is checked while threads are at work.
const CANCEL_TICK: Duration = Duration::from_millis(10);

/// What the query's own thread has done of a scan, to decide when helpers are worth their start.
#[derive(Default)]
struct Alone {
    units_read: usize,
    bytes_read: u64,
    ruled_out: usize,
}

impl Alone {
    /// Notes a unit that was read or ruled out.
    fn note(&mut self, unit: &dyn ScanUnit, found: &UnitResult) {
        match found {
            UnitResult::Outside | UnitResult::Skipped => self.ruled_out += 1,
            _ => {
                self.units_read += 1;
                self.bytes_read += unit.bytes();
            }
        }
    }

    /// Whether helpers should read the rest.
    fn is_over(&self) -> bool {
        self.units_read >= UNITS_ALONE && self.bytes_read >= BYTES_ALONE
            || self.ruled_out >= RULED_OUT_ALONE
    }
}

type Found = Result<(UnitResult, UnitMemory), RunError>;

/// What a helper tells: some units that were ruled out, and what it found in the one behind them.
struct Told {
    skipped: usize,
    found: Option<Found>,
}

/// What a helper told and was not handed on yet.
struct Finds {
    told: mpsc::Receiver<Told>,
    next: Told,
}

impl Finds {
    /// The result of the helper's next unit; none if the helper panicked.
    fn next(
        &mut self,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<Option<(UnitResult, UnitMemory)>, RunError> {
        loop {
            if self.next.skipped > 0 {
                self.next.skipped -= 1;
                return Ok(Some((UnitResult::Skipped, UnitMemory::default())));
            }
            if let Some(found) = self.next.found.take() {
                return found.map(Some);
            }
            check()?;
            match self.told.recv_timeout(CANCEL_TICK) {
                Ok(told) => self.next = told,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // The panic resumes at the end of the scope.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
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
    /// Counts the values of all fields from columns, if the first pipe does.
    facets: Option<FacetReader<'q>>,
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
            let counted = plan.counted.as_ref()?;
            let text = format!("{} | {counted:?}", without_time(query.filter()));
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
            facets: plan.facets.map(FacetReader::new),
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
        let keys = units.iter().map(|unit| self.key_inside(&**unit, unit.time_range_ns()));
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

    /// The cache key of a unit whose lines have event times from the first to the second instant.
    /// None unless all its lines are in the time range. A damaged unit has none: whatever was
    /// counted before, its lines are missing now.
    fn key_inside(&self, unit: &dyn ScanUnit, known: Option<(i64, i64)>) -> Option<UnitKey> {
        let (oldest, newest) = known?;
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
        let mut alone = Alone::default();
        let mut scratch = Scratch::default();
        let mut read = 0;
        while read < units.len() && (threads < 2 || read + 1 == units.len() || !alone.is_over()) {
            let unit = &*units[read];
            let (found, _held) = self.look(unit, &mut scratch, &check)?;
            alone.note(unit, &found);
            if each(read, found)?.is_break() {
                return Ok(());
            }
            read += 1;
        }
        let rest = &units[read..];
        let threads = threads.min(rest.len());
        if threads == 0 {
            return Ok(());
        }
        let check = &check;
        with_helpers(threads, |scope| {
            let start = |first| {
                let (tell, told) = mpsc::sync_channel(AHEAD_UNITS);
                let own = rest.iter().skip(first).step_by(threads).map(|unit| &**unit);
                scope.spawn(move |_| self.tell_of(own, &tell, check));
                Finds { told, next: Told { skipped: 0, found: None } }
            };
            let mut finds: Vec<Finds> = (0..threads).map(start).collect();
            for place in 0..rest.len() {
                let Some((found, _held)) = finds[place % threads].next(check)? else {
                    return Ok(());
                };
                if each(read + place, found)?.is_break() {
                    break;
                }
            }
            Ok(())
        })?
    }

    /// Reads units on a helper, and tells of them in order. Those that are ruled out are told of
    /// together: waking the query's own thread takes longer than to rule one out.
    fn tell_of<'u>(
        &self,
        units: impl Iterator<Item = &'u dyn ScanUnit>,
        tell: &mpsc::SyncSender<Told>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) {
        let (mut scratch, mut skipped) = (Scratch::default(), 0);
        for unit in units {
            let found = self.look(unit, &mut scratch, check);
            if let Ok((UnitResult::Skipped, _)) = found {
                skipped += 1;
                if skipped < SKIPPED_TOGETHER {
                    continue;
                }
            }
            let found = match found {
                Ok((UnitResult::Skipped, _)) => None,
                found => Some(found),
            };
            // An error means that no more results are wanted.
            if tell.send(Told { skipped: std::mem::take(&mut skipped), found }).is_err() {
                return;
            }
        }
        let _ = tell.send(Told { skipped, found: None });
    }

    /// Whether so few of `units` are left by their words and tenants that no helper is worth its
    /// start.
    pub fn leaves_few(&self, units: &[Box<dyn ScanUnit>]) -> bool {
        let needs = &self.plan.needs;
        let is_left =
            |unit: &&dyn ScanUnit| !matches!(ruled_out(needs, *unit), Ok(words) if words.unit);
        let left = units.iter().map(|unit| &**unit).filter(is_left);
        needs.ask()
            && units.len() <= RULED_OUT_ALONE
            && left.take(UNITS_ALONE).count() < UNITS_ALONE
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
        let mut known = unit.time_range_ns();
        let mut times = None;
        if known.is_none() && unit.damage().is_none() {
            // Finding the times of a frame takes a part of the time of parsing its lines, and no
            // later query does it again.
            times = self.times_of(unit)?;
            known =
                times.as_ref().and_then(|times| Some((*times.iter().min()?, *times.iter().max()?)));
        }
        let oldest_wanted_ns = self.oldest_wanted_ns.load(Relaxed);
        let newest_wanted_ns = self.newest_wanted_ns.load(Relaxed);
        if known.is_some_and(|(oldest, newest)| {
            !range.overlaps(oldest, newest)
                || newest < oldest_wanted_ns
                || oldest > newest_wanted_ns
        }) {
            return Ok(UnitResult::Outside);
        }
        let kept = self.answers.zip(self.key_inside(unit, known));
        let words = ruled_out(&self.plan.needs, unit)?;
        if words.unit {
            return Ok(UnitResult::Skipped);
        }
        if let Some(damage) = unit.damage() {
            self.context.pass_over(damage)?;
            return Ok(UnitResult::Damaged);
        }
        if let Some(counts) = self.rolled.and_then(|rolled| rolled.whole.as_ref()) {
            if let Some(rows) = count_unit(counts, unit, known, range, scratch) {
                return Ok(UnitResult::Counted(rows.into()));
            }
            if counts.fields.is_empty()
                && let Some(times) =
                    times.map_or_else(|| self.times_of(unit), |times| Ok(Some(times)))?
            {
                let rows = count_times(counts, &times, range, scratch);
                return Ok(keep_answer(kept, rows.into()));
            }
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
                UnitResult::Counted(rows) => held.add(&self.meter, rows.memory_bytes())?,
                _ => {}
            }
            return Ok(match found {
                UnitResult::Counted(rows) => keep_answer(kept, rows),
                found => found,
            });
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
        if let Some(counted) = &self.plan.counted
            && kept.is_some()
            && let Some(rows) = count_rows(counted, &block, scratch)
        {
            return Ok(keep_answer(kept, rows.into()));
        }
        Ok(UnitResult::Lines(Some(block), lines))
    }

    /// The event times of a unit, where they are found without loading it.
    fn times_of(&self, unit: &dyn ScanUnit) -> Result<Option<Vec<i64>>, RunError> {
        let mut held = UnitMemory::default();
        held.add(&self.meter, unit.bytes() as usize)?;
        Ok(unit.times_ns()?)
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
            && self.facets.is_none()
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
        if let Some(reader) = &self.facets
            && let Some(rows) = reader.read(fields, &bits)?
        {
            return Ok(Some(UnitResult::Counted(rows.into())));
        }
        let mut bits = bits;
        if let Some(first) = &self.plan.first_by
            && bits.count() > first.count
        {
            keep_first(first, fields, &mut bits)?;
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

/// Where the answer of a unit is cached.
type KeptAt<'a> = ((&'a Answers, u32), UnitKey);

/// What a unit gave, which is cached if it has a place.
fn keep_answer(kept: Option<KeptAt<'_>>, rows: Arc<Weighted>) -> UnitResult {
    if let Some(((answers, query), key)) = kept {
        answers.put(key, query, rows.clone());
    }
    UnitResult::Counted(rows)
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
