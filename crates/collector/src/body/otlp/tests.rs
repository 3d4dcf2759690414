//! Requests of SDKs, random ones beside a model of what a line should be, damage and limits.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// The lines of a request, and what was rejected. Small pieces and one large one give the same.
fn lines(format: Format, content: &[u8]) -> Result<(String, Option<Rejected>), ExportError> {
    let mut whole = Vec::new();
    let mut export = Export::read(format, content)?;
    assert!(!export.write(&mut whole, usize::MAX));
    let mut in_pieces = Vec::new();
    let mut pieces = Export::read(format, content)?;
    loop {
        let mut piece = Vec::new();
        let has_more = pieces.write(&mut piece, 1);
        in_pieces.extend(piece);
        if !has_more {
            break;
        }
    }
    assert_eq!(in_pieces, whole);
    assert_eq!(pieces.rejected(), export.rejected());
    Ok((String::from_utf8(whole).expect("lines are UTF-8"), export.rejected()))
}

fn check(format: Format, content: &[u8], expected: &str) {
    let (found, rejected) = lines(format, content).unwrap();
    assert_eq!(found, expected);
    assert_eq!(rejected, None);
    for line in found.lines() {
        serde_json::from_str::<Map<String, Value>>(line).unwrap();
    }
}

#[test]
fn requests_of_sdks() {
    check(
        Format::Protobuf,
        include_bytes!("testdata/python-1.45.pb"),
        concat!(
            r#"{"_msg":"stock \"low\"\nof ü","_time":"2026-01-31T12:00:00.000000001Z","severity_text":"WARN","severity_number":13,"event_name":"stock.low","http.status_code":503,"ratio":0.25,"ok":true,"tags":["x",1],"nested":{"a":{"b":1}},"attributes.host.name":"db1","raw":"AP8=","service.name":"shop","service.namespace":"eu","host.name":"web1","n":7,"args":["a","b"],"scope.name":"checkout","scope.version":"1.2"}"#,
            "\n",
            r#"{"_time":"2026-01-31T12:00:00.000000003Z","severity_number":9,"message":"started","pid":3,"service.name":"shop","service.namespace":"eu","host.name":"web1","n":7,"args":["a","b"],"scope.name":"checkout","scope.version":"1.2"}"#,
            "\n"
        ),
    );
    let first = |big: &str| {
        format!(
            r#"{{"_msg":"payment failed \"é\"","_time":"2026-01-31T12:00:00.000000005Z","severity_text":"ERROR","severity_number":17,"event_name":"pay.failed","user.id":42,"big":{big},"ratio":0.5,"ok":false,"list":[1,"a"],"deep":{{"a":{{"b":[true]}}}},"text":"a\nb","service.name":"cart","host.name":"web2","scope.name":"cart","scope.version":"2.0"}}"#
        )
    };
    let second = r#""severity_number":9,"message":"structured","n":1,"service.name":"cart","host.name":"web2","scope.name":"cart","scope.version":"2.0"}"#;
    for (format, content, big) in [
        (Format::Json, &include_bytes!("testdata/javascript-0.223.json")[..], "1e+21"),
        (Format::Protobuf, include_bytes!("testdata/javascript-0.223.pb"), "1e21"),
    ] {
        let (found, rejected) = lines(format, content).unwrap();
        let (one, two) = found.split_once('\n').unwrap();
        assert_eq!(one, first(big));
        assert!(two.trim_end().ends_with(second), "{two}");
        assert_eq!(rejected, None);
    }
}

/// A message of protobuf.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(mut self, field: u64, content: impl AsRef<[u8]>) -> Message {
        let content = content.as_ref();
        self.varint(field << 3 | 2);
        self.varint(content.len() as u64);
        self.0.extend_from_slice(content);
        self
    }

    fn number(mut self, field: u64, number: u64) -> Message {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn fixed64(mut self, field: u64, number: u64) -> Message {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn fixed32(mut self, field: u64, number: u32) -> Message {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn attributes(self, field: u64, attributes: &[(String, Any)]) -> Message {
        let pair =
            |(key, value): &(String, Any)| message().bytes(1, key).bytes(2, value.protobuf().0).0;
        attributes.iter().fold(self, |message, of| message.bytes(field, pair(of)))
    }
}

fn message() -> Message {
    Message::default()
}

fn request(records: &[Message]) -> Vec<u8> {
    let scope = records.iter().fold(message(), |scope, record| scope.bytes(2, &record.0));
    message().bytes(1, message().bytes(2, scope.0).0).0
}

/// The reference model of a value.
#[derive(Clone, Debug)]
enum Any {
    Empty,
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
    List(Vec<Any>),
    Members(Vec<(String, Any)>),
}

impl Any {
    fn protobuf(&self) -> Message {
        match self {
            Any::Empty => message(),
            Any::Text(text) => message().bytes(1, text),
            Any::Bool(value) => message().number(2, u64::from(*value)),
            Any::Int(number) => message().number(3, *number as u64),
            Any::Double(number) => message().fixed64(4, number.to_bits()),
            Any::List(list) => {
                let content = list.iter().fold(message(), |m, item| m.bytes(1, item.protobuf().0));
                message().bytes(5, content.0)
            }
            Any::Members(list) => message().bytes(6, message().attributes(1, list).0),
            Any::Bytes(bytes) => message().bytes(7, bytes),
        }
    }

    fn json(&self) -> Value {
        match self {
            Any::Empty => json!({}),
            Any::Text(text) => json!({ "stringValue": text }),
            Any::Bool(value) => json!({ "boolValue": value }),
            Any::Int(number) => json!({ "intValue": number.to_string() }),
            Any::Double(number) => json!({ "doubleValue": number }),
            Any::Bytes(bytes) => json!({ "bytesValue": STANDARD.encode(bytes) }),
            Any::List(list) => {
                let values: Vec<Value> = list.iter().map(Any::json).collect();
                json!({ "arrayValue": { "values": values } })
            }
            Any::Members(list) => json!({ "kvlistValue": { "values": pairs(list) } }),
        }
    }

    /// The value in a line.
    fn shown(&self) -> Value {
        match self {
            Any::Empty => Value::Null,
            Any::Text(text) => json!(text),
            Any::Bool(value) => json!(value),
            Any::Int(number) => json!(number),
            Any::Double(number) => json!(number),
            Any::Bytes(bytes) => json!(STANDARD.encode(bytes)),
            Any::List(list) => list.iter().map(Any::shown).collect(),
            Any::Members(list) => {
                let filled = list.iter().filter(|(_, value)| !matches!(value, Any::Empty));
                Value::Object(filled.map(|(key, value)| (key.clone(), value.shown())).collect())
            }
        }
    }
}

fn pairs(list: &[(String, Any)]) -> Vec<Value> {
    list.iter().map(|(key, value)| json!({ "key": key, "value": value.json() })).collect()
}

/// The reference model of a record.
#[derive(Clone, Debug)]
struct Model {
    time_ns: u64,
    observed_ns: u64,
    severity_number: u64,
    severity_text: String,
    body: Any,
    attributes: Vec<(String, Any)>,
    dropped: u32,
    flags: u32,
    trace_id: Vec<u8>,
    event_name: String,
}

impl Model {
    fn protobuf(&self) -> Message {
        message()
            .bytes(5, self.body.protobuf().0)
            .attributes(6, &self.attributes)
            .fixed64(11, self.observed_ns)
            .fixed64(1, self.time_ns)
            .number(2, self.severity_number)
            .bytes(3, &self.severity_text)
            .number(7, self.dropped.into())
            .fixed32(8, self.flags)
            .bytes(9, &self.trace_id)
            .bytes(12, &self.event_name)
            .number(99, 1)
    }

    fn json(&self) -> Value {
        json!({
            "body": self.body.json(),
            "attributes": pairs(&self.attributes),
            "timeUnixNano": self.time_ns.to_string(),
            "observedTimeUnixNano": self.observed_ns,
            "severityNumber": self.severity_number,
            "severityText": self.severity_text,
            "droppedAttributesCount": self.dropped,
            "flags": self.flags,
            "traceId": hex(&self.trace_id),
            "eventName": self.event_name,
            "unknown": [{ "a": null }],
        })
    }

    /// The line: a name that is taken has `prefix.` in front.
    fn shown(&self, resource: &[(String, Any)]) -> Value {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value, is_there: bool| {
            if is_there {
                line.insert(name.to_owned(), value);
            }
        };
        let time = if self.time_ns > 0 { self.time_ns } else { self.observed_ns };
        let time_ns = i64::try_from(time).unwrap_or(0);
        put("_time", json!(text::time::format_time(time_ns)), time_ns > 0);
        put("severity_number", json!(self.severity_number), self.severity_number > 0);
        put("severity_text", json!(self.severity_text), !self.severity_text.is_empty());
        put("dropped_attributes_count", json!(self.dropped), self.dropped > 0);
        put("flags", json!(self.flags), self.flags > 0);
        put("trace_id", json!(hex(&self.trace_id)), self.trace_id.iter().any(|&byte| byte > 0));
        put("event_name", json!(self.event_name), !self.event_name.is_empty());
        let is_own = |name: &str| OWN.contains(&name.as_bytes());
        let mut taken: Vec<String> = Vec::new();
        for (name, value) in resource.iter().filter(|(_, v)| !matches!(v, Any::Empty)) {
            let name = if name.is_empty() || is_own(name) {
                format!("resource.{name}")
            } else {
                name.clone()
            };
            put(&name, value.shown(), true);
            taken.push(name);
        }
        let body = match &self.body {
            Any::Members(list) => &list[..],
            Any::Empty => &[],
            value => {
                put("_msg", value.shown(), true);
                &[]
            }
        };
        for (prefix, list) in [("body", body), ("attributes", &self.attributes)] {
            for (name, value) in list.iter().filter(|(_, v)| !matches!(v, Any::Empty)) {
                let name = if name.is_empty() || is_own(name) || taken.contains(name) {
                    format!("{prefix}.{name}")
                } else {
                    name.clone()
                };
                put(&name, value.shown(), true);
                if prefix == "body" {
                    taken.push(name);
                }
            }
        }
        Value::Object(line)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}",
        proptest::sample::select(vec!["_msg", "_time", "trace_id", "", "host.name"])
            .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

fn values() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        Just(Any::Empty),
        ".{0,40}".prop_map(Any::Text),
        any::<bool>().prop_map(Any::Bool),
        any::<i64>().prop_map(Any::Int),
        (-1e30..1e30f64).prop_map(|n| Any::Double(if n.fract() == 0.0 { 0.5 } else { n })),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(Any::Bytes),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Any::List),
            proptest::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                .prop_map(|members| Any::Members(members.into_iter().collect())),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Vec<(String, Any)>> {
    proptest::collection::btree_map(names(), values(), 0..5).prop_map(|m| m.into_iter().collect())
}

fn models() -> impl Strategy<Value = Model> {
    let times = || prop_oneof![Just(0), Just(u64::MAX), 1..2_000_000_000_000_000_000u64];
    let ids = prop_oneof![Just(vec![0; 16]), proptest::collection::vec(any::<u8>(), 16)];
    let head = (times(), times(), 0..25u64, "[A-Z]{0,4}", 0..3u32, 0..2u32);
    (head, values(), attributes(), ids, "[a-z]{0,3}").prop_map(
        |(
            (time_ns, observed_ns, severity_number, severity_text, dropped, flags),
            body,
            attributes,
            trace_id,
            event_name,
        )| Model {
            time_ns,
            observed_ns,
            severity_number,
            severity_text,
            body,
            attributes,
            dropped,
            flags,
            trace_id,
            event_name,
        },
    )
}

proptest! {
    #[test]
    fn lines_are_those_of_the_model(
        resource in attributes(), models in proptest::collection::vec(models(), 1..4),
    ) {
        let of_resource = message().attributes(1, &resource);
        let scope = models.iter().fold(message(), |scope, m| scope.bytes(2, m.protobuf().0));
        // The resource may stand behind its records.
        let protobuf = message().bytes(1, message().bytes(2, scope.0).bytes(1, of_resource.0).0).0;
        let records: Vec<Value> = models.iter().map(Model::json).collect();
        let json = json!({ "resourceLogs": [{
            "scopeLogs": [{ "logRecords": records }], "resource": { "attributes": pairs(&resource) },
        }] });
        for json in [json.to_string(), format!("{json:#}")] {
            for (format, content) in [(Format::Protobuf, &protobuf[..]), (Format::Json, json.as_bytes())] {
                let (found, rejected) = lines(format, content).unwrap();
                prop_assert_eq!(rejected, None);
                let found: Vec<Value> =
                    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let expected: Vec<Value> = models.iter().map(|model| model.shown(&resource)).collect();
                prop_assert_eq!(found, expected, "{:?}", format);
            }
        }
    }

    #[test]
    fn any_bytes_give_whole_lines(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Protobuf, Format::Json] {
            if let Ok((found, _)) = lines(format, &content) {
                prop_assert!(found.is_empty() || found.ends_with('\n'));
            }
        }
    }

    #[test]
    fn damaged_requests_give_objects(at in 0..380usize, byte: u8, end in 0..381usize) {
        let mut content = include_bytes!("testdata/python-1.45.pb").to_vec();
        content[at] = byte;
        content.truncate(end);
        let mut out = Vec::new();
        if let Ok(mut export) = Export::read(Format::Protobuf, &content) {
            export.write(&mut out, usize::MAX);
        }
        for line in out.split_inclusive(|&byte| byte == b'\n') {
            prop_assert!(serde_json::from_slice::<Map<String, Value>>(line).is_ok());
        }
    }
}

#[test]
fn a_broken_record_is_rejected_alone() {
    let good = message().bytes(5, message().bytes(1, "a").0);
    let broken = message().bytes(5, [0x0a, 9]);
    let mut deep = message().bytes(1, "x");
    for _ in 0..DEPTH_MAX {
        deep = message().bytes(5, message().bytes(1, deep.0).0);
    }
    let long = message().bytes(5, message().bytes(1, "x".repeat(LINE_BYTES_MAX)).0);
    for (bad, why) in [
        (broken, Rejection::Broken),
        (message().bytes(5, deep.0), Rejection::Deep),
        (long, Rejection::Long),
    ] {
        let content = request(&[good.clone(), bad.clone(), good.clone()]);
        let (found, rejected) = lines(Format::Protobuf, &content).unwrap();
        assert_eq!(found, "{\"_msg\":\"a\"}\n{\"_msg\":\"a\"}\n");
        let bytes = bad.0.len() as u64;
        assert_eq!(rejected, Some(Rejected { records: 1, bytes, first: why }));
    }
    let json = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"body":7},{"body":{"stringValue":"a"}},{"attributes":{}},3,{"severityText":1},{}]}]}]}"#;
    let (found, rejected) = lines(Format::Json, json.as_bytes()).unwrap();
    assert_eq!(found, "{\"_msg\":\"a\"}\n{}\n");
    assert_eq!(rejected.unwrap().records, 4);
}

#[test]
fn severities_by_name() {
    let record = |severity: &str| {
        let json = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"severityNumber":{severity}}}]}}]}}]}}"#
        );
        lines(Format::Json, json.as_bytes()).unwrap().0
    };
    for (severity, number) in [
        ("9", 9),
        ("\"9\"", 9),
        ("\"SEVERITY_NUMBER_TRACE\"", 1),
        ("\"SEVERITY_NUMBER_WARN2\"", 14),
        ("\"SEVERITY_NUMBER_FATAL4\"", 24),
    ] {
        assert_eq!(record(severity), format!("{{\"severity_number\":{number}}}\n"));
    }
    for nothing in ["0", "null", "\"SEVERITY_NUMBER_UNSPECIFIED\""] {
        assert_eq!(record(nothing), "{}\n");
    }
}

#[test]
fn requests_that_are_something_else_are_refused() {
    for (format, content, message) in [
        (Format::Protobuf, &b"{\"resourceLogs\":[]}"[..], "the protobuf message is broken"),
        (Format::Protobuf, &[0x0a, 200], "the protobuf message is broken"),
        (Format::Json, b"", "EOF"),
        (Format::Json, b"[]", "no object"),
        (Format::Json, b"{\"resourceLogs\":[}", "expected value at line 1 column 18"),
        (Format::Json, b"{\"resourceLogs\":{}}", "resourceLogs is not a list"),
        (Format::Json, b"{\"resourceSpans\":[]}", "it has 'resourceSpans', but no resourceLogs"),
        (Format::Json, b"{\"resourceLogs\":[{\"scopeLogs\":7}]}", "scopeLogs is not a list"),
        (Format::Json, b"{\"resourceLogs\":[[]]}", "resourceLogs has an item that is no object"),
        (Format::Json, b"{\"resourceLogs\":[{\"scopeLogs\":[7]}]}", "scopeLogs has an item"),
        (Format::Json, b"{\"a\":\"\xff\"}", "utf-8"),
    ] {
        let error = lines(format, content).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    for (format, content) in [(Format::Protobuf, &b""[..]), (Format::Json, b"{}")] {
        assert_eq!(lines(format, content), Ok((String::new(), None)));
    }
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    assert!(lines(Format::Json, format!("{{\"resourceLogs\":{deep}}}").as_bytes()).is_err());
    // `serde_json` skips what it does not know without a stack.
    assert!(
        lines(Format::Json, format!("{{\"resourceLogs\":[],\"a\":{deep}}}").as_bytes()).is_ok()
    );
}

#[test]
fn limits_at_their_ends() {
    for (records, fits) in [(RECORDS_MAX, true), (RECORDS_MAX + 1, false)] {
        let scope = [0x12, 0].repeat(records);
        let content = message().bytes(1, message().bytes(2, scope).0).0;
        assert_eq!(Export::read(Format::Protobuf, &content).is_ok(), fits, "{records}");
    }
    let with_resource = |bytes: usize, records: usize| {
        let name = message().attributes(1, &[("k".into(), Any::Text("v".repeat(bytes)))]);
        let scope = [0x12, 0].repeat(records);
        message().bytes(1, message().bytes(1, name.0).bytes(2, scope).0).0
    };
    let around = r#","k":"""#.len();
    for (bytes, rejected) in [(SHARED_BYTES_MAX - around, 0), (SHARED_BYTES_MAX - around + 1, 3)] {
        let content = with_resource(bytes, 3);
        let mut export = Export::read(Format::Protobuf, &content).unwrap();
        export.write(&mut Vec::new(), usize::MAX);
        assert_eq!(export.rejected().map_or(0, |rejected| rejected.records), rejected);
    }
    // Lines of a small request are bounded, however many records share a large resource.
    let line = 1 << 10;
    let content = with_resource(line - around - "}\n".len(), 20_000);
    let mut export = Export::read(Format::Protobuf, &content).unwrap();
    let mut out = Vec::new();
    export.write(&mut out, usize::MAX);
    assert_eq!(out.len(), WRITTEN_BYTES_MIN);
    let rejected = export.rejected().unwrap();
    assert_eq!(rejected.records as usize, 20_000 - WRITTEN_BYTES_MIN / line);
    assert_eq!(rejected.first, Rejection::Written);
}

#[test]
fn groups_have_their_own_resource_and_scope() {
    let json = |resource: &str, scopes: &str| {
        format!(
            r#"{{"resource":{{"attributes":[{{"key":"r","value":{{"stringValue":"{resource}"}}}}],"droppedAttributesCount":2}},"scopeLogs":[{scopes}]}}"#
        )
    };
    let scope = |name: &str, bodies: &[&str]| {
        let records: Vec<String> =
            bodies.iter().map(|body| format!(r#"{{"body":{{"stringValue":"{body}"}}}}"#)).collect();
        format!(
            r#"{{"scope":{{"name":"{name}","attributes":[{{"key":"x","value":{{"intValue":"1"}}}}],"droppedAttributesCount":"3"}},"logRecords":[{}]}}"#,
            records.join(",")
        )
    };
    let one =
        json("1", &[scope("a", &["p", "q"]), scope("none", &[]), scope("b", &["r"])].join(","));
    let request = format!(r#"{{"resourceLogs":[{one},{}]}}"#, json("2", r#"{"logRecords":[{}]}"#));
    let line = |msg: &str, scope: &str| {
        format!(
            r#"{{"_msg":"{msg}","r":"1","resource.dropped_attributes_count":2,"scope.dropped_attributes_count":3,"scope.name":"{scope}","scope.attributes.x":1}}"#
        )
    };
    let last = r#"{"r":"2","resource.dropped_attributes_count":2}"#;
    let expected = [line("p", "a"), line("q", "a"), line("r", "b"), last.to_owned()].join("\n");
    check(Format::Json, request.as_bytes(), &(expected + "\n"));
}

/// With the square of the names it would take minutes, also on a fast machine.
#[test]
fn many_names_do_not_take_the_square_of_their_time() {
    const NAMES: usize = 150_000;
    let list = |from: usize| -> String {
        let pair = |n: usize| format!(r#"{{"key":"{n:07}","value":{{"intValue":"1"}}}}"#);
        (from..from + NAMES).map(pair).collect::<Vec<_>>().join(",")
    };
    // The last name of the body is the first one of the attributes.
    let (body, attributes) = (list(0), list(NAMES - 1));
    let record = format!(
        r#"{{"body":{{"kvlistValue":{{"values":[{body}]}}}},"attributes":[{attributes}]}}"#
    );
    let request = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#);
    let begun = Instant::now();
    let mut export = Export::read(Format::Json, request.as_bytes()).unwrap();
    let mut out = Vec::new();
    assert!(!export.write(&mut out, usize::MAX));
    assert_eq!(export.rejected(), None);
    let renamed = format!("\"attributes.{:07}\":1,", NAMES - 1);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("\"attributes.").count(), 1);
    assert!(text.contains(&renamed));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Here, too.
#[test]
fn a_long_resource_is_read_once_for_all_its_scopes() {
    const SCOPES: usize = 100_000;
    let scopes = vec![r#"{"logRecords":[{}]}"#; SCOPES].join(",");
    // Attributes without a value take no room in lines, and must be read.
    let unwritten = vec![r#"{"key":"a"}"#; 200_000].join(",");
    let long = format!(r#"{{"key":"b","value":{{"stringValue":"{}"}}}}"#, "x".repeat(2 << 20));
    for (attributes, rejected) in [(unwritten, 0), (long, SCOPES)] {
        let request = format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{attributes}]}},"scopeLogs":[{scopes}]}}]}}"#
        );
        let begun = Instant::now();
        let mut export = Export::read(Format::Json, request.as_bytes()).unwrap();
        let mut out = Vec::new();
        assert!(!export.write(&mut out, usize::MAX));
        let found = export.rejected().map_or(0, |found| found.records as usize);
        let lines = memchr::memchr_iter(b'\n', &out).count();
        assert_eq!((found, lines), (rejected, SCOPES - rejected));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}
