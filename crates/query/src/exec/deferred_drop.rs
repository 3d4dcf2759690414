//! Deferred drop: frees the memory of an ended query on another thread.
//!
//! A client that cancels a query waits for its end. Freeing millions of collected rows or values
//! takes a good part of a second, so a separate thread does it after the query has ended.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Less memory than this is freed on the calling thread, within a few milliseconds.
const DEFERRED_BYTES_MIN: u64 = 4 << 20;
/// Threads that free memory at the same time. Beyond it a query frees its memory before it ends.
const THREADS_MAX: usize = 4;
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Counts one running thread until it is dropped.
struct Turn(&'static AtomicUsize);

impl Turn {
    fn take(threads: &'static AtomicUsize) -> Option<Turn> {
        let more = |turns: usize| (turns < THREADS_MAX).then_some(turns + 1);
        threads.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Turn(threads))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Drops `collected`, which holds about `bytes`; on another thread if that is large.
pub(super) fn drop_deferred<T: Send + 'static>(collected: T, bytes: u64) {
    drop_by(&THREADS, collected, bytes);
}

fn drop_by<T: Send + 'static>(threads: &'static AtomicUsize, collected: T, bytes: u64) {
    if bytes < DEFERRED_BYTES_MIN {
        return;
    }
    let Some(turn) = Turn::take(threads) else { return };
    let work = move || {
        drop(collected);
        drop(turn);
    };
    // If no thread could be started, `collected` has been dropped here.
    let _ = std::thread::Builder::new().name("query-drop".to_owned()).spawn(work);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;

    /// Sends the id of the thread that drops it, and blocks that thread until it is released.
    struct Told(mpsc::Sender<ThreadId>, Option<mpsc::Receiver<()>>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(std::thread::current().id()).unwrap();
            self.1.take().map(|go| go.recv());
        }
    }

    #[test]
    fn much_is_dropped_later_by_few_threads() {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let own = std::thread::current().id();
        let (dropped, drops) = mpsc::channel();
        let told = |go| Told(dropped.clone(), go);
        drop_by(&THREADS, told(None), DEFERRED_BYTES_MIN - 1);
        assert_eq!(drops.recv().unwrap(), own, "little is dropped at once");
        let holds: Vec<mpsc::Sender<()>> = (0..THREADS_MAX)
            .map(|_| {
                let (hold, go) = mpsc::channel();
                drop_by(&THREADS, told(Some(go)), DEFERRED_BYTES_MIN);
                assert_ne!(drops.recv().unwrap(), own);
                hold
            })
            .collect();
        drop_by(&THREADS, told(None), DEFERRED_BYTES_MIN);
        assert_eq!(drops.recv().unwrap(), own, "all threads are at work");
        drop(holds);
        while THREADS.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        drop_by(&THREADS, told(None), DEFERRED_BYTES_MIN);
        assert_ne!(drops.recv().unwrap(), own);
    }
}
