//! `hits`, `facets`, `field_names`, `field_values`, `streams`, `stream_ids`, `stream_field_names`,
//! `stream_field_values`: counts about the rows of a query.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use query::source::TimeRange;
use query::{Facet, Facets, HitsRequest, HitsSeries, Query, RunError, ValueHits};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use text::time::format_time;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::whole::{List, Object, WholeAnswer};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// The number of buckets that `step=auto` aims at.
const BUCKETS_AUTO: i64 = 100;
/// Steps that `auto` chooses from, in milliseconds; larger steps are whole days.
const STEPS_MS: [i64; 19] = [
    1, 10, 100, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000,
];

/// Limit of the fields that `hits` groups by, each of which is read for every row. More are
/// refused.
const FIELDS_MAX: usize = 100;

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

/// Reads the parameters that all of these calls share.
fn read(
    app: &Arc<App>,
    kind: &'static str,
    params: &Params,
    caller: &Caller,
) -> ApiResult<(Query, PendingQuery)> {
    let now_ns = crate::wire::clock::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    Ok((query, PendingQuery::of_query(app, kind, params, caller, now_ns)?))
}

async fn hits(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "hits", &params, &caller)?;
    let step_ns = step_ns(&params, &query, &pending)?;
    let request = HitsRequest {
        step_ns,
        offset_ns: shift_ns(&params)?,
        fields: hits_fields(&params)?,
        fields_limit: params.limit("fields_limit")?,
        empty_buckets: true,
    };
    let body = answer(pending, move |running| {
        let series = query::hits(&query, running.source(), &running.context, &request)?;
        WholeAnswer::json(&running.context, Hits { series, step_ns })
    });
    Ok(body.await?.into_response())
}

/// The fields that the parameter `field` names, without repetitions.
fn hits_fields(params: &Params) -> ApiResult<Vec<String>> {
    let mut fields: Vec<String> = Vec::new();
    for name in params.all("field") {
        if fields.iter().any(|known| known == name) {
            continue;
        }
        if fields.len() == FIELDS_MAX {
            return Err(ApiError::bad_request(format!(
                "field: more than {FIELDS_MAX} different fields; request fewer"
            )));
        }
        fields.push(name.to_owned());
    }
    Ok(fields)
}

/// The response of `hits`.
struct Hits {
    series: Vec<HitsSeries>,
    step_ns: i64,
}

impl Serialize for Hits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Hits", 2)?;
        object.serialize_field("hits", &List(self.series.iter().map(OneSeries)))?;
        object.serialize_field("step_s", &(self.step_ns as f64 / SECOND_NS as f64))?;
        object.end()
    }
}

struct OneSeries<'a>(&'a HitsSeries);

impl Serialize for OneSeries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let HitsSeries { fields, timestamps_ns, values, total } = self.0;
        let fields = Object(fields.iter().map(|(name, value)| (name, value)));
        let timestamps = List(timestamps_ns.iter().map(|&ns| format_time(ns)));
        let mut object = serializer.serialize_struct("OneSeries", 4)?;
        object.serialize_field("fields", &fields)?;
        object.serialize_field("timestamps", &timestamps)?;
        object.serialize_field("values", values)?;
        object.serialize_field("total", total)?;
        object.end()
    }
}

/// The parameter `step`.
pub(crate) fn step_ns(params: &Params, query: &Query, pending: &PendingQuery) -> ApiResult<i64> {
    if params.get("step") != Some("auto") {
        let seconds = params.get("step").and_then(seconds_ns).filter(|&step_ns| step_ns > 0);
        return match seconds {
            Some(step_ns) => Ok(step_ns),
            None => Ok(params.duration_ns("step")?.unwrap_or(DAY_NS)),
        };
    }
    let requested = pending.context.range.intersect(query.filter().time_range());
    let is_open = requested.start_ns == i64::MIN || requested.end_ns == i64::MAX;
    if (pending.is_restricted() || !pending.reads_own_store()) && is_open {
        // When there are lines is known of all lines alone, and of those of this server.
        return Ok(DAY_NS);
    }
    let stored = pending.pipeline().store().stats().time_ns.unwrap_or((0, 0));
    let stored = TimeRange { start_ns: stored.0, end_ns: stored.1.saturating_add(1) };
    let range = requested.intersect(stored);
    // A requested end is kept, even if no line is that late.
    let end_ns = if requested.end_ns == i64::MAX { range.end_ns } else { requested.end_ns };
    let start_ns = if requested.start_ns == i64::MIN { range.start_ns } else { requested.start_ns };
    Ok(auto_step_ns(end_ns.saturating_sub(start_ns)))
}

/// The smallest step with at most the wanted number of buckets.
fn auto_step_ns(range_ns: i64) -> i64 {
    let least_ns = (range_ns.max(1) as u64).div_ceil(BUCKETS_AUTO as u64);
    let mut usual = STEPS_MS.into_iter().map(|step_ms| step_ms as u64 * 1_000_000);
    let step_ns = usual.find(|&step_ns| step_ns >= least_ns);
    step_ns.unwrap_or_else(|| least_ns.next_multiple_of(DAY_NS as u64)) as i64
}

/// Nanoseconds. A number without a unit means seconds, as in Prometheus.
fn seconds_ns(text: &str) -> Option<i64> {
    let seconds: f64 = text.parse().ok()?;
    // The conversion saturates.
    seconds.is_finite().then_some((seconds * SECOND_NS as f64).round() as i64)
}

/// The shift of buckets in the parameter `offset`: the offset of a time zone from UTC, so that days
/// of a zone two hours east begin two hours earlier. It may be negative.
pub(crate) fn shift_ns(params: &Params) -> ApiResult<i64> {
    let Some(text) = params.get("offset") else { return Ok(0) };
    let offset_ns = seconds_ns(text).or_else(|| query::time::parse_duration(text));
    offset_ns.map(i64::saturating_neg).ok_or_else(|| {
        ApiError::bad_request(format!("offset: '{text}' is not a duration; write for example 30m"))
    })
}

async fn facets(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "facets", &params, &caller)?;
    let default = Facets::default();
    let wanted = Facets {
        limit: params.limit("limit")?.map_or(default.limit, |limit| limit as u64),
        values_max: params.limit("max_values_per_field")?.map_or(default.values_max, |n| n as u64),
        value_bytes_max: params
            .limit("max_value_len")?
            .map_or(default.value_bytes_max, |n| n as u64),
        keep_const_fields: params.flag("keep_const_fields"),
    };
    let body = answer(pending, move |running| {
        let found = query::facets(&query, running.source(), &running.context, &wanted)?;
        WholeAnswer::json(&running.context, FoundFacets(found))
    });
    Ok(body.await?.into_response())
}

/// The response of `facets`.
struct FoundFacets(Vec<Facet>);

impl Serialize for FoundFacets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One<'a> {
            field_value: &'a str,
            hits: u64,
        }
        #[derive(Serialize)]
        struct OneFacet<'a, V> {
            field_name: &'a str,
            values: V,
        }
        let facets = self.0.iter().map(|facet| OneFacet {
            field_name: &facet.field_name,
            values: List(facet.values.iter().map(|v| One { field_value: &v.value, hits: v.hits })),
        });
        Object(std::iter::once(("facets", List(facets)))).serialize(serializer)
    }
}

async fn field_names(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "field_names", &params, &caller)?;
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?.unwrap_or(usize::MAX);
    values(pending, move |running| {
        let (source, context) = (running.source(), &running.context);
        let mut names = query::field_names(&query, source, context, &filter)?;
        names.truncate(limit);
        Ok(names)
    })
    .await
}

async fn field_values(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "field_values", &params, &caller)?;
    let field = params.required("field")?.to_owned();
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?;
    values(pending, move |running| {
        query::field_values(&query, running.source(), &running.context, &field, &filter, limit)
    })
    .await
}

async fn streams(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "streams", &params, &caller)?;
    let limit = params.limit("limit")?;
    values(pending, move |running| {
        query::streams(&query, running.source(), &running.context, limit)
    })
    .await
}

/// Streams have no numbers here: an id is 32 hexadecimal digits derived from the stream, the same
/// in every response.
async fn stream_ids(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let (query, pending) = read(&app, "stream_ids", &params, &caller)?;
    let limit = params.limit("limit")?;
    let body = answer(pending, move |running| {
        let found = query::streams(&query, running.source(), &running.context, limit)?;
        WholeAnswer::json(
            &running.context,
            Values { found, shown: |stream| query::stream_id(stream).into() },
        )
    });
    Ok(body.await?.into_response())
}

async fn stream_field_names(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> ApiResult {
    let (query, pending) = read(&app, "stream_field_names", &params, &caller)?;
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?.unwrap_or(usize::MAX);
    values(pending, move |running| {
        let (source, context) = (running.source(), &running.context);
        let mut names = query::stream_field_names(&query, source, context, &filter)?;
        names.truncate(limit);
        Ok(names)
    })
    .await
}

async fn stream_field_values(
    State(app): State<Arc<App>>,
    caller: Caller,
    params: Params,
) -> ApiResult {
    let (query, pending) = read(&app, "stream_field_values", &params, &caller)?;
    let field = params.required("field")?.to_owned();
    let filter = params.get("filter").unwrap_or_default().to_owned();
    let limit = params.limit("limit")?;
    values(pending, move |running| {
        let (source, context) = (running.source(), &running.context);
        query::stream_field_values(&query, source, context, &field, &filter, limit)
    })
    .await
}

/// Responds with the values that `find` returns.
async fn values(
    pending: PendingQuery,
    find: impl FnOnce(&Running) -> Result<Vec<ValueHits>, RunError> + Send + 'static,
) -> ApiResult {
    let body = answer(pending, move |running| {
        let found = find(running)?;
        WholeAnswer::json(&running.context, Values { found, shown: |value| value.into() })
    });
    Ok(body.await?.into_response())
}

/// Values with their numbers of rows; `shown` formats each value.
struct Values {
    found: Vec<ValueHits>,
    shown: fn(&str) -> Cow<'_, str>,
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One<'a> {
            value: Cow<'a, str>,
            hits: u64,
        }
        let found = self.found.iter();
        let values = List(found.map(|v| One { value: (self.shown)(&v.value), hits: v.hits }));
        Object(std::iter::once(("values", values))).serialize(serializer)
    }
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
    fn fields_are_bounded() {
        let fields = |count: usize| {
            let names = (0..count).map(|i| format!("field=f{i}&field=f0")).collect::<Vec<_>>();
            hits_fields(&Params::parse(names.join("&").as_bytes()))
        };
        assert_eq!(fields(3).unwrap(), ["f0", "f1", "f2"]);
        assert_eq!(fields(FIELDS_MAX).unwrap().len(), FIELDS_MAX);
        let error = fields(FIELDS_MAX + 1).unwrap_err();
        assert_eq!(error.status(), axum::http::StatusCode::BAD_REQUEST);
        assert!(error.to_string().contains("more than 100 different fields"), "{error}");
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
