//! `pack_json [fields (a, b*)] [as c]` and `pack_logfmt …`: writes the fields of a row as a text
//! into one field, `_msg` by default. Empty fields are left out, except named fields in logfmt. The
//! order of the fields does not depend on how lines are stored.

use std::fmt;

use text::json::write_text;

use super::columns::{parse_patterns, write_patterns};
use super::compute::{Compute, ComputePipe, Output, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::{HIDDEN, MSG, NamePattern};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, RowFields, Scratch, VALUE_BYTES_MAX};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `pack_json` and `pack_logfmt` pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// As a JSON object; otherwise as logfmt.
    pub json: bool,
    /// Which fields; empty: all.
    pub fields: Vec<NamePattern>,
    /// Field for the text.
    pub result: String,
    /// The order of the fields, where it follows from the pipes before. Otherwise time, stream and
    /// message come first, the others by name.
    pub(crate) order: Vec<String>,
}

pub(super) static PACK_JSON: Registration = Registration {
    doc: Documentation {
        name: "pack_json",
        aliases: &[],
        syntax: "pack_json [fields (<field>, …)] [as <name>]",
        summary: "writes fields as a JSON object into one field",
        example: "pack_json fields (a, b*) as packed",
    },
    parse: |cursor| parse(cursor, true).map(one),
};

pub(super) static PACK_LOGFMT: Registration = Registration {
    doc: Documentation {
        name: "pack_logfmt",
        aliases: &[],
        syntax: "pack_logfmt [fields (<field>, …)] [as <name>]",
        summary: "writes fields as key=value pairs into one field",
        example: "pack_logfmt fields (a, b*) as packed",
    },
    parse: |cursor| parse(cursor, false).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>, json: bool) -> Result<Pack, ParseError> {
    let mut fields = Vec::new();
    if cursor.eat_keyword("fields") {
        fields = parse_patterns(cursor)?;
        if fields.contains(&NamePattern::ANY) {
            fields.clear();
        }
    }
    let result = parse_field(cursor, "as")?;
    let result = match result {
        Some(name) => name,
        None => cursor.string(false)?.map_or(MSG.to_owned(), |name| name.text),
    };
    Ok(Pack { json, fields, result, order: Vec::new() })
}

impl fmt::Display for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.json { "pack_json" } else { "pack_logfmt" })?;
        if !self.fields.is_empty() {
            write!(f, " fields ({})", write_patterns(&self.fields))?;
        }
        write_field("as", &self.result, MSG, f)
    }
}

impl ComputePipe for Pack {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        if wanted.contains(&self.result) {
            wanted.remove(&self.result);
            match self.fields.is_empty() {
                true => wanted.add_pattern(&NamePattern::ANY),
                false => self.fields.iter().for_each(|pattern| wanted.add_pattern(pattern)),
            }
        }
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.result]
    }

    fn settle_order(&mut self, before: &dyn Fn() -> Option<Vec<String>>) {
        if self.fields.is_empty() {
            self.order = before().unwrap_or_default();
        }
    }
}

impl Compute for Pack {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let to = out.column(&self.result);
        let named = self.fields.iter().filter(|p| !p.prefix && HIDDEN.contains(&p.name.as_str()));
        let hidden: Vec<String> = named.map(|p| p.name.clone()).collect();
        let exact = self.fields.iter().filter(|p| !p.prefix).map(|p| p.name.as_str());
        let exact: Vec<&str> = match self.fields.is_empty() {
            true => self.order.iter().map(String::as_str).collect(),
            false => exact.collect(),
        };
        let (mut text, mut fields) = (Vec::new(), RowFields::default());
        for row in rows.iter() {
            text.clear();
            fields.clear();
            let mut named = 0;
            block.visit(row, &hidden, scratch, &mut |name, value, _| {
                // A row that is too long is refused later; stopping here bounds its growth.
                if let Some(rank) = self.rank(name)
                    && fields.bytes() <= VALUE_BYTES_MAX
                {
                    named += usize::from(exact.contains(&&**name));
                    fields.add(rank, name, value);
                }
            });
            // As in VictoriaLogs, logfmt shows named fields even if they are empty.
            if !self.json && named < exact.len() {
                for name in &exact {
                    if block.value(block.column(name), row, scratch).is_empty()
                        && let Some(rank) = self.rank(name)
                    {
                        fields.add(rank, name, b"");
                    }
                }
            }
            fields.each(|name, value| self.write(name, value, &mut text));
            if self.json {
                text.extend_from_slice(if text.is_empty() { b"{}" } else { b"}" });
            }
            out.set(to, row, &text)?;
        }
        Ok(())
    }
}

impl Pack {
    /// Position of a field in the text; none when it is not wanted.
    fn rank(&self, name: &str) -> Option<usize> {
        if !self.fields.is_empty() {
            return self.fields.iter().position(|pattern| pattern.matches(name));
        }
        if self.order.is_empty() {
            return Some(RowFields::usual_rank(name));
        }
        Some(self.order.iter().position(|known| known == name).unwrap_or(self.order.len()))
    }

    fn write(&self, name: &str, value: &[u8], out: &mut Vec<u8>) {
        if self.json {
            out.push(if out.is_empty() { b'{' } else { b',' });
            write_text(name.as_bytes(), out);
            out.push(b':');
            return write_text(value, out);
        }
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        let quoted = value.iter().any(|b| matches!(b, 0..=b' ' | b'"' | b'=' | b'\\' | 0x7f));
        if quoted || value.first().is_some_and(|b| matches!(b, b'\'' | b'`')) {
            write_text(value, out);
        } else {
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn fields_as_texts() {
        let records = [record(
            1,
            &[("_msg", "a \"b\""), ("foo.x", "1"), ("foo.y", "x=y"), ("bar", ""), ("z", "ü")],
        )];
        check_pipe(
            &records,
            "pack_json as j | fields j",
            &[
                r#"j={"_time":"1970-01-01T00:00:00.000000001Z","_stream":"{}","_msg":"a \"b\"","foo.x":"1","foo.y":"x=y","z":"ü"}"#,
            ],
        );
        check_pipe(
            &records,
            "pack_json fields (foo.*, bar) as j | fields j",
            &[r#"j={"foo.x":"1","foo.y":"x=y"}"#],
        );
        check_pipe(&records, "pack_json fields (bar) | fields _msg", &["_msg={}"]);
        check_pipe(
            &records,
            "fields z, foo.x, bar | pack_json j | fields j",
            &[r#"j={"z":"ü","foo.x":"1"}"#],
        );
        check_pipe(
            &records,
            "fields z, foo.x, bar | pack_logfmt l | fields l",
            &["l=z=ü foo.x=1 bar="],
        );
        let unordered = [record(1, &[("b", "1"), ("a", "2"), ("_msg", "m")])];
        check_pipe(
            &unordered,
            "delete _time, _stream | pack_json j | fields j",
            &[r#"j={"_msg":"m","a":"2","b":"1"}"#],
        );
        check_pipe(
            &records,
            "pack_json fields (_line) j | fields j",
            &[r#"j={"_line":"a \"b\""}"#],
        );
        check_pipe(
            &records,
            "pack_logfmt fields (_msg, foo.*, z) as l | fields l",
            &[r#"l=_msg="a \"b\"" foo.x=1 foo.y="x=y" z=ü"#],
        );
        check_pipe(
            &records,
            "pack_logfmt fields (foo.*, z) as l | unpack_logfmt from l result_prefix u. | fields u.*",
            &["u.foo.x=1 u.foo.y=x=y u.z=ü"],
        );
    }
}
