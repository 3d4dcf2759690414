//! `loginson migrate`: every line of a source once, also after kills, counted and compared. The
//! sources are the APIs of VictoriaLogs, Loki and Elasticsearch that a server has itself, and
//! files; `make test-migrate` takes the lines of the real VictoriaLogs over.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{Server, loginson};

/// Lines of the source, one a second from 2026-01-31T00:00:00Z on; each tenth is there twice.
const LINES: usize = 3000;

fn source() -> Server {
    let server = Server::start();
    let mut lines = String::new();
    for i in 0..LINES {
        let (hour, minute, second) = (i / 3600, i / 60 % 60, i % 60);
        let line = format!(
            "{{\"_time\":\"2026-01-31T{hour:02}:{minute:02}:{second:02}Z\",\"_msg\":\"order {i} done\",\"app\":\"a{}\"}}\n",
            i % 3
        );
        lines.push_str(&line);
        if i % 10 == 0 {
            lines.push_str(&line);
        }
    }
    let answer = server.post("/insert/jsonline?_stream_fields=app", lines.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    server
}

struct Migration<'m> {
    target: &'m Server,
    state: &'m Path,
    arguments: Vec<String>,
}

impl Migration<'_> {
    fn command(&self, more: &[&str]) -> Command {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let target = format!("http://{}", self.target.http);
        let mut command = loginson(&["migrate"]);
        command.args(arguments).args(more).args(["--server", &target, "--state"]).arg(self.state);
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    fn succeed(&self, more: &[&str]) -> String {
        let output = self.run(more);
        let said = said(&output);
        assert!(output.status.success(), "{:?}: {said}", self.arguments);
        said
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// What both must have: each order as often as it was sent.
fn check(target: &Server, filter: &str) {
    let rows = target.query(&format!("{filter} | stats by (_msg, _time) count() n"), "limit=0");
    assert_eq!(rows.len(), LINES, "{:?}", rows.first());
    for row in &rows {
        let message = row["_msg"].as_str().unwrap();
        let at = message.find("order ").unwrap_or_else(|| panic!("{message}")) + 6;
        let number: String = message[at..].chars().take_while(char::is_ascii_digit).collect();
        let number: usize = number.parse().unwrap();
        assert_eq!(row["n"], if number.is_multiple_of(10) { "2" } else { "1" }, "{message}");
    }
}

const ALL: u64 = LINES as u64 + LINES as u64 / 10;

#[test]
fn each_kind_of_source_and_kills() {
    let source = source();
    let (from, to) = (["--from", "2026-01-30"], ["--to", "2026-02-02"]);
    for (kind, place, query) in [
        ("victorialogs", "", "--query=*"),
        ("loki", "", "--query={app=~\".+\"}"),
        ("elasticsearch", "/elastic", "--index=*"),
    ] {
        let (target, folder) = (Server::start(), tempfile::tempdir().unwrap());
        let state = folder.path().join("state");
        let url = format!("http://{}{place}", source.http);
        let arguments = [&[kind, &url, query], &from[..], &to].concat();
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        let migration = Migration { target: &target, state: &state, arguments };
        // Killed at its beginning, and while it sends.
        for lines in [0, 1, 500] {
            let mut process =
                migration.command(&["--rate", "100"]).stderr(Stdio::null()).spawn().unwrap();
            target.wait_for("lines", |target| {
                target.count("_file:migration*") >= lines && state.join("state.json").exists()
            });
            process.kill().unwrap();
            process.wait().unwrap();
        }
        let told = migration.succeed(&[]);
        let expected =
            format!("the source counted {ALL}, {ALL} arrived, {ALL} were read back and are equal");
        assert!(told.contains(&expected), "{kind}: {told}");
        check(&target, "_file:migration*");
        // Everything is there: nothing is sent again.
        migration.succeed(&[]);
        assert_eq!(target.count("_file:migration*"), ALL);
        let report = fs::read_to_string(state.join("report.jsonl")).unwrap();
        let sum = |key: &str| -> u64 {
            let rows = report.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            rows.map(|row| row[key].as_u64().unwrap()).sum()
        };
        assert_eq!((sum("counted"), sum("arrived")), (ALL, ALL));
        let leftover = fs::read_dir(&state).unwrap().count();
        assert_eq!(leftover, 3, "state, report and lock");
        // Another migration needs another directory.
        let mut other = migration.arguments.clone();
        other.push("--source-ca=x".into());
        other[2] = other[2].replace(".+", "a.").replace("=*", "=nothing*");
        let refused = Migration { target: &target, state: &state, arguments: other }.run(&[]);
        assert!(said(&refused).contains("holds another migration"), "{}", said(&refused));
    }
}

#[test]
fn files_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let (target, state) = (Server::start(), folder.path().join("state"));
    let (mut all, mut paths) = (0, Vec::new());
    for (name, count) in [("a.ndjson", 10), ("b.ndjson.gz", 1000), ("c.log.zst", 7), ("d.log", 0)] {
        let path = folder.path().join(name);
        let file = fs::File::create(&path).unwrap();
        let mut file: Box<dyn Write> = match path.extension().unwrap().to_str().unwrap() {
            "gz" => Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
            "zst" => Box::new(zstd::Encoder::new(file, 1).unwrap().auto_finish()),
            _ => Box::new(file),
        };
        for i in 0..count {
            match name.contains("ndjson") {
                true => {
                    writeln!(file, "{{\"_msg\":\"{name} {i}\",\"_time\":\"2026-01-31T12:00:00Z\"}}")
                }
                false => writeln!(file, "2026-01-31 12:00:00 {name} {i}"),
            }
            .unwrap();
        }
        drop(file);
        all += count;
        paths.push(path.to_str().unwrap().to_owned());
    }
    let arguments = [&["files".to_owned()], &paths[..]].concat();
    let migration = Migration { target: &target, state: &state, arguments };
    let told = migration.succeed(&[]);
    assert!(told.contains(&format!("{all} were read back and are equal")), "{told}");
    assert_eq!(target.count("_file:migration*"), all);
    migration.succeed(&[]);
    assert_eq!(target.count("_file:migration*"), all);
}

#[test]
fn what_differs_and_what_is_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = |target: &Server, name: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let state = folder.path().join(name);
        let output = Migration { target, state: &state, arguments }.run(&[]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        said(&output)
    };
    // A rule of the target drops lines.
    let target = Server::start_with(&[], "[[rules]]\nname = 'r'\nfilter = 'drop'\ndrop = true\n");
    let file = folder.path().join("lines.log");
    fs::write(&file, "one\ndrop this\nthree\n").unwrap();
    let told = run(&target, "a", &["files", file.to_str().unwrap()]);
    assert!(told.contains("1 slices differ from their source"), "{told}");
    let report = fs::read_to_string(folder.path().join("a/report.jsonl")).unwrap();
    assert!(report.contains("\"arrived\":2") && report.contains("\"equal\":false"), "{report}");
    for (arguments, expected) in [
        (&["files", "/no/such/file"][..], "cannot open /no/such/file"),
        (&["loki", "http://u:p@h", "--from", "2026"], "--source-headers"),
        (&["loki", "http://h", "--from", "soon"], "--from: 'soon' is no time"),
        (&["loki", &format!("http://{}/x", target.http), "--from", "2026"], "check the address"),
    ] {
        let told = run(&target, "b", arguments);
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}
