//! Queries of a cluster on real engines in two stages: nodes ask others in the place of the node
//! that answers. One of them is of the version before, one dies.

use serde_json::Value;

use crate::common::Server;
use crate::engines::Engines;
use crate::shop::{compare, send};

/// The last plan of a query that was run.
fn plan(node: &Server, filter: &str) -> (Value, Vec<Value>) {
    let query = format!("took:*{filter}|stats+count()n");
    let answer = node.get(&format!("/select/logsql/explain?format=json&analyze=1&query={query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let explained = answer.json();
    let plan = explained["plans"].as_array().and_then(|plans| plans.last()).expect("a plan");
    let shares = plan["shares"].as_array().unwrap().clone();
    (explained, shares)
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn two_stages_answer_as_one_store_does() {
    let Some(engines) = Engines::start("relays") else { return };
    let all = Server::start();
    let dirs = [(); 5].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, variables: &[(&str, &str)]| {
        let roles = if index < 3 { "'collector', 'store', 'query'" } else { "'query'" };
        let config = engines.config(roles);
        let config = config.replacen("[cluster]\n", "[cluster]\ndirect_nodes_max = 2\n", 1);
        Server::start_with_variables(dirs[index].path(), &config, variables)
    };
    let first = start(0, &[]);
    let second = start(1, &[]);
    let mut third = start(2, &[]);
    let fourth = start(3, &[]);
    let old = start(4, &[("LOGINSON_TEST_SHARES", "2-2")]);
    for node in [&first, &second, &third, &fourth, &old] {
        node.wait_for("all nodes", |node| {
            let state = node.get("/api/v1/cluster").json();
            state["nodes"].as_array().is_some_and(|nodes| nodes.len() == 5)
                && state["partitions_unowned"] == 0
        });
    }
    send(&[&first, &second, &third], Some(&all), 0..300);
    compare(&all, &fourth);
    // Until there are segments for more nodes than one asks directly.
    let (mut sent, mut runs) = (300, 0);
    fourth.wait_for("shares that others ask for", |node| {
        send(&[&first, &second, &third], Some(&all), sent..sent + 50);
        sent += 50;
        // Another query each time, since the parts of an answer are kept.
        runs += 1;
        let (explained, shares) = plan(node, &format!("+!order:none{runs}"));
        let is_complete =
            |share: &Value| share["run"]["complete"] == true && share["run"]["error"].is_null();
        let relayed = shares.iter().filter(|share| share["relay"].is_string()).count();
        let lines = shares.iter().filter_map(|share| share["run"]["lines_scanned"].as_u64());
        let lines: u64 = lines.sum();
        assert!(lines == 0 || explained["run"]["rows"] == 1, "{explained}");
        shares.len() > 3 && relayed > 1 && shares.iter().all(is_complete) && lines >= sent as u64
    });
    // The node of the version before asks all nodes itself, and does its shares for each.
    for node in [&fourth, &first, &old] {
        compare(&all, node);
    }
    let (_, shares) = plan(&old, "+!order:old");
    assert!(shares.iter().all(|share| share["relay"].is_null()), "{shares:?}");
    let name = |node: &Value| node["name"].as_str().unwrap().to_owned();
    let state = fourth.get("/api/v1/cluster").json();
    let nodes = state["nodes"].as_array().unwrap();
    let of_old = nodes.iter().find(|node| node["address"].as_str().unwrap().ends_with(&old.http));
    let of_old = name(of_old.expect("it is one of the nodes"));
    let (_, shares) = plan(&fourth, "+!order:new");
    assert!(shares.iter().all(|share| share["relay"] != *of_old), "{shares:?}");

    // A relay dies: its group is asked by others, and its newest lines are waited for.
    third.kill();
    compare(&all, &fourth);
    send(&[&first, &second], Some(&all), sent..sent + 300);
    compare(&all, &first);
    compare(&all, &old);
}
