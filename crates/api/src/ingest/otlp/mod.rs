//! Logs by OpenTelemetry's protocol (OTLP): `POST /v1/logs`, also at
//! `/insert/opentelemetry/v1/logs`, as protobuf or JSON; and by gRPC ([`grpc`]).
//!
//! Each record becomes a JSON line ([`collector::body::otlp`] says which); from there on it is
//! handled like any body of JSON lines (see [`crate::ingest`]), and the response is sent when all
//! lines are durable. The fields that name the stream are the well-known ones that say where a line
//! comes from ([`STREAM_FIELDS`]), if the request names no others.
//!
//! Answers are those of the specification. A request that cannot be read, or is too large, is
//! refused as a whole before a line is kept; records that cannot be taken by themselves are
//! counted, and named in a partial success. Exporters repeat a request only after 429, 502, 503 or
//! 504, and drop it after any other error; so what may succeed later, such as a full disk, is
//! answered with 503. An exporter repeats a request that failed in the middle, so lines that were
//! kept before the failure are stored twice.
//!
//! Bounded: a request is held as a whole ([`CONTENT_BYTES_MAX`]), in memory of the budget.
//!
//! Metrics come likewise, at `/v1/metrics` and `/insert/opentelemetry/v1/metrics`: each data point
//! becomes a row.
//!
//! Left out: traces, which are refused with the setting that stops them from being sent.

pub mod grpc;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use collector::body::metrics::LOG_TYPE;
use collector::body::otlp::{Export, ExportError, Format, LEVEL_FIELDS, Rejected, STREAM_FIELDS};
use serde_json::json;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{DISCARDED_BYTES_MAX, Inserting, Request, WholeBody};
use crate::wire::body::BodyReader;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a request, as it is sent and decompressed; that of the receivers of OpenTelemetry's
/// collector.
///
/// limits.md, Lines on their way in: a request of OTLP | {} | it is refused with 413 (gRPC:
/// `INVALID_ARGUMENT`) before a line is kept
const CONTENT_BYTES_MAX: usize = 20 << 20;
/// Bytes of lines that are handed on at once.
const PIECE_BYTES: usize = 256 << 10;
/// The routes of this file and of [`grpc`].
pub fn routes() -> Routes<Arc<Inserting>> {
    Routes::new()
        .post(Scope::Ingest, "/v1/logs", export)
        .post(Scope::Ingest, "/insert/opentelemetry/v1/logs", export)
        .post(Scope::Ingest, "/v1/traces", traces)
        .post(Scope::Ingest, "/v1/metrics", metrics)
        .post(Scope::Ingest, "/insert/opentelemetry/v1/metrics", metrics)
        .merge(grpc::routes())
}

/// What a request carries.
#[derive(Clone, Copy, PartialEq)]
enum Signal {
    Logs,
    Metrics,
}

/// What became of a request that was taken.
struct Taken {
    signal: Signal,
    format: Format,
    rejected: Option<Rejected>,
}

async fn export(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer_export(to, request, body, Signal::Logs).await
}

async fn metrics(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer_export(to, request, body, Signal::Metrics).await
}

async fn answer_export(
    to: Arc<Inserting>,
    request: Request,
    body: Body,
    signal: Signal,
) -> Response {
    let mut taken = Taken { signal, format: said(&request.headers), rejected: None };
    match take(&to, &request, body, &mut taken).await {
        Ok(()) => to.acknowledged(success(&taken)),
        Err(error) => failure(error, taken.format),
    }
}

/// The format that the headers name; protobuf if they name none.
fn said(headers: &HeaderMap) -> Format {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let named = named.split(';').next().unwrap_or_default().trim();
    match named.eq_ignore_ascii_case("application/json") {
        true => Format::Json,
        false => Format::Protobuf,
    }
}

async fn take(to: &Inserting, request: &Request, body: Body, taken: &mut Taken) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let all = take_all(&mut body, taken).await;
    body.end(all).await?;
    Ok(())
}

async fn take_all(body: &mut WholeBody<'_>, taken: &mut Taken) -> ApiResult<()> {
    let content = body.read_decompressed(CONTENT_BYTES_MAX).await?.ok_or_else(too_large)?;
    // `{` begins no message of protobuf; curl sends the media type of a form.
    if content.trim_ascii_start().starts_with(b"{") {
        taken.format = Format::Json;
    }
    taken.rejected = take_records(body, taken.signal, taken.format, &content).await?;
    Ok(())
}

fn too_large() -> ApiError {
    let message = format!(
        "the request has more than {CONTENT_BYTES_MAX} bytes; let the exporter send smaller batches"
    );
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Takes all records of a request; returns those that were rejected.
async fn take_records(
    body: &mut WholeBody<'_>,
    signal: Signal,
    format: Format,
    content: &[u8],
) -> ApiResult<Option<Rejected>> {
    let export = match signal {
        Signal::Logs => Export::read(format, content),
        Signal::Metrics => Export::read_metrics(format, content),
    };
    let mut export = export.map_err(|error| {
        let status = match error {
            ExportError::Wrong(_) => StatusCode::BAD_REQUEST,
            ExportError::TooMany => StatusCode::PAYLOAD_TOO_LARGE,
        };
        ApiError::new(status, error.to_string())
    })?;
    match signal {
        Signal::Logs => body.default_fields(&STREAM_FIELDS, &LEVEL_FIELDS),
        Signal::Metrics => {
            body.default_fields(&STREAM_FIELDS, &[]);
            body.default_type(LOG_TYPE);
        }
    }
    let mut lines = Vec::new();
    loop {
        let has_more = export.write(&mut lines, PIECE_BYTES);
        body.take(&lines).await?;
        if !has_more {
            break;
        }
        lines.clear();
        // Decoding costs time, and other requests wait for this thread.
        tokio::task::yield_now().await;
    }
    let rejected = export.rejected();
    if let Some(Rejected { records, bytes, .. }) = rejected {
        body.reject(records, bytes);
    }
    Ok(rejected)
}

/// What a partial success says.
fn told(rejected: Rejected) -> String {
    format!("{} of the records were not kept; the first one: {}", rejected.records, rejected.first)
}

fn success(taken: &Taken) -> Response {
    match taken.format {
        Format::Protobuf => {
            answer(StatusCode::OK, Format::Protobuf, success_message(taken.rejected))
        }
        Format::Json => {
            let body = match taken.rejected {
                None => json!({}),
                Some(rejected) => {
                    let count = match taken.signal {
                        Signal::Logs => "rejectedLogRecords",
                        Signal::Metrics => "rejectedDataPoints",
                    };
                    json!({ "partialSuccess": {
                        count: rejected.records.to_string(), "errorMessage": told(rejected),
                    } })
                }
            };
            answer(StatusCode::OK, Format::Json, body.to_string().into_bytes())
        }
    }
}

fn answer(status: StatusCode, format: Format, body: Vec<u8>) -> Response {
    let media_type = match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    };
    (status, [(CONTENT_TYPE, HeaderValue::from_static(media_type))], body).into_response()
}

/// `ExportLogsServiceResponse`
fn success_message(rejected: Option<Rejected>) -> Vec<u8> {
    let mut message = Vec::new();
    if let Some(rejected) = rejected {
        let mut partial = Vec::new();
        write_number(1, rejected.records, &mut partial);
        write_bytes(2, told(rejected).as_bytes(), &mut partial);
        write_bytes(1, &partial, &mut message);
    }
    message
}

/// An error as a status of gRPC, which both ways of OTLP have in their answers.
struct Status {
    http: StatusCode,
    code: Code,
    message: String,
}

/// `google.rpc.Code`
#[derive(Clone, Copy, PartialEq)]
enum Code {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl Status {
    /// Errors of the server become 503, after which exporters try again.
    fn of(error: &ApiError) -> Status {
        let (http, code) = match error.status() {
            StatusCode::NOT_IMPLEMENTED => (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
            StatusCode::NOT_FOUND => (StatusCode::NOT_FOUND, Code::Unimplemented),
            StatusCode::TOO_MANY_REQUESTS => {
                (StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted)
            }
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable)
            }
            status if status.is_client_error() => (status, Code::InvalidArgument),
            status => (status, Code::Internal),
        };
        Status { http, code, message: error.to_string() }
    }

    /// `google.rpc.Status`, without details.
    fn message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        write_number(1, self.code as u64, &mut message);
        write_bytes(2, self.message.as_bytes(), &mut message);
        message
    }
}

fn failure(error: ApiError, format: Format) -> Response {
    let status = Status::of(&error);
    let body = match format {
        Format::Protobuf => status.message(),
        Format::Json => {
            let body = json!({ "code": status.code as u8, "message": status.message });
            body.to_string().into_bytes()
        }
    };
    let mut answer = answer(status.http, format, body);
    if let Some(wait) = error.into_response().headers_mut().remove(RETRY_AFTER) {
        answer.headers_mut().insert(RETRY_AFTER, wait);
    }
    answer
}

async fn traces(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    let error = refuse_traces(&to, &request);
    BodyReader::new(body, to.options.body).discard(DISCARDED_BYTES_MAX).await;
    failure(error, said(&request.headers))
}

/// Counts and reports a sender of traces; returns the error for it.
fn refuse_traces(to: &Inserting, request: &Request) -> ApiError {
    const REMEDY: &str = "set OTEL_TRACES_EXPORTER=none in the program that sends them, or take this exporter out \
                          of the pipeline of traces of the collector";
    to.refuse_protocol(request.peer, "traces of OpenTelemetry", REMEDY);
    ApiError::not_found(format!("Loginson keeps logs and metrics, and these are traces: {REMEDY}"))
}

fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a field of protobuf.
fn write_number(field: u64, number: u64, out: &mut Vec<u8>) {
    write_varint(field << 3, out);
    write_varint(number, out);
}

/// The same of bytes, texts and messages.
fn write_bytes(field: u64, content: &[u8], out: &mut Vec<u8>) {
    write_varint(field << 3 | 2, out);
    write_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}
