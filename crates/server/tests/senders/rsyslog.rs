//! rsyslog: reads files, forwards by TCP (newline- and octet-framed) and UDP.

use std::path::Path;
use std::process::Command;

use crate::check::{self, Expected};
use crate::common::Server;
use crate::corpus::inputs;
use crate::sender::{Daemon, program};

const HOSTNAME: &str = "relay-1.example.org";
/// A template of rsyslog: RFC 5424 as its `RSYSLOG_SyslogProtocol23Format`.
const RFC5424: &str = "<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% %STRUCTURED-DATA% %msg%";
/// RFC 3164 as its `RSYSLOG_TraditionalForwardFormat`.
const RFC3164: &str = "<%PRI%>%TIMESTAMP% %HOSTNAME% %syslogtag%%msg:::sp-if-no-1st-sp%%msg%";

/// Forwards the corpora, and returns the server, when all has arrived or is counted, with what was sent.
fn forward(source: &str, template: &str, action: &str, time: fn(&str, &str) -> String) {
    let rsyslogd = program(&["/usr/sbin/rsyslogd"]);
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let inputs = inputs(directory.path());
    let sent = directory.path().join("sent");
    let config = directory.path().join("rsyslog.conf");
    let address = if source == "syslog_tcp" { server.syslog_tcp() } else { server.syslog_udp() };
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
    let dropped = check::wait_for_lines(&server, source, lines);
    daemon.stop();
    let found = check::raw_lines(&server);
    let sent = check::file_lines(&sent);
    if source == "syslog_tcp" {
        assert_eq!(dropped, 0);
        check::same_lines(&found, sent);
    } else {
        check::some_of_the_lines(&found, sent, dropped);
    }
    check::fields(&server, &Expected { hostname: HOSTNAME, inputs: &inputs, time });
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

#[test]
fn udp_rfc5424() {
    forward("syslog_udp", RFC5424, "protocol=\"udp\"", check::time_5424);
}
