//! `/api/v1/tenants`: the tenants, what each has sent, and what is kept of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use node::ingest::quotas::{Held, is_near};
use node::ingest::tenants::{DayUse, QueryKind, TenantCounts, TenantOptions};
use node::pipeline::Pipeline;
use serde_json::{Value, json};
use text::civil::civil_from_days;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::metrics::Text;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/api/v1/tenants", list)
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let pipeline = app.pipeline()?;
    let jobs = app.jobs.get().cloned();
    let work = move || {
        let held = pipeline.quotas.check(pipeline.store());
        let entry = |(options, counts): (&TenantOptions, &TenantCounts)| {
            let tenant = options.id;
            let held = held.get(&tenant).copied().unwrap_or_default();
            let mut entry = entry(options, counts, &held);
            let of_jobs = jobs.as_ref().map(|jobs| jobs.of_tenant(&tenant.to_string()));
            let (background, results_bytes) = of_jobs.unwrap_or_default();
            for (name, value) in [
                ("queries_now", pipeline.tenants.queries_now(tenant, QueryKind::Awaited).into()),
                ("tails_now", pipeline.tenants.queries_now(tenant, QueryKind::Tail).into()),
                ("background_now", background.into()),
                ("results_bytes", results_bytes.into()),
                ("days", days(&pipeline.tenants.days(tenant))),
            ] {
                let value: Value = value;
                entry[name] = value;
            }
            entry
        };
        pipeline.tenants.all().map(entry).collect::<Vec<Value>>()
    };
    let listed = tokio::task::spawn_blocking(work).await;
    let listed = listed.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(Json(json!({ "tenants": listed })).into_response())
}

fn days(days: &BTreeMap<i64, DayUse>) -> Value {
    let day = |(day, used): (&i64, &DayUse)| {
        let (year, month, of_month) = civil_from_days(*day);
        json!({
            "day": format!("{year:04}-{month:02}-{of_month:02}"),
            "lines": used.lines,
            "bytes": used.bytes,
            "queries": used.queries,
            "lines_scanned": used.lines_scanned,
            "bytes_scanned": used.bytes_scanned,
        })
    };
    days.iter().map(day).collect()
}

fn entry(options: &TenantOptions, counts: &TenantCounts, held: &Held) -> Value {
    json!({
        "id": options.id.to_string(),
        "name": options.name,
        "bytes_per_s": options.bytes_per_s,
        "lines_per_s": options.lines_per_s,
        "queries_max": options.queries_max,
        "query_memory_bytes_max": options.query_memory_bytes_max,
        "tails_max": options.tails_max,
        "background_max": options.background_max,
        "results_bytes_max": options.results_bytes_max,
        "disk_bytes_max": options.disk_bytes_max,
        "is_near_disk_limit":
            options.disk_bytes_max.is_some_and(|limit| is_near(held.bytes_disk, limit)),
        "lines": counts.lines.load(Relaxed),
        "bytes": counts.bytes.load(Relaxed),
        "requests_refused": counts.refused_requests.load(Relaxed),
        "lines_dropped": counts.dropped_lines.load(Relaxed),
        "waited_ms": counts.waited_ms.load(Relaxed),
        "queries_refused": counts.refused_queries.load(Relaxed),
        "lines_evicted": counts.evicted_lines.load(Relaxed),
        "bytes_evicted": counts.evicted_bytes.load(Relaxed),
        "lines_kept": held.lines,
        "bytes_kept": held.bytes_raw,
        "bytes_disk": held.bytes_disk,
    })
}

/// Their samples. There are as many as tenants in the configuration.
pub fn metrics(pipeline: &Pipeline, out: &mut Text) {
    let tenants = &pipeline.tenants;
    if tenants.is_off() {
        return;
    }
    type Sample = (&'static str, &'static str, fn(&TenantCounts) -> f64);
    let samples: [Sample; 8] = [
        ("loginson_tenant_lines_total", "Lines taken, by tenant.", |counts| {
            counts.lines.load(Relaxed) as f64
        }),
        ("loginson_tenant_bytes_total", "Bytes of the lines taken, by tenant.", |counts| {
            counts.bytes.load(Relaxed) as f64
        }),
        (
            "loginson_tenant_requests_refused_total",
            "Requests refused because their tenant was beyond its rate.",
            |counts| counts.refused_requests.load(Relaxed) as f64,
        ),
        (
            "loginson_tenant_lines_dropped_total",
            "Lines of datagrams left out because their tenant was beyond its rate.",
            |counts| counts.dropped_lines.load(Relaxed) as f64,
        ),
        (
            "loginson_tenant_waited_seconds_total",
            "Time that connections waited because a tenant was beyond its rate.",
            |counts| counts.waited_ms.load(Relaxed) as f64 / 1e3,
        ),
        (
            "loginson_tenant_queries_refused_total",
            "Queries, tails and background queries refused because their tenant had as many as it \
             may.",
            |counts| counts.refused_queries.load(Relaxed) as f64,
        ),
        (
            "loginson_tenant_lines_evicted_total",
            "Lines chosen to be deleted because their tenant was beyond its limit of disk.",
            |counts| counts.evicted_lines.load(Relaxed) as f64,
        ),
        (
            "loginson_tenant_bytes_evicted_total",
            "Bytes of the lines chosen to be deleted because their tenant was beyond its limit of \
             disk.",
            |counts| counts.evicted_bytes.load(Relaxed) as f64,
        ),
    ];
    for (name, help, value) in samples {
        out.head(name, "counter", help);
        for (options, counts) in tenants.all() {
            out.sample(name, &[("tenant", &options.id.to_string())], value(counts));
        }
    }
    let held = pipeline.quotas.last();
    type Gauge<'a> = (&'a str, &'a str, &'a dyn Fn(&TenantOptions) -> Option<u64>);
    let gauges: [Gauge<'_>; 2] = [
        (
            "loginson_tenant_disk_bytes",
            "Bytes of disk that sealed lines take, by tenant; looked at once a minute.",
            &|options| Some(held.get(&options.id).map_or(0, |held| held.bytes_disk)),
        ),
        (
            "loginson_tenant_disk_bytes_max",
            "The limit of that, of tenants that have one.",
            &|options| options.disk_bytes_max,
        ),
    ];
    for (name, help, value) in gauges {
        out.head(name, "gauge", help);
        for (options, _) in tenants.all() {
            if let Some(value) = value(options) {
                out.sample(name, &[("tenant", &options.id.to_string())], value as f64);
            }
        }
    }
}
