//! Saves, deletes, enables, disables and reloads programs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use programs::Language;
use serde_json::json;

use super::refused;
use super::shown::shown;
use crate::access::audit;
use crate::access::params::{Params, ParamsAndText};
use crate::access::principal::Caller;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::programs::registry::{ChangeError, Registry};

pub async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(params, text): ParamsAndText,
) -> ApiResult {
    let language = language(&params)?;
    let kept = text.clone();
    let saved = name.clone();
    change(&app, move |registry| registry.save(&saved, language, &kept)).await?;
    audit::note(&caller, &format!("program {name} saved"), &text);
    let listed = app.programs()?.registry().get(&name).map_err(refused)?;
    Ok(Json(shown(&listed, 0)).into_response())
}

pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let deleted = name.clone();
    change(&app, move |registry| registry.delete(&deleted)).await?;
    audit::note(&caller, &format!("program {name} deleted"), "");
    Ok(Json(json!({ "name": name })).into_response())
}

pub async fn enable(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    set_enabled(app, caller, name, true).await
}

pub async fn disable(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    set_enabled(app, caller, name, false).await
}

async fn set_enabled(app: Arc<App>, caller: Caller, name: String, enabled: bool) -> ApiResult {
    let of = name.clone();
    change(&app, move |registry| registry.set_enabled(&of, enabled)).await?;
    let what = if enabled { "enabled" } else { "disabled" };
    audit::note(&caller, &format!("program {name} {what}"), "");
    let listed = app.programs()?.registry().get(&name).map_err(refused)?;
    Ok(Json(shown(&listed, 0)).into_response())
}

pub async fn reload(State(app): State<Arc<App>>, caller: Caller) -> ApiResult {
    let (programs, invalid) = change(&app, Registry::reload).await?;
    audit::note(&caller, "programs reloaded", "");
    Ok(Json(json!({ "programs": programs, "invalid": invalid })).into_response())
}

/// The language of a text that is sent.
pub fn language(params: &Params) -> ApiResult<Language> {
    let Some(name) = params.get("language") else { return Ok(Language::Awk) };
    Language::named(name).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Makes a change on a thread that may block: a program that runs is waited for.
async fn change<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Registry) -> Result<T, ChangeError> + Send + 'static,
) -> ApiResult<T> {
    let programs = app.programs()?;
    let changed = tokio::task::spawn_blocking(move || programs.change(work)).await;
    changed.map_err(|error| ApiError::internal(error.to_string()))?.map_err(refused)
}
