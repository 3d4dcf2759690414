//! The answers of several nodes to one share: a thread reads each, and a query takes their pieces.
//!
//! A side is a share that is wanted. It is asked of one node, or also of a second one where the
//! first is slow; the first of them with a piece gives it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use platform::placement::Role;
use platform::threads::Threads;
use query::{Context, Outcome, Progress, RunError, SharePiece, SharePieces};

use super::engines::LeftOut;
use super::hedges::{Began, Hedges};
use super::message::{Counts, Message, RelayedFailure, RelayedRun, ShareRequest};
use super::node::{Node, NodeError};
use super::relays::RelayLog;
use super::trace::{ShareTrace, TracedRun, ms};
use super::{Missing, MissingLines, same_store};

/// Bytes of pieces that wait for the query, for each store. Beyond it the store waits.
///
/// limits.md, Several stores: what a store sent and the query has not read | {} and one message,
/// for each store | the store waits
const QUEUED_BYTES_MAX: usize = 4 << 20;
/// How often a query that waits for stores checks whether it must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A store that says nothing for this long is away.
///
/// limits.md, Several stores: silence of a store | {} | the same
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same where the answer may leave out what the store has.
///
/// limits.md, Nodes of a cluster: silence of a node, with `allow_partial_response=1` | {} | what it
/// alone has is missing
pub const SILENCE_MAX_PARTIAL: Duration = Duration::from_millis(2_500);

/// Reads the answers of stores, a thread for each share. The number of shares is bounded by the
/// places of the queue and the number of stores.
static READERS: Threads =
    Threads::new("cluster-share", Role::Query, crate::process::memory::give_back_own);

/// What one store has sent.
#[derive(Default)]
struct Side {
    /// How many shares its node was asked to relay; none: it does one of its own.
    relayed: Option<usize>,
    /// Whether each of these has to be complete.
    is_whole_wanted: bool,
    /// Those of the nodes that were asked that said that they relay so many.
    confirmed: BTreeSet<usize>,
    /// What became of these shares.
    ran: Vec<RelayedRun>,
    /// Which of the nodes that were asked for the share gives it: the first with a piece.
    winner: Option<usize>,
    /// How many nodes were asked, and how many of them have failed.
    asked: usize,
    failed: usize,
    node: Option<u32>,
    pieces: VecDeque<SharePiece>,
    bytes: usize,
    counts: Counts,
    /// What it left out, until that is recorded.
    left_out: Vec<LeftOut>,
    outcome: Outcome,
    error: Option<NodeError>,
    /// The answer is complete, or not wanted any more.
    has_ended: bool,
    /// The query knows that it has ended.
    end_is_known: bool,
    /// How long it took until its first piece, and until its end.
    began: Option<Duration>,
    ended: Option<Duration>,
    /// Why it failed, as the query was told.
    failure: Option<String>,
    /// The reader waits for room.
    is_blocked: bool,
    heard: Option<Instant>,
}

impl Side {
    /// Notes that one of the nodes has failed. That is an error of the side when no other one is
    /// left.
    fn fail(&mut self, place: usize, error: NodeError) {
        self.failed += 1;
        let is_wanted = self.winner.is_none_or(|winner| winner == place);
        let is_last = self.winner.is_some() || self.failed >= self.asked;
        if is_wanted && is_last && !self.has_ended {
            self.failure.get_or_insert_with(|| error.message.clone());
            self.error.get_or_insert(error);
        }
    }

    /// Why an answer of a node that was asked to relay does not count at this message; none if it
    /// does. Without this check, the lines of a group would be missing in silence if its node did
    /// not know what it was asked for.
    fn unaccounted(&self, place: usize, message: &Message) -> Option<String> {
        let relayed = self.relayed?;
        let is_complete = |one: &RelayedRun| one.run.complete || !self.is_whole_wanted;
        match message {
            Message::Piece(_) | Message::LeftOut(_) | Message::Done(_)
                if !self.confirmed.contains(&place) =>
            {
                Some(format!("it answers, and does not say that it asked {relayed} nodes"))
            }
            Message::Done(_) if self.ran.len() != relayed => {
                Some(format!("it answers for {} nodes in place of {relayed}", self.ran.len()))
            }
            Message::Done(_) if !self.ran.iter().all(is_complete) => {
                Some("it says that a share is not complete".to_owned())
            }
            _ => None,
        }
    }
}

/// A share that the stores of a copy were asked for. Dropping it ends the share everywhere.
struct Asked {
    shared: Arc<Shared>,
    begun: Instant,
}

struct Shared {
    sides: Mutex<Vec<Side>>,
    changed: Condvar,
    is_over: AtomicBool,
    begun: Instant,
}

impl Asked {
    fn begin(shares: Vec<(Arc<Node>, Arc<ShareRequest>)>) -> Result<Asked, RunError> {
        let side = |(_, request): &(Arc<Node>, Arc<ShareRequest>)| Side {
            relayed: request.relayed.as_ref().map(|relayed| relayed.shares.len()),
            is_whole_wanted: request.wants_state(),
            ..Side::default()
        };
        let sides = shares.iter().map(side).collect();
        let is_over = AtomicBool::new(false);
        let (sides, changed, begun) = (Mutex::new(sides), Condvar::new(), Instant::now());
        let shared = Arc::new(Shared { sides, changed, is_over, begun });
        let asked = Asked { shared, begun };
        for (side, (node, request)) in shares.into_iter().enumerate() {
            asked.ask(side, node, request)?;
        }
        Ok(asked)
    }

    /// Asks a node for the share of a side.
    fn ask(
        &self,
        side: usize,
        node: Arc<Node>,
        request: Arc<ShareRequest>,
    ) -> Result<(), RunError> {
        let mut sides = self.shared.lock();
        let place = sides[side].asked;
        sides[side].asked += 1;
        drop(sides);
        let shared = Arc::clone(&self.shared);
        let started = READERS.run(move || shared.read((side, place), &node, &request));
        started.map_err(|error| {
            RunError::Failed(format!("no thread can be started for a store: {error}"))
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Side>> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment for a change.
    fn wait(&self) {
        let _ = self.changed.wait_timeout(self.lock(), CHECK_INTERVAL);
    }

    /// Reads the answer of one store. The loop of a reader. `at`: the side, and the place of the
    /// node among those that were asked for its share.
    fn read(&self, at: (usize, usize), node: &Node, request: &ShareRequest) {
        let mut is_complete = false;
        let result = node.share(request, &mut |message| {
            is_complete = matches!(message, Message::Done(_));
            self.take(at, node, message)
        });
        let mut sides = self.lock();
        let own = &mut sides[at.0];
        if let Err(error) = result {
            // One that does not relay may do a share of its own.
            let is_no_relay = own.relayed.is_some() && (error.is_refusal || error.is_no_relay);
            let is_away = error.is_away && !is_no_relay;
            own.fail(at.1, NodeError { is_no_relay, is_away, ..error });
        }
        if is_complete && own.winner == Some(at.1) {
            own.has_ended = true;
            own.ended.get_or_insert(self.begun.elapsed());
        }
        drop(sides);
        self.changed.notify_all();
    }

    fn take(&self, at: (usize, usize), node: &Node, message: Message) -> ControlFlow<()> {
        let (side, place) = at;
        let mut sides = self.lock();
        let own = &mut sides[side];
        if own.winner.is_some_and(|winner| winner != place) {
            return ControlFlow::Break(());
        }
        own.heard = Some(Instant::now());
        if let Some(why) = own.unaccounted(place, &message) {
            let message = format!("store {} does not relay shares: {why}", node.name);
            own.fail(place, NodeError::no_relay(message));
            drop(sides);
            self.changed.notify_all();
            return ControlFlow::Break(());
        }
        if matches!(message, Message::Piece(_) | Message::LeftOut(_) | Message::Done(_)) {
            own.winner = Some(place);
        }
        match message {
            Message::Hello(_, number) => own.node = Some(number),
            Message::Progress(counts) => own.counts = counts,
            Message::LeftOut(all) => own.left_out = all,
            Message::Done(outcome) => own.outcome = outcome,
            Message::Failed(status, why) => {
                let message = format!("store {}: {why}", node.name);
                let error = match own.relayed {
                    Some(_) => NodeError::no_relay(message),
                    None => NodeError {
                        is_away: status == 503,
                        is_stale: status == 409,
                        ..NodeError::new(message)
                    },
                };
                own.fail(place, error);
            }
            Message::Relays(shares) => {
                if own.relayed == Some(shares as usize) {
                    own.confirmed.insert(place);
                }
            }
            Message::Ran(runs) => own.ran = runs,
            Message::RelayFailed(RelayedFailure { address, is_away, is_stale, message }) => {
                let of = Some(address);
                own.fail(place, NodeError { is_away, is_stale, of, ..NodeError::new(message) });
            }
            Message::Piece(piece) => {
                let bytes = piece.bytes();
                while sides[side].bytes > 0
                    && sides[side].bytes + bytes > QUEUED_BYTES_MAX
                    && !sides[side].has_ended
                    && !self.is_over.load(Relaxed)
                {
                    sides[side].is_blocked = true;
                    let waited = self.changed.wait_timeout(sides, CHECK_INTERVAL);
                    sides = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                let own = &mut sides[side];
                own.is_blocked = false;
                own.heard = Some(Instant::now());
                own.bytes += bytes;
                own.pieces.push_back(piece);
                own.began.get_or_insert(self.begun.elapsed());
            }
        }
        let is_wanted = !sides[side].has_ended && !self.is_over.load(Relaxed);
        drop(sides);
        self.changed.notify_all();
        if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The answers of the nodes to one share.
pub struct Answer {
    /// The nodes that were asked first, by side.
    nodes: Vec<Arc<Node>>,
    asked: Asked,
    progress: Arc<Progress>,
    /// What is counted in the progress already.
    before: Counts,
    /// The names of the second nodes that were asked, by side.
    asked_elsewhere: HashMap<usize, String>,
    /// Whether all stores have begun. Before, others may be asked in their place, and have what
    /// these left out.
    has_begun: bool,
    /// How long a store may say nothing.
    pub silence_max: Duration,
    /// Other nodes for the segments of slow ones; none where the stores have different lines.
    pub hedges: Option<Hedges>,
    /// Receives what sides leave out.
    pub missing: Option<Arc<Missing>>,
    /// Lines and event times of the segments that are read.
    pub segments: HashMap<String, (u64, (i64, i64))>,
    /// Receives what the shares took.
    pub trace: Option<TracedShares>,
    /// Receives what is told to the node that answers the query, where this one relays.
    pub relay: Option<Arc<RelayLog>>,
}

/// Where it is noted what shares took.
pub struct TracedShares {
    /// The plans of the query.
    pub trace: Arc<ShareTrace>,
    /// The place of the plan.
    pub plan: usize,
    /// For each side, the places of its shares in the plan, and the address of the node of each.
    pub shares: Vec<Vec<(usize, String)>>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let traced = self.trace.take();
        if traced.is_none() && self.relay.is_none() {
            return;
        }
        let sides = self.asked.shared.lock();
        let run = |number: usize, side: &Side| {
            let first = self.nodes.get(number).map(|node| node.name.clone());
            let other = self.asked_elsewhere.get(&number).cloned();
            TracedRun {
                complete: side.ended.is_some(),
                first_ms: side.began.map(ms),
                ms: ms(side.ended.unwrap_or_else(|| self.asked.begun.elapsed())),
                blocks_planned: side.counts.units_planned,
                blocks_done: side.counts.units_done,
                blocks_skipped: side.outcome.units_skipped,
                bytes_scanned: side.counts.bytes_scanned,
                lines_scanned: side.counts.lines_scanned.max(side.outcome.lines_scanned),
                answered_by: match side.winner {
                    Some(0) => first,
                    Some(_) => other.clone(),
                    None => None,
                },
                asked_elsewhere: other,
                error: side.failure.clone(),
            }
        };
        if let Some(log) = &self.relay {
            let ran = sides.iter().enumerate().map(|(number, side)| {
                let address = self.nodes[number].url().to_owned();
                RelayedRun { address, run: run(number, side) }
            });
            log.ran(ran.collect());
        }
        let Some(TracedShares { trace, plan, shares }) = traced else { return };
        let runs = sides.iter().zip(shares).enumerate().flat_map(|(number, (side, shares))| {
            let own = run(number, side);
            let is_relayed = side.relayed.is_some();
            let relay = match side.winner {
                Some(1..) => self.asked_elsewhere.get(&number).cloned(),
                _ => self.nodes.get(number).map(|node| node.name.clone()),
            };
            let relay = relay.filter(|_| is_relayed);
            shares.into_iter().map(move |(place, address)| {
                let ran = side.ran.iter().find(|ran| ran.address == address);
                // A relay that was not heard to its end did not tell.
                let unknown =
                    || TracedRun { ms: own.ms, error: own.error.clone(), ..TracedRun::default() };
                let run = match is_relayed {
                    true => ran.map_or_else(unknown, |ran| ran.run.clone()),
                    false => own.clone(),
                };
                (place, relay.clone(), run)
            })
        });
        trace.ran(plan, runs);
    }
}

impl Answer {
    /// Asks nodes for shares; what may be told of the answer besides is set before it
    /// [begins](Self::begins).
    ///
    /// Errors: a thread cannot be started.
    pub fn ask(
        shares: Vec<(Arc<Node>, Arc<ShareRequest>)>,
        context: &Context,
    ) -> Result<Answer, RunError> {
        Ok(Answer {
            nodes: shares.iter().map(|(node, _)| Arc::clone(node)).collect(),
            asked: Asked::begin(shares)?,
            progress: Arc::clone(&context.progress),
            before: Counts::default(),
            asked_elsewhere: HashMap::new(),
            has_begun: false,
            silence_max: SILENCE_MAX,
            hedges: None,
            missing: None,
            segments: HashMap::new(),
            trace: None,
            relay: None,
        })
    }

    /// The node that was asked first for the share of a side.
    pub fn node(&self, side: usize) -> &Arc<Node> {
        &self.nodes[side]
    }

    /// Waits until each store has a piece or has ended. The inner error is that of a store.
    pub fn begins(
        &mut self,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<Result<(), (usize, NodeError)>, RunError> {
        loop {
            let shared = Arc::clone(&self.asked.shared);
            let mut sides = shared.lock();
            if let Some(failed) = self.failed(&mut sides) {
                return Ok(Err(failed));
            }
            let begins = |side: &Side| !side.pieces.is_empty() || side.has_ended;
            if sides.iter().all(begins) {
                self.has_begun = true;
                return Ok(self.record_all(&mut sides).map_or(Ok(()), Err));
            }
            let begun = self.asked.begun;
            for side in sides.iter_mut() {
                if side.began.is_none() && begins(side) {
                    side.began = Some(begun.elapsed());
                }
            }
            let began = sides.iter().map(|side| Began { began: side.began, heard: side.heard });
            let began: Vec<Began> = began.collect();
            drop(sides);
            let slow =
                self.hedges.as_ref().and_then(|hedges| hedges.slow(&began, begun, Instant::now()));
            if let (Some((slow, is_silent)), Some(hedges)) = (slow, &mut self.hedges)
                && let Some((node, request)) = hedges.ask(slow, &self.nodes[slow])
            {
                self.asked_elsewhere.insert(slow, node.name.clone());
                self.asked.ask(slow, node, request)?;
                if is_silent {
                    // The next queries ask others first.
                    self.nodes[slow].was_silent();
                }
            }
            check()?;
            shared.wait();
        }
    }

    /// The error of a store, if one has failed or fallen silent.
    fn failed(&mut self, sides: &mut [Side]) -> Option<(usize, NodeError)> {
        self.count(sides);
        for (number, side) in sides.iter_mut().enumerate() {
            if side.has_ended || side.is_blocked {
                continue;
            }
            let heard = side.heard.unwrap_or(self.asked.begun);
            if side.pieces.is_empty() && heard.elapsed() > self.silence_max {
                let name = &self.nodes[number].name;
                let silent_s = self.silence_max.as_secs_f64();
                let message = format!("store {name} is away: it says nothing for {silent_s} s");
                side.failure.get_or_insert_with(|| message.clone());
                side.error.get_or_insert(NodeError::away(message));
            }
        }
        if self.has_begun
            && let Some(failed) = self.record_all(sides)
        {
            return Some(failed);
        }
        if let Some(number) = sides.iter().position(|side| side.error.is_some()) {
            return sides[number].error.take().map(|error| (number, error));
        }
        // In a cluster on engines, one node may have two shares.
        let nodes = sides.iter().map(|side| side.node);
        match self.hedges.is_some() {
            true => None,
            false => same_store(&self.nodes, nodes).map(|error| (0, error)),
        }
    }

    /// Records what the sides left out. An error is that of the side that found it too late.
    fn record_all(&self, sides: &mut [Side]) -> Option<(usize, NodeError)> {
        for (number, side) in sides.iter_mut().enumerate() {
            let left_out = std::mem::take(&mut side.left_out);
            if let Err(why) = left_out.into_iter().try_for_each(|one| self.record(one)) {
                return Some((number, NodeError::new(why)));
            }
        }
        None
    }

    /// Records what a side left out. An error says that it is too late for that.
    fn record(&self, left_out: LeftOut) -> Result<(), String> {
        if let Some(log) = &self.relay {
            log.leave_out(left_out);
            return Ok(());
        }
        let Some(missing) = &self.missing else { return Ok(()) };
        match left_out {
            LeftOut::Segment { name, lines, error } => {
                let known = self.segments.get(&name);
                // A name that stands for several may be any of those that are read.
                let of_all = || {
                    let times = self.segments.values().map(|(_, times_ns)| *times_ns);
                    times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
                };
                let (all, times_ns) = known.copied().unwrap_or_else(|| (0, of_all()));
                let lines = lines.unwrap_or(all);
                missing.add_segment(&name, &MissingLines { lines, times_ns, error })
            }
            LeftOut::Behind { partition, messages } => missing.add_behind(partition, messages),
        }
    }

    /// The node ids of the stores, as far as they have said them.
    pub fn ids(&self) -> Vec<Option<u32>> {
        self.asked.shared.lock().iter().map(|side| side.node).collect()
    }

    /// The next piece of a store, or its end, if there is one. No store: of any.
    fn look(
        &mut self,
        wanted: Option<usize>,
    ) -> Result<Option<(usize, Option<SharePiece>)>, RunError> {
        let shared = Arc::clone(&self.asked.shared);
        let mut sides = shared.lock();
        if let Some((number, error)) = self.failed(&mut sides) {
            if let Some(log) = &self.relay {
                log.failed(&self.nodes[number], &error);
            }
            return Err(RunError::Side(error.message));
        }
        for (number, side) in sides.iter_mut().enumerate() {
            if wanted.is_some_and(|wanted| wanted != number) {
                continue;
            }
            if let Some(piece) = side.pieces.pop_front() {
                side.bytes -= piece.bytes();
                drop(sides);
                shared.changed.notify_all();
                return Ok(Some((number, Some(piece))));
            }
            if side.has_ended && !side.end_is_known {
                side.end_is_known = true;
                return Ok(Some((number, None)));
            }
        }
        Ok(None)
    }

    /// Adds what the stores did since the last look to the progress of the query.
    fn count(&mut self, sides: &[Side]) {
        let sum = |count: fn(&Counts) -> u64| -> u64 {
            sides.iter().map(|side| count(&side.counts)).sum()
        };
        // Two nodes may tell in turn how far they are with the same share: only what is more than
        // ever before is new.
        let before = self.before;
        let now = Counts {
            bytes_planned: sum(|counts| counts.bytes_planned).max(before.bytes_planned),
            bytes_scanned: sum(|counts| counts.bytes_scanned).max(before.bytes_scanned),
            lines_scanned: sum(|counts| counts.lines_scanned).max(before.lines_scanned),
            units_planned: sum(|counts| counts.units_planned).max(before.units_planned),
            units_done: sum(|counts| counts.units_done).max(before.units_done),
        };
        self.before = now;
        let progress = &self.progress;
        for (total, now, before) in [
            (&progress.bytes_planned, now.bytes_planned, before.bytes_planned),
            (&progress.bytes_scanned, now.bytes_scanned, before.bytes_scanned),
            (&progress.lines_scanned, now.lines_scanned, before.lines_scanned),
            (&progress.units_planned, now.units_planned, before.units_planned),
            (&progress.units_done, now.units_done, before.units_done),
        ] {
            total.fetch_add(now.saturating_sub(before), Relaxed);
        }
    }
}

impl SharePieces for Answer {
    fn sides(&self) -> usize {
        self.nodes.len()
    }

    fn next(
        &mut self,
        side: Option<usize>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(usize, Option<SharePiece>), RunError> {
        loop {
            if let Some(found) = self.look(side)? {
                return Ok(found);
            }
            check()?;
            self.asked.shared.wait();
        }
    }

    fn end(&mut self, side: usize) {
        let mut sides = self.asked.shared.lock();
        let own = &mut sides[side];
        own.has_ended = true;
        own.pieces.clear();
        own.bytes = 0;
        drop(sides);
        self.asked.shared.changed.notify_all();
    }

    fn outcome(&self) -> Outcome {
        let sides = self.asked.shared.lock();
        sides.iter().fold(Outcome::default(), |sum, side| Outcome {
            lines_scanned: sum.lines_scanned + side.outcome.lines_scanned,
            units_skipped: sum.units_skipped + side.outcome.units_skipped,
            units_gone: sum.units_gone + side.outcome.units_gone,
            ..sum
        })
    }
}
