//! `options(concurrency=2, ignore_global_time_filter=true) error | …`: how a query is run.
//!
//! `parallel_readers` and `allow_partial_response` are accepted and have no effect, because the
//! threads that filter also read, and answers are never partial.
//!
//! `all_revisions=true` reads rows of programs that later ones replaced as well.
//!
//! `hide_fields=(client_ip, user.*)` hides fields: the query and those inside it read lines as if
//! these had never had them ([`HiddenFields`]).
//!
//! `time_offset=1d` moves the times in filters, and the range of the request, back by a day, and
//! the times of rows forward. `global_filter=(…)` is a filter for the query and all queries inside
//! it. Both become a part of the filters and pipes when the query is parsed; only what is left to
//! be done with the range of the request stays an option, written `range_offset=1d`.

use std::fmt;
use std::sync::Arc;

use text::duration::format_duration;

use crate::base::{HiddenFields, TimeRange};
use crate::lang::context::Context;
use crate::lang::filter::{Filter, parse_duration_argument, parse_filter};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// How a query is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// Most threads that read and filter. The number that the server gives each query is never
    /// exceeded.
    pub concurrency: Option<usize>,
    /// Whether the time range of the request is ignored.
    pub ignore_global_time_filter: bool,
    /// Whether rows of programs are read that later ones replaced.
    pub all_revisions: bool,
    /// What the time range of the request is moved back by, nanoseconds.
    pub range_offset_ns: i64,
    /// The fields that the query, and the queries inside it, do not see.
    pub hidden: Option<Arc<HiddenFields>>,
}

/// The names of all options, for messages.
const OPTIONS: &[&str] = &[
    "concurrency",
    "ignore_global_time_filter",
    "all_revisions",
    "time_offset",
    "global_filter",
    "hide_fields",
    "parallel_readers",
    "allow_partial_response",
];

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
            "all_revisions" => options.all_revisions = parse_choice(cursor)?,
            "parallel_readers" => drop(parse_count(cursor)?),
            "allow_partial_response" => drop(parse_choice(cursor)?),
            "time_offset" => {
                options.range_offset_ns = parse_duration_argument(cursor)?;
                cursor.inherited.time_offset_ns = options.range_offset_ns;
            }
            "range_offset" => options.range_offset_ns = parse_duration_argument(cursor)?,
            "hide_fields" => {
                let at = cursor.position();
                let named = HiddenFields::parse(&parse_names(cursor)?);
                let named = named.map_err(|why| cursor.error_at(at, &[], why))?;
                options.hidden = HiddenFields::both(options.hidden.as_ref(), named.as_ref());
            }
            "global_filter" => {
                cursor.expect('(', "global_filter=(…)")?;
                let filter = cursor.nested(parse_filter)?;
                cursor.expect(')', "global_filter=(…)")?;
                cursor.inherited.filter = Some(match cursor.inherited.filter.take() {
                    Some(outer) => Filter::and(vec![outer, filter]),
                    None => filter,
                });
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

/// Parses `(a, "b", foo*)`.
fn parse_names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParseError> {
    cursor.expect('(', "hide_fields=(…)")?;
    let mut names = Vec::new();
    while !cursor.eat(')') {
        let mut name = cursor.expect_string(false, "a field name")?.text;
        if cursor.eat_adjacent('*') {
            name.push('*');
        }
        names.push(name);
        if !cursor.eat(',') {
            cursor.expect(')', "hide_fields=(…)")?;
            break;
        }
    }
    Ok(names)
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
        context.all_revisions |= self.all_revisions;
        let hidden = &mut context.restriction.hidden;
        *hidden = HiddenFields::both(hidden.as_ref(), self.hidden.as_ref());
        if self.ignore_global_time_filter {
            context.range = TimeRange::ALL;
        }
        let moved = |ns: i64| match ns {
            i64::MIN | i64::MAX => ns,
            ns => ns.saturating_sub(self.range_offset_ns),
        };
        let TimeRange { start_ns, end_ns } = context.range;
        context.range = TimeRange { start_ns: moved(start_ns), end_ns: moved(end_ns) };
        context
    }
}

impl fmt::Display for QueryOptions {
    /// Written before the filter; nothing if all options have their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concurrency = self.concurrency.map(|count| format!("concurrency={count}"));
        let ignore =
            self.ignore_global_time_filter.then(|| "ignore_global_time_filter=true".to_owned());
        let revisions = self.all_revisions.then(|| "all_revisions=true".to_owned());
        let moved = (self.range_offset_ns != 0)
            .then(|| format!("range_offset={}", format_duration(self.range_offset_ns)));
        let hidden = self.hidden.as_ref().map(|hidden| format!("hide_fields=({hidden})"));
        let all: Vec<String> =
            [concurrency, ignore, revisions, moved, hidden].into_iter().flatten().collect();
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
        check("options(all_revisions=true) a", "options(all_revisions=true) \"a\"");
        check("options(parallel_readers=100, allow_partial_response=false) *", "*");
        check(
            "options(time_offset=1d) _time:[2026-01-02Z, 2026-01-03Z) | stats count() n",
            "options(range_offset=1d) _time:[2026-01-01T00:00:00Z,2026-01-02T00:00:00Z) | time_add 1d | stats count(*) as n",
        );
        check(
            "options(global_filter=(b or c)) a | union (d) | filter x:in(e | fields f)",
            "\"a\" (\"b\" or \"c\") | union (\"d\" (\"b\" or \"c\")) \
             | filter x:in(\"e\" (\"b\" or \"c\") | fields f)",
        );
        check(
            "options(time_offset=1h) * | stream_context after 1",
            "options(range_offset=1h) * | stream_context before 0 after 1 | time_add 1h",
        );
        check(
            "options(hide_fields=(a, \"b c\", user.*)) x | union (options(hide_fields=(d)) y)",
            "options(hide_fields=(\"a\", \"b c\", \"user.\"*)) \"x\" \
             | union (options(hide_fields=(\"d\")) \"y\")",
        );
        check("options(hide_fields=()) *", "*");
        check(
            "options(hide_fields=(b,), hide_fields=(a*)) *",
            "options(hide_fields=(\"b\", \"a\"*)) *",
        );
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
        // The range ends before 15 - 6, and begins at 5 - 6.
        assert_eq!(rows("options(time_offset=6ns) *"), 0);
        assert_eq!(rows("options(time_offset=-6ns) *"), 1);
        assert_eq!(rows("options(global_filter=(n:2), ignore_global_time_filter=true) *"), 1);
        let query = Query::parse("options(time_offset=-6ns) * | fields _time, n", 0).unwrap();
        let (found, _) = collect(&query, &source, &Context { range, ..Context::default() });
        assert_eq!(found[0][0].1, "1970-01-01T00:00:00.000000014Z");
    }
}
