//! `set_stream_fields [if (filter)] a, b`: sets the stream of rows to the named fields.
//! `k8s.*` stands for all fields whose names begin so.

use std::collections::BTreeMap;
use std::fmt;

use text::json::write_text;

use super::columns::{parse_patterns, write_patterns};
use super::compute::{
    Compute, ComputePipe, Output, needs_for_patterns, parse_condition, write_condition,
};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::{NamePattern, is_stored};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `set_stream_fields` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct SetStreamFields {
    /// Selects the rows that get another stream; none: all rows.
    pub condition: Option<Filter>,
    /// The fields of the new stream; at least one.
    pub fields: Vec<NamePattern>,
}

pub(super) static SET_STREAM_FIELDS: Registration = Registration {
    doc: Documentation {
        name: "set_stream_fields",
        aliases: &[],
        syntax: "set_stream_fields [if (<filter>)] <field>, …",
        summary: "sets _stream to these fields",
        example: "set_stream_fields hostname, path",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<SetStreamFields, ParseError> {
    let condition = parse_condition(cursor)?;
    let position = cursor.position();
    let before = cursor.place();
    let is_empty = cursor.eat('(') && cursor.eat(')');
    cursor.go_back(before);
    if is_empty {
        let message = "set_stream_fields needs the fields of the stream";
        return Err(cursor.error_at(position, &["field names"], message));
    }
    let fields = parse_patterns(cursor)?;
    Ok(SetStreamFields { condition, fields })
}

impl fmt::Display for SetStreamFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("set_stream_fields")?;
        write_condition(&self.condition, f)?;
        write!(f, " {}", write_patterns(&self.fields))
    }
}

impl ComputePipe for SetStreamFields {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn condition(&self) -> Option<&Filter> {
        self.condition.as_ref()
    }

    fn condition_mut(&mut self) -> Option<&mut Filter> {
        self.condition.as_mut()
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        let always = self.condition.is_none();
        needs_for_patterns(wanted, &self.results(), always, &self.fields);
    }

    fn results(&self) -> Vec<&str> {
        vec!["_stream"]
    }
}

impl Compute for SetStreamFields {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let exact = self.fields.iter().filter(|field| !field.prefix);
        let mut columns: Vec<_> =
            exact.map(|field| (field.name.as_str(), block.column(&field.name))).collect();
        columns.sort_by_key(|(name, _)| *name);
        columns.dedup_by_key(|(name, _)| *name);
        let has_beginnings = self.fields.iter().any(|field| field.prefix);
        let to = out.column("_stream");
        // Names are sorted, as in the streams of lines.
        let (mut parts, mut stream) = (BTreeMap::<String, Vec<u8>>::new(), Vec::new());
        for row in rows.iter() {
            parts.clear();
            for &(name, column) in &columns {
                let value = block.value(column, row, scratch);
                if !value.is_empty() {
                    parts.insert(name.to_owned(), value.to_vec());
                }
            }
            if has_beginnings {
                block.visit(row, &[], scratch, &mut |name, value, _| {
                    let matches = self.fields.iter().any(|f| f.prefix && f.matches(name));
                    if matches && is_stored(name) && !value.is_empty() {
                        parts.insert(name.to_string(), value.to_vec());
                    }
                });
            }
            stream.clear();
            stream.push(b'{');
            for (name, value) in &parts {
                if stream.len() > 1 {
                    stream.push(b',');
                }
                stream.extend_from_slice(name.as_bytes());
                stream.push(b'=');
                write_text(value, &mut stream);
            }
            stream.push(b'}');
            out.set(to, row, &stream)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn streams_of_other_fields() {
        let records = [record(1, &[("host", "foo"), ("path", "/bar"), ("empty", "")])];
        let check = |pipes: &str, expected: &str| {
            check_pipe(&records, &format!("{pipes} | copy _stream as s | fields s"), &[expected]);
        };
        check("set_stream_fields path, host, empty", "s={host=\"foo\",path=\"/bar\"}");
        check("set_stream_fields p*, host", "s={host=\"foo\",path=\"/bar\"}");
        check("set_stream_fields if (host:=foobar) path", "s={}");
    }
}
