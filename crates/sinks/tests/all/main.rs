//! Black-box tests: sinks against servers of this process that answer as scripted, and against
//! real servers (features `real-kafka` and `real-servers`).

mod elasticsearch;
mod failover;
mod golden;
#[cfg(feature = "real-kafka")]
mod real;
mod secrets;
mod server;
mod sink;
mod tls;
