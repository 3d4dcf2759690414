//! `/api/v1/macros`: the macros that queries can call, `@name(argument)`. Callers of one tenant see
//! those that are shared.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use node::saved_views::documents::DocumentError;
use node::saved_views::macros::SavedMacros;
use query::macros::{Macro, MacroForm, configured, saved};
use serde_json::{Value, json};

use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Read, "/api/v1/macros", list)
        .put(Scope::Operate, "/api/v1/macros/{name}", save)
        .delete(Scope::Operate, "/api/v1/macros/{name}", delete)
}

async fn list(caller: Caller) -> ApiResult {
    let callable = caller.principal.callable();
    let configured = configured();
    let is_hidden = |other: &Macro| configured.iter().any(|known| known.name() == other.name());
    let saved = saved();
    let own = configured.iter().map(|known| (known, "configuration"));
    let others = saved.iter().filter(|known| !is_hidden(known)).map(|known| (known, "saved"));
    let all = own.chain(others).filter(|(known, _)| callable.may_call(known));
    let mut macros: Vec<Value> = all.map(|(known, source)| entry(known, source)).collect();
    macros.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Ok(Json(json!({ "macros": macros })).into_response())
}

fn entry(known: &Macro, source: &str) -> Value {
    let form = match known.form() {
        MacroForm::Filter => "filter",
        MacroForm::Pipes => "pipes",
        MacroForm::Query => "query",
    };
    json!({
        "name": known.name(),
        "parameters": known.parameters(),
        "text": known.text(),
        "description": known.description(),
        "form": form,
        "shared": known.is_shared(),
        "source": source,
    })
}

async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let (of, text) = (name.clone(), body.clone());
    change(&app, move |macros| macros.save(&of, &body)).await?;
    audit::note(&caller, &format!("macro {name} saved"), &text);
    Ok(Json(json!({ "name": name })).into_response())
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let of = name.clone();
    change(&app, move |macros| macros.delete(&of)).await?;
    audit::note(&caller, &format!("macro {name} deleted"), "");
    Ok(Json(json!({ "name": name })).into_response())
}

/// Changes the saved macros, on a thread that may block.
async fn change(
    app: &App,
    work: impl FnOnce(&SavedMacros) -> Result<(), DocumentError> + Send + 'static,
) -> ApiResult<()> {
    let views = app.views.get().cloned().filter(|views| views.macros.is_some());
    let views = views.ok_or_else(|| {
        ApiError::new(
            StatusCode::CONFLICT,
            "in a cluster on Kafka, macros stand in [[macros]] of each node's configuration",
        )
    })?;
    let done = tokio::task::spawn_blocking(move || views.macros.as_ref().map_or(Ok(()), work));
    Ok(done.await.map_err(|error| ApiError::internal(error.to_string()))??)
}
