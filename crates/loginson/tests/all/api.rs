//! Every endpoint of `docs/api.md`, on the real binary.

use std::io::{BufReader, Read, Write};

use crate::common::{Answer, Server, encoded, read_chunk, read_head};
use serde_json::{Value, json};

/// Ten access lines of two hosts, a minute apart, every third with status 500.
fn with_lines() -> Server {
    let server = Server::start();
    let lines: Vec<String> = (0..10)
        .map(|i| {
            let (host, level) = (["web1", "web2"][i % 2], ["error", "info", "info"][i % 3]);
            format!(
                r#"{{"_time":"2026-01-31T12:{i:02}:00Z","_msg":"request {i} done","hostname":"{host}","level":"{level}","took":{}}}"#,
                i * 10
            )
        })
        .collect();
    let answer = server.post("/insert/jsonline?_type=shop", lines.join("\n").as_bytes());
    assert_eq!((answer.status, &answer.json()["lines"]), (200, &json!(10)), "{}", answer.text());
    server
}

#[test]
fn query() {
    let server = with_lines();
    let rows = server.query("level:error", "limit=2&include=_line_id,_line,_received");
    let messages: Vec<&str> = rows.iter().map(|r| r["_msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["request 9 done", "request 6 done"]);
    let row = &rows[0];
    assert_eq!(row["_time"], "2026-01-31T12:09:00Z");
    assert_eq!(row["_stream"], r#"{_type="shop",hostname="web2"}"#);
    assert_eq!((&row["_type"], &row["took"]), (&json!("shop"), &json!("90")));
    assert!(row["_line"].as_str().unwrap().starts_with(r#"{"_time":"2026-01-31T12:09:00Z""#));
    assert!(row["_line_id"].as_str().unwrap().contains('-') && row["_received"].is_string());
    // Computed fields are sent only on request.
    assert!(server.query("*", "limit=1")[0].get("_line").is_none());

    assert_eq!(server.query("*", "limit=3&offset=8").len(), 2);
    assert_eq!(server.query("*", "start=2026-01-31T12:02Z&end=2026-01-31T12:05Z").len(), 3);
    assert_eq!(server.count("hostname:web1"), 5);
    assert_eq!(server.raw("took:90").len(), 1);

    // The same in a form.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let answer = server.request(
        "POST",
        "/select/logsql/query?limit=1",
        &form,
        b"query=level%3Aerror&limit=2",
    );
    assert_eq!(answer.rows().len(), 2, "the form wins");
    assert_eq!(answer.header("content-type"), Some("application/stream+json"));
    let id = answer.header("x-loginson-query-id").expect("names its entry").to_owned();
    let entry = server.get(&format!("/api/v1/queries/{id}")).json();
    assert_eq!(
        (&entry["kind"], &entry["state"], &entry["rows"]),
        (&json!("query"), &json!("done"), &json!(2))
    );
}

#[test]
fn wrong_queries_are_refused_with_the_position() {
    let server = Server::start();
    let answer = server.get("/select/logsql/query?query=a%20AND%20(");
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["position"], &body["query"]),
        (400, &json!(7), &json!("a AND ("))
    );
    assert!(!body["expected"].as_array().unwrap().is_empty() && body["error"].is_string());
    for (path, what) in [
        ("/select/logsql/query", "'query' is missing"),
        ("/select/logsql/query?query=*&start=never", "start: 'never' is not a time"),
        ("/select/logsql/query?query=*&limit=many", "'limit' must be a whole number"),
        ("/select/logsql/query?query=*&include=_secret", "include: '_secret'"),
        ("/select/logsql/query?query=*&format=xml", "format: 'xml'"),
        ("/select/logsql/hits?query=*&step=0s", "step: '0s'"),
        ("/select/logsql/stats_query?query=*", "stats"),
        ("/select/logsql/field_values?query=*", "'field' is missing"),
        ("/select/logsql/tail?query=*|sort%20by(a)", "line by line"),
        ("/api/v1/context?id=x", "NODE-SEQUENCE-LINE"),
        ("/api/v1/context?id=00000001-1-1&before=100000", "'before'"),
        ("/api/v1/context?id=1-1", "NODE-SEQUENCE-LINE"),
        ("/api/v1/summary", "'type' is missing"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(what), "{path}: {error}");
    }
    for path in [
        "/nope",
        "/api/v1/queries/12345",
        "/api/v1/queries/x",
        "/api/v1/context?id=00000001-99999-0",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    let long = format!("query={}", "a".repeat(2 << 20));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.request("POST", "/select/logsql/query", &form, long.as_bytes()).status, 413);
}

#[test]
fn counts() {
    let server = with_lines();
    let get = |path: &str| server.get(&format!("/select/logsql/{path}")).json();
    let hits = get("hits?query=*&step=5m&field=level");
    let expected = json!({
        "hits": [
            {"fields": {"level": "info"}, "timestamps": ["2026-01-31T12:00:00Z", "2026-01-31T12:05:00Z"], "values": [3, 3], "total": 6},
            {"fields": {"level": "error"}, "timestamps": ["2026-01-31T12:00:00Z", "2026-01-31T12:05:00Z"], "values": [2, 2], "total": 4},
        ],
        "step_s": 300.0,
    });
    assert_eq!(hits, expected);
    let auto = get("hits?query=*&step=auto&start=2026-01-31T12:00Z&end=2026-01-31T13:00Z");
    assert_eq!((&auto["step_s"], &auto["hits"][0]["total"]), (&json!(60.0), &json!(10)));
    let facets = get("facets?query=level:error&limit=1");
    let hostname =
        facets["facets"].as_array().unwrap().iter().find(|f| f["field_name"] == "hostname");
    assert_eq!(hostname.unwrap()["values"], json!([{"field_value": "web1", "hits": 2}]));
    assert_eq!(
        get("field_names?query=*&filter=took")["values"],
        json!([{"value": "took", "hits": 10}])
    );
    assert_eq!(
        get("field_values?query=*&field=level")["values"][0],
        json!({"value": "info", "hits": 6})
    );
    assert_eq!(
        get("streams?query=*&limit=1")["values"],
        json!([{"value": "{_type=\"shop\",hostname=\"web1\"}", "hits": 5}])
    );
}

#[test]
fn numbers_in_prometheus_form() {
    let server = with_lines();
    let query = encoded("* | stats by (level) count() n, sum(took) t");
    let at = server
        .get(&format!("/select/logsql/stats_query?query={query}&time=2026-02-01T00:00:00Z"))
        .json();
    assert_eq!((&at["status"], &at["data"]["resultType"]), (&json!("success"), &json!("vector")));
    let result = at["data"]["result"].as_array().unwrap();
    assert_eq!(result.len(), 4);
    let error = result.iter().find(|r| r["metric"] == json!({"__name__": "t", "level": "error"}));
    assert_eq!(error.unwrap()["value"], json!([1_769_904_000, "180"]));

    let over =
        server.get(&format!("/select/logsql/stats_query_range?query={query}&step=5m")).json();
    assert_eq!(over["data"]["resultType"], "matrix");
    let result = over["data"]["result"].as_array().unwrap();
    let info = result.iter().find(|r| r["metric"] == json!({"__name__": "n", "level": "info"}));
    assert_eq!(info.unwrap()["values"], json!([[1_769_860_800, "3"], [1_769_861_100, "3"]]));
}

#[test]
fn the_lines_around_a_line() {
    let server = with_lines();
    let rows = server.query("_msg:\"request 4 done\"", "include=_line_id");
    let id = rows[0]["_line_id"].as_str().unwrap();
    let answer = server.get(&format!("/api/v1/context?id={id}&before=1&after=5")).json();
    assert_eq!(answer["stream"], r#"{_type="shop",hostname="web1"}"#);
    let messages: Vec<&str> =
        answer["rows"].as_array().unwrap().iter().map(|r| r["_msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["request 2 done", "request 4 done", "request 6 done", "request 8 done"]);
    let targets: Vec<bool> =
        answer["rows"].as_array().unwrap().iter().map(|r| r["_is_target"] == "true").collect();
    assert_eq!(targets, [false, true, false, false]);
}

#[test]
fn a_tail_shows_what_was_and_what_comes() {
    let server = Server::start();
    let insert = |message: &str| {
        let answer = server.post("/insert/lines", format!("{message}\n").as_bytes());
        assert_eq!(answer.status, 200);
    };
    insert("first apple");
    insert("first pear");
    let mut stream = server.connect();
    let head = format!(
        "GET /select/logsql/tail?query=apple&start_offset=1h HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.http
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    let mut next = || loop {
        let chunk = read_chunk(&mut reader).unwrap().expect("a tail does not end");
        if chunk != b"\n" {
            let row: Value = serde_json::from_slice(&chunk).unwrap();
            break row["_msg"].as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
        }
    };
    assert_eq!(next(), "first apple");
    for i in 0..20 {
        insert(&format!("apple {i}"));
        insert("pear");
        assert_eq!(next(), format!("apple {i}"));
    }
    let queries = server.get("/api/v1/queries").json();
    let tail = &queries["queries"][0];
    assert_eq!(
        (&tail["kind"], &tail["state"], &tail["rows"]),
        (&json!("tail"), &json!("running"), &json!(21))
    );
    let path = format!("/api/v1/queries/{}", tail["id"].as_str().unwrap());
    assert_eq!(server.request("DELETE", &path, &[], b"").json()["state"], "cancelled");
    let mut rest = Vec::new();
    while let Some(chunk) = read_chunk(&mut reader).unwrap() {
        rest.extend(chunk);
    }
    assert!(
        String::from_utf8_lossy(&rest)
            .contains("{\"_error\":{\"message\":\"the tail was cancelled\"}}")
    );
    server.wait_for("the entry ends", |server| server.get(&path).json()["state"] == "cancelled");
}

#[test]
fn a_client_that_goes_away_ends_its_query() {
    let server = Server::start();
    let lines: String = (0..20_000)
        .map(|i| format!("line {i} of many, long enough to fill buffers: {}\n", "x".repeat(200)))
        .collect();
    for _ in 0..3 {
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    }
    let mut stream = server.connect();
    write!(stream, "GET /select/logsql/query?query=* HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
        .unwrap();
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    // It waits for the client: a slow client slows its query down, and the query keeps its slot.
    let state =
        |server: &Server| server.get("/api/v1/queries").json()["queries"][0]["state"].clone();
    assert_eq!(state(&server), "running");
    drop(stream);
    server.wait_for("the query ends", |server| state(server) == "cancelled");
    let entry = server.get("/api/v1/queries").json()["queries"][0].clone();
    assert!(entry["error"].as_str().unwrap().contains("went away"), "{entry}");
}

#[test]
fn a_client_that_reads_nothing_can_be_cancelled() {
    let server = Server::start();
    let lines: String = (0..20_000)
        .map(|i| format!("line {i} of many, long enough to fill buffers: {}\n", "x".repeat(200)))
        .collect();
    for _ in 0..3 {
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    }
    for (call, error) in [
        ("query?query=*", Some("the query was cancelled")),
        ("query?query=*&format=raw", None),
        ("query?query=*&timeout=2s", Some("took longer than 2 s")),
        ("tail?query=*&start_offset=1h", None),
    ] {
        let mut stream = server.connect();
        write!(stream, "GET /select/logsql/{call} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
            .unwrap();
        let mut reader = BufReader::with_capacity(100, stream);
        assert_eq!(read_head(&mut reader).unwrap().0, 200, "{call}");
        let entry = |server: &Server| server.get("/api/v1/queries").json()["queries"][0].clone();
        // It waits for the client once its progress stops.
        let mut rows = json!(null);
        server.wait_for("it waits", |server| {
            let before = std::mem::replace(&mut rows, entry(server)["rows"].clone());
            rows != json!(0) && before == rows
        });
        let ended = if call.contains("timeout") { "failed" } else { "cancelled" };
        if ended == "cancelled" {
            assert_eq!(entry(&server)["state"], "running", "{call}");
            let path = format!("/api/v1/queries/{}", entry(&server)["id"].as_str().unwrap());
            assert_eq!(server.request("DELETE", &path, &[], b"").status, 200);
        }
        server.wait_for("its place is free", |server| entry(server)["state"] == ended);
        // Chunks in flight still arrive, and then the reason, or a broken connection if the format
        // has no way to give one.
        let mut last = Vec::new();
        let whole = loop {
            match read_chunk(&mut reader) {
                Ok(Some(chunk)) => last = chunk,
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        assert_eq!(whole, !call.contains("format=raw"), "{call}");
        if let Some(error) = error {
            let last = String::from_utf8_lossy(&last);
            assert!(last.contains("_error") && last.contains(error), "{call}: {last}");
        }
    }
}

#[test]
fn limits_end_queries_and_name_the_setting() {
    let config = "[query]\nconcurrent_max = 1\nwaiting_max = 1\nwait_max = '10m'\nrows_max = 5000\nmemory_bytes_max = '64KiB'\n";
    let server = Server::start_with(&[], config);
    let lines: String = (0..30_000).map(|i| format!("line {i} {}\n", "x".repeat(300))).collect();
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);

    let query = |text: &str| server.get(&format!("/select/logsql/query?query={}", encoded(text)));
    let rows = query("*").rows();
    let last = rows.last().unwrap();
    assert!(last["_error"]["message"].as_str().unwrap().contains("query.rows_max"), "{last}");
    assert!(rows.len() <= 5001);
    let answer = query("* | stats by (_msg) count()");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("query.memory_bytes_max"));
    let answer = server.get("/select/logsql/query?query=*|count()&timeout=1ns");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("query.run_max"));
}

#[test]
fn a_full_queue_refuses() {
    let config = "[query]\nconcurrent_max = 1\nwaiting_max = 1\nwait_max = '10m'\n";
    let server = Server::start_with(&[], config);
    let lines: String = (0..60_000).map(|i| format!("line {i} {}\n", "x".repeat(300))).collect();
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    // One runs (its client does not read), one waits, the next is refused.
    let mut slow = server.connect();
    write!(slow, "GET /select/logsql/query?query=* HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
        .unwrap();
    slow.read_exact(&mut [0; 100]).unwrap();
    let mut waiting = server.connect();
    write!(waiting, "GET /select/logsql/query?query=* HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
        .unwrap();
    server.wait_for("one query waits", |server| {
        server.get("/api/v1/queries").json()["queries"][0]["state"] == "waiting"
    });
    let refused = server.get("/select/logsql/query?query=*");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("query.waiting_max"), "{}", refused.text());
    // The first one gives its place away after a while, though its client never reads.
    let waited = Answer::read(waiting).unwrap();
    assert_eq!(waited.status, 200);
}

#[test]
fn the_summary_counts_each_line_once() {
    let mut server = with_lines();
    let syslog = "<11>1 2026-01-31T12:00:05Z web1 nginx - - - failed\n";
    assert_eq!(server.post("/insert/lines", syslog.repeat(3).as_bytes()).status, 200);
    let syslog_bytes = 3 * (syslog.len() as u64 - 1);
    let shop_bytes = server.ingest("http")["bytes_received"].as_u64().unwrap() - syslog_bytes;
    let range = "start=2026-01-31T12:00Z&end=2026-01-31T12:10Z";
    let types = format!("/api/v1/summary/types?{range}");
    let expected = json!({"types": [
        {"type": "shop", "lines": 10, "bytes": shop_bytes, "levels": {"error": 4, "info": 6}},
        {"type": "syslog", "lines": 3, "bytes": syslog_bytes, "levels": {"error": 3}},
    ]});
    let chart = format!("/api/v1/summary?type=shop&{range}&step=5m");
    let check = |server: &Server| {
        server.wait_for("everything is summarised", |server| server.get(&types).json() == expected);
        let chart = server.get(&chart).json();
        assert_eq!((&chart["step_s"], &chart["lines"]), (&json!(300), &json!([5, 5])));
        assert_eq!(chart["series"]["level"], json!({"error": [2, 2], "info": [3, 3]}));
        assert_eq!(chart["totals"]["hostname"], json!({"web1": 5, "web2": 5}));
    };
    // From open buckets, then from rows written at shutdown, then again after a crash.
    check(&server);
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(server.terminate(), Some(0));
    copy(server.data_dir(), directory.path());
    let mut again = Server::start_in(directory.path(), &[], "");
    check(&again);
    assert!(again.count("_type:summary") > 0);
    again.kill();
    check(&Server::start_in(directory.path(), &[], ""));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn status_metrics_health_ready() {
    let server = with_lines();
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    server.wait_for("everything is parsed", |server| server.status()["parse_lag_lines"] == 0);
    let status = server.status();
    assert_eq!(
        (&status["ready"], &status["store"]["lines"], &status["store"]["state"]),
        (&json!(true), &json!(10), &json!("ok"))
    );
    assert_eq!(status["store"]["oldest"], "2026-01-31T12:00:00Z");
    assert_eq!(status["listeners"]["http"], server.http);
    let http = server.ingest("http");
    assert_eq!((&http["lines_received"], &http["lines_kept"]), (&json!(10), &json!(10)));

    let metrics = server.get("/metrics").text();
    for line in [
        "loginson_lines_received_total{source=\"http\"} 10",
        "loginson_lines_kept_total{source=\"http\"} 10",
        "loginson_lines_dropped_total{source=\"syslog_udp\",reason=\"kernel\"} 0",
        "loginson_udp_socket_drops_total{socket=\"0\"} 0",
        "loginson_parse_lag_lines 0",
        "loginson_store_lines 10",
        "loginson_ready 1",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} is missing in:\n{metrics}");
    }
    let documented = include_str!("../../../../docs/metrics.md");
    for name in metrics.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/metrics.md");
    }
}

#[test]
fn the_page_is_served() {
    let server = Server::start();
    let index = server.get("/");
    assert_eq!(
        (index.status, index.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert!(index.text().contains("Loginson"));
    let etag = index.header("etag").unwrap();
    assert_eq!(server.request("GET", "/index.html", &[("If-None-Match", etag)], b"").status, 304);
    assert_eq!(index.header("x-content-type-options"), Some("nosniff"));
    assert!(index.header("content-security-policy").unwrap().starts_with("default-src 'self'"));
}

/// A response to a client that accepts gzip: compressed, and decompressed.
fn in_gzip(server: &Server, path: &str, more: &[(&str, &str)]) -> (Answer, Vec<u8>) {
    let headers = [&[("Accept-Encoding", "gzip, deflate, br")], more].concat();
    let answer = server.request("GET", path, &headers, b"");
    let mut body = Vec::new();
    if answer.header("content-encoding") == Some("gzip") {
        flate2::read::MultiGzDecoder::new(&*answer.body).read_to_end(&mut body).unwrap();
    }
    (answer, body)
}

#[test]
fn answers_are_compressed_for_clients_that_accept_it() {
    let server = with_lines();
    for path in ["/", "/api/v1/status", "/select/logsql/query?query=*", "/metrics"] {
        let plain = server.get(path);
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        let (answer, body) = in_gzip(&server, path, &[]);
        assert_eq!(answer.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path}");
        assert!(answer.body.len() < body.len() / 10 * 9, "{path}");
        if path == "/" || path.contains("query") {
            assert_eq!(body, plain.body, "{path}");
        }
    }
    // The gzip form of a file of the page has its own ETag.
    let (answer, _) = in_gzip(&server, "/", &[]);
    let etag = answer.header("etag").unwrap();
    assert_ne!(etag, server.get("/").header("etag").unwrap());
    assert_eq!(in_gzip(&server, "/", &[("If-None-Match", etag)]).0.status, 304);
    // Exports are files to keep, short responses are short, and other sites must not learn how well
    // something compresses.
    for path in ["/api/v1/export?query=*&format=jsonl", "/health"] {
        assert_eq!(in_gzip(&server, path, &[]).0.header("content-encoding"), None, "{path}");
    }
    let (answer, _) = in_gzip(&server, "/api/v1/status", &[("Sec-Fetch-Site", "cross-site")]);
    assert_eq!(answer.header("content-encoding"), None);
}

#[test]
fn a_compressed_tail_is_read_line_by_line() {
    let server = Server::start();
    let mut stream = server.connect();
    write!(
        stream,
        "GET /select/logsql/tail?query=* HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip\r\n\r\n",
        server.http
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let (status, head) = read_head(&mut reader).unwrap();
    assert_eq!(status, 200);
    assert!(head.contains(&("content-encoding".to_owned(), "gzip".to_owned())), "{head:?}");
    let mut got = Vec::new();
    for n in 0..3 {
        server.post("/insert/jsonline", format!("{{\"_msg\":\"line {n}\"}}").as_bytes());
        // The next line is sent only when this one was read.
        loop {
            got.extend(read_chunk(&mut reader).unwrap().expect("the tail goes on"));
            let mut text = Vec::new();
            let end = flate2::read::MultiGzDecoder::new(&*got).read_to_end(&mut text);
            assert!(end.is_err(), "the stream has no end yet");
            if String::from_utf8_lossy(&text).contains(&format!("line {n}")) {
                break;
            }
        }
    }
}

#[test]
fn the_room_of_the_disk_adds_up() {
    let server = Server::start();
    server.wait_for("the store is open", |server| server.status()["store"].is_object());
    let store = &server.status()["store"];
    let bytes = |name: &str| store[name].as_u64().unwrap_or_else(|| panic!("{name}: {store}"));
    let (used, free) = (bytes("disk_used_bytes"), bytes("disk_free_bytes"));
    assert!(used > 0 && free > 0 && used + free <= bytes("disk_total_bytes"), "{store}");
}

#[test]
fn the_queue_says_which_time_a_query_covers() {
    let server = with_lines();
    for (range, start, end) in [
        (
            "&start=2026-01-31T12:02Z&end=2026-01-31T12:05Z",
            json!("2026-01-31T12:02:00Z"),
            json!("2026-01-31T12:05:00Z"),
        ),
        ("", Value::Null, Value::Null),
    ] {
        let answer = server.get(&format!("/select/logsql/query?query=*{range}"));
        let id = answer.header("x-loginson-query-id").unwrap();
        let entry = server.get(&format!("/api/v1/queries/{id}")).json();
        assert_eq!((&entry["start"], &entry["end"]), (&start, &end), "{entry}");
    }
}

#[test]
fn other_sites_are_kept_out() {
    let server = Server::start();
    let status = |method: &str, path: &str, headers: &[(&str, &str)]| {
        server.request(method, path, headers, b"{}").status
    };
    assert_eq!(status("POST", "/insert/jsonline", &[]), 200);
    assert_eq!(status("POST", "/insert/jsonline", &[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(status("POST", "/insert/jsonline", &[("Origin", "http://evil.example")]), 403);
    assert_eq!(status("DELETE", "/api/v1/queries/1", &[("Origin", "null")]), 403);
    assert_eq!(status("GET", "/api/v1/status", &[("Host", "rebound.example")]), 403);
    let answer = server.request("GET", "/insert/jsonline", &[], b"");
    assert_eq!(answer.status, 405);
    assert!(answer.json()["error"].as_str().unwrap().contains("GET"));
    // As much of a head as the server reads, without its end. Unread data would remain when the
    // connection is closed, which can discard the response.
    let mut head = format!("GET /health HTTP/1.1\r\nHost: {}\r\nX-Long: ", server.http);
    head.push_str(&"x".repeat((256 << 10) - head.len()));
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(stream).unwrap().status, 431);
    assert_eq!(status("GET", "/health", &[]), 200);
}

#[test]
fn dashboards_are_kept_with_versions() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], "");
    let path = "/api/v1/dashboards/web";
    let put = |server: &Server, body: &str| server.request("PUT", path, &[], body.as_bytes());
    assert_eq!(server.get("/api/v1/dashboards").json(), json!({ "dashboards": [] }));
    assert_eq!(server.get(path).status, 404);
    let first = put(&server, r#"{"title":"<b>Web","version":0,"panels":[{"n":1}]}"#);
    assert_eq!(first.status, 200, "{}", first.text());
    let kept = json!({"id": "web", "title": "<b>Web", "version": 1, "panels": [{"n": 1}]});
    assert_eq!(first.json(), kept);
    // Somebody who began with the version before does not overwrite it.
    let late = put(&server, r#"{"title":"Mine","version":0,"panels":[]}"#);
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("version 1 and not 0"), "{}", late.text());
    for (body, status) in
        [("{", 400), ("[]", 400), (r#"{"title":"","version":1,"panels":[]}"#, 400)]
    {
        assert_eq!(put(&server, body).status, status, "{body}");
    }
    assert_eq!(put(&server, &"x".repeat((1 << 20) + 1)).status, 413);
    let outside = server.request("PUT", "/api/v1/dashboards/..%2Fweb", &[], b"{}");
    assert_eq!(outside.status, 400, "{}", outside.text());
    assert_eq!(server.terminate(), Some(0));
    drop(server);
    let server = Server::start_in(directory.path(), &[], "");
    assert_eq!(server.get(path).json(), kept);
    assert_eq!(server.get("/api/v1/dashboards").json()["dashboards"][0]["version"], 1);
    assert_eq!(server.request("DELETE", path, &[], b"").status, 200);
    assert_eq!(
        (server.get(path).status, server.request("DELETE", path, &[], b"").status),
        (404, 404)
    );
}

#[test]
fn results_kept_in_a_notebook_are_for_callers_who_see_all_lines() {
    let (all, all_sha256) = crate::access::make_token();
    let (part, part_sha256) = crate::access::make_token();
    let config = format!(
        "[[tokens]]\nname = 'all'\nsha256 = '{all_sha256}'\nrole = 'operate'\n\
         [[tokens]]\nname = 'part'\nsha256 = '{part_sha256}'\nrole = 'read'\nfilter = 'app:=shop'\n"
    );
    let server = Server::start_with(&[], &config);
    let call = |token: &str, method: &str, body: &str| {
        let header = format!("Bearer {token}");
        let head = [("Authorization", header.as_str())];
        server.request(method, "/api/v1/dashboards/_notebook-a", &head, body.as_bytes())
    };
    let kept = json!({"rows": [{"_msg": "secret"}]});
    let cells =
        json!([{"kind": "text", "text": "x"}, {"kind": "query", "query": "*", "kept": kept}]);
    let body = json!({"title": "A", "version": 0, "panels": [], "cells": cells}).to_string();
    let saved = call(&all, "PUT", &body);
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(call(&all, "GET", "").json()["cells"], cells);
    let seen = call(&part, "GET", "").json();
    assert_eq!(seen["cells"], json!([cells[0], {"kind": "query", "query": "*"}]));
    assert_eq!(call(&part, "PUT", &seen.to_string()).status, 403);
    assert_eq!(call(&all, "GET", "").json()["cells"], cells);
}

#[test]
fn several_queries_in_one_request() {
    let server = Server::start();
    assert_eq!(server.post("/insert/lines", b"one\ntwo\nthree\n").status, 200);
    let queries = ["two | fields _msg", "nothing", "* NOT _type:summary | stats count() n"];
    let expected = "{\"rows\":[{\"_msg\":\"two\"}]}\n{\"rows\":[]}\n{\"rows\":[{\"n\":\"3\"}]}\n";
    let body = json!({ "query": queries, "limit": 1 }).to_string();
    let head = [("Content-Type", "application/json")];
    let answer = server.request("POST", "/select/logsql/queries", &head, body.as_bytes());
    assert_eq!((answer.status, &*answer.text()), (200, expected));
    let form: Vec<String> = queries.iter().map(|q| format!("query={}", encoded(q))).collect();
    let answer = server.get(&format!("/select/logsql/queries?{}", form.join("&")));
    assert_eq!((answer.status, &*answer.text()), (200, expected));
    for (parameters, expected) in [
        ("", "give 1 to 1000 of them"),
        ("query=a&query=(", "query 2: "),
        ("query=a&limit=1001", "more than 1000 rows"),
        ("query=a&offset=1", "offset"),
    ] {
        let answer = server.get(&format!("/select/logsql/queries?{parameters}"));
        assert_eq!(answer.status, 400, "{parameters}");
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
}
