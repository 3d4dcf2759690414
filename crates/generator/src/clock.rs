//! Time in generated logs: when each line is due, and how its time is written in the formats of the
//! senders.
//!
//! Line `i` belongs to the time `first + i / rate`, plus a little. A history is the same schedule
//! begun in the past: its lines are due at once, until the schedule has caught up with the clock. A
//! receiver that applies backpressure delays the schedule; it catches up in the same way, like real
//! senders that buffer their lines.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Lines per second of the history, when live lines are sent as fast as possible.
const HISTORY_RATE: u64 = 1_000;

/// Wall clock, nanoseconds since 1970 UTC.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text::duration::ns(since)
}

/// When lines are due.
#[derive(Clone, Debug)]
pub struct Schedule {
    first_ns: i64,
    live_ns: i64,
    /// Lines per second; 0: as fast as possible once the history is over.
    rate: u64,
    lines: u64,
    lines_max: u64,
    end_ns: i64,
}

/// The state of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A line with this time is due.
    Line(i64),
    /// The next line is due at this time.
    At(i64),
    /// There are no more lines.
    Over,
}

impl Schedule {
    /// Lines at `rate` per second from `live_ns` on, and before that a history of `history_ns`.
    pub fn new(live_ns: i64, history_ns: i64, rate: u64) -> Self {
        let first_ns = live_ns.saturating_sub(history_ns);
        Schedule { first_ns, live_ns, rate, lines: 0, lines_max: u64::MAX, end_ns: i64::MAX }
    }

    /// Ends after `lines_max` lines, or at the time `end_ns`.
    pub fn until(self, lines_max: u64, end_ns: i64) -> Self {
        Schedule { lines_max, end_ns, ..self }
    }

    /// Returns what is due at wall clock `now_ns`; [`Due::Line`] consumes a line.
    pub fn next(&mut self, now_ns: i64) -> Due {
        if self.lines >= self.lines_max {
            return Due::Over;
        }
        let rate = if self.rate == 0 { HISTORY_RATE } else { self.rate };
        let since_first = u128::from(self.lines) * SECOND_NS as u128 / u128::from(rate);
        let since_first = i64::try_from(since_first).unwrap_or(i64::MAX);
        let mut due_ns = self.first_ns.saturating_add(since_first);
        if self.rate == 0 && due_ns >= self.live_ns {
            due_ns = now_ns;
        }
        if due_ns >= self.end_ns {
            return Due::Over;
        }
        if due_ns > now_ns {
            return Due::At(due_ns);
        }
        self.lines += 1;
        Due::Line(due_ns)
    }

    /// The share of the history before `time_ns`, 0 to 1; `None` when the history is over.
    pub fn history_done(&self, time_ns: i64) -> Option<f64> {
        let whole = (self.live_ns - self.first_ns) as f64;
        (time_ns < self.live_ns && whole > 0.0).then(|| (time_ns - self.first_ns) as f64 / whole)
    }
}

/// A time in the formats of senders. Parts that change once per second are cached.
#[derive(Default)]
pub struct Stamp {
    second: Option<i64>,
    millis: u32,
    date: String,
    clock: String,
    bsd: String,
    access: String,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Stamp {
    /// Sets the time to `time_ns`, which may be earlier than before.
    pub fn set(&mut self, time_ns: i64) {
        self.millis = (time_ns.rem_euclid(SECOND_NS) / 1_000_000) as u32;
        let second = time_ns.div_euclid(SECOND_NS);
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        let (year, month, day) = text::civil::civil_from_days(second.div_euclid(86_400));
        let of_day = second.rem_euclid(86_400);
        let name = MONTHS[month as usize - 1];
        let texts = [&mut self.date, &mut self.clock, &mut self.bsd, &mut self.access];
        texts.into_iter().for_each(String::clear);
        write!(self.date, "{year:04}-{month:02}-{day:02}").expect("to a string");
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(self.clock, "{hour:02}:{minute:02}:{second:02}").expect("to a string");
        write!(self.bsd, "{name} {day:2} {}", self.clock).expect("to a string");
        write!(self.access, "{day:02}/{name}/{year:04}:{} +0000", self.clock).expect("to a string");
    }

    /// `2026-01-31T12:00:00.123Z` (RFC 3339).
    pub fn rfc3339(&self, out: &mut Vec<u8>) {
        append(out, format_args!("{}T{}.{:03}Z", self.date, self.clock, self.millis));
    }

    /// `Jan 31 12:00:00` (RFC 3164), in UTC.
    pub fn bsd(&self) -> &str {
        &self.bsd
    }

    /// `31/Jan/2026:12:00:00 +0000`, as web servers write it.
    pub fn access(&self) -> &str {
        &self.access
    }

    /// `2026-01-31 12:00:00.123 UTC`, as PostgreSQL writes it.
    pub fn postgresql(&self, out: &mut Vec<u8>) {
        append(out, format_args!("{} {}.{:03} UTC", self.date, self.clock, self.millis));
    }

    /// `31/Jan/2026:12:00:00.123`, as HAProxy writes it.
    pub fn haproxy(&self, out: &mut Vec<u8>) {
        append(out, format_args!("{}.{:03}", &self.access[..20], self.millis));
    }

    /// `Jan 31 12:00:00.123 UTC`, as Cisco's IOS writes it with milliseconds and time zone.
    pub fn cisco(&self, out: &mut Vec<u8>) {
        append(out, format_args!("{}.{:03} UTC", self.bsd, self.millis));
    }

    /// `1904711.330000`: seconds since a start some weeks ago, as the kernel writes them.
    pub fn uptime(&self, out: &mut Vec<u8>) {
        let seconds = self.second.unwrap_or(0).rem_euclid(10_000_000);
        append(out, format_args!("[{seconds:>5}.{:03}000]", self.millis));
    }

    /// A six-digit number that grows with time, for senders that number their lines.
    pub fn sequence(&self) -> u32 {
        let tenths = self.second.unwrap_or(0) * 10 + i64::from(self.millis / 100);
        tenths.rem_euclid(1_000_000) as u32
    }
}

/// Writes formatted text into bytes.
pub fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    out.write_fmt(text).expect("writing to memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_in_all_forms() {
        let mut stamp = Stamp::default();
        stamp.set(1_769_860_800 * SECOND_NS);
        stamp.set(1_769_821_509 * SECOND_NS + 7_000_000);
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        assert_eq!(text(&|o| stamp.rfc3339(o)), "2026-01-31T01:05:09.007Z");
        assert_eq!(text(&|o| stamp.postgresql(o)), "2026-01-31 01:05:09.007 UTC");
        assert_eq!(text(&|o| stamp.haproxy(o)), "31/Jan/2026:01:05:09.007");
        assert_eq!(text(&|o| stamp.cisco(o)), "Jan 31 01:05:09.007 UTC");
        assert_eq!(
            (stamp.bsd(), stamp.access()),
            ("Jan 31 01:05:09", "31/Jan/2026:01:05:09 +0000")
        );
        stamp.set(1_767_225_600 * SECOND_NS);
        assert_eq!(stamp.bsd(), "Jan  1 00:00:00");
    }

    #[test]
    fn history_is_due_at_once_and_then_the_rate_holds() {
        let live = 1_000 * SECOND_NS;
        let mut schedule = Schedule::new(live, 2 * SECOND_NS, 4);
        for i in 0..=8 {
            assert_eq!(schedule.next(live), Due::Line(998 * SECOND_NS + i * SECOND_NS / 4));
        }
        assert_eq!(schedule.next(live), Due::At(live + SECOND_NS / 4));
        assert_eq!(schedule.next(live), Due::At(live + SECOND_NS / 4));
        assert_eq!(schedule.next(live + SECOND_NS), Due::Line(live + SECOND_NS / 4));
        assert_eq!(schedule.history_done(999 * SECOND_NS), Some(0.5));
        assert_eq!(schedule.history_done(live), None);
    }

    #[test]
    fn as_fast_as_possible_is_always_due() {
        let mut schedule = Schedule::new(SECOND_NS, 2_000_000, 0);
        assert_eq!(schedule.next(SECOND_NS), Due::Line(SECOND_NS - 2_000_000));
        assert_eq!(schedule.next(SECOND_NS), Due::Line(SECOND_NS - 1_000_000));
        for now_ns in [SECOND_NS, SECOND_NS, SECOND_NS + 5] {
            assert_eq!(schedule.next(now_ns), Due::Line(now_ns));
        }
    }

    #[test]
    fn a_schedule_ends() {
        let mut schedule = Schedule::new(0, 0, 10).until(2, i64::MAX);
        let now_ns = 100 * SECOND_NS;
        assert!(matches!(schedule.next(now_ns), Due::Line(_)));
        assert!(matches!(schedule.next(now_ns), Due::Line(_)));
        assert_eq!(schedule.next(now_ns), Due::Over);
        let mut schedule = Schedule::new(0, 0, 10).until(u64::MAX, SECOND_NS / 10);
        assert!(matches!(schedule.next(now_ns), Due::Line(_)));
        assert_eq!(schedule.next(now_ns), Due::Over);
    }
}
