//! Limits of the queue, and the errors for clients that exceed one.

use std::time::Duration;

/// Limits of the queue. Each comment says what happens beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Queries that run at once; further ones wait. `query.concurrent_max`.
    pub concurrent_max: usize,
    /// Queries that wait or are paused; further ones are refused. `query.waiting_max`.
    pub waiting_max: usize,
    /// Time that a query waits before it is refused; background queries wait without limit.
    /// `query.wait_max`.
    pub wait_max: Duration,
    /// Exports and background queries that run at once; further ones wait.
    /// `query.background_concurrent_max`.
    pub background_concurrent_max: usize,
    /// Exports and background queries that wait or are paused; further ones are refused.
    /// `query.background_waiting_max`.
    pub background_waiting_max: usize,
    /// Time that a query may be paused before it is ended, which frees its memory and files.
    /// `query.pause_max`.
    pub pause_max: Duration,
    /// Ended queries that stay in the list, besides background queries; older ones are removed.
    pub finished_kept: usize,
    /// Live tails that run at once; further ones are refused. `query.tails_max`.
    pub tails_max: usize,
    /// How long a query runs before one that waits may have its place; it then waits for its next
    /// turn. So a short query does not wait for the end of long ones.
    pub turn: Duration,
}

impl QueueLimits {
    /// Queries that have begun and not ended, whether they have a turn or not; further ones wait to
    /// begin, since each may hold memory.
    ///
    /// limits.md, Queries: queries that take turns | four for each of `query.concurrent_max`;
    /// seven eighths of them for one user or address | further ones wait until one has ended
    pub(super) fn begun_max(&self) -> usize {
        self.concurrent_max.saturating_mul(4)
    }
}

/// What one user or address may have of `whole`: the rest is for others.
///
/// limits.md, Queries: share of one user or address | seven eighths of `query.waiting_max`,
/// `query.background_waiting_max` and `query.tails_max` | refused; others still get in
pub(super) fn share_of_one(whole: usize) -> usize {
    whole - whole / 8
}

/// The defaults of the configuration (`docs/configuration.md`).
impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits {
            concurrent_max: 4,
            waiting_max: 32,
            wait_max: Duration::from_secs(10),
            background_concurrent_max: 2,
            background_waiting_max: 32,
            pause_max: Duration::from_secs(3600),
            finished_kept: 100,
            tails_max: 100,
            turn: Duration::from_secs(1),
        }
    }
}

/// Why a query got no place. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// Too many queries wait already.
    #[error(
        "{0} queries wait already; try again later, or raise query.waiting_max or query.concurrent_max"
    )]
    Full(usize),
    /// No place became free in time.
    #[error(
        "no place for the query became free in {0} s; try again later, or raise query.concurrent_max or \
         query.wait_max"
    )]
    WaitedTooLong(u64),
    /// Too many exports and background queries wait already.
    #[error(
        "{0} exports and background queries wait or are paused already; try again later, cancel some, or raise \
         query.background_waiting_max or query.background_concurrent_max"
    )]
    BackgroundFull(usize),
    /// No place for an export became free in time.
    #[error(
        "no place for the export became free in {0} s; try again later, ask for it in the background, or raise \
         query.background_concurrent_max or query.wait_max"
    )]
    ExportWaitedTooLong(u64),
    /// The query was paused while it waited, and not resumed in time.
    #[error("it was paused for longer than query.pause_max, {0} s")]
    PausedTooLong(u64),
    /// Too many live tails run already.
    #[error("{0} live tails run already; close one, or raise query.tails_max")]
    TailsFull(usize),
    /// One user or address has its share already.
    #[error(
        "{0} {1} of this user or address wait or run already, which is the share of one; end some, or raise {2}"
    )]
    ShareTaken(usize, &'static str, &'static str),
    /// One user or address has all that its limits let it have.
    #[error(
        "{0} {1} of this user or address wait or run already, which is its limit; end some, or raise {2} of the user, \
         or in [limits.users]"
    )]
    OwnLimit(usize, &'static str, &'static str),
    /// The places that are left are for operators.
    #[error(
        "{0} {1} wait or run already, and the places that are left are for operators; try again later, or raise {2}"
    )]
    KeptForOperators(usize, &'static str, &'static str),
    /// The query was cancelled while it waited.
    #[error("the query was cancelled while it waited")]
    Cancelled,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Closed,
}
