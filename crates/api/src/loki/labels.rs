//! `labels`, `label/{name}/values`, `series`, `detected_labels`, `detected_fields`, `patterns`:
//! the choices that Grafana offers.
//!
//! Values of the usual labels come from counts that segments keep. Other names, which only pushed
//! and labelled lines have, are searched in the newest part of the range.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use ::query::{Filter, Query, RunError, field_values};
use axum::extract::{Path, State};
use logql::ast::{Expr, LogQuery, Matcher};
use logql::{detected_level, is_field, logs, parse_duration_ns, push, streams};
use serde_json::{Value, json};

use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::loki::answer::{self, success};
use crate::loki::params::{self, LABELS_SINCE_NS};
use crate::loki::query::{prepare, run};
use crate::loki::{LokiError, LokiResult};
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
        let mut names: BTreeSet<String> = BTreeSet::new();
        for name in USUAL {
            if !values_of(running, &query.matchers, name, 1)?.is_empty() {
                names.insert(name.to_owned());
            }
        }
        let check = || running.check();
        let others = match running.context.restriction {
            None if running.source().sides().is_none() => {
                streams::names(running.source(), range, UNITS_MAX, &check)?
            }
            // Only names that occur in lines that the caller may see, or that other nodes have.
            _ => streams::streams(&query.matchers, running.source(), &running.context)?
                .into_keys()
                .flatten()
                .map(|(name, _)| name)
                .collect(),
        };
        names.extend(others.into_iter().filter(|name| !USUAL.contains(&name.as_str())));
        answer::succeeded(|out| out.list(&names, |out, name| out.json(name)))
    });
    answer::respond(text.await?)
}

/// The values of a label, the most frequent first.
fn values_of(
    running: &Running,
    matchers: &[Matcher],
    name: &str,
    limit: usize,
) -> Result<Vec<String>, RunError> {
    let query = Query::new(filter(matchers), Vec::new());
    let found = field_values(&query, running.source(), &running.context, name, "", Some(limit))?;
    Ok(found.into_iter().map(|value| value.value).collect())
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
        for name in USUAL {
            let values = values_of(running, &query.matchers, name, VALUES_MAX)?.len();
            if values > 0 {
                counts.push(json!({ "label": name, "cardinality": values }));
            }
        }
        Ok(counts)
    })
    .await?;
    Ok(axum::response::IntoResponse::into_response(axum::Json(json!({ "detectedLabels": counts }))))
}

/// Values of fields in the newest lines of a query.
async fn sampled(
    app: &Arc<App>,
    caller: &Caller,
    params: &Params,
) -> LokiResult<BTreeMap<String, BTreeSet<String>>> {
    let range = params::range(params, crate::wire::clock::now_ns(), LABELS_SINCE_NS)?;
    let query = selector(params)?;
    let lines: usize = params.number("line_limit")?.unwrap_or(FIELD_LINES).min(FIELD_LINES_MAX);
    let mut pending = prepare(app, params, "detected_fields", caller)?;
    pending.context.range = range;
    run(pending, move |running, _| {
        let entries =
            logs::run(&query, running.source(), &running.context, lines.max(1), false, true)?;
        let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for entry in entries {
            for (name, value) in entry.metadata.into_iter().chain(entry.parsed) {
                fields.entry(name).or_default().insert(value);
            }
        }
        Ok(fields)
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
    let one = |(name, values): (&String, &BTreeSet<String>)| json!({ "label": name, "type": kind(values), "cardinality": values.len(), "parsers": null });
    let fields: Vec<Value> = fields.iter().take(limit).map(one).collect();
    let body = json!({ "fields": fields, "limit": limit });
    Ok(axum::response::IntoResponse::into_response(axum::Json(body)))
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
        let values = fields.get(&name).into_iter().flatten().take(limit);
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
    } else if all(|v| v.parse::<f64>().is_ok()) {
        "float"
    } else if all(|v| v == "true" || v == "false") {
        "boolean"
    } else if all(|v| v.parse::<IpAddr>().is_err() && parse_duration_ns(v).is_some()) {
        "duration"
    } else {
        "string"
    }
}

/// Always an empty list. Loki answers with counts over time for each pattern, which Loginson does
/// not compute here; the pipe `patterns` of LogsQL finds the patterns of messages.
async fn patterns() -> LokiResult {
    Ok(success(json!([])))
}
