//! `_time:day_range[08:00, 18:00) offset 2h`: events between two times of every day; `(` and `)`
//! exclude an end.
//!
//! The offset is that of the time zone from UTC; the default is 0. A range whose end is before its
//! beginning spans midnight.

use std::fmt;

use text::duration::{DAY_NS, MINUTE_NS, format_duration};

use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;

/// A part of every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    /// Its beginning, in minutes from midnight.
    pub start_minutes: u16,
    /// Whether its first instant is inside.
    pub start_inside: bool,
    /// Its end, in minutes from midnight; up to 1,440.
    pub end_minutes: u16,
    /// Whether its last instant is inside.
    pub end_inside: bool,
    /// Offset of the zone from UTC, east of it positive.
    pub offset_ns: i64,
}

impl DayRange {
    /// Whether an instant, in nanoseconds since 1970 UTC, is inside.
    #[inline]
    pub fn contains(&self, time_ns: i64) -> bool {
        let start = i64::from(self.start_minutes) * MINUTE_NS;
        let local = time_ns.rem_euclid(DAY_NS) + self.offset_ns.rem_euclid(DAY_NS);
        let since = (local - start).rem_euclid(DAY_NS);
        let minutes = match i64::from(self.end_minutes) - i64::from(self.start_minutes) {
            minutes if minutes < 0 => minutes + i64::from(DAY_MINUTES),
            minutes => minutes,
        };
        let length = minutes * MINUTE_NS;
        // The end of the day, 24:00, is midnight of the next, which is outside in any case.
        let end_inside = self.end_inside && self.end_minutes < DAY_MINUTES;
        (since > 0 || self.start_inside && (length > 0 || end_inside))
            && (since < length || end_inside && since == length)
    }
}

/// Parses the text behind `day_range`.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<DayRange, ParseError> {
    let start_inside = cursor.eat('[');
    if !start_inside {
        cursor.expect('(', "day_range[…)")?;
    }
    let start_minutes = parse_clock(cursor)?;
    cursor.expect(',', "day_range[…)")?;
    let end_minutes = parse_clock(cursor)?;
    let end_inside = cursor.eat(']');
    if !end_inside {
        cursor.expect(')', "day_range[…)")?;
    }
    let offset_ns = super::time::parse_offset(cursor)?;
    Ok(DayRange { start_minutes, start_inside, end_minutes, end_inside, offset_ns })
}

/// Parses `hh:mm` as minutes from midnight.
fn parse_clock(cursor: &mut Cursor<'_>) -> Result<u16, ParseError> {
    let what = "a time of day such as 08:00";
    let written = cursor.run(",()[]|", what)?;
    let two = |text: &str| match text.as_bytes() {
        [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => text.parse::<u16>().ok(),
        _ => None,
    };
    let minutes = written
        .text
        .split_once(':')
        .and_then(|(hours, minutes)| Some((two(hours)?, two(minutes)?)))
        .filter(|(_, minutes)| *minutes < 60)
        .map(|(hours, minutes)| hours * 60 + minutes);
    minutes
        .filter(|minutes| *minutes <= DAY_MINUTES)
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a time of day"))
}

impl fmt::Display for DayRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let open = if self.start_inside { '[' } else { '(' };
        let close = if self.end_inside { ']' } else { ')' };
        let (start, end) = (clock(self.start_minutes), clock(self.end_minutes));
        write!(f, "_time:day_range{open}{start}, {end}{close}")?;
        match self.offset_ns {
            0 => Ok(()),
            offset_ns => write!(f, " offset {}", format_duration(offset_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::parse_time;
    use crate::testing::{record, rows_of};

    fn check(filter: &str, inside: &[&str], outside: &[&str]) {
        let times = inside.iter().map(|t| (t, true)).chain(outside.iter().map(|t| (t, false)));
        for (clock, expected) in times {
            let time = parse_time(&format!("2026-01-31T{clock}Z"), 0).unwrap().start_ns;
            let found = !rows_of(filter, &[record(time, &[("_msg", "x")])]).is_empty();
            assert_eq!(found, expected, "{filter} at {clock}");
        }
    }

    #[test]
    fn parts_of_days() {
        check(
            "_time:day_range[08:00, 18:00)",
            &["08:00:00", "17:59:59.999999999", "12:00:00"],
            &["18:00:00", "07:59:59.999999999", "00:00:00"],
        );
        check(
            "_time:day_range(08:00, 18:00]",
            &["08:00:00.000000001", "18:00:00"],
            &["08:00:00", "18:00:00.000000001"],
        );
        check(
            "_time:day_range[08:00, 18:00) offset 2h",
            &["06:00:00", "15:59:59"],
            &["05:59:59", "16:00:00"],
        );
        check("_time:day_range[00:00, 24:00]", &["00:00:00", "23:59:59.999999999"], &[]);
        check("_time:day_range[23:00, 24:00]", &["23:59:59.999999999"], &["00:00:00"]);
        check(
            "_time:day_range[22:00, 06:00)",
            &["23:00:00", "05:59:59"],
            &["06:00:00", "21:59:59"],
        );
        check("_time:day_range[08:00, 08:00]", &["08:00:00"], &["08:00:00.000000001"]);
        check("_time:day_range[08:00, 08:00)", &[], &["08:00:00", "12:00:00"]);
        check("x _time:day_range[08:00, 18:00) offset -1h", &["09:00:00"], &["08:59:59"]);
    }
}
