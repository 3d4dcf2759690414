//! A log in memory.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::LogError;
use crate::frame_log::{FrameLog, Message};

#[derive(Default)]
struct Part {
    start: u64,
    messages: Vec<Vec<u8>>,
    /// Reads bring nothing until the partition was reached anew so many times.
    renewals_needed: u32,
}

/// A log in memory; reads never wait.
pub struct SimLog {
    parts: Vec<Mutex<Part>>,
}

impl SimLog {
    /// An empty log.
    pub fn new(partitions: u32) -> SimLog {
        SimLog { parts: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    /// Deletes messages below an offset, as retention of the log would.
    pub fn delete_below(&self, partition: u32, offset: u64) {
        let _ = self.with(partition, |part| {
            let count = offset.saturating_sub(part.start).min(part.messages.len() as u64);
            part.messages.drain(..count as usize);
            part.start += count;
        });
    }

    /// Lets reads of a partition bring nothing, whatever it has, until it was reached anew so many
    /// times: what a reader sees whose broker is gone.
    pub fn wedge(&self, partition: u32, renewals: u32) {
        let _ = self.with(partition, |part| part.renewals_needed = renewals);
    }

    fn with<T>(&self, partition: u32, run: impl FnOnce(&mut Part) -> T) -> Result<T, LogError> {
        let part = self.parts.get(partition as usize);
        let part = part.ok_or_else(|| LogError::Refused(format!("no partition {partition}")))?;
        Ok(run(&mut part.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl FrameLog for SimLog {
    fn partitions(&self) -> Result<u32, LogError> {
        Ok(self.parts.len() as u32)
    }

    fn append(&self, partition: u32, messages: &[&[u8]]) -> Result<u64, LogError> {
        self.with(partition, |part| {
            let offset = part.start + part.messages.len() as u64;
            part.messages.extend(messages.iter().map(|message| message.to_vec()));
            offset
        })
    }

    fn read(
        &self,
        partition: u32,
        from: u64,
        bytes_max: usize,
        _: Duration,
    ) -> Result<Vec<Message>, LogError> {
        self.with(partition, |part| {
            let end = part.start + part.messages.len() as u64;
            if from < part.start || from > end {
                return Err(LogError::OutOfRange { wanted: from, start: part.start, end });
            }
            if part.renewals_needed > 0 {
                return Ok(Vec::new());
            }
            let mut bytes = 0;
            let messages =
                part.messages.iter().zip(part.start..).skip((from - part.start) as usize);
            let fits = messages.take_while(|(message, offset)| {
                bytes += message.len();
                bytes <= bytes_max || *offset == from
            });
            Ok(fits.map(|(bytes, offset)| Message { offset, bytes: bytes.clone() }).collect())
        })?
    }

    fn renew(&self, partition: u32) {
        let _ = self.with(partition, |part| {
            part.renewals_needed = part.renewals_needed.saturating_sub(1);
        });
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        self.with(partition, |part| part.start..part.start + part.messages.len() as u64)
    }
}
