//! Runs of a program: one process for each bucket.

pub mod bucket;
pub mod spec;
