//! `options(concurrency=2, ignore_global_time_filter=true) error | …`: how a query is run.
//!
//! `parallel_readers` and `allow_partial_response` are accepted and have no effect, because the
//! threads that filter also read, and answers are never partial. Left out: `time_offset`; use
//! `offset` behind the time filters and the pipe `time_add` instead.

use std::fmt;

use crate::base::TimeRange;
use crate::lang::context::Context;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// How a query is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// Most threads that read and filter. The number that the server gives each query is never
    /// exceeded.
    pub concurrency: Option<usize>,
    /// Whether the time range of the request is ignored.
    pub ignore_global_time_filter: bool,
}

/// The names of all options, for messages.
const OPTIONS: &[&str] =
    &["concurrency", "ignore_global_time_filter", "parallel_readers", "allow_partial_response"];

/// Parses the options, if the query begins with them.
pub(crate) fn parse_options(cursor: &mut Cursor<'_>) -> Result<QueryOptions, ParseError> {
    let mut options = QueryOptions::default();
    if !cursor.eat_call("options") {
        return Ok(options);
    }
    while !cursor.eat(')') {
        let name = cursor.run("=,()|", "the name of an option")?;
        cursor.expect('=', "options(…)")?;
        match name.text.to_ascii_lowercase().as_str() {
            "concurrency" => options.concurrency = Some(parse_count(cursor)?),
            "ignore_global_time_filter" => {
                options.ignore_global_time_filter = parse_choice(cursor)?;
            }
            "parallel_readers" => drop(parse_count(cursor)?),
            "allow_partial_response" => drop(parse_choice(cursor)?),
            "time_offset" => {
                let message = "there is no option \"time_offset\"; write \"offset\" behind the time filters, and \
                               the pipe \"time_add\"";
                return Err(cursor.error_at(name.position, OPTIONS, message));
            }
            _ => {
                let message = format!("there is no option \"{}\"", name.text);
                return Err(cursor.error_at(name.position, OPTIONS, message));
            }
        }
        if !cursor.eat(',') {
            cursor.expect(')', "options(…)")?;
            break;
        }
    }
    Ok(options)
}

fn parse_count(cursor: &mut Cursor<'_>) -> Result<usize, ParseError> {
    let what = "a number from 1 on";
    let written = cursor.run(",()|", what)?;
    let count = written.text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| {
        cursor.error_at(written.position, &[what], "this is not a number of threads")
    })
}

fn parse_choice(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    let written = cursor.run(",()|", "true or false")?;
    match written.text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(cursor.error_at(
            written.position,
            &["true", "false"],
            "this is neither true nor false",
        )),
    }
}

impl QueryOptions {
    /// The context of a run, changed as the options say.
    pub(crate) fn applied_to(&self, context: &Context) -> Context {
        let mut context = context.clone();
        let threads_max = self.concurrency.unwrap_or(usize::MAX);
        context.limits.threads = context.limits.threads.min(threads_max);
        if self.ignore_global_time_filter {
            context.range = TimeRange::ALL;
        }
        context
    }
}

impl fmt::Display for QueryOptions {
    /// Written before the filter; nothing if all options have their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concurrency = self.concurrency.map(|count| format!("concurrency={count}"));
        let ignore =
            self.ignore_global_time_filter.then(|| "ignore_global_time_filter=true".to_owned());
        let all: Vec<String> = concurrency.into_iter().chain(ignore).collect();
        if all.is_empty() { Ok(()) } else { write!(f, "options({}) ", all.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::testing::{Memory, collect, record};

    #[test]
    fn options_are_read_and_written() {
        let check = |text: &str, expected: &str| {
            let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(query.to_string(), expected, "{text}");
            assert_eq!(Query::parse(expected, 0), Ok(query), "{text}");
        };
        check("options(concurrency=2) a", "options(concurrency=2) \"a\"");
        check(
            "OPTIONS( ignore_global_time_filter = true, concurrency=1, ) * | limit 1",
            "options(concurrency=1, ignore_global_time_filter=true) * | limit 1",
        );
        check("options(parallel_readers=100, allow_partial_response=false) *", "*");
        check("options() *", "*");
        check("options a", "\"options\" \"a\"");
        check("\"options\"(a)", "\"options\" \"a\"");
    }

    #[test]
    fn options_change_the_run() {
        let context = |text: &str| {
            let mut context = Context::default();
            context.limits.threads = 4;
            context.range = TimeRange { start_ns: 5, end_ns: 15 };
            Query::parse(text, 0).unwrap().options().applied_to(&context)
        };
        assert_eq!(context("options(concurrency=3) *").limits.threads, 3);
        assert_eq!(context("options(concurrency=5) *").limits.threads, 4);
        assert_eq!(context("*").range, TimeRange { start_ns: 5, end_ns: 15 });

        let source = Memory::of(&[record(10, &[("n", "1")]), record(20, &[("n", "2")])]);
        let range = TimeRange { start_ns: 5, end_ns: 15 };
        let rows = |text: &str| {
            let query = Query::parse(text, 0).unwrap();
            collect(&query, &source, &Context { range, ..Context::default() }).0.len()
        };
        assert_eq!(rows("*"), 1);
        assert_eq!(rows("options(ignore_global_time_filter=false) *"), 1);
        assert_eq!(rows("options(ignore_global_time_filter=true) *"), 2);
    }
}
