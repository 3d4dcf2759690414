//! Results of a query, run over each interval after its end.
//!
//! The cursor is the end of the last interval that was delivered. Intervals that passed while the
//! server was down are made up for, the last thousand of them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use platform::Clock;
use query::macros::Callable;
use query::source::TimeRange;
use query::{Query, Scratch};
use sinks::{Batch as Documents, Document, Value};

use super::feed::Feed;
use crate::programs::compute::Engine;

/// Intervals that are made up for.
const INTERVALS_MAX: i64 = 1_000;
/// Rows of one interval.
const ROWS_MAX: usize = 100_000;

/// Runs a query over intervals behind a cursor.
pub struct QueryFeed {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    query: Query,
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
        (engine, clock): (Arc<Engine>, Arc<dyn Clock>),
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
            None => now_ns.div_euclid(every_ns) * every_ns,
        };
        let query = Query::parse_with(query, now_ns, Callable::Configured);
        let query = query.map_err(|error| error.to_string())?;
        let delay_ns = delay.as_nanos() as i64;
        Ok(QueryFeed { engine, clock, query, every_ns, delay_ns, done_ns, stopped })
    }
}

impl Feed for QueryFeed {
    fn next(&mut self) -> Result<Option<Documents>, String> {
        let now_ns = self.clock.now_ns();
        let oldest_ns = now_ns.saturating_sub(self.every_ns.saturating_mul(INTERVALS_MAX));
        if self.done_ns < oldest_ns {
            tracing::warn!(
                "a query of a sink makes up for the last {INTERVALS_MAX} intervals only"
            );
            self.done_ns = oldest_ns.div_euclid(self.every_ns) * self.every_ns;
        }
        let end_ns = self.done_ns.saturating_add(self.every_ns);
        if end_ns.saturating_add(self.delay_ns) > now_ns {
            return Ok(None);
        }
        let range = TimeRange { start_ns: self.done_ns, end_ns };
        let context = self.engine.context(range, &self.stopped);
        let (mut documents, mut scratch) = (Vec::new(), Scratch::default());
        let run = query::run(&self.query, &*self.engine.source(), &context, &mut |rows| {
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
