//! `/api/v1/summary`, `/api/v1/summary/types`: the data of the page's charts;
//! `/api/v1/summary/rerun`: summarises a past interval again, as an entry of the queue.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use platform::memory::Purpose;
use programs::summary::{
    Chart, ChartBuilder, ChartRange, Rerun, StepRows, SummaryRow, TypesBuilder, can_rerun,
};
use query::source::TimeRange;
use query::{Account, Context, RunError};
use serde::Serialize;
use serde_json::{Value, json};
use text::time::format_time;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer, reading_thread, start};
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::summaries;
use node::programs::summary::reruns::RerunError;

const SECOND_NS: i64 = 1_000_000_000;
/// Bytes of the rows of this node for a chart of another one, which reads more of an answer.
///
/// limits.md, Several stores: rows of the summary that a store sends for a chart | {} | the chart
/// is refused; a wider step or a shorter range needs fewer
const ROWS_BYTES_MAX: usize = 48 << 20;
/// A step of which the whole range of times has few.
const WIDEST_STEP_S: u64 = 9_000_000_000;
/// The range without `start` and `end`: the last hour.
const RANGE_DEFAULT_NS: i64 = 3600 * SECOND_NS;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::ReadAll, "/api/v1/summary", chart)
        .get(Scope::ReadAll, "/api/v1/summary/types", types)
        .get(Scope::Node, "/api/v1/summary/rows", rows)
        .get(Scope::ReadAll, "/api/v1/summary/rerun", reruns)
        .post(Scope::Operate, "/api/v1/summary/rerun", rerun)
}

/// A chart, and the parts of it that were summarised again.
#[derive(Serialize)]
struct ChartAnswer {
    #[serde(flatten)]
    chart: Chart,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reruns: Vec<Value>,
}

fn shown(rerun: &Rerun) -> Value {
    json!({
        "id": rerun.id.to_string(),
        "type": rerun.summary_of,
        "start": format_time(rerun.start_ns),
        "end": format_time(rerun.end_ns),
        "at": format_time(i64::try_from(rerun.id).unwrap_or(i64::MAX)),
    })
}

/// The intervals that were summarised again, the latest first.
async fn reruns(State(app): State<Arc<App>>) -> ApiResult {
    let reruns = app.pipeline()?.summary.reruns();
    let shown: Vec<Value> = reruns.list().iter().rev().map(shown).collect();
    Ok(Json(json!({ "reruns": shown })).into_response())
}

async fn rerun(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let log_type = params.required("type")?.to_owned();
    if app.cluster().is_some_and(|cluster| cluster.engines().is_some()) {
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "in a cluster on Kafka, rows of the summary are stored with the lines they count; they are not made again. Count what \
             is there now by a query (_type:=TYPE | stats by (_time:1m) count()), or let a program run over the past",
        ));
    }
    if app.cluster().is_some() && !params.flag("own") {
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "this server answers for several stores, and each of them counts its own lines: run this at the stores. If this \
             server is one of them, own=1 counts the lines that it has itself",
        ));
    }
    if !can_rerun(&log_type) {
        return Err(ApiError::bad_request(format!("type '{log_type}' is not summarised")));
    }
    let time = |name: &str| -> ApiResult<i64> {
        params.required(name)?;
        Ok(params.time(name, now_ns)?.unwrap_or(now_ns))
    };
    let (start_ns, end_ns) = (time("start")?, time("end")?);
    if start_ns >= end_ns {
        return Err(ApiError::bad_request("start must be before end"));
    }
    let text = format!("{log_type} from {} to {}", format_time(start_ns), format_time(end_ns));
    let mut pending = PendingQuery::new(&app, "summarise", &text, &caller)?;
    // Like an export, it may take as long as it needs.
    pending.context.limits.run_time = Duration::MAX;
    let pipeline = app.pipeline()?;
    let refused: Arc<Mutex<Option<RerunError>>> = Arc::default();
    let why = Arc::clone(&refused);
    let work = move |running: &Running| {
        let progress = &running.context.progress;
        let check = || running.check();
        let done = pipeline.summary.rerun(&log_type, (start_ns, end_ns), &check, progress);
        done.map_err(|error| match error {
            RerunError::Run(error) => error,
            error => {
                let cause = RunError::Failed(error.to_string());
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                cause
            }
        })
    };
    if params.get("background").is_some_and(|value| value != "0") {
        let id = start(pending, work).await?;
        audit::note(&caller, &format!("interval summarised again as query {id}"), &text);
        let body = json!({ "id": id.to_string() });
        return Ok((StatusCode::ACCEPTED, Json(body)).into_response());
    }
    let done = answer(pending, work).await.map_err(|error| {
        let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        let status = match &refused {
            Some(RerunError::Busy | RerunError::Full) => StatusCode::CONFLICT,
            Some(RerunError::NoRoom(_)) => StatusCode::INSUFFICIENT_STORAGE,
            Some(RerunError::NotReady) => StatusCode::SERVICE_UNAVAILABLE,
            Some(RerunError::NotKept(_) | RerunError::Program(_)) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Some(RerunError::Run(_)) | None => return error,
        };
        ApiError::new(status, refused.map_or_else(String::new, |error| error.to_string()))
    })?;
    audit::note(&caller, "interval summarised again", &text);
    let mut body = shown(&done.rerun);
    body["lines"] = done.lines.into();
    Ok(Json(body).into_response())
}

async fn chart(State(app): State<Arc<App>>, params: Params) -> ApiResult {
    let log_type = params.required("type")?.to_owned();
    let (start_ns, end_ns) = range(&params)?;
    let step_s = step_s(&params)?;
    let bucket_s = app.options.summary_bucket_s;
    let range = ChartRange::new(start_ns, end_ns, step_s, bucket_s)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let mut chart = ChartBuilder::new(range, &log_type);
    let (first_ns, last_ns) = range.time_range_ns();
    let reruns = app.pipeline()?.summary.reruns();
    let within = |rerun: &&Rerun| {
        rerun.summary_of == log_type && rerun.start_ns < last_ns && first_ns < rerun.end_ns
    };
    let reruns: Vec<Value> = reruns.list().iter().filter(within).map(shown).collect();
    let wanted = WantedRows {
        log_type: Some(log_type),
        range: range.time_range_ns(),
        step_s: Some(range.step_s()),
    };
    let chart = read(&app, wanted, move |rows| {
        rows(&mut |row| {
            chart.add(row);
            Ok(())
        })?;
        Ok(chart.finish())
    });
    Ok(Json(ChartAnswer { chart: chart.await?, reruns }).into_response())
}

async fn types(State(app): State<Arc<App>>, params: Params) -> ApiResult {
    // The list does not depend on times.
    let wanted = WantedRows { log_type: None, range: range(&params)?, step_s: Some(WIDEST_STEP_S) };
    let mut types = TypesBuilder::new();
    let types = read(&app, wanted, move |rows| {
        rows(&mut |row| {
            types.add(row);
            Ok(())
        })?;
        Ok(types.finish())
    });
    Ok(Json(types.await?).into_response())
}

/// The rows of this node, for another node that makes the chart: those of each step added up.
async fn rows(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    if caller.principal.is_restricted() {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "rows of the summary are made of all lines, and you see only some of them",
        ));
    }
    let log_type = params.get("type").map(str::to_owned);
    let wanted = WantedRows { log_type, range: range(&params)?, step_s: step_s(&params)? };
    let mut steps = StepRows::new(wanted.step_s);
    let mut meter = rows_context(&app).meter();
    let rows = read_own(&app, wanted, move |rows| {
        rows(&mut |row| meter.take(steps.add(row)).map_err(cannot_be_held))?;
        let mut body = RowsBody(Vec::new());
        serde_json::to_writer(&mut body, &steps.finish()).map_err(|_| {
            too_many_rows(&format!("more than {ROWS_BYTES_MAX} bytes of an answer"))
        })?;
        Ok(body.0)
    });
    Ok(([(CONTENT_TYPE, "application/json")], rows.await?).into_response())
}

/// The text of rows, up to [`ROWS_BYTES_MAX`].
struct RowsBody(Vec<u8>);

impl io::Write for RowsBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > ROWS_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// 413, which is no status of a store that is away: another copy has as many rows.
fn too_many_rows(need: &str) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "the rows of the summary need {need}; ask for a wider step or a shorter range, or lower \
             summary.values_max"
        ),
    )
}

fn cannot_be_held(error: RunError) -> ApiError {
    match error {
        RunError::MemoryLimit(most) => {
            too_many_rows(&format!("more than {most} bytes of memory (query.memory_bytes_max)"))
        }
        error => ApiError::unavailable(error.to_string()),
    }
}

/// Limits and memory of the reading of rows: those of a query.
fn rows_context(app: &App) -> Context {
    Context {
        limits: app.query_options().limits,
        account: Account::new(app.memory(), Purpose::Query),
        ..Context::default()
    }
}

/// Which rows are read.
struct WantedRows {
    log_type: Option<String>,
    range: (i64, i64),
    /// The step within which rows may be added up.
    step_s: Option<u64>,
}

/// Receives a row. After an error it gets no more.
type EachRow<'a> = dyn FnMut(&SummaryRow) -> ApiResult<()> + 'a;

/// Calls its argument with every row.
type Rows<'a> = dyn FnMut(&mut EachRow<'_>) -> ApiResult<()> + 'a;

/// Calls `add` with the rows of all lines that queries read, so that each line counts once, on a
/// thread that may block.
async fn read<T: Send + 'static>(
    app: &App,
    wanted: WantedRows,
    add: impl FnOnce(&mut Rows<'_>) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let Some(cluster) = app.cluster() else {
        return read_own(app, wanted, add).await;
    };
    let WantedRows { log_type, range, step_s } = wanted;
    let permit = app.cluster_permits.clone().acquire_owned().await.expect("never closed");
    if cluster.engines().is_some() {
        let context = rows_context(app);
        let source = app.lines(&*app.pipeline()?).source(None);
        let reading = reading_thread(move || {
            let _permit = permit;
            let range = TimeRange { start_ns: range.0, end_ns: range.1 };
            let all = summaries::read(&*source, log_type.as_deref(), range, &context);
            let all = all.map_err(|error| ApiError::unavailable(error.to_string()))?;
            add(&mut |each| all.iter().try_for_each(&mut *each))
        });
        return reading.await;
    }
    let reading = reading_thread(move || {
        let _permit = permit;
        let (start, end) = (format_time(range.0), format_time(range.1));
        let step = step_s.map(|step_s| format!("{step_s}s"));
        let mut params = vec![("start", start.as_str()), ("end", end.as_str())];
        params.extend(log_type.as_deref().map(|log_type| ("type", log_type)));
        params.extend(step.as_deref().map(|step| ("step", step)));
        let all = cluster.of_a_copy(|node| {
            let rows = node.call("GET", "/api/v1/summary/rows", &params)?;
            serde_json::from_value::<Vec<SummaryRow>>(rows).map_err(|_| node.answered_wrong())
        });
        let all = all.map_err(|error| ApiError::unavailable(error.message))?;
        add(&mut |each| all.iter().flatten().try_for_each(&mut *each))
    });
    reading.await
}

/// Calls `add` with the rows of open buckets and of the store of this node, within the time of a
/// query, and as long as the client waits.
async fn read_own<T: Send + 'static>(
    app: &App,
    WantedRows { log_type, range: (start_ns, end_ns), .. }: WantedRows,
    add: impl FnOnce(&mut Rows<'_>) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let pipeline = app.pipeline()?;
    let permit = app.summary_permits.clone().acquire_owned().await.expect("never closed");
    let (context, started) = (rows_context(app), Instant::now());
    // Dropped together with this future, when the client goes away.
    let _awaited = Awaited(Arc::clone(&context.cancelled));
    let reading = reading_thread(move || {
        let _permit = permit;
        add(&mut |each| {
            let mut failed = None;
            let mut next = |row: &SummaryRow| {
                let checked = context.check(started).map_err(cannot_be_held);
                match checked.and_then(|()| each(row)) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            };
            let rows = pipeline.summary.rows(log_type.as_deref(), start_ns, end_ns, &mut next);
            if let Some(error) = failed {
                return Err(error);
            }
            rows.map_err(|error| {
                ApiError::internal(format!("the summary cannot be read: {error}"))
            })?
            .ok_or_else(|| {
                ApiError::unavailable(
                    "the server is still locating the end of the summary; try again in a moment",
                )
            })
        })
    });
    reading.await
}

/// Ends the reading of rows that nobody waits for any more.
struct Awaited(Arc<AtomicBool>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn range(params: &Params) -> ApiResult<(i64, i64)> {
    let now_ns = crate::wire::clock::now_ns();
    let end_ns = params.time("end", now_ns)?.unwrap_or(now_ns.saturating_add(1));
    let start_ns = params.time("start", now_ns)?.unwrap_or(end_ns.saturating_sub(RANGE_DEFAULT_NS));
    Ok((start_ns, end_ns))
}

fn step_s(params: &Params) -> ApiResult<Option<u64>> {
    if params.get("step") == Some("auto") {
        return Ok(None);
    }
    Ok(params.duration_ns("step")?.map(|step_ns| (step_ns as u64).div_ceil(SECOND_NS as u64)))
}
