//! Uploads of systemd's journal: `/upload`, as `systemd-journal-upload` sends them to
//! `systemd-journal-remote`; also `/insert/journald/upload`, as VictoriaLogs has it.
//!
//! Each entry becomes the line that following the journal gives (see
//! [`collector::body::journal`]). The first upload of a machine is its whole journal in one body,
//! so entries are taken as they arrive, and the answer is sent when all are durable. Only then the
//! sender writes down how far it came: after a failure it repeats the whole upload, so entries that
//! were kept before are stored twice.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::ACCEPT_ENCODING;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use collector::body::Decoder;
use collector::body::journal::{Entries, JournalError, STREAM_FIELDS, line_of};

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody};
use crate::wire::error::{ApiError, ApiResult};

/// The media type of the export format.
const MEDIA_TYPE: &str = "application/vnd.fdo.journal";
/// The type of the lines, that of the followed journal.
const LOG_TYPE: &str = "journald";
/// What systemd 258 and later may compress further uploads with.
const ENCODINGS: HeaderValue = HeaderValue::from_static("zstd");
/// Bytes of lines that are handed on at once.
const PIECE_BYTES: usize = 256 << 10;

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    Routes::new().post(Scope::Ingest, "/upload", upload).post(
        Scope::Ingest,
        "/insert/journald/upload",
        upload,
    )
}

async fn upload(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert(&to, &request, body).await {
        Ok(()) => to.acknowledged(([(ACCEPT_ENCODING, ENCODINGS)], "OK.\n").into_response()),
        Err(error) => error.into_response(),
    }
}

async fn insert(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take(request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    if request.media_type() != MEDIA_TYPE {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "an upload of the journal has the Content-Type {MEDIA_TYPE}; files are sent by loginson import"
            ),
        ));
    }
    body.default_fields(&STREAM_FIELDS, &[]);
    body.default_type(LOG_TYPE);
    let undecodable = |error: std::io::Error| {
        ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
    };
    let mut decoder = Decoder::new(body.encoding()?).map_err(undecodable)?;
    let (mut entries, mut lines) = (Entries::default(), Vec::new());
    while let Some(chunk) =
        body.next_chunk(entries.bytes_held() + decoder.bytes_held() + lines.capacity()).await?
    {
        let mut rest = &chunk[..];
        while let Some(piece) = decoder.next(&mut rest).map_err(undecodable)? {
            let read = read(&mut entries, piece, &mut lines);
            if lines.len() >= PIECE_BYTES || read.is_err() {
                body.take(&lines).await?;
                lines.clear();
            }
            read?;
        }
        // What a sender has sent that pauses should be searchable.
        body.take(&lines).await?;
        lines.clear();
    }
    let last = decoder.end().map_err(undecodable)?;
    let read = read(&mut entries, last, &mut lines);
    let ended = read.and_then(|()| entries.end().map_err(wrong)).map(|entry| {
        entry.into_iter().for_each(|entry| write(entry, &mut lines));
    });
    body.take(&lines).await?;
    ended
}

/// Appends the lines of the entries that end in a piece.
fn read(entries: &mut Entries, mut piece: &[u8], lines: &mut Vec<u8>) -> ApiResult<()> {
    while let Some(entry) = entries.next(&mut piece).map_err(wrong)? {
        write(entry, lines);
    }
    Ok(())
}

fn write(entry: std::collections::BTreeMap<String, String>, lines: &mut Vec<u8>) {
    lines.extend(line_of(entry));
    lines.push(b'\n');
}

fn wrong(error: JournalError) -> ApiError {
    ApiError::bad_request(error.to_string())
}
