//! Which backups are kept.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use text::duration::{DAY_NS, HOUR_NS};
use text::time::Moment;

/// Backups of one unit that can be asked for.
const COUNT_MAX: usize = 10_000;

/// How many backups of each span are kept: `24h/7d/12w/24m/10y` is the newest one of each of the
/// last 24 hours, 7 days, 12 weeks, 24 months and 10 years that have any. Counting those that have
/// some means that nothing is deleted because none were made. The newest one of all is always kept.
/// Hours and days are those of UTC; weeks begin on Monday.
///
/// A backup of a time that is still to come was made by a wrong clock. It is kept, and counts for
/// no span: else those that were made since the clock is right would be deleted in its favour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep(Vec<(usize, Span)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const SPANS: [(char, Span); 5] =
    [('h', Span::Hour), ('d', Span::Day), ('w', Span::Week), ('m', Span::Month), ('y', Span::Year)];

impl Span {
    /// The number of the span that an instant lies in.
    fn number(self, ns: i64) -> i64 {
        let moment = Moment::at(ns);
        match self {
            Span::Hour => ns.div_euclid(HOUR_NS),
            Span::Day => ns.div_euclid(DAY_NS),
            // 1970 began on a Thursday.
            Span::Week => (ns.div_euclid(DAY_NS) + 3).div_euclid(7),
            Span::Month => moment.year * 12 + i64::from(moment.month),
            Span::Year => moment.year,
        }
    }
}

impl FromStr for Keep {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Keep> {
        let mut rules = Vec::new();
        for part in text.split('/') {
            let span = SPANS.iter().find(|(unit, _)| part.ends_with(*unit));
            let count = part.get(..part.len().saturating_sub(1)).map(str::parse::<usize>);
            let (Some((_, span)), Some(Ok(count))) = (span, count) else {
                bail!(
                    "'{}' does not say which backups are kept; write for example 24h/7d/12w/24m: the newest one of each of \
                     the last 24 hours, 7 days, 12 weeks and 24 months",
                    text.escape_default()
                );
            };
            ensure!((1..=COUNT_MAX).contains(&count), "'{part}' must be between 1 and {COUNT_MAX}");
            rules.push((count, *span));
        }
        Ok(Keep(rules))
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (count, span)) in self.0.iter().enumerate() {
            let (unit, _) = SPANS.iter().find(|(_, other)| other == span).expect("all are there");
            write!(f, "{}{count}{unit}", if at == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

impl Keep {
    /// Which of the backups, by when they were made and the oldest first, are kept at `now_ns`.
    pub fn kept(&self, created_ns: &[i64], now_ns: i64) -> Vec<bool> {
        let past = created_ns.partition_point(|ns| *ns <= now_ns);
        let mut kept = vec![false; created_ns.len()];
        kept[past..].fill(true);
        if let Some(newest) = kept[..past].last_mut() {
            *newest = true;
        }
        for (count, span) in &self.0 {
            let mut seen = HashSet::new();
            for (at, ns) in created_ns[..past].iter().enumerate().rev() {
                if seen.len() < *count && seen.insert(span.number(*ns)) {
                    kept[at] = true;
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rule: &str, times: &[&str]) -> Vec<usize> {
        kept_at(rule, times, i64::MAX)
    }

    fn kept_at(rule: &str, times: &[&str], now_ns: i64) -> Vec<usize> {
        let at = |time: &&str| text::time::parse_timestamp(time.as_bytes()).unwrap();
        let times: Vec<i64> = times.iter().map(at).collect();
        let kept = rule.parse::<Keep>().unwrap().kept(&times, now_ns);
        kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(at, _)| at).collect()
    }

    #[test]
    fn the_newest_of_each_span_is_kept() {
        let times = [
            "2025-12-31T23:00:00Z", // Wednesday of the week of 2026-01-01
            "2026-01-01T01:00:00Z",
            "2026-01-01T23:30:00Z",
            "2026-01-04T23:59:59Z", // Sunday
            "2026-01-05T00:00:00Z", // Monday
            "2026-02-01T10:10:00Z",
            "2026-02-01T10:50:00Z",
            "2026-02-01T11:00:00Z",
        ];
        for (rule, expected) in [
            ("1h", vec![7]),
            ("2h", vec![6, 7]),
            ("1d", vec![7]),
            ("2d", vec![4, 7]),
            ("4d", vec![2, 3, 4, 7]),
            ("2w", vec![4, 7]),
            ("3w", vec![3, 4, 7]),
            ("2m", vec![4, 7]),
            ("3m", vec![0, 4, 7]),
            ("1y", vec![7]),
            ("2y", vec![0, 7]),
            ("2h/2y", vec![0, 6, 7]),
            ("9999h", vec![0, 1, 2, 3, 4, 6, 7]),
        ] {
            assert_eq!(kept(rule, &times), expected, "{rule}");
        }
        assert_eq!(kept("1d", &[]), Vec::<usize>::new());
    }

    #[test]
    fn backups_of_the_future_do_not_displace_others() {
        let times = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z"];
        let [_, second_ns, future_ns] =
            times.map(|time| text::time::parse_timestamp(time.as_bytes()).unwrap());
        // That of today would be deleted as soon as it is sent.
        assert_eq!(kept_at("1d", &times, second_ns), [1, 2]);
        assert_eq!(kept_at("2d", &times, second_ns), [0, 1, 2]);
        assert_eq!(kept_at("1d", &times, future_ns), [2]);
        assert_eq!(kept_at("1d", &times, 0), [0, 1, 2]);
    }

    #[test]
    fn rules_are_read_and_written() {
        for text in ["7d", "24h/7d/12w/24m/10y"] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), text);
        }
        for text in ["", "7", "d", "7d/", "0d", "-1d", "7x", "7d 2w", "10001d", "7ä"] {
            assert!(text.parse::<Keep>().is_err(), "{text}");
        }
    }
}
