//! Patterns of lines over time, as Grafana shows them: the skeletons of crate `analysis`, each with
//! its lines per step.
//!
//! Limits: [`SKELETONS_MAX`] different skeletons; lines of others count as the pattern `<_>`. The
//! memory of skeletons and counts is memory of the query.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use analysis::patterns::{Scratch, texts};
use query::source::Source;
use query::{Context, Pulse, Query, RunError};

use crate::ast::LogQuery;
use crate::error::EvalError;
use crate::push::push;
use crate::stored::{Reader, RowFields};
use crate::{CHECK_BYTES, CHECK_ROWS};

/// Limit of the different skeletons that are counted apart; lines of further ones are counted
/// together.
const SKELETONS_MAX: usize = 16_384;
/// Memory of a skeleton besides its bytes, and of a count.
const ENTRY_BYTES: usize = 96;
/// What stands for a value in patterns of LogQL.
const PLACEHOLDER: &str = "<_>";
/// The same in crate `analysis`.
const FOUND_PLACEHOLDER: &str = "<*>";

/// Lines by the begin of their step, nanoseconds since 1970 UTC.
type Counts = BTreeMap<i64, u64>;

/// A pattern and its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Its text, which the line filter `|>` takes.
    pub text: String,
    /// Lines by the begin of their step, nanoseconds since 1970 UTC; no step without lines.
    pub counts: Counts,
}

/// The `limit` most frequent patterns of the lines of a query, those with the most lines first.
pub fn run(
    query: &LogQuery,
    source: &dyn Source,
    context: &Context,
    step_ns: i64,
    limit: usize,
) -> Result<Vec<Pattern>, EvalError> {
    let pushed = Query::new(push(query).filter, Vec::new());
    let mut run_context = Context { limit: None, ..context.clone() };
    // Rows are evaluated here, not sent to the client.
    run_context.limits.rows_max = u64::MAX;
    let mut reader = Reader::default();
    let mut scratch = Scratch::default();
    let mut found: HashMap<Box<[u8]>, Counts, foldhash::fast::RandomState> = HashMap::default();
    let mut rest = Counts::new();
    let (mut held, mut looked, mut failed) = (0u64, 0u64, None);
    let started = Instant::now();
    let pulse = Pulse::new(|| context.check(started));
    let memory_max = context.limits.memory_bytes_max;
    query::run(&pushed, source, &run_context, &mut |rows| {
        for index in 0..rows.len() {
            let (batch, place) = rows.line(index).expect("no pipe made rows");
            looked += 1;
            let row = RowFields::of(batch, place);
            let is_long = row.row.raw().len() > CHECK_BYTES;
            if (is_long || looked.is_multiple_of(CHECK_ROWS))
                && let Err(error) = context.check(started)
            {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            let labels = reader.stream(&row.row);
            let mut item = reader.item(batch, &labels, &row, &pulse);
            let passes = query.stages.iter().all(|stage| item.apply(stage));
            if pulse.is_over() {
                return ControlFlow::Break(());
            }
            if !passes || item.line.is_empty() {
                continue;
            }
            let step = item.time_ns.div_euclid(step_ns).saturating_mul(step_ns);
            let skeleton = scratch.skeleton(item.line.as_bytes());
            if !found.contains_key(skeleton) && found.len() < SKELETONS_MAX {
                held += (skeleton.len() + ENTRY_BYTES) as u64;
                found.insert(skeleton.into(), Counts::new());
            }
            let counts = found.get_mut(skeleton).unwrap_or(&mut rest);
            let before = counts.len();
            *counts.entry(step).or_default() += 1;
            held += ((counts.len() - before) * ENTRY_BYTES) as u64;
            context.progress.memory_bytes.store(held, Relaxed);
            if held > memory_max {
                failed = Some(RunError::MemoryLimit(memory_max));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    pulse.end()?;
    // In an order that does not depend on that of the lines.
    let found: BTreeMap<Box<[u8]>, Counts> = found.into_iter().collect();
    let names = texts(found.keys().map(|skeleton| &**skeleton));
    let mut patterns: HashMap<String, Counts> = HashMap::new();
    if !rest.is_empty() {
        patterns.insert(PLACEHOLDER.to_owned(), rest);
    }
    for (text, counts) in names.iter().zip(found.into_values()) {
        let all = patterns.entry(shown(&String::from_utf8_lossy(text))).or_default();
        for (step, lines) in counts {
            *all.entry(step).or_default() += lines;
        }
    }
    let mut patterns: Vec<Pattern> =
        patterns.into_iter().map(|(text, counts)| Pattern { text, counts }).collect();
    let lines = |pattern: &Pattern| pattern.counts.values().sum::<u64>();
    patterns.sort_by(|a, b| lines(b).cmp(&lines(a)).then_with(|| a.text.cmp(&b.text)));
    patterns.truncate(limit);
    context.progress.rows.store(patterns.len() as u64, Relaxed);
    Ok(patterns)
}

/// A pattern in the form of LogQL, in which two places beside each other are one.
fn shown(text: &str) -> String {
    let mut text = text.replace(FOUND_PLACEHOLDER, PLACEHOLDER);
    let twice = PLACEHOLDER.repeat(2);
    while text.contains(&twice) {
        text = text.replace(&twice, PLACEHOLDER);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Expr;
    use crate::testing::{Memory, batch, record};

    #[test]
    fn lines_are_counted_by_pattern_and_step() {
        let line = |second: i64, text: &str| {
            record(second * 1_000_000_000, &[("_type", "plain"), ("_msg", text)])
        };
        let records = [
            line(1, "took 5ms for 10.0.0.1"),
            line(9, "took 17ms for 10.0.0.2"),
            line(12, "took 1ms for 10.0.0.3"),
            line(13, "stopped"),
            line(14, ""),
        ];
        let source =
            Memory(records.chunks(2).zip(1..).map(|(part, number)| batch(number, part)).collect());
        let of = |text: &str, limit| {
            let Ok(Expr::Log(query)) = crate::parse(text) else { panic!("{text}") };
            let found = run(&query, &source, &Context::default(), 10_000_000_000, limit).unwrap();
            let one = |pattern: Pattern| {
                let counts = pattern.counts.iter().map(|(at, n)| (at / 1_000_000_000, *n));
                (pattern.text, counts.collect::<Vec<_>>())
            };
            found.into_iter().map(one).collect::<Vec<_>>()
        };
        let took = ("took <_> for <_>".to_owned(), vec![(0, 2), (10, 1)]);
        let stopped = ("stopped".to_owned(), vec![(10, 1)]);
        assert_eq!(of("{}", 9), [took.clone(), stopped.clone()]);
        assert_eq!(of("{}", 1), std::slice::from_ref(&took));
        assert_eq!(of("{} |= \"stop\"", 9), [stopped]);
        // The pattern selects its lines.
        assert_eq!(of("{} |> \"took <_> for <_>\"", 9), [took]);
        assert_eq!(shown("<*><*> a <*>"), "<_> a <_>");
        let Ok(Expr::Log(query)) = crate::parse("{}") else { panic!() };
        let mut context = Context::default();
        context.limits.memory_bytes_max = 100;
        let error = run(&query, &source, &context, 1, 9).unwrap_err();
        assert!(matches!(error, EvalError::Run(RunError::MemoryLimit(100))), "{error}");
    }
}
