//! Apache Kafka, and brokers with its protocol, from version 3.9, by [`cluster::engines::kafka`].
//!
//! A document is one record: the key is its id, the value is JSON with the time. The time of the
//! record is that of sending, because brokers delete records by it (`retention.ms`), and would
//! delete those of old documents at once. A deletion is a record without a value, which deletes the
//! key in a compacted topic. The partition follows from the key as with Kafka's own clients.
//!
//! A record counts as accepted when all replicas in sync have it (`acks=all`; how many these must
//! be is `min.insync.replicas` of the topic). The library repeats requests without duplicates. A
//! record whose outcome remains unknown is sent again by the runner, as are those under way when
//! the process ends, so a record may be there twice, with the same key, in the same partition:
//! consumers that must not see it twice skip known keys, or the topic is compacted
//! (`cleanup.policy=compact`), which keeps the last record of a key. Records with one key keep
//! their order.
//!
//! A call sends at most one batch to each partition. Batches that the broker finds too large are
//! halved, and the smaller size is kept; a single record that is too large is rejected. Where a
//! broker refuses the content of a batch, smaller batches find the record, which is rejected.
//!
//! Left out: transactions, client certificates, Kerberos and OAuth.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cluster::engines::kafka::{Compression, Config, Log, Record, Tls, partition_of_key};
use cluster::engines::{Error, ErrorKind};

pub use cluster::engines::kafka::{Mechanism, Sasl};

use text::time::format_time_digits;

use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;
use crate::http::compress::Encoding;
use crate::jsonlines::too_large;

/// More than a record takes besides its key and value.
const RECORD_OVERHEAD_BYTES: usize = 24;

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Brokers that are asked for the others: host and port.
    pub brokers: Vec<(String, u16)>,
    /// The topic.
    pub topic: String,
    /// Who logs in, and how; `None` for no login.
    pub sasl: Option<Sasl>,
    /// Whether connections are encrypted.
    pub is_tls: bool,
    /// A file with the certificates that brokers are verified with; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The longest time for connecting.
    pub connect_time_max: Duration,
    /// The longest time for a request and its response, repetitions included.
    pub request_time_max: Duration,
    /// The field that gets the document's time.
    pub time_field: String,
    /// The field that gets the document's id besides the key; `None` for the key alone.
    pub id_field: Option<String>,
    /// The time of records.
    pub record_time: RecordTime,
    /// Bytes of a batch of one partition before compression. A larger record is sent alone.
    pub batch_bytes_max: usize,
    /// Bytes of all batches of a call before compression. A larger document is rejected.
    pub body_bytes_max: usize,
    /// How batches are compressed.
    pub encoding: Encoding,
}

/// The time of a record. It decides when retention deletes the record; brokers may refuse times
/// that are far from their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTime {
    /// The time at which the record is sent.
    Sending,
    /// The time of the document.
    Document,
}

/// The destination.
pub struct Kafka {
    options: KafkaOptions,
    config: Config,
    /// `None` until brokers were reached.
    log: Option<Log>,
    limits: Limits,
}

/// How large batches may be, as far as the broker has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Bytes of a batch; halves when the broker finds one too large.
    batch_bytes_max: usize,
    /// Records of a batch; halves when a batch is refused for its content, and doubles with each
    /// batch that is accepted.
    batch_records_max: usize,
}

/// What became of a record: its offset, or why it is not stored.
type Sent = Result<u64, Error>;

/// A record of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Its document, among those of the call.
    document: usize,
    partition: u32,
    bytes: usize,
}

impl Kafka {
    /// A destination that connects with the first documents.
    pub fn new(options: KafkaOptions) -> Result<Kafka, Fault> {
        let tls = options.is_tls.then(|| Tls { ca: options.ca.clone(), identity: None });
        if let Some(tls) = &tls {
            cluster::engines::roots::certificates(tls.ca.as_deref())?;
        }
        let brokers = options.brokers.iter().map(|(host, port)| format!("{host}:{port}"));
        let config = Config {
            tls,
            sasl: options.sasl.clone(),
            compression: match options.encoding {
                Encoding::Plain => Compression::Plain,
                Encoding::Gzip => Compression::Gzip,
                Encoding::Zstd => Compression::Zstd,
            },
            creates_topic: true,
            // Batches are limited here: the library counts their bytes with more overhead.
            batch_bytes_max: 2 * options.body_bytes_max,
            buffer_bytes_max: 4 * options.body_bytes_max,
            connect_time_max: options.connect_time_max,
            request_time_max: options.request_time_max,
            append_time_max: options.request_time_max,
            ..Config::new(brokers, &options.topic)
        };
        let batch_bytes_max = options.batch_bytes_max;
        let limits = Limits { batch_bytes_max, batch_records_max: usize::MAX };
        Ok(Kafka { options, config, log: None, limits })
    }

    /// Makes records of documents until a batch or the call is full. Documents that are sent have
    /// no outcome yet.
    fn plan(
        &self,
        partitions: u32,
        documents: &[Document],
    ) -> (Vec<Option<Outcome>>, Vec<Place>, Vec<Record>) {
        let mut outcomes = Vec::new();
        let (mut places, mut records) = (Vec::new(), Vec::new());
        let mut held: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut bytes = 0;
        for document in documents {
            let key = document.id.as_bytes();
            let mut value = Vec::new();
            if !document.is_delete() {
                self.write_value(document, &mut value);
            }
            let more = RECORD_OVERHEAD_BYTES + key.len() + value.len();
            if more > self.options.body_bytes_max {
                let Delivered::Answered { outcomes: rejected, .. } =
                    too_large(more, self.options.body_bytes_max)
                else {
                    unreachable!("a document that is too large has an outcome")
                };
                outcomes.extend(rejected.into_iter().map(Some));
                continue;
            }
            let partition = partition_of_key(key, partitions);
            let (count, size) = held.entry(partition).or_default();
            let is_full = *count > 0 && *size + more > self.limits.batch_bytes_max
                || *count >= self.limits.batch_records_max
                || bytes + more > self.options.body_bytes_max;
            if is_full {
                break;
            }
            *count += 1;
            *size += more;
            bytes += more;
            // Brokers refuse times before 1970; the value has the exact time.
            let time_ms = document.time_ns.div_euclid(1_000_000).max(0);
            places.push(Place { document: outcomes.len(), partition, bytes: more });
            records.push(Record {
                partition,
                key: Some(key.to_vec().into()),
                value: (!document.is_delete()).then(|| value.into()),
                time_ms: (self.options.record_time == RecordTime::Document).then_some(time_ms),
            });
            outcomes.push(None);
        }
        (outcomes, places, records)
    }

    fn write_value(&self, document: &Document, into: &mut Vec<u8>) {
        let time = format_time_digits(document.time_ns, 9);
        let mut own = vec![(self.options.time_field.as_str(), time.as_str())];
        own.extend(self.options.id_field.as_deref().map(|name| (name, document.id.as_str())));
        document.write_json(&own, |_| true, into);
    }

    /// The topic and its partitions, after connecting if need be.
    fn locate(&mut self) -> Result<(&Log, u32), Error> {
        if self.log.is_none() {
            self.log = Some(Log::connect(self.config.clone())?);
        }
        let log = self.log.as_ref().expect("it was made above");
        let partitions = log.partitions()?;
        Ok((log, partitions))
    }
}

impl Limits {
    /// Learns from what became of the records of a call, and says what that means for each.
    fn settle(&mut self, places: &[Place], sent: Vec<Sent>) -> Vec<(usize, Outcome)> {
        let mut batches: BTreeMap<u32, Vec<(Place, Sent)>> = BTreeMap::new();
        for (place, outcome) in places.iter().zip(sent) {
            batches.entry(place.partition).or_default().push((*place, outcome));
        }
        let mut outcomes = Vec::new();
        for batch in batches.into_values() {
            let is_single = batch.len() == 1;
            let (mut large_bytes, mut refused) = (0, 0);
            for (place, outcome) in batch {
                let outcome = match outcome {
                    Ok(_) => Outcome::Accepted,
                    Err(error) => match error.kind {
                        ErrorKind::TooLarge | ErrorKind::Content if is_single => {
                            Outcome::Rejected(error.to_string())
                        }
                        kind => {
                            large_bytes +=
                                if kind == ErrorKind::TooLarge { place.bytes } else { 0 };
                            refused += usize::from(kind == ErrorKind::Content);
                            Outcome::Retry(error.into())
                        }
                    },
                };
                outcomes.push((place.document, outcome));
            }
            if large_bytes > 0 {
                self.batch_bytes_max = self.batch_bytes_max.min(large_bytes / 2).max(1);
            }
            self.batch_records_max = match refused {
                0 => self.batch_records_max.saturating_mul(2),
                refused => (refused / 2).max(1),
            };
        }
        outcomes
    }
}

impl Destination for Kafka {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let partitions = match self.locate() {
            Ok((_, partitions)) => partitions,
            Err(error) => return Delivered::unavailable(error.into()),
        };
        let (mut outcomes, places, records) = self.plan(partitions, documents);
        let sent = match &self.log {
            Some(log) => log.send(records),
            None => Vec::new(),
        };
        let is_unclear = |outcome: &Sent| {
            outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::OutcomeUnknown)
        };
        let is_lost = !sent.is_empty() && sent.iter().all(is_unclear);
        for (document, outcome) in self.limits.settle(&places, sent) {
            outcomes[document] = Some(outcome);
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        match outcomes.last() {
            // Fewer documents may be answered sooner.
            Some(Outcome::Retry(fault)) if is_lost => Delivered::TimedOut(fault.clone()),
            _ => Delivered::Answered { outcomes, retry_after: None },
        }
    }

    /// Records with one key keep their order.
    fn keeps_order(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(document: usize, partition: u32, bytes: usize) -> Place {
        Place { document, partition, bytes }
    }

    fn failed(kind: ErrorKind) -> Sent {
        Err(Error::new(kind, "what", "remedy"))
    }

    #[test]
    fn batches_shrink_until_they_are_taken() {
        let begin = Limits { batch_bytes_max: 1000, batch_records_max: 8 };
        let retry = || Outcome::Retry(Fault::new("what", "remedy"));
        let rejected = || Outcome::Rejected("what; remedy".to_owned());
        use ErrorKind::{Content, OutcomeUnknown, Retriable, TooLarge};
        for (sent, expected, bytes, records) in [
            (vec![(1, Ok(5)), (1, Ok(6))], vec![Outcome::Accepted; 2], 1000, 16),
            (vec![(1, failed(TooLarge)), (1, failed(TooLarge))], vec![retry(); 2], 300, 16),
            // The other partition took its batch.
            (
                vec![(1, failed(TooLarge)), (2, Ok(6))],
                vec![rejected(), Outcome::Accepted],
                1000,
                32,
            ),
            (vec![(1, failed(TooLarge)), (1, Ok(1))], vec![retry(), Outcome::Accepted], 150, 16),
            (vec![(1, failed(Content)), (1, failed(Content))], vec![retry(); 2], 1000, 1),
            (vec![(1, failed(Content))], vec![rejected()], 1000, 16),
            (vec![(1, failed(Retriable)), (1, Ok(1))], vec![retry(), Outcome::Accepted], 1000, 16),
            (vec![(1, failed(OutcomeUnknown))], vec![retry()], 1000, 16),
        ] {
            let mut limits = begin;
            let places: Vec<Place> = sent
                .iter()
                .enumerate()
                .map(|(n, (partition, _))| place(n, *partition, 300))
                .collect();
            let sent: Vec<_> = sent.into_iter().map(|(_, outcome)| outcome).collect();
            let mut outcomes = limits.settle(&places, sent.clone());
            outcomes.sort_by_key(|(document, _)| *document);
            let outcomes: Vec<Outcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
            assert_eq!(outcomes, expected, "{sent:?}");
            let learnt = Limits { batch_bytes_max: bytes, batch_records_max: records };
            assert_eq!(limits, learnt, "{sent:?}");
        }
    }
}
