//! The rows of a program, the last revision of each bucket.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use programs::summary::Reruns;
use query::RunError;
use serde::Serialize;
use text::time::format_time;

use super::refused;
use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::Engines;
use node::cluster::engines::Marks;
use node::data_dir::PROGRAM_RUNS_FILE;
use node::programs::rows::{self, Completed, Fields, StoredRow};
use node::programs::summary::reruns::KeptReruns;

/// Rows without the parameter `limit`, and the most with it.
pub const ROWS_DEFAULT: usize = 5_000;
/// limits.md, Programs of users: rows of an answer of `/rows` | 5,000; `limit` up to {} | the
/// newest buckets are left out (`is_cut`)
pub const ROWS_MAX: usize = 100_000;
/// The range without `start` and `end`: the last hour.
const RANGE_DEFAULT_NS: i64 = 3_600_000_000_000;

pub async fn rows(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> ApiResult {
    let pipeline = app.pipeline()?;
    // Rows of a program that was deleted stay; and those of a cluster are read by each node.
    let listed = pipeline.programs().and_then(|stage| stage.registry().get(&name).ok());
    let bucket_s = listed.and_then(|listed| Some(listed.compiled.ok()?.definition.width_s));
    let now_ns = crate::wire::clock::now_ns();
    let mut pending = PendingQuery::new(&app, "rows", &name, &caller)?;
    let mut range = params.range(now_ns)?;
    if params.get("start").is_none() {
        let end_ns = range.end_ns.min(now_ns);
        range.start_ns = end_ns.saturating_sub(RANGE_DEFAULT_NS);
    }
    pending.context.range = range;
    pending.context.restriction = params.restriction(now_ns)?;
    pending.context.limits.rows_max = u64::MAX;
    let limit = params.limit("limit")?.unwrap_or(ROWS_DEFAULT);
    if limit > ROWS_MAX {
        return Err(ApiError::bad_request(format!("limit must be at most {ROWS_MAX}")));
    }
    let program = name.clone();
    let (lines, cluster) = (app.lines(&pipeline), app.cluster());
    let found = answer(pending, move |running: &Running| {
        let engines = cluster.as_ref().and_then(|cluster| cluster.engines());
        let runs = match (pipeline.programs(), engines) {
            (Some(stage), _) => stage.runs(),
            (None, Some(engines)) => runs_of_cluster(engines)?,
            (None, None) => return Err(RunError::Failed("the server is shutting down".to_owned())),
        };
        let completed = Completed::of(&program, &runs);
        rows::read(&*lines.source(None), &running.context, (&program, &completed), limit)
    });
    let found = found.await?;
    let bucket_s = bucket_s.or_else(|| found.rows.last().map(|row| row.width_s));
    if let Some(stage) = app.pipeline()?.programs().filter(|_| bucket_s.is_none()) {
        stage.registry().get(&name).map_err(refused)?;
    }
    let is_cut = found.cut_ns.is_some() || found.rows.len() > limit;
    let rows = found.rows.iter().take(limit).map(shown).collect();
    Ok(Json(Answer { bucket_s, is_cut, rows }).into_response())
}

/// The completed runs over the past, as the node that runs the programs keeps them.
fn runs_of_cluster(engines: &Arc<Engines>) -> Result<Reruns, RunError> {
    let kept = Arc::new(Marks::new(engines, None, Marks::STATE));
    let kept = KeptReruns::open(kept, PROGRAM_RUNS_FILE);
    kept.map(|kept| kept.list()).map_err(|error| RunError::Failed(format!("{error:#}")))
}

/// A row; a struct, so that its fields keep their order.
#[derive(Serialize)]
pub struct ShownRow<'r> {
    time: String,
    bucket_s: u32,
    revision: u64,
    row: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    fields: &'r Fields,
}

/// A row.
pub fn shown(row: &StoredRow) -> ShownRow<'_> {
    ShownRow {
        time: format_time(row.time_ns),
        bucket_s: row.width_s,
        revision: row.revision,
        row: row.row,
        partial: row.is_partial,
        fields: &row.fields,
    }
}

#[derive(Serialize)]
struct Answer<'r> {
    bucket_s: Option<u32>,
    is_cut: bool,
    rows: Vec<ShownRow<'r>>,
}
