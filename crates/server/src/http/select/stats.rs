//! `stats_query`, `stats_query_range`: numbers in Prometheus' form.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use query::{StatsQuery, StatsRow};
use serde_json::{Map, Value, json};

use super::super::App;
use super::super::ask::{Asked, answer, wrong_query};
use super::super::error::ApiResult;
use super::super::params::Params;
use super::counts::{offset_ns, step_ns};

const SECOND_NS: i64 = 1_000_000_000;

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/select/logsql/stats_query", get(at).merge(post(at)))
        .route("/select/logsql/stats_query_range", get(over).merge(post(over)))
}

type Peer = ConnectInfo<SocketAddr>;

async fn at(State(app): State<Arc<App>>, ConnectInfo(peer): Peer, params: Params) -> ApiResult {
    let now_ns = super::super::now_ns();
    // What is relative in the query refers to the time asked about.
    let time_ns = params.time("time", now_ns)?.unwrap_or(now_ns);
    let query = StatsQuery::new(&params.query(time_ns)?, None).map_err(wrong_query)?;
    let asked = Asked::of_query(&app, "stats", &params, peer, time_ns)?;
    let rows = answer(asked, move |running| query.run(running.source(), &running.context)).await?;
    let each = |row: &StatsRow| -> Vec<Value> {
        let time = seconds(row.time_ns.unwrap_or(time_ns));
        let one = |(name, value): &(String, String)| json!({ "metric": metric(name, &row.labels), "value": [time, value] });
        row.values.iter().map(one).collect()
    };
    Ok(success("vector", rows.iter().flat_map(each).collect()))
}

async fn over(State(app): State<Arc<App>>, ConnectInfo(peer): Peer, params: Params) -> ApiResult {
    let now_ns = super::super::now_ns();
    let query = params.query(now_ns)?;
    let asked = Asked::of_query(&app, "stats", &params, peer, now_ns)?;
    let step = (step_ns(&params, &query, &asked)?, offset_ns(&params)?);
    let query = StatsQuery::new(&query, Some(step)).map_err(wrong_query)?;
    let mut rows =
        answer(asked, move |running| query.run(running.source(), &running.context)).await?;
    rows.sort_by_key(|row| row.time_ns);
    // Series in the order in which each begins.
    let mut places: HashMap<(String, Vec<(String, String)>), usize> = HashMap::new();
    let mut series: Vec<(Value, Vec<Value>)> = Vec::new();
    for StatsRow { labels, time_ns, values } in rows {
        for (name, value) in values {
            let place = *places.entry((name.clone(), labels.clone())).or_insert_with(|| {
                series.push((metric(&name, &labels), Vec::new()));
                series.len() - 1
            });
            series[place].1.push(json!([seconds(time_ns.unwrap_or(now_ns)), value]));
        }
    }
    let result =
        series.into_iter().map(|(metric, values)| json!({ "metric": metric, "values": values }));
    Ok(success("matrix", result.collect()))
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
