//! Calls of HBase's Thrift gateway, version 2 of its interface (`THBaseService`), whose file
//! `hbase.thrift` is the source of all numbers of fields here.
//!
//! After any error other than one that the gateway reports, a connection must not be used again.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rows::FAMILY;
use super::thrift::{self, Field, Struct, Writer};
use crate::driver::{StoreError, short_message};

/// Bytes of rows in one call that writes many: the gateway holds a call in its memory.
const PUT_BYTES: usize = 1 << 20;

/// Bytes of a cell in a message besides its name and value, and a few to spare.
const CELL_BYTES: usize = 32;

/// Bytes that are made room for before each read of a reply.
const READ_BYTES: usize = 16 << 10;

/// `DELETE_FAMILY`: all versions of all cells of a row.
const DELETE_FAMILY: i32 = 2;

/// When a write is in the log on disk: `TDurability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wal {
    /// The write is not logged.
    Skip = 1,
    /// The write is logged after it is acknowledged.
    Async = 2,
    /// The write is handed to the file system before it is acknowledged.
    Sync = 3,
}

/// A row to write: its key, and names and values of cells.
pub(super) struct Put {
    pub(super) key: Vec<u8>,
    pub(super) cells: Vec<(String, Vec<u8>)>,
}

/// An open connection.
pub(super) struct Gateway {
    store: String,
    stream: TcpStream,
    /// The sequence number of the next call.
    next: i32,
    /// Buffers of the call and of the reply; kept, so that they are allocated once.
    out: Vec<u8>,
    received: Vec<u8>,
}

impl Gateway {
    /// Connects to a gateway.
    pub(super) async fn open(
        store: &str,
        (host, port): &(String, u16),
        limit: Duration,
    ) -> Result<Gateway, StoreError> {
        let unreachable = |e: std::io::Error| unreachable(store, &e);
        let connect = TcpStream::connect((host.as_str(), *port));
        let stream = match tokio::time::timeout(limit.min(Duration::from_secs(10)), connect).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        };
        stream.set_nodelay(true).map_err(unreachable)?;
        let (out, received) = (Vec::new(), Vec::new());
        Ok(Gateway { store: store.to_owned(), stream, next: 0, out, received })
    }

    /// Writes cells of a row, whether it exists or not.
    pub(super) async fn put(&mut self, table: &str, put: &Put) -> Result<(), StoreError> {
        let arguments = |arguments: &mut Writer<'_>| {
            arguments.binary(1, table.as_bytes());
            arguments.structure(2, |structure| write_put(structure, put));
        };
        self.call("put", arguments, done).await
    }

    /// Writes many rows, in calls of about 1 MiB.
    pub(super) async fn put_multiple(
        &mut self,
        table: &str,
        puts: &[Put],
    ) -> Result<(), StoreError> {
        let mut rest = puts;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|put| {
                let before = bytes;
                let cells = put.cells.iter();
                bytes += cells.map(|(name, v)| CELL_BYTES + name.len() + v.len()).sum::<usize>();
                before < PUT_BYTES
            });
            let (part, later) = rest.split_at(fits.count());
            let arguments = |arguments: &mut Writer<'_>| {
                arguments.binary(1, table.as_bytes());
                arguments.structures(2, part, write_put);
            };
            self.call("putMultiple", arguments, done).await?;
            rest = later;
        }
        Ok(())
    }

    /// Reads a row; `read` takes its result, which has no key if there is no such row.
    pub(super) async fn get<T>(
        &mut self,
        table: &str,
        key: &[u8],
        read: impl FnOnce(&Struct<'_>) -> Result<T, &'static str>,
    ) -> Result<T, StoreError> {
        let arguments = |arguments: &mut Writer<'_>| {
            arguments.binary(1, table.as_bytes());
            arguments.structure(2, |get| get.binary(1, key));
        };
        let result = |result: Option<&Field<'_>>| match result {
            Some(Field::Struct(row)) => read(row),
            _ => Err("a read without a result"),
        };
        self.call("get", arguments, result).await
    }

    /// Reads up to `rows_max` rows from `from` to before `end`, in the order of keys.
    pub(super) async fn scan<T>(
        &mut self,
        table: &str,
        (from, end): (&[u8], Option<&[u8]>),
        rows_max: i32,
        read: impl Fn(&Struct<'_>) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, StoreError> {
        let arguments = |arguments: &mut Writer<'_>| {
            arguments.binary(1, table.as_bytes());
            arguments.structure(2, |scan| {
                scan.binary(1, from);
                if let Some(end) = end {
                    scan.binary(2, end);
                }
                scan.i32(15, rows_max);
            });
            arguments.i32(3, rows_max);
        };
        let result = |result: Option<&Field<'_>>| {
            let rows = result.and_then(Field::structures).ok_or("a scan without rows")?;
            rows.into_iter().map(&read).collect()
        };
        self.call("getScannerResults", arguments, result).await
    }

    /// Deletes a row; it need not exist.
    pub(super) async fn delete(&mut self, table: &str, key: &[u8]) -> Result<(), StoreError> {
        let arguments = |arguments: &mut Writer<'_>| {
            arguments.binary(1, table.as_bytes());
            arguments.structure(2, |delete| {
                delete.binary(1, key);
                delete.i32(4, DELETE_FAMILY);
            });
        };
        self.call("deleteSingle", arguments, done).await
    }

    /// Makes a table of one column family, with a region from each of `splits` and one before.
    pub(super) async fn create_table(
        &mut self,
        table: &str,
        wal: Wal,
        splits: &[Vec<u8>],
    ) -> Result<(), StoreError> {
        let arguments = |arguments: &mut Writer<'_>| {
            arguments.structure(1, |descriptor| {
                descriptor.structure(1, |name| name.binary(2, table.as_bytes()));
                descriptor.structures(2, &[FAMILY], |family, name| {
                    family.binary(1, name);
                    // One version: an update replaces a value.
                    family.i32(10, 1);
                });
                descriptor.i32(4, wal as i32);
            });
            if !splits.is_empty() {
                arguments.binaries(2, splits);
            }
        };
        self.call("createTable", arguments, done).await
    }

    /// Whether there is a table of this name.
    pub(super) async fn table_exists(&mut self, table: &str) -> Result<bool, StoreError> {
        self.ask_about("tableExists", table.as_bytes()).await
    }

    /// Whether a table is not disabled.
    pub(super) async fn is_enabled(&mut self, table: &str) -> Result<bool, StoreError> {
        self.ask_about("isTableEnabled", table.as_bytes()).await
    }

    /// Closes all regions of a table, so that each writes its rows in memory to files.
    pub(super) async fn disable(&mut self, table: &str) -> Result<(), StoreError> {
        self.call("disableTable", named(table.as_bytes()), done).await
    }

    /// Opens all regions of a table.
    pub(super) async fn enable(&mut self, table: &str) -> Result<(), StoreError> {
        self.call("enableTable", named(table.as_bytes()), done).await
    }

    /// Removes a disabled table.
    pub(super) async fn delete_table(&mut self, table: &str) -> Result<(), StoreError> {
        self.call("deleteTable", named(table.as_bytes()), done).await
    }

    /// The first table, the server's own included, of which a region is not open.
    pub(super) async fn unavailable(&mut self) -> Result<Option<String>, StoreError> {
        let names = |result: Option<&Field<'_>>| {
            let tables = result.and_then(Field::structures).ok_or("no list of tables")?;
            let name = |table: &Struct<'_>| {
                let whole = [table.binary(1).unwrap_or(b"default"), b":", table.binary(2)?];
                Some(whole.concat())
            };
            tables.into_iter().map(name).collect::<Option<Vec<_>>>().ok_or("a table without a name")
        };
        let with_own = |arguments: &mut Writer<'_>| arguments.bool(2, true);
        let tables = self.call("getTableNamesByPattern", with_own, names).await?;
        for table in tables {
            if !self.ask_about("isTableAvailable", &table).await? {
                return Ok(Some(String::from_utf8_lossy(&table).into_owned()));
            }
        }
        Ok(None)
    }

    async fn ask_about(&mut self, method: &str, table: &[u8]) -> Result<bool, StoreError> {
        let result = |result: Option<&Field<'_>>| match result {
            Some(Field::Bool(answer)) => Ok(*answer),
            _ => Err("neither true nor false"),
        };
        self.call(method, named(table), result).await
    }

    /// Calls a method; `read` reads its result.
    async fn call<T>(
        &mut self,
        method: &str,
        arguments: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(Option<&Field<'_>>) -> Result<T, &'static str>,
    ) -> Result<T, StoreError> {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        thrift::call(&mut self.out, method, sequence, arguments);
        let sent = self.stream.write_all(&self.out).await;
        sent.map_err(|e| unreachable(&self.store, &e))?;
        self.received.clear();
        let reply = loop {
            let before = self.received.len();
            self.receive().await?;
            // A reply ends with the zero byte that ends its struct. The first bytes are looked at
            // anyway: they tell whether it is a reply at all.
            if before >= thrift::VERSION_BYTES && self.received.last() != Some(&0) {
                continue;
            }
            match thrift::reply(&self.received) {
                Err(e) if e.is_incomplete() => {}
                reply => break reply.map_err(|e| self.answer(&e))?,
            }
        };
        if reply.sequence != sequence {
            return Err(self.answer(&"a reply to another call"));
        }
        match refusal(&reply) {
            Some(reason) => Err(StoreError::Refused { store: self.store.clone(), reason }),
            None => read(reply.result.get(0)).map_err(|reason| self.answer(&reason)),
        }
    }

    /// Receives some bytes of a reply.
    async fn receive(&mut self) -> Result<(), StoreError> {
        if self.received.len() > thrift::MESSAGE_BYTES_MAX {
            return Err(self.answer(&"a message that is longer than any reply"));
        }
        self.received.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.received).await {
            Ok(0) => Err(unreachable(&self.store, &std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(e) => Err(unreachable(&self.store, &e)),
        }
    }

    fn answer(&self, reason: &dyn std::fmt::Display) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason: reason.to_string() }
    }
}

fn write_put(out: &mut Writer<'_>, put: &Put) {
    out.binary(1, &put.key);
    out.structures(2, &put.cells, |cell, (name, value)| {
        cell.binary(1, FAMILY);
        cell.binary(2, name.as_bytes());
        cell.binary(3, value);
    });
}

/// The argument of methods on one table; a name with a colon has its namespace before it.
fn named(table: &[u8]) -> impl FnOnce(&mut Writer<'_>) {
    move |arguments| {
        arguments.structure(1, |name| {
            let colon = table.iter().position(|byte| *byte == b':');
            if let Some(colon) = colon {
                name.binary(1, &table[..colon]);
            }
            name.binary(2, &table[colon.map_or(0, |colon| colon + 1)..]);
        });
    }
}

fn done(_: Option<&Field<'_>>) -> Result<(), &'static str> {
    Ok(())
}

/// The message of an exception, on one line.
fn refusal(reply: &thrift::Reply<'_>) -> Option<String> {
    let message = match reply.is_exception {
        true => reply.result.binary(1),
        false => match (reply.result.get(1), reply.result.get(2)) {
            (None, None) => return None,
            (Some(Field::Struct(e)), _) | (_, Some(Field::Struct(e))) => e.binary(1),
            _ => None,
        },
    };
    let text = String::from_utf8_lossy(message.unwrap_or(b"an exception without a message"));
    Some(short_message(&text))
}

fn unreachable(store: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unreachable { store: store.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A reply with these fields.
    fn reply(kind: u8, sequence: i32, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        thrift::call(&mut out, "any", sequence, write);
        out[3] = kind;
        out
    }

    /// Asks a server that answers with `parts`, one after the other, and closes whether a table
    /// exists.
    async fn asked(parts: Vec<Vec<u8>>) -> Result<bool, StoreError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // A call of this length is received whole.
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            for part in parts {
                stream.write_all(&part).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let place = ("127.0.0.1".to_owned(), port);
        let mut gateway = Gateway::open("hbase", &place, Duration::from_secs(86_400)).await?;
        gateway.table_exists("logs").await
    }

    #[tokio::test]
    async fn replies_become_results_or_errors() {
        let exception = |e: &mut Writer<'_>| e.binary(1, b"no\n  such table");
        for (bytes, expected) in [
            (reply(2, 0, |r| r.bool(0, true)), Ok(true)),
            (reply(2, 0, |r| r.i32(0, 1)), Err("answer")),
            (reply(2, 0, |_| ()), Err("answer")),
            (reply(2, 1, |r| r.bool(0, true)), Err("answer")),
            (reply(1, 0, |r| r.bool(0, true)), Err("answer")),
            (reply(2, 0, |r| r.structure(1, exception)), Err("refused")),
            (reply(2, 0, |r| r.structure(2, exception)), Err("refused")),
            (reply(2, 0, |r| r.structure(1, |_| ())), Err("refused")),
            (reply(3, 0, exception), Err("refused")),
            (vec![0xff; 9], Err("answer")),
            (vec![0x80, 1, 0, 2], Err("unreachable")),
            (vec![], Err("unreachable")),
        ] {
            let single = bytes.iter().map(|byte| vec![*byte]).collect();
            for parts in [vec![bytes.clone()], single] {
                let found = asked(parts).await;
                assert_eq!(found.map_err(|e| e.kind()), expected, "{bytes:?}");
            }
        }
        let error = asked(vec![reply(3, 0, exception)]).await.unwrap_err().to_string();
        assert!(error.contains("no such table"), "{error}");
    }
}
