//! `split "," [from a] [as b]` and `unpack_words [from a] [as b] [drop_duplicates]`: the parts of a
//! value as a JSON array.
//!
//! Words are those of filters: runs of letters, digits and underscores. An empty separator splits
//! between characters.

use std::collections::HashSet;
use std::fmt;

use memchr::memmem;
use text::json::write_text;
use text::quoted::quote;

use super::compute::{Compute, ComputePipe, Output, needs_for, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch, VALUE_BYTES_MAX};
use crate::lang::syntax::cursor::{Cursor, is_word_char};
use crate::lang::syntax::error::ParseError;

/// The `split` and `unpack_words` pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonArray {
    /// How the value is split.
    pub parts: Parts,
    /// The field to split.
    pub from: String,
    /// Field for the array.
    pub result: String,
}

/// How a value is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// At this separator.
    Separated(String),
    /// Into words.
    Words {
        /// Each word once.
        drop_duplicates: bool,
    },
}

pub(super) static UNPACK_WORDS: Registration = Registration {
    doc: Documentation {
        name: "unpack_words",
        aliases: &[],
        syntax: "unpack_words [from <field>] [as <name>] [drop_duplicates]",
        summary: "splits a value into its words, as a JSON array",
        example: "unpack_words from path as words drop_duplicates",
    },
    parse: |cursor| parse_words(cursor).map(one),
};

pub(super) static SPLIT: Registration = Registration {
    doc: Documentation {
        name: "split",
        aliases: &[],
        syntax: "split \"<separator>\" [from <field>] [as <name>]",
        summary: "splits a value at a separator, as a JSON array",
        example: "split \",\" from tags as list",
    },
    parse: |cursor| parse_split(cursor).map(one),
};

pub(super) fn parse_split(cursor: &mut Cursor<'_>) -> Result<JsonArray, ParseError> {
    // A punctuation mark such as a comma must be quoted to be a separator.
    let separator = cursor.expect_string(true, "a \"separator\"")?.text;
    parse_fields(cursor, Parts::Separated(separator))
}

pub(super) fn parse_words(cursor: &mut Cursor<'_>) -> Result<JsonArray, ParseError> {
    let mut array = parse_fields(cursor, Parts::Words { drop_duplicates: false })?;
    array.parts = Parts::Words { drop_duplicates: cursor.eat_keyword("drop_duplicates") };
    Ok(array)
}

fn parse_fields(cursor: &mut Cursor<'_>, parts: Parts) -> Result<JsonArray, ParseError> {
    let mut from = parse_field(cursor, "from")?;
    let bare = from.is_none()
        && matches!(parts, Parts::Words { .. })
        && !["as", "drop_duplicates"]
            .iter()
            .any(|w| cursor.peek_word(false).eq_ignore_ascii_case(w));
    if bare {
        from = cursor.string(false)?.map(|name| name.text);
    }
    let from = from.unwrap_or(MSG.to_owned());
    let result = parse_field(cursor, "as")?.unwrap_or(from.clone());
    Ok(JsonArray { parts, from, result })
}

impl fmt::Display for JsonArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts {
            Parts::Separated(separator) => write!(f, "split {}", quote(separator))?,
            Parts::Words { .. } => f.write_str("unpack_words")?,
        }
        write_field("from", &self.from, MSG, f)?;
        write_field("as", &self.result, &self.from, f)?;
        match self.parts {
            Parts::Words { drop_duplicates: true } => f.write_str(" drop_duplicates"),
            _ => Ok(()),
        }
    }
}

impl ComputePipe for JsonArray {
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

impl Compute for JsonArray {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let (from, to) = (block.column(&self.from), out.column(&self.result));
        rows.iter().try_for_each(|row| {
            let value = block.value(from, row, scratch);
            let held = self.parts.memory_bytes(value);
            out.hold(held)?;
            out.set_with(to, row, |out| {
                let begin = out.len();
                out.push(b'[');
                let mut is_first = true;
                self.parts.each(value, &mut |part| {
                    if out.len() - begin > VALUE_BYTES_MAX {
                        // The array is refused later; stopping here bounds its growth.
                        return;
                    }
                    if !is_first {
                        out.push(b',');
                    }
                    is_first = false;
                    write_text(part, out);
                });
                out.push(b']');
            })?;
            out.release(held);
            Ok(())
        })
    }
}

/// Memory of a word in the table of words seen: its entry, counted three times for when the table
/// grows.
const SEEN_BYTES: usize = 3 * size_of::<&[u8]>();
/// Bytes of a value up to which the memory for its words is not counted.
const VALUE_BYTES_FEW: usize = 16 << 10;

impl Parts {
    /// Working memory for splitting a value, bytes.
    fn memory_bytes(&self, value: &[u8]) -> usize {
        if value.len() <= VALUE_BYTES_FEW || *self != (Parts::Words { drop_duplicates: true }) {
            return 0;
        }
        let mut words = 0;
        (Parts::Words { drop_duplicates: false }).each(value, &mut |_| words += 1);
        words * SEEN_BYTES
    }

    fn each<'v>(&self, value: &'v [u8], each: &mut dyn FnMut(&'v [u8])) {
        match self {
            Parts::Separated(separator) if separator.is_empty() => {
                for chunk in value.utf8_chunks() {
                    let valid = chunk.valid();
                    valid.char_indices().for_each(|(at, c)| {
                        each(&valid.as_bytes()[at..at + c.len_utf8()]);
                    });
                    if !chunk.invalid().is_empty() {
                        each(chunk.invalid());
                    }
                }
            }
            Parts::Separated(separator) => {
                let mut from = 0;
                for at in memmem::find_iter(value, separator) {
                    each(&value[from..at]);
                    from = at + separator.len();
                }
                each(&value[from..]);
            }
            Parts::Words { drop_duplicates } => {
                let mut seen = HashSet::new();
                for chunk in value.utf8_chunks() {
                    let words = chunk.valid().split(|c| !is_word_char(c)).filter(|w| !w.is_empty());
                    for word in words {
                        if !drop_duplicates || seen.insert(word) {
                            each(word.as_bytes());
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn parts() {
        let records =
            [record(1, &[("_msg", "foo: (bar, \"тест\") foo_1 foo"), ("a", "x,,y"), ("e", "é1")])];
        check_pipe(&records, "split ',' from a as b | fields a, b", &[r#"a=x,,y b=["x","","y"]"#]);
        check_pipe(&records, "split ',' from a | fields a", &[r#"a=["x","","y"]"#]);
        check_pipe(
            &records,
            "split ', ' | fields _msg",
            &[r#"_msg=["foo: (bar","\"тест\") foo_1 foo"]"#],
        );
        check_pipe(&records, "split '' from e | fields e", &[r#"e=["é","1"]"#]);
        check_pipe(&records, "split ',' from none as b | fields b", &[r#"b=[""]"#]);
        check_pipe(
            &records,
            "unpack_words as w | fields w",
            &[r#"w=["foo","bar","тест","foo_1","foo"]"#],
        );
        check_pipe(
            &records,
            "unpack_words from _msg as words drop_duplicates | json_array_len (words) as n | fields n",
            &["n=4"],
        );
        check_pipe(&records, "unpack_words a as w | fields w", &[r#"w=["x","y"]"#]);
        check_pipe(&records, "unpack_words from none | fields none", &["none=[]"]);
    }
}
