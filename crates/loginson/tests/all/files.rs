//! The real binary follows files, under a real logrotate and over kill -9: every line is stored
//! once.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::Server;

const ROTATIONS: usize = 4;
const KILLS: usize = 4;
/// Pause between two groups of lines, so that a run does not produce gigabytes.
const PAUSE: Duration = Duration::from_millis(2);

fn append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).unwrap()
}

/// A program that writes numbered lines until it is stopped.
struct Writer {
    over: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    /// Held while it writes a group.
    writing: Arc<Mutex<()>>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(path: PathBuf) -> Writer {
        let (over, reopen, written, writing) =
            (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        let own: (Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicUsize>, Arc<Mutex<()>>) =
            (Arc::clone(&over), Arc::clone(&reopen), Arc::clone(&written), Arc::clone(&writing));
        let thread = thread::spawn(move || {
            let (over, reopen, written, writing) = own;
            let mut file = append(&path);
            while !over.load(Ordering::Relaxed) {
                let writing = writing.lock().unwrap();
                if reopen.swap(false, Ordering::Relaxed) {
                    file = append(&path);
                }
                for _ in 0..50 {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    writeln!(file, "line {number} of a program that writes to a file").unwrap();
                }
                drop(writing);
                thread::sleep(PAUSE);
            }
        });
        Writer { over, reopen, written, writing, thread }
    }

    fn wait_for_more(&self, lines: usize) {
        let wanted = self.written.load(Ordering::Relaxed) + lines;
        while self.written.load(Ordering::Relaxed) < wanted {
            thread::sleep(PAUSE);
        }
    }

    /// Stops it; returns how many lines it wrote.
    fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

fn logrotate(dir: &Path, path: &Path, settings: &str) {
    let config = dir.join("logrotate.conf");
    fs::write(&config, format!("{} {{\nrotate 100\n{settings}\n}}\n", path.display())).unwrap();
    let state = dir.join("logrotate.state");
    let mut run = Command::new("logrotate");
    run.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let run = run.args(["--force", "--state"]).arg(&state).arg(&config).output();
    let output = run.expect("logrotate is installed (make test-deps)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each line was stored once.
fn check_lines(server: &Server, lines: usize) {
    server.wait_for("all lines", |server| server.count("NOT _type:summary") >= lines as u64);
    let mut times: HashMap<usize, usize> = HashMap::new();
    for line in server.raw("NOT _type:summary") {
        let line = String::from_utf8(line).unwrap();
        let number = line.strip_prefix("line ").and_then(|rest| rest.split_once(' '));
        let (number, rest) = number.unwrap_or_else(|| panic!("not a whole line: {line:?}"));
        assert_eq!(rest, "of a program that writes to a file");
        *times.entry(number.parse().unwrap()).or_default() += 1;
    }
    let wrong: Vec<_> = (0..lines)
        .filter_map(|n| Some((n, times.get(&n).copied().unwrap_or(0))).filter(|(_, t)| *t != 1))
        .take(5)
        .collect();
    assert!(wrong.is_empty() && times.len() == lines, "lines and how often they came: {wrong:?}");
}

fn follow(dir: &Path, pattern: &str) -> String {
    format!("{}/{pattern}", dir.display())
}

#[test]
fn logrotate_that_renames_loses_nothing() {
    for (pattern, settings) in [("*.log", "nocompress"), ("*.log*", "nocompress\ncreate")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.log");
        let server = Server::start_with(&["--follow", &follow(dir.path(), pattern)], "");
        let writer = Writer::start(path.clone());
        // A file that was not seen under its name is not recognised under another.
        server.wait_for("the first lines", |server| server.count("program") > 0);
        for _ in 0..ROTATIONS {
            writer.wait_for_more(200);
            logrotate(dir.path(), &path, settings);
            // The program keeps writing to the renamed file for a while.
            writer.wait_for_more(200);
            writer.reopen.store(true, Ordering::Relaxed);
            while writer.reopen.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
            // Also the new file has some of these lines, so the server has seen it under its name.
            writer.wait_for_more(200);
            let lines = writer.written.load(Ordering::Relaxed) as u64;
            server.wait_for("the new file", |server| server.count("program") >= lines);
        }
        let lines = writer.end();
        check_lines(&server, lines);
        assert_eq!(server.get("/api/v1/files").json()["bytes_lost"], 0);
    }
}

#[test]
fn logrotate_that_copies_and_truncates_loses_nothing_that_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.log");
    let server = Server::start_with(&["--follow", &follow(dir.path(), "*.log")], "");
    let writer = Writer::start(path.clone());
    for _ in 0..ROTATIONS {
        writer.wait_for_more(200);
        // Lines between the copy and the truncation are lost, whoever follows the file.
        let still = writer.writing.lock().unwrap();
        let lines = writer.written.load(Ordering::Relaxed);
        server.wait_for("what was written", |server| server.count("program") == lines as u64);
        logrotate(dir.path(), &path, "copytruncate\ncompress");
        drop(still);
    }
    let lines = writer.end();
    check_lines(&server, lines);
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_files_bytes_lost_total 0\n"), "{metrics}");
}

#[test]
fn kill_9_while_following() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("program.log");
    let arguments = ["--follow".to_owned(), follow(dir.path(), "*.log")];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let writer = Writer::start(path.clone());
    for round in 0..KILLS {
        let before = writer.written.load(Ordering::Relaxed) as u64;
        let mut server = Server::start_in(data.path(), &arguments, "");
        if round % 2 == 0 {
            server.wait_for("lines of this round", |server| server.count("program") > before);
        }
        writer.wait_for_more(fastrand::usize(1..2000));
        if round == 1 {
            logrotate(dir.path(), &path, "nocompress");
            writer.reopen.store(true, Ordering::Relaxed);
        }
        server.kill();
    }
    let lines = writer.end();
    let mut server = Server::start_in(data.path(), &arguments, "");
    check_lines(&server, lines);
    // After an orderly stop nothing is repeated either.
    assert_eq!(server.terminate(), Some(0));
    check_lines(&Server::start_in(data.path(), &arguments, ""), lines);
}

#[test]
fn files_are_cut_typed_and_shown_as_configured() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("app")).unwrap();
    let config = format!(
        r#"
        [[files]]
        paths = ["{0}/**/*.log"]
        exclude = ["old-*"]
        type = "shop"
        fields = {{ env = "test" }}
        multiline = {{ continue = '^(\s|Caused by)' }}
        record_age = "100ms"
        "#,
        dir.path().display()
    );
    let server = Server::start_with(&[], &config);
    let path = dir.path().join("app/a.log");
    let mut file = append(&path);
    write!(file, "2024-01-02 03:04:05 ERROR oh\n\tat here\nCaused by: that\n{{\"n\":1}}\n")
        .unwrap();
    append(&dir.path().join("app/old-a.log")).write_all(b"no\n").unwrap();
    append(&dir.path().join("app/a.log.gz")).write_all(b"no\n").unwrap();
    server.wait_for("both records", |server| server.count("NOT _type:summary") == 2);
    let rows = server.query("_type:shop env:test oh", "");
    assert_eq!(rows[0]["_file"], path.to_str().unwrap());
    assert_eq!(rows[0]["_msg"], "2024-01-02 03:04:05 ERROR oh\n\tat here\nCaused by: that");
    assert_eq!(rows[0]["_level"], "error");
    assert_eq!(server.count(&format!("_file:=\"{}\"", path.display())), 2);
    let files = server.get("/api/v1/files?limit=1").json();
    assert_eq!(files["followed"], 1);
    assert_eq!(files["files"][0]["path"], path.to_str().unwrap());
    assert_eq!(files["files"][0]["state"], "following");
    server.wait_for("what is durable to be known", |server| {
        server.get("/api/v1/files").json()["lag_bytes"] == 0
    });
    let counts = server.ingest("file");
    assert_eq!((&counts["lines_received"], &counts["lines_kept"]), (&2.into(), &2.into()));
    assert_eq!(counts["bytes_received"], fs::metadata(&path).unwrap().len() - 2);
}

#[test]
fn invalid_patterns_are_reported_at_the_start() {
    let data = tempfile::tempdir().unwrap();
    let mut command = crate::common::serve_command(data.path());
    let output = command.args(["--follow", "/var/log/[x"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("'/var/log/[x' is not a pattern"),
        "{error}"
    );
}

/// Lines behind the last checkpoint were sealed meanwhile: in another order, in columns, among
/// others. They are found there, so none is stored twice.
#[test]
fn sealed_lines_are_not_read_again_after_a_kill() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (dir.path().join("one.log"), dir.path().join("other.log"));
    // Lines are sealed as soon as they are parsed and counted.
    let config = "[store]\nsegment_bytes_max = '1MiB'\n[summary]\nbucket = '1s'\nflush_interval = '1s'\n\
                  flush_delay = '0s'\n";
    let pattern = follow(dir.path(), "*.log");
    let arguments = ["--follow", &pattern];
    let mut server = Server::start_in(data.path(), &arguments, config);
    let checkpoint = data.path().join("files.checkpoint");
    let (mut first, mut second) = (append(&one), append(&other));
    first.write_all(b"line 0 of a program that writes to a file\n").unwrap();
    second.write_all(b"line 1 of a program that writes to a file\n").unwrap();
    server.wait_for("both files", |server| {
        server.get("/api/v1/files").json()["lag_bytes"] == 0 && server.count("program") == 2
    });
    // The killed server is later reset to the checkpoint of this moment.
    server.wait_for("the checkpoint", |_| fs::metadata(&checkpoint).is_ok());
    let before = fs::read(&checkpoint).unwrap();
    let lines = 60_000;
    for number in 2..lines {
        let file = if number % 3 == 0 { &mut first } else { &mut second };
        writeln!(file, "line {number} of a program that writes to a file").unwrap();
    }
    server.wait_for("lines to be sealed", |server| {
        let store = &server.status()["store"];
        server.count("program") == lines as u64
            && store["sealing"]["lag_segments"] == 0
            && store["sealed_bytes_raw"].as_u64() > Some(1 << 20)
    });
    server.kill();
    fs::write(&checkpoint, before).unwrap();
    let server = Server::start_in(data.path(), &arguments, config);
    server.wait_for("the files", |server| server.get("/api/v1/files").json()["lag_bytes"] == 0);
    check_lines(&server, lines);
}

/// The messages with time and level, ordered by time.
fn messages(server: &Server) -> Vec<[String; 3]> {
    let rows = server.query("_time:[2020,2100] NOT _type:summary | sort by (_time)", "");
    let value = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or("-").to_owned();
    rows.iter().map(|row| ["_time", "_level", "_msg"].map(|name| value(row, name))).collect()
}

#[test]
fn records_of_several_lines_need_no_setting() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "2023-06-06 04:48:11,735 ERROR app boom\njava.lang.X: y\n\tat a.B.c(B.java:1)";
    fs::write(
        dir.path().join("java.log"),
        format!("{trace}\n2023-06-06 04:48:12,000 INFO app next\n"),
    )
    .unwrap();
    let cri = "2023-06-06T04:49:11.1Z stdout P part one \n2023-06-06T04:49:11.2Z stderr F err between\n\
        2023-06-06T04:49:11.3Z stdout P part two \n2023-06-06T04:49:11.4Z stdout F end\n";
    fs::write(dir.path().join("cri.log"), cri).unwrap();
    let slow = "# Time: 2023-06-06T04:50:00Z\n# User@Host: app[app] @ localhost []  Id:     2\n\
        # Query_time: 0.011853  Lock_time: 0.011542  Rows_sent: 268  Rows_examined: 268\n\
        SET timestamp=1611704757;\nSELECT a FROM t;";
    fs::write(dir.path().join("slow.log"), format!("{slow}\n")).unwrap();
    let server = Server::start_with(&["--follow", &follow(dir.path(), "*.log")], "");
    server.wait_for("all records", |server| messages(server).len() >= 5);
    let expected = [
        ["2023-06-06T04:48:11.735Z", "error", trace],
        ["2023-06-06T04:48:12Z", "info", "2023-06-06 04:48:12,000 INFO app next"],
        ["2023-06-06T04:49:11.1Z", "-", "part one part two end"],
        ["2023-06-06T04:49:11.2Z", "-", "err between"],
        ["2023-06-06T04:50:00Z", "-", slow],
    ];
    assert_eq!(messages(&server), expected);
    assert_eq!(server.count("_time:[2020,2100] Query_time:=0.011853"), 1);
}

#[test]
fn interleaved_records_are_there_once_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.log");
    let data = tempfile::tempdir().unwrap();
    let pattern = follow(dir.path(), "*.log");
    let mut server = Server::start_in(data.path(), &["--follow", &pattern], "");
    let mut lines = 0;
    for round in 0..KILLS {
        let mut text = String::new();
        for number in lines..lines + 300 {
            let time = format!("2023-06-06T04:{:02}:{:02}Z", number / 60 % 60, number % 60);
            text.push_str(&format!(
                "{time} stdout P out {number}\n{time} stderr F err {number}\n{time} stdout F  end\n"
            ));
        }
        lines += 300;
        append(&path).write_all(text.as_bytes()).unwrap();
        if round + 1 < KILLS {
            server.wait_for("some lines", |server| server.count("_time:[2020,2100] end") > 0);
        }
        server.kill();
        server = Server::start_in(data.path(), &["--follow", &pattern], "");
    }
    server.wait_for("all records", |server| {
        server.count("_time:[2020,2100] NOT _type:summary") >= 2 * lines
    });
    assert_eq!(server.count("_time:[2020,2100] NOT _type:summary"), 2 * lines);
    assert_eq!(server.count("_time:[2020,2100] ~\"^out [0-9]+ end$\""), lines);
}
