//! The queue of queries: which queries may run, which wait, and which ran lately.
//!
//! A query needs a place to run. It gets a free one, or waits for one in order of arrival
//! ([`places`]). Interactive queries, background queries and live tails have separate places. Every
//! query is listed while it waits, runs or is paused, and for a while after its end. A background
//! query stays listed until it is [forgotten](Queue::forget), because its results are kept. Every
//! query can be cancelled in any state; all but tails can be paused.
//!
//! Left out: everything about a background query except its entry here. Its results, and whatever
//! outlives the process, belong to the caller that entered it.

mod entry;
mod limits;
mod owners;
mod places;
#[cfg(test)]
mod tests;
mod ticket;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

pub use entry::QueryInfo;
use entry::{QueueEntry, Sleep};
use limits::share_of_one;
pub use limits::{QueueError, QueueLimits};
pub use owners::{OwnerLimits, OwnerUsage, USAGE_MINUTES, Used};
pub use places::QueryState;
use places::{Class, ClassLimits, Places};
pub use ticket::{Permit, Ticket};

use crate::base::{Pauses, TimeRange};

/// How often a query that waits looks whether somebody's turn is over.
const TURN_LOOK: Duration = Duration::from_millis(100);

/// The kind of live tails.
pub const TAIL: &str = "tail";
/// The kind of shares of queries that other nodes answer.
pub const SHARE: &str = "share";
/// The kind of shares that this node asks other nodes for, for a node that answers a query.
pub const RELAY: &str = "relay";
/// The kind of exports.
pub const EXPORT: &str = "export";
/// The kind of background queries, whose results are kept.
pub const BACKGROUND: &str = "background";

fn class_of(kind: &str) -> Class {
    match kind {
        TAIL => Class::Tail,
        SHARE => Class::Share,
        RELAY => Class::Relay,
        EXPORT | BACKGROUND => Class::Background,
        _ => Class::Interactive,
    }
}

/// Result of a request to cancel a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The query will end soon, if it has not yet.
    Cancelled,
    /// The query had ended before, in this state.
    Ended(QueryState),
    /// There is no such query, or it ended long ago.
    Unknown,
}

/// Result of a request to pause or resume a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// The query is now in this state.
    Changed(QueryState),
    /// The query cannot be paused or resumed in this state.
    Refused(QueryState),
    /// The query is a tail, which cannot be paused.
    Endless,
    /// There is no such query, or it ended long ago.
    Unknown,
}

/// The queue. Clones are the same queue.
#[derive(Clone)]
pub struct QueryQueue {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Mutex<QueueLimits>,
    inner: Mutex<Inner>,
    /// Minutes of use are counted from here.
    begun: Instant,
}

struct Inner {
    last_id: u64,
    places: Places,
    entries: BTreeMap<u64, QueueEntry>,
    ended: VecDeque<u64>,
    closed: bool,
    owners: owners::Owners,
    usage: owners::Usage,
}

impl QueryQueue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> QueryQueue {
        let places = Places::new(of_classes(limits));
        let inner = Inner {
            last_id: 0,
            places,
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            closed: false,
            owners: owners::Owners::default(),
            usage: owners::Usage::default(),
        };
        let shared =
            Shared { limits: Mutex::new(limits), inner: Mutex::new(inner), begun: Instant::now() };
        QueryQueue { shared: Arc::new(shared) }
    }

    /// The limits.
    pub fn limits(&self) -> QueueLimits {
        self.shared.limits()
    }

    /// Changes the limits. Queries that run or wait stay.
    pub fn set_limits(&self, limits: QueueLimits) {
        *self.shared.limits.lock().expect("nothing panics inside") = limits;
        let mut inner = self.shared.lock();
        inner.places.set_limits(of_classes(limits));
        inner.wake_all();
    }

    /// Notes what the owner of that client may have, before it enters a query. Queries that run or
    /// wait stay.
    pub fn note_owner(&self, client: &str, limits: OwnerLimits) {
        self.shared.lock().owners.note(entry::owner_of(client), limits);
    }

    /// What each user and address has now, and had lately, by name.
    pub fn usage(&self) -> Vec<OwnerUsage> {
        let minute = self.shared.minute();
        let mut inner = self.shared.lock();
        let mut all: BTreeMap<String, OwnerUsage> = BTreeMap::new();
        for (owner, lately) in inner.usage.lately(minute) {
            all.insert(owner.clone(), OwnerUsage { owner, lately, ..OwnerUsage::default() });
        }
        for (&id, entry) in inner.entries.iter().filter(|(_, entry)| entry.ended.is_none()) {
            let owner = entry.owner().to_owned();
            let usage = all.entry(owner.clone()).or_default();
            usage.owner = owner;
            usage.memory_bytes += entry.progress.memory_bytes.load(Relaxed);
            match (entry.kind.as_str(), inner.places.state(id)) {
                (TAIL, _) => usage.tails += 1,
                (_, Some(QueryState::Running)) => usage.running += 1,
                _ => usage.waiting += 1,
            }
        }
        all.into_values().collect()
    }

    /// All later ids are greater than `last_id`.
    pub fn continue_ids(&self, last_id: u64) {
        let mut inner = self.shared.lock();
        inner.last_id = inner.last_id.max(last_id);
    }

    /// Enters a query, which then has a place or waits for one: [`Ticket::wait`].
    pub fn enter(&self, kind: &str, query: &str, client: &str) -> Result<Ticket, QueueError> {
        let mut inner = self.shared.lock();
        inner.last_id += 1;
        let id = inner.last_id;
        inner.entries.insert(id, QueueEntry::new(kind, query, client, SystemTime::now()));
        self.ticket(&mut inner, id).inspect_err(|error| {
            let owner = inner.entries[&id].owner().to_owned();
            let refused = Used { refused: 1, ..Used::default() };
            inner.usage.count(self.shared.minute(), &owner, &refused);
            if kind == BACKGROUND {
                // The caller never learns the id, so it could not forget the entry.
                inner.entries.remove(&id);
            } else {
                inner.end(
                    id,
                    QueryState::Failed,
                    Some(error.to_string()),
                    self.limits().finished_kept,
                );
            }
        })
    }

    /// Enters a query and waits for its place.
    pub fn submit(&self, kind: &str, query: &str, client: &str) -> Result<Permit, QueueError> {
        self.enter(kind, query, client)?.wait()
    }

    /// Lists a query that ended in an earlier process, under its old id. The entry is set from
    /// `info`.
    pub fn restore(&self, info: &QueryInfo) {
        assert!(info.state.is_ended(), "what runs is entered");
        let mut inner = self.shared.lock();
        let mut entry = QueueEntry::new(&info.kind, &info.query, &info.client, info.started);
        entry.ended = Some((info.state, entry.came));
        entry.before = (info.wait, info.run);
        entry.error.clone_from(&info.error);
        entry.restore_progress(info);
        inner.entries.insert(info.id, entry);
        inner.last_id = inner.last_id.max(info.id);
    }

    /// Records the time range that a query reads, for the list.
    pub fn covers(&self, id: u64, range: TimeRange) {
        if let Some(entry) = self.shared.lock().entries.get_mut(&id) {
            entry.range = Some(range);
        }
    }

    /// Enters an ended query again, under its id.
    ///
    /// # Panics
    ///
    /// When the query is not listed, or has not ended.
    pub fn enter_again(&self, id: u64) -> Result<Ticket, QueueError> {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get_mut(&id).filter(|entry| entry.ended.is_some()) else {
            // Without the lock, the panic does not poison the queue for others.
            drop(inner);
            panic!("query {id} is not listed as ended");
        };
        let before = entry.times();
        let fresh = QueueEntry::new(&entry.kind, &entry.query, &entry.client, entry.started);
        let range = entry.range;
        let was = std::mem::replace(entry, QueueEntry { before, range, ..fresh });
        self.ticket(&mut inner, id).inspect_err(|_| {
            // A query that is refused keeps its old entry.
            inner.entries.insert(id, was);
        })
    }

    fn ticket(&self, inner: &mut Inner, id: u64) -> Result<Ticket, QueueError> {
        if inner.closed {
            return Err(QueueError::Closed);
        }
        let limits = self.shared.limits();
        let class = class_of(&inner.entries[&id].kind);
        if let Some(error) = inner.share_taken(id, class, &limits) {
            return Err(error);
        }
        if inner.places.enter(id, class) {
            return Ok(Ticket { id, shared: Arc::clone(&self.shared), used: false });
        }
        Err(match class {
            Class::Interactive | Class::Share | Class::Relay => {
                QueueError::Full(limits.waiting_max)
            }
            Class::Background => QueueError::BackgroundFull(limits.background_waiting_max),
            Class::Tail => QueueError::TailsFull(limits.tails_max),
        })
    }

    /// All queries that wait, run, or ended lately, newest first.
    pub fn list(&self) -> Vec<QueryInfo> {
        let inner = self.shared.lock();
        inner.entries.iter().rev().map(|(&id, entry)| entry.info(id, &inner.places)).collect()
    }

    /// The entry of a query; none when it is not listed.
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
        inner.wake(id);
        Cancel::Cancelled
    }

    /// Takes a query's place away until it is resumed. A running query stops within milliseconds.
    pub fn pause(&self, id: u64) -> QueueChange {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return QueueChange::Unknown };
        if let Some((state, _)) = entry.ended {
            return QueueChange::Refused(state);
        }
        if entry.kind == TAIL {
            return QueueChange::Endless;
        }
        entry.pauses.request();
        inner.places.pause(id);
        inner.wake(id);
        inner.wake_next();
        QueueChange::Changed(QueryState::Paused)
    }

    /// Resumes a paused query, as soon as it has a place again.
    pub fn resume(&self, id: u64) -> QueueChange {
        let mut inner = self.shared.lock();
        let Some(entry) = inner.entries.get(&id) else { return QueueChange::Unknown };
        if let Some((state, _)) = entry.ended {
            return QueueChange::Refused(state);
        }
        let resumed = inner.places.resume(id);
        let state = inner.places.state(id).expect("it has not ended");
        inner.wake(id);
        inner.wake_next();
        if resumed { QueueChange::Changed(state) } else { QueueChange::Refused(state) }
    }

    /// Removes an ended query from the list.
    pub fn forget(&self, id: u64) {
        let mut inner = self.shared.lock();
        if inner.entries.get(&id).is_some_and(|entry| entry.ended.is_some()) {
            inner.entries.remove(&id);
            inner.ended.retain(|&ended| ended != id);
        }
    }

    /// Whether the queue is closed. Queries that end from then on do so because of the shutdown.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Cancels all queries and refuses new ones, for the shutdown of the server.
    pub fn close(&self) {
        let mut inner = self.shared.lock();
        inner.closed = true;
        inner.entries.values().for_each(|entry| entry.cancelled.store(true, Relaxed));
        inner.wake_all();
    }
}

/// The limits of each class, in their order.
fn of_classes(limits: QueueLimits) -> [ClassLimits; 5] {
    let class = |running_max, waiting_max| ClassLimits { running_max, waiting_max };
    [
        class(limits.concurrent_max, limits.waiting_max),
        class(limits.background_concurrent_max, limits.background_waiting_max),
        class(limits.tails_max, 0),
        // A share of an export takes hours. Other shares must not wait behind it.
        class(limits.concurrent_max + limits.background_concurrent_max, limits.waiting_max),
        class(limits.concurrent_max + limits.background_concurrent_max, limits.waiting_max),
    ]
}

impl Shared {
    /// The minutes since the queue was made.
    fn minute(&self) -> u64 {
        self.begun.elapsed().as_secs() / 60
    }

    fn limits(&self) -> QueueLimits {
        *self.limits.lock().expect("nothing panics inside")
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics inside")
    }

    /// Blocks while a query is paused, or waits for a place after its pause, and is not cancelled.
    /// Cancels it when the pause exceeds its limit: a paused query keeps its memory and its open
    /// files. The pause ends under the lock, so that no new one is lost.
    fn wait_for_resume(&self, id: u64, pauses: &Pauses, cancelled: &AtomicBool) {
        let mut paused_since: Option<Instant> = None;
        let mut inner = self.lock();
        while !cancelled.load(Relaxed) {
            inner = match inner.places.state(id) {
                Some(QueryState::Paused) => {
                    let since = paused_since.get_or_insert_with(Instant::now);
                    let left = self.limits().pause_max.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        pauses.expire(cancelled);
                        break;
                    }
                    inner.sleep(id, Sleep::ToWait, Some(left))
                }
                Some(QueryState::Waiting) => {
                    paused_since = None;
                    let limits = self.limits();
                    if inner.take_turn(id, &limits) {
                        continue;
                    }
                    inner.sleep(id, Sleep::ToLook, Some(TURN_LOOK.min(limits.turn)))
                }
                _ => break,
            };
        }
        if let Some(entry) = inner.entries.get_mut(&id) {
            entry.turn_from = Some(Instant::now());
        }
        pauses.end();
    }

    /// Ends a query that is in the queue.
    fn leave(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        id: u64,
        state: QueryState,
        error: Option<String>,
    ) {
        inner.places.leave(id);
        let entry = &inner.entries[&id];
        let (owner, used) = (entry.owner().to_owned(), entry.used());
        inner.usage.count(self.minute(), &owner, &used);
        inner.end(id, state, error, self.limits().finished_kept);
        inner.wake_next();
    }
}

/// The state of the queue, locked by the thread of a query.
trait Sleeper<'a> {
    /// Unlocks the queue until the query is woken or the time is over.
    fn sleep(self, id: u64, how: Sleep, time: Option<Duration>) -> Self;
}

impl<'a> Sleeper<'a> for MutexGuard<'a, Inner> {
    fn sleep(mut self, id: u64, how: Sleep, time: Option<Duration>) -> Self {
        let entry = self.entries.get_mut(&id).expect("it has not ended");
        entry.sleepers[how as usize] += 1;
        let woken = Arc::clone(&entry.woken);
        let mut inner = match time {
            None => woken.wait(self).expect("nothing panics inside"),
            Some(time) => woken.wait_timeout(self, time).expect("nothing panics inside").0,
        };
        inner.entries.get_mut(&id).expect("it has not ended").sleepers[how as usize] -= 1;
        inner
    }
}

impl Inner {
    /// Refuses a query whose user or address has its share already.
    fn share_taken(&self, id: u64, class: Class, limits: &QueueLimits) -> Option<QueueError> {
        let (whole, what, setting) = match class {
            Class::Interactive => {
                (limits.waiting_max + limits.concurrent_max, "queries", "query.waiting_max")
            }
            Class::Background => (
                limits.background_waiting_max + limits.background_concurrent_max,
                "exports and background queries",
                "query.background_waiting_max",
            ),
            Class::Tail => (limits.tails_max, "live tails", "query.tails_max"),
            Class::Share | Class::Relay => return None,
        };
        let owner = self.entries[&id].owner();
        let (mut held, mut of_others) = (0, 0);
        for (&other, entry) in &self.entries {
            if other != id && entry.ended.is_none() && class_of(&entry.kind) == class {
                held += usize::from(entry.owner() == owner);
                of_others += usize::from(!self.owners.of(entry.owner()).is_operator);
            }
        }
        owners::refusal(&self.owners.of(owner), class, (whole, what, setting), held, of_others)
    }

    /// Ends the turn of a query that has had one for long enough, so that `id` begins or goes on,
    /// if it is the first that waits. True if a turn ended.
    fn take_turn(&mut self, id: u64, limits: &QueueLimits) -> bool {
        let class = class_of(&self.entries[&id].kind);
        if class != Class::Interactive || !self.places.is_next(id) {
            return false;
        }
        let has_begun = self.entries[&id].ran_from.is_some();
        let running: Vec<u64> = self.places.running(class).collect();
        let begun = || running.iter().copied().chain(self.places.between_turns(class));
        let owner_of = |id: u64| self.entries[&id].owner();
        let of_owner = |ids: &mut dyn Iterator<Item = u64>, id| {
            ids.filter(|other| owner_of(*other) == owner_of(id)).count()
        };
        let begun_max = limits.begun_max();
        if !has_begun
            && (begun().count() >= begun_max
                || of_owner(&mut begun(), id) >= share_of_one(begun_max))
        {
            return false;
        }
        let over = running.iter().filter_map(|&id| {
            let turn = self.entries[&id].turn_from?.elapsed();
            (turn >= limits.turn).then(|| (of_owner(&mut running.iter().copied(), id), turn, id))
        });
        let Some((.., over)) = over.max() else { return false };
        let entry = self.entries.get_mut(&over).expect("it runs");
        entry.turn_from = None;
        entry.pauses.request();
        self.places.end_turn(over, id);
        self.wake_next();
        true
    }

    /// Wakes the threads of a query that sleep.
    fn wake(&self, id: u64) {
        if let Some(entry) = self.entries.get(&id).filter(|entry| entry.sleepers != [0, 0]) {
            entry.woken.notify_all();
        }
    }

    fn wake_next(&mut self) {
        self.next_to_wake().into_iter().for_each(|id| self.wake(id));
    }

    /// The queries that got places, and those that became the first of a line, which look from then
    /// on whether somebody's turn is over. Waking all that wait would take longer than a short
    /// query.
    fn next_to_wake(&mut self) -> Vec<u64> {
        let mut wake = self.places.take_admitted();
        let waits = |id: &u64| {
            self.entries.get(id).is_some_and(|entry| entry.sleepers[Sleep::ToWait as usize] > 0)
        };
        wake.extend(self.places.firsts().filter(waits));
        wake
    }

    fn wake_all(&mut self) {
        self.places.take_admitted();
        self.entries.keys().for_each(|id| self.wake(*id));
    }

    fn end(&mut self, id: u64, state: QueryState, error: Option<String>, finished_kept: usize) {
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
