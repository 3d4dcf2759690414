//! `/api/v1/rules`, `/api/v1/alerts`, `/api/v1/silences`: rules, alerts, notifiers, silences; and
//! their metrics.

mod files;
mod history;
pub mod metrics;
mod notifiers;
mod shown;
mod silences;
mod trial;

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use crate::access::audit;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::{elsewhere, to_their_node};
use crate::wire::error::{ApiError, ApiResult};
use node::alerts::{AlertError, AlertStage};
use node::pipeline::leased_work::LeasedWork;

/// Seconds after which another notifier may be tested: a test takes no longer, as a rule.
const TEST_RETRY_S: u32 = 5;

/// The routes of this folder.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        // Changes are lines, and a test is a query: the node that got the call reads both.
        .get(Scope::ReadAll, "/api/v1/alerts/history", history::list)
        .within(to_their_node)
        .get(Scope::ReadAll, "/api/v1/rules", shown::rules)
        .get(Scope::ReadAll, "/api/v1/alerts", shown::alerts)
        .post(Scope::Operate, "/api/v1/alerts/test", trial::test)
        .get(Scope::ReadAll, "/api/v1/alerts/rules", files::list)
        .post(Scope::Operate, "/api/v1/alerts/reload", files::reload)
        .get(Scope::ReadAll, "/api/v1/alerts/rules/{name}", files::text)
        .put(Scope::Operate, "/api/v1/alerts/rules/{name}", files::save)
        .delete(Scope::Operate, "/api/v1/alerts/rules/{name}", files::delete)
        .get(Scope::ReadAll, "/api/v1/alerts/notifiers", notifiers::list)
        .post(Scope::Operate, "/api/v1/alerts/notifiers/{name}/test", notifiers::test)
        .get(Scope::Operate, "/api/v1/alerts/notifiers/{name}", notifiers::one)
        // Whoever makes a receiver decides where texts of all lines go.
        .put(Scope::Admin, "/api/v1/alerts/notifiers/{name}", notifiers::save)
        .delete(Scope::Admin, "/api/v1/alerts/notifiers/{name}", notifiers::delete)
        .get(Scope::ReadAll, "/api/v1/silences", silences::list)
        .post(Scope::Operate, "/api/v1/silences", silences::put)
        .delete(Scope::Operate, "/api/v1/silences/{id}", silences::end)
}

/// Works with the alerts on a thread that may block.
async fn with<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&AlertStage) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let here: Arc<LeasedWork> = app.pipeline()?.work().ok_or_else(|| elsewhere(app))?;
    let done = tokio::task::spawn_blocking(move || work(&here.alerts)).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?
}

/// Changes something of the alerts, and notes that in the audit log: `what` became of the `kind` of
/// this name, and what was `sent`.
async fn change(
    app: &App,
    caller: &Caller,
    (kind, name, what): (&str, String, &str),
    sent: &str,
    work: impl FnOnce(&AlertStage, &str) -> Result<(), AlertError> + Send + 'static,
) -> ApiResult {
    let of = name.clone();
    with(app, move |stage| work(stage, &of).map_err(refused)).await?;
    audit::note(caller, &format!("{kind} {name} {what}"), sent);
    Ok(Json(json!({ "name": name })).into_response())
}

/// How a change of rules that was refused is answered.
fn refused(error: AlertError) -> ApiError {
    let message = error.to_string();
    match error {
        AlertError::Rule(error) => match error.line {
            Some(line) => ApiError::bad_request(message).with("line", line),
            None => ApiError::bad_request(message),
        },
        AlertError::Invalid(_) => ApiError::bad_request(message),
        AlertError::NotFound(_) | AlertError::NoNotifier(_) => ApiError::not_found(message),
        AlertError::Provisioned(_)
        | AlertError::Full
        | AlertError::ProvidedNotifier(_)
        | AlertError::TooManyReceivers
        | AlertError::NoReceivers => ApiError::new(StatusCode::CONFLICT, message),
        AlertError::Testing => {
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(TEST_RETRY_S)
        }
        AlertError::Kept(error) | AlertError::SilencesKept(error) => {
            ApiError::of_disk(message, &error)
        }
        AlertError::Silence(_) => ApiError::bad_request(message),
    }
}
