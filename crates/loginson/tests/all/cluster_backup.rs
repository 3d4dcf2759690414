//! A backup of a cluster on real engines, restored into an empty bucket and an empty database: the
//! cluster of that moment, which reads on in Kafka.

use serde_json::Value;

use crate::cluster_state::{told, wait_for_owners, wait_until_published};
use crate::common::{Server, loginson};
use crate::engines::Engines;
use crate::shop::{compare, send};

/// Sends a backup; returns its bytes, and how many of them were sent.
fn send_backup(node: &Server, name: &str) -> (u64, u64) {
    let server = format!("http://{}", node.http);
    let sent = loginson(&["backup", "send", name, "--server", &server]).output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let state: Value = node.get("/api/v1/backups").json();
    let last = &state["destination"]["last"];
    assert_eq!(last["name"], name, "{state}");
    (last["bytes"].as_u64().unwrap(), last["bytes_sent"].as_u64().unwrap())
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_restored_cluster_has_the_lines_of_the_backup_and_reads_on_in_kafka() {
    let Some(engines) = Engines::start("clusterbackup") else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let place = dirs[2].path().display().to_string();
    let backup = format!("[backup]\nto = '{place}'\n");
    let roles = "'collector', 'store', 'query'";
    let node = Server::start_in(dirs[0].path(), &[], &(engines.config(roles) + &backup));
    node.wait_for("the programs", |node| node.get("/api/v1/sinks").status == 200);
    let board = br#"{"title":"Shop","version":0,"panels":[]}"#;
    assert_eq!(node.request("PUT", "/api/v1/dashboards/shop", &[], board).status, 200);
    send(&[&node], Some(&all), 0..900);
    wait_until_published(&node);
    for server in [&node, &all] {
        let begun = server.post("/api/v1/deletions?filter=order:=78", b"").json();
        let path = format!("/api/v1/deletions/{}", begun["id"].as_str().unwrap());
        server.wait_for("the deletion", |server| server.get(&path).json()["state"] == "done");
    }
    // One on the disk of a node would have no lines.
    assert_eq!(node.post("/api/v1/backups", b"").status, 501);
    let (bytes, sent) = send_backup(&node, "one");
    assert!(bytes > 0 && sent > 0 && sent <= bytes, "{bytes} {sent}");

    // The next one sends what is new. What comes behind it is in Kafka alone.
    send(&[&node], Some(&all), 900..1_000);
    wait_until_published(&node);
    let (more, sent_again) = send_backup(&node, "two");
    assert!(sent_again < more, "{sent_again} of {more}");
    send(&[&node], Some(&all), 1_000..1_200);
    compare(&all, &node);
    drop(node);
    let checked = loginson(&["backup", "verify", &place]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    engines.make_empty("restored");
    let config = engines.config_of(roles, "restored", "restored") + &backup;
    let file = dirs[1].path().join("node.toml");
    std::fs::write(&file, &config).unwrap();
    let restore = |arguments: &[&str]| {
        let mut command = loginson(&["restore", &place]);
        command.args(arguments).output().unwrap()
    };
    let refused = restore(&[]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("give --config"), "{why}");
    let restored = restore(&["--config", file.to_str().unwrap()]);
    let why = String::from_utf8_lossy(&restored.stderr).into_owned();
    assert!(restored.status.success(), "{why}");
    let again = restore(&["--config", file.to_str().unwrap()]);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && why.contains("not new"), "{why}");

    let data = dirs[1].path().join("data");
    std::fs::create_dir(&data).unwrap();
    let node = Server::start_in(&data, &[], &config);
    wait_for_owners(&node);
    compare(&all, &node);
    assert_eq!(node.count("order:=78"), 0);
    node.wait_for("the programs", |node| node.get("/api/v1/sinks").status == 200);
    assert_eq!(told(&node, "/api/v1/dashboards")["dashboards"][0]["title"], "Shop");
    // It is the same cluster: its backups go on in the same place.
    send(&[&node], Some(&all), 1_200..1_300);
    compare(&all, &node);
    send_backup(&node, "three");
}
