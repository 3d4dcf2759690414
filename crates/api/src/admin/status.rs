//! `/api/v1/status`, `/health`, `/ready`: the state of the server.

use collector::Deliver as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use collector::kafka::{KafkaStatus, TopicStatus};
use collector::{
    Accounting, DropCounts, DropReason, FileSource, JournalSource, SourceKind, TlsStatus,
};
use platform::memory::{Budget, Purpose};
use serde_json::{Map, Value, json};
use store::StoreState;
use text::time::format_time;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::admin::all_nodes;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::node::HANDED_ON;
use node::ingest::sources::addresses;
use node::pipeline::Pipeline;

const SECOND_NS: i64 = 1_000_000_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::Open, "/health", health).get(Scope::Open, "/ready", ready).get(
        Scope::ReadAll,
        "/api/v1/status",
        status,
    )
}

/// 200 while the process runs.
async fn health() -> &'static str {
    "ok\n"
}

/// 200 while the server accepts lines and answers queries. One that answers for several stores does
/// so only while they let it.
async fn ready(State(app): State<Arc<App>>) -> Response {
    match not_ready(&app) {
        None => "ready\n".into_response(),
        Some(error) => error.into_response(),
    }
}

/// Whether the server accepts lines and answers queries.
pub fn is_ready(app: &App) -> bool {
    not_ready(app).is_none()
}

fn not_ready(app: &App) -> Option<ApiError> {
    match app.pipeline() {
        Ok(_) if app.is_ending() => Some(ApiError::unavailable("the server is shutting down")),
        Ok(pipeline) => {
            let refusal = pipeline.delivery.refusal().map(|refusal| refusal.to_string());
            let unready = || app.cluster().and_then(|cluster| cluster.unready());
            refusal.or_else(unready).map(ApiError::unavailable)
        }
        Err(error) => Some(error),
    }
}

async fn status(State(app): State<Arc<App>>, headers: HeaderMap) -> ApiResult {
    let mut body = own_status(&app);
    let engines = app.engines();
    if let Some(engines) = engines {
        let owned = engines.all_owned();
        let unpublished: u64 = owned.iter().map(|owned| owned.hot.lines_unpublished()).sum();
        body["lines_unpublished"] = unpublished.into();
        // Another node adds them up itself.
        if !headers.contains_key(HANDED_ON) {
            let work = move || {
                body["all_nodes"] = all_nodes::sums(&app, &engines, &body);
                body
            };
            let done = tokio::task::spawn_blocking(work).await;
            body = done.map_err(|error| ApiError::internal(error.to_string()))?;
        }
    }
    Ok(Json(body).into_response())
}

/// The status of this node.
fn own_status(app: &App) -> Value {
    let pipeline = app.pipeline_seen();
    let now_ns = crate::wire::clock::now_ns();
    let listeners =
        pipeline.as_ref().map(|pipeline| pipeline.sources().listeners()).unwrap_or_default();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": format_time(app.started_ns),
        "now": format_time(now_ns),
        "uptime_s": (now_ns - app.started_ns).max(0) / SECOND_NS,
        "ready": is_ready(app),
        "ingest": ingest(&app.accounting),
        "store": pipeline.as_ref().map(|pipeline| store(pipeline)),
        "parse_lag_lines": pipeline.as_ref().map_or(0, |pipeline| pipeline.parsing.lag_lines()),
        "recovery": pipeline.as_ref().map_or("", |pipeline| &pipeline.recovery),
        "listeners": addresses(app.address, app.otlp(), &listeners),
        "files": pipeline.as_ref().and_then(|pipeline| pipeline.sources().files(files)),
        "journald": pipeline.as_ref().and_then(|pipeline| pipeline.sources().journal(journal)),
        "kafka": pipeline.as_ref().map(|pipeline| kafka(&pipeline.sources().kafka())),
        "tls": pipeline.as_ref().and_then(|pipeline| pipeline.sources().credentials()).map(|c| tls(&c.status())),
        "https": app.clients.tls.as_ref().map(|https| tls(&https.credentials().status())),
        "memory": memory(&app.memory),
        "backup": pipeline.as_ref().and_then(|p| p.backups.as_ref()).map(|backups| backups.shown()),
        "cluster": app.cluster().is_some(),
        "data_dir": app.options.store.data_dir.to_string_lossy(),
    })
}

/// The memory that queries, tails, answers and inserts share.
fn memory(memory: &Budget) -> Value {
    let by_purpose = |value: fn(&Budget, Purpose) -> u64| -> Map<String, Value> {
        let each = |purpose: Purpose| (purpose.name().into(), value(memory, purpose).into());
        Purpose::ALL.into_iter().map(each).collect()
    };
    json!({
        "bytes_max": memory.bytes_max(),
        "bytes": memory.held(),
        "peak_bytes": memory.peak(),
        "by_purpose": by_purpose(Budget::held_for),
        "refused": by_purpose(Budget::refused),
    })
}

/// What arrived, by source.
pub fn ingest(accounting: &Accounting) -> Vec<Value> {
    let sources = SourceKind::ALL.into_iter().map(|kind| {
        let counts = accounting.source(kind).counts();
        let by_reason = |value: fn(DropCounts) -> u64| -> Map<String, Value> {
            let each =
                |reason: DropReason| (reason.name().into(), value(counts.dropped(reason)).into());
            DropReason::ALL.into_iter().map(each).collect()
        };
        json!({
            "source": kind.name(),
            "title": kind.title(),
            "lines_received": counts.lines_received,
            "bytes_received": counts.bytes_received,
            "lines_kept": counts.lines_kept,
            "bytes_kept": counts.bytes_kept,
            "lines_in_flight": counts.lines_missing().max(0) as u64,
            "bytes_in_flight": counts.bytes_missing().max(0) as u64,
            "connections_total": counts.connections_total,
            "connections_open": counts.connections_open,
            "connections_refused": counts.connections_refused,
            "connections_truncated": counts.connections_truncated,
            "handshakes_failed": counts.handshakes_failed,
            "threads_failed": counts.threads_failed,
            "dropped": by_reason(|drops| drops.lines),
            "dropped_bytes": by_reason(|drops| drops.bytes),
        })
    });
    sources.collect()
}

/// Totals over the files that are followed.
pub fn files(files: &FileSource) -> Value {
    let totals = files.totals();
    json!({
        "followed": totals.followed,
        "unreadable": totals.unreadable,
        "lag_bytes": totals.lag_bytes,
        "bytes_lost": totals.bytes_lost,
        "truncations": totals.truncations,
    })
}

/// The journal.
pub fn journal(journal: &JournalSource) -> Value {
    let status = journal.status();
    json!({ "reading": status.reading, "entries": status.entries, "error": status.error })
}

/// What is read from Kafka, by group.
pub fn kafka(groups: &[KafkaStatus]) -> Value {
    let topic = |(name, counts): (&String, &TopicStatus)| {
        json!({
            "topic": name,
            "partitions": counts.partitions,
            "lag_records": counts.lag,
            "records": counts.records,
            "bytes": counts.bytes,
            "empty": counts.empty,
            "undecoded": counts.undecoded,
            "rejected": counts.rejected,
        })
    };
    let group = |group: &KafkaStatus| {
        json!({
            "group": group.group,
            "reading": group.reading,
            "error": group.error,
            "errors": group.errors,
            "records_lost": group.records_lost,
            "topics": group.topics.iter().map(topic).collect::<Vec<_>>(),
        })
    };
    groups.iter().map(group).collect()
}

fn tls(status: &TlsStatus) -> Value {
    json!({
        "certificate_expires": format_time(status.expires_s.saturating_mul(SECOND_NS)),
        "certificate_loaded": format_time(status.loaded_ns),
        "reloads": status.reloads,
        "reload_failures": status.reload_failures,
        "error": status.error,
    })
}

fn store(pipeline: &Pipeline) -> Value {
    let stats = pipeline.store().stats();
    let space = pipeline.store().disk_space().ok();
    // Lines that are not parsed have no known times; their arrival is the best estimate.
    let times = stats.time_ns.or(stats.received_ns);
    let retention = pipeline.store().retention();
    json!({
        "lines": stats.lines,
        "lines_own": stats.lines_own,
        "bytes_raw": stats.bytes_raw,
        "bytes_disk": stats.bytes_disk,
        "segments": stats.segments,
        "segments_sealed": stats.segments_sealed,
        "sealed_bytes_raw": stats.sealed_bytes_raw,
        "sealed_bytes_disk": stats.sealed_bytes_disk,
        "sealing": {
            "lag_segments": stats.sealing.lag_segments,
            "lag_bytes": stats.sealing.lag_bytes,
            "lag_s": stats.sealing.lag_ns / SECOND_NS as u64,
            "damaged_segments": stats.sealing.damaged_segments,
            "damaged_lines": stats.sealing.damaged_lines,
            "damages": pipeline.store().damages().iter().map(|damage| json!({
                "segment": damage.segment,
                "block": damage.unit,
                "lines": damage.lines,
                "error": damage.error,
            })).collect::<Vec<_>>(),
        },
        "oldest": times.map(|(oldest, _)| format_time(oldest)),
        "newest": times.map(|(_, newest)| format_time(newest)),
        "disk_free_bytes": space.map(|space| space.free_bytes),
        "disk_used_bytes": space.map(|space| space.used_bytes),
        "disk_total_bytes": space.map(|space| space.total_bytes),
        "retention": {
            "age_s": retention.age_ns.map(|age_ns| age_ns / SECOND_NS),
            "bytes_max": retention.bytes_max,
            "rules": retention.rules.iter().map(|rule| json!({
                "filter": rule.filter,
                "age_s": rule.age_ns / SECOND_NS,
            })).collect::<Vec<_>>(),
        },
        "state": match &stats.state {
            StoreState::Ok => "ok",
            StoreState::DiskFull => "disk_full",
            StoreState::Failing(_) => "failing",
            StoreState::Closed => "closed",
        },
    })
}
