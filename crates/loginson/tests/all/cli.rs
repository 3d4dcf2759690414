//! The commands, as users type them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use crate::common::{Server, loginson};

fn run(server: &Server, arguments: &[&str]) -> Output {
    loginson(arguments).env("LOGINSON_SERVER", format!("http://{}", server.http)).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn with_lines() -> Server {
    let server = Server::start();
    let lines = "<11>1 2026-01-31T12:00:00Z web1 nginx - - - first \x1b[31mred\n<14>1 2026-01-31T12:00:01Z web2 sshd - - - second\n";
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    server
}

#[test]
fn query_in_each_format() {
    let server = with_lines();
    let lines = text(&run(&server, &["query", "*"]));
    assert_eq!(
        lines,
        "2026-01-31T12:00:01Z info    web2 sshd: second\n2026-01-31T12:00:00Z error   web1 nginx: first \\x1b[31mred\n"
    );
    let json = text(&run(&server, &["query", "--format", "json", "second"]));
    let row: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
    assert_eq!(row["_msg"], "second");
    let plan = text(&run(&server, &["query", "--explain", "second | stats count() n"]));
    assert!(plan.contains("only if it may hold \"second\""), "{plan}");
    let plan = text(&run(&server, &["query", "--explain", "--format", "json", "second"]));
    assert!(serde_json::from_str::<serde_json::Value>(&plan).unwrap().is_object(), "{plan}");
    let raw = text(&run(&server, &["query", "--format", "raw", "hostname:web1"]));
    assert_eq!(raw, "<11>1 2026-01-31T12:00:00Z web1 nginx - - - first \x1b[31mred\n");
    assert_eq!(text(&run(&server, &["query", "* | stats count() n"])), "n=2\n");
    assert_eq!(
        text(&run(&server, &["query", "--start", "2026-01-31T12:00:01Z", "*"])).lines().count(),
        1
    );
    let limited = run(&server, &["query", "--limit", "1", "*"]);
    assert!(text(&limited).contains("second"));
    assert!(String::from_utf8_lossy(&limited.stderr).contains("--limit 0 shows all"));
}

#[test]
fn mistakes_are_explained() {
    let server = with_lines();
    let wrong = run(&server, &["query", "level:error | frobnicate"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1..], ["  level:error | frobnicate", "                ^"], "{said}");
    let gone = loginson(&["query", "--server", "http://127.0.0.1:1", "*"]).output().unwrap();
    assert!(String::from_utf8_lossy(&gone.stderr).contains("start one with `loginson`"));
    let https = format!("https://{}", server.http);
    let https = loginson(&["query", "--server", &https, "*"]).output().unwrap();
    let said = String::from_utf8_lossy(&https.stderr).into_owned();
    assert!(said.contains("speak HTTP there, not HTTPS"), "{said}");
    for arguments in [
        &["--help"][..],
        &["query", "--help"],
        &["tail", "--help"],
        &["import", "--help"],
        &["serve", "--help"],
        &["generate", "--help"],
        &["export", "--help"],
        &["backup", "--help"],
        &["restore", "--help"],
        &["verify", "--help"],
        &["inspect", "--help"],
        &["mcp", "--help"],
        &["status", "--help"],
        &["top", "--help"],
        &["doctor", "--help"],
        &["sizing", "--help"],
        &["check-config", "--help"],
        &["reload", "--help"],
    ] {
        assert!(text(&run(&server, arguments)).contains("Examples:\n"), "{arguments:?}");
    }
    assert_eq!(
        text(&run(&server, &["--version"])),
        format!("loginson {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn tail_follows() {
    let server = with_lines();
    let mut child = loginson(&["tail", "apple", "--server", &server.http])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
    server.wait_for("the tail runs", |server| {
        server.get("/api/v1/queries").json()["queries"][0]["kind"] == "tail"
    });
    for i in 0..3 {
        assert_eq!(
            server.post("/insert/lines", format!("apple {i}\npear\n").as_bytes()).status,
            200
        );
        assert!(shown.next().unwrap().unwrap().ends_with(&format!("plain: apple {i}")));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.wait_for("the server sees that it is gone", |server| {
        server.get("/api/v1/queries").json()["queries"][0]["state"] != "running"
    });
}

#[test]
fn import_from_standard_input() {
    let server = Server::start();
    let address = format!("http://{}", server.http);
    let mut child = loginson(&["import", "--server", &address, "--type", "piped", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for i in 0..100_000 {
        writeln!(stdin, "line {i} {}", "z".repeat(60)).unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("100000 lines, "), "{said}");
    assert_eq!(server.count("_type:piped"), 100_000);
}

#[test]
fn the_ready_file_names_the_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ready.json");
    let server = Server::start_with(&["--ready-file", file.to_str().unwrap()], "");
    server.wait_for("the file is there", |_| file.exists());
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(ready, server.status()["listeners"]);
}

#[test]
fn signals_end_it_well() {
    let mut server = with_lines();
    assert_eq!(server.terminate(), Some(0));
    server.wait_for_log("SIGTERM: shutting down");
    server.wait_for_log("stopped");
}
