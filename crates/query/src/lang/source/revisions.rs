//! Rows that later ones replaced: what a source says of the rows of programs.

use std::fmt;

use crate::base::RunError;

/// The rows of a bucket of a program that were written together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// The program.
    pub program: String,
    /// Its number; all buckets of a run over the past have the same.
    pub number: u64,
    /// Start of the bucket, nanoseconds since 1970 UTC.
    pub start_ns: i64,
    /// Width of the bucket, seconds.
    pub width_s: u32,
    /// Whether it belongs to a run over the past.
    pub is_of_run: bool,
}

/// Knows which rows of programs count.
pub trait Revisions: fmt::Debug + Send + Sync {
    /// Whether the rows of each of these count; all revisions of a bucket, and those of buckets
    /// that overlap it, must be among them.
    ///
    /// # Errors
    /// If that cannot be told now.
    fn counting(&self, revisions: &[Revision]) -> Result<Vec<bool>, RunError>;
}
