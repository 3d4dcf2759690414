//! `/api/v1/summary`, `/api/v1/summary/types`: what the charts of the page show.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use summary::{ChartBuilder, ChartRange, SummaryRow, TypesBuilder};

use super::App;
use super::ask::reading_thread;
use super::error::{ApiError, ApiResult};
use super::params::Params;

const SECOND_NS: i64 = 1_000_000_000;
/// The range when none is asked for: the last hour.
const RANGE_DEFAULT_NS: i64 = 3600 * SECOND_NS;

/// The routes of this file.
pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/api/v1/summary", get(chart)).route("/api/v1/summary/types", get(types))
}

async fn chart(State(app): State<Arc<App>>, params: Params) -> ApiResult {
    let log_type = params.required("type")?.to_owned();
    let (start_ns, end_ns) = range(&params)?;
    let step_s = step_s(&params)?;
    let bucket_s = app.config.summary.bucket_s;
    let range = ChartRange::new(start_ns, end_ns, step_s, bucket_s)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let mut chart = ChartBuilder::new(range, &log_type);
    let chart = read(&app, Some(log_type), range.time_range_ns(), move |rows| {
        rows(&mut |row| chart.add(row))?;
        Ok(chart.finish())
    });
    Ok(Json(chart.await?).into_response())
}

async fn types(State(app): State<Arc<App>>, params: Params) -> ApiResult {
    let range = range(&params)?;
    let mut types = TypesBuilder::new();
    let types = read(&app, None, range, move |rows| {
        rows(&mut |row| types.add(row))?;
        Ok(types.finish())
    });
    Ok(Json(types.await?).into_response())
}

/// Calls its argument with every row.
type Rows<'a> = dyn FnMut(&mut dyn FnMut(&SummaryRow)) -> ApiResult<()> + 'a;

/// Gives `add` the rows of open buckets and of the store, each line counted once, on a thread that may block.
async fn read<T: Send + 'static>(
    app: &App,
    log_type: Option<String>,
    (start_ns, end_ns): (i64, i64),
    add: impl FnOnce(&mut Rows<'_>) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let pipeline = app.pipeline()?;
    let place = app.summary_places.clone().acquire_owned().await.expect("never closed");
    let reading = reading_thread(move || {
        let _place = place;
        add(&mut |each| {
            let rows = pipeline.summary_rows(log_type.as_deref(), start_ns, end_ns, each);
            rows.map_err(|error| {
                ApiError::internal(format!("the summary cannot be read: {error}"))
            })?
            .ok_or_else(|| {
                ApiError::unavailable(
                    "the end of the summary is still looked for; try again in a moment",
                )
            })
        })
    });
    reading.await
}

fn range(params: &Params) -> ApiResult<(i64, i64)> {
    let now_ns = super::now_ns();
    let end_ns = params.time("end", now_ns)?.unwrap_or(now_ns.saturating_add(1));
    let start_ns = params.time("start", now_ns)?.unwrap_or(end_ns.saturating_sub(RANGE_DEFAULT_NS));
    Ok((start_ns, end_ns))
}

fn step_s(params: &Params) -> ApiResult<Option<u64>> {
    if params.get("step") == Some("auto") {
        return Ok(None);
    }
    Ok(params.duration_ns("step")?.map(|step_ns| (step_ns as u64).div_ceil(SECOND_NS as u64)))
}
