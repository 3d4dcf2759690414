//! The part of Elasticsearch's API that shippers and its clients need to send lines: `_bulk`,
//! `_doc`, `_create`, and what they request before they send.
//!
//! It is served below `/insert/elasticsearch`, as in VictoriaLogs, and at the root for clients
//! whose address has no path; below `/elastic`, where searches are answered, for clients that do
//! both. Only operations that add a document are accepted (`create`, `index`);
//! names of indices and ids of documents are not kept. The response has an item for each operation:
//! others are refused, each by itself, and documents that cannot be kept now are told from those
//! that were. Before they send, shippers ask for
//! the state of the server: [`about`], [`license`], [`nodes`], [`nothing`].
//!
//! Left out: everything else of that API, which is answered with 404.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use collector::body::{Action, Runs};
use record::frame::LINE_BYTES_MAX;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::access::gate;
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserted, Inserting, Request, WholeBody, insert_bulk};
use crate::wire::error::{ApiError, ApiResult};

/// The version whose API this implements in part; shippers refuse to talk to versions they do not
/// know.
const VERSION: &str = "8.17.0";
/// Official clients look for this header in every response.
const PRODUCT: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-elastic-product"), HeaderValue::from_static("Elasticsearch"));
/// The scope of all these routes. Shippers send their credentials with the requests before the
/// first lines as well.
const SCOPE: Scope = Scope::Ingest;
/// The prefixes of the paths.
const PREFIXES: [&str; 3] = ["", "/insert/elasticsearch", SEARCHED];
/// The prefix below which searches are answered, and so what clients ask about the server.
const SEARCHED: &str = "/elastic";
/// Resources that shippers look up or set up before they send: policies, templates, pipelines. None
/// of them exists here, and none is needed.
const PROBED: [&str; 16] = [
    "_alias",
    "_alias/{*name}",
    "_cluster/health/{*name}",
    "_cluster/settings",
    "_component_template/{*name}",
    "_data_stream/{*name}",
    "_ilm/{*name}",
    "_index_template",
    "_index_template/{*name}",
    "_ingest/{*name}",
    "_refresh",
    "_security/{*name}",
    "_template",
    "_template/{*name}",
    "{index}/_alias/{*name}",
    "{index}/_refresh",
];
/// Prefixes of the `User-Agent` of programs that talk to Elasticsearch, in lower case.
const CLIENTS: [&[u8]; 9] = [
    b"elastic",
    b"filebeat",
    b"fluent",
    b"libbeat",
    b"logstash",
    b"opensearch",
    b"otel",
    b"vector",
    b"winlogbeat",
];
/// The index in items of answers. Names of indices are not kept, and no client compares them.
const INDEX: &str = "loginson";
/// The status of a document that was not kept and may be sent again, whatever the reason: the
/// clients of Python, Java and JavaScript, and the exporter of OpenTelemetry, give up documents
/// with any other one, also 503.
const AGAIN: u16 = 429;
/// Items of a response that are encoded at a time.
const ITEMS_PIECE: u64 = 1000;
/// Limit of a document. A longer one would be cut in its middle and no longer be JSON, so it is
/// refused with 413.
const DOCUMENT_BYTES_MAX: usize = LINE_BYTES_MAX;

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    PREFIXES.into_iter().fold(Routes::new(), |router, prefix| router.merge(routes_at(prefix)))
}

fn routes_at(prefix: &str) -> Routes<Arc<Inserting>> {
    let at = |path: &str| format!("{prefix}/{path}");
    let mut router = Routes::new()
        .post(SCOPE, &at("_bulk"), bulk)
        .put(SCOPE, &at("_bulk"), bulk)
        .post(SCOPE, &at("{index}/_bulk"), bulk)
        .put(SCOPE, &at("{index}/_bulk"), bulk)
        .post(SCOPE, &at("{index}/_doc"), document)
        .post(SCOPE, &at("{index}/_doc/{id}"), document)
        .put(SCOPE, &at("{index}/_doc/{id}"), document)
        .post(SCOPE, &at("{index}/_create/{id}"), document)
        .put(SCOPE, &at("{index}/_create/{id}"), document)
        // Clients that say which fields they will send. Any are taken.
        .put(SCOPE, &at("{index}/_mapping"), nothing)
        .post(SCOPE, &at("{index}/_mapping"), nothing);
    if prefix == SEARCHED {
        router = router.put(SCOPE, &at("{index}"), index);
    } else {
        router = router
            .get(SCOPE, &at("_cluster/health"), health)
            .get(SCOPE, &at("_license"), license)
            .get(SCOPE, &at("_xpack"), license);
    }
    if !prefix.is_empty() && prefix != SEARCHED {
        // At the root these paths belong to the page, which calls `answer_at_root` first.
        router = router
            .get(SCOPE, prefix, about)
            .get(SCOPE, &at(""), about)
            .put(SCOPE, &at("{index}"), index)
            .on(Method::HEAD, SCOPE, &at("{index}"), nothing);
    }
    for probed in PROBED {
        let path = at(probed);
        router = router.get(SCOPE, &path, nothing).put(SCOPE, &path, nothing);
        router = router.post(SCOPE, &path, nothing);
    }
    for path in ["_nodes", "_nodes/{*name}"].map(at) {
        router = router.get(SCOPE, &path, nodes).put(SCOPE, &path, nothing);
        router = router.post(SCOPE, &path, nothing);
    }
    router
}

/// The response for a client of Elasticsearch at the root; `None` for all others, such as browsers.
pub async fn answer_at_root(request: &mut axum::extract::Request) -> Option<Response> {
    if !is_client(request.headers()) {
        return None;
    }
    let name = request.uri().path().trim_matches('/');
    let is_index = !name.is_empty() && !name.contains('/') && !name.starts_with('_');
    let answer = match *request.method() {
        Method::GET | Method::HEAD if name.is_empty() => described(),
        Method::HEAD if is_index => ([PRODUCT], StatusCode::OK).into_response(),
        Method::PUT if is_index => created(name),
        _ => return None,
    };
    Some(gate::admit(SCOPE, request).await.err().unwrap_or(answer))
}

/// Whether a request is from such a client. A browser accepts HTML.
fn is_client(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, text: &[u8]| {
        headers.get_all(name).iter().any(|value| {
            let value = value.as_bytes().to_ascii_lowercase();
            value.windows(text.len()).any(|part| part == text)
        })
    };
    if has(ACCEPT, b"text/html") {
        return false;
    }
    headers.contains_key("x-elastic-client-meta")
        || has(ACCEPT, b"json")
        || has(CONTENT_TYPE, b"json")
        || CLIENTS.iter().any(|name| has(USER_AGENT, name))
}

async fn about() -> Response {
    described()
}

/// The server, with the version whose API this is.
pub fn described() -> Response {
    let body = json!({
        "name": "loginson",
        "cluster_name": "loginson",
        "cluster_uuid": "loginson",
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    });
    ([PRODUCT], Json(body)).into_response()
}

/// The license, which some clients ask for.
pub async fn license() -> Response {
    let license =
        json!({ "uid": "loginson", "type": "basic", "mode": "basic", "status": "active" });
    ([PRODUCT], Json(json!({ "license": license, "features": {} }))).into_response()
}

async fn health() -> Response {
    let body = json!({
        "cluster_name": "loginson", "status": "green", "timed_out": false, "number_of_nodes": 1,
    });
    ([PRODUCT], Json(body)).into_response()
}

/// The one node there is, for clients that look for nodes before they send. Its address is the one
/// that the client has used.
async fn nodes(uri: Uri, headers: HeaderMap) -> Response {
    let body = json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 },
        "cluster_name": "loginson",
        "nodes": { "loginson": {
            "name": "loginson",
            "version": VERSION,
            "roles": ["data", "ingest", "master"],
            "http": { "publish_address": used_address(&uri, &headers) },
        } },
    });
    ([PRODUCT], Json(body)).into_response()
}

/// The host and port that a client has used. It leaves out the port if it is that of the scheme,
/// which a proxy names if it has taken TLS off.
fn used_address(uri: &Uri, headers: &HeaderMap) -> String {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // By HTTP/2 the host is in the address.
    let used = uri.authority().map(|authority| authority.as_str()).or_else(|| text(HOST));
    let used = used.unwrap_or("localhost");
    // Colons within brackets are those of an address of IPv6.
    let has_port = used.rsplit(']').next().is_some_and(|behind| behind.contains(':'));
    match text(HeaderName::from_static("x-forwarded-proto")) {
        _ if has_port => used.to_owned(),
        Some("https") => format!("{used}:443"),
        _ => format!("{used}:80"),
    }
}

/// Responds to requests for [`PROBED`] resources.
async fn nothing() -> Response {
    ([PRODUCT], Json(json!({ "acknowledged": true }))).into_response()
}

/// Pretends to create an index, for clients that do so before they send.
async fn index(Path(name): Path<String>) -> Response {
    created(&name)
}

fn created(index: &str) -> Response {
    let body = json!({ "acknowledged": true, "shards_acknowledged": true, "index": index });
    ([PRODUCT], Json(body)).into_response()
}

/// Answers with an item for each action. Senders of two kinds have to understand it: those that
/// look at the status, and send all of it again, and those that only look at the items. So the
/// status is that of the error if nothing was kept, and 200 if something was.
async fn bulk(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    let Inserted { result, kept, actions } = insert_bulk(&to, &request, body).await;
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let (items, error) = match (result, actions) {
        (Err(error), None) => return ([PRODUCT], error).into_response(),
        (result, actions) => {
            let error = result.err();
            (items(actions.unwrap_or_default(), kept, error.as_ref()), error)
        }
    };
    let answer = ([PRODUCT, content_type], items).into_response();
    match error.filter(|_| kept == 0) {
        None => to.acknowledged(answer),
        Some(error) => {
            let mut refused = error.into_response();
            *refused.body_mut() = answer.into_body();
            ([PRODUCT], refused).into_response()
        }
    }
}

/// Takes one document.
async fn document(
    State(to): State<Arc<Inserting>>,
    Path(names): Path<Vec<String>>,
    request: Request,
    body: Body,
) -> Response {
    match keep_document(&to, &request, body).await {
        Ok(()) => {
            let body = json!({
                "_index": names.first(),
                "_id": names.get(1).cloned().unwrap_or_else(new_id),
                "_version": 1,
                "result": "created",
                "_shards": { "total": 1, "successful": 1, "failed": 0 },
                "_seq_no": 0,
                "_primary_term": 1,
            });
            to.acknowledged((StatusCode::CREATED, [PRODUCT], Json(body)).into_response())
        }
        Err(error) => ([PRODUCT], error).into_response(),
    }
}

async fn keep_document(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_document(&mut body).await;
    body.end(taken).await?;
    Ok(())
}

async fn take_document(body: &mut WholeBody<'_>) -> ApiResult<()> {
    let too_long = || {
        let message = format!("the document is longer than {DOCUMENT_BYTES_MAX} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let document = body.read_decompressed(DOCUMENT_BYTES_MAX).await?.ok_or_else(too_long)?;
    serde_json::from_slice::<IgnoredAny>(&document)
        .map_err(|error| ApiError::bad_request(format!("the document is not JSON: {error}")))?;
    if !document.trim_ascii().starts_with(b"{") {
        return Err(ApiError::bad_request("the document is not a JSON object"));
    }
    // JSON has newlines only between its tokens, so replacing them makes one line of it.
    let line = |byte: u8| if byte == b'\n' || byte == b'\r' { b' ' } else { byte };
    let mut line: Vec<u8> = document.trim_ascii().iter().copied().map(line).collect();
    line.push(b'\n');
    body.take(&line).await
}

/// An id, because clients expect one. It names nothing here.
fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:x}-{:x}", crate::wire::clock::now_ns(), COUNT.fetch_add(1, Relaxed))
}

/// The body of an answer with an item for each action, in pieces. The first `kept` documents are
/// durable; the others were not kept because of `error`, and may be later.
fn items(actions: Runs, kept: u64, error: Option<&ApiError>) -> Body {
    let failed = |action: Action| match error {
        Some(error) => failed_item(action, AGAIN, kind(error), &error.to_string()),
        None => failed_item(action, AGAIN, "exception", "not kept"),
    };
    let mut left = kept;
    let mut runs: Vec<(String, u64)> = Vec::new();
    for (action, count) in actions {
        if !action.adds() {
            let reason = "lines are only added here, by create or index";
            runs.push((failed_item(action, 400, "illegal_argument_exception", reason), count));
            continue;
        }
        let created = count.min(left);
        left -= created;
        runs.push((created_item(action), created));
        runs.push((failed(action), count - created));
    }
    let has_errors = runs.iter().any(|(item, count)| *count > 0 && item.contains("\"error\""));
    let mut separator = "";
    let pieces = runs.into_iter().flat_map(|(item, count)| {
        (0..count.div_ceil(ITEMS_PIECE)).map(move |piece| {
            let count = (count - piece * ITEMS_PIECE).min(ITEMS_PIECE) as usize;
            vec![&item[..]; count].join(",")
        })
    });
    let pieces =
        pieces.map(move |piece| std::mem::replace(&mut separator, ",").to_owned() + &piece);
    let whole = std::iter::once(format!("{{\"took\":0,\"errors\":{has_errors},\"items\":["))
        .chain(pieces)
        .chain(std::iter::once("]}\n".to_owned()));
    let whole = whole.map(|piece| Ok::<_, std::convert::Infallible>(Bytes::from(piece)));
    Body::from_stream(tokio_stream::iter(whole))
}

/// Clients of Java fail for an item without an index, an id or a result, and send all again.
fn created_item(action: Action) -> String {
    let item = json!({ "_index": INDEX, "_id": "", "result": "created", "status": 201 });
    json!({ action.name(): item }).to_string()
}

fn failed_item(action: Action, status: u16, kind: &str, reason: &str) -> String {
    let error = json!({ "type": kind, "reason": reason });
    let item = json!({ "_index": INDEX, "_id": "", "status": status, "error": error });
    json!({ action.name(): item }).to_string()
}

/// The name that Elasticsearch has for such an error. Fluentd gives up a chunk for
/// `es_rejected_execution_exception`, which it has for too many requests, too.
fn kind(error: &ApiError) -> &'static str {
    match error.status() {
        StatusCode::TOO_MANY_REQUESTS => "circuit_breaking_exception",
        StatusCode::INSUFFICIENT_STORAGE => "cluster_block_exception",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable_shards_exception",
        _ => "exception",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What the clients of Java, and what is built on them, demand of each item.
    #[tokio::test]
    async fn items_have_what_clients_demand() {
        let runs = vec![(Action::Create, 2), (Action::Delete, 1), (Action::Index, 2)];
        let error = ApiError::unavailable("full");
        let body = items(runs, 3, Some(&error));
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["errors"], true);
        let found: Vec<(&str, u64, &Value)> = answer["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let (action, item) = item.as_object().unwrap().iter().next().unwrap();
                assert_eq!((&item["_index"], &item["_id"]), (&json!(INDEX), &json!("")));
                (action.as_str(), item["status"].as_u64().unwrap(), &item["result"])
            })
            .collect();
        let (created, none) = (json!("created"), Value::Null);
        let expected = [
            ("create", 201, &created),
            ("create", 201, &created),
            ("delete", 400, &none),
            ("index", 201, &created),
            ("index", 429, &none),
        ];
        assert_eq!(found, expected);
        assert_eq!(answer["items"][4]["index"]["error"]["reason"], "full");
    }

    #[tokio::test]
    async fn the_node_has_the_address_that_the_client_has_used() {
        for (uri, host, scheme, expected) in [
            ("/_nodes/http", Some("logs.example:9514"), None, "logs.example:9514"),
            ("/_nodes/http", Some("[::1]:9514"), None, "[::1]:9514"),
            ("/_nodes/http", Some("[::1]"), None, "[::1]:80"),
            ("/_nodes/_all/http", Some("logs.example"), None, "logs.example:80"),
            ("/_nodes/_all/http", Some("logs.example"), Some("https"), "logs.example:443"),
            ("http://other.example:1/_nodes", None, None, "other.example:1"),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(HOST, HeaderValue::from_static(host));
            }
            if let Some(scheme) = scheme {
                headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
            }
            let body = nodes(Uri::from_static(uri), headers).await.into_body();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["nodes"]["loginson"]["http"]["publish_address"], expected);
        }
    }
}
