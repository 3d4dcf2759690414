//! util-linux' `logger`: TCP and UDP, RFC 5424 and 3164, newline- and octet-framed.

use std::net::SocketAddr;
use std::process::Command;

use crate::common::Server;
use crate::senders::check::{self, Expected};
use crate::senders::corpus::{Input, inputs};
use crate::senders::sender::{Daemon, program};

/// Sends the lines of all applications concurrently, with one `logger` each.
fn send(inputs: &[Input], address: SocketAddr, arguments: &[&str]) {
    let logger = program(&["/usr/bin/logger"]);
    let start = |input: &Input| {
        let mut command = Command::new(&logger);
        command.arg("--server").arg(address.ip().to_string());
        command.arg("--port").arg(address.port().to_string());
        command.args(["--size", "8192", "--tag", input.app.name]);
        command.args(["--priority", &format!("{}.{}", input.app.facility, input.app.severity)]);
        Daemon::start(command.arg("--file").arg(&input.path).args(arguments))
    };
    let loggers: Vec<Daemon> = inputs.iter().map(start).collect();
    loggers.into_iter().for_each(Daemon::wait);
}

/// The name that `logger` writes: this machine's.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim_end().to_owned()
}

/// The message that `logger` sends for a line, except its time, which is taken from the stored line
/// and checked against `_time`.
fn sent_5424(input: &Input, line: &str) -> (String, String) {
    let before = format!("<{}>1 ", input.app.priority);
    (before, format!(" {} {} - - - {line}", hostname(), input.app.name))
}

fn sent_3164(input: &Input, line: &str) -> (String, String) {
    let hostname = hostname();
    // RFC 3164 §4.1.2: without the domain.
    let hostname = hostname.split('.').next().unwrap();
    (format!("<{}>", input.app.priority), format!(" {hostname} {}: {line}", input.app.name))
}

/// Checks each raw line except its time of `time_bytes` bytes. Returns the number of lines.
fn check_raw(
    server: &Server,
    inputs: &[Input],
    sent: fn(&Input, &str) -> (String, String),
    time_bytes: usize,
) -> usize {
    let lines = inputs.iter().flat_map(|input| input.lines.iter().map(move |l| (input, l)));
    let number_of = |raw: &[u8]| {
        let raw = String::from_utf8(raw.to_vec()).expect("only text was sent");
        let at = raw.find('#').expect("the number of the line") + 1;
        (raw[at..at + 6].parse::<usize>().expect("six digits"), raw)
    };
    let mut found: Vec<_> = check::raw_lines(server).iter().map(|line| number_of(line)).collect();
    found.sort();
    let mut lines = lines.enumerate();
    for (number, raw) in &found {
        let (_, (input, line)) = lines.find(|(n, _)| n == number).expect("sent, and stored once");
        let (before, behind) = sent(input, line);
        assert!(raw.starts_with(&before) && raw.ends_with(&behind), "{raw:?} is not {behind:?}");
        assert_eq!(raw.len(), before.len() + time_bytes + behind.len(), "{raw:?}");
    }
    found.len()
}

fn tcp(arguments: &[&str], sent: fn(&Input, &str) -> (String, String), time_bytes: usize) {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let inputs = inputs(directory.path());
    let lines = inputs.iter().map(|input| input.lines.len()).sum();
    send(&inputs, server.syslog_tcp(), arguments);
    assert_eq!(check::wait_for_lines(&server, "syslog_tcp", lines), 0);
    assert_eq!(check_raw(&server, &inputs, sent, time_bytes), lines);
    let time = if time_bytes > 15 { check::time_5424 } else { check::time_3164 };
    let expected = Expected { hostname: &hostname(), inputs: &inputs, time };
    check::fields(&server, &expected);
}

const TIME_5424_BYTES: usize = "2026-01-31T12:00:00.123456+00:00".len();
const TIME_3164_BYTES: usize = "Jan 31 12:00:00".len();

#[test]
fn tcp_rfc5424() {
    tcp(&["--tcp", "--rfc5424=notq"], sent_5424, TIME_5424_BYTES);
}

#[test]
fn tcp_rfc3164_octet_framed() {
    tcp(&["--tcp", "--rfc3164", "--octet-count"], sent_3164, TIME_3164_BYTES);
}

#[test]
fn udp_rfc5424() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let inputs = inputs(directory.path());
    let lines: usize = inputs.iter().map(|input| input.lines.len()).sum();
    send(&inputs, server.syslog_udp(), &["--udp", "--rfc5424=notq"]);
    let dropped = check::wait_for_lines(&server, "syslog_udp", lines);
    assert_eq!(check_raw(&server, &inputs, sent_5424, TIME_5424_BYTES), lines - dropped);
    let expected = Expected { hostname: &hostname(), inputs: &inputs, time: check::time_5424 };
    check::fields(&server, &expected);
}
