//! Functions of a series, which compute a result from the number of a row and the numbers of the
//! rows before it.
//!
//! `derivative(n)`, `rate(n)`, `difference(n, 1d)`, `shift(n, 1d)` and `moving_avg(n, 1h)`,
//! `moving_sum`, `moving_min`, `moving_max` for `running_stats`; `share(n)` for `total_stats`. A
//! span is a number of rows, or a duration. A value that is not a finite number is left out, and a
//! result that cannot be computed is empty.

use std::fmt;

use text::duration::format_duration;

use crate::base::time::parse_duration;
use crate::base::{Meter, RunError};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Most rows of a span.
const SPAN_ROWS_MAX: u32 = 1_000_000_000;

/// How far back a function looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A number of rows.
    Rows(u32),
    /// A time, nanoseconds.
    Time(i64),
}

/// What is computed over a moving window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    /// The mean.
    Avg,
    /// The greatest number.
    Max,
    /// The least number.
    Min,
    /// The sum.
    Sum,
}

/// A function of the numbers of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesFunction {
    /// Change since the previous number, per second.
    Derivative,
    /// As `Derivative`, for a counter: where the number falls, the counter has been reset to zero.
    Rate,
    /// The number minus the number one span before.
    Difference(Span),
    /// The number one span before, of the row at exactly that time.
    Shift(Span),
    /// The numbers of the window that ends with the row.
    Moving(Moving, Span),
    /// Percent of the sum of all numbers.
    Share,
}

/// Names of the functions of `running_stats`.
pub(super) const RUNNING_NAMES: [&str; 8] = [
    "derivative",
    "difference",
    "moving_avg",
    "moving_max",
    "moving_min",
    "moving_sum",
    "rate",
    "shift",
];
/// Names of the functions of `total_stats`.
pub(super) const TOTAL_NAMES: [&str; 1] = ["share"];

const SPAN: &str = "a number of rows such as 12, or a duration such as 1h";

impl SeriesFunction {
    /// Parses the arguments behind the field, and the closing parenthesis.
    pub(super) fn parse_rest(
        name: &str,
        cursor: &mut Cursor<'_>,
    ) -> Result<SeriesFunction, ParseError> {
        let one_row = Some(Span::Rows(1));
        let function = match name {
            "difference" => SeriesFunction::Difference(parse_span(cursor, one_row)?),
            "shift" => SeriesFunction::Shift(parse_span(cursor, one_row)?),
            "moving_avg" => SeriesFunction::Moving(Moving::Avg, parse_span(cursor, None)?),
            "moving_max" => SeriesFunction::Moving(Moving::Max, parse_span(cursor, None)?),
            "moving_min" => SeriesFunction::Moving(Moving::Min, parse_span(cursor, None)?),
            "moving_sum" => SeriesFunction::Moving(Moving::Sum, parse_span(cursor, None)?),
            "rate" => SeriesFunction::Rate,
            "share" => SeriesFunction::Share,
            _ => SeriesFunction::Derivative,
        };
        cursor.expect(')', name)?;
        Ok(function)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            SeriesFunction::Derivative => "derivative",
            SeriesFunction::Difference(_) => "difference",
            SeriesFunction::Moving(Moving::Avg, _) => "moving_avg",
            SeriesFunction::Moving(Moving::Max, _) => "moving_max",
            SeriesFunction::Moving(Moving::Min, _) => "moving_min",
            SeriesFunction::Moving(Moving::Sum, _) => "moving_sum",
            SeriesFunction::Rate => "rate",
            SeriesFunction::Shift(_) => "shift",
            SeriesFunction::Share => "share",
        }
    }

    /// Whether only the differences between numbers matter, so that the same amount may be taken
    /// off all of them.
    pub(super) fn depends_on_changes(self) -> bool {
        matches!(self, SeriesFunction::Derivative | SeriesFunction::Difference(_))
    }

    /// Writes the arguments behind the field.
    pub(super) fn write_rest(self, out: &mut String) {
        if let SeriesFunction::Difference(span)
        | SeriesFunction::Shift(span)
        | SeriesFunction::Moving(_, span) = self
        {
            out.push_str(&format!(", {span}"));
        }
    }

    /// The result for each point of a series in the order of time. The caller has counted the
    /// memory of the results ([`RESULT_BYTES`] each); working memory is counted here.
    pub(super) fn results(
        self,
        points: &[Point],
        meter: &mut Meter,
    ) -> Result<Vec<Option<f64>>, RunError> {
        Ok(match self {
            SeriesFunction::Derivative => change_per_second(points, |change, _| change),
            SeriesFunction::Rate => {
                change_per_second(points, |change, now| if change < 0.0 { now } else { change })
            }
            SeriesFunction::Shift(span) => shifted(points, span),
            SeriesFunction::Difference(span) => {
                let before = shifted(points, span).into_iter().zip(points);
                before.map(|(before, point)| Some(point.1? - before?)).collect()
            }
            SeriesFunction::Moving(moving, span) => {
                let bytes = points.len() * size_of::<Folded>();
                meter.take(bytes)?;
                let results = moving_results(points, moving, span);
                meter.give_back(bytes);
                results
            }
            SeriesFunction::Share => {
                let sum: f64 = points.iter().filter_map(|point| point.1).sum();
                let share = |number: f64| (sum != 0.0).then(|| 100.0 * number / sum);
                points.iter().map(|point| point.1.and_then(share)).collect()
            }
        })
    }
}

/// Time and number of a row, if it has them.
pub(super) type Point = (Option<i64>, Option<f64>);
/// Memory of a result.
pub(super) const RESULT_BYTES: usize = size_of::<Option<f64>>();

fn parse_span(cursor: &mut Cursor<'_>, default: Option<Span>) -> Result<Span, ParseError> {
    if !cursor.eat(',') {
        return default.ok_or_else(|| cursor.error(&[SPAN], "the span is missing"));
    }
    let written = cursor.run("()[]|,", SPAN)?;
    let rows = written.text.parse().ok().filter(|rows| (1..=SPAN_ROWS_MAX).contains(rows));
    let time = || parse_duration(&written.text).filter(|ns| *ns > 0).map(Span::Time);
    rows.map(Span::Rows).or_else(time).ok_or_else(|| {
        let message = format!("\"{}\" is no span", written.text);
        cursor.error_at(written.position, &[SPAN], message)
    })
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Rows(rows) => write!(f, "{rows}"),
            Span::Time(ns) => f.write_str(&format_duration(*ns)),
        }
    }
}

/// The change since the last number, per second, after `corrected(change, number)`.
fn change_per_second(points: &[Point], corrected: fn(f64, f64) -> f64) -> Vec<Option<f64>> {
    let mut last: Option<(i64, f64)> = None;
    let of = |&(time_ns, number): &Point| {
        let now = (time_ns?, number?);
        let (before_ns, before) = last.replace(now)?;
        let seconds = now.0.saturating_sub(before_ns) as f64 / 1e9;
        (seconds > 0.0).then(|| corrected(now.1 - before, now.1) / seconds)
    };
    points.iter().map(of).collect()
}

/// For each row, the number of the row one span before.
fn shifted(points: &[Point], span: Span) -> Vec<Option<f64>> {
    match span {
        Span::Rows(rows) => {
            let rows = rows as usize;
            (0..points.len()).map(|index| points.get(index.checked_sub(rows)?)?.1).collect()
        }
        Span::Time(ns) => {
            let mut candidate = 0;
            let of = |&(time_ns, _): &Point| {
                let wanted = time_ns?.saturating_sub(ns);
                while points[candidate].0.is_some_and(|time_ns| time_ns < wanted) {
                    candidate += 1;
                }
                let (found_ns, number) = points[candidate];
                number.filter(|_| found_ns == Some(wanted))
            };
            points.iter().map(of).collect()
        }
    }
}

/// The numbers of a part of a window, folded. A number is never subtracted again, because a sum
/// would keep the rounding error of a huge number.
#[derive(Clone, Copy)]
struct Folded {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Folded {
    const NONE: Folded = Folded { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn of(number: Option<f64>) -> Folded {
        number.map_or(Folded::NONE, |n| Folded { count: 1, sum: n, min: n, max: n })
    }

    fn with(self, other: Folded) -> Folded {
        Folded {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    fn result(self, moving: Moving) -> Option<f64> {
        let result = match moving {
            Moving::Avg => self.sum / self.count as f64,
            Moving::Max => self.max,
            Moving::Min => self.min,
            Moving::Sum => self.sum,
        };
        (self.count > 0).then_some(result)
    }
}

/// The fold of the window of each row, in amortised constant time. The window is split into an
/// older and a newer part. `ends` has the fold of the older part from each of its rows on, so that
/// rows leave it without subtraction.
fn moving_results(points: &[Point], moving: Moving, span: Span) -> Vec<Option<f64>> {
    let mut ends = vec![Folded::NONE; points.len()];
    // The window is `start..=index`. The older part is `start..middle`, where `ends` is known.
    let (mut start, mut middle, mut newer) = (0, 0, Folded::NONE);
    let mut results = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        newer = newer.with(Folded::of(point.1));
        let outside = |start: usize| match span {
            Span::Rows(rows) => index - start >= rows as usize,
            Span::Time(ns) => match (points[start].0, point.0) {
                (Some(first), Some(now)) => now.saturating_sub(first) >= ns,
                // Rows without a time come last, each in a window of its own.
                (_, None) => start < index,
                (None, Some(_)) => false,
            },
        };
        while outside(start) {
            if start == middle {
                let mut fold = Folded::NONE;
                for place in (start..=index).rev() {
                    fold = Folded::of(points[place].1).with(fold);
                    ends[place] = fold;
                }
                (middle, newer) = (index + 1, Folded::NONE);
            }
            start += 1;
        }
        let older = if start < middle { ends[start] } else { Folded::NONE };
        results.push(older.with(newer).result(moving));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;

    fn results(function: SeriesFunction, points: &[Point]) -> Vec<Option<f64>> {
        function.results(points, &mut Context::default().meter()).unwrap()
    }

    /// Points with a second between them.
    fn seconds(numbers: &[f64]) -> Vec<Point> {
        let of = |(second, number): (usize, &f64)| {
            (Some(second as i64 * 1_000_000_000), (!number.is_nan()).then_some(*number))
        };
        numbers.iter().enumerate().map(of).collect()
    }

    #[test]
    fn changes_are_per_second() {
        let mut points = seconds(&[10.0, 30.0, f64::NAN, 20.0, 25.0]);
        points.push((points[4].0, Some(99.0)));
        points.push((None, Some(7.0)));
        let derivative = results(SeriesFunction::Derivative, &points);
        let expected = [None, Some(20.0), None, Some(-5.0), Some(5.0), None, None];
        assert_eq!(derivative, expected);
        let rate = results(SeriesFunction::Rate, &points);
        assert_eq!(rate[1..5], [Some(20.0), None, Some(10.0), Some(5.0)]);
    }

    #[test]
    fn numbers_of_before() {
        let points = seconds(&[1.0, 2.0, f64::NAN, 8.0]);
        let shift = |span| results(SeriesFunction::Shift(span), &points);
        assert_eq!(shift(Span::Rows(1)), [None, Some(1.0), Some(2.0), None]);
        assert_eq!(shift(Span::Rows(9)), [None; 4]);
        assert_eq!(shift(Span::Time(2_000_000_000)), [None, None, Some(1.0), Some(2.0)]);
        assert_eq!(shift(Span::Time(1_500_000_000)), [None; 4]);
        assert_eq!(shift(Span::Time(i64::MAX)), [None; 4]);
        let difference = results(SeriesFunction::Difference(Span::Rows(2)), &points);
        assert_eq!(difference, [None, None, None, Some(6.0)]);
    }

    #[test]
    fn windows_equal_those_computed_anew() {
        let number = |i: usize| match i % 7 {
            3 => f64::NAN,
            5 => -(i as f64),
            _ => (i * i % 13) as f64,
        };
        let mut points = seconds(&(0..60).map(number).collect::<Vec<_>>());
        points.retain(|point| point.0.is_some_and(|ns| ns % 11_000_000_000 != 0));
        points.extend([(None, Some(3.0)), (None, Some(4.0))]);
        for span in [Span::Rows(1), Span::Rows(4), Span::Rows(99), Span::Time(5_000_000_000)] {
            for moving in [Moving::Avg, Moving::Max, Moving::Min, Moving::Sum] {
                let anew = |index: usize| {
                    let window = (0..=index).filter(|&start| match (span, points[index].0) {
                        (Span::Rows(rows), _) => index - start < rows as usize,
                        (Span::Time(_), None) => start == index,
                        (Span::Time(ns), Some(now)) => {
                            points[start].0.is_some_and(|first| now - first < ns)
                        }
                    });
                    let folds = window.map(|place| Folded::of(points[place].1));
                    folds.fold(Folded::NONE, Folded::with).result(moving)
                };
                let expected: Vec<_> = (0..points.len()).map(anew).collect();
                assert_eq!(results(SeriesFunction::Moving(moving, span), &points), expected);
            }
        }
    }

    #[test]
    fn shares_are_percent_of_all() {
        let share = |numbers: &[f64]| results(SeriesFunction::Share, &seconds(numbers));
        assert_eq!(share(&[1.0, f64::NAN, 3.0]), [Some(25.0), None, Some(75.0)]);
        assert_eq!(share(&[1.0, -1.0]), [None, None]);
        assert_eq!(share(&[]), []);
    }
}
