//! Reads what stands behind `_time:`.

use super::Filter;
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::source::TimeRange;
use crate::time::{Instants, parse_duration, parse_time};

const TIME: &str = "a time such as 2026-01-31T12:00Z";
const DURATION: &str = "a duration such as 5m";

pub(super) fn parse_time_filter(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    if cursor.eat('*') {
        return Ok(Filter::All);
    }
    let range = match cursor.peek() {
        Some('[' | '(') => parse_interval(cursor)?,
        Some('<' | '>') => parse_comparison(cursor)?,
        _ if cursor.peek_word(false).eq_ignore_ascii_case("offset") => {
            TimeRange { start_ns: i64::MIN, end_ns: cursor.now_ns.saturating_add(1) }
        }
        _ => parse_period(cursor)?,
    };
    if !cursor.eat_keyword("offset") {
        return Ok(Filter::Time(range));
    }
    let offset = parse_duration_argument(cursor)?;
    let shifted =
        |ns: i64| if matches!(ns, i64::MIN | i64::MAX) { ns } else { ns.saturating_sub(offset) };
    Ok(Filter::Time(TimeRange { start_ns: shifted(range.start_ns), end_ns: shifted(range.end_ns) }))
}

/// A duration up to now, or a year, month, …, second as a whole.
fn parse_period(cursor: &mut Cursor<'_>) -> Result<TimeRange, ParseError> {
    cursor.eat('=');
    let written = cursor.run(")|,]", DURATION)?;
    let now_ns = cursor.now_ns;
    if let Some(duration) = parse_duration(&written.text) {
        // As (now - duration, now].
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
    // A bound that names a period begins with it, and as an inclusive end, ends with it.
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
        // Ages: older or younger than the duration.
        let at = now_ns.saturating_sub(duration.saturating_abs());
        return Ok(match (less, equal) {
            (true, true) => TimeRange { start_ns: at, end_ns: i64::MAX },
            (true, false) => TimeRange { start_ns: at.saturating_add(1), end_ns: i64::MAX },
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

/// Reads a duration, as behind `offset`.
pub(crate) fn parse_duration_argument(cursor: &mut Cursor<'_>) -> Result<i64, ParseError> {
    let written = cursor.run("()[]|,", DURATION)?;
    parse_duration(&written.text)
        .ok_or_else(|| cursor.error_at(written.position, &[DURATION], "not a duration"))
}

fn not_a_time(cursor: &Cursor<'_>, position: usize, expected: &[&str]) -> ParseError {
    cursor.error_at(position, expected, "not a time")
}
