//! Documents that destinations rejected: listed, delivered again, discarded.
//!
//! They are in files of the node that delivered them (`sinks/NAME-rejected…`). A sink that runs
//! writes there, and so its files are changed under its lock alone; the files of a sink that runs
//! elsewhere are left over from when it ran here.
//!
//! A sink whose filter or query names one of the types of Loginson's own lines may have sent lines
//! of the audit log, and its rejected documents may hold them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use query::macros::Callable;
use query::{Filter, Query};
use serde_json::Value;
use sinks::config::Sink;
use sinks::{
    Document, Fault, FileRejects, RejectStore, Rejected, rejected_document, rejected_lines,
};

use super::config::{Of, SinkOptions};
use crate::process::stages::lock;

/// Documents that a list has at most; of more, the number is told.
pub const LISTED_MAX: usize = 1_000;

/// The rejected documents of all sinks of this node.
pub struct RejectedDocuments {
    sinks: BTreeMap<String, OfSink>,
}

/// The rejected documents of a sink.
struct OfSink {
    store: Arc<Mutex<FileRejects>>,
    may_hold_audit: bool,
}

/// The store of a sink that runs.
pub struct SharedRejects(pub Arc<Mutex<FileRejects>>);

impl RejectStore for SharedRejects {
    fn keep(&mut self, rejected: &[Rejected<'_>]) -> Result<(), Fault> {
        lock(&self.0).keep(rejected)
    }

    fn dropped(&self) -> u64 {
        lock(&self.0).dropped()
    }
}

/// A file of rejected documents.
pub struct RejectedFile {
    /// Its name in the folder.
    pub name: String,
    /// The documents, a line of JSON each.
    pub lines: Vec<u8>,
}

impl RejectedDocuments {
    /// Those in `folder`, which need not exist.
    pub fn new(folder: &Path, sinks: &[SinkOptions]) -> RejectedDocuments {
        let store = |sink: &Sink| Arc::new(Mutex::new(sink.reject_store(folder)));
        let sinks = sinks.iter().map(|options| {
            let store = store(&options.sink);
            let may_hold_audit = may_hold_audit(&options.of);
            (options.sink.name.clone(), OfSink { store, may_hold_audit })
        });
        RejectedDocuments { sinks: sinks.collect() }
    }

    /// Those of a sink of the configuration.
    pub fn of(&self, sink: &str) -> Option<&Arc<Mutex<FileRejects>>> {
        self.sinks.get(sink).map(|sink| &sink.store)
    }

    /// Whether those of a sink may hold lines of the audit log.
    pub fn may_hold_audit(&self, sink: &str) -> bool {
        self.sinks.get(sink).is_some_and(|sink| sink.may_hold_audit)
    }
}

/// Whether what goes to a sink may be of the audit log. Programs do not read it.
fn may_hold_audit(of: &Of) -> bool {
    let (text, callable) = match of {
        Of::Rows(_) => return false,
        Of::Lines(filter) => (filter, Callable::None),
        Of::Query { query, .. } => (query, Callable::Configured),
    };
    let Ok(query) = Query::parse_with(text, 0, callable) else { return true };
    // Where no filter names one of Loginson's own types, leaving the audit log out changes nothing.
    match query.restricted(&Filter::without_audit()) {
        Ok(without) => without != query,
        Err(_) => true,
    }
}

/// Calls `each` with the lines of a file. The error names the file.
fn read_lines(file: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    rejected_lines(file, each)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// The newest documents that were rejected, the newest first, and how many there are.
pub fn list(rejects: &Mutex<FileRejects>, limit: usize) -> io::Result<(Vec<Value>, u64)> {
    let rejects = lock(rejects);
    let (mut newest, mut total) = (VecDeque::new(), 0);
    for file in rejects.files()? {
        read_lines(&file, &mut |line| {
            total += 1;
            newest.push_front(line.to_vec());
            newest.truncate(limit);
        })?;
    }
    drop(rejects);
    // What is no JSON is shown as it is.
    let shown = |line: Vec<u8>| {
        serde_json::from_slice(&line)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&line).into_owned()))
    };
    Ok((newest.into_iter().map(shown).collect(), total))
}

/// Removes all documents; returns how many there were.
pub fn discard(rejects: &Mutex<FileRejects>, now_ns: i64) -> io::Result<u64> {
    let mut rejects = lock(rejects);
    let mut removed = 0;
    for file in rejects.frozen(now_ns)? {
        read_lines(&file, &mut |_| removed += 1)?;
        rejects.remove(&file)?;
    }
    Ok(removed)
}

/// The oldest file with documents, for the node that delivers them again.
pub fn oldest(rejects: &Mutex<FileRejects>, now_ns: i64) -> io::Result<Option<RejectedFile>> {
    let mut rejects = lock(rejects);
    let Some(file) = rejects.frozen(now_ns)?.into_iter().next() else { return Ok(None) };
    let mut lines = Vec::new();
    read_lines(&file, &mut |line| {
        lines.extend_from_slice(line);
        lines.push(b'\n');
    })?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(RejectedFile { name, lines }))
}

/// Removes the file of that name, whose documents another node has; false if there is none.
pub fn remove(rejects: &Mutex<FileRejects>, name: &str, now_ns: i64) -> io::Result<bool> {
    let mut rejects = lock(rejects);
    let files = rejects.frozen(now_ns)?;
    let is_it = |file: &&PathBuf| file.file_name().is_some_and(|found| found == name);
    match files.iter().find(is_it) {
        Some(file) => rejects.remove(file).map(|()| true),
        None => Ok(false),
    }
}

/// The documents of a file.
///
/// Errors: it cannot be read, or has something else; the text says what to do.
pub fn documents(file: &Path) -> Result<Vec<Document>, String> {
    let (mut documents, mut is_wrong) = (Vec::new(), false);
    let read = rejected_lines(file, &mut |line| match rejected_document(line) {
        Some(document) => documents.push(document),
        None => is_wrong = true,
    });
    read.map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    match is_wrong {
        true => Err(format!(
            "{} has lines that are no rejected documents; correct or remove them",
            file.display()
        )),
        false => Ok(documents),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_names_the_audit_log_may_hold_it() {
        let query = |query: &str| {
            let (every, delay) = (Duration::from_secs(60), Duration::from_secs(10));
            Of::Query { query: query.to_owned(), every, delay }
        };
        for (of, expected) in [
            (Of::Rows(vec!["audit".to_owned()]), false),
            (Of::Lines("*".to_owned()), false),
            (Of::Lines("app:audit".to_owned()), false),
            (Of::Lines("!_type:=audit".to_owned()), false),
            (Of::Lines("_type:=audit".to_owned()), true),
            (Of::Lines("_type:in(audit, json) or level:error".to_owned()), true),
            (query("* | stats by (user) count() n"), false),
            (query("_type:=audit | stats by (user) count() n"), true),
            (query("user:in(_type:=audit | fields user) | stats count() n"), true),
        ] {
            assert_eq!(may_hold_audit(&of), expected, "{of:?}");
        }
    }
}
