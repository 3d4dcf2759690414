//! Black-box tests against a real Kafka and a real S3 server (feature `real-servers`), which are
//! killed and started again.

#[cfg(feature = "real-servers")]
mod cache;
#[cfg(feature = "real-servers")]
mod kafka;
#[cfg(feature = "real-servers")]
mod kafka_killed;
#[cfg(feature = "real-servers")]
mod kafka_secured;
#[cfg(feature = "real-servers")]
mod objects;
#[cfg(feature = "real-servers")]
mod server;
