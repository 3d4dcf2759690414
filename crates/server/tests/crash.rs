//! kill -9 at any time loses no acknowledged line and shows none twice.

mod common;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Server, request_to};

const ROUNDS: usize = 8;
const SENDERS: usize = 4;

#[test]
fn kill_9_under_load() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let acknowledged: Arc<Mutex<HashSet<String>>> = Arc::default();
    for round in 0..ROUNDS {
        let mut server = Server::start_in(directory.path(), &[], "");
        check(&server, &acknowledged.lock().unwrap());
        let over = Arc::new(AtomicBool::new(false));
        let http = (0..SENDERS).map(|sender| {
            let (address, over, acknowledged) =
                (server.http.clone(), Arc::clone(&over), Arc::clone(&acknowledged));
            thread::spawn(move || {
                send_http(&address, &format!("{round}-{sender}"), &over, &acknowledged)
            })
        });
        let http: Vec<_> = http.collect();
        // Unacknowledged lines at the same time: they may be lost, but never come twice.
        let tcp = {
            let (address, over) = (server.syslog_tcp(), Arc::clone(&over));
            thread::spawn(move || send_syslog(address, round, &over))
        };
        thread::sleep(Duration::from_millis(random.u64(1..700)));
        server.kill();
        over.store(true, Ordering::Relaxed);
        http.into_iter().for_each(|sender| sender.join().unwrap());
        tcp.join().unwrap();
    }
    let acknowledged = acknowledged.lock().unwrap();
    assert!(acknowledged.len() > ROUNDS * SENDERS, "the load was none");
    let mut server = Server::start_in(directory.path(), &[], "");
    check(&server, &acknowledged);
    check_summary(&server);
    // The catalog is only a faster way to say what the segments say.
    assert_eq!(server.terminate(), Some(0));
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("catalog") {
            std::fs::remove_file(path).unwrap();
        }
    }
    check(&Server::start_in(directory.path(), &[], ""), &acknowledged);
}

fn check(server: &Server, acknowledged: &HashSet<String>) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for line in server.raw("NOT type:summary") {
        *seen.entry(String::from_utf8(line).unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).take(3).collect();
    assert!(twice.is_empty(), "shown twice: {twice:?}");
    let lost: Vec<_> =
        acknowledged.iter().filter(|line| !seen.contains_key(*line)).take(3).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

/// The summary counts each line once, also those that were not counted yet when the process was killed.
fn check_summary(server: &Server) {
    server.wait_for("everything is parsed", |server| server.status()["parse_lag_lines"] == 0);
    let types = server.get("/api/v1/summary/types?start=1h").json();
    let types = types["types"].as_array().unwrap();
    assert!(!types.is_empty());
    for log_type in types {
        let name = log_type["type"].as_str().unwrap();
        let lines = server.raw(&format!("type:={name}")).len();
        assert_eq!(log_type["lines"], lines, "lines of type {name}");
    }
}

/// Sends batches until the server is gone; takes note of those that were acknowledged.
fn send_http(address: &str, name: &str, over: &AtomicBool, acknowledged: &Mutex<HashSet<String>>) {
    for batch in 0.. {
        let lines: Vec<String> =
            (0..20 + batch % 200).map(|i| format!("http {name} {batch} {i}")).collect();
        let answer = request_to(address, "POST", "/insert/lines", &[], lines.join("\n").as_bytes());
        match answer {
            Ok(answer) if answer.status == 200 => acknowledged.lock().unwrap().extend(lines),
            Ok(answer) => panic!("status {}: {}", answer.status, answer.text()),
            Err(_) => return,
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn send_syslog(address: std::net::SocketAddr, round: usize, over: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    for i in 0.. {
        let sent = writeln!(stream, "<13>1 - host app - - - syslog {round} {i}");
        if sent.is_err() || over.load(Ordering::Relaxed) {
            return;
        }
    }
}
