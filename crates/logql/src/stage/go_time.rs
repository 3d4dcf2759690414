//! Times in the layouts of Go, which are written as an example time would be: `2006-01-02 15:04:05`,
//! `Jan _2 3:04PM`, `Mon, 02 Jan 2006 15:04:05 -0700`.
//!
//! Left out: names of zones other than `UTC`, `GMT` and `Z`; a time is shown in UTC.

use text::civil::days_from_civil;
use text::duration::{DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS};
use text::time::Moment;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A part of a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'l> {
    Text(&'l str),
    Year(usize),
    /// The width, and what pads it.
    Month(usize),
    MonthName {
        short: bool,
    },
    Day(usize, char),
    DayOfYear(char),
    WeekDay {
        short: bool,
    },
    /// Of 24 or of 12 hours, and the width.
    Hour {
        of_day: bool,
        width: usize,
    },
    Minute(usize),
    Second(usize),
    /// A point or comma, digits, and whether zeros at the end go.
    Fraction(char, usize, bool),
    Half {
        upper: bool,
    },
    /// `Z` for UTC, a colon between hours and minutes, and how many of hours, minutes, seconds.
    Zone {
        z: bool,
        colon: bool,
        parts: usize,
    },
    ZoneName,
}

/// Layouts of parts, a longer one before its beginning.
const PARTS: [(&str, Part<'static>); 33] = [
    ("January", Part::MonthName { short: false }),
    ("Jan", Part::MonthName { short: true }),
    ("Monday", Part::WeekDay { short: false }),
    ("Mon", Part::WeekDay { short: true }),
    ("MST", Part::ZoneName),
    ("002", Part::DayOfYear('0')),
    ("01", Part::Month(2)),
    ("02", Part::Day(2, '0')),
    ("03", Part::Hour { of_day: false, width: 2 }),
    ("04", Part::Minute(2)),
    ("05", Part::Second(2)),
    ("06", Part::Year(2)),
    ("15", Part::Hour { of_day: true, width: 2 }),
    ("2006", Part::Year(4)),
    ("__2", Part::DayOfYear(' ')),
    ("_2", Part::Day(2, ' ')),
    ("PM", Part::Half { upper: true }),
    ("pm", Part::Half { upper: false }),
    ("-07:00:00", Part::Zone { z: false, colon: true, parts: 3 }),
    ("-070000", Part::Zone { z: false, colon: false, parts: 3 }),
    ("-07:00", Part::Zone { z: false, colon: true, parts: 2 }),
    ("-0700", Part::Zone { z: false, colon: false, parts: 2 }),
    ("-07", Part::Zone { z: false, colon: false, parts: 1 }),
    ("Z07:00:00", Part::Zone { z: true, colon: true, parts: 3 }),
    ("Z070000", Part::Zone { z: true, colon: false, parts: 3 }),
    ("Z07:00", Part::Zone { z: true, colon: true, parts: 2 }),
    ("Z0700", Part::Zone { z: true, colon: false, parts: 2 }),
    ("Z07", Part::Zone { z: true, colon: false, parts: 1 }),
    ("1", Part::Month(1)),
    ("2", Part::Day(1, '0')),
    ("3", Part::Hour { of_day: false, width: 1 }),
    ("4", Part::Minute(1)),
    ("5", Part::Second(1)),
];

/// The first part of a layout, and what follows it.
fn part(layout: &str) -> (Part<'_>, &str) {
    let first = layout.as_bytes()[0];
    if matches!(first, b'.' | b',') {
        for digit in ['0', '9'] {
            let rest = layout[1..].trim_start_matches(digit);
            let run = layout.len() - 1 - rest.len();
            if run > 0 && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                return (Part::Fraction(char::from(first), run.min(9), digit == '9'), rest);
            }
        }
    }
    for (text, part) in PARTS {
        // `Jan` and `Mon` do not begin a longer word.
        let is_short = matches!(text, "Jan" | "Mon");
        if let Some(rest) = layout.strip_prefix(text)
            && !(is_short && rest.starts_with(|c: char| c.is_ascii_lowercase()))
        {
            return (part, rest);
        }
    }
    let length = layout.chars().next().map_or(0, char::len_utf8);
    (Part::Text(&layout[..length]), &layout[length..])
}

/// A time in a layout.
pub fn format(time_ns: i64, mut layout: &str) -> String {
    let t = Moment::at(time_ns);
    let days = time_ns.div_euclid(DAY_NS);
    let mut out = String::new();
    while !layout.is_empty() {
        let (part, rest) = part(layout);
        layout = rest;
        let hour = |of_day: bool| match (of_day, t.hour % 12) {
            (true, _) => t.hour,
            (false, 0) => 12,
            (false, hour) => hour,
        };
        out += &match part {
            Part::Text(text) => text.to_owned(),
            Part::Year(2) => format!("{:02}", t.year.rem_euclid(100)),
            Part::Year(_) => format!("{:04}", t.year),
            Part::Month(width) => format!("{:0width$}", t.month),
            Part::MonthName { short } => cut(MONTHS[t.month as usize - 1], short),
            Part::Day(width, '0') => format!("{:0width$}", t.day),
            Part::Day(width, _) => format!("{:width$}", t.day),
            Part::DayOfYear(pad) => {
                let first = days_from_civil(t.year, 1, 1).unwrap_or(days);
                let day = days - first + 1;
                if pad == '0' { format!("{day:03}") } else { format!("{day:3}") }
            }
            // The first day of 1970 was a Thursday.
            Part::WeekDay { short } => cut(DAYS[(days + 4).rem_euclid(7) as usize], short),
            Part::Hour { of_day, width } => format!("{:0width$}", hour(of_day)),
            Part::Minute(width) => format!("{:0width$}", t.minute),
            Part::Second(width) => format!("{:0width$}", t.second),
            Part::Fraction(point, digits, trims) => {
                let all = format!("{:09}", t.nanosecond);
                match &all[..digits] {
                    part if !trims => format!("{point}{part}"),
                    part => match part.trim_end_matches('0') {
                        "" => String::new(),
                        part => format!("{point}{part}"),
                    },
                }
            }
            Part::Half { upper } => match (t.hour >= 12, upper) {
                (true, true) => "PM",
                (true, false) => "pm",
                (false, true) => "AM",
                (false, false) => "am",
            }
            .to_owned(),
            Part::Zone { z: true, .. } => "Z".to_owned(),
            Part::Zone { colon, parts, .. } => {
                let colon = if colon { ":" } else { "" };
                format!("+{}", vec!["00"; parts].join(colon))
            }
            Part::ZoneName => "UTC".to_owned(),
        };
    }
    out
}

fn cut(name: &str, short: bool) -> String {
    if short { name[..3].to_owned() } else { name.to_owned() }
}

/// Reads a text of a layout, in nanoseconds since 1970 UTC; a time without zone is UTC.
pub fn parse(text: &str, mut layout: &str) -> Option<i64> {
    let mut rest = text;
    let (mut year, mut month, mut day, mut of_year) = (0i64, 1u32, 1u32, None);
    let (mut hour, mut minute, mut second, mut fraction_ns) = (0i64, 0i64, 0i64, 0i64);
    let (mut half, mut zone_ns) = (None, 0i64);
    while !layout.is_empty() {
        let (part, behind) = part(layout);
        layout = behind;
        // A number of one digit may have two.
        let mut number = |least: usize, most: usize| -> Option<i64> {
            let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            let (number, behind) = rest.split_at(digits);
            rest = behind;
            (digits >= least).then(|| number.parse().ok()).flatten()
        };
        match part {
            Part::Text(wanted) => rest = rest.strip_prefix(wanted)?,
            Part::Year(2) => {
                let short = number(2, 2)?;
                year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            Part::Year(_) => year = number(4, 4)?,
            Part::Month(width) => month = number(width, 2)? as u32,
            Part::MonthName { short } => month = named(&mut rest, &MONTHS, short)? as u32 + 1,
            Part::Day(width, pad) => {
                if pad == ' ' {
                    rest = rest.strip_prefix(' ').unwrap_or(rest);
                }
                let least = if pad == ' ' { 1 } else { width };
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                let (number, behind) = rest.split_at(digits);
                rest = behind;
                day = (digits >= least).then(|| number.parse().ok()).flatten()?;
            }
            Part::DayOfYear(_) => {
                let trimmed = rest.trim_start_matches(' ');
                let digits = trimmed.bytes().take(3).take_while(u8::is_ascii_digit).count();
                of_year = Some(trimmed[..digits].parse::<i64>().ok()?);
                rest = &trimmed[digits..];
            }
            Part::WeekDay { short } => _ = named(&mut rest, &DAYS, short)?,
            Part::Hour { width, .. } => hour = number(width, 2)?,
            Part::Minute(width) => minute = number(width, 2)?,
            Part::Second(width) => {
                second = number(width, 2)?;
                // A fraction may follow that the layout does not name.
                let is_named = matches!(self::part_or_end(layout), Some(Part::Fraction(..)));
                if !is_named && rest.starts_with(['.', ',']) {
                    fraction_ns = fraction(&mut rest)?;
                }
            }
            Part::Fraction(_, digits, trims) => {
                let before = rest.len();
                if rest.starts_with(['.', ',']) {
                    fraction_ns = fraction(&mut rest)?;
                }
                if !trims && before - rest.len() != digits + 1 {
                    return None;
                }
            }
            Part::Half { .. } => {
                half = Some(match rest.get(..2)?.to_ascii_uppercase().as_str() {
                    "PM" => true,
                    "AM" => false,
                    _ => return None,
                });
                rest = &rest[2..];
            }
            Part::Zone { z, colon, parts } => match rest.strip_prefix('Z').filter(|_| z) {
                Some(behind) => rest = behind,
                None => zone_ns = zone(&mut rest, colon, parts)?,
            },
            Part::ZoneName => {
                let known = ["UTC", "GMT", "Z"];
                rest = known.iter().find_map(|name| rest.strip_prefix(name))?;
            }
        }
    }
    if !rest.is_empty() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    match half {
        Some(_) if hour > 12 => return None,
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    let days = match of_year {
        Some(day @ 1..=366) => days_from_civil(year, 1, 1)? + day - 1,
        Some(_) => return None,
        None => days_from_civil(year, month, day)?,
    };
    let of_day_ns = hour * HOUR_NS + minute * MINUTE_NS + second * SECOND_NS + fraction_ns;
    days.checked_mul(DAY_NS)?.checked_add(of_day_ns)?.checked_sub(zone_ns)
}

fn part_or_end(layout: &str) -> Option<Part<'_>> {
    (!layout.is_empty()).then(|| part(layout).0)
}

/// The place of the name at the beginning, in any case.
fn named(rest: &mut &str, names: &[&str], short: bool) -> Option<usize> {
    names.iter().position(|name| {
        let name = if short { &name[..3] } else { name };
        let is_it = rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
        if is_it {
            *rest = &rest[name.len()..];
        }
        is_it
    })
}

/// A point and digits, in nanoseconds; digits beyond the ninth are left out.
fn fraction(rest: &mut &str) -> Option<i64> {
    let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
    let text = &rest[1..=digits];
    *rest = &rest[1 + digits..];
    let text = &text[..text.len().min(9)];
    let number: i64 = text.parse().ok()?;
    Some(number * 10i64.pow(9 - text.len() as u32))
}

/// An offset such as `+02:00`.
fn zone(rest: &mut &str, colon: bool, parts: usize) -> Option<i64> {
    let sign = match rest.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    *rest = &rest[1..];
    let mut offset_ns = 0;
    for (place, unit_ns) in [HOUR_NS, MINUTE_NS, SECOND_NS].into_iter().take(parts).enumerate() {
        if colon && place > 0 {
            *rest = rest.strip_prefix(':')?;
        }
        let digits = rest.get(..2).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
        let number: i64 = digits.parse().ok()?;
        offset_ns += number * unit_ns;
        *rest = &rest[2..];
    }
    Some(sign * offset_ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-02-03T16:05:06.007000008Z, a Tuesday.
    const TIME_NS: i64 = 1_770_134_706_007_000_008;

    #[test]
    fn layouts_are_written_and_read() {
        for (layout, expected) in [
            ("2006-01-02T15:04:05Z07:00", "2026-02-03T16:05:06Z"),
            ("2006-01-02T15:04:05.999999999Z07:00", "2026-02-03T16:05:06.007000008Z"),
            ("2006-01-02 15:04:05.000", "2026-02-03 16:05:06.007"),
            ("2006-01-02 15:04:05,000", "2026-02-03 16:05:06,007"),
            ("Mon Jan _2 15:04:05 2006", "Tue Feb  3 16:05:06 2026"),
            ("Monday, 02-Jan-06 15:04:05 MST", "Tuesday, 03-Feb-26 16:05:06 UTC"),
            ("02 January 2006 3:04PM", "03 February 2026 4:05PM"),
            ("02/Jan/2006:15:04:05 -0700", "03/Feb/2026:16:05:06 +0000"),
            ("1/2/06 03:04:05 pm", "2/3/26 04:05:06 pm"),
            ("2006.002", "2026.034"),
            ("20060102150405", "20260203160506"),
            ("text é", "text é"),
        ] {
            assert_eq!(format(TIME_NS, layout), expected, "{layout}");
            let second = format(TIME_NS, "2006-01-02 15:04");
            if layout.contains("04") {
                let read = parse(expected, layout).unwrap_or_else(|| panic!("{layout}"));
                assert_eq!(format(read, "2006-01-02 15:04"), second, "{layout}");
            }
        }
        for (text, layout, expected) in [
            ("2021-11-02", "2006-01-02", Some(1_635_811_200_000_000_000)),
            (
                "2021-11-02T01:00:00.5+01:00",
                "2006-01-02T15:04:05Z07:00",
                Some(1_635_811_200_500_000_000),
            ),
            ("2021-04-02", "2006-02-01", Some(1_612_396_800_000_000_000)),
            ("2021-02-04 12:30AM", "2006-01-02 3:04PM", Some(1_612_398_600_000_000_000)),
            ("2021-02-04 13:30AM", "2006-01-02 3:04PM", None),
            // The year 0 is before the first nanosecond of this clock.
            ("12:30", "15:04", None),
            ("2021-13-02", "2006-01-02", None),
            ("2021-11-02 x", "2006-01-02", None),
            ("2021-11-0", "2006-01-02", None),
            ("25:00", "15:04", None),
            ("", "2006", None),
        ] {
            assert_eq!(parse(text, layout), expected, "{text} {layout}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}", layout in "[0-9JanMonPMpmZ_.,:é -]{0,20}") {
            let _ = parse(&text, &layout);
            let written = format(TIME_NS, &layout);
            let _ = parse(&written, &layout);
        }
    }
}
