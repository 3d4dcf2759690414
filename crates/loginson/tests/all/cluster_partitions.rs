//! The topic of a cluster on real engines gets more partitions while the cluster runs: stores take
//! them, queries read them, and collectors that are restarted append to them.

use std::collections::BTreeSet;

use crate::cluster_state::{state, wait_for_partitions};
use crate::common::Server;
use crate::engines::Engines;
use crate::shop::{compare, send};

/// The numbers of the partitions that have an owner.
fn owned(node: &Server) -> BTreeSet<u64> {
    let rows = state(node)["partitions"].as_array().cloned().unwrap_or_default();
    let rows = rows.iter().filter(|row| !row["owner"].is_null());
    rows.filter_map(|row| row["partition"].as_u64()).collect()
}

/// The partitions whose log has messages.
fn used(node: &Server) -> BTreeSet<u64> {
    let state = wait_for_partitions(node, "the ends of all partitions", |partitions| {
        partitions.iter().all(|row| row["end"].is_u64())
    });
    let rows = state["partitions"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["end"].as_u64() > Some(0));
    rows.filter_map(|row| row["partition"].as_u64()).collect()
}

#[test]
fn partitions_are_added_while_a_cluster_runs() {
    let Some(engines) = Engines::start("partitions") else { return };
    let all = Server::start();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, partitions: u32| {
        let config = engines.config("'collector', 'store', 'query'");
        let config = config.replace("partitions = 3", &format!("partitions = {partitions}"));
        Server::start_in(dirs[index].path(), &[], &config)
    };
    let (mut first, second) = (start(0, 3), start(1, 3));
    let wait_for_owners = |node: &Server, partitions: u64| {
        node.wait_for("owners of all partitions", |node| owned(node) == (0..partitions).collect());
    };
    wait_for_owners(&second, 3);
    send(&[&first, &second], Some(&all), 0..300);
    compare(&all, &second);

    engines.add_partitions(8);
    wait_for_owners(&first, 8);
    wait_for_owners(&second, 8);
    send(&[&first, &second], Some(&all), 300..600);
    compare(&all, &second);
    assert_eq!(used(&second), (0..3).collect(), "collectors append to those that they began with");

    // Each collector uses the new ones from its restart on; its spool goes where it was bound to.
    assert_eq!(first.terminate(), Some(0));
    let first = start(0, 8);
    send(&[&first, &second], Some(&all), 600..2_000);
    compare(&all, &first);
    compare(&all, &second);
    assert!(used(&second).iter().any(|partition| *partition >= 3), "{:?}", used(&second));
    wait_for_owners(&first, 8);
}
