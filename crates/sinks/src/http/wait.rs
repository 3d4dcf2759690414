//! How long a server asks to wait before the next request.

use std::time::{Duration, SystemTime};

/// What `Retry-After` asks for: a number of seconds, or a date (RFC 9110, section 10.2.3). `date`
/// is the time of the answer by the clock of the server, `now` by ours where it tells none. A date
/// that is over asks for no wait.
pub fn asked(value: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let answered = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(now);
    Some(until.duration_since(answered).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_until_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:30 GMT").unwrap();
        let seconds =
            |value: &str, date: Option<&str>| asked(value, date, now).map(|wait| wait.as_secs());
        for (value, expected) in [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7)),
            ("Sun Nov  6 08:49:37 1994", Some(7)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(seconds(value, None), expected, "{value}");
        }
        // The clock of the server counts, if it tells it.
        let until = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(seconds(until, Some("Sun, 06 Nov 1994 08:48:37 GMT")), Some(60));
        assert_eq!(seconds(until, Some("broken")), Some(7));
    }
}
