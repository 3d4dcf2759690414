//! Zones of times: as written, as configured, and as the arrival shows.

use super::*;
use crate::Zone;

/// Time, host, application, process and note of a line, those that there are.
fn seen(config: &ParserConfig, origin: &Origin, line: &str) -> String {
    let batch = parse_with(config, origin, &[line.as_bytes()]);
    let row = batch.row(0);
    let time = match row.time_ns() {
        ARRIVAL_NS => "arrival".to_owned(),
        ns => time_text(ns),
    };
    let names = ["hostname", "app_name", "proc_id", "_note"];
    let fields = names.into_iter().filter_map(|name| row.get_by_name(name));
    let fields = fields.map(|value| format!(" {}", String::from_utf8_lossy(value)));
    [time].into_iter().chain(fields).collect()
}

fn zoned(mut origin: Origin, zone: &str, live: bool) -> Origin {
    let hints =
        Hints { zone: Some(zone.to_owned()).filter(|z| !z.is_empty()), live, ..Hints::default() };
    origin.hints = Arc::new(hints);
    origin
}

#[test]
fn zones_in_lines_are_no_names_of_programs() {
    let rows = [
        ("2025-04-03 22:32:14.322 CEST [31225] app@shop LOG:  no data", "2025-04-03T20:32:14.322Z"),
        ("2025-04-03 22:35:22.389 EDT [3474] app@shop LOG:  no data", "2025-04-04T02:35:22.389Z"),
        ("2025-04-03 22:35:22.389 MST [3474] app@shop LOG:  no data", "2025-04-04T05:35:22.389Z"),
        ("2025-04-03 22:35:22.389 -03 [3474] app@shop LOG:  no data", "2025-04-04T01:35:22.389Z"),
        ("2025-04-03 22:35:22.389 Europe/Berlin [3474] LOG:  no data", "2025-04-03T20:35:22.389Z"),
        ("2025-11-03 22:35:22.389 Europe/Berlin [3474] LOG:  no data", "2025-11-03T21:35:22.389Z"),
        ("2025-04-03 22:35:22.389 BST [3474] app@shop LOG:  no data", "2025-04-03T21:35:22.389Z"),
        ("2025-04-03 12:35:22.389 AEST [3474] app@shop LOG:  no data", "2025-04-03T02:35:22.389Z"),
        ("2025-04-03 12:35:22.389 CST [3474] app@shop LOG:  no data", "2025-04-03T18:35:22.389Z"),
        ("[Thu Apr 03 22:35:22.389 2025] [core:error] x", "2025-04-03T22:35:22.389Z"),
        ("03-Apr-2025 22:35:22 CEST x", "2025-04-03T20:35:22Z"),
        ("2025-04-03 22:35:22 GMT+5:30 x", "2025-04-03T17:05:22Z"),
        ("2025-04-03 10:35:22 PM CEST x", "2025-04-03T20:35:22Z"),
        ("[03-Apr-2025 22:35:22 Europe/Berlin] PHP Warning:  x", "2025-04-03T20:35:22Z"),
        ("[03-Apr-2025 22:35:22 America/New_York] PHP Warning:  x", "2025-04-04T02:35:22Z"),
    ];
    for (line, expected) in rows {
        let mut lines = vec![(file(), ParserConfig::default())];
        // A zone that is configured does not matter for one that is written.
        lines.push((zoned(file(), "Asia/Tokyo", true), ParserConfig::default()));
        for (origin, config) in &lines[..if line.contains("core:error") { 1 } else { 2 }] {
            assert_eq!(seen(config, origin, line), expected, "{line}");
        }
    }
    let rows = [
        ("<189>*Nov 21 07:00:00.123 EST: %SYS-5-CONFIG_I: x", "2026-11-21T12:00:00.123Z SYS"),
        ("<189>12: Nov 21 13:00:00.123 CET: %SYS-5-CONFIG_I: x", "2026-11-21T12:00:00.123Z SYS"),
        ("<189>12: Nov 21 13:00:00.123 Berlin: %SYS-5-CONFIG_I: x", "2026-11-21T12:00:00.123Z SYS"),
        ("<189>Nov 21 2026 20:00:00 CST: %ASA-6-302013: x", "arrival ASA"),
        ("<189>Nov 21 2026 21:00:00 JST: %ASA-6-302013: x", "arrival ASA"),
        ("<13>Nov 21 22:00:00 AEST web1 app[7]: x", "arrival web1 app 7"),
        ("<13>Nov 21 17:30:00 IST web1 app[7]: x", "arrival web1 app 7"),
        // Names of hosts that begin as those of zones do.
        ("<13>Nov 21 11:59:58 MSK-SW1 app[7]: x", "2026-11-21T11:59:58Z MSK-SW1 app 7"),
        ("<13>Nov 21 11:59:58 EST.example app[7]: x", "2026-11-21T11:59:58Z EST.example app 7"),
        ("<13>2026-11-21 11:59:58 UTC-fw1 app[7]: x", "2026-11-21T11:59:58Z UTC-fw1 app 7"),
        ("<13>2026-11-21 11:59:58 PM-SRV1 app[7]: x", "2026-11-21T11:59:58Z PM-SRV1 app 7"),
    ];
    for (line, expected) in rows {
        assert_eq!(seen(&ParserConfig::default(), &syslog_udp(), line), expected, "{line}");
    }
}

#[test]
fn a_zone_of_several_meanings_is_noted_until_it_is_configured() {
    let line = "2026-11-01 12:00:00.389 IST [3474] app@shop LOG:  no data";
    let config = ParserConfig::default();
    let found = seen(&config, &file(), line);
    assert!(found.starts_with("2026-11-01T12:00:00.389Z name of the zone has"), "{found}");
    let of_file = zoned(file(), "Asia/Kolkata", false);
    assert_eq!(seen(&config, &of_file, line), "2026-11-01T06:30:00.389Z");
    let config = ParserConfig { zone: Zone::parse("Asia/Kolkata").unwrap(), ..config };
    assert_eq!(seen(&config, &file(), line), "2026-11-01T06:30:00.389Z");
}

#[test]
fn zones_of_sources_and_rules() {
    let rule = |name: &str, contains: &str, zone: &str| TypeRule {
        name: name.into(),
        contains: Some(contains.into()),
        zone: Some(zone.into()),
        ..TypeRule::default()
    };
    let host = |name: &str, host: &str, zone: &str| TypeRule {
        name: name.into(),
        hostname: vec![host.into()],
        zone: Some(zone.into()),
        ..TypeRule::default()
    };
    let config = ParserConfig {
        types: vec![
            rule("tokyo", "tokyo", "Asia/Tokyo"),
            host("york", "ny1", "America/New_York"),
            TypeRule {
                time_field: crate::parse::FieldNames(vec!["at".into()]),
                ..rule("at", "\"at\"", "+01:00")
            },
        ],
        zone: Zone::parse("Europe/Berlin").unwrap(),
        ..ParserConfig::default()
    };
    let of_file = zoned(file(), "Europe/London", false);
    let rows = [
        // Of all lines.
        (&file(), "2026-07-01 12:00:00 x", "2026-07-01T10:00:00Z"),
        (&file(), "2026-11-01 12:00:00 x", "2026-11-01T11:00:00Z"),
        (&file(), "{\"time\":\"2026-07-01 12:00:00\",\"msg\":\"x\"}", "2026-07-01T10:00:00Z"),
        (&file(), "time=\"2026-07-01 12:00:00\" level=info msg=x", "2026-07-01T10:00:00Z"),
        // Of the file.
        (&of_file, "2026-07-01 12:00:00 x", "2026-07-01T11:00:00Z"),
        (&of_file, "2026-11-01 12:00:00 x", "2026-11-01T12:00:00Z"),
        // Of a rule.
        (&of_file, "2026-07-01 12:00:00 tokyo", "2026-07-01T03:00:00Z"),
        (&file(), "2026-07-01 12:00:00 tokyo", "2026-07-01T03:00:00Z"),
        (&file(), "{\"at\":\"2026-07-01 12:00:00\",\"msg\":\"x\"}", "2026-07-01T11:00:00Z"),
        (&file(), "{\"time\":\"2026-07-01 12:00:00\",\"msg\":\"tokyo\"}", "2026-07-01T03:00:00Z"),
        // It is not doubted because another one fits the arrival.
        (&syslog_udp(), "<13>Nov 21 12:00:00 ny1 app: x", "2026-11-21T17:00:00Z ny1 app"),
        (&syslog_udp(), "<13>Nov 21 12:00:01 ny2 app: x", "2026-11-21T12:00:01Z ny2 app"),
        (
            &zoned(syslog_udp(), "Asia/Tokyo", false),
            "<13>Nov 21 12:00:00 h app: x",
            "2026-11-21T03:00:00Z h app",
        ),
    ];
    for (origin, line, expected) in rows {
        // Twice: the second one has a head that was seen before.
        let batch = parse_with(&config, origin, &[line.as_bytes(), line.as_bytes()]);
        let times: Vec<i64> = batch.rows().map(|row| row.time_ns()).collect();
        assert_eq!(times[0], times[1], "{line}");
        assert_eq!(seen(&config, origin, line), expected, "{line}");
    }
}

/// What is appended to a file now has a zone that fits the arrival; what was in it before has not.
#[test]
fn followed_files_show_their_zone() {
    let rows = [
        ("2026-11-21 13:00:00,123 ERROR x", "2026-11-21T12:00:00.123Z", "2026-11-21T13:00:00.123Z"),
        ("2026/11/21 07:00:00 [error] 7#7: *1 x", "arrival", "2026-11-21T07:00:00Z"),
        (
            "Nov 21 17:30:02 web1 app[7]: x",
            "2026-11-21T12:00:02Z web1 app 7",
            "2026-11-21T17:30:02Z web1 app 7",
        ),
        ("{\"time\":\"2026-11-21 13:00:05\"}", "2026-11-21T12:00:05Z", "2026-11-21T13:00:05Z"),
        ("2026-11-21 09:13:00 x", "2026-11-21T09:13:00Z", "2026-11-21T09:13:00Z"),
    ];
    for (line, now, before) in rows {
        let config = ParserConfig::default();
        assert_eq!(seen(&config, &zoned(file(), "", true), line), now, "{line}");
        assert_eq!(seen(&config, &file(), line), before, "{line}");
    }
}
