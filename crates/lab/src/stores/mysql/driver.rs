//! MySQL and MariaDB, by one driver: an InnoDB table with the key as primary key, and an index for
//! each column that counts filter by.
//!
//! Statements are prepared once per connection: common ones when it is opened, all others on first
//! use. Several endpoints are independent shards, as in the studies of 2012 and 2014: [`Ring`]
//! distributes keys, scans and counts read all shards. The next operation replaces a connection
//! that broke or timed out.
//!
//! The SQL mode is strict, because MySQL 5.5 otherwise cuts a text that is too long for its column.
//! The password is read from `MYSQL_PWD`, as by MySQL's own programs, because options are written
//! into results. Left out: TLS, Unix sockets, replication, MySQL's own partitions.

mod session;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder};

use self::session::Shard;
use crate::driver::ring::Ring;
use crate::driver::sharded::{self, Sharded};
use crate::driver::{
    Ability, Driver, MAINTENANCE_TIMEOUT, OpenError, Session, Settle, StoreError, StoreSpec,
    TIMEOUT, within,
};
use crate::options::Known;
use crate::row::Schema;

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known { name: "user", default: "root", help: "account to log in as" },
    Known {
        name: "database",
        default: "lab",
        help: "database of the table; it is created if missing",
    },
];

/// Set for each connection: a value that does not fit its column is refused.
const STRICT: &str = "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// The share of changed pages in the buffer pool, in percent, above which InnoDB writes them out.
const DIRTY_PERCENT: &str = "innodb_max_dirty_pages_pct";

/// Pages of the buffer pool that may differ from the data files after a flush. The server's own
/// background work changes a few again and again.
const DIRTY_PAGES_MAX: u64 = 16;

/// Time between two queries for the number of those pages.
const DIRTY_LOOK: Duration = Duration::from_millis(200);

/// Codes of errors with which a server ends: ER_SERVER_SHUTDOWN, and ER_CONNECTION_KILLED of
/// MariaDB.
const GOING: [u16; 2] = [1053, 1927];

struct Mysql {
    store: String,
    timeout: Duration,
    hosts: Vec<Opts>,
    database: String,
    ring: Arc<Ring>,
}

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    let timeout = crate::driver::timeout(&options)?;
    let password = std::env::var("MYSQL_PWD").ok();
    let host = |(host, port): (String, u16)| -> Opts {
        OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port)
            .user(Some(options.text("user")))
            .pass(password.clone())
            // Otherwise the client would move to the Unix socket of a server on the same machine.
            .prefer_socket(false)
            // An update that changes nothing has found its row as well.
            .client_found_rows(true)
            // Connections keep their statements themselves.
            .stmt_cache_size(0)
            .setup(vec![STRICT])
            .into()
    };
    let hosts: Vec<Opts> = crate::driver::hosts(spec)?.into_iter().map(host).collect();
    let ring = Arc::new(Ring::new(hosts.len()));
    let (store, database) = (spec.name.clone(), options.text("database").to_owned());
    Ok(Arc::new(Mysql { store, timeout, hosts, database, ring }))
}

#[async_trait]
impl Driver for Mysql {
    fn abilities(&self) -> &'static [Ability] {
        Ability::ROWS
    }

    async fn version(&self) -> Result<String, StoreError> {
        let ask = |mut conn: Conn| async move { conn.query_first("select version()").await };
        let versions: Vec<Option<String>> = self.on_all(self.timeout, ask).await?;
        let mut versions: Vec<String> = versions.into_iter().flatten().map(full_version).collect();
        versions.dedup();
        Ok(versions.join("; "))
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &["MariaDB 10.11.", "MySQL 5.5."]
    }

    async fn create(&self, schema: &Schema) -> Result<(), StoreError> {
        let statements = &statements::create(&self.database, schema);
        let make = |mut conn: Conn| async move {
            for statement in statements {
                conn.query_drop(statement).await?;
            }
            Ok(())
        };
        self.on_all(MAINTENANCE_TIMEOUT, make).await.map(|_| ())
    }

    async fn settle(&self, schema: &Schema, settle: Settle) -> Result<(), StoreError> {
        let table = &statements::table(&self.database, schema);
        let merge = match settle {
            // Committed rows are visible.
            Settle::Visible => return Ok(()),
            Settle::Flushed => false,
            Settle::Compacted => true,
        };
        let settle = |mut conn: Conn| async move {
            if merge {
                administer(&mut conn, "optimize", table).await?;
            }
            write_pages(&mut conn).await
        };
        self.on_all(MAINTENANCE_TIMEOUT, settle).await.map(|_| ())
    }

    async fn table_bytes(&self, schema: &Schema) -> Result<Option<u64>, StoreError> {
        let table = &statements::table(&self.database, schema);
        let names = &(self.database.as_str(), schema.table.as_str());
        let ask = |mut conn: Conn| async move {
            // MariaDB keeps sizes among the statistics of a table, which are behind its changes.
            administer(&mut conn, "analyze", table).await?;
            let sql = "select cast(data_length + index_length as unsigned) \
                       from information_schema.tables where table_schema = ? and table_name = ?";
            let bytes: Option<Option<u64>> = conn.exec_first(sql, names).await?;
            Ok(bytes.flatten())
        };
        let bytes: Vec<Option<u64>> = self.on_all(MAINTENANCE_TIMEOUT, ask).await?;
        Ok(bytes.into_iter().sum())
    }

    async fn connect(&self, schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let schema = Arc::new(schema.clone());
        let shard =
            |host: &Opts| Shard::new(&self.store, host.clone(), &self.database, schema.clone());
        let mut shards: Vec<Shard> = self.hosts.iter().map(shard).collect();
        let prepare = try_join_all(shards.iter_mut().map(Shard::prepare_common));
        within(&self.store, self.timeout, prepare).await?;
        Ok(Box::new(Sharded::new(&self.store, self.timeout, &self.ring, &schema, shards)))
    }
}

impl Mysql {
    /// See [`sharded::on_all`].
    async fn on_all<T, F>(
        &self,
        limit: Duration,
        work: impl Fn(Conn) -> F,
    ) -> Result<Vec<T>, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let connecting = self.hosts.iter().map(|host| Conn::new(host.clone()));
        sharded::on_all(&self.store, limit, connecting, work, |e| failed(&self.store, e)).await
    }
}

/// The version with the product's name; MySQL's own version has none.
fn full_version(version: String) -> String {
    match version.contains("MariaDB") {
        true => format!("MariaDB {version}"),
        false => format!("MySQL {version}"),
    }
}

/// Runs `optimize` or `analyze` on a table. They report errors in rows, not as errors.
async fn administer(conn: &mut Conn, command: &str, table: &str) -> Result<(), Error> {
    // The columns are the table, the command, the kind of message, and the message.
    let rows: Vec<(String, String, String, String)> =
        conn.query(format!("{command} table {table}")).await?;
    match rows.into_iter().find(|(.., kind, _)| kind.eq_ignore_ascii_case("error")) {
        Some((.., message)) => Err(Error::Other(message.into())),
        None => Ok(()),
    }
}

/// Returns when the pages in memory are in the data files. It lowers the server's limit of changed
/// pages meanwhile, which needs the right to set global variables.
async fn write_pages(conn: &mut Conn) -> Result<(), Error> {
    let usual: Option<f64> =
        conn.query_first(format!("select @@global.{DIRTY_PERCENT} + 0e0")).await?;
    conn.query_drop(format!("set global {DIRTY_PERCENT} = 0")).await?;
    let written = wait_for_pages(conn).await;
    if let Some(usual) = usual {
        conn.query_drop(format!("set global {DIRTY_PERCENT} = {usual}")).await?;
    }
    written
}

async fn wait_for_pages(conn: &mut Conn) -> Result<(), Error> {
    loop {
        let sql = "show global status like 'Innodb_buffer_pool_pages_dirty'";
        let dirty: Option<(String, u64)> = conn.query_first(sql).await?;
        match dirty {
            Some((_, pages)) if pages > DIRTY_PAGES_MAX => tokio::time::sleep(DIRTY_LOOK).await,
            _ => return Ok(()),
        }
    }
}

fn failed(store: &str, error: Error) -> StoreError {
    let store = store.to_owned();
    match error {
        Error::Server(own) if GOING.contains(&own.code) => {
            StoreError::Unreachable { store, reason: own.to_string() }
        }
        Error::Server(own) => StoreError::Refused { store, reason: own.to_string() },
        Error::Driver(DriverError::PacketTooLarge) => {
            let remedy = "set the server's max_allowed_packet higher";
            let reason = format!("a row is larger than one packet may be; {remedy}");
            StoreError::Refused { store, reason }
        }
        Error::Io(e) => StoreError::Unreachable { store, reason: e.to_string() },
        Error::Driver(e @ DriverError::ConnectionClosed) => {
            StoreError::Unreachable { store, reason: e.to_string() }
        }
        // A message of `administer`.
        Error::Other(e) => StoreError::Refused { store, reason: e.to_string() },
        e @ (Error::Driver(_) | Error::Url(_)) => {
            StoreError::Answer { store, reason: e.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_name_of_the_product() {
        assert_eq!(full_version("5.5.9".to_owned()), "MySQL 5.5.9");
        let debian = "10.11.19-MariaDB-0+deb12u1";
        assert_eq!(full_version(debian.to_owned()), format!("MariaDB {debian}"));
    }

    #[test]
    fn errors_are_those_of_the_server_of_the_connection_or_of_the_protocol() {
        let server = |code| {
            let (message, state) = ("no".to_owned(), "HY000".to_owned());
            Error::Server(mysql_async::ServerError { code, message, state })
        };
        for (error, kind) in [
            (server(1053), "unreachable"),
            (server(1927), "unreachable"),
            (server(1062), "refused"),
            (Error::Driver(DriverError::ConnectionClosed), "unreachable"),
            (Error::Driver(DriverError::PacketTooLarge), "refused"),
            (Error::Driver(DriverError::PacketOutOfOrder), "answer"),
            (Error::Other("Table does not exist".into()), "refused"),
        ] {
            let text = error.to_string();
            assert_eq!(failed("mysql", error).kind(), kind, "{text}");
        }
    }
}
