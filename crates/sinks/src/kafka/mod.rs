//! Apache Kafka, and brokers with its protocol, from version 2.4.
//!
//! A document is one record: the key is its id, the value is JSON with the time. The time of the
//! record is that of sending, because brokers delete records by it (`retention.ms`), and would
//! delete those of old documents at once. A deletion is a record without a value, which deletes the
//! key in a compacted topic. The partition follows from the key as with Kafka's own clients.
//!
//! A record counts as accepted when all replicas in sync have it (`acks=all`; how many these must
//! be is `min.insync.replicas` of the topic). Records are sent again when the answer is lost, so a
//! record may be there twice, with the same key, in the same partition: consumers that must not
//! see it twice skip known keys, or the topic is compacted (`cleanup.policy=compact`), which keeps
//! the last record of a key. Records with one key keep their order.
//!
//! A request holds at most one batch for each partition. Batches that the broker finds too large
//! are halved, and the smaller size is kept; a single record that is too large is rejected. Where a
//! broker refuses the content of a batch, it names the records (Kafka 2.4), and these alone are
//! rejected; if it names none, smaller batches find them.
//!
//! Left out: idempotent and transactional producers, so a broker that carries out a request long
//! after its time limit appends these records behind later ones of the same keys; compression by
//! snappy and LZ4, client certificates, Kerberos and OAuth.

mod connection;
mod errors;
mod messages;
mod records;
mod scram;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, RootCertStore};

use crate::clock::{Clock, SystemClock};
use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;
use crate::http::compress::Encoding;
use crate::http::tls;
use crate::jsonlines::too_large;
use crate::secret::Secret;
use crate::time::rfc3339_ns;
use connection::{Connection, Reach, Trouble};
use errors::Meaning;
use messages::{Api, Produced};
use records::{BATCH_OVERHEAD_BYTES, Batch, RECORD_OVERHEAD_BYTES};

/// After this time the leaders are asked for anew, which tells of new partitions, and connections
/// are made anew, before brokers close those that they find idle (`connections.max.idle.ms`).
const METADATA_AGE_MAX: Duration = Duration::from_secs(300);

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
    /// The longest time for a request and its response.
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

/// A login.
#[derive(Debug, Clone)]
pub struct Sasl {
    /// How the password is proved.
    pub mechanism: Mechanism,
    /// The name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// How a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// By sending it, which is safe with TLS alone.
    Plain,
    /// By a challenge with SHA-256.
    ScramSha256,
    /// By a challenge with SHA-512.
    ScramSha512,
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// The destination.
pub struct Kafka {
    options: KafkaOptions,
    reach: Reach,
    /// Who leads which partition, while it is known.
    cluster: Option<Arc<Cluster>>,
    /// Connections to leaders.
    connections: HashMap<i32, Connection>,
    /// The broker of the options that is asked next.
    asked: usize,
    /// Bytes of a batch; halves when the broker finds one too large.
    batch_bytes_max: usize,
    /// Records of a batch; halves when a batch is refused without the names of records, and doubles
    /// with each batch that is accepted.
    batch_records_max: usize,
}

struct Cluster {
    addresses: HashMap<i32, (String, u16)>,
    leaders: Vec<Option<i32>>,
    asked_at: Instant,
}

/// The documents of a call, as far as they fit into one request for each broker.
struct Planned {
    /// `None` while the broker has not answered.
    outcomes: Vec<Option<Outcome>>,
    batches: BTreeMap<usize, Part>,
}

/// What is sent to one partition.
#[derive(Default)]
struct Part {
    batch: Batch,
    /// The places of its documents among those of the call.
    places: Vec<usize>,
}

impl Kafka {
    /// A destination that connects with the first documents.
    pub fn new(options: KafkaOptions) -> Result<Kafka, Fault> {
        let tls = match options.is_tls {
            true => Some(Arc::new(tls_config(&options)?)),
            false => None,
        };
        let reach = Reach {
            tls,
            sasl: options.sasl.clone(),
            connect_time_max: options.connect_time_max,
            request_time_max: options.request_time_max,
        };
        let batch_bytes_max = options.batch_bytes_max;
        Ok(Kafka {
            options,
            reach,
            cluster: None,
            connections: HashMap::new(),
            asked: 0,
            batch_bytes_max,
            batch_records_max: usize::MAX,
        })
    }

    /// Learns the leaders from the first broker of the options that answers.
    fn locate(&mut self) -> Result<Arc<Cluster>, Trouble> {
        if let Some(cluster) = &self.cluster {
            if cluster.asked_at.elapsed() < METADATA_AGE_MAX {
                return Ok(Arc::clone(cluster));
            }
            self.connections.clear();
        }
        let mut last = Trouble::Broken(Fault::passing("no broker is configured"));
        for _ in 0..self.options.brokers.len() {
            let (host, port) = &self.options.brokers[self.asked];
            match ask(host, *port, &self.reach, &self.options.topic) {
                Ok(cluster) => {
                    let cluster = Arc::new(cluster);
                    self.cluster = Some(Arc::clone(&cluster));
                    return Ok(cluster);
                }
                Err(trouble) => last = trouble,
            }
            self.asked = (self.asked + 1) % self.options.brokers.len();
        }
        Err(last)
    }

    /// Assigns documents to partitions until a batch or the request is full.
    fn plan(&self, cluster: &Cluster, documents: &[Document]) -> Planned {
        let mut planned = Planned { outcomes: Vec::new(), batches: BTreeMap::new() };
        let now_ns = SystemClock.now_ns();
        let mut bytes = 0;
        let mut value = Vec::new();
        for document in documents {
            let key = document.id.as_bytes();
            value.clear();
            if !document.is_delete() {
                self.write_value(document, &mut value);
            }
            let more = RECORD_OVERHEAD_BYTES + key.len() + value.len();
            if more > self.options.body_bytes_max {
                let Delivered::Answered { outcomes, .. } =
                    too_large(more, self.options.body_bytes_max)
                else {
                    unreachable!("a document that is too large has an outcome")
                };
                planned.outcomes.extend(outcomes.into_iter().map(Some));
                continue;
            }
            let partition = records::partition(key, cluster.leaders.len());
            if cluster.leaders[partition].is_none() {
                let fault = no_leader(&self.options.topic, partition);
                planned.outcomes.push(Some(Outcome::Retry(fault)));
                continue;
            }
            let held = planned
                .batches
                .get(&partition)
                .map_or((0, BATCH_OVERHEAD_BYTES), |part| (part.batch.len(), part.batch.bytes()));
            let is_full = held.0 > 0 && held.1 + more > self.batch_bytes_max
                || held.0 >= self.batch_records_max
                || bytes + more > self.options.body_bytes_max;
            if is_full {
                break;
            }
            bytes += more;
            let part = planned.batches.entry(partition).or_default();
            let time_ns = match self.options.record_time {
                RecordTime::Sending => now_ns,
                RecordTime::Document => document.time_ns,
            };
            // Brokers refuse times before 1970; the value has the exact time.
            let time_ms = time_ns.div_euclid(1_000_000).max(0);
            let value = (!document.is_delete()).then_some(value.as_slice());
            part.batch.push(key, value, time_ms);
            part.places.push(planned.outcomes.len());
            planned.outcomes.push(None);
        }
        planned
    }

    fn write_value(&self, document: &Document, into: &mut Vec<u8>) {
        let time = rfc3339_ns(document.time_ns);
        let mut own = vec![(self.options.time_field.as_str(), time.as_str())];
        own.extend(self.options.id_field.as_deref().map(|name| (name, document.id.as_str())));
        document.write_json(&own, |_| true, into);
    }

    /// Sends all batches, then waits for all answers: brokers work at the same time.
    fn exchange(&mut self, cluster: &Cluster, planned: &mut Planned) -> Vec<Trouble> {
        let mut by_leader: BTreeMap<i32, Vec<(usize, Part)>> = BTreeMap::new();
        for (partition, part) in std::mem::take(&mut planned.batches) {
            let leader = cluster.leaders[partition].expect("the plan has partitions with leaders");
            by_leader.entry(leader).or_default().push((partition, part));
        }
        let mut troubles = Vec::new();
        let mut waiting = Vec::new();
        for (leader, parts) in by_leader {
            let mut batches = Vec::new();
            let mut sent = Vec::new();
            for (partition, part) in parts {
                let size = (part.batch.len(), part.batch.bytes());
                batches.push((partition, part.batch.encode(self.options.encoding)));
                sent.push(Sent { partition, size, places: part.places });
            }
            match self.send(cluster, leader, &batches) {
                Ok(deadline) => waiting.push((leader, deadline, sent)),
                Err(trouble) => {
                    self.lose(leader, &trouble, sent, &mut planned.outcomes);
                    troubles.push(trouble);
                }
            }
        }
        for (leader, deadline, sent) in waiting {
            let connection = self.connections.get_mut(&leader).expect("a request was sent on it");
            let response = connection.receive(deadline).and_then(|response| {
                messages::produced(&response).map_err(|_| connection.damaged())
            });
            match response {
                Ok(produced) => self.settle(&produced, sent, &mut planned.outcomes),
                Err(trouble) => {
                    self.lose(leader, &trouble, sent, &mut planned.outcomes);
                    troubles.push(trouble);
                }
            }
        }
        troubles
    }

    fn send(
        &mut self,
        cluster: &Cluster,
        leader: i32,
        batches: &[(usize, Vec<u8>)],
    ) -> Result<Instant, Trouble> {
        let timeout_ms = self.options.request_time_max.as_millis() * 9 / 10;
        let timeout_ms = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
        let body = messages::produce_request(&self.options.topic, timeout_ms, batches);
        if !self.connections.contains_key(&leader) {
            let Some((host, port)) = cluster.addresses.get(&leader) else {
                let what = format!("the address of broker {leader} is unknown");
                return Err(Trouble::Broken(Fault::passing(what)));
            };
            self.connections.insert(leader, Connection::open(host, *port, &self.reach)?);
        }
        let connection = self.connections.get_mut(&leader).expect("it was inserted");
        connection.send(Api::Produce, &body)
    }

    /// A broker did not answer: its records are sent again, perhaps to another one.
    fn lose(
        &mut self,
        leader: i32,
        trouble: &Trouble,
        sent: Vec<Sent>,
        outcomes: &mut [Option<Outcome>],
    ) {
        self.connections.remove(&leader);
        self.cluster = None;
        let fault = trouble.clone().into_fault();
        for place in sent.into_iter().flat_map(|sent| sent.places) {
            outcomes[place] = Some(Outcome::Retry(fault.clone()));
        }
    }

    /// Deals with the answer of a broker.
    fn settle(&mut self, produced: &[Produced], sent: Vec<Sent>, outcomes: &mut [Option<Outcome>]) {
        for Sent { partition, size: (records, bytes), places } in sent {
            let Some(answer) = produced.iter().find(|answer| answer.partition == partition) else {
                let what = format!("the broker said nothing about partition {partition}");
                let fault = Fault::passing(what);
                places.iter().for_each(|at| outcomes[*at] = Some(Outcome::Retry(fault.clone())));
                continue;
            };
            if answer.error == 0 {
                self.batch_records_max = self.batch_records_max.saturating_mul(2);
                places.iter().for_each(|at| outcomes[*at] = Some(Outcome::Accepted));
                continue;
            }
            let meaning = errors::meaning(answer.error, &answer.message);
            let whole = match meaning {
                Meaning::TooLarge(fault) | Meaning::Content(fault) if records == 1 => {
                    Outcome::Rejected(fault.to_string())
                }
                Meaning::TooLarge(fault) => {
                    self.batch_bytes_max = self.batch_bytes_max.min(bytes / 2);
                    Outcome::Retry(fault)
                }
                Meaning::Content(fault) => {
                    if answer.refused.is_empty() {
                        self.batch_records_max = records / 2;
                    }
                    Outcome::Retry(fault)
                }
                Meaning::Passing { fault, is_moved } => {
                    if is_moved {
                        self.cluster = None;
                    }
                    Outcome::Retry(fault)
                }
            };
            places.iter().for_each(|at| outcomes[*at] = Some(whole.clone()));
            for (at, reason) in &answer.refused {
                if let Some(place) = places.get(*at) {
                    let reason = errors::meaning(answer.error, reason).into_fault().to_string();
                    outcomes[*place] = Some(Outcome::Rejected(reason));
                }
            }
        }
    }
}

/// What was sent to a partition.
struct Sent {
    partition: usize,
    /// Records, and bytes before compression.
    size: (usize, usize),
    places: Vec<usize>,
}

impl Destination for Kafka {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let cluster = match self.locate() {
            Ok(cluster) => cluster,
            Err(trouble) => return Delivered::unavailable(trouble.into_fault()),
        };
        let mut planned = self.plan(&cluster, documents);
        if cluster.leaders.contains(&None) {
            self.cluster = None;
        }
        let troubles = self.exchange(&cluster, &mut planned);
        let outcomes: Vec<Outcome> = planned.outcomes.into_iter().flatten().collect();
        let is_lost = outcomes.iter().all(|outcome| matches!(outcome, Outcome::Retry(_)));
        match troubles.into_iter().next_back() {
            // Fewer documents may be answered sooner.
            Some(Trouble::TimedOut(fault)) if is_lost => Delivered::TimedOut(fault),
            _ => Delivered::Answered { outcomes, retry_after: None },
        }
    }

    /// Records with one key keep their order.
    fn keeps_order(&self) -> bool {
        false
    }
}

fn tls_config(options: &KafkaOptions) -> Result<ClientConfig, Fault> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(tls::certificates(options.ca.as_deref())?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::passing(format!("TLS cannot be set up: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Asks one broker for the leaders of the topic.
fn ask(host: &str, port: u16, reach: &Reach, topic: &str) -> Result<Cluster, Trouble> {
    let mut connection = Connection::open(host, port, reach)?;
    let response = connection.request(Api::Metadata, &messages::metadata_request(topic))?;
    let metadata = messages::metadata(&response).map_err(|_| connection.damaged())?;
    if metadata.error != 0 || metadata.leaders.is_empty() {
        let fault = errors::meaning(metadata.error, "").into_fault();
        let what = format!("topic {topic}: {}", fault.what);
        return Err(Trouble::Broken(Fault::new(what, fault.remedy)));
    }
    let brokers = metadata.brokers.into_iter();
    Ok(Cluster {
        addresses: brokers.map(|(node, host, port)| (node, (host, port))).collect(),
        leaders: metadata.leaders,
        asked_at: Instant::now(),
    })
}

fn no_leader(topic: &str, partition: usize) -> Fault {
    let what = format!("partition {partition} of topic {topic} has no leader");
    Fault::new(what, "start the brokers that have its replicas")
}
