//! Tracks frames of file lines that are in flight, and how far each file is durable.
//!
//! Invariants: the number of the last durable frame and the positions of the files change together,
//! so a checkpoint is always consistent. A line counts as received when its frame is delivered: a
//! line that was only read is still in its file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use platform::Clock;
use record::frame::PAYLOAD_BYTES_TARGET;
use record::{FrameBuilder, Origin};

use super::board::Tracked;
use super::records::RecordPiece;
use crate::accounting::SourceCounters;
use crate::deliver::{KeepError, Patience};
use crate::outlet::{Destination, FRAME_AGE_MS};
use crate::source::StopSignal;

/// The outcome of the frames.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last frame up to which all frames are durable.
    sequence: u64,
    /// Frames in flight, in the order of their lines. They may become durable in another order.
    flights: VecDeque<Flight>,
    /// Number of the first frame in `flights`.
    first: u64,
    /// A frame was not kept: later frames do not count until reading has gone back.
    failed: bool,
}

/// A frame in flight.
#[derive(Debug)]
struct Flight {
    positions: Positions,
    /// `None` while in flight; then the frame's number if it is durable, or `None` if it was not
    /// kept.
    landed: Option<Option<u64>>,
}

/// The position each file has reached with a frame.
type Positions = Vec<(Arc<Tracked>, u64)>;

impl State {
    fn apply(positions: &Positions) {
        for (file, position) in positions {
            file.durable.store(*position, Relaxed);
        }
    }
}

impl Ledger {
    /// A ledger that begins behind frame `sequence`.
    pub fn new(sequence: u64) -> Arc<Ledger> {
        let ledger = Ledger::default();
        ledger.lock().sequence = sequence;
        Arc::new(ledger)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }

    /// Marks everything up to frame `sequence` as counted in the files' positions. May only be
    /// called before the first frame is in flight.
    pub fn count_up_to(&self, sequence: u64) {
        let mut state = self.lock();
        assert!(state.flights.is_empty(), "positions are counted up to the frames on their way");
        state.sequence = sequence;
    }

    /// Registers a frame that is about to be delivered; returns its flight number.
    fn take_off(&self, positions: Positions) -> u64 {
        let mut state = self.lock();
        state.flights.push_back(Flight { positions, landed: None });
        state.first + state.flights.len() as u64 - 1
    }

    fn land(&self, flight: u64, sequence: Option<u64>) {
        let mut state = self.lock();
        let index = (flight - state.first) as usize;
        state.flights[index].landed = Some(sequence);
        while let Some(Flight { landed: Some(sequence), .. }) = state.flights.front() {
            let sequence = *sequence;
            let flight = state.flights.pop_front().expect("it was looked at");
            state.first += 1;
            state.failed |= sequence.is_none();
            if let Some(sequence) = sequence
                && !state.failed
            {
                state.sequence = state.sequence.max(sequence);
                State::apply(&flight.positions);
            }
        }
        self.changed.notify_all();
    }

    /// Counts positions that no frame follows; returns them if earlier frames are still in flight.
    fn settle(&self, positions: Positions) -> Option<Positions> {
        let state = self.lock();
        if !state.flights.is_empty() {
            return Some(positions);
        }
        if !state.failed {
            State::apply(&positions);
        }
        None
    }

    /// Calls `look` with the number of the last durable frame, or `None` when all issued frames are
    /// counted. The positions do not change during the call.
    pub fn look<R>(&self, look: impl FnOnce(Option<u64>) -> R) -> R {
        let state = self.lock();
        // Behind a frame that was not kept, some may be durable and not counted.
        let all_counted = state.flights.is_empty() && !state.failed;
        look(Some(state.sequence).filter(|_| !all_counted))
    }

    /// Whether a frame was not kept. Then nothing more may be read until [`Ledger::take_failure`].
    pub fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// Whether a frame was not kept and no other is in flight. Then reading goes back to the
    /// durable position.
    pub fn take_failure(&self) -> bool {
        let mut state = self.lock();
        state.flights.is_empty() && std::mem::take(&mut state.failed)
    }

    /// Waits until no frame is in flight. Returns whether that is so.
    pub fn wait_idle(&self, time_max: Duration) -> bool {
        let state = self.lock();
        let on_way = |state: &mut State| !state.flights.is_empty();
        let wait = self.changed.wait_timeout_while(state, time_max, on_way);
        wait.expect("nothing panics while this is locked").0.flights.is_empty()
    }
}

/// The frame under construction.
pub(crate) struct Frames {
    destination: Destination,
    clock: Arc<dyn Clock>,
    stop: Arc<StopSignal>,
    ledger: Arc<Ledger>,
    builder: FrameBuilder,
    /// When the first line of the frame arrived, in monotonic nanoseconds.
    begun_ns: u64,
    /// Bytes of the lines, without separators.
    line_bytes: u64,
    /// The position each file reaches with this frame.
    positions: Positions,
}

impl Frames {
    pub fn new(
        destination: Destination,
        clock: Arc<dyn Clock>,
        stop: Arc<StopSignal>,
        ledger: Arc<Ledger>,
    ) -> Frames {
        Frames {
            destination,
            clock,
            stop,
            ledger,
            builder: FrameBuilder::new(),
            begun_ns: 0,
            line_bytes: 0,
            positions: Vec::new(),
        }
    }

    /// The counters of the source.
    pub fn counters(&self) -> &SourceCounters {
        self.destination.counters()
    }

    /// Takes a piece of a file, which is read up to `position` with it. Blocks while delivery does.
    /// Returns false when stopping; the piece was then not taken.
    pub fn push(
        &mut self,
        origin: &Origin,
        received_ns: i64,
        piece: RecordPiece<'_>,
        file: &Arc<Tracked>,
        position: u64,
    ) -> bool {
        let bytes = match piece {
            RecordPiece::Lines(bytes) | RecordPiece::Record(bytes) | RecordPiece::Start(bytes) => {
                bytes.len()
            }
            // They are in one frame, so that after a crash all or none of them are durable.
            RecordPiece::Woven(records) => records.iter().map(Vec::len).sum(),
        };
        if self.builder.payload_bytes() + bytes > PAYLOAD_BYTES_TARGET && !self.flush() {
            return false;
        }
        self.begin();
        match piece {
            RecordPiece::Lines(lines) => {
                let lines_before = self.builder.lines();
                self.builder.push_lines(origin, received_ns, lines);
                let newlines = self.builder.lines() - lines_before;
                self.line_bytes += lines.len() as u64 - u64::from(newlines);
            }
            RecordPiece::Record(record) | RecordPiece::Start(record) => {
                let cut = matches!(piece, RecordPiece::Start(_));
                self.builder.push_line(origin, received_ns, record, cut);
                self.line_bytes += record.len() as u64;
            }
            RecordPiece::Woven(records) => {
                for record in records {
                    self.builder.push_line(origin, received_ns, record, false);
                    self.line_bytes += record.len() as u64;
                }
            }
        }
        self.note(file, position);
        !self.builder.is_full() || self.flush()
    }

    /// Records that a file is read up to `position`, where there was nothing to keep.
    pub fn skip(&mut self, file: &Arc<Tracked>, position: u64) {
        self.begin();
        self.note(file, position);
    }

    fn begin(&mut self) {
        if self.builder.is_empty() && self.positions.is_empty() {
            self.begun_ns = self.clock.monotonic_ns();
        }
    }

    fn note(&mut self, file: &Arc<Tracked>, position: u64) {
        match self.positions.last_mut() {
            Some((last, at)) if Arc::ptr_eq(last, file) => *at = position,
            _ => self.positions.push((Arc::clone(file), position)),
        }
    }

    /// Time until [`Frames::flush_if_old`] has something to do; `None` while no line waits.
    pub fn due_in_ns(&self) -> Option<u64> {
        let age_ns = self.clock.monotonic_ns().saturating_sub(self.begun_ns);
        (!self.positions.is_empty()).then(|| (FRAME_AGE_MS * 1_000_000).saturating_sub(age_ns))
    }

    /// Delivers the frame if it has waited long enough.
    pub fn flush_if_old(&mut self) {
        if self.due_in_ns() == Some(0) {
            self.flush();
        }
    }

    /// Delivers the waiting lines. Blocks while delivery does and while the disk is full. Returns
    /// false when stopping; the lines are then given up, which loses nothing, since they are in the
    /// files.
    pub fn flush(&mut self) -> bool {
        if !self.destination.wait_for_room(&self.stop) {
            self.clear();
            return false;
        }
        let positions = std::mem::take(&mut self.positions);
        let lines = u64::from(self.builder.lines());
        if lines == 0 {
            self.positions = self.ledger.settle(positions).unwrap_or_default();
            self.begun_ns = self.clock.monotonic_ns();
            return true;
        }
        let number = self.destination.next_number();
        self.destination.counters().received(lines, std::mem::take(&mut self.line_bytes));
        let flight = self.ledger.take_off(positions);
        let ledger = Arc::clone(&self.ledger);
        let fate = move |sequence: u64, result: &Result<(), KeepError>| {
            ledger.land(flight, result.is_ok().then_some(sequence));
        };
        self.destination.deliver(
            number,
            &mut self.builder,
            Patience::Unlimited,
            Some(Box::new(fate)),
        );
        true
    }

    /// Discards the waiting lines: they are read again.
    pub fn clear(&mut self) {
        self.builder = FrameBuilder::new();
        self.line_bytes = 0;
        self.positions.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn frames_behind_a_lost_one_do_not_count() {
        let ledger = Ledger::new(10);
        let file = Tracked::new(1, Path::new("f"), 0);
        let mut position = 0;
        let mut take_off = || {
            position += 1;
            ledger.take_off(vec![(Arc::clone(&file), position)])
        };
        let check = |sequence: Option<u64>, durable: u64| {
            let found = ledger.look(|sequence| (sequence, file.durable.load(Relaxed)));
            assert_eq!(found, (sequence, durable));
        };
        check(None, 0);
        let flights = [take_off(), take_off(), take_off()];
        ledger.land(flights[0], Some(11));
        check(Some(11), 1);
        ledger.land(flights[1], None);
        assert!(ledger.has_failed() && !ledger.take_failure(), "another one is on its way");
        ledger.land(flights[2], Some(13));
        check(Some(11), 1);
        assert!(ledger.take_failure() && !ledger.has_failed());
        ledger.land(take_off(), Some(14));
        check(None, 4);
    }
}
