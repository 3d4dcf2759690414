//! The thread of a program: waits until buckets are due, computes them, and stores their rows.
//!
//! A bucket that fails stays pending: it is tried again after a pause that doubles up to ten
//! minutes. When several buckets fail in a row, the program itself pauses, up to a minute, so that
//! one that always hangs does not take a processor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use collector::ALONE_BYTES_MAX;
use platform::Clock;
use query::RunError;

use super::compiled::Compiled;
use super::compute::{BUCKETS_MAX, BucketResult, Engine, schedule};
use super::pending::{Pending, Schedule};
use super::rows::{self, BucketOf};
use super::status::{LastError, Status};
use crate::process::stages::lock;
use crate::storage::row_store::RowStore;

/// The longest sleep, after which the thread checks whether it has to end.
const TICK: Duration = Duration::from_millis(500);
const SECOND_NS: i64 = 1_000_000_000;
/// The longest pause before a bucket that failed is tried again.
const BUCKET_PAUSE_MAX_S: i64 = 600;
/// The longest pause of a program whose buckets fail one after the other.
const PROGRAM_PAUSE_MAX_S: i64 = 60;

/// Stores rows; shared by all programs.
pub struct RowWriter {
    own: Arc<dyn RowStore>,
    clock: Arc<dyn Clock>,
    last_revision: Mutex<u64>,
}

impl RowWriter {
    /// A writer to `own`, whose numbers are greater than `last_revision`.
    pub fn new(own: Arc<dyn RowStore>, clock: Arc<dyn Clock>, last_revision: u64) -> RowWriter {
        RowWriter { own, clock, last_revision: Mutex::new(last_revision) }
    }

    /// The last number that was given.
    pub fn last_revision(&self) -> u64 {
        *lock(&self.last_revision)
    }

    /// A number greater than all before: the time in microseconds since 1970 UTC, as far as the
    /// clock does not go back. JavaScript can hold it without rounding.
    pub fn next_revision(&self) -> u64 {
        let mut last = lock(&self.last_revision);
        *last = (self.clock.now_ns().max(0) as u64 / 1_000).max(*last + 1);
        *last
    }

    /// Makes lines durable, all or none. They are at most [`ALONE_BYTES_MAX`].
    pub fn write(&self, lines: &[u8]) -> Result<(), String> {
        self.own.store(&rows::origin(), lines, self.clock.now_ns())
    }

    /// Accepts no more rows.
    pub fn close(&self) {
        self.own.close();
    }
}

/// A program that runs. Its thread calls [`Runner::run`].
pub struct Runner {
    /// The program.
    pub compiled: Arc<Compiled>,
    engine: Arc<Engine>,
    writer: Arc<RowWriter>,
    clock: Arc<dyn Clock>,
    schedule: Schedule,
    queue: Mutex<Queue>,
    changed: Condvar,
    status: Mutex<Status>,
    /// Ends the thread, and the query that reads.
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Queue {
    pending: Pending,
    /// Buckets that are being computed.
    taken: Option<(i64, i64)>,
    /// Failed attempts of buckets, as long as they fail.
    attempts: BTreeMap<i64, u32>,
    /// Nothing is computed before.
    paused_until_ns: i64,
}

/// Buckets whose attempts are remembered; of others every failure counts as the first.
const ATTEMPTS_MAX: usize = 10_000;

impl Runner {
    /// A program at rest, with the pending event times (nanoseconds since 1970 UTC) of an earlier
    /// run. `delay_s` is the wait for lines that are a little late.
    pub fn new(
        compiled: Arc<Compiled>,
        engine: Arc<Engine>,
        writer: Arc<RowWriter>,
        clock: Arc<dyn Clock>,
        delay_s: u64,
        pending_ns: &[(i64, i64)],
    ) -> Runner {
        let schedule = schedule(compiled.definition.width_s, delay_s);
        let mut pending = Pending::default();
        let now_ns = clock.now_ns();
        for (start_ns, end_ns) in pending_ns {
            let last = schedule.bucket(end_ns.saturating_sub(1));
            pending.put_back(schedule.bucket(*start_ns), last.saturating_add(1), now_ns);
        }
        Runner {
            compiled,
            engine,
            writer,
            clock,
            schedule,
            queue: Mutex::new(Queue { pending, ..Queue::default() }),
            changed: Condvar::new(),
            status: Mutex::default(),
            stopped: Arc::default(),
        }
    }

    /// Notes lines with these event times, seconds since 1970 UTC, sorted.
    pub fn note(&self, seconds: impl Iterator<Item = i64>) {
        let now_ns = self.clock.now_ns();
        let mut queue = lock(&self.queue);
        let mut last = None;
        for second in seconds {
            let bucket = self.schedule.bucket(second.saturating_mul(SECOND_NS));
            if last.replace(bucket) != Some(bucket) {
                queue.pending.note(bucket, now_ns, &self.schedule);
            }
        }
    }

    /// Event times that are to be computed, nanoseconds since 1970 UTC: start, and the first
    /// instant behind.
    pub fn pending_ns(&self) -> Vec<(i64, i64)> {
        let queue = lock(&self.queue);
        let ranges = queue.pending.ranges().chain(queue.taken);
        let times =
            ranges.map(|(start, end)| (self.schedule.start_ns(start), self.schedule.start_ns(end)));
        times.collect()
    }

    /// Buckets that are to be computed, and since when the oldest of them is due, nanoseconds.
    pub fn backlog(&self) -> (u64, i64) {
        let now_ns = self.clock.now_ns();
        let queue = lock(&self.queue);
        let due_ns = queue.pending.next_due_ns().unwrap_or(i64::MAX);
        let taken = queue.taken.map_or(0, |(start, end)| (end - start) as u64);
        (queue.pending.buckets() + taken, now_ns.saturating_sub(due_ns).max(0))
    }

    /// What it did so far.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Ends the thread soon; a process that runs is killed, its bucket stays pending.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.changed.notify_all();
    }

    /// Computes buckets until the program is stopped.
    pub fn run(&self) {
        while !self.stopped.load(Relaxed) {
            let taken = self.take();
            match taken {
                Some(buckets) => self.compute(buckets),
                None => {
                    let queue = lock(&self.queue);
                    // The result says only whether the time is over.
                    drop(self.changed.wait_timeout(queue, TICK));
                }
            }
        }
    }

    fn take(&self) -> Option<(i64, i64)> {
        let now_ns = self.clock.now_ns();
        let mut queue = lock(&self.queue);
        // A stage that panicked may have left buckets behind.
        if let Some((start, end)) = queue.taken.take() {
            queue.pending.put_back(start, end, now_ns);
        }
        if queue.paused_until_ns > now_ns {
            return None;
        }
        queue.taken = queue.pending.take(now_ns, BUCKETS_MAX);
        queue.taken
    }

    fn compute(&self, buckets: (i64, i64)) {
        // Rows of lines that are read later replace those of lines that were read before, also if
        // another node stores them meanwhile.
        let revision = self.writer.next_revision();
        let computed = self.engine.compute(&self.compiled, buckets, &self.stopped);
        let failed = match computed {
            Ok(results) => self.keep(results, revision),
            Err(RunError::Cancelled) if self.stopped.load(Relaxed) => {
                (buckets.0..buckets.1).map(|bucket| (bucket, None)).collect()
            }
            Err(error) => {
                let message = format!("its lines could not be read: {error}");
                let all = buckets.0..buckets.1;
                all.map(|bucket| (bucket, Some((message.clone(), String::new())))).collect()
            }
        };
        self.settle(failed);
    }

    /// Stores the rows of buckets; returns those that failed, with message and stderr.
    fn keep(
        &self,
        results: Vec<BucketResult>,
        revision: u64,
    ) -> Vec<(i64, Option<(String, String)>)> {
        let mut failed = Vec::new();
        let mut lines = Vec::new();
        // Buckets whose rows are in `lines`, with their numbers of lines and rows.
        let mut written: Vec<(i64, u64, u64)> = Vec::new();
        for result in results {
            {
                let mut status = lock(&self.status);
                status.note_rejected(&result.rejected);
                status.sandbox = result.sandbox.or(status.sandbox.take());
            }
            let rows = match result.rows {
                Ok(rows) => rows,
                Err(_) if self.stopped.load(Relaxed) => {
                    failed.push((result.bucket, None));
                    continue;
                }
                Err(error) => {
                    failed.push((result.bucket, Some((error.to_string(), result.stderr))));
                    continue;
                }
            };
            let mut own = Vec::new();
            let bucket = BucketOf {
                program: &self.compiled.definition.name,
                start_ns: self.schedule.start_ns(result.bucket),
                width_s: self.compiled.definition.width_s,
                revision,
                is_of_run: false,
            };
            rows::write_bucket(&bucket, &rows, &mut own);
            if own.len() > ALONE_BYTES_MAX {
                let message = format!(
                    "its rows have {} bytes, more than the {ALONE_BYTES_MAX} that a bucket may have; group by fewer values",
                    own.len()
                );
                failed.push((result.bucket, Some((message, String::new()))));
                continue;
            }
            if lines.len() + own.len() > ALONE_BYTES_MAX {
                self.write(&mut lines, &mut written, &mut failed);
            }
            lines.append(&mut own);
            written.push((result.bucket, result.lines, rows.len() as u64));
        }
        self.write(&mut lines, &mut written, &mut failed);
        failed
    }

    fn write(
        &self,
        lines: &mut Vec<u8>,
        written: &mut Vec<(i64, u64, u64)>,
        failed: &mut Vec<(i64, Option<(String, String)>)>,
    ) {
        if lines.is_empty() {
            return;
        }
        match self.writer.write(lines) {
            Ok(()) => {
                let mut status = lock(&self.status);
                for (_, lines, rows) in &*written {
                    status.lines += lines;
                    status.rows += rows;
                    status.buckets += 1;
                }
                status.last_run_ns = Some(self.clock.now_ns());
                status.failures_in_a_row = 0;
                drop(status);
                let mut queue = lock(&self.queue);
                for (bucket, ..) in &*written {
                    queue.attempts.remove(bucket);
                }
            }
            Err(error) => {
                let message = format!("its rows could not be stored: {error}");
                let all = written.iter();
                failed.extend(
                    all.map(|(bucket, ..)| (*bucket, Some((message.clone(), String::new())))),
                );
            }
        }
        lines.clear();
        written.clear();
    }

    /// Puts the buckets that failed back; those without a message were not tried to their end.
    fn settle(&self, failed: Vec<(i64, Option<(String, String)>)>) {
        let now_ns = self.clock.now_ns();
        let mut queue = lock(&self.queue);
        queue.taken = None;
        let mut failures_in_a_row = 0;
        for (bucket, failure) in failed {
            let Some((message, stderr)) = failure else {
                queue.pending.put_back(bucket, bucket.saturating_add(1), now_ns);
                continue;
            };
            let room = queue.attempts.len() < ATTEMPTS_MAX;
            let attempts = match queue.attempts.get_mut(&bucket) {
                Some(attempts) => {
                    *attempts += 1;
                    *attempts
                }
                None => {
                    if room {
                        queue.attempts.insert(bucket, 1);
                    }
                    1
                }
            };
            let due_ns = now_ns.saturating_add(pause_ns(attempts, BUCKET_PAUSE_MAX_S));
            queue.pending.put_back(bucket, bucket.saturating_add(1), due_ns);
            let mut status = lock(&self.status);
            status.failures += 1;
            status.failures_in_a_row = status.failures_in_a_row.saturating_add(1);
            failures_in_a_row = status.failures_in_a_row;
            let bucket_ns = self.schedule.start_ns(bucket);
            let is_new = status.last_error.as_ref().is_none_or(|last| last.message != message);
            if is_new {
                let name = &self.compiled.definition.name;
                let bucket = query::time::format_time(bucket_ns);
                tracing::warn!("program {name}, bucket {bucket}: {message}");
            }
            status.last_error = Some(LastError { time_ns: now_ns, bucket_ns, message, stderr });
        }
        // A single bucket that fails delays no other one.
        if failures_in_a_row > 2 {
            queue.paused_until_ns =
                now_ns.saturating_add(pause_ns(failures_in_a_row - 2, PROGRAM_PAUSE_MAX_S));
        }
    }
}

/// One second, doubled with each attempt after the first.
fn pause_ns(attempts: u32, max_s: i64) -> i64 {
    let doubled = 1i64 << attempts.saturating_sub(1).min(20);
    doubled.min(max_s) * SECOND_NS
}
