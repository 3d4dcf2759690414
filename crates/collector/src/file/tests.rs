//! Tests of the follower with a simulated clock and real files. The frames go to a `Keeper` that
//! may lose the last ones.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Clock, ManualClock, RealDisk};
use proptest::prelude::*;

use super::*;
use crate::accounting::DropReason;
use crate::keeper::Keeper;

const NOW_NS: i64 = 1_700_000_000_000_000_000;

/// A follower over a directory that can be stopped, killed and restarted.
struct Rig {
    dir: tempfile::TempDir,
    data: tempfile::TempDir,
    clock: Arc<ManualClock>,
    keeper: Arc<Keeper>,
    accounting: Arc<Accounting>,
    board: Arc<Board>,
    rules: Vec<FileRule>,
    open_files_max: usize,
    follower: Option<Follower>,
}

impl Rig {
    /// Follows the files that match the patterns in a new directory.
    fn new(patterns: &[&str], change: impl FnOnce(&mut FileRule)) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let pattern =
            |name: &&str| Pattern::parse(&format!("{}/{name}", dir.path().display())).unwrap();
        let mut rule = FileRule::new(patterns.iter().map(pattern).collect());
        change(&mut rule);
        Rig {
            dir,
            data: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new(NOW_NS)),
            keeper: Arc::default(),
            accounting: Arc::default(),
            board: Arc::default(),
            rules: vec![rule],
            open_files_max: 1000,
            follower: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn start(&mut self) {
        let slot = Slot::new(self.data.path(), "files.checkpoint");
        let checkpoint = Checkpoint::read(&slot, &RealDisk).unwrap();
        let keeper = Arc::clone(&self.keeper);
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::new(keeper.next_sequence().1));
        let sequence = checkpoint.sequence;
        let ledger = Ledger::new(sequence);
        let deliver: Arc<dyn Deliver> = keeper.clone();
        let destination =
            Destination::new(SourceKind::File, deliver.clone(), self.accounting.clone());
        let clock: Arc<dyn Clock> = self.clock.clone();
        let frames = Frames::new(destination, clock.clone(), Arc::default(), ledger.clone());
        self.board = Arc::default();
        let board = self.board.clone();
        let with = Dependencies { clock, disk: Arc::new(RealDisk), deliver, board, ledger, frames };
        let config = FileConfig {
            rules: self.rules.clone(),
            data_dir: self.data.path().to_owned(),
            open_files_max: self.open_files_max,
        };
        let mut follower = Follower::new(config, checkpoint, slot, with);
        follower.begin(sequence, &keeper);
        self.follower = Some(follower);
        self.run(1);
    }

    /// Advances the clock, second by second.
    fn run(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.clock.advance_ns(1_000_000_000);
            let Some(follower) = &mut self.follower else { continue };
            while follower.step().expect("nothing stops it") == 0 {}
            self.clock.advance_ns(100_000_000);
            while follower.step().expect("nothing stops it") == 0 {}
        }
    }

    fn stop(&mut self) {
        if let Some(mut follower) = self.follower.take() {
            follower.end(std::time::Duration::ZERO);
        }
    }

    /// Starts the follower if it is not running, and lets it read everything.
    fn settle(&mut self) {
        self.keeper.hold(false);
        if self.follower.is_none() {
            self.start();
        }
        self.run(3);
    }

    fn lines(&self) -> Vec<String> {
        self.keeper.lines().into_iter().map(|(line, _)| line).collect()
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        self.settle();
        assert_eq!(self.lines(), expected);
    }

    fn infos(&self) -> Vec<(String, FileState)> {
        let infos = self.board.list(0, usize::MAX).into_iter();
        infos
            .map(|i| {
                (Path::new(&i.path).file_name().unwrap().to_str().unwrap().to_owned(), i.state)
            })
            .collect()
    }
}

#[test]
fn lines_are_followed_and_bear_their_file() {
    let mut rig = Rig::new(&["*.log"], |rule| {
        rule.log_type = Some("shop".into());
        rule.fields = vec![("env".into(), "test".into())];
        rule.path_fields = Some(PathFields::parse(r"/(?<letter>[a-z])\.log$").unwrap());
    });
    rig.append("a.log", "one\ntwo\r\n\nopen");
    rig.check(&["one", "two\r", ""]);
    rig.append("a.log", "ed\n\0\n");
    rig.append("b.log", "later\n");
    rig.append("b.txt", "no\n");
    rig.run(6);
    let mut lines = rig.lines();
    lines[3..].sort();
    assert_eq!(lines, ["one", "two\r", "", "\0", "later", "opened"]);
    let (_, origin) = &rig.keeper.lines()[0];
    assert_eq!(origin.hints.file.as_deref(), rig.path("a.log").to_str());
    assert_eq!(origin.hints.log_type.as_deref(), Some("shop"));
    let fields = [("env", "test"), ("letter", "a")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(origin.hints.extra_fields, fields);
    let counters = rig.accounting.source(SourceKind::File);
    let count = |n: &std::sync::atomic::AtomicU64| n.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&counters.lines_received), count(&counters.lines_kept)), (6, 6));
    assert_eq!(count(&counters.bytes_received), 3 + 4 + 6 + 1 + 5);
    let totals = rig.board.totals();
    assert_eq!((totals.followed, totals.open, totals.lag_bytes), (2, 2, 0));
}

/// Only lines that are appended while their file is followed are compared with their arrival.
#[test]
fn lines_that_are_appended_arrive_as_they_are_written() {
    let mut rig = Rig::new(&["*.log"], |rule| rule.zone = Some("Europe/Berlin".into()));
    rig.append("a.log", "old 1\nold 2\n");
    rig.settle();
    rig.append("a.log", "new 1\n");
    rig.append("b.log", "new 2\n");
    rig.append("copied.log", &"old 3\n".repeat(50_000));
    rig.settle();
    rig.append("copied.log", "new 3\n");
    rig.settle();
    rig.stop();
    rig.append("a.log", "old 4\n");
    rig.settle();
    rig.append("a.log", "new 4\n");
    fs::write(rig.path("b.log"), "").unwrap();
    rig.settle();
    rig.append("b.log", "new 5\n");
    rig.settle();
    let lines = rig.keeper.lines();
    assert_eq!(lines.len(), 50_000 + 8);
    for (line, origin) in lines {
        assert_eq!(origin.hints.live, line.starts_with("new"), "{line}");
        assert_eq!(origin.hints.zone.as_deref(), Some("Europe/Berlin"), "{line}");
    }
}

#[test]
fn files_in_utf16_become_utf8() {
    for (name, unit) in
        [("le.log", u16::to_le_bytes as fn(u16) -> [u8; 2]), ("be.log", u16::to_be_bytes)]
    {
        let mut rig = Rig::new(&["*.log"], |_| {});
        let bytes = |text: &str| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let append = |rig: &Rig, bytes: &[u8]| {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open(rig.path(name)).unwrap();
            file.write_all(bytes).unwrap();
        };
        append(&rig, &bytes("\u{feff}one ä\r\ntwo \u{1f600}\n"));
        rig.check(&["one ä\r", "two \u{1f600}"]);
        // The borders of writes are within a unit, and within a character.
        let rest = bytes("thr\u{1f601}\nfo");
        append(&rig, &rest[..5]);
        rig.run(1);
        append(&rig, &rest[5..8]);
        rig.run(1);
        append(&rig, &rest[8..]);
        rig.stop();
        rig.start();
        append(&rig, &bytes("ur\n"));
        rig.check(&["one ä\r", "two \u{1f600}", "thr\u{1f601}", "four"]);
        // A last line without newline, and its newline later.
        append(&rig, &bytes("five"));
        rig.run(100);
        append(&rig, &bytes("\nsix\n"));
        let mut expected = vec!["one ä\r", "two \u{1f600}", "thr\u{1f601}", "four", "five", "six"];
        rig.check(&expected);
        assert!(rig.keeper.lines().last().unwrap().1.hints.live);
        // Killed while the line was durable and its position was not.
        rig.keeper.hold(true);
        append(&rig, &bytes("seven ä\u{1f600}\r\n\neight\n"));
        rig.run(2);
        rig.follower = None;
        rig.keeper.release(usize::MAX);
        expected.extend(["seven ä\u{1f600}\r", "", "eight"]);
        rig.check(&expected);
    }
}

#[test]
fn a_last_line_without_newline_waits_and_is_taken() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "one\nlast");
    rig.check(&["one"]);
    rig.run(40);
    rig.check(&["one"]);
    rig.run(20);
    rig.check(&["one", "last"]);
    // A newline that comes later ends the line that was taken; text behind it is a new line.
    rig.append("a", "\n");
    rig.check(&["one", "last"]);
    assert_eq!(rig.board.totals().lag_bytes, 0);
    rig.append("a", "next\nmore");
    rig.check(&["one", "last", "next"]);
    rig.run(70);
    rig.append("a", " of it\n");
    rig.check(&["one", "last", "next", "more", " of it"]);
}

#[test]
fn records_of_several_lines_end_by_rule_or_age() {
    let mut rig = Rig::new(&["a"], |rule| {
        rule.shape.join = Some(Join::continued(r"^\s").unwrap());
    });
    rig.append("a", "x\n 1\n 2\ny\n 1\n");
    rig.start();
    assert_eq!(rig.lines(), ["x\n 1\n 2"]);
    rig.append("a", " 2\n");
    rig.run(1);
    assert_eq!(rig.lines(), ["x\n 1\n 2"]);
    rig.run(3);
    assert_eq!(rig.lines(), ["x\n 1\n 2", "y\n 1\n 2"]);
}

#[test]
fn renamed_files_are_read_to_their_end_beside_the_new_one() {
    for pattern in ["a", "a*"] {
        let mut rig = Rig::new(&[pattern], |_| {});
        rig.append("a", "1\n");
        rig.check(&["1"]);
        rig.append("a", "2\n");
        rig.rename("a", "a.1");
        rig.append("a.1", "3\n");
        rig.append("a", "4\n");
        rig.check(&["1", "2", "3", "4"]);
        rig.append("a.1", "5\nrest");
        rig.append("a", "6\n");
        rig.settle();
        assert_eq!(
            rig.infos(),
            [("a".into(), FileState::Renamed), ("a".into(), FileState::Following)]
        );
        rig.run(10);
        let mut lines = rig.lines();
        lines[4..].sort();
        assert_eq!(lines, ["1", "2", "3", "4", "5", "6", "rest"]);
        rig.run(700);
        // A new name that matches the pattern is discovered, and the file recognised.
        let expected = if pattern == "a" { 1 } else { 2 };
        assert_eq!(rig.infos(), vec![("a".to_owned(), FileState::Following); expected]);
        // The same while the follower does not run.
        rig.stop();
        rig.append("a", "7\n");
        rig.rename("a.1", "a.2");
        rig.rename("a", "a.1");
        rig.append("a", "8\n");
        rig.settle();
        let mut lines = rig.lines();
        lines[7..].sort();
        assert_eq!(lines[7..], ["7", "8"], "{pattern}");
    }
}

#[test]
fn truncated_files_are_read_from_their_start() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "1\n2\n");
    rig.check(&["1", "2"]);
    // Truncated to a shorter length.
    fs::write(rig.path("a"), "3\n").unwrap();
    rig.check(&["1", "2", "3"]);
    // Rewritten longer than the part already read, and with the same length.
    fs::write(rig.path("a"), "4\n5\n6\n").unwrap();
    rig.check(&["1", "2", "3", "4", "5", "6"]);
    fs::write(rig.path("a"), "7\n8\n9\n").unwrap();
    rig.check(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!((rig.board.totals().truncations, rig.board.totals().bytes_lost), (3, 0));
    // While the follower does not run, and with an incomplete line before.
    rig.append("a", "lost");
    rig.settle();
    rig.stop();
    fs::write(rig.path("a"), "10\n").unwrap();
    rig.settle();
    assert_eq!(rig.lines()[9..], ["10"]);
    rig.append("a", "lost");
    rig.settle();
    fs::write(rig.path("a"), "").unwrap();
    rig.settle();
    assert_eq!((rig.lines().len(), rig.board.totals().bytes_lost), (10, 4));
}

#[test]
fn deleted_files_are_read_to_their_end_and_closed() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "1\n");
    rig.settle();
    let mut writer = OpenOptions::new().append(true).open(rig.path("a")).unwrap();
    fs::remove_file(rig.path("a")).unwrap();
    rig.settle();
    assert_eq!(rig.infos(), [("a".into(), FileState::Deleted)]);
    writer.write_all(b"2\nlast").unwrap();
    rig.check(&["1", "2"]);
    rig.run(10);
    rig.check(&["1", "2", "last"]);
    assert_eq!((rig.infos(), rig.board.totals().open), (vec![], 0));
    // Another file with its name, perhaps with its inode.
    rig.append("a", "3\n");
    rig.run(6);
    rig.check(&["1", "2", "last", "3"]);
}

/// Inodes are reused: the checkpoint may name a file that is gone beside the file that has its
/// inode now. A test cannot request a given inode from the file system, so it writes the
/// checkpoint.
#[test]
fn a_reused_inode_is_another_file() {
    // Created at another time: empty, or with the same beginning, and numbered earlier or later.
    // Created at the same time as far as the file system records it: empty, or with another
    // beginning.
    for (id, made_before_ns, start, position) in [
        (1, 1, "", 0),
        (1, 1, "1\n", 2),
        (3, 1, "", 0),
        (3, 1, "1\n2\n", 4),
        (1, 0, "", 0),
        (1, 0, "2\n", 2),
    ] {
        for name in ["a", "a.1"] {
            let mut rig = Rig::new(&["a"], |_| {});
            // So that the next file gets number 2.
            rig.append("a", "");
            rig.settle();
            fs::rename(rig.path("a"), rig.data.path().join("away")).unwrap();
            rig.run(20);
            rig.append("a", "1\n");
            rig.check(&["1"]);
            rig.rename("a", name);
            rig.stop();
            let slot = Slot::new(rig.data.path(), "files.checkpoint");
            let mut checkpoint = Checkpoint::read(&slot, &RealDisk).unwrap().unwrap();
            let now = checkpoint.files.iter().find(|entry| entry.position == 2).unwrap().clone();
            assert_eq!(now.id, 2);
            checkpoint.files = vec![now.clone()];
            let fingerprint = identity::Fingerprint::of(start.as_bytes());
            let born_ns = now.born_ns - made_before_ns;
            let gone = checkpoint::CheckpointEntry { id, born_ns, fingerprint, position, ..now };
            checkpoint.files.push(gone);
            checkpoint.files.sort_by_key(|entry| entry.id);
            slot.write(&RealDisk, &checkpoint).unwrap();
            rig.append(name, "2\n");
            rig.check(&["1", "2"]);
        }
    }
}

#[test]
fn directories_may_appear_later_and_files_be_unreadable() {
    let mut rig = Rig::new(&["x/*/a"], |_| {});
    rig.settle();
    fs::create_dir_all(rig.path("x/y")).unwrap();
    rig.append("x/y/a", "1\n");
    rig.run(6);
    rig.check(&["1"]);
    // A dangling link, which then leads to a file elsewhere.
    fs::create_dir(rig.path("x/z")).unwrap();
    std::os::unix::fs::symlink(rig.path("target"), rig.path("x/z/a")).unwrap();
    rig.run(6);
    rig.append("target", "2\n");
    rig.run(6);
    rig.check(&["1", "2"]);
    // The link leads to another file.
    fs::remove_file(rig.path("x/z/a")).unwrap();
    rig.append("other", "3\n");
    std::os::unix::fs::symlink(rig.path("other"), rig.path("x/z/a")).unwrap();
    rig.append("target", "4\n");
    rig.run(6);
    rig.check(&["1", "2", "4", "3"]);
    // A link that leads to itself.
    fs::create_dir(rig.path("x/w")).unwrap();
    std::os::unix::fs::symlink("a", rig.path("x/w/a")).unwrap();
    rig.run(6);
    assert_eq!(rig.board.totals().unreadable, 0, "a link to itself is no file");
}

#[test]
fn reading_may_begin_at_the_end() {
    let mut rig = Rig::new(&["*"], |rule| rule.from_end = true);
    rig.append("a", "old\nhalf");
    rig.append("b", "old\n");
    rig.settle();
    rig.append("a", " new\n");
    rig.append("c", "whole\n");
    rig.run(6);
    let mut lines = rig.lines();
    lines.sort();
    assert_eq!(lines, ["half new", "whole"]);
    // Also lines that were appended while the follower did not run.
    rig.stop();
    rig.append("b", "more\n");
    rig.append("d", "d\n");
    rig.settle();
    let mut lines = rig.lines();
    lines.sort();
    assert_eq!(lines, ["d", "half new", "more", "whole"]);
}

#[test]
fn more_files_than_may_be_open() {
    let mut rig = Rig::new(&["*"], |_| {});
    rig.open_files_max = 8;
    let names: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
    for round in 0..3 {
        for name in &names {
            rig.append(name, &format!("{name} {round}\n"));
        }
        rig.settle();
        assert!(rig.board.totals().open <= 16, "{}", rig.board.totals().open);
    }
    for name in &names {
        rig.append(name, &format!("{name} 3\n"));
        rig.rename(name, &format!("old-{name}"));
    }
    rig.settle();
    rig.run(10);
    let mut lines = rig.lines();
    lines.sort();
    let mut expected: Vec<String> =
        names.iter().flat_map(|n| (0..4).map(move |r| format!("{n} {r}"))).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn long_lines_are_cut_and_counted() {
    let mut rig = Rig::new(&["a"], |rule| rule.shape.record_bytes_max = 300_000);
    let long = "x".repeat(700_000);
    rig.append("a", &format!("1\n{long}\n2\n"));
    rig.settle();
    let lengths: Vec<usize> = rig.lines().iter().map(String::len).collect();
    assert_eq!(lengths, [1, 300_000, 300_000, 100_000, 1]);
    assert_eq!(rig.board.totals().records_cut, 2);
    assert_eq!(rig.accounting.source(SourceKind::File).dropped_count(DropReason::Oversized), 0);
}

#[test]
fn lines_not_kept_are_read_again() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "1\n");
    rig.settle();
    rig.keeper.lose(1);
    rig.append("a", "2\n");
    rig.run(1);
    rig.append("a", "3\n");
    rig.check(&["1", "2", "3"]);
}

#[test]
fn delivery_is_retried_once_a_second_while_frames_are_lost() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.start();
    rig.keeper.lose(usize::MAX);
    for n in 0..10_000 {
        rig.append("a", &format!("{n}\n"));
    }
    rig.run(10);
    let lost = rig.keeper.lost();
    assert!((5..=11).contains(&lost), "{lost} frames in 11 s");
    rig.keeper.lose(0);
    let numbers: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    rig.check(&numbers.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_pauses_reading() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.start();
    rig.keeper.fill(true);
    rig.append("a", "1\n");
    let keeper = rig.keeper.clone();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| rig.run(8));
        while Arc::strong_count(&keeper) < 2 {}
        keeper.fill(false);
        running.join().unwrap();
    });
    rig.check(&["1"]);
}

#[test]
fn frames_that_become_durable_out_of_order_count_in_order() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "0\n");
    rig.settle();
    rig.keeper.hold(true);
    for n in 1..=3 {
        rig.append("a", &format!("{n}\n"));
        rig.run(2);
    }
    let held = rig.keeper.take_held();
    assert_eq!(held.len(), 3);
    let durable = |rig: &Rig| rig.board.list(0, 1)[0].durable_bytes;
    for ((_, on_durable), expected) in held.into_iter().rev().zip([2, 2, 8]) {
        on_durable(Ok(()));
        assert_eq!(durable(&rig), expected);
    }
}

/// An event for a group of files that are written and rotated.
#[derive(Clone, Debug)]
enum Act {
    Append { late: usize, lines: usize, open: bool },
    Rotate,
    Truncate,
    Delete,
    Run(usize),
    Hold,
    Release(usize),
    Stop,
    Crash(usize),
    Start,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0usize..3, 0usize..40, any::<bool>())
            .prop_map(|(late, lines, open)| Act::Append { late, lines, open }),
        2 => Just(Act::Rotate),
        1 => Just(Act::Truncate),
        1 => Just(Act::Delete),
        3 => (1usize..4).prop_map(Act::Run),
        2 => Just(Act::Hold),
        2 => (0usize..3).prop_map(Act::Release),
        1 => Just(Act::Stop),
        3 => (0usize..3).prop_map(Act::Crash),
        3 => Just(Act::Start),
    ]
}

/// Reference model: lines `N-i` of file N, in the order written; the newest file last.
#[derive(Default)]
struct Model {
    written: Vec<Vec<String>>,
    /// Index in `written` and name of each existing file, the newest last; the newest is called
    /// `a`.
    files: Vec<(usize, String)>,
    /// Lines whose newline was not written yet.
    open: HashMap<usize, String>,
    /// The newest file was not discovered yet: under another name no pattern would match it.
    fresh: bool,
}

impl Model {
    fn append(&mut self, rig: &Rig, late: usize, lines: usize, open: bool) {
        if self.files.last().is_none_or(|(_, name)| name != "a") {
            self.files.push((self.written.len(), "a".into()));
            self.written.push(Vec::new());
            self.fresh = true;
            rig.append("a", "");
        }
        let index = self.files.len() - 1 - late.min(self.files.len() - 1);
        let (number, name) = self.files[index].clone();
        let mut text = match self.open.remove(&number) {
            Some(_) => " end\n".to_owned(),
            None => String::new(),
        };
        if !text.is_empty() {
            self.written[number].last_mut().unwrap().push_str(" end");
        }
        for _ in 0..lines {
            let line = format!("{number}-{}", self.written[number].len());
            text += &format!("{line}\n");
            self.written[number].push(line);
        }
        if open {
            let line = format!("{number}-{}", self.written[number].len());
            text += &line;
            self.open.insert(number, line.clone());
            self.written[number].push(line);
        }
        rig.append(&name, &text);
    }

    /// Ends open lines, so that no line is split in two by the age limit.
    fn close(&mut self, rig: &Rig) {
        for (number, name) in &self.files {
            if self.open.remove(number).is_some() {
                self.written[*number].last_mut().unwrap().push_str(" end");
                rig.append(name, " end\n");
            }
        }
    }
}

fn check_model(pattern: &str, open_files_max: usize, acts: Vec<Act>) {
    let mut rig = Rig::new(&[pattern], |_| {});
    rig.open_files_max = open_files_max;
    let mut model = Model::default();
    let mut rotations = 0;
    for act in acts {
        match act {
            Act::Append { late, lines, open } => model.append(&rig, late, lines, open),
            Act::Rotate => {
                // The follower takes an open line when a file is renamed and quiet.
                model.close(&rig);
                if std::mem::take(&mut model.fresh) {
                    rig.settle();
                    // New files are searched for every five seconds.
                    rig.run(6);
                }
                if let Some((_, name)) = model.files.last_mut()
                    && name == "a"
                {
                    rotations += 1;
                    let to = format!("a.{rotations}");
                    rig.rename("a", &to);
                    *name = to;
                }
            }
            Act::Truncate | Act::Delete => {
                // Data that is not read by then is lost, which another test covers.
                model.close(&rig);
                rig.settle();
                rig.run(6);
                let index = if matches!(act, Act::Truncate) { model.files.len() } else { 1 };
                let Some(index) = index.checked_sub(1).filter(|_| !model.files.is_empty()) else {
                    continue;
                };
                if let Act::Truncate = act {
                    let (number, name) = &mut model.files[index];
                    OpenOptions::new().write(true).truncate(true).open(rig.path(name)).unwrap();
                    *number = model.written.len();
                    model.written.push(Vec::new());
                } else {
                    let (_, name) = model.files.remove(index);
                    fs::remove_file(rig.path(&name)).unwrap();
                }
            }
            Act::Run(seconds) => {
                model.close(&rig);
                rig.run(seconds);
            }
            Act::Hold => rig.keeper.hold(true),
            Act::Release(frames) => rig.keeper.release(frames),
            Act::Stop => rig.stop(),
            Act::Crash(frames) => {
                rig.follower = None;
                rig.keeper.crash(frames);
            }
            Act::Start if rig.follower.is_none() => {
                // Frames in flight of a stopped process are kept before it ends, unless it is
                // killed.
                rig.keeper.release(usize::MAX);
                rig.start();
            }
            Act::Start => {}
        }
    }
    model.close(&rig);
    rig.settle();
    rig.run(12);
    let mut found: Vec<Vec<String>> = vec![Vec::new(); model.written.len()];
    for line in rig.lines() {
        let number: usize = line.split('-').next().unwrap().parse().expect("a whole line");
        found[number].push(line);
    }
    assert_eq!(found, model.written);
    assert_eq!(rig.board.totals().bytes_lost, 0);
}

#[test]
fn recalled_lines_are_not_recalled_again() {
    let mut rig = Rig::new(&["a"], |_| {});
    rig.append("a", "1\n");
    rig.start();
    // No checkpoint says that the line is durable.
    assert_eq!(rig.lines(), ["1"]);
    rig.follower = None;
    rig.start();
    // The next checkpoint is written while a frame is in flight.
    rig.keeper.hold(true);
    rig.append("a", "2\n");
    rig.run(2);
    rig.stop();
    rig.check(&["1", "2"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_line_comes_once_in_order(
        acts in prop::collection::vec(act(), 1..40),
        all in any::<bool>(),
        few_open in any::<bool>(),
    ) {
        check_model(if all { "a*" } else { "a" }, if few_open { 1 } else { 1000 }, acts);
    }
}
