//! `fields a, b*`, `delete a, b*`, `rename a as b, c* as d*`, `copy a as b`: pipes that change the
//! columns only.

use std::fmt;

use text::quoted::quote;

use super::operator::{Documentation, Mode, Names, Operator, Registration, RowWise, Work, one};
use super::shown::Shown;
use crate::base::names::{HIDDEN, NamePattern};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Change, Patterns};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

pub(super) static FIELDS: Registration = Registration {
    doc: Documentation {
        name: "fields",
        aliases: &["keep"],
        syntax: "fields <field>, …",
        summary: "keeps only these fields, in this order",
        example: "fields _time, level, app*",
    },
    parse: |cursor| parse_patterns(cursor).map(|patterns| one(Change::Keep(patterns))),
};

pub(super) static DELETE: Registration = Registration {
    doc: Documentation {
        name: "delete",
        aliases: &["drop", "del", "rm"],
        syntax: "delete <field>, …",
        summary: "removes these fields",
        example: "delete _stream, x*",
    },
    parse: |cursor| parse_patterns(cursor).map(|patterns| one(Change::Drop(patterns))),
};

pub(super) static RENAME: Registration = Registration {
    doc: Documentation {
        name: "rename",
        aliases: &["mv"],
        syntax: "rename <field> as <name>, …",
        summary: "renames fields",
        example: "rename level as severity, k8s.* as *",
    },
    parse: |cursor| parse_pairs(cursor).map(|pairs| one(Change::Rename(pairs))),
};

pub(super) static COPY: Registration = Registration {
    doc: Documentation {
        name: "copy",
        aliases: &["cp"],
        syntax: "copy <field> as <name>, …",
        summary: "copies fields to other names",
        example: "copy level as severity",
    },
    parse: |cursor| parse_pairs(cursor).map(|pairs| one(Change::Copy(pairs))),
};

/// Parses `a, b*`, or `(a, b*)`.
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

/// Parses `a as b, c* as d*`; the `as` is optional.
fn parse_pairs(cursor: &mut Cursor<'_>) -> Result<Vec<(NamePattern, NamePattern)>, ParseError> {
    let mut pairs = Vec::new();
    loop {
        let from = parse_pattern(cursor, "a field name")?;
        cursor.eat_keyword("as");
        let position = cursor.position();
        let to = parse_pattern(cursor, "a new field name")?;
        if from.prefix != to.prefix {
            let message = "if one of the names ends with \"*\", the other must end with it too";
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

pub(crate) fn write_patterns(patterns: &[NamePattern]) -> String {
    patterns.iter().map(write_pattern).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f)
    }
}

fn write(change: &Change, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Turns the fields that rows need behind the change into those they need before it.
fn needed_fields(change: &Change, wanted: &mut FieldSet) {
    match change {
        Change::Keep(patterns) => wanted.retain(patterns),
        // Hidden fields are not dropped until they are named.
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

impl Operator for Change {
    fn mode(&self) -> Mode {
        Mode::RowWise
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        needed_fields(self, &mut wanted);
        wanted
    }

    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        Some(Box::new(self.clone()))
    }

    fn keeps_time(&self) -> bool {
        let is_time = |pattern: &NamePattern| pattern.matches("_time");
        match self {
            Change::Keep(kept) => kept.iter().any(is_time),
            Change::Drop(dropped) => !dropped.iter().any(is_time),
            Change::Rename(pairs) => !pairs.iter().any(|(from, to)| is_time(from) || is_time(to)),
            Change::Copy(pairs) => !pairs.iter().any(|(_, to)| is_time(to)),
        }
    }

    fn keeps_rows(&self) -> bool {
        true
    }

    fn names(&self) -> Names {
        match self {
            Change::Keep(kept) if kept.iter().all(|field| !field.prefix) => {
                Names::Are(kept.iter().map(|field| field.name.clone()).collect())
            }
            _ => Names::Unknown,
        }
    }

    fn value_field(&self) -> Names {
        self.names()
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        match self {
            Change::Keep(kept) => {
                let kept = Patterns::new(kept);
                shown.retain(|name| kept.matches(name));
            }
            Change::Drop(dropped) => {
                let dropped = Patterns::new(dropped);
                shown.retain(|name| !dropped.matches(name));
            }
            Change::Copy(pairs) => pairs.iter().for_each(|(from, to)| shown.copy(from, to, false)),
            Change::Rename(pairs) => pairs.iter().for_each(|(from, to)| shown.copy(from, to, true)),
        }
        Ok(())
    }
}

impl RowWise for Change {
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError> {
        block.change(self, work.names, work.meter)
    }
}
