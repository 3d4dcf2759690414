//! Everything under `/loki/api/v1/`: the API of Grafana Loki, for Grafana's data source, `logcli`
//! and shippers.
//!
//! Parameters, responses and errors (plain text) are Loki's; `docs/grafana.md` lists the calls.
//! Every query enters the queue and has the same limits as others.

mod answer;
mod index;
mod labels;
mod params;
mod push;
mod query;
mod tail;

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::access::params::Params;
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::ingest::{self, Inserting};
use crate::wire::error::ApiError;

/// The version of Loki whose API this is.
const LOKI_VERSION: &str = "3.7.0";

/// Every way in by HTTP, in a server and in a collector: those of [`ingest`], and Loki's own.
pub fn ways_in<S: Clone + Send + Sync + 'static>(inserting: Arc<Inserting>) -> Routes<S> {
    ingest::routes(Arc::clone(&inserting)).merge(push::routes(inserting))
}

/// The routes below `/loki/api/v1/`, without those of [`ways_in`].
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .merge(query::routes())
        .merge(labels::routes())
        .merge(index::routes())
        .merge(tail::routes())
        .query("/loki/api/v1/format_query", format_query)
        .get(Scope::Read, "/loki/api/v1/status/buildinfo", build_info)
}

/// An error in Loki's format: a status and a text.
#[derive(Debug)]
struct LokiError(StatusCode, String);

type LokiResult<T = Response> = Result<T, LokiError>;

impl LokiError {
    /// 400: the client has to change the request.
    fn bad_request(message: impl std::fmt::Display) -> LokiError {
        LokiError(StatusCode::BAD_REQUEST, message.to_string())
    }
}

impl From<ApiError> for LokiError {
    fn from(error: ApiError) -> LokiError {
        LokiError(error.status(), error.to_string())
    }
}

impl IntoResponse for LokiError {
    fn into_response(self) -> Response {
        let LokiError(status, mut message) = self;
        message.push('\n');
        (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], message).into_response()
    }
}

async fn format_query(params: Params) -> Response {
    let formatted = params
        .required("query")
        .map_err(LokiError::from)
        .and_then(|text| logql::parse(text).map_err(LokiError::bad_request));
    match formatted {
        Ok(expr) => Json(json!({ "status": "success", "data": expr.to_string() })).into_response(),
        Err(LokiError(status, error)) => {
            let body = json!({ "status": "invalid-query", "error": error });
            (status, Json(body)).into_response()
        }
    }
}

/// The version, which Grafana asks for.
async fn build_info() -> Response {
    let info = json!({
        "version": LOKI_VERSION,
        "revision": env!("CARGO_PKG_VERSION"),
        "branch": "loginson",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    });
    Json(info).into_response()
}
