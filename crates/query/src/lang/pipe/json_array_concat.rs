//! `json_array_concat ["-"] [from a] [as b]`: joins the items of a JSON array into a text, with a
//! separator between them. A value that is not an array gives an empty text. Without `as` the
//! result replaces the array.

use std::fmt;

use record::parse::json_items;
use text::quoted::quote;

use super::compute::{Compute, ComputePipe, Output, needs_for, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `json_array_concat` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonArrayConcat {
    /// Text between the items.
    pub separator: String,
    /// The field of the array.
    pub from: String,
    /// Field for the text.
    pub result: String,
}

pub(super) static JSON_ARRAY_CONCAT: Registration = Registration {
    doc: Documentation {
        name: "json_array_concat",
        aliases: &[],
        syntax: "json_array_concat \"<separator>\" [from <field>] [as <name>]",
        summary: "joins the items of a JSON array into a text",
        example: "json_array_concat \"-\" from tags as text",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<JsonArrayConcat, ParseError> {
    let word = |cursor: &mut Cursor<'_>, words: &[&str]| {
        let ends = matches!(cursor.peek(), None | Some('|' | ')'));
        let next = cursor.peek_word(false);
        ends || words.iter().any(|word| next.eq_ignore_ascii_case(word))
    };
    let mut separator = String::new();
    if !word(cursor, &["from", "as"]) {
        separator = cursor.expect_string(true, "a separator")?.text;
    }
    let mut from = parse_field(cursor, "from")?;
    if from.is_none() && !word(cursor, &["as"]) {
        from = cursor.string(false)?.map(|name| name.text);
    }
    let from = from.unwrap_or(MSG.to_owned());
    let result = parse_field(cursor, "as")?.unwrap_or(from.clone());
    Ok(JsonArrayConcat { separator, from, result })
}

impl fmt::Display for JsonArrayConcat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "json_array_concat {}", quote(&self.separator))?;
        write_field("from", &self.from, MSG, f)?;
        write_field("as", &self.result, &self.from, f)
    }
}

impl ComputePipe for JsonArrayConcat {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        needs_for(wanted, &self.results(), true, [self.from.as_str()]);
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.result]
    }
}

impl Compute for JsonArrayConcat {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let (from, to) = (block.column(&self.from), out.column(&self.result));
        let mut text = Vec::new();
        for row in rows.iter() {
            text.clear();
            let mut is_first = true;
            let whole = json_items(block.value(from, row, scratch), |_, item| {
                if !is_first {
                    text.extend_from_slice(self.separator.as_bytes());
                }
                is_first = false;
                text.extend_from_slice(item.as_bytes());
            });
            if whole.is_none() {
                text.clear();
            }
            out.set(to, row, &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn items_become_one_text() {
        let records = [record(1, &[("a", "[1,\"x y\",null]"), ("b", "[]"), ("c", "no")])];
        check_pipe(&records, "json_array_concat '-' from a as t | fields t", &["t=1-x y-null"]);
        check_pipe(&records, "json_array_concat ', ' a | fields a", &["a=1, x y, null"]);
        check_pipe(&records, "json_array_concat '-' from b as t | fields t", &[""]);
        check_pipe(&records, "json_array_concat '-' from c as t | fields t", &[""]);
    }
}
