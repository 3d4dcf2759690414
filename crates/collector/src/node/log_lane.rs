//! The thread of one partition of a log: appends frames, and keeps those that the log did not
//! acknowledge.
//!
//! A frame is numbered when it is appended for the first time, and stays with its partition from
//! then on. A partition takes one batch of messages after the other, so small frames that wait
//! together are joined into one before it is numbered. While one append is under way, the next one
//! begins, so that the log never waits for the collector. A frame is acknowledged as soon as the
//! log has it, also if one before it failed.
//!
//! When an append fails, the lane waits for the other ones to end. The frames that the log did not
//! acknowledge are bound to the partition in the spool (or kept in memory while the disk fails),
//! and appended again with the same numbers before any later frame.
//!
//! Invariant: a frame is appended only while its number is at most [`APPEND_WINDOW`] greater than
//! that of the oldest frame that is numbered and not acknowledged. Readers of the log recognise
//! copies by that (`cluster/src/duplicates.rs`). So files of the spool that are bound to the
//! partition are appended before anything is numbered, and frames of a file and of memory are never
//! under way together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use platform::pauses::{PANIC_PAUSE, Pauses};
use record::Frame;
use record::frame::APPEND_WINDOW;

use super::directory::NumberOwner;
use super::forward_state::ForwardState;
use super::lane::SPOOL_RETRY;
use super::lane_handle::LaneHandle;
use super::lock;
use super::spool::{BoundReader, JOINED_BYTES_MAX, join, keep_damaged};
use super::status::Link;
use crate::deliver::{KeepError, OnDurable};

/// Bytes of frames that are appended with one call; a larger frame goes alone.
const APPEND_BYTES_MAX: usize = 4 << 20;
/// Appends of a partition that are under way at the same time.
///
/// limits.md, Nodes of a cluster: appends of a partition that a collector has under way | {} |
/// further frames wait in its queue
const APPENDS_MAX: usize = 2;
/// Bytes that are appended from memory before files of the spool have their turn, although more
/// frames wait in memory.
const TURN_BYTES: usize = 32 << 20;
/// Frames below this size are joined, which copies their lines. Larger ones are worth a message.
const SMALL_BYTES: usize = 64 << 10;
/// Pauses after appends that failed.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(5));
/// How long the lane waits for frames before it looks for files of the spool again.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// A log of several partitions that frames are appended to.
pub trait AppendLog: Send + Sync {
    /// Its name, for people: `topic loginson at broker1:9092`.
    fn name(&self) -> String;

    /// Begins to append messages to a partition, behind those of earlier calls. May block while too
    /// much is under way.
    ///
    /// Errors: none of the messages is appended, the text says why.
    fn begin(&self, partition: u32, messages: &[&[u8]]) -> Result<Box<dyn Appending>, String>;
}

/// An append that is under way. Dropping it does not end it.
pub trait Appending: Send {
    /// Waits for the outcome of each message, in their order: whether it is durable in the log, or
    /// why that is not known. Such a message may be in the log, also if one before it is not.
    fn end(self: Box<Self>) -> Vec<Result<(), String>>;
}

/// A frame with its number, which is in its header.
struct Numbered {
    frame: Frame,
    /// The bytes that the queue counts for it: those of the frames that it was joined of.
    queued_bytes: usize,
    /// Whom to notify; none for a frame of a file.
    on_durable: Vec<OnDurable>,
    state: HeldState,
}

impl Numbered {
    fn sequence(&self) -> u64 {
        self.frame.header().sequence
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldState {
    /// It is to be appended, for the first time or again.
    Waits,
    UnderWay,
    /// The log has it, and lacks one before it.
    Durable,
}

/// An append that is under way.
struct Call {
    /// The numbers of its frames.
    numbers: Vec<u64>,
    appending: Box<dyn Appending>,
}

/// Whether a frame is joined with others: a small one, and none of our own lines, which are told
/// apart by their frames.
fn is_joined(frame: &Frame) -> bool {
    frame.bytes().len() < SMALL_BYTES && frame.header().flags == 0
}

/// The state of the thread of one partition.
pub(super) struct LogLane {
    shared: Arc<ForwardState>,
    log: Arc<dyn AppendLog>,
    index: usize,
    poll: Poll,
    /// Numbered frames from the oldest on that the log did not acknowledge yet, by their numbers.
    /// The queue counts the bytes of those that are not durable.
    held: VecDeque<Numbered>,
    /// Appends under way, the oldest first.
    calls: VecDeque<Call>,
    /// The file that is being appended.
    file: Option<BoundReader>,
    /// Whether files of the spool may be bound to the partition already.
    may_be_bound: bool,
    /// Whether the next frames are taken from the spool if there are frames in memory too.
    is_file_turn: bool,
    /// Bytes that were appended from memory in its turn.
    turn_bytes: usize,
    /// Whether another thread had the spool when the next file was asked for.
    is_spool_busy: bool,
}

impl LogLane {
    pub(super) fn new(
        shared: Arc<ForwardState>,
        log: Arc<dyn AppendLog>,
        index: usize,
        poll: Poll,
    ) -> LogLane {
        LogLane {
            shared,
            log,
            index,
            poll,
            held: VecDeque::new(),
            calls: VecDeque::new(),
            file: None,
            may_be_bound: true,
            is_file_turn: true,
            turn_bytes: 0,
            is_spool_busy: false,
        }
    }

    fn out(&self) -> &LaneHandle {
        &self.shared.lanes[self.index]
    }

    /// The bytes that the queue counts for the held frames.
    fn queued_bytes(&self) -> usize {
        let not_durable = self.held.iter().filter(|held| held.state != HeldState::Durable);
        not_durable.map(|held| held.queued_bytes).sum()
    }

    /// What the spool and the numbers know the partition by.
    fn key(&self) -> u32 {
        self.index as u32 + 1
    }

    /// Runs until the lane is stopped, and resumes after panics.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        lock(&self.out().state).store = Some(self.key());
        // Until an append fails, the log counts as there.
        shared.queue().open(self.index);
        while shared.survive(|| self.serve()).is_none() {
            // Its frames are read from the start of the file again, which makes copies, not gaps.
            (self.file, self.may_be_bound) = (None, true);
            let _ = self.end_calls();
            self.sleep(PANIC_PAUSE);
        }
        self.end();
    }

    fn serve(&mut self) {
        let mut pauses = PAUSES;
        while !self.out().is_stopped() {
            match self.step() {
                Ok(true) => pauses.reset(),
                Ok(false) => self.wait_for_frames(),
                Err(error) => {
                    // Until all have ended it is not known which frames are to be appended again.
                    let _ = self.end_calls();
                    self.note_away(error);
                    self.bind_held();
                    self.sleep(pauses.spread_pause());
                }
            }
        }
    }

    /// Begins appends as long as there are frames for them, and waits for the oldest; false when
    /// there is nothing to append.
    fn step(&mut self) -> Result<bool, String> {
        self.is_spool_busy = false;
        while self.calls.len() < APPENDS_MAX && self.begin_call()? {}
        let Some(oldest) = self.calls.pop_front() else {
            self.finish_file();
            return Ok(false);
        };
        self.end_call(oldest)?;
        self.note_there();
        Ok(true)
    }

    /// Begins to append the next frames; false when there are none, or the oldest ones have to be
    /// acknowledged before.
    fn begin_call(&mut self) -> Result<bool, String> {
        let waits = |held: &Numbered| held.state == HeldState::Waits;
        if !self.held.iter().any(waits) {
            self.fill()?;
        }
        let Some(oldest) = self.held.front().map(Numbered::sequence) else { return Ok(false) };
        let mut bytes = 0;
        let near =
            self.held.iter_mut().take_while(|held| held.sequence() - oldest <= APPEND_WINDOW);
        let fits = |held: &&mut Numbered| {
            let is_first = bytes == 0;
            bytes += held.frame.bytes().len();
            is_first || bytes <= APPEND_BYTES_MAX
        };
        let next: Vec<&mut Numbered> = near.filter(|held| waits(held)).take_while(fits).collect();
        if next.is_empty() {
            return Ok(false);
        }
        let messages: Vec<&[u8]> = next.iter().map(|held| held.frame.bytes()).collect();
        let appending = self.log.begin(self.index as u32, &messages)?;
        let mut numbers = Vec::with_capacity(next.len());
        for held in next {
            held.state = HeldState::UnderWay;
            numbers.push(held.sequence());
        }
        self.calls.push_back(Call { numbers, appending });
        Ok(true)
    }

    /// Waits for an append. Its frames that failed wait again.
    fn end_call(&mut self, call: Call) -> Result<(), String> {
        let mut outcomes = call.appending.end().into_iter();
        let mut failed = Ok(());
        for number in call.numbers {
            let outcome = outcomes.next().unwrap_or_else(|| Err("the outcome is lost".to_owned()));
            let Some(held) = self.held.iter_mut().find(|held| held.sequence() == number) else {
                continue;
            };
            held.state = match outcome {
                Ok(()) => HeldState::Durable,
                Err(error) => {
                    failed = failed.and(Err(error));
                    HeldState::Waits
                }
            };
        }
        self.acknowledge();
        failed
    }

    /// Waits for all appends. The first error is returned.
    fn end_calls(&mut self) -> Result<(), String> {
        let mut failed = Ok(());
        while let Some(call) = self.calls.pop_front() {
            failed = failed.and(self.end_call(call));
        }
        // Those of a call that panicked.
        for held in self.held.iter_mut().filter(|held| held.state == HeldState::UnderWay) {
            held.state = HeldState::Waits;
        }
        failed
    }

    /// Takes the next frames, all from a file or all from memory: a file is appended as a whole
    /// before frames that are numbered later. While frames are held, none are taken of the other
    /// kind.
    fn fill(&mut self) -> Result<(), String> {
        if self.file.is_none() {
            if !self.held.is_empty() {
                // Nothing is numbered before the frames of bound files are appended.
                return match !self.may_be_bound && self.turn_bytes < TURN_BYTES {
                    true => self.fill_from_memory(),
                    false => Ok(()),
                };
            }
            self.turn_bytes = 0;
            let is_file_turn = self.is_file_turn;
            self.is_file_turn = !is_file_turn;
            let has_file = self.open_bound()? || is_file_turn && self.take_free()?;
            if !has_file {
                self.fill_from_memory()?;
                if !self.held.is_empty() || !self.take_free()? {
                    return Ok(());
                }
            }
        }
        self.fill_from_file()
    }

    /// Opens the oldest file that is bound to the partition already.
    fn open_bound(&mut self) -> Result<bool, String> {
        if !self.may_be_bound {
            return Ok(false);
        }
        // Its frames come first, so nothing is appended until the files are known.
        let mut spool = self.shared.spool();
        let files = spool.bound_to(self.key()).map_err(|error| error.to_string())?;
        let Some(oldest) = files.first() else {
            self.may_be_bound = false;
            return Ok(false);
        };
        self.file = Some(spool.read(oldest).map_err(|error| error.to_string())?);
        Ok(true)
    }

    /// Binds the oldest unbound file to the partition. False if there is none, or while another
    /// thread has the spool, which is noted.
    fn take_free(&mut self) -> Result<bool, String> {
        let Some(mut spool) = self.shared.try_spool() else {
            self.is_spool_busy = true;
            return Ok(false);
        };
        let frames = spool.free_frames().map_err(|error| error.to_string())?;
        let Some(frames) = frames else { return Ok(false) };
        let numbers =
            lock(&self.shared.directory).issue_numbers(NumberOwner::Store(self.key()), frames);
        let first = numbers.map_err(|error| error.to_string())?;
        // After an error it may be bound all the same.
        self.may_be_bound = true;
        let taken = spool.take_joined(self.key(), first);
        let read = taken.and_then(|bound| bound.map(|bound| spool.read(&bound)).transpose());
        self.file = read.map_err(|error| error.to_string())?;
        Ok(self.file.is_some())
    }

    fn fill_from_file(&mut self) -> Result<(), String> {
        let (mut bytes, mut is_read) = (0, false);
        while bytes < APPEND_BYTES_MAX && !is_read {
            let file = self.file.as_mut().expect("a file is open");
            match file.next_frame() {
                Some(Ok(frame)) => {
                    let queued_bytes = frame.bytes().len();
                    bytes += queued_bytes;
                    let on_durable = Vec::new();
                    let state = HeldState::Waits;
                    self.held.push_back(Numbered { frame, queued_bytes, on_durable, state });
                }
                Some(Err((error, lines))) => {
                    tracing::error!("{error}; its {lines} lines are lost");
                    keep_damaged(&mut self.shared.spool(), file.bound.id);
                    self.shared.lines_damaged.fetch_add(lines, Relaxed);
                }
                None => is_read = true,
            }
        }
        self.shared.queue().add(self.index, bytes);
        if self.held.is_empty() {
            self.finish_file();
        }
        Ok(())
    }

    /// Removes the file if all its frames are acknowledged.
    fn finish_file(&mut self) {
        if !self.held.is_empty() {
            return;
        }
        if let Some(file) = self.file.take_if(|file| file.is_read())
            && let Err(error) = self.shared.spool().remove(file.bound.id)
        {
            tracing::warn!("{error}; it is tried again after the next start");
        }
    }

    fn fill_from_memory(&mut self) -> Result<(), String> {
        let mut bytes = 0;
        while bytes < APPEND_BYTES_MAX {
            let Some(first) = self.shared.queue().take(self.index) else { break };
            let number =
                lock(&self.shared.directory).issue_numbers(NumberOwner::Store(self.key()), 1);
            let number = match number {
                Ok(number) => number,
                Err(error) => {
                    self.shared.queue().give_back(self.index, first);
                    return Err(error.to_string());
                }
            };
            let (mut frames, mut queued_bytes) = (Vec::new(), 0);
            let mut on_durable = Vec::new();
            let mut next = Some(first);
            while let Some(waiting) = next.take() {
                queued_bytes += waiting.bytes();
                frames.push(waiting.frame);
                on_durable.push(waiting.on_durable);
                if frames.last().is_some_and(is_joined) {
                    let room = (JOINED_BYTES_MAX as usize).saturating_sub(queued_bytes);
                    next = self.shared.queue().take_small(self.index, room, is_joined);
                }
            }
            let mut frame = join(&mut frames).expect("there is a frame");
            frame.set_sequence(number);
            bytes += frame.bytes().len();
            let state = HeldState::Waits;
            self.held.push_back(Numbered { frame, queued_bytes, on_durable, state });
        }
        self.turn_bytes += bytes;
        Ok(())
    }

    /// Tells the senders of frames that became durable, and forgets those that lack none before
    /// them.
    fn acknowledge(&mut self) {
        let (mut queued_bytes, mut frames, mut bytes, mut lines) = (0, 0, 0, 0);
        let durable = self.held.iter_mut().filter(|held| held.state == HeldState::Durable);
        // A frame that became durable before has no bytes in the queue any more.
        for held in durable.filter(|held| held.queued_bytes > 0) {
            queued_bytes += std::mem::take(&mut held.queued_bytes);
            frames += 1;
            bytes += held.frame.bytes().len();
            lines += u64::from(held.frame.header().lines);
            held.on_durable.drain(..).for_each(|on_durable| on_durable(Ok(())));
        }
        while self.held.pop_front_if(|held| held.state == HeldState::Durable).is_some() {}
        let out = &self.shared.lanes[self.index];
        out.frames_acknowledged.fetch_add(frames, Relaxed);
        out.lines_acknowledged.fetch_add(lines, Relaxed);
        out.bytes_sent.fetch_add(bytes as u64, Relaxed);
        self.shared.queue().release(self.index, queued_bytes);
        self.shared.notify();
        self.finish_file();
    }

    /// Moves held frames that are in memory alone into the spool, if there is room. Those of a file
    /// are there already.
    fn bind_held(&mut self) {
        self.held.retain(|held| held.state != HeldState::Durable);
        if self.held.iter().all(|held| held.on_durable.is_empty()) {
            return;
        }
        let bytes: usize = self.held.iter().map(|held| held.frame.bytes().len()).sum();
        let queued_bytes = self.queued_bytes();
        let mut numbered: Vec<(u64, &mut Frame)> = self
            .held
            .iter_mut()
            .map(|held| (held.frame.header().sequence, &mut held.frame))
            .collect();
        let key = self.index as u32 + 1;
        let mut spool = self.shared.spool();
        let bound = match spool.has_room(numbered.len(), bytes as u64) {
            true => spool.bind(key, &mut numbered).map_err(|error| error.to_string()),
            false => Err("the spool has reached its limit".to_owned()),
        };
        drop(spool);
        match bound {
            Ok(()) => {
                self.may_be_bound = true;
                for held in self.held.drain(..) {
                    held.on_durable.into_iter().for_each(|on_durable| on_durable(Ok(())));
                }
                self.shared.queue().release(self.index, queued_bytes);
                self.shared.notify();
            }
            Err(error) => {
                // Binding numbers frames by their place in the file.
                for (number, frame) in numbered {
                    frame.set_sequence(number);
                }
                tracing::warn!("{bytes} bytes for a log that is away stay in memory: {error}");
            }
        }
    }

    fn note_there(&self) {
        let mut state = lock(&self.out().state);
        if matches!(state.link, Link::Connected) {
            return;
        }
        let was_away = matches!(state.link, Link::Away { .. });
        (state.link, state.since) = (Link::Connected, Instant::now());
        drop(state);
        self.out().connects.fetch_add(1, Relaxed);
        self.shared.queue().open(self.index);
        self.shared.notify();
        if was_away {
            tracing::info!("{} takes frames again (partition {})", self.log.name(), self.index);
        }
    }

    fn note_away(&self, error: String) {
        self.shared.queue().close(self.index, self.queued_bytes());
        self.shared.notify();
        if self.out().set_away(&error) {
            let (name, index) = (self.log.name(), self.index);
            let dir = self.shared.config.spool_dir.display();
            tracing::warn!(
                "{name} does not take frames for partition {index}: {error}; lines wait in {dir}, and are sent again"
            );
        }
    }

    fn wait_for_frames(&mut self) {
        self.sleep_until_woken(self.idle_max());
    }

    /// How long frames are waited for before the spool is asked again.
    fn idle_max(&self) -> Duration {
        if self.is_spool_busy { SPOOL_RETRY } else { IDLE_MAX }
    }

    fn sleep(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while !self.out().is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.sleep_until_woken(left);
        }
    }

    fn sleep_until_woken(&mut self, time: Duration) {
        let mut events = Events::with_capacity(8);
        // An interrupted wait is a short one.
        let _ = self.poll.poll(&mut events, Some(time));
    }

    /// Binds what is left to the spool; what finds no room there is given up.
    fn end(&mut self) {
        if let Err(error) = self.end_calls() {
            self.note_away(error);
        }
        self.bind_held();
        let queued_bytes = self.queued_bytes();
        for on_durable in self.held.drain(..).flat_map(|held| held.on_durable) {
            on_durable(Err(KeepError::NoRoom));
        }
        let mut queue = self.shared.queue();
        queue.release(self.index, queued_bytes);
        queue.close(self.index, 0);
        drop(queue);
        self.shared.notify();
    }
}

#[cfg(test)]
mod tests;
