//! A real Elasticsearch that is killed and started again while documents are delivered.
//!
//! `SINKS_TEST_STORES` names a folder with the script `elasticsearch.sh`, which has the commands
//! `start` and `stop` and obeys `STORES_HOME` and `ES_PORT`.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sinks::{Batch, Runner, RunnerParts};

use crate::sink::{document, sink};

const PORT: &str = "19270";
const DOCUMENTS: u64 = 100_000;
const BATCH_DOCUMENTS: u64 = 1_000;
/// The server is killed before these batches are submitted, and started again.
const KILLED_BEFORE_BATCHES: [u64; 2] = [40, 80];
/// Batches that wait when the server is killed.
const WAITING_BATCHES: u64 = 20;

struct Real {
    script: PathBuf,
    home: PathBuf,
}

impl Real {
    fn new() -> Real {
        let folder = std::env::var_os("SINKS_TEST_STORES");
        let folder = folder.expect("SINKS_TEST_STORES must name the folder of elasticsearch.sh");
        let script = Path::new(&folder).join("elasticsearch.sh");
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stores");
        let real = Real { script, home };
        real.run("wipe");
        real
    }

    fn run(&self, command: &str) {
        let done = Command::new(&self.script)
            .arg(command)
            .env("STORES_HOME", &self.home)
            .env("ES_PORT", PORT)
            .status();
        assert!(done.unwrap().success(), "{command}");
    }

    /// Kills the server without a warning.
    fn kill(&self) {
        let file = self.home.join("elasticsearch/run/node1.pid");
        let pid = std::fs::read_to_string(&file).unwrap();
        let pid = pid.split(' ').next().unwrap();
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        // The port closes when the last thread has ended, after the process looks dead.
        while TcpStream::connect(format!("127.0.0.1:{PORT}")).is_ok() {
            std::thread::yield_now();
        }
        std::fs::remove_file(file).unwrap();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let stop = Command::new(&self.script)
            .arg("wipe")
            .env("STORES_HOME", &self.home)
            .env("ES_PORT", PORT)
            .status();
        if !stop.is_ok_and(|status| status.success()) {
            eprintln!("elasticsearch.sh wipe failed");
        }
    }
}

fn url(path: &str) -> String {
    format!("http://127.0.0.1:{PORT}{path}")
}

fn get(path: &str) -> Value {
    let mut response = ureq::get(url(path)).call().unwrap();
    serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
}

/// A batch of documents spread over three days, the last one with a value that its mapping does
/// not take.
fn batch(number: u64) -> Batch {
    let documents = (0..BATCH_DOCUMENTS).map(|place| {
        let n = number * BATCH_DOCUMENTS + place;
        let is_bad = number > 0 && place == BATCH_DOCUMENTS - 1;
        let value = if is_bad { json!("no number") } else { json!(n) };
        let time_ns = (n % 3) as i64 * 86_400_000_000_000 + n as i64;
        let fields =
            [("n", value), ("host", json!(format!("web{}", n % 7))), ("ratio", json!(0.5))];
        document(&format!("id-{n}"), time_ns, &fields)
    });
    Batch { documents: documents.collect(), cursor: number.to_string() }
}

/// Waits until this many batches are acknowledged.
fn wait_for(done: &AtomicU64, batches: u64) {
    while done.load(Ordering::SeqCst) < batches {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn every_document_is_there_once_although_the_server_is_killed() {
    let real = Real::new();
    real.run("start");
    let sink = sink(&format!(
        "name = \"real\"\nurls = [{:?}]\nretry = {{ longest = \"1s\" }}\ntimeout = \"20s\"\n\
         [elasticsearch]\nindex = \"sink-%Y.%m.%d\"\ntemplate = {{ replicas = 0 }}",
        url("")
    ));
    let folder = tempfile::tempdir().unwrap();
    let batches = DOCUMENTS / BATCH_DOCUMENTS;
    let done = Arc::new(AtomicU64::new(0));
    let cursors = Arc::new(Mutex::new(Vec::new()));
    let (counted, acknowledged) = (Arc::clone(&done), Arc::clone(&cursors));
    let parts = RunnerParts::new(
        sink.destination().unwrap(),
        Box::new(sink.reject_store(folder.path())),
        move |cursor| {
            acknowledged.lock().unwrap().push(cursor.to_owned());
            counted.fetch_add(1, Ordering::SeqCst);
        },
    );
    let runner = Runner::start("real", parts, sink.runner).unwrap();
    for number in 0..batches {
        if KILLED_BEFORE_BATCHES.contains(&number) {
            // The batches between are under way or in the queue when the server dies.
            wait_for(&done, number - WAITING_BATCHES);
            real.kill();
            real.run("start");
        }
        runner.submit(batch(number)).unwrap();
    }
    wait_for(&done, batches);
    let state = runner.state();
    eprintln!("{state:?}");
    let bad = batches - 1;
    assert_eq!((state.accepted, state.rejected), (DOCUMENTS - bad, bad));
    assert!(state.retries > 0, "the server was killed, and no document was sent again");
    let expected: Vec<String> = (0..batches).map(|number| number.to_string()).collect();
    assert_eq!(*cursors.lock().unwrap(), expected);

    get("/sink-*/_refresh");
    // Ids are unique in an index, and the index follows from the document: the count is enough.
    assert_eq!(get("/sink-*/_count")["count"], DOCUMENTS - bad);
    let indices = get("/sink-*/_mapping");
    assert_eq!(indices.as_object().unwrap().len(), 3);
    let properties = &indices["sink-2026.01.02"]["mappings"]["properties"];
    assert_eq!(properties["n"], json!({"type": "long"}));
    assert_eq!(properties["@timestamp"], json!({"type": "date_nanos"}));
    assert_eq!(properties["host"], json!({"type": "keyword", "ignore_above": 1024}));
    let rejected = std::fs::read_to_string(folder.path().join("real-rejected.jsonl")).unwrap();
    assert_eq!(rejected.lines().count() as u64, bad);
    assert!(rejected.contains("no number"), "{}", rejected.lines().next().unwrap());
}
