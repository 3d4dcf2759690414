//! Measurements of others: Prometheus' remote write and InfluxDB's line protocol.
//!
//! Each sample, and each field of a point, becomes a row (see [`collector::body::metrics`]), and
//! from there on is a line like any other. The answer is sent when all are durable. Both senders
//! drop a request after an error that is theirs (4xx), and repeat it after one that is ours.
//!
//! Left out: version 2 of remote write (415, after which Prometheus sends version 1 if it may), and
//! databases, buckets and organisations of InfluxDB, whose parameters are ignored.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use collector::body::Encoding;
use collector::body::metrics::LOG_TYPE;
use collector::body::metrics::influx::Points;
use collector::body::metrics::remote_write::{Samples, WriteError};
use serde_json::json;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression.
///
/// limits.md, Lines on their way in: a request with samples of Prometheus or points of InfluxDB |
/// {} | it is refused with 413 before a row is kept
const BODY_BYTES_MAX: usize = 32 << 20;
/// Labels that say where a sample comes from. Those that a row has name its stream.
const STREAM_FIELDS: [&str; 3] = ["job", "instance", "host"];
/// The header by which clients of InfluxDB recognise it.
const INFLUX_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-influxdb-version"), HeaderValue::from_static("2.7.0"));

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    let routes = Routes::new().post(Scope::Ingest, "/api/v1/write", samples).post(
        Scope::Ingest,
        "/insert/prometheus/api/v1/write",
        samples,
    );
    ["", "/insert/influx"].into_iter().fold(routes, |routes, prefix| {
        routes
            .post(Scope::Ingest, &format!("{prefix}/write"), points)
            .post(Scope::Ingest, &format!("{prefix}/api/v2/write"), points)
            .get(Scope::Open, &format!("{prefix}/ping"), ping)
    })
}

async fn samples(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert_samples(&to, &request, body).await {
        Ok(()) => to.acknowledged(StatusCode::NO_CONTENT.into_response()),
        // Prometheus writes the answer into its log.
        Err(error) => error.into_text(),
    }
}

async fn insert_samples(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_samples(request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take_samples(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    let kind = request.headers.get("content-type").map_or(&b""[..], HeaderValue::as_bytes);
    if kind.windows(8).any(|part| part == b"write.v2") {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "version 2 of remote write is not supported; set protobuf_message: prometheus.WriteRequest",
        ));
    }
    body.default_fields(&STREAM_FIELDS, &[]);
    body.default_type(LOG_TYPE);
    let too_large = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the request has more than {BODY_BYTES_MAX} bytes; set max_samples_per_send lower"
            ),
        )
    };
    let sent = body.read(BODY_BYTES_MAX).await?.ok_or_else(too_large)?;
    // Remote write is always compressed, whether its header says so or not.
    let encoding = match request.headers.contains_key(CONTENT_ENCODING) {
        true => body.encoding()?,
        false => Encoding::Snappy,
    };
    let content = body.decompress(encoding, &sent, BODY_BYTES_MAX)?.ok_or_else(too_large)?;
    let mut samples = Samples::read(&content).map_err(|error| {
        let status = match error {
            WriteError::Broken => StatusCode::BAD_REQUEST,
            WriteError::Written => StatusCode::PAYLOAD_TOO_LARGE,
        };
        ApiError::new(status, error.to_string())
    })?;
    body.take_lines(|out| samples.write_next(out)).await
}

async fn ping() -> Response {
    (StatusCode::NO_CONTENT, [INFLUX_VERSION]).into_response()
}

async fn points(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert_points(&to, &request, body).await {
        Ok(None) => to.acknowledged(StatusCode::NO_CONTENT.into_response()),
        Ok(Some(wrong)) => refusal(ApiError::bad_request(wrong)),
        Err(error) => refusal(error),
    }
}

/// An error in the forms of InfluxDB 1 and 2.
fn refusal(error: ApiError) -> Response {
    let code = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        status if status.is_server_error() => "unavailable",
        _ => "invalid",
    };
    let text = error.to_string();
    error.in_form(json!({ "code": code, "message": text, "error": text }))
}

/// What is wrong with lines that were not kept, if any.
async fn insert_points(to: &Inserting, request: &Request, body: Body) -> ApiResult<Option<String>> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let mut wrong = None;
    let taken = take_points(request, &mut body, &mut wrong).await;
    body.end(taken).await?;
    Ok(wrong)
}

async fn take_points(
    request: &Request,
    body: &mut WholeBody<'_>,
    wrong: &mut Option<String>,
) -> ApiResult<()> {
    let unit_ns = unit_ns(request.params.get("precision").unwrap_or_default())?;
    body.default_fields(&STREAM_FIELDS, &[]);
    body.default_type(LOG_TYPE);
    let content = body.content(BODY_BYTES_MAX).await?;
    let mut points = Points::of(&content, unit_ns);
    body.take_lines(|out| points.write_next(out)).await?;
    let (lines, bytes, first) = points.rejected();
    body.reject(lines, bytes);
    *wrong = first.map(|first| format!("partial write: {lines} lines were not kept; {first}"));
    Ok(())
}

/// The unit of the times of points.
fn unit_ns(precision: &str) -> ApiResult<i64> {
    Ok(match precision {
        "" | "n" | "ns" => 1,
        "u" | "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => {
            return Err(ApiError::bad_request(format!(
                "precision is '{other}'; it may be ns, us, ms, s, m or h"
            )));
        }
    })
}
