//! Waits for what a cluster on real engines tells of its partitions.

use serde_json::Value;

use crate::common::Server;

/// What a node tells of the cluster. While an engine does not answer in time, as on a slow machine,
/// it does not know all partitions and their ends, and says so in `errors`.
pub fn state(node: &Server) -> Value {
    node.get("/api/v1/cluster").json()
}

/// The JSON of an answer for which the node asks an engine, once that answers in time.
pub fn told(node: &Server, path: &str) -> Value {
    let mut told = Value::Null;
    node.wait_for(path, |node| {
        let answer = node.get(path);
        if answer.status == 200 {
            told = answer.json();
        }
        answer.status == 200
    });
    told
}

/// Waits until all engines have answered, and the partitions are as wanted; returns that state.
pub fn wait_for_partitions(
    node: &Server,
    what: &str,
    mut are_wanted: impl FnMut(&[Value]) -> bool,
) -> Value {
    let mut last = Value::Null;
    node.wait_for(what, |node| {
        last = state(node);
        let partitions = last["partitions"].as_array().map_or(&[][..], Vec::as_slice);
        let is_known = last["errors"].as_array().is_some_and(Vec::is_empty);
        is_known && !partitions.is_empty() && are_wanted(partitions)
    });
    last
}

/// Waits until each partition has an owner.
pub fn wait_for_owners(node: &Server) {
    wait_for_partitions(node, "an owner of each partition", |partitions| {
        partitions.iter().all(|partition| !partition["owner"].is_null())
    });
}

/// Waits until each partition has an owner, and segments have all that is in the log.
pub fn wait_until_published(node: &Server) {
    wait_for_partitions(node, "segments of everything", |partitions| {
        partitions.iter().all(|one| !one["owner"].is_null() && one["unpublished"] == 0)
    });
}
