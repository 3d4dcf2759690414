//! Responses that stream the rows of a query.
//!
//! A query runs on a thread of its own. Its rows pass through a bounded channel, so that a slow
//! client slows its query down and memory stays bounded; if the client goes away, the query ends.
//! While it waits for its client it can be cancelled, and its run time counts.

use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use query::{Meter, Query, ResultRows, RowKey, RunError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};

use crate::queries::run::{Client, PendingQuery, Running, reading_thread};
use crate::wire::error::{ApiError, ApiResult};
use node::queries::export::{self, ColumnsError, Cursor, Encoder, Format};

/// Limit of the chunks of a response between the query and the connection. Beyond it the query
/// waits for the client.
pub const CHUNKS_MAX: usize = 8;
/// Size of a chunk. A row group of Parquet is many chunks.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Encoded bytes that are not counted as memory of the query.
const UNCOUNTED_BYTES_MAX: usize = 1 << 20;
/// Size at which a piece with a cursor of its own is sent.
const PIECE_BYTES: usize = 256 << 10;
/// How often a query that waits for its client checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The header with the id of the query's entry in the queue.
const QUERY_ID: &str = "x-loginson-query-id";

/// A response that can be resumed.
pub struct Pieces {
    /// Whether each piece is sent with its cursor: a line `BYTES CURSOR` in front of that many
    /// bytes, and `0 CURSOR` as the last line of a complete response. A line `! MESSAGE` says why a
    /// response is incomplete.
    pub framed: bool,
    /// Where this answer begins.
    pub cursor: Cursor,
    /// Whether it continues an earlier response.
    pub resumes: bool,
}

/// Responds with the rows of `query`.
pub async fn stream(
    pending: PendingQuery,
    query: Query,
    format: Format,
    pieces: Option<Pieces>,
) -> ApiResult {
    let client = Client::default();
    let link = client.link();
    let framed = pieces.as_ref().is_some_and(|pieces| pieces.framed);
    let (sender, mut chunks) = mpsc::channel::<Bytes>(CHUNKS_MAX);
    let (tell_id, id) = oneshot::channel();
    let (tell_end, end) = oneshot::channel();
    let running = reading_thread(move || {
        let mut writer =
            Writer { format, encoder: None, pieces, sender, sent: false, refusal: None };
        let outcome = pending.run(&link, |running| {
            // If nobody receives it, the client is gone, which ends the query anyway.
            let _ = tell_id.send(running.id);
            writer.run(&query, running)
        });
        let outcome = match writer.refusal.take() {
            Some(refusal) => Err(ApiError::bad_request(refusal)),
            None => outcome,
        };
        // If nobody receives it, the client is gone.
        match outcome {
            Err(error) if writer.sent => {
                let _ = tell_end.send(Some(writer.broken_off(&error)));
                Ok(())
            }
            outcome => {
                let _ = tell_end.send(None);
                outcome
            }
        }
    });
    let media_type = if framed { "application/octet-stream" } else { format.media_type() };
    let Some(first) = chunks.recv().await else {
        // It ended without a row.
        running.await?;
        return Ok(rows_answer(id.await.ok(), media_type, Body::empty()));
    };
    let body = body(first, chunks, end, client);
    Ok(rows_answer(id.await.ok(), media_type, body))
}

/// A response that begins with `first`. A short query has ended when its first chunk is seen here:
/// then its answer is one piece, with its length in the head, and the client is not woken twice.
fn body(
    first: Bytes,
    mut chunks: mpsc::Receiver<Bytes>,
    mut end: oneshot::Receiver<Option<io::Result<Bytes>>>,
    client: Client,
) -> Body {
    let ended = match end.try_recv() {
        Ok(last) => Some(last),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Closed) => Some(panicked()),
    };
    // What was sent before the end is here by now.
    let second = chunks.try_recv().ok();
    if matches!(ended, Some(None)) && second.is_none() {
        return Body::from(first);
    }
    let begin = tokio_stream::iter(std::iter::once(first).chain(second));
    // After the channel's end, because a client that reads slowly keeps the channel full.
    let end = tokio_stream::once((ended, end)).then(|(ended, end)| async move {
        match ended {
            Some(last) => last,
            None => last(end).await,
        }
    });
    let chunks =
        begin.chain(ReceiverStream::new(chunks)).map(Ok).chain(end.filter_map(|last| last));
    Body::from_stream(Present { _client: client, chunks: Box::pin(chunks) })
}

/// The chunks of a response. The client counts as present as long as it exists.
struct Present<S> {
    /// Is dropped before the chunks, so that a query that cannot send any more knows why.
    _client: Client,
    chunks: Pin<Box<S>>,
}

impl<S: Stream> Stream for Present<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.chunks.as_mut().poll_next(context)
    }
}

/// The end of the response, after the last row: nothing, or an error that makes it incomplete. A
/// query thread that ended without a word has panicked.
async fn last(end: oneshot::Receiver<Option<io::Result<Bytes>>>) -> Option<io::Result<Bytes>> {
    end.await.unwrap_or_else(|_| panicked())
}

fn panicked() -> Option<io::Result<Bytes>> {
    Some(Err(io::Error::other("the query ended because of a bug")))
}

/// A response with rows.
pub fn rows_answer(id: Option<u64>, media_type: &'static str, body: Body) -> Response {
    let mut response = ([(CONTENT_TYPE, media_type)], body).into_response();
    if let Some(id) = id {
        response.headers_mut().insert(QUERY_ID, id.into());
    }
    response
}

/// Encodes rows into the channel.
struct Writer {
    format: Format,
    /// Set once the query runs.
    encoder: Option<Encoder>,
    pieces: Option<Pieces>,
    sender: mpsc::Sender<Bytes>,
    sent: bool,
    /// The reason, if this ended the query.
    refusal: Option<String>,
}

impl Writer {
    fn run(&mut self, query: &Query, running: &Running) -> Result<(), RunError> {
        let columns = self.columns(query, running)?;
        let resumes = self.pieces.as_ref().is_some_and(|pieces| pieces.resumes);
        let mut encoder = Encoder::new(self.format, columns, !resumes);
        let mut written = Written { bytes: Vec::new(), meter: running.context.meter(), counted: 0 };
        encoder.begin(&mut written.bytes);
        self.encoder = Some(encoder);
        let mut key = None;
        let mut failed = None;
        let outcome = query::run(
            query,
            running.source(),
            &running.context,
            &mut |rows| match self.take(&rows, &mut key, &mut written, running) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(error) = failed {
            return Err(error);
        }
        let bytes = &mut written.bytes;
        if !outcome.stopped {
            self.encoder.as_mut().expect("it was set above").finish(bytes);
        }
        let bytes = std::mem::take(bytes);
        if outcome.stopped || self.finish(bytes, key, running).is_break() {
            // The query was ended while it waited for its client, or the connection is gone.
            running.check()?;
            return Err(RunError::Cancelled);
        }
        Ok(())
    }

    /// Encodes rows, and sends them once they are enough; a large row is sent by itself.
    fn take(
        &mut self,
        rows: &ResultRows,
        key: &mut Option<RowKey>,
        written: &mut Written,
        running: &Running,
    ) -> Result<ControlFlow<()>, RunError> {
        let framed = self.framed();
        let encoder = self.encoder.as_mut().expect("it was set by the caller");
        if encoder.format() == Format::Parquet {
            written.room(encoder.text_bytes_of_all(rows))?;
            if let Err(error) = encoder.push(rows, &mut written.bytes) {
                self.refusal = Some(error.to_string());
                return Ok(ControlFlow::Break(()));
            }
            return Ok(self.send_written(written, None, running));
        }
        for index in 0..rows.len() {
            let encoder = self.encoder.as_mut().expect("it was set by the caller");
            written.room(encoder.text_bytes(rows, index))?;
            if let Err(error) = encoder.push_row(rows, index, &mut written.bytes) {
                self.refusal = Some(error.to_string());
                return Ok(ControlFlow::Break(()));
            }
            // Only the last row has a known cursor.
            let enough = !framed && written.bytes.len() >= PIECE_BYTES;
            if enough && self.send_written(written, None, running).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        *key = rows.last_key().or(*key);
        match !framed || written.bytes.len() >= PIECE_BYTES {
            true => Ok(self.send_written(written, *key, running)),
            false => Ok(ControlFlow::Continue(())),
        }
    }

    fn send_written(
        &mut self,
        written: &mut Written,
        key: Option<RowKey>,
        running: &Running,
    ) -> ControlFlow<()> {
        let flow = self.send(std::mem::take(&mut written.bytes), key, running);
        written.meter.give_back(std::mem::take(&mut written.counted));
        flow
    }

    fn framed(&self) -> bool {
        self.pieces.as_ref().is_some_and(|pieces| pieces.framed)
    }

    /// The columns of CSV. A resumed response must have the columns of the earlier one.
    fn columns(&mut self, query: &Query, running: &Running) -> Result<Vec<String>, RunError> {
        if self.format != Format::Csv {
            return Ok(Vec::new());
        }
        let found = export::columns(query, running.source(), &running.context);
        let columns = match found {
            Ok(columns) => columns,
            Err(ColumnsError::Run(error)) => return Err(error),
            Err(ColumnsError::TooMany) => {
                self.refusal = Some(ColumnsError::TooMany.to_string());
                return Err(RunError::Cancelled);
            }
        };
        if let Some(Pieces { cursor, .. }) = &mut self.pieces {
            let sum = export::checksum(&columns);
            if cursor.columns.is_some_and(|before| before != sum) {
                self.refusal = Some(
                    "the rows have other fields than at the start of the export; name the columns by `| fields` at the end of the \
                     query, and begin again without a cursor"
                        .to_owned(),
                );
                return Err(RunError::Cancelled);
            }
            cursor.columns = Some(sum);
        }
        Ok(columns)
    }

    /// Sends rows; `key` is the position of the last one.
    fn send(&mut self, bytes: Vec<u8>, key: Option<RowKey>, running: &Running) -> ControlFlow<()> {
        match &self.pieces {
            Some(Pieces { framed: true, cursor, .. }) => {
                let cursor = key.map_or_else(|| cursor.clone(), |key| cursor.after(key));
                let head = format!("{} {cursor}\n", bytes.len()).into_bytes();
                self.pass(head, running)?;
                self.pass(bytes, running)
            }
            _ => self.pass(bytes, running),
        }
    }

    /// Sends the last rows, marked as the last.
    fn finish(
        &mut self,
        bytes: Vec<u8>,
        key: Option<RowKey>,
        running: &Running,
    ) -> ControlFlow<()> {
        if !bytes.is_empty() {
            self.send(bytes, key, running)?;
        }
        match &self.pieces {
            Some(Pieces { framed: true, cursor, .. }) => {
                let last = format!("0 {}\n", cursor.behind_the_end());
                self.pass(last.into_bytes(), running)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pass(&mut self, bytes: Vec<u8>, running: &Running) -> ControlFlow<()> {
        let mut bytes = Bytes::from(bytes);
        let is_large = bytes.len() > CHUNK_BYTES_MAX;
        while !bytes.is_empty() {
            let mut chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES_MAX));
            if is_large {
                // A slice of the chunk would keep all of it in memory until it is sent.
                chunk = Bytes::copy_from_slice(&chunk);
            }
            self.sent = true;
            let slot = match self.sender.try_reserve() {
                Ok(slot) => slot,
                Err(TrySendError::Closed(())) => return ControlFlow::Break(()),
                Err(TrySendError::Full(())) => self.wait_for_slot(running)?,
            };
            slot.send(chunk);
        }
        ControlFlow::Continue(())
    }

    /// Waits for the client to take a chunk.
    fn wait_for_slot(&self, running: &Running) -> ControlFlow<(), mpsc::Permit<'_, Bytes>> {
        let runtime = tokio::runtime::Handle::current();
        loop {
            let slot = timeout(CHECK_INTERVAL, self.sender.reserve());
            match runtime.block_on(slot) {
                Ok(Ok(slot)) => return ControlFlow::Continue(slot),
                Ok(Err(_)) => return ControlFlow::Break(()),
                Err(_) if running.check().is_err() => return ControlFlow::Break(()),
                Err(_) => {}
            }
        }
    }

    /// The end of an incomplete response. If the format has no way to give a reason, the connection
    /// is aborted.
    fn broken_off(&mut self, error: &ApiError) -> io::Result<Bytes> {
        if self.framed() {
            return Ok(format!("! {}\n", error.to_string().replace('\n', " ")).into());
        }
        let mut last = Vec::new();
        let encoder = self.encoder.as_mut().expect("it wrote what was sent");
        match encoder.fail(&error.to_string(), &mut last) {
            true => Ok(last.into()),
            false => Err(io::Error::other(error.to_string())),
        }
    }
}

/// Rows that are encoded and not sent; what is large is counted as memory of the query.
struct Written {
    bytes: Vec<u8>,
    meter: Meter,
    counted: usize,
}

impl Written {
    /// Makes room for a row of about `bytes` bytes.
    fn room(&mut self, bytes: usize) -> Result<(), RunError> {
        let needed = self.bytes.len() + bytes;
        if needed > UNCOUNTED_BYTES_MAX && needed > self.counted {
            self.meter.take(needed - self.counted)?;
            self.counted = needed;
            self.bytes.reserve_exact(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody;

    use super::*;

    #[tokio::test]
    async fn the_answer_of_a_query_that_has_ended_has_its_length() {
        let check = async |second: bool, ended: Option<bool>, length: Option<u64>, text: &str| {
            let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
            let (tell, end) = oneshot::channel();
            if second {
                sender.try_send(Bytes::from_static(b"second\n")).unwrap();
            }
            let end_it = |tell: oneshot::Sender<_>| {
                tell.send((ended == Some(false)).then(|| Ok(Bytes::from_static(b"why\n"))))
            };
            let mut later = Some(tell);
            if ended.is_some() {
                end_it(later.take().unwrap()).unwrap();
            }
            let body = body(Bytes::from_static(b"first\n"), chunks, end, Client::default());
            assert_eq!(body.size_hint().exact(), length);
            if let Some(tell) = later {
                sender.try_send(Bytes::from_static(b"later\n")).unwrap();
                end_it(tell).unwrap();
            }
            drop(sender);
            assert_eq!(axum::body::to_bytes(body, 1_000).await.unwrap(), text);
        };
        check(false, Some(true), Some(6), "first\n").await;
        check(true, Some(true), None, "first\nsecond\n").await;
        check(false, Some(false), None, "first\nwhy\n").await;
        check(false, None, None, "first\nlater\n").await;
        check(true, None, None, "first\nsecond\nlater\n").await;
    }

    /// A response that broke off must not look complete, whatever the reason.
    #[tokio::test]
    async fn the_end_of_an_answer() {
        let (tell, end) = oneshot::channel();
        tell.send(None).unwrap();
        assert!(last(end).await.is_none(), "it is complete");
        let (tell, end) = oneshot::channel();
        tell.send(Some(Ok(Bytes::from_static(b"why")))).unwrap();
        assert_eq!(last(end).await.unwrap().unwrap(), "why");
        let (tell, end) = oneshot::channel();
        let panics = std::thread::spawn(move || {
            let _tell: oneshot::Sender<Option<io::Result<Bytes>>> = tell;
            panic!("a test of what happens then");
        });
        assert!(panics.join().is_err());
        assert!(last(end).await.unwrap().is_err(), "the connection is aborted");
    }
}
