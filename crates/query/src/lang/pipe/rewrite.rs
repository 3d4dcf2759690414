//! `replace ("a", "b")`, `replace_regexp ("a(.+)", "$1")`, `collapse_nums`, `decolorize`: pipes
//! that rewrite the value of a field, `at a` or else `_msg`, in the rows that `if (filter)`
//! selects.
//!
//! `collapse_nums` replaces decimal and hexadecimal numbers by `<N>`, so that messages that differ
//! only in numbers become equal; what counts as a number is as in VictoriaLogs. `decolorize`
//! removes the escape sequences of terminals (ECMA-48, section 5.4).

use std::fmt;

use memchr::memmem;
use record::parse::decolorize;
use text::quoted::quote;

use super::compute::{
    Compute, ComputePipe, Output, needs_for, parse_condition, parse_field, write_condition,
    write_field,
};
use super::limit::parse_count;
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch, VALUE_BYTES_MAX};
use crate::lang::filter::{Filter, Pattern};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `replace`, `replace_regexp`, `collapse_nums` and `decolorize` pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// Selects the rows to rewrite; none: all rows.
    pub condition: Option<Filter>,
    /// The change to the value.
    pub change: TextChange,
    /// The field to rewrite.
    pub field: String,
}

/// A change to a text.
#[derive(Clone, Debug, PartialEq)]
pub enum TextChange {
    /// Replaces one text by another.
    Replace {
        /// The text to replace.
        old: String,
        /// The replacement.
        new: String,
        /// Most replacements; none: all.
        limit: Option<u64>,
    },
    /// Replaces the matches of a regular expression.
    ReplaceRegex {
        /// The expression to match.
        pattern: Pattern,
        /// The replacement; `$1` and `${name}` stand for groups.
        new: String,
        /// Most replacements; none: all.
        limit: Option<u64>,
    },
    /// Replaces numbers by `<N>`.
    CollapseNums {
        /// Whether several `<N>` are then replaced by `<UUID>`, `<IP4>`, `<TIME>`, `<DATE>`,
        /// `<DATETIME>`.
        prettify: bool,
    },
    /// Removes the escape sequences of terminals.
    Decolorize,
}

pub(super) static REPLACE: Registration = Registration {
    doc: Documentation {
        name: "replace",
        aliases: &[],
        syntax: "replace [if (<filter>)] (\"<old>\", \"<new>\") [at <field>] [limit <n>]",
        summary: "replaces one text by another in a field",
        example: "replace (\"old\", \"new\") at path limit 1",
    },
    parse: |cursor| parse_replace(cursor, false).map(one),
};

pub(super) static REPLACE_REGEXP: Registration = Registration {
    doc: Documentation {
        name: "replace_regexp",
        aliases: &[],
        syntax: "replace_regexp [if (<filter>)] (\"<regexp>\", \"<new>\") [at <field>] [limit <n>]",
        summary: "replaces the matches of a regular expression in a field by a text",
        example: "replace_regexp (\"host-(.+?)-x\", \"$1\") at host",
    },
    parse: |cursor| parse_replace(cursor, true).map(one),
};

pub(super) static COLLAPSE_NUMS: Registration = Registration {
    doc: Documentation {
        name: "collapse_nums",
        aliases: &[],
        syntax: "collapse_nums [if (<filter>)] [at <field>] [prettify]",
        summary: "replaces numbers in a field by <N>, so that similar messages become equal",
        example: "collapse_nums at path prettify",
    },
    parse: |cursor| parse_collapse_nums(cursor).map(one),
};

pub(super) static DECOLORIZE: Registration = Registration {
    doc: Documentation {
        name: "decolorize",
        aliases: &[],
        syntax: "decolorize [<field>]",
        summary: "removes the escape sequences of terminals, such as colors, from a field",
        example: "decolorize text",
    },
    parse: |cursor| parse_decolorize(cursor).map(one),
};

pub(super) fn parse_replace(
    cursor: &mut Cursor<'_>,
    is_regex: bool,
) -> Result<Rewrite, ParseError> {
    let condition = parse_condition(cursor)?;
    let name = if is_regex { "replace_regexp" } else { "replace" };
    cursor.expect('(', &format!("{name} (\"old\", \"new\")"))?;
    let old = cursor.expect_string(true, "what is to be replaced")?;
    cursor.expect(',', &format!("{name} (\"old\", \"new\")"))?;
    let new = cursor.expect_string(true, "what comes in its place")?.text;
    cursor.expect(')', &format!("{name} (\"old\", \"new\")"))?;
    let field = parse_field(cursor, "at")?.unwrap_or(MSG.to_owned());
    let limited = cursor.eat_keyword("limit");
    // As in VictoriaLogs, 0 means no limit.
    let limit = if limited { Some(parse_count(cursor, None)?).filter(|&n| n > 0) } else { None };
    let change = if is_regex {
        let pattern = Pattern::of_logsql(&old.text, &mut cursor.regexes).map_err(|e| {
            let message = format!("the regular expression cannot be used: {e}");
            cursor.error_at(old.position, &["a regular expression"], message)
        })?;
        TextChange::ReplaceRegex { pattern, new, limit }
    } else if old.text.is_empty() {
        let message = "there is no text to be replaced";
        return Err(cursor.error_at(old.position, &["a text"], message));
    } else {
        TextChange::Replace { old: old.text, new, limit }
    };
    Ok(Rewrite { condition, change, field })
}

pub(super) fn parse_collapse_nums(cursor: &mut Cursor<'_>) -> Result<Rewrite, ParseError> {
    let condition = parse_condition(cursor)?;
    let field = parse_field(cursor, "at")?.unwrap_or(MSG.to_owned());
    let prettify = cursor.eat_keyword("prettify");
    Ok(Rewrite { condition, change: TextChange::CollapseNums { prettify }, field })
}

pub(super) fn parse_decolorize(cursor: &mut Cursor<'_>) -> Result<Rewrite, ParseError> {
    let field = cursor.string(false)?.map_or(MSG.to_owned(), |name| name.text);
    Ok(Rewrite { condition: None, change: TextChange::Decolorize, field })
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rewrite { condition, change, field } = self;
        let replace =
            |f: &mut fmt::Formatter<'_>, name: &str, old: &str, new: &str, limit: &Option<u64>| {
                f.write_str(name)?;
                write_condition(condition, f)?;
                write!(f, " ({}, {})", quote(old), quote(new))?;
                write_field("at", field, MSG, f)?;
                limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
            };
        match change {
            TextChange::Replace { old, new, limit } => replace(f, "replace", old, new, limit),
            TextChange::ReplaceRegex { pattern, new, limit } => {
                replace(f, "replace_regexp", pattern.text(), new, limit)
            }
            TextChange::CollapseNums { prettify } => {
                f.write_str("collapse_nums")?;
                write_condition(condition, f)?;
                write_field("at", field, MSG, f)?;
                f.write_str(if *prettify { " prettify" } else { "" })
            }
            TextChange::Decolorize => {
                f.write_str("decolorize")?;
                if field == MSG { Ok(()) } else { write!(f, " {}", quote_name(field)) }
            }
        }
    }
}

impl ComputePipe for Rewrite {
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
        needs_for(wanted, &self.results(), true, [self.field.as_str()]);
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.field]
    }
}

impl Compute for Rewrite {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let (from, to) = (block.column(&self.field), out.column(&self.field));
        let finder = match &self.change {
            TextChange::Replace { old, .. } => memmem::Finder::new(old.as_bytes()),
            _ => memmem::Finder::new(b""),
        };
        let (mut text, pulse) = (Vec::new(), out.pulse());
        for row in rows.iter() {
            let value = block.value(from, row, scratch);
            if value.is_empty() {
                continue;
            }
            if !pulse.may_continue(value.len()) {
                break;
            }
            text.clear();
            match &self.change {
                TextChange::Replace { new, limit, .. } => {
                    replace(value, &finder, new.as_bytes(), *limit, &mut text);
                }
                TextChange::ReplaceRegex { pattern, new, limit } => {
                    let most = (limit.unwrap_or(u64::MAX), VALUE_BYTES_MAX);
                    pattern.replace(value, new.as_bytes(), most, &mut text, &pulse);
                    if pulse.is_over() {
                        break;
                    }
                }
                TextChange::CollapseNums { prettify } => {
                    collapse_nums(value, &mut text);
                    if *prettify {
                        prettify_nums(&mut text);
                    }
                }
                TextChange::Decolorize => decolorize(value, &mut text),
            }
            out.set(to, row, &text)?;
        }
        pulse.end()
    }
}

/// Whether the text is too long; it is refused then, and no more is written.
fn is_too_long(text: &[u8]) -> bool {
    text.len() > VALUE_BYTES_MAX
}

fn replace(
    value: &[u8],
    old: &memmem::Finder<'_>,
    new: &[u8],
    limit: Option<u64>,
    out: &mut Vec<u8>,
) {
    let mut from = 0;
    let mut left = limit.unwrap_or(u64::MAX);
    for at in old.find_iter(value) {
        if left == 0 || is_too_long(out) {
            break;
        }
        left -= 1;
        out.extend_from_slice(&value[from..at]);
        out.extend_from_slice(new);
        from = at + old.needle().len();
    }
    out.extend_from_slice(&value[from..]);
}

fn collapse_nums(value: &[u8], out: &mut Vec<u8>) {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut copied = 0;
    let mut at = 0;
    while at < value.len() {
        let may_begin = at == 0 || !is_word(value[at - 1]) || b"_TXxvshm".contains(&value[at - 1]);
        if !value[at].is_ascii_hexdigit() || !may_begin {
            at += 1;
            continue;
        }
        let length = value[at..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let digits = &value[at..at + length];
        let behind = &value[at + length..];
        let ends = behind.first().is_none_or(|b| !is_word(*b) || b"_TZsmhun".contains(b))
            || behind.starts_with("µ".as_bytes());
        let decimal = digits.iter().all(u8::is_ascii_digit);
        // Short hexadecimal numbers, or those of odd length, may be words: be, add, face.
        if ends && (decimal || length >= 4 && length % 2 == 0) {
            out.extend_from_slice(&value[copied..at]);
            out.extend_from_slice(b"<N>");
            copied = at + length;
        }
        at += length;
    }
    out.extend_from_slice(&value[copied..]);
}

/// Texts behind a placeholder that belong to it; the first that fits is taken.
type Tails = &'static [&'static str];

const PRETTY: [(&str, &str, Tails); 7] = [
    ("<N>-<N>-<N>-<N>-<N>", "<UUID>", &[]),
    ("<N>.<N>.<N>.<N>", "<IP4>", &[]),
    ("<N>:<N>:<N>", "<TIME>", &[".<N>", ",<N>"]),
    ("<N>-<N>-<N>", "<DATE>", &[]),
    ("<N>/<N>/<N>", "<DATE>", &[]),
    ("<DATE>T<TIME>", "<DATETIME>", &["Z", "-<N>:<N>", "+<N>:<N>"]),
    ("<DATE> <TIME>", "<DATETIME>", &["Z", "-<N>:<N>", "+<N>:<N>"]),
];

fn prettify_nums(text: &mut Vec<u8>) {
    for (old, new, tails) in PRETTY {
        let mut from = 0;
        let mut out = Vec::with_capacity(text.len());
        while let Some(found) = memmem::find(&text[from..], old.as_bytes()) {
            out.extend_from_slice(&text[from..from + found]);
            out.extend_from_slice(new.as_bytes());
            from += found + old.len();
            let tail = tails.iter().find(|tail| text[from..].starts_with(tail.as_bytes()));
            from += tail.map_or(0, |tail| tail.len());
        }
        if from > 0 {
            out.extend_from_slice(&text[from..]);
            *text = out;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    fn check(text: &str, pipes: &str, expected: &str) {
        let records = [record(1, &[("_msg", text), ("user_type", "admin")])];
        let expected = format!("_msg={expected}");
        check_pipe(&records, &format!("{pipes} | fields _msg"), &[&expected]);
    }

    #[test]
    fn texts_are_replaced() {
        check("a secret-password b", "replace ('secret-password', '***')", "a *** b");
        check("foo foo foo", "replace ('foo', 'ba') at _msg limit 2", "ba ba foo");
        check("aaa", "replace ('aa', 'a') limit 0", "aa");
        check("secret", "replace if (user_type:=admin) ('secret', '') | format 'x<_msg>'", "x");
        check("secret", "replace if (user_type:=guest) ('secret', '***')", "secret");
        check("a host-x1-foo host-b-foo", "replace_regexp ('host-(.+?)-foo', '$1')", "a x1 b");
        check(
            "password: xyz password: abc",
            "replace_regexp ('password: [^ ]+', '') limit 1",
            " password: abc",
        );
        check("ab", "replace_regexp ('(?P<x>a)', '${x}${x}')", "aab");
        check("ab", "replace_regexp ('(a)(b)', '<$2-$1$$1${2}${x$y}${$1$')", "<b-a$1b${a$");
        check("ab", "replace_regexp ('x*', '-')", "-a-b-");
        check("aéx用😀", "replace_regexp ('x*', '-')", "-a-é-用-😀-");
        check("é", "replace_regexp ('', '-') limit 2", "-é-");
        let records = [record(1, &[("a", "")])];
        check_pipe(&records, "replace_regexp ('x*', '-') at a | fields a", &[""]);
    }

    #[test]
    fn numbers_are_collapsed() {
        let collapsed = "<N>-<N>-<N>T<N>:<N>:<N>Z request duration <N>.<N>s";
        check("2024-10-20T12:34:56Z request duration 1.34s", "collapse_nums at _msg", collapsed);
        check(
            "2edfed59-3e98-4073-bbb2-28d321ca71a7 - [2024/12/08 15:21:02] 10.71.20.32 GET /foo 200",
            "collapse_nums prettify",
            "<UUID> - [<DATETIME>] <IP4> GET /foo <N>",
        );
        check(
            "2024-10-20T12:34:56.5+02:00 x 12:00:01,250",
            "collapse_nums prettify",
            "<DATETIME> x <TIME>",
        );
        check(
            "be add face fac0e deadbeef 0x1f2e a12 x7 v12 10ms 5q",
            "collapse_nums",
            "be add <N> fac0e <N> 0x<N> a12 x<N> v<N> <N>ms 5q",
        );
        check("250µs 3é", "collapse_nums", "<N>µs 3é");
        check("a 1", "collapse_nums if (user_type:=guest)", "a 1");
        check("é1 1é", "collapse_nums", "é1 1é");
    }

    #[test]
    fn colours_are_taken_out() {
        check("\x1b[31;1mred\x1b[0m \x1b[2K.", "decolorize", "red .");
        check("\x1b[x\x1b[\x1b[1", "decolorize _msg", "\x1b[\x1b[1");
    }
}
