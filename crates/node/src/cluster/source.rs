//! The nodes of a cluster as a source of lines: queries run as shares on stores that have all lines
//! together, or on the nodes that have the parts of a plan.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use query::source::{Revisions, ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, RunError, Share, SharePiece, SharePieces, Sides};
use record::{Batch, LineId, read_rows};

use super::answer::{Answer, SILENCE_MAX, SILENCE_MAX_PARTIAL, TracedShares};
use super::engines::{Avoided, Engines, Pieces as PieceList, Spread, Unanswered};
use super::hedges::Hedges;
use super::message::{Message, ShareRequest};
use super::node::Node;
use super::relays::{self, Route};
use super::{Cluster, Copy, Missing};

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
        let started = Instant::now();
        if let Some(engines) = self.cluster.engines() {
            return self.begin_on_engines(engines, share, context, started);
        }
        let request = ShareRequest::new(share, context.limits.run_time);
        let mut readers = self.cluster.readers();
        loop {
            context.check(started)?;
            let chosen = readers.choose();
            match (&self.missing, chosen.error()) {
                (Some(_), Some(_)) if !chosen.copy.nodes.is_empty() => {}
                (_, Some(error)) => return Err(RunError::Side(error.message)),
                (_, None) => {}
            }
            let mut answer = Answer::ask(same_for_all(&chosen.copy, &request), context)?;
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
    fn begin_on_engines(
        &self,
        engines: &Engines,
        share: &Share,
        context: &Context,
        started: Instant,
    ) -> Result<Box<dyn SharePieces>, RunError> {
        let planning = OfEngines { engines, range: share.range, run_time: context.limits.run_time };
        let told = (self.missing.as_ref(), self.told.as_ref());
        begin_planned(&planning, share, context, told, started)
    }
}

/// Plans the shares of a query.
pub(super) trait Planning {
    /// Who reads what.
    ///
    /// Errors: an engine has not told enough yet, or no node can read; the text says so.
    fn spread(&self, avoided: &Avoided) -> Result<Spread, String>;

    /// Whether an engine has been away for so long that a query does not wait for it.
    fn are_away(&self) -> bool;

    /// How long a node that is silent owns its partitions.
    fn lease(&self) -> Duration;

    /// Most nodes that a query asks without relays.
    fn direct_max(&self) -> usize;
}

struct OfEngines<'e> {
    engines: &'e Engines,
    range: TimeRange,
    run_time: Duration,
}

impl Planning for OfEngines<'_> {
    fn spread(&self, avoided: &Avoided) -> Result<Spread, String> {
        self.engines.spread(self.range, self.run_time, avoided)
    }

    fn are_away(&self) -> bool {
        self.engines.are_away()
    }

    fn lease(&self) -> Duration {
        self.engines.config.lease
    }

    fn direct_max(&self) -> usize {
        self.engines.config.direct_nodes_max
    }
}

/// Plans, and asks the nodes of the plan, or relays. Plans again while an owner of a partition is
/// away or does not have what the plan says, until a lease would have gone to another node. What an
/// answer may leave out is not waited for as long. `missing` and `told` as for [`ClusterSource`].
pub(super) fn begin_planned(
    planning: &dyn Planning,
    share: &Share,
    context: &Context,
    (missing, told): (Option<&Arc<Missing>>, Option<&Arc<Missing>>),
    started: Instant,
) -> Result<Box<dyn SharePieces>, RunError> {
    let patience = match missing {
        None => planning.lease() * OWNER_WAIT_FACTOR,
        Some(_) => PARTIAL_WAIT,
    };
    let request = &ShareRequest {
        may_leave_out: missing.is_some(),
        ..ShareRequest::new(share, context.limits.run_time)
    };
    let direct_max = if share.can_be_relayed() { planning.direct_max() } else { usize::MAX };
    let mut avoided = Avoided::default();
    let mut no_relays = BTreeSet::new();
    loop {
        context.check(started)?;
        let is_patient = started.elapsed() < patience;
        let mut plan = match planning.spread(&avoided) {
            // Nothing may be left out, so the query waits for the engine, and not for long if
            // that is away.
            Err(_) if is_patient && !planning.are_away() => {
                std::thread::sleep(PLAN_PAUSE);
                continue;
            }
            plan => plan.map_err(RunError::Side)?,
        };
        if let Some(why) = lacking(&plan) {
            let is_open_alone = plan.unanswered.is_empty();
            // The log was waited for already.
            let waits = match missing {
                Some(_) => is_patient && !is_open_alone,
                None => is_patient && !(is_open_alone && planning.are_away()),
            };
            if waits && !plan.is_log_lost() {
                std::thread::sleep(PLAN_PAUSE);
                // An owner that was away may be back, or another one may have the partition.
                avoided = Avoided::default();
                continue;
            }
            if missing.is_none() {
                return Err(RunError::Side(why));
            }
        }
        let trace = missing.or(told).and_then(|told| told.trace());
        let traced = trace.and_then(|trace| Some((Arc::clone(trace), trace.plan(&plan)?)));
        let shares = std::mem::take(&mut plan.shares);
        let routes = relays::routes(&shares, direct_max, &plan.readers, &no_relays);
        let requests = relays::requests(&routes, &shares, request);
        let readers = std::mem::take(&mut plan.readers);
        let hedges = Hedges::new(&requests, readers, relays::others(&routes));
        let mut answer = Answer::ask(requests, context)?;
        answer.hedges = Some(hedges);
        answer.missing = missing.cloned();
        answer.segments = std::mem::take(&mut plan.segments);
        answer.silence_max = match missing {
            Some(_) => SILENCE_MAX_PARTIAL,
            None => SILENCE_MAX,
        };
        answer.trace = traced.clone().map(|(trace, plan)| {
            let address = |place: &usize| (*place, shares[*place].0.url().to_owned());
            let of_route = |route: &Route| route.shares.iter().map(address).collect();
            TracedShares { trace, plan, shares: routes.iter().map(of_route).collect() }
        });
        let Err((number, error)) = answer.begins(&|| context.check(started))? else {
            tell(&plan, missing, told);
            return Ok(Box::new(answer));
        };
        let address = error.of.clone().unwrap_or_else(|| answer.node(number).url().to_owned());
        // The next attempt is beside none of this one.
        drop(answer);
        tracing::debug!("{}; the query is planned again", error.message);
        if let Some((trace, place)) = &traced {
            trace.planned_again(*place, &error.message);
        }
        if error.is_no_relay && no_relays.insert(address.clone()) {
            continue;
        }
        if error.is_away && error.of.is_some() {
            // Who asked it noticed; the next queries of this node ask others first, too.
            let failed = shares.iter().find(|(node, _)| node.url() == address);
            failed.inspect(|(node, _)| node.was_silent());
        }
        match (error.is_away, error.is_stale) {
            (false, false) => return Err(RunError::Side(error.message)),
            // Its segments are read by others at once; its newest frames are waited for.
            (true, _) if !avoided.nodes.contains_key(&address) => {
                avoided.nodes.insert(address, error.message);
            }
            (_, true) if is_patient => std::thread::sleep(PLAN_PAUSE),
            (_, true) if missing.is_some() => {
                avoided.owners.insert(address, error.message);
            }
            _ if is_patient => std::thread::sleep(PLAN_PAUSE),
            _ => return Err(RunError::Side(error.message)),
        }
    }
}

/// Tells what an answer by a plan lacks.
fn tell(plan: &Spread, missing: Option<&Arc<Missing>>, told: Option<&Arc<Missing>>) {
    if let Some(missing) = missing {
        for (partition, since_ns) in &plan.open {
            missing.add_open(*partition, *since_ns, &plan.log_error);
        }
        for Unanswered { partition, messages, why } in &plan.unanswered {
            missing.add_unanswered(*partition, *messages, why);
        }
    }
    if let (Some(told), Some((age, error))) = (missing.or(told), &plan.catalog_age) {
        told.add_catalog_age(*age, error);
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
    let mut answer = Answer::ask(with_pieces(shares, &request), context)?;
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
