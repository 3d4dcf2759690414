//! Dates in requests and answers: `now-15m/m`, `2026-01-31||+1d/d`, `epoch_millis`, formats such
//! as `yyyy-MM-dd HH:mm:ss`.
//!
//! A date stands for a range of instants, as its precision says: `2026-01-31` is a day, a number of
//! milliseconds is a millisecond. `gte` and `lt` mean the beginning of it, `gt` and `lte` its end.
//! Left out: names of months and days, weeks of a year.

use record::Zone;
use text::civil::{civil_from_days, days_from_civil};
use text::time::{Instants, Moment, parse_period};

use crate::error::Refused;

const SECOND_NS: i64 = 1_000_000_000;
/// A millisecond.
pub const MS_NS: i64 = 1_000_000;
const DAY_S: i64 = 86_400;
/// Longest format of dates, in bytes. A longer one is refused: each bucket and each hit of an
/// answer repeats what it writes.
const FORMAT_BYTES_MAX: usize = 256;
/// Years and days of which times are computed. Nanoseconds since 1970 reach 292 years.
const YEARS: std::ops::Range<i64> = -100_000..100_000;
const DAYS: std::ops::Range<i64> = -40_000_000..40_000_000;

/// How dates of a request are read.
#[derive(Clone, Copy)]
pub struct Reading<'r> {
    /// Formats, separated by `||`; the default is that of Elasticsearch.
    pub format: Option<&'r str>,
    /// The zone of dates without one, and of rounding.
    pub zone: Zone,
    /// What `now` means.
    pub now_ns: i64,
}

/// Reads the parameter `time_zone`.
pub fn zone(name: &str) -> Result<Zone, Refused> {
    Zone::parse(name).map_err(|unknown| {
        let near = unknown.near.map(|near| format!("; did you mean [{near}]?"));
        Refused::argument(format!(
            "[time_zone] [{}] is not a zone such as Europe/Berlin, UTC or +02:00{}",
            crate::object::cut(name),
            near.unwrap_or_default()
        ))
    })
}

/// Reads a date, perhaps with arithmetic behind it.
pub fn parse(text: &str, reading: Reading<'_>) -> Result<Instants, Refused> {
    let wrong = || Refused {
        kind: "parse_exception",
        ..Refused::argument(format!(
            "[{}] is not a date; write for example now-15m, 2026-01-31T12:00:00Z, 2026-01-31||/M or milliseconds since 1970{}",
            crate::object::cut(text),
            match reading.format {
                Some(format) => format!(" (the format is [{}])", crate::object::cut(format)),
                None => String::new(),
            }
        ))
    };
    let (anchor, math) = match text.strip_prefix("now") {
        Some(math) => (Instants { start_ns: reading.now_ns, end_ns: reading.now_ns + 1 }, math),
        None => {
            let (date, math) = text.split_once("||").unwrap_or((text, ""));
            (parse_plain(date, reading).ok_or_else(wrong)?, math)
        }
    };
    arithmetic(anchor, math, reading.zone).ok_or_else(wrong)
}

fn arithmetic(anchor: Instants, math: &str, zone: Zone) -> Option<Instants> {
    let mut found = anchor;
    let mut rest = math;
    while let Some(sign) = rest.chars().next() {
        rest = rest.strip_prefix(sign)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: i64 = if digits == 0 { 1 } else { rest[..digits].parse().ok()? };
        let unit = rest[digits..].chars().next()?;
        rest = rest[digits..].strip_prefix(unit)?;
        found = match sign {
            '/' if digits == 0 => {
                let start_ns = round_down(found.start_ns, unit, zone)?;
                Instants { start_ns, end_ns: next(start_ns, unit, zone)? }
            }
            '+' | '-' => {
                let count = if sign == '-' { -count } else { count };
                Instants {
                    start_ns: add(found.start_ns, count, unit, zone)?,
                    end_ns: add(found.end_ns, count, unit, zone)?,
                }
            }
            _ => return None,
        };
    }
    Some(found)
}

/// The beginning of the year, month … in which a time is, by the clocks of the zone.
pub fn round_down(time_ns: i64, unit: char, zone: Zone) -> Option<i64> {
    let utc_s = time_ns.div_euclid(SECOND_NS);
    let local_s = utc_s + i64::from(zone.offset_at_utc(utc_s));
    let days = local_s.div_euclid(DAY_S);
    let local_s = match unit {
        's' => return utc_s.checked_mul(SECOND_NS),
        'm' | 'h' | 'H' => {
            let unit_s = if unit == 'm' { 60 } else { 3600 };
            // Rounded where it is, so that the hour that clocks show twice stays two.
            return (utc_s - local_s.rem_euclid(unit_s)).checked_mul(SECOND_NS);
        }
        'd' => days * DAY_S,
        'w' => (days - (days + 3).rem_euclid(7)) * DAY_S,
        'M' | 'q' | 'y' => {
            let (year, month, _) = civil_from_days(days);
            let month = match unit {
                'M' => month,
                'q' => (month - 1) / 3 * 3 + 1,
                _ => 1,
            };
            days_from_civil(year, month, 1)? * DAY_S
        }
        _ => return None,
    };
    zone.to_utc(local_s).checked_mul(SECOND_NS)
}

/// The beginning of the year, month … behind the one that begins at a time. Where clocks skip
/// midnight, a day begins at one, and the day behind it begins at midnight all the same.
pub fn next(start_ns: i64, unit: char, zone: Zone) -> Option<i64> {
    let later_ns = add(start_ns, 1, unit, zone)?;
    match unit {
        'd' | 'w' | 'M' | 'q' | 'y' => round_down(later_ns, unit, zone),
        _ => Some(later_ns),
    }
}

/// A time so many units later, by the clocks of the zone.
pub fn add(time_ns: i64, count: i64, unit: char, zone: Zone) -> Option<i64> {
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' | 'H' => 3600,
        'd' | 'w' | 'M' | 'q' | 'y' => 0,
        _ => return None,
    };
    if unit_s > 0 {
        return time_ns.checked_add(count.checked_mul(unit_s * SECOND_NS)?);
    }
    let utc_s = time_ns.div_euclid(SECOND_NS);
    let local_s = utc_s + i64::from(zone.offset_at_utc(utc_s));
    let (days, of_day) = (local_s.div_euclid(DAY_S), local_s.rem_euclid(DAY_S));
    let days = match unit {
        'd' => days.checked_add(count)?,
        'w' => days.checked_add(count.checked_mul(7)?)?,
        _ => {
            let (year, month, day) = civil_from_days(days);
            let months = match unit {
                'M' => count,
                'q' => count.checked_mul(3)?,
                _ => count.checked_mul(12)?,
            };
            let month = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?;
            let month = month.checked_add(months)?;
            let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u32 + 1);
            if !YEARS.contains(&year) {
                return None;
            }
            // The last day of a shorter month.
            (day.saturating_sub(3)..=day).rev().find_map(|day| days_from_civil(year, month, day))?
        }
    };
    if !DAYS.contains(&days) {
        return None;
    }
    let local_s = days * DAY_S + of_day;
    let whole_ns = zone.to_utc(local_s).checked_mul(SECOND_NS)?;
    whole_ns.checked_add(time_ns.rem_euclid(SECOND_NS))
}

fn parse_plain(text: &str, reading: Reading<'_>) -> Option<Instants> {
    let formats = reading.format.unwrap_or("strict_date_optional_time||epoch_millis");
    formats.split("||").find_map(|format| parse_in(text, format, reading.zone))
}

fn parse_in(text: &str, format: &str, zone: Zone) -> Option<Instants> {
    let span = |start_ns: i64, length_ns: i64| {
        Some(Instants { start_ns, end_ns: start_ns.checked_add(length_ns)? })
    };
    match format {
        "epoch_millis" => span(text.parse::<i64>().ok()?.checked_mul(MS_NS)?, MS_NS),
        "epoch_second" => span(text.parse::<i64>().ok()?.checked_mul(SECOND_NS)?, SECOND_NS),
        "strict_date_optional_time"
        | "date_optional_time"
        | "strict_date_optional_time_nanos"
        | "date_time"
        | "strict_date_time"
        | "strict_date"
        | "date"
        | "iso8601" => iso(text, zone),
        pattern => by_pattern(text, pattern, zone),
    }
}

/// A date in the zone, unless it names one itself.
fn iso(text: &str, zone: Zone) -> Option<Instants> {
    let mut found = parse_period(text)?;
    // Milliseconds are whole ones.
    let fraction = text.rsplit_once(['.', ',']).map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=3).contains(&digits) && found.end_ns == found.start_ns + 1 {
        found.end_ns = found.start_ns + MS_NS;
    }
    let clock = text.get(10..).unwrap_or_default();
    let names_zone = clock.contains(['Z', 'z', '+', '-']);
    if names_zone { Some(found) } else { in_zone(found, zone) }
}

/// Instants by the clocks of a zone.
fn in_zone(local: Instants, zone: Zone) -> Option<Instants> {
    let utc = |local_ns: i64| {
        let whole = zone.to_utc(local_ns.div_euclid(SECOND_NS)).checked_mul(SECOND_NS)?;
        whole.checked_add(local_ns.rem_euclid(SECOND_NS))
    };
    Some(Instants { start_ns: utc(local.start_ns)?, end_ns: utc(local.end_ns)? })
}

/// A pattern of letters and what stands between them.
fn by_pattern(text: &str, pattern: &str, zone: Zone) -> Option<Instants> {
    let mut rest = text;
    let mut parts = [1970, 1, 1, 0, 0, 0];
    let (mut fraction_ns, mut finest, mut offset) = (0, 0, None);
    for (letter, length) in runs(pattern) {
        match letter {
            Run::Letter(letter) => {
                let place = match letter {
                    'y' | 'u' => 0,
                    'M' => 1,
                    'd' => 2,
                    'H' => 3,
                    'm' => 4,
                    's' => 5,
                    'S' => {
                        let digits = rest.get(..length)?;
                        let number: i64 = digits.parse().ok()?;
                        fraction_ns =
                            number.checked_mul(10i64.pow(9u32.checked_sub(length as u32)?))?;
                        rest = &rest[length..];
                        finest = 6;
                        continue;
                    }
                    'X' | 'Z' | 'x' => {
                        let (taken, behind) = match rest.strip_prefix('Z') {
                            Some(behind) => ("Z", behind),
                            None => {
                                let end = rest.find(|c: char| !"+-:0123456789".contains(c));
                                rest.split_at(end.unwrap_or(rest.len()))
                            }
                        };
                        offset = Some(Zone::parse(taken).ok()?);
                        rest = behind;
                        continue;
                    }
                    _ => return None,
                };
                let max = if length == 1 { 2 } else { length };
                let digits = rest.bytes().take(max).take_while(u8::is_ascii_digit).count();
                if digits == 0 || length > 1 && digits != length {
                    return None;
                }
                parts[place] = rest[..digits].parse().ok()?;
                finest = finest.max(place);
                rest = &rest[digits..];
            }
            Run::Text(text) => rest = rest.strip_prefix(text)?,
        }
    }
    let [year, month, day, hour, minute, second] = parts;
    let clock_is_right = hour < 24 && minute < 60 && second < 60;
    if !rest.is_empty() || !clock_is_right || !YEARS.contains(&year) {
        return None;
    }
    let days = days_from_civil(year, month as u32, day as u32)?;
    let local_s = days * DAY_S + hour * 3600 + minute * 60 + second;
    let zone = offset.unwrap_or(zone);
    let start_ns = zone.to_utc(local_s).checked_mul(SECOND_NS)?.checked_add(fraction_ns)?;
    let end_ns = match finest {
        6 => start_ns.checked_add(MS_NS)?,
        finest => add(start_ns, 1, ['y', 'M', 'd', 'h', 'm', 's'][finest], zone)?,
    };
    Some(Instants { start_ns, end_ns })
}

enum Run<'p> {
    Letter(char),
    Text(&'p str),
}

/// The runs of equal letters of a pattern, with their lengths, and the texts between them.
fn runs(pattern: &str) -> Vec<(Run<'_>, usize)> {
    let mut found = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let length;
        if first.is_ascii_alphabetic() {
            length = rest.bytes().take_while(|b| *b == first as u8).count();
            found.push((Run::Letter(first), length));
        } else if let Some((quoted, _)) = rest.strip_prefix('\'').and_then(|r| r.split_once('\'')) {
            length = quoted.len() + 2;
            let text = if quoted.is_empty() { &rest[..1] } else { quoted };
            found.push((Run::Text(text), length));
        } else {
            length = first.len_utf8();
            found.push((Run::Text(&rest[..length]), length));
        }
        rest = &rest[length..];
    }
    found
}

/// Checks a format in which dates are written.
pub fn check_format(format: &str) -> Result<(), Refused> {
    let known = |format: &str| {
        matches!(
            format,
            "epoch_millis"
                | "epoch_second"
                | "strict_date_optional_time"
                | "date_optional_time"
                | "strict_date_optional_time_nanos"
                | "date_time"
                | "strict_date_time"
                | "strict_date"
                | "date"
                | "iso8601"
        ) || runs(format).iter().all(|(run, _)| match run {
            Run::Letter(letter) => "yuMdHmsSXZx".contains(*letter),
            Run::Text(_) => true,
        })
    };
    if format.len() > FORMAT_BYTES_MAX {
        return Err(Refused::argument(format!(
            "[format] has {} bytes, more than {FORMAT_BYTES_MAX}; write a shorter one",
            format.len()
        )));
    }
    match format.split("||").find(|format| !known(format)) {
        None => Ok(()),
        Some(unknown) => Err(Refused::argument(format!(
            "[format] [{}] is not understood; there are epoch_millis, epoch_second, strict_date_optional_time, \
             strict_date_optional_time_nanos, date_time, strict_date, and patterns of yyyy MM dd HH mm ss SSS Z",
            crate::object::cut(unknown)
        ))),
    }
}

/// Writes a time in the first of some formats.
pub fn write(time_ns: i64, format: Option<&str>, zone: Zone) -> String {
    let format = format.and_then(|format| format.split("||").next());
    let utc_s = time_ns.div_euclid(SECOND_NS);
    let offset_s = i64::from(zone.offset_at_utc(utc_s));
    let local = Moment::at(time_ns.saturating_add(offset_s * SECOND_NS));
    let date = format!("{:04}-{:02}-{:02}", local.year, local.month, local.day);
    let whole = |digits: usize| {
        let fraction = format!("{:09}", local.nanosecond);
        let (hour, minute, second) = (local.hour, local.minute, local.second);
        let clock = format!("{hour:02}:{minute:02}:{second:02}.{}", &fraction[..digits]);
        format!("{date}T{clock}{}", written_offset(offset_s, true))
    };
    match format {
        None
        | Some(
            "strict_date_optional_time"
            | "date_optional_time"
            | "date_time"
            | "strict_date_time"
            | "iso8601",
        ) => whole(3),
        Some("strict_date_optional_time_nanos") => whole(9),
        Some("strict_date" | "date") => date,
        Some("epoch_millis") => time_ns.div_euclid(MS_NS).to_string(),
        Some("epoch_second") => utc_s.to_string(),
        Some(pattern) => {
            let mut text = String::new();
            for (run, length) in runs(pattern) {
                let number = match run {
                    Run::Text(plain) => {
                        text.push_str(plain);
                        continue;
                    }
                    Run::Letter('X' | 'Z' | 'x') => {
                        text.push_str(&written_offset(offset_s, length != 2));
                        continue;
                    }
                    Run::Letter('S') => {
                        text.push_str(&format!("{:09}", local.nanosecond)[..length.min(9)]);
                        continue;
                    }
                    Run::Letter('y' | 'u') => local.year,
                    Run::Letter('M') => i64::from(local.month),
                    Run::Letter('d') => i64::from(local.day),
                    Run::Letter('H') => i64::from(local.hour),
                    Run::Letter('m') => i64::from(local.minute),
                    Run::Letter(_) => i64::from(local.second),
                };
                text.push_str(&format!("{number:0length$}"));
            }
            text
        }
    }
}

fn written_offset(offset_s: i64, colon: bool) -> String {
    if offset_s == 0 {
        return "Z".to_owned();
    }
    let sign = if offset_s < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset_s.abs() / 3600, offset_s.abs() / 60 % 60);
    format!("{sign}{hours:02}{}{minutes:02}", if colon { ":" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::time::format_time;

    #[test]
    fn dates_and_their_arithmetic() {
        let now_ns = iso("2026-01-31T12:34:56.789Z", Zone::UTC).unwrap().start_ns;
        let check = |text: &str, format: Option<&str>, zone: &str, expected: &str| {
            let zone = Zone::parse(zone).unwrap();
            let found = parse(text, Reading { format, zone, now_ns });
            let found = found.map_or_else(
                |refused| refused.kind.to_owned(),
                |found| format!("{} {}", format_time(found.start_ns), format_time(found.end_ns)),
            );
            assert_eq!(found, expected, "{text}");
        };
        check("now-15m/m", None, "UTC", "2026-01-31T12:19:00Z 2026-01-31T12:20:00Z");
        check("now/d", None, "+02:00", "2026-01-30T22:00:00Z 2026-01-31T22:00:00Z");
        check("now+1M/M", None, "UTC", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z");
        check("now/w", None, "UTC", "2026-01-26T00:00:00Z 2026-02-02T00:00:00Z");
        check("2026-01-31||+1M", None, "UTC", "2026-02-28T00:00:00Z 2026-03-01T00:00:00Z");
        check("2026-01-31", None, "Europe/Berlin", "2026-01-30T23:00:00Z 2026-01-31T23:00:00Z");
        check("1769860800000", None, "UTC", "2026-01-31T12:00:00Z 2026-01-31T12:00:00.001Z");
        check(
            "1769860800",
            Some("epoch_second"),
            "UTC",
            "2026-01-31T12:00:00Z 2026-01-31T12:00:01Z",
        );
        check("31/1/2026", Some("d/M/yyyy"), "UTC", "2026-01-31T00:00:00Z 2026-02-01T00:00:00Z");
        for wrong in ["", "now-", "now-1x", "now/", "yesterday", "2026-13-01", "now+1d||"] {
            check(wrong, None, "UTC", "parse_exception");
        }
        check("now-9999999999999y", None, "UTC", "parse_exception");
        check("now+9000000000000000000M", None, "UTC", "parse_exception");
        check("now-106751991167300d", None, "+02:00", "parse_exception");
        let years = "y".repeat(18);
        check(&"9".repeat(18), Some(&years), "UTC", "parse_exception");
    }

    #[test]
    fn a_day_behind_one_without_midnight_begins_at_midnight() {
        // In Cairo clocks go from 2026-04-23T24:00 to 01:00.
        let cairo = Zone::parse("Africa/Cairo").unwrap();
        let check = |text: &str, expected: &str| {
            let reading = Reading { format: None, zone: cairo, now_ns: 0 };
            let found = parse(text, reading).unwrap();
            let found = format!("{} {}", format_time(found.start_ns), format_time(found.end_ns));
            assert_eq!(found, expected, "{text}");
        };
        check("2026-04-23T12:00:00Z||/d", "2026-04-22T22:00:00Z 2026-04-23T22:00:00Z");
        check("2026-04-24T12:00:00Z||/d", "2026-04-23T22:00:00Z 2026-04-24T21:00:00Z");
        check("2026-04-25T12:00:00Z||/d", "2026-04-24T21:00:00Z 2026-04-25T21:00:00Z");
        check("2026-04-24T12:00:00Z||/M", "2026-03-31T22:00:00Z 2026-04-30T21:00:00Z");
    }

    #[test]
    fn long_formats_are_refused() {
        let longest = "y".repeat(FORMAT_BYTES_MAX);
        assert!(check_format(&longest).is_ok());
        assert_eq!(write(0, Some(&longest), Zone::UTC).len(), FORMAT_BYTES_MAX);
        // The standard library panics at widths above 65,535.
        for format in ["y".repeat(70_000), format!("'{}'", "x".repeat(FORMAT_BYTES_MAX))] {
            assert!(check_format(&format).unwrap_err().reason.contains("bytes"));
        }
    }

    #[test]
    fn formats_of_answers() {
        let time_ns = iso("2026-07-01T10:02:03.456789Z", Zone::UTC).unwrap().start_ns;
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        for (format, zone, expected) in [
            (None, Zone::UTC, "2026-07-01T10:02:03.456Z"),
            (None, berlin, "2026-07-01T12:02:03.456+02:00"),
            (Some("epoch_millis"), berlin, "1782900123456"),
            (Some("yyyy-MM-dd HH:mm:ss.SSS"), berlin, "2026-07-01 12:02:03.456"),
            (Some("strict_date_optional_time_nanos"), Zone::UTC, "2026-07-01T10:02:03.456789000Z"),
        ] {
            assert_eq!(write(time_ns, format, zone), expected);
        }
        assert!(check_format("yyyy'T'HH").is_ok() && check_format("EEE").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_date_panics(text in ".{0,20}", format in "[yMdHmsSX|'/ -]{0,12}") {
            let reading = Reading { format: Some(&format), zone: Zone::UTC, now_ns: 0 };
            let _ = parse(&text, reading);
            let _ = parse(&format!("now{text}"), reading);
            if check_format(&format).is_ok() {
                write(1, Some(&format), Zone::UTC);
            }
        }
    }
}
