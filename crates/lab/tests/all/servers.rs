//! The lab starts, finds, refuses and stops servers, tested with a real one: Redis, which is the
//! fastest. The contract of each driver tests that every other store starts and answers.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use lab::driver::{Answer, Operation};
use lab::row::{Column, ColumnKind, Row, Schema, Value};
use lab::servers::{self, Home, Logs, Say, ServerError, Servers, Signal};

/// Servers with their own data and with ports that no other test uses; they end with it.
struct Place {
    servers: Servers,
    port: u16,
    _ports: TcpListener,
    _directory: tempfile::TempDir,
}

/// The first of the ports: no server of the lab has its default port among them, the contract of
/// drivers uses others, and those that the system hands out are higher.
const PORTS: u16 = 10_000;

/// Ports of one test: one that is held for as long as the test runs, and those of its nodes.
const PORTS_EACH: u16 = 6;

/// Tests that may run at the same time on this machine.
const PLACES: u16 = 200;

/// Reserves ports against all other tests, also those of other processes: whoever listens on the
/// first port has the others. Returns the first port for nodes.
fn reserve_ports() -> (TcpListener, u16) {
    let held = (0..PLACES).map(|place| PORTS + place * PORTS_EACH).find_map(|port| {
        let listener = TcpListener::bind(("127.0.0.1", port)).ok()?;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        (port + 1..port + PORTS_EACH).all(is_free).then_some((listener, port + 1))
    });
    held.expect("free ports")
}

impl Place {
    fn new() -> Place {
        let usual = match std::env::var_os("LOGINSON_LAB_HOME") {
            Some(path) => Home::new(Path::new(&path)).unwrap(),
            None => Home::usual().expect("a home directory, or LOGINSON_LAB_HOME"),
        };
        let directory = tempfile::tempdir().unwrap();
        let servers = lab::stores::servers(usual.apart(directory.path()).unwrap());
        let (_ports, port) = reserve_ports();
        Place { servers, port, _ports, _directory: directory }
    }

    async fn start(
        &self,
        nodes: u32,
        more: &[(&str, &str)],
    ) -> Result<servers::Running, ServerError> {
        let mut options = BTreeMap::from([("port".to_owned(), self.port.to_string())]);
        options.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        self.servers.start("redis", nodes, &options, &say()).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let servers = self.servers.clone();
        let stop = move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let stop = async {
                let names = ["redis@cgroup", "redis@lxc", "redis@runc", "redis"];
                for name in names {
                    servers.stop(name, &say()).await?;
                }
                Ok::<_, ServerError>(())
            };
            runtime.block_on(stop)
        };
        // A second runtime needs a thread of its own: that of the test still exists.
        let stopped = std::thread::spawn(stop).join().expect("stops");
        assert!(stopped.is_ok() || std::thread::panicking(), "{stopped:?}");
    }
}

fn say() -> Say {
    Arc::new(|line: &str| println!("{line}"))
}

#[tokio::test]
async fn what_was_started_is_found_left_alone_and_stopped() {
    let place = Place::new();
    let started = place.start(2, &[]).await.unwrap();
    assert_eq!(started.pids().len(), 2);
    assert_eq!(
        started.spec().endpoints,
        [0, 1].map(|n| format!("127.0.0.1:{}", place.port + n)).to_vec()
    );
    let configuration = started.configuration();
    assert!(configuration.contains(&"maxmemory \"2gb\"".to_owned()), "{configuration:?}");
    assert!(started.data().iter().all(|directory| directory.is_dir()));

    assert!(!started.keeps_data, "without a log of changes it began empty");
    let again = place.start(2, &[]).await.unwrap();
    assert_eq!(again.nodes, started.nodes, "it runs as wanted");
    assert!(again.keeps_data, "what runs already has its data");
    let found = place.servers.running("redis").unwrap();
    assert_eq!(found.as_ref(), Some(&again), "another command finds it");
    for (nodes, options) in [(1, &[][..]), (3, &[]), (2, &[("appendonly", "yes")])] {
        let error = place.start(nodes, options).await.unwrap_err();
        assert!(matches!(error, ServerError::Different { .. }), "{error}");
    }
    assert_eq!(place.servers.running("redis").unwrap(), found, "a refusal stops nothing");

    place.servers.check_alive(&started).unwrap();
    let (node, process) = &started.nodes[1];
    assert!(process.signal(Signal::KILL));
    while process.alive() {
        tokio::task::yield_now().await;
    }
    let error = place.servers.check_alive(&started).unwrap_err().to_string();
    assert!(error.contains(&node.name) && error.contains("Ready to accept"), "{error}");

    place.servers.wipe("redis", Logs::Remove, &say()).await.unwrap();
    assert_eq!(place.servers.running("redis").unwrap(), None);
    assert!(started.pids().is_empty());
    assert!(started.data().iter().all(|directory| !directory.exists()));
    place.servers.stop("redis", &say()).await.unwrap();
}

/// Instances of one store run at the same time, in a control group and in containers, all within
/// the same limits.
#[tokio::test]
async fn instances_run_beside_each_other_within_their_limits() {
    if !rustix::process::geteuid().is_root() {
        println!("not tested: control groups and containers need root");
        return;
    }
    let place = Place::new();
    for (at, container) in ["cgroup", "lxc", "runc"].into_iter().enumerate() {
        let name = format!("redis@{container}");
        let given = [
            ("port", (place.port + at as u16).to_string()),
            ("container", container.to_owned()),
            ("cpus", "0.5".to_owned()),
            ("memory", "200m".to_owned()),
            ("cores", "0".to_owned()),
        ];
        let given: BTreeMap<String, String> =
            given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let started = place.servers.start(&name, 1, &given, &say()).await.unwrap();
        let again = place.servers.start(&name, 1, &given, &say()).await.unwrap();
        assert_eq!(again.nodes, started.nodes, "{name} runs as wanted");
        let spec = started.spec();
        assert_eq!((&*spec.name, &*spec.label, spec.server()), ("redis", &*name, &*name));
        assert!(!lab::stores::open(&spec).unwrap().version().await.unwrap().is_empty());
        let configuration = started.configuration();
        assert!(configuration.contains(&"memory: 200m".to_owned()), "{configuration:?}");
        let pids = started.pids();
        let status = |pid: &u32, name: &str| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let server = pids.iter().find(|pid| status(pid, "Name:")[0].starts_with("redis")).unwrap();
        assert_eq!(status(server, "Cpus_allowed_list:"), ["0"], "{name}");
        // Its number within a container is another one.
        assert_eq!(status(server, "NSpid:").len() > 1, container != "cgroup", "{name}");
        let groups = std::fs::read_to_string(format!("/proc/{server}/cgroup")).unwrap();
        assert!(groups.contains("loginson-lab-"), "{name}: {groups}");
        let other = BTreeMap::from([("container".to_owned(), "none".to_owned())]);
        let error = place.servers.start(&name, 1, &other, &say()).await.unwrap_err();
        assert!(matches!(error, ServerError::Different { .. }), "{error}");
    }
    for container in ["cgroup", "lxc", "runc"] {
        let name = format!("redis@{container}");
        let running = place.servers.running(&name).unwrap().expect("the other was started");
        let pids = running.pids();
        if container == "runc" {
            // Its monitor leaves the container behind.
            assert!(running.nodes[0].1.signal(Signal::KILL));
        }
        place.servers.wipe(&name, Logs::Remove, &say()).await.unwrap();
        assert!(pids.iter().all(|pid| servers::Process::of(*pid).is_none_or(|p| !p.alive())));
        assert_eq!(place.servers.running(&name).unwrap(), None);
    }
}

#[tokio::test]
async fn data_is_there_after_a_stop() {
    let place = Place::new();
    let started = place.start(1, &[("appendonly", "yes")]).await.unwrap();
    let bytes = || -> u64 {
        started.data().iter().map(|path| lab::measure::directory_bytes(path).unwrap()).sum()
    };
    let before = bytes();
    place.servers.stop("redis", &say()).await.unwrap();
    assert!(before > 0 && bytes() >= before);
    place.start(1, &[("appendonly", "yes")]).await.unwrap();
}

/// The number of rows, of five that were acknowledged, that are there after the server was killed
/// on a disk that forgets what was not synced.
async fn rows_after_power_loss(appendfsync: &str) -> usize {
    let place = Place::new();
    let options = [("appendonly", "yes"), ("appendfsync", appendfsync), ("disk", "forgetful")];
    let started = place.start(1, &options).await.unwrap();
    let columns = vec![Column::new("value", ColumnKind::Integer, false)];
    let schema = Schema { table: "rows".to_owned(), key: ColumnKind::Integer, columns };
    let driver = lab::stores::open(&started.spec()).unwrap();
    driver.create(&schema).await.unwrap();
    let mut session = driver.connect(&schema).await.unwrap();
    for key in 0..5 {
        let row = Row { key: Value::Integer(key), values: vec![Value::Integer(-key)] };
        session.execute(&Operation::Insert(row)).await.unwrap();
    }
    let (_, process) = &started.nodes[0];
    assert!(process.signal(Signal::KILL));
    while process.alive() {
        tokio::task::yield_now().await;
    }
    place.servers.stop("redis", &say()).await.unwrap();
    let again = place.start(1, &options).await.unwrap();
    let driver = lab::stores::open(&again.spec()).unwrap();
    let mut session = driver.connect(&schema).await.unwrap();
    let mut found = 0;
    for key in (0..5).map(Value::Integer) {
        let answer = session.execute(&Operation::Read { key }).await.unwrap();
        found += usize::from(matches!(answer, Answer::Row(Some(_))));
    }
    found
}

#[tokio::test]
async fn a_forgetful_disk_tells_what_was_synced_from_what_was_acknowledged() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("not tested: a file system in user space needs root and FUSE");
        return;
    }
    assert_eq!(rows_after_power_loss("always").await, 5);
    assert_eq!(rows_after_power_loss("no").await, 0);
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_leaves_nothing() {
    let place = Place::new();
    let error = place.start(1, &[("maxmemory", "much")]).await.unwrap_err();
    assert!(matches!(error, ServerError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("maxmemory"), "the end of its log: {error}");
    assert_eq!(place.servers.running("redis").unwrap(), None);

    let taken = TcpListener::bind(("127.0.0.1", place.port + 1)).unwrap();
    let error = place.start(2, &[]).await.unwrap_err();
    assert!(matches!(error, ServerError::Port { .. }), "{error}");
    assert!(error.to_string().contains("--set port"), "{error}");
    assert_eq!(place.servers.running("redis").unwrap(), None, "not even the first");
    drop(taken);
    place.start(2, &[]).await.unwrap();
}

#[tokio::test]
async fn what_there_is_not_is_named() {
    let place = Place::new();
    for nodes in [0, servers::NODES_MAX + 1] {
        let error = place.start(nodes, &[]).await.unwrap_err();
        assert!(matches!(error, ServerError::Nodes { .. }), "{error}");
    }
    let error = place.start(1, &[("colour", "red")]).await.unwrap_err().to_string();
    assert!(error.contains("maxmemory"), "names the options there are: {error}");
    let none = place.servers.start("paper", 1, &BTreeMap::new(), &say()).await;
    assert!(none.unwrap_err().to_string().contains("redis"));
}
