//! Queries give the same results for lines in sealed segments; and lines are deleted from them.

use std::path::Path;

use crate::common::{Server, encoded, loginson};
use serde_json::Value;

const CONFIG: &str = "[store]\nsegment_bytes_max = '1MiB'\n[summary]\nbucket = '1s'\nflush_interval = '1s'\n\
                      flush_delay = '0s'\n";
const LINES: u64 = 30_000;

/// A server with three kinds of lines, most of them in sealed segments.
fn sealed(directory: &Path) -> Server {
    let server = Server::start_in(directory, &[], CONFIG);
    for batch in 0..5 {
        let lines: String = (0..LINES / 5)
            .map(|i| match i % 3 {
                0 => format!("<11>1 - host{} app{} - - - failure {batch} {i:060}\n", i % 5, i % 7),
                1 => format!(
                    "{{\"level\":\"info\",\"user\":\"u{}\",\"pad\":\"{i:060}\"}}\n",
                    i % 100
                ),
                _ => format!("plain {batch} {i} {i:090}\n"),
            })
            .collect();
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    }
    wait_until_sealed(&server);
    server
}

/// The rest, which does not fill a segment, stays hot.
fn wait_until_sealed(server: &Server) {
    server.wait_for("what is closed is sealed", |server| {
        let store = &server.status()["store"];
        store["sealing"]["lag_segments"] == 0
            && store["segments_sealed"].as_u64().unwrap() > 0
            && store["sealed_bytes_raw"].as_u64().unwrap() > 1 << 20
    });
}

#[test]
fn queries_do_not_see_the_difference() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = sealed(directory.path());
    for _ in 0..2 {
        server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
        assert_eq!(server.count("NOT _type:summary"), LINES);
        assert_eq!(server.count("failure"), LINES / 3);
        assert_eq!(server.count("user:=u7"), LINES / 300);
        assert_eq!(server.count("_level:error"), LINES / 3);
        let raw = server.raw("_type:=plain");
        assert_eq!(raw.len() as u64, LINES / 3);
        assert!(raw.contains(&format!("plain 0 2 {:090}", 2).into_bytes()));
        // The line with an id, and the lines around it.
        let row = &server.query("failure \"failure 0\"", "limit=1&include=_line_id")[0];
        let id = row["_line_id"].as_str().unwrap();
        let context = server.get(&format!("/api/v1/context?id={id}&before=2&after=2")).json();
        let rows = context["rows"].as_array().unwrap();
        let target = rows.iter().find(|row| row["_is_target"] == "true").unwrap();
        assert_eq!(target["_line_id"], id);
        // The summary counts each line once.
        let types = server.get("/api/v1/summary/types?start=1h").json();
        let lines = |log_type: &Value| log_type["lines"].as_u64().unwrap();
        assert_eq!(types["types"].as_array().unwrap().iter().map(lines).sum::<u64>(), LINES);
        // The rest may be closed by its age meanwhile.
        server.wait_for("sealed segments in the metrics", |server| {
            server.get("/metrics").text().contains("\nloginson_seal_lag_segments 0\n")
        });
        counts_agree(&server);
        // And again after a restart, which finds the sealed segments in the catalog.
        assert_eq!(server.terminate(), Some(0));
        server = Server::start_in(directory.path(), &[], CONFIG);
    }
}

/// Counts from the metadata of segments equal counts from their lines: behind another pipe, lines
/// are read.
fn counts_agree(server: &Server) {
    for (filter, pipe) in [
        ("*", "stats count() n"),
        ("NOT _type:summary", "stats by (_time:1m) count() n"),
        ("_level:error", "stats by (_time:1s) count() n"),
        ("*", "stats by (_level) count() n, count() if (_level:in(info, error)) m"),
        ("hostname:host*", "stats by (_time:10m offset 1m, hostname) count() n"),
        ("*", "top 5 by (app_name)"),
        ("*", "stats by (user) count() n"),
    ] {
        let fields = "_time, _level, hostname, app_name, user, _type";
        // Rows of the summary may be written between the two queries.
        server.wait_for(&format!("{filter} | {pipe} agrees"), |server| {
            let counted = server.query(&format!("{filter} | {pipe}"), "");
            counted == server.query(&format!("{filter} | fields {fields} | {pipe}"), "")
        });
    }
}

#[test]
fn sealing_can_be_requested() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), &[], "");
    assert_eq!(server.post("/insert/lines", b"<11>1 - web1 app1 - - - one\n").status, 200);
    assert_eq!(server.status()["store"]["segments_sealed"], 0);
    let answer = server.post("/api/v1/seal", b"");
    // It may be sealed before the answer is written.
    let waiting = answer.json()["lag_segments"].as_u64();
    assert!(answer.status == 202 && waiting.is_some_and(|segments| segments <= 1), "{waiting:?}");
    server.wait_for("the line is sealed", |server| {
        let store = &server.status()["store"];
        store["sealing"]["lag_segments"] == 0 && store["segments_sealed"].as_u64() > Some(0)
    });
    assert_eq!(server.count("one"), 1);
    assert_eq!(server.get("/api/v1/seal").status, 405);
}

#[test]
fn a_retention_that_a_start_refuses_deletes_nothing_at_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let server = sealed(directory.path());
    let file = server.data_dir().join("loginson.toml");
    let name = file.to_str().unwrap();
    for (key, value) in [("bytes", "0"), ("bytes", "1MiB"), ("age", "0s")] {
        std::fs::write(&file, format!("{CONFIG}[retention]\n{key} = '{value}'\n")).unwrap();
        let key = format!("retention.{key}");
        let checked = loginson(&["check-config", name]).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.code() == Some(1) && said.contains(&key), "{said}");
        let answer = server.post("/api/v1/config/reload", b"");
        assert!(answer.status == 400 && answer.text().contains(&key), "{}", answer.text());
        let retention = server.status()["store"]["retention"].clone();
        assert!(retention["age_s"].is_null() && retention["bytes_max"].is_null(), "{retention}");
        assert_eq!(server.count("NOT _type:summary"), LINES);
    }
}

#[test]
fn the_retention_of_a_tenant_changes_by_a_restart_alone() {
    // The lines of this test are those of the default tenant.
    let config = |age: &str, more: &str| {
        format!("{more}\n[[tenants]]\nid = '0:0'\nname = 'shop'\nretention = '{age}'\n")
    };
    let server = Server::start_with(&[], &config("30d", ""));
    let lines: String = (0..100).map(|i| format!("short {i}\nlong {i}\n")).collect();
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    server.post("/api/v1/seal", b"");
    server.wait_for("the lines are sealed", |server| {
        let store = &server.status()["store"];
        store["sealing"]["lag_segments"] == 0 && store["segments_sealed"].as_u64() > Some(0)
    });
    // Phrases, which no line of the server's own has.
    let left = |server: &Server| (server.count("\"short 7\""), server.count("\"long 7\""));
    assert_eq!(left(&server), (1, 1));

    let rule = "[[retention.rules]]\nfilter = 'short'\nage = '1ms'\n";
    let file = server.data_dir().join("loginson.toml");
    std::fs::write(&file, config("1ms", rule)).unwrap();
    let answer = server.post("/api/v1/config/reload", b"").json();
    assert_eq!(answer["changed"], serde_json::json!(["retention.rules: short after 1ms"]));
    assert_eq!(answer["needs_restart"], serde_json::json!(["[[tenants]]"]));
    // The segment is rewritten once, by all rules that are due for it.
    server.wait_for("the rule is carried out", |server| left(server).0 == 0);
    assert_eq!(left(&server), (0, 1));
}

#[test]
fn lines_are_deleted_by_filter() {
    let directory = tempfile::tempdir().unwrap();
    let server = sealed(directory.path());
    let url = format!("http://{}", server.http);
    let run = |arguments: &[&str]| {
        let mut command = loginson(&["delete", "--server", &url]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let gone = LINES / 300;
    assert_eq!(run(&["user:=u7"]), format!("{gone} lines match; to delete them, add --yes\n"));
    assert_eq!(server.count("user:=u7"), gone);
    let said = run(&["--yes", "user:=u7"]);
    assert_eq!(said, format!("deletion 1: done, {gone} lines deleted\n"));
    assert_eq!(server.count("user:=u7"), 0);
    assert_eq!(server.count("NOT _type:summary"), LINES - gone);
    assert_eq!(run(&["--list"]), said);

    let begun = server.post("/api/v1/deletions?filter=failure", b"");
    assert_eq!(begun.status, 202, "{}", begun.text());
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    server.wait_for("it is done", |server| {
        server.get(&format!("/api/v1/deletions/{id}")).json()["state"] == "done"
    });
    assert_eq!(server.count("failure"), 0);
    assert_eq!(server.request("DELETE", "/api/v1/deletions/2", &[], b"").json()["state"], "done");
    assert_eq!(server.request("DELETE", "/api/v1/deletions/77", &[], b"").status, 404);
    let wrong = format!("/api/v1/deletions?filter={}", encoded("a | limit 1"));
    assert_eq!(server.post(&wrong, b"").status, 400);
    assert_eq!(server.post("/api/v1/deletions", b"").status, 400);
}
