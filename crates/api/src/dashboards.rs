//! `/api/v1/dashboards`: the dashboards and notebooks of the page, of all or of a tenant.
//!
//! A notebook has `cells`, and a cell may have `kept`: rows of an answer that its author saw. Who
//! does not see all lines gets no such rows, since nobody knows which of them it may see.
//!
//! An exported dashboard has `mails`: schedules by which it is sent ([`mails`]). They are kept
//! beside it, and belong to whoever imports it.

pub mod mails;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use node::cluster::node::HANDED_ON;
use node::saved_views::documents::DocumentError;
use node::saved_views::mails::Schedule;
use serde_json::{Map, Value, json};

use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::to_their_node;
use crate::wire::error::{ApiError, ApiResult};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .within(to_their_node)
        .get(Scope::Read, "/api/v1/dashboards", list)
        .get(Scope::Read, "/api/v1/dashboards/{id}", one)
        .put(Scope::Operate, "/api/v1/dashboards/{id}", save)
        .delete(Scope::Operate, "/api/v1/dashboards/{id}", delete)
        .merge(mails::routes())
}

async fn list(State(app): State<Arc<App>>, caller: Caller) -> ApiResult {
    let documents = app.with_views(&caller, |views| views.dashboards.list()).await?;
    let shown = documents.iter().map(|document| {
        json!({
            "id": document.get("id"),
            "title": document.get("title"),
            "version": document.get("version"),
            "provided": document.get("provided").is_some(),
        })
    });
    Ok(Json(json!({ "dashboards": shown.collect::<Vec<Value>>() })).into_response())
}

async fn one(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let mut document = app.with_views(&caller, move |views| views.dashboards.get(&id)).await?;
    if caller.principal.is_restricted() {
        take_kept(&mut document);
    }
    Ok(Json(document).into_response())
}

/// Takes the rows that are kept in a notebook out of it; returns whether there were any.
fn take_kept(document: &mut Map<String, Value>) -> bool {
    let cells = document.get_mut("cells").and_then(Value::as_array_mut);
    let cells = cells.into_iter().flatten().filter_map(Value::as_object_mut);
    let taken: Vec<Value> = cells.filter_map(|cell| cell.remove("kept")).collect();
    taken.iter().any(|kept| !kept.is_null())
}

async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let of = id.clone();
    let mails = imported_mails(&app, &caller, &headers, &body)?;
    let is_restricted = caller.principal.is_restricted();
    let saved = app
        .with_views(&caller, move |views| {
            let before = views.dashboards.get(&of);
            if is_restricted && before.is_ok_and(|mut before| take_kept(&mut before)) {
                return Err(DocumentError::Invalid(
                    "the notebook keeps results that you do not see, and they would be lost; save yours under another \
                     name"
                        .to_owned(),
                ));
            }
            let saved = views.dashboards.save(&of, &body)?;
            if !mails.is_empty() {
                views.dashboards.change_mails(&of, |all| {
                    *all = mails;
                    Ok(())
                })?;
            }
            Ok(saved)
        })
        .await?;
    audit::note(&caller, &format!("dashboard {id} saved"), "");
    Ok(Json(saved).into_response())
}

/// The schedules that come with a new dashboard; those of one that is there are changed by
/// themselves.
fn imported_mails(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: &str,
) -> ApiResult<Vec<Schedule>> {
    let Ok(document) = serde_json::from_str::<Value>(body) else { return Ok(Vec::new()) };
    if document["version"] != 0 || document.get("mails").is_none() {
        return Ok(Vec::new());
    }
    if headers.contains_key(HANDED_ON) {
        return Err(ApiError::bad_request(
            "\"mails\" would belong to whoever imports them, which this node does not know: import the dashboard at \
             the node that runs the programs, or without \"mails\"",
        ));
    }
    app.programs()?;
    mails::imported(app, caller, &document)
}

async fn delete(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let of = id.clone();
    app.with_views(&caller, move |views| views.dashboards.delete(&of)).await?;
    audit::note(&caller, &format!("dashboard {id} deleted"), "");
    Ok(Json(json!({ "id": id })).into_response())
}
