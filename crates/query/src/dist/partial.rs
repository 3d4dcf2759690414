//! Runs a query in two parts: one part collects where the lines are, the other makes the answer
//! from what was collected.
//!
//! The row-wise pipes and the first collecting pipe run on each side that has lines
//! ([`run_partial`]). Each side sends its partial state as bytes. The side that gives the answer
//! merges these states and runs the remaining pipes ([`run_merged`]). Not every query can be split
//! like this. Its first pipe that is not row-wise must have partial states that can be merged in
//! any order. Its filters must not have queries inside, because all sides would have to answer
//! those first.
//!
//! Differences from an undivided run: rows with equal keys of `sort` come in the order of units and
//! rows within their sides, and positions on several sides may be equal; sums of numbers with
//! fractions may be rounded differently.

use std::ops::ControlFlow;

use super::carry_out;
use crate::base::partial_state::{STATES_MAX, wrong_state};
use crate::base::{Outcome, RunError};
use crate::exec::executor::{collect, finish_merged};
use crate::exec::task::ExecutionContext;
use crate::exec::{ResultRows, prepared};
use crate::lang::context::Context;
use crate::lang::source::Source;
use crate::lang::syntax::query::Query;
use crate::plan::QueryPlan;

/// The partial state that one side collected for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialState {
    /// The state, encoded for this version of Loginson. These bytes do not count as memory of the
    /// query.
    pub bytes: Vec<u8>,
    /// Counts what the side did.
    pub outcome: Outcome,
}

/// Collects what `query` needs from the lines of `source`. None where the query cannot be split.
pub fn run_partial(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> Result<Option<PartialState>, RunError> {
    let (query, context) = prepared(query, source, context)?;
    let plan = QueryPlan::new(&query, &context, query.filter().whose());
    let Some(place) = plan.split_at() else { return Ok(None) };
    let mut execution = ExecutionContext::new(source, &context, carry_out);
    let (stage, outcome) = collect(&plan, &execution, place)?;
    let bytes = query.pipes()[place].encode(&*stage, &mut execution.meter)?;
    Ok(Some(PartialState { bytes, outcome }))
}

/// Merges the partial states that the sides collected for `query`, and calls `out` with its rows.
/// `source` is read by queries inside later pipes (`join`, `union`). The outcome counts rows only.
///
/// A damaged state, a state of another query, or more than 10,000 states are an error.
pub fn run_merged<'s>(
    query: &Query,
    states: impl IntoIterator<Item = &'s [u8]>,
    source: &dyn Source,
    context: &Context,
    out: &mut dyn FnMut(ResultRows) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    let (query, context) = prepared(query, source, context)?;
    let plan = QueryPlan::new(&query, &context, query.filter().whose());
    let place = plan.split_at().ok_or_else(|| wrong_state("the query has no such result"))?;
    let pipe = &query.pipes()[place];
    let mut execution = ExecutionContext::new(source, &context, carry_out);
    let mut stages = Vec::new();
    for bytes in states {
        if stages.len() == STATES_MAX {
            return Err(wrong_state("there are too many of them"));
        }
        execution.check()?;
        stages.push(pipe.decode(bytes, &plan.carried, &mut execution.meter));
    }
    finish_merged(&plan, &execution, place, stages, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use crate::base::Limits;
    use crate::testing::{Memory, Record, batch, collect, record};

    fn records(from: usize, to: usize) -> Vec<Record> {
        let record = |i: usize| {
            let (host, took) = (["a", "b", "c"][i % 3], (i * 37 % 101).to_string());
            let fields =
                [("_msg", if i.is_multiple_of(4) { "error" } else { "ok" }), ("host", host)];
            record(i as i64, &[&fields[..], &[("took", took.as_str())]].concat())
        };
        (from..to).map(record).collect()
    }

    /// Sources with a third of the records each, in several units.
    fn sides() -> Vec<Memory> {
        let batches = |side: usize| {
            (0..3).map(move |unit| {
                let from = side * 60 + unit * 20;
                batch((side * 3 + unit + 1) as u64, &records(from, from + 20))
            })
        };
        (0..3).map(|side| Memory::new(batches(side).collect())).collect()
    }

    fn merged(
        query: &Query,
        sides: &[Memory],
        context: &Context,
    ) -> Result<Vec<Vec<(String, String)>>, RunError> {
        let states: Vec<PartialState> = sides
            .iter()
            .map(|side| run_partial(query, side, context).map(|state| state.expect("it is split")))
            .collect::<Result<_, _>>()?;
        let nothing = Memory::new(Vec::new());
        let (mut rows, mut scratch) = (Vec::new(), Scratch::default());
        let states = states.iter().map(|state| state.bytes.as_slice());
        run_merged(query, states, &nothing, context, &mut |block| {
            for row in 0..block.len() {
                let mut fields = Vec::new();
                block.visit(row, &mut scratch, |name, value| {
                    fields.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
                });
                rows.push(fields);
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    #[test]
    fn the_parts_of_several_sides_give_the_answer_of_one() {
        let sides = sides();
        let all = Memory::new(sides.iter().flat_map(|side| side.batches.clone()).collect());
        for threads in [1, 3] {
            let limits = Limits { threads, ..Limits::default() };
            let context = Context { limits, ..Context::default() };
            for text in [
                "error | stats by (host) count() n, sum(took) s, median(took) m, range(took) r",
                "* | stats by (_time:25ns) count() n, count_uniq(took) u | sort by (n desc, _time) limit 3",
                "* | len(host) as l | fields host, l, took | top 5 by (took)",
                "error | uniq by (host, took) with hits | sort by (took, host)",
                "* | sort by (took desc, _time) limit 7 | fields took, _msg",
                "* | field_names | sort by (name)",
                "* | facets 3 max_values_per_field 200",
                "* | patterns 9 by (host)",
                "nothing | stats count() n, max(took) m",
                "* | stats by (host) histogram(took) h | limit 2",
            ] {
                let query = Query::parse(text, 0).unwrap();
                let (expected, outcome) = collect(&query, &all, &context);
                outcome.unwrap();
                assert_eq!(merged(&query, &sides, &context).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn a_side_sends_no_sorted_rows_that_cannot_come_out() {
        let side = &sides()[0];
        let bytes = |text: &str| {
            let query = Query::parse(text, 0).unwrap();
            run_partial(&query, side, &Context::default()).unwrap().unwrap().bytes.len()
        };
        let (few, all) = (bytes("* | sort by (took) limit 3"), bytes("* | sort by (took)"));
        // Of sixty rows.
        assert!(few * 10 < all, "{few} {all}");
        let offset = bytes("* | sort by (took) limit 3 offset 3");
        assert!(few < offset && offset < 3 * few, "{few} {offset}");
    }

    #[test]
    fn what_cannot_be_taken_apart_is_not() {
        for text in [
            "*",
            "* | fields host",
            "* | limit 5 | stats count() n",
            "* | stats values(took) v",
            "* | uniq by (host) limit 2",
            "host:in(error | fields host) | stats count() n",
            "* | running_stats count() n",
        ] {
            let query = Query::parse(text, 0).unwrap();
            let state = run_partial(&query, &sides()[0], &Context::default()).unwrap();
            assert_eq!(state, None, "{text}");
        }
    }

    #[test]
    fn states_of_other_queries_and_too_much_memory_are_errors() {
        let sides = sides();
        let [query, other] = ["* | stats count() n", "* | stats sum(took) n"]
            .map(|text| Query::parse(text, 0).unwrap());
        let context = Context::default();
        let state = run_partial(&query, &sides[0], &context).unwrap().unwrap();
        let run = |query: &Query, bytes: &[u8], context: &Context| {
            run_merged(query, [bytes], &sides[0], context, &mut |_| ControlFlow::Continue(()))
        };
        assert_eq!(run(&query, &state.bytes, &context).unwrap().rows, 1);
        let refused = run(&other, &state.bytes, &context);
        assert!(matches!(refused, Err(RunError::PartialState(_))), "{refused:?}");
        let sorted = Query::parse("* | sort by (took)", 0).unwrap();
        let state = run_partial(&sorted, &sides[0], &context).unwrap().unwrap();
        let limits = Limits { memory_bytes_max: 2_000, ..Limits::default() };
        let refused = run(&sorted, &state.bytes, &Context { limits, ..Context::default() });
        assert!(matches!(refused, Err(RunError::MemoryLimit(_))), "{refused:?}");
    }
}
