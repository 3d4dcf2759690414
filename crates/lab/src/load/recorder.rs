//! Records the measurements second by second: a histogram of latencies and the errors of each
//! label.
//!
//! Threads record into a few shards, so that they hardly wait for each other; once a second the
//! completed seconds are taken from the shards and merged. A second is emitted once, one second
//! after its end, because an answer is recorded a little after it arrives; [`Recorder::rest`] emits
//! the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use hdrhistogram::Histogram;
use tokio::time::{Duration, Instant};

use crate::histogram::{self, LATENCY_MAX_US};
use crate::results::Second;

/// Shards; each costs a histogram for every label and second.
const SHARDS_MAX: u32 = 8;

/// Shared by the threads of one trial.
pub struct Recorder {
    from: Instant,
    shards: Vec<Mutex<Shard>>,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Shard {
    /// The last two or three seconds.
    cells: Vec<Cell>,
    last: Option<Instant>,
}

struct Cell {
    second: u32,
    label: &'static str,
    latencies: Histogram<u64>,
    errors: BTreeMap<&'static str, u64>,
}

/// What was emitted.
#[derive(Default)]
struct Given {
    /// The first second that was not emitted yet.
    before: u32,
    /// Labels, each with a line for every second from its first on, even without an answer, so that
    /// stalls of a store are visible.
    labels: BTreeSet<&'static str>,
    /// Threads at work at the end of each second that was not emitted yet.
    threads: BTreeMap<u32, u32>,
}

impl Recorder {
    /// For answers from `from` on, which is the beginning of second 0.
    pub fn new(from: Instant, threads: u32) -> Recorder {
        let shards = (0..threads.clamp(1, SHARDS_MAX)).map(|_| Mutex::default()).collect();
        Recorder { from, shards, given: Mutex::default() }
    }

    /// Records a right answer. Answers before the measured part are ignored.
    pub fn right(&self, thread: u32, label: &'static str, answered: Instant, latency: Duration) {
        let micros = (latency.as_micros().min(u128::from(LATENCY_MAX_US)) as u64).max(1);
        self.cell(thread, label, answered, |cell| cell.latencies.saturating_record(micros));
    }

    /// Records an operation without a right answer.
    pub fn error(&self, thread: u32, label: &'static str, at: Instant, kind: &'static str) {
        self.cell(thread, label, at, |cell| *cell.errors.entry(kind).or_default() += 1);
    }

    fn cell(&self, thread: u32, label: &'static str, at: Instant, record: impl FnOnce(&mut Cell)) {
        let Some(since) = at.checked_duration_since(self.from) else { return };
        let second = since.as_secs().min(u64::from(u32::MAX)) as u32;
        let shard = &self.shards[thread as usize % self.shards.len()];
        let mut shard = shard.lock().expect("nothing panics while it records");
        shard.last = shard.last.max(Some(at));
        let place = shard.cells.iter().position(|c| c.second == second && c.label == label);
        let place = place.unwrap_or_else(|| {
            let (latencies, errors) = (histogram::new(), BTreeMap::new());
            shard.cells.push(Cell { second, label, latencies, errors });
            shard.cells.len() - 1
        });
        record(&mut shard.cells[place]);
    }

    /// Called about once a second, with the number of threads at work: returns the lines of
    /// completed seconds.
    pub fn over(&self, now: Instant, threads: u32) -> Vec<Second> {
        let seconds = now.saturating_duration_since(self.from).as_secs() as u32;
        let mut given = self.given.lock().expect("nothing panics while it gives out");
        if seconds > 0 {
            given.threads.insert(seconds - 1, threads);
        }
        self.take(&mut given, seconds.saturating_sub(1))
    }

    /// The lines of all seconds that were not emitted yet.
    pub fn rest(&self, threads: u32) -> Vec<Second> {
        let last = self.last().map(|last| last.duration_since(self.from).as_secs() as u32);
        let mut given = self.given.lock().expect("nothing panics while it gives out");
        let end = last.map_or(0, |last| last + 1);
        if end > 0 {
            given.threads.entry(end - 1).or_insert(threads);
        }
        self.take(&mut given, end)
    }

    /// When the last answer or error arrived.
    pub fn last(&self) -> Option<Instant> {
        let last = |shard: &Mutex<Shard>| shard.lock().expect("see above").last;
        self.shards.iter().filter_map(last).max()
    }

    fn take(&self, given: &mut Given, before: u32) -> Vec<Second> {
        let mut merged: BTreeMap<(u32, &'static str), Cell> = BTreeMap::new();
        for shard in &self.shards {
            let mut shard = shard.lock().expect("nothing panics while it records");
            for cell in shard.cells.extract_if(.., |cell| cell.second < before) {
                match merged.entry((cell.second, cell.label)) {
                    std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(cell)),
                    std::collections::btree_map::Entry::Occupied(mut place) => {
                        let sum = place.get_mut();
                        sum.latencies.add(&cell.latencies).expect("of one shape");
                        for (kind, count) in cell.errors {
                            *sum.errors.entry(kind).or_default() += count;
                        }
                    }
                }
            }
        }
        let mut lines = Vec::new();
        for second in given.before..before {
            given.labels.extend(
                merged
                    .range((second, "")..)
                    .map_while(|((at, label), _)| (*at == second).then_some(*label)),
            );
            let threads = given.threads.remove(&second).unwrap_or(0);
            for label in &given.labels {
                lines.push(line(second, label, merged.remove(&(second, *label)), threads));
            }
        }
        // An answer that was recorded more than a second after it arrived: its second gets another
        // line.
        lines.extend(
            merged.into_iter().map(|((second, label), cell)| line(second, label, Some(cell), 0)),
        );
        given.before = given.before.max(before);
        lines
    }
}

fn line(second: u32, label: &str, cell: Option<Cell>, threads: u32) -> Second {
    let (latencies, errors) = match cell {
        Some(cell) => (cell.latencies, cell.errors),
        None => (histogram::new(), BTreeMap::new()),
    };
    Second {
        second,
        label: label.to_owned(),
        count: latencies.len(),
        errors: errors.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
        histogram: histogram::encode(&latencies),
        threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_given_out_once_and_without_gaps() {
        let from = Instant::now();
        let at = |ms| from + Duration::from_millis(ms);
        let recorder = Recorder::new(from, 20);
        let latency = Duration::from_micros(250);
        for thread in 0..20 {
            recorder.right(thread, "read", at(10), latency);
            recorder.right(thread, "read", at(2_999), latency);
        }
        recorder.error(3, "write", at(1_500), "timeout");
        assert_eq!(recorder.over(at(1_000), 20), [], "the second has just ended");
        let first = recorder.over(at(2_000), 19);
        assert_eq!(first.len(), 1);
        assert_eq!((first[0].second, first[0].count, first[0].threads), (0, 20, 20));
        let all = recorder.rest(5);
        let short: Vec<_> =
            all.iter().map(|s| (s.second, s.label.as_str(), s.count, s.threads)).collect();
        let expected =
            [(1, "read", 0, 19), (1, "write", 0, 19), (2, "read", 20, 5), (2, "write", 0, 5)];
        assert_eq!(short, expected);
        assert_eq!(all[1].errors, BTreeMap::from([("timeout".to_owned(), 1)]));
        let mut histogram = histogram::new();
        histogram::add(&mut histogram, &all[2].histogram).unwrap();
        assert_eq!((histogram.len(), histogram.max()), (20, 250));
        assert_eq!(recorder.rest(5), []);
    }

    #[test]
    fn what_came_before_the_measured_part_is_passed_over() {
        let now = Instant::now();
        let recorder = Recorder::new(now + Duration::from_secs(1), 1);
        recorder.right(0, "read", now, Duration::ZERO);
        assert_eq!((recorder.rest(0), recorder.last()), (Vec::new(), None));
    }
}
