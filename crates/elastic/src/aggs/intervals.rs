//! Intervals of date histograms: steps of a fixed length, and those of the calendar, by the clocks
//! of a zone.

use query::source::TimeRange;
use record::Zone;
use text::duration::{DAY_NS, format_duration};

use crate::dates::{self, MS_NS};
use crate::error::Refused;
use crate::object::{Object, cut};

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;
/// Most years over which the changes of a zone's clocks are looked for. A longer range is refused.
const YEARS_MAX: i64 = 60;
/// Most quarters of a histogram. Each is a query of its own.
const QUARTERS_MAX: usize = 200;

/// The length of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// A fixed length.
    Fixed(i64),
    /// A unit of the calendar: `d`, `w`, `M`, `q`, `y`.
    Calendar(char),
}

/// A part of a date histogram: a range of times, and how it is grouped.
pub struct Span {
    /// The times.
    pub range: TimeRange,
    /// What stands behind the field in `by`; none: all of the range is one bucket, which begins
    /// with it.
    pub bucket: Option<String>,
}

impl Interval {
    /// Reads `fixed_interval`, `calendar_interval`, or the older `interval`.
    pub fn parse(object: &Object<'_>, what: &str) -> Result<Interval, Refused> {
        let fixed = object.text("fixed_interval")?;
        let calendar = object.text("calendar_interval")?;
        let either = object.text("interval")?;
        let wrong = |name: &str, text: &str, hint: &str| {
            Refused::parsing(format!("[{what}] [{name}] [{}] is not understood; {hint}", cut(text)))
        };
        match (fixed, calendar, either) {
            (Some(text), None, None) => fixed_of(&text)
                .ok_or_else(|| wrong("fixed_interval", &text, "write for example 30s, 5m, 12h or 1d")),
            (None, Some(text), None) => calendar_of(&text).ok_or_else(|| {
                let hint = "there are minute (1m), hour (1h), day (1d), week (1w), month (1M), quarter (1q), year (1y)";
                wrong("calendar_interval", &text, hint)
            }),
            (None, None, Some(text)) => calendar_of(&text)
                .or_else(|| fixed_of(&text))
                .ok_or_else(|| wrong("interval", &text, "write for example 5m, 1h, day or month")),
            _ => Err(Refused::parsing(format!(
                "[{what}] needs one of [fixed_interval] and [calendar_interval]"
            ))),
        }
    }

    /// The beginning of the bucket in which a time is.
    pub fn start(self, time_ns: i64, zone: Zone, offset_ns: i64) -> Option<i64> {
        let moved_ns = time_ns.checked_sub(offset_ns)?;
        let start_ns = match self {
            Interval::Fixed(step_ns) => {
                let zone_ns = zone_ns(zone, moved_ns);
                let local_ns = moved_ns.checked_add(zone_ns)?;
                local_ns.checked_sub(local_ns.rem_euclid(step_ns))?.checked_sub(zone_ns)?
            }
            Interval::Calendar(unit) => dates::round_down(moved_ns, unit, zone)?,
        };
        start_ns.checked_add(offset_ns)
    }

    /// The beginning of the bucket behind that one.
    pub fn next(self, start_ns: i64, zone: Zone, offset_ns: i64) -> Option<i64> {
        match self {
            Interval::Fixed(step_ns) => start_ns.checked_add(step_ns),
            Interval::Calendar(unit) => {
                dates::next(start_ns.checked_sub(offset_ns)?, unit, zone)?.checked_add(offset_ns)
            }
        }
    }

    /// The parts of a range of times within which all buckets have one form in `by`.
    pub fn spans(self, range: TimeRange, zone: Zone, offset_ns: i64) -> Result<Vec<Span>, Refused> {
        let wrong =
            || Refused::argument("the range of times of [date_histogram] is too long; narrow it");
        if self == Interval::Calendar('q') {
            let mut spans = Vec::new();
            let mut start_ns = self.start(range.start_ns, zone, offset_ns).ok_or_else(wrong)?;
            while start_ns < range.end_ns {
                let end_ns = self.next(start_ns, zone, offset_ns).ok_or_else(wrong)?;
                if spans.len() == QUARTERS_MAX {
                    return Err(wrong());
                }
                spans.push(Span { range: TimeRange { start_ns, end_ns }, bucket: None });
                start_ns = end_ns;
            }
            return Ok(spans);
        }
        let mut spans = Vec::new();
        let mut from_ns = range.start_ns;
        for change_ns in changes(zone, range).ok_or_else(wrong)? {
            let (mut until_ns, mut behind_ns) = (change_ns, change_ns);
            if let Interval::Calendar(_) = self {
                until_ns = self.start(change_ns, zone, offset_ns).ok_or_else(wrong)?;
                behind_ns = self.next(until_ns, zone, offset_ns).ok_or_else(wrong)?;
            }
            if until_ns < from_ns && behind_ns <= from_ns {
                continue;
            }
            if from_ns < until_ns {
                let range = TimeRange { start_ns: from_ns, end_ns: until_ns };
                let bucket = self.bucket(until_ns - 1, zone, offset_ns);
                spans.push(Span { range, bucket: Some(bucket) });
            }
            if until_ns < behind_ns {
                let range = TimeRange { start_ns: until_ns, end_ns: behind_ns };
                spans.push(Span { range, bucket: None });
            }
            from_ns = behind_ns;
        }
        if from_ns < range.end_ns {
            let at_ns = if range.end_ns == i64::MAX { from_ns } else { range.end_ns - 1 };
            let at_ns = if at_ns == i64::MIN { 0 } else { at_ns };
            let bucket = self.bucket(at_ns, zone, offset_ns);
            let range = TimeRange { start_ns: from_ns, end_ns: range.end_ns };
            spans.push(Span { range, bucket: Some(bucket) });
        }
        Ok(spans)
    }

    /// What stands behind the field in `by`, with the offset that the zone has at a time.
    fn bucket(self, at_ns: i64, zone: Zone, offset_ns: i64) -> String {
        let shift_ns = zone_ns(zone, at_ns) - offset_ns;
        let size = match self {
            Interval::Fixed(step_ns) => format_duration(step_ns),
            Interval::Calendar('d') => "day".to_owned(),
            Interval::Calendar('w') => "week".to_owned(),
            Interval::Calendar('M') => "month".to_owned(),
            Interval::Calendar(_) => "year".to_owned(),
        };
        match shift_ns {
            0 => format!(":{size}"),
            shift_ns => format!(":{size} offset {}", format_duration(shift_ns)),
        }
    }
}

fn zone_ns(zone: Zone, time_ns: i64) -> i64 {
    i64::from(zone.offset_at_utc(time_ns.div_euclid(SECOND_NS))) * SECOND_NS
}

/// The times within a range at which the clocks of a zone change; none if the range is too long to
/// look for them.
fn changes(zone: Zone, range: TimeRange) -> Option<Vec<i64>> {
    if matches!(zone, Zone::Fixed(_)) {
        return Some(Vec::new());
    }
    if range.end_ns.checked_sub(range.start_ns)? > YEARS_MAX * 366 * DAY_NS {
        return None;
    }
    let offset = |time_ns: i64| zone_ns(zone, time_ns);
    let mut found = Vec::new();
    let mut at_ns = range.start_ns;
    while at_ns < range.end_ns {
        let next_ns = at_ns.saturating_add(12 * HOUR_NS).min(range.end_ns);
        if offset(at_ns) != offset(next_ns) {
            let (mut low_ns, mut high_ns) = (at_ns, next_ns);
            while high_ns - low_ns > 1 {
                let middle_ns = low_ns + (high_ns - low_ns) / 2;
                match offset(middle_ns) == offset(at_ns) {
                    true => low_ns = middle_ns,
                    false => high_ns = middle_ns,
                }
            }
            found.push(high_ns);
        }
        at_ns = next_ns;
    }
    found.retain(|change_ns| *change_ns < range.end_ns);
    Some(found)
}

fn fixed_of(text: &str) -> Option<Interval> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: i64 = text[..digits].parse().ok()?;
    let unit_ns = match &text[digits..] {
        "ms" => MS_NS,
        "s" => SECOND_NS,
        "m" => 60 * SECOND_NS,
        "h" => HOUR_NS,
        "d" => DAY_NS,
        "w" => 7 * DAY_NS,
        _ => return None,
    };
    let step_ns = count.checked_mul(unit_ns).filter(|step_ns| *step_ns > 0)?;
    Some(Interval::Fixed(step_ns))
}

fn calendar_of(text: &str) -> Option<Interval> {
    Some(match text {
        "second" | "1s" => Interval::Fixed(SECOND_NS),
        "minute" | "1m" => Interval::Fixed(60 * SECOND_NS),
        "hour" | "1h" => Interval::Fixed(HOUR_NS),
        "day" | "1d" => Interval::Calendar('d'),
        "week" | "1w" => Interval::Calendar('w'),
        "month" | "1M" => Interval::Calendar('M'),
        "quarter" | "1q" => Interval::Calendar('q'),
        "year" | "1y" => Interval::Calendar('y'),
        _ => return None,
    })
}

/// A length such as `+6h` or `-1d`.
pub fn offset(text: &str) -> Result<i64, Refused> {
    let (sign, length) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    match fixed_of(length) {
        Some(Interval::Fixed(step_ns)) => Ok(sign * step_ns),
        _ if length == "0" => Ok(0),
        _ => Err(Refused::parsing(format!(
            "[date_histogram] [offset] [{}] is not understood; write for example +6h or -1d",
            cut(text)
        ))),
    }
}
