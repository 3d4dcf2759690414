//! Background queries: they are asked, run when they have a place, and their rows are kept to be fetched, page by page, while
//! they run and until they expire. `queries/` in the data directory has a record ([`record`]) and the rows ([`results`]) of each.
//!
//! A query is in the [`Queue`] like any other, under the same id. Before it is acknowledged its record is durable; so is its
//! end, before it is listed as ended.
//!
//! | it was, when the server ended | after the next start |
//! |---|---|
//! | waiting | waits again, in the same order |
//! | running or paused | interrupted, until somebody resumes it |
//! | ended | as it was, with its rows |
//!
//! What was interrupted goes on behind its last stored row if its pipes look at each row by itself and it has no limit: such
//! rows come in the order of time, and which lines belong to the answer is fixed when it first runs. Others run from the start, and
//! their rows are replaced; a cursor of the rows before is refused then.
//!
//! Left out: results of more than the directory's file system; and merging the rows of several servers.

mod record;
mod results;
mod run;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use platform::{Clock, Disk, RealClock};
use query::{BACKGROUND, Cancel, Query, QueryInfo, Queue, QueueChange, QueueError, State, Ticket};

pub use self::record::Submission;
use self::record::{Done, LastId, Record};
use self::results::Results;
use crate::pipeline::Pipeline;

/// The directory in the data directory.
pub const QUERIES_DIR: &str = "queries";
/// Background queries that are kept, whatever they do. Further ones are refused until some expire or are deleted.
const JOBS_MAX: usize = 1_000;
/// Rows of a page.
pub const PAGE_ROWS_MAX: u64 = 10_000;
/// Bytes of a page; a longer row is a page of its own.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Limits of background queries. What exceeds them ends the query, with a message that names the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Time that one runs. `query.background_run_s_max`.
    pub run_time: Duration,
    /// Bytes of the rows of one. `query.result_bytes_max`.
    pub result_bytes_max: u64,
    /// Bytes of the rows of all. `query.result_bytes_total_max`.
    pub result_bytes_total_max: u64,
    /// Time after its end until one is deleted. `query.results_keep_s`.
    pub keep: Duration,
    /// Room that is left on the disk. `store.disk_free_bytes_min`.
    pub disk_free_bytes_min: u64,
}

/// Why it cannot be done. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No place.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Too many are kept.
    #[error(
        "{JOBS_MAX} background queries are kept already; delete some, or lower query.results_keep_s"
    )]
    TooMany,
    /// There is no such query, or it has no results of its own.
    #[error("there is no background query {0}; it may have expired, see query.results_keep_s")]
    Unknown(u64),
    /// It has ended and cannot be resumed, or runs and cannot be deleted.
    #[error("query {0} is {1}")]
    Wrong(u64, &'static str),
    /// It ran from the start meanwhile.
    #[error(
        "the cursor is of an earlier run of the query, whose rows were replaced; begin again without a cursor"
    )]
    EarlierRun,
    /// Not one of ours.
    #[error("'{0}' is no cursor; take it from X-Loginson-Cursor of the page before")]
    Cursor(String),
    /// The disk.
    #[error("{path}: {error}", path = path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

/// What is known of a background query beside its entry in the queue.
#[derive(Clone, Debug)]
pub struct JobInfo {
    /// What was asked.
    pub asked: Submission,
    /// Rows that can be fetched.
    pub rows: u64,
    /// Bytes of the file of rows.
    pub bytes: u64,
    /// When it will be deleted, nanoseconds since 1970 UTC; none before it has ended.
    pub expires_ns: Option<i64>,
    /// Whether it goes on behind its last row when it is resumed, or runs from the start.
    pub continues: bool,
}

/// A page of rows.
#[derive(Debug)]
pub struct Page {
    /// The rows, as the format writes them.
    pub bytes: Vec<u8>,
    /// Goes on behind them.
    pub cursor: String,
    /// How many.
    pub rows: u64,
    /// Whether rows stand behind them already.
    pub more: bool,
    /// The state of the query, as of before the rows were read: when it has ended and there are no more, all were given.
    pub state: State,
    /// The format.
    pub format: String,
}

/// All background queries.
pub struct Jobs {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limits: JobLimits,
    queue: Queue,
    pipeline: Arc<Pipeline>,
    query_limits: query::Limits,
    jobs: Mutex<BTreeMap<u64, Arc<Job>>>,
    /// Bytes of all files of rows.
    bytes: AtomicU64,
    /// Those that ended since the start, by [`State`].
    ended: [AtomicU64; State::COUNT],
    expired: AtomicU64,
}

struct Job {
    id: u64,
    record: Mutex<Record>,
    /// Opened when they are first needed.
    results: Mutex<Option<Arc<Results>>>,
}

impl Job {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs {
    /// Opens the directory, lists what is in it, and lets those wait again that had not begun.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        limits: JobLimits,
        query_limits: query::Limits,
        queue: Queue,
        pipeline: Arc<Pipeline>,
    ) -> Result<Arc<Jobs>, JobError> {
        let jobs = Jobs {
            disk,
            limits,
            queue,
            pipeline,
            query_limits,
            jobs: Mutex::default(),
            bytes: AtomicU64::new(0),
            ended: Default::default(),
            expired: AtomicU64::new(0),
            dir,
        };
        let jobs = Arc::new(jobs);
        let waiting = jobs.restore().map_err(|error| jobs.disk_error(error))?;
        for id in waiting {
            if let Err(error) = jobs.start_again(id) {
                tracing::warn!("query {id} does not wait any more: {error}");
            }
        }
        Ok(jobs)
    }

    /// Reads the directory; gives those that waited.
    fn restore(&self) -> io::Result<Vec<u64>> {
        let disk = &*self.disk;
        disk.create_dir_all(&self.dir)?;
        self.queue.continue_ids(LastId::read(disk, &self.dir));
        let mut waiting = Vec::new();
        let names = disk.list(&self.dir)?;
        let now_ns = now_ns();
        for name in &names {
            let path = self.dir.join(name);
            let Some((stem, kind)) = name.rsplit_once('.') else { continue };
            match kind {
                "json" => {}
                "rows" if names.contains(&format!("{stem}.json")) => {
                    self.bytes.fetch_add(disk.file_bytes(&path)?, Relaxed);
                    continue;
                }
                // What a crash left.
                "rows" | "part" => {
                    disk.remove(&path)?;
                    continue;
                }
                _ => continue,
            }
            let record = Record::read(disk, &path).ok().filter(|r| r.id.to_string() == stem);
            let Some(mut record) = record else {
                tracing::warn!("{} is not the record of a query; it is left alone", path.display());
                continue;
            };
            match State::named(&record.state) {
                Some(state) if state.is_ended() => {}
                Some(State::Waiting) => waiting.push(record.id),
                _ => record.state = State::Interrupted.name().into(),
            }
            record.ended_ns.get_or_insert(now_ns);
            self.queue.restore(&entry(&record));
            let id = record.id;
            let job = Job { id, record: Mutex::new(record), results: Mutex::default() };
            self.jobs().insert(id, Arc::new(job));
        }
        waiting.sort_unstable();
        Ok(waiting)
    }

    /// Takes a query. When it returns, the query outlives the process.
    pub fn submit(self: &Arc<Self>, asked: Submission) -> Result<u64, JobError> {
        if self.jobs().len() >= JOBS_MAX {
            return Err(JobError::TooMany);
        }
        let ticket = self.queue.enter(BACKGROUND, &asked.query, &asked.client)?;
        let id = ticket.id();
        let record = Record::new(id, asked, now_ns());
        let job =
            Arc::new(Job { id, record: Mutex::new(record.clone()), results: Mutex::default() });
        self.jobs().insert(id, Arc::clone(&job));
        let written = LastId::write(&*self.disk, &self.dir, id)
            .and_then(|()| record.write(&*self.disk, &self.dir))
            .map_err(|error| self.disk_error(error));
        let started = written.and_then(|()| self.start(Arc::clone(&job), ticket));
        started.inspect_err(|_| {
            self.jobs().remove(&id);
            // It may not be there, and what is left of it is removed at the next start at the latest.
            let _ = self.disk.remove(&Record::path(&self.dir, id));
        })?;
        Ok(id)
    }

    /// Lets a paused query go on, or one that was interrupted.
    pub fn resume(self: &Arc<Self>, id: u64) -> Result<State, JobError> {
        match self.queue.resume(id) {
            QueueChange::Changed(state) => {
                self.note(id, State::Running);
                Ok(state)
            }
            QueueChange::Refused(State::Interrupted) => self.start_again(id),
            QueueChange::Refused(state) => Err(JobError::Wrong(id, state.name())),
            QueueChange::Endless | QueueChange::Unknown => Err(JobError::Unknown(id)),
        }
    }

    /// Notes that a query is paused, so that it is not lost when the server ends.
    pub fn paused(&self, id: u64) {
        self.note(id, State::Paused);
    }

    fn note(&self, id: u64, state: State) {
        let Some(job) = self.job(id) else { return };
        let mut record = job.record();
        if record.ended_ns.is_some() {
            // It ended meanwhile.
            return;
        }
        record.state = state.name().into();
        if let Err(error) = record.write(&*self.disk, &self.dir) {
            tracing::warn!("{}", self.disk_error(error));
        }
    }

    fn start_again(self: &Arc<Self>, id: u64) -> Result<State, JobError> {
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        let ticket = self.queue.enter_again(id)?;
        job.record().ended_ns = None;
        self.start(job, ticket)?;
        Ok(self.queue.get(id).map_or(State::Waiting, |info| info.state))
    }

    fn start(self: &Arc<Self>, job: Arc<Job>, ticket: Ticket) -> Result<(), JobError> {
        let jobs = Arc::clone(self);
        let thread = std::thread::Builder::new().name("query".to_owned());
        let started = thread.spawn(move || jobs.run(&job, ticket));
        started.map(drop).map_err(|error| self.disk_error(error))
    }

    /// Removes a query that has ended, and its rows.
    pub fn remove(&self, id: u64) -> Result<(), JobError> {
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        match self.queue.cancel(id) {
            Cancel::Ended(_) | Cancel::Unknown => {}
            Cancel::Cancelled => return Err(JobError::Wrong(id, "not ended yet")),
        }
        // The record first: rows without one are removed at the next start.
        for path in [Record::path(&self.dir, id), Results::path(&self.dir, id)] {
            let bytes = self.disk.file_bytes(&path).unwrap_or(0);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(JobError::Disk { path, error });
                }
                _ => {}
            }
            if path.extension().is_some_and(|extension| extension == "rows") {
                self.bytes.fetch_sub(bytes, Relaxed);
            }
        }
        *results(&job) = None;
        self.jobs().remove(&id);
        self.queue.forget(id);
        Ok(())
    }

    /// Removes those whose time is over.
    pub fn expire(&self) {
        let now_ns = now_ns();
        let over = |job: &Arc<Job>| self.expires_ns(&job.record()).is_some_and(|at| at <= now_ns);
        let gone: Vec<u64> = self.jobs().values().filter(|job| over(job)).map(|j| j.id).collect();
        for id in gone {
            match self.remove(id) {
                Ok(()) => {
                    self.expired.fetch_add(1, Relaxed);
                }
                Err(error) => tracing::warn!("query {id} has expired: {error}"),
            }
        }
    }

    fn expires_ns(&self, record: &Record) -> Option<i64> {
        let keep_ns = i64::try_from(self.limits.keep.as_nanos()).unwrap_or(i64::MAX);
        record.ended_ns.map(|ended_ns| ended_ns.saturating_add(keep_ns))
    }

    /// What is known of a query.
    pub fn info(&self, id: u64) -> Option<JobInfo> {
        let job = self.job(id)?;
        let open = results(&job).clone();
        let record = job.record();
        let file_bytes = || self.disk.file_bytes(&Results::path(&self.dir, id)).unwrap_or(0);
        Some(JobInfo {
            rows: open.as_ref().map_or(record.done.rows, |results| results.rows()),
            bytes: open.as_ref().map_or_else(file_bytes, |results| results.bytes()),
            expires_ns: self.expires_ns(&record),
            continues: run::continues(&record.asked),
            asked: record.asked.clone(),
        })
    }

    /// Rows behind a cursor; the first without one.
    pub fn page(&self, id: u64, cursor: Option<&str>, rows_max: u64) -> Result<Page, JobError> {
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        let state = self.queue.get(id).ok_or(JobError::Unknown(id))?.state;
        // Under its lock, so that the rows are those of this run.
        let record = job.record();
        let (run, format) = (record.run, record.asked.format.clone());
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

    /// The rows of a query, if it has any; opened if they are not.
    fn results_of(&self, job: &Job, state: State) -> Result<Option<Arc<Results>>, JobError> {
        let mut open = results(job);
        if open.is_none() && state.is_ended() {
            let path = Results::path(&self.dir, job.id);
            let found = self.reopen(&path).map_err(|error| JobError::Disk { path, error })?;
            *open = found.map(Arc::new);
        }
        Ok(open.clone())
    }

    /// Opens a file of rows that is there, and counts what a crash left behind them no more.
    fn reopen(&self, path: &Path) -> io::Result<Option<Results>> {
        let bytes = match self.disk.file_bytes(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let found = Results::open(&*self.disk, path)?;
        self.bytes.fetch_sub(bytes - found.bytes(), Relaxed);
        Ok(Some(found))
    }

    /// Bytes of all rows that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Those that ended so since the start.
    pub fn ended(&self, state: State) -> u64 {
        self.ended[state as usize].load(Relaxed)
    }

    /// Those that were deleted because their time was over, since the start.
    pub fn expired(&self) -> u64 {
        self.expired.load(Relaxed)
    }

    fn job(&self, id: u64) -> Option<Arc<Job>> {
        self.jobs().get(&id).cloned()
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk_error(&self, error: io::Error) -> JobError {
        JobError::Disk { path: self.dir.clone(), error }
    }
}

fn results(job: &Job) -> MutexGuard<'_, Option<Arc<Results>>> {
    job.results.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> i64 {
    RealClock::new().now_ns()
}

/// The row that a cursor of a run names.
fn row_of(cursor: &str, run: u32) -> Result<u64, JobError> {
    let parts = cursor.split_once('.');
    let read = parts.and_then(|(of, row)| Some((of.parse::<u32>().ok()?, row.parse().ok()?)));
    match read {
        None => Err(JobError::Cursor(cursor.to_owned())),
        // Nothing was given yet.
        Some((_, 0)) => Ok(0),
        Some((of, _)) if of != run => Err(JobError::EarlierRun),
        Some((_, row)) => Ok(row),
    }
}

/// How a record of before is listed.
fn entry(record: &Record) -> QueryInfo {
    let Done { wait_ms, run_ms, rows, .. } = record.done;
    let since = Duration::from_nanos(record.started_ns.max(0) as u64);
    let state = State::named(&record.state).filter(|state| state.is_ended());
    QueryInfo {
        id: record.id,
        kind: BACKGROUND.into(),
        query: record.asked.query.clone(),
        state: state.unwrap_or(State::Interrupted),
        position: None,
        started: SystemTime::UNIX_EPOCH + since,
        wait: Duration::from_millis(wait_ms),
        run: Duration::from_millis(run_ms),
        left: None,
        progress: 0.0,
        blocks_planned: record.done.blocks_planned,
        blocks_done: record.done.blocks_done,
        bytes_planned: record.done.bytes_planned,
        bytes_scanned: record.done.bytes_scanned,
        lines_scanned: record.done.lines_scanned,
        rows,
        memory_bytes: 0,
        error: record.error.clone(),
        client: record.asked.client.clone(),
    }
}

/// Whether a query can be understood; asked before it is taken.
pub fn parse(asked: &Submission) -> Result<Query, query::ParseError> {
    Query::parse(&asked.query, asked.now_ns)
}
