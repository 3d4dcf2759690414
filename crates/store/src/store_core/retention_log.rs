//! Says in the log what was deleted, how many lines, from when to when they arrived, and by which
//! setting: one line for each deletion, with the target `audit`.

use text::duration::format_duration;
use text::size::show_bytes;
use text::time::format_time;

use crate::config::Retention;
use crate::segments::AnySegment;

/// The limit by which a whole segment is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Age,
    Bytes,
}

/// Logs that a segment was deleted by a limit.
pub(crate) fn note_segment(config: &Retention, segment: &AnySegment, limit: Limit) {
    let setting = match limit {
        Limit::Age => {
            let age = config.age_ns.map(age_text);
            format!("retention.age = {}", age.unwrap_or_default())
        }
        Limit::Bytes => {
            let bytes = config.bytes_max.map(show_bytes);
            format!("retention.bytes = {}", bytes.unwrap_or_default())
        }
    };
    tracing::info!(
        target: "audit",
        "{setting}: segment {} is deleted: {}, {} on disk",
        segment.id(),
        lines_text(segment.lines(), segment.received_ns()),
        show_bytes(segment.file_bytes())
    );
}

/// Logs that a rewrite of segments left out lines, and why.
pub(crate) fn note_lines(
    why: &str,
    segments: &[AnySegment],
    lines: u64,
    received_ns: Option<(i64, i64)>,
) {
    let ids: Vec<String> = segments.iter().map(|segment| segment.id().to_string()).collect();
    tracing::info!(
        target: "audit",
        "{why}: deleted from segment {}: {}",
        ids.join(", "),
        lines_text(lines, received_ns)
    );
}

/// An age as people write it: whole days as days.
pub(crate) fn age_text(ns: i64) -> String {
    const DAY_NS: i64 = 24 * 3_600_000_000_000;
    match ns % DAY_NS {
        0 => format!("{}d", ns / DAY_NS),
        _ => format_duration(ns),
    }
}

fn lines_text(lines: u64, received_ns: Option<(i64, i64)>) -> String {
    let noun = if lines == 1 { "line" } else { "lines" };
    match received_ns {
        Some((first, last)) => {
            let (first, last) = (format_time(first), format_time(last));
            format!("{lines} {noun}, received from {first} to {last}")
        }
        None => format!("{lines} {noun}"),
    }
}
