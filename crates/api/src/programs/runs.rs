//! Runs of a program over a past interval, as entries of the queue of queries.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use programs::Definition;
use query::RunError;
use query::source::TimeRange;
use serde::Serialize;
use serde_json::{Value, json};
use text::time::format_time;

use super::change::language;
use super::refused;
use super::rows::{ROWS_DEFAULT, ShownRow, shown};
use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer, start};
use crate::wire::error::{ApiError, ApiResult};
use node::programs::compiled::Compiled;
use node::programs::registry::ChangeError;
use node::programs::summary::reruns::RerunError;

/// The completed runs of a program, the latest first.
pub async fn list(State(app): State<Arc<App>>, Path(name): Path<String>) -> ApiResult {
    let runs = app.programs()?.runs();
    let of_program = runs.list().iter().rev().filter(|run| run.summary_of == name);
    let shown = of_program.map(|run| {
        json!({
            "id": run.id.to_string(),
            "start": format_time(run.start_ns),
            "end": format_time(run.end_ns),
            "at": format_time(i64::try_from(run.id).map_or(i64::MAX, |at_us| at_us * 1_000)),
        })
    });
    Ok(Json(json!({ "runs": shown.collect::<Vec<Value>>() })).into_response())
}

pub async fn begin(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(params, text): ParamsAndText,
) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let stage = app.programs()?;
    let compiled = match text.trim().is_empty() {
        true => {
            let listed = stage.registry().get(&name).map_err(refused)?;
            listed.compiled.map_err(|error| refused(ChangeError::Invalid(error)))?
        }
        false => {
            let definition = Definition::parse_as(&name, language(&params)?, &text);
            let compiled = definition.and_then(Compiled::new);
            Arc::new(compiled.map_err(|error| refused(ChangeError::Invalid(error)))?)
        }
    };
    let time = |key: &str| -> ApiResult<i64> {
        params.required(key)?;
        Ok(params.time(key, now_ns)?.unwrap_or(now_ns))
    };
    let range = TimeRange { start_ns: time("start")?, end_ns: time("end")? };
    if range.start_ns >= range.end_ns {
        return Err(ApiError::bad_request("start must be before end"));
    }
    let is_dry = params.flag("dry_run");
    let times = format!("from {} to {}", format_time(range.start_ns), format_time(range.end_ns));
    let text = format!("program {name} {times}");
    let mut pending =
        PendingQuery::new(&app, if is_dry { "dry run" } else { "run" }, &text, &caller)?;
    pending.context.range = range;
    // Like an export, it may take as long as it needs.
    pending.context.limits.run_time = Duration::MAX;
    pending.context.limits.rows_max = u64::MAX;
    if is_dry {
        let tried = answer(pending, move |running: &Running| {
            let check = || running.check();
            let (compiled, context) = (&compiled, &running.context);
            let after = stage
                .try_rerun(compiled, range, context, &check, ROWS_DEFAULT)
                .map_err(run_error)?;
            let before = stage.rows(&compiled.definition.name, context, ROWS_DEFAULT)?;
            Ok((before, after))
        });
        let (before, after) = tried.await?;
        let compared = Compared {
            buckets: after.buckets,
            is_cut: before.cut_ns.is_some() || after.is_cut,
            rows_before: before.rows.iter().map(shown).collect(),
            rows_after: after.rows.iter().map(shown).collect(),
        };
        return Ok(Json(compared).into_response());
    }
    let work = move |running: &Running| {
        let check = || running.check();
        let done = stage.rerun(&compiled, range, &running.context, &check);
        let done = done.map_err(run_error)?;
        let name = &compiled.definition.name;
        tracing::info!(
            "program {name}: a run over {} buckets gave {} rows, which replace the earlier ones",
            done.buckets,
            done.rows
        );
        Ok(done)
    };
    let id = start(pending, work).await?;
    audit::note(&caller, &format!("program runs over a past interval as query {id}"), &text);
    Ok((StatusCode::ACCEPTED, Json(json!({ "id": id.to_string() }))).into_response())
}

/// What a dry run gives.
#[derive(Serialize)]
struct Compared<'r> {
    buckets: u64,
    is_cut: bool,
    rows_before: Vec<ShownRow<'r>>,
    rows_after: Vec<ShownRow<'r>>,
}

fn run_error(error: RerunError) -> RunError {
    match error {
        RerunError::Run(error) => error,
        error => RunError::Failed(error.to_string()),
    }
}
