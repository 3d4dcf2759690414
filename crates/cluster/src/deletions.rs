//! Deletions of lines by a filter, as the catalog keeps them.
//!
//! A deletion covers the lines that a collector received before the deletion was requested,
//! wherever they are: in segments, in memory of a store, in the log, in a spool. Two times decide:
//! the arrival that a line carries, and the request by the catalog's clock. So whether a deletion
//! covers a line never changes, whichever node asks.
//!
//! From the transaction that adds it, a deletion is a *tombstone*: each snapshot has it, and
//! queries hide its lines. Frames lose the lines when they are sealed. Jobs search segments that
//! were published before and rewrite those that have such lines. The row of each segment says for
//! which deletions it was searched, so none is searched twice, and queries hide nothing in it any
//! more. Queries that read an older snapshot keep their answer.
//!
//! A deletion is done when all messages are published that the log had at the request, and all
//! segments are searched. It stays in force for lines that come late, for [`LATE`]; then its filter
//! is removed, since it may hold the very value that had to go.

use std::time::Duration;

/// Most deletions that run at a time. Further ones are refused: each segment is searched for all of
/// them.
///
/// limits.md, Nodes of a cluster: deletions that run | {} | further ones are refused
pub const DELETIONS_MAX: usize = 100;
/// Most deletions that hide lines at a time: those that run, and those that are done and still in
/// force for lines that come late. Further ones are refused: each snapshot of the catalog has all
/// of them.
///
/// limits.md, Nodes of a cluster: deletions in force | {} | further ones are refused, until one is
/// cancelled or its 30 days are over
pub const IN_FORCE_MAX: usize = 1000;
/// Most bytes of the filters of deletions in force. A deletion beyond it is refused: a query sends
/// these filters to the owners of partitions.
///
/// limits.md, Nodes of a cluster: bytes of the filters of all deletions in force | {} | further
/// deletions are refused, until one is cancelled or its 30 days are over
pub const IN_FORCE_BYTES_MAX: usize = 1 << 20;
/// Ended deletions that are still listed. Beyond this number the oldest whose filter is removed are
/// forgotten.
pub const DELETIONS_KEPT: usize = 100;
/// Time for which a deletion that is done stays in force for lines that come late. Lines that were
/// in a spool for longer come back.
pub const LATE: Duration = Duration::from_secs(30 * 86_400);
/// Longest text of a filter, bytes. Longer ones are refused.
///
/// limits.md, Nodes of a cluster: bytes of the filter of a deletion | {} | refused
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// A deletion that hides lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Grows with each deletion.
    pub id: u64,
    /// Selects the lines; a text that the catalog does not interpret.
    pub filter: String,
    /// When the deletion was requested, by the catalog's clock: nanoseconds since 1970 UTC. Lines
    /// that arrived later are not covered. Relative times in the filter refer to it.
    pub created_ns: i64,
}

/// The state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionState {
    /// Lines are hidden, and some are still in segments or in the log.
    Running,
    /// No segment has its lines any more.
    Done,
    /// It was cancelled: lines that are still there are seen again.
    Cancelled,
}

impl DeletionState {
    const ALL: [DeletionState; 3] =
        [DeletionState::Running, DeletionState::Done, DeletionState::Cancelled];

    /// Its name, for people and in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            DeletionState::Running => "running",
            DeletionState::Done => "done",
            DeletionState::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<DeletionState> {
        DeletionState::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A deletion with how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionRow {
    /// What it deletes. The filter is empty once it is removed.
    pub tombstone: Tombstone,
    /// Its state.
    pub state: DeletionState,
    /// When it ended, nanoseconds since 1970 UTC.
    pub finished_ns: Option<i64>,
    /// Lines that segments have lost by it. Those that were left out when frames were sealed are
    /// not counted.
    pub lines: u64,
    /// Segments that are to be searched, while it runs.
    pub segments_left: u64,
    /// Bytes of their objects.
    pub bytes_left: u64,
}

impl DeletionRow {
    /// Whether it hides lines.
    pub fn is_in_force(&self) -> bool {
        self.state != DeletionState::Cancelled && !self.tombstone.filter.is_empty()
    }
}

/// What the deletions take that the catalog has, before another one is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionsTaken {
    /// Those that run.
    pub running: usize,
    /// Those that hide lines, running ones included.
    pub in_force: usize,
    /// Bytes of their filters.
    pub bytes: usize,
}

impl DeletionsTaken {
    /// Whether there is room for one more deletion, with this filter.
    ///
    /// Errors: beyond a limit; the text says which one, and what to do.
    pub fn admit(&self, filter: &str) -> Result<(), String> {
        if self.running >= DELETIONS_MAX {
            return Err(format!(
                "{DELETIONS_MAX} deletions run; wait for one to end, or cancel one"
            ));
        }
        let remedy = "select several values with one filter, or cancel deletions that are done and whose lines \
                      no spool has any more";
        if self.in_force >= IN_FORCE_MAX {
            return Err(format!(
                "{IN_FORCE_MAX} deletions are in force, those included that are done and hide lines that come late for \
                 30 days; {remedy}"
            ));
        }
        if self.bytes.saturating_add(filter.len()) > IN_FORCE_BYTES_MAX {
            return Err(format!(
                "the filters of the deletions in force would have more than {IN_FORCE_BYTES_MAX} bytes, those of \
                 deletions included that are done and hide lines that come late for 30 days; {remedy}"
            ));
        }
        Ok(())
    }
}

/// All deletions, read in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    /// The time of the catalog, nanoseconds since 1970 UTC.
    pub now_ns: i64,
    /// The id of the last deletion, forgotten ones included; 0 before the first.
    pub last_id: u64,
    /// Deletions that run, and some that ended, by id.
    pub rows: Vec<DeletionRow>,
}

impl Deletions {
    /// Those that hide lines, by id.
    pub fn in_force(&self) -> impl Iterator<Item = &Tombstone> {
        self.rows.iter().filter(|row| row.is_in_force()).map(|row| &row.tombstone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_refused_beyond_each_limit() {
        let full = DeletionsTaken {
            running: DELETIONS_MAX - 1,
            in_force: IN_FORCE_MAX - 1,
            bytes: IN_FORCE_BYTES_MAX - 3,
        };
        assert_eq!(full.admit("abc"), Ok(()));
        let check = |taken: DeletionsTaken, filter: &str, expected: &str| {
            let refused = taken.admit(filter).unwrap_err();
            assert!(refused.contains(expected) && refused.contains("cancel"), "{refused}");
        };
        check(DeletionsTaken { running: DELETIONS_MAX, ..full }, "a", "deletions run");
        check(DeletionsTaken { in_force: IN_FORCE_MAX, ..full }, "a", "deletions are in force");
        check(full, "abcd", "bytes");
    }
}
