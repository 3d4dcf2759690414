//! `_async_search`: a search that goes on when its client does not wait for it.
//!
//! Its answer is kept in memory until it is deleted or too old. Whoever starts one can read it
//! alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use elastic::Refused;
use elastic::search::duration;
use query::Restriction;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::access::principal::{Principal, Scope, Who};
use crate::elastic::call::Call;
use crate::elastic::search::{Form, body_of, prepare, run};
use crate::elastic::{Elastic, ElasticError, ElasticResult};
use crate::wire::clock::now_ns;

/// Most asynchronous searches, those that run and those whose answers are kept.
///
/// limits.md, Queries: asynchronous searches of Elasticsearch's API | {}, each up to an hour | a
/// further one is refused (429)
const SEARCHES_MAX: usize = 50;
/// Most asynchronous searches of one caller.
///
/// limits.md, Queries: asynchronous searches of one caller | {}; operators have no such limit | a
/// further one is refused (429)
const OWN_MAX: usize = 20;
/// Those of [`SEARCHES_MAX`] that are kept for operators.
const RESERVED: usize = 5;
/// Longest time that an answer is kept, whatever `keep_alive` says.
const KEPT_MAX: Duration = Duration::from_secs(3_600);
/// Bytes of all answers that are kept. An answer that does not fit is an error in its place.
///
/// limits.md, Queries: bytes of answers of asynchronous searches that are kept | {} | the answer
/// is an error (429)
const BYTES_MAX: usize = 64 << 20;
/// How long a client waits by default.
const WAIT_DEFAULT: Duration = Duration::from_secs(1);

/// The searches.
#[derive(Default)]
pub struct Later(Mutex<HashMap<String, Entry>>);

struct Entry {
    owner: Who,
    /// What the owner saw.
    seen: Restriction,
    started_ns: i64,
    ends: Instant,
    expires_ns: i64,
    task: Option<AbortHandle>,
    outcome: Option<Result<Value, ElasticError>>,
    bytes: usize,
    ended: watch::Receiver<bool>,
}

impl Entry {
    /// Whether the caller began it, with the rights that the caller has now.
    fn is_of(&self, caller: &Principal) -> bool {
        self.owner == caller.who && self.seen == caller.restriction
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Ends the query, if it still runs.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Later {
    /// The entries that are not too old.
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, entry| entry.ends > now);
        entries
    }
}

fn unknown(id: &str) -> ElasticError {
    let reason = elastic::object::cut(id);
    Refused { kind: "resource_not_found_exception", status: 404, reason }.into()
}

fn keep_alive(call: &Call) -> ElasticResult<Duration> {
    let text = call.params.get("keep_alive");
    let kept = text.map(|text| duration(text, "keep_alive")).transpose()?;
    Ok(kept.unwrap_or(KEPT_MAX).min(KEPT_MAX))
}

fn wait(call: &Call) -> ElasticResult<Duration> {
    let text = call.params.get("wait_for_completion_timeout");
    let wait = text.map(|text| duration(text, "wait_for_completion_timeout")).transpose()?;
    Ok(wait.unwrap_or(WAIT_DEFAULT).min(KEPT_MAX))
}

async fn submit(state: Arc<Elastic>, call: Call) -> ElasticResult {
    if call.params.get("scroll").is_some() {
        let reason = "[scroll] is not taken by _async_search; send the search to _search";
        return Err(Refused::argument(reason).into());
    }
    let body = body_of(&call)?;
    let prepared = prepare(call.index(), &body, Form::of(&call.params))?;
    let (wait, keep) = (wait(&call)?, keep_alive(&call)?);
    let keeps_all = call.params.flag("keep_on_completion");
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).expect("the system has random numbers");
    let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let (tell, ended) = watch::channel(false);
    let now = now_ns();
    {
        let mut entries = state.later.entries();
        let principal = &call.caller.principal;
        let own = entries.values().filter(|entry| entry.owner == principal.who).count();
        let (all_max, own_max) = match principal.may(Scope::Operate) {
            true => (SEARCHES_MAX, SEARCHES_MAX),
            false => (SEARCHES_MAX - RESERVED, OWN_MAX),
        };
        if entries.len() >= all_max || own >= own_max {
            let those = if own >= own_max { "your own" } else { "all" };
            return Err(Refused {
                kind: "es_rejected_execution_exception",
                status: 429,
                reason: format!(
                    "there are {} asynchronous searches ({those}), which is the most; delete those that are not needed any more, or use _search",
                    if own >= own_max { own } else { entries.len() }
                ),
            }
            .into());
        }
        let entry = Entry {
            owner: call.caller.principal.who.clone(),
            seen: call.caller.principal.restriction.clone(),
            started_ns: now,
            ends: Instant::now() + keep,
            expires_ns: now.saturating_add(keep.as_nanos() as i64),
            task: None,
            outcome: None,
            bytes: 0,
            ended: ended.clone(),
        };
        entries.insert(id.clone(), entry);
    }
    let call = Arc::new(call);
    let (own_state, own_call, own_id) = (Arc::clone(&state), Arc::clone(&call), id.clone());
    let task = tokio::spawn(async move {
        let done = run(&own_state.app, &own_call.params, &own_call.caller, prepared).await;
        let outcome = done.map(|done| Value::Object(done.body));
        let mut entries = own_state.later.entries();
        let held: usize = entries.values().map(|entry| entry.bytes).sum();
        if let Some(entry) = entries.get_mut(&own_id) {
            let bytes = outcome.as_ref().map_or(0, |value| value.to_string().len());
            let fits = held + bytes <= BYTES_MAX;
            entry.bytes = if fits { bytes } else { 0 };
            entry.task = None;
            entry.outcome = Some(if fits {
                outcome
            } else {
                Err(Refused {
                    kind: "es_rejected_execution_exception",
                    status: 429,
                    reason: format!(
                        "the answers of asynchronous searches would take more than {BYTES_MAX} bytes; delete some, or request less"
                    ),
                }
                .into())
            });
        }
        drop(entries);
        let _ = tell.send(true);
    });
    if let Some(entry) = state.later.entries().get_mut(&id)
        && entry.outcome.is_none()
    {
        entry.task = Some(task.abort_handle());
    }
    let mut ended = ended;
    let _ = tokio::time::timeout(wait, ended.wait_for(|ended| *ended)).await;
    let answer = shown(&state, &call, &id, true)?;
    if !keeps_all && !answer["is_running"].as_bool().unwrap_or(true) {
        state.later.entries().remove(&id);
        let mut answer = answer;
        if let Some(object) = answer.as_object_mut() {
            object.remove("id");
        }
        return Ok(call.answer(answer));
    }
    Ok(call.answer(answer))
}

/// The state of a search, with its answer if there is one.
fn shown(state: &Elastic, call: &Call, id: &str, with_answer: bool) -> ElasticResult<Value> {
    let entries = state.later.entries();
    let entry = entries
        .get(id)
        .filter(|entry| entry.is_of(&call.caller.principal))
        .ok_or_else(|| unknown(id))?;
    let mut shown = json!({
        "id": id,
        "is_partial": entry.outcome.is_none(),
        "is_running": entry.outcome.is_none(),
        "start_time_in_millis": entry.started_ns / 1_000_000,
        "expiration_time_in_millis": entry.expires_ns / 1_000_000,
    });
    let shards = json!({ "total": 1, "successful": 0, "skipped": 0, "failed": 0 });
    match &entry.outcome {
        None if with_answer => {
            shown["response"] = json!({
                "took": 0, "timed_out": false, "_shards": shards,
                "hits": { "max_score": null, "hits": [] },
            });
        }
        None => shown["_shards"] = shards,
        Some(Ok(answer)) if with_answer => shown["response"] = answer.clone(),
        Some(Ok(answer)) => {
            shown["_shards"] = answer["_shards"].clone();
            shown["completion_status"] = 200.into();
        }
        Some(Err(error)) if with_answer => return Err(error.clone()),
        Some(Err(error)) => shown["completion_status"] = error.status.as_u16().into(),
    }
    Ok(shown)
}

/// Starts a search of all indices.
pub async fn submit_all(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    submit(state, call).await
}

/// Starts a search of some indices.
pub async fn submit_index(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    submit(state, call).await
}

/// The answer of a search.
pub async fn get(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    call.takes(&["wait_for_completion_timeout", "keep_alive", "typed_keys"])?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let mut ended = {
        let mut entries = state.later.entries();
        let entry = entries.get_mut(&id).filter(|entry| entry.is_of(&call.caller.principal));
        let entry = entry.ok_or_else(|| unknown(&id))?;
        if call.params.get("keep_alive").is_some() {
            let keep = keep_alive(&call)?;
            entry.ends = Instant::now() + keep;
            entry.expires_ns = now_ns().saturating_add(keep.as_nanos() as i64);
        }
        entry.ended.clone()
    };
    if call.params.get("wait_for_completion_timeout").is_some() {
        let wait = wait(&call)?;
        let _ = tokio::time::timeout(wait, ended.wait_for(|ended| *ended)).await;
    }
    Ok(call.answer(shown(&state, &call, &id, true)?))
}

/// The state of a search without its answer.
pub async fn status(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    call.takes(&["keep_alive"])?;
    let id = call.part("id").unwrap_or_default().to_owned();
    Ok(call.answer(shown(&state, &call, &id, false)?))
}

/// Ends a search, and forgets its answer.
pub async fn delete(State(state): State<Arc<Elastic>>, call: Call) -> ElasticResult {
    call.takes(&[])?;
    let id = call.part("id").unwrap_or_default().to_owned();
    shown(&state, &call, &id, false)?;
    let ended = state.later.entries().remove(&id);
    drop(ended);
    Ok((StatusCode::OK, call.answer(json!({ "acknowledged": true }))).into_response())
}
