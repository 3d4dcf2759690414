//! Scrolls and points in time, without state: an id says all that the next page needs.
//!
//! A point in time is the indices and the time at which it was opened: lines that arrived later are
//! not seen. A scroll is one with its search and the sort values of the last hit. So neither ends,
//! and closing them frees nothing; what they keep out is lines that were added, not deletions.

use std::sync::Arc;

use ::query::{Comparison, Filter, RAW_RECEIVED, Test};
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elastic::search::Search;
use elastic::{Refused, leaf};
use serde_json::{Value, json};

use crate::elastic::call::Call;
use crate::elastic::search::{Form, Prepared, run};
use crate::elastic::{Elastic, ElasticResult};
use crate::wire::clock::now_ns;

/// Longest search of a scroll, as its id holds it. A longer one is refused (400).
///
/// limits.md, Queries: bytes of a search with `scroll` | {} | the request is refused (400);
/// `search_after` with a point in time takes longer ones
const SEARCH_BYTES_MAX: usize = 16 << 10;

/// A point in time.
#[derive(Clone, Debug)]
pub struct PointInTime {
    /// The indices.
    pub index: String,
    received_ns: i64,
}

fn unknown() -> Refused {
    Refused {
        kind: "search_context_missing_exception",
        status: 404,
        reason: "No search context found: the id is not one of a scroll or a point in time of this server".into(),
    }
}

fn id_of(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn read_id(id: &str) -> Result<Value, Refused> {
    let bytes = URL_SAFE_NO_PAD.decode(id).map_err(|_| unknown())?;
    serde_json::from_slice(&bytes).map_err(|_| unknown())
}

impl PointInTime {
    fn now(index: String) -> PointInTime {
        PointInTime { index, received_ns: now_ns() }
    }

    fn of(value: &Value) -> Option<PointInTime> {
        let index = value["index"].as_str()?.to_owned();
        Some(PointInTime { index, received_ns: value["at"].as_i64()? })
    }

    /// The point in time of an id.
    pub fn read(id: &str) -> Result<PointInTime, Refused> {
        PointInTime::of(&read_id(id)?).ok_or_else(unknown)
    }

    fn to_json(&self) -> Value {
        json!({ "index": self.index, "at": self.received_ns })
    }

    /// The lines of a filter that had arrived, whatever they say of it in a field `_received`.
    pub fn filter(&self, filter: &Filter) -> Filter {
        let value = text::time::format_time(self.received_ns);
        let test = Test::Compare { comparison: Comparison::LessOrEqual, value };
        // Every line has a time of arrival, but a node of the release before does not know the name
        // that no field can have.
        let known = Filter::field(RAW_RECEIVED, Test::Prefix(String::new()));
        let by_name = vec![Filter::Not(Box::new(known)), Filter::field("_received", test.clone())];
        let arrived = vec![Filter::field(RAW_RECEIVED, test), Filter::and(by_name)];
        leaf::all(vec![filter.clone(), Filter::or(arrived)])
    }
}

/// Opens a point in time.
pub async fn open(call: Call) -> ElasticResult {
    call.takes(&[
        "keep_alive",
        "allow_partial_search_results",
        "allow_partial_pit_creation",
        "max_concurrent_shard_requests",
    ])?;
    let pit = PointInTime::now(call.index());
    let id = id_of(&pit.to_json());
    let shards = json!({ "total": 1, "successful": 1, "skipped": 0, "failed": 0 });
    // OpenSearch calls it differently.
    Ok(call.answer(json!({
        "id": id, "pit_id": id, "_shards": shards, "creation_time": pit.received_ns / 1_000_000,
    })))
}

/// Closes points in time.
pub async fn close(call: Call) -> ElasticResult {
    call.takes(&[])?;
    let body = call.body()?;
    let ids = body.get("id").or_else(|| body.get("pit_id")).unwrap_or(&Value::Null);
    let freed = elastic::object::list(ids).into_iter().filter(|id| id.is_string());
    let pits: Vec<Value> = freed.map(|id| json!({ "pit_id": id, "successful": true })).collect();
    Ok(call.answer(json!({ "succeeded": true, "num_freed": pits.len(), "pits": pits })))
}

/// The first page of a scroll.
pub async fn begin(state: &Elastic, call: &Call, body: &Value) -> ElasticResult {
    let bytes = body.to_string().len();
    if bytes > SEARCH_BYTES_MAX {
        return Err(Refused::argument(format!(
            "[scroll] the search has {bytes} bytes, more than {SEARCH_BYTES_MAX}; use a point in time with search_after"
        ))
        .into());
    }
    if body.get("from").is_some_and(|from| *from != 0) {
        return Err(Refused::argument("[from] must be 0 with [scroll]").into());
    }
    let at = PointInTime::now(call.index());
    let search = Search::parse(body, now_ns())?;
    if search.size() == 0 {
        return Err(Refused::argument("[size] must be above 0 with [scroll]").into());
    }
    page(state, call, body, at, search).await
}

async fn page(
    state: &Elastic,
    call: &Call,
    body: &Value,
    at: PointInTime,
    search: Search,
) -> ElasticResult {
    let prepared = Prepared {
        index: at.index.clone(),
        search: search.with_tie_breaker(),
        at: Some(at.clone()),
        form: Form::of(&call.params),
        shown: format!("{}/_search/scroll {body}", at.index),
    };
    let mut done = run(&state.app, &call.params, &call.caller, prepared).await?;
    let mut id = at.to_json();
    id["search"] = body.clone();
    // Behind the last page there is none.
    id["after"] = done.last.map_or_else(|| json!("end"), Value::from);
    done.body.insert("_scroll_id".to_owned(), id_of(&id).into());
    Ok(call.answer(done.body.into()))
}

async fn go_on(state: &Elastic, call: &Call, id: Option<&str>) -> ElasticResult {
    call.takes(&["scroll", "scroll_id", "rest_total_hits_as_int"])?;
    let body = call.body()?;
    let id = id
        .or_else(|| body.get("scroll_id").and_then(Value::as_str))
        .or_else(|| call.params.get("scroll_id"))
        .ok_or_else(|| Refused::argument("[scroll_id] is missing"))?;
    let id = read_id(id)?;
    let at = PointInTime::of(&id).ok_or_else(unknown)?;
    let search = Search::parse(&id["search"], at.received_ns)?;
    match &id["after"] {
        Value::Array(after) => {
            page(state, call, &id["search"], at, search.behind(after.clone())).await
        }
        Value::String(end) if end == "end" => {
            let shards = json!({ "total": 1, "successful": 1, "skipped": 0, "failed": 0 });
            Ok(call.answer(json!({
                "_scroll_id": id_of(&id), "took": 0, "timed_out": false, "_shards": shards,
                "hits": { "max_score": null, "hits": [] },
            })))
        }
        _ => Err(unknown().into()),
    }
}

/// The next page of a scroll.
pub async fn next(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    go_on(&state, &call, None).await
}

/// The next page of the scroll that the path names.
pub async fn next_of(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    go_on(&state, &call, call.part("id")).await
}

/// Ends scrolls.
pub async fn clear(call: Call) -> ElasticResult {
    call.takes(&["scroll_id"])?;
    let body = call.body()?;
    let in_body = body.get("scroll_id").map(elastic::object::list).map_or(0, |ids| ids.len());
    let count = in_body.max(1);
    Ok(call.answer(json!({ "succeeded": true, "num_freed": count })))
}
