//! The API of Grafana Loki, on the real binary, with requests as Grafana's data source and command
//! lines for Loki send them, after the documentation of the API. What Grafana's Explore and Logs
//! Drilldown ask is replayed in the tests of crate `api`; `make test-loki` runs a client in Python.

use crate::common::{Answer, Server, encoded};
use serde_json::{Value, json};

/// 2026-01-31T12:00:00Z, seconds.
const NOON_S: i64 = 1_769_860_800;

/// Ten lines of a shop and ten access lines, one a second from noon on.
fn with_lines() -> Server {
    let server = Server::start();
    let mut lines = String::new();
    for i in 0..10 {
        let level = ["error", "info", "info"][i % 3];
        lines.push_str(&format!(
            "{{\"_time\":\"2026-01-31T12:00:0{i}Z\",\"message\":\"order {i} done\",\"hostname\":\"web{}\",\"app_name\":\"shop\",\"level\":\"{level}\",\"took\":{}}}\n",
            i % 2,
            i * 10
        ));
    }
    let answer = server.post("/insert/jsonline", lines.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lines: String = (0..10)
        .map(|i| format!("<14>1 2026-01-31T12:00:0{i}.5Z web1 proxy 7 - - GET /{i} took={i}ms\n"))
        .collect();
    let answer = server.post("/insert/lines", lines.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    server
}

fn request(server: &Server, call: &str, parameters: &[(&str, &str)]) -> Answer {
    let pairs: Vec<String> =
        parameters.iter().map(|(n, v)| format!("{n}={}", encoded(v))).collect();
    server.get(&format!("/loki/api/v1/{call}?{}", pairs.join("&")))
}

fn data(server: &Server, call: &str, parameters: &[(&str, &str)]) -> Value {
    let answer = request(server, call, parameters);
    assert_eq!(answer.status, 200, "{call} {parameters:?}: {}", answer.text());
    let mut body = answer.json();
    assert_eq!(body["status"], "success");
    body["data"].take()
}

fn nanoseconds(second: i64) -> String {
    format!("{}000000000", NOON_S + second)
}

#[test]
fn lines() {
    let server = with_lines();
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let ask_range = |query: &str, more: &[(&str, &str)]| {
        data(&server, "query_range", &[&range[..], &[("query", query)], more].concat())
    };
    let found =
        ask_range(r#"{app_name="proxy"} |= "GET""#, &[("limit", "2"), ("direction", "BACKWARD")]);
    assert_eq!(found["resultType"], "streams");
    assert_eq!(
        found["result"],
        json!([{
            "stream": {"app_name": "proxy", "hostname": "web1", "_type": "syslog", "detected_level": "info"},
            "values": [
                [format!("{}500000000", NOON_S + 9), "GET /9 took=9ms"],
                [format!("{}500000000", NOON_S + 8), "GET /8 took=8ms"],
            ],
        }])
    );
    let summary = &found["stats"]["summary"];
    assert_eq!(summary["totalEntriesReturned"], 2);
    assert!(summary["totalLinesProcessed"].as_u64().unwrap() >= 10, "{summary}");

    // A JSON line comes back as it was sent, whichever field is its message.
    let found = ask_range(
        r#"{app_name="shop", hostname="web0"} | json | took > 50"#,
        &[("direction", "forward")],
    );
    let values: Vec<&Value> = found["result"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|s| s["values"].as_array().unwrap())
        .collect();
    assert_eq!(values.len(), 2, "{found}");
    let line = values[0][1].as_str().unwrap();
    assert!(
        line.starts_with(r#"{"_time":"2026-01-31T12:00:06Z","message":"order 6 done""#),
        "{line}"
    );
    assert_eq!(found["result"][0]["stream"]["took"], "60");

    // Grafana requests labels by category.
    let path = format!(
        "/loki/api/v1/query_range?start={start}&end={end}&limit=1&query={}",
        encoded(r#"{app_name="shop"} | json took"#)
    );
    let header = [("X-Loki-Response-Encoding-Flags", "categorize-labels")];
    let found = server.request("GET", &path, &header, b"").json();
    assert_eq!(found["data"]["encodingFlags"], json!(["categorize-labels"]));
    let one = &found["data"]["result"][0];
    assert_eq!(one["stream"], json!({"app_name": "shop", "hostname": "web1", "_type": "json"}));
    assert_eq!(one["values"][0][2]["parsed"], json!({"took": "90"}));
    let metadata = &one["values"][0][2]["structuredMetadata"];
    assert_eq!(
        (&metadata["detected_level"], &metadata["level"]),
        (&json!("error"), &json!("error"))
    );

    // With a form, and with times as RFC 3339 and as seconds.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = format!(
        "query={}&start=2026-01-31T12:00:00Z&end={}.5&limit=100",
        encoded(r#"{_type=~".+"}"#),
        NOON_S + 2
    );
    let answer = server.request("POST", "/loki/api/v1/query_range", &form, body.as_bytes()).json();
    let lines: usize = answer["data"]["result"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["values"].as_array().unwrap().len())
        .sum();
    assert_eq!(lines, 5, "the end is outside: {answer}");
}

#[test]
fn numbers() {
    let server = with_lines();
    let at = (NOON_S + 9).to_string();
    let instant = |query: &str| data(&server, "query", &[("query", query), ("time", &at)]);
    let found = instant(r#"sum by (level) (count_over_time({app_name="shop"}[5s]))"#);
    assert_eq!(found["resultType"], "vector");
    assert_eq!(
        found["result"],
        json!([
            {"metric": {"level": "error"}, "value": [NOON_S + 9, "2"]},
            {"metric": {"level": "info"}, "value": [NOON_S + 9, "3"]},
        ])
    );
    // Grafana's test of the data source.
    assert_eq!(instant("vector(1)+vector(1)")["result"][0]["value"][1], "2");
    assert_eq!(instant("1+1")["resultType"], "scalar");
    let found = instant(
        r#"quantile_over_time(0.5, {app_name="proxy"} | logfmt | unwrap duration(took) [10s]) by ()"#,
    );
    assert_eq!(found["result"][0]["value"][1], "0.004");

    // Grafana's query for its histogram of lines.
    let (start, end) = ((NOON_S).to_string(), (NOON_S + 9).to_string());
    let range = [("start", start.as_str()), ("end", end.as_str()), ("step", "3")];
    let over =
        |query: &str| data(&server, "query_range", &[&range[..], &[("query", query)]].concat());
    let found = over(
        r#"sum by (level, detected_level) (count_over_time({app_name="shop"} | drop __error__[3s]))"#,
    );
    assert_eq!(found["resultType"], "matrix");
    assert_eq!(
        found["result"][0],
        json!({
            "metric": {"level": "error", "detected_level": "error"},
            "values": [[NOON_S, "1"], [NOON_S + 3, "1"], [NOON_S + 6, "1"], [NOON_S + 9, "1"]],
        })
    );
    let found = over(r#"sum(rate({app_name="proxy"} | logfmt | took > 4ms [3s]))"#);
    assert_eq!(
        found["result"][0]["values"],
        json!([[NOON_S + 6, "0.3333333333333333"], [NOON_S + 9, "1"]])
    );

    // Counts of whole minutes come from metadata of segments; they are the same.
    let hour = [("start", "1769860800"), ("end", "1769864400"), ("step", "60s")];
    let query = r#"sum by (app_name) (count_over_time({_type=~"json|syslog"}[1m]))"#;
    let found = data(&server, "query_range", &[&hour[..], &[("query", query)]].concat());
    assert_eq!(
        found["result"],
        json!([
            {"metric": {"app_name": "proxy"}, "values": [[NOON_S + 60, "10"]]},
            {"metric": {"app_name": "shop"}, "values": [[NOON_S + 60, "10"]]},
        ])
    );
}

#[test]
fn labels_and_volumes() {
    let server = with_lines();
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let range = [("start", start.as_str()), ("end", end.as_str())];
    let with = |more: &[(&'static str, &'static str)]| [&range[..], more].concat();
    assert_eq!(data(&server, "labels", &range), json!(["_type", "app_name", "hostname", "level"]));
    assert_eq!(data(&server, "label/app_name/values", &range), json!(["proxy", "shop"]));
    let of_shop = with(&[("query", r#"{app_name="shop"}"#)]);
    assert_eq!(data(&server, "label/hostname/values", &of_shop), json!(["web0", "web1"]));
    assert_eq!(data(&server, "label/detected_level/values", &range), json!(["error", "info"]));
    assert_eq!(data(&server, "label/nosuch/values", &range), json!([]));
    assert_eq!(data(&server, "labels", &[("start", "1"), ("end", "2")]), json!([]));
    let found = data(
        &server,
        "series",
        &with(&[("match[]", r#"{app_name="shop"}"#), ("match[]", r#"{_type="syslog"}"#)]),
    );
    assert_eq!(
        found,
        json!([
            {"_type": "json", "app_name": "shop", "hostname": "web0"},
            {"_type": "json", "app_name": "shop", "hostname": "web1"},
            {"_type": "syslog", "app_name": "proxy", "hostname": "web1"},
        ])
    );
    let stats = request(&server, "index/stats", &of_shop).json();
    assert_eq!((&stats["entries"], &stats["streams"]), (&json!(10), &json!(2)), "{stats}");
    assert!(stats["bytes"].as_u64().unwrap() > 100 && stats["chunks"].as_u64().unwrap() > 0);
    let found = data(&server, "index/volume", &with(&[("query", r#"{app_name=~".+"}"#)]));
    assert_eq!(found["resultType"], "vector");
    assert_eq!(
        found["result"][1],
        json!({"metric": {"app_name": "proxy"}, "value": [found["result"][1]["value"][0], "150"]})
    );
    let parameters =
        with(&[("query", r#"{app_name="proxy"}"#), ("targetLabels", "hostname"), ("step", "5s")]);
    let found = data(&server, "index/volume_range", &parameters);
    assert_eq!(found["result"][0]["metric"], json!({"hostname": "web1"}));
    assert_eq!(found["result"][0]["values"], json!([[NOON_S + 5, "75"], [NOON_S + 10, "75"]]));
    let parameters = with(&[("query", r#"{app_name=~".+"}"#), ("aggregateBy", "labels")]);
    assert_eq!(
        data(&server, "index/volume", &parameters)["result"][0]["metric"],
        json!({"app_name": ""})
    );
    let fields = request(&server, "detected_fields", &of_shop).json();
    assert!(
        fields["fields"]
            .as_array()
            .unwrap()
            .contains(&json!({"label": "took", "type": "int", "cardinality": 10, "parsers": null})),
        "{fields}"
    );
    let found = request(&server, "detected_labels", &range).json();
    assert!(
        found["detectedLabels"]
            .as_array()
            .unwrap()
            .contains(&json!({"label": "app_name", "cardinality": 2})),
        "{found}"
    );
    let found = data(&server, "patterns", &[&of_shop[..], &[("step", "60s")]].concat());
    let lines = found.as_array().unwrap().iter().flat_map(|one| one["samples"].as_array().unwrap());
    let lines: i64 = lines.map(|sample| sample[1].as_i64().unwrap()).sum();
    assert_eq!(lines, 10, "{found}");
    assert_eq!(request(&server, "status/buildinfo", &[]).json()["version"], "3.7.0");
    assert_eq!(server.get("/ready").status, 200);
    assert_eq!(
        data(&server, "format_query", &[("query", r#"sum(rate({a="b"}[5m]))by(x)"#)]),
        r#"sum by (x) (rate({a="b"} [5m]))"#
    );
}

#[test]
fn errors_are_texts_that_say_what_to_do() {
    let server = Server::start();
    for (call, parameters, expected) in [
        (
            "query",
            vec![("query", "rate(")],
            "parse error at line 1, col 6: syntax error: unexpected the end",
        ),
        ("query", vec![("query", "{}")], "log queries are not supported as an instant query type"),
        ("query", vec![], "the parameter 'query' is missing"),
        ("query_range", vec![("query", "{}"), ("limit", "0")], "limit must be a positive value"),
        (
            "query_range",
            vec![("query", "{}"), ("limit", "5001")],
            "max entries limit per query exceeded",
        ),
        (
            "query_range",
            vec![("query", "{}"), ("start", "2"), ("end", "1")],
            "end timestamp must not be before",
        ),
        ("query_range", vec![("query", "{}"), ("start", "x")], "could not parse 'start'"),
        ("query_range", vec![("query", "{}"), ("direction", "up")], "invalid direction 'up'"),
        (
            "query_range",
            vec![("query", "vector(1)"), ("step", "0")],
            "zero or negative query resolution step",
        ),
        (
            "query_range",
            vec![("query", "vector(1)"), ("start", "0"), ("end", "11000"), ("step", "1")],
            "exceeded maximum resolution of 11000 points",
        ),
        ("series", vec![("match[]", "{")], "parse error"),
        ("index/volume", vec![("query", "rate({}[5m])")], "only label matchers are supported"),
    ] {
        let answer = request(&server, call, &parameters);
        assert_eq!(answer.status, 400, "{call} {parameters:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(answer.text().contains(expected), "{call} {parameters:?}: {}", answer.text());
    }
}

#[test]
fn queries_are_in_the_queue() {
    let server = with_lines();
    let query = r#"{app_name="proxy"} |= "listed""#;
    data(&server, "query_range", &[("query", query)]);
    let queries = server.get("/api/v1/queries").json();
    let entry = &queries["queries"][0];
    assert_eq!(
        (&entry["kind"], &entry["query"], &entry["state"]),
        (&json!("loki"), &json!(query), &json!("done"))
    );
}

/// A text frame of a WebSocket from the server (RFC 6455 section 5.2); pings are skipped.
fn read_message(stream: &mut impl std::io::Read) -> Value {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                stream.read_exact(&mut length).unwrap();
                u64::from_be_bytes(length)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        match head[0] {
            0x81 => return serde_json::from_slice(&payload).unwrap(),
            0x88 => return json!({ "closed": String::from_utf8_lossy(&payload[2..]) }),
            _ => {}
        }
    }
}

#[test]
fn tail() {
    use std::io::Write;
    let server = with_lines();
    let mut stream = server.connect();
    let query = encoded(r#"{app_name="proxy"} |= "GET""#);
    // The key and the expected response are those of RFC 6455 section 1.3.
    let head = format!(
        "GET /loki/api/v1/tail?query={query}&start={NOON_S}&limit=2 HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        server.http
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = std::io::BufReader::new(stream);
    let (status, head) = crate::common::read_head(&mut reader).unwrap();
    assert_eq!(status, 101);
    let accept = head.iter().find(|(name, _)| name == "sec-websocket-accept").unwrap();
    assert_eq!(accept.1, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let first = read_message(&mut reader);
    let values = &first["streams"][0]["values"];
    assert_eq!(
        (&values[0][1], &values[1][1]),
        (&json!("GET /8 took=8ms"), &json!("GET /9 took=9ms"))
    );
    let live = "<14>1 2026-01-31T12:01:00Z web1 proxy 7 - - GET /live\n<14>1 2026-01-31T12:01:00Z web1 proxy 7 - - PUT /live\n";
    server.post("/insert/lines", live.as_bytes());
    let next = read_message(&mut reader);
    assert_eq!(next["streams"][0]["stream"]["app_name"], "proxy");
    assert_eq!(next["streams"][0]["values"], json!([[nanoseconds(60), "GET /live"]]));
    // Lines that are too long for a message are reported.
    let line =
        |s: u8, path: &str| format!("<14>1 2026-01-31T12:01:0{s}Z web1 proxy 7 - - GET {path}\n");
    let lines = line(1, &"x".repeat(2 << 20)) + &line(2, "/after");
    server.post("/insert/lines", lines.as_bytes());
    let reasons = read_message(&mut reader);
    let reason = reasons["dropped_entries"][0]["labels"]["reason"].as_str();
    assert!(reason.is_some_and(|reason| reason.contains("read it with a query")), "{reasons}");
    let next = read_message(&mut reader);
    assert_eq!(next["streams"][0]["values"], json!([[nanoseconds(62), "GET /after"]]));
    // It is listed in the queue, and ends when it is cancelled.
    let queries = server.get("/api/v1/queries").json();
    let entry = queries["queries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|q| q["kind"] == "tail")
        .unwrap()
        .clone();
    let id = entry["id"].as_str().unwrap();
    server.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"");
    assert_eq!(read_message(&mut reader), json!({ "closed": "the tail was cancelled" }));

    let answer = request(&server, "tail", &[("query", "{}")]);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("an upgrade is needed"));
}

/// A field of a message of protobuf, by its length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
    out
}

#[test]
fn pushed_lines() {
    let server = Server::start();
    let push = |content_type: &str, body: &[u8]| {
        server.request("POST", "/loki/api/v1/push", &[("Content-Type", content_type)], body)
    };
    let json = json!({ "streams": [
        { "stream": { "job": "web", "host": "a" }, "values": [
            [nanoseconds(1), "first \"line\""],
            [nanoseconds(2), "{\"n\":2}", { "trace": "7" }],
        ] },
        { "stream": { "job": "db" }, "values": [[nanoseconds(3), "third"]] },
    ] });
    let answer = push("application/json; charset=utf-8", json.to_string().as_bytes());
    assert_eq!(answer.status, 204, "{}", answer.text());
    let mut time = vec![8];
    let mut seconds = NOON_S as u64 + 4;
    while seconds >= 0x80 {
        time.push(seconds as u8 | 0x80);
        seconds >>= 7;
    }
    time.push(seconds as u8);
    let entry = [field(1, &time), field(2, b"fourth")].concat();
    let stream = [field(1, br#"{job="web", host="a"}"#), field(2, &entry)].concat();
    let sent = snap::raw::Encoder::new().compress_vec(&field(1, &stream)).unwrap();
    let answer = push("application/x-protobuf", &sent);
    assert_eq!(answer.status, 204, "{}", answer.text());

    let rows = server.query("* | sort by (_time) | fields _time, _stream, _msg, job, trace", "");
    assert_eq!(
        rows,
        [
            json!({"_time":"2026-01-31T12:00:01Z","_stream":"{host=\"a\",job=\"web\"}","_msg":"first \"line\"","job":"web"}),
            json!({"_time":"2026-01-31T12:00:02Z","_stream":"{host=\"a\",job=\"web\"}","_msg":"{\"n\":2}","job":"web","trace":"7"}),
            json!({"_time":"2026-01-31T12:00:03Z","_stream":"{job=\"db\"}","_msg":"third","job":"db"}),
            json!({"_time":"2026-01-31T12:00:04Z","_stream":"{host=\"a\",job=\"web\"}","_msg":"fourth","job":"web"}),
        ]
    );
    // Clients that do not send the media type of JSON.
    for content_type in ["", "text/plain", "application/x-www-form-urlencoded", "Application/JSON"]
    {
        let answer = push(content_type, b" {\"streams\": []}");
        assert_eq!(answer.status, 204, "{content_type}: {}", answer.text());
    }
    // The lines are returned as they were pushed, with their labels.
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let parameters = [("start", &*start), ("end", &*end), ("query", r#"{job="web"} |= "f""#)];
    let found = data(&server, "query_range", &parameters);
    let stream = &found["result"][0];
    assert_eq!(stream["stream"]["job"], "web");
    assert_eq!(stream["stream"]["host"], "a");
    assert_eq!(
        stream["values"],
        json!([[nanoseconds(4), "fourth"], [nanoseconds(1), "first \"line\""]])
    );
    // Invalid requests are refused with a message, and counted.
    for (content_type, body, status) in [
        ("application/json", &b"{\"streams\":[{}]}"[..], 400),
        ("application/x-protobuf", b"no snappy", 400),
        ("application/json", &vec![b' '; (4 << 20) + 1], 413),
    ] {
        let answer = push(content_type, body);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(!answer.text().starts_with('{'), "{}", answer.text());
    }
    let http = server.ingest("http");
    assert_eq!(http["lines_received"], 7, "{http}");
    assert_eq!(http["lines_kept"], 4, "{http}");
}
