//! `tags:json_array_contains_any("prod", "dev")`: the value is a JSON array with one of these among
//! its items.
//!
//! Strings are compared unescaped, other items as they are written. A value that is not a JSON
//! array does not pass.

use std::collections::HashSet;

use super::{Matches, Test, parse_values};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let position = cursor.position();
    match parse_values(cursor, function)? {
        Some(values) => Ok(field.filter(Test::JsonArrayContainsAny(values))),
        None => {
            let message = format!("{function}(…) does not accept \"*\"");
            Err(cursor.error_at(position, &["values"], message))
        }
    }
}

pub(in crate::lang::filter) struct Matcher(HashSet<String, foldhash::fast::RandomState>);

impl Matcher {
    pub fn new(values: &[String]) -> Matcher {
        Matcher(values.iter().cloned().collect())
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        30
    }

    fn matches(&self, value: &[u8]) -> bool {
        if !value.trim_ascii_start().starts_with(b"[") {
            return false;
        }
        let mut found = false;
        let array = record::parse::json_items(value, |_, item| found |= self.0.contains(item));
        array.is_some() && found
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn items_of_arrays() {
        let inside = [r#"["prod"]"#, r#" [ "x", "\u0064ev" ] "#, r#"[1,{"a":2},"dev",null]"#];
        let outside = [r#"["product"]"#, r#"["a"#, r#"["dev""#, "prod", r#"{"a":["prod"]}"#, "[]"];
        check("json_array_contains_any(prod, dev)", &inside, &outside);
        check("json_array_contains_any(7, true)", &["[7]", "[\"7\"]", "[true]"], &["[77]", "7"]);
        check("json_array_contains_any()", &[], &["[]", "[1]"]);
        check_fields("tags:json_array_contains_any(a)", &[("tags", r#"["a"]"#)], true);
        check_fields("tags:json_array_contains_any(\"\")", &[], false);
    }
}
