//! rsyslog: reads files, forwards by TCP (newline- and octet-framed), TLS (with both of its
//! drivers) and UDP.

use std::path::Path;
use std::process::Command;

use crate::common::Server;
use crate::senders::authority::Authority;
use crate::senders::check::{self, Expected};
use crate::senders::corpus::inputs;
use crate::senders::sender::{Daemon, program};
use crate::senders::tls;

const HOSTNAME: &str = "relay-1.example.org";
/// A template of rsyslog: RFC 5424 as its `RSYSLOG_SyslogProtocol23Format`.
const RFC5424: &str = "<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% %STRUCTURED-DATA% %msg%";
/// RFC 3164 as its `RSYSLOG_TraditionalForwardFormat`.
const RFC3164: &str = "<%PRI%>%TIMESTAMP% %HOSTNAME% %syslogtag%%msg:::sp-if-no-1st-sp%%msg%";

/// Forwards the corpora, and waits until everything has arrived or is counted as dropped.
fn forward(source: &str, template: &str, action: &str, time: fn(&str, &str) -> String) {
    forward_to(&Server::start(), source, template, action, time);
}

fn forward_to(
    server: &Server,
    source: &str,
    template: &str,
    action: &str,
    time: fn(&str, &str) -> String,
) {
    let rsyslogd = program(&["/usr/sbin/rsyslogd"]);
    let directory = tempfile::tempdir().unwrap();
    let inputs = inputs(directory.path());
    let sent = directory.path().join("sent");
    let config = directory.path().join("rsyslog.conf");
    let address = match source {
        "syslog_tcp" => server.syslog_tcp(),
        "syslog_tls" => server.syslog_tls(),
        _ => server.syslog_udp(),
    };
    let files = inputs.iter().map(|input| {
        let (path, app) = (input.path.display(), input.app);
        format!(
            "input(type=\"imfile\" File=\"{path}\" Tag=\"{}:\" Facility=\"{}\" Severity=\"{}\" ruleset=\"out\")\n",
            app.name, app.facility, app.severity
        )
    });
    let text = format!(
        "global(workDirectory=\"{directory}\" localHostname=\"{HOSTNAME}\")\n\
         module(load=\"imfile\")\n\
         template(name=\"sent\" type=\"string\" string=\"{template}\\n\")\n\
         template(name=\"forwarded\" type=\"string\" string=\"{template}\")\n\
         ruleset(name=\"out\") {{\n\
           action(type=\"omfile\" file=\"{sent}\" template=\"sent\")\n\
           action(type=\"omfwd\" target=\"{ip}\" port=\"{port}\" template=\"forwarded\" {action})\n\
         }}\n{files}",
        directory = directory.path().display(),
        sent = sent.display(),
        ip = address.ip(),
        port = address.port(),
        files = files.collect::<String>(),
    );
    std::fs::write(&config, text).unwrap();
    let daemon = Daemon::start(Command::new(rsyslogd).args([
        "-n",
        "-f",
        path(&config),
        "-i",
        path(&directory.path().join("pid")),
    ]));

    let lines = inputs.iter().map(|input| input.lines.len()).sum();
    let dropped = check::wait_for_lines(server, source, lines);
    daemon.stop();
    let found = check::raw_lines(server);
    let sent = check::file_lines(&sent);
    if source != "syslog_udp" {
        assert_eq!(dropped, 0);
        check::same_lines(&found, sent);
    } else {
        check::some_of_the_lines(&found, sent, dropped);
    }
    check::fields(server, &Expected { hostname: HOSTNAME, inputs: &inputs, time });
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn tcp_rfc5424() {
    forward("syslog_tcp", RFC5424, "protocol=\"tcp\"", check::time_5424);
}

#[test]
fn tcp_rfc3164_octet_framed() {
    let action = "protocol=\"tcp\" TCP_Framing=\"octet-counted\"";
    forward("syslog_tcp", RFC3164, action, check::time_3164);
}

/// Over TLS, octet-framed as RFC 5425 requires.
fn forward_tls(driver: &str, clients: &str) {
    let authority = Authority::new();
    let server = Server::start_with(&[], &tls::config(&authority, clients));
    let client = authority.issue("rsyslog");
    let action = format!(
        "protocol=\"tcp\" TCP_Framing=\"octet-counted\" StreamDriver=\"{driver}\" StreamDriverMode=\"1\" \
         StreamDriverAuthMode=\"x509/name\" StreamDriverPermittedPeers=\"localhost\" \
         StreamDriver.CAFile=\"{}\" StreamDriver.CertFile=\"{}\" StreamDriver.KeyFile=\"{}\"",
        path(&authority.certificate()),
        path(&client.certificate),
        path(&client.key),
    );
    forward_to(&server, "syslog_tls", RFC5424, &action, check::time_5424);
    assert_eq!(server.ingest("syslog_tls")["handshakes_failed"], 0);
}

#[test]
fn tls_by_gnutls() {
    forward_tls("gtls", "off");
}

#[test]
fn tls_by_gnutls_with_a_client_certificate() {
    forward_tls("gtls", "required");
}

#[test]
fn tls_by_openssl_with_a_client_certificate() {
    forward_tls("ossl", "required");
}

#[test]
fn udp_rfc5424() {
    forward("syslog_udp", RFC5424, "protocol=\"udp\"", check::time_5424);
}
