//! The stores that the lab knows: a directory for each, and a row of [`STORES`].
//!
//! A row names the driver, the server that the lab can start, and what the contract test
//! (`tests/contract.rs`) varies. The command line, the studies and that test read the table.

mod cassandra {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod elasticsearch {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod loginson {
    pub(crate) mod driver;
    pub(crate) mod server;
}
pub mod null;
mod postgres {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod redis {
    pub(crate) mod driver;
    pub(crate) mod server;
}

use std::sync::Arc;

use crate::driver::{Driver, OpenError, StoreSpec};
use crate::servers::Server;

/// Names and values of options.
pub type OptionPairs = &'static [(&'static str, &'static str)];

/// A store that can be measured.
pub struct Store {
    /// Its name on the command line, in studies and in results.
    pub name: &'static str,
    /// Makes its driver, which connects when it is used.
    pub open: fn(&StoreSpec) -> Result<Arc<dyn Driver>, OpenError>,
    /// The server that the lab fetches and starts; none for a store that needs none.
    pub server: Option<&'static dyn Server>,
    /// What the contract test varies.
    pub contract: Contract,
}

/// How the contract of a driver is tested on a real server.
pub struct Contract {
    /// Whether scans follow the order of keys.
    pub ordered: bool,
    /// Sets of the driver's options. The contract holds with each of them.
    pub variants: &'static [OptionPairs],
    /// Options of the driver on two nodes or shards.
    pub spread: OptionPairs,
    /// Options of the server.
    pub server: OptionPairs,
}

/// A Java virtual machine that fits beside another one.
const SMALL_HEAP: OptionPairs = &[("heap", "512m"), ("direct", "128m")];

/// All stores, by name.
pub const STORES: &[Store] = &[
    Store {
        name: "cassandra",
        open: cassandra::driver::open,
        server: Some(&cassandra::server::Cassandra),
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("index", "sai")], &[("index", "none"), ("connections", "2")]],
            spread: &[("replicas", "2"), ("consistency", "all")],
            server: SMALL_HEAP,
        },
    },
    Store {
        name: "elasticsearch",
        open: elasticsearch::driver::open,
        server: Some(&elasticsearch::server::Elasticsearch),
        contract: Contract {
            ordered: true,
            variants: &[&[], &[("shards", "3"), ("refresh", "-1")]],
            spread: &[("shards", "2"), ("replicas", "1")],
            server: SMALL_HEAP,
        },
    },
    Store {
        name: "loginson",
        open: loginson::driver::open,
        server: Some(&loginson::server::Loginson),
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("time", "")]],
            spread: &[],
            server: &[],
        },
    },
    Store {
        name: null::NAME,
        open: null::open,
        server: None,
        contract: Contract { ordered: false, variants: &[], spread: &[], server: &[] },
    },
    Store {
        name: "postgres",
        open: postgres::driver::open,
        server: Some(&postgres::server::Postgres),
        contract: Contract {
            ordered: true,
            variants: &[&[], &[("synchronous_commit", "off")]],
            spread: &[],
            server: &[],
        },
    },
    Store {
        name: "redis",
        open: redis::driver::open,
        server: Some(&redis::server::Redis),
        contract: Contract {
            ordered: true,
            variants: &[&[], &[("scans", "off")]],
            spread: &[],
            server: &[],
        },
    },
];

/// The store of this name.
pub fn find(name: &str) -> Option<&'static Store> {
    STORES.iter().find(|store| store.name == name)
}

/// The names of all stores.
pub fn names() -> Vec<&'static str> {
    STORES.iter().map(|store| store.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_those_of_the_servers() {
        assert!(names().is_sorted(), "{:?}", names());
        for store in STORES {
            let server = store.server.map_or(store.name, |server| server.name());
            assert_eq!(server, store.name);
            assert_eq!(store.server.is_some(), !store.contract.variants.is_empty());
        }
    }
}
