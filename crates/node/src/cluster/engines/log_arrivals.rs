//! The lines of all partitions behind a cursor, as sinks read them: straight from the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::engines::kafka::Log;
use cluster::{Duplicates, FrameLog, LogError, NodeId, Stall};
use record::{Batch, Frame};

use super::log_cursor::LogCursor;
use super::{Engines, append};
use crate::storage::arrivals::{Arrivals, Arrived, Skipped};
use crate::storage::stored::Parsers;

/// How long a read of a partition that has messages waits for them.
const READ_WAIT: Duration = Duration::from_secs(2);
/// How long reads may bring nothing although the partition has more, before it is reached anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads the partitions in turn, over connections of its own. For one reader.
pub struct LogArrivals {
    engines: Arc<Engines>,
    parsers: Arc<Parsers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Option<Arc<Log>>,
    /// The partition that is looked at first.
    turn: usize,
    /// For each partition the offset behind what was read, and the frames that were seen.
    seen: HashMap<u32, (u64, Duplicates)>,
    /// The partitions that bring nothing although they have more.
    stalls: HashMap<u32, Stall>,
    /// The ends of all partitions when they were last looked at.
    ends: Vec<u64>,
}

impl LogArrivals {
    /// Connects to nothing yet.
    pub fn new(engines: Arc<Engines>, parsers: Arc<Parsers>) -> LogArrivals {
        LogArrivals { engines, parsers, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> Result<Arc<Log>, String> {
        let mut state = self.state();
        if let Some(log) = &state.log {
            return Ok(Arc::clone(log));
        }
        if let Some(why) = self.engines.other_log() {
            return Err(why);
        }
        let log = Arc::new(append::connect(&self.engines.config.kafka)?);
        log.set_bases(self.engines.catalog.log_bases().map_err(|error| error.to_string())?);
        state.log = Some(Arc::clone(&log));
        Ok(log)
    }

    fn ends(&self, log: &Log) -> Result<Vec<u64>, String> {
        let ends = FrameLog::ends(log).map_err(|error| error.to_string())?;
        self.state().ends.clone_from(&ends);
        Ok(ends)
    }

    /// Reads some messages of a partition that has more from an offset on. Returns the records of
    /// their frames, the offset behind them, and messages that the log deleted before.
    fn read(
        &self,
        log: &Log,
        partition: u32,
        from: u64,
        bytes: usize,
    ) -> Result<(Vec<Arc<Batch>>, u64, u64), String> {
        if let Some(why) = self.engines.other_log() {
            return Err(why);
        }
        let messages = match FrameLog::read(log, partition, from, bytes, READ_WAIT) {
            Ok(messages) => messages,
            Err(LogError::OutOfRange { start, end, .. }) if start > from && end >= start => {
                return Ok((Vec::new(), start, start - from));
            }
            Err(error) => return Err(error.to_string()),
        };
        let mut state = self.state();
        if messages.is_empty() {
            let stall = state.stalls.entry(partition).or_default();
            if stall.is_renewal_due(PATIENCE, self.engines.clock.monotonic_ns()) {
                tracing::info!("sinks: partition {partition} brings nothing, and is reached anew");
                FrameLog::renew(log, partition);
            }
            return Ok((Vec::new(), from, 0));
        }
        state.stalls.remove(&partition);
        let (end, duplicates) = state.seen.entry(partition).or_default();
        if *end != from {
            // It is read again, or by another cursor: what was seen does not count.
            *duplicates = Duplicates::default();
        }
        *end = from;
        let mut batches = Vec::new();
        for message in messages.into_iter().filter(|message| message.offset >= from) {
            *end = message.offset.saturating_add(1);
            // The owner of the partition logs and counts what is no frame.
            let Ok(frame) = Frame::decode(message.bytes) else { continue };
            let (node, sequence) = frame.header().name();
            if duplicates.is_new(NodeId(node), sequence) {
                batches.push(Arc::new(self.parsers.parse(Arc::new(frame))));
            }
        }
        Ok((batches, *end, 0))
    }
}

impl Arrivals for LogArrivals {
    fn first(&self) -> Result<String, String> {
        let log = self.log()?;
        let mut cursor = LogCursor::default();
        for partition in 0..self.ends(&log)?.len() as u32 {
            let bounds = FrameLog::bounds(&*log, partition).map_err(|error| error.to_string())?;
            cursor.set(partition, bounds.start);
        }
        Ok(cursor.to_string())
    }

    fn now(&self) -> Result<String, String> {
        let ends = self.ends(&*self.log()?)?;
        Ok(LogCursor(ends).to_string())
    }

    fn after(&self, cursor: &str, bytes: u64) -> Result<Option<Arrived>, String> {
        let mut cursor = LogCursor::parse(cursor)?;
        let log = self.log()?;
        let ends = self.ends(&log)?;
        let first = {
            let mut state = self.state();
            state.turn = state.turn.wrapping_add(1);
            state.turn
        };
        let (mut arrived, mut messages_skipped) = (Vec::new(), 0);
        let mut read_bytes = 0;
        let mut has_moved = false;
        for step in 0..ends.len() {
            let partition = first.wrapping_add(step) % ends.len();
            let (number, from) = (partition as u32, cursor.offset(partition as u32));
            if from >= ends[partition] || read_bytes >= bytes {
                continue;
            }
            let room = usize::try_from(bytes - read_bytes).unwrap_or(usize::MAX);
            let (batches, next, skipped) = self.read(&log, number, from, room)?;
            read_bytes += batches.iter().map(|batch| batch.raw_bytes()).sum::<u64>();
            arrived.extend(batches);
            messages_skipped += skipped;
            has_moved |= next > from;
            cursor.set(number, next);
        }
        let skipped = Skipped::Messages(messages_skipped);
        let arrived = Arrived { batches: arrived, next: cursor.to_string(), skipped };
        Ok(has_moved.then_some(arrived))
    }

    fn frames_left(&self, cursor: &str) -> u64 {
        LogCursor::parse(cursor).map_or(0, |cursor| cursor.left(&self.state().ends))
    }

    fn check(&self, cursor: &str) -> Result<(), String> {
        LogCursor::parse(cursor).map(drop)
    }
}
