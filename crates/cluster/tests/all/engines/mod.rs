//! Black-box tests against a real Kafka and a real S3 server (feature `real-servers`), which are
//! killed and started again.

mod cache;
mod kafka;
mod kafka_killed;
mod kafka_pipelined;
mod kafka_secured;
mod objects;
mod server;
