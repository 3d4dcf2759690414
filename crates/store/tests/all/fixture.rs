//! A data directory that was written before is opened, read, and written to: a change of the format
//! that forgets its version number fails here.
//!
//! `LOGINSON_WRITE_FIXTURES=1 cargo test -p loginson-store --test all fixture` writes it; only a
//! new version of a format is a reason to do so. It has frames of the store's own and of another
//! node: some are sealed, some are in a closed hot segment, and some are in a segment that was
//! active when the process ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use crate::common::{TestHost, append, config, frame_at, lines, open, parse_all, work};
use platform::{Clock, Disk, ManualClock, OnDurable, Patience, RealDisk};
use record::NodeIdentity;
use store::Store;

const NODE: u32 = 77;

fn fixture() -> PathBuf {
    PathBuf::from("tests/fixtures/data")
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(1_790_000_000_000_000_000))
}

fn forward(store: &Store, number: u64) {
    let (sender, receiver) = mpsc::channel();
    let frame = frame_at((NODE, number), 3, 100, 1);
    let done: OnDurable = Box::new(move |r| sender.send(r).unwrap());
    store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
    receiver.recv().unwrap().unwrap();
}

fn own(store: &Store) {
    let frame = frame_at(store.next_sequence(), 4, 100, 1);
    assert!(append(store, vec![frame]).iter().all(Result::is_ok));
}

/// Own frames 1, 4, 6, 9 and the frames 1 to 5 of another node: 1 to 3 are sealed, 4 to 6 closed, 7
/// to 9 in the active segment.
fn write() {
    let dir = fixture();
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let store = open(&config(&dir), &disk, &clock());
    let identity = NodeIdentity { node: NODE, key: 5, starts: 1, run: 1 };
    store.admit(&identity, 1).unwrap();
    own(&store);
    (1..=2).for_each(|number| forward(&store, number));
    store.roll();
    parse_all(&store, &TestHost::new());
    work(&store, &TestHost::new());
    own(&store);
    forward(&store, 3);
    own(&store);
    store.roll();
    (4..=5).for_each(|number| forward(&store, number));
    own(&store);
    assert_eq!(store.stats().lines, 31);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}

#[test]
fn a_directory_is_opened_and_written_on() {
    if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
        write();
    }
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(), dir.path());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (store, report) = Store::open(config(dir.path()), disk.clone(), clock()).unwrap();
    assert!(report.warnings.is_empty(), "{report}");
    let host = TestHost::new();
    let before = lines(&store, &host);
    assert_eq!(before.len(), 31);
    assert_eq!(store.held(NODE).ranges().collect::<Vec<_>>(), [(1, 5)]);
    let identity = NodeIdentity { node: NODE, key: 5, starts: 1, run: 1 };
    store.admit(&identity, 1).unwrap();
    forward(&store, 6);
    own(&store);
    assert_eq!(lines(&store, &host).len(), 38);
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    assert_eq!(store.stats().lines, 38);
    let after = lines(&store, &host);
    assert!(before.iter().all(|line| after.contains(line)), "lines keep their names");
    for (id, ..) in &after {
        let units = store.find(*id).unwrap();
        let found = crate::common::lines_of(&units, &host);
        assert!(found.iter().any(|line| line.0 == *id), "{id}");
    }
    drop(store);
    let store = open(&config(dir.path()), &disk, &clock());
    assert_eq!(lines(&store, &host), after);
}

/// The checksum of headers, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0x82f6_3b78,
        })
    })
}

/// All files of a directory with their bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

/// The way back after an upgrade: what a newer program wrote is refused by name, and everything
/// stays as it is, so that the newer program can still read it. A sealed segment is opened at the
/// start only if the catalog does not know it; else a query opens it.
#[test]
fn a_directory_of_a_newer_program_is_refused_and_stays_as_it_is() {
    for (name, crc_at) in
        [("segments/2.sealed", 60), ("segments/3.hot", 4092), ("catalog.sqlite", 0)]
    {
        let dir = tempfile::tempdir().unwrap();
        copy(&fixture(), dir.path());
        let path = dir.path().join(name);
        if crc_at == 0 {
            let newer = "UPDATE meta SET value = value + 1 WHERE key = 'schema_version'";
            rusqlite::Connection::open(&path).unwrap().execute(newer, []).unwrap();
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            // Beyond every version that there is.
            bytes[8] += 100;
            let crc = crc32c(&bytes[..crc_at]);
            bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
            std::fs::write(&path, bytes).unwrap();
        }
        if name.ends_with(".sealed") {
            std::fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
        }
        let before = files(dir.path());
        let opened = Store::open(config(dir.path()), Arc::new(RealDisk), clock());
        let error = opened.err().expect(name).to_string();
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(file) && error.contains("version"), "{name}: {error}");
        assert!(error.contains("this program reads"), "{name}: {error}");
        let after = files(dir.path());
        let kept = before.iter().all(|file| after.contains(file));
        assert!(kept, "{name}: a refused start changed a file");
    }
}
