//! What the lab asks of a store. The drivers are in [`crate::stores`].
//!
//! A driver talks to a real server over the network: with a client library of Rust where one is
//! good enough to measure with (PostgreSQL, Redis, Cassandra, Kafka), over HTTP, or by a client in
//! another language beside it. It declares its abilities, and never invents an answer: an operation
//! that it lacks is [`StoreError::NotSupported`]. The driver `null` of tests alone
//! reaches no server.

pub mod aggregate;
pub(crate) mod collector;
pub mod durability;
pub(crate) mod http;
pub(crate) mod json_lines;
pub(crate) mod logsql;
#[cfg(test)]
pub(crate) mod null;
pub(crate) mod ring;
pub mod search;
pub(crate) mod sender;
pub(crate) mod sharded;
pub mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::driver::search::{Groups, Search};
use crate::options::{Known, OptionError, Options};
use crate::row::{Row, Schema, Value};
use aggregate::{Aggregate, Aggregation};
use stream::{Block, Sum};

/// One request to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Writes one row under a new key. The answer is [`Answer::Done`] once the store has
    /// acknowledged it.
    Insert(Row),
    /// Writes many rows in the fastest way of the store; for loading data, never for measuring
    /// single writes.
    InsertMany(Vec<Row>),
    /// Reads all columns of one row: [`Answer::Row`].
    Read {
        /// Its key.
        key: Value,
    },
    /// Replaces columns of an existing row: [`Answer::Done`].
    Update {
        /// Its key.
        key: Value,
        /// The index of the column in the schema, and its new value.
        changes: Vec<(usize, Value)>,
    },
    /// Reads rows in the order of keys, or in the store's own order if it has another:
    /// [`Answer::Rows`].
    Scan {
        /// The first key, which need not exist.
        from: Value,
        /// Limit of the rows.
        rows_max: usize,
    },
    /// Counts the rows in which every named column has the value: [`Answer::Count`].
    Count {
        /// The index of the column in the schema, and its value.
        conditions: Vec<(usize, Value)>,
    },
    /// Removes one row: [`Answer::Done`].
    Delete {
        /// Its key.
        key: Value,
    },
    /// Searches log lines: [`Answer::Count`], [`Answer::Rows`] or [`Answer::Groups`], as the search
    /// wants.
    Search(Search),
    /// Computes a function over the rows that fulfil conditions: [`Answer::Aggregate`].
    Aggregate(Aggregation),
    /// Hands over lines of syslog: [`Answer::Done`] when the system has taken them. Whether the
    /// store has them, [`Settle::Visible`] and [`Driver::arrived`] tell.
    Stream(Block),
}

impl Operation {
    /// Whether it is about one row, which is on one server.
    pub fn is_of_one_row(&self) -> bool {
        matches!(
            self,
            Operation::Insert(_)
                | Operation::Read { .. }
                | Operation::Update { .. }
                | Operation::Delete { .. }
        )
    }
}

/// The kinds of [`Operation`]: what a driver declares it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// [`Operation::Insert`]
    Insert,
    /// [`Operation::InsertMany`]
    InsertMany,
    /// [`Operation::Read`]
    Read,
    /// [`Operation::Update`]
    Update,
    /// [`Operation::Scan`]
    Scan,
    /// [`Operation::Count`]
    Count,
    /// [`Operation::Delete`]
    Delete,
    /// [`Operation::Search`] without regular expressions
    Search,
    /// [`Operation::Search`] with a regular expression
    Regex,
    /// [`Operation::Aggregate`]
    Aggregate,
    /// [`Operation::Stream`]
    Stream,
}

impl Ability {
    /// The abilities of a store that can do everything.
    pub const ALL: &[Ability] = &[
        Ability::Insert,
        Ability::InsertMany,
        Ability::Read,
        Ability::Update,
        Ability::Scan,
        Ability::Count,
        Ability::Delete,
        Ability::Aggregate,
        Ability::Search,
        Ability::Regex,
        Ability::Stream,
    ];

    /// All that is asked of a store of rows.
    pub const ALL_OF_ROWS: &[Ability] = Ability::ALL.split_at(10).0;

    /// The abilities with single rows, and functions over rows.
    pub const ROWS_AND_AGGREGATE: &[Ability] = Ability::ALL.split_at(8).0;

    /// The abilities with single rows.
    pub const ROWS: &[Ability] = Ability::ALL.split_at(7).0;

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Ability::Insert => "insert",
            Ability::InsertMany => "insert_many",
            Ability::Read => "read",
            Ability::Update => "update",
            Ability::Scan => "scan",
            Ability::Count => "count",
            Ability::Delete => "delete",
            Ability::Search => "search",
            Ability::Regex => "regex",
            Ability::Aggregate => "aggregate",
            Ability::Stream => "stream",
        }
    }
}

impl Operation {
    /// The abilities that a driver needs for it.
    pub fn ability(&self) -> Ability {
        match self {
            Operation::Insert(_) => Ability::Insert,
            Operation::InsertMany(_) => Ability::InsertMany,
            Operation::Read { .. } => Ability::Read,
            Operation::Update { .. } => Ability::Update,
            Operation::Scan { .. } => Ability::Scan,
            Operation::Count { .. } => Ability::Count,
            Operation::Delete { .. } => Ability::Delete,
            Operation::Search(search) if search.has_regex() => Ability::Regex,
            Operation::Search(_) => Ability::Search,
            Operation::Aggregate(_) => Ability::Aggregate,
            Operation::Stream(_) => Ability::Stream,
        }
    }
}

/// The answer of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Acknowledged.
    Done,
    /// The row; `None` if there is none under this key.
    Row(Option<Row>),
    /// Rows of a scan.
    Rows(Vec<Row>),
    /// The number of rows.
    Count(u64),
    /// The number of rows by value.
    Groups(Groups),
    /// The result of a function.
    Aggregate(Aggregate),
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no connection, or it broke.
    #[error("{store} does not answer: {reason}")]
    Unreachable {
        /// Name of the store.
        store: String,
        /// The error of the client.
        reason: String,
    },
    /// The store took longer than the time limit of one operation.
    #[error("{store} did not answer within {seconds} s")]
    Timeout {
        /// Name of the store.
        store: String,
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The store answered with an error of its own, for example because its disk is full.
    #[error("{store} refused: {reason}")]
    Refused {
        /// Name of the store.
        store: String,
        /// The store's message.
        reason: String,
    },
    /// The driver cannot parse the store's answer.
    #[error("{store} answered what the driver does not understand: {reason}")]
    Answer {
        /// Name of the store.
        store: String,
        /// The fault of the answer.
        reason: String,
    },
    /// The store has no such operation.
    #[error("{store} has no operation `{}`", ability.name())]
    NotSupported {
        /// Name of the store.
        store: String,
        /// The operation.
        ability: Ability,
    },
}

impl StoreError {
    /// The short name under which errors are counted.
    pub fn kind(&self) -> &'static str {
        match self {
            StoreError::Unreachable { .. } => "unreachable",
            StoreError::Timeout { .. } => "timeout",
            StoreError::Refused { .. } => "refused",
            StoreError::Answer { .. } => "answer",
            StoreError::NotSupported { .. } => "not_supported",
        }
    }
}

/// A store to measure: its driver, its addresses, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSpec {
    /// The driver's name, that of its row in [`STORES`](crate::stores::STORES).
    pub name: String,
    /// Its name in reports: the driver's name, with the options that distinguish variants of one
    /// store (`cassandra index=none`).
    pub label: String,
    /// `host:port` of each node or of each shard.
    pub endpoints: Vec<String>,
    /// The driver's options, such as `consistency = "one"`; unknown ones are refused.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl StoreSpec {
    /// The name of its servers: the store, or the instance of it, with which the label begins.
    pub fn server(&self) -> &str {
        self.label.split(' ').next().unwrap_or(&self.name)
    }
}

/// How far a store must have processed what it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// Counts and reads see every row.
    Visible,
    /// Everything in memory is written to the data files.
    Flushed,
    /// The files are also merged, as far as the store does on request.
    Compacted,
}

/// What the scans of a store return.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scans {
    /// All rows whose insert was acknowledged before, in the order of keys.
    #[default]
    InOrder,
    /// Rows in the order of keys, the newest only after [`Settle::Visible`].
    Late,
    /// Rows in an order of the store's own.
    Unordered,
}

/// A store, reached over the network.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Its abilities. A study that needs more says so in its report.
    fn abilities(&self) -> &'static [Ability];

    /// The version that the server reports.
    async fn version(&self) -> Result<String, StoreError>;

    /// Prefixes of [`Driver::version`] with which the contract of drivers is tested.
    fn versions_tested(&self) -> &'static [&'static str];

    /// Whether a read sees a row as soon as its insert is acknowledged. Where it does not, the row
    /// is seen some time later, or after [`Settle::Visible`].
    fn reads_own_writes(&self) -> bool {
        true
    }

    /// Whether its client is a program of its own, whose first answers take long in any case.
    fn has_client_program(&self) -> bool {
        false
    }

    /// What its scans return.
    fn scans(&self) -> Scans {
        Scans::InOrder
    }

    /// Creates the table again, empty, with its indexes.
    async fn create(&self, schema: &Schema) -> Result<(), StoreError>;

    /// Returns once everything acknowledged has reached that state.
    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError>;

    /// Returns once everything acknowledged is parsed and in the form in which most queries read
    /// it. At once for a store that does this before it acknowledges, and for one that never does.
    async fn process(&self, schema: &Schema) -> Result<(), StoreError> {
        let _ = schema;
        Ok(())
    }

    /// Bytes of the table on disk (in memory, for a store in memory) as the store reports them,
    /// with indexes; `None` if it does not report them.
    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError>;

    /// The lines of [`Operation::Stream`] that are in the table, read from where the store keeps
    /// them; `None` for a store that does not keep them as they were.
    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        let _ = schema;
        Ok(None)
    }

    /// Opens a connection for one thread of load, with its statements prepared.
    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError>;
}

/// A connection: one operation at a time.
#[async_trait]
pub trait Session: Send {
    /// Sends one operation and waits for its answer, within the driver's time limit.
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError>;
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no driver with this name.
    #[error("there is no driver `{name}`; there are: {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all drivers.
        known: String,
    },
    /// The option does not exist, or does not accept the value.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An endpoint is invalid.
    #[error("{store}: {reason}")]
    Endpoint {
        /// Name of the store.
        store: String,
        /// The fault of the endpoint.
        reason: String,
    },
    /// No endpoint is given.
    #[error(
        "{store} has no endpoint; give one as --endpoint {store}=HOST:PORT, or start it: loginson-lab stores start {store}"
    )]
    NoEndpoint {
        /// Name of the store.
        store: String,
    },
}

/// Makes the driver for a store, which connects when it is first used.
pub type Open = fn(&StoreSpec) -> Result<Arc<dyn Driver>, OpenError>;

/// Time limit for creating, settling and emptying tables.
pub(crate) const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Characters of a store's message that an error quotes.
const MESSAGE_CHARS_MAX: usize = 400;

/// The option that every driver has.
pub(crate) const TIMEOUT: Known =
    Known { name: "timeout_s", default: "30", help: "time limit of one operation, s" };

/// The options of a store, which needs at least one endpoint.
pub(crate) fn options(spec: &StoreSpec, known: &'static [Known]) -> Result<Options, OpenError> {
    if spec.endpoints.is_empty() {
        return Err(OpenError::NoEndpoint { store: spec.name.clone() });
    }
    Ok(Options::read(&spec.name, known, &spec.options)?)
}

/// The value of [`TIMEOUT`].
pub(crate) fn timeout(options: &Options) -> Result<Duration, OpenError> {
    Ok(Duration::from_secs(options.number(TIMEOUT.name, 1, 86_400)?))
}

/// The endpoints as host and port; an IPv6 address is written `[::1]:5432`.
pub(crate) fn hosts(spec: &StoreSpec) -> Result<Vec<(String, u16)>, OpenError> {
    let host = |endpoint: &String| {
        let (host, port) = endpoint.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
    };
    let wrong = |endpoint: &String| OpenError::Endpoint {
        store: spec.name.clone(),
        reason: format!("`{endpoint}` is not HOST:PORT"),
    };
    spec.endpoints.iter().map(|e| host(e).ok_or_else(|| wrong(e))).collect()
}

/// The result of `work`, or a timeout error.
pub(crate) async fn within<T>(
    store: &str,
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Timeout { store: store.to_owned(), seconds: limit.as_secs() }),
    }
}

/// The error of a change to a missing row, for stores that report it.
pub(crate) fn no_row(store: &str, key: &Value) -> StoreError {
    StoreError::Refused { store: store.to_owned(), reason: format!("no row under the key {key}") }
}

/// The message of a store on one line, cut if it is long: it may quote whole rows, or name each of
/// the thousands of commands of a batch.
pub(crate) fn short_message(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The error of a sum that does not fit into 64 bits.
pub(crate) fn too_large(store: &str) -> StoreError {
    StoreError::Answer { store: store.to_owned(), reason: "a sum does not fit into 64 bits".into() }
}

/// Merges the scans of several shards, each in the order of keys, into one.
pub(crate) fn merged(parts: Vec<Vec<Row>>, rows_max: usize) -> Vec<Row> {
    let several = parts.iter().filter(|part| !part.is_empty()).count() > 1;
    let mut rows: Vec<Row> = parts.into_iter().flatten().collect();
    if several {
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    }
    rows.truncate(rows_max);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(endpoints: &[&str]) -> StoreSpec {
        let endpoints = endpoints.iter().map(|e| (*e).to_owned()).collect();
        let (name, label) = ("store".to_owned(), "store".to_owned());
        StoreSpec { name, label, endpoints, options: BTreeMap::new() }
    }

    #[test]
    fn a_message_is_one_short_line() {
        assert_eq!(short_message("ERROR:\n a\tb\n"), "ERROR: a b");
        let long = short_message(&"ž".repeat(MESSAGE_CHARS_MAX + 1));
        assert_eq!(long.chars().count(), MESSAGE_CHARS_MAX + 1, "the last one says that it is cut");
    }

    #[test]
    fn endpoints_are_hosts_and_ports() {
        for (endpoint, host) in [
            ("127.0.0.1:5432", Some(("127.0.0.1", 5432))),
            ("[::1]:5432", Some(("::1", 5432))),
            ("db:1", Some(("db", 1))),
            ("db", None),
            (":1", None),
            ("db:65536", None),
            ("db:", None),
        ] {
            let found = hosts(&spec(&[endpoint])).ok().map(|all| all[0].clone());
            assert_eq!(found, host.map(|(h, p)| (h.to_owned(), p)), "{endpoint}");
        }
    }

    #[test]
    fn each_set_of_abilities_adds_to_the_set_before_it() {
        for (set, before, added) in [
            (Ability::ROWS_AND_AGGREGATE, Ability::ROWS, Ability::Aggregate),
            (Ability::ALL, Ability::ALL_OF_ROWS, Ability::Stream),
        ] {
            assert_eq!(set.split_last(), Some((&added, before)));
        }
        let searches = &[Ability::Search, Ability::Regex][..];
        let functions = Ability::ROWS_AND_AGGREGATE;
        assert_eq!(Ability::ALL_OF_ROWS.strip_prefix(functions), Some(searches));
        assert_eq!(Ability::ROWS.last(), Some(&Ability::Delete));
    }

    #[test]
    fn scans_of_shards_become_one() {
        let rows = |keys: &[i64]| -> Vec<Row> {
            keys.iter().map(|k| Row { key: Value::Integer(*k), values: vec![] }).collect()
        };
        let parts = || vec![rows(&[1, 4]), rows(&[]), rows(&[2, 3, 9])];
        assert_eq!(merged(parts(), 3), rows(&[1, 2, 3]));
        assert_eq!(merged(parts(), 99), rows(&[1, 2, 3, 4, 9]));
    }
}
