//! Rotation by size and age, compression, and what is left after a crash.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::json;

use super::*;
use crate::clock::Stop;
use crate::destination::Outcome;

#[derive(Default)]
struct At(AtomicI64);

impl Clock for At {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait(&self, _: Duration, _: &Stop) {}
}

fn document(n: usize) -> Document {
    let fields = vec![("n".to_owned(), json!(n))];
    Document::new(format!("id-{n}"), 0, fields)
}

fn options(path: &Path) -> FileOptions {
    FileOptions {
        path: path.to_owned(),
        rotation: Rotation {
            file_bytes_max: 1000,
            file_age_max: Some(Duration::from_secs(60)),
            rotated_files_max: None,
            is_compressed: false,
        },
        id_field: Some("id".to_owned()),
        time_field: "time".to_owned(),
    }
}

/// Delivers everything, and returns in how many steps.
fn deliver(files: &mut Files, mut documents: &[Document]) -> usize {
    let mut steps = 0;
    while !documents.is_empty() {
        let Delivered::Answered { outcomes, .. } = files.deliver(documents) else { panic!() };
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Accepted));
        documents = &documents[outcomes.len()..];
        steps += 1;
    }
    steps
}

/// All lines of all files, oldest first.
fn lines(files: &Files) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files.file.rotated_files().unwrap().iter().chain([&files.options.path]) {
        let bytes = std::fs::read(path).unwrap();
        let mut text = String::new();
        match path.extension().is_some_and(|end| end == "gz") {
            true => GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap(),
            false => bytes.as_slice().read_to_string(&mut text).unwrap(),
        };
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

fn expected(range: std::ops::Range<usize>) -> Vec<String> {
    let time = "1970-01-01T00:00:00.000000000Z";
    range.map(|n| format!(r#"{{"time":"{time}","id":"id-{n}","n":{n}}}"#)).collect()
}

#[test]
fn large_files_are_rotated_and_nothing_is_lost() {
    for is_compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&folder.path().join("out.jsonl"));
        options.rotation.is_compressed = is_compressed;
        let mut files = Files::with_clock(options, Arc::new(At::default()));
        let documents: Vec<Document> = (0..100).map(document).collect();
        assert!(deliver(&mut files, &documents) > 3);
        assert_eq!(lines(&files), expected(0..100));
        let rotated = files.file.rotated_files().unwrap();
        assert!(rotated.len() > 3, "{rotated:?}");
        for path in rotated {
            assert_eq!(path.extension().unwrap() == "gz", is_compressed);
            assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
        }
    }
}

#[test]
fn old_files_are_rotated_and_the_oldest_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(At::default());
    let mut options = options(&folder.path().join("out.jsonl"));
    options.rotation.rotated_files_max = Some(2);
    // A file beside them with a similar name is not ours.
    std::fs::write(folder.path().join("out-old.jsonl"), "x").unwrap();
    let mut files = Files::with_clock(options, Arc::clone(&clock) as Arc<dyn Clock>);
    for n in 0..10 {
        clock.0.store(n as i64 * 30_000_000_000, Ordering::SeqCst);
        deliver(&mut files, &[document(n)]);
    }
    // Each file has two documents, since a minute has passed with the third.
    assert_eq!(lines(&files), expected(4..10));
    assert!(folder.path().join("out-old.jsonl").exists());
}

#[test]
fn an_incomplete_line_of_a_crash_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    let mut kept = expected(0..1).join("\n").into_bytes();
    kept.push(b'\n');
    for torn in ["", "{\"time\":", &"x".repeat(200_000)] {
        std::fs::write(&path, [kept.as_slice(), torn.as_bytes()].concat()).unwrap();
        let mut files = Files::with_clock(options(&path), Arc::new(At::default()));
        deliver(&mut files, &[document(1)]);
        assert_eq!(lines(&files), expected(0..2));
    }
}

#[test]
fn a_crash_behind_compression_leaves_no_second_copy() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(&folder.path().join("out.jsonl"));
    options.rotation.is_compressed = true;
    let documents: Vec<Document> = (0..30).map(document).collect();
    let mut files = Files::with_clock(options.clone(), Arc::new(At::default()));
    deliver(&mut files, &documents);
    let rotated = files.file.rotated_files().unwrap();
    std::fs::write(rotated[0].with_extension(""), "the same lines\n").unwrap();
    let mut files = Files::with_clock(options, Arc::new(At::default()));
    deliver(&mut files, &[document(30)]);
    assert_eq!(lines(&files), expected(0..31));
}

#[test]
fn a_folder_that_is_missing_can_be_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later/out.jsonl");
    let mut files = Files::with_clock(options(&path), Arc::new(At::default()));
    let Delivered::Unavailable { fault, .. } = files.deliver(&[document(0)]) else { panic!() };
    assert!(fault.to_string().contains("later/out.jsonl"), "{fault}");
    std::fs::create_dir(folder.path().join("later")).unwrap();
    deliver(&mut files, &[document(0)]);
    assert_eq!(lines(&files), expected(0..1));
}
