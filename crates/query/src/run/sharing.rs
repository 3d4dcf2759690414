//! Work of one query that is shared between threads, beyond reading.

use std::time::Instant;

use super::context::{Context, RunError};
use super::meter::Meter;
use crate::source::SourceError;

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

    /// Does `work` with each share on a thread of that name and its number, with the first on this one. The error is that of the first
    /// share that has one; `work` ends soon where [`Sharing::check`] says so.
    pub fn each<S: Send>(
        &self,
        name: &str,
        mut shares: impl Iterator<Item = S>,
        work: impl Fn(S) -> Result<(), RunError> + Sync,
    ) -> Result<(), RunError> {
        let Some(own) = shares.next() else { return Ok(()) };
        let work = &work;
        side_by_side(name, || work(own), shares.map(|share| move || work(share)))
    }
}

/// Does each of `others` on a thread of that name and its number, and `own` on this one. The error is that of the first that has one;
/// where a thread cannot be started, that is the error, once those that were are done.
pub(crate) fn side_by_side<W>(
    name: &str,
    own: impl FnOnce() -> Result<(), RunError>,
    others: impl Iterator<Item = W>,
) -> Result<(), RunError>
where
    W: FnOnce() -> Result<(), RunError> + Send,
{
    std::thread::scope(|scope| {
        let start = |(number, work)| {
            let name = format!("{name}-{number}");
            std::thread::Builder::new().name(name).spawn_scoped(scope, work)
        };
        let others = others.enumerate().map(start).collect::<Result<Vec<_>, _>>();
        let others = others.map_err(|e| SourceError(format!("cannot start a thread: {e}")))?;
        let done = own();
        others.into_iter().fold(done, |done, other| match other.join() {
            Ok(other) => done.and(other),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
