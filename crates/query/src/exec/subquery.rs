//! Runs the queries inside the filters of a query, and replaces them by the values they give.
//!
//! The queries run one after the other, before the outer query, each within the time and memory
//! that are left of it. Their values count as memory of the outer query until it ends.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::run_within;
use super::task::ExecutionContext;
use crate::base::RunError;
use crate::block::Scratch;
use crate::lang::filter::{Filter, Subquery, SubqueryTest};
use crate::lang::syntax::query::Query;

/// Most different values for `contains_any` and `contains_all`, each of which is searched for in
/// every row. Beyond it the query fails with [`RunError::ValuesLimit`]. Values for `in` take a
/// single lookup per row and are bounded by memory only.
const PHRASES_MAX: usize = 10_000;

/// Approximate memory of a value besides its bytes.
const VALUE_BYTES: usize = 64;

/// Returns the query with values in place of the queries in its filters, and the number of lines
/// that were read for them.
pub(crate) fn fill<'q>(
    query: &'q Query,
    execution: &ExecutionContext<'_>,
) -> Result<(Cow<'q, Query>, u64), RunError> {
    let mut filled = Cow::Borrowed(query);
    let mut lines = 0;
    if query.has_subqueries() {
        for filter in filled.to_mut().filters_mut() {
            fill_filter(filter, execution, &mut lines)?;
        }
    }
    Ok((filled, lines))
}

fn fill_filter(
    filter: &mut Filter,
    execution: &ExecutionContext<'_>,
    lines: &mut u64,
) -> Result<(), RunError> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter_mut().try_for_each(|f| fill_filter(f, execution, lines))
        }
        Filter::Not(inner) => fill_filter(inner, execution, lines),
        Filter::Subquery(subquery) => {
            *filter = subquery.filled(values(subquery, execution, lines)?);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The different values that the query of a filter gives.
fn values(
    subquery: &Subquery,
    execution: &ExecutionContext<'_>,
    lines: &mut u64,
) -> Result<BTreeSet<String>, RunError> {
    let field = subquery.value_field();
    let is_list = subquery.test == SubqueryTest::In;
    let most = if is_list { usize::MAX } else { PHRASES_MAX };
    // Each phrase becomes a filter that holds the name of the field.
    let name_bytes = if is_list { 0 } else { subquery.field.name.len() };
    let mut values = BTreeSet::new();
    let mut scratch = Scratch::default();
    let mut meter = execution.meter.clone();
    let mut failed = None;
    let outcome = run_within(&subquery.query, execution, &mut |rows| {
        for index in 0..rows.len() {
            let value = rows.get(index, &field, &mut scratch);
            let Ok(value) = std::str::from_utf8(value) else { continue };
            if values.contains(value) {
                continue;
            }
            let counted = match values.len() == most {
                true => Err(RunError::ValuesLimit(most)),
                false => meter.take(value.len() + name_bytes + VALUE_BYTES),
            };
            if let Err(error) = counted {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            values.insert(value.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    *lines += outcome.lines_scanned;
    failed.map_or(Ok(values), Err)
}
