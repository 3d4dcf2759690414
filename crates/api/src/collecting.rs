//! The HTTP API of `loginson collect`: ingest, `/health`, `/ready`, `/metrics`, `/api/v1/nodes`,
//! `/api/v1/files`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{RawQuery, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router, middleware};
use collector::node::Forward;
use collector::{Accounting, FileSource};
use serde_json::{Value, json};

use crate::access::gate::Gate;
use crate::access::guard;
use crate::access::guard::Guard;
use crate::access::principal::Scope;
use crate::access::proxy;
use crate::access::routes::Routes;
use crate::admin::forwarding;
use crate::admin::metrics;
use crate::admin::status;
use crate::files;
use crate::ingest::{Inserting, bulk};
use crate::loki;
use crate::wire::body;
use crate::wire::error::wrong_method;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::Clients;
use crate::wire::metrics::Text;
use node::ingest::rules::Rules;
use node::ingest::sources::Sources;

/// The state that a collector shows.
pub struct Collecting {
    forwarder: Arc<dyn Forward>,
    accounting: Arc<Accounting>,
    sources: Arc<Mutex<Sources>>,
    rules: Arc<Rules>,
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
        (sources, rules): (Arc<Mutex<Sources>>, Arc<Rules>),
        clients: Clients,
        guard: Guard,
        gate: Gate,
        addresses: Value,
    ) -> Collecting {
        let started_ns = crate::wire::clock::now_ns();
        Collecting {
            forwarder,
            accounting,
            sources,
            rules,
            clients,
            guard,
            gate,
            addresses,
            started_ns,
        }
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
        .get(Scope::ReadAll, "/metrics", text)
        .get(Scope::ReadAll, "/api/v1/nodes", nodes)
        .get(Scope::ReadAll, "/api/v1/files", followed)
        .merge(loki::ways_in(inserting))
        .with_state(seen)
}

/// A collector's router.
pub fn router(seen: Arc<Collecting>, inserting: Arc<Inserting>) -> Router {
    let (guard, gate) = (seen.guard.clone(), seen.gate.clone());
    let (router, _table) = routes(Arc::clone(&seen), inserting).into_parts();
    router
        .fallback(move |request: Request| nothing_else(seen, request))
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(gate.clone()))
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .layer(middleware::from_fn_with_state(gate, proxy::client))
}

async fn nothing_else(seen: Arc<Collecting>, mut request: Request) -> Response {
    if let Some(answer) = bulk::answer_at_root(&mut request).await {
        return answer;
    }
    if let Some(error) = seen.clients.bells.answer(&request) {
        body::discard(request).await;
        return error.into_response();
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
        "node": forwarding::id(status.node),
        "version": env!("CARGO_PKG_VERSION"),
        "started_ns": seen.started_ns,
        "listeners": seen.addresses,
        "ingest": status::ingest(&seen.accounting),
        "files": seen.sources().files(status::files),
        "journald": seen.sources().journal(status::journal),
        "kafka": status::kafka(&seen.sources().kafka()),
        "waiting_bytes": status.waiting_bytes,
        "spool": forwarding::spool(&status),
        "stores": status.stores.iter().map(forwarding::store).collect::<Vec<_>>(),
        "copies": status.copies.as_ref().map(forwarding::copies),
        "bound_elsewhere": status.bound_elsewhere.iter().map(|(store, bytes)| json!({
            "store": forwarding::id(*store), "bytes": bytes,
        })).collect::<Vec<_>>(),
    }))
    .into_response()
}

async fn text(State(seen): State<Arc<Collecting>>) -> Response {
    let mut out = Text::default();
    metrics::process(seen.started_ns, &mut out);
    metrics::ingest(&seen.accounting, &mut out);
    metrics::files(seen.sources().files(FileSource::totals).unwrap_or_default(), &mut out);
    metrics::kafka(&seen.sources().kafka(), &mut out);
    crate::rules::metrics(&seen.rules.now(), &mut out);
    metrics::clients(&seen.clients, &mut out);
    metrics::refused(&seen.guard, &mut out);
    metrics::access(&seen.gate, &mut out);
    forwarding::metrics(&seen.forwarder.status(), &mut out);
    ([(CONTENT_TYPE, metrics::CONTENT)], out.into_text()).into_response()
}
