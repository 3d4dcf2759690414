//! The Elasticsearch sink against a model of `_bulk` that fails in every way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use sinks::{Batch, Document};

use crate::server::{Action, Request, Server};
use crate::sink::{document, run, sink};

/// What the model does with one bulk request.
#[derive(Debug, Clone)]
enum Behaviour {
    Take,
    Status(u16, &'static str),
    /// Items are taken or pushed back, by this number.
    PushBack(u64),
    Close,
    TakeAndClose,
    TakeAndCutShort,
    TakeAndStall,
    Stall,
    OtherText,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    prop_oneof![
        4 => Just(Behaviour::Take),
        4 => any::<u64>().prop_map(Behaviour::PushBack),
        3 => prop_oneof![
            Just((429, "Retry-After: 1\r\n")), Just((413, "")), Just((500, "")), Just((503, "")),
            Just((401, "")), Just((302, "Location: /login\r\n")), Just((504, "")),
        ].prop_map(|(status, headers)| Behaviour::Status(status, headers)),
        2 => Just(Behaviour::Close),
        2 => Just(Behaviour::TakeAndClose),
        2 => Just(Behaviour::TakeAndCutShort),
        1 => Just(Behaviour::TakeAndStall),
        1 => Just(Behaviour::Stall),
        1 => Just(Behaviour::OtherText),
    ]
}

/// The index: for each id, how often it was created.
#[derive(Default)]
struct Model {
    created: BTreeMap<String, u64>,
    script: VecDeque<Behaviour>,
}

impl Model {
    /// Creates the documents of a body; `is_taken` says which of them have a place in the queue.
    fn take(&mut self, body: &str, mut is_taken: impl FnMut() -> bool) -> String {
        let lines: Vec<Value> =
            body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (mut items, mut errors) = (Vec::new(), false);
        for pair in lines.chunks(2) {
            let id = pair[0]["create"]["_id"].as_str().unwrap();
            let item = if !is_taken() {
                json!({"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}})
            } else if pair[1]["bad"] == true {
                json!({"status": 400, "error": {"type": "document_parsing_exception", "reason": "bad"}})
            } else if self.created.contains_key(id) {
                json!({"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "there"}})
            } else {
                *self.created.entry(id.to_owned()).or_default() += 1;
                json!({"status": 201})
            };
            errors |= item["status"] != 201;
            items.push(json!({ "create": item }));
        }
        json!({"errors": errors, "items": items}).to_string()
    }

    fn act(&mut self, request: &Request) -> Action {
        if !request.path.contains("/_bulk") {
            return match request.method.as_str() {
                "GET" if request.path == "/" => {
                    Action::json(200, json!({"version": {"number": "8.17.0"}}))
                }
                "GET" => Action::json(404, "{}"),
                _ => Action::json(200, "{\"acknowledged\":true}"),
            };
        }
        let all = || true;
        match self.script.pop_front().unwrap_or(Behaviour::Take) {
            Behaviour::Take => Action::json(200, self.take(&request.body, all)),
            Behaviour::Status(status, headers) => {
                Action::Answer(status, headers, "{\"error\":\"scripted\"}".to_owned())
            }
            Behaviour::PushBack(seed) => {
                let mut bits = seed;
                let answer = self.take(&request.body, || {
                    bits = bits.rotate_left(1);
                    bits & 1 == 1
                });
                Action::json(200, answer)
            }
            Behaviour::Close => Action::Close,
            Behaviour::TakeAndClose => {
                self.take(&request.body, all);
                Action::Close
            }
            Behaviour::TakeAndCutShort => Action::CutShort(self.take(&request.body, all)),
            Behaviour::TakeAndStall => {
                self.take(&request.body, all);
                Action::Stall
            }
            Behaviour::Stall => Action::Stall,
            Behaviour::OtherText => Action::Answer(200, "", "<html>Log in</html>".to_owned()),
        }
    }
}

fn batches(sizes: &[usize], bad: &[usize]) -> Vec<Batch> {
    let mut number = 0;
    let batch = |(cursor, size): (usize, &usize)| {
        let documents: Vec<Document> = (0..*size)
            .map(|_| {
                number += 1;
                let is_bad = bad.contains(&number);
                document(&format!("id-{number}"), number as i64, &[("bad", json!(is_bad))])
            })
            .collect();
        Batch { documents, cursor: format!("c{cursor}") }
    };
    sizes.iter().enumerate().map(batch).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_document_is_there_once_or_kept_as_rejected(
        script in proptest::collection::vec(behaviour(), 0..16),
        sizes in proptest::collection::vec(0_usize..30, 1..6),
        bad in proptest::collection::vec(1_usize..150, 0..5),
        body_bytes_max in 1024_usize..4096,
    ) {
        let model = Arc::new(Mutex::new(Model { script: script.into(), ..Model::default() }));
        let acting = Arc::clone(&model);
        let server = Server::start(move |request| acting.lock().unwrap().act(request));
        let sink = sink(&format!(
            "name = \"x\"\nurls = [{:?}]\ntimeout = \"300ms\"\nbody_bytes_max = \"{body_bytes_max}\"\n\
             [elasticsearch]\nindex = \"logs-%Y\"",
            server.url
        ));
        let folder = tempfile::tempdir().unwrap();
        let (state, cursors) = run(&sink, folder.path(), batches(&sizes, &bad));

        let rejected = std::fs::read_to_string(folder.path().join("x-rejected.jsonl"));
        let rejected = rejected.unwrap_or_default();
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        for line in rejected.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            prop_assert!(line["reason"].as_str().unwrap().len() > 3);
            *kept.entry(line["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let model = model.lock().unwrap();
        let documents: usize = sizes.iter().sum();
        for number in 1..=documents {
            let id = format!("id-{number}");
            let created = model.created.get(&id).copied().unwrap_or(0);
            let kept = kept.get(&id).copied().unwrap_or(0);
            if bad.contains(&number) {
                prop_assert_eq!((created, kept), (0, 1), "{}", id);
            } else {
                // A 413 for a single document rejects it, also if a lost answer had stored it.
                prop_assert!(created == 1 && kept == 0 || kept == 1, "{} {} {}", id, created, kept);
            }
        }
        let expected: Vec<String> = (0..sizes.len()).map(|n| format!("c{n}")).collect();
        prop_assert_eq!(cursors, expected);
        prop_assert_eq!((state.accepted + state.rejected) as usize, documents);
        for request in server.requests() {
            prop_assert!(request.body.len() <= body_bytes_max.max(2000), "{}", request.body.len());
        }
    }
}

#[test]
fn documents_that_cannot_be_sent_are_rejected_with_the_reason() {
    let model = Arc::new(Mutex::new(Model::default()));
    let acting = Arc::clone(&model);
    let server = Server::start(move |request| acting.lock().unwrap().act(request));
    let sink = sink(&format!(
        "name = \"x\"\nurls = [{:?}]\nbody_bytes_max = \"1KiB\"\n[elasticsearch]\nindex = \"logs\"",
        server.url
    ));
    let folder = tempfile::tempdir().unwrap();
    let documents = vec![
        document("a", 0, &[]),
        document("large", 0, &[("text", json!("x".repeat(2000)))]),
        document(&"i".repeat(513), 0, &[]),
        document("b", 0, &[]),
    ];
    let batch = Batch { documents, cursor: "end".to_owned() };
    let (state, cursors) = run(&sink, folder.path(), vec![batch]);
    assert_eq!((state.accepted, state.rejected), (2, 2));
    assert_eq!(cursors, ["end"]);
    let rejected = std::fs::read_to_string(folder.path().join("x-rejected.jsonl")).unwrap();
    assert!(rejected.contains("more than body_bytes_max (1024)"), "{rejected}");
    assert!(rejected.contains("an id has 1 to 512 bytes, not 513"), "{rejected}");
    assert_eq!(model.lock().unwrap().created.len(), 2);
}
