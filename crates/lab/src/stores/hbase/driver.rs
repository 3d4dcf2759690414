//! HBase, by its own client (`HBase.java`): a table of one column family, as in YCSB's binding.
//!
//! An insert or an update writes whether the row is there or not. HBase has no index of values, and
//! the studies made none: counts are not supported. Left out: authentication and TLS.

use std::sync::{Arc, Mutex};

use crate::driver::{Ability, Driver, OpenError, Scans, StoreSpec, TIMEOUT};
use crate::options::Known;
use crate::servers::client::Client;
use crate::stores::own::driver::{Kind, open_kind};

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[
    Known {
        name: "regions",
        default: "1",
        help: "regions of a table: keys are spread over them by a hash, scans ask each of them",
    },
    Known {
        name: "wal",
        default: "sync",
        help: "when a write is in the log: sync (before it is acknowledged), async (within 1 s), skip (never)",
    },
    TIMEOUT,
];

pub(crate) static CLIENT: Client = Client {
    name: "hbase",
    source: ("HBase", include_str!("HBase.java")),
    artifacts: &["org.apache.hbase:hbase-client:2.5.8"],
    java: super::server::MODULES,
    running: Mutex::new(None),
    detour: Mutex::new(None),
};

static KIND: Kind = Kind {
    name: "hbase",
    abilities: &[
        Ability::Insert,
        Ability::InsertMany,
        Ability::Read,
        Ability::Update,
        Ability::Scan,
        Ability::Delete,
    ],
    scans: Scans::InOrder,
    reads_own_writes: true,
    options: OPTIONS,
    versions_tested: &["HBase 2.5."],
    client: Some(&CLIENT),
    is_cluster: true,
};

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    let options = crate::driver::options(spec, OPTIONS)?;
    // One byte before a key.
    options.number("regions", 1, u8::MAX)?;
    options.choice("wal", &["sync", "async", "skip"])?;
    open_kind(&KIND, spec)
}
