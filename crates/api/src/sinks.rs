//! `/api/v1/sinks`: what the sinks are doing; and their metrics.

mod rejected;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use text::time::format_time;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::{elsewhere, to_their_node};
use crate::wire::error::ApiResult;
use crate::wire::metrics::Text;
use node::sinks::stage::{SinkStage, Told};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    let own = Routes::new().within(to_their_node).get(Scope::ReadAll, "/api/v1/sinks", list);
    own.merge(rejected::routes())
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let work = app.pipeline()?.work().ok_or_else(|| elsewhere(&app))?;
    let told = work.sinks.told();
    let sinks: Vec<Value> = told.iter().map(shown).collect();
    Ok(Json(json!({ "sinks": sinks })).into_response())
}

fn shown(told: &Told) -> Value {
    let state = &told.runner;
    let last = state.last_error.as_ref();
    let error = told.error.clone().or_else(|| last.map(|error| error.fault.to_string()));
    json!({
        "name": told.name,
        "kind": told.kind,
        "of": told.of,
        "state": told.state,
        "lag_s": state.lag_s,
        "lag_frames": told.frames_left,
        "waiting_documents": state.waiting_documents,
        "delivered_total": state.accepted,
        "rejected_total": state.rejected,
        "rejected_dropped_total": state.rejected_dropped,
        "retries_total": state.retries,
        "last_error": error,
        "last_error_time": last.map(|error| format_time(error.time_ns)),
        "cursor": state.cursor,
    })
}

/// Appends the metrics of sinks.
pub fn metrics(stage: &SinkStage, out: &mut Text) {
    let told = stage.told();
    type Number = fn(&Told) -> f64;
    let metrics: [(&str, &str, &str, Number); 7] = [
        (
            "loginson_sink_lag_seconds",
            "gauge",
            "Age of the oldest document that was read and not delivered.",
            |told| told.runner.lag_s,
        ),
        (
            "loginson_sink_lag_frames",
            "gauge",
            "Frames of lines that the sink has not read yet.",
            |told| told.frames_left as f64,
        ),
        (
            "loginson_sink_waiting_documents",
            "gauge",
            "Documents that were read and not delivered.",
            |told| told.runner.waiting_documents as f64,
        ),
        (
            "loginson_sink_delivered_total",
            "counter",
            "Documents that the destination accepted.",
            |told| told.runner.accepted as f64,
        ),
        (
            "loginson_sink_rejected_total",
            "counter",
            "Documents that the destination rejected; they are kept in a file.",
            |told| told.runner.rejected as f64,
        ),
        (
            "loginson_sink_rejected_dropped_total",
            "counter",
            "Rejected documents that were dropped from the files, which are bounded.",
            |told| told.runner.rejected_dropped as f64,
        ),
        ("loginson_sink_retries_total", "counter", "Documents that were sent again.", |told| {
            told.runner.retries as f64
        }),
    ];
    out.head("loginson_sink_state", "gauge", "1 for the state that the sink is in.");
    for told in &told {
        out.sample("loginson_sink_state", &[("sink", &told.name), ("state", told.state)], 1);
    }
    for (name, kind, help, number) in metrics {
        out.head(name, kind, help);
        for told in &told {
            out.sample(name, &[("sink", &told.name)], number(told));
        }
    }
}
