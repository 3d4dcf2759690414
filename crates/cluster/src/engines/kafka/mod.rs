//! A log of messages in a topic of Apache Kafka (from version 3.9), by the library `krafka`.
//!
//! A topic has partitions; each is a sequence of messages with growing offsets. A message is opaque
//! bytes, up to what the topic permits (`max.message.bytes`).
//!
//! What is promised:
//!
//! - **An append that returned an offset is stored** by all replicas in sync (`acks=all`; how many
//!   these must be is `min.insync.replicas` of the topic).
//! - **The library repeats without duplicates.** It numbers the batches of each partition, and
//!   brokers drop those that they have (`enable.idempotence`). Duplicates come from callers alone:
//!   one that repeats an append which ended with [`ErrorKind::OutcomeUnknown`], or that was killed
//!   before it learnt the outcome, may store messages twice.
//! - **Messages of one [`Log::append`] are stored in their order**, each when the one before it is
//!   stored. A message that the broker takes late, after its time was over, comes before those that
//!   the same [`Log`] stores afterwards, or not at all: brokers refuse the older epoch of a
//!   producer.
//! - **Calls end.** Each states how long it takes at most.
//! - **Memory is bounded**: by [`Config::buffer_bytes_max`] for messages that wait to be
//!   acknowledged, and by [`Config::fetch_bytes_max`] for each partition that is read.
//!
//! The readers of a cluster are assigned partitions by leases of our own. Topics of others are read
//! by a group of consumers ([`Group`]).
//!
//! Left out: transactions; Kerberos and OAuth.
//!
//! [`ErrorKind::OutcomeUnknown`]: crate::engines::ErrorKind::OutcomeUnknown

mod append;
mod config;
mod errors;
mod group;
mod read;
mod topic;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use krafka::Kafka;
use krafka::admin::{
    AdminClient, DescribeTopicsOptions, ListOffsetsOptions, OffsetSpec, TopicPartition,
};
use krafka::error::ErrorCode;
use krafka::producer::Producer;

pub use append::{Pending, Record, partition_of_key};
pub use config::{Compression, Config, Mechanism, Sasl, Tls};
pub use group::{Assignments, Begin, Group, GroupConfig, Partition, Received};
pub use read::Message;
pub use topic::{Retention, TopicSettings};

use crate::engines::error::{Error, ErrorKind};
use crate::engines::meter::{Meter, Metered};
use crate::engines::runtime::Runtime;
use errors::{Call, explain};
use read::Reader;

/// Threads of the library: one encodes and sends, one receives.
const THREADS: usize = 2;

/// A topic of a cluster of brokers. It may be used by several threads at the same time.
pub struct Log {
    config: Config,
    /// Connections for everything but reading. A broker answers the requests of a connection in
    /// their order, so a read that waits for messages would delay what follows it.
    kafka: Kafka,
    /// Made with the first append; a new one is made when it has failed for good.
    producer: Mutex<Option<Arc<Producer>>>,
    /// One for each partition that was read, with connections of its own.
    readers: Mutex<HashMap<u32, Arc<Mutex<Reader>>>>,
    meter: Meter,
    /// What is added to the offsets of each partition for the catalog; see [`Log::set_bases`].
    bases: RwLock<Vec<i64>>,
    /// Dropped last.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Log {
    /// Connects to one of the brokers, which takes at most [`Config::request_time_max`]. The topic
    /// need not be there.
    pub fn connect(config: Config) -> Result<Log, Error> {
        let builder = config.builder()?;
        let runtime = Runtime::start("kafka", THREADS)?;
        let kafka = runtime
            .block_for(config.request_time_max, builder.connect())
            .unwrap_or_else(|| Err(krafka::KrafkaError::timeout("connecting")))
            .map_err(|error| explain(&error, Call::Other, &config))?;
        Ok(Log {
            config,
            kafka,
            producer: Mutex::default(),
            readers: Mutex::default(),
            meter: Meter::default(),
            bases: RwLock::default(),
            runtime: Some(runtime),
        })
    }

    /// From now on, the cluster counts the messages of each partition from another number on: the
    /// first one here is where another log ended that this one goes on for. It concerns
    /// [`crate::FrameLog`], [`known_ends`](Self::known_ends) and
    /// [`written_since`](Self::written_since).
    pub fn set_bases(&self, bases: Vec<i64>) {
        *self.bases.write().unwrap_or_else(PoisonError::into_inner) = bases;
    }

    fn base(&self, partition: u32) -> i64 {
        let bases = self.bases.read().unwrap_or_else(PoisonError::into_inner);
        bases.get(partition as usize).copied().unwrap_or(0)
    }

    /// The offset of the cluster for one of the log.
    pub(crate) fn counted(&self, partition: u32, offset: u64) -> u64 {
        offset.saturating_add_signed(self.base(partition))
    }

    /// The offset of the log for one of the cluster.
    pub(crate) fn stored(&self, partition: u32, offset: u64) -> u64 {
        offset.saturating_add_signed(self.base(partition).saturating_neg())
    }

    /// The options.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The calls so far. Reads wait for messages, so those that succeed are not counted.
    pub fn metered(&self) -> Metered {
        self.meter.read()
    }

    /// Partitions of the topic; their number only grows. Takes at most twice
    /// [`Config::request_time_max`]. If [`Config::creates_topic`] says so, the topic is created
    /// where there is none, and the answer may be five minutes old.
    pub fn partitions(&self) -> Result<u32, Error> {
        let count = match self.config.creates_topic {
            // Brokers create a topic for those that are about to write to it.
            true => {
                let producer = self.producer()?;
                let found = producer.partitions_for(&self.config.topic);
                self.other("the partitions", found)?.len()
            }
            false => self.describe()?.partitions.len(),
        };
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The offsets that are stored in a partition: of the first message, and behind the last one.
    /// Takes at most [`Config::request_time_max`].
    pub fn bounds(&self, partition: u32) -> Result<Range<u64>, Error> {
        let start = self.listed(partition, OffsetSpec::Earliest)?;
        let end = self.listed(partition, OffsetSpec::Latest)?;
        Ok(start..end.max(start))
    }

    /// Behind the last message of each partition, in their order. Takes at most three times
    /// [`Config::request_time_max`].
    pub fn ends(&self) -> Result<Vec<u64>, Error> {
        let ends = self.offsets(&self.places()?, OffsetSpec::Latest)?;
        Ok(ends.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The offset of the first message of each partition that was written at a time or later, in
    /// milliseconds since 1970 by the clocks of producers; `None` where there is no such message.
    /// Takes as long as [`ends`](Log::ends).
    pub fn written_since(&self, time_ms: i64) -> Result<Vec<Option<u64>>, Error> {
        let offsets = self.offsets(&self.places()?, OffsetSpec::Timestamp(time_ms))?;
        let of = |(partition, offset): (u32, Option<u64>)| {
            offset.map(|offset| self.counted(partition, offset))
        };
        Ok((0..).zip(offsets).map(of).collect())
    }

    fn places(&self) -> Result<Vec<TopicPartition>, Error> {
        let topic = &self.config.topic;
        let place = |partition| Ok(TopicPartition::new(topic.clone(), number(partition)?));
        (0..self.partitions()?).map(place).collect()
    }

    /// As [`ends`](Self::ends), for each partition by itself, within `time_max`. Partitions without
    /// a leader that answers are none. `partitions`: how many there were, for brokers that do not
    /// tell it now; 0 if nobody knows.
    ///
    /// Errors: no broker answers.
    pub fn known_ends(
        &self,
        partitions: u32,
        time_max: Duration,
    ) -> Result<Vec<Option<u64>>, Error> {
        let partitions = match self.partitions_within(time_max / 3) {
            Ok(found) => found.max(partitions),
            Err(error) if partitions == 0 => return Err(error),
            Err(_) => partitions,
        };
        let time_max = time_max * 2 / 3;
        let topic = &self.config.topic;
        let place = |partition| Ok(TopicPartition::new(topic.clone(), number(partition)?));
        let places = (0..partitions).map(place).collect::<Result<Vec<_>, Error>>()?;
        // The call ends earlier than its time, and tells what it found.
        let admin = self.kafka.admin().metrics_push(false).default_api_timeout(time_max * 9 / 10);
        let wanted = places.iter().cloned().map(|place| (place, OffsetSpec::Latest));
        self.meter.call(Error::is_failure, || {
            let call = admin.list_offsets(wanted, ListOffsetsOptions::default());
            let mut found = self
                .runtime()
                .block_for(time_max, call)
                .unwrap_or_else(|| Err(krafka::KrafkaError::timeout("the offsets")))
                .map_err(|error| explain(&error, Call::Other, &self.config))?;
            let mut failed = None;
            let mut ends = Vec::with_capacity(places.len());
            for (partition, place) in (0..).zip(&places) {
                ends.push(match found.remove(place) {
                    Some(Ok(listed)) => {
                        Some(self.counted(partition, u64::try_from(listed.offset).unwrap_or(0)))
                    }
                    Some(Err(error)) => {
                        failed = Some(error);
                        None
                    }
                    None => None,
                });
            }
            // The log does not answer at all: that counts as a failure.
            match failed {
                Some(error) if ends.iter().all(Option::is_none) => {
                    Err(explain(&error, Call::Other, &self.config))
                }
                _ => Ok(ends),
            }
        })
    }

    fn partitions_within(&self, time_max: Duration) -> Result<u32, Error> {
        let name = self.config.topic.as_str();
        let admin = self.kafka.admin().metrics_push(false).default_api_timeout(time_max * 9 / 10);
        let call = admin.describe_topics([name], DescribeTopicsOptions::default());
        let found = self.runtime().block_for(time_max, call);
        let found = found.unwrap_or_else(|| Err(krafka::KrafkaError::timeout("the topic")));
        let found = found.and_then(|mut found| {
            found.remove(name).unwrap_or_else(|| Err(krafka::KrafkaError::unknown_topic(name)))
        });
        let found = found.map_err(|error| explain(&error, Call::Other, &self.config))?;
        Ok(u32::try_from(found.partitions.len()).unwrap_or(u32::MAX))
    }

    fn listed(&self, partition: u32, spec: OffsetSpec) -> Result<u64, Error> {
        let place = TopicPartition::new(self.config.topic.clone(), number(partition)?);
        Ok(self.offsets(&[place], spec)?[0].unwrap_or_default())
    }

    /// An offset of each partition, in their order; `None` if there is no message since the time
    /// that is asked for. One that cannot be told fails the call.
    fn offsets(
        &self,
        places: &[TopicPartition],
        spec: OffsetSpec,
    ) -> Result<Vec<Option<u64>>, Error> {
        let admin = self.admin();
        let is_time = matches!(spec, OffsetSpec::Timestamp(_));
        self.other("the offsets", async {
            let wanted = places.iter().cloned().map(|place| (place, spec));
            let mut found = admin.list_offsets(wanted, ListOffsetsOptions::default()).await?;
            let offset = |place| {
                let found = found.remove(place);
                let missing = || Err(krafka::KrafkaError::timeout("the offsets"));
                match found.unwrap_or_else(missing) {
                    // The library says so when the broker has no such message.
                    Err(krafka::KrafkaError::Broker {
                        code: ErrorCode::OffsetNotAvailable,
                        ..
                    }) if is_time => Ok(None),
                    listed => Ok(u64::try_from(listed?.offset).ok()),
                }
            };
            places.iter().map(offset).collect()
        })
    }

    fn admin(&self) -> AdminClient {
        let admin = self.kafka.admin().metrics_push(false);
        // Its last error says more than that the time is over.
        admin.default_api_timeout(self.config.request_time_max * 9 / 10)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the log is dropped")
    }

    /// Runs a call that may be repeated, for at most [`Config::request_time_max`].
    fn other<T>(
        &self,
        what: &str,
        call: impl Future<Output = krafka::Result<T>>,
    ) -> Result<T, Error> {
        self.meter.call(Error::is_failure, || {
            self.runtime()
                .block_for(self.config.request_time_max, call)
                .unwrap_or_else(|| Err(krafka::KrafkaError::timeout(what)))
                .map_err(|error| explain(&error, Call::Other, &self.config))
        })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let producer = self.producer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let readers = self.readers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let readers: Vec<_> = readers.drain().map(|(_, reader)| reader).collect();
        let Some(runtime) = self.runtime.take() else { return };
        runtime.end_with(async move {
            // Both have nothing under way: callers waited, or gave up waiting.
            if let Some(producer) = producer {
                let _ = producer.close().await;
            }
            drop(readers);
        });
    }
}

/// A partition as the protocol numbers it.
fn number(partition: u32) -> Result<i32, Error> {
    i32::try_from(partition).map_err(|_| {
        let what = format!("there is no partition {partition}");
        Error::new(ErrorKind::NotFound, what, "partitions are numbered from 0")
    })
}
