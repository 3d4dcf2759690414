//! Limits of background queries; settings change some of them.

use std::time::Duration;

/// The value of [`JobLimits::jobs_max`].
pub const JOBS_MAX: usize = 1_000;

/// Limits of background queries. A query that exceeds one ends with a message that names the
/// setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Run time of one query. `query.background_run_max`.
    pub run_time: Duration,
    /// Bytes of the rows of one query. `query.result_bytes_max`.
    pub result_bytes_max: u64,
    /// Bytes of the rows of all queries. `query.result_bytes_total_max`.
    pub result_bytes_total_max: u64,
    /// Time after its end until a query is deleted. `query.results_keep`.
    pub keep: Duration,
    /// Space to leave on the disk. `store.disk_free_bytes_min`.
    pub disk_free_bytes_min: u64,
    /// Background queries that exist, in any state. Further ones are refused until some expire or
    /// are deleted.
    pub jobs_max: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        JobLimits {
            run_time: Duration::from_secs(86_400),
            result_bytes_max: 256 << 20,
            result_bytes_total_max: 1 << 30,
            keep: Duration::from_secs(86_400),
            disk_free_bytes_min: 256 << 20,
            jobs_max: JOBS_MAX,
        }
    }
}
