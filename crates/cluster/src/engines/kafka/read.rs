//! Reading a partition from an offset on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use krafka::Kafka;
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord};

use super::errors::{Call, explain};
use super::{Log, number};
use crate::engines::error::{Error, ErrorKind};

/// The longest time that a broker is asked to wait for messages. A longer wait is several requests.
const FETCH_WAIT: Duration = Duration::from_millis(500);

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place in the partition.
    pub offset: u64,
    /// The message; empty for one that deletes a key.
    pub bytes: Bytes,
}

/// What was fetched of a partition and not read yet, and the consumer that fetches more.
pub struct Reader {
    consumer: Option<Consumer>,
    /// The offset that the next message is expected to have, or a smaller one.
    next: u64,
    /// Whether the consumer is to go on elsewhere than behind what it fetched.
    is_moved: bool,
    fetched: VecDeque<Message>,
}

impl Log {
    /// Messages of a partition from the offset `from` on, in their order. Waits for at most `wait`
    /// until there is one; empty if there is none by then. Takes at most
    /// three times [`Config::request_time_max`](super::Config::request_time_max) longer.
    ///
    /// Returns messages of `bytes_max` together, but at least one, however large it is. Reading on
    /// behind the last message is fast; another `from` drops what was fetched ahead. Two threads
    /// that read one partition at the same time do so in turn.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if `from` is outside of [`bounds`](Log::bounds): retention has
    /// deleted messages from there on, or the brokers lost some.
    pub fn read(
        &self,
        partition: u32,
        from: u64,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Vec<Message>, Error> {
        let reader = self.reader(partition, from);
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + wait;
        if reader.next != from {
            reader.fetched.clear();
            reader.next = from;
            reader.is_moved = true;
        }
        if reader.fetched.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let begun = Instant::now();
            let fetched = self.fetch(partition, &mut reader, left);
            if let Err(error) = &fetched {
                if error.is_failure() {
                    self.meter.failed(begun, error);
                }
                // The next read begins with new connections.
                reader.consumer = None;
            }
            fetched?;
        }
        let mut bytes = 0;
        let mut messages = Vec::new();
        while let Some(message) = reader.fetched.front() {
            bytes += message.bytes.len();
            if bytes > bytes_max && !messages.is_empty() {
                break;
            }
            messages.extend(reader.fetched.pop_front());
        }
        if let Some(last) = messages.last() {
            reader.next = last.offset + 1;
        }
        Ok(messages)
    }

    /// Ends reading a partition: closes its connections and frees what was fetched ahead. A read
    /// that follows asks the brokers anew which of them leads the partition. The library does not:
    /// a consumer whose broker is gone answers "no messages" until its metadata is old.
    pub fn end_reading(&self, partition: u32) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
    }

    fn reader(&self, partition: u32, from: u64) -> Arc<Mutex<Reader>> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = readers.entry(partition).or_insert_with(|| {
            let fetched = VecDeque::new();
            Arc::new(Mutex::new(Reader { consumer: None, next: from, is_moved: true, fetched }))
        });
        Arc::clone(reader)
    }

    fn fetch(&self, partition: u32, reader: &mut Reader, wait: Duration) -> Result<(), Error> {
        let explain = |error| explain(&error, Call::Other, &self.config);
        let deadline = wait + self.config.request_time_max;
        let topic = &self.config.topic;
        let place = number(partition)?;
        let from = reader.next;
        let builder = match &reader.consumer {
            Some(_) => None,
            None => {
                // A consumer would wait for a topic or a partition that is not there.
                let bounds = self.bounds(partition)?;
                if !(bounds.start..=bounds.end).contains(&from) {
                    return Err(self.outside(partition, from));
                }
                Some(self.config.builder()?)
            }
        };
        let fetched = self.runtime().block_for(deadline, async {
            if let Some(builder) = builder {
                let consumer = self.consumer(&builder.connect().await?).await?;
                consumer.assign(topic, vec![place]).await?;
                reader.consumer = Some(consumer);
                reader.is_moved = true;
            }
            let Some(consumer) = &reader.consumer else { return Ok((Vec::new(), None)) };
            if reader.is_moved {
                consumer.seek(topic, place, i64::try_from(from).unwrap_or(i64::MAX)).await?;
                reader.is_moved = false;
            }
            let records = consumer.poll(wait).await?;
            Ok((records, consumer.position(topic, place).await))
        });
        let fetched = fetched.unwrap_or_else(|| Err(krafka::KrafkaError::timeout("reading")));
        let (records, position) = match fetched {
            Ok(fetched) => fetched,
            Err(krafka::KrafkaError::NoOffset { .. }) => return Err(self.outside(partition, from)),
            Err(error) => return Err(explain(error)),
        };
        // The library goes back to the end of a partition that has become shorter.
        let is_before = |offset: i64| u64::try_from(offset).unwrap_or(0) < from;
        if records.first().map(|record| record.offset).or(position).is_some_and(is_before) {
            return Err(self.outside(partition, from));
        }
        reader.fetched.extend(records.into_iter().map(message));
        Ok(())
    }

    /// A consumer of a partition, over connections of its own.
    async fn consumer(&self, kafka: &Kafka) -> krafka::Result<Consumer> {
        let bytes = i32::try_from(self.config.fetch_bytes_max).unwrap_or(i32::MAX);
        kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::None)
            .enable_auto_commit(false)
            .fetch_max_bytes(bytes)
            .max_partition_fetch_bytes(bytes)
            .fetch_max_wait(FETCH_WAIT.min(self.config.request_time_max / 2))
            // Bytes limit what is fetched, not the number of messages.
            .max_poll_records(-1)
            .max_buffered_records(0)
            .metrics_push(false)
            .build()
            .await
    }

    fn outside(&self, partition: u32, from: u64) -> Error {
        let place = format!("offset {from} of partition {partition} of {}", self.config.topic);
        match self.bounds(partition) {
            Ok(bounds) if from < bounds.start => Error::new(
                ErrorKind::NotFound,
                format!("{place} is deleted; messages begin at {}", bounds.start),
                "raise retention.ms and retention.bytes of the topic so that readers keep up",
            ),
            Ok(bounds) => Error::new(
                ErrorKind::NotFound,
                format!("{place} is not there; messages end before {}", bounds.end),
                "the topic was made anew, or brokers lost messages; begin at its bounds",
            ),
            Err(error) => error,
        }
    }
}

fn message(record: ConsumerRecord) -> Message {
    Message {
        offset: u64::try_from(record.offset).unwrap_or(0),
        bytes: record.value.unwrap_or_default(),
    }
}
