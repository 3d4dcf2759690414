//! `index/stats`, `index/volume`, `index/volume_range`: numbers of lines, bytes and streams.
//!
//! Grafana requests `stats` at every keystroke, so it is cheap: lines are counted as for any query,
//! bytes are estimated from them, and streams are counted in the newest part of the range only.
//! Volumes are exact.

use std::sync::Arc;

use ::query::source::Whose;
use ::query::{Function, Pipe, Query, Scratch, Stats, StatsFunction};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use logql::EvalError;
use logql::ast::{Grouping, LogQuery, Metric, RangeAggregation, RangeOp, VectorOp};
use logql::metric::{self, Grid, Series, Value as Numbers};
use serde_json::json;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::loki::LokiError;
use crate::loki::LokiResult;
use crate::loki::answer::{self, Cost, Text};
use crate::loki::labels::{filter, selector};
use crate::loki::params::{self, QUERY_SINCE_NS};
use crate::loki::query::{prepare, run, window_ns};

/// Series of a volume by default; those with the greatest volume are returned.
const VOLUMES_DEFAULT: usize = 100;
/// Labels that volumes are grouped by when neither the request nor the selector names any.
const VOLUME_LABELS: [&str; 3] = ["_type", "app_name", "hostname"];

/// Limit of the labels that volumes are grouped by, each of which is a pass over the store. More
/// are refused.
const LABELS_MAX: usize = 64;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/loki/api/v1/index/stats", stats)
        .query("/loki/api/v1/index/volume", volume)
        .query("/loki/api/v1/index/volume_range", volume_range)
}

async fn stats(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), QUERY_SINCE_NS)?;
    let matchers = selector(&params)?.matchers;
    let mut pending = prepare(&app, &params, "index stats", &caller)?;
    pending.context.range = range;
    let is_restricted = pending.is_restricted();
    let body = run(pending, move |running, _| {
        let name = "count".to_owned();
        let function = Function::count();
        let functions = vec![StatsFunction { function, filter: None, name: name.clone() }];
        let pipes = vec![Pipe::from(Stats { by: Vec::new(), functions })];
        let query = Query::new(filter(&matchers), pipes);
        let mut entries = 0u64;
        let mut scratch = Scratch::default();
        ::query::run(&query, running.source(), &running.context, &mut |rows| {
            for index in 0..rows.len() {
                let count = String::from_utf8_lossy(rows.get(index, &name, &mut scratch));
                entries += count.parse().unwrap_or(0);
            }
            std::ops::ControlFlow::Continue(())
        })?;
        if is_restricted || running.source().sides().is_some() {
            // What blocks hold is known of all lines alone, and not of blocks of other nodes.
            let streams = match entries {
                0 => 0,
                _ => {
                    logql::streams::count(&matchers, running.source(), &running.context, UNITS_MAX)?
                }
            };
            return Ok(json!({ "streams": streams, "chunks": 0, "bytes": 0, "entries": entries }));
        }
        let units = running.source().units(range, Whose::Sent).map_err(::query::RunError::from)?;
        let lines: u64 = units.iter().map(|unit| unit.lines()).sum();
        let bytes: u64 = units.iter().map(|unit| unit.bytes()).sum();
        let line_bytes = bytes as f64 / lines.max(1) as f64;
        let streams = match entries {
            0 => 0,
            _ => logql::streams::count(&matchers, running.source(), &running.context, UNITS_MAX)?,
        };
        Ok(json!({
            "streams": streams,
            "chunks": units.len(),
            "bytes": (entries as f64 * line_bytes) as u64,
            "entries": entries,
        }))
    })
    .await?;
    Ok(Json(body).into_response())
}

/// The number of units, the newest of the range, whose streams are counted.
const UNITS_MAX: usize = 16;

async fn volume(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), QUERY_SINCE_NS)?;
    let grid = Grid::instant(range.end_ns.saturating_sub(1));
    let text = volumes(&app, &params, &caller, grid, window_ns(range), answer::instant);
    answer::respond(text.await?)
}

async fn volume_range(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let range = params::range(&params, crate::wire::clock::now_ns(), QUERY_SINCE_NS)?;
    let step_ns = params::duration_ns(&params, "step")?.unwrap_or(window_ns(range) / 100).max(1);
    let grid = Grid::new(range.start_ns, range.end_ns, step_ns).map_err(LokiError::bad_request)?;
    let text = volumes(&app, &params, &caller, grid, step_ns, answer::range);
    answer::respond(text.await?)
}

async fn volumes(
    app: &Arc<App>,
    params: &Params,
    caller: &Caller,
    grid: Grid,
    range_ns: i64,
    write: fn(&Numbers, &Grid, &Cost) -> Result<Text, EvalError>,
) -> LokiResult<Text> {
    let matchers = selector(params)?.matchers;
    let limit: usize = params.number("limit")?.unwrap_or(VOLUMES_DEFAULT);
    let mut labels: Vec<String> =
        params.all("targetLabels").flat_map(|list| list.split(',')).map(str::to_owned).collect();
    if labels.is_empty() {
        labels.extend(matchers.iter().map(|matcher| matcher.name.clone()));
    }
    if labels.is_empty() {
        labels.extend(VOLUME_LABELS.map(str::to_owned));
    }
    labels.sort_unstable();
    labels.dedup();
    if labels.len() > LABELS_MAX {
        return Err(LokiError::bad_request(format!(
            "more than {LABELS_MAX} labels (targetLabels)"
        )));
    }
    let by_labels = match params.get("aggregateBy") {
        None | Some("series") => false,
        Some("labels") => true,
        Some(other) => {
            return Err(LokiError::bad_request(format!("invalid aggregation option '{other}'")));
        }
    };
    let groupings: Vec<Vec<String>> = match by_labels {
        true => labels.into_iter().map(|label| vec![label]).collect(),
        false => vec![labels],
    };
    let pending = prepare(app, params, "index volume", caller)?;
    run(pending, move |running, cost| {
        let size = |one: &Series| one.points.iter().flatten().sum::<f64>();
        let mut found: Vec<Series> = Vec::new();
        for labels in groupings {
            let name = labels[0].clone();
            let range = RangeAggregation {
                op: RangeOp::Bytes,
                parameter: None,
                counted: None,
                query: LogQuery { matchers: matchers.clone(), stages: Vec::new() },
                unwrap: None,
                range_ns,
                offset_ns: 0,
                grouping: None,
            };
            let sum = Metric::Vector {
                op: VectorOp::Sum,
                parameter: None,
                grouping: Some(Grouping { without: false, labels }),
                inner: Box::new(Metric::Range(Box::new(range))),
            };
            let value = metric::run(&sum, running.source(), &running.context, grid)?;
            let Numbers::Series(mut series) = value else { continue };
            series.retain(|one| !one.labels.is_empty());
            if by_labels && !series.is_empty() {
                // Only the presence of a label counts, not its value.
                let mut points = vec![None; grid.steps()];
                for (sum, step) in points.iter_mut().zip(0..) {
                    let there: Vec<f64> =
                        series.iter().filter_map(|one| one.points[step]).collect();
                    *sum = (!there.is_empty()).then(|| there.iter().sum());
                }
                series = vec![Series { labels: vec![(name, String::new())], points }];
            }
            found.extend(series);
            found.sort_by(|a, b| size(b).total_cmp(&size(a)));
            found.truncate(limit);
            running.check()?;
        }
        write(&Numbers::Series(found), &grid, &cost())
    })
    .await
}
