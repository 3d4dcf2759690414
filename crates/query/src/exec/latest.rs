//! Leaves out the rows of programs that later rows replaced.
//!
//! Rows are never taken back: a bucket that is computed again gets rows of a greater revision. A
//! query that reads rows of programs therefore first reads which revisions there are, over the
//! same lines and a little more time, asks the source which of them count ([`Revisions`]), and
//! gets a filter that leaves out the others. The filter is a part of the query from there on: in
//! shares for other nodes as well. A row without content, which says that a bucket has no rows, is
//! left out too.
//!
//! Naive, and exact in every state of the store. Other queries pay nothing, and queries with the
//! option `all_revisions` neither.
//!
//! [`Revisions`]: crate::lang::source::Revisions

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use record::batch::OWN_TYPES;
use text::time::parse_timestamp;

use super::run_in;
use super::task::ExecutionContext;
use crate::base::{Limits, RunError, TimeRange, Whose};
use crate::block::Scratch;
use crate::lang::context::Context;
use crate::lang::filter::{Filter, Test};
use crate::lang::restriction::Restriction;
use crate::lang::source::Revision;
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

/// The revisions of all programs.
const REVISIONS: &str = "options(all_revisions=true) _type:=summary program:* revision:* \
                         | stats by (program, revision, _time, bucket_s, run) count() lines";
/// Rows that only say that a bucket has none.
const EMPTY: &str = "_type:=summary program:* revision:* -row:*";
/// The widest bucket of a program: a bucket that overlaps the range of a query begins at most this
/// long before it.
const WIDTH_MAX_NS: i64 = 3_600_000_000_000;
/// Approximate memory of a revision besides the name of its program.
const REVISION_BYTES: usize = 128;

/// The query without rows of programs that do not count, and the number of lines that were read to
/// know them.
pub(crate) fn narrowed<'q>(
    query: Cow<'q, Query>,
    whose: Whose,
    execution: &ExecutionContext<'_>,
) -> Result<(Cow<'q, Query>, u64), RunError> {
    let context = execution.context;
    if whose != Whose::All || context.all_revisions || !query.filter().names_summary() {
        return Ok((query, 0));
    }
    let Some(revisions) = execution.source.revisions() else { return Ok((query, 0)) };
    let range = QueryPlan::new(&query, context, whose).range;
    let (found, lines) = revisions_in(range, execution)?;
    let counting = revisions.counting(&found)?;
    let empty = parsed(EMPTY).filter().clone();
    let stale = found.into_iter().zip(counting);
    let mut left_out = vec![empty];
    left_out.extend(stale_filters(stale));
    let left_out = left_out.into_iter().map(|filter| Filter::Not(Box::new(filter)));
    let filter = std::iter::once(query.filter().clone()).chain(left_out);
    let narrowed = Query::new(Filter::and(filter.collect()), query.pipes().to_vec());
    Ok((Cow::Owned(narrowed.with_options(query.options())), lines))
}

fn parsed(text: &str) -> Query {
    Query::parse(text, 0).expect("the text is a query")
}

/// The revisions of buckets that begin in the range or overlap such buckets.
fn revisions_in(
    range: TimeRange,
    outer: &ExecutionContext<'_>,
) -> Result<(Vec<Revision>, u64), RunError> {
    let context = Context {
        range: TimeRange {
            start_ns: range.start_ns.saturating_sub(WIDTH_MAX_NS),
            end_ns: range.end_ns.saturating_add(WIDTH_MAX_NS),
        },
        limit: None,
        offset: 0,
        order: None,
        include: Vec::new(),
        restriction: Restriction::default(),
        all_revisions: true,
        limits: Limits { rows_max: u64::MAX, ..outer.context.limits },
        // The list of queries shows the progress of the outer query only.
        progress: Arc::default(),
        ..outer.context.clone()
    };
    let execution = ExecutionContext { context: &context, ..outer.clone() };
    let (mut found, mut scratch) = (Vec::new(), Scratch::default());
    let mut meter = outer.meter.clone();
    let mut failed = None;
    let outcome = run_in(&parsed(REVISIONS), &execution, &mut |rows| {
        for index in 0..rows.len() {
            let mut text = |name| {
                let value = rows.get(index, name, &mut scratch);
                String::from_utf8_lossy(value).into_owned()
            };
            let start_ns = parse_timestamp(text("_time").as_bytes());
            let (width_s, number) = (text("bucket_s").parse(), text("revision").parse());
            // What is no row of a program has no revision to be replaced.
            let (Some(start_ns), Ok(width_s), Ok(number)) = (start_ns, width_s, number) else {
                continue;
            };
            let (program, is_of_run) = (text("program"), !text("run").is_empty());
            if let Err(error) = meter.take(program.len() + REVISION_BYTES) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            found.push(Revision { program, number, start_ns, width_s, is_of_run });
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok((found, outcome.lines_scanned)), Err)
}

/// Filters that together select the rows that do not count.
fn stale_filters(revisions: impl Iterator<Item = (Revision, bool)>) -> Vec<Filter> {
    let mut by_number: BTreeMap<(String, u64), Vec<(i64, bool)>> = BTreeMap::new();
    for (revision, counts) in revisions {
        let key = (revision.program, revision.number);
        by_number.entry(key).or_default().push((revision.start_ns, counts));
    }
    let field = |name: &str, test| Filter::Field { name: name.to_owned(), test };
    // Lines that were sent may have fields of these names.
    let of_program = |program: String| {
        let of_type = field("_type", Test::Exact(OWN_TYPES[0].to_owned()));
        Filter::and(vec![of_type, field("program", Test::Exact(program))])
    };
    let mut filters = Vec::new();
    let mut whole: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((program, number), mut starts) in by_number {
        if starts.iter().all(|(_, counts)| !counts) {
            whole.entry(program).or_default().push(number.to_string());
            continue;
        }
        // Of a run over the past, a later run may have replaced some buckets.
        starts.sort_unstable();
        for stale in starts.chunk_by(|a, b| a.1 == b.1).filter(|chunk| !chunk[0].1) {
            let (start_ns, last_ns) = (stale[0].0, stale[stale.len() - 1].0);
            let range = TimeRange { start_ns, end_ns: last_ns.saturating_add(1) };
            filters.push(Filter::and(vec![
                of_program(program.clone()),
                field("revision", Test::Exact(number.to_string())),
                Filter::Time(range),
            ]));
        }
    }
    filters.extend(whole.into_iter().map(|(program, numbers)| {
        Filter::and(vec![of_program(program), field("revision", Test::In(numbers))])
    }));
    filters
}
