//! Creating a topic, and checking one that is there.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use krafka::admin::{
    ConfigResource, CreateTopicsOptions, DescribeConfigsOptions, DescribeTopicsOptions, NewTopic,
    TopicDescription,
};
use krafka::error::ErrorCode;

use super::errors::{Call, explain};
use super::{Log, number};
use crate::engines::error::{Error, ErrorKind};

/// What a batch takes besides its messages: its head, and a head for each message.
const BATCH_HEAD_BYTES: usize = 4 << 10;

/// How often brokers are asked whether they have heard of a topic.
const PAUSE: Duration = Duration::from_millis(50);

/// Settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Partitions; an existing topic may have more.
    pub partitions: u32,
    /// Copies of each message on different brokers; an existing topic may have more.
    pub copies: u16,
    /// Copies that must be in sync for an append to be accepted (`min.insync.replicas`).
    pub copies_min: u16,
    /// Bytes of the largest message.
    pub message_bytes_max: usize,
    /// Further settings for a topic that is created, by their names in Kafka.
    pub others: Vec<(String, String)>,
}

/// What a topic keeps, whether or not it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// For how long (`retention.ms`); none: for ever.
    pub time: Option<Duration>,
    /// Bytes of each partition (`retention.bytes`), as they are stored; none: no limit.
    pub bytes: Option<u64>,
}

impl Retention {
    fn of(settings: &HashMap<String, String>) -> Retention {
        // -1 stands for no limit.
        let limit = |key| settings.get(key).and_then(|value| value.parse::<u64>().ok());
        Retention {
            time: limit("retention.ms").map(Duration::from_millis),
            bytes: limit("retention.bytes"),
        }
    }
}

impl Log {
    /// What the topic keeps, by its settings. Takes at most
    /// [`Config::request_time_max`](super::Config::request_time_max).
    pub fn retention(&self) -> Result<Retention, Error> {
        Ok(Retention::of(&self.settings()?))
    }

    /// The id of the topic, which another one of its name has not; none if brokers tell none. Takes
    /// at most [`Config::request_time_max`](super::Config::request_time_max).
    pub fn topic_id(&self) -> Result<Option<String>, Error> {
        let id = self.describe()?.topic_id;
        let hex = || id.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((id != [0; 16]).then(hex))
    }

    /// The settings of the topic, by their names in Kafka.
    fn settings(&self) -> Result<HashMap<String, String>, Error> {
        let missing = || krafka::KrafkaError::timeout("the settings of the topic");
        let resource = ConfigResource::topic(self.config.topic.as_str());
        let admin = self.admin();
        let settings =
            admin.describe_configs([resource.clone()], DescribeConfigsOptions::default());
        let settings = self.other("the settings of the topic", settings)?.remove(&resource);
        let settings = settings.unwrap_or_else(|| Err(missing()));
        let settings = settings.map_err(|error| explain(&error, Call::Other, &self.config))?;
        Ok(settings.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    /// Creates the topic, or checks that it has these settings if it is there; returns once brokers
    /// know it. Takes at most five times
    /// [`Config::request_time_max`](super::Config::request_time_max).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Refused`] if the topic is there and does not fit, with the command that
    /// corrects it.
    pub fn create_topic(&self, settings: &TopicSettings) -> Result<(), Error> {
        let refused = |error: krafka::KrafkaError| explain(&error, Call::Other, &self.config);
        let batch = self.batch_bytes(settings);
        let copies = i16::try_from(settings.copies).unwrap_or(i16::MAX);
        let name = self.config.topic.as_str();
        let mut topic = NewTopic::new(name, number(settings.partitions)?, copies)
            .map_err(refused)?
            .with_config("max.message.bytes", batch.to_string())
            .with_config("min.insync.replicas", settings.copies_min.to_string())
            .with_config("cleanup.policy", "delete");
        for (key, value) in &settings.others {
            topic = topic.with_config(key, value);
        }
        let admin = self.admin();
        let created = admin.create_topics([topic], CreateTopicsOptions::default());
        match self.other("creating the topic", created)?.remove(name) {
            Some(Ok(())) => self.once_known(|| self.describe()).map(drop),
            Some(Err(krafka::KrafkaError::Broker {
                code: ErrorCode::TopicAlreadyExists, ..
            })) => self.once_known(|| self.check_topic(settings, batch)),
            Some(Err(error)) => Err(refused(error)),
            None => Err(refused(krafka::KrafkaError::timeout("creating the topic"))),
        }
    }

    /// Asks about a topic that is there, again while brokers have not heard of it: one of them
    /// creates it and answers, the metadata of the others, and its own, follow later.
    fn once_known<T>(&self, ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let end = Instant::now() + self.config.request_time_max;
        loop {
            match ask() {
                Err(error) if error.kind == ErrorKind::Retriable && Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// The topic as the brokers know it.
    pub(super) fn describe(&self) -> Result<TopicDescription, Error> {
        let name = self.config.topic.as_str();
        let admin = self.admin();
        let found = admin.describe_topics([name], DescribeTopicsOptions::default());
        let found = self.other("the topic", found)?.remove(name);
        let found = found.unwrap_or_else(|| Err(krafka::KrafkaError::unknown_topic(name)));
        found.map_err(|error| explain(&error, Call::Other, &self.config))
    }

    /// Bytes of the largest batch that is sent.
    fn batch_bytes(&self, settings: &TopicSettings) -> usize {
        settings.message_bytes_max.max(self.config.batch_bytes_max) + BATCH_HEAD_BYTES
    }

    fn check_topic(&self, wanted: &TopicSettings, batch: usize) -> Result<(), Error> {
        let name = self.config.topic.as_str();
        let found = self.describe()?;
        let settings = self.settings()?;
        let partitions = found.partitions.len();
        if partitions < wanted.partitions as usize {
            let what = format!("has {partitions} partitions, and {} are needed", wanted.partitions);
            let remedy = format!(
                "kafka-topics.sh --bootstrap-server {} --alter --topic {name} --partitions {}",
                self.config.brokers[0], wanted.partitions
            );
            return Err(self.unfit(&what, remedy));
        }
        let copies = found.partitions.iter().map(|partition| partition.replicas.len()).min();
        if copies.unwrap_or(0) < usize::from(wanted.copies) {
            let what = format!(
                "has {} copies of its messages, and {} are needed",
                copies.unwrap_or(0),
                wanted.copies
            );
            let remedy = "assign more replicas by kafka-reassign-partitions.sh, or choose another \
                          topic";
            return Err(self.unfit(&what, remedy.to_owned()));
        }
        for (key, least) in
            [("max.message.bytes", batch), ("min.insync.replicas", wanted.copies_min.into())]
        {
            let value = settings.get(key).and_then(|value| value.parse::<usize>().ok());
            if value.is_none_or(|value| value < least) {
                let value = value.map_or("unknown".to_owned(), |value| value.to_string());
                let what = format!("has {key}={value}, and {least} is needed");
                return Err(self.unfit(&what, self.alter(key, &least.to_string())));
            }
        }
        match settings.get("cleanup.policy").map(String::as_str) {
            Some("delete") | None => Ok(()),
            Some(policy) => {
                let what = format!("has cleanup.policy={policy}, which deletes without keys");
                Err(self.unfit(&what, self.alter("cleanup.policy", "delete")))
            }
        }
    }

    fn unfit(&self, what: &str, remedy: String) -> Error {
        Error::new(ErrorKind::Refused, format!("topic {} {what}", self.config.topic), remedy)
    }

    fn alter(&self, key: &str, value: &str) -> String {
        format!(
            "kafka-configs.sh --bootstrap-server {} --alter --entity-type topics --entity-name {} \
             --add-config {key}={value}",
            self.config.brokers[0], self.config.topic
        )
    }
}
