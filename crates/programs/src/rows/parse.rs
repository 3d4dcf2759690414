//! One line of output to a row.
//!
//! A line that begins with `{` is a JSON object; objects inside become names with dots
//! (`level.error`), arrays are an error. Any other line is `name=value` pairs between blanks:
//!
//! ```text
//! status=200 lines=12 bytes=4096 path="/a b" share=0.25 ok=true user=
//! ```
//!
//! A value without quotes is a number, `true`, `false`, `null`, nothing (null), or else text. A
//! number is what JSON calls a number, so `007` stays text. `nan` and `inf`, which AWK prints for
//! numbers without a value, are null. Inside quotes, `\"`, `\\`, `\n` and `\t` are escapes. Bytes
//! that are not UTF-8 are replaced.

use thiserror::Error;

use super::{NAME_BYTES_MAX, Row, Value, is_reserved};
use super::{json, pairs};

/// Why a line of output is no row.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RowProblem {
    /// The line is longer than a row may be.
    #[error("the line is longer than {bytes_max} bytes")]
    LineTooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// The row has more fields than a row may have.
    #[error("the row has more than {fields_max} fields")]
    TooManyFields {
        /// The limit.
        fields_max: usize,
    },
    /// The line begins as JSON and is none.
    #[error("the line begins like a JSON object, but {message}")]
    Json {
        /// What the parser said.
        message: String,
    },
    /// A word without an equals sign.
    #[error("`{word}` is no name=value pair; print JSON objects, or pairs such as lines=3")]
    NoPair {
        /// The word.
        word: String,
    },
    /// A name that is empty, too long, or holds a quote or a control character.
    #[error("`{name}` cannot be the name of a field")]
    BadName {
        /// The name, cut.
        name: String,
    },
    /// A name that Loginson gives fields of its own.
    #[error("the name `{name}` is one of Loginson's own fields; give the field another one")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// Two fields have the same name.
    #[error("the field `{name}` is there twice")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A quote opens a value, and nothing closes it.
    #[error("the value of `{name}` begins with a quote that is not closed")]
    OpenQuote {
        /// The name.
        name: String,
    },
    /// Something other than a blank follows the closing quote.
    #[error("a blank must follow the closing quote of `{name}`; write quotes in values as \\\"")]
    AfterQuote {
        /// The name.
        name: String,
    },
}

/// Parses one line without its newline. An empty line, or one of blanks alone, gives a row without
/// fields.
pub fn parse_row(line: &[u8], fields_max: usize) -> Result<Row, RowProblem> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_matches([' ', '\t', '\r']);
    let mut fields = Fields { list: Vec::new(), fields_max };
    if text.starts_with('{') {
        json::parse(text, &mut fields)?;
    } else {
        pairs::parse(text, &mut fields)?;
    }
    Ok(Row { fields: fields.list })
}

impl Row {
    /// A row of fields as text: what is written like a number is one, and so on as in pairs. Errors
    /// are those of a line with these fields.
    pub fn from_text<'a>(
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
        fields_max: usize,
    ) -> Result<Row, RowProblem> {
        let mut row = Fields { list: Vec::new(), fields_max };
        for (name, value) in fields {
            row.push(name.to_owned(), pairs::bare(value))?;
        }
        Ok(Row { fields: row.list })
    }
}

/// The fields of a row under construction; keeps the invariants of [`Row`].
pub(crate) struct Fields {
    list: Vec<(String, Value)>,
    fields_max: usize,
}

impl Fields {
    /// Appends a field.
    pub(crate) fn push(&mut self, name: String, value: Value) -> Result<(), RowProblem> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(RowProblem::BadName { name: name.chars().take(64).collect() });
        }
        if is_reserved(&name) {
            return Err(RowProblem::ReservedName { name });
        }
        if self.list.len() >= self.fields_max {
            return Err(RowProblem::TooManyFields { fields_max: self.fields_max });
        }
        if self.list.iter().any(|(other, _)| *other == name) {
            return Err(RowProblem::DuplicateName { name });
        }
        self.list.push((name, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, expected: &str) {
        let found = match parse_row(line.as_bytes(), 8) {
            Ok(row) => {
                let mut out = Vec::new();
                row.write_json(&mut out);
                String::from_utf8(out).unwrap()
            }
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn names_of_our_own_are_refused() {
        for name in ["program", "revision", "_time", "_"] {
            let problem = parse_row(format!("{name}=1").as_bytes(), 8).unwrap_err();
            assert_eq!(problem, RowProblem::ReservedName { name: name.to_owned() });
        }
        let row = Row::from_text([("lines", "3"), ("path", "/a b"), ("id", "007")], 8).unwrap();
        let mut out = Vec::new();
        row.write_json(&mut out);
        assert_eq!(out, br#"{"lines":3,"path":"/a b","id":"007"}"#);
        assert!(Row::from_text([("a", "1"), ("a", "2")], 8).is_err());
    }

    #[test]
    fn pairs_have_types() {
        check("a=1 b=-2.5\tc=x d=\"x y\"", r#"{"a":1,"b":-2.5,"c":"x","d":"x y"}"#);
        check("a=true b=false c=null d=", r#"{"a":true,"b":false,"c":null,"d":null}"#);
        check(
            "a=007 b=+1 c=1e3 d=0x10 e=.5",
            r#"{"a":"007","b":"+1","c":1000.0,"d":"0x10","e":".5"}"#,
        );
        check("a=-nan b=inf c=\"nan\" d=\"\"", r#"{"a":null,"b":null,"c":"nan","d":""}"#);
        check("path=/a?b=c q=\"1\"", r#"{"path":"/a?b=c","q":"1"}"#);
        check(
            r#"a="say \"hi\"" b="c:\dir\\x" c="1\n2""#,
            r#"{"a":"say \"hi\"","b":"c:\\dir\\x","c":"1\n2"}"#,
        );
        check(
            "n=9223372036854775807 m=9223372036854775808",
            r#"{"n":9223372036854775807,"m":9.223372036854776e+18}"#,
        );
        check("  \t ", "{}");
        check("a=1\r", r#"{"a":1}"#);
    }

    #[test]
    fn json_has_types_and_dots() {
        check(
            r#" {"a":1,"b":2.5,"c":null,"d":true,"e":"x","f":{"g":{"h":-1}}} "#,
            r#"{"a":1,"b":2.5,"c":null,"d":true,"e":"x","f.g.h":-1}"#,
        );
        check("{}", "{}");
    }

    #[test]
    fn garbage_is_explained() {
        check(
            "lines",
            "`lines` is no name=value pair; print JSON objects, or pairs such as lines=3",
        );
        check("=3", "`` cannot be the name of a field");
        check("a=1 a=2", "the field `a` is there twice");
        check("a=\"x", "the value of `a` begins with a quote that is not closed");
        check(
            "a=\"x\"y",
            "a blank must follow the closing quote of `a`; write quotes in values as \\\"",
        );
        check("a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1", "the row has more than 8 fields");
        check("a=1e999", r#"{"a":"1e999"}"#);
        for line in [
            "{\"a\":[1]}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1",
            "{\"a\":1} x",
            "{\"\":1}",
            "{\"a\":1e999}",
            "{a:1}",
            "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}",
            "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":1}}}}}",
        ] {
            assert!(
                matches!(parse_row(line.as_bytes(), 8), Err(RowProblem::Json { .. })),
                "{line}"
            );
        }
        let name = "n".repeat(NAME_BYTES_MAX + 1);
        assert!(parse_row(format!("{name}=1").as_bytes(), 8).is_err());
        assert!(parse_row(format!("{}=1", &name[1..]).as_bytes(), 8).is_ok());
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Integer),
            (-1e15..1e15f64).prop_map(|n| Value::Float(n + 0.5)),
            ".{0,20}".prop_map(Value::Text),
        ]
    }

    fn row() -> impl Strategy<Value = Row> {
        proptest::collection::btree_map("x[a-z_]{0,7}", value(), 0..8)
            .prop_map(|fields| Row { fields: fields.into_iter().collect() })
    }

    proptest! {
        #[test]
        fn json_comes_back(row in row()) {
            let mut line = Vec::new();
            row.write_json(&mut line);
            let back = parse_row(&line, 8).unwrap();
            prop_assert_eq!(back.fields.len(), row.fields.len());
            for ((name, value), (other, read)) in row.fields.iter().zip(&back.fields) {
                prop_assert_eq!(name, other);
                match (value, read) {
                    // The parser of JSON may be off by the last bit.
                    (Value::Float(a), Value::Float(b)) => prop_assert!((a - b).abs() <= a.abs() * 1e-15),
                    _ => prop_assert_eq!(value, read),
                }
            }
        }

        #[test]
        fn pairs_come_back(row in row()) {
            let text: Vec<String> = row.fields.iter().map(|(name, value)| match value {
                Value::Null => format!("{name}="),
                Value::Bool(value) => format!("{name}={value}"),
                Value::Integer(value) => format!("{name}={value}"),
                Value::Float(value) => format!("{name}={value:?}"),
                Value::Text(text) => {
                    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                    format!("{name}=\"{}\"", text.replace('\n', "\\n"))
                }
            }).collect();
            prop_assert_eq!(parse_row(text.join(" ").as_bytes(), 8), Ok(row));
        }

        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80), brace in any::<bool>()) {
            let mut text = if brace { b"{".to_vec() } else { Vec::new() };
            text.extend(line);
            if let Ok(row) = parse_row(&text, 8) {
                prop_assert!(row.fields().len() <= 8);
            }
        }
    }
}
