//! `fields a, b*`, `delete a, b*`, `rename a as b, c* as d*`, `copy a as b`: pipes that change the columns only.

use std::fmt;
use std::ops::ControlFlow;

use super::{Pipe, Processor};
use crate::block::{Block, Change, HIDDEN, NamePattern, NewNames};
use crate::cursor::{Cursor, quote, quote_name};
use crate::error::ParseError;
use crate::fields::FieldSet;
use crate::run::{Next, RunError};

pub(super) fn parse_keep(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    parse_patterns(cursor).map(|patterns| Pipe::Change(Change::Keep(patterns)))
}

pub(super) fn parse_drop(cursor: &mut Cursor<'_>) -> Result<Pipe, ParseError> {
    parse_patterns(cursor).map(|patterns| Pipe::Change(Change::Drop(patterns)))
}

/// Reads `a, b*`, or `(a, b*)`.
pub(super) fn parse_patterns(cursor: &mut Cursor<'_>) -> Result<Vec<NamePattern>, ParseError> {
    let mut patterns = Vec::new();
    let parentheses = cursor.eat('(');
    loop {
        patterns.push(parse_pattern(cursor, "a field name")?);
        if !cursor.eat(',') {
            break;
        }
    }
    if parentheses {
        cursor.expect(')', "the field names")?;
    }
    Ok(patterns)
}

fn parse_pattern(cursor: &mut Cursor<'_>, what: &str) -> Result<NamePattern, ParseError> {
    if cursor.eat('*') {
        return Ok(NamePattern::ANY);
    }
    let name = cursor.expect_string(false, what)?.text;
    Ok(NamePattern { name, prefix: cursor.eat_adjacent('*') })
}

/// Reads `a as b, c* as d*`; the `as` may be left out.
pub(super) fn parse_pairs(
    cursor: &mut Cursor<'_>,
) -> Result<Vec<(NamePattern, NamePattern)>, ParseError> {
    let mut pairs = Vec::new();
    loop {
        let from = parse_pattern(cursor, "a field name")?;
        cursor.eat_keyword("as");
        let position = cursor.position();
        let to = parse_pattern(cursor, "a new field name")?;
        if from.prefix != to.prefix {
            let message = "a \"*\" behind one of the names needs one behind the other";
            return Err(cursor.error_at(position, &["a name", "a beginning with \"*\""], message));
        }
        pairs.push((from, to));
        if !cursor.eat(',') {
            return Ok(pairs);
        }
    }
}

pub(super) fn write_pattern(pattern: &NamePattern) -> String {
    match (pattern.prefix, pattern.name.is_empty()) {
        (true, true) => "*".to_owned(),
        (true, false) => format!("{}*", quote(&pattern.name)),
        (false, _) => quote_name(&pattern.name),
    }
}

pub(super) fn write_patterns(patterns: &[NamePattern]) -> String {
    patterns.iter().map(write_pattern).collect::<Vec<_>>().join(", ")
}

pub(super) fn write(change: &Change, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pairs = |pairs: &[(NamePattern, NamePattern)]| {
        let pair =
            |(from, to): &(_, _)| format!("{} as {}", write_pattern(from), write_pattern(to));
        pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    match change {
        Change::Keep(names) => write!(f, "fields {}", write_patterns(names)),
        Change::Drop(names) => write!(f, "delete {}", write_patterns(names)),
        Change::Rename(names) => write!(f, "rename {}", pairs(names)),
        Change::Copy(names) => write!(f, "copy {}", pairs(names)),
    }
}

/// What rows must have before the change for them to have `wanted` behind it.
pub(super) fn needed_fields(change: &Change, wanted: &mut FieldSet) {
    match change {
        Change::Keep(patterns) => wanted.retain(patterns),
        // Fields that are hidden until they are named are not dropped.
        Change::Drop(patterns) => {
            patterns.iter().filter(|p| p.prefix || !HIDDEN.contains(&p.name.as_str())).for_each(
                |p| {
                    wanted.remove_pattern(p);
                },
            );
        }
        Change::Rename(pairs) | Change::Copy(pairs) => {
            for (from, to) in pairs.iter().filter(|(from, to)| from != to).rev() {
                let needed = to.prefix || wanted.contains(&to.name);
                if !to.prefix {
                    wanted.remove_pattern(to);
                    if matches!(change, Change::Rename(_)) {
                        wanted.remove_pattern(from);
                    }
                }
                if needed {
                    wanted.add_pattern(from);
                }
            }
        }
    }
}

pub(super) struct Changer {
    pub change: Change,
    pub names: NewNames,
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
        let held = block.change(&self.change, &mut self.names, next.meter())?;
        let flow = next.push(block)?;
        next.meter().give_back(held);
        Ok(flow)
    }
}
