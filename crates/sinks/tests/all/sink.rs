//! Makes sinks from configurations, as the server does, and runs documents through them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sinks::config::{Sink, SinkConfig};
use sinks::{Batch, Clock, Destination, Document, Runner, RunnerParts, State, Stop};

/// A clock whose waits end at once.
pub struct Hasty;

impl Clock for Hasty {
    fn now_ns(&self) -> i64 {
        1_767_323_045_000_000_000
    }

    fn wait(&self, _: Duration, _: &Stop) {
        std::thread::yield_now();
    }
}

/// A checked configuration.
pub fn sink(text: &str) -> Sink {
    toml::from_str::<SinkConfig>(text).unwrap().check().unwrap()
}

/// The destination of a configuration.
pub fn destination(text: &str) -> Box<dyn Destination> {
    sink(text).destination().unwrap()
}

/// A document with an id, a time in nanoseconds behind 2026-01-02T03:04:05Z, and fields.
pub fn document(id: &str, time_ns: i64, fields: &[(&str, Value)]) -> Document {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Document::new(id, 1_767_323_045_000_000_000 + time_ns, fields.collect())
}

/// Two documents with values of every type.
pub fn samples() -> Vec<Document> {
    vec![
        document(
            "id-1",
            123_456_789,
            &[
                ("host", json!("web1")),
                ("level", json!("error")),
                ("n", json!(1)),
                ("ratio", json!(0.5)),
                ("ok", json!(true)),
                ("none", json!(null)),
                ("nested", json!({"a": [1, "x"]})),
                ("message", json!("line \"one\"\nü")),
            ],
        ),
        document(
            "id-2",
            86_400_000_000_000,
            &[("host", json!("web2")), ("n", json!(2)), ("message", json!("two"))],
        ),
    ]
}

/// Runs batches through a sink until everything is delivered; returns the state and the cursors.
pub fn run(sink: &Sink, folder: &Path, batches: Vec<Batch>) -> (State, Vec<String>) {
    let cursors = Arc::new(Mutex::new(Vec::new()));
    let acknowledged = Arc::clone(&cursors);
    let mut parts = RunnerParts::new(
        sink.destination().unwrap(),
        Box::new(sink.reject_store(folder)),
        move |cursor| acknowledged.lock().unwrap().push(cursor.to_owned()),
    );
    parts.clock = Arc::new(Hasty);
    let runner = Runner::start(&sink.name, parts, sink.runner).unwrap();
    for batch in batches {
        runner.submit(batch).unwrap();
    }
    let state = runner.finish();
    let cursors = cursors.lock().unwrap().clone();
    (state, cursors)
}
