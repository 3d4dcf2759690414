//! What an operator types: is it well, what is it busy with, are the settings right.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Server, loginson, serve_command};

fn run(server: &Server, arguments: &[&str]) -> Output {
    loginson(arguments).env("LOGINSON_SERVER", format!("http://{}", server.http)).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_server_tells_how_it_is() {
    let server = Server::start();
    assert_eq!(server.post("/insert/lines", b"an apple\na pear\n").status, 200);
    assert_eq!(text(&run(&server, &["status", "--ready"])), "ready\n");
    let status = run(&server, &["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.starts_with("loginson ") && said.contains("takes lines"), "{said}");
    assert!(said.contains("none were dropped") && said.contains("backup"), "{said}");
    let json = run(&server, &["status", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["status"]["store"]["lines"], 2);
    assert!(json["findings"].as_array().is_some_and(|found| found.len() >= 3), "{json}");
    let top = text(&run(&server, &["top", "--by", "_type", "--over", "1h"]));
    assert!(top.contains("100.0%  plain") && top.contains("  HTTP\n"), "{top}");
    let away = loginson(&["status", "--server", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(away.status.code(), Some(1));
    // What the machine is like, is not for a test to say.
    let doctor =
        run(&server, &["doctor", "--json", "--data-dir", server.data_dir().to_str().unwrap()]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let subjects: Vec<&str> = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["subject"].as_str().unwrap())
        .collect();
    for subject in ["server", "directory", "disk", "backup", "clock", "files", "memory"] {
        assert!(subjects.contains(&subject), "{subject}: {doctor}");
    }
}

#[test]
fn settings_are_checked_and_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("loginson.toml");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "[query]\nrun_max = '7'\nthreds = 2\n[retention]\nage = 'soon'\n")
        .unwrap();
    let wrong = loginson(&["check-config", name]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8_lossy(&wrong.stdout).replace(name, "FILE");
    let begins: Vec<&str> = said.lines().take(3).map(|line| &line[..14]).collect();
    assert_eq!(begins, ["FILE:2: error:", "FILE:3: error:", "FILE:5: error:"], "{said}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("mistakes in"));

    std::fs::write(&file, "[retention]\nage = '30d'\n").unwrap();
    assert!(text(&loginson(&["check-config", name]).output().unwrap()).contains("no mistakes"));
    let server = Server::start_with(&["--config", name], "");
    assert_eq!(text(&run(&server, &["reload"])), "nothing changed\n");
    std::fs::write(&file, "http_hosts = ['a.example']\n[retention]\nage = '31d'\n").unwrap();
    let said = text(&run(&server, &["reload"]));
    assert!(
        said.contains("retention.age") && said.contains("after a restart: http_hosts"),
        "{said}"
    );
    std::fs::write(&file, "[retention]\nage = 'soon'\n").unwrap();
    let refused = run(&server, &["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("stay as they were") && said.contains("line 2"), "{said}");
}

#[test]
fn a_machine_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let measured = loginson(&["sizing", "--time", "1s", "--json", "--dir", dir]).output().unwrap();
    let measured: Value = serde_json::from_str(&text(&measured)).unwrap();
    for key in ["lines", "text_bytes", "disk_bytes", "memory_peak_bytes", "disk_bytes_needed"] {
        assert!(measured[key].as_u64().is_some_and(|number| number > 0), "{key}: {measured}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// The next message that begins with a word; others are left out.
fn wait_for(socket: &UnixDatagram, word: &str) {
    let mut bytes = [0; 256];
    loop {
        let length = socket.recv(&mut bytes).unwrap();
        if bytes[..length].starts_with(word.as_bytes()) {
            return;
        }
    }
}

fn tells_its_manager(mut command: Command, socket: &UnixDatagram, path: &std::path::Path) {
    command.env("NOTIFY_SOCKET", path).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    wait_for(socket, "READY=1");
    wait_for(socket, "WATCHDOG=1");
    kill_process(pid, Signal::HUP).unwrap();
    wait_for(socket, "RELOADING=1");
    wait_for(socket, "READY=1");
    kill_process(pid, Signal::TERM).unwrap();
    wait_for(socket, "STOPPING=1");
    assert!(child.wait().unwrap().success());
}

#[test]
fn systemd_is_told_what_it_asks_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    tells_its_manager(serve_command(&directory.path().join("data")), &socket, &path);
    let mut collect =
        loginson(&["collect", "--store", "127.0.0.1:1", "--http-listen", "127.0.0.1:0"]);
    collect.args(["--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]);
    collect.arg("--spool-dir").arg(directory.path().join("spool"));
    tells_its_manager(collect, &socket, &path);
}
