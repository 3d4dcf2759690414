//! Helpers: worker threads that belong to one thread, which does one large piece of work after the
//! other, such as running queries or sealing segments.
//!
//! A thread keeps its helpers between pieces of work, because they start faster than new threads: a
//! new thread is often placed on the processor of the thread that started it, and stays there for
//! milliseconds. Kept helpers also reuse memory that the system gave them before. They end with the
//! thread that they help, and have its priorities (clone(2)) or lower ones ([`set_role`]).

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use rayon_core::Scope;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

use crate::placement::{self, Role};

/// Stack size of threads that parse, run and write queries. Recursion there is limited so that a
/// quarter of it is enough, as tests of `query` and `logql` show in unoptimised builds. Only the
/// used part of the stack takes memory.
pub const STACK_BYTES: usize = 4 << 20;
/// How long a thread that could not start helpers works alone before it tries again.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// How long a thread must be idle before it [rests](rest).
pub const REST: Duration = Duration::from_secs(1);

// Helpers belong to the thread that they help: no other thread may use or end them. So they and
// their settings are kept in that thread, and not passed through every call that may share work.
thread_local! {
    static REFUSED: Cell<Option<Instant>> = const { Cell::new(None) };
    static HELPERS: Cell<Option<ThreadPool>> = const { Cell::new(None) };
    static ROLE: Cell<Option<Role>> = const { Cell::new(None) };
}

/// Runs `work` on each helper of this thread, then on this thread. For threads that were idle for
/// [`REST`]: `work` returns memory to the system, since an allocator keeps for each thread what was
/// allocated on it, even if other threads have freed it.
pub fn rest(work: impl Fn() + Sync) {
    if let Some(helpers) = HELPERS.take() {
        helpers.broadcast(|_| work());
        HELPERS.set(Some(helpers));
    }
    work();
}

/// Sets the priorities of helpers that this thread starts from now on to those of a role, which
/// cannot be above its own.
pub fn set_role(role: Role) {
    ROLE.set(Some(role));
}

/// Runs `own` on this thread, in parallel with the jobs that it spawns on at most `count` helpers.
/// Returns when all have ended; a panic of a helper is resumed here. New helpers are named `name`
/// with a number. An error means that no thread can be started.
pub fn with_helpers<'s, R>(
    name: &'static str,
    count: usize,
    own: impl FnOnce(&Scope<'s>) -> R,
) -> io::Result<R> {
    // Taken out of the cell meanwhile, because `own` may need helpers, too.
    let kept = HELPERS.take().filter(|kept| kept.current_num_threads() >= count);
    let helpers = kept.map_or_else(|| start(name, count), Ok)?;
    let done = helpers.in_place_scope(own);
    HELPERS.set(Some(helpers));
    Ok(done)
}

fn start(name: &'static str, count: usize) -> io::Result<ThreadPool> {
    let named = ThreadPoolBuilder::new().thread_name(move |number| format!("{name}-{number}"));
    let role = ROLE.get();
    let placed = named.start_handler(move |_| {
        if let Some(role) = role {
            placement::enter(role);
        }
    });
    placed.num_threads(count).stack_size(STACK_BYTES).build().map_err(io::Error::other)
}

/// Runs `work` for each of `jobs`; returns the results in the order of the jobs. Each thread has
/// one of `states` (this thread the first, helpers the others) and takes the next job when it has
/// finished one. If helpers cannot be started, this thread works alone for a minute.
pub fn shared_out<S: Send, J: Sync, R: Send>(
    name: &'static str,
    states: &mut [S],
    jobs: &[J],
    work: impl Fn(&mut S, &J) -> R + Sync,
) -> Vec<R> {
    let (own, others) = states.split_first_mut().expect("this thread has one, too");
    let others = others.iter_mut().take(jobs.len().saturating_sub(1));
    let refused = REFUSED.get().is_some_and(|since| since.elapsed() < REFUSED_PAUSE);
    if others.len() == 0 || refused {
        return jobs.iter().map(|job| work(own, job)).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let take = |state: &mut S| {
        let mut made = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            made.push((index, work(state, job)));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
    };
    let helped = with_helpers(name, others.len(), |scope| {
        for state in others {
            scope.spawn(|_| take(state));
        }
        take(own);
    });
    if let Err(error) = helped {
        tracing::warn!(
            "{name}: working alone for a minute, since no thread can be started: {error}"
        );
        REFUSED.set(Some(Instant::now()));
        take(own);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread::current;

    use super::*;

    /// The threads that do `count` concurrent pieces of work.
    fn threads_of(count: usize) -> BTreeSet<String> {
        let (names, met) = (Mutex::new(BTreeSet::new()), Barrier::new(count + 1));
        let work = || {
            met.wait();
            names.lock().unwrap().insert(format!("{:?}", current().id()));
        };
        with_helpers("test", count, |scope| {
            (0..count).for_each(|_| scope.spawn(|_| work()));
            work();
        })
        .unwrap();
        names.into_inner().unwrap()
    }

    #[test]
    fn helpers_are_kept_and_more_are_started_if_needed() {
        let first = threads_of(2);
        assert_eq!(first.len(), 3);
        assert_eq!(threads_of(2), first);
        assert!(threads_of(1).is_subset(&first));
        let more = threads_of(5);
        assert_eq!(more.len(), 6);
        assert!(threads_of(2).is_subset(&more));
    }

    #[test]
    fn helpers_can_be_used_recursively() {
        with_helpers("test", 2, |scope| {
            (0..2).for_each(|_| scope.spawn(|_| assert_eq!(threads_of(2).len(), 3)));
            assert_eq!(threads_of(2).len(), 3);
        })
        .unwrap();
    }

    #[test]
    fn jobs_are_distributed_and_their_results_are_in_order() {
        for threads in 1..5 {
            for count in [0, 1, 2, 3, 100] {
                let jobs: Vec<usize> = (0..count).collect();
                let mut states = vec![0; threads];
                let made = shared_out("test", &mut states, &jobs, |done, job| {
                    *done += 1;
                    job * job
                });
                assert_eq!(made, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
                assert_eq!(states.iter().sum::<usize>(), count, "{threads} threads");
            }
        }
        let met = Barrier::new(3);
        shared_out("test", &mut [(); 3], &[(); 3], |(), ()| met.wait());
    }

    #[test]
    fn a_thread_without_helpers_works_alone_for_a_minute() {
        // Each waits for as many threads as should take part.
        let done_by = |threads: usize| {
            let (mut done, met) = ([0, 0], Barrier::new(threads));
            shared_out("test", &mut done, &[(); 2], |done, ()| {
                *done += 1;
                met.wait();
            });
            done
        };
        assert_eq!(done_by(2), [1, 1]);
        REFUSED.set(Some(Instant::now()));
        assert_eq!(done_by(1), [2, 0]);
        REFUSED.set(Instant::now().checked_sub(REFUSED_PAUSE));
        assert_eq!(done_by(2), [1, 1]);
    }

    #[test]
    fn a_panic_is_resumed_and_helpers_remain() {
        let met = Barrier::new(2);
        let panics = || {
            with_helpers("test", 1, |scope| {
                scope.spawn(|_| {
                    met.wait();
                    panic!("a requested panic")
                });
                met.wait();
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(threads_of(2).len(), 3);
    }
}
