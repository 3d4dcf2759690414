//! Lines with fields that have the names of Loginson's own: the sent value is found under its name.

use super::*;
use crate::frame::Tenant;

/// All own names, and those of computed fields. Without `_time` and `_msg`, which have a fixed
/// meaning.
const NAMES: [&str; 38] = [
    "_type",
    "_level",
    "level",
    "_note",
    "priority",
    "facility",
    "facility_keyword",
    "severity",
    "format",
    "hostname",
    "app_name",
    "proc_id",
    "msg_id",
    "sequence",
    "vhost",
    "client_ip",
    "ident",
    "user",
    "method",
    "path",
    "protocol",
    "request",
    "status",
    "bytes",
    "referer",
    "user_agent",
    "_remote_ip",
    "_file",
    "type",
    "remote_ip",
    "file",
    "_received",
    "_id",
    "_raw",
    "_line",
    "_line_id",
    "_stream",
    "_stream_id",
];

#[test]
fn a_key_of_an_object_keeps_its_name_and_value() {
    let heads = [
        "",
        "<13>Nov 21 12:00:00 h a[7]: ",
        "<13>1 2026-11-21T12:00:00Z h a 7 ID47 - ",
        "<13>1 2026-11-21T12:00:00Z h a 7 - [x y=\"1\"][hostname][_type] ",
    ];
    let named = Hints { file: Some("a.log".into()), ..Hints::default() };
    for origin in [syslog_udp(), file(), http(Format::Auto, named)] {
        for head in heads {
            for name in NAMES {
                let line = format!("{head}{{\"{name}\":\"sent\",\"msg\":\"m\"}}");
                // Twice, so that heads are cached the second time, with another one between.
                let other = format!("{head}{{\"msg\":\"other\"}}");
                let lines = [&line, &other, &line, &other].map(|line| line.as_bytes());
                let batch = parse_with(&ParserConfig::default(), &origin, &lines);
                for (index, row) in batch.rows().enumerate() {
                    let found = row.get_by_name(name);
                    assert_eq!(found == Some(b"sent"), index % 2 == 0, "{name} in {line}");
                    assert!(
                        row.get_by_name("_type").is_some() && row.get_by_name("_msg").is_some()
                    );
                    let mut ids: Vec<_> = row.fields().map(|(id, _)| id).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    assert_eq!(ids.len(), row.fields_count(), "a name occurs once: {line}");
                }
                // The value of the head is not lost.
                if !head.is_empty() && ["hostname", "app_name", "proc_id"].contains(&name) {
                    let beside = batch.row(0).get_by_name(&format!("syslog.{name}"));
                    assert_eq!(beside, batch.row(1).get_by_name(name), "{line}");
                }
            }
        }
    }
}

#[test]
fn an_extra_field_keeps_its_name_and_value() {
    for name in NAMES {
        let extra_fields = vec![(name.to_owned(), "sent".to_owned())];
        let origin = http(Format::Auto, Hints { extra_fields, ..Hints::default() });
        let lines: [&[u8]; 4] = [
            b"<13>Nov 21 12:00:00 h a[7]: x",
            b"{\"msg\":\"m\",\"level\":\"info\"}",
            b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12",
            b"ERROR: x",
        ];
        let batch = parse_with(&ParserConfig::default(), &origin, &lines);
        for row in batch.rows() {
            assert_eq!(row.get_by_name(name), Some(&b"sent"[..]), "{name}");
        }
    }
}

#[test]
fn the_level_of_an_extra_field_is_known() {
    for (name, value, expected) in [
        ("level", "WARN", "warning"),
        ("level", "odd", "odd"),
        ("severity", "fatal", "critical"),
        ("_level", "own", "own"),
    ] {
        let extra_fields = vec![(name.to_owned(), value.to_owned())];
        let origin = http(Format::Auto, Hints { extra_fields, ..Hints::default() });
        let lines: [&[u8]; 2] = [b"x", b"{\"msg\":\"m\",\"level\":\"info\"}"];
        let batch = parse_with(&ParserConfig::default(), &origin, &lines);
        for row in batch.rows() {
            assert_eq!(row.get_by_name("_level"), Some(expected.as_bytes()), "{name}={value}");
            assert_eq!(row.get_by_name(name), Some(value.as_bytes()));
        }
    }
}

#[test]
fn a_line_may_have_its_own_stream() {
    let lines: [&[u8]; 2] = [b"{\"_stream\":\"{a=\\\"b\\\"}\",\"msg\":\"m\"}", b"{\"msg\":\"m\"}"];
    let batch = parse_with(&ParserConfig::default(), &file(), &lines);
    let stream = |row: usize| {
        let mut text = String::new();
        batch.row(row).write_stream(&mut text);
        text
    };
    assert_eq!(stream(0), "{a=\"b\"}");
    assert_eq!(stream(1), "{_type=\"json\"}");
}

/// Whatever way a sender takes to name the type of the audit log, its lines are not taken for it.
#[test]
fn no_sender_writes_lines_of_the_audit_log() {
    let extra = |value: &str| Hints {
        extra_fields: vec![("_type".into(), value.into())],
        ..Hints::default()
    };
    let cases: [(Origin, &str); 6] = [
        (http(Format::Json, Hints::default()), r#"{"_type":"audit","user":"ann"}"#),
        (http(Format::Json, Hints::default()), r#"{"_type":"\u0061udit","user":"ann"}"#),
        (http(Format::Auto, Hints::default()), r#"{"_type":"audit","user":"ann"}"#),
        (http(Format::Json, extra("audit")), r#"{"user":"ann"}"#),
        (file(), "ts=2026-01-31T12:00:00Z level=info _type=audit user=ann msg=x"),
        (syslog_udp(), r#"<13>Nov 21 11:59:58 h a[1]: {"_type":"audit","user":"ann"}"#),
    ];
    for (origin, line) in cases {
        let batch = parse_with(&ParserConfig::default(), &origin, &[line.as_bytes()]);
        let row = batch.row(0);
        let types: Vec<&[u8]> = row
            .fields()
            .filter(|(id, _)| batch.name(*id) == "_type")
            .map(|(_, value)| value)
            .collect();
        assert!(!types.is_empty() && !types.contains(&&b"audit"[..]), "{line}: {types:?}");
    }
    let own = Origin::new(Transport::Internal, Format::Json, None);
    let hints = Hints { log_type: Some("audit".into()), ..Hints::default() };
    let own = Origin { hints: Arc::new(hints), ..own };
    let batch = parse_with(&ParserConfig::default(), &own, &[br#"{"user":"ann"}"#]);
    assert_eq!(batch.row(0).get_by_name("_type"), Some(&b"audit"[..]));
}

/// Structured data, entries of a slow log and exports name their fields as they like: lines behind
/// them of the same sender keep all of their own fields, and none becomes one of the audit log.
#[test]
fn names_of_own_fields_outside_of_objects() {
    let sd = |data: &str| format!("<13>1 2026-11-21T12:00:00Z h a 7 ID47 {data} m");
    let slow = |pair: &str| format!("# User@Host: u[u] @ db1 []  {pair}");
    let export = |name: &str| {
        format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"{name}","value":{{"stringValue":"audit"}}}}]}},"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"x"}}}}]}}]}}]}}"#
        )
    };
    let json = http(Format::Json, Hints::default());
    let named = http(Format::Auto, Hints { file: Some("a.log".into()), ..Hints::default() });
    for name in ["_type", "_level", "level", "_remote_ip", "_file", "hostname", "_stream", "x"] {
        let cases = [
            (syslog_udp(), sd(&format!("[{name}=\"audit\"]")), sd("[y=\"1\"]")),
            (named.clone(), sd(&format!("[{name}=\"audit\"]")), sd("[y=\"1\"]")),
            (named.clone(), slow(&format!("{name}: audit")), "# a heading".to_owned()),
            (syslog_udp(), format!("<13>{}", slow(&format!("{name}: audit"))), "<13># b".into()),
            (json.clone(), export(name), r#"{"msg":"m"}"#.to_owned()),
        ];
        for (origin, sent, other) in cases {
            let parsed = |lines: &[&String]| {
                let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
                parse_with(&ParserConfig::default(), &origin, &lines)
            };
            let alone = [parsed(&[&sent]), parsed(&[&other])];
            for turn in [[&sent, &other, &sent, &other], [&other, &sent, &other, &sent]] {
                let batch = parsed(&turn);
                for (row, line) in batch.rows().zip(turn) {
                    let expected = &alone[usize::from(line == &other)];
                    assert_eq!(shown(row, &batch), shown(expected.row(0), expected), "{line}");
                    let types = row.fields().filter(|(id, _)| batch.name(*id) == "_type");
                    let types: Vec<&[u8]> = types.map(|(_, value)| value).collect();
                    assert!(types.len() == 1 && types[0] != b"audit", "{line}: {types:?}");
                }
            }
        }
    }
}

/// No row has two levels, and none loses its level to another row.
#[test]
fn an_empty_level_gives_way_to_that_of_the_head() {
    let head = "<13>Nov 21 12:00:00 h a[7]: ";
    for (empty, other) in [
        ("ts=2026-11-21T12:00:00Z level= msg=x", "ts=2026-11-21T12:00:00Z msg=x"),
        (r#"{"level":"","msg":"x"}"#, r#"{"msg":"x"}"#),
        (
            r#"{"log":"{\"level\":\"\",\"msg\":\"x\"}\n","stream":"stdout"}"#,
            r#"{"log":"{\"msg\":\"x\"}\n","stream":"stdout"}"#,
        ),
    ] {
        let (empty, other) = (format!("{head}{empty}"), format!("{head}{other}"));
        for turn in [[&empty, &other, &empty, &other], [&other, &empty, &other, &empty]] {
            let lines = turn.map(|line| line.as_bytes());
            let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &lines);
            for (row, line) in batch.rows().zip(turn) {
                let levels = row.fields().filter(|(id, _)| batch.name(*id) == "level");
                let levels: Vec<&[u8]> = levels.map(|(_, value)| value).collect();
                assert_eq!(levels, [&b"notice"[..]], "{line}");
            }
        }
    }
}

#[test]
fn structured_data_hides_neither_the_message_nor_the_head() {
    let parsed = |data: &str| {
        let line = format!("<13>1 2026-11-21T12:00:00Z h a 7 ID47 {data} m");
        let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes()]);
        let row = batch.row(0);
        let names = ["_msg", "json._msg", "json._time", "hostname", "syslog.hostname", "level"];
        let found = names.into_iter().filter_map(|name| {
            Some(format!("{name}={}", String::from_utf8_lossy(row.get_by_name(name)?)))
        });
        found.collect::<Vec<_>>().join(" ")
    };
    for (data, expected) in [
        ("[_msg=\"x\"]", "_msg=m json._msg=x hostname=h level=notice"),
        ("[_time=\"x\"]", "_msg=m json._time=x hostname=h level=notice"),
        ("[hostname=\"x\"]", "_msg=m hostname=x syslog.hostname=h level=notice"),
        ("[hostname=\"x\" hostname=\"y\"]", "_msg=m hostname=y syslog.hostname=h level=notice"),
        ("[hostname=\"h\"]", "_msg=m hostname=h level=notice"),
        ("[hostname=\"\" level=\"\"]", "_msg=m hostname=h level=notice"),
        ("[level=\"odd\"]", "_msg=m hostname=h level=odd"),
    ] {
        assert_eq!(parsed(data), expected, "{data}");
    }
}

/// Whatever a line contains, only its origin says whose it is.
#[test]
fn no_line_names_its_tenant() {
    let lines: [&[u8]; 9] = [
        br#"{"_tenant":"1:1","msg":"m"}"#,
        br#"{"_tenant":"1:1","sent.tenant":"2:2","msg":"m"}"#,
        br#"{"_tenant":{"":"1:1"},"_tenant":"1:1"}"#,
        br#"<13>Nov 21 12:00:00 h a[7]: {"_tenant":"1:1"}"#,
        br#"<13>1 2026-11-21T12:00:00Z h a 7 - [x _tenant="1:1"][_tenant] m"#,
        b"level=info _tenant=1:1 msg=m",
        b"<13>Nov 21 12:00:00 h a[7]: level=info _tenant=1:1 msg=m",
        b"CEF:0|v|p|1|2|n|3|_tenant=1:1 msg=m",
        b"LEEF:1.0|v|p|1|2|_tenant=1:1\tmsg=m",
    ];
    let other = Tenant { account: 12, project: 3 };
    for tenant in [Tenant::DEFAULT, other] {
        for format in [Format::Auto, Format::Json] {
            for name in ["_tenant", "rack"] {
                let extra_fields = vec![(name.to_owned(), "1:1".to_owned())];
                let hints = Hints { tenant, extra_fields, ..Hints::default() };
                // Twice, so that heads are cached the second time.
                let lines: Vec<&[u8]> = lines.iter().chain(&lines).copied().collect();
                let batch = parse_with(&ParserConfig::default(), &http(format, hints), &lines);
                let expected = (!tenant.is_default()).then(|| tenant.to_string());
                for row in batch.rows() {
                    let found = row.get_by_name("_tenant").map(String::from_utf8_lossy);
                    assert_eq!(found.as_deref(), expected.as_deref(), "{}", shown(row, &batch));
                    if name == "_tenant" {
                        assert_eq!(row.get_by_name("sent.tenant"), Some(&b"1:1"[..]));
                    }
                }
            }
        }
    }
}
