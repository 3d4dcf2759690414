//! Compares the lines in the server with those that were sent.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::Server;
use crate::senders::corpus::{APPS, Input};

/// The expected fields of each line.
pub struct Expected<'a> {
    pub hostname: &'a str,
    pub inputs: &'a [Input],
    /// From a raw line and its arrival: the prefix that `_time` should have.
    pub time: fn(&str, &str) -> String,
}

/// A query for the lines that were sent, without rows of the summary.
const SENT: &str = "facility:*";

/// Waits until all lines that were sent are durable, or counted as dropped by the kernel. Returns
/// the number of dropped lines.
pub fn wait_for_lines(server: &Server, source: &str, sent: usize) -> usize {
    let mut dropped = 0;
    server.wait_for(&format!("{sent} lines by {source}"), |server| {
        let counts = server.ingest(source);
        let count = |value: &Value| value.as_u64().unwrap_or(0) as usize;
        dropped = count(&counts["dropped"]["kernel"]);
        let seen = count(&counts["lines_kept"]) + dropped;
        assert!(seen <= sent, "{sent} lines were sent: {counts}");
        seen == sent
    });
    dropped
}

/// The raw lines that the server has, sorted.
pub fn raw_lines(server: &Server) -> Vec<Vec<u8>> {
    let mut lines = server.raw(SENT);
    lines.sort();
    lines
}

/// Checks that the server has exactly these raw lines. On failure prints only the first difference.
pub fn same_lines(found: &[Vec<u8>], mut sent: Vec<Vec<u8>>) {
    sent.sort();
    for (found, sent) in found.iter().zip(&sent) {
        let text = String::from_utf8_lossy;
        assert!(found == sent, "found {:?}\nsent {:?}", text(found), text(sent));
    }
    assert_eq!(found.len(), sent.len());
}

/// Checks that the server has these raw lines without the dropped ones, and no others.
pub fn some_of_the_lines(found: &[Vec<u8>], mut sent: Vec<Vec<u8>>, dropped: usize) {
    sent.sort();
    assert_eq!(found.len() + dropped, sent.len());
    let mut left = sent.iter();
    for line in found {
        // Both are sorted, so each line is found behind the one before.
        let text = String::from_utf8_lossy(line);
        assert!(left.any(|sent| sent == line), "never sent, or stored twice: {text:?}");
    }
}

/// Checks the fields of every line that the server has.
pub fn fields(server: &Server, expected: &Expected<'_>) {
    let mut messages = BTreeSet::new();
    for row in server.query(SENT, "include=_line,_received") {
        let field = |name: &str| row[name].as_str().unwrap_or_default();
        let app = APPS.iter().find(|app| app.name == field("app_name"));
        let app = app.unwrap_or_else(|| panic!("unknown application in {row}"));
        assert_eq!(field("hostname"), expected.hostname, "{row}");
        assert_eq!(field("severity"), (app.priority % 8).to_string(), "{row}");
        assert_eq!(field("facility"), (app.priority / 8).to_string(), "{row}");
        assert_eq!(field("_remote_ip"), "127.0.0.1", "{row}");
        let time = (expected.time)(field("_line"), field("_received"));
        assert!(field("_time").starts_with(&time), "the time is not {time} in {row}");
        assert!(messages.insert((app.name, field("_msg").to_owned())), "stored twice: {row}");
    }
    let sent = expected.inputs.iter();
    let sent = sent.flat_map(|input| input.lines.iter().map(|l| (input.app.name, l.clone())));
    let sent: BTreeSet<_> = sent.collect();
    if let Some(wrong) = messages.difference(&sent).next() {
        panic!("never sent: {wrong:?}");
    }
}

/// The lines of a file, each ended by a newline.
pub fn file_lines(path: &std::path::Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let bytes = bytes.strip_suffix(b"\n").expect("the file ends in a newline");
    bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// The time of a line of RFC 5424, which senders here write in UTC: `<13>1
/// 2026-01-31T12:00:00.123+00:00 …`. Without the zone, and without trailing zeros of the fraction.
pub fn time_5424(raw: &str, _received: &str) -> String {
    let time = raw.split(' ').nth(1).expect("version, then time");
    let time = time.strip_suffix("+00:00").or_else(|| time.strip_suffix('Z')).expect("is in UTC");
    match time.contains('.') {
        true => time.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => time.to_owned(),
    }
}

/// The time of a line of RFC 3164, `<13>Jan 31 12:00:00 …`, in the year of its arrival.
pub fn time_3164(raw: &str, received: &str) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let time = &raw[raw.find('>').expect("a priority") + 1..][..15];
    let month = MONTHS.find(&time[..3]).expect("a month") / 3 + 1;
    let day = time[4..6].trim_start();
    format!("{}-{month:02}-{day:0>2}T{}", &received[..4], &time[7..])
}
