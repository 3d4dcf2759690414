//! The page: files of `web/dist`, embedded by `build.rs`, plain and in gzip.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::ingest::bulk;
use crate::wire::bells::Bells;
use crate::wire::error::ApiError;
use crate::wire::{body, compress};

/// One embedded file.
pub struct File {
    /// Path below the root, without a leading slash.
    path: &'static str,
    /// Identifies this version of the file, quotes included; the other field identifies its gzip
    /// form.
    etag: &'static str,
    etag_gzip: &'static str,
    bytes: &'static [u8],
    /// The file in gzip, if that is shorter.
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Responds to `/` and every path that is not an API call. The page needs no credentials: it is the
/// same for everybody and contains no log data. Clients of Elasticsearch get the responses that
/// they expect, after they passed the gate.
pub async fn get(bells: Arc<Bells>, mut request: Request) -> Response {
    if let Some(answer) = bulk::answer_at_root(&mut request).await {
        return answer;
    }
    if let Some(error) = bells.answer(&request) {
        body::discard(request).await;
        return error.into_response();
    }
    let path = request.uri().path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    match FILES.iter().find(|file| file.path == path) {
        Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("the page does not take {}", request.method()),
        )
        .into_response(),
        Some(file) => answer(file, request.headers()),
        None => ApiError::new(
            StatusCode::NOT_FOUND,
            "no such page; the API is described in docs/api.md",
        )
        .into_response(),
    }
}

fn answer(file: &File, headers: &HeaderMap) -> Response {
    // File names below assets/ contain a hash of their content; the others may change with the
    // binary.
    let caching = if file.path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let gzip = file.gzip.filter(|_| compress::is_taken(headers));
    let etag = if gzip.is_some() { file.etag_gzip } else { file.etag };
    let common = [
        (ETAG, etag),
        (CACHE_CONTROL, caching),
        (CONTENT_TYPE, content_type(file.path)),
        (VARY, "accept-encoding"),
    ];
    let known = headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes);
    if known.is_some_and(|known| known == etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    match gzip {
        Some(bytes) => (common, [(CONTENT_ENCODING, "gzip")], bytes).into_response(),
        None => (common, file.bytes).into_response(),
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "map" => "application/json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}
