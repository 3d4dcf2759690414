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
mod files;
mod hand_on;
pub mod ingest;
mod known;
mod links;
mod loki;
pub mod options;
mod page;
mod programs;
mod queries;
mod sinks;
#[cfg(test)]
mod tests;
pub mod wire;

use std::sync::Arc;

use axum::middleware;
use axum::{Extension, Router};

pub use self::access::gate::{Gate, PASSWORD_BYTES_MAX};
pub use self::access::guard::{Guard, Reason};
pub use self::app::{App, Reloaded};
pub use self::wire::listen::seats::HTTP_CONNECTIONS_MAX;
pub use self::wire::listen::{Clients, Tls, serve};

use self::access::routes::Routes;
use self::ingest::Inserting;

/// All routes, each with its scope.
fn routes(app: &Arc<App>) -> Routes<Arc<App>> {
    let to = Arc::clone(app);
    let to = move || Ok(Arc::clone(&to.pipeline()?.http));
    let inserting = Inserting::new(
        app.options.insert,
        Arc::clone(&app.accounting),
        app.memory(),
        app.opened.subscribe(),
        to,
    );
    Routes::new()
        .merge(access::login::routes(app.gate.clone()))
        .merge(admin::status::routes())
        .merge(ingest::routes(Arc::clone(&inserting)))
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
        .merge(admin::deletions::routes())
        .merge(queries::summary::routes())
        .merge(programs::routes())
        .merge(sinks::routes())
        .merge(dashboards::routes())
        .merge(links::routes())
        .merge(alerts::routes())
        .merge(admin::metrics::routes())
        .merge(admin::nodes::routes())
        .merge(admin::frames::routes())
        .merge(loki::routes(inserting))
}

/// The router. Requests pass the guard, then the gate of their route, then the check of their
/// parameters.
pub fn router(app: Arc<App>) -> Router {
    let (guard, gate) = (app.guard.clone(), app.gate.clone());
    let (router, _table) = routes(&app).into_parts();
    router
        .fallback(page::get)
        .method_not_allowed_fallback(wire::error::wrong_method)
        .layer(Extension(gate))
        .layer(Extension(Arc::clone(&app)))
        .layer(middleware::from_fn(wire::compress::answers))
        .layer(middleware::from_fn(wire::missing::name))
        .layer(middleware::from_fn_with_state(guard, access::guard::check))
        .with_state(app)
}
