//! `/api/v1/tenants`: the tenants, what each has sent, and what is kept of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use node::ingest::tenants::{DayUse, TenantCounts, TenantOptions, Tenants};
use record::Tenant;
use serde_json::{Value, json};
use store::{Store, StoreError};
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

/// What the sealed segments hold of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    lines: u64,
    bytes_raw: u64,
    bytes_disk: u64,
}

async fn list(State(app): State<Arc<App>>) -> ApiResult {
    let pipeline = app.pipeline()?;
    let work = move || {
        let kept = kept(pipeline.store())?;
        let nothing = Kept::default();
        let entry = |(options, counts): (&TenantOptions, &TenantCounts)| {
            let kept = kept.get(&options.id).unwrap_or(&nothing);
            let mut entry = entry(options, counts, kept);
            entry["days"] = days(&pipeline.tenants.days(options.id));
            entry
        };
        Ok(pipeline.tenants.all().map(entry).collect::<Vec<Value>>())
    };
    let listed = tokio::task::spawn_blocking(work).await;
    let listed = listed.map_err(|error| ApiError::internal(error.to_string()))?;
    let listed = listed.map_err(|error: StoreError| ApiError::internal(error.to_string()))?;
    Ok(Json(json!({ "tenants": listed })).into_response())
}

/// By tenant. Lines that are not sealed yet are not told apart.
fn kept(store: &Store) -> Result<BTreeMap<Tenant, Kept>, StoreError> {
    let mut all: BTreeMap<Tenant, Kept> = BTreeMap::new();
    for unit in store.snapshot((i64::MIN, i64::MAX))? {
        let Some(tenant) = unit.tenant() else { continue };
        let kept = all.entry(tenant).or_default();
        kept.lines += unit.lines();
        kept.bytes_raw += unit.bytes_raw();
        kept.bytes_disk += unit.bytes_disk();
    }
    Ok(all)
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

fn entry(options: &TenantOptions, counts: &TenantCounts, kept: &Kept) -> Value {
    json!({
        "id": options.id.to_string(),
        "name": options.name,
        "bytes_per_s": options.bytes_per_s,
        "lines_per_s": options.lines_per_s,
        "queries_max": options.queries_max,
        "query_memory_bytes_max": options.query_memory_bytes_max,
        "lines": counts.lines.load(Relaxed),
        "bytes": counts.bytes.load(Relaxed),
        "requests_refused": counts.refused_requests.load(Relaxed),
        "lines_dropped": counts.dropped_lines.load(Relaxed),
        "waited_ms": counts.waited_ms.load(Relaxed),
        "lines_kept": kept.lines,
        "bytes_kept": kept.bytes_raw,
        "bytes_disk": kept.bytes_disk,
    })
}

/// Their samples. There are as many as tenants in the configuration.
pub fn metrics(tenants: &Tenants, out: &mut Text) {
    if tenants.is_off() {
        return;
    }
    type Sample = (&'static str, &'static str, fn(&TenantCounts) -> f64);
    let samples: [Sample; 5] = [
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
    ];
    for (name, help, value) in samples {
        out.head(name, "counter", help);
        for (options, counts) in tenants.all() {
            out.sample(name, &[("tenant", &options.id.to_string())], value(counts));
        }
    }
}
