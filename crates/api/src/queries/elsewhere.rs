//! Queries of the other nodes of a cluster on engines. Every node lists the queries of all, and
//! hands calls about one of them on to the node that has it: the id of a query names that node
//! ([`node_of`]).
//!
//! Invariant: the node that is asked knows the caller, and decides what the caller may do. The node
//! that has the query knows the other node alone, and lets it see and change every query; so a call
//! that was handed on counts as such only from a caller that may ask for shares
//! ([`Scope::Node`]) and sees all lines, those of the audit log too, and never where there is an
//! audit log: nodes of a cluster have none, and a person who writes the header of nodes would read
//! past it.
//!
//! A node that does not answer is named, and so are the background queries that it told of before
//! (`node::cluster::engines::QueriesOfNode`): their rows are on its disk alone.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use query::{RELAY, SHARE};
use serde_json::{Value, json};
use text::time::format_time;

use super::queue::{belongs_to_another, check_restriction, unknown};
use crate::access::audit;
use crate::access::gate::Gate;
use crate::access::principal::{Caller, Scope};
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::engines::{KnownQuery, OtherNode, OutOfReach};
use node::cluster::node::{HANDED_ON, HandedOn, NodeAnswer};
use node::cluster::{Engines, Node};
use node::queries::jobs::{Submission, node_of};

/// Time for another node to list its queries.
///
/// limits.md, Nodes of a cluster: the list of queries of another node | {} | the list is without
/// them, and names the node
const LIST_TIME_MAX: Duration = Duration::from_secs(3);
/// The part of an entry that only nodes see.
pub const SUBMISSION: &str = "submission";

/// A caller of calls about queries.
pub struct Asker {
    /// Who it is.
    pub caller: Caller,
    /// Whether it is another node, which has checked what its own caller may do.
    pub is_node: bool,
}

impl Asker {
    /// Whether it may see and change the query of that client.
    pub fn may_touch(&self, client: &str) -> bool {
        self.is_node || self.caller.principal.may_touch(client)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asker, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let principal = &caller.principal;
        let gate = parts.extensions.get::<Gate>();
        let sees_all = gate.is_some_and(|gate| !gate.hides_audit_from(principal));
        let is_node = parts.headers.contains_key(HANDED_ON)
            && caller.audit.is_none()
            && principal.may(Scope::Node)
            && !principal.is_restricted()
            && sees_all;
        Ok(Asker { caller, is_node })
    }
}

/// Hands a call about one query on to the node that has it.
pub fn to_its_node(request: Request, next: Next) -> Pin<Box<dyn Future<Output = Response> + Send>> {
    Box::pin(async move {
        let app = request.extensions().get::<Arc<App>>().cloned();
        match app.and_then(|app| Some((elsewhere(&app, &request)?, app))) {
            Some((place, app)) => {
                let answer = at_its_node(&app, place, request).await;
                answer.unwrap_or_else(IntoResponse::into_response)
            }
            None => next.run(request).await,
        }
    })
}

/// A query of another node.
struct Place {
    engines: Arc<Engines>,
    id: u64,
    node: u32,
}

/// Where the query of a call is, unless it is here or nowhere.
fn elsewhere(app: &App, request: &Request) -> Option<Place> {
    if request.headers().contains_key(HANDED_ON) {
        return None;
    }
    let engines = app.engines()?;
    let id = request.uri().path().strip_prefix("/api/v1/queries/")?;
    let id: u64 = id.split('/').next()?.parse().ok()?;
    let node = node_of(id)?;
    let is_here = node == engines.info.node.0
        || app.queue.get(id).is_some()
        || app.jobs.get().is_some_and(|jobs| jobs.info(id).is_some());
    (!is_here).then_some(Place { engines, id, node })
}

async fn at_its_node(app: &Arc<App>, place: Place, request: Request) -> ApiResult {
    let Place { engines, id, node } = place;
    let (mut parts, _) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, app).await?;
    let other = engines.others().into_iter().find(|other| other.id.0 == node);
    let to = other.as_ref().and_then(|other| other.to.clone());
    let Some(to) = to else { return Err(out_of_reach(&engines, id, node, other)) };
    let call = |method: Method, path: String| {
        let to = Arc::clone(&to);
        let call = HandedOn { method, path, content_type: None, body: Vec::new() };
        async move {
            let answered = tokio::task::spawn_blocking(move || to.hand_on(call)).await;
            let answered = answered.map_err(|error| ApiError::internal(error.to_string()))?;
            answered.map_err(|error| ApiError::unavailable(error.message))
        }
    };
    // The other node does not know the caller: this one decides by what the entry says.
    let path = format!("/api/v1/queries/{id}");
    let found = call(Method::GET, path.clone()).await?;
    match found.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(unknown(&id.to_string())),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(no_node(&to)),
        _ => return Ok(passed(found)),
    }
    let mut entry: Value = serde_json::from_slice(&found.body).unwrap_or_default();
    if !caller.principal.may_touch(entry["client"].as_str().unwrap_or_default()) {
        return Err(belongs_to_another(&id.to_string()));
    }
    let submission = entry.as_object_mut().and_then(|entry| entry.remove(SUBMISSION));
    let is_get = parts.method == Method::GET || parts.method == Method::HEAD;
    if is_get && parts.uri.path() == path {
        return Ok(Json(entry).into_response());
    }
    match is_get {
        true => {
            let job: Option<Submission> = submission.and_then(|s| serde_json::from_value(s).ok());
            if let Some(job) = job {
                check_restriction(&caller, &job)?;
                let what = format!("results of query {id} read");
                audit::note_reading(&caller, "results", &what, &job.query);
            } else if !caller.principal.restriction.is_none() {
                // Nothing says what the rows may hold.
                return Err(unknown(&id.to_string()));
            }
        }
        false => {
            let what = format!("{} {} handed on to {}", parts.method, parts.uri.path(), to.name);
            audit::note(&caller, &what, "");
        }
    }
    let path = parts.uri.path_and_query().map_or(path, |path| path.as_str().to_owned());
    let answer = call(parts.method, path).await?;
    match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(no_node(&to)),
        _ => Ok(passed(answer)),
    }
}

/// The answer of another node as it is.
fn passed(answer: NodeAnswer) -> Response {
    let NodeAnswer { status, content_type, told, body } = answer;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.extend(told);
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, content_type);
    response
}

fn no_node(node: &Node) -> ApiError {
    ApiError::new(StatusCode::BAD_GATEWAY, node.is_stranger())
}

/// The node of a query cannot be asked.
fn out_of_reach(engines: &Engines, id: u64, node: u32, other: Option<OtherNode>) -> ApiError {
    match other {
        Some(other) => ApiError::unavailable(format!(
            "query {id} is at a node that cannot be asked: {}; start that node again: the rows are on its disk",
            other.silence()
        )),
        None => match engines.queries_elsewhere().into_iter().find(|list| list.node == node) {
            Some(list) => ApiError::unavailable(format!(
                "query {id} is at {}, which is no part of the cluster any more; start that node again: the rows are on \
                 its disk",
                list.name
            )),
            None => unknown(&id.to_string()),
        },
    }
}

/// The queries of the other nodes.
#[derive(Default)]
pub struct Elsewhere {
    /// The entries that the caller may see.
    pub queries: Vec<Value>,
    /// The nodes whose queries are not known, and why.
    pub out_of_reach: Vec<OutOfReach>,
}

/// Asks all other nodes for their queries. Blocks.
pub fn list(engines: &Engines, asker: &Asker) -> Elsewhere {
    let answered = engines.ask_others(LIST_TIME_MAX, "/api/v1/queries");
    let mut found = Elsewhere::default();
    let mut reached: Vec<u32> = vec![engines.info.node.0];
    for (other, list) in answered.answers {
        reached.push(other.id.0);
        found.add(list, asker);
    }
    let lists = engines.queries_elsewhere();
    let told = |node: u32| lists.iter().find(|list| list.node == node);
    // One that is gone and told that it keeps nothing is not missed.
    let keeps_none = |id: u32| told(id).is_some_and(|list| list.queries.is_empty());
    found.out_of_reach = answered.out_of_reach;
    found.out_of_reach.retain(|other| other.gone.is_none() || !keeps_none(other.id.0));
    for list in lists.iter().filter(|list| !reached.contains(&list.node)) {
        let seen = list.queries.iter().filter(|query| asker.may_touch(&query.client));
        found.queries.extend(seen.rev().map(|query| kept_there(&list.name, query)));
    }
    found
}

impl Elsewhere {
    /// Adds the entries of a node that the caller may see. Shares belong to queries of other nodes,
    /// which are listed themselves.
    fn add(&mut self, mut list: Value, asker: &Asker) {
        let Some(queries) = list["queries"].as_array_mut() else { return };
        let is_seen = |entry: &Value| {
            entry["kind"] != SHARE
                && entry["kind"] != RELAY
                && asker.may_touch(entry["client"].as_str().unwrap_or_default())
        };
        self.queries.extend(std::mem::take(queries).into_iter().filter(is_seen));
    }
}

/// The entry of a background query whose node cannot be asked.
fn kept_there(node: &str, query: &KnownQuery) -> Value {
    json!({
        "id": query.id.to_string(),
        "kind": query::BACKGROUND,
        "query": query.query,
        "state": "out_of_reach",
        "node": node,
        "position": null,
        "started": format_time(query.started_ns),
        "wait_ms": 0,
        "run_ms": 0,
        "left_ms": null,
        "progress": 0,
        "blocks_done": 0,
        "blocks_planned": 0,
        "bytes_scanned": 0,
        "bytes_planned": 0,
        "lines_scanned": 0,
        "rows": 0,
        "memory_bytes": 0,
        "error": format!("its rows are on the disk of {node}; start that node again"),
        "client": query.client,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::{Principal, Role};

    fn asker(role: Role, name: &str, is_node: bool) -> Asker {
        let caller = Caller {
            peer: ([127, 0, 0, 1], 7).into(),
            principal: Principal::named(name.into(), Arc::new(role.into())),
            missing: Arc::default(),
            audit: None,
        };
        Asker { caller, is_node }
    }

    #[test]
    fn a_caller_sees_the_queries_of_other_nodes_that_it_may_touch() {
        let body = json!({"queries": [
            {"id": "1", "kind": "background", "client": "ann 127.0.0.1:7"},
            {"id": "2", "kind": "query", "client": "bob 127.0.0.1:7"},
            {"id": "3", "kind": SHARE, "client": "ann 127.0.0.1:7"},
            {"id": "4", "kind": RELAY, "client": "ann 127.0.0.1:7"},
        ]});
        let seen = |asker: &Asker| {
            let mut found = Elsewhere::default();
            found.add(body.clone(), asker);
            let ids = found.queries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned());
            ids.collect::<Vec<String>>()
        };
        assert_eq!(seen(&asker(Role::Read, "ann", false)), ["1"]);
        assert_eq!(seen(&asker(Role::Read, "bob", false)), ["2"]);
        assert_eq!(seen(&asker(Role::Node, "others", false)), [""; 0]);
        assert_eq!(seen(&asker(Role::Node, "others", true)), ["1", "2"]);
        assert_eq!(seen(&asker(Role::Operate, "olga", false)), ["1", "2"]);
    }
}
