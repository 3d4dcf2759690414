//! What the caller passes to a run besides the query.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::restriction::Restriction;
use super::source::Tables;
#[cfg(doc)]
use super::syntax::query::Query;
use crate::base::{
    Account, DamagedUnit, Damages, Hold, Limits, Meter, Progress, RunError, TimeOrder, TimeRange,
    Watch, may_continue,
};

/// The arguments of a run besides the query.
#[derive(Clone, Debug)]
pub struct Context {
    /// Range of event times; the query's own `_time` narrows it further.
    pub range: TimeRange,
    /// Send only this many rows: the newest lines, or the first rows where a pipe makes the rows.
    pub limit: Option<usize>,
    /// Rows to skip before `limit` applies.
    pub offset: usize,
    /// Read the oldest units first. A limit then keeps the rows that are read first.
    pub oldest_first: bool,
    /// Send rows in order of time, the oldest first; a limit then keeps the oldest. Where a pipe
    /// makes rows of its own, this only makes the oldest units be read first.
    pub order: Option<TimeOrder>,
    /// Computed fields to add to rows that are lines: `_line_id`, `_line`, `_received`.
    pub include: Vec<String>,
    /// What the query may see, whatever it selects. See [`Query::restricted`].
    pub restriction: Restriction,
    /// Whether rows of programs are read that later ones replaced.
    pub all_revisions: bool,
    /// The tables that `lookup` reads; none: those of the source.
    pub tables: Option<Arc<dyn Tables>>,
    /// Resources that the query may use.
    pub limits: Limits,
    /// Counts the memory of the query and of whatever assembles its answer.
    pub account: Arc<Account>,
    /// Receives the damaged units that the query passes over; none: a damaged unit is an error.
    pub damages: Option<Arc<Damages>>,
    /// Receives the progress.
    pub progress: Arc<Progress>,
    /// Set by others to cancel the query.
    pub cancelled: Arc<AtomicBool>,
    /// Lets others pause the query.
    pub hold: Hold,
}

impl Context {
    /// Counts memory in the account of the query, up to its limit. The meter checks that a query
    /// that begins now may continue.
    pub fn meter(&self) -> Meter {
        self.meter_since(Instant::now())
    }

    /// As [`Context::meter`], for a query that began at `started`.
    pub fn meter_since(&self, started: Instant) -> Meter {
        let bytes_max = self.limits.memory_bytes_max;
        Meter::new(&self.account, bytes_max, &self.progress, self.watch(started))
    }

    pub(crate) fn watch(&self, started: Instant) -> Watch {
        let (cancelled, hold) = (Arc::clone(&self.cancelled), self.hold.clone());
        Watch { started, run_time: self.limits.run_time, cancelled, hold }
    }

    /// Passes over a damaged unit, if the caller takes an answer without it.
    pub(crate) fn pass_over(&self, unit: DamagedUnit) -> Result<(), RunError> {
        match &self.damages {
            Some(damages) if damages.add(&unit) => Ok(()),
            _ => Err(RunError::Damaged(unit)),
        }
    }

    /// Checks that a query that began at `started` may continue: not cancelled, within its time
    /// limit. Blocks while the query is paused.
    pub fn check(&self, started: Instant) -> Result<(), RunError> {
        may_continue(started, self.limits.run_time, &self.cancelled, &self.hold)
    }
}

impl Default for Context {
    fn default() -> Self {
        Context {
            range: TimeRange::ALL,
            limit: None,
            offset: 0,
            oldest_first: false,
            order: None,
            include: Vec::new(),
            restriction: Restriction::default(),
            all_revisions: false,
            tables: None,
            limits: Limits::default(),
            account: Arc::default(),
            damages: None,
            progress: Arc::default(),
            cancelled: Arc::default(),
            hold: Hold::default(),
        }
    }
}
