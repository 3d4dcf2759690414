//! Runs a program on lines that come with the request; stores nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use programs::{Definition, Language};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::refused;
use super::shown::rejected;
use crate::access::params::ParamsAndText;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult};
use node::programs::compiled::Compiled;
use node::programs::registry::ChangeError;
use node::programs::trial;

/// Name of a program that has none yet.
const UNNAMED: &str = "unnamed";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    text: String,
    #[serde(default = "awk")]
    language: String,
    lines: Vec<String>,
}

/// A struct, so that the fields of rows keep their order.
#[derive(Serialize)]
struct Answer {
    rows: Vec<programs::Row>,
    rejected: Vec<Value>,
    rejected_total: u64,
    error: Option<String>,
    faults: Vec<Value>,
    warnings: Vec<String>,
    lines: usize,
    lines_matching: u64,
    cpu_ms: f64,
    interpreter: Option<&'static str>,
}

fn awk() -> String {
    Language::Awk.name().into()
}

pub async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let sent: Sent = serde_json::from_str(&body).map_err(|error| {
        ApiError::bad_request(format!(
            "the body must be a JSON object with text, language and lines: {error}"
        ))
    })?;
    let language = Language::named(&sent.language);
    let language = language.map_err(|error| ApiError::bad_request(error.to_string()))?;
    if sent.lines.len() > trial::SAMPLE_LINES_MAX {
        let max = trial::SAMPLE_LINES_MAX;
        return Err(ApiError::bad_request(format!("lines: send at most {max} of them")));
    }
    let definition = Definition::parse_as(UNNAMED, language, &sent.text);
    let compiled = definition.and_then(Compiled::new);
    let compiled = compiled.map_err(|error| refused(ChangeError::Invalid(error)))?;
    let lines = sent.lines.len();
    let now_ns = crate::wire::clock::now_ns();
    let stage = app.programs()?;
    let pending = PendingQuery::new(&app, "test", "a program on sample lines", &caller)?;
    let tried = answer(pending, move |_: &Running| {
        let engine = stage.engine();
        let log_type = compiled.definition.log_type.as_deref();
        let lines = sent.lines.iter().map(String::as_bytes);
        let sample = stage.parse_sample(log_type, lines, now_ns);
        trial::run(&compiled, sample, engine.launcher(), |variables| {
            engine.spec(&compiled, variables)
        })
    });
    let tried = tried.await?;
    let faults = tried.faults.iter().map(|fault| {
        json!({
            "program_line": fault.program_line,
            "input_line": fault.input_line,
            "message": fault.message,
        })
    });
    let answer = Answer {
        rejected: rejected(&tried.rejected.first),
        rejected_total: tried.rejected.lines,
        faults: faults.collect(),
        rows: tried.rows,
        error: tried.error,
        warnings: tried.warnings,
        lines,
        lines_matching: tried.lines_matching,
        cpu_ms: tried.cpu_ms,
        interpreter: tried.interpreter,
    };
    Ok(Json(answer).into_response())
}
