//! Silences, in the form of Alertmanager's API.

use std::sync::Arc;

use alerts::{Silence, SilenceError};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::with;
use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::alerts::AlertError;

pub async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let silences = with(&app, |stage| Ok(stage.alerts().silences())).await?;
    let now_ns = crate::wire::clock::now_ns();
    let shown = silences.iter().map(|silence| {
        let mut shown = json!(silence);
        shown["status"] = json!({ "state": silence.state(now_ns) });
        shown
    });
    Ok(Json(shown.collect::<Vec<Value>>()).into_response())
}

pub async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let mut silence: Silence = serde_json::from_str(&body)
        .map_err(|error| ApiError::bad_request(format!("this is no silence: {error}")))?;
    if let (true, Some(name)) = (silence.created_by.is_empty(), caller.principal.name()) {
        silence.created_by = name.to_owned();
    }
    let id = with(&app, move |stage| stage.put_silence(silence).map_err(refused)).await?;
    audit::note(&caller, &format!("silence {id} saved"), &body);
    // Alertmanager answers with `silenceID`.
    Ok(Json(json!({ "id": id, "silenceID": id })).into_response())
}

pub async fn end(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let of = id.clone();
    with(&app, move |stage| stage.end_silence(&of).map_err(refused)).await?;
    audit::note(&caller, &format!("silence {id} ended"), "");
    Ok(Json(json!({ "id": id })).into_response())
}

fn refused(error: AlertError) -> ApiError {
    let message = error.to_string();
    match error {
        AlertError::Silence(SilenceError::Invalid(_)) => ApiError::bad_request(message),
        AlertError::Silence(SilenceError::Full) => ApiError::new(StatusCode::CONFLICT, message),
        AlertError::Silence(SilenceError::NotFound(_)) => ApiError::not_found(message),
        error => super::refused(error),
    }
}
