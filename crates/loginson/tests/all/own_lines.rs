//! Loginson's own lines, rows of the summary, are found only by queries that name them: every count
//! is of lines that were sent. And fields of sent lines are found under the names that they were
//! sent with.

use crate::common::{Server, encoded, loginson};
use serde_json::Value;

const CONFIG: &str = "[store]\nsegment_bytes_max = '1MiB'\n[summary]\nbucket = '1s'\nflush_interval = '1s'\n\
                      flush_delay = '0s'\n";
const LINES: u64 = 9_000;

fn send(server: &Server) {
    for batch in 0..3 {
        let lines: String = (0..LINES / 3)
            .map(|i| match i % 3 {
                0 => format!("<11>1 - host{} app{} - - - failure {batch} {i:060}\n", i % 5, i % 7),
                1 => {
                    format!("{{\"level\":\"Warn\",\"user\":\"u{}\",\"pad\":\"{i:090}\"}}\n", i % 9)
                }
                _ => format!("plain {batch} {i} {i:120}\n"),
            })
            .collect();
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    }
    server.wait_for("a summary of all", |server| {
        let rows = server.query("_type:summary | stats sum(lines) n", "");
        rows[0]["n"].as_str().and_then(|n| n.parse().ok()) == Some(LINES)
    });
}

fn sum(values: &Value, name: &str) -> u64 {
    values.as_array().unwrap().iter().map(|value| value[name].as_u64().unwrap()).sum()
}

/// No answer counts or names rows of the summary.
fn only_what_was_sent(server: &Server, state: &str) {
    let get = |path: &str| {
        let answer = server.get(&format!("/select/logsql/{path}"));
        assert_eq!(answer.status, 200, "{state}: {path}: {}", answer.text());
        answer
    };
    for query in
        ["*", "_time:1h", "NOT _type:summary", "NOT nothing", "_msg:* or level:*", "_type:*"]
    {
        assert_eq!(server.count(query), LINES, "{state}: {query}");
    }
    // Rows of the summary may be written between two queries.
    server.wait_for(&format!("{state}: sums that agree"), |server| {
        let own = server.count("_type:summary");
        server.count("_type:summary or *") == LINES + own
            && server.count("_type:in(summary, json)") == LINES / 3 + own
    });
    assert!(server.count("_type:=summary") > 0, "{state}");
    // A subquery decides for itself which lines it reads.
    assert_eq!(server.count("_type:in(_type:summary | fields _type)"), 0, "{state}");
    assert_eq!(server.count("_type:in(* | fields _type)"), LINES, "{state}");
    assert_eq!(server.query("* | stats count(summary_of) n", "")[0]["n"], "0", "{state}");
    assert_eq!(server.raw("*").len() as u64, LINES, "{state}");
    let by = server.query("* | stats by (_time:1d) count() n", "");
    let number = |row: &Value| row["n"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(by.iter().map(number).sum::<u64>(), LINES, "{state}");
    let types = server.query("* | stats by (_type) count() n", "");
    assert_eq!(types.iter().map(number).sum::<u64>(), LINES, "{state}");
    assert_eq!(types.len(), 3, "{state}: {types:?}");
    let levels = server.query("* | stats by (_level, hostname) count() n", "");
    assert_eq!(levels.iter().map(number).sum::<u64>(), LINES, "{state}");

    let hits = get("hits?query=*&step=1d&field=_level").json();
    assert_eq!(sum(&hits["hits"], "total"), LINES, "{state}");
    let names = get("field_names?query=*").text();
    assert!(!names.contains("summary_of") && !names.contains("bucket_s"), "{state}: {names}");
    let values = get("field_values?query=*&field=_type").json();
    assert_eq!(sum(&values["values"], "hits"), LINES, "{state}");
    let streams = get("streams?query=*").json();
    assert_eq!(sum(&streams["values"], "hits"), LINES, "{state}");
    for path in ["facets?query=*", "streams?query=*", "field_values?query=*&field=_type"] {
        let text = get(path).text();
        assert!(!text.contains("summary"), "{state}: {path}: {text}");
    }
    let loki = |path: &str| {
        let answer = server.get(&format!("/loki/api/v1/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    };
    let series = loki(&format!("series?match[]={}", encoded("{_type=~\".+\"}")));
    let labels = loki("label/_type/values");
    for text in [&series, &labels, &loki("labels")] {
        assert!(!text.contains("summary"), "{state}: {text}");
    }
    let counted = loki(&format!("query?query={}", encoded("sum(count_over_time({}[1h]))")));
    assert!(counted.contains(&format!("\"{LINES}\"")), "{state}: {counted}");
    let stats: Value =
        serde_json::from_str(&loki(&format!("index/stats?query={}", encoded("{}")))).unwrap();
    assert_eq!(stats["entries"], LINES, "{state}");

    let export = server.get("/api/v1/export?format=raw");
    let exported = export.body.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(exported as u64, LINES, "{state}");
    let store = &server.status()["store"];
    assert_eq!(store["lines"], LINES, "{state}");
    assert!(store["lines_own"].as_u64() > Some(0), "{state}");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains(&format!("\nloginson_store_lines {LINES}\n")), "{state}");
    // The summary itself is complete.
    let types = server.get("/api/v1/summary/types?start=1h").json();
    assert_eq!(sum(&types["types"], "lines"), LINES, "{state}");
    let row = &server.query("_type:summary", "limit=1&include=_line_id")[0];
    let id = row["_line_id"].as_str().unwrap();
    let around = server.get(&format!("/api/v1/context?id={id}&before=5&after=5")).json();
    assert!(around["rows"].as_array().unwrap().iter().all(|row| row["_type"] == "summary"));
    let row = &server.query("failure", "limit=1&include=_line_id")[0];
    let id = row["_line_id"].as_str().unwrap();
    let around = server.get(&format!("/api/v1/context?id={id}&before=5&after=5")).json();
    assert!(around["rows"].as_array().unwrap().iter().all(|row| row["_type"] == "syslog"));
}

#[test]
fn counts_are_of_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    send(&server);
    only_what_was_sent(&server, "as it came");
    server.wait_for("what is closed is sealed", |server| {
        let store = &server.status()["store"];
        store["sealing"]["lag_segments"] == 0 && store["segments_sealed"].as_u64() > Some(0)
    });
    only_what_was_sent(&server, "sealed");
    assert_eq!(server.terminate(), Some(0));
    let checked = loginson(&["verify", "--json"]).arg(directory.path()).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    let checked: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&checked["lines"], &checked["faults"]), (&LINES.into(), &0.into()), "{text}");
    assert!(checked["lines_own"].as_u64() > Some(0), "{text}");
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
    only_what_was_sent(&server, "after a restart");
    // Deletions affect sent lines only.
    let own = server.count("_type:summary");
    let answer = server.post("/api/v1/deletions?filter=*", b"");
    assert!(answer.status < 300, "{}", answer.text());
    server.wait_for("the deletion", |server| server.count("*") == 0);
    assert!(server.count("_type:summary") >= own);
    assert_eq!(server.terminate(), Some(0));
}

/// Names of fields that Loginson adds or computes; without `_time` and `_msg`, whose values come
/// from the line.
const NAMES: [&str; 32] = [
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
    "user",
    "path",
    "status",
    "bytes",
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
fn sent_fields_are_found_under_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    let mut lines = String::new();
    for name in NAMES {
        for head in ["", "<13>1 2026-11-21T12:00:00Z h a 7 ID47 - ", "<13>Nov 21 12:00:00 h a[7]: "]
        {
            lines
                .push_str(&format!("{head}{{\"{name}\":\"sent-{name}\",\"n\":1,\"msg\":\"m\"}}\n"));
        }
    }
    for level in ["ERROR", "fatal", "Warn"] {
        lines.push_str(&format!("{{\"level\":\"{level}\",\"msg\":\"level\"}}\n"));
    }
    // So that the segment is closed.
    let pad: String = (0..12_000).map(|i| format!("pad {i:0100}\n")).collect();
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    assert_eq!(server.post("/insert/lines", pad.as_bytes()).status, 200);
    for state in ["as it came", "sealed", "after a restart"] {
        if state == "sealed" {
            server.wait_for("what is closed is sealed", |server| {
                let store = &server.status()["store"];
                store["sealing"]["lag_segments"] == 0 && store["segments_sealed"].as_u64() > Some(0)
            });
        }
        for name in NAMES {
            let text = format!("\"{name}\":=\"sent-{name}\"");
            assert_eq!(server.count(&text), 3, "{state}: {text}");
            let shown = server.query(&text, "");
            assert!(
                shown.iter().all(|row| row[name] == format!("sent-{name}")),
                "{state}: {shown:?}"
            );
            let picked = server.query(&format!("{text} | fields \"{name}\", n"), "");
            assert!(picked.iter().all(|row| row[name] == format!("sent-{name}")), "{picked:?}");
            let by = server.query(&format!("{text} | stats by (\"{name}\") count() c"), "");
            assert_eq!(by.len(), 1, "{state}: {name}: {by:?}");
            assert_eq!((&by[0][name], &by[0]["c"]), (&format!("sent-{name}").into(), &"3".into()));
            // Fields that are computed on request are those of the line, whatever fields it has.
            let rows = server.query(&text, "include=_line_id,_line,_received");
            for row in rows {
                assert!(row["_line"].as_str().unwrap().contains("\"n\":1"), "{row}");
                assert!(row["_line_id"].as_str().unwrap().contains('-'), "{row}");
                assert!(row["_received"].as_str().unwrap().ends_with('Z'), "{row}");
            }
        }
        for (level, common) in [("ERROR", "error"), ("fatal", "critical"), ("Warn", "warning")] {
            assert_eq!(server.count(&format!("level:={level}")), 1, "{state}");
            assert_eq!(server.count(&format!("_level:={common} level:={level}")), 1, "{state}");
        }
        if state == "sealed" {
            assert_eq!(server.terminate(), Some(0));
            server = Server::start_in(directory.path(), &[], CONFIG);
            server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
        }
    }
}
