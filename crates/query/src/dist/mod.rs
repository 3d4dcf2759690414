//! Runs queries over the lines of this node, or over those of several ones.
//!
//! A query runs in two parts where that is possible: one where the lines are ([`partial`]), one
//! where the answer is given. Where the lines of a source are on other nodes, each carries out a
//! [share](share) of the query, and [`sides`] puts together what they send. With many of them, some
//! put together what others send ([`relay`]).
//!
//! `exec` does not know this folder. The queries inside a query get here through the function
//! [`carry_out`] in their execution context.

mod keyed_rows;
pub(crate) mod partial;
mod relay;
mod share;
mod sides;
#[cfg(test)]
mod together;

use std::ops::ControlFlow;

use crate::base::{Outcome, RunError};
use crate::exec::executor::execute;
use crate::exec::task::{ExecutionContext, RowsOut};
use crate::exec::{ResultRows, prepared, run_in};
use crate::lang::context::Context;
use crate::lang::source::{Hiding, Source};
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

pub use partial::{PartialState, run_merged, run_partial};
pub use relay::relay_share;
pub use share::answer_share;

/// Runs `query` over `source` and calls `out` with its rows; `out` ends the query by breaking.
pub fn run(
    query: &Query,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(ResultRows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let (query, context) = prepared(query, source, context)?;
    let source = Hiding::of(source, &context.restriction);
    run_in(&query, &ExecutionContext::new(&source, &context, carry_out), out)
}

/// Carries out a plan over the sides of the source, or over its own lines where it has no sides.
fn carry_out(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    lines_before: u64,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    match execution.source.sides() {
        Some(sides) => sides::run_over_sides(plan, execution, sides, lines_before, out),
        None => execute(plan, execution, lines_before, None, out),
    }
}
