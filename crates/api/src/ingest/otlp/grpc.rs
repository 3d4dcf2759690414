//! OTLP by gRPC: calls of `LogsService` and `MetricsService`, as requests of HTTP/2 whose body is
//! one message.
//!
//! A message is framed by five bytes: whether it is compressed, and its length. The result of a
//! call stands in trailers, or, if there is no message, in the headers
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>). That is all of gRPC that
//! unary calls need, so it is written here rather than taken from `tonic`, which would have its own
//! copies of connections, limits, TLS and credentials.
//!
//! Left out: streams of messages, reflection and the health service.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use collector::body::Encoding;
use collector::body::otlp::{Format, Rejected};
use hyper::body::{Frame, SizeHint};

use super::{
    CONTENT_BYTES_MAX, Code, Signal, Status, refuse_traces, success_message, take_records,
    too_large, write_bytes, write_number,
};
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Bytes before a message.
const FRAME_BYTES: usize = 5;
/// The encodings of messages.
const ENCODINGS: &str = "gzip, zstd, deflate, snappy";

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    Routes::new().post(Scope::Ingest, LOGS, export).post(Scope::Ingest, TRACES, traces).post(
        Scope::Ingest,
        METRICS,
        metrics,
    )
}

async fn export(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer_call(to, request, body, Signal::Logs).await
}

async fn metrics(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer_call(to, request, body, Signal::Metrics).await
}

async fn answer_call(to: Arc<Inserting>, request: Request, body: Body, signal: Signal) -> Response {
    match take(&to, &request, body, signal).await {
        Ok(rejected) => to.acknowledged(success(rejected)),
        Err(error) => failure(error),
    }
}

async fn traces(State(to): State<Arc<Inserting>>, request: Request) -> Response {
    failure(refuse_traces(&to, &request))
}

async fn take(
    to: &Inserting,
    request: &Request,
    body: Body,
    signal: Signal,
) -> ApiResult<Option<Rejected>> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let mut rejected = None;
    let taken = take_all(&mut body, signal, &request.headers, &mut rejected).await;
    body.end(taken).await?;
    Ok(rejected)
}

async fn take_all(
    body: &mut WholeBody<'_>,
    signal: Signal,
    headers: &HeaderMap,
    rejected: &mut Option<Rejected>,
) -> ApiResult<()> {
    let sent = body.read(CONTENT_BYTES_MAX + FRAME_BYTES).await?.ok_or_else(too_large)?;
    let (is_compressed, message) = unframed(&sent)?;
    let content;
    let content = match is_compressed {
        false => message,
        true => {
            let encoding = encoding(headers)?;
            content =
                body.decompress(encoding, message, CONTENT_BYTES_MAX)?.ok_or_else(too_large)?;
            &content[..]
        }
    };
    *rejected = take_records(body, signal, Format::Protobuf, content).await?;
    Ok(())
}

/// The message of a body, and whether it is compressed.
fn unframed(body: &[u8]) -> ApiResult<(bool, &[u8])> {
    let broken = || ApiError::bad_request("the body is not one message of gRPC");
    let ([flag, length @ ..], message) =
        body.split_first_chunk::<FRAME_BYTES>().ok_or_else(broken)?;
    let is_whole = u32::from_be_bytes(*length) as usize == message.len();
    match flag {
        0 | 1 if is_whole => Ok((*flag == 1, message)),
        _ => Err(broken()),
    }
}

fn encoding(headers: &HeaderMap) -> ApiResult<Encoding> {
    match headers.get(GRPC_ENCODING).map(HeaderValue::as_bytes) {
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(b"zstd") => Ok(Encoding::Zstd),
        Some(b"deflate") => Ok(Encoding::Deflate),
        Some(b"snappy") => Ok(Encoding::Snappy),
        Some(b"identity") => Ok(Encoding::Plain),
        other => Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            format!(
                "grpc-encoding '{}' is not supported; use {ENCODINGS} or none",
                String::from_utf8_lossy(other.unwrap_or_default())
            ),
        )),
    }
}

fn success(rejected: Option<Rejected>) -> Response {
    let message = success_message(rejected);
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    let body = Unary { message: Some(framed.into()), trailers: Some(trailers) };
    let accepted = (GRPC_ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS));
    ([(CONTENT_TYPE, MEDIA_TYPE), accepted], Body::new(body)).into_response()
}

/// A response of headers alone.
fn failure(error: ApiError) -> Response {
    let status = Status::of(&error);
    let message = percent_encoded(&status.message);
    let headers = [
        (CONTENT_TYPE, MEDIA_TYPE),
        (GRPC_ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS)),
        (GRPC_STATUS, HeaderValue::from(status.code as u16)),
        (GRPC_MESSAGE, HeaderValue::try_from(message).expect("it is printable")),
    ];
    let mut response = (headers, Body::empty()).into_response();
    let wait = error.into_response().headers_mut().remove(RETRY_AFTER);
    let wait_s = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
    // Exporters try again after UNAVAILABLE, and after RESOURCE_EXHAUSTED only with this detail.
    let repeats = matches!(status.code, Code::Unavailable | Code::ResourceExhausted);
    if let Some(wait_s) = wait_s.filter(|_| repeats) {
        let details = STANDARD_NO_PAD.encode(with_retry_info(status.message(), wait_s));
        let details = HeaderValue::try_from(details).expect("it is printable");
        response.headers_mut().insert(GRPC_DETAILS, details);
    }
    response
}

/// A `google.rpc.Status` with the time after which the call should be repeated.
fn with_retry_info(mut status: Vec<u8>, wait_s: u64) -> Vec<u8> {
    let (mut duration, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
    write_number(1, wait_s, &mut duration);
    write_bytes(1, &duration, &mut info);
    write_bytes(1, b"type.googleapis.com/google.rpc.RetryInfo", &mut any);
    write_bytes(2, &info, &mut any);
    write_bytes(3, &any, &mut status);
    status
}

/// A message as a header.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::new();
    for &byte in message.as_bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => {
                let digits = text::hex::digits(byte);
                encoded.push('%');
                encoded.extend(digits.map(char::from));
            }
        }
    }
    encoded
}

/// A message and its trailers.
struct Unary {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl HttpBody for Unary {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let message = self.message.take().map(Frame::data);
        Poll::Ready(message.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.message.as_ref().map_or(0, |message| message.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_message() {
        let whole = [&[0, 0, 0, 0, 2][..], b"ab"].concat();
        assert_eq!(unframed(&whole).unwrap(), (false, &b"ab"[..]));
        assert_eq!(unframed(&[1, 0, 0, 0, 0]).unwrap(), (true, &b""[..]));
        for broken in [&b""[..], &[0, 0, 0, 0], &[2, 0, 0, 0, 0], &[0, 0, 0, 0, 1], &[0; 6]] {
            assert!(unframed(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn the_encodings_that_are_offered_are_taken() {
        for name in ENCODINGS.split(", ") {
            let headers = [(GRPC_ENCODING, HeaderValue::from_static(name))];
            assert!(encoding(&headers.into_iter().collect()).is_ok(), "{name}");
        }
        assert_eq!(encoding(&HeaderMap::new()).unwrap_err().status(), StatusCode::NOT_IMPLEMENTED);
    }

    #[test]
    fn errors_say_when_to_try_again() {
        let busy = failure(ApiError::unavailable("full: 5 % é").retry_after(7));
        assert_eq!(busy.status(), StatusCode::OK);
        assert_eq!(busy.headers()[GRPC_STATUS], "14");
        assert_eq!(busy.headers()[GRPC_MESSAGE], "full: 5 %25 %C3%A9");
        let details = STANDARD_NO_PAD.decode(busy.headers()[GRPC_DETAILS].as_bytes()).unwrap();
        assert!(details.ends_with(b"RetryInfo\x12\x04\x0a\x02\x08\x07"), "{details:?}");
        for (status, code) in [(400, "3"), (413, "3"), (429, "8"), (507, "14"), (501, "12")] {
            let error = ApiError::new(StatusCode::from_u16(status).unwrap(), "x");
            let failed = failure(error);
            assert_eq!(failed.headers()[GRPC_STATUS], code);
            assert!(!failed.headers().contains_key(GRPC_DETAILS));
        }
    }
}
