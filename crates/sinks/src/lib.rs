//! Sinks: where rows and lines go besides Loginson's own store.
//!
//! A [`Runner`] takes [`Batch`]es of [`Document`]s from a bounded queue and delivers them, in
//! order, to a [`Destination`]: [`Elasticsearch`] (and OpenSearch), [`JsonLines`] over HTTP
//! (another Loginson among them), [`Kafka`], [`Loki`], [`Syslog`], [`Files`]. What a destination
//! will never take goes to a [`RejectStore`] with the reason. When every document of a batch is
//! accepted or kept as rejected, the runner acknowledges the batch's cursor, which the caller
//! stores.
//!
//! Delivery is at least once, except by syslog, which has no acknowledgements. It is exactly once
//! at destinations that tell repeated documents by id (Elasticsearch, OpenSearch) or by content
//! (Loki). Kafka gets repeated documents under the same key, by which consumers or compaction tell
//! them.
//!
//! A [`Document`] either writes or deletes ([`Change`]). Destinations without ids ignore deletions;
//! the module of each says what it does.
//!
//! [`kibana_objects`] prints charts and a dashboard for what Elasticsearch or OpenSearch then
//! holds.
//!
//! This crate knows no store: the caller reads by its cursor and makes documents. It has no async
//! code of its own; each sink is one thread, and that of Kafka has those of its library.

mod clock;
pub mod config;
mod destination;
mod document;
mod elasticsearch;
mod file;
mod http;
mod jsonlines;
mod kafka;
mod kibana;
mod loki;
mod reject;
mod rotating;
mod runner;
mod syslog;
mod time;

pub use clock::{Clock, Random, Stop, SystemClock, system_random};
pub use cluster::engines::Secret;
pub use destination::{Delivered, Destination, Fault, Outcome};
pub use document::{Batch, Change, Document, Value};
pub use elasticsearch::{
    Elasticsearch, ElasticsearchOptions, Operation, Product, Server, Target, TemplateOptions,
    TimeType,
};
pub use file::{FileOptions, Files};
pub use http::compress::Encoding;
pub use http::{Client, ClientOptions, Credentials, Method, Reply, Request, Trouble};
pub use jsonlines::{JsonLines, JsonLinesOptions, Receiver};
pub use kafka::{Kafka, KafkaOptions, Mechanism, RecordTime, Sasl};
pub use kibana::{FieldKind, RowSchema, kibana_objects};
pub use loki::{Loki, LokiOptions};
pub use reject::{
    FileRejects, FileRejectsOptions, RejectStore, Rejected, rejected_document, rejected_lines,
};
pub use rotating::Rotation;
pub use runner::{
    Backoff, LastError, NotTaken, Phase, QueueLimits, Runner, RunnerOptions, RunnerParts, State,
};
pub use syslog::{MessageOptions, Syslog, SyslogOptions, Transport};
pub use time::DatePattern;
