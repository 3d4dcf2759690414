//! `fields a, b*`, `delete a, b*`, `rename a as b`, `copy a as b`: pipes that change the columns only.

use std::fmt;
use std::ops::ControlFlow;

use super::{Pipe, Processor};
use crate::block::{Block, Change, NamePattern};
use crate::cursor::{Cursor, quote, quote_name};
use crate::error::ParseError;
use crate::run::{Next, RunError};

pub(super) fn parse_keep(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    parse_patterns(cursor).map(|patterns| Pipe::Change(Change::Keep(patterns)))
}

pub(super) fn parse_drop(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    parse_patterns(cursor).map(|patterns| Pipe::Change(Change::Drop(patterns)))
}

fn parse_patterns(cursor: &mut Cursor<'_>) -> Result<Vec<NamePattern>, ParseError> {
    let mut patterns = Vec::new();
    let parentheses = cursor.eat('(');
    loop {
        let pattern = if cursor.eat('*') {
            NamePattern { name: String::new(), prefix: true }
        } else {
            let name = cursor.expect_string(false, "a field name")?.text;
            NamePattern { name, prefix: cursor.eat_adjacent('*') }
        };
        patterns.push(pattern);
        if !cursor.eat(',') {
            break;
        }
    }
    if parentheses {
        cursor.expect(')', "the field names")?;
    }
    Ok(patterns)
}

/// Reads `a as b, c as d`; the `as` may be left out.
pub(super) fn parse_pairs(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, ParseError> {
    let mut pairs = Vec::new();
    loop {
        let from = cursor.expect_string(false, "a field name")?.text;
        cursor.eat_keyword("as");
        let to = cursor.expect_string(false, "a new field name")?.text;
        pairs.push((from, to));
        if !cursor.eat(',') {
            return Ok(pairs);
        }
    }
}

pub(super) fn write(change: &Change, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let patterns = |patterns: &[NamePattern]| {
        let pattern = |p: &NamePattern| match (p.prefix, p.name.is_empty()) {
            (true, true) => "*".to_owned(),
            (true, false) => format!("{}*", quote(&p.name)),
            (false, _) => quote_name(&p.name),
        };
        patterns.iter().map(pattern).collect::<Vec<_>>().join(", ")
    };
    let pairs = |pairs: &[(String, String)]| {
        let pair =
            |(from, to): &(String, String)| format!("{} as {}", quote_name(from), quote_name(to));
        pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    match change {
        Change::Keep(names) => write!(f, "fields {}", patterns(names)),
        Change::Drop(names) => write!(f, "delete {}", patterns(names)),
        Change::Rename(names) => write!(f, "rename {}", pairs(names)),
        Change::Copy(names) => write!(f, "copy {}", pairs(names)),
    }
}

pub(super) struct Changer {
    pub change: Change,
}

impl Processor for Changer {
    fn push(
        &mut self,
        mut block: Block,
        next: &mut Next<'_, '_>,
    ) -> Result<ControlFlow<()>, RunError> {
        if block.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        block.change(&self.change);
        next.push(block)
    }
}
