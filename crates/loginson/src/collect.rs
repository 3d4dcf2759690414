//! The life of a collector process: sources, delivery to stores on other machines, and an HTTP API
//! that accepts lines.
//!
//! The checkpoints of files and the journal are in the directory of the spool. A line counts as
//! read once a store or the spool has it, so none is lost. Lines since the last checkpoint, about a
//! second of them, are sent again if this process is killed, because a collector cannot look up
//! lines in the stores.
//!
//! Left out: everything that needs a local store, which is queries and the page.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use collector::node::{Forward, ForwardConfig, Forwarder};
use collector::{Accounting, Deliver};
use platform::threads::STACK_BYTES;
use platform::{Clock, RealClock};
use record::{Parser, ParserConfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::Config;
use crate::notify::Notify;
use crate::reload::Reloader;
use crate::server::{
    Signals, bind, bind_otlp, end_at_second_signal, https, serve_all, warn_of_access,
    write_ready_file,
};
use crate::settings::{Loaded, Settings};
use api::collecting::Collecting;
use api::ingest::Inserting;
use node::cluster::engines::KafkaAppend;
use node::ingest::http_lines::HttpLines;
use node::ingest::rules::{RuleSet, RuledDelivery, Rules};
use node::ingest::sources::{SourceContext, Sources, addresses};
use node::ingest::tenants;
use node::lookups::Lookups;
use node::process::memory;
use node::storage::stored::Parsers;
use platform::memory::Budget;

/// Runs until a signal ends it. `ready_file` is written once lines are accepted.
pub fn run(settings: Settings, loaded: Loaded, ready_file: Option<PathBuf>) -> Result<()> {
    let mut config = loaded.config.clone();
    config.allow_files()?;
    memory::give_back_freed(memory::large_bytes(
        0,
        config.api.memory_bytes_max,
        platform::memory::machine_bytes(),
    ))
    .context("cannot start a thread")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(collect(settings, loaded, config, ready_file))
}

async fn collect(
    settings: Settings,
    loaded: Loaded,
    mut config: Config,
    ready_file: Option<PathBuf>,
) -> Result<()> {
    // The directory is locked, so that no two collectors follow the same files with it.
    let (forward, sources) = (config.node.forward.clone(), &mut config.node.sources);
    sources.data_dir.clone_from(&forward.spool_dir);
    node::data_dir::create_dirs(&sources.data_dir)
        .and_then(|()| node::process::private::own_directory(&sources.data_dir))
        .with_context(|| format!("cannot use {}", sources.data_dir.display()))?;
    if let Some(journal) = &mut sources.journald {
        journal.data_dir.clone_from(&sources.data_dir);
    }
    for kafka in &mut sources.kafka {
        kafka.read.data_dir.clone_from(&sources.data_dir);
    }
    let mut signals = Signals::new()?;
    let notify = Notify::new();
    notify.keep_alive();
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let listener = bind("HTTP", "--http-listen", config.http_listen).await?;
    let otlp = bind_otlp(&config).await?;
    let otlp_addresses: Vec<_> = otlp.iter().map(|(_, address)| *address).collect();
    let address = listener.local_addr().context("cannot tell the address of HTTP")?;
    let accounting = Arc::new(Accounting::default());
    let disk = config.node.encryption.disk(&forward.spool_dir)?;
    let forwarder: Arc<dyn Forward> = match &config.kafka {
        Some(kafka) => {
            let log = Arc::new(KafkaAppend::new(kafka.clone()));
            let to = ForwardConfig { stores: log.partitions(), ..forward };
            Arc::new(Forwarder::start_log(to, disk, log)?)
        }
        None => collector::node::forward(forward, disk)?,
    };
    let deliver: Arc<dyn Deliver> = Arc::clone(&forwarder) as _;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let parser = Parser::new(&ParserConfig {
        types: config.node.types.clone(),
        zone: config.node.zone,
        no_server_fields: config.node.no_server_fields,
    });
    let parsers = Arc::new(Parsers::new(parser.context("[[types]] of the configuration")?));
    let lookups = Lookups::open(&config.node.lookups).map_err(anyhow::Error::msg)?;
    let lookups = Arc::new(lookups);
    lookups.watch()?;
    let rules = RuleSet::new(&config.node.rules, &RuleSet::default(), Some(&lookups.for_rules()));
    let rules = Arc::new(Rules::new(rules.map_err(anyhow::Error::msg).context("[[rules]]")?));
    let tenants = Arc::clone(&config.node.tenants);
    let deliver = tenants::delivery(deliver, &tenants, |deliver| {
        Arc::new(RuledDelivery::new(deliver, Arc::clone(&rules), Arc::clone(&parsers)))
    });
    let lines = Arc::new(HttpLines::start(
        Arc::clone(&deliver),
        Arc::clone(&accounting),
        Arc::clone(&clock),
        parsers,
    ));
    let with = SourceContext {
        deliver,
        accounting: Arc::clone(&accounting),
        clock,
        store: None,
        nodes: None,
    };
    let sources = Sources::start(&config.node.sources, &with)?;
    let addresses = addresses(address, &otlp_addresses, &sources.listeners());
    // Certificates, users, tokens and rules are reloaded whenever the signal arrives.
    let tls = https(&config)?;
    let https_credentials = tls.iter().map(|tls| Arc::clone(tls.credentials()));
    let credentials: Vec<_> = sources.credentials().into_iter().chain(https_credentials).collect();
    let gate = api::Gate::new(&config.api.access, address, tls.is_some());
    gate.set_tenants(Arc::clone(&config.node.tenants)).map_err(anyhow::Error::msg)?;
    warn_of_access(&config, &gate, address);
    let reloader = Arc::new(Reloader::new(
        settings,
        loaded,
        gate.clone(),
        (Arc::clone(&rules), lookups),
        None,
    ));
    let reloading = notify.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reloading.reloading();
            let (credentials, reloader) = (credentials.clone(), Arc::clone(&reloader));
            let reload = move || {
                // What cannot be reloaded is in the log.
                let _ = reloader.reload();
                for credentials in credentials {
                    credentials.reload();
                }
            };
            if let Err(error) = tokio::task::spawn_blocking(reload).await {
                tracing::error!("SIGHUP: {error}");
            }
            reloading.ready();
        }
    });
    let sources = Arc::new(Mutex::new(sources));

    let (stop, stopping) = watch::channel(false);
    let to = Arc::clone(&lines);
    let (_, opened) = watch::channel(true);
    let memory = Budget::new(config.api.memory_bytes_max);
    let inserting = Inserting::new(
        config.api.insert.clone(),
        Arc::clone(&accounting),
        &memory,
        opened,
        move || Ok(Arc::clone(&to)),
    );
    let clients = api::Clients::new(
        config.api.client_idle_max,
        config.api.connections_max,
        tls.clone(),
        Arc::clone(&accounting),
    );
    let seen = Arc::new(Collecting::new(
        Arc::clone(&forwarder),
        accounting,
        (Arc::clone(&sources), Arc::clone(&rules)),
        clients.clone(),
        api::Guard::new(address, &config.api.hosts, &config.api.frame_ancestors),
        gate.clone(),
        addresses.clone(),
    ));
    let otlp = otlp.into_iter().map(|(listener, address)| {
        let guard = api::Guard::new(address, &config.api.hosts, &[]);
        (listener, api::otlp_router(Arc::clone(&inserting), guard, gate.clone()))
    });
    let router = api::collecting::router(seen, Arc::clone(&inserting));
    let routers = std::iter::once((listener, router)).chain(otlp);
    let serving = serve_all(routers, &clients, &stopping);
    let scheme = if tls.is_some() { "https" } else { "http" };
    tracing::info!("health, metrics and state of the stores at {scheme}://{address}/api/v1/nodes");
    if let Some(file) = ready_file {
        write_ready_file(&file, &addresses)?;
    }
    notify.ready();

    let name = signals.next().await;
    notify.stopping();
    tracing::info!("{name}: shutting down; a second signal ends at once");
    end_at_second_signal(signals, "lines that were neither spooled nor acknowledged are lost");
    stop.send_replace(true);
    for serving in serving {
        serving.await.context("serving HTTP failed")?;
    }
    let stopped = tokio::task::spawn_blocking(move || {
        forwarder.begin_stop();
        tenants.close();
        *sources.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Sources::default();
        lines.stop();
        forwarder.stop();
    });
    stopped.await.context("stopping failed")?;
    tracing::info!("stopped");
    Ok(())
}
