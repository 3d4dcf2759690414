//! Runs a query: passes units of the source through the filter and the pipes to the client.
//!
//! Several threads read and filter units, newest first ([`scan`]). The query's own thread pushes
//! blocks of rows through the chain of pipes. With a limit and no pipe that makes rows of its own,
//! the client gets the newest rows, newest first, and units that cannot hold newer rows are not
//! read. Without a limit, rows are sent unit by unit, in bounded memory.
//!
//! Where the first collecting pipe can be merged with another instance of itself, each thread has
//! its own instance, with its own copies of the pipes before it. The instances are merged after all
//! units have been read.
//!
//! In order of time, rows come oldest first, line by line, and reading can resume behind any of
//! them ([`ordered`]).
//!
//! The [plan](crate::plan) of the query decides all of that. The [`executor`] carries it out, in an
//! [execution context](execution).
//!
//! Limits: time, memory collected by the pipes, rows sent. The limits and cancellation are checked
//! before each unit, within the columns of a unit, and at least every [`CHECK_ROWS`] rows that a
//! pipe holds or sends.

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
mod sides;
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
use crate::source::{Source, Whose};
use crate::syntax::query::Query;

pub use context::{Context, Limits, Progress, RunError};
use execution::ExecutionContext;
pub(crate) use execution::Next;
pub(crate) use meter::Held;
pub use meter::{Account, Buffer, Meter};
pub(crate) use parallel::{in_parallel, with_helpers};
pub use partial::{PartialState, run_merged, run_partial};
pub use rows::Rows;
pub use sides::{Piece, Pieces, Share, Sides, Wanted, answer_share};

/// Rows between two checks of the time limit and of cancellation.
pub const CHECK_ROWS: usize = 4_096;

/// Counts what a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows sent.
    pub rows: u64,
    /// Lines read.
    pub lines_scanned: u64,
    /// Units that were skipped because they hold none of the words that the filter needs.
    pub units_skipped: u64,
    /// Units that retention deleted while the query ran.
    pub units_gone: u64,
    /// The client stopped the query.
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

/// Describes what [`run`] would do with the same arguments, without reading lines: only the units
/// of the store are listed. Queries inside the filters are not run, so the plan lacks their values.
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

/// The query with the restriction of the context added; none where the context has no restriction.
fn restricted(query: &Query, context: &Context) -> Result<Option<Query>, RunError> {
    let restricted = context.restriction.as_deref().map(|to| query.restricted(to)).transpose();
    restricted.map_err(|error| RunError::Failed(error.message))
}

/// Runs a query that is inside another one, over the same time range and within the time and memory
/// that the outer query has left. All its rows are given, without a limit.
fn run_within(
    query: &Query,
    outer: &ExecutionContext<'_>,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    // The options of the outer query hold for the queries inside it too.
    let applied = query.options().applied_to(outer.context);
    let context = Context {
        limit: None,
        offset: 0,
        limits: Limits { rows_max: u64::MAX, ..applied.limits },
        // The list of queries shows the progress of the outer query only.
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
    // The values that queries inside the filter give do not count as named types.
    let whose = query.filter().whose();
    let (query, lines_before) = subquery::fill(query, execution)?;
    let plan = Plan::new(&query, execution.context, whose);
    match execution.source.sides() {
        Some(sides) => sides::run(&plan, execution, sides, lines_before, out),
        None => executor::execute(&plan, execution, lines_before, None, out),
    }
}

/// Runs a query without queries in its filters, over the lines of `whose`.
fn run_planned(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let meter = Meter::new(context);
    let execution = ExecutionContext { source, context, started: Instant::now(), meter };
    let plan = Plan::new(query, context, whose);
    executor::execute(&plan, &execution, 0, None, out)
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
