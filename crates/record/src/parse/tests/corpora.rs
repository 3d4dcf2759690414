//! Excerpts of real logs: each file gives the expected types, times and levels, and no notes.

use std::path::Path;

use super::*;

/// The expected result for a file: lines, their type, first time, lines with a level, lines with an
/// application.
struct Expected {
    name: &'static str,
    lines: usize,
    log_type: &'static str,
    first: &'static str,
    levels: usize,
    apps: usize,
}

const FILES: [Expected; 12] = [
    file("Apache", 300, "plain", "2005-12-04T04:47:44Z", 300, 0),
    file("BGL", 300, "plain", "2005-06-03T22:42:50Z", 300, 0),
    file("HDFS", 300, "plain", "2008-11-09T20:36:15Z", 300, 0),
    file("HPC", 300, "plain", "2004-02-26T14:12:22Z", 0, 0),
    file("Hadoop", 300, "plain", "2015-10-18T18:01:47.978Z", 300, 0),
    file("HealthApp", 300, "plain", "2017-12-23T22:15:29.606Z", 0, 0),
    // logrotate writes ALERT.
    file("Linux", 300, "syslog", "2026-06-14T15:16:01Z", 10, 300),
    // `error: …` of sshd.
    file("OpenSSH", 300, "syslog", "2025-12-10T06:55:46Z", 2, 300),
    file("OpenStack", 300, "plain", "2017-05-16T00:00:00.008Z", 300, 0),
    file("Spark", 300, "plain", "2017-06-09T20:10:40Z", 300, 0),
    file("Windows", 300, "plain", "2016-09-28T04:30:30Z", 300, 0),
    file("apache_access", 2000, "access", "2015-05-17T10:05:03Z", 2000, 0),
];

const fn file(
    name: &'static str,
    lines: usize,
    log_type: &'static str,
    first: &'static str,
    levels: usize,
    apps: usize,
) -> Expected {
    Expected { name, lines, log_type, first, levels, apps }
}

#[test]
fn each_file_is_understood() {
    let folder = Path::new("../../testdata/corpora");
    for expected in FILES {
        let bytes = std::fs::read(folder.join(format!("{}.log", expected.name))).unwrap();
        let lines: Vec<&[u8]> = bytes
            .split_inclusive(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
            .collect();
        let batch = parse_with(&ParserConfig::default(), &super::file(), &lines);
        let name = expected.name;
        assert_eq!(batch.len(), expected.lines, "{name}");
        let (mut levels, mut apps) = (0, 0);
        for (row, line) in batch.rows().zip(&lines) {
            let line_text = String::from_utf8_lossy(line);
            assert_eq!(row.raw(), *line);
            assert_eq!(row.get_by_name("_note"), None, "{name}: {line_text}");
            let found = row.get_by_name("_type");
            assert_eq!(found, Some(expected.log_type.as_bytes()), "{name}: {line_text}");
            assert_ne!(row.time_ns(), ARRIVAL_NS, "{name}: no time in {line_text}");
            let message = row.get_by_name("_msg").unwrap();
            assert!(
                !message.ends_with(b"\r")
                    && line.trim_ascii_end().ends_with(message.trim_ascii_end())
            );
            levels += usize::from(row.get_by_name("_level").is_some());
            apps += usize::from(row.get_by_name("app_name").is_some());
        }
        assert_eq!(time_text(batch.row(0).time_ns()), expected.first, "{name}");
        assert_eq!((levels, apps), (expected.levels, expected.apps), "{name}");
    }
}
