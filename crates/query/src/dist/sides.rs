//! Runs a query over several sides: other nodes, each with lines of its own.
//!
//! A side carries out its [`Share`] of the query ([`super::share`]) and sends [`SharePiece`]s. The
//! side that gives the answer begins the shares through the trait [`Sides`], and puts the pieces
//! together. What a side sends depends on the query:
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

use std::collections::VecDeque;

use super::keyed_rows::decode_rows;
use crate::base::{Outcome, RowKey, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, MadeRow};
use crate::exec::delivery::RowDelivery;
use crate::exec::executor::{execute, finish_merged};
use crate::exec::task::{ExecutionContext, RowsOut};
use crate::lang::filter::Filter;
use crate::lang::pipe::{Pipe, Processor};
use crate::lang::source::{Share, SharePiece, SharePieces, Sides, Wanted, misfit};
use crate::lang::syntax::query::{Query, SHARE_BYTES_MAX};
use crate::plan::{Order, QueryPlan};

/// Runs a planned query over the sides.
pub(super) fn run_over_sides(
    plan: &QueryPlan<'_>,
    execution: &ExecutionContext<'_>,
    sides: &dyn Sides,
    lines_before: u64,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    let context = execution.context;
    // Sides that know which rows count must know that all are wanted.
    let mut options = plan.query.options();
    options.all_revisions |= context.all_revisions;
    options.hidden.clone_from(&context.restriction.hidden);
    let as_text = |filter: &Filter, pipes: &[Pipe]| {
        Query::new(filter.clone(), pipes.to_vec()).with_options(options.clone()).to_string()
    };
    let mut share = Share {
        query: as_text(plan.query.filter(), plan.query.pipes()),
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
        let states = States::new(&mut *pieces, plan, place, execution.clone());
        let outcome = finish_merged(plan, execution, place, states, out)?;
        with_counts(outcome, pieces.outcome())
    } else if plan.order != Order::Stream {
        match &plan.order {
            Order::Time(order) => {
                (share.wanted, share.after) = (Wanted::OrderedRows, order.after);
            }
            _ => share.wanted = Wanted::NewestRows,
        }
        merge_rows(&share, execution, sides, out)?
    } else {
        share.query = as_text(plan.query.filter(), &[]);
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
pub(super) fn with_counts(outcome: Outcome, sides: Outcome) -> Outcome {
    Outcome {
        lines_scanned: outcome.lines_scanned + sides.lines_scanned,
        units_skipped: outcome.units_skipped + sides.units_skipped,
        units_gone: outcome.units_gone + sides.units_gone,
        ..outcome
    }
}

/// The partial states of the sides as stages, in the order of their arrival.
pub(super) struct States<'p, 'a> {
    pieces: &'p mut dyn SharePieces,
    plan: &'p QueryPlan<'p>,
    place: usize,
    execution: ExecutionContext<'a>,
    /// Sides that have ended.
    ended: usize,
}

impl<'p, 'a> States<'p, 'a> {
    /// `place`: the stage that the states are of.
    pub(super) fn new(
        pieces: &'p mut dyn SharePieces,
        plan: &'p QueryPlan<'p>,
        place: usize,
        execution: ExecutionContext<'a>,
    ) -> States<'p, 'a> {
        States { pieces, plan, place, execution, ended: 0 }
    }
}

impl Iterator for States<'_, '_> {
    type Item = Result<Box<dyn Processor>, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        let execution = &self.execution;
        let mut meter = execution.meter.clone();
        while self.ended < self.pieces.sides() {
            match self.pieces.next(None, &|| execution.check()) {
                Err(error) => return Some(Err(error)),
                Ok((_, Some(SharePiece::State(state)))) => {
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
pub(super) fn merge_rows(
    share: &Share,
    execution: &ExecutionContext<'_>,
    sides: &dyn Sides,
    out: RowsOut<'_>,
) -> Result<Outcome, RunError> {
    let newest_first = share.wanted == Wanted::NewestRows;
    let mut pieces = sides.begin(share, execution.context)?;
    let mut meter = execution.meter.clone();
    let mut delivery = RowDelivery::new(&Order::Stream, execution, out);
    let mut queued: Vec<Queued> = (0..pieces.sides()).map(|_| Queued::default()).collect();
    let check = || execution.check();
    loop {
        // The first key is known once each side has a row or has ended.
        for (side, queue) in queued.iter_mut().enumerate() {
            while queue.rows.is_empty() && !queue.has_ended {
                match pieces.next(Some(side), &check)?.1 {
                    Some(SharePiece::Rows(bytes)) => {
                        queue.rows = decode_rows(&bytes, &mut meter)?;
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
        let flow = delivery.send_wanted(Block::Made(rows), keys)?;
        meter.give_back(held);
        if flow.is_break() {
            break;
        }
    }
    Ok(with_counts(delivery.outcome(Outcome::default()), pieces.outcome()))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::Query;
    use crate::base::{TimeOrder, TimeRange, Whose};
    use crate::dist::answer_share;
    use crate::dist::together::{Side, Together};
    use crate::lang::context::Context;
    use crate::lang::source::{Source, arrived};
    use crate::testing::{Memory, Record, batch, collect, record};

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
        (Memory::new(all), Together::new(sides.into_iter().map(Side::of).collect()))
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
            crate::dist::run(&query, &together, &context, &mut |rows| {
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
        let mut meter = Context::default().meter();
        assert!(decode_rows(b"", &mut meter).is_err());
        assert!(decode_rows(&[1; 40], &mut meter).is_err());
        assert!(arrived(&SharePiece::Lines(vec![7; 30], None)).is_err());
        assert!(arrived(&SharePiece::State(Vec::new())).is_err());
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
            let Side::Lines(side) = &together.sides[0] else { panic!("it has lines") };
            let context = Context::default();
            let answer =
                answer_share(&share, &**side, &context, &mut |_| ControlFlow::Continue(()));
            assert!(answer.is_err(), "{query} {wanted:?}");
        }
    }
}
