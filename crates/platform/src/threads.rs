//! A pool of threads for frequent and short work.
//!
//! Starting a thread takes a tenth of a millisecond, and a new thread has to allocate its memory.
//! So a thread that has finished its work waits for more: up to [`IDLE_MAX`] threads wait for
//! [`IDLE`], and the one that worked last is reused first. All have the priorities of one role
//! ([`crate::placement`]), which cannot be raised again.
//!
//! Left out: a limit on busy threads. The caller limits the amount of work.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

pub use crate::helpers::STACK_BYTES;
use crate::helpers::{self, REST};
use crate::placement::{self, Role};

/// Threads that wait for work; a further one ends when it has none.
pub const IDLE_MAX: usize = 16;
/// How long each of them waits.
pub const IDLE: Duration = Duration::from_secs(60);

type Work = Box<dyn FnOnce() + Send>;

/// Threads of one name and role.
pub struct Threads {
    name: &'static str,
    role: Role,
    /// Called by a thread and its helpers once they have been idle for [`REST`].
    at_rest: fn(),
    idle: Mutex<Vec<(ThreadId, Sender<Work>)>>,
}

impl Threads {
    /// Starts no thread yet. Each thread and its helpers call `at_rest` when they have been idle
    /// for [`REST`].
    pub const fn new(name: &'static str, role: Role, at_rest: fn()) -> Threads {
        Threads { name, role, at_rest, idle: Mutex::new(Vec::new()) }
    }

    /// Runs work on a waiting thread, or on a new one. A thread that panics ends. An error means
    /// that no thread can be started.
    pub fn run(&'static self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut work: Work = Box::new(work);
        while let Some((_, thread)) = self.take() {
            match thread.send(work) {
                Ok(()) => return Ok(()),
                // The thread panicked in `at_rest`.
                Err(unsent) => work = unsent.0,
            }
        }
        let named = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
        named.spawn(move || self.work(work, IDLE)).map(drop)
    }

    fn take(&self) -> Option<(ThreadId, Sender<Work>)> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(ThreadId, Sender<Work>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread, from its first work on.
    fn work(&self, first: Work, wait: Duration) {
        placement::enter(self.role);
        let (give, given) = channel();
        let mut next = Some(first);
        while let Some(work) = next {
            work();
            next = self.next(&give, &given, wait);
        }
    }

    /// The next work, if any arrives in time.
    fn next(&self, give: &Sender<Work>, given: &Receiver<Work>, wait: Duration) -> Option<Work> {
        let own = thread::current().id();
        {
            let mut idle = self.idle();
            if idle.len() >= IDLE_MAX {
                return None;
            }
            idle.push((own, give.clone()));
        }
        for (wait, is_last) in [(wait.min(REST), false), (wait.saturating_sub(REST), true)] {
            match given.recv_timeout(wait) {
                Ok(work) => return Some(work),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if is_last => {}
                Err(RecvTimeoutError::Timeout) => helpers::rest(self.at_rest),
            }
        }
        let waits = {
            let mut idle = self.idle();
            let before = idle.len();
            idle.retain(|(thread, _)| *thread != own);
            idle.len() < before
        };
        // Another thread has just taken this one and is about to give it work.
        if waits { None } else { given.recv().ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn threads_at_rest(at_rest: fn()) -> &'static Threads {
        Box::leak(Box::new(Threads::new("test", Role::Query, at_rest)))
    }

    fn threads() -> &'static Threads {
        threads_at_rest(|| ())
    }

    /// Waits until `count` threads are idle.
    fn until_idle(threads: &Threads, count: usize) {
        while threads.idle().len() != count {
            thread::yield_now();
        }
    }

    /// The thread that runs the work.
    fn thread_of(threads: &'static Threads) -> ThreadId {
        let (tell, told) = mpsc::channel();
        threads.run(move || tell.send(thread::current().id()).unwrap()).unwrap();
        told.recv().unwrap()
    }

    #[test]
    fn a_waiting_thread_is_reused() {
        let threads = threads();
        let first = thread_of(threads);
        until_idle(threads, 1);
        assert_eq!(thread_of(threads), first);
        until_idle(threads, 1);
        let (go, wait) = mpsc::channel::<()>();
        threads.run(move || _ = wait.recv()).unwrap();
        assert_ne!(thread_of(threads), first, "it is at work");
        until_idle(threads, 1);
        drop(go);
        until_idle(threads, 2);
        assert_eq!(thread_of(threads), first, "it worked last");
    }

    #[test]
    fn a_waiting_thread_rests_with_its_helpers() {
        static RESTED: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
        let threads = threads_at_rest(|| RESTED.lock().unwrap().push(thread::current().id()));
        let (tell, told) = mpsc::channel();
        let work = move || {
            let (helper, found) = mpsc::channel();
            helpers::with_helpers("test", 1, |scope| {
                scope.spawn(move |_| helper.send(thread::current().id()).unwrap());
            })
            .unwrap();
            tell.send([thread::current().id(), found.recv().unwrap()]).unwrap();
        };
        threads.run(work).unwrap();
        let both = told.recv().unwrap();
        while !both.iter().all(|id| RESTED.lock().unwrap().contains(id)) {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(thread_of(threads), both[0], "it goes on waiting");
    }

    #[test]
    fn few_wait() {
        let threads = threads();
        let waits: Vec<mpsc::Sender<()>> = (0..IDLE_MAX + 4)
            .map(|_| {
                let (go, wait) = mpsc::channel();
                threads.run(move || _ = wait.recv()).unwrap();
                go
            })
            .collect();
        drop(waits);
        until_idle(threads, IDLE_MAX);
        thread_of(threads);
        until_idle(threads, IDLE_MAX);
    }

    #[test]
    fn a_thread_that_waited_too_long_or_panicked_ends() {
        let threads = threads();
        let ended = thread::spawn(|| threads.work(Box::new(|| ()), Duration::ZERO));
        ended.join().unwrap();
        assert!(threads.idle().is_empty());
        let (hold, held) = mpsc::channel::<()>();
        threads
            .run(move || {
                let _hold = hold;
                panic!("a requested panic");
            })
            .unwrap();
        assert!(held.recv().is_err());
        let other = thread_of(threads);
        until_idle(threads, 1);
        assert_eq!(thread_of(threads), other);
    }
}
