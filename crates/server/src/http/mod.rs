//! The HTTP API: one file for each group of calls of `docs/api.md`, and what they share.
//!
//! Handlers are thin: they parse parameters, hand the work to the pipeline or to a query on a
//! thread of its own, and encode the response. Nothing here blocks the threads of the runtime.

pub mod access;
pub mod admin;
mod alerts;
mod dashboards;
mod files;
pub mod ingest;
mod links;
mod loki;
pub mod options;
mod page;
pub mod programs;
pub mod queries;
pub mod sinks;
#[cfg(test)]
mod tests;
pub mod wire;

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, RwLock};

use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::{Extension, Router};
use collector::Accounting;
use platform::memory::Budget;
use platform::{Clock, RealClock};
use query::QueryQueue;
use tokio::sync::{Semaphore, watch};

pub use self::access::gate::{Gate, PASSWORD_BYTES_MAX};
pub use self::access::guard::{Guard, Reason};
pub use self::wire::listen::seats::HTTP_CONNECTIONS_MAX;
pub use self::wire::listen::{Clients, Tls, serve};

use self::access::routes::Routes;
use self::ingest::Inserting;
use self::options::ApiOptions;
use self::wire::error::{ApiError, ApiResult};
use crate::cluster::engines::Marks;
use crate::cluster::{Cluster, Engines, QueriedLines};
use crate::data_dir::{DASHBOARDS_FOLDER, DocumentFolder, LINKS_FOLDER};
use crate::pipeline::Pipeline;
use crate::programs::stage::ProgramStage;
use crate::queries::jobs::Jobs;
use crate::saved_views::SavedViews;
use crate::saved_views::documents::DocumentError;

/// Charts of the summary that are read at a time. Further ones wait; each takes milliseconds.
const SUMMARIES_MAX: usize = 2;

/// The state that all handlers share.
pub struct App {
    options: ApiOptions,
    address: SocketAddr,
    started_ns: i64,
    accounting: Arc<Accounting>,
    phase: RwLock<Phase>,
    /// The nodes whose lines are read; none: the own store. Nodes of a cluster on engines are set
    /// once the engines are connected.
    cluster: OnceLock<Arc<Cluster>>,
    summary_permits: Arc<Semaphore>,
    /// The same for charts of several stores, of which this node may be one.
    cluster_permits: Arc<Semaphore>,
    /// Backups are made and deleted one at a time.
    backup_permit: Arc<Semaphore>,
    queue: QueryQueue,
    /// Permits for pages of rows of background queries; each is held until the last byte of the
    /// page is sent.
    page_permits: Arc<Semaphore>,
    pages_refused: AtomicU64,
    clients: Clients,
    guard: Guard,
    gate: Gate,
    /// The memory budget of queries and data in transit.
    memory: Arc<Budget>,
    /// Background queries; set once the store is open.
    jobs: OnceLock<Arc<Jobs>>,
    /// Queries that ended, by [`query::QueryState`].
    queries_ended: [AtomicU64; query::QueryState::COUNT],
    queries_refused: AtomicU64,
    /// Lines that live tails missed, as their clients were told.
    tail_lines_skipped: AtomicU64,
    /// Set once it is known where they are kept.
    views: OnceLock<Arc<SavedViews>>,
    stopping: watch::Receiver<bool>,
}

/// What people saved on the page, in the data directory.
fn views_in_folders(options: &ApiOptions) -> SavedViews {
    let folder = |name| Arc::new(DocumentFolder::new(&options.store.data_dir.join(name)));
    let provided = options.dashboards_dir.as_deref();
    SavedViews::new(folder(DASHBOARDS_FOLDER), folder(LINKS_FOLDER), provided)
}

/// The same in the catalog of a cluster.
fn views_in_catalog(options: &ApiOptions, engines: &Arc<Engines>) -> SavedViews {
    let marks = |prefix| Arc::new(Marks::new(engines, None, prefix));
    let provided = options.dashboards_dir.as_deref();
    SavedViews::new(marks(Marks::DASHBOARDS), marks(Marks::LINKS), provided)
}

/// The phase of the server's life.
enum Phase {
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
            clients: Clients::new(options.client_idle_max, tls),
            guard: Guard::new(address, &options.hosts, &options.frame_ancestors),
            cluster: cluster.map_or_else(OnceLock::new, OnceLock::from),
            views: match options.has_engines {
                false => OnceLock::from(Arc::new(views_in_folders(&options))),
                true => OnceLock::new(),
            },
            gate: Gate::new(&options.access, address, options.is_https),
            memory: Budget::new(options.memory_bytes_max),
            options,
            address,
            started_ns: now_ns(),
            accounting,
            phase: RwLock::new(Phase::Recovering),
            summary_permits: Arc::new(Semaphore::new(SUMMARIES_MAX)),
            cluster_permits: Arc::new(Semaphore::new(SUMMARIES_MAX)),
            backup_permit: Arc::new(Semaphore::new(1)),
            jobs: OnceLock::new(),
            queries_ended: Default::default(),
            queries_refused: AtomicU64::new(0),
            tail_lines_skipped: AtomicU64::new(0),
            stopping,
        }
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
        let first = self.jobs.set(jobs).is_ok();
        assert!(first, "the store is opened once");
        *self.phase.write().expect("nothing panics with it") = Phase::Running(pipeline);
    }

    /// Accepts no more work from now on.
    pub fn stop(&self) {
        let mut phase = self.phase.write().expect("nothing panics with it");
        if let Phase::Running(pipeline) = &*phase {
            *phase = Phase::Stopping(Arc::clone(pipeline));
        }
        self.queue.close();
    }

    /// Whether queries run; tails, which wait for lines most of the time, are not counted.
    pub fn runs_queries(&self) -> bool {
        let runs = |info: &query::QueryInfo| {
            info.state == query::QueryState::Running && info.kind != query::TAIL
        };
        self.queue.list().iter().any(runs)
    }

    /// The lines that queries read.
    fn lines(&self, pipeline: &Pipeline) -> QueriedLines {
        QueriedLines::new(pipeline.stored.clone(), self.cluster())
    }

    /// The nodes whose lines are read; none: the own store.
    fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.get().cloned()
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

    /// The pipeline, for new work; an error while the server starts or stops.
    fn pipeline(&self) -> ApiResult<Arc<Pipeline>> {
        match &*self.phase.read().expect("nothing panics with it") {
            Phase::Running(pipeline) => Ok(Arc::clone(pipeline)),
            Phase::Recovering => {
                Err(ApiError::unavailable("the store is still being opened; try again in a moment"))
            }
            Phase::Stopping(_) => Err(ApiError::unavailable("the server is shutting down")),
        }
    }

    /// The programs that run here; an error that names the node where they do.
    fn programs(&self) -> ApiResult<Arc<ProgramStage>> {
        let pipeline = self.pipeline()?;
        pipeline.programs().ok_or_else(|| programs::hand_on::elsewhere(self))
    }

    /// Reads or changes what people saved on the page, on a thread that may block; an error that
    /// names the node that keeps it: it is that of the programs.
    async fn with_views<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SavedViews) -> Result<T, DocumentError> + Send + 'static,
    ) -> ApiResult<T> {
        self.programs()?;
        let views = Arc::clone(self.views.get().expect("they are set before the pipeline is"));
        let done = tokio::task::spawn_blocking(move || work(&views)).await;
        Ok(done.map_err(|error| ApiError::internal(error.to_string()))??)
    }

    /// Background queries.
    fn jobs(&self) -> ApiResult<&Arc<Jobs>> {
        self.pipeline()?;
        Ok(self.jobs.get().expect("they are set before the pipeline is"))
    }

    /// The pipeline for reading its state, also while shutting down.
    fn pipeline_seen(&self) -> Option<Arc<Pipeline>> {
        match &*self.phase.read().expect("nothing panics with it") {
            Phase::Running(pipeline) | Phase::Stopping(pipeline) => Some(Arc::clone(pipeline)),
            Phase::Recovering => None,
        }
    }
}

/// The wall clock, nanoseconds since 1970 UTC.
fn now_ns() -> i64 {
    RealClock::new().now_ns()
}

/// 405, as JSON like every error.
async fn wrong_method(method: Method) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("this call does not take {method}; docs/api.md lists the methods of each call"),
    )
}

/// All routes, each with its scope.
fn routes(app: &Arc<App>) -> Routes<Arc<App>> {
    let to = Arc::clone(app);
    let to = move || Ok(Arc::clone(&to.pipeline()?.http));
    let inserting =
        Inserting::new(app.options.insert, Arc::clone(&app.accounting), app.memory(), to);
    Routes::new()
        .merge(access::login::routes(app.gate.clone()))
        .merge(admin::status::routes())
        .merge(ingest::routes(Arc::clone(&inserting)))
        .merge(queries::select::routes())
        .merge(queries::export::routes())
        .merge(files::routes())
        .merge(admin::backups::routes())
        .merge(queries::queue::routes())
        .merge(queries::share::routes())
        .merge(admin::cluster::routes())
        .merge(admin::seal::routes())
        .merge(queries::context::routes())
        .merge(admin::deletions::routes())
        .merge(queries::summary::routes())
        .merge(programs::routes())
        .merge(sinks::routes())
        .merge(dashboards::routes())
        .merge(links::routes())
        .merge(alerts::routes())
        .merge(admin::metrics::routes())
        .merge(admin::nodes::routes())
        .merge(loki::routes(inserting))
}

/// The router. Requests pass the guard, then the check of their parameters, then the gate of their
/// route.
pub fn router(app: Arc<App>) -> Router {
    let (guard, gate) = (app.guard.clone(), app.gate.clone());
    let (router, _table) = routes(&app).into_parts();
    router
        .fallback(page::get)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(gate))
        .layer(Extension(Arc::clone(&app)))
        .layer(middleware::from_fn(access::known::middleware))
        .layer(middleware::from_fn(wire::compress::answers))
        .layer(middleware::from_fn(wire::missing::name))
        .layer(middleware::from_fn_with_state(guard, access::guard::check))
        .with_state(app)
}
