//! `/api/v1/queries`: lists, cancels and pauses the entries of the queue; submits background
//! queries and returns their rows. Those of other nodes of a cluster are in [`elsewhere`].

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use query::{Cancel, Filter, OwnerUsage, QueryInfo, QueueChange, Restriction, USAGE_MINUTES};
use serde_json::{Value, json};
use text::time::format_time;
use tokio::sync::OwnedSemaphorePermit;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope, client_owner};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::elsewhere::{self, Asker, SUBMISSION, to_its_node};
use crate::queries::export::check_raw;
use crate::queries::run::memory_of_tenant;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::error::{queue_refusal, wrong_query};
use node::queries::export::Format;
use node::queries::jobs::{self, JobError, JobInfo, OwnLimits, PAGE_ROWS_MAX, Submission};

/// Rows of a page without the parameter `limit`.
const PAGE_ROWS: u64 = 1_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Operate, "/api/v1/usage", usage)
        .get(Scope::Read, "/api/v1/queries", list)
        .post(Scope::Read, "/api/v1/queries", submit)
        .within(to_its_node)
        .get(Scope::Read, "/api/v1/queries/{id}", one)
        .delete(Scope::Read, "/api/v1/queries/{id}", cancel)
        .post(Scope::Read, "/api/v1/queries/{id}/pause", pause)
        .post(Scope::Read, "/api/v1/queries/{id}/resume", resume)
        .get(Scope::Read, "/api/v1/queries/{id}/results", results)
}

async fn list(State(app): State<Arc<App>>, asker: Asker) -> ApiResult {
    Ok(Json(blocking(move || listed(&app, &asker)).await?).into_response())
}

/// The entries of the queue that the caller may see, in a cluster on engines those of all nodes.
fn listed(app: &App, asker: &Asker) -> Value {
    let all = app.queue.list();
    let seen = all.iter().filter(|info| asker.may_touch(&info.client));
    let mut queries: Vec<Value> = seen.map(|info| entry(app, info)).collect();
    let mut out_of_reach = None;
    if let Some(engines) = app.engines().filter(|_| !asker.is_node) {
        let found = elsewhere::list(&engines, asker);
        queries.extend(found.queries);
        // Without the letter behind their digits, texts of times are in the order of the times.
        let started = |entry: &Value| {
            let time = entry["started"].as_str().unwrap_or_default();
            time.trim_end_matches('Z').to_owned()
        };
        queries.sort_by_cached_key(|entry| Reverse(started(entry)));
        out_of_reach = Some(json!(found.out_of_reach));
    }
    let limits = app.query_options();
    let mut body = json!({
        "queries": queries,
        "limits": {
            "concurrent": limits.queue.concurrent_max,
            "waiting": limits.queue.waiting_max,
            "wait_s": limits.queue.wait_max.as_secs(),
            "tails": limits.queue.tails_max,
            "run_s": limits.limits.run_time.as_secs(),
            "pause_s": limits.queue.pause_max.as_secs(),
            "memory_bytes": limits.limits.memory_bytes_max,
            "rows": limits.limits.rows_max,
            "background_concurrent": limits.queue.background_concurrent_max,
            "background_waiting": limits.queue.background_waiting_max,
            "background_run_s": limits.background.run_time.as_secs(),
            "result_bytes": limits.background.result_bytes_max,
            "result_bytes_total": limits.background.result_bytes_total_max,
            "results_keep_s": limits.background.keep.as_secs(),
        },
        "result_bytes": app.jobs.get().map_or(0, |jobs| jobs.bytes()),
    });
    if let Some(out_of_reach) = out_of_reach {
        body["out_of_reach"] = out_of_reach;
    }
    body
}

async fn submit(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let range = params.range(now_ns)?;
    let format = params.get("format").unwrap_or("json");
    let known = match format {
        "json" => Format::Jsonl,
        "raw" => Format::Raw,
        "csv" => Format::Csv,
        other => {
            return Err(ApiError::bad_request(format!(
                "format: '{other}' is not json, raw or csv"
            )));
        }
    };
    let own = caller.principal.limits;
    let most = app.query_options().background.run_time.min(own.run_max.unwrap_or(Duration::MAX));
    if let Some(most) = own.results_bytes_max {
        check_results(&app, &caller, most)?;
    }
    let tenant = caller.principal.tenants.only().map(|(_, tenant)| tenant);
    let timeout = params.duration_ns("timeout")?;
    let run_time = timeout.map_or(most, |ns| most.min(Duration::from_nanos(ns as u64)));
    // The restriction becomes a part of the query, which is stored as text.
    let restriction = params.restriction(now_ns)?;
    if known == Format::Raw {
        check_raw(&restriction)?;
    }
    let query = match restriction.is_none() && !params.flag("all_revisions") {
        true => params.required("query")?.to_owned(),
        false => {
            let query = params.query(now_ns)?;
            restriction.applied_to(query).map_err(wrong_query)?.to_string()
        }
    };
    let submission = Submission {
        query,
        now_ns,
        start_ns: range.start_ns,
        end_ns: range.end_ns,
        limit: params.limit("limit")?,
        format: format.to_owned(),
        include: params.include()?,
        run_time_ms: millis(run_time),
        client: app.client_in_queue(&caller),
        seen: caller.principal.restriction.to_string(),
        tenant: tenant.map_or_else(String::new, |tenant| tenant.to_string()),
        memory_bytes_max: memory_of_tenant(&caller),
        own: OwnLimits {
            run_ms: own.run_max.map(millis),
            memory_bytes: own.memory_bytes_max,
            rows: own.rows_max,
        },
    };
    let query = jobs::parse(&submission).map_err(wrong_query)?;
    // Tables belong to all tenants. The query may look values up at any depth.
    if caller.principal.tenants.is_bound() && query.to_string().contains("| lookup ") {
        return Err(ApiError::bad_request(
            "lookup: the tables belong to those who may read the lines of all tenants",
        ));
    }
    if known == Format::Raw && query.pipes().iter().any(|pipe| !pipe.is_row_wise()) {
        return Err(ApiError::bad_request(node::queries::export::EncodeError::NoLine.to_string()));
    }
    let jobs = Arc::clone(app.jobs()?);
    let text = submission.query.clone();
    let tenants = caller.principal.tenants.clone();
    let check = move |queries, bytes| tenants.check_background(queries, bytes);
    let submitted = blocking(move || jobs.submit_if(submission, check)).await??;
    let id = submitted.map_err(|error| refused(&app, error))?;
    audit::note(&caller, &format!("background query {id} begins"), &text);
    let state = app.queue.get(id).map_or("done", |info| info.state.name());
    let location = format!("/api/v1/queries/{id}");
    let body = json!({
        "id": id.to_string(), "state": state, "location": location,
        "results": format!("{location}/results"),
    });
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)], Json(body)).into_response())
}

async fn one(State(app): State<Arc<App>>, asker: Asker, Path(id): Path<String>) -> ApiResult {
    let number = touched(&app, &asker, &id)?;
    let info = app.queue.get(number).ok_or_else(|| unknown(&id))?;
    let shown = move || {
        let mut entry = entry(&app, &info);
        if asker.is_node
            && let Some(job) = app.jobs.get().and_then(|jobs| jobs.info(number))
        {
            entry[SUBMISSION] = serde_json::to_value(job.submission).unwrap_or_default();
        }
        entry
    };
    Ok(Json(blocking(shown).await?).into_response())
}

/// Cancels a query that runs, waits or is paused; deletes a background query that has ended.
async fn cancel(State(app): State<Arc<App>>, asker: Asker, Path(id): Path<String>) -> ApiResult {
    let number = touched(&app, &asker, &id)?;
    let caller = asker.caller;
    let noted = |what: &str| audit::note(&caller, &format!("query {number} {what}"), "");
    let state = match app.queue.cancel(number) {
        Cancel::Cancelled => {
            noted("cancelled");
            "cancelled"
        }
        Cancel::Ended(state) => {
            let jobs = Arc::clone(app.jobs()?);
            match blocking(move || jobs.remove(number)).await? {
                Ok(()) => {
                    noted("and its results deleted");
                    "deleted"
                }
                // It is not a background query.
                Err(JobError::Unknown(_)) => state.name(),
                Err(error) => return Err(refused(&app, error)),
            }
        }
        Cancel::Unknown => return Err(unknown(&id)),
    };
    Ok(Json(json!({ "id": id, "state": state })).into_response())
}

async fn pause(State(app): State<Arc<App>>, asker: Asker, Path(id): Path<String>) -> ApiResult {
    let number = touched(&app, &asker, &id)?;
    let caller = asker.caller;
    match app.queue.pause(number) {
        QueueChange::Changed(state) => {
            let jobs = Arc::clone(app.jobs()?);
            blocking(move || jobs.paused(number)).await?;
            audit::note(&caller, &format!("query {number} {}", state.name()), "");
            Ok(Json(json!({ "id": id, "state": state.name() })).into_response())
        }
        QueueChange::Refused(state) => Err(conflict(format!("query {id} is {}", state.name()))),
        QueueChange::Endless => Err(conflict("a live tail cannot be paused; close it".into())),
        QueueChange::Unknown => Err(unknown(&id)),
    }
}

async fn resume(State(app): State<Arc<App>>, asker: Asker, Path(id): Path<String>) -> ApiResult {
    let number = touched(&app, &asker, &id)?;
    let caller = asker.caller;
    if app.queue.get(number).is_none() {
        return Err(unknown(&id));
    }
    let jobs = Arc::clone(app.jobs()?);
    let resumed = blocking(move || jobs.resume(number)).await?;
    let state = resumed.map_err(|error| refused(&app, error))?;
    audit::note(&caller, &format!("query {number} resumed"), "");
    Ok(Json(json!({ "id": id, "state": state.name() })).into_response())
}

async fn results(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path(id): Path<String>,
    params: Params,
) -> ApiResult {
    let number = touched(&app, &asker, &id)?;
    let limit = params.number("limit")?.unwrap_or(PAGE_ROWS);
    if !(1..=PAGE_ROWS_MAX).contains(&limit) {
        let message = format!("limit: a page has between 1 and {PAGE_ROWS_MAX} rows");
        return Err(ApiError::bad_request(message));
    }
    let cursor = params.get("cursor").map(str::to_owned);
    let jobs = Arc::clone(app.jobs()?);
    // Another node has checked its own caller.
    if let Some(job) = jobs.info(number).filter(|_| !asker.is_node) {
        let caller = &asker.caller;
        check_restriction(caller, &job.submission)?;
        let what = format!("results of query {number} read");
        audit::note_reading(caller, "results", &what, &job.submission.query);
    }
    let permit = page_permit(&app)?;
    // The permit belongs to the read: the page is read to its end even if the client goes away.
    let read = move || (jobs.page(number, cursor.as_deref(), limit), permit);
    let (page, permit) = blocking(read).await?;
    let page = page.map_err(|error| refused(&app, error))?;
    let media_type = match page.format.as_str() {
        "raw" => Format::Raw,
        "csv" => Format::Csv,
        _ => Format::Jsonl,
    };
    let name = HeaderName::from_static;
    let head = [
        (CONTENT_TYPE, media_type.media_type().to_owned()),
        (name("x-loginson-cursor"), page.cursor),
        (name("x-loginson-rows"), page.rows.to_string()),
        (name("x-loginson-more"), page.more.to_string()),
        (name("x-loginson-state"), page.state.name().to_owned()),
    ];
    let bytes = Bytes::from_owner(PageBytes { bytes: page.bytes, _permit: permit });
    Ok((head, bytes).into_response())
}

/// Who uses what now, and who used what in the last minutes; who used most time comes first.
async fn usage(State(app): State<Arc<App>>) -> ApiResult {
    let mut all = app.queue.usage();
    all.sort_by(|a, b| {
        let key = |one: &OwnerUsage| (one.lately.run, one.memory_bytes, one.running);
        key(b).cmp(&key(a)).then_with(|| a.owner.cmp(&b.owner))
    });
    let one = |one: OwnerUsage| {
        json!({
            "owner": one.owner,
            "running": one.running,
            "waiting": one.waiting,
            "tails": one.tails,
            "memory_bytes": one.memory_bytes,
            "results_bytes": app.jobs().map_or(0, |jobs| {
                jobs.bytes_of(&|client| client_owner(client) == one.owner)
            }),
            "lately": {
                "queries": one.lately.queries,
                "refused": one.lately.refused,
                "run_s": one.lately.run.as_secs_f64(),
                "lines_scanned": one.lately.lines_scanned,
                "bytes_scanned": one.lately.bytes_scanned,
                "rows": one.lately.rows,
            },
        })
    };
    let owners: Vec<Value> = all.into_iter().map(one).collect();
    Ok(Json(json!({ "minutes": USAGE_MINUTES, "owners": owners })).into_response())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An error if the rows of the caller's background queries take more than `most` bytes.
fn check_results(app: &Arc<App>, caller: &Caller, most: u64) -> ApiResult<()> {
    let owner = caller.owner();
    let held = app.jobs()?.bytes_of(&|client| client_owner(client) == owner);
    match held >= most {
        false => Ok(()),
        true => Err(ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "the results of your background queries take {held} bytes, and results_bytes_max is \
                 {most}; delete some (DELETE /api/v1/queries/ID)"
            ),
        )),
    }
}

/// An error if the rows of a query may hold what the caller may not see: the query was not
/// restricted as a query of the caller would be now.
pub fn check_restriction(caller: &Caller, job: &Submission) -> ApiResult<()> {
    let to = &caller.principal.restriction;
    if to.is_none() || job.seen == to.to_string() {
        return Ok(());
    }
    let without_audit = Restriction::from(Arc::new(Filter::without_audit()));
    if *to != without_audit {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "your rights were others when this query ran; run it again",
        ));
    }
    // Only lines of the audit log are hidden: any restriction of a query hides them too, and the
    // shortest leaves a query that cannot read them as it is.
    let query = jobs::parse(job).map_err(wrong_query)?;
    let restricted = to.applied_to(query.clone()).map_err(wrong_query)?;
    match !job.seen.is_empty() || restricted == query {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "these rows may hold lines of the audit log, which only an auditor may read",
        )),
    }
}

/// The bytes of a page. They keep its permit until the last reference to them is dropped.
struct PageBytes {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PageBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A permit for a page, if one is free. The client can retry in a moment; waiting here would only
/// hold its connection.
fn page_permit(app: &App) -> ApiResult<OwnedSemaphorePermit> {
    Arc::clone(&app.page_permits).try_acquire_owned().map_err(|_| {
        app.pages_refused.fetch_add(1, Relaxed);
        let most = app.options.pages_max;
        let message = format!(
            "{most} pages of results are being read or sent; try again in a moment, or raise query.pages_max"
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(1)
    })
}

/// Runs work that may wait for the disk. That includes taking the lock of a record, which is held
/// while the record is written.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(error.to_string()))
}

/// Parses the number of a query, and refuses it with 403 if the query belongs to another user and
/// the caller is no operator. A number without a query is not refused here.
fn touched(app: &App, asker: &Asker, id: &str) -> ApiResult<u64> {
    let number: u64 = id.parse().map_err(|_| unknown(id))?;
    // The results of a query may outlive its entry in the queue.
    let listed = app.queue.get(number).map(|info| info.client);
    let kept = || Some(app.jobs.get()?.info(number)?.submission.client);
    match listed.or_else(kept) {
        Some(client) if !asker.may_touch(&client) => Err(belongs_to_another(id)),
        _ => Ok(number),
    }
}

/// The refusal of a caller that may not see a query.
pub fn belongs_to_another(id: &str) -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        format!("query {id} belongs to another user; the role operate or admin may access it"),
    )
}

/// The error of an id that no query has.
pub fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!(
        "there is no query {id}; /api/v1/queries lists running and recent queries"
    ))
}

fn conflict(message: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, message)
}

fn refused(app: &App, error: JobError) -> ApiError {
    match error {
        JobError::Queue(error) => {
            app.queries_refused.fetch_add(1, Relaxed);
            queue_refusal(error)
        }
        JobError::TooMany(_) => {
            app.queries_refused.fetch_add(1, Relaxed);
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, error.to_string())
        }
        JobError::Unknown(_) => ApiError::not_found(error.to_string()),
        JobError::Wrong(..) | JobError::EarlierRun => conflict(error.to_string()),
        JobError::Cursor(_) => ApiError::bad_request(error.to_string()),
        JobError::Disk { error: ref cause, .. } => ApiError::of_disk(error.to_string(), cause),
    }
}

fn entry(app: &App, info: &QueryInfo) -> Value {
    let ms = |duration: Duration| duration.as_millis() as u64;
    let started = info.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut entry = json!({
        "id": info.id.to_string(),
        "kind": info.kind,
        "query": info.query,
        "state": info.state.name(),
        "position": info.position,
        "started": format_time((started.as_millis() as i64).saturating_mul(1_000_000)),
        "wait_ms": ms(info.wait),
        "run_ms": ms(info.run),
        "left_ms": info.left.map(ms),
        "progress": (info.progress * 1000.0).round() / 1000.0,
        "blocks_done": info.blocks_done,
        "blocks_planned": info.blocks_planned,
        "bytes_scanned": info.bytes_scanned,
        "bytes_planned": info.bytes_planned,
        "lines_scanned": info.lines_scanned,
        "rows": info.rows,
        "memory_bytes": info.memory_bytes,
        "error": info.error,
        "client": info.client,
    });
    if let Some(engines) = app.engines() {
        entry["node"] = engines.info.name.as_str().into();
    }
    if let Some(range) = info.range {
        entry["start"] = bound(range.start_ns, i64::MIN);
        entry["end"] = bound(range.end_ns, i64::MAX);
    }
    if let Some(job) = app.jobs.get().and_then(|jobs| jobs.info(info.id)) {
        // They include rows of earlier runs that this one resumed.
        entry["rows"] = job.rows.into();
        entry["results"] = kept(&job);
    }
    entry
}

/// A bound of a time range; null if it is `none`.
fn bound(ns: i64, none: i64) -> Value {
    (ns != none).then(|| format_time(ns)).into()
}

fn kept(job: &JobInfo) -> Value {
    json!({
        "rows": job.rows,
        "bytes": job.bytes,
        "format": job.submission.format,
        "start": bound(job.submission.start_ns, i64::MIN),
        "end": bound(job.submission.end_ns, i64::MAX),
        "limit": job.submission.limit,
        "expires": job.expires_ns.map(format_time),
        "resumes": if job.continues { "behind the last row" } else { "from the start" },
    })
}
