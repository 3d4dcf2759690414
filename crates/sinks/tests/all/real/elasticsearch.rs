//! A real Elasticsearch and a real OpenSearch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use sinks::{Batch, Document, Runner, RunnerParts};

use super::{Real, deliver_while_killing, wait_for};
use crate::sink::{document, sink};

const DOCUMENTS: u64 = 100_000;
const BATCH_DOCUMENTS: u64 = 1_000;
/// The server is killed before these batches are submitted, and started again.
const KILLED_BEFORE_BATCHES: [u64; 2] = [40, 80];

impl Real {
    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn get(&self, path: &str) -> Value {
        let mut response = ureq::get(self.url(path)).call().unwrap();
        serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
    }

    fn put(&self, path: &str, body: &Value) {
        let put = ureq::put(self.url(path)).header("Content-Type", "application/json");
        put.send(body.to_string()).unwrap();
    }

    fn count(&self, indices: &str) -> Value {
        self.get(&format!("/{indices}/_refresh"));
        self.get(&format!("/{indices}/_count"))["count"].clone()
    }
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

#[test]
fn elasticsearch_has_every_document_once_although_it_is_killed() {
    check(&Real::new("elasticsearch", "ES_PORT", 19270));
}

#[test]
fn opensearch_has_every_document_once_although_it_is_killed() {
    check(&Real::new("opensearch", "OPENSEARCH_PORT", 19570));
}

fn check(real: &Real) {
    real.run("start");
    let config = format!(
        "name = \"real\"\nurls = [{:?}]\nretry = {{ longest = \"1s\" }}\ntimeout = \"20s\"\n\
         [elasticsearch]\nindex = \"sink-%Y.%m.%d\"\ntemplate = {{ replicas = 0 }}",
        real.url("")
    );
    let sink = sink(&config);
    let folder = tempfile::tempdir().unwrap();
    let batches = DOCUMENTS / BATCH_DOCUMENTS;
    let all = (0..batches).map(batch).collect();
    let state = deliver_while_killing(real, &sink, folder.path(), all, &KILLED_BEFORE_BATCHES);
    let bad = batches - 1;
    assert_eq!((state.accepted, state.rejected), (DOCUMENTS - bad, bad));

    // Ids are unique in an index, and the index follows from the document: the count is enough.
    assert_eq!(real.count("sink-*"), DOCUMENTS - bad);
    let indices = real.get("/sink-*/_mapping");
    assert_eq!(indices.as_object().unwrap().len(), 3);
    let properties = &indices["sink-2026.01.02"]["mappings"]["properties"];
    assert_eq!(properties["n"], json!({"type": "long"}));
    assert_eq!(properties["@timestamp"], json!({"type": "date_nanos"}));
    assert_eq!(properties["host"], json!({"type": "keyword", "ignore_above": 1024}));
    let rejected = std::fs::read_to_string(folder.path().join("real-rejected.jsonl")).unwrap();
    assert_eq!(rejected.lines().count() as u64, bad);
    assert!(rejected.contains("no number"), "{}", rejected.lines().next().unwrap());

    deletions(real, &config);
    a_full_disk_is_waited_for(real, &config);
}

/// Deletes the documents of one batch, of which one is not there, and one of an absent index.
fn deletions(real: &Real, config: &str) {
    let before = real.count("sink-*").as_u64().unwrap();
    let mut documents: Vec<Document> = batch(1)
        .documents
        .iter()
        .map(|document| Document::delete(document.id.clone(), document.time_ns))
        .collect();
    documents.push(Document::delete("id-0", 0));
    // The last change to an id counts.
    let again = batch(1).documents.remove(0);
    documents.push(again.clone());
    documents.push(Document::delete(again.id.clone(), again.time_ns));
    documents.push(again);
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch { documents, cursor: "end".to_owned() };
    let state = deliver_while_killing(real, &sink(config), folder.path(), vec![batch], &[]);
    assert_eq!((state.accepted, state.rejected), (BATCH_DOCUMENTS + 4, 0));
    assert_eq!(real.count("sink-*"), before - (BATCH_DOCUMENTS - 1) + 1);
}

/// The block that a server sets on an index when its disk is nearly full holds documents back, and
/// does not reject them.
fn a_full_disk_is_waited_for(real: &Real, config: &str) {
    let before = real.count("sink-*").as_u64().unwrap();
    let block = |value: Value| {
        real.put(
            "/sink-2026.01.02/_settings",
            &json!({ "index.blocks.read_only_allow_delete": value }),
        )
    };
    block(json!(true));
    let folder = tempfile::tempdir().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let sink = sink(config);
    let rejects = Box::new(sink.reject_store(folder.path()));
    let parts = RunnerParts::new(sink.destination().unwrap(), rejects, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let runner = Runner::start("real", parts, sink.runner).unwrap();
    let fields = [("n", json!(1))];
    let documents = (0..90)
        .map(|n| document(&format!("new-{n}"), i64::from(n % 3) * 86_400_000_000_000, &fields));
    runner.submit(Batch { documents: documents.collect(), cursor: "end".to_owned() }).unwrap();
    while runner.state().failures_in_a_row < 3 {
        std::thread::yield_now();
    }
    let state = runner.state();
    assert_eq!((state.accepted, state.rejected), (60, 0), "the other indices take theirs");
    let fault = state.last_error.unwrap().fault;
    assert!(fault.remedy.starts_with("free disk space on the server"), "{fault}");
    eprintln!("{}: {fault}", real.store);
    assert_eq!(done.load(Ordering::SeqCst), 0);
    block(Value::Null);
    wait_for(&done, 1);
    assert_eq!((runner.state().accepted, runner.state().rejected), (90, 0));
    assert_eq!(real.count("sink-*"), before + 90);
}
