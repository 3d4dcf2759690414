//! Which lines a query reads: their event times, and whose they are.

/// Event times that a query asks for, nanoseconds since 1970 UTC: from `start_ns` to before
/// `end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First instant inside.
    pub start_ns: i64,
    /// First instant outside.
    pub end_ns: i64,
}

impl TimeRange {
    /// All times.
    pub const ALL: TimeRange = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };

    /// Whether an instant is inside. The last representable instant is inside a range without end.
    pub fn contains(&self, time_ns: i64) -> bool {
        self.start_ns <= time_ns && (time_ns < self.end_ns || self.end_ns == i64::MAX)
    }

    /// Whether any instant from `min_ns` to `max_ns`, both inclusive, is inside.
    pub fn overlaps(&self, min_ns: i64, max_ns: i64) -> bool {
        self.start_ns <= max_ns && (min_ns < self.end_ns || self.end_ns == i64::MAX)
    }

    /// Its length in seconds; none when it has no beginning or no end, or nothing is in it.
    pub fn seconds(&self) -> Option<f64> {
        let bounded = self.start_ns != i64::MIN && self.end_ns != i64::MAX;
        (bounded && self.start_ns < self.end_ns)
            .then(|| (i128::from(self.end_ns) - i128::from(self.start_ns)) as f64 / 1e9)
    }

    /// The instants in both.
    pub fn intersect(&self, other: TimeRange) -> TimeRange {
        TimeRange {
            start_ns: self.start_ns.max(other.start_ns),
            end_ns: self.end_ns.min(other.end_ns),
        }
    }
}

/// Whose lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Lines that were sent.
    Sent,
    /// Also lines that Loginson made itself: rows of the summary. For queries whose filter names
    /// them ([`crate::Filter::whose`]).
    All,
}
