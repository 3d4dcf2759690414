//! A query as a tree: read from text, written as text.

use std::fmt;

use crate::base::FieldSet;
use crate::base::names::HIDDEN;
use crate::lang::filter::{Filter, parse_filter};
use crate::lang::pipe::{Names, Pipe, parse_pipes};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::options::{QueryOptions, parse_options};

/// Longest text of a query, in bytes. Longer ones are refused.
pub const QUERY_BYTES_MAX: usize = 256 << 10;
/// Longest text of a query from another node, in bytes: values of queries in its filters included.
pub const SHARE_BYTES_MAX: usize = 8 << 20;
/// Most pipes of a query. Longer ones are refused.
pub const PIPES_MAX: usize = 100;

/// A query: a filter and pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) options: QueryOptions,
    pub(crate) filter: Filter,
    pub(crate) pipes: Vec<Pipe>,
}

impl Query {
    /// Reads a query. `now_ns` (nanoseconds since 1970 UTC) is what relative times in it refer to.
    pub fn parse(text: &str, now_ns: i64) -> Result<Query, ParseError> {
        let mut cursor = Cursor::new(text, now_ns);
        if text.len() > QUERY_BYTES_MAX {
            let message = format!("the query is longer than {QUERY_BYTES_MAX} bytes");
            return Err(cursor.error_at(0, &[], message));
        }
        Query::parse_whole(&mut cursor)
    }

    /// Reads a query that another node wrote: its times are absolute, and values that queries in
    /// its filters gave may make it long.
    pub(crate) fn parse_share(text: &str) -> Result<Query, ParseError> {
        let mut cursor = Cursor::new(text, 0);
        if text.len() > SHARE_BYTES_MAX {
            let message = format!("the query is longer than {SHARE_BYTES_MAX} bytes");
            return Err(cursor.error_at(0, &[], message));
        }
        Query::parse_whole(&mut cursor)
    }

    fn parse_whole(cursor: &mut Cursor<'_>) -> Result<Query, ParseError> {
        let query = parse_query(cursor)?;
        match cursor.found() {
            None => Ok(query),
            Some(found) => Err(cursor.error(&["\"|\"", "the end"], format!("unexpected {found}"))),
        }
    }

    /// Whether queries inside its filters have to be run before it.
    pub(crate) fn has_subqueries(&self) -> bool {
        self.filters().any(has_subquery)
    }

    /// All filters of it, but not those of queries inside.
    fn filters(&self) -> impl Iterator<Item = &Filter> {
        std::iter::once(&self.filter).chain(self.pipes.iter().flat_map(Pipe::filters))
    }

    /// As [`Self::filters`], to be changed.
    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        std::iter::once(&mut self.filter).chain(self.pipes.iter_mut().flat_map(Pipe::filters_mut))
    }

    /// A query of parts.
    pub fn new(filter: Filter, pipes: Vec<Pipe>) -> Query {
        Query { options: QueryOptions::default(), filter, pipes }
    }

    /// The same query, run in another way.
    pub fn with_options(self, options: QueryOptions) -> Query {
        Query { options, ..self }
    }

    /// How it is run.
    pub fn options(&self) -> QueryOptions {
        self.options
    }

    /// Which lines it selects.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// What it does with them.
    pub fn pipes(&self) -> &[Pipe] {
        &self.pipes
    }

    /// The fields that the pipes and the client need of the lines that the filter selects;
    /// `include` as in [`crate::lang::context::Context::include`]. What the filter itself looks at,
    /// [`Filter::add_fields`] adds.
    ///
    /// `_stream` stands for the fields that a stream is made of.
    pub fn needed_fields(&self, include: &[String]) -> FieldSet {
        let mut wanted = FieldSet::all();
        wanted.add_all(include);
        self.pipes.iter().rev().fold(wanted, |wanted, pipe| pipe.needed_fields(wanted))
    }

    /// Hidden computed fields that pipes or the client need of rows that are copied.
    pub(crate) fn computed_fields(&self, include: &[String]) -> Vec<String> {
        let written = self.to_string();
        let named = |name: &str| include.iter().any(|i| i == name) || written.contains(name);
        HIDDEN.into_iter().filter(|name| named(name)).map(str::to_owned).collect()
    }
}

/// Reads options, a filter and pipes, up to where none goes on.
fn parse_query(cursor: &mut Cursor<'_>) -> Result<Query, ParseError> {
    let options = parse_options(cursor)?;
    let filter = parse_filter(cursor)?;
    let mut pipes = Vec::new();
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
    }
    settle_order(&mut pipes);
    Ok(Query { options, filter, pipes })
}

/// Tells pipes for which the order of fields counts what that order is: `sort` without fields sorts
/// by all of them, and packed texts have them in it.
fn settle_order(pipes: &mut [Pipe]) {
    for place in 0..pipes.len() {
        let (before, rest) = pipes.split_at_mut(place);
        rest[0].settle_order(&|| fixed_fields(before));
    }
}

/// The names of the fields behind some pipes, in their order, if these name all of them.
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

/// Reads `query)` inside another query; the opening parenthesis is behind us.
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
