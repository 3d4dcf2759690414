//! VoltDB, by its own client (`VoltDb.java`): a table in memory, spread over the partitions of a
//! cluster by its key. The client knows the partitions, and sends a call to the node of its key.
//!
//! A server that was restarted has no table any more: a session makes it again, empty, so that its
//! rows are found missing. Left out: users and TLS.

use std::sync::{Arc, Mutex};

use crate::driver::{Ability, Driver, OpenError, Scans, StoreSpec, TIMEOUT};
use crate::options::Known;
use crate::servers::client::Client;
use crate::stores::own::driver::{Kind, open_kind};

/// Its options.
pub(crate) const OPTIONS: &[Known] = &[TIMEOUT];

pub(crate) static CLIENT: Client = Client {
    name: "voltdb",
    source: ("VoltDb", include_str!("VoltDb.java")),
    artifacts: &["org.voltdb:voltdbclient:10.0"],
    java: super::server::MODULES,
    running: Mutex::new(None),
    detour: Mutex::new(None),
};

static KIND: Kind = Kind {
    name: "voltdb",
    abilities: Ability::ROWS,
    scans: Scans::InOrder,
    reads_own_writes: true,
    options: OPTIONS,
    versions_tested: &["VoltDB 10.0"],
    client: Some(&CLIENT),
    is_cluster: true,
};

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    open_kind(&KIND, spec)
}
