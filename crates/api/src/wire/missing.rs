//! The header that names the stores whose lines an answer lacks.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use node::cluster::Missing;

/// The header. Its value is the stores, separated by commas. Only answers to requests with
/// `allow_partial_response=1` have it.
const MISSING_STORES: &str = "x-loginson-missing-stores";

/// The header with one sentence about lines that the stores that were read lack: damaged blocks,
/// with segments, blocks and lines, and frames that another copy has. Only answers to requests with
/// `allow_partial_response=1` have it.
const MISSING_LINES: &str = "x-loginson-missing-lines";

/// Gives the request a list of stores, which the handler fills, and adds the header to the answer.
/// A query knows all stores of the list before its first row.
pub async fn name(mut request: Request, next: Next) -> Response {
    let missing = Arc::new(Missing::default());
    request.extensions_mut().insert(Arc::clone(&missing));
    let mut response = next.run(request).await;
    let stores = missing.stores();
    if !stores.is_empty()
        && let Ok(value) = HeaderValue::from_str(&stores.join(", "))
    {
        response.headers_mut().insert(MISSING_STORES, value);
    }
    let lacks: Vec<String> = missing.damages.tell().into_iter().chain(missing.lacks()).collect();
    if !lacks.is_empty()
        && let Ok(value) = HeaderValue::from_str(&lacks.join("; ").replace('…', "..."))
    {
        response.headers_mut().insert(MISSING_LINES, value);
    }
    response
}
