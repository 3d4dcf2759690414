//! Checks a configuration once; what comes out is complete and right.

use std::path::Path;
use std::time::Duration;

use crate::config::SinkConfig;
use crate::destination::{Destination, Fault};
use crate::elasticsearch::{Elasticsearch, ElasticsearchOptions};
use crate::file::{FileOptions, Files};
use crate::jsonlines::{JsonLines, JsonLinesOptions};
use crate::kafka::{Kafka, KafkaOptions};
use crate::loki::{Loki, LokiOptions};
use crate::reject::{FileRejects, FileRejectsOptions};
use crate::runner::{Backoff, QueueLimits, RunnerOptions};
use crate::syslog::{Syslog, SyslogOptions};

/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;

/// A key with a wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ConfigError {
    /// The key, for example `sinks.search.urls`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub what: String,
}

/// A checked sink.
#[derive(Debug, Clone)]
pub struct Sink {
    /// Names the sink in messages, metrics and files.
    pub name: String,
    /// Limits of the runner.
    pub runner: RunnerOptions,
    /// Limits of the rejected documents.
    pub rejects: FileRejectsOptions,
    /// Where documents go.
    pub destination: DestinationOptions,
}

/// Options of one of the destinations.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum DestinationOptions {
    Elasticsearch(Box<ElasticsearchOptions>),
    JsonLines(Box<JsonLinesOptions>),
    Kafka(Box<KafkaOptions>),
    Loki(Box<LokiOptions>),
    Syslog(Box<SyslogOptions>),
    Files(Box<FileOptions>),
}

impl Sink {
    /// Makes the destination. Nothing is connected or opened yet, but certificates are read.
    pub fn destination(&self) -> Result<Box<dyn Destination>, Fault> {
        Ok(match &self.destination {
            DestinationOptions::Elasticsearch(options) => {
                Box::new(Elasticsearch::new((**options).clone())?)
            }
            DestinationOptions::JsonLines(options) => {
                Box::new(JsonLines::new((**options).clone())?)
            }
            DestinationOptions::Kafka(options) => Box::new(Kafka::new((**options).clone())?),
            DestinationOptions::Loki(options) => Box::new(Loki::new((**options).clone())?),
            DestinationOptions::Syslog(options) => Box::new(Syslog::new((**options).clone())),
            DestinationOptions::Files(options) => Box::new(Files::new((**options).clone())),
        })
    }

    /// Makes the store of rejected documents in `folder`: the file `NAME-rejected.jsonl`.
    pub fn reject_store(&self, folder: &Path) -> FileRejects {
        FileRejects::new(folder.join(format!("{}-rejected.jsonl", self.name)), self.rejects)
    }
}

impl SinkConfig {
    /// Checks everything, and reads the files of secrets. Returns the first error.
    pub fn check(&self) -> Result<Sink, ConfigError> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if self.name.is_empty()
            || self.name.len() > NAME_CHARS_MAX
            || !self.name.chars().all(is_name)
        {
            return Err(ConfigError {
                key: "sinks.name".to_owned(),
                what: format!(
                    "'{}' is no name; write 1 to {NAME_CHARS_MAX} lower-case letters, digits, '-' \
                     or '_'",
                    self.name
                ),
            });
        }
        let keys = Keys { prefix: format!("sinks.{}", self.name) };
        Ok(Sink {
            name: self.name.clone(),
            runner: self.runner(&keys)?,
            rejects: self.rejects(&keys)?,
            destination: super::destinations::check(self, &keys)?,
        })
    }

    fn runner(&self, keys: &Keys) -> Result<RunnerOptions, ConfigError> {
        let queue = keys.below("queue");
        let limits = QueueLimits::default();
        let retry = keys.below("retry");
        let waits = Backoff::default();
        let backoff = Backoff {
            first: retry.duration("first", &self.retry.first, waits.first)?,
            longest: retry.duration("longest", &self.retry.longest, waits.longest)?,
            requested_longest: retry.duration(
                "requested_longest",
                &self.retry.requested_longest,
                waits.requested_longest,
            )?,
        };
        if backoff.longest < backoff.first {
            return Err(retry.error("longest", "is shorter than `first`; write a longer duration"));
        }
        let RunnerOptions { request_documents_max, .. } = RunnerOptions::default();
        Ok(RunnerOptions {
            queue: QueueLimits {
                batches_max: queue.count(
                    "batches_max",
                    self.queue.batches_max,
                    limits.batches_max,
                )?,
                bytes_max: queue.bytes(
                    "bytes_max",
                    &self.queue.bytes_max,
                    limits.bytes_max as u64,
                    (1 << 10, 16 << 30),
                )? as usize,
            },
            backoff,
            request_documents_max: queue.count(
                "request_documents_max",
                self.queue.request_documents_max,
                request_documents_max,
            )?,
        })
    }

    fn rejects(&self, keys: &Keys) -> Result<FileRejectsOptions, ConfigError> {
        let keys = keys.below("rejected");
        let limits = FileRejectsOptions::default();
        let range = (1 << 10, 1 << 40);
        let bytes = &self.rejected.file_bytes_max;
        Ok(FileRejectsOptions {
            file_bytes_max: keys.bytes("file_bytes_max", bytes, limits.file_bytes_max, range)?,
            rotated_files_max: self.rejected.rotated_files_max.unwrap_or(limits.rotated_files_max),
        })
    }
}

/// Where in the configuration a value stands, for errors.
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub fn below(&self, table: &str) -> Keys {
        Keys { prefix: format!("{}.{table}", self.prefix) }
    }

    pub fn error(&self, key: &str, what: impl Into<String>) -> ConfigError {
        ConfigError { key: format!("{}.{key}", self.prefix), what: what.into() }
    }

    /// A duration of at least a millisecond.
    pub fn duration(
        &self,
        key: &str,
        text: &Option<String>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let Some(text) = text else { return Ok(default) };
        let duration =
            text::duration::parse_setting(text).map_err(|error| self.error(key, error))?;
        if duration.is_zero() {
            return Err(self.error(key, "must be longer than 0; write for example 30s"));
        }
        Ok(duration)
    }

    /// A size within limits that include both ends.
    pub fn bytes(
        &self,
        key: &str,
        text: &Option<String>,
        default: u64,
        (least, most): (u64, u64),
    ) -> Result<u64, ConfigError> {
        let Some(text) = text else { return Ok(default) };
        let bytes = text::size::parse_setting(text).map_err(|error| self.error(key, error))?;
        if !(least..=most).contains(&bytes) {
            let what = format!("'{text}' is out of range; write {least} to {most} bytes");
            return Err(self.error(key, what));
        }
        Ok(bytes)
    }

    /// A number of at least 1.
    pub fn count(
        &self,
        key: &str,
        number: Option<usize>,
        default: usize,
    ) -> Result<usize, ConfigError> {
        match number {
            Some(0) => Err(self.error(key, "must be at least 1")),
            Some(number) => Ok(number),
            None => Ok(default),
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        text: &Option<String>,
        choices: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        let Some(text) = text else { return Ok(choices[0].1) };
        let found = choices.iter().find(|(word, _)| word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.error(key, format!("'{text}' is unknown; write one of: {}", words.join(", ")))
        })
    }
}
