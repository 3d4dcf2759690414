//! Runs of a program: per bucket, and as a stream.

pub mod bucket;
mod pending;
pub mod spec;
pub mod stream;
