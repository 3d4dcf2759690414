//! Reports for how many lines of files the parser finds time, level, host and application, and how
//! many it notes.
//!
//! ```text
//! loginson-bench parse_found /var/log/syslog app.log
//! ```

use std::sync::Arc;

use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

/// Arrival of all lines, 2027-01-01T00:00:00Z: a line without a recognised time gets this one.
const ARRIVAL_NS: i64 = 1_798_761_600_000_000_000;

pub(crate) fn main() {
    let files: Vec<String> = crate::arguments().collect();
    let name_width = files.iter().map(String::len).max().unwrap_or(4).max(4);
    println!("{:name_width$}   lines    time   level    host     app   notes", "file");
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable file");
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::File, Format::Auto, None);
        let mut lines = 0u64;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            builder.push_line(&origin, ARRIVAL_NS, line, false);
            lines += 1;
        }
        let Some(frame) = builder.finish(1, 1) else { continue };
        let mut parser = Parser::new(&ParserConfig::default()).expect("there are no rules");
        let batch = parser.parse(Arc::new(frame));
        let with = |name: &str| {
            batch.rows().filter(|row| row.get_by_name(name).is_some_and(|v| !v.is_empty())).count()
        };
        let timed = batch.rows().filter(|row| row.time_ns() != ARRIVAL_NS).count();
        let [level, host, app, notes] = ["_level", "hostname", "app_name", "_note"].map(with);
        println!("{file:name_width$} {lines:7} {timed:7} {level:7} {host:7} {app:7} {notes:7}");
    }
}
