//! Times as values of JSON and logfmt: ISO 8601 and RFC 3339, numbers since 1970, and the notations
//! of other logs.

use super::time::{self, Absurd, Context, Written};
use super::time_plain;
use super::times::Times;

/// The time in a value, in nanoseconds since 1970 UTC; `None` if it is not a time.
pub(crate) fn read(
    text: &[u8],
    number_only: bool,
    context: Context,
    times: &mut Times,
) -> Option<Result<i64, Absurd>> {
    let number_only = number_only && !is_instant(text);
    if !number_only && let Some(time_ns) = times.whole(text, context) {
        return Some(Ok(time_ns));
    }
    let written = if number_only { number(text)? } else { written(text)? };
    Some(time::resolve(written, context))
}

/// Whether a text is a day and a time of day in ISO 8601. A day alone is none: it may be anything.
fn is_instant(text: &[u8]) -> bool {
    let signs = [(4, b"-"), (7, b"-"), (10, b"T"), (13, b":"), (16, b":")];
    text.len() >= 19 && signs.into_iter().all(|(at, sign)| text[at..].starts_with(sign))
}

/// Whether a text that could not be read was meant as a time: it has the length and the separators
/// of one.
pub(crate) fn looks_like_time(text: &[u8]) -> bool {
    text.len() >= 8
        && text.iter().filter(|b| b.is_ascii_digit()).count() >= 4
        && text.iter().filter(|b| matches!(b, b':' | b'-' | b'/' | b'.')).count() >= 2
}

/// Whether a text is a number, perhaps with a unit: too small for a time, so a duration or a count.
pub(crate) fn is_duration(text: &[u8]) -> bool {
    let number = text.iter().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'));
    let number = number.count();
    let unit = text[number..].trim_ascii_start();
    (1..=12).contains(&number)
        && unit.len() <= 12
        && unit.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80)
}

/// The time from separate seconds and nanoseconds.
pub(crate) fn of_parts(seconds: &[u8], nanos: &[u8], context: Context) -> Option<i64> {
    let mut written = number(seconds)?;
    if !nanos.is_empty() {
        let (value, digits) = time::number(nanos, 9)?;
        (digits == nanos.len()).then_some(())?;
        written.nanos = value;
    }
    time::resolve(written, context).ok()
}

/// The time of Fortinet and Sophos in three parts: `date=2026-11-21 time=12:00:00 tz="+0100"`.
pub(crate) fn of_date_and_time(
    date: &[u8],
    time: &[u8],
    zone: &[u8],
    context: Context,
) -> Option<i64> {
    let blank: &[u8] = if zone.first().is_some_and(u8::is_ascii_alphabetic) { b" " } else { b"" };
    let text = [date, b" ", time, blank, zone].concat();
    let (written, length) =
        time::iso(&text).or_else(|| time::iso(&text[..date.len() + 1 + time.len()]))?;
    (length >= date.len() + 1 + time.len()).then_some(())?;
    time::resolve(written, context).ok()
}

fn number(text: &[u8]) -> Option<Written> {
    let (local_s, nanos) = match memchr::memchr2(b'e', b'E', text) {
        None => time::since_1970(text)?,
        Some(_) => {
            let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (1e8..1e19).contains(&seconds).then_some(())?;
            // The precision of a double is microseconds.
            time::since_1970(format!("{seconds:.6}").as_bytes())?
        }
    };
    Some(Written::of_utc(local_s, nanos))
}

fn written(text: &[u8]) -> Option<Written> {
    let text = text.trim_ascii();
    if let Some((written, length)) = time::iso(text) {
        let is_end = text[length..].is_empty() || is_zone_name(&text[length..]);
        return is_end.then_some(written);
    }
    if let Some(written) = number(text) {
        return Some(written);
    }
    if let Some(written) = without_seconds(text).or_else(|| time::apache(text)) {
        return Some(written);
    }
    // `/Date(1769860800123)/` of .NET.
    if let Some(inner) = text.strip_prefix(b"/Date(") {
        return number(inner.strip_suffix(b")/")?);
    }
    let first = *text.first()?;
    if !(first.is_ascii_digit() || first.is_ascii_alphabetic() || first == b'[') {
        return None;
    }
    let (written, length) = time::month_first(text)
        .or_else(|| time::year_first(text))
        .or_else(|| time_plain::find(text, &mut 0))?;
    let behind = text[length..].strip_prefix(b"]").unwrap_or(&text[length..]);
    (behind.is_empty() || is_zone_name(behind)).then_some(written)
}

/// `2026-01-31T12:00Z`
fn without_seconds(text: &[u8]) -> Option<Written> {
    if text.len() < 17 || text.len() > 23 || text[16] == b':' {
        return None;
    }
    let whole = [&text[..16], b":00", &text[16..]].concat();
    let (written, length) = time::iso(&whole)?;
    (length == whole.len() && written.zone.is_some()).then_some(written)
}

/// ` CST`: ignored, since it has several meanings.
fn is_zone_name(text: &[u8]) -> bool {
    matches!(text, [b' ', name @ ..] if (2..=5).contains(&name.len())
        && name.iter().all(u8::is_ascii_uppercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let noon = Some(1_769_860_800_000_000_000);
        let quarter = Some(1_769_860_800_250_000_000);
        let context = Context { arrival_ns: 1_795_262_400_000_000_000, ..Context::default() };
        let rows = [
            ("2026-01-31T12:00:00Z", noon),
            ("2026-01-31 12:00:00", noon),
            ("2026-01-31 12:00:00,250", quarter),
            ("2026-01-31 13:00:00.250 CET", quarter),
            ("2026-01-31 12:00:00.250 IST", quarter),
            ("2026-01-31 06:00:00.250 CST", quarter),
            ("2026-01-31 13:00:00.250 Europe/Berlin", quarter),
            ("2026-01-31 16:00:00.250 +04", quarter),
            ("2026-01-31T12:00:00.250Z[UTC]", quarter),
            ("2026-01-31T13:00:00.250+01:00[Europe/Berlin]", quarter),
            ("Jan 31, 2026 12:00:00 PM", noon),
            ("1/31/2026 12:00:00 PM", noon),
            ("31.01.2026 12:00:00", noon),
            ("2026-01-31 12:00", noon),
            ("2026-01-31", Some(1_769_817_600_000_000_000)),
            ("2026-01-31T12:00:00.2500000Z", quarter),
            ("2026-01-31T13:00:00.250+0100", quarter),
            ("2026/01/31 12:00:00", noon),
            ("2026-01-31T12:00Z", noon),
            ("2026-01-31T13:00+01:00", noon),
            ("1769860800", noon),
            ("1769860800.25", quarter),
            ("1769860800250", quarter),
            ("1.76986080025e9", quarter),
            ("31/Jan/2026:12:00:00 +0000", noon),
            ("Sat, 31 Jan 2026 12:00:00 GMT", noon),
            ("Sat Jan 31 12:00:00 2026", noon),
            ("Jan 31 12:00:00", noon),
            ("/Date(1769860800250)/", quarter),
            ("", None),
            ("0", None),
            ("now", None),
            ("12:00:00", None),
            ("2026-01-31T12:00:00Z and more", None),
            ("0.25", None),
            ("1e999", None),
            ("Jan", None),
            ("[2026", None),
        ];
        for (text, expected) in rows {
            let found = read(text.as_bytes(), false, context, &mut Times::default());
            assert_eq!(found.map(Result::unwrap), expected, "{text}");
        }
        for (text, expected) in [
            ("1769860800.25", quarter),
            ("2026-01-31T12:00:00Z", noon),
            ("2026-01-31", None),
            ("2026-01-31 12:00", None),
        ] {
            let found = read(text.as_bytes(), true, context, &mut Times::default());
            assert_eq!(found.map(Result::unwrap), expected, "{text}");
        }
        let future = read(b"2099-01-01T00:00:00Z", false, context, &mut Times::default());
        assert_eq!(future, Some(Err(Absurd)));
        assert_eq!(of_parts(b"1769860800", b"250000000", context), quarter);
        assert_eq!(of_parts(b"1769860800", b"", context), noon);
        assert_eq!(of_parts(b"1769860800", b"x", context), None);
        assert_eq!(of_date_and_time(b"2026-01-31", b"13:00:00", b"+0100", context), noon);
        assert_eq!(of_date_and_time(b"2026-01-31", b"13:00:00", b"CET", context), noon);
        assert_eq!(of_date_and_time(b"2026-01-31", b"noon", b"", context), None);
        assert_eq!(of_date_and_time(b"", b"", b"", context), None);
    }
}
