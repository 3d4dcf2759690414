//! Appends frames to the log by the rules of a collector, step by step: the collector itself does
//! so in threads (`collector/src/node/log_lane.rs`), where no seed decides what comes next.
//!
//! Each partition has a lane. A frame stays with the lane that it was pushed to, also across a
//! restart: its copies can be recognised within one partition only. A lane has several appends
//! under way, so any of its frames may be in the log, or not, when others fail: here, the caller
//! says how many of the oldest frames an append passes over. Frames are removed when their append
//! succeeded. No append goes further than [`APPEND_WINDOW`] numbers beyond the oldest frame that is
//! left, which is what [`crate::Duplicates`] relies on.
//!
//! Left out: the spool, which the simulated collector has.

use std::collections::VecDeque;
use std::sync::Arc;

use record::Frame;
use record::frame::APPEND_WINDOW;

use crate::error::LogError;
use crate::frame_log::FrameLog;

/// Limits of a producer.
#[derive(Clone, Copy, Debug)]
pub struct ProducerSettings {
    /// Bytes of frames that wait in all lanes. Beyond, [`Producer::push`] refuses, and the sources
    /// push their senders back.
    pub waiting_bytes_max: usize,
    /// Bytes of one append; a larger frame goes alone.
    pub append_bytes_max: usize,
    /// How far the number of an appended frame may be above that of the oldest in its lane.
    pub window: u64,
}

impl ProducerSettings {
    /// With the window that readers expect.
    pub fn new(waiting_bytes_max: usize, append_bytes_max: usize) -> ProducerSettings {
        ProducerSettings { waiting_bytes_max, append_bytes_max, window: APPEND_WINDOW }
    }
}

/// Why a frame was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{waiting_bytes} bytes of frames wait for the log already; the sender waits")]
pub struct Full {
    /// What waits.
    pub waiting_bytes: usize,
}

/// Frames that are in the log, or that the log will never take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The partition.
    pub partition: u32,
    /// Sequence numbers of the frames.
    pub sequences: Vec<u64>,
}

struct Lane {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    failed: bool,
}

/// The lanes of one collector to all partitions; stepped by one thread.
pub struct Producer {
    lanes: Vec<Lane>,
    settings: ProducerSettings,
    bytes: usize,
    /// Where the search for the next lane begins.
    next: usize,
}

impl Producer {
    /// A producer for so many partitions.
    pub fn new(partitions: u32, settings: ProducerSettings) -> Producer {
        let mut producer = Producer { lanes: Vec::new(), settings, bytes: 0, next: 0 };
        producer.grow(partitions);
        producer
    }

    /// Adds lanes when the log has more partitions than before.
    pub fn grow(&mut self, partitions: u32) {
        let lane = || Lane { frames: VecDeque::new(), bytes: 0, failed: false };
        let count = self.lanes.len().max(partitions as usize);
        self.lanes.resize_with(count, lane);
    }

    /// The partition that the next frame is best pushed to: one that works, with the least waiting.
    pub fn choose(&mut self) -> u32 {
        let count = self.lanes.len().max(1);
        let order = (0..self.lanes.len()).map(|index| (self.next + index) % count);
        let best = order.min_by_key(|&index| (self.lanes[index].failed, self.lanes[index].bytes));
        let best = best.unwrap_or(0);
        self.next = (best + 1) % count;
        best as u32
    }

    /// Appends a frame to a lane. Frames come in the order of their sequence numbers.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn push(&mut self, partition: u32, frame: Arc<Frame>) -> Result<(), Full> {
        if self.bytes > 0 && self.bytes + frame.bytes().len() > self.settings.waiting_bytes_max {
            return Err(Full { waiting_bytes: self.bytes });
        }
        let lane = &mut self.lanes[partition as usize];
        lane.bytes += frame.bytes().len();
        self.bytes += frame.bytes().len();
        lane.frames.push_back(frame);
        Ok(())
    }

    /// Bytes that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes
    }

    /// Partitions with frames that wait.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        let lanes = self.lanes.iter().enumerate();
        lanes.filter(|(_, lane)| !lane.frames.is_empty()).map(|(index, _)| index as u32)
    }

    /// Appends frames of a lane, with one call of the log: those behind the `passed` oldest ones,
    /// as far as the window permits, else the oldest. After an error the caller waits a little and
    /// steps again. Frames that the log refuses stay in the lane: the operator sees the error, and
    /// [`give_up`](Self::give_up) removes them.
    pub fn step(
        &mut self,
        log: &dyn FrameLog,
        partition: u32,
        passed: usize,
    ) -> Result<Appended, LogError> {
        let lane = &mut self.lanes[partition as usize];
        let number = |frame: &Arc<Frame>| frame.header().name().1;
        let Some(oldest) = lane.frames.front().map(number) else {
            return Ok(Appended { partition, sequences: Vec::new() });
        };
        let is_near =
            |frame: &&Arc<Frame>| number(frame).saturating_sub(oldest) <= self.settings.window;
        let near = lane.frames.iter().take_while(is_near).count();
        let first = if passed < near { passed } else { 0 };
        let mut bytes = 0;
        let fits = |frame: &&Arc<Frame>| {
            bytes += frame.bytes().len();
            bytes <= self.settings.append_bytes_max
        };
        // A frame that is larger than the limit goes alone.
        let count = lane.frames.range(first..near).take_while(fits).count().max(1);
        let frames = lane.frames.range(first..first + count);
        let messages: Vec<&[u8]> = frames.map(|frame| frame.bytes()).collect();
        match log.append(partition, &messages) {
            Ok(_) => {
                lane.failed = false;
                Ok(Appended { partition, sequences: self.remove(partition, first, count) })
            }
            Err(error) => {
                lane.failed = true;
                Err(error)
            }
        }
    }

    /// Removes the oldest frame of a lane, which the log refuses.
    pub fn give_up(&mut self, partition: u32) -> Appended {
        Appended { partition, sequences: self.remove(partition, 0, 1) }
    }

    fn remove(&mut self, partition: u32, first: usize, count: usize) -> Vec<u64> {
        let lane = &mut self.lanes[partition as usize];
        let end = (first + count).min(lane.frames.len());
        let removed = lane.frames.drain(first.min(end)..end);
        let mut sequences = Vec::with_capacity(count);
        for frame in removed {
            lane.bytes -= frame.bytes().len();
            self.bytes -= frame.bytes().len();
            sequences.push(frame.header().name().1);
        }
        sequences
    }
}
