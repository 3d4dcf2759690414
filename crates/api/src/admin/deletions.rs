//! `/api/v1/deletions`: starts, lists and cancels deletions of lines by a filter.
//!
//! Each store has deletions of its own, with numbers of its own. A server with `[stores]` begins
//! them at all stores, lists those of each, and hands calls about one on to the store that the
//! parameter `store` names. It may be one of the stores: a call that was handed on is about its
//! own.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::IntoResponse;
use query::{Query, QueryOptions};
use serde_json::{Value, json};
use store::{Deletion, DeletionProgress, StoreError};
use text::time::format_time;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::{CatalogError, DeletionRow, Engines};
use node::cluster::node::{HANDED_ON, HandedOn};
use node::cluster::{Cluster, Node};
use node::data_dir::BACKUPS_FOLDER;
use node::storage::backup;
use node::storage::line_filter::line_filter;

const PATH: &str = "/api/v1/deletions";

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Operate, PATH, list)
        .post(Scope::Admin, PATH, begin)
        .get(Scope::Operate, "/api/v1/deletions/{id}", one)
        .delete(Scope::Admin, "/api/v1/deletions/{id}", cancel)
}

/// The stores that this server answers for, unless another server asks for its own deletions.
fn stores(app: &App, headers: &HeaderMap) -> Option<Arc<Cluster>> {
    app.cluster().filter(|cluster| cluster.engines().is_none() && !headers.contains_key(HANDED_ON))
}

async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> ApiResult {
    if let Some(engines) = app.engines() {
        let all = of_catalog(move || engines.deletions()).await?;
        let entries: Vec<Value> = all.rows.iter().map(cluster_entry).collect();
        return Ok(Json(json!({ "deletions": entries })).into_response());
    }
    if let Some(cluster) = stores(&app, &headers) {
        let listed = at_stores(cluster, "GET", PATH, Vec::new()).await?;
        return Ok(Json(json!({ "stores": listed })).into_response());
    }
    let deletions = app.pipeline()?.store().deletions();
    let entries: Vec<Value> = deletions.iter().map(|(d, progress)| entry(d, progress)).collect();
    Ok(Json(json!({ "deletions": entries })).into_response())
}

/// Calls the catalog of a cluster, on a thread that may block.
async fn of_catalog<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, CatalogError> + Send + 'static,
) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(call).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?.map_err(|error| match error {
        CatalogError::Refused(text) => ApiError::new(StatusCode::TOO_MANY_REQUESTS, text),
        error => ApiError::unavailable(error.to_string()),
    })
}

/// Begins a deletion in a cluster on engines. Every query that begins after the answer is without
/// the lines, at each node.
async fn begin_on_engines(
    app: &App,
    engines: Arc<Engines>,
    caller: &Caller,
    filter: String,
) -> ApiResult {
    let row = of_catalog(move || engines.delete_lines(&filter)).await?;
    audit::note(caller, &format!("deletion {} begins", row.tombstone.id), "");
    // The other nodes remove theirs when they hear of the deletion, within seconds.
    let jobs = Arc::clone(app.jobs()?);
    let removed = tokio::task::spawn_blocking(move || jobs.remove_ended()).await;
    let (_, left) = removed.map_err(|error| ApiError::internal(error.to_string()))?;
    let mut places = not_reached(&[]);
    if left > 0 {
        places.push(format!("the results of {left} background queries, until they have ended"));
    }
    let mut body = cluster_entry(&row);
    body["not_reached"] = places.into();
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

fn cluster_entry(row: &DeletionRow) -> Value {
    json!({
        "id": row.tombstone.id.to_string(),
        "filter": row.tombstone.filter,
        "state": row.state.name(),
        "created": format_time(row.tombstone.created_ns),
        "finished": row.finished_ns.map(format_time),
        "lines_deleted": row.lines,
        "segments_left": row.segments_left,
        "bytes_left": row.bytes_left,
        "note": null,
    })
}

async fn begin(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    params: Params,
) -> ApiResult {
    let filter = params.required("filter")?.to_owned();
    line_filter(&filter, crate::wire::clock::now_ns())
        .map_err(|error| ApiError::bad_request(format!("the filter: {error}")))?;
    if Query::parse(&filter, 0).is_ok_and(|query| query.options() != QueryOptions::default()) {
        let text = "the filter: it has options(…), which a deletion does not take; leave them out";
        return Err(ApiError::bad_request(text.to_owned()));
    }
    let filter = caller.principal.tenants.narrowed(&filter);
    if let Some(engines) = app.engines() {
        return begin_on_engines(&app, engines, &caller, filter).await;
    }
    if let Some(cluster) = stores(&app, &headers) {
        return begin_at_stores(app, cluster, caller, filter).await;
    }
    let pipeline = app.pipeline()?;
    let backups = app.options.store.data_dir.join(BACKUPS_FOLDER);
    let work = move || {
        let deletion = pipeline.store().delete_lines(&filter)?;
        Ok::<_, StoreError>((deletion, backups_with_lines(&backups)))
    };
    let begun = tokio::task::spawn_blocking(work).await;
    let begun = begun.map_err(|error| ApiError::internal(error.to_string()))?;
    let (deletion, backups) = begun.map_err(api_error)?;
    // Without the filter: the log may be kept longer than what it names.
    audit::note(&caller, &format!("deletion {} begins", deletion.id), "");
    let mut body = entry(&deletion, &DeletionProgress::default());
    body["not_reached"] = not_reached(&backups).into();
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

/// The names of the backups of this server, which keep the lines; also if their lists are damaged.
fn backups_with_lines(dir: &std::path::Path) -> Vec<String> {
    match backup::list(dir) {
        Ok(found) => {
            let readable = found.readable.into_iter().map(|manifest| manifest.name);
            readable.chain(found.damaged.into_iter().map(|(name, _)| name)).collect()
        }
        Err(error) => {
            tracing::warn!("a deletion cannot name the backups: {error:#}");
            Vec::new()
        }
    }
}

/// Where the lines stay, for people.
fn not_reached(backups: &[String]) -> Vec<String> {
    let mut places: Vec<String> =
        backups.iter().map(|name| format!("the backup {name} of this server")).collect();
    places.push("backups that were copied elsewhere".to_owned());
    places.push("exports, and what sinks have sent on".to_owned());
    places.push("results that people kept in notebooks of the page".to_owned());
    places
}

/// The store that a call about one deletion names; none: this server.
fn store_of(app: &App, headers: &HeaderMap, params: &Params) -> ApiResult<Option<Arc<Node>>> {
    let name = params.get("store");
    let Some(cluster) = stores(app, headers) else {
        return match name {
            None => Ok(None),
            Some(_) => Err(ApiError::bad_request(
                "store: this server answers for no other stores; leave the parameter out",
            )),
        };
    };
    let found = name.and_then(|name| cluster.nodes().find(|node| node.name == name));
    match found {
        Some(node) => Ok(Some(Arc::clone(node))),
        None => {
            let names: Vec<&str> = cluster.nodes().map(|node| node.name.as_str()).collect();
            Err(ApiError::bad_request(format!(
                "each store has deletions of its own, with numbers of its own; name the store that is meant by store=NAME, which is one \
                 of {}",
                names.join(", ")
            )))
        }
    }
}

/// Hands a call about one deletion on to its store.
async fn at_store(store: Arc<Node>, method: Method, number: u64) -> ApiResult {
    let name = store.name.clone();
    let path = format!("{PATH}/{number}");
    let call = HandedOn { method, path, content_type: None, body: Vec::new() };
    let called = tokio::task::spawn_blocking(move || store.hand_on(call)).await;
    let called = called.map_err(|error| ApiError::internal(error.to_string()))?;
    let answer = called.map_err(|error| ApiError::unavailable(error.message))?;
    if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(ApiError::new(
            StatusCode::BAD_GATEWAY,
            format!(
                "store {name} refuses the token of this server; give stores.token_file a token with the role admin"
            ),
        ));
    }
    Ok((answer.status, [(CONTENT_TYPE, "application/json")], answer.body).into_response())
}

async fn one(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    params: Params,
) -> ApiResult {
    if let Some(engines) = app.engines() {
        let all = of_catalog(move || engines.deletions()).await?;
        let found = all.rows.iter().find(|row| row.tombstone.id.to_string() == id);
        return Ok(Json(cluster_entry(found.ok_or_else(|| unknown(&id))?)).into_response());
    }
    if let Some(store) = store_of(&app, &headers, &params)? {
        let number = id.parse().map_err(|_| unknown(&id))?;
        return at_store(store, Method::GET, number).await;
    }
    // A deletion is done once the kept results of earlier queries are removed, too.
    let jobs = Arc::clone(app.jobs()?);
    let removed = tokio::task::spawn_blocking(move || jobs.expire()).await;
    removed.map_err(|error| ApiError::internal(error.to_string()))?;
    let deletions = app.pipeline()?.store().deletions();
    let found = deletions.iter().find(|(deletion, _)| deletion.id.to_string() == id);
    let (deletion, progress) = found.ok_or_else(|| unknown(&id))?;
    Ok(Json(entry(deletion, progress)).into_response())
}

async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<String>,
    params: Params,
) -> ApiResult {
    let number: u64 = id.parse().map_err(|_| unknown(&id))?;
    if let Some(engines) = app.engines() {
        return cancel_on_engines(engines, &caller, number).await;
    }
    if let Some(store) = store_of(&app, &headers, &params)? {
        let name = store.name.clone();
        let answer = at_store(store, Method::DELETE, number).await?;
        if answer.status().is_success() {
            audit::note(&caller, &format!("deletion {number} of store {name} cancelled"), "");
        }
        return Ok(answer);
    }
    let pipeline = app.pipeline()?;
    let work = move || {
        let cancelled = pipeline.store().cancel_deletion(number)?;
        let all = pipeline.store().deletions();
        Ok((cancelled, all.into_iter().find(|(deletion, _)| deletion.id == number)))
    };
    let result: Result<Result<_, StoreError>, _> = tokio::task::spawn_blocking(work).await;
    let (cancelled, found) =
        result.map_err(|error| ApiError::internal(error.to_string()))?.map_err(api_error)?;
    if cancelled {
        audit::note(&caller, &format!("deletion {number} cancelled"), "");
    }
    let (deletion, _) = found.ok_or_else(|| unknown(&id))?;
    Ok(Json(json!({ "id": id, "state": deletion.state.name() })).into_response())
}

async fn cancel_on_engines(engines: Arc<Engines>, caller: &Caller, id: u64) -> ApiResult {
    let call = move || {
        let is_cancelled = engines.cancel_deletion(id)?;
        Ok((is_cancelled, engines.deletions()?))
    };
    let (is_cancelled, all) = of_catalog(call).await?;
    if is_cancelled {
        audit::note(caller, &format!("deletion {id} cancelled"), "");
    }
    let found = all.rows.iter().find(|row| row.tombstone.id == id);
    let row = found.ok_or_else(|| unknown(&id.to_string()))?;
    Ok(Json(json!({ "id": id.to_string(), "state": row.state.name() })).into_response())
}

/// Begins a deletion at all stores of all copies. Where a store is away it begins at none, so that
/// copies do not differ.
async fn begin_at_stores(
    app: Arc<App>,
    cluster: Arc<Cluster>,
    caller: Caller,
    filter: String,
) -> ApiResult {
    let listed = at_stores(Arc::clone(&cluster), "GET", PATH, Vec::new()).await?;
    if let Some(error) = listed.iter().find_map(|store| store["error"].as_str()) {
        return Err(ApiError::unavailable(format!(
            "nothing is deleted, because a deletion has to reach all stores: {error}"
        )));
    }
    let form = vec![("filter".to_owned(), filter)];
    // The filter names the tenants already.
    let path = match caller.principal.tenants.are_there() {
        true => "/api/v1/deletions?tenants=*",
        false => PATH,
    };
    let begun = at_stores(cluster, "POST", path, form).await?;
    audit::note(&caller, "deletion begins at all stores", "");
    let jobs = Arc::clone(app.jobs()?);
    let removed = tokio::task::spawn_blocking(move || jobs.remove_ended()).await;
    let (_, left) = removed.map_err(|error| ApiError::internal(error.to_string()))?;
    let failed = begun.iter().any(|store| store["error"].is_string());
    let status = if failed { StatusCode::BAD_GATEWAY } else { StatusCode::ACCEPTED };
    let mut body = json!({ "stores": begun });
    if left > 0 {
        body["not_reached"] = json!([format!(
            "the results of {left} background queries, which have not ended; delete them then"
        )]);
    }
    if failed {
        body["error"] = "a store did not begin the deletion; begin it again".into();
    }
    Ok((status, Json(body)).into_response())
}

/// Calls `/api/v1/deletions` of all stores. Each entry has the name of a store, and its answer or
/// an error.
async fn at_stores(
    cluster: Arc<Cluster>,
    method: &'static str,
    path: &'static str,
    form: Vec<(String, String)>,
) -> ApiResult<Vec<Value>> {
    let work = move || {
        let nodes: Vec<_> = cluster.nodes().cloned().collect();
        let form: Vec<(&str, &str)> =
            form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let results = Cluster::each(&nodes, |node| node.call(method, path, &form));
        let entries = results.into_iter().zip(&nodes).map(|(result, node)| match result {
            Ok(answer) => json!({ "store": node.name, "answer": answer }),
            Err(error) => json!({ "store": node.name, "error": error.message }),
        });
        entries.collect::<Vec<Value>>()
    };
    let called = tokio::task::spawn_blocking(work).await;
    called.map_err(|error| ApiError::internal(error.to_string()))
}

fn api_error(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused(text) => ApiError::new(StatusCode::TOO_MANY_REQUESTS, text),
        error => ApiError::of_disk(error.to_string(), &error),
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!(
        "there is no deletion {id}; /api/v1/deletions lists running and recent deletions"
    ))
}

fn entry(deletion: &Deletion, progress: &DeletionProgress) -> Value {
    json!({
        "id": deletion.id.to_string(),
        "filter": deletion.filter,
        "state": deletion.state.name(),
        "created": format_time(deletion.created_ns),
        "finished": deletion.finished_ns.map(format_time),
        "lines_deleted": deletion.lines,
        "segments_left": progress.segments_left,
        "bytes_left": progress.bytes_left,
        "note": deletion.note,
    })
}
