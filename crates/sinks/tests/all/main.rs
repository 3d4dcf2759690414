//! Black-box tests: sinks against servers of this process that answer as scripted, and against a
//! real Elasticsearch (feature `real-servers`).

mod elasticsearch;
mod failover;
mod golden;
#[cfg(feature = "real-servers")]
mod real;
mod secrets;
mod server;
mod sink;
mod tls;
