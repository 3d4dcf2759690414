//! Rules over the past: the changes that they would have made, without telling anybody.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use alerts::{Change, Engine, Range, Row, parse_duration, replay};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use query::RunError;
use query::time::parse_time;
use serde::Deserialize;
use serde_json::{Value, json};
use text::time::format_time;

use super::{refused, with};
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult};
use node::alerts::engine;
use node::alerts::rows::number;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    rules: String,
    start: String,
    end: String,
    step: Option<String>,
}

pub async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    ParamsAndText(params, body): ParamsAndText,
) -> ApiResult {
    let trial: Trial = serde_json::from_str(&body).map_err(|error| {
        ApiError::bad_request(format!("write \"rules\", \"start\", \"end\", \"step\": {error}"))
    })?;
    let range = range(&trial, crate::wire::clock::now_ns())?;
    let rules = trial.rules;
    let file = with(&app, move |stage| {
        stage.parse("rules", &rules).map_err(|error| refused(error.into()))
    });
    let file = file.await?;
    let url = app.options.alerts_url.clone();
    let mut pending = PendingQuery::new(&app, "alerts", "a test of alert rules", &caller)?;
    pending.context.restriction = params.restriction(crate::wire::clock::now_ns())?;
    let replayed = answer(pending, move |running| {
        let engine = TrialEngine(running);
        let replayed = replay(&file, range, &engine, &url, &|| running.check().is_err());
        // What was cancelled has no answer; what took too long has one, in part.
        match running.context.cancelled.load(Relaxed) {
            true => Err(RunError::Cancelled),
            false => Ok(replayed),
        }
    });
    let replayed = replayed.await?;
    let rules: Vec<Value> = replayed
        .rules
        .iter()
        .map(|rule| {
            json!({
                "rule": rule.rule,
                "group": rule.group,
                "evaluations": rule.evaluations,
                "changes": rule.changes.iter().map(shown).collect::<Vec<Value>>(),
                "error": rule.error,
            })
        })
        .collect();
    Ok(Json(json!({ "rules": rules, "truncated": replayed.is_truncated })).into_response())
}

fn range(trial: &Trial, now_ns: i64) -> ApiResult<Range> {
    let time = |name: &str, text: &str| {
        parse_time(text, now_ns).map(|time| time.start_ns).ok_or_else(|| {
            ApiError::bad_request(format!(
                "{name}: '{text}' is not a time; write for example 2026-01-31T12:00:00Z"
            ))
        })
    };
    let step = match &trial.step {
        Some(text) => {
            let step = parse_duration(text)
                .map_err(|error| ApiError::bad_request(format!("step: {error}")))?;
            if step < Duration::from_secs(1) {
                return Err(ApiError::bad_request("step: write at least 1s"));
            }
            Some(step)
        }
        None => None,
    };
    let range =
        Range { start_ns: time("start", &trial.start)?, end_ns: time("end", &trial.end)?, step };
    match range.start_ns > range.end_ns {
        true => Err(ApiError::bad_request("start: is after end; exchange them")),
        false => Ok(range),
    }
}

fn shown(change: &Change) -> Value {
    json!({
        "time": format_time(change.time_ns),
        "rule": change.rule,
        "group": change.group,
        "rule_id": change.rule_id,
        "labels": change.labels,
        "annotations": change.annotations,
        "from": change.from.name(),
        "to": change.to.name(),
        "value": number(change.value),
    })
}

/// Evaluates within one entry of the queue.
struct TrialEngine<'a>(&'a Running);

impl Engine for TrialEngine<'_> {
    fn check(&self, expr: &str) -> Result<(), String> {
        engine::check(expr)
    }

    fn rows(
        &self,
        expr: &str,
        time_ns: i64,
        interval: Duration,
        rows_max: usize,
    ) -> Result<Vec<Row>, String> {
        let TrialEngine(running) = self;
        running.check().map_err(|error| error.to_string())?;
        engine::rows(running.source(), running.context.clone(), (expr, time_ns, interval), rows_max)
    }
}
