//! Panels in LogQL: the variables in their queries, and their answers as rows. The page does the
//! same (`lib/query/logql.ts` of `web/src`); what the language means is known to the crate `logql`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use logql::ast::Expr;
use logql::logs::{self, Entry};
use logql::metric::{self, Grid, Series, Value as Numbers};
use logql::{EvalError, Labels, format_number};
use query::Query;
use query::source::TimeRange;
use serde_json::json;
use text::quoted::quote;
use text::time::format_time;

use super::panel::Panel;
use super::shown::{ROWS_BYTES_MAX, ROWS_MAX, Rows, TABLE_ROWS_MAX};
use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::wire::clock::now_ns;
use crate::wire::error::ApiError;

const SECOND_NS: i64 = 1_000_000_000;
const MILLISECOND_NS: i64 = 1_000_000;

/// The operators before a text, the longer ones first; and for a text that is one variable, what is
/// written before a single value and before a regular expression.
const OPERATORS: &[(&str, &str, &str)] = &[
    ("|=", "|=", "|~"),
    ("|~", "|=", "|~"),
    ("!=", "!=", "!~"),
    ("!~", "!=", "!~"),
    ("=~", "=", "=~"),
    ("=", "=", "=~"),
];

/// A query with the chosen values. A matcher of a label or a filter of lines whose text is one
/// variable takes all its values, and any text if none is chosen; in other texts a variable stands
/// for the first one. A value is always a text or an escaped part of a regular expression.
pub fn with_variables(
    query: &str,
    variables: &[(String, String)],
    chosen: &BTreeMap<String, Vec<String>>,
) -> String {
    let values = |name: &str| {
        let is_known = variables.iter().any(|(known, _)| known == name);
        is_known.then(|| chosen.get(name).map_or(&[][..], Vec::as_slice))
    };
    let mut out = String::with_capacity(query.len());
    let mut rest = query;
    while let Some(at) = rest.find(['"', '`']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let Some(length) = literal_bytes(from) else {
            rest = from;
            break;
        };
        let (literal, behind) = from.split_at(length);
        rest = behind;
        let text = match literal.strip_prefix('`') {
            Some(raw) => Some(raw.trim_end_matches('`').to_owned()),
            None => serde_json::from_str(literal).ok(),
        };
        let Some(text) = text.filter(|text| named(text).any(|(_, name)| values(name).is_some()))
        else {
            out.push_str(literal);
            continue;
        };
        let operator = OPERATORS.iter().find(|(sign, ..)| out.trim_end().ends_with(sign));
        let mut names = named(&text);
        let whole = match (names.next(), names.next()) {
            (Some((place, name)), None) if place == (0..text.len()) => values(name),
            _ => None,
        };
        let written = match (operator, whole) {
            (Some((sign, plain, regex)), Some(values)) => {
                out.truncate(out.trim_end().len() - sign.len());
                let any = values.iter().map(|value| as_regex(value)).collect::<Vec<_>>().join("|");
                match values {
                    [] => format!("{regex}{}", json!(".*")),
                    [value] => format!("{plain}{}", json!(value)),
                    _ => format!("{regex}{}", json!(any)),
                }
            }
            _ => {
                let is_regex = operator.is_some_and(|(sign, ..)| sign.ends_with('~'));
                json!(replaced(&text, is_regex, values)).to_string()
            }
        };
        out.push_str(&written);
    }
    out + rest
}

/// A text with its variables replaced.
fn replaced<'c>(
    text: &str,
    is_regex: bool,
    values: impl Fn(&str) -> Option<&'c [String]>,
) -> String {
    let mut out = String::new();
    let mut behind = 0;
    for (place, name) in named(text) {
        let Some(values) = values(name) else { continue };
        out.push_str(&text[behind..place.start]);
        behind = place.end;
        let any = || values.iter().map(|value| as_regex(value)).collect::<Vec<_>>().join("|");
        match (is_regex, values) {
            (true, []) => out.push_str(".*"),
            (true, _) => out.extend(["(", &any(), ")"]),
            (false, _) => out.push_str(values.first().map_or("", String::as_str)),
        }
    }
    out + &text[behind..]
}

fn as_regex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\^$.*+?()[]{}|".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The variables of a text, `$name`, `${name}`, `${name:format}` and `[[name]]`, and where they
/// are.
fn named(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + text[from..].find(['$', '['])?;
            let rest = &text[at..];
            let found = if let Some(inside) = rest.strip_prefix("${") {
                let name = word(inside);
                let format = inside[name.len()..].strip_prefix(':').map(word);
                let length = name.len() + format.map_or(0, |format| 1 + format.len());
                let is_whole = format != Some("") && inside[length..].starts_with('}');
                is_whole.then_some((name, length + 3))
            } else if let Some(inside) = rest.strip_prefix("[[") {
                let name = word(inside);
                inside[name.len()..].starts_with("]]").then_some((name, name.len() + 4))
            } else {
                let name = rest.strip_prefix('$').map_or("", word);
                Some((name, name.len() + 1))
            };
            match found.filter(|(name, _)| !name.is_empty()) {
                Some((name, length)) => {
                    from = at + length;
                    return Some((at..from, name));
                }
                None => from = at + 1,
            }
        }
    })
}

/// The letters, digits and `_` at the start.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Bytes of the quoted text at the start; `None` if it has no end.
fn literal_bytes(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mark = *bytes.first()?;
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if mark == b'"' => at += 2,
            byte if byte == mark => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A query with Grafana's own variables: the step and the length of the range.
fn with_intervals(query: &str, step_ns: i64, range_ns: i64) -> String {
    let (step, range) = (duration(step_ns), format!("{}s", (range_ns / SECOND_NS).max(1)));
    let mut out = String::new();
    let mut behind = 0;
    for (place, name) in named(query) {
        let value = match name {
            "__interval" | "__auto" | "__rate_interval" => &step,
            "__range" => &range,
            _ => continue,
        };
        out.extend([&query[behind..place.start], value]);
        behind = place.end;
    }
    out + &query[behind..]
}

fn duration(ns: i64) -> String {
    match ns % SECOND_NS {
        0 => format!("{}s", ns / SECOND_NS),
        _ => format!("{}ms", ns / MILLISECOND_NS),
    }
}

/// The rows of a query over a range, and a query in LogsQL whose rows would look so.
pub async fn of_query(
    app: &Arc<App>,
    caller: &Caller,
    panel: &Panel,
    text: &str,
    (start_ns, end_ns): (i64, i64),
) -> Result<(Query, Rows), String> {
    let told = |error: ApiError| error.to_string();
    let partial = [("allow_partial_response".to_owned(), "1".to_owned())].into();
    let params = Params::of_principal(&caller.principal, partial);
    let range_ns = end_ns.saturating_sub(start_ns);
    let step_ns = panel.step_ns(range_ns);
    let text = with_intervals(text, step_ns, range_ns);
    let parsed = logql::parse(&text).map_err(|error| error.to_string())?;
    let mut pending = PendingQuery::new(app, "query", &text, caller).map_err(told)?;
    pending.context.restriction = params.restriction(now_ns()).map_err(told)?;
    pending.allow_partial(&params, caller);
    let found = match parsed {
        Expr::Metric(metric) => {
            let grid = Grid::new(start_ns, end_ns, step_ns)?;
            let found = answer(pending, move |running| {
                told_apart(metric::run(&metric, running.source(), &running.context, grid))
            });
            found.await.map(|found| found.map(|found| of_numbers(found, &grid)))
        }
        Expr::Log(query) => {
            pending.context.range = TimeRange { start_ns, end_ns };
            let lines_max = TABLE_ROWS_MAX + 1;
            let found = answer(pending, move |running| {
                let (source, context) = (running.source(), &running.context);
                told_apart(logs::run(&query, source, context, lines_max, false, false))
            });
            found.await.map(|found| found.map(of_lines))
        }
    };
    found.map_err(told)?
}

/// An error in the query itself does not count as a failure.
fn told_apart<T>(found: Result<T, EvalError>) -> Result<Result<T, String>, query::RunError> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(EvalError::Run(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Numbers over time as rows of `_time`, a column for each label, and `value`.
fn of_numbers(found: Numbers, grid: &Grid) -> (Query, Rows) {
    let series = match found {
        Numbers::Series(series) => series,
        Numbers::Scalar(value) => {
            vec![Series { labels: Labels::new(), points: vec![Some(value); grid.steps()] }]
        }
    };
    let mut labels: Vec<&String> =
        series.iter().flat_map(|one| one.labels.iter().map(|(name, _)| name)).collect();
    labels.sort_unstable();
    labels.dedup();
    let mut rows = Rows::default();
    rows.names.push("_time".to_owned());
    rows.names.extend(labels.iter().map(|label| (*label).clone()));
    rows.names.push("value".to_owned());
    let mut bytes = 0;
    'rows: for one in &series {
        for (step, value) in one.points.iter().enumerate() {
            let Some(value) = value else { continue };
            if rows.rows.len() >= ROWS_MAX || bytes > ROWS_BYTES_MAX {
                rows.is_cut = true;
                break 'rows;
            }
            let mut row = vec![format_time(grid.time_ns(step))];
            row.extend(labels.iter().map(|label| value_of(&one.labels, label).to_owned()));
            row.push(format_number(*value));
            bytes += row.iter().map(|cell| cell.len() + size_of::<String>()).sum::<usize>();
            rows.rows.push(row);
        }
    }
    let by = labels.iter().map(|label| format!(", {}", quote(label))).collect::<String>();
    let step = duration(grid.step_ns());
    let like = format!("* | stats by (_time:{step}{by}) max(value) value");
    (Query::parse(&like, 0).expect("names are quoted"), rows)
}

/// The value of a label; empty if it is missing.
fn value_of<'l>(labels: &'l Labels, name: &str) -> &'l str {
    labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
}

/// Lines as rows, the newest first.
fn of_lines(entries: Vec<Entry>) -> (Query, Rows) {
    let is_cut = entries.len() > TABLE_ROWS_MAX;
    let row = |entry: Entry| vec![format_time(entry.time_ns), entry.line];
    let rows = Rows {
        names: vec!["_time".to_owned(), "_msg".to_owned()],
        rows: entries.into_iter().take(TABLE_ROWS_MAX).map(row).collect(),
        is_cut,
    };
    (Query::parse("*", 0).expect("it is one"), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_texts_and_never_more() {
        let variables = ["host", "app"].map(|name| (name.to_owned(), name.to_owned()));
        for (query, values, expected) in [
            (r#"{h="$host"}"#, &[][..], r#"{h=~".*"}"#),
            (r#"{h="$host"}"#, &["a\"b"], r#"{h="a\"b"}"#),
            (r#"{h=~"${host:regex}", b="c"}"#, &["web.1", "x|y"], r#"{h=~"web\\.1|x\\|y", b="c"}"#),
            (r#"{h!="[[host]]"}"#, &["a", "b"], r#"{h!~"a|b"}"#),
            (r#"{h=~"pre-$host.*"}"#, &["a", "b"], r#"{h=~"pre-(a|b).*"}"#),
            (r#"{h=~"pre-$host"}"#, &[], r#"{h=~"pre-.*"}"#),
            (r#"{a="b"} |= "$host" | json"#, &["x\"y"], r#"{a="b"} |="x\"y" | json"#),
            (r#"{a="b"} |= "$host""#, &[], r#"{a="b"} |~".*""#),
            (r#"{a="b"} |= "$host""#, &["a.b", "c"], r#"{a="b"} |~"a\\.b|c""#),
            (r#"{a="b"} |~ "^$host""#, &["a.b"], r#"{a="b"} |~ "^(a\\.b)""#),
            (r#"{a="$other"}"#, &["a"], r#"{a="$other"}"#),
            (r#"{a=`$host`}"#, &["a"], r#"{a="a"}"#),
            (r#"{a="\"$host"} != "x"#, &["a"], r#"{a="\"a"} != "x"#),
            (
                r#"{a="${host", b="$[[", c="${host:}"}"#,
                &["a"],
                r#"{a="${host", b="$[[", c="${host:}"}"#,
            ),
        ] {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let chosen = BTreeMap::from([("host".to_owned(), values)]);
            assert_eq!(with_variables(query, &variables, &chosen), expected, "{query}");
        }
    }

    #[test]
    fn the_step_and_the_range_are_grafanas_variables() {
        let query = r#"sum(rate({a="b"}[$__auto])) + count_over_time({a="b"}[${__range}]) $__interval $__intervals"#;
        let expected =
            r#"sum(rate({a="b"}[30s])) + count_over_time({a="b"}[3600s]) 30s $__intervals"#;
        assert_eq!(with_intervals(query, 30 * SECOND_NS, 3_600 * SECOND_NS), expected);
        assert_eq!(duration(SECOND_NS / 4), "250ms");
    }

    #[test]
    fn numbers_are_rows_of_labels() {
        let series = |labels: &[(&str, &str)], points: &[Option<f64>]| Series {
            labels: labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            points: points.to_vec(),
        };
        let grid = Grid::new(0, SECOND_NS, SECOND_NS).unwrap();
        let found = vec![
            series(&[("a b", "x")], &[Some(1.0), Some(2.5)]),
            series(&[("c", "y")], &[None, Some(7.0)]),
        ];
        let (like, rows) = of_numbers(Numbers::Series(found), &grid);
        assert_eq!(rows.names, ["_time", "a b", "c", "value"]);
        let expected = [
            ["1970-01-01T00:00:00Z", "x", "", "1"],
            ["1970-01-01T00:00:01Z", "x", "", "2.5"],
            ["1970-01-01T00:00:01Z", "", "y", "7"],
        ];
        assert_eq!(rows.rows, expected);
        assert_eq!(like.to_string(), "* | stats by (_time:1s, \"a b\", c) max(value) as value");
    }
}
