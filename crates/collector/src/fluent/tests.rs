//! Recorded messages, random records beside an encoder and `serde_json`, damage, limits, and the
//! handshake.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::answered::check::{Taken, feed, take};
use crate::answered::{MESSAGE_BYTES_MAX, PIECE_BYTES};

fn plain() -> Forward {
    Forward::new(None)
}

/// Appends a value as MessagePack; `wide` chooses the longest of its forms.
fn put(value: &Value, wide: bool, out: &mut Vec<u8>) {
    let length = |short: Option<u8>, long: u8, length: usize, out: &mut Vec<u8>| match short {
        Some(short) if !wide => out.push(short),
        _ => {
            out.push(long);
            out.extend((length as u32).to_be_bytes());
        }
    };
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(value) => out.push(0xc2 + u8::from(*value)),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number @ 0..=127), _) if !wide => out.push(number as u8),
            (Some(number), _) => {
                out.push(0xcf);
                out.extend(number.to_be_bytes());
            }
            (None, Some(number @ -32..=-1)) if !wide => out.push(number as u8),
            (None, Some(number @ -32768..=-1)) if !wide => {
                out.push(0xd1);
                out.extend((number as i16).to_be_bytes());
            }
            (None, Some(number)) => {
                out.push(0xd3);
                out.extend(number.to_be_bytes());
            }
            (None, None) => {
                out.push(0xcb);
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => {
            let short = (text.len() < 32).then_some(0xa0 | text.len() as u8);
            length(short, 0xdb, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Array(values) => {
            let short = (values.len() < 16).then_some(0x90 | values.len() as u8);
            length(short, 0xdd, values.len(), out);
            values.iter().for_each(|value| put(value, wide, out));
        }
        Value::Object(pairs) => {
            let short = (pairs.len() < 16).then_some(0x80 | pairs.len() as u8);
            length(short, 0xdf, pairs.len(), out);
            for (key, value) in pairs {
                put(&json!(key), wide, out);
                put(value, wide, out);
            }
        }
    }
}

fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, false, &mut out);
    out
}

fn put_bytes(content: &[u8], out: &mut Vec<u8>) {
    out.push(0xc6);
    out.extend((content.len() as u32).to_be_bytes());
    out.extend(content);
}

/// A message of packed entries.
fn packed_message(entries: &[u8], option: &Value) -> Vec<u8> {
    let mut message = vec![0x93];
    put(&json!("app"), false, &mut message);
    put_bytes(entries, &mut message);
    put(option, false, &mut message);
    message
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// What one message gives that is kept whole.
#[track_caller]
fn check(message: &[u8], lines: &[&str], answers: &[u8]) {
    let taken = take(plain, message);
    let expected = Taken { lines: to_owned(lines), answers: answers.to_vec(), ..Taken::default() };
    assert_eq!(taken, expected);
    for line in lines {
        serde_json::from_str::<Map<String, Value>>(line).unwrap();
    }
}

/// Recorded from msgpack of Python.
#[test]
fn the_four_kinds_of_messages() {
    check(
        b"\x93\xa7app.web\xcei}\xee\xc0\x85\xa5level\xa4info\xa3msg\xaastarted \xc3\xbc\xa1n\x07\
          \xa4deep\x81\xa1a\x93\x01\xc0\xc3\xa1f\xcb?\xe0\x00\x00\x00\x00\x00\x00",
        &[
            r#"{"level":"info","msg":"started ü","n":7,"deep":{"a":[1,null,true]},"f":0.5,"_time":"2026-01-31T12:00:00Z","fluent.tag":"app.web"}"#,
        ],
        b"",
    );
    check(
        b"\x94\xa7app.web\xd7\x00i}\xee\xc0\x0e\xe6\xb2\x80\x81\xa3msg\xa1a\x81\xa5chunk\
          \xb8p8n9gmxTQVC8/nh2wlKKeQ==",
        &[r#"{"msg":"a","_time":"2026-01-31T12:00:00.25Z","fluent.tag":"app.web"}"#],
        b"\x81\xa3ack\xd9\x18p8n9gmxTQVC8/nh2wlKKeQ==",
    );
    check(
        b"\x93\xa3app\x92\x92\xcei}\xee\xc0\x81\xa1m\x01\x92\xd7\x00i}\xee\xc0\x0e\xe6\xb2\x80\
          \x81\xa1m\x02\x82\xa5chunk\xa2c1\xa4size\x02",
        &[
            r#"{"m":1,"_time":"2026-01-31T12:00:00Z","fluent.tag":"app"}"#,
            r#"{"m":2,"_time":"2026-01-31T12:00:00.25Z","fluent.tag":"app"}"#,
        ],
        b"\x81\xa3ack\xd9\x02c1",
    );
    let two = [
        r#"{"m":0,"_time":"2026-01-31T12:00:00Z","fluent.tag":"app"}"#,
        r#"{"m":1,"_time":"2026-01-31T12:00:01Z","fluent.tag":"app"}"#,
    ];
    check(
        b"\x93\xa3app\xc4\x14\x92\xcei}\xee\xc0\x81\xa1m\x00\x92\xcei}\xee\xc1\x81\xa1m\x01\x81\
          \xa4size\x02",
        &two,
        b"",
    );
    check(
        b"\x93\xa3app\xc4%\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x9bt.\xb3\xf6\xdd\x81\xc6\x85\
          \xb9\x0c\x93@\xac\x83@\x16#\x00\xa8\xa2\xbb\xe6\x14\x00\x00\x00\x83\xa4size\x02\
          \xaacompressed\xa4gzip\xa5chunk\xa2c2",
        &two,
        b"\x81\xa3ack\xd9\x02c2",
    );
}

#[test]
fn what_senders_also_write() {
    let message = |time: &[u8], record: &[u8]| [&b"\x93\xa1t"[..], time, record].concat();
    let line = |record: &str| format!("{{{record}\"fluent.tag\":\"t\"}}");
    for (time, record, expected) in [
        // The record's own time and tag.
        (&b"\x01"[..], &b"\x81\xa5_time\xa1x"[..], r#""_time":"x","#),
        // No time, one with a fraction, one with metadata.
        (b"\x00", b"\x81\xa1a\xc0", r#""a":null,"#),
        (b"\xc0", b"\x81\xa1a\xc0", r#""a":null,"#),
        (b"\xcb\x3f\xf8\0\0\0\0\0\0", b"\x80", r#""_time":"1970-01-01T00:00:01.5Z","#),
        // Bytes that are a text, and that are none; a key that is no text.
        (b"\x00", b"\x81\xa1a\xc4\x02ok", r#""a":"ok","#),
        (b"\x00", b"\x81\xa1a\xa2\xff\n", "\"a\":\"\u{fffd}\\n\","),
        (b"\x00", b"\x82\x07\x01\xc3\x02", r#""7":1,"true":2,"#),
        // A time within a record, another extension, numbers that JSON does not have.
        (b"\x00", b"\x81\xa1a\xd7\x00\0\0\0\x01\0\0\0\0", r#""a":"1970-01-01T00:00:01Z","#),
        (b"\x00", b"\x81\xa1a\xd5\x05\xff\xff", r#""a":"//8=","#),
        (b"\x00", b"\x81\xa1a\xca\x7f\x80\0\0", r#""a":"inf","#),
        // No map.
        (b"\x00", b"\xa3a\"b", r#""_msg":"a\"b","#),
        (b"\x00", b"\x92\x01\x02", r#""_msg":[1,2],"#),
    ] {
        check(&message(time, record), &[&line(expected)], b"");
    }
    let tag = r#"{"fluent.tag":"own"}"#;
    check(&message(b"\x00", b"\x81\xaafluent.tag\xa3own"), &[tag], b"");
    let metadata = b"\x92\xa1t\x91\x92\x92\x01\x81\xa1k\xa1v\x81\xa1a\x01";
    check(metadata, &[r#"{"a":1,"_time":"1970-01-01T00:00:01Z","fluent.tag":"t"}"#], b"");
    let docker = packed(&json!(["t", 0, {
        "container_id": "c", "container_name": "/web", "log": "a \"log\"", "source": "stdout"
    }]));
    let line = r#"{"container_id":"c","container_name":"/web","_msg":"a \"log\"","source":"stdout","fluent.tag":"t"}"#;
    check(&docker, &[line], b"");
    check(&message(b"\x00", b"\x81\xa3log\xa1a"), &[r#"{"log":"a","fluent.tag":"t"}"#], b"");
    // Nothing: an empty forward, a heartbeat.
    check(b"\x92\xa1t\x90", &[], b"");
    check(b"\xc0\xc0", &[], b"");
}

/// The entry of Fluent Bit with which a group begins.
fn group_begins(record: &Value) -> Vec<u8> {
    let mut entry = b"\x92\x92\xd7\x00\xff\xff\xff\xff\0\0\0\0\x80".to_vec();
    put(record, false, &mut entry);
    entry
}

#[test]
fn what_a_group_states_becomes_fields_of_its_lines() {
    let ends = b"\x92\xd7\x00\xff\xff\xff\xfe\0\0\0\0\x80";
    let states = json!({"_msg": 0, "own": 1, "resource": {"attributes": {"a": "b"}}, "scope": {}});
    let entries = [
        &group_begins(&states)[..],
        b"\x92\x01\x81\xa1m\x01",
        b"\x92\x01\x81\xa3own\x02",
        ends,
        b"\x92\x01\x80",
    ]
    .concat();
    let lines = [
        r#"{"m":1,"own":1,"resource":{"attributes":{"a":"b"}},"_time":"1970-01-01T00:00:01Z","fluent.tag":"app"}"#,
        r#"{"own":2,"resource":{"attributes":{"a":"b"}},"_time":"1970-01-01T00:00:01Z","fluent.tag":"app"}"#,
        r#"{"_time":"1970-01-01T00:00:01Z","fluent.tag":"app"}"#,
    ];
    check(&packed_message(&entries, &json!({"size": 5})), &lines, b"");
    check(&packed_message(&gzip(&entries), &json!({"compressed": "gzip"})), &lines, b"");
    check(&[b"\x92\xa3app\x95", &entries[..]].concat(), &lines, b"");
    // A group that has no events, alone and with a time without metadata.
    check(b"\x93\xa1t\xd7\x00\xff\xff\xff\xff\0\0\0\0\x80", &[], b"");
    check(&[&b"\x92\xa1t\x91"[..], ends].concat(), &[], b"");
}

#[test]
fn what_a_group_states_is_bounded() {
    let many: Map<String, Value> =
        (0..=GROUP_MEMBERS_MAX).map(|number| (number.to_string(), json!(1))).collect();
    for states in [json!({"a": "x".repeat(GROUP_BYTES_MAX)}), Value::Object(many)] {
        let entries = [&group_begins(&states)[..], b"\x92\x01\x80"].concat();
        let taken = take(plain, &packed_message(&entries, &json!({})));
        let line = r#"{"_time":"1970-01-01T00:00:01Z","fluent.tag":"app"}"#;
        assert_eq!((taken.lines, taken.rejected), (to_owned(&[line]), 1));
    }
}

#[test]
fn records_that_are_nested_too_deeply_are_rejected_alone() {
    let nested = |depth: usize| {
        let mut record = b"\x81\xa1a".to_vec();
        record.extend(vec![0x91; depth - 1]);
        record.push(0xc0);
        record
    };
    for (depth, is_kept) in [
        (msgpack::DEPTH_MAX - 1, true),
        (msgpack::DEPTH_MAX, true),
        (msgpack::DEPTH_MAX + 1, false),
        (1 << 20, false),
    ] {
        let entries = [b"\x92\x01", &nested(depth)[..], b"\x92\x01\x80"].concat();
        let taken =
            feed(&mut plain(), &packed_message(&entries, &json!({"chunk": "c"})), usize::MAX);
        let expected = (1 + usize::from(is_kept), u64::from(!is_kept));
        assert_eq!((taken.lines.len(), taken.rejected), expected, "{depth}");
        assert_eq!(taken.answers, b"\x81\xa3ack\xd9\x01c");
    }
}

/// What nests deeper than any stack of the test's thread.
fn deep() -> Vec<u8> {
    let mut deep = vec![0x91; 100_000];
    deep.push(0xc0);
    deep
}

/// Lines, rejected records, and whether the connection is closed, of one message, on a thread with
/// a small stack.
fn take_with_a_small_stack(message: Vec<u8>) -> (Vec<String>, u64, bool) {
    let take = move || {
        let taken = feed(&mut plain(), &message, usize::MAX);
        (taken.lines, taken.rejected, taken.wrong.is_some())
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(take).unwrap().join().unwrap()
}

#[test]
fn values_of_any_depth_need_no_stack() {
    let deep = &deep()[..];
    let line = || vec![r#"{"fluent.tag":"t"}"#.to_owned()];
    for (what, parts, expected) in [
        // The time of an entry, which then has none.
        ("time", [&b"\x92\xa1t\x91\x92"[..], deep, b"\x80"], (line(), 0, false)),
        // A list of one entry, which is a record.
        ("time alone", [b"\x93\xa1t", deep, b"\x80"], (Vec::new(), 1, false)),
        ("record", [b"\x92\xa1t\x91\x92\x00", deep, b""], (Vec::new(), 1, false)),
        ("record alone", [b"\x93\xa1t\x00", deep, b""], (Vec::new(), 1, false)),
        ("value", [b"\x93\xa1t\x00\x81\xa1a", deep, b""], (Vec::new(), 1, false)),
        ("key", [b"\x93\xa1t\x00\x81", deep, b"\x01"], (Vec::new(), 1, false)),
        ("behind a record", [b"\x92\xa1t\x91\x93\x00\x80", deep, b""], (line(), 0, false)),
        ("option", [b"\x94\xa1t\x00\x80\x81\xa1a", deep, b""], (line(), 0, false)),
        ("chunk", [b"\x94\xa1t\x00\x80\x81\xa5chunk", deep, b""], (line(), 0, false)),
        ("options", [b"\x94\xa1t\x00\x80", deep, b""], (Vec::new(), 0, true)),
        ("tag", [b"\x93", deep, b"\x00\x80"], (Vec::new(), 0, true)),
    ] {
        assert_eq!(take_with_a_small_stack(parts.concat()), expected, "{what}");
    }
}

/// The JSON of a key is a text within JSON: with each level, its quotes have twice the backslashes.
#[test]
fn keys_within_keys_are_nested_too_deeply() {
    let message = |levels: usize| {
        let mut message = b"\x93\xa1t\x00".to_vec();
        message.extend(vec![0x81; levels + 1]);
        message.extend(b"\xa1k");
        message.extend(vec![0x01; levels + 1]);
        message
    };
    check(&message(1), &[r#"{"{\"k\":1}":1,"fluent.tag":"t"}"#], b"");
    for levels in [2, 20] {
        let taken = take(plain, &message(levels));
        assert_eq!((taken.lines.len(), taken.rejected), (0, 1), "{levels}");
    }
}

#[test]
fn what_is_wrong_says_so() {
    let check = |bytes: &[u8], expected: &str| {
        let taken = take(plain, bytes);
        let wrong = taken.wrong.unwrap_or_else(|| panic!("{expected}"));
        assert!(wrong.contains(expected), "{wrong}");
        assert_eq!(taken.answers, b"");
    };
    check(b"GET / HTTP/1.1\r\n\r\n", "no message of Fluent forward");
    check(b"<13>a line\n", "no message of Fluent forward");
    check(b"\x92\xa1t\xc1", "no message of Fluent forward");
    check(b"\x92\x01\x01", "none of the four kinds");
    check(b"\x95\xa1t\x01\x80\x80\x80", "none of the four kinds");
    check(b"\x92\xa1t\x01", "none of the four kinds");
    check(b"\x93\xa1t\x91\x92\x01\x80\x01", "none of the four kinds");
    let option = |option: Value| packed_message(b"\x92\x01\x80", &option);
    check(&option(json!({"compressed": "lzma"})), "set compress to");
    check(&option(json!({"compressed": "gzip"})), "cannot be decompressed");
    check(&option(json!({"fluent_signal": 1})), "metrics or traces");
    check(&option(json!({"chunk": "c".repeat(CHUNK_BYTES_MAX + 1)})), "more than 1024 bytes");
    let cut = gzip(b"\x92\x01\x80\x92\x01\x80");
    check(&packed_message(&cut[..cut.len() - 9], &json!({"compressed": "gzip"})), "decompressed");
}

/// A sender repeats all of a message that is not answered, for ever if that is its damage.
#[test]
fn damage_in_a_chunk_does_not_double_the_records_before_it() {
    let line = r#"{"_time":"1970-01-01T00:00:01Z","fluent.tag":"app"}"#;
    for (damaged, kept) in [
        (&b"\x92\x01\x80\x92\x01"[..], 1),
        (b"\x92\x01\x80\xc1\x92\x01\x80", 1),
        (b"\x92\x01\x80\x92\x01\x80\x92\x01\x82\xa1a", 2),
        (b"\x92", 0),
    ] {
        let option = |name: &str| json!({"chunk": "c", "compressed": name});
        for message in [
            packed_message(damaged, &option("text")),
            packed_message(&gzip(damaged), &option("gzip")),
        ] {
            // The next message is taken, too.
            let taken = take(plain, &[&message[..], b"\x93\xa1t\x00\x80"].concat());
            let mut expected = vec![line; kept];
            expected.push(r#"{"fluent.tag":"t"}"#);
            assert_eq!((taken.lines, taken.rejected), (to_owned(&expected), 1), "{damaged:?}");
            assert_eq!((&taken.answers[..], taken.wrong), (&b"\x81\xa3ack\xd9\x01c"[..], None));
        }
    }
    // What is whole, and no time with a record, is a record.
    check(
        b"\x92\xa1t\x93\x01\x91\x02\x81\xa1a\x03",
        &[
            r#"{"_msg":1,"fluent.tag":"t"}"#,
            r#"{"_msg":[2],"fluent.tag":"t"}"#,
            r#"{"a":3,"fluent.tag":"t"}"#,
        ],
        b"",
    );
}

fn to_owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn lengths_are_not_trusted() {
    for bytes in [
        &b"\x92\xa1t\xdd\xff\xff\xff\xff"[..],
        b"\x92\xa1t\xdf\xff\xff\xff\xff",
        b"\x92\xa1t\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff",
        b"\x92\xdb\xff\xff\xff\xff",
    ] {
        let taken = take(plain, bytes);
        assert_eq!((taken.rest, taken.wrong), (bytes.len(), None));
    }
}

#[test]
fn large_chunks_come_in_pieces_and_are_answered_at_their_end() {
    let mut entries = Vec::new();
    let records = 4 * PIECE_BYTES / 100;
    for number in 0..records {
        entries.extend(packed(&json!([1, {"n": number, "text": "x".repeat(100)}])));
    }
    assert!(entries.len() < MESSAGE_BYTES_MAX);
    let option = |name: &str| json!({"chunk": "c", "compressed": name});
    for message in [
        packed_message(&entries, &option("text")),
        packed_message(&gzip(&entries), &option("gzip")),
        packed_message(&zstd::bulk::compress(&entries, 1).unwrap(), &option("zstd")),
    ] {
        let mut input = Input::default();
        input.push(&message);
        let (mut forward, mut lines, mut steps) = (plain(), 0, 0);
        loop {
            let mut out = Output::default();
            if forward.step(&mut input, &mut out).unwrap() == Step::NeedsBytes {
                break;
            }
            assert!(out.lines.len() < PIECE_BYTES + 1000);
            lines += out.lines.iter().filter(|byte| **byte == b'\n').count();
            steps += 1;
            assert_eq!(!out.answers.is_empty(), lines == records && forward.message.is_none());
        }
        assert!(lines == records && steps > 4, "{lines} in {steps}");
    }
}

/// What a sender with `key` answers to HELO.
fn ping_of(key: &SharedKey, helo: &[u8]) -> Vec<u8> {
    let nonce = &helo[helo.windows(2).position(|two| two == b"\xc4\x10").unwrap() + 2..][..16];
    let mut message = packed(&json!(["PING", "client", "salt", "", "", ""]));
    message.truncate(message.len() - 3);
    put_text(&key.digest(b"salt", b"client", nonce), &mut message);
    message.extend(b"\xa0\xa0");
    message
}

#[test]
fn only_senders_with_the_key_are_admitted() {
    let key = |text: &[u8]| SharedKey::new(text).unwrap();
    let record = b"\x93\xa1t\x01\x80";
    let mut forward = Forward::new(Some(key(b"secret\n")));
    let helo = forward.greeting();
    let taken = feed(&mut forward, &[&ping_of(&key(b"secret"), &helo)[..], record].concat(), 5);
    assert_eq!((taken.lines.len(), taken.wrong), (1, None));
    assert!(taken.answers.starts_with(b"\x95\xa4PONG\xc3\xa0\xd9\x08loginson\xd9\x80"));
    let nonce = forward.nonce;
    let digest = key(b"secret").digest(b"salt", OUR_NAME, &nonce);
    assert!(taken.answers.ends_with(&digest));

    let check = |bytes: &[u8], expected: &str| {
        let mut forward = Forward::new(Some(key(b"secret")));
        forward.greeting();
        let taken = feed(&mut forward, &[bytes, record].concat(), usize::MAX);
        assert_eq!((taken.lines.len(), taken.answers.len()), (0, 0));
        assert!(taken.wrong.as_ref().unwrap().contains(expected), "{taken:?}");
        assert!(!forward.has_begun());
    };
    check(&ping_of(&key(b"other"), &helo), "another one");
    // Of another connection.
    check(&ping_of(&key(b"secret"), &helo), "another one");
    check(record, "without the shared key");
    check(&[b"\x92\xda\xff\xff", &vec![0; PING_BYTES_MAX][..]].concat(), "did not begin");
    assert!(SharedKey::new(b" \n").is_err());
    assert_eq!(format!("{:?}", key(b"secret")), "SharedKey(…)");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-200_i64..200).prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 64.0)),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..20)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn records_are_what_was_encoded(
        records in prop::collection::vec(prop::collection::btree_map(".{0,8}", value(), 0..6), 0..6),
        time in 1_u32..,
        wide: bool,
        kind in 0..3,
    ) {
        let mut entries = Vec::new();
        for record in &records {
            put(&json!([time, record]), wide, &mut entries);
        }
        let option = |name: &str| json!({"size": records.len(), "compressed": name});
        let message = match kind {
            0 => packed_message(&entries, &option("text")),
            1 => packed_message(&gzip(&entries), &option("gzip")),
            _ => {
                let list: Vec<_> = records.iter().map(|record| json!([time, record])).collect();
                packed(&json!(["app", list, option("text")]))
            }
        };
        let taken = take(plain, &message);
        prop_assert_eq!((taken.wrong, taken.rest, taken.lines.len()), (None, 0, records.len()));
        for (line, record) in taken.lines.iter().zip(&records) {
            let mut expected: Map<String, Value> = record.clone().into_iter().collect();
            let time = text::time::format_time(i64::from(time) * 1_000_000_000);
            expected.insert("_time".to_owned(), time.into());
            expected.insert("fluent.tag".to_owned(), "app".into());
            let found: Map<String, Value> = serde_json::from_str(line).unwrap();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn damage_ends_in_an_error_or_waits(
        record in value(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut message = packed(&json!(["app", [[1, record]], {"chunk": "c"}]));
        let at = at.index(message.len());
        message[at] = byte;
        let taken = take(plain, &message);
        for line in taken.lines {
            serde_json::from_str::<Value>(&line).unwrap();
        }
    }
}
