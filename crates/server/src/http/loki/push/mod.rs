//! `POST /loki/api/v1/push`: lines as Promtail, Alloy and other shippers of Loki send them, as JSON or as snappy-compressed
//! protobuf; also at `/insert/loki/api/v1/push`.
//!
//! Each entry becomes a JSON object: labels and structured metadata as its fields, the line as `_msg`, its time as `_time`; the
//! labels name the stream. From there on it is a body of JSON lines like any other (see [`crate::http::insert`]): the same places,
//! limits of time, accounting, and the answer comes when all is durable.
//!
//! Unlike other bodies this one is held whole, because both forms say only at an end what they are; so it has limits of its own:
//! [`BODY_BYTES_MAX`], [`CONTENT_BYTES_MAX`], [`ENTRIES_MAX`], [`LABELS_BYTES_MAX`]. What exceeds them is refused with 413 before
//! a line is kept. A shipper sends a request again that failed in the middle: what was kept of it is there twice then.
//!
//! Left out: tenants (`X-Scope-OrgID` is not looked at), and fields of lines that are themselves JSON; `unpack_json` finds those.

mod json;
mod protobuf;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use collector::body::{Decoder, Encoding};
use query::time::format_time;

use super::LokiResult;
use crate::http::error::{ApiError, ApiResult};
use crate::http::insert::{Inserting, Request, WholeBody};

/// Bytes of a body as it is sent. Promtail and Alloy send 1 MiB of lines at a time, before compression.
const BODY_BYTES_MAX: usize = 4 << 20;
/// The same, decompressed.
const CONTENT_BYTES_MAX: usize = 4 << 20;
/// Entries of a body. Of JSON they are counted when all are read, of which there may be some 400,000 of a few bytes.
const ENTRIES_MAX: usize = 100_000;
/// Bytes of the labels of a stream with their names: they are written with each of its lines.
const LABELS_BYTES_MAX: usize = 32 << 10;
/// Bytes of lines that are handed on at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(inserting: Arc<Inserting>) -> Router<S> {
    Router::new()
        .route("/loki/api/v1/push", post(push))
        .route("/insert/loki/api/v1/push", post(push))
        .with_state(inserting)
}

/// Names and values.
type Pairs<'b> = Vec<(Cow<'b, str>, Cow<'b, str>)>;

/// The lines of a body that have their labels in common.
#[derive(Debug, PartialEq)]
struct Stream<'b> {
    labels: Pairs<'b>,
    entries: Vec<Entry<'b>>,
}

/// A line.
#[derive(Debug, PartialEq)]
struct Entry<'b> {
    time_ns: i64,
    line: Cow<'b, str>,
    metadata: Pairs<'b>,
}

/// What is wrong with a body. The text is for the user.
#[derive(Debug, thiserror::Error)]
enum PushError {
    /// It is not of its form.
    #[error("the push request cannot be read: {0}")]
    Wrong(String),
    /// It exceeds a limit.
    #[error("{0}; let the shipper send smaller batches")]
    TooLarge(String),
}

impl From<PushError> for ApiError {
    fn from(error: PushError) -> ApiError {
        let status = match error {
            PushError::Wrong(_) => StatusCode::BAD_REQUEST,
            PushError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        };
        ApiError::new(status, error.to_string())
    }
}

async fn push(State(inserting): State<Arc<Inserting>>, request: Request, body: Body) -> LokiResult {
    let mut body = WholeBody::enter(&inserting, &request, body).await?;
    let taken = take(&request, &mut body).await;
    body.end(taken).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Takes all lines of a body.
async fn take(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    let is_json = request.headers.get(CONTENT_TYPE).is_some_and(|value| {
        let kind = value.as_bytes().split(|&b| b == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
    });
    let sent = body.read(BODY_BYTES_MAX).await?.ok_or_else(|| {
        PushError::TooLarge(format!("the body has more than {BODY_BYTES_MAX} bytes"))
    })?;
    let content = match is_json {
        true => decompressed(body.encoding()?, sent)?,
        false => protobuf::decompressed(&sent)?,
    };
    let streams = if is_json { json::read(&content) } else { protobuf::read(&content) }?;
    body.name_streams(check(&streams)?);
    let mut lines = Vec::new();
    for stream in &streams {
        let labels = written(&stream.labels);
        for entry in &stream.entries {
            write(entry, &labels, &mut lines);
            if lines.len() >= PIECE_BYTES {
                body.take(&lines).await?;
                lines.clear();
            }
        }
    }
    body.take(&lines).await
}

/// Undoes the compression of a body.
fn decompressed(encoding: Encoding, sent: Vec<u8>) -> Result<Vec<u8>, PushError> {
    let wrong = |error: io::Error| PushError::Wrong(format!("it cannot be decompressed: {error}"));
    if encoding == Encoding::Plain {
        return Ok(sent);
    }
    let mut decoder = Decoder::new(encoding).map_err(wrong)?;
    let (mut content, mut rest) = (Vec::new(), &sent[..]);
    let mut add = |piece: &[u8]| {
        content.extend_from_slice(piece);
        match content.len() > CONTENT_BYTES_MAX {
            true => Err(too_long()),
            false => Ok(()),
        }
    };
    while let Some(piece) = decoder.next(&mut rest).map_err(wrong)? {
        add(piece)?;
    }
    add(decoder.end().map_err(wrong)?)?;
    Ok(content)
}

fn too_long() -> PushError {
    PushError::TooLarge(format!(
        "the body has more than {CONTENT_BYTES_MAX} bytes when decompressed"
    ))
}

fn too_many() -> PushError {
    PushError::TooLarge(format!("the body has more than {ENTRIES_MAX} entries"))
}

/// Checks the limits; gives the names of all labels.
fn check(streams: &[Stream<'_>]) -> Result<Vec<String>, PushError> {
    let entries: usize = streams.iter().map(|stream| stream.entries.len()).sum();
    if entries > ENTRIES_MAX {
        return Err(too_many());
    }
    let mut names = BTreeSet::new();
    for stream in streams {
        let bytes: usize = stream.labels.iter().map(|(n, v)| n.len() + v.len()).sum();
        if bytes > LABELS_BYTES_MAX {
            let message = format!("the labels of a stream have more than {LABELS_BYTES_MAX} bytes");
            return Err(PushError::TooLarge(message));
        }
        names.extend(stream.labels.iter().map(|(name, _)| name.as_ref()));
    }
    let bytes: usize = names.iter().map(|name| name.len()).sum();
    if bytes > LABELS_BYTES_MAX {
        let message = format!("the names of all labels have more than {LABELS_BYTES_MAX} bytes");
        return Err(PushError::TooLarge(message));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Labels as members of a JSON object.
fn written(labels: &Pairs<'_>) -> String {
    let text = |text: &str| serde_json::to_string(text).expect("a text is JSON");
    labels.iter().map(|(name, value)| format!(",{}:{}", text(name), text(value))).collect()
}

/// Appends a line as a JSON object, with a newline. The line comes first: so the API of Loki shows it, not the object, when it is
/// asked for ([`logql::Reader`]).
fn write(entry: &Entry<'_>, labels: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"_msg\":");
    serde_json::to_writer(&mut *out, entry.line.as_ref()).expect("writing to memory");
    let behind = format!(",\"_time\":\"{}\"{labels}", format_time(entry.time_ns));
    out.extend_from_slice(behind.as_bytes());
    out.extend_from_slice(written(&entry.metadata).as_bytes());
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(labels: usize, bytes: usize, entries: usize) -> Stream<'static> {
        let label = |i| (format!("l{i:03}").into(), "v".repeat(bytes).into());
        let entry = |_| Entry { time_ns: 0, line: "".into(), metadata: Vec::new() };
        Stream {
            labels: (0..labels).map(label).collect(),
            entries: (0..entries).map(entry).collect(),
        }
    }

    #[test]
    fn an_entry_is_a_json_line() {
        let entry = Entry {
            time_ns: 1_769_860_800_000_000_001,
            line: "a \"b\"\nc".into(),
            metadata: vec![("trace".into(), "1\\2".into())],
        };
        let mut out = Vec::new();
        write(&entry, &written(&vec![("app".into(), "x\"y".into())]), &mut out);
        let expected = concat!(
            r#"{"_msg":"a \"b\"\nc","_time":"2026-01-31T12:00:00.000000001Z","app":"x\"y","#,
            r#""trace":"1\\2"}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn limits_at_their_ends() {
        assert_eq!(check(&[stream(2, 1, ENTRIES_MAX)]).unwrap(), ["l000", "l001"]);
        assert!(matches!(check(&[stream(0, 0, ENTRIES_MAX + 1)]), Err(PushError::TooLarge(_))));
        let of = |value: usize| check(&[stream(1, value, 1)]);
        assert!(of(LABELS_BYTES_MAX - 4).is_ok());
        assert!(matches!(of(LABELS_BYTES_MAX - 3), Err(PushError::TooLarge(_))));
        let many: Vec<Stream<'_>> = (0..=LABELS_BYTES_MAX / 8)
            .map(|i| Stream {
                labels: vec![(format!("l{i:07}").into(), "".into())],
                entries: Vec::new(),
            })
            .collect();
        assert!(check(&many[1..]).is_ok());
        assert!(matches!(check(&many), Err(PushError::TooLarge(_))));
    }

    #[test]
    fn compressed_bodies_are_bounded() {
        for (bytes, fits) in [(CONTENT_BYTES_MAX, true), (CONTENT_BYTES_MAX + 1, false)] {
            let sent = zstd::encode_all(&vec![b' '; bytes][..], 1).unwrap();
            let content = decompressed(Encoding::Zstd, sent);
            assert_eq!(content.is_ok_and(|content| content.len() == bytes), fits, "{bytes}");
        }
        let broken = decompressed(Encoding::Gzip, b"no gzip".to_vec());
        assert!(matches!(broken, Err(PushError::Wrong(_))));
    }
}
