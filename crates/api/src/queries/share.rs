//! `POST /api/v1/shares`: this node's share of a query that another node answers, or those of other
//! nodes, which it asks and whose answers it merges (`node::cluster::relays`).
//!
//! The node that asks says how long the share may run, but not longer than this node lets a query
//! of its own run, be it in the background ([`run_time`]). Memory is limited by the settings of
//! this node. Rows have no limit here: they are sent as they are found and none is kept, and the
//! node that asks counts them.
//!
//! The restriction of the caller holds for whatever is sent: operators get nothing of the audit
//! log, be it as a share, as a line by its id, or as the lines of frames.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use query::source::{Damages, Source, TimeRange};
use query::{
    Outcome, Progress, Query, RELAY, Restriction, RunError, SHARE, SHARE_BYTES_MAX, Scratch,
    SharePiece, TailQuery, answer_share,
};
use record::{Batch, LineId, RowsWriter};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{Client, LinesOf, PendingQuery, Running, reading_thread};
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::{Engines, Pieces, PiecesError, PiecesSource, is_storage_away};
use node::cluster::message::{
    Counts, FramesWanted, HEARTBEAT, Message, ShareHead, ShareRequest, Spoken,
};
use node::cluster::relays::RelaySides;
use node::queries::QueryOptions;
use node::storage::stored::Stored;

/// Messages between the query and the connection. Beyond it the query waits for the other node.
const MESSAGES_MAX: usize = 4;
/// Requests that are read at a time; further ones wait. Each takes up to 16 MiB meanwhile.
static READING: Semaphore = Semaphore::const_new(8);
/// Bytes of lines of frames that are sent at once.
const FRAMES_PIECE_BYTES: usize = 1 << 20;
/// How often a query that waits for the other node checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Characters of a query that the list of queries shows.
const SHOWN_CHARS_MAX: usize = 4_096;
/// Selects every line. Loginson's own are read only where their types are named.
const EVERY_LINE: &str = "_type:in(summary, alert, audit) or *";

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().post(Scope::Node, "/api/v1/shares", share)
}

async fn share(State(app): State<Arc<App>>, caller: Caller, request: Request) -> ApiResult {
    let reading = READING.acquire().await.expect("never closed");
    // The text is escaped, and there are other fields.
    let body = read_whole(request.into_body(), 2 * SHARE_BYTES_MAX).await?;
    let body = body.ok_or_else(|| {
        ApiError::bad_request(format!("a share is longer than {SHARE_BYTES_MAX} bytes"))
    })?;

    let (head, here) = (serde_json::from_slice::<ShareHead>(&body), Spoken::here());
    if let Ok(ShareHead { version }) = head
        && !here.has(version)
    {
        // The node that asks repeats the request in a version that both speak. 503: if there is
        // none, another copy is asked.
        let why = format!(
            "it speaks {here} of the protocol of shares, and the node that asks version {version}"
        );
        let refusal = json!({ "error": why, "speaks": here });
        return Ok((StatusCode::SERVICE_UNAVAILABLE, Json(refusal)).into_response());
    }
    let mut request: ShareRequest = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("this is no share: {error}")))?;
    drop((body, reading));
    // Wrong requests are answered before the queue is entered.
    let checked = match (request.line_id(), request.frames_wanted()) {
        (Some(id), _) => id.map(drop),
        (_, Some(frames)) => frames.map(drop),
        (None, None) => request.share().map(drop),
    };
    checked.map_err(ApiError::bad_request)?;
    let shown: String = request.query.chars().take(SHOWN_CHARS_MAX).collect();
    let kind = if request.relayed.is_some() { RELAY } else { SHARE };
    let mut pending = PendingQuery::new(&app, kind, &shown, &caller)?;
    pending.lines = LinesOf::ThisNode;
    let restriction = caller.principal.restriction.clone();
    let mut visible = Visible::to(&restriction).map_err(ApiError::internal)?;
    pending.context.restriction = restriction;
    pending.context.range = TimeRange { start_ns: request.start_ns, end_ns: request.end_ns };
    let limits = &mut pending.context.limits;
    limits.run_time = run_time(request.timeout(), &app.query_options());
    limits.rows_max = u64::MAX;
    let may_leave_out = request.may_leave_out && request.pieces.is_some();
    let damages = may_leave_out.then(Arc::<Damages>::default);
    pending.context.damages.clone_from(&damages);
    let node = pending.pipeline().stored.store().node();

    let of_engines = || {
        let none = || ApiError::bad_request("this node is not part of a cluster with Kafka");
        app.engines().ok_or_else(none)
    };
    let version = request.version;
    let relay = match request.relayed.is_some() {
        false => None,
        // The other nodes know this node alone, which sees all lines.
        true if caller.principal.is_restricted() => {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "only a caller that sees all lines has shares relayed; give [cluster] token_file a token with the role node \
                 that is not restricted",
            ));
        }
        true => {
            let engines = of_engines()?;
            let sides = RelaySides::of_engines(request.clone(), &engines);
            Some(sides.map_err(ApiError::bad_request)?)
        }
    };
    let pieces = match request.pieces.take() {
        None => None,
        Some(pieces) => {
            let engines = of_engines()?;
            if let Some(name) = pieces.wrong_name() {
                return Err(ApiError::bad_request(format!(
                    "'{name}' is not the name of a segment"
                )));
            }
            Some((engines, pieces))
        }
    };

    let hello: Bytes = Message::Hello(version, node).encode().into();
    let client = Client::default();
    let link = client.link();
    let (sender, messages) = mpsc::channel::<Bytes>(MESSAGES_MAX);
    let (tell_progress, progress) = oneshot::channel();
    let last = sender.clone();
    let stored = pending.pipeline().stored.clone();
    let running = reading_thread(move || {
        let send_last = |message: Message| {
            // If nobody receives it, the other node is gone.
            let _ = tokio::runtime::Handle::current().block_on(last.send(message.encode().into()));
        };
        // Frames that this node cannot answer for are known before the query begins, so that the
        // node that asks can plan again at once.
        let gather = |(engines, pieces): (Arc<Engines>, Pieces)| {
            PiecesSource::gather(&engines, pieces, may_leave_out)
        };
        let pieces = match pieces.map(gather).transpose() {
            Ok(pieces) => pieces,
            Err(error) => {
                let status = match &error {
                    PiecesError::Hot(_) => StatusCode::CONFLICT,
                    PiecesError::Filter(_) => StatusCode::INTERNAL_SERVER_ERROR,
                };
                send_last(Message::Failed(status.as_u16(), error.to_string()));
                return Ok(());
            }
        };
        let outcome = pending.run(&link, |running| {
            let _ = tell_progress.send(Arc::clone(&running.context.progress));
            if let Some(relay) = &relay {
                return relayed(relay, running, &sender);
            }
            if let Some(frames) = request.frames_wanted() {
                let frames = frames.map_err(RunError::Failed)?;
                return send_frames(&stored, frames, &mut visible, running, &sender);
            }
            let source = pieces.as_ref().map_or(running.source(), |pieces| pieces as &dyn Source);
            let left_out = pieces.as_ref().zip(damages.as_deref());
            let mut told = Vec::new();
            // What is left out is told before the rows beside it.
            let mut tell = |running: &Running| {
                let Some((pieces, damages)) = left_out else { return ControlFlow::Continue(()) };
                let all = pieces.left_out(damages);
                if all == told {
                    return ControlFlow::Continue(());
                }
                told.clone_from(&all);
                pass(Message::LeftOut(all).encode().into(), &sender, running)
            };
            let send = &mut |piece| match tell(running) {
                ControlFlow::Continue(()) => {
                    pass(Message::Piece(piece).encode().into(), &sender, running)
                }
                flow => flow,
            };
            let outcome = answer(&request, source, &mut visible, running, send);
            if outcome.is_ok() {
                let _ = tell(running);
                let counts = Counts::of(&running.context.progress);
                let _ = pass(Message::Progress(counts).encode().into(), &sender, running);
            }
            outcome
        });
        let failure = relay.as_ref().and_then(RelaySides::failure);
        let message = match (&outcome, failure) {
            (Ok(outcome), _) => Message::Done(*outcome),
            (Err(_), Some(failure)) => Message::RelayFailed(failure),
            (Err(error), None) => {
                let text = error.to_string();
                // The same query may succeed later, or at another node.
                let status = match is_storage_away(&text) {
                    true => StatusCode::SERVICE_UNAVAILABLE,
                    false => error.status(),
                };
                Message::Failed(status.as_u16(), text)
            }
        };
        send_last(message);
        Ok(())
    });
    tokio::spawn(running);
    let beats = Beats { messages, begins: Some(progress), progress: None, _client: client };
    let rest = futures_util::stream::unfold(beats, |mut beats| async {
        let message = beats.next().await?;
        Some((message, beats))
    });
    let messages = tokio_stream::once(hello).chain(rest).map(Ok::<_, io::Error>);
    let body = Body::from_stream(messages);
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// Asks other nodes for their shares and sends what they answer, merged.
fn relayed(
    relay: &RelaySides,
    running: &Running,
    sender: &mpsc::Sender<Bytes>,
) -> Result<Outcome, RunError> {
    let mut send = |message: Message| pass(message.encode().into(), sender, running);
    let outcome = relay.answer(&running.context, &mut send)?;
    running.check()?;
    let counts = Counts::of(&running.context.progress);
    let _ = send(Message::Progress(counts));
    Ok(outcome)
}

/// How long a share may run: as long as the node that asks lets it, and at most as long as the
/// longest query of this node.
///
/// limits.md, Several stores: time of a share of a query of another node | what that node allows,
/// at most the longer one of `query.run_max` and `query.background_run_max` of the store | the
/// share ends with a message that names the settings
fn run_time(asked: Duration, own: &QueryOptions) -> Duration {
    asked.min(own.limits.run_time.max(own.background.run_time))
}

/// The lines that a caller may see.
struct Visible {
    /// Selects them; none: all.
    only: Option<TailQuery>,
    scratch: Scratch,
}

impl Visible {
    /// What is left of all lines by a restriction.
    fn to(restriction: &Restriction) -> Result<Visible, String> {
        let only = match restriction.is_none() {
            true => None,
            false => {
                let all = Query::parse(EVERY_LINE, 0).map_err(|error| error.to_string())?;
                let seen = restriction.applied_to(all).map_err(|error| error.to_string())?;
                Some(seen.tail(&[]).map_err(|error| error.to_string())?)
            }
        };
        Ok(Visible { only, scratch: Scratch::default() })
    }

    /// Of each row of a batch, whether it may be sent.
    fn rows(&mut self, batch: &Arc<Batch>) -> Vec<bool> {
        let Some(only) = &self.only else { return vec![true; batch.len()] };
        let mut visible = vec![false; batch.len()];
        let selected = only.selected(batch, &mut self.scratch);
        for index in 0..selected.len() {
            if let Some((_, row)) = selected.line(index) {
                visible[row as usize] = true;
            }
        }
        visible
    }
}

/// Carries out the share and sends its pieces.
fn answer(
    request: &ShareRequest,
    source: &dyn Source,
    visible: &mut Visible,
    running: &Running,
    send: &mut dyn FnMut(SharePiece) -> ControlFlow<()>,
) -> Result<Outcome, RunError> {
    if let Some(id) = request.line_id() {
        let id = id.map_err(RunError::Failed)?;
        let batch = source.find(id)?;
        let row = batch.as_ref().and_then(|batch| batch.rows().find(|row| row.id() == id));
        if let (Some(batch), Some(row)) = (&batch, row)
            && visible.rows(batch)[row.index() as usize]
        {
            let mut writer = RowsWriter::default();
            writer.push(batch, &row);
            let _ = send(SharePiece::Lines(writer.take(), None));
        }
        return Ok(Outcome::default());
    }
    let share = request.share().map_err(RunError::Failed)?;
    let answered = answer_share(&share, source, &running.context, &mut *send);
    let answered = answered.and_then(|outcome| running.check().map(|()| outcome));
    answered.map_err(|error| match error {
        RunError::TimeLimit(s) if running.context.limits.run_time < request.timeout() => {
            RunError::Failed(format!(
                "a share of a query may take {s} s at most here; narrow the query, or raise \
                 query.background_run_max of this store"
            ))
        }
        error => error,
    })
}

/// Sends all lines of some frames of a collector that the caller may see.
fn send_frames(
    stored: &Stored,
    FramesWanted { collector, range }: FramesWanted,
    visible: &mut Visible,
    running: &Running,
    sender: &mpsc::Sender<Bytes>,
) -> Result<Outcome, RunError> {
    let mut writer = RowsWriter::default();
    let send = |writer: &mut RowsWriter| {
        let piece = SharePiece::Lines(writer.take(), None);
        pass(Message::Piece(piece).encode().into(), sender, running)
    };
    let is_wanted = |id: LineId| id.node == collector && (range.0..=range.1).contains(&id.sequence);
    let mut lines = 0;
    let read = stored.read_frames(collector, range, &mut |batch| {
        let visible = visible.rows(batch);
        let is_seen = |index: u32| visible[index as usize];
        for row in batch.rows().filter(|row| is_wanted(row.id()) && is_seen(row.index())) {
            if !writer.push(batch, &row) {
                send(&mut writer)?;
                writer.push(batch, &row);
            }
            lines += 1;
            if writer.bytes() >= FRAMES_PIECE_BYTES {
                send(&mut writer)?;
            }
        }
        match running.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    read?;
    running.check()?;
    let _ = send(&mut writer);
    running.check()?;
    Ok(Outcome { lines_scanned: lines, ..Outcome::default() })
}

/// Sends a message once there is room. Breaks when the query has to stop, or nobody reads.
fn pass(message: Bytes, sender: &mpsc::Sender<Bytes>, running: &Running) -> ControlFlow<()> {
    let runtime = tokio::runtime::Handle::current();
    loop {
        match runtime.block_on(timeout(CHECK_INTERVAL, sender.reserve())) {
            Ok(Ok(slot)) => {
                slot.send(message);
                return ControlFlow::Continue(());
            }
            Ok(Err(_)) => return ControlFlow::Break(()),
            Err(_) if running.check().is_err() => return ControlFlow::Break(()),
            Err(_) => {}
        }
    }
}

/// The messages of an answer, with the progress whenever there was none for [`HEARTBEAT`].
struct Beats {
    messages: mpsc::Receiver<Bytes>,
    /// Gives the progress once the query runs.
    begins: Option<oneshot::Receiver<Arc<Progress>>>,
    progress: Option<Arc<Progress>>,
    /// Cancels the query when the connection ends.
    _client: Client,
}

impl Beats {
    async fn next(&mut self) -> Option<Bytes> {
        match timeout(HEARTBEAT, self.messages.recv()).await {
            Ok(message) => message,
            Err(_) => Some(Message::Progress(self.counts()).encode().into()),
        }
    }

    fn counts(&mut self) -> Counts {
        if let Some(Ok(progress)) = self.begins.as_mut().map(oneshot::Receiver::try_recv) {
            (self.begins, self.progress) = (None, Some(progress));
        }
        self.progress.as_ref().map_or_else(Counts::default, |progress| Counts::of(progress))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn the_node_that_asks_cannot_exceed_the_limits_of_this_one() {
        let mut own = QueryOptions::default();
        let seconds = Duration::from_secs;
        for (run_s, background_s, asked, expected) in [
            (60, 3_600, seconds(10), seconds(10)),
            (60, 3_600, seconds(3_599), seconds(3_599)),
            (60, 3_600, seconds(3_600), seconds(3_600)),
            (60, 3_600, seconds(3_601), seconds(3_600)),
            (7_200, 3_600, Duration::from_millis(u64::MAX), seconds(7_200)),
        ] {
            own.limits.run_time = seconds(run_s);
            own.background.run_time = seconds(background_s);
            assert_eq!(run_time(asked, &own), expected, "{run_s} {background_s}");
        }
    }

    #[tokio::test]
    async fn progress_is_told_while_there_is_nothing_else() {
        let (sender, messages) = mpsc::channel(1);
        let (tell, begins) = oneshot::channel();
        let _client = Client::default();
        let mut beats = Beats { messages, begins: Some(begins), progress: None, _client };
        let read = |bytes: Bytes| Message::read(&mut &bytes[..]).unwrap();
        let none = Message::Progress(Counts::default());
        assert_eq!(read(beats.next().await.unwrap()), none, "it waits for a place");
        let progress = Arc::new(Progress::default());
        progress.lines_scanned.store(7, Relaxed);
        tell.send(progress).unwrap();
        let some = Message::Progress(Counts { lines_scanned: 7, ..Counts::default() });
        assert_eq!(read(beats.next().await.unwrap()), some);
        let last = Message::Failed(503, "x".into());
        sender.send(last.encode().into()).await.unwrap();
        drop(sender);
        assert_eq!(read(beats.next().await.unwrap()), last);
        assert!(beats.next().await.is_none(), "the answer ends with its query");
    }
}
