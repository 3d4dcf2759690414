//! `/api/v1/stands_out`: what the watch of the server found; and its metrics.
//!
//! Findings are made of all lines, so the scope is `read-all`: who sees a part of the lines gets
//! none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use text::quoted::quote;
use text::time::format_time;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::{elsewhere, to_their_node};
use crate::wire::error::ApiResult;
use crate::wire::metrics::Text;
use node::watch::{Finding, Kind, Phase, Told, WatchStage};

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().within(to_their_node).get(Scope::ReadAll, "/api/v1/stands_out", list)
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let work = app.pipeline()?.work().ok_or_else(|| elsewhere(&app))?;
    let told = work.watch.told();
    let body = told.map_or_else(|| json!({ "state": "off", "findings": [] }), |told| shown(&told));
    Ok(Json(body).into_response())
}

fn shown(told: &Told) -> Value {
    let learning: usize = told.fields.iter().map(|field| field.learning).sum();
    let state = match told.phase {
        Phase::LearnsPast => "learning",
        Phase::Watches if learning == told.series => "learning",
        Phase::Watches => "watching",
    };
    let fields = told.fields.iter().map(|field| {
        json!({
            "field": field.field,
            "series": field.series,
            "learning": field.learning,
            "left_out": field.left_out,
        })
    });
    let left_out = told.fields_left_out.iter();
    let left_out = left_out.map(|(field, reason)| json!({ "field": field, "reason": reason }));
    json!({
        "state": state,
        "since": told.since_ns.map(format_time),
        "until": told.until_ns.map(format_time),
        "findings": told.findings.iter().map(finding).collect::<Vec<Value>>(),
        "fields": fields.collect::<Vec<Value>>(),
        "fields_left_out": left_out.collect::<Vec<Value>>(),
        "series": told.series,
        "series_learning": learning,
        "series_left_out": told.series_left_out,
        "new_values_unsaid": told.unsaid.0,
        "findings_unsaid": told.unsaid.1,
        "late_lines_total": told.totals.late_lines,
        "error": told.error,
    })
}

fn finding(finding: &Finding) -> Value {
    let said = &finding.standing;
    let filter = match finding.field.as_str() {
        "" => "*".to_owned(),
        field => format!("{}:={}", quote(field), quote(&finding.value)),
    };
    json!({
        "id": finding.id,
        "kind": said.kind.name(),
        "field": finding.field,
        "value": finding.value,
        "filter": filter,
        "since": format_time(said.since_ns),
        "until": finding.until_ns.map(format_time),
        "seen": said.seen,
        "expected": said.expected,
        "interval_s": finding.interval_ns / 1_000_000_000,
        "history_s": finding.history_ns / 1_000_000_000,
        "reason": said.reason,
        "part_of": finding.part_of,
    })
}

/// Appends the metrics of the watch, if it is not switched off.
pub fn metrics(stage: &WatchStage, out: &mut Text) {
    let Some(told) = stage.told() else { return };
    let name = "loginson_watch_findings";
    out.head(name, "gauge", "What stands out at present, by kind.");
    for kind in Kind::ALL {
        let open = told.findings.iter().filter(|finding| finding.until_ns.is_none());
        let count = open.filter(|finding| finding.standing.kind == kind).count();
        out.sample(name, &[("kind", kind.name())], count);
    }
    for (name, help, count) in [
        ("loginson_watch_series", "Series that are watched for what stands out.", told.series),
        (
            "loginson_watch_series_left_out",
            "Values of the last minute that are not watched, because watch.series_max or the limit of a field is reached.",
            told.series_left_out,
        ),
    ] {
        out.head(name, "gauge", help);
        out.sample(name, &[], count);
    }
    let totals = &told.totals;
    for (name, help, count) in [
        ("loginson_watch_intervals_total", "Minutes that were counted and judged.", totals.minutes),
        (
            "loginson_watch_intervals_missed_total",
            "Minutes that were left out because the watch was behind.",
            totals.missed,
        ),
        ("loginson_watch_failures_total", "Queries of the watch that failed.", totals.failures),
        (
            "loginson_watch_late_lines_total",
            "Lines that came after their minute was counted, within a quarter of an hour.",
            totals.late_lines,
        ),
        (
            "loginson_watch_rows_lost_total",
            "Portions of rows about what stands out that could not be stored.",
            totals.rows_lost,
        ),
    ] {
        out.head(name, "counter", help);
        out.sample(name, &[], count);
    }
    for (name, kind, help, time) in [
        (
            "loginson_watch_seconds_total",
            "counter",
            "Time that counting and judging minutes took.",
            totals.busy,
        ),
        (
            "loginson_watch_last_minute_seconds",
            "gauge",
            "Time that counting and judging the last minute took.",
            totals.last,
        ),
    ] {
        out.head(name, kind, help);
        out.sample(name, &[], time.as_secs_f64());
    }
}
