//! A panel of a dashboard: what its document says, and the query that is run for it. The page does
//! the same (`lib/chart/dashboards.ts`, `lib/query/stats.ts` and `lib/query/variables.ts` of
//! `web/src`).
//!
//! A document is read leniently, as the page reads it: what is unknown or broken has its default.

use std::collections::BTreeMap;

use query::time::parse_duration;
use query::{Bucket, By, Limit, Offset, Pipe, Query, Sort, Stats, Top, Uniq};
use serde_json::{Map, Value};
use text::quoted::quote;

use super::units::Unit;

/// Panels of a dashboard that are sent.
///
/// limits.md, Dashboards by mail: panels of a mail | {} | further ones are left out, and the mail
/// says so
pub const PANELS_MAX: usize = 60;
/// Buckets of a chart for which its step is chosen.
const BUCKETS_WANTED: i64 = 120;
/// Buckets that a step of the panel may make; with more, a wider step is chosen.
const BUCKETS_MAX: i64 = 1_500;
/// Series of a chart without a choice.
const TOP_DEFAULT: usize = 10;
/// Most series of a chart, and entries of a list.
///
/// limits.md, Dashboards by mail: series of a chart, and entries of a list | {} | the others are
/// added up where that makes sense, and counted
const TOP_MAX: usize = 50;

/// How a result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lines over time.
    Line,
    /// Areas over time.
    Area,
    /// Bars over time.
    Bars,
    /// A heat map.
    Heat,
    /// A distribution.
    Histogram,
    /// A pie.
    Pie,
    /// Large numbers.
    Single,
    /// The greatest groups.
    Top,
    /// Rows.
    Table,
}

impl Kind {
    fn parse(name: &str) -> Option<Kind> {
        Some(match name {
            "line" => Kind::Line,
            "area" => Kind::Area,
            "bars" => Kind::Bars,
            "heat" => Kind::Heat,
            "histogram" => Kind::Histogram,
            "pie" => Kind::Pie,
            "single" => Kind::Single,
            "top" => Kind::Top,
            "table" => Kind::Table,
            _ => return None,
        })
    }

    /// Whether it has an axis of time.
    pub fn is_over_time(self) -> bool {
        matches!(self, Kind::Line | Kind::Area | Kind::Bars | Kind::Heat)
    }
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title, or its query.
    pub title: String,
    /// Its query, with variables.
    pub query: String,
    /// Its text, where it has no query.
    pub text: String,
    /// Whether the query is LogQL.
    pub is_logql: bool,
    /// The chosen kind.
    pub kind: Option<Kind>,
    /// The chosen unit.
    pub unit: Option<Unit>,
    /// The chosen columns.
    pub values: Vec<String>,
    /// Series that are hidden, or, if there are any, the only ones that are shown.
    pub hidden: Vec<String>,
    /// See [`hidden`](Self::hidden).
    pub only: Vec<String>,
    /// How many series are shown by themselves.
    pub top: usize,
    /// Whether values are stacked; none: where that makes sense.
    pub stacks: Option<bool>,
    /// What of the options is not drawn, a sentence each.
    pub notes: Vec<String>,
    /// The chosen width of buckets: `auto` or a duration.
    step: Option<String>,
}

/// The panels of a dashboard, at most [`PANELS_MAX`], and how many there are beside.
pub fn panels(dashboard: &Map<String, Value>) -> (Vec<Panel>, usize) {
    let all = dashboard.get("panels").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let panels = all.iter().take(PANELS_MAX).filter_map(Panel::read).collect();
    (panels, all.len().saturating_sub(PANELS_MAX))
}

/// The variables of a dashboard: names and fields.
pub fn variables(dashboard: &Map<String, Value>) -> Vec<(String, String)> {
    let all = dashboard.get("variables").and_then(Value::as_array);
    let read =
        |one: &Value| Some((one["name"].as_str()?.to_owned(), one["field"].as_str()?.to_owned()));
    all.into_iter().flatten().filter_map(read).collect()
}

fn names(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).take(TOP_MAX + 10).map(str::to_owned).collect()
}

impl Panel {
    fn read(value: &Value) -> Option<Panel> {
        let text = |name: &str| value[name].as_str().unwrap_or_default().trim().to_owned();
        let (query, written, options) = (text("query"), text("text"), &value["options"]);
        if query.is_empty() && written.is_empty() {
            return None;
        }
        let title = match text("title") {
            title if !title.is_empty() => title,
            _ => query.clone(),
        };
        let mut notes = Vec::new();
        if options["log"] == true {
            notes.push("Its logarithmic scale is drawn as a linear one.".to_owned());
        }
        if options["before"].is_string() {
            notes.push("The numbers of an earlier time are not drawn.".to_owned());
        }
        let stack = options["stack"].as_str();
        if stack == Some("percent") {
            notes.push("Shares of 100 % are drawn as stacked numbers.".to_owned());
        }
        Some(Panel {
            title,
            query,
            text: written,
            is_logql: value["language"] == "logql",
            kind: options["kind"].as_str().and_then(Kind::parse),
            unit: options["unit"].as_str().and_then(Unit::parse),
            values: names(&options["values"]),
            hidden: names(&options["hidden"]),
            only: names(&options["only"]),
            top: options["top"]
                .as_u64()
                .map_or(TOP_DEFAULT, |top| (top as usize).clamp(1, TOP_MAX)),
            stacks: stack.map(|stack| stack != "none"),
            notes,
            step: options["step"].as_str().map(str::to_owned),
        })
    }

    /// Whether a series is shown.
    pub fn shows(&self, label: &str) -> bool {
        match self.only.is_empty() {
            true => !self.hidden.iter().any(|hidden| hidden == label),
            false => self.only.iter().any(|only| only == label),
        }
    }

    /// The width of its buckets over a range, both in nanoseconds.
    pub fn step_ns(&self, range_ns: i64) -> i64 {
        let chosen = self.step.as_deref().and_then(parse_duration).filter(|step_ns| *step_ns > 0);
        let fits = chosen.filter(|step_ns| range_ns / step_ns <= BUCKETS_MAX);
        fits.unwrap_or_else(|| nice_step_ns(range_ns))
    }

    /// The query that is run over a range of so many nanoseconds: in buckets that fit.
    pub fn timed(&self, query: &Query, range_ns: i64) -> Query {
        let pipes = query.pipes();
        let groups = |pipe: &Pipe| {
            pipe.get::<Stats>().is_some()
                || pipe.get::<Top>().is_some()
                || pipe.get::<Uniq>().is_some()
        };
        let Some(place) = pipes.iter().rposition(groups) else { return query.clone() };
        let Some(stats) = pipes[place].get::<Stats>() else { return query.clone() };
        let has_time = stats.by.iter().any(|by| by.name == "_time");
        let is_over_time = self.kind.is_some_and(Kind::is_over_time);
        if !has_time && !is_over_time || has_time && self.step.is_none() {
            return query.clone();
        }
        let step_ns = self.step_ns(range_ns);
        let mut stats = stats.clone();
        stats.by.retain(|by| by.name != "_time");
        let bucket = Some(Bucket::Time { step_ns, offset_ns: 0 });
        stats.by.insert(0, By { name: "_time".to_owned(), bucket });
        // Pipes that choose and order rows of a table would choose some buckets.
        let chooses = |pipe: &Pipe| {
            pipe.get::<Sort>().is_some()
                || pipe.get::<Limit>().is_some()
                || pipe.get::<Offset>().is_some()
        };
        let behind = pipes[place + 1..].iter().filter(|pipe| !chooses(pipe)).cloned();
        let before = pipes[..place].iter().cloned();
        let all = before.chain(std::iter::once(stats.into())).chain(behind).collect();
        Query::new(query.filter().clone(), all).with_options(query.options())
    }
}

/// The narrowest round width that gives about [`BUCKETS_WANTED`] buckets.
fn nice_step_ns(range_ns: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let steps_s = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
        86_400, 172_800, 604_800,
    ];
    let found = steps_s.into_iter().find(|step| range_ns / (step * SECOND) <= BUCKETS_WANTED);
    found.unwrap_or(604_800) * SECOND
}

/// A query with filters in the place of its variables: of the chosen values, or `*`. What stands in
/// quotes is text, and a `$` of another name stays.
pub fn with_variables(
    query: &str,
    variables: &[(String, String)],
    chosen: &BTreeMap<String, Vec<String>>,
) -> String {
    let filter = |name: &str| {
        let (_, field) = variables.iter().find(|(known, _)| known == name)?;
        let one = |value: &String| match value.is_empty() {
            true => format!("{}:\"\"", quote(field)),
            false => format!("{}:={}", quote(field), quote(value)),
        };
        Some(match chosen.get(name).map(Vec::as_slice) {
            None | Some([]) => "*".to_owned(),
            Some([value]) => one(value),
            Some(values) => {
                format!("({})", values.iter().map(one).collect::<Vec<_>>().join(" or "))
            }
        })
    };
    let mut out = String::new();
    let mut rest = query;
    while let Some(at) = rest.find(['"', '\'', '`', '$']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mark = from.as_bytes()[0];
        let length = match mark {
            b'$' => {
                1 + from[1..]
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(from.len() - 1)
            }
            _ => quoted_length(from, mark),
        };
        let (part, behind) = from.split_at(length);
        match filter(part.trim_start_matches('$')).filter(|_| mark == b'$') {
            Some(filter) => out.push_str(&filter),
            None => out.push_str(part),
        }
        rest = behind;
    }
    out + rest
}

/// Bytes of the quoted text at the start, or of all if it has no end.
fn quoted_length(text: &str, mark: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if mark != b'`' => at += 1,
            byte if byte == mark => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_filters_and_never_more() {
        let variables =
            [("host".to_owned(), "hostname".to_owned()), ("app".to_owned(), "a b".to_owned())];
        let chosen = |values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
            BTreeMap::from([("host".to_owned(), values)])
        };
        for (query, values, expected) in [
            ("$host $app error", &[][..], "* * error"),
            ("$host | stats count()", &["a"], r#""hostname":="a" | stats count()"#),
            ("$host", &["a", ""], r#"("hostname":="a" or "hostname":"")"#),
            (
                "$hosts $other '$host' \"\\\"$host\" `$host`",
                &["a"],
                "$hosts $other '$host' \"\\\"$host\" `$host`",
            ),
            ("$host", &["\" or *"], r#""hostname":="\" or *""#),
            ("x $", &["a"], "x $"),
            ("\"$host", &["a"], "\"$host"),
        ] {
            let found = with_variables(query, &variables, &chosen(values));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn buckets_fit_the_range() {
        let day_ns = 86_400_000_000_000;
        for (query, options, expected) in [
            (
                "* | stats by (_time:5m, a) count() n",
                json!({}),
                "* | stats by (_time:5m, a) count(*) as n",
            ),
            (
                "* | stats by (_time:5m, a) count() n",
                json!({"step": "auto"}),
                "* | stats by (_time:15m, a) count(*) as n",
            ),
            (
                "* | stats by (_time:5m) count() n",
                json!({"step": "1s"}),
                "* | stats by (_time:15m) count(*) as n",
            ),
            (
                "* | stats by (_time:5m) count() n",
                json!({"step": "1h"}),
                "* | stats by (_time:1h) count(*) as n",
            ),
            (
                "* | stats by (a) count() n | sort by (n desc) | limit 3",
                json!({"kind": "bars"}),
                "* | stats by (_time:15m, a) count(*) as n",
            ),
            (
                "* | stats by (a) count() n",
                json!({"kind": "top"}),
                "* | stats by (a) count(*) as n",
            ),
            ("* | top 3 by (a)", json!({"kind": "bars"}), "* | top 3 by (a)"),
            ("error", json!({"kind": "bars"}), "error"),
        ] {
            let panel = Panel::read(&json!({"query": query, "options": options})).unwrap();
            let parsed = Query::parse(query, 0).unwrap();
            let expected = Query::parse(expected, 0).unwrap().to_string();
            assert_eq!(panel.timed(&parsed, day_ns).to_string(), expected, "{query} {options}");
        }
    }

    #[test]
    fn documents_are_read_leniently() {
        let dashboard = json!({
            "variables": [{"name": "host", "field": "h"}, {"name": 1}],
            "panels": [
                {"title": "", "query": "a", "options": {"kind": "nothing", "unit": 1, "top": 1000}},
                {"text": "t", "title": "T"},
                {"title": "neither"},
                7,
            ],
        });
        let dashboard = dashboard.as_object().unwrap();
        assert_eq!(variables(dashboard), [("host".to_owned(), "h".to_owned())]);
        let (found, more) = panels(dashboard);
        assert_eq!((found.len(), more), (2, 0));
        assert_eq!((&*found[0].title, found[0].kind, found[0].top), ("a", None, TOP_MAX));
        let many = json!({"panels": vec![json!({"query": "a"}); PANELS_MAX + 2]});
        let (found, more) = panels(many.as_object().unwrap());
        assert_eq!((found.len(), more), (PANELS_MAX, 2));
    }
}
