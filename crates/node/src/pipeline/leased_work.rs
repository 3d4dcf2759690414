//! The programs, sinks, alerts and the watch that run on this node. On one machine they run as long
//! as the server; in a cluster, on the node that has their lease, as long as it has it.

use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Result;
use platform::Clock;
use platform::memory::Budget;

use super::options::NodeOptions;
use crate::alerts::{self, AlertOptions, AlertStage};
use crate::cluster::QueriedLines;
use crate::data_dir::{Documents, SINKS_FOLDER};
use crate::process::stages::{StageThread, Stages};
use crate::programs::stage::{self as program_stage, Parts, ProgramOptions, ProgramStage};
use crate::sinks::config::SinkOptions;
use crate::sinks::rejected::RejectedDocuments;
use crate::sinks::stage::{SinkSources, SinkStage};
use crate::storage::arrivals::{Arrivals, Notes};
use crate::storage::row_store::RowStore;
use crate::storage::stored::Parsers;
use crate::watch::{self, WatchOptions, WatchStage};

/// What is the same wherever they run.
#[derive(Clone)]
pub struct LeasedWorkOptions {
    clock: Arc<dyn Clock>,
    parsers: Arc<Parsers>,
    memory: Arc<Budget>,
    query_limits: query::Limits,
    delay_s: u64,
    programs: ProgramOptions,
    sinks: Vec<SinkOptions>,
    alerts: AlertOptions,
    watch: WatchOptions,
    rejected: Arc<RejectedDocuments>,
}

impl LeasedWorkOptions {
    /// Those of a node.
    pub fn new(
        node: &NodeOptions,
        clock: &Arc<dyn Clock>,
        parsers: &Arc<Parsers>,
        memory: &Arc<Budget>,
    ) -> LeasedWorkOptions {
        LeasedWorkOptions {
            clock: Arc::clone(clock),
            parsers: Arc::clone(parsers),
            memory: Arc::clone(memory),
            query_limits: node.query.limits,
            delay_s: node.summary.flush_delay_s,
            programs: node.programs.clone(),
            sinks: node.sinks.clone(),
            alerts: node.alerts.clone(),
            watch: node.watch.clone(),
            rejected: Arc::new(RejectedDocuments::new(
                &node.data_dir().join(SINKS_FOLDER),
                &node.sinks,
            )),
        }
    }

    /// The documents that the destinations of this node's sinks rejected.
    pub fn rejected(&self) -> &Arc<RejectedDocuments> {
        &self.rejected
    }

    /// Parsers of frames.
    pub fn parsers(&self) -> &Arc<Parsers> {
        &self.parsers
    }
}

/// What they read, and where they keep what they need after a start.
pub struct LeasedWorkParts {
    /// The lines.
    pub lines: QueriedLines,
    /// Tells programs of new lines.
    pub notes: Arc<dyn Notes>,
    /// Whether the stage of programs looks for new lines by itself.
    pub notes_itself: bool,
    /// New lines, for one sink.
    pub arrivals: Arc<dyn Fn() -> Arc<dyn Arrivals> + Send + Sync>,
    /// Receives rows of programs, of alerts and of the watch.
    pub rows: Arc<dyn RowStore>,
    /// What is pending, the list of runs, and what the watch learnt.
    pub state: Arc<dyn Documents>,
    /// Programs that are saved over the API.
    pub programs: Arc<dyn Documents>,
    /// Cursors of sinks.
    pub cursors: Arc<dyn Documents>,
    /// Rule files of alerts that are saved over the API.
    pub alert_rules: Arc<dyn Documents>,
    /// States of alerts, and silences.
    pub alerts: Arc<dyn Documents>,
    /// Receivers of alerts that were made over the API.
    pub receivers: Arc<dyn Documents>,
}

/// Programs, sinks, alerts and the watch that run.
pub struct LeasedWork {
    /// Runs programs of users on lines, and stores their rows.
    pub programs: Arc<ProgramStage>,
    /// Deliver rows and lines to other systems.
    pub sinks: SinkStage,
    /// Evaluates alerts.
    pub alerts: AlertStage,
    /// Watches what stands out.
    pub watch: WatchStage,
    stages: Arc<Stages>,
    thread: StageThread,
}

impl LeasedWork {
    /// Starts all that are enabled. `stages` are told to stop by [`close`](Self::close).
    ///
    /// Errors: what they keep is damaged or cannot be read; a thread cannot be started.
    pub fn start(
        options: &LeasedWorkOptions,
        parts: LeasedWorkParts,
        stages: Arc<Stages>,
    ) -> Result<Arc<LeasedWork>> {
        let (lines, rows) = (parts.lines.clone(), Arc::clone(&parts.rows));
        let watch = watch::Parts {
            options: &options.watch,
            lines: lines.clone(),
            memory: &options.memory,
            query_limits: options.query_limits,
            rows: Arc::clone(&rows),
            state: Arc::clone(&parts.state),
            stages: &stages,
        };
        let programs = ProgramStage::open(Parts {
            stages: &stages,
            clock: &options.clock,
            parsers: &options.parsers,
            lines: parts.lines,
            notes: parts.notes,
            rows: parts.rows,
            memory: &options.memory,
            query_limits: options.query_limits,
            keep: parts.state,
            folder: parts.programs,
            delay_s: options.delay_s,
            options: &options.programs,
        })?;
        let programs = Arc::new(programs);
        let thread = program_stage::start(&programs, parts.notes_itself)?;
        let sources = SinkSources {
            arrivals: parts.arrivals,
            programs: Arc::clone(&programs),
            clock: Arc::clone(&options.clock),
            cursors: parts.cursors,
            rejected: Arc::clone(&options.rejected),
            stages: Arc::clone(&stages),
        };
        let sinks = SinkStage::start(&options.sinks, &sources)?;
        let alerts = AlertStage::start(alerts::Parts {
            options: &options.alerts,
            lines,
            memory: &options.memory,
            query_limits: options.query_limits,
            rows,
            rules: parts.alert_rules,
            state: parts.alerts,
            receivers: parts.receivers,
            stages: &stages,
        })?;
        let watch = WatchStage::start(watch)?;
        Ok(Arc::new(LeasedWork { programs, sinks, alerts, watch, stages, thread }))
    }

    /// Ends them. What is pending is computed, and what was not delivered is delivered, after the
    /// next start.
    pub fn close(&self) {
        self.stages.stop();
        self.watch.close();
        self.alerts.close();
        self.sinks.close();
        self.thread.join();
        self.programs.close();
    }
}

/// The place of work that comes and goes with its lease.
#[derive(Default)]
pub struct LeasedWorkSlot(RwLock<Option<Arc<LeasedWork>>>);

impl LeasedWorkSlot {
    /// The work that runs now.
    pub fn get(&self) -> Option<Arc<LeasedWork>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other work in, and returns what was there.
    pub fn set(&self, work: Option<Arc<LeasedWork>>) -> Option<Arc<LeasedWork>> {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), work)
    }
}
