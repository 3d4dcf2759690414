//! Elasticsearch's search API, read only, below `/elastic` and at the root.
//!
//! Requests and answers are Elasticsearch's; crate `elastic` reads and makes them. Below `/elastic`
//! lines are taken in too ([`crate::ingest`]), so that a client has one address for both. Every
//! search is a query in the queue, with its limits. What a call does not understand is refused with
//! 400 in Elasticsearch's form; `docs/elasticsearch.md` lists what there is.
//!
//! Scrolls and points in time have no state here: their ids say which search goes on, and behind
//! which line, and which lines had arrived when it began. Only the answers of asynchronous searches
//! are kept, within the limits of [`later`].

mod call;
mod catalog;
mod later;
mod msearch;
mod scroll;
mod search;

use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use elastic::{Refused, error_json};
use serde_json::Value;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::elastic::later::Later;
use crate::wire::error::ApiError;

/// Official clients look for this header in every answer.
const PRODUCT: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-elastic-product"), HeaderValue::from_static("Elasticsearch"));
/// The prefixes of the paths.
const PREFIXES: [&str; 2] = ["", "/elastic"];

/// What the handlers share.
pub struct Elastic {
    app: Arc<App>,
    later: Later,
}

/// The routes of the API.
pub fn routes(app: &Arc<App>) -> Routes<Arc<App>> {
    let state = Arc::new(Elastic { app: Arc::clone(app), later: Later::default() });
    let routes = Routes::new().within(product);
    let routes = PREFIXES.into_iter().fold(routes, |routes, prefix| {
        routes_at(Routes::new().within(product), prefix).merge(routes)
    });
    routes.with_state(state)
}

fn routes_at(routes: Routes<Arc<Elastic>>, prefix: &str) -> Routes<Arc<Elastic>> {
    let at = |path: &str| format!("{prefix}/{path}");
    let mut routes = routes
        .query(&at("_search"), search::all)
        .query(&at("{index}/_search"), search::index)
        .query(&at("_msearch"), msearch::all)
        .query(&at("{index}/_msearch"), msearch::index)
        .query(&at("_count"), search::count_all)
        .query(&at("{index}/_count"), search::count_index)
        .query(&at("_validate/query"), search::validate_all)
        .query(&at("{index}/_validate/query"), search::validate_index)
        .query(&at("_field_caps"), catalog::fields_of_all)
        .query(&at("{index}/_field_caps"), catalog::fields_of_index)
        .get(Scope::Read, &at("_mapping"), catalog::mapping_of_all)
        .get(Scope::Read, &at("{index}/_mapping"), catalog::mapping_of_index)
        .get(Scope::Read, &at("_cat/indices"), catalog::list_all)
        .get(Scope::Read, &at("_cat/indices/{index}"), catalog::list)
        .query(&at("_resolve/index/{index}"), catalog::resolve)
        .query(&at("_search/scroll"), scroll::next)
        .query(&at("_search/scroll/{id}"), scroll::next_of)
        .delete(Scope::Read, &at("_search/scroll"), scroll::clear)
        .delete(Scope::Read, &at("_search/scroll/{id}"), scroll::clear)
        .post(Scope::Read, &at("{index}/_pit"), scroll::open)
        .delete(Scope::Read, &at("_pit"), scroll::close)
        // OpenSearch's names of the same.
        .post(Scope::Read, &at("{index}/_search/point_in_time"), scroll::open)
        .delete(Scope::Read, &at("_search/point_in_time"), scroll::close)
        .post(Scope::Read, &at("_async_search"), later::submit_all)
        .post(Scope::Read, &at("{index}/_async_search"), later::submit_index)
        .get(Scope::Read, &at("_async_search/{id}"), later::get)
        .get(Scope::Read, &at("_async_search/status/{id}"), later::status)
        .delete(Scope::Read, &at("_async_search/{id}"), later::delete)
        .get(Scope::Read, &at("{index}/_doc/{id}"), search::document);
    if !prefix.is_empty() {
        // At the root these belong to senders and to the page.
        routes = routes
            .get(Scope::Read, prefix, catalog::about)
            .get(Scope::Read, &at(""), catalog::about)
            .get(Scope::Read, &at("_cluster/health"), catalog::health)
            .get(Scope::Read, &at("_license"), catalog::license)
            .get(Scope::Read, &at("_xpack"), catalog::license)
            .on(Method::HEAD, Scope::Read, &at("{index}"), catalog::exists);
    }
    routes
}

/// Every answer has the header, also errors.
fn product(request: Request, next: Next) -> Pin<Box<dyn Future<Output = Response> + Send>> {
    Box::pin(async move {
        let mut answer = next.run(request).await;
        answer.headers_mut().insert(PRODUCT.0, PRODUCT.1);
        answer
    })
}

/// An error in Elasticsearch's form.
#[derive(Clone, Debug)]
pub struct ElasticError {
    status: StatusCode,
    body: Value,
    retry_after_s: Option<HeaderValue>,
}

type ElasticResult<T = Response> = Result<T, ElasticError>;

impl From<Refused> for ElasticError {
    fn from(refused: Refused) -> ElasticError {
        ElasticError {
            status: StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST),
            body: refused.to_json(),
            retry_after_s: None,
        }
    }
}

impl From<ApiError> for ElasticError {
    fn from(error: ApiError) -> ElasticError {
        let (status, reason) = (error.status(), error.to_string());
        let kind = match status {
            StatusCode::BAD_REQUEST => "illegal_argument_exception",
            StatusCode::NOT_FOUND => "resource_not_found_exception",
            StatusCode::PAYLOAD_TOO_LARGE => "content_too_long_exception",
            StatusCode::TOO_MANY_REQUESTS => "es_rejected_execution_exception",
            _ => "search_phase_execution_exception",
        };
        let retry_after = axum::http::header::RETRY_AFTER;
        let retry_after_s = error.into_response().headers().get(retry_after).cloned();
        ElasticError { status, body: error_json(kind, &reason, status.as_u16()), retry_after_s }
    }
}

impl IntoResponse for ElasticError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds);
        }
        response
    }
}
