//! Zones as they are written behind times: offsets, names of regions, and abbreviations.
//!
//! Abbreviations are read as the programs of today write them: the time zone database has one
//! meaning for most of them (`CEST`, `JST`), and numbers for zones without one. Where there are
//! several, RFC 5322 decides for North America (`EST`, `CST`, `PST`), and use for `BST`, which is
//! British. `CST` and `PST`, which China and the Philippines write as well, are those of the zone
//! that is expected of the source, or else the one that fits the arrival of the line; RFC 5322
//! comes last. `IST` (India, Israel, Ireland) and others without a usual meaning count as missing
//! where neither decides, and are noted.

use crate::zone::Zone;

/// A zone as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenZone {
    Known(Zone),
    /// A name with several meanings.
    Unclear(&'static Unclear),
}

/// A name of several zones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclear {
    name: &'static [u8],
    /// Of each zone, minutes east of UTC; those of RFC 5322 first.
    minutes: &'static [i32],
    /// Whether the first one is meant if nothing tells otherwise.
    has_usual: bool,
}

impl WrittenZone {
    /// So many seconds east of UTC.
    pub const fn offset(offset_s: i32) -> WrittenZone {
        WrittenZone::Known(Zone::Fixed(offset_s))
    }

    pub const UTC: WrittenZone = WrittenZone::offset(0);
}

impl Unclear {
    pub fn offsets_s(&self) -> impl Iterator<Item = i64> {
        self.minutes.iter().map(|minutes| i64::from(minutes * 60))
    }

    pub fn usual_offset_s(&self) -> Option<i64> {
        self.offsets_s().next().filter(|_| self.has_usual)
    }
}

/// A zone at `at`, which is moved behind it: `Z`, `+01:00`, `+0100`, `+01`, ` +0100`, ` UTC`,
/// ` GMT`, `GMT+01:00`, `[UTC]`, an abbreviation (` CEST`), a region (` Europe/Berlin`), also
/// behind an offset (`+02:00[Europe/Berlin]`).
pub(crate) fn zone(text: &[u8], at: &mut usize) -> Option<WrittenZone> {
    let rest = &text[*at..];
    let (skipped, rest) = match rest {
        [b' ', rest @ ..] => (1, rest),
        _ => (0, rest),
    };
    let (zone, length) = match rest {
        [b'Z' | b'z', ..] if skipped == 0 => (WrittenZone::UTC, 1),
        [b'U', b'T', b'C', behind @ ..] | [b'G', b'M', b'T', behind @ ..] => {
            let (offset_s, length) = behind_utc(behind);
            (WrittenZone::offset(offset_s), 3 + length)
        }
        [b'+' | b'-', ..] => {
            let (offset_s, length) = numeric(rest)?;
            // ` -12` is more likely a number, except where PostgreSQL writes a process behind it.
            if skipped == 1
                && length == 3
                && !matches!(rest[3..], [] | [b']', ..] | [b' ', b'[', ..])
            {
                return None;
            }
            (WrittenZone::offset(offset_s), length)
        }
        [b'[', inner @ ..] => {
            let end = inner.iter().take(REGION_BYTES_MAX + 1).position(|b| *b == b']')?;
            (abbreviation(&inner[..end]).or_else(|| region(&inner[..end]))?, end + 2)
        }
        [b'A'..=b'Y', ..] if skipped == 1 => {
            if rest[0] == b'C' && rest.starts_with(LONG_UTC) {
                (WrittenZone::UTC, LONG_UTC.len())
            } else {
                let letters = rest.iter().take(NAME_BYTES_MAX + 1);
                let length = letters.take_while(|b| b.is_ascii_uppercase()).count();
                match abbreviation(&rest[..length]) {
                    Some(zone) => (zone, length),
                    None => {
                        let allowed = |b: &&u8| b.is_ascii_alphanumeric() || b"/_+-".contains(b);
                        let letters = rest.iter().take(REGION_BYTES_MAX + 1);
                        let length = letters.take_while(allowed).count();
                        (region(&rest[..length])?, length)
                    }
                }
            }
        }
        _ => return None,
    };
    let behind = &rest[length..];
    let is_word = skipped == 1 && rest[0].is_ascii_alphabetic();
    if behind.first().is_some_and(u8::is_ascii_alphanumeric) || (is_word && goes_on(behind)) {
        return None;
    }
    *at += skipped + length + region_behind(behind);
    Some(zone)
}

/// Whether a word goes on behind the name of a zone: `MSK-SW1` and `EST.example` are names of
/// hosts. `EST-0500` is a zone.
fn goes_on(behind: &[u8]) -> bool {
    is_joined(behind) && numeric(behind).is_none_or(|(_, length)| length == 3)
}

/// Whether a sign within names of hosts, and more of the name, follows.
pub(crate) fn is_joined(behind: &[u8]) -> bool {
    matches!(behind, [b'-' | b'_' | b'.', next, ..] if next.is_ascii_alphanumeric())
}

/// As Java writes it in full.
const LONG_UTC: &[u8] = b"Coordinated Universal Time";

/// `+01:00`, `+1` or `+5:30` behind `UTC` or `GMT`.
fn behind_utc(text: &[u8]) -> (i32, usize) {
    match (numeric(text), text) {
        (Some(found), _) => found,
        (None, [sign @ (b'+' | b'-'), hour @ b'0'..=b'9', behind @ ..]) => {
            let minutes = match behind {
                [b':', ..] => super::time::two(behind, 1).filter(|minutes| *minutes < 60),
                _ => None,
            };
            let offset_s = i32::from(hour - b'0') * 3600 + minutes.unwrap_or(0) as i32 * 60;
            let length = if minutes.is_some() { 5 } else { 2 };
            (if *sign == b'-' { -offset_s } else { offset_s }, length)
        }
        _ => (0, 0),
    }
}

/// Length of `[Europe/Berlin]`, which Java writes behind the offset.
fn region_behind(text: &[u8]) -> usize {
    let [b'[', inner @ ..] = text else { return 0 };
    let end = inner.iter().take(64).take_while(|b| **b != b']').count();
    let is_region = |name: &[u8]| {
        name.first().is_some_and(u8::is_ascii_uppercase)
            && (name.contains(&b'/') || abbreviation(name).is_some())
    };
    if inner.get(end) == Some(&b']') && is_region(&inner[..end]) { end + 2 } else { 0 }
}

/// A zone of the time zone database by its name, which has a slash: names without one are rather
/// words.
fn region(name: &[u8]) -> Option<WrittenZone> {
    let name = std::str::from_utf8(name).ok()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains('/');
    // Looked up last: most words behind a time are none.
    is_name.then(|| Zone::named(name)).flatten().map(WrittenZone::Known)
}

/// Seconds east of UTC of `+01:00`, `+0100` or `+01` at the start, and its length.
pub(crate) fn numeric(text: &[u8]) -> Option<(i32, usize)> {
    let negative = match text.first()? {
        b'+' => false,
        b'-' => true,
        _ => return None,
    };
    let hours = super::time::two(text, 1)?;
    let (minutes, length) =
        match (text.get(3), super::time::two(text, 3), super::time::two(text, 4)) {
            (Some(b':'), _, Some(minutes)) => (minutes, 6),
            (_, Some(minutes), _) => (minutes, 5),
            _ => (0, 3),
        };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset_s = (hours * 3600 + minutes * 60) as i32;
    Some((if negative { -offset_s } else { offset_s }, length))
}

/// The longest name of the time zone database has 32 bytes.
const REGION_BYTES_MAX: usize = 32;

const NAME_BYTES_MAX: usize = 5;

/// Names of zones that are used with one meaning, and minutes east of UTC.
const ZONES: [(&[u8], i32); 46] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"Z", 0),
    (b"WET", 0),
    (b"WEST", 60),
    (b"BST", 60), // Bangladesh and Bougainville write numbers.
    (b"CET", 60),
    (b"CEST", 120),
    (b"MET", 60),
    (b"MEST", 120),
    (b"EET", 120),
    (b"EEST", 180),
    (b"MSK", 180),
    (b"WAT", 60),
    (b"CAT", 120),
    (b"SAST", 120),
    (b"EAT", 180),
    (b"EST", -300), // RFC 5322, as the next ones
    (b"EDT", -240),
    (b"CDT", -300),
    (b"MST", -420),
    (b"MDT", -360),
    (b"PDT", -420),
    (b"AKST", -540),
    (b"AKDT", -480),
    (b"HST", -600),
    (b"NST", -210),
    (b"NDT", -150),
    (b"BRT", -180),
    (b"BRST", -120),
    (b"ART", -180),
    (b"JST", 540),
    (b"KST", 540),
    (b"HKT", 480),
    (b"SGT", 480),
    (b"PKT", 300),
    (b"WIB", 420),
    (b"WITA", 480),
    (b"WIT", 540),
    (b"AWST", 480),
    (b"ACST", 570),
    (b"ACDT", 630),
    (b"AEST", 600),
    (b"AEDT", 660),
    (b"NZST", 720),
    (b"NZDT", 780),
];

/// Names of several zones.
static UNCLEAR: [Unclear; 6] = [
    Unclear { name: b"CST", minutes: &[-360, 480], has_usual: true }, // Chicago, Shanghai
    Unclear { name: b"PST", minutes: &[-480, 480], has_usual: true }, // Los Angeles, Manila
    Unclear { name: b"IST", minutes: &[330, 120, 60], has_usual: false }, // India, Israel, Ireland
    Unclear { name: b"AST", minutes: &[-240, 180], has_usual: false }, // Halifax, Riyadh
    Unclear { name: b"ADT", minutes: &[-180, 240], has_usual: false },
    Unclear { name: b"GST", minutes: &[240, 600], has_usual: false }, // Dubai, Guam
];

fn abbreviation(name: &[u8]) -> Option<WrittenZone> {
    // Excludes levels, which often follow a time.
    if !matches!(name.last()?, b'T' | b'C' | b'K' | b'Z' | b'A' | b'B') {
        return None;
    }
    if let Some((_, minutes)) = ZONES.iter().find(|(known, _)| *known == name) {
        return Some(WrittenZone::offset(minutes * 60));
    }
    UNCLEAR.iter().find(|unclear| unclear.name == name).map(WrittenZone::Unclear)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_behind_times() {
        let offset = WrittenZone::offset;
        let region = |name: &str| WrittenZone::Known(Zone::parse(name).unwrap());
        let rows = [
            ("Z", Some((offset(0), 1))),
            ("+01:00 x", Some((offset(3600), 6))),
            (" +0530", Some((offset(19_800), 6))),
            (" +04 [12] x", Some((offset(14_400), 4))),
            (" -03 [12] x", Some((offset(-10_800), 4))),
            (" -03", Some((offset(-10_800), 4))),
            (" -12 x", None),
            (" UTC x", Some((offset(0), 4))),
            (" UTC+2 x", Some((offset(7200), 6))),
            (" GMT+01:00: x", Some((offset(3600), 10))),
            // As Java and JavaScript write it in short.
            (" GMT+5:30: x", Some((offset(19_800), 9))),
            (" UTC-3:30", Some((offset(-12_600), 9))),
            (" GMT+2: x", Some((offset(7200), 6))),
            (" GMT+5:61", Some((offset(18_000), 6))),
            (" EST-0500 x", Some((offset(-18_000), 4))),
            // Names of hosts.
            (" MSK-SW1 x", None),
            (" MSK-01 x", None),
            (" UTC-fw1 x", None),
            (" CET_gw x", None),
            (" EST.example x", None),
            (" CET - x", Some((offset(3600), 4))),
            (" UTC. x", Some((offset(0), 4))),
            ("[UTC] x", Some((offset(0), 5))),
            (" CEST [12] x", Some((offset(7200), 5))),
            (" EDT: %SYS", Some((offset(-14_400), 4))),
            (" CST: %SYS", Some((WrittenZone::Unclear(&UNCLEAR[0]), 4))),
            (" WIB x", Some((offset(25_200), 4))),
            (" Europe/Berlin [12] x", Some((region("Europe/Berlin"), 14))),
            (
                " America/Argentina/Buenos_Aires x",
                Some((region("America/Argentina/Buenos_Aires"), 31)),
            ),
            (" [America/New_York] x", Some((region("America/New_York"), 19))),
            ("+02:00[Europe/Berlin] x", Some((offset(7200), 21))),
            (" Europe/Nowhere x", None),
            (" Some/Path/of/a/file x", None),
            (" INFO x", None),
            (" JSTX x", None),
            (" [main] x", None),
            (" x", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let mut at = 0;
            let found = zone(text.as_bytes(), &mut at);
            assert_eq!(found, expected.map(|(zone, _)| zone), "{text}");
            assert_eq!(at, expected.map_or(0, |(_, length)| length), "{text}");
        }
    }

    /// The table against the time zone database: each name that it has today, it mostly has with
    /// this offset.
    #[test]
    fn abbreviations_are_those_of_the_database() {
        let database = jiff::tz::TimeZoneDatabase::bundled();
        let now = jiff::Timestamp::from_second(1_769_860_800).unwrap();
        let mut seen = std::collections::BTreeMap::<String, Vec<i32>>::new();
        for name in database.available() {
            let zone = database.get(name.as_str()).unwrap();
            let mut note = |abbreviation: &str, offset: jiff::tz::Offset| {
                seen.entry(abbreviation.to_owned()).or_default().push(offset.seconds() / 60);
            };
            let info = zone.to_offset_info(now);
            note(info.abbreviation(), info.offset());
            zone.following(now).take(2).for_each(|c| note(c.abbreviation(), c.offset()));
        }
        for (name, minutes) in ZONES {
            let Some(found) = seen.get(std::str::from_utf8(name).unwrap()) else { continue };
            // Cuba has names of its neighbours.
            let same = found.iter().filter(|m| **m == minutes).count();
            assert!(2 * same > found.len(), "{name:?}: {found:?}");
        }
        for unclear in &UNCLEAR {
            let Some(found) = seen.get(std::str::from_utf8(unclear.name).unwrap()) else {
                continue;
            };
            let first = unclear.minutes[0];
            assert!(found.contains(&first), "{unclear:?}: {found:?}");
        }
    }
}
