//! Delivery between processes: collectors that keep nothing but what waits, and stores that keep
//! lines.
//!
//! ```text
//! sources → Forwarder ┬ lane → TCP → NodeListener → NodeStore      one of several stores
//!                     ├ lane → TCP → …
//!                     └ spool: frames on disk while no store takes them
//! ```
//!
//! - [`wire`]: the protocol (`docs/format/node-protocol.md`). [`sender`] and [`session`] are its
//!   two sides without input and output, so that a test can cut, delay and repeat as it likes.
//! - [`Forwarder`]: a [`Deliver`](crate::Deliver), the collector's side. [`spool`] and
//!   [`directory`] are what it keeps on disk.
//! - [`NodeListener`]: the store's side, over a [`NodeStore`].
//!
//! Each frame gets a number for the store it is sent to, and keeps it however often it is sent. The
//! store keeps a number once, and says when it is durable. So: what a store acknowledged it has,
//! once; what it did not acknowledge is sent to it again; what was never sent to it may go to
//! another.
//!
//! Stores and collectors prove to each other that they know a [`secret`]; without one, a store is
//! to listen on loopback alone.
//!
//! Left out: encryption, and which collector it is that knows the secret. The protocol is for a
//! trusted network, or a tunnel.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod directory;
pub mod secret;
pub mod sender;
pub mod session;
pub mod spool;
pub mod wire;

mod forward;
mod forward_state;
mod lane;
mod lane_handle;
mod listen;
mod queue;
#[cfg(test)]
mod simulation;
mod status;

pub use forward::{ForwardError, Forwarder, SPOOL_AFTER, WAITING_BYTES_MAX};
pub use forward_state::ForwardConfig;
pub use listen::{CONNECTIONS_MAX, NodeListenConfig, NodeListener, NodeStore};
pub use secret::Secret;
pub use status::{CollectorStatus, ForwardStatus, Link, SpoolStatus, StoreStatus};
pub use wire::{NODE_PROTOCOL_VERSION, NodeIdentity, StoreHealth};

/// A poisoned lock means that a thread of ours panicked; what it guards is consistent between
/// statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
