//! The contract of drivers, one function for each promise.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lab::driver::aggregate::{Aggregation, Function, Within};
use lab::driver::search::{Match, Search, Wanted};
use lab::driver::stream::{Block, Sum, TABLE};
use lab::driver::{Ability, Driver, Operation, Settle, StoreError, StoreSpec};
use lab::row::{ColumnKind, Row, Schema, Value};
use lab::trial::Share;
use lab::workload::lines::Queries;
use lab::workload::lines::queries::QueryKind;
use lab::workload::{self, Opening, Verdict, Workload};

use super::table::{Client, MACHINE, MESSAGE, SEVERITY, TIMESTAMP, Table, settle, text_value};

/// Rows of a table: enough for every combination of values, and few enough to take seconds.
const ROWS: u64 = 300;

/// Log lines that are searched.
const LINES: u64 = 3_000;

/// Concurrent connections.
const SESSIONS: u64 = 8;

/// Anything longer is a hang: several times the time limit of one operation.
const HANG: Duration = Duration::from_secs(120);

/// A driver under test.
pub struct Subject {
    pub driver: Arc<dyn Driver>,
    /// Whether scans are in the order of keys, rather than in an order of the store's own.
    pub ordered: bool,
    pub seed: u64,
}

impl Subject {
    fn can(&self, ability: Ability) -> bool {
        self.driver.abilities().contains(&ability)
    }

    /// A new table with random rows, written in all possible ways.
    async fn table(&self, name: &str, key: ColumnKind) -> Table {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut table = Table::new(name, key);
        self.driver.create(&table.schema).await.expect("creates");
        let rows = table.random_rows(&mut random, ROWS);
        let mut client = Client::new(&*self.driver, &table).await;
        let single = match (self.can(Ability::Insert), self.can(Ability::InsertMany)) {
            (true, true) => rows.len() / 2,
            (true, false) => rows.len(),
            (false, _) => 0,
        };
        for row in &rows[..single] {
            client.done(Operation::Insert(row.clone())).await;
        }
        if self.can(Ability::InsertMany) {
            client.done(Operation::InsertMany(rows[single..].to_vec())).await;
            client.done(Operation::InsertMany(Vec::new())).await;
        }
        table.add(&rows);
        settle(&*self.driver, &table, Settle::Visible).await;
        table
    }

    /// All checks, on one running store.
    pub async fn keeps_the_contract(&self) {
        assert!(!self.driver.version().await.expect("tells its version").is_empty());
        self.streams().await;
        if !self.can(Ability::InsertMany) {
            let table = Table::new("contract", ColumnKind::Text);
            return self.refuses_what_it_did_not_declare(&table).await;
        }
        let mut table = self.table("contract", ColumnKind::Text).await;
        self.reads(&table).await;
        self.scans(&table).await;
        self.counts(&table).await;
        self.aggregates(&table).await;
        self.updates(&mut table).await;
        self.deletes(&mut table).await;
        self.sessions(&mut table).await;
        self.settles(&table).await;
        self.refuses_what_it_did_not_declare(&table).await;
        self.creates_empty(&table).await;
        let table = self.table("numbered", ColumnKind::Integer).await;
        self.reads(&table).await;
        self.scans(&table).await;
        self.counts(&table).await;
        self.aggregates(&table).await;
        self.searches().await;
    }

    /// Lines of several connections arrive byte for byte; a new table has none of them.
    async fn streams(&self) {
        if !self.can(Ability::Stream) {
            return;
        }
        let workload = Workload::LineStream { line_bytes: 117 };
        let schema = Schema { table: TABLE.to_owned(), ..workload.schema().expect("a table") };
        let plan = workload.plan(&schema, &Opening::of(Share::default())).expect("a plan");
        for turn in 0..2 {
            self.driver.create(&schema).await.expect("creates");
            let works = (0..4).map(|thread| {
                let (mut steps, driver, schema) = (plan.steps(thread), &self.driver, &schema);
                async move {
                    let mut session = driver.connect(schema).await.expect("connects");
                    let mut sent = Sum::default();
                    for _ in 0..3 + turn {
                        let operation = steps.next().expect("it never ends").request.operation;
                        let Operation::Stream(block) = &operation else { panic!("{operation:?}") };
                        sent += block.sum();
                        session.execute(&operation).await.expect("takes lines");
                    }
                    sent
                }
            });
            let mut sent = Sum::default();
            for sum in futures_util::future::join_all(works).await {
                sent += sum;
            }
            self.driver.settle(&schema, Settle::Visible).await.expect("settles");
            if let Some(arrived) = self.driver.arrived(&schema).await.expect("reads") {
                assert_eq!(sent.difference(&arrived), None);
            }
        }
    }

    /// Every query about log lines has the right answer, before and after the lines are merged.
    async fn searches(&self) {
        if !self.can(Ability::Search) {
            return;
        }
        let mut kinds = vec![
            QueryKind::Word,
            QueryKind::Phrase,
            QueryKind::Needle,
            QueryKind::Fields,
            QueryKind::Latest,
            QueryKind::CountBy,
            QueryKind::Histogram,
        ];
        kinds.extend(self.can(Ability::Regex).then_some(QueryKind::Regex));
        let writes = Workload::LineWrites { records: LINES };
        let queries = Workload::LineQueries(Queries { records: LINES, kinds, arriving: None });
        let schema = writes.schema().expect("lines have a table");
        self.driver.create(&schema).await.expect("creates");
        let opening = Opening {
            seed: self.seed,
            batch_rows: 500,
            operations: Some(64),
            ..Opening::of(Share::default())
        };
        let mut session = self.driver.connect(&schema).await.expect("connects");
        for workload in [&writes, &queries, &queries] {
            let plan = workload.plan(&schema, &opening).expect("it can be planned");
            let mut steps = plan.steps(0);
            while let Some(step) = steps.next() {
                let request = step.request;
                let answer = session.execute(&request.operation).await;
                let answer = answer.unwrap_or_else(|e| panic!("{:?}: {e}", request.operation));
                let verdict = workload::check(&*plan, &request, &answer);
                assert_eq!(verdict, Verdict::Right, "{:?}", request.operation);
            }
            let settle = if *workload == writes { Settle::Visible } else { Settle::Compacted };
            self.driver.settle(&schema, settle).await.expect("settles");
        }
    }

    /// Every column is returned unchanged, byte for byte.
    async fn reads(&self, table: &Table) {
        if !self.can(Ability::Read) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        for (key, row) in &table.rows {
            assert_eq!(client.read(key).await.as_ref(), Some(row));
        }
        let missing = match table.schema.key {
            ColumnKind::Integer => Value::Integer(i64::MAX),
            ColumnKind::Text => text_value("nobody"),
        };
        assert_eq!(client.read(&missing).await, None);
    }

    async fn scans(&self, table: &Table) {
        if !self.can(Ability::Scan) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        let all = table.rows.len();
        let keys: Vec<&Value> = table.rows.keys().collect();
        for from in [0, 1, all / 2, all - 1].map(|at| keys[at]) {
            let rest = client.scan(from, all + 1).await;
            assert_eq!(rest.first().map(|row| &row.key), Some(from), "a scan begins with its key");
            let distinct: BTreeSet<&Value> = rest.iter().map(|row| &row.key).collect();
            assert_eq!(distinct.len(), rest.len(), "no row twice");
            for row in &rest {
                assert_eq!(Some(row), table.rows.get(&row.key));
            }
            for rows_max in [0, 1, rest.len() - 1, rest.len()] {
                assert_eq!(client.scan(from, rows_max).await, rest[..rows_max], "{rows_max} rows");
            }
            // Whatever the order is, it is a consistent one: a scan from a row in the middle
            // continues like this one.
            let middle = rest.len() / 2;
            assert_eq!(client.scan(&rest[middle].key, all).await, rest[middle..]);
            if self.ordered {
                let expected: Vec<Row> = table.rows.range(from..).map(|(_, r)| r.clone()).collect();
                assert_eq!(rest, expected, "in the order of keys");
            }
        }
        if self.ordered && table.schema.key == ColumnKind::Text {
            let from = text_value("user00100+");
            let expected: Vec<Row> =
                table.rows.range(&from..).take(3).map(|(_, row)| row.clone()).collect();
            assert_eq!(client.scan(&from, 3).await, expected, "from where a key would stand");
        }
    }

    async fn counts(&self, table: &Table) {
        if !self.can(Ability::Count) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        let mut random = fastrand::Rng::with_seed(self.seed);
        assert_eq!(client.count(&[]).await, table.count(&[]));
        for _ in 0..60 {
            let conditions = table.random_conditions(&mut random);
            let expected = table.count(&conditions);
            assert_eq!(client.count(&conditions).await, expected, "{conditions:?}");
        }
    }

    /// A function over rows is that of the reference model, also over none.
    async fn aggregates(&self, table: &Table) {
        if !self.can(Ability::Aggregate) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let ranges = [
            None,
            Some(Within { column: TIMESTAMP, from: 1_426_999_990, to: 1_427_000_001 }),
            Some(Within { column: TIMESTAMP, from: 1_427_000_001, to: 1_427_000_010 }),
            Some(Within { column: SEVERITY, from: 2, to: 5 }),
            Some(Within { column: SEVERITY, from: 7, to: 9 }),
        ];
        for turn in 0..60 {
            let within = ranges[turn / 2 % ranges.len()];
            let mut conditions = table.random_conditions(&mut random);
            conditions.retain(|(column, _)| within.is_none_or(|within| within.column != *column));
            let asked = Aggregation {
                function: if turn % 2 == 0 { Function::Max } else { Function::Average },
                column: SEVERITY,
                conditions: if turn < 10 { Vec::new() } else { conditions },
                within,
            };
            let expected = table.aggregate(&asked);
            assert_eq!(client.aggregate(&asked).await, expected, "{asked:?}");
        }
    }

    /// An update changes the columns it names and no others.
    async fn updates(&self, table: &mut Table) {
        if !self.can(Ability::Update) || !self.can(Ability::Read) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        let all_columns = vec![
            (TIMESTAMP, Value::Integer(-5)),
            (MACHINE, text_value("all'\"")),
            (SEVERITY, Value::Integer(7)),
            (MESSAGE, text_value("")),
        ];
        let changes = [
            vec![(MESSAGE, text_value("new 'text' ž"))],
            vec![(SEVERITY, Value::Integer(i64::MIN)), (MACHINE, text_value("elsewhere"))],
            all_columns,
        ];
        let keys: Vec<Value> = table.rows.keys().step_by(40).cloned().collect();
        for (key, changes) in keys.iter().zip(changes.iter().cycle()) {
            let row = table.rows.get_mut(key).expect("it is there");
            for (column, value) in changes {
                row.values[*column] = value.clone();
            }
            client.done(Operation::Update { key: key.clone(), changes: changes.clone() }).await;
            assert_eq!(client.read(key).await.as_ref(), Some(&*row));
        }
        if self.can(Ability::Count) {
            settle(&*self.driver, table, Settle::Visible).await;
            for condition in changes.iter().flatten().filter(|(column, _)| *column != MESSAGE) {
                let conditions = [condition.clone()];
                let expected = table.count(&conditions);
                assert_eq!(client.count(&conditions).await, expected, "{conditions:?}");
            }
        }
    }

    async fn deletes(&self, table: &mut Table) {
        if !self.can(Ability::Delete) {
            return;
        }
        let mut client = Client::new(&*self.driver, table).await;
        let keys: Vec<Value> = table.rows.keys().step_by(50).cloned().collect();
        for key in &keys {
            table.rows.remove(key);
            client.done(Operation::Delete { key: key.clone() }).await;
            // A missing row may be deleted again.
            client.done(Operation::Delete { key: key.clone() }).await;
            if self.can(Ability::Read) {
                assert_eq!(client.read(key).await, None);
            }
        }
        settle(&*self.driver, table, Settle::Visible).await;
        if self.can(Ability::Count) {
            assert_eq!(client.count(&[]).await, table.count(&[]));
        }
        if self.can(Ability::Scan) {
            let from = table.rows.keys().next().expect("rows are left").clone();
            let rest = client.scan(&from, table.rows.len() + 1).await;
            assert!(rest.iter().all(|row| table.rows.contains_key(&row.key)));
        }
    }

    /// Concurrent connections do not interfere.
    async fn sessions(&self, table: &mut Table) {
        if !self.can(Ability::Insert) {
            return;
        }
        let mut random = fastrand::Rng::with_seed(self.seed + 1);
        let mut all = table.random_rows(&mut random, SESSIONS * 25);
        for (at, row) in all.iter_mut().enumerate() {
            row.key = text_value(&format!("session{at:03}"));
        }
        let read = self.can(Ability::Read) && self.driver.reads_own_writes();
        let (driver, shared) = (&*self.driver, &*table);
        let works = all.chunks(25).map(|rows| async move {
            let mut client = Client::new(driver, shared).await;
            for row in rows {
                client.done(Operation::Insert(row.clone())).await;
                if read {
                    assert_eq!(client.read(&row.key).await.as_ref(), Some(row));
                }
            }
        });
        futures_util::future::join_all(works).await;
        table.add(&all);
        settle(&*self.driver, table, Settle::Visible).await;
        let mut client = Client::new(&*self.driver, table).await;
        if self.can(Ability::Count) {
            assert_eq!(client.count(&[]).await, table.count(&[]));
        }
        if self.can(Ability::Read) {
            for row in &all {
                assert_eq!(client.read(&row.key).await.as_ref(), Some(row));
            }
        }
    }

    /// Flushing and merging lose nothing, and the table has a size.
    async fn settles(&self, table: &Table) {
        for step in [Settle::Flushed, Settle::Compacted] {
            settle(&*self.driver, table, step).await;
        }
        let bytes = self.driver.table_bytes(&table.schema).await.expect("tells the size");
        assert_ne!(bytes, Some(0));
        if self.can(Ability::Count) {
            let mut client = Client::new(&*self.driver, table).await;
            assert_eq!(client.count(&[]).await, table.count(&[]));
        }
    }

    async fn refuses_what_it_did_not_declare(&self, table: &Table) {
        let mut client = Client::new(&*self.driver, table).await;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let row = table.random_rows(&mut random, 1).remove(0);
        let key = row.key.clone();
        let changes = vec![(MESSAGE, text_value("x"))];
        for operation in [
            Operation::Insert(row.clone()),
            Operation::InsertMany(vec![row]),
            Operation::Read { key: key.clone() },
            Operation::Update { key: key.clone(), changes },
            Operation::Scan { from: key.clone(), rows_max: 1 },
            Operation::Count { conditions: vec![] },
            Operation::Delete { key },
            search(Match::Word("word".to_owned())),
            search(Match::Regex("w.*d".to_owned())),
            Operation::Aggregate(Aggregation {
                function: Function::Max,
                column: SEVERITY,
                conditions: vec![],
                within: None,
            }),
            Operation::Stream(Block::new(b"<13>Jul 22 04:26:40 web01 app: a\n".to_vec())),
        ] {
            let ability = operation.ability();
            if self.can(ability) {
                continue;
            }
            let answer = client.ask(operation).await;
            let refused = matches!(&answer, Err(StoreError::NotSupported { ability: a, .. }) if *a == ability);
            assert!(refused, "{ability:?}: {answer:?}");
        }
    }

    /// A table that is created again has no rows.
    async fn creates_empty(&self, table: &Table) {
        self.driver.create(&table.schema).await.expect("creates it again");
        settle(&*self.driver, table, Settle::Visible).await;
        let mut client = Client::new(&*self.driver, table).await;
        let key = table.rows.keys().next().expect("a row");
        if self.can(Ability::Read) {
            assert_eq!(client.read(key).await, None);
        }
        if self.can(Ability::Scan) {
            assert_eq!(client.scan(key, 10).await, Vec::new());
        }
        if self.can(Ability::Count) {
            assert_eq!(client.count(&[]).await, 0);
        }
    }

    /// Rows spread over several nodes or shards are one table.
    pub async fn spreads_over_nodes(&self) {
        self.streams().await;
        if !self.can(Ability::InsertMany) {
            return;
        }
        let mut table = self.table("spread", ColumnKind::Text).await;
        self.reads(&table).await;
        self.scans(&table).await;
        self.counts(&table).await;
        self.aggregates(&table).await;
        self.sessions(&mut table).await;
        self.settles(&table).await;
    }

    /// When the store dies, every connection reports it, repeatedly; none hangs.
    pub async fn tells_that_the_store_died(&self, kill: impl FnOnce()) {
        let table = self.table("dying", ColumnKind::Text).await;
        let row = table.rows.values().next().expect("a row");
        let operation = match (self.can(Ability::Read), self.can(Ability::Count)) {
            (true, _) => Operation::Read { key: row.key.clone() },
            (false, true) => Operation::Count { conditions: vec![] },
            (false, false) => Operation::Stream(Block::new(b"<13>a\n".to_vec())),
        };
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            clients.push(Client::new(&*self.driver, &table).await);
        }
        for client in &mut clients {
            client.ask(operation.clone()).await.expect("it still lives");
        }
        let works = clients.into_iter().map(|mut client| {
            let operation = operation.clone();
            async move {
                while client.ask(operation.clone()).await.is_ok() {}
                client.ask(operation).await.expect_err("it is dead")
            }
        });
        let works = futures_util::future::join_all(works);
        let (errors, ()) =
            tokio::time::timeout(HANG, async { tokio::join!(works, async { kill() }) })
                .await
                .expect("no connection hangs");
        for error in errors {
            assert_eq!(error.kind(), "unreachable", "{error}");
        }
        let error = self.driver.version().await.expect_err("it is dead");
        assert_eq!(error.kind(), "unreachable", "{error}");
    }
}

/// A search in the messages of a table.
fn search(text: Match) -> Operation {
    let text = Some((MESSAGE, text));
    Operation::Search(Search { text, equals: Vec::new(), time: None, wanted: Wanted::Count })
}

/// Errors in a store's description are reported before anything is sent.
pub fn refuses_wrong_specs(spec: &StoreSpec) {
    let unknown = ("no_such_option".to_owned(), "1".to_owned());
    let mut wrong = spec.clone();
    wrong.options.extend([unknown]);
    let error = lab::stores::open(&wrong).err().expect("refused").to_string();
    assert!(error.contains("no_such_option") && error.contains(&spec.name), "{error}");
}

/// Like [`refuses_wrong_specs`], for stores that are reached over the network.
pub async fn refuses_wrong_places(spec: &StoreSpec, closed: String) {
    let nowhere = StoreSpec { endpoints: Vec::new(), ..spec.clone() };
    let error = lab::stores::open(&nowhere).err().expect("refused").to_string();
    assert!(error.contains("--endpoint"), "{error}");
    let closed = StoreSpec { endpoints: vec![closed], ..spec.clone() };
    let driver = lab::stores::open(&closed).expect("it connects only when it is used");
    let error = driver.version().await.expect_err("nobody listens");
    assert_eq!(error.kind(), "unreachable", "{error}");
}
