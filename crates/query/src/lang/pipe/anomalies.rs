//! `anomalies [by (a, b)] n [step 5m]`: how usual the number `n` is in each row of a series, in the
//! order of time.
//!
//! Each group is a series of its own, watched by the detector of the crate `anomaly`, which needs
//! no settings. A row gets the fields `expected`, `low` and `high` (the number that was expected,
//! and the band in which 98 of 100 lie), `anomaly` (a score from 0 to 1, an anomaly from 0.5 on),
//! `anomaly_new` (1 in the first row of an incident, which is worth an alert, else 0), and `reason`
//! in words where it is an anomaly. A row whose number is missing or infinite gets none of them.
//!
//! `stats by (_time:5m)` makes no row for a step without lines. With `step`, such a step counts as
//! the number 0 and becomes a row, up to the last time of all series: so silence is seen. A pause
//! of more than [`STEPS_FILLED_MAX`] steps stays a pause.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use analysis::anomaly::Detector;
use text::duration::format_duration;
use text::time::write_time;

use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use super::shown::Shown;
use super::timed_rows::{TIME, TimedRow, TimedRows};
use super::{parse_by, write_names};
use crate::base::number::{parse_quantity, write_number};
use crate::base::time::parse_duration;
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{Block, MadeRow};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// Most steps of a pause that become rows: more than a month of five-minute steps. A longer pause
/// is no silence of a series, but its absence.
const STEPS_FILLED_MAX: i64 = 10_000;

/// Fields of the results that are numbers.
const NUMBERS: [&str; 5] = ["expected", "low", "high", "anomaly", "anomaly_new"];
/// Field of the reason.
const REASON: &str = "reason";

/// The `anomalies` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomalies {
    /// The fields whose values form series.
    pub by: Vec<String>,
    /// The field of the number.
    pub field: String,
    /// Length of a step in nanoseconds, where steps without a row count as 0.
    pub step_ns: Option<i64>,
}

pub(super) static ANOMALIES: Registration = Registration {
    doc: Documentation {
        name: "anomalies",
        aliases: &[],
        syntax: "anomalies [by (<field>, …)] <field> [step <duration>]",
        summary: "adds to each row how unusual its number is: the expected number, a score, and \
                  the reason",
        example: "anomalies by (host) hits step 5m",
    },
    parse: |cursor| parse(cursor).map(one),
};

const STEP: &str = "the step of stats, such as 5m";

fn parse(cursor: &mut Cursor<'_>) -> Result<Anomalies, ParseError> {
    let grouped = cursor.eat_keyword("by") || cursor.peek() == Some('(');
    let by = if grouped { parse_by(cursor)? } else { Vec::new() };
    let position = cursor.position();
    let field = cursor.expect_string(false, "the field of the number")?.text;
    if by.contains(&field) || field == TIME {
        let message =
            format!("\"{field}\" cannot be both the number and a field that distinguishes series");
        return Err(cursor.error_at(position, &["another field"], message));
    }
    let mut step_ns = None;
    if cursor.eat_keyword("step") {
        let written = cursor.run("|)", STEP)?;
        step_ns = parse_duration(&written.text).filter(|ns| *ns > 0);
        if step_ns.is_none() {
            return Err(cursor.error_at(written.position, &[STEP], "this is not a step"));
        }
    }
    Ok(Anomalies { by, field, step_ns })
}

impl fmt::Display for Anomalies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anomalies ")?;
        if !self.by.is_empty() {
            write!(f, "by ({}) ", write_names(&self.by))?;
        }
        f.write_str(&quote_name(&self.field))?;
        self.step_ns.map_or(Ok(()), |ns| write!(f, " step {}", format_duration(ns)))
    }
}

impl Operator for Anomalies {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        NUMBERS.iter().chain(&[REASON]).for_each(|name| wanted.remove(name));
        wanted.add_all(&self.by);
        wanted.add(&self.field);
        wanted.add(TIME);
        wanted
    }

    fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        Box::new(AnomalyRows { pipe: self.clone(), rows: TimedRows::new(&self.by, carried) })
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        let mut labels = shown.labels().into_iter().filter(|name| name != TIME);
        let complete = labels.all(|name| self.by.contains(&name));
        if !complete || !self.by.iter().all(|name| shown.is_label(name)) {
            return Err("must be grouped by the fields of the stats pipe".to_owned());
        }
        NUMBERS.iter().for_each(|name| shown.add_value(name));
        Ok(())
    }
}

/// The running pipe.
struct AnomalyRows {
    pipe: Anomalies,
    rows: TimedRows,
}

impl Processor for AnomalyRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        self.rows.push(&block, next)?;
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let names = Names::new(&self.pipe);
        let last_ns = self.rows.last_time_ns();
        // One series after the other: there is one detector at a time.
        next.meter().take(Detector::BYTES_MAX)?;
        self.rows.finish(next, |rows, next| {
            if let (Some(step_ns), Some(last_ns)) = (self.pipe.step_ns, last_ns) {
                add_silent_steps(rows, step_ns, last_ns, &self.pipe, &names, next)?;
            }
            let mut detector = Detector::new();
            for (place, (time_ns, row)) in rows.iter_mut().enumerate() {
                if place % CHECK_ROWS == CHECK_ROWS - 1 {
                    next.check()?;
                }
                judge(&mut detector, *time_ns, row, &self.pipe.field, &names, next.meter())?;
            }
            Ok(())
        })?;
        next.meter().give_back(Detector::BYTES_MAX);
        Ok(())
    }
}

/// Names of fields, shared by all rows.
struct Names {
    numbers: [Arc<str>; NUMBERS.len()],
    reason: Arc<str>,
    time: Arc<str>,
    field: Arc<str>,
    by: Vec<Arc<str>>,
}

impl Names {
    fn new(pipe: &Anomalies) -> Names {
        Names {
            numbers: NUMBERS.map(Arc::from),
            reason: REASON.into(),
            time: TIME.into(),
            field: pipe.field.as_str().into(),
            by: pipe.by.iter().map(|name| name.as_str().into()).collect(),
        }
    }
}

/// Adds to a row what the detector says of it.
fn judge(
    detector: &mut Detector,
    time_ns: Option<i64>,
    row: &mut MadeRow,
    field: &str,
    names: &Names,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let number = parse_quantity(row.get(field)).filter(|number| number.is_finite());
    // What lines have in fields of these names is no verdict. Names of series stay.
    for name in names.numbers.iter().chain([&names.reason]) {
        if !row.get(name).is_empty() && !names.by.contains(name) {
            row.set_counted(name, b"", meter)?;
        }
    }
    let (Some(time_ns), Some(number)) = (time_ns, number) else { return Ok(()) };
    let verdict = detector.observe(time_ns, number);
    let is_new = f64::from(u8::from(verdict.is_alert()));
    let results = [verdict.expected, verdict.low, verdict.high, verdict.score, is_new];
    let mut text = Vec::new();
    for (name, result) in names.numbers.iter().zip(results) {
        text.clear();
        write_number(rounded(result), &mut text);
        row.set_counted(name, &text, meter)?;
    }
    match verdict.reason {
        Some(reason) => row.set_counted(&names.reason, reason.to_string().as_bytes(), meter),
        None => Ok(()),
    }
}

/// A number with four significant digits: estimates are no more exact.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// Adds rows with the number 0 for the steps of a series without a row, until `last_ns`.
fn add_silent_steps(
    rows: &mut Vec<TimedRow>,
    step_ns: i64,
    last_ns: i64,
    pipe: &Anomalies,
    names: &Names,
    next: &mut Next<'_>,
) -> Result<(), RunError> {
    let times: Vec<i64> = rows.iter().filter_map(|(time_ns, _)| *time_ns).collect();
    let ends = times.iter().skip(1).copied().chain([last_ns.saturating_add(1)]);
    let mut silent = Vec::new();
    for (&from, to) in times.iter().zip(ends) {
        let missing = to.saturating_sub(1).saturating_sub(from) / step_ns;
        if missing > STEPS_FILLED_MAX {
            continue;
        }
        for step in 1..=missing {
            let time_ns = from.saturating_add(step * step_ns);
            let row = silent_row(time_ns, &rows[0].1, pipe, names, next.meter())?;
            next.meter().take(size_of::<TimedRow>())?;
            silent.push((Some(time_ns), row));
        }
        next.check()?;
    }
    rows.append(&mut silent);
    rows.sort_by_key(|(time_ns, _)| (time_ns.is_none(), *time_ns));
    Ok(())
}

/// A row of the series of `sample`, with the number 0.
fn silent_row(
    time_ns: i64,
    sample: &MadeRow,
    pipe: &Anomalies,
    names: &Names,
    meter: &mut Meter,
) -> Result<MadeRow, RunError> {
    let mut row = MadeRow::default();
    let mut time = Vec::new();
    write_time(time_ns, &mut time);
    row.set_counted(&names.time, &time, meter)?;
    for (name, shared) in pipe.by.iter().zip(&names.by) {
        row.set_counted(shared, sample.get(name), meter)?;
    }
    row.set_counted(&names.field, b"0", meter)?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use crate::base::{Limits, RunError};
    use crate::lang::context::Context;
    use crate::testing::{Memory, batch, check_pipe, record};
    use crate::{Query, StatsQuery};

    const MINUTE_NS: i64 = 60_000_000_000;

    /// A line a minute and more by turns for `minutes`, but none in `silent`, of host `a`; one line
    /// of host `b` in the last minute.
    fn lines(minutes: i64, silent: std::ops::Range<i64>) -> Vec<crate::testing::Record> {
        let heard = (0..minutes).filter(|minute| !silent.contains(minute));
        let lines = heard.flat_map(|minute| {
            (0..20 + minute % 3).map(move |i| record(minute * MINUTE_NS + i, &[("host", "a")]))
        });
        lines.chain([record((minutes - 1) * MINUTE_NS, &[("host", "b")])]).collect()
    }

    #[test]
    fn silence_is_seen_with_a_step() {
        let lines = lines(100, 95..98);
        check_pipe(
            &lines,
            "stats by (_time:1m, host) count() n | anomalies by (host) n step 1m | anomaly_new:1 \
             | copy _time at | fields at, host, n, reason",
            &["at=1970-01-01T01:35:00Z host=a n=0 reason=silent: 0, where 20 to 22 are usual"],
        );
        check_pipe(
            &lines,
            "stats by (_time:1m, host) count() n | anomalies by (host) n | stats count() rows, max(anomaly_new) a",
            &["rows=98 a=0"],
        );
    }

    #[test]
    fn a_series_that_ends_is_silent() {
        check_pipe(
            &lines(100, 95..100),
            "stats by (_time:1m, host) count() n | anomalies by (host) n step 1m \
             | filter host:a n:0 | stats count() rows, max(anomaly_new) a",
            &["rows=5 a=1"],
        );
    }

    #[test]
    fn a_long_pause_stays_one() {
        let day = 1_440;
        let records = [record(0, &[]), record(7 * day * MINUTE_NS, &[])];
        let count = |step: &str, rows: &str| {
            let pipes = format!(
                "stats by (_time:1m) count() n | anomalies n step {step} | stats count() rows"
            );
            check_pipe(&records, &pipes, &[rows]);
        };
        count("1m", "rows=2");
        count("1h", "rows=169");
    }

    #[test]
    fn rows_without_a_number_stay_as_they_are() {
        check_pipe(
            &[record(1, &[("n", "x")]), record(2, &[("n", "inf")]), record(3, &[("n", "5")])],
            "anomalies n | fields n, expected, low, high, anomaly, anomaly_new, reason",
            &["n=x", "n=inf", "n=5 expected=5 low=5 high=5 anomaly=0 anomaly_new=0"],
        );
    }

    #[test]
    fn fields_of_lines_with_names_of_results_are_no_verdicts() {
        let of = |time_ns, n: &str| record(time_ns, &[("n", n), ("reason", "BackOff")]);
        let records = [of(1, "x"), of(2, "5")];
        check_pipe(
            &records,
            "anomalies n | delete low, high",
            &["n=x", "n=5 expected=5 anomaly=0 anomaly_new=0"],
        );
        check_pipe(&records, "anomalies n | filter reason:*", &[]);
        check_pipe(
            &records,
            "anomalies by (reason) n | fields n, reason",
            &["n=x reason=BackOff", "n=5 reason=BackOff"],
        );
    }

    #[test]
    fn its_numbers_have_the_shape_of_prometheus() {
        let source = Memory::of(&lines(60, 0..0));
        let text = "* | stats by (host) count() n | anomalies by (host) n";
        let query = StatsQuery::new(&Query::parse(text, 0).unwrap(), Some((MINUTE_NS, 0))).unwrap();
        assert_eq!(query.labels(), ["host"]);
        assert_eq!(query.functions(), ["n", "expected", "low", "high", "anomaly", "anomaly_new"]);
        assert_eq!(query.run(&source, &Context::default()).unwrap().len(), 61);
        let ungrouped = Query::parse("* | stats by (host) count() n | anomalies n", 0).unwrap();
        assert!(StatsQuery::new(&ungrouped, None).is_err());
    }

    #[test]
    fn what_it_needs_is_read_and_counted() {
        let query = |text: &str| Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
        let needed = query("* | anomalies by (h) x | fields anomaly, reason").needed_fields(&[]);
        for (name, expected) in [("h", true), ("x", true), ("_time", true), ("anomaly", false)] {
            assert_eq!(needed.contains(name), expected, "{name}");
        }
        let source = Memory::new(vec![batch(1, &lines(1_000, 0..0))]);
        for (memory_bytes_max, fits) in [(8 << 20, true), (100_000, false)] {
            let limits = Limits { memory_bytes_max, ..Limits::default() };
            let context = Context { limits, ..Context::default() };
            let query =
                query("* | stats by (_time:1m, host) count() n | anomalies by (host) n step 10s");
            let result = crate::dist::run(&query, &source, &context, &mut |_| {
                std::ops::ControlFlow::Continue(())
            });
            assert_eq!(result.is_ok(), fits, "{memory_bytes_max} {result:?}");
            assert!(fits || matches!(result, Err(RunError::MemoryLimit(_))));
        }
        for wrong in ["anomalies", "anomalies by (a) a", "anomalies _time", "anomalies n step 0"] {
            assert!(Query::parse(&format!("* | {wrong}"), 0).is_err(), "{wrong}");
        }
    }
}
