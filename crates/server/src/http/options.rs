//! What the API is told: who may call, its limits, and what of the node's settings it shows.

use std::path::PathBuf;
use std::time::Duration;

use store::StoreConfig;

use super::access::authority::Authority;
use super::access::users::AccessOptions;
use super::ingest::InsertOptions;
use crate::queries::QueryOptions;

/// The settings of the API.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// Names of this server besides those of loopback; with the port of a proxy if it is not the
    /// default of its scheme.
    pub hosts: Vec<Authority>,
    /// Origins whose pages may show the page of this server in a frame.
    pub frame_ancestors: Vec<String>,
    /// Whether connections are encrypted.
    pub is_https: bool,
    /// Who may call.
    pub access: AccessOptions,
    /// Limits of ingest requests.
    pub insert: InsertOptions,
    /// Limits of queries.
    pub query: QueryOptions,
    /// Pages of rows of background queries, 8 MiB each, that are read or sent at a time; further
    /// ones are refused. `query.pages_max`.
    pub pages_max: usize,
    /// The longest that a client may take no bytes of its answer, of whatever kind; then its
    /// connection is closed and its query cancelled. `query.client_idle_max`.
    pub client_idle_max: Duration,
    /// Memory shared by queries, tails, answers and ingest requests. `memory.bytes_max`.
    pub memory_bytes_max: u64,
    /// How frames are kept, and for how long.
    pub store: StoreConfig,
    /// The length of a bucket of the summary, seconds.
    pub summary_bucket_s: u64,
    /// The address of the page in links of alerts; empty if it is not known.
    pub alerts_url: String,
    /// Folder of dashboards that are provided as files.
    pub dashboards_dir: Option<PathBuf>,
    /// Whether the node is part of a cluster on engines, which then keeps what people save.
    pub has_engines: bool,
}
