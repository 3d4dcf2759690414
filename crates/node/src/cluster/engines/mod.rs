//! A cluster on engines that others keep: collectors append frames to Kafka, stores own its
//! partitions and put sealed segments into object storage, PostgreSQL holds the catalog. The
//! protocol is the crate `cluster` (docs/cluster.md).
//!
//! ```text
//! line → collector → [append] → Kafka → [owner]: reader → [partition] → publisher → [sealing] → object storage
//!                                                             │                          │
//! query → [spread]: plan of the catalog → a share for each node: [pieces] = hot frames + [segments]
//! ```

mod append;
mod ends;
mod hidden;
mod known_queries;
mod log_arrivals;
mod log_cursor;
mod log_keeps;
mod log_notes;
mod log_rows;
mod marks;
mod options;
mod others;
mod outage;
mod owner;
mod partition;
mod pieces;
mod sealing;
mod segments;
mod spread;
pub mod summaries;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cluster::engines::Metered;
use cluster::engines::cache::Counts;
use cluster::engines::kafka::Log;
use cluster::engines::objects::{Bucket, Requests};
use cluster::engines::postgres::{Follows, PgCatalog};
use cluster::{
    Catalog, End, FrameLog, KeptCatalog, NodeId, NodeInfo, PartitionRow, Resource, Role, Totals,
    View,
};
use platform::{Clock, RealClock};
use programs::summary::SummaryConfig;
use query::source::Answers;

pub use append::{KafkaAppend, connect as connect_log};
pub use cluster::deletions::{DeletionRow, DeletionState, Deletions};
pub use cluster::{CatalogError, Held, Lease, RetentionRule, RetentionSettings};
pub use hidden::HiddenLines;
pub use known_queries::{KnownQuery, QueriesOfNode, TOLD_CHARS_MAX};
pub use log_arrivals::LogArrivals;
pub use log_notes::LogNotes;
pub use log_rows::LogRows;
pub use marks::{Marks, SharedAccess};
pub use options::{EngineOptions, KafkaOptions};
pub use others::{OtherNode, OthersAnswered, OutOfReach};
pub use owner::{LogPlace, Owner, OwnerSettings, Work};
pub use partition::OwnedPartition;
pub use pieces::{HotPiece, LeftOut, Pieces, PiecesError, PiecesSource, SegmentPiece};
pub use segments::is_storage_away;
pub use spread::{Avoided, Spread, Unanswered};

use super::Node;
use crate::data_dir::OBJECTS_FOLDER;
use cluster::deletions::FILTER_BYTES_MAX;
use ends::{KnownEnd, LogEnds};
use hidden::{Compiled, Covering};
use known_queries::KnownQueries;
use segments::Segments;

/// How often an engine that is away at the start is tried.
const RETRY: Duration = Duration::from_secs(2);

/// How soon the catalog is asked again what segments hold: a second later, or so many times as long
/// as the last answer took, since it reads the rows of all segments.
const HELD_AGAIN: Duration = Duration::from_secs(1);
const HELD_FACTOR: u32 = 50;

/// Time for an engine to answer for the status.
const STATUS_TIME_MAX: Duration = Duration::from_secs(3);

/// The engines as this node reaches them, and what it knows of the other nodes.
pub struct Engines {
    /// The configuration.
    pub config: EngineOptions,
    /// This node.
    pub info: NodeInfo,
    log: Arc<Log>,
    bucket: Arc<Bucket>,
    catalog: PgCatalog,
    clock: Arc<dyn Clock>,
    segments: Segments,
    /// What queries found in single blocks and frames, which never change.
    answers: Answers,
    /// How lines are summarised.
    summary: SummaryConfig,
    /// All nodes and leases, as of the last heartbeat.
    view: Mutex<View>,
    /// The partitions that this node owns.
    owned: RwLock<BTreeMap<u32, Arc<OwnedPartition>>>,
    /// Behind the last message of each partition, as far as the log told, and when.
    log_ends: Arc<LogEnds>,
    /// The last snapshot of the catalog, for queries while the catalog is away.
    kept: KeptCatalog,
    /// The filters of deletions.
    compiled: Compiled,
    /// The partitions that this node owned when the catalog went away: their newest frames are
    /// read and answered for, and not published.
    expired: RwLock<BTreeMap<u32, Arc<OwnedPartition>>>,
    /// Why this node takes no partitions and reads no segments for others; none if it does.
    refusal: Mutex<Option<String>>,
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    /// The lease under which programs and sinks run on this node, while they do.
    work_lease: Mutex<Option<Lease>>,
    /// The background queries of all nodes.
    queries: KnownQueries,
    /// What segments hold, when that was asked, and how long it took.
    held: Mutex<Option<(Instant, Duration, Held)>>,
    /// The region that this one follows, as of a moment ago.
    follows: RwLock<Option<Follows>>,
    /// The id of the topic that the catalog goes with, once that is known.
    log_topic: OnceLock<String>,
    /// Why the log is not the one of the catalog, as of a moment ago.
    other_log: RwLock<Option<String>>,
}

/// The state of a cluster, as far as the engines tell.
pub struct Status {
    /// The partitions that ever had an owner, with the offsets below which all is published; none
    /// while the catalog is away.
    pub partitions: Option<Vec<PartitionRow>>,
    /// Behind the last message of each partition; none while the log is away.
    pub ends: Option<Vec<u64>>,
    /// All segments; none while the catalog is away.
    pub totals: Option<Totals>,
    /// Why something is not known.
    pub errors: Vec<String>,
}

/// The calls of an engine, with its name.
pub type EngineCalls = (&'static str, Metered);

impl Engines {
    /// Connects, and waits for engines that are away. `grace`: how long objects stay that no
    /// segment needs any more. `answers_bytes_max`: memory for what queries found in blocks and
    /// frames. Blocks.
    ///
    /// Errors: a local directory cannot be used; the settings of the object storage are wrong.
    pub fn connect(
        config: EngineOptions,
        address: &str,
        node: u32,
        data_dir: &Path,
        summary: SummaryConfig,
        grace: Duration,
        answers_bytes_max: usize,
    ) -> Result<Engines> {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let bucket = Bucket::new(config.objects.clone()).context("cluster.objects")?;
        let bucket = Arc::new(bucket);
        let segments =
            Segments::new(Arc::clone(&bucket), &data_dir.join(OBJECTS_FOLDER), config.cache_bytes);
        let segments = segments.context("the cache of segments")?;
        let catalog = until("PostgreSQL", || {
            PgCatalog::open(config.catalog.clone()).map_err(|error| error.to_string())
        });
        let of_region = || {
            let region = (catalog.left()?, catalog.follows()?, catalog.log_bases()?);
            Ok::<_, CatalogError>(region)
        };
        let (left, follows, bases) =
            until("PostgreSQL", || of_region().map_err(|error| error.to_string()));
        ensure!(
            left.is_none(),
            "no node starts with this database: {}",
            left.unwrap_or_default().escape_default()
        );
        ensure!(
            follows.is_none() || !config.stores,
            "this region follows another one, and has no stores: write cluster.roles = [\"query\"], or promote it with \
             `loginson cluster promote`"
        );
        let log = until("Kafka", || append::connect(&config.kafka));
        log.set_bases(bases);
        let roles = [
            (config.collects, Role::Collector),
            (config.stores, Role::Store),
            (config.queries, Role::Query),
        ];
        let info = NodeInfo {
            node: NodeId(node),
            name: name_of(&config, config.address.as_deref().unwrap_or(address)),
            address: config.address.clone().unwrap_or_else(|| address.to_owned()),
            roles: roles.into_iter().filter(|(has, _)| *has).map(|(_, role)| role).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            accepting: config.stores || config.queries,
        };
        let engines = Engines {
            config,
            info,
            log: Arc::new(log),
            bucket,
            catalog,
            log_ends: Arc::new(LogEnds::new(Arc::clone(&clock))),
            kept: KeptCatalog::new(grace),
            compiled: Compiled::default(),
            expired: RwLock::default(),
            clock,
            segments,
            answers: Answers::new(answers_bytes_max),
            summary,
            view: Mutex::default(),
            owned: RwLock::default(),
            refusal: Mutex::default(),
            nodes: Mutex::default(),
            work_lease: Mutex::default(),
            queries: KnownQueries::default(),
            held: Mutex::default(),
            follows: RwLock::new(follows),
            log_topic: OnceLock::new(),
            other_log: RwLock::default(),
        };
        // Before anything is read.
        until("PostgreSQL", || engines.look_at_log().map_err(|error| error.to_string()));
        Ok(engines)
    }

    /// The object storage.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    /// The region that this one follows, and is behind; none if it is one of its own.
    pub fn follows(&self) -> Option<Follows> {
        *self.follows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far this region is behind the one that it follows, by the clock of this node; none if it
    /// follows none.
    pub fn follow_lag(&self) -> Option<Duration> {
        let behind_ns = self.clock.now_ns().saturating_sub(self.follows()?.at_ns);
        Some(Duration::from_nanos(u64::try_from(behind_ns).unwrap_or(0)))
    }

    /// Looks how far a region is that follows another one, and whether it still does. Blocks.
    fn look_at_region(&self) -> Result<(), CatalogError> {
        if self.follows().is_none() {
            return Ok(());
        }
        let follows = self.catalog.follows()?;
        if follows.is_none() {
            // It was promoted, and may have another log.
            self.log.set_bases(self.catalog.log_bases()?);
            tracing::info!("this region follows no other one any more");
        }
        *self.follows.write().unwrap_or_else(PoisonError::into_inner) = follows;
        Ok(())
    }

    /// Why the log is not the one of the catalog; none if it is.
    pub fn other_log(&self) -> Option<String> {
        self.other_log.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether the log is the one of the catalog. A log that does not tell stays what it was.
    /// Blocks.
    fn look_at_log(&self) -> Result<(), CatalogError> {
        if self.follows().is_some() {
            return Ok(());
        }
        let Ok(Some(found)) = self.log.topic_id() else { return Ok(()) };
        let known = match self.log_topic.get() {
            Some(known) => known.clone(),
            None => match self.catalog.log_topic()? {
                Some(known) => known,
                None if self.config.stores => self.catalog.adopt_log(&found)?,
                None => return Ok(()),
            },
        };
        // It is replaced while no node runs that asks for it.
        let known = self.log_topic.get_or_init(|| known);
        let topic = &self.config.kafka.log.topic;
        let other = (*known != found).then(|| {
            format!(
                "the topic {topic} is not the one of this cluster: it was made anew, or cluster.kafka names another Kafka.                  If the earlier one is lost for good, stop stores and query nodes, and run `loginson cluster replace-log`"
            )
        });
        let mut before = self.other_log.write().unwrap_or_else(PoisonError::into_inner);
        if let (Some(other), None) = (&other, &*before) {
            tracing::error!("{other}");
        }
        *before = other;
        Ok(())
    }

    /// All nodes and leases, as of the last heartbeat.
    pub fn view(&self) -> View {
        self.view_locked().clone()
    }

    fn view_locked(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions with what they wait for, as people see them. Blocks.
    pub fn status(&self) -> Status {
        let mut errors = Vec::new();
        let mut failed = |error: String| errors.push(error);
        let of_catalog = || {
            let snapshot = self.catalog.snapshot_within(STATUS_TIME_MAX, none(), 0)?;
            Ok::<_, CatalogError>((snapshot.partitions, self.catalog.totals()?))
        };
        let of_catalog = of_catalog().map_err(|error| failed(error.to_string())).ok();
        let (partitions, totals) = of_catalog.unzip();
        let known = self.log_ends.ask(&self.log, STATUS_TIME_MAX).map_err(&mut failed).ok();
        if let Some(why) = self.other_log() {
            failed(why);
        }
        if let Some(known) = known.as_ref().filter(|known| !known.error.is_empty()) {
            failed(format!("Kafka does not tell where its partitions end: {}", known.error));
        }
        let now = |known: &KnownEnd| match known.end {
            End::Now(end) => Some(end),
            End::Before(_) => None,
        };
        let ends = known.and_then(|known| known.ends.iter().map(now).collect());
        Status { partitions, ends, totals, errors }
    }

    /// What all segments hold, as of a moment ago. Blocks.
    ///
    /// Errors: the catalog does not answer; the text says so.
    pub fn segments_held(&self) -> Result<Held, String> {
        let mut known = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, took, held)) = &*known
            && asked.elapsed() < HELD_AGAIN.max(took.saturating_mul(HELD_FACTOR))
        {
            return Ok(*held);
        }
        let asked = Instant::now();
        let held = self.catalog.held().map_err(|error| error.to_string())?;
        *known = Some((asked, asked.elapsed(), held));
        Ok(held)
    }

    /// Whether the log or the catalog has not answered for longer than a lease: a query does not
    /// wait for it then.
    pub fn are_away(&self) -> bool {
        let away = |failing: Option<Duration>| failing.is_some_and(|f| f >= self.config.lease);
        away(self.log_ends.outage()) || away(self.catalog.metered().failing)
    }

    /// The calls of the engines so far: log, object storage, catalog.
    pub fn calls(&self) -> [EngineCalls; 3] {
        [
            ("kafka", self.log.metered()),
            ("objects", self.bucket.metered()),
            ("postgresql", self.catalog.metered()),
        ]
    }

    /// Why this node takes no partitions and reads no segments for others; none if it does.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_refusal(&self, refusal: Option<String>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// How many partitions the log has; 0 while that is not known.
    fn partitions_known(&self) -> u32 {
        self.log_ends.partitions()
    }

    /// Notes where the partitions end, as far as the log told it when it was asked at `asked`, and
    /// tells those that this node owns.
    fn hear_ends(&self, ends: &[Option<u64>], asked: Instant) {
        self.log_ends.hear(ends, asked);
        let now_ns = self.clock.monotonic_ns();
        for owned in self.all_owned().into_iter().chain(self.all_expired()) {
            if let Some(Some(end)) = ends.get(owned.number as usize) {
                owned.hot.hear_end(*end, now_ns);
            }
        }
    }

    /// Has everything published that this node has read and not published. Returns the partitions
    /// and frames that wait for it now.
    pub fn publish_now(&self) -> (usize, usize) {
        let frames = self.all_owned().into_iter().map(|owned| owned.hot.publish_now());
        frames
            .filter(|frames| *frames > 0)
            .fold((0, 0), |(count, sum), some| (count + 1, sum + some))
    }

    /// Deletes the lines that `filter` selects and that a collector received before now: from now
    /// on no query shows them. Blocks.
    ///
    /// Errors: an engine cannot be reached; too many deletions run; the filter is too long.
    pub fn delete_lines(&self, filter: &str) -> Result<DeletionRow, CatalogError> {
        if filter.len() > FILTER_BYTES_MAX {
            let text = format!("the filter is longer than {FILTER_BYTES_MAX} bytes");
            return Err(CatalogError::Refused(text));
        }
        let ends = FrameLog::ends(&*self.log);
        let ends = ends.map_err(|error| CatalogError::Unavailable(error.to_string()))?;
        self.catalog.delete(filter, &ends)
    }

    /// All deletions, with how far they are. Blocks.
    pub fn deletions(&self) -> Result<Deletions, CatalogError> {
        self.catalog.deletions()
    }

    /// Ends a deletion that hides lines; false when none of that id does. Blocks.
    pub fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError> {
        self.catalog.cancel_deletion(id)
    }

    /// When the last deletion was requested, as of the last heartbeat: nanoseconds since 1970 UTC.
    pub fn deleted_ns(&self) -> Option<i64> {
        self.view_locked().deleted_ns
    }

    /// The deletions that hide lines, with compiled filters. Blocks.
    fn covering(&self) -> Result<Covering, String> {
        let snapshot = self.catalog.snapshot(none(), 0).map_err(|error| error.to_string())?;
        self.compiled.retain(&snapshot.tombstones);
        self.compiled.covering(snapshot.tombstones.iter().map(HiddenLines::from))
    }

    /// The time by the clock of lags.
    pub fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// A partition whose newest frames this node has: one that it owns, or owned when the catalog
    /// went away.
    fn held(&self, partition: u32) -> Option<Arc<OwnedPartition>> {
        let owned = |all: &RwLock<BTreeMap<u32, Arc<OwnedPartition>>>| {
            all.read().unwrap_or_else(PoisonError::into_inner).get(&partition).cloned()
        };
        owned(&self.owned).or_else(|| owned(&self.expired))
    }

    fn all_expired(&self) -> Vec<Arc<OwnedPartition>> {
        self.expired.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The partitions that this node owns.
    pub fn all_owned(&self) -> Vec<Arc<OwnedPartition>> {
        self.owned.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The node at an address.
    ///
    /// Errors: the certificates of `cluster.ca_file` cannot be read.
    pub fn node(&self, address: &str) -> Result<Arc<Node>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let (token, ca_file) = (self.config.token.as_deref(), self.config.ca_file.as_deref());
        let view = self.view_locked();
        let row = view.nodes.iter().find(|row| row.info.address == address);
        let name = row.map(|row| row.info.name.clone());
        drop(view);
        let is_named = name.is_some();
        let node = Arc::new(Node::named(name, address, token, ca_file)?);
        if !is_named {
            // It is asked for its name again.
            return Ok(node);
        }
        nodes.insert(address.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    /// The node at an address, if this one has heard of it.
    pub fn known_node(&self, address: &str) -> Option<Arc<Node>> {
        let is_known = self.view_locked().nodes.iter().any(|row| row.info.address == address);
        is_known.then(|| self.node(address).ok()).flatten()
    }

    /// The nodes that read segments.
    pub fn reading_nodes(&self) -> Vec<Arc<Node>> {
        self.readers().iter().filter_map(|address| self.node(address).ok()).collect()
    }

    /// The requests to the object storage so far.
    pub fn object_requests(&self) -> Requests {
        self.bucket.requests()
    }

    /// What the caches on the local disk did so far: that of lines, and that of footers and word
    /// filters.
    pub fn cache_counts(&self) -> [Counts; 2] {
        self.segments.counts()
    }

    /// The lease under which programs and sinks run on this node; none while they run elsewhere.
    pub fn work_lease(&self) -> Option<Lease> {
        *self.work_lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that programs and sinks run on this node from now on, or no longer.
    pub fn set_work_lease(&self, lease: Option<Lease>) {
        *self.work_lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }

    /// The node that has the lease of the programs; none while it is on its way.
    pub fn programs_node(&self) -> Option<Arc<Node>> {
        let view = self.view();
        let lease =
            view.leases.iter().find(|row| row.resource == Resource::Programs && row.live)?;
        let row = view.nodes.iter().find(|row| Some(row.info.node) == lease.owner)?;
        self.node(&row.info.address).ok()
    }

    /// The nodes of a role that heartbeat.
    pub fn live(&self, role: Role) -> Vec<Arc<Node>> {
        self.live_and(role, |_| true)
    }

    fn live_and(&self, role: Role, is_wanted: impl Fn(&NodeInfo) -> bool) -> Vec<Arc<Node>> {
        let view = self.view();
        let live = view.nodes.iter().filter(|row| {
            row.info.roles.contains(&role) && row.silent < self.config.lease && is_wanted(&row.info)
        });
        live.filter_map(|row| self.node(&row.info.address).ok()).collect()
    }
}

/// A range that has no time: a snapshot of it has partitions alone.
fn none() -> cluster::TimeRange {
    cluster::TimeRange { first_ns: i64::MAX, last_ns: i64::MIN }
}

/// The first success of `call`, which is tried again while an engine is away.
fn until<T>(what: &str, call: impl Fn() -> Result<T, String>) -> T {
    let mut said = String::new();
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) if error != said => {
                tracing::warn!("waiting for {what}: {error}");
                said = error;
            }
            Err(_) => {}
        }
        std::thread::sleep(RETRY);
    }
}

/// The name of this node for people: as configured, else the host, what it does, and the port if it
/// is not the usual one: several nodes may be on one host.
fn name_of(config: &EngineOptions, address: &str) -> String {
    if let Some(name) = &config.name {
        return name.clone();
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let roles =
        [(config.collects, "collector"), (config.stores, "store"), (config.queries, "query")];
    let has = roles.iter().filter(|(has, _)| *has).map(|(_, role)| *role);
    // A node that does everything is called by its host.
    let role = match has.clone().count() {
        0 | 3 => String::new(),
        _ => has.fold(String::new(), |name, role| name + "-" + role),
    };
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    match port {
        "" | USUAL_PORT => host + &role,
        port => format!("{host}{role}-{port}"),
    }
}

/// The port of HTTP, unless it is configured.
const USUAL_PORT: &str = "9514";
