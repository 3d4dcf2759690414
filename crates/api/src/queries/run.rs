//! What all queries have in common: parameters, an entry in the queue, a thread to run on, and
//! cancellation when the client goes away.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use platform::memory::Purpose;
use query::source::{Hiding, Source, Tables, TimeRange};
use query::time::{parse_duration, parse_time};
use query::{
    Account, Context, EXPORT, ParseError, Progress, Query, QueryQueue, QueryState, RunError,
};
use text::time::format_time;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::access::audit;
use crate::access::limits::UserLimits;
use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::tenants::NoTables;
use crate::app::App;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult, queue_refusal, wrong_query};
use crate::wire::listen::client_has_stalled;
use node::cluster::Missing;
use node::ingest::tenants::QueryKind;
use node::pipeline::Pipeline;
use node::queries::jobs::QUERY_THREADS;

/// The computed fields that a request can ask for.
const INCLUDABLE: [&str; 3] = ["_line_id", "_line", "_received"];

impl Params {
    /// The parameter `query`, parsed at `now_ns`; with `ignore_pipes` only its filter.
    pub fn query(&self, now_ns: i64) -> ApiResult<Query> {
        let query = self.parse_query(self.required("query")?, now_ns).map_err(wrong_query)?;
        Ok(match self.flag("ignore_pipes") {
            true => Query::new(query.filter().clone(), Vec::new()).with_options(query.options()),
            false => query,
        })
    }

    /// A query of these parameters, parsed at `now_ns`.
    pub fn parse_query(&self, text: &str, now_ns: i64) -> Result<Query, ParseError> {
        let query = Query::parse_with(text, now_ns, self.macros())?;
        let mut options = query.options();
        options.all_revisions |= self.flag("all_revisions");
        Ok(query.with_options(options))
    }

    /// The time that relative times in a query refer to: the last instant before the parameter
    /// `time`, else before `end`, else now. A line of that very time is not in the hour before it.
    pub fn query_time_ns(&self, now_ns: i64) -> ApiResult<i64> {
        let time_ns = match self.time("time", now_ns)? {
            None => self.time("end", now_ns)?,
            time_ns => time_ns,
        };
        Ok(time_ns.map_or(now_ns, |time_ns| time_ns.saturating_sub(1)))
    }

    /// A limit of rows or values; 0 means no limit, as in VictoriaLogs.
    pub fn limit(&self, name: &str) -> ApiResult<Option<usize>> {
        Ok(self.number(name)?.filter(|&limit: &usize| limit > 0))
    }

    /// The parameters `start` and `end`.
    pub fn range(&self, now_ns: i64) -> ApiResult<TimeRange> {
        let instant = |name: &str| self.time(name, now_ns);
        Ok(TimeRange {
            start_ns: instant("start")?.unwrap_or(i64::MIN),
            end_ns: instant("end")?.unwrap_or(i64::MAX),
        })
    }

    /// A time in nanoseconds since 1970 UTC.
    pub fn time(&self, name: &str, now_ns: i64) -> ApiResult<Option<i64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let instants = parse_time(text, now_ns).ok_or_else(|| {
            ApiError::bad_request(format!(
                "{name}: '{text}' is not a time; write for example 2026-01-31T12:00:00Z, a Unix time, or 15m for 15 minutes ago"
            ))
        })?;
        Ok(Some(instants.start_ns))
    }

    /// A duration in nanoseconds, above zero.
    pub fn duration_ns(&self, name: &str) -> ApiResult<Option<i64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let duration =
            parse_duration(text).filter(|duration_ns| *duration_ns > 0).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "{name}: '{text}' is not a duration; write for example 10s, 5m or 1h30m"
                ))
            })?;
        Ok(Some(duration))
    }

    /// The parameter `include`: computed fields to add to rows.
    pub fn include(&self) -> ApiResult<Vec<String>> {
        let names = self
            .all("include")
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|n| !n.is_empty());
        let checked = names.map(|name| match INCLUDABLE.contains(&name) {
            true => Ok(name.to_owned()),
            false => Err(ApiError::bad_request(format!(
                "include: '{name}' is not one of {}",
                INCLUDABLE.join(", ")
            ))),
        });
        checked.collect()
    }
}

/// Characters of a slow query that the log shows. The list of queries shows all of it.
const SLOW_TEXT_MAX: usize = 1_000;

/// Whose lines a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesOf {
    /// Of all stores that this node answers for.
    All,
    /// Of this node alone: its share of a query of another node.
    ThisNode,
}

/// A query before it enters the queue.
pub struct PendingQuery {
    app: Arc<App>,
    pipeline: Arc<Pipeline>,
    /// Its kind, as the list of queries shows it.
    kind: &'static str,
    text: String,
    caller: Caller,
    /// Whose lines it reads.
    pub lines: LinesOf,
    /// Receives the stores that are away; none: a store that is away is an error.
    missing: Option<Arc<Missing>>,
    /// The execution context. Progress and cancellation are set once the query runs.
    pub context: Context,
}

impl PendingQuery {
    /// A query of `kind`, listed as `text`, with the limits of the configuration.
    pub fn new(
        app: &Arc<App>,
        kind: &'static str,
        text: &str,
        caller: &Caller,
    ) -> ApiResult<PendingQuery> {
        // Tables belong to all tenants. Without any, those of the source would serve.
        let tables: Arc<dyn Tables> = match caller.principal.tenants.is_bound() {
            true => Arc::new(NoTables),
            false => Arc::clone(&app.pipeline()?.lookups) as _,
        };
        let mut limits = app.query_options().limits;
        caller.principal.limits.lower(&mut limits);
        if let Some(bytes) = memory_of_tenant(caller) {
            limits.memory_bytes_max = limits.memory_bytes_max.min(bytes);
        }
        Ok(PendingQuery {
            pipeline: app.pipeline()?,
            kind,
            text: text.to_owned(),
            caller: caller.clone(),
            lines: LinesOf::All,
            missing: None,
            context: Context {
                limits,
                account: Account::new(app.memory(), Purpose::Query),
                tables: Some(tables),
                restriction: caller.principal.restriction.clone(),
                ..Context::default()
            },
            app: Arc::clone(app),
        })
    }

    /// A query with the parameters `query`, `start`, `end` and `timeout`.
    pub fn of_query(
        app: &Arc<App>,
        kind: &'static str,
        params: &Params,
        caller: &Caller,
        now_ns: i64,
    ) -> ApiResult<PendingQuery> {
        let text = params.required("query")?;
        PendingQuery::of_text(app, kind, text, params, caller, now_ns)
    }

    /// As [`of_query`](Self::of_query), listed as `text`.
    pub fn of_text(
        app: &Arc<App>,
        kind: &'static str,
        text: &str,
        params: &Params,
        caller: &Caller,
        now_ns: i64,
    ) -> ApiResult<PendingQuery> {
        let mut pending = PendingQuery::new(app, kind, text, caller)?;
        pending.context.range = params.range(now_ns)?;
        pending.context.restriction = params.restriction(now_ns)?;
        pending.allow_partial(params, caller);
        if let Some(timeout_ns) = params.duration_ns("timeout")? {
            let limits = &mut pending.context.limits;
            limits.run_time = limits.run_time.min(Duration::from_nanos(timeout_ns as u64));
        }
        Ok(pending)
    }

    /// With the parameter `allow_partial_response`, what cannot be read is named in the head of the
    /// answer, and the rest is read.
    pub fn allow_partial(&mut self, params: &Params, caller: &Caller) {
        if params.flag("allow_partial_response") {
            self.missing = Some(Arc::clone(&caller.missing));
            self.context.damages = Some(Arc::clone(&caller.missing.damages));
        }
    }

    /// Whether the rights of the caller leave out lines or fields.
    pub fn is_restricted(&self) -> bool {
        self.caller.principal.is_restricted()
    }

    /// Whether it reads the lines of this server alone, and those of no other store.
    pub fn reads_own_store(&self) -> bool {
        self.lines == LinesOf::ThisNode || self.app.cluster().is_none()
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Enters the queue, waits for a slot, runs `work`, and records in the queue how it ended.
    /// Blocks, so it is for threads that may. `link` cancels it when the client goes away.
    pub fn run<T>(
        self,
        link: &Link,
        work: impl FnOnce(&Running) -> Result<T, RunError>,
    ) -> ApiResult<T> {
        let queue = &self.app.queue;
        let mut told = Told::new(&self);
        let limits = self.caller.principal.limits;
        let arrived = Instant::now();
        let place = self.caller.principal.tenants.begin_query(QueryKind::Awaited);
        let _place = place.inspect_err(|refusal| {
            self.app.queries_refused.fetch_add(1, Relaxed);
            told.ends("refused", Some(refusal.to_string()));
        })?;
        let entered = queue
            .enter(self.kind, &self.text, &self.app.client_in_queue(&self.caller))
            .and_then(|ticket| {
                link.holds(queue, ticket.id());
                queue.covers(ticket.id(), self.context.range);
                ticket.wait()
            });
        let permit = entered.map_err(|error| {
            self.app.queries_refused.fetch_add(1, Relaxed);
            let refusal = queue_refusal(error);
            told.ends("refused", Some(refusal.to_string()));
            refusal
        })?;
        told.begins(&permit.progress);
        let context = Context {
            progress: Arc::clone(&permit.progress),
            cancelled: Arc::clone(&permit.cancelled),
            hold: permit.hold.clone(),
            ..self.context
        };
        let running = Running {
            source: Hiding::over(
                match self.lines {
                    LinesOf::ThisNode => Box::new(self.pipeline.stored.clone()),
                    LinesOf::All => {
                        let told = Some(Arc::clone(&self.caller.missing));
                        self.app.lines(&self.pipeline).source_that_tells(self.missing, told)
                    }
                },
                &context.restriction,
            ),
            context,
            id: permit.id(),
            started: Instant::now(),
        };
        let mut end = End { ended: &self.app.queries_ended, state: QueryState::Failed };
        // Exports take as long as their clients want.
        let times = (self.kind != EXPORT).then(|| Times {
            app: &self.app,
            kind: self.kind,
            text: &self.text,
            client: self.caller.client(),
            progress: &running.context.progress,
            waited: running.started.duration_since(arrived),
            begun: running.started,
        });
        let result = work(&running);
        drop(times);
        let (state, error) = match &result {
            Ok(_) => (QueryState::Done, None),
            Err(RunError::Cancelled) if link.client_has_stalled() => {
                let idle_s = self.app.options.client_idle_max.as_secs_f64();
                let why = format!(
                    "the client read nothing of its response for {idle_s} s (query.client_idle_max)"
                );
                (QueryState::Cancelled, Some(why))
            }
            Err(RunError::Cancelled) if link.client_is_gone() => {
                (QueryState::Cancelled, Some("the client went away (499)".into()))
            }
            Err(RunError::Cancelled) if permit.hold.expired() => (
                QueryState::Cancelled,
                Some("it was paused for longer than query.pause_max".into()),
            ),
            Err(RunError::Cancelled) => (QueryState::Cancelled, None),
            Err(error) => (QueryState::Failed, Some(error.to_string())),
        };
        end.state = state;
        drop(end);
        told.ends(state.name(), error.clone());
        permit.finish(state, error);
        let of_tenant = memory_of_tenant(&self.caller);
        result.map_err(|error| ended(&error, &limits, of_tenant))
    }
}

/// What the audit log says about a query when this is dropped; without an audit log, nothing. A
/// query that panicked has failed.
struct Told {
    caller: Caller,
    kind: &'static str,
    text: String,
    range: TimeRange,
    begun: Instant,
    progress: Arc<Progress>,
    state: &'static str,
    error: Option<String>,
}

impl Told {
    fn new(query: &PendingQuery) -> Told {
        Told {
            caller: query.caller.clone(),
            kind: query.kind,
            text: query.text.clone(),
            range: query.context.range,
            begun: Instant::now(),
            progress: Arc::default(),
            state: QueryState::Failed.name(),
            error: None,
        }
    }

    fn begins(&mut self, progress: &Arc<Progress>) {
        (self.begun, self.progress) = (Instant::now(), Arc::clone(progress));
    }

    fn ends(&mut self, state: &'static str, error: Option<String>) {
        (self.state, self.error) = (state, error);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let scanned = (&self.progress.lines_scanned, &self.progress.bytes_scanned);
        self.caller.principal.tenants.note_query(
            now_ns(),
            scanned.0.load(Relaxed),
            scanned.1.load(Relaxed),
        );
        let Some(log) = &self.caller.audit else { return };
        let bound = |ns: i64| (ns != i64::MIN && ns != i64::MAX).then(|| format_time(ns));
        let message = format!("{} {}: {}", self.kind, self.state, self.text);
        let entry = audit::of_caller(&self.caller, "query", &message)
            .with("kind", self.kind)
            .with("query", self.text.as_str())
            .with("start", bound(self.range.start_ns))
            .with("end", bound(self.range.end_ns))
            .with("state", self.state)
            .with("error", self.error.as_deref())
            .with("rows", self.progress.rows.load(Relaxed))
            .with("lines_scanned", self.progress.lines_scanned.load(Relaxed))
            .with("bytes_scanned", self.progress.bytes_scanned.load(Relaxed))
            .with("run_ms", self.begun.elapsed().as_millis() as u64);
        log.add(entry);
    }
}

/// Counts how a query ended when this is dropped. One that panicked has failed.
struct End<'a> {
    ended: &'a [AtomicU64; QueryState::COUNT],
    state: QueryState,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.ended[self.state as usize].fetch_add(1, Relaxed);
    }
}

/// Counts how long a query waited and ran when this is dropped, and names it in the log if that was
/// long.
struct Times<'a> {
    app: &'a App,
    kind: &'static str,
    text: &'a str,
    client: String,
    progress: &'a Progress,
    waited: Duration,
    begun: Instant,
}

impl Drop for Times<'_> {
    fn drop(&mut self) {
        let ran = self.begun.elapsed();
        self.app.query_waits.add(self.waited);
        self.app.query_runs.add(ran);
        if self.app.query_options().slow.is_some_and(|slow| slow <= ran) {
            self.app.queries_slow.fetch_add(1, Relaxed);
            tracing::warn!(
                "slow {} of {}: ran {:.1} s, waited {:.1} s, read {} lines, {} bytes (query.slow): {}",
                self.kind,
                self.client,
                ran.as_secs_f64(),
                self.waited.as_secs_f64(),
                self.progress.lines_scanned.load(Relaxed),
                self.progress.bytes_scanned.load(Relaxed),
                logged(self.text),
            );
        }
    }
}

/// The text of a query in a line of the log, which it cannot break.
fn logged(text: &str) -> String {
    let shown: String = text.chars().take(SLOW_TEXT_MAX).collect();
    let more = if shown.len() < text.len() { " …" } else { "" };
    format!("{shown:?}{more}")
}

/// A query that runs.
pub struct Running {
    source: Hiding<'static>,
    /// Limits, progress and cancellation.
    pub context: Context,
    /// The id of the entry in the queue.
    pub id: u64,
    started: Instant,
}

impl Running {
    /// The source of lines, without the fields that the caller may not see.
    pub fn source(&self) -> &dyn Source {
        &self.source
    }

    /// An error if the query has to stop.
    pub fn check(&self) -> Result<(), RunError> {
        self.context.check(self.started)
    }
}

/// Runs a query whose response is sent as a whole.
pub async fn answer<T: Send + 'static>(
    pending: PendingQuery,
    work: impl FnOnce(&Running) -> Result<T, RunError> + Send + 'static,
) -> ApiResult<T> {
    let client = Client::default();
    let link = client.link();
    reading_thread(move || pending.run(&link, work)).await
}

/// Starts a query that continues when its client goes away. Returns the id of its entry once it is
/// in the queue, where it can be seen and cancelled.
pub async fn start<T: Send + 'static>(
    pending: PendingQuery,
    work: impl FnOnce(&Running) -> Result<T, RunError> + Send + 'static,
) -> ApiResult<u64> {
    let client = Client::default();
    let link = client.link();
    let (tell, entered) = oneshot::channel();
    link.lock().tell = Some(tell);
    let run = reading_thread(move || {
        let _stays = client;
        pending.run(&link, work)
    });
    tokio::pin!(run);
    tokio::select! {
        biased;
        Ok(id) = entered => Ok(id),
        // It got no entry, or it ended before this task saw the id.
        result = &mut run => result.and(Err(broken())),
    }
}

/// Starts work that reads, on a thread for queries. There are at most as many as HTTP connections;
/// the queue lets few of them run.
pub fn reading_thread<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> impl Future<Output = ApiResult<T>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    let placed = move || {
        let _runtime = runtime.enter();
        // If nobody receives it, the client is gone.
        let _ = sender.send(work());
    };
    let started = QUERY_THREADS.run(placed);
    async move {
        started.map_err(|error| {
            ApiError::unavailable(format!("no thread can be started for the query: {error}"))
        })?;
        receiver.await.unwrap_or_else(|_| Err(broken()))
    }
}

/// Stands for the client while it waits; dropping it before the end cancels the query. It is
/// dropped by the task of the client's connection, which knows the reason.
#[derive(Default)]
pub struct Client(Link);

/// The query's side of [`Client`].
#[derive(Clone, Default)]
pub struct Link(Arc<Mutex<Linked>>);

#[derive(Default)]
struct Linked {
    gone: bool,
    /// The client is gone because it read nothing of its response.
    stalled: bool,
    entry: Option<(QueryQueue, u64)>,
    /// Receives the id of the entry.
    tell: Option<oneshot::Sender<u64>>,
}

impl Client {
    /// The query's side.
    pub fn link(&self) -> Link {
        self.0.clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut linked = self.0.lock();
        linked.gone = true;
        linked.stalled = client_has_stalled();
        if let Some((queue, id)) = &linked.entry {
            queue.cancel(*id);
        }
    }
}

impl Link {
    fn holds(&self, queue: &QueryQueue, id: u64) {
        let mut linked = self.lock();
        // The client may have gone before the query was in the queue.
        if linked.gone {
            queue.cancel(id);
        }
        linked.entry = Some((queue.clone(), id));
        if let Some(tell) = linked.tell.take() {
            // Nobody may be waiting for the id any more.
            let _ = tell.send(id);
        }
    }

    fn client_is_gone(&self) -> bool {
        self.lock().gone
    }

    fn client_has_stalled(&self) -> bool {
        self.lock().stalled
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Linked> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The memory of a query of the caller's tenant, if it has a limit.
pub fn memory_of_tenant(caller: &Caller) -> Option<u64> {
    caller.principal.tenants.options().and_then(|options| options.query_memory_bytes_max)
}

/// The answer for a query that failed. A limit of the caller, or of the tenant, is named as one.
fn ended(error: &RunError, own: &UserLimits, memory_of_tenant: Option<u64>) -> ApiError {
    if let RunError::MemoryLimit(most) = error
        && memory_of_tenant == Some(*most)
        && own.memory_bytes_max != Some(*most)
    {
        let text = format!(
            "{error}; this is query_memory_bytes_max of the tenant in [[tenants]], which an \
             administrator may raise"
        );
        return ApiError::new(StatusCode::TOO_MANY_REQUESTS, text);
    }
    let seconds = own.run_max.map(|most| most.as_secs_f64());
    let setting = match error {
        RunError::TimeLimit(most) if seconds == Some(*most) => Some("run_max"),
        RunError::MemoryLimit(most) if own.memory_bytes_max == Some(*most) => {
            Some("memory_bytes_max")
        }
        RunError::RowLimit(most) if own.rows_max == Some(*most) => Some("rows_max"),
        _ => None,
    };
    if let Some(setting) = setting {
        return ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "{error}; this is the limit {setting} of this user or address, which an \
                 administrator may raise for the user, or in [limits.users]"
            ),
        );
    }
    match error {
        RunError::Source(_) | RunError::Damaged(_) => ApiError::internal(error.to_string()),
        RunError::NoTable(_) | RunError::Restricted(_) => ApiError::bad_request(error.to_string()),
        _ => ApiError::unavailable(error.to_string()),
    }
}

/// 500: the query's thread panicked.
fn broken() -> ApiError {
    ApiError::internal("the query ended because of a bug; see the server's log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_query_is_one_line_of_bounded_length() {
        assert_eq!(logged("a\n\u{1b}[1m\"b\""), r#""a\n\u{1b}[1m\"b\"""#);
        assert_eq!(logged(&"ü".repeat(SLOW_TEXT_MAX)).chars().count(), SLOW_TEXT_MAX + 2);
        let longer = logged(&"ü".repeat(SLOW_TEXT_MAX + 1));
        assert!(longer.ends_with("ü\" …"), "{longer}");
        assert_eq!(longer.chars().count(), SLOW_TEXT_MAX + 4);
    }
}
