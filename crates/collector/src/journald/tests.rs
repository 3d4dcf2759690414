//! Tests the source with a script in place of `journalctl` that follows a file of entries. The
//! frames go to a `Keeper` that may lose some.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use platform::{RealClock, RealDisk};

use super::*;
use crate::keeper::Keeper;

/// Prints the entries of a file, starting behind the cursor; the cursor of an entry is its line
/// number.
const JOURNALCTL: &str = "#!/bin/sh
for word; do case $word in --after-cursor=*) after=${word#*=}; esac; done
exec tail -n +$((${after:-0} + 1)) -f ${0%/*}/entries
";

struct Rig {
    dir: tempfile::TempDir,
    keeper: Arc<Keeper>,
    accounting: Arc<Accounting>,
    entries: usize,
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("journalctl");
        fs::write(&program, JOURNALCTL).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        File::create(dir.path().join("entries")).unwrap();
        Rig { dir, keeper: Arc::default(), accounting: Arc::default(), entries: 0 }
    }

    /// Appends an entry whose message is its number and `message_bytes` bytes.
    fn append(&mut self, message_bytes: usize) {
        self.entries += 1;
        let path = self.dir.path().join("entries");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        let number = self.entries;
        let entry = format!(
            r#"{{"__CURSOR":"{number}","__REALTIME_TIMESTAMP":"{number}","MESSAGE":"{number}{}"}}"#,
            "x".repeat(message_bytes)
        );
        writeln!(file, "{entry}").unwrap();
    }

    fn start(&self) -> JournalSource {
        self.try_start().unwrap()
    }

    fn try_start(&self) -> Result<JournalSource, FileError> {
        let config = JournalConfig {
            program: self.dir.path().join("journalctl"),
            units: Vec::new(),
            directory: None,
            data_dir: self.dir.path().to_owned(),
        };
        JournalSource::start(
            config,
            self.keeper.clone(),
            self.accounting.clone(),
            Arc::new(RealClock::new()),
            Arc::new(RealDisk),
            Some(Box::new(self.keeper.clone())),
        )
    }

    /// Runs until all entries are kept.
    fn start_and_keep_all(&self) -> JournalSource {
        let source = self.start();
        self.check_once();
        source
    }

    /// Simulates a crash before the next checkpoint: all durable entries are behind the cursor.
    fn forget(&self) {
        self.write_checkpoint(VERSION);
    }

    fn write_checkpoint(&self, version: u32) {
        let slot = Slot::new(self.dir.path(), CHECKPOINT_FILE);
        slot.write(&RealDisk, &Checkpoint { version, sequence: 0, cursor: None }).unwrap();
    }

    /// The numbers of the entries that are kept, sorted.
    fn kept(&self) -> Vec<usize> {
        let number = |line: &(String, Origin)| {
            let (_, message) =
                line.0.split_once("\"MESSAGE\":\"").or(line.0.split_once("\"_msg\":\"")).unwrap();
            message.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        let mut numbers: Vec<usize> = self.keeper.lines().iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[track_caller]
    fn check_once(&self) {
        self.keeper.wait_for_lines(self.entries);
        assert_eq!(self.kept(), (1..=self.entries).collect::<Vec<_>>());
    }
}

#[test]
fn lost_entries_are_read_again_and_kept_ones_are_not_repeated() {
    let mut rig = Rig::new();
    let source = rig.start();
    rig.append(1);
    rig.keeper.wait_for_lines(1);
    for round in 1..=2 {
        rig.keeper.lose(1);
        rig.append(1);
        rig.keeper.wait_for_lost(round);
        rig.append(1);
        rig.check_once();
    }
    drop(source);
    let counts = rig.accounting.source(SourceKind::Journald).counts();
    assert_eq!((counts.lines_kept, counts.lines_missing(), counts.bytes_missing()), (5, 0, 0));
    // The cursor advanced as well.
    let _source = rig.start();
    rig.append(1);
    rig.check_once();
}

#[test]
fn a_checkpoint_of_another_version_is_not_used() {
    let rig = Rig::new();
    rig.write_checkpoint(VERSION + 1);
    let error = rig.try_start().err().unwrap().to_string();
    assert!(error.contains("journald.checkpoint") && error.contains("has version 2"), "{error}");
    assert!(error.contains("remove it"), "{error}");
}

#[test]
fn a_kept_frame_behind_a_lost_one_is_not_repeated() {
    let mut rig = Rig::new();
    let _source = rig.start();
    rig.append(1);
    rig.keeper.wait_for_lines(1);
    // The first of two frames in flight is lost, the second is kept.
    rig.keeper.hold(true);
    rig.append(1);
    rig.keeper.wait_for_lines(2);
    rig.append(1);
    rig.keeper.wait_for_lines(3);
    rig.keeper.lose_held(1);
    rig.keeper.hold(false);
    rig.check_once();
}

#[test]
fn a_cut_entry_is_stored_once_across_a_crash() {
    let mut rig = Rig::new();
    for bytes in [1, LINE_BYTES_MAX, 1] {
        rig.append(bytes);
    }
    drop(rig.start_and_keep_all());
    rig.forget();
    let source = rig.start();
    rig.append(1);
    rig.check_once();
    drop(source);
    let counts = rig.accounting.source(SourceKind::Journald).counts();
    let oversized = counts.dropped(DropReason::Oversized);
    assert_eq!((oversized.lines, counts.lines_missing(), counts.bytes_missing()), (1, 0, 0));
}

#[test]
fn only_the_start_of_an_oversized_entry_is_kept() {
    let mut rig = Rig::new();
    for bytes in [1, ENTRY_BYTES_MAX, 1] {
        rig.append(bytes);
    }
    drop(rig.start_and_keep_all());
    let start = &rig.keeper.lines()[1].0;
    assert!(start.len() == LINE_BYTES_MAX && start.starts_with(r#"{"__CURSOR":"2""#));
    for _ in 0..2 {
        let source = rig.start();
        rig.append(1);
        rig.check_once();
        drop(source);
        rig.forget();
    }
    let counts = rig.accounting.source(SourceKind::Journald).counts();
    let oversized = counts.dropped(DropReason::Oversized);
    assert!(oversized.lines == 1 && oversized.bytes > (ENTRY_BYTES_MAX - LINE_BYTES_MAX) as u64);
    assert_eq!((counts.lines_missing(), counts.bytes_missing()), (0, 0));
}
