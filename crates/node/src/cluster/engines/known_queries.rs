//! Which background queries each node keeps. Their rows are on the disk of that node alone, but
//! the list is in the catalog too, one mark for each node, and every node remembers the lists of
//! all others. So they can name the queries of a node that is away.
//!
//! A list is written when it changed, and once an hour. One that is not written for as long as
//! results are kept is forgotten: if its node came back, its queries would have expired.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Catalog, NodeId, Resource};
use serde::{Deserialize, Serialize};

use super::Engines;

/// The prefix of the marks, which end in the id of the node.
const PREFIX: &str = "queries/";
/// How long a node may change its list at a time: longer than two calls of the catalog.
const LEASE: Duration = Duration::from_secs(90);
/// How often a list is written that did not change.
const WRITTEN_EVERY_NS: i64 = 3_600_000_000_000;
/// Characters that the others know of the text of a query. Beyond it the text is cut.
pub const TOLD_CHARS_MAX: usize = 200;

/// A background query, as the other nodes know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownQuery {
    /// Its id.
    pub id: u64,
    /// The beginning of its text.
    pub query: String,
    /// The client that submitted it.
    pub client: String,
    /// When it was submitted, nanoseconds since 1970 UTC.
    pub started_ns: i64,
    /// When it expires, nanoseconds since 1970 UTC; none before it has ended.
    pub expires_ns: Option<i64>,
}

/// The background queries of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueriesOfNode {
    /// The node.
    pub node: u32,
    /// Its name, for people.
    pub name: String,
    /// When the list was written, nanoseconds since 1970 UTC by the clock of the node.
    pub told_ns: i64,
    /// When the others may forget it, by the same clock.
    pub forgotten_ns: i64,
    /// The queries.
    pub queries: Vec<KnownQuery>,
}

/// What this node told last, and what the others told.
#[derive(Default)]
pub(super) struct KnownQueries {
    own: Mutex<Option<QueriesOfNode>>,
    others: Mutex<Vec<QueriesOfNode>>,
}

impl Engines {
    /// Tells the other nodes which background queries this one keeps, and hears which they keep.
    /// `keep`: how long results are kept. Blocks.
    ///
    /// Errors: the catalog cannot be reached; the text says so. It is tried again.
    pub fn share_queries(
        &self,
        queries: Vec<KnownQuery>,
        now_ns: i64,
        keep: Duration,
    ) -> Result<(), String> {
        let node = self.info.node;
        let list = QueriesOfNode {
            node: node.0,
            name: self.info.name.clone(),
            told_ns: now_ns,
            forgotten_ns: now_ns.saturating_add(text::duration::ns(keep)),
            queries,
        };
        let told = lock(&self.queries.own).clone();
        if told.is_none_or(|told| is_due(&told, &list)) {
            self.write_queries(node, Some(&list))?;
            *lock(&self.queries.own) = Some(list);
        }
        let marks = self.catalog.marks(PREFIX).map_err(|error| error.to_string())?;
        let mut others = Vec::with_capacity(marks.len());
        for (_, body) in marks {
            // A newer program may write them in another form; that node answers for itself.
            let Ok(list) = serde_json::from_slice::<QueriesOfNode>(&body) else { continue };
            if list.node == node.0 {
                continue;
            }
            if list.forgotten_ns < now_ns {
                self.write_queries(NodeId(list.node), None)?;
                continue;
            }
            others.push(list);
        }
        *lock(&self.queries.others) = others;
        Ok(())
    }

    /// The background queries of the other nodes, as they told last. Those that began before lines
    /// were deleted are left out: their texts may hold what had to go.
    pub fn queries_elsewhere(&self) -> Vec<QueriesOfNode> {
        let deleted_ns = self.deleted_ns().unwrap_or(i64::MIN);
        let mut all = lock(&self.queries.others).clone();
        for list in &mut all {
            list.queries.retain(|query| query.started_ns > deleted_ns);
        }
        all
    }

    fn write_queries(&self, node: NodeId, list: Option<&QueriesOfNode>) -> Result<(), String> {
        let lease = self.catalog.acquire(Resource::Queries(node), self.info.node, LEASE);
        // Another node is at it.
        let Some(lease) = lease.map_err(|error| error.to_string())? else { return Ok(()) };
        let body = list.map(|list| serde_json::to_vec(list).expect("it is plain data"));
        let name = format!("{PREFIX}{node}");
        let put = self.catalog.put_mark(&lease, &name, body.as_deref());
        put.map_err(|error| error.to_string())
    }
}

/// Whether a list has to be written.
fn is_due(told: &QueriesOfNode, list: &QueriesOfNode) -> bool {
    told.queries != list.queries
        || told.name != list.name
        || list.told_ns.saturating_sub(told.told_ns) >= WRITTEN_EVERY_NS
}

/// A value is replaced as a whole, so it is valid after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_when_they_changed_and_once_an_hour() {
        let query = |id| KnownQuery {
            id,
            query: "error".to_owned(),
            client: "ann 127.0.0.1:7".to_owned(),
            started_ns: 1,
            expires_ns: None,
        };
        let list = |told_ns, ids: &[u64]| QueriesOfNode {
            node: 7,
            name: "node7".to_owned(),
            told_ns,
            forgotten_ns: told_ns + 9,
            queries: ids.iter().copied().map(query).collect(),
        };
        let told = list(5, &[1, 2]);
        assert!(!is_due(&told, &list(4 + WRITTEN_EVERY_NS, &[1, 2])));
        assert!(is_due(&told, &list(5 + WRITTEN_EVERY_NS, &[1, 2])));
        assert!(is_due(&told, &list(6, &[1])));
        assert!(is_due(&told, &list(6, &[1, 3])));
    }
}
