//! Exports over HTTP: complete, byte for byte, and recognisable as incomplete otherwise.

use std::io::{BufReader, Write};

use crate::common::{Server, encoded, read_chunk, read_head};

/// Lines that careless encoding would change.
const AWKWARD: &[&[u8]] = &[
    b"<11>1 2026-01-31T12:00:00Z web1 nginx - - - first",
    b"bad \xff\xfe bytes",
    b"",
    b"nul \0 and tab \t and \r inside\r",
    br#"{"_time":"2026-01-31T12:00:01Z","level":"error","":"no name","_msg":"quo\"ted"}"#,
];

fn filled() -> (Server, Vec<u8>) {
    let server = Server::start();
    let mut lines = Vec::new();
    for batch in 0..3 {
        let mut body = AWKWARD.join(&b'\n');
        (0..5_000).for_each(|i| write!(body, "\nline {batch} {i}").unwrap());
        body.push(b'\n');
        assert_eq!(server.post("/insert/lines", &body).status, 200);
        lines.extend(body);
    }
    (server, lines)
}

fn sorted(lines: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = lines.split(|&b| b == b'\n').collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_row_in_each_format() {
    let (server, lines) = filled();
    let get = |parameters: &str| server.get(&format!("/api/v1/export?{parameters}"));
    let all = encoded("NOT _type:summary");

    let raw = get(&format!("format=raw&query={all}"));
    assert_eq!(raw.status, 200);
    assert!(sorted(&raw.body) == sorted(&lines), "lines come back byte for byte");
    assert_eq!(raw.header("content-disposition"), Some("attachment; filename=\"loginson.log\""));

    let rows = get(&format!("format=jsonl&query={all}&include=_line_id")).rows();
    assert_eq!(rows.len(), sorted(&lines).len() - 1);
    assert!(rows.iter().all(|row| row["_line_id"].is_string() && row["_time"].is_string()));
    assert_eq!(rows[0]["_time"], "2026-01-31T12:00:00Z", "the oldest first");
    let range = "start=2026-01-31T12:00:01Z&end=2026-01-31T12:00:02Z";
    assert_eq!(get(&format!("format=jsonl&{range}")).rows().len(), 3);

    let table = get(&format!("format=parquet&query={all}"));
    assert!(table.body.starts_with(b"PAR1") && table.body.ends_with(b"PAR1"));
    assert_eq!(table.header("content-type"), Some("application/vnd.apache.parquet"));

    let counted = get(&format!("format=jsonl&query={}", encoded("line | stats count() n"))).rows();
    assert_eq!(counted[0]["n"], "15000");
}

#[test]
fn mistakes_are_answered() {
    let (server, _) = filled();
    for (parameters, expected) in [
        ("query=*".to_owned(), "'format' is missing"),
        ("format=xml".into(), "not raw, jsonl, csv or parquet"),
        (format!("format=raw&query={}", encoded("* | stats count()")), "have no raw form"),
        (format!("format=raw&query={}", encoded("a |")), "expected"),
        ("format=jsonl&include=_what".into(), "include: '_what'"),
    ] {
        let answer = server.get(&format!("/api/v1/export?{parameters}"));
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
        assert!(answer.text().contains(expected), "{}", answer.text());
    }
}

#[test]
fn a_cancelled_export_does_not_look_whole() {
    let server = Server::start();
    // More than the connection and the queue of chunks hold.
    let line = format!("{}\n", "x".repeat(10_000));
    for _ in 0..40 {
        assert_eq!(server.post("/insert/lines", line.repeat(400).as_bytes()).status, 200);
    }
    let mut stream = server.connect();
    write!(stream, "GET /api/v1/export?format=raw HTTP/1.1\r\nHost: {}\r\n\r\n", server.http)
        .unwrap();
    let mut reader = BufReader::new(stream);
    let (status, head) = read_head(&mut reader).unwrap();
    assert_eq!(status, 200);
    let id = &head.iter().find(|(name, _)| name == "x-loginson-query-id").unwrap().1;
    let entry = server.get(&format!("/api/v1/queries/{id}")).json();
    assert_eq!((&entry["kind"], &entry["state"]), (&"export".into(), &"running".into()));
    let cancelled = server.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"");
    assert_eq!(cancelled.status, 200);
    let mut read = || loop {
        match read_chunk(&mut reader) {
            Ok(Some(_)) => {}
            end => return end.is_ok(),
        }
    };
    assert!(!read(), "the answer breaks off");
}

/// A line of `/proc/PID/status` in KiB.
fn status_kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// More rows than are held in memory to sort them, all with the same time as far as the metadata of
/// blocks shows: the worst case. `LOGINSON_EXPORT_LINES` sets how many; the default is small for
/// today's machines.
#[test]
fn memory_stays_the_same_whatever_the_size() {
    const LINE_BYTES: usize = 4_000;
    const GROWTH_KIB_MAX: u64 = 200 << 10;
    let config = "[store]\ncache_bytes_max = '16MiB'\nqueue_bytes_max = '16MiB'\n";
    let server = Server::start_with(&[], config);
    let count: usize = std::env::var("LOGINSON_EXPORT_LINES")
        .map_or(64_000, |text| text.parse().expect("LOGINSON_EXPORT_LINES is a number"));
    let padding = "x".repeat(LINE_BYTES);
    for batch in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let line = |i: &usize| {
            let second = i * 7_919 % 86_400;
            let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
            format!(
                "<14>1 2026-01-31T{hour:02}:{minute:02}:{second:02}Z web app - - - {i} {padding}\n"
            )
        };
        let body: String = batch.iter().map(line).collect();
        assert_eq!(server.post("/insert/lines", body.as_bytes()).status, 200);
    }
    let parsed = |server: &Server| server.status()["parse_lag_lines"] == 0;
    server.wait_for("all is parsed", parsed);
    // Sealing takes memory of its own. A row of the summary may come later and begin a new segment.
    assert_eq!(server.post("/api/v1/seal", b"").status, 202);
    server.wait_for("all lines are sealed", |server| {
        let store = &server.status()["store"];
        store["sealed_bytes_raw"] == store["bytes_raw"] && store["sealing"]["lag_segments"] == 0
    });
    let before = status_kib(server.pid(), "VmRSS:");
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
    let mut stream = server.connect();
    let path = format!("/api/v1/export?format=raw&query={}", encoded("_type:syslog"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    // Only the time of each line is kept here.
    let (mut lines, mut last, mut rest) = (0, Vec::new(), Vec::new());
    while let Some(chunk) = read_chunk(&mut reader).unwrap() {
        rest.extend(chunk);
        let whole = rest.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        for line in rest[..whole].split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let time = line[6..26].to_vec();
            assert!(last <= time, "in the order of time");
            (last, lines) = (time, lines + 1);
        }
        rest.drain(..whole);
    }
    assert_eq!((lines, rest.len()), (count, 0));
    let peak = status_kib(server.pid(), "VmHWM:");
    assert!(peak < before + GROWTH_KIB_MAX, "{before} KiB before, {peak} KiB at most");
}
