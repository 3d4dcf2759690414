//! Copies of all lines on several stores, and a server that answers for them: a store that lost its
//! disk is not taken for a whole one, each stripe is read where it lives, and a store is filled
//! from its copy.

use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::common::{Server, loginson};
use crate::nodes::{BATCH, Collector, Sender, Store, assert_each_once, ids, send_batch};

/// Stores a1, a2, b1, b2.
struct Square {
    stores: Vec<Store>,
}

impl Square {
    fn start(dir: &Path) -> Square {
        let stores = ["a1", "a2", "b1", "b2"].map(|name| Store::start(&dir.join(name)));
        Square { stores: stores.into() }
    }

    fn collector(&self, dir: &Path, arguments: &[&str]) -> Collector {
        let copy =
            |at: usize| format!("{},{}", self.stores[at].address, self.stores[at + 1].address);
        let copies = [copy(0), copy(2)];
        let all = [&["--copy", &copies[0], "--copy", &copies[1]], arguments].concat();
        Collector::start(&dir.join("spool"), &[], &all)
    }

    fn controller(&self) -> Server {
        let http: Vec<&str> = self.stores.iter().map(|store| store.server.http.as_str()).collect();
        let [a1, a2, b1, b2] = http[..] else { panic!("four stores") };
        let copies = format!("copies = [['{a1}', '{a2}'], ['{b1}', '{b2}']]");
        Server::start_with(&[], &format!("[stores]\n{copies}\n"))
    }

    fn server(&self, at: usize) -> &Server {
        &self.stores[at].server
    }
}

fn numbers(controller: &Server) -> u64 {
    controller.count("app_name:=numbers")
}

fn command(arguments: &[&str]) -> (Option<i32>, String) {
    let output = loginson(arguments).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

#[test]
fn a_store_that_came_back_empty_is_not_read_until_it_is_filled() {
    let dir = tempfile::tempdir().unwrap();
    let mut square = Square::start(dir.path());
    let mut collector = square.collector(dir.path(), &[]);
    let controller = square.controller();
    let mut sent = 0;
    // A collector counts the lines since its start.
    let mut send = |collector: &Collector, batches: u64, before: u64| {
        // Each batch is a frame or more, so both stripes get some.
        for _ in 0..batches {
            send_batch(&mut TcpStream::connect(collector.syslog).unwrap(), sent);
            sent += BATCH;
            collector.wait_delivered(sent - before);
        }
        sent
    };
    let all = send(&collector, 20, 0);
    assert_eq!(numbers(&controller), all);
    // The copy has sealed lines and others.
    assert_eq!(square.server(2).post("/api/v1/seal", b"").status, 202);
    square
        .server(2)
        .wait_for("sealed lines", |store| store.status()["store"]["sealing"]["lag_segments"] == 0);
    let all = send(&collector, 10, 0);

    // One store of each copy is away, of different stripes.
    let lost = square.server(0).get("/api/v1/nodes").json()["node"].as_str().unwrap().to_owned();
    square.stores[0].server.kill();
    square.stores[3].server.kill();
    assert_eq!(numbers(&controller), all);
    square.stores[3].start_where_it_was();

    // A store loses its disk.
    collector.terminate();
    std::fs::remove_dir_all(&square.stores[0].dir).unwrap();
    std::fs::create_dir(&square.stores[0].dir).unwrap();
    square.stores[0].start_where_it_was();
    assert_eq!(numbers(&controller), all, "before it has any line");
    let collector = square.collector(dir.path(), &["--lost-store", &lost]);
    let before = all;
    let all = send(&collector, 10, before);
    assert!(square.server(0).count("app_name:=numbers") > 0, "it has lines again");
    assert_eq!(numbers(&controller), all);
    // A store that lives may not tell its frames in time on a slow machine.
    controller.wait_for("what the store lacks in the state", |controller| {
        let cluster = controller.get("/api/v1/cluster").json();
        let store = &cluster["copies"][0]["stores"][0];
        store["state"] == "incomplete"
            && cluster["copies_whole"] == 1
            && store["lacks_frames"].as_u64() > Some(0)
    });
    controller.wait_for("what the store lacks in the command", |controller| {
        let (code, text) = command(&["cluster", "status", "--server", &controller.http]);
        code == Some(0) && text.contains("lacks")
    });
    let name = square.server(0).http.clone();
    let metric = format!("loginson_stores_lacking_frames{{store=\"{name}\"}} ");
    controller.wait_for("what the store lacks in the metrics", |controller| {
        let metrics = controller.get("/metrics").text();
        metrics.contains(&metric) && !metrics.contains(&format!("{metric}0\n"))
    });

    // Nobody else has its lines: the answer says so.
    square.stores[2].server.kill();
    let count = "/select/logsql/query?query=app_name:=numbers|stats+count()n";
    controller.wait_for("a refusal that says so", |controller| {
        let refused = controller.get(count);
        assert_eq!(refused.status, 503, "{}", refused.text());
        refused.text().contains(&format!("store {name} lacks"))
    });
    controller.wait_for("a part that says so", |controller| {
        let partial = controller.get(&format!("{count}&allow_partial_response=1"));
        assert_eq!(partial.status, 200);
        let found: u64 = partial.rows()[0]["n"].as_str().unwrap().parse().unwrap();
        assert!(found < all, "{found} of {all}");
        let lacks = partial.header("x-loginson-missing-lines").unwrap_or_default();
        found > 0
            && partial.header("x-loginson-missing-stores") == Some(name.as_str())
            && lacks.contains("lacks")
    });
    square.stores[2].start_where_it_was();

    // It is filled while lines arrive.
    let sender = Sender::start_at(&collector, all);
    sender.wait_for_more(10 * BATCH);
    let from = square.server(2).http.clone();
    let repair = ["cluster", "repair", "--from", &from, "--to", &name];
    let (code, text) = command(&repair);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("has all frames of collectors"), "{text}");
    sender.wait_for_more(10 * BATCH);
    let all = sender.end();
    collector.wait_delivered(all - before);
    let (filled, copy) = (ids(square.server(0)), ids(square.server(2)));
    assert!(filled == copy, "{} lines and {} lines", filled.len(), copy.len());
    assert_each_once(&[square.server(0), square.server(1)], all);
    let names: Vec<&str> = (0..4).map(|at| square.server(at).http.as_str()).collect();
    let (code, text) = command(&[
        "compare-copies",
        "--ids",
        "--copy",
        &format!("{},{}", names[0], names[1]),
        "--copy",
        &format!("{},{}", names[2], names[3]),
    ]);
    assert_eq!(code, Some(0), "{text}");
    // Nothing is left to do.
    let (code, text) = command(&repair);
    assert!(code == Some(0) && text.contains("0 frames with 0 lines"), "{text}");
    square.stores[2].server.kill();
    assert_eq!(numbers(&controller), all);
    controller.wait_for("one whole copy", |controller| {
        let copies: Value = controller.get("/api/v1/cluster").json()["copies"].clone();
        copies[0]["whole"] == true && copies[1]["whole"] == false
    });
}

#[test]
fn a_store_that_takes_no_frames_is_not_filled() {
    let dir = tempfile::tempdir().unwrap();
    let [from, second] = ["from", "second"].map(|name| Store::start(&dir.path().join(name)));
    let copies = ["--copy", &from.address, "--copy", &second.address];
    let collector = Collector::start(&dir.path().join("spool"), &[], &copies);
    send_batch(&mut TcpStream::connect(collector.syslog).unwrap(), 0);
    collector.wait_delivered(BATCH);
    let to = Server::start();
    let (code, text) =
        command(&["cluster", "repair", "--from", &from.server.http, "--to", &to.http]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--node-listen"), "{text}");
    let (code, text) =
        command(&["cluster", "repair", "--from", &to.http, "--to", &second.server.http]);
    assert!(code == Some(1) && text.contains("no lines of collectors"), "{text}");
}
