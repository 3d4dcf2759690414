//! The life of the server process: bind the address, open the store, run, stop.
//!
//! The HTTP address is bound first, so that a second instance fails within seconds, and so that
//! health and status respond while a large store is being opened.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use collector::{Accounting, BindTries, Credentials, SourceError};
use platform::threads::STACK_BYTES;
use platform::{RealClock, placement, pressure};
use query::QueryQueue;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::notify::Notify;
use crate::reload::Reloader;
use crate::settings::{Loaded, Settings};
use api::access::audit_log::AuditLog;
use api::access::gate::LOOK_EVERY;
use api::{App, Clients, Gate, Router, Tls};
use node::cluster::engines::SharedAccess;
use node::cluster::{Cluster, Engines, QueriedLines};
use node::data_dir::{DocumentFolder, QUERIES_FOLDER};
use node::ingest::sources::addresses;
use node::pipeline::Pipeline;
use node::pipeline::options::NodeOptions;
use node::process::{memory, private};
use node::programs::registry::Registry;
use node::programs::rows::ProgramRevisions;
use node::queries::QueryOptions;
use node::queries::jobs::Jobs;

/// How often background queries are checked for expiry.
const EXPIRY_TICK: Duration = Duration::from_secs(5);
/// How often nodes of a cluster tell each other which background queries they keep.
const SHARE_QUERIES_TICK: Duration = Duration::from_secs(2);

/// The pause before the users of a cluster are asked for again.
const SHARE_RETRY: Duration = Duration::from_secs(2);

/// How often tenants are compared with their limits of disk.
const QUOTAS_TICK: Duration = Duration::from_secs(60);

/// How often it is kept when tokens were used last.
const USES_TICK: Duration = Duration::from_secs(600);

/// Runs until a signal ends it. `ready_file` is written once lines are accepted.
pub fn run(settings: Settings, loaded: Loaded, ready_file: Option<PathBuf>) -> Result<()> {
    let mut config = loaded.config.clone();
    config.allow_files()?;
    placement::choose(config.placement.priorities);
    node::data_dir::create_dirs(config.node.data_dir())
        .and_then(|()| private::own_directory(config.node.data_dir()))
        .with_context(|| format!("cannot use {}", config.node.data_dir().display()))?;
    memory::give_back_freed(memory::large_bytes(
        config.node.store.cache_bytes_max as u64,
        config.api.memory_bytes_max,
        platform::memory::machine_bytes(),
    ))
    .context("cannot start a thread")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.placement.http_threads)
        .thread_stack_size(STACK_BYTES)
        // They read the bodies of ingest requests, and carry the answers of queries.
        .on_thread_start(pressure::take_precedence_for_lines)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let result = runtime.block_on(serve(settings, loaded, config, ready_file));
    // Queries that still run notice that nobody waits for them, and end.
    runtime.shutdown_background();
    result
}

async fn serve(
    settings: Settings,
    loaded: Loaded,
    config: Config,
    ready_file: Option<PathBuf>,
) -> Result<()> {
    let mut signals = Signals::new()?;
    let notify = Notify::new();
    // From the start on: opening a large store takes minutes.
    notify.keep_alive();
    let hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let listener = bind("HTTP", "--http-listen", config.http_listen).await?;
    let otlp = bind_otlp(&config).await?;
    let otlp_addresses: Vec<SocketAddr> = otlp.iter().map(|(_, address)| *address).collect();
    let address = listener.local_addr().context("cannot tell the address of HTTP")?;
    let accounting = Arc::new(Accounting::default());
    let (stop, stopping) = watch::channel(false);
    let tls = https(&config)?;
    let cluster = config.stores.as_ref().map(Cluster::new).transpose()?;
    cluster.iter().try_for_each(Cluster::watch).context("cannot start a thread")?;
    let app = App::new(
        config.api.clone(),
        address,
        Arc::clone(&accounting),
        tls.clone(),
        cluster.clone(),
        stopping.clone(),
    );
    let app = Arc::new(app);
    let kept = Arc::new(DocumentFolder::new(config.node.data_dir()));
    app.gate().keep_in(kept).map_err(anyhow::Error::msg)?;
    if config.node.engines.is_some() {
        app.gate().expect_sharing();
    }
    app.gate().set_auditing(config.api.auditing).map_err(anyhow::Error::msg)?;
    let tenants = Arc::clone(&config.node.tenants);
    app.gate().set_tenants(tenants).map_err(anyhow::Error::msg)?;
    warn_of_access(&config, app.gate(), address);
    offer_first(&config, app.gate(), address, tls.is_some());
    let (router, otlp_routers) = api::routers(Arc::clone(&app), &otlp_addresses);
    let listeners = std::iter::once(listener).chain(otlp.into_iter().map(|(listener, _)| listener));
    let routers = std::iter::once(router).chain(otlp_routers);
    let serving = serve_all(listeners.zip(routers), app.clients(), &stopping);

    let app_seen = Arc::clone(&app);
    let runs_queries = Box::new(move || app_seen.runs_queries());
    let (queue, memory) = (app.queue().clone(), Arc::clone(app.memory()));
    let joining = Arc::clone(&app);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let opening = tokio::task::spawn_blocking(move || {
        let pipeline = Pipeline::start(&config.node, accounting, &memory, runs_queries)?;
        let opened = join_engines(&config.node, &format!("{scheme}://{address}"), &pipeline);
        let opened = opened.and_then(|joined| {
            if let Some(engines) = joined.as_ref().and_then(|cluster| cluster.engines()) {
                share_access(joining.gate(), engines);
            }
            joined.iter().for_each(|cluster| joining.join(Arc::clone(cluster)));
            open_jobs(&config.node, queue, &pipeline, joined.or(cluster))
        });
        opened.inspect_err(|_| pipeline.stop()).map(|jobs| (pipeline, jobs))
    });
    let (pipeline, jobs) = tokio::select! {
        opened = opening => opened.context("opening the store failed")??,
        // The next start repairs what a crash leaves.
        name = signals.next() => anyhow::bail!("{name} while the store was being opened"),
    };
    if config.api.auditing.enabled {
        let rows = Arc::clone(&pipeline.audit_rows);
        app.gate().audit_to(AuditLog::start(rows).context("cannot start a thread")?);
    }
    tokio::spawn(expire(Arc::clone(&jobs)));
    if app.cluster().is_some_and(|cluster| cluster.engines().is_some()) {
        tokio::spawn(share_queries(Arc::clone(&jobs)));
    }
    tokio::spawn(save_uses(app.gate().clone()));
    tokio::spawn(look_for_changes(app.gate().clone()));
    if !pipeline.tenants.is_off() {
        tokio::spawn(keep_quotas(Arc::clone(&pipeline)));
    }
    app.run(Arc::clone(&pipeline), jobs);
    tokio::spawn(api::send_mails(Arc::clone(&app)));
    let of = Some((&app, &pipeline));
    let rules = (Arc::clone(&pipeline.rules), Arc::clone(&pipeline.lookups));
    let reloader = Arc::new(Reloader::new(settings, loaded, app.gate().clone(), rules, of));
    let called = Arc::clone(&reloader);
    app.on_reload(Box::new(move || called.reload()));
    tracing::info!("page and API at {scheme}://{address}/");
    if let Some(file) = ready_file {
        let addresses = addresses(address, &otlp_addresses, &pipeline.sources().listeners());
        write_ready_file(&file, &addresses)?;
    }

    tokio::spawn(reload_on(hangup, reloader, Arc::clone(&pipeline), tls, notify.clone()));
    notify.ready();

    let name = signals.next().await;
    notify.stopping();
    tracing::info!("{name}: shutting down; a second signal ends at once");
    end_at_second_signal(signals, "acknowledged lines are safe");
    // Requests that have begun are finished while there still is a store to take their lines.
    app.begin_stop();
    stop.send_replace(true);
    for serving in serving {
        serving.await.context("serving HTTP failed")?;
    }
    app.stop();
    let gate = app.gate().clone();
    let saved = tokio::task::spawn_blocking(move || {
        gate.save_uses();
        gate.save_days();
        gate.audit().iter().for_each(AuditLog::close);
    });
    saved.await.context("closing the audit log failed")?;
    let stopped = tokio::task::spawn_blocking(move || pipeline.stop());
    stopped.await.context("stopping the pipeline failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// Connects to the engines of a cluster, and takes part in it; none where there are no engines.
fn join_engines(
    options: &NodeOptions,
    address: &str,
    pipeline: &Pipeline,
) -> Result<Option<Arc<Cluster>>> {
    let Some(engines) = &options.engines else { return Ok(None) };
    let node = pipeline.store().node();
    let (summary, grace) = (options.summary.clone(), options.grace());
    let engines = Engines::connect(
        engines.clone(),
        address,
        node,
        options.data_dir(),
        summary,
        grace,
        options.query.answers_bytes_max,
    )?;
    let engines = Arc::new(engines);
    pipeline.join(&engines, options)?;
    let revisions = Arc::new(ProgramRevisions::of_cluster(&engines));
    Ok(Some(Cluster::on_engines(engines, revisions)))
}

fn open_jobs(
    options: &NodeOptions,
    queue: QueryQueue,
    pipeline: &Arc<Pipeline>,
    cluster: Option<Arc<Cluster>>,
) -> Result<Arc<Jobs>> {
    let dir = options.data_dir().join(QUERIES_FOLDER);
    let QueryOptions { limits, background, .. } = options.query;
    let lines = QueriedLines::new(pipeline.stored.clone(), cluster);
    let memory = Arc::clone(&pipeline.memory);
    let jobs =
        Jobs::open(Arc::clone(&pipeline.disk), dir, background, limits, queue, lines, memory);
    jobs.context("cannot open the background queries")
}

/// In a cluster, lets the nodes know of each other's background queries.
async fn share_queries(jobs: Arc<Jobs>) {
    let mut said = String::new();
    loop {
        let sharing = Arc::clone(&jobs);
        let shared = tokio::task::spawn_blocking(move || sharing.share()).await;
        let why = shared.map_err(|error| error.to_string()).flatten().err().unwrap_or_default();
        if !why.is_empty() && why != said {
            tracing::warn!("background queries of other nodes are not known: {why}");
        }
        said = why;
        tokio::time::sleep(SHARE_QUERIES_TICK).await;
    }
}

/// Deletes background queries that have expired.
async fn expire(jobs: Arc<Jobs>) {
    loop {
        tokio::time::sleep(EXPIRY_TICK).await;
        let jobs = Arc::clone(&jobs);
        if let Err(error) = tokio::task::spawn_blocking(move || jobs.expire()).await {
            tracing::error!("deleting background queries: {error}");
        }
    }
}

/// Shares users and tokens with the other nodes of the cluster. Blocks until the catalog answers:
/// without it, nobody knows who may come in.
fn share_access(gate: &Gate, engines: &Arc<Engines>) {
    let document = Arc::new(SharedAccess::new(engines));
    while let Err(why) = gate.share(Arc::clone(&document) as _) {
        tracing::error!("users and tokens of the cluster are not known: {why}; it is tried again");
        std::thread::sleep(SHARE_RETRY);
    }
}

/// Takes over users and tokens that were changed at other nodes of a cluster, and ends what expired
/// tokens began.
async fn look_for_changes(gate: Gate) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let looking = gate.clone();
        let looked = tokio::task::spawn_blocking(move || {
            looking.end_expired();
            looking.look_for_changes()
        });
        let looked = looked.await.map_err(|error| error.to_string());
        let why = looked.flatten().err().unwrap_or_default();
        if !why.is_empty() && why != said {
            tracing::warn!("changes of users and tokens at other nodes are not known: {why}");
        }
        said = why;
    }
}

/// Keeps tenants to their limits of disk.
async fn keep_quotas(pipeline: Arc<Pipeline>) {
    loop {
        let pipeline_now = Arc::clone(&pipeline);
        let checked = tokio::task::spawn_blocking(move || {
            pipeline_now.quotas.check(pipeline_now.store());
        });
        if let Err(error) = checked.await {
            tracing::error!("keeping tenants to their limits of disk: {error}");
        }
        tokio::time::sleep(QUOTAS_TICK).await;
    }
}

/// Keeps when tokens were used last, so that at most that much of it is lost by a crash.
async fn save_uses(gate: Gate) {
    loop {
        tokio::time::sleep(USES_TICK).await;
        let gate = gate.clone();
        let saved = tokio::task::spawn_blocking(move || {
            gate.save_uses();
            gate.save_days();
        });
        if let Err(error) = saved.await {
            tracing::error!("keeping when tokens were used: {error}");
        }
    }
}

/// Shows the link with which the first administrator is made, if others can reach the server and
/// there are no users.
fn offer_first(config: &Config, gate: &Gate, address: SocketAddr, is_https: bool) {
    let Some(secret) = gate.offer_first() else { return };
    let scheme = if is_https { "https" } else { "http" };
    let host = config.api.hosts.first().map_or_else(
        || match address.ip().is_unspecified() {
            true => format!("127.0.0.1:{}", address.port()),
            false => address.to_string(),
        },
        |host| match host.port {
            Some(_) => host.to_string(),
            None => format!("{host}:{}", address.port()),
        },
    );
    // Behind `#`: browsers do not send it, so it is in no log of a proxy.
    tracing::warn!(
        "make the first administrator within an hour, with this link, which can be used once: \
         {scheme}://{host}/#first-admin={secret}"
    );
}

/// Reloads settings, certificates and programs whenever the signal arrives.
async fn reload_on(
    mut hangup: Signal,
    reloader: Arc<Reloader>,
    pipeline: Arc<Pipeline>,
    tls: Option<Arc<Tls>>,
    notify: Notify,
) {
    while hangup.recv().await.is_some() {
        notify.reloading();
        let (reloader, pipeline, tls) = (Arc::clone(&reloader), Arc::clone(&pipeline), tls.clone());
        let reloaded = tokio::task::spawn_blocking(move || {
            // What cannot be reloaded is in the log.
            let _ = reloader.reload();
            let https = tls.map(|tls| Arc::clone(tls.credentials()));
            for credentials in https.into_iter().chain(pipeline.sources().credentials()) {
                let _ = credentials.reload();
            }
            let _ = pipeline.programs().map(|programs| programs.change(Registry::reload));
        });
        if let Err(error) = reloaded.await {
            tracing::error!("SIGHUP: {error}");
        }
        notify.ready();
    }
}

/// Ends the process at once at a second signal.
pub fn end_at_second_signal(mut signals: Signals, consequence: &'static str) {
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::warn!("{name} again: ending at once; {consequence}");
        std::process::exit(130);
    });
}

/// Loads the certificate of HTTPS and starts to follow its files; `None` if HTTPS is off.
pub fn https(config: &Config) -> Result<Option<Arc<Tls>>> {
    let Some(files) = &config.http_tls else { return Ok(None) };
    let credentials = Credentials::load(files.clone(), Arc::new(RealClock::new()));
    let tls = Tls::new(credentials.context("HTTPS ([http_tls])")?);
    tokio::spawn(Arc::clone(&tls).follow_files());
    Ok(Some(tls))
}

/// Warns if other machines can reach the listener without credentials, or send credentials without
/// encryption.
pub fn warn_of_access(config: &Config, gate: &Gate, address: SocketAddr) {
    if address.ip().to_canonical().is_loopback() {
        return;
    }
    if gate.is_off() {
        tracing::warn!(
            "everybody who reaches {address} may read and delete every line, because there are no users; \
             add some as docs/access.md describes, or listen on 127.0.0.1 (http_listen)"
        );
    } else if config.http_tls.is_none() {
        tracing::warn!(
            "passwords and tokens that are sent to {address} are not encrypted: give it a certificate \
             ([http_tls]), or listen on 127.0.0.1 behind a proxy that has one"
        );
    }
}

/// Serves each router at its listener.
pub fn serve_all(
    routers: impl Iterator<Item = (TcpListener, Router)>,
    clients: &Clients,
    stopping: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let serve = |(listener, router)| {
        tokio::spawn(api::serve(listener, router, clients.clone(), stopping.clone()))
    };
    routers.map(serve).collect()
}

/// Binds the addresses of OTLP.
pub async fn bind_otlp(config: &Config) -> Result<Vec<(TcpListener, SocketAddr)>> {
    let mut bound = Vec::new();
    for &address in &config.otlp_listen {
        let listener = bind("OTLP", "--otlp-listen", address).await?;
        let address = listener.local_addr().context("cannot tell the address of OTLP")?;
        tracing::info!("OpenTelemetry's logs by gRPC and HTTP at {address}");
        bound.push((listener, address));
    }
    Ok(bound)
}

/// Binds an address; tries again for some seconds if it is in use, as after a kill.
pub async fn bind(
    what: &'static str,
    flag: &'static str,
    address: SocketAddr,
) -> Result<TcpListener> {
    let mut tries = BindTries::default();
    loop {
        let error = match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => SourceError::new(what, flag, address, error),
        };
        match tries.pause_after(&error) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error.into()),
        }
    }
}

/// Writes the addresses to a file, atomically.
pub fn write_ready_file(file: &Path, addresses: &serde_json::Value) -> Result<()> {
    let part = file.with_added_extension("part");
    std::fs::write(&part, format!("{addresses}\n"))
        .and_then(|()| std::fs::rename(&part, file))
        .with_context(|| format!("cannot write {}, the file of --ready-file", file.display()))
}

/// Signals that end the process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to listen for them.
    pub fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal that ends the process, and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
