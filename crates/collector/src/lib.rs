//! Lines from the network into frames, and frames to whatever keeps them.
//!
//! - [`udp`], [`tcp`]: syslog, in threads of their own; [`stream`] is what sources of connections
//!   have in common.
//! - [`intake`]: lines that come in calls: HTTP requests and Loginson's own rows.
//! - [`body`]: whole lines out of the body of a request.
//! - [`deliver`]: where frames go; a trait, so that the collector does not know the store.
//! - [`node`]: stores in other processes, and collectors there.
//! - [`accounting`]: what came, what was kept, what was not and why.
//!
//! Invariants: what cannot be delivered is pushed back to its sender where the protocol can do
//! that; every line that is not kept is counted. Left out: any look into a line, which is parsing,
//! and comes after the frame.

pub mod accounting;
pub mod body;
pub mod deliver;
pub mod file;
pub mod intake;
pub mod journald;
pub mod node;
pub mod stream;
pub mod tcp;
pub mod ticket;
pub mod tls;
pub mod udp;

#[cfg(test)]
mod keeper;
mod kernel_drops;
mod outlet;
pub mod socket_drops;
mod source;

pub use accounting::{
    Accounting, DropCounts, DropReason, SourceCounters, SourceCounts, SourceKind,
};
pub use deliver::{Deliver, KeepError, OnDurable, Patience};
pub use file::{FileConfig, FileError, FileRule, FileSource};
pub use intake::Intake;
pub use journald::{JournalConfig, JournalSource, JournalStatus};
pub use outlet::{FRAME_AGE_AWAITED_MS, FRAME_AGE_MS};
pub use source::SourceError;
pub use stream::TcpConfig;
pub use tcp::TcpSource;
pub use ticket::Ticket;
pub use tls::{ClientCertificates, Credentials, TlsError, TlsFiles, TlsSource, TlsStatus};
pub use udp::{UdpConfig, UdpSource};
