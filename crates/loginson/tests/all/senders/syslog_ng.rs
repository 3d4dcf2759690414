//! syslog-ng: reads files, forwards RFC 5424 octet-framed by TCP and TLS, and RFC 3164 by UDP. It
//! cannot be installed beside rsyslog; `scripts/fetch-syslog-ng.sh` unpacks it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Server;
use crate::senders::authority::Authority;
use crate::senders::check::{self, Expected};
use crate::senders::corpus::inputs;
use crate::senders::sender::{Daemon, program};
use crate::senders::tls;

const HOSTNAME: &str = "ng-1.example.org";

fn forward(
    source: &str,
    destination: &str,
    sent_as: &str,
    log_flags: &str,
    time: fn(&str, &str) -> String,
) {
    forward_to(&Server::start(), source, destination, sent_as, log_flags, time);
}

fn forward_to(
    server: &Server,
    source: &str,
    destination: &str,
    sent_as: &str,
    log_flags: &str,
    time: fn(&str, &str) -> String,
) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let inputs = inputs(directory.path());
    let address = match source {
        "syslog_tcp" => server.syslog_tcp(),
        "syslog_tls" => server.syslog_tls(),
        _ => server.syslog_udp(),
    };
    let files = inputs.iter().map(|input| {
        let (path, app) = (input.path.display(), input.app);
        format!(
            "file(\"{path}\" flags(no-parse) follow-freq(0.1) host-override(\"{HOSTNAME}\") \
             program-override(\"{}\") default-facility(\"{}\") default-severity(\"{}\"));\n",
            app.name, app.facility, app.severity
        )
    });
    let destination = destination.replace("IP", &address.ip().to_string());
    let destination = destination.replace("PORT", &address.port().to_string());
    let text = format!(
        "@version: 3.38\n\
         options {{ threaded(no); keep-hostname(yes); use-dns(no); dns-cache(no); stats-freq(0); }};\n\
         source corpora {{ {files} }};\n\
         destination loginson {{ {destination}; }};\n\
         destination sent {{ file(\"{sent}\" {sent_as}); }};\n\
         log {{ source(corpora); destination(sent); destination(loginson); {log_flags} }};\n",
        files = files.collect::<String>(),
        sent = file("sent").display(),
    );
    std::fs::write(file("syslog-ng.conf"), text).unwrap();
    let daemon = Daemon::start(
        unpacked()
            .args(["--foreground", "--no-caps"])
            .arg("--cfgfile")
            .arg(file("syslog-ng.conf"))
            .arg("--pidfile")
            .arg(file("pid"))
            .arg("--persist-file")
            .arg(file("persist"))
            .arg("--control")
            .arg(file("control")),
    );

    let lines = inputs.iter().map(|input| input.lines.len()).sum();
    let dropped = check::wait_for_lines(server, source, lines);
    daemon.stop();
    let found = check::raw_lines(server);
    let sent = check::file_lines(&file("sent"));
    if source != "syslog_udp" {
        assert_eq!(dropped, 0);
        check::same_lines(&found, sent);
    } else {
        check::some_of_the_lines(&found, sent, dropped);
    }
    check::fields(server, &Expected { hostname: HOSTNAME, inputs: &inputs, time });
}

/// The unpacked program, with the paths of its modules and libraries.
fn unpacked() -> Command {
    let root = std::env::var_os("LOGINSON_SYSLOG_NG").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(&std::env::var_os("HOME").expect("a home")).join(".cache/loginson/syslog-ng")
    });
    let program = program(&[root.join("usr/sbin/syslog-ng").to_str().expect("paths are text")]);
    let mut libraries = Vec::new();
    let mut modules = None;
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap_or_default();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if name == "libafsocket.so" {
                modules = Some(folder.clone());
            } else if name.contains(".so") && !libraries.contains(&folder) {
                libraries.push(folder.clone());
            }
        }
    }
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    command.arg("--module-path").arg(modules.expect("syslog-ng has a module for sockets"));
    command
}

#[test]
fn tcp_rfc5424_octet_framed() {
    forward(
        "syslog_tcp",
        "syslog(\"IP\" port(PORT) transport(\"tcp\"))",
        "flags(syslog-protocol)",
        "flags(flow-control);",
        check::time_5424,
    );
}

#[test]
fn tls_rfc5424_octet_framed() {
    let authority = Authority::new();
    let server = Server::start_with(&[], &tls::config(&authority, "required"));
    let client = authority.issue("syslog-ng");
    let destination = format!(
        "syslog(\"IP\" port(PORT) transport(\"tls\") tls(ca-file(\"{}\") cert-file(\"{}\") key-file(\"{}\") \
         peer-verify(required-trusted)))",
        authority.certificate().display(),
        client.certificate.display(),
        client.key.display(),
    );
    forward_to(
        &server,
        "syslog_tls",
        &destination,
        "flags(syslog-protocol)",
        "flags(flow-control);",
        check::time_5424,
    );
}

#[test]
fn udp_rfc3164() {
    forward(
        "syslog_udp",
        "network(\"IP\" port(PORT) transport(\"udp\"))",
        "template(\"<${PRI}>${DATE} ${HOST} ${MSGHDR}${MSG}\\n\")",
        "flags(flow-control);",
        check::time_3164,
    );
}
