//! The threads of stages: a stage restarts after a panic and ends at shutdown.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use platform::pauses::PANIC_PAUSE;
use platform::placement::{self, Role};

/// Signals to the stages, and their counters.
#[derive(Default)]
pub struct Stages {
    /// The deadline for what arrived before the shutdown; `None` before the shutdown.
    drain_until: Mutex<Option<Instant>>,
    stopped: Mutex<bool>,
    /// Signalled when the stages are to end.
    changed: Condvar,
    panics: Arc<AtomicU64>,
}

impl Stages {
    /// Signals for some stages that end earlier than these; panics are counted together.
    pub fn beside(&self) -> Stages {
        Stages { panics: Arc::clone(&self.panics), ..Stages::default() }
    }

    /// Tells the parse stage to end when nothing is left, at the latest after `time`.
    pub fn drain(&self, time: Duration) {
        *lock(&self.drain_until) = Some(Instant::now() + time);
    }

    /// Whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        lock(&self.drain_until).is_some()
    }

    /// Whether the deadline is over, so that the rest of the work stays for the next start.
    pub fn is_drain_over(&self) -> bool {
        lock(&self.drain_until).is_some_and(|until| Instant::now() > until)
    }

    /// Tells the stages behind the parse stage to end.
    pub fn stop(&self) {
        *lock(&self.stopped) = true;
        self.changed.notify_all();
    }

    /// Waits for this time, or until the stages are to end.
    pub fn sleep(&self, time: Duration) {
        let stopped = lock(&self.stopped);
        let waited = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// Whether the stages are to end.
    pub fn is_stopped(&self) -> bool {
        *lock(&self.stopped)
    }

    /// Panics of stages since the start, without those caused by a single frame.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    /// Counts a panic of a thread that a stage has started and starts again.
    pub fn note_panic(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    /// Calls `stage` until it returns, or panics during the shutdown: then it is not repeated,
    /// because repeated panics would never end.
    pub fn run(&self, name: &str, mut stage: impl FnMut()) {
        while catch_unwind(AssertUnwindSafe(&mut stage)).is_err() {
            self.note_panic();
            if self.is_draining() {
                tracing::error!(
                    "a bug in the stage '{name}'; unfinished work is redone after the next start"
                );
                return;
            }
            tracing::error!("a bug in the stage '{name}', which restarts in a second");
            std::thread::sleep(PANIC_PAUSE);
        }
    }
}

/// The thread of a stage; it yields to threads that receive and store lines.
pub struct StageThread(Mutex<Option<JoinHandle<()>>>);

impl StageThread {
    /// Starts the thread of a stage.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<StageThread> {
        StageThread::start_as(Role::Parse, name, work)
    }

    /// Starts a thread with the priority of `role`.
    pub fn start_as(
        role: Role,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<StageThread> {
        let placed = move || {
            placement::enter(role);
            work();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(placed);
        Ok(StageThread(Mutex::new(Some(thread.context("cannot start a thread")?))))
    }

    /// Waits until it has ended.
    pub fn join(&self) {
        let handle = lock(&self.0).take();
        if handle.is_some_and(|handle| handle.join().is_err()) {
            tracing::error!(
                "a stage of the pipeline panicked; unfinished work is redone after the next start"
            );
        }
    }
}

/// A stage that panicked left each value in a valid state.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_with_the_stages() {
        let stages = Stages::default();
        std::thread::scope(|scope| {
            scope.spawn(|| stages.sleep(Duration::from_secs(100_000)));
            stages.stop();
        });
        assert!(stages.is_stopped());
    }

    #[test]
    fn a_stage_that_panics_during_the_shutdown_ends() {
        let stages = Stages::default();
        stages.drain(Duration::from_secs(60));
        stages.run("a test", || panic!("a test of what happens then"));
        assert_eq!(stages.panics(), 1);
        stages.run("a test", || {});
        assert_eq!(stages.panics(), 1);
        assert!(!stages.is_drain_over());
    }
}
