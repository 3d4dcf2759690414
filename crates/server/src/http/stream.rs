//! Answers with the rows of a query as they come.
//!
//! A query runs on a thread of its own. Its rows come through a bounded channel, so that a slow client slows its query
//! and nothing grows; a client that goes away ends it. While it waits for its client it can be cancelled, and its time runs.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use query::{Query, RunError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::ask::{Asked, Client, Running, reading_thread};
use super::error::{ApiError, ApiResult};
use crate::export::{Encoder, Format, NoLine};

/// Pieces of an answer between the query and the connection. Beyond them the query waits for the client.
pub const CHUNKS_MAX: usize = 8;
/// Bytes of a piece. A row group of Parquet is many pieces.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// How often a query that waits for its client looks whether it may go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Names the query's entry in the queue.
const QUERY_ID: &str = "x-loginson-query-id";

/// Answers with the rows of `query`, which has its place in the queue by `asked`.
pub async fn stream(asked: Asked, query: Query, format: Format) -> ApiResult {
    let client = Client::default();
    let link = client.link();
    let (sender, mut chunks) = mpsc::channel::<Bytes>(CHUNKS_MAX);
    let (tell_id, id) = oneshot::channel();
    let (tell_failure, failure) = oneshot::channel();
    let running = reading_thread(move || {
        let encoder = Encoder::new(format);
        let mut writer = Writer { encoder, sender, sent: false, no_line: None };
        let outcome = asked.run(&link, |running| {
            // When it is not taken the client is gone, which ends the query anyway.
            let _ = tell_id.send(running.id);
            writer.run(&query, running)
        });
        let outcome = match writer.no_line.take() {
            Some(error) => Err(ApiError::bad_request(error.to_string())),
            None => outcome,
        };
        match outcome {
            Err(error) if writer.sent => {
                // Nobody takes it when the client is gone.
                let _ = tell_failure.send(writer.failure(&error));
                Ok(())
            }
            outcome => outcome,
        }
    });
    let Some(first) = chunks.recv().await else {
        // It ended without a row.
        running.await?;
        return Ok(rows_answer(id.await.ok(), format, Body::empty()));
    };
    let chunks = tokio_stream::once(first).chain(ReceiverStream::new(chunks)).map(Ok);
    // Behind the channel, which a client that reads slowly keeps full.
    let failure = tokio_stream::once(failure).then(|failure| failure).filter_map(Result::ok);
    let chunks = chunks.chain(failure);
    // The client is there as long as somebody holds the answer.
    let chunks = chunks.map(move |chunk| {
        let _ = &client;
        chunk
    });
    Ok(rows_answer(id.await.ok(), format, Body::from_stream(chunks)))
}

/// An answer of rows.
pub fn rows_answer(id: Option<u64>, format: Format, body: Body) -> Response {
    let mut response = ([(CONTENT_TYPE, format.media_type())], body).into_response();
    if let Some(id) = id {
        response.headers_mut().insert(QUERY_ID, id.into());
    }
    response
}

/// Writes rows into the channel.
struct Writer {
    encoder: Encoder,
    sender: mpsc::Sender<Bytes>,
    sent: bool,
    /// Why the query was ended by us.
    no_line: Option<NoLine>,
}

impl Writer {
    fn run(&mut self, query: &Query, running: &Running) -> Result<(), RunError> {
        let outcome = query::run(query, running.source(), &running.context, &mut |rows| {
            let mut chunk = Vec::with_capacity(rows.len() * 256);
            if let Err(error) = self.encoder.push(&rows, &mut chunk) {
                self.no_line = Some(error);
                return ControlFlow::Break(());
            }
            self.send(chunk, running)
        })?;
        let mut rest = Vec::new();
        if !outcome.stopped {
            self.encoder.finish(&mut rest);
        }
        if outcome.stopped || self.send(rest, running).is_break() {
            // It was ended while it waited for its client, or the connection is gone.
            running.check()?;
            return Err(RunError::Cancelled);
        }
        Ok(())
    }

    fn send(&mut self, bytes: Vec<u8>, running: &Running) -> ControlFlow<()> {
        let runtime = tokio::runtime::Handle::current();
        let mut bytes = Bytes::from(bytes);
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES_MAX));
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

    /// The end of an answer that is not complete. Where the format has no place for a reason the connection breaks.
    fn failure(&mut self, error: &ApiError) -> io::Result<Bytes> {
        let mut last = Vec::new();
        match self.encoder.fail(&error.to_string(), &mut last) {
            true => Ok(last.into()),
            false => Err(io::Error::other(error.to_string())),
        }
    }
}
