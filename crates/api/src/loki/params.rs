//! Parameters as Grafana and `logcli` send them.

use ::query::source::TimeRange;
use logql::parse_duration_ns;

use crate::access::params::Params;
use crate::loki::{LokiError, LokiResult};

const SECOND_NS: f64 = 1e9;
/// How far back a query reads by default.
pub const QUERY_SINCE_NS: i64 = 3_600_000_000_000;
/// How far back labels are searched by default.
pub const LABELS_SINCE_NS: i64 = 6 * 3_600_000_000_000;

/// A time: nanoseconds, seconds (up to ten digits, or with a fraction), or RFC 3339.
pub fn time(params: &Params, name: &str) -> LokiResult<Option<i64>> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let wrong =
        || LokiError::bad_request(format!("could not parse '{name}': '{text}' is not a time"));
    if let Ok(number) = text.parse::<i64>() {
        return match text.trim_start_matches('-').len() <= 10 {
            true => Ok(Some(number.saturating_mul(SECOND_NS as i64))),
            false => Ok(Some(number)),
        };
    }
    if let Ok(seconds) = text.parse::<f64>() {
        // The fraction is converted separately, so that it keeps its digits.
        let (whole, fraction) = (seconds.trunc(), seconds.fract());
        return match whole.abs() < 9.2e9 {
            true => Ok(Some(whole as i64 * 1_000_000_000 + (fraction * SECOND_NS).round() as i64)),
            false => Err(wrong()),
        };
    }
    text::time::parse_timestamp(text.as_bytes()).map(Some).ok_or_else(wrong)
}

/// A duration in nanoseconds, written as `5m` or as seconds.
pub fn duration_ns(params: &Params, name: &str) -> LokiResult<Option<i64>> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let seconds = text.parse::<f64>().ok().filter(|s| s.abs() < 9.2e9);
    let duration = seconds.map(|s| (s * SECOND_NS).round() as i64);
    let duration = duration.or_else(|| parse_duration_ns(text)).ok_or_else(|| {
        LokiError::bad_request(format!("cannot parse \"{text}\" to a valid duration ({name})"))
    })?;
    Ok(Some(duration))
}

/// The parameters `start`, `end` and `since` as a range from `start` to before `end`.
pub fn range(params: &Params, now_ns: i64, since_ns: i64) -> LokiResult<TimeRange> {
    let end_ns = time(params, "end")?.unwrap_or(now_ns);
    let since_ns = duration_ns(params, "since")?.unwrap_or(since_ns);
    // An end in the future does not move the start.
    let start_ns = time(params, "start")?.unwrap_or(end_ns.min(now_ns).saturating_sub(since_ns));
    if end_ns < start_ns {
        return Err(LokiError::bad_request(
            "end timestamp must not be before or equal to start time",
        ));
    }
    Ok(TimeRange { start_ns, end_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        Params::parse(text.as_bytes())
    }

    #[test]
    fn times_in_all_forms() {
        for (text, expected) in [
            ("1700000000", 1_700_000_000_000_000_000),
            ("1700000000.5", 1_700_000_000_500_000_000),
            ("1700000000.123456", 1_700_000_000_123_456_000),
            ("1700000000123456789", 1_700_000_000_123_456_789),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
            ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000_000),
        ] {
            let found = time(&params(&format!("start={text}")), "start").unwrap().unwrap();
            assert!((found - expected).abs() < 1_000, "{text}: {found}");
        }
        assert!(time(&params("start=x"), "start").is_err());
        assert!(time(&params("start=1e300"), "start").is_err());
        assert_eq!(time(&params(""), "start").unwrap(), None);
    }

    #[test]
    fn ranges_and_durations() {
        let range = |text: &str| {
            range(&params(text), 100 * QUERY_SINCE_NS, QUERY_SINCE_NS)
                .map(|r| (r.start_ns, r.end_ns))
                .ok()
        };
        assert_eq!(range(""), Some((99 * QUERY_SINCE_NS, 100 * QUERY_SINCE_NS)));
        assert_eq!(range("since=2h"), Some((98 * QUERY_SINCE_NS, 100 * QUERY_SINCE_NS)));
        assert_eq!(range("start=2&end=1"), None);
        let duration = |text: &str| duration_ns(&params(&format!("step={text}")), "step").ok();
        assert_eq!(duration("15"), Some(Some(15_000_000_000)));
        assert_eq!(duration("0.5"), Some(Some(500_000_000)));
        assert_eq!(duration("1m"), Some(Some(60_000_000_000)));
        assert_eq!(duration("x"), None);
    }
}
