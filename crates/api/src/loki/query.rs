//! `query` and `query_range`.

use std::sync::Arc;
use std::time::Instant;

use ::query::source::TimeRange;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use logql::ast::{Expr, LogQuery};
use logql::metric::Grid;
use logql::{EvalError, logs, metric};

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::loki::answer::{self, CATEGORIZE_LABELS, Cost};
use crate::loki::params::{self, QUERY_SINCE_NS};
use crate::loki::{LokiError, LokiResult};
use crate::queries::run::{PendingQuery, Running, answer};

/// Lines of a response by default.
const LIMIT_DEFAULT: usize = 100;
/// Limit of the lines of a response, as in Loki. More are refused.
pub const LIMIT_MAX: usize = 5_000;
/// Number of steps in a range by default.
const STEPS_DEFAULT: i64 = 250;
const SECOND_NS: i64 = 1_000_000_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/loki/api/v1/query", at).query("/loki/api/v1/query_range", over)
}

/// Whether the client requests labels by category.
pub fn categorizes(headers: &HeaderMap) -> bool {
    let flags = headers.get_all("x-loki-response-encoding-flags").iter();
    flags
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|flag| flag.trim() == CATEGORIZE_LABELS)
}

/// Parses a query.
pub fn parse(params: &Params) -> LokiResult<Expr> {
    logql::parse(params.required("query")?).map_err(LokiError::bad_request)
}

/// A query with that text, before it enters the queue.
pub fn prepare(
    app: &Arc<App>,
    params: &Params,
    text: &str,
    caller: &Caller,
) -> LokiResult<PendingQuery> {
    let mut pending = PendingQuery::new(app, "loki", text, caller)?;
    pending.context.restriction = params.restriction(crate::wire::clock::now_ns())?;
    Ok(pending)
}

/// Runs a query; `work` can ask for its cost so far. An error in the query itself does not count as
/// a failure.
pub async fn run<T: Send + 'static>(
    pending: PendingQuery,
    work: impl FnOnce(&Running, &dyn Fn() -> Cost) -> Result<T, EvalError> + Send + 'static,
) -> LokiResult<T> {
    let came = Instant::now();
    let done = answer(pending, move |running| {
        let waited = came.elapsed();
        let cost =
            || Cost::new(&running.context.progress, waited, came.elapsed().saturating_sub(waited));
        match work(running, &cost) {
            Ok(value) => Ok(Ok(value)),
            Err(EvalError::Run(error)) => Err(error),
            Err(error) => Ok(Err(error)),
        }
    });
    done.await?.map_err(LokiError::bad_request)
}

async fn at(State(app): State<Arc<App>>, caller: Caller, params: Params) -> LokiResult {
    let now_ns = crate::wire::clock::now_ns();
    let time_ns = params::time(&params, "time")?.unwrap_or(now_ns);
    let Expr::Metric(expr) = parse(&params)? else {
        return Err(LokiError::bad_request(
            "log queries are not supported as an instant query type, please change your query to a range query type",
        ));
    };
    let pending = prepare(&app, &params, params.required("query")?, &caller)?;
    let text = run(pending, move |running, cost| {
        let grid = Grid::instant(time_ns);
        let value = metric::run(&expr, running.source(), &running.context, grid)?;
        answer::instant(&value, &grid, &cost())
    });
    answer::respond(text.await?)
}

async fn over(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> LokiResult {
    let now_ns = crate::wire::clock::now_ns();
    let range = params::range(&params, now_ns, QUERY_SINCE_NS)?;
    if params::duration_ns(&params, "interval")?.is_some_and(|ns| ns > 0) {
        return Err(LokiError::bad_request("not supported: interval; request all lines"));
    }
    match parse(&params)? {
        Expr::Metric(expr) => {
            let step_ns = match params::duration_ns(&params, "step")? {
                Some(step_ns) => step_ns,
                None => {
                    let range_s = (range.end_ns - range.start_ns) / SECOND_NS;
                    (range_s / STEPS_DEFAULT).max(1) * SECOND_NS
                }
            };
            let grid =
                Grid::new(range.start_ns, range.end_ns, step_ns).map_err(LokiError::bad_request)?;
            let pending = prepare(&app, &params, params.required("query")?, &caller)?;
            let text = run(pending, move |running, cost| {
                let value = metric::run(&expr, running.source(), &running.context, grid)?;
                answer::range(&value, &grid, &cost())
            });
            answer::respond(text.await?)
        }
        Expr::Log(query) => {
            let limit = limit(&params)?;
            let forward = match params.get("direction").map(str::to_ascii_lowercase).as_deref() {
                None | Some("backward") => false,
                Some("forward") => true,
                Some(other) => {
                    return Err(LokiError::bad_request(format!("invalid direction '{other}'")));
                }
            };
            let wanted = Wanted { range, limit, forward, categorize: categorizes(&headers) };
            lines(&app, &params, &caller, query, wanted).await
        }
    }
}

/// Parses the parameter `limit`.
pub fn limit(params: &Params) -> LokiResult<usize> {
    let limit: i64 = params.number("limit")?.unwrap_or(LIMIT_DEFAULT as i64);
    if limit <= 0 {
        return Err(LokiError::bad_request("limit must be a positive value"));
    }
    match usize::try_from(limit) {
        Ok(limit) if limit <= LIMIT_MAX => Ok(limit),
        _ => Err(LokiError::bad_request(format!(
            "max entries limit per query exceeded, limit > max_entries_limit_per_query ({limit} > {LIMIT_MAX})"
        ))),
    }
}

/// Parameters of a query for lines.
struct Wanted {
    range: TimeRange,
    limit: usize,
    forward: bool,
    categorize: bool,
}

async fn lines(
    app: &Arc<App>,
    params: &Params,
    caller: &Caller,
    query: LogQuery,
    wanted: Wanted,
) -> LokiResult<Response> {
    let Wanted { range, limit, forward, categorize } = wanted;
    let mut pending = prepare(app, params, params.required("query")?, caller)?;
    pending.context.range = range;
    let text = run(pending, move |running, cost| {
        let (source, context) = (running.source(), &running.context);
        let entries = logs::run(&query, source, context, limit, forward, categorize)?;
        answer::lines(&entries, categorize, &cost())
    });
    answer::respond(text.await?)
}

/// A window over the whole range: its length, at least a nanosecond.
pub fn window_ns(range: TimeRange) -> i64 {
    range.end_ns.saturating_sub(range.start_ns).max(1)
}
