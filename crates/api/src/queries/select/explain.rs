//! `explain`: the plan of a query, and in a cluster on engines which nodes it asks for what. With
//! `analyze` the query runs, and its rows are dropped.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use query::{Explanation, Query, RunError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::Avoided;
use node::cluster::{Engines, ShareTrace, TracedPlan, ms};

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/select/logsql/explain", explain)
}

/// Takes the parameters of `query`, so that the plan is that of the same request; `format` is the
/// format of the plan. It waits in the queue like a query, because it lists the units of the store.
async fn explain(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let query = params.query(params.query_time_ns(now_ns)?)?;
    let mut pending = PendingQuery::of_query(&app, "explain", &params, &caller, now_ns)?;
    pending.context.limit = params.limit("limit")?;
    pending.context.offset = params.number("offset")?.unwrap_or(0);
    pending.context.include = params.include()?;
    let is_json = match params.get("format") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            return Err(ApiError::bad_request(format!("format: '{other}' is not text or json")));
        }
    };
    let analyze = params.flag("analyze");
    // How much there is would tell a restricted caller of other lines.
    let engines = app.engines().filter(|_| pending.context.restriction.is_none());
    let trace = engines.as_ref().map(|_| caller.missing.trace_shares());
    let explained = answer(pending, move |running| {
        let explanation = query::explain(&query, running.source(), &running.context)?;
        let run = match (analyze, engines.zip(trace.as_deref())) {
            (true, _) => Some(run(&query, running)?),
            (false, Some((engines, trace))) => {
                plan(&engines, &explanation, running, trace)?;
                None
            }
            (false, None) => None,
        };
        let (plans, plans_left_out) = trace.map(|trace| trace.plans()).unwrap_or_default();
        Ok(Explained { explanation, plans, plans_left_out, run })
    });
    let explained = explained.await?;
    let (media_type, body) = match is_json {
        false => ("text/plain; charset=utf-8", explained.text()),
        true => ("application/json", explained.json()),
    };
    Ok(([(CONTENT_TYPE, media_type)], body).into_response())
}

/// A plan, and what came of it.
struct Explained {
    explanation: Explanation,
    /// Who is asked for what, in a cluster on engines.
    plans: Vec<TracedPlan>,
    /// Plans beyond those.
    plans_left_out: u64,
    run: Option<Run>,
}

/// What a run took.
#[derive(Serialize)]
struct Run {
    ms: f64,
    rows: u64,
    lines_scanned: u64,
    bytes_scanned: u64,
    blocks_planned: u64,
    blocks_done: u64,
    blocks_skipped: u64,
}

/// Runs the query and drops its rows.
fn run(query: &Query, running: &Running) -> Result<Run, RunError> {
    let begun = Instant::now();
    let mut rows = 0;
    let outcome = query::run(query, running.source(), &running.context, &mut |block| {
        rows += block.len() as u64;
        ControlFlow::Continue(())
    })?;
    let progress = &running.context.progress;
    Ok(Run {
        ms: ms(begun.elapsed()),
        rows,
        lines_scanned: outcome.lines_scanned,
        bytes_scanned: progress.bytes_scanned.load(Relaxed),
        blocks_planned: progress.units_planned.load(Relaxed),
        blocks_done: progress.units_done.load(Relaxed),
        blocks_skipped: outcome.units_skipped,
    })
}

/// Plans which nodes the query would ask now.
fn plan(
    engines: &Engines,
    explanation: &Explanation,
    running: &Running,
    trace: &ShareTrace,
) -> Result<(), RunError> {
    let run_time = running.context.limits.run_time;
    let spread = engines.spread(explanation.range, run_time, &Avoided::default());
    trace.plan(&spread.map_err(RunError::Side)?);
    Ok(())
}

impl Explained {
    fn text(&self) -> String {
        let mut text = self.explanation.to_string();
        for plan in &self.plans {
            let _ = write!(text, "{plan}");
        }
        if self.plans_left_out > 0 {
            let _ = writeln!(text, "plans     {} more are not shown", self.plans_left_out);
        }
        if let Some(run) = &self.run {
            let Run { ms, rows, blocks_done, blocks_planned, blocks_skipped, .. } = run;
            let _ = writeln!(
                text,
                "run       {rows} rows after {ms} ms; {blocks_done} of {blocks_planned} blocks, {blocks_skipped} skipped by \
                 their words; {} bytes and {} lines read",
                run.bytes_scanned, run.lines_scanned
            );
        }
        text
    }

    fn json(&self) -> String {
        let mut written = Vec::new();
        self.explanation.write_json(&mut written);
        let mut text = String::from_utf8(written).expect("it is JSON");
        // Behind the other members, which stay in their order.
        let mut add = |name: &str, value: Value| {
            text.pop();
            let _ = write!(text, ",\"{name}\":{value}}}");
        };
        if !self.plans.is_empty() {
            add("plans", json!(self.plans));
            add("plans_left_out", self.plans_left_out.into());
        }
        if let Some(run) = &self.run {
            add("run", json!(run));
        }
        text
    }
}
