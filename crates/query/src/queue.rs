//! The queue of queries: who may run, who waits, what ran lately.
//!
//! Each query gets a place, or waits for one in the order of arrival. Every query is listed while it waits, runs,
//! and for a while after its end; it can be cancelled while it waits or runs. Live tails have places of their
//! own, as they last for hours and cost little.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use crate::run::Progress;

/// Limits of the queue. Each says what happens beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Queries that run at once; further ones wait. `query.concurrent_max`.
    pub concurrent_max: usize,
    /// Queries that wait; further ones are refused. `query.waiting_max`.
    pub waiting_max: usize,
    /// Time a query waits before it is refused. `query.wait_s_max`.
    pub wait_max: Duration,
    /// Ended queries that are still listed; older ones are forgotten.
    pub finished_kept: usize,
    /// Live tails at once; further ones are refused. `query.tails_max`.
    pub tails_max: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        QueueLimits {
            concurrent_max: cores.max(2),
            waiting_max: 32,
            wait_max: Duration::from_secs(10),
            finished_kept: 100,
            tails_max: 100,
        }
    }
}

/// Bytes of a query's text that are listed; the rest is cut off.
const LISTED_TEXT_BYTES_MAX: usize = 4_096;

/// The kind of queries that have places of their own.
pub const TAIL: &str = "tail";

/// Where a query is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for a place.
    Waiting,
    /// It runs.
    Running,
    /// It ran to its end.
    Done,
    /// Somebody cancelled it.
    Cancelled,
    /// It was refused, or ended by an error or a limit.
    Failed,
}

impl State {
    /// As in the API.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Done => "done",
            State::Cancelled => "cancelled",
            State::Failed => "failed",
        }
    }

    fn ended(self) -> bool {
        !matches!(self, State::Waiting | State::Running)
    }
}

/// Why a query got no place. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// Too many wait already.
    #[error(
        "{0} queries wait already; try again later, or raise query.waiting_max or query.concurrent_max"
    )]
    Full(usize),
    /// No place became free in time.
    #[error(
        "no place for the query became free in {0} s; try again later, or raise query.concurrent_max or \
         query.wait_s_max"
    )]
    WaitedTooLong(u64),
    /// Too many live tails.
    #[error("{0} live tails run already; close one, or raise query.tails_max")]
    TailsFull(usize),
    /// It was cancelled while it waited.
    #[error("the query was cancelled while it waited")]
    Cancelled,
    /// The server ends.
    #[error("the server is shutting down")]
    Closed,
}

/// What came of the wish to cancel a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It will end soon, if it has not yet.
    Cancelled,
    /// It had ended before, like this.
    Ended(State),
    /// There is no such query, or it ended long ago.
    Unknown,
}

/// A query as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInfo {
    /// Names the query; counts up from 1.
    pub id: u64,
    /// `query`, `hits`, `tail`, …
    pub kind: String,
    /// Its text, cut off when it is very long.
    pub query: String,
    /// Where it is on its way.
    pub state: State,
    /// When it came in.
    pub started: SystemTime,
    /// How long it waited for a place.
    pub wait: Duration,
    /// How long it has run, or ran.
    pub run: Duration,
    /// Share of the work that is done, from 0 to 1.
    pub progress: f64,
    /// Bytes of raw lines read.
    pub bytes_scanned: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Rows sent.
    pub rows: u64,
    /// Memory held by its pipes now, in bytes.
    pub memory_bytes: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Who asked.
    pub client: String,
}

/// The queue. Clones are the same queue.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    limits: QueueLimits,
    inner: Mutex<Inner>,
    /// Somebody left a place, was cancelled, or the queue was closed.
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    last_id: u64,
    entries: BTreeMap<u64, Entry>,
    waiting: VecDeque<u64>,
    running: usize,
    tails: usize,
    ended: VecDeque<u64>,
    closed: bool,
}

struct Entry {
    kind: String,
    query: String,
    client: String,
    state: State,
    started: SystemTime,
    came: Instant,
    ran_from: Option<Instant>,
    ended: Option<Instant>,
    error: Option<String>,
    progress: Arc<Progress>,
    cancelled: Arc<AtomicBool>,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Queue {
        let inner = Mutex::new(Inner::default());
        Queue { shared: Arc::new(Shared { limits, inner, changed: Condvar::new() }) }
    }

    /// The limits.
    pub fn limits(&self) -> QueueLimits {
        self.shared.limits
    }

    /// Waits for a place for a query and takes it. Blocks the thread up to [`QueueLimits::wait_max`]; tails do
    /// not wait.
    pub fn submit(&self, kind: &str, query: &str, client: &str) -> Result<Permit, QueueError> {
        let limits = &self.shared.limits;
        let mut inner = self.shared.lock();
        let id = inner.enter(kind, query, client);
        if inner.closed {
            return Err(self.shared.refuse(inner, id, QueueError::Closed));
        }
        let tail = kind == TAIL;
        if tail {
            if inner.tails >= limits.tails_max {
                return Err(self.shared.refuse(inner, id, QueueError::TailsFull(limits.tails_max)));
            }
        } else if inner.running >= limits.concurrent_max || !inner.waiting.is_empty() {
            if inner.waiting.len() >= limits.waiting_max {
                return Err(self.shared.refuse(inner, id, QueueError::Full(limits.waiting_max)));
            }
            inner.waiting.push_back(id);
            inner = self.wait(inner, id)?;
        }
        if tail {
            inner.tails += 1;
        } else {
            inner.running += 1;
        }
        let entry = inner.entries.get_mut(&id).expect("entered above and not ended");
        entry.state = State::Running;
        entry.ran_from = Some(Instant::now());
        let (cancelled, progress) = (entry.cancelled.clone(), entry.progress.clone());
        Ok(Permit { id, cancelled, progress, tail, shared: self.shared.clone(), left: false })
    }

    /// Waits until query `id` is the first in line and a place is free.
    fn wait<'q>(
        &'q self,
        mut inner: MutexGuard<'q, Inner>,
        id: u64,
    ) -> Result<MutexGuard<'q, Inner>, QueueError> {
        let limits = &self.shared.limits;
        let until = Instant::now() + limits.wait_max;
        loop {
            let cancelled = inner.entries[&id].cancelled.load(Relaxed);
            let left = until.saturating_duration_since(Instant::now());
            let error = if inner.closed {
                Some(QueueError::Closed)
            } else if cancelled {
                Some(QueueError::Cancelled)
            } else if inner.waiting.front() == Some(&id) && inner.running < limits.concurrent_max {
                inner.waiting.pop_front();
                // The next one may find a place too.
                self.shared.changed.notify_all();
                return Ok(inner);
            } else if left.is_zero() {
                Some(QueueError::WaitedTooLong(limits.wait_max.as_secs()))
            } else {
                None
            };
            if let Some(error) = error {
                inner.waiting.retain(|&waiting| waiting != id);
                return Err(self.shared.refuse(inner, id, error));
            }
            inner = self.shared.changed.wait_timeout(inner, left).expect("nothing panics inside").0;
        }
    }

    /// All queries that wait, run or ended lately, newest first.
    pub fn list(&self) -> Vec<QueryInfo> {
        let inner = self.shared.lock();
        inner.entries.iter().rev().map(|(&id, entry)| entry.info(id)).collect()
    }

    /// One query.
    pub fn get(&self, id: u64) -> Option<QueryInfo> {
        self.shared.lock().entries.get(&id).map(|entry| entry.info(id))
    }

    /// Ends a query that waits or runs.
    pub fn cancel(&self, id: u64) -> Cancel {
        let inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return Cancel::Unknown };
        if entry.state.ended() {
            return Cancel::Ended(entry.state);
        }
        entry.cancelled.store(true, Relaxed);
        self.shared.changed.notify_all();
        Cancel::Cancelled
    }

    /// Cancels all queries and refuses new ones: the server ends.
    pub fn close(&self) {
        let mut inner = self.shared.lock();
        inner.closed = true;
        inner.entries.values().for_each(|entry| entry.cancelled.store(true, Relaxed));
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics inside")
    }

    /// Ends a query that got no place.
    fn refuse(&self, mut inner: MutexGuard<'_, Inner>, id: u64, error: QueueError) -> QueueError {
        let state = if error == QueueError::Cancelled { State::Cancelled } else { State::Failed };
        inner.end(id, state, Some(error.to_string()), self.limits.finished_kept);
        self.changed.notify_all();
        error
    }
}

impl Inner {
    fn enter(&mut self, kind: &str, query: &str, client: &str) -> u64 {
        self.last_id += 1;
        let cut = query.floor_char_boundary(LISTED_TEXT_BYTES_MAX);
        let entry = Entry {
            kind: kind.to_owned(),
            query: query[..cut].to_owned(),
            client: client.to_owned(),
            state: State::Waiting,
            started: SystemTime::now(),
            came: Instant::now(),
            ran_from: None,
            ended: None,
            error: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
        };
        self.entries.insert(self.last_id, entry);
        self.last_id
    }

    fn end(&mut self, id: u64, state: State, error: Option<String>, finished_kept: usize) {
        let entry = self.entries.get_mut(&id).expect("a query ends once");
        entry.state = state;
        entry.error = error;
        entry.ended = Some(Instant::now());
        entry.progress.memory_bytes.store(0, Relaxed);
        self.ended.push_back(id);
        while self.ended.len() > finished_kept {
            let oldest = self.ended.pop_front().expect("not empty");
            self.entries.remove(&oldest);
        }
    }
}

impl Entry {
    fn info(&self, id: u64) -> QueryInfo {
        let end = self.ended.unwrap_or_else(Instant::now);
        let progress = &self.progress;
        QueryInfo {
            id,
            kind: self.kind.clone(),
            query: self.query.clone(),
            state: self.state,
            started: self.started,
            wait: self.ran_from.unwrap_or(end).saturating_duration_since(self.came),
            run: self.ran_from.map_or(Duration::ZERO, |from| end.saturating_duration_since(from)),
            progress: if self.state == State::Done { 1.0 } else { progress.share() },
            bytes_scanned: progress.bytes_scanned.load(Relaxed),
            lines_scanned: progress.lines_scanned.load(Relaxed),
            rows: progress.rows.load(Relaxed),
            memory_bytes: progress.memory_bytes.load(Relaxed),
            error: self.error.clone(),
            client: self.client.clone(),
        }
    }
}

/// A place to run in. Dropping it gives the place to the next query.
pub struct Permit {
    id: u64,
    /// Set when the query is to end.
    pub cancelled: Arc<AtomicBool>,
    /// Where the query counts.
    pub progress: Arc<Progress>,
    tail: bool,
    shared: Arc<Shared>,
    left: bool,
}

impl Permit {
    /// Names the query.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ends the query, and says how.
    pub fn finish(mut self, state: State, error: Option<String>) {
        self.leave(state, error);
    }

    fn leave(&mut self, state: State, error: Option<String>) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        let mut inner = self.shared.lock();
        if self.tail {
            inner.tails -= 1;
        } else {
            inner.running -= 1;
        }
        inner.end(self.id, state, error, self.shared.limits.finished_kept);
        self.shared.changed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (state, error) = if std::thread::panicking() {
            (State::Failed, Some("the query ended by a bug; see the server's log".to_owned()))
        } else if self.cancelled.load(Relaxed) {
            (State::Cancelled, None)
        } else {
            (State::Done, None)
        };
        self.leave(state, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn queue(concurrent_max: usize, waiting_max: usize, wait_max: Duration) -> Queue {
        let tails_max = 1;
        Queue::new(QueueLimits {
            concurrent_max,
            waiting_max,
            wait_max,
            finished_kept: 3,
            tails_max,
        })
    }

    /// Blocks until `queue` looks as wanted; whoever changes it makes it so soon.
    fn until(queue: &Queue, wanted: impl Fn(&[QueryInfo]) -> bool) {
        while !wanted(&queue.list()) {
            thread::yield_now();
        }
    }

    fn states(queue: &Queue) -> Vec<(u64, &'static str)> {
        queue.list().iter().map(|q| (q.id, q.state.name())).collect()
    }

    #[test]
    fn queries_wait_in_line() {
        let queue = queue(1, 8, Duration::from_secs(60));
        let first = queue.submit("query", "a", "me").unwrap();
        let (sender, receiver) = mpsc::channel();
        let mut threads = Vec::new();
        for i in 0..3 {
            let (queue_of_thread, sender) = (queue.clone(), sender.clone());
            threads.push(thread::spawn(move || {
                let permit = queue_of_thread.submit("query", "b", "me").unwrap();
                sender.send(permit.id()).unwrap();
            }));
            until(&queue, |list| list.len() == i + 2);
        }
        assert_eq!(
            states(&queue),
            [(4, "waiting"), (3, "waiting"), (2, "waiting"), (1, "running")]
        );
        drop(first);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 3, 4]);
        // The oldest is forgotten.
        assert_eq!(states(&queue), [(4, "done"), (3, "done"), (2, "done")]);
        assert!(queue.get(1).is_none());
        assert_eq!(queue.get(4).unwrap().progress, 1.0);
    }

    #[test]
    fn refusals_name_the_setting() {
        let queue = queue(1, 0, Duration::ZERO);
        let permit = queue.submit("query", "a", "me").unwrap();
        let error = queue.submit("query", "b", "me").err().unwrap();
        assert!(error.to_string().contains("query.waiting_max"));
        let waiting = Queue::new(QueueLimits { waiting_max: 1, ..queue.limits() });
        let other = waiting.submit("query", "a", "me").unwrap();
        let error = waiting.submit("query", "b", "me").err().unwrap();
        assert!(error.to_string().contains("query.wait_s_max"));
        assert_eq!(waiting.get(2).unwrap().state, State::Failed);
        // Tails have places of their own, and as few as said.
        let tail = queue.submit(TAIL, "c", "me").unwrap();
        assert!(
            queue.submit(TAIL, "d", "me").err().unwrap().to_string().contains("query.tails_max")
        );
        drop((permit, tail, other));
        assert!(queue.submit("query", "e", "me").is_ok());
        assert!(queue.submit(TAIL, "f", "me").is_ok());
    }

    #[test]
    fn cancel_while_waiting_running_and_after() {
        let queue = queue(1, 8, Duration::from_secs(60));
        let first = queue.submit("query", "a", "me").unwrap();
        let of_thread = queue.clone();
        let waiter = thread::spawn(move || of_thread.submit("query", "b", "me").err());
        until(&queue, |list| list.len() == 2);
        assert_eq!(queue.cancel(2), Cancel::Cancelled);
        assert_eq!(waiter.join().unwrap(), Some(QueueError::Cancelled));
        assert_eq!(queue.cancel(2), Cancel::Ended(State::Cancelled));
        assert_eq!(queue.cancel(1), Cancel::Cancelled);
        assert!(first.cancelled.load(Relaxed));
        first.finish(State::Failed, Some("x".to_owned()));
        assert_eq!(queue.get(1).unwrap().error.as_deref(), Some("x"));
        assert_eq!(queue.cancel(1), Cancel::Ended(State::Failed));
        assert_eq!(queue.cancel(77), Cancel::Unknown);
    }

    #[test]
    fn a_closed_queue_lets_nobody_in() {
        let queue = queue(1, 8, Duration::from_secs(60));
        let first = queue.submit("query", "a", "me").unwrap();
        let of_thread = queue.clone();
        let waiter = thread::spawn(move || of_thread.submit("query", "b", "me").err());
        until(&queue, |list| list.len() == 2);
        queue.close();
        assert_eq!(waiter.join().unwrap(), Some(QueueError::Closed));
        assert!(first.cancelled.load(Relaxed));
        assert_eq!(queue.submit("query", "c", "me").err(), Some(QueueError::Closed));
    }
}
