//! Accounting by source: lines received, lines kept, and lines dropped with the reason. No loss is
//! silent.
//!
//! Invariants, which [`SourceCounts::lines_missing`] and [`SourceCounts::bytes_missing`] compute:
//! - Once a source is idle: *lines received = lines kept + lines dropped*. The sum of drops leaves
//!   out reasons that are [partial](DropReason::is_partial) (a part of the line is kept, so the
//!   line counts as kept) and reasons [before us](DropReason::is_before_us) (the line was never
//!   received). *Bytes received = bytes kept + bytes dropped*, leaving out only the reasons before
//!   us.
//! - At any moment, with lines in flight: received ≥ kept + dropped. A line is counted as received
//!   before its outcome can be known, and [`SourceCounters::counts`] reads the counters in the
//!   opposite order.
//!
//! Bytes are those of lines, without separators. When a line is cut because it is too long, the
//! rest counts as received and dropped, provided the source knows how long the line was.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::socket_drops::SocketDrops;

/// One source, as metrics and pages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Syslog datagrams.
    SyslogUdp,
    /// Syslog over TCP.
    SyslogTcp,
    /// Syslog over TLS.
    SyslogTls,
    /// Fluent forward.
    Fluent,
    /// Beats and Logstash (Lumberjack).
    Beats,
    /// RELP.
    Relp,
    /// Measurements of StatsD.
    Statsd,
    /// Topics of Kafka.
    Kafka,
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
    /// All sources, in the order of display.
    pub const ALL: [SourceKind; 13] = [
        SourceKind::SyslogUdp,
        SourceKind::SyslogTcp,
        SourceKind::SyslogTls,
        SourceKind::Fluent,
        SourceKind::Beats,
        SourceKind::Relp,
        SourceKind::Statsd,
        SourceKind::Kafka,
        SourceKind::Http,
        SourceKind::File,
        SourceKind::Journald,
        SourceKind::Node,
        SourceKind::Internal,
    ];

    /// The name used in metrics and the API.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog_udp",
            SourceKind::SyslogTcp => "syslog_tcp",
            SourceKind::SyslogTls => "syslog_tls",
            SourceKind::Fluent => "fluent",
            SourceKind::Beats => "beats",
            SourceKind::Relp => "relp",
            SourceKind::Statsd => "statsd",
            SourceKind::Kafka => "kafka",
            SourceKind::Http => "http",
            SourceKind::File => "file",
            SourceKind::Journald => "journald",
            SourceKind::Node => "node",
            SourceKind::Internal => "internal",
        }
    }

    /// The name shown to people.
    pub fn title(self) -> &'static str {
        match self {
            SourceKind::SyslogUdp => "syslog over UDP",
            SourceKind::SyslogTcp => "syslog over TCP",
            SourceKind::SyslogTls => "syslog over TLS",
            SourceKind::Fluent => "Fluent forward",
            SourceKind::Beats => "Beats",
            SourceKind::Relp => "RELP",
            SourceKind::Statsd => "StatsD",
            SourceKind::Kafka => "Kafka",
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
    /// The connection failed in the middle of a line; the received part was kept.
    Reset,
    /// The disk was full.
    DiskFull,
    /// The request body could not be read (broken compression, cut off); this counts its unread
    /// rest.
    BadRequest,
    /// Writing failed.
    WriteFailed,
    /// Arrived while shutting down.
    ShuttingDown,
    /// A connection, datagram or request of another protocol, refused as a whole; counts as one
    /// line.
    WrongProtocol,
    /// A message in several datagrams of which some did not come.
    Incomplete,
}

impl DropReason {
    /// All reasons, in the order of display.
    pub const ALL: [DropReason; 9] = [
        DropReason::Kernel,
        DropReason::Oversized,
        DropReason::Reset,
        DropReason::DiskFull,
        DropReason::BadRequest,
        DropReason::WriteFailed,
        DropReason::ShuttingDown,
        DropReason::WrongProtocol,
        DropReason::Incomplete,
    ];

    /// The name used in metrics and the API.
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
            DropReason::Incomplete => "incomplete",
        }
    }

    /// Whether a part of the line was kept. Such a line counts as kept.
    pub fn is_partial(self) -> bool {
        matches!(self, DropReason::Oversized | DropReason::Reset)
    }

    /// Whether the line was lost before it reached this process. Such a line does not count as
    /// received.
    pub fn is_before_us(self) -> bool {
        matches!(self, DropReason::Kernel)
    }
}

/// Counters of one source. Any thread may count; [`SourceCounters::counts`] reads the counters in
/// an order that keeps the sums consistent.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// Lines that arrived, kept or not.
    pub lines_received: AtomicU64,
    /// Bytes of the received lines, without separators.
    pub bytes_received: AtomicU64,
    /// Lines that became durable.
    pub lines_kept: AtomicU64,
    /// Bytes of the lines that became durable.
    pub bytes_kept: AtomicU64,
    /// Connections accepted so far; for HTTP, requests that carry lines.
    pub connections_total: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections closed at once because too many were open.
    pub connections_refused: AtomicU64,
    /// Connections closed because nothing arrived for too long, or their handshake did not finish
    /// in time.
    pub connections_timed_out: AtomicU64,
    /// TLS connections that ended without `close_notify`.
    pub connections_truncated: AtomicU64,
    /// TLS handshakes that failed.
    pub handshakes_failed: AtomicU64,
    /// Times that an octet count was followed by something that cannot begin a message.
    pub framing_lost: AtomicU64,
    /// Compressed messages that were kept as they came, because they cannot be decompressed.
    pub undecompressed: AtomicU64,
    /// Threads that ended by a panic, which is a bug in Loginson.
    pub threads_failed: AtomicU64,
    dropped: [Drops; DropReason::ALL.len()],
}

#[derive(Debug, Default)]
struct Drops {
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl SourceCounters {
    /// Counts lines that arrived. Call this before counting them as kept or dropped.
    pub fn received(&self, lines: u64, bytes: u64) {
        self.lines_received.fetch_add(lines, Relaxed);
        self.bytes_received.fetch_add(bytes, Relaxed);
    }

    /// Counts lines that became durable.
    pub fn kept(&self, lines: u64, bytes: u64) {
        // A reader that sees these also sees the lines as received: `counts` acquires what is
        // released here.
        self.lines_kept.fetch_add(lines, Release);
        self.bytes_kept.fetch_add(bytes, Release);
    }

    /// Counts lines not kept, or not kept whole.
    pub fn dropped(&self, reason: DropReason, lines: u64) {
        self.dropped[reason as usize].lines.fetch_add(lines, Release);
    }

    /// Counts the dropped bytes of such lines, if the source knows how many were received.
    pub fn dropped_bytes(&self, reason: DropReason, bytes: u64) {
        self.dropped[reason as usize].bytes.fetch_add(bytes, Release);
    }

    /// Counts a connection or datagram of another protocol as one line of `bytes` bytes.
    pub fn wrong_protocol(&self, bytes: u64) {
        self.received(1, bytes);
        self.dropped(DropReason::WrongProtocol, 1);
        self.dropped_bytes(DropReason::WrongProtocol, bytes);
    }

    /// Lines dropped for `reason`.
    pub fn dropped_count(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].lines.load(Acquire)
    }

    /// All counters at about the same moment, never with more kept or dropped than received.
    pub fn counts(&self) -> SourceCounts {
        // Counters that are written last are read first.
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
            framing_lost: self.framing_lost.load(Relaxed),
            undecompressed: self.undecompressed.load(Relaxed),
            threads_failed: self.threads_failed.load(Relaxed),
        }
    }
}

/// The counters of one source at one moment. The fields are those of [`SourceCounters`].
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
    pub framing_lost: u64,
    pub undecompressed: u64,
    pub threads_failed: u64,
    dropped: [DropCounts; DropReason::ALL.len()],
}

/// Lines and bytes dropped for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// Lines not kept, or not kept whole.
    pub lines: u64,
    /// Bytes of these lines that were received and not kept.
    pub bytes: u64,
}

impl SourceCounts {
    /// Lines and bytes dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> DropCounts {
        self.dropped[reason as usize]
    }

    /// Lines received whose outcome is not known yet: in flight while the source is busy, 0 while
    /// it is idle. Never negative, unless the accounting is wrong.
    pub fn lines_missing(&self) -> i128 {
        let lost = DropReason::ALL.into_iter().filter(|r| !r.is_partial() && !r.is_before_us());
        let dropped: u64 = lost.map(|reason| self.dropped(reason).lines).sum();
        i128::from(self.lines_received) - i128::from(self.lines_kept) - i128::from(dropped)
    }

    /// Bytes received whose outcome is not known yet; see [`SourceCounts::lines_missing`].
    pub fn bytes_missing(&self) -> i128 {
        let lost = DropReason::ALL.into_iter().filter(|reason| !reason.is_before_us());
        let dropped: u64 = lost.map(|reason| self.dropped(reason).bytes).sum();
        i128::from(self.bytes_received) - i128::from(self.bytes_kept) - i128::from(dropped)
    }
}

/// Counters of all sources. One instance per process, shared by reference; no globals.
#[derive(Debug, Default)]
pub struct Accounting {
    sources: [SourceCounters; SourceKind::ALL.len()],
    /// Datagrams the kernel dropped, by socket. Their sum is [`DropReason::Kernel`] of
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
        for (index, kind) in SourceKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.name());
        }
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{}", reason.name());
        }
    }

    #[test]
    fn sums_exclude_partial_and_never_received_lines() {
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
