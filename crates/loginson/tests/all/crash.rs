//! kill -9 at any time loses no acknowledged line and shows none twice.
//!
//! Segments are as small as possible and the summary is written every second, so that closing,
//! sealing and merging are in progress when the kill comes; sometimes it comes during the start.
//! `LOGINSON_KILLS=200` makes it a long test (`make test-long`), `LOGINSON_SEED` repeats the
//! moments of a run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Server, request_to, serve_command};

const KILLS: usize = 8;
/// Kills of servers over one directory. Then the directory is checked and another one begins,
/// because reading everything after each kill takes longer the more there is.
const KILLS_OF_A_LIFE: usize = 10;
const SENDERS: usize = 3;
/// Pause between two batches of a sender, so that a run does not produce gigabytes.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time until a server is killed. The summary is flushed, and therefore segments are
/// sealed, after one second.
const RUN_MS_MAX: u64 = 2_200;
const CONFIG: &str = r#"
[store]
segment_bytes_max = "1MiB"
[summary]
bucket = "1s"
flush_interval = "1s"
flush_delay = "0s"
"#;

#[test]
fn kill_9_under_load() {
    let kills = number("LOGINSON_KILLS").map_or(KILLS, |n| n as usize);
    let seed = number("LOGINSON_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("LOGINSON_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for life in 0..kills.div_ceil(KILLS_OF_A_LIFE) {
        let kills = KILLS_OF_A_LIFE.min(kills - life * KILLS_OF_A_LIFE);
        let directory = tempfile::tempdir().unwrap();
        let acknowledged = live(directory.path(), kills, &mut random);
        for kind in kinds(directory.path()) {
            *files.entry(kind).or_default() += 1;
        }
        eprintln!("life {life}: {kills} kills, {} lines acknowledged", acknowledged.len());
        end(directory.path(), &acknowledged);
    }
    eprintln!("segment files at the last kills: {files:?}");
}

/// Starts and kills a server over and over; returns the lines that were acknowledged.
fn live(directory: &Path, kills: usize, random: &mut fastrand::Rng) -> HashSet<String> {
    let acknowledged: Arc<Mutex<HashSet<String>>> = Arc::default();
    for round in 0..kills {
        let is_last = round + 1 == kills;
        if !is_last && random.u8(..4) == 0 {
            kill_while_starting(directory, Duration::from_millis(random.u64(..150)));
            continue;
        }
        let mut server = Server::start_in(directory, &[], CONFIG);
        if random.u8(..3) == 0 {
            check(&server, &acknowledged.lock().unwrap());
        }
        let over = Arc::new(AtomicBool::new(false));
        let http = (0..SENDERS).map(|sender| {
            let (address, over, acknowledged) =
                (server.http.clone(), Arc::clone(&over), Arc::clone(&acknowledged));
            thread::spawn(move || {
                send_http(&address, &format!("{round}-{sender}"), &over, &acknowledged)
            })
        });
        let http: Vec<_> = http.collect();
        // Unacknowledged lines at the same time: they may be lost, but must not be stored twice.
        let tcp = {
            let (address, over) = (server.syslog_tcp(), Arc::clone(&over));
            thread::spawn(move || send_syslog(address, round, &over))
        };
        thread::sleep(Duration::from_millis(random.u64(1..RUN_MS_MAX)));
        if is_last {
            // A slow machine takes longer to fill a segment.
            server.wait_for("a second segment", |_| {
                let kinds = kinds(directory);
                kinds.iter().filter(|kind| ["hot", "sealed"].contains(&kind.as_str())).count() > 1
            });
        }
        server.kill();
        over.store(true, Ordering::Relaxed);
        http.into_iter().for_each(|sender| sender.join().unwrap());
        tcp.join().unwrap();
    }
    Arc::try_unwrap(acknowledged).unwrap().into_inner().unwrap()
}

/// Everything is there after the last kill, even if the catalog is lost.
fn end(directory: &Path, acknowledged: &HashSet<String>) {
    let mut server = Server::start_in(directory, &[], CONFIG);
    check(&server, acknowledged);
    check_summary(&server);
    assert_eq!(server.terminate(), Some(0));
    // The catalog only repeats what the segments contain.
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("catalog") {
            std::fs::remove_file(path).unwrap();
        }
    }
    check(&Server::start_in(directory, &[], CONFIG), acknowledged);
}

fn kill_while_starting(directory: &Path, after: Duration) {
    let mut child = serve_command(directory).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The suffixes of the segment files.
fn kinds(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory.join("segments")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.rsplit('.').next().unwrap().to_owned()).collect()
}

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().expect("a number"))
}

fn check(server: &Server, acknowledged: &HashSet<String>) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for line in server.raw("NOT _type:summary") {
        *seen.entry(String::from_utf8(line).unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).take(3).collect();
    assert!(twice.is_empty(), "shown twice: {twice:?}");
    let lost: Vec<_> = acknowledged.iter().filter(|line| !seen.contains_key(*line)).collect();
    assert!(
        lost.is_empty(),
        "{} acknowledged and lost: {:?}",
        lost.len(),
        &lost[..3.min(lost.len())]
    );
    let foreign: Vec<_> = seen.keys().filter(|line| !was_sent(line)).take(3).collect();
    assert!(foreign.is_empty(), "never sent: {foreign:?}");
}

/// The summary counts each line once, including those that were not counted yet when the process
/// was killed.
fn check_summary(server: &Server) {
    server.wait_for("everything is parsed", |server| server.status()["parse_lag_lines"] == 0);
    let types = server.get("/api/v1/summary/types?start=1h").json();
    let types = types["types"].as_array().unwrap();
    assert!(!types.is_empty());
    for log_type in types {
        let name = log_type["type"].as_str().unwrap();
        let lines = server.raw(&format!("_type:={name}")).len();
        assert_eq!(log_type["lines"], lines, "lines of type {name}");
    }
}

/// Line `i` of a batch over HTTP: one of three kinds, so that segments have columns of each.
fn http_line(name: &str, batch: usize, i: usize) -> String {
    match i % 3 {
        0 => format!("http {name} {batch} {i}"),
        1 => {
            format!(r#"{{"http":"{name}","batch":{batch},"i":{i},"level":"info","pad":"{i:090}"}}"#)
        }
        _ => format!("<13>1 - host{} app{} - - - http {name} {batch} {i} {i:060}", i % 5, i % 7),
    }
}

fn syslog_line(round: usize, i: usize) -> String {
    format!("<13>1 - host app - - - syslog {round} {i}")
}

/// Whether the senders make exactly this line.
fn was_sent(line: &str) -> bool {
    let words = || line.split([' ', ',', ':', '"', '{', '}']).filter(|word| !word.is_empty());
    let Some(at) = words().position(|word| word == "http" || word == "syslog") else {
        return false;
    };
    let name = words().nth(at + 1).unwrap_or_default();
    let numbers: Vec<usize> = words().skip(at + 2).filter_map(|word| word.parse().ok()).collect();
    match (words().nth(at), &numbers[..]) {
        (Some("http"), &[batch, i, ..]) => line == http_line(name, batch, i),
        (_, &[i, ..]) => name.parse().is_ok_and(|round| line == syslog_line(round, i)),
        _ => false,
    }
}

/// Sends batches until the server is gone; records the acknowledged lines.
fn send_http(address: &str, name: &str, over: &AtomicBool, acknowledged: &Mutex<HashSet<String>>) {
    for batch in 0.. {
        let lines: Vec<String> =
            (0..20 + batch * 7 % 200).map(|i| http_line(name, batch, i)).collect();
        let answer = request_to(address, "POST", "/insert/lines", &[], lines.join("\n").as_bytes());
        match answer {
            Ok(answer) if answer.status == 200 => acknowledged.lock().unwrap().extend(lines),
            Ok(answer) => panic!("status {}: {}", answer.status, answer.text()),
            Err(_) => return,
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(PAUSE);
    }
}

fn send_syslog(address: std::net::SocketAddr, round: usize, over: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    for i in 0.. {
        let sent = writeln!(stream, "{}", syslog_line(round, i));
        if sent.is_err() || over.load(Ordering::Relaxed) {
            return;
        }
        if i % 50 == 0 {
            thread::sleep(PAUSE);
        }
    }
}

#[test]
fn lines_are_told_from_foreign_ones() {
    let lines = (0..9).map(|i| http_line("3-1", 17, i)).chain([syslog_line(4, 123)]);
    for line in lines {
        assert!(was_sent(&line), "{line}");
        assert!(!was_sent(&line[1..]) && !was_sent(&format!("{line}x")), "{line}");
    }
}
