//! Reads a partition of the log into its hot part.

use std::sync::Arc;
use std::time::Duration;

use record::Frame;

use crate::duplicates::Duplicates;
use crate::error::LogError;
use crate::frame_log::{FrameLog, Message};
use crate::hot::{HotFrame, HotPart};
use crate::ids::NodeId;
use crate::member::nanos;

/// Limits of a reader.
#[derive(Clone, Copy, Debug)]
pub struct ReaderSettings {
    /// Bytes of one read of the log.
    pub read_bytes_max: usize,
    /// Bytes of frames that are not published. Beyond, nothing is read until something is
    /// published; the frames wait in the log.
    pub unpublished_bytes_max: usize,
    /// How long reads may bring nothing although the log has more, before the partition is reached
    /// anew ([`FrameLog::renew`]).
    pub patience: Duration,
}

/// Most doublings of the patience, while renewals do not help.
const PATIENCE_DOUBLINGS_MAX: u32 = 4;

/// Notices that reads bring nothing although the log has more: the broker that was read from is
/// gone, or answers without telling what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// When the first read came back empty, or the partition was reached anew last.
    since_ns: Option<u64>,
    renewals: u32,
}

impl Stall {
    /// Reads bring what there is.
    pub fn end(&mut self) {
        *self = Stall::default();
    }

    /// A read brought nothing although the log has more. True if the partition is to be reached
    /// anew now; each time after a longer wait.
    pub fn is_renewal_due(&mut self, patience: Duration, now_ns: u64) -> bool {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let wait = patience.saturating_mul(1 << self.renewals.min(PATIENCE_DOUBLINGS_MAX));
        let is_due = now_ns.saturating_sub(since_ns) >= nanos(wait);
        if is_due {
            self.since_ns = Some(now_ns);
            self.renewals += 1;
        }
        is_due
    }

    /// Whether reaching the partition anew did not help.
    pub fn is_trouble(&self) -> bool {
        self.renewals > 1
    }
}

/// What a step read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// New frames.
    pub frames: u64,
    /// Copies of frames, which were dropped.
    pub duplicates: u64,
    /// Messages that are no frames, which were passed over.
    pub rejected: u64,
    /// Messages that the log deleted before they were read.
    pub lost: u64,
    /// Whether nothing was read because too much is not published.
    pub is_full: bool,
    /// Whether the partition is reached anew with the next step, since reads bring nothing although
    /// the log has more.
    pub is_renewed: bool,
    /// Whether that was done before, and did not help.
    pub is_stalled: bool,
}

/// Reads a partition of the log into its hot part; stepped by one thread.
pub struct Reader {
    partition: u32,
    hot: Arc<HotPart>,
    duplicates: Duplicates,
    settings: ReaderSettings,
    stall: Stall,
}

impl Reader {
    /// Resumes at the position of `hot`.
    pub(crate) fn new(
        partition: u32,
        hot: Arc<HotPart>,
        duplicates: Duplicates,
        settings: ReaderSettings,
    ) -> Reader {
        Reader { partition, hot, duplicates, settings, stall: Stall::default() }
    }

    /// Reads what is there, with one call of the log, which waits up to `wait` for a message.
    ///
    /// An empty answer is not taken for "there is nothing": while the end that the hot part was
    /// told of ([`HotPart::hear_end`]) is ahead, the partition is reached anew from time to time.
    pub fn step(
        &mut self,
        log: &dyn FrameLog,
        wait: Duration,
        now_ns: u64,
    ) -> Result<Taken, LogError> {
        let mut taken = Taken::default();
        if self.hot.bytes_unpublished() >= self.settings.unpublished_bytes_max {
            taken.is_full = true;
            return Ok(taken);
        }
        let position = self.hot.position();
        match log.read(self.partition, position, self.settings.read_bytes_max, wait) {
            Ok(messages) => {
                self.take(messages, position, now_ns, &mut taken);
                self.look_for_stall(log, position, now_ns, &mut taken);
            }
            // The log deleted messages unread: they are lost. What follows is not.
            Err(LogError::OutOfRange { start, end, .. }) if start > position && end >= start => {
                taken.lost = start - position;
                self.hot.append(Vec::new(), start, taken.lost, now_ns);
            }
            Err(error) => return Err(error),
        }
        Ok(taken)
    }

    fn look_for_stall(&mut self, log: &dyn FrameLog, before: u64, now_ns: u64, taken: &mut Taken) {
        let position = self.hot.position();
        if position > before || self.hot.end() <= position {
            self.stall.end();
            return;
        }
        if self.stall.is_renewal_due(self.settings.patience, now_ns) {
            log.renew(self.partition);
            taken.is_renewed = true;
        }
        taken.is_stalled = self.stall.is_trouble();
    }

    fn take(&mut self, messages: Vec<Message>, position: u64, now_ns: u64, taken: &mut Taken) {
        let mut frames = Vec::with_capacity(messages.len());
        let mut end = position;
        for Message { offset, bytes } in messages {
            // A log may answer with whole batches, which begin before what was asked for.
            if offset < end {
                continue;
            }
            end = offset.saturating_add(1);
            match Frame::decode(bytes) {
                Ok(frame) => {
                    let (node, sequence) = frame.header().name();
                    if self.duplicates.is_new(NodeId(node), sequence) {
                        taken.frames += 1;
                        frames.push(HotFrame { offset, frame: Arc::new(frame) });
                    } else {
                        taken.duplicates += 1;
                    }
                }
                Err(error) => {
                    taken.rejected += 1;
                    let partition = self.partition;
                    log::warn!(
                        "partition {partition}, offset {offset}: message passed over: {error}"
                    );
                }
            }
        }
        self.hot.append(frames, end, 0, now_ns);
    }
}
