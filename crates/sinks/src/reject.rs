//! Where documents go that a destination will never take.
//!
//! A line of the file is a JSON object: `rejected_at`, `reason`, `id`, `time`, and the document's
//! fields under `fields`. A deletion has `"deleted": true` besides. A document may be there twice
//! after a crash; its id is then the same.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use platform::read_regular;
use serde_json::Value;
use text::time::{format_time_digits, parse_timestamp};

use crate::destination::Fault;
use crate::document::{Document, write_value};
use crate::rotating::{RotatingFile, Rotation};

/// A document and why it was rejected.
#[derive(Debug, Clone, Copy)]
pub struct Rejected<'a> {
    /// The document.
    pub document: &'a Document,
    /// The destination's reason.
    pub reason: &'a str,
    /// When, in nanoseconds since 1970, UTC.
    pub time_ns: i64,
}

/// Keeps rejected documents within bounds, and counts those that it had to drop.
pub trait RejectStore: Send {
    /// Keeps all of these durably, or none with a fault. The runner tries again after a fault.
    fn keep(&mut self, rejected: &[Rejected<'_>]) -> Result<(), Fault>;

    /// Documents that were dropped since the start, because of the bound.
    fn dropped(&self) -> u64;
}

/// Limits of a [`FileRejects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRejectsOptions {
    /// A file is rotated before it grows beyond this, unless the documents of one request are more.
    pub file_bytes_max: u64,
    /// Rotated files besides the current one. The oldest is deleted beyond them, and its documents
    /// are counted as dropped.
    pub rotated_files_max: usize,
}

impl Default for FileRejectsOptions {
    fn default() -> FileRejectsOptions {
        FileRejectsOptions { file_bytes_max: 16 << 20, rotated_files_max: 3 }
    }
}

/// Rejected documents in files of JSON lines.
pub struct FileRejects {
    file: RotatingFile,
    dropped: u64,
}

impl FileRejects {
    /// Keeps documents in the file at `path`; its folder must exist.
    pub fn new(path: PathBuf, options: FileRejectsOptions) -> FileRejects {
        let rotation = Rotation {
            file_bytes_max: options.file_bytes_max,
            file_age_max: None,
            rotated_files_max: Some(options.rotated_files_max),
            is_compressed: true,
        };
        FileRejects { file: RotatingFile::new(path, rotation), dropped: 0 }
    }

    /// The current file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The files with documents, the oldest first. They do not change any more: what is rejected
    /// from now on goes to another file.
    pub fn frozen(&mut self, now_ns: i64) -> io::Result<Vec<PathBuf>> {
        self.file.freeze(now_ns)?;
        self.rotated()
    }

    /// The files with documents, the oldest first; the last one may grow.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = self.rotated()?;
        // A link that leads nowhere is there, too: whoever reads it learns what is wrong.
        let is_there = fs::symlink_metadata(self.path()).is_ok();
        files.extend(is_there.then(|| self.path().to_owned()));
        Ok(files)
    }

    fn rotated(&self) -> io::Result<Vec<PathBuf>> {
        match self.file.rotated_files() {
            // Nothing was ever rejected.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            files => files,
        }
    }

    /// Removes a file of [`frozen`](Self::frozen).
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.file.remove(path)
    }

    /// Keeps lines that another node has kept so far, whatever their number.
    pub fn adopt(&mut self, lines: &[u8], now_ns: i64) -> io::Result<()> {
        self.file.adopt(lines, now_ns)
    }
}

/// Calls `each` with the lines of a file of rejected documents, which may be compressed, without
/// their newlines.
pub fn rejected_lines(path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(opened(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        each(line.strip_suffix(b"\n").unwrap_or(&line));
    }
}

/// The document of a line; none if it is not the line of a rejected document.
pub fn rejected_document(line: &[u8]) -> Option<Document> {
    let Ok(Value::Object(mut line)) = serde_json::from_slice::<Value>(line) else { return None };
    let id = line.get("id")?.as_str()?.to_owned();
    let time_ns = parse_timestamp(line.get("time")?.as_str()?.as_bytes())?;
    if line.get("deleted").is_some_and(|deleted| deleted == true) {
        return Some(Document::delete(id, time_ns));
    }
    let Some(Value::Object(fields)) = line.remove("fields") else { return None };
    Some(Document::new(id, time_ns, fields.into_iter().collect()))
}

impl RejectStore for FileRejects {
    fn keep(&mut self, rejected: &[Rejected<'_>]) -> Result<(), Fault> {
        let Some(last) = rejected.last() else { return Ok(()) };
        let mut lines = Vec::new();
        for one in rejected {
            write_line(one, &mut lines);
        }
        let mut dropped = 0;
        let mut count = |path: &Path| dropped += count_lines(path);
        let appended = self.file.append(&lines, last.time_ns, &mut count);
        self.dropped += dropped;
        appended.map_err(|error| {
            Fault::new(
                format!(
                    "cannot keep rejected documents in {}: {error}",
                    self.file.path().display()
                ),
                "free disk space, or correct the folder and its permissions",
            )
        })
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn write_line(rejected: &Rejected<'_>, into: &mut Vec<u8>) {
    let document = rejected.document;
    into.extend_from_slice(b"{\"rejected_at\":");
    write_value(&format_time_digits(rejected.time_ns, 9), into);
    into.extend_from_slice(b",\"reason\":");
    write_value(rejected.reason, into);
    into.extend_from_slice(b",\"id\":");
    write_value(&document.id, into);
    into.extend_from_slice(b",\"time\":");
    write_value(&format_time_digits(document.time_ns, 9), into);
    if document.is_delete() {
        into.extend_from_slice(b",\"deleted\":true");
    }
    into.extend_from_slice(b",\"fields\":");
    document.write_json(&[], |_| true, into);
    into.extend_from_slice(b"}\n");
}

fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = read_regular(path)?;
    Ok(match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(MultiGzDecoder::new(BufReader::new(file))),
        false => Box::new(file),
    })
}

/// The lines of a file that may be compressed; of a damaged one, those that can be read, and one
/// for the rest.
fn count_lines(path: &Path) -> u64 {
    let mut lines = 0;
    let read = rejected_lines(path, &mut |_| lines += 1);
    lines + u64::from(read.is_err())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(id: &str) -> Document {
        let fields = vec![("level".to_owned(), json!("x".repeat(50)))];
        Document::new(id, 1, fields)
    }

    #[test]
    fn documents_are_kept_with_their_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejected.jsonl");
        let mut store = FileRejects::new(path.clone(), FileRejectsOptions::default());
        let document = document("a");
        store.keep(&[Rejected { document: &document, reason: "no \"long\"", time_ns: 2 }]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let line: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(
            line,
            json!({
                "rejected_at": "1970-01-01T00:00:00.000000002Z",
                "reason": "no \"long\"",
                "id": "a",
                "time": "1970-01-01T00:00:00.000000001Z",
                "fields": {"level": "x".repeat(50)},
            })
        );
        assert_eq!(store.dropped(), 0);
    }

    #[test]
    fn every_document_is_kept_or_counted_as_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejected.jsonl");
        let options = FileRejectsOptions { file_bytes_max: 1000, rotated_files_max: 2 };
        let mut store = FileRejects::new(path.clone(), options);
        for n in 0..100 {
            let document = document(&n.to_string());
            store.keep(&[Rejected { document: &document, reason: "r", time_ns: n }]).unwrap();
        }
        let rotated = store.file.rotated_files().unwrap();
        assert_eq!(rotated.len(), 2, "{rotated:?}");
        let files = rotated.iter().chain([&path]);
        let kept: u64 = files.map(|path| count_lines(path)).sum();
        assert_eq!(kept + store.dropped(), 100);
        assert!(kept > 3 && store.dropped() > 3);
    }

    #[test]
    fn frozen_files_hold_what_was_rejected_before_and_come_back_as_documents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejected.jsonl");
        let options = FileRejectsOptions { file_bytes_max: 500, rotated_files_max: 9 };
        let mut store = FileRejects::new(path.clone(), options);
        assert_eq!(store.frozen(1).unwrap(), Vec::<PathBuf>::new());
        let mut documents: Vec<Document> = (0..12).map(|n| document(&n.to_string())).collect();
        documents.push(Document::delete("12", -5));
        let reject = |store: &mut FileRejects, document: &Document| {
            store.keep(&[Rejected { document, reason: "no", time_ns: 7 }]).unwrap();
        };
        documents.iter().for_each(|document| reject(&mut store, document));
        let read = |files: &[PathBuf]| {
            let mut found = Vec::new();
            for file in files {
                rejected_lines(file, &mut |line| found.push(rejected_document(line).unwrap()))
                    .unwrap();
            }
            found
        };
        assert_eq!(read(&store.files().unwrap()), documents);
        let frozen = store.frozen(8).unwrap();
        assert!(frozen.len() > 2 && !path.exists(), "{frozen:?}");
        assert_eq!(read(&frozen), documents);
        // What comes later is elsewhere, also what another node had.
        reject(&mut store, &documents[0]);
        let adopted = std::fs::read(frozen.last().unwrap()).unwrap();
        store.adopt(&adopted, 9).unwrap();
        frozen.iter().for_each(|file| store.remove(file).unwrap());
        frozen.iter().for_each(|file| store.remove(file).unwrap());
        let left = read(&store.files().unwrap());
        assert_eq!(left.last(), Some(&documents[0]));
        assert_eq!(left.len() - 1, adopted.iter().filter(|byte| **byte == b'\n').count());
        for wrong in ["", "{}", r#"{"id":"a","time":"never","fields":{}}"#, r#"{"id":"a"}"#] {
            assert_eq!(rejected_document(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_link_or_a_pipe_in_the_place_of_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious, without a newline").unwrap();
        let link = |place: &Path| std::os::unix::fs::symlink(&victim, place).unwrap();
        let pipe = |place: &Path| {
            let made = std::process::Command::new("mkfifo").arg(place).status().unwrap();
            assert!(made.success());
        };
        let document = document("a");
        let current = folder.path().join("rejected.jsonl");
        let rotated = folder.path().join("rejected-20260102T030405Z-0001.jsonl");
        for (what, is_link) in [("a symbolic link", true), ("a named pipe", false)] {
            let put = |place: &Path| if is_link { link(place) } else { pipe(place) };
            let mut store = FileRejects::new(current.clone(), FileRejectsOptions::default());
            put(&current);
            let rejected = Rejected { document: &document, reason: "r", time_ns: 0 };
            let fault = store.keep(&[rejected]).unwrap_err().to_string();
            assert!(fault.contains(what) && fault.contains("rejected.jsonl"), "{fault}");
            let error = store.frozen(1).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("rejected.jsonl"), "{error}");
            assert_eq!(store.files().unwrap(), std::slice::from_ref(&current));
            let error = rejected_lines(&current, &mut |_| panic!("{what}")).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            fs::remove_file(&current).unwrap();
            put(&rotated);
            assert_eq!(store.files().unwrap(), std::slice::from_ref(&rotated));
            let error = rejected_lines(&rotated, &mut |_| panic!("{what}")).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(count_lines(&rotated), 1);
            fs::remove_file(&rotated).unwrap();
        }
        assert_eq!(fs::read(&victim).unwrap(), b"precious, without a newline");
    }

    #[test]
    fn a_missing_folder_is_a_fault_with_a_remedy() {
        let path = PathBuf::from("/nonexistent/folder/rejected.jsonl");
        let mut store = FileRejects::new(path, FileRejectsOptions::default());
        let document = document("a");
        let fault = store.keep(&[Rejected { document: &document, reason: "", time_ns: 0 }]);
        let fault = fault.unwrap_err().to_string();
        assert!(fault.contains("/nonexistent/folder/rejected.jsonl"), "{fault}");
        assert!(fault.contains("free disk space"), "{fault}");
    }
}
