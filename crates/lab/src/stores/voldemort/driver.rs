//! Voldemort, a key-value store of the 2012 study, by its protocol `pb0`.
//!
//! A row is the value of its key: its columns as a JSON array. Writes ask for the versions of the
//! key first, as the project's own client does, and the server routes each request to the nodes of
//! the key. Sessions take the endpoints in turn. A Voldemort "store" has to be in the server's
//! configuration, with both serializers `identity`: the protocol cannot make one, nor empty it.
//!
//! No package registry has the server. The messages are tested against ones that the library for
//! protocol buffers wrote; the driver was never run on a real server. Left out: scans, counts and
//! sizes, which the protocol does not have.

mod messages;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::messages::{Clock, Wrong};
use crate::driver::{
    Ability, Answer, Driver, OpenError, Operation, Session, Settle, StoreError, StoreSpec, TIMEOUT,
    within,
};
use crate::options::Known;
use crate::row::{Row, Schema, Value};

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[TIMEOUT];

/// Limit of one response. A longer one is an error.
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The store with the server's own configuration.
const METADATA: &str = "metadata";

struct Voldemort {
    store: String,
    timeout: Duration,
    hosts: Vec<(String, u16)>,
    sessions: AtomicUsize,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let (timeout, hosts) = (crate::driver::timeout(&options)?, crate::driver::hosts(spec)?);
    let (store, sessions) = (spec.name.clone(), AtomicUsize::new(0));
    Ok(Arc::new(Voldemort { store, timeout, hosts, sessions }))
}

#[async_trait]
impl Driver for Voldemort {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Insert, Ability::Read, Ability::Update, Ability::Delete]
    }

    /// The protocol has none of the server: the answer names the protocol.
    async fn version(&self) -> Result<String, StoreError> {
        let ask = async {
            let request = messages::get(METADATA, b"cluster.xml", false);
            let response = self.next_connection().await?.ask(&request).await?;
            messages::values_of(&response).map_err(Failure::from)
        };
        self.within(ask).await?;
        Ok("Voldemort, of a release that it does not tell".to_owned())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[]
    }

    /// Only looks whether the store exists.
    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let ask = async {
            let request = messages::versions(&schema.table, b"");
            let response = self.next_connection().await?.ask(&request).await?;
            messages::versions_of(&response).map_err(Failure::from)
        };
        match self.within(ask).await {
            Err(StoreError::Refused { store, reason }) => {
                let remedy = format!("add a store `{}` to the server's stores.xml", schema.table);
                Err(StoreError::Refused { store, reason: format!("{reason}; {remedy}") })
            }
            answer => answer.map(|_| ()),
        }
    }

    async fn settle(&self, _: &Schema, settle: Settle) -> Result<(), StoreError> {
        match settle {
            Settle::Visible => Ok(()),
            Settle::Flushed | Settle::Compacted => Err(StoreError::Refused {
                store: self.store.clone(),
                reason: "its protocol cannot ask for that".to_owned(),
            }),
        }
    }

    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let host = self.next_host().clone();
        let open = self.within(Connection::open(&host)).await?;
        let (store, timeout) = (self.store.clone(), self.timeout);
        let schema = schema.clone();
        Ok(Box::new(VoldemortSession { store, timeout, host, schema, open: Some(open) }))
    }
}

impl Voldemort {
    fn next_host(&self) -> &(String, u16) {
        &self.hosts[self.sessions.fetch_add(1, Ordering::Relaxed) % self.hosts.len()]
    }

    async fn next_connection(&self) -> Result<Connection, Failure> {
        Connection::open(self.next_host()).await
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, StoreError> {
        let work = async { work.await.map_err(|failure| failed(&self.store, failure)) };
        within(&self.store, self.timeout, work).await
    }
}

/// Why a request has no answer.
enum Failure {
    Broken(std::io::Error),
    Wrong(Wrong),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Broken(error)
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Failure {
        Failure::Wrong(wrong)
    }
}

fn malformed(reason: impl Into<String>) -> Failure {
    Failure::Wrong(Wrong::Malformed(reason.into()))
}

fn failed(store: &str, failure: Failure) -> StoreError {
    let store = store.to_owned();
    match failure {
        Failure::Broken(e) => StoreError::Unreachable { store, reason: e.to_string() },
        Failure::Wrong(Wrong::Refused(reason)) => StoreError::Refused { store, reason },
        Failure::Wrong(Wrong::Malformed(reason)) => StoreError::Answer { store, reason },
    }
}

/// A connection, with one request under way at a time. A request and its response each follow
/// their length, 4 bytes, the highest first.
struct Connection {
    stream: TcpStream,
}

impl Connection {
    async fn open((host, port): &(String, u16)) -> Result<Connection, Failure> {
        let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        stream.write_all(b"pb0").await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        match &answer {
            b"ok" => Ok(Connection { stream }),
            other => Err(malformed(format!("{:?} to `pb0`", String::from_utf8_lossy(other)))),
        }
    }

    async fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let length = u32::try_from(request.len()).map_err(|_| malformed("a request over 4 GB"))?;
        let mut message = length.to_be_bytes().to_vec();
        message.extend(request);
        self.stream.write_all(&message).await?;
        let length = self.stream.read_u32().await? as usize;
        if length > RESPONSE_BYTES_MAX {
            return Err(malformed(format!("a response of {length} bytes")));
        }
        let mut response = vec![0; length];
        self.stream.read_exact(&mut response).await?;
        Ok(response)
    }
}

struct VoldemortSession {
    store: String,
    timeout: Duration,
    host: (String, u16),
    schema: Schema,
    open: Option<Connection>,
}

#[async_trait]
impl Session for VoldemortSession {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let store = self.store.clone();
        let answer = within(&store, self.timeout, self.run(operation)).await;
        use StoreError::{Answer, Timeout, Unreachable};
        if let Err(Timeout { .. } | Unreachable { .. } | Answer { .. }) = answer {
            // Bytes that the server still sends would be taken for the next response.
            self.open = None;
        }
        answer
    }
}

impl VoldemortSession {
    async fn run(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        let store = self.store.clone();
        let done = match operation {
            Operation::Insert(row) => self.insert(row).await.map(|()| Answer::Done),
            Operation::Read { key } => {
                self.read(key).await.map(|found| Answer::Row(found.map(|(row, _)| row)))
            }
            Operation::Delete { key } => self.delete(key).await.map(|()| Answer::Done),
            Operation::Update { key, changes } => {
                let found = self.read(key).await.map_err(|failure| failed(&store, failure))?;
                let (mut row, clock) =
                    found.ok_or_else(|| crate::driver::no_row(&self.store, key))?;
                for (column, value) in changes {
                    row.values[*column] = value.clone();
                }
                self.put(&row, &clock).await.map(|()| Answer::Done)
            }
            Operation::InsertMany(_)
            | Operation::Scan { .. }
            | Operation::Count { .. }
            | Operation::Search(_)
            | Operation::Aggregate(_)
            | Operation::Stream(_) => {
                let ability = operation.ability();
                return Err(StoreError::NotSupported { store, ability });
            }
        };
        done.map_err(|failure| failed(&store, failure))
    }

    async fn insert(&mut self, row: &Row) -> Result<(), Failure> {
        let clock = self.clock(&row.key).await?;
        self.put(row, &clock).await
    }

    async fn delete(&mut self, key: &Value) -> Result<(), Failure> {
        let clock = self.clock(key).await?;
        let request = messages::delete(&self.schema.table, &bytes_of(key), &clock);
        Ok(messages::delete_done(&self.ask(&request).await?)?)
    }

    /// The vector clock of the values of the key.
    async fn clock(&mut self, key: &Value) -> Result<Clock, Failure> {
        let request = messages::versions(&self.schema.table, &bytes_of(key));
        Ok(Clock::merged(messages::versions_of(&self.ask(&request).await?)?))
    }

    async fn put(&mut self, row: &Row, clock: &Clock) -> Result<(), Failure> {
        let value = serde_json::to_vec(&row.values).expect("numbers and texts are JSON");
        let request = messages::put(&self.schema.table, &bytes_of(&row.key), &value, clock);
        Ok(messages::put_done(&self.ask(&request).await?)?)
    }

    /// The row, and what its value has seen. Of values that were written at the same time, the
    /// first is taken: the studies never write a key twice at the same time.
    async fn read(&mut self, key: &Value) -> Result<Option<(Row, Clock)>, Failure> {
        let request = messages::get(&self.schema.table, &bytes_of(key), true);
        let values = messages::values_of(&self.ask(&request).await?)?;
        let Some(first) = values.first() else { return Ok(None) };
        let values_of_row: Vec<Value> =
            serde_json::from_slice(&first.value).map_err(|e| malformed(e.to_string()))?;
        let kinds = values_of_row.iter().map(Value::kind);
        if !kinds.eq(self.schema.columns.iter().map(|column| column.kind)) {
            return Err(malformed(format!("the value of {key} has other columns")));
        }
        let clock = Clock::merged(values.into_iter().map(|value| value.clock));
        Ok(Some((Row { key: key.clone(), values: values_of_row }, clock)))
    }

    async fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Connection::open(&self.host).await?),
        };
        open.ask(request).await
    }
}

fn bytes_of(key: &Value) -> Vec<u8> {
    key.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::row::{Column, ColumnKind};

    /// A server that expects these requests on one connection, each with its response.
    async fn serve(listener: &TcpListener, exchanges: Vec<(Vec<u8>, Vec<u8>)>) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut protocol = [0; 3];
        stream.read_exact(&mut protocol).await.unwrap();
        assert_eq!(&protocol, b"pb0");
        stream.write_all(b"ok").await.unwrap();
        for (expected, response) in exchanges {
            let length = stream.read_u32().await.unwrap() as usize;
            let mut request = vec![0; length];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request, expected);
            stream.write_u32(response.len() as u32).await.unwrap();
            stream.write_all(&response).await.unwrap();
        }
    }

    /// The response to a `get` with one value that has seen nothing.
    fn value(json: &str) -> Vec<u8> {
        let length = json.len() as u8;
        [&[0x0a, length + 4, 0x0a, length], json.as_bytes(), &[0x12, 0]].concat()
    }

    #[tokio::test]
    async fn a_row_is_written_read_and_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoints = vec![listener.local_addr().unwrap().to_string()];
        let (name, label) = ("voldemort".to_owned(), "voldemort".to_owned());
        // A limit that no machine is too slow for.
        let options = [("timeout_s".to_owned(), "86400".to_owned())].into();
        let driver = open(&StoreSpec { name, label, endpoints, options }).unwrap();
        let columns = vec![
            Column::new("text", ColumnKind::Text, false),
            Column::new("number", ColumnKind::Integer, false),
        ];
        let schema = Schema { table: "t".to_owned(), key: ColumnKind::Text, columns };
        let key = Value::Text("k".to_owned());
        let row = |text: &str, number| Row {
            key: key.clone(),
            values: vec![Value::Text(text.to_owned()), Value::Integer(number)],
        };
        let (get, versions) = (messages::get("t", b"k", true), messages::versions("t", b"k"));
        let put = |json: &str| messages::put("t", b"k", json.as_bytes(), &Clock::default());
        let first = vec![
            (versions, Vec::new()),
            (put("[\"a\",5]"), Vec::new()),
            (get.clone(), value("[\"a\",5]")),
            (get.clone(), value("[\"a\",5]")),
            (put("[\"b\",5]"), Vec::new()),
            (get.clone(), Vec::new()),
            (get.clone(), value("[\"a\"]")),
        ];
        let server = async {
            serve(&listener, first).await;
            // The next operation makes a new connection.
            serve(&listener, vec![(get, value("[\"b\",5]"))]).await;
        };
        let client = async {
            let mut session = driver.connect(&schema).await.unwrap();
            let read = Operation::Read { key: key.clone() };
            let inserted = session.execute(&Operation::Insert(row("a", 5))).await;
            assert_eq!(inserted.unwrap(), Answer::Done);
            assert_eq!(session.execute(&read).await.unwrap(), Answer::Row(Some(row("a", 5))));
            let changes = vec![(0, Value::Text("b".to_owned()))];
            let update = Operation::Update { key: key.clone(), changes };
            assert_eq!(session.execute(&update).await.unwrap(), Answer::Done);
            assert_eq!(session.execute(&read).await.unwrap(), Answer::Row(None));
            let error = session.execute(&read).await.unwrap_err();
            assert!(matches!(error, StoreError::Answer { .. }), "{error}");
            assert_eq!(session.execute(&read).await.unwrap(), Answer::Row(Some(row("b", 5))));
            let count = session.execute(&Operation::Count { conditions: vec![] }).await;
            assert!(matches!(count, Err(StoreError::NotSupported { .. })));
        };
        tokio::join!(server, client);
    }

    #[tokio::test]
    async fn other_servers_and_long_responses_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = ("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"no").await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"ok").await.unwrap();
            stream.write_u32(RESPONSE_BYTES_MAX as u32 + 1).await.unwrap();
            (stream, listener.accept().await.unwrap())
        };
        let client = async {
            let opened = Connection::open(&host).await;
            assert!(matches!(opened, Err(Failure::Wrong(Wrong::Malformed(_)))));
            let Ok(mut open) = Connection::open(&host).await else { panic!("it is ok") };
            assert!(matches!(open.ask(b"x").await, Err(Failure::Wrong(Wrong::Malformed(_)))));
            let _last = TcpStream::connect((host.0.as_str(), host.1)).await.unwrap();
        };
        tokio::join!(server, client);
    }
}
