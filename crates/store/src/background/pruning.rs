//! Selects the rows that a rewrite leaves out: those that running deletions and due retention rules
//! select.

use std::sync::Arc;

use record::Batch;

use crate::background::plan::{due_rules, rules_stamp};
use crate::callbacks::{LineFilter, StoreCallbacks};
use crate::catalog::DeletionState;
use crate::ledger::Ledger;
use crate::segments::AnySegment;
use crate::store_core::StoreCore;
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
}

#[derive(Clone, Copy)]
enum PruneReason {
    /// Lines of frames below this number.
    Deletion {
        id: u64,
        sequence_before: u64,
    },
    Rule,
}

/// What was found in a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Lines that a deletion selects.
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
        for deletion in core.deletions.running() {
            if !sources.iter().any(|source| deletion.concerns(source)) {
                continue;
            }
            match callbacks.filter(&deletion.filter, deletion.created_ns) {
                Ok(filter) => {
                    let sequence_before = deletion.scope.sequence_before;
                    let reason = PruneReason::Deletion { id: deletion.id, sequence_before };
                    filters.push(PruneFilter { filter, reason, lines: 0 });
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
                    filters.push(PruneFilter { filter, reason: PruneReason::Rule, lines: 0 })
                }
                Err(error) => tracing::warn!("retention rule '{}': {error}", rule.filter),
            }
        }
        Pruning { filters, deletions_through, rules: rules_stamp(&rules) }
    }

    /// Whether any filter may select lines of these event times.
    pub(crate) fn may_name(&self, time_ns: (i64, i64)) -> bool {
        let overlaps =
            |d: &PruneFilter| d.filter.range_ns.0 <= time_ns.1 && time_ns.0 <= d.filter.range_ns.1;
        self.filters.iter().any(overlaps)
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
            let selected = (pruned.filter.selects)(batch);
            assert_eq!(selected.len(), batch.len(), "one answer for each row");
            for row in batch.rows().filter(|row| selected[row.index() as usize]) {
                let named = match pruned.reason {
                    PruneReason::Deletion { sequence_before, .. } => {
                        row.sequence() < sequence_before
                    }
                    PruneReason::Rule => true,
                };
                let goes = goes.get_or_insert_with(|| vec![false; batch.len()]);
                let goes = &mut goes[row.index() as usize];
                if named && !*goes {
                    *goes = true;
                    pruned.lines += 1;
                    match pruned.reason {
                        PruneReason::Deletion { .. } => findings.deleted += 1,
                        PruneReason::Rule => findings.ruled_bytes += row.raw().len() as u64 + 1,
                    }
                }
            }
        }
        goes
    }

    /// Adds the deleted lines to the counts of their deletions.
    pub(crate) fn count(&self, ledger: &mut Ledger) {
        for pruned in self.filters.iter().filter(|pruned| pruned.lines > 0) {
            if let PruneReason::Deletion { id, .. } = pruned.reason {
                ledger.count_deleted(id, pruned.lines);
            }
        }
    }

    /// Lines deleted so far.
    pub(crate) fn lines(&self) -> u64 {
        self.filters.iter().map(|pruned| pruned.lines).sum()
    }
}
