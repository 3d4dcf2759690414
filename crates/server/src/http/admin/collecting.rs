//! The HTTP API of `loginson collect`: ingest, `/health`, `/ready`, `/metrics`, `/api/v1/nodes`,
//! `/api/v1/files`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{RawQuery, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router, middleware};
use collector::node::{CopiesStatus, Forward, ForwardStatus, Link, StoreHealth, StoreStatus};
use collector::{Accounting, FileSource};
use serde_json::{Value, json};

use crate::http::access::gate::Gate;
use crate::http::access::principal::Scope;
use crate::http::access::routes::Routes;
use crate::http::access::{guard, known};
use crate::http::admin::metrics::{self, Text};
use crate::http::admin::status;
use crate::http::ingest::{self, Inserting, bulk};
use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::{Clients, Guard, files, wrong_method};
use crate::ingest::sources::Sources;

/// The state that a collector shows.
pub struct Collecting {
    forwarder: Arc<dyn Forward>,
    accounting: Arc<Accounting>,
    sources: Arc<Mutex<Sources>>,
    clients: Clients,
    guard: Guard,
    gate: Gate,
    addresses: Value,
    started_ns: i64,
}

impl Collecting {
    /// For a collector that starts now.
    pub fn new(
        forwarder: Arc<dyn Forward>,
        accounting: Arc<Accounting>,
        sources: Arc<Mutex<Sources>>,
        clients: Clients,
        guard: Guard,
        gate: Gate,
        addresses: Value,
    ) -> Collecting {
        let started_ns = crate::http::now_ns();
        Collecting { forwarder, accounting, sources, clients, guard, gate, addresses, started_ns }
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All routes of a collector.
pub fn routes(seen: Arc<Collecting>, inserting: Arc<Inserting>) -> Routes<()> {
    Routes::new()
        .get(Scope::Open, "/health", || async { "ok\n" })
        .get(Scope::Open, "/ready", ready)
        .get(Scope::Read, "/metrics", text)
        .get(Scope::Read, "/api/v1/nodes", nodes)
        .get(Scope::Read, "/api/v1/files", followed)
        .merge(ingest::routes(inserting))
        .with_state(seen)
}

/// A collector's router.
pub fn router(seen: Arc<Collecting>, inserting: Arc<Inserting>) -> Router {
    let (guard, gate) = (seen.guard.clone(), seen.gate.clone());
    let (router, _table) = routes(seen, inserting).into_parts();
    router
        .fallback(nothing_else)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(gate))
        .layer(middleware::from_fn(known::middleware))
        .layer(middleware::from_fn_with_state(guard, guard::check))
}

async fn nothing_else(mut request: Request) -> Response {
    if let Some(answer) = bulk::answer_at_root(&mut request).await {
        return answer;
    }
    let error = ApiError::not_found(
        "a collector has /insert/…, /api/v1/nodes, /api/v1/files, /metrics, /health and /ready; lines are queried at a \
         store",
    );
    error.into_response()
}

async fn followed(State(seen): State<Arc<Collecting>>, RawQuery(query): RawQuery) -> ApiResult {
    let page = files::Page::from_query(query)?;
    Ok(page.answer(|look| seen.sources().files(look)))
}

/// 200 while a store or the spool accepts lines; with copies, for each of them.
async fn ready(State(seen): State<Arc<Collecting>>) -> Response {
    let status = seen.forwarder.status();
    let reason = match &status.copies {
        _ if status.ready => return "ready\n".into_response(),
        None => "no store is connected, and the spool is full",
        Some(_) => "a store of a copy is not connected, and its spool is full",
    };
    ApiError::unavailable(reason).into_response()
}

async fn nodes(State(seen): State<Arc<Collecting>>) -> Response {
    let status = seen.forwarder.status();
    Json(json!({
        "node": id(status.node),
        "version": env!("CARGO_PKG_VERSION"),
        "started_ns": seen.started_ns,
        "listeners": seen.addresses,
        "ingest": status::ingest(&seen.accounting),
        "files": seen.sources().files(status::files),
        "journald": seen.sources().journal(status::journal),
        "waiting_bytes": status.waiting_bytes,
        "spool": spool(&status),
        "stores": status.stores.iter().map(store).collect::<Vec<_>>(),
        "copies": status.copies.as_ref().map(copies),
        "bound_elsewhere": status.bound_elsewhere.iter().map(|(store, bytes)| json!({
            "store": id(*store), "bytes": bytes,
        })).collect::<Vec<_>>(),
    }))
    .into_response()
}

fn copies(copies: &CopiesStatus) -> Value {
    json!({
        "lines_single": copies.lines_single,
        "lines_missing": copies.lines_missing,
        "frames_held_back": copies.frames_held_back,
    })
}

/// The frames that wait on disk.
pub fn spool(status: &ForwardStatus) -> Value {
    json!({
        "bytes": status.spool.bytes,
        "bytes_max": status.spool.bytes_max,
        "lines": status.spool.lines,
        "lines_damaged": status.spool.lines_damaged,
        "full": status.spool.full,
    })
}

/// Where frames are delivered to.
pub fn store(store: &StoreStatus) -> Value {
    let (state, error) = match &store.link {
        Link::Connected => (health(store.health), None),
        Link::Away { error } => ("away", Some(error)),
        Link::Connecting => ("connecting", None),
    };
    json!({
        "address": store.address,
        "copy": store.copy.map(|copy| copy + 1),
        "store": store.store.map(id),
        "state": state,
        "for_s": store.since.elapsed().as_secs(),
        "error": error,
        "connects": store.connects,
        "frames_acknowledged": store.frames_acknowledged,
        "lines_acknowledged": store.lines_acknowledged,
        "bytes_sent": store.bytes_sent,
        "bytes_in_memory": store.bytes_in_memory,
        "bytes_spooled": store.bytes_spooled,
    })
}

fn health(health: StoreHealth) -> &'static str {
    match health {
        StoreHealth::Ok => "connected",
        StoreHealth::DiskFull => "disk_full",
        StoreHealth::Failing => "failing",
    }
}

/// A node's id as it is shown everywhere.
pub fn id(node: u32) -> String {
    format!("{node:08x}")
}

async fn text(State(seen): State<Arc<Collecting>>) -> Response {
    let mut out = Text::default();
    metrics::process(seen.started_ns, &mut out);
    metrics::ingest(&seen.accounting, &mut out);
    metrics::files(seen.sources().files(FileSource::totals).unwrap_or_default(), &mut out);
    metrics::clients(&seen.clients, &mut out);
    metrics::refused(&seen.guard, &mut out);
    metrics::access(&seen.gate, &mut out);
    forwarding(&seen.forwarder.status(), &mut out);
    ([(CONTENT_TYPE, metrics::CONTENT)], out.into_text()).into_response()
}

/// Frames that wait, and what became of those that were sent.
pub fn forwarding(status: &ForwardStatus, out: &mut Text) {
    let spool = &status.spool;
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        out.one(name, kind, help, &[], value);
    };
    one("loginson_spool_bytes", "gauge", "Bytes of frames that wait on disk.", spool.bytes);
    one("loginson_spool_bytes_max", "gauge", "Limit of the spool's bytes.", spool.bytes_max);
    one("loginson_spool_lines", "gauge", "Lines of frames that wait on disk.", spool.lines);
    one(
        "loginson_spool_lines_damaged_total",
        "counter",
        "Lines in the spool that could not be read back.",
        spool.lines_damaged,
    );
    one(
        "loginson_spool_full",
        "gauge",
        "1 when the last frames for the spool found no room.",
        spool.full.into(),
    );
    one(
        "loginson_forward_waiting_bytes",
        "gauge",
        "Bytes in memory that wait for a store or for the spool.",
        status.waiting_bytes,
    );
    one(
        "loginson_forward_threads_failed_total",
        "counter",
        "Threads that send or spool frames and panicked because of a bug; they restart after a second.",
        status.threads_failed,
    );
    if let Some(copies) = &status.copies {
        copying(copies, out);
    }
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&StoreStatus) -> u64| {
        out.head(name, kind, help);
        for store in &status.stores {
            out.sample(name, &[("store", store.address.as_str())], value(store));
        }
    };
    each("loginson_store_connected", "gauge", "1 while the store is connected.", |store| {
        matches!(store.link, Link::Connected).into()
    });
    each(
        "loginson_store_state_seconds",
        "gauge",
        "Time since the store was connected or disconnected.",
        |store| store.since.elapsed().as_secs(),
    );
    each("loginson_store_connects_total", "counter", "Connections to the store.", |s| s.connects);
    each(
        "loginson_store_frames_total",
        "counter",
        "Frames that the store has acknowledged.",
        |s| s.frames_acknowledged,
    );
    each("loginson_store_lines_total", "counter", "Lines that the store has acknowledged.", |s| {
        s.lines_acknowledged
    });
    each(
        "loginson_store_sent_bytes_total",
        "counter",
        "Bytes sent to the store, including repeated ones.",
        |store| store.bytes_sent,
    );
    each(
        "loginson_store_memory_bytes",
        "gauge",
        "Bytes in memory bound to the store: sent and not acknowledged, or about to be sent.",
        |store| store.bytes_in_memory,
    );
    each(
        "loginson_store_spooled_bytes",
        "gauge",
        "Bytes on disk bound to the store: sent, or about to be sent.",
        |store| store.bytes_spooled,
    );
}

fn copying(copies: &CopiesStatus, out: &mut Text) {
    out.one(
        "loginson_copies_lines_single",
        "gauge",
        "Lines that one copy has, and no other one yet.",
        &[],
        copies.lines_single,
    );
    out.one(
        "loginson_copies_frames_held_back_total",
        "counter",
        "Frames whose senders waited because a store of a copy and its spool had no room.",
        &[],
        copies.frames_held_back,
    );
    let name = "loginson_copy_lines_missing";
    out.head(name, "gauge", "Lines that the stores of the copy have not acknowledged yet.");
    for (copy, lines) in (1_u32..).zip(&copies.lines_missing) {
        out.sample(name, &[("copy", copy.to_string().as_str())], *lines);
    }
}
