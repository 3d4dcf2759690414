//! The life of a segment: sealed, merged, searched, rewritten. No line is lost or kept twice, also
//! across restarts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{TestHost, append, config, frame_at, lines, lines_of, open, parse_all, work};
use platform::{Access, Clock, Disk, Fault, ManualClock, OnDurable, Operation, Patience, SimDisk};
use record::{Batch, Frame, LineId};
use segment::sealed::SealedFile;
use store::{
    Cutoff, DeletionState, Holdings, LineFilter, RetentionRule, SegmentState, Step, Store,
    StoreCallbacks, StoreConfig, Unit, Urgency,
};

/// Time for which a segment is left alone after a failed rewrite, nanoseconds.
const REST_NS: i64 = 61_000_000_000;

struct Bench {
    dir: tempfile::TempDir,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    host: TestHost,
    store: Arc<Store>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut StoreConfig)) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(1).with_os_dir(dir.path().to_owned());
        let clock = Arc::new(ManualClock::new(1_000_000_000_000_000));
        let mut config = config("/data");
        change(&mut config);
        let store = Self::store(&config, &disk, &clock);
        Bench { dir, disk, clock, config, host: TestHost::new(), store }
    }

    fn store(config: &StoreConfig, disk: &SimDisk, clock: &Arc<ManualClock>) -> Arc<Store> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = clock.clone();
        open(config, &disk, &clock)
    }

    /// A segment of `lines` lines of 100 bytes, closed, parsed and counted.
    fn segment(&self, lines: u32) {
        self.clock.advance_ns(1_000);
        let now_ns = self.clock.now_ns();
        let frames = (0..2).map(|_| frame_at(self.store.next_sequence(), lines / 2, 100, now_ns));
        assert!(append(&self.store, frames.collect()).iter().all(Result::is_ok));
        self.store.roll();
        parse_all(&self.store, &self.host);
    }

    fn states(&self) -> Vec<SegmentState> {
        self.store.segments().iter().map(|s| s.state).collect()
    }

    /// Closes and opens the store if `orderly`; otherwise cuts the power and opens it.
    fn restart(&mut self, orderly: bool) {
        if orderly {
            self.store.close().unwrap();
        } else {
            self.disk.crash();
            let _ = self.store.close();
            self.disk.restart();
        }
        self.store = Self::store(&self.config, &self.disk, &self.clock);
    }

    fn files(&self) -> Vec<String> {
        self.disk.list(Path::new("/data/segments")).unwrap()
    }
}

/// A host that counts the bytes of the lines that it parses.
struct Counting {
    host: TestHost,
    bytes: AtomicU64,
}

impl StoreCallbacks for Counting {
    fn parse(&self, frame: Arc<Frame>) -> Batch {
        let batch = self.host.parse(frame);
        self.bytes
            .fetch_add(batch.rows().map(|row| row.raw_bytes() as u64).sum(), Ordering::Relaxed);
        batch
    }

    fn filter(&self, text: &str, now_ns: i64) -> Result<LineFilter, String> {
        self.host.filter(text, now_ns)
    }
}

#[test]
fn a_step_reads_no_more_however_many_threads_there_are() {
    const FRAME_BYTES: u64 = 5 << 20;
    for threads in [1, 2, 16] {
        let bench = Bench::new(|config| {
            config.sealing_threads = threads;
            config.segment_bytes_max = 128 << 20;
            config.cache_bytes_max = 0;
        });
        for _ in 0..16 {
            let (id, now_ns) = (bench.store.next_sequence(), bench.clock.now_ns());
            let frame = frame_at(id, FRAME_BYTES as u32 / 4_096, 4_096, now_ns);
            assert!(append(&bench.store, vec![frame])[0].is_ok());
        }
        bench.store.roll();
        parse_all(&bench.store, &bench.host);
        let counting = Counting { host: TestHost::new(), bytes: 0.into() };
        let (mut most, mut sum) = (0, 0);
        while bench.store.background_step(&counting) == Step::Worked {
            let bytes = counting.bytes.swap(0, Ordering::Relaxed);
            (most, sum) = (most.max(bytes), sum + bytes);
        }
        assert_eq!(bench.states(), [SegmentState::Sealed]);
        assert!(sum > 15 * FRAME_BYTES, "all is read: {sum}");
        // The most that a step may read, and one frame beyond.
        let units = if threads == 1 { 1 } else { (4 * threads as u64).min(7) };
        assert!(most > (units - 1) * FRAME_BYTES, "{threads} threads read {most}");
        assert!(most <= units * FRAME_BYTES, "{threads} threads read {most}");
    }
}

#[test]
fn what_was_asked_for_or_has_waited_is_sealed_at_normal_priority() {
    const OVERDUE_NS: i64 = 30_000_000_000;
    let mut bench = Bench::new(|config| config.backlog_bytes_max = u64::MAX);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Whenever, "there is nothing to seal");
    bench.segment(100);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Due, "a request closed it");
    work(&bench.store, &bench.host);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Whenever, "all is sealed");

    bench.segment(100);
    bench.restart(true);
    parse_all(&bench.store, &bench.host);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Whenever, "it is young");
    bench.clock.advance_ns(bench.config.segment_age_ns + OVERDUE_NS);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Due, "it has waited");
    bench.store.close().unwrap();
    bench.config.backlog_bytes_max = 1;
    bench.restart(true);
    parse_all(&bench.store, &bench.host);
    assert_eq!(bench.store.sealing_urgency(), Urgency::Now, "the backlog is too large");
}

#[test]
fn a_closed_segment_is_sealed_and_reads_as_before() {
    let mut bench = Bench::new(|_| {});
    bench.segment(1_000);
    bench.segment(500);
    let before = lines(&bench.store, &bench.host);
    let old = bench.store.snapshot((i64::MIN, i64::MAX)).unwrap();
    assert!(work(&bench.store, &bench.host) > 0);
    assert_eq!(bench.states(), [SegmentState::Sealed; 2]);
    assert_eq!(lines(&bench.store, &bench.host), before);
    assert_eq!(lines_of(&old, &bench.host), before, "an old snapshot reads on");
    let stats = bench.store.stats();
    assert_eq!((stats.lines, stats.segments_sealed, stats.sealing.sealed_segments), (1_500, 2, 2));
    assert_eq!(stats.sealing.lag_segments, 0);
    assert!(stats.bytes_disk < stats.bytes_raw);
    assert_eq!(bench.files(), ["3.sealed", "4.sealed"]);
    for orderly in [true, false] {
        drop(bench.store.snapshot((i64::MIN, i64::MAX)).unwrap());
        bench.restart(orderly);
        assert_eq!(lines(&bench.store, &bench.host), before);
        assert_eq!(bench.store.stats().lines, 1_500);
        assert_eq!(work(&bench.store, &bench.host), 0);
        assert!(bench.store.next_sequence().1 > 4);
    }
    bench.segment(100);
    assert_eq!(lines(&bench.store, &bench.host).len(), 1_600);
    assert!(bench.dir.path().join("catalog.sqlite").exists());
}

#[test]
fn several_threads_seal_and_merge_as_one_does() {
    let sealed = |threads: usize| {
        let bench = Bench::new(|config| config.sealing_threads = threads);
        let mut states = Vec::new();
        for lines in [200, 180, 220, 190, 210, 200, 180, 220, 200, 190] {
            for _ in 0..5 {
                let now_ns = bench.clock.now_ns();
                let frame = frame_at(bench.store.next_sequence(), lines / 10, 100, now_ns);
                assert!(append(&bench.store, vec![frame]).iter().all(Result::is_ok));
            }
            bench.segment(lines);
            work(&bench.store, &bench.host);
            states.push(bench.states());
        }
        bench.host.idle.store(true, Ordering::Relaxed);
        work(&bench.store, &bench.host);
        bench.store.delete_lines("-7").unwrap();
        work(&bench.store, &bench.host);
        let stats = bench.store.stats();
        assert_eq!(stats.sealing.failures, 0);
        // Each store has an id of its own, so ids are replaced before lines are compared.
        let named = |mut line: (LineId, i64, i64, Vec<u8>)| {
            assert_eq!(std::mem::take(&mut line.0.node), bench.store.node());
            line
        };
        let lines: Vec<_> = lines(&bench.store, &bench.host).into_iter().map(named).collect();
        (lines, states, stats.sealing.merges)
    };
    let alone = sealed(1);
    assert!(alone.2 > 0, "some were merged");
    for threads in [2, 5] {
        assert_eq!(sealed(threads), alone, "{threads} threads");
    }
}

#[test]
fn what_the_limit_on_bytes_will_soon_delete_is_not_sealed_first() {
    let order = |bytes_max: Option<u64>| {
        let bench = Bench::new(|config| {
            (config.bytes_max, config.segment_bytes_min) = (bytes_max, 64 << 10);
        });
        (0..8).for_each(|_| bench.segment(1_000));
        let hot = || -> Vec<u64> {
            let hot = |s: &store::SegmentInfo| s.state == SegmentState::Rolled;
            bench.store.segments().iter().filter(|s| hot(s)).map(|s| s.id).collect()
        };
        let mut order: Vec<u64> = Vec::new();
        let mut before = hot();
        while !before.is_empty() {
            assert_eq!(bench.store.background_step(&bench.host), Step::Worked);
            let now = hot();
            order.extend(before.iter().copied().filter(|id| !now.contains(id)));
            before = now;
        }
        assert_eq!(lines(&bench.store, &bench.host).len(), 8_000);
        order
    };
    // Each segment has about 100 kB. While the oldest is sealed, four times as much may come in,
    // and the limit would delete that segment.
    assert_eq!(order(Some(1_000_000)), [8, 7, 6, 1, 2, 3, 4, 5]);
    assert_eq!(order(Some(100_000_000)), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(order(None), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn only_what_is_closed_parsed_and_counted_is_sealed() {
    let bench = Bench::new(|_| {});
    let now_ns = bench.clock.now_ns();
    let frames = vec![frame_at(bench.store.next_sequence(), 10, 100, now_ns)];
    assert!(append(&bench.store, frames)[0].is_ok());
    parse_all(&bench.store, &bench.host);
    assert_eq!(bench.store.background_step(&bench.host), Step::Idle, "it is being written");
    bench.store.roll();
    let frames = vec![frame_at(bench.store.next_sequence(), 10, 100, now_ns)];
    assert!(append(&bench.store, frames)[0].is_ok());
    bench.store.roll();
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Sealed, SegmentState::Rolled], "not parsed");
    parse_all(&bench.store, &bench.host);
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Sealed; 2]);
}

/// Appends a frame of 100 kB to the active segment and parses it; settles it if `counted`.
fn append_frame(bench: &Bench, counted: bool) {
    let frame = frame_at(bench.store.next_sequence(), 1_000, 100, bench.clock.now_ns());
    assert!(append(&bench.store, vec![frame])[0].is_ok());
    if counted {
        return parse_all(&bench.store, &bench.host);
    }
    for frame in crate::common::all(&bench.store) {
        let batch = bench.host.parse(frame.read_frame().unwrap().unwrap());
        bench.store.set_times(frame.position(), batch.time_range_ns());
    }
}

#[test]
fn a_segment_is_sealed_while_it_is_written() {
    let mut bench = Bench::new(|_| {});
    for counted in [true, true, false, false] {
        append_frame(&bench, counted);
        assert!(work(&bench.store, &bench.host) > 0, "what is parsed can be sealed");
        assert_eq!(bench.states(), [SegmentState::Hot]);
        assert_eq!(bench.files(), ["1.hot", "2.sealing"]);
    }
    let before = lines(&bench.store, &bench.host);
    let old = bench.store.snapshot((i64::MIN, i64::MAX)).unwrap();
    bench.store.roll();
    assert_eq!(work(&bench.store, &bench.host), 1, "it is whole");
    assert_eq!(bench.states(), [SegmentState::Rolled], "its lines are not counted");
    // The next segment does not wait for the first to be published.
    append_frame(&bench, false);
    assert!(work(&bench.store, &bench.host) > 0);
    assert_eq!(bench.files(), ["1.hot", "2.sealing", "3.hot", "4.sealing"]);
    assert_eq!(lines(&bench.store, &bench.host)[..4_000], before);
    parse_all(&bench.store, &bench.host);
    assert_eq!(work(&bench.store, &bench.host), 1);
    assert_eq!(bench.states(), [SegmentState::Sealed, SegmentState::Hot]);
    let stats = bench.store.stats().sealing;
    assert_eq!((stats.sealed_segments, stats.trailed_segments), (1, 1));
    assert_eq!(lines(&bench.store, &bench.host)[..4_000], before);
    assert_eq!(lines_of(&old, &bench.host), before, "an old snapshot reads on");
    let before = lines(&bench.store, &bench.host);
    for orderly in [false, true] {
        bench.restart(orderly);
        assert_eq!(lines(&bench.store, &bench.host), before);
        assert_eq!(bench.files(), ["2.sealed", "3.hot"], "what was under way is begun again");
    }
    bench.store.roll();
    parse_all(&bench.store, &bench.host);
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Sealed; 2]);
    assert_eq!(bench.store.stats().sealing.trailed_segments, 0, "memory did not hold it any more");
}

#[test]
fn lines_are_deleted_from_a_segment_that_is_trailed() {
    let bench = Bench::new(|_| {});
    (0..3).for_each(|_| append_frame(&bench, true));
    work(&bench.store, &bench.host);
    assert_eq!(bench.files(), ["1.hot", "2.sealing"]);
    bench.store.delete_lines("-77").unwrap();
    append_frame(&bench, true);
    work(&bench.store, &bench.host);
    let (deletion, _) = bench.store.deletions().remove(0);
    assert_eq!((deletion.state, deletion.lines), (DeletionState::Done, 3 * 11));
    let left = lines(&bench.store, &bench.host);
    assert_eq!(left.len(), 4_000 - 3 * 11, "lines that came later are not meant");
}

#[test]
fn a_segment_that_is_trailed_and_deleted_leaves_nothing_behind() {
    let bench = Bench::new(|config| config.age_ns = Some(1_000_000_000));
    (0..3).for_each(|_| append_frame(&bench, true));
    work(&bench.store, &bench.host);
    assert_eq!(bench.files(), ["1.hot", "2.sealing"]);
    bench.store.roll();
    bench.clock.advance_ns(3_000_000_000);
    bench.store.run_retention(bench.clock.now_ns());
    append_frame(&bench, true);
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Hot]);
    assert_eq!(bench.files(), ["3.hot", "4.sealing"]);
    assert_eq!(lines(&bench.store, &bench.host).len(), 1_000);
    assert_eq!(bench.store.stats().sealing.failures, 0);
}

#[test]
fn a_segment_that_memory_does_not_hold_is_not_trailed() {
    let bench = Bench::new(|config| config.cache_bytes_max = 200 << 10);
    (0..3).for_each(|_| append_frame(&bench, true));
    assert_eq!(work(&bench.store, &bench.host), 0);
    bench.store.roll();
    work(&bench.store, &bench.host);
    let stats = bench.store.stats().sealing;
    assert_eq!((stats.sealed_segments, stats.trailed_segments), (1, 0));
}

#[test]
fn new_lines_do_not_go_into_a_file_that_is_older_than_what_was_sealed() {
    let mut bench = Bench::new(|_| ());
    append_frame(&bench, true);
    // The state of a file that could not be closed: it has no index.
    let old = Path::new("/data/segments/1.hot");
    let unclosed = bench.disk.contents(old).unwrap();
    bench.store.roll();
    append_frame(&bench, true);
    bench.store.roll();
    work(&bench.store, &bench.host);
    assert_eq!(bench.files(), ["3.sealed", "4.sealed"]);
    bench.store.close().unwrap();
    std::fs::remove_file(bench.dir.path().join("catalog.sqlite")).unwrap();
    bench.disk.remove(Path::new("/data/segments/3.sealed")).unwrap();
    bench.disk.open(old, Access::Create).unwrap().write_at(&unclosed, 0).unwrap();
    bench.store = Bench::store(&bench.config, &bench.disk, &bench.clock);
    append_frame(&bench, true);
    assert_eq!(bench.files(), ["1.hot", "4.sealed", "5.hot"]);
    assert_eq!(lines(&bench.store, &bench.host).len(), 3_000);
}

#[test]
fn no_rewrite_begins_before_the_file_of_an_abandoned_one_is_gone_for_good() {
    let bench = Bench::new(|_| ());
    bench.segment(1_000);
    bench.disk.fail(Fault { operation: Operation::SyncDir, skip: 0, times: u64::MAX, errno: 5 });
    work(&bench.store, &bench.host);
    assert_eq!((bench.files(), bench.store.stats().sealing.failures), (vec!["1.hot".into()], 1));
    // A power cut may bring the file back as long as the directory cannot be synced.
    bench.clock.advance_ns(REST_NS);
    while bench.store.background_step(&bench.host) == Step::Worked {
        assert_eq!(bench.files(), ["1.hot"]);
    }
    assert_eq!((bench.files(), bench.store.stats().sealing.failures), (vec!["1.hot".into()], 2));
    bench.disk.clear_faults();
    bench.clock.advance_ns(REST_NS);
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Sealed]);
    assert_eq!(lines(&bench.store, &bench.host).len(), 1_000);
}

#[test]
fn lines_are_found_by_name_in_both_kinds() {
    let bench = Bench::new(|_| {});
    bench.segment(1_000);
    work(&bench.store, &bench.host);
    bench.segment(1_000);
    for sequence in 1..=4 {
        let id = LineId { node: bench.store.node(), sequence, line: 499 };
        let units = bench.store.find(id).unwrap();
        assert_eq!(matches!(units[0], Unit::Block(_)), sequence <= 2);
        let found = lines_of(&units, &bench.host);
        assert_eq!(found.iter().filter(|line| line.0 == id).count(), 1);
    }
    assert!(
        bench
            .store
            .find(LineId { node: bench.store.node(), sequence: 9, line: 0 })
            .unwrap()
            .is_empty()
    );
}

#[test]
fn segments_are_closed_by_size_and_by_the_time_since_they_take_lines() {
    for (lines, age_s) in [(4_000, 2), (1_000, 30), (10, 3_600)] {
        let bench = Bench::new(|config| config.segment_bytes_max = 4 << 20);
        assert_eq!(bench.store.background_step(&bench.host), Step::Idle);
        // Lines that waited at a collector for a day.
        let arrived_ns = bench.clock.now_ns() - 86_400_000_000_000;
        for _ in 0..2 {
            let frame = frame_at(bench.store.next_sequence(), lines / 2, 100, arrived_ns);
            assert!(append(&bench.store, vec![frame])[0].is_ok());
        }
        for (after_ns, state) in
            [(age_s * 1_000_000_000, SegmentState::Hot), (1, SegmentState::Rolled)]
        {
            bench.clock.advance_ns(after_ns);
            bench.store.run_retention(bench.clock.now_ns());
            assert_eq!(bench.states(), [state], "{lines} lines");
        }
    }
}

#[test]
fn small_neighbours_are_merged() {
    let mut bench = Bench::new(|config| config.reencode_age_ns = 0);
    for _ in 0..8 {
        bench.segment(200);
        work(&bench.store, &bench.host);
    }
    let before = lines(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Sealed], "eight of a size make one");
    assert_eq!(before.len(), 1_600);
    assert_eq!(bench.store.stats().sealing.merges, 1);
    bench.host.idle.store(true, Ordering::Relaxed);
    work(&bench.store, &bench.host);
    let stats = bench.store.stats().sealing;
    assert_eq!(stats.reencoded_segments, 1);
    let written = (stats.hot_bytes_written + stats.sealed_bytes_written) as f64;
    let amplification = written / stats.bytes_raw_committed as f64;
    assert!(amplification < 1.3, "{amplification} bytes written for each byte of log");
    bench.restart(false);
    assert_eq!(lines(&bench.store, &bench.host), before);
    assert_eq!(bench.files().len(), 1);
}

#[test]
fn a_merge_copies_large_blocks_unless_lines_go() {
    for deletes in [false, true] {
        let bench = Bench::new(|config| config.segment_bytes_max = 1 << 20);
        for _ in 0..3 {
            bench.segment(1_400);
            work(&bench.store, &bench.host);
        }
        assert_eq!(bench.states(), [SegmentState::Sealed; 3]);
        let sources = bench.files();
        if deletes {
            bench.store.delete_lines("-7").unwrap();
        }
        let before = lines(&bench.store, &bench.host);
        bench.segment(1_400);
        work(&bench.store, &bench.host);
        assert_eq!(bench.states(), [SegmentState::Sealed]);
        assert_eq!(bench.store.stats().sealing.merges, 1);
        assert_ne!(bench.files(), sources);
        let after = lines(&bench.store, &bench.host);
        assert_eq!(after.len() < 4 * 1_400, deletes);
        assert_eq!(before.iter().all(|line| after.contains(line)), !deletes);
    }
}

#[test]
fn segments_are_encoded_again_once_when_idle() {
    let bench = Bench::new(|config| config.reencode_age_ns = 0);
    bench.segment(2_000);
    bench.host.idle.store(true, Ordering::Relaxed);
    let before = lines(&bench.store, &bench.host);
    work(&bench.store, &bench.host);
    let stats = bench.store.stats().sealing;
    assert_eq!((stats.sealed_segments, stats.reencoded_segments), (1, 1));
    assert_eq!(lines(&bench.store, &bench.host), before);
    assert_eq!(work(&bench.store, &bench.host), 0);
}

#[test]
fn segments_are_encoded_again_when_their_newest_line_is_old_enough() {
    let bench = Bench::new(|_| {});
    bench.segment(2_000);
    bench.host.idle.store(true, Ordering::Relaxed);
    work(&bench.store, &bench.host);
    for (after_ns, reencoded) in [(80_000_000_000_000, 0), (6_400_000_000_000, 1)] {
        bench.clock.advance_ns(after_ns);
        work(&bench.store, &bench.host);
        assert_eq!(bench.store.stats().sealing.reencoded_segments, reencoded);
    }
}

#[test]
fn a_damaged_segment_stays_as_it_is_and_is_reported() {
    let mut bench = Bench::new(|_| {});
    bench.segment(1_000);
    bench.segment(1_000);
    let before = lines(&bench.store, &bench.host);
    bench.store.close().unwrap();
    let path = Path::new("/data/segments/1.hot");
    let mut bytes = bench.disk.contents(path).unwrap();
    bytes[60_000] ^= 1;
    bench.disk.corrupt(path, bytes);
    bench.store = Bench::store(&bench.config, &bench.disk, &bench.clock);
    bench.store.set_settled(store::Position { segment: 2, frame: 1 });
    let deletion = bench.store.delete_lines("4-").unwrap();
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Damaged, SegmentState::Sealed]);
    let (found, _) = bench.store.deletions().remove(0);
    assert_eq!((found.id, found.state, found.lines), (deletion.id, DeletionState::Done, 500));
    let note = found.note.unwrap();
    assert!(note.contains("segment 1 is damaged and was not searched"), "{note}");
    // Of two frames, the one that is not damaged can be read, also after the next start.
    for _ in 0..2 {
        assert_eq!(bench.store.stats().sealing.damaged_segments, 1);
        let units = bench.store.snapshot((i64::MIN, i64::MAX)).unwrap();
        let readable = units.into_iter().filter(|unit| match unit {
            Unit::Frame(frame) => frame.read_frame().is_ok(),
            Unit::Block(_) => true,
        });
        let expected: Vec<_> =
            before.iter().filter(|l| [1, 3].contains(&l.0.sequence)).cloned().collect();
        assert!(lines_of(&readable.collect::<Vec<_>>(), &bench.host) == expected);
        assert_eq!(work(&bench.store, &bench.host), 0);
        bench.restart(true);
    }
}

#[test]
fn lines_that_come_after_a_deletion_stay_when_frames_before_it_were_lost() {
    let mut bench = Bench::new(|_| {});
    bench.segment(100);
    // These numbers are of frames that never reach the disk.
    let lost = (0..3).map(|_| bench.store.next_sequence().1).max().unwrap();
    bench.store.delete_lines("-7").unwrap();
    bench.restart(false);
    bench.segment(100);
    work(&bench.store, &bench.host);
    let (found, _) = bench.store.deletions().remove(0);
    assert_eq!((found.state, found.lines), (DeletionState::Done, 2));
    let later = lines(&bench.store, &bench.host).into_iter().filter(|line| line.0.sequence > lost);
    assert_eq!(later.count(), 100);
}

#[test]
fn lines_are_deleted_by_filter_wherever_they_are_and_across_restarts() {
    let mut bench = Bench::new(|_| {});
    bench.segment(1_000);
    work(&bench.store, &bench.host);
    bench.segment(1_000);
    let now_ns = bench.clock.now_ns();
    let frames = vec![frame_at(bench.store.next_sequence(), 100, 100, now_ns)];
    assert!(append(&bench.store, frames)[0].is_ok());
    let before = lines(&bench.store, &bench.host);
    // Selects "1-7", "1-70" and so on, and no "11-7": sequences are 1 to 5.
    let deletion = bench.store.delete_lines("1-7").unwrap();
    let unknown = bench.store.delete_lines("").unwrap();
    let cancelled = bench.store.delete_lines("2-").unwrap();
    assert!(bench.store.cancel_deletion(cancelled.id).unwrap());
    assert!(!bench.store.cancel_deletion(cancelled.id).unwrap());
    assert!(!bench.store.cancel_deletion(77).unwrap());
    assert_eq!(bench.store.deletions()[0].1.segments_left, 3);
    bench.restart(false);
    let (found, progress) = bench.store.deletions()[0].clone();
    assert_eq!((found.state, progress.segments_left), (DeletionState::Running, 3));
    // Lines that come later are not deleted.
    let later = frame_at((bench.store.node(), 1_000), 100, 100, now_ns);
    assert!(append(&bench.store, vec![later])[0].is_ok());
    bench.store.roll();
    parse_all(&bench.store, &bench.host);
    work(&bench.store, &bench.host);
    let states: Vec<_> = bench.store.deletions().iter().map(|d| d.0.state).collect();
    let expected = [DeletionState::Done, DeletionState::Failed, DeletionState::Cancelled];
    assert_eq!(states, expected);
    assert_eq!(bench.store.deletions()[0].0.lines, 1 + 10);
    assert_eq!(bench.store.deletions()[1].0.note.as_deref(), Some("the filter is empty"));
    assert_eq!(deletion.id + 1, unknown.id);
    let mut after = lines(&bench.store, &bench.host);
    after.retain(|line| line.0.sequence != 1_000);
    let gone = |line: &LineId| line.sequence == 1 && line.line.to_string().starts_with('7');
    let expected: Vec<_> = before.iter().filter(|line| !gone(&line.0)).cloned().collect();
    assert_eq!(after, expected);
    bench.restart(true);
    assert_eq!(work(&bench.store, &bench.host), 0);
    assert_eq!(bench.store.stats().lines, 2_100 - 11 + 100);
}

#[test]
fn a_deletion_leaves_blocks_as_they_are_of_which_no_line_goes() {
    let bench = Bench::new(|config| config.segment_bytes_max = 64 << 20);
    bench.segment(60_000);
    work(&bench.store, &bench.host);
    let blocks = |bench: &Bench| -> Vec<Vec<u8>> {
        let sealed = bench.files().into_iter().find(|name| name.ends_with(".sealed")).unwrap();
        let path = Path::new("/data/segments").join(sealed);
        let file = SealedFile::open(&bench.disk, &path).unwrap();
        (0..file.footer().blocks.len()).map(|place| file.stored_block(place).unwrap()).collect()
    };
    let before = blocks(&bench);
    assert!(before.len() > 2, "{} blocks", before.len());
    let kept = lines(&bench.store, &bench.host);
    bench.store.delete_lines("1-7.").unwrap();
    work(&bench.store, &bench.host);
    assert_eq!(bench.store.deletions()[0].0.lines, 1);
    let after = blocks(&bench);
    assert_eq!(after.len(), before.len());
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(changed, 1, "of {} blocks", before.len());
    assert_eq!(lines(&bench.store, &bench.host).len(), kept.len() - 1);
}

#[test]
fn a_deletion_of_all_lines_leaves_no_file_and_no_number_free() {
    let mut bench = Bench::new(|_| {});
    bench.segment(100);
    bench.segment(100);
    work(&bench.store, &bench.host);
    bench.store.delete_lines("-").unwrap();
    work(&bench.store, &bench.host);
    assert_eq!((bench.store.stats().lines, lines(&bench.store, &bench.host).len()), (0, 0));
    assert!(bench.files().iter().all(|name| name.ends_with(".hot")));
    bench.restart(false);
    assert_eq!(bench.store.next_sequence().1, 5);
}

#[test]
fn rules_of_retention_rewrite_what_is_worth_it() {
    let rule = |filter: &str, age_ns| RetentionRule { filter: filter.to_owned(), age_ns };
    let bench = Bench::new(|config| {
        config.rules = vec![rule("1-", 1_000_000), rule("2-33", 1_000_000)];
    });
    bench.segment(1_000);
    work(&bench.store, &bench.host);
    assert_eq!(bench.store.stats().lines, 1_000, "not old enough");
    bench.clock.advance_ns(2_000_000);
    work(&bench.store, &bench.host);
    assert_eq!(bench.store.stats().lines, 489, "a half is worth it, and takes the rest along");
    assert_eq!(work(&bench.store, &bench.host), 0);
    assert_eq!(bench.store.stats().sealing.lines_deleted, 511);
    let bench = Bench::new(|config| config.rules = vec![rule("2-33", 1_000_000)]);
    bench.segment(1_000);
    work(&bench.store, &bench.host);
    bench.clock.advance_ns(2_000_000);
    assert!(work(&bench.store, &bench.host) > 0, "it is searched, once");
    assert_eq!(bench.store.stats().lines, 1_000, "eleven lines are not worth it");
    assert_eq!(work(&bench.store, &bench.host), 0);
}

/// What a cutoff selects goes from segments that are older, however little it is, and once.
#[test]
fn cutoffs_take_few_lines_of_old_segments() {
    let bench = Bench::new(|_| {});
    for _ in 0..2 {
        bench.segment(1_000);
        work(&bench.store, &bench.host);
        bench.clock.advance_ns(2_000_000);
    }
    let mut newest: Vec<i64> =
        bench.store.segments().iter().map(|segment| segment.received_ns.unwrap().1).collect();
    newest.sort_unstable();
    let cutoff = |received_before_ns| Cutoff { filter: "2-33".to_owned(), received_before_ns };
    bench.store.set_cutoffs(vec![cutoff(newest[0])]);
    assert_eq!(work(&bench.store, &bench.host), 0, "its newest line is not older");
    for received_before_ns in [newest[0] + 1, newest[1]] {
        bench.store.set_cutoffs(vec![cutoff(received_before_ns)]);
        work(&bench.store, &bench.host);
        let gone = 2_000 - bench.store.stats().lines;
        assert!(gone > 0 && gone < 125, "{gone} lines of one segment");
        assert_eq!(
            work(&bench.store, &bench.host),
            0,
            "a cutoff that moves searches nothing again"
        );
    }
    let mut held = Holdings::default();
    bench.store.holdings(&mut held);
    let lines: u64 = held.all().map(|of| of.lines).sum();
    assert_eq!(lines, bench.store.stats().lines);
}

#[test]
fn limits_on_age_and_bytes_hold_for_sealed_segments() {
    let mut bench = Bench::new(|config| config.age_ns = Some(1_000_000));
    bench.segment(1_000);
    work(&bench.store, &bench.host);
    let unit = bench.store.snapshot((i64::MIN, i64::MAX)).unwrap().remove(0);
    bench.clock.advance_ns(2_000_000);
    bench.store.run_retention(bench.clock.now_ns());
    assert_eq!(bench.store.stats().lines, 0);
    let Unit::Block(block) = unit else { panic!("it was sealed") };
    assert!(block.read().unwrap().is_none(), "deleted meanwhile");
    bench.restart(false);
    assert_eq!(bench.store.next_sequence().1, 3);

    let bench = Bench::new(|config| config.bytes_max = Some(8 << 20));
    for _ in 0..60 {
        bench.segment(5_000);
        work(&bench.store, &bench.host);
        assert!(bench.store.stats().bytes_disk <= 8 << 20);
        assert!(bench.disk.used_bytes() <= 8 << 20);
    }
    assert!(bench.store.stats().segments_sealed > 8);
}

#[test]
fn power_cuts_at_every_sync_of_a_rewrite_lose_and_repeat_nothing() {
    for lost_catalog in [false, true] {
        for sync in 1..12 {
            let mut bench = Bench::new(|_| {});
            for _ in 0..8 {
                bench.segment(100);
            }
            let before = lines(&bench.store, &bench.host);
            bench.disk.crash_at_sync(sync);
            for _ in 0..500 {
                if bench.disk.is_crashed() {
                    break;
                }
                bench.store.background_step(&bench.host);
            }
            if lost_catalog {
                let _ = std::fs::remove_file(bench.dir.path().join("catalog.sqlite"));
            }
            bench.restart(false);
            assert_eq!(lines(&bench.store, &bench.host), before, "after sync {sync}");
            parse_all(&bench.store, &bench.host);
            work(&bench.store, &bench.host);
            assert_eq!(lines(&bench.store, &bench.host), before, "after sync {sync}, sealed");
            assert_eq!(bench.states(), [SegmentState::Sealed]);
            assert!(bench.files().iter().all(|name| name.ends_with(".sealed")));
        }
    }
}

/// Whichever change of the disk the bug comes at, while a file is written or published.
#[test]
fn bugs_at_every_change_of_a_rewrite_lose_and_repeat_nothing() {
    let mut reached = 0;
    for change in 1..=16 {
        let dir = tempfile::tempdir().unwrap();
        let disk = SimDisk::new(change).with_os_dir(dir.path().to_owned());
        let clock = Arc::new(ManualClock::new(1_000_000_000_000_000));
        let config = StoreConfig { segment_frames_max: 2, ..config("/data") };
        let open = || {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let time: Arc<dyn Clock> = clock.clone();
            Store::open_stepped(config.clone(), shared, time).unwrap().0
        };
        let host = TestHost::new();
        let store = open();
        for _ in 0..5 {
            let done: OnDurable = Box::new(|result| assert_eq!(result, Ok(())));
            let frame = frame_at(store.next_sequence(), 50, 100, clock.now_ns());
            store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
            store.writer_step();
        }
        parse_all(&store, &host);
        let before = lines(&store, &host);
        assert_eq!(before.len(), 250);
        disk.panic_at_change(change);
        for _ in 0..3 {
            work(&store, &host);
            clock.advance_ns(REST_NS);
        }
        reached += usize::from(disk.is_healthy());
        disk.clear_faults();
        assert_eq!(lines(&store, &host), before, "after change {change}");
        let is_sealed = |s: &store::SegmentInfo| s.state == SegmentState::Sealed;
        assert_eq!(store.segments().iter().filter(|s| is_sealed(s)).count(), 2, "{change}");
        store.close().unwrap();
        drop(store);
        let store = open();
        assert_eq!(lines(&store, &host), before, "after change {change}, and a start");
    }
    assert!(reached >= 8, "the bug came {reached} times");
}

#[test]
fn a_segment_that_cannot_be_read_does_not_stop_the_sealing_of_later_ones() {
    let bench = Bench::new(|config| {
        // The clock stands still while the store tries to write again.
        (config.cache_bytes_max, config.retry_ms) = (0, 0);
    });
    let frame = frame_at(bench.store.next_sequence(), 50, 100, bench.clock.now_ns());
    assert!(append(&bench.store, vec![frame])[0].is_ok());
    bench.disk.fail(Fault { operation: Operation::Write, skip: 0, times: 1, errno: 5 });
    bench.segment(100);
    assert_eq!(bench.states(), [SegmentState::Kept, SegmentState::Rolled]);
    let before = lines(&bench.store, &bench.host);
    bench.disk.fail(Fault { operation: Operation::Read, skip: 0, times: u64::MAX, errno: 5 });
    for _ in 0..9 {
        work(&bench.store, &bench.host);
        bench.clock.advance_ns(REST_NS);
    }
    assert_eq!(bench.states(), [SegmentState::Kept, SegmentState::Rolled], "it is tried again");
    work(&bench.store, &bench.host);
    bench.disk.clear_faults();
    bench.clock.advance_ns(REST_NS);
    work(&bench.store, &bench.host);
    assert_eq!(bench.states(), [SegmentState::Damaged, SegmentState::Sealed]);
    assert_eq!(lines(&bench.store, &bench.host), before, "what can be read is read");
}

#[test]
fn ten_thousand_sealed_segments_open_without_being_read() {
    let mut bench = Bench::new(|_| {});
    bench.segment(10);
    work(&bench.store, &bench.host);
    bench.store.close().unwrap();
    // Hard links give the same file ten thousand names. Opening looks at the catalog and the
    // lengths only.
    let dir = Path::new("/data/segments");
    for id in 10..10_010 {
        let to = dir.join(format!("{id}.sealed"));
        bench.disk.hard_link(&dir.join("2.sealed"), &to).unwrap();
    }
    bench.disk.sync_dir(dir).unwrap();
    let catalog = rusqlite::Connection::open(bench.dir.path().join("catalog.sqlite")).unwrap();
    let copies = "INSERT INTO segments SELECT c.value, c.value || '.sealed', state, node, created_ns, frames, \
        blocks, lines, bytes_raw, bytes_disk, data_end, sequence_first, sequence_last, sequence_next, \
        received_min_ns, received_max_ns, time_min_ns, time_max_ns, effort, summarised_through, \
        deletions_through, rules, lines_own, bytes_own, numbers, location FROM segments, generate AS c WHERE id = 2";
    let numbers = "CREATE TEMP TABLE generate AS WITH RECURSIVE n(value) AS \
        (SELECT 10 UNION ALL SELECT value + 1 FROM n WHERE value < 10009) SELECT value FROM n";
    catalog.execute_batch(&format!("{numbers}; {copies};")).unwrap();
    drop(catalog);
    let file = dir.join("2.sealed");
    let bytes = bench.disk.contents(&file).unwrap().len();
    bench.disk.corrupt(&file, vec![7; bytes]);
    bench.store = Bench::store(&bench.config, &bench.disk, &bench.clock);
    assert_eq!(bench.store.stats().segments_sealed, 10_001);
    // Every unit can be asked for, and says what is damaged once it is read.
    let units = bench.store.snapshot((i64::MIN, i64::MAX)).unwrap();
    let unit = units.iter().find(|unit| unit.position().segment == 2).unwrap();
    let Unit::Block(block) = unit else { panic!("it is sealed") };
    let error = block.read().unwrap_err().to_string();
    assert!(error.contains("2.sealed"), "{error}");
}
