//! TLS with `openssl s_client`: versions, client certificates, and the server's own certificate.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::common::Server;
use crate::senders::authority::{Authority, Issued};
use crate::senders::sender::program;

/// A configuration with TLS on a free port.
pub fn config(authority: &Authority, clients: &str) -> String {
    let issued = authority.issue("server");
    let ca = match clients {
        "off" => "off".into(),
        _ => authority.certificate().display().to_string(),
    };
    format!(
        "syslog_tls_listen = '127.0.0.1:0'\n[tls]\ncertificate = '{}'\nkey = '{}'\nclient_ca = '{ca}'\n\
         client_certificates = '{clients}'\n",
        issued.certificate.display(),
        issued.key.display(),
    )
}

/// Sends text, and closes the connection properly.
fn s_client(
    server: &Server,
    authority: &Authority,
    version: &str,
    client: Option<&Issued>,
    text: &str,
) -> Output {
    let mut command = Command::new(program(&["/usr/bin/openssl"]));
    command.args(["s_client", "-quiet", "-no_ign_eof", "-verify_return_error", version]);
    command.args(["-connect", &server.syslog_tls().to_string(), "-verify_ip", "127.0.0.1"]);
    command.arg("-CAfile").arg(authority.certificate());
    if let Some(client) = client {
        command.arg("-cert").arg(&client.certificate).arg("-key").arg(&client.key);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A refused client sends no input.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    child.wait_with_output().unwrap()
}

fn wait_for(server: &Server, key: &str, expected: u64) {
    server.wait_for(&format!("{key} of {expected}"), |server| {
        server.ingest("syslog_tls")[key] == expected
    });
}

#[test]
fn versions_and_client_certificates() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = Server::start_with(&[], &config(&authority, "required"));
    let (ours, other) = (authority.issue("client"), stranger.issue("client"));
    let mut lines = 0;
    for version in ["-tls1_2", "-tls1_3"] {
        let done = s_client(&server, &authority, version, Some(&ours), "9 <13>first<13>second\n");
        assert!(done.status.success(), "{done:?}");
        lines += 2;
        wait_for(&server, "lines_kept", lines);
    }
    wait_for(&server, "connections_open", 0);
    assert_eq!(server.ingest("syslog_tls")["connections_truncated"], 0);
    for (failed, client) in [(1, None), (2, Some(&other))] {
        s_client(&server, &authority, "-tls1_3", client, "<13>refused\n");
        wait_for(&server, "handshakes_failed", failed);
    }
    wait_for(&server, "connections_open", 0);
    assert_eq!(server.ingest("syslog_tls")["lines_received"], lines);
    server.wait_for_log("a TLS handshake failed");
    // An old version is refused.
    let done = s_client(&server, &authority, "-tls1_1", Some(&ours), "<13>refused\n");
    assert!(!done.status.success());
}

#[test]
fn a_signal_reloads_certificates_and_broken_ones_are_reported() {
    let authority = Authority::new();
    let server = Server::start_with(&[], &config(&authority, "off"));
    let hang_up = || {
        let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let tls = || server.status()["tls"].clone();
    let expires = |server: &Server| {
        let metrics = server.get("/metrics").text();
        let name = "loginson_tls_certificate_expires_seconds ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{metrics}"))
    };
    assert_eq!(tls()["certificate_expires"], "2049-12-31T00:00:00Z");
    assert_eq!(expires(&server), "2524521600");

    authority.issue_until("server", (2035, 6, 1));
    hang_up();
    server.wait_for("the new certificate", |_| tls()["reloads"] == 1);
    assert_eq!(tls()["certificate_expires"], "2035-06-01T00:00:00Z");
    assert_eq!(expires(&server), "2064268800");

    std::fs::write(authority.file("server.key.pem"), "broken").unwrap();
    hang_up();
    server.wait_for("the error", |_| tls()["reload_failures"] == 1);
    assert!(tls()["error"].as_str().unwrap().contains("BEGIN PRIVATE KEY"), "{}", tls());
    let done = s_client(&server, &authority, "-tls1_3", None, "<13>still here\n");
    assert!(done.status.success(), "{done:?}");
    wait_for(&server, "lines_kept", 1);
}

#[test]
fn wrong_files_end_the_start_with_a_remedy() {
    let authority = Authority::new();
    let (issued, other) = (authority.issue("server"), authority.issue("other"));
    let directory = tempfile::tempdir().unwrap();
    let output = crate::common::serve_command(directory.path())
        .arg("--tls-certificate")
        .arg(&issued.certificate)
        .arg("--tls-key")
        .arg(&other.key)
        .args(["--syslog-tls-listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains("does not belong to the first certificate"), "{message}");
    assert!(message.contains("other.key.pem") && message.contains("openssl pkey"), "{message}");
}
