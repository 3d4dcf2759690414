//! The tools that compare: what changed against the time before, and what stands out of it. The
//! page does the same (`web/src/lib/lines/differences.ts`, `standing.ts`).

use std::time::{SystemTime, UNIX_EPOCH};

use query::time::parse_time;
use serde_json::{Map, Value, json};
use text::duration::{HOUR_NS, MINUTE_NS, SECOND_NS};
use text::time::{format_time, parse_timestamp};

use super::ask::{Ask, Found, Shown, VALUE_BYTES, counted, field, named, number, piped, rows};
use super::tools::{Arguments, listing, object};

/// The time before a window, as a multiple of it.
const BEFORE_SPANS: i64 = 4;
/// With less history than this share of the window before it, nothing is compared.
const HISTORY_MIN: f64 = 0.25;
/// Steps in which a range is watched, at most, and ranges before it of which the usual is learned.
const STEPS_MAX: i64 = 60;
const LEARNED_SPANS: i64 = 3;
/// With fewer steps of history, the anomaly detector gives no scores.
const STEPS_LEARNED_MIN: i64 = 50;
/// What stands out of one field, and of all, at most.
const EACH_MAX: usize = 5;
const STANDING_MAX: usize = 15;
/// A smaller change is no news to people, however unusual it is.
const CHANGE_MIN: f64 = 0.2;
/// Fields that are watched: of each group the first that lines have.
const GROUPS: [&[&str]; 4] =
    [&["_level"], &["_type"], &["app_name", "app", "service"], &["hostname", "host"]];
/// Widths of steps in seconds.
const STEPS_S: [i64; 21] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_419_200,
];

/// A range of times in nanoseconds; the end does not belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    start_ns: i64,
    end_ns: i64,
}

impl Span {
    fn width_ns(self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    fn times(self) -> [(&'static str, String); 2] {
        [("start", format_time(self.start_ns)), ("end", format_time(self.end_ns))]
    }

    fn filter(self) -> String {
        format!("_time:[{}, {})", format_time(self.start_ns), format_time(self.end_ns))
    }
}

/// Now, to the millisecond, which is shorter to read.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).map_or(i64::MAX, |ms| ms.saturating_mul(1_000_000))
}

/// The instant that an argument names.
pub fn instant(arguments: &Arguments<'_>, name: &str, now_ns: i64) -> Result<Option<i64>, String> {
    let Some(text) = arguments.text(name)? else { return Ok(None) };
    let instants = parse_time(&text, now_ns);
    let instant = instants.map(|instants| instants.start_ns).ok_or_else(|| {
        format!("{name:?} is not a time: {text:?}; expected 2026-01-31T12:00:00Z, or so long ago such as 15m or 3d")
    });
    instant.map(Some)
}

/// The range of the arguments; `all` is as long as the server has lines.
fn span(
    ask: &dyn Ask,
    arguments: &Arguments<'_>,
    usual_ns: i64,
) -> Result<(Span, Option<i64>), String> {
    let now_ns = now_ns();
    let end_ns = instant(arguments, "end", now_ns)?.unwrap_or(now_ns);
    let oldest_ns = oldest(ask);
    let start_ns = match arguments.text("start")?.as_deref() {
        Some("all") => oldest_ns.unwrap_or(0),
        _ => instant(arguments, "start", now_ns)?.unwrap_or(end_ns.saturating_sub(usual_ns)),
    };
    match start_ns < end_ns {
        true => Ok((Span { start_ns, end_ns }, oldest_ns)),
        false => Err(format!(
            "\"start\" ({}) is not before \"end\" ({}); give an earlier start",
            format_time(start_ns),
            format_time(end_ns)
        )),
    }
}

/// The time of the oldest line, if the server has lines itself.
fn oldest(ask: &dyn Ask) -> Option<i64> {
    let status = object(ask, "/api/v1/status", &[]).ok()?;
    parse_timestamp(status["store"]["oldest"].as_str()?.as_bytes())
}

/// What is different in a window of time, or in a group of lines.
pub fn what_changed(ask: &dyn Ask, arguments: &Arguments<'_>) -> Result<Found, String> {
    let limit = arguments.number("limit")?.max(1);
    let filter = arguments.filter()?;
    let (query, times, told) = match arguments.text("where")? {
        Some(group) => {
            let (span, _) = span(ask, arguments, HOUR_NS)?;
            let pipe = format!("differences {limit} where ({group}\n) | delete with");
            let [from, to] = span.times().map(|(_, time)| time);
            (
                piped(&filter, &pipe),
                span.times(),
                format!("lines of the group with all others from {from} to {to}"),
            )
        }
        None => {
            let (window, oldest_ns) = span(ask, arguments, 15 * MINUTE_NS)?;
            let before_ns = match instant(arguments, "baseline_start", now_ns())? {
                Some(before_ns) => before_ns,
                None => baseline(window, oldest_ns)?,
            };
            if before_ns >= window.start_ns {
                return Err("\"baseline_start\" is not before the window; give an earlier one, or a later \"start\"".into());
            }
            let before = Span { start_ns: before_ns, end_ns: window.start_ns };
            let pipe = format!(
                "differences {limit} where ({}) scale {} | delete with",
                window.filter(),
                scale(window, before)
            );
            let whole = Span { start_ns: before_ns, end_ns: window.end_ns };
            let [from, to] = window.times().map(|(_, time)| time);
            let told =
                format!("{from} to {to} with the time before it, from {}", format_time(before_ns));
            (piped(&filter, &pipe), whole.times(), told)
        }
    };
    let shown = listing(ask, query, &times)?;
    let note = match shown.rows {
        0 => format!(
            "No differences: compared {told}. A longer window, or another one, may show some."
        ),
        rows => format!(
            "{}, the greatest first: compared {told}.{}",
            counted(rows, "difference"),
            shown.told()
        ),
    };
    Ok(Found { note, data: shown.text })
}

/// The width of a window as a share of the time before it, with all its digits: a second is few
/// millionths of a month, and none at all with six digits.
fn scale(window: Span, before: Span) -> String {
    (window.width_ns() as f64 / before.width_ns() as f64).to_string()
}

/// Where the time before a window begins.
fn baseline(window: Span, oldest_ns: Option<i64>) -> Result<i64, String> {
    let width_ns = window.width_ns();
    let usual_ns = window.start_ns.saturating_sub(width_ns.saturating_mul(BEFORE_SPANS));
    let before_ns = usual_ns.max(oldest_ns.unwrap_or(i64::MIN));
    let history_ns = window.start_ns.saturating_sub(before_ns);
    match history_ns as f64 >= HISTORY_MIN * width_ns as f64 && history_ns > 0 {
        true => Ok(before_ns),
        false => Err(format!(
            "there are too few lines from before the window to compare it with: the oldest is of {}; give a later \"start\", or \
             compare two groups of lines with \"where\"",
            oldest_ns.map_or("an unknown time".to_owned(), format_time)
        )),
    }
}

/// A moment that stands out.
struct Standing {
    at_ns: i64,
    score: f64,
    change: f64,
    row: Map<String, Value>,
}

/// When something was unusual.
pub fn stands_out(ask: &dyn Ask, arguments: &Arguments<'_>) -> Result<Found, String> {
    let (span, oldest_ns) = span(ask, arguments, HOUR_NS)?;
    let filter = arguments.filter()?;
    let step_ns = step(span);
    let step_s = step_ns / SECOND_NS;
    let learned_ns = span.start_ns.saturating_sub(span.width_ns().saturating_mul(LEARNED_SPANS));
    // An incomplete step has fewer lines than usual.
    let within = Span {
        start_ns: learned_ns.max(oldest_ns.unwrap_or(i64::MIN)).div_euclid(step_ns) * step_ns
            + step_ns,
        end_ns: span.end_ns.div_euclid(step_ns) * step_ns,
    };
    let worst = format!(
        "filter anomaly_new:1 _time:>=\"{}\" | sort by (anomaly desc) | limit {EACH_MAX}",
        format_time(span.start_ns)
    );
    let mut found = Vec::new();
    let mut watched = Vec::new();
    if within.width_ns() > 0 {
        if let Some(name) = arguments.text("number")? {
            let number = named(&name);
            let pipe = format!(
                "stats by (_time:{step_s}s) quantile(0.99, {number}) n | anomalies n | {worst}"
            );
            let of = format!("99 % quantile of {name}");
            found.extend(standing(&of, "", rows(ask, piped(&filter, &pipe), &within.times())?));
            watched.push(of);
        } else {
            for name in by(ask, arguments, &filter, within)? {
                let by = named(&name);
                let pipe = format!(
                    "stats by (_time:{step_s}s, {by}) count() n | anomalies by ({by}) n step {step_s}s | {worst}"
                );
                let rows = rows(ask, piped(&filter, &pipe), &within.times())?;
                found.extend(standing("lines", &name, rows));
                watched.push(name);
            }
        }
    }
    let found = ranked(found, step_ns);
    let mut shown = Shown::new(VALUE_BYTES);
    for one in found {
        if !shown.push_row(one.row) {
            break;
        }
    }
    let [from, to] = span.times().map(|(_, time)| time);
    let watched = match watched.is_empty() {
        true => "nothing, because there are no lines".to_owned(),
        false => format!("{} in steps of {step_s} s", watched.join(", ")),
    };
    let mut note = match shown.rows {
        0 => format!("Nothing stands out from {from} to {to}; watched: {watched}."),
        rows => format!(
            "{} that stand out from {from} to {to}, the latest first; watched: {watched}. `what_changed` with a window that \
             begins at one of them says what was different.{}",
            counted(rows, "moment"),
            shown.told()
        ),
    };
    let learned = span.start_ns.saturating_sub(within.start_ns) / step_ns;
    if learned < STEPS_LEARNED_MIN {
        note.push_str(&format!(
            " There are only {} steps of history before, of which little can be learned.",
            learned.max(0)
        ));
    }
    Ok(Found { note, data: shown.text })
}

/// The fields whose values are watched.
fn by(
    ask: &dyn Ask,
    arguments: &Arguments<'_>,
    filter: &str,
    within: Span,
) -> Result<Vec<String>, String> {
    let given = arguments.texts("by")?;
    if !given.is_empty() {
        return Ok(given);
    }
    let names = rows(ask, piped(filter, "field_names"), &within.times())?;
    let has = |name: &&&str| names.iter().any(|row| field(row, "name") == **name);
    Ok(GROUPS.iter().filter_map(|group| group.iter().find(has)).map(|&name| name.into()).collect())
}

/// The smallest round step that cuts a range into few enough.
fn step(span: Span) -> i64 {
    let fits = |step: &&i64| span.width_ns() / (**step * SECOND_NS) <= STEPS_MAX;
    STEPS_S.iter().find(fits).unwrap_or(&STEPS_S[STEPS_S.len() - 1]) * SECOND_NS
}

fn standing(of: &str, by: &str, rows: Vec<Map<String, Value>>) -> Vec<Standing> {
    let moment = |row: Map<String, Value>| {
        let at_ns = parse_timestamp(field(&row, "_time").as_bytes())?;
        let (n, expected) = (number(&row, "n"), number(&row, "expected"));
        let greater = n.abs().max(expected.abs());
        let change = if greater == 0.0 { 0.0 } else { ((n - expected).abs() / greater).min(1.0) };
        let score = number(&row, "anomaly");
        let mut shown = Map::new();
        shown.insert("at".into(), field(&row, "_time").into());
        shown.insert("of".into(), of.into());
        if !by.is_empty() {
            shown.insert(by.to_owned(), field(&row, by).into());
        }
        let numbers = json!({ "n": n, "expected": expected, "score": score });
        shown.extend(numbers.as_object().cloned().unwrap_or_default());
        shown.insert("reason".into(), field(&row, "reason").into());
        Some(Standing { at_ns, score, change, row: shown })
    };
    rows.into_iter().filter_map(moment).collect()
}

/// The most unusual and largest changes; of those of one moment and one field, the first of them.
fn ranked(mut found: Vec<Standing>, step_ns: i64) -> Vec<Standing> {
    found.retain(|one| one.change >= CHANGE_MIN);
    found.sort_by(|a, b| (b.score * b.change).total_cmp(&(a.score * a.change)));
    let mut kept: Vec<Standing> = Vec::new();
    for one in found {
        let near = |other: &Standing| {
            other.at_ns.abs_diff(one.at_ns) <= 2 * step_ns.unsigned_abs()
                && other.row.keys().eq(one.row.keys())
        };
        if kept.len() < STANDING_MAX && !kept.iter().any(near) {
            kept.push(one);
        }
    }
    kept.sort_by_key(|one| std::cmp::Reverse(one.at_ns));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> i64 {
        1_769_860_800 * SECOND_NS + second * SECOND_NS
    }

    #[test]
    fn a_window_is_compared_with_what_there_is_before_it() {
        let window = Span { start_ns: at(0), end_ns: at(100) };
        assert_eq!(baseline(window, None), Ok(at(-400)));
        assert_eq!(baseline(window, Some(at(-1_000))), Ok(at(-400)));
        assert_eq!(baseline(window, Some(at(-25))), Ok(at(-25)));
        let error = baseline(window, Some(at(-24))).unwrap_err();
        assert!(error.contains("2026-01-31T11:59:36Z") && error.contains("where"), "{error}");
        assert!(baseline(window, Some(at(7))).is_err());
        assert_eq!(window.filter(), "_time:[2026-01-31T12:00:00Z, 2026-01-31T12:01:40Z)");
    }

    #[test]
    fn a_short_window_is_compared_with_a_long_time() {
        let window = Span { start_ns: at(0), end_ns: at(1) };
        for days in [1, 30, 3_650] {
            let before = Span { start_ns: at(-days * 86_400), end_ns: at(0) };
            let text = scale(window, before);
            let expected = 1.0 / (days as f64 * 86_400.0);
            let found: f64 = text.parse().unwrap();
            assert!((found / expected - 1.0).abs() < 1e-9 && !text.contains('e'), "{text}");
        }
    }

    #[test]
    fn steps_are_round() {
        let width = |seconds| step(Span { start_ns: at(0), end_ns: at(seconds) }) / SECOND_NS;
        assert_eq!(
            [width(1), width(60), width(61), width(3_600), width(3_700)],
            [1, 1, 2, 60, 120]
        );
        assert_eq!(width(100 * 365 * 86_400), 2_419_200);
    }

    #[test]
    fn the_largest_changes_stand_out() {
        let row = |time: &str, host: &str, n: &str, expected: &str| {
            let row = json!({ "_time": time, "host": host, "n": n, "expected": expected, "anomaly": "0.9" });
            row.as_object().cloned().unwrap()
        };
        let found = standing(
            "lines",
            "host",
            vec![
                row("2026-01-31T12:00:00Z", "a", "50", "45"),
                row("2026-01-31T12:05:00Z", "a", "100", "50"),
                row("2026-01-31T12:06:00Z", "b", "0", "50"),
                row("2026-01-31T12:30:00Z", "c", "90", "50"),
                row("never", "d", "90", "1"),
            ],
        );
        let kept = ranked(found, 60 * SECOND_NS);
        let hosts: Vec<_> = kept.iter().map(|one| field(&one.row, "host")).collect();
        assert_eq!(hosts, ["c", "b"]);
    }
}
