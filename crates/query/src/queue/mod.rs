//! The queue of queries: who may run, who waits, what ran lately.
//!
//! Each query gets a place, or waits for one in the order of arrival ([`places`]). Queries that somebody waits for, those in
//! the background, and live tails have places of their own. Every query is listed while it waits, runs or is paused, and
//! for a while after its end; those in the background until they are [forgotten](Queue::forget), as their results are kept. It
//! can be cancelled whatever it does, and paused but for tails.
//!
//! Left out: what a background query is beyond its entry here (its results, and what of it outlives the process), which is up
//! to whoever entered it.

mod hold;
mod places;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use hold::Held;
pub use hold::Hold;
pub use places::State;
use places::{Class, ClassLimits, Places};

use crate::run::Progress;

/// Limits of the queue. Each says what happens beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Queries that run at once; further ones wait. `query.concurrent_max`.
    pub concurrent_max: usize,
    /// Queries that wait or are paused; further ones are refused. `query.waiting_max`.
    pub waiting_max: usize,
    /// Time a query waits before it is refused, but for those in the background. `query.wait_s_max`.
    pub wait_max: Duration,
    /// Exports and background queries that run at once; further ones wait. `query.background_concurrent_max`.
    pub background_concurrent_max: usize,
    /// Exports and background queries that wait or are paused; further ones are refused. `query.background_waiting_max`.
    pub background_waiting_max: usize,
    /// Time a query is paused before it is ended, to give its memory and files back. `query.pause_s_max`.
    pub pause_max: Duration,
    /// Ended queries that are still listed, beside those in the background; older ones are forgotten.
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
            background_concurrent_max: 2,
            background_waiting_max: 32,
            pause_max: Duration::from_secs(3600),
            finished_kept: 100,
            tails_max: 100,
        }
    }
}

/// Bytes of a query's text that are listed; the rest is cut off.
const LISTED_TEXT_BYTES_MAX: usize = 4_096;
/// A query that has done less says nothing of the time that is left.
const PROGRESS_MIN: f64 = 0.005;

/// The kind of queries that are live tails.
pub const TAIL: &str = "tail";
/// The kind of queries that are exports.
pub const EXPORT: &str = "export";
/// The kind of queries whose results are kept.
pub const BACKGROUND: &str = "background";

fn class_of(kind: &str) -> Class {
    match kind {
        TAIL => Class::Tail,
        EXPORT | BACKGROUND => Class::Background,
        _ => Class::Interactive,
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
    /// Too many exports and background queries wait already.
    #[error(
        "{0} exports and background queries wait or are paused already; try again later, cancel some, or raise \
         query.background_waiting_max or query.background_concurrent_max"
    )]
    BackgroundFull(usize),
    /// No place for an export became free in time.
    #[error(
        "no place for the export became free in {0} s; try again later, ask for it in the background, or raise \
         query.background_concurrent_max or query.wait_s_max"
    )]
    ExportWaitedTooLong(u64),
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

/// What came of the wish to pause or resume a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is like this now.
    Changed(State),
    /// It cannot be, as it is like this.
    Refused(State),
    /// It is a tail, which cannot be paused.
    Endless,
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
    /// Its place in line, from 1, while it waits.
    pub position: Option<usize>,
    /// When it came in.
    pub started: SystemTime,
    /// How long it waited for a place.
    pub wait: Duration,
    /// How long it has run, or ran, without pauses.
    pub run: Duration,
    /// How long it will run on, if what is left takes as long as what is done; while it runs.
    pub left: Option<Duration>,
    /// Share of the work that is done, from 0 to 1.
    pub progress: f64,
    /// Blocks and frames to read; 0 until that is known.
    pub blocks_planned: u64,
    /// Those that are read, or were found to be unnecessary.
    pub blocks_done: u64,
    /// Bytes of raw lines in the planned ones.
    pub bytes_planned: u64,
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
    /// A place was given or left, somebody was cancelled or paused, or the queue was closed.
    changed: Condvar,
}

struct Inner {
    last_id: u64,
    places: Places,
    entries: BTreeMap<u64, Entry>,
    ended: VecDeque<u64>,
    closed: bool,
}

struct Entry {
    kind: String,
    query: String,
    client: String,
    started: SystemTime,
    came: Instant,
    ran_from: Option<Instant>,
    /// How it ended, and when; none while it has a place, waits, or is paused.
    ended: Option<(State, Instant)>,
    /// Time that it waited and ran in a process before this one.
    before: (Duration, Duration),
    error: Option<String>,
    progress: Arc<Progress>,
    cancelled: Arc<AtomicBool>,
    held: Arc<Held>,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Queue {
        let class = |running_max, waiting_max| ClassLimits { running_max, waiting_max };
        let places = Places::new([
            class(limits.concurrent_max, limits.waiting_max),
            class(limits.background_concurrent_max, limits.background_waiting_max),
            class(limits.tails_max, 0),
        ]);
        let inner = Inner {
            last_id: 0,
            places,
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            closed: false,
        };
        let shared = Shared { limits, inner: Mutex::new(inner), changed: Condvar::new() };
        Queue { shared: Arc::new(shared) }
    }

    /// The limits.
    pub fn limits(&self) -> QueueLimits {
        self.shared.limits
    }

    /// Ids are greater than that from now on.
    pub fn continue_ids(&self, last_id: u64) {
        let mut inner = self.shared.lock();
        inner.last_id = inner.last_id.max(last_id);
    }

    /// Enters a query, which has a place then or waits for one: [`Ticket::wait`].
    pub fn enter(&self, kind: &str, query: &str, client: &str) -> Result<Ticket, QueueError> {
        let mut inner = self.shared.lock();
        inner.last_id += 1;
        let id = inner.last_id;
        inner.entries.insert(id, Entry::new(kind, query, client, SystemTime::now()));
        self.ticket(&mut inner, id).inspect_err(|error| {
            if kind == BACKGROUND {
                // It would be listed until it is forgotten, and nobody knows of it.
                inner.entries.remove(&id);
            } else {
                inner.end(id, State::Failed, Some(error.to_string()), self.limits().finished_kept);
            }
        })
    }

    /// Enters a query and waits for its place.
    pub fn submit(&self, kind: &str, query: &str, client: &str) -> Result<Permit, QueueError> {
        self.enter(kind, query, client)?.wait()
    }

    /// Lists a query that ended in a process before this one, under the id it had. What its entry says is that of `info`.
    pub fn restore(&self, info: &QueryInfo) {
        assert!(info.state.is_ended(), "what runs is entered");
        let mut inner = self.shared.lock();
        let mut entry = Entry::new(&info.kind, &info.query, &info.client, info.started);
        entry.ended = Some((info.state, entry.came));
        entry.before = (info.wait, info.run);
        entry.error.clone_from(&info.error);
        entry.progress.restore(info);
        inner.entries.insert(info.id, entry);
        inner.last_id = inner.last_id.max(info.id);
    }

    /// Enters a query again that is listed as ended, under its id.
    ///
    /// # Panics
    ///
    /// When it is not listed, or has not ended.
    pub fn enter_again(&self, id: u64) -> Result<Ticket, QueueError> {
        let mut inner = self.shared.lock();
        let entry = inner.entries.get_mut(&id).expect("it is listed");
        let before = entry.ended.is_some().then(|| entry.times()).expect("it has ended");
        let fresh = Entry::new(&entry.kind, &entry.query, &entry.client, entry.started);
        let was = std::mem::replace(entry, Entry { before, ..fresh });
        self.ticket(&mut inner, id).inspect_err(|_| {
            // It stays what it was.
            inner.entries.insert(id, was);
        })
    }

    fn ticket(&self, inner: &mut Inner, id: u64) -> Result<Ticket, QueueError> {
        if inner.closed {
            return Err(QueueError::Closed);
        }
        let limits = &self.shared.limits;
        let class = class_of(&inner.entries[&id].kind);
        if inner.places.enter(id, class) {
            return Ok(Ticket { id, shared: Arc::clone(&self.shared), used: false });
        }
        Err(match class {
            Class::Interactive => QueueError::Full(limits.waiting_max),
            Class::Background => QueueError::BackgroundFull(limits.background_waiting_max),
            Class::Tail => QueueError::TailsFull(limits.tails_max),
        })
    }

    /// All queries that wait, run or ended lately, newest first.
    pub fn list(&self) -> Vec<QueryInfo> {
        let inner = self.shared.lock();
        inner.entries.iter().rev().map(|(&id, entry)| entry.info(id, &inner.places)).collect()
    }

    /// One query.
    pub fn get(&self, id: u64) -> Option<QueryInfo> {
        let inner = self.shared.lock();
        inner.entries.get(&id).map(|entry| entry.info(id, &inner.places))
    }

    /// Ends a query that waits, runs or is paused.
    pub fn cancel(&self, id: u64) -> Cancel {
        let inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return Cancel::Unknown };
        if let Some((state, _)) = entry.ended {
            return Cancel::Ended(state);
        }
        entry.cancelled.store(true, Relaxed);
        self.shared.changed.notify_all();
        Cancel::Cancelled
    }

    /// Lets a query wait, without a place, until it is resumed. One that runs stops within some milliseconds.
    pub fn pause(&self, id: u64) -> Change {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return Change::Unknown };
        if let Some((state, _)) = entry.ended {
            return Change::Refused(state);
        }
        if entry.kind == TAIL {
            return Change::Endless;
        }
        entry.held.ask();
        inner.places.pause(id);
        self.shared.changed.notify_all();
        Change::Changed(State::Paused)
    }

    /// Lets a paused query go on, as soon as it has a place again.
    pub fn resume(&self, id: u64) -> Change {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return Change::Unknown };
        if let Some((state, _)) = entry.ended {
            return Change::Refused(state);
        }
        let resumed = inner.places.resume(id);
        let state = inner.places.state(id).expect("it has not ended");
        self.shared.changed.notify_all();
        if resumed { Change::Changed(state) } else { Change::Refused(state) }
    }

    /// Lists a query no more that has ended.
    pub fn forget(&self, id: u64) {
        let mut inner = self.shared.lock();
        if inner.entries.get(&id).is_some_and(|entry| entry.ended.is_some()) {
            inner.entries.remove(&id);
            inner.ended.retain(|&ended| ended != id);
        }
    }

    /// Whether it is closed: what ends now did so because the server ends.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
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

    /// Ends a query that is here.
    fn leave(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        id: u64,
        state: State,
        error: Option<String>,
    ) {
        inner.places.leave(id);
        inner.end(id, state, error, self.limits.finished_kept);
        self.changed.notify_all();
    }
}

impl Inner {
    fn end(&mut self, id: u64, state: State, error: Option<String>, finished_kept: usize) {
        let entry = self.entries.get_mut(&id).expect("a query ends once");
        entry.error = error;
        entry.ended = Some((state, Instant::now()));
        entry.progress.memory_bytes.store(0, Relaxed);
        if entry.kind == BACKGROUND {
            return;
        }
        self.ended.push_back(id);
        while self.ended.len() > finished_kept {
            let oldest = self.ended.pop_front().expect("not empty");
            self.entries.remove(&oldest);
        }
    }
}

impl Entry {
    fn new(kind: &str, query: &str, client: &str, started: SystemTime) -> Entry {
        let cut = query.floor_char_boundary(LISTED_TEXT_BYTES_MAX);
        Entry {
            kind: kind.to_owned(),
            query: query[..cut].to_owned(),
            client: client.to_owned(),
            started,
            came: Instant::now(),
            ran_from: None,
            ended: None,
            before: (Duration::ZERO, Duration::ZERO),
            error: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
            held: Arc::default(),
        }
    }

    /// How long it waited for its place, and ran without pauses.
    fn times(&self) -> (Duration, Duration) {
        let end = self.ended.map_or_else(Instant::now, |(_, at)| at);
        let wait = self.ran_from.unwrap_or(end).saturating_duration_since(self.came);
        let since =
            self.ran_from.map_or(Duration::ZERO, |from| end.saturating_duration_since(from));
        let run = since.saturating_sub(self.held.time(end));
        (self.before.0 + wait, self.before.1 + run)
    }

    fn info(&self, id: u64, places: &Places) -> QueryInfo {
        let progress = &self.progress;
        let live = || places.state(id).expect("it has not ended");
        let state = self.ended.map_or_else(live, |(state, _)| state);
        let share = if state == State::Done { 1.0 } else { progress.share() };
        let (wait, run) = self.times();
        let left = (state == State::Running && share >= PROGRESS_MIN)
            .then(|| (run - self.before.1).mul_f64((1.0 - share) / share));
        QueryInfo {
            id,
            kind: self.kind.clone(),
            query: self.query.clone(),
            state,
            position: places.position(id),
            started: self.started,
            wait,
            run,
            left,
            progress: share,
            blocks_planned: progress.units_planned.load(Relaxed),
            blocks_done: progress.units_done.load(Relaxed),
            bytes_planned: progress.bytes_planned.load(Relaxed),
            bytes_scanned: progress.bytes_scanned.load(Relaxed),
            lines_scanned: progress.lines_scanned.load(Relaxed),
            rows: progress.rows.load(Relaxed),
            memory_bytes: progress.memory_bytes.load(Relaxed),
            error: self.error.clone(),
            client: self.client.clone(),
        }
    }
}

/// A place, or a turn in the line for one. Dropping it without waiting leaves the queue without a trace.
pub struct Ticket {
    id: u64,
    shared: Arc<Shared>,
    used: bool,
}

impl Ticket {
    /// Names the query.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits until the query has a place. Blocks the thread, up to [`QueueLimits::wait_max`]; those in the background wait
    /// as long as it takes.
    pub fn wait(mut self) -> Result<Permit, QueueError> {
        self.used = true;
        let (id, shared) = (self.id, &*self.shared);
        let mut until = None;
        let mut inner = shared.lock();
        let error = loop {
            let closed = inner.closed;
            let state = inner.places.state(id).expect("it has not ended");
            let entry = inner.entries.get_mut(&id).expect("it has not ended");
            let patient = state == State::Paused || entry.kind == BACKGROUND;
            let wait_max = shared.limits.wait_max;
            until = until.or_else(|| Instant::now().checked_add(wait_max)).filter(|_| !patient);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let cancelled = entry.cancelled.load(Relaxed);
            if closed {
                break QueueError::Closed;
            } else if cancelled {
                break QueueError::Cancelled;
            } else if state == State::Running {
                entry.ran_from = Some(Instant::now());
                entry.held.run();
                return Ok(Permit {
                    id,
                    cancelled: Arc::clone(&entry.cancelled),
                    progress: Arc::clone(&entry.progress),
                    hold: Hold::of(id, &self.shared, &entry.held),
                    shared: Arc::clone(&self.shared),
                    left: false,
                });
            }
            match left {
                None => inner = shared.changed.wait(inner).expect("nothing panics inside"),
                Some(Duration::ZERO) => {
                    let seconds = wait_max.as_secs();
                    break match class_of(&inner.entries[&id].kind) {
                        Class::Background => QueueError::ExportWaitedTooLong(seconds),
                        _ => QueueError::WaitedTooLong(seconds),
                    };
                }
                Some(left) => {
                    let waited = shared.changed.wait_timeout(inner, left);
                    inner = waited.expect("nothing panics inside").0;
                }
            }
        };
        let state = match error {
            QueueError::Cancelled => State::Cancelled,
            QueueError::Closed => State::Interrupted,
            _ => State::Failed,
        };
        shared.leave(inner, id, state, Some(error.to_string()));
        Err(error)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.used {
            let mut inner = self.shared.lock();
            inner.places.leave(self.id);
            inner.entries.remove(&self.id);
            self.shared.changed.notify_all();
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
    /// By which it is paused.
    pub hold: Hold,
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
        self.shared.leave(self.shared.lock(), self.id, state, error);
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
            background_concurrent_max: 1,
            background_waiting_max: 1,
            finished_kept: 3,
            tails_max,
            ..QueueLimits::default()
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

    #[test]
    fn background_queries_are_in_nobodys_way() {
        let queue = queue(1, 0, Duration::ZERO);
        let first = queue.enter(BACKGROUND, "a", "me").unwrap();
        let second = queue.enter(BACKGROUND, "b", "me").unwrap();
        let error = queue.enter(EXPORT, "c", "me").err().unwrap();
        assert!(error.to_string().contains("query.background_waiting_max"), "{error}");
        let interactive = queue.submit("query", "d", "me").unwrap();
        drop(second);
        // An export is waited for, so it does not wait for ever.
        let error = queue.submit(EXPORT, "c", "me").err().unwrap();
        assert!(error.to_string().contains("query.background_concurrent_max"), "{error}");
        let permit = first.wait().unwrap();
        let id = permit.id();
        permit.finish(State::Done, None);
        for _ in 0..4 {
            drop(queue.submit(EXPORT, "e", "me").unwrap());
        }
        assert!(queue.get(id).is_some(), "its results are still there");
        queue.forget(id);
        assert!(queue.get(id).is_none());
        drop(interactive);
    }

    #[test]
    fn who_is_paused_gives_the_place_up_and_waits_for_another() {
        let queue = queue(1, 8, Duration::from_secs(60));
        let first = queue.submit("query", "a", "me").unwrap();
        let (of_thread, cancelled) = (queue.clone(), Arc::clone(&first.cancelled));
        assert_eq!(queue.pause(1), Change::Changed(State::Paused));
        assert_eq!(queue.pause(1), Change::Changed(State::Paused));
        let hold = first.hold.clone();
        let paused = thread::spawn(move || hold.pass(&cancelled));
        let second = queue.submit("query", "b", "me").unwrap();
        assert_eq!(queue.resume(1), Change::Changed(State::Waiting));
        assert_eq!(queue.get(1).unwrap().position, Some(1));
        assert_eq!(queue.resume(1), Change::Refused(State::Waiting));
        assert!(!paused.is_finished());
        drop(second);
        paused.join().unwrap();
        assert_eq!(of_thread.get(1).unwrap().state, State::Running);
        // Paused again, and cancelled.
        queue.pause(1);
        assert_eq!(queue.cancel(1), Cancel::Cancelled);
        first.hold.pass(&first.cancelled);
        assert!(!first.hold.expired());
        drop(first);
        assert_eq!(states(&queue)[1], (1, "cancelled"));
        assert_eq!(queue.resume(1), Change::Refused(State::Cancelled));
        assert_eq!(queue.pause(99), Change::Unknown);
        let tail = queue.submit(TAIL, "c", "me").unwrap();
        assert_eq!(queue.pause(tail.id()), Change::Endless);
    }

    #[test]
    fn a_pause_has_an_end() {
        let limits = QueueLimits { pause_max: Duration::ZERO, ..QueueLimits::default() };
        let queue = Queue::new(limits);
        let permit = queue.submit(BACKGROUND, "a", "me").unwrap();
        queue.pause(permit.id());
        permit.hold.pass(&permit.cancelled);
        assert!(permit.hold.expired() && permit.cancelled.load(Relaxed));
    }

    #[test]
    fn what_was_interrupted_is_listed_and_enters_again() {
        let before = queue(1, 8, Duration::ZERO);
        let permit = before.submit(BACKGROUND, "a", "me").unwrap();
        permit.progress.bytes_planned.store(10, Relaxed);
        permit.progress.bytes_scanned.store(5, Relaxed);
        permit.finish(State::Interrupted, None);
        let info = before.get(1).unwrap();

        let after = queue(1, 8, Duration::ZERO);
        after.restore(&info);
        assert_eq!(
            (after.get(1).unwrap().state, after.get(1).unwrap().progress),
            (info.state, 0.5)
        );
        assert_eq!(after.cancel(1), Cancel::Ended(State::Interrupted));
        let permit = after.enter_again(1).unwrap().wait().unwrap();
        assert_eq!((permit.id(), after.get(1).unwrap().state), (1, State::Running));
        drop(permit);
        assert_eq!(after.get(1).unwrap().state, State::Done);
        assert_eq!(after.submit("query", "b", "me").unwrap().id(), 2);
    }
}
