//! Damage at rest: each kind of damage to each kind of file. Nothing is deleted, nothing is hidden,
//! and whatever can be read is read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{TestHost, append, config, frame_at, lines, parse_all, sequences, work};
use platform::{Clock, Disk, ManualClock, RealDisk};
use segment::sealed::SealedFile;
use segment::{FrameEntry, read_segment};
use store::{RecoveryReport, SegmentState, Step, Store, StoreConfig, Unit};

const FRAMES: u64 = 6;
const LINES: u32 = 100;

/// A data directory on the disk of this machine, since only there the catalog outlives the store.
struct Place {
    dir: tempfile::TempDir,
    config: StoreConfig,
    clock: Arc<ManualClock>,
}

impl Place {
    /// Two closed segments of six frames, and one of six frames that was active at the end.
    /// `is_killed`: as a killed process leaves them.
    fn new(is_killed: bool) -> Place {
        let live = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(1_000));
        let place = Place { config: config(live.path()), dir, clock };
        let (store, _) = place.open();
        for segment in 0..3 {
            let frames = (0..FRAMES).map(|_| frame_at(store.next_sequence(), LINES, 100, 5));
            assert!(append(&store, frames.collect()).iter().all(Result::is_ok));
            if segment < 2 {
                store.roll();
            }
        }
        match is_killed {
            // The catalog lists the segment, as it does some milliseconds after its creation.
            true => store.run_retention(1_000),
            false => store.close().unwrap(),
        }
        copy(live.path(), place.dir.path());
        if is_killed {
            // As it is written at the creation of the segment, which may be later here.
            let catalog = rusqlite::Connection::open(place.dir.path().join("catalog.sqlite"));
            let sql = "UPDATE segments SET frames = 0, lines = 0, data_end = 4096, \
                sequence_first = NULL, sequence_last = NULL WHERE id = 3";
            assert_eq!(catalog.unwrap().execute(sql, []).unwrap(), 1);
        }
        Place { config: config(place.dir.path()), ..place }
    }

    fn open(&self) -> (Arc<Store>, RecoveryReport) {
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) =
            (Arc::new(RealDisk), self.clock.clone());
        Store::open(self.config.clone(), disk, clock).expect("damage does not stop the start")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("segments").join(name)
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.file(name)).ok()
    }

    fn entries(&self, segment: u64) -> Vec<FrameEntry> {
        let path = self.file(&format!("{segment}.hot"));
        read_segment(&RealDisk, &path, segment, None).unwrap().frames
    }
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

type Damage = fn(&mut Vec<u8>);

/// The kinds of damage, by name.
const KINDS: [(&str, Damage); 9] = [
    ("zeros", |file| file.fill(0)),
    ("random bytes", |file| noise(file)),
    ("empty", Vec::clear),
    ("the first block only", |file| file.truncate(4096)),
    ("half", |file| file.truncate(file.len() / 2)),
    ("zeros from the middle on", |file| {
        let half = file.len() / 2;
        file[half..].fill(0);
    }),
    ("4 KiB in the middle", |file| {
        let half = file.len() / 2;
        noise(&mut file[half..half + 4096]);
    }),
    ("4 KiB of zeros in the middle", |file| {
        let half = file.len() / 2;
        file[half..half + 4096].fill(0);
    }),
    ("the header of the file", |file| noise(&mut file[..4096])),
];

fn noise(bytes: &mut [u8]) {
    let mut rng = fastrand::Rng::with_seed(7);
    bytes.iter_mut().for_each(|byte| *byte = rng.u8(..));
}

/// The sequence numbers of the frames whose bytes are as they were.
fn intact(entries: &[FrameEntry], before: &[u8], after: &[u8]) -> BTreeSet<u64> {
    let is_intact = |entry: &&FrameEntry| {
        let range = entry.offset as usize..entry.end() as usize;
        after.get(range.clone()) == before.get(range)
    };
    entries.iter().filter(is_intact).map(|entry| entry.sequence).collect()
}

#[test]
fn whatever_happens_to_an_unsealed_segment_the_file_stays_and_the_rest_is_read() {
    for (kind, damage) in KINDS {
        for segment in 1..=3u64 {
            let place = Place::new(false);
            let name = format!("{segment}.hot");
            let case = format!("{kind}, {name}");
            let before = place.bytes(&name).unwrap();
            let entries = place.entries(segment);
            let mut after = before.clone();
            damage(&mut after);
            std::fs::write(place.file(&name), &after).unwrap();
            let lost: BTreeSet<u64> = entries.iter().map(|entry| entry.sequence).collect();
            let lost: BTreeSet<u64> = &lost - &intact(&entries, &before, &after);
            let expected: Vec<u64> = (1..=3 * FRAMES).filter(|n| !lost.contains(n)).collect();
            let lines_lost = lost.len() as u64 * u64::from(LINES);
            for start in 0..3 {
                let (store, report) = place.open();
                let host = TestHost::new();
                let of_it = |w: &&String| w.contains(&format!("segment {segment} is damaged"));
                let told = report.warnings.iter().filter(of_it).count();
                // An index says where frames are; only reading them shows that they are damaged.
                let is_indexed = segment < 3 && kind.contains("4 KiB");
                let has_index = segment < 3 && (is_indexed || kind.contains("header"));
                if !has_index || (start > 0 && is_indexed) {
                    assert_eq!(told, 1, "{case}: {report}");
                    let text = report.warnings.join("\n");
                    assert!(text.contains(&format!("{name} at byte ")) || is_indexed, "{text}");
                    if lines_lost > 0 {
                        assert!(text.contains(&format!(", {lines_lost} are missing")), "{text}");
                    }
                }
                if !is_indexed {
                    if start == 0 {
                        assert_eq!(sequences(&store), expected, "{case}");
                    }
                    parse_all(&store, &host);
                } else {
                    store.set_settled(store::Position { segment: 3, frame: FRAMES as u32 });
                }
                store.roll();
                work(&store, &host);
                store.run_retention(1_000);
                if !has_index || is_indexed {
                    let stats = store.stats().sealing;
                    assert_eq!(
                        (stats.damaged_segments, stats.damaged_lines),
                        (1, lines_lost),
                        "{case}, start {start}"
                    );
                    let states = store.segments();
                    let state = states.iter().find(|info| info.id == segment).unwrap().state;
                    assert_eq!(state, SegmentState::Damaged, "{case}");
                    assert_eq!(place.bytes(&name).as_ref(), Some(&after), "{case}: as it was");
                    let aside = place.bytes(&format!("{name}.damaged"));
                    assert_eq!(aside, Some(after.clone()), "{case}: set aside");
                }
                if !is_indexed {
                    let found: BTreeSet<u64> =
                        lines(&store, &host).iter().map(|line| line.0.sequence).collect();
                    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{case}");
                }
                // New lines never get the number of a line that cannot be read.
                assert!(store.next_sequence().1 > 3 * FRAMES, "{case}");
            }
        }
    }
}

#[test]
fn damage_after_the_process_was_killed_is_told_from_the_last_write() {
    // The catalog does not know the length of the active segment.
    for (kind, damage) in KINDS {
        let place = Place::new(true);
        let before = place.bytes("3.hot").unwrap();
        let entries = place.entries(3);
        let used = entries.last().unwrap().end() as usize;
        let mut after = before[..used].to_vec();
        damage(&mut after);
        std::fs::write(place.file("3.hot"), &after).unwrap();
        let kept = intact(&entries, &before, &after);
        let expected: Vec<u64> = (1..=2 * FRAMES).chain(kept.iter().copied()).collect();
        let (store, report) = place.open();
        assert_eq!(sequences(&store), expected, "{kind}");
        // Nothing tells these files from those of a process that was killed in its first write.
        let is_as_torn =
            !["zeros", "random bytes", "empty", "the header of the file"].contains(&kind);
        assert_eq!(store.stats().sealing.damaged_segments, u64::from(!is_as_torn), "{kind}");
        let aside = place.bytes("3.hot.damaged");
        assert_eq!(aside, (!is_as_torn).then(|| after.clone()), "{kind}: {report}");
        let first_lost = entries.iter().find(|entry| !kept.contains(&entry.sequence));
        let from = first_lost.map_or(4096, |entry| entry.offset) as usize;
        // Without the zeros at the end.
        let used = |bytes: &[u8]| {
            let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
            bytes[..used].to_vec()
        };
        let torn = Some(used(&after[from.min(after.len())..])).filter(|tail| !tail.is_empty());
        let copy = place.bytes("3.hot.torn1").map(|copy| used(&copy));
        assert!(copy == torn.filter(|_| is_as_torn), "{kind}: what is cut off is kept");
        assert!(append(&store, vec![frame_at(store.next_sequence(), 1, 100, 5)])[0].is_ok());
        drop(store);
        let (store, _) = place.open();
        assert_eq!(sequences(&store).len(), expected.len() + 1, "{kind}");
    }
}

#[test]
fn swapped_files_are_told_and_nothing_is_lost() {
    let place = Place::new(false);
    let (one, two) = (place.bytes("1.hot").unwrap(), place.bytes("2.hot").unwrap());
    std::fs::write(place.file("1.hot"), &two).unwrap();
    std::fs::write(place.file("2.hot"), &one).unwrap();
    let (store, report) = place.open();
    let mut found = sequences(&store);
    found.sort_unstable();
    assert_eq!(found, (1..=3 * FRAMES).collect::<Vec<_>>());
    assert_eq!(store.stats().sealing.damaged_segments, 2, "{report}");
}

#[test]
fn copies_of_torn_writes_are_limited() {
    let place = Place::new(true);
    for start in 1..=20 {
        let end = place.entries(3).last().unwrap().end() as usize;
        let mut bytes = place.bytes("3.hot").unwrap();
        bytes.truncate(end);
        bytes.extend_from_slice(&[start; 100]);
        std::fs::write(place.file("3.hot"), &bytes).unwrap();
        // As a killed process leaves it: the catalog is as it was.
        let catalog = place.dir.path().join("catalog.sqlite");
        let row = std::fs::read(&catalog).unwrap();
        let (store, report) = place.open();
        assert_eq!(report.dropped.len(), 1, "{report}");
        drop(store);
        std::fs::write(&catalog, row).unwrap();
    }
    let names = std::fs::read_dir(place.dir.path().join("segments")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("torn")).count(), 16);
    assert_eq!(place.bytes("3.hot.torn20").unwrap(), [20; 100]);
}

/// Three sealed segments, and the places of their files at which a byte is flipped, with how many
/// lines this costs.
fn sealed() -> (Place, Vec<(&'static str, usize, u64)>) {
    let place = Place::new(false);
    let (store, _) = place.open();
    store.roll();
    let host = TestHost::new();
    parse_all(&store, &host);
    work(&store, &host);
    assert!(store.segments().iter().all(|info| info.state == SegmentState::Sealed));
    let ids: Vec<u64> = store.segments().iter().map(|info| info.id).collect();
    assert_eq!(ids, [4, 5, 6]);
    drop(store);
    let file = SealedFile::open(&RealDisk, &place.file("5.sealed")).unwrap();
    let block = &file.footer().blocks[0];
    let lines = FRAMES * u64::from(LINES);
    let chunks: u64 = block.chunks.iter().map(|chunk| u64::from(chunk.bytes_disk)).sum();
    let (start, end) = (block.offset as usize, (block.offset + block.bytes_disk()) as usize);
    assert!(file.has_filter(0) && file.footer().blocks.len() == 1);
    let places = vec![
        ("the first chunk", start + 3, lines),
        ("the last chunk", start + chunks as usize - 1, lines),
        ("the word filter", end - 1, 0),
        ("the footer", end + 5, lines),
        ("the trailer", file.footer().bytes_disk as usize - 1, lines),
        ("the header", 9, lines),
    ];
    (place, places)
}

/// The lines that can be read, and the units that cannot.
fn readable(store: &Store, host: &TestHost) -> (usize, Vec<Unit>) {
    let units = store.snapshot((i64::MIN, i64::MAX)).expect("damage is told by the unit");
    let (good, bad): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| match unit {
        Unit::Frame(frame) => frame.read_frame().is_ok(),
        Unit::Block(block) => block.read().is_ok(),
    });
    (crate::common::lines_of(&good, host).len(), bad)
}

#[test]
fn a_flipped_byte_of_a_sealed_segment_costs_its_block_and_is_known_from_then_on() {
    let (place, flips) = sealed();
    let whole = place.bytes("5.sealed").unwrap();
    let all = (3 * FRAMES * u64::from(LINES)) as usize;
    for (part, at, lost) in flips {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        std::fs::write(place.file("5.sealed"), bytes).unwrap();
        // Found by a reader.
        let (store, _) = place.open();
        let host = TestHost::new();
        if lost == 0 {
            for unit in store.snapshot((i64::MIN, i64::MAX)).unwrap() {
                let sets = [segment::tokens::required_tokens(b"word", true, true)];
                let may_contain = unit.may_contain(&sets).unwrap();
                assert_eq!(may_contain.is_none(), unit.position().segment == 5, "{part}");
            }
        }
        for _ in 0..2 {
            let (found, bad) = readable(&store, &host);
            assert_eq!(found, all - lost as usize, "{part}");
            assert_eq!(bad.len(), usize::from(lost > 0), "{part}");
            for unit in &bad {
                let damage = unit.damage().expect(part);
                assert_eq!((damage.segment, damage.lines), (5, lost), "{part}");
                assert!(damage.error.contains("5.sealed at byte "), "{part}: {}", damage.error);
                assert_eq!(unit.lines(), lost, "{part}");
            }
            let stats = store.stats();
            let damaged = (stats.sealing.damaged_segments, stats.sealing.damaged_lines);
            assert_eq!(damaged, (1, lost), "{part}");
            assert_eq!(store.damages().len(), bad.len(), "{part}");
        }
        drop(store);
        // Found by the check in idle time, before any reader.
        let (store, _) = place.open();
        host.idle.store(true, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..10 {
            while store.background_step(&host) == Step::Worked {}
        }
        let stats = store.stats().sealing;
        assert_eq!((stats.damaged_segments, stats.damaged_lines), (1, lost), "{part}");
        drop(store);
        std::fs::write(place.file("5.sealed"), &whole).unwrap();
    }
    let (store, _) = place.open();
    let host = TestHost::new();
    host.idle.store(true, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..10 {
        while store.background_step(&host) == Step::Worked {}
    }
    assert_eq!(store.stats().sealing.damaged_segments, 0, "nothing is found where nothing is");
    assert_eq!(readable(&store, &host).0, all);
}
