//! Messages: access lines, plain lines, and the result of a configured format.

use super::*;

const LINE: &str = r#"83.149.9.216 - frank [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 203023 "http://x/" "Mozilla/5.0 (X; \"q\")""#;

#[test]
fn access_lines() {
    let rows = [
        (
            LINE,
            r#"bytes=203023|client_ip=83.149.9.216|_level=info|method=GET|path=/a?b=c|protocol=HTTP/1.1|referer=http://x/|status=200|user=frank|user_agent=Mozilla/5.0 (X; \"q\")"#,
        ),
        // The common format; no size.
        (
            r#"h.example.com id - [17/May/2015:10:05:03 +0000] "HEAD / HTTP/1.0" 404 -"#,
            "client_ip=h.example.com|ident=id|_level=warning|method=HEAD|path=/|protocol=HTTP/1.0|status=404",
        ),
        (
            r#"vhost:80 ::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 503 0 "-" "-""#,
            "bytes=0|client_ip=::1|_level=error|method=GET|path=/|protocol=HTTP/1.0|status=503|vhost=vhost:80",
        ),
        // Invalid requests.
        (
            r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-""#,
            "client_ip=1.2.3.4|_level=warning|status=408",
        ),
        (
            r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226"#,
            r#"bytes=226|client_ip=1.2.3.4|_level=warning|request=\x16\x03\x01|status=400"#,
        ),
        (
            r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a b HTTP/1.1" 200 1 "-" "-" 0.003 "x""#,
            "bytes=1|client_ip=1.2.3.4|_level=info|method=GET|path=/a b|protocol=HTTP/1.1|status=200",
        ),
        (
            r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /" 200 1"#,
            "bytes=1|client_ip=1.2.3.4|_level=info|method=GET|path=/|status=200",
        ),
    ];
    for (line, expected) in rows {
        let msg = format!("_msg={line}");
        let expected = format!("{expected}|@2015-05-17T10:05:03Z");
        check(&file(), &[&msg, "_type=access"], &[(line, &expected)]);
    }
}

/// A client may send any user, whether it is known or not: blanks in it hide nothing.
#[test]
fn users_with_blanks() {
    let tail = r#"[17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 401 12"#;
    for user in ["John Doe", "a b c d", " a", "[17/May/2015:10:05:03 +0000] x", "a ["] {
        let rows = [
            (format!("192.0.2.3 - {user} {tail}"), ""),
            (format!("shop.example:443 192.0.2.3 - {user} {tail}"), "vhost=shop.example:443|"),
        ];
        for (line, vhost) in rows {
            let expected = format!(
                "{vhost}bytes=12|client_ip=192.0.2.3|_level=warning|method=GET|path=/|\
                 protocol=HTTP/1.1|status=401|user={user}|@2015-05-17T10:05:03Z"
            );
            let msg = format!("_msg={line}");
            check(&file(), &[&msg, "_type=access"], &[(&line, &expected)]);
        }
    }
    // The address of the client may be missing behind a virtual host.
    for host in ["shop.example", "192.0.2.9"] {
        let line = format!("{host} - - bob {tail}");
        let batch = parse_with(&ParserConfig::default(), &file(), &[line.as_bytes()]);
        let row = batch.row(0);
        assert_eq!(row.get_by_name("vhost"), Some(host.as_bytes()));
        assert_eq!(row.get_by_name("user"), Some(&b"bob"[..]));
    }
    let line = format!("a worker - some text before {tail}");
    let batch = parse_with(&ParserConfig::default(), &file(), &[line.as_bytes()]);
    assert_eq!(batch.row(0).get_by_name("_type"), Some(&b"plain"[..]));
}

#[test]
fn lines_that_are_nearly_access_lines_are_plain() {
    for line in [
        r#"1.2.3.4 - - [17/May/2015:10:05:03] "GET / HTTP/1.0" 200 1"#,
        r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 20 1"#,
        r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 200 x"#,
        r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0 200 1"#,
        r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0""#,
        r#"1.2.3.4 - -"#,
    ] {
        check(&file(), &["_type=plain"], &[(line, &format!("_msg={line}"))]);
    }
}

#[test]
fn access_lines_and_objects_inside_syslog() {
    let common = [
        "_remote_ip=10.0.0.7",
        "facility=1",
        "facility_keyword=user",
        "priority=14",
        "severity=6",
        "hostname=h",
        "app_name=a",
        "format=rfc3164",
    ];
    let line = format!("<14>Nov 21 12:00:00 h a: {LINE}");
    let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes()]);
    let row = batch.row(0);
    assert_eq!(row.get_by_name("_type"), Some(&b"access"[..]));
    assert_eq!(row.get_by_name("_msg"), Some(LINE.as_bytes()));
    assert_eq!(row.get_by_name("status"), Some(&b"200"[..]));
    assert_eq!(row.get_by_name("hostname"), Some(&b"h"[..]));
    assert_eq!(row.time_ns(), ARRIVAL_NS, "the head's time is taken");
    check(
        &syslog_udp(),
        &common,
        &[
            (
                r#"<14>Nov 21 12:00:00 h a: {"msg":"m","lvl":"WARN","hostname":"other","time":"2020-01-01T00:00:00Z"}"#,
                "_msg=m|hostname=other|syslog.hostname=h|_level=warning|level=info|lvl=WARN|time=2020-01-01T00:00:00Z|_type=json",
            ),
            (
                r#"<14>Nov 21 12:00:00 h a: @cee: {"x":1}"#,
                r#"_msg={"x":1}|level=info|_level=info|_type=json|x=1"#,
            ),
            (
                r#"<14>Nov 21 12:00:00 h a: {"x":1"#,
                r#"_msg={"x":1|_note=not JSON: broken or cut off|level=info|_level=info|_type=syslog"#,
            ),
            ("<14>Nov 21 12:00:00 h a: {x}", "_msg={x}|level=info|_level=info|_type=syslog"),
        ],
    );
    check(
        &syslog_udp(),
        &common,
        &[(
            r#"<14>{"time":"2020-01-01T00:00:00Z","level":"ERR"}"#,
            r#"_msg={"time":"2020-01-01T00:00:00Z","level":"ERR"}|level=ERR|_level=error|_type=json|@2020-01-01T00:00:00Z"#,
        )],
    );
}

#[test]
fn plain_lines() {
    check(
        &file(),
        &["_type=plain"],
        &[
            ("", "_msg="),
            ("\0\r", "_msg="),
            ("hello", "_msg=hello"),
            (
                "2015-10-18 18:01:47,978 WARN [main] x",
                "_msg=2015-10-18 18:01:47,978 WARN [main] x|_level=warning|@2015-10-18T18:01:47.978Z",
            ),
            (
                "2099-10-18 18:01:47,978 x",
                "_msg=2099-10-18 18:01:47,978 x|_note=absurd time, arrival taken",
            ),
            ("ERROR: no time", "_msg=ERROR: no time|_level=error"),
        ],
    );
}

#[test]
fn a_type_from_the_source_forces_the_parser_of_that_name() {
    let with = |log_type: &str, format| {
        http(format, Hints { log_type: Some(log_type.into()), ..Hints::default() })
    };
    let check_type = |log_type: &str, format, line: &str, expected: &str| {
        check(&with(log_type, format), &[&format!("_type={log_type}")], &[(line, expected)]);
    };
    check_type("plain", Format::Auto, "<13>a: x", "_msg=<13>a: x");
    check_type("plain", Format::Auto, "{\"a\":1}", "_msg={\"a\":1}");
    check_type("json", Format::Auto, "{\"a\":1}", "_msg={\"a\":1}|a=1");
    check_type("json", Format::Auto, "x", "_msg=x|_note=not JSON: broken or cut off");
    check_type("access", Format::Auto, "x", "_msg=x|_note=not an access line");
    check_type("shop", Format::Auto, "{\"a\":1}", "_msg={\"a\":1}|a=1");
    check_type("shop", Format::Auto, "x", "_msg=x");
    let shop = "_msg=x|app_name=a|facility=1|facility_keyword=user|format=rfc3164|level=notice|_level=notice|priority=13|severity=5";
    check_type("shop", Format::Auto, "<13>a: x", shop);
    check_type("syslog", Format::Auto, "<13>a: x", shop);
    check_type("syslog", Format::Auto, "x", "_msg=x");
    // Lines that are known to be JSON are JSON, whatever their type is called.
    for name in ["access", "plain", "logfmt", "syslog", "json", "shop"] {
        check_type(name, Format::Json, r#"{"msg":"m","a":1}"#, "_msg=m|a=1");
    }
}

#[test]
fn values_lose_their_colours_and_lines_keep_them() {
    let coloured = |names: &[&str]| Hints {
        decolorize_fields: names.iter().map(|&name| name.to_owned()).collect(),
        ..Hints::default()
    };
    let line =
        "{\"_msg\":\"\\u001b[31mred\\u001b[0m\",\"app.a\":\"\\u001b[1mx\",\"b\":\"\\u001b[1my\"}";
    for (names, expected) in [
        (&["_msg", "app.*"][..], "_msg=red|app.a=x|b=\x1b[1my"),
        (&["*"], "_msg=red|app.a=x|b=y"),
        (&["none"], "_msg=\x1b[31mred\x1b[0m|app.a=\x1b[1mx|b=\x1b[1my"),
    ] {
        check(&http(Format::Json, coloured(names)), &["_type=json"], &[(line, expected)]);
    }
    // Also if many lines share their head and type.
    let lines = ["<14>Jan 31 12:00:00 web1 app: \x1b[32mok\x1b[0m"; 40];
    let origin = Origin {
        hints: Arc::new(coloured(&["_msg"])),
        ..Origin::new(Transport::SyslogTcp, Format::Syslog, None)
    };
    let lines = lines.map(str::as_bytes);
    let batch = parse_with(&ParserConfig::default(), &origin, &lines);
    for row in batch.rows() {
        assert_eq!(row.get_by_name("_msg"), Some(&b"ok"[..]));
        assert_eq!(row.get_by_name("hostname"), Some(&b"web1"[..]));
        assert_eq!(row.raw(), lines[0]);
    }
}

#[test]
fn hints_of_the_lines() {
    let hints = Hints {
        file: Some("/var/log/x".into()),
        extra_fields: vec![("env".into(), "prod".into()), ("_id".into(), "7".into())],
        ..Hints::default()
    };
    let origin = http(Format::Auto, hints);
    check(&origin, &[], &[("x", "_msg=x|env=prod|_id=7|_file=/var/log/x|_type=plain")]);
    check(
        &origin,
        &["env=prod", "_id=7", "_type=json"],
        &[
            (
                r#"{"file":"main.go","msg":"m","remote_ip":"r"}"#,
                "_msg=m|_file=/var/log/x|file=main.go|remote_ip=r",
            ),
            // As another Loginson sends it on: that is no reason for a note.
            (r#"{"_file":"main.go","msg":"m"}"#, "_msg=m|_file=main.go"),
        ],
    );
    let sender = Some("[::ffff:10.1.2.3]:514".parse().unwrap());
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, sender);
    check(
        &origin,
        &[],
        &[
            ("x", "_msg=x|_remote_ip=10.1.2.3|_type=plain"),
            (r#"{"remote_ip":"r","msg":"m"}"#, "_msg=m|remote_ip=r|_remote_ip=10.1.2.3|_type=json"),
            (r#"{"_remote_ip":"r","msg":"m"}"#, "_msg=m|_remote_ip=r|_type=json"),
        ],
    );
}

#[test]
fn extra_fields_have_a_limit() {
    for (count, noted) in [(EXTRA_FIELDS_MAX, false), (EXTRA_FIELDS_MAX + 1, true)] {
        let extra_fields = (0..count).map(|n| (format!("e{n}"), "1".to_owned())).collect();
        let origin = http(Format::Auto, Hints { extra_fields, ..Hints::default() });
        let batch = parse_with(&ParserConfig::default(), &origin, &[b"x", b"y"]);
        for row in batch.rows() {
            assert_eq!(row.get_by_name("_note").is_some(), noted);
            assert_eq!(row.get_by_name(&format!("e{}", EXTRA_FIELDS_MAX - 1)), Some(&b"1"[..]));
        }
    }
}
