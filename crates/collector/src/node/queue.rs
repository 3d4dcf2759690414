//! Decides where a new frame goes: to a store with room, in turn; otherwise it waits in memory.
//!
//! ```text
//! deliver → lane of a store (its window: frames that wait and frames not acknowledged)
//!         → waiting, taken by the first lane with room, or by the spool after some time
//!         → nowhere: the caller waits
//! ```
//!
//! Invariant: the bytes of each lane and of the waiting frames exceed their limits by at most one
//! frame.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use record::Frame;

use crate::deliver::{OnDurable, Patience};

/// A frame that no store has yet.
pub(super) struct Waiting {
    pub(super) frame: Frame,
    /// Its number at the store, if it has one already: with copies there is one lane, whose frames
    /// are numbered in the order in which they are pushed.
    pub(super) number: Option<u64>,
    pub(super) on_durable: OnDurable,
    pub(super) since: Instant,
    pub(super) patience: Patience,
}

impl Waiting {
    pub(super) fn bytes(&self) -> usize {
        self.frame.bytes().len()
    }

    /// The frame with its number.
    pub(super) fn numbered(&mut self) -> (u64, &mut Frame) {
        (self.number.expect("with copies, each frame has a number"), &mut self.frame)
    }
}

/// Frames for one store.
#[derive(Default)]
struct Lane {
    open: bool,
    ready: VecDeque<Waiting>,
    /// Bytes of `ready`, and of frames that are sent and not acknowledged.
    bytes: usize,
}

/// Frames for all stores.
pub(super) struct FrameQueue {
    lanes: Vec<Lane>,
    /// The lane that is tried first for the next frame.
    turn: usize,
    waiting: VecDeque<Waiting>,
    /// Bytes of `waiting`, and of the frames the spool is writing.
    waiting_bytes: usize,
    window_bytes: usize,
    waiting_bytes_max: usize,
    /// Every frame goes through the spool.
    spool_always: bool,
    /// With numbers: no frame that is pushed from now on has a lower one.
    number_next: u64,
    /// With numbers: the least one of the frames that the spool is writing.
    spooling_least: Option<u64>,
    /// New frames no longer wait for room.
    pub(super) closing: bool,
    /// Lanes and spool must end.
    pub(super) closed: bool,
}

/// Where a frame was placed.
pub(super) enum Placed {
    /// In this lane.
    Lane(usize),
    /// In the waiting frames.
    Waiting,
    /// Nowhere: there is no room.
    Full(Waiting),
}

impl FrameQueue {
    pub(super) fn new(
        lanes: usize,
        window_bytes: usize,
        waiting_bytes_max: usize,
        spool_always: bool,
    ) -> Self {
        FrameQueue {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            turn: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            window_bytes,
            waiting_bytes_max,
            spool_always,
            number_next: 0,
            spooling_least: None,
            closing: false,
            closed: false,
        }
    }

    /// Sets the least number of the frames that will be pushed.
    pub(super) fn start_numbers(&mut self, next: u64) {
        self.number_next = next;
    }

    /// With numbers: no frame that is in the queue, being spooled, or pushed later has a lower one.
    pub(super) fn number_least(&self) -> u64 {
        let ready = self.lanes.iter().flat_map(|lane| &lane.ready);
        let numbers = ready.chain(&self.waiting).filter_map(|waiting| waiting.number);
        numbers.chain(self.spooling_least).min().unwrap_or(self.number_next)
    }

    /// Whether a frame with a number finds room: in the window of a store that is connected, or,
    /// unless `at_once`, in the waiting room.
    pub(super) fn accepts(&self, bytes: usize, at_once: bool) -> bool {
        let is_sent = self.waiting.is_empty() && self.lane_with_room(bytes).is_some();
        let may_wait = !at_once || self.spool_always;
        !self.closed && (is_sent || (may_wait && self.fits_waiting(bytes)))
    }

    fn fits_waiting(&self, bytes: usize) -> bool {
        self.waiting_bytes == 0 || self.waiting_bytes + bytes <= self.waiting_bytes_max
    }

    /// Places a frame. One with a number always finds a place: its caller has asked
    /// [`accepts`](Self::accepts), and it does not overtake frames that wait.
    pub(super) fn push(&mut self, waiting: Waiting) -> Placed {
        if let Some(number) = waiting.number {
            self.number_next = number + 1;
        }
        if !self.spool_always
            && (waiting.number.is_none() || self.waiting.is_empty())
            && let Some(lane) = self.lane_with_room(waiting.bytes())
        {
            self.turn = (lane + 1) % self.lanes.len();
            self.lanes[lane].bytes += waiting.bytes();
            self.lanes[lane].ready.push_back(waiting);
            return Placed::Lane(lane);
        }
        let bytes = waiting.bytes();
        if waiting.number.is_none() && !self.fits_waiting(bytes) {
            return Placed::Full(waiting);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(waiting);
        Placed::Waiting
    }

    fn lane_with_room(&self, bytes: usize) -> Option<usize> {
        let count = self.lanes.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        turns.into_iter().find(|&lane| self.lanes[lane].open && self.has_room(lane, bytes))
    }

    /// Whether a lane has room for `bytes` more bytes.
    pub(super) fn has_room(&self, lane: usize, bytes: usize) -> bool {
        let used = self.lanes[lane].bytes;
        used == 0 || used + bytes <= self.window_bytes
    }

    /// The next frame for a lane: one of its own, or a waiting one.
    pub(super) fn take(&mut self, lane: usize) -> Option<Waiting> {
        if let Some(ready) = self.lanes[lane].ready.pop_front() {
            return Some(ready);
        }
        if self.spool_always {
            return None;
        }
        let bytes = self.waiting.front()?.bytes();
        if !self.has_room(lane, bytes) {
            return None;
        }
        self.waiting_bytes -= bytes;
        self.lanes[lane].bytes += bytes;
        self.waiting.pop_front()
    }

    /// The next frame of a lane's own, if it has at most `bytes_max` bytes and is wanted.
    pub(super) fn take_small(
        &mut self,
        lane: usize,
        bytes_max: usize,
        is_wanted: fn(&Frame) -> bool,
    ) -> Option<Waiting> {
        let fits = |ready: &mut Waiting| ready.bytes() <= bytes_max && is_wanted(&ready.frame);
        self.lanes[lane].ready.pop_front_if(fits)
    }

    /// Takes back a frame that a lane could not send.
    pub(super) fn give_back(&mut self, lane: usize, waiting: Waiting) {
        self.lanes[lane].ready.push_front(waiting);
    }

    /// Counts bytes of frames from the spool that a lane sends.
    pub(super) fn add(&mut self, lane: usize, bytes: usize) {
        self.lanes[lane].bytes += bytes;
    }

    /// Releases the room of frames that left a lane.
    pub(super) fn release(&mut self, lane: usize, bytes: usize) {
        self.lanes[lane].bytes -= bytes;
    }

    /// Marks a lane as connected.
    pub(super) fn open(&mut self, lane: usize) {
        self.lanes[lane].open = true;
    }

    /// Marks a lane as disconnected: its unsent frames go back to the front of the waiting frames.
    /// Of its sent frames, `kept` bytes stay with the lane.
    pub(super) fn close(&mut self, lane: usize, kept: usize) {
        self.lanes[lane].open = false;
        while let Some(ready) = self.lanes[lane].ready.pop_back() {
            self.waiting_bytes += ready.bytes();
            self.waiting.push_front(ready);
        }
        self.lanes[lane].bytes = kept;
    }

    /// Whether at most half of the waiting room is used, so that a further frame finds room
    /// whatever the stores take.
    pub(super) fn has_room_to_wait(&self) -> bool {
        !self.closed && self.waiting_bytes <= self.waiting_bytes_max / 2
    }

    /// Whether any store is connected.
    pub(super) fn any_open(&self) -> bool {
        self.lanes.iter().any(|lane| lane.open)
    }

    /// When the first waiting frame arrived.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.since)
    }

    /// Takes the first waiting frames for the spool, up to `bytes` and at least one. Their room is
    /// released by [`spooled`](Self::spooled).
    pub(super) fn take_for_spool(&mut self, bytes: usize) -> VecDeque<Waiting> {
        let mut sum = 0;
        let fits = |waiting: &&Waiting| {
            sum += waiting.bytes();
            sum <= bytes || sum == waiting.bytes()
        };
        let count = self.waiting.iter().take_while(fits).count();
        let frames: VecDeque<Waiting> = self.waiting.drain(..count).collect();
        self.spooling_least = frames.iter().filter_map(|waiting| waiting.number).min();
        frames
    }

    /// Releases the room of frames that are spooled or given up.
    pub(super) fn spooled(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
        self.spooling_least = None;
    }

    /// Takes back frames that could not be spooled.
    pub(super) fn put_back(&mut self, frames: &mut VecDeque<Waiting>) {
        while let Some(waiting) = frames.pop_back() {
            self.waiting.push_front(waiting);
        }
        self.spooling_least = None;
    }

    /// Takes back frames that could not be spooled, but for those whose senders have waited for
    /// `awaited_max`: their room is released, and the caller tells the senders. Frames with numbers
    /// stay: the other copies may have them.
    pub(super) fn put_back_patient(
        &mut self,
        frames: &mut VecDeque<Waiting>,
        awaited_max: Duration,
    ) -> Vec<Waiting> {
        let is_over = |waiting: &Waiting| {
            waiting.patience == Patience::Awaited
                && waiting.number.is_none()
                && waiting.since.elapsed() >= awaited_max
        };
        let (over, mut patient) = frames.drain(..).partition::<VecDeque<_>, _>(is_over);
        self.put_back(&mut patient);
        self.waiting_bytes -= over.iter().map(Waiting::bytes).sum::<usize>();
        over.into()
    }

    /// Bytes of frames that wait for a store or the spool.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Bytes of a lane.
    pub(super) fn lane_bytes(&self, lane: usize) -> usize {
        self.lanes[lane].bytes
    }

    /// Whether no frame is waiting or in a lane.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting_bytes == 0 && self.lanes.iter().all(|lane| lane.bytes == 0)
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Transport};

    use super::*;

    fn waiting(bytes: usize) -> Waiting {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        // Header, run and origin take 96 bytes.
        builder.push_line(&origin, 1, &vec![b'x'; bytes - 97], false);
        let frame = builder.finish(1, 1).unwrap();
        assert_eq!(frame.bytes().len(), bytes);
        Waiting {
            frame,
            number: None,
            on_durable: Box::new(|_| {}),
            since: Instant::now(),
            patience: Patience::Unlimited,
        }
    }

    fn push(queue: &mut FrameQueue) -> Option<usize> {
        match queue.push(waiting(200)) {
            Placed::Lane(lane) => Some(lane),
            Placed::Waiting => None,
            Placed::Full(_) => panic!("full"),
        }
    }

    #[test]
    fn stores_take_turns_and_those_away_or_full_are_left_out() {
        let mut queue = FrameQueue::new(3, 600, 600, false);
        assert_eq!(push(&mut queue), None, "all are away");
        (0..3).for_each(|lane| queue.open(lane));
        assert_eq!(queue.take(1).unwrap().bytes(), 200, "what waits goes to who has room");
        assert_eq!((queue.waiting_bytes(), queue.lane_bytes(1)), (0, 200));
        let lanes: Vec<_> = (0..5).filter_map(|_| push(&mut queue)).collect();
        assert_eq!(lanes, [0, 1, 2, 0, 1]);
        queue.close(0, 0);
        assert_eq!((queue.waiting_bytes(), queue.lane_bytes(0)), (400, 0), "not sent: they wait");
        assert_eq!([push(&mut queue), push(&mut queue)], [Some(2), Some(2)]);
        assert_eq!(push(&mut queue), None);
        assert!(matches!(queue.push(waiting(200)), Placed::Full(_)), "600 bytes wait");
        assert!(queue.take(2).is_some());
        queue.release(2, 200);
        assert_eq!(push(&mut queue), Some(2));
    }

    #[test]
    fn frames_with_numbers_do_not_overtake_and_the_least_number_is_known() {
        let mut queue = FrameQueue::new(1, 600, 600, false);
        queue.start_numbers(5);
        assert_eq!(queue.number_least(), 5, "nothing came yet");
        let push = |queue: &mut FrameQueue, number| {
            assert!(queue.accepts(200, false));
            let placed = queue.push(Waiting { number: Some(number), ..waiting(200) });
            matches!(placed, Placed::Lane(0))
        };
        assert!(!push(&mut queue, 5), "the store is away");
        assert!(!queue.accepts(200, true));
        queue.open(0);
        assert!(!push(&mut queue, 6), "5 waits");
        assert!(!queue.accepts(200, true), "5 and 6 wait");
        assert_eq!(queue.take(0).unwrap().number, Some(5));
        assert_eq!(queue.number_least(), 6);
        assert_eq!(queue.take_for_spool(1).len(), 1);
        assert_eq!(queue.number_least(), 6, "not in the spool yet");
        assert!(push(&mut queue, 7));
        queue.spooled(200);
        assert_eq!(queue.number_least(), 7);
        assert!(queue.take(0).is_some());
        assert_eq!(queue.number_least(), 8, "7 is with the lane");
        assert!(queue.accepts(200, true));
        queue.closed = true;
        assert!(!queue.accepts(200, false));
    }

    #[test]
    fn frames_whose_senders_have_waited_enough_leave_the_queue() {
        let mut queue = FrameQueue::new(1, 600, 900, false);
        let numbered = Waiting { number: Some(1), ..waiting(200) };
        for (patience, frame) in [
            (Patience::Unlimited, waiting(200)),
            (Patience::Awaited, waiting(200)),
            (Patience::Awaited, numbered),
            (Patience::Awaited, waiting(208)),
        ] {
            queue.push(Waiting { patience, ..frame });
        }
        let mut frames = queue.take_for_spool(900);
        assert!(queue.put_back_patient(&mut frames, Duration::MAX).is_empty(), "none is over");
        assert_eq!(queue.waiting_bytes(), 808);
        let mut frames = queue.take_for_spool(900);
        let over = queue.put_back_patient(&mut frames, Duration::ZERO);
        assert_eq!(over.iter().map(Waiting::bytes).collect::<Vec<_>>(), [200, 208]);
        assert_eq!(queue.waiting_bytes(), 400);
        let left: Vec<_> = queue.take_for_spool(900).iter().map(|left| left.number).collect();
        assert_eq!(left, [None, Some(1)], "the order stays");
    }

    #[test]
    fn frames_taken_by_the_spool_count_until_written() {
        let mut queue = FrameQueue::new(1, 600, 600, true);
        queue.open(0);
        (0..3).for_each(|_| assert_eq!(push(&mut queue), None, "always by the spool"));
        assert!(queue.take(0).is_none());
        let mut frames = queue.take_for_spool(500);
        assert_eq!((frames.len(), queue.waiting_bytes()), (2, 600));
        queue.put_back(&mut frames);
        assert_eq!(queue.take_for_spool(1).len(), 1, "at least one");
        queue.spooled(200);
        assert_eq!((queue.waiting_bytes(), queue.is_idle()), (400, false));
    }
}
