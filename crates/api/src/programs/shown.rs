//! Programs as the API shows them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use programs::{BUILTIN, Builtin, Input, RowError};
use serde_json::{Value, json};
use text::time::format_time;

use super::refused;
use crate::app::App;
use crate::wire::error::ApiResult;
use node::programs::registry::Listed;
use node::programs::runner::Runner;
use node::programs::status::Status;

/// A program whose oldest due bucket is older is behind.
const BEHIND_S: f64 = 60.0;

pub async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let stage = app.programs()?;
    let interpreter = stage.engine().interpreter.as_ref();
    let behind_ns = stage.arrival_lag_ns();
    let listed = stage.registry().list();
    let programs: Vec<Value> = listed.iter().map(|listed| shown(listed, behind_ns)).collect();
    let body = json!({
        "interpreter": interpreter.ok().map(|awk| json!({
            "kind": awk.kind().name(),
            "path": awk.path().to_string_lossy(),
        })),
        "interpreter_error": interpreter.err().map(ToString::to_string),
        "folder": stage.registry().folder(),
        "programs": programs,
    });
    Ok(Json(body).into_response())
}

pub async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> ApiResult {
    let stage = app.programs()?;
    let listed = stage.registry().get(&name).map_err(refused)?;
    let mut body = shown(&listed, stage.arrival_lag_ns());
    body["text"] = listed.loaded.text.clone().into();
    Ok(Json(body).into_response())
}

/// The programs that come with Loginson.
pub async fn examples() -> ApiResult {
    let shown = |builtin: &Builtin| {
        json!({
            "name": builtin.name,
            "language": "logsql",
            "about": builtin.about(),
            "text": builtin.text,
        })
    };
    let examples: Vec<Value> = BUILTIN.iter().map(shown).collect();
    Ok(Json(json!({ "examples": examples })).into_response())
}

/// A program without its text. `behind_ns`: how far noting lines is behind.
pub fn shown(listed: &Listed, behind_ns: i64) -> Value {
    let definition = listed.compiled.as_ref().ok().map(|compiled| &compiled.definition).or(listed
        .loaded
        .definition
        .as_ref()
        .ok());
    let runner = listed.runner.as_deref();
    let status = runner.map(Runner::status).unwrap_or_default();
    let (waiting, late_ns) = runner.map_or((0, 0), Runner::backlog);
    let lag_s = late_ns.max(runner.map_or(0, |_| behind_ns)) as f64 / 1e9;
    json!({
        "name": listed.loaded.name,
        "language": listed.loaded.extension,
        "configured": listed.is_configured,
        "type": definition.and_then(|d| d.log_type.clone()),
        "filter": definition.and_then(|d| d.filter.clone()),
        "bucket_s": definition.map(|d| d.width_s),
        "fields": definition.and_then(|d| match &d.input {
            Input::Fields(names) => Some(names.clone()),
            Input::Raw => None,
        }),
        "enabled": !listed.is_disabled,
        "state": state(listed, &status, lag_s),
        "problem": listed.compiled.as_ref().err().map(|error| json!({
            "line": error.line,
            "message": error.problem,
        })),
        "warnings": definition.map(|d| d.warnings()).unwrap_or_default(),
        "lag_s": lag_s,
        "buckets_waiting": waiting,
        "lines_total": status.lines,
        "rows_total": status.rows,
        "buckets_total": status.buckets,
        "buckets_stayed_total": status.stayed,
        "failures_total": status.failures,
        "rejected_total": status.rejected,
        "last_run": status.last_run_ns.map(format_time),
        "last_error": status.last_error.as_ref().map(|error| json!({
            "time": format_time(error.time_ns),
            "bucket": format_time(error.bucket_ns),
            "message": error.message,
            "stderr": error.stderr,
        })),
        "last_rejected": rejected(&status.last_rejected),
        "sandbox": status.sandbox.iter().flat_map(|applied| applied.steps()).map(|step| json!({
            "what": step.name,
            "part": step.part.name(),
            "note": step.note,
        })).collect::<Vec<_>>(),
    })
}

/// Lines of output that are no rows.
pub fn rejected(lines: &[RowError]) -> Vec<Value> {
    let shown = |line: &RowError| json!({ "line": line.line_number, "text": line.line, "reason": line.problem.to_string() });
    lines.iter().map(shown).collect()
}

/// The state of a program in a word.
pub fn state(listed: &Listed, status: &Status, lag_s: f64) -> &'static str {
    if listed.compiled.is_err() {
        "invalid"
    } else if listed.is_disabled || listed.runner.is_none() {
        "disabled"
    } else if status.failures_in_a_row > 0 {
        "failing"
    } else if lag_s > BEHIND_S {
        "behind"
    } else if status.buckets == 0 {
        "waiting"
    } else {
        "running"
    }
}
