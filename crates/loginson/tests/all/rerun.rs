//! Summarising a past interval again, with the real binary: the charts before and after, over
//! crashes.

use crate::common::{LOGINSON, Server, encoded};
use serde_json::{Value, json};

/// Rows are written every second.
const CONFIG: &str = "[summary]\nflush_interval = \"1s\"\nflush_delay = \"0s\"\n";

fn send(server: &Server, seconds: std::ops::Range<usize>, user: &str) {
    let lines: Vec<String> = seconds
        .map(|s| {
            format!(
                r#"{{"_time":"2026-01-31T12:00:{s:02}Z","_msg":"m {s}","level":"{}","user":"{user}"}}"#,
                ["info", "error"][s % 2]
            )
        })
        .collect();
    let answer = server.post("/insert/jsonline?_type=shop", lines.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The lines and errors of each ten seconds, and the number of reruns that the chart reports.
fn chart(server: &Server) -> (Vec<u64>, Vec<u64>, usize) {
    let path =
        "/api/v1/summary?type=shop&start=2026-01-31T12:00:00Z&end=2026-01-31T12:01:00Z&step=10s";
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let chart = answer.json();
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().into_iter().flatten().map(|n| n.as_u64().unwrap()).collect()
    };
    let reruns = chart["reruns"].as_array().map_or(0, Vec::len);
    (numbers(&chart["lines"]), numbers(&chart["series"]["level"]["error"]), reruns)
}

fn rerun(server: &Server, start: &str, end: &str) -> Value {
    let path =
        format!("/api/v1/summary/rerun?type=shop&start={}&end={}", encoded(start), encoded(end));
    let answer = server.post(&path, b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until everything counted is in stored rows.
fn settled(server: &Server, lines: u64) {
    let query = "_type:summary summary_of:shop rerun:\"\" | stats sum(lines) as n";
    server.wait_for("rows of the summary", |server| {
        server.query(query, "")[0]["n"].as_str() == Some(lines.to_string().as_str())
    });
}

#[test]
fn charts_show_what_is_there_now() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    send(&server, 0..60, "a");
    send(&server, 0..30, "gone");
    settled(&server, 90);
    let before = (vec![20, 20, 20, 10, 10, 10], vec![10, 10, 10, 5, 5, 5], 0);
    assert_eq!(chart(&server), before);

    // Counts stay when lines are deleted, until the interval is summarised again.
    let answer = server.post("/api/v1/deletions?filter=user%3A%3Dgone", b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    server.wait_for("the deletion", |server| {
        server.get("/api/v1/deletions/1").json()["state"] == "done"
    });
    assert_eq!(chart(&server), before);
    let done = rerun(&server, "2026-01-31T12:00:01Z", "2026-01-31T12:00:20Z");
    assert_eq!(
        (&done["lines"], &done["start"], &done["end"]),
        (&json!(20), &json!("2026-01-31T12:00:00Z"), &json!("2026-01-31T12:00:20Z"))
    );
    let after = (vec![10, 10, 20, 10, 10, 10], vec![5, 5, 10, 5, 5, 5], 1);
    assert_eq!(chart(&server), after);
    // It was an entry of the queue.
    let queries = server.get("/api/v1/queries").json();
    let entry = queries["queries"].as_array().unwrap().iter().find(|q| q["kind"] == "summarise");
    assert_eq!(entry.unwrap()["state"], "done");

    // Repeating it gives the same counts.
    assert_eq!(rerun(&server, "2026-01-31T12:00:00Z", "2026-01-31T12:00:20Z")["lines"], 20);
    assert_eq!(chart(&server), after);

    // Late lines are counted as well, in open buckets and in stored rows.
    send(&server, 5..7, "late");
    server.wait_for("the late lines", |server| chart(server).0[0] == 12);
    settled(&server, 92);
    assert_eq!(chart(&server).0, [12, 10, 20, 10, 10, 10]);

    // Also after a crash, and whatever an incomplete rerun has left.
    server.kill();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    server.wait_for("the summary", |server| server.get("/api/v1/summary?type=shop").status == 200);
    assert_eq!(chart(&server).0, [12, 10, 20, 10, 10, 10]);
    assert_eq!(rerun(&server, "2026-01-31T12:00:00Z", "2026-01-31T12:01:00Z")["lines"], 62);
    let whole = (vec![12, 10, 10, 10, 10, 10], vec![6, 5, 5, 5, 5, 5], 1);
    assert_eq!(chart(&server), whole);
    let types = "/api/v1/summary/types?start=2026-01-31T12:00:00Z&end=2026-01-31T12:01:00Z";
    let types = server.get(types).json();
    let shop = types["types"].as_array().unwrap().iter().find(|t| t["type"] == "shop").unwrap();
    assert_eq!((&shop["lines"], &shop["levels"]["error"]), (&json!(62), &json!(31)), "{types}");

    // A backup contains it too.
    let answer = server.post("/api/v1/backups?name=whole", b"");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let restored = tempfile::tempdir().unwrap();
    let backup = directory.path().join("backups/whole");
    let output = std::process::Command::new(LOGINSON)
        .args(["restore", "--data-dir"])
        .args([restored.path(), &backup])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copy = Server::start_in(restored.path(), &[], CONFIG);
    copy.wait_for("the summary", |server| server.get("/api/v1/summary?type=shop").status == 200);
    assert_eq!(chart(&copy), whole);
    drop(copy);

    // Without the list the original counts apply: rows of a rerun that is not listed are ignored.
    server.terminate();
    std::fs::remove_file(directory.path().join("summary-reruns.json")).unwrap();
    let server = Server::start_in(directory.path(), &[], CONFIG);
    server.wait_for("the summary", |server| server.get("/api/v1/summary?type=shop").status == 200);
    assert_eq!(chart(&server).0, [22, 20, 20, 10, 10, 10]);
}

#[test]
fn what_is_refused_and_the_command() {
    let server = Server::start_with(&[], CONFIG);
    send(&server, 0..10, "a");
    settled(&server, 10);
    for (parameters, expected) in [
        ("start=1700000001&end=1700000002", "the parameter 'type' is missing"),
        ("type=summary&start=1700000001&end=1700000002", "type 'summary' is not summarised"),
        ("type=shop&end=1700000002", "the parameter 'start' is missing"),
        ("type=shop&start=1700000002&end=1700000001", "start must be before end"),
    ] {
        let answer = server.post(&format!("/api/v1/summary/rerun?{parameters}"), b"");
        assert_eq!(answer.status, 400, "{parameters}");
        assert!(answer.text().contains(expected), "{parameters}: {}", answer.text());
    }
    let command = |arguments: &[&str]| {
        let url = format!("http://{}", server.http);
        let output = std::process::Command::new(LOGINSON)
            .args([&["summarise", "--server", &url], arguments].concat())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let message =
        command(&["shop", "--start", "2026-01-31T12:00:00Z", "--end", "2026-01-31T12:01:00Z"]);
    assert_eq!(message, "shop from 2026-01-31T12:00:00Z to 2026-01-31T12:01:00Z: 10 lines\n");
    assert!(command(&["--list"]).starts_with("shop from 2026-01-31T12:00:00Z to"));
    assert_eq!(chart(&server).0[0], 10);
}

#[test]
fn in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), &[], CONFIG);
    send(&server, 0..60, "a");
    settled(&server, 60);
    let path = "/api/v1/summary/rerun?type=shop&start=2026-01-31T12:00:00Z&end=2026-01-31T12:01:00Z&background=1";
    let answer = server.post(path, b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    // It is in the list of queries, while it runs and after its end.
    server.wait_for("the end of the rerun", |server| {
        let queries = server.get("/api/v1/queries").json();
        let entry = queries["queries"].as_array().unwrap().iter().find(|q| q["id"] == *id).cloned();
        let entry = entry.expect("it is listed");
        assert_eq!(entry["kind"], "summarise");
        assert_ne!(entry["state"], "failed", "{entry}");
        entry["state"] == "done"
    });
    assert_eq!(chart(&server), (vec![10; 6], vec![5; 6], 1));
    let listed = server.get("/api/v1/summary/rerun").json();
    assert_eq!(listed["reruns"].as_array().unwrap().len(), 1);
}
