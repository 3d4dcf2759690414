//! Deletions, rules of retention and lines by their ids in a cluster on real engines: every node
//! hides deleted lines at once, and segments lose them.

use serde_json::Value;

use crate::cluster_state::wait_until_published;
use crate::common::Server;
use crate::engines::Engines;
use crate::shop::{compare, line, send};

/// The entry of a deletion.
fn deletion(node: &Server, id: &str) -> Value {
    let answer = node.get(&format!("/api/v1/deletions/{id}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Lines that the summary has counted.
fn summarised(server: &Server) -> u64 {
    let path = "/api/v1/summary?type=json&start=2026-01-31T12:00:00Z&end=2026-01-31T13:00:00Z";
    let answer = server.get(&format!("{path}&step=1h"));
    answer.json()["lines"]
        .as_array()
        .map_or(0, |lines| lines.iter().filter_map(Value::as_u64).sum())
}

fn begin(node: &Server, filter: &str) -> String {
    let path = format!("/api/v1/deletions?filter={}", crate::common::encoded(filter));
    let answer = node.post(&path, b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(answer.json()["state"], "running");
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn wait_until_done(node: &Server, id: &str) {
    node.wait_for("the end of the deletion", |node| deletion(node, id)["state"] == "done");
}

#[test]
fn deleted_lines_are_hidden_at_once_and_leave_the_segments() {
    let Some(engines) = Engines::start("deletions") else { return };
    let all = Server::start();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    // Lines of the host arrive now, so they are too old a moment later.
    let rules = "[[retention.rules]]\nfilter = 'kind:=short'\nage = '1s'\n";
    let start = |index: usize, roles: &str| {
        Server::start_in(dirs[index].path(), &[], &(engines.config(roles) + rules))
    };
    let first = start(0, "'collector', 'store'");
    let second = start(1, "'store', 'query'");
    let nodes = [&first, &second];
    send(&nodes, Some(&all), 0..1_200);
    for node in nodes {
        assert_eq!(node.count("*"), 1_200);
    }
    // The summary counts lines as they come: one that is behind would not count deleted ones.
    for server in [&first, &second, &all] {
        server.wait_for("the summary", |server| summarised(server) == 1_200);
    }

    // Lines in memory, and soon in segments. Both nodes hide them with the answer.
    let filter = "hostname:web1 took:<50";
    let count = all.count(filter);
    assert!(count > 100);
    let background = second.post("/api/v1/queries?query=hostname:web1", b"").json();
    let background = background["id"].as_str().unwrap().to_owned();
    let result = format!("/api/v1/queries/{background}");
    second.wait_for("the background query", |node| node.get(&result).json()["state"] == "done");
    let id = begin(&first, filter);
    for node in nodes {
        assert_eq!((node.count(filter), node.count("*")), (0, 1_200 - count));
    }
    // Its counterpart deletes from its store alone, in the background.
    let own = begin(&all, filter);
    wait_until_done(&all, &own);
    for node in nodes {
        compare(&all, node);
    }
    // Lines that come later stay.
    let later = line(0).replace("\"order\":\"0\"", "\"order\":\"later\"");
    for server in [&first, &all] {
        assert_eq!(server.post("/insert/jsonline", later.as_bytes()).status, 200);
    }
    assert_eq!((second.count(filter), all.count(filter)), (1, 1));
    wait_until_done(&second, &id);
    for node in nodes {
        compare(&all, node);
    }
    // What was kept of queries before is gone, at the other node too.
    second.wait_for("the end of kept results", |node| node.get(&result).status == 404);

    // Lines in segments: they are rewritten.
    wait_until_published(&second);
    let gone = all.count("level:error");
    let other = begin(&second, "level:error");
    assert_eq!(first.count("level:error"), 0);
    let own = begin(&all, "level:error");
    wait_until_done(&all, &own);
    compare_but_errors(&all, &second);
    wait_until_done(&first, &other);
    let entry = deletion(&first, &other);
    assert_eq!(entry["lines_deleted"], gone, "{entry}");
    compare_but_errors(&all, &second);
    compare_but_errors(&all, &first);

    // A cancelled one shows what is left again.
    let cancelled = begin(&first, "order:=later");
    let answer = second.request("DELETE", &format!("/api/v1/deletions/{cancelled}"), &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let listed = first.get("/api/v1/deletions").json();
    let states: Vec<&str> = listed["deletions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|deletion| deletion["state"].as_str().unwrap())
        .collect();
    assert!(states.starts_with(&["done", "done"]) && states.len() == 3, "{listed}");
    for (path, status) in [("?filter=(", 400), ("?filter=a|limit+1", 400), ("?filter=", 400)] {
        assert_eq!(first.post(&format!("/api/v1/deletions{path}"), b"").status, status, "{path}");
    }
    assert_eq!(first.get("/api/v1/deletions/77").status, 404);

    // Lines by their ids, wherever they are.
    let rows = second.query("hostname:web2 took:>95", "include=_line_id&limit=20");
    assert!(rows.len() > 5);
    for row in rows {
        let path =
            format!("/api/v1/context?before=0&after=0&id={}", row["_line_id"].as_str().unwrap());
        for node in nodes {
            let found = node.whole(&path);
            assert_eq!(found.json()["rows"][0]["order"], row["order"], "{}", found.text());
        }
    }

    // A rule of retention drops lines of segments.
    for batch in 0..6 {
        let body: String = (0..100)
            .map(|number| format!("{{\"kind\":\"short\",\"_msg\":\"short {batch} {number}\"}}\n"))
            .collect();
        assert_eq!(nodes[batch % 2].post("/insert/jsonline", body.as_bytes()).status, 200);
    }
    let before = first.count("* -kind:=short");
    first.wait_for("the rule", |node| node.count("kind:=short") == 0);
    assert_eq!(second.count("*"), before);
    assert_eq!(deletion(&first, &other)["lines_deleted"], gone);
}

fn compare_but_errors(all: &Server, node: &Server) {
    for query in [
        "* | stats by (hostname, level) count() n, sum(took) s",
        "hostname:db1 | sort by (_time, order) limit 7",
    ] {
        let expected = crate::shop::rows(all, query, "", false);
        assert_eq!(crate::shop::rows(node, query, "", false), expected, "{query}");
    }
    assert_eq!(node.count("level:error"), 0);
}
