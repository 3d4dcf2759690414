//! Carries out a share of a query over the lines of this node, for the side that gives the answer.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use record::{Batch, LineId, RowsWriter};

use super::carry_out;
use super::keyed_rows::encode_rows;
use crate::base::{Meter, Outcome, RunError, SourceError, TimeOrder, TimeRange, Whose};
use crate::block::Scratch;
use crate::exec::executor::{collect, execute};
use crate::exec::latest::narrowed;
use crate::exec::prepared;
use crate::exec::task::{ExecutionContext, RowsOut};
use crate::lang::context::Context;
use crate::lang::pipe::Pipe;
use crate::lang::source::{Hiding, ScanUnit, Share, SharePiece, Source, Wanted, misfit};
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

/// Bytes of lines that a side collects before it sends them.
const PIECE_BYTES: usize = 256 << 10;
/// Most bytes of the tree of a query per byte of its text, which a list of short values takes.
const TREE_FACTOR: usize = 32;
/// Units that a side searches before it says how far it is.
const UNITS_AT_ONCE: usize = 16;

/// Carries out a share over the lines of `source`, and calls `out` with its pieces until `out`
/// breaks. Of `context`, only the limits, the account, the restriction, and the means to cancel and
/// to pause are used.
///
/// Errors: those of queries; a share that does not fit its query.
pub fn answer_share(
    share: &Share,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let mut tree = context.meter();
    let query = parsed(share, &mut tree)?;
    let (query, mut context) = prepared(&query, source, context)?;
    let hiding = Hiding::of(source, &context.restriction);
    let source: &dyn Source = &hiding;
    context.range = share.range;
    // Rows of programs that later ones replaced: where each side has programs of its own.
    let execution = ExecutionContext::new(source, &context, carry_out);
    let (query, _) = narrowed(query, share.whose, &execution)?;
    drop(execution);
    context.oldest_first = share.oldest_first;
    context.include.clone_from(&share.include);
    (context.limit, context.offset) = (share.limit, 0);
    let row_wise = query.pipes().iter().all(Pipe::is_row_wise);
    match share.wanted {
        Wanted::State => {
            let plan = QueryPlan::new(&query, &context, share.whose);
            let place = plan.split_at().ok_or_else(misfit)?;
            let mut execution = ExecutionContext::new(source, &context, carry_out);
            let (stage, outcome) = collect(&plan, &execution, place)?;
            let state = query.pipes()[place].encode(&*stage, &mut execution.meter)?;
            let _ = out(SharePiece::State(state));
            Ok(outcome)
        }
        Wanted::NewestRows | Wanted::OrderedRows if row_wise => {
            context.order = (share.wanted == Wanted::OrderedRows)
                .then(|| TimeOrder { after: share.after, ..TimeOrder::default() });
            send_rows(&query, share.whose, source, &context, out)
        }
        Wanted::Lines if query.pipes().is_empty() => {
            context.limit = None;
            send_lines(&query, share.whose, source, &context, out)
        }
        _ => Err(misfit()),
    }
}

/// The query of a share. `tree` counts its memory, and is kept as long as the query.
pub(super) fn parsed(share: &Share, tree: &mut Meter) -> Result<Query, RunError> {
    // The tree of a long query is counted before it is made.
    tree.take(share.query.len().saturating_mul(TREE_FACTOR))?;
    Query::parse_share(&share.query).map_err(|error| {
        RunError::Failed(format!("the share of a query cannot be read: {}", error.message))
    })
}

/// Runs the query and sends its rows with their keys.
fn send_rows(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    send_encoded(context, out, |each| run_planned(query, whose, source, context, each))
}

/// Sends the rows that `run` calls its argument with. They have keys.
pub(super) fn send_encoded(
    context: &Context,
    out: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
    run: impl FnOnce(RowsOut<'_>) -> Result<Outcome, RunError>,
) -> Result<Outcome, RunError> {
    let mut meter = context.meter();
    let mut scratch = Scratch::default();
    let mut failed = None;
    let mut flow = ControlFlow::Continue(());
    let outcome =
        run(&mut |rows| match encode_rows(&rows, &context.include, &mut scratch, &mut meter) {
            Ok(pieces) => {
                for piece in pieces {
                    flow = out(SharePiece::Rows(piece));
                    if flow.is_break() {
                        break;
                    }
                }
                flow
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
    failed.map_or(Ok(outcome), Err)
}

/// Runs a query without queries in its filters, over the lines of `whose`.
fn run_planned(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    let execution = ExecutionContext::new(source, context, carry_out);
    execute(&QueryPlan::new(query, context, whose), &execution, 0, None, out)
}

/// Searches the units in parts and sends the lines that the filter selects.
fn send_lines(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let range = context.range.intersect(query.filter().time_range());
    let mut units = source.units(range, whose)?;
    let oldest = |unit: &dyn ScanUnit| unit.time_range_ns().map_or(i64::MIN, |times| times.0);
    let newest = |unit: &dyn ScanUnit| unit.time_range_ns().map_or(i64::MAX, |times| times.1);
    // Units are taken from the end.
    match context.oldest_first {
        true => units.sort_by_key(|unit| Reverse(oldest(&**unit))),
        false => units.sort_by_key(|unit| newest(&**unit)),
    }
    let progress = &context.progress;
    let planned = units.iter().map(|unit| unit.bytes()).sum();
    progress.bytes_planned.fetch_add(planned, Relaxed);
    let started = Instant::now();
    let mut total = Outcome::default();
    let mut writer = RowsWriter::default();
    while !units.is_empty() {
        context.check(started)?;
        let part = units.split_off(units.len().saturating_sub(UNITS_AT_ONCE));
        let rest = units.last().map(|unit| match context.oldest_first {
            true => oldest(&**unit),
            false => newest(&**unit),
        });
        // While this part is being sent, later lines may be as far as the farthest of its units.
        let within = part.iter().map(|unit| match context.oldest_first {
            true => oldest(&**unit),
            false => newest(&**unit),
        });
        let within = if context.oldest_first { within.min() } else { within.max() };
        let part = Part { units: Mutex::new(Some(part)), source };
        let mut flow = ControlFlow::Continue(());
        let inner = Context { progress: Arc::default(), ..context.clone() };
        let outcome = run_planned(query, whose, &part, &inner, &mut |rows| {
            for index in 0..rows.len() {
                let (batch, place) = rows.line(index).expect("there is no pipe");
                let row = batch.row(place as usize);
                if !writer.push(batch, &row) {
                    flow = out(SharePiece::Lines(writer.take(), within));
                    writer.push(batch, &row);
                }
                if writer.bytes() >= PIECE_BYTES && flow.is_continue() {
                    flow = out(SharePiece::Lines(writer.take(), within));
                }
                if flow.is_break() {
                    break;
                }
            }
            flow
        })?;
        let scanned = inner.progress.bytes_scanned.load(Relaxed);
        progress.bytes_scanned.fetch_add(scanned, Relaxed);
        total.lines_scanned += outcome.lines_scanned;
        total.units_skipped += outcome.units_skipped;
        total.units_gone += outcome.units_gone;
        if flow.is_continue() && writer.rows() > 0 {
            flow = out(SharePiece::Lines(writer.take(), rest));
        }
        if flow.is_break() {
            total.stopped = true;
            break;
        }
    }
    Ok(total)
}

/// Some units of a source.
struct Part<'s> {
    units: Mutex<Option<Vec<Box<dyn ScanUnit>>>>,
    source: &'s dyn Source,
}

impl Source for Part<'_> {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let mut units = self.units.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(units.take().unwrap_or_default())
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        self.source.find(id)
    }
}
