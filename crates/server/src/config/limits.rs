//! Limits of connections, request bodies and background queries; settings change some of them.

use std::time::Duration;

/// Connections of HTTP, those included that are only for `/health`, `/ready` and `/metrics`.
pub const HTTP_CONNECTIONS_MAX: usize = 1024 + 64;

/// How slow a body may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BodyLimits {
    /// Silence between two pieces. Beyond it the request is answered with 408 and the connection
    /// closed.
    pub idle_max: Duration,
    /// Bytes a second, on average since the body began, once it is older than `idle_max`. Below,
    /// the same.
    pub bytes_per_s_min: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        BodyLimits { idle_max: Duration::from_secs(30), bytes_per_s_min: 16 }
    }
}

/// What [`JobLimits::jobs_max`] is.
pub const JOBS_MAX: usize = 1_000;

/// Limits of background queries. What exceeds them ends the query, with a message that names the
/// setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Time that one runs. `query.background_run_max`.
    pub run_time: Duration,
    /// Bytes of the rows of one. `query.result_bytes_max`.
    pub result_bytes_max: u64,
    /// Bytes of the rows of all. `query.result_bytes_total_max`.
    pub result_bytes_total_max: u64,
    /// Time after its end until one is deleted. `query.results_keep`.
    pub keep: Duration,
    /// Room that is left on the disk. `store.disk_free_bytes_min`.
    pub disk_free_bytes_min: u64,
    /// Background queries that are kept, whatever they do. Further ones are refused until some
    /// expire or are deleted.
    pub jobs_max: usize,
}
