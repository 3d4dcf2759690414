//! Delivery between processes: collectors that only hold waiting frames, and stores that keep
//! lines.
//!
//! ```text
//! sources → Forwarder ┬ lane → TCP → NodeListener → NodeStore      one of several stores
//!                     ├ lane → TCP → …
//!                     ├ log lane → a partition of a log                   in place of stores
//!                     └ spool: frames on disk while no store takes them
//!
//! sources → Copies ┬ Forwarder → lane → TCP → …                    a store of the first copy
//!                  └ Forwarder → lane → TCP → …                    a store of the second copy
//! ```
//!
//! - [`wire`]: the protocol (`docs/format/node-protocol.md`). [`sender`] and [`session`] are its
//!   two sides without input and output, so that a test can cut, delay and repeat as it likes.
//! - [`Forwarder`]: a [`Deliver`](crate::Deliver), the collector's side. [`spool`] and
//!   [`directory`] are what it keeps on disk.
//! - [`Copies`]: the same for several copies of all lines, each on stores of its own.
//! - [`NodeListener`]: the store's side, over a [`NodeStore`].
//!
//! Each frame gets a number for the store it is sent to, and keeps that number when it is resent.
//! The store keeps each number once, and reports when it is durable. So a store has every frame
//! that it acknowledged exactly once. A frame that it did not acknowledge is resent to it, and a
//! frame that was never sent to it may go to another store.
//!
//! Stores and collectors prove to each other that they know a [`secret`]. A store without a secret
//! should only listen on loopback.
//!
//! Left out: encryption, and distinguishing the collectors that know the secret. The protocol is
//! for a trusted network or a tunnel.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod directory;
pub mod secret;
pub mod sender;
pub mod session;
pub mod spool;
pub mod wire;

mod copies;
mod forward;
mod forward_state;
#[cfg(test)]
mod held_address;
mod lane;
mod lane_handle;
mod listen;
mod log_lane;
mod queue;
mod room;
#[cfg(test)]
mod simulation;
mod start;
mod status;

pub use copies::{Copies, forward};
pub use directory::Place;
pub use forward::{Forward, Forwarder, SPOOL_AFTER, WAITING_BYTES_MAX};
pub use forward_state::ForwardConfig;
pub use listen::{CONNECTIONS_MAX, Filler, NodeListenConfig, NodeListener, NodeStore};
pub use log_lane::{AppendLog, Appending};
pub use secret::Secret;
pub use start::ForwardError;
pub use status::{CollectorStatus, CopiesStatus, ForwardStatus, Link, SpoolStatus, StoreStatus};
pub use wire::{NODE_PROTOCOL_VERSION, StoreHealth};

/// A poisoned lock means that a thread panicked; the guarded data is consistent between statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
