//! Several stores that are answered for by one node: the controller of the paper (section 3.2).
//!
//! A server with `[stores]` in its configuration sends its part of each query to every store of one
//! copy, and puts the answers together ([`source`]). Each store answers over the lines of its own
//! disk, at `/api/v1/shares` ([`message`]). With several copies, each has all lines; a query reads
//! stores that lack nothing ([`choice`]), as far as their frames tell ([`frames`], [`watch`]), and
//! changes to others when a store is away.

mod answer;
pub mod backup;
pub mod choice;
pub mod engines;
pub mod follow;
pub mod frames;
mod hedges;
pub mod log_replacement;
pub mod message;
mod missing;
pub mod node;
mod options;
mod reachable;
pub mod relays;
pub mod repair;
mod source;
mod trace;
mod trust;
mod watch;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use query::LineSet;
use query::source::{Revisions, Source};

pub use engines::Engines;
pub use missing::{Missing, MissingLines, Notice};
pub use node::{Node, NodeError};
pub use options::StoresOptions;
pub use source::ClusterSource;
pub use trace::{ShareTrace, TracedPlan, ms};
pub use trust::{roots, tls_config};

use choice::{Choice, Lack, all_lacks, choose};
use watch::{Seen, Watch};

use crate::storage::stored::Stored;

/// Stores that are called at the same time.
///
/// limits.md, Several stores: calls of stores at a time, for charts, status and deletions | {} for
/// each request | they wait
const CALLS_MAX: usize = 64;
/// How often a query chooses its stores again because an address leads to another store than a
/// moment ago.
const ASKED_AGAIN_MAX: usize = 3;

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
        self.source_that_tells(missing, None)
    }

    /// As [`source`](Self::source). `told` receives what is to be told of a whole answer, too: the
    /// age of the catalog.
    pub fn source_that_tells(
        &self,
        missing: Option<Arc<Missing>>,
        told: Option<Arc<Missing>>,
    ) -> Box<dyn Source> {
        match self {
            QueriedLines::Own(stored) => Box::new(stored.clone()),
            QueriedLines::Cluster(cluster) => {
                Box::new(ClusterSource::new(Arc::clone(cluster), missing, told))
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
    /// Which rows of programs count; none where each store has programs of its own.
    revisions: Option<Arc<dyn Revisions>>,
    watch: Watch,
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
        let (watch, unready) = Default::default();
        Ok(Arc::new(Cluster { copies, engines: None, revisions: None, watch, unready }))
    }

    /// The nodes of a cluster on engines.
    pub fn on_engines(engines: Arc<Engines>, revisions: Arc<dyn Revisions>) -> Arc<Cluster> {
        let (watch, unready) = Default::default();
        let (engines, revisions) = (Some(engines), Some(revisions));
        Arc::new(Cluster { copies: Vec::new(), engines, revisions, watch, unready })
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
        let next = AtomicUsize::new(0);
        let call = |node: &Arc<Node>| {
            let called = std::panic::catch_unwind(AssertUnwindSafe(|| work(node)));
            called.unwrap_or_else(|_| {
                Err(NodeError::new(format!("the call of store {} failed", node.name)))
            })
        };
        // Each thread takes the next node as soon as it is free, so that a silent one holds up no
        // other call.
        let calls = || {
            let places = std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)));
            let nodes = places.map_while(|place| Some((place, nodes.get(place)?)));
            nodes.map(|(place, node)| (place, call(node))).collect::<Vec<_>>()
        };
        let mut results: Vec<(usize, Result<T, NodeError>)> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..nodes.len().min(CALLS_MAX)).map(|_| scope.spawn(calls)).collect();
            threads.into_iter().flat_map(|t| t.join().expect("panics are caught")).collect()
        });
        results.sort_unstable_by_key(|(place, _)| *place);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// The results of `work` for stores that have all lines together.
    ///
    /// Errors: there are no such stores now; a store failed.
    pub fn of_a_copy<T: Send>(
        &self,
        work: impl Fn(&Node) -> Result<T, NodeError> + Sync,
    ) -> Result<Vec<T>, NodeError> {
        if self.engines.is_some() {
            let copy = self.copies_in_order().swap_remove(0);
            if copy.nodes.is_empty() {
                return Err(NodeError::away("no store heartbeats at present".to_owned()));
            }
            return Cluster::each(&copy.nodes, &work).into_iter().collect();
        }
        let mut readers = self.readers();
        loop {
            let chosen = readers.choose();
            if let Some(error) = chosen.error() {
                return Err(error);
            }
            let results = Cluster::each(&chosen.copy.nodes, &work);
            match results.iter().position(|result| result.as_ref().is_err_and(|e| e.is_away)) {
                Some(number) => {
                    let error = results.into_iter().nth(number).and_then(Result::err);
                    readers.failed(&chosen, number, error.expect("it is one"));
                }
                None => return results.into_iter().collect(),
            }
        }
    }

    /// Chooses the stores that one query reads.
    pub fn readers(&self) -> Readers<'_> {
        let nodes: Vec<Arc<Node>> = self.nodes().cloned().collect();
        let mut places = 0..;
        let copies = self.copies.iter().map(|copy| (&mut places).take(copy.nodes.len()).collect());
        let copies = copies.collect();
        let failed = vec![None; nodes.len()];
        Readers { cluster: self, nodes, copies, failed, asked_again: 0 }
    }

    /// What each store lacks that another copy has, and which stores have it: the names of the
    /// stores and a sentence for each. Blocks while the stores are asked.
    pub fn lacks(&self) -> Vec<StoreLacks> {
        let readers = self.readers();
        let names: Vec<&str> = readers.nodes.iter().map(|node| node.name.as_str()).collect();
        let mut all: Vec<StoreLacks> = names
            .iter()
            .map(|name| StoreLacks { store: (*name).to_owned(), ..StoreLacks::default() })
            .collect();
        if readers.copies.len() > 1 {
            let seen = readers.look();
            for lack in all_lacks(&readers.copies, &seen.known(&readers.failed)) {
                let store = &mut all[lack.store];
                store.frames += lack.frames();
                store.sentences.push(lack.describe(&names));
            }
        }
        all
    }

    /// The stores of all copies.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.copies.iter().flat_map(|copy| &copy.nodes)
    }

    /// The stores whose new lines a tail follows: those that a query would read, unless some of
    /// them are away; then those of a copy. Blocks while the stores are asked.
    pub fn to_tail(&self) -> Copy {
        if self.engines.is_none() {
            let chosen = self.readers().choose();
            if chosen.away.is_empty() {
                return chosen.copy;
            }
        }
        self.copies_in_order().swap_remove(0)
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

/// An error if two stores of a copy are the same one under two addresses: its lines would count
/// twice.
fn same_store(
    nodes: &[Arc<Node>],
    numbers: impl Iterator<Item = Option<u32>>,
) -> Option<NodeError> {
    let mut seen: Vec<(u32, &str)> = Vec::new();
    for (number, node) in numbers.zip(nodes) {
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

/// What a store lacks.
#[derive(Clone, Debug, Default)]
pub struct StoreLacks {
    /// Its name.
    pub store: String,
    /// How many frames.
    pub frames: u64,
    /// A sentence for each collector.
    pub sentences: Vec<String>,
}

/// Chooses the stores that one query reads, again after each that failed.
pub struct Readers<'c> {
    cluster: &'c Cluster,
    /// The stores of all copies.
    nodes: Vec<Arc<Node>>,
    /// By copy, as indexes of `nodes`.
    copies: Vec<Vec<usize>>,
    /// Why stores failed in this query.
    failed: Vec<Option<NodeError>>,
    /// How often a store was another than it was when it told its frames.
    asked_again: usize,
}

/// Stores that have all lines together, or as many as can be read.
pub struct Chosen {
    /// The stores.
    pub copy: Copy,
    /// Their indexes among all stores.
    places: Vec<usize>,
    /// Their node ids when they told their frames; empty where nobody asked.
    ids: Vec<u32>,
    /// Why stores cannot be read whose lines are missing, with their names.
    away: Vec<(String, NodeError)>,
    /// What the stores lack: their names, and a sentence for each.
    lacks: Vec<(String, String)>,
}

impl Readers<'_> {
    /// The stores to read now.
    pub fn choose(&self) -> Chosen {
        let (choice, ids, errors): (Choice, Vec<u32>, Vec<Option<NodeError>>);
        if self.copies.len() == 1 {
            let is_here = |place: &usize| self.failed[*place].is_none();
            let (stores, away): (Vec<usize>, Vec<usize>) =
                self.copies[0].iter().copied().partition(is_here);
            let away = away.into_iter().map(|store| vec![store]).collect();
            choice = Choice { stores, lacks: Vec::new(), away };
            (ids, errors) = (Vec::new(), self.failed.clone());
        } else {
            let seen = self.look();
            choice = choose(&self.copies, &seen.known(&self.failed));
            let id = |store: &usize| seen.now[*store].as_ref().map_or(0, |now| now.node);
            ids = choice.stores.iter().map(id).collect();
            let said = seen.now.iter().map(|now| now.as_ref().err().cloned());
            errors =
                self.failed.iter().cloned().zip(said).map(|(own, said)| own.or(said)).collect();
        }
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let away = choice.away.iter().flatten().map(|&store| {
            let unknown = || NodeError::away(format!("store {} is away", names[store]));
            (names[store].to_owned(), errors[store].clone().unwrap_or_else(unknown))
        });
        let lacks = |lack: &Lack| (names[lack.store].to_owned(), lack.describe(&names));
        Chosen {
            copy: Copy {
                nodes: choice.stores.iter().map(|&s| Arc::clone(&self.nodes[s])).collect(),
            },
            ids,
            away: away.collect(),
            lacks: choice.lacks.iter().map(lacks).collect(),
            places: choice.stores,
        }
    }

    fn look(&self) -> Arc<Seen> {
        let lacks = |seen: &Seen| !choose(&self.copies, &seen.known(&[])).lacks.is_empty();
        let ask = || Cluster::each(&self.nodes, |node| node.frames());
        self.cluster.watch.look(ask, lacks)
    }

    /// Notes why a store of a choice failed, by its place there.
    pub fn failed(&mut self, chosen: &Chosen, number: usize, error: NodeError) {
        if self.copies.len() > 1 {
            tracing::warn!("{}; another copy is asked", error.message);
        }
        self.failed[chosen.places[number]] = Some(error);
    }

    /// Whether the stores that answer are those that told their frames. If not, they have to be
    /// chosen again.
    pub fn are_same(&mut self, chosen: &Chosen, ids: &[Option<u32>]) -> bool {
        let is_other =
            |(told, answers): (&u32, &Option<u32>)| answers.is_some_and(|id| id != *told);
        let is_same = !chosen.ids.iter().zip(ids).any(is_other);
        if !is_same {
            self.cluster.watch.ask_again();
            self.asked_again += 1;
        }
        // Addresses that lead to another store each time are not to hold a query for ever.
        is_same || self.asked_again > ASKED_AGAIN_MAX
    }
}

impl Chosen {
    /// Why the answer would not be complete.
    pub fn error(&self) -> Option<NodeError> {
        if let Some((_, error)) = self.away.first() {
            return Some(error.clone());
        }
        let (_, why) = self.lacks.first()?;
        Some(NodeError::away(format!(
            "the answer would lack lines: {why}; fill it with loginson cluster repair, or ask with allow_partial_response=1"
        )))
    }

    /// Adds what the answer lacks to `missing`.
    pub fn tell(&self, missing: &Missing) {
        self.away.iter().for_each(|(store, _)| missing.add(store));
        for (store, why) in &self.lacks {
            missing.add(store);
            missing.add_lack(why);
        }
    }
}
