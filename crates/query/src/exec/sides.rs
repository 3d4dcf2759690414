//! Queries over lines that are on several sides: other nodes, each with lines of its own.
//!
//! A side carries out its [`Share`] of a query ([`answer_share`]) and sends [`Piece`]s. The side
//! that gives the answer begins the shares through the trait [`Sides`], and puts the pieces
//! together ([`run`]). What a side sends depends on the query:
//!
//! - Where the first pipe that is not row-wise has partial states that can be merged, each side
//!   sends its state.
//! - Where rows come in order of time, or the newest ones are wanted, each side sends its rows in
//!   that order, each with its key. Reading them together keeps the order.
//! - Otherwise each side sends the lines that the filter selects, and the whole query runs over
//!   those.
//!
//! The answer is that of one source with all lines, with the differences that [`super::partial`]
//! names.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use record::{Batch, LineId, RowsWriter, read_rows};

use super::context::{Context, RunError};
use super::delivery::Delivery;
use super::execution::{ExecutionContext, Task};
use super::executor::{collect, execute, finish_merged};
use super::meter::Meter;
use super::ordered::{RowKey, TimeOrder};
use super::rows::Rows;
use super::{Outcome, run_planned};
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow, Scratch};
use crate::pipe::{Decoder, Encoder, wrong_state};
use crate::plan::{Order, Plan};
use crate::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use crate::syntax::query::{Query, SHARE_BYTES_MAX};

/// Bytes of lines or rows that a side collects before it sends them.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the tree of a query for each byte of its text, at most: a list of short values.
const TREE_FACTOR: usize = 32;
/// Units that a side searches before it says how far it is.
const UNITS_AT_ONCE: usize = 16;
/// Stands for the fingerprint of a pipe in rows, which no pipe made.
const ROWS_FINGERPRINT: u64 = 0x726f_7773;

/// What a side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The partial state of the first pipe that is not row-wise, once.
    State,
    /// The newest rows, newest first, each with its key. All pipes are row-wise.
    NewestRows,
    /// All rows in order of time, each with its key. All pipes are row-wise.
    OrderedRows,
    /// The lines that the filter selects. There are no pipes.
    Lines,
}

/// The part of a query that one side carries out.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The query as text. Its times are absolute, and it has no queries in its filters.
    pub query: String,
    /// What is sent.
    pub wanted: Wanted,
    /// Event times that are read.
    pub range: TimeRange,
    /// Whose lines are read.
    pub whose: Whose,
    /// Most rows that are sent; for a partial state, the number of rows that the client wants.
    pub limit: Option<usize>,
    /// Read the oldest units first.
    pub oldest_first: bool,
    /// Only rows behind this one, where they come in order of time.
    pub after: Option<RowKey>,
    /// Computed fields that rows carry although they are hidden.
    pub include: Vec<String>,
}

/// Something that a side sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A partial state.
    State(Vec<u8>),
    /// Rows, with their keys.
    Rows(Vec<u8>),
    /// Lines, with the farthest time that lines of later pieces can have: none newer, or, where the
    /// oldest are read first, none older. None: no more lines come.
    Lines(Vec<u8>, Option<i64>),
}

impl Piece {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Piece::State(bytes) | Piece::Rows(bytes) | Piece::Lines(bytes, _) => bytes.len(),
        }
    }
}

/// Sides that carry out shares.
pub trait Sides: Send + Sync {
    /// Begins a share on each side. `context` has the limits and receives the progress.
    ///
    /// Errors: a side is away, or refuses.
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn Pieces>, RunError>;
}

/// The pieces of one share of all sides. Dropping it ends the share.
pub trait Pieces {
    /// Number of sides.
    fn sides(&self) -> usize;

    /// Waits for the next piece of `side`, or, with none, of any side that has not ended. Returns
    /// the side and its piece; no piece: this side has ended. `check` is called now and then.
    ///
    /// Errors: those of a side and of `check`.
    fn next(
        &mut self,
        side: Option<usize>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(usize, Option<Piece>), RunError>;

    /// Ends the share of one side: nothing more is wanted of it.
    fn end(&mut self, side: usize);

    /// Counts what the sides did that have ended by themselves.
    fn outcome(&self) -> Outcome;
}

/// Carries out a share over the lines of `source`, and calls `out` with its pieces until `out`
/// breaks. Of `context`, the limits, the account, the restriction and the means to cancel and to
/// pause count.
///
/// Errors: those of queries; a share that does not fit its query.
pub fn answer_share(
    share: &Share,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    // The tree of a long query is counted before it is made.
    let mut tree = Meter::new(context);
    tree.take(share.query.len().saturating_mul(TREE_FACTOR))?;
    let query = Query::parse_share(&share.query).map_err(|error| {
        RunError::Failed(format!("the share of a query cannot be read: {}", error.message))
    })?;
    let mut context = query.options().applied_to(context);
    context.range = share.range;
    context.oldest_first = share.oldest_first;
    context.include.clone_from(&share.include);
    (context.limit, context.offset) = (share.limit, 0);
    let restricted = super::restricted(&query, &context)?;
    let query = restricted.as_ref().unwrap_or(&query);
    let row_wise = query.pipes().iter().all(crate::pipe::Pipe::is_row_wise);
    match share.wanted {
        Wanted::State => {
            let plan = Plan::new(query, &context, share.whose);
            let place = plan.split_at().ok_or_else(misfit)?;
            let meter = Meter::new(&context);
            let started = Instant::now();
            let mut execution = ExecutionContext { source, context: &context, started, meter };
            let (stage, outcome) = collect(&plan, &execution, place)?;
            let state = query.pipes()[place].encode(&*stage, &mut execution.meter)?;
            let _ = out(Piece::State(state));
            Ok(outcome)
        }
        Wanted::NewestRows | Wanted::OrderedRows if row_wise => {
            context.order = (share.wanted == Wanted::OrderedRows)
                .then(|| TimeOrder { after: share.after, ..TimeOrder::default() });
            send_rows(query, share.whose, source, &context, out)
        }
        Wanted::Lines if query.pipes().is_empty() => {
            context.limit = None;
            send_lines(query, share.whose, source, &context, out)
        }
        _ => Err(misfit()),
    }
}

fn misfit() -> RunError {
    wrong_state("the share does not fit its query")
}

/// Runs the query and sends its rows with their keys.
fn send_rows(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let mut meter = Meter::new(context);
    let mut scratch = Scratch::default();
    let mut failed = None;
    let mut flow = ControlFlow::Continue(());
    let outcome = run_planned(query, whose, source, context, &mut |rows| match encode_rows(
        &rows,
        &context.include,
        &mut scratch,
        &mut meter,
    ) {
        Ok(pieces) => {
            for piece in pieces {
                flow = out(Piece::Rows(piece));
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

/// Encodes rows that have keys, as pieces of about [`PIECE_BYTES`]: for each row that there is one,
/// its key, and its fields. No further row ends a piece.
fn encode_rows(
    rows: &Rows,
    include: &[String],
    scratch: &mut Scratch,
    meter: &mut Meter,
) -> Result<Vec<Vec<u8>>, RunError> {
    let (mut pieces, mut index) = (Vec::new(), 0);
    while index < rows.len() {
        let mut copies = meter.clone();
        let mut encoder = Encoder::new(ROWS_FINGERPRINT, meter)?;
        let mut bytes = 0;
        let mut last = None;
        while index < rows.len() {
            let key = *rows.keys.get(index).ok_or_else(misfit)?;
            // All rows of a line are in one piece.
            if bytes >= PIECE_BYTES && last != Some(key) {
                break;
            }
            last = Some(key);
            let RowKey { time_ns, id } = key;
            encoder.flag(true)?;
            for number in [time_ns as u64, id.node.into(), id.sequence, id.line.into()] {
                encoder.number(number)?;
            }
            let row = rows.block.copy_row(index, include, scratch, &mut copies)?;
            row.encode(&mut encoder)?;
            bytes += row.memory_bytes();
            copies.give_back(row.memory_bytes());
            index += 1;
        }
        encoder.flag(false)?;
        pieces.push(encoder.finish());
    }
    Ok(pieces)
}

/// Decodes a piece of [`encode_rows`].
fn decode_rows(bytes: &[u8], meter: &mut Meter) -> Result<VecDeque<(RowKey, MadeRow)>, RunError> {
    let mut decoder = Decoder::new(bytes, ROWS_FINGERPRINT)?;
    let mut rows = VecDeque::new();
    while decoder.flag()? {
        let time_ns = decoder.number()? as i64;
        let mut small = || {
            let number = decoder.number()?;
            u32::try_from(number).map_err(|_| wrong_state("a number is too large"))
        };
        let node = small()?;
        let sequence = decoder.number()?;
        let line =
            u32::try_from(decoder.number()?).map_err(|_| wrong_state("a number is too large"))?;
        let key = RowKey { time_ns, id: LineId { node, sequence, line } };
        rows.push_back((key, MadeRow::decode(&mut decoder, meter)?));
    }
    decoder.finish()?;
    Ok(rows)
}

/// Searches the units in parts and sends the lines that the filter selects.
fn send_lines(
    query: &Query,
    whose: Whose,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(Piece) -> ControlFlow<()>,
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
    progress.bytes_planned.fetch_add(planned, std::sync::atomic::Ordering::Relaxed);
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
        // Before the rest of this part, lines of its own may be as far as any of them.
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
                    flow = out(Piece::Lines(writer.take(), within));
                    writer.push(batch, &row);
                }
                if writer.bytes() >= PIECE_BYTES && flow.is_continue() {
                    flow = out(Piece::Lines(writer.take(), within));
                }
                if flow.is_break() {
                    break;
                }
            }
            flow
        })?;
        let scanned = inner.progress.bytes_scanned.load(std::sync::atomic::Ordering::Relaxed);
        progress.bytes_scanned.fetch_add(scanned, std::sync::atomic::Ordering::Relaxed);
        total.lines_scanned += outcome.lines_scanned;
        total.units_skipped += outcome.units_skipped;
        total.units_gone += outcome.units_gone;
        if flow.is_continue() && writer.rows() > 0 {
            flow = out(Piece::Lines(writer.take(), rest));
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

/// Runs a planned query over the sides.
pub(super) fn run(
    plan: &Plan<'_>,
    execution: &ExecutionContext<'_>,
    sides: &dyn Sides,
    lines_before: u64,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let context = execution.context;
    let mut share = Share {
        query: plan.query.to_string(),
        wanted: Wanted::State,
        range: plan.range,
        whose: plan.whose,
        limit: context.limit.map(|limit| limit.saturating_add(context.offset)),
        oldest_first: plan.oldest_first,
        after: None,
        include: plan.carried.clone(),
    };
    if share.query.len() > SHARE_BYTES_MAX {
        return Err(RunError::Side(format!(
            "with the values of the queries inside it, the query is longer than {SHARE_BYTES_MAX} bytes, which is more than \
             stores are sent; let these queries give fewer values"
        )));
    }
    let mut outcome = if context.limit == Some(0) {
        Outcome::default()
    } else if let Some(place) = plan.split_at() {
        let mut pieces = sides.begin(&share, context)?;
        let states =
            States { pieces: &mut *pieces, plan, place, execution: execution.clone(), ended: 0 };
        let outcome = finish_merged(plan, execution, place, states, out)?;
        with_counts(outcome, pieces.outcome())
    } else if plan.order != Order::Stream {
        match &plan.order {
            Order::Time(order) => {
                (share.wanted, share.after) = (Wanted::OrderedRows, order.after);
            }
            _ => share.wanted = Wanted::NewestRows,
        }
        merge_rows(&share, plan, execution, sides, out)?
    } else {
        share.query = Query::new(plan.query.filter().clone(), Vec::new()).to_string();
        share.wanted = Wanted::Lines;
        share.include = Vec::new();
        let mut pieces = sides.begin(&share, context)?;
        let outcome = execute(plan, execution, 0, Some(&mut *pieces), out)?;
        with_counts(outcome, pieces.outcome())
    };
    outcome.lines_scanned += lines_before;
    Ok(outcome)
}

/// An outcome with the counts of the sides added.
fn with_counts(outcome: Outcome, sides: Outcome) -> Outcome {
    Outcome {
        lines_scanned: outcome.lines_scanned + sides.lines_scanned,
        units_skipped: outcome.units_skipped + sides.units_skipped,
        units_gone: outcome.units_gone + sides.units_gone,
        ..outcome
    }
}

/// The partial states of the sides, as stages, as they come.
struct States<'p, 'a> {
    pieces: &'p mut dyn Pieces,
    plan: &'p Plan<'p>,
    place: usize,
    execution: ExecutionContext<'a>,
    /// Sides that have ended.
    ended: usize,
}

impl Iterator for States<'_, '_> {
    type Item = Result<Box<dyn crate::pipe::Processor>, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        let execution = &self.execution;
        let mut meter = execution.meter.clone();
        while self.ended < self.pieces.sides() {
            match self.pieces.next(None, &|| execution.check()) {
                Err(error) => return Some(Err(error)),
                Ok((_, Some(Piece::State(state)))) => {
                    let pipe = &self.plan.query.pipes()[self.place];
                    return Some(pipe.decode(&state, &self.plan.carried, &mut meter));
                }
                Ok((_, Some(_))) => return Some(Err(misfit())),
                Ok((_, None)) => self.ended += 1,
            }
        }
        None
    }
}

/// The rows of a side that are not delivered yet.
#[derive(Default)]
struct Queued {
    rows: VecDeque<(RowKey, MadeRow)>,
    has_ended: bool,
}

/// Merges rows that each side sends in order.
fn merge_rows(
    share: &Share,
    plan: &Plan<'_>,
    execution: &ExecutionContext<'_>,
    sides: &dyn Sides,
    out: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let newest_first = share.wanted == Wanted::NewestRows;
    let mut pieces = sides.begin(share, execution.context)?;
    let mut task = Task::new(plan, execution, 0);
    let mut delivery = Delivery::new(&Order::Stream, execution.context, out);
    let mut queued: Vec<Queued> = (0..pieces.sides()).map(|_| Queued::default()).collect();
    let check = || execution.check();
    loop {
        // The first key is known once each side has a row or has ended.
        for (side, queue) in queued.iter_mut().enumerate() {
            while queue.rows.is_empty() && !queue.has_ended {
                match pieces.next(Some(side), &check)?.1 {
                    Some(Piece::Rows(bytes)) => {
                        queue.rows = decode_rows(&bytes, &mut task.execution.meter)?;
                    }
                    Some(_) => return Err(misfit()),
                    None => queue.has_ended = true,
                }
            }
        }
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        loop {
            let first = |queue: &Queued| queue.rows.front().map(|(key, _)| *key);
            let firsts = queued.iter().enumerate().filter_map(|(side, q)| Some((first(q)?, side)));
            let next = if newest_first { firsts.max() } else { firsts.min() };
            let Some((key, side)) = next else { break };
            // All rows of a line are in one block.
            if rows.len() >= BLOCK_ROWS_MAX && keys.last() != Some(&key) {
                break;
            }
            let (_, row) = queued[side].rows.pop_front().expect("it was seen");
            rows.push(row);
            keys.push(key);
            if queued[side].rows.is_empty() && !queued[side].has_ended {
                break;
            }
        }
        if rows.is_empty() {
            break;
        }
        let held = rows.iter().map(MadeRow::memory_bytes).sum();
        let flow = delivery.send_wanted(Block::Made(rows), keys, &mut task)?;
        task.execution.meter.give_back(held);
        if flow.is_break() {
            break;
        }
    }
    Ok(with_counts(task.outcome, pieces.outcome()))
}

/// Lines that arrived from a side.
struct Arrived(Arc<Batch>);

impl ScanUnit for Arrived {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    /// The side has counted them.
    fn bytes(&self) -> u64 {
        0
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// The lines of a piece as a unit, and the farthest time of later ones.
pub(super) fn arrived(piece: &Piece) -> Result<(Box<dyn ScanUnit>, Option<i64>), RunError> {
    let Piece::Lines(bytes, rest_ns) = piece else { return Err(misfit()) };
    let batch = read_rows(bytes).map_err(|error| RunError::Failed(error.to_string()))?;
    Ok((arrived_unit(Arc::new(batch)), *rest_ns))
}

/// Lines of a side as a unit.
pub(super) fn arrived_unit(batch: Arc<Batch>) -> Box<dyn ScanUnit> {
    Box::new(Arrived(batch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::testing::{Memory, Record, batch, collect, record};

    /// Sides in memory. Pieces are made at once, and handed out one by one.
    struct Together {
        sides: Vec<Memory>,
        piece_count: std::sync::atomic::AtomicUsize,
    }

    struct Kept {
        pieces: Vec<VecDeque<Piece>>,
        ended: Vec<bool>,
        outcome: Outcome,
    }

    impl Source for Together {
        fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            Err(SourceError("the lines are elsewhere".into()))
        }

        fn sides(&self) -> Option<&dyn Sides> {
            Some(self)
        }

        fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(None)
        }
    }

    impl Sides for Together {
        fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn Pieces>, RunError> {
            let mut kept =
                Kept { pieces: Vec::new(), ended: Vec::new(), outcome: Outcome::default() };
            for side in &self.sides {
                let mut pieces = VecDeque::new();
                let own = Context { limits: context.limits, ..Context::default() };
                let outcome = answer_share(share, side, &own, &mut |piece| {
                    pieces.push_back(piece);
                    ControlFlow::Continue(())
                })?;
                let count = &self.piece_count;
                count.fetch_add(pieces.len(), std::sync::atomic::Ordering::Relaxed);
                kept.outcome = with_counts(kept.outcome, outcome);
                kept.pieces.push(pieces);
                kept.ended.push(false);
            }
            Ok(Box::new(kept))
        }
    }

    impl Pieces for Kept {
        fn sides(&self) -> usize {
            self.pieces.len()
        }

        fn next(
            &mut self,
            side: Option<usize>,
            check: &dyn Fn() -> Result<(), RunError>,
        ) -> Result<(usize, Option<Piece>), RunError> {
            check()?;
            // Sides take turns. An end is told once.
            let fullest = (0..self.pieces.len()).max_by_key(|&side| self.pieces[side].len());
            let fullest = fullest.expect("there are sides");
            let other = || match self.pieces[fullest].is_empty() {
                true => self.ended.iter().position(|ended| !ended).expect("one goes on"),
                false => fullest,
            };
            let side = side.unwrap_or_else(other);
            assert!(!self.ended[side], "nobody waits for a side that has ended");
            let piece = self.pieces[side].pop_front();
            self.ended[side] |= piece.is_none();
            Ok((side, piece))
        }

        fn end(&mut self, side: usize) {
            self.pieces[side].clear();
        }

        fn outcome(&self) -> Outcome {
            self.outcome
        }
    }

    fn records(from: usize, to: usize) -> Vec<Record> {
        let record = |i: usize| {
            let (host, took) = (["a", "b", "c"][i % 3], (i * 37 % 101).to_string());
            let text = if i.is_multiple_of(4) { format!("error {i}") } else { format!("ok {i}") };
            let fields = [("_msg", text.as_str()), ("host", host), ("took", took.as_str())];
            record((i * 7 % 200) as i64, &fields)
        };
        (from..to).map(record).collect()
    }

    /// Lines in one source, and the same lines on three sides, in several units each.
    fn sources() -> (Memory, Together) {
        let batches = |side: usize| {
            (0..40).map(move |unit| {
                let from = (side * 40 + unit) * 5;
                batch((side * 40 + unit + 1) as u64, &records(from, from + 5))
            })
        };
        let sides: Vec<Memory> = (0..3).map(|side| Memory::new(batches(side).collect())).collect();
        let all = sides.iter().flat_map(|side| side.batches.clone()).collect();
        (Memory::new(all), Together { sides, piece_count: 0.into() })
    }

    fn rows(text: &str, source: &dyn Source, context: &Context) -> Vec<String> {
        let query = Query::parse(text, 0).unwrap();
        let (rows, outcome) = collect(&query, source, context);
        outcome.unwrap();
        rows.iter().map(|row| format!("{row:?}")).collect()
    }

    #[test]
    fn sides_give_the_answer_of_one_source() {
        let (all, together) = sources();
        let context = Context::default();
        let queries = [
            "error",
            "* | stats by (host) count() n, sum(took) s, count_uniq(took) u",
            "error | fields host, took | uniq by (host)",
            "* | sort by (took desc, _msg) limit 7",
            "* | top 3 by (host)",
            "error | math took * 2 as double | filter double:>50 | fields _msg, double",
            "* | stats by (_time:50ns) count() n | sort by (_time) | limit 3",
            "host:in(error | fields host) | stats count() n",
            "took:in(host:a | stats max(took) took) | fields _msg",
            "* | field_names",
            "* | running_stats sum(took) total | stats count() n, max(total) m",
            "* | stats by (_time:2ns, host) sum(took) s | running_stats by (host) moving_avg(s, 5) m",
            "* | stats by (_time:2ns) count() n | total_stats share(n) p | anomalies n step 1ns",
            "error | join by (host) (* | stats by (host) count() n) | fields _msg, n",
            "error | union (host:a took:>90) | stats count() n",
            "took:=99 | stream_context before 2 after 1 | fields _msg, host",
            "* | first 5 by (_time, _msg)",
            "_time:[20ns, 40ns) | stats count() n",
            "nothing_has_this | stats count() n",
        ];
        for text in queries {
            let (mut expected, mut found) =
                (rows(text, &all, &context), rows(text, &together, &context));
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{text}");
        }
        assert!(rows("* | limit 5", &together, &context).len() == 5);
    }

    #[test]
    fn rows_in_order_come_in_the_order_of_one_source() {
        let (all, together) = sources();
        for (text, order, limit, offset) in [
            ("error", None, Some(10), 0),
            ("error", None, Some(10), 5),
            ("* | fields _msg", None, Some(1_000), 590),
            ("error | fields host", Some(TimeOrder::default()), None, 0),
            ("*", Some(TimeOrder::default()), Some(20), 3),
        ] {
            let include = vec!["_line_id".to_owned()];
            let context = Context { order, limit, offset, include, ..Context::default() };
            let (expected, found) = (rows(text, &all, &context), rows(text, &together, &context));
            assert_eq!(found, expected, "{text} {limit:?}");
            assert!(!found.is_empty());
        }
    }

    #[test]
    fn reading_resumes_behind_a_key() {
        let (_, together) = sources();
        let query = Query::parse("error", 0).unwrap();
        let read = |after| {
            let order = Some(TimeOrder { after, ..TimeOrder::default() });
            let context = Context { order, ..Context::default() };
            let mut found = Vec::new();
            crate::run(&query, &together, &context, &mut |rows| {
                found.push((rows.len(), rows.last_key().expect("they are in order")));
                ControlFlow::Continue(())
            })
            .unwrap();
            found
        };
        let all = read(None);
        let count = |found: &[(usize, RowKey)]| found.iter().map(|(rows, _)| rows).sum::<usize>();
        assert_eq!(count(&all), 150);
        let rest = read(Some(all[0].1));
        assert_eq!(count(&rest), 150 - all[0].0);
    }

    #[test]
    fn damaged_pieces_and_shares_are_errors() {
        let (_, together) = sources();
        let mut meter = Meter::new(&Context::default());
        assert!(decode_rows(b"", &mut meter).is_err());
        assert!(decode_rows(&[1; 40], &mut meter).is_err());
        assert!(arrived(&Piece::Lines(vec![7; 30], None)).is_err());
        assert!(arrived(&Piece::State(Vec::new())).is_err());
        let share = |query: &str, wanted| Share {
            query: query.to_owned(),
            wanted,
            range: TimeRange::ALL,
            whose: Whose::Sent,
            limit: None,
            oldest_first: false,
            after: None,
            include: Vec::new(),
        };
        for (query, wanted) in [
            ("* |", Wanted::State),
            ("error", Wanted::State),
            ("* | stats count()", Wanted::NewestRows),
            ("* | stats count()", Wanted::OrderedRows),
            ("* | fields a", Wanted::Lines),
        ] {
            let share = share(query, wanted);
            let (side, context) = (&together.sides[0], Context::default());
            let answer = answer_share(&share, side, &context, &mut |_| ControlFlow::Continue(()));
            assert!(answer.is_err(), "{query} {wanted:?}");
        }
    }
}
