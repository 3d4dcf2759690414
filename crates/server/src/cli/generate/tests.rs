//! Whole lines: the same from the same seed, well formed in every format, and the incident told in its order.

use super::clock::SECOND_NS;
use super::*;

const LIVE_NS: i64 = 1_769_860_800 * SECOND_NS;

/// Lines at `rate` a second over `seconds` around the start.
fn lines(
    seed: u64,
    plan: &str,
    format: Format,
    seconds: std::ops::Range<i64>,
    rate: i64,
) -> Vec<String> {
    let plan = incident::parse_plan(plan).unwrap();
    let mut generator = Generator::new(seed, LIVE_NS, plan, None);
    let moments = seconds.start * rate..seconds.end * rate;
    moments
        .map(|i| {
            let mut out = Vec::new();
            generator.line(LIVE_NS + i * (SECOND_NS / rate), format, &mut out);
            String::from_utf8(out).unwrap()
        })
        .collect()
}

#[test]
fn the_same_seed_makes_the_same_lines() {
    for format in [Format::Rfc5424, Format::Rfc3164, Format::Json] {
        let first = lines(7, "demo", format, 150..250, 20);
        assert_eq!(first, lines(7, "demo", format, 150..250, 20));
        assert_ne!(first, lines(8, "demo", format, 150..250, 20));
    }
}

#[test]
fn every_line_is_well_formed() {
    for (format, head) in [(Format::Rfc5424, ">1 2026-01-31T12:"), (Format::Rfc3164, ">Jan 31 12:")]
    {
        for line in lines(3, "demo", format, 0..300, 20) {
            let cisco = line.contains(": gw1: Jan 31 12:");
            assert!(line.starts_with('<') && (cisco || line[..25].contains(head)), "{line}");
            assert!(!line.contains('\n'));
        }
    }
    for line in lines(3, "demo", Format::Json, 0..300, 20) {
        let json: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        for key in ["_time", "hostname", "app_name", "level"] {
            assert!(json[key].is_string(), "{key}: {line}");
        }
        assert!(json["_msg"].is_string() || json["msg"].is_string(), "{line}");
    }
}

#[test]
fn all_hosts_and_applications_are_there_with_stable_processes() {
    let lines = lines(3, "none", Format::Rfc5424, 0..300, 50);
    for host in &HOSTS {
        assert!(
            lines.iter().any(|l| l.contains(&format!(" {} ", host.name)) || l.contains(": gw1: ")),
            "{}",
            host.name
        );
    }
    for app in [
        "sshd",
        "systemd",
        "CRON",
        "kernel",
        "postfix/smtp",
        "haproxy",
        "nginx",
        "orders",
        "postgres",
    ] {
        assert!(lines.iter().any(|l| l.contains(&format!(" {app} "))), "{app}");
    }
    let mut nginx: Vec<&str> = lines
        .iter()
        .filter_map(|l| {
            l.split_once(" web1 nginx ").map(|(_, rest)| rest.split(' ').next().unwrap())
        })
        .collect();
    nginx.dedup();
    assert_eq!(nginx.len(), 1, "one process");
}

#[test]
fn the_incident_is_told_from_cause_to_symptom_and_back() {
    // The full disk is 180 seconds after the start.
    for rate in [2, 20, 200] {
        let lines = lines(5, "demo", Format::Rfc5424, 0..320, rate);
        let at = |texts: &[&str]| {
            let found = lines.iter().position(|l| texts.iter().all(|t| l.contains(t)));
            found.unwrap_or_else(|| panic!("{texts:?} at {rate} lines a second")) as i64
        };
        let story = [
            at(&["db1 CRON", "dump-shop --all"]),
            at(&["db1 disk-watch", "91% full"]),
            at(&["db1 disk-watch", "99% full"]),
            at(&["db1 kernel", "EXT4-fs (dm-2)"]),
            at(&["db1 postgres", "No space left on device"]),
            at(&["db1 postgres", "FATAL:  remaining connection slots"]),
            at(&["orders", "could not get connection"]),
            at(&["db1 sudo", "rm /var/lib/postgresql/dumps"]),
            at(&["orders", "connection pool recovered"]),
        ];
        assert!(story.is_sorted(), "{story:?} at {rate} lines a second");
        let failed = |l: &&String| {
            l.contains("/api/orders") && l.contains("\" 500 ") && l.contains(" nginx ")
        };
        let per_second = |from: i64, to: i64| {
            let part = &lines[(from * rate) as usize..(to * rate) as usize];
            part.iter().filter(failed).count() as f64 / (to - from) as f64
        };
        let (before, burst, after) =
            (per_second(0, 184), per_second(185, 270), per_second(275, 320));
        assert!(burst > 0.05 * rate as f64, "{burst} at {rate}");
        assert!(before < burst / 10.0 && after < burst / 10.0, "{before} {burst} {after}");
    }
}

#[test]
fn a_failed_order_can_be_followed_from_the_application_to_the_web_server() {
    let lines = lines(5, "at 10s", Format::Rfc5424, 0..100, 50);
    let mut found = 0;
    for pair in lines.windows(2) {
        let order = pair[0].split_once("could not get connection").and_then(|(_, rest)| {
            rest.split_once("\"order_id\":").map(|(_, rest)| rest.split(',').next().unwrap())
        });
        if let Some(order) = order {
            found +=
                usize::from(pair[1].contains(&format!("GET /api/orders/{order} HTTP/1.1\" 500 ")));
        }
    }
    assert!(found > 100, "{found}");
}
