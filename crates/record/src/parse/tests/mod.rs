//! Tests of whole lines and the resulting records.

mod any;
mod corpora;
mod device;
mod formats;
mod heads;
mod hosts;
mod joined;
mod json;
mod levels;
mod message;
mod own;
mod rule;
mod servers;
mod sources;
mod syslog;
mod times;
mod vendor;
mod zones;

use std::sync::Arc;

use super::*;
use crate::frame::{FrameBuilder, Hints, Transport};

/// Arrival of all lines of these tests: 2026-11-21T12:00:00Z.
const ARRIVAL_NS: i64 = 1_795_262_400_000_000_000;

/// Parses lines of one origin.
fn parse_with(config: &ParserConfig, origin: &Origin, lines: &[&[u8]]) -> Batch {
    let mut builder = FrameBuilder::new();
    for line in lines {
        builder.push_line(origin, ARRIVAL_NS, line, false);
    }
    let frame = Arc::new(builder.finish(1, 1).expect("there are lines"));
    Parser::new(config).expect("the rules are right").parse(frame)
}

fn syslog_udp() -> Origin {
    let sender = "10.0.0.7:514".parse().unwrap();
    Origin::new(Transport::SyslogUdp, Format::Syslog, Some(sender))
}

fn file() -> Origin {
    Origin::new(Transport::File, Format::Auto, None)
}

fn http(format: Format, hints: Hints) -> Origin {
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::Http, format, None) }
}

/// All fields of a row as `name=value` in the order of names, and the time if it is not the arrival
/// time.
fn shown(row: crate::batch::Row<'_>, batch: &Batch) -> String {
    let mut fields: Vec<String> = row
        .fields()
        .map(|(id, value)| format!("{}={}", batch.name(id), String::from_utf8_lossy(value)))
        .collect();
    fields.sort();
    if row.time_ns() != ARRIVAL_NS {
        fields.push(format!("@{}", time_text(row.time_ns())));
    }
    fields.join("|")
}

fn time_text(ns: i64) -> String {
    let (second, nanos) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (year, month, day) = text::civil::civil_from_days(second.div_euclid(86_400));
    let of_day = second.rem_euclid(86_400);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = match nanos {
        0 => String::new(),
        _ => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}{fraction}Z")
}

/// Checks rows of (line, fields as [`shown`] without those that all lines of the table share).
fn check(origin: &Origin, common: &[&str], rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
        let found = shown(batch.row(0), &batch);
        let found = found.split('|').filter(|field| !common.contains(field)).collect();
        let sorted = |mut fields: Vec<&str>| -> String {
            fields.sort_unstable();
            fields.join("|")
        };
        assert_eq!(sorted(found), sorted(expected.split('|').collect()), "\nline: {line:?}");
        assert_eq!(batch.row(0).raw(), line.as_bytes());
    }
}
