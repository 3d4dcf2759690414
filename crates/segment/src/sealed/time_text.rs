//! Times as lines write them, regenerated from the event time.
//!
//! The text between two fields is often `>Jan 31 12:00:00 ` or ` [31/Jan/2026:12:00:00 +0100] "`:
//! constant text around a fixed format of the event time, which is stored already. Then only the
//! format is stored. A text that is not regenerated exactly is an exception, and stored as it is.

use text::civil::civil_from_days;

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_signed};
use crate::needle::{Needle, class_of};
use crate::template::Edges;

const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// Zone offsets are at most this many seconds from UTC.
const ZONE_S_MAX: i64 = 14 * 3600;
/// First second whose year has five digits.
const YEAR_10000_S: i64 = 253_402_300_800;
const SECOND_NS: i64 = 1_000_000_000;
/// A longer text is not searched for a time.
const TEXT_BYTES_MAX: usize = 256;

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// `Jan 31 12:00:00`, the day padded with a blank (RFC 3164).
    MonthFirst,
    /// `2026-01-31T12:00:00`; the characters between date parts, and between date and clock.
    Iso(u8, u8),
    /// `31/Jan/2026:12:00:00` (access logs).
    DayFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    None,
    Utc,
    /// `+01:00`
    Colon,
    /// `+0100`
    Digits,
    /// ` +0100`
    BlankDigits,
}

/// A time format with the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimeForm {
    prefix: Vec<u8>,
    clock: Clock,
    /// The decimal separator, and the digits behind it; 0: none.
    point: u8,
    digits: u8,
    zone: Zone,
    /// Seconds by which the written clock is ahead of UTC.
    offset_s: i32,
    suffix: Vec<u8>,
}

impl TimeForm {
    /// The format in which `text` writes `time_ns`, if it does.
    pub(crate) fn find(text: &[u8], time_ns: i64) -> Option<TimeForm> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        (0..text.len()).find_map(|at| {
            let (clock, clock_s, mut end) = read_clock(text, at)?;
            let (mut point, mut digits) = (0, 0);
            if let Some(b'.' | b',') = text.get(end) {
                let count = text[end + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
                if (1..=9).contains(&count) {
                    (point, digits) = (text[end], count as u8);
                    end += 1 + count;
                }
            }
            let (zone, zone_bytes) = read_zone(&text[end..]);
            end += zone_bytes;
            let apart_s = clock_s - time_ns.div_euclid(1_000_000_000).rem_euclid(86_400);
            [apart_s, apart_s - 86_400, apart_s + 86_400].into_iter().find_map(|offset_s| {
                let form = TimeForm {
                    prefix: text[..at].to_vec(),
                    clock,
                    point,
                    digits,
                    zone,
                    offset_s: offset_s as i32,
                    suffix: text[end..].to_vec(),
                };
                let near = offset_s.abs() <= ZONE_S_MAX;
                (near && TimeWriter::new(form.clone()).write(time_ns) == text).then_some(form)
            })
        })
    }

    /// The text before and behind the time.
    pub(crate) fn edges(&self) -> Edges {
        Edges { begin: self.prefix.clone(), end: self.suffix.clone() }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_piece(out, &self.prefix);
        out.extend_from_slice(&match self.clock {
            Clock::MonthFirst => [0, 0, 0],
            Clock::Iso(date, clock) => [1, date, clock],
            Clock::DayFirst => [2, 0, 0],
        });
        out.extend_from_slice(&[self.point, self.digits, self.zone as u8]);
        put_signed(out, i64::from(self.offset_s));
        put_piece(out, &self.suffix);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Read<TimeForm> {
        let prefix = cursor.piece()?.to_vec();
        let clock = match *cursor.take(3)? {
            [0, _, _] => Clock::MonthFirst,
            [1, date, clock] => Clock::Iso(date, clock),
            [2, _, _] => Clock::DayFirst,
            _ => return Err(Corrupt("a form of a time")),
        };
        let [point, digits, zone] = *cursor.take(3)? else { unreachable!("three were taken") };
        let zone = match zone {
            0 => Zone::None,
            1 => Zone::Utc,
            2 => Zone::Colon,
            3 => Zone::Digits,
            4 => Zone::BlankDigits,
            _ => return Err(Corrupt("a form of a zone")),
        };
        let offset_s = cursor.signed()?;
        if digits > 9 || offset_s.abs() > ZONE_S_MAX {
            return Err(Corrupt("a form of a time"));
        }
        let offset_s = offset_s as i32;
        let suffix = cursor.piece()?.to_vec();
        Ok(TimeForm { prefix, clock, point, digits, zone, offset_s, suffix })
    }
}

/// The clock at an offset of the text: its format, its seconds, and where it ends.
fn read_clock(text: &[u8], at: usize) -> Option<(Clock, i64, usize)> {
    let rest = &text[at..];
    let (clock, clock_at) = match rest.first()? {
        b'A'..=b'Z' if rest.get(3) == Some(&b' ') && rest.get(6) == Some(&b' ') => {
            (Clock::MonthFirst, 7)
        }
        b'0'..=b'9' if rest.get(2) == Some(&b'/') && rest.get(11) == Some(&b':') => {
            (Clock::DayFirst, 12)
        }
        b'0'..=b'9' if rest.len() >= 19 && !rest[4].is_ascii_digit() => {
            (Clock::Iso(rest[4], rest[10]), 11)
        }
        _ => return None,
    };
    let [h, hh, b':', m, mm, b':', s, ss] = *rest.get(clock_at..clock_at + 8)? else {
        return None;
    };
    let two = |tens: u8, ones: u8| {
        (tens.is_ascii_digit() && ones.is_ascii_digit())
            .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
    };
    let clock_s = two(h, hh)? * 3600 + two(m, mm)? * 60 + two(s, ss)?;
    Some((clock, clock_s, at + clock_at + 8))
}

fn read_zone(text: &[u8]) -> (Zone, usize) {
    match *text {
        [b'Z', ..] => (Zone::Utc, 1),
        [b'+' | b'-', _, _, b':', _, _, ..] => (Zone::Colon, 6),
        [b' ', b'+' | b'-', _, _, b'0'..=b'9', b'0'..=b'9', ..] => (Zone::BlankDigits, 6),
        [b'+' | b'-', _, _, b'0'..=b'9', b'0'..=b'9', ..] => (Zone::Digits, 5),
        _ => (Zone::None, 0),
    }
}

/// Writes times in one format; times in the same second as the previous one are cheap.
pub(crate) struct TimeWriter {
    form: TimeForm,
    text: Vec<u8>,
    /// Start of the second that the buffered text is for; `None` before the first.
    second_ns: Option<i64>,
    fraction: Option<u32>,
    fraction_at: usize,
}

impl TimeWriter {
    pub(crate) fn new(form: TimeForm) -> Self {
        TimeWriter { form, text: Vec::new(), second_ns: None, fraction: None, fraction_at: 0 }
    }

    /// Length of each text.
    pub(crate) fn width(&self) -> u32 {
        let form = &self.form;
        let clock = match form.clock {
            Clock::MonthFirst => 15,
            Clock::Iso(..) => 19,
            Clock::DayFirst => 20,
        };
        let fraction = if form.digits > 0 { 1 + u32::from(form.digits) } else { 0 };
        let zone = match form.zone {
            Zone::None => 0,
            Zone::Utc => 1,
            Zone::Digits => 5,
            Zone::Colon | Zone::BlankDigits => 6,
        };
        (form.prefix.len() + form.suffix.len()) as u32 + clock + fraction + zone
    }

    /// Whether a text in this format may contain a needle, at some time.
    pub(crate) fn could_write(&self, needle: &Needle<'_>) -> bool {
        let form = &self.form;
        let pieces = [&form.prefix[..], &form.suffix[..]];
        let mut clock: Vec<u8> = b"0:+-Z,. ".to_vec();
        match form.clock {
            Clock::MonthFirst => clock.extend_from_slice(MONTHS),
            Clock::Iso(date, between) => clock.extend_from_slice(&[date, between]),
            Clock::DayFirst => clock.extend_from_slice(&[MONTHS, &b"/"[..]].concat()),
        }
        let classes = clock.iter().fold(0, |classes, &byte| classes | class_of(byte));
        // A month has at most two consecutive lower-case letters.
        let small = needle.bytes().split(|byte| !byte.is_ascii_lowercase()).map(<[u8]>::len).max();
        needle.could_reach_across(&pieces, &[classes])
            || pieces.iter().any(|piece| needle.find(piece, 0).is_some())
            || (needle.is_of(classes) && small <= Some(2))
    }

    /// The text for a time. Every time gives a text; a wrong time only gives one that does not
    /// match.
    #[inline]
    pub(crate) fn write(&mut self, time_ns: i64) -> &[u8] {
        // The difference wraps if the second begins before the range of 64 bits, and is still
        // correct.
        let nanos = match self.second_ns {
            Some(begin_ns) if (time_ns.wrapping_sub(begin_ns) as u64) < SECOND_NS as u64 => {
                time_ns.wrapping_sub(begin_ns) as u32
            }
            _ => {
                self.write_second(time_ns.div_euclid(SECOND_NS));
                time_ns.rem_euclid(SECOND_NS) as u32
            }
        };
        if self.form.digits > 0 && self.fraction != Some(nanos) {
            let digits = usize::from(self.form.digits);
            let mut shown = nanos / 10u32.pow(9 - u32::from(self.form.digits));
            for digit in (0..digits).rev() {
                self.text[self.fraction_at + digit] = b'0' + (shown % 10) as u8;
                shown /= 10;
            }
            self.fraction = Some(nanos);
        }
        &self.text
    }

    fn write_second(&mut self, second: i64) {
        let (form, text) = (&self.form, &mut self.text);
        let local_s = second + i64::from(form.offset_s);
        let local_s = if (0..YEAR_10000_S).contains(&local_s) { local_s } else { 0 };
        let (year, month, day) = civil_from_days(local_s.div_euclid(86_400));
        let clock_s = local_s.rem_euclid(86_400);
        text.clear();
        text.extend_from_slice(&form.prefix);
        let name = &MONTHS[(month as usize - 1) * 3..][..3];
        let two = |text: &mut Vec<u8>, value: i64| {
            text.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
        };
        let day = i64::from(day);
        match form.clock {
            Clock::MonthFirst => {
                text.extend_from_slice(name);
                text.push(b' ');
                if day < 10 {
                    text.extend_from_slice(&[b' ', b'0' + day as u8]);
                } else {
                    two(text, day);
                }
                text.push(b' ');
            }
            Clock::Iso(date, clock) => {
                two(text, year / 100);
                two(text, year % 100);
                text.push(date);
                two(text, i64::from(month));
                text.push(date);
                two(text, day);
                text.push(clock);
            }
            Clock::DayFirst => {
                two(text, day);
                text.push(b'/');
                text.extend_from_slice(name);
                text.push(b'/');
                two(text, year / 100);
                two(text, year % 100);
                text.push(b':');
            }
        }
        two(text, clock_s / 3600);
        text.push(b':');
        two(text, clock_s / 60 % 60);
        text.push(b':');
        two(text, clock_s % 60);
        if form.digits > 0 {
            text.push(form.point);
            self.fraction_at = text.len();
            text.resize(text.len() + usize::from(form.digits), b'0');
        }
        let sign = if form.offset_s < 0 { b'-' } else { b'+' };
        let zone_min = i64::from(form.offset_s.abs()) / 60;
        match form.zone {
            Zone::None => {}
            Zone::Utc => text.push(b'Z'),
            zone => {
                if zone == Zone::BlankDigits {
                    text.push(b' ');
                }
                text.push(sign);
                two(text, zone_min / 60);
                if zone == Zone::Colon {
                    text.push(b':');
                }
                two(text, zone_min % 60);
            }
        }
        text.extend_from_slice(&form.suffix);
        (self.second_ns, self.fraction) = (Some(second.wrapping_mul(SECOND_NS)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_and_regenerated() {
        // 2026-01-05T12:34:56.789Z
        const TIME_NS: i64 = 1_767_616_496_789_000_000;
        const SECOND_NS: i64 = 1_767_616_496_000_000_000;
        let check = |text: &str, time_ns: i64, found: bool| {
            let form = TimeForm::find(text.as_bytes(), time_ns);
            assert_eq!(form.is_some(), found, "{text}");
            let Some(form) = form else { return };
            let mut writer = TimeWriter::new(form.clone());
            assert_eq!(writer.write(time_ns), text.as_bytes());
            assert_eq!(writer.width() as usize, text.len());
            assert_eq!(writer.write(i64::MIN).len(), text.len());
            let mut bytes = Vec::new();
            form.encode(&mut bytes);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(TimeForm::decode(&mut cursor).unwrap(), form);
            cursor.end().unwrap();
            for length in 0..bytes.len() {
                assert!(TimeForm::decode(&mut Cursor::new(&bytes[..length])).is_err());
            }
        };
        check(">Jan  5 12:34:56 ", SECOND_NS, true);
        check(">Jan  5 13:34:56 ", SECOND_NS, true);
        check(">Jan 05 12:34:56 ", SECOND_NS, false);
        check(">Jan  5 12:34:56 ", TIME_NS, true);
        check("Jan  4 22:34:56", SECOND_NS, true);
        check("2026-01-05T12:34:56Z", SECOND_NS, true);
        check("x 2026-01-05T12:34:56.789Z y", TIME_NS, true);
        check("2026-01-05 12:34:56,789", TIME_NS, true);
        check("2026-01-05T12:34:56.788Z", TIME_NS, false);
        check("2026-01-05T13:34:56.789000+01:00", TIME_NS, true);
        check("2026-01-05T10:04:56.789000-02:30", TIME_NS, true);
        check("2026/01/05 13:34:56+0100", SECOND_NS, true);
        check(" - - [05/Jan/2026:13:34:56 +0100] \"", SECOND_NS, true);
        check("12:34:56", SECOND_NS, false);
        check("", SECOND_NS, false);
        check(&"x".repeat(TEXT_BYTES_MAX + 1), SECOND_NS, false);
    }

    #[test]
    fn texts_that_no_time_can_contain_are_recognised() {
        // 2026-05-05T12:34:56Z
        const TIME_NS: i64 = 1_777_984_496_000_000_000;
        for text in [
            "x>May  5 12:34:56 web",
            " - - [05/May/2026:13:34:56 +0100] \"",
            "2026-05-05T12:34:56.000Z",
        ] {
            let writer = || TimeWriter::new(TimeForm::find(text.as_bytes(), TIME_NS).unwrap());
            for time_ns in [TIME_NS, 0, 1_000_000_000_000_000_000] {
                let text = writer().write(time_ns).to_vec();
                for from in 0..text.len() {
                    for to in from + 1..=text.len() {
                        let part = &text[from..to];
                        assert!(
                            writer().could_write(&Needle::new(part, None)),
                            "{}",
                            part.escape_ascii()
                        );
                    }
                }
            }
            for absent in ["error", "web1", "Maya"] {
                let could = writer().could_write(&Needle::new(absent.as_bytes(), None));
                assert!(!could, "{absent} in {text}");
            }
        }
    }

    #[test]
    fn a_writer_follows_the_time() {
        let form = TimeForm::find(b"1970-01-01T00:00:00.000000001Z", 1).unwrap();
        let mut writer = TimeWriter::new(form);
        assert_eq!(writer.write(999_999_999), b"1970-01-01T00:00:00.999999999Z");
        assert_eq!(writer.write(86_400_000_000_000), b"1970-01-02T00:00:00.000000000Z");
        assert_eq!(writer.write(2), b"1970-01-01T00:00:00.000000002Z");
        writer.write(i64::MAX);
        writer.write(i64::MIN);
    }
}
