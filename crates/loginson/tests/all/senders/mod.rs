//! Real senders against the real binary: `logger`, rsyslog and syslog-ng, as Debian packages them,
//! each forward [`corpus::LINES`] lines of the corpora or more.
//!
//! Over TCP and TLS every line must arrive, byte for byte; over UDP the lines stored and the lines
//! counted as dropped must be the lines sent. The senders write what they send to a file as well,
//! in the same template, so that the bytes can be compared, headers included. A missing sender
//! fails its tests.

#[path = "../../../../collector/tests/sources/authority.rs"]
pub mod authority;
mod check;
mod corpus;
mod logger;
mod others;
mod rsyslog;
mod sender;
mod syslog_ng;
mod tls;
