//! `loginson status`: whether a running server is well, how long its disk lasts, what is wrong and
//! what to do.
//!
//! It judges what `/api/v1/status` says; the server itself judges nothing. [`findings`] is pure.

use std::io::Write;

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use text::size::show_bytes;
use text::time::parse_timestamp;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::finding::{self, Finding};
use crate::cli::queries::duration;
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson status
  loginson status --json --server https://logs.example:9514 --token-file token
  loginson status --ready                          for health checks: needs no credentials

The exit code is 1 if the server does not answer or if there is an error: lines or answers are missing, or will be soon.
`loginson doctor` looks at the machine instead, `loginson top` at what arrives.")]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only ask whether the server takes lines and answers queries
    #[arg(long, conflicts_with = "json")]
    ready: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Days that the disk must last; with fewer, there is a warning, or an error.
const DISK_DAYS_WARNING: f64 = 14.0;
const DISK_DAYS_ERROR: f64 = 2.0;
/// Seconds of arrivals from which a rate is told.
const RATE_S_MIN: u64 = 60;
/// Bytes of lines from which the share that they take on the disk is told.
const SHARE_BYTES_MIN: u64 = 16 << 20;
/// Seconds that sealing may be behind.
const SEALING_LAG_S_MAX: u64 = 3600;
/// Lines that parsing may be behind.
const PARSE_LAG_LINES_MAX: u64 = 1_000_000;
/// Days before its end at which a certificate is worth a warning.
const CERTIFICATE_DAYS_MIN: f64 = 14.0;
/// Days without a new backup that are worth a warning.
pub const BACKUP_DAYS_MAX: f64 = 7.0;

const DAY_S: f64 = 86_400.0;
const DAY_NS: f64 = DAY_S * 1e9;

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    if args.ready {
        let answer = client.get("/ready", &[])?;
        answer.map_err(|refusal| anyhow!(escaped(&refusal.message())))?;
        println!("ready");
        return Ok(());
    }
    let status = client.get_json("/api/v1/status")?;
    // A reader may not list backups.
    let backups = client.get_json("/api/v1/backups").ok();
    let findings = findings(&status, backups.as_ref());
    let mut out = std::io::stdout().lock();
    if args.json {
        let told = finding::json(&findings, json!({ "status": status }));
        writeln!(out, "{told}")?;
    } else {
        writeln!(out, "{}", summary(&status, !finding::has_errors(&findings)))?;
        finding::write(&mut out, &findings)?;
    }
    finding::judge(&findings)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Time between two texts, in days.
pub fn days_between(from: &str, to: &str) -> Option<f64> {
    let (from, to) = (parse_timestamp(from.as_bytes())?, parse_timestamp(to.as_bytes())?);
    Some((to as f64 - from as f64) / DAY_NS)
}

fn summary(status: &Value, is_well: bool) -> String {
    let store = &status["store"];
    let version = escaped(status["version"].as_str().unwrap_or_default());
    let word = if is_well { "well" } else { "NOT well" };
    format!(
        "loginson {version}: {word}; up {}; {} lines, {} of text in {} on disk",
        duration(number(&status["uptime_s"]).saturating_mul(1000)),
        number(&store["lines"]),
        show_bytes(number(&store["bytes_raw"])),
        show_bytes(number(&store["bytes_disk"])),
    )
}

/// What is worth knowing of a status, and of the list of backups if it may be read.
pub fn findings(status: &Value, backups: Option<&Value>) -> Vec<Finding> {
    let store = &status["store"];
    let mut findings = vec![ready(status)];
    if store.is_object() {
        findings.push(disk(status));
        findings.extend(sealing(&store["sealing"]));
    }
    findings.extend(drops(status));
    findings.extend(behind(status));
    findings.extend(sources(status));
    findings.extend(memory(&status["memory"]));
    let now = status["now"].as_str().unwrap_or_default();
    for (name, key) in [("http_tls", "https"), ("tls", "tls")] {
        findings.extend(certificate(name, &status[key], now));
    }
    if status["backup"].is_object() {
        findings.push(sent_backup(&status["backup"], now));
    } else if let Some(backups) = backups
        && number(&store["lines"]) > 0
    {
        let list = backups["backups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let newest = list.iter().filter_map(|backup| backup["created"].as_str()).max();
        findings.push(backup(newest, now));
    }
    findings
}

fn ready(status: &Value) -> Finding {
    match status["store"]["state"].as_str() {
        Some("disk_full") => Finding::error(
            "store",
            "the disk is full; no line is taken",
            "make room on the disk, or lower retention.age or retention.bytes and `loginson reload`; lines are taken \
             again without a restart",
        ),
        Some("failing") => Finding::error(
            "store",
            "the store cannot write",
            "the log of the server says why (journalctl -u loginson); check the disk, then restart the server",
        ),
        Some("closed") => Finding::error("store", "the store is closed", "the server is stopping"),
        None => Finding::warning(
            "store",
            "the store is still being opened",
            "wait; after a crash of a large store this takes minutes",
        ),
        Some(_) if status["ready"] == false => Finding::error(
            "store",
            "the server does not take lines or answer queries at present",
            "`loginson status --ready` says why",
        ),
        Some(_) => Finding::ok("store", "takes lines and answers queries"),
    }
}

/// How long the disk lasts, from what arrived since the start.
fn disk(status: &Value) -> Finding {
    let store = &status["store"];
    let (free, total) = (number(&store["disk_free_bytes"]), number(&store["disk_total_bytes"]));
    let used = number(&store["bytes_disk"]);
    let space = format!("{} of {} free", show_bytes(free), show_bytes(total));
    let remedy = "set retention.age or retention.bytes in the configuration and `loginson reload`, or give it a larger disk";
    let kept = |source: &Value| number(&source["bytes_kept"]);
    let arrived: u64 =
        status["ingest"].as_array().map_or(0, |sources| sources.iter().map(kept).sum());
    let uptime_s = number(&status["uptime_s"]);
    let pairs = [("sealed_bytes_disk", "sealed_bytes_raw"), ("bytes_disk", "bytes_raw")];
    let share = pairs.into_iter().find_map(|(disk, raw)| {
        let raw = number(&store[raw]);
        (raw >= SHARE_BYTES_MIN).then(|| number(&store[disk]) as f64 / raw as f64)
    });
    if let Some(max) = store["retention"]["bytes_max"].as_u64()
        && max.saturating_sub(used) <= free
    {
        let found = format!("{space}; retention.bytes holds the lines at {}", show_bytes(max));
        return Finding::ok("disk", found);
    }
    let (Some(share), true) = (share, uptime_s >= RATE_S_MIN) else {
        let found = format!("{space}; too little arrived since the start to say how long it lasts");
        return match free < total / 20 {
            true => Finding::warning("disk", found, remedy),
            false => Finding::ok("disk", found),
        };
    };
    let a_day = arrived as f64 / uptime_s as f64 * DAY_S * share;
    let rate = format!("{} a day", show_bytes(a_day as u64));
    if let Some(age_s) = store["retention"]["age_s"].as_u64() {
        let steady = a_day * age_s as f64 / DAY_S;
        if steady <= used as f64 + free as f64 {
            let found = format!(
                "{space}; at {rate}, retention.age holds the lines at about {}",
                show_bytes(steady as u64)
            );
            return Finding::ok("disk", found);
        }
    }
    if a_day < 1.0 {
        return Finding::ok("disk", format!("{space}; next to nothing arrives"));
    }
    let days = free as f64 / a_day;
    let found = match days {
        0.0..2.0 => format!("{space}; full in about {:.0} hours, at {rate}", days * 24.0),
        2.0..1000.0 => format!("{space}; lasts about {days:.0} days, at {rate}"),
        _ => format!("{space}; lasts for years, at {rate}"),
    };
    if days < DISK_DAYS_ERROR {
        Finding::error("disk", found, remedy)
    } else if days < DISK_DAYS_WARNING {
        Finding::warning("disk", found, remedy)
    } else {
        Finding::ok("disk", found)
    }
}

fn sealing(sealing: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = number(&sealing["damaged_lines"]);
    if number(&sealing["damaged_segments"]) > 0 {
        findings.push(Finding::error(
            "damage",
            format!("{lines} lines cannot be read, as their file is damaged"),
            "check the disk (smartctl), and restore them from a backup: `loginson verify`, `loginson restore`",
        ));
    }
    let lag_s = number(&sealing["lag_s"]);
    if lag_s > SEALING_LAG_S_MAX {
        findings.push(Finding::warning(
            "sealing",
            format!(
                "{} wait to be compressed, the oldest for {}",
                show_bytes(number(&sealing["lag_bytes"])),
                duration(lag_s.saturating_mul(1000))
            ),
            "if it stays so, the machine is too slow for what arrives: raise placement.sealing_threads, or add processors",
        ));
    }
    findings
}

/// Lines that were not kept, by reason.
fn drops(status: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in status["ingest"].as_array().into_iter().flatten() {
        for (reason, lines) in source["dropped"].as_object().into_iter().flatten() {
            let lines = number(lines);
            let title = source["title"].as_str().unwrap_or_default();
            if lines == 0 {
                continue;
            }
            let found = format!("{title}: {lines} lines since the start ({reason})");
            findings.push(match reason.as_str() {
                "kernel" => Finding::error(
                    "lost",
                    found,
                    "the kernel dropped datagrams: `sysctl -w net.core.rmem_max=67108864`, raise syslog.udp_sockets, or \
                     let senders use TCP",
                ),
                "disk_full" => Finding::error("lost", found, "make room on the disk; see above"),
                "write_failed" => {
                    Finding::error("lost", found, "the disk refused writes; the log says why")
                }
                "oversized" => Finding::warning(
                    "cut",
                    found,
                    "lines over the limit are kept in part; docs/limits.md has the limits",
                ),
                "wrong_protocol" => Finding::warning(
                    "refused",
                    found,
                    "senders speak another protocol than this port; the log names them and the right port",
                ),
                _ => Finding::warning("refused", found, "the log names the senders and what to do"),
            });
        }
        let failed = number(&source["threads_failed"]);
        if failed > 0 {
            findings.push(Finding::error(
                "source",
                format!("{}: failed {failed} times", source["title"].as_str().unwrap_or_default()),
                "the log says why; please report it",
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("lines", "none were dropped since the start"));
    }
    findings
}

fn behind(status: &Value) -> Option<Finding> {
    let lines = number(&status["parse_lag_lines"]);
    (lines > PARSE_LAG_LINES_MAX).then(|| {
        Finding::warning(
            "parsing",
            format!("{lines} lines are safe but not parsed, so queries find them late"),
            "if it stays so, raise placement.parse_threads, or add processors",
        )
    })
}

/// Files, the journal, Kafka.
fn sources(status: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unreadable = number(&status["files"]["unreadable"]);
    if unreadable > 0 {
        findings.push(Finding::error(
            "files",
            format!("{unreadable} followed files cannot be read"),
            "give the user of the server the right to read them, for example `usermod -aG adm loginson`, and restart it; \
             the log names them",
        ));
    }
    let lost = number(&status["files"]["bytes_lost"]);
    if lost > 0 {
        findings.push(Finding::error(
            "files",
            format!("{} were deleted before they were read", show_bytes(lost)),
            "rotate later, or keep more rotated files (logrotate: rotate, delaycompress)",
        ));
    }
    let mut of = |subject: &'static str, error: &Value, remedy: &str| {
        if let Some(error) = error.as_str().filter(|error| !error.is_empty()) {
            findings.push(Finding::error(subject, error, remedy));
        }
    };
    of(
        "journal",
        &status["journald"]["error"],
        "`usermod -aG systemd-journal loginson`, and restart it",
    );
    for group in status["kafka"].as_array().into_iter().flatten() {
        of("kafka", &group["error"], "check [[kafka]] and the brokers; docs/kafka.md");
    }
    for name in ["https", "tls"] {
        of(
            "certificate",
            &status[name]["error"],
            "mend the files of the certificate; they are read again by themselves",
        );
    }
    findings
}

fn memory(memory: &Value) -> Option<Finding> {
    let refused: u64 = memory["refused"].as_object().map_or(0, |by| by.values().map(number).sum());
    (refused > 0).then(|| {
        Finding::warning(
            "memory",
            format!(
                "{refused} requests were refused, as {} were in use",
                show_bytes(number(&memory["bytes_max"]))
            ),
            "narrow the queries, or raise memory.bytes_max; `loginson top` shows the queries",
        )
    })
}

fn certificate(of: &str, tls: &Value, now: &str) -> Option<Finding> {
    let expires = tls["certificate_expires"].as_str()?;
    let days = days_between(now, expires)?;
    let found = format!("the certificate ([{of}]) expires on {}", expires.get(..10)?);
    let remedy = "renew it; the files are read again by themselves, or by `loginson reload`";
    Some(if days <= 0.0 {
        Finding::error("certificate", found.replace("expires", "expired"), remedy)
    } else if days < CERTIFICATE_DAYS_MIN {
        Finding::warning("certificate", found, remedy)
    } else {
        Finding::ok("certificate", found)
    })
}

/// Whether the newest backup is new enough.
pub fn backup(newest: Option<&str>, now: &str) -> Finding {
    let remedy = "`loginson backup` makes one in no time; copy it to another disk or machine";
    match newest.and_then(|newest| Some((newest, days_between(newest, now)?))) {
        None => Finding::warning("backup", "there is none", remedy),
        Some((_, days)) if days > BACKUP_DAYS_MAX => {
            Finding::warning("backup", format!("the newest is {days:.0} days old"), remedy)
        }
        Some((newest, _)) => Finding::ok(
            "backup",
            format!("the newest is of {}", newest.get(..16).unwrap_or(newest)),
        ),
    }
}

/// Whether the newest backup that was sent to the destination is new enough.
pub fn sent_backup(state: &Value, now: &str) -> Finding {
    let to = escaped(state["to"].as_str().unwrap_or_default());
    let remedy = match state["failed"]["why"].as_str() {
        Some(why) => format!("the last attempt failed: {}", escaped(why)),
        None => "`loginson backup send` sends one; set backup.every for more".to_owned(),
    };
    let late_days = state["every_s"]
        .as_u64()
        .map_or(BACKUP_DAYS_MAX, |every_s| (2.0 * every_s as f64 / DAY_S).max(1.0 / 24.0));
    let last = state["last"]["created"].as_str();
    match last.and_then(|last| Some((last, days_between(last, now)?))) {
        None if state["running"].is_object() => {
            Finding::ok("backup", format!("the first is being sent to {to}"))
        }
        None => Finding::warning("backup", format!("none was sent to {to}"), remedy),
        Some((last, days)) => {
            let found = format!(
                "the newest sent to {to} is of {}, {} old",
                last.get(..16).unwrap_or(last),
                duration((days.max(0.0) * DAY_S * 1000.0) as u64)
            );
            match days {
                _ if days <= late_days => Finding::ok("backup", found),
                _ if days <= BACKUP_DAYS_MAX.max(late_days * 5.0) => {
                    Finding::warning("backup", found, remedy)
                }
                _ => Finding::error("backup", found, remedy),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::finding::Level;

    /// A server that is well, with changes.
    fn status(change: impl FnOnce(&mut Value)) -> Value {
        let gib = 1_u64 << 30;
        let mut status = json!({
            "version": "0.1.0", "ready": true, "uptime_s": 86_400, "now": "2026-11-29T12:00:00Z",
            "parse_lag_lines": 0,
            "ingest": [{
                "title": "syslog over UDP", "bytes_kept": 10 * gib, "threads_failed": 0,
                "dropped": { "kernel": 0, "oversized": 0 },
            }],
            "store": {
                "state": "ok", "lines": 7, "bytes_raw": 20 * gib, "bytes_disk": 2 * gib,
                "sealed_bytes_raw": 10 * gib, "sealed_bytes_disk": gib,
                "disk_free_bytes": 100 * gib, "disk_total_bytes": 200 * gib,
                "retention": { "age_s": null, "bytes_max": null },
                "sealing": { "damaged_segments": 0, "damaged_lines": 0, "lag_s": 0, "lag_bytes": 0 },
            },
            "memory": { "bytes_max": gib, "refused": { "query": 0 } },
            "files": null, "journald": null, "kafka": [], "https": null, "tls": null,
        });
        change(&mut status);
        status
    }

    #[test]
    fn a_server_that_is_well() {
        let found = findings(&status(|_| {}), None);
        assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:#?}");
        let disk = found.iter().find(|finding| finding.subject == "disk").unwrap();
        assert!(disk.found.contains("lasts about 100 days, at 1.0 GiB a day"), "{disk:?}");
    }

    #[test]
    fn everything_that_is_wrong_has_a_remedy() {
        let check = |level: Level, part: &str, change: fn(&mut Value)| {
            let found = findings(&status(change), Some(&json!({ "backups": [] })));
            let hit = found.iter().find(|finding| finding.found.contains(part));
            let hit = hit.unwrap_or_else(|| panic!("{part}: {found:#?}"));
            assert_eq!(hit.level, level, "{hit:?}");
            assert_eq!(hit.remedy.is_empty(), level == Level::Ok, "{hit:?}");
        };
        use Level::{Error, Ok, Warning};
        check(Error, "the disk is full", |s| s["store"]["state"] = "disk_full".into());
        check(Error, "cannot write", |s| s["store"]["state"] = "failing".into());
        check(Warning, "still being opened", |s| s["store"] = Value::Null);
        check(Error, "does not take lines", |s| s["ready"] = false.into());
        check(Error, "full in about 24 hours", |s| {
            s["store"]["disk_free_bytes"] = (1_u64 << 30).into()
        });
        check(Warning, "lasts about 5 days", |s| {
            s["store"]["disk_free_bytes"] = (5_u64 << 30).into()
        });
        check(Ok, "retention.bytes holds", |s| {
            s["store"]["disk_free_bytes"] = (5_u64 << 30).into();
            s["store"]["retention"]["bytes_max"] = (6_u64 << 30).into();
        });
        check(Ok, "retention.age holds the lines at about 3.0 GiB", |s| {
            s["store"]["disk_free_bytes"] = (5_u64 << 30).into();
            s["store"]["retention"]["age_s"] = (3 * 86_400).into();
        });
        check(Ok, "too little arrived", |s| s["uptime_s"] = 59.into());
        check(Error, "7 lines cannot be read", |s| {
            s["store"]["sealing"]["damaged_segments"] = 1.into();
            s["store"]["sealing"]["damaged_lines"] = 7.into();
        });
        check(Warning, "wait to be compressed", |s| s["store"]["sealing"]["lag_s"] = 4000.into());
        check(Error, "5 lines since the start (kernel)", |s| {
            s["ingest"][0]["dropped"]["kernel"] = 5.into();
        });
        check(Warning, "(oversized)", |s| s["ingest"][0]["dropped"]["oversized"] = 5.into());
        check(Error, "failed 2 times", |s| s["ingest"][0]["threads_failed"] = 2.into());
        check(Warning, "not parsed", |s| s["parse_lag_lines"] = 2_000_000.into());
        check(Error, "2 followed files", |s| s["files"] = json!({ "unreadable": 2 }));
        check(Error, "no journal", |s| s["journald"] = json!({ "error": "no journal" }));
        check(Error, "no broker", |s| s["kafka"] = json!([{ "error": "no broker" }]));
        check(Warning, "3 requests were refused", |s| s["memory"]["refused"]["query"] = 3.into());
        check(Error, "expired on 2026-11-28", |s| {
            s["https"] = json!({ "certificate_expires": "2026-11-28T00:00:00Z", "error": "" });
        });
        check(Warning, "expires on 2026-12-05", |s| {
            s["https"] = json!({ "certificate_expires": "2026-12-05T00:00:00Z", "error": "" });
        });
        check(Warning, "there is none", |_| {});
        assert_eq!(backup(Some("2026-11-01T00:00:00Z"), "2026-11-29T00:00:00Z").level, Warning);
        assert_eq!(backup(Some("2026-11-28T00:00:00Z"), "2026-11-29T00:00:00Z").level, Ok);
    }

    #[test]
    fn a_strange_answer_does_not_panic() {
        for answer in
            [json!(null), json!([]), json!({ "store": 1, "ingest": {} }), json!({ "store": {} })]
        {
            findings(&answer, Some(&answer));
            summary(&answer, true);
        }
    }

    #[test]
    fn a_sent_backup_is_judged_by_its_age() {
        let state = |last: Option<&str>, every_s: Option<u64>, why: Option<&str>| {
            json!({
                "to": "s3://b/a",
                "every_s": every_s,
                "last": last.map(|created| json!({ "created": created })),
                "failed": why.map(|why| json!({ "why": why })),
            })
        };
        let now = "2026-11-29T12:00:00Z";
        let hour = Some(3600);
        for (state, level, expected) in [
            (state(None, hour, None), Level::Warning, "none was sent to s3://b/a"),
            (state(Some("2026-11-29T10:01:00Z"), hour, None), Level::Ok, "is of 2026-11-29T10:01"),
            (state(Some("2026-11-29T09:00:00Z"), hour, Some("no disk")), Level::Warning, "3h"),
            (state(Some("2026-11-21T12:00:00Z"), hour, None), Level::Error, "old"),
            (state(Some("2026-11-23T12:00:00Z"), None, None), Level::Ok, "old"),
            (state(Some("2026-11-19T12:00:00Z"), None, None), Level::Warning, "old"),
        ] {
            let found = sent_backup(&state, now);
            assert_eq!(found.level, level, "{found:?}");
            assert!(found.found.contains(expected), "{found:?}");
        }
        let failed = sent_backup(&state(None, hour, Some("no disk")), now);
        assert!(failed.remedy.contains("no disk"), "{failed:?}");
        let running = json!({ "to": "x", "running": { "bytes_total": 1 } });
        assert_eq!(sent_backup(&running, now).level, Level::Ok);
    }
}
