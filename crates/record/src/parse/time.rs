//! Parses times as they are written in lines, and completes them.
//!
//! A written time may lack its zone, or zone and year; [`resolve`] completes it from the arrival
//! time of the line. This module parses the formats of headers (ISO 8601 and RFC 3339, RFC 3164,
//! Apache) and numbers since 1970; leading times of plain lines are in [`super::time_plain`].
//!
//! Invariant: a resolved time is between 1970 and 2262 and at most [`AHEAD_S_MAX`] after its line's
//! arrival. Left out: week dates, and leap seconds, which count as the first second of the next
//! minute. Zones are in [`super::time_zone`].

use text::civil::{civil_from_days, days_from_civil};

use super::short;
use super::time_zone::{self, Unclear, WrittenZone, zone};
use crate::zone::Zone;

/// A time further ahead of the arrival is rejected. A day, so that any zone error is tolerated.
pub(crate) const AHEAD_S_MAX: i64 = 86_400;
/// A time that is this near to the arrival in the expected zone is assumed to be in that zone.
const ZONE_SURE_S: i64 = 600;
/// How near another zone must bring a time to the arrival to be accepted. Narrow, because a line
/// that was held back (in the queue of a disconnected sender) looks like one from another zone if
/// the delay is near a whole number of hours; wide enough for clocks that are a minute off.
const ZONE_NEAR_S: i64 = 90;
/// Zones in use, in minutes east of UTC, in addition to the whole hours from -12 to +14.
const ZONES_BETWEEN_MIN: [i64; 13] =
    [-570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765, 825];
/// 2262-01-01: nanoseconds since 1970 still fit into 64 bits.
const SECONDS_END: i64 = 9_214_646_400;

/// Seconds of a leap year.
const LONGEST_YEAR_S: i64 = 366 * 86_400;

/// The highest bit of each byte of eight.
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A time as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Seconds since 1970 as if the written time were in UTC; in the year 1972 if the year is
    /// missing.
    pub local_s: i64,
    pub nanos: u32,
    /// The zone, if written.
    pub zone: Option<WrittenZone>,
    pub has_year: bool,
    /// Only the day is written; the time is its beginning.
    pub is_day: bool,
    /// Days from this reading of the date to others of the same digits, as of `05/11/26`; 0 where
    /// there is none.
    pub others_days: [i32; 2],
}

/// Of a date that can be read in one way only.
pub(crate) const NO_OTHERS: [i32; 2] = [0; 2];

impl Written {
    /// A time that was written as a number since 1970.
    pub fn of_utc(local_s: i64, nanos: u32) -> Written {
        let zone = Some(WrittenZone::UTC);
        Written { local_s, nanos, zone, has_year: true, is_day: false, others_days: NO_OTHERS }
    }
}

/// Data for determining zones and years that are not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Nanoseconds since 1970 UTC.
    pub arrival_ns: i64,
    pub expected: Expected,
}

/// What is assumed of times without zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The zone that they have.
    pub zone: Zone,
    /// Whether that zone was configured for these lines, so that no other is detected.
    pub is_sure: bool,
    /// Whether lines arrive as they are written, so that another zone can be detected from the
    /// arrival time. False for what a file held before it was followed: such lines may be of any
    /// age.
    pub live: bool,
}

/// The time is before 1970, after 2262, or more than [`AHEAD_S_MAX`] ahead of the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absurd;

/// Nanoseconds since 1970 UTC of a written time.
pub(crate) fn resolve(written: Written, context: Context) -> Result<i64, Absurd> {
    let arrival_s = context.arrival_ns.div_euclid(1_000_000_000);
    let local_s = local_s(written, context).ok_or(Absurd)?;
    let utc_s = match written.zone {
        Some(WrittenZone::Known(zone)) => zone.to_utc(local_s),
        Some(WrittenZone::Unclear(name)) => of_unclear(name, local_s, context)
            .unwrap_or_else(|| with_zone(local_s, arrival_s, context)),
        // A day says nothing of the zone.
        None if written.is_day => context.expected.zone.to_utc(local_s),
        None => with_zone(local_s, arrival_s, context),
    };
    if written.is_day && (utc_s..utc_s + 86_400).contains(&arrival_s) {
        // A line of today: its arrival is the better time.
        return Ok(context.arrival_ns);
    }
    in_bounds(utc_s, written.nanos, context.arrival_ns)
}

/// The written time with its year, as if it were in UTC; `None` if no year fits.
fn local_s(written: Written, context: Context) -> Option<i64> {
    let is_clear = written.others_days == NO_OTHERS;
    if written.has_year && is_clear {
        return Some(written.local_s);
    }
    let zone = match written.zone {
        Some(WrittenZone::Known(zone)) => zone,
        _ => context.expected.zone,
    };
    let arrival_s = context.arrival_ns.div_euclid(1_000_000_000);
    let now_s = arrival_s + i64::from(zone.offset_at_utc(arrival_s));
    let in_year = |local_s| match written.has_year {
        true => Some(local_s),
        false => with_year(local_s, now_s),
    };
    if is_clear {
        return in_year(written.local_s);
    }
    let [second, third] = written.others_days.map(|days| match days {
        0 => None,
        days => in_year(written.local_s + i64::from(days) * 86_400),
    });
    likeliest([in_year(written.local_s), second, third], now_s, context.expected.live)
}

/// Of the readings of one date, the usual one first, the likeliest: of a line that arrives as it is
/// written, one that is within a day of its arrival. Otherwise the usual one, unless it is in the
/// future, or another one is nearer by more than a year: a wrong order of year, month and day is
/// years away, and without that nothing tells the month from the day. All in the same zone.
fn likeliest(readings: [Option<i64>; 3], now_s: i64, live: bool) -> Option<i64> {
    let apart_s = |local_s: &i64| local_s.abs_diff(now_s);
    let nearest = readings.into_iter().flatten().min_by_key(apart_s)?;
    if live && apart_s(&nearest) <= AHEAD_S_MAX as u64 {
        return Some(nearest);
    }
    let ahead_s = now_s + AHEAD_S_MAX;
    readings.into_iter().flatten().reduce(|best_s, local_s| {
        let is_better = best_s > ahead_s || local_s - best_s > LONGEST_YEAR_S;
        if is_better && local_s <= ahead_s { local_s } else { best_s }
    })
}

/// Nanoseconds since 1970 of seconds and nanoseconds, unless absurd.
pub(crate) fn in_bounds(utc_s: i64, nanos: u32, arrival_ns: i64) -> Result<i64, Absurd> {
    let arrival_s = arrival_ns.div_euclid(1_000_000_000);
    if !(0..SECONDS_END).contains(&utc_s) || utc_s > arrival_s.saturating_add(AHEAD_S_MAX) {
        return Err(Absurd);
    }
    Ok(utc_s * 1_000_000_000 + i64::from(nanos))
}

/// The latest year that puts the time at most a day ahead of `now_s`; both in the same zone.
pub(crate) fn with_year(local_s: i64, now_s: i64) -> Option<i64> {
    let (_, month, day) = civil_from_days(local_s.div_euclid(86_400));
    let second = local_s.rem_euclid(86_400);
    let (year, _, _) = civil_from_days((now_s + AHEAD_S_MAX).div_euclid(86_400));
    // Only 29 February can be more than one year back; leap years are at most 8 years apart.
    (0..=8).map(|back| year - back).find_map(|year| {
        let candidate_s = days_from_civil(year, month, day)? * 86_400 + second;
        (candidate_s <= now_s + AHEAD_S_MAX).then_some(candidate_s)
    })
}

/// Whether the name of the zone has several meanings, and nothing tells which is meant.
pub(crate) fn is_unclear(written: Written, context: Context) -> bool {
    match written.zone {
        Some(WrittenZone::Unclear(name)) if !context.expected.is_sure => {
            let local_s = local_s(written, context);
            local_s.is_some_and(|local_s| of_unclear(name, local_s, context).is_none())
        }
        _ => false,
    }
}

/// The time in UTC in one of the zones that have this name: the expected one, or else the one that
/// fits the arrival (even the expected one, of a sender that names another), or else the usual one.
fn of_unclear(name: &Unclear, local_s: i64, context: Context) -> Option<i64> {
    let expected_s = context.expected.zone.to_utc(local_s);
    let meanings = || name.offsets_s().map(|offset_s| local_s - offset_s);
    if meanings().any(|utc_s| utc_s == expected_s) {
        return Some(expected_s);
    }
    let arrival_s = context.arrival_ns.div_euclid(1_000_000_000);
    let fits =
        |utc_s: &i64| context.expected.live && utc_s.abs_diff(arrival_s) <= ZONE_SURE_S as u64;
    let fitting = meanings().chain([expected_s]).find(fits);
    fitting.or_else(|| name.usual_offset_s().map(|offset_s| local_s - offset_s))
}

fn with_zone(local_s: i64, arrival_s: i64, context: Context) -> i64 {
    if !context.expected.live {
        return context.expected.zone.to_utc(local_s);
    }
    let expected_s = context.expected.zone.to_utc_near(local_s, arrival_s);
    if context.expected.is_sure || (expected_s - arrival_s).abs() <= ZONE_SURE_S {
        return expected_s;
    }
    let apart_s = local_s - arrival_s;
    let whole_hours = (-12..=14).map(|hours| hours * 3600);
    let zones = whole_hours.chain(ZONES_BETWEEN_MIN.iter().map(|minutes| minutes * 60));
    let nearest = zones.min_by_key(|zone_s| (apart_s - zone_s).abs()).expect("there are zones");
    if (apart_s - nearest).abs() <= ZONE_NEAR_S { local_s - nearest } else { expected_s }
}

/// ISO 8601 as logs write it: `2026-01-31T12:00:00.123+01:00`, with a space for `T`, `/` for `-`, a
/// comma for the point, with or without fraction and zone. Returns the time and its length; more
/// text may follow.
pub(crate) fn iso(text: &[u8]) -> Option<(Written, usize)> {
    let date = text.first_chunk::<19>()?;
    let separator = date[4];
    if !matches!(separator, b'-' | b'/')
        || date[7] != separator
        || !matches!(date[10], b'T' | b't' | b' ' | b'_' | b'\t')
    {
        return None;
    }
    let year = i64::from(two(date, 0)? * 100 + two(date, 2)?);
    let days = days_from_civil(year, two(date, 5)?, two(date, 8)?)?;
    let mut second = clock(&date[11..])?;
    let mut at = 19;
    let nanos = fraction_or_millis(text, &mut at);
    if let [b' ', b'A' | b'P' | b'a' | b'p', b'M' | b'm', ..] = text[at..] {
        let hour = (second / 3600) as u32;
        second += (i64::from(of_twelve(hour, text, &mut at)) - i64::from(hour)) * 3600;
    }
    let zone = zone(text, &mut at);
    let written = Written {
        local_s: days * 86_400 + second,
        nanos,
        zone,
        has_year: true,
        is_day: false,
        others_days: NO_OTHERS,
    };
    Some((written, at))
}

/// RFC 3164 section 4.1.2 and what devices make of it: `Jan 31 12:00:00`, `Jan  1`, `Jan 1`, `Jan
/// 31 2026 12:00:00`, `Jan 31 12:00:00.123`, `Jan 31 12:00:00 2026`, `Jan 31 12:00:00.123 UTC`.
pub(crate) fn month_first(text: &[u8]) -> Option<(Written, usize)> {
    let (month, mut at) = match (month_number(text.first_chunk::<3>()?), text.get(3)) {
        (Some(month), Some(b' ')) => (month, 3),
        _ => month_name(text)?,
    };
    if text.get(at) != Some(&b' ') {
        return None;
    }
    at += 1;
    if text.get(at) == Some(&b' ') {
        at += 1;
    }
    let (day, digits) = number(&text[at..], 2)?;
    at += digits;
    if text.get(at) != Some(&b' ') {
        return None;
    }
    at += 1;
    let mut year = None;
    if let Some(found) = four_digits(text, at)
        && text.get(at + 4) == Some(&b' ')
    {
        year = Some(found);
        at += 5;
    }
    let second = clock(text.get(at..)?)?;
    at += 8;
    let nanos = fraction(text, &mut at);
    if year.is_none()
        && text.get(at) == Some(&b' ')
        && let Some(found @ 1970..2262) = four_digits(text, at + 1)
        && matches!(text[at + 5..], [] | [b' ', ..] | [b':', b' ', ..])
    {
        year = Some(found);
        at += 5;
    }
    let zone = zone(text, &mut at);
    let days = days_from_civil(i64::from(year.unwrap_or(1972)), month, day)?;
    let local_s = days * 86_400 + second;
    let written = Written {
        local_s,
        nanos,
        zone,
        has_year: year.is_some(),
        is_day: false,
        others_days: NO_OTHERS,
    };
    Some((written, at))
}

/// `2026 Jan 31 12:00:00`, with all variants of [`month_first`]: the year in front, as Cisco's
/// Nexus writes it.
pub(crate) fn year_first(text: &[u8]) -> Option<(Written, usize)> {
    let year = four_digits(text, 0)?;
    let (written, length) = month_first(text.get(4..)?.strip_prefix(b" ")?)?;
    if written.has_year {
        return None;
    }
    let (_, month, day) = civil_from_days(written.local_s.div_euclid(86_400));
    let days = days_from_civil(i64::from(year), month, day)?;
    let local_s = days * 86_400 + written.local_s.rem_euclid(86_400);
    Some((Written { local_s, has_year: true, ..written }, length + 5))
}

/// Apache's `17/May/2015:10:05:03 +0000`, without the brackets.
pub(crate) fn apache(text: &[u8]) -> Option<Written> {
    let date = text.first_chunk::<26>().filter(|_| text.len() == 26)?;
    if [date[2], date[6], date[11], date[20]] != *b"//: " {
        return None;
    }
    let month = month_number(&[date[3], date[4], date[5]])?;
    let year = i64::from(two(date, 7)? * 100 + two(date, 9)?);
    let days = days_from_civil(year, month, two(date, 0)?)?;
    let second = clock(&date[12..])?;
    let zone = Some(WrittenZone::offset(time_zone::numeric(&date[21..])?.0));
    Some(Written {
        local_s: days * 86_400 + second,
        nanos: 0,
        zone,
        has_year: true,
        is_day: false,
        others_days: NO_OTHERS,
    })
}

/// NetScaler's `01/31/2026:12:00:00 GMT`; also with the day first, where it can only be that, or
/// fits the arrival.
pub(crate) fn slashed(text: &[u8]) -> Option<(Written, usize)> {
    let date = text.first_chunk::<19>()?;
    if [date[2], date[5], date[10]] != *b"//:" {
        return None;
    }
    let (first, second) = (two(date, 0)?, two(date, 3)?);
    let year = i64::from(four_digits(date, 6)?);
    let (days, others_days) = readings([(year, first, second), (year, second, first), NO_DATE])?;
    let local_s = days * 86_400 + clock(&date[11..])?;
    let mut at = 19;
    let nanos = fraction(text, &mut at);
    let zone = zone(text, &mut at);
    Some((Written { local_s, nanos, zone, has_year: true, is_day: false, others_days }, at))
}

/// Year, month and day of no date, for [`readings`].
pub(crate) const NO_DATE: (i64, u32, u32) = (0, 0, 0);

/// Days since 1970 of the first of these dates that there is, and days from it to the others.
pub(crate) fn readings(dates: [(i64, u32, u32); 3]) -> Option<(i64, [i32; 2])> {
    let civil = |(year, month, day)| days_from_civil(year, month, day);
    let mut days = dates.into_iter().filter_map(civil);
    let first = days.next()?;
    let others = [days.next(), days.next()];
    Some((first, others.map(|days| days.map_or(0, |days| (days - first) as i32))))
}

/// The year first, with a sign before the time that no other form has: `2026:01:31-12:00:00` of
/// Sophos UTM, `2026/01/31:12:00:00 GMT` of NetScaler.
pub(crate) fn joined(text: &[u8]) -> Option<(Written, usize)> {
    let date = text.first_chunk::<19>()?;
    if !matches!([date[4], date[7], date[10]], [b':', b':', b'-'] | [b'/', b'/', b':']) {
        return None;
    }
    let year = i64::from(four_digits(date, 0)?);
    let days = days_from_civil(year, two(date, 5)?, two(date, 8)?)?;
    let local_s = days * 86_400 + clock(&date[11..])?;
    let mut at = 19;
    let nanos = fraction(text, &mut at);
    let (zone, others_days) = (zone(text, &mut at), NO_OTHERS);
    Some((Written { local_s, nanos, zone, has_year: true, is_day: false, others_days }, at))
}

/// A number since 1970: seconds, milliseconds, microseconds or nanoseconds, distinguished by
/// magnitude, with or without a fraction. Returns seconds and nanoseconds. Numbers below
/// 100,000,000 (1973) are not times: they are durations and counts.
pub(crate) fn since_1970(text: &[u8]) -> Option<(i64, u32)> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, rest) = text.split_at(point);
    let (value, digits) = big_number(whole)?;
    if digits != whole.len() || value < 100_000_000 {
        return None;
    }
    // The unit in nanoseconds.
    let unit: u64 = match value {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let per_second = 1_000_000_000 / unit;
    let mut nanos = (value % per_second) * unit;
    let mut weight = unit / 10;
    for &byte in rest.get(1..).unwrap_or_default() {
        if !byte.is_ascii_digit() {
            return None;
        }
        nanos += u64::from(byte - b'0') * weight;
        weight /= 10;
    }
    Some(((value / per_second) as i64, nanos as u32))
}

/// Seconds of the day of `hh:mm:ss`, the first eight bytes.
pub(crate) fn clock(text: &[u8]) -> Option<i64> {
    // Digits become their values and colons zero; all other bytes get a high bit in the addition.
    let values = short::eight(text, 0)? ^ 0x3030_3a30_303a_3030;
    if (values.wrapping_add(0x7676_7f76_767f_7676) | values) & HIGHS != 0 {
        return None;
    }
    let two = |shift: u32| ((values >> shift & 15) * 10 + (values >> (shift + 8) & 15)) as u32;
    seconds(two(0), two(24), two(48))
}

/// Seconds of the day; 60 seconds are accepted for leap seconds.
pub(crate) fn seconds(hour: u32, minute: u32, second: u32) -> Option<i64> {
    (hour < 24 && minute < 60 && second <= 60)
        .then(|| i64::from(hour * 3600 + minute * 60 + second))
}

/// Nanoseconds of a fraction at `at` (`.123`, `,123`), and moves `at` behind it; 0 without a
/// fraction. Digits beyond the ninth are ignored.
pub(crate) fn fraction(text: &[u8], at: &mut usize) -> u32 {
    if !matches!(text.get(*at), Some(b'.' | b',')) {
        return 0;
    }
    let (nanos, digits) = fraction_digits(&text[*at + 1..]);
    if digits == 0 {
        return 0;
    }
    *at += 1 + digits;
    nanos
}

/// The same, also of three digits behind a colon, as some programs write milliseconds.
pub(crate) fn fraction_or_millis(text: &[u8], at: &mut usize) -> u32 {
    if let Some([b':', digits @ ..]) = text.get(*at..)
        && let (nanos, 3) = fraction_digits(digits)
        && matches!(digits.get(3), None | Some(b' ' | b'\t' | b']' | b')' | b',' | b'|' | b'Z'))
    {
        *at += 4;
        return nanos;
    }
    fraction(text, at)
}

/// Nanoseconds of the digits at the start, which follow a point, and how many they are.
pub(crate) fn fraction_digits(text: &[u8]) -> (u32, usize) {
    if let Some(eight) = short::eight(text, 0) {
        // As in `clock`; and no carry before the first byte that is not a digit.
        let values = eight ^ 0x3030_3030_3030_3030;
        let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & HIGHS;
        if others != 0 {
            let digits = others.trailing_zeros() as usize / 8;
            let values = values & ((1 << (8 * digits)) - 1);
            // Two, four and eight digits at a time.
            let values = values.wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
            let values = values.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
            let values = values.wrapping_mul(10_000 << 32 | 1) >> 32;
            return (values as u32 * 10, digits);
        }
    }
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let nanos = text[..digits.min(9)].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
    (nanos * 10u32.pow(9 - digits.min(9) as u32), digits)
}

/// The hour of a clock of twelve hours with ` AM` or ` PM` at `at`, and moves `at` behind it. The
/// hour itself if neither is there, or if it is that of a clock of 24 hours (`13:00:00 PM`).
pub(crate) fn of_twelve(hour: u32, text: &[u8], at: &mut usize) -> u32 {
    let rest = &text[*at..];
    // Java writes a narrow blank.
    let blank = match rest {
        [b' ', ..] => 1,
        [0xe2, 0x80, 0xaf, ..] => 3,
        _ => 0,
    };
    let (is_afternoon, length) = match &rest[blank..] {
        [half @ (b'A' | b'P' | b'a' | b'p'), b'M' | b'm', ..] => (half | 0x20 == b'p', 2),
        [half @ (b'a' | b'p'), b'.', b'm', b'.', ..] => (*half == b'p', 4),
        _ => return hour,
    };
    let behind = &rest[blank + length..];
    if behind.first().is_some_and(u8::is_ascii_alphanumeric) || time_zone::is_joined(behind) {
        return hour;
    }
    *at += blank + length;
    match hour {
        1..=12 => hour % 12 + if is_afternoon { 12 } else { 0 },
        _ => hour,
    }
}

/// 1 to 12 of `Jan` to `Dec`, in any case: some devices write `NOV`.
pub(crate) fn month_number(name: &[u8; 3]) -> Option<u32> {
    // Only the case bit changes: other bytes do not become one of these letters.
    Some(match &name.map(|b| b | 0x20) {
        b"jan" => 1,
        b"feb" => 2,
        b"mar" => 3,
        b"apr" => 4,
        b"may" => 5,
        b"jun" => 6,
        b"jul" => 7,
        b"aug" => 8,
        b"sep" => 9,
        b"oct" => 10,
        b"nov" => 11,
        b"dec" => 12,
        _ => return None,
    })
}

/// Names of months other than those of [`month_number`], in small letters: in full, and as they
/// are abbreviated in German, French, Spanish, Italian, Portuguese and Dutch.
const MONTHS: [&[&str]; 12] = [
    &[
        "january", "januar", "jänner", "jän", "janvier", "janv", "enero", "ene", "gennaio", "gen",
        "janeiro", "januari",
    ],
    &[
        "february",
        "februar",
        "feber",
        "février",
        "févr",
        "fév",
        "fevr",
        "fev",
        "febrero",
        "febbraio",
        "fevereiro",
        "februari",
    ],
    &["march", "märz", "mär", "mrz", "mars", "marzo", "março", "mrt", "maart"],
    &["april", "avril", "avr", "abril", "abr", "aprile"],
    &["mai", "mayo", "maggio", "mag", "maio", "mei"],
    &["june", "juni", "juin", "junio", "giugno", "giu", "junho"],
    &["july", "juli", "juil", "juillet", "julio", "luglio", "lug", "julho"],
    &["august", "août", "aoû", "aout", "agosto", "ago", "augustus"],
    &["september", "sept", "septembre", "septiembre", "settembre", "set", "setembro"],
    &["october", "oktober", "okt", "octobre", "octubre", "ottobre", "ott", "outubro", "out"],
    &["november", "novembre", "noviembre", "novembro"],
    &[
        "december",
        "dezember",
        "dez",
        "decembre",
        "décembre",
        "déc",
        "diciembre",
        "dic",
        "dicembre",
        "dezembro",
    ],
];
const MONTH_BYTES_MAX: usize = 10;

/// The month at the start, in any of the languages of [`MONTHS`], and the length of its name with a
/// point behind it.
pub(crate) fn month_name(text: &[u8]) -> Option<(u32, usize)> {
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b >= 0x80;
    let length = text.iter().take(MONTH_BYTES_MAX + 1).take_while(|b| is_letter(b)).count();
    let name = &text[..length];
    let known = || {
        let is_it = |names: &&[&str]| names.iter().any(|n| n.as_bytes().eq_ignore_ascii_case(name));
        MONTHS.iter().position(is_it).map(|index| index as u32 + 1)
    };
    let month = match name {
        [a, b, c] => month_number(&[*a, *b, *c]).or_else(known)?,
        [_, _, _, ..] if length <= MONTH_BYTES_MAX => known()?,
        _ => return None,
    };
    Some((month, length + usize::from(text.get(length) == Some(&b'.'))))
}

/// The two digits at `at`.
#[inline]
pub(crate) fn two(text: &[u8], at: usize) -> Option<u32> {
    let tens = text.get(at)?.wrapping_sub(b'0');
    let ones = text.get(at + 1)?.wrapping_sub(b'0');
    (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
}

fn four_digits(text: &[u8], at: usize) -> Option<u32> {
    Some(two(text, at)? * 100 + two(text, at + 2)?)
}

/// A decimal number of at most `digits_max` (≤ 9) digits at the start, and how many digits it has.
pub(crate) fn number(text: &[u8], digits_max: usize) -> Option<(u32, usize)> {
    let digits = text.iter().take(digits_max).take_while(|b| b.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
    (digits > 0).then_some((value, digits))
}

fn big_number(text: &[u8]) -> Option<(u64, usize)> {
    let digits = text.iter().take(19).take_while(|b| b.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    (digits > 0).then_some((value, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rfc3339(text: &str) -> i64 {
        let (written, length) = iso(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(length, text.len(), "{text}");
        let utc_s = match written.zone {
            Some(WrittenZone::Known(zone)) => zone.to_utc(written.local_s),
            _ => written.local_s,
        };
        utc_s * 1_000_000_000 + i64::from(written.nanos)
    }

    #[test]
    fn clocks_and_fractions() {
        let naive_clock = |text: &[u8]| {
            let colons = text.len() >= 8 && text[2] == b':' && text[5] == b':';
            colons.then_some(())?;
            seconds(two(text, 0)?, two(text, 3)?, two(text, 6)?)
        };
        for sample in ["12:34:56", "00:00:00", "23:59:60", "24:00:00", "12:60:00", "12:34:5"] {
            assert_eq!(clock(sample.as_bytes()), naive_clock(sample.as_bytes()), "{sample}");
            for at in 0..sample.len() {
                for byte in 0..=255 {
                    let mut text = sample.as_bytes().to_vec();
                    text[at] = byte;
                    assert_eq!(clock(&text), naive_clock(&text), "{text:?}");
                }
            }
        }
        for behind in ["", "Z", "+01:00", " and more text", "\u{e9} and more", ":/"] {
            for (digits, nanos) in [
                ("", 0),
                ("9", 900_000_000),
                ("01", 10_000_000),
                ("123", 123_000_000),
                ("9876", 987_600_000),
                ("123456", 123_456_000),
                ("1234567", 123_456_700),
                ("12345678", 123_456_780),
                ("123456789", 123_456_789),
                ("1234567891", 123_456_789),
            ] {
                let text = format!("{digits}{behind}");
                assert_eq!(fraction_digits(text.as_bytes()), (nanos, digits.len()), "{text}");
            }
        }
    }

    #[test]
    fn iso_forms() {
        let rows: &[(&str, i64)] = &[
            ("1970-01-01T00:00:00Z", 0),
            ("2003-10-11T22:14:15.003Z", 1_065_910_455_003_000_000),
            ("2003-08-24T05:14:15.000003-07:00", 1_061_727_255_000_003_000),
            ("1985-04-12T23:20:50.52Z", 482_196_050_520_000_000),
            ("1985-04-12T19:20:50.52-04:00", 482_196_050_520_000_000),
            ("2015-10-18 18:01:47,978", 1_445_191_307_978_000_000),
            ("2015-10-18 18:01:47:978", 1_445_191_307_978_000_000),
            ("2015/10/18 18:01:47", 1_445_191_307_000_000_000),
            ("2015-10-18 18:01:47.1234567891", 1_445_191_307_123_456_789),
            ("2015-10-18T18:01:47+0200", 1_445_184_107_000_000_000),
            ("2015-10-18T18:01:47+02", 1_445_184_107_000_000_000),
            ("2015-10-18 18:01:47 +0200", 1_445_184_107_000_000_000),
            ("2015-10-18 18:01:47 UTC", 1_445_191_307_000_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
        ];
        for (text, ns) in rows {
            assert_eq!(rfc3339(text), *ns, "{text}");
        }
        for text in
            ["2015-10-18", "2015-13-18T00:00:00Z", "2015-10-18T24:00:00Z", "2015-10-18x18:01:47"]
        {
            assert_eq!(iso(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn dates_of_several_readings() {
        let noon = "2026-11-05T12:00:00Z";
        for (line, live, expected) in [
            // The day of arrival, where lines arrive as they are written; else the month is first.
            ("05/11/2026 11:59:00 x", true, "2026-11-05T11:59:00Z"),
            ("05/11/2026 11:59:00 x", false, "2026-05-11T11:59:00Z"),
            ("11/05/2026 11:59:00 x", true, "2026-11-05T11:59:00Z"),
            ("05/11/2026:11:59:00 x", true, "2026-11-05T11:59:00Z"),
            ("05/11 11:59:00 x", true, "2026-11-05T11:59:00Z"),
            ("05/11 11:59:00 x", false, "2026-05-11T11:59:00Z"),
            ("05/11/26 11:59:00 x", true, "2026-11-05T11:59:00Z"),
            ("05/11/26 11:59:00 x", false, "2026-05-11T11:59:00Z"),
            ("02/12/2025 11:59:00 x", false, "2025-02-12T11:59:00Z"),
            ("04/11/2026 11:59:00 x", true, "2026-04-11T11:59:00Z"),
            // With the month first it would be in the future.
            ("12/01/2026 11:59:00 x", false, "2026-01-12T11:59:00Z"),
            // The year is first, or it is last.
            ("17/06/09 11:59:00 x", true, "2017-06-09T11:59:00Z"),
            ("26/11/04 11:59:00 x", false, "2026-11-04T11:59:00Z"),
            ("31/01/26 11:59:00 x", false, "2026-01-31T11:59:00Z"),
        ] {
            let (written, _) = crate::parse::time_plain::find(line.as_bytes(), &mut 0).unwrap();
            let expected_zone = Expected { live, ..Expected::default() };
            let context = Context { arrival_ns: rfc3339(noon), expected: expected_zone };
            assert_eq!(resolve(written, context), Ok(rfc3339(expected)), "{line} {live}");
        }
    }

    fn check_header(text: &str, arrival: &str, zone_offset_s: i32, expected: &str) {
        let (written, length) = month_first(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(length, text.len(), "{text}");
        let zone = Zone::Fixed(zone_offset_s);
        let expected_zone = Expected { zone, is_sure: false, live: true };
        let context = Context { arrival_ns: rfc3339(arrival), expected: expected_zone };
        let found = resolve(written, context).unwrap();
        assert_eq!(found, rfc3339(expected), "{text} arrived {arrival}: {found}");
    }

    #[test]
    fn the_year_comes_from_the_arrival() {
        let rows = [
            ("Oct 11 22:14:15", "2026-10-11T22:14:16Z", "2026-10-11T22:14:15Z"),
            ("Oct  1 22:14:15", "2026-11-21T00:00:00Z", "2026-10-01T22:14:15Z"),
            ("Oct 1 22:14:15", "2026-11-21T00:00:00Z", "2026-10-01T22:14:15Z"),
            ("Dec 31 23:59:59", "2027-01-01T00:00:01Z", "2026-12-31T23:59:59Z"),
            ("Dec 10 06:55:46", "2026-11-21T00:00:00Z", "2025-12-10T06:55:46Z"),
            ("Jan  1 00:00:00", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
            ("Nov 21 20:00:00.123", "2026-11-21T20:00:01Z", "2026-11-21T20:00:00.123Z"),
            ("Feb 29 12:00:00", "2026-11-21T00:00:00Z", "2024-02-29T12:00:00Z"),
            ("Feb 29 12:00:00", "2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z"),
            ("Feb 29 12:00:00", "2103-11-21T00:00:00Z", "2096-02-29T12:00:00Z"),
            ("Jan 31 2026 12:00:00", "2026-11-21T00:00:00Z", "2026-01-31T12:00:00Z"),
            ("Jan 31 12:00:00 2026", "2026-11-21T00:00:00Z", "2026-01-31T12:00:00Z"),
            ("Jan 31 12:00:00.5 UTC", "2026-01-31T14:00:00Z", "2026-01-31T12:00:00.5Z"),
        ];
        for (text, arrival, expected) in rows {
            check_header(text, arrival, 0, expected);
        }
    }

    #[test]
    fn the_zone_comes_from_the_arrival() {
        let arrival = "2026-07-01T12:00:00Z";
        let rows = [
            // As expected, near enough.
            ("Jul  1 12:09:59", 0, "2026-07-01T12:09:59Z"),
            ("Jul  1 14:00:00", 7200, "2026-07-01T12:00:00Z"),
            // Another zone: +02:00, -07:00, +05:45, +14:00.
            ("Jul  1 14:00:03", 0, "2026-07-01T12:00:03Z"),
            ("Jul  1 04:59:58", 0, "2026-07-01T11:59:58Z"),
            ("Jul  1 17:45:00", 0, "2026-07-01T12:00:00Z"),
            ("Jul  2 02:00:00", 0, "2026-07-01T12:00:00Z"),
            // No zone brings it near: the expected one is used. Also if only a quarter of an hour
            // would.
            ("Jul  1 11:35:00", 0, "2026-07-01T11:35:00Z"),
            ("Jul  1 13:01:31", 0, "2026-07-01T13:01:31Z"),
            ("Jul  1 11:15:00", 0, "2026-07-01T11:15:00Z"),
            ("Jul  1 10:07:00", 0, "2026-07-01T10:07:00Z"),
            ("Jun 20 12:00:00", 0, "2026-06-20T12:00:00Z"),
        ];
        for (text, zone_offset_s, expected) in rows {
            check_header(text, arrival, zone_offset_s, expected);
        }
    }

    #[test]
    fn lines_of_files_have_the_expected_zone() {
        let (written, _) = month_first(b"Jul  1 14:00:03").unwrap();
        let context = Context {
            arrival_ns: rfc3339("2026-07-01T16:00:00Z"),
            expected: Expected { zone: Zone::Fixed(3600), ..Expected::default() },
        };
        assert_eq!(resolve(written, context), Ok(rfc3339("2026-07-01T13:00:03Z")));
    }

    #[test]
    fn zones_with_daylight_saving() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let check = |text: &str, arrival: &str, live: bool, is_sure: bool, expected: &str| {
            let (written, _) = iso(text.as_bytes()).unwrap();
            let assumed = Expected { zone: berlin, is_sure, live };
            let context = Context { arrival_ns: rfc3339(arrival), expected: assumed };
            let found = resolve(written, context);
            assert_eq!(found, Ok(rfc3339(expected)), "{text} {arrival} {live} {is_sure}");
        };
        let later = "2026-12-01T00:00:00Z";
        check("2026-01-31 12:00:00", later, false, true, "2026-01-31T11:00:00Z");
        check("2026-07-31 12:00:00", later, false, true, "2026-07-31T10:00:00Z");
        // What clocks skip in spring, and show twice in autumn.
        check("2026-03-29 02:30:00", later, false, true, "2026-03-29T01:30:00Z");
        check("2026-10-25 02:30:00", later, false, true, "2026-10-25T00:30:00Z");
        check("2026-10-25 02:30:00", "2026-10-25T00:30:01Z", true, true, "2026-10-25T00:30:00Z");
        check("2026-10-25 02:30:00", "2026-10-25T01:30:01Z", true, true, "2026-10-25T01:30:00Z");
        // Another zone fits the arrival: it counts, unless the zone was given for these lines.
        check("2026-07-31 12:00:00", "2026-07-31T12:00:01Z", true, true, "2026-07-31T10:00:00Z");
        check("2026-07-31 12:00:00", "2026-07-31T12:00:01Z", true, false, "2026-07-31T12:00:00Z");
        check("2026-07-31 12:00:00", "2026-07-31T10:00:01Z", true, false, "2026-07-31T10:00:00Z");
    }

    /// The year that is not written is that of the zone at the arrival.
    #[test]
    fn a_year_at_the_turn_of_the_year_of_its_zone() {
        let tokyo = Zone::parse("Asia/Tokyo").unwrap();
        let (written, _) = month_first(b"Jan  2 08:00:00").unwrap();
        let arrival_ns = rfc3339("2026-12-31T23:00:00Z");
        let expected = Expected { zone: tokyo, is_sure: true, live: false };
        let context = Context { arrival_ns, expected };
        assert_eq!(resolve(written, context), Ok(rfc3339("2027-01-01T23:00:00Z")));
    }

    #[test]
    fn names_of_zones_with_several_meanings() {
        let check = |text: &str, arrival: &str, zone: &str, live: bool, expected: &str| {
            let (written, length) = iso(text.as_bytes()).unwrap();
            assert_eq!(length, text.len(), "{text}");
            let zone = Zone::parse(zone).unwrap();
            let assumed = Expected { zone, is_sure: false, live };
            let context = Context { arrival_ns: rfc3339(arrival), expected: assumed };
            assert_eq!(resolve(written, context), Ok(rfc3339(expected)), "{text} {zone} {live}");
            is_unclear(written, context)
        };
        let (cst, ist, later) =
            ("2026-07-31 12:00:00 CST", "2026-07-31 12:00:00 IST", "2026-12-01T00:00:00Z");
        assert!(!check(cst, later, "UTC", false, "2026-07-31T18:00:00Z"));
        assert!(!check(cst, later, "Asia/Shanghai", false, "2026-07-31T04:00:00Z"));
        assert!(!check(cst, "2026-07-31T04:00:09Z", "UTC", true, "2026-07-31T04:00:00Z"));
        assert!(!check(cst, "2026-07-31T19:00:09Z", "UTC", true, "2026-07-31T18:00:00Z"));
        assert!(!check(ist, later, "Asia/Kolkata", false, "2026-07-31T06:30:00Z"));
        assert!(!check(ist, "2026-07-31T06:30:09Z", "UTC", true, "2026-07-31T06:30:00Z"));
        assert!(check(ist, later, "UTC", false, "2026-07-31T12:00:00Z"));
    }

    #[test]
    fn absurd_times() {
        let context = |arrival: &str| Context {
            arrival_ns: rfc3339(arrival),
            expected: Expected { live: true, ..Expected::default() },
        };
        let check = |text: &str, arrival: &str, absurd: bool| {
            let written = iso(text.as_bytes()).unwrap().0;
            assert_eq!(resolve(written, context(arrival)).is_err(), absurd, "{text} at {arrival}");
        };
        check("1969-12-31T23:59:59Z", "2026-01-01T00:00:00Z", true);
        check("1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z", false);
        check("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", false);
        check("2026-01-02T00:00:01Z", "2026-01-01T00:00:00Z", true);
        check("9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z", true);
        check("0000-01-01T00:00:00Z", "2026-01-01T00:00:00Z", true);
    }

    #[test]
    fn numbers_since_1970() {
        let rows: &[(&str, Option<(i64, u32)>)] = &[
            ("1700000000", Some((1_700_000_000, 0))),
            ("1700000000.25", Some((1_700_000_000, 250_000_000))),
            ("1700000000123", Some((1_700_000_000, 123_000_000))),
            ("1700000000123.5", Some((1_700_000_000, 123_500_000))),
            ("1700000000123456", Some((1_700_000_000, 123_456_000))),
            ("1700000000123456789", Some((1_700_000_000, 123_456_789))),
            ("1700000000.1234567891", Some((1_700_000_000, 123_456_789))),
            ("99999999", None),
            ("100000000", Some((100_000_000, 0))),
            ("-1700000000", None),
            ("17000000001234567890", None),
            ("12:00", None),
            ("1700000000.x", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(since_1970(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn apache_times() {
        let written = apache(b"17/May/2015:10:05:03 +0200").unwrap();
        assert_eq!(written.local_s, 1_431_857_103);
        assert_eq!(written.zone, Some(WrittenZone::offset(7200)));
        for text in
            ["17/May/2015:10:05:03", "17/Mai/2015:10:05:03 +0200", "17/May/2015 10:05:03 +0200"]
        {
            assert_eq!(apache(text.as_bytes()), None, "{text}");
        }
    }
}
