//! Which nodes a query asks for what, and what they did, for `explain`.
//!
//! A query has a plan for each share that it begins: a query inside a filter has one of its own,
//! and so has each attempt after a node did not have what the plan says.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Node;
use super::engines::{HotPiece, Pieces, SegmentPiece, Spread, Unanswered};

/// Plans of a query that are kept. Of more, the number is told.
const PLANS_MAX: usize = 50;
/// Names of segments that are shown of a share. Of more, the number is told.
const SEGMENTS_NAMED_MAX: usize = 10;

/// The plans of a query, in their order.
#[derive(Debug, Default)]
pub struct ShareTrace {
    plans: Mutex<(Vec<TracedPlan>, u64)>,
}

/// Who was asked for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedPlan {
    /// The shares, one for each node.
    pub shares: Vec<TracedShare>,
    /// What no node answers for, and what is not known, a sentence each.
    pub out_of_reach: Vec<String>,
    /// Why the query was planned again.
    pub planned_again: Option<String>,
}

/// What one node was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedShare {
    /// The name of the node.
    pub node: String,
    /// Segments.
    pub segments: usize,
    /// Their lines.
    pub segments_lines: u64,
    /// Their bytes in object storage.
    pub segments_bytes: u64,
    /// The names of the first of them.
    pub segments_named: Vec<String>,
    /// Offsets of partitions whose newest frames the node has.
    pub partitions: Vec<HotPiece>,
    /// The node that asked for it in the place of the one that answers the query; none: that one
    /// asked itself, or the query was only planned.
    pub relay: Option<String>,
    /// What was done; none before that, or where the query was only planned.
    pub run: Option<TracedRun>,
}

/// What one share took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedRun {
    /// Whether the share ended by itself. If not, the query had enough, or failed.
    pub complete: bool,
    /// Until its first piece, milliseconds; none: there was none.
    pub first_ms: Option<f64>,
    /// Until its end, or until the query wanted no more, milliseconds.
    pub ms: f64,
    /// Frames and blocks to read, and those that were read or skipped.
    pub blocks_planned: u64,
    /// See `blocks_planned`.
    pub blocks_done: u64,
    /// Those that were skipped because they hold none of the words that the filter needs.
    pub blocks_skipped: u64,
    /// Bytes of raw lines that were read.
    pub bytes_scanned: u64,
    /// Lines that were read.
    pub lines_scanned: u64,
    /// The second node that was asked for the same segments, because the first one was slow.
    pub asked_elsewhere: Option<String>,
    /// The node whose answer counts; none: neither had answered.
    pub answered_by: Option<String>,
    /// Why the share failed.
    pub error: Option<String>,
}

impl ShareTrace {
    /// Adds a plan; returns its place, or none if there are too many.
    pub fn plan(&self, plan: &Spread) -> Option<usize> {
        let mut plans = self.lock();
        if plans.0.len() >= PLANS_MAX {
            plans.1 += 1;
            return None;
        }
        plans.0.push(TracedPlan::of(plan));
        Some(plans.0.len() - 1)
    }

    /// Notes what shares of a plan took: their places, and the nodes that relayed them.
    pub fn ran(
        &self,
        place: usize,
        runs: impl IntoIterator<Item = (usize, Option<String>, TracedRun)>,
    ) {
        let mut plans = self.lock();
        let Some(plan) = plans.0.get_mut(place) else { return };
        for (share, relay, run) in runs {
            if let Some(share) = plan.shares.get_mut(share) {
                (share.relay, share.run) = (relay, Some(run));
            }
        }
    }

    /// Notes why a query was planned again.
    pub fn planned_again(&self, place: usize, why: &str) {
        if let Some(plan) = self.lock().0.get_mut(place) {
            plan.planned_again = Some(why.to_owned());
        }
    }

    /// The plans, and how many more there were.
    pub fn plans(&self) -> (Vec<TracedPlan>, u64) {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<TracedPlan>, u64)> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TracedPlan {
    fn of(plan: &Spread) -> TracedPlan {
        let share = |(node, pieces): &(std::sync::Arc<Node>, Pieces)| {
            let names = pieces.segments.iter().map(|SegmentPiece(name, ..)| name);
            let lines = names.clone().filter_map(|name| plan.segments.get(name));
            TracedShare {
                node: node.name.clone(),
                segments: pieces.segments.len(),
                segments_lines: lines.map(|(lines, _)| lines).sum(),
                segments_bytes: pieces.segments.iter().map(|SegmentPiece(_, bytes, _)| bytes).sum(),
                segments_named: names.take(SEGMENTS_NAMED_MAX).cloned().collect(),
                partitions: pieces.hot.clone(),
                relay: None,
                run: None,
            }
        };
        let unanswered = plan.unanswered.iter().map(Unanswered::message);
        let open = plan.open.iter().map(|(partition, _)| {
            let why = &plan.log_error;
            format!("Kafka does not tell where partition {partition} ends: {why}")
        });
        let catalog = plan
            .catalog_age
            .iter()
            .map(|(age, why)| format!("the catalog is of {:.0} s ago: {why}", age.as_secs_f64()));
        TracedPlan {
            shares: plan.shares.iter().map(share).collect(),
            out_of_reach: unanswered.chain(open).chain(catalog).collect(),
            planned_again: None,
        }
    }
}

/// A time in milliseconds.
pub fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl fmt::Display for TracedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for share in &self.shares {
            writeln!(f, "share     {share}")?;
        }
        for why in &self.out_of_reach {
            writeln!(f, "missing   {why}")?;
        }
        match &self.planned_again {
            Some(why) => writeln!(f, "again     the query was planned again: {why}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TracedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TracedShare { node, segments, segments_lines, segments_bytes, .. } = self;
        write!(
            f,
            "{node}: {segments} segments ({segments_lines} lines, {segments_bytes} bytes in object storage)"
        )?;
        for HotPiece { partition, from, until, open } in &self.partitions {
            let end = if *open { " and all behind" } else { "" };
            write!(f, ", partition {partition} from offset {from} to before {until}{end}")?;
        }
        if let Some(relay) = &self.relay {
            write!(f, "; asked by {relay}")?;
        }
        self.run.as_ref().map_or(Ok(()), |run| write!(f, "{run}"))
    }
}

impl fmt::Display for TracedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first_ms {
            Some(first) => write!(f, "; first piece after {first} ms")?,
            None => write!(f, "; no piece")?,
        }
        let end = if self.complete { "complete" } else { "not wanted any more" };
        let TracedRun { ms, blocks_planned, blocks_done, blocks_skipped, .. } = self;
        write!(
            f,
            ", {end} after {ms} ms; {blocks_done} of {blocks_planned} blocks, {blocks_skipped} skipped by their words; \
             {} bytes and {} lines read",
            self.bytes_scanned, self.lines_scanned
        )?;
        if let Some(other) = &self.asked_elsewhere {
            let by = self.answered_by.as_deref().unwrap_or("neither");
            write!(f, "; it was slow, so {other} was asked too, and {by} answered")?;
        }
        self.error.as_ref().map_or(Ok(()), |error| write!(f, "; {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_in_sentences() {
        let hot = HotPiece { partition: 2, from: 7, until: 9, open: false };
        let mut share = TracedShare {
            node: "a".to_owned(),
            segments: 3,
            segments_lines: 70,
            segments_bytes: 900,
            partitions: vec![hot],
            ..TracedShare::default()
        };
        let asked = "a: 3 segments (70 lines, 900 bytes in object storage), partition 2 from offset 7 to before 9";
        assert_eq!(share.to_string(), asked);
        share.relay = Some("c".to_owned());
        assert_eq!(share.to_string(), format!("{asked}; asked by c"));
        share.relay = None;
        share.run = Some(TracedRun {
            complete: true,
            first_ms: Some(1.5),
            ms: 2.5,
            blocks_planned: 4,
            blocks_done: 4,
            blocks_skipped: 1,
            bytes_scanned: 600,
            lines_scanned: 50,
            asked_elsewhere: Some("b".to_owned()),
            answered_by: Some("b".to_owned()),
            error: None,
        });
        assert_eq!(
            share.to_string(),
            format!(
                "{asked}; first piece after 1.5 ms, complete after 2.5 ms; 4 of 4 blocks, 1 skipped by their words; 600 bytes \
                 and 50 lines read; it was slow, so b was asked too, and b answered"
            )
        );
    }

    #[test]
    fn plans_beyond_the_limit_are_counted() {
        let trace = ShareTrace::default();
        let plan = Spread {
            shares: Vec::new(),
            unanswered: Vec::new(),
            open: vec![(4, 0)],
            log_error: "no broker".to_owned(),
            catalog_age: None,
            readers: Vec::new(),
            segments: Default::default(),
        };
        for number in 0..PLANS_MAX {
            assert_eq!(trace.plan(&plan), Some(number));
        }
        assert_eq!(trace.plan(&plan), None);
        trace.planned_again(0, "it is away");
        let (plans, more) = trace.plans();
        assert_eq!((plans.len(), more), (PLANS_MAX, 1));
        assert_eq!(
            plans[0].to_string(),
            "missing   Kafka does not tell where partition 4 ends: no broker\n\
             again     the query was planned again: it is away\n"
        );
    }
}
