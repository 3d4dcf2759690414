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
    last_right: Option<Instant>,
    last_error: Option<Instant>,
}

struct Cell {
    second: u32,
    label: &'static str,
    latencies: Histogram<u64>,
    errors: BTreeMap<&'static str, u64>,
}

/// How far the seconds were given out.
#[derive(Default)]
struct Given {
    /// The first second that was not emitted yet.
    before: u32,
    /// Labels, each with a line for every second from its first on, even without an answer, so that
    /// stalls of a store are visible.
    labels: BTreeSet<&'static str>,
    /// Threads at work at the end of each second that was not emitted yet.
    threads: BTreeMap<u32, u32>,
    /// Right answers.
    right: u64,
    /// Operations without one.
    errors: u64,
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
        self.cell(thread, label, answered, |shard, at| {
            shard.last_right = shard.last_right.max(Some(answered));
            shard.cells[at].latencies.saturating_record(micros);
        });
    }

    /// Records an operation without a right answer.
    pub fn error(&self, thread: u32, label: &'static str, at: Instant, kind: &'static str) {
        self.cell(thread, label, at, |shard, place| {
            shard.last_error = shard.last_error.max(Some(at));
            *shard.cells[place].errors.entry(kind).or_default() += 1;
        });
    }

    /// Records in the cell of a label and second, which has a place in its shard.
    fn cell(
        &self,
        thread: u32,
        label: &'static str,
        at: Instant,
        record: impl FnOnce(&mut Shard, usize),
    ) {
        let Some(since) = at.checked_duration_since(self.from) else { return };
        let second = since.as_secs().min(u64::from(u32::MAX)) as u32;
        let shard = &self.shards[thread as usize % self.shards.len()];
        let mut shard = shard.lock().expect("nothing panics while it records");
        let place = shard.cells.iter().position(|c| c.second == second && c.label == label);
        let place = place.unwrap_or_else(|| {
            let (latencies, errors) = (histogram::new(), BTreeMap::new());
            shard.cells.push(Cell { second, label, latencies, errors });
            shard.cells.len() - 1
        });
        record(&mut shard, place);
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
        let last = self.last(None).map(|last| last.duration_since(self.from).as_secs() as u32);
        let mut given = self.given.lock().expect("nothing panics while it gives out");
        let end = last.map_or(0, |last| last + 1);
        if end > 0 {
            given.threads.entry(end - 1).or_insert(threads);
        }
        self.take(&mut given, end)
    }

    /// When the last right answer or error arrived. An error after `until` does not count: an
    /// operation that times out long after the end would make the rate of all others smaller.
    pub fn last(&self, until: Option<Instant>) -> Option<Instant> {
        let last = |shard: &Mutex<Shard>| {
            let shard = shard.lock().expect("nothing panics while it records");
            let error = shard.last_error.map(|error| until.map_or(error, |until| error.min(until)));
            shard.last_right.max(error)
        };
        self.shards.iter().filter_map(last).max()
    }

    /// Right answers, and operations without one, of all that was emitted.
    pub fn totals(&self) -> (u64, u64) {
        let given = self.given.lock().expect("nothing panics while it gives out");
        (given.right, given.errors)
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
        for line in &lines {
            given.right += line.count;
            given.errors += line.errors.values().sum::<u64>();
        }
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
        assert_eq!((recorder.rest(0), recorder.last(None)), (Vec::new(), None));
    }

    #[test]
    fn an_error_after_the_end_makes_no_trial_longer() {
        let from = Instant::now();
        let at = |s| from + Duration::from_secs(s);
        let recorder = Recorder::new(from, 2);
        recorder.right(0, "read", at(9), Duration::ZERO);
        recorder.error(1, "read", at(40), "timeout");
        assert_eq!(recorder.last(Some(at(10))), Some(at(10)), "the store was silent until the end");
        assert_eq!(recorder.last(None), Some(at(40)), "only the operations end it");
        recorder.right(1, "read", at(11), Duration::ZERO);
        assert_eq!(recorder.last(Some(at(10))), Some(at(11)));
        // A line for each second from the first answer on.
        assert_eq!(recorder.rest(0).len(), 41 - 9);
        assert_eq!(recorder.totals(), (2, 1));
    }
}
