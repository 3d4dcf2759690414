//! VictoriaLogs, over its HTTP API: a row is a JSON line in a stream of its table.
//!
//! An insert is acknowledged when its line is in memory. Queries see the line within a second, and
//! it is on disk within two flush intervals more. Lines that the server does not take, because
//! their time is outside of its retention, are acknowledged all the same: their rows are missing.
//!
//! A store of logs cannot change lines and has no order of keys: updates, scans and single deletes
//! are not supported. Creating a table deletes its earlier lines, for which the server needs
//! `-delete.enable`. With several endpoints each is a shard ([`Ring`]). Left out: the cluster of
//! VictoriaLogs itself (`-storageNode`), tenants, and authentication.
//!
//! Streams come in over syslog, into the table [`stream::TABLE`] alone. The server keeps the fields
//! of a line and not the line, so each line is made again of its fields and compared. Its time of
//! syslog has no zone: where the server's zone is not known to be UTC, lines are counted only.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;

use crate::driver::collector::Streaming;
use crate::driver::http::{Http, form};
pub(super) use crate::driver::logsql::node::SYSLOG;
use crate::driver::logsql::node::{FORM, Node, QUERY, count, good, parsed};
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

/// The field with the name of the table.
pub(super) const TABLE: &str = "Table";

/// VictoriaLogs takes the second 0 for a missing time, and its deletion spares times of the future,
/// so the end of times is in the past of every user: it is in the year 2023. Its limit of a line
/// (`-insert.maxLineSizeBytes`) is the same by default; it acknowledges a longer one and drops it.
static DIALECT: Dialect = Dialect {
    table: Some(TABLE),
    times: 2..1_700_000_000,
    no_time: "1970-01-01T00:00:01Z",
    content: "application/stream+json",
    line_bytes_max: 256 << 10,
    aggregates: false,
};

/// Time between two polls of background work.
const LOOK: Duration = Duration::from_millis(50);

/// The counter of lines that came over it.
const SYSLOG_LINES: &str = "vl_rows_ingested_total{type=\"syslog_tcp\"}";

/// The option for the zone of syslog's times.
pub(super) const ZONE: &str = "syslog_zone";

/// The only zone with which lines are compared.
pub(super) const UTC: &str = "UTC";

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: SYSLOG,
        default: "",
        help: "HOST:PORT of each node for syslog over TCP, with a comma between; the lab's servers name it",
    },
    Known {
        name: ZONE,
        default: "",
        help: "`UTC` if its servers run with -syslog.timezone=UTC, as the lab's do: lines of syslog are compared then, and otherwise counted",
    },
    Known {
        name: "time",
        default: "timestamp",
        help: "the integer column with the time of a line, s since 1970, if the table has it",
    },
    Known {
        name: "stream",
        default: "machine:service:host:program",
        help: "text columns that form the stream of a line, those that the table has",
    },
];

struct VictoriaLogs {
    store: String,
    endpoints: Vec<String>,
    timeout: Duration,
    time: String,
    is_utc: bool,
    stream: Vec<String>,
    ring: Arc<Ring>,
    nodes: Vec<Http>,
    /// None without addresses for syslog.
    sender: Option<Sender>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let nodes = Http::each(&spec.name, &spec.endpoints, timeout);
    let sender = Sender::of(&spec.name, options.text(SYSLOG), timeout, Unit::Lines);
    Ok(Arc::new(VictoriaLogs {
        store: spec.name.clone(),
        endpoints: spec.endpoints.clone(),
        timeout,
        time: options.text("time").to_owned(),
        is_utc: options.choice(ZONE, &["", UTC])? == UTC,
        stream: options.text("stream").split(':').map(str::to_owned).collect(),
        ring: Arc::new(Ring::new(nodes.len())),
        nodes,
        sender,
    }))
}

#[async_trait]
impl Driver for VictoriaLogs {
    fn abilities(&self) -> &'static [Ability] {
        &[
            Ability::Insert,
            Ability::InsertMany,
            Ability::Read,
            Ability::Count,
            Ability::Search,
            Ability::Regex,
            Ability::Stream,
        ]
    }

    async fn version(&self) -> Result<String, StoreError> {
        let all = try_join_all(self.nodes.iter().map(metrics)).await?;
        let mut versions: Vec<String> = all.iter().map(|text| version(text)).collect();
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["VictoriaLogs v1.52."]
    }

    fn reads_own_writes(&self) -> bool {
        false
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let table = self.table(schema);
        let empty = try_join_all(self.nodes.iter().map(|node| empty(node, &table)));
        within(&self.store, MAINTENANCE_TIMEOUT, empty).await?;
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            sender.begin(self.ingested().await?);
        }
        Ok(())
    }

    async fn settle(&self, _: &Schema, settle: Settle) -> Result<(), StoreError> {
        let all = async {
            if let Some(mut waiting) = self.sender.as_ref().and_then(Sender::waiting) {
                while !waiting.is_over(self.ingested().await?).await? {}
            }
            try_join_all(self.nodes.iter().map(|node| settled(node, settle))).await
        };
        within(&self.store, MAINTENANCE_TIMEOUT, all).await.map(|_| ())
    }

    /// The size of everything in the store, which has no tables.
    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        let bytes = async |node| gauge(node, "vl_data_size_bytes").await;
        let all = try_join_all(self.nodes.iter().map(bytes)).await?;
        Ok(Some(all.into_iter().sum()))
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        if let Some(sender) = self.sender.as_ref().filter(|_| schema.table == stream::TABLE) {
            let connection = sender.connect(self.ingested().await?).await?;
            return Ok(Box::new(Streaming { store: self.store.clone(), connection }));
        }
        let nodes = Http::each(&self.store, &self.endpoints, self.timeout);
        let table = Arc::new(self.table(schema));
        let nodes = nodes.into_iter().map(|http| Node { http, table: table.clone() }).collect();
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, schema, nodes)))
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        if !self.is_utc {
            return Ok(None);
        }
        let filter = self.table(schema).filter();
        let query = format!("{filter} | fields priority, _time, hostname, app_name, _msg");
        let mut all = Sum::default();
        for node in &self.nodes {
            let form = form("query", &query);
            // Fields that make no frame are another line than the one that was sent.
            let take = |line: &[u8]| all.add_line(&frame(line).unwrap_or_default());
            node.lines(MAINTENANCE_TIMEOUT, Method::POST, QUERY, FORM, form, take).await?;
        }
        Ok(Some(all))
    }
}

/// The frame of syslog (RFC 3164) whose fields are in this line of an answer.
fn frame(line: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        priority: Cow<'a, str>,
        #[serde(borrow, rename = "_time")]
        time: Cow<'a, str>,
        #[serde(borrow)]
        hostname: Cow<'a, str>,
        #[serde(borrow)]
        app_name: Cow<'a, str>,
        #[serde(borrow, rename = "_msg")]
        message: Cow<'a, str>,
    }
    let Fields { priority, time, hostname, app_name, message } =
        serde_json::from_slice(line).ok()?;
    let time: Timestamp = time.parse().ok()?;
    let time = time.strftime("%b %e %H:%M:%S");
    Some(format!("<{priority}>{time} {hostname} {app_name}: {message}").into_bytes())
}

impl VictoriaLogs {
    /// Lines that all nodes have taken over syslog, since they began. A node without any has no
    /// such counter.
    async fn ingested(&self) -> Result<u64, StoreError> {
        let all = try_join_all(self.nodes.iter().map(metrics)).await?;
        Ok(all.iter().filter_map(|text| sum(text, SYSLOG_LINES)).sum())
    }

    fn table(&self, schema: &Schema) -> Table {
        Table::new(&DIALECT, schema, &self.time, &self.stream)
    }
}

/// The metrics of a node, in Prometheus' text format.
async fn metrics(node: &Http) -> Result<String, StoreError> {
    let reply = good(node, node.send(Method::GET, "/metrics", FORM, "").await?)?;
    String::from_utf8(reply.body).map_err(|e| node.answer(e.to_string()))
}

/// The sum of a metric over its labels, as far as `series` does not name them.
async fn gauge(node: &Http, series: &str) -> Result<u64, StoreError> {
    let text = metrics(node).await?;
    sum(&text, series).ok_or_else(|| node.answer(format!("no metric {series}")))
}

fn sum(text: &str, series: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(series));
    let values = lines.filter(|rest| rest.starts_with([' ', '{']));
    values.filter_map(|rest| rest.rsplit(' ').next()?.parse().ok()).reduce(|a: u64, b| a + b)
}

fn version(metrics: &str) -> String {
    let line = metrics.lines().find_map(|line| line.strip_prefix("vm_app_version{"));
    let label = |name: &str| {
        let value = line?.split_once(name)?.1.split('"').nth(1)?;
        (!value.is_empty()).then_some(value)
    };
    // A program that was built without the flag for it does not know its version.
    let found = label("short_version=").or_else(|| label("version="));
    format!("VictoriaLogs {}", found.unwrap_or("of an unknown version"))
}

/// Deletes the lines of a table, and waits until they are gone.
async fn empty(node: &Http, table: &Table) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Task {
        task_id: String,
    }
    settled(node, Settle::Visible).await?;
    let all = table.count_query(&[]);
    if count(node, &all).await? == 0 {
        return Ok(());
    }
    let filter = form("filter", &table.filter());
    let reply = node.send(Method::POST, "/delete/run_task", FORM, filter).await?;
    let Task { task_id } = parsed(node, reply)?;
    loop {
        tokio::time::sleep(LOOK).await;
        let reply = node.send(Method::GET, "/delete/active_tasks", FORM, "").await?;
        let active: Vec<Task> = parsed(node, reply)?;
        if active.iter().all(|task| task.task_id != task_id) {
            break;
        }
    }
    match count(node, &all).await? {
        0 => Ok(()),
        left => Err(node.refused(format!(
            "{left} lines are left after deletion, which spares lines of the future: wipe its data"
        ))),
    }
}

async fn settled(node: &Http, settle: Settle) -> Result<(), StoreError> {
    good(node, node.send(Method::GET, "/internal/force_flush", FORM, "").await?)?;
    if settle == Settle::Visible {
        return Ok(());
    }
    // The server offers no request for this, and does it within two flush intervals.
    wait_for_zero(node, "vl_storage_rows{type=\"storage/inmemory\"}").await?;
    if settle == Settle::Compacted {
        good(node, node.send(Method::GET, "/internal/force_merge", FORM, "").await?)?;
        // The server answers first and merges in the background afterwards.
        tokio::time::sleep(LOOK).await;
        wait_for_zero(node, "vl_active_force_merges").await?;
    }
    Ok(())
}

async fn wait_for_zero(node: &Http, series: &str) -> Result<(), StoreError> {
    while gauge(node, series).await? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
vl_data_size_bytes{type=\"indexdb\"} 49152
vl_data_size_bytes{type=\"storage\"} 194
vl_data_size_bytes_other 7
vl_storage_rows{type=\"storage/inmemory\"} 0
vm_app_version{version=\"victoria-logs-x-v1.52.1\", short_version=\"v1.52.1\"} 1
";

    #[test]
    fn a_line_is_made_again_of_its_fields() {
        let line = br#"{"_msg":"GET \"/a\"  5.","_time":"2026-07-02T04:21:07Z","app_name":"nginx","hostname":"web01","priority":"14"}"#;
        let made = frame(line).unwrap();
        assert_eq!(made, b"<14>Jul  2 04:21:07 web01 nginx: GET \"/a\"  5.");
        assert_eq!(frame(br#"{"_msg":"no fields","_time":"2026-07-02T04:21:07Z"}"#), None);
    }

    #[test]
    fn metrics_are_sums_over_labels() {
        assert_eq!(sum(METRICS, "vl_data_size_bytes"), Some(49_346));
        assert_eq!(sum(METRICS, "vl_storage_rows{type=\"storage/inmemory\"}"), Some(0));
        assert_eq!(sum(METRICS, "vl_storage"), None);
        assert_eq!(sum("vl_storage_rows NaN\n", "vl_storage_rows"), None);
    }

    #[test]
    fn the_version_is_that_of_the_program() {
        for (metrics, known) in [
            (METRICS, "VictoriaLogs v1.52.1"),
            ("vm_app_version{version=\"mine\", short_version=\"\"} 1", "VictoriaLogs mine"),
            (
                "vm_app_version{version=\"\", short_version=\"\"} 1",
                "VictoriaLogs of an unknown version",
            ),
            ("", "VictoriaLogs of an unknown version"),
        ] {
            assert_eq!(version(metrics), known);
        }
    }
}
