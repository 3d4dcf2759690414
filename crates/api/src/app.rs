//! What all handlers share: the settings, the queue, the node once it runs, and the phase of the
//! server's life.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use axum::http::StatusCode;
use collector::Accounting;
use node::cluster::engines::Marks;
use node::cluster::{Cluster, Engines, QueriedLines};
use node::data_dir::{
    DASHBOARDS_FOLDER, DocumentFolder, LINKS_FOLDER, MACROS_FOLDER, PrefixedDocuments,
    TENANT_DASHBOARDS_FOLDER, TENANT_LINKS_FOLDER,
};
use node::pipeline::Pipeline;
use node::queries::QueryOptions;
use node::queries::jobs::Jobs;
use node::saved_views::SavedViews;
use platform::Durations;
use platform::memory::Budget;
use query::QueryQueue;
use record::Tenant;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::access::gate::Gate;
use crate::access::guard::Guard;
use crate::access::principal::{Caller, Scope};
use crate::options::ApiOptions;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::{Clients, Tls};

/// Charts of the summary that are read at a time. Further ones wait; each takes milliseconds.
const SUMMARIES_MAX: usize = 2;

/// Reads the settings again; says what changed, or why nothing did.
pub type Reload = Box<dyn Fn() -> Result<Reloaded, String> + Send + Sync>;

/// What changed when the settings were read again. Each text names a setting, a user or a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What holds from now on.
    pub changed: Vec<String>,
    /// What is written differently, and holds after the next start only.
    pub needs_restart: Vec<String>,
}

/// Seconds after which a request that came too early or too late should be sent again.
const RETRY_AFTER_S: u32 = 5;

/// Dashboards that were sent by mail.
#[derive(Debug)]
pub(crate) struct Mails {
    /// One is made and sent at a time.
    pub(crate) permit: Semaphore,
    /// Mails that a server took.
    pub(crate) sent: AtomicU64,
    /// Attempts that failed.
    pub(crate) failed_attempts: AtomicU64,
    /// Due mails that were given up, or refused for good.
    pub(crate) given_up: AtomicU64,
}

/// The state that all handlers share.
pub struct App {
    /// The settings at the start. [`App::query_options`] has those that may have changed since.
    pub(crate) options: ApiOptions,
    query_options: RwLock<QueryOptions>,
    /// Set once the settings can be read again.
    reload: OnceLock<Reload>,
    pub(crate) address: SocketAddr,
    /// Addresses of listeners for OTLP alone; set before any of them serves.
    otlp: OnceLock<Vec<SocketAddr>>,
    pub(crate) started_ns: i64,
    pub(crate) accounting: Arc<Accounting>,
    pub(crate) phase: RwLock<Phase>,
    /// Becomes true once the store is open.
    pub(crate) opened: watch::Sender<bool>,
    /// The nodes whose lines are read; none: the own store. Nodes of a cluster on engines are set
    /// once the engines are connected.
    pub(crate) cluster: OnceLock<Arc<Cluster>>,
    pub(crate) summary_permits: Arc<Semaphore>,
    /// The same for charts of several stores, of which this node may be one.
    pub(crate) cluster_permits: Arc<Semaphore>,
    /// Backups are made and deleted one at a time.
    pub(crate) backup_permit: Arc<Semaphore>,
    /// One table is uploaded at a time.
    pub(crate) upload_permit: Arc<Semaphore>,
    pub(crate) queue: QueryQueue,
    /// Permits for pages of rows of background queries; each is held until the last byte of the
    /// page is sent.
    pub(crate) page_permits: Arc<Semaphore>,
    pub(crate) pages_refused: AtomicU64,
    pub(crate) clients: Clients,
    pub(crate) guard: Guard,
    pub(crate) gate: Gate,
    /// The memory budget of queries and data in transit.
    pub(crate) memory: Arc<Budget>,
    /// Background queries; set once the store is open.
    pub(crate) jobs: OnceLock<Arc<Jobs>>,
    /// Queries that ended, by [`query::QueryState`].
    pub(crate) queries_ended: [AtomicU64; query::QueryState::COUNT],
    pub(crate) queries_refused: AtomicU64,
    /// How long queries waited for their slots, and how long they ran; without exports.
    pub(crate) query_waits: Durations,
    pub(crate) query_runs: Durations,
    /// Queries that ran for at least `query.slow`.
    pub(crate) queries_slow: AtomicU64,
    /// Lines that live tails missed, as their clients were told.
    pub(crate) tail_lines_skipped: AtomicU64,
    /// Messages of the log of a cluster that live tails missed, as their clients were told.
    pub(crate) tail_messages_missed: AtomicU64,
    /// Set once it is known where they are kept.
    pub(crate) views: OnceLock<Arc<SavedViews>>,
    /// Those of tenants that were asked for. There are as many as tenants in the configuration.
    pub(crate) views_of_tenants: Mutex<BTreeMap<Tenant, Arc<SavedViews>>>,
    /// The numbers of all nodes of a cluster on engines, and when they were added up.
    pub(crate) sums: Mutex<Option<(Instant, Value)>>,
    /// Dashboards by mail.
    pub(crate) mails: Mails,
    pub(crate) stopping: watch::Receiver<bool>,
    /// The end has begun.
    is_ending: AtomicBool,
}

/// What people saved on the page, in the data directory.
fn views_in_folders(options: &ApiOptions) -> SavedViews {
    let folder = |name| Arc::new(DocumentFolder::new(&options.store.data_dir.join(name)));
    let provided = options.dashboards_dir.as_deref();
    let macros = Some(folder(MACROS_FOLDER) as _);
    SavedViews::new(folder(DASHBOARDS_FOLDER), folder(LINKS_FOLDER), macros, provided)
}

/// What was saved for a tenant, in the data directory.
fn views_of_tenant(options: &ApiOptions, tenant: Tenant) -> SavedViews {
    let part = |name| {
        let folder = Arc::new(DocumentFolder::new(&options.store.data_dir.join(name)));
        let prefix = format!("{}-{}.", tenant.account, tenant.project);
        Arc::new(PrefixedDocuments::new(folder, prefix))
    };
    SavedViews::of_tenant(part(TENANT_DASHBOARDS_FOLDER), part(TENANT_LINKS_FOLDER))
}

/// The same in the catalog of a cluster.
fn views_in_catalog(options: &ApiOptions, engines: &Arc<Engines>) -> SavedViews {
    let marks = |prefix| Arc::new(Marks::new(engines, None, prefix));
    let provided = options.dashboards_dir.as_deref();
    SavedViews::new(marks(Marks::DASHBOARDS), marks(Marks::LINKS), None, provided)
}

/// Ends the live tails and exports of callers for whom `is_over` is true: a user or token by its
/// name, or whoever called when nobody had to log in.
fn end_streams(queue: &QueryQueue, is_over: &dyn Fn(Option<&str>) -> bool) {
    for info in queue.list() {
        let is_stream = info.kind == query::TAIL || info.kind == query::EXPORT;
        let name = info.client.split_once(' ').map(|(name, _)| name);
        // A caller that names a tenant with each request has it behind the name.
        let name = name.map(|name| name.split_once('/').map_or(name, |(name, _)| name));
        if is_stream && !info.state.is_ended() && is_over(name) {
            queue.cancel(info.id);
        }
    }
}

/// The phase of the server's life.
pub(crate) enum Phase {
    Recovering,
    Running(Arc<Pipeline>),
    Stopping(Arc<Pipeline>),
}

impl App {
    /// The state before the store is open. `stopping` becomes true at shutdown.
    pub fn new(
        options: ApiOptions,
        address: SocketAddr,
        accounting: Arc<Accounting>,
        tls: Option<Arc<Tls>>,
        cluster: Option<Arc<Cluster>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        App {
            queue: QueryQueue::new(options.query.queue),
            page_permits: Arc::new(Semaphore::new(options.pages_max)),
            pages_refused: AtomicU64::new(0),
            clients: Clients::new(
                options.client_idle_max,
                options.connections_max,
                tls,
                Arc::clone(&accounting),
            ),
            guard: Guard::new(address, &options.hosts, &options.frame_ancestors),
            cluster: cluster.map_or_else(OnceLock::new, OnceLock::from),
            views: match options.has_engines {
                false => OnceLock::from(Arc::new(views_in_folders(&options))),
                true => OnceLock::new(),
            },
            views_of_tenants: Mutex::default(),
            gate: Gate::new(&options.access, address, options.is_https),
            memory: Budget::new(options.memory_bytes_max),
            query_options: RwLock::new(options.query),
            reload: OnceLock::new(),
            options,
            address,
            otlp: OnceLock::new(),
            started_ns: now_ns(),
            accounting,
            phase: RwLock::new(Phase::Recovering),
            opened: watch::Sender::new(false),
            summary_permits: Arc::new(Semaphore::new(SUMMARIES_MAX)),
            cluster_permits: Arc::new(Semaphore::new(SUMMARIES_MAX)),
            backup_permit: Arc::new(Semaphore::new(1)),
            upload_permit: Arc::new(Semaphore::new(1)),
            jobs: OnceLock::new(),
            queries_ended: Default::default(),
            queries_refused: AtomicU64::new(0),
            query_waits: Durations::default(),
            query_runs: Durations::default(),
            queries_slow: AtomicU64::new(0),
            tail_lines_skipped: AtomicU64::new(0),
            tail_messages_missed: AtomicU64::new(0),
            sums: Mutex::default(),
            mails: Mails {
                permit: Semaphore::new(1),
                sent: AtomicU64::new(0),
                failed_attempts: AtomicU64::new(0),
                given_up: AtomicU64::new(0),
            },
            stopping,
            is_ending: AtomicBool::new(false),
        }
    }

    /// The caller as the queue of queries shows it, which knows its limits from then on.
    pub(crate) fn client_in_queue(&self, caller: &Caller) -> String {
        let (client, principal) = (caller.client(), &caller.principal);
        self.queue.note_owner(&client, principal.limits.in_queue(principal.may(Scope::Operate)));
        client
    }

    /// The limits of queries that begin now.
    pub fn query_options(&self) -> QueryOptions {
        *self.query_options.read().expect("nothing panics with it")
    }

    /// Changes the limits of queries, for those that begin from now on.
    pub fn set_query_options(&self, options: QueryOptions) {
        *self.query_options.write().expect("nothing panics with it") = options;
        self.queue.set_limits(options.queue);
        if let Some(jobs) = self.jobs.get() {
            jobs.set_limits(options.background, options.limits);
        }
    }

    /// Addresses of listeners for OTLP alone.
    pub(crate) fn otlp(&self) -> &[SocketAddr] {
        self.otlp.get().map_or(&[], Vec::as_slice)
    }

    /// Sets these addresses. Called once.
    pub(crate) fn listens_for_otlp(&self, addresses: &[SocketAddr]) {
        let _ = self.otlp.set(addresses.to_vec());
    }

    /// Users, tokens and sessions.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Lets a call read the settings again.
    pub fn on_reload(&self, reload: Reload) {
        assert!(self.reload.set(reload).is_ok(), "it is set once");
    }

    /// Reads the settings again.
    pub(crate) fn reload(&self) -> ApiResult<Reloaded> {
        let reload = self.reload.get().ok_or_else(|| {
            ApiError::unavailable("the server is still starting; try again in a moment")
        })?;
        reload().map_err(ApiError::bad_request)
    }

    /// The queue of queries.
    pub fn queue(&self) -> &QueryQueue {
        &self.queue
    }

    /// The memory that queries, tails, answers and inserts share.
    pub fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// The limits of clients, and their state.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The store is open: accepts lines from now on.
    pub fn run(&self, pipeline: Arc<Pipeline>, jobs: Arc<Jobs>) {
        if let Some(tenants) = self.gate.tenants().cloned() {
            jobs.tell(Box::new(move |submission, done| {
                if let Ok(tenant) = submission.tenant.parse() {
                    tenants.note_query(tenant, now_ns(), done.lines_scanned, done.bytes_scanned);
                }
            }));
        }
        let first = self.jobs.set(jobs).is_ok();
        assert!(first, "the store is opened once");
        let queue = self.queue.clone();
        self.gate.on_revoked(Box::new(move |is_over| end_streams(&queue, is_over)));
        *self.phase.write().expect("nothing panics with it") = Phase::Running(pipeline);
        self.opened.send_replace(true);
    }

    /// The end begins: queries end, and what was accepted is finished. Lines of requests that have
    /// begun, or whose connections are open, are still kept, until [`App::stop`].
    pub fn begin_stop(&self) {
        self.is_ending.store(true, Relaxed);
        self.queue.close();
    }

    /// Whether the end has begun.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Accepts no more work from now on.
    pub fn stop(&self) {
        self.begin_stop();
        let mut phase = self.phase.write().expect("nothing panics with it");
        if let Phase::Running(pipeline) = &*phase {
            *phase = Phase::Stopping(Arc::clone(pipeline));
        }
    }

    /// Whether queries run; tails, which wait for lines most of the time, are not counted.
    pub fn runs_queries(&self) -> bool {
        let runs = |info: &query::QueryInfo| {
            info.state == query::QueryState::Running && info.kind != query::TAIL
        };
        self.queue.list().iter().any(runs)
    }

    /// The lines that queries read.
    pub fn lines(&self, pipeline: &Pipeline) -> QueriedLines {
        QueriedLines::new(pipeline.stored.clone(), self.cluster())
    }

    /// The nodes whose lines are read; none: the own store.
    pub fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.get().cloned()
    }

    /// The engines of the cluster that this node is part of; none without such a cluster.
    pub fn engines(&self) -> Option<Arc<Engines>> {
        self.cluster.get().and_then(|cluster| cluster.engines().cloned())
    }

    /// The engines of the cluster are connected: queries read the cluster from now on.
    pub fn join(&self, cluster: Arc<Cluster>) {
        if let Some(engines) = cluster.engines() {
            let views = Arc::new(views_in_catalog(&self.options, engines));
            let first = self.views.set(views).is_ok();
            assert!(first, "engines are connected once");
        }
        assert!(self.cluster.set(cluster).is_ok(), "engines are connected once");
    }

    /// What people saved on the page that a caller sees: of all, or of a tenant.
    ///
    /// # Errors
    /// 409 in a cluster on engines, where tenants have none of their own.
    pub(crate) fn views_of(&self, caller: &Caller) -> ApiResult<Arc<SavedViews>> {
        self.views_of_tenant(caller.principal.tenants.views())
    }

    /// As [`views_of`](Self::views_of), of a tenant; none: of all.
    pub(crate) fn views_of_tenant(&self, tenant: Option<Tenant>) -> ApiResult<Arc<SavedViews>> {
        let Some(tenant) = tenant else {
            return Ok(Arc::clone(self.views.get().expect("they are set before the pipeline is")));
        };
        if self.options.has_engines {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "in a cluster on Kafka, tenants have no dashboards and links of their own",
            ));
        }
        let mut all = self.views_of_tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let of = all.entry(tenant);
        Ok(Arc::clone(of.or_insert_with(|| Arc::new(views_of_tenant(&self.options, tenant)))))
    }

    /// The pipeline, for new work; an error while the server starts or stops.
    pub fn pipeline(&self) -> ApiResult<Arc<Pipeline>> {
        match &*self.phase.read().expect("nothing panics with it") {
            Phase::Running(pipeline) => Ok(Arc::clone(pipeline)),
            Phase::Recovering => {
                Err(ApiError::unavailable("the store is still being opened; try again in a moment")
                    .retry_after(RETRY_AFTER_S))
            }
            Phase::Stopping(_) => {
                Err(ApiError::unavailable("the server is shutting down").retry_after(RETRY_AFTER_S))
            }
        }
    }

    /// Background queries.
    pub fn jobs(&self) -> ApiResult<&Arc<Jobs>> {
        self.pipeline()?;
        Ok(self.jobs.get().expect("they are set before the pipeline is"))
    }

    /// The pipeline for reading its state, also while shutting down.
    pub fn pipeline_seen(&self) -> Option<Arc<Pipeline>> {
        match &*self.phase.read().expect("nothing panics with it") {
            Phase::Running(pipeline) | Phase::Stopping(pipeline) => Some(Arc::clone(pipeline)),
            Phase::Recovering => None,
        }
    }
}
