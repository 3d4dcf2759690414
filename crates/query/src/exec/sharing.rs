//! Work of one query, beyond reading, that is shared between threads.

use super::context::RunError;
use super::execution::ExecutionContext;
use super::meter::Meter;
use super::parallel::in_parallel;

/// What threads need to work for a query in parallel.
pub(crate) struct Sharing<'a> {
    pub(super) execution: ExecutionContext<'a>,
}

impl Sharing<'_> {
    /// Threads that the query may use.
    pub fn threads(&self) -> usize {
        self.execution.context.limits.threads.max(1)
    }

    /// A meter for one of the threads.
    pub fn meter(&self) -> Meter {
        self.execution.meter.clone()
    }

    /// Checks that the query may continue.
    pub fn check(&self) -> Result<(), RunError> {
        self.execution.check()
    }

    /// Does `work` with each share on a thread of its own, with the first share on this thread.
    /// Returns the error of the first share that has one. `work` must end soon after
    /// [`Sharing::check`] fails.
    pub fn each<S: Send>(
        &self,
        mut shares: impl Iterator<Item = S>,
        work: impl Fn(S) -> Result<(), RunError> + Sync,
    ) -> Result<(), RunError> {
        let Some(own) = shares.next() else { return Ok(()) };
        let work = &work;
        in_parallel(|| work(own), shares.map(|share| move || work(share)))
    }
}
