//! `/api/v1/ingest/rules`: what the rules at ingest did, and what other rules would do.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use node::ingest::rules::{RuleCounts, RuleSet, TracedLine, trace};
use query::Query;
use record::frame::LINE_BYTES_MAX;
use record::{Batch, Format, FrameBuilder, Origin, Transport};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult, wrong_query};
use crate::wire::metrics::Text;

/// Lines of one trial. More are refused.
const TRIAL_LINES_MAX: usize = 1_000;
/// Lines of a trial that does not say how many.
const TRIAL_LINES: usize = 50;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/api/v1/ingest/rules", list).post(
        Scope::Operate,
        "/api/v1/ingest/rules/trial",
        trial,
    )
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let rules = app.pipeline()?.rules.now();
    let entry = |counts: &RuleCounts| {
        json!({
            "name": counts.name,
            "selected": counts.selected.load(Relaxed),
            "dropped": counts.dropped.load(Relaxed),
            "masked": counts.masked.load(Relaxed),
            "changed": counts.changed.load(Relaxed),
            "failed": counts.failed.load(Relaxed),
            "took_ms": counts.took_ns.load(Relaxed) as f64 / 1e6,
        })
    };
    let entries: Vec<Value> = rules.counts().map(entry).collect();
    Ok(Json(json!({ "rules": entries })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// Rules as TOML, as they stand in the configuration.
    rules: String,
    /// The lines to try them on; without them, stored lines.
    lines: Option<Vec<String>>,
    /// Selects the stored lines; all without it.
    query: Option<String>,
    /// How many of the newest.
    limit: Option<usize>,
}

async fn trial(
    State(app): State<Arc<App>>,
    caller: Caller,
    ParamsAndText(params, body): ParamsAndText,
) -> ApiResult {
    let sent: Sent = serde_json::from_str(&body).map_err(|error| {
        ApiError::bad_request(format!(
            "the body must be a JSON object with rules, and lines or query and limit: {error}"
        ))
    })?;
    let tables = app.pipeline()?.lookups.for_rules();
    let rules = RuleSet::of_text(&sent.rules, &tables).map_err(ApiError::bad_request)?;
    let limit = sent.limit.unwrap_or(TRIAL_LINES);
    let given = sent.lines.as_ref().map_or(limit, Vec::len);
    if given > TRIAL_LINES_MAX {
        return Err(ApiError::bad_request(format!(
            "a trial takes at most {TRIAL_LINES_MAX} lines"
        )));
    }
    let now_ns = crate::wire::clock::now_ns();
    let text = sent.query.as_deref().unwrap_or("*");
    let query = Query::parse(text, now_ns).map_err(wrong_query)?;
    let mut pending = PendingQuery::new(&app, "test", "rules on sample lines", &caller)?;
    pending.context.restriction = params.restriction(now_ns)?;
    pending.context.limit = Some(limit);
    pending.context.include = vec!["_line".to_owned()];
    let parsers = Arc::clone(pending.pipeline().parsers());
    let entries = answer(pending, move |running: &Running| {
        let lines = match sent.lines {
            Some(lines) => lines.into_iter().map(String::into_bytes).collect(),
            None => {
                let mut lines = Vec::new();
                query::run(&query, running.source(), &running.context, &mut |rows| {
                    let raw = (0..rows.len()).filter_map(|row| rows.raw(row));
                    lines.extend(raw.map(<[u8]>::to_vec));
                    ControlFlow::Continue(())
                })?;
                lines
            }
        };
        let origin = Origin::new(Transport::Http, Format::Auto, None);
        let mut frame = FrameBuilder::new();
        let mut entries = Vec::with_capacity(lines.len());
        let mut lines = lines.into_iter().peekable();
        while let Some(line) = lines.next() {
            running.check()?;
            frame.push_line(&origin, now_ns, &line[..line.len().min(LINE_BYTES_MAX)], false);
            if (frame.is_full() || lines.peek().is_none())
                && let Some(frame) = frame.finish(0, 0)
            {
                let traced = trace(&rules, frame, &parsers);
                entries.extend(traced.iter().map(|line| entry(&rules, line)));
            }
        }
        Ok(entries)
    });
    Ok(Json(json!({ "lines": entries.await? })).into_response())
}

fn entry(rules: &RuleSet, line: &TracedLine) -> Value {
    let names: Vec<&str> = rules.counts().map(|counts| &*counts.name).collect();
    let by: Vec<&str> = line.rules.iter().map(|rule| names[*rule]).collect();
    let (before, row) = &line.before;
    let after = line.after.as_ref().map(|(batch, row)| row_of(batch, *row));
    json!({ "rules": by, "before": row_of(before, *row), "after": after })
}

/// A line as it would be stored, with its fields.
fn row_of(batch: &Batch, row: usize) -> Value {
    let row = batch.row(row);
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let fields = row.fields().filter(|(_, value)| !value.is_empty());
    let fields: Map<String, Value> =
        fields.map(|(id, value)| (batch.name(id).to_owned(), text(value))).collect();
    json!({ "line": text(row.raw()), "fields": fields })
}

/// What each rule did, as metrics.
pub fn metrics(rules: &RuleSet, out: &mut Text) {
    out.head(
        "loginson_rule_lines_total",
        "counter",
        "Lines by rule at ingest, and by what became of them.",
    );
    for counts in rules.counts() {
        for (action, count) in [
            ("selected", &counts.selected),
            ("dropped", &counts.dropped),
            ("masked", &counts.masked),
            ("changed", &counts.changed),
            ("failed", &counts.failed),
        ] {
            let labels = [("rule", &*counts.name), ("action", action)];
            out.sample("loginson_rule_lines_total", &labels, count.load(Relaxed));
        }
    }
    out.head("loginson_rule_seconds_total", "counter", "Time that each rule at ingest took.");
    for counts in rules.counts() {
        let seconds = counts.took_ns.load(Relaxed) as f64 / 1e9;
        out.sample("loginson_rule_seconds_total", &[("rule", &*counts.name)], seconds);
    }
}
