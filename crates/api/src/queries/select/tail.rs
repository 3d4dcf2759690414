//! `tail`: lines as they arrive.
//!
//! It begins with the lines of the last seconds, from the store, and continues with each batch as
//! soon as it is parsed. The two overlap; a frame that was sent is not sent again. A client that
//! reads more slowly than lines arrive makes the channel of batches overflow: the skipped lines are
//! counted, and the client is told their number. A tail can be cancelled at any time, also while
//! lines stream or its client reads nothing.
//!
//! In a cluster on engines, stores tell where the log has each frame, and the node that is asked
//! puts their tails together ([`places`]).

mod places;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use platform::memory::Purpose;
use query::source::{Source, Tables, TimeRange};
use query::{Account, Context, Limits, RunError, Scratch, TAIL, TailQuery};
use record::Batch;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::stream::rows_answer;
use crate::queries::tails::TailPlace;
use crate::wire::error::wrong_query;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::raised;
use node::cluster::Cluster;
use node::cluster::engines::LogPlace;
use node::pipeline::Pipeline;
use node::queries::export::{Format, error_line, skipped_line, write_json};
use node::queries::jobs::QUERY_THREADS;
use node::queries::tails::{TailBatch, TailReader};
use places::{END, Held, Told};

/// How far back a tail begins by default.
const START_OFFSET_NS: i64 = 5_000_000_000;
/// The farthest that a tail may begin in the past. For older lines there are queries.
const START_OFFSET_NS_MAX: i64 = 3_600_000_000_000;
/// How often an empty line is sent when there are no lines, so that no proxy takes the connection
/// for dead, and no other node the store.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Limit of the chunks between a tail and its connection, and of their size: 1 MiB for each slow
/// reader.
const PIECES_MAX: usize = 4;
const PIECE_BYTES: usize = 256 << 10;
/// Limit of the memory of one tail, for a row and for the state of its pipes. A row that needs more
/// ends the tail with an error.
const TAIL_BYTES_MAX: u64 = 64 << 20;
/// How often a tail checks whether it was cancelled.
const CANCEL_TICK: Duration = Duration::from_millis(20);

/// Batches from a moment on, and the number of lines in all batches before.
type LiveBatches = (TailReader, u64);

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/select/logsql/tail", tail)
}

async fn tail(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let mut query = params.restricted(params.query(now_ns)?, now_ns)?;
    let tables = app.pipeline()?;
    // Tables belong to all tenants.
    let lookups: Option<&dyn Tables> = match caller.principal.tenants.is_bound() {
        true => None,
        false => Some(&*tables.lookups),
    };
    query.bind_tables(lookups).map_err(ApiError::bad_request)?;
    audit::note_reading(&caller, TAIL, "tail begins", params.required("query")?);
    let restricted = query.to_string();
    let query = query.tail(&params.include()?).map_err(wrong_query)?;
    let offset_ns =
        params.duration_ns("start_offset")?.unwrap_or(START_OFFSET_NS).min(START_OFFSET_NS_MAX);
    let pipeline = app.pipeline()?;
    // Another node that puts tails together asks for the lines of this one alone.
    let is_own = params.flag("own_lines");
    if let Some(cluster) = app.cluster().filter(|_| !is_own) {
        if let Some(engines) = cluster.engines() {
            let engines = Arc::clone(engines);
            return places::tail_of_partitions(&app, engines, &caller, &params, restricted).await;
        }
        return tail_of_stores(&app, &cluster, &caller, &params, restricted).await;
    }
    // From here on no batch is missed: a client that has the head of the answer, or sees the tail
    // in the list of queries, gets every line that is sent after that.
    let live = pipeline.parsing.follow();
    let permit = TailPlace::take(&app, &caller, params.required("query")?)?;
    let id = permit.id();
    let (sender, chunks) = mpsc::channel(PIECES_MAX);
    let account = Account::new(app.memory(), Purpose::Tail);
    let stopping = app.stopping.clone();
    let engines = app.engines();
    // Places tell how much there is of other lines.
    let is_node = caller.principal.may(Scope::Node) && !caller.principal.is_restricted();
    let places = match (params.get("places"), engines) {
        (Some(text), Some(engines)) if is_node => Some(Told::new(engines, text)?),
        _ => None,
    };
    let (scratch, last_sent) = (Scratch::default(), Instant::now());
    let follower =
        Follower { query, permit, sender, account, stopping, places, scratch, last_sent };
    tokio::spawn(follower.follow(app, pipeline, live, now_ns.saturating_sub(offset_ns)));
    Ok(rows_answer(
        Some(id),
        Format::Jsonl.media_type(),
        Body::from_stream(ReceiverStream::new(chunks)),
    ))
}

/// Follows stores that have all lines together: their lines as they come, those of each store in
/// its order. A store that goes away ends the tail with an error.
async fn tail_of_stores(
    app: &Arc<App>,
    cluster: &Arc<Cluster>,
    caller: &Caller,
    params: &Params,
    restricted: String,
) -> ApiResult {
    let permit = TailPlace::take(app, caller, params.required("query")?)?;
    let id = permit.id();
    let (sender, chunks) = mpsc::channel(PIECES_MAX);
    // The stores do not know the caller: what restricts the query is a part of its text.
    let mut passed = params.pairs();
    let replaced = ["query", "ignore_pipes", "extra_filters", "extra_stream_filters"];
    passed.retain(|(name, _)| !replaced.contains(&name.as_str()));
    passed.push(("query".to_owned(), restricted));
    passed.push(("own_lines".to_owned(), "1".to_owned()));
    let permit = Arc::new(permit);
    let stopping = app.stopping.clone();
    let cluster = Arc::clone(cluster);
    let tailed = tokio::task::spawn_blocking(move || cluster.to_tail()).await;
    let copy = tailed.map_err(|error| ApiError::internal(error.to_string()))?;
    for node in copy.nodes {
        let (permit, sender, params) = (Arc::clone(&permit), sender.clone(), passed.clone());
        let stopping = stopping.clone();
        let runtime = tokio::runtime::Handle::current();
        let follow = move || {
            let _runtime = runtime.enter();
            let is_over = || permit.cancelled.load(Relaxed) || *stopping.borrow();
            let ended = node.follow("/select/logsql/tail", &params, &mut |line| {
                permit.progress.rows.fetch_add(u64::from(line.len() > 1), Relaxed);
                match is_over() || pass(line, &sender, is_over).is_err() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            if let Err(error) = ended {
                let _ = pass(&error_line(&error.message), &sender, is_over);
                permit.cancelled.store(true, Relaxed);
            }
        };
        QUERY_THREADS.run(follow).map_err(|error| {
            ApiError::unavailable(format!("no thread can be started for the tail: {error}"))
        })?;
    }
    let body = Body::from_stream(ReceiverStream::new(chunks));
    Ok(rows_answer(Some(id), Format::Jsonl.media_type(), body))
}

/// Returns once the tail is cancelled.
async fn cancelled(wish: &AtomicBool) {
    while !wish.load(Relaxed) {
        tokio::time::sleep(CANCEL_TICK).await;
    }
}

struct Follower {
    query: TailQuery,
    permit: TailPlace,
    sender: mpsc::Sender<io::Result<Bytes>>,
    /// Counts the memory of the tail.
    account: Arc<Account>,
    stopping: watch::Receiver<bool>,
    /// Where the log has the frames, for another node that puts tails together.
    places: Option<Told>,
    scratch: Scratch,
    /// When anything was sent last.
    last_sent: Instant,
}

/// Sends a chunk once there is room for it. Blocks, and polls `is_over` meanwhile.
fn pass(
    piece: &[u8],
    sender: &mpsc::Sender<io::Result<Bytes>>,
    is_over: impl Fn() -> bool,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Handle::current();
    loop {
        match runtime.block_on(timeout(CANCEL_TICK, sender.reserve())) {
            Ok(Ok(slot)) => {
                slot.send(Ok(Bytes::copy_from_slice(piece)));
                return Ok(());
            }
            Ok(Err(_)) => return Err(RunError::Cancelled),
            Err(_) if is_over() => return Err(RunError::Cancelled),
            Err(_) => {}
        }
    }
}

/// The tail ends: the client is gone, or has been told the reason.
struct Gone;

impl Follower {
    async fn follow(
        mut self,
        app: Arc<App>,
        pipeline: Arc<Pipeline>,
        live: LiveBatches,
        since_ns: i64,
    ) {
        let sender = self.sender.clone();
        let wish = Arc::clone(&self.permit.cancelled);
        let mut stopping = app.stopping.clone();
        tokio::select! {
            // Ends when the client goes away, which is not an error.
            _ = self.try_follow(&app, &pipeline, live, since_ns) => {}
            () = sender.closed() => {}
            () = raised(&mut stopping) => {}
            () = cancelled(&wish) => {
                // There is no room to tell a client that reads nothing; it sees the connection end.
                let _ = sender.try_send(Ok(error_line("the tail was cancelled").into()));
            }
        }
    }

    async fn try_follow(
        &mut self,
        app: &App,
        pipeline: &Pipeline,
        (mut live, mut lines_total): LiveBatches,
        since_ns: i64,
    ) -> Result<(), Gone> {
        let mut shown = match self.places.is_some() {
            true => self.show_held(since_ns).await?,
            false => self.show_recent(pipeline, since_ns).await?,
        };
        loop {
            // Batches without a line that matches may come without a pause.
            self.keep_alive().await?;
            let due = self.last_sent + KEEP_ALIVE;
            let Ok(received) = timeout_at(due, live.recv()).await else { continue };
            match received {
                Ok(TailBatch { batch, lines_total: total, place }) => {
                    let lines = batch.len() as u64;
                    let skipped = (total - lines).saturating_sub(lines_total);
                    if skipped > 0 {
                        app.tail_lines_skipped.fetch_add(skipped, Relaxed);
                        self.send(skipped_line(skipped)).await?;
                        if let Some(told) = &mut self.places {
                            told.skipped();
                        }
                    }
                    lines_total = total;
                    if self.places.is_some()
                        && let Some(place) = place
                    {
                        self.show_at(&batch, place, i64::MIN).await?;
                        continue;
                    }
                    let sequence = batch.frame().map(|frame| frame.header().sequence);
                    if !sequence.is_some_and(|sequence| shown.remove(&sequence)) {
                        self.show(&batch, i64::MIN).await?;
                    }
                }
                // With the next batch the number of missed lines is sent.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// Sends the lines that this node holds of its partitions: from where the other node has seen
    /// them, else those that arrived since `since_ns`.
    async fn show_held(&mut self, since_ns: i64) -> Result<HashSet<u64>, Gone> {
        let held = self.places.as_ref().map(|told| told.held(since_ns)).unwrap_or_default();
        for Held { owned, frame, place, since_ns } in held {
            tokio::task::yield_now().await;
            self.keep_alive().await?;
            let batch = tokio::task::block_in_place(|| owned.batch(&frame));
            self.show_at(&batch, place, since_ns).await?;
        }
        Ok(HashSet::new())
    }

    /// As [`show`](Self::show), between lines that say where the log has the frame; nothing if it
    /// was sent already.
    async fn show_at(
        &mut self,
        batch: &Arc<Batch>,
        place: LogPlace,
        since_ns: i64,
    ) -> Result<(), Gone> {
        let Some(head) = self.places.as_mut().and_then(|told| told.head(place)) else {
            return Ok(());
        };
        self.send(head).await?;
        self.show(batch, since_ns).await?;
        self.send(END.to_vec()).await
    }

    /// Sends the lines that arrived since `since_ns`, frame by frame; returns the sequence numbers
    /// of the frames.
    async fn show_recent(
        &mut self,
        pipeline: &Pipeline,
        since_ns: i64,
    ) -> Result<HashSet<u64>, Gone> {
        let recent = TimeRange { start_ns: since_ns, end_ns: i64::MAX };
        let units =
            pipeline.stored.clone().units(recent, self.query.whose()).unwrap_or_else(|error| {
                tracing::warn!("a tail begins without the last lines: {error}");
                Vec::new()
            });
        let mut shown = HashSet::new();
        // The units are in order from the newest to the oldest.
        for unit in units.iter().rev() {
            // Lets the check for cancellation run, also when no line matches.
            tokio::task::yield_now().await;
            self.keep_alive().await?;
            match tokio::task::block_in_place(|| unit.load()) {
                Ok(Some(batch)) => {
                    shown.extend(batch.rows().map(|row| row.sequence()));
                    self.show(&batch, since_ns).await?;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("a tail begins without some of the last lines: {error}")
                }
            }
        }
        Ok(shown)
    }

    /// Sends the rows of a batch that arrived since `since_ns`.
    async fn show(&mut self, batch: &Arc<Batch>, since_ns: i64) -> Result<(), Gone> {
        let shown = tokio::task::block_in_place(|| self.show_blocking(batch, since_ns));
        self.permit.progress.lines_scanned.fetch_add(batch.len() as u64, Relaxed);
        match shown {
            Ok(true) => {
                self.last_sent = Instant::now();
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(RunError::Cancelled) => Err(Gone),
            Err(error) => {
                self.send(error_line(&error.to_string())).await?;
                Err(Gone)
            }
        }
    }

    /// Encodes rows and sends them in chunks, to bound the memory; returns whether there were any.
    /// Returns `Cancelled` when nobody wants more.
    fn show_blocking(&mut self, batch: &Arc<Batch>, since_ns: i64) -> Result<bool, RunError> {
        let limits = Limits { memory_bytes_max: TAIL_BYTES_MAX, ..Limits::default() };
        let account = Arc::clone(&self.account);
        let mut meter = Context { limits, account, ..Context::default() }.meter();
        let mut chunk = Vec::new();
        let mut scratch = Scratch::default();
        let mut any = false;
        let Follower { query, permit, sender, account, stopping, scratch: own, .. } = self;
        let pass = |bytes: Vec<u8>| -> Result<(), RunError> {
            for piece in bytes.chunks(PIECE_BYTES) {
                pass(piece, sender, || permit.cancelled.load(Relaxed) || *stopping.borrow())?;
            }
            Ok(())
        };
        query.rows(batch, account, own, &mut |rows| {
            for index in 0..rows.len() {
                let arrived = rows
                    .line(index)
                    .map_or(i64::MAX, |(batch, row)| batch.row(row as usize).received_ns());
                if arrived < since_ns {
                    continue;
                }
                let bytes = rows.text_bytes(index, &mut scratch);
                let counted = if bytes > PIECE_BYTES { bytes } else { 0 };
                meter.take(counted)?;
                write_json(rows, index, &mut scratch, &mut chunk);
                any = true;
                permit.progress.rows.fetch_add(1, Relaxed);
                if chunk.len() >= PIECE_BYTES {
                    pass(std::mem::take(&mut chunk))?;
                }
                meter.give_back(counted);
            }
            Ok(())
        })?;
        pass(chunk)?;
        Ok(any)
    }

    /// Sends an empty line if nothing was sent for a while.
    async fn keep_alive(&mut self) -> Result<(), Gone> {
        match self.last_sent.elapsed() >= KEEP_ALIVE {
            true => self.send(b"\n".to_vec()).await,
            false => Ok(()),
        }
    }

    async fn send(&mut self, chunk: Vec<u8>) -> Result<(), Gone> {
        self.sender.send(Ok(chunk.into())).await.map_err(|_| Gone)?;
        self.last_sent = Instant::now();
        Ok(())
    }
}
