//! The nodes of a cluster as a source of lines: queries run as shares on stores that have all lines
//! together, or on the nodes that have the parts of a plan.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use platform::placement::Role;
use platform::threads::Threads;
use query::source::{Revisions, ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, Outcome, Progress, RunError, Share, SharePiece, SharePieces, Sides};
use record::{Batch, LineId, read_rows};

use super::engines::{Avoided, Engines, LeftOut, Pieces as PieceList, Spread, Unanswered};
use super::hedges::{Began, Hedges};
use super::message::{Counts, Message, ShareRequest};
use super::node::{Node, NodeError};
use super::trace::{ShareTrace, TracedRun, ms};
use super::{Cluster, Copy, Missing, MissingLines};

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
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same where the answer may leave out what the store has.
///
/// limits.md, Nodes of a cluster: silence of a node, with `allow_partial_response=1` | {} | what it
/// alone has is missing
const SILENCE_MAX_PARTIAL: Duration = Duration::from_millis(2_500);
/// How long a query waits for an owner of a partition: longer than a lease that has to expire.
const OWNER_WAIT_FACTOR: u32 = 3;
/// How long it waits when it may leave out what nobody answers for.
///
/// limits.md, Nodes of a cluster: wait for an owner of a partition | three times `cluster.lease`;
/// {} with `allow_partial_response=1` | the query fails, or names what is missing
const PARTIAL_WAIT: Duration = Duration::from_secs(1);
/// The pause before a query is planned again.
const PLAN_PAUSE: Duration = Duration::from_millis(200);
/// How long a store has for the line of an id.
const LINE_TIME_MAX: Duration = Duration::from_secs(10);

/// Reads the answers of stores, a thread for each share. The number of shares is bounded by the
/// places of the queue and the number of stores.
static READERS: Threads =
    Threads::new("cluster-share", Role::Query, crate::process::memory::give_back_own);

/// The source of one query.
pub struct ClusterSource {
    cluster: Arc<Cluster>,
    /// Receives the stores whose lines are missing; none: a store that is away is an error.
    missing: Option<Arc<Missing>>,
    /// Receives what is to be told of a whole answer.
    told: Option<Arc<Missing>>,
}

impl ClusterSource {
    /// The lines of the cluster. `missing`: go on without stores that are away, and record them.
    /// `told`: receives what is to be told of a whole answer, too.
    pub fn new(
        cluster: Arc<Cluster>,
        missing: Option<Arc<Missing>>,
        told: Option<Arc<Missing>>,
    ) -> ClusterSource {
        ClusterSource { cluster, missing, told }
    }
}

impl Source for ClusterSource {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Err(SourceError(
            "this needs lines around others, which one store does not have; ask a store itself, or select the lines by a \
             filter"
                .to_owned(),
        ))
    }

    fn sides(&self) -> Option<&dyn Sides> {
        Some(self)
    }

    fn revisions(&self) -> Option<Arc<dyn Revisions>> {
        self.cluster.revisions.clone()
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let request = ShareRequest::line(id, LINE_TIME_MAX);
        if let Some(engines) = self.cluster.engines() {
            return find_on_engines(engines, id, &request);
        }
        // The chosen stores come first; a line that they lack may be in another one.
        let chosen = self.cluster.readers().choose();
        let mut failed = chosen.error().map(|error| error.message);
        let is_chosen =
            |node: &Arc<Node>| chosen.copy.nodes.iter().any(|one| Arc::ptr_eq(one, node));
        let others = self.cluster.nodes().filter(|node| !is_chosen(node));
        for (node, is_chosen) in chosen
            .copy
            .nodes
            .iter()
            .map(|node| (node, true))
            .chain(others.map(|node| (node, false)))
        {
            match line_of(node, &request) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Err(why) if is_chosen => failed = failed.or(Some(why)),
                _ => {}
            }
        }
        match failed {
            Some(message) if self.missing.is_none() => Err(SourceError(message)),
            _ => Ok(None),
        }
    }
}

impl Sides for ClusterSource {
    /// Waits until each of the stores has sent its first piece, or has none. Until then others can
    /// be asked in place of one that is away.
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError> {
        let request = ShareRequest::new(share, context.limits.run_time);
        let started = Instant::now();
        if let Some(engines) = self.cluster.engines() {
            return self.begin_on_engines(engines, &request, context, started);
        }
        let mut readers = self.cluster.readers();
        loop {
            context.check(started)?;
            let chosen = readers.choose();
            match (&self.missing, chosen.error()) {
                (Some(_), Some(_)) if !chosen.copy.nodes.is_empty() => {}
                (_, Some(error)) => return Err(RunError::Side(error.message)),
                (_, None) => {}
            }
            let mut answer = Answer {
                asked: Asked::begin(same_for_all(&chosen.copy, &request))?,
                copy: chosen.copy.clone(),
                progress: Arc::clone(&context.progress),
                before: Counts::default(),
                missing: None,
                segments: HashMap::new(),
                silence_max: SILENCE_MAX,
                hedges: None,
                asked_elsewhere: HashMap::new(),
                trace: None,
            };
            match answer.begins(&|| context.check(started))? {
                Ok(()) if readers.are_same(&chosen, &answer.ids()) => {
                    if let Some(missing) = &self.missing {
                        chosen.tell(missing);
                    }
                    return Ok(Box::new(answer));
                }
                Ok(()) => {}
                Err((number, error)) if error.is_away => readers.failed(&chosen, number, error),
                Err((_, error)) => return Err(RunError::Side(error.message)),
            }
        }
    }
}

impl ClusterSource {
    /// Plans, and asks the nodes of the plan. Plans again while an owner of a partition is away or
    /// does not have what the plan says, until a lease would have gone to another node. What an
    /// answer may leave out is not waited for as long.
    fn begin_on_engines(
        &self,
        engines: &Engines,
        request: &ShareRequest,
        context: &Context,
        started: Instant,
    ) -> Result<Box<dyn SharePieces>, RunError> {
        let range = TimeRange { start_ns: request.start_ns, end_ns: request.end_ns };
        let patience = match &self.missing {
            None => engines.config.lease * OWNER_WAIT_FACTOR,
            Some(_) => PARTIAL_WAIT,
        };
        let request = &ShareRequest { may_leave_out: self.missing.is_some(), ..request.clone() };
        let mut avoided = Avoided::default();
        loop {
            context.check(started)?;
            let is_patient = started.elapsed() < patience;
            let plan = engines.spread(range, context.limits.run_time, &avoided);
            let plan = match plan {
                // Nothing may be left out, so the query waits for the engine, and not for long if
                // that is away.
                Err(_) if is_patient && !engines.are_away() => {
                    std::thread::sleep(PLAN_PAUSE);
                    continue;
                }
                plan => plan.map_err(RunError::Side)?,
            };
            if let Some(why) = lacking(&plan) {
                let is_open_alone = plan.unanswered.is_empty();
                // The log was waited for already.
                let waits = match &self.missing {
                    Some(_) => is_patient && !is_open_alone,
                    None => is_patient && !(is_open_alone && engines.are_away()),
                };
                if waits {
                    std::thread::sleep(PLAN_PAUSE);
                    // An owner that was away may be back, or another one may have the partition.
                    avoided = Avoided::default();
                    continue;
                }
                if self.missing.is_none() {
                    return Err(RunError::Side(why));
                }
            }
            let trace = self.missing.as_ref().or(self.told.as_ref()).and_then(|told| told.trace());
            let traced = trace.and_then(|trace| Some((Arc::clone(trace), trace.plan(&plan)?)));
            let nodes = plan.shares.iter().map(|(node, _)| Arc::clone(node)).collect();
            let shares = with_pieces(plan.shares, request);
            let mut answer = Answer {
                hedges: Some(Hedges::new(&shares, plan.readers)),
                asked: Asked::begin(shares)?,
                copy: Copy { nodes },
                progress: Arc::clone(&context.progress),
                before: Counts::default(),
                missing: self.missing.clone(),
                segments: plan.segments,
                asked_elsewhere: HashMap::new(),
                trace: traced.clone(),
                silence_max: match &self.missing {
                    Some(_) => SILENCE_MAX_PARTIAL,
                    None => SILENCE_MAX,
                },
            };
            let Err((number, error)) = answer.begins(&|| context.check(started))? else {
                if let Some(missing) = &self.missing {
                    for (partition, since_ns) in &plan.open {
                        missing.add_open(*partition, *since_ns, &plan.log_error);
                    }
                    for Unanswered { partition, messages, why } in &plan.unanswered {
                        missing.add_unanswered(*partition, *messages, why);
                    }
                }
                let told = self.missing.as_ref().or(self.told.as_ref());
                if let (Some(told), Some((age, error))) = (told, &plan.catalog_age) {
                    told.add_catalog_age(*age, error);
                }
                return Ok(Box::new(answer));
            };
            let address = answer.copy.nodes[number].url().to_owned();
            tracing::debug!("{}; the query is planned again", error.message);
            if let Some((trace, place)) = &traced {
                trace.planned_again(*place, &error.message);
            }
            match (error.is_away, error.is_stale) {
                (false, false) => return Err(RunError::Side(error.message)),
                // Its segments are read by others at once; its newest frames are waited for.
                (true, _) if !avoided.nodes.contains_key(&address) => {
                    avoided.nodes.insert(address, error.message);
                }
                (_, true) if is_patient => std::thread::sleep(PLAN_PAUSE),
                (_, true) if self.missing.is_some() => {
                    avoided.owners.insert(address, error.message);
                }
                _ if is_patient => std::thread::sleep(PLAN_PAUSE),
                _ => return Err(RunError::Side(error.message)),
            }
        }
    }
}

/// Why an answer by a plan would not be whole; none if it is.
fn lacking(plan: &Spread) -> Option<String> {
    if let Some(unanswered) = plan.unanswered.first() {
        return Some(unanswered.message());
    }
    plan.open.first().map(|(partition, _)| {
        format!(
            "Kafka does not tell what it has of partition {partition}, so the newest lines may be missing: {}; check that its brokers run, or ask with allow_partial_response=1 for an answer without them",
            plan.log_error
        )
    })
}

/// Asks each node for a share of its pieces, and waits until each has begun to answer.
///
/// Errors: a node cannot answer; the query has to stop.
pub fn ask(
    shares: Vec<(Arc<Node>, PieceList)>,
    share: &Share,
    context: &Context,
) -> Result<Box<dyn SharePieces>, RunError> {
    let started = Instant::now();
    let request = ShareRequest::new(share, context.limits.run_time);
    let nodes = shares.iter().map(|(node, _)| Arc::clone(node)).collect();
    let mut answer = Answer {
        asked: Asked::begin(with_pieces(shares, &request))?,
        copy: Copy { nodes },
        progress: Arc::clone(&context.progress),
        before: Counts::default(),
        missing: None,
        segments: HashMap::new(),
        silence_max: SILENCE_MAX,
        hedges: None,
        asked_elsewhere: HashMap::new(),
        trace: None,
    };
    match answer.begins(&|| context.check(started))? {
        Ok(()) => Ok(Box::new(answer)),
        Err((_, error)) => Err(RunError::Side(error.message)),
    }
}

/// The same request for each store of a copy.
fn same_for_all(copy: &Copy, request: &ShareRequest) -> Vec<(Arc<Node>, Arc<ShareRequest>)> {
    let request = Arc::new(request.clone());
    copy.nodes.iter().map(|node| (Arc::clone(node), Arc::clone(&request))).collect()
}

/// A request for each node with its pieces.
fn with_pieces(
    shares: Vec<(Arc<Node>, PieceList)>,
    request: &ShareRequest,
) -> Vec<(Arc<Node>, Arc<ShareRequest>)> {
    let whole =
        |(node, pieces)| (node, Arc::new(ShareRequest { pieces: Some(pieces), ..request.clone() }));
    shares.into_iter().map(whole).collect()
}

/// The records of the unit that holds a line.
fn find_on_engines(
    engines: &Engines,
    id: LineId,
    request: &ShareRequest,
) -> Result<Option<Arc<Batch>>, SourceError> {
    let plan = engines.spread_line(id, LINE_TIME_MAX).map_err(SourceError)?;
    let lacking = lacking(&plan);
    let mut failed = None;
    for (node, request) in with_pieces(plan.shares, request) {
        match line_of(&node, &request) {
            Ok(Some(batch)) => return Ok(Some(batch)),
            Ok(None) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // The line may be among those that nobody answers for.
    match failed.or(lacking) {
        Some(why) => Err(SourceError(why)),
        None => Ok(None),
    }
}

/// The line that a request wants, if the node has it. An error says why the node cannot tell.
fn line_of(node: &Node, request: &ShareRequest) -> Result<Option<Arc<Batch>>, String> {
    let (mut found, mut failed) = (None, None);
    let result = node.share(request, &mut |message| match message {
        Message::Piece(SharePiece::Lines(lines, _)) => {
            found = Some(lines);
            ControlFlow::Continue(())
        }
        Message::Failed(_, why) => {
            failed = Some(format!("store {}: {why}", node.name));
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if let Some(lines) = found {
        return read_rows(&lines).map(|batch| Some(Arc::new(batch))).map_err(|e| e.to_string());
    }
    match failed.or_else(|| result.err().map(|error| error.message)) {
        Some(why) => Err(why),
        None => Ok(None),
    }
}

/// What one store has sent.
#[derive(Default)]
struct Side {
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
        let sides = shares.iter().map(|_| Side::default()).collect();
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
            own.fail(at.1, error);
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
                let is_away = status == 503;
                own.fail(
                    place,
                    NodeError { is_away, is_stale: status == 409, ..NodeError::new(message) },
                );
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

/// The answers of the stores to one share.
struct Answer {
    copy: Copy,
    asked: Asked,
    progress: Arc<Progress>,
    /// What is counted in the progress already.
    before: Counts,
    /// How long a store may say nothing.
    silence_max: Duration,
    /// Other nodes for the segments of slow ones; none where the stores have different lines.
    hedges: Option<Hedges>,
    /// Receives what sides leave out.
    missing: Option<Arc<Missing>>,
    /// Lines and event times of the segments that are read.
    segments: HashMap<String, (u64, (i64, i64))>,
    /// The names of the second nodes that were asked, by side.
    asked_elsewhere: HashMap<usize, String>,
    /// Receives what the shares took, and the place of their plan there.
    trace: Option<(Arc<ShareTrace>, usize)>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let Some((trace, place)) = self.trace.take() else { return };
        let sides = self.asked.shared.lock();
        let run = |(number, side): (usize, &Side)| {
            let first = self.copy.nodes.get(number).map(|node| node.name.clone());
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
        trace.ran(place, sides.iter().enumerate().map(run));
    }
}

impl Answer {
    /// Waits until each store has a piece or has ended. The inner error is that of a store.
    fn begins(
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
                return Ok(Ok(()));
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
                && let Some((node, request)) = hedges.ask(slow, &self.copy.nodes[slow])
            {
                self.asked_elsewhere.insert(slow, node.name.clone());
                self.asked.ask(slow, node, request)?;
                if is_silent {
                    // The next queries ask others first.
                    self.copy.nodes[slow].was_silent();
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
                let name = &self.copy.nodes[number].name;
                let silent_s = self.silence_max.as_secs_f64();
                let message = format!("store {name} is away: it says nothing for {silent_s} s");
                side.failure.get_or_insert_with(|| message.clone());
                side.error.get_or_insert(NodeError::away(message));
            }
        }
        for (number, side) in sides.iter_mut().enumerate() {
            let left_out = std::mem::take(&mut side.left_out);
            if let Err(why) = left_out.into_iter().try_for_each(|one| self.record(one)) {
                return Some((number, NodeError::new(why)));
            }
        }
        if let Some(number) = sides.iter().position(|side| side.error.is_some()) {
            return sides[number].error.take().map(|error| (number, error));
        }
        // In a cluster on engines, one node may have two shares.
        let nodes = sides.iter().map(|side| side.node);
        match self.hedges.is_some() {
            true => None,
            false => self.copy.same_store(nodes).map(|error| (0, error)),
        }
    }

    /// Records what a side left out. An error says that it is too late for that.
    fn record(&self, left_out: LeftOut) -> Result<(), String> {
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
    fn ids(&self) -> Vec<Option<u32>> {
        self.asked.shared.lock().iter().map(|side| side.node).collect()
    }

    /// The next piece of a store, or its end, if there is one. No store: of any.
    fn look(
        &mut self,
        wanted: Option<usize>,
    ) -> Result<Option<(usize, Option<SharePiece>)>, RunError> {
        let shared = Arc::clone(&self.asked.shared);
        let mut sides = shared.lock();
        if let Some((_, error)) = self.failed(&mut sides) {
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
        self.copy.nodes.len()
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
