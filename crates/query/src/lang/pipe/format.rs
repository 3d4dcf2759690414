//! `format [if (filter)] "from <ip>:<q:port>" [as a]`: assembles fields into a text.
//!
//! Options before a field: `q` (JSON string), `uc`, `lc`, `urlencode`, `urldecode`, `hexencode`,
//! `hexdecode`, `base64encode`, `base64decode`, `hexnumencode`, `hexnumdecode`, `time` (a number
//! since 1970), `duration` (nanoseconds), `duration_seconds`, `ipv4`. A value to which an option
//! does not apply stays as it is.

use std::fmt;

use text::quoted::quote;

use super::compute::{
    Compute, ComputePipe, Output, Overwrite, needs_for, parse_condition, parse_field,
    write_condition, write_field,
};
use super::encode;
use super::operator::{Documentation, Registration, one};
use super::pattern::{Step, parse_steps};
use super::shown::Shown;
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Column, Scratch, VALUE_BYTES_MAX};
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `format` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Selects the rows that get the text; none: all rows.
    pub condition: Option<Filter>,
    /// Texts and fields, as written.
    pub pattern: String,
    /// Field for the text.
    pub result: String,
    /// When the field gets the text.
    pub overwrite: Overwrite,
}

pub(super) static FORMAT: Registration = Registration {
    doc: Documentation {
        name: "format",
        aliases: &[],
        syntax: "format [if (<filter>)] \"<pattern>\" [as <name>] [keep_original_fields] [skip_empty_results]",
        summary: "puts fields together into a text",
        example: "format \"from <ip>:<port>\" as peer",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Format, ParseError> {
    let condition = parse_condition(cursor)?;
    let written = cursor.expect_string(true, "a \"pattern\"")?;
    let wrong = |message: String| cursor.error_at(written.position, &["a \"pattern\""], message);
    let steps = parse_steps(&written.text).map_err(wrong)?;
    if let Some(step) = steps.iter().find(|step| encode::option(&step.option).is_none()) {
        return Err(wrong(format!("format has no option \"{}\" for a field", step.option)));
    }
    let result = parse_field(cursor, "as")?.unwrap_or(MSG.to_owned());
    Ok(Format { condition, pattern: written.text, result, overwrite: Overwrite::parse(cursor) })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("format")?;
        write_condition(&self.condition, f)?;
        write!(f, " {}", quote(&self.pattern))?;
        write_field("as", &self.result, MSG, f)?;
        write!(f, "{}", self.overwrite)
    }
}

impl Format {
    fn steps(&self) -> Vec<Step> {
        parse_steps(&self.pattern).expect("it was read before")
    }
}

impl ComputePipe for Format {
    fn prepare(&self) -> Box<dyn Compute> {
        let prepared = |step: Step| {
            let option = encode::option(&step.option).expect("it was read before");
            (step.text, step.field, option)
        };
        Box::new(Prepared {
            steps: self.steps().into_iter().map(prepared).collect(),
            result: self.result.clone(),
            overwrite: self.overwrite,
        })
    }

    fn condition(&self) -> Option<&Filter> {
        self.condition.as_ref()
    }

    fn condition_mut(&mut self) -> Option<&mut Filter> {
        self.condition.as_mut()
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        let steps = self.steps();
        let sources =
            steps.iter().map(|step| step.field.as_str()).filter(|field| !field.is_empty());
        let always = self.condition.is_none() && self.overwrite.is_always();
        needs_for(wanted, &self.results(), always, sources);
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.result]
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        shown.add_label(&self.result);
        Ok(())
    }
}

struct Prepared {
    /// For each step: its text, its field, and the encoding of the value.
    steps: Vec<(String, String, encode::Encode)>,
    result: String,
    overwrite: Overwrite,
}

impl Compute for Prepared {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let columns: Vec<Column<'_>> =
            self.steps.iter().map(|(_, field, _)| block.column(field)).collect();
        let to = out.column(&self.result);
        let mut made = Vec::new();
        for row in rows.iter() {
            made.clear();
            for ((text, field, encode), &column) in self.steps.iter().zip(&columns) {
                if made.len() > VALUE_BYTES_MAX {
                    // The text is refused later; stopping here bounds its growth.
                    break;
                }
                made.extend_from_slice(text.as_bytes());
                if !field.is_empty() {
                    encode(block.value(column, row, scratch), &mut made);
                }
            }
            out.put(to, row, &made, self.overwrite)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn texts_of_fields() {
        let records = [record(
            1,
            &[
                ("_msg", "a \"b\""),
                ("ip", "1.2.3.4"),
                ("port", "80"),
                ("n", "1717328141"),
                ("x", "Grüße"),
            ],
        )];
        let check = |format: &str, expected: &str| {
            check_pipe(&records, &format!("format {format} as r | fields r"), &[expected]);
        };
        check("'request from <ip>:<port>'", "r=request from 1.2.3.4:80");
        check("'{\"_msg\":<q:_msg>,\"x\":<q:x>}'", r#"r={"_msg":"a \"b\"","x":"Grüße"}"#);
        check("'<uc:x> <lc:x>'", "r=GRÜßE grüße");
        check("'<urlencode:_msg> <urlencode:x>'", "r=a+%22b%22 Gr%C3%BC%C3%9Fe");
        check("'<hexencode:ip> <hexnumencode:port>'", "r=312E322E332E34 0000000000000050");
        check("'<base64encode:_msg>'", "r=YSAiYiI=");
        check(
            "'<time:n> <duration:n> <ipv4:n>'",
            "r=2024-06-02T11:35:41Z 1.717328141s 102.92.89.13",
        );
        check("'<none>.<_>'", "r=.");
        check("if (ip:x) 'y'", "");
        check("'a &lt;b&gt;'", "r=a <b>");
        check_pipe(&records, "format '<ip>' | fields _msg", &["_msg=1.2.3.4"]);
        check_pipe(&records, "format 'y' as port keep_original_fields | fields port", &["port=80"]);
        check_pipe(
            &records,
            "format '<no><ne>' as port skip_empty_results | fields port",
            &["port=80"],
        );
        check_pipe(
            &records,
            "format 'a' as port | format '<port>b' as port | filter port:ab | fields port",
            &["port=ab"],
        );
    }
}
