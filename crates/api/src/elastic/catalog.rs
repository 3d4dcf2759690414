//! What there is: the server itself, indices, fields.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use elastic::indices;
use elastic::leaf::{self, Leaves};
use elastic::names::index_of;
use serde_json::{Value, json};

use crate::elastic::call::Call;
use crate::elastic::search::{in_queue, pending};
use crate::elastic::{Elastic, ElasticResult};
use crate::ingest::bulk;
use crate::wire::clock::now_ns;

/// The server, with the version whose API this is.
pub async fn about() -> Response {
    bulk::described()
}

/// The license, which some clients ask for.
pub async fn license() -> Response {
    bulk::license().await
}

/// The health of the cluster.
pub async fn health(call: Call) -> Response {
    call.answer(json!({
        "cluster_name": "loginson", "status": "green", "timed_out": false, "number_of_nodes": 1,
        "number_of_data_nodes": 1, "active_primary_shards": 1, "active_shards": 1,
        "relocating_shards": 0, "initializing_shards": 0, "unassigned_shards": 0,
        "delayed_unassigned_shards": 0, "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0, "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": 100.0,
    }))
}

/// The indices of a call: types of lines, with their numbers of lines.
async fn named(state: &Elastic, call: &Call) -> ElasticResult<Vec<(String, u64)>> {
    let (index, lenient) = (call.index(), call.is_lenient());
    let pending = pending(&state.app, &call.params, &call.caller, &format!("{index}/_resolve"))?;
    in_queue(pending, move |runner| {
        let found = indices::named(&index, runner, lenient)?;
        Ok(found.into_iter().map(|index| (index_of(&index.kind), index.lines)).collect())
    })
    .await
}

/// Whether there is an index.
pub async fn exists(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    let found = named(&state, &call).await;
    let status = match found {
        Ok(found) if !found.is_empty() => StatusCode::OK,
        _ => StatusCode::NOT_FOUND,
    };
    Ok(status.into_response())
}

async fn listed(state: &Elastic, call: &Call) -> ElasticResult {
    let own = [
        "h",
        "s",
        "v",
        "help",
        "bytes",
        "time",
        "health",
        "pri",
        "include_unloaded_segments",
        "format",
    ];
    // Other forms than text and JSON are refused below.
    let format = call.params.get("format").unwrap_or("text").to_owned();
    if format != "text" {
        call.takes(&own)?;
    }
    let found = named(state, call).await?;
    let size = "0b";
    if format == "json" {
        let one = |(name, lines): (String, u64)| {
            json!({
                "health": "green", "status": "open", "index": name, "uuid": name, "pri": "1",
                "rep": "0", "docs.count": lines.to_string(), "docs.deleted": "0",
                "store.size": size, "pri.store.size": size, "dataset.size": size,
            })
        };
        return Ok(call.answer(found.into_iter().map(one).collect()));
    }
    let mut text = String::new();
    if call.params.flag("v") {
        text.push_str(
            "health status index uuid pri rep docs.count docs.deleted store.size pri.store.size\n",
        );
    }
    for (name, lines) in found {
        text.push_str(&format!("green open {name} {name} 1 0 {lines} 0 {size} {size}\n"));
    }
    Ok(([(CONTENT_TYPE, "text/plain; charset=UTF-8")], text).into_response())
}

/// `_cat/indices` of all.
pub async fn list_all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    listed(&state, &call).await
}

/// `_cat/indices` of some.
pub async fn list(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    listed(&state, &call).await
}

/// `_resolve/index`.
pub async fn resolve(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    call.takes(&["mode", "project_routing"])?;
    let found = named(&state, &call).await?;
    let one = |(name, _)| json!({ "name": name, "attributes": ["open"] });
    let indices: Vec<Value> = found.into_iter().map(one).collect();
    Ok(call.answer(json!({ "indices": indices, "aliases": [], "data_streams": [] })))
}

async fn fields(state: &Elastic, call: &Call) -> ElasticResult {
    call.takes(&[
        "fields",
        "include_unmapped",
        "filters",
        "types",
        "include_empty_fields",
        "allow_no_indices",
    ])?;
    let body = call.body()?;
    let object = elastic::object::Object::new(&body, "_field_caps")?;
    let own = object.get("fields").map(elastic::object::list).unwrap_or_default();
    let own = own.into_iter().filter_map(elastic::object::text_of);
    // A text may be a list too.
    let mut patterns: Vec<String> =
        own.flat_map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
    let narrowed = match object.get("index_filter") {
        None => ::query::Filter::All,
        Some(query) => elastic::dsl::parse(query, &mut Leaves::new(now_ns()))?,
    };
    object.without_effect(&["runtime_mappings"]);
    object.finish()?;
    if let Some(names) = call.params.get("fields") {
        patterns.extend(names.split(',').map(str::to_owned));
    }
    if patterns.is_empty() {
        patterns.push("*".to_owned());
    }
    let (index, lenient) = (call.index(), call.is_lenient());
    let pending = pending(&state.app, &call.params, &call.caller, &format!("{index}/_field_caps"))?;
    let answer = in_queue(pending, move |runner| {
        let named = indices::named(&index, runner, lenient)?;
        let filter = leaf::all(vec![indices::filter(&index, runner, lenient)?, narrowed]);
        let fields = indices::fields(runner, &filter)?;
        let names: Vec<String> = named.iter().map(|index| index_of(&index.kind)).collect();
        Ok(json!({ "indices": names, "fields": indices::capabilities(&fields, &patterns) }))
    });
    Ok(call.answer(answer.await?))
}

/// `_field_caps` of all indices.
pub async fn fields_of_all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    fields(&state, &call).await
}

/// `_field_caps` of some indices.
pub async fn fields_of_index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    fields(&state, &call).await
}

async fn mapping(state: &Elastic, call: &Call) -> ElasticResult {
    call.takes(&[])?;
    let (index, lenient) = (call.index(), call.is_lenient());
    let pending = pending(&state.app, &call.params, &call.caller, &format!("{index}/_mapping"))?;
    let answer = in_queue(pending, move |runner| {
        let mut answer = serde_json::Map::new();
        for found in indices::named(&index, runner, lenient)? {
            let test = ::query::Test::Exact(found.kind.clone());
            let filter = ::query::Filter::field(elastic::names::TYPE, test);
            let fields = indices::fields(runner, &filter)?;
            let properties = indices::properties(&fields);
            let mapping = json!({ "mappings": { "properties": properties } });
            answer.insert(index_of(&found.kind), mapping);
        }
        Ok(Value::Object(answer))
    });
    Ok(call.answer(answer.await?))
}

/// `_mapping` of all indices.
pub async fn mapping_of_all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    mapping(&state, &call).await
}

/// `_mapping` of some indices.
pub async fn mapping_of_index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    mapping(&state, &call).await
}
