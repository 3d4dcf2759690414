//! What every Unix host logs: sshd, systemd, cron, the kernel.

use super::clock::append;
use super::world::{Context, HOSTS, Role, Said, Severity, facility};

const USERS: [&str; 6] = ["deploy", "backup", "ops", "anna", "jonas", "ci"];
const GUESSED: [&str; 8] = ["admin", "support", "test", "oracle", "ubuntu", "git", "pi", "guest"];
const UNITS: [(&str, &str); 7] = [
    ("logrotate.service", "Rotate log files"),
    ("apt-daily.service", "Daily apt download activities"),
    ("fstrim.service", "Discard unused blocks"),
    ("certbot.service", "Renewal of certificates"),
    ("systemd-tmpfiles-clean.service", "Cleanup of temporary directories"),
    ("sysstat-collect.service", "System activity accounting tool"),
    ("man-db.service", "Daily man-db regeneration"),
];
const JOBS: [(&str, &str); 5] = [
    ("root", "command -v debian-sa1 > /dev/null && debian-sa1 1 1"),
    ("root", "test -x /usr/sbin/anacron || run-parts --report /etc/cron.hourly"),
    ("backup", "/usr/local/bin/push-backup --incremental"),
    ("www-data", "/usr/local/bin/warm-cache"),
    ("root", "/usr/local/bin/check-mirror"),
];

/// One line of any of them.
pub fn any(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let ssh = if HOSTS[cx.host].name == "bastion1" { 75 } else { 40 };
    match cx.rng.u32(..100) {
        n if n < ssh => sshd(cx, out),
        n if n < ssh + 12 => cron(cx, out),
        n if n < ssh + 19 => kernel(cx, out),
        _ => systemd(cx, out),
    }
}

fn sshd(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    // Each session has its own process; a few run at a time.
    let pid = cx.pid("sshd") + 7 * cx.rng.u32(1..40);
    let port = cx.rng.u16(32_768..60_999);
    let visitor = cx.visitor();
    let severity = match cx.rng.u32(..40) {
        0..14 => {
            let user = cx.pick_uneven(&GUESSED);
            append(
                out,
                format_args!(
                    "Failed password for invalid user {user} from {visitor} port {port} ssh2"
                ),
            );
            Severity::Info
        }
        14..22 => {
            let user = cx.pick_uneven(&GUESSED);
            append(out, format_args!("Invalid user {user} from {visitor} port {port}"));
            Severity::Info
        }
        22..27 => {
            append(out, format_args!("Connection closed by {visitor} port {port} [preauth]"));
            Severity::Info
        }
        27 => {
            append(
                out,
                format_args!(
                    "error: maximum authentication attempts exceeded for root from {visitor} port {port} ssh2 [preauth]"
                ),
            );
            Severity::Error
        }
        28..32 => {
            let user = cx.pick(&USERS);
            append(out, format_args!("pam_unix(sshd:session): session closed for user {user}"));
            Severity::Info
        }
        32..36 => {
            let user = cx.pick(&USERS);
            append(
                out,
                format_args!(
                    "pam_unix(sshd:session): session opened for user {user}(uid=1004) by (uid=0)"
                ),
            );
            Severity::Info
        }
        _ => {
            let user = cx.pick(&USERS);
            let key = cx.rng.u64(..);
            append(
                out,
                format_args!(
                    "Accepted publickey for {user} from 10.0.5.51 port {port} ssh2: ED25519 SHA256:{key:016x}{key:016X}"
                ),
            );
            Severity::Info
        }
    };
    Said { app: "sshd", pid, facility: facility::AUTHPRIV, severity }
}

fn cron(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let (user, job) = cx.pick(&JOBS);
    append(out, format_args!("({user}) CMD ({job})"));
    let pid = cx.pid("cron") + cx.rng.u32(1..400);
    Said { app: "CRON", pid, facility: facility::CRON, severity: Severity::Info }
}

fn systemd(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let (unit, what) = cx.pick_uneven(&UNITS);
    let seconds = cx.duration_ms(900.0) / 1_000.0;
    match cx.rng.u32(..4) {
        0 => append(out, format_args!("Starting {unit} - {what}...")),
        1 => append(out, format_args!("{unit}: Deactivated successfully.")),
        2 => append(out, format_args!("Finished {unit} - {what}.")),
        _ => append(out, format_args!("{unit}: Consumed {seconds:.3}s CPU time.")),
    }
    Said { app: "systemd", pid: 1, facility: facility::DAEMON, severity: Severity::Info }
}

fn kernel(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    cx.stamp.uptime(out);
    let severity = match cx.rng.u32(..5) {
        0..3 => {
            let visitor = cx.visitor();
            let port = cx.pick_uneven(&[23, 445, 3389, 5900, 8080]);
            let own = HOSTS[cx.host].address;
            append(
                out,
                format_args!(
                    " [UFW BLOCK] IN=eth0 OUT= SRC={visitor} DST={own} LEN=40 TTL=241 PROTO=TCP DPT={port} SYN"
                ),
            );
            Severity::Warning
        }
        3 => {
            append(
                out,
                format_args!(
                    " TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies."
                ),
            );
            Severity::Notice
        }
        _ => {
            let what = if HOSTS[cx.host].role == Role::Database { "nvme0n1" } else { "vda" };
            append(
                out,
                format_args!(" {what}: completed discard of {} sectors", cx.rng.u32(8..90_000)),
            );
            Severity::Info
        }
    };
    Said { app: "kernel", pid: 0, facility: facility::KERN, severity }
}
