//! What is told of the source: whether it reads, and the counts of each topic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Offsets;

/// Topics that are counted by themselves.
///
/// limits.md, Lines on their way in: topics of Kafka that are counted by themselves | {} | further
/// ones are counted as the topic `other`
const TOPICS_MAX: usize = 1_000;
const OTHER: &str = "other";

/// State of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaStatus {
    /// The group.
    pub group: String,
    /// The brokers answer.
    pub reading: bool,
    /// Why they do not; it is tried again.
    pub error: Option<String>,
    /// Times that the brokers failed.
    pub errors: u64,
    /// Times that the checkpoint could not be written.
    pub checkpoints_failed: u64,
    /// Records that the brokers deleted before they were read.
    pub records_lost: u64,
    /// By topic.
    pub topics: BTreeMap<String, TopicStatus>,
}

/// Counts of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicStatus {
    /// Records that were read.
    pub records: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Of these records, those without a value.
    pub empty: u64,
    /// Of these records, those that were kept as they came because they cannot be decoded.
    pub undecoded: u64,
    /// Records within values that were not taken.
    pub rejected: u64,
    /// Partitions that are assigned.
    pub partitions: u64,
    /// Records of these that are not durable.
    pub lag: u64,
}

pub(super) struct Board {
    status: Mutex<KafkaStatus>,
    offsets: Arc<Offsets>,
}

impl Board {
    pub fn new(group: &str, offsets: Arc<Offsets>) -> Board {
        let status = KafkaStatus { group: group.to_owned(), ..KafkaStatus::default() };
        Board { status: Mutex::new(status), offsets }
    }

    /// A panic leaves counts that are whole.
    fn lock(&self) -> MutexGuard<'_, KafkaStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn reading(&self) {
        let mut status = self.lock();
        if !status.reading {
            (status.reading, status.error) = (true, None);
        }
    }

    pub fn failed(&self, error: &str) {
        let mut status = self.lock();
        (status.reading, status.error) = (false, Some(error.to_owned()));
        status.errors += 1;
    }

    pub fn checkpoint_failed(&self) {
        self.lock().checkpoints_failed += 1;
    }

    pub fn count(&self, topic: &str, counts: &TopicStatus) {
        let mut status = self.lock();
        let topic = status.topic(topic);
        topic.records += counts.records;
        topic.bytes += counts.bytes;
        topic.empty += counts.empty;
        topic.undecoded += counts.undecoded;
        topic.rejected += counts.rejected;
    }

    pub fn status(&self) -> KafkaStatus {
        let mut status = self.lock().clone();
        status.records_lost = self.offsets.records_lost();
        for lag in self.offsets.lags() {
            let topic = status.topic(&lag.topic);
            topic.partitions += 1;
            topic.lag += lag.records;
        }
        status
    }
}

impl KafkaStatus {
    fn topic(&mut self, name: &str) -> &mut TopicStatus {
        let is_known = self.topics.len() < TOPICS_MAX || self.topics.contains_key(name);
        self.topics.entry(if is_known { name } else { OTHER }.to_owned()).or_default()
    }
}
