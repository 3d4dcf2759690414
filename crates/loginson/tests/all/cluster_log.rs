//! A cluster whose Kafka lost everything: it says so, answers what it has in segments, and goes on
//! with a new topic on request.

use crate::cluster_state::wait_until_published;
use crate::common::{PATIENCE, Server, loginson};
use crate::engines::Engines;
use crate::shop::{compare, send};

const COUNT: &str = "/select/logsql/query?query=took:*|stats+count()n";

/// Runs `loginson cluster replace-log`; whether it succeeded, and what it printed.
fn replace_log(file: &str) -> (bool, String) {
    let done = loginson(&["cluster", "replace-log", "--config", file]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    (done.status.success(), text.into_owned())
}

#[test]
fn a_topic_that_was_made_anew_is_told_and_gone_on_with() {
    let Some(engines) = Engines::start("log") else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        Server::start_in(dirs[index].path(), &[], &engines.config(roles))
    };
    let file = dirs[2].path().join("node.toml");
    std::fs::write(&file, engines.config("'store'")).unwrap();
    let file = file.to_str().unwrap();
    let mut first = start(0, "'collector', 'store'");
    let mut second = start(1, "'query'");
    send(&[&first], Some(&all), 0..600);
    wait_until_published(&second);
    compare(&all, &second);
    let (done, text) = replace_log(file);
    assert!(!done && text.contains("there is nothing to replace"), "{text}");

    // The topic is made anew by the node that starts, and has more than the earlier one had.
    first.kill();
    engines.empty("kafka");
    let mut first = start(0, "'collector', 'store'");
    send(&[&first], Some(&all), 600..4_000);
    for node in [&first, &second] {
        node.wait_for("the other topic", |node| {
            let state = node.get("/api/v1/cluster").json();
            state["errors"].to_string().contains("loginson cluster replace-log")
        });
    }
    // What is in segments is answered where that may be; nothing is answered as if it were whole.
    second.wait_for("an answer from segments", |node| {
        let answer = node.get(&format!("{COUNT}&allow_partial_response=1"));
        answer.status == 200
            && answer.json()["n"] == "600"
            && answer.header("x-loginson-notices").unwrap().contains("made anew")
    });
    let whole = second.get(COUNT);
    assert!(whole.status >= 400 && whole.text().contains("replace-log"), "{}", whole.text());

    // Nodes that read by the offsets of the earlier topic have to end before.
    let (done, text) = replace_log(file);
    assert!(!done && text.contains("these nodes run"), "{text}");
    assert_eq!(first.terminate(), Some(0));
    assert_eq!(second.terminate(), Some(0));
    let begun = std::time::Instant::now();
    loop {
        let (done, text) = replace_log(file);
        if done {
            assert!(text.contains("3 partitions"), "{text}");
            break;
        }
        assert!(text.contains("these nodes run") && begun.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let (done, text) = replace_log(file);
    assert!(!done && text.contains("there is nothing to replace"), "{text}");

    // What was acknowledged while the topic was another one is there, and so is what comes.
    let first = start(0, "'collector', 'store'");
    let second = start(1, "'query'");
    second.wait_for("what the new topic has", |node| node.count("took:*") == 4_000);
    send(&[&first], Some(&all), 4_000..4_100);
    second.wait_for("all lines", |node| node.count("took:*") == 4_100);
    compare(&all, &second);
}
