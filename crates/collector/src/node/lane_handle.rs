//! The part of a store's lane ([`super::lane`]) that other threads see, and how they wake it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use mio::{Poll, Token, Waker};

use super::lock;
use super::status::{Link, StoreStatus};
use super::wire::StoreHealth;

/// Token of wake-ups; the lane's stream has another one.
const WAKER: Token = Token(0);

/// The part of a store's lane that other threads see, and how they wake it.
pub(super) struct LaneHandle {
    pub(super) address: String,
    waker: Waker,
    stopped: AtomicBool,
    pub(super) state: Mutex<LinkState>,
    pub(super) connects: AtomicU64,
    pub(super) frames_acknowledged: AtomicU64,
    pub(super) lines_acknowledged: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
}

/// State of a lane's connection.
pub(super) struct LinkState {
    /// The store's id, once it has identified itself.
    pub(super) store: Option<u32>,
    pub(super) link: Link,
    pub(super) since: Instant,
    pub(super) health: StoreHealth,
}

impl LaneHandle {
    /// The handle of a lane to the store at `address`, and the `Poll` that the lane waits with.
    pub(super) fn new(address: String) -> std::io::Result<(Self, Poll)> {
        let poll = Poll::new()?;
        let state = LinkState {
            store: None,
            link: Link::Connecting,
            since: Instant::now(),
            health: StoreHealth::Ok,
        };
        let handle = LaneHandle {
            address,
            waker: Waker::new(poll.registry(), WAKER)?,
            stopped: AtomicBool::new(false),
            state: Mutex::new(state),
            connects: AtomicU64::new(0),
            frames_acknowledged: AtomicU64::new(0),
            lines_acknowledged: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        };
        Ok((handle, poll))
    }

    /// Wakes the lane's thread to look for frames.
    pub(super) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "the thread of a store could not be woken");
        }
    }

    /// Records that nobody takes the lane's frames; returns whether this error is new.
    pub(super) fn set_away(&self, error: &str) -> bool {
        let mut state = lock(&self.state);
        let is_new = !matches!(&state.link, Link::Away { error: before } if before == error);
        if !matches!(state.link, Link::Away { .. }) {
            state.since = Instant::now();
        }
        state.link = Link::Away { error: error.to_owned() };
        is_new
    }

    /// Tells the lane's thread to end.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.wake();
    }

    /// Whether the lane's thread must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// The state of the lane. Bytes are 0 here, and there is no copy: the forwarder knows them.
    pub(super) fn status(&self) -> StoreStatus {
        let state = lock(&self.state);
        StoreStatus {
            address: self.address.clone(),
            copy: None,
            store: state.store,
            link: state.link.clone(),
            since: state.since,
            health: state.health,
            connects: self.connects.load(Relaxed),
            frames_acknowledged: self.frames_acknowledged.load(Relaxed),
            lines_acknowledged: self.lines_acknowledged.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            bytes_in_memory: 0,
            bytes_spooled: 0,
        }
    }
}
