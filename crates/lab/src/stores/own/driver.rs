//! The driver of a store of the user's own: the operations as lines of JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::protocol::{Reply, Request, asked, computed, list, pairs, row};
use super::registry;
use crate::driver::aggregate::{Aggregate, Aggregation};
use crate::driver::json_lines::Link;
use crate::driver::ring::Ring;
use crate::driver::search::{Search, Wanted};
use crate::driver::sharded::{Shard, Sharded, on_all};
use crate::driver::{
    Ability, Answer, Driver, MAINTENANCE_TIMEOUT, OpenError, Scans, Session, Settle, StoreError,
    StoreSpec, TIMEOUT, within,
};
use crate::row::{Row, Schema, Value};

struct Own {
    kind: &'static registry::Own,
    endpoints: Vec<String>,
    timeout: Duration,
    /// The options for the program.
    options: Arc<BTreeMap<String, String>>,
    ring: Arc<Ring>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let kind = registry::find(&spec.name).ok_or_else(|| OpenError::Unknown {
        name: spec.name.clone(),
        known: crate::stores::names().join(", "),
    })?;
    let options = crate::driver::options(spec, kind.options)?;
    crate::driver::hosts(spec)?;
    let own = kind.options.iter().filter(|known| known.name != TIMEOUT.name);
    let own = own.map(|known| (known.name.to_owned(), options.text(known.name).to_owned()));
    Ok(Arc::new(Own {
        kind,
        endpoints: spec.endpoints.clone(),
        timeout: crate::driver::timeout(&options)?,
        options: Arc::new(own.collect()),
        ring: Arc::new(Ring::new(spec.endpoints.len())),
    }))
}

#[async_trait]
impl Driver for Own {
    fn abilities(&self) -> &'static [Ability] {
        self.kind.abilities
    }

    async fn version(&self) -> Result<String, StoreError> {
        let name = self.kind.name;
        let links = self.endpoints.iter().map(|endpoint| async { Ok(Link::new(name, endpoint)) });
        let version = |mut link: Link| async move {
            match ask(&mut link, &Request::Version).await? {
                Reply::Text(text) => Ok(text),
                other => Err(unexpected(&link, &other)),
            }
        };
        let mut versions = on_all(name, self.timeout, links, version, |e| e).await?;
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[]
    }

    fn reads_own_writes(&self) -> bool {
        self.kind.reads_own_writes
    }

    fn scans(&self) -> Scans {
        self.kind.scans
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        self.all(schema, |mut node| async move { node.done(&Request::Create).await.map(|_| ()) })
            .await
            .map(|_| ())
    }

    async fn settle(&self, schema: &Schema, until: Settle) -> Result<(), StoreError> {
        let settle =
            |mut node: Node| async move { node.done(&Request::Settle { until }).await.map(|_| ()) };
        self.all(schema, settle).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let size = |mut node: Node| async move {
            match node.ask(&Request::Size).await? {
                Reply::Bytes(bytes) => Ok(bytes),
                other => Err(unexpected(&node.link, &other)),
            }
        };
        // The size is known if all nodes know theirs.
        Ok(self.all(schema, size).await?.into_iter().sum())
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let mut nodes = self.nodes(schema);
        let connect = try_join_all(nodes.iter_mut().map(Node::connect));
        within(self.kind.name, self.timeout, connect).await?;
        Ok(Box::new(Sharded::new(self.kind.name, self.timeout, &self.ring, schema, nodes)))
    }
}

impl Own {
    fn nodes(&self, schema: &Schema) -> Vec<Node> {
        let schema = Arc::new(schema.clone());
        let node = |endpoint: &String| Node {
            link: Link::new(self.kind.name, endpoint),
            schema: schema.clone(),
            options: self.options.clone(),
        };
        self.endpoints.iter().map(node).collect()
    }

    /// The answers of all nodes, on new connections.
    async fn all<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        schema: &Schema,
        work: impl Fn(Node) -> F,
    ) -> Result<Vec<T>, StoreError> {
        let nodes = self.nodes(schema).into_iter().map(|node| async { Ok(node) });
        on_all(self.kind.name, MAINTENANCE_TIMEOUT, nodes, work, |e| e).await
    }
}

/// What the program answers to a request.
async fn ask(link: &mut Link, request: &Request<'_>) -> Result<Reply, StoreError> {
    match link.ask(request).await? {
        Reply::Error(reason) => {
            let reason = crate::driver::short_message(&reason);
            Err(StoreError::Refused { store: link.store.clone(), reason })
        }
        reply => Ok(reply),
    }
}

fn unexpected(link: &Link, reply: &Reply) -> StoreError {
    link.answer(crate::driver::short_message(&format!("it does not fit the request: {reply:?}")))
}

/// One of the nodes of a session.
struct Node {
    link: Link,
    schema: Arc<Schema>,
    options: Arc<BTreeMap<String, String>>,
}

impl Node {
    /// Connects, and says which table is meant.
    async fn connect(&mut self) -> Result<(), StoreError> {
        if self.link.is_connected() {
            return Ok(());
        }
        let open = Request::Open { schema: &self.schema, options: &self.options };
        match ask(&mut self.link, &open).await? {
            Reply::Done(_) => Ok(()),
            other => Err(unexpected(&self.link, &other)),
        }
    }

    async fn ask(&mut self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.connect().await?;
        ask(&mut self.link, request).await
    }

    /// Whether a change was made.
    async fn done(&mut self, request: &Request<'_>) -> Result<bool, StoreError> {
        match self.ask(request).await? {
            Reply::Done(done) => Ok(done),
            other => Err(unexpected(&self.link, &other)),
        }
    }

    async fn rows(&mut self, request: &Request<'_>) -> Result<Vec<Row>, StoreError> {
        match self.ask(request).await? {
            Reply::Rows(rows) => {
                let rows = rows.into_iter().map(|list| row(&self.schema, list));
                rows.collect::<Result<_, _>>().map_err(|reason| self.link.answer(reason))
            }
            other => Err(unexpected(&self.link, &other)),
        }
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
        Ok(self.rows(&Request::Read { key }).await?.into_iter().next())
    }

    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        let schema = self.schema.clone();
        self.done(&Request::Update { key, changes: pairs(&schema, changes) }).await
    }

    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        self.rows(&Request::Scan { from, rows_max }).await
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let schema = self.schema.clone();
        match self.ask(&Request::Count { conditions: pairs(&schema, conditions) }).await? {
            Reply::Count(count) => Ok(count),
            other => Err(unexpected(&self.link, &other)),
        }
    }

    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        self.done(&Request::Delete { key }).await.map(|_| ())
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let schema = self.schema.clone();
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
        let schema = self.schema.clone();
        match self.ask(&Request::Aggregate(computed(&schema, asked))).await? {
            Reply::Aggregate { rows, value } => Ok(Aggregate { rows, value }),
            other => Err(unexpected(&self.link, &other)),
        }
    }
}
