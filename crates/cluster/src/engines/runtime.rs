//! The asynchronous runtime below the blocking calls.

use std::future::Future;
use std::time::Duration;

use crate::engines::error::{Error, ErrorKind};

/// How long the end of a runtime waits for work under way.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// A runtime with threads of its own. Dropping it ends them.
#[derive(Debug)]
pub struct Runtime {
    /// `None` while it is dropped.
    inner: Option<tokio::runtime::Runtime>,
}

impl Runtime {
    /// Starts `threads` threads named `name`.
    pub fn start(name: &str, threads: usize) -> Result<Runtime, Error> {
        let inner = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(|error| {
                let what = format!("the threads {name} cannot be started: {error}");
                Error::new(ErrorKind::Retriable, what, "raise the limit of threads (ulimit -u)")
            })?;
        Ok(Runtime { inner: Some(inner) })
    }

    /// Runs `future` to its end on this thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.inner.as_ref().expect("it is there until it is dropped").block_on(future)
    }

    /// Runs `future` on this thread, for at most `time_max`; `None` if it took longer.
    pub fn block_for<F: Future>(&self, time_max: Duration, future: F) -> Option<F::Output> {
        self.block_on(async { tokio::time::timeout(time_max, future).await.ok() })
    }

    /// Runs `future` in the background, for at most a second, and then ends the runtime. A runtime
    /// that is dropped within a task of another one must not block there.
    pub fn end_with<F: Future + Send + 'static>(mut self, future: F) {
        let inner = self.inner.take().expect("it is there until it is dropped");
        let end = move || {
            // What is not done within the time is given up with the runtime.
            let _ = inner.block_on(async { tokio::time::timeout(END_TIME_MAX, future).await });
            inner.shutdown_timeout(END_TIME_MAX);
        };
        if let Err(error) = std::thread::Builder::new().name("engine-end".to_owned()).spawn(end) {
            log::warn!("an engine ends without closing its connections: {error}");
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            inner.shutdown_background();
        }
    }
}
