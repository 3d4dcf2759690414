//! Drops of the kernel by socket, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Sockets for datagrams, at most: each has a thread and a receive buffer.
pub const UDP_SOCKETS_MAX: usize = 64;

/// What the kernel dropped because the receive buffer of a socket was full, by socket. One that is
/// full while the others are not says that one sender is too fast.
#[derive(Debug)]
pub struct SocketDrops {
    opened: AtomicUsize,
    drops: [AtomicU64; UDP_SOCKETS_MAX],
}

impl Default for SocketDrops {
    fn default() -> Self {
        SocketDrops {
            opened: AtomicUsize::new(0),
            drops: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl SocketDrops {
    /// Sockets with these numbers, from 0, are there from now on.
    pub(crate) fn opened(&self, sockets: usize) {
        self.opened.fetch_max(sockets, Relaxed);
    }

    /// Counts what a socket dropped.
    pub(crate) fn dropped(&self, socket: usize, datagrams: u64) {
        self.drops[socket].fetch_add(datagrams, Relaxed);
    }

    /// Datagrams dropped so far, for each socket in the order of their numbers.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.drops.iter().take(self.opened.load(Relaxed)).map(|drops| drops.load(Relaxed))
    }
}
