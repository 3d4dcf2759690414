//! Runs a query: units of the source through the filter and the pipes to the client.
//!
//! Units are read and filtered newest first by some threads ([`scan`]), and the query's own thread
//! pushes blocks of rows through the chain of pipes. With a limit and no pipe that makes rows of
//! its own, the newest rows come, newest first, and units that cannot hold newer ones are not read.
//! Without a limit rows are sent on unit by unit, in bounded memory.
//!
//! Where the first pipe that collects rows can be merged with another of its kind, each thread has
//! one of its own, and the pipes before it, and they are merged when all units are read.
//!
//! In the order of time, rows come oldest first, line by line, and can be gone on behind any of
//! them ([`ordered`]).
//!
//! All of that is decided in the [plan](crate::plan) of the query; here it is carried out
//! ([`executor`]), in an [execution context](execution).
//!
//! Limits: time, memory of what the pipes collect, rows sent. They and cancelling are checked
//! before each unit, within the columns of one, and at least every [`CHECK_ROWS`] rows that a pipe
//! holds or sends.

pub(crate) mod answers;
mod context;
mod deferred_drop;
mod delivery;
mod execution;
mod executor;
mod meter;
mod newest;
pub(crate) mod ordered;
mod parallel;
mod partial;
pub(crate) mod queue;
mod rows;
mod scan;
mod sharing;
pub(crate) mod sorted;
mod subquery;
pub(crate) mod tail;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use crate::plan::Plan;
use crate::plan::explain::Explanation;
use crate::source::Source;
use crate::syntax::query::Query;

pub use context::{Context, Limits, Progress, RunError};
use execution::ExecutionContext;
pub(crate) use execution::Next;
pub(crate) use meter::Held;
pub use meter::{Account, Buffer, Meter};
pub(crate) use parallel::{in_parallel, with_helpers};
pub use partial::{PartialState, run_merged, run_partial};
pub use rows::Rows;

/// Rows between two looks at the clock and at whether the query is cancelled.
pub const CHECK_ROWS: usize = 4_096;

/// What a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows sent.
    pub rows: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Units that were not read because they hold none of the words asked for.
    pub units_skipped: u64,
    /// Units that retention deleted while the query ran.
    pub units_gone: u64,
    /// The client wanted no more.
    pub stopped: bool,
}

/// Runs `query` over `source` and calls `out` with its rows; `out` ends the query by breaking.
pub fn run(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let context = &query.options().applied_to(context);
    let restricted = restricted(query, context)?;
    let query = restricted.as_ref().unwrap_or(query);
    let meter = Meter::new(context);
    let execution = ExecutionContext { source, context, started: Instant::now(), meter };
    run_in(query, &execution, out)
}

/// Says what [`run`] would do with the same arguments, without reading lines: of the store, only
/// the units are listed. Queries inside its filters are not run, so the plan is that without their
/// values.
pub fn explain(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> Result<Explanation, RunError> {
    let context = &query.options().applied_to(context);
    let restricted = restricted(query, context)?;
    let query = restricted.as_ref().unwrap_or(query);
    let whose = query.filter().whose();
    Explanation::new(&Plan::new(query, context, whose), source, context)
}

/// The query with the filter that the context has for it, if it has one.
fn restricted(query: &Query, context: &Context) -> Result<Option<Query>, RunError> {
    let restricted = context.restriction.as_deref().map(|to| query.restricted(to)).transpose();
    restricted.map_err(|error| RunError::Failed(error.message))
}

/// Runs a query that is inside another one, over the same range of times and within what is left of
/// the other's time and memory. All its rows are given, however many.
fn run_within(
    query: &Query,
    outer: &ExecutionContext<'_>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    // What the outer query's options say holds for those inside it too.
    let applied = query.options().applied_to(outer.context);
    let context = Context {
        limit: None,
        offset: 0,
        limits: Limits { rows_max: u64::MAX, ..applied.limits },
        // How far it is, says nothing of the query that people see.
        progress: Arc::default(),
        ..applied
    };
    run_in(query, &ExecutionContext { context: &context, ..outer.clone() }, out)
}

fn run_in(
    query: &Query,
    execution: &ExecutionContext<'_>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    // What a query inside its filter gives names nothing.
    let whose = query.filter().whose();
    let (query, lines_before) = subquery::fill(query, execution)?;
    let plan = Plan::new(&query, execution.context, whose);
    executor::execute(&plan, execution, lines_before, out)
}

/// Calls `with` with the stages behind a last pipe, for tests of single pipes.
#[cfg(test)]
pub(crate) fn with_next<T>(with: impl FnOnce(&mut Next<'_, '_>) -> T) -> (T, Vec<Rows>) {
    use crate::plan::Order;
    use crate::source::Whose;

    let mut sent = Vec::new();
    let context = Context::default();
    let nothing = crate::testing::Memory::new(Vec::new());
    let result = {
        let mut out = |rows| {
            sent.push(rows);
            ControlFlow::Continue(())
        };
        let (started, meter) = (Instant::now(), Meter::new(&context));
        let mut task = execution::Task {
            execution: ExecutionContext { source: &nothing, context: &context, started, meter },
            range: context.range,
            whose: Whose::Sent,
            outcome: Outcome::default(),
            unit: 0,
        };
        let mut delivery = delivery::Delivery::new(&Order::Stream, &context, &mut out);
        with(&mut Next { rest: &mut [], task: &mut task, delivery: Some(&mut delivery) })
    };
    (result, sent)
}
