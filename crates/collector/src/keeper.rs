//! A [`Deliver`] for tests: it keeps frames at once, holds them until told, or loses them, and
//! returns the lines it kept.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use record::{Frame, Origin};

use crate::deliver::{Deliver, KeepError, OnDurable, Patience};
use crate::file::Recall;

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// Keeps frames at once, or holds them until told.
#[derive(Default)]
pub struct Keeper {
    state: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Default)]
struct Kept {
    sequence: u64,
    frames: Vec<Frame>,
    hold: bool,
    held: Vec<(Frame, OnDurable)>,
    /// How many of the next frames are lost.
    lose: usize,
    lost: usize,
    full: bool,
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap()
    }

    /// Loses the next `frames` frames.
    pub fn lose(&self, frames: usize) {
        self.lock().lose = frames;
    }

    /// Sets whether the disk is full.
    pub fn fill(&self, full: bool) {
        self.lock().full = full;
    }

    /// Removes the held frames and returns them.
    pub fn take_held(&self) -> Vec<(Frame, OnDurable)> {
        std::mem::take(&mut self.lock().held)
    }

    /// Waits until `lines` lines have arrived in kept or held frames.
    pub fn wait_for_lines(&self, lines: usize) {
        let count = |frame: &Frame| frame.header().lines as usize;
        self.wait_until("lines", |state| {
            let held = state.held.iter().map(|held| count(&held.0)).sum::<usize>();
            state.frames.iter().map(count).sum::<usize>() + held >= lines
        });
    }

    /// How many frames were lost.
    pub fn lost(&self) -> usize {
        self.lock().lost
    }

    /// Waits until `frames` frames were lost.
    pub fn wait_for_lost(&self, frames: usize) {
        self.wait_until("frames that are not kept", |state| state.lost >= frames);
    }

    fn wait_until(&self, what: &str, reached: impl Fn(&Kept) -> bool) {
        let wait = self.changed.wait_timeout_while(self.lock(), PATIENCE, |state| !reached(state));
        assert!(!wait.unwrap().1.timed_out(), "no {what} came");
    }

    /// Makes the first of the held frames durable.
    pub fn release(&self, frames: usize) {
        let mut state = self.lock();
        let frames = frames.min(state.held.len());
        let released: Vec<_> = state.held.drain(..frames).collect();
        drop(state);
        for (frame, on_durable) in released {
            self.lock().frames.push(frame);
            on_durable(Ok(()));
        }
    }

    /// Loses the first of the held frames.
    pub fn lose_held(&self, frames: usize) {
        let lost: Vec<_> = self.lock().held.drain(..frames).collect();
        for (_, on_durable) in lost {
            on_durable(Err(KeepError::Failed("broken".into())));
        }
    }

    /// Sets whether frames are held from now on.
    pub fn hold(&self, hold: bool) {
        self.lock().hold = hold;
        if !hold {
            self.release(usize::MAX);
        }
    }

    /// Simulates a crash: the first `frames` of the held frames are kept, the others are lost, and
    /// nobody is notified.
    pub fn crash(&self, frames: usize) {
        let mut state = self.lock();
        let mut held = std::mem::take(&mut state.held);
        held.truncate(frames);
        state.frames.extend(held.into_iter().map(|(frame, _)| frame));
        state.hold = false;
    }

    pub fn lines(&self) -> Vec<(String, Origin)> {
        let state = self.lock();
        let line = |line: record::frame::Line<'_>| {
            (String::from_utf8_lossy(line.bytes).into_owned(), line.origin.clone())
        };
        state.frames.iter().flat_map(|frame| frame.lines().map(line)).collect()
    }
}

impl Deliver for Keeper {
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
        assert_eq!(patience, Patience::Unlimited);
        let mut state = self.lock();
        let result = match state.lose {
            0 => Ok(()),
            _ => Err(KeepError::Failed("broken".into())),
        };
        let answered = match &result {
            Ok(()) if state.hold => {
                state.held.push((frame, on_durable));
                None
            }
            Ok(()) => {
                state.frames.push(frame);
                Some(on_durable)
            }
            Err(_) => {
                state.lose -= 1;
                state.lost += 1;
                Some(on_durable)
            }
        };
        drop(state);
        if let Some(on_durable) = answered {
            on_durable(result.clone());
        }
        self.changed.notify_all();
        result
    }

    fn refusal(&self) -> Option<KeepError> {
        self.lock().full.then_some(KeepError::DiskFull)
    }
}

impl Recall for Arc<Keeper> {
    fn lines_since(
        &self,
        sequence: u64,
        each: &mut dyn FnMut(&Origin, &[u8]),
    ) -> Result<(), String> {
        let state = self.lock();
        for frame in state.frames.iter().filter(|frame| frame.header().sequence > sequence) {
            frame.lines().for_each(|line| each(line.origin, line.bytes));
        }
        Ok(())
    }
}
