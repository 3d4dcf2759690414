//! Caches the times of lines: most are the same as the previous one, or of the same day.
//!
//! Parses only the strict formats that nearly all senders use: `Jan 31 12:00:00` of RFC 3164, RFC
//! 3339 with its `T` and zone, and that of access lines. Everything else is left to
//! [`super::time`], which also defines the meaning of times: this module gives the same results,
//! but faster.

use text::civil::days_from_civil;

use super::short;
use super::time::{self, AHEAD_S_MAX, Context, NO_OTHERS, Written};
use super::time_zone::{WrittenZone, zone};

/// A longer time is left to [`super::time`]; RFC 3339 with nine digits of a fraction has 35 bytes.
const TEXT_BYTES_MAX: usize = 40;
/// Days since 1970 that no line can have.
const LONG_AGO: i64 = -1_000_000_000;

/// The times that were parsed last.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// The last one: its text up to the blank, the context it was parsed in, and the result.
    text: [u8; TEXT_BYTES_MAX],
    length: usize,
    context: Context,
    time_ns: i64,
    /// `Jan 31 ` as a number, and days since 1970 of that day in 1972.
    named: (u64, i64),
    /// The same day in the year that was chosen for it.
    named_in_year: i64,
    /// `2026-01-31T` as two overlapping numbers, and days since 1970.
    numbered: ([u64; 2], i64),
    /// `31/Jan/2026:` and ` +0100` of an access line, and their values.
    accessed: ([u64; 3], i64, Option<WrittenZone>),
}

impl Default for Times {
    fn default() -> Self {
        Times {
            text: [0; TEXT_BYTES_MAX],
            length: 0,
            context: Context::default(),
            time_ns: 0,
            named: (0, 0),
            named_in_year: LONG_AGO,
            numbered: ([0; 2], 0),
            accessed: ([0; 3], 0, None),
        }
    }
}

impl Times {
    /// The time of an access line, which must be all of `text`; the same result as
    /// [`time::apache`].
    #[inline]
    pub fn of_access(&mut self, text: &[u8]) -> Option<Written> {
        let text = text.first_chunk::<26>().filter(|_| text.len() == 26)?;
        let second = time::clock(&text[12..])?;
        let around =
            [short::eight(text, 0)?, short::eight(text, 4)?, short::eight(text, 18)? >> 16];
        if self.accessed.0 != around {
            let written = time::apache(text)?;
            let days = (written.local_s - second) / 86_400;
            self.accessed = (around, days, written.zone);
        }
        let (_, days, zone) = self.accessed;
        Some(Written {
            local_s: days * 86_400 + second,
            nanos: 0,
            zone,
            has_year: true,
            is_day: false,
            others_days: NO_OTHERS,
        })
    }

    /// The time in nanoseconds since 1970 UTC, if all of `text` is a time of RFC 3339. `None` if it
    /// is something else, or absurd.
    #[inline]
    pub fn whole(&mut self, text: &[u8], context: Context) -> Option<i64> {
        if !text.first()?.is_ascii_digit() {
            return None;
        }
        if self.context == context && short::same(text, &self.text[..self.length]) {
            return Some(self.time_ns);
        }
        let (written, length) = self.numbered_day(text)?;
        if length != text.len() {
            return None;
        }
        self.remember(text, written, context)
    }

    /// The time at the start of `text`: its length, and nanoseconds since 1970 UTC. `None` if it
    /// has another format, is not followed by a blank, or is absurd.
    #[inline]
    pub fn read(&mut self, text: &[u8], context: Context) -> Option<(usize, i64)> {
        let length = self.length;
        if length > 0
            && self.context == context
            && text.len() > length
            && short::same(&text[..length], &self.text[..length])
            && text[length] == b' '
        {
            return Some((length, self.time_ns));
        }
        self.read_new(text, context)
    }

    fn read_new(&mut self, text: &[u8], context: Context) -> Option<(usize, i64)> {
        let (written, length) = match text.first()? {
            b'A'..=b'Z' => self.named_day(text, context)?,
            _ => self.numbered_day(text)?,
        };
        if text.get(length) != Some(&b' ') {
            return None;
        }
        Some((length, self.remember(&text[..length], written, context)?))
    }

    fn remember(&mut self, text: &[u8], written: Written, context: Context) -> Option<i64> {
        let time_ns = time::resolve(written, context).ok()?;
        self.text.get_mut(..text.len())?.copy_from_slice(text);
        (self.length, self.context, self.time_ns) = (text.len(), context, time_ns);
        Some(time_ns)
    }

    /// `Jan 31 12:00:00`, with the year completed.
    fn named_day(&mut self, text: &[u8], context: Context) -> Option<(Written, usize)> {
        const LENGTH: usize = 15;
        let text = text.first_chunk::<LENGTH>()?;
        let second = time::clock(&text[7..])?;
        let day_text = short::eight(text, 0)? & 0x00ff_ffff_ffff_ffff;
        if self.named.0 != day_text {
            let month = time::month_number(text.first_chunk()?)?;
            let (tens, ones) = (if text[4] == b' ' { b'0' } else { text[4] }, text[5]);
            if !tens.is_ascii_digit()
                || !ones.is_ascii_digit()
                || (text[3], text[6]) != (b' ', b' ')
            {
                return None;
            }
            let day = u32::from(tens - b'0') * 10 + u32::from(ones - b'0');
            self.named = (day_text, days_from_civil(1972, month, day)?);
            self.named_in_year = LONG_AGO;
        }
        // A leap second may belong to another day.
        if second == 86_400 {
            return None;
        }
        // The cached year is still right if it puts the time before the latest accepted time, by
        // less than the shortest year.
        let arrival_s = context.arrival_ns.div_euclid(1_000_000_000);
        let ahead_s =
            arrival_s + i64::from(context.expected.zone.offset_at_utc(arrival_s)) + AHEAD_S_MAX;
        let before_s = ahead_s - (self.named_in_year * 86_400 + second);
        if !(0..365 * 86_400).contains(&before_s) {
            let local_s = time::with_year(self.named.1 * 86_400 + second, ahead_s - AHEAD_S_MAX)?;
            self.named_in_year = local_s.div_euclid(86_400);
        }
        let local_s = self.named_in_year * 86_400 + second;
        let written = Written {
            local_s,
            nanos: 0,
            zone: None,
            has_year: true,
            is_day: false,
            others_days: NO_OTHERS,
        };
        Some((written, LENGTH))
    }

    /// `2026-01-31T12:00:00`, with or without a fraction, and with its zone.
    fn numbered_day(&mut self, text: &[u8]) -> Option<(Written, usize)> {
        let head = text.first_chunk::<20>()?;
        let second = time::clock(&head[11..])?;
        let day_text = [short::eight(head, 0)?, short::eight(head, 3)?];
        if self.numbered.0 != day_text {
            if (head[4], head[7], head[10]) != (b'-', b'-', b'T') {
                return None;
            }
            let year = time::two(head, 0)? * 100 + time::two(head, 2)?;
            let days = days_from_civil(i64::from(year), time::two(head, 5)?, time::two(head, 8)?)?;
            self.numbered = (day_text, days);
        }
        let mut at = 19;
        let nanos = time::fraction(text, &mut at);
        // Except zones behind a blank: the blank is taken for the end.
        if text.get(at) == Some(&b' ') {
            return None;
        }
        let zone = zone(text, &mut at);
        let local_s = self.numbered.1 * 86_400 + second;
        zone?;
        let others_days = NO_OTHERS;
        Some((Written { local_s, nanos, zone, has_year: true, is_day: false, others_days }, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::time::Expected;
    use crate::zone::Zone;

    /// The reference model of [`Times::read`].
    fn naive(text: &[u8], context: Context) -> Option<i64> {
        let (written, length) = match text.first()? {
            b'A'..=b'Z' => time::month_first(text)?,
            _ => time::iso(text)?,
        };
        (text.get(length) == Some(&b' ')).then_some(())?;
        time::resolve(written, context).ok()
    }

    const ARRIVALS_S: [i64; 5] =
        [1_795_262_400, 1_795_262_401, 1_798_761_599, 1_798_761_601, 1_709_208_000];
    const ALPHABET: &[u8] = b"0123456789999 :.-+TZJanFebDec ";

    proptest! {
        #[test]
        fn same_results_as_without_cache(
            samples in prop::collection::vec(
                (
                    prop::sample::select(vec![
                        "Nov 21 12:00:00 host ",
                        "Nov  1 12:00:00 host ",
                        "Nov 21 12:00:01 host ",
                        "Dec 31 23:59:60 host ",
                        "Dec 31 23:59:59 host ",
                        "Jan  1 00:00:00 host ",
                        "Feb 29 12:00:00 host ",
                        "2026-11-21T12:00:00Z host ",
                        "2026-11-21T12:00:00.123Z host ",
                        "2026-11-21T12:00:00.123456+02:00 host ",
                        "2026-11-22T12:00:00.1+0200 host ",
                    ]),
                    prop::option::of((0usize..27, prop::sample::select(ALPHABET))),
                    prop::sample::select(&ARRIVALS_S[..]),
                    prop::sample::select(vec!["UTC", "+01:00", "-10:00", "Europe/Berlin", "Asia/Tokyo"]),
                    any::<bool>(),
                    any::<bool>(),
                ),
                1..30,
            ),
        ) {
            let mut times = Times::default();
            for (text, change, arrival_s, zone, is_sure, live) in samples {
                let mut text = text.as_bytes().to_vec();
                if let Some((at, byte)) = change
                    && at < text.len()
                {
                    text[at] = byte;
                }
                let (arrival_ns, zone) = (arrival_s * 1_000_000_000, Zone::parse(zone).unwrap());
                let context = Context { arrival_ns, expected: Expected { zone, is_sure, live } };
                let shown = String::from_utf8_lossy(&text).into_owned();
                let whole = text.strip_suffix(b" host ").unwrap_or(&text);
                if let Some(time_ns) = times.whole(whole, context) {
                    let (written, length) = time::iso(whole).unwrap();
                    prop_assert_eq!(length, whole.len());
                    prop_assert_eq!(time::resolve(written, context), Ok(time_ns));
                }
                if let Some((length, time_ns)) = times.read(&text, context) {
                    prop_assert_eq!(Some(time_ns), naive(&text, context), "{}", shown);
                    prop_assert_eq!(text[length], b' ');
                }
            }
        }
    }

    #[test]
    fn access_times() {
        let mut times = Times::default();
        let samples = [
            "17/May/2015:10:05:03 +0200",
            "17/May/2015:23:59:60 +0200",
            "18/May/2015:00:00:00 +0200",
            "18/May/2015:00:00:00 -0200",
            "01/Jan/1970:00:00:00 +0000",
        ];
        for sample in samples.iter().chain(&samples) {
            assert_eq!(times.of_access(sample.as_bytes()), time::apache(sample.as_bytes()));
            for at in 0..sample.len() {
                for byte in *b"0123 :/+-x" {
                    let mut text = sample.as_bytes().to_vec();
                    text[at] = byte;
                    assert_eq!(times.of_access(&text), time::apache(&text), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn usual_times_are_read() {
        let expected = Expected { live: true, ..Expected::default() };
        let context = Context { arrival_ns: ARRIVALS_S[0] * 1_000_000_000, expected };
        let mut times = Times::default();
        for text in [
            "Nov 21 12:00:00 h",
            "Nov  1 12:00:00 h",
            "2026-11-21T12:00:00Z h",
            "2026-11-21T12:00:00.123456+02:00 h",
        ] {
            for _ in 0..2 {
                let found = times.read(text.as_bytes(), context);
                let length = text.len() - 2;
                assert_eq!(found, naive(text.as_bytes(), context).map(|ns| (length, ns)), "{text}");
                assert!(found.is_some());
            }
        }
        for text in [
            "",
            "Nov 21 12:00:00",
            "Nov 21 12:00:00. h",
            "Nov 31 12:00:00 h",
            "Nov 21 24:00:00 h",
            "Nov 21 12-00:00 h",
            "2026-11-21T12:00:00 h",
            "2026-11-21T12:00:00 UTC h",
            "2026-11-21 12:00:00Z h",
            "2027-11-21T12:00:00Z h",
        ] {
            assert_eq!(times.read(text.as_bytes(), context), None, "{text}");
        }
    }
}
