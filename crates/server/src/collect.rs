//! The life of a collector process: sources, delivery to stores elsewhere, and a small HTTP side.
//!
//! Left out: everything that needs a store here, which is queries, the page, lines by HTTP, files and the journal
//! that are followed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use collector::node::Forwarder;
use collector::{Accounting, Deliver};
use platform::{RealClock, RealDisk};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::Config;
use crate::http;
use crate::http::collecting::Collecting;
use crate::server::{Signals, bind, end_at_second_signal, write_ready_file};
use crate::sources::{Sources, Surroundings, addresses};

/// Runs until a signal ends it. `ready_file` is written once lines are taken.
pub fn run(config: Config, ready_file: Option<PathBuf>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(collect(config, ready_file))
}

async fn collect(config: Config, ready_file: Option<PathBuf>) -> Result<()> {
    // How far a file was read is found out again from the lines in the store, which is not here.
    ensure!(
        config.files.is_empty() && config.journald.is_none(),
        "`loginson collect` follows no files and no journal; take [[files]] and [journald] out of its configuration, and \
         follow them where the store is"
    );
    let mut signals = Signals::new()?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let listener = bind(&config).await?;
    let address = listener.local_addr().context("cannot tell the address of HTTP")?;
    let accounting = Arc::new(Accounting::default());
    let forwarder = Arc::new(Forwarder::start(config.collect.clone(), Arc::new(RealDisk))?);
    let deliver: Arc<dyn Deliver> = Arc::clone(&forwarder) as _;
    let clock = Arc::new(RealClock::new());
    let with = Surroundings { deliver, accounting: Arc::clone(&accounting), clock, store: None };
    let sources = Sources::start(&config, &with)?;
    let addresses = addresses(address, &sources.listeners());
    // Certificates are read anew whenever the signal comes; without any it does nothing.
    let credentials = sources.credentials();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if let Some(credentials) = credentials.clone() {
                let reloaded = tokio::task::spawn_blocking(move || _ = credentials.reload());
                if let Err(error) = reloaded.await {
                    tracing::error!("SIGHUP: {error}");
                }
            }
        }
    });
    let sources = Mutex::new(sources);

    let (stop, stopping) = watch::channel(false);
    let seen = Arc::new(Collecting::new(Arc::clone(&forwarder), accounting, addresses.clone()));
    let router = http::collecting::router(seen, address);
    let serving = tokio::spawn(http::serve(listener, router, stopping));
    tracing::info!("health, metrics and state of the stores at http://{address}/api/v1/nodes");
    if let Some(file) = ready_file {
        write_ready_file(&file, &addresses)?;
    }

    let name = signals.next().await;
    tracing::info!("{name}: shutting down; a second signal ends at once");
    end_at_second_signal(signals, "what was not spooled or acknowledged is lost");
    stop.send_replace(true);
    serving.await.context("serving HTTP failed")?;
    let stopped = tokio::task::spawn_blocking(move || {
        forwarder.begin_stop();
        drop(sources);
        forwarder.stop();
    });
    stopped.await.context("stopping failed")?;
    tracing::info!("stopped");
    Ok(())
}
