//! Storing messages.

use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use krafka::KrafkaError;
use krafka::producer::{Acks, DeliveryHandle, Producer, RecordMetadata, murmur2};

use super::errors::{Call, explain};
use super::{Log, config::LINGER, number};
use crate::engines::error::{Error, ErrorKind};

/// How much longer than an append may take its outcome is waited for, before the library is
/// taken to hang.
const GRACE: Duration = Duration::from_secs(5);

/// A message with what consumers of other programs look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The partition, counted from 0.
    pub partition: u32,
    /// The key, by which compaction tells messages.
    pub key: Option<Bytes>,
    /// The message; `None` deletes the key when the topic is compacted.
    pub value: Option<Bytes>,
    /// The time in milliseconds since 1970; `None` for that of sending.
    pub time_ms: Option<i64>,
}

/// The partition of a key among `partitions`, as Kafka's own clients choose it.
pub fn partition_of_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// Messages that were submitted. They are stored, or not, whether or not they are waited for. `L`
/// refers to the log.
#[must_use = "an append that nobody waits for may have failed"]
#[derive(Debug)]
pub struct Pending<L> {
    log: L,
    handles: Vec<DeliveryHandle>,
    /// Why messages behind those with a handle were not submitted.
    failed: Option<Error>,
    count: usize,
    begun: Instant,
}

impl Log {
    /// Stores messages in a partition, in their order, and returns the offset of the first one.
    /// Each is sent when the one before it is acknowledged, so an error leaves a prefix of them in
    /// the log, and never one without those before it.
    ///
    /// Takes at most [`Config::append_time_max`](super::Config::append_time_max) for each message,
    /// and as long again until there is room for it.
    ///
    /// # Errors
    ///
    /// All kinds but [`ErrorKind::OutcomeUnknown`] say that no message is stored.
    pub fn append(&self, partition: u32, messages: &[&[u8]]) -> Result<u64, Error> {
        let mut first = None;
        for (stored, message) in messages.iter().enumerate() {
            let append = || self.submit(partition, &[message]).and_then(Pending::wait);
            let appended = self.meter.call(Error::is_failure, append);
            let offset = appended.map_err(|error| match stored {
                0 => error,
                _ => partly(stored, messages.len(), &error),
            })?;
            first.get_or_insert(offset);
        }
        first.ok_or_else(|| Error::new(ErrorKind::Refused, "there is no message to append", ""))
    }

    /// Begins to store messages, and returns before they are. Small messages share batches, and
    /// callers that submit more before they wait keep the brokers busy. The messages are stored in
    /// their order, but when one fails, those behind it may be stored without it.
    ///
    /// Blocks while messages of [`Config::buffer_bytes_max`](super::Config::buffer_bytes_max) wait,
    /// for at most [`Config::append_time_max`](super::Config::append_time_max). The messages are
    /// copied.
    pub fn submit(&self, partition: u32, messages: &[&[u8]]) -> Result<Pending<&Log>, Error> {
        submit(self, partition, messages)
    }

    /// As [`submit`](Log::submit), for callers that wait elsewhere. The brokers take the messages
    /// of a partition in the order in which they were submitted.
    pub fn submit_shared(
        self: &Arc<Self>,
        partition: u32,
        messages: &[&[u8]],
    ) -> Result<Pending<Arc<Log>>, Error> {
        let begun = Instant::now();
        let submitted = submit(Arc::clone(self), partition, messages);
        if let Err(error) = &submitted
            && error.is_failure()
        {
            self.meter.failed(begun, error);
        }
        submitted
    }

    /// Stores messages with keys, and returns the outcome of each: its offset, or why it is not
    /// stored. Takes as long as [`append`](Log::append).
    pub fn send(&self, records: Vec<Record>) -> Vec<Result<u64, Error>> {
        let count = records.len();
        match enqueue(self, records) {
            Ok(pending) => pending.outcomes(),
            Err(error) => vec![Err(error); count],
        }
    }

    fn enqueue(&self, records: Vec<Record>) -> Result<(Vec<DeliveryHandle>, Option<Error>), Error> {
        let producer = self.producer()?;
        let mut handles = Vec::with_capacity(records.len());
        for record in records {
            let partition = number(record.partition)?;
            let mut sent = krafka::Record::new(self.config.topic.as_str(), Bytes::new());
            sent = sent.partition(partition);
            sent = match record.value {
                Some(value) => sent.value(value),
                None => sent.without_value(),
            };
            if let Some(key) = record.key {
                sent = sent.key(key);
            }
            if let Some(time_ms) = record.time_ms {
                sent = sent.timestamp(time_ms);
            }
            match self.runtime().block_on(producer.enqueue(sent)) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    let explained = self.failed(&error);
                    return match handles.is_empty() {
                        true => Err(explained),
                        false => Ok((handles, Some(explained))),
                    };
                }
            }
        }
        Ok((handles, None))
    }

    /// The producer, made if there is none.
    pub(super) fn producer(&self) -> Result<Arc<Producer>, Error> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*producer {
            return Ok(Arc::clone(producer));
        }
        let config = &self.config;
        let (codec, level) = config.compression.codec();
        let builder = self
            .kafka
            .producer()
            .acks(Acks::All)
            .idempotent(true)
            .compression(codec)
            .compression_level(level)
            .batch_size(config.batch_bytes_max)
            .buffer_memory(config.buffer_bytes_max)
            .linger(LINGER)
            .max_block(config.append_time_max)
            .delivery_timeout(config.append_time_max.max(config.request_time_max + LINGER))
            .metrics_push(false);
        let made = Arc::new(self.other("the number of a producer", builder.build())?);
        *producer = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Explains why messages are not stored. The next append makes a new producer if this one can
    /// do no more.
    fn failed(&self, error: &KrafkaError) -> Error {
        if error.is_fatal() {
            self.producer.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        explain(error, Call::Append, &self.config)
    }
}

fn submit<L: Deref<Target = Log>>(
    log: L,
    partition: u32,
    messages: &[&[u8]],
) -> Result<Pending<L>, Error> {
    if messages.is_empty() {
        return Err(Error::new(ErrorKind::Refused, "there is no message to append", ""));
    }
    let record = |bytes: &&[u8]| Record {
        partition,
        key: None,
        value: Some(Bytes::copy_from_slice(bytes)),
        time_ms: None,
    };
    enqueue(log, messages.iter().map(record).collect())
}

fn enqueue<L: Deref<Target = Log>>(log: L, records: Vec<Record>) -> Result<Pending<L>, Error> {
    let (count, begun) = (records.len(), Instant::now());
    let (handles, failed) = log.enqueue(records)?;
    Ok(Pending { log, handles, failed, count, begun })
}

impl<L: Deref<Target = Log>> Pending<L> {
    /// Waits for the messages to be stored, and returns the offset of the first one. Takes at most
    /// [`Config::append_time_max`](super::Config::append_time_max) since they were submitted.
    ///
    /// # Errors
    ///
    /// All kinds but [`ErrorKind::OutcomeUnknown`] say that no message is stored.
    pub fn wait(self) -> Result<u64, Error> {
        let outcomes = self.outcomes();
        let count = outcomes.len();
        let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let is_unclear = outcomes.iter().flat_map(|outcome| outcome.as_ref().err());
        let is_unclear = is_unclear.into_iter().any(|e| e.kind == ErrorKind::OutcomeUnknown);
        let first = outcomes.first().cloned();
        let Some(error) = outcomes.into_iter().find_map(Result::err) else {
            return first.unwrap_or_else(|| Err(lost()));
        };
        if stored == 0 && !is_unclear {
            return Err(error);
        }
        Err(partly(stored, count, &error))
    }

    /// As [`outcomes`](Self::outcomes), and counts as a call of the engine.
    pub fn metered_outcomes(self) -> Vec<Result<u64, Error>>
    where
        L: Clone,
    {
        let (log, begun) = (self.log.clone(), self.begun);
        let outcomes = self.outcomes();
        let mut failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        log.meter.note(begun, failures.find(|error| error.is_failure()));
        outcomes
    }

    /// Waits for the messages, and returns the outcome of each: its offset, or why it is not known
    /// to be stored. Takes as long as [`wait`](Self::wait).
    pub fn outcomes(self) -> Vec<Result<u64, Error>> {
        let Pending { log, handles, failed, count, .. } = self;
        // The time of the first one covers all: they were submitted together.
        let time_max = log.config.append_time_max + log.config.request_time_max + GRACE;
        let all = futures_util::future::join_all(
            handles
                .into_iter()
                .map(|handle| async move { tokio::time::timeout(time_max, handle).await }),
        );
        let outcomes = log.runtime().block_on(all).into_iter();
        let outcome = |outcome| match outcome {
            Ok(Ok(stored)) => offset(&stored),
            Ok(Err(error)) => Err(log.failed(&error)),
            Err(_) => Err(lost()),
        };
        let mut outcomes: Vec<_> = outcomes.map(outcome).collect();
        // What was not submitted failed for the same reason as the first one that was not.
        let failed = failed.unwrap_or_else(|| Error::new(ErrorKind::Retriable, "not sent", ""));
        outcomes.resize(count, Err(failed));
        outcomes
    }
}

/// The offset of a message that is stored.
fn offset(stored: &RecordMetadata) -> Result<u64, Error> {
    u64::try_from(stored.offset).map_err(|_| {
        let what = "the message is stored, at an offset that the broker no longer knows";
        Error::new(ErrorKind::OutcomeUnknown, what, "")
    })
}

/// Some of the messages of a call are stored, or may be.
fn partly(stored: usize, count: usize, error: &Error) -> Error {
    let what = format!("{stored} of {count} messages are known to be stored: {}", error.what);
    Error::new(ErrorKind::OutcomeUnknown, what, &error.remedy)
}

fn lost() -> Error {
    let what = "the outcome of an append did not become known in time";
    Error::new(ErrorKind::OutcomeUnknown, what, "see the logs of the brokers")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are those of the tests of Kafka's own client.
    #[test]
    fn keys_go_where_other_clients_send_them() {
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("abc", 479_470_107),
        ] {
            let expected = hash.unsigned_abs();
            let expected = if hash < 0 { (hash & 0x7fff_ffff) as u32 } else { expected };
            assert_eq!(partition_of_key(key.as_bytes(), u32::MAX), expected, "{key}");
        }
        assert_eq!(partition_of_key(b"abc", 10), 7);
        assert_eq!(partition_of_key(b"abc", 0), 0);
    }
}
