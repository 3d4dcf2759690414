//! Work of one query that is shared between threads, beyond reading.

use std::time::Instant;

use super::context::{Context, RunError};
use super::meter::Meter;
use super::parallel::in_parallel;

/// What threads need that work for a query side by side.
pub(crate) struct Sharing<'a> {
    pub(super) context: &'a Context,
    pub(super) started: Instant,
    pub(super) meter: Meter,
}

impl Sharing<'_> {
    /// How many threads the query may have.
    pub fn threads(&self) -> usize {
        self.context.limits.threads.max(1)
    }

    /// What counts the memory, for one of them.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Whether the query may go on.
    pub fn check(&self) -> Result<(), RunError> {
        self.context.check(self.started)
    }

    /// Does `work` with each share on a thread of its own, with the first on this one. The error is that of the first
    /// share that has one; `work` ends soon where [`Sharing::check`] says so.
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
