//! `union (query)`: the rows, followed by those of another query. That query runs at the end,
//! within the time and memory that are left; its rows are not held. `union rows({"a":"b"}, …)`
//! appends given rows.

use std::fmt;
use std::ops::ControlFlow;

use super::join::{JoinedWith, given_row, parse_rows};
use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use crate::base::{FieldSet, RunError};
use crate::block::Block;
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::{Query, parse_inner};

/// The `union` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// The source of the appended rows.
    pub with: JoinedWith,
}

pub(super) static UNION: Registration = Registration {
    doc: Documentation {
        name: "union",
        aliases: &[],
        syntax: "union (<query>), or rows({…}, …) in place of the query",
        summary: "appends the rows of another query",
        example: "union (_time:1h panic)",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Union, ParseError> {
    if cursor.eat_call("rows") {
        return Ok(Union { with: JoinedWith::Rows(parse_rows(cursor)?) });
    }
    cursor.expect('(', "union (query)")?;
    Ok(Union { with: JoinedWith::Query(parse_inner(cursor, "union (query)")?) })
}

impl fmt::Display for Union {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "union {}", self.with)
    }
}

impl Operator for Union {
    fn mode(&self) -> Mode {
        Mode::Streaming
    }

    fn needed_fields(&self, wanted: FieldSet) -> FieldSet {
        wanted
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(UnionRows { with: self.with.clone(), is_full: false })
    }

    fn queries_mut(&mut self) -> Vec<&mut Query> {
        self.with.query_mut().into_iter().collect()
    }
}

struct UnionRows {
    with: JoinedWith,
    /// No more rows are wanted.
    is_full: bool,
}

impl Processor for UnionRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let flow = next.push(block)?;
        self.is_full |= flow.is_break();
        Ok(flow)
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        if self.is_full {
            return Ok(());
        }
        match &self.with {
            JoinedWith::Query(query) => next.run_query(query, &mut |block, next| next.push(block)),
            JoinedWith::Rows(rows) => {
                let rows = rows.iter().map(|row| given_row(row)).collect();
                next.push(Block::Made(rows)).map(drop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn rows_of_one_query_after_the_other() {
        let records =
            [record(1, &[("a", "x")]), record(2, &[("a", "y")]), record(3, &[("a", "z")])];
        check_pipe(&records, "filter a:y | union (a:x or a:z) | fields a", &["a=y", "a=x", "a=z"]);
        check_pipe(&records, "stats count() n | union (a:x | fields a)", &["n=3", "a=x"]);
        check_pipe(
            &records,
            "fields a | union (a:x | union (a:y) | fields a) | limit 5",
            &["a=x", "a=y", "a=z", "a=x", "a=y"],
        );
        check_pipe(
            &records,
            "fields a | limit 1 | union rows({\"a\":\"q\",\"b\":\"r\"}, {c=d})",
            &["a=x", "a=q b=r", "c=d"],
        );
        check_pipe(
            &records,
            "fields a | limit 1 | union rows({a=q} {a=r})",
            &["a=x", "a=q", "a=r"],
        );
        check_pipe(&records, "fields a | limit 2 | union (*) | limit 1", &["a=x"]);
        check_pipe(
            &records,
            "union (a:x) | stats by (a) count() n",
            &["a=x n=2", "a=y n=1", "a=z n=1"],
        );
    }
}
