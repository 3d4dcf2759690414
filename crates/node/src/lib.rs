//! A node: what takes lines in, keeps them, computes from them and hands them on, without HTTP.
//!
//! [`pipeline`] wires the stages in order and is the place to start reading. The crate `api`
//! answers requests over a node, the crate `loginson` reads the settings and runs both; a test can
//! run a node inside its own process.

pub mod alerts;
pub mod cluster;
pub mod data_dir;
pub mod ingest;
pub mod lookups;
pub mod pipeline;
pub mod process;
pub mod programs;
pub mod queries;
pub mod saved_views;
pub mod sinks;
pub mod storage;
pub mod watch;
