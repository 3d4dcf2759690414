//! `_time:week_range[Mon, Fri] offset 2h`: events on these days of every week; `(` and `)` exclude
//! an end.
//!
//! The offset is that of the time zone from UTC; the default is 0. The week begins on Sunday. A
//! range whose last day comes before its first day continues into the next week: `[Sat, Sun]` is
//! the weekend.

use std::fmt;

use text::duration::{DAY_NS, format_duration};

use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The full names of the days; three letters are enough.
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// 1970-01-01 was a Thursday.
const FIRST_DAY: i64 = 4;
const WEEK_NS: i64 = 7 * DAY_NS;

/// Some days of every week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeekRange {
    /// The first day, 0 for Sunday to 6.
    pub first: u8,
    /// Whether the first day is inside.
    pub first_inside: bool,
    /// The last day.
    pub last: u8,
    /// Whether the last day is inside.
    pub last_inside: bool,
    /// Offset of the zone from UTC, east of it positive.
    pub offset_ns: i64,
}

impl WeekRange {
    /// Whether an instant, in nanoseconds since 1970 UTC, is inside.
    #[inline]
    pub fn contains(&self, time_ns: i64) -> bool {
        let local = time_ns.rem_euclid(WEEK_NS) + self.offset_ns.rem_euclid(WEEK_NS);
        let day = (local / DAY_NS + FIRST_DAY) % 7;
        let since = (day - i64::from(self.first)).rem_euclid(7) as u8;
        let length = (self.last + 7 - self.first) % 7;
        since <= length && (since > 0 || self.first_inside) && (since < length || self.last_inside)
    }
}

/// Parses the text behind `week_range`.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<WeekRange, ParseError> {
    let first_inside = cursor.eat('[');
    if !first_inside {
        cursor.expect('(', "week_range[…]")?;
    }
    let first = parse_day(cursor)?;
    cursor.expect(',', "week_range[…]")?;
    let last = parse_day(cursor)?;
    let last_inside = cursor.eat(']');
    if !last_inside {
        cursor.expect(')', "week_range[…]")?;
    }
    let offset_ns = super::time::parse_offset(cursor)?;
    Ok(WeekRange { first, first_inside, last, last_inside, offset_ns })
}

fn parse_day(cursor: &mut Cursor<'_>) -> Result<u8, ParseError> {
    let what = "a day of the week such as Mon";
    let written = cursor.run(",()[]|", what)?;
    let same = |day: &&str| {
        let short = &day[..3];
        [day, &short].iter().any(|name| name.eq_ignore_ascii_case(&written.text))
    };
    let day = DAYS.iter().position(same);
    day.map(|day| day as u8)
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a day of the week"))
}

impl fmt::Display for WeekRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |day: u8| &DAYS[usize::from(day)][..3];
        let open = if self.first_inside { '[' } else { '(' };
        let close = if self.last_inside { ']' } else { ')' };
        write!(f, "_time:week_range{open}{}, {}{close}", day(self.first), day(self.last))?;
        match self.offset_ns {
            0 => Ok(()),
            offset_ns => write!(f, " offset {}", format_duration(offset_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use text::duration::DAY_NS;

    use crate::base::time::parse_time;
    use crate::testing::{record, rows_of};

    /// Checks which days are selected, as letters from Sunday to Saturday at that time of day.
    fn check(filter: &str, clock: &str, expected: &str) {
        // 2026-02-01 is a Sunday.
        let sunday = parse_time(&format!("2026-02-01T{clock}Z"), 0).unwrap().start_ns;
        let selected = |day: i64| {
            !rows_of(filter, &[record(sunday + day * DAY_NS, &[("_msg", "x")])]).is_empty()
        };
        let found: String = (0..)
            .zip("SMTWTFS".chars())
            .filter(|(day, _)| selected(*day))
            .map(|(_, c)| c)
            .collect();
        assert_eq!(found, expected, "{filter} at {clock}");
    }

    #[test]
    fn days_of_weeks() {
        check("_time:week_range[Mon, Fri]", "12:00", "MTWTF");
        check("_time:week_range(Sun, Sat)", "00:00", "MTWTF");
        check("_time:week_range[sunday, TUESDAY)", "23:59", "SM");
        check("_time:week_range[Sat, Sun]", "12:00", "SS");
        check("_time:week_range(Mon, Tue)", "12:00", "");
        check("_time:week_range[Mon, Mon]", "12:00", "M");
        check("_time:week_range[Mon, Mon)", "12:00", "");
        check("_time:week_range[Mon, Fri] offset 2h", "21:59", "MTWTF");
        check("_time:week_range[Mon, Fri] offset 2h", "22:00", "SMTWT");
        check("_time:week_range[Mon, Fri] _time:day_range[08:00, 18:00)", "18:00", "");
        check("_time:week_range[Mon, Fri] _time:day_range[08:00, 18:00)", "08:00", "MTWTF");
    }
}
