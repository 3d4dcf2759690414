//! Lines of operating systems, databases, mail and names.

use super::*;

#[test]
fn auditd() {
    check_made(&file(), |made| {
        if made.rng.u32(..4) == 0 {
            made.text("node=").value("node", "web1").text(" ");
        }
        let (milli, id) = (made.rng.u32(..1000), made.number(99_999));
        let is_user = made.rng.bool();
        let kind = if is_user { "USER_LOGIN" } else { "SYSCALL" };
        made.text("type=").value("type", kind);
        made.text(&format!(" msg=audit(1795000000.{milli:03}:")).value("event_id", id).text("): ");
        let (pid, uid, auid) =
            (made.number(90_000), made.number(2000), made.one(&["1000", "4294967295"]));
        if is_user {
            made.text("pid=").value("pid", pid).text(" uid=").value("uid", uid).text(" auid=");
            let address = made.ip();
            made.value("auid", auid)
                .text(" ses=")
                .value("ses", "7")
                .text(" msg='op=")
                .value("op", "login");
            made.text(" acct=\"")
                .value("acct", "ada")
                .text("\" exe=\"")
                .value("exe", "/usr/sbin/sshd");
            match made.rng.bool() {
                true => made.text("\" hostname=").value("audit.hostname", "a.example"),
                false => made.text("\" hostname=?"),
            };
            let result = made.one(&["success", "failed"]);
            made.text(" addr=").value("addr", address).text(" terminal=").value("terminal", "ssh");
            made.text(" res=").value("res", result).text("'");
        } else {
            let (success, exit) = (made.one(&["yes", "no"]), made.one(&["0", "-13", "3"]));
            made.text("arch=").value("arch", "c000003e").text(" syscall=").value("syscall", "257");
            made.text(" success=").value("success", success).text(" exit=").value("exit", exit);
            made.text(" pid=").value("pid", pid).text(" auid=").value("auid", auid);
            made.text(" uid=").value("uid", uid).text(" tty=").value("tty", "(none)");
            made.text(" comm=\"")
                .value("comm", "cat it")
                .text("\" exe=\"")
                .value("exe", "/usr/bin/cat");
            made.text("\" key=");
            match made.rng.bool() {
                true => made.text("\"").value("key", "etc-watch").text("\""),
                false => made.value("key", "(null)"),
            };
            if made.rng.bool() {
                made.text("\u{1d}SYSCALL=").value("SYSCALL", "openat").text(" AUID=\"");
                made.value("AUID", "ada").text("\"");
            }
        }
    });
}

#[test]
fn sshd() {
    check_made(&file(), |made| {
        made.head("sshd");
        let (user, ip, port) = (made.name(), made.ip(), made.port());
        let invalid = made.rng.bool();
        match made.rng.u32(..6) {
            0 => {
                made.value("result", "Accepted")
                    .text(" ")
                    .value("method", "publickey")
                    .text(" for ");
                made.value("user", user).text(" from ").value("client_ip", ip).text(" port ");
                let hash = format!("SHA256:{}", made.hex(43));
                made.value("client_port", port).text(" ").value("protocol", "ssh2").text(": ");
                made.value("key_type", "ED25519").text(" ").value("fingerprint", hash);
            }
            1 => {
                let method = made.one(&["password", "keyboard-interactive/pam", "none"]);
                made.value("result", "Failed").text(" ").value("method", method).text(" for ");
                if invalid {
                    made.text("invalid user ").expects("reason", "invalid user");
                }
                made.value("user", user).text(" from ").value("client_ip", ip).text(" port ");
                made.value("client_port", port).text(" ").value("protocol", "ssh2");
            }
            2 => {
                made.value("result", "Invalid").text(" user ").value("user", user).text(" from ");
                made.value("client_ip", ip).text(" port ").value("client_port", port);
                made.expects("reason", "invalid user");
            }
            3 => {
                made.text("Connection closed by ").expects("result", "closed");
                match made.rng.u32(..3) {
                    0 => made.text("authenticating user ").value("user", user).text(" "),
                    1 => {
                        made.expects("reason", "invalid user");
                        made.text("invalid user ").value("user", user).text(" ")
                    }
                    _ => made,
                };
                made.value("client_ip", ip).text(" port ").value("client_port", port);
                made.text(" [preauth]");
            }
            4 => {
                made.text("Received disconnect from ").expects("result", "disconnected");
                made.value("client_ip", ip).text(" port ").value("client_port", port);
                made.text(":11: disconnected by user");
            }
            _ => {
                let state = made.one(&["opened", "closed"]);
                made.value("module", "pam_unix")
                    .text("(sshd:session): session ")
                    .value("result", state);
                made.text(" for user ").value("user", user);
                made.text(if state == "opened" { "(uid=1000) by (uid=0)" } else { "" });
            }
        }
    });
}

#[test]
fn sudo() {
    check_made(&file(), |made| {
        made.head("sudo");
        let (user, run_user) = (made.name(), made.one(&["root", "postgres"]));
        made.text("   ").value("user", user).text(" : ");
        let reason = made.one(&[
            "",
            "command not allowed",
            "3 incorrect password attempts",
            "user NOT in sudoers",
        ]);
        if reason.is_empty() {
            made.expects("result", "accept");
        } else {
            made.expects("result", "reject").value("reason", reason).text(" ; ");
        }
        made.text("TTY=").value("tty", "pts/0").text(" ; PWD=").value("pwd", "/home/ada/a b");
        made.text(" ; USER=").value("run_user", run_user).text(" ; COMMAND=");
        let command =
            made.one(&["/usr/bin/ls -l", "/bin/sh -c a ; USER=b", "/usr/bin/env A=1 true"]);
        made.value("command", command);
    });
}

#[test]
fn postgres() {
    check_made(&file(), |made| {
        let (clock, pid, ip) = (made.clock(), made.number(90_000), made.ip4());
        let (user, db) = (made.name(), made.one(&["shop", "postgres", "a_b"]));
        let level = made.one(&["LOG", "ERROR", "FATAL", "WARNING", "DEBUG1"]);
        match made.rng.u32(..6) {
            0 => made.text(&format!("2026-11-20 {clock}.250 UTC [")).value("pid", pid).text("] "),
            1 => {
                made.text(&format!("2026-11-20 {clock}.250 CET [")).value("pid", pid).text("] ");
                made.value("user", user).text("@").value("db", db).text(" ")
            }
            2 => {
                made.text(&format!("2026-11-20 {clock} UTC ["))
                    .value("pid", pid)
                    .text("]: [3-1] user=");
                made.value("user", user)
                    .text(",db=")
                    .value("db", db)
                    .text(",app=")
                    .value("app", "psql");
                made.text(",client=").value("client_ip", ip).text(" ")
            }
            3 => {
                let port = made.port();
                made.text(&format!("2026-11-20 {clock} UTC:")).value("client_ip", ip).text("(");
                made.value("client_port", port)
                    .text("):")
                    .value("user", user)
                    .text("@")
                    .value("db", db);
                made.text(":[").value("pid", pid).text("]:")
            }
            4 => {
                made.text(&format!("2026-11-20 {clock}.250 UTC [")).value("pid", pid).text("] ");
                made.value("sqlstate", "42P01").text(" ")
            }
            _ => {
                made.text("Nov 20 12:00:00 db1 postgres[77]: [5-1] user=").value("user", user);
                made.text(",db=").value("db", db).text(" ")
            }
        };
        made.value("level", level).text(":  ");
        if level == "LOG" && made.rng.bool() {
            let ms = made.seconds();
            made.text("duration: ").value("duration", ms).text(" ms  statement: SELECT 'a: b'");
        } else {
            made.text("relation \"x@y\" does not exist at character 15");
        }
    });
    check_made(&file(), |made| {
        let (clock, pid, ip, port) = (made.clock(), made.number(90_000), made.ip4(), made.port());
        let (level, state) = (made.one(&["LOG", "ERROR"]), made.one(&["00000", "42P01", "23505"]));
        made.text(&format!("2026-11-20 {clock}.250 UTC,\"")).value("user", "ada").text("\",\"");
        made.value("db", "shop")
            .text("\",")
            .value("pid", pid)
            .text(",\"")
            .value("client_ip", ip)
            .text(":");
        made.value("client_port", port)
            .text("\",691f0001.1,4,\"SELECT\",2026-11-20 11:00:00 UTC,3/17,0,");
        made.value("level", level)
            .text(",")
            .value("sqlstate", state)
            .text(",\"a \"\"b\"\", c\",,,,,,\"SELECT 1, 2\",8,,\"");
        made.value("app", "psql").text("\",\"client backend\",,0");
    });
}

#[test]
fn redis() {
    check_made(&file(), |made| {
        let (pid, clock) = (made.rng.u32(1..90_000), made.clock());
        let (letter, role) = [("M", "master"), ("S", "replica"), ("C", "child"), ("X", "sentinel")]
            [made.rng.usize(..4)];
        made.value("pid", pid).text(":").expects("role", role).text(letter);
        made.text(&format!(" 20 Nov 2026 {clock}.250 * Background saving terminated with success"));
    });
}

#[test]
fn bind() {
    check_made(&file(), |made| {
        let (clock, ip, port) = (made.clock(), made.ip(), made.port());
        match made.rng.u32(..3) {
            0 => made.text(&format!("20-Nov-2026 {clock}.250 queries: info: client @0x7f12ab ")),
            1 => made.head("named").text("client "),
            _ => made.text(&format!("20-Nov-2026 {clock}.250 client ")),
        };
        let name = made.host();
        made.value("client_ip", ip)
            .text("#")
            .value("client_port", port)
            .text(&format!(" ({name}): "));
        if made.rng.bool() {
            made.text("view ").value("view", "inside").text(": ");
        }
        let kind = made.one(&["A", "AAAA", "TYPE65", "PTR"]);
        if made.rng.u32(..4) == 0 {
            made.text("query (cache) '")
                .value("query_name", name)
                .text("/")
                .value("query_type", kind);
            made.text("/").value("query_class", "IN").text("' ").value("result", "denied");
            return;
        }
        made.text("query: ")
            .value("query_name", name)
            .text(" ")
            .value("query_class", "IN")
            .text(" ");
        made.value("query_type", kind).text(" ").value("query_flags", "+E(0)K").text(" (");
        made.value("server_ip", "192.0.2.53").text(")");
    });
}

#[test]
fn postfix() {
    check_made(&file(), |made| {
        let service = made.one(&["postfix/smtp", "postfix/smtpd", "postfix/qmgr"]);
        made.head(service);
        let (id, ip, user) = (made.one(&["3F2A1B9C01", "4Yp3kQ2Zvnz1Nb"]), made.ip4(), made.name());
        let mail = format!("{user}@{}", made.host());
        let delay = made.seconds();
        match made.rng.u32(..6) {
            0 => {
                let (status, dsn) =
                    (made.one(&["sent", "deferred", "bounced"]), made.one(&["2.0.0", "4.4.1"]));
                made.value("queue_id", id).text(": to=<").value("to", mail).text(">, relay=");
                made.value("relay", format!("mx.example[{ip}]:25"))
                    .text(", delay=")
                    .value("delay", delay);
                made.text(", delays=")
                    .value("delays", "0.1/0/0.5/0.6")
                    .text(", dsn=")
                    .value("dsn", dsn);
                made.text(", status=").value("status", status).text(" (said: a=b, c=d)");
            }
            1 => {
                let size = made.number(90_000);
                made.value("queue_id", id).text(": from=<").value("from", mail).text(">, size=");
                made.value("size", size)
                    .text(", nrcpt=")
                    .value("nrcpt", "1")
                    .text(" (queue active)");
            }
            2 => {
                made.value("queue_id", id)
                    .text(": client=")
                    .value("client", format!("mx.example[{ip}]"));
                made.expects("client_ip", ip).text(", sasl_method=").value("sasl_method", "PLAIN");
                made.text(", sasl_username=").value("sasl_username", mail);
            }
            3 => {
                let action = made.one(&["connect", "disconnect"]);
                made.value("action", action)
                    .text(" from ")
                    .value("client", format!("unknown[{ip}]"));
                made.expects("client_ip", ip);
            }
            4 => {
                made.text("NOQUEUE: ")
                    .value("action", "reject")
                    .text(": ")
                    .value("command", "RCPT");
                made.text(" from ").value("client", format!("unknown[{ip}]")).text(": ");
                made.expects("client_ip", ip)
                    .value("reply_code", "554")
                    .text(" ")
                    .value("dsn", "5.7.1");
                made.text(&format!(" <{mail}>: Relay access denied; from=<"))
                    .value("from", "x@y.example");
                made.text("> to=<").value("to", mail).text("> proto=").value("proto", "ESMTP");
                made.text(" helo=<").value("helo", "y.example").text(">");
            }
            _ => {
                made.value("queue_id", id).text(": ").value("action", "removed");
            }
        }
    });
}

#[test]
fn klog() {
    check_made(&file(), |made| {
        let (level, clock, tid) =
            (made.one(&["I", "W", "E", "F"]), made.clock(), made.rng.u32(1..9_999_999));
        let (name, line) =
            (made.one(&["server.go", "pod_workers.go", "a-b.go"]), made.number(3000));
        made.value("level", level).text(&format!("1120 {clock}.250000 "));
        made.line.push_str(&" ".repeat(7 - tid.to_string().len()));
        made.value("tid", tid).text(" ").value("file", name).text(":").value("line", line);
        made.text("] \"Error syncing pod\" err=\"x: y\" pod=\"default/web\"");
    });
}

#[test]
fn netfilter() {
    check_made(&file(), |made| {
        made.text("Nov 20 12:00:00 gw kernel: ");
        if made.rng.bool() {
            made.text("[ 8123.456789] ");
        }
        match made.rng.u32(..3) {
            0 => made.text("[").value("prefix", "UFW BLOCK").text("] "),
            1 => made.value("prefix", "iptables-drop").text(": "),
            _ => made,
        };
        let (from, to, sport, dport) = (made.ip4(), made.ip4(), made.port(), made.port());
        let (length, ttl, id) = (made.number(1500), made.number(255), made.number(65_535));
        made.text("IN=")
            .value("IN", "eth0")
            .text(" OUT= MAC=")
            .value("MAC", "02:00:00:00:00:01:08:00");
        made.text(" SRC=")
            .value("SRC", from)
            .text(" DST=")
            .value("DST", to)
            .text(" LEN=")
            .value("LEN", length);
        made.text(" TOS=").value("TOS", "0x00").text(" PREC=").value("PREC", "0x00").text(" TTL=");
        made.value("TTL", ttl).text(" ID=").value("ID", id).text(" DF PROTO=");
        if made.rng.bool() {
            let flags = made.one(&["SYN", "ACK FIN", "ACK PSH"]);
            made.value("PROTO", "TCP")
                .text(" SPT=")
                .value("SPT", sport)
                .text(" DPT=")
                .value("DPT", dport);
            made.text(" WINDOW=")
                .value("WINDOW", "64240")
                .text(" RES=")
                .value("RES", "0x00")
                .text(" ");
            made.value("tcp_flags", flags).text(" URGP=").value("URGP", "0");
        } else {
            made.value("PROTO", "UDP")
                .text(" SPT=")
                .value("SPT", sport)
                .text(" DPT=")
                .value("DPT", dport);
            made.text(" LEN=48");
        }
    });
}

#[test]
fn systemd() {
    check_made(&file(), |made| {
        made.head("systemd");
        let unit =
            made.one(&["nginx.service", "run-user-1000.mount", "dbus.socket", "a@b.service"]);
        match made.rng.u32(..6) {
            0 => {
                made.value("unit", unit)
                    .text(": Main process exited, code=")
                    .value("exit_code", "exited");
                made.text(", status=").value("exit_status", "1/FAILURE");
            }
            1 => {
                made.value("unit", unit)
                    .text(": Failed with result '")
                    .value("result", "exit-code")
                    .text("'.");
            }
            2 => {
                made.value("unit", unit)
                    .text(": Deactivated successfully.")
                    .expects("result", "success");
            }
            3 => {
                made.text("Started ").expects("result", "started").value("unit", unit);
                made.text(" - A server: of files.");
            }
            4 => {
                made.value("unit", unit)
                    .text(": Consumed ")
                    .value("cpu_time", "1min 2.345s")
                    .text(" CPU time.");
            }
            _ => {
                let count = made.number(90);
                made.value("unit", unit).text(": Scheduled restart job, restart counter is at ");
                made.value("restarts", count).text(".");
            }
        }
    });
}
