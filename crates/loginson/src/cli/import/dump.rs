//! Records in dumps of other programs, as JSON:
//!
//! | program | form |
//! |---|---|
//! | Elasticsearch | an answer with `hits.hits`, or a hit in each line (elasticdump); `_source` is the record |
//! | Loki | lines of `logcli -o jsonl`: `line`, `timestamp`, `labels`; an answer of `query_range` |
//! | VictoriaLogs | lines with `_time`, `_msg`, `_stream` |
//! | Splunk | `result` or `results` with `_raw` and `_time` |
//! | CloudWatch | `events` or `logEvents` with `timestamp` and `message`; `logStream`, `logGroup` |
//! | systemd's journal | `journalctl -o json` |
//!
//! A record becomes a JSON line with `_time` and `_msg`, or the document itself, of which the
//! server finds time, host and level. Labels name the stream. Left out: what describes the position
//! of a record in its old store (`_id`, `_cd`, `eventId`, …).

use serde_json::{Map, Value, json};

/// A record.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Its JSON line, without newline.
    pub line: Vec<u8>,
    /// Fields that name its stream.
    pub stream_fields: Vec<String>,
}

impl Unpacked {
    fn new(record: Map<String, Value>, stream_fields: Vec<String>) -> Unpacked {
        let line = serde_json::to_vec(&Value::Object(record)).expect("its keys are text");
        Unpacked { line, stream_fields }
    }
}

/// Texts of which a document that is a dump holds all of one group.
const SIGNS: [&[&[u8]]; 6] = [
    &[b"\"_source\""],
    &[b"\"resultType\"", b"\"streams\""],
    &[b"\"_raw\""],
    &[b"\"events\"", b"\"timestamp\"", b"\"message\""],
    &[b"\"logEvents\""],
    &[b"\"__REALTIME_TIMESTAMP\""],
];

/// Whether a document may be a dump, by its beginning.
pub fn has_signs(start: &[u8]) -> bool {
    let has = |sign: &&[u8]| memchr::memmem::find(start, sign).is_some();
    SIGNS.iter().any(|group| group.iter().all(has))
}

/// The records of a value, which is one itself if it is not of a known form.
pub fn unpack_any(value: Value) -> Vec<Unpacked> {
    let as_it_is = || Unpacked { line: value.to_string().into_bytes(), stream_fields: Vec::new() };
    unpack(value.clone()).unwrap_or_else(|| vec![as_it_is()])
}

/// The records of a value of a known form.
pub fn unpack(value: Value) -> Option<Vec<Unpacked>> {
    let Value::Object(mut object) = value else { return None };
    if let Some(Value::Object(source)) = object.get_mut("_source") {
        return Some(vec![Unpacked::new(std::mem::take(source), Vec::new())]);
    }
    if let Some(Value::Array(hits)) = object.get_mut("hits").and_then(|hits| hits.get_mut("hits")) {
        return all(std::mem::take(hits), unpack);
    }
    if object.contains_key("_raw") && object.contains_key("_time") {
        return Some(vec![of_splunk(object)]);
    }
    for key in ["result", "results"] {
        match object.get_mut(key) {
            Some(Value::Object(result)) if result.contains_key("_raw") => {
                return Some(vec![of_splunk(std::mem::take(result))]);
            }
            Some(Value::Array(results)) if !results.is_empty() => {
                let is_splunk = |result: &Value| result.get("_raw").is_some();
                if results.iter().all(is_splunk) {
                    return all(std::mem::take(results), unpack);
                }
            }
            _ => {}
        }
    }
    if let Some(Value::Array(streams)) =
        object.get_mut("data").and_then(|data| data.get_mut("result"))
    {
        return all(std::mem::take(streams), of_loki_stream);
    }
    if object.contains_key("labels") && object.contains_key("timestamp") {
        return of_logcli(object);
    }
    if object.contains_key("_stream") && object.contains_key("_time") {
        return Some(vec![of_victoria_logs(object)]);
    }
    if object.contains_key("__REALTIME_TIMESTAMP") && object.contains_key("__CURSOR") {
        return super::journal::line_of(&object).map(|line| vec![line]);
    }
    of_cloud_watch(object)
}

/// The records of all values; `None` if one of them is of another form.
fn all(values: Vec<Value>, each: impl Fn(Value) -> Option<Vec<Unpacked>>) -> Option<Vec<Unpacked>> {
    let mut records = Vec::new();
    for value in values {
        records.extend(each(value)?);
    }
    Some(records)
}

fn of_splunk(mut result: Map<String, Value>) -> Unpacked {
    let raw = result.remove("_raw").unwrap_or_default();
    let time = result.remove("_time").unwrap_or_default();
    // The others with this sign are Splunk's own.
    result.retain(|name, _| !name.starts_with('_'));
    result.insert("_time".into(), time);
    result.insert("_msg".into(), raw);
    Unpacked::new(result, Vec::new())
}

fn of_logcli(mut entry: Map<String, Value>) -> Option<Vec<Unpacked>> {
    let line = entry.remove("line").or_else(|| entry.remove("Line"))?;
    let Some(Value::Object(labels)) = entry.remove("labels") else { return None };
    let time = entry.remove("timestamp")?;
    Some(vec![labelled(labels, time, line)])
}

/// A record with labels, which name its stream.
pub fn labelled(labels: Map<String, Value>, time: Value, line: Value) -> Unpacked {
    let names = labels.keys().cloned().collect();
    let mut record = labels;
    record.insert("_time".into(), time);
    record.insert("_msg".into(), line);
    Unpacked::new(record, names)
}

/// `{"stream":{…},"values":[["TIME","LINE"],…]}`
fn of_loki_stream(mut stream: Value) -> Option<Vec<Unpacked>> {
    let Some(Value::Array(values)) = stream.get_mut("values").map(Value::take) else { return None };
    let Some(Value::Object(labels)) = stream.get_mut("stream").map(Value::take) else {
        return None;
    };
    let mut records = Vec::new();
    for value in values {
        let Value::Array(parts) = value else { return None };
        let mut parts = parts.into_iter();
        let (time, line) = (parts.next()?, parts.next()?);
        records.push(labelled(labels.clone(), time, line));
    }
    Some(records)
}

fn of_victoria_logs(mut record: Map<String, Value>) -> Unpacked {
    let stream = record.remove("_stream").unwrap_or_default();
    record.remove("_stream_id");
    let names = stream.as_str().map(names_of_stream).unwrap_or_default();
    Unpacked::new(record, names)
}

/// The names in `{a="b",c="d"}`.
fn names_of_stream(stream: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = stream.trim().trim_start_matches('{');
    while let Some((name, value)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(',').trim().trim_matches('"').to_owned());
        let mut escaped = false;
        let end = value.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = end.map_or("", |end| &value[end + 1..]);
    }
    names
}

fn of_cloud_watch(mut object: Map<String, Value>) -> Option<Vec<Unpacked>> {
    let events = object.remove("events").or_else(|| object.remove("logEvents"))?;
    let Value::Array(events) = events else { return None };
    let given = |names: [&str; 2]| names.iter().find_map(|name| object.get(*name)).cloned();
    let (stream, group) =
        (given(["logStream", "logStreamName"]), given(["logGroup", "logGroupName"]));
    let mut records = Vec::new();
    for event in events {
        let Value::Object(mut event) = event else { return None };
        let (time, message) = (event.remove("timestamp")?, event.remove("message")?);
        let mut record = json!({ "_time": time, "_msg": message });
        let stream = event.remove("logStreamName").or_else(|| stream.clone());
        for (name, value) in [("logStream", stream), ("logGroup", group.clone())] {
            if let Some(value) = value {
                record[name] = value;
            }
        }
        let Value::Object(record) = record else { unreachable!("it was made as an object") };
        let names = ["logGroup", "logStream"].map(str::to_owned);
        records.push(Unpacked::new(record, names.into()));
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Value], streams: &[&str]) {
        let value: Value = serde_json::from_str(text).unwrap();
        let records = unpack(value).unwrap_or_else(|| panic!("not recognised: {text}"));
        let found: Vec<Value> =
            records.iter().map(|r| serde_json::from_slice(&r.line).unwrap()).collect();
        assert_eq!(found, expected, "{text}");
        assert!(records.iter().all(|record| record.stream_fields == streams), "{text}");
    }

    #[test]
    fn dumps_of_other_programs() {
        let a = json!({"@timestamp": "2026-01-31T12:00:00Z", "message": "a"});
        check(
            &json!({"_index": "i", "_id": "1", "_score": 1.0, "_source": a}).to_string(),
            std::slice::from_ref(&a),
            &[],
        );
        let answer =
            json!({"took": 1, "hits": {"total": 2, "hits": [{"_source": a}, {"_source": a}]}});
        check(&answer.to_string(), &[a.clone(), a.clone()], &[]);
        let logcli = r#"{"labels":{"app":"cart","host":"web1"},"line":"boom","timestamp":"2026-01-31T12:00:00.5Z"}"#;
        let cart =
            |time: &str| json!({"_time": time, "_msg": "boom", "app": "cart", "host": "web1"});
        check(logcli, &[cart("2026-01-31T12:00:00.5Z")], &["app", "host"]);
        let loki = json!({"status": "success", "data": {"resultType": "streams", "result": [
            {"stream": {"app": "cart", "host": "web1"}, "values": [["1769860800000000000", "boom"], ["1769860801000000000", "boom", {}]]}
        ]}});
        check(
            &loki.to_string(),
            &[cart("1769860800000000000"), cart("1769860801000000000")],
            &["app", "host"],
        );
        check(
            r#"{"_time":"2026-01-31T12:00:00Z","_msg":"x","_stream_id":"0","_stream":"{a=\"b,c=\\\"\",d=\"e\"}","a":"b,c=\"","d":"e"}"#,
            &[json!({"_time": "2026-01-31T12:00:00Z", "_msg": "x", "a": "b,c=\"", "d": "e"})],
            &["a", "d"],
        );
        let event = json!({"_raw": "x", "_time": "2026-01-31T12:00:00.000+00:00", "host": "web1", "_cd": "1:2"});
        let plain = json!({"_msg": "x", "_time": "2026-01-31T12:00:00.000+00:00", "host": "web1"});
        check(
            &json!({"preview": false, "result": event}).to_string(),
            std::slice::from_ref(&plain),
            &[],
        );
        check(&json!({"results": [event]}).to_string(), std::slice::from_ref(&plain), &[]);
        check(&event.to_string(), &[plain], &[]);
        let record =
            json!({"_time": 1_769_860_800_000_u64, "_msg": "m", "logStream": "s", "logGroup": "g"});
        let names = ["logGroup", "logStream"];
        let event = json!({"id": "1", "timestamp": 1_769_860_800_000_u64, "message": "m", "ingestionTime": 1});
        check(
            &json!({"logGroup": "g", "logStream": "s", "logEvents": [event]}).to_string(),
            std::slice::from_ref(&record),
            &names,
        );
        let event = json!({"timestamp": 1_769_860_800_000_u64, "message": "m", "logStreamName": "s", "eventId": "1"});
        check(&json!({"events": [event], "logGroupName": "g"}).to_string(), &[record], &names);
    }

    #[test]
    fn other_objects_are_no_dumps() {
        for text in [
            "{}",
            "[]",
            r#"{"message":"m","timestamp":"2026-01-31T12:00:00Z"}"#,
            r#"{"_time":"2026-01-31T12:00:00Z","_msg":"m"}"#,
            r#"{"events":3,"hits":{"hits":2},"result":"ok","data":[],"labels":{},"timestamp":1}"#,
            r#"{"results":[]}"#,
            r#"{"events":[{"a":1}]}"#,
        ] {
            assert_eq!(unpack(serde_json::from_str(text).unwrap()), None, "{text}");
        }
    }
}
