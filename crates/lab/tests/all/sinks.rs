//! The limit of the generator, measured by the whole program against a sink in the place of a
//! server with the protocol of Redis.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::liars::redis::{Lie, Redis};
use lab::results::{Directory, Line, Outcome};
use lab::trial::Role;

/// Answers per second of trials with this role, and the seconds of the last one.
fn rate(lines: &[Line], role: Role) -> Option<f64> {
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    if header.trial.role != role {
        return None;
    }
    let answers = lines.iter().filter_map(|line| match line {
        Line::Second(second) => Some(second.count),
        _ => None,
    });
    let Some(Line::End(end)) = lines.last() else { panic!("no end") };
    assert_eq!(end.outcome, Outcome::Completed, "{:?}", header.trial.role);
    Some(answers.sum::<u64>() as f64 / end.seconds)
}

/// The rates of a run of one experiment against `store`: reached, and of the limit.
fn rates(store: &[&str]) -> [Vec<f64>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    command.args(["run", "apm", "--scale", "smoke", "--experiments", "rw", "--repetitions", "1"]);
    command.args(store).args(["--out", out.to_str().unwrap()]).stdin(Stdio::null());
    command.args(["--home", folder.path().join("home").to_str().unwrap()]);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let directory = Directory::open(&out).unwrap().0;
    let trials: Vec<Vec<Line>> =
        directory.trials().unwrap().iter().map(|name| directory.read(name).unwrap()).collect();
    [Role::Measure, Role::Limit]
        .map(|role| trials.iter().filter_map(|trial| rate(trial, role)).collect())
}

/// A server that waits before each answer is measured as slow as that; the sink that repeats its
/// answers does not wait, and it sends nothing to the server.
#[test]
fn a_sink_answers_with_what_the_server_answered_and_does_not_wait() {
    let server = Redis::waiting(Lie::None, Duration::from_millis(50));
    let endpoint = format!("redis={}", server.endpoint());
    let [reached, limit] = rates(&["--stores", "redis", "--endpoint", &endpoint]);
    assert_eq!((reached.len(), limit.len()), (1, 1));
    assert!(limit[0] > 2.0 * reached[0], "{limit:?} without the server, {reached:?} with it");
    assert_eq!(server.rows_of("limit"), 0, "the table of the limit is empty afterwards");
}

/// Each shard has a sink in its place, and processes of this machine reach them all.
#[test]
fn shards_have_a_limit_also_of_several_processes() {
    let servers = [(), ()].map(|()| Redis::waiting(Lie::None, Duration::from_millis(50)));
    let endpoints = servers.each_ref().map(|server| server.endpoint());
    let endpoints = format!("redis={}", endpoints.join(","));
    let store = ["--stores", "redis", "--endpoint", &endpoints, "--processes", "2"];
    let [reached, limit] = rates(&store);
    assert_eq!((reached.len(), limit.len()), (1, 1));
    assert!(limit[0] > 2.0 * reached[0], "{limit:?} without the servers, {reached:?} with them");
    assert!(servers.iter().all(|server| server.rows_of("limit") == 0), "emptied on each");
}

/// Stands between the lab and the program of a store, and waits before each request.
const SLOW: &str = r#"#!/usr/bin/env python3
import os, subprocess, sys, time
if sys.argv[1] == "describe":
    os.execv("PROGRAM", ["PROGRAM", "describe"])
store = subprocess.Popen(["PROGRAM", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    time.sleep(0.05)
    store.stdin.write(line)
    store.stdin.flush()
    sys.stdout.buffer.write(store.stdout.readline())
    sys.stdout.buffer.flush()
"#;

/// The limit of a store behind a program is that of the pipe to it: SQLite that is slow is slow,
/// and the pipe is not.
#[test]
fn the_limit_of_a_store_behind_a_program_is_that_of_the_pipe() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let sqlite = std::fs::canonicalize("../../docs/lab/sqlite.py").unwrap();
    let slow = folder.path().join("slow.py");
    std::fs::write(&slow, SLOW.replace("PROGRAM", sqlite.to_str().unwrap())).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = format!("slow={}", slow.display());
    let port = format!("slow.port={free}");
    let [reached, limit] = rates(&["--stores", "slow", "--program", &program, "--set", &port]);
    assert_eq!((reached.len(), limit.len()), (1, 1));
    assert!(limit[0] > 2.0 * reached[0], "{limit:?} of the pipe, {reached:?} with the store");
}
