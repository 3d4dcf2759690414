//! The programs, sinks and alerts that run on this node. On one machine they run as long as the
//! server; in a cluster, on the node that has their lease, as long as it has it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Result;
use platform::Clock;
use platform::memory::Budget;

use crate::alerts::{self, AlertStage};
use crate::cluster::Lines;
use crate::config::Config;
use crate::config::alerts::AlertOptions;
use crate::process::stages::{StageThread, Stages};
use crate::programs::stage::{self as program_stage, Parts, ProgramOptions, ProgramStage};
use crate::sinks::config::SinkOptions;
use crate::sinks::cursor_file;
use crate::sinks::stage::{SinkSources, SinkStage};
use crate::storage::arrivals::{Arrivals, Notes};
use crate::storage::keep::Keep;
use crate::storage::row_store::RowStore;
use crate::storage::stored::Parsers;

/// What is the same wherever they run.
#[derive(Clone)]
pub struct WorkOptions {
    clock: Arc<dyn Clock>,
    parsers: Arc<Parsers>,
    memory: Arc<Budget>,
    query_limits: query::Limits,
    delay_s: u64,
    programs: ProgramOptions,
    sinks: Vec<SinkOptions>,
    alerts: AlertOptions,
    rejected_dir: PathBuf,
}

impl WorkOptions {
    /// Those of a configuration.
    pub fn new(
        config: &Config,
        clock: &Arc<dyn Clock>,
        parsers: &Arc<Parsers>,
        memory: &Arc<Budget>,
    ) -> WorkOptions {
        WorkOptions {
            clock: Arc::clone(clock),
            parsers: Arc::clone(parsers),
            memory: Arc::clone(memory),
            query_limits: config.query.limits,
            delay_s: config.summary.flush_delay_s,
            programs: config.programs.clone(),
            sinks: config.sinks.clone(),
            alerts: config.alerts.clone(),
            rejected_dir: config.data_dir.join(cursor_file::FOLDER),
        }
    }

    /// Parsers of frames.
    pub fn parsers(&self) -> &Arc<Parsers> {
        &self.parsers
    }
}

/// What they read, and where they keep what they need after a start.
pub struct WorkPlace {
    /// The lines.
    pub lines: Lines,
    /// Tells programs of new lines.
    pub notes: Arc<dyn Notes>,
    /// Whether the stage of programs looks for new lines by itself.
    pub notes_itself: bool,
    /// New lines, for one sink.
    pub arrivals: Arc<dyn Fn() -> Arc<dyn Arrivals> + Send + Sync>,
    /// Receives rows of programs and of alerts.
    pub rows: Arc<dyn RowStore>,
    /// What is pending, and the list of runs.
    pub state: Arc<dyn Keep>,
    /// Programs that are saved over the API.
    pub programs: Arc<dyn Keep>,
    /// Cursors of sinks.
    pub cursors: Arc<dyn Keep>,
    /// Rule files of alerts that are saved over the API.
    pub alert_rules: Arc<dyn Keep>,
    /// States of alerts, and silences.
    pub alerts: Arc<dyn Keep>,
}

/// Programs, sinks and alerts that run.
pub struct Workers {
    /// Runs programs of users on lines, and stores their rows.
    pub programs: Arc<ProgramStage>,
    /// Deliver rows and lines to other systems.
    pub sinks: SinkStage,
    /// Evaluates alerts.
    pub alerts: AlertStage,
    stages: Arc<Stages>,
    thread: StageThread,
}

impl Workers {
    /// Starts all that are enabled. `stages` are told to stop by [`close`](Self::close).
    ///
    /// Errors: what they keep is damaged or cannot be read; a thread cannot be started.
    pub fn start(
        options: &WorkOptions,
        place: WorkPlace,
        stages: Arc<Stages>,
    ) -> Result<Arc<Workers>> {
        let (lines, rows) = (place.lines.clone(), Arc::clone(&place.rows));
        let programs = ProgramStage::open(Parts {
            stages: &stages,
            clock: &options.clock,
            parsers: &options.parsers,
            lines: place.lines,
            notes: place.notes,
            rows: place.rows,
            memory: &options.memory,
            query_limits: options.query_limits,
            keep: place.state,
            folder: place.programs,
            delay_s: options.delay_s,
            options: &options.programs,
        })?;
        let programs = Arc::new(programs);
        let thread = program_stage::start(&programs, place.notes_itself)?;
        let sources = SinkSources {
            arrivals: place.arrivals,
            programs: Arc::clone(&programs),
            clock: Arc::clone(&options.clock),
            cursors: place.cursors,
            rejected_dir: options.rejected_dir.clone(),
            stages: Arc::clone(&stages),
        };
        let sinks = SinkStage::start(&options.sinks, &sources)?;
        let alerts = AlertStage::start(alerts::Parts {
            options: &options.alerts,
            lines,
            memory: &options.memory,
            query_limits: options.query_limits,
            rows,
            rules: place.alert_rules,
            state: place.alerts,
            stages: &stages,
        })?;
        Ok(Arc::new(Workers { programs, sinks, alerts, stages, thread }))
    }

    /// Ends them. What is pending is computed, and what was not delivered is delivered, after the
    /// next start.
    pub fn close(&self) {
        self.stages.stop();
        self.alerts.close();
        self.sinks.close();
        self.thread.join();
        self.programs.close();
    }
}

/// The place of workers that come and go.
#[derive(Default)]
pub struct WorkersSlot(RwLock<Option<Arc<Workers>>>);

impl WorkersSlot {
    /// Those that run now.
    pub fn get(&self) -> Option<Arc<Workers>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts others in, and returns those that were there.
    pub fn set(&self, workers: Option<Arc<Workers>>) -> Option<Arc<Workers>> {
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), workers)
    }
}
