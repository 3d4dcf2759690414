//! `_msearch`: several searches in one request, pairs of lines of JSON. They run one after the
//! other, each with its own entry in the queue; the answer of each, or its error, stands in its
//! place. An answer with which all are longer than one answer may be is an error in its place.

use std::sync::Arc;

use axum::extract::State;
use elastic::Refused;
use serde_json::{Value, json};

use crate::access::params::Params;
use crate::elastic::call::{Call, longer};
use crate::elastic::search::{Form, prepare, run};
use crate::elastic::{Elastic, ElasticError, ElasticResult};

/// Most searches of a request.
///
/// limits.md, Queries: searches of one `_msearch` | {} | the request is refused (400)
const SEARCHES_MAX: usize = 200;
/// What a head may say that changes nothing here.
const HEAD: [&str; 10] = [
    "search_type",
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "preference",
    "routing",
    "request_cache",
    "max_concurrent_shard_requests",
    "ccs_minimize_roundtrips",
    "allow_partial_search_results",
];

/// `_msearch` of all indices.
pub async fn all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    several(&state, &call).await
}

/// `_msearch` of some indices, where a search does not name its own.
pub async fn index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    several(&state, &call).await
}

async fn several(state: &Elastic, call: &Call) -> ElasticResult {
    call.takes(&[
        "typed_keys",
        "rest_total_hits_as_int",
        "max_concurrent_searches",
        "max_concurrent_shard_requests",
        "pre_filter_shard_size",
        "search_type",
        "ccs_minimize_roundtrips",
        "include_named_queries_score",
    ])?;
    let lines: Vec<&str> = call.text.lines().collect();
    let mut lines = lines.into_iter().peekable();
    let mut answers = Vec::new();
    let began = std::time::Instant::now();
    let mut pairs = Vec::new();
    while let Some(head) = lines.next() {
        // The head may be an empty line.
        if head.trim().is_empty() && lines.peek().is_none_or(|next| next.trim().is_empty()) {
            continue;
        }
        let body = lines.next().ok_or_else(|| {
            Refused::parsing("[_msearch] a head has no search behind it; send pairs of lines")
        })?;
        if pairs.len() == SEARCHES_MAX {
            let message = format!("[_msearch] has more than {SEARCHES_MAX} searches");
            return Err(Refused::argument(message).into());
        }
        pairs.push((head, body));
    }
    // All answers are held until the last one is there, so they are bounded together.
    let mut bytes = 0;
    for (head, body) in pairs {
        let answer = match one(state, call, head, body).await {
            Ok(answer) => answer,
            Err(error) => error.into_part(),
        };
        answers.push(match longer(bytes, &answer) {
            Ok(sum) => {
                bytes = sum;
                answer
            }
            Err(refused) => ElasticError::from(refused).into_part(),
        });
    }
    let took = began.elapsed().as_millis() as u64;
    Ok(call.answer(json!({ "took": took, "responses": answers })))
}

async fn one(state: &Elastic, call: &Call, head: &str, body: &str) -> ElasticResult<Value> {
    let read = |text: &str| -> Result<Value, Refused> {
        if text.trim().is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_str(text)
            .map_err(|error| Refused::parsing(format!("[_msearch] a line is not JSON: {error}")))
    };
    let (head, body) = (read(head)?, read(body)?);
    let object = elastic::object::Object::new(&head, "_msearch")?;
    let named = object.get("index").or_else(|| object.get("indices")).map(|index| {
        let names = elastic::object::list(index).into_iter().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(",")
    });
    let lenient = object.flag("ignore_unavailable")?.unwrap_or(false) || call.is_lenient();
    object.without_effect(&HEAD);
    object.finish()?;
    let mut query = String::new();
    for name in ["typed_keys", "rest_total_hits_as_int"] {
        if call.params.flag(name) {
            query.push_str(&format!("{name}=true&"));
        }
    }
    if lenient {
        query.push_str("ignore_unavailable=true&");
    }
    let form = Form::of(&Params::parse(query.as_bytes()));
    let prepared = prepare(named.unwrap_or_else(|| call.index()), &body, form)?;
    let mut done = run(&state.app, &call.params, &call.caller, prepared).await?;
    done.body.insert("status".to_owned(), 200.into());
    Ok(done.body.into())
}
