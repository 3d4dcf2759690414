//! Spreads a query over the nodes: each owner reads the newest frames of its partitions, and each
//! query node some of the segments, always the same ones as long as the nodes are the same, so that
//! caches stay warm.
//!
//! Engines that do not answer are no reason to know nothing: the last snapshot of the catalog and
//! the last ends of the partitions serve, and the spread says so.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use cluster::deletions::Tombstone;
use cluster::{
    Catalog, CatalogError, End, HotRange, KeptError, NodeId, Role, SegmentRow, Snapshot,
    TimeRange as Times, WentBack, plan_of,
};
use foldhash::quality::FixedState;
use query::source::TimeRange;
use record::LineId;

use super::ends::KnownEnds;
use super::{Engines, HiddenLines, HotPiece, Pieces, SegmentPiece};
use crate::cluster::Node;

/// Most segments of a query.
///
/// limits.md, Nodes of a cluster: segments of a query | {} | the query is refused; narrow its time
/// range
const SEGMENTS_MAX: usize = 50_000;
/// Time for the catalog to answer, where an older snapshot of it is known.
///
/// limits.md, Nodes of a cluster: wait of a query for PostgreSQL, where an older state of the
/// catalog is known | {} | the query goes on with that state, and says how old it is
const CATALOG_TIME_MAX: Duration = Duration::from_secs(2);
/// The same while the catalog has not answered for [`CATALOG_OUTAGE`].
const CATALOG_TIME_IN_OUTAGE: Duration = Duration::from_millis(200);
/// Without an answer for this long, the catalog counts as away.
const CATALOG_OUTAGE: Duration = Duration::from_secs(2);
/// Time for the log to tell its ends.
///
/// limits.md, Nodes of a cluster: wait of a query for the ends of partitions in Kafka | {} | the
/// query goes on without the newest lines, or fails
const LOG_TIME_MAX: Duration = Duration::from_secs(1);

/// Segments that are searched for the line of an id. A frame is in one segment; more have it in the
/// range of their numbers where frames came out of order.
const HOLDING_MAX: usize = 1_000;

/// Messages that no node can answer for at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The partition.
    pub partition: u32,
    /// Messages that are missing; none if nobody knows how many.
    pub messages: Option<u64>,
    /// Why.
    pub why: String,
}

impl Unanswered {
    /// The whole sentence.
    pub fn message(&self) -> String {
        let Unanswered { partition, messages, why } = self;
        match messages {
            Some(messages) => {
                format!(
                    "the newest {messages} messages of partition {partition} are missing: {why}"
                )
            }
            None => format!("the newest messages of partition {partition} are missing: {why}"),
        }
    }
}

/// What a query may not ask.
#[derive(Clone, Debug, Default)]
pub struct Avoided {
    /// Addresses of nodes that failed in this query, and why.
    pub nodes: BTreeMap<String, String>,
    /// Addresses of owners that do not have what the plan says, and why. They are asked for
    /// segments.
    pub owners: BTreeMap<String, String>,
}

/// Who reads what.
pub struct Spread {
    /// The nodes with their pieces; at least one.
    pub shares: Vec<(Arc<Node>, Pieces)>,
    /// Partitions whose newest lines nobody answers for.
    pub unanswered: Vec<Unanswered>,
    /// Partitions whose end is not known at present: what the log took after the time
    /// (nanoseconds since 1970 UTC) may be missing.
    pub open: Vec<(u32, i64)>,
    /// Why their ends are not known.
    pub log_error: String,
    /// The age of the catalog's state, and why it is not of now; none if it is.
    pub catalog_age: Option<(Duration, String)>,
    /// The nodes that read segments.
    pub readers: Vec<Arc<Node>>,
    /// Lines and event times of the segments, by name.
    pub segments: HashMap<String, (u64, (i64, i64))>,
}

impl Spread {
    /// Whether the log is another one, or has lost messages: waiting does not help.
    pub fn is_log_lost(&self) -> bool {
        self.unanswered.iter().any(|one| one.messages.is_none())
    }
}

impl Engines {
    /// Plans a query over event times that may run for `run_time`, with one call of the catalog and
    /// one of the log. Blocks.
    ///
    /// Errors: an engine has not told enough yet, or no node can read segments; the text says so.
    pub fn spread(
        &self,
        range: TimeRange,
        run_time: Duration,
        avoided: &Avoided,
    ) -> Result<Spread, String> {
        let last_ns = if range.end_ns == i64::MAX { i64::MAX } else { range.end_ns - 1 };
        let times = Times { first_ns: range.start_ns, last_ns };
        let (snapshot, catalog_age) = self.snapshot(times, run_time)?;
        self.shares(snapshot, catalog_age, avoided)
    }

    /// Spreads what is in a snapshot, and what the log has behind it.
    fn shares(
        &self,
        snapshot: Snapshot,
        catalog_age: Option<(Duration, String)>,
        avoided: &Avoided,
    ) -> Result<Spread, String> {
        // A region that follows has the lines that were published when it was copied.
        let known = match self.follows() {
            Some(_) => KnownEnds { ends: Vec::new(), error: String::new() },
            None => self.log_ends.ask(&self.log, LOG_TIME_MAX)?,
        };
        let ends: Vec<End> = known.ends.iter().map(|known| known.end).collect();
        let other = self.other_log();
        let ends = if other.is_some() { Vec::new() } else { ends };
        let partitions: Vec<u32> = snapshot.partitions.iter().map(|row| row.partition).collect();
        let plan = plan_of(snapshot, &ends);
        let mut pieces: BTreeMap<String, Pieces> = BTreeMap::new();
        let (mut unanswered, mut open) = (Vec::new(), Vec::new());
        // The offsets of another log say nothing about what this catalog has.
        if let Some(why) = &other {
            let of = |partition| Unanswered { partition, messages: None, why: why.clone() };
            unanswered.extend(partitions.into_iter().map(of));
        }
        for WentBack { partition, offset, end } in plan.went_back.iter().copied() {
            let why = WentBack { partition, offset, end }.to_string();
            unanswered.push(Unanswered { partition, messages: None, why });
        }
        for hot in plan.hot {
            let HotRange { partition, offsets, owner, is_open } = hot;
            if is_open {
                open.push((partition, known.ends[partition as usize].asked_ns));
            }
            let nobody = || {
                "no store owns it at present; start a store, or ask again in some seconds"
                    .to_owned()
            };
            let why = match &owner {
                Some(owner) => {
                    let known = avoided.nodes.get(&owner.address);
                    known.or_else(|| avoided.owners.get(&owner.address)).cloned()
                }
                None => Some(nobody()),
            };
            match (owner, why) {
                (Some(owner), None) => {
                    let (from, until) = (offsets.start, offsets.end);
                    let piece = HotPiece { partition, from, until, open: is_open };
                    pieces.entry(owner.address).or_default().hot.push(piece);
                }
                (_, why) => unanswered.push(Unanswered {
                    partition,
                    messages: Some(offsets.end - offsets.start),
                    why: why.unwrap_or_else(nobody),
                }),
            }
        }
        let readers = self.readers_without(&avoided.nodes);
        let mut segments = HashMap::with_capacity(plan.segments.len());
        for row in plan.segments {
            let SegmentRow { name, lines, times, .. } = &row;
            let reader = reader_of(&readers, name);
            segments.insert(name.clone(), (*lines, (times.first_ns, times.last_ns)));
            let piece = SegmentPiece::from(row);
            pieces.entry(reader.to_owned()).or_default().segments.push(piece);
        }
        if pieces.is_empty() {
            // A query over nothing has an answer too.
            pieces.entry(readers[0].clone()).or_default();
        }
        for pieces in pieces.values_mut() {
            hide(pieces, &plan.tombstones);
        }
        let share = |(address, pieces): (String, Pieces)| {
            let node = self.node(&address).map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>((node, pieces))
        };
        let shares = pieces.into_iter().map(share).collect::<Result<_, _>>()?;
        let readers = readers.iter().filter_map(|address| self.node(address).ok()).collect();
        let log_error = known.error;
        Ok(Spread { shares, unanswered, open, log_error, catalog_age, readers, segments })
    }

    /// A snapshot of the catalog, or the last one that is known while the catalog is away.
    fn snapshot(
        &self,
        times: Times,
        run_time: Duration,
    ) -> Result<(Snapshot, Option<(Duration, String)>), String> {
        let answer = match self.kept.serves(times, run_time, self.clock.monotonic_ns()) {
            // Nothing else can serve, so the catalog gets its time.
            false => Catalog::snapshot(&self.catalog, times, SEGMENTS_MAX),
            true => {
                let failing = self.catalog.metered().failing;
                let is_away = failing.is_some_and(|failing| failing >= CATALOG_OUTAGE);
                let time_max = if is_away { CATALOG_TIME_IN_OUTAGE } else { CATALOG_TIME_MAX };
                self.catalog.snapshot_within(time_max, times, SEGMENTS_MAX)
            }
        };
        let error = match answer {
            Ok(snapshot) => {
                self.compiled.retain(&snapshot.tombstones);
                return Ok((snapshot, None));
            }
            Err(error @ CatalogError::TooMany { .. }) => return Err(error.to_string()),
            Err(error) => error.to_string(),
        };
        let kept = self.kept.get(times, run_time, self.clock.monotonic_ns());
        let kept = kept.map_err(|why| match why {
            KeptError::Nothing => error.clone(),
            why => format!("{error}; {why}"),
        })?;
        match kept.snapshot.segments.len() > SEGMENTS_MAX {
            true => Err(CatalogError::TooMany { segments_max: SEGMENTS_MAX }.to_string()),
            false => Ok((kept.snapshot, Some((kept.age, error)))),
        }
    }

    /// Who may have the line of an id: the owners of the newest frames, and the readers of the
    /// segments that have the line's frame. Blocks.
    ///
    /// Errors: an engine cannot be reached, or no node can read segments; the text says so.
    pub fn spread_line(&self, id: LineId, run_time: Duration) -> Result<Spread, String> {
        let found = || {
            let snapshot = self.catalog.snapshot_within(CATALOG_TIME_MAX, super::none(), 0)?;
            // After the offsets of the snapshot: what is published meanwhile is in both, and not in
            // neither.
            let segments = self.catalog.holding(NodeId(id.node), id.sequence, HOLDING_MAX)?;
            Ok::<_, CatalogError>(Snapshot { segments, ..snapshot })
        };
        match found() {
            Ok(snapshot) => self.shares(snapshot, None, &Avoided::default()),
            // An older state of the catalog does not say which segments have a frame.
            Err(_) => self.spread(TimeRange::ALL, run_time, &Avoided::default()),
        }
    }

    /// The addresses of the nodes that read segments; this one if there is no other. One that alone
    /// is cut off from the object storage reads none, unless all are.
    pub(super) fn readers(&self) -> Vec<String> {
        self.readers_without(&BTreeMap::new())
    }

    /// As [`readers`](Self::readers), without some addresses, unless no other is left.
    fn readers_without(&self, avoided: &BTreeMap<String, String>) -> Vec<String> {
        let mut nodes = self.live_and(Role::Query, |info| info.accepting);
        if nodes.is_empty() {
            nodes = self.live(Role::Query);
        }
        let can_read = |node: &Arc<Node>| !node.is_away() && !avoided.contains_key(node.url());
        if nodes.iter().any(can_read) {
            nodes.retain(can_read);
        }
        match nodes.iter().all(|node| avoided.contains_key(node.url())) {
            // Any node can read segments.
            true => vec![self.info.address.clone()],
            false => nodes.iter().map(|node| node.url().to_owned()).collect(),
        }
    }
}

/// Adds the deletions that matter for some pieces.
fn hide(pieces: &mut Pieces, tombstones: &[Tombstone]) {
    let searched = pieces.segments.iter().map(|SegmentPiece(_, _, searched)| *searched).min();
    let searched = if pieces.hot.is_empty() { searched.unwrap_or(u64::MAX) } else { 0 };
    let matters = |tombstone: &&Tombstone| tombstone.id > searched;
    pieces.hidden = tombstones.iter().filter(matters).map(HiddenLines::from).collect();
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
    fn pieces_have_the_deletions_that_matter_for_them() {
        let tombstones: Vec<Tombstone> =
            (1..=4).map(|id| Tombstone { id, filter: format!("f{id}"), created_ns: 9 }).collect();
        let check = |searched: &[u64], has_hot: bool, expected: &[u64]| {
            let segments = searched.iter().map(|id| SegmentPiece("s".into(), 1, *id)).collect();
            let hot = HotPiece { partition: 0, from: 0, until: 1, open: false };
            let hot = Vec::from_iter(has_hot.then_some(hot));
            let mut pieces = Pieces { segments, hot, hidden: Vec::new() };
            hide(&mut pieces, &tombstones);
            let ids: Vec<u64> = pieces.hidden.iter().map(|hidden| hidden.id).collect();
            assert_eq!(ids, expected, "{searched:?} {has_hot}");
        };
        check(&[], false, &[]);
        check(&[4], false, &[]);
        check(&[4, 2, 3], false, &[3, 4]);
        check(&[4], true, &[1, 2, 3, 4]);
    }

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
