//! Selects the rows that a rewrite leaves out: those that running deletions, due retention rules
//! and cutoffs select; and, when lines are sealed, those that came late for a deletion that is
//! done.

use std::sync::Arc;

use record::{Batch, Row, Tenant};
use text::terminal::escaped;

use crate::background::plan::{due_cutoffs, due_rules, rules_stamp};
use crate::callbacks::{LineFilter, StoreCallbacks};
use crate::catalog::DeletionState;
use crate::config::{Cutoff, RetentionRule};
use crate::ledger::Ledger;
use crate::position::span;
use crate::segments::AnySegment;
use crate::store_core::{StoreCore, retention_log};
use crate::sync::lock;

/// A retention rule rewrites a segment when the lines that it selects are at least 1/`WORTH_PARTS`
/// of the segment's bytes. Otherwise they stay until the whole segment is deleted. For lines that
/// must go there are deletions.
const WORTH_PARTS: u64 = 8;

/// The compiled filters of lines to be deleted, and the number of lines that each has selected.
pub(crate) struct Pruning {
    filters: Vec<PruneFilter>,
    /// Recorded with the segment once it is rewritten or searched: the last deletion, and the set
    /// of rules.
    pub(crate) deletions_through: u64,
    pub(crate) rules: u64,
}

struct PruneFilter {
    filter: LineFilter,
    reason: PruneReason,
    lines: u64,
    /// Earliest and latest arrival of these lines.
    received_ns: Option<(i64, i64)>,
}

enum PruneReason {
    Deletion(Bound),
    Rule(RetentionRule),
    Cutoff(Cutoff),
}

/// The lines that a deletion binds.
struct Bound {
    id: u64,
    /// Lines of frames below this number.
    sequence_before: u64,
    /// Lines that nodes other than `own_node` received before this.
    received_before_ns: i64,
    own_node: u32,
}

impl Bound {
    fn binds(&self, row: &Row<'_>) -> bool {
        row.sequence() < self.sequence_before
            || (row.received_ns() < self.received_before_ns && row.id().node != self.own_node)
    }
}

impl PruneFilter {
    fn new(filter: LineFilter, reason: PruneReason) -> PruneFilter {
        PruneFilter { filter, reason, lines: 0, received_ns: None }
    }

    fn binds(&self, row: &Row<'_>) -> bool {
        match &self.reason {
            PruneReason::Deletion(bound) => bound.binds(row),
            PruneReason::Rule(_) | PruneReason::Cutoff(_) => true,
        }
    }
}

/// What was found in a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Lines that a deletion or a cutoff selects.
    pub(crate) deleted: u64,
    /// Bytes of the lines that a rule selects.
    pub(crate) ruled_bytes: u64,
}

impl Findings {
    /// Whether these findings justify rewriting a segment of `bytes_raw` bytes of lines.
    pub(crate) fn are_worth(&self, bytes_raw: u64) -> bool {
        self.deleted > 0 || (self.ruled_bytes > 0 && self.ruled_bytes >= bytes_raw / WORTH_PARTS)
    }
}

impl Pruning {
    /// The filters that concern a rewrite of `sources`. A deletion whose filter cannot be compiled
    /// fails; a rule whose filter cannot be compiled is logged and skipped.
    pub(crate) fn of(
        core: &StoreCore,
        ledger: &std::sync::Mutex<Ledger>,
        callbacks: &dyn StoreCallbacks,
        sources: &[AnySegment],
        now_ns: i64,
    ) -> Pruning {
        let mut filters = Vec::new();
        let deletions_through = core.deletions.last_id();
        // What was sealed once has lost the lines that came late.
        let may_be_late = sources.iter().any(|source| matches!(source, AnySegment::Hot(_)));
        for deletion in core.deletions.in_force() {
            let concerns = sources.iter().any(|source| deletion.concerns(source));
            let is_running = deletion.state == DeletionState::Running;
            if !(may_be_late || is_running && concerns) {
                continue;
            }
            match callbacks.filter(&deletion.filter, deletion.created_ns) {
                Ok(filter) => {
                    let bound = Bound {
                        id: deletion.id,
                        sequence_before: deletion.scope.sequence_before,
                        received_before_ns: deletion.created_ns,
                        own_node: core.node,
                    };
                    filters.push(PruneFilter::new(filter, PruneReason::Deletion(bound)));
                }
                Err(error) if !is_running => {
                    tracing::warn!("deletion {}: lines that come late stay: {error}", deletion.id);
                }
                Err(error) => {
                    let ended =
                        lock(ledger).end_deletion(deletion.id, DeletionState::Failed, Some(error));
                    if let Err(error) = ended {
                        tracing::warn!("{error}");
                    }
                }
            }
        }
        let received = |source: &AnySegment| source.received_ns();
        let newest =
            sources.iter().filter_map(received).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        // An active segment still takes newer lines, so no rule is due for all of its lines.
        let newest = newest.filter(|_| sources.iter().all(AnySegment::is_closed));
        let rules = due_rules(&core.retention().rules, newest, now_ns);
        for rule in &rules {
            match callbacks.filter(&rule.filter, now_ns) {
                Ok(filter) => {
                    filters.push(PruneFilter::new(filter, PruneReason::Rule(rule.clone())));
                }
                Err(error) => tracing::warn!("retention rule '{}': {error}", rule.filter),
            }
        }
        let cutoffs = due_cutoffs(&core.cutoffs(), newest);
        for cutoff in &cutoffs {
            match callbacks.filter(&cutoff.filter, now_ns) {
                Ok(filter) => {
                    filters.push(PruneFilter::new(filter, PruneReason::Cutoff(cutoff.clone())));
                }
                Err(error) => tracing::warn!("the cutoff of '{}': {error}", cutoff.filter),
            }
        }
        Pruning { filters, deletions_through, rules: rules_stamp(&rules, &cutoffs) }
    }

    /// Whether any filter may select lines of these event times, where all are of that tenant;
    /// none: they may be of any.
    pub(crate) fn may_name(&self, time_ns: (i64, i64), tenant: Option<Tenant>) -> bool {
        let overlaps = |d: &LineFilter| d.range_ns.0 <= time_ns.1 && time_ns.0 <= d.range_ns.1;
        let is_of = |d: &LineFilter| match (&d.tenants, tenant) {
            (Some(wanted), Some(tenant)) => wanted.contains(&tenant),
            _ => true,
        };
        self.filters.iter().any(|pruned| overlaps(&pruned.filter) && is_of(&pruned.filter))
    }

    /// Returns for each row whether it is deleted; None when no row is. Each row is counted for the
    /// first filter that selects it.
    pub(crate) fn select(
        &mut self,
        batch: &Arc<Batch>,
        findings: &mut Findings,
    ) -> Option<Vec<bool>> {
        let mut goes: Option<Vec<bool>> = None;
        for pruned in &mut self.filters {
            // A deletion that is done binds hardly any batch: this spares its filter.
            if !batch.rows().any(|row| pruned.binds(&row)) {
                continue;
            }
            let selected = (pruned.filter.selects)(batch);
            assert_eq!(selected.len(), batch.len(), "one answer for each row");
            for row in batch.rows().filter(|row| selected[row.index() as usize]) {
                if !pruned.binds(&row) {
                    continue;
                }
                let goes = goes.get_or_insert_with(|| vec![false; batch.len()]);
                if std::mem::replace(&mut goes[row.index() as usize], true) {
                    continue;
                }
                pruned.lines += 1;
                let received_ns = row.received_ns();
                pruned.received_ns = span(pruned.received_ns, Some((received_ns, received_ns)));
                match pruned.reason {
                    PruneReason::Deletion(_) | PruneReason::Cutoff(_) => findings.deleted += 1,
                    PruneReason::Rule(_) => findings.ruled_bytes += row.raw().len() as u64 + 1,
                }
            }
        }
        goes
    }

    /// Adds the lines deleted from `sources` to the counts of their deletions, and logs those that
    /// went by a rule.
    pub(crate) fn count(&self, ledger: &mut Ledger, sources: &[AnySegment]) {
        for pruned in self.filters.iter().filter(|pruned| pruned.lines > 0) {
            match &pruned.reason {
                PruneReason::Deletion(bound) => ledger.count_deleted(bound.id, pruned.lines),
                PruneReason::Rule(rule) => {
                    let age = retention_log::age_text(rule.age_ns);
                    let why = format!(
                        "the retention rule with the filter {} and the age {age}",
                        escaped(&rule.filter)
                    );
                    retention_log::note_lines(&why, sources, pruned.lines, pruned.received_ns);
                }
                PruneReason::Cutoff(cutoff) => {
                    let why = format!("the limit of bytes of {}", escaped(&cutoff.filter));
                    retention_log::note_lines(&why, sources, pruned.lines, pruned.received_ns);
                }
            }
        }
    }

    /// Lines deleted so far.
    pub(crate) fn lines(&self) -> u64 {
        self.filters.iter().map(|pruned| pruned.lines).sum()
    }
}
