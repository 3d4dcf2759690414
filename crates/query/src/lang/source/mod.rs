//! What a query reads: units of records, found by time. Implemented by the server over the store,
//! and by tests over a vector of records.

mod answers;
mod hiding;
mod revisions;
mod sides;
mod tables;

use std::sync::Arc;

use record::columns::Columns;
use record::{Batch, Frame, LineId, Tenant};

use crate::base::{DamagedUnit, Phrases, SourceError, TimeRange, Whose};

pub use answers::Answers;
pub use hiding::Hiding;
pub use revisions::{Revision, Revisions};
pub use sides::{Share, SharePiece, SharePieces, Sides, Wanted};
pub(crate) use sides::{arrived, arrived_unit, misfit};
pub use tables::{Table, Tables};

/// The lines that queries read. A query takes one snapshot of the units at its start and sees
/// nothing newer.
pub trait Source: Send + Sync {
    /// The units that may hold records of that range, newest first by [`ScanUnit::time_range_ns`]
    /// (units with unknown range first).
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError>;

    /// The cache of answers about single units; none if there is no cache.
    fn answers(&self) -> Option<&Answers> {
        None
    }

    /// The sides that have the lines, where these are on other nodes. Queries then read nothing
    /// from [`units`](Self::units).
    fn sides(&self) -> Option<&dyn Sides> {
        None
    }

    /// Says which rows of programs count; none: all of them, or each side says it for its own.
    fn revisions(&self) -> Option<Arc<dyn Revisions>> {
        None
    }

    /// The tables that queries of these lines look values up in; none: there are none here.
    fn tables(&self) -> Option<Arc<dyn Tables>> {
        None
    }

    /// The records of the unit that holds a line, if the line exists. The row is the one with this
    /// [`record::Row::id`].
    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError>;
}

/// How lines are grouped where segments keep counts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped<'a> {
    /// The stored fields whose values distinguish groups; with none, all lines are one group.
    pub fields: &'a [&'a str],
    /// Length and shift of the buckets of event time that distinguish groups, nanoseconds; none:
    /// times do not distinguish groups.
    pub bucket_ns: Option<(i64, i64)>,
    /// Event times of the lines that are counted.
    pub range: TimeRange,
}

/// Called with some instant of a bucket (nanoseconds since 1970 UTC), a value of each field, and
/// the number of lines with these. The same bucket and values may come several times.
pub type EachCount<'a> = &'a mut dyn FnMut(i64, &[&[u8]], u64);

/// Called with the columns of a unit.
pub type WithColumns<'a> = &'a mut dyn FnMut(&dyn Columns) -> Result<(), SourceError>;

/// Chooses lines of a frame: their indexes, ascending; none: all lines.
pub type ChooseLines<'a> = &'a dyn Fn(&Frame) -> Option<Vec<u32>>;

/// Some lines of a unit.
pub struct SomeLines {
    /// Records, which may include further lines.
    pub batch: Arc<Batch>,
    /// The indexes of the chosen rows in the batch, ascending.
    pub rows: Vec<u32>,
}

/// Identifies a unit whose lines never change: the number of its segment, and its index there.
pub type UnitKey = (u64, u32);

/// A part of the store that is read as a whole: a frame of a hot segment, or a block of a sealed
/// one.
pub trait ScanUnit: Send + Sync {
    /// Earliest and latest event time, both inclusive, when known without reading.
    fn time_range_ns(&self) -> Option<(i64, i64)>;
    /// Number of lines in the unit.
    fn lines(&self) -> u64;
    /// Whether a query sees exactly as many lines as [`lines`](Self::lines) says; if not, some of
    /// them are hidden from it.
    fn are_lines_exact(&self) -> bool {
        true
    }
    /// Bytes of the raw lines in the unit, for progress and cost.
    fn bytes(&self) -> u64;
    /// The records of the unit, which are parsed now if they are not in memory. None if retention
    /// has deleted the unit.
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError>;
    /// The lines of a frame that `choose` selects by its text. Only these lines are parsed, if the
    /// frame is not parsed yet. None if the unit is not a frame, if `choose` gives none, or if the
    /// unit was deleted; the caller then has to [load](Self::load) it.
    fn load_lines(&self, _choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        Ok(None)
    }
    /// The event times of all lines, in any order, where finding them takes far less than loading
    /// the unit. None if it does not, or if the unit is not a frame or was deleted; the caller then
    /// has to [load](Self::load) it.
    fn times_ns(&self) -> Result<Option<Vec<i64>>, SourceError> {
        Ok(None)
    }
    /// For each phrase, whether a value in the unit may hold it, found out without reading the
    /// unit. None if that is not known.
    fn may_hold(&self, _phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        Ok(None)
    }
    /// Whose lines the unit holds, where all are those of one tenant and that is known without
    /// reading them.
    fn tenant(&self) -> Option<Tenant> {
        None
    }
    /// Calls `with` with the columns of the unit. False, without a call, if it has no columns or
    /// was deleted; the caller then has to load it.
    fn with_columns(&self, _with: WithColumns<'_>) -> Result<bool, SourceError> {
        Ok(false)
    }
    /// What is damaged in the unit, once that is known: after reading it failed for this reason, or
    /// from an earlier read. A query then reads the other units, or ends with an error that says
    /// what is missing. None: the unit is not known to be damaged.
    fn damage(&self) -> Option<DamagedUnit> {
        None
    }
    /// Identifies the unit, if its lines never change: a block of a sealed segment, or a durable
    /// frame.
    fn key(&self) -> Option<UnitKey> {
        None
    }
    /// The number of its segment, and the number of units in that segment; none if segments keep no
    /// counts.
    fn segment(&self) -> Option<(u64, usize)> {
        None
    }
    /// Calls `each` with the counts that are kept of the whole segment of the unit. They count the
    /// lines in the range, of the [`Whose`] that [`Source::units`] was called with. False, without
    /// a call, if no such counts are kept.
    fn count_segment(
        &self,
        _grouped: Grouped<'_>,
        _each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        Ok(false)
    }
}
