//! `_time:…`: filters on the time of events. A duration up to now, a whole year, month, day, hour,
//! minute or second, an interval, or a comparison; each may be moved back by an `offset`.
//!
//! Times are parsed relative to the time of the query, and printed as the resulting instants. A
//! time without a zone is UTC. Time filters outside of OR and NOT decide which parts of the store
//! are read.

use std::fmt;

use text::time::{Instants, format_time};

use super::{Filter, Recurring, day_range, week_range};
use crate::base::TimeRange;
use crate::base::time::{parse_duration, parse_time};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

const TIME: &str = "a time such as 2026-01-31T12:00Z";
const DURATION: &str = "a duration such as 5m";

pub(super) fn parse_time_filter(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    if cursor.eat('*') {
        return Ok(Filter::All);
    }
    if cursor.eat_keyword("day_range") {
        return Ok(Filter::Recurring(Recurring::Day(day_range::parse(cursor)?)));
    }
    if cursor.eat_keyword("week_range") {
        return Ok(Filter::Recurring(Recurring::Week(week_range::parse(cursor)?)));
    }
    let range = match cursor.peek() {
        Some('[' | '(') => parse_interval(cursor)?,
        Some('<' | '>') => parse_comparison(cursor)?,
        _ if cursor.peek_word(false).eq_ignore_ascii_case("offset") => {
            TimeRange { start_ns: i64::MIN, end_ns: cursor.now_ns.saturating_add(1) }
        }
        _ => parse_period(cursor)?,
    };
    let offset = parse_offset(cursor)?.saturating_add(cursor.inherited.time_offset_ns);
    let shifted =
        |ns: i64| if matches!(ns, i64::MIN | i64::MAX) { ns } else { ns.saturating_sub(offset) };
    Ok(Filter::Time(TimeRange { start_ns: shifted(range.start_ns), end_ns: shifted(range.end_ns) }))
}

/// `offset 2h`, in nanoseconds; 0 when there is none.
pub(super) fn parse_offset(cursor: &mut Cursor<'_>) -> Result<i64, ParseError> {
    if cursor.eat_keyword("offset") { parse_duration_argument(cursor) } else { Ok(0) }
}

/// Parses a duration up to now, or a whole year, month, …, second.
fn parse_period(cursor: &mut Cursor<'_>) -> Result<TimeRange, ParseError> {
    cursor.eat('=');
    let written = cursor.run(")|,]", DURATION)?;
    let now_ns = cursor.now_ns;
    if let Some(duration) = parse_duration(&written.text) {
        // This is (now - duration, now].
        let start_ns = now_ns.saturating_sub(duration.saturating_abs()).saturating_add(1);
        return Ok(TimeRange { start_ns, end_ns: now_ns.saturating_add(1) });
    }
    match parse_time(&written.text, now_ns) {
        Some(Instants { start_ns, end_ns }) => Ok(TimeRange { start_ns, end_ns }),
        None => Err(not_a_time(cursor, written.position, &[DURATION, TIME, "[from, to)"])),
    }
}

fn parse_interval(cursor: &mut Cursor<'_>) -> Result<TimeRange, ParseError> {
    let start_inside = cursor.eat('[');
    if !start_inside {
        cursor.expect('(', "the time range")?;
    }
    let start = parse_instants(cursor, ",")?;
    cursor.expect(',', "the time range")?;
    let end = parse_instants(cursor, "])")?;
    let end_inside = cursor.eat(']');
    if !end_inside {
        cursor.expect(')', "the time range")?;
    }
    // A bound that names a period stands for its beginning; as an inclusive end, for its end.
    let start_ns = if start_inside { start.start_ns } else { start.start_ns.saturating_add(1) };
    let end_ns = if end_inside { end.end_ns } else { end.start_ns };
    Ok(TimeRange { start_ns, end_ns })
}

fn parse_comparison(cursor: &mut Cursor<'_>) -> Result<TimeRange, ParseError> {
    let less = cursor.eat('<');
    if !less {
        cursor.eat('>');
    }
    let equal = cursor.eat_adjacent('=');
    let written = cursor.run(")|,]", TIME)?;
    let now_ns = cursor.now_ns;
    if let Some(duration) = parse_duration(&written.text) {
        // A duration is an age: older or younger than it.
        let at = now_ns.saturating_sub(duration.saturating_abs());
        return Ok(match (less, equal) {
            (true, true) => TimeRange { start_ns: at, end_ns: now_ns.saturating_add(1) },
            (true, false) => {
                TimeRange { start_ns: at.saturating_add(1), end_ns: now_ns.saturating_add(1) }
            }
            (false, true) => TimeRange { start_ns: i64::MIN, end_ns: at.saturating_add(1) },
            (false, false) => TimeRange { start_ns: i64::MIN, end_ns: at },
        });
    }
    let Some(at) = parse_time(&written.text, now_ns) else {
        return Err(not_a_time(cursor, written.position, &[TIME, DURATION]));
    };
    Ok(match (less, equal) {
        (true, true) => TimeRange { start_ns: i64::MIN, end_ns: at.end_ns },
        (true, false) => TimeRange { start_ns: i64::MIN, end_ns: at.start_ns },
        (false, true) => TimeRange { start_ns: at.start_ns, end_ns: i64::MAX },
        (false, false) => TimeRange { start_ns: at.start_ns.saturating_add(1), end_ns: i64::MAX },
    })
}

fn parse_instants(cursor: &mut Cursor<'_>, stops: &str) -> Result<Instants, ParseError> {
    let written = cursor.run(stops, TIME)?;
    parse_time(&written.text, cursor.now_ns)
        .ok_or_else(|| not_a_time(cursor, written.position, &[TIME, DURATION]))
}

/// Parses a duration, as behind `offset`.
pub(crate) fn parse_duration_argument(cursor: &mut Cursor<'_>) -> Result<i64, ParseError> {
    let written = cursor.run("()[]|,", DURATION)?;
    parse_duration(&written.text)
        .ok_or_else(|| cursor.error_at(written.position, &[DURATION], "this is not a duration"))
}

fn not_a_time(cursor: &Cursor<'_>, position: usize, expected: &[&str]) -> ParseError {
    cursor.error_at(position, expected, "this is not a time")
}

/// Prints a filter on the time.
pub(super) fn write(range: TimeRange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TimeRange { start_ns, end_ns } = range;
    match (start_ns == i64::MIN, end_ns == i64::MAX) {
        (true, _) if end_ns == i64::MAX => write!(f, "_time:<={}", format_time(i64::MAX)),
        (true, _) => write!(f, "_time:<{}", format_time(end_ns)),
        (false, true) => write!(f, "_time:>={}", format_time(start_ns)),
        (false, false) => write!(f, "_time:[{},{})", format_time(start_ns), format_time(end_ns)),
    }
}

#[cfg(test)]
mod tests {
    use text::duration::SECOND_NS;
    use text::time::format_time;

    use crate::Query;
    use crate::base::TimeRange;

    /// 2026-01-31T12:00:00Z.
    const NOW: i64 = 1_769_860_800 * SECOND_NS;

    fn check(filter: &str, start: &str, end: &str) {
        let query = Query::parse(filter, NOW).unwrap_or_else(|e| panic!("{e}"));
        let TimeRange { start_ns, end_ns } = query.filter().time_range();
        let shown = |ns: i64| match ns {
            i64::MIN | i64::MAX => "-".to_owned(),
            ns => format_time(ns),
        };
        assert_eq!((shown(start_ns).as_str(), shown(end_ns).as_str()), (start, end), "{filter}");
    }

    #[test]
    fn every_form_of_time() {
        check("_time:5m", "2026-01-31T11:55:00.000000001Z", "2026-01-31T12:00:00.000000001Z");
        check(
            "_time:1h offset 5m",
            "2026-01-31T10:55:00.000000001Z",
            "2026-01-31T11:55:00.000000001Z",
        );
        check("_time:offset 1h", "-", "2026-01-31T11:00:00.000000001Z");
        check("_time:2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z");
        check("_time:2026-01-31T12Z", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z");
        check("_time:2023-04-25+05:30", "2023-04-24T18:30:00Z", "2023-04-25T18:30:00Z");
        check("_time:[2026-01-01Z, 2026-01-30Z]", "2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z");
        check("_time:[2026-01-01,2026-01-30)", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z");
        check(
            "_time:(2026-01-01, 2026-01-30)",
            "2026-01-01T00:00:00.000000001Z",
            "2026-01-30T00:00:00Z",
        );
        check(
            "_time:[2023-02-01Z, 2023-03-01Z) offset 1w",
            "2023-01-25T00:00:00Z",
            "2023-02-22T00:00:00Z",
        );
        check("_time:>2026-01-01", "2026-01-01T00:00:00.000000001Z", "-");
        check("_time:>=2026-01-01", "2026-01-01T00:00:00Z", "-");
        check("_time:<2026-01-01", "-", "2026-01-01T00:00:00Z");
        check("_time:<=2026-01-01", "-", "2026-01-02T00:00:00Z");
        check("_time:>1h", "-", "2026-01-31T11:00:00Z");
        check("_time:>=1h", "-", "2026-01-31T11:00:00.000000001Z");
        check("_time:<1h", "2026-01-31T11:00:00.000000001Z", "2026-01-31T12:00:00.000000001Z");
        check("_time:<=1h", "2026-01-31T11:00:00Z", "2026-01-31T12:00:00.000000001Z");
        check("_time:2023-02-07:00", "2023-02-01T07:00:00Z", "2023-03-01T07:00:00Z");
        check("_time:2024Z offset 1d", "2023-12-31T00:00:00Z", "2024-12-31T00:00:00Z");
        check("_time:\"5m\"", "2026-01-31T11:55:00.000000001Z", "2026-01-31T12:00:00.000000001Z");
        check("_time:[now-2h, now]", "2026-01-31T10:00:00Z", "2026-01-31T12:00:00.000000001Z");
        check("_time:*", "-", "-");
    }

    #[test]
    fn times_in_logic() {
        check(
            "a _time:[2026-01-01,2026-02-01) (_time:>=2026-01-15 b)",
            "2026-01-15T00:00:00Z",
            "2026-02-01T00:00:00Z",
        );
        check(
            "_time:2026-01-01 or _time:2026-01-03",
            "2026-01-01T00:00:00Z",
            "2026-01-04T00:00:00Z",
        );
        check("_time:2026-01-01 or a", "-", "-");
        check("!_time:2026-01-01", "-", "-");
    }

    #[test]
    fn a_time_inside_or_selects_rows() {
        let records: Vec<_> = [NOW - 1, NOW, NOW + SECOND_NS]
            .iter()
            .map(|&t| crate::testing::record(t, &[("_msg", &format!("m{t}"))]))
            .collect();
        let found = crate::testing::rows_of(
            "_time:2026-01-31T12:00:00Z or _time:<2026-01-31T12Z",
            &records,
        );
        assert_eq!(found, [format!("_msg=m{}", NOW - 1), format!("_msg=m{NOW}")]);
        assert_eq!(crate::testing::rows_of("!_time:2026-01-31T12:00:00Z", &records).len(), 2);
    }
}
