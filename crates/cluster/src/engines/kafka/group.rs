//! Reading topics of others as a member of a group of consumers.
//!
//! The brokers divide the partitions of the topics among the members. Where a partition begins is
//! decided by [`Assignments`], which is asked with the offset that the group has committed: so one
//! that keeps offsets of its own goes on behind them. The member is *static*: the brokers know it
//! by a name that it keeps across restarts, and give it its partitions back when it returns within
//! [`SESSION_MAX`].
//!
//! - **Nothing is fetched ahead.** All records that a poll fetched are returned by it or by the
//!   next ones before more is fetched.
//! - **Partitions are given up within [`Group::poll`]**, in the calling thread: what
//!   [`Assignments`] returns for them is committed before another member gets them.
//! - **Memory is bounded** by [`POLL_RECORDS_MAX`], by [`Config::fetch_bytes_max`] of each broker,
//!   and by [`BATCH_BYTES_MAX`] for a batch that was compressed.
//! - **Calls end**, after the time that each states.
//!
//! Left out: offsets within transactions; of a transaction that was aborted nothing is returned.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use krafka::admin::ListTopicsOptions;
use krafka::consumer::{
    AutoOffsetReset, Consumer, ConsumerRebalanceListener, ConsumerRecord, IsolationLevel,
    OffsetAndMetadata, PartitionAssignmentStrategy, TopicPartition,
};
use krafka::{CloseOptions, GroupMembershipOperation, Kafka, KrafkaError};

use super::errors::{Call, explain};
use super::{Config, THREADS};
use crate::engines::error::Error;
use crate::engines::runtime::Runtime;

/// For how long a member may be away and still get its partitions back; for as long nobody reads
/// the partitions of one that does not come back.
pub const SESSION_MAX: Duration = Duration::from_secs(45);
/// Longest time between two polls. A member that takes longer loses its partitions.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(300);
/// How long brokers wait until there is [`FETCH_BYTES_MIN`] to fetch.
const FETCH_WAIT: Duration = Duration::from_millis(100);
const FETCH_BYTES_MIN: i32 = 1 << 20;
/// Records that one poll returns.
const POLL_RECORDS_MAX: i32 = 20_000;
/// A batch that takes more when it is decompressed fails the poll.
///
/// limits.md, Lines on their way in: a batch of records of Kafka, decompressed | {} | its partition
/// is not read further, which is reported; let producers send smaller batches
const BATCH_BYTES_MAX: usize = 128 << 20;
/// How often brokers are asked which topics there are.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// Longest time for giving partitions up within a poll.
const REVOKE_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest time for leaving the group; brokers that are away would not answer for longer.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
/// How old the knowledge may be which broker leads a partition. Until it is renewed, a partition
/// whose leader is gone seems to have no records.
const METADATA_AGE_MAX: Duration = Duration::from_secs(10);

/// Options of a [`Group`].
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// How brokers are reached; the topic is only named in messages.
    pub brokers: Config,
    /// The name of the group.
    pub group: String,
    /// The name of this member, which no other member of the group has.
    pub member: String,
    /// The topics; a name that ends in `*` means all with that prefix.
    pub topics: Vec<String>,
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<str>,
    /// Its number.
    pub number: u32,
}

/// Where a partition is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At this offset.
    At(u64),
    /// At its first record.
    First,
    /// Behind its last record.
    End,
}

/// Keeps offsets for a member. Called within [`Group::poll`].
pub trait Assignments: Send + Sync {
    /// Where a partition begins that this member is about to read. `topic_id` is zero where the
    /// broker tells none; `committed` is the offset that the group has committed.
    fn begin(&self, partition: &Partition, topic_id: [u8; 16], committed: Option<u64>) -> Begin;
    /// The partition is read from this offset.
    fn begun(&self, partition: &Partition, offset: u64);
    /// The offset that was to be read is not there; the partition has these offsets.
    fn outside(&self, partition: &Partition, first: u64, end: u64) -> Begin;
    /// Partitions are about to be given up: waits until what was read of them is decided, and
    /// returns the offsets that others go on from.
    fn revoke(&self, partitions: &[Partition]) -> Vec<(Partition, u64)>;
    /// Partitions were lost to others.
    fn lose(&self, partitions: &[Partition]);
}

/// A record of a topic.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its topic, shared by the records of a fetch.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: u32,
    /// Its place there.
    pub offset: u64,
    /// Its time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its content; `None` for a deletion.
    pub value: Option<Bytes>,
    /// Its headers, in their order.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A member of a group.
pub struct Group {
    config: GroupConfig,
    kafka: Kafka,
    consumer: Arc<Consumer>,
    listener: Arc<Listener>,
    /// The topics that are read, sorted.
    topics: Vec<String>,
    looked: Option<Instant>,
    is_paused: bool,
    /// Dropped last.
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Group {
    /// Connects to one of the brokers, which takes at most twice [`Config::request_time_max`]. The
    /// group is joined by the first polls.
    pub fn connect(config: GroupConfig, with: Arc<dyn Assignments>) -> Result<Group, Error> {
        let builder = config.brokers.builder()?.metadata_max_age(METADATA_AGE_MAX);
        let runtime = Runtime::start("kafka", THREADS)?;
        let listener =
            Arc::new(Listener { with, consumer: OnceLock::new(), trouble: Mutex::default() });
        let time_max = config.brokers.request_time_max * 2;
        let connected = limited(&runtime, time_max, "connecting", async {
            let kafka = builder.connect().await?;
            let consumer = consumer(&kafka, &config, &listener).await?;
            Ok((kafka, Arc::new(consumer)))
        });
        let (kafka, consumer) =
            connected.map_err(|error| explain(&error, Call::Other, &config.brokers))?;
        let _ = listener.consumer.set(Arc::downgrade(&consumer));
        Ok(Group {
            config,
            kafka,
            consumer,
            listener,
            topics: Vec::new(),
            looked: None,
            is_paused: false,
            runtime: Some(runtime),
        })
    }

    /// Returns records, or none after `wait`. Partitions are assigned and given up within this
    /// call, so it takes up to a minute more than twice [`Config::request_time_max`]. After an
    /// error the member is dropped, and another one connects.
    pub fn poll(&mut self, wait: Duration) -> Result<Vec<Received>, Error> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL) {
            self.look_for_topics()?;
        }
        if self.topics.is_empty() {
            std::thread::sleep(wait);
            return Ok(Vec::new());
        }
        let time_max = wait + self.config.brokers.request_time_max * 2 + REVOKE_TIME_MAX * 2;
        let polled = self.run(time_max, "reading", self.consumer.poll(wait));
        if let Some(error) = lock(&self.listener.trouble).take() {
            return Err(self.explain(&error));
        }
        match polled {
            Ok(records) => Ok(records.into_iter().map(received).collect()),
            Err(KrafkaError::NoOffset { partitions, .. }) => {
                let found = self.run(time_max, "the offsets", self.listener.go_inside(&partitions));
                found.map_err(|error| self.explain(&error))?;
                Ok(Vec::new())
            }
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Commits offsets for others to see. Takes at most [`Config::request_time_max`].
    pub fn commit(&self, offsets: &[(Partition, u64)]) -> Result<(), Error> {
        let time_max = self.config.brokers.request_time_max;
        let done = self.run(time_max, "a commit", commit(&self.consumer, offsets));
        done.map_err(|error| self.explain(&error))
    }

    /// Reads on from other offsets; a partition that is not assigned is left out.
    pub fn seek(&self, offsets: &[(Partition, u64)]) -> Result<(), Error> {
        let time_max = self.config.brokers.request_time_max;
        let done = self.run(time_max, "a seek", async {
            for (partition, offset) in offsets {
                // An error says that it is not assigned any more.
                let _ = seek(&self.consumer, partition, *offset).await;
            }
            Ok(())
        });
        done.map_err(|error| self.explain(&error))
    }

    /// Stops returning records of the assigned partitions, or goes on with it. The membership is
    /// kept by polls as before.
    pub fn pause(&mut self, is_paused: bool) {
        if std::mem::replace(&mut self.is_paused, is_paused) == is_paused && !is_paused {
            return;
        }
        let _ = self.run(self.config.brokers.request_time_max, "a pause", async {
            for (topic, numbers) in self.consumer.assignment().await {
                match is_paused {
                    true => self.consumer.pause(&topic, &numbers).await,
                    false => self.consumer.resume(&topic, &numbers).await,
                }
            }
            Ok(())
        });
    }

    /// Behind the last record of each partition that is assigned, as far as it is known.
    pub fn ends(&self) -> Vec<(Partition, u64)> {
        let lags = self.run(self.config.brokers.request_time_max, "the lag", async {
            Ok(self.consumer.lag().await)
        });
        let end = |(place, lag): (TopicPartition, krafka::consumer::PartitionLag)| {
            let end = lag.last_stable_offset.filter(|end| *end >= 0).or(lag.high_watermark)?;
            Some((partition(&place), u64::try_from(end).ok()?))
        };
        lags.unwrap_or_default().into_iter().filter_map(end).collect()
    }

    fn look_for_topics(&mut self) -> Result<(), Error> {
        let time_max = self.config.brokers.request_time_max;
        let admin = self.kafka.admin().metrics_push(false);
        let there = self
            .run(time_max, "the topics", admin.list_topics(ListTopicsOptions::default()))
            .map_err(|error| self.explain(&error))?;
        let is_wanted = |name: &String| {
            self.config.topics.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == wanted,
            })
        };
        let mut topics: Vec<String> = there.into_iter().filter(is_wanted).collect();
        topics.sort_unstable();
        let is_missing = |wanted: &&String| !wanted.ends_with('*') && !topics.contains(*wanted);
        let missing: Vec<&String> = self.config.topics.iter().filter(is_missing).collect();
        if !missing.is_empty() || topics.is_empty() {
            log::warn!(
                "the brokers {} have no topic {:?}, or do not show it to this user; it is read once it is there",
                self.config.brokers.brokers.join(", "),
                if missing.is_empty() { self.config.topics.iter().collect() } else { missing },
            );
        }
        self.looked = Some(Instant::now());
        if topics == self.topics {
            return Ok(());
        }
        if !topics.is_empty() {
            self.run(time_max, "the topics", self.consumer.subscribe(&topics))
                .map_err(|error| self.explain(&error))?;
        }
        self.topics = topics;
        Ok(())
    }

    fn explain(&self, error: &KrafkaError) -> Error {
        explain(error, Call::Other, &self.config.brokers)
    }

    fn run<T>(
        &self,
        time_max: Duration,
        what: &str,
        call: impl Future<Output = krafka::Result<T>>,
    ) -> krafka::Result<T> {
        let runtime = self.runtime.as_ref().expect("it is there until the member is dropped");
        limited(runtime, time_max, what, call)
    }
}

fn limited<T>(
    runtime: &Runtime,
    time_max: Duration,
    what: &str,
    call: impl Future<Output = krafka::Result<T>>,
) -> krafka::Result<T> {
    runtime.block_for(time_max, call).unwrap_or_else(|| Err(KrafkaError::timeout(what)))
}

/// Gives up the partitions and leaves the group.
impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.run(LEAVE_TIME_MAX, "leaving the group", async {
            let leaves = GroupMembershipOperation::LeaveGroup;
            let options = CloseOptions::new().group_membership_operation(leaves);
            self.consumer.close_with(options.timeout(LEAVE_TIME_MAX)).await
        });
    }
}

async fn consumer(
    kafka: &Kafka,
    config: &GroupConfig,
    listener: &Arc<Listener>,
) -> krafka::Result<Consumer> {
    let bytes = i32::try_from(config.brokers.fetch_bytes_max).unwrap_or(i32::MAX);
    kafka
        .consumer(&config.group)
        .group_instance_id(&config.member)
        .session_timeout(SESSION_MAX)
        .max_poll_interval(POLL_INTERVAL_MAX)
        .partition_assignment_strategies(vec![
            PartitionAssignmentStrategy::CooperativeSticky,
            PartitionAssignmentStrategy::Range,
        ])
        .isolation_level(IsolationLevel::ReadCommitted)
        .auto_offset_reset(AutoOffsetReset::None)
        .enable_auto_commit(false)
        .fetch_min_bytes(FETCH_BYTES_MIN)
        .fetch_max_bytes(bytes)
        .max_partition_fetch_bytes(bytes)
        .fetch_max_wait(FETCH_WAIT)
        .max_poll_records(POLL_RECORDS_MAX)
        .max_buffered_records(POLL_RECORDS_MAX)
        .max_decompressed_size(BATCH_BYTES_MAX)
        .metrics_push(false)
        .rebalance_listener(Arc::clone(listener))
        .build()
        .await
}

/// Tells [`Assignments`] what the brokers decide.
struct Listener {
    with: Arc<dyn Assignments>,
    consumer: OnceLock<Weak<Consumer>>,
    /// Why a partition does not begin where it should: the poll fails with it.
    trouble: Mutex<Option<KrafkaError>>,
}

impl Listener {
    fn consumer(&self) -> Option<Arc<Consumer>> {
        self.consumer.get()?.upgrade()
    }

    async fn begin(&self, partitions: &[TopicPartition]) -> krafka::Result<()> {
        let Some(consumer) = self.consumer() else { return Ok(()) };
        let asked: Vec<(&str, i32)> =
            partitions.iter().map(|place| (place.topic(), place.partition())).collect();
        let committed = consumer.committed(&asked).await?;
        let mut ids: HashMap<&str, [u8; 16]> = HashMap::new();
        for place in partitions {
            if !ids.contains_key(place.topic()) {
                let found = consumer.fetch_metadata(Some(place.topic())).await?;
                let id = found.topics.first().map_or([0; 16], |topic| topic.topic_id);
                ids.insert(place.topic(), id);
            }
            let of = partition(place);
            let key = (place.topic().to_owned(), place.partition());
            let committed =
                committed.get(&key).and_then(|position| u64::try_from(position.offset).ok());
            let begin = self.with.begin(&of, ids[place.topic()], committed);
            self.go_to(&consumer, &of, begin).await?;
        }
        Ok(())
    }

    /// Goes to an offset that is there, in partitions whose offset is not.
    async fn go_inside(&self, partitions: &[(String, i32)]) -> krafka::Result<()> {
        let Some(consumer) = self.consumer() else { return Ok(()) };
        for (topic, number) in partitions {
            let of = partition(&TopicPartition::new(topic.clone(), *number));
            let (first, end) = consumer.fetch_watermarks(topic, *number).await?;
            let known = |offset| u64::try_from(offset).unwrap_or(0);
            let begin = self.with.outside(&of, known(first), known(end));
            self.go_to(&consumer, &of, begin).await?;
        }
        Ok(())
    }

    async fn go_to(&self, consumer: &Consumer, of: &Partition, to: Begin) -> krafka::Result<()> {
        let offset = match to {
            Begin::At(offset) => offset,
            Begin::First | Begin::End => {
                let number = i32::try_from(of.number).unwrap_or(i32::MAX);
                let (first, end) = consumer.fetch_watermarks(&of.topic, number).await?;
                let offset = if to == Begin::First { first } else { end };
                u64::try_from(offset).unwrap_or(0)
            }
        };
        self.with.begun(of, offset);
        seek(consumer, of, offset).await
    }
}

impl ConsumerRebalanceListener for Listener {
    async fn on_partitions_assigned(&self, partitions: &[TopicPartition]) {
        if partitions.is_empty() {
            return;
        }
        if let Err(error) = self.begin(partitions).await {
            *lock(&self.trouble) = Some(error);
        }
    }

    async fn on_partitions_revoked(&self, partitions: &[TopicPartition]) {
        let partitions: Vec<Partition> = partitions.iter().map(partition).collect();
        // It blocks the thread that polls, and no other.
        let offsets = self.with.revoke(&partitions);
        if let Some(consumer) = self.consumer()
            && let Err(error) = commit(&consumer, &offsets).await
        {
            log::warn!(
                "partitions of Kafka were given up before their offsets could be committed; the last \
                 records of them may be stored twice: {error}"
            );
        }
    }

    async fn on_partitions_lost(&self, partitions: &[TopicPartition]) {
        let partitions: Vec<Partition> = partitions.iter().map(partition).collect();
        self.with.lose(&partitions);
    }
}

async fn commit(consumer: &Consumer, offsets: &[(Partition, u64)]) -> krafka::Result<()> {
    if offsets.is_empty() {
        return Ok(());
    }
    let each = offsets.iter().map(|(partition, offset)| {
        let place = place(partition);
        (place, OffsetAndMetadata::new(i64::try_from(*offset).unwrap_or(i64::MAX)))
    });
    consumer.commit_offsets(each).await
}

async fn seek(consumer: &Consumer, partition: &Partition, offset: u64) -> krafka::Result<()> {
    let place = place(partition);
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    consumer.seek(place.topic(), place.partition(), offset).await
}

fn place(partition: &Partition) -> TopicPartition {
    let number = i32::try_from(partition.number).unwrap_or(i32::MAX);
    TopicPartition::new(partition.topic.to_string(), number)
}

fn partition(place: &TopicPartition) -> Partition {
    let number = u32::try_from(place.partition()).unwrap_or(0);
    Partition { topic: place.topic().into(), number }
}

fn received(record: ConsumerRecord) -> Received {
    Received {
        partition: u32::try_from(record.partition).unwrap_or(0),
        offset: u64::try_from(record.offset).unwrap_or(0),
        timestamp_ms: record.timestamp,
        topic: record.topic,
        key: record.key,
        value: record.value,
        headers: record.headers,
    }
}

/// A panic leaves a whole value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
