//! `POST /loki/api/v1/push`: lines as Promtail, Alloy and other shippers of Loki send them, as JSON
//! or as snappy-compressed protobuf; also at `/insert/loki/api/v1/push`.
//!
//! Each entry becomes a JSON object: labels and structured metadata as its fields, the line as
//! `_msg`, its time as `_time`; the labels name the stream. From there on it is handled like any
//! body of JSON lines (see [`crate::ingest`]): the same slots, time limits and accounting,
//! and the response is sent when all lines are durable.
//!
//! Unlike other bodies this one is held as a whole, because in both formats the end can change the
//! meaning of the start. So it has limits of its own: [`BODY_BYTES_MAX`], [`CONTENT_BYTES_MAX`],
//! [`ENTRIES_MAX`], those of labels and metadata, and one of the lines made from it
//! ([`WRITTEN_BYTES_MAX`]), because labels are sent once and written with each line. A body that
//! exceeds one is refused with 413 before a line is kept; the message says which setting of the
//! shipper to change. A shipper repeats a request that failed in the middle, so lines that were
//! kept before the failure are stored twice.
//!
//! The gate reads the tenant (`X-Scope-OrgID`). Left out: the fields of lines that are JSON
//! themselves; `unpack_json` extracts those.

mod json;
mod protobuf;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use collector::body::{Decoder, Encoding};
use text::json::{text_bytes, write_text};
use text::time::write_time;
use tokio::sync::Semaphore;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::loki::LokiResult;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body as it is sent. Promtail and Alloy send 1 MiB of lines at a time, before
/// compression.
///
/// limits.md, Lines on their way in: a push of a Loki shipper | {}, {ENTRIES_MAX} entries | it is
/// refused with 413 before a line is kept
const BODY_BYTES_MAX: usize = 4 << 20;
/// Limit of a body after decompression.
const CONTENT_BYTES_MAX: usize = 4 << 20;
/// Limit of the entries of a body. For JSON it is checked after parsing, when there may be some
/// 400,000 small entries.
const ENTRIES_MAX: usize = 100_000;
/// Limit of the labels of a stream; Loki's default is 15.
const LABELS_MAX: usize = 64;
/// Limit of the name of a label or of metadata; with [`VALUE_BYTES_MAX`] as in Loki.
const NAME_BYTES_MAX: usize = 1024;
/// Limit of the value of a label.
const VALUE_BYTES_MAX: usize = 2048;
/// Limit of all labels of a stream, names included: they are written with each of its lines.
const LABELS_BYTES_MAX: usize = 8 << 10;
/// Limit of the different label names in a body: each is looked up in each line.
const NAMES_MAX: usize = 256;
/// Limit of the structured metadata of an entry, in pairs; with [`METADATA_BYTES_MAX`] as in Loki.
const METADATA_MAX: usize = 128;
/// The same in bytes.
const METADATA_BYTES_MAX: usize = 64 << 10;
/// Bytes of lines that any body may become, however small it is: enough for many short lines with
/// labels of usual length.
const WRITTEN_BYTES_MIN: usize = 8 << 20;
/// Bytes of lines per byte of the decompressed body that a larger body may become, up to
/// [`WRITTEN_BYTES_MAX`].
const WRITTEN_PER_BYTE_MAX: usize = 16;
/// Limit of the lines made from one body.
const WRITTEN_BYTES_MAX: usize = 32 << 20;
/// Sets of names of labels in a body that are told apart, if names of labels are names of metadata
/// too. In a body with more, such metadata are labels of the stream.
const GROUPS_MAX: usize = 64;
/// Members that each line has.
const OWN: [&str; 2] = ["_msg", "_time"];
/// What is appended to a name that is taken.
const EXTRACTED: &str = "_extracted";
/// Bodies that are parsed at a time, each of which takes some tens of MB. Others wait.
const APART_MAX: usize = 8;
/// Bytes of lines that are handed on at once.
const PIECE_BYTES: usize = 256 << 10;

/// Permits for parsing a body.
static APART: Semaphore = Semaphore::const_new(APART_MAX);

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(inserting: Arc<Inserting>) -> Routes<S> {
    Routes::new()
        .post(Scope::Ingest, "/loki/api/v1/push", push)
        .post(Scope::Ingest, "/insert/loki/api/v1/push", push)
        .with_state(inserting)
}

/// Pairs of name and value.
type Pairs<'b> = Vec<(Cow<'b, str>, Cow<'b, str>)>;

/// The lines of a body with the same labels.
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

/// What is wrong with a body. The text is for the sender.
#[derive(Debug, thiserror::Error)]
enum PushError {
    /// The body cannot be parsed.
    #[error("the push request cannot be read: {0}")]
    Wrong(String),
    /// The body as a whole exceeds a limit.
    #[error("{0}; let the shipper send smaller batches")]
    TooLarge(String),
    /// A part of the body exceeds a limit, so smaller batches would not help.
    #[error("{0}")]
    TooMuch(String),
}

impl From<PushError> for ApiError {
    fn from(error: PushError) -> ApiError {
        let status = match error {
            PushError::Wrong(_) => StatusCode::BAD_REQUEST,
            PushError::TooLarge(_) | PushError::TooMuch(_) => StatusCode::PAYLOAD_TOO_LARGE,
        };
        ApiError::new(status, error.to_string())
    }
}

async fn push(State(inserting): State<Arc<Inserting>>, request: Request, body: Body) -> LokiResult {
    let mut body = WholeBody::enter(&inserting, &request, body).await?;
    let taken = take(&request, &mut body).await;
    body.end(taken).await?;
    Ok(inserting.acknowledged(StatusCode::NO_CONTENT.into_response()))
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
    let _permit = APART.acquire().await.expect("never closed");
    let is_json = is_json || (!says_protobuf(request) && looks_like_json(&sent));
    let content = match is_json {
        true => decompressed(body.encoding()?, sent)?,
        false => protobuf::decompressed(&sent)?,
    };
    let mut streams = if is_json { json::read(&content) } else { protobuf::read(&content) }?;
    let names = prepare(&mut streams, content.len())?;
    let mut lines = Vec::new();
    for (names, streams) in groups(&streams, names) {
        body.name_streams(names)?;
        for stream in streams {
            let labels = written(&stream.labels);
            for entry in &stream.entries {
                write(entry, &labels, &mut lines);
                if lines.len() >= PIECE_BYTES {
                    body.take(&lines).await?;
                    lines.clear();
                }
            }
        }
        body.take(&lines).await?;
        lines.clear();
    }
    Ok(())
}

/// Names members apart, and checks the limits of the content of a body of `content_bytes` bytes;
/// returns the names of all labels.
fn prepare(streams: &mut [Stream<'_>], content_bytes: usize) -> Result<Vec<String>, PushError> {
    // A name of metadata grows as long as there is a label of that name, so there may be few.
    streams.iter().try_for_each(|stream| check_labels(&stream.labels))?;
    name_apart(streams);
    check(streams, content_bytes)
}

/// Gives another name to what would overwrite another member of a line: labels and metadata with
/// the name of one of [`OWN`], and metadata with the name of a label of its stream, as in Loki.
fn name_apart(streams: &mut [Stream<'_>]) {
    for Stream { labels, entries } in streams {
        for (name, _) in labels.iter_mut().filter(|(name, _)| OWN.contains(&name.as_ref())) {
            *name = format!("{name}{EXTRACTED}").into();
        }
        let taken: BTreeSet<&str> =
            labels.iter().map(|(name, _)| name.as_ref()).chain(OWN).collect();
        for (name, _) in entries.iter_mut().flat_map(|entry| &mut entry.metadata) {
            while taken.contains(name.as_ref()) {
                *name = format!("{name}{EXTRACTED}").into();
            }
        }
    }
}

/// The streams of a body with the names of their labels. They go together, with all names of the
/// body, unless the name of a label of one is metadata of another, which would then name its
/// stream; beyond [`GROUPS_MAX`] different sets of names they go together nevertheless.
fn groups<'s, 'b>(
    streams: &'s [Stream<'b>],
    names: Vec<String>,
) -> Vec<(Vec<String>, Vec<&'s Stream<'b>>)> {
    let of_labels: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut metadata = streams.iter().flat_map(|s| &s.entries).flat_map(|entry| &entry.metadata);
    let clashes = metadata.any(|(name, _)| of_labels.contains(name.as_ref()));
    let mut groups: BTreeMap<BTreeSet<&str>, Vec<&Stream<'_>>> = BTreeMap::new();
    for stream in streams.iter().filter(|_| clashes) {
        let own = stream.labels.iter().map(|(name, _)| name.as_ref()).collect();
        groups.entry(own).or_default().push(stream);
        if groups.len() > GROUPS_MAX {
            break;
        }
    }
    match groups.len() {
        2..=GROUPS_MAX => groups
            .into_iter()
            .map(|(names, streams)| (names.into_iter().map(str::to_owned).collect(), streams))
            .collect(),
        _ => vec![(names, streams.iter().collect())],
    }
}

fn says_protobuf(request: &Request) -> bool {
    let kind = request.headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.contains("protobuf")))
}

/// Whether a body without the media type of JSON is a JSON object nevertheless: some clients forget
/// the type, and curl sends that of a form.
fn looks_like_json(body: &[u8]) -> bool {
    let rest = body.trim_ascii_start().strip_prefix(b"{");
    rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

/// Decompresses a body.
fn decompressed(encoding: Encoding, sent: Vec<u8>) -> Result<Vec<u8>, PushError> {
    let wrong =
        |error: io::Error| PushError::Wrong(format!("the body cannot be decompressed: {error}"));
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

/// Checks the limits of the content of a body of `content_bytes` bytes; returns the names of all
/// labels.
fn check(streams: &[Stream<'_>], content_bytes: usize) -> Result<Vec<String>, PushError> {
    let entries: usize = streams.iter().map(|stream| stream.entries.len()).sum();
    if entries > ENTRIES_MAX {
        return Err(too_many());
    }
    let mut names = BTreeSet::new();
    let mut written_bytes = 0usize;
    for stream in streams {
        check_labels(&stream.labels)?;
        names.extend(stream.labels.iter().map(|(name, _)| name.as_ref()));
        let labels_bytes = pairs_bytes(&stream.labels);
        for entry in &stream.entries {
            check_metadata(&entry.metadata)?;
            let own = text_bytes(entry.line.as_bytes()) + pairs_bytes(&entry.metadata) + HEAD_BYTES;
            written_bytes = written_bytes.saturating_add(labels_bytes + own);
        }
    }
    if names.len() > NAMES_MAX {
        let message = format!("the streams have more than {NAMES_MAX} different names of labels");
        return Err(PushError::TooLarge(message));
    }
    let most = content_bytes.saturating_mul(WRITTEN_PER_BYTE_MAX);
    let most = most.clamp(WRITTEN_BYTES_MIN, WRITTEN_BYTES_MAX);
    if written_bytes > most {
        return Err(PushError::TooLarge(format!(
            "the {entries} entries with the labels of their streams would take {written_bytes} bytes; the limit for a body of this size is \
             {most}; send fewer or shorter labels"
        )));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn check_labels(labels: &Pairs<'_>) -> Result<(), PushError> {
    let much = |message: String| Err(PushError::TooMuch(message));
    if labels.len() > LABELS_MAX {
        return much(format!(
            "a stream has {} labels; the limit is {LABELS_MAX}; send the others as structured metadata",
            labels.len()
        ));
    }
    for (name, value) in labels {
        check_name(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return much(format!(
                "the value of the label '{}' has {} bytes; the limit is {VALUE_BYTES_MAX}; send it as structured metadata",
                begin_of(name),
                value.len()
            ));
        }
    }
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > LABELS_BYTES_MAX {
        return much(format!(
            "the labels of a stream have {bytes} bytes; the limit is {LABELS_BYTES_MAX}; send some as structured metadata"
        ));
    }
    Ok(())
}

fn check_metadata(metadata: &Pairs<'_>) -> Result<(), PushError> {
    metadata.iter().try_for_each(|(name, _)| check_name(name))?;
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if metadata.len() > METADATA_MAX || bytes > METADATA_BYTES_MAX {
        return Err(PushError::TooMuch(format!(
            "the structured metadata of an entry has {} pairs and {bytes} bytes; the limits are {METADATA_MAX} and {METADATA_BYTES_MAX}; \
             send less, or write it into the line",
            metadata.len()
        )));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), PushError> {
    if name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(PushError::TooMuch(format!(
        "the name '{}' has {} bytes; the limit is {NAME_BYTES_MAX}",
        begin_of(name),
        name.len()
    )))
}

/// The start of a text, for messages.
fn begin_of(text: &str) -> String {
    match text.char_indices().nth(60) {
        None => text.escape_debug().to_string(),
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
    }
}

/// Bytes of a line by [`write`], without its strings and pairs.
const HEAD_BYTES: usize = r#"{"_msg":,"_time":"2026-01-31T12:00:00.000000001Z"}_"#.len();

/// Length of the result of [`written`], without computing it.
fn pairs_bytes(pairs: &Pairs<'_>) -> usize {
    pairs
        .iter()
        .map(|(name, value)| text_bytes(name.as_bytes()) + text_bytes(value.as_bytes()) + 2)
        .sum()
}

/// Labels as members of a JSON object.
fn written(labels: &Pairs<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in labels {
        out.push(b',');
        write_text(name.as_bytes(), &mut out);
        out.push(b':');
        write_text(value.as_bytes(), &mut out);
    }
    out
}

/// Appends a line as a JSON object, with a newline. The message is the first member, so that the
/// API of Loki shows it instead of the object ([`logql::Reader`]).
fn write(entry: &Entry<'_>, labels: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"_msg\":");
    write_text(entry.line.as_bytes(), out);
    out.extend_from_slice(b",\"_time\":\"");
    write_time(entry.time_ns, out);
    out.push(b'"');
    out.extend_from_slice(labels);
    out.extend_from_slice(&written(&entry.metadata));
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

    /// With the names of metadata first, it would take minutes, also on a fast machine.
    #[test]
    fn labels_are_counted_before_metadata_are_named_apart() {
        let labels = (0..900).map(|n| (format!("a{}", EXTRACTED.repeat(n)).into(), "".into()));
        let metadata = || vec![("a".into(), "".into())];
        let entry = |_| Entry { time_ns: 0, line: "".into(), metadata: metadata() };
        let entries = (0..200_000).map(entry).collect();
        let mut streams = [Stream { labels: labels.collect(), entries }];
        let error = prepare(&mut streams, CONTENT_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("900 labels"), "{error}");
        assert_eq!(streams[0].entries[0].metadata, metadata());
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
    fn names_that_are_taken_get_another_one() {
        let pairs = |names: &[&'static str]| -> Pairs<'static> {
            names.iter().map(|name| ((*name).into(), "v".into())).collect()
        };
        let stream = |labels: &[&'static str], metadata: &[&'static str]| Stream {
            labels: pairs(labels),
            entries: vec![Entry { time_ns: 0, line: "".into(), metadata: pairs(metadata) }],
        };
        let names = |pairs: &Pairs<'_>| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.to_string()).collect()
        };
        let mut streams = [
            stream(&["app", "_time"], &["app", "_msg", "lvl"]),
            stream(&["app", "app_extracted"], &["app"]),
        ];
        name_apart(&mut streams);
        assert_eq!(names(&streams[0].labels), ["app", "_time_extracted"]);
        let found = names(&streams[0].entries[0].metadata);
        assert_eq!(found, ["app_extracted", "_msg_extracted", "lvl"]);
        let found = names(&streams[1].entries[0].metadata);
        assert_eq!(found, ["app_extracted_extracted"]);

        // A label of one stream may be metadata of another.
        let sizes = |streams: &[Stream<'_>]| -> Vec<(usize, usize)> {
            let all = check(streams, CONTENT_BYTES_MAX).unwrap();
            groups(streams, all).iter().map(|(names, s)| (names.len(), s.len())).collect()
        };
        let apart = [stream(&["app"], &["lvl"]), stream(&["lvl"], &[]), stream(&["app"], &[])];
        assert_eq!(sizes(&apart), [(1, 2), (1, 1)]);
        let together = [stream(&["app"], &["lvl"]), stream(&["job"], &[])];
        assert_eq!(sizes(&together), [(2, 2)]);
        for (more, expected) in [(0, GROUPS_MAX), (1, 1)] {
            let name = |i: usize| -> &'static str { format!("n{i}").leak() };
            let mut many: Vec<Stream<'_>> =
                (1..GROUPS_MAX + more).map(|i| stream(&[name(i)], &[])).collect();
            many.push(stream(&["app"], &["n1"]));
            assert_eq!(sizes(&many).len(), expected);
        }
    }

    #[test]
    fn limits_at_their_ends() {
        let whole = |streams: &[Stream<'_>]| check(streams, CONTENT_BYTES_MAX);
        assert_eq!(whole(&[stream(2, 1, ENTRIES_MAX)]).unwrap(), ["l000", "l001"]);
        assert!(matches!(whole(&[stream(0, 0, ENTRIES_MAX + 1)]), Err(PushError::TooLarge(_))));
        let fits = |stream: Stream<'static>| match whole(&[stream]) {
            Ok(_) => true,
            Err(PushError::TooMuch(message)) => {
                assert!(message.contains("the limit"), "{message}");
                false
            }
            Err(other) => panic!("{other}"),
        };
        let labelled = |pairs: Vec<(String, String)>| Stream {
            labels: pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect(),
            entries: Vec::new(),
        };
        let with_metadata = |pairs: Vec<(String, String)>| {
            let metadata = labelled(pairs).labels;
            Stream {
                labels: Vec::new(),
                entries: vec![Entry { time_ns: 0, line: "".into(), metadata }],
            }
        };
        for (most, taken) in [(0, true), (1, false)] {
            assert_eq!(fits(stream(LABELS_MAX + most, 1, 1)), taken);
            assert_eq!(fits(stream(1, VALUE_BYTES_MAX + most, 1)), taken);
            let name = "n".repeat(NAME_BYTES_MAX + most);
            assert_eq!(fits(labelled(vec![(name.clone(), String::new())])), taken);
            assert_eq!(fits(with_metadata(vec![(name, String::new())])), taken);
            assert_eq!(fits(stream(8, LABELS_BYTES_MAX / 8 - 4 + most, 1)), taken);
            let pair = |i: usize| (format!("{i:04}"), String::new());
            assert_eq!(fits(with_metadata((0..METADATA_MAX + most).map(pair).collect())), taken);
            let value = "v".repeat(METADATA_BYTES_MAX - 1 + most);
            assert_eq!(fits(with_metadata(vec![("m".to_owned(), value)])), taken);
        }
        let of_names = |count: usize| -> Vec<Stream<'static>> {
            (0..count).map(|i| labelled(vec![(format!("l{i}"), String::new())])).collect()
        };
        assert!(whole(&of_names(NAMES_MAX)).is_ok());
        assert!(matches!(whole(&of_names(NAMES_MAX + 1)), Err(PushError::TooLarge(_))));
    }

    #[test]
    fn the_lines_of_a_body_are_bounded_by_its_size() {
        let one = pairs_bytes(&stream(4, 1000, 1).labels) + text_bytes(b"") + HEAD_BYTES;
        for (content_bytes, most) in [
            (1_400, WRITTEN_BYTES_MIN),
            (1 << 20, WRITTEN_PER_BYTE_MAX << 20),
            (CONTENT_BYTES_MAX, WRITTEN_BYTES_MAX),
        ] {
            let entries = most / one;
            assert!(check(&[stream(4, 1000, entries)], content_bytes).is_ok(), "{content_bytes}");
            let error = check(&[stream(4, 1000, entries + 1)], content_bytes).unwrap_err();
            assert!(error.to_string().contains("fewer or shorter labels"), "{error}");
        }
    }

    #[test]
    fn the_size_of_lines_is_known_before_they_are_made() {
        for text in ["", "plain", "\u{0}\u{1f}\u{7f}\"\\\n\r\t\u{8}\u{c}", "é\u{2028}😀"] {
            let metadata: Pairs<'_> = vec![(text.into(), text.into()), ("b".into(), "".into())];
            let entry = Entry { time_ns: 1_769_860_800_000_000_001, line: text.into(), metadata };
            let labels: Pairs<'_> = vec![("a".into(), text.into())];
            let mut out = Vec::new();
            write(&entry, &written(&labels), &mut out);
            let counted =
                text_bytes(text.as_bytes()) + pairs_bytes(&labels) + pairs_bytes(&entry.metadata);
            assert_eq!(out.len(), counted + HEAD_BYTES, "{text:?}");
        }
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
