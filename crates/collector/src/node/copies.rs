//! Delivery to several copies of all lines: [`Copies`] gives each frame to one store of every copy.
//!
//! ```text
//! frame → stripe, number ┬ Forwarder of store s of the first copy:  queue, spool, lane
//!                        └ Forwarder of store s of the second copy: queue, spool, lane
//! ```
//!
//! All copies have equally many stores. The stores at one position of all copies are a *stripe*. A
//! frame gets its stripe and its number when it is delivered, before it goes to any store, so that
//! its lines have the same names in all copies. Store `s` of each copy gets the frames of stripe
//! `s`, and no others: they are never rerouted, and wait in the spool of that store while it is
//! away (`copy-1-store-2`, … below the spool directory).
//!
//! - A frame counts as kept when each copy has it: its store, or the spool of that store.
//! - Stripes take turns. One whose stores are all connected and have room goes before others.
//! - When for every stripe some store and its spool are full, senders are pushed back, although
//!   other copies may have room: otherwise lines would have one copy without anybody knowing.
//! - When this process is killed, frames in memory are lost, as those of a [`Forwarder`]; some of
//!   them may be in one copy already. Their sources were not told that they are kept.
//!
//! Invariants: the numbers that a queue gets ascend; a place among the copies belongs to one store
//! ([`Directory::claim_place`]). Left out: copying lines from one copy to another,
//! which `loginson cluster repair` does.
//!
//! Lock order: turn, then directory or queue.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use platform::{Disk, DiskLock};
use record::Frame;

use super::directory::{Directory, DirectoryError, NumberOwner, Place};
use super::forward::{AWAITED_MAX, Forward, Forwarder, SPOOL_RETRY};
use super::forward_state::{ForwardConfig, OneOfCopies};
use super::lock;
use super::room::Room;
use super::start::{ForwardError, check_empty, open_directory, retire_places, spool_dir};
use super::status::{CopiesStatus, ForwardStatus, SpoolStatus};
use crate::deliver::{Deliver, KeepError, OnDurable, Patience};

/// Starts to deliver each frame to one of several stores, or to one store of each copy.
pub fn forward(
    config: ForwardConfig,
    disk: Arc<dyn Disk>,
) -> Result<Arc<dyn Forward>, ForwardError> {
    Ok(match config.copies.is_empty() {
        true => Arc::new(Forwarder::start(config, disk)?),
        false => Arc::new(Copies::start(config, disk)?),
    })
}

/// Delivers each frame to one store of every copy. Dropping it stops it, as
/// [`stop`](Forward::stop) does.
pub struct Copies {
    /// By stripe, then by copy.
    stripes: Vec<Vec<Forwarder>>,
    directory: Arc<Mutex<Directory>>,
    turn: Mutex<Turn>,
    room: Arc<Room>,
    closing: AtomicBool,
    frames_held_back: AtomicU64,
    node: u32,
    sequence: AtomicU64,
    _lock: Box<dyn DiskLock>,
}

/// Held while a frame gets its number and is given to all copies.
struct Turn {
    /// The stripe that is tried first for the next frame.
    stripe: usize,
    closed: bool,
}

impl Copies {
    /// Opens the spool directories and starts to connect. Frames are accepted from now on.
    pub fn start(config: ForwardConfig, disk: Arc<dyn Disk>) -> Result<Copies, ForwardError> {
        assert!(!config.copies.is_empty(), "there is a copy to deliver to");
        let sizes: Vec<usize> = config.copies.iter().map(Vec::len).collect();
        if sizes.contains(&0) || sizes.iter().any(|size| *size != sizes[0]) {
            return Err(ForwardError::Uneven(sizes));
        }
        let root = &config.spool_dir;
        let (lock, mut directory) = open_directory(root, &disk)?;
        let node = directory.identity().node;
        check_empty(root, None, node, &disk)?;
        let stripes = 0..sizes[0] as u32;
        let stripe = |stripe| (0..sizes.len() as u32).map(move |copy| Place { copy, stripe });
        let places: Vec<Place> = stripes.clone().flat_map(stripe).collect();
        for place in &places {
            let dir = spool_dir(root, *place);
            disk.create_dir_all(&dir).map_err(DirectoryError::io(&dir, "create"))?;
        }
        disk.sync_dir(root).map_err(DirectoryError::io(root, "sync"))?;
        retire_places(&mut directory, &places, &config.lost_stores, root, &disk)?;
        for stripe in stripes.clone() {
            // Each stripe has its range of numbers before stores are told where it begins.
            directory.issue_numbers(NumberOwner::Stripe(stripe), 0)?;
        }
        let directory = Arc::new(Mutex::new(directory));
        let room = Arc::<Room>::default();
        let start = |place: Place| {
            let store = &config.copies[place.copy as usize][place.stripe as usize];
            let one = ForwardConfig {
                stores: vec![store.clone()],
                copies: Vec::new(),
                lost_stores: Vec::new(),
                spool_dir: spool_dir(root, place),
                spool_bytes_max: config.spool_bytes_max / places.len() as u64,
                ..config.clone()
            };
            let lines_in_memory = Arc::default();
            let copy = OneOfCopies { place, room: Arc::clone(&room), lines_in_memory };
            Forwarder::start_in(one, Arc::clone(&disk), Arc::clone(&directory), Some(copy))
        };
        let stripes = stripes.map(|index| stripe(index).map(start).collect());
        Ok(Copies {
            stripes: stripes.collect::<Result<_, ForwardError>>()?,
            directory,
            turn: Mutex::new(Turn { stripe: 0, closed: false }),
            room,
            closing: AtomicBool::new(false),
            frames_held_back: AtomicU64::new(0),
            node,
            sequence: AtomicU64::new(1),
            _lock: lock,
        })
    }

    fn stores(&self) -> impl Iterator<Item = &Forwarder> {
        self.stripes.iter().flatten()
    }

    /// The stripe for the next frame: one whose stores are all connected and have room, or else one
    /// where each has room in memory.
    fn choose(&self, turn: &Turn, bytes: usize) -> Option<usize> {
        let count = self.stripes.len();
        [true, false].into_iter().find_map(|at_once| {
            let turns = (0..count).map(|step| (turn.stripe + step) % count);
            turns.into_iter().find(|&stripe| {
                self.stripes[stripe].iter().all(|store| store.accepts(bytes, at_once))
            })
        })
    }

    /// Gives a frame to all copies, if there is room, and a number can be issued.
    fn try_deliver(&self, frame: &mut Frame, delivery: &Arc<Delivery>) -> Result<(), KeepError> {
        let mut turn = lock(&self.turn);
        if turn.closed {
            return Err(KeepError::Closed);
        }
        let stripe = self.choose(&turn, frame.bytes().len()).ok_or(KeepError::NoRoom)?;
        let number = lock(&self.directory).issue_numbers(NumberOwner::Stripe(stripe as u32), 1);
        let number = number.map_err(|error| KeepError::Failed(error.to_string()))?;
        turn.stripe = (stripe + 1) % self.stripes.len();
        // All copies share the bytes.
        frame.set_sequence(number);
        for store in &self.stripes[stripe] {
            let delivery = Arc::clone(delivery);
            let on_durable = Box::new(move |result| delivery.finish(result));
            store.push_numbered(frame.clone(), number, on_durable);
        }
        Ok(())
    }
}

impl Deliver for Copies {
    /// Numbers of this process only: a frame gets its final number with its stripe.
    fn next_sequence(&self) -> (u32, u64) {
        (self.node, self.sequence.fetch_add(1, Relaxed))
    }

    fn deliver(
        &self,
        mut frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        let since = Instant::now();
        let delivery = Arc::new(Delivery::new(self.stripes[0].len(), on_durable));
        let mut held_back = false;
        let error = loop {
            let seen = self.room.seen();
            let Err(error) = self.try_deliver(&mut frame, &delivery) else { return Ok(()) };
            if error == KeepError::Closed || self.closing.load(Relaxed) {
                break KeepError::Closed;
            }
            if patience == Patience::Awaited && since.elapsed() >= AWAITED_MAX {
                break error;
            }
            if !std::mem::replace(&mut held_back, true) {
                self.frames_held_back.fetch_add(1, Relaxed);
                if let KeepError::Failed(error) = &error {
                    tracing::error!("{error}; senders wait until a number can be issued");
                }
            }
            self.room.wait(seen, SPOOL_RETRY);
        };
        delivery.give_up(error.clone());
        Err(error)
    }

    fn has_room(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.iter().all(Forwarder::has_room))
    }

    fn is_spooling(&self) -> bool {
        self.stores().any(Forwarder::is_spooling)
    }

    /// A stripe takes nothing while one of its stores has no room: each copy needs the lines.
    fn refusal(&self) -> Option<KeepError> {
        if lock(&self.turn).closed {
            return Some(KeepError::Closed);
        }
        let is_full = |store: &Forwarder| store.refusal() == Some(KeepError::NoRoom);
        let all_full = self.stripes.iter().all(|stripe| stripe.iter().any(is_full));
        all_full.then_some(KeepError::NoRoom)
    }
}

impl Forward for Copies {
    fn begin_stop(&self) {
        self.closing.store(true, Relaxed);
        self.stores().for_each(Forwarder::begin_stop);
        self.room.signal();
    }

    fn stop(&self) {
        lock(&self.turn).closed = true;
        self.begin_stop();
        std::thread::scope(|scope| {
            for store in self.stores() {
                scope.spawn(|| store.stop());
            }
        });
    }

    fn status(&self) -> ForwardStatus {
        let by_stripe: Vec<Vec<ForwardStatus>> = self
            .stripes
            .iter()
            .map(|stripe| stripe.iter().map(Forwarder::status).collect())
            .collect();
        let ready = by_stripe.iter().any(|stripe| stripe.iter().all(|store| store.ready));
        let missing: Vec<Vec<u64>> = self
            .stripes
            .iter()
            .map(|stripe| stripe.iter().map(Forwarder::lines_missing).collect())
            .collect();
        let copies = 0..missing[0].len();
        let copies = CopiesStatus {
            lines_single: missing.iter().map(|stripe| lines_single(stripe)).sum(),
            frames_held_back: self.frames_held_back.load(Relaxed),
            lines_missing: copies.map(|c| missing.iter().map(|stripe| stripe[c]).sum()).collect(),
        };
        let all = || by_stripe.iter().flatten();
        let mut stores: Vec<_> = all().flat_map(|store| store.stores.clone()).collect();
        // In the order of the configuration; within a copy they are in that order already.
        stores.sort_by_key(|store| store.copy);
        ForwardStatus {
            node: self.node,
            waiting_bytes: all().map(|store| store.waiting_bytes).sum(),
            spool: SpoolStatus {
                bytes: all().map(|store| store.spool.bytes).sum(),
                bytes_max: all().map(|store| store.spool.bytes_max).sum(),
                lines: all().map(|store| store.spool.lines).sum(),
                lines_damaged: all().map(|store| store.spool.lines_damaged).sum(),
                full: all().any(|store| store.spool.full),
            },
            stores,
            bound_elsewhere: all().flat_map(|store| store.bound_elsewhere.clone()).collect(),
            ready,
            copies: Some(copies),
            threads_failed: all().map(|store| store.threads_failed).sum(),
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One frame on its way to all copies.
struct Delivery {
    /// Copies that have not finished.
    left: AtomicUsize,
    outcome: Mutex<(Result<(), KeepError>, Option<OnDurable>)>,
}

impl Delivery {
    fn new(copies: usize, on_durable: OnDurable) -> Delivery {
        Delivery { left: AtomicUsize::new(copies), outcome: Mutex::new((Ok(()), Some(on_durable))) }
    }

    /// A copy has the frame, or will not have it. The last one notifies the source.
    fn finish(&self, result: Result<(), KeepError>) {
        let mut outcome = lock(&self.outcome);
        if outcome.0.is_ok() {
            outcome.0 = result;
        }
        // Under the lock, so that the last one sees the results of all.
        if self.left.fetch_sub(1, Relaxed) == 1
            && let Some(on_durable) = outcome.1.take()
        {
            let result = outcome.0.clone();
            drop(outcome);
            on_durable(result);
        }
    }

    /// The frame went to no copy.
    fn give_up(&self, error: KeepError) {
        let on_durable = lock(&self.outcome).1.take();
        if let Some(on_durable) = on_durable {
            on_durable(Err(error));
        }
    }
}

/// Lines of a stripe that only one copy has. A copy is behind by its last `missing` lines, so
/// those that all copies but one miss are the ones that the second best misses more than the best.
fn lines_single(missing: &[u64]) -> u64 {
    let mut missing = missing.to_vec();
    missing.sort_unstable();
    missing.get(1).map_or(0, |second| second - missing[0])
}
