//! `_bulk` of Elasticsearch, as shippers send it: documents become JSON lines.
//!
//! Only what adds a document is taken (`create`, `index`); the names of indices and the ids of documents are not kept.
//! The answer has an item for each document, all alike, since a body is kept as far as it could be read or refused.
//! Before they send, shippers ask what is there: [`about`], [`license`], [`nothing`].
//!
//! Left out: everything else of that API.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use collector::body::Shape;

use super::{Inserting, Request, insert};

/// The version whose API this is a part of; shippers refuse to talk to one they do not know.
const VERSION: &str = "8.17.0";
/// Official clients look for it in every answer.
const PRODUCT: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-elastic-product"), HeaderValue::from_static("Elasticsearch"));
/// What shippers ask about, or set up, before they send: policies, templates, pipelines. None of it exists here, and
/// none is needed.
const PROBED: [&str; 9] = [
    "_cluster/health",
    "_component_template/{*name}",
    "_data_stream/{*name}",
    "_ilm/{*name}",
    "_index_template/{*name}",
    "_ingest/{*name}",
    "_nodes",
    "_nodes/{*name}",
    "_template/{*name}",
];
/// Items of an answer that are written at a time.
const ITEMS_PIECE: u64 = 1000;

/// The routes of this file.
pub fn routes() -> Router<Arc<Inserting>> {
    let mut router = Router::new()
        .route("/insert/elasticsearch/_bulk", post(bulk))
        .route("/insert/elasticsearch/{index}/_bulk", post(bulk))
        .route("/insert/elasticsearch", get(about))
        .route("/insert/elasticsearch/", get(about))
        .route("/insert/elasticsearch/_license", get(license));
    for probed in PROBED {
        let anything = get(nothing).put(nothing).post(nothing);
        router = router.route(&format!("/insert/elasticsearch/{probed}"), anything);
    }
    router
}

async fn about() -> Response {
    let body = serde_json::json!({
        "name": "loginson",
        "cluster_name": "loginson",
        "version": { "number": VERSION, "build_flavor": "default" },
        "tagline": "You Know, for Search",
    });
    ([PRODUCT], Json(body)).into_response()
}

async fn license() -> Response {
    let license = serde_json::json!({ "type": "basic", "status": "active" });
    ([PRODUCT], Json(serde_json::json!({ "license": license }))).into_response()
}

/// Answers what is [`PROBED`].
async fn nothing() -> Response {
    ([PRODUCT], Json(serde_json::json!({}))).into_response()
}

async fn bulk(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert(&to, &request, Shape::BULK, body).await {
        Ok(kept) => {
            let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
            ([PRODUCT, content_type], Body::from_stream(items(kept.lines))).into_response()
        }
        Err(error) => ([PRODUCT], error).into_response(),
    }
}

/// An answer that says of so many documents that each was created, in pieces.
fn items(
    documents: u64,
) -> impl tokio_stream::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    const ITEM: &str = "{\"create\":{\"status\":201}}";
    let pieces = (0..documents.div_ceil(ITEMS_PIECE)).map(move |piece| {
        let count = (documents - piece * ITEMS_PIECE).min(ITEMS_PIECE) as usize;
        let items = vec![ITEM; count].join(",");
        if piece == 0 { items } else { format!(",{items}") }
    });
    let whole = std::iter::once("{\"took\":0,\"errors\":false,\"items\":[".to_owned())
        .chain(pieces)
        .chain(std::iter::once("]}\n".to_owned()));
    tokio_stream::iter(whole.map(|piece| Ok(Bytes::from(piece))))
}
