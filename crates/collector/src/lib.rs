//! Turns lines from the network into frames, and delivers the frames to the store.
//!
//! - [`udp`], [`tcp`]: syslog, in threads of their own; [`stream`] is what connection-based sources
//!   share.
//! - [`fluent`], [`beats`], [`relp`]: protocols that answer; [`answered`] is what they share.
//! - [`statsd`]: measurements in datagrams, added up to rows.
//! - [`intake`]: lines passed in by calls: HTTP requests and Loginson's own rows.
//! - [`kafka`]: topics of Kafka.
//! - [`body`]: cuts the body of a request into whole lines.
//! - [`deliver`]: where frames go; a trait, so that the collector does not depend on the store.
//! - [`node`]: sending frames to stores in other processes, and receiving frames from collectors.
//! - [`accounting`]: lines received, kept, and dropped with the reason.
//!
//! Invariants: lines that cannot be delivered are pushed back to the sender if the protocol allows
//! it; every line that is not kept is counted. Left out: looking into a line, which is parsing and
//! happens after the frame is built.

pub mod accounting;
pub mod answered;
pub mod beats;
pub mod body;
pub mod deliver;
pub mod file;
pub mod fluent;
pub mod intake;
pub mod journald;
pub mod kafka;
pub mod node;
pub mod relp;
pub mod stream;
pub mod tcp;
pub mod ticket;
pub mod tls;
pub mod udp;

#[cfg(test)]
mod keeper;
mod kernel_drops;
mod outlet;
mod packed;
pub mod socket_drops;
mod source;
pub mod statsd;

pub use accounting::{
    Accounting, DropCounts, DropReason, SourceCounters, SourceCounts, SourceKind,
};
pub use beats::BeatsSource;
pub use deliver::{Deliver, KeepError, OnDurable, Patience};
pub use file::{FileConfig, FileError, FileRule, FileSource};
pub use fluent::{FluentSource, SharedKey};
pub use intake::{ALONE_BYTES_MAX, Intake};
pub use journald::{JournalConfig, JournalSource, JournalStatus};
pub use kafka::KafkaSource;
pub use outlet::{FRAME_AGE_AWAITED_MS, FRAME_AGE_MS};
pub use relp::RelpSource;
pub use source::{BindTries, PeerLog, SourceError};
pub use statsd::StatsdSource;
pub use stream::TcpConfig;
pub use tcp::TcpSource;
pub use ticket::Ticket;
pub use tls::{ClientCertificates, Credentials, TlsError, TlsFiles, TlsSource, TlsStatus};
pub use udp::{UdpConfig, UdpSource};
