//! Many clients at once: slow ones, idle ones, ones that hold as much as they can. Others are
//! served meanwhile.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::common::{Answer, LOGINSON, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

/// Raises this process's limit of connections as far as permitted.
fn allow_connections() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// A request whose body has begun.
fn begin(server: &Server, path: &str, first: &str) -> TcpStream {
    let mut stream = server.connect();
    // A connection beyond all seats is closed at once.
    let _ = write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n",
        server.http,
        first.len()
    );
    stream
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn slow_bodies_do_not_stop_others_and_are_taken() {
    allow_connections();
    let server = Server::start();
    let paths = ["/insert/lines", "/insert/jsonline", "/insert/elasticsearch/_bulk"];
    let mut slow: Vec<(TcpStream, usize)> = (0..300)
        .map(|n| {
            let first =
                ["slow\n", "{\"_msg\":\"slow\"}\n", "{\"create\":{}}\n{\"_msg\":\"slow\"}\n"];
            (begin(&server, paths[n % 3], first[n % 3]), n % 3)
        })
        .collect();
    server.wait_for("all slow ones are there", |server| server.count("slow") == 300);
    for path in ["/insert/lines", "/insert/jsonline"] {
        let answer = server.post(path, b"{\"_msg\":\"quick\"}\n");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(server.count("quick"), 2);
    // They were no attack, only slow: each sends its second line and gets a response.
    for (stream, kind) in &mut slow {
        let second =
            ["slow\n", "{\"_msg\":\"slow\"}\n", "{\"create\":{}}\n{\"_msg\":\"slow\"}\n"][*kind];
        write!(stream, "{:x}\r\n{second}\r\n0\r\n\r\n", second.len()).unwrap();
    }
    for (stream, _) in slow {
        let answer = Answer::read(stream).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(server.count("slow"), 600);
}

#[test]
fn idle_connections_give_way() {
    allow_connections();
    let server = Server::start();
    let mut idle = Vec::new();
    for n in 0..2_200 {
        let mut stream = server.connect();
        if n % 2 == 0 {
            // A request head that never ends.
            let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHo");
        }
        idle.push(stream);
    }
    for path in ["/health", "/ready", "/metrics", "/api/v1/status"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(server.post("/insert/lines", b"a line\n").status, 200);
    // One address has its share, so that seats are left for others.
    assert!(metric(&server, "loginson_http_connections_open") <= 769);
    assert!(metric(&server, "loginson_http_connections_closed_idle_total") >= 1_400);
    // The oldest were closed, the youngest are served.
    match idle[0].read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => panic!("the oldest was not closed: {other:?}"),
    }
    let last = idle.last_mut().unwrap();
    write!(last, "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.http)
        .unwrap();
    assert_eq!(Answer::read(last).unwrap().status, 200);
}

#[test]
fn health_is_answered_while_every_connection_works() {
    allow_connections();
    let server = Server::start();
    // Tails hold their connections as long as their clients want; there are 100 of them. The others
    // send bodies.
    let slow: Vec<TcpStream> =
        (0..900).map(|_| begin(&server, "/insert/lines", "a line of a slow body\n")).collect();
    for _ in 0..20 {
        for path in ["/health", "/ready", "/metrics"] {
            assert_eq!(server.get(path).status, 200, "{path}");
        }
    }
    drop(slow);
    // Every line that arrived is kept or counted; connections beyond the share of one address were
    // closed before their line was read. The status is refused until one of them has given its
    // seat back.
    server.wait_for("the account of their lines", |server| {
        let answer = server.get("/api/v1/status");
        if answer.status != 200 {
            return false;
        }
        let status = answer.json();
        let mut sources = status["ingest"].as_array().unwrap().iter();
        let counters = sources.find(|source| source["source"] == "http").unwrap();
        let of = |name: &str| counters[name].as_u64().unwrap();
        let dropped = counters["dropped"].as_object().unwrap().values();
        let dropped: u64 = dropped.map(|lines| lines.as_u64().unwrap()).sum();
        of("lines_kept") >= 500 && of("lines_received") == of("lines_kept") + dropped
    });
}

#[test]
fn the_limit_on_open_files_is_raised_and_shared() {
    let data = tempfile::tempdir().unwrap();
    let start = |limit: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\""), LOGINSON, "serve"]);
        for listener in ["http", "syslog-udp", "syslog-tcp"] {
            command.args([&format!("--{listener}-listen"), "127.0.0.1:0"]);
        }
        command.arg("--data-dir").arg(data.path()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            log.push_str(&line);
            log.push('\n');
            if line.contains("page and API at") {
                break;
            }
        }
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        (log, files.split_whitespace().nth(3).unwrap().to_owned())
    };
    let (log, files) = start("-Sn 256");
    assert_ne!(files, "256", "{log}");
    let (log, files) = start("-n 6000");
    assert_eq!(files, "6000");
    assert!(log.contains("syslog.tcp_connections_max is 28") && log.contains("ulimit -n"), "{log}");
}

/// A slow sender, as over a slow connection, is not cut off while there is room.
#[test]
fn a_long_body_may_come_slowly() {
    let server = Server::start();
    let mut stream = begin(&server, "/insert/jsonline", "{\"_msg\":\"0\"}\n");
    for n in 1..5 {
        // The line before is found before the next one comes.
        server.wait_for("a line", |server| server.count("*") == n);
        let line = format!("{{\"_msg\":\"{n}\"}}\n");
        write!(stream, "{:x}\r\n{line}\r\n", line.len()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(Answer::read(stream).unwrap().json()["lines"], json!(5));
}
