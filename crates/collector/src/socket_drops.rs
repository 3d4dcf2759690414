//! Datagrams dropped by the kernel, by socket, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// UDP sockets at most: each has a thread and a receive buffer.
pub const UDP_SOCKETS_MAX: usize = 64;

/// Datagrams the kernel dropped because the receive buffer of a socket was full, by socket. If one
/// socket drops and the others do not, a single sender is too fast.
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
    /// Registers sockets with the numbers below `sockets`.
    pub(crate) fn opened(&self, sockets: usize) {
        self.opened.fetch_max(sockets, Relaxed);
    }

    /// Adds datagrams that a socket dropped.
    pub(crate) fn dropped(&self, socket: usize, datagrams: u64) {
        self.drops[socket].fetch_add(datagrams, Relaxed);
    }

    /// Datagrams dropped so far, in the order of socket numbers.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.drops.iter().take(self.opened.load(Relaxed)).map(|drops| drops.load(Relaxed))
    }
}
