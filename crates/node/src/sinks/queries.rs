//! Results of a query, run over each interval after its end.
//!
//! The cursor is the end of the last interval that was delivered. Intervals that passed while the
//! server was down are made up for, the last thousand of them. A cursor in the future is one of a
//! clock that was set back: the query goes on with the interval that is under way.
//!
//! Relative times in the query refer to the last nanosecond of each interval, so that `_time:5m`
//! selects all lines of an interval of five minutes.
//!
//! The administrator who configures sinks may read the audit log. So the query reads it as that of
//! an auditor does: where a filter names one of the types of Loginson's own lines.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use platform::Clock;
use query::macros::Callable;
use query::source::{Source, TimeRange};
use query::{Context, Query, Restriction, Scratch};
use sinks::{Batch as Documents, Document, Value};

use super::feed::Feed;
use crate::programs::compute::Engine;

/// Intervals that are made up for.
const INTERVALS_MAX: i64 = 1_000;
/// Rows of one interval.
const ROWS_MAX: usize = 100_000;

/// What the query runs on.
pub trait Queried: Send + Sync {
    /// The lines, for one run.
    fn source(&self) -> Box<dyn Source>;

    /// A context for reading; `cancelled` ends it.
    fn context(&self, range: TimeRange, cancelled: &Arc<AtomicBool>) -> Context;
}

impl Queried for Engine {
    fn source(&self) -> Box<dyn Source> {
        Engine::source(self)
    }

    fn context(&self, range: TimeRange, cancelled: &Arc<AtomicBool>) -> Context {
        Engine::context(self, range, cancelled)
    }
}

/// Runs a query over intervals behind a cursor.
pub struct QueryFeed {
    queried: Arc<dyn Queried>,
    clock: Arc<dyn Clock>,
    /// Its text: relative times in it refer to the interval.
    query: String,
    every_ns: i64,
    delay_ns: i64,
    /// End of the last interval.
    done_ns: i64,
    stopped: Arc<AtomicBool>,
}

impl QueryFeed {
    /// A feed behind `cursor`, the text of an earlier batch; without one it begins with the
    /// interval that is under way.
    pub fn new(
        (queried, clock): (Arc<dyn Queried>, Arc<dyn Clock>),
        query: &str,
        (every, delay): (Duration, Duration),
        cursor: Option<&str>,
        stopped: Arc<AtomicBool>,
    ) -> Result<QueryFeed, String> {
        let every_ns = every.as_nanos() as i64;
        let now_ns = clock.now_ns();
        let done_ns = match cursor {
            Some(text) => {
                let read = text.strip_prefix("q1-").and_then(|number| number.parse().ok());
                read.ok_or_else(|| format!("'{text}' is no cursor of a query"))?
            }
            None => begin_of(now_ns, every_ns),
        };
        parsed(query, now_ns)?;
        let delay_ns = delay.as_nanos() as i64;
        let query = query.to_owned();
        Ok(QueryFeed { queried, clock, query, every_ns, delay_ns, done_ns, stopped })
    }
}

/// The beginning of the interval of an instant.
fn begin_of(ns: i64, every_ns: i64) -> i64 {
    ns.div_euclid(every_ns) * every_ns
}

/// The query, as it reads at a time.
fn parsed(query: &str, now_ns: i64) -> Result<Query, String> {
    Query::parse_with(query, now_ns, Callable::Configured).map_err(|error| error.to_string())
}

impl Feed for QueryFeed {
    fn next(&mut self) -> Result<Option<Documents>, String> {
        let now_ns = self.clock.now_ns();
        let oldest_ns = now_ns.saturating_sub(self.every_ns.saturating_mul(INTERVALS_MAX));
        if self.done_ns < oldest_ns {
            tracing::warn!(
                "a query of a sink makes up for the last {INTERVALS_MAX} intervals only"
            );
            self.done_ns = begin_of(oldest_ns, self.every_ns);
        }
        // By less than an interval, it waits.
        if self.done_ns.saturating_sub(now_ns) > self.every_ns {
            tracing::warn!(
                "the clock was set back: a query of a sink goes on with the interval that is under \
                 way, and delivers intervals again that were delivered before"
            );
            self.done_ns = begin_of(now_ns, self.every_ns);
        }
        let end_ns = self.done_ns.saturating_add(self.every_ns);
        if end_ns.saturating_add(self.delay_ns) > now_ns {
            return Ok(None);
        }
        let range = TimeRange { start_ns: self.done_ns, end_ns };
        let query = parsed(&self.query, end_ns.saturating_sub(1))?;
        let context = self.queried.context(range, &self.stopped);
        // That of programs, which operators save.
        let context = Context { restriction: Restriction::default(), ..context };
        let (mut documents, mut scratch) = (Vec::new(), Scratch::default());
        let run = query::run(&query, &*self.queried.source(), &context, &mut |rows| {
            for index in 0..rows.len() {
                let mut fields = Vec::new();
                rows.visit(index, &mut scratch, |name, value| {
                    fields.push((name.to_owned(), value_of(value)));
                });
                let id = format!("{}-{}-{}", range.start_ns, end_ns, documents.len());
                documents.push(Document::new(id, range.start_ns, fields));
            }
            match documents.len() > ROWS_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        run.map_err(|error| error.to_string())?;
        if documents.len() > ROWS_MAX {
            tracing::warn!(
                "a query of a sink has more than {ROWS_MAX} rows; further ones are left out"
            );
            documents.truncate(ROWS_MAX);
        }
        self.done_ns = end_ns;
        Ok(Some(Documents { documents, cursor: self.cursor() }))
    }

    fn cursor(&self) -> String {
        format!("q1-{}", self.done_ns)
    }
}

/// A value of a result: a number where it is written like one.
fn value_of(value: &[u8]) -> Value {
    let text = String::from_utf8_lossy(value);
    match serde_json::from_str::<Value>(&text) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::String(text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use platform::ManualClock;
    use query::Filter;
    use query::source::{ScanUnit, SourceError, Whose};
    use record::{
        Batch, Format, FrameBuilder, Hints, LineId, Origin, Parser, ParserConfig, Transport,
    };

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;
    /// The beginning of a minute.
    const START_S: i64 = 1_790_000_040;

    /// Some lines as a source.
    #[derive(Clone)]
    struct Lines(Vec<Arc<Batch>>);

    struct Unit(Arc<Batch>);

    impl Source for Lines {
        fn units(&self, _: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            let is_seen = |batch: &&Arc<Batch>| whose == Whose::All || !batch.is_internal();
            let unit = |batch: &Arc<Batch>| Box::new(Unit(Arc::clone(batch))) as Box<dyn ScanUnit>;
            Ok(self.0.iter().filter(is_seen).map(unit).collect())
        }

        fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(None)
        }
    }

    impl ScanUnit for Unit {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            None
        }

        fn lines(&self) -> u64 {
            self.0.len() as u64
        }

        fn bytes(&self) -> u64 {
            self.0.raw_bytes()
        }

        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(Some(Arc::clone(&self.0)))
        }
    }

    impl Queried for Lines {
        fn source(&self) -> Box<dyn Source> {
            Box::new(self.clone())
        }

        fn context(&self, range: TimeRange, _: &Arc<AtomicBool>) -> Context {
            // As the engine of programs.
            let restriction = Arc::new(Filter::without_audit()).into();
            Context { range, restriction, ..Context::default() }
        }
    }

    /// A line at each of these seconds.
    fn lines(origin: &Origin, seconds: impl Iterator<Item = i64>) -> Arc<Batch> {
        let mut frame = FrameBuilder::new();
        for second in seconds {
            let time = text::time::format_time(second * SECOND_NS);
            let line = format!(r#"{{"_time":"{time}","_msg":"a line"}}"#);
            // A time long after the arrival would not be believed.
            let received_ns = (START_S + 86_400) * SECOND_NS;
            frame.push_line(origin, received_ns, line.as_bytes(), false);
        }
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame))
    }

    fn sent() -> Origin {
        Origin::new(Transport::Http, Format::Json, None)
    }

    /// A feed of a query over each minute, and its clock.
    fn feed(lines: Vec<Arc<Batch>>, query: &str) -> (QueryFeed, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(START_S * SECOND_NS));
        let queried: Arc<dyn Queried> = Arc::new(Lines(lines));
        let from = (queried, Arc::clone(&clock) as Arc<dyn Clock>);
        let times = (Duration::from_secs(60), Duration::ZERO);
        (QueryFeed::new(from, query, times, None, Arc::default()).unwrap(), clock)
    }

    #[test]
    fn a_relative_time_refers_to_each_interval() {
        const MINUTES: i64 = 120;
        // At the beginning of each minute, where an interval begins, too.
        let lines = lines(&sent(), (0..MINUTES).map(|minute| START_S + 60 * minute));
        for (query, counted) in [
            ("* | stats count() n", 1),
            ("_time:1m | stats count() n", 1),
            ("_time:5m line | stats count() n", 1),
            ("_time:30s | stats count() n", 0),
            ("_time:>30s | stats count() n", 1),
        ] {
            let (mut feed, clock) = feed(vec![Arc::clone(&lines)], query);
            assert!(feed.next().unwrap().is_none(), "{query}");
            clock.advance_ns(MINUTES * 60 * SECOND_NS);
            for minute in 0..MINUTES {
                let batch = feed.next().unwrap().unwrap();
                let [document] = &batch.documents[..] else { panic!("{query}: {batch:?}") };
                assert_eq!(document.time_ns, (START_S + 60 * minute) * SECOND_NS, "{query}");
                assert_eq!(document.field("n"), Some(&Value::from(counted)), "{query}, {minute}");
            }
            assert!(feed.next().unwrap().is_none(), "{query}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_end_the_query() {
        const HOUR_NS: i64 = 3_600 * SECOND_NS;
        let lines = lines(&sent(), (0..3).map(|minute| START_S + 60 * minute));
        let (mut feed, clock) = feed(vec![lines], "* | stats count() n");
        clock.set_ahead_ns(HOUR_NS);
        while feed.next().unwrap().is_some() {}
        assert_eq!(feed.cursor(), format!("q1-{}", START_S * SECOND_NS + HOUR_NS));
        clock.set_ahead_ns(-HOUR_NS);
        clock.advance_ns(30 * SECOND_NS);
        assert!(feed.next().unwrap().is_none());
        assert_eq!(feed.cursor(), format!("q1-{}", START_S * SECOND_NS));
        clock.advance_ns(30 * SECOND_NS);
        let batch = feed.next().unwrap().unwrap();
        assert_eq!(batch.documents[0].field("n"), Some(&Value::from(1)));
        // A small step repeats nothing.
        clock.set_ahead_ns(-SECOND_NS);
        assert!(feed.next().unwrap().is_none());
        assert_eq!(feed.cursor(), batch.cursor);
    }

    #[test]
    fn a_query_that_names_the_audit_log_reads_it() {
        let hints = Hints { log_type: Some("audit".to_owned()), ..Hints::default() };
        let internal = Origin::new(Transport::Internal, Format::Json, None);
        let audit = Origin { hints: Arc::new(hints), ..internal };
        let all = [lines(&sent(), START_S..START_S + 5), lines(&audit, START_S..START_S + 2)];
        for (query, counted) in [
            ("* | stats count() n", 5),
            ("_type:=audit | stats count() n", 2),
            ("_type:=audit or * | stats count() n", 7),
            ("_msg:in(_type:=audit | fields _msg) | stats count() n", 5),
            ("!_type:=audit | stats count() n", 5),
        ] {
            let (mut feed, clock) = feed(all.to_vec(), query);
            clock.advance_ns(60 * SECOND_NS);
            let batch = feed.next().unwrap().unwrap();
            let [document] = &batch.documents[..] else { panic!("{query}: {batch:?}") };
            assert_eq!(document.field("n"), Some(&Value::from(counted)), "{query}");
        }
    }
}
