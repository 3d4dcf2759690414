//! Sides: other nodes that have the lines of a source. Each carries out its [`Share`] of a query
//! and sends [`SharePiece`]s.
//!
//! Left out: how a query becomes shares, and how pieces become an answer (`dist`).

use std::sync::Arc;

use record::{Batch, read_rows};

use super::ScanUnit;
use crate::base::partial_state::wrong_state;
use crate::base::{Outcome, RowKey, RunError, SourceError, TimeRange, Whose};
use crate::lang::context::Context;

/// What a side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The partial state of the first pipe that is not row-wise, once.
    State,
    /// The newest rows, newest first, each with its key. All pipes are row-wise.
    NewestRows,
    /// All rows in order of time, each with its key. All pipes are row-wise.
    OrderedRows,
    /// The lines that the filter selects. There are no pipes.
    Lines,
}

/// The part of a query that one side carries out.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The query as text. Its times are absolute, and it has no queries in its filters.
    pub query: String,
    /// What is sent.
    pub wanted: Wanted,
    /// Event times that are read.
    pub range: TimeRange,
    /// Whose lines are read.
    pub whose: Whose,
    /// Most rows that are sent; for a partial state, the number of rows that the client wants.
    pub limit: Option<usize>,
    /// Read the oldest units first.
    pub oldest_first: bool,
    /// Only rows behind this one, where they come in order of time.
    pub after: Option<RowKey>,
    /// Computed fields that rows carry although they are hidden.
    pub include: Vec<String>,
}

/// Something that a side sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharePiece {
    /// A partial state.
    State(Vec<u8>),
    /// Rows, with their keys.
    Rows(Vec<u8>),
    /// Lines, with the farthest time that lines of later pieces can have: none newer, or, where the
    /// oldest are read first, none older. None: no more lines come.
    Lines(Vec<u8>, Option<i64>),
}

impl SharePiece {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            SharePiece::State(bytes) | SharePiece::Rows(bytes) | SharePiece::Lines(bytes, _) => {
                bytes.len()
            }
        }
    }
}

/// Sides that carry out shares.
pub trait Sides: Send + Sync {
    /// Begins a share on each side. `context` has the limits and receives the progress.
    ///
    /// Errors: a side is away, or refuses.
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError>;
}

/// The pieces of one share of all sides. Dropping it ends the share.
pub trait SharePieces {
    /// Number of sides.
    fn sides(&self) -> usize;

    /// Waits for the next piece of `side`, or, with none, of any side that has not ended. Returns
    /// the side and its piece; no piece: this side has ended. `check` is called now and then.
    ///
    /// Errors: those of a side and of `check`.
    fn next(
        &mut self,
        side: Option<usize>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(usize, Option<SharePiece>), RunError>;

    /// Ends the share of one side: nothing more is wanted of it.
    fn end(&mut self, side: usize);

    /// Counts what the sides did that have ended by themselves.
    fn outcome(&self) -> Outcome;
}

/// The error of a share that does not fit its query, or of a piece that does not fit its share.
pub(crate) fn misfit() -> RunError {
    wrong_state("the share does not fit its query")
}

/// Lines that arrived from a side.
struct Arrived(Arc<Batch>);

impl ScanUnit for Arrived {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    /// The side has counted them.
    fn bytes(&self) -> u64 {
        0
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// The lines of a piece as a unit, and the farthest time of later ones.
pub(crate) fn arrived(piece: &SharePiece) -> Result<(Box<dyn ScanUnit>, Option<i64>), RunError> {
    let SharePiece::Lines(bytes, rest_ns) = piece else { return Err(misfit()) };
    let batch = read_rows(bytes).map_err(|error| RunError::Failed(error.to_string()))?;
    Ok((arrived_unit(Arc::new(batch)), *rest_ns))
}

/// Lines of a side as a unit.
pub(crate) fn arrived_unit(batch: Arc<Batch>) -> Box<dyn ScanUnit> {
    Box::new(Arrived(batch))
}
