//! Rule files: lists, reads, saves, deletes, reloads.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::{change, refused, with};
use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::wire::error::ApiResult;

/// What the audit log calls them.
const KIND: &str = "alert rules";

pub async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let found = with(&app, |stage| Ok((stage.files().map_err(refused)?, stage.invalid())));
    let (files, invalid) = found.await?;
    let shown = files.iter().map(|(name, is_provisioned)| {
        let error = invalid.iter().find(|error| error.file == *name);
        json!({
            "name": name,
            "provisioned": is_provisioned,
            "error": error.map(ToString::to_string),
        })
    });
    Ok(Json(json!({ "files": shown.collect::<Vec<Value>>() })).into_response())
}

pub async fn text(State(app): State<Arc<App>>, Path(name): Path<String>) -> ApiResult {
    let text = with(&app, move |stage| stage.text(&name).map_err(refused)).await?;
    Ok(([(CONTENT_TYPE, "text/yaml; charset=utf-8")], text).into_response())
}

pub async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(_, text): ParamsAndText,
) -> ApiResult {
    let kept = text.clone();
    let done = (KIND, name, "saved");
    change(&app, &caller, done, &text, move |stage, name| stage.save(name, &kept)).await
}

pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    change(&app, &caller, (KIND, name, "deleted"), "", |stage, name| stage.delete(name)).await
}

pub async fn reload(State(app): State<Arc<App>>, caller: Caller) -> ApiResult {
    let files = with(&app, |stage| stage.reload().map_err(refused)).await?;
    audit::note(&caller, "alert rules reloaded", "");
    Ok(Json(json!({ "files": files })).into_response())
}
