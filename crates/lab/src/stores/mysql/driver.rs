//! MySQL and MariaDB, by JDBC (`MySql.java`), as in the studies of 2012 and 2014: an InnoDB table
//! with the key as primary key, and an index for each column that counts filter by.
//!
//! Several endpoints are independent shards, among which the driver distributes keys; scans and
//! counts read all of them. Left out: TLS, Unix sockets, replication, MySQL's own partitions.

use std::sync::{Arc, Mutex};

use crate::driver::{Ability, Driver, OpenError, Scans, StoreSpec, TIMEOUT};
use crate::options::{Known, known};
use crate::servers::client::Client;
use crate::stores::own::driver::{Kind, open_kind};

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known { name: "user", default: "root", help: "account to log in as" },
    known("database", "lab", "database of the table; it is created if missing"),
];

pub(crate) static CLIENT: Client = Client {
    name: "mysql",
    source: ("MySql", include_str!("MySql.java")),
    artifacts: &["org.mariadb.jdbc:mariadb-java-client:2.7.12", "org.slf4j:slf4j-nop:2.0.16"],
    java: &[],
    running: Mutex::new(None),
    detour: Mutex::new(None),
};

const KIND: Kind = Kind {
    name: "mysql",
    abilities: Ability::ROWS,
    scans: Scans::InOrder,
    reads_own_writes: true,
    options: OPTIONS,
    versions_tested: &["MariaDB 10.11.", "MySQL 5.5."],
    client: Some(&CLIENT),
    is_cluster: false,
};

static MYSQL: Kind = KIND;
static MARIADB: Kind = Kind { name: "mariadb", ..KIND };

/// The driver for MySQL.
pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_kind(&MYSQL, spec)
}

/// The driver for MariaDB.
pub(crate) fn open_mariadb(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_kind(&MARIADB, spec)
}
