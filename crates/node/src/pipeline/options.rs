//! What a node is told: the settings of all its parts, checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use collector::node::ForwardConfig;
use programs::summary::SummaryConfig;
use record::{TypeRule, Zone};
use store::StoreConfig;

use crate::alerts::AlertOptions;
use crate::cluster::engines::EngineOptions;
use crate::data_dir::PROGRAMS_FOLDER;
use crate::ingest::options::SourceOptions;
use crate::ingest::rules::RuleSpec;
use crate::ingest::tenants::Tenants;
use crate::lookups::LookupSpec;
use crate::programs::stage::ProgramOptions;
use crate::queries::QueryOptions;
use crate::sinks::config::SinkOptions;
use crate::storage::backup::schedule::BackupOptions;
use crate::storage::encryption::EncryptionOptions;
use crate::storage::integrity::IntegrityOptions;
use crate::watch::WatchOptions;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The user's rules for types, tried in order before the built-in ones.
    pub types: Vec<TypeRule>,
    /// Zone of times that name none, where neither the source nor a rule has another.
    pub zone: Zone,
    /// Lines of common servers are not taken apart.
    pub no_server_fields: bool,
    /// What becomes of lines before they are durable.
    pub rules: Vec<RuleSpec>,
    /// Whose lines there can be.
    pub tenants: Arc<Tenants>,
    /// The tables that rules and queries look values up in.
    pub lookups: Vec<LookupSpec>,
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
    /// What is watched for what stands out.
    pub watch: WatchOptions,
    /// Where backups go, and when.
    pub backup: Option<BackupOptions>,
    /// How the chain of sealed segments is kept.
    pub integrity: Option<IntegrityOptions>,
    /// The master key of files at rest.
    pub encryption: EncryptionOptions,
}

impl NodeOptions {
    /// The defaults of a node that keeps its lines in this directory and receives none: whoever has
    /// the node gives them to it.
    pub fn new(data_dir: impl Into<PathBuf>) -> NodeOptions {
        let data_dir = data_dir.into();
        NodeOptions {
            types: Vec::new(),
            zone: Zone::UTC,
            no_server_fields: false,
            rules: Vec::new(),
            tenants: Arc::default(),
            lookups: Vec::new(),
            sources: SourceOptions::none(&data_dir),
            forward: ForwardConfig::default(),
            engines: None,
            parse_threads: 1,
            summary: SummaryConfig::default(),
            query: QueryOptions::default(),
            programs: ProgramOptions::in_folder(data_dir.join(PROGRAMS_FOLDER)),
            sinks: Vec::new(),
            alerts: AlertOptions::default(),
            watch: WatchOptions::default(),
            backup: None,
            integrity: None,
            encryption: EncryptionOptions::default(),
            store: StoreConfig::new(data_dir),
        }
    }

    /// How long objects of a cluster stay that no segment needs any more: longer than any query may
    /// run.
    pub fn grace(&self) -> Duration {
        let longest = self.query.limits.run_time.max(self.query.background.run_time);
        longest + longest / 4
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.store.data_dir
    }
}
