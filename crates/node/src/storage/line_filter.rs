//! Filters of lines in LogsQL, for rules of retention, which the configuration checks, for
//! deletions, and for sinks. Only those of sinks select lines of the audit log: others go with the
//! segments that retention deletes by age or size.

use std::sync::Arc;

use query::macros::Callable;
use query::source::TimeRange;
use query::{Filter, Query, Scratch, TailQuery};
use record::Batch;
use store::LineFilter;

/// Two times that have nothing in common: what reads alike at both does not depend on the time.
pub const SOME_TIMES_NS: [i64; 2] = [1_000_000_007_000_000_013, 1_234_567_890_123_456_789];

/// Parses a filter of lines in LogsQL, without pipes. The error names the position in bytes and
/// what was expected there.
pub fn line_filter(text: &str, now_ns: i64) -> Result<LineFilter, String> {
    let query = parsed(text, now_ns)?;
    let query = query.restricted(&Filter::without_audit()).map_err(|error| error.to_string())?;
    let tail = query.tail(&[]).map_err(|error| error.to_string())?;
    Ok(LineFilter {
        range_ns: inclusive(query.filter().time_range()),
        tenants: query.filter().tenants(),
        selects: Box::new(move |batch: &Arc<Batch>| selected(&tail, batch)),
    })
}

/// Parses the filter of a sink, which sees each line once, when it arrives. It selects lines that
/// were sent, and of Loginson's own those whose type it names, as [`Filter::whose`] tells it: the
/// administrator who configures sinks may read the audit log. The error is that of
/// [`line_filter`], or says that the filter depends on the time.
pub fn sink_filter(text: &str) -> Result<LineFilter, String> {
    let [query, later] = SOME_TIMES_NS.map(|now_ns| parsed(text, now_ns));
    let query = query?;
    if query != later? {
        return Err("a time relative to now would be relative to the start of the sink for ever, \
                    and lines that arrive later would not be sent; leave `_time` out, because each \
                    line is sent when it arrives, or write a time such as \
                    _time:>=2026-01-31T12:00Z"
            .to_owned());
    }
    let own = match query.filter().without_unnamed_own() {
        Filter::All => query.clone(),
        named => query.restricted(&named).map_err(|error| error.to_string())?,
    };
    let sent = query.tail(&[]).map_err(|error| error.to_string())?;
    let own = own.tail(&[]).map_err(|error| error.to_string())?;
    let selects = move |batch: &Arc<Batch>| {
        // A sender may give its lines any type but that of the audit log.
        selected(if batch.is_internal() { &own } else { &sent }, batch)
    };
    Ok(LineFilter {
        range_ns: inclusive(query.filter().time_range()),
        tenants: query.filter().tenants(),
        selects: Box::new(selects),
    })
}

fn parsed(text: &str, now_ns: i64) -> Result<Query, String> {
    // Whoever may save a macro must not change what is deleted, or sent on.
    let query =
        Query::parse_with(text, now_ns, Callable::None).map_err(|error| error.to_string())?;
    match query.pipes().is_empty() {
        true => Ok(query),
        false => Err("a filter of lines has no pipes".to_owned()),
    }
}

/// The first and the last time of a range.
fn inclusive(range: TimeRange) -> (i64, i64) {
    let last_ns = match range.end_ns {
        i64::MAX => i64::MAX,
        end_ns => end_ns.saturating_sub(1),
    };
    (range.start_ns, last_ns)
}

fn selected(tail: &TailQuery, batch: &Arc<Batch>) -> Vec<bool> {
    let mut selected = vec![false; batch.len()];
    let rows = tail.selected(batch, &mut Scratch::default());
    for index in 0..rows.len() {
        let (_, row) = rows.line(index).expect("a filter makes no rows");
        selected[row as usize] = true;
    }
    selected
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Transport};

    use super::*;

    /// A line of this transport and type.
    fn batch(transport: Transport, log_type: &str) -> Arc<Batch> {
        let hints = Hints { log_type: Some(log_type.to_owned()), ..Hints::default() };
        let origin =
            Origin { hints: Arc::new(hints), ..Origin::new(transport, Format::Json, None) };
        let mut frame = FrameBuilder::new();
        frame.push_line(&origin, 1, b"{\"user\":\"ann\"}", false);
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame))
    }

    #[test]
    fn a_sink_sends_own_lines_only_of_types_that_it_names() {
        let sent = ["json", "alert"].map(|log_type| batch(Transport::Http, log_type));
        let own = ["audit", "alert", "summary"];
        let own = own.map(|log_type| batch(Transport::Internal, log_type));
        for (filter, of_sent, of_own) in [
            ("*", [true, true], [false, false, false]),
            ("user:ann", [true, true], [false, false, false]),
            ("!_type:=audit", [true, true], [false, false, false]),
            ("_type:*", [true, true], [false, false, false]),
            ("_type:=audit", [false, false], [true, false, false]),
            ("_type:audit user:ann", [false, false], [true, false, false]),
            ("_type:audit user:bob", [false, false], [false, false, false]),
            ("_type:=audit or *", [true, true], [true, false, false]),
            ("{_type=\"audit\"} or user:ann", [true, true], [true, false, false]),
            ("_type:in(alert, audit)", [false, true], [true, true, false]),
            ("_type:in(summary, json)", [true, false], [false, false, true]),
            ("_type:in(summary, alert, audit) or *", [true, true], [true, true, true]),
        ] {
            let filter_of = sink_filter(filter).unwrap();
            let selects = |batch: &Arc<Batch>| (filter_of.selects)(batch) == [true];
            assert_eq!(sent.each_ref().map(selects), of_sent, "{filter}");
            assert_eq!(own.each_ref().map(selects), of_own, "{filter}");
            // What deletes lines never selects the audit log.
            let deleting = line_filter(filter, 0).unwrap();
            assert_eq!((deleting.selects)(&own[0]), [false], "{filter}");
        }
    }

    #[test]
    fn the_filter_of_a_sink_does_not_depend_on_the_time() {
        for filter in ["_time:5m x", "x or !_time:>1h", "_time:[now-2h, now]", "_time:offset 1d"] {
            let error = sink_filter(filter).err().unwrap_or_default();
            assert!(error.contains("leave `_time` out"), "{filter}: {error}");
        }
        let day = "_time:day_range[08:00, 18:00)";
        for filter in ["*", "_time:>=2026-01-31T12:00Z x", "_time:2026-01", day] {
            assert!(sink_filter(filter).is_ok(), "{filter}");
        }
        assert!(sink_filter("error | limit 1").is_err_and(|text| text.contains("pipes")));
    }
}
