//! Lines by request: `/insert/jsonline` and `/insert/lines`.
//!
//! The body is read, decompressed and handed on in pieces; the answer comes after the last line is durable. Memory
//! is bounded by [`UNACKNOWLEDGED_BYTES_MAX`] and one line, however large body or compression ratio are.
//!
//! When something fails in the middle, the lines before it may be durable already. The error then carries `lines` and
//! `bytes`: so much from the start of the body was kept, and is not to be sent again.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use collector::{DeliverError, DropReason, SourceKind, Ticket};
use record::frame::LINE_BYTES_MAX;
use record::parse::TYPE_NAME_BYTES_MAX;
use record::{Format, Hints, Origin, Transport};
use tokio::sync::mpsc;

use super::App;
use super::body::next_chunk;
use super::error::{ApiError, ApiResult};
use super::params::Params;
use crate::pipeline::Pipeline;

/// Bytes handed to the intake together.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of one request on their way to the disk. More of its body is not read until some are durable.
const UNACKNOWLEDGED_BYTES_MAX: usize = 8 << 20;
/// Pieces of a body between the connection and the thread that takes lines out of them.
const CHUNKS_MAX: usize = 4;
/// Bytes of a refused body that are read and thrown away, so that a sender that sends all before it reads the answer
/// gets to see it. Beyond them the connection is closed.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// The largest window that a zstd stream may ask for, as a power of two; it is held in memory.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/insert/jsonline", post(jsonline)).route("/insert/lines", post(lines))
}

async fn jsonline(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let params = Params::parse(query.unwrap_or_default().as_bytes());
    let request = Request { peer, format: Format::Json, params, headers };
    insert(&app, request, body).await
}

async fn lines(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let params = Params::parse(query.unwrap_or_default().as_bytes());
    let request = Request { peer, format: Format::Auto, params, headers };
    insert(&app, request, body).await
}

struct Request {
    peer: SocketAddr,
    format: Format,
    params: Params,
    headers: HeaderMap,
}

#[derive(Clone, Copy)]
enum Encoding {
    Plain,
    Gzip,
    Zstd,
}

async fn insert(app: &Arc<App>, request: Request, body: Body) -> Response {
    let mut stream = body.into_data_stream();
    let result = match prepare(app, &request) {
        Ok(work) => take_lines(app, work, &mut stream).await,
        // Nothing of it was kept, which every error says.
        Err(error) => Err(error.with("lines", 0).with("bytes", 0)),
    };
    let error = match result {
        Ok(counts) => {
            return axum::Json(serde_json::json!({ "lines": counts.lines, "bytes": counts.bytes }))
                .into_response();
        }
        Err(error) => error,
    };
    // A sender that waits for leave to send learns the answer without sending; from one that fell silent nothing comes.
    let silent = error.status() == StatusCode::REQUEST_TIMEOUT;
    if !silent && !request.headers.contains_key(EXPECT) {
        let mut discarded = 0;
        while discarded < DISCARDED_BYTES_MAX
            && let Ok(Some(chunk)) = next_chunk(&mut stream).await
        {
            discarded += chunk.len();
        }
    }
    error.into_response()
}

/// What is known before the body is read.
struct Work {
    pipeline: Arc<Pipeline>,
    origin: Origin,
    encoding: Encoding,
    debug: bool,
}

fn prepare(app: &App, request: &Request) -> ApiResult<Work> {
    let pipeline = app.pipeline()?;
    if let Some(refusal) = pipeline.refusal() {
        return Err(refused(&refusal));
    }
    Ok(Work {
        encoding: encoding(&request.headers)?,
        origin: origin(request)?,
        debug: option(request, "debug", "vl-debug").is_some_and(|value| value != "0"),
        pipeline,
    })
}

fn encoding(headers: &HeaderMap) -> ApiResult<Encoding> {
    let form = headers.get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"multipart/"));
    if form {
        return Err(ApiError::bad_request(
            "send the lines as the body itself (curl --data-binary @FILE), not as a form",
        ));
    }
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"" | b"identity") => Ok(Encoding::Plain),
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(b"zstd") => Ok(Encoding::Zstd),
        Some(other) => Err(ApiError::bad_request(format!(
            "Content-Encoding '{}' is not known; use gzip, zstd or none",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// A parameter, from the address or else from its header.
fn option<'a>(request: &'a Request, name: &str, header: &str) -> Option<&'a str> {
    let in_header = || request.headers.get(header).and_then(|value| value.to_str().ok());
    request.params.get(name).or_else(in_header).filter(|value| !value.is_empty())
}

fn origin(request: &Request) -> ApiResult<Origin> {
    let names = |name: &str, header: &str| -> Vec<String> {
        let list = option(request, name, header).unwrap_or_default();
        list.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect()
    };
    let mut extra_fields = Vec::new();
    for pair in names("extra_fields", "vl-extra-fields") {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            ApiError::bad_request(format!(
                "extra_fields: '{pair}' is not NAME=VALUE; write for example env=prod,site=berlin"
            ))
        })?;
        extra_fields.push((name.to_owned(), value.to_owned()));
    }
    let type_name = if request.format == Format::Json { "_type" } else { "type" };
    let log_type = request.params.get(type_name).map(str::to_owned);
    if let Some(name) = &log_type {
        check_type(name)?;
    }
    let file =
        request.params.get("file").map(str::to_owned).filter(|_| request.format == Format::Auto);
    // Lines of a file come from that file, not from the program that brings them.
    let (transport, sender) = match &file {
        Some(_) => (Transport::File, None),
        None => (Transport::Http, Some(request.peer)),
    };
    let hints = Hints {
        log_type,
        time_fields: names("_time_field", "vl-time-field"),
        msg_fields: names("_msg_field", "vl-msg-field"),
        stream_fields: names("_stream_fields", "vl-stream-fields"),
        ignore_fields: names("ignore_fields", "vl-ignore-fields"),
        extra_fields,
        file,
        ..Hints::default()
    };
    Ok(Origin { hints: Arc::new(hints), ..Origin::new(transport, request.format, sender) })
}

/// Whether a name can be a type; the rules of the configuration know the same ones.
fn check_type(name: &str) -> ApiResult<()> {
    let known = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    if name.len() > TYPE_NAME_BYTES_MAX || !name.bytes().all(known) || name == summary::SUMMARY_TYPE
    {
        return Err(ApiError::bad_request(format!(
            "'{name}' is no name for a type; use 1 to {TYPE_NAME_BYTES_MAX} letters, digits, '.', '_' or '-' \
             (but not '{}', which Loginson uses itself)",
            summary::SUMMARY_TYPE
        )));
    }
    Ok(())
}

/// What became durable.
#[derive(Clone, Copy, Default)]
struct Counts {
    lines: u64,
    bytes: u64,
}

async fn take_lines(
    app: &App,
    work: Work,
    stream: &mut axum::body::BodyDataStream,
) -> ApiResult<Counts> {
    let place = app.insert_places.clone().acquire_owned().await.expect("never closed");
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    let taking = tokio::task::spawn_blocking(move || {
        let _place = place;
        keep_all(work, Chunks { receiver, current: Bytes::new() })
    });
    loop {
        let piece = next_chunk(stream).await;
        let over = !matches!(piece, Ok(Some(_)));
        let piece = match piece {
            Ok(Some(chunk)) => Ok(chunk),
            Ok(None) => break,
            Err(error) => Err(error),
        };
        // When nobody takes it any more, the thread has ended with an error.
        if sender.send(piece).await.is_err() || over {
            break;
        }
    }
    drop(sender);
    taking.await.unwrap_or_else(|_| {
        Err(ApiError::internal("taking the lines in failed; see the server's log"))
    })
}

/// A body as something to read from, in a thread.
struct Chunks {
    receiver: mpsc::Receiver<ApiResult<Bytes>>,
    current: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                None => break,
                Some(Ok(chunk)) => self.current = chunk,
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, count: usize) {
        let _ = self.current.split_to(count);
    }
}

fn keep_all(work: Work, chunks: Chunks) -> ApiResult<Counts> {
    let mut reader: Box<dyn Read> = match work.encoding {
        Encoding::Plain => Box::new(chunks),
        Encoding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(chunks)),
        Encoding::Zstd => {
            let mut zstd = zstd::stream::read::Decoder::with_buffer(chunks)
                .map_err(|error| ApiError::internal(format!("cannot decompress: {error}")))?;
            zstd.window_log_max(ZSTD_WINDOW_LOG_MAX)
                .map_err(|error| ApiError::internal(format!("cannot decompress: {error}")))?;
            Box::new(BufReader::new(zstd))
        }
    };
    let mut keeper =
        Keeper { work: &work, waiting: VecDeque::new(), waiting_bytes: 0, kept: Counts::default() };
    let mut splitter = Splitter::default();
    loop {
        match splitter.next_block(&mut reader) {
            Ok(Some(block)) => keeper.push(block)?,
            Ok(None) => break,
            Err(error) => {
                keeper.settle(0)?;
                // What is known of the unread rest: at least one line of it is lost.
                let counters = work.pipeline.accounting().source(SourceKind::Http);
                counters.received(1, splitter.rest_bytes());
                counters.dropped(DropReason::BadRequest, 1);
                counters.dropped_bytes(DropReason::BadRequest, splitter.rest_bytes());
                return Err(keeper.said(unreadable(error)));
            }
        }
    }
    keeper.settle(0)?;
    Ok(keeper.kept)
}

/// Why a body could not be read: it was cut off (the connection says so), or its compression is broken.
fn unreadable(error: io::Error) -> ApiError {
    match error.downcast::<ApiError>() {
        Ok(error) => error,
        Err(error) => ApiError::bad_request(format!("the body cannot be decompressed: {error}")),
    }
}

/// Cuts a stream into blocks of whole lines.
#[derive(Default)]
struct Splitter {
    buffer: Vec<u8>,
    /// Bytes at the start of `buffer` that were handed out.
    taken: usize,
    /// In the rest of a line that is too long.
    skipping: bool,
    ended: bool,
}

impl Splitter {
    /// The next lines, each with its newline but the last of the stream. A line that is too long comes one byte longer
    /// than is kept, which the intake counts; its rest is skipped.
    fn next_block(&mut self, reader: &mut impl Read) -> io::Result<Option<&[u8]>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        loop {
            let old = self.buffer.len();
            if self.ended {
                self.taken = old;
                return Ok(Some(&self.buffer[..]).filter(|rest| !rest.is_empty()));
            }
            self.buffer.resize(old + BLOCK_BYTES, 0);
            let read = reader.read(&mut self.buffer[old..]);
            self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.skipping {
                // `old` is the length of the cut line's start, which is still here without a newline.
                match memchr::memchr(b'\n', &self.buffer[old..]) {
                    Some(newline) => {
                        self.buffer.drain(old..old + newline);
                        self.skipping = false;
                    }
                    None => self.buffer.truncate(old),
                }
            }
            if let Some(newline) =
                memchr::memrchr(b'\n', &self.buffer[old.min(self.buffer.len())..])
            {
                self.taken = old + newline + 1;
                return Ok(Some(&self.buffer[..self.taken]));
            }
            if self.buffer.len() > LINE_BYTES_MAX + 1 {
                self.buffer.truncate(LINE_BYTES_MAX + 1);
                self.skipping = true;
            }
        }
    }

    /// Bytes of a line that did not come whole.
    fn rest_bytes(&self) -> u64 {
        (self.buffer.len() - self.taken) as u64
    }
}

/// Hands blocks to the intake and counts what became durable, in order.
struct Keeper<'a> {
    work: &'a Work,
    waiting: VecDeque<(Ticket, Counts)>,
    waiting_bytes: usize,
    kept: Counts,
}

impl Keeper<'_> {
    fn push(&mut self, block: &[u8]) -> ApiResult<()> {
        let joined;
        let block = if self.work.origin.format == Format::Json && has_blank_line(block) {
            joined = without_blank_lines(block);
            &joined[..]
        } else {
            block
        };
        let newlines = memchr::memchr_iter(b'\n', block).count() as u64;
        let unterminated = block.last().is_some_and(|&last| last != b'\n');
        let counts = Counts {
            lines: newlines + u64::from(unterminated),
            bytes: block.len() as u64 - newlines,
        };
        if counts.lines == 0 {
            return Ok(());
        }
        if self.work.debug {
            self.work.pipeline.show_parsed(&self.work.origin, block);
            self.kept.lines += counts.lines;
            self.kept.bytes += counts.bytes;
            return Ok(());
        }
        let ticket = self.work.pipeline.push_http(&self.work.origin, block);
        self.waiting.push_back((ticket, counts));
        self.waiting_bytes += counts.bytes as usize;
        self.settle(UNACKNOWLEDGED_BYTES_MAX)
    }

    /// Waits until at most so many bytes are not durable.
    fn settle(&mut self, bytes_max: usize) -> ApiResult<()> {
        while self.waiting_bytes > bytes_max || (bytes_max == 0 && !self.waiting.is_empty()) {
            let (ticket, counts) = self.waiting.pop_front().expect("something waits");
            self.waiting_bytes -= counts.bytes as usize;
            ticket.wait().map_err(|error| self.said(refused(&error)))?;
            self.kept.lines += counts.lines;
            self.kept.bytes += counts.bytes;
        }
        Ok(())
    }

    /// An error that says what was kept.
    fn said(&self, error: ApiError) -> ApiError {
        error.with("lines", self.kept.lines).with("bytes", self.kept.bytes)
    }
}

fn refused(error: &DeliverError) -> ApiError {
    let status = match error {
        DeliverError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        DeliverError::Closed => StatusCode::SERVICE_UNAVAILABLE,
        DeliverError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, error.to_string())
}

/// Whether a line has nothing but blanks in it; may say so of a block in which that is only part of a line.
fn has_blank_line(block: &[u8]) -> bool {
    let blank_start = block.first().is_some_and(u8::is_ascii_whitespace);
    blank_start
        || memchr::memchr_iter(b'\n', block)
            .any(|at| block.get(at + 1).is_some_and(u8::is_ascii_whitespace))
}

/// Blank lines between JSON objects are no records.
fn without_blank_lines(block: &[u8]) -> Vec<u8> {
    let lines = block.split_inclusive(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its pieces one by one.
    struct Pieces(VecDeque<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front() else { return Ok(0) };
            assert!(piece.len() <= buffer.len());
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    fn lines_of(text: &[u8], piece_bytes: usize) -> Vec<Vec<u8>> {
        let mut pieces = Pieces(text.chunks(piece_bytes).map(<[u8]>::to_vec).collect());
        let mut splitter = Splitter::default();
        let mut lines: Vec<Vec<u8>> = Vec::new();
        while let Some(block) = splitter.next_block(&mut pieces).unwrap() {
            assert!(!block.is_empty());
            lines.extend(block.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec));
        }
        lines
    }

    #[test]
    fn lines_do_not_depend_on_how_they_came() {
        for text in ["", "a", "a\n", "a\nb", "\n\na\r\nlonger line\n\n", "a\nlast"] {
            let expected: Vec<Vec<u8>> =
                text.as_bytes().split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            for piece_bytes in 1..8 {
                assert_eq!(
                    lines_of(text.as_bytes(), piece_bytes),
                    expected,
                    "{text:?} by {piece_bytes}"
                );
            }
        }
    }

    #[test]
    fn lines_are_cut_one_byte_above_the_limit() {
        let most = LINE_BYTES_MAX;
        for (length, kept) in
            [(most - 1, most - 1), (most, most), (most + 1, most + 1), (most + 300_000, most + 1)]
        {
            let mut text = b"before\n".to_vec();
            text.resize(text.len() + length, b'x');
            text.extend_from_slice(b"\nbehind\n");
            let lines: Vec<usize> = lines_of(&text, 200_001).iter().map(Vec::len).collect();
            assert_eq!(lines, [7, kept + 1, 7], "{length}");
            text.truncate(text.len() - 8);
            let lines: Vec<usize> = lines_of(&text, 200_001).iter().map(Vec::len).collect();
            assert_eq!(lines, [7, kept], "{length} at the end");
        }
    }

    #[test]
    fn blank_lines_are_found_and_left_out() {
        for (block, expected) in [
            ("{}\n{}\n", "{}\n{}\n"),
            ("\n{}\n", "{}\n"),
            ("{}\n\n{}", "{}\n{}"),
            ("{}\r\n\r\n {}\n", "{}\r\n {}\n"),
            ("\n", ""),
        ] {
            assert_eq!(without_blank_lines(block.as_bytes()), expected.as_bytes());
            assert!(block == expected || has_blank_line(block.as_bytes()), "{block:?}");
        }
    }
}
