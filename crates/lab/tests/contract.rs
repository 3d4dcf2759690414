//! Every driver fulfils the same contract with its real server: data is returned byte for byte,
//! counts equal those of a reference model, undeclared operations are refused, and a dead store is
//! reported. Each test starts the servers of its store with their own data, addresses and ports,
//! and stops them even if it fails.

#[path = "contract/checks.rs"]
mod checks;
#[path = "contract/table.rs"]
mod table;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use checks::Subject;
use lab::driver::StoreSpec;
use lab::servers::{self, Home, Running, Say, Signal};

/// A driver, and the parameters of its contract.
struct Case {
    name: &'static str,
    /// Whether scans follow the order of keys.
    ordered: bool,
    /// Sets of options of the driver, each of which has to fulfil the contract; the first on one
    /// node, the others together with it.
    variants: &'static [&'static [(&'static str, &'static str)]],
    /// Options of the driver on two nodes or shards; `None` if it can have only one.
    spread: Option<&'static [(&'static str, &'static str)]>,
    /// Options of the server.
    server: &'static [(&'static str, &'static str)],
}

#[test]
fn elasticsearch() {
    check(&Case {
        name: "elasticsearch",
        ordered: true,
        variants: &[&[], &[("shards", "3"), ("refresh", "-1")]],
        spread: Some(&[("shards", "2"), ("replicas", "1")]),
        server: &[("heap", "512m"), ("direct", "128m")],
    });
}

#[test]
fn cassandra() {
    check(&Case {
        name: "cassandra",
        ordered: false,
        variants: &[&[], &[("index", "sai")], &[("index", "none"), ("connections", "2")]],
        spread: Some(&[("replicas", "2"), ("consistency", "all")]),
        server: &[("heap", "512m"), ("direct", "128m")],
    });
}

#[test]
fn postgres() {
    check(&Case {
        name: "postgres",
        ordered: true,
        variants: &[&[], &[("synchronous_commit", "off")]],
        spread: Some(&[]),
        server: &[],
    });
}

#[test]
fn redis() {
    check(&Case {
        name: "redis",
        ordered: true,
        variants: &[&[], &[("scans", "off")]],
        spread: Some(&[]),
        server: &[],
    });
}

#[test]
fn loginson() {
    check(&Case {
        name: "loginson",
        ordered: false,
        variants: &[&[], &[("time", "")]],
        spread: Some(&[]),
        server: &[],
    });
}

/// One store at a time, so that they do not compete for two processors.
static TURN: Mutex<()> = Mutex::new(());

fn check(case: &Case) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = Store::new(case);
    runtime.block_on(store.wipe());
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(store.check())));
    runtime.block_on(store.wipe());
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// The servers of one case.
struct Store<'a> {
    case: &'a Case,
    home: Home,
    seed: u64,
}

impl Store<'_> {
    fn new(case: &Case) -> Store<'_> {
        let usual = match std::env::var_os("LOGINSON_LAB_HOME") {
            Some(path) => Home::new(Path::new(&path)).expect("a directory"),
            None => Home::usual().expect("a home directory, or LOGINSON_LAB_HOME"),
        };
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
        let seed = fastrand::u64(..u64::MAX / 2);
        println!("{}: seed {seed}", case.name);
        Store { case, home: usual.apart(&own).expect("a directory"), seed }
    }

    async fn check(&self) {
        let running = self.start(1).await;
        let spec = self.spec(&running, &[]);
        checks::refuses_wrong_specs(&spec);
        checks::refuses_wrong_places(&spec, closed_port()).await;
        for options in self.case.variants {
            println!("{} with {options:?}", self.case.name);
            self.subject(&running, options, Subject::keeps_the_contract).await;
        }
        self.dies(&running).await;
        if let Some(options) = self.case.spread {
            self.wipe().await;
            let running = self.start(2).await;
            println!("{} on two nodes with {options:?}", self.case.name);
            self.subject(&running, options, Subject::spreads_over_nodes).await;
        }
    }

    async fn subject(
        &self,
        running: &Running,
        options: &[(&str, &str)],
        check: impl AsyncFnOnce(&Subject),
    ) {
        let driver = lab::driver::open(&self.spec(running, options)).expect("opens");
        check(&Subject { driver, ordered: self.case.ordered, seed: self.seed }).await;
    }

    async fn dies(&self, running: &Running) {
        let kill = || {
            for process in running.pids().into_iter().filter_map(servers::Process::of) {
                process.signal(Signal::KILL);
            }
        };
        let options = [("timeout_s", "10")];
        let check = async |subject: &Subject| subject.tells_that_the_store_died(kill).await;
        self.subject(running, &options, check).await;
    }

    fn spec(&self, running: &Running, options: &[(&str, &str)]) -> StoreSpec {
        let mut spec = running.spec();
        spec.options.extend(pairs(options));
        spec
    }

    async fn start(&self, nodes: u32) -> Running {
        let mut options = pairs(self.case.server);
        options.extend(addresses(self.case.name));
        let started = servers::start(&self.home, self.case.name, nodes, &options, &say()).await;
        started.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn wipe(&self) {
        servers::wipe(&self.home, self.case.name, &say()).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

fn say() -> Say {
    Arc::new(|line: &str| println!("  {line}"))
}

fn pairs(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Addresses for this process alone, below the ports that the system assigns: other runs of the
/// tests, and servers that are being measured, may run at the same time.
fn addresses(name: &str) -> BTreeMap<String, String> {
    let id = std::process::id();
    let port = 20_000 + id % 500 * 20;
    let mut options = BTreeMap::from([("port".to_owned(), port.to_string())]);
    let mut set = |option: &str, value: String| options.insert(option.to_owned(), value);
    match name {
        "elasticsearch" => {
            set("transport_port", (port + 10).to_string());
        }
        "cassandra" => {
            set("address", format!("127.{}.{}.1", 10 + id % 200, id / 200 % 250));
            set("storage_port", (port + 1).to_string());
            set("jmx_port", (port + 10).to_string());
        }
        _ => {}
    }
    options
}

/// An address where nothing listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").to_string()
}
