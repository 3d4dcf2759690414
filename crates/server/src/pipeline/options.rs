//! What a node is told: the settings of all its parts, checked.

use std::path::Path;

use collector::node::ForwardConfig;
use programs::summary::SummaryConfig;
use record::TypeRule;
use store::StoreConfig;

use crate::alerts::AlertOptions;
use crate::cluster::engines::EngineOptions;
use crate::ingest::options::SourceOptions;
use crate::programs::stage::ProgramOptions;
use crate::queries::QueryOptions;
use crate::sinks::config::SinkOptions;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The user's rules for types, tried in order before the built-in ones.
    pub types: Vec<TypeRule>,
    /// Seconds east of UTC for syslog times without a zone.
    pub syslog_zone_s: i32,
    /// How lines are received.
    pub sources: SourceOptions,
    /// How frames are delivered to stores, or to the log of a cluster.
    pub forward: ForwardConfig,
    /// How frames are kept, and for how long.
    pub store: StoreConfig,
    /// The engines of a cluster that the node is part of.
    pub engines: Option<EngineOptions>,
    /// Threads that parse durable frames.
    pub parse_threads: usize,
    /// How lines are summarised.
    pub summary: SummaryConfig,
    /// How queries run.
    pub query: QueryOptions,
    /// Programs of users.
    pub programs: ProgramOptions,
    /// Where rows and lines go besides the store.
    pub sinks: Vec<SinkOptions>,
    /// How rules are evaluated, and who is told.
    pub alerts: AlertOptions,
}

impl NodeOptions {
    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.store.data_dir
    }
}
