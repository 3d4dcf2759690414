//! `coalesce(a, b) [default "x"] [as c]`: the value of the first field that has one, else a text;
//! in `_msg` without `as`. Of the fields of `a*`, the first by name counts.

use std::fmt;

use text::quoted::quote;

use super::columns::{parse_patterns, write_patterns};
use super::compute::{Compute, ComputePipe, Output, needs_for_patterns, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::{MSG, NamePattern, is_stored};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Column, Scratch};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `coalesce` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// The fields, the preferred one first; at least one.
    pub fields: Vec<NamePattern>,
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
    let before = cursor.place();
    let is_empty = cursor.eat('(') && cursor.eat(')');
    cursor.go_back(before);
    if is_empty {
        return Err(cursor.error_at(position, &["field names"], "coalesce needs fields"));
    }
    let fields = parse_patterns(cursor)?;
    let otherwise = match cursor.eat_keyword("default") {
        true => cursor.expect_string(true, "a text")?.text,
        false => String::new(),
    };
    let result = parse_field(cursor, "as")?.unwrap_or(MSG.to_owned());
    Ok(Coalesce { fields, otherwise, result })
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "coalesce({})", write_patterns(&self.fields))?;
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
        needs_for_patterns(wanted, &self.results(), true, &self.fields);
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
        let fields = self.fields.iter();
        let columns: Vec<Option<Column<'_>>> =
            fields.map(|field| (!field.prefix).then(|| block.column(&field.name))).collect();
        let to = out.column(&self.result);
        let (mut name, mut value) = (String::new(), Vec::new());
        rows.iter().try_for_each(|row| {
            for (field, column) in self.fields.iter().zip(&columns) {
                let Some(column) = column else {
                    value.clear();
                    block.visit(row, &[], scratch, &mut |found, with, _| {
                        let is_first = value.is_empty() || **found < *name;
                        if is_first && !with.is_empty() && is_stored(found) && field.matches(found)
                        {
                            name = found.to_string();
                            value = with.to_vec();
                        }
                    });
                    if !value.is_empty() {
                        return out.set(to, row, &value);
                    }
                    continue;
                };
                let value = block.value(*column, row, scratch);
                if !value.is_empty() {
                    return out.set(to, row, value);
                }
            }
            out.set(to, row, self.otherwise.as_bytes())
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
        let records = [
            record(1, &[("k.z", "z"), ("k.b", "b"), ("a", "x")]),
            record(2, &[("a", "y")]),
            record(3, &[]),
        ];
        check_pipe(
            &records,
            "coalesce(none, k.*, a) default \"-\" as c | fields c",
            &["c=b", "c=y", "c=-"],
        );
        for wrong in ["coalesce", "coalesce()", "coalesce a as b"] {
            assert!(crate::Query::parse(&format!("* | {wrong}"), 0).is_err(), "{wrong}");
        }
    }
}
