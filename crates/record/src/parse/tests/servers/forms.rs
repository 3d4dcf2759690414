//! Single forms, settings, and lines made to deceive.

use super::*;

/// The lines of a case of strangers, in other words.
#[test]
fn three_servers_in_one_file() {
    check_own(
        &file(),
        "Feb 25 16:19:38 lb haproxy[1]: 192.0.2.3:55876 [25/Feb/2019:16:19:38.123] fe be/srv1 \
         0/0/1/2/3 503 1015 - - ---- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"",
        &[
            ("client_ip", "192.0.2.3"),
            ("client_port", "55876"),
            ("frontend", "fe"),
            ("backend", "be"),
            ("server", "srv1"),
            ("time_request", "0"),
            ("time_queue", "0"),
            ("time_connect", "1"),
            ("time_response", "2"),
            ("time_total", "3"),
            ("status", "503"),
            ("bytes", "1015"),
            ("termination_state", "----"),
            ("actconn", "1"),
            ("feconn", "1"),
            ("beconn", "0"),
            ("srv_conn", "0"),
            ("retries", "0"),
            ("srv_queue", "0"),
            ("backend_queue", "0"),
            ("method", "GET"),
            ("path", "/x"),
            ("protocol", "HTTP/1.1"),
            ("request", "GET /x HTTP/1.1"),
        ],
    );
    check_own(
        &file(),
        "2016/10/25 14:49:34 [error] 54053#0: *1 open() \"/srv/x\" failed (2: No such file or \
         directory), client: 192.0.2.1, server: localhost, request: \"GET /favicon.ico HTTP/1.1\", \
         host: \"localhost:8080\"",
        &[
            ("level", "error"),
            ("pid", "54053"),
            ("tid", "0"),
            ("connection", "1"),
            ("client", "192.0.2.1"),
            ("server", "localhost"),
            ("request", "GET /favicon.ico HTTP/1.1"),
            ("host", "localhost:8080"),
        ],
    );
    check_own(
        &file(),
        "type=SYSCALL msg=audit(1686026891.735:24287): arch=c000003e syscall=2 success=no exit=-13 \
         comm=\"cat\" exe=\"/bin/cat\" key=\"k\"",
        &[
            ("type", "SYSCALL"),
            ("event_id", "24287"),
            ("arch", "c000003e"),
            ("syscall", "2"),
            ("success", "no"),
            ("exit", "-13"),
            ("comm", "cat"),
            ("exe", "/bin/cat"),
            ("key", "k"),
        ],
    );
}

#[test]
fn levels_follow_from_the_status() {
    let haproxy = |status: &str| {
        format!(
            "<134>Nov 21 11:59:58 lb haproxy[1]: 192.0.2.3:55876 [21/Nov/2026:11:59:58.123] fe be/s \
             0/0/1/2/3 {status} 1015 - - ---- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\""
        )
    };
    for (status, level) in [("200", "info"), ("404", "warning"), ("503", "error")] {
        check_level(&syslog_udp(), &haproxy(status), level);
    }
    check_level(
        &file(),
        "2026-11-20 12:00:00 192.0.2.1 GET / - 443 - 192.0.2.2 curl/8 - 500 0 0 15",
        "error",
    );
}

#[test]
fn times_that_only_the_server_knows() {
    let rows = [
        (
            "2 123456789010 eni-1 192.0.2.1 192.0.2.2 1 2 6 1 1 1795000000 1795000060 ACCEPT OK",
            "2026-11-18T11:06:40Z",
        ),
        (
            "https 2026-11-20T12:00:00.186641Z app/a/1 192.0.2.1:2 - -1 -1 -1 503 - 1 2 \"GET https://a:443/ HTTP/1.1\" \"-\" - -",
            "2026-11-20T12:00:00.186641Z",
        ),
        (
            "2026-11-20 12:00:00 192.0.2.1 GET / - 443 - 192.0.2.2 curl/8 - 500 0 0 15",
            "2026-11-20T12:00:00Z",
        ),
        ("node=a type=LOGIN msg=audit(1795000000.250:7): uid=0", "2026-11-18T11:06:40.25Z"),
    ];
    // IIS writes UTC, whatever zone the source has.
    let config = ParserConfig { zone: crate::Zone::Fixed(3600), ..ParserConfig::default() };
    for (line, time) in rows {
        let batch = parse_with(&config, &file(), &[line.as_bytes()]);
        assert_eq!(time_text(batch.row(0).time_ns()), time, "{line}");
    }
}

#[test]
fn a_setting_switches_the_fields_off() {
    let line = "E1120 12:00:00.250000    1234 a.go:5] x";
    let rule = |fields: Option<bool>| TypeRule {
        name: "kubelet".into(),
        contains: Some("a.go".into()),
        fields,
        ..TypeRule::default()
    };
    let rows = [
        (false, None, true),
        (true, None, false),
        (false, Some(false), false),
        (true, Some(true), true),
    ];
    for (no_server_fields, fields, is_parsed) in rows {
        let config =
            ParserConfig { types: vec![rule(fields)], no_server_fields, ..ParserConfig::default() };
        let found = own_fields(&config, &file(), line);
        assert_eq!(!found.is_empty(), is_parsed, "{no_server_fields} {fields:?}");
        check_level(&file(), line, "error");
    }
    let tail =
        "192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" 0.25";
    let config = ParserConfig { no_server_fields: true, ..ParserConfig::default() };
    let found = own_fields(&config, &file(), tail);
    assert!(found.contains(&"status=200".into()) && !found.contains(&"request_time=0.25".into()));
    // Types and streams that were asked for.
    for name in ["plain", "syslog"] {
        let hints = Hints { log_type: Some(name.into()), ..Hints::default() };
        let found = own_fields(&ParserConfig::default(), &http(Format::Auto, hints), line);
        assert_eq!(found.is_empty(), name == "plain");
    }
}

/// Behind heads with PRI, whose fields lines share, in any order of levels and kinds.
#[test]
fn behind_heads_with_priority() {
    let lines = [
        "<11>Nov 21 11:59:58 web1 nginx: 2026/11/21 11:59:58 [warn] 1#2: *3 x, client: 192.0.2.1",
        "<11>Nov 21 11:59:58 web1 nginx: a plain text",
        "<11>Nov 21 11:59:58 web1 nginx: 2026/11/21 11:59:58 [warn] 1#2: *4 y, client: 192.0.2.1",
    ];
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &lines);
    let get = |row: usize, name: &str| {
        batch.row(row).get_by_name(name).map(|value| String::from_utf8_lossy(value).into_owned())
    };
    for (row, level, severe) in
        [(0, "warn", "warning"), (1, "error", "error"), (2, "warn", "warning")]
    {
        assert_eq!(get(row, "level").as_deref(), Some(level));
        assert_eq!(get(row, "_level").as_deref(), Some(severe));
        assert_eq!(get(row, "hostname").as_deref(), Some("web1"));
    }
}

/// Keys that lines have from their head get a prefix, so nobody can choose a stream.
#[test]
fn streams_stay_the_same() {
    let line =
        "type=USER_LOGIN msg=audit(1795000000.250:7): hostname=evil app_name=x level=9 res=ok";
    for line in [line.to_owned(), format!("<13>Nov 21 11:59:58 web1 audispd: {line}")] {
        let batch = parse_with(&ParserConfig::default(), &file(), &[line.as_bytes()]);
        let row = batch.row(0);
        assert_ne!(row.get_by_name("hostname"), Some(&b"evil"[..]));
        assert_ne!(row.get_by_name("app_name"), Some(&b"x"[..]));
        assert_eq!(row.get_by_name("audit.hostname"), Some(&b"evil"[..]));
        assert_eq!(row.get_by_name("res"), Some(&b"ok"[..]));
    }
}

#[test]
fn clients_cannot_write_fields() {
    // The path contains what looks like the fields of the request.
    let rows = [
        (
            "2026/11/20 12:00:00 [error] 1#2: *3 open() \"/srv/, client: 203.0.113.9, server: a, \
             request: \"GET / HTTP/1.1\", host: \"b\" failed (2: No such file or directory), client: \
             192.0.2.1, server: s, request: \"GET /x HTTP/1.1\", host: \"h\"",
            "client=192.0.2.1",
        ),
        (
            "Nov 20 12:00:00 web1 sshd[1]: Failed password for invalid user root from 203.0.113.9 \
             port 1 ssh2 from 192.0.2.1 port 22 ssh2",
            "client_ip=192.0.2.1",
        ),
        (
            "Nov 20 12:00:00 web1 sshd[1]: Invalid user a from 203.0.113.9 port 1 from 192.0.2.1 port 22",
            "client_ip=192.0.2.1",
        ),
        (
            "Nov 20 12:00:00 web1 sshd[1]: Connection closed by invalid user x 203.0.113.9 port 5 192.0.2.1 port 22 [preauth]",
            "client_ip=192.0.2.1",
        ),
    ];
    for (line, expected) in rows {
        let found = own_fields(&ParserConfig::default(), &file(), line);
        assert!(found.contains(&expected.to_owned()), "{line}\n{found:?}");
        assert!(!found.iter().any(|field| field.ends_with("ip=203.0.113.9")), "{found:?}");
    }
}

/// Messages that begin like those of servers, but are not theirs to the end, stay as they are.
#[test]
fn what_does_not_fit_gives_no_fields() {
    for line in [
        "2026/11/20 12:00:00 [error] x#2: text",
        "[Fri Nov 20 12:00:00 2026] [what] [client 192.0.2.1] x",
        "192.0.2.3:55876 [20/Nov/2026:12:00:00.123] fe be/srv1 0/0/1/2 503 1015 - - ---- 1/1/0/0/0 0/0",
        "192.0.2.3:55876 [20/Nov/2026:12:00:00.123] fe/1: SSL handshake failure",
        "2026-11-20 12:00:00 192.0.2.1 GET x - 443 - 192.0.2.2 curl/8 - 500 0 0 15",
        "2026-11-20 12:00:00 192.0.2.1 GET /x",
        "1795000000.250     49 192.0.2.1 TCP_MISS/200 x GET http://a/ - DIRECT/b text/html",
        "https 2026-11-20T12:00:00Z app/a/1 192.0.2.1 - -1 -1 -1 503 - 1 2 \"GET\" \"-\"",
        "2 123 eni-1 192.0.2.1 192.0.2.2 1 2 6 1 1 1795000000 1795000060 ACCEPT OK more",
        "type=SYSCALL msg=audit(x:24287): arch=c000003e",
        "type=SYSCALL msg=audit(1795000000.250:7): comm=\"open",
        "2026-11-20 12:00:00.250 UTC [77] INFORMATION:  x",
        "2026-11-20 12:00:00.250 INFO 77 --- [main] a.b.C  : started",
        "12:M 20 November",
        "20-Nov-2026 12:00:00.250 queries: info: client 192.0.2.1 x",
        "E1120 12:00:00.250000    1234 a.go] x",
        "[UFW BLOCK] IN=eth0 x=1 OUT=",
        "IN= and OUT=",
        "http is a protocol",
        "client 7 is here",
    ] {
        check_own(&file(), line, &[]);
    }
}

#[test]
fn tails_that_are_not_understood_leave_the_access_line() {
    let access = "192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"";
    let fields = own_fields(&ParserConfig::default(), &file(), access);
    for tail in [
        "",
        " x y z",
        " status=500",
        " \"open",
        " 1 2 3 4 5",
        " rt=1 hostname=\"x",
        " rt=1 hostname=x",
        " (1)",
    ] {
        let found = own_fields(&ParserConfig::default(), &file(), &format!("{access}{tail}"));
        assert_eq!(found, fields, "{tail}");
    }
}

/// Solaris puts the id of the message, facility and level in front.
#[test]
fn logins_on_solaris() {
    check_own(
        &file(),
        "Nov 20 12:00:00 sol1 sshd[712]: [ID 800047 auth.info] Failed password for ada from \
         192.0.2.1 port 50022 ssh2",
        &[
            ("result", "Failed"),
            ("method", "password"),
            ("user", "ada"),
            ("client_ip", "192.0.2.1"),
            ("client_port", "50022"),
            ("protocol", "ssh2"),
        ],
    );
    check_own(&file(), "Nov 20 12:00:00 sol1 sshd[712]: [ID 8] Failed", &[]);
}

#[test]
fn check_point() {
    check_own(
        &syslog_udp(),
        "<134>1 2026-11-21T11:59:58Z cp1 CheckPoint 1234 - [action:\"Accept\"; src:\"192.0.2.8\"; \
         hostname:\"x\"; reason:\"a \\\"b\\\"; c\"]",
        &[
            ("level", "info"),
            ("action", "Accept"),
            ("src", "192.0.2.8"),
            ("check_point.hostname", "x"),
            ("reason", "a \\\"b\\\"; c"),
        ],
    );
}

/// Docker's json-file holds the text of the container.
#[test]
fn lines_of_containers() {
    let text = "2026/11/20 12:00:00 [error] 1#2: *3 x, client: 192.0.2.1, server: s";
    let docker = format!(
        "{{\"log\":\"{text}\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-20T12:00:00Z\"}}"
    );
    let cri = format!("2026-11-20T12:00:00.25Z stderr F {text}");
    for line in [docker, cri] {
        let found = own_fields(&ParserConfig::default(), &file(), &line);
        assert!(found.contains(&"client=192.0.2.1".into()), "{line}\n{found:?}");
        assert!(found.contains(&"stream=stderr".into()), "{line}\n{found:?}");
    }
}

/// An access line within an object of Docker has the fields of one in a file.
#[test]
fn access_lines_of_containers() {
    let text =
        "192.0.2.1 - ada [20/Nov/2026:12:00:00 +0000] \"GET /x HTTP/1.1\" 404 1 \"-\" \"a\" 0.25";
    let docker = format!("{{\"log\":{}}}", serde_json::to_string(&format!("{text}\n")).unwrap());
    let docker = docker.replace('}', ",\"stream\":\"stdout\",\"time\":\"2026-11-20T12:00:01Z\"}");
    let mut found = own_fields(&ParserConfig::default(), &file(), &docker);
    found.retain(|field| field != "stream=stdout");
    assert_eq!(found, own_fields(&ParserConfig::default(), &file(), text));
    check_level(&file(), &docker, "warning");
}

/// More pairs than a message may have fields.
#[test]
fn too_many_pairs_give_no_fields() {
    let line = |pairs: usize| {
        let pairs: Vec<String> = (0..pairs).map(|index| format!("a{index}=1")).collect();
        format!("type=EXECVE msg=audit(1795000000.250:7): {}", pairs.join(" "))
    };
    let count = |pairs| own_fields(&ParserConfig::default(), &file(), &line(pairs)).len();
    assert_eq!(count(62), 64);
    assert_eq!(count(63), 0);
}
