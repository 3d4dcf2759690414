//! Loss is never silent: for each source, what came, what was kept, and what was not, with the reason.
//!
//! Invariant, once a source is idle: `lines_received = lines_kept + dropped` over all reasons but `kernel`
//! (those lines never reached us), and `oversized` and `reset` (a part of the line is kept).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One way in, as metrics and pages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Syslog datagrams.
    SyslogUdp,
    /// Syslog over TCP.
    SyslogTcp,
    /// HTTP requests.
    Http,
    /// Rows made by Loginson itself.
    Internal,
}

impl SourceKind {
    /// All of them, in the order of display.
    pub const ALL: [SourceKind; 4] =
        [SourceKind::SyslogUdp, SourceKind::SyslogTcp, SourceKind::Http, SourceKind::Internal];

    /// The name in metrics and the API.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog_udp",
            SourceKind::SyslogTcp => "syslog_tcp",
            SourceKind::Http => "http",
            SourceKind::Internal => "internal",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog over UDP",
            SourceKind::SyslogTcp => "syslog over TCP",
            SourceKind::Http => "HTTP",
            SourceKind::Internal => "Loginson itself",
        }
    }
}

/// Why a line was not kept, or not kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The kernel's receive buffer was full (datagrams).
    Kernel,
    /// Longer than a line may be: the first part was kept, the rest was not.
    Oversized,
    /// The connection ended by an error in the middle of a line; what had come of the line was kept.
    Reset,
    /// The disk was full.
    DiskFull,
    /// The request could not be read (broken compression, cut off): its unread rest.
    BadRequest,
    /// Writing failed.
    WriteFailed,
    /// Arrived while shutting down.
    ShuttingDown,
}

impl DropReason {
    /// All of them, in the order of display.
    pub const ALL: [DropReason; 7] = [
        DropReason::Kernel,
        DropReason::Oversized,
        DropReason::Reset,
        DropReason::DiskFull,
        DropReason::BadRequest,
        DropReason::WriteFailed,
        DropReason::ShuttingDown,
    ];

    /// The name in metrics and the API.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Kernel => "kernel",
            DropReason::Oversized => "oversized",
            DropReason::Reset => "reset",
            DropReason::DiskFull => "disk_full",
            DropReason::BadRequest => "bad_request",
            DropReason::WriteFailed => "write_failed",
            DropReason::ShuttingDown => "shutting_down",
        }
    }
}

/// Counters of one source.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// Lines that arrived, kept or not.
    pub lines_received: AtomicU64,
    /// Bytes of those lines, without what separates them.
    pub bytes_received: AtomicU64,
    /// Lines that became durable.
    pub lines_kept: AtomicU64,
    /// Connections accepted so far.
    pub connections_total: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections closed at once because too many were open.
    pub connections_refused: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

impl SourceCounters {
    /// Counts lines that arrived.
    pub fn received(&self, lines: u64, bytes: u64) {
        self.lines_received.fetch_add(lines, Relaxed);
        self.bytes_received.fetch_add(bytes, Relaxed);
    }

    /// Counts lines that became durable.
    pub fn kept(&self, lines: u64) {
        self.lines_kept.fetch_add(lines, Relaxed);
    }

    /// Counts lines not kept, or not kept whole.
    pub fn dropped(&self, reason: DropReason, lines: u64) {
        self.dropped[reason as usize].fetch_add(lines, Relaxed);
    }

    /// Lines not kept for that reason.
    pub fn dropped_count(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }
}

/// Counters of all sources. One a process, shared by reference; no globals.
#[derive(Debug, Default)]
pub struct Accounting {
    sources: [SourceCounters; SourceKind::ALL.len()],
}

impl Accounting {
    /// The counters of one source.
    pub fn source(&self, kind: SourceKind) -> &SourceCounters {
        &self.sources[kind as usize]
    }
}
