//! Background queries of the real binary: submitted, fetched page by page, paused, cancelled, and
//! still there after a crash.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::path::Path;

use crate::common::{Answer, Server, encoded, loginson, read_chunk, read_head};
use serde_json::{Value, json};

/// Lines whose event times are not in the order of arrival.
fn lines(from: usize, count: usize) -> String {
    let line = |i: usize| {
        let minute = (i * 7_919) % 1_440;
        format!(
            "<14>1 2026-01-31T{:02}:{:02}:00Z web{} app - - - line {i}\n",
            minute / 60,
            minute % 60,
            i % 3
        )
    };
    (from..from + count).map(line).collect()
}

fn filled(server: &Server, batches: usize) {
    for batch in 0..batches {
        let body = lines(batch * 2_000, 2_000);
        assert_eq!(server.post("/insert/lines", body.as_bytes()).status, 200);
    }
}

fn submit(server: &Server, parameters: &str) -> String {
    let answer = server.post(&format!("/api/v1/queries?{parameters}"), b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    let body = answer.json();
    let id = body["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(&*format!("/api/v1/queries/{id}")));
    id
}

fn entry(server: &Server, id: &str) -> Value {
    server.get(&format!("/api/v1/queries/{id}")).json()
}

fn state(server: &Server, id: &str) -> String {
    entry(server, id)["state"].as_str().unwrap_or("gone").to_owned()
}

fn wait_for_state(server: &Server, id: &str, wanted: &str) {
    server.wait_for(&format!("query {id} is {wanted}"), |server| state(server, id) == wanted);
}

fn act(server: &Server, id: &str, action: &str) -> Answer {
    server.post(&format!("/api/v1/queries/{id}/{action}"), b"")
}

fn delete(server: &Server, id: &str) -> Answer {
    server.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"")
}

fn page(server: &Server, id: &str, parameters: &str) -> Answer {
    let answer = server.get(&format!("/api/v1/queries/{id}/results?{parameters}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// All rows, fetched page by page until the query has ended and there are no more.
fn fetched(server: &Server, id: &str, limit: usize) -> Vec<u8> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(server, id, &format!("limit={limit}&cursor={cursor}"));
        all.extend(&page.body);
        cursor = page.header("x-loginson-cursor").unwrap().to_owned();
        let state = page.header("x-loginson-state").unwrap();
        let live = ["waiting", "running", "paused"].contains(&state);
        if page.header("x-loginson-rows") == Some("0") && !live {
            return all;
        }
    }
}

fn export(server: &Server, parameters: &str) -> Vec<u8> {
    let answer = server.get(&format!("/api/v1/export?{parameters}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body
}

#[test]
fn submitted_fetched_and_deleted() {
    let server = Server::start();
    filled(&server, 5);
    let all = encoded("line _type:=syslog | fields _time, _msg");
    let id = submit(&server, &format!("query={all}"));
    let rows = fetched(&server, &id, 777);
    assert!(rows == export(&server, &format!("format=jsonl&query={all}")), "the rows of an export");
    let times: Vec<String> = rows
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap()["_time"].to_string())
        .collect();
    assert!(times.len() == 10_000 && times.is_sorted(), "in the order of time");

    let shown = entry(&server, &id);
    assert_eq!((&shown["state"], &shown["kind"]), (&json!("done"), &json!("background")));
    assert_eq!((&shown["rows"], &shown["progress"]), (&json!(10_000), &json!(1.0)));
    assert_eq!(shown["blocks_done"], shown["blocks_planned"]);
    assert_eq!(shown["results"]["resumes"], "behind the last row");
    assert!(
        shown["results"]["expires"].is_string() && shown["results"]["bytes"].as_u64() > Some(0)
    );
    let listed = server.get("/api/v1/queries").json();
    assert!(listed["queries"].as_array().unwrap().iter().any(|entry| entry["id"] == *id));
    assert_eq!(listed["result_bytes"], shown["results"]["bytes"]);

    assert_eq!(delete(&server, &id).json(), json!({"id": id, "state": "deleted"}));
    assert_eq!(server.get(&format!("/api/v1/queries/{id}")).status, 404);
    assert_eq!(server.get(&format!("/api/v1/queries/{id}/results")).status, 404);
    assert_eq!(server.get("/api/v1/queries").json()["result_bytes"], 0);
    assert_eq!(std::fs::read_dir(server.data_dir().join("queries")).unwrap().count(), 1);
}

#[test]
fn every_format_and_body() {
    let server = Server::start();
    server.post("/insert/lines", b"two\nof them\nbad \xff, \"quoted\"\n");
    let form = |parameters: &str| fetched(&server, &submit(&server, parameters), 1);
    let query = encoded("* NOT _type:summary");
    assert_eq!(form(&format!("query={query}&format=raw")), b"two\nof them\nbad \xff, \"quoted\"\n");
    let columns = encoded("* NOT _type:summary | fields _msg, nothing");
    assert_eq!(
        form(&format!("query={columns}&format=csv")),
        b"_msg,nothing\r\ntwo,\r\nof them,\r\n\"bad \xff, \"\"quoted\"\"\",\r\n"
    );
    let counted = encoded("* NOT _type:summary | stats count() n, count_uniq(_msg) m");
    assert_eq!(form(&format!("query={counted}&format=csv")), b"n,m\r\n3,3\r\n");
    assert_eq!(form(&format!("query={counted}")), b"{\"n\":\"3\",\"m\":\"3\"}\n");
    // The newest rows, the same as for a query in the foreground.
    let newest = encoded("* NOT _type:summary | fields _msg");
    assert!(form(&format!("query={newest}&limit=1")).starts_with(b"{\"_msg\":\"bad "));
    // 0: no limit, the same as for a query in the foreground. The rows are in the order of time.
    let all = form(&format!("query={newest}&limit=0"));
    assert_eq!(all, form(&format!("query={newest}")));
    assert_eq!(all.iter().filter(|&&b| b == b'\n').count(), 3);
    let body = json!({"query": "two | fields _msg", "format": "json", "limit": 5, "include": ["_line_id"]});
    let head = [("Content-Type", "application/json")];
    let text = body.to_string();
    let answer = server.request("POST", "/api/v1/queries", &head, text.as_bytes());
    assert_eq!(answer.status, 202, "{}", answer.text());
    let rows = fetched(&server, answer.json()["id"].as_str().unwrap(), 10);
    let row: Value = serde_json::from_slice(&rows).unwrap();
    assert!(row["_msg"] == "two" && row["_line_id"].is_string(), "{row}");
}

#[test]
fn mistakes_are_answered() {
    let server = Server::start();
    let post = |parameters: &str| server.post(&format!("/api/v1/queries?{parameters}"), b"");
    for (parameters, expected) in [
        ("", "'query' is missing"),
        ("query=a%20|", "expected"),
        ("query=a&format=parquet", "not json, raw or csv"),
        ("query=a|count()&format=raw", "have no raw form"),
        ("query=a&timeout=soon", "timeout:"),
        ("query=a&limit=few", "whole number"),
        ("query=a&start=noon", "is not a time"),
    ] {
        let answer = post(parameters);
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    let id = submit(&server, "query=a");
    wait_for_state(&server, &id, "done");
    for (path, status, expected) in [
        ("results?limit=0", 400, "between 1 and"),
        ("results?limit=10001", 400, "between 1 and"),
        ("results?cursor=x", 400, "is not a cursor"),
        ("results?cursor=7.1", 409, "earlier run"),
    ] {
        let answer = server.get(&format!("/api/v1/queries/{id}/{path}"));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
    assert_eq!(server.get(&format!("/api/v1/queries/{id}/results?limit=10000")).status, 200);
    for action in ["pause", "resume"] {
        let answer = act(&server, &id, action);
        assert_eq!((answer.status, answer.text().contains("is done")), (409, true));
        assert_eq!(act(&server, "9999", action).status, 404);
        assert_eq!(act(&server, "x", action).status, 404);
    }
    assert_eq!(delete(&server, "9999").status, 404);
}

/// Occupies the only slot for exports and background queries with an export that nobody reads.
pub struct Holder {
    pub id: String,
    _stream: std::net::TcpStream,
}

impl Holder {
    pub fn take(server: &Server) -> Holder {
        let line = format!("held {}\n", "x".repeat(10_000));
        for _ in 0..12 {
            assert_eq!(server.post("/insert/lines", line.repeat(400).as_bytes()).status, 200);
        }
        let mut stream = server.connect();
        write!(
            stream,
            "GET /api/v1/export?format=raw&query=held HTTP/1.1\r\nHost: {}\r\n\r\n",
            server.http
        )
        .unwrap();
        let (status, head) = read_head(&mut BufReader::new(stream.try_clone().unwrap())).unwrap();
        assert_eq!(status, 200);
        let id = head.into_iter().find(|(name, _)| name == "x-loginson-query-id").unwrap().1;
        Holder { id, _stream: stream }
    }
}

const ONE_PLACE: &str =
    "[query]\nbackground_concurrent_max = 1\nbackground_waiting_max = 3\nwait_max = '0s'\n";

#[test]
fn background_queries_wait_without_delaying_others() {
    let server = Server::start_with(&[], ONE_PLACE);
    let holder = Holder::take(&server);
    let ids: Vec<String> = (0..3).map(|_| submit(&server, "query=held|count()")).collect();
    for (id, position) in ids.iter().zip(1..) {
        let shown = entry(&server, id);
        assert_eq!((&shown["state"], &shown["position"]), (&json!("waiting"), &json!(position)));
    }
    // One more background query than may wait; and an export, whose client waits.
    let refused = server.post("/api/v1/queries?query=a", b"");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("query.background_waiting_max"), "{}", refused.text());
    // A query whose client waits does not queue behind them.
    assert_eq!(server.count("held"), 4_800);
    // Removed from the middle of the queue, and from its end.
    assert_eq!(delete(&server, &ids[1]).json()["state"], "cancelled");
    wait_for_state(&server, &ids[1], "cancelled");
    let refused = server.get("/api/v1/export?format=jsonl");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("query.background_concurrent_max"), "{}", refused.text());
    assert_eq!(act(&server, &ids[0], "pause").json()["state"], "paused");
    assert_eq!(entry(&server, &ids[2])["position"], 1);
    assert_eq!(act(&server, &ids[0], "resume").json()["state"], "waiting");
    assert_eq!(act(&server, &ids[0], "resume").status, 409);
    assert_eq!(entry(&server, &ids[0])["position"], 2);
    // A paused export releases its slot.
    assert_eq!(act(&server, &holder.id, "pause").json()["state"], "paused");
    for id in [&ids[0], &ids[2]] {
        wait_for_state(&server, id, "done");
        assert_eq!(fetched(&server, id, 10), b"{\"count(*)\":\"4800\"}\n");
    }
    // It is cancelled while paused.
    assert_eq!(delete(&server, &holder.id).json()["state"], "cancelled");
    wait_for_state(&server, &holder.id, "cancelled");
}

#[test]
fn a_pause_has_an_end() {
    let server = Server::start_with(&[], "[query]\npause_max = '0s'\n");
    let holder = Holder::take(&server);
    assert_eq!(act(&server, &holder.id, "pause").status, 200);
    wait_for_state(&server, &holder.id, "cancelled");
    let why = entry(&server, &holder.id)["error"].to_string();
    assert!(why.contains("query.pause_max"), "{why}");
}

#[test]
fn results_have_limits() {
    let bytes = |body: &str| {
        let config = format!("[query]\n{body}\n");
        let server = Server::start_with(&[], &config);
        server.post("/insert/lines", b"abc\ndef\n");
        server
    };
    let query = format!("query={}&format=raw", encoded("* NOT _type:summary"));
    // Two rows of 4 bytes, with 4 bytes each and 44 for the block.
    for (max, expected) in [(59, "failed"), (60, "done"), (61, "done")] {
        let server = bytes(&format!("result_bytes_max = '{max}'"));
        let id = submit(&server, &query);
        wait_for_state(&server, &id, expected);
        let error = entry(&server, &id)["error"].to_string();
        assert_eq!(error.contains("query.result_bytes_max"), expected == "failed", "{error}");
    }
    let server = bytes("result_bytes_total_max = '120'");
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let id = submit(&server, &query);
            server.wait_for("its end", |server| ["done", "failed"].contains(&&*state(server, &id)));
            id
        })
        .collect();
    let states: Vec<String> = ids.iter().map(|id| state(&server, id)).collect();
    assert_eq!(states, ["done", "done", "failed"]);
    let error = entry(&server, &ids[2])["error"].to_string();
    assert!(error.contains("query.result_bytes_total_max"), "{error}");
    delete(&server, &ids[0]);
    let id = submit(&server, &query);
    wait_for_state(&server, &id, "done");

    let server = bytes("background_run_max = '0s'");
    let id = submit(&server, &query);
    wait_for_state(&server, &id, "failed");
    let error = entry(&server, &id)["error"].to_string();
    assert!(error.contains("query.background_run_max"), "{error}");

    let server = bytes("memory_bytes_max = '100'");
    let id = submit(&server, &format!("query={}", encoded("* | stats by (_msg) count()")));
    wait_for_state(&server, &id, "failed");
    let error = entry(&server, &id)["error"].to_string();
    assert!(error.contains("query.memory_bytes_max"), "{error}");

    let server = bytes("results_keep = '1s'");
    let id = submit(&server, &query);
    server.wait_for("it expires", |server| state(server, &id) == "gone");
    assert_eq!(std::fs::read_dir(server.data_dir().join("queries")).unwrap().count(), 1);
    assert!(server.get("/metrics").text().contains("loginson_background_expired_total 1\n"));
}

/// The record of a query on disk.
fn record(directory: &Path, id: &str) -> Value {
    let path = directory.join("queries").join(format!("{id}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_query_resumes_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], ONE_PLACE);
    filled(&server, 10);
    let holder = Holder::take(&server);
    let all = encoded("line _type:=syslog | fields _msg");
    // The first one runs and is then paused; the others wait.
    assert_eq!(act(&server, &holder.id, "pause").status, 200);
    let done = submit(&server, &format!("query={all}&limit=3"));
    wait_for_state(&server, &done, "done");
    let three = fetched(&server, &done, 10);
    let running = submit(&server, &format!("query={all}&format=raw"));
    let counted = submit(&server, "query=line%20_type:=syslog|count()");
    server.wait_for("both ended", |server| {
        [&running, &counted].iter().all(|id| state(server, id) == "done")
    });
    let whole = fetched(&server, &running, 1_000);
    assert_eq!(whole.iter().filter(|&&b| b == b'\n').count(), 20_000);
    assert_eq!(act(&server, &holder.id, "resume").status, 200);
    let waiting = submit(&server, "query=line%20_type:=syslog|count()");
    assert_eq!(state(&server, &waiting), "waiting");
    server.kill();

    // As if it had run: the rows are cut in the middle of a block, and its end is not recorded.
    let queries = directory.path().join("queries");
    let mut left = record(directory.path(), &running);
    left["state"] = json!("running");
    left["ended_ns"] = Value::Null;
    std::fs::write(queries.join(format!("{running}.json")), left.to_string()).unwrap();
    let rows =
        std::fs::OpenOptions::new().write(true).open(queries.join(format!("{running}.rows")));
    let rows = rows.unwrap();
    rows.set_len(rows.metadata().unwrap().len() * 2 / 3).unwrap();
    let mut left = record(directory.path(), &counted);
    left["state"] = json!("paused");
    std::fs::write(queries.join(format!("{counted}.json")), left.to_string()).unwrap();
    std::fs::write(queries.join("999.rows"), "of nobody").unwrap();
    std::fs::write(queries.join("12.json.part"), "half").unwrap();
    std::fs::write(queries.join("13.json"), "junk").unwrap();

    let server = Server::start_in(directory.path(), &[], ONE_PLACE);
    assert!(!queries.join("999.rows").exists() && !queries.join("12.json.part").exists());
    server.wait_for_log("13.json");
    assert_eq!(state(&server, &done), "done");
    assert!(fetched(&server, &done, 2) == three);
    assert_eq!(fetched(&server, &waiting, 2), b"{\"count(*)\":\"20000\"}\n");
    // Lines that arrived later, with earlier event times, do not belong to the answer.
    filled(&server, 3);
    for id in [&running, &counted] {
        assert_eq!(state(&server, id), "interrupted");
    }
    let before = page(&server, &running, "limit=10000");
    let rows: usize = before.header("x-loginson-rows").unwrap().parse().unwrap();
    assert!(rows > 0 && rows < 20_000 && whole.starts_with(&before.body), "{rows}");
    assert_eq!(act(&server, &running, "resume").status, 200);
    wait_for_state(&server, &running, "done");
    assert!(fetched(&server, &running, 3_000) == whole, "nothing twice, nothing missed");
    // A cursor from before the crash is still valid.
    let cursor = before.header("x-loginson-cursor").unwrap();
    let next = page(&server, &running, &format!("cursor={cursor}&limit=1"));
    assert!(whole[before.body.len()..].starts_with(&next.body));

    // A query with computed rows runs again from the start; its old rows are gone, and their
    // cursors are invalid.
    let cursor = page(&server, &counted, "").header("x-loginson-cursor").unwrap().to_owned();
    assert_eq!(act(&server, &counted, "resume").status, 200);
    wait_for_state(&server, &counted, "done");
    assert_eq!(fetched(&server, &counted, 10), b"{\"count(*)\":\"26000\"}\n");
    let refused = server.get(&format!("/api/v1/queries/{counted}/results?cursor={cursor}"));
    assert_eq!(refused.status, 409, "{}", refused.text());
    // New ids are greater than all earlier ones.
    assert!(submit(&server, "query=a").parse::<u64>().unwrap() > waiting.parse().unwrap());
}

#[test]
fn an_orderly_end_interrupts_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], ONE_PLACE);
    let holder = Holder::take(&server);
    let (paused, waiting) = (submit(&server, "query=held"), submit(&server, "query=held"));
    assert_eq!(act(&server, &paused, "pause").json()["state"], "paused");
    assert_eq!(state(&server, &waiting), "waiting");
    assert_eq!(server.terminate(), Some(0));
    drop(holder);
    let server = Server::start_in(directory.path(), &[], ONE_PLACE);
    wait_for_state(&server, &waiting, "done");
    assert_eq!(state(&server, &paused), "interrupted");
    assert_eq!(act(&server, &paused, "resume").status, 200);
    wait_for_state(&server, &paused, "done");
    let id = paused;
    assert_eq!(entry(&server, &id)["rows"], 4_800);
}

#[test]
fn exports_resume_where_they_broke_off() {
    let server = Server::start();
    filled(&server, 4);
    // Rows of the summary contain the word too, and are written at any time.
    let query = encoded("line -_type:=summary");
    for format in ["raw", "jsonl", "csv"] {
        let base = format!("format={format}&query={query}");
        let whole = export(&server, &base);
        let pieces = pieces(&export(&server, &format!("{base}&cursors=1")));
        assert!(pieces.len() > 2, "{format}");
        let together: Vec<u8> = pieces.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        assert!(together == whole, "{format}");
        // Meanwhile lines arrive, with earlier and later event times, and with a new field.
        let late = lines(90_000, 500) + &format!("{{\"_msg\":\"line\",\"of_{format}\":\"1\"}}\n");
        server.post("/insert/lines", late.as_bytes());
        let mut at = 0;
        for (bytes, cursor) in &pieces[..pieces.len() - 1] {
            at += bytes.len();
            let rest = export(&server, &format!("{base}&cursor={}", encoded(cursor)));
            assert!(rest == whole[at..], "{format}: {cursor}");
        }
        // Behind the end are the lines that have arrived since.
        let last = &pieces.last().unwrap().1;
        let later = export(&server, &format!("format=raw&query={query}&cursor={}", encoded(last)));
        assert_eq!(sorted(&later), sorted(late.as_bytes()), "{format}");
    }
    for (parameters, expected) in [
        ("format=parquet&cursors=1".to_owned(), "Parquet"),
        (format!("format=raw&cursors=1&query={}", encoded("* | limit 5")), "limit"),
        (format!("format=jsonl&cursors=1&query={}", encoded("* | sort by (_msg)")), "sort"),
        ("format=jsonl&cursor=abc".into(), "is not a cursor"),
    ] {
        let answer = server.get(&format!("/api/v1/export?{parameters}"));
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
}

/// Splits a framed response: bytes and cursor of each piece.
fn pieces(mut answer: &[u8]) -> Vec<(Vec<u8>, String)> {
    let mut found = Vec::new();
    while !answer.is_empty() {
        let end = answer.iter().position(|&b| b == b'\n').unwrap();
        let head = std::str::from_utf8(&answer[..end]).unwrap();
        let (bytes, cursor) = head.split_once(' ').unwrap();
        let bytes: usize = bytes.parse().unwrap_or_else(|_| panic!("{head}"));
        answer = &answer[end + 1..];
        found.push((answer[..bytes].to_vec(), cursor.to_owned()));
        answer = &answer[bytes..];
    }
    assert_eq!(found.last().map(|(bytes, _)| bytes.len()), Some(0), "the answer is complete");
    found
}

fn sorted(lines: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = lines.split(|&b| b == b'\n').collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_client_that_goes_away_cancels_its_query_everywhere() {
    let server = Server::start_with(&[], "[query]\nconcurrent_max = 1\nwait_max = '600s'\n");
    let holder = Holder::take(&server);
    // The only slot of queries is taken by one whose response nobody reads; the others wait behind
    // it.
    let request = |path: &str| {
        let mut stream = server.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http).unwrap();
        stream
    };
    let first = request("/select/logsql/query?query=held");
    server.wait_for("it runs", |server| {
        let listed = server.get("/api/v1/queries").json();
        listed["queries"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["kind"] == "query" && e["state"] == "running")
    });
    let paths: HashMap<&str, &str> = [
        ("query", "/select/logsql/query?query=a"),
        ("hits", "/select/logsql/hits?query=a"),
        ("facets", "/select/logsql/facets?query=a"),
        ("field_names", "/select/logsql/field_names?query=a"),
        ("field_values", "/select/logsql/field_values?query=a&field=x"),
        ("streams", "/select/logsql/streams?query=a"),
        ("stats", "/select/logsql/stats_query?query=a|count()"),
        ("context", "/api/v1/context?id=00000001-1-0"),
    ]
    .into();
    let connections: Vec<_> = paths.values().map(|path| request(path)).collect();
    let tail = request("/select/logsql/tail?query=a");
    let states = |server: &Server, wanted: &str| {
        let listed = server.get("/api/v1/queries").json();
        let entries = listed["queries"].as_array().unwrap().clone();
        entries.iter().filter(|entry| entry["state"] == wanted).count()
    };
    server.wait_for("all wait", |server| states(server, "waiting") == paths.len());
    drop(connections);
    server.wait_for("all are gone", |server| states(server, "waiting") == 0);
    assert_eq!(states(&server, "cancelled"), paths.len());
    // Running ones: a query, an export, a tail.
    drop(first);
    drop(holder);
    drop(tail);
    server.wait_for("nothing runs", |server| states(server, "running") == 0);
}

#[test]
fn by_the_command_line() {
    let server = Server::start();
    filled(&server, 2);
    let run = |arguments: &[&str]| {
        let address = format!("http://{}", server.http);
        let output = loginson(arguments).args(["--server", &address]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), output.stdout, error)
    };
    let (success, id, error) =
        run(&["query", "--background", "--limit", "0", "line _type:=syslog | fields _msg"]);
    assert!(success && error.contains("loginson queries results"), "{error}");
    let id = String::from_utf8(id).unwrap().trim().to_owned();
    wait_for_state(&server, &id, "done");
    let (success, listed, _) = run(&["queries"]);
    let listed = String::from_utf8(listed).unwrap();
    assert!(
        success && listed.contains(&id) && listed.contains("line _type:=syslog | fields _msg"),
        "{listed}"
    );
    let (success, shown, _) = run(&["queries", "show", &id]);
    assert!(success && String::from_utf8(shown).unwrap().contains("done"));
    let (success, rows, _) = run(&["queries", "results", &id]);
    assert!(success && rows == fetched(&server, &id, 5_000));
    let (success, _, error) = run(&["queries", "pause", &id]);
    assert!(!success && error.contains("is done"), "{error}");
    let (success, said, _) = run(&["queries", "cancel", &id]);
    assert!(success && String::from_utf8(said).unwrap().contains("deleted"));
    let (success, _, error) = run(&["queries", "results", &id]);
    assert!(!success && error.contains("no background query"), "{error}");

    // An export into a file resumes behind the content of the file, and adds what has arrived
    // since.
    let directory = tempfile::tempdir().unwrap();
    let (file, cursor) = (directory.path().join("all.log"), directory.path().join("all.cursor"));
    let file_name = file.to_str().unwrap();
    let arguments = [
        "export",
        "--format",
        "raw",
        "--query",
        "line _type:=syslog",
        "-o",
        file_name,
        "--cursor-file",
        cursor.to_str().unwrap(),
    ];
    assert_eq!(run(&arguments).2, "");
    let first = std::fs::read(&file).unwrap();
    assert_eq!(sorted(&first), sorted(lines(0, 4_000).as_bytes()));
    // Half of a piece that was written when the export broke off is cut off.
    std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"half a pie").unwrap();
    server.post("/insert/lines", lines(50_000, 10).as_bytes());
    assert_eq!(run(&arguments).2, "");
    let second = std::fs::read(&file).unwrap();
    assert!(second.starts_with(&first));
    assert_eq!(sorted(&second[first.len()..]), sorted(lines(50_000, 10).as_bytes()));
    let (success, _, error) = run(&[
        "export",
        "--format",
        "jsonl",
        "--query",
        "line _type:=syslog",
        "-o",
        file_name,
        "--cursor-file",
        cursor.to_str().unwrap(),
    ]);
    assert!(!success && error.contains("another export"), "{error}");
}

#[test]
fn an_unread_tail_slows_nobody_and_learns_how_much_it_missed() {
    let server = Server::start();
    let mut stream = server.connect();
    write!(stream, "GET /select/logsql/tail?query=held HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
        .unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    // More than the connection, the chunks in flight and the batches that a tail may lag behind
    // hold.
    let line = format!("held {}\n", "x".repeat(10_000));
    let mut sent = 0;
    for _ in 0..60 {
        assert_eq!(server.post("/insert/lines", line.repeat(400).as_bytes()).status, 200);
        sent += 400;
    }
    server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
    let (mut seen, mut skipped) = (0, 0);
    let mut rest = Vec::new();
    while seen + skipped < sent {
        let chunk = read_chunk(&mut reader).unwrap().expect("it goes on");
        rest.extend(chunk);
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let Ok(row) = serde_json::from_slice::<Value>(&line) else { continue };
            match row["_skipped"]["lines"].as_u64() {
                Some(number) => skipped += number,
                None => seen += 1,
            }
        }
    }
    assert!(skipped > 0, "{seen} seen");
    let metrics = server.get("/metrics").text();
    let counted =
        metrics.lines().find_map(|l| l.strip_prefix("loginson_tail_lines_skipped_total "));
    assert!(counted.unwrap().parse::<u64>().unwrap() >= skipped, "{skipped}");
}

/// Cancelled while its rows are written: to a client that reads nothing, to one that reads, and
/// into a file.
#[test]
fn a_query_is_cancelled_while_its_rows_are_written() {
    let server = Server::start();
    let line = format!("held {}\n", "x".repeat(10_000));
    for _ in 0..8 {
        assert_eq!(server.post("/insert/lines", line.repeat(400).as_bytes()).status, 200);
    }
    for (path, reads) in [
        ("/select/logsql/query?query=held", false),
        ("/api/v1/export?format=jsonl&query=held", false),
        ("/api/v1/export?format=raw&query=held", false),
        ("/api/v1/export?format=csv&query=held", true),
        ("/api/v1/export?format=jsonl&cursors=1&query=held", true),
    ] {
        let mut stream = server.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader).unwrap();
        assert_eq!(status, 200, "{path}");
        let id = headers.iter().find(|(name, _)| name == "x-loginson-query-id").unwrap().1.clone();
        let mut taken = Vec::new();
        if reads {
            taken = read_chunk(&mut reader).unwrap().unwrap();
        }
        assert_eq!(delete(&server, &id).json()["state"], "cancelled", "{path}");
        // Its end does not wait for the client.
        wait_for_state(&server, &id, "cancelled");
        let broken = loop {
            match read_chunk(&mut reader) {
                Ok(Some(chunk)) => taken.extend(chunk),
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        // An incomplete response says why, or the connection breaks.
        let last = taken.strip_suffix(b"\n").unwrap_or(&taken);
        let last = &last[last.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)..];
        let says = last.starts_with(b"{\"_error\":{") || last.starts_with(b"! ");
        assert!(broken != says, "{path}: {}", String::from_utf8_lossy(&last[..last.len().min(99)]));
    }

    // Into a file: what was written until then can be fetched.
    let id = submit(&server, &format!("query={}", encoded("held | fields _msg")));
    server.wait_for("its first rows", |server| {
        let entry = entry(server, &id);
        entry["results"]["rows"] != 0 || entry["state"] == "done"
    });
    delete(&server, &id);
    server.wait_for("its end", |server| !["running", "waiting"].contains(&&*state(server, &id)));
    if state(&server, &id) != "gone" {
        let shown = entry(&server, &id);
        let rows = fetched(&server, &id, 1_000);
        let count = rows.iter().filter(|&&b| b == b'\n').count();
        assert_eq!(shown["results"]["rows"], count);
        assert_eq!(delete(&server, &id).json()["state"], "deleted");
    }
    assert_eq!(std::fs::read_dir(server.data_dir().join("queries")).unwrap().count(), 1);
}
