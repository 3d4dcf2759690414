//! `tail`: lines as they arrive, over a WebSocket (RFC 6455), as Grafana's live view and `logcli
//! query --tail` read them.
//!
//! It begins with the newest lines since `start`, up to `limit`, and continues with each batch as
//! soon as it is parsed. It is listed among the tails of the queue and can be cancelled there. A
//! client that reads more slowly than lines arrive misses some, and is told how many.
//!
//! A tail holds at most one message in memory, whatever the lines are: batches are read in pieces,
//! few at a time, and a line that is too long for a message is left out and reported. Left out:
//! past lines beyond [`RECENT_BYTES_MAX`], for which there are queries.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::query::source::TimeRange;
use ::query::{Context, LineSet, Query, Restriction, Scratch, TAIL, TailQuery};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use logql::ast::{Expr, LogQuery};
use logql::logs::{Entry, look};
use logql::{Reader, logs, push};
use record::Batch;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout, timeout_at};

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::loki::answer::{CATEGORIZE_LABELS, Text, write_streams};
use crate::loki::params::{self, QUERY_SINCE_NS};
use crate::loki::query::{categorizes, limit, parse};
use crate::loki::{LokiError, LokiResult};
use crate::queries::tails::TailPlace;
use crate::wire::error::ApiError;
use crate::wire::listen::raised;
use node::pipeline::Pipeline;
use node::queries::tails::TailBatch;

/// How often the client is pinged when there are no lines, so that no proxy takes the connection
/// for dead.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How often a tail checks whether it was cancelled.
const CANCEL_TICK: Duration = Duration::from_millis(100);
/// How long a message may wait for a client that reads nothing. Beyond it the tail ends.
const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// Limit of the lines of one message. Further lines follow in further messages.
const MESSAGE_LINES_MAX: usize = 500;
/// Bytes of lines and labels at which a message is sent, even if more lines are ready.
const MESSAGE_BYTES: usize = 256 << 10;
/// Limit of a line with its labels. A larger one is left out and reported.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Limit of the text of a message: escapes can make six bytes of one.
const TEXT_BYTES_MAX: usize = 8 * (MESSAGE_BYTES + ENTRY_BYTES_MAX);
/// Memory for the newest lines at the start of a tail. If they take more, the tail begins without
/// them.
const RECENT_BYTES_MAX: u64 = 4 << 20;
/// Tails that process lines at a time: each then holds a line and what the stages make of it.
/// Others wait.
const LOOKING_MAX: usize = 4;
static LOOKING: Semaphore = Semaphore::const_new(LOOKING_MAX);
/// Limit of a message from the client, which has nothing to say. A longer one ends the tail.
const CLIENT_BYTES_MAX: usize = 4_096;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::Read, "/loki/api/v1/tail", tail)
}

async fn tail(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    params: Params,
) -> LokiResult {
    let now_ns = crate::wire::clock::now_ns();
    let Expr::Log(query) = parse(&params)? else {
        return Err(LokiError::bad_request("only log queries can be followed"));
    };
    let start_ns = params::time(&params, "start")?.unwrap_or(now_ns - QUERY_SINCE_NS);
    let limit = limit(&params)?;
    let upgrade = upgrade.map_err(|rejection| {
        LokiError::bad_request(format!(
            "tail is a WebSocket, so an upgrade is needed: {}",
            rejection.body_text()
        ))
    })?;
    let categorize = categorizes(&headers);
    let pipeline = app.pipeline()?;
    let text = params.required("query")?;
    let permit = TailPlace::take(&app, &caller, text)?;
    audit::note_reading(&caller, TAIL, "tail begins", text);
    let restriction = params.restriction(now_ns)?;
    let pushed = Query::new(push::push(&query).filter, Vec::new());
    let tail = params
        .restricted(pushed, now_ns)?
        .tail(&[])
        .map_err(|error| LokiError::from(ApiError::internal(error.to_string())))?;
    let follower = Follower {
        query,
        restriction,
        pushed: tail,
        permit,
        categorize,
        reader: Reader::default(),
        scratch: Scratch::default(),
    };
    Ok(upgrade
        .max_message_size(CLIENT_BYTES_MAX)
        .max_frame_size(CLIENT_BYTES_MAX)
        .on_upgrade(move |socket| follower.follow(app, pipeline, socket, start_ns, limit)))
}

struct Follower {
    query: LogQuery,
    restriction: Restriction,
    pushed: TailQuery,
    permit: TailPlace,
    categorize: bool,
    reader: Reader,
    scratch: Scratch,
}

/// The client is gone, or the tail has to end for this reason.
struct Gone(Option<&'static str>);

impl Follower {
    async fn follow(
        mut self,
        app: Arc<App>,
        pipeline: Arc<Pipeline>,
        mut socket: WebSocket,
        start_ns: i64,
        limit: usize,
    ) {
        let wish = Arc::clone(&self.permit.cancelled);
        let mut stopping = app.stopping.clone();
        let mut context = Context { limits: app.query_options().limits, ..Context::default() };
        context.range = TimeRange { start_ns, end_ns: i64::MAX };
        context.cancelled = Arc::clone(&self.permit.cancelled);
        context.progress = Arc::clone(&self.permit.progress);
        context.restriction = self.restriction.clone();
        let gone = tokio::select! {
            gone = self.try_follow(&pipeline, &mut socket, context, limit) => gone,
            () = raised(&mut stopping) => Gone(Some("the server is shutting down")),
            () = async { while !wish.load(Relaxed) { tokio::time::sleep(CANCEL_TICK).await } } => {
                Gone(Some("the tail was cancelled"))
            }
        };
        let reason = gone.0.unwrap_or_default();
        let frame = CloseFrame { code: close_code::NORMAL, reason: reason.into() };
        // A client that reads nothing sees the end of the connection.
        let _ = timeout(Duration::from_secs(1), socket.send(Message::Close(Some(frame)))).await;
    }

    async fn try_follow(
        &mut self,
        pipeline: &Pipeline,
        socket: &mut WebSocket,
        context: Context,
        limit: usize,
    ) -> Gone {
        match self.follow_until_gone(pipeline, socket, context, limit).await {
            Ok(never) => match never {},
            Err(gone) => gone,
        }
    }

    async fn follow_until_gone(
        &mut self,
        pipeline: &Pipeline,
        socket: &mut WebSocket,
        context: Context,
        limit: usize,
    ) -> Result<std::convert::Infallible, Gone> {
        let (mut live, mut lines_total) = pipeline.parsing.follow();
        let mut context = context;
        let memory_bytes = &mut context.limits.memory_bytes_max;
        *memory_bytes = RECENT_BYTES_MAX.min(*memory_bytes);
        // These frames, hot and sealed, are read from the store; others are sent as they are
        // parsed.
        let stored = pipeline.stored.lines_now();
        let query = &self.query;
        let categorize = self.categorize;
        let turn = LOOKING.acquire().await.expect("never closed");
        let recent = tokio::task::block_in_place(|| {
            let source = pipeline.stored.clone();
            logs::run(query, &source, &context, limit, false, categorize)
        });
        drop(turn);
        match recent {
            Ok(mut recent) => {
                recent.retain(|entry| stored.contains(entry.sequence));
                recent.reverse();
                let mut rest = &recent[..];
                while !rest.is_empty() {
                    rest = self.send(socket, rest).await?;
                }
            }
            Err(error) => {
                let reason = format!("the tail begins without the last lines: {error}");
                self.send_left_out(socket, json!({ "reason": reason })).await?;
            }
        }
        let mut last_sent = Instant::now();
        loop {
            let received = tokio::select! {
                received = timeout_at(last_sent + PING_INTERVAL, live.recv()) => received,
                message = next(socket) => match message {
                    true => continue,
                    false => return Err(Gone(None)),
                },
            };
            match received {
                Err(_) => {
                    self.send_message(socket, Message::Ping(Vec::new().into())).await?;
                    last_sent = Instant::now();
                }
                Ok(Ok(TailBatch { batch, lines_total: total, .. })) => {
                    let lines = batch.len() as u64;
                    let skipped = (total - lines).saturating_sub(lines_total);
                    lines_total = total;
                    if skipped > 0 {
                        // Loki lists every dropped line; here only their number is known.
                        let lines = json!({ "lines_skipped": skipped.to_string() });
                        self.send_left_out(socket, lines).await?;
                    }
                    if self.show(socket, &batch, &stored).await? {
                        last_sent = Instant::now();
                    }
                }
                // With the next batch the number of missed lines is sent.
                Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => {
                    return Err(Gone(Some("the server is shutting down")));
                }
            }
        }
    }

    /// Sends the matching lines of a batch, in pieces; returns whether there were any.
    async fn show(
        &mut self,
        socket: &mut WebSocket,
        batch: &Arc<Batch>,
        stored: &LineSet,
    ) -> Result<bool, Gone> {
        let (selected, seen) = tokio::task::block_in_place(|| {
            let seen = self.restriction.seen(batch);
            let rows = self.pushed.selected(&seen, &mut self.scratch);
            let row_numbers = (0..rows.len()).filter_map(|index| Some(rows.line(index)?.1));
            (row_numbers.collect::<Vec<u32>>(), seen)
        });
        let batch = &seen;
        self.permit.progress.lines_scanned.fetch_add(batch.len() as u64, Relaxed);
        let mut rest = &selected[..];
        let mut any = false;
        while !rest.is_empty() {
            let turn = LOOKING.acquire().await.expect("never closed");
            let (entries, too_long, behind) =
                tokio::task::block_in_place(|| self.entries(batch, rest, stored));
            drop(turn);
            rest = behind;
            for bytes in too_long {
                self.send_too_long(socket, bytes).await?;
            }
            any |= !entries.is_empty();
            let mut unsent = &entries[..];
            while !unsent.is_empty() {
                unsent = self.send(socket, unsent).await?;
            }
        }
        Ok(any)
    }

    /// The entries of the first of these rows, about as many as go into a message; the sizes of
    /// those that are too long; and the remaining rows.
    fn entries<'p>(
        &mut self,
        batch: &Arc<Batch>,
        mut rows: &'p [u32],
        stored: &LineSet,
    ) -> (Vec<Entry>, Vec<usize>, &'p [u32]) {
        let (mut entries, mut too_long, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((&row, behind)) = rows.split_first()
            && bytes < MESSAGE_BYTES
        {
            rows = behind;
            let entry = look(&self.query, &mut self.reader, batch, row, self.categorize);
            if let Some(entry) = entry.filter(|entry| !stored.contains(entry.sequence)) {
                match entry.bytes() {
                    // It is not kept in memory while the client is awaited.
                    long if long > ENTRY_BYTES_MAX => too_long.push(long),
                    fits => {
                        bytes += fits;
                        entries.push(entry);
                    }
                }
            }
        }
        (entries, too_long, rows)
    }

    /// Sends the first entries as one message and returns the remaining ones. Entries that are too
    /// long are reported instead.
    async fn send<'e>(
        &self,
        socket: &mut WebSocket,
        entries: &'e [Entry],
    ) -> Result<&'e [Entry], Gone> {
        if let Some(first) = entries.first()
            && first.bytes() > ENTRY_BYTES_MAX
        {
            self.send_too_long(socket, first.bytes()).await?;
            return Ok(&entries[1..]);
        }
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            let fits = bytes < MESSAGE_BYTES && entry.bytes() <= ENTRY_BYTES_MAX;
            bytes += entry.bytes();
            fits
        };
        let count = entries.iter().take(MESSAGE_LINES_MAX).take_while(fits).count();
        let (sent, rest) = entries.split_at(count);
        let mut message = Text::of_at_most(TEXT_BYTES_MAX);
        if self.write(&mut message, sent).is_err() {
            return Err(Gone(Some("a message would be too long")));
        }
        self.permit.progress.rows.fetch_add(sent.len() as u64, Relaxed);
        self.send_message(socket, Message::Text(message.take().into())).await?;
        Ok(rest)
    }

    fn write(&self, message: &mut Text, entries: &[Entry]) -> std::io::Result<()> {
        message.write_all(b"{")?;
        if self.categorize {
            message.write_all(b"\"encodingFlags\":")?;
            message.json(&[CATEGORIZE_LABELS])?;
            message.write_all(b",")?;
        }
        message.write_all(b"\"streams\":")?;
        write_streams(message, entries, self.categorize)?;
        message.write_all(b"}")
    }

    async fn send_too_long(&self, socket: &mut WebSocket, bytes: usize) -> Result<(), Gone> {
        let reason = format!(
            "a line with its labels takes {bytes} bytes, more than the {ENTRY_BYTES_MAX} that a tail sends; read it with a query"
        );
        self.send_left_out(socket, json!({ "lines_skipped": "1", "reason": reason })).await
    }

    /// Reports that lines were left out, as Loki does.
    async fn send_left_out(&self, socket: &mut WebSocket, labels: Value) -> Result<(), Gone> {
        let now = crate::wire::clock::now_ns().to_string();
        let dropped = json!([{ "timestamp": now, "labels": labels }]);
        let message = json!({ "streams": [], "dropped_entries": dropped });
        self.send_message(socket, Message::Text(message.to_string().into())).await
    }

    async fn send_message(&self, socket: &mut WebSocket, message: Message) -> Result<(), Gone> {
        match timeout(SEND_TIME_MAX, socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone(None)),
            Err(_) => Err(Gone(Some("the client did not read"))),
        }
    }
}

/// Waits for a message of the client, which can only be a ping or its end; returns whether the
/// client is still there. Pings are answered.
async fn next(socket: &mut WebSocket) -> bool {
    matches!(socket.recv().await, Some(Ok(message)) if !matches!(message, Message::Close(_)))
}
