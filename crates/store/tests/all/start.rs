//! What a start writes, and what it does with things in the places of segments.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{append, config, frame_at, open, sequences};
use platform::{Clock, Disk, RealClock, RealDisk, SimDisk};
use store::{Store, StoreConfig};

/// Settings with segments of some frames.
fn small_segments(dir: impl Into<PathBuf>) -> StoreConfig {
    StoreConfig { segment_bytes_max: 1 << 16, segment_bytes_min: 1 << 16, ..config(dir) }
}

/// Appends so many frames, each of which fills a segment.
fn fill(store: &Store, frames: usize) {
    for _ in 0..frames {
        let kept = append(store, vec![frame_at(store.next_sequence(), 700, 100, 5)]);
        assert!(kept.iter().all(Result::is_ok));
    }
}

/// SQLite's count of the transactions that wrote to a database.
fn transactions(dir: &Path) -> u32 {
    let catalog = fs::read(dir.join("catalog.sqlite")).unwrap();
    u32::from_be_bytes(catalog[24..28].try_into().unwrap())
}

#[test]
fn the_catalog_is_written_once_in_a_start_however_many_segments_there_are() {
    let made_anew = [3, 20].map(|frames| {
        let dir = tempfile::tempdir().unwrap();
        let config = small_segments(dir.path());
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(RealDisk), Arc::new(RealClock::new()));
        let store = open(&config, &disk, &clock);
        fill(&store, frames);
        let expected = sequences(&store);
        store.close().unwrap();
        drop(store);
        let start = || {
            let (store, report) =
                Store::open_stepped(config.clone(), Arc::clone(&disk), Arc::clone(&clock)).unwrap();
            assert!(report.segments >= frames as u64 - 1, "{report}");
            assert_eq!(sequences(&store), expected);
            transactions(dir.path())
        };
        for _ in 0..3 {
            let before = transactions(dir.path());
            assert!(start() <= before + 1, "at most one, for the segment that is continued");
        }
        fs::remove_file(dir.path().join("catalog.sqlite")).unwrap();
        start()
    });
    assert_eq!(made_anew[0], made_anew[1], "it does not depend on the number of segments");
}

#[test]
fn a_start_after_a_crash_syncs_as_often_for_many_segments_as_for_few() {
    let syncs = [3, 30].map(|frames| {
        let disk = SimDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let config = small_segments("data");
        let store = open(&config, &shared, &clock);
        fill(&store, frames);
        let expected = sequences(&store);
        store.close().unwrap();
        drop(store);
        disk.restart_process();
        let before = disk.syncs();
        // The catalog is in memory, thus lost.
        let (store, report) = Store::open_stepped(config, shared, clock).unwrap();
        assert!(report.segments >= frames as u64 - 1, "{report}");
        assert_eq!(sequences(&store), expected);
        disk.syncs() - before
    });
    assert_eq!(syncs[0], syncs[1], "it does not depend on the number of segments");
}

#[test]
fn what_is_in_the_place_of_a_segment_is_reported_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = small_segments(dir.path());
    let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
        (Arc::new(RealDisk), Arc::new(RealClock::new()));
    let store = open(&config, &disk, &clock);
    fill(&store, 6);
    let all = sequences(&store);
    store.close().unwrap();
    drop(store);
    let segment = dir.path().join("segments/2.hot");
    let aside = dir.path().join("aside.hot");
    type Put = fn(&Path, &Path);
    let puts: [(&str, Put); 3] = [
        ("a symbolic link", |place, aside| symlink(aside, place).unwrap()),
        ("a named pipe", |place, _| {
            let made = std::process::Command::new("mkfifo").arg(place).status().unwrap();
            assert!(made.success());
        }),
        ("a directory", |place, _| fs::create_dir(place).unwrap()),
    ];
    for (what, put) in puts {
        fs::rename(&segment, &aside).unwrap();
        put(&segment, &aside);
        for _ in 0..2 {
            let (store, report) =
                Store::open_stepped(config.clone(), Arc::clone(&disk), Arc::clone(&clock)).unwrap();
            let [warning] = &report.warnings[..] else { panic!("{what}: {report}") };
            let named = format!("segment 2 cannot be read: {}: it is {what}", segment.display());
            assert!(warning.contains(&named) && warning.contains("move it away"), "{warning}");
            let rest = sequences(&store);
            assert!(rest.len() < all.len() && rest.iter().all(|sequence| all.contains(sequence)));
            assert_eq!(store.next_sequence().1, all.last().unwrap() + 1);
        }
        match what {
            "a directory" => fs::remove_dir(&segment).unwrap(),
            _ => fs::remove_file(&segment).unwrap(),
        }
        fs::rename(&aside, &segment).unwrap();
        let (store, report) =
            Store::open_stepped(config.clone(), Arc::clone(&disk), Arc::clone(&clock)).unwrap();
        assert_eq!((sequences(&store), report.warnings.len()), (all.clone(), 0), "{report}");
    }
}
