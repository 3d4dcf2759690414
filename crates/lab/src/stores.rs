//! The stores that the lab knows: a directory for each, and a row of [`STORES`].
//!
//! A row names the driver, the server that the lab can start, and the options that the contract
//! test (`tests/all/contract.rs`) varies. The command line, the studies and the contract test read
//! the table.

mod cassandra {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod chdb {
    pub(crate) mod server;
}
mod clickhouse {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod elasticsearch {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod ferretdb {
    pub(crate) mod server;
}
pub(crate) mod files {
    pub(crate) mod driver;
    pub(crate) mod process;
    pub(crate) mod protocol;
    pub(crate) mod script;
    pub(crate) mod server;
}
mod flume {
    pub(crate) mod server;
}
mod hbase {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod kafka {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod loginson {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod mariadb {
    pub(crate) mod server;
}
mod mongodb {
    pub(crate) mod driver;
}
mod mysql {
    pub(crate) mod driver;
    pub(crate) mod server;
}
pub(crate) mod own {
    mod description;
    pub(crate) mod driver;
    pub(crate) mod process;
    mod protocol;
    pub(crate) mod registry;
    pub(crate) mod server;
}
mod opensearch {
    pub(crate) mod server;
}
mod postgres {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod redis {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod rsyslog {
    pub(crate) mod server;
}
mod syslog_ng {
    pub(crate) mod server;
}
mod victorialogs {
    pub(crate) mod driver;
    pub(crate) mod server;
}
mod voltdb {
    pub(crate) mod driver;
    pub(crate) mod server;
}

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::driver::collector;
use crate::driver::durability::{self, Durability, Level, Promise};
use crate::driver::{Driver, Open, OpenError, StoreSpec};
use crate::options::{Known, OptionPairs};
use crate::servers::client::Client;
use crate::servers::{Home, Server, Servers};
use crate::sink::Wire;

/// A store that can be measured.
pub struct Store {
    /// Its name on the command line, in studies and in results.
    pub name: &'static str,
    /// Makes its driver, which connects when it is used.
    pub open: Open,
    /// The options of its driver.
    pub options: &'static [Known],
    /// The levels of durability that it has.
    pub durability: &'static [Level],
    /// Values of options that decide in which state the store is measured, with a sentence for the
    /// report.
    pub states: &'static [(&'static str, &'static str, &'static str)],
    /// The server that the lab fetches and starts; none for a store that needs none, or that no
    /// package registry has.
    pub server: Option<&'static dyn Server>,
    /// The protocol of its client, which sinks speak too.
    pub wire: Wire,
    /// The options that the contract test varies.
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
    /// Whether only the long tests start it: it is large to fetch, or slow.
    pub long: bool,
}

/// A Java virtual machine that fits beside another one.
const SMALL_HEAP: OptionPairs = &[("heap", "512m"), ("direct", "128m")];

/// The durability of Elasticsearch and OpenSearch.
const TRANSLOG: &[Level] = &[
    level(Durability::Each, "nothing", &[("translog", "request")], &[]),
    level(Durability::Interval, "5 s", &[("translog", "async")], &[]),
];

/// The states of Elasticsearch and OpenSearch.
const REQUEST_CACHE: &[(&str, &str, &str)] = &[
    ("request_cache", "off", "Its cache of whole answers is off."),
    ("request_cache", "on", "Its cache of whole answers is on: a repeated query is not run."),
];

/// The durability of ClickHouse and chDB.
const FSYNC: &[Level] = &[
    level(
        Durability::None,
        "what the system has not written by itself yet",
        &[("fsync", "no")],
        &[],
    ),
    level(Durability::Each, "nothing", &[("fsync", "yes")], &[]),
];

/// Documents under identifiers of the store's own; their keys are found after a refresh.
const AUTO_IDS: OptionPairs = &[("ids", "auto")];

/// The levels of MySQL and of MariaDB. With 0 the log is not even given to the system at a commit.
const INNODB: &[Level] = &[
    level(Durability::Each, "nothing", &[], &[("innodb_flush_log_at_trx_commit", "1")]),
    level(Durability::Interval, "1 s", &[], &[("innodb_flush_log_at_trx_commit", "2")]),
    level(
        Durability::Interval,
        "1 s, also when the server alone crashes",
        &[],
        &[("innodb_flush_log_at_trx_commit", "0")],
    ),
];

/// Lines that a collector has handed to the system are on disk once the system writes them.
const UNSYNCED: &[Level] =
    &[level(Durability::None, "what it has in memory, and about 30 s of its files", &[], &[])];

/// The contract of a store with scans in order, which only the long tests start.
const TABLE: Contract =
    Contract { ordered: true, variants: &[&[]], spread: &[], server: &[], long: true };

/// The contract of collectors.
const STREAMS: Contract = Contract { ordered: false, long: false, ..TABLE };

/// A level with the options of driver and server that make it.
const fn level(
    durability: Durability,
    loses: &'static str,
    driver: OptionPairs,
    server: OptionPairs,
) -> Level {
    Level { durability, loses, driver, server }
}

/// All stores, by name.
pub const STORES: &[Store] = &[
    Store {
        name: "cassandra",
        open: cassandra::driver::open,
        options: cassandra::driver::OPTIONS,
        durability: &[
            level(Durability::Interval, "10 s", &[], &[("commitlog_sync", "periodic")]),
            level(Durability::Each, "nothing", &[], &[("commitlog_sync", "batch")]),
        ],
        states: &[],
        server: Some(&cassandra::server::Cassandra),
        wire: Wire::Cassandra,
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("index", "sai")], &[("index", "none"), ("connections", "2")]],
            spread: &[("replicas", "2"), ("consistency", "all")],
            server: SMALL_HEAP,
            long: true,
        },
    },
    Store {
        name: "chdb",
        open: clickhouse::driver::open_chdb,
        options: clickhouse::driver::OPTIONS,
        durability: FSYNC,
        states: &[],
        server: Some(&chdb::server::Chdb),
        wire: Wire::Http,
        contract: Contract {
            variants: &[&[], &[("order", "timestamp"), ("fsync", "yes"), ("words", "yes")]],
            ..TABLE
        },
    },
    Store {
        name: "clickhouse",
        open: clickhouse::driver::open,
        options: clickhouse::driver::OPTIONS,
        durability: FSYNC,
        states: &[],
        server: Some(&clickhouse::server::ClickHouse),
        wire: Wire::Http,
        contract: Contract { variants: &[&[], &[("order", "timestamp:machine")]], ..TABLE },
    },
    Store {
        name: "elasticsearch",
        open: elasticsearch::driver::open,
        options: elasticsearch::driver::OPTIONS,
        durability: TRANSLOG,
        states: REQUEST_CACHE,
        server: Some(&elasticsearch::server::Elasticsearch),
        wire: Wire::Http,
        contract: Contract {
            variants: &[&[], &[("shards", "3"), ("refresh", "-1")], AUTO_IDS],
            spread: &[("shards", "2"), ("replicas", "1")],
            server: SMALL_HEAP,
            long: true,
            ..TABLE
        },
    },
    Store {
        name: "ferretdb",
        open: mongodb::driver::open_ferretdb,
        options: mongodb::driver::FERRETDB_OPTIONS,
        durability: &[
            level(Durability::Each, "nothing", &[], &[("backend", "postgresql")]),
            level(
                Durability::Each,
                "nothing",
                &[],
                &[("backend", "sqlite"), ("synchronous", "full")],
            ),
            level(
                Durability::None,
                "all since SQLite last merged its log into its file",
                &[],
                &[("backend", "sqlite"), ("synchronous", "normal")],
            ),
        ],
        states: &[],
        server: Some(&ferretdb::server::Ferretdb),
        wire: Wire::Json,
        contract: Contract { variants: &[&[], &[("database", "another")]], ..TABLE },
    },
    Store {
        name: "files",
        open: files::driver::open,
        options: files::driver::OPTIONS,
        durability: &[
            level(
                Durability::Interval,
                "about 30 s, until the system writes",
                &[("sync", "none")],
                &[],
            ),
            level(Durability::Each, "nothing", &[("sync", "each")], &[]),
        ],
        states: &[],
        server: Some(&files::server::Files),
        wire: Wire::Json,
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("sync", "each")]],
            long: false,
            ..TABLE
        },
    },
    Store {
        name: "flume",
        open: flume::server::open,
        options: collector::OPTIONS,
        durability: UNSYNCED,
        states: &[],
        server: Some(&flume::server::Flume),
        wire: Wire::Lines,
        contract: Contract { server: &[("heap", "512m")], long: true, ..STREAMS },
    },
    Store {
        name: "hbase",
        open: hbase::driver::open,
        options: hbase::driver::OPTIONS,
        // Of the local file system, which cannot be synced: the system writes it every 30 to 35 s.
        durability: &[
            level(Durability::Interval, "35 s", &[("wal", "sync")], &[]),
            level(Durability::Interval, "36 s", &[("wal", "async")], &[]),
            level(Durability::None, "all since the last flush", &[("wal", "skip")], &[]),
        ],
        states: &[],
        server: Some(&hbase::server::HBase),
        wire: Wire::Json,
        contract: Contract {
            variants: &[&[], &[("regions", "3"), ("wal", "async")]],
            spread: &[("regions", "2")],
            server: SMALL_HEAP,
            ..TABLE
        },
    },
    Store {
        name: "kafka",
        open: kafka::driver::open,
        options: kafka::driver::OPTIONS,
        durability: &[
            level(
                Durability::None,
                "what the system has not written by itself yet",
                &[],
                &[("flush_messages", "0")],
            ),
            level(Durability::Each, "nothing", &[], &[("flush_messages", "1")]),
        ],
        states: &[],
        server: Some(&kafka::server::Broker),
        wire: Wire::Kafka,
        contract: Contract {
            spread: &[("replicas", "2")],
            server: &[("heap", "512m")],
            long: true,
            ..STREAMS
        },
    },
    Store {
        name: "loginson",
        open: loginson::driver::open,
        options: loginson::driver::OPTIONS,
        durability: &[level(Durability::Each, "nothing", &[], &[])],
        states: &[
            ("seal", "yes", "Loaded data is sealed, as users have it after the first hours."),
            (
                "seal",
                "no",
                "Loaded data is not sealed on request, as users have that of the last minutes; the store seals full segments by itself.",
            ),
        ],
        server: Some(&loginson::server::Loginson),
        wire: Wire::Http,
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("time", "")]],
            long: false,
            ..TABLE
        },
    },
    Store {
        name: "mariadb",
        open: mysql::driver::open_mariadb,
        options: mysql::driver::OPTIONS,
        durability: INNODB,
        states: &[],
        server: Some(&mariadb::server::Mariadb),
        wire: Wire::Json,
        contract: Contract { variants: &[&[], &[("database", "another")]], ..TABLE },
    },
    Store {
        name: "mongodb",
        open: mongodb::driver::open,
        options: mongodb::driver::OPTIONS,
        durability: &[
            level(Durability::Each, "nothing", &[("journal", "on")], &[]),
            level(Durability::Interval, "0.1 s", &[("journal", "off")], &[]),
        ],
        states: &[],
        server: None,
        wire: Wire::Json,
        contract: Contract { variants: &[], long: false, ..TABLE },
    },
    Store {
        name: "mysql",
        open: mysql::driver::open,
        options: mysql::driver::OPTIONS,
        durability: INNODB,
        states: &[],
        server: Some(&mysql::server::Mysql),
        wire: Wire::Json,
        contract: Contract { variants: &[&[], &[("database", "another")]], ..TABLE },
    },
    Store {
        name: "opensearch",
        open: elasticsearch::driver::open,
        options: elasticsearch::driver::OPTIONS,
        durability: TRANSLOG,
        states: REQUEST_CACHE,
        server: Some(&opensearch::server::OpenSearch),
        wire: Wire::Http,
        contract: Contract {
            variants: &[&[], &[("shards", "3"), ("refresh", "-1")]],
            spread: &[("shards", "2"), ("replicas", "1")],
            server: SMALL_HEAP,
            ..TABLE
        },
    },
    Store {
        name: "postgres",
        open: postgres::driver::open,
        options: postgres::driver::OPTIONS,
        durability: &[
            level(Durability::Each, "nothing", &[("synchronous_commit", "on")], &[("fsync", "on")]),
            level(
                Durability::Interval,
                "0.6 s",
                &[("synchronous_commit", "off")],
                &[("fsync", "on")],
            ),
            level(
                Durability::None,
                "any number of rows, or the whole database",
                &[("synchronous_commit", "off")],
                &[("fsync", "off")],
            ),
        ],
        states: &[],
        server: Some(&postgres::server::Postgres),
        wire: Wire::Postgres,
        contract: Contract {
            variants: &[
                &[],
                &[("synchronous_commit", "off"), ("trigrams", "on"), ("time_index", "brin")],
            ],
            long: false,
            ..TABLE
        },
    },
    Store {
        name: "redis",
        open: redis::driver::open,
        options: redis::driver::OPTIONS,
        durability: &[
            level(Durability::None, "all since the last snapshot", &[], &[("appendonly", "no")]),
            level(
                Durability::Interval,
                "1 s",
                &[],
                &[("appendonly", "yes"), ("appendfsync", "everysec")],
            ),
            level(
                Durability::Each,
                "nothing",
                &[],
                &[("appendonly", "yes"), ("appendfsync", "always")],
            ),
        ],
        states: &[],
        server: Some(&redis::server::Redis),
        wire: Wire::Redis,
        contract: Contract { variants: &[&[], &[("scans", "off")]], long: false, ..TABLE },
    },
    Store {
        name: "rsyslog",
        open: rsyslog::server::open,
        options: collector::OPTIONS,
        durability: UNSYNCED,
        states: &[],
        server: Some(&rsyslog::server::Rsyslog),
        wire: Wire::Lines,
        contract: STREAMS,
    },
    Store {
        name: "syslog-ng",
        open: syslog_ng::server::open,
        options: collector::OPTIONS,
        durability: UNSYNCED,
        states: &[],
        server: Some(&syslog_ng::server::SyslogNg),
        wire: Wire::Lines,
        contract: STREAMS,
    },
    Store {
        name: "victorialogs",
        open: victorialogs::driver::open,
        options: victorialogs::driver::OPTIONS,
        durability: &[
            level(Durability::Interval, "11 s", &[], &[("flush_interval", "5s")]),
            level(Durability::Interval, "3 s", &[], &[("flush_interval", "1s")]),
        ],
        states: &[],
        server: Some(&victorialogs::server::VictoriaLogs),
        wire: Wire::Http,
        contract: Contract {
            ordered: false,
            variants: &[&[], &[("time", ""), ("stream", "")]],
            ..TABLE
        },
    },
    Store {
        name: "voltdb",
        open: voltdb::driver::open,
        options: voltdb::driver::OPTIONS,
        durability: &[level(Durability::None, "everything", &[], &[])],
        states: &[],
        server: Some(&voltdb::server::VoltDb),
        wire: Wire::Json,
        contract: Contract {
            server: &[("heap", "512m"), ("direct", "128m"), ("memory_gb", "2")],
            ..TABLE
        },
    },
];

impl Store {
    /// The level of this durability; `None` if the store has none such.
    pub fn level(&self, durability: Durability) -> Option<&'static Level> {
        self.durability.iter().find(|level| level.durability == durability)
    }

    /// The durability that these options of driver and server make; no options of a server for one
    /// that the lab did not start.
    pub fn promise(
        &self,
        driver: &BTreeMap<String, String>,
        server: Option<&BTreeMap<String, String>>,
    ) -> Option<Promise> {
        let known = self.server.map_or(&[][..], |server| server.options());
        let server = server.map(|given| (known, given));
        durability::promise(self.durability, (self.options, driver), server)
    }

    /// Sentences on the state in which a store with these options is measured.
    pub fn states(&self, driver: &BTreeMap<String, String>) -> Vec<String> {
        let value = |name: &str| {
            let default = self.options.iter().find(|option| option.name == name);
            driver.get(name).map(String::as_str).or(default.map(|option| option.default))
        };
        let of = self.states.iter().filter(|(name, set, _)| value(name) == Some(set));
        of.map(|(.., text)| (*text).to_owned()).collect()
    }
}

/// The store of this name.
pub fn find(name: &str) -> Result<&'static Store, OpenError> {
    let unknown = || OpenError::Unknown { name: name.to_owned(), known: names().join(", ") };
    all().into_iter().find(|store| store.name == name).ok_or_else(unknown)
}

/// The stores of [`STORES`], and those that were added.
pub fn all() -> Vec<&'static Store> {
    STORES.iter().chain(own::registry::added()).collect()
}

/// The names of all stores.
pub fn names() -> Vec<&'static str> {
    all().into_iter().map(|store| store.name).collect()
}

/// Adds a store of the user's own, given as `NAME=PROGRAM`: see `docs/lab/own-store.md`.
pub async fn add(text: &str) -> Result<&'static Store, String> {
    own::registry::add(text).await
}

/// The driver for `spec`; it connects when it is first used.
pub fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    (find(&spec.name)?.open)(spec)
}

/// The program through which the driver of this name reaches its store, if it does.
pub(crate) fn client(name: &str) -> Option<&'static Client> {
    match name {
        "hbase" => Some(&hbase::driver::CLIENT),
        "mariadb" | "mysql" => Some(&mysql::driver::CLIENT),
        "ferretdb" | "mongodb" => Some(&mongodb::driver::CLIENT),
        "voltdb" => Some(&voltdb::driver::CLIENT),
        _ => None,
    }
}

/// The servers of all stores, which live in `home`.
pub fn servers(home: Home) -> Servers {
    Servers::new(all().into_iter().filter_map(|store| store.server).collect(), open, home)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::isolation;

    fn spec(endpoints: &[&str]) -> StoreSpec {
        let endpoints = endpoints.iter().map(|e| (*e).to_owned()).collect();
        let (name, label) = ("store".to_owned(), "store".to_owned());
        StoreSpec { name, label, endpoints, options: BTreeMap::new() }
    }

    #[test]
    fn a_driver_needs_a_name_an_endpoint_and_options_that_it_has() {
        for store in STORES.iter().filter(|store| store.server.is_some()) {
            let name = store.name;
            let spec = StoreSpec { name: name.to_owned(), ..spec(&["127.0.0.1:1"]) };
            assert!(open(&spec).is_ok(), "{name}");
            let nowhere = StoreSpec { endpoints: Vec::new(), ..spec.clone() };
            assert!(matches!(open(&nowhere), Err(OpenError::NoEndpoint { .. })), "{name}");
            let mut other = spec.clone();
            other.options.insert("colour".to_owned(), "red".to_owned());
            assert!(matches!(open(&other), Err(OpenError::Option(_))), "{name}");
        }
        assert!(matches!(open(&spec(&["127.0.0.1:1"])), Err(OpenError::Unknown { .. })));
    }

    #[test]
    fn no_server_has_an_option_that_every_server_has() {
        for server in STORES.iter().filter_map(|store| store.server) {
            let own = server.options();
            let clash = isolation::OPTIONS.iter().find(|k| own.iter().any(|o| o.name == k.name));
            assert_eq!(clash, None, "{}", server.name());
        }
    }

    #[test]
    fn names_are_sorted_and_those_of_the_servers() {
        assert!(STORES.is_sorted_by_key(|store| store.name));
        for store in STORES {
            let server = store.server.map_or(store.name, |server| server.name());
            assert_eq!(server, store.name);
            assert_eq!(store.server.is_some(), !store.contract.variants.is_empty());
        }
    }

    #[test]
    fn every_store_has_a_durability_by_default_and_each_level_is_found_again() {
        for store in STORES.iter().filter(|store| store.server.is_some()) {
            let name = store.name;
            let none = BTreeMap::new();
            assert!(store.promise(&none, Some(&none)).is_some(), "{name}");
            // VoltDB's community edition has no log, VictoriaLogs writes at intervals, HBase
            // cannot sync a local file, and collectors leave that to the system.
            let durable = !["flume", "hbase", "rsyslog", "syslog-ng", "victorialogs", "voltdb"]
                .contains(&name);
            assert_eq!(store.level(Durability::Each).is_some(), durable, "{name} can be durable");
            for level in store.durability {
                let given = |pairs: OptionPairs| -> BTreeMap<String, String> {
                    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
                };
                let (driver, server) = (given(level.driver), given(level.server));
                let found = store.promise(&driver, Some(&server)).map(|found| found.durability);
                assert_eq!(found, Some(level.durability), "{name}");
                let known = store.server.map_or(&[][..], |server| server.options());
                let exists = |known: &[Known], name: &String| known.iter().any(|k| k.name == name);
                assert!(driver.keys().all(|option| exists(store.options, option)), "{name}");
                assert!(server.keys().all(|option| exists(known, option)), "{name}");
            }
            for (option, ..) in store.states {
                assert!(store.options.iter().any(|known| known.name == *option), "{name}");
            }
        }
    }
}
