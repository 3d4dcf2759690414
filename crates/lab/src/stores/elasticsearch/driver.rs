//! Elasticsearch and OpenSearch, over their HTTP API: a table is an index, a row is a document
//! under its key.
//!
//! The mapping is strict. A column that counts filter by is a `keyword` or a `long`; the others are
//! stored only in the source of the document. The key is the document's `_id`, and also the field
//! [`KEY`], because Elasticsearch does not sort by `_id`: scans are sorted by that field. Requests
//! are sent to the nodes in turn.
//!
//! A read by key sees acknowledged rows; a count and a scan see them after the next refresh, by
//! default a second later (option `refresh`). An answer without all shards is an error, never a
//! smaller count. A column that is searched by words is an analysed `text`, and the time of rows is
//! a `date`. Lines of a stream are documents of their text alone (`stream.rs`). Left out:
//! authentication and TLS.

mod search;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use reqwest::Method;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::driver::aggregate::{Aggregate, Aggregation, Function};
use crate::driver::http::{Http, Reply, push_segment};
use crate::driver::stream::Sum;
use crate::driver::{
    Ability, Answer, Driver, OpenError, Operation, Scans, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, short_message, within,
};
use crate::options::{Known, known};
use crate::row::{ColumnKind, Row, Schema, Value};

/// Time limit for files of merged segments to be deleted.
const DELETIONS_S_MAX: Duration = Duration::from_secs(90);

/// An index has other files than those of its segments. They take at most the segments' size
/// divided by this, and [`FIXED_BYTES_MAX`]. A larger index still has files of merged segments.
const SEGMENTS_PER_FILES_MIN: u64 = 50;

/// See [`SEGMENTS_PER_FILES_MIN`].
const FIXED_BYTES_MAX: u64 = 1 << 20;

/// A flush even if nothing is to be written: it deletes files that are no longer needed.
const FORCED_FLUSH: &str = "_flush?wait_if_ongoing=true&force=true";

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);

/// The field of the key. No column has this name, because columns have no capitals.
const KEY: &str = "Key";

/// Size of one `_bulk` request; more documents are sent in several. Elasticsearch accepts 100 MB
/// and recommends 5 to 15.
const BULK_BYTES_MAX: usize = 8 << 20;

/// Rows of one `_search` (`index.max_result_window`); a longer scan continues behind the last key.
const SEARCH_ROWS_MAX: usize = 10_000;

/// Shards of a table, as Elasticsearch limits them by default.
const SHARDS_MAX: u64 = 1024;

/// How often the server retries an update that conflicts with another of the same document.
const UPDATE_RETRIES: u32 = 10;

/// Limit of integers that floating point represents exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Time limit for creating an index, refreshing and merging.
const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(3600);

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

struct Elasticsearch {
    spec: StoreSpec,
    timeout: Duration,
    shards: u64,
    replicas: u64,
    refresh: String,
    translog: &'static str,
    request_cache: bool,
    auto_ids: bool,
    codec: &'static str,
    http: Http,
    sessions: AtomicUsize,
}

/// With identifiers of the store's own nothing changes or removes a document by its key.
const ABILITIES_OF_AUTO_IDS: &[Ability] = &[
    Ability::Insert,
    Ability::InsertMany,
    Ability::Read,
    Ability::Scan,
    Ability::Count,
    Ability::Search,
    Ability::Aggregate,
    Ability::Stream,
];

/// All but regular expressions: the module of searches says why there are none.
const ABILITIES: &[Ability] = &[
    Ability::Insert,
    Ability::InsertMany,
    Ability::Read,
    Ability::Update,
    Ability::Scan,
    Ability::Count,
    Ability::Delete,
    Ability::Search,
    Ability::Aggregate,
    Ability::Stream,
];

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    Known { name: "shards", default: "1", help: "shards of a table" },
    Known { name: "replicas", default: "0", help: "copies of each shard beside the first" },
    known("refresh", "1s", "time until counts and scans see a row; -1: never"),
    Known {
        name: "translog",
        default: "request",
        help: "when a write is on disk: request (before it is acknowledged) or async (within 5 s)",
    },
    Known {
        name: "request_cache",
        default: "off",
        help: "on: the answer of a repeated count is taken from a cache, as is the stores' default",
    },
    Known {
        name: "ids",
        default: "key",
        help: "auto: the store makes the identifiers of documents, which saves it a lookup, as for logs",
    },
    Known {
        name: "codec",
        default: "default",
        help: "best_compression: stored documents take less of the disk and more processor time",
    },
    TIMEOUT,
];

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let shards = options.number("shards", 1, SHARDS_MAX)?;
    let replicas = options.number("replicas", 0, SHARDS_MAX)?;
    let refresh = options.text("refresh").to_owned();
    let translog = options.choice("translog", &["request", "async"])?;
    let request_cache = options.choice("request_cache", &["on", "off"])? == "on";
    let auto_ids = options.choice("ids", &["key", "auto"])? == "auto";
    let codec = options.choice("codec", &["default", "best_compression"])?;
    let timeout = crate::driver::timeout(&options)?;
    let (spec, http) = (spec.clone(), Http::new(&spec.name, &spec.endpoints, 0, timeout));
    let sessions = AtomicUsize::new(0);
    Ok(Arc::new(Elasticsearch {
        spec,
        timeout,
        shards,
        replicas,
        refresh,
        translog,
        request_cache,
        auto_ids,
        codec,
        http,
        sessions,
    }))
}

#[async_trait]
impl Driver for Elasticsearch {
    fn abilities(&self) -> &'static [Ability] {
        if self.auto_ids { ABILITIES_OF_AUTO_IDS } else { ABILITIES }
    }

    fn reads_own_writes(&self) -> bool {
        !self.auto_ids
    }

    fn scans(&self) -> Scans {
        Scans::Late
    }

    async fn version(&self) -> Result<String, StoreError> {
        let reply = self.http.send(Method::GET, "/", JSON, "").await?;
        let root: serde_json::Value = success(&self.http, &reply)?;
        let version = |name: &str| root["version"][name].as_str();
        let product = match version("distribution") {
            Some("opensearch") => "OpenSearch",
            _ => "Elasticsearch",
        };
        match version("number").zip(version("lucene_version")) {
            Some((number, lucene)) => Ok(format!("{product} {number} (Lucene {lucene})")),
            None => Err(self.http.answer("a server without a version".to_owned())),
        }
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["Elasticsearch 7.17.", "OpenSearch 2.19."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let table = format!("/{}", schema.table);
        let reply = self.maintain(Method::DELETE, &table, String::new()).await?;
        if reply.status != 404 {
            let _: Acknowledged = success(&self.http, &reply)?;
        }
        let body = json!({
            "settings": {
                "number_of_shards": self.shards,
                "number_of_replicas": self.replicas,
                "refresh_interval": self.refresh,
                "translog.durability": self.translog,
                "requests.cache.enable": self.request_cache,
                "codec": self.codec,
                // Otherwise the size of a table is that of up to ten seconds ago.
                "store.stats_refresh_interval": "0s",
            },
            "mappings": { "dynamic": "strict", "properties": properties(schema) },
        });
        let path = format!("{table}?wait_for_active_shards=all");
        let reply = self.maintain(Method::PUT, &path, body.to_string()).await?;
        let Acknowledged { shards_acknowledged } = success(&self.http, &reply)?;
        if shards_acknowledged == Some(false) {
            return Err(self.http.refused(format!(
                "not all copies of the {} shards are there after 30 s; {} replicas need {} nodes",
                self.shards,
                self.replicas,
                self.replicas + 1
            )));
        }
        Ok(())
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        let steps: &[&str] = match settle {
            Settle::Visible => &["_refresh"],
            Settle::Flushed => &["_refresh", "_flush?wait_if_ongoing=true"],
            // The next flush deletes files that were merged.
            Settle::Compacted => {
                &["_refresh", "_forcemerge?max_num_segments=1", "_refresh", FORCED_FLUSH]
            }
        };
        for step in steps {
            self.on_all_shards(schema, step).await?;
        }
        if settle == Settle::Compacted {
            self.wait_for_deletions(schema).await?;
        }
        Ok(())
    }

    /// The size of all copies of all shards according to `_stats`, without the transaction log.
    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let path = format!("/{}/_stats/store", schema.table);
        let reply = self.maintain(Method::GET, &path, String::new()).await?;
        let Shards { shards } = success(&self.http, &reply)?;
        whole(&self.http, &shards, false)?;
        let stats: serde_json::Value = success(&self.http, &reply)?;
        match stats["_all"]["total"]["store"]["size_in_bytes"].as_u64() {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(self.http.answer("statistics without a size".to_owned())),
        }
    }

    async fn arrived(&self, schema: &Schema) -> Result<Option<Sum>, StoreError> {
        // A server may answer with one page more for ever.
        within(&self.spec.name, MAINTENANCE_TIMEOUT, self.sum(schema)).await.map(Some)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let first = self.sessions.fetch_add(1, Ordering::Relaxed);
        let http = Http::new(&self.spec.name, &self.spec.endpoints, first, self.timeout);
        let path = format!("/{}", schema.table);
        let reply = http.send(Method::HEAD, &path, JSON, "").await?;
        match reply.status {
            200 => {
                let (schema, auto_ids) = (schema.clone(), self.auto_ids);
                Ok(Box::new(Connection { http, schema, auto_ids }))
            }
            // The response to HEAD has no body to quote.
            404 => Err(http.refused(format!("there is no index `{}`", schema.table))),
            _ => Err(refusal(&http, &reply)),
        }
    }
}

impl Elasticsearch {
    /// Waits until files of merged segments are deleted. The server keeps them until it has
    /// recorded that all copies of the shard are up to date, which takes half a minute, and until
    /// the next flush. After [`DELETIONS_S_MAX`] the size is reported with them.
    async fn wait_for_deletions(&self, schema: &Schema) -> Result<(), StoreError> {
        let began = Instant::now();
        while began.elapsed() < DELETIONS_S_MAX {
            let segments = self.segment_bytes(schema).await?;
            let bytes = self.table_bytes(schema).await?.unwrap_or(0);
            if bytes <= segments + segments / SEGMENTS_PER_FILES_MIN + FIXED_BYTES_MAX {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
            self.on_all_shards(schema, FORCED_FLUSH).await?;
        }
        Ok(())
    }

    /// Posts an action on a table that is an error unless all its shards complete it.
    async fn on_all_shards(&self, schema: &Schema, action: &str) -> Result<(), StoreError> {
        let path = format!("/{}/{action}", schema.table);
        let reply = self.maintain(Method::POST, &path, String::new()).await?;
        let Shards { shards } = success(&self.http, &reply)?;
        whole(&self.http, &shards, false)
    }

    /// The size of the segments that searches use, of all copies of all shards.
    async fn segment_bytes(&self, schema: &Schema) -> Result<u64, StoreError> {
        #[derive(Deserialize)]
        struct Segments {
            indices: BTreeMap<String, Index>,
        }
        #[derive(Deserialize)]
        struct Index {
            shards: BTreeMap<String, Vec<Copied>>,
        }
        #[derive(Deserialize)]
        struct Copied {
            segments: BTreeMap<String, Segment>,
        }
        #[derive(Deserialize)]
        struct Segment {
            size_in_bytes: u64,
            search: bool,
        }
        let path = format!("/{}/_segments", schema.table);
        let reply = self.maintain(Method::GET, &path, String::new()).await?;
        let Segments { indices } = success(&self.http, &reply)?;
        let copies = indices.into_values().flat_map(|index| index.shards).flat_map(|(_, all)| all);
        let segments = copies.flat_map(|copied| copied.segments.into_values());
        Ok(segments.filter(|segment| segment.search).map(|segment| segment.size_in_bytes).sum())
    }

    async fn maintain(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Reply, StoreError> {
        self.http.send_within(MAINTENANCE_TIMEOUT, method, path, JSON, body).await
    }
}

fn properties(schema: &Schema) -> serde_json::Value {
    let field = |kind: ColumnKind, indexed: bool| {
        let kind = match kind {
            ColumnKind::Integer => "long",
            ColumnKind::Text => "keyword",
        };
        // Functions are computed over the columnar copy of integers.
        let doc_values = indexed || kind == "long";
        json!({ "type": kind, "index": indexed, "doc_values": doc_values })
    };
    let columns = schema.columns.iter().map(|column| {
        let mapping = match () {
            () if column.time => json!({ "type": "date", "format": "epoch_millis" }),
            () if column.words => json!({ "type": "text", "norms": false }),
            () => field(column.kind, column.indexed),
        };
        (column.name.clone(), mapping)
    });
    std::iter::once((KEY.to_owned(), field(schema.key, true))).chain(columns).collect()
}

struct Connection {
    http: Http,
    schema: Schema,
    auto_ids: bool,
}

#[async_trait]
impl Session for Connection {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Insert(row) => self.insert(row).await,
            Operation::InsertMany(rows) => self.insert_many(rows).await,
            Operation::Read { key } if self.auto_ids => self.find_key(key).await,
            Operation::Read { key } => self.read(key).await,
            Operation::Update { .. } | Operation::Delete { .. } if self.auto_ids => {
                let (store, ability) = (self.http.store().to_owned(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
            Operation::Update { key, changes } => self.update(key, changes).await,
            Operation::Scan { from, rows_max } => self.scan(from, *rows_max).await,
            Operation::Count { conditions } => self.count(conditions).await,
            Operation::Delete { key } => self.delete(key).await,
            Operation::Search(search) => self.find(search).await,
            Operation::Aggregate(asked) => self.aggregate(asked).await,
            Operation::Stream(block) => self.stream(block).await,
        }
    }
}

impl Connection {
    async fn insert(&self, row: &Row) -> Result<Answer, StoreError> {
        let (method, path) = match self.auto_ids {
            true => (Method::POST, format!("/{}/_doc", self.schema.table)),
            false => (Method::PUT, self.path("_doc", &row.key)),
        };
        let reply = self.http.send(method, &path, JSON, self.document(row)).await?;
        let Written { .. } = success(&self.http, &reply)?;
        Ok(Answer::Done)
    }

    async fn insert_many(&self, rows: &[Row]) -> Result<Answer, StoreError> {
        let mut rows = rows.iter().peekable();
        let mut body = String::new();
        while let Some(row) = rows.next() {
            match self.auto_ids {
                true => body.push_str("{\"index\":{}}"),
                false => {
                    let id = row.key.to_string();
                    body.push_str(&json!({ "index": { "_id": id } }).to_string());
                }
            }
            body.push('\n');
            body.push_str(&self.document(row));
            body.push('\n');
            if body.len() >= BULK_BYTES_MAX || rows.peek().is_none() {
                self.bulk(std::mem::take(&mut body)).await?;
            }
        }
        Ok(Answer::Done)
    }

    async fn bulk(&self, body: String) -> Result<(), StoreError> {
        /// Items of accepted rows have no error.
        #[derive(Deserialize)]
        struct Bulk {
            errors: bool,
            #[serde(default)]
            items: Vec<BTreeMap<String, Item>>,
        }
        #[derive(Deserialize)]
        struct Item {
            status: u16,
            error: Option<Cause>,
        }
        let table = &self.schema.table;
        let path = format!("/{table}/_bulk?filter_path=errors,items.*.status,items.*.error");
        let reply = self.http.send(Method::POST, &path, LINES, body).await?;
        let Bulk { errors, items } = success(&self.http, &reply)?;
        if !errors {
            return Ok(());
        }
        let items = items.into_iter().flat_map(BTreeMap::into_values);
        let failed: Vec<String> =
            items.filter_map(|item| Some(item.error?.words(item.status))).collect();
        match failed.first() {
            Some(first) => Err(self.http.refused(format!("{} rows: {first}", failed.len()))),
            None => Err(self.http.answer("errors of a bulk request, but it tells none".to_owned())),
        }
    }

    /// The row of a key by the field of keys: seen after the next refresh.
    async fn find_key(&self, key: &Value) -> Result<Answer, StoreError> {
        let rows = self.search(json!({ "gte": key, "lte": key }), 1).await?;
        Ok(Answer::Row(rows.into_iter().next()))
    }

    async fn read(&self, key: &Value) -> Result<Answer, StoreError> {
        #[derive(Deserialize)]
        struct Got {
            found: bool,
            #[serde(rename = "_source")]
            source: Option<BTreeMap<String, Value>>,
        }
        let path = self.path("_doc", key);
        let reply = self.http.send(Method::GET, &path, JSON, "").await?;
        // A missing document and a missing index are both 404; only the first has `found`.
        let got = match reply.status {
            200 | 404 => serde_json::from_slice::<Got>(&reply.body).ok(),
            _ => None,
        };
        match got {
            Some(Got { found: false, .. }) => Ok(Answer::Row(None)),
            Some(Got { source: Some(source), .. }) => Ok(Answer::Row(Some(self.row(source)?))),
            Some(_) => Err(self.http.answer("a document without its source".to_owned())),
            None => Err(refusal(&self.http, &reply)),
        }
    }

    async fn update(&self, key: &Value, changes: &[(usize, Value)]) -> Result<Answer, StoreError> {
        let columns = &self.schema.columns;
        let doc = changes.iter().map(|(at, value)| (columns[*at].name.as_str(), value));
        let doc: BTreeMap<&str, &Value> = doc.collect();
        let path = self.path("_update", key) + &format!("?retry_on_conflict={UPDATE_RETRIES}");
        let body = json!({ "doc": doc }).to_string();
        let reply = self.http.send(Method::POST, &path, JSON, body).await?;
        let Written { .. } = success(&self.http, &reply)?;
        Ok(Answer::Done)
    }

    async fn scan(&self, from: &Value, rows_max: usize) -> Result<Answer, StoreError> {
        let mut rows: Vec<Row> = Vec::with_capacity(rows_max.min(SEARCH_ROWS_MAX));
        while rows.len() < rows_max {
            let size = (rows_max - rows.len()).min(SEARCH_ROWS_MAX);
            let range = match rows.last() {
                None => json!({ "gte": from }),
                Some(last) => json!({ "gt": last.key }),
            };
            let found = self.search(range, size).await?;
            let end = found.len() < size;
            rows.extend(found);
            if end {
                break;
            }
        }
        Ok(Answer::Rows(rows))
    }

    async fn search(&self, range: serde_json::Value, size: usize) -> Result<Vec<Row>, StoreError> {
        let body = json!({
            "size": size,
            "query": { "range": { KEY: range } },
            "sort": [KEY],
            "track_total_hits": false,
        });
        let found = self.ask(&body).await?;
        found.hits.hits.into_iter().map(|hit| self.row(hit.source)).collect()
    }

    async fn count(&self, conditions: &[(usize, Value)]) -> Result<Answer, StoreError> {
        #[derive(Deserialize)]
        struct Count {
            count: u64,
            #[serde(rename = "_shards")]
            shards: ShardCounts,
        }
        let columns = &self.schema.columns;
        let terms = conditions.iter().map(|(at, v)| json!({ "term": { &columns[*at].name: v } }));
        let terms: Vec<_> = terms.collect();
        // An empty filter matches everything.
        let body = json!({ "query": { "bool": { "filter": terms } } }).to_string();
        let path = format!("/{}/_count", self.schema.table);
        let reply = self.http.send(Method::POST, &path, JSON, body).await?;
        let Count { count, shards } = success(&self.http, &reply)?;
        whole(&self.http, &shards, false)?;
        Ok(Answer::Count(count))
    }

    async fn aggregate(&self, asked: &Aggregation) -> Result<Answer, StoreError> {
        let name = |at: usize| &self.schema.columns[at].name;
        let terms = asked.conditions.iter().map(|(at, v)| json!({ "term": { name(*at): v } }));
        let range = asked.within.map(|within| {
            json!({ "range": { name(within.column): { "gte": within.from, "lt": within.to } } })
        });
        let filter: Vec<_> = terms.chain(range).collect();
        let function = match asked.function {
            Function::Max => "max",
            Function::Average => "sum",
        };
        let body = json!({
            "size": 0,
            "track_total_hits": true,
            "query": { "bool": { "filter": filter } },
            "aggs": { "result": { function: { "field": name(asked.column) } } },
        });
        let mut found = self.ask(&body).await?;
        let (Some(total), Some(result)) = (found.hits.total, found.aggregations.remove("result"))
        else {
            return Err(self.http.answer("a function without its result".to_owned()));
        };
        let rows = total.value;
        // Elasticsearch computes in floating point, and gives 0 as the sum of no rows.
        let value = match result.value.filter(|_| rows > 0) {
            None => None,
            Some(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => Some(value as i64),
            Some(value) => return Err(self.http.answer(format!("{value} is no exact integer"))),
        };
        Ok(Answer::Aggregate(Aggregate { rows, value }))
    }

    async fn delete(&self, key: &Value) -> Result<Answer, StoreError> {
        let path = self.path("_doc", key);
        let reply = self.http.send(Method::DELETE, &path, JSON, "").await?;
        // A missing index needs no deletion: the response is 404 with a result.
        if reply.status == 404 && serde_json::from_slice::<Written>(&reply.body).is_ok() {
            return Ok(Answer::Done);
        }
        let Written { .. } = success(&self.http, &reply)?;
        Ok(Answer::Done)
    }

    fn path(&self, what: &str, key: &Value) -> String {
        let mut path = format!("/{}/{what}/", self.schema.table);
        push_segment(&mut path, &key.to_string());
        path
    }

    fn document(&self, row: &Row) -> String {
        let document = Document { schema: &self.schema, row };
        serde_json::to_string(&document).expect("a row is plain data")
    }

    /// The row in the source of a document.
    fn row(&self, mut source: BTreeMap<String, Value>) -> Result<Row, StoreError> {
        let mut take = |name: &str, kind: ColumnKind| match source.remove(name) {
            Some(value) if value.kind() == kind => Ok(value),
            other => Err(self.http.answer(format!("field `{name}` of a document is {other:?}"))),
        };
        let key = take(KEY, self.schema.key)?;
        let columns = self.schema.columns.iter();
        let values = columns.map(|c| take(&c.name, c.kind)).collect::<Result<_, _>>()?;
        Ok(Row { key, values })
    }
}

/// A row as a document.
struct Document<'a> {
    schema: &'a Schema,
    row: &'a Row,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.row.values.len()))?;
        map.serialize_entry(KEY, &self.row.key)?;
        for (column, value) in self.schema.columns.iter().zip(&self.row.values) {
            map.serialize_entry(&column.name, value)?;
        }
        map.end()
    }
}

#[derive(Deserialize)]
struct Acknowledged {
    /// Set if an index was created.
    shards_acknowledged: Option<bool>,
}

/// The response to a write.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "result")]
    _result: String,
}

#[derive(Deserialize)]
struct Shards {
    #[serde(rename = "_shards")]
    shards: ShardCounts,
}

#[derive(Deserialize)]
struct ShardCounts {
    total: u64,
    successful: u64,
    failed: u64,
}

/// The content of an error.
#[derive(Default, Deserialize)]
struct Cause {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    root_cause: Vec<Cause>,
}

impl Cause {
    /// The store's error message; for kinds with a remedy it begins with the remedy.
    fn words(&self, status: u16) -> String {
        let root = self.root_cause.first().unwrap_or(self);
        let reason = root.reason.as_deref().unwrap_or("no reason is given");
        let words = format!("{status} {}: {reason}", root.kind);
        if reason.contains("flood-stage") || reason.contains("disk usage exceeded") {
            return format!("its disk is too full, free some or raise its watermarks: {words}");
        }
        match status {
            429 => format!("it is overloaded, send less at once: {words}"),
            500.. => format!("it failed, see its log: {words}"),
            _ => words,
        }
    }
}

/// The body of a successful response.
fn success<'a, T: Deserialize<'a>>(http: &Http, reply: &'a Reply) -> Result<T, StoreError> {
    if !(200..300).contains(&reply.status) {
        return Err(refusal(http, reply));
    }
    serde_json::from_slice(&reply.body).map_err(|e| http.answer(e.to_string()))
}

/// The error for a malformed response.
fn refusal(http: &Http, reply: &Reply) -> StoreError {
    #[derive(Deserialize)]
    struct Failure {
        error: Cause,
    }
    match serde_json::from_slice::<Failure>(&reply.body) {
        Ok(Failure { error }) => http.refused(error.words(reply.status)),
        Err(_) => http.refused(
            Cause {
                kind: "without the JSON of an error".to_owned(),
                reason: Some(short_message(&String::from_utf8_lossy(&reply.body))),
                root_cause: Vec::new(),
            }
            .words(reply.status),
        ),
    }
}

/// Refuses a response that lacks the results of some shards.
fn whole(http: &Http, shards: &ShardCounts, timed_out: bool) -> Result<(), StoreError> {
    if shards.failed > 0 || timed_out {
        let ShardCounts { total, successful, failed } = shards;
        return Err(http.refused(format!(
            "the answer is not of all shards: {successful} of {total} answered, {failed} failed"
        )));
    }
    Ok(())
}
