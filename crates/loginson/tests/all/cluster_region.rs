//! A second region on engines of its own: it follows the first one, is read, and goes on in its
//! place.

use crate::cluster_state::{wait_for_owners, wait_until_published};
use crate::common::{Server, loginson};
use crate::engines::Engines;
use crate::shop::{compare, send};

const ALL: &str = "'collector', 'store', 'query'";

/// Runs `loginson cluster`; whether it succeeded, and what it printed.
fn cluster(arguments: &[&str]) -> (bool, String) {
    let done = loginson(&[&["cluster"], arguments].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    (done.status.success(), text.into_owned())
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_region_follows_another_one_and_goes_on_in_its_place() {
    let Some(there) = Engines::start("regionthere") else { return };
    let Some(here) = Engines::start("regionhere") else { return };
    let all = Server::start();
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let first = Server::start_in(dirs[0].path(), &[], &there.config(ALL));
    send(&[&first], Some(&all), 0..900);
    wait_until_published(&first);

    let follows = there.followed();
    let reading = here.config("'query'") + &follows;
    let file = dirs[3].path().join("here.toml");
    std::fs::write(&file, &reading).unwrap();
    let file = file.to_str().unwrap();
    let (done, text) = cluster(&["follow", "--once", "--config", file]);
    assert!(done && text.contains(" copied, 0 deleted"), "{text}");
    let second = Server::start_in(dirs[1].path(), &[], &reading);
    compare(&all, &second);

    // What is published, deleted and merged there comes with the next round.
    send(&[&first], Some(&all), 900..1_000);
    wait_until_published(&first);
    for server in [&first, &all] {
        let begun = server.post("/api/v1/deletions?filter=order:=78", b"").json();
        let path = format!("/api/v1/deletions/{}", begun["id"].as_str().unwrap());
        server.wait_for("the deletion", |server| server.get(&path).json()["state"] == "done");
    }
    assert_ne!(second.count("*"), first.count("*"));
    let (done, text) = cluster(&["follow", "--once", "--config", file]);
    assert!(done, "{text}");
    compare(&all, &second);
    let refused = second.post("/api/v1/deletions?filter=order:=79", b"");
    assert!(refused.status >= 400 && refused.text().contains("follows another one"));
    let state = crate::cluster_state::state(&second);
    assert!(state["follows"]["lag_s"].as_f64().is_some(), "{state}");
    let metrics = second.get("/metrics").text();
    assert!(metrics.contains("loginson_cluster_follow_lag_seconds"), "{metrics}");
    let server = format!("http://{}", second.http);
    second.wait_for("the followed cluster in the command", |_| {
        let (done, text) = cluster(&["status", "--server", &server]);
        done && text.contains("follows the cluster")
    });

    // The first region has to end before: it still writes. On a slow machine its leases may have
    // ended for a moment.
    wait_for_owners(&first);
    let (done, text) = cluster(&["promote", "--config", file]);
    assert!(!done && text.contains("still writes"), "{text}");
    send(&[&first], Some(&all), 1_000..1_100);
    wait_until_published(&first);
    drop(first);
    // Its leases end by themselves.
    loop {
        let (done, text) = cluster(&["promote", "--config", file]);
        if done {
            assert!(text.contains("has everything"), "{text}");
            break;
        }
        assert!(text.contains("still writes"), "{text}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let (done, text) = cluster(&["promote", "--config", file]);
    assert!(!done && text.contains("nothing to promote"), "{text}");
    // The node that reads has what the last copy brought, and needs no restart.
    second.wait_for("the end of following", |second| {
        crate::cluster_state::state(second)["follows"].is_null()
    });
    let store = Server::start_in(dirs[2].path(), &[], &here.config(ALL));
    wait_for_owners(&store);
    compare(&all, &store);
    compare(&all, &second);
    // Its Kafka begins at 0, and goes on behind what the other one had.
    send(&[&store], Some(&all), 1_100..1_300);
    compare(&all, &store);
    wait_until_published(&store);
    compare(&all, &store);
    compare(&all, &second);
    assert_eq!(store.count("order:=78"), 0);
    // No node starts in the region that was left.
    let config = dirs[0].path().join("there.toml");
    std::fs::write(&config, there.config(ALL)).unwrap();
    let data = dirs[0].path().join("again");
    let serve = ["serve", "--config", config.to_str().unwrap(), "--data-dir"];
    let ended = loginson(&[&serve[..], &[data.to_str().unwrap()]].concat()).output().unwrap();
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && why.contains("another region was promoted"), "{why}");
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn an_object_that_was_missing_is_copied_once_it_is_there_and_named_until_then() {
    let Some(there) = Engines::start("regionloses") else { return };
    let Some(here) = Engines::start("regionmisses") else { return };
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = Server::start_in(dirs[0].path(), &[], &there.config(ALL));
    send(&[&first], None, 0..300);
    wait_until_published(&first);
    // From now on nothing is merged.
    drop(first);
    let file = dirs[1].path().join("here.toml");
    std::fs::write(&file, here.config("'query'") + &there.followed()).unwrap();
    let file = file.to_str().unwrap();
    let follow = || {
        let (done, text) = cluster(&["follow", "--once", "--config", file]);
        assert!(done, "{text}");
        text
    };
    let name = there.segments().remove(0);
    let kept = there.data.join("kept");
    std::fs::rename(there.object(&name), &kept).unwrap();
    for _ in 0..2 {
        let text = follow();
        assert!(text.contains("1 are missing in both regions"), "{text}");
    }
    assert!(!here.object(&name).exists());
    std::fs::rename(&kept, there.object(&name)).unwrap();
    let text = follow();
    assert!(text.contains(": 1 segments with") && !text.contains("missing"), "{text}");
    assert!(here.object(&name).exists());

    // A promotion looks what is there, and names what is not.
    let lost = there.segments().pop().unwrap();
    for region in [&there, &here] {
        std::fs::remove_file(region.object(&lost)).unwrap();
    }
    // The leases of the first region end by themselves.
    let text = loop {
        let (done, text) = cluster(&["promote", "--config", file]);
        if done {
            break text;
        }
        assert!(text.contains("still writes"), "{text}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    assert!(text.contains(&format!("missing: {lost}")), "{text}");
    assert!(!text.contains("has everything"), "{text}");
    assert_eq!(text.matches("missing: ").count(), 1, "{text}");
}
