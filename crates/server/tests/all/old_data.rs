//! A data directory with sealed segments of the previous format version is served like a current
//! one.
//!
//! That version made the fixture: 9,000 lines of five kinds, most of them sealed and the rest hot,
//! 50 later lines, and 121 rows of the summary in both.

use std::process::Command;

use crate::common::{Server, encoded};
use serde_json::Value;

const FIXTURE: &str = "tests/fixtures/data_of_sealed_version_3.tar.gz";
const LINES: u64 = 9_050;
const OWN: u64 = 121;

fn counts(server: &Server, query: &str) -> Vec<(String, u64)> {
    let rows = server.query(query, "");
    let count = |row: &Value| {
        let mut fields = row.as_object().unwrap().clone();
        let n = fields.remove("n").unwrap().as_str().unwrap().parse().unwrap();
        let values: Vec<&str> = fields.values().filter_map(Value::as_str).collect();
        (values.join(" "), n)
    };
    let mut counts: Vec<(String, u64)> = rows.iter().map(count).collect();
    counts.sort();
    counts
}

fn check(server: &Server, state: &str) {
    let expect = |query: &str, expected: &[(&str, u64)]| {
        let expected: Vec<(String, u64)> =
            expected.iter().map(|(value, n)| ((*value).to_owned(), *n)).collect();
        assert_eq!(counts(server, &format!("{query} count() n")), expected, "{state}: {query}");
    };
    expect("* |", &[("", LINES)]);
    expect("_time:[2020, 2030] |", &[("", LINES)]);
    expect("_type:summary |", &[("", OWN)]);
    let types = [("access", 1_800), ("json", 3_600), ("plain", 1_800), ("syslog", 1_850)];
    expect("* | by (_type)", &types);
    let levels = [("critical", 1_800), ("error", 3_050), ("info", 1_200), ("warning", 3_000)];
    expect("* | by (_level)", &levels);
    expect("* | by (type)", &[("", 7_250), ("t0", 900), ("t1", 900)]);
    expect("_level:error |", &[("", 3_050)]);
    for query in ["_id:*", "remote_ip:=r", "file:=main.go"] {
        expect(&format!("{query} |"), &[("", 1_800)]);
    }
    expect("_remote_ip:=127.0.0.1 |", &[("", LINES)]);
    expect("* | by (_time:1h)", &[("2026-01-31T12:00:00Z", 9_000), ("2026-01-31T13:00:00Z", 50)]);
    let by_two = counts(server, "* | by (app_name, _level) count() n");
    assert_eq!(by_two.iter().map(|(_, n)| n).sum::<u64>(), LINES, "{state}");
    for row in server.query("json", "limit=2000") {
        let known = ["info", "warning", "error"].contains(&row["_level"].as_str().unwrap());
        assert!(known && row["_type"] == "json" && row["file"] == "main.go", "{state}: {row}");
    }
    let store = &server.status()["store"];
    assert_eq!((&store["lines"], &store["lines_own"]), (&LINES.into(), &OWN.into()), "{state}");
}

#[test]
fn old_data_is_served_under_current_names() {
    let directory = tempfile::tempdir().unwrap();
    let unpacked =
        Command::new("tar").args(["-xzf", FIXTURE, "-C"]).arg(directory.path()).status().unwrap();
    assert!(unpacked.success());
    // No summary is flushed meanwhile: all lines are counted in stored rows.
    let mut server = Server::start_in(directory.path(), &[], "");
    server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
    check(&server, "as it was found");
    // A deletion rewrites the segments that contain such lines.
    let answer = server.post("/api/v1/deletions?filter=host3", b"");
    assert!(answer.status < 300, "{}", answer.text());
    let begun = server.count("hostname:=host3");
    assert_eq!(begun, 769, "the word stands in no message");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    server.wait_for("the deletion", |server| {
        server.get(&format!("/api/v1/deletions/{id}")).json()["state"] == "done"
    });
    check(&server, "after a search of all segments");
    assert_eq!(server.terminate(), Some(0));
    let mut server = Server::start_in(directory.path(), &[], "");
    server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
    check(&server, "after a restart");
    let answer = server.post(&format!("/api/v1/deletions?filter={}", encoded("_type:=plain")), b"");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    server.wait_for("the deletion", |server| {
        server.get(&format!("/api/v1/deletions/{id}")).json()["state"] == "done"
    });
    assert_eq!(server.count("*"), LINES - 1_800);
    let rest = [("access", 1_800), ("json", 3_600), ("syslog", 1_850)];
    let rest: Vec<(String, u64)> = rest.iter().map(|(v, n)| ((*v).to_owned(), *n)).collect();
    assert_eq!(counts(&server, "* | by (_type) count() n"), rest);
    assert_eq!(server.count("_type:summary"), OWN);
    assert_eq!(server.count("_id:*"), 1_800);
    assert_eq!(server.terminate(), Some(0));
}
