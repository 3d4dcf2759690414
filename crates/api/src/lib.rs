//! The HTTP API over a node: one file for each group of calls of `docs/api.md`, and what they
//! share.
//!
//! [`App`] is the state of all handlers, [`router`] puts their routes together. Handlers are thin:
//! they parse parameters, hand the work to the node or to a query on a thread of its own, and
//! encode the response. Nothing here blocks the threads of the runtime.

pub mod access;
mod admin;
mod alerts;
pub mod app;
pub mod collecting;
mod dashboards;
mod elastic;
mod files;
mod hand_on;
pub mod ingest;
mod known;
mod links;
mod loki;
mod lookups;
mod macros;
pub mod options;
mod page;
mod programs;
mod queries;
mod rules;
mod sinks;
mod stands_out;
#[cfg(test)]
mod tests;
pub mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
pub use axum::Router;
use axum::middleware;

pub use self::access::gate::Gate;
pub use self::access::guard::{Guard, Reason};
pub use self::app::{App, Reloaded};
pub use self::dashboards::mails::sender::run as send_mails;
pub use self::wire::listen::seats::HTTP_CONNECTIONS_MAX;
pub use self::wire::listen::{Clients, Tls, serve};

use self::access::routes::Routes;
use self::ingest::Inserting;
use self::wire::error::ApiError;

/// What ingest requests of all listeners share.
fn inserting(app: &Arc<App>) -> Arc<Inserting> {
    let to = Arc::clone(app);
    let to = move || Ok(Arc::clone(&to.pipeline()?.http));
    Inserting::new(
        app.options.insert.clone(),
        Arc::clone(&app.accounting),
        app.memory(),
        app.opened.subscribe(),
        to,
    )
}

/// All routes, each with its scope.
fn routes(app: &Arc<App>, inserting: Arc<Inserting>) -> Routes<Arc<App>> {
    Routes::new()
        .merge(access::login::routes(app.gate.clone()))
        .merge(access::oidc::routes::routes(app.gate.clone()))
        .merge(access::accounts::routes(app.gate.clone()))
        .merge(admin::status::routes())
        .merge(loki::ways_in(inserting))
        .merge(queries::select::routes())
        .merge(queries::export::routes())
        .merge(files::routes())
        .merge(admin::backups::routes())
        .merge(queries::queue::routes())
        .merge(queries::share::routes())
        .merge(admin::cluster::routes())
        .merge(admin::engines::routes())
        .merge(admin::seal::routes())
        .merge(admin::config::routes())
        .merge(queries::context::routes())
        .merge(queries::lucene::routes())
        .merge(admin::deletions::routes())
        .merge(admin::tenants::routes())
        .merge(queries::summary::routes())
        .merge(programs::routes())
        .merge(rules::routes())
        .merge(lookups::routes())
        .merge(macros::routes())
        .merge(sinks::routes())
        .merge(dashboards::routes())
        .merge(links::routes())
        .merge(alerts::routes())
        .merge(stands_out::routes())
        .merge(admin::metrics::routes())
        .merge(admin::nodes::routes())
        .merge(admin::frames::routes())
        .merge(loki::routes())
        .merge(elastic::routes(app))
}

/// The router. Requests pass the guard, then the gate of their route, then the check of their
/// parameters.
pub fn router(app: Arc<App>) -> Router {
    let inserting = inserting(&app);
    main_router(app, inserting)
}

/// The router, and those of listeners at `otlp`, which take OTLP alone.
pub fn routers(app: Arc<App>, otlp: &[SocketAddr]) -> (Router, Vec<Router>) {
    app.listens_for_otlp(otlp);
    let inserting = inserting(&app);
    let of_address = |address: &SocketAddr| {
        let guard = Guard::new(*address, &app.options.hosts, &[]);
        otlp_router(Arc::clone(&inserting), guard, app.gate.clone())
    };
    let otlp = otlp.iter().map(of_address).collect();
    (main_router(app, inserting), otlp)
}

/// The router of a listener for OTLP. It has no other call, so that it can be open to machines that
/// must not query.
pub fn otlp_router(inserting: Arc<Inserting>, guard: Guard, gate: Gate) -> Router {
    let routes: Routes<()> = ingest::otlp::routes().with_state(inserting);
    let (router, _table) = routes.into_parts();
    closed(router.fallback(only_otlp), guard, gate)
}

/// The router of every way in by HTTP, and of nothing else, for measurements.
pub fn ingest_router(inserting: Arc<Inserting>, guard: Guard, gate: Gate) -> Router {
    let routes: Routes<()> = loki::ways_in(inserting);
    let (router, _table) = routes.into_parts();
    closed(router, guard, gate)
}

/// A router behind the guard and the gate.
fn closed(router: Router, guard: Guard, gate: Gate) -> Router {
    router
        .method_not_allowed_fallback(wire::error::wrong_method)
        .layer(Extension(gate.clone()))
        .layer(middleware::from_fn_with_state(guard, access::guard::check))
        .layer(middleware::from_fn_with_state(gate, access::proxy::client))
}

async fn only_otlp() -> ApiError {
    ApiError::not_found(
        "this port (otlp_listen) takes logs by OTLP alone: POST /v1/logs, or gRPC; everything else is at http_listen",
    )
}

fn main_router(app: Arc<App>, inserting: Arc<Inserting>) -> Router {
    let (guard, gate) = (app.guard.clone(), app.gate.clone());
    let (router, _table) = routes(&app, inserting).into_parts();
    let bells = Arc::clone(&app.clients.bells);
    router
        .fallback(move |request: axum::extract::Request| page::get(bells, request))
        .method_not_allowed_fallback(wire::error::wrong_method)
        .layer(Extension(gate.clone()))
        .layer(Extension(Arc::clone(&app)))
        .layer(middleware::from_fn(wire::compress::answers))
        .layer(middleware::from_fn(wire::missing::name))
        .layer(middleware::from_fn_with_state(guard, access::guard::check))
        .layer(middleware::from_fn_with_state(gate, access::proxy::client))
        .with_state(app)
}
