//! Collectors and stores as separate processes: what happens when one is killed, the network is
//! cut, or a disk is full.
//!
//! Every line has a number; at the end, each line that was sent is in the stores once.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Port, Server, encoded, loginson, request_to};
use serde_json::Value;

/// Lines that the sender of a test writes at once.
pub const BATCH: u64 = 200;

/// A running `loginson collect`. Killed when dropped.
pub struct Collector {
    child: Child,
    pub http: String,
    pub syslog: SocketAddr,
}

impl Collector {
    pub fn start(spool: &Path, stores: &[&str], arguments: &[&str]) -> Collector {
        Collector::launch(loginson(&["collect"]), spool, stores, arguments)
    }

    fn launch(
        mut command: Command,
        spool: &Path,
        stores: &[&str],
        arguments: &[&str],
    ) -> Collector {
        let ready = tempfile::tempdir().unwrap();
        let file = ready.path().join("ready");
        for listen in ["--http-listen", "--syslog-tcp-listen", "--syslog-udp-listen"] {
            command.args([listen, "127.0.0.1:0"]);
        }
        command.args(stores.iter().map(|store| format!("--store={store}")));
        command.arg("--spool-dir").arg(spool).arg("--ready-file").arg(&file).args(arguments);
        let mut child = command.stdin(Stdio::null()).spawn().expect("the binary starts");
        let started = Instant::now();
        while !file.exists() {
            assert!(started.elapsed() < PATIENCE, "the collector starts");
            assert_eq!(child.try_wait().unwrap(), None, "the collector ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        let addresses: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let http = addresses["http"].as_str().unwrap().to_owned();
        let syslog = addresses["syslog_tcp"].as_str().unwrap().parse().unwrap();
        Collector { child, http, syslog }
    }

    fn nodes(&self) -> Value {
        request_to(&self.http, "GET", "/api/v1/nodes", &[], b"").expect("it answers").json()
    }

    /// Lines received, and lines safe in a store or the spool.
    fn lines(&self) -> (u64, u64) {
        let nodes = self.nodes();
        let mut sources = nodes["ingest"].as_array().unwrap().iter();
        let source = sources.find(|source| source["source"] == "syslog_tcp").unwrap();
        (source["lines_received"].as_u64().unwrap(), source["lines_kept"].as_u64().unwrap())
    }

    pub fn wait_for(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) {
        let started = Instant::now();
        loop {
            let nodes = self.nodes();
            if holds(&nodes) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "waited too long for: {what}: {nodes}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the stores have all lines.
    pub fn wait_delivered(&self, lines: u64) {
        self.wait_for("everything to be delivered", |nodes| {
            let busy = nodes["stores"]
                .as_array()
                .unwrap()
                .iter()
                .any(|store| store["bytes_in_memory"] != 0 || store["bytes_spooled"] != 0);
            self.lines().1 >= lines
                && !busy
                && nodes["spool"]["lines"] == 0
                && nodes["waiting_bytes"] == 0
        });
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was started here");
    }

    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn state(nodes: &Value, store: usize) -> &str {
    nodes["stores"][store]["state"].as_str().unwrap()
}

/// A store over a directory, at a port that it keeps when it restarts.
pub struct Store {
    pub dir: PathBuf,
    pub address: String,
    pub server: Server,
    _ports: [Port; 2],
}

impl Store {
    pub fn start(dir: &Path) -> Store {
        let ports = [Port::take(), Port::take()];
        let [http, address] = [&ports[0], &ports[1]].map(Port::address);
        let server = Server::start_in_at(dir, &http, &["--node-listen", &address]);
        Store { dir: dir.to_owned(), address, server, _ports: ports }
    }

    /// Starts it at all addresses that it had.
    pub fn start_where_it_was(&mut self) {
        let arguments = ["--node-listen", &self.address];
        self.server = Server::start_in_at(&self.dir, &self.server.http.clone(), &arguments);
    }

    fn start_again(&mut self, config: &str) {
        let address = self.address.clone();
        self.server = Server::start_in(&self.dir, &["--node-listen", &address], config);
    }
}

/// How often each number was found.
fn found(stores: &[&Server]) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for store in stores {
        for line in store.raw("app_name:=numbers") {
            let line = String::from_utf8(line).unwrap();
            let number = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            *found.entry(number).or_default() += 1;
        }
    }
    found
}

pub fn assert_each_once(stores: &[&Server], sent: u64) {
    let found = found(stores);
    let twice = found.iter().filter(|(_, times)| **times > 1).count();
    let missing = (0..sent).filter(|number| !found.contains_key(number)).count();
    assert_eq!((twice, missing, found.len() as u64), (0, 0, sent), "twice, missing, there");
}

/// Sends numbered lines until it is stopped.
pub struct Sender {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    sent: Arc<AtomicU64>,
}

pub fn send_batch(stream: &mut TcpStream, first: u64) {
    let mut text = String::new();
    for number in first..first + BATCH {
        let padding = "x".repeat((number % 190) as usize);
        text.push_str(&format!("<14>Oct 11 22:14:15 host numbers: {padding} {number}\n"));
    }
    stream.write_all(text.as_bytes()).expect("the collector listens");
}

impl Sender {
    fn start(collector: &Collector) -> Sender {
        Sender::start_at(collector, 0)
    }

    /// Sends numbers from `first` on.
    pub fn start_at(collector: &Collector, first: u64) -> Sender {
        let mut stream = TcpStream::connect(collector.syslog).unwrap();
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(first)));
        let (until, count) = (Arc::clone(&over), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                send_batch(&mut stream, count.load(Ordering::Relaxed));
                count.fetch_add(BATCH, Ordering::Relaxed);
                // Limited, so that the test ends with a few hundred thousand lines.
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Sender { over, thread, sent }
    }

    pub fn wait_for_more(&self, lines: u64) {
        let until = self.sent.load(Ordering::Relaxed) + lines;
        while self.sent.load(Ordering::Relaxed) < until {
            assert!(!self.thread.is_finished(), "the sender failed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

#[test]
fn a_store_is_killed_and_restarted_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::start(&dir.path().join("store"));
    let collector = Collector::start(&dir.path().join("spool"), &[&store.address], &[]);
    let sender = Sender::start(&collector);
    for _ in 0..3 {
        sender.wait_for_more(5_000);
        store.server.kill();
        collector.wait_for("the loss of the store", |nodes| state(nodes, 0) == "away");
        sender.wait_for_more(5_000);
        store.start_again("");
        collector.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    }
    let sent = sender.end();
    collector.wait_delivered(sent);
    assert_each_once(&[&store.server], sent);
    let seen = store.server.get("/api/v1/nodes").json();
    assert_eq!(seen["collectors"][0]["node"], collector.nodes()["node"]);
    let metrics = store.server.get("/metrics").text();
    assert!(metrics.contains("loginson_lines_kept_total{source=\"node\"}"), "{metrics}");
}

#[test]
fn of_two_stores_one_dies_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let first = Store::start(&dir.path().join("first"));
    let mut second = Store::start(&dir.path().join("second"));
    let addresses = [first.address.as_str(), second.address.as_str()];
    let collector = Collector::start(&dir.path().join("spool"), &addresses, &[]);
    collector
        .wait_for("both stores", |nodes| (0..2).all(|store| state(nodes, store) == "connected"));
    let sender = Sender::start(&collector);
    sender.wait_for_more(20_000);
    second.server.kill();
    sender.wait_for_more(20_000);
    collector.wait_for("the loss of one", |nodes| {
        state(nodes, 0) == "connected" && state(nodes, 1) == "away"
    });
    second.start_again("");
    collector.wait_for("both stores again", |nodes| state(nodes, 1) == "connected");
    sender.wait_for_more(40_000);
    let sent = sender.end();
    collector.wait_delivered(sent);
    assert_each_once(&[&first.server, &second.server], sent);
    for store in [&first, &second] {
        let share = store.server.count("app_name:=numbers");
        assert!(share > sent / 20, "{share} of {sent} lines are at {}", store.address);
    }
}

/// The lines that a store alone has, by id.
pub fn ids(store: &Server) -> BTreeMap<String, String> {
    let query = encoded("app_name:=numbers | fields _line_id, _msg");
    let answer = store.get(&format!("/api/v1/export?format=jsonl&query={query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = |row: &Value, field: &str| row[field].as_str().expect("each row has it").to_owned();
    answer.rows().iter().map(|row| (text(row, "_line_id"), text(row, "_msg"))).collect()
}

#[test]
fn two_copies_are_equal_though_a_store_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Store::start(&dir.path().join("first"));
    let second = Store::start(&dir.path().join("second"));
    let copies = ["--copy", &first.address, "--copy", &second.address];
    let collector = Collector::start(&dir.path().join("spool"), &[], &copies);
    let copies = format!("copies = [['{}'], ['{}']]", first.server.http, second.server.http);
    let query = Server::start_with(&[], &format!("[stores]\n{copies}\n"));
    collector.wait_for("both copies", |nodes| (0..2).all(|copy| state(nodes, copy) == "connected"));
    let mut stream = TcpStream::connect(collector.syslog).unwrap();
    let mut sent = 0;
    let mut send = |batches: u64| {
        for _ in 0..batches {
            send_batch(&mut stream, sent);
            sent += BATCH;
        }
        sent
    };
    for _ in 0..2 {
        send(20);
        first.server.kill();
        send(20);
        collector.wait_for("the loss of a copy", |nodes| {
            state(nodes, 0) == "away" && nodes["copies"]["lines_single"].as_u64() >= Some(BATCH)
        });
        let all = send(5);
        query.wait_for("all lines from the other copy", |query| {
            query.count("app_name:=numbers") == all
        });
        first.start_again("");
        collector.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    }
    let sent = send(20);
    collector.wait_delivered(sent);
    for store in [&first.server, &second.server] {
        assert_each_once(&[store], sent);
    }
    let (of_first, of_second) = (ids(&first.server), ids(&second.server));
    assert_eq!(of_first.len() as u64, sent);
    assert!(of_first == of_second, "a line has one id in both copies");
    let nodes = collector.nodes();
    assert_eq!(nodes["copies"]["lines_single"], 0);
    assert_eq!(nodes["copies"]["lines_missing"], serde_json::json!([0, 0]));
    assert_eq!((&nodes["stores"][0]["copy"], &nodes["stores"][1]["copy"]), (&1.into(), &2.into()));
    let metrics = request_to(&collector.http, "GET", "/metrics", &[], b"").unwrap().text();
    assert!(metrics.contains("loginson_copies_lines_single 0"), "{metrics}");
    assert!(metrics.contains("loginson_copy_lines_missing{copy=\"2\"} 0"), "{metrics}");

    let compare = |more: &[&str]| {
        let copies = ["--copy", &first.server.http, "--copy", &second.server.http];
        let output = loginson(&[&["compare-copies"], &copies[..], more].concat()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = compare(&["--ids"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("the copies are equal: {sent} lines")), "{text}");
    let line = b"{\"_time\":\"2026-01-31T12:10:00Z\",\"_msg\":\"of one copy\"}\n";
    assert_eq!(second.server.post("/insert/jsonline", line).status, 200);
    let (code, text) = compare(&[]);
    assert_eq!(code, Some(1), "{text}");
    let expected = "2026-01-31T12:00:00Z: 0 lines in copy 1, 1 in copy 2\n  node ";
    assert!(text.contains(expected) && text.contains("differ in 1 of"), "{text}");
}

#[test]
fn a_collector_is_stopped_and_killed_while_the_store_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::start(&dir.path().join("store"));
    let spool = dir.path().join("spool");
    let always = ["--spool", "always"];
    let mut next = 0;
    let send = |collector: &Collector, next: &mut u64| {
        let mut stream = TcpStream::connect(collector.syslog).unwrap();
        for _ in 0..20 {
            send_batch(&mut stream, *next);
            *next += BATCH;
        }
    };
    // After an orderly stop nothing is lost, wherever it was.
    let mut collector = Collector::start(&spool, &[&store.address], &[]);
    collector.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    send(&collector, &mut next);
    collector.wait_for("lines", |_| collector.lines().0 >= next);
    store.server.kill();
    let before = next;
    send(&collector, &mut next);
    collector.wait_for("lines", |_| collector.lines().0 >= 2 * before);
    collector.terminate();
    // Killed, after everything is in the spool.
    let mut collector = Collector::start(&spool, &[&store.address], &always);
    let waiting = collector.nodes()["spool"]["lines"].as_u64().unwrap();
    assert!(waiting >= before, "{waiting} lines wait on disk");
    let before = next;
    send(&collector, &mut next);
    collector.wait_for("lines on disk", |_| collector.lines().1 >= next - before);
    collector.kill();
    store.start_again("");
    let mut collector = Collector::start(&spool, &[&store.address], &always);
    let before = next;
    send(&collector, &mut next);
    collector.wait_for("lines on disk", |_| collector.lines().1 >= next - before);
    collector.kill();
    let collector = Collector::start(&spool, &[&store.address], &[]);
    collector.wait_delivered(0);
    assert_each_once(&[&store.server], next);
}

#[test]
fn the_disk_of_the_store_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::start(&dir.path().join("store"));
    store.server.kill();
    let full = "[store]\ndisk_free_bytes_min = '1000TiB'\n";
    store.start_again(full);
    let collector = Collector::start(&dir.path().join("spool"), &[&store.address], &[]);
    let sender = Sender::start(&collector);
    collector.wait_for("the store to say that it is full", |nodes| state(nodes, 0) == "disk_full");
    sender.wait_for_more(5_000);
    store.server.terminate();
    store.start_again("");
    let sent = sender.end();
    collector.wait_delivered(sent);
    assert_each_once(&[&store.server], sent);
}

/// Runs a function when it is dropped, whether the test passed or failed.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// A store in a network namespace of its own, whose link is cut.
#[test]
fn the_network_is_cut_and_comes_back() {
    let name = format!("lgn{}", std::process::id());
    let ip = |arguments: &str| {
        Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status().ok()
    };
    let done = |arguments: &str| ip(arguments).is_some_and(|status| status.success());
    if !done(&format!("netns add {name}")) {
        eprintln!("skipped: network namespaces need root and iproute2 (scripts/test-deps.sh)");
        return;
    }
    let _namespace = AtEnd(|| {
        done(&format!("netns del {name}"));
    });
    // Two addresses of the range for network benchmarks (RFC 2544), for this process alone.
    let id = std::process::id();
    let network = format!("198.{}.{}", 18 + (id >> 14) % 2, (id >> 6) % 256);
    let [here, there] = [1, 2].map(|host| format!("{network}.{}", (id % 64) * 4 + host));
    let (outside, inside) = (format!("{name}a"), format!("{name}b"));
    for step in [
        format!("link add {outside} type veth peer name {inside} netns {name}"),
        format!("addr add {here}/30 dev {outside}"),
        format!("link set {outside} up"),
        format!("-n {name} addr add {there}/30 dev {inside}"),
        format!("-n {name} link set {inside} up"),
        format!("-n {name} link set lo up"),
    ] {
        assert!(done(&step), "ip {step}");
    }
    let (http, node) = (format!("{there}:9514"), format!("{there}:9515"));
    let dir = tempfile::tempdir().unwrap();
    // The store is in the namespace, and the collector where the test can reach it.
    let program = loginson(&[]).get_program().to_owned();
    let mut store = Command::new("ip");
    // Not on loopback: a secret is required.
    let secret = ("LOGINSON_NODE_SECRET", "a secret of this test");
    store.env(secret.0, secret.1);
    store.args(["netns", "exec", &name]).arg(program);
    store.args(["serve", "--http-listen", &http, "--node-listen", &node]);
    store.args(["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off", "--data-dir"]);
    let store = store.arg(dir.path().join("store")).stdin(Stdio::null()).spawn().unwrap();
    let store = std::cell::RefCell::new(store);
    let _store = AtEnd(|| {
        let _ = store.borrow_mut().kill();
        let _ = store.borrow_mut().wait();
    });
    let mut command = loginson(&["collect"]);
    command.env(secret.0, secret.1);
    let collector = Collector::launch(command, &dir.path().join("spool"), &[&node], &[]);
    collector.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    let sender = Sender::start(&collector);
    for is_long in [false, true] {
        sender.wait_for_more(5_000);
        assert!(done(&format!("link set {outside} down")));
        // TCP survives a short cut; a long one ends the connection.
        if is_long {
            collector.wait_for("the cut", |nodes| state(nodes, 0) != "connected");
        } else {
            std::thread::sleep(Duration::from_secs(2));
        }
        assert!(done(&format!("link set {outside} up")));
        collector.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    }
    assert!(collector.nodes()["stores"][0]["connects"].as_u64() >= Some(2));
    let sent = sender.end();
    collector.wait_delivered(sent);
    let query = "/select/logsql/query?query=app_name:=numbers&format=raw";
    let answer = request_to(&http, "GET", query, &[], b"").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let mut numbers: Vec<u64> =
        text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..sent), "each of {sent} once, {} found", numbers.len());
}

#[test]
fn wrong_protocols_are_refused_with_the_right_port() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::start(&dir.path().join("store"));
    let answer = request_to(&store.address, "GET", "/", &[], b"").unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("http_listen"), "{}", answer.text());
    let collector = Collector::start(&dir.path().join("spool"), &[&store.server.http], &[]);
    collector.wait_for("an error", |nodes| {
        let error = nodes["stores"][0]["error"].as_str().unwrap_or_default();
        error.contains("not that of http_listen")
    });
}

#[test]
fn a_copied_spool_directory_and_a_store_named_twice_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::start(&dir.path().join("store"));
    let (spool, copy) = (dir.path().join("spool"), dir.path().join("copy"));
    let mut first = Collector::start(&spool, &[&store.address], &[]);
    first.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    first.terminate();
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(spool.join("node.json"), copy.join("node.json")).unwrap();
    let again = Collector::start(&spool, &[&store.address], &[]);
    again.wait_for("the store", |nodes| state(nodes, 0) == "connected");
    let copied = Collector::start(&copy, &[&store.address], &[]);
    copied.wait_for("a refusal", |nodes| {
        nodes["stores"][0]["error"]
            .as_str()
            .unwrap_or_default()
            .contains("this directory is a copy")
    });
    drop(again);
    let localhost = store.address.replace("127.0.0.1", "localhost");
    let twice = Collector::start(&spool, &[&store.address, &localhost], &[]);
    twice.wait_for("a complaint", |nodes| {
        let error = |store: usize| nodes["stores"][store]["error"].as_str().unwrap_or_default();
        error(0).contains("list it only once") || error(1).contains("list it only once")
    });
}

/// Numbers of the lines `line N` of the store's followed files, and how often each is there.
fn lines_of_files(server: &Server) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for line in server.raw("_type:app") {
        let text = String::from_utf8(line).unwrap();
        let number = text.strip_prefix("line ").expect("a whole line").parse().unwrap();
        *found.entry(number).or_default() += 1;
    }
    found
}

fn append_lines(path: &Path, numbers: std::ops::Range<u64>) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    numbers.for_each(|number| writeln!(file, "line {number}").unwrap());
}

#[test]
fn files_are_followed_where_they_are_and_kept_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (log, spool, config) =
        (dir.path().join("app.log"), dir.path().join("spool"), dir.path().join("collect.toml"));
    let rule = format!("[[files]]\npaths = [\"{}\"]\ntype = \"app\"\n", log.display());
    std::fs::write(&config, rule).unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let store = Store::start(&dir.path().join("data"));
    append_lines(&log, 0..100);
    let mut collector = Collector::start(&spool, &[&store.address], &arguments);
    store.server.wait_for("the file", |server| server.count("_type:app") == 100);
    let row = &store.server.query("_type:app \"line 7\"", "")[0];
    assert_eq!(row["_file"], log.to_str().unwrap());
    collector.wait_for("its position to be reported", |nodes| {
        nodes["files"]["followed"] == 1 && nodes["files"]["lag_bytes"] == 0
    });
    let files = request_to(&collector.http, "GET", "/api/v1/files", &[], b"").unwrap().json();
    assert_eq!(files["files"][0]["path"], log.to_str().unwrap());

    // After an orderly stop nothing is sent twice, and nothing written meanwhile is missed.
    collector.terminate();
    append_lines(&log, 100..200);
    let mut collector = Collector::start(&spool, &[&store.address], &arguments);
    store.server.wait_for("what was appended", |server| server.count("_type:app") >= 200);
    let once: BTreeMap<u64, u64> = (0..200).map(|number| (number, 1)).collect();
    assert_eq!(lines_of_files(&store.server), once);

    // After a kill nothing is missed; lines behind the last checkpoint may be sent again.
    append_lines(&log, 200..300);
    collector.kill();
    append_lines(&log, 300..400);
    let _collector = Collector::start(&spool, &[&store.address], &arguments);
    store.server.wait_for("every line", |server| lines_of_files(server).len() == 400);
    assert!(lines_of_files(&store.server).keys().copied().eq(0..400));
}

#[test]
fn requests_bring_lines_to_a_collector() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::start(&dir.path().join("data"));
    let collector = Collector::start(&dir.path().join("spool"), &[&store.address], &[]);
    let post = |path: &str, body: &[u8]| {
        request_to(&collector.http, "POST", path, &[], body).expect("it answers")
    };
    let answer =
        post("/insert/jsonline?_type=shop", b"{\"_msg\":\"one\",\"n\":1}\n{\"_msg\":\"two\"}\n");
    assert_eq!((answer.status, &answer.json()["lines"]), (200, &2.into()), "{}", answer.text());
    // The request was answered when the store had the lines durably; they can be found a moment
    // later.
    store.server.wait_for("both lines", |server| server.count("_type:shop") == 2);
    let answer = post("/insert/elasticsearch/_bulk", b"{\"index\":{}}\n{\"message\":\"three\"}\n");
    assert_eq!(answer.status, 200, "{}", answer.text());
    store.server.wait_for("the third line", |server| server.count("three") == 1);
    assert_eq!(post("/insert/lines", b"four\n").json()["bytes"], 4);

    // Without a store, lines are safe in the spool, and the request is answered.
    store.server.kill();
    collector.wait_for("the loss to be seen", |nodes| state(nodes, 0) == "away");
    assert_eq!(post("/insert/lines?type=late", b"five\nsix\n").json()["lines"], 2);
    assert_eq!(collector.nodes()["spool"]["lines"], 2);
    store.start_again("");
    store.server.wait_for("the spool", |server| server.count("_type:late") == 2);
    let nodes = collector.nodes();
    let http = nodes["ingest"].as_array().unwrap().iter().find(|s| s["source"] == "http").unwrap();
    assert_eq!((&http["lines_received"], &http["lines_kept"]), (&6.into(), &6.into()));
    let elsewhere = request_to(&collector.http, "GET", "/select/logsql/query?query=*", &[], b"");
    assert_eq!(elsewhere.unwrap().status, 404);
    let metrics = request_to(&collector.http, "GET", "/metrics", &[], b"").unwrap().text();
    assert!(metrics.contains("\nloginson_http_clients_stalled_total 0\n"), "{metrics}");
}

/// A sender over HTTP gets an answer within seconds, and every line that was acknowledged is
/// delivered. Of requests that were refused, as a whole or in part, frames behind the one that
/// found no room may have found some.
#[test]
fn a_collector_without_room_refuses_requests() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens there at first.
    let port = Port::take();
    let store = port.address();
    let spool = ["--spool-bytes-max", "256MiB"];
    let collector = Collector::start(&dir.path().join("spool"), &[&store], &spool);
    let lines = |n: usize| format!("request {n} {}\n", "x".repeat(1000)).repeat(8000);
    let post = |path: &str, body: &str| {
        request_to(&collector.http, "POST", path, &[], body.as_bytes()).expect("it answers")
    };
    let mut kept = 0;
    let refused = (0..).map(|n| post("/insert/lines", &lines(n))).find(|answer| {
        kept += answer.json()["lines"].as_u64().unwrap();
        answer.status != 200
    });
    let refused = refused.expect("the spool is full soon");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert!(refused.text().contains("the spool has no room"), "{}", refused.text());
    // Some may find what is left of the room.
    let document = format!("{{\"create\":{{}}}}\n{{\"_msg\":\"request {}\"}}\n", "x".repeat(1000));
    let mut partly = 0;
    let bulk = document.repeat(8000) + "{\"delete\":{}}\n";
    let refused =
        std::iter::repeat_with(|| post("/insert/elasticsearch/_bulk", &bulk)).find(|answer| {
            let statuses = crate::streams::statuses(&answer.json());
            assert_eq!((statuses.len(), statuses[8000]), (8001, 400));
            partly += 1;
            kept += statuses.iter().filter(|status| **status == 201).count() as u64;
            answer.status != 200
        });
    let refused = refused.expect("the spool is full");
    assert_eq!(refused.status, 503);
    assert!(crate::streams::statuses(&refused.json())[..8000].iter().all(|status| *status == 429));
    let server = Server::start_with(&["--node-listen", &store], "");
    collector.wait_for("the spool is empty", |nodes| {
        nodes["spool"]["lines"] == 0
            && nodes["waiting_bytes"] == 0
            && nodes["stores"][0]["bytes_in_memory"] == 0
    });
    let found = server.count("request");
    let most = kept + (1 + partly) * 8000;
    assert!((kept..=most).contains(&found), "{found} found, {kept} acknowledged");
    assert_eq!(post("/insert/lines", "request again\n").status, 200);
    server.wait_for("the request is delivered", |server| server.count("request") == found + 1);
}

#[test]
fn the_journal_is_read_where_it_is_and_kept_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (spool, config) = (dir.path().join("spool"), dir.path().join("collect.toml"));
    let (program, entries) = (dir.path().join("journalctl"), dir.path().join("entries"));
    let entry = |number: u64| {
        format!(
            "{{\"__CURSOR\":\"c{number}\",\"__REALTIME_TIMESTAMP\":\"1700000000000000\",\"MESSAGE\":\"entry {number}\"}}\n"
        )
    };
    std::fs::write(&entries, [entry(1), entry(2)].concat()).unwrap();
    // Prints what there is, or what is behind a cursor (nothing), and keeps running.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--after-cursor=c2*) ;; *) cat {} ;; esac\nexec sleep 600\n",
        entries.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let journal = format!("[journald]\nenabled = true\nprogram = \"{}\"\n", program.display());
    std::fs::write(&config, journal).unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let store = Store::start(&dir.path().join("data"));
    for _ in 0..2 {
        let mut collector = Collector::start(&spool, &[&store.address], &arguments);
        store.server.wait_for("the entries", |server| server.count("_type:journald") == 2);
        collector.wait_for("the journal to be read", |nodes| {
            nodes["journald"]["reading"] == true && nodes["journald"]["error"].is_null()
        });
        collector.terminate();
    }
    // The second one resumed behind the cursor of the first.
    assert_eq!(store.server.count("_type:journald"), 2);
}

#[test]
fn only_collectors_with_the_secret_deliver() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ours, other) =
        (file("ours", "one secret of this test\n"), file("other", "another secret 1"));
    let flags = ["--node-listen", "127.0.0.1:0", "--node-secret-file", &ours];
    let server = Server::start_in(&dir.path().join("store"), &flags, "");
    let address = server.status()["listeners"]["node"].as_str().unwrap().to_owned();
    let check = |name: &str, arguments: &[&str], expected: &str| {
        let collector = Collector::start(&dir.path().join(name), &[&address], arguments);
        collector.wait_for(expected, |nodes| {
            nodes["stores"][0]["error"].as_str().unwrap_or_default().contains(expected)
        });
    };
    check("none", &[], "know its secret");
    check("wrong", &["--node-secret-file", &other], "is not that of this store");
    assert_eq!(server.get("/api/v1/nodes").json()["collectors"].as_array().unwrap().len(), 0);
    // From the variable, and without the newline that ends the file.
    let mut command = loginson(&["collect"]);
    command.env("LOGINSON_NODE_SECRET", "one secret of this test");
    let collector = Collector::launch(command, &dir.path().join("right"), &[&address], &[]);
    send_batch(&mut TcpStream::connect(collector.syslog).unwrap(), 0);
    collector.wait_delivered(BATCH);
    assert_each_once(&[&server], BATCH);
    // A secret is required if others can connect.
    let mut command = loginson(&["serve", "--node-listen", "0.0.0.0:0", "--data-dir"]);
    let output = command.arg(dir.path().join("open")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("--node-secret-file"), "{error}");
}
