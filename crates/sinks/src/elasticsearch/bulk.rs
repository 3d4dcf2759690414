//! Bodies of `_bulk`, and what its answers mean for each document.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use text::time::format_time_digits;

use crate::destination::{Delivered, Fault, Outcome};
use crate::document::{Document, write_value};
use crate::elasticsearch::{ElasticsearchOptions, Operation, Target, TimeType};
use crate::http::{Client, Reply, judge};

/// Elasticsearch and OpenSearch refuse longer ids.
const ID_BYTES_MAX: usize = 512;

/// The body for the first documents of a batch.
pub struct Encoded {
    /// Pairs of lines: action and document. A deletion is an action alone.
    pub body: Vec<u8>,
    /// For each document that the body covers: `None` if it is in the body, or why it is not.
    pub outcomes: Vec<Option<Outcome>>,
}

/// Encodes documents up to the size limit of a body, and up to a document whose id is in the body
/// already: the server could put off the first of the two and take the second, and the order of
/// changes to one id counts.
pub fn encode(options: &ElasticsearchOptions, documents: &[Document]) -> Encoded {
    let mut body = Vec::new();
    let mut outcomes = Vec::new();
    let mut ids = HashSet::new();
    for document in documents {
        if document.is_delete() && matches!(options.target, Target::DataStream(_)) {
            outcomes.push(Some(Outcome::Ignored));
            continue;
        }
        if document.id.is_empty() || document.id.len() > ID_BYTES_MAX {
            let reason = format!("an id has 1 to {ID_BYTES_MAX} bytes, not {}", document.id.len());
            outcomes.push(Some(Outcome::Rejected(reason)));
            continue;
        }
        if !ids.insert(document.id.as_str()) {
            break;
        }
        let start = body.len();
        write_pair(options, document, &mut body);
        let bytes = body.len() - start;
        if bytes > options.body_bytes_max {
            body.truncate(start);
            let reason = format!(
                "the document has {bytes} bytes, more than body_bytes_max ({})",
                options.body_bytes_max
            );
            outcomes.push(Some(Outcome::Rejected(reason)));
        } else if body.len() > options.body_bytes_max {
            body.truncate(start);
            break;
        } else {
            outcomes.push(None);
        }
    }
    Encoded { body, outcomes }
}

fn write_pair(options: &ElasticsearchOptions, document: &Document, body: &mut Vec<u8>) {
    let action: &[u8] = match options.operation {
        _ if document.is_delete() => b"{\"delete\":{\"_id\":",
        Operation::Create => b"{\"create\":{\"_id\":",
        Operation::Index => b"{\"index\":{\"_id\":",
    };
    body.extend_from_slice(action);
    write_value(&document.id, body);
    if let Target::Index(pattern) = &options.target
        && !pattern.is_fixed()
    {
        body.extend_from_slice(b",\"_index\":");
        write_value(&pattern.at(document.time_ns), body);
    }
    body.extend_from_slice(b"}}\n");
    if document.is_delete() {
        return;
    }
    let time = match options.time_type {
        TimeType::Date => format_time_digits(document.time_ns, 3),
        TimeType::DateNanos => format_time_digits(document.time_ns, 9),
    };
    document.write_json_as(&[(&options.time_field, &time)], |name| name_of(document, name), body);
    body.push(b'\n');
}

/// The name of a field in the index. Elasticsearch has metadata fields whose names begin with an
/// underscore, and refuses documents with some of them: `_msg` becomes `message`, `_type`
/// `log_type`, and so on. A field that the line brings under that name has it; ours is then left
/// out.
fn name_of<'n>(document: &Document, name: &'n str) -> Option<Cow<'n, str>> {
    let Some(own) = name.strip_prefix('_') else { return Some(Cow::Borrowed(name)) };
    let renamed = match own {
        "msg" => "message".to_owned(),
        own => format!("log_{own}"),
    };
    document.field(&renamed).is_none().then_some(Cow::Owned(renamed))
}

/// The outcomes of the documents in a body.
#[derive(Debug)]
pub struct Judged {
    pub outcomes: Vec<Outcome>,
    pub retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct Answer {
    errors: bool,
    #[serde(default)]
    items: Vec<std::collections::BTreeMap<String, Item>>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    error: Option<ItemError>,
}

#[derive(Deserialize, Default)]
struct ItemError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    caused_by: Option<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: Option<String>,
}

/// What a successful response says about each of `count` documents. Any other text than the answer
/// of a bulk request means that something else answered: nothing counts as delivered.
pub fn judge(
    client: &Client,
    reply: &Reply,
    count: usize,
    operation: Operation,
) -> Result<Judged, Delivered> {
    let other = || {
        let what = format!(
            "{}, which is no answer to a bulk request of {count} documents",
            judge::describe(client, reply)
        );
        let remedy = "check that the address is that of Elasticsearch or OpenSearch itself";
        Delivered::unavailable(Fault::new(what, remedy))
    };
    let answer: Answer = serde_json::from_str(&reply.body).map_err(|_| other())?;
    if answer.items.len() != count {
        return Err(other());
    }
    let mut outcomes = Vec::with_capacity(count);
    for item in answer.items {
        let (action, item) = item.into_iter().next().ok_or_else(other)?;
        outcomes.push(outcome(client, item, operation, action == "delete"));
    }
    let is_accepted = |outcome: &Outcome| *outcome == Outcome::Accepted;
    if !answer.errors && !outcomes.iter().all(is_accepted) {
        return Err(other());
    }
    Ok(Judged { outcomes, retry_after: reply.retry_after })
}

fn outcome(client: &Client, item: Item, operation: Operation, is_delete: bool) -> Outcome {
    let status = item.status;
    if (200..300).contains(&status) || is_delete && status == 404 {
        // What is to be deleted, or its whole index, may not be there.
        return Outcome::Accepted;
    }
    let error = item.error.unwrap_or_default();
    if status == 409 && operation == Operation::Create && !is_delete {
        // A document with this id is there: this one, since ids are derived from what they name.
        return Outcome::Accepted;
    }
    let what = excerpt(client, status, &error);
    let remedy = match status {
        409 => "another writer changed the document at the same moment; the sink sends it again",
        403 | 429 if is_read_only(&error) => {
            "free disk space on the server, which allows no writes until then; before version 7.4, \
             and if an administrator set the block, also reset index.blocks.read_only_allow_delete"
        }
        429 => "the server is overloaded; the sink waits",
        401 | 403 => {
            "give the credentials the right to write to this index, and lift any block of writes"
        }
        404 => "create the index or data stream, or let the server create indices automatically",
        500.. => "see the log of the server",
        _ => match remedy_of_cluster(&error) {
            Some(remedy) => remedy,
            None => return Outcome::Rejected(what),
        },
    };
    Outcome::Retry(Fault::new(what, remedy))
}

/// Whether the server blocks an index because its disk is nearly full. Until 7.7 that has the
/// status 403, later 429.
fn is_read_only(error: &ItemError) -> bool {
    let reason = error.reason.as_deref().unwrap_or_default();
    error.kind == "cluster_block_exception"
        && (reason.contains("read-only") || reason.contains("disk usage exceeded"))
}

/// The remedy of an error with status 400 that is about the cluster or the sink's options, and not
/// about the document.
fn remedy_of_cluster(error: &ItemError) -> Option<&'static str> {
    let reason = error.reason.as_deref().unwrap_or_default();
    if error.kind == "validation_exception" && reason.contains("shards open") {
        Some("delete old indices, raise cluster.max_shards_per_node, or add nodes")
    } else if reason.contains("pipeline with id") && reason.contains("does not exist") {
        Some("create the ingest pipeline, or correct `pipeline`")
    } else if reason.contains("no write index is defined") {
        Some("give the alias a write index")
    } else if reason.contains("data streams") && reason.contains("op_type of create") {
        Some("set `operation = \"create\"`, because the name is that of a data stream")
    } else {
        None
    }
}

fn excerpt(client: &Client, status: u16, error: &ItemError) -> String {
    let reason = error.reason.as_deref().unwrap_or("no reason given");
    let cause = error.caused_by.as_ref().and_then(|cause| cause.reason.as_deref());
    let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    judge::excerpt(client, &format!("status {status}, {}: {reason}{cause}", error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_are_not_used() {
        let field = |name: &str| (name.to_owned(), crate::Value::from("x"));
        let fields = ["_msg", "_type", "_level", "level", "a._b", "log_note", "_note"].map(field);
        let document = Document::new("id", 0, fields.to_vec());
        let names: Vec<Option<Cow<'_, str>>> =
            document.fields.iter().map(|(name, _)| name_of(&document, name)).collect();
        let named = |name: &'static str| Some(Cow::Borrowed(name));
        let expected = ["message", "log_type", "log_level", "level", "a._b", "log_note"].map(named);
        assert_eq!(names[..6], expected);
        assert_eq!(names[6], None, "the field of the line has the name");
    }
    use crate::http::{ClientOptions, Credentials};

    fn judged(body: &str, count: usize, operation: Operation) -> Result<Vec<String>, Delivered> {
        let client = Client::new(&ClientOptions {
            urls: vec!["http://127.0.0.1:1".to_owned()],
            credentials: Credentials::None,
            headers: Vec::new(),
            ca: None,
            connect_time_max: Duration::from_secs(1),
            request_time_max: Duration::from_secs(1),
        });
        let reply = Reply {
            status: 200,
            retry_after: None,
            body: body.to_owned(),
            url: "http://SERVER/_bulk?x".to_owned(),
        };
        let judged = judge(&client.unwrap(), &reply, count, operation)?;
        let text = |outcome: Outcome| match outcome {
            Outcome::Accepted | Outcome::Ignored => "accepted".to_owned(),
            Outcome::Rejected(reason) => format!("rejected: {reason}"),
            Outcome::Retry(fault) => format!("retry: {}", fault.what),
        };
        Ok(judged.outcomes.into_iter().map(text).collect())
    }

    #[test]
    fn each_item_has_its_outcome() {
        let body = r#"{"errors":true,"items":[
            {"create":{"status":201}},
            {"create":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"exists"}}},
            {"create":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"queue full"}}},
            {"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse",
                "caused_by":{"reason":"For input string: \"x\""}}}},
            {"create":{"status":400,"error":{"type":"validation_exception",
                "reason":"this cluster currently has [1000]/[1000] maximum normal shards open;"}}},
            {"create":{"status":503,"error":{"type":"unavailable_shards_exception","reason":null}}},
            {"create":{"status":404,"error":{"type":"index_not_found_exception","reason":"no such index"}}}
        ]}"#;
        let found = judged(body, 7, Operation::Create).unwrap();
        assert_eq!(
            found,
            [
                "accepted",
                "accepted",
                "retry: status 429, es_rejected_execution_exception: queue full",
                "rejected: status 400, mapper_parsing_exception: failed to parse (For input string: \"x\")",
                "retry: status 400, validation_exception: this cluster currently has [1000]/[1000] \
                 maximum normal shards open;",
                "retry: status 503, unavailable_shards_exception: no reason given",
                "retry: status 404, index_not_found_exception: no such index",
            ]
        );
        let body = r#"{"errors":true,"items":[
            {"delete":{"status":200}},
            {"delete":{"status":404}},
            {"delete":{"status":404,"error":{"type":"index_not_found_exception","reason":"x"}}},
            {"delete":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"x"}}},
            {"create":{"status":403,"error":{"type":"cluster_block_exception","reason":
                "index [a] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"}}},
            {"create":{"status":429,"error":{"type":"cluster_block_exception","reason":
                "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage \
                 watermark, index has read-only-allow-delete block];"}}},
            {"create":{"status":400,"error":{"type":"strict_dynamic_mapping_exception","reason":"x"}}}
        ]}"#
        .replace("\\\n                 ", "");
        let found = judged(&body, 7, Operation::Create).unwrap();
        let kinds: Vec<&str> = found.iter().map(|text| text.split(':').next().unwrap()).collect();
        assert_eq!(
            kinds,
            ["accepted", "accepted", "accepted", "retry", "retry", "retry", "rejected"],
            "{found:?}"
        );
        let conflict = r#"{"errors":true,"items":[{"index":{"status":409}}]}"#;
        assert!(judged(conflict, 1, Operation::Index).unwrap()[0].starts_with("retry"));
    }

    #[test]
    fn other_answers_deliver_nothing() {
        for body in [
            "",
            "{}",
            "<html>",
            r#"{"errors":false}"#,
            r#"{"errors":false,"items":[]}"#,
            r#"{"errors":false,"items":[{}]}"#,
            r#"{"errors":false,"items":[{"create":{"status":400}}]}"#,
            r#"{"errors":false,"items":[{"create":{"status":201}},{"create":{"status":201}}]}"#,
        ] {
            let delivered = judged(body, 1, Operation::Create).unwrap_err();
            assert!(matches!(delivered, Delivered::Unavailable { .. }), "{body}: {delivered:?}");
        }
    }
}
