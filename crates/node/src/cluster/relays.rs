//! Shares of many nodes in two stages: the node that answers a query asks a few others, its
//! *relays*, and each of them asks a group of nodes, merges what they send, and tells what became
//! of each share.
//!
//! Groups are about as many as there are nodes in one. A relay is one of its group, another one for
//! each query. It answers with the messages of a share, and three more
//! ([`message`](super::message)): for how many nodes it answers, what became of each share, and
//! which node failed, so that the query is planned again without that one.
//!
//! Invariants: an answer of a relay counts only if it accounts for each share of its group. A relay
//! asks nodes of its cluster alone, never on behalf of a caller that does not see all lines, and
//! relays nothing that was relayed to it.
//!
//! Left out: shares whose pieces are lines or rows without a limit
//! (`query::Share::can_be_relayed`); the node that answers asks for these itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::quality::FixedState;
use query::{Context, Outcome, RunError, Share, SharePieces, Sides, relay_share};

use super::Node;
use super::answer::{Answer, SILENCE_MAX, SILENCE_MAX_PARTIAL};
use super::engines::{Engines, LeftOut, Pieces};
use super::hedges::Hedges;
use super::message::{Message, Relayed, RelayedFailure, RelayedRun, RelayedShare, ShareRequest};
use super::node::NodeError;

/// Most shares that a node relays for a query, each of which takes a thread.
///
/// limits.md, Nodes of a cluster: shares that a node asks others for in place of the node that
/// answers a query | {} | refused; that node asks itself
const RELAYED_MAX: usize = 256;
/// Nodes that did not relay in a query, after which it asks all nodes itself.
///
/// limits.md, Nodes of a cluster: nodes that did not relay shares in one query | {} | the query
/// asks all nodes itself
const REFUSED_MAX: usize = 3;
/// Second requests of one group; the query itself has some more.
///
/// limits.md, Nodes of a cluster: shares of a relayed group that a second node is asked for | {} |
/// the relay waits for the first one
const HEDGES_MAX: usize = 1;

/// Another number for each query, so that queries have different relays.
static QUERIES: AtomicU64 = AtomicU64::new(0);

/// Whom the node that answers a query asks for what.
pub struct Route {
    /// The node that is asked.
    pub node: Arc<Node>,
    /// The places of the shares, in the plan. One: the node's own.
    pub shares: Vec<usize>,
    /// Where the node relays: the others of the group that may, too.
    pub others: Option<Vec<Arc<Node>>>,
}

/// The routes to the shares of a plan. With more than `direct_max` of them, groups of neighbours
/// (by their addresses) have a relay each, unless none of a group is fit. `refused`: the addresses
/// of nodes that did not relay in this query.
pub fn routes(
    shares: &[(Arc<Node>, Pieces)],
    direct_max: usize,
    readers: &[Arc<Node>],
    refused: &BTreeSet<String>,
) -> Vec<Route> {
    let direct = |place: usize| Route {
        node: Arc::clone(&shares[place].0),
        shares: vec![place],
        others: None,
    };
    if shares.len() <= direct_max || refused.len() >= REFUSED_MAX {
        return (0..shares.len()).map(direct).collect();
    }
    let readers: BTreeSet<&str> = readers.iter().map(|node| node.url()).collect();
    let query = QUERIES.fetch_add(1, Relaxed);
    let weight = |node: &Node| {
        let mut hasher = FixedState::with_seed(query).build_hasher();
        hasher.write(node.url().as_bytes());
        hasher.finish()
    };
    let places: Vec<usize> = (0..shares.len()).collect();
    let mut routes = Vec::new();
    for group in places.chunks(group_size(shares.len())) {
        let nodes = group.iter().map(|place| &shares[*place].0);
        let is_fit =
            |node: &&Arc<Node>| node.relays() && !node.is_away() && !refused.contains(node.url());
        let mut fit: Vec<Arc<Node>> = nodes.filter(is_fit).cloned().collect();
        // A store that takes lines has less time for the work of others than a query node.
        fit.sort_by_key(|node| (!readers.contains(node.url()), weight(node)));
        match fit.is_empty() || group.len() < 2 {
            true => routes.extend(group.iter().copied().map(direct)),
            false => {
                let node = fit.remove(0);
                routes.push(Route { node, shares: group.to_vec(), others: Some(fit) });
            }
        }
    }
    routes
}

/// How many nodes are in a group: as many as there are groups, or one more.
fn group_size(nodes: usize) -> usize {
    let root = nodes.isqrt();
    root + usize::from(root * root < nodes)
}

/// The requests of routes.
pub fn requests(
    routes: &[Route],
    shares: &[(Arc<Node>, Pieces)],
    request: &ShareRequest,
) -> Vec<(Arc<Node>, Arc<ShareRequest>)> {
    let of_route = |route: &Route| {
        let pieces = |place: &usize| &shares[*place].1;
        let request = match &route.others {
            None => ShareRequest {
                pieces: route.shares.first().map(|place| pieces(place).clone()),
                ..request.clone()
            },
            Some(_) => {
                let hidden = route.shares.iter().flat_map(|place| &pieces(place).hidden);
                let hidden: BTreeMap<u64, _> = hidden.map(|one| (one.id, one)).collect();
                let shares = route.shares.iter().map(|place| RelayedShare {
                    address: shares[*place].0.url().to_owned(),
                    pieces: Pieces { hidden: Vec::new(), ..pieces(place).clone() },
                });
                let hidden = hidden.into_values().cloned().collect();
                let relayed = Some(Relayed { shares: shares.collect(), hidden });
                ShareRequest { relayed, ..request.clone() }
            }
        };
        (Arc::clone(&route.node), Arc::new(request))
    };
    routes.iter().map(of_route).collect()
}

/// The nodes that may be asked for the share of a side in place of its relay, by side.
pub fn others(routes: &[Route]) -> HashMap<usize, Vec<Arc<Node>>> {
    let others = routes.iter().enumerate();
    others.filter_map(|(side, route)| Some((side, route.others.clone()?))).collect()
}

/// What a relay notes for the node that answers the query.
#[derive(Default)]
pub struct RelayLog {
    left_out: Mutex<Vec<LeftOut>>,
    runs: Mutex<Vec<RelayedRun>>,
    failure: Mutex<Option<RelayedFailure>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RelayLog {
    /// Notes what a node left out.
    pub fn leave_out(&self, new: LeftOut) {
        let mut all = lock(&self.left_out);
        let known = all.iter_mut().find(|known| match (&**known, &new) {
            (LeftOut::Segment { name: a, .. }, LeftOut::Segment { name: b, .. }) => a == b,
            (LeftOut::Behind { partition: a, .. }, LeftOut::Behind { partition: b, .. }) => a == b,
            _ => false,
        });
        let amount = |left_out: &LeftOut| match left_out {
            LeftOut::Segment { lines, .. } => lines.unwrap_or(u64::MAX),
            LeftOut::Behind { messages, .. } => *messages,
        };
        match known {
            Some(known) if amount(known) < amount(&new) => *known = new,
            Some(_) => {}
            None => all.push(new),
        }
    }

    /// Notes what became of the shares.
    pub fn ran(&self, runs: Vec<RelayedRun>) {
        *lock(&self.runs) = runs;
    }

    /// Notes which node failed. The first one counts.
    pub fn failed(&self, node: &Node, error: &NodeError) {
        lock(&self.failure).get_or_insert_with(|| RelayedFailure {
            address: error.of.clone().unwrap_or_else(|| node.url().to_owned()),
            is_away: error.is_away,
            is_stale: error.is_stale,
            message: error.message.clone(),
        });
    }
}

/// The nodes that a relay asks.
pub struct RelaySides {
    shares: Vec<(Arc<Node>, Pieces)>,
    request: ShareRequest,
    readers: Vec<Arc<Node>>,
    log: Arc<RelayLog>,
}

impl RelaySides {
    /// For a request that has relayed shares. `node`: the node of the cluster at an address.
    /// `readers`: the nodes that read segments.
    ///
    /// Errors: the request is wrong; an address is that of no node; the text says so.
    pub fn new(
        mut request: ShareRequest,
        node: impl Fn(&str) -> Option<Arc<Node>>,
        readers: Vec<Arc<Node>>,
    ) -> Result<RelaySides, String> {
        let Relayed { shares, hidden } = request.relayed.take().unwrap_or_default();
        if shares.is_empty() || shares.len() > RELAYED_MAX || request.pieces.is_some() {
            return Err(format!(
                "a node relays between 1 and {RELAYED_MAX} shares, and nothing else"
            ));
        }
        let share = |RelayedShare { address, pieces }: RelayedShare| {
            let node = node(&address).ok_or_else(|| {
                format!("'{address}' is not the address of a node of this cluster")
            })?;
            Ok::<_, String>((node, Pieces { hidden: hidden.clone(), ..pieces }))
        };
        let shares = shares.into_iter().map(share).collect::<Result<_, _>>()?;
        Ok(RelaySides { shares, request, readers, log: Arc::default() })
    }

    /// As [`new`](Self::new), for the nodes that this one has heard of.
    ///
    /// Errors: as there.
    pub fn of_engines(request: ShareRequest, engines: &Engines) -> Result<RelaySides, String> {
        RelaySides::new(request, |address| engines.known_node(address), engines.reading_nodes())
    }

    /// Asks the nodes, merges what they send, and calls `send` with the messages of the answer but
    /// the first and the last one, until `send` breaks.
    ///
    /// Errors: those of queries; a node failed, and [`failure`](Self::failure) says which.
    pub fn answer(
        &self,
        context: &Context,
        send: &mut dyn FnMut(Message) -> ControlFlow<()>,
    ) -> Result<Outcome, RunError> {
        if send(Message::Relays(self.shares.len() as u32)).is_break() {
            return Ok(Outcome::default());
        }
        let share = self.request.share().map_err(RunError::Failed)?;
        let mut told = Vec::new();
        let mut tell = |send: &mut dyn FnMut(Message) -> ControlFlow<()>| {
            let all = lock(&self.log.left_out).clone();
            if all == told {
                return ControlFlow::Continue(());
            }
            told.clone_from(&all);
            send(Message::LeftOut(all))
        };
        // What is left out is told before the rows beside it.
        let outcome = relay_share(&share, self, context, &mut |piece| {
            tell(send)?;
            send(Message::Piece(piece))
        });
        if outcome.is_ok() {
            let _ = tell(send);
        }
        let _ = send(Message::Ran(std::mem::take(&mut *lock(&self.log.runs))));
        outcome
    }

    /// The node that failed; none where all did their shares.
    pub fn failure(&self) -> Option<RelayedFailure> {
        lock(&self.log.failure).clone()
    }
}

impl Sides for RelaySides {
    fn begin(&self, _: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError> {
        let started = Instant::now();
        let request = |(node, pieces): &(Arc<Node>, Pieces)| {
            let pieces = Some(pieces.clone());
            (Arc::clone(node), Arc::new(ShareRequest { pieces, ..self.request.clone() }))
        };
        let requests: Vec<_> = self.shares.iter().map(request).collect();
        let hedges = Hedges::new(&requests, self.readers.clone(), HashMap::new());
        let mut answer = Answer::ask(requests, context)?;
        answer.hedges = Some(hedges.at_most(HEDGES_MAX));
        answer.relay = Some(Arc::clone(&self.log));
        answer.silence_max = match self.request.may_leave_out {
            true => SILENCE_MAX_PARTIAL,
            false => SILENCE_MAX,
        };
        match answer.begins(&|| context.check(started))? {
            Ok(()) => Ok(Box::new(answer)),
            Err((number, error)) => {
                self.log.failed(&self.shares[number].0, &error);
                Err(RunError::Side(error.message))
            }
        }
    }
}

#[cfg(test)]
mod tests;
