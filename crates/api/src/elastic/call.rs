//! A call: its parameters, its body as JSON, and how its answer is written.

use std::collections::BTreeMap;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use elastic::Refused;
use elastic::leaf::Wild;
use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::access::params::{Params, ParamsAndText};
use crate::access::principal::Caller;
use crate::elastic::ElasticError;
use crate::wire::body::read_whole;
use crate::wire::error::ApiError;

/// Longest body, also when it is decompressed. A longer one is refused with 413.
///
/// limits.md, Queries: bytes of a request to Elasticsearch's API | {} | the request is refused
/// (413)
const BODY_BYTES_MAX: usize = 1 << 20;

/// Longest answer.
///
/// limits.md, Queries: bytes of an answer of Elasticsearch's API | {} | the request is refused
/// (400)
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// KiB of all answers that clients have not received yet. Beyond it requests are refused with 503.
const SENT_KIB_MAX: usize = 512 << 10;
static SENT: Semaphore = Semaphore::const_new(SENT_KIB_MAX);

/// Parameters of all calls that change only how an answer looks, or how a cluster of Elasticsearch
/// works inside.
const ANY: &[&str] = &[
    "pretty",
    "human",
    "error_trace",
    "filter_path",
    "format",
    "allow_no_indices",
    "expand_wildcards",
    "ignore_unavailable",
    "ignore_throttled",
    "preference",
    "routing",
    "master_timeout",
    "local",
    "extra_filters",
    "extra_stream_filters",
];

/// A request.
pub struct Call {
    /// The parameters of the address.
    pub params: Params,
    /// The body as it came.
    pub text: String,
    /// Who asks.
    pub caller: Caller,
    /// What varies in the path, by its name.
    path: BTreeMap<String, String>,
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = ElasticError;

    async fn from_request(request: Request, state: &S) -> Result<Call, ElasticError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, state).await?;
        let path = Path::<BTreeMap<String, String>>::from_request_parts(&mut parts, state).await;
        let path = path.map_or_else(|_| BTreeMap::new(), |Path(path)| path);
        let coding = parts.headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
        let body = match coding.as_deref() {
            None | Some(b"identity") => body,
            Some(b"gzip") => {
                let packed = read_whole(body, BODY_BYTES_MAX).await?.ok_or_else(too_long)?;
                let mut plain = Vec::new();
                let limit = BODY_BYTES_MAX as u64 + 1;
                let read = MultiGzDecoder::new(&packed[..]).take(limit).read_to_end(&mut plain);
                read.map_err(|error| {
                    ApiError::bad_request(format!("the body is not gzip: {error}"))
                })?;
                if plain.len() > BODY_BYTES_MAX {
                    return Err(too_long().into());
                }
                Body::from(plain)
            }
            Some(_) => {
                let message =
                    "the body is compressed in an unknown way; send it as it is, or as gzip";
                return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into());
            }
        };
        let request = Request::from_parts(parts, body);
        let ParamsAndText(params, text) = ParamsAndText::from_request(request, state).await?;
        Ok(Call { params, text, caller, path })
    }
}

fn too_long() -> ApiError {
    let message = format!("the body is longer than {BODY_BYTES_MAX} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

impl Call {
    /// What varies in the path.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.path.get(name).map(String::as_str)
    }

    /// The indices in the path; `*` without any.
    pub fn index(&self) -> String {
        self.part("index").unwrap_or("*").to_owned()
    }

    /// Refuses parameters that the call does not take.
    pub fn takes(&self, own: &[&str]) -> Result<(), ElasticError> {
        for (name, _) in self.params.pairs() {
            if !own.contains(&name.as_str()) && !ANY.contains(&name.as_str()) {
                let name = elastic::object::cut(&name);
                let mut known: Vec<&str> = own.iter().chain(ANY).copied().collect();
                known.sort_unstable();
                return Err(Refused::argument(format!(
                    "the parameter [{name}] is not understood here; there are: {}",
                    known.join(", ")
                ))
                .into());
            }
        }
        match self.params.get("format") {
            None | Some("json") => Ok(()),
            Some(_) => Err(Refused::argument("[format] takes json").into()),
        }
    }

    /// The body as JSON; an empty one is an empty object.
    pub fn body(&self) -> Result<Value, ElasticError> {
        if self.text.trim().is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_str(&self.text)
            .map_err(|error| Refused::parsing(format!("the body is not JSON: {error}")).into())
    }

    /// Whether names of indices that there are not are passed over.
    pub fn is_lenient(&self) -> bool {
        self.params.flag("ignore_unavailable")
    }

    /// The answer, with the parts that `filter_path` names.
    pub fn answer(&self, value: Value) -> Response {
        let Some(paths) = self.params.get("filter_path") else {
            return sent(&value);
        };
        let (mut includes, mut excludes) = (Vec::new(), Vec::new());
        for path in paths.split(',') {
            let (list, path) = match path.strip_prefix('-') {
                Some(path) => (&mut excludes, path),
                None => (&mut includes, path),
            };
            list.push(path.split('.').map(Wild::parse).collect::<Vec<_>>());
        }
        let mut value = value;
        if !includes.is_empty() {
            let all: Vec<&[Vec<Wild>]> = includes.iter().map(Vec::as_slice).collect();
            value = kept(&value, &all).unwrap_or_else(|| json!({}));
        }
        let all: Vec<&[Vec<Wild>]> = excludes.iter().map(Vec::as_slice).collect();
        remove(&mut value, &all);
        sent(&value)
    }
}

/// An answer that is being sent, and its share of the limit on all of them.
struct Sent {
    bytes: Vec<u8>,
    _part: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The answer as JSON. One that is too long, or for which the answers that clients have not read
/// yet leave no memory, is refused.
fn sent(value: &Value) -> Response {
    let bytes = serde_json::to_vec(value).expect("a value is JSON");
    if bytes.len() > ANSWER_BYTES_MAX {
        return ElasticError::from(too_long_answer()).into_response();
    }
    let Ok(part) = SENT.try_acquire_many((bytes.len() >> 10) as u32) else {
        return ElasticError::from(ApiError::unavailable(
            "the answers that are being sent to clients take too much memory; try again, or request less",
        ))
        .into_response();
    };
    let body = Body::from(Bytes::from_owner(Sent { bytes, _part: part }));
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

fn too_long_answer() -> Refused {
    Refused::argument(format!(
        "the answer has more than {ANSWER_BYTES_MAX} bytes; request fewer hits or buckets, or parts of them with _source or filter_path"
    ))
}

/// The bytes of an answer that has so many, with one more part; an error if that is longer than an
/// answer may be.
pub fn longer(bytes: usize, part: &Value) -> Result<usize, Refused> {
    let mut counted = Counted(bytes);
    serde_json::to_writer(&mut counted, part).map_err(|_| too_long_answer())?;
    Ok(counted.0)
}

/// Counts the bytes that are written, up to the longest answer, and keeps none.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        match self.0 <= ANSWER_BYTES_MAX {
            true => Ok(bytes.len()),
            false => Err(std::io::Error::other("the answer is too long")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is left of some paths behind a name; `**` stands for any names.
fn behind<'p>(paths: &[&'p [Vec<Wild>]], name: &str) -> Vec<&'p [Vec<Wild>]> {
    let is_any = |part: &[Wild]| part == [Wild::Any];
    let mut left = Vec::new();
    for path in paths {
        let Some((first, rest)) = path.split_first() else { continue };
        if Wild::matches(first, name) {
            left.push(rest);
        }
        // `**` is read as `*`, and a lone `*` stands for names in between as well.
        if is_any(first) && !rest.is_empty() {
            left.push(path);
            if rest.first().is_some_and(|next| Wild::matches(next, name)) {
                left.push(&rest[1..]);
            }
        }
    }
    // Each rest of a path once: a path with many `*` has many ways to stand for the same.
    let place = |path: &&[Vec<Wild>]| (path.as_ptr(), path.len());
    left.sort_unstable_by_key(place);
    left.dedup_by_key(|path| place(path));
    left
}

fn kept(value: &Value, paths: &[&[Vec<Wild>]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) => {
            let mut found = Map::new();
            for (name, value) in object {
                let left = behind(paths, name);
                if let Some(value) = (!left.is_empty()).then(|| kept(value, &left)).flatten() {
                    found.insert(name.clone(), value);
                }
            }
            (!found.is_empty()).then_some(Value::Object(found))
        }
        Value::Array(values) => {
            let found: Vec<Value> = values.iter().filter_map(|value| kept(value, paths)).collect();
            (!found.is_empty()).then_some(Value::Array(found))
        }
        _ => None,
    }
}

fn remove(value: &mut Value, paths: &[&[Vec<Wild>]]) {
    if paths.is_empty() {
        return;
    }
    match value {
        Value::Object(object) => {
            object.retain(|name, _| !behind(paths, name).iter().any(|path| path.is_empty()));
            for (name, value) in object.iter_mut() {
                remove(value, &behind(paths, name));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| remove(value, paths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_up_to_the_longest_answer() {
        let part = json!("abc");
        assert_eq!(longer(0, &part), Ok(5));
        assert_eq!(longer(ANSWER_BYTES_MAX - 5, &part), Ok(ANSWER_BYTES_MAX));
        let refused = longer(ANSWER_BYTES_MAX - 4, &part).unwrap_err();
        assert!(refused.reason.contains("fewer hits"), "{refused}");
    }

    #[test]
    fn parts_of_answers() {
        let value = json!({"took": 1, "hits": {"total": 2, "hits": [{"_id": "a", "_source": {"x": 1}}, {"_id": "b"}]}});
        let check = |path: &str, expected: Value| {
            let path: Vec<Vec<Wild>> = path.split('.').map(Wild::parse).collect();
            assert_eq!(kept(&value, &[&path]).unwrap_or(Value::Null), expected);
        };
        check("took", json!({"took": 1}));
        check("hits.hits._id", json!({"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}}));
        check("hits.hits._source", json!({"hits": {"hits": [{"_source": {"x": 1}}]}}));
        check("**._id", json!({"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}}));
        check("h*.total", json!({"hits": {"total": 2}}));
        check("none", Value::Null);
        let mut rest = value.clone();
        let path: Vec<Vec<Wild>> = ["hits", "hits"].into_iter().map(Wild::parse).collect();
        remove(&mut rest, &[&path]);
        assert_eq!(rest, json!({"took": 1, "hits": {"total": 2}}));
    }
}
