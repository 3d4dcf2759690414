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
//! [execution context](task).
//!
//! Limits: time, memory collected by the pipes, rows sent. The limits and cancellation are checked
//! before each unit, within the columns of a unit, and at least every
//! [`CHECK_ROWS`](crate::base::CHECK_ROWS) rows that a pipe holds or sends.

mod counting;
mod deferred_drop;
pub(crate) mod delivery;
pub(crate) mod executor;
pub(crate) mod explain;
mod facets;
mod first_rows;
pub(crate) mod latest;
mod newest;
mod ordered;
pub(crate) mod queue;
mod rollups;
mod rows;
mod scan;
mod subquery;
pub(crate) mod tail;
pub(crate) mod task;
#[cfg(test)]
mod tests;
mod vectors;
mod words;

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::{Limits, Outcome, RunError, TimeOrder};
use crate::lang::context::Context;
use crate::lang::source::{Hiding, Source};
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

pub use rows::ResultRows;
use task::{ExecutionContext, RowsOut};

/// The query with the restriction of its context, and the context as the options of the query
/// change it. Each query that a caller gives passes here.
pub(crate) fn prepared<'q>(
    query: &'q Query,
    source: &dyn Source,
    context: &Context,
) -> Result<(Cow<'q, Query>, Context), RunError> {
    let mut context = query.options().applied_to(context);
    context.tables = context.tables.or_else(|| source.tables());
    let restricted =
        context.restriction.filter.as_deref().map(|to| query.restricted(to)).transpose();
    let restricted = restricted.map_err(|error| RunError::Restricted(error.message))?;
    let query = with_tables(restricted.map_or(Cow::Borrowed(query), Cow::Owned), &context)?;
    Ok((query, context))
}

/// The query with the tables that it looks values up in.
fn with_tables<'q>(query: Cow<'q, Query>, context: &Context) -> Result<Cow<'q, Query>, RunError> {
    if !query.has_lookups() {
        return Ok(query);
    }
    let mut query = query.into_owned();
    query.bind_tables(context.tables.as_deref()).map_err(RunError::NoTable)?;
    Ok(Cow::Owned(query))
}

/// Runs a query that is inside another one, over the same time range and within the time and memory
/// that the outer query has left. All its rows are given, without a limit.
fn run_within(
    query: &Query,
    outer: &ExecutionContext<'_>,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    // The options of the outer query hold for the queries inside it too.
    let applied = query.options().applied_to(outer.context);
    // A row behind which the outer query resumes, and lines that an earlier answer had, are left
    // out of its own rows alone.
    let order = applied.order.map(|order| TimeOrder { after: None, since: None, ..order });
    let context = Context {
        limit: None,
        offset: 0,
        order,
        limits: Limits { rows_max: u64::MAX, ..applied.limits },
        // The list of queries shows the progress of the outer query only.
        progress: Arc::default(),
        ..applied
    };
    let query = with_tables(Cow::Borrowed(query), &context)?;
    let source = Hiding::of(outer.source, &context.restriction);
    run_in(&query, &ExecutionContext { source: &source, context: &context, ..outer.clone() }, out)
}

/// Runs the queries inside the filters of a query, plans it, and has the plan carried out.
pub(crate) fn run_in(
    query: &Query,
    execution: &ExecutionContext<'_>,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    // The values that queries inside the filter give do not count as named types.
    let whose = query.filter().whose();
    let (query, filled_lines) = subquery::fill(query, execution)?;
    let (query, lines) = latest::narrowed(query, whose, execution)?;
    let lines_before = filled_lines + lines;
    let plan = QueryPlan::new(&query, execution.context, whose);
    (execution.carry_out)(&plan, execution, lines_before, out)
}
