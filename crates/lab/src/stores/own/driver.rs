//! The driver of stores that are reached by lines of JSON: those of the user's own, and those whose
//! client is a [program of the lab](crate::servers::client).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use tokio::net::TcpStream;

use super::protocol::{Reply, Request, asked, computed, list, pairs, row};
use super::registry;
use crate::driver::aggregate::{Aggregate, Aggregation};
use crate::driver::json_lines::Link;
use crate::driver::ring::Ring;
use crate::driver::search::{Search, Wanted};
use crate::driver::sharded::{Shard, Sharded, on_all};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Operation, Scans, Session, Settle,
    StoreError, StoreSpec, TIMEOUT, within,
};
use crate::options::Known;
use crate::row::{Row, Schema, Value};
use crate::servers::client::Client;

/// How long an endpoint may take to refuse a connection.
const PROBE: Duration = Duration::from_secs(1);

/// What the driver has to know of a kind of store.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The name of the store.
    pub name: &'static str,
    /// What it can do.
    pub abilities: &'static [Ability],
    /// What its scans return.
    pub scans: Scans,
    /// See [`Driver::reads_own_writes`].
    pub reads_own_writes: bool,
    /// Its options, with that of every driver.
    pub options: &'static [Known],
    /// See [`Driver::versions_tested`].
    pub versions_tested: &'static [&'static str],
    /// The client that speaks to its servers; none where the endpoints answer lines of JSON.
    pub client: Option<&'static Client>,
    /// Whether its endpoints are of one store, which its client tells apart, and not shards.
    pub is_cluster: bool,
}

struct Own {
    kind: &'static Kind,
    /// The endpoints of each shard.
    shards: Vec<Vec<String>>,
    timeout: Duration,
    /// The options for the program.
    options: Arc<BTreeMap<String, String>>,
    ring: Arc<Ring>,
}

/// The driver of a store that the user added.
pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let own = registry::find(&spec.name).ok_or_else(|| OpenError::Unknown {
        name: spec.name.clone(),
        known: crate::stores::names().join(", "),
    })?;
    open_kind(&own.kind, spec)
}

/// The driver of a store of this kind, after `spec`.
pub(crate) fn open_kind(
    kind: &'static Kind,
    spec: &StoreSpec,
) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, kind.options)?;
    crate::driver::hosts(spec)?;
    let own = kind.options.iter().filter(|known| known.name != TIMEOUT.name);
    let own = own.map(|known| (known.name.to_owned(), options.text(known.name).to_owned()));
    let shards: Vec<Vec<String>> = match kind.is_cluster {
        true => vec![spec.endpoints.clone()],
        false => spec.endpoints.iter().map(|endpoint| vec![endpoint.clone()]).collect(),
    };
    Ok(Arc::new(Own {
        kind,
        timeout: crate::driver::timeout(&options)?,
        options: Arc::new(own.collect()),
        ring: Arc::new(Ring::new(shards.len())),
        shards,
    }))
}

#[async_trait]
impl Driver for Own {
    fn has_client_program(&self) -> bool {
        true
    }

    fn abilities(&self) -> &'static [Ability] {
        self.kind.abilities
    }

    async fn version(&self) -> Result<String, StoreError> {
        let version = |mut node: Node| async move {
            match node.ask(&Request::Version).await? {
                Reply::Text(text) => Ok(text),
                other => Err(unexpected(&node.link, &other)),
            }
        };
        let versions = self.all(None, self.timeout, version).await;
        let mut versions = match versions {
            Ok(versions) => versions,
            Err(error) => return Err(without_listener(error, &self.shards).await),
        };
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        self.kind.versions_tested
    }

    fn reads_own_writes(&self) -> bool {
        self.kind.reads_own_writes
    }

    fn scans(&self) -> Scans {
        self.kind.scans
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let create = |mut node: Node| async move { node.done(&Request::Create).await.map(|_| ()) };
        self.all(Some(schema), MAINTENANCE_TIMEOUT, create).await.map(|_| ())
    }

    async fn settle(&self, schema: &Schema, until: Settle) -> Result<(), StoreError> {
        let settle =
            |mut node: Node| async move { node.done(&Request::Settle { until }).await.map(|_| ()) };
        self.all(Some(schema), MAINTENANCE_TIMEOUT, settle).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let size = |mut node: Node| async move {
            match node.ask(&Request::Size).await? {
                Reply::Bytes(bytes) => Ok(bytes),
                other => Err(unexpected(&node.link, &other)),
            }
        };
        // The size is known if all nodes know theirs.
        let sizes = self.all(Some(schema), MAINTENANCE_TIMEOUT, size).await?;
        Ok(sizes.into_iter().sum())
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let mut nodes = self.nodes(Some(schema), self.timeout);
        let connect = try_join_all(nodes.iter_mut().map(Node::connect));
        if let Err(error) = within(self.kind.name, self.timeout, connect).await {
            return Err(without_listener(error, &self.shards).await);
        }
        let shards = Sharded::new(self.kind.name, self.timeout, &self.ring, schema, nodes);
        Ok(Box::new(Connected { shards, endpoints: self.shards.clone() }))
    }
}

/// A session that tells a store that is gone from one that is slow.
struct Connected {
    shards: Sharded<Node>,
    /// The endpoints of each shard.
    endpoints: Vec<Vec<String>>,
}

#[async_trait]
impl Session for Connected {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match self.shards.execute(operation).await {
            Err(error) => Err(without_listener(error, &self.endpoints).await),
            answer => answer,
        }
    }
}

/// A timeout of a store of which a shard has no listener left is an error of the connection: the
/// clients of some stores look for a server for longer than an operation may take.
async fn without_listener(error: StoreError, shards: &[Vec<String>]) -> StoreError {
    let StoreError::Timeout { store, seconds } = error else { return error };
    for endpoints in shards {
        let refusals = join_all(endpoints.iter().map(|endpoint| refuses(endpoint))).await;
        if !refusals.contains(&false) {
            let reason = format!("nothing listens at {}", endpoints.join(", "));
            return StoreError::Unreachable { store, reason };
        }
    }
    StoreError::Timeout { store, seconds }
}

/// Whether a connection to the endpoint is refused at once.
async fn refuses(endpoint: &str) -> bool {
    let connect = tokio::time::timeout(PROBE, TcpStream::connect(endpoint)).await;
    matches!(connect, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

impl Own {
    /// New connections to all shards, for requests that take up to `limit`.
    fn nodes(&self, schema: Option<&Schema>, limit: Duration) -> Vec<Node> {
        let schema = schema.map(|schema| Arc::new(schema.clone()));
        let node = |endpoints: &Vec<String>| Node {
            kind: self.kind,
            link: Link::new(self.kind.name, &endpoints[0]),
            endpoints: endpoints.clone(),
            limit,
            schema: schema.clone(),
            options: self.options.clone(),
        };
        self.shards.iter().map(node).collect()
    }

    /// The answers of all shards, on new connections.
    async fn all<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        schema: Option<&Schema>,
        limit: Duration,
        work: impl Fn(Node) -> F,
    ) -> Result<Vec<T>, StoreError> {
        let nodes = self.nodes(schema, limit).into_iter().map(|node| async { Ok(node) });
        on_all(self.kind.name, limit, nodes, work, |e| e).await
    }
}

/// What the program answers to a request.
async fn ask(link: &mut Link, request: &Request<'_>) -> Result<Reply, StoreError> {
    match link.ask(request).await? {
        Reply::Error(reason) => {
            let reason = crate::driver::short_message(&reason);
            Err(StoreError::Refused { store: link.store.clone(), reason })
        }
        Reply::Unreachable(reason) => {
            let reason = crate::driver::short_message(&reason);
            Err(StoreError::Unreachable { store: link.store.clone(), reason })
        }
        reply => Ok(reply),
    }
}

fn unexpected(link: &Link, reply: &Reply) -> StoreError {
    link.answer(crate::driver::short_message(&format!("it does not fit the request: {reply:?}")))
}

/// One of the shards of a session.
struct Node {
    kind: &'static Kind,
    link: Link,
    endpoints: Vec<String>,
    limit: Duration,
    /// The table; none for requests that need none.
    schema: Option<Arc<Schema>>,
    options: Arc<BTreeMap<String, String>>,
}

impl Node {
    /// Connects, and says which table is meant.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if self.link.is_connected() {
            return Ok(());
        }
        let connected = self.introduce().await;
        if connected.is_err() {
            // What follows would be asked without a store or a table.
            self.link.disconnect();
        }
        connected
    }

    async fn introduce(&mut self) -> Result<(), StoreError> {
        if let Some(client) = self.kind.client {
            let address = tokio::task::spawn_blocking(move || client.reached()).await;
            let address = address.map_err(|e| e.to_string());
            let address = address.and_then(|address| address.map_err(|e| e.to_string()));
            let store = self.link.store.clone();
            let address = address.map_err(|reason| StoreError::Unreachable { store, reason })?;
            self.link.lead_to(&address);
            let timeout_s = self.limit.as_secs();
            let (endpoints, options) = (&self.endpoints, &self.options);
            let connect = Request::Connect { endpoints, timeout_s, options };
            let reply = ask(&mut self.link, &connect).await?;
            done(&self.link, reply)?;
        }
        if let Some(schema) = &self.schema {
            let open = Request::Open { schema, options: &self.options };
            let reply = ask(&mut self.link, &open).await?;
            done(&self.link, reply)?;
        }
        Ok(())
    }

    /// The table of this session.
    fn schema(&self) -> Arc<Schema> {
        self.schema.clone().expect("it is about a table")
    }

    /// An error if the store does not have the operation.
    fn needs(&self, ability: Ability) -> Result<(), StoreError> {
        match self.kind.abilities.contains(&ability) {
            true => Ok(()),
            false => Err(self.lacks(ability)),
        }
    }

    async fn ask(&mut self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.connect().await?;
        ask(&mut self.link, request).await
    }

    /// Whether a change was made.
    async fn done(&mut self, request: &Request<'_>) -> Result<bool, StoreError> {
        let reply = self.ask(request).await?;
        done(&self.link, reply)
    }

    async fn rows(&mut self, request: &Request<'_>) -> Result<Vec<Row>, StoreError> {
        match self.ask(request).await? {
            Reply::Rows(rows) => {
                let schema = self.schema();
                let rows = rows.into_iter().map(|list| row(&schema, list));
                rows.collect::<Result<_, _>>().map_err(|reason| self.link.answer(reason))
            }
            other => Err(unexpected(&self.link, &other)),
        }
    }
}

/// Whether a change was made, by the answer to a request for one.
fn done(link: &Link, reply: Reply) -> Result<bool, StoreError> {
    match reply {
        Reply::Done(done) => Ok(done),
        other => Err(unexpected(link, &other)),
    }
}

#[async_trait]
impl Shard for Node {
    fn store(&self) -> &str {
        &self.link.store
    }

    fn disconnect(&mut self) {
        self.link.disconnect();
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let rows = rows.iter().map(|row| list(row)).collect();
        self.done(&Request::Insert { rows }).await.map(|_| ())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let mut rows = self.rows(&Request::Read { key }).await?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            many => Err(self.link.answer(format!("{many} rows have the key {key}"))),
        }
    }

    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        self.needs(Ability::Update)?;
        let schema = self.schema();
        self.done(&Request::Update { key, changes: pairs(&schema, changes) }).await
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        self.needs(Ability::Scan)?;
        self.rows(&Request::Scan { from, rows_max }).await
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        self.needs(Ability::Count)?;
        let schema = self.schema();
        match self.ask(&Request::Count { conditions: pairs(&schema, conditions) }).await? {
            Reply::Count(count) => Ok(count),
            other => Err(unexpected(&self.link, &other)),
        }
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        self.needs(Ability::Delete)?;
        self.done(&Request::Delete { key }).await.map(|_| ())
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        self.needs(if search.has_regex() { Ability::Regex } else { Ability::Search })?;
        let schema = self.schema();
        let request = asked(&schema, search).map(Request::Search);
        let request = request
            .ok_or_else(|| self.link.answer("a search by time of a table without a time"))?;
        match (&search.wanted, self.ask(&request).await?) {
            (Wanted::Count, Reply::Count(count)) => Ok(Answer::Count(count)),
            (Wanted::Latest { .. }, Reply::Rows(rows)) => {
                let rows = rows.into_iter().map(|list| row(&schema, list));
                let rows = rows.collect::<Result<_, _>>();
                rows.map(Answer::Rows).map_err(|reason| self.link.answer(reason))
            }
            (Wanted::CountBy { .. } | Wanted::CountOver { .. }, Reply::Groups(mut groups)) => {
                groups.sort();
                Ok(Answer::Groups(groups))
            }
            (_, other) => Err(unexpected(&self.link, &other)),
        }
    }

    async fn aggregate(&mut self, asked: &Aggregation) -> Result<Aggregate, StoreError> {
        self.needs(Ability::Aggregate)?;
        let schema = self.schema();
        match self.ask(&Request::Aggregate(computed(&schema, asked))).await? {
            Reply::Aggregate { rows, value } => Ok(Aggregate { rows, value }),
            other => Err(unexpected(&self.link, &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::row::{Column, ColumnKind};

    static PLAIN: Kind = Kind {
        name: "plain",
        abilities: &[Ability::Insert, Ability::InsertMany, Ability::Read],
        scans: Scans::InOrder,
        reads_own_writes: true,
        options: &[TIMEOUT],
        versions_tested: &[],
        client: None,
        is_cluster: false,
    };

    /// Answers every read with this line, and everything else as done.
    async fn reads(line: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut stream, mut request) = (BufReader::new(stream), String::new());
            while stream.read_line(&mut request).await.unwrap() > 0 {
                let is_read = request.contains("\"do\":\"read\"");
                let answer = if is_read { line } else { "{\"done\":true}" };
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
                stream.get_mut().write_all(b"\n").await.unwrap();
                request.clear();
            }
        });
        endpoint
    }

    #[tokio::test]
    async fn two_rows_of_one_key_are_no_answer_to_a_read() {
        let columns = vec![Column::new("n", ColumnKind::Integer, false)];
        let schema = Schema { table: "t".to_owned(), key: ColumnKind::Integer, columns };
        for (line, found) in [
            ("{\"rows\":[]}", Ok(None)),
            ("{\"rows\":[[1,7]]}", Ok(Some(7))),
            ("{\"rows\":[[1,7],[1,7]]}", Err("2 rows have the key 1")),
        ] {
            let (name, endpoints) = ("plain".to_owned(), vec![reads(line).await]);
            let options = BTreeMap::new();
            let spec = StoreSpec { label: name.clone(), name, endpoints, options };
            let driver = open_kind(&PLAIN, &spec).unwrap();
            let mut session = driver.connect(&schema).await.unwrap();
            let answer = session.execute(&Operation::Read { key: Value::Integer(1) }).await;
            match (answer, found) {
                (Ok(Answer::Row(row)), Ok(value)) => {
                    let expected = value.map(Value::Integer);
                    assert_eq!(row.map(|row| row.values[0].clone()), expected, "{line}");
                }
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
                (answer, _) => panic!("{line}: {answer:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_timeout_is_an_error_of_the_connection_only_where_nothing_listens() {
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = open.local_addr().map(|at| (at.to_string(), open)).unwrap();
        // Nobody may take a reserved port meanwhile, as another test might take a free one.
        let closed = "127.0.0.1:1".to_owned();
        let kind = async |shards: &[Vec<String>]| {
            let error = StoreError::Timeout { store: "s".to_owned(), seconds: 10 };
            without_listener(error, shards).await.kind()
        };
        assert_eq!(kind(&[vec![open.0.clone()]]).await, "timeout");
        assert_eq!(kind(&[vec![closed.clone(), open.0.clone()]]).await, "timeout");
        assert_eq!(kind(&[vec![closed.clone()]]).await, "unreachable");
        assert_eq!(kind(&[vec![open.0.clone()], vec![closed]]).await, "unreachable");
        let refused = StoreError::Refused { store: "s".to_owned(), reason: "full".to_owned() };
        assert_eq!(without_listener(refused, &[vec![]]).await.kind(), "refused");
    }
}
