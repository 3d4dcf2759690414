//! Relays a share: asks some sides for it, and merges what they send into what one side would send.
//!
//! A node that answers a query over many sides lets a few of them do that for the others. So the
//! answer has the same bounds as that of [`super::sides`], which merges the merged pieces again.
//!
//! Left out: shares whose pieces are lines. Merging makes nothing smaller there.

use std::ops::ControlFlow;
use std::sync::Arc;

use record::{Batch, LineId};

use super::carry_out;
use super::share::{parsed, send_encoded};
use super::sides::{States, merge_rows, with_counts};
use crate::base::{Outcome, RunError, SourceError, TimeRange, Whose};
use crate::exec::executor::merge_states;
use crate::exec::prepared;
use crate::exec::task::ExecutionContext;
use crate::lang::context::Context;
use crate::lang::pipe::Pipe;
use crate::lang::source::{ScanUnit, Share, SharePiece, Sides, Source, Wanted, misfit};
use crate::plan::QueryPlan;

impl Share {
    /// Whether the pieces of several sides can be merged into pieces that are together smaller: a
    /// partial state, or rows of which a number is wanted.
    pub fn can_be_relayed(&self) -> bool {
        match self.wanted {
            Wanted::State => true,
            Wanted::NewestRows | Wanted::OrderedRows => self.limit.is_some(),
            Wanted::Lines => false,
        }
    }
}

/// Begins a share on each side, merges the pieces, and calls `out` with the merged ones until `out`
/// breaks. Of `context`, the same is used as by [`super::answer_share`].
///
/// Errors: those of queries and of the sides; a share that does not fit its query, or cannot be
/// [relayed](Share::can_be_relayed).
pub fn relay_share(
    share: &Share,
    sides: &dyn Sides,
    context: &Context,
    out: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    if !share.can_be_relayed() {
        return Err(misfit());
    }
    let mut tree = context.meter();
    let query = parsed(share, &mut tree)?;
    let (query, mut context) = prepared(&query, &NoLines, context)?;
    context.range = share.range;
    context.oldest_first = share.oldest_first;
    context.include.clone_from(&share.include);
    (context.limit, context.offset) = (share.limit, 0);
    let mut execution = ExecutionContext::new(&NoLines, &context, carry_out);
    if share.wanted == Wanted::State {
        let plan = QueryPlan::new(&query, &context, share.whose);
        let place = plan.split_at().ok_or_else(misfit)?;
        let mut pieces = sides.begin(share, &context)?;
        let states = States::new(&mut *pieces, &plan, place, execution.clone());
        let stage = merge_states(&plan, &execution, place, states)?;
        let state = query.pipes()[place].encode(&*stage, &mut execution.meter)?;
        let _ = out(SharePiece::State(state));
        return Ok(with_counts(Outcome::default(), pieces.outcome()));
    }
    if !query.pipes().iter().all(Pipe::is_row_wise) {
        return Err(misfit());
    }
    send_encoded(&context, out, |each| merge_rows(share, &execution, sides, each))
}

/// The source of a node that reads nothing itself.
struct NoLines;

impl Source for NoLines {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Err(SourceError("the lines of a relayed share are elsewhere".to_owned()))
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;

    use super::*;
    use crate::base::TimeOrder;
    use crate::dist::together::{Side, Together};
    use crate::testing::{Memory, Record, batch, collect, record};
    use crate::{Limits, Query};

    fn records(unit: usize, lines: usize) -> Vec<Record> {
        let record = |i: usize| {
            let (host, took) = (["a", "b", "c"][i % 3], (i * 37 % 101).to_string());
            let text = if i.is_multiple_of(4) { format!("error {i}") } else { format!("ok {i}") };
            let fields = [("_msg", text.as_str()), ("host", host), ("took", took.as_str())];
            record((i * 7 % 200) as i64, &fields)
        };
        (unit * 1_000..unit * 1_000 + lines).map(record).collect()
    }

    /// Sides with so many lines each.
    fn lines(lines: &[usize], first: usize) -> impl Iterator<Item = Side> {
        let sides = lines.iter().enumerate().filter(|(_, lines)| **lines > 0);
        sides.map(move |(place, &lines)| {
            let unit = first + place + 1;
            Side::of(Memory::new(vec![batch(unit as u64, &records(unit, lines))]))
        })
    }

    /// The same sides in one stage, and in groups of `group`, each behind a relay.
    fn stages(all: &[usize], group: usize) -> (Together, Together) {
        let groups = all
            .chunks(group)
            .enumerate()
            .map(|(place, part)| Side::Relay(Together::new(lines(part, place * group).collect())));
        (Together::new(lines(all, 0).collect()), Together::new(groups.collect()))
    }

    /// Queries whose answers do not depend on the order of lines with equal keys.
    const QUERIES: [&str; 16] = [
        "* | stats count() n",
        "* | stats by (host) count() n, sum(took) s, count_uniq(took) u, median(took) m",
        "error | stats by (_time:50ns, host) count() n, max(took) m, min(took) i",
        "* | stats by (host) quantile(0.9, took) q, histogram(took) h",
        "error | fields host, took | uniq by (host, took) with hits",
        "* | sort by (took desc, _msg) limit 7",
        "* | sort by (took desc, _msg) limit 3 offset 2 | fields took, _msg",
        "* | top 3 by (host)",
        "* | stats by (_time:20ns) count() n | sort by (_time) | limit 3",
        "* | field_names",
        "* | first 5 by (_time, _msg)",
        "* | len(_msg) as l | stats by (l) count() n",
        "error | math took * 2 as double | filter double:>50 | stats sum(double) s",
        "nothing_has_this | stats count() n",
        "* | stats by (_time:2ns) count() n | running_stats sum(n) s",
        "host:in(error | fields host) | stats count() n",
    ];

    fn rows(text: &str, source: &dyn Source, context: &Context) -> Vec<String> {
        let query = Query::parse(text, 0).unwrap();
        let (rows, outcome) = collect(&query, source, context);
        outcome.unwrap();
        rows.iter().map(|row| format!("{row:?}")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn two_stages_answer_as_one(
            all in prop::collection::vec(0..30_usize, 1..24),
            group in 1..9_usize,
            text in prop::sample::select(QUERIES.to_vec()),
            threads in 1..3_usize,
        ) {
            let (one, two) = stages(&all, group);
            let limits = Limits { threads, ..Limits::default() };
            let context = Context { limits, ..Context::default() };
            let (mut expected, mut found) = (rows(text, &one, &context), rows(text, &two, &context));
            expected.sort();
            found.sort();
            prop_assert_eq!(found, expected, "{}", text);
        }

        #[test]
        fn rows_in_order_come_in_the_order_of_one_stage(
            all in prop::collection::vec(0..30_usize, 1..24),
            group in 1..9_usize,
            limit in 1..60_usize,
            offset in 0..20_usize,
            is_ordered in any::<bool>(),
            text in prop::sample::select(vec!["*", "error | fields _msg, took", "* | filter took:>50"]),
        ) {
            let (one, two) = stages(&all, group);
            let order = is_ordered.then(TimeOrder::default);
            let (limit, include) = (Some(limit), vec!["_line_id".to_owned()]);
            let context = Context { order, limit, offset, include, ..Context::default() };
            prop_assert_eq!(rows(text, &two, &context), rows(text, &one, &context), "{}", text);
        }
    }

    #[test]
    fn relays_give_less_than_their_sides_and_count_what_those_did() {
        let (one, two) = stages(&[20; 16], 4);
        let context = Context { limit: Some(5), ..Context::default() };
        for text in ["* | stats by (host) count() n", "error"] {
            let query = Query::parse(text, 0).unwrap();
            let (expected, found) =
                [&one, &two].map(|source| collect(&query, source, &context)).into();
            assert_eq!(found.0, expected.0, "{text}");
            let lines = |outcome: Result<Outcome, RunError>| outcome.unwrap().lines_scanned;
            assert_eq!(lines(found.1), lines(expected.1), "{text}");
        }
        assert_eq!((one.asked.load(Relaxed), two.asked.load(Relaxed)), (32, 8));
        let (one, two) = (one.given.load(Relaxed), two.given.load(Relaxed));
        assert!(two * 2 < one, "{two} bytes from relays, {one} from sides");
    }

    #[test]
    fn what_cannot_be_relayed_is_refused() {
        let (_, two) = stages(&[3; 4], 2);
        let share = |query: &str, wanted, limit| Share {
            query: query.to_owned(),
            wanted,
            range: TimeRange::ALL,
            whose: Whose::Sent,
            limit,
            oldest_first: false,
            after: None,
            include: Vec::new(),
        };
        for (share, is_relayed) in [
            (share("* | stats count() n", Wanted::State, None), true),
            (share("error", Wanted::NewestRows, Some(3)), true),
            (share("error", Wanted::OrderedRows, Some(3)), true),
            (share("error", Wanted::OrderedRows, None), false),
            (share("error", Wanted::Lines, Some(3)), false),
            (share("error", Wanted::State, None), false),
            (share("* | stats count() n", Wanted::NewestRows, Some(3)), false),
            (share("* |", Wanted::State, None), false),
        ] {
            let mut pieces = 0;
            let relayed = relay_share(&share, &two, &Context::default(), &mut |_| {
                pieces += 1;
                ControlFlow::Continue(())
            });
            assert_eq!((relayed.is_ok(), pieces > 0), (is_relayed, is_relayed), "{share:?}");
        }
    }
}
