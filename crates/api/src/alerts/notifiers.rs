//! Notifiers: what they delivered, why they fail, and a test of one; and the receivers among them
//! that are made over the API, whose secrets no answer has.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use text::time::format_time;

use super::{change, refused, with};
use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::wire::error::ApiResult;
use node::alerts::ToldNotifier;

/// What the audit log calls one.
const KIND: &str = "notifier";

pub async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let told = with(&app, |stage| Ok(stage.notifiers())).await?;
    Ok(Json(json!({ "notifiers": told.iter().map(shown).collect::<Vec<Value>>() })).into_response())
}

fn shown(told: &ToldNotifier) -> Value {
    let (counts, last) = (&told.counts, told.counts.last_error.as_ref());
    json!({
        "name": told.name,
        "kind": told.kind,
        "matchers": told.matchers,
        "provided": told.is_provided,
        "state": if last.is_some() { "failing" } else { "ok" },
        "waiting": counts.waiting,
        "sent_total": counts.sent,
        "failed_attempts_total": counts.failed_attempts,
        "given_up_total": counts.given_up,
        "refused_total": counts.refused,
        "dropped_total": counts.dropped,
        "last_error": last.map(|error| &error.message),
        "last_error_time": last.map(|error| format_time(error.time_ns)),
    })
}

/// A receiver as it can be changed, with the names of its secrets.
pub async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> ApiResult {
    let view = with(&app, move |stage| stage.receiver(&name).map_err(refused)).await?;
    let mut shown = json!(view.config);
    shown["secrets"] = json!(view.secrets);
    Ok(Json(shown).into_response())
}

pub async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let done = (KIND, name, "saved");
    // What was sent has secrets.
    change(&app, &caller, done, "", move |stage, name| stage.save_receiver(name, &body)).await
}

pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let done = (KIND, name, "deleted");
    change(&app, &caller, done, "", |stage, name| stage.delete_receiver(name)).await
}

/// Sends a test. The receiver's answer is the result, not an error of this call.
pub async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let of = name.clone();
    let sent = with(&app, move |stage| stage.test_notifier(&of).map_err(refused)).await?;
    audit::note(&caller, &format!("notifier {name} tested"), "");
    let error = sent.err().map(|fault| fault.to_string());
    Ok(Json(json!({ "name": name, "delivered": error.is_none(), "error": error })).into_response())
}
