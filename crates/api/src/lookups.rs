//! `/api/v1/lookups`: the tables that rules and queries look values up in: those of the
//! configuration, and those that are uploaded here.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use node::lookups::{LookupSpec, LookupState, Lookups, Matching, UPLOAD_BYTES_MAX, UploadError};
use query::source::Tables;
use serde_json::{Map, Value, json};
use text::time::format_time;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Read, "/api/v1/lookups", list)
        .get(Scope::Read, "/api/v1/lookups/{name}", find)
        .put(Scope::Operate, "/api/v1/lookups/{name}", upload)
        .delete(Scope::Operate, "/api/v1/lookups/{name}", delete)
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let states = app.pipeline()?.lookups.states();
    let entries: Vec<Value> = states.iter().map(entry).collect();
    Ok(Json(json!({ "lookups": entries })).into_response())
}

fn entry(state: &LookupState) -> Value {
    let written = state.written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let written = written.and_then(|since| i64::try_from(since.as_nanos()).ok());
    json!({
        "name": state.name,
        "file": state.file.display().to_string(),
        "source": if state.is_uploaded { "uploaded" } else { "configuration" },
        "match": state.matching,
        "keys": state.fields.0,
        "fields": state.fields.1,
        "version": written.map(format_time),
        "rows": state.rows,
        "bytes": state.bytes,
        "error": state.error,
    })
}

/// The row that has the values of the parameter `value` as its key, in the order of the keys.
async fn find(State(app): State<Arc<App>>, Path(name): Path<String>, params: Params) -> ApiResult {
    let pipeline = app.pipeline()?;
    let table = pipeline.lookups.table(&name).ok_or_else(|| absent(&name))?;
    let values: Vec<&[u8]> = params.all("value").map(str::as_bytes).collect();
    let keys = table.keys();
    if values.len() != keys.len() {
        return Err(ApiError::bad_request(format!(
            "the key of '{name}' is ({}): send value={} times",
            keys.join(", "),
            keys.len()
        )));
    }
    let mut found = Map::new();
    table.find(&values, &mut |field, value| {
        let name = table.fields()[field].clone();
        found.insert(name, String::from_utf8_lossy(value).into_owned().into());
    });
    Ok(Json(json!({ "found": !found.is_empty(), "row": found })).into_response())
}

async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> ApiResult {
    let params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    let list = |key: &str| -> Vec<String> {
        let names = params.all(key).flat_map(|list| list.split(',')).map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let matching = params.get("match").unwrap_or("equal");
    let matching = serde_json::from_value::<Matching>(matching.into()).map_err(|_| {
        ApiError::bad_request(format!(
            "match: '{matching}' is not one of equal, cidr, prefix, wildcard, mmdb"
        ))
    })?;
    let (keys, fields) = (list("keys"), list("fields"));
    let file = std::path::PathBuf::new();
    let spec = LookupSpec { name: name.clone(), file, keys, matching, fields };
    let permit = Arc::clone(&app.upload_permit).try_acquire_owned().map_err(|_| {
        ApiError::new(StatusCode::CONFLICT, "another table is being uploaded; try again then")
    })?;
    let too_long = || {
        let most = UPLOAD_BYTES_MAX >> 20;
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("an uploaded table has at most {most} MiB; name a larger file in [[lookups]]"),
        )
    };
    let content = read_whole(request.into_body(), UPLOAD_BYTES_MAX).await?.ok_or_else(too_long)?;
    let bytes = content.len();
    change(&app, move |lookups| {
        let _permit = permit;
        lookups.upload(spec, content)
    })
    .await?;
    audit::note(&caller, &format!("lookup {name} uploaded, {bytes} bytes"), "");
    let states = app.pipeline()?.lookups.states();
    let state = states.iter().find(|state| state.name == name).ok_or_else(|| absent(&name))?;
    Ok(Json(entry(state)).into_response())
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let of = name.clone();
    change(&app, move |lookups| lookups.delete_upload(&of)).await?;
    audit::note(&caller, &format!("lookup {name} deleted"), "");
    Ok(Json(json!({ "name": name })).into_response())
}

fn absent(name: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no table '{name}'"))
}

/// Changes the uploaded tables, on a thread that may block.
async fn change(
    app: &App,
    work: impl FnOnce(&Lookups) -> Result<(), UploadError> + Send + 'static,
) -> ApiResult<()> {
    let lookups = Arc::clone(&app.pipeline()?.lookups);
    let done = tokio::task::spawn_blocking(move || work(&lookups)).await;
    let done = done.map_err(|error| ApiError::internal(error.to_string()))?;
    done.map_err(|error| match error {
        UploadError::Invalid(why) => ApiError::bad_request(why),
        UploadError::NotFound(why) => ApiError::new(StatusCode::NOT_FOUND, why),
        UploadError::Configured(why) | UploadError::Full(why) => {
            ApiError::new(StatusCode::CONFLICT, why)
        }
        UploadError::Kept(error) => {
            ApiError::of_disk(format!("the table cannot be kept: {error}"), &error)
        }
    })
}
