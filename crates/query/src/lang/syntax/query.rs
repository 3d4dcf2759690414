//! A query as a tree, parsed from text and written as text.

use std::fmt;
use std::sync::Arc;

use crate::base::FieldSet;
use crate::base::names::{HIDDEN, TIME};
use crate::lang::filter::{Filter, parse_filter};
use crate::lang::pipe::{Names, Pipe, TimeAdd, parse_pipes};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::derived::derive;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::macros::{self, Callable, Expansion, MacroForm};
use crate::lang::syntax::options::{QueryOptions, parse_options};

/// Longest text of a query, in bytes. A longer text is refused.
pub const QUERY_BYTES_MAX: usize = 256 << 10;
/// Longest text of a share of a query from another node, in bytes. It contains the values of the
/// queries that were inside its filters.
pub const SHARE_BYTES_MAX: usize = 8 << 20;
/// Most pipes of a query. A query with more is refused.
pub const PIPES_MAX: usize = 100;

/// A query: a filter and pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) options: QueryOptions,
    pub(crate) filter: Filter,
    pub(crate) pipes: Vec<Pipe>,
}

impl Query {
    /// Parses a query, which may call all macros. Relative times in it refer to `now_ns`,
    /// nanoseconds since 1970 UTC.
    pub fn parse(text: &str, now_ns: i64) -> Result<Query, ParseError> {
        Query::parse_with(text, now_ns, Callable::All)
    }

    /// As [`Query::parse`], with the macros that the query may call.
    pub fn parse_with(text: &str, now_ns: i64, callable: Callable) -> Result<Query, ParseError> {
        // A query may end like a statement. Within quotes, a text would end with a quote.
        let mut cursor =
            Cursor::new(text.trim_end_matches(|c: char| c == ';' || c.is_whitespace()), now_ns);
        if text.len() > QUERY_BYTES_MAX {
            let message = format!("the query is longer than {QUERY_BYTES_MAX} bytes");
            return Err(cursor.error_at(0, &[], message));
        }
        cursor.expansion = Expansion::now(callable);
        Query::parse_whole(&mut cursor)
    }

    /// Parses the query of a share that another node wrote. Its times are absolute. It may be long,
    /// because the values of the queries inside its filters are in it.
    pub(crate) fn parse_share(text: &str) -> Result<Query, ParseError> {
        let mut cursor = Cursor::new(text, 0);
        if text.len() > SHARE_BYTES_MAX {
            let message = format!("the query is longer than {SHARE_BYTES_MAX} bytes");
            return Err(cursor.error_at(0, &[], message));
        }
        Query::parse_whole(&mut cursor)
    }

    pub(super) fn parse_whole(cursor: &mut Cursor<'_>) -> Result<Query, ParseError> {
        let query = parse_query(cursor)?;
        match cursor.found() {
            None => Ok(query),
            Some(found) => Err(cursor.error(&["\"|\"", "the end"], format!("unexpected {found}"))),
        }
    }

    /// Whether its filters have queries inside, which run before it.
    pub(crate) fn has_subqueries(&self) -> bool {
        self.filters().any(has_subquery)
    }

    /// All filters of the query and of its pipes, without those of queries inside.
    fn filters(&self) -> impl Iterator<Item = &Filter> {
        std::iter::once(&self.filter).chain(self.pipes.iter().flat_map(Pipe::filters))
    }

    /// As [`Self::filters`], mutable.
    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        std::iter::once(&mut self.filter).chain(self.pipes.iter_mut().flat_map(Pipe::filters_mut))
    }

    /// A query with this filter and these pipes.
    pub fn new(filter: Filter, pipes: Vec<Pipe>) -> Query {
        Query { options: QueryOptions::default(), filter, pipes }
    }

    /// The same query with other options.
    pub fn with_options(self, options: QueryOptions) -> Query {
        Query { options, ..self }
    }

    /// How the query is run.
    pub fn options(&self) -> QueryOptions {
        self.options.clone()
    }

    /// The filter of the query.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The pipes of the query.
    pub fn pipes(&self) -> &[Pipe] {
        &self.pipes
    }

    /// The fields that the pipes and the client need of the lines that the filter selects;
    /// `include` as in [`crate::lang::context::Context::include`]. The fields that the filter tests
    /// are not among them; [`Filter::add_fields`] adds those.
    ///
    /// In the set, `_stream` stands for all fields that make up the stream.
    pub fn needed_fields(&self, include: &[String]) -> FieldSet {
        let mut wanted = FieldSet::all();
        wanted.add_all(include);
        self.pipes.iter().rev().fold(wanted, |wanted, pipe| pipe.needed_fields(wanted))
    }

    /// The hidden computed fields that copies of rows must keep, because a pipe or the client needs
    /// them.
    pub(crate) fn computed_fields(&self, include: &[String]) -> Vec<String> {
        let written = self.to_string();
        let named = |name: &str| include.iter().any(|i| i == name) || written.contains(name);
        HIDDEN.into_iter().filter(|name| named(name)).map(str::to_owned).collect()
    }
}

/// Parses options, a filter and pipes, up to the first text that belongs to none of them.
///
/// The options `time_offset` and `global_filter` hold for the queries inside too. They become a
/// part of the filters and pipes, and so are not kept.
fn parse_query(cursor: &mut Cursor<'_>) -> Result<Query, ParseError> {
    let outer = cursor.inherited.clone();
    let options = parse_options(cursor)?;
    let position = cursor.position();
    let (mut filter, mut pipes) = parse_beginning(cursor)?;
    if let Some(global) = cursor.inherited.filter.clone() {
        // Each query inside holds a copy.
        cursor.take_name(&global.to_string(), 1)?;
        filter = Filter::and(vec![filter, global]);
    }
    parse_pipe_list(cursor, &mut pipes)?;
    let fields = Arc::clone(&cursor.expansion.derived);
    derive(&fields, &mut filter, &mut pipes)
        .map_err(|message| cursor.error_at(position, &[], message))?;
    let added_ns = cursor.inherited.time_offset_ns;
    if added_ns != 0 {
        let first = pipes.first().is_some_and(|pipe| pipe.first_because().is_some());
        let field = TIME.to_owned();
        pipes.insert(usize::from(first), Pipe::from(TimeAdd { added_ns, field }));
    }
    cursor.inherited = outer;
    settle_order(&mut pipes);
    Ok(Query { options, filter, pipes })
}

/// Parses a filter, or the call of a macro that stands for a filter and pipes.
fn parse_beginning(cursor: &mut Cursor<'_>) -> Result<(Filter, Vec<Pipe>), ParseError> {
    let Some(called) = macros::called(cursor)?.filter(|called| called.form() == MacroForm::Query)
    else {
        return Ok((parse_filter(cursor)?, Vec::new()));
    };
    let name = called.name().to_owned();
    let beginning = macros::expand(cursor, called, |inner| {
        let (filter, mut pipes) = parse_beginning(inner)?;
        parse_pipe_list(inner, &mut pipes)?;
        Ok((filter, pipes))
    })?;
    match cursor.found() {
        Some(found) if !matches!(cursor.peek(), Some('|' | ')')) => {
            let message = format!(
                "unexpected {found}: @{name} stands for a filter with pipes, behind which only pipes can follow"
            );
            Err(cursor.error(&["\"|\"", "the end"], message))
        }
        _ => Ok(beginning),
    }
}

/// Parses pipes, each of which has a `|` before it, and appends them.
pub(crate) fn parse_pipe_list(
    cursor: &mut Cursor<'_>,
    pipes: &mut Vec<Pipe>,
) -> Result<(), ParseError> {
    while cursor.eat('|') {
        if pipes.len() >= PIPES_MAX {
            return Err(cursor.error(&[], format!("the query has more than {PIPES_MAX} pipes")));
        }
        let position = cursor.position();
        let read = parse_pipes(cursor)?;
        if let Some(message) = read.first().and_then(Pipe::first_because)
            && !pipes.is_empty()
        {
            return Err(cursor.error_at(position, &[], message));
        }
        pipes.extend(read);
        // A macro may stand for many.
        if pipes.len() > 2 * PIPES_MAX {
            return Err(cursor.error(&[], format!("the query has more than {PIPES_MAX} pipes")));
        }
    }
    Ok(())
}

/// Passes the order of fields to the pipes that depend on it: `sort` without fields sorts by all of
/// them, and packed texts contain them in that order.
fn settle_order(pipes: &mut [Pipe]) {
    for place in 0..pipes.len() {
        let (before, rest) = pipes.split_at_mut(place);
        rest[0].settle_order(&|| fixed_fields(before));
    }
}

/// The names of all fields behind some pipes, in their order; none if the pipes do not determine
/// them.
fn fixed_fields(pipes: &[Pipe]) -> Option<Vec<String>> {
    for pipe in pipes.iter().rev() {
        match pipe.names() {
            Names::Same => {}
            Names::Are(names) => return Some(names),
            Names::Unknown => return None,
        }
    }
    None
}

/// Parses `query)` inside another query. The cursor is behind the opening parenthesis.
pub(crate) fn parse_inner(cursor: &mut Cursor<'_>, what: &str) -> Result<Query, ParseError> {
    let query = cursor.nested_query(parse_query)?;
    cursor.expect(')', what)?;
    Ok(query)
}

fn has_subquery(filter: &Filter) -> bool {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().any(has_subquery),
        Filter::Not(filter) => has_subquery(filter),
        Filter::Subquery(_) => true,
        _ => false,
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.options, self.filter)?;
        self.pipes.iter().try_for_each(|pipe| write!(f, " | {pipe}"))
    }
}
