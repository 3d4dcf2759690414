//! Senders of other products over HTTP: Splunk's HTTP Event Collector, Datadog's logs, GELF.
//! Requests are those that the documentation of the products and of their senders describes. What
//! comes of an event is tested beside its code; here it arrives.

use serde_json::json;

use crate::common::{Answer, Server};

fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    server.request("POST", path, headers, body.as_bytes())
}

#[test]
fn events_and_lines_are_kept() {
    let server = Server::start();
    let splunk = [("Authorization", "Splunk 12345678-1234-1234-1234-123456789012")];
    let event = concat!(
        r#"{"time":"1769860800.250","host":"web1","sourcetype":"shop","index":"main","#,
        r#""event":"ERROR could not get connection","fields":{"region":"eu"}}"#,
    );
    for path in
        ["/services/collector", "/services/collector/event", "/services/collector/event/1.0"]
    {
        for prefix in ["", "/insert/splunk"] {
            let answer = post(&server, &format!("{prefix}{path}"), &splunk, &event.repeat(50));
            assert_eq!(
                (answer.status, answer.json()),
                (200, json!({"text": "Success", "code": 0}))
            );
        }
    }
    assert_eq!(server.count("region:=eu"), 300);
    let row = &server.query("region:=eu | limit 1", "")[0];
    for (name, value) in [
        ("_time", "2026-01-31T12:00:00.25Z"),
        ("_msg", "ERROR could not get connection"),
        ("_level", "error"),
        ("hostname", "web1"),
        ("sourcetype", "shop"),
        ("index", "main"),
    ] {
        assert_eq!(row[name], value, "{name} of {row}");
    }
    assert_eq!(server.count(r#"{hostname="web1",index="main",sourcetype="shop"}"#), 300);

    // Docker's driver asks first, and sends its lines as members of the event.
    let asked = server.request("OPTIONS", "/services/collector/event/1.0", &[], b"");
    assert_eq!(asked.status, 200);
    let line = r#"{"event":{"line":"a line","source":"stdout","tag":"a1b2"},"time":"1769860801","host":"node1"}"#;
    assert_eq!(post(&server, "/services/collector/event/1.0", &splunk, line).status, 200);
    let row = &server.query("tag:=a1b2", "")[0];
    assert_eq!(
        (&row["_msg"], &row["source"], &row["hostname"]),
        (&json!("a line"), &json!("stdout"), &json!("node1"))
    );

    let raw = "127.0.0.1 - a line of text\r\n\nand another\n";
    let path = "/services/collector/raw?host=web2&sourcetype=text&channel=c";
    let answer = post(&server, path, &splunk, raw);
    assert_eq!(answer.json()["code"], 0);
    assert_eq!(server.count("hostname:=web2 sourcetype:=text"), 2);

    // What has the number of an acknowledgement is durable; other numbers were not given.
    let ack = answer.json()["ackId"].as_u64().unwrap();
    let ask = json!({"acks": [ack, ack + 1_000_000_000]}).to_string();
    let answer = post(&server, "/services/collector/ack?channel=c", &splunk, &ask);
    let acks = &answer.json()["acks"];
    assert_eq!(acks[ack.to_string()], true);
    assert_eq!(acks[(ack + 1_000_000_000).to_string()], false);
    let answer = post(&server, "/services/collector/ack", &splunk, &ask);
    assert_eq!((answer.status, &answer.json()["code"]), (400, &json!(10)));
    assert_eq!(server.get("/services/collector/health").json()["code"], 17);
}

#[test]
fn a_wrong_event_is_answered_with_its_number() {
    let server = Server::start();
    let path = "/services/collector/event";
    for (body, code, number, kept) in [
        ("", 5, None, 0),
        (r#"{"event":"a"}{"event":"b"}{"even"#, 6, Some(2), 2),
        (r#"{"event":"a"}{"host":"b"}{"event":"c"}"#, 12, Some(1), 1),
        (r#"{"event":""}"#, 13, Some(0), 0),
    ] {
        let before = server.count("_msg:in(a, b, c)");
        let answer = post(&server, path, &[], body);
        let found = answer.json();
        assert_eq!((answer.status, &found["code"]), (400, &json!(code)), "{body}");
        assert_eq!(found.get("invalid-event-number").and_then(|n| n.as_u64()), number, "{body}");
        assert_eq!(server.count("_msg:in(a, b, c)"), before + kept, "{body}");
    }
    let answer = post(&server, &format!("{path}?no=1"), &[], r#"{"event":"a"}"#);
    assert_eq!(answer.status, 400);
    let long = format!("{path}?host={}", "h".repeat(2000));
    assert_eq!(post(&server, &long, &[], r#"{"event":"a"}"#).status, 400);
    let gzip = [("Content-Encoding", "gzip")];
    assert_eq!(post(&server, path, &gzip, "not gzip").status, 400);
}

#[test]
fn logs_of_datadog_are_kept() {
    let server = Server::start();
    let logs = json!([
        {"ddsource": "nginx", "ddtags": "env:prod,team:web", "hostname": "web1", "service": "shop",
         "status": "error", "timestamp": 1_769_860_800_250_u64, "message": "could not get connection"},
        {"message": "y", "service": "shop", "status": "info"},
    ]);
    let key = [("DD-API-KEY", "anything"), ("Content-Type", "application/json")];
    for path in ["/api/v2/logs", "/v1/input", "/insert/datadog/api/v2/logs"] {
        let path = format!("{path}?ddsource=other&service=no");
        let answer = post(&server, &path, &key, &logs.to_string());
        assert_eq!((answer.status, answer.json()), (202, json!({})));
    }
    let row = &server.query("env:=prod | limit 1", "")[0];
    for (name, value) in [
        ("_time", "2026-01-31T12:00:00.25Z"),
        ("_msg", "could not get connection"),
        ("_level", "error"),
        ("hostname", "web1"),
        ("team", "web"),
        ("ddsource", "nginx"),
    ] {
        assert_eq!(row[name], value, "{name} of {row}");
    }
    assert_eq!(server.count(r#"{service="shop",ddsource="other"} y"#), 3);
    // A check of the connection, lines of text, and what is no log.
    assert_eq!(post(&server, "/api/v2/logs", &key, "{}").status, 202);
    let text = [("Content-Type", "text/plain")];
    assert_eq!(post(&server, "/api/v2/logs?service=raw", &text, "one\ntwo\n").status, 202);
    assert_eq!(server.count("service:=raw _msg:in(one, two)"), 2);
    let wrong = post(&server, "/api/v2/logs", &key, r#"[{"message":"kept","service":"w"},7]"#);
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["status"]), (400, &json!("400")));
    assert_eq!(server.count("service:=w"), 1);
    assert_eq!(server.get("/api/v1/validate").json()["valid"], true);
}

#[test]
fn gelf_over_http_is_kept() {
    use std::io::Write;

    let server = Server::start();
    let message =
        json!({"version": "1.1", "host": "web1", "short_message": "a message", "level": 3,
        "timestamp": 1_769_860_800.25, "_user": "ada"})
        .to_string();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(message.as_bytes()).unwrap();
    let said = [("Content-Encoding", "gzip,deflate")];
    for body in [message.as_bytes(), &zlib.finish().unwrap()] {
        for path in ["/gelf", "/insert/gelf"] {
            assert_eq!(server.request("POST", path, &said, body).status, 202);
        }
    }
    // Senders of Python do not wait for the answer.
    for _ in 0..50 {
        let mut stream = server.connect();
        let head = format!(
            "POST /gelf HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            message.len()
        );
        stream.write_all(&[head.as_bytes(), message.as_bytes()].concat()).unwrap();
    }
    server.wait_for("messages of senders that went away", |server| server.count("a message") == 54);
    let rows = server.query("a message", "");
    assert_eq!((&rows[0]["hostname"], &rows[0]["_level"]), (&json!("web1"), &json!("error")));
    assert_eq!(post(&server, "/gelf", &[], "no object").status, 400);
}
