//! `hits`, `facets`, `field_names`, `field_values`, `streams`, `stream_ids`, `stream_field_names`, `stream_field_values`: counts
//! about the rows of a query.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use query::source::TimeRange;
use query::time::format_time;
use query::{Facets, HitsRequest, HitsSeries, Query, ValueHits};
use serde_json::{Map, Value, json};

use crate::http::App;
use crate::http::access::principal::Caller;
use crate::http::access::routes::Routes;
use crate::http::queries::ask::{Asked, answer};
use crate::http::wire::error::ApiResult;
use crate::http::wire::params::Params;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// Buckets that `step=auto` aims at.
const BUCKETS_AUTO: i64 = 100;
/// Steps that `auto` chooses from, in milliseconds; beyond them whole days.
const STEPS_MS: [i64; 19] = [
    1, 10, 100, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000,
];

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .query("/select/logsql/hits", hits)
        .query("/select/logsql/facets", facets)
        .query("/select/logsql/field_names", field_names)
        .query("/select/logsql/field_values", field_values)
        .query("/select/logsql/streams", streams)
        .query("/select/logsql/stream_ids", stream_ids)
        .query("/select/logsql/stream_field_names", stream_field_names)
        .query("/select/logsql/stream_field_values", stream_field_values)
}

/// Reads what all of them take.
fn read(
    app: &Arc<App>,
    kind: &'static str,
    params: &Params,
    caller: &Caller,
) -> ApiResult<(Query, Asked)> {
    let now_ns = crate::http::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    Ok((query, Asked::of_query(app, kind, params, caller, now_ns)?))
}

async fn hits(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "hits", &params, &caller)?;
    let step_ns = step_ns(&params, &query, &asked)?;
    let request = HitsRequest {
        step_ns,
        offset_ns: shift_ns(&params)?,
        fields: params.all("field").map(str::to_owned).collect(),
        fields_limit: params.limit("fields_limit")?,
        empty_buckets: true,
    };
    let series = answer(asked, move |running| {
        query::hits(&query, running.source(), &running.context, &request)
    })
    .await?;
    let hits: Vec<Value> = series.iter().map(one_series).collect();
    Ok(Json(json!({ "hits": hits, "step_s": step_ns as f64 / SECOND_NS as f64 })).into_response())
}

fn one_series(series: &HitsSeries) -> Value {
    let fields: Map<String, Value> =
        series.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let timestamps: Vec<String> = series.timestamps_ns.iter().map(|&ns| format_time(ns)).collect();
    json!({ "fields": fields, "timestamps": timestamps, "values": series.values, "total": series.total })
}

/// The parameter `step`.
pub(crate) fn step_ns(params: &Params, query: &Query, asked: &Asked) -> ApiResult<i64> {
    if params.get("step") != Some("auto") {
        let seconds = params.get("step").and_then(seconds_ns).filter(|&step_ns| step_ns > 0);
        return match seconds {
            Some(step_ns) => Ok(step_ns),
            None => Ok(params.duration_ns("step")?.unwrap_or(DAY_NS)),
        };
    }
    let asked_for = asked.context.range.intersect(query.filter().time_range());
    let stored = asked.pipeline().store().stats().time_ns.unwrap_or((0, 0));
    let stored = TimeRange { start_ns: stored.0, end_ns: stored.1.saturating_add(1) };
    let range = asked_for.intersect(stored);
    // An end asked for is an end shown, though lines end before it.
    let end_ns = if asked_for.end_ns == i64::MAX { range.end_ns } else { asked_for.end_ns };
    let start_ns = if asked_for.start_ns == i64::MIN { range.start_ns } else { asked_for.start_ns };
    Ok(auto_step_ns(end_ns.saturating_sub(start_ns)))
}

/// The smallest step that gives no more buckets than wanted.
fn auto_step_ns(range_ns: i64) -> i64 {
    let least_ns = (range_ns.max(1) as u64).div_ceil(BUCKETS_AUTO as u64);
    let mut usual = STEPS_MS.into_iter().map(|step_ms| step_ms as u64 * 1_000_000);
    let step_ns = usual.find(|&step_ns| step_ns >= least_ns);
    step_ns.unwrap_or_else(|| least_ns.next_multiple_of(DAY_NS as u64)) as i64
}

/// A number without a unit is one of seconds, as in Prometheus; nanoseconds.
fn seconds_ns(text: &str) -> Option<i64> {
    let seconds: f64 = text.parse().ok()?;
    // Beyond both ends the conversion gives the ends.
    seconds.is_finite().then_some((seconds * SECOND_NS as f64).round() as i64)
}

/// The shift of buckets that the parameter `offset` says: that of a zone from UTC, so that days of two hours east begin two
/// hours earlier; may be negative.
pub(crate) fn shift_ns(params: &Params) -> ApiResult<i64> {
    let Some(text) = params.get("offset") else { return Ok(0) };
    let offset_ns = seconds_ns(text).or_else(|| query::time::parse_duration(text));
    offset_ns.map(i64::saturating_neg).ok_or_else(|| {
        crate::http::wire::error::ApiError::bad_request(format!(
            "offset: '{text}' is not a duration; write for example 30m"
        ))
    })
}

async fn facets(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "facets", &params, &caller)?;
    let default = Facets::default();
    let wanted = Facets {
        limit: params.limit("limit")?.map_or(default.limit, |limit| limit as u64),
        values_max: params.limit("max_values_per_field")?.map_or(default.values_max, |n| n as u64),
        value_bytes_max: params
            .limit("max_value_len")?
            .map_or(default.value_bytes_max, |n| n as u64),
        keep_const_fields: params.flag("keep_const_fields"),
    };
    let facets = answer(asked, move |running| {
        query::facets(&query, running.source(), &running.context, &wanted)
    })
    .await?;
    let facets = facets.into_iter().map(|facet| {
        let values = facet.values.iter().map(|v| json!({ "field_value": v.value, "hits": v.hits }));
        json!({ "field_name": facet.field_name, "values": values.collect::<Vec<_>>() })
    });
    Ok(Json(json!({ "facets": facets.collect::<Vec<_>>() })).into_response())
}

async fn field_names(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "field_names", &params, &caller)?;
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let names = answer(asked, move |running| {
        query::field_names(&query, running.source(), &running.context, &filter)
    });
    Ok(values(names.await?))
}

async fn field_values(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "field_values", &params, &caller)?;
    let field = params.required("field")?.to_owned();
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?;
    let found = answer(asked, move |running| {
        query::field_values(&query, running.source(), &running.context, &field, &filter, limit)
    });
    Ok(values(found.await?))
}

async fn streams(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "streams", &params, &caller)?;
    let limit = params.limit("limit")?;
    let found = answer(asked, move |running| {
        query::streams(&query, running.source(), &running.context, limit)
    });
    Ok(values(found.await?))
}

/// Streams have no numbers here: an id is what names the stream in 32 hexadecimal digits, the same in each answer.
async fn stream_ids(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, asked) = read(&app, "stream_ids", &params, &caller)?;
    let limit = params.limit("limit")?;
    let found = answer(asked, move |running| {
        query::streams(&query, running.source(), &running.context, limit)
    });
    let mut ids = found.await?;
    ids.iter_mut().for_each(|id| id.value = query::stream_id(&id.value));
    Ok(values(ids))
}

async fn stream_field_names(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> ApiResult {
    let (query, asked) = read(&app, "stream_field_names", &params, &caller)?;
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let found = answer(asked, move |running| {
        query::stream_field_names(&query, running.source(), &running.context, &filter)
    });
    Ok(values(found.await?))
}

async fn stream_field_values(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> ApiResult {
    let (query, asked) = read(&app, "stream_field_values", &params, &caller)?;
    let field = params.required("field")?.to_owned();
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?;
    let found = answer(asked, move |running| {
        let (source, context) = (running.source(), &running.context);
        query::stream_field_values(&query, source, context, &field, &filter, limit)
    });
    Ok(values(found.await?))
}

fn values(found: Vec<ValueHits>) -> Response {
    let values: Vec<Value> =
        found.into_iter().map(|v| json!({ "value": v.value, "hits": v.hits })).collect();
    Json(json!({ "values": values })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_unit_are_seconds() {
        let step = |text: &str| seconds_ns(text);
        assert_eq!(step("60"), Some(60 * SECOND_NS));
        assert_eq!(step("0.5"), Some(SECOND_NS / 2));
        assert_eq!(step("-3600"), Some(-3600 * SECOND_NS));
        assert_eq!(step("1e300"), Some(i64::MAX));
        for text in ["1m", "x", "", "nan", "inf"] {
            assert_eq!(step(text), None, "{text}");
        }
    }

    #[test]
    fn auto_steps_give_about_a_hundred_buckets() {
        for (range_s, step_s) in [
            (0, 0.001),
            (1, 0.01),
            (60, 1.0),
            (3_600, 60.0),
            (86_400, 900.0),
            (8_640_000, 86_400.0),
        ] {
            let step_ns = auto_step_ns(range_s * SECOND_NS);
            assert_eq!(step_ns as f64 / 1e9, step_s, "{range_s}");
            assert!(range_s * SECOND_NS / step_ns <= BUCKETS_AUTO + 1);
        }
        assert_eq!(auto_step_ns(i64::MAX) % DAY_NS, 0);
    }
}
