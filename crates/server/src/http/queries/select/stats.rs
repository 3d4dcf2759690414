//! `stats_query`, `stats_query_range`: numbers in Prometheus' form.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use query::{StatsQuery, StatsRow};
use serde_json::{Map, Value, json};

use crate::http::App;
use crate::http::access::principal::Caller;
use crate::http::access::routes::Routes;
use crate::http::queries::ask::{Asked, answer, wrong_query};
use crate::http::queries::select::counts::{shift_ns, step_ns};
use crate::http::wire::error::ApiResult;
use crate::http::wire::params::Params;

const SECOND_NS: i64 = 1_000_000_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/select/logsql/stats_query", at)
        .query("/select/logsql/stats_query_range", over)
}

async fn at(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::http::now_ns();
    // What is relative in the query refers to the time asked about.
    let time_ns = params.query_time_ns(now_ns)?;
    let query = StatsQuery::new(&params.query(time_ns)?, None).map_err(wrong_query)?;
    let asked = Asked::of_query(&app, "stats", &params, &caller, now_ns)?;
    let rows = answer(asked, move |running| query.run(running.source(), &running.context)).await?;
    let time = seconds(time_ns);
    let one = |Number { name, labels, value }: Number| json!({ "metric": metric(&name, &labels), "value": [time, value] });
    Ok(success("vector", rows.into_iter().flat_map(numbers).map(one).collect()))
}

async fn over(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::http::now_ns();
    let query_time_ns = params.query_time_ns(now_ns)?;
    let query = params.query(query_time_ns)?;
    let asked = Asked::of_query(&app, "stats", &params, &caller, now_ns)?;
    let step = (step_ns(&params, &query, &asked)?, shift_ns(&params)?);
    let query = StatsQuery::new(&query, Some(step)).map_err(wrong_query)?;
    let mut rows =
        answer(asked, move |running| query.run(running.source(), &running.context)).await?;
    rows.sort_by_key(|row| row.time_ns);
    // Series in the order in which each begins.
    let mut places: HashMap<(String, Vec<(String, String)>), usize> = HashMap::new();
    let mut series: Vec<(Value, Vec<Value>)> = Vec::new();
    for row in rows {
        let time = seconds(row.time_ns.unwrap_or(query_time_ns));
        for Number { name, labels, value } in numbers(row) {
            let place = *places.entry((name.clone(), labels.clone())).or_insert_with(|| {
                series.push((metric(&name, &labels), Vec::new()));
                series.len() - 1
            });
            series[place].1.push(json!([time, value]));
        }
    }
    let result =
        series.into_iter().map(|(metric, values)| json!({ "metric": metric, "values": values }));
    Ok(success("matrix", result.collect()))
}

/// A number of a row.
struct Number {
    name: String,
    labels: Vec<(String, String)>,
    value: String,
}

/// The numbers of a row; a histogram is one for each of its ranges, as VictoriaLogs gives them.
fn numbers(row: StatsRow) -> Vec<Number> {
    let StatsRow { labels, values, .. } = row;
    let mut numbers = Vec::new();
    for (name, value) in values {
        let ranges = value == "[]" || value.starts_with("[{\"vmrange\":\"");
        let Some(ranges) = ranges.then(|| ranges_of(&value)).flatten() else {
            numbers.push(Number { name, labels: labels.clone(), value });
            continue;
        };
        for (range, hits) in ranges {
            let mut labels = labels.clone();
            labels.push(("vmrange".to_owned(), range));
            numbers.push(Number {
                name: format!("{name}_bucket"),
                labels,
                value: hits.to_string(),
            });
        }
    }
    numbers
}

/// Ranges and hits of what the function `histogram` gives.
fn ranges_of(value: &str) -> Option<Vec<(String, u64)>> {
    let ranges: Vec<Value> = serde_json::from_str(value).ok()?;
    let one = |range: &Value| {
        Some((range.get("vmrange")?.as_str()?.to_owned(), range.get("hits")?.as_u64()?))
    };
    ranges.iter().map(one).collect()
}

fn metric(name: &str, labels: &[(String, String)]) -> Value {
    let labels = labels.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let mut metric: Map<String, Value> = labels.collect();
    metric.insert("__name__".into(), name.into());
    Value::Object(metric)
}

/// Unix seconds, without a fraction where there is none.
fn seconds(time_ns: i64) -> Value {
    match time_ns % SECOND_NS {
        0 => (time_ns / SECOND_NS).into(),
        _ => (time_ns as f64 / SECOND_NS as f64).into(),
    }
}

fn success(result_type: &str, result: Vec<Value>) -> Response {
    Json(json!({ "status": "success", "data": { "resultType": result_type, "result": result } }))
        .into_response()
}
