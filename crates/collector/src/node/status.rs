//! How delivery to other processes stands, on both sides: for metrics, pages and people.

use std::collections::BTreeMap;
use std::time::Instant;

use super::wire::StoreHealth;

/// A collector's side.
#[derive(Clone, Debug)]
pub struct ForwardStatus {
    /// The collector's id.
    pub node: u32,
    /// Bytes in memory that wait for a store with room, or for the disk.
    pub waiting_bytes: u64,
    /// What waits on disk.
    pub spool: SpoolStatus,
    /// Each store, in the order of the configuration.
    pub stores: Vec<StoreStatus>,
    /// Bytes bound to stores, by their node id, that none of the addresses led to since the start.
    pub bound_elsewhere: BTreeMap<u32, u64>,
    /// Panics of its threads since the start, each a fault of ours; they go on a second later.
    pub threads_failed: u64,
}

/// What waits on a collector's disk.
#[derive(Clone, Copy, Debug)]
pub struct SpoolStatus {
    /// Bytes of its files.
    pub bytes: u64,
    /// Their limit.
    pub bytes_max: u64,
    /// Lines in them.
    pub lines: u64,
    /// Lines that could not be read back since the start.
    pub lines_damaged: u64,
    /// Whether the last write found no room.
    pub full: bool,
}

/// Whether a store is there.
#[derive(Clone, Debug)]
pub enum Link {
    /// It takes frames.
    Connected,
    /// It is not reached.
    Away {
        /// Why.
        error: String,
    },
    /// Not known yet.
    Connecting,
}

/// One store, as a collector sees it.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// Where it should be.
    pub address: String,
    /// Its node id, once it told.
    pub store: Option<u32>,
    /// Whether it is there.
    pub link: Link,
    /// Since when.
    pub since: Instant,
    /// What it said of itself last.
    pub health: StoreHealth,
    /// Connections since the start.
    pub connects: u64,
    /// Frames acknowledged since the start.
    pub frames_acknowledged: u64,
    /// Lines in them.
    pub lines_acknowledged: u64,
    /// Bytes sent, those sent again included.
    pub bytes_sent: u64,
    /// Bytes in memory that are sent or about to be, and not acknowledged.
    pub bytes_in_memory: u64,
    /// Bytes in the spool that are bound to it.
    pub bytes_spooled: u64,
}

/// One collector, as a store sees it.
#[derive(Clone, Debug)]
pub struct CollectorStatus {
    /// Its id.
    pub node: u32,
    /// Its address, with the last connection.
    pub address: std::net::SocketAddr,
    /// Connections open now.
    pub connections: usize,
    /// Frames kept since the start.
    pub frames: u64,
    /// Lines in them.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that came again, and were dropped.
    pub duplicates: u64,
    /// The last sign of life.
    pub heard: Instant,
}
