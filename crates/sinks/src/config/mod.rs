//! The configuration of sinks: what is written in the file, before it is checked.
//!
//! ```toml
//! [[sinks]]
//! name = "search"
//! urls = ["https://es1:9200", "https://es2:9200"]
//! api_key_file = "/etc/loginson/es.key"
//!
//! [sinks.elasticsearch]
//! index = "logs-%Y.%m.%d"
//! ```
//!
//! [`SinkConfig::check`] turns this into a [`Sink`], or says which key is wrong and what to write
//! instead. No error repeats a secret.

mod check;
mod destinations;
mod reach;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use check::{ConfigError, DestinationOptions, Sink};

use cluster::engines::Secret;

/// One sink. Exactly one of the tables of destinations is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinkConfig {
    /// Names the sink in messages, metrics and files: lower-case letters, digits, `-` and `_`.
    pub name: String,

    /// Servers reached over HTTP; several are nodes of one cluster.
    pub urls: Vec<String>,
    /// A user, with `password` or `password_file`.
    pub user: Option<String>,
    /// The password itself.
    pub password: Option<Secret>,
    /// A file that contains the password.
    pub password_file: Option<PathBuf>,
    /// A variable of the environment that contains the password.
    pub password_env: Option<String>,
    /// An API key of Elasticsearch, in the encoded form.
    pub api_key: Option<Secret>,
    /// A file that contains the API key.
    pub api_key_file: Option<PathBuf>,
    /// A variable of the environment that contains the API key.
    pub api_key_env: Option<String>,
    /// A token, sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// A file that contains the token.
    pub token_file: Option<PathBuf>,
    /// A variable of the environment that contains the token.
    pub token_env: Option<String>,
    /// More headers; their values are treated as secrets.
    pub headers: BTreeMap<String, Secret>,
    /// A file of certificates that the servers are verified with.
    pub ca: Option<PathBuf>,
    /// The longest time for connecting (default `5s`).
    pub connect_timeout: Option<String>,
    /// The longest time for a request and its response (default `60s`).
    pub timeout: Option<String>,
    /// Bytes of a request before compression (default `8MiB`).
    pub body_bytes_max: Option<String>,
    /// `gzip` (default), `none`, or `zstd` where the receiver knows it.
    pub compression: Option<String>,

    /// What may wait in memory.
    pub queue: QueueConfig,
    /// Waits before retries.
    pub retry: RetryConfig,
    /// The files of rejected documents.
    pub rejected: RejectedConfig,

    /// Elasticsearch or OpenSearch.
    pub elasticsearch: Option<ElasticsearchConfig>,
    /// JSON lines over HTTP.
    pub json_lines: Option<JsonLinesConfig>,
    /// Another Loginson.
    pub loginson: Option<LoginsonConfig>,
    /// Apache Kafka.
    pub kafka: Option<KafkaConfig>,
    /// Grafana Loki.
    pub loki: Option<LokiConfig>,
    /// A syslog server.
    pub syslog: Option<SyslogConfig>,
    /// Files of JSON lines.
    pub file: Option<FileConfig>,
}

/// What may wait in memory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Batches (default 64).
    pub batches_max: Option<usize>,
    /// Bytes (default `32MiB`).
    pub bytes_max: Option<String>,
    /// Documents in one request (default 10000).
    pub request_documents_max: Option<usize>,
}

/// Waits before retries.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// After the first failure (default `500ms`); doubles with each failure in a row.
    pub first: Option<String>,
    /// The longest wait (default `1m`).
    pub longest: Option<String>,
    /// The longest wait that a server can ask for by `Retry-After` (default `5m`).
    pub requested_longest: Option<String>,
}

/// The files of rejected documents.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RejectedConfig {
    /// Bytes of a file before it is rotated (default `16MiB`).
    pub file_bytes_max: Option<String>,
    /// Rotated files that are kept (default 3).
    pub rotated_files_max: Option<usize>,
}

/// Elasticsearch or OpenSearch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ElasticsearchConfig {
    /// The index; `%Y`, `%m`, `%d` and `%H` stand for the time of the document.
    pub index: Option<String>,
    /// The data stream, instead of an index.
    pub data_stream: Option<String>,
    /// `create` (default) keeps the first document with an id, `index` the last.
    pub operation: Option<String>,
    /// The field of the time (default `@timestamp`).
    pub time_field: Option<String>,
    /// `date_nanos` (default) or `date`.
    pub time_type: Option<String>,
    /// An ingest pipeline.
    pub pipeline: Option<String>,
    /// The index template.
    pub template: TemplateConfig,
}

/// The index template.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateConfig {
    /// Whether the sink makes one (default true).
    pub enabled: Option<bool>,
    /// Its name (default `loginson-` and the name of the sink).
    pub name: Option<String>,
    /// Its priority (default 250, above those that Elasticsearch brings).
    pub priority: Option<u32>,
    /// Shards of each index.
    pub shards: Option<u32>,
    /// Copies of each shard.
    pub replicas: Option<u32>,
    /// Longer texts are not indexed (default 1024 characters).
    pub ignore_above: Option<u32>,
}

/// JSON lines over HTTP.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JsonLinesConfig {
    /// The field of the id (default `_id`); empty to leave it out.
    pub id_field: Option<String>,
    /// The field of the time (default `_time`).
    pub time_field: Option<String>,
    /// The media type (default `application/x-ndjson`).
    pub content_type: Option<String>,
    /// Statuses that say that a document will never be taken (default 400 and 422).
    pub rejecting_statuses: Option<Vec<u16>>,
}

/// Another Loginson.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoginsonConfig {
    /// The type of the lines there.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The field that is the message.
    pub message_field: Option<String>,
    /// Fields that make up a stream.
    pub stream_fields: Vec<String>,
    /// The field of the id (default `sink_id`); empty to leave it out.
    pub id_field: Option<String>,
    /// Other parameters of `/insert/jsonline`.
    pub parameters: BTreeMap<String, String>,
}

/// Apache Kafka, from version 3.9. Of the keys above it uses `user` with its password, `ca`,
/// `connect_timeout`, `timeout`, `body_bytes_max` and `compression`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// `HOST:PORT` of brokers that are asked for the others.
    pub brokers: Vec<String>,
    /// The topic.
    pub topic: Option<String>,
    /// Whether connections are encrypted (default false).
    pub tls: bool,
    /// How the password is proved: `scram-sha-512` (default), `scram-sha-256` or `plain`.
    pub sasl: Option<String>,
    /// Bytes of a batch of one partition before compression (default `1000kB`, below the default of
    /// brokers). Batches that a broker finds too large are halved.
    pub batch_bytes_max: Option<String>,
    /// The time of records: `sending` (default) or `document`, with which retention deletes old
    /// documents at once.
    pub record_time: Option<String>,
    /// A field for the id, which is the key of the record in any case.
    pub id_field: Option<String>,
    /// The field of the time (default `_time`).
    pub time_field: Option<String>,
}

/// Grafana Loki.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LokiConfig {
    /// Labels of all streams (default `job = "loginson"`).
    pub labels: BTreeMap<String, String>,
    /// Fields that become labels.
    pub label_fields: Vec<String>,
    /// The field that is the line; without it, the fields as JSON.
    pub line_field: Option<String>,
    /// The tenant, sent as `X-Scope-OrgID`.
    pub tenant: Option<String>,
}

/// A syslog server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SyslogConfig {
    /// `HOST:PORT`.
    pub address: Option<String>,
    /// `tcp` (default) or `udp`.
    pub transport: Option<String>,
    /// The longest time for connecting and for each write (default `30s`).
    pub timeout: Option<String>,
    /// Longer messages are rejected over UDP (default `8KiB`).
    pub datagram_bytes_max: Option<String>,
    /// The facility (default 16, local0).
    pub facility: Option<u8>,
    /// The field of the severity (default `level`).
    pub severity_field: Option<String>,
    /// The field of the host (default `hostname`).
    pub hostname_field: Option<String>,
    /// The field of the application (default `app_name`).
    pub app_name_field: Option<String>,
    /// The field of the process id (default `proc_id`).
    pub proc_id_field: Option<String>,
    /// The field of the message (default `_msg`).
    pub message_field: Option<String>,
    /// The id of the structured data with the other fields (default `fields@32473`); empty to leave
    /// them out.
    pub data_id: Option<String>,
}

/// Files of JSON lines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileConfig {
    /// The current file; rotated files are beside it.
    pub path: Option<PathBuf>,
    /// Bytes of a file before it is rotated (default `100MiB`).
    pub file_bytes_max: Option<String>,
    /// The age at which a file is rotated; by default only its size counts.
    pub file_age_max: Option<String>,
    /// Rotated files that are kept (default all).
    pub rotated_files_max: Option<usize>,
    /// `gzip` or `none` (default), for rotated files.
    pub compress: Option<String>,
    /// The field of the id (default `_id`); empty to leave it out.
    pub id_field: Option<String>,
    /// The field of the time (default `_time`).
    pub time_field: Option<String>,
}

#[cfg(test)]
mod tests;
