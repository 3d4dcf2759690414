//! Loss is never silent: for each source, what came, what was kept, and what was not, with the
//! reason.
//!
//! Invariants, which [`SourceCounts::lines_missing`] and [`SourceCounts::bytes_missing`] state as
//! code:
//! - Once a source is idle, for each source on its own: *lines received = lines kept + lines
//!   dropped*, over all reasons but those of [`DropReason::is_partial`] (a part of the line is
//!   kept, so it counts as kept) and [`DropReason::is_before_us`] (the line never came). *Bytes
//!   received = bytes kept + bytes dropped*, over all reasons but the latter.
//! - At any moment, with lines on their way: received ≥ kept + dropped. A line is counted as
//!   received before its fate can be known, and [`SourceCounters::counts`] reads in the opposite
//!   order.
//!
//! Bytes are those of lines, without what separates them. Of a line that is cut because it is too
//! long, the rest counts as received and dropped where the source knows how long it was.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::socket_drops::SocketDrops;

/// One way in, as metrics and pages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Syslog datagrams.
    SyslogUdp,
    /// Syslog over TCP.
    SyslogTcp,
    /// Syslog over TLS.
    SyslogTls,
    /// HTTP requests.
    Http,
    /// Files that are followed.
    File,
    /// The journal of systemd.
    Journald,
    /// Frames of collectors on other machines.
    Node,
    /// Rows made by Loginson itself.
    Internal,
}

impl SourceKind {
    /// All of them, in the order of display.
    pub const ALL: [SourceKind; 8] = [
        SourceKind::SyslogUdp,
        SourceKind::SyslogTcp,
        SourceKind::SyslogTls,
        SourceKind::Http,
        SourceKind::File,
        SourceKind::Journald,
        SourceKind::Node,
        SourceKind::Internal,
    ];

    /// The name in metrics and the API.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog_udp",
            SourceKind::SyslogTcp => "syslog_tcp",
            SourceKind::SyslogTls => "syslog_tls",
            SourceKind::Http => "http",
            SourceKind::File => "file",
            SourceKind::Journald => "journald",
            SourceKind::Node => "node",
            SourceKind::Internal => "internal",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog over UDP",
            SourceKind::SyslogTcp => "syslog over TCP",
            SourceKind::SyslogTls => "syslog over TLS",
            SourceKind::Http => "HTTP",
            SourceKind::File => "files",
            SourceKind::Journald => "the journal of systemd",
            SourceKind::Node => "collectors",
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
    /// The connection ended by an error in the middle of a line; what had come of the line was
    /// kept.
    Reset,
    /// The disk was full.
    DiskFull,
    /// The request could not be read (broken compression, cut off): its unread rest.
    BadRequest,
    /// Writing failed.
    WriteFailed,
    /// Arrived while shutting down.
    ShuttingDown,
    /// A connection or datagram of another protocol, refused as a whole; counts as one line.
    WrongProtocol,
}

impl DropReason {
    /// All of them, in the order of display.
    pub const ALL: [DropReason; 8] = [
        DropReason::Kernel,
        DropReason::Oversized,
        DropReason::Reset,
        DropReason::DiskFull,
        DropReason::BadRequest,
        DropReason::WriteFailed,
        DropReason::ShuttingDown,
        DropReason::WrongProtocol,
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
            DropReason::WrongProtocol => "wrong_protocol",
        }
    }

    /// Whether a part of the line was kept: then it is among the lines kept.
    pub fn is_partial(self) -> bool {
        matches!(self, DropReason::Oversized | DropReason::Reset)
    }

    /// Whether the line was lost before it came to us: then it is not among the lines received.
    pub fn is_before_us(self) -> bool {
        matches!(self, DropReason::Kernel)
    }
}

/// Counters of one source. Any thread counts; [`SourceCounters::counts`] reads them so that the
/// sums agree.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// Lines that arrived, kept or not.
    pub lines_received: AtomicU64,
    /// Bytes of those lines, without what separates them.
    pub bytes_received: AtomicU64,
    /// Lines that became durable.
    pub lines_kept: AtomicU64,
    /// Bytes of those lines.
    pub bytes_kept: AtomicU64,
    /// Connections accepted so far; of HTTP, requests that bring lines.
    pub connections_total: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections closed at once because too many were open.
    pub connections_refused: AtomicU64,
    /// Connections closed because nothing came for too long, or their handshake came to no end.
    pub connections_timed_out: AtomicU64,
    /// TLS connections that ended without `close_notify`.
    pub connections_truncated: AtomicU64,
    /// TLS handshakes that failed.
    pub handshakes_failed: AtomicU64,
    /// Threads that ended by a panic: a fault of ours.
    pub threads_failed: AtomicU64,
    dropped: [Drops; DropReason::ALL.len()],
}

#[derive(Debug, Default)]
struct Drops {
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl SourceCounters {
    /// Counts lines that arrived. Before what becomes of them is counted.
    pub fn received(&self, lines: u64, bytes: u64) {
        self.lines_received.fetch_add(lines, Relaxed);
        self.bytes_received.fetch_add(bytes, Relaxed);
    }

    /// Counts lines that became durable.
    pub fn kept(&self, lines: u64, bytes: u64) {
        // Whoever sees these sees that the lines were received: `counts` acquires what is released
        // here.
        self.lines_kept.fetch_add(lines, Release);
        self.bytes_kept.fetch_add(bytes, Release);
    }

    /// Counts lines not kept, or not kept whole.
    pub fn dropped(&self, reason: DropReason, lines: u64) {
        self.dropped[reason as usize].lines.fetch_add(lines, Release);
    }

    /// Counts bytes of such lines, where it is known how many were received.
    pub fn dropped_bytes(&self, reason: DropReason, bytes: u64) {
        self.dropped[reason as usize].bytes.fetch_add(bytes, Release);
    }

    /// Counts a connection or datagram of another protocol, of which so many bytes came, as one
    /// line.
    pub fn wrong_protocol(&self, bytes: u64) {
        self.received(1, bytes);
        self.dropped(DropReason::WrongProtocol, 1);
        self.dropped_bytes(DropReason::WrongProtocol, bytes);
    }

    /// Lines not kept for that reason.
    pub fn dropped_count(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].lines.load(Acquire)
    }

    /// All of them at about the same moment, never with more kept or dropped than received.
    pub fn counts(&self) -> SourceCounts {
        // What is counted last is read first.
        let dropped = DropReason::ALL.map(|reason| {
            let drops = &self.dropped[reason as usize];
            DropCounts { lines: drops.lines.load(Acquire), bytes: drops.bytes.load(Acquire) }
        });
        let (lines_kept, bytes_kept) =
            (self.lines_kept.load(Acquire), self.bytes_kept.load(Acquire));
        SourceCounts {
            lines_kept,
            bytes_kept,
            dropped,
            lines_received: self.lines_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
            connections_total: self.connections_total.load(Relaxed),
            connections_open: self.connections_open.load(Relaxed),
            connections_refused: self.connections_refused.load(Relaxed),
            connections_timed_out: self.connections_timed_out.load(Relaxed),
            connections_truncated: self.connections_truncated.load(Relaxed),
            handshakes_failed: self.handshakes_failed.load(Relaxed),
            threads_failed: self.threads_failed.load(Relaxed),
        }
    }
}

/// What one source has counted, at one moment. The fields are those of [`SourceCounters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described at the counters")]
pub struct SourceCounts {
    pub lines_received: u64,
    pub bytes_received: u64,
    pub lines_kept: u64,
    pub bytes_kept: u64,
    pub connections_total: u64,
    pub connections_open: u64,
    pub connections_refused: u64,
    pub connections_timed_out: u64,
    pub connections_truncated: u64,
    pub handshakes_failed: u64,
    pub threads_failed: u64,
    dropped: [DropCounts; DropReason::ALL.len()],
}

/// What was not kept for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Lines not kept, or not kept whole.
    pub lines: u64,
    /// Bytes of them that were received and not kept.
    pub bytes: u64,
}

impl SourceCounts {
    /// What was not kept for that reason.
    pub fn dropped(&self, reason: DropReason) -> DropCounts {
        self.dropped[reason as usize]
    }

    /// Lines received of which it is not known yet what becomes of them: on their way while the
    /// source is busy, 0 while it is idle. Negative never, unless the accounting is wrong.
    pub fn lines_missing(&self) -> i128 {
        let lost = DropReason::ALL.into_iter().filter(|r| !r.is_partial() && !r.is_before_us());
        let dropped: u64 = lost.map(|reason| self.dropped(reason).lines).sum();
        i128::from(self.lines_received) - i128::from(self.lines_kept) - i128::from(dropped)
    }

    /// The same for bytes.
    pub fn bytes_missing(&self) -> i128 {
        let lost = DropReason::ALL.into_iter().filter(|reason| !reason.is_before_us());
        let dropped: u64 = lost.map(|reason| self.dropped(reason).bytes).sum();
        i128::from(self.bytes_received) - i128::from(self.bytes_kept) - i128::from(dropped)
    }
}

/// Counters of all sources. One a process, shared by reference; no globals.
#[derive(Debug, Default)]
pub struct Accounting {
    sources: [SourceCounters; SourceKind::ALL.len()],
    /// What the kernel dropped, by socket; together it is [`DropReason::Kernel`] of
    /// [`SourceKind::SyslogUdp`].
    pub udp_sockets: SocketDrops,
}

impl Accounting {
    /// The counters of one source.
    pub fn source(&self, kind: SourceKind) -> &SourceCounters {
        &self.sources[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_listed_in_the_order_of_their_numbers() {
        for (place, kind) in SourceKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{}", kind.name());
        }
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{}", reason.name());
        }
    }

    #[test]
    fn sums_leave_out_what_was_kept_in_part_and_what_never_came() {
        let counters = SourceCounters::default();
        counters.received(10, 100);
        assert_eq!(
            (counters.counts().lines_missing(), counters.counts().bytes_missing()),
            (10, 100)
        );
        counters.kept(6, 60);
        for (reason, lines_missing, bytes_missing) in [
            (DropReason::Kernel, 4, 40),
            (DropReason::Oversized, 4, 37),
            (DropReason::Reset, 4, 34),
            (DropReason::DiskFull, 3, 31),
            (DropReason::BadRequest, 2, 28),
            (DropReason::WriteFailed, 1, 25),
            (DropReason::ShuttingDown, 0, 22),
            (DropReason::WrongProtocol, -1, 19),
        ] {
            counters.dropped(reason, 1);
            counters.dropped_bytes(reason, 3);
            let counts = counters.counts();
            assert_eq!(counts.dropped(reason), DropCounts { lines: 1, bytes: 3 });
            let missing = (counts.lines_missing(), counts.bytes_missing());
            assert_eq!(missing, (lines_missing, bytes_missing), "{}", reason.name());
        }
    }
}
