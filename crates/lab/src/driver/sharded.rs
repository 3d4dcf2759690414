//! One session over several servers that know nothing of each other: the client distributes rows by
//! their keys, as the studies of 2012 and 2014 did with Redis and MySQL.
//!
//! [`Ring`] names the server of a key. Scans, counts, searches and functions go to all servers at
//! once, and their answers are merged. A driver implements [`Shard`] for one server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::aggregate::{Aggregate, Aggregation};
use super::ring::Ring;
use super::search::{self, Search};
use super::{Ability, Answer, Operation, Session, StoreError, merged, no_row, too_large, within};
use crate::row::{Row, Schema, Value};

/// A session's connection to one of the servers. It connects when it is used.
///
/// A driver leaves out the operations that its store does not have: the methods here answer that
/// the operation is [not supported](StoreError::NotSupported).
#[async_trait]
pub(crate) trait Shard: Send {
    /// The name of the store.
    fn store(&self) -> &str;

    /// Forgets the connection: bytes that the server still sends would be taken for the next
    /// answer.
    fn disconnect(&mut self) {}

    /// Adds one row.
    async fn insert(&mut self, row: &Row) -> Result<(), StoreError> {
        self.insert_many(&[row]).await
    }

    /// Adds rows, at least one.
    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError>;

    /// The row with this key, if there is one.
    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError>;

    /// Replaces columns of a row; returns whether there is such a row, as far as the store tells.
    async fn update(
        &mut self,
        key: &Value,
        changes: &[(usize, Value)],
    ) -> Result<bool, StoreError> {
        let _ = (key, changes);
        Err(self.lacks(Ability::Update))
    }

    /// At most `rows_max` rows from this key on, in the order of keys.
    async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
        let _ = (from, rows_max);
        Err(self.lacks(Ability::Scan))
    }

    /// The number of rows that fulfil all conditions.
    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        let _ = conditions;
        Err(self.lacks(Ability::Count))
    }

    /// Removes the row with this key, if there is one.
    async fn delete(&mut self, key: &Value) -> Result<(), StoreError> {
        let _ = key;
        Err(self.lacks(Ability::Delete))
    }

    /// The result of the search over the lines of this server.
    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        Err(self.lacks(if search.has_regex() { Ability::Regex } else { Ability::Search }))
    }

    /// The function over this server's rows.
    async fn aggregate(&mut self, asked: &Aggregation) -> Result<Aggregate, StoreError> {
        let _ = asked;
        Err(self.lacks(Ability::Aggregate))
    }

    /// Why this session takes no lines of syslog.
    fn no_stream(&self) -> StoreError {
        self.lacks(Ability::Stream)
    }

    /// The error of an operation that the store does not have.
    fn lacks(&self, ability: Ability) -> StoreError {
        StoreError::NotSupported { store: self.store().to_owned(), ability }
    }
}

/// A session over the shards of a store.
pub(crate) struct Sharded<S> {
    store: String,
    timeout: Duration,
    ring: Arc<Ring>,
    /// The column that orders the newest lines.
    time: Option<usize>,
    /// In the order of the ring.
    shards: Vec<S>,
}

impl<S: Shard> Sharded<S> {
    /// For the shards of `ring`, in its order; each operation may take `timeout`.
    pub fn new(
        store: &str,
        timeout: Duration,
        ring: &Arc<Ring>,
        schema: &Schema,
        shards: Vec<S>,
    ) -> Sharded<S> {
        let (store, ring, time) = (store.to_owned(), ring.clone(), schema.time());
        Sharded { store, timeout, ring, time, shards }
    }

    async fn run(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Insert(row) => {
                self.shard(&row.key).insert(row).await?;
                Ok(Answer::Done)
            }
            Operation::InsertMany(rows) => {
                let split = self.ring.split(rows);
                let shards = self.shards.iter_mut().zip(&split);
                let shards = shards.filter(|(_, rows)| !rows.is_empty());
                try_join_all(shards.map(|(shard, rows)| shard.insert_many(rows))).await?;
                Ok(Answer::Done)
            }
            Operation::Read { key } => Ok(Answer::Row(self.shard(key).read(key).await?)),
            Operation::Update { key, changes } => {
                match self.shard(key).update(key, changes).await? {
                    true => Ok(Answer::Done),
                    false => Err(no_row(&self.store, key)),
                }
            }
            Operation::Scan { from, rows_max } => {
                let shards = self.shards.iter_mut();
                let parts = try_join_all(shards.map(|shard| shard.scan(from, *rows_max))).await?;
                Ok(Answer::Rows(merged(parts, *rows_max)))
            }
            Operation::Count { conditions } => {
                let shards = self.shards.iter_mut();
                let counts = try_join_all(shards.map(|shard| shard.count(conditions))).await?;
                Ok(Answer::Count(counts.into_iter().sum()))
            }
            Operation::Delete { key } => {
                self.shard(key).delete(key).await?;
                Ok(Answer::Done)
            }
            Operation::Search(search) => {
                let shards = self.shards.iter_mut();
                let parts = try_join_all(shards.map(|shard| shard.search(search))).await?;
                Ok(search::merged(parts, search, self.time))
            }
            Operation::Aggregate(asked) => {
                let shards = self.shards.iter_mut();
                let parts = try_join_all(shards.map(|shard| shard.aggregate(asked))).await?;
                let merged = asked.function.merge_all(parts);
                merged.map(Answer::Aggregate).ok_or_else(|| too_large(&self.store))
            }
            Operation::Stream(_) => Err(self.shards[0].no_stream()),
        }
    }

    fn shard(&mut self, key: &Value) -> &mut S {
        &mut self.shards[self.ring.shard(key)]
    }
}

#[async_trait]
impl<S: Shard> Session for Sharded<S> {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let store = self.store.clone();
        let answer = within(&store, self.timeout, self.run(operation)).await;
        use StoreError::{Answer, Timeout, Unreachable};
        // An operation on several servers ends with the first error: others may still answer, and
        // their answer would be taken for the answer to the next operation.
        let breaks = match &answer {
            Err(Timeout { .. } | Unreachable { .. } | Answer { .. }) => true,
            Err(_) => self.shards.len() > 1 && !operation.is_of_one_row(),
            Ok(_) => false,
        };
        if breaks {
            self.shards.iter_mut().for_each(Shard::disconnect);
        }
        answer
    }
}

/// Runs `work` on a new connection to each server, on all of them at the same time; the results are
/// in the order of the connections. All of it may take `limit`. The first error ends it, and
/// `failed` words that error.
pub(crate) async fn on_all<C, T, E, F>(
    store: &str,
    limit: Duration,
    connecting: impl IntoIterator<Item = impl Future<Output = Result<C, E>>>,
    work: impl Fn(C) -> F,
    failed: impl FnOnce(E) -> StoreError,
) -> Result<Vec<T>, StoreError>
where
    F: Future<Output = Result<T, E>>,
{
    let work = &work;
    let all: Vec<_> = connecting
        .into_iter()
        .map(|connection| async move { work(connection.await?).await })
        .collect();
    within(store, limit, async { try_join_all(all).await.map_err(failed) }).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::row::{Column, ColumnKind};

    /// A server in memory, which can only do the least.
    #[derive(Default)]
    struct Memory {
        rows: BTreeMap<Value, Row>,
        /// Whether it answers nothing any more.
        hangs: bool,
        disconnects: usize,
    }

    #[async_trait]
    impl Shard for Memory {
        fn store(&self) -> &str {
            "memory"
        }

        fn disconnect(&mut self) {
            self.disconnects += 1;
        }

        async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
            assert!(!rows.is_empty(), "no request without rows");
            let rows = rows.iter().map(|row| (row.key.clone(), (*row).clone()));
            self.rows.extend(rows);
            Ok(())
        }

        async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            Ok(self.rows.get(key).cloned())
        }

        async fn update(
            &mut self,
            key: &Value,
            changes: &[(usize, Value)],
        ) -> Result<bool, StoreError> {
            let Some(row) = self.rows.get_mut(key) else { return Ok(false) };
            changes.iter().for_each(|(column, value)| row.values[*column] = value.clone());
            Ok(true)
        }

        async fn scan(&mut self, from: &Value, rows_max: usize) -> Result<Vec<Row>, StoreError> {
            Ok(self.rows.range(from..).take(rows_max).map(|(_, row)| row.clone()).collect())
        }

        async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
            let fulfils =
                |row: &&Row| conditions.iter().all(|(at, value)| row.values[*at] == *value);
            Ok(self.rows.values().filter(fulfils).count() as u64)
        }
    }

    fn session(shards: usize) -> Sharded<Memory> {
        let columns = vec![Column::new("n", ColumnKind::Integer, true)];
        let schema = Schema { table: "t".to_owned(), key: ColumnKind::Integer, columns };
        let servers = (0..shards).map(|_| Memory::default()).collect();
        let ring = Arc::new(Ring::new(shards));
        Sharded::new("memory", Duration::from_secs(86_400), &ring, &schema, servers)
    }

    fn row(key: i64) -> Row {
        Row { key: Value::Integer(key), values: vec![Value::Integer(key % 10)] }
    }

    #[tokio::test]
    async fn each_row_is_on_one_server_and_every_answer_is_of_all() {
        let mut session = session(3);
        let rows: Vec<Row> = (1..100).map(row).collect();
        session.execute(&Operation::InsertMany(rows.clone())).await.unwrap();
        session.execute(&Operation::Insert(row(0))).await.unwrap();
        let shares: Vec<usize> = session.shards.iter().map(|shard| shard.rows.len()).collect();
        assert_eq!(shares.iter().sum::<usize>(), 100);
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        for key in (0..100).map(Value::Integer) {
            let found = session.execute(&Operation::Read { key: key.clone() }).await.unwrap();
            assert!(matches!(found, Answer::Row(Some(row)) if row.key == key));
        }
        let scan = Operation::Scan { from: Value::Integer(40), rows_max: 20 };
        let expected = (40..60).map(row).collect();
        assert_eq!(session.execute(&scan).await.unwrap(), Answer::Rows(expected));
        let count = Operation::Count { conditions: vec![(0, Value::Integer(7))] };
        assert_eq!(session.execute(&count).await.unwrap(), Answer::Count(10));
    }

    #[tokio::test]
    async fn a_change_of_a_missing_row_and_what_the_store_lacks_are_errors() {
        let mut session = session(2);
        session.execute(&Operation::Insert(row(5))).await.unwrap();
        let update = |key| Operation::Update {
            key: Value::Integer(key),
            changes: vec![(0, Value::Integer(-1))],
        };
        session.execute(&update(5)).await.unwrap();
        let found = session.execute(&Operation::Read { key: Value::Integer(5) }).await.unwrap();
        assert!(matches!(found, Answer::Row(Some(row)) if row.values == [Value::Integer(-1)]));
        assert_eq!(session.execute(&update(6)).await.unwrap_err().kind(), "refused");
        let delete = Operation::Delete { key: Value::Integer(5) };
        let error = session.execute(&delete).await.unwrap_err();
        assert!(matches!(error, StoreError::NotSupported { ability: Ability::Delete, .. }));
        assert!(session.shards.iter().all(|shard| shard.disconnects == 0), "no connection broke");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_timeout_all_connections_are_made_again() {
        let mut session = session(2);
        session.shards.iter_mut().for_each(|shard| shard.hangs = true);
        let read = Operation::Read { key: Value::Integer(1) };
        assert_eq!(session.execute(&read).await.unwrap_err().kind(), "timeout");
        assert!(session.shards.iter().all(|shard| shard.disconnects == 1));
    }
}
