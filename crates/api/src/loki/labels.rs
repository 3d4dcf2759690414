//! `labels`, `label/{name}/values`, `series`, `detected_labels`, `detected_fields`, `patterns`,
//! `drilldown-limits`: the choices that Grafana offers.
//!
//! Values of the usual labels come from counts that segments keep. Other names, which only pushed
//! and labelled lines have, are searched in the newest part of the range.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use ::query::source::TimeRange;
use ::query::{Filter, Query, RunError, field_values};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use logql::ast::{Expr, LogQuery, Matcher};
use logql::metric::SERIES_MAX;
use logql::{
    Labels, detected_level, fields_of, found_in, is_field, logs, parse_bytes, parse_number,
    parse_value_duration_ns, push, streams,
};
use serde_json::{Value, json};

use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::loki::answer;
use crate::loki::params::{self, LABELS_SINCE_NS, QUERY_SINCE_NS};
use crate::loki::query::{LIMIT_MAX, prepare, run};
use crate::loki::{LOKI_VERSION, LokiError, LokiResult};
use crate::queries::run::Running;

/// Labels of lines from the usual sources.
const USUAL: [&str; 4] = ["_type", "app_name", "hostname", "level"];
/// Number of units, the newest of the range, in which other label names are searched.
const UNITS_MAX: usize = 256;
/// Limit of the values of a label; the most frequent are returned.
const VALUES_MAX: usize = 10_000;
/// Limit of the selectors in a request for series. More are refused.
const SELECTORS_MAX: usize = 64;
/// Lines that `detected_fields` samples by default.
const FIELD_LINES: usize = 1_000;
/// Limit of these lines.
const FIELD_LINES_MAX: usize = 5_000;
/// Fields that `detected_fields` returns by default.
const FIELDS_DEFAULT: usize = 1_000;
/// Limit of the fields that are found in the sampled lines; further ones are left out.
const FIELDS_MAX: usize = 10_000;
/// Memory of a value besides its text.
const VALUE_BYTES: u64 = 64;
/// Labels that are offered though all of their values are numbers.
const KEPT: [&str; 4] = ["cluster", "namespace", "instance", "pod"];
/// Limit of the patterns of an answer; those with the most lines are returned.
const PATTERNS_MAX: usize = 300;
/// Steps of the range of `patterns` by default.
const PATTERN_STEPS: i64 = 60;
const SECOND_NS: i64 = 1_000_000_000;
/// The least step of `patterns`.
const PATTERN_STEP_NS_MIN: i64 = 10 * SECOND_NS;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/loki/api/v1/labels", names)
        .query("/loki/api/v1/label", names)
        .query("/loki/api/v1/label/{name}/values", values)
        .query("/loki/api/v1/series", series)
        .query("/loki/api/v1/detected_labels", detected_labels)
        .query("/loki/api/v1/detected_fields", detected_fields)
        .get(Scope::Read, "/loki/api/v1/detected_field/{name}/values", field_values_of)
        .query("/loki/api/v1/patterns", patterns)
        .get(Scope::Read, "/loki/api/v1/drilldown-limits", drilldown_limits)
}

/// The selector in a parameter; it selects all lines if the parameter is missing.
pub fn selector(params: &Params) -> LokiResult<LogQuery> {
    let nothing = LogQuery { matchers: Vec::new(), stages: Vec::new() };
    let Some(text) = params.get("query") else { return Ok(nothing) };
    match logql::parse(text).map_err(LokiError::bad_request)? {
        Expr::Log(query) => Ok(query),
        Expr::Metric(_) => Err(LokiError::bad_request("only label matchers are supported")),
    }
}

/// The filter of a selector.
pub fn filter(matchers: &[Matcher]) -> Filter {
    Filter::and(matchers.iter().map(push::matcher).collect())
}

async fn names(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let query = selector(&params)?;
    let mut pending = prepare(&app, &params, "labels", &caller)?;
    pending.context.range = range;
    let text = run(pending, move |running, _| {
        let names = names_of(running, &query.matchers, range)?;
        answer::succeeded(|out| out.list(&names, |out, name| out.json(name)))
    });
    answer::respond(text.await?)
}

/// The names of labels of lines that a selector selects.
fn names_of(
    running: &Running,
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<BTreeSet<String>, RunError> {
    let check = || running.check();
    let mut names: BTreeSet<String> = match running.source().sides() {
        None if running.context.restriction.is_none() => {
            let mut names = streams::names(running.source(), range, UNITS_MAX, &check)?;
            names.extend(USUAL.map(str::to_owned));
            names.into_iter().collect()
        }
        // Only names that occur in lines that the caller may see, or that other nodes have.
        _ => streams::streams(matchers, running.source(), &running.context)?
            .into_keys()
            .flatten()
            .map(|(name, _)| name)
            .chain(USUAL.map(str::to_owned))
            .collect(),
    };
    let mut missing = Vec::new();
    for name in &names {
        if is_usual_or_narrow(name, matchers) && values_of(running, matchers, name, 1)?.is_empty() {
            missing.push(name.clone());
        }
    }
    names.retain(|name| !missing.contains(name));
    Ok(names)
}

/// Whether a name may be that of no line: a usual one, or any if a selector selects some lines.
fn is_usual_or_narrow(name: &str, matchers: &[Matcher]) -> bool {
    !matchers.is_empty() || USUAL.contains(&name)
}

/// The values of a label, the most frequent first.
fn values_of(
    running: &Running,
    matchers: &[Matcher],
    name: &str,
    limit: usize,
) -> Result<Vec<String>, RunError> {
    let query = Query::new(filter(matchers), Vec::new());
    let (source, context) = (running.source(), &running.context);
    let mut values = Vec::new();
    for field in fields_of(name) {
        let found = field_values(&query, source, context, field, "", Some(limit))?;
        values.extend(found.into_iter().map(|value| value.value));
    }
    values.truncate(limit);
    Ok(values)
}

async fn values(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let query = selector(&params)?;
    let mut pending = prepare(&app, &params, &format!("label {name}"), &caller)?;
    pending.context.range = range;
    let text = run(pending, move |running, _| {
        let values = values_of_label(running, &query.matchers, &name)?;
        answer::succeeded(|out| out.list(&values, |out, value| out.json(value)))
    });
    answer::respond(text.await?)
}

fn values_of_label(
    running: &Running,
    matchers: &[Matcher],
    name: &str,
) -> Result<BTreeSet<String>, RunError> {
    if name == "detected_level" {
        let levels = values_of(running, matchers, "_level", VALUES_MAX)?;
        return Ok(levels.iter().map(|l| detected_level(l.as_bytes()).to_owned()).collect());
    }
    if !is_field(name) {
        return Ok(BTreeSet::new());
    }
    Ok(values_of(running, matchers, name, VALUES_MAX)?.into_iter().collect())
}

async fn series(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let mut selectors = Vec::new();
    for text in params.all("match[]").chain(params.all("match")) {
        if selectors.len() == SELECTORS_MAX {
            return Err(LokiError::bad_request(format!(
                "more than {SELECTORS_MAX} selectors (match[])"
            )));
        }
        selectors.push(logql::parse_matchers(text).map_err(LokiError::bad_request)?);
    }
    if selectors.is_empty() {
        selectors.push(Vec::new());
    }
    let mut pending = prepare(&app, &params, "series", &caller)?;
    pending.context.range = range;
    let text = run(pending, move |running, _| {
        let selectors: Vec<&[Matcher]> = selectors.iter().map(Vec::as_slice).collect();
        let found = streams::streams_of(&selectors, running.source(), &running.context)?;
        answer::succeeded(|out| {
            out.list(found.into_keys(), |out, labels| {
                out.object(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            })
        })
    });
    answer::respond(text.await?)
}

async fn detected_labels(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let query = selector(&params)?;
    let mut pending = prepare(&app, &params, "detected_labels", &caller)?;
    pending.context.range = range;
    let counts = run(pending, move |running, _| {
        let mut counts = Vec::new();
        for name in names_of(running, &query.matchers, range)? {
            let values = values_of_label(running, &query.matchers, &name)?;
            let are_ids = !KEPT.contains(&name.as_str()) && values.iter().all(|v| is_id(v));
            if !values.is_empty() && !are_ids {
                counts.push(json!({ "label": name, "cardinality": values.len() }));
            }
        }
        Ok(counts)
    })
    .await?;
    Ok(Json(json!({ "detectedLabels": counts })).into_response())
}

/// Whether a value is a number or a UUID. Loki does not offer labels whose values all are.
fn is_id(value: &str) -> bool {
    let is_uuid = || {
        let parts: Vec<&str> = value.split('-').collect();
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    parse_number(value).is_some() || is_uuid()
}

/// What the sampled lines say about a field.
#[derive(Default)]
struct Field {
    values: BTreeSet<String>,
    /// The parsers that make it; none for a field that needs none.
    parsers: BTreeSet<&'static str>,
}

/// Fields in the newest lines of a query: structured metadata, and what parsers make of the text.
async fn sampled(
    app: &Arc<App>,
    caller: &Caller,
    params: &Params,
) -> LokiResult<BTreeMap<String, Field>> {
    let range = params::range(params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let query = selector(params)?;
    let lines: usize = params.number("line_limit")?.unwrap_or(FIELD_LINES).min(FIELD_LINES_MAX);
    let mut pending = prepare(app, params, "detected_fields", caller)?;
    pending.context.range = range;
    run(pending, move |running, _| {
        let context = &running.context;
        let entries = logs::run(&query, running.source(), context, lines.max(1), false, true)?;
        let memory_max = context.limits.memory_bytes_max;
        let mut held: u64 = entries.iter().map(|entry| entry.bytes() as u64).sum();
        let mut fields: BTreeMap<String, Field> = BTreeMap::new();
        let mut add = |name: &str, value: &str, parser: Option<&'static str>| {
            if !fields.contains_key(name) {
                if fields.len() == FIELDS_MAX {
                    return;
                }
                fields.insert(name.to_owned(), Field::default());
            }
            let field = fields.get_mut(name).expect("just put in");
            field.parsers.extend(parser);
            if held <= memory_max && !field.values.contains(value) {
                held += value.len() as u64 + VALUE_BYTES;
                field.values.insert(value.to_owned());
            }
        };
        for entry in &entries {
            running.check()?;
            let is_among =
                |labels: &Labels, name: &str| labels.iter().any(|(label, _)| label == name);
            for (name, value) in &entry.metadata {
                add(name, value, None);
            }
            let mut found = BTreeSet::new();
            let mut of_line = Vec::new();
            let parser = found_in(&entry.line, |name, value| {
                let is_known = is_among(&entry.stream, name) || is_among(&entry.metadata, name);
                if !is_known && found.insert(name.to_owned()) {
                    of_line.push((name.to_owned(), value.to_owned()));
                }
            });
            for (name, value) in &entry.parsed {
                if !name.starts_with("__") {
                    add(name, value, parser.filter(|_| found.contains(name)));
                }
            }
            for (name, value) in of_line {
                if !is_among(&entry.parsed, &name) {
                    add(&name, &value, parser);
                }
            }
        }
        match held > memory_max {
            true => Err(RunError::MemoryLimit(memory_max).into()),
            false => Ok(fields),
        }
    })
    .await
}

async fn detected_fields(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> LokiResult {
    let fields = sampled(&app, &caller, &params).await?;
    let limit: usize = params.number("limit")?.unwrap_or(FIELDS_DEFAULT);
    let one = |(name, field): (&String, &Field)| {
        let parsers = (!field.parsers.is_empty()).then_some(&field.parsers);
        json!({
            "label": name,
            "type": kind(&field.values),
            "cardinality": field.values.len(),
            "parsers": parsers,
        })
    };
    let fields: Vec<Value> = fields.iter().take(limit).map(one).collect();
    Ok(Json(json!({ "fields": fields, "limit": limit })).into_response())
}

async fn field_values_of(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> LokiResult {
    let fields = sampled(&app, &caller, &params).await?;
    let limit: usize = params.number("limit")?.unwrap_or(FIELDS_DEFAULT);
    let text = answer::written(|out| {
        out.write_all(b"{\"values\":")?;
        let values = fields.get(&name).into_iter().flat_map(|field| &field.values).take(limit);
        out.list(values, |out, value| out.json(value))?;
        write!(out, ",\"limit\":{limit}}}")
    });
    answer::respond(text.map_err(LokiError::bad_request)?)
}

/// The type of all values of a field, in Loki's terms.
fn kind(values: &BTreeSet<String>) -> &'static str {
    let all = |is: fn(&str) -> bool| values.iter().all(|value| is(value));
    if all(|v| v.parse::<i64>().is_ok()) {
        "int"
    } else if all(|v| parse_number(v).is_some()) {
        "float"
    } else if all(|v| matches!(v, "true" | "false" | "TRUE" | "FALSE" | "True" | "False")) {
        "boolean"
    } else if all(|v| parse_value_duration_ns(v).is_some()) {
        "duration"
    } else if all(|v| parse_bytes(v).is_some()) {
        "bytes"
    } else {
        "string"
    }
}

/// The patterns of lines, each with its lines per step.
async fn patterns(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), QUERY_SINCE_NS)?;
    let query = selector(&params)?;
    let range_ns = range.end_ns.saturating_sub(range.start_ns);
    let step_ns = match params::duration_ns(&params, "step")? {
        Some(step_ns) if step_ns <= 0 => {
            return Err(LokiError::bad_request("step must be above 0"));
        }
        step_ns => step_ns.unwrap_or(range_ns / PATTERN_STEPS),
    };
    // At least ten seconds, as in Loki, and whole seconds, because answers have no others.
    let step_ns = step_ns.max(PATTERN_STEP_NS_MIN);
    let step_ns = step_ns - step_ns % SECOND_NS;
    let mut pending = prepare(&app, &params, "patterns", &caller)?;
    pending.context.range = range;
    let text = run(pending, move |running, _| {
        let (source, context) = (running.source(), &running.context);
        let found = logql::patterns::run(&query, source, context, step_ns, PATTERNS_MAX)?;
        answer::succeeded(|out| {
            out.list(&found, |out, pattern| {
                out.write_all(b"{\"pattern\":")?;
                out.json(&pattern.text)?;
                out.write_all(b",\"samples\":")?;
                out.list(&pattern.counts, |out, (begin_ns, lines)| {
                    write!(out, "[{},{lines}]", begin_ns / SECOND_NS)
                })?;
                out.write_all(b"}")
            })
        })
    });
    answer::respond(text.await?)
}

/// The limits that Grafana's Logs Drilldown asks for.
async fn drilldown_limits(State(app): State<Arc<App>>) -> LokiResult {
    let run_time_s = app.query_options().limits.run_time.as_secs();
    Ok(Json(json!({
        "limits": {
            "discover_log_levels": true,
            "discover_service_name": [],
            "log_level_fields": ["level", "severity", "detected_level"],
            "max_entries_limit_per_query": LIMIT_MAX,
            "max_line_size_truncate": false,
            "max_query_bytes_read": "0B",
            "max_query_length": "0s",
            "max_query_lookback": "0s",
            "max_query_range": "0s",
            "max_query_series": SERIES_MAX,
            "metric_aggregation_enabled": false,
            "pattern_persistence_enabled": false,
            "query_timeout": format!("{run_time_s}s"),
            "retention_period": "0s",
            "volume_enabled": true,
            "volume_max_series": SERIES_MAX,
        },
        "pattern_ingester_enabled": true,
        "version": LOKI_VERSION,
    }))
    .into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_values() {
        for (values, expected) in [
            (&["1", "-2"][..], "int"),
            (&["1", "2.5"], "float"),
            (&["true", "false"], "boolean"),
            (&["5ms", "1h30m"], "duration"),
            (&["5KB", "1.5MiB"], "bytes"),
            (&["1d"], "string"),
            (&["5ms", "x"], "string"),
        ] {
            let values: BTreeSet<String> = values.iter().map(|v| (*v).to_owned()).collect();
            assert_eq!(kind(&values), expected, "{values:?}");
        }
        for (value, expected) in [
            ("17", true),
            ("0b06b5e2-1234-4abc-9def-0123456789ab", true),
            ("web-1", false),
            ("", false),
        ] {
            assert_eq!(is_id(value), expected, "{value}");
        }
    }
}
