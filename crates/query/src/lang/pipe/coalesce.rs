//! `coalesce(a, b) [default "x"] [as c]`: the value of the first field that has one, else a text;
//! in `_msg` without `as`.

use std::fmt;

use text::quoted::quote;

use super::compute::{Compute, ComputePipe, Output, needs_for, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use super::{parse_names, write_names};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Column, Scratch};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `coalesce` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// The fields, the preferred one first; at least one.
    pub fields: Vec<String>,
    /// The text for rows in which no field has a value.
    pub otherwise: String,
    /// Field for the value.
    pub result: String,
}

pub(super) static COALESCE: Registration = Registration {
    doc: Documentation {
        name: "coalesce",
        aliases: &[],
        syntax: "coalesce(<field>, …) [default \"<text>\"] [as <name>]",
        summary: "sets a field to the first of some fields that has a value",
        example: "coalesce(user, login) default \"nobody\" as who",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Coalesce, ParseError> {
    let position = cursor.position();
    if cursor.peek() != Some('(') {
        return Err(cursor.error_at(
            position,
            &["\"(\""],
            "coalesce needs its fields in parentheses",
        ));
    }
    let fields = parse_names(cursor)?;
    if fields.is_empty() {
        return Err(cursor.error_at(position, &["field names"], "coalesce needs fields"));
    }
    let otherwise = match cursor.eat_keyword("default") {
        true => cursor.expect_string(true, "a text")?.text,
        false => String::new(),
    };
    let result = parse_field(cursor, "as")?.unwrap_or(MSG.to_owned());
    Ok(Coalesce { fields, otherwise, result })
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "coalesce({})", write_names(&self.fields))?;
        if !self.otherwise.is_empty() {
            write!(f, " default {}", quote(&self.otherwise))?;
        }
        write_field("as", &self.result, MSG, f)
    }
}

impl ComputePipe for Coalesce {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        needs_for(wanted, &self.results(), true, self.fields.iter().map(String::as_str));
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.result]
    }
}

impl Compute for Coalesce {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let columns: Vec<Column<'_>> = self.fields.iter().map(|name| block.column(name)).collect();
        let to = out.column(&self.result);
        rows.iter().try_for_each(|row| {
            let has_value = |column: &&Column<'_>| !block.value(**column, row, scratch).is_empty();
            match columns.iter().find(has_value).copied() {
                Some(column) => out.set(to, row, block.value(column, row, scratch)),
                None => out.set(to, row, self.otherwise.as_bytes()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn the_first_value_counts() {
        let records =
            [record(1, &[("a", "x"), ("b", "y")]), record(2, &[("b", "z")]), record(3, &[])];
        check_pipe(&records, "coalesce(a, b) as c | fields c", &["c=x", "c=z", ""]);
        check_pipe(
            &records,
            "coalesce(b, a) default \"-\" as a | fields a",
            &["a=y", "a=z", "a=-"],
        );
        check_pipe(&records, "coalesce(none, a) | fields _msg", &["_msg=x", "", ""]);
        for wrong in ["coalesce", "coalesce()", "coalesce a as b"] {
            assert!(crate::Query::parse(&format!("* | {wrong}"), 0).is_err(), "{wrong}");
        }
    }
}
