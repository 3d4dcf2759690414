//! The journal of systemd: a real `journalctl` on journals written by a real
//! `systemd-journal-remote`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Server;

const REMOTE: &str = "/lib/systemd/systemd-journal-remote";

/// Appends entries to a journal; text that is not UTF-8 is encoded as systemd's export format
/// requires.
fn append(journal: &Path, messages: &[(usize, &[u8])]) {
    let mut export = Vec::new();
    for (number, message) in messages {
        write!(
            export,
            "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n\
             _BOOT_ID=0123456789abcdef0123456789abcdef\n_HOSTNAME=box\nSYSLOG_IDENTIFIER=app\n\
             PRIORITY=3\n_PID=42\n_SYSTEMD_UNIT=app.service\nMESSAGE\n",
            1_700_000_000_000_000 + number,
            1000 + number
        )
        .unwrap();
        export.extend_from_slice(&(message.len() as u64).to_le_bytes());
        export.extend_from_slice(message);
        export.extend_from_slice(b"\n\n");
    }
    let mut remote = Command::new(REMOTE);
    remote.arg("--output").arg(journal).arg("-").stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut remote = remote.spawn().expect("systemd-journal-remote is installed (make test-deps)");
    remote.stdin.take().unwrap().write_all(&export).unwrap();
    let output = remote.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn append_numbers(journal: &Path, numbers: std::ops::Range<usize>) {
    let messages: Vec<(usize, String)> = numbers.map(|n| (n, format!("message {n}"))).collect();
    let messages: Vec<_> = messages.iter().map(|(n, text)| (*n, text.as_bytes())).collect();
    append(journal, &messages);
}

/// Each message was stored once.
fn check(server: &Server, messages: usize) {
    server.wait_for("all entries", |server| server.count("_type:journald") >= messages as u64);
    let rows = server.query("_type:journald", "");
    let mut found: Vec<usize> = rows
        .iter()
        .map(|row| row["_msg"].as_str().unwrap().strip_prefix("message ").unwrap().parse().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, (0..messages).collect::<Vec<_>>());
}

#[test]
fn entries_become_records_and_come_once_over_kills() {
    let (journals, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let journal = journals.path().join("a.journal");
    let config =
        format!("[journald]\nenabled = true\ndirectory = \"{}\"\n", journals.path().display());
    append_numbers(&journal, 0..100);
    let mut server = Server::start_in(data.path(), &[], &config);
    check(&server, 100);
    append_numbers(&journal, 100..200);
    check(&server, 200);
    let row = &server.query("\"message 150\"", "")[0];
    for (field, value) in [
        ("_time", "2023-11-14T22:13:20.00015Z"),
        ("hostname", "box"),
        ("app_name", "app"),
        ("proc_id", "42"),
        ("severity", "3"),
        ("level", "error"),
        ("_SYSTEMD_UNIT", "app.service"),
    ] {
        assert_eq!(row[field], value, "{field}");
    }
    // Killed right after the entries, before or after a checkpoint; and while entries arrive.
    for round in 2..6 {
        server.kill();
        append_numbers(&journal, round * 100..round * 100 + 50);
        server = Server::start_in(data.path(), &[], &config);
        append_numbers(&journal, round * 100 + 50..round * 100 + 100);
        if round % 2 == 0 {
            check(&server, round * 100 + 100);
        }
    }
    check(&server, 600);
    assert_eq!(server.terminate(), Some(0));
    server = Server::start_in(data.path(), &[], &config);
    append_numbers(&journal, 600..601);
    check(&server, 601);
    let counts = server.ingest("journald");
    assert_eq!((&counts["lines_received"], &counts["lines_kept"]), (&1.into(), &1.into()));
}

#[test]
fn messages_that_are_no_text_are_kept() {
    let journals = tempfile::tempdir().unwrap();
    append(&journals.path().join("a.journal"), &[(0, b"one\ntwo\xff"), (1, b"")]);
    let config =
        format!("[journald]\nenabled = true\ndirectory = \"{}\"\n", journals.path().display());
    let server = Server::start_with(&[], &config);
    server.wait_for("both", |server| server.count("_type:journald") == 2);
    let rows = server.query("one", "");
    assert_eq!(rows[0]["_msg"], "one\ntwo\u{fffd}");
}

#[test]
fn a_journalctl_that_ends_is_reported_and_restarted() {
    let bin = tempfile::tempdir().unwrap();
    let (program, times) = (bin.path().join("journalctl"), bin.path().join("times"));
    fs::write(
        &program,
        format!(
            "#!/bin/sh\necho x >> {0}\nn=$(wc -l < {0})\n\
             echo '{{\"__CURSOR\":\"c'$n'\",\"__REALTIME_TIMESTAMP\":\"170000000000000'$n'\",\"MESSAGE\":\"m '$n' '$*'\"}}'\n\
             [ $n -gt 1 ] && sleep 60\necho 'no such journal' >&2\nexit 1\n",
            times.display()
        ),
    )
    .unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let config = format!(
        "[journald]\nenabled = true\nprogram = \"{}\"\nunits = [\"a.service\"]\n",
        program.display()
    );
    let server = Server::start_with(&[], &config);
    server.wait_for("a second start", |server| server.count("_type:journald") == 2);
    server.wait_for_log("it ended: no such journal");
    let second = &server.query("\"m 2\"", "")[0]["_msg"];
    let second = second.as_str().unwrap();
    assert!(
        second.contains("--after-cursor=c1") && second.contains("--unit a.service"),
        "{second}"
    );
}
