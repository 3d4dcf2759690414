//! Programs and sinks on a node of a cluster, as long as it has their lease.

use std::sync::Arc;

use anyhow::Result;

use super::leased_work::{LeasedWork, LeasedWorkOptions, LeasedWorkParts, LeasedWorkSlot};
use crate::cluster::engines::{Lease, LogArrivals, LogNotes, LogRows, Marks, Work};
use crate::cluster::{Engines, QueriedLines};
use crate::process::stages::Stages;
use crate::storage::arrivals::Arrivals;

/// Starts and stops them.
pub struct ClusterWork {
    /// How they run.
    pub options: LeasedWorkOptions,
    /// Where the rest of the server finds them.
    pub slot: Arc<LeasedWorkSlot>,
    /// Signals of all stages.
    pub stages: Arc<Stages>,
    /// The lines of the cluster.
    pub lines: QueriedLines,
    /// The engines of the cluster.
    pub engines: Arc<Engines>,
}

impl Work for ClusterWork {
    fn start(&self, lease: &Lease) -> Result<()> {
        let (engines, parsers) = (&self.engines, self.options.parsers());
        let sink_arrivals = {
            let (engines, parsers) = (Arc::clone(engines), Arc::clone(parsers));
            move || {
                let (engines, parsers) = (Arc::clone(&engines), Arc::clone(&parsers));
                Arc::new(LogArrivals::new(engines, parsers)) as Arc<dyn Arrivals>
            }
        };
        let marks = |prefix| Arc::new(Marks::new(engines, Some(*lease), prefix));
        let parts = LeasedWorkParts {
            lines: self.lines.clone(),
            notes: Arc::new(LogNotes::new(Arc::clone(engines))),
            notes_itself: true,
            arrivals: Arc::new(sink_arrivals),
            rows: Arc::new(LogRows::new(Arc::clone(engines))),
            state: marks(Marks::STATE),
            programs: marks(Marks::PROGRAMS),
            cursors: marks(Marks::SINKS),
            alert_rules: marks(Marks::ALERT_RULES),
            alerts: marks(Marks::ALERTS),
            receivers: marks(Marks::RECEIVERS),
        };
        let work = LeasedWork::start(&self.options, parts, Arc::new(self.stages.beside()))?;
        engines.set_work_lease(Some(*lease));
        self.slot.set(Some(work));
        Ok(())
    }

    fn stop(&self) {
        if let Some(work) = self.slot.set(None) {
            work.close();
        }
        self.engines.set_work_lease(None);
    }
}
