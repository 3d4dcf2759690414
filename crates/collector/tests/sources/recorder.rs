//! Keeps frames in memory. Every wait has a time limit, so that a failing test ends.

use std::io::{ErrorKind, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use collector::{Accounting, Deliver, DropReason, KeepError, OnDurable, Patience, SourceKind};
use record::{Frame, Origin, Transport};

/// A test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Reads until the source has closed a connection, and returns what came. A reset closes it, too:
/// the source did not read all that was sent.
#[track_caller]
pub fn read_until_closed(stream: &mut impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it is not closed: {error}"),
    }
    rest
}

#[derive(Default)]
pub struct Recorder {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    frames: Vec<Frame>,
    lines: usize,
    /// Keeps nothing, and counts the lines that contain this text.
    counted: Option<Vec<u8>>,
    lines_counted: usize,
    sequence: u64,
    /// Deliveries block.
    blocked: bool,
    /// Number of deliveries that are blocked.
    blocked_now: usize,
    /// While true, frames do not become durable.
    hold: bool,
    held: Vec<OnDurable>,
    error: Option<KeepError>,
    refusal: Option<KeepError>,
    asked_while_full: usize,
}

/// One line as recorded.
pub type Line = (Vec<u8>, Origin, bool);

impl Recorder {
    pub fn new() -> Arc<Recorder> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait_until(&self, what: &str, reached: impl Fn(&State) -> bool) {
        let state = self.lock();
        let wait = self.changed.wait_timeout_while(state, PATIENCE, |state| !reached(state));
        let (state, timeout) = wait.unwrap();
        assert!(!timeout.timed_out(), "no {what} came; {} lines are there", state.lines);
    }

    pub fn block(&self, blocked: bool) {
        self.change(|state| state.blocked = blocked);
    }

    pub fn wait_until_blocked(&self) {
        self.wait_until("blocked delivery", |state| state.blocked_now > 0);
    }

    pub fn fail(&self, error: KeepError) {
        self.change(|state| state.error = Some(error));
    }

    pub fn refuse(&self, refusal: Option<KeepError>) {
        self.change(|state| state.refusal = refusal);
    }

    pub fn wait_until_asked_while_full(&self) {
        self.wait_until("check whether there is room", |state| state.asked_while_full > 2);
    }

    pub fn hold(&self) {
        self.change(|state| state.hold = true);
    }

    pub fn let_become_durable(&self) {
        let mut held = Vec::new();
        self.change(|state| {
            state.hold = false;
            held = std::mem::take(&mut state.held);
        });
        held.into_iter().for_each(|on_durable| on_durable(Ok(())));
    }

    pub fn wait_for_lines(&self, lines: usize) {
        self.wait_until(&format!("{lines} lines"), |state| state.lines >= lines);
    }

    /// From now on keeps nothing, and counts the lines that contain `text`: for more lines than fit
    /// into memory.
    pub fn count_lines_with(&self, text: &[u8]) {
        self.change(|state| {
            state.frames.clear();
            state.counted = Some(text.to_vec());
        });
    }

    pub fn wait_for_lines_with(&self, lines: usize) {
        self.wait_until("line of those looked for", |state| state.lines_counted >= lines);
    }

    /// Waits until `lines` lines of one sender have arrived.
    pub fn wait_for_sender(&self, sender: std::net::SocketAddr, lines: usize) {
        let of_sender =
            |frame: &Frame| frame.lines().filter(|line| line.origin.sender == Some(sender)).count();
        let found = |state: &State| state.frames.iter().map(of_sender).sum::<usize>() >= lines;
        self.wait_until("line of the sender", found);
    }

    pub fn wait_for_frames(&self, frames: usize) {
        self.wait_until(&format!("{frames} frames"), |state| state.frames.len() >= frames);
    }

    pub fn frames(&self) -> Vec<Frame> {
        self.lock().frames.clone()
    }

    pub fn lines(&self) -> Vec<Line> {
        let line = |l: record::frame::Line<'_>| (l.bytes.to_vec(), l.origin.clone(), l.cut);
        self.lock().frames.iter().flat_map(|frame| frame.lines().map(line)).collect()
    }

    /// The lines from one sender.
    pub fn lines_of(&self, sender: std::net::SocketAddr) -> Vec<Vec<u8>> {
        let lines = self.lines().into_iter();
        lines.filter(|line| line.1.sender == Some(sender)).map(|line| line.0).collect()
    }
}

impl Deliver for Recorder {
    fn next_sequence(&self) -> (u32, u64) {
        let mut state = self.lock();
        state.sequence += 1;
        (1, state.sequence)
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        // Only senders that are answered get the error, and can send again.
        let from_network = matches!(
            frame.origins()[0].transport,
            Transport::SyslogUdp | Transport::SyslogTcp | Transport::SyslogTls
        );
        assert_eq!(patience == Patience::Unlimited, from_network);
        // Reads the frame as a store would.
        assert_eq!(Frame::decode(frame.bytes().to_vec()).as_ref(), Ok(&frame));
        let mut state = self.lock();
        state.blocked_now += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.blocked).unwrap();
        state.blocked_now -= 1;
        let result = match &state.error {
            Some(error) => Err(error.clone()),
            None => {
                state.lines += frame.header().lines as usize;
                match state.counted.take() {
                    None => state.frames.push(frame),
                    Some(text) => {
                        let has = |line: &record::frame::Line<'_>| {
                            line.bytes.windows(text.len()).any(|window| window == text)
                        };
                        let lines = frame.lines().filter(has).count();
                        state.lines_counted += lines;
                        state.counted = Some(text);
                    }
                }
                Ok(())
            }
        };
        if state.hold && result.is_ok() {
            state.held.push(on_durable);
        } else {
            drop(state);
            on_durable(result.clone());
        }
        self.changed.notify_all();
        result
    }

    fn refusal(&self) -> Option<KeepError> {
        let mut state = self.lock();
        state.asked_while_full += usize::from(state.refusal.is_some());
        self.changed.notify_all();
        state.refusal.clone()
    }
}

/// The counted lines received and kept, then the drops that are not zero.
#[track_caller]
pub fn check_counts(
    accounting: &Accounting,
    source: SourceKind,
    received: u64,
    kept: u64,
    dropped: &[(DropReason, u64)],
) {
    let counts = accounting.source(source).counts();
    let count = |reason: &DropReason| (*reason, counts.dropped(*reason).lines);
    let drops: Vec<_> = DropReason::ALL.iter().map(count).filter(|drop| drop.1 > 0).collect();
    let counted = (counts.lines_received, counts.lines_kept);
    assert_eq!((counted, drops.as_slice()), ((received, kept), dropped));
    // Without lines in flight there are no bytes in flight either.
    assert_eq!(counts.lines_missing() == 0, counts.bytes_missing() == 0, "{counts:?}");
}
