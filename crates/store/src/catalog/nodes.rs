//! Rows of the table of other nodes.

use record::NodeIdentity;
use rusqlite::params;

use super::Catalog;
use crate::error::StoreError;

/// A node that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) identity: NodeIdentity,
    pub(crate) seen_ns: i64,
}

impl Catalog {
    /// All nodes that were admitted.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeRow>, StoreError> {
        self.nodes_from(0, u32::MAX)
    }

    /// The node with this id.
    pub(crate) fn node_row(&self, node: u32) -> Result<Option<NodeRow>, StoreError> {
        Ok(self.nodes_from(node, node)?.pop())
    }

    fn nodes_from(&self, first: u32, last: u32) -> Result<Vec<NodeRow>, StoreError> {
        let read = || {
            let sql = "SELECT node, key, starts, run, seen_ns FROM nodes \
                       WHERE node BETWEEN ?1 AND ?2 ORDER BY node";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([first, last], |row| {
                let identity = NodeIdentity {
                    node: row.get(0)?,
                    key: row.get::<_, i64>(1)? as u64,
                    starts: row.get::<_, i64>(2)? as u64,
                    run: row.get::<_, i64>(3)? as u64,
                };
                Ok(NodeRow { identity, seen_ns: row.get(4)? })
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        self.wrap(read())
    }

    /// Writes a node's row, replacing the row of the same id.
    pub(crate) fn put_node(&self, row: &NodeRow) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO nodes (node, key, starts, run, seen_ns) VALUES (?1, ?2, ?3, ?4, ?5)";
        let NodeIdentity { node, key, starts, run } = row.identity;
        let values = params![node, key as i64, starts as i64, run as i64, row.seen_ns];
        self.wrap(self.connection.execute(sql, values)).map(|_| ())
    }

    /// The number of nodes.
    pub(crate) fn nodes_count(&self) -> Result<usize, StoreError> {
        let count = "SELECT count(*) FROM nodes";
        let count = self.connection.query_row(count, [], |row| row.get::<_, i64>(0));
        self.wrap(count).map(|count| count as usize)
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&self, node: u32) -> Result<(), StoreError> {
        let sql = "DELETE FROM nodes WHERE node = ?1";
        self.wrap(self.connection.execute(sql, [node])).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let catalog = Catalog::open(None).unwrap();
        let row = |node, run| {
            let identity = NodeIdentity { node, key: u64::MAX, starts: 3, run };
            NodeRow { identity, seen_ns: -1 }
        };
        catalog.put_node(&row(u32::MAX, 1)).unwrap();
        catalog.put_node(&row(2, 1)).unwrap();
        catalog.put_node(&row(2, u64::MAX)).unwrap();
        catalog.put_node(&row(3, 1)).unwrap();
        catalog.remove_node(3).unwrap();
        assert_eq!(catalog.nodes().unwrap(), [row(2, u64::MAX), row(u32::MAX, 1)]);
    }
}
