//! What tests of this crate share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::alert::Change;
use crate::engine::{Engine, Output, Recorded, Row};
use crate::labels::Labels;

/// An engine that answers what a test says.
#[derive(Default)]
pub struct FakeEngine {
    answers: Mutex<BTreeMap<String, Result<Vec<Row>, String>>>,
    /// The times of all evaluations.
    pub times: Mutex<Vec<i64>>,
}

impl FakeEngine {
    /// What an expression returns from now on.
    pub fn answer(&self, expr: &str, answer: Result<Vec<Row>, String>) {
        self.answers.lock().unwrap().insert(expr.to_owned(), answer);
    }
}

impl Engine for FakeEngine {
    fn check(&self, expr: &str) -> Result<(), String> {
        if expr == "bad" { Err("no stats".to_owned()) } else { Ok(()) }
    }

    fn rows(&self, expr: &str, time_ns: i64, _: Duration, _: usize) -> Result<Vec<Row>, String> {
        self.times.lock().unwrap().push(time_ns);
        self.answers.lock().unwrap().get(expr).cloned().unwrap_or(Ok(Vec::new()))
    }

    fn line(&self, _: &str, _: i64, _: Duration, labels: &Labels) -> Option<String> {
        labels.get("h").map(|host| format!("a line of {host}"))
    }
}

/// A row with labels.
pub fn row(labels: &[(&str, &str)], value: f64) -> Row {
    let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Row { labels: labels.collect(), value }
}

/// Keeps all that evaluation gives.
#[derive(Default)]
pub struct FakeOutput {
    pub changes: Mutex<Vec<Change>>,
    pub recorded: Mutex<Vec<Recorded>>,
    pub kept: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Whether nothing can be kept.
    pub is_full: AtomicBool,
}

impl Output for FakeOutput {
    fn changes(&self, changes: &[Change]) {
        self.changes.lock().unwrap().extend_from_slice(changes);
    }

    fn recorded(&self, rows: &[Recorded]) {
        self.recorded.lock().unwrap().extend_from_slice(rows);
    }

    fn keep(&self, group_id: &str, state: Option<&[u8]>) -> bool {
        if self.is_full.load(Ordering::SeqCst) {
            return false;
        }
        let mut kept = self.kept.lock().unwrap();
        match state {
            Some(state) => kept.insert(group_id.to_owned(), state.to_vec()),
            None => kept.remove(group_id),
        };
        true
    }
}
