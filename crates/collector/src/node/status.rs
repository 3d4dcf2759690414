//! The state of delivery to other processes, on both sides: for metrics, pages and people.

use std::collections::BTreeMap;
use std::time::Instant;

use super::wire::StoreHealth;

/// State of a collector.
#[derive(Clone, Debug)]
pub struct ForwardStatus {
    /// The collector's id.
    pub node: u32,
    /// Bytes in memory that wait for a store or for the disk.
    pub waiting_bytes: u64,
    /// The frames that wait on disk.
    pub spool: SpoolStatus,
    /// Each store, in the order of the configuration.
    pub stores: Vec<StoreStatus>,
    /// Bytes bound to stores that none of the addresses led to since the start, by node id.
    pub bound_elsewhere: BTreeMap<u32, u64>,
    /// Whether lines are accepted: by a store that is connected, or by the spool. With copies, by
    /// one of these for each copy.
    pub ready: bool,
    /// The state of the copies, if there are several.
    pub copies: Option<CopiesStatus>,
    /// Panics of its threads since the start, each a bug in Loginson; a thread resumes after one
    /// second.
    pub threads_failed: u64,
}

/// The copies that a collector delivers to.
#[derive(Clone, Debug)]
pub struct CopiesStatus {
    /// Lines that one copy has, and no other one yet. Lines in the spool are counted by whole
    /// files of up to 64 MiB, until all lines of the file are acknowledged.
    pub lines_single: u64,
    /// Frames whose senders had to wait since the start, because for a copy neither its store nor
    /// its spool had room.
    pub frames_held_back: u64,
    /// By copy: lines that its stores have not acknowledged yet, in memory and in the spool.
    pub lines_missing: Vec<u64>,
}

/// The frames that wait on a collector's disk.
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

/// State of the connection to a store.
#[derive(Clone, Debug)]
pub enum Link {
    /// The store takes frames.
    Connected,
    /// The store cannot be reached.
    Away {
        /// The reason.
        error: String,
    },
    /// Not known yet.
    Connecting,
}

/// One store, as a collector sees it.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// Its configured address.
    pub address: String,
    /// Its copy, counted from 0, if there are several.
    pub copy: Option<u32>,
    /// Its node id, once it has identified itself.
    pub store: Option<u32>,
    /// State of the connection.
    pub link: Link,
    /// Since when the connection is in this state.
    pub since: Instant,
    /// The last health it reported.
    pub health: StoreHealth,
    /// Connections since the start.
    pub connects: u64,
    /// Frames acknowledged since the start.
    pub frames_acknowledged: u64,
    /// Lines in them.
    pub lines_acknowledged: u64,
    /// Bytes sent, including those resent.
    pub bytes_sent: u64,
    /// Bytes in memory that are sent or about to be sent, and not acknowledged.
    pub bytes_in_memory: u64,
    /// Bytes in the spool that are bound to it.
    pub bytes_spooled: u64,
}

/// One collector, as a store sees it.
#[derive(Clone, Debug)]
pub struct CollectorStatus {
    /// Its id.
    pub node: u32,
    /// Its address at the last connection.
    pub address: std::net::SocketAddr,
    /// Connections open now.
    pub connections: usize,
    /// Frames kept since the start.
    pub frames: u64,
    /// Lines in them.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that arrived again and were dropped.
    pub duplicates: u64,
    /// When a message last arrived.
    pub heard: Instant,
}
