//! Rows of a background query, page by page: while it runs, and until it is deleted.
//!
//! A cursor is `RUN.ROW`. Another run has other rows, so a cursor is valid for its run only.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use query::QueryState;

use crate::queries::jobs::results::Results;
use crate::queries::jobs::{Job, JobError, Jobs};

/// Limit of the rows of a page.
pub const PAGE_ROWS_MAX: u64 = 10_000;
/// Limit of the bytes of a page; a longer row is a page of its own.
///
/// limits.md, Queries: pages of background results at a time | `query.pages_max`, 16, of {} | a
/// further page is refused with 429 (`loginson_result_pages_refused_total`)
const PAGE_BYTES_MAX: usize = 8 << 20;

/// A page of rows.
#[derive(Debug)]
pub struct Page {
    /// The rows, in the format of the query.
    pub bytes: Vec<u8>,
    /// Resumes behind these rows.
    pub cursor: String,
    /// Number of rows.
    pub rows: u64,
    /// Whether further rows exist already.
    pub more: bool,
    /// The state of the query, read before its rows: if it had ended and there are no more rows,
    /// this page completes them.
    pub state: QueryState,
    /// The format.
    pub format: String,
}

impl Jobs {
    /// Rows behind a cursor; the first rows without one.
    pub fn page(&self, id: u64, cursor: Option<&str>, rows_max: u64) -> Result<Page, JobError> {
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        let state = self.queue.get(id).ok_or(JobError::Unknown(id))?.state;
        // The lock of the record is held, so that the rows are those of this run.
        let record = job.record();
        let (run, format) = (record.run, record.submission.format.clone());
        let row = cursor.map_or(Ok(0), |cursor| row_of(cursor, run))?;
        let rows_max = rows_max.min(PAGE_ROWS_MAX);
        let results = self.results_of(&job, state)?;
        drop(record);
        let Some(results) = results else {
            let cursor = format!("{run}.{row}");
            return Ok(Page { bytes: Vec::new(), cursor, rows: 0, more: false, state, format });
        };
        let path = || Results::path(&self.dir, id);
        let page = results.page(row, rows_max, PAGE_BYTES_MAX);
        let (bytes, next) = page.map_err(|error| JobError::Disk { path: path(), error })?;
        let more = next < results.rows();
        let cursor = format!("{run}.{next}");
        Ok(Page { bytes, cursor, rows: next - row, more, state, format })
    }

    /// The rows of a query, if it has any; opens their file if needed.
    fn results_of(&self, job: &Job, state: QueryState) -> Result<Option<Arc<Results>>, JobError> {
        let mut open = job.results();
        if open.is_none() && state.is_ended() {
            let path = Results::path(&self.dir, job.id);
            let found = self.reopen(job, &path);
            *open = found.map_err(|error| JobError::Disk { path, error })?;
        }
        Ok(open.clone())
    }

    /// Opens an existing file of rows, without what a crash left behind the valid ones. The lock of
    /// the rows is held, so that the file is opened once: opening it again would cut off rows that
    /// are being written.
    pub(super) fn reopen(&self, job: &Job, path: &Path) -> io::Result<Option<Arc<Results>>> {
        let found = match Results::open(&*self.disk, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        job.bytes.store(found.bytes(), Relaxed);
        Ok(Some(Arc::new(found)))
    }
}

/// The row that a cursor of a run points at.
fn row_of(cursor: &str, run: u32) -> Result<u64, JobError> {
    let parts = cursor.split_once('.');
    let read = parts.and_then(|(of, row)| Some((of.parse::<u32>().ok()?, row.parse().ok()?)));
    match read {
        None => Err(JobError::Cursor(cursor.to_owned())),
        // No row was returned yet.
        Some((_, 0)) => Ok(0),
        Some((of, _)) if of != run => Err(JobError::EarlierRun),
        Some((_, row)) => Ok(row),
    }
}
