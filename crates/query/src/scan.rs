//! Reads the units of a question and filters their lines, on several threads; hands what is left on in order.
//!
//! What a unit gives is found out by [`Scan::look`], which depends on no other unit. The first units are looked at by
//! the question's own thread, since often they are all that is needed; of the rest, each of some threads takes every
//! so manieth and sends what it finds through a channel of its own. So the order is that of the units, a thread is
//! ahead by [`AHEAD_UNITS`] at most, and the pipes, which see all rows, need no locks.
//!
//! Left out: units that are looked at in vain when the question ends early, a few for each thread.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use crate::block::{Block, Lines, Scratch};
use crate::counting::Counting;
use crate::filter::Selector;
use crate::needs::Needs;
use crate::query::Query;
use crate::rolled::{Rolled, Weighted};
use crate::source::{ScanUnit, SourceError, TimeRange};

/// Units that the question's own thread looks at before it starts others.
const UNITS_ALONE: usize = 2;
/// Units that a thread has looked at before they are wanted, beside the one that it looks at.
const AHEAD_UNITS: usize = 1;
/// How often it is looked whether the question is cancelled while its threads are at work.
const CANCEL_TICK: Duration = Duration::from_millis(10);

/// What a unit gives to a question.
pub(crate) enum Found {
    /// It holds no line in the range of times.
    Outside,
    /// It holds none of the words asked for, and was not read.
    Skipped,
    /// It was deleted meanwhile.
    Gone,
    /// Its lines were counted without reading them.
    Counted(Weighted),
    /// Lines that the filter selects, and how many were looked at.
    Lines(Block, u64),
}

/// What is asked of each unit.
pub(crate) struct Scan<'q> {
    range: TimeRange,
    selector: Selector,
    needs: Needs<'q>,
    counting: Option<Counting<'q>>,
    pub rolled: Option<Rolled>,
    /// Lines older than that are not wanted any more; grows.
    oldest_wanted_ns: AtomicI64,
}

impl<'q> Scan<'q> {
    /// What `query` asks of units, of lines in `range`.
    pub fn new(query: &'q Query, range: TimeRange) -> Self {
        Scan {
            range,
            selector: Selector::new(query.filter()),
            needs: Needs::new(query.filter()),
            counting: Counting::of(query),
            rolled: Rolled::of(query),
            oldest_wanted_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// Leaves out lines that are older.
    pub fn want_from(&self, oldest_wanted_ns: i64) {
        self.oldest_wanted_ns.store(oldest_wanted_ns, Relaxed);
    }

    /// Looks at `units`, on up to `threads` threads beside this one, and calls `each` with the place of each unit, in
    /// order, and what it gives. `each` ends it by breaking; `check`, called now and then, by an error.
    pub fn run<E: From<SourceError>>(
        &self,
        units: &[Box<dyn ScanUnit>],
        threads: usize,
        check: impl Fn() -> Result<(), E>,
        mut each: impl FnMut(usize, Found) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let alone = if threads > 1 { UNITS_ALONE.min(units.len()) } else { units.len() };
        let mut scratch = Scratch::default();
        for (place, unit) in units[..alone].iter().enumerate() {
            if each(place, self.look(&**unit, &mut scratch)?)?.is_break() {
                return Ok(());
            }
        }
        let rest = &units[alone..];
        let threads = threads.min(rest.len());
        std::thread::scope(|scope| {
            let start = |first| {
                let (found, finds) = mpsc::sync_channel(AHEAD_UNITS);
                let work = move || {
                    let mut scratch = Scratch::default();
                    for unit in rest.iter().skip(first).step_by(threads) {
                        // An error means that nobody wants more.
                        if found.send(self.look(&**unit, &mut scratch)).is_err() {
                            return;
                        }
                    }
                };
                let name = format!("query-scan-{first}");
                let started = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
                started.map(|_| finds)
            };
            let finds: Result<Vec<_>, _> = (0..threads).map(start).collect();
            let finds = finds.map_err(|e| SourceError(format!("cannot start a thread: {e}")))?;
            for place in 0..rest.len() {
                let found = loop {
                    check()?;
                    match finds[place % threads].recv_timeout(CANCEL_TICK) {
                        Ok(found) => break found?,
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        // It panicked, which goes on at the end of the scope.
                        Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                    }
                };
                if each(alone + place, found)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// What a unit gives.
    fn look(&self, unit: &dyn ScanUnit, scratch: &mut Scratch) -> Result<Found, SourceError> {
        let range = self.range;
        let known = unit.time_range_ns();
        let wanted_ns = self.oldest_wanted_ns.load(Relaxed);
        if known
            .is_some_and(|(oldest, newest)| !range.overlaps(oldest, newest) || newest < wanted_ns)
        {
            return Ok(Found::Outside);
        }
        if !self.needs.may_be_in(unit)? {
            return Ok(Found::Skipped);
        }
        let inside =
            known.is_some_and(|(oldest, newest)| range.contains(oldest) && range.contains(newest));
        if inside
            && let Some(counting) = &self.counting
            && let Some(rows) = counting.count_in(unit)?
        {
            return Ok(Found::Counted(Weighted::of_lines(rows)));
        }
        if let Some(rolled) = &self.rolled
            && let Some(rows) = rolled.count_unit(unit, range, scratch)
        {
            return Ok(Found::Counted(rows));
        }
        let Some(batch) = unit.load()? else { return Ok(Found::Gone) };
        let lines = batch.len() as u64;
        let wanted = range.intersect(TimeRange { start_ns: wanted_ns, end_ns: i64::MAX });
        let (oldest, newest) = batch.time_range_ns();
        let rows: Vec<u32> = if wanted.contains(oldest) && wanted.contains(newest) {
            (0..batch.len() as u32).collect()
        } else {
            let rows = batch.rows().filter(|row| wanted.contains(row.time_ns()));
            rows.map(|row| row.index()).collect()
        };
        let mut block = Block::Lines(Lines::new(batch, rows));
        self.selector.select(&mut block, scratch);
        Ok(Found::Lines(block, lines))
    }
}
