//! Apache Kafka: every line of a stream is a record of a topic. A record is acknowledged by all
//! replicas in sync.
//!
//! As its users do, a connection keeps several blocks in flight: a block is handed over when the
//! client has its records and no more than `in_flight` blocks wait for answers. [`Settle::Visible`]
//! waits for the answers of all. Its client encodes batches, which counts as the work of the
//! generator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use krafka::admin::{
    CreateTopicsOptions, DeleteTopicsOptions, DescribeClusterOptions, ListOffsetsOptions, NewTopic,
    OffsetSpec, TopicPartition,
};
use krafka::consumer::AutoOffsetReset;
use krafka::error::ErrorCode;
use krafka::producer::{Acks, Producer};
use krafka::{Kafka, KrafkaError, Record};
use tokio::sync::{Semaphore, watch};

use crate::driver::stream::{Block, Sum};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Operation, Session, Settle,
    StoreError, StoreSpec, TIMEOUT, within,
};
use crate::options::{Known, known};
use crate::row::Schema;

/// Time between two looks at whether a topic is gone.
const LOOK: Duration = Duration::from_millis(50);

/// How long records wait for others of their batch.
const LINGER: Duration = Duration::from_millis(5);

const FETCH_BYTES: i32 = 8 << 20;

/// The option for the version, which brokers do not tell.
pub(super) const VERSION: &str = "version";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known { name: "partitions", default: "2", help: "partitions of the topic" },
    Known { name: "replicas", default: "1", help: "replicas of each partition" },
    known("batch_bytes", "131072", "size of records that are sent together, bytes"),
    Known {
        name: "in_flight",
        default: "5",
        help: "blocks of a connection that may wait for their answers; 1 waits for each",
    },
    Known { name: VERSION, default: "unknown", help: "the version; the lab's servers name it" },
];

struct Topics {
    store: String,
    endpoints: String,
    timeout: Duration,
    version: String,
    partitions: i32,
    replicas: i16,
    batch_bytes: usize,
    in_flight: usize,
    /// The partition of the next connection.
    next: AtomicUsize,
    sent: Arc<Sent>,
}

/// What happened to the blocks of all connections.
#[derive(Default)]
struct Sent {
    /// Those that wait for their answers.
    waiting: watch::Sender<usize>,
    /// The first error that nobody was told yet.
    error: Mutex<Option<StoreError>>,
}

impl Sent {
    fn take_error(&self) -> Result<(), StoreError> {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map_or(Ok(()), Err)
    }

    fn ended(&self, answer: Result<(), StoreError>) {
        if let Err(error) = answer {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
        self.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    crate::driver::hosts(spec)?;
    Ok(Arc::new(Topics {
        store: spec.name.clone(),
        endpoints: spec.endpoints.join(","),
        timeout: crate::driver::timeout(&options)?,
        version: options.text(VERSION).to_owned(),
        partitions: options.number("partitions", 1, 1_000)?,
        replicas: options.number("replicas", 1, 9)?,
        batch_bytes: options.number("batch_bytes", 1_024, 16 << 20)?,
        in_flight: options.number("in_flight", 1, 1_000)?,
        next: AtomicUsize::new(0),
        sent: Arc::default(),
    }))
}

#[async_trait]
impl Driver for Topics {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Stream]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let admin = self.client().await?.admin();
        let cluster = within(&self.store, self.timeout, async {
            let described = admin.describe_cluster(DescribeClusterOptions::default()).await;
            described.map_err(|e| failed(&self.store, &e))
        });
        cluster.await?;
        Ok(self.version.clone())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["Apache Kafka 3.9."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let admin = self.client().await?.admin();
        let topic = schema.table.as_str();
        let explained = |e: KrafkaError| failed(&self.store, &e);
        let create = async {
            let deleted = admin.delete_topics([topic], DeleteTopicsOptions::default()).await;
            match deleted.map_err(explained)?.remove(topic) {
                Some(Ok(())) | None => {}
                Some(Err(error)) if is(&error, ErrorCode::UnknownTopicOrPartition) => {}
                Some(Err(error)) => return Err(explained(error)),
            }
            // A topic is deleted in the background.
            loop {
                let new =
                    NewTopic::new(topic, self.partitions, self.replicas).map_err(explained)?;
                let created = admin.create_topics([new], CreateTopicsOptions::default()).await;
                match created.map_err(explained)?.remove(topic) {
                    Some(Err(error)) if is(&error, ErrorCode::TopicAlreadyExists) => {}
                    Some(Err(error)) => return Err(explained(error)),
                    Some(Ok(())) | None => return Ok(()),
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        within(&self.store, MAINTENANCE_TIMEOUT, create).await
    }

    async fn settle(&self, _: &Schema, _: Settle) -> Result<(), StoreError> {
        let mut waiting = self.sent.waiting.subscribe();
        let answered = async {
            // Its sender is a part of this driver.
            let _ = waiting.wait_for(|waiting| *waiting == 0).await;
            self.sent.take_error()
        };
        within(&self.store, MAINTENANCE_TIMEOUT, answered).await
    }

    /// Its directory tells: brokers preallocate nothing.
    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        let partitions = (0..self.partitions).map(|partition| self.sum(&schema.table, partition));
        let mut all = Sum::default();
        for sum in within(&self.store, MAINTENANCE_TIMEOUT, try_join_all(partitions)).await? {
            all += sum;
        }
        Ok(Some(all))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let connect = async {
            let kafka = self.client().await?;
            let producer = kafka
                .producer()
                .acks(Acks::All)
                .batch_size(self.batch_bytes)
                .linger(LINGER)
                .delivery_timeout(self.timeout)
                .metrics_push(false);
            producer.build().await.map_err(|e| failed(&self.store, &e))
        };
        let producer = within(&self.store, self.timeout, connect).await?;
        let place = self.next.fetch_add(1, Ordering::Relaxed) as i32 % self.partitions;
        Ok(Box::new(Producing {
            store: self.store.clone(),
            timeout: self.timeout,
            topic: schema.table.clone(),
            partition: place,
            producer: Arc::new(producer),
            places: Arc::new(Semaphore::new(self.in_flight)),
            sent: self.sent.clone(),
        }))
    }
}

impl Topics {
    async fn client(&self) -> Result<Kafka, StoreError> {
        let builder = Kafka::builder(self.endpoints.clone())
            .client_id("loginson-lab")
            .connect_timeout(self.timeout / 2)
            // A delivery takes a request and its linger.
            .request_timeout(self.timeout / 2);
        let connect = async { builder.connect().await.map_err(|e| failed(&self.store, &e)) };
        within(&self.store, self.timeout, connect).await
    }

    /// The records of a partition.
    async fn sum(&self, topic: &str, partition: i32) -> Result<Sum, StoreError> {
        let explained = |e: KrafkaError| failed(&self.store, &e);
        let kafka = self.client().await?;
        let place = TopicPartition::new(topic.to_owned(), partition);
        let admin = kafka.admin();
        let ends = admin
            .list_offsets([(place.clone(), OffsetSpec::Latest)], ListOffsetsOptions::default());
        let end = ends.await.map_err(explained)?.remove(&place);
        let end = match end {
            Some(end) => end.map_err(explained)?.offset,
            None => 0,
        };
        let consumer = kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .enable_auto_commit(false)
            .fetch_max_bytes(FETCH_BYTES)
            .max_partition_fetch_bytes(FETCH_BYTES)
            .max_poll_records(-1)
            .metrics_push(false)
            .build();
        let consumer = consumer.await.map_err(explained)?;
        consumer.assign(topic, vec![partition]).await.map_err(explained)?;
        let mut sum = Sum::default();
        let mut next = 0;
        while next < end {
            for record in consumer.poll(Duration::from_millis(500)).await.map_err(explained)? {
                next = record.offset + 1;
                sum.add_line(&record.value.unwrap_or_default());
            }
        }
        Ok(sum)
    }
}

struct Producing {
    store: String,
    timeout: Duration,
    topic: String,
    partition: i32,
    producer: Arc<Producer>,
    /// A place for each block that may be in flight.
    places: Arc<Semaphore>,
    sent: Arc<Sent>,
}

#[async_trait]
impl Session for Producing {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Stream(block) => {
                // The client tries again by itself, so a broker that is gone looks slow.
                match within(&self.store, self.timeout, self.send(block)).await {
                    Err(error @ StoreError::Timeout { .. }) => Err(StoreError::Unreachable {
                        store: self.store.clone(),
                        reason: error.to_string(),
                    }),
                    sent => sent.map(|()| Answer::Done),
                }
            }
            _ => {
                let (store, ability) = (self.store.clone(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
        }
    }
}

impl Producing {
    /// Hands a block over, once there is a place for it.
    async fn send(&self, block: &Block) -> Result<(), StoreError> {
        self.sent.take_error()?;
        let explained = |e: KrafkaError| failed(&self.store, &e);
        let place = self.places.clone().acquire_owned().await.expect("it is never closed");
        // Records share the text of their block.
        let text = Bytes::copy_from_slice(block.text());
        let mut handles = Vec::with_capacity(block.sum().lines as usize);
        let mut from = 0;
        for line in block.text().split_inclusive(|byte| *byte == b'\n') {
            let value = text.slice(from..from + line.len() - 1);
            from += line.len();
            let record = Record::new(self.topic.as_str(), value).partition(self.partition);
            handles.push(self.producer.enqueue(record).await.map_err(explained)?);
        }
        let (sent, store) = (self.sent.clone(), self.store.clone());
        sent.waiting.send_modify(|waiting| *waiting += 1);
        // The producer lives until its last answer, also if the connection ends before.
        let producer = self.producer.clone();
        tokio::spawn(async move {
            let mut answer = Ok(());
            for handle in handles {
                if let Err(error) = handle.await {
                    answer = Err(failed(&store, &error));
                    break;
                }
            }
            sent.ended(answer);
            drop((place, producer));
        });
        Ok(())
    }
}

fn is(error: &KrafkaError, wanted: ErrorCode) -> bool {
    matches!(error, KrafkaError::Broker { code, .. } if *code == wanted)
}

fn failed(store: &str, error: &KrafkaError) -> StoreError {
    let (store, reason) = (store.to_owned(), error.to_string());
    match error {
        KrafkaError::Broker { .. } => StoreError::Refused { store, reason },
        _ => StoreError::Unreachable { store, reason },
    }
}
