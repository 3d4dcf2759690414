//! Complete lines: the same from the same seed, well formed in every format, and with the incident
//! in its order.

use super::clock::SECOND_NS;
use super::*;

const LIVE_NS: i64 = 1_769_860_800 * SECOND_NS;

/// Lines at `rate` per second over `seconds` around the start.
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

/// Lines parsed like a server that receives them over TCP.
fn parsed(lines: &[String], format: record::Format, late_ns: i64) -> record::Batch {
    let origin = record::Origin::new(record::Transport::SyslogTcp, format, None);
    let mut frame = record::FrameBuilder::new();
    for line in lines {
        frame.push_line(&origin, LIVE_NS + 320 * SECOND_NS + late_ns, line.as_bytes(), false);
    }
    let frame = Arc::new(frame.finish(1, 1).unwrap());
    record::Parser::new(&record::ParserConfig::default()).unwrap().parse(frame)
}

#[test]
fn the_parser_finds_host_application_time_and_type() {
    // RFC 3164 alone has too little of the time to send a history in it.
    let hour_ns = 3_600 * SECOND_NS;
    for (format, parse_as, precision_ns, late_ns) in [
        (Format::Rfc5424, record::Format::Syslog, 1_000_000, hour_ns),
        (Format::Rfc3164, record::Format::Syslog, SECOND_NS, 0),
        (Format::Json, record::Format::Json, 1_000_000, hour_ns),
    ] {
        let lines = lines(5, "demo", format, 100..300, 20);
        let batch = parsed(&lines, parse_as, late_ns);
        let (mut access, mut json) = (0, 0);
        for (i, row) in batch.rows().enumerate() {
            let get = |name: &str| {
                String::from_utf8_lossy(row.get_by_name(name).unwrap_or_default()).into_owned()
            };
            let line = &lines[i];
            assert_eq!(get("_note"), "", "{line}");
            assert!(HOSTS.iter().any(|h| h.name == get("hostname")), "{}: {line}", get("hostname"));
            assert!(!get("app_name").is_empty() || get("hostname") == "gw1", "{line}");
            assert!(!get("_level").is_empty(), "{line}");
            let time_ns = LIVE_NS + 100 * SECOND_NS + i as i64 * (SECOND_NS / 20);
            assert!(
                (0..precision_ns).contains(&(time_ns - row.time_ns())),
                "{}: {line}",
                row.time_ns()
            );
            access += usize::from(get("_type") == "access" && !get("status").is_empty());
            json += usize::from(get("_type") == "json" && !get("request_id").is_empty());
        }
        assert!(json > 100, "{format:?}: {json}");
        assert!(access > 500 || format == Format::Json, "{format:?}: {access}");
    }
}
