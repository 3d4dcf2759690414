//! Kafka as the log that a collector appends to.

use std::sync::{Arc, Mutex, PoisonError};

use cluster::engines::kafka::{Log, Pending};
use collector::node::{AppendLog, Appending};

use super::KafkaOptions;

/// A topic that is connected to with the first append, and created where it is missing. So a
/// collector starts while Kafka is away.
pub struct KafkaAppend {
    config: KafkaOptions,
    log: Mutex<Option<Arc<Log>>>,
}

impl KafkaAppend {
    /// Connects to nothing yet.
    pub fn new(config: KafkaOptions) -> KafkaAppend {
        KafkaAppend { config, log: Mutex::default() }
    }

    /// The partitions, for people.
    pub fn partitions(&self) -> Vec<String> {
        let KafkaOptions { log, topic } = &self.config;
        let name = |partition| format!("kafka:{}/{partition}", log.topic);
        (0..topic.partitions).map(name).collect()
    }

    fn log(&self) -> Result<Arc<Log>, String> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &*log {
            return Ok(Arc::clone(log));
        }
        let connected = Arc::new(connect(&self.config)?);
        *log = Some(Arc::clone(&connected));
        Ok(connected)
    }
}

impl AppendLog for KafkaAppend {
    fn name(&self) -> String {
        let kafka = &self.config.log;
        format!("topic {} at {}", kafka.topic, kafka.brokers.join(", "))
    }

    fn begin(&self, partition: u32, messages: &[&[u8]]) -> Result<Box<dyn Appending>, String> {
        let pending = self.log()?.submit_shared(partition, messages);
        Ok(Box::new(Submitted(pending.map_err(|error| error.to_string())?)))
    }
}

/// Messages that the producer has.
struct Submitted(Pending<Arc<Log>>);

impl Appending for Submitted {
    fn end(self: Box<Self>) -> Vec<Result<(), String>> {
        let outcomes = self.0.metered_outcomes().into_iter();
        outcomes.map(|outcome| outcome.map(drop).map_err(|error| error.to_string())).collect()
    }
}

/// Connects, and creates the topic or checks it.
///
/// Errors: the brokers cannot be reached, or the topic does not fit; the text names the remedy.
pub fn connect(config: &KafkaOptions) -> Result<Log, String> {
    let log = Log::connect(config.log.clone()).map_err(|error| error.to_string())?;
    log.create_topic(&config.topic).map_err(|error| error.to_string())?;
    Ok(log)
}
