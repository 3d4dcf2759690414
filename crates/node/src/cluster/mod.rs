//! Several stores that are answered for by one node: the controller of the paper (section 3.2).
//!
//! A server with `[stores]` in its configuration sends its part of each query to every store of one
//! copy, and puts the answers together ([`source`]). Each store answers over the lines of its own
//! disk, at `/api/v1/shares` ([`message`]). With several copies, each has all lines; a query reads
//! one of them whole, and changes to another when a store is away.

pub mod engines;
pub mod message;
pub mod node;
mod options;
mod reachable;
mod source;
mod trust;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use query::LineSet;
use query::source::{Damages, Source};

pub use engines::Engines;
pub use node::{Node, NodeError};
pub use options::StoresOptions;
pub use source::ClusterSource;
pub use trust::roots;

use crate::storage::stored::Stored;

/// Stores that are called at the same time.
///
/// limits.md, Several stores: calls of stores at a time, for charts, status and deletions | {} for
/// each request | they wait
const CALLS_MAX: usize = 64;

/// The lines that queries read.
#[derive(Clone)]
pub enum QueriedLines {
    /// Those of this node.
    Own(Stored),
    /// Those of other nodes.
    Cluster(Arc<Cluster>),
}

impl QueriedLines {
    /// The lines of the cluster, if there is one, else those of this node.
    pub fn new(stored: Stored, cluster: Option<Arc<Cluster>>) -> QueriedLines {
        cluster.map_or(QueriedLines::Own(stored), QueriedLines::Cluster)
    }

    /// The source of a query. `missing`: the query goes on without stores that are away, and
    /// records them.
    pub fn source(&self, missing: Option<Arc<Missing>>) -> Box<dyn Source> {
        match self {
            QueriedLines::Own(stored) => Box::new(stored.clone()),
            QueriedLines::Cluster(cluster) => {
                Box::new(ClusterSource::new(Arc::clone(cluster), missing))
            }
        }
    }

    /// The lines that are durable now; none where several nodes have them, which have no moment in
    /// common.
    pub fn lines_now(&self) -> Option<LineSet> {
        match self {
            QueriedLines::Own(stored) => Some(stored.lines_now()),
            QueriedLines::Cluster(_) => None,
        }
    }
}

/// The nodes that have the lines.
pub struct Cluster {
    /// The stores of each copy; none in a cluster on engines.
    copies: Vec<Copy>,
    engines: Option<Arc<Engines>>,
    /// Why no copy can be read whole, as of the last look.
    unready: Mutex<Option<String>>,
}

/// The stores that have all lines together.
#[derive(Clone)]
pub struct Copy {
    /// The stores.
    pub nodes: Vec<Arc<Node>>,
}

impl Cluster {
    /// Connects to nothing yet.
    ///
    /// Errors: the certificates of the configuration cannot be read.
    pub fn new(config: &StoresOptions) -> Result<Arc<Cluster>> {
        let (token, ca_file) = (config.token.as_deref(), config.ca_file.as_deref());
        let copy = |stores: &Vec<String>| {
            let nodes = stores.iter().map(|url| Node::new(url, token, ca_file).map(Arc::new));
            Ok(Copy { nodes: nodes.collect::<Result<_>>()? })
        };
        let copies = config.copies.iter().map(copy).collect::<Result<_>>()?;
        Ok(Arc::new(Cluster { copies, engines: None, unready: Mutex::default() }))
    }

    /// The nodes of a cluster on engines.
    pub fn on_engines(engines: Arc<Engines>) -> Arc<Cluster> {
        Arc::new(Cluster { copies: Vec::new(), engines: Some(engines), unready: Mutex::default() })
    }

    /// The engines, where the cluster has them.
    pub fn engines(&self) -> Option<&Arc<Engines>> {
        self.engines.as_ref()
    }

    /// The copies.
    pub fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// Calls `work` with each store of `nodes`, many at the same time. Returns the results in the
    /// order of the stores.
    pub fn each<T: Send>(
        nodes: &[Arc<Node>],
        work: impl Fn(&Node) -> Result<T, NodeError> + Sync,
    ) -> Vec<Result<T, NodeError>> {
        let mut results = Vec::with_capacity(nodes.len());
        for some in nodes.chunks(CALLS_MAX) {
            std::thread::scope(|scope| {
                let calls: Vec<_> = some.iter().map(|node| scope.spawn(|| work(node))).collect();
                results.extend(calls.into_iter().zip(some).map(|(call, node)| {
                    call.join().unwrap_or_else(|_| {
                        Err(NodeError::new(format!("the call of store {} failed", node.name)))
                    })
                }));
            });
        }
        results
    }

    /// The results of `work` for all stores of one copy: the first that can answer whole.
    ///
    /// Errors: a store of each copy failed.
    pub fn of_a_copy<T: Send>(
        &self,
        work: impl Fn(&Node) -> Result<T, NodeError> + Sync,
    ) -> Result<Vec<T>, NodeError> {
        let mut failed = None;
        for copy in self.copies_in_order() {
            match Cluster::each(&copy.nodes, &work).into_iter().collect() {
                Ok(results) => return Ok(results),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let none = || NodeError::away("no store heartbeats at present".to_owned());
        Err(failed.unwrap_or_else(none))
    }

    /// The stores of all copies.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.copies.iter().flat_map(|copy| &copy.nodes)
    }

    /// The copies in the order in which a query tries them: those without a store that was away
    /// lately come first.
    pub fn copies_in_order(&self) -> Vec<Copy> {
        if let Some(engines) = &self.engines {
            return vec![Copy { nodes: engines.live(::cluster::Role::Store) }];
        }
        let mut copies = self.copies.clone();
        copies.sort_by_key(|copy| copy.nodes.iter().filter(|node| node.is_away()).count());
        copies
    }
}

impl Copy {
    /// An error if two stores of the copy are the same one under two addresses: its lines would
    /// count twice.
    fn same_store(&self, numbers: impl Iterator<Item = Option<u32>>) -> Option<NodeError> {
        let mut seen: Vec<(u32, &str)> = Vec::new();
        for (number, node) in numbers.zip(&self.nodes) {
            let Some(number) = number else { continue };
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == number) {
                return Some(NodeError::new(format!(
                    "stores {other} and {} of [stores] are the same one; list it once",
                    node.name
                )));
            }
            seen.push((number, &node.name));
        }
        None
    }
}

/// The stores that an answer lacks the lines of.
#[derive(Debug, Default)]
pub struct Missing {
    stores: Mutex<BTreeSet<String>>,
    /// Receives the damaged units that a query passes over.
    pub damages: Arc<Damages>,
}

impl Missing {
    fn add(&self, store: &str) {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).insert(store.to_owned());
    }

    /// The names of the stores.
    pub fn stores(&self) -> Vec<String> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
