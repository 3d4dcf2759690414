//! `/api/v1/backups`: makes backups of the data directory, lists and deletes them; has one sent to
//! the destination of `[backup]`.

use std::sync::Arc;

use anyhow::Error;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::access::audit;
use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::data_dir::BACKUPS_FOLDER;
use node::pipeline::Pipeline;
use node::storage::backup::{self, Exists, Manifest, NoRoom};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Operate, "/api/v1/backups", list)
        .post(Scope::Operate, "/api/v1/backups", make)
        .delete(Scope::Admin, "/api/v1/backups/{name}", remove)
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let destination = app.pipeline_seen().and_then(|pipeline| pipeline.backups.clone());
    let destination = destination.map(|backups| backups.shown());
    let found = blocking(move || {
        let backups = app.options.store.data_dir.join(BACKUPS_FOLDER);
        let found = backup::list(&backups).map_err(internal)?;
        let readable: Vec<Value> = found.readable.iter().map(|one| shown(&app, one)).collect();
        let damaged = found.damaged.iter().map(|(name, why)| json!({ "name": name, "why": why }));
        Ok((readable, damaged.collect::<Vec<_>>()))
    });
    let (readable, damaged) = found.await?;
    let body = json!({ "backups": readable, "damaged": damaged, "destination": destination });
    Ok(Json(body).into_response())
}

async fn make(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let pipeline = app.pipeline()?;
    let is_sent = params.get("send").is_some_and(|send| send != "0");
    let of_cluster = app.cluster().is_some_and(|cluster| cluster.engines().is_some());
    if !(is_sent && of_cluster) {
        refuse_without_lines(&app, pipeline.store().stats().lines)?;
    }
    let now_ns = crate::wire::clock::now_ns();
    let name = params.get("name").map_or_else(|| backup::name_of_time(now_ns), str::to_owned);
    backup::check_name(&name).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if is_sent {
        return send(&pipeline, &caller, name);
    }
    let permit = only_one(&app)?;
    let answer = blocking(move || {
        // Held to the end of the work, even if the client goes away.
        let _permit = permit;
        let (dir, free_bytes_min) =
            (&app.options.store.data_dir, app.options.store.disk_free_bytes_min);
        let made = backup::of_store(pipeline.store(), dir, &name, now_ns, free_bytes_min);
        let manifest = made.map_err(refused)?;
        let what = format!("backup '{}' of {} lines made", manifest.name, manifest.lines);
        audit::note(&caller, &what, "");
        Ok(shown(&app, &manifest))
    });
    Ok((StatusCode::CREATED, Json(answer.await?)).into_response())
}

/// Has a backup sent to the destination. The caller asks for its state by a list of all backups.
fn send(pipeline: &Pipeline, caller: &Caller, name: String) -> ApiResult {
    let Some(backups) = &pipeline.backups else {
        let message = "this server has no destination for backups; set backup.to in its configuration (docs/backup.md), or make \
                       one without `send`";
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, message));
    };
    if backups.has_sent(&name) {
        let message = format!("there is a backup '{name}' already; choose another name");
        return Err(ApiError::new(StatusCode::CONFLICT, message));
    }
    if !backups.ask(name.clone()) {
        let message = "a backup is being sent; try again when that is done";
        return Err(ApiError::new(StatusCode::CONFLICT, message));
    }
    audit::note(caller, &format!("backup '{name}' is to be sent"), "");
    Ok((StatusCode::ACCEPTED, Json(json!({ "name": name, "destination": backups.shown() })))
        .into_response())
}

/// Refuses a backup by a server whose lines are not in its own store: it would have none of them.
fn refuse_without_lines(app: &App, lines: u64) -> ApiResult<()> {
    let Some(cluster) = app.cluster() else { return Ok(()) };
    let message = if cluster.engines().is_some() {
        "the lines of a cluster on Kafka and object storage are not on this machine; have a backup sent to another place: set \
         backup.to, and run `loginson backup send` (docs/backup.md)"
            .to_owned()
    } else if lines == 0 {
        let names: Vec<&str> = cluster.nodes().map(|node| node.name.as_str()).collect();
        format!(
            "this server has no lines of its own; make a backup at each of the stores that it asks: {}",
            names.join(", ")
        )
    } else {
        return Ok(());
    };
    Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, message))
}

async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    backup::check_name(&name).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let permit = only_one(&app)?;
    let removed = blocking(move || {
        let _permit = permit;
        let removed = backup::delete(&app.options.store.data_dir.join(BACKUPS_FOLDER), &name);
        match removed.map_err(internal)? {
            true => {
                audit::note(&caller, &format!("backup '{name}' deleted"), "");
                Ok(json!({ "name": name, "deleted": true }))
            }
            false => Err(ApiError::not_found(format!(
                "there is no backup '{name}'; /api/v1/backups lists all"
            ))),
        }
    });
    Ok(Json(removed.await?).into_response())
}

fn only_one(app: &App) -> ApiResult<OwnedSemaphorePermit> {
    Arc::clone(&app.backup_permit).try_acquire_owned().map_err(|_| {
        let message = "a backup is being made or deleted; try again when that is done";
        ApiError::new(StatusCode::CONFLICT, message)
    })
}

/// Runs work on the disk on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let running = tokio::task::spawn_blocking(work);
    running.await.unwrap_or_else(|_| {
        Err(ApiError::internal("the backup ended because of a bug; see the server's log"))
    })
}

fn refused(error: Error) -> ApiError {
    let status = if error.is::<Exists>() {
        StatusCode::CONFLICT
    } else if error.is::<NoRoom>() {
        StatusCode::INSUFFICIENT_STORAGE
    } else {
        return internal(error);
    };
    ApiError::new(status, error.to_string())
}

fn internal(error: Error) -> ApiError {
    ApiError::of_disk(node::process::log::one_line(&error), error.as_ref())
}

/// A backup as the API shows it.
fn shown(app: &App, manifest: &Manifest) -> Value {
    let path = app.options.store.data_dir.join(BACKUPS_FOLDER).join(&manifest.name);
    json!({
        "name": manifest.name,
        "path": std::path::absolute(&path).unwrap_or(path),
        "created": manifest.created,
        "lines": manifest.lines,
        "files": manifest.files.len(),
        "files_linked": manifest.files_linked,
        "bytes_copied": manifest.bytes_copied,
    })
}
