//! Frames from pushes of many threads, and the tickets of these pushes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use collector::intake::ALONE_BYTES_MAX;
use collector::{
    Accounting, Deliver, DropReason, FRAME_AGE_AWAITED_MS, Intake, KeepError, OnDurable, Patience,
    SourceKind, Ticket,
};
use record::Frame;
use record::frame::{LINE_BYTES_MAX, PAYLOAD_BYTES_TARGET};
use record::{Format, Origin, Transport};

use crate::recorder::{Recorder, check_counts};

/// A frame age that is never reached in a test.
const NEVER_MS: u64 = 3_600_000;

fn origin() -> Origin {
    Origin::new(Transport::Http, Format::Json, None)
}

/// Pushes lines that fit into one frame.
#[track_caller]
fn push(intake: &Intake, received_ns: i64, lines: &[u8]) -> Ticket {
    let (ticket, rest) = intake.push(&origin(), received_ns, lines);
    assert_eq!(rest.len(), 0);
    ticket
}

/// Pushes all lines; returns a ticket for each frame they went into.
fn push_all(intake: &Intake, received_ns: i64, mut lines: &[u8]) -> Vec<Ticket> {
    let mut tickets: Vec<Ticket> = Vec::new();
    while !lines.is_empty() {
        let (ticket, rest) = intake.push(&origin(), received_ns, lines);
        let in_another_frame = match tickets.last_mut() {
            Some(last) => last.join(ticket).err(),
            None => Some(ticket),
        };
        tickets.extend(in_another_frame);
        lines = rest;
    }
    tickets
}

fn start(age_ms: u64) -> (Intake, Arc<Recorder>, Arc<Accounting>) {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let intake = Intake::start(SourceKind::Http, age_ms, recorder.clone(), accounting.clone());
    (intake, recorder, accounting)
}

#[test]
fn a_lone_push_waits_for_nothing_but_its_durability() {
    let (intake, recorder, _) = start(NEVER_MS);
    for n in 1..=3 {
        assert_eq!(push(&intake, 1, b"a\n").wait(), Ok(()));
        assert_eq!(recorder.frames().len(), n);
    }
}

#[test]
fn small_pushes_share_the_frame_after_the_one_that_is_on_its_way() {
    let (intake, recorder, accounting) = start(NEVER_MS);
    recorder.hold();
    let first = push(&intake, 1, b"first\n");
    let tickets = [push(&intake, 1, b"a\nb\n"), push(&intake, 1, b"c"), push(&intake, 2, b"")];
    let counts = tickets.each_ref().map(|ticket| (ticket.lines(), ticket.bytes()));
    assert_eq!(counts, [(2, 2), (1, 1), (0, 0)]);
    recorder.wait_for_frames(1);
    check_counts(&accounting, SourceKind::Http, 4, 0, &[]);
    recorder.let_become_durable();
    assert_eq!(first.wait(), Ok(()));
    // The intake's thread may miss that the first frame is durable; any push notices it.
    let last = push(&intake, 3, b"d\n");
    for ticket in tickets.into_iter().chain([last]) {
        assert_eq!(ticket.wait(), Ok(()));
    }
    check_counts(&accounting, SourceKind::Http, 5, 5, &[]);
    let lines: Vec<_> = recorder.lines().into_iter().map(|line| line.0).collect();
    assert_eq!(lines, [&b"first"[..], b"a", b"b", b"c", b"d"]);
    let frames: Vec<u32> = recorder.frames().iter().map(|frame| frame.header().lines).collect();
    assert!(matches!(frames[..], [1, 4] | [1, 3, 1]), "{frames:?}");
}

#[test]
fn a_frame_leaves_when_it_is_old() {
    let (intake, recorder, _) = start(FRAME_AGE_AWAITED_MS);
    recorder.hold();
    let tickets = [push(&intake, 1, b"a\n"), push(&intake, 2, b"b\n")];
    recorder.wait_for_frames(2);
    recorder.let_become_durable();
    assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
}

#[test]
fn waiting_lines_are_delivered_when_the_intake_stops() {
    let (intake, recorder, _) = start(NEVER_MS);
    recorder.hold();
    let tickets = [push(&intake, 1, b"a\n"), push(&intake, 2, b"b\n")];
    intake.stop();
    recorder.wait_for_frames(2);
    recorder.let_become_durable();
    assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
}

#[test]
fn large_pushes_become_full_frames() {
    let (intake, recorder, accounting) = start(NEVER_MS);
    let line = [vec![b'x'; 999], b"\n".to_vec()].concat();
    let lines = line.repeat(5000);
    let tickets = push_all(&intake, 1, &lines);
    intake.stop();
    let counts: Vec<_> = tickets.iter().map(|ticket| (ticket.lines(), ticket.bytes())).collect();
    assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
    check_counts(&accounting, SourceKind::Http, 5000, 5000, &[]);
    let frames = recorder.frames();
    let kept: Vec<_> =
        frames.iter().map(|f| (u64::from(f.header().lines), f.line_bytes())).collect();
    assert_eq!(counts, kept, "a ticket a frame");
    let payloads: Vec<usize> = recorder.frames().iter().map(|f| f.payload().len()).collect();
    assert_eq!(payloads.iter().sum::<usize>(), lines.len());
    assert!(payloads.iter().all(|&bytes| bytes <= PAYLOAD_BYTES_TARGET), "{payloads:?}");
    assert_eq!(payloads.len(), lines.len().div_ceil(PAYLOAD_BYTES_TARGET));
}

#[test]
fn long_lines_have_their_own_frame_and_are_cut_at_the_limit() {
    let check = |bytes: usize, kept: usize| {
        let (intake, recorder, accounting) = start(NEVER_MS);
        let long = vec![b'x'; bytes];
        let tickets = push_all(&intake, 1, &[b"a\n", long.as_slice(), b"\nb\n"].concat());
        intake.stop();
        assert_eq!(tickets.iter().map(Ticket::bytes).sum::<u64>(), bytes as u64 + 2);
        assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
        let cut = bytes > kept;
        let found: Vec<_> = recorder.lines().iter().map(|l| (l.0.len(), l.2)).collect();
        assert_eq!(found, [(1, false), (kept, cut), (1, false)]);
        let drops = [(DropReason::Oversized, 1)];
        check_counts(&accounting, SourceKind::Http, 3, 3, &drops[..usize::from(cut)]);
    };
    check(PAYLOAD_BYTES_TARGET - 1, PAYLOAD_BYTES_TARGET - 1);
    check(PAYLOAD_BYTES_TARGET, PAYLOAD_BYTES_TARGET);
    check(PAYLOAD_BYTES_TARGET + 1, PAYLOAD_BYTES_TARGET + 1);
    check(LINE_BYTES_MAX - 1, LINE_BYTES_MAX - 1);
    check(LINE_BYTES_MAX, LINE_BYTES_MAX);
    check(LINE_BYTES_MAX + 1, LINE_BYTES_MAX);
}

#[test]
fn rows_delivered_alone_are_one_frame() {
    let (intake, recorder, _) = start(NEVER_MS);
    recorder.hold();
    let waiting = [push(&intake, 1, b"a\n"), push(&intake, 1, b"b\n")];
    let rows = [vec![b'x'; ALONE_BYTES_MAX / 2 - 1], b"\n".to_vec()].concat().repeat(2);
    let alone = intake.deliver_alone(&origin(), 2, &rows);
    assert_eq!(recorder.frames().len(), 2);
    assert_eq!(recorder.frames()[1].payload(), rows);
    recorder.let_become_durable();
    drop(intake);
    assert!(waiting.into_iter().chain([alone]).all(|ticket| ticket.wait() == Ok(())));
}

#[test]
fn errors_reach_the_ticket_and_the_counters() {
    let check = |error: KeepError, reason: DropReason| {
        let (intake, recorder, accounting) = start(FRAME_AGE_AWAITED_MS);
        recorder.fail(error.clone());
        assert_eq!(push(&intake, 1, b"a\nb\n").wait(), Err(error.clone()));
        assert_eq!(intake.deliver_alone(&origin(), 1, b"c\n").wait(), Err(error));
        check_counts(&accounting, SourceKind::Http, 3, 0, &[(reason, 3)]);
    };
    check(KeepError::DiskFull, DropReason::DiskFull);
    check(KeepError::Closed, DropReason::ShuttingDown);
    check(KeepError::Failed("no such device".into()), DropReason::WriteFailed);
}

#[test]
fn after_stopping_pushes_are_refused_and_counted() {
    let (intake, _, accounting) = start(NEVER_MS);
    intake.stop();
    assert_eq!(push(&intake, 1, b"a\nb").wait(), Err(KeepError::Closed));
    check_counts(&accounting, SourceKind::Http, 2, 0, &[(DropReason::ShuttingDown, 2)]);
}

#[test]
fn many_threads_push_while_delivery_blocks_and_nothing_is_lost() {
    let (intake, recorder, accounting) = start(FRAME_AGE_AWAITED_MS);
    recorder.block(true);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let intake = &intake;
            scope.spawn(move || {
                for n in 0..200 {
                    let lines = format!("{thread}-{n}\n").repeat(50);
                    let tickets = push_all(intake, n, lines.as_bytes());
                    if n == 199 {
                        assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
                    }
                }
            });
        }
        recorder.wait_until_blocked();
        recorder.block(false);
    });
    drop(intake);
    check_counts(&accounting, SourceKind::Http, 80_000, 80_000, &[]);
    let lines = recorder.lines();
    for thread in 0..8 {
        let prefix = format!("{thread}-").into_bytes();
        let found = lines.iter().filter(|line| line.0.starts_with(&prefix)).map(|line| &line.0);
        let expected = (0..200).flat_map(|n| vec![format!("{thread}-{n}").into_bytes(); 50]);
        assert!(found.cloned().eq(expected), "the lines of thread {thread} are in order");
    }
}

/// Panics in the next delivery, at one of two points.
#[derive(Default)]
struct Faulty {
    recorder: Arc<Recorder>,
    faults: [AtomicBool; 2],
}

const FAULTS: [usize; 2] = [NUMBERING, DELIVERING];
const NUMBERING: usize = 0;
const DELIVERING: usize = 1;

impl Faulty {
    fn fail(&self, fault: usize) {
        self.faults[fault].store(true, Relaxed);
    }

    fn may_fail(&self, fault: usize) {
        assert!(!self.faults[fault].swap(false, Relaxed), "a fault, which is tested");
    }
}

impl Deliver for Faulty {
    fn next_sequence(&self) -> (u32, u64) {
        self.may_fail(NUMBERING);
        self.recorder.next_sequence()
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        self.may_fail(DELIVERING);
        self.recorder.deliver(frame, on_durable, patience)
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

fn start_faulty(age_ms: u64) -> (Intake, Arc<Faulty>, Arc<Accounting>) {
    let faulty = Arc::<Faulty>::default();
    let accounting = Arc::<Accounting>::default();
    let intake = Intake::start(SourceKind::Http, age_ms, faulty.clone(), accounting.clone());
    (intake, faulty, accounting)
}

#[test]
fn a_thread_that_panics_loses_the_lines_it_has_and_goes_on() {
    for fault in FAULTS {
        let (intake, faulty, accounting) = start_faulty(0);
        let failed = || accounting.source(SourceKind::Http).counts().threads_failed;
        // The first frame is in flight, so that the next waits for the thread.
        faulty.recorder.hold();
        let first = push(&intake, 1, b"a\n");
        faulty.fail(fault);
        let lost = push(&intake, 1, b"b\nbb\n").wait().unwrap_err();
        assert!(matches!(&lost, KeepError::Failed(why) if why.contains("send the lines again")));
        faulty.recorder.let_become_durable();
        assert_eq!(first.wait(), Ok(()));
        while failed() == 0 {
            std::thread::yield_now();
        }
        // Again the intake's thread delivers this one.
        faulty.recorder.hold();
        let first = push(&intake, 1, b"c\n");
        let second = push(&intake, 1, b"d\n");
        faulty.recorder.wait_for_lines(3);
        faulty.recorder.let_become_durable();
        assert_eq!((first.wait(), second.wait()), (Ok(()), Ok(())));
        drop(intake);
        assert_eq!(failed(), 1);
        check_counts(&accounting, SourceKind::Http, 5, 3, &[(DropReason::WriteFailed, 2)]);
    }
}

#[test]
fn a_caller_that_panics_takes_no_other_down() {
    for fault in FAULTS {
        let (intake, faulty, accounting) = start_faulty(NEVER_MS);
        faulty.fail(fault);
        let pushed = || drop(intake.push(&origin(), 1, b"a\n"));
        assert!(catch_unwind(AssertUnwindSafe(pushed)).is_err());
        faulty.fail(fault);
        let alone = || drop(intake.deliver_alone(&origin(), 1, b"b\n"));
        assert!(catch_unwind(AssertUnwindSafe(alone)).is_err());
        assert_eq!(push(&intake, 1, b"c\n").wait(), Ok(()));
        // The same at the end.
        faulty.recorder.hold();
        let first = push(&intake, 1, b"d\n");
        let second = push(&intake, 1, b"e\n");
        faulty.fail(fault);
        intake.stop();
        faulty.recorder.let_become_durable();
        assert_eq!(first.wait(), Ok(()));
        assert!(second.wait().is_err());
        drop(intake);
        let counts = accounting.source(SourceKind::Http).counts();
        assert_eq!((counts.lines_kept, counts.lines_missing(), counts.bytes_missing()), (2, 0, 0));
        assert_eq!(counts.threads_failed, 1);
    }
}
