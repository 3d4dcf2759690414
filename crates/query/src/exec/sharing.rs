//! Work of one query that is shared between threads, beyond reading.

use super::context::RunError;
use super::execution::ExecutionContext;
use super::meter::Meter;
use super::parallel::in_parallel;

/// What threads need that work for a query in parallel.
pub(crate) struct Sharing<'a> {
    pub(super) execution: ExecutionContext<'a>,
}

impl Sharing<'_> {
    /// How many threads the query may have.
    pub fn threads(&self) -> usize {
        self.execution.context.limits.threads.max(1)
    }

    /// What counts the memory, for one of them.
    pub fn meter(&self) -> Meter {
        self.execution.meter.clone()
    }

    /// Whether the query may go on.
    pub fn check(&self) -> Result<(), RunError> {
        self.execution.check()
    }

    /// Does `work` with each share on a thread of its own, with the first on this one. The error is
    /// that of the first share that has one; `work` ends soon where [`Sharing::check`] says so.
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
