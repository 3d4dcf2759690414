//! JSON objects, against tables and against serde_json.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn insert(hints: Hints) -> Origin {
    http(Format::Json, hints)
}

#[test]
fn objects() {
    check(
        &insert(Hints::default()),
        &["_type=json"],
        &[
            (r#"{}"#, "_msg={}"),
            // Okta
            (
                r#"{"displayMessage":"m","severity":"WARN"}"#,
                "_msg=m|_level=warning|displayMessage=m|severity=WARN",
            ),
            (r#" { "a" : 1 , "b":[1, {"c":2}],"_msg":"m" } "#, r#"_msg=m|a=1|b=[1, {"c":2}]"#),
            (r#"{"a":{"b":{"c":"x"},"d":{}},"msg":""}"#, "_msg=|a.b.c=x|a.d={}"),
            (
                r#"{"a":true,"b":false,"c":null,"d":-1.50e+3,"msg":"m"}"#,
                "_msg=m|a=true|b=false|d=-1.50e+3",
            ),
            (
                r#"{"a":1,"a":2,"msg":"m"}"#,
                "_msg=m|_note=a key occurs twice, its last value counts|a=2",
            ),
            (r#"{"k\u00e9\n":"v\"\u00e9","msg":"\t"}"#, "_msg=\t|ké\n=v\"é"),
            (r#"{"a":{"\u0062":1},"msg":"é"}"#, "_msg=é|a.b=1"),
            // The exporter of OpenTelemetry for Splunk
            (
                r#"{"otel.log.severity.text":"Error","msg":"m"}"#,
                "_msg=m|_level=error|otel.log.severity.text=Error",
            ),
            (
                r#"{"otel.log.severity.number":13,"msg":"m"}"#,
                "_msg=m|_level=warning|otel.log.severity.number=13",
            ),
            // The message.
            (r#"{"message":"x","msg":"y"}"#, "_msg=x|msg=y"),
            (r#"{"msg":"y","message":""}"#, "_msg=y|message="),
            (r#"{"msg":5}"#, "_msg=5"),
            (r#"{"message":{"a":1}}"#, r#"_msg={"message":{"a":1}}|message.a=1"#),
            // The time.
            (
                r#"{"_time":"2026-01-02T03:04:05.678+01:00","msg":"m"}"#,
                "_msg=m|@2026-01-02T02:04:05.678Z",
            ),
            (r#"{"@timestamp":"2026-01-02 03:04:05","msg":"m"}"#, "_msg=m|@2026-01-02T03:04:05Z"),
            (r#"{"ts":1700000000.5,"msg":"m"}"#, "_msg=m|@2023-11-14T22:13:20.5Z"),
            (r#"{"timestamp":1700000000123,"msg":"m"}"#, "_msg=m|@2023-11-14T22:13:20.123Z"),
            (r#"{"time":"1700000000123456","msg":"m"}"#, "_msg=m|@2023-11-14T22:13:20.123456Z"),
            (r#"{"time":1.7e9,"msg":"m"}"#, "_msg=m|@2023-11-14T22:13:20Z"),
            (
                r#"{"ts":1700000000,"_time":1600000000,"msg":"m"}"#,
                "_msg=m|ts=1700000000|@2020-09-13T12:26:40Z",
            ),
            (r#"{"time":0.25,"msg":"m"}"#, "_msg=m|time=0.25"),
            (
                r#"{"time":"soon","ts":1700000000,"msg":"m"}"#,
                "_msg=m|time=soon|@2023-11-14T22:13:20Z",
            ),
            (r#"{"_time":"0","msg":"m"}"#, "_msg=m"),
            (
                r#"{"_time":"soon","msg":"m"}"#,
                "_msg=m|_note=time not readable, arrival taken|json._time=soon",
            ),
            (
                r#"{"_time":"2099-01-01T00:00:00Z","msg":"m"}"#,
                "_msg=m|_note=absurd time, arrival taken|json._time=2099-01-01T00:00:00Z",
            ),
            // The level.
            (r#"{"level":"WARN","msg":"m"}"#, "_msg=m|_level=warning|level=WARN"),
            (r#"{"level":"info","msg":"m"}"#, "_msg=m|_level=info|level=info"),
            (r#"{"severity":"ERR","msg":"m"}"#, "_msg=m|_level=error|severity=ERR"),
            (r#"{"log":{"level":"fatal"},"msg":"m"}"#, "_msg=m|_level=critical|log.level=fatal"),
            (
                r#"{"lvl":"trace","severity":"odd","msg":"m"}"#,
                "_msg=m|_level=debug|lvl=trace|severity=odd",
            ),
            (r#"{"level":30,"msg":"m"}"#, "_msg=m|level=30"),
            (r#"{"level":"odd","msg":"m"}"#, "_msg=m|level=odd"),
            (r#"{"level":"","msg":"m"}"#, "_msg=m|level="),
            // Names of fields that Loginson gives lines, or computes for them.
            (
                r#"{"type":"t","_id":"i","_note":"n","remote_ip":"1.2.3.4","msg":"m"}"#,
                "_msg=m|_id=i|_note=n|type=t|remote_ip=1.2.3.4",
            ),
            (r#"{"_level":"x","level":"WARN","msg":"m"}"#, "_msg=m|_level=x|level=WARN"),
            (
                r#"{"_note":"n","_time":"soon","msg":"m"}"#,
                "_msg=m|_note=n; time not readable, arrival taken|json._time=soon",
            ),
            (r#"{"hostname":"h","app_name":"a","msg":"m"}"#, "_msg=m|app_name=a|hostname=h"),
        ],
    );
}

#[test]
fn invalid_json_is_kept_with_a_note() {
    for line in
        ["x", "", "[1]", "1", "{", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":[1}", "{\"a\":\""]
    {
        let expected = format!("_msg={line}|_note=not JSON: broken or cut off|_type=plain");
        check(&insert(Hints::default()), &[], &[(line, &expected)]);
    }
    let line = b"{\"a\":\"\xff\"}";
    let batch = parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line]);
    assert_eq!(batch.row(0).get_by_name("_msg"), Some(&line[..]));
    let note = batch.row(0).get_by_name("_note");
    assert_eq!(note, Some(&b"JSON with bytes that are not UTF-8 at byte 6"[..]));
    assert_eq!(batch.row(0).get_by_name("a"), Some(&b"\xff"[..]));
}

#[test]
fn hints_name_the_keys_of_time_and_message() {
    let hints = Hints {
        time_fields: vec!["event.at".into(), "t".into()],
        msg_fields: vec!["text".into()],
        ignore_fields: vec!["secret".into(), "debug.*".into()],
        ..Hints::default()
    };
    check(
        &insert(hints),
        &["_type=json"],
        &[
            (
                r#"{"event":{"at":1700000000},"text":"x","msg":"y","secret":1,"debug":{"a":1},"debugger":2}"#,
                "_msg=x|debugger=2|msg=y|@2023-11-14T22:13:20Z",
            ),
            (
                r#"{"t":"1700000000","_time":"2026-01-01T00:00:00Z","text":"x"}"#,
                "_msg=x|json._time=2026-01-01T00:00:00Z|@2023-11-14T22:13:20Z",
            ),
            // A key with the usual name is the message if the configured key is missing.
            (r#"{"_msg":"x","msg":"y"}"#, "_msg=x|msg=y"),
            (r#"{"text":"x","_msg":"y"}"#, "_msg=x|json._msg=y"),
            (
                r#"{"t":"never","text":"x"}"#,
                "_msg=x|_note=time not readable, arrival taken|t=never",
            ),
        ],
    );
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let fields = |line: &str| {
        let batch =
            parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line.as_bytes()]);
        shown(batch.row(0), &batch)
    };
    let path = |depth: usize| vec!["a"; depth].join(".");
    for depth in [JSON_DEPTH_MAX - 1, JSON_DEPTH_MAX] {
        assert!(fields(&nested(depth)).ends_with(&format!("|{}=1", path(depth))), "{depth}");
    }
    let expected = format!("|{}={{\"a\":1}}", path(JSON_DEPTH_MAX));
    assert!(fields(&nested(JSON_DEPTH_MAX + 1)).ends_with(&expected));
}

#[test]
fn keys_have_a_limit() {
    let line = |keys: usize| {
        let members: Vec<String> = (0..keys).map(|key| format!("\"k{key}\":{key}")).collect();
        format!("{{{},\"k0\":\"last\"}}", members.join(","))
    };
    for (keys, noted) in
        [(LINE_KEYS_MAX - 1, false), (LINE_KEYS_MAX, false), (LINE_KEYS_MAX + 1, true)]
    {
        let line = line(keys);
        let batch =
            parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line.as_bytes()]);
        let row = batch.row(0);
        let note = row.get_by_name("_note").unwrap_or_default();
        assert_eq!(note.starts_with(b"too many fields"), noted, "{keys}");
        assert!(note.ends_with(b"a key occurs twice, its last value counts"));
        assert_eq!(row.get_by_name("k0"), Some(&b"last"[..]));
        assert_eq!(row.get_by_name("_type"), Some(&b"json"[..]));
        assert_eq!(row.get_by_name("_msg"), Some(line.as_bytes()));
        assert_eq!(row.get_by_name(&format!("k{LINE_KEYS_MAX}")), None);
    }
}

#[test]
fn names_of_a_batch_have_a_limit() {
    let lines: Vec<String> = (0..30)
        .map(|line| {
            let members: Vec<String> = (0..900).map(|key| format!("\"k{line}_{key}\":1")).collect();
            format!("{{{}}}", members.join(","))
        })
        .collect();
    let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let batch = parse_with(&ParserConfig::default(), &insert(Hints::default()), &bytes);
    assert_eq!(batch.len(), 30);
    assert!(batch.names().len() <= crate::batch::BATCH_NAMES_MAX);
    for (row, line) in batch.rows().zip(&lines) {
        assert_eq!(row.get_by_name("_type"), Some(&b"json"[..]));
        assert_eq!(row.get_by_name("_msg"), Some(line.as_bytes()));
    }
    assert!(batch.row(0).get_by_name("_note").is_none());
    assert!(batch.row(29).get_by_name("_note").is_some());
}

/// Fields of an object according to serde_json: the reference model.
fn expected_fields(
    prefix: &str,
    object: &Map<String, Value>,
    depth: usize,
    out: &mut Vec<(String, Value)>,
) {
    for (key, value) in object {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Null => {}
            Value::Object(inner) if !inner.is_empty() && depth < JSON_DEPTH_MAX => {
                expected_fields(&name, inner, depth + 1, out);
            }
            value => out.push((name, value.clone())),
        }
    }
}

fn same(found: &[u8], expected: &Value) -> bool {
    let found = std::str::from_utf8(found).unwrap();
    match expected {
        Value::String(text) => text == found,
        Value::Bool(value) => value.to_string() == found,
        // Without its feature `float_roundtrip`, serde_json is off in the last digit.
        Value::Number(number) => {
            let (found, number) = (found.parse::<f64>().unwrap(), number.as_f64().unwrap());
            (found - number).abs() <= number.abs() * 1e-14
        }
        other => serde_json::from_str::<Value>(found).is_ok_and(|v| v == *other),
    }
}

fn agrees_with_oracle(line: &str) {
    // Half surrogate pairs are accepted, numbers have no range, and the depth is not limited.
    if line.contains("\\ud") || line.contains("\\uD") {
        return;
    }
    let batch = parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line.as_bytes()]);
    let row = batch.row(0);
    assert_eq!(row.raw(), line.as_bytes());
    match serde_json::from_str::<Value>(line.trim_end_matches(['\r', '\n', '\0'])) {
        Ok(Value::Object(object)) => {
            let mut expected = Vec::new();
            expected_fields("", &object, 1, &mut expected);
            assert_eq!(row.get_by_name("_type"), Some(&b"json"[..]), "{line}");
            for (name, value) in &expected {
                let found = row.get_by_name(name).unwrap_or_else(|| panic!("no {name} in {line}"));
                assert!(same(found, value), "{name} in {line}: {}", String::from_utf8_lossy(found));
            }
            assert_eq!(row.fields().count(), expected.len() + 2, "{line}");
        }
        Err(error) if error.to_string().contains("out of range") => {}
        Err(error) if error.to_string().contains("recursion limit") => {}
        _ => assert!(row.get_by_name("_note").is_some(), "{line}"),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            object_of(inner).prop_map(Value::Object),
        ]
    })
}

/// Keys begin with `k`, so that none has a special meaning, and have no dots.
fn object_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = "k[^.]{0,6}";
    prop::collection::vec((key, value), 0..6).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn objects_agree_with_serde_json(object in object_of(value()), pretty: bool) {
        let value = Value::Object(object);
        let line = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        agrees_with_oracle(&line.unwrap());
    }

    #[test]
    fn damaged_objects_agree_with_serde_json(
        object in object_of(value()), at: prop::sample::Index, byte in "[\"\\\\{}\\[\\],:0-9a-z .\n\t-]", cut: bool,
    ) {
        let mut line = serde_json::to_string(&Value::Object(object)).unwrap();
        let mut at = at.index(line.len());
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        if cut { line.truncate(at) } else { line.insert_str(at, &byte) }
        // The tables above cover repeated and renamed keys.
        let keys_are_plain = serde_json::from_str::<Value>(&line).is_ok_and(|v| {
            serde_json::to_string(&v).unwrap().len() == line.len() && !line.contains('.')
        });
        if keys_are_plain || serde_json::from_str::<Value>(&line).is_err() {
            agrees_with_oracle(&line);
        }
    }
}

/// With all of the name for each member it would take minutes, also on a fast machine, and a
/// gigabyte for what is remembered of the keys.
#[test]
fn a_long_name_of_an_object_with_many_members() {
    let members: Vec<String> = (0..300_000).map(|n| format!("\"{n:07}\":1")).collect();
    let name = "é".repeat(2 << 20);
    let line = format!("{{\"{name}\":{{{}}},\"k\":2}}", members.join(","));
    let begun = std::time::Instant::now();
    let batch = parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line.as_bytes()]);
    let row = batch.row(0);
    assert!(row.get_by_name("_note").is_some());
    assert_eq!(row.get_by_name("k"), Some(&b"2"[..]));
    assert_eq!(row.raw(), line.as_bytes());
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn names_have_a_limit() {
    for (length, noted) in [(NAME_BYTES_MAX, false), (NAME_BYTES_MAX + 1, true)] {
        // The name of the object precedes that of its member.
        let line = format!("{{\"{}\":{{\"b\":1}},\"k\":2}}", "a".repeat(length - 2));
        let batch =
            parse_with(&ParserConfig::default(), &insert(Hints::default()), &[line.as_bytes()]);
        let row = batch.row(0);
        assert_eq!(row.get_by_name("_note").is_some(), noted, "{length}");
        assert_eq!(row.get_by_name("k"), Some(&b"2"[..]));
        assert_eq!(row.raw(), line.as_bytes());
        assert!(batch.names().iter().all(|name| name.len() <= NAME_BYTES_MAX));
    }
}
