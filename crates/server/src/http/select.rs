//! Everything under `/select/logsql/`: one file for each group of calls, `query` here.
//!
//! A query runs on a thread of its own. Its rows come through a bounded channel, so that a slow client slows its query
//! and nothing grows; a client that goes away ends it. While it waits for its client it can be cancelled, and its time runs.

mod counts;
mod stats;
mod tail;

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use query::{Query, Rows, RunError, Scratch};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::ask::{Asked, Client, Running, broken};
use super::error::{ApiError, ApiResult};
use super::params::Params;

/// Pieces of an answer between the query and the connection. Beyond them the query waits for the client.
const CHUNKS_MAX: usize = 8;
/// How often a query that waits for its client looks whether it may go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Names the query's entry in the queue.
const QUERY_ID: &str = "x-loginson-query-id";
/// The type of JSON lines.
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/stream+json");

/// The routes below `/select/logsql/`.
pub fn routes() -> Router<Arc<App>> {
    let both = |path: &str| format!("/select/logsql/{path}");
    Router::new()
        .route(&both("query"), get(query).merge(post(query)))
        .merge(counts::routes())
        .merge(stats::routes())
        .merge(tail::routes())
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Raw,
}

async fn query(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    params: Params,
) -> ApiResult {
    let now_ns = super::now_ns();
    let query = params.query(now_ns)?;
    let mut asked = Asked::of_query(&app, "query", &params, peer, now_ns)?;
    asked.context.limit = params.number("limit")?;
    asked.context.offset = params.number("offset")?.unwrap_or(0);
    asked.context.include = params.include()?;
    let format = match params.get("format") {
        None | Some("json") => Format::Json,
        Some("raw") => Format::Raw,
        Some(other) => {
            return Err(ApiError::bad_request(format!("format: '{other}' is not json or raw")));
        }
    };
    if format == Format::Raw {
        asked.context.include = vec!["_raw".into()];
    }
    stream(asked, query, format).await
}

/// Answers with rows as they come.
async fn stream(asked: Asked, query: Query, format: Format) -> ApiResult {
    let client = Client::default();
    let link = client.link();
    let (sender, mut chunks) = mpsc::channel::<Bytes>(CHUNKS_MAX);
    let (tell_id, id) = oneshot::channel();
    let (tell_failure, failure) = oneshot::channel();
    let running = tokio::task::spawn_blocking(move || {
        let mut writer = Writer { format, scratch: Scratch::default(), sender, sent: false };
        let outcome = asked.run(&link, |running| {
            // When it is not taken the client is gone, which ends the query anyway.
            let _ = tell_id.send(running.id);
            writer.run(&query, running)
        });
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
        running.await.unwrap_or_else(|_| Err(broken()))?;
        return Ok(rows_answer(id.await.ok(), Body::empty()));
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
    Ok(rows_answer(id.await.ok(), Body::from_stream(chunks)))
}

/// An answer of JSON lines, or raw lines.
fn rows_answer(id: Option<u64>, body: Body) -> Response {
    let mut response = ([(CONTENT_TYPE, JSON_LINES)], body).into_response();
    if let Some(id) = id {
        response.headers_mut().insert(QUERY_ID, id.into());
    }
    response
}

/// Writes rows into the channel.
struct Writer {
    format: Format,
    scratch: Scratch,
    sender: mpsc::Sender<Bytes>,
    sent: bool,
}

impl Writer {
    fn run(&mut self, query: &Query, running: &Running) -> Result<(), RunError> {
        let outcome = query::run(query, running.source(), &running.context, &mut |rows| {
            self.send(&rows, running)
        })?;
        if outcome.stopped {
            // It was ended while it waited for its client, or the connection is gone.
            running.check()?;
            return Err(RunError::Cancelled);
        }
        Ok(())
    }

    fn send(&mut self, rows: &Rows, running: &Running) -> ControlFlow<()> {
        let mut chunk = Vec::with_capacity(rows.len() * 256);
        for index in 0..rows.len() {
            match self.format {
                Format::Json => write_row(rows, index, &mut self.scratch, &mut chunk),
                Format::Raw => {
                    // Rows that pipes made are no lines and have none.
                    chunk.extend_from_slice(rows.raw(index).unwrap_or_default());
                    chunk.push(b'\n');
                }
            }
        }
        self.sent = true;
        let runtime = tokio::runtime::Handle::current();
        loop {
            let place = timeout(CHECK_INTERVAL, self.sender.reserve());
            match runtime.block_on(place) {
                Ok(Ok(place)) => {
                    place.send(chunk.into());
                    return ControlFlow::Continue(());
                }
                Ok(Err(_)) => return ControlFlow::Break(()),
                Err(_) if running.check().is_err() => return ControlFlow::Break(()),
                Err(_) => {}
            }
        }
    }

    /// The end of an answer that is not complete. Raw lines have no place for a reason: the connection breaks.
    fn failure(&self, error: &ApiError) -> io::Result<Bytes> {
        match self.format {
            Format::Json => {
                Ok(format!("{}\n", serde_json::json!({ "_error": error.to_string() })).into())
            }
            Format::Raw => Err(io::Error::other(error.to_string())),
        }
    }
}

/// Appends row `index` as one line of JSON.
fn write_row(rows: &Rows, index: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let mut before = b'{';
    rows.visit(index, scratch, |name, value| {
        out.push(before);
        before = b',';
        write_text(name, out);
        out.push(b':');
        write_text(&String::from_utf8_lossy(value), out);
    });
    if before == b'{' {
        out.push(b'{');
    }
    out.extend_from_slice(b"}\n");
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}
