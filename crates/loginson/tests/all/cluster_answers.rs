//! What each node of a cluster on real engines tells of all of them: background queries, numbers,
//! and the shares of a query; also after one of them died.

use serde_json::{Value, json};

use crate::common::{Server, loginson};
use crate::engines::Engines;
use crate::queries::Holder;
use crate::shop::{compare, send};

fn submit(node: &Server, query: &str) -> String {
    let answer = node.post(&format!("/api/v1/queries?query={}", crate::common::encoded(query)), b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// The entries of the list of queries that have an id.
fn listed(node: &Server, id: &str) -> Vec<Value> {
    let list = node.get("/api/v1/queries").json();
    let entries = list["queries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["id"] == *id).cloned().collect()
}

/// The rows of a query, page by page.
fn fetched(node: &Server, id: &str) -> Vec<u8> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = node.get(&format!("/api/v1/queries/{id}/results?limit=70&cursor={cursor}"));
        assert_eq!(page.status, 200, "{}", page.text());
        all.extend(&page.body);
        cursor = page.header("x-loginson-cursor").unwrap().to_owned();
        if page.header("x-loginson-more") == Some("false") {
            assert_eq!(page.header("x-loginson-state"), Some("done"));
            return all;
        }
    }
}

fn act(node: &Server, id: &str, action: &str) -> (u16, Value) {
    let answer = node.post(&format!("/api/v1/queries/{id}/{action}"), b"");
    (answer.status, answer.json())
}

fn delete(node: &Server, id: &str) -> Value {
    let answer = node.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn wait_for_state(node: &Server, id: &str, state: &str) {
    node.wait_for(&format!("a query that is {state}"), |node| {
        node.get(&format!("/api/v1/queries/{id}")).json()["state"] == *state
    });
}

fn all_nodes(node: &Server) -> Value {
    node.get("/api/v1/status").json()["all_nodes"].clone()
}

fn explained(node: &Server, parameters: &str) -> Value {
    let path = format!("/select/logsql/explain?format=json&query=took:*|stats+count()n{parameters}");
    let answer = node.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The shares of the last plan.
fn shares(explained: &Value) -> Vec<Value> {
    let plan = explained["plans"].as_array().and_then(|plans| plans.last()).expect("a plan");
    plan["shares"].as_array().unwrap().clone()
}

#[test]
fn each_node_tells_what_all_of_them_do_and_names_those_that_died() {
    let Some(engines) = Engines::start("answers") else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        let config = engines.config(roles) + "[query]\nbackground_concurrent_max = 1\n";
        Server::start_in(dirs[index].path(), &[], &config)
    };
    let first = start(0, "'collector', 'store', 'query'");
    let mut second = start(1, "'store', 'query'");
    let third = start(2, "'query'");
    send(&[&first, &second, &third], Some(&all), 0..900);
    compare(&all, &third);
    let name = second.get("/api/v1/cluster").json()["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["address"].as_str().is_some_and(|url| url.ends_with(&second.http)))
        .expect("it is one of the nodes")["name"]
        .as_str()
        .unwrap()
        .to_owned();

    // A background query of one node is one of all.
    let done = submit(&second, "hostname:web1 | fields order");
    for node in [&first, &third, &second] {
        node.wait_for("the query", |node| {
            let found = listed(node, &done);
            found.len() == 1 && found[0]["state"] == "done" && found[0]["node"] == *name
        });
        let list = node.get("/api/v1/queries").json();
        assert_eq!(list["out_of_reach"], json!([]), "{list}");
        let entry = node.get(&format!("/api/v1/queries/{done}")).json();
        assert_eq!((&entry["rows"], &entry["submission"]), (&json!(300), &Value::Null), "{entry}");
    }
    let rows = fetched(&second, &done);
    assert_eq!(rows.iter().filter(|byte| **byte == b'\n').count(), 300);
    for node in [&first, &third] {
        assert!(fetched(node, &done) == rows, "the same rows from each node");
    }
    let wrong = third.get(&format!("/api/v1/queries/{done}/results?cursor=x"));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert_eq!(delete(&third, &done), json!({"id": done, "state": "deleted"}));
    assert_eq!(first.get(&format!("/api/v1/queries/{done}")).status, 404);
    assert!(listed(&first, &done).is_empty());

    // One that waits is paused and resumed from other nodes.
    let holder = Holder::take(&second);
    let held = submit(&second, "hostname:web2 | stats count() n");
    assert_eq!(act(&first, &held, "pause"), (200, json!({"id": held, "state": "paused"})));
    wait_for_state(&third, &held, "paused");
    assert_eq!(act(&third, &held, "resume"), (200, json!({"id": held, "state": "waiting"})));
    assert_eq!(act(&third, &held, "resume").0, 409);
    assert_eq!(delete(&first, &holder.id)["state"], "cancelled");
    wait_for_state(&first, &held, "done");
    assert_eq!(fetched(&third, &held), b"{\"n\":\"300\"}\n");

    // The numbers of all nodes are the same at each.
    first.wait_for("segments of everything", |node| {
        let state = node.get("/api/v1/cluster").json();
        let mut partitions = state["partitions"].as_array().unwrap().iter();
        partitions.all(|partition| partition["unpublished"] == 0)
    });
    for node in [&first, &second, &third] {
        node.wait_for("the numbers of all nodes", |node| {
            let numbers = all_nodes(node);
            numbers["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
                && numbers["missing"] == json!([])
                && numbers["lines"] == all_nodes(&first)["lines"]
                && numbers["lines_unpublished"] == 0
        });
        let numbers = all_nodes(node);
        // Lines of the shop, and those of the holder.
        assert_eq!(numbers["lines_received"], 900 + 4_800, "{numbers}");
        assert!(numbers["lines"].as_u64() >= Some(900 + 4_800), "{numbers}");
        assert!(numbers["bytes_objects"].as_u64() > Some(0), "{numbers}");
        assert_eq!(numbers["oldest"], "2026-01-31T12:00:00Z", "{numbers}");
        assert!(numbers["disk"]["used_bytes"].is_u64(), "{numbers}");
    }

    // A plan names who is asked for what; a run says what they did.
    let plan = explained(&third, "");
    let planned = shares(&plan);
    assert!(planned.iter().all(|share| share["run"].is_null()) && plan["run"].is_null(), "{plan}");
    let lines = planned.iter().map(|share| share["segments_lines"].as_u64().unwrap()).sum::<u64>();
    assert!(lines >= 900, "{plan}");
    let run = explained(&third, "&analyze=1");
    assert_eq!(run["run"]["rows"], 1, "{run}");
    let ran = shares(&run);
    let lines = ran.iter().map(|share| share["run"]["lines_scanned"].as_u64().unwrap());
    assert!(lines.sum::<u64>() >= 900, "{run}");
    for share in &ran {
        let run = &share["run"];
        assert_eq!((&run["complete"], &run["error"]), (&json!(true), &Value::Null), "{share}");
        assert_eq!((&run["answered_by"], &run["blocks_done"]), (&share["node"], &run["blocks_planned"]));
    }
    let shown = loginson(&["query", "--explain", "--analyze", "--server", &format!("http://{}", third.http), "took:*"])
        .output()
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success() && text.contains("share     ") && text.contains("run       900 rows"), "{text}");

    // A node dies with its background queries: they are named.
    first.wait_for("the list in the catalog", |_| engines.marks("queries/").contains(&held));
    // Its newest lines are on it alone until another store has read them.
    second.kill();
    for node in [&first, &third] {
        node.wait_for("the query of the dead node", |node| {
            let found = listed(node, &held);
            found.len() == 1 && found[0]["state"] == "out_of_reach" && found[0]["node"] == *name
        });
        let list = node.get("/api/v1/queries").json();
        assert_eq!(list["out_of_reach"][0]["node"], *name, "{list}");
        for path in ["", "/results"] {
            let answer = node.get(&format!("/api/v1/queries/{held}{path}"));
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.text().contains(&name), "{}", answer.text());
        }
        node.wait_for("numbers without the dead node", |node| {
            let missing = all_nodes(node)["missing"].clone();
            missing.as_array().is_some_and(|all| all.len() == 1 && all[0]["node"] == *name)
        });
        assert_eq!(all_nodes(node)["nodes"].as_array().unwrap().len(), 2);
    }
    let shown =
        loginson(&["queries", "--server", &format!("http://{}", first.http)]).output().unwrap();
    let text = [shown.stdout, shown.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(text[0].contains(&held) && text[0].contains("out_of_reach"), "{}", text[0]);
    assert!(text[1].contains(&name), "{}", text[1]);
    // The others answer all, and say who did.
    let run = explained(&third, "&analyze=1");
    assert!(shares(&run).iter().all(|share| share["node"] != *name), "{run}");
    assert_eq!(run["run"]["rows"], 1, "{run}");
    assert_eq!(third.count("took:*"), 900);

    // It comes back, and its query with it.
    let second = start(1, "'store', 'query'");
    first.wait_for("the query", |node| {
        listed(node, &held).iter().all(|entry| entry["state"] == "done")
            && node.get("/api/v1/queries").json()["out_of_reach"] == json!([])
    });
    assert_eq!(fetched(&first, &held), b"{\"n\":\"300\"}\n");
    assert_eq!(delete(&first, &held)["state"], "deleted");
    assert!(listed(&second, &held).is_empty());
    // No number is given twice.
    let next = submit(&second, "hostname:web1");
    assert!(next.parse::<u64>().unwrap() > held.parse::<u64>().unwrap(), "{next} {held}");
}
