//! Work with the rows of queries that outlives one request: background queries, exports, live
//! tails.

pub mod export;
pub mod jobs;
pub mod tails;

use std::time::Duration;

use query::QueueLimits;

use jobs::JobLimits;

/// How queries run: a part of `[query]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryOptions {
    /// How many queries run and wait.
    pub queue: QueueLimits,
    /// Limits of one query.
    pub limits: query::Limits,
    /// Limits of background queries.
    pub background: JobLimits,
    /// Memory for results of single blocks, which answer a repeated query; 0 for none.
    /// `query.answers_bytes_max`.
    pub answers_bytes_max: usize,
    /// Queries that run at least this long are named in the log; `None`: none is. `query.slow`.
    pub slow: Option<Duration>,
}

impl Default for QueryOptions {
    fn default() -> Self {
        QueryOptions {
            queue: QueueLimits::default(),
            limits: query::Limits::default(),
            background: JobLimits::default(),
            answers_bytes_max: 64 << 20,
            slow: Some(Duration::from_secs(10)),
        }
    }
}
