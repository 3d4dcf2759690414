//! Bodies that stream, by real clients (curl, Python) and by clients that are slow, broken, or too
//! many.
//!
//! `LOGINSON_STREAM_BYTES` sets how much curl sends; by default it is little.

use std::io::{BufReader, Error, ErrorKind, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Answer, PATIENCE, Server, is_late, read_head, read_until_closed};
use serde_json::{Value, json};

/// Bytes that curl sends by default.
const STREAM_BYTES: usize = 24 << 20;
/// More than the server needs for any length of a body: its caches are 16 MiB here.
const MEMORY_KIB_MAX: u64 = 400 << 10;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Whether the lines received are those kept and dropped.
fn agrees(counters: &Value) -> bool {
    counters["lines_in_flight"] == 0 && counters["bytes_in_flight"] == 0
}

/// The peak memory of a process.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Begins a chunked request.
fn begin(server: &Server, path: &str, headers: &str) -> TcpStream {
    let mut stream = server.connect();
    let host = &server.http;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
    )
    .unwrap();
    stream
}

fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
}

/// Ends the body and reads the response.
fn end(mut stream: TcpStream) -> Answer {
    stream.write_all(b"0\r\n\r\n").unwrap();
    Answer::read(stream).unwrap()
}

#[test]
fn curl_streams_more_than_memory_holds() {
    let config = "[store]\ncache_bytes_max = '16MiB'\nqueue_bytes_max = '16MiB'\n";
    let server = Server::start_with(&[], config);
    let bytes: usize = std::env::var("LOGINSON_STREAM_BYTES")
        .map_or(STREAM_BYTES, |text| text.parse().expect("LOGINSON_STREAM_BYTES is a number"));
    let mut sent = 0;
    for compression in ["", "gzip -c", "zstd -c"] {
        let curl = "curl --silent --show-error --fail-with-body -T - -X POST";
        let url = format!("http://{}/insert/jsonline?_type=streamed", server.http);
        let command = match compression.split(' ').next() {
            Some("") | None => format!("{curl} {url}"),
            Some(name) => format!("{compression} | {curl} -H 'Content-Encoding: {name}' {url}"),
        };
        let mut shell = Command::new("sh")
            .args(["-c", &command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to_curl = shell.stdin.take().unwrap();
        let (mut lines, mut written) = (0u64, 0);
        while written < bytes {
            let block: String = (0..500)
                .map(|i| format!("{{\"n\":{},\"_msg\":\"line {i} of {lines}\"}}\n", lines + i))
                .collect();
            to_curl.write_all(block.as_bytes()).unwrap();
            lines += 500;
            written += block.len();
        }
        drop(to_curl);
        let output = shell.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer, json!({"lines": lines, "bytes": written as u64 - lines}), "{command}");
        sent += lines;
    }
    assert_eq!(server.count("_type:streamed"), sent);
    // The server learns a moment later that curl has closed a connection.
    server.wait_for("the account of all lines", |server| {
        let counters = server.ingest("http");
        counters["lines_kept"] == sent && agrees(&counters) && counters["connections_open"] == 0
    });
    assert_eq!(server.ingest("http")["connections_total"], 3);
    let peak = peak_kib(server.pid());
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
}

#[test]
fn python_sends_gzip_members_and_a_chunk_a_line() {
    let server = Server::start();
    let script = r#"
import gzip, http.client, json, sys, urllib.request
host = sys.argv[1]
lines = [json.dumps({"_msg": f"from python {i}", "n": i}).encode() + b"\n" for i in range(20000)]
body = gzip.compress(b"".join(lines[:12000])) + gzip.compress(b"".join(lines[12000:]))
request = urllib.request.Request(
    f"http://{host}/insert/jsonline?_type=urllib", body, {"Content-Encoding": "gzip"}, method="POST")
assert json.load(urllib.request.urlopen(request))["lines"] == 20000
connection = http.client.HTTPConnection(host)
connection.request("POST", "/insert/jsonline?_type=chunks", iter(lines), encode_chunked=True,
                   headers={"Transfer-Encoding": "chunked"})
assert json.load(connection.getresponse())["lines"] == 20000
connection.request("POST", "/insert/elasticsearch/logs/_bulk?_type=bulk",
                   b"".join(b'{"create":{"_index":"logs"}}\n' + line for line in lines))
answer = json.load(connection.getresponse())
assert not answer["errors"] and len(answer["items"]) == 20000, answer
assert all(item["create"]["status"] == 201 for item in answer["items"])
"#;
    let python = Command::new("python3").args(["-c", script, &server.http]).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    for way in ["urllib", "chunks", "bulk"] {
        assert_eq!(server.count(&format!("_type:{way} n:19999")), 1, "{way}");
        assert_eq!(server.count(&format!("_type:{way}")), 20_000, "{way}");
    }
    server.wait_for("the account", |server| agrees(&server.ingest("http")));
}

#[test]
fn lines_are_found_while_the_sender_pauses() {
    let server = Server::start();
    for (encoding, header) in [("plain", ""), ("zstd", "Content-Encoding: zstd\r\n")] {
        let path = format!("/insert/lines?type={encoding}");
        let mut stream = begin(&server, &path, header);
        let body = |text: &[u8]| match encoding {
            "zstd" => zstd::encode_all(text, 1).unwrap(),
            _ => text.to_vec(),
        };
        chunk(&mut stream, &body(b"first\nsecond\nhal")).unwrap();
        let filter = format!("_type:{encoding}");
        server.wait_for("two lines", |server| server.count(&filter) == 2);
        chunk(&mut stream, &body(b"f a line\nlast")).unwrap();
        server.wait_for("the third", |server| server.count(&filter) == 3);
        assert_eq!(end(stream).json(), json!({"lines": 4, "bytes": 5 + 6 + 11 + 4}));
    }
}

#[test]
fn a_client_that_expects_100_continue_gets_an_answer_first() {
    let server = Server::start();
    let request = |headers: &str| {
        let stream = begin(&server, "/insert/lines", &format!("Expect: 100-continue\r\n{headers}"));
        let status = read_head(&mut BufReader::new(stream.try_clone().unwrap())).unwrap().0;
        (status, stream)
    };
    let (status, mut stream) = request("");
    assert_eq!(status, 100);
    chunk(&mut stream, b"taken\n").unwrap();
    assert_eq!(end(stream).status, 200);
    assert_eq!(request("Content-Encoding: br\r\n").0, 400);
    assert_eq!(server.count("_type:!=summary"), 1);
}

#[test]
fn silent_and_slow_bodies_end_and_complete_lines_are_kept() {
    let server = Server::start_with(&[], "[insert]\nidle_max = '300ms'\nbytes_per_s_min = '0B'\n");
    // In one piece, so that the client is not silent before its first line on a slow machine.
    let mut silent = server.connect();
    let head = format!("POST /insert/lines HTTP/1.1\r\nHost: {}\r\n", server.http);
    let request = head + "Transfer-Encoding: chunked\r\n\r\na\r\nwhole\npart\r\n";
    silent.write_all(request.as_bytes()).unwrap();
    let answer = Answer::read(silent).unwrap();
    let error = answer.json();
    assert_eq!((answer.status, &error["lines"]), (408, &json!(1)), "{error}");
    drop(server);

    let server =
        Server::start_with(&[], "[insert]\nidle_max = '300ms'\nbytes_per_s_min = '1000000B'\n");
    let mut slow = begin(&server, "/insert/lines", "");
    let mut reader = slow.try_clone().unwrap();
    let answer = std::thread::spawn(move || Answer::read(&mut reader));
    // Never silent for as long as `idle_max`, and far below the least rate on any machine.
    while !answer.is_finished() && chunk(&mut slow, b"a line\n").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = answer.join().unwrap().unwrap();
    assert_eq!(answer.status, 408);
    let lines = answer.json()["lines"].as_u64().unwrap();
    assert_eq!(server.count("\"a line\""), lines);
    server.wait_for("the account", |server| agrees(&server.ingest("http")));
}

#[test]
fn a_request_that_pauses_lends_its_slot() {
    let server = Server::start_with(&[], "[insert]\nrequests_max = 1\n");
    let mut slow: Vec<TcpStream> = (0..3).map(|_| begin(&server, "/insert/lines", "")).collect();
    for stream in &mut slow {
        chunk(stream, b"first\nhalf of").unwrap();
    }
    server.wait_for("all are there", |server| server.count("first") == 3);
    assert_eq!(server.post("/insert/lines", b"quick\n").status, 200);
    for mut stream in slow {
        chunk(&mut stream, b" a line\n").unwrap();
        assert_eq!(end(stream).json()["lines"], 2);
    }
    assert_eq!(server.count("*"), 7);
    assert_eq!(server.ingest("http")["connections_refused"], 0);
}

#[test]
fn a_request_that_holds_much_and_pauses_gives_way() {
    let server = Server::start_with(&[], "[insert]\nrequests_max = 1\n");
    let mut first = begin(&server, "/insert/lines", "");
    chunk(&mut first, &[b"whole\n", &vec![b'x'; 1 << 20][..]].concat()).unwrap();
    server.wait_for("it has the place", |server| server.count("whole") == 1);
    assert_eq!(server.post("/insert/lines", b"quick\n").status, 200);
    let answer = Answer::read(first).unwrap();
    let error = answer.json();
    assert_eq!((answer.status, &error["lines"]), (408, &json!(1)), "{error}");
    assert_eq!(answer.header("retry-after"), Some("5"));
    server.wait_for("the rest is counted", |server| {
        let counters = server.ingest("http");
        counters["dropped"]["bad_request"] == 1 && agrees(&counters)
    });
}

#[test]
fn a_client_that_is_gone_is_accounted_for() {
    let server = Server::start();
    let mut stream = begin(&server, "/insert/lines", "");
    chunk(&mut stream, b"whole\nhalf").unwrap();
    server.wait_for("the whole line", |server| server.count("whole") == 1);
    // A reset, not an end.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    server.wait_for("it is counted", |server| {
        let counters = server.ingest("http");
        let dropped =
            (&counters["dropped"]["bad_request"], &counters["dropped_bytes"]["bad_request"]);
        dropped == (&json!(1), &json!(4)) && counters["connections_open"] == 0 && agrees(&counters)
    });
    // Malformed chunks.
    let mut broken = begin(&server, "/insert/lines", "");
    broken.write_all(b"6\r\nwhole\n\r\nno number\r\n").unwrap();
    let answer = read_until_closed(&mut broken);
    assert!(answer.is_empty() || Answer::read(&answer[..]).unwrap().status == 400);
    server.wait_for("it is counted too", |server| {
        server.ingest("http")["dropped"]["bad_request"] == 2
    });
    assert_eq!(server.count("whole"), 2);
}

#[test]
fn bulk_requests_of_shippers() {
    let server = Server::start();
    let about = server.get("/insert/elasticsearch/");
    assert!(about.json()["version"]["number"].is_string());
    assert_eq!(about.header("x-elastic-product"), Some("Elasticsearch"));
    assert_eq!(server.get("/insert/elasticsearch/_license").status, 200);
    let body = "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n\
                {\"@timestamp\":\"2026-01-31T12:00:00Z\",\"message\":\"by bulk\",\"host\":\"web1\"}\n";
    let answer = server.request(
        "POST",
        "/insert/elasticsearch/_bulk",
        &[("Content-Type", "application/x-ndjson"), ("Content-Encoding", "gzip")],
        &gzip(body.as_bytes()),
    );
    let item = json!({"_index": "loginson", "_id": "", "result": "created", "status": 201});
    let expected = json!({"took": 0, "errors": false, "items": [{"index": item}]});
    assert_eq!((answer.status, answer.json()), (200, expected));
    let row = &server.query("\"by bulk\"", "")[0];
    assert_eq!((&row["_time"], &row["host"]), (&json!("2026-01-31T12:00:00Z"), &json!("web1")));
    let zstd = zstd::bulk::compress(body.as_bytes(), 1).unwrap();
    let encoded = [("Content-Encoding", "zstd")];
    let answer = server.request("POST", "/insert/elasticsearch/_bulk", &encoded, &zstd);
    assert_eq!(statuses(&answer.json()), [201]);
    // What cannot be done is refused by itself.
    let mixed = format!("{body}{{\"delete\":{{}}}}\n{{\"update\":{{}}}}\n{{\"doc\":{{}}}}\n{body}");
    let answer = server.post("/insert/elasticsearch/_bulk", mixed.as_bytes());
    let items = statuses(&answer.json());
    assert_eq!((answer.status, &items[..]), (200, &[201, 400, 400, 201][..]));
    assert_eq!(answer.json()["errors"], true);
    assert_eq!(server.count("\"by bulk\""), 4);
    let body = format!("{body}no action\n{body}");
    let answer = server.post("/insert/elasticsearch/_bulk", body.as_bytes());
    let error = answer.json();
    assert_eq!((answer.status, &error["lines"]), (400, &json!(1)), "{error}");
    assert!(error["error"].as_str().unwrap().contains("line 3"), "{error}");
    assert_eq!(server.count("\"by bulk\""), 5);
}

/// The statuses of the items of an answer to `_bulk`.
pub fn statuses(answer: &Value) -> Vec<u64> {
    let items = answer["items"].as_array().unwrap().iter();
    let item = |item: &Value| item.as_object().unwrap().values().next().unwrap()["status"].as_u64();
    items.map(|value| item(value).unwrap()).collect()
}

/// Senders that are at work while the server ends get an answer that is true, or none: never a
/// refusal, which some of them take for the loss of their lines.
#[test]
fn requests_that_have_begun_are_finished_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(dir.path(), &[], "");
    let address = server.http.clone();
    let done = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (address, done) = (address.clone(), Arc::clone(&done));
            std::thread::spawn(move || send_until_away(&address, &done))
        })
        .collect();
    server.wait_for("requests", |_| done.load(Relaxed) > 100);
    assert_eq!(server.terminate(), Some(0));
    let acknowledged: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
    drop(server);
    let server = Server::start_in(dir.path(), &[], "");
    // A request whose answer was lost may be kept.
    let found = server.count("last");
    assert!((acknowledged..=acknowledged + 4).contains(&found), "{found} of {acknowledged}");
}

/// Sends requests on one connection after the other, until there is no server; returns how many
/// were answered. All answers are 200.
fn send_until_away(address: &str, done: &AtomicU64) -> u64 {
    let mut acknowledged = 0;
    let is_end =
        |error: &Error| matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    loop {
        let mut stream = match TcpStream::connect(address) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return acknowledged,
            // The listener was closed meanwhile.
            Err(error) if is_end(&error) => continue,
            Err(error) => panic!("no connection, and no refusal: {error}"),
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let body = "a last line\n";
            let head = format!(
                "POST /insert/lines HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            if let Err(error) = stream.write_all(head.as_bytes()) {
                assert!(is_end(&error), "{error}");
                break;
            }
            let answer = match Answer::read(&mut reader) {
                Ok(answer) => answer,
                Err(error) => {
                    assert!(!is_late(&error), "neither an answer nor an end: {error}");
                    break;
                }
            };
            assert_eq!(answer.status, 200, "{}", answer.text());
            acknowledged += 1;
            done.fetch_add(1, Relaxed);
            if answer.header("connection") == Some("close") {
                break;
            }
        }
    }
}

#[test]
fn an_import_that_reaches_no_server_does_not_doubt() {
    let mut server = Server::start();
    let address = server.http.clone();
    server.terminate();
    let mut import = crate::common::loginson(&["import", "--server", &address, "-"]);
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    let output = import.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        error.contains("no server answers") && !error.contains("may have been kept"),
        "{error}"
    );
}
