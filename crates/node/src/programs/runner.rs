//! The thread of a program: waits until buckets are due, computes them, and stores their rows.
//!
//! A bucket that fails stays pending: it is tried again after a pause that doubles up to ten
//! minutes. When several buckets fail in a row, the program itself pauses, up to a minute, so that
//! one that always hangs does not take a processor.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use collector::ALONE_BYTES_MAX;
use platform::Clock;
use programs::BucketOutcome;
use query::RunError;

use super::compiled::Compiled;
use super::compute::{BUCKETS_MAX, Engine};
use super::pending::{Buckets, PendingBuckets};
use super::rows::{self, BucketOf};
use super::status::{LastError, Status};
use crate::process::stages::lock;
use crate::storage::row_store::RowStore;

/// The longest sleep, after which the thread checks whether it has to end.
const TICK: Duration = Duration::from_millis(500);
const SECOND_NS: i64 = 1_000_000_000;

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

    /// The time.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
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
    buckets: Buckets,
    pending: Mutex<PendingBuckets>,
    changed: Condvar,
    status: Mutex<Status>,
    /// Ends the thread, and the query that reads.
    stopped: Arc<AtomicBool>,
}

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
        let buckets = compiled.buckets();
        let mut pending = PendingBuckets::new(buckets, delay_s);
        let now_ns = clock.now_ns();
        for (start_ns, end_ns) in pending_ns {
            let last = buckets.at(end_ns.saturating_sub(1));
            pending.put_back(buckets.at(*start_ns), last.saturating_add(1), now_ns);
        }
        Runner {
            compiled,
            engine,
            writer,
            clock,
            buckets,
            pending: Mutex::new(pending),
            changed: Condvar::new(),
            status: Mutex::default(),
            stopped: Arc::default(),
        }
    }

    /// Notes lines with these event times, seconds since 1970 UTC, sorted.
    pub fn note(&self, seconds: impl Iterator<Item = i64>) {
        let now_ns = self.clock.now_ns();
        let mut pending = lock(&self.pending);
        let mut last = None;
        for second in seconds {
            let bucket = self.buckets.at(second.saturating_mul(SECOND_NS));
            if last.replace(bucket) != Some(bucket) {
                pending.note(bucket, now_ns);
            }
        }
    }

    /// Event times that are to be computed, nanoseconds since 1970 UTC: start, and the first
    /// instant behind.
    pub fn pending_ns(&self) -> Vec<(i64, i64)> {
        let start_ns = |bucket| self.buckets.start_ns(bucket);
        let pending = lock(&self.pending);
        pending.ranges().map(|(start, end)| (start_ns(start), start_ns(end))).collect()
    }

    /// Buckets that are to be computed, and since when the oldest of them is due, nanoseconds.
    pub fn backlog(&self) -> (u64, i64) {
        let now_ns = self.clock.now_ns();
        let pending = lock(&self.pending);
        let due_ns = pending.next_due_ns().unwrap_or(i64::MAX);
        (pending.count(), now_ns.saturating_sub(due_ns).max(0))
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
            let taken = lock(&self.pending).take(self.clock.now_ns(), BUCKETS_MAX);
            match taken {
                Some(buckets) => self.compute(buckets),
                None => {
                    let pending = lock(&self.pending);
                    // The result says only whether the time is over.
                    drop(self.changed.wait_timeout(pending, TICK));
                }
            }
        }
    }

    fn compute(&self, buckets: (i64, i64)) {
        // Rows of lines that are read later replace those of lines that were read before, also if
        // another node stores them meanwhile.
        let revision = self.writer.next_revision();
        let computed = self.engine.compute(&self.compiled, buckets, &self.stopped);
        let now_ns = self.clock.now_ns();
        let computed = computed.and_then(|mut outcomes| {
            let engine = &self.engine;
            let stay = engine.rows_that_stay(&self.compiled, buckets, now_ns, &self.stopped)?;
            for (bucket, _) in outcomes.extract_if(.., |one| stay.contains(&one.0)) {
                self.note_stayed(bucket);
            }
            Ok(outcomes)
        });
        let not_computed = match computed {
            Ok(outcomes) => self.keep(outcomes, revision),
            Err(RunError::Cancelled) if self.stopped.load(Relaxed) => {
                (buckets.0..buckets.1).map(|bucket| (bucket, None)).collect()
            }
            Err(error) => {
                let failure = Failure::new(format!("its lines could not be read: {error}"));
                (buckets.0..buckets.1).map(|bucket| (bucket, Some(failure.clone()))).collect()
            }
        };
        self.settle(not_computed);
    }

    /// Notes that late lines of a bucket are not counted. The log says so of ever fewer buckets.
    fn note_stayed(&self, bucket: i64) {
        lock(&self.pending).forget_failures(bucket);
        let mut status = lock(&self.status);
        status.stayed += 1;
        if status.stayed.is_power_of_two() {
            tracing::warn!(
                "program {}, bucket {}: its rows stay, and lines that came late are not in them, because retention or a \
                 deletion may have taken lines that they count; run the program over that time to count what is left \
                 ({} buckets since the program was started)",
                self.compiled.definition.name,
                text::time::format_time(self.buckets.start_ns(bucket)),
                status.stayed
            );
        }
    }

    /// Stores the rows of buckets; returns those that are to be computed again.
    fn keep(&self, outcomes: Vec<(i64, BucketOutcome)>, revision: u64) -> Vec<NotComputed> {
        let mut not_computed = Vec::new();
        let mut lines = Vec::new();
        // Buckets whose rows are in `lines`, with their numbers of lines and rows.
        let mut written: Vec<(i64, u64, u64)> = Vec::new();
        for (bucket, outcome) in outcomes {
            {
                let mut status = lock(&self.status);
                status.note_rejected(&outcome.rejected);
                status.sandbox = outcome.sandbox.or(status.sandbox.take());
            }
            let rows = match outcome.result {
                Ok(rows) => rows,
                Err(_) if self.stopped.load(Relaxed) => {
                    not_computed.push((bucket, None));
                    continue;
                }
                Err(error) => {
                    let failure = Failure { message: error.to_string(), stderr: outcome.stderr };
                    not_computed.push((bucket, Some(failure)));
                    continue;
                }
            };
            let mut own = Vec::new();
            let of = BucketOf {
                program: &self.compiled.definition.name,
                start_ns: self.buckets.start_ns(bucket),
                width_s: self.compiled.definition.width_s,
                revision,
                is_of_run: false,
                is_partial: self.buckets.start_ns(bucket.saturating_add(1)) > self.clock.now_ns(),
            };
            rows::write_bucket(&of, &rows, &mut own);
            if own.len() > ALONE_BYTES_MAX {
                let failure = Failure::new(format!(
                    "its rows have {} bytes, more than the {ALONE_BYTES_MAX} that a bucket may have; group by fewer values",
                    own.len()
                ));
                not_computed.push((bucket, Some(failure)));
                continue;
            }
            if lines.len() + own.len() > ALONE_BYTES_MAX {
                self.write(&mut lines, &mut written, &mut not_computed);
            }
            lines.append(&mut own);
            written.push((bucket, outcome.usage.lines_given(), rows.len() as u64));
        }
        self.write(&mut lines, &mut written, &mut not_computed);
        not_computed
    }

    fn write(
        &self,
        lines: &mut Vec<u8>,
        written: &mut Vec<(i64, u64, u64)>,
        not_computed: &mut Vec<NotComputed>,
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
                let mut pending = lock(&self.pending);
                for (bucket, ..) in &*written {
                    pending.forget_failures(*bucket);
                }
            }
            Err(error) => {
                let failure = Failure::new(format!("its rows could not be stored: {error}"));
                let all = written.iter();
                not_computed.extend(all.map(|(bucket, ..)| (*bucket, Some(failure.clone()))));
            }
        }
        lines.clear();
        written.clear();
    }

    /// Puts buckets back that are to be computed again.
    fn settle(&self, not_computed: Vec<NotComputed>) {
        let now_ns = self.clock.now_ns();
        // Held to the end, so that no checkpoint misses a bucket that is neither taken nor put
        // back.
        let mut pending = lock(&self.pending);
        pending.settle();
        let mut failures_in_a_row = 0;
        for (bucket, failure) in not_computed {
            let Some(Failure { message, stderr }) = failure else {
                pending.put_back(bucket, bucket.saturating_add(1), now_ns);
                continue;
            };
            pending.fail(bucket, now_ns);
            let mut status = lock(&self.status);
            status.failures += 1;
            status.failures_in_a_row = status.failures_in_a_row.saturating_add(1);
            failures_in_a_row = status.failures_in_a_row;
            let bucket_ns = self.buckets.start_ns(bucket);
            let is_new = status.last_error.as_ref().is_none_or(|last| last.message != message);
            if is_new {
                let name = &self.compiled.definition.name;
                let bucket = text::time::format_time(bucket_ns);
                tracing::warn!("program {name}, bucket {bucket}: {message}");
            }
            status.last_error = Some(LastError { time_ns: now_ns, bucket_ns, message, stderr });
        }
        // A single bucket that fails delays no other one.
        if failures_in_a_row > 2 {
            pending.pause(failures_in_a_row - 2, now_ns);
        }
    }
}

/// A bucket that is to be computed again, and why; without a reason, it was not tried to its end.
type NotComputed = (i64, Option<Failure>);

/// Why a bucket has no rows.
#[derive(Clone, Debug)]
struct Failure {
    message: String,
    /// The end of what the program wrote to stderr.
    stderr: String,
}

impl Failure {
    /// One that is not the fault of a process.
    fn new(message: String) -> Failure {
        Failure { message, stderr: String::new() }
    }
}
