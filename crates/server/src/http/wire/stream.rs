//! Answers with the rows of a query as they come.
//!
//! A query runs on a thread of its own. Its rows come through a bounded channel, so that a slow
//! client slows its query and nothing grows; a client that goes away ends it. While it waits for
//! its client it can be cancelled, and its time runs.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use query::{Meter, Query, RowKey, Rows, RunError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::http::queries::ask::{Asked, Client, Running, reading_thread};
use crate::http::wire::error::{ApiError, ApiResult};
use crate::queries::export::{self, ColumnsError, Cursor, Encoder, Format};

/// Pieces of an answer between the query and the connection. Beyond them the query waits for the
/// client.
pub const CHUNKS_MAX: usize = 8;
/// Bytes of a piece. A row group of Parquet is many pieces.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes that are written and not counted as memory of the query.
const UNCOUNTED_BYTES_MAX: usize = 1 << 20;
/// Bytes that are worth a piece with a cursor of its own.
const PIECE_BYTES: usize = 256 << 10;
/// How often a query that waits for its client looks whether it may go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Names the query's entry in the queue.
const QUERY_ID: &str = "x-loginson-query-id";

/// An answer that can be gone on with.
pub struct Pieces {
    /// Whether each piece is sent with its cursor: a line `BYTES CURSOR` before so many bytes, and
    /// `0 CURSOR` as the last line of an answer that is complete. A line `! MESSAGE` says why it is
    /// not.
    pub framed: bool,
    /// Where this answer begins.
    pub cursor: Cursor,
    /// Whether rows came before.
    pub goes_on: bool,
}

/// Answers with the rows of `query`, which has its place in the queue by `asked`.
pub async fn stream(
    asked: Asked,
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
        let outcome = asked.run(&link, |running| {
            // When it is not taken the client is gone, which ends the query anyway.
            let _ = tell_id.send(running.id);
            writer.run(&query, running)
        });
        let outcome = match writer.refusal.take() {
            Some(refusal) => Err(ApiError::bad_request(refusal)),
            None => outcome,
        };
        // Nobody takes it when the client is gone.
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
    let chunks = tokio_stream::once(first).chain(ReceiverStream::new(chunks)).map(Ok);
    // Behind the channel, which a client that reads slowly keeps full.
    let chunks = chunks.chain(tokio_stream::once(end).then(last).filter_map(|last| last));
    // The client is there as long as somebody holds the answer.
    let chunks = chunks.map(move |chunk| {
        let _ = &client;
        chunk
    });
    Ok(rows_answer(id.await.ok(), media_type, Body::from_stream(chunks)))
}

/// What comes behind the last row: nothing, or why the answer is not complete. Whoever ends without
/// a word has panicked.
async fn last(end: oneshot::Receiver<Option<io::Result<Bytes>>>) -> Option<io::Result<Bytes>> {
    let panicked = || Some(Err(io::Error::other("the query ended by a bug")));
    end.await.unwrap_or_else(|_| panicked())
}

/// An answer of rows.
pub fn rows_answer(id: Option<u64>, media_type: &'static str, body: Body) -> Response {
    let mut response = ([(CONTENT_TYPE, media_type)], body).into_response();
    if let Some(id) = id {
        response.headers_mut().insert(QUERY_ID, id.into());
    }
    response
}

/// Writes rows into the channel.
struct Writer {
    format: Format,
    /// There once the query runs.
    encoder: Option<Encoder>,
    pieces: Option<Pieces>,
    sender: mpsc::Sender<Bytes>,
    sent: bool,
    /// Why the query was ended by us.
    refusal: Option<String>,
}

impl Writer {
    fn run(&mut self, query: &Query, running: &Running) -> Result<(), RunError> {
        let columns = self.columns(query, running)?;
        let goes_on = self.pieces.as_ref().is_some_and(|pieces| pieces.goes_on);
        let mut encoder = Encoder::new(self.format, columns, !goes_on);
        let mut written =
            Written { bytes: Vec::new(), meter: Meter::new(&running.context), counted: 0 };
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
            // It was ended while it waited for its client, or the connection is gone.
            running.check()?;
            return Err(RunError::Cancelled);
        }
        Ok(())
    }

    /// Writes rows, and sends what is enough; a large row by itself.
    fn take(
        &mut self,
        rows: &Rows,
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
            // A cursor is known of the last row only.
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

    /// The columns of CSV. Those of an answer that goes on must be those that were.
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
                    "the rows have other fields than when the export began; name the columns by `| fields` at the end of the \
                     query, and begin again without a cursor"
                        .to_owned(),
                );
                return Err(RunError::Cancelled);
            }
            cursor.columns = Some(sum);
        }
        Ok(columns)
    }

    /// Sends rows, the last of which stands at `key`.
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

    /// Sends the last rows, and says that they are the last.
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
        let runtime = tokio::runtime::Handle::current();
        let mut bytes = Bytes::from(bytes);
        let is_large = bytes.len() > CHUNK_BYTES_MAX;
        while !bytes.is_empty() {
            let mut chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES_MAX));
            if is_large {
                // A part of it would hold the whole until it is sent.
                chunk = Bytes::copy_from_slice(&chunk);
            }
            self.sent = true;
            let place = loop {
                let place = timeout(CHECK_INTERVAL, self.sender.reserve());
                match runtime.block_on(place) {
                    Ok(Ok(place)) => break place,
                    Ok(Err(_)) => return ControlFlow::Break(()),
                    Err(_) if running.check().is_err() => return ControlFlow::Break(()),
                    Err(_) => {}
                }
            };
            place.send(chunk);
        }
        ControlFlow::Continue(())
    }

    /// The end of an answer that is not complete. Where the format has no place for a reason the
    /// connection breaks.
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

/// Rows that are written and not sent; what is large is counted as memory of the query.
struct Written {
    bytes: Vec<u8>,
    meter: Meter,
    counted: usize,
}

impl Written {
    /// Makes room for a row of about so many bytes.
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
    use super::*;

    /// An answer that broke off must not look whole, whatever broke it.
    #[tokio::test]
    async fn the_end_of_an_answer() {
        let (tell, end) = oneshot::channel();
        tell.send(None).unwrap();
        assert!(last(end).await.is_none(), "it is whole");
        let (tell, end) = oneshot::channel();
        tell.send(Some(Ok(Bytes::from_static(b"why")))).unwrap();
        assert_eq!(last(end).await.unwrap().unwrap(), "why");
        let (tell, end) = oneshot::channel();
        let panics = std::thread::spawn(move || {
            let _tell: oneshot::Sender<Option<io::Result<Bytes>>> = tell;
            panic!("a test of what happens then");
        });
        assert!(panics.join().is_err());
        assert!(last(end).await.unwrap().is_err(), "the connection breaks");
    }
}
