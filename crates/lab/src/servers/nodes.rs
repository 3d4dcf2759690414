//! The nodes of a store on this machine: started and awaited, found by their records, stopped.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Node, Process, Say, Server, ServerError, Signal, Site, home, io};
use crate::driver::Open;

/// Lines of a server's log that are quoted in an error.
const TAIL_LINES: usize = 15;

/// How long an address may stay in use by a process that is ending.
const FREE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Time between two checks of a process or of its answer.
const LOOK: Duration = Duration::from_millis(100);

/// The record in `run/` of a started node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub process: Process,
    pub node: Node,
}

/// Starts nodes and waits until each answers. If one fails, the others keep running. A start that
/// nobody waits for any more is finished all the same, and keeps the lock until its record is
/// written: whoever stops the store then finds it.
pub(super) async fn start_all(
    (server, open): (&'static dyn Server, Open),
    site: &Site,
    nodes: &[Node],
    lock: &Arc<home::Lock>,
    say: &Say,
) -> Result<Vec<Process>, ServerError> {
    for address in nodes.iter().flat_map(|node| &node.listen) {
        free(*address).await?;
    }
    let mut processes = Vec::new();
    for node in nodes {
        say(&format!("starts {}", node.name));
        let process = {
            let (site, node, lock) = (site.clone(), node.clone(), Arc::clone(lock));
            let start = move || {
                let begun = begin(server, &site, &node);
                drop(lock);
                begun
            };
            blocking(start).await?
        };
        if server.in_turn() {
            wait((server, open), site, node, nodes, &process, say).await?;
        }
        processes.push(process);
    }
    if !server.in_turn() {
        for (node, process) in nodes.iter().zip(&processes) {
            wait((server, open), site, node, nodes, process, say).await?;
        }
    }
    Ok(processes)
}

/// Starts the process of a node, and writes its record.
fn begin(server: &dyn Server, site: &Site, node: &Node) -> Result<Process, ServerError> {
    for directory in [&node.data, &site.log, &site.run] {
        std::fs::create_dir_all(directory).map_err(io(directory))?;
    }
    if let Some(disk) = &node.launch.disk {
        disk.mount(&site.log_of(&format!("{}-disk", node.name)))?;
    }
    for (path, text) in &node.files {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io(parent))?;
        }
        std::fs::write(path, text).map_err(io(path))?;
    }
    server.prepare(site, node)?;
    let process = node.launch.start(&site.log_of(&node.name), &node.data)?;
    let record = Record { process: process.clone(), node: node.clone() };
    let path = site.record_of(&node.name);
    let text = serde_json::to_string_pretty(&record).expect("a record is JSON");
    if let Err(error) = home::write_whole(&path, &text) {
        // Without its record no later command could stop it, nor the container that a killed
        // monitor may leave behind.
        process.signal(Signal::KILL);
        if let Some(isolation) = &node.launch.isolation {
            isolation.release();
        }
        return Err(error);
    }
    Ok(process)
}

/// Polls a node until it answers.
async fn wait(
    (server, open): (&dyn Server, Open),
    site: &Site,
    node: &Node,
    nodes: &[Node],
    process: &Process,
    say: &Say,
) -> Result<(), ServerError> {
    let begin = Instant::now();
    let limit = Duration::from_secs(server.start_s_max());
    let mut shown_s = 0;
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        let said = match tokio::time::timeout(left, server.answers(open, node, nodes)).await {
            Ok(Ok(())) => {
                say(&format!("{} answers after {:.1} s", node.name, begin.elapsed().as_secs_f64()));
                return Ok(());
            }
            Ok(Err(said)) => said,
            Err(_) => "no answer".to_owned(),
        };
        if !process.alive() {
            return Err(ended(site, node));
        }
        if begin.elapsed() >= limit {
            return Err(ServerError::Silent {
                node: node.name.clone(),
                seconds: limit.as_secs(),
                said,
                log: site.log_of(&node.name).display().to_string(),
                tail: home::tail(&site.log_of(&node.name), TAIL_LINES),
            });
        }
        if begin.elapsed().as_secs() > shown_s {
            shown_s = begin.elapsed().as_secs();
            say(&format!("waits for {}: {shown_s} of {} s ({said})", node.name, limit.as_secs()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The error for a node whose process is gone.
pub(super) fn ended(site: &Site, node: &Node) -> ServerError {
    let log = site.log_of(&node.name);
    let tail = home::tail(&log, TAIL_LINES);
    ServerError::Ended { node: node.name.clone(), log: log.display().to_string(), tail }
}

/// An error if another process keeps listening on `address`. The test binds like servers do, so
/// that old connections in the system's tables do not matter; processes that the earlier server
/// started may end a moment later.
async fn free(address: SocketAddr) -> Result<(), ServerError> {
    let begin = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(source) if begin.elapsed() >= FREE_WAIT_MAX => {
                return Err(ServerError::Port { address, source });
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Stops all nodes that were started, the last one first, and removes their records.
pub(super) async fn stop_all(
    server: &dyn Server,
    site: &Site,
    say: &Say,
) -> Result<(), ServerError> {
    let records = records(site)?;
    let (signal, seconds) = server.stop();
    let begin = Instant::now();
    let killed: Vec<bool> = records.iter().map(|record| !record.process.alive()).collect();
    for record in records.iter().rev().filter(|r| r.process.alive()) {
        say(&format!("stops {} (pid {})", record.node.name, record.process.pid));
        record.process.signal(signal);
    }
    for (record, was_killed) in records.iter().zip(killed).rev() {
        let limit = Duration::from_secs(seconds).saturating_sub(begin.elapsed());
        if !gone(&record.process, limit).await {
            let name = &record.node.name;
            say(&format!(
                "kills {name} (pid {}): it did not end in {seconds} s",
                record.process.pid
            ));
            record.process.signal(Signal::KILL);
            if !gone(&record.process, Duration::from_secs(10)).await {
                return Err(ServerError::Immortal { node: name.clone(), pid: record.process.pid });
            }
        }
        if let Some(isolation) = record.node.launch.isolation.clone() {
            blocking(move || isolation.release()).await;
        }
        if let Some(disk) = record.node.launch.disk.clone() {
            blocking(move || disk.release(was_killed)).await?;
        }
        let path = site.record_of(&record.node.name);
        std::fs::remove_file(&path).map_err(io(&path))?;
    }
    Ok(())
}

async fn gone(process: &Process, limit: Duration) -> bool {
    let begin = Instant::now();
    while process.alive() {
        if begin.elapsed() >= limit {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

/// Nodes that were started and not stopped, in order.
fn records(site: &Site) -> Result<Vec<Record>, ServerError> {
    let mut records = Vec::new();
    for path in site.records()? {
        let text = std::fs::read_to_string(&path).map_err(io(&path))?;
        let record: Record =
            serde_json::from_str(&text).map_err(|e| io(&path)(std::io::Error::from(e)))?;
        records.push(record);
    }
    // `node10` comes after `node9`.
    records.sort_by_key(|r| (r.node.name.len(), r.node.name.clone()));
    Ok(records)
}

/// Records of nodes that run.
pub(super) fn alive(site: &Site) -> Result<Vec<Record>, ServerError> {
    Ok(records(site)?.into_iter().filter(|record| record.process.alive()).collect())
}

/// Keeps other commands away from this store.
pub(super) async fn lock(site: &Site, say: &Say) -> Result<home::Lock, ServerError> {
    let (site, say) = (site.clone(), say.clone());
    blocking(move || site.lock(&say)).await
}

/// Runs what blocks on a thread for it.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
