//! Background queries. They run when the queue has a free slot; their rows are kept, and can be
//! fetched page by page, while they run and until they expire. The directory `queries/` in the data
//! directory has a record ([`record`]) and the rows ([`results`]) of each.
//!
//! A query is in the [`QueryQueue`] like any other, under the same id. Its record is durable before
//! the query is acknowledged, and its end is durable before the query is listed as ended.
//!
//! | state when the server ended | after the next start |
//! |---|---|
//! | waiting | waits again, in the same order |
//! | running or paused | interrupted, until somebody resumes it |
//! | ended | the same, with its rows |
//!
//! An interrupted query resumes behind its last stored row if its pipes are row-wise and it has no
//! limit: such rows are in the order of time, and the set of lines that belong to the answer is
//! fixed when it first runs. Other queries run again from the start, and their rows are replaced; a
//! cursor of the earlier rows is then refused.
//!
//! Invariants: resuming and removing a query exclude each other ([`Jobs::turns`]) and check its
//! state while they hold that lock; so a resumed query keeps its files, and a removed one leaves
//! none. Code that writes a record holds its lock, and writes nothing once the query is removed.
//! Locks are taken in this order: turns, the list of queries, a record, its rows.
//!
//! Left out: results larger than the file system of the directory; merging the rows of several
//! servers.

mod limits;
mod page;
mod record;
mod results;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use platform::memory::Budget;
use platform::placement::Role;
use platform::threads::Threads;
use platform::{Clock, Disk, RealClock};
use query::{
    BACKGROUND, Query, QueryInfo, QueryQueue, QueryState, QueueChange, QueueError, Ticket,
};

pub use self::limits::{JOBS_MAX, JobLimits};
pub use self::page::PAGE_ROWS_MAX;
pub use self::record::{Done, OwnLimits, Submission};
use self::record::{LastId, Record, named};
use self::results::Results;
use crate::cluster::engines::{KnownQuery, TOLD_CHARS_MAX};
use crate::cluster::{Engines, QueriedLines};

/// In a cluster on engines, an id has the id of its node above so many bits.
const NODE_BITS: u32 = 32;
const NUMBER_MASK: u64 = (1 << NODE_BITS) - 1;

/// The id of the node of a cluster on engines that issued the id of a query; none for an id of one
/// machine.
pub fn node_of(id: u64) -> Option<u32> {
    Some((id >> NODE_BITS) as u32).filter(|node| *node != 0)
}

/// The threads that queries run on, including those of clients that wait.
pub static QUERY_THREADS: Threads =
    Threads::new("query", Role::Query, crate::process::memory::give_back_own);

/// Why an operation failed. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The queue refused the query.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// There are too many queries.
    #[error("{0} background queries are kept already; delete some, or lower query.results_keep")]
    TooMany(usize),
    /// There is no such query, or it has no results of its own.
    #[error("there is no background query {0}; it may have expired, see query.results_keep")]
    Unknown(u64),
    /// It has ended and cannot be resumed, or runs and cannot be deleted.
    #[error("query {0} is {1}")]
    Wrong(u64, &'static str),
    /// The query ran again from the start meanwhile.
    #[error(
        "the cursor is of an earlier run of the query, whose rows were replaced; begin again without a cursor"
    )]
    EarlierRun,
    /// The text is not a cursor.
    #[error("'{0}' is not a cursor; take it from X-Loginson-Cursor of the page before")]
    Cursor(String),
    /// An I/O error.
    #[error("{path}: {error}", path = path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The state of a background query, besides its entry in the queue.
#[derive(Clone, Debug)]
pub struct JobInfo {
    /// The parameters.
    pub submission: Submission,
    /// Rows that can be fetched.
    pub rows: u64,
    /// Bytes of the file of rows.
    pub bytes: u64,
    /// When it will be deleted, nanoseconds since 1970 UTC; `None` before it has ended.
    pub expires_ns: Option<i64>,
    /// Whether it resumes behind its last row, or runs again from the start.
    pub continues: bool,
}

/// All background queries.
pub struct Jobs {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Those of background queries, and those of any query.
    limits: Mutex<(JobLimits, query::Limits)>,
    queue: QueryQueue,
    /// The lines that queries read.
    lines: QueriedLines,
    /// The memory budget of the queries.
    memory: Arc<Budget>,
    jobs: Mutex<BTreeMap<u64, Arc<Job>>>,
    /// Held while a query is resumed or removed.
    turns: Mutex<()>,
    /// Held while a query is compared with the limits of its tenant and accepted.
    accepting: Mutex<()>,
    /// The greatest id that is durable.
    last_id: Mutex<u64>,
    /// Queries that ended since the start, by [`QueryState`].
    ended: [AtomicU64; QueryState::COUNT],
    expired: AtomicU64,
    /// Is told of each query that ended.
    told: OnceLock<Box<Told>>,
}

/// Called with the parameters of a query that ended, and its counters.
pub type Told = dyn Fn(&Submission, &Done) + Send + Sync;

struct Job {
    id: u64,
    record: Mutex<Record>,
    /// Its files are removed. Set while the lock of the record is held.
    removed: AtomicBool,
    /// Opened on first use.
    results: Mutex<Option<Arc<Results>>>,
    /// Bytes of the file of rows, including those that are about to be written.
    bytes: AtomicU64,
}

impl Job {
    fn new(record: Record, bytes: u64) -> Arc<Job> {
        Arc::new(Job {
            id: record.id,
            record: Mutex::new(record),
            removed: AtomicBool::new(false),
            results: Mutex::default(),
            bytes: AtomicU64::new(bytes),
        })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    fn results(&self) -> MutexGuard<'_, Option<Arc<Results>>> {
        lock(&self.results)
    }
}

impl Jobs {
    /// Opens the directory, lists its queries, and puts those that had not begun back into the
    /// queue.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        limits: JobLimits,
        query_limits: query::Limits,
        queue: QueryQueue,
        lines: QueriedLines,
        memory: Arc<Budget>,
    ) -> Result<Arc<Jobs>, JobError> {
        let jobs = Jobs {
            disk,
            limits: Mutex::new((limits, query_limits)),
            queue,
            lines,
            memory,
            jobs: Mutex::default(),
            turns: Mutex::default(),
            accepting: Mutex::default(),
            last_id: Mutex::default(),
            ended: Default::default(),
            expired: AtomicU64::new(0),
            told: OnceLock::new(),
            dir,
        };
        let jobs = Arc::new(jobs);
        let waiting = jobs.restore().map_err(|error| jobs.disk_error(error))?;
        for id in waiting {
            if let Err(error) = jobs.start_again(id) {
                tracing::warn!("query {id} cannot wait in the queue any more: {error}");
            }
        }
        Ok(jobs)
    }

    /// Changes the limits of queries that begin from now on; those of results hold at once.
    pub fn set_limits(&self, limits: JobLimits, query_limits: query::Limits) {
        *lock(&self.limits) = (limits, query_limits);
    }

    fn limits(&self) -> (JobLimits, query::Limits) {
        *lock(&self.limits)
    }

    /// Reads the directory; returns the queries that waited.
    fn restore(&self) -> io::Result<Vec<u64>> {
        let disk = &*self.disk;
        disk.create_dir_all(&self.dir)?;
        let last_id = self.last_id_here(LastId::read(disk, &self.dir)?);
        *lock(&self.last_id) = last_id;
        self.queue.continue_ids(last_id);
        let mut waiting = Vec::new();
        let names = disk.list(&self.dir)?;
        let now_ns = now_ns();
        for name in &names {
            let path = self.dir.join(name);
            let Some((stem, kind)) = name.rsplit_once('.') else { continue };
            match kind {
                "json" => {}
                "rows" if names.contains(&format!("{stem}.json")) => continue,
                // Left by a crash.
                "rows" | "part" => {
                    disk.remove(&path).map_err(|error| named(&path, &error))?;
                    continue;
                }
                _ => continue,
            }
            let read = Record::read(disk, &path).and_then(|record| match record.id.to_string() {
                id if id == stem => Ok(record),
                id => Err(io::Error::other(format!("it says that it is query {id}"))),
            });
            let mut record = match read {
                Ok(record) => record,
                Err(error) => {
                    tracing::warn!(
                        "{} is not the record of a query, and is left unchanged: {error}",
                        path.display()
                    );
                    continue;
                }
            };
            match QueryState::named(&record.state) {
                Some(state) if state.is_ended() => {}
                Some(QueryState::Waiting) => waiting.push(record.id),
                _ => record.state = QueryState::Interrupted.name().into(),
            }
            record.ended_ns.get_or_insert(now_ns);
            self.queue.restore(&entry(&record));
            let bytes = disk.file_bytes(&Results::path(&self.dir, record.id)).unwrap_or(0);
            self.jobs().insert(record.id, Job::new(record, bytes));
        }
        waiting.sort_unstable();
        Ok(waiting)
    }

    /// The last id that was issued, in the numbers that this node issues: those of a cluster on
    /// engines have its id in their upper half, so that each names the node that has the query.
    fn last_id_here(&self, last_id: u64) -> u64 {
        match self.engines() {
            Some(engines) if node_of(last_id) != Some(engines.info.node.0) => {
                u64::from(engines.info.node.0) << NODE_BITS | (last_id & NUMBER_MASK)
            }
            _ => last_id,
        }
    }

    fn engines(&self) -> Option<&Arc<Engines>> {
        match &self.lines {
            QueriedLines::Own(_) => None,
            QueriedLines::Cluster(cluster) => cluster.engines(),
        }
    }

    /// In a cluster on engines, tells the other nodes which queries this one keeps, and hears which
    /// they keep. Blocks.
    ///
    /// Errors: the catalog cannot be reached; the text says so.
    pub fn share(&self) -> Result<(), String> {
        let Some(engines) = self.engines() else { return Ok(()) };
        let jobs: Vec<Arc<Job>> = self.jobs().values().cloned().collect();
        let known = |job: &Arc<Job>| {
            let record = job.record();
            KnownQuery {
                id: record.id,
                query: record.submission.query.chars().take(TOLD_CHARS_MAX).collect(),
                client: record.submission.client.clone(),
                started_ns: record.started_ns,
                expires_ns: self.expires_ns(&record),
            }
        };
        let queries = jobs.iter().map(known).collect();
        engines.share_queries(queries, now_ns(), self.limits().0.keep)
    }

    /// As [`submit`](Self::submit), if `check` allows it for the number of queries of the same
    /// tenant that have not ended, and the bytes of the rows of all of its queries.
    pub fn submit_if<E>(
        self: &Arc<Self>,
        submission: Submission,
        check: impl FnOnce(usize, u64) -> Result<(), E>,
    ) -> Result<Result<u64, JobError>, E> {
        let _guard = lock(&self.accepting);
        let (queries, bytes) = self.of_tenant(&submission.tenant);
        check(queries, bytes)?;
        Ok(self.submit(submission))
    }

    /// Accepts a query. When this returns, the query survives the process.
    pub fn submit(self: &Arc<Self>, submission: Submission) -> Result<u64, JobError> {
        let ticket = self.queue.enter(BACKGROUND, &submission.query, &submission.client)?;
        let id = ticket.id();
        let job = Job::new(Record::new(id, submission, now_ns()), 0);
        {
            let mut jobs = self.jobs();
            let jobs_max = self.limits().0.jobs_max;
            if jobs.len() >= jobs_max {
                return Err(JobError::TooMany(jobs_max));
            }
            jobs.insert(id, Arc::clone(&job));
        }
        let written = self.keep_id(id).and_then(|()| self.write(&job, &job.record()));
        let written = written.map_err(|error| self.disk_error(error));
        let started = written.and_then(|()| self.start(Arc::clone(&job), ticket));
        started.inspect_err(|_| {
            self.jobs().remove(&id);
            let _record = job.record();
            job.removed.store(true, Relaxed);
            // The record may not exist. If it does and stays, the next start removes it.
            let _ = self.disk.remove(&Record::path(&self.dir, id));
        })?;
        Ok(id)
    }

    /// Stores that an id is issued, so that no other query gets it after a restart.
    fn keep_id(&self, id: u64) -> io::Result<()> {
        let mut last_id = lock(&self.last_id);
        if id > *last_id {
            LastId::write(&*self.disk, &self.dir, id)?;
            *last_id = id;
        }
        Ok(())
    }

    /// Writes a record. The caller holds its lock.
    fn write(&self, job: &Job, record: &Record) -> io::Result<()> {
        if job.removed.load(Relaxed) {
            return Ok(());
        }
        record.write(&*self.disk, &self.dir)
    }

    /// Resumes a paused or interrupted query.
    pub fn resume(self: &Arc<Self>, id: u64) -> Result<QueryState, JobError> {
        match self.queue.resume(id) {
            QueueChange::Changed(state) => {
                self.note(id, false);
                Ok(state)
            }
            QueueChange::Refused(QueryState::Interrupted) => self.start_again(id),
            QueueChange::Refused(state) => Err(JobError::Wrong(id, state.name())),
            QueueChange::Endless | QueueChange::Unknown => Err(JobError::Unknown(id)),
        }
    }

    /// Records that a query is paused, so that it is not lost when the server ends.
    pub fn paused(&self, id: u64) {
        self.note(id, true);
    }

    fn note(&self, id: u64, paused: bool) {
        let Some(job) = self.job(id) else { return };
        let mut record = job.record();
        if record.ended_ns.is_some() {
            // It has ended meanwhile.
            return;
        }
        // A query that has run and waits to continue is next in the queue; it is not put there
        // again.
        let state = match paused {
            true => QueryState::Paused,
            false if record.run > 0 => QueryState::Running,
            false => QueryState::Waiting,
        };
        record.state = state.name().into();
        if let Err(error) = self.write(&job, &record) {
            tracing::warn!("{}", self.disk_error(error));
        }
    }

    /// Puts an interrupted query back into the queue.
    fn start_again(self: &Arc<Self>, id: u64) -> Result<QueryState, JobError> {
        let _turn = lock(&self.turns);
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        let info = self.queue.get(id).ok_or(JobError::Unknown(id))?;
        if info.state != QueryState::Interrupted {
            // Another caller was faster.
            return Err(JobError::Wrong(id, info.state.name()));
        }
        let ticket = self.queue.enter_again(id)?;
        let before = {
            let mut record = job.record();
            let before = record.clone();
            record.ended_ns = None;
            record.state = QueryState::Waiting.name().into();
            before
        };
        let written = self.write(&job, &job.record()).map_err(|error| self.disk_error(error));
        let started = written.and_then(|()| self.start(Arc::clone(&job), ticket));
        if let Err(error) = started {
            // It stays interrupted; dropping its ticket removed it from the queue.
            self.queue.restore(&entry(&before));
            *job.record() = before;
            return Err(error);
        }
        Ok(self.queue.get(id).map_or(QueryState::Waiting, |info| info.state))
    }

    fn start(self: &Arc<Self>, job: Arc<Job>, ticket: Ticket) -> Result<(), JobError> {
        let jobs = Arc::clone(self);
        let started = QUERY_THREADS.run(move || jobs.run(&job, ticket));
        started.map_err(|error| self.disk_error(error))
    }

    /// Removes a query that has ended, and its rows.
    pub fn remove(&self, id: u64) -> Result<(), JobError> {
        let _turn = lock(&self.turns);
        let job = self.job(id).ok_or(JobError::Unknown(id))?;
        self.remove_in_turn(&job)
    }

    fn remove_in_turn(&self, job: &Job) -> Result<(), JobError> {
        let id = job.id;
        if self.queue.get(id).is_some_and(|info| !info.state.is_ended()) {
            return Err(JobError::Wrong(id, "not ended yet"));
        }
        let record = job.record();
        // The record first: the next start removes rows without a record.
        for path in [Record::path(&self.dir, id), Results::path(&self.dir, id)] {
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(JobError::Disk { path, error });
                }
                _ => {}
            }
        }
        job.removed.store(true, Relaxed);
        drop(record);
        // After a power cut it may exist again until it expires; nothing else depends on it.
        let _ = self.disk.sync_dir(&self.dir);
        *job.results() = None;
        self.jobs().remove(&id);
        self.queue.forget(id);
        Ok(())
    }

    /// Removes queries that have expired; and, once they have ended, those that began before lines
    /// were deleted by a filter: their rows, and their text, may hold what had to go.
    pub fn expire(&self) {
        let deleted_ns = self.lines_deleted_ns();
        let over = |job: &Job| {
            let record = job.record();
            self.expires_ns(&record).is_some_and(|at| at <= now_ns())
                || (record.ended_ns.is_some() && record.started_ns <= deleted_ns)
        };
        let jobs: Vec<Arc<Job>> = self.jobs().values().cloned().collect();
        for job in jobs.iter().filter(|job| over(job)) {
            let _turn = lock(&self.turns);
            if job.removed.load(Relaxed) || !over(job) {
                // It was removed or resumed meanwhile.
                continue;
            }
            match self.remove_in_turn(job) {
                Ok(()) => {
                    self.expired.fetch_add(1, Relaxed);
                }
                Err(error) => tracing::warn!("query {} has expired: {error}", job.id),
            }
        }
    }

    /// When a deletion last ended that deleted lines of this node, or in a cluster when one was
    /// last requested; `i64::MIN` when none was.
    fn lines_deleted_ns(&self) -> i64 {
        let stored = match &self.lines {
            QueriedLines::Own(stored) => stored,
            QueriedLines::Cluster(cluster) => {
                let deleted_ns = cluster.engines().and_then(|engines| engines.deleted_ns());
                return deleted_ns.unwrap_or(i64::MIN);
            }
        };
        let ended = stored.store().deletions().into_iter();
        let ended = ended.filter(|(deletion, _)| deletion.lines > 0);
        ended.filter_map(|(deletion, _)| deletion.finished_ns).max().unwrap_or(i64::MIN)
    }

    /// Removes the queries that have ended, because lines are deleted at other nodes. Returns how
    /// many were removed, and how many stay: those that run or wait.
    pub fn remove_ended(&self) -> (usize, usize) {
        let jobs: Vec<Arc<Job>> = self.jobs().values().cloned().collect();
        let _turn = lock(&self.turns);
        let remove = |job: &&Arc<Job>| match self.remove_in_turn(job) {
            Ok(()) => true,
            Err(JobError::Wrong(..)) => false,
            Err(error) => {
                tracing::warn!("query {}: its results stay: {error}", job.id);
                false
            }
        };
        let removed = jobs.iter().filter(remove).count();
        (removed, jobs.len() - removed)
    }

    fn expires_ns(&self, record: &Record) -> Option<i64> {
        let keep_ns = text::duration::ns(self.limits().0.keep);
        record.ended_ns.map(|ended_ns| ended_ns.saturating_add(keep_ns))
    }

    /// The state of a query.
    pub fn info(&self, id: u64) -> Option<JobInfo> {
        let job = self.job(id)?;
        let open = job.results().clone();
        let record = job.record();
        let bytes = || job.bytes.load(Relaxed);
        Some(JobInfo {
            rows: open.as_ref().map_or(record.done.rows, |results| results.rows()),
            bytes: open.as_ref().map_or_else(bytes, |results| results.bytes()),
            expires_ns: self.expires_ns(&record),
            continues: run::continues(&record.submission),
            submission: record.submission.clone(),
        })
    }

    /// Bytes of all stored rows.
    pub fn bytes(&self) -> u64 {
        self.jobs().values().map(|job| job.bytes.load(Relaxed)).sum()
    }

    /// Bytes of the stored rows of the clients that `is_theirs` selects.
    pub fn bytes_of(&self, is_theirs: &dyn Fn(&str) -> bool) -> u64 {
        let jobs: Vec<Arc<Job>> = self.jobs().values().cloned().collect();
        let theirs = jobs.iter().filter(|job| is_theirs(&job.record().submission.client));
        theirs.map(|job| job.bytes.load(Relaxed)).sum()
    }

    /// From now on, `told` is called for each query that ends. Set once.
    pub fn tell(&self, told: Box<Told>) {
        let _ = self.told.set(told);
    }

    /// Queries of a tenant that have not ended, and the bytes of the rows of all of its queries.
    pub fn of_tenant(&self, tenant: &str) -> (usize, u64) {
        let jobs: Vec<Arc<Job>> = self.jobs().values().cloned().collect();
        let (mut open, mut bytes) = (0, 0);
        for job in jobs.iter().filter(|job| job.record().submission.tenant == tenant) {
            open += usize::from(job.record().ended_ns.is_none());
            bytes += job.bytes.load(Relaxed);
        }
        (open, bytes)
    }

    /// Queries that ended in that state since the start.
    pub fn ended(&self, state: QueryState) -> u64 {
        self.ended[state as usize].load(Relaxed)
    }

    /// Queries that were deleted since the start because they had expired.
    pub fn expired(&self) -> u64 {
        self.expired.load(Relaxed)
    }

    fn job(&self, id: u64) -> Option<Arc<Job>> {
        self.jobs().get(&id).cloned()
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        lock(&self.jobs)
    }

    fn disk_error(&self, error: io::Error) -> JobError {
        JobError::Disk { path: self.dir.clone(), error }
    }
}

/// A value is valid after a panic: it is changed field by field, and written as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> i64 {
    RealClock::new().now_ns()
}

/// The entry in the queue of a query from an earlier process.
fn entry(record: &Record) -> QueryInfo {
    let Done { wait_ms, run_ms, rows, .. } = record.done;
    let since = Duration::from_nanos(record.started_ns.max(0) as u64);
    let state = QueryState::named(&record.state).filter(|state| state.is_ended());
    QueryInfo {
        id: record.id,
        kind: BACKGROUND.into(),
        query: record.submission.query.clone(),
        // The record contains it.
        range: None,
        state: state.unwrap_or(QueryState::Interrupted),
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
        client: record.submission.client.clone(),
    }
}

/// Parses a query; called before it is accepted.
pub fn parse(submission: &Submission) -> Result<Query, query::ParseError> {
    Query::parse(&submission.query, submission.now_ns)
}
