//! The queue of queries: who may run, who waits, what ran lately.
//!
//! Each query gets a place, or waits for one in the order of arrival ([`places`]). Queries that
//! somebody waits for, those in the background, and live tails have places of their own. Every
//! query is listed while it waits, runs or is paused, and for a while after its end; those in the
//! background until they are [forgotten](Queue::forget), as their results are kept. It can be
//! cancelled whatever it does, and paused but for tails.
//!
//! Left out: what a background query is beyond its entry here (its results, and what of it outlives
//! the process), which is up to whoever entered it.

mod entry;
mod hold;
mod limits;
mod places;
#[cfg(test)]
mod tests;
mod ticket;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use entry::Entry;
pub use entry::QueryInfo;
pub use hold::Hold;
pub use limits::{QueueError, QueueLimits};
pub use places::State;
use places::{Class, ClassLimits, Places};
pub use ticket::{Permit, Ticket};

use crate::source::TimeRange;

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

    /// Lists a query that ended in a process before this one, under the id it had. What its entry
    /// says is that of `info`.
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

    /// Says which time a query covers, for whoever looks at the list.
    pub fn covers(&self, id: u64, range: TimeRange) {
        if let Some(entry) = self.shared.lock().entries.get_mut(&id) {
            entry.range = Some(range);
        }
    }

    /// Enters a query again that is listed as ended, under its id.
    ///
    /// # Panics
    ///
    /// When it is not listed, or has not ended.
    pub fn enter_again(&self, id: u64) -> Result<Ticket, QueueError> {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get_mut(&id).filter(|entry| entry.ended.is_some()) else {
            // All others go on with the queue.
            drop(inner);
            panic!("query {id} is not listed as ended");
        };
        let before = entry.times();
        let fresh = Entry::new(&entry.kind, &entry.query, &entry.client, entry.started);
        let range = entry.range;
        let was = std::mem::replace(entry, Entry { before, range, ..fresh });
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

    /// Lets a query wait, without a place, until it is resumed. One that runs stops within some
    /// milliseconds.
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
