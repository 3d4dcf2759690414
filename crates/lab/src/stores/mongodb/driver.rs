//! MongoDB's protocol, by MongoDB's own client (`MongoDb.java`), for MongoDB itself and for
//! FerretDB, which answers it from SQLite or PostgreSQL: a collection whose documents have the key
//! as `_id`, and an index for each column that counts filter by.
//!
//! Several endpoints are independent servers, among which the driver distributes keys. A sharded
//! cluster of MongoDB has one endpoint, its router `mongos`. Left out: logins, TLS, replica sets.

use std::sync::{Arc, Mutex};

use crate::driver::{Ability, Driver, OpenError, Scans, StoreSpec, TIMEOUT};
use crate::options::{Known, known};
use crate::servers::client::Client;
use crate::stores::own::driver::{Kind, open_kind};

const DATABASE: Known = Known { name: "database", default: "lab", help: "database of the table" };

/// The options for MongoDB.
pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    DATABASE,
    known("journal", "on", "off: a row is acknowledged before it is in the journal on disk"),
];

/// The options for FerretDB, whose storage decides when a row is on disk.
pub(crate) const FERRETDB_OPTIONS: &[Known] = &[TIMEOUT, DATABASE];

pub(crate) static CLIENT: Client = Client {
    name: "mongodb",
    source: ("MongoDb", include_str!("MongoDb.java")),
    artifacts: &["org.mongodb:mongodb-driver-sync:5.2.1", "org.slf4j:slf4j-nop:2.0.16"],
    java: &[],
    running: Mutex::new(None),
    detour: Mutex::new(None),
};

const MONGODB_KIND: Kind = Kind {
    name: "mongodb",
    abilities: Ability::ROWS,
    scans: Scans::InOrder,
    reads_own_writes: true,
    options: OPTIONS,
    versions_tested: &[],
    client: Some(&CLIENT),
    is_cluster: false,
};

static MONGODB: Kind = MONGODB_KIND;

static FERRETDB: Kind = Kind {
    name: "ferretdb",
    options: FERRETDB_OPTIONS,
    versions_tested: &["FerretDB v1.24."],
    ..MONGODB_KIND
};

/// The driver for MongoDB.
pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    crate::driver::options(spec, OPTIONS)?.choice("journal", &["on", "off"])?;
    open_kind(&MONGODB, spec)
}

/// The driver for FerretDB.
pub(crate) fn open_ferretdb(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_kind(&FERRETDB, spec)
}
