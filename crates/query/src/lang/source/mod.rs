//! What a query reads: units of records, found by time. Implemented by the server over the store,
//! and by tests over a vector of records.

mod answers;
mod sides;

use std::sync::Arc;

use record::columns::Columns;
use record::{Batch, Frame, LineId};

use crate::base::{Phrases, SourceError, TimeRange, Whose};

pub use answers::Answers;
pub use sides::{Piece, Pieces, Share, Sides, Wanted};
pub(crate) use sides::{arrived, arrived_unit, misfit};

/// Where records come from. A query takes one snapshot of the units at its start and sees nothing
/// newer.
pub trait Source: Send + Sync {
    /// The units that may hold records of that range, newest first by [`ScanUnit::time_range_ns`]
    /// (units with unknown range first).
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError>;

    /// Where answers about single units are kept; none: nowhere.
    fn answers(&self) -> Option<&Answers> {
        None
    }

    /// The sides that have the lines, where these are on other nodes. Queries then read nothing
    /// from [`units`](Self::units).
    fn sides(&self) -> Option<&dyn Sides> {
        None
    }

    /// The records of the unit that holds a line, if it is there. Which row it is,
    /// [`record::Row::id`] says.
    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError>;
}

/// What lines are put together by, where counts are kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped<'a> {
    /// The fields whose values are told apart, stored ones; none: all lines are alike.
    pub fields: &'a [&'a str],
    /// Length and shift of the buckets of event time that are told apart, nanoseconds; none: all
    /// times are alike.
    pub bucket_ns: Option<(i64, i64)>,
    /// Event times of the lines that are counted.
    pub range: TimeRange,
}

/// Called with some instant of a bucket (nanoseconds since 1970 UTC), a value of each field, and
/// how many lines have all of that. The same ones may come several times.
pub type EachCount<'a> = &'a mut dyn FnMut(i64, &[&[u8]], u64);

/// Called with the columns of a unit.
pub type WithColumns<'a> = &'a mut dyn FnMut(&dyn Columns) -> Result<(), SourceError>;

/// Chooses lines of a frame by their places, rising; none: all of them.
pub type ChooseLines<'a> = &'a dyn Fn(&Frame) -> Option<Vec<u32>>;

/// Some lines of a unit.
pub struct SomeLines {
    /// Records, perhaps of more lines.
    pub batch: Arc<Batch>,
    /// Which of its rows they are, rising.
    pub rows: Vec<u32>,
}

/// Names a unit whose lines never change: the number of its segment, and its place there.
pub type UnitKey = (u64, u32);

/// A piece of the store that is read as a whole: a frame of a hot segment, a block of a sealed one.
pub trait ScanUnit: Send + Sync {
    /// Earliest and latest event time, both inclusive, when known without reading.
    fn time_range_ns(&self) -> Option<(i64, i64)>;
    /// Lines in it.
    fn lines(&self) -> u64;
    /// Bytes of its raw lines, for progress and cost.
    fn bytes(&self) -> u64;
    /// Its records; parsed on the fly when they are not in memory. None when it was deleted
    /// meanwhile by retention.
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError>;
    /// Some lines of a frame, chosen by `choose` from its text: those alone are parsed where none
    /// are yet. None where it is no frame, where `choose` gives none, or where it was deleted
    /// meanwhile: then it is to be [loaded](Self::load).
    fn load_lines(&self, _choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        Ok(None)
    }
    /// For each phrase whether some value of its lines may hold it; found out with less than
    /// reading it. None where that is not known.
    fn may_hold(&self, _phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        Ok(None)
    }
    /// Calls `with` with the columns of its lines. False, without a call, where there are none, or
    /// it was deleted meanwhile: then it is to be loaded.
    fn with_columns(&self, _with: WithColumns<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }
    /// What names it, where its lines are always the same: a block of a segment that never changes.
    fn key(&self) -> Option<UnitKey> {
        None
    }
    /// The segment that it is a part of, and how many units that has; none where counts are not
    /// kept with segments.
    fn segment(&self) -> Option<(u64, usize)> {
        None
    }
    /// Calls `each` with the counts that are kept of its whole segment, of lines in the range and
    /// of those that [`Source::units`] was asked for. False, without a call, when there are none of
    /// the kind.
    fn count_segment(
        &self,
        _grouped: Grouped<'_>,
        _each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        Ok(false)
    }
}
