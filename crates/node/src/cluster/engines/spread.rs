//! Spreads a query over the nodes: each owner reads the newest frames of its partitions, and each
//! query node some of the segments, always the same ones as long as the nodes are the same, so that
//! caches stay warm.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use cluster::{Role, TimeRange as Times, plan};
use foldhash::quality::FixedState;
use query::source::TimeRange;

use super::{Engines, HotPiece, Pieces, SegmentPiece};
use crate::cluster::Node;

/// Most segments of a query.
///
/// limits.md, Nodes of a cluster: segments of a query | {} | the query is refused; narrow its time
/// range
const SEGMENTS_MAX: usize = 50_000;

/// A part of the lines that no node can answer for at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The partition.
    pub partition: u32,
    /// Messages that are missing.
    pub messages: u64,
}

impl Unanswered {
    /// The whole sentence.
    pub fn message(&self) -> String {
        format!(
            "no store owns partition {} at present, so its newest {} messages are missing; start a store, or ask again \
             in some seconds",
            self.partition, self.messages
        )
    }
}

/// Who reads what.
pub struct Spread {
    /// The nodes with their pieces; at least one.
    pub shares: Vec<(Arc<Node>, Pieces)>,
    /// Partitions without an owner, whose newest lines are missing.
    pub unanswered: Vec<Unanswered>,
    /// Segments that were to be left out, with their lines.
    pub left_out: Vec<(String, u64)>,
}

impl Engines {
    /// Plans a query over event times, with one call of the catalog and one of the log. Leaves out
    /// the segments `without`. Blocks.
    ///
    /// Errors: an engine cannot be reached, or no node can read segments; the text says so.
    pub fn spread(&self, range: TimeRange, without: &BTreeSet<String>) -> Result<Spread, String> {
        let last_ns = if range.end_ns == i64::MAX { i64::MAX } else { range.end_ns - 1 };
        let times = Times { first_ns: range.start_ns, last_ns };
        let plan = plan(&self.catalog, &self.log, times, SEGMENTS_MAX);
        let plan = plan.map_err(|error| error.to_string())?;
        let mut pieces: BTreeMap<String, Pieces> = BTreeMap::new();
        let mut unanswered = Vec::new();
        for hot in plan.hot {
            match hot.owner {
                Some(owner) => {
                    let (from, until) = (hot.offsets.start, hot.offsets.end);
                    let piece = HotPiece { partition: hot.partition, from, until };
                    pieces.entry(owner.address).or_default().hot.push(piece);
                }
                None => unanswered.push(Unanswered {
                    partition: hot.partition,
                    messages: hot.offsets.end - hot.offsets.start,
                }),
            }
        }
        let readers = self.readers();
        let mut left_out = Vec::new();
        for segment in plan.segments {
            if without.contains(&segment.name) {
                left_out.push((segment.name, segment.lines));
                continue;
            }
            let reader = reader_of(&readers, &segment.name);
            let piece = SegmentPiece(segment.name, segment.bytes);
            pieces.entry(reader.to_owned()).or_default().segments.push(piece);
        }
        if pieces.is_empty() {
            // A query over nothing has an answer too.
            pieces.entry(readers[0].clone()).or_default();
        }
        let share = |(address, pieces): (String, Pieces)| {
            let node = self.node(&address).map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>((node, pieces))
        };
        let shares = pieces.into_iter().map(share).collect::<Result<_, _>>()?;
        Ok(Spread { shares, unanswered, left_out })
    }

    /// The addresses of the nodes that read segments; this one if there is no other. One that alone
    /// is cut off from the object storage reads none, unless all are.
    pub(super) fn readers(&self) -> Vec<String> {
        let mut nodes = self.live_and(Role::Query, |info| info.accepting);
        if nodes.is_empty() {
            nodes = self.live(Role::Query);
        }
        if nodes.iter().any(|node| !node.is_away()) {
            nodes.retain(|node| !node.is_away());
        }
        match nodes.is_empty() {
            true => vec![self.info.address.clone()],
            false => nodes.iter().map(|node| node.url().to_owned()).collect(),
        }
    }
}

/// The node that reads a segment: the one whose hash with its name is the greatest. A node that
/// comes or goes changes the reader of its own share of segments only.
pub(super) fn reader_of<'a>(readers: &'a [String], segment: &str) -> &'a str {
    let weight = |reader: &&String| {
        let mut hasher = FixedState::with_seed(1).build_hasher();
        hasher.write(reader.as_bytes());
        hasher.write(segment.as_bytes());
        hasher.finish()
    };
    readers.iter().max_by_key(weight).expect("there is a reader")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_segments_and_keep_theirs() {
        let readers: Vec<String> = (0..4).map(|n| format!("http://node{n}:9514")).collect();
        let segments: Vec<String> =
            (0..4_000).map(|n| format!("segments/partition-1/7-00000001-{n}")).collect();
        let mut counts = BTreeMap::new();
        for segment in &segments {
            *counts.entry(reader_of(&readers, segment)).or_insert(0) += 1;
        }
        assert!(counts.len() == 4 && counts.values().all(|count| (800..1200).contains(count)));
        // Without the last node, only its segments move.
        for segment in &segments {
            let before = reader_of(&readers, segment);
            if before != readers[3] {
                assert_eq!(reader_of(&readers[..3], segment), before);
            }
        }
    }
}
