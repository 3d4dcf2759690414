//! The open loop: operations are due at fixed moments, whether or not earlier ones were answered,
//! and latency is measured from the moment an operation was due, not from when a thread was free to
//! send it (no coordinated omission).
//!
//! A pacer releases operations when they are due, in order; the threads take them. At most as many
//! operations as there are threads are in flight; those that wait behind them are late, and the
//! delay is part of their latency. Operations that were due before the end of the measured time and
//! never sent are counted. Those that a store did not get to while it was warmed up are left out:
//! they would take the measured time of a store that is slower than the rate.
//!
//! The pacer sleeps on a thread of the system, whose timer is accurate to about 0.1 ms; that of the
//! runtime is accurate to 1 or 2 ms, which would be most of the latency of a fast store. With a
//! simulated clock it must be that of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant, sleep_until};

use super::ramp::Schedule;
use super::worker::{Shared, Worker};

/// Shortest sleep of the pacer: operations due within it are released together, so that high rates
/// do not occupy a processor.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// Longest sleep of the pacer: the delay until it notices the end of the trial.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The operations that are due.
pub struct Due {
    schedule: Schedule,
    released: Semaphore,
    taken: AtomicU64,
    released_count: AtomicU64,
    /// Threads that take operations.
    threads: AtomicU32,
}

/// The timer that releases operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// A thread of the system.
    System,
    /// The runtime's, for simulated clocks.
    Runtime,
}

impl Due {
    /// Nothing is released yet.
    pub fn new(schedule: Schedule, threads: u32) -> Due {
        Due {
            schedule,
            released: Semaphore::new(0),
            taken: AtomicU64::new(0),
            released_count: AtomicU64::new(0),
            threads: AtomicU32::new(threads),
        }
    }

    /// A thread has ended. After the last one the queue is closed, so that the pacer ends.
    fn left(&self) {
        if self.threads.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.close();
        }
    }

    /// Waits for the next due operation, and returns when it was due. `None` at the end of the
    /// trial.
    async fn take(&self) -> Option<Instant> {
        self.released.acquire().await.ok()?.forget();
        Some(self.schedule.due(self.taken.fetch_add(1, Ordering::Relaxed)))
    }

    /// No thread waits any more.
    pub fn close(&self) {
        self.released.close();
    }

    /// Number of operations that were due.
    pub fn scheduled(&self) -> u64 {
        self.released_count.load(Ordering::Relaxed)
    }

    /// Number of operations that were due and not taken.
    pub fn unsent(&self) -> u64 {
        self.scheduled().saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Releases operations due by `now` and before `until`; returns when the next is due, `None` at
    /// the end.
    fn release(&self, now: Instant, until: Option<Instant>) -> Option<Instant> {
        let before = self.released_count.load(Ordering::Relaxed);
        let mut count = before;
        loop {
            let due = self.schedule.due(count);
            let over = until.is_some_and(|until| due >= until);
            if over || due > now {
                self.released_count.store(count, Ordering::Relaxed);
                self.released.add_permits((count - before) as usize);
                return (!over).then_some(due);
            }
            count += 1;
        }
    }
}

/// Releases operations until the trial is over. The trial does not wait for the pacer to end, which
/// may sleep for [`SLEEP_MAX`] after the last answer.
pub async fn pace(shared: Arc<Shared>, due: Arc<Due>, timer: Timer) {
    let over = {
        let (shared, due) = (shared.clone(), due.clone());
        move || shared.halted.load(Ordering::Relaxed) || due.released.is_closed()
    };
    let until = shared.until;
    match timer {
        Timer::System => {
            let (due, over) = (due.clone(), over.clone());
            let work = move || {
                while !over() {
                    let now = Instant::now();
                    let Some(next) = due.release(now, until) else { break };
                    let wait = next.saturating_duration_since(now);
                    std::thread::sleep(wait.clamp(SLEEP_MIN, SLEEP_MAX));
                }
            };
            if let Err(panic) = tokio::task::spawn_blocking(work).await {
                shared.fail(super::panicked(panic));
            }
        }
        Timer::Runtime => {
            while !over() {
                let Some(next) = due.release(Instant::now(), until) else { break };
                sleep_until(next).await;
            }
        }
    }
    if let Some(until) = until
        && !over()
    {
        // Threads still take late operations until the end.
        sleep_until(until).await;
    }
    due.close();
}

/// Runs one thread until the end of the trial.
pub async fn run(worker: Worker, start: Instant, due: Arc<Due>) {
    sleep_until(start).await;
    let _at_work = super::AtWork::new(worker.shared.clone());
    send_when_due(worker, &due).await;
    due.left();
}

async fn send_when_due(mut worker: Worker, due: &Due) {
    while let Some(since) = due.take().await {
        let now = Instant::now();
        if since < worker.shared.measured_from && now >= worker.shared.measured_from {
            continue;
        }
        let Some(step) = worker.next(since, now) else {
            // The operation was due, and no thread sends it.
            due.taken.fetch_sub(1, Ordering::Relaxed);
            if !worker.finished() {
                due.close();
            }
            return;
        };
        if worker.shared.all_taken() {
            // The other threads need not wait for their turn: a delay may be counted from the last
            // answer on.
            due.close();
        }
        if worker.perform(step, since).await.is_break() {
            return;
        }
    }
}
