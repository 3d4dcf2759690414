//! Senders whose messages do not end with a newline, and those that speak another protocol to a
//! syslog port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use crate::common::Server;
use crate::senders::authority::Authority;
use crate::senders::sender::{Daemon, program};
use crate::senders::tls;

/// Waits until `refusals` connections or datagrams were refused.
fn wait_for_refusals(server: &Server, source: &str, refusals: u64) {
    server.wait_for(&format!("{refusals} refusals by {source}"), |server| {
        let dropped = &server.ingest(source)["dropped"]["wrong_protocol"];
        dropped.as_u64().unwrap_or(0) >= refusals
    });
    assert_eq!(server.ingest(source)["lines_kept"], 0, "nothing of it is kept");
}

/// Logs with the standard library of Python, and keeps the connection open until the end.
fn python(address: SocketAddr, kind: &str) -> Command {
    const SCRIPT: &str = r#"
import logging, logging.handlers, socket, sys
kind = getattr(socket, sys.argv[3])
handler = logging.handlers.SysLogHandler((sys.argv[1], int(sys.argv[2])), socktype=kind)
handler.ident = "python: "
log = logging.getLogger("test")
log.addHandler(handler)
log.propagate = False
try:
    raise ValueError("of the test")
except ValueError:
    log.exception("first")
for number in range(100):
    log.warning("number %d of <13> messages", number)
sys.stdin.read()
"#;
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT, &address.ip().to_string(), &address.port().to_string(), kind]);
    command
}

#[test]
fn python_syslog_handler() {
    for (kind, source) in [("SOCK_STREAM", "syslog_tcp"), ("SOCK_DGRAM", "syslog_udp")] {
        let server = Server::start();
        let address =
            if source == "syslog_tcp" { server.syslog_tcp() } else { server.syslog_udp() };
        let mut command = python(address, kind);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("python3 is there");
        server.wait_for("101 messages", |server| server.ingest(source)["lines_kept"] == 101);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(server.count("app_name:=python"), 101, "{source}");
        assert_eq!(server.count("app_name:=python Traceback \"ValueError: of the test\""), 1);
        assert_eq!(server.count("app_name:=python \"number 99 of <13> messages\""), 1);
        assert_eq!(server.ingest(source)["dropped"]["wrong_protocol"], 0);
    }
}

/// Makes rsyslog send a few messages with this action, which are refused.
fn rsyslog(server: &Server, modules: &str, action: &str, expected: &str) {
    let _running = start_rsyslog(server, modules, action, &"one\ntwo\nthree\n".repeat(100));
    wait_for_refusals(server, "syslog_tcp", 1);
    server.wait_for_log("127.0.0.1");
    server.wait_for_log(expected);
}

/// Starts rsyslog, which sends these lines with this action.
fn start_rsyslog(
    server: &Server,
    modules: &str,
    action: &str,
    lines: &str,
) -> (Daemon, tempfile::TempDir) {
    let rsyslogd = program(&["/usr/sbin/rsyslogd"]);
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    std::fs::write(&input, lines).unwrap();
    let address = server.syslog_tcp();
    let text = format!(
        "global(workDirectory=\"{directory}\")\nmodule(load=\"imfile\")\n{modules}\n\
         input(type=\"imfile\" File=\"{input}\" Tag=\"input:\")\n\
         action(target=\"{ip}\" port=\"{port}\" {action})\n",
        directory = directory.path().display(),
        input = input.display(),
        ip = address.ip(),
        port = address.port(),
    );
    let config = directory.path().join("rsyslog.conf");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(rsyslogd);
    command.args(["-n", "-i"]).arg(directory.path().join("pid")).arg("-f").arg(config);
    (Daemon::start(&mut command), directory)
}

/// rsyslog compresses a message if that makes it shorter, and counts its octets whatever the
/// framing of the others is.
#[test]
fn rsyslog_with_compressed_messages() {
    let line = |number: usize| format!("number {number} {}\n", "a".repeat(20 * (number % 10)));
    let lines: String = (0..300).map(line).collect();
    for framing in ["traditional", "octet-counted"] {
        let server = Server::start();
        let action = format!(
            "type=\"omfwd\" protocol=\"tcp\" tcp_framing=\"{framing}\" compression.mode=\"single\" \
             ziplevel=\"9\""
        );
        let _running = start_rsyslog(&server, "", &action, &lines);
        server.wait_for("300 lines", |server| server.count("app_name:=input number") == 300);
        assert_eq!(server.count("_note:*"), 0, "{framing}");
        assert_eq!(server.count("\"number 7\" aaaaaaaaaaaaaaaaaaaa*"), 1, "{framing}");
    }
}

#[test]
fn rsyslog_with_a_compressed_stream() {
    let action = "type=\"omfwd\" protocol=\"tcp\" compression.mode=\"stream:always\" ziplevel=\"5\" \
                  action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\"";
    let lines: String = (0..300).map(|n| format!("number {n}\n")).collect();
    let server = Server::start();
    let _running = start_rsyslog(&server, "", action, &lines);
    server.wait_for("300 lines", |server| server.count("app_name:=input number") == 300);
    assert_eq!(server.count("_note:*"), 0);
    assert_eq!(server.ingest("syslog_tcp")["dropped"]["wrong_protocol"], 0);
}

#[test]
fn rsyslog_by_relp() {
    let action = "type=\"omrelp\" action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\"";
    rsyslog(&Server::start(), "module(load=\"omrelp\")", action, "instead of omrelp");
}

#[test]
fn tls_and_http_on_the_plain_port_and_lines_on_the_tls_port() {
    let authority = Authority::new();
    let server = Server::start_with(&[], &tls::config(&authority, "off"));
    let address = server.syslog_tcp();
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address.to_string()]);
    client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(!client.status().expect("openssl is there").success());
    wait_for_refusals(&server, "syslog_tcp", 1);
    let mut browser = TcpStream::connect(address).unwrap();
    browser.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("9514"), "{answer}");
    wait_for_refusals(&server, "syslog_tcp", 2);
    let mut plain = TcpStream::connect(server.syslog_tls()).unwrap();
    plain.write_all(b"<13>Oct 11 22:14:15 host app: hello\n").unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    wait_for_refusals(&server, "syslog_tls", 1);
}
