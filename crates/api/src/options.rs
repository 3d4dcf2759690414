//! What the API is told: who may call, its limits, and what of the node's settings it shows.

use std::path::PathBuf;
use std::time::Duration;

use store::StoreConfig;

use crate::access::authority::Authority;
use crate::access::gate::Auditing;
use crate::access::users::AccessOptions;
use crate::ingest::InsertOptions;
use crate::wire::listen::seats::HTTP_CONNECTIONS_MAX;
use node::pipeline::options::NodeOptions;
use node::queries::QueryOptions;

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
    /// The audit log.
    pub auditing: Auditing,
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
    /// Connections of HTTP, those among them that are reserved for `/health` and the like.
    pub connections_max: usize,
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

impl ApiOptions {
    /// The defaults, over a node that has these options.
    pub fn new(node: &NodeOptions) -> ApiOptions {
        ApiOptions {
            hosts: Vec::new(),
            frame_ancestors: Vec::new(),
            is_https: false,
            access: AccessOptions::default(),
            auditing: Auditing::default(),
            insert: InsertOptions::default(),
            query: node.query,
            pages_max: 16,
            client_idle_max: Duration::from_secs(300),
            connections_max: HTTP_CONNECTIONS_MAX,
            memory_bytes_max: platform::memory::bytes_auto(
                platform::memory::machine_bytes(),
                node.query.limits.memory_bytes_max,
            ),
            store: node.store.clone(),
            summary_bucket_s: node.summary.bucket_s,
            alerts_url: node.alerts.external_url.clone(),
            dashboards_dir: None,
            has_engines: node.engines.is_some(),
        }
    }
}
