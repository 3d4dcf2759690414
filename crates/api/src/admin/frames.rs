//! `/api/v1/frames`: the frames that this store has taken from collectors, for a node that answers
//! for several copies, and finds what a store lacks; and frames that are copied from another copy.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use record::frame::{FRAME_BYTES_MAX, FrameHeader, HEADER_BYTES};
use record::{Frame, FrameError, Numbers};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::access::audit;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::frames::{FRAMES_PATH, StoreFrames};

/// Requests with frames that are read and kept at a time; further ones wait.
///
/// limits.md, Several stores: requests of `loginson cluster repair` that a store works on | {} of
/// up to 64 MiB | further ones wait
const FILLING_MAX: usize = 2;
static FILLING: Semaphore = Semaphore::const_new(FILLING_MAX);

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    let routes = Routes::new().get(Scope::Node, FRAMES_PATH, frames);
    routes.post(Scope::Admin, "/api/v1/frames/{collector}/{first}/{last}", fill)
}

async fn frames(State(app): State<Arc<App>>) -> ApiResult {
    let pipeline = app.pipeline()?;
    let told = StoreFrames::of(pipeline.stored.store()).to_told();
    Ok(Json(told).into_response())
}

/// Keeps frames of a collector that another copy has: all that is left of those with the numbers
/// from `first` to `last`.
async fn fill(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((collector, first, last)): Path<(String, u64, u64)>,
    request: Request,
) -> ApiResult {
    let pipeline = app.pipeline()?;
    let collector = u32::from_str_radix(&collector, 16).map_err(|_| {
        ApiError::bad_request(format!("'{collector}' is not the id of a collector"))
    })?;
    let _filling = FILLING.acquire().await.expect("never closed");
    let body = read_whole(request.into_body(), FRAME_BYTES_MAX).await?;
    let body = body.ok_or_else(|| {
        ApiError::bad_request(format!("frames are longer than {FRAME_BYTES_MAX} bytes"))
    })?;
    let frames = split(&body)
        .map_err(|error| ApiError::bad_request(format!("these are no frames: {error}")))?;
    drop(body);
    if frames.iter().any(|frame| !(first..=last).contains(&frame.header().sequence)) {
        return Err(ApiError::bad_request("a frame has another number"));
    }
    let mut taken = Numbers::new();
    taken.insert_range(first, last);
    let work = move || {
        pipeline
            .sources()
            .nodes(|nodes| nodes.filler())
            .map(|filler| filler.fill(collector, frames, &taken))
    };
    let filled = tokio::task::spawn_blocking(work).await;
    let filled = filled.map_err(|error| ApiError::internal(error.to_string()))?;
    let kept = filled
        .ok_or_else(|| {
            ApiError::new(
                StatusCode::CONFLICT,
                "this store takes no frames of collectors: start it with --node-listen",
            )
        })?
        .map_err(|error| ApiError::unavailable(error.to_string()))?;
    let what = format!("{kept} frames of collector {collector:08x} kept from another copy");
    audit::note(&caller, &what, &format!("{first} to {last}"));
    Ok(Json(json!({ "kept": kept })).into_response())
}

/// The frames that some bytes are.
fn split(mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let short = |needed| FrameError::Short { needed, found: bytes.len() };
        let header = bytes.get(..HEADER_BYTES).ok_or(short(HEADER_BYTES))?;
        let length = FrameHeader::decode(header)?.frame_bytes();
        let (frame, rest) = bytes.split_at_checked(length).ok_or(short(length))?;
        frames.push(Frame::decode(frame.to_vec())?);
        bytes = rest;
    }
    Ok(frames)
}
