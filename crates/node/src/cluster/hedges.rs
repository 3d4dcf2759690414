//! Asks a second node for the segments of a slow one. The first of the two with a piece gives the
//! share; both read the same objects, so either answer is right.
//!
//! Left out: newest frames, which one node alone has; shares that have sent something.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::message::ShareRequest;
use super::node::Node;

/// Second requests of one query.
///
/// limits.md, Nodes of a cluster: shares of a query that a second node is asked for | {} | the
/// query waits for the first one
const HEDGES_MAX: usize = 2;
/// Second requests of all queries of this node at a time.
///
/// limits.md, Nodes of a cluster: shares of all queries that a second node is asked for at a time |
/// {} | the queries wait for the first one
const HEDGES_AT_ONCE_MAX: usize = 8;
/// A node that says nothing for this long is slow; else it tells its progress all the time.
const SILENT: Duration = Duration::from_secs(1);
/// One that takes so many times as long as the slowest of the others is slow, too.
const SLOW_FACTOR: u32 = 4;
/// The shortest time after which a node that tells its progress is slow.
const SLOW_MIN: Duration = Duration::from_secs(3);

static AT_ONCE: AtomicUsize = AtomicUsize::new(0);

/// How far a share is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Began {
    /// How long it took until the first piece; none: there is none yet.
    pub began: Option<Duration>,
    /// When its node was last heard; none: never.
    pub heard: Option<Instant>,
}

/// The second requests of one query.
pub struct Hedges {
    /// For each side, its request if another node can carry it out, and none was asked yet.
    requests: Vec<Option<Arc<ShareRequest>>>,
    /// The nodes that read segments.
    readers: Vec<Arc<Node>>,
    /// For each side whose node relays shares, the nodes that may do so, too.
    relays: HashMap<usize, Vec<Arc<Node>>>,
    /// How many more may be asked.
    left: usize,
    /// Counted in `at_once`.
    asked: usize,
    /// Those of all queries.
    at_once: &'static AtomicUsize,
}

impl Hedges {
    /// For shares that were asked for, the nodes that read segments, and those that may relay, by
    /// side.
    pub fn new(
        shares: &[(Arc<Node>, Arc<ShareRequest>)],
        readers: Vec<Arc<Node>>,
        relays: HashMap<usize, Vec<Arc<Node>>>,
    ) -> Hedges {
        let request = |(side, (_, request)): (usize, &(Arc<Node>, Arc<ShareRequest>))| {
            if relays.contains_key(&side) {
                return Some(Arc::clone(request));
            }
            let pieces = request.pieces.as_ref()?;
            (pieces.hot.is_empty() && !pieces.segments.is_empty()).then(|| Arc::clone(request))
        };
        let requests = shares.iter().enumerate().map(request).collect();
        Hedges { requests, readers, relays, left: HEDGES_MAX, asked: 0, at_once: &AT_ONCE }
    }

    /// With at most so many requests.
    pub fn at_most(mut self, requests: usize) -> Hedges {
        self.left = self.left.min(requests);
        self
    }

    /// The side that another node is to be asked for at the time `now`, if there is one, and
    /// whether its node is silent. All were asked at `begun`.
    pub fn slow(&self, sides: &[Began], begun: Instant, now: Instant) -> Option<(usize, bool)> {
        if self.left == 0 {
            return None;
        }
        let slowest_of_others = sides.iter().filter_map(|side| side.began).max();
        let are_others_done = sides.iter().filter(|side| side.began.is_none()).count() == 1;
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_silent = |side: &Began| since(side.heard.unwrap_or(begun)) >= SILENT;
        // A relay tells its progress, and asks a second node itself for what is slow of its group.
        let is_slow = |place: usize, side: &Began| {
            let slow = slowest_of_others.filter(|_| are_others_done).is_some_and(|others| {
                since(begun) >= SLOW_MIN.max(others.saturating_mul(SLOW_FACTOR))
            });
            let slow = slow && !self.relays.contains_key(&place);
            side.began.is_none() && (is_silent(side) || slow)
        };
        let mut places = sides.iter().zip(&self.requests).enumerate();
        let slow = places
            .position(|(place, (side, request))| request.is_some() && is_slow(place, side))?;
        Some((slow, is_silent(&sides[slow])))
    }

    /// The node that is asked for the share of a side beside `first`, and the request; none if
    /// there is no other node, or enough are asked.
    pub fn ask(&mut self, side: usize, first: &Node) -> Option<(Arc<Node>, Arc<ShareRequest>)> {
        let request = self.requests[side].take()?;
        let nodes = self.relays.get(&side).unwrap_or(&self.readers);
        let others = || nodes.iter().filter(|node| node.url() != first.url());
        let other = others().find(|node| !node.is_away()).or_else(|| others().next())?;
        if self.at_once.fetch_add(1, Relaxed) >= HEDGES_AT_ONCE_MAX {
            self.at_once.fetch_sub(1, Relaxed);
            self.requests[side] = Some(request);
            return None;
        }
        self.left -= 1;
        self.asked += 1;
        tracing::debug!("store {} is slow; {} is asked for its segments", first.name, other.name);
        Some((Arc::clone(other), request))
    }
}

impl Drop for Hedges {
    fn drop(&mut self) {
        self.at_once.fetch_sub(self.asked, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::engines::{HotPiece, Pieces, SegmentPiece};
    use super::*;

    fn node(port: u16) -> Arc<Node> {
        Arc::new(Node::new(&format!("http://127.0.0.1:{port}"), None, None).unwrap())
    }

    fn share(port: u16, hot: usize) -> (Arc<Node>, Arc<ShareRequest>) {
        let id = record::LineId { node: 1, sequence: 2, line: 3 };
        let piece = HotPiece { partition: 0, from: 0, until: 1, open: false };
        let segments = vec![SegmentPiece("a".to_owned(), 1, 0)];
        let pieces = Some(Pieces { segments, hot: vec![piece; hot], hidden: Vec::new() });
        let request = ShareRequest { pieces, ..ShareRequest::line(id, SILENT) };
        (node(port), Arc::new(request))
    }

    #[test]
    fn a_slow_share_of_segments_is_asked_for_elsewhere_and_once() {
        let shares = [share(1, 0), share(2, 0), share(3, 1)];
        let mut hedges = Hedges::new(&shares, vec![node(1), node(2)], HashMap::new());
        // Tests beside this one have queries, too.
        static OWN: AtomicUsize = AtomicUsize::new(0);
        hedges.at_once = &OWN;
        let now = Instant::now();
        let Some(long_ago) = now.checked_sub(Duration::from_secs(60)) else { return };
        let quick = Began { began: Some(Duration::from_millis(5)), heard: Some(now) };
        let working = Began { began: None, heard: Some(now) };
        let silent = Began { began: None, heard: Some(long_ago) };
        // All have just been asked.
        let slow = |hedges: &Hedges, sides: &[Began], begun| hedges.slow(sides, begun, now);
        assert_eq!(slow(&hedges, &[Began::default(); 3], now), None);
        // One of several that work may be slow for the same reason as the others.
        assert_eq!(slow(&hedges, &[working, working, quick], long_ago), None);
        assert_eq!(slow(&hedges, &[quick, working, quick], long_ago), Some((1, false)));
        assert_eq!(slow(&hedges, &[silent, working, quick], now), Some((0, true)));
        // Nobody else has newest frames.
        assert_eq!(slow(&hedges, &[quick, quick, silent], long_ago), None);
        let (other, request) = hedges.ask(1, &shares[1].0).unwrap();
        assert_eq!((other.url(), &request), ("http://127.0.0.1:1", &shares[1].1));
        assert_eq!(slow(&hedges, &[quick, silent, quick], long_ago), None, "it was asked for");
        assert!(hedges.ask(0, &shares[0].0).is_some());
        assert_eq!(slow(&hedges, &[silent, silent, silent], long_ago), None);
        assert_eq!(OWN.load(Relaxed), 2);
        drop(hedges);
        assert_eq!(OWN.load(Relaxed), 0);
        let mut alone = Hedges::new(&shares, vec![node(1)], HashMap::new());
        assert!(alone.ask(0, &shares[0].0).is_none(), "there is no other node");
        // Another node of its group may relay in the place of one that is silent, also where the
        // group has newest frames. One that tells its progress sees to its group itself.
        let relays = HashMap::from([(2, vec![node(4)])]);
        let mut hedges = Hedges::new(&shares, vec![node(1)], relays).at_most(1);
        hedges.at_once = &OWN;
        assert_eq!(hedges.slow(&[quick, quick, working], long_ago, now), None);
        assert_eq!(hedges.slow(&[quick, quick, silent], long_ago, now), Some((2, true)));
        let (other, _) = hedges.ask(2, &shares[2].0).unwrap();
        assert_eq!(other.url(), "http://127.0.0.1:4");
        assert_eq!(hedges.slow(&[silent, silent, silent], long_ago, now), None, "one is the most");
    }
}
