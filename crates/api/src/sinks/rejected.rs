//! `/api/v1/sinks/{name}/rejected`: the documents that the destination of a sink rejected, listed,
//! delivered again, discarded.
//!
//! They are on the disk of the node that delivered them. In a cluster, sinks move from node to
//! node, so every node asks all others: for the list, and when they are discarded. To be delivered
//! again, documents of other nodes are first kept by the node that runs the sinks, file by file,
//! and only then removed where they were: after a crash they are there twice, with the same ids.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::elsewhere;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::OthersAnswered;
use node::cluster::node::HANDED_ON;
use node::cluster::{Engines, Node, NodeError};
use node::sinks::rejected::{self, LISTED_MAX};
use sinks::FileRejects;

/// Documents of a list without the parameter `limit`.
const LISTED: usize = 100;
/// Files that are taken over from one node at a time. Of more, the call is repeated.
///
/// limits.md, Nodes of a cluster: files of rejected documents that are taken over from another node
/// in one call | {} | the answer says that there are more
const FILES_MAX: usize = 64;
/// Time for another node to list its documents.
///
/// limits.md, Nodes of a cluster: the list of rejected documents of another node | {} | the list is
/// without them, and names the node
const LIST_TIME_MAX: Duration = Duration::from_secs(3);
/// Time for another node to give or remove one file, or to remove all.
///
/// limits.md, Nodes of a cluster: a call that takes over or discards rejected documents of another
/// node | {} | the answer names the node
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::ReadAll, "/api/v1/sinks/{name}/rejected", list)
        .delete(Scope::Operate, "/api/v1/sinks/{name}/rejected", discard)
        .post(Scope::Operate, "/api/v1/sinks/{name}/rejected/retry", retry)
        // The following are between nodes.
        .post(Scope::Node, "/api/v1/sinks/{name}/rejected/deliver", deliver)
        .get(Scope::Node, "/api/v1/sinks/{name}/rejected/file", file)
        .delete(Scope::Node, "/api/v1/sinks/{name}/rejected/file", remove)
}

type Rejects = Arc<Mutex<FileRejects>>;

/// The rejected documents of a sink of the configuration that this node has.
fn of(app: &App, name: &str) -> ApiResult<Rejects> {
    let pipeline = app.pipeline()?;
    pipeline.rejected().of(name).cloned().ok_or_else(|| {
        ApiError::not_found(format!(
            "the configuration of this node has no sink '{name}'; /api/v1/sinks lists those that run"
        ))
    })
}

/// Refuses a caller that may not read the audit log the documents of a sink that may send it.
fn check_audit(app: &App, caller: &Caller, name: &str) -> ApiResult<()> {
    let sees_all = !app.gate().hides_audit_from(&caller.principal);
    match sees_all || !app.pipeline()?.rejected().may_hold_audit(name) {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            format!(
                "the sink '{name}' names a type of Loginson's own lines, so its documents may hold lines of the audit log, which \
                 only an auditor may read; ask one"
            ),
        )),
    }
}

/// Runs work on files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?
}

fn failed(error: &std::io::Error) -> ApiError {
    ApiError::of_disk(format!("the files of rejected documents: {error}"), error)
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Path(name): Path<String>,
    params: Params,
) -> ApiResult {
    let limit = params.number("limit")?.unwrap_or(LISTED);
    if !(1..=LISTED_MAX).contains(&limit) {
        let message = format!("limit: a list has between 1 and {LISTED_MAX} documents");
        return Err(ApiError::bad_request(message));
    }
    let rejects = of(&app, &name)?;
    check_audit(&app, &caller, &name)?;
    let what = format!("rejected documents of sink {name} read");
    audit::note_reading(&caller, "rejected", &what, "");
    let engines = app.engines().filter(|_| !headers.contains_key(HANDED_ON));
    let listed = blocking(move || {
        let (documents, total) = rejected::list(&rejects, limit).map_err(|e| failed(&e))?;
        let mut body = json!({ "documents": documents, "documents_total": total });
        if let Some(engines) = engines {
            let path = format!("/api/v1/sinks/{name}/rejected?limit={limit}");
            add_others(&mut body, &engines, &path, limit);
        }
        Ok(body)
    });
    Ok(Json(listed.await?).into_response())
}

/// Adds what other nodes list to the list of this one.
fn add_others(body: &mut Value, engines: &Engines, path: &str, limit: usize) {
    let named = |documents: &Value, node: &str| -> Vec<Value> {
        let documents = documents.as_array().cloned().unwrap_or_default();
        let named = documents.into_iter().map(|mut document| {
            if document.is_object() {
                document["node"] = node.into();
            }
            document
        });
        named.collect()
    };
    let mut documents = named(&body["documents"], &engines.info.name);
    let mut total = body["documents_total"].as_u64().unwrap_or(0);
    let OthersAnswered { answers, out_of_reach } =
        engines.each_other(|node| answer(node, LIST_TIME_MAX, Method::GET, path));
    for (other, list) in &answers {
        documents.extend(named(&list["documents"], &other.name));
        total += list["documents_total"].as_u64().unwrap_or(0);
    }
    documents.sort_by(|a, b| b["rejected_at"].as_str().cmp(&a["rejected_at"].as_str()));
    documents.truncate(limit);
    *body = json!({
        "documents": documents, "documents_total": total, "out_of_reach": out_of_reach,
    });
}

/// The JSON that a node answers with; null where it does not know the sink, and so has none of its
/// documents.
fn answer(node: &Node, time_max: Duration, method: Method, path: &str) -> Result<Value, NodeError> {
    node.asked(time_max, method, path).map(Option::unwrap_or_default)
}

async fn discard(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let rejects = of(&app, &name)?;
    audit::note(&caller, &format!("rejected documents of sink {name} discarded"), "");
    let engines = app.engines();
    let done = blocking(move || {
        let mut total = rejected::discard(&rejects, now_ns()).map_err(|e| failed(&e))?;
        let mut body = json!({});
        if let Some(engines) = engines {
            let path = format!("/api/v1/sinks/{name}/rejected/file");
            let OthersAnswered { answers, out_of_reach } =
                engines.each_other(|node| answer(node, CALL_TIME_MAX, Method::DELETE, &path));
            let removed = answers.iter().filter_map(|(_, removed)| removed["documents"].as_u64());
            total += removed.sum::<u64>();
            body["out_of_reach"] = json!(out_of_reach);
        }
        body["documents"] = total.into();
        Ok(body)
    });
    Ok(Json(done.await?).into_response())
}

/// Has the documents delivered again where the sink runs.
async fn retry(State(app): State<Arc<App>>, caller: Caller, Path(name): Path<String>) -> ApiResult {
    of(&app, &name)?;
    audit::note(&caller, &format!("rejected documents of sink {name} are delivered again"), "");
    if app.pipeline()?.work().is_some() {
        return deliver_here(app, name).await;
    }
    let node = app.engines().and_then(|engines| engines.programs_node());
    let node = node.ok_or_else(|| elsewhere(&app))?;
    let begun = blocking(move || {
        let path = format!("/api/v1/sinks/{name}/rejected/deliver");
        let begun = answer(&node, CALL_TIME_MAX, Method::POST, &path)
            .map_err(|error| ApiError::unavailable(error.message))?;
        match begun {
            Value::Null => Err(ApiError::new(
                StatusCode::CONFLICT,
                format!(
                    "{} runs the sinks, and its configuration has no sink '{name}'; give all stores the same [[sinks]]",
                    node.name
                ),
            )),
            begun => Ok(begun),
        }
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)).into_response())
}

async fn deliver(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    of(&app, &name)?;
    audit::note(&caller, &format!("rejected documents of sink {name} are delivered again"), "");
    deliver_here(app, name).await
}

async fn deliver_here(app: Arc<App>, name: String) -> ApiResult {
    let rejects = of(&app, &name)?;
    let work = app.pipeline()?.work().ok_or_else(|| elsewhere(&app))?;
    let engines = app.engines();
    let begun = blocking(move || {
        let mut body = json!({});
        if let Some(engines) = engines {
            let OthersAnswered { answers, out_of_reach } =
                engines.each_other(|node| take_over(&rejects, node, &name));
            let more = answers.iter().any(|(_, more)| *more);
            (body["out_of_reach"], body["more"]) = (json!(out_of_reach), more.into());
        }
        let (_, total) = rejected::list(&rejects, 0).map_err(|e| failed(&e))?;
        body["documents"] = total.into();
        if total > 0 {
            work.sinks.redeliver(&name);
        }
        Ok(body)
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)).into_response())
}

/// Keeps the documents that another node has; returns whether it has more.
fn take_over(rejects: &Rejects, node: &Node, name: &str) -> Result<bool, NodeError> {
    let path = format!("/api/v1/sinks/{name}/rejected/file");
    for _ in 0..FILES_MAX {
        let file = answer(node, CALL_TIME_MAX, Method::GET, &path)?;
        let (Some(file), Some(lines)) = (file["file"].as_str(), file["lines"].as_str()) else {
            return Ok(false);
        };
        let adopted = rejects
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .adopt(lines.as_bytes(), now_ns());
        adopted.map_err(|error| {
            NodeError::new(format!("documents of {} cannot be kept here: {error}", node.name))
        })?;
        answer(node, CALL_TIME_MAX, Method::DELETE, &format!("{path}?file={file}"))?;
    }
    Ok(true)
}

/// The oldest file of this node, for the one that delivers its documents again.
async fn file(State(app): State<Arc<App>>, caller: Caller, Path(name): Path<String>) -> ApiResult {
    let rejects = of(&app, &name)?;
    check_audit(&app, &caller, &name)?;
    let what = format!("rejected documents of sink {name} read");
    audit::note_reading(&caller, "rejected", &what, "");
    let read = blocking(move || rejected::oldest(&rejects, now_ns()).map_err(|e| failed(&e)));
    let body = match read.await? {
        None => json!({ "file": null, "lines": null }),
        Some(file) => {
            json!({ "file": file.name, "lines": String::from_utf8_lossy(&file.lines) })
        }
    };
    Ok(Json(body).into_response())
}

/// Removes a file of this node, or without the parameter `file` all.
async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> ApiResult {
    let rejects = of(&app, &name)?;
    audit::note(&caller, &format!("a file of rejected documents of sink {name} removed"), "");
    let file = params.get("file").map(str::to_owned);
    let done = blocking(move || {
        let done = match &file {
            Some(file) => rejected::remove(&rejects, file, now_ns()).map(u64::from),
            None => rejected::discard(&rejects, now_ns()),
        };
        done.map_err(|error| failed(&error))
    });
    let done = done.await?;
    Ok(Json(json!({ "documents": done })).into_response())
}
