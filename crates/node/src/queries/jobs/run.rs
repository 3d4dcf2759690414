//! Runs one background query, from its slot in the queue to its end.
//!
//! However it ends, even by a panic, its record says so before the queue does.

use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use platform::memory::Purpose;
use query::source::TimeRange;
use query::{
    Account, Context, Meter, Permit, Pipe, Progress, Query, QueryInfo, QueryState, QueueError,
    RowKey, RunError, Ticket, TimeOrder,
};

use crate::queries::export::{self, ColumnsError, EncodeError, Encoder, Format};
use crate::queries::jobs::record::{Done, Submission};
use crate::queries::jobs::results::{ResultRows, Results};
use crate::queries::jobs::{Job, Jobs, now_ns, parse};

/// Bytes of rows that are written together.
const BLOCK_BYTES: usize = 256 << 10;
/// Age at which fewer rows are written too, so that clients can see them; checked when further rows
/// arrive.
const BLOCK_AGE: Duration = Duration::from_millis(200);

/// Why a background query ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Run(RunError),
    #[error(
        "the query took longer than {0} s; narrow its time range or filter, or raise its timeout or query.background_run_max"
    )]
    TimeLimit(f64),
    #[error(
        "the results exceed {0} bytes; narrow the query or select fewer fields, or raise query.result_bytes_max"
    )]
    ResultBytes(u64),
    #[error(
        "the results of all background queries exceed {0} bytes; delete some, or raise \
         query.result_bytes_total_max"
    )]
    TotalBytes(u64),
    #[error("the disk has less than {0} bytes free, which store.disk_free_bytes_min reserves")]
    DiskNearlyFull(u64),
    #[error("cannot store the results: {0}")]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("{0}")]
    Columns(String),
    #[error(
        "{0}; this is the limit {1} of this user or address, which an administrator may raise for the \
         user, or in [limits.users]"
    )]
    Own(RunError, &'static str),
    #[error(
        "{0}; this is query_memory_bytes_max of the tenant in [[tenants]], which an administrator may raise"
    )]
    Tenant(RunError),
    #[error("the query cannot be parsed any more: {0}")]
    Parse(String),
    #[error("the query ended because of a bug; see the server's log")]
    Bug,
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::TimeLimit(seconds) => Failure::TimeLimit(seconds),
            error => Failure::Run(error),
        }
    }
}

/// The failure of a query; a limit of its user, or of its tenant, is named as one.
fn named(failure: Failure, submission: &Submission) -> Failure {
    let own = &submission.own;
    let seconds = own.run_ms.map(|ms| Duration::from_millis(ms).as_secs_f64());
    match failure {
        Failure::TimeLimit(most) if seconds == Some(most) => {
            Failure::Own(RunError::TimeLimit(most), "run_max")
        }
        Failure::Run(RunError::MemoryLimit(most)) if own.memory_bytes == Some(most) => {
            Failure::Own(RunError::MemoryLimit(most), "memory_bytes_max")
        }
        Failure::Run(RunError::MemoryLimit(most)) if submission.memory_bytes_max == Some(most) => {
            Failure::Tenant(RunError::MemoryLimit(most))
        }
        // A run that continues has what the runs before it left of the rows.
        Failure::Run(RunError::RowLimit(left)) => {
            Failure::Own(RunError::RowLimit(own.rows.unwrap_or(left)), "rows_max")
        }
        failure => failure,
    }
}

/// Whether a query's rows are in the order of time, so that it can resume behind the last one.
pub fn continues(submission: &Submission) -> bool {
    submission.limit.is_none()
        && parse(submission).is_ok_and(|query| query.pipes().iter().all(Pipe::is_row_wise))
}

impl Jobs {
    /// The work of the thread of a query.
    pub(super) fn run(&self, job: &Job, ticket: Ticket) {
        let permit = match ticket.wait() {
            Ok(permit) => permit,
            // Its record says that it waits or is paused.
            Err(QueueError::Closed) => return,
            Err(error @ QueueError::PausedTooLong(_)) => {
                self.end(job, QueryState::Interrupted, Some(error.to_string()), None);
                return;
            }
            Err(error) => {
                self.end(job, QueryState::Cancelled, Some(error.to_string()), None);
                return;
            }
        };
        let outcome = unless_it_panics(|| self.try_run(job, &permit));
        let outcome = outcome.map_err(|failure| named(failure, &job.record().submission));
        let (state, error) = match outcome {
            Ok(()) => (QueryState::Done, None),
            Err(Failure::Run(RunError::Cancelled)) if self.queue.is_closed() => {
                (QueryState::Interrupted, Some("the server ended".to_owned()))
            }
            Err(Failure::Run(RunError::Cancelled)) if permit.hold.expired() => {
                let why = "it was paused for longer than query.pause_max".to_owned();
                (QueryState::Interrupted, Some(why))
            }
            Err(Failure::Run(RunError::Cancelled)) => (QueryState::Cancelled, None),
            Err(failure) => (QueryState::Failed, Some(failure.to_string())),
        };
        self.end(job, state, error.clone(), self.queue.get(job.id));
        permit.finish(state, error);
    }

    /// Records how the query ended.
    fn end(&self, job: &Job, state: QueryState, error: Option<String>, info: Option<QueryInfo>) {
        self.ended[state as usize].fetch_add(1, Relaxed);
        let rows = job.results().as_ref().map(|results| results.rows());
        let mut record = job.record();
        record.state = state.name().into();
        record.error = error;
        record.ended_ns = Some(now_ns());
        record.done.rows = rows.unwrap_or(record.done.rows);
        if let Some(info) = info {
            record.done = Done {
                wait_ms: info.wait.as_millis() as u64,
                run_ms: info.run.as_millis() as u64,
                rows: record.done.rows,
                blocks_planned: info.blocks_planned,
                blocks_done: info.blocks_done,
                bytes_planned: info.bytes_planned,
                bytes_scanned: info.bytes_scanned,
                lines_scanned: info.lines_scanned,
            };
        }
        if let Some(told) = self.told.get() {
            told(&record.submission, &record.done);
        }
        if let Err(error) = self.write(job, &record) {
            tracing::warn!(
                "query {} is {}, but that cannot be stored: {error}",
                job.id,
                state.name()
            );
        }
    }

    fn try_run(&self, job: &Job, permit: &Permit) -> Result<(), Failure> {
        let started = Instant::now();
        let submission = job.record().submission.clone();
        let query = parse(&submission).map_err(|error| Failure::Parse(error.message))?;
        let format = format(&submission.format);
        let in_order = continues(&submission);
        let mut limits = self.limits().1;
        let most = [submission.memory_bytes_max, submission.own.memory_bytes];
        for bytes in most.into_iter().flatten() {
            limits.memory_bytes_max = limits.memory_bytes_max.min(bytes);
        }
        let (results, first_run) = self.open_results(job, in_order)?;
        // Only the bytes of results limit the rows of a query whose user has no limit.
        let kept = results.rows();
        let rows_max = submission.own.rows.map_or(u64::MAX, |most| most.saturating_sub(kept));
        let mut order = None;
        if in_order {
            let within = job.record().within.clone();
            let within = within.map(Into::into).or_else(|| self.lines.lines_now());
            order = Some(TimeOrder { after: results.last_key(), since: None, within });
        }
        let mut context = Context {
            range: TimeRange { start_ns: submission.start_ns, end_ns: submission.end_ns },
            limit: submission.limit,
            include: export::fields(format, submission.include.clone()),
            limits: query::Limits {
                run_time: Duration::from_millis(submission.run_time_ms),
                rows_max,
                ..limits
            },
            order,
            progress: Arc::new(Progress::default()),
            cancelled: Arc::clone(&permit.cancelled),
            hold: permit.hold.clone(),
            account: Account::new(&self.memory, Purpose::Query),
            ..Context::default()
        };
        let source = self.lines.source(None);
        let columns = job.record().columns.clone();
        let columns = match columns {
            Some(columns) if !first_run => columns,
            _ if format == Format::Csv => {
                export::columns(&query, &*source, &context).map_err(|error| match error {
                    ColumnsError::Run(error) => Failure::from(error),
                    error => Failure::Columns(error.to_string()),
                })?
            }
            _ => Vec::new(),
        };
        {
            let mut record = job.record();
            let within = context.order.as_ref().and_then(|order| order.within.clone());
            record.within = within.map(Into::into);
            record.columns = (format == Format::Csv).then(|| columns.clone());
            record.state = QueryState::Running.name().into();
            self.write(job, &record)?;
        }
        context.progress = Arc::clone(&permit.progress);
        let encoder = Encoder::new(format, columns, results.rows() == 0);
        let mut writer = Writer {
            jobs: self,
            job,
            results: &results,
            encoder,
            rows: ResultRows::default(),
            meter: context.meter(),
            counted: 0,
            key: None,
            written: started,
            failure: None,
        };
        let written = writer.write_all(&query, &*source, &context);
        if matches!(written, Err(Failure::Run(RunError::Cancelled))) {
            // The end does not wait for the disk. After a power cut there may be fewer rows.
            return written;
        }
        // Rows found before a failure can be fetched too.
        let synced = results.sync();
        written?;
        Ok(synced?)
    }

    /// Opens the file of rows to append to, or creates one; also returns whether it is new. A new
    /// file belongs to a further run from the start: the lock of the record is held, so that a
    /// cursor never reads rows of another run.
    fn open_results(&self, job: &Job, in_order: bool) -> io::Result<(Arc<Results>, bool)> {
        let path = Results::path(&self.dir, job.id);
        let mut record = job.record();
        let mut open = job.results();
        // Rows are not appended to a file without encryption if new files are encrypted.
        let is_as_new = || match self.disk.is_as_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            found => found,
        };
        if in_order && record.run > 0 && (open.is_some() || is_as_new()?) {
            if open.is_none() {
                *open = self.reopen(job, &path)?;
            }
            if let Some(open) = &*open {
                return Ok((Arc::clone(open), false));
            }
        }
        let new = Arc::new(Results::create(&*self.disk, &path)?);
        job.bytes.store(0, Relaxed);
        record.run += 1;
        *open = Some(Arc::clone(&new));
        Ok((new, true))
    }
}

/// Turns a panic, which is in the log by then, into a failure like others.
fn unless_it_panics(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    // The data it worked on is behind locks that are not poisoned by a panic, and is valid.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Failure::Bug))
}

fn format(name: &str) -> Format {
    match name {
        "raw" => Format::Raw,
        "csv" => Format::Csv,
        _ => Format::Jsonl,
    }
}

/// Stores the rows of a run.
struct Writer<'a> {
    jobs: &'a Jobs,
    job: &'a Job,
    results: &'a Results,
    encoder: Encoder,
    /// Rows that are not stored yet.
    rows: ResultRows,
    /// Counts the memory of large rows.
    meter: Meter,
    counted: usize,
    /// The position of the last of them in the order of time.
    key: Option<RowKey>,
    written: Instant,
    failure: Option<Failure>,
}

impl Writer<'_> {
    fn write_all(
        &mut self,
        query: &Query,
        source: &dyn query::source::Source,
        context: &Context,
    ) -> Result<(), Failure> {
        let ran = query::run(query, source, context, &mut |rows| match self.take(&rows) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        });
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // Rows found before the query ended can be fetched, and it resumes behind them.
        let flushed = self.flush();
        ran?;
        flushed
    }

    fn take(&mut self, rows: &query::ResultRows) -> Result<(), Failure> {
        let key = rows.last_key();
        for index in 0..rows.len() {
            let bytes = self.encoder.text_bytes(rows, index);
            let counted = if bytes > BLOCK_BYTES { bytes } else { 0 };
            self.meter.take(counted)?;
            self.encoder.push_row(rows, index, &mut self.rows.bytes)?;
            self.counted += counted;
            let end = u32::try_from(self.rows.bytes.len()).map_err(io::Error::other)?;
            self.rows.ends.push(end);
            // Rows without a position in time may be written all at once at the end.
            if key.is_none() && self.rows.bytes.len() >= BLOCK_BYTES {
                self.key = None;
                self.flush()?;
            }
        }
        self.key = key;
        if self.rows.bytes.len() >= BLOCK_BYTES || self.written.elapsed() >= BLOCK_AGE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let bytes = Results::cost(&self.rows);
        if self.rows.ends.is_empty() {
            return Ok(());
        }
        let (limits, _) = self.jobs.limits();
        if self.results.bytes() + bytes > limits.result_bytes_max {
            return Err(Failure::ResultBytes(limits.result_bytes_max));
        }
        let free_bytes = self.jobs.disk.space(&self.jobs.dir)?.free_bytes;
        if free_bytes < limits.disk_free_bytes_min.saturating_add(bytes) {
            return Err(Failure::DiskNearlyFull(limits.disk_free_bytes_min));
        }
        // Counted before it is written, so that two queries do not both take the last space.
        self.job.bytes.store(self.results.bytes() + bytes, Relaxed);
        let written = match self.jobs.bytes() > limits.result_bytes_total_max {
            true => Err(Failure::TotalBytes(limits.result_bytes_total_max)),
            false => self.results.append(&self.rows, self.key).map_err(Failure::from),
        };
        self.job.bytes.store(self.results.bytes(), Relaxed);
        self.rows.bytes.clear();
        if self.counted > 0 {
            self.rows.bytes = Vec::new();
            self.meter.give_back(std::mem::take(&mut self.counted));
        }
        self.rows.ends.clear();
        self.written = Instant::now();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::jobs::OwnLimits;
    use crate::queries::jobs::tests::submission;

    #[test]
    fn limits_of_the_user_and_of_the_tenant_are_named() {
        let own = OwnLimits { run_ms: Some(1_500), memory_bytes: Some(10), rows: Some(7) };
        let submission = Submission { memory_bytes_max: Some(20), own, ..submission() };
        for (failure, expected) in [
            (Failure::TimeLimit(1.5), "the limit run_max of this user"),
            (Failure::TimeLimit(2.0), "query.background_run_max"),
            (RunError::MemoryLimit(10).into(), "the limit memory_bytes_max of this user"),
            (RunError::MemoryLimit(20).into(), "query_memory_bytes_max of the tenant"),
            (RunError::MemoryLimit(30).into(), "or raise query.memory_bytes_max"),
            (RunError::RowLimit(3).into(), "more than 7 rows"),
            (RunError::RowLimit(7).into(), "the limit rows_max of this user"),
        ] {
            let text = named(failure, &submission).to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_panic_is_a_failure_like_others() {
        assert!(unless_it_panics(|| Ok(())).is_ok());
        let failed = unless_it_panics(|| Err(Failure::TimeLimit(1.0)));
        assert!(failed.unwrap_err().to_string().contains("background_run_max"));
        let panicked = unless_it_panics(|| panic!("a test of what happens then"));
        assert!(panicked.unwrap_err().to_string().contains("because of a bug"));
    }
}
