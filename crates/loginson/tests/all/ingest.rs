//! Lines by each source are returned byte for byte, with the fields of their source.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};

use crate::common::{Answer, Server, read_until_closed};
use serde_json::json;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn syslog_by_tcp_and_udp() {
    let server = Server::start();
    let mut tcp = TcpStream::connect(server.syslog_tcp()).unwrap();
    let counted = "<11>1 2026-01-31T12:00:00.5Z db1 postgres 42 - - two\nlines";
    write!(tcp, "<13>Jan 31 12:00:01 web1 sshd[7]: plain line\n{} {counted}", counted.len())
        .unwrap();
    drop(tcp);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"<14>1 2026-01-31T12:00:02Z lb1 haproxy - - - datagram", server.syslog_udp())
        .unwrap();
    server.wait_for("three lines", |server| server.count("_type:syslog") == 3);

    let rows = server.query("hostname:db1", "include=_line");
    assert_eq!(rows[0]["_line"], counted);
    assert_eq!(rows[0]["_msg"], "two\nlines");
    assert_eq!(
        (&rows[0]["app_name"], &rows[0]["proc_id"], &rows[0]["level"], &rows[0]["_time"]),
        (&json!("postgres"), &json!("42"), &json!("error"), &json!("2026-01-31T12:00:00.5Z"))
    );
    assert_eq!(server.query("datagram", "")[0]["_remote_ip"], "127.0.0.1");
    assert_eq!(server.raw("\"plain line\""), [b"<13>Jan 31 12:00:01 web1 sshd[7]: plain line"]);
    for source in ["syslog_tcp", "syslog_udp"] {
        let counters = server.ingest(source);
        assert_eq!(counters["lines_received"], counters["lines_kept"], "{counters}");
    }
}

#[test]
fn raw_lines_with_each_encoding() {
    let server = Server::start();
    let text = b"one \xff\xfe\0\x1b\n\ntwo\r\n\"three\"";
    let zstd = zstd::encode_all(&text[..], 3).unwrap();
    for (encoding, body) in [("identity", text.to_vec()), ("gzip", gzip(text)), ("zstd", zstd)] {
        let path = format!("/insert/lines?type={encoding}");
        let answer = server.request("POST", &path, &[("Content-Encoding", encoding)], &body);
        assert_eq!(answer.json(), json!({"lines": 4, "bytes": text.len() - 3}), "{encoding}");
        let mut raw = server.raw(&format!("_type:{encoding}"));
        raw.sort();
        assert_eq!(raw, [&b""[..], b"\"three\"", b"one \xff\xfe\0\x1b", b"two\r"], "{encoding}");
    }
    assert_eq!(
        server.query("_type:gzip one", "include=_line")[0]["_line"],
        "one \u{fffd}\u{fffd}\0\u{1b}"
    );
}

#[test]
fn json_lines_with_parameters() {
    let server = Server::start();
    let body = b"{\"ts\":\"2026-01-31T12:00:00Z\",\"text\":\"hello\",\"secret\":\"x\",\"app\":\"shop\",\"n\":{\"a\":1}}\n\n{\"text\":\"bye\"}\n";
    let parameters = "_time_field=ts&_msg_field=text&_stream_fields=app&ignore_fields=secret&decolorize_fields=te*&extra_fields=env%3Dprod,site%3Db";
    let answer = server.post(&format!("/insert/jsonline?{parameters}"), body);
    assert_eq!((answer.status, &answer.json()["lines"]), (200, &json!(2)));
    let rows = server.query("hello", "");
    assert_eq!(
        rows[0],
        json!({"_time": "2026-01-31T12:00:00Z", "_stream": "{app=\"shop\"}", "_msg": "hello", "_type": "json",
               "app": "shop", "n.a": "1", "env": "prod", "site": "b", "_remote_ip": "127.0.0.1"})
    );
    // The same with headers.
    let headers =
        [("VL-Msg-Field", "text"), ("VL-Extra-Fields", "env=test"), ("VL-Time-Field", "ts")];
    assert_eq!(server.request("POST", "/insert/jsonline", &headers, body).status, 200);
    assert_eq!(server.count("hello env:test"), 1);

    let answer =
        server.post("/insert/jsonline?debug=1&_msg_field=text", b"{\"text\":\"only shown\"}");
    assert_eq!(answer.json()["lines"], 1);
    assert_eq!(server.count("\"only shown\""), 0);
    server.wait_for_log("only shown");
}

#[test]
fn json_bodies_as_clients_send_them() {
    let server = Server::start();
    let object = "{\n  \"_msg\": \"m\",\n  \"list\": [\n    1\n  ]\n}\n";
    let two = object.repeat(2);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(two.as_bytes()).unwrap();
    let block = snap::raw::Encoder::new().compress_vec(two.as_bytes()).unwrap();
    let mut framed = snap::write::FrameEncoder::new(Vec::new());
    framed.write_all(two.as_bytes()).unwrap();
    let framed = framed.into_inner().unwrap();
    let bodies = [
        ("identity", two.as_bytes().to_vec()),
        ("deflate", zlib.finish().unwrap()),
        ("snappy", block),
        ("snappy", framed),
    ];
    for (number, (encoding, body)) in bodies.into_iter().enumerate() {
        // The name of the type is that of a parser, which does not matter here.
        for name in ["access", "shop"] {
            let path = format!("/insert/jsonline?_type={name}&extra_fields=n={number}");
            let answer = server.request("POST", &path, &[("Content-Encoding", encoding)], &body);
            assert_eq!(answer.json()["lines"], 2, "{encoding}");
        }
        assert_eq!(server.count(&format!("_type:access n:={number} _msg:=m list:*")), 2);
    }
    // Python's HTTPHandler, Slack, and curl --data-binary.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for (path, body, expected) in [
        (
            "/insert/lines",
            "name=root&msg=disk+full%21&levelname=ERROR",
            "_msg:=\"disk full!\" _level:=error",
        ),
        ("/insert/jsonline", "payload=%7B%22msg%22%3A%22from+Slack%22%7D", "_msg:=\"from Slack\""),
        ("/insert/lines", "a line of curl & more=x\n", "_msg:=\"a line of curl & more=x\""),
        ("/insert/jsonline", "{\"msg\":\"curl & json\"}", "_msg:=\"curl & json\""),
    ] {
        let answer = server.request("POST", path, &form, body.as_bytes());
        assert_eq!(answer.json()["lines"], 1, "{body}");
        assert_eq!(server.count(expected), 1, "{body}");
    }
    assert_eq!(server.count("_note:*"), 0);
}

#[test]
fn what_is_no_request_is_refused() {
    let server = Server::start();
    let check = |path: &str, headers: &[(&str, &str)], body: &[u8], status: u16, what: &str| {
        let answer = server.request("POST", path, headers, body);
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(
            answer.status == status && error.contains(what),
            "{path}: {} {error}",
            answer.status
        );
        answer.json()
    };
    check("/insert/lines", &[("Content-Encoding", "br")], b"x", 400, "'br' is not supported");
    check("/insert/lines?type=no%20type", &[], b"x", 400, "not a valid type");
    check("/insert/lines?type=summary", &[], b"x", 400, "Loginson uses itself");
    check("/insert/jsonline?extra_fields=novalue", &[], b"{}", 400, "NAME=VALUE");
    check(
        "/insert/lines",
        &[("Content-Type", "multipart/form-data; boundary=x")],
        b"x",
        400,
        "--data-binary",
    );
    check(
        "/insert/lines",
        &[("Content-Encoding", "gzip")],
        b"no gzip at all",
        400,
        "cannot be decompressed",
    );
    assert_eq!(server.count("*"), 0);

    // An error in the middle: what came before is kept, and its size reported.
    let lines: String =
        (0..100_000).map(|i| format!("line {i} {}\n", i * 7919 % 104_729)).collect();
    let mut body = gzip(lines.as_bytes());
    let middle = body.len() / 2;
    body.truncate(middle);
    let answer = check(
        "/insert/lines",
        &[("Content-Encoding", "gzip")],
        &body,
        400,
        "cannot be decompressed",
    );
    let kept = answer["lines"].as_u64().unwrap();
    assert!(kept > 1000 && kept < 100_000);
    assert_eq!(server.count("line"), kept);
    let counters = server.ingest("http");
    assert_eq!(counters["dropped"]["bad_request"], 2, "{counters}");
    assert_eq!(
        counters["lines_received"].as_u64().unwrap(),
        counters["lines_kept"].as_u64().unwrap() + 2
    );
}

#[test]
fn a_body_that_is_cut_off() {
    let server = Server::start();
    let mut stream = server.connect();
    let head = format!(
        "POST /insert/lines HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000\r\n\r\n",
        server.http
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"whole line\npart of a li").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    // The client may be gone, or is told that the body was cut off; it is never told that all lines
    // were kept.
    let answer = read_until_closed(&mut stream);
    if !answer.is_empty() {
        assert_eq!(Answer::read(&answer[..]).unwrap().status, 400);
    }
    server.wait_for("it is counted", |server| server.ingest("http")["dropped"]["bad_request"] == 1);
    assert_eq!(server.count("part"), 0);
}

#[test]
fn compression_does_not_take_memory() {
    let server = Server::start();
    // 64 MiB of lines of 1 MiB, in a few KiB of compressed data: the limit for a body of any size.
    let mut line = vec![b'x'; (1 << 20) - 1];
    line.push(b'\n');
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    for _ in 0..64 {
        encoder.write_all(&line).unwrap();
    }
    let body = encoder.finish().unwrap();
    assert!(body.len() < 1 << 20);
    let answer = server.request("POST", "/insert/lines", &[("Content-Encoding", "zstd")], &body);
    assert_eq!((answer.status, &answer.json()["lines"]), (200, &json!(64)));
}

#[test]
fn retention_keeps_within_its_bytes() {
    let server = Server::start_with(&[], "[retention]\nbytes = '8MiB'\n");
    let mut sent = 0;
    for batch in 0..40 {
        let lines: String =
            (0..5_000).map(|i| format!("batch {batch} line {i} {}\n", "x".repeat(100))).collect();
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
        sent += 5_000;
        let store = server.status()["store"].clone();
        assert!(store["bytes_disk"].as_u64().unwrap() <= 8 << 20, "{store}");
    }
    let left = server.count("batch");
    assert!(left > 0 && left < sent, "{left} of {sent}");
    assert_eq!(server.count("\"batch 39\""), 5_000, "the newest are kept");
    let metrics = server.get("/metrics").text();
    let expired =
        metrics.lines().find_map(|line| line.strip_prefix("loginson_store_lines_expired_total "));
    assert!(expired.unwrap().parse::<u64>().unwrap() + left >= sent);
}
