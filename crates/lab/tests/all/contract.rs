//! Every driver keeps the same contract against its real server: what is written comes back byte
//! for byte, counts are those of a reference model, what is not declared is refused, and a store
//! that dies is reported. Servers have data, addresses and ports of this test alone, and are
//! stopped also where it fails. `CONTRACT_STORES=redis,postgres` tests only the named stores, and
//! `CONTRACT_PROGRAM=mine=./mine.py` a store of the user's own.

mod checks;
mod table;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use self::checks::Subject;
use lab::driver::StoreSpec;
use lab::servers::{Home, Logs, Process, Running, Say, Servers, Signal};
use lab::stores::{Store, all, servers};

#[test]
fn every_store_keeps_its_contract() {
    // A store that runs in a Java virtual machine has options for it. One of these fits beside one
    // of the others: stores are tested by their answers, not by how they share the processors.
    let is_heavy = |store: &&Store| !store.contract.server.is_empty();
    // `CONTRACT_STORES=postgres,redis` tests these, `usual` all but those of long tests, `all` all.
    let only = std::env::var("CONTRACT_STORES").ok();
    let wanted = |store: &Store| match only.as_deref() {
        None | Some("usual") => !store.contract.long,
        Some("all") => true,
        Some(only) => only.split(',').any(|name| name == store.name),
    };
    // The example of the documents is always tested; a store of the user's own alone.
    let example = "../../docs/lab/sqlite.py";
    let program = std::env::var("CONTRACT_PROGRAM").ok();
    let own = program.clone().unwrap_or_else(|| format!("sqlite={example}"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let own = runtime.block_on(lab::stores::add(&own)).unwrap_or_else(|why| panic!("{why}"));
    let wanted = |store: &Store| match program {
        Some(_) => store.name == own.name,
        None => wanted(store),
    };
    let tested = || all().into_iter().filter(|store| store.server.is_some() && wanted(store));
    let (heavy, light): (Vec<&Store>, Vec<&Store>) = tested().partition(is_heavy);
    let failed: Vec<&str> = std::thread::scope(|scope| {
        let halves = [heavy, light].map(|stores| scope.spawn(|| failing(stores)));
        halves.into_iter().flat_map(|half| half.join().expect("panics are caught")).collect()
    });
    assert!(failed.is_empty(), "see above what {failed:?} did");
}

/// Checks stores one after the other; the names of those that do not keep the contract.
fn failing(stores: Vec<&Store>) -> Vec<&'static str> {
    stores.into_iter().filter(|store| !keeps(store)).map(|store| store.name).collect()
}

fn keeps(store: &Store) -> bool {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let tested = Tested::new(store);
    runtime.block_on(tested.wipe());
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(tested.check())));
    runtime.block_on(tested.wipe());
    println!("{}: {}", store.name, if result.is_ok() { "ok" } else { "failed" });
    result.is_ok()
}

/// A store, and the directory of its servers.
struct Tested<'a> {
    store: &'a Store,
    servers: Servers,
    seed: u64,
}

impl Tested<'_> {
    fn new(store: &Store) -> Tested<'_> {
        let usual = match std::env::var_os("LOGINSON_LAB_HOME") {
            Some(path) => Home::new(Path::new(&path)).expect("a directory"),
            None => Home::usual().expect("a home directory, or LOGINSON_LAB_HOME"),
        };
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contract");
        let seed = fastrand::u64(..u64::MAX / 2);
        println!("{}: seed {seed}", store.name);
        Tested { store, servers: servers(usual.apart(&own).expect("a directory")), seed }
    }

    async fn check(&self) {
        let running = self.start(1).await;
        let spec = self.spec(&running, &[]);
        checks::refuses_wrong_specs(&spec);
        checks::refuses_wrong_places(&spec, closed_port()).await;
        for options in self.store.contract.variants {
            println!("{} with {options:?}", self.store.name);
            self.subject(&running, options, Subject::keeps_the_contract).await;
        }
        self.dies(&running).await;
        self.wipe().await;
        let running = self.start(2).await;
        let options = self.store.contract.spread;
        println!("{} on two nodes with {options:?}", self.store.name);
        self.subject(&running, options, Subject::spreads_over_nodes).await;
    }

    async fn subject(
        &self,
        running: &Running,
        options: &[(&str, &str)],
        check: impl AsyncFnOnce(&Subject),
    ) {
        let driver = lab::stores::open(&self.spec(running, options)).expect("opens");
        check(&Subject { driver, ordered: self.store.contract.ordered, seed: self.seed }).await;
    }

    async fn dies(&self, running: &Running) {
        let kill = || {
            for process in running.pids().into_iter().filter_map(Process::of) {
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
        let mut options = pairs(self.store.contract.server);
        options.extend(addresses(self.store));
        let started = self.servers.start(self.store.name, nodes, &options, &say()).await;
        started.unwrap_or_else(|e| panic!("{e}"))
    }

    async fn wipe(&self) {
        self.servers
            .wipe(self.store.name, Logs::Remove, &say())
            .await
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

fn say() -> Say {
    Arc::new(|line: &str| println!("  {line}"))
}

fn pairs(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Addresses of this process alone, below the ports that the system hands out: two runs of the
/// tests may be beside each other, and beside servers that somebody measures. A server of several
/// ports has each at a distance of ten, which leaves room for those of further nodes.
fn addresses(store: &Store) -> BTreeMap<String, String> {
    let id = std::process::id();
    let place = all().iter().position(|other| other.name == store.name).expect("in the table");
    let mut port = 20_000 + id % 20 * 600 + 30 * place as u32;
    let mut options = BTreeMap::new();
    for known in store.server.expect("is tested").options() {
        if known.name == "address" {
            let address = format!("127.{}.{}.{}", 10 + id % 200, id / 200 % 250, 1 + 10 * place);
            options.insert(known.name.to_owned(), address);
        } else if known.name.ends_with("port") {
            options.insert(known.name.to_owned(), port.to_string());
            port += 10;
        }
    }
    options
}

/// An address where nothing listens.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").to_string()
}
