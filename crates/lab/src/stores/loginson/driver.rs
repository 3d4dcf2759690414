//! Loginson, over its HTTP API like any other store: a row is a JSON line whose type is the name of
//! the table.
//!
//! The key is the field `Key` and is read with an exact filter; counts are queries in LogsQL. The
//! message (a column `message`) and the time (option `time`) are the message and the event time of
//! the line, as in any log store, so that the store can use its indexes for them. A column of times
//! holds whole seconds since 1970, or milliseconds if the schema says that it is the time; a number
//! outside of the times between then and 2255 is kept as a field. An insert is acknowledged when
//! its line is durable.
//!
//! A store of logs cannot change lines and has no order of keys: updates, scans and single deletes
//! are not supported. Creating a table deletes its earlier lines. With several endpoints each is a
//! shard ([`Ring`]).
//!
//! Streams come in over syslog, into the table [`stream::TABLE`] alone: a rule of the server gives
//! lines from this machine that type. Senders of syslog get no answer, so a line has arrived when
//! the store counts it as kept.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;

use crate::driver::collector::Streaming;
use crate::driver::http::{Http, form, push_segment};
pub(super) use crate::driver::logsql::node::SYSLOG;
use crate::driver::logsql::node::{FORM, Node, QUERY, first_of_all, good, parsed};
use crate::driver::logsql::quoted;
use crate::driver::logsql::table::{Dialect, Table};
use crate::driver::ring::Ring;
use crate::driver::sender::{Sender, Unit};
use crate::driver::sharded::Sharded;
use crate::driver::stream::{self, Sum};
use crate::driver::{
    Ability, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, within,
};
use crate::options::Known;
use crate::row::Schema;

/// Loginson stores times as nanoseconds in 64 bits, and replaces invalid ones by the time of
/// arrival.
static DIALECT: Dialect = Dialect {
    table: None,
    times: 1..9_000_000_000,
    no_time: "1970-01-01T00:00:00Z",
    content: "application/x-ndjson",
    line_bytes_max: usize::MAX,
    aggregates: true,
};

/// Lines that are read by one query, about: an answer has a limit of ten million rows.
const WINDOW_LINES: i64 = 5_000_000;

/// Time between two polls of background work.
const LOOK: Duration = Duration::from_millis(20);

/// The source of these lines in the status.
const SYSLOG_TCP: &str = "syslog_tcp";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: "time",
        default: "timestamp",
        help: "the integer column with the time of a line, s since 1970, if the table has it",
    },
    Known {
        name: SYSLOG,
        default: "",
        help: "HOST:PORT of each node for syslog over TCP, with a comma between; the lab's servers name it",
    },
    Known {
        name: "seal",
        default: "yes",
        help: "whether data that is flushed is sealed, as users have it; `no` measures it unsealed",
    },
];

struct Loginson {
    store: String,
    endpoints: Vec<String>,
    timeout: Duration,
    time: String,
    seal: bool,
    ring: Arc<Ring>,
    nodes: Vec<Http>,
    /// None without addresses for syslog.
    sender: Option<Sender>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let store = spec.name.clone();
    let endpoints = spec.endpoints.clone();
    let nodes = Http::each(&store, &endpoints, timeout);
    let ring = Arc::new(Ring::new(nodes.len()));
    let time = options.text("time").to_owned();
    let seal = options.choice("seal", &["yes", "no"])? == "yes";
    let sender = Sender::of(&store, options.text(SYSLOG), timeout, Unit::Lines);
    Ok(Arc::new(Loginson { store, endpoints, timeout, time, seal, ring, nodes, sender }))
}

/// The fields of `/api/v1/status` that are used.
#[derive(Deserialize)]
struct Status {
    version: String,
    store: StoreStatus,
    ingest: Vec<Source>,
    parse_lag_lines: u64,
}

#[derive(Deserialize)]
struct Source {
    source: String,
    lines_kept: u64,
}

#[derive(Deserialize)]
struct StoreStatus {
    bytes_disk: u64,
    sealing: Sealing,
}

#[derive(Deserialize)]
struct Sealing {
    lag_segments: u64,
}

/// The fields of an entry of `/api/v1/deletions` that are used.
#[derive(Deserialize)]
struct Deletion {
    id: String,
    state: String,
    note: Option<String>,
}

#[async_trait]
impl Driver for Loginson {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Count,
            Ability::Search,
            Ability::Regex,
            Ability::Aggregate,
            Ability::Stream,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        let mut versions: Vec<String> = all.into_iter().map(|s| s.version).collect();
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[env!("CARGO_PKG_VERSION")]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let delete = try_join_all(self.nodes.iter().map(|node| delete(node, schema)));
        within(&self.store, MAINTENANCE_TIMEOUT, delete).await?;
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            sender.begin(self.kept().await?);
        }
        Ok(())
    }

    async fn settle(&self, _: &Schema, settle: Settle) -> Result<(), StoreError> {
        let all = async {
            if let Some(mut waiting) = self.sender.as_ref().and_then(Sender::waiting) {
                while !waiting.is_over(self.kept().await?).await? {}
            }
            // Queries see a line once it is durable: they parse by themselves what is not parsed.
            if settle != Settle::Visible {
                try_join_all(self.nodes.iter().map(|node| settled(node, self.seal))).await?;
            }
            Ok(())
        };
        within(&self.store, MAINTENANCE_TIMEOUT, all).await
    }

    /// Lines that come over syslog are durable first, and parsed and sealed later.
    async fn process(&self, schema: &Schema) -> Result<(), StoreError> {
        self.settle(schema, Settle::Flushed).await
    }

    /// The size of everything in the store, which has no tables.
    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        Ok(Some(all.into_iter().map(|s| s.store.bytes_disk).sum()))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            let connection = sender.connect(self.kept().await?).await?;
            return Ok(Box::new(Streaming { store: self.store.clone(), connection }));
        }
        let nodes = Http::each(&self.store, &self.endpoints, self.timeout);
        let table = Arc::new(Table::new(&DIALECT, schema, &self.time, &[]));
        let nodes = nodes.into_iter().map(|http| Node { http, table: table.clone() }).collect();
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, schema, nodes)))
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        let table = Table::new(&DIALECT, schema, &self.time, &[]);
        let mut all = Sum::default();
        for node in &self.nodes {
            // Parsing goes on behind the arrival; reading is faster after it.
            within(&self.store, MAINTENANCE_TIMEOUT, settled(node, false)).await?;
            for times in windows(node, &table).await? {
                let query = form("format=raw&query", &format!("{}{times}", table.filter()));
                // An export would be sorted, for which it goes through such lines several times.
                let (path, limit) = (QUERY, MAINTENANCE_TIMEOUT);
                let take = |line: &[u8]| all.add_line(line);
                node.lines(limit, Method::POST, path, FORM, query, take).await?;
            }
        }
        Ok(Some(all))
    }
}

impl Loginson {
    /// Lines that all nodes have kept of those that came over syslog, since they began.
    async fn kept(&self) -> Result<u64, StoreError> {
        let all = try_join_all(self.nodes.iter().map(status)).await?;
        let sources = all.iter().flat_map(|status| &status.ingest);
        let kept = sources.filter(|source| source.source == SYSLOG_TCP).map(|s| s.lines_kept);
        Ok(kept.sum())
    }
}

async fn status(node: &Http) -> Result<Status, StoreError> {
    let reply = node.send(Method::GET, "/api/v1/status", FORM, "").await?;
    parsed(node, reply)
}

/// Waits for background work of the store, until acknowledged lines are parsed. With `seal` the
/// active segment is closed first, and all lines are sealed, as they are for users after the first
/// minutes or hours.
async fn settled(node: &Http, seal: bool) -> Result<(), StoreError> {
    if seal {
        good(node, node.send(Method::POST, "/api/v1/seal", FORM, "").await?)?;
    }
    loop {
        let status = status(node).await?;
        let sealed = !seal || status.store.sealing.lag_segments == 0;
        if status.parse_lag_lines == 0 && sealed {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Filters for the times of a table's lines, each for a part of them, and together for all.
async fn windows(node: &Http, table: &Table) -> Result<Vec<String>, StoreError> {
    let query = format!("{} | stats count() n, min(_time) first, max(_time) last", table.filter());
    // Over a hundred million lines, it takes longer than a query of a study may.
    let line = first_of_all(node, &query).await?;
    let value = |name: &str| line.get(name).map_or("", String::as_str);
    let lines: i64 = value("n").parse().map_err(|_| node.answer("a count is a number".into()))?;
    if lines == 0 {
        return Ok(Vec::new());
    }
    let time = |name: &str| -> Result<Timestamp, StoreError> {
        let text = value(name);
        text.parse().map_err(|_| node.answer(format!("`{text}` is not a time")))
    };
    // The end of the last one is behind the last line.
    let (first, last) = (time("first")?.as_second(), time("last")?.as_second() + 1);
    let windows = (lines / WINDOW_LINES + 1).min(last - first).max(1);
    let at = |place: i64| Timestamp::from_second(first + (last - first) * place / windows);
    let filter = |place: i64| {
        let (from, to) = at(place).and_then(|from| Ok((from, at(place + 1)?))).ok()?;
        Some(format!(" _time:[{from}, {to})"))
    };
    Ok((0..windows).filter_map(filter).collect())
}

/// Deletes all lines of a table, and waits until they are gone.
async fn delete(node: &Http, schema: &Schema) -> Result<(), StoreError> {
    let filter = form("filter", &format!("_type:={}", quoted(&schema.table)));
    let reply = node.send(Method::POST, "/api/v1/deletions", FORM, filter).await?;
    let mut deletion: Deletion = parsed(node, reply)?;
    loop {
        match deletion.state.as_str() {
            "running" => {}
            "done" => return Ok(()),
            state => {
                let note = deletion.note.unwrap_or_default();
                return Err(node.refused(format!("the deletion of the table is {state}: {note}")));
            }
        }
        tokio::time::sleep(LOOK).await;
        let mut path = "/api/v1/deletions/".to_owned();
        push_segment(&mut path, &deletion.id);
        deletion = parsed(node, node.send(Method::GET, &path, FORM, "").await?)?;
    }
}
