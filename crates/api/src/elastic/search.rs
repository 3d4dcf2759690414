//! `_search`, `_count`, `_validate/query`, and a document by its name.

use std::sync::Arc;
use std::time::Instant;

use ::query::RunError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use elastic::rows::Runner;
use elastic::search::{self, Search};
use elastic::{Refused, SearchError, indices};
use serde_json::{Map, Value, json};

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::elastic::call::Call;
use crate::elastic::scroll::{self, PointInTime};
use crate::elastic::{Elastic, ElasticError, ElasticResult};
use crate::queries::run::{PendingQuery, answer};
use crate::wire::clock::now_ns;

/// Parameters of a search that stand for parts of its body.
const IN_BODY: &[&str] = &[
    "q",
    "df",
    "default_operator",
    "analyze_wildcard",
    "lenient",
    "from",
    "size",
    "sort",
    "_source",
    "_source_includes",
    "_source_excludes",
    "stored_fields",
    "docvalue_fields",
    "track_total_hits",
    "terminate_after",
    "timeout",
];
/// Other parameters of a search, most of which change nothing here.
pub const SEARCH: &[&str] = &[
    "typed_keys",
    "rest_total_hits_as_int",
    "allow_partial_search_results",
    "scroll",
    "search_type",
    "request_cache",
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "include_named_queries_score",
    "force_synthetic_source",
    "track_scores",
    "version",
    "seq_no_primary_term",
    "explain",
    "stats",
    "wait_for_completion_timeout",
    "keep_on_completion",
    "keep_alive",
];

/// A search that is ready to run.
pub struct Prepared {
    /// Which indices.
    pub index: String,
    /// What is searched.
    pub search: Search,
    /// Only lines that had arrived at that time.
    pub at: Option<PointInTime>,
    /// How the answer is written.
    pub form: Form,
    /// The text for the list of queries.
    pub shown: String,
}

/// How an answer is written.
#[derive(Clone, Copy, Default)]
pub struct Form {
    typed: bool,
    total_as_number: bool,
    lenient: bool,
    partial: bool,
}

impl Form {
    /// As the parameters of a call say.
    pub fn of(params: &Params) -> Form {
        Form {
            typed: params.flag("typed_keys"),
            total_as_number: params.flag("rest_total_hits_as_int"),
            lenient: params.flag("ignore_unavailable"),
            partial: params.flag("allow_partial_search_results"),
        }
    }
}

/// The body of a search with what its parameters say.
pub fn body_of(call: &Call) -> ElasticResult<Value> {
    let takes: Vec<&str> = IN_BODY.iter().chain(SEARCH).copied().collect();
    call.takes(&takes)?;
    let mut body = call.body()?;
    let Some(object) = body.as_object_mut() else {
        return Err(Refused::parsing("the body is not an object").into());
    };
    let params = &call.params;
    if let Some(text) = params.get("q") {
        let mut query = Map::new();
        query.insert("query".to_owned(), text.into());
        for (name, key) in [("df", "default_field"), ("default_operator", "default_operator")] {
            if let Some(value) = params.get(name) {
                query.insert(key.to_owned(), value.into());
            }
        }
        object.insert("query".to_owned(), json!({ "query_string": query }));
    }
    for name in ["from", "size", "terminate_after", "timeout", "track_total_hits"] {
        if let Some(value) = params.get(name) {
            object.insert(name.to_owned(), value.into());
        }
    }
    let split = |text: &str| -> Value { text.split(',').map(str::to_owned).collect() };
    for name in ["sort", "stored_fields", "docvalue_fields"] {
        if let Some(value) = params.get(name) {
            object.insert(name.to_owned(), split(value));
        }
    }
    match params.get("_source") {
        None => {}
        Some(value @ ("true" | "false")) => {
            object.insert("_source".to_owned(), (value == "true").into());
        }
        Some(value) => {
            object.insert("_source".to_owned(), split(value));
        }
    }
    let (includes, excludes) = (params.get("_source_includes"), params.get("_source_excludes"));
    if includes.is_some() || excludes.is_some() {
        let list = |text: Option<&str>| text.map_or_else(|| json!([]), split);
        let filter = json!({ "includes": list(includes), "excludes": list(excludes) });
        object.insert("_source".to_owned(), filter);
    }
    Ok(body)
}

/// Prepares the search of a body.
pub fn prepare(index: String, body: &Value, form: Form) -> ElasticResult<Prepared> {
    let mut search = Search::parse(body, now_ns())?;
    let (mut index, mut at) = (index, None);
    if let Some(pit) = &search.pit {
        let pit = PointInTime::read(pit)?;
        index.clone_from(&pit.index);
        search = search.with_tie_breaker();
        at = Some(pit);
    }
    let shown = format!("{index}/_search {body}");
    Ok(Prepared { index, search, at, form, shown })
}

/// What a search found.
pub struct Done {
    /// The answer.
    pub body: Map<String, Value>,
    /// The sort values of the last hit.
    pub last: Option<Vec<Value>>,
}

/// What ended a search that did not fail: an answer, a wrong request, or its own time limit.
enum Ended {
    Found(search::Answer),
    Refused(Refused),
    TimedOut,
}

/// A query of this API before it enters the queue.
pub fn pending(
    app: &Arc<App>,
    params: &Params,
    caller: &Caller,
    shown: &str,
) -> ElasticResult<PendingQuery> {
    let shown = shown.chars().take(10_000).collect::<String>();
    let mut pending = PendingQuery::new(app, "elastic", &shown, caller)?;
    pending.context.restriction = params.restriction(now_ns())?;
    if params.flag("allow_partial_search_results") {
        pending.allow_partial(&Params::parse(b"allow_partial_response=1"), caller);
    }
    Ok(pending)
}

/// Runs a search in the queue.
pub async fn run(
    app: &Arc<App>,
    params: &Params,
    caller: &Caller,
    prepared: Prepared,
) -> ElasticResult<Done> {
    let Prepared { index, search, at, form, shown } = prepared;
    let mut pending = pending(app, params, caller, &shown)?;
    let own_limit = search.timeout.is_some_and(|own| own < pending.context.limits.run_time);
    if let Some(own) = search.timeout {
        let limits = &mut pending.context.limits;
        limits.run_time = limits.run_time.min(own);
    }
    let came = Instant::now();
    let size = search.size();
    let ended = answer(pending, move |running| {
        let mut runner = Runner::new(running.source(), &running.context);
        let ran = indices::filter(&index, &runner, form.lenient).and_then(|filter| {
            let filter = at.map_or_else(|| filter.clone(), |at| at.filter(&filter));
            search::run(&search, &mut runner, &filter, form.typed)
        });
        match ran {
            Ok(found) => Ok(Ended::Found(found)),
            Err(SearchError::Refused(refused)) => Ok(Ended::Refused(refused)),
            Err(SearchError::Run(RunError::TimeLimit(_))) if own_limit => Ok(Ended::TimedOut),
            Err(SearchError::Run(error)) => Err(error),
        }
    });
    let (found, timed_out) = match ended.await? {
        Ended::Found(found) => (found, false),
        Ended::Refused(refused) => return Err(refused.into()),
        Ended::TimedOut => {
            let hits = json!({ "max_score": null, "hits": [] });
            let parts = Map::from_iter([("hits".to_owned(), hits)]);
            (search::Answer { parts, last: None }, true)
        }
    };
    let mut body = found.parts;
    if form.total_as_number
        && let Some(total) = body.get_mut("hits").and_then(|hits| hits.get_mut("total"))
    {
        *total = total["value"].take();
    }
    body.insert("took".to_owned(), (came.elapsed().as_millis() as u64).into());
    body.insert("timed_out".to_owned(), timed_out.into());
    body.insert("_shards".to_owned(), shards(caller, form.partial));
    let last = found.last.filter(|_| size > 0);
    Ok(Done { body, last })
}

/// What could not be read, as failed shards.
fn shards(caller: &Caller, is_partial: bool) -> Value {
    let mut reasons: Vec<String> = Vec::new();
    if is_partial {
        let stores = caller.missing.stores();
        reasons.extend(stores.into_iter().map(|store| format!("the store {store} did not answer")));
        reasons.extend(caller.missing.damages.tell());
        reasons.extend(caller.missing.lacks());
    }
    let failed = reasons.len();
    let mut shards =
        json!({ "total": 1 + failed, "successful": 1, "skipped": 0, "failed": failed });
    if failed > 0 {
        let failure = |reason: String| json!({ "shard": 0, "reason": { "type": "shard_failure", "reason": reason } });
        shards["failures"] = reasons.into_iter().map(failure).collect();
    }
    shards
}

async fn searched(state: &Elastic, call: &Call) -> ElasticResult {
    let body = body_of(call)?;
    if let Some(keep_alive) = call.params.get("scroll") {
        search::duration(keep_alive, "scroll")?;
        return scroll::begin(state, call, &body).await;
    }
    let form = Form::of(&call.params);
    let prepared = prepare(call.index(), &body, form)?;
    let pit = prepared.search.pit.clone();
    let mut done = run(&state.app, &call.params, &call.caller, prepared).await?;
    if let Some(pit) = pit {
        done.body.insert("pit_id".to_owned(), pit.into());
    }
    Ok(call.answer(done.body.into()))
}

/// `_search` of all indices, or of those of a point in time.
pub async fn all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    searched(&state, &call).await
}

/// `_search` of some indices.
pub async fn index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    searched(&state, &call).await
}

async fn counted(state: &Elastic, call: &Call) -> ElasticResult {
    call.takes(&[
        "q",
        "df",
        "default_operator",
        "analyze_wildcard",
        "lenient",
        "min_score",
        "terminate_after",
    ])?;
    let body = body_of(call)?;
    for (name, _) in body.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "query" | "terminate_after") {
            return Err(Refused::parsing(format!(
                "[_count] does not understand [{}]; it understands: query",
                elastic::object::cut(name)
            ))
            .into());
        }
    }
    let Prepared { index, search, shown, .. } = prepare(call.index(), &body, Form::default())?;
    let lenient = call.is_lenient();
    let pending =
        pending(&state.app, &call.params, &call.caller, &shown.replace("_search", "_count"))?;
    let count = in_queue(pending, move |runner| {
        let filter = indices::filter(&index, runner, lenient)?;
        search::count(&search, runner, &filter)
    });
    let shards = shards(&call.caller, call.params.flag("allow_partial_search_results"));
    Ok(call.answer(json!({ "count": count.await?, "_shards": shards })))
}

/// Runs `work` in the queue.
pub async fn in_queue<T: Send + 'static>(
    pending: PendingQuery,
    work: impl FnOnce(&mut Runner<'_>) -> Result<T, SearchError> + Send + 'static,
) -> ElasticResult<T> {
    let ended = answer(pending, move |running| {
        match work(&mut Runner::new(running.source(), &running.context)) {
            Ok(found) => Ok(Ok(found)),
            Err(SearchError::Refused(refused)) => Ok(Err(refused)),
            Err(SearchError::Run(error)) => Err(error),
        }
    });
    Ok(ended.await??)
}

/// `_count` of all indices.
pub async fn count_all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    counted(&state, &call).await
}

/// `_count` of some indices.
pub async fn count_index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    counted(&state, &call).await
}

fn validated(call: &Call) -> ElasticResult {
    call.takes(&[
        "q",
        "df",
        "default_operator",
        "analyze_wildcard",
        "lenient",
        "explain",
        "rewrite",
        "all_shards",
    ])?;
    let params = Params::parse(b"");
    let mut body = call.body()?;
    if let (Some(text), Some(object)) = (call.params.get("q"), body.as_object_mut()) {
        object.insert("query".to_owned(), json!({ "query_string": { "query": text } }));
    }
    let found = prepare(call.index(), &body, Form::of(&params));
    let shards = json!({ "total": 1, "successful": 1, "failed": 0 });
    let answer = match found {
        Ok(_) => json!({ "valid": true, "_shards": shards }),
        Err(error) => {
            let reason = error.body["error"]["reason"].clone();
            let one = json!({ "index": call.index(), "valid": false, "error": reason });
            json!({ "valid": false, "_shards": shards, "explanations": [one], "error": reason })
        }
    };
    Ok(call.answer(answer))
}

/// `_validate/query` of all indices.
pub async fn validate_all(call: Call) -> ElasticResult {
    validated(&call)
}

/// `_validate/query` of some indices.
pub async fn validate_index(call: Call) -> ElasticResult {
    validated(&call)
}

/// The document with that name.
pub async fn document(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    let id = call.part("id").unwrap_or_default().to_owned();
    let index = call.index();
    let missing = || -> Response {
        let body = json!({ "_index": index, "_id": id, "found": false });
        (StatusCode::NOT_FOUND, call.answer(body)).into_response()
    };
    let body =
        json!({ "query": { "ids": { "values": [id] } }, "size": 1, "track_total_hits": false });
    let prepared = prepare(index.clone(), &body, Form::of(&call.params))?;
    let done = run(&state.app, &call.params, &call.caller, prepared).await?;
    let hit = done.body.get("hits").and_then(|hits| hits["hits"].get(0));
    let Some(Value::Object(hit)) = hit else { return Ok(missing()) };
    let mut hit = hit.clone();
    hit.remove("_score");
    hit.insert("found".to_owned(), true.into());
    hit.insert("_version".to_owned(), 1.into());
    Ok(call.answer(hit.into()))
}

impl ElasticError {
    /// The error as a part of the answer to several searches.
    pub fn into_part(self) -> Value {
        self.body
    }
}
