//! Black-box tests: sinks against servers of this process that answer as scripted, and against
//! real servers (feature `real-servers`).

mod elasticsearch;
mod failover;
mod golden;
mod kafka;
#[cfg(feature = "real-servers")]
mod real;
mod secrets;
mod server;
mod sink;
mod tls;
