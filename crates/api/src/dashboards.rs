//! `/api/v1/dashboards`: the dashboards and notebooks of the page, of all or of a tenant.
//!
//! A notebook has `cells`, and a cell may have `kept`: rows of an answer that its author saw. Who
//! does not see all lines gets no such rows, since nobody knows which of them it may see. They are
//! taken out by the node that the caller asked ([`at_their_node`]), because the node that keeps the
//! notebooks of a cluster knows that node alone.
//!
//! An exported dashboard has `mails`: schedules by which it is sent ([`mails`]). They are kept
//! beside it, and belong to whoever imports it.

pub mod mails;

use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use node::cluster::node::HANDED_ON;
use node::saved_views::documents::DocumentError;
use node::saved_views::mails::Schedule;
use serde_json::{Map, Value, json};

use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Principal, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::to_their_node;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of an answer with a dashboard, or their list, to a caller that does not see all lines.
/// A longer one is refused (500): a dashboard has a megabyte, and a list some bytes for each.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .within(at_their_node)
        .get(Scope::Read, "/api/v1/dashboards", list)
        .get(Scope::Read, "/api/v1/dashboards/{id}", one)
        .put(Scope::Operate, "/api/v1/dashboards/{id}", save)
        .delete(Scope::Operate, "/api/v1/dashboards/{id}", delete)
        .merge(mails::routes())
}

/// Hands a call on where dashboards are kept elsewhere. Answers to callers that do not see all
/// lines are without the rows that are kept in notebooks.
fn at_their_node(request: Request, next: Next) -> Pin<Box<dyn Future<Output = Response> + Send>> {
    Box::pin(async move {
        let principal = request.extensions().get::<Principal>();
        let is_restricted = principal.is_some_and(Principal::is_restricted);
        let response = to_their_node(request, next).await;
        match is_restricted {
            true => without_kept(response).await.unwrap_or_else(IntoResponse::into_response),
            false => response,
        }
    })
}

/// The answer without the rows that are kept in a notebook.
async fn without_kept(response: Response) -> ApiResult {
    if !response.status().is_success() {
        return Ok(response);
    }
    let broken = |why: String| {
        ApiError::internal(format!(
            "the answer with the dashboard is damaged: {why}; if another node gave it, let all \
             nodes have one release"
        ))
    };
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| broken(error.to_string()))?;
    // The answer to HEAD has none.
    if body.is_empty() {
        return Ok(Response::from_parts(parts, Body::empty()));
    }
    let mut answer: Value =
        serde_json::from_slice(&body).map_err(|error| broken(error.to_string()))?;
    let body = match answer.as_object_mut().is_some_and(take_kept) {
        true => Body::from(answer.to_string()),
        false => Body::from(body),
    };
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, body))
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
    let document = app.with_views(&caller, move |views| views.dashboards.get(&id)).await?;
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

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    /// What is left of an answer, whichever node gave it.
    async fn left(status: StatusCode, body: &'static str) -> (StatusCode, String) {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        let answer = without_kept(response).await.unwrap_or_else(IntoResponse::into_response);
        let status = answer.status();
        let length = answer.headers().get(CONTENT_LENGTH).cloned();
        let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.unwrap();
        assert!(length.is_none_or(|length| length == body.len().to_string().as_str()));
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn kept_rows_are_taken_out_of_an_answer() {
        let notebook = r#"{"id":"n","cells":[{"id":"1","kept":{"rows":["secret"]}},{"id":"2"}]}"#;
        let (status, body) = left(StatusCode::OK, notebook).await;
        assert_eq!(status, StatusCode::OK);
        let expected = json!({ "id": "n", "cells": [{ "id": "1" }, { "id": "2" }] });
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
        for (status, body) in [
            (StatusCode::OK, r#"{"dashboards":[{"id":"n"}]}"#),
            (StatusCode::OK, ""),
            (StatusCode::NOT_FOUND, r#"{"error":"there is no dashboard"}"#),
        ] {
            assert_eq!(left(status, body).await, (status, body.to_owned()));
        }
        // What cannot be read is not passed on.
        let (status, body) = left(StatusCode::OK, "secret").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!body.contains("secret"));
    }
}
