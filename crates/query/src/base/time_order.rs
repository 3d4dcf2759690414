//! The order of rows by event time, and which lines an answer in that order covers.

use record::LineId;

/// Position of a row in the order of time: event time (nanoseconds since 1970 UTC), then line id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// Event time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// The line.
    pub id: LineId,
}

/// The lines that were in the store at one moment: those of all frames up to a sequence number of
/// that store, except the missing ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSet {
    /// The greatest sequence number that was in the store.
    pub through: u64,
    /// Smaller sequence numbers that were not in the store, ascending: their frames were on their
    /// way.
    pub missing: Vec<u64>,
}

impl LineSet {
    /// Whether the lines of a frame belong to the set.
    pub fn contains(&self, sequence: u64) -> bool {
        sequence <= self.through && self.missing.binary_search(&sequence).is_err()
    }
}

/// Which lines an answer in order of time covers. By default all lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeOrder {
    /// Only rows behind this one.
    pub after: Option<RowKey>,
    /// Only lines that were not in the store at that moment.
    pub since: Option<LineSet>,
    /// Only lines that were in the store at that moment.
    pub within: Option<LineSet>,
}

impl TimeOrder {
    /// Whether the row with this key is wanted; its line came in the frame numbered `sequence`.
    pub(crate) fn wants(&self, key: RowKey, sequence: u64) -> bool {
        self.after.is_none_or(|after| key > after)
            && self.within.as_ref().is_none_or(|set| set.contains(sequence))
            && self.since.as_ref().is_none_or(|set| !set.contains(sequence))
    }
}
