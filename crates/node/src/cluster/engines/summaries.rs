//! The summary of a cluster: rows that count the lines of a segment are in the segment itself, so
//! each line counts as often as it is there, whatever is sealed again, merged or dropped. Rows of
//! frames that are in no segment yet are made when they are asked for.

use std::sync::Arc;

use programs::summary::{SUMMARY_TYPE, Summariser, SummaryConfig, SummaryRow, stored_rows};
use query::source::{Source, TimeRange, Whose};
use query::{Context, RunError, Share, SharePiece, SharePieces, Wanted};
use record::{Batch, FrameBuilder, read_rows};

use crate::storage::stored::Parsers;

/// Makes rows of lines.
pub struct RowMaker<'a> {
    /// How lines are summarised.
    pub config: &'a SummaryConfig,
    /// Parses the rows.
    pub parsers: &'a Parsers,
    /// The node that the rows are named after.
    pub node: u32,
    /// The number of the first frame of rows. On one node, other frames of rows have others.
    pub number: u64,
}

impl RowMaker<'_> {
    /// The rows of some batches.
    pub fn rows(&self, batches: &[Arc<Batch>], now_ns: i64) -> Vec<Arc<Batch>> {
        let mut summariser = Summariser::new(self.config.clone(), None);
        let mut made = Vec::new();
        for (position, batch) in (1..).zip(batches) {
            summariser.observe(batch, position, now_ns);
            self.flush(&mut summariser, now_ns, false, &mut made);
        }
        self.flush(&mut summariser, now_ns, true, &mut made);
        made
    }

    fn flush(
        &self,
        summariser: &mut Summariser,
        now_ns: i64,
        force: bool,
        made: &mut Vec<Arc<Batch>>,
    ) {
        let Some(flush) = summariser.flush(now_ns, force) else { return };
        let mut builder = FrameBuilder::new();
        builder.push_lines(&flush.origin(), now_ns, &flush.lines);
        if let Some(frame) = builder.finish(self.node, self.number + made.len() as u64) {
            made.push(Arc::new(self.parsers.parse(Arc::new(frame))));
        }
        summariser.settled(flush.through);
    }
}

/// The rows of a cluster whose buckets begin in a range, nanoseconds since 1970 UTC.
///
/// Errors: the nodes cannot answer.
pub fn read(
    source: &dyn Source,
    log_type: Option<&str>,
    range: TimeRange,
    context: &Context,
) -> Result<Vec<SummaryRow>, RunError> {
    let sides = source.sides().expect("a cluster has sides");
    let share = share_of_rows(range);
    let mut rows = collect(&mut *sides.begin(&share, context)?, context)?;
    if let Some(log_type) = log_type {
        rows.retain(|row| row.summary_of == log_type);
    }
    Ok(rows)
}

/// A share that answers with the rows of the summary whose buckets begin in a range.
pub fn share_of_rows(range: TimeRange) -> Share {
    Share {
        query: format!("_type:={SUMMARY_TYPE:?} summary_of:*"),
        wanted: Wanted::Lines,
        range,
        whose: Whose::All,
        limit: None,
        oldest_first: false,
        after: None,
        include: Vec::new(),
    }
}

/// The rows of the summary among the lines of an answer.
///
/// Errors: a node failed, or the query has to stop.
pub fn collect(
    pieces: &mut dyn SharePieces,
    context: &Context,
) -> Result<Vec<SummaryRow>, RunError> {
    let mut rows = Vec::new();
    let begun = std::time::Instant::now();
    let check = || context.check(begun);
    let mut open = pieces.sides();
    while open > 0 {
        match pieces.next(None, &check)? {
            (_, None) => open -= 1,
            (_, Some(SharePiece::Lines(lines, _))) => {
                let batch =
                    read_rows(&lines).map_err(|error| RunError::Failed(error.to_string()))?;
                rows.extend(stored_rows(&batch, Some(u64::MAX)));
            }
            (_, Some(_)) => return Err(RunError::Failed("a node answers something else".into())),
        }
    }
    Ok(rows)
}
