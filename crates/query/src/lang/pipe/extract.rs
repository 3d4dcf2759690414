//! `extract [if (filter)] "ip=<ip> " [from a]` and `extract_regexp [if (filter)] "ip=(?P<ip>[^ ]+)"
//! [from a]`: parts of a value as fields of their own.
//!
//! A pattern of `extract` is matched from its first text on; each field reaches to the next text.
//! If a text is not found, matching stops and the remaining fields are empty. A field that begins
//! with a quote gets the content of the quoted text, whatever follows it, unless the field is
//! written `<plain:name>`.

use std::fmt;

use memchr::memmem::Finder;
use text::quoted::quote;
use text::quoted::{Dialect, unquote};

use super::compute::{
    Compute, ComputePipe, Output, Overwrite, needs_for, parse_condition, parse_field,
    write_condition, write_field,
};
use super::operator::{Documentation, Registration, one};
use super::pattern::{Step, parse_steps};
use crate::base::bitmap::Bitmap;
use crate::base::names::{MSG, TIME};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::filter::{Filter, Pattern};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `extract` and `extract_regexp` pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Extract {
    /// Selects the rows to extract from; none: all rows.
    pub condition: Option<Filter>,
    /// The pattern to match.
    pub pattern: ExtractPattern,
    /// The field to extract from.
    pub from: String,
    /// When fields get new values.
    pub overwrite: Overwrite,
}

/// The pattern of `extract` or `extract_regexp`.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtractPattern {
    /// Texts and fields, as written.
    Steps(String),
    /// A regular expression with named groups.
    Regex(Pattern),
}

pub(super) static EXTRACT: Registration = Registration {
    doc: Documentation {
        name: "extract",
        aliases: &[],
        syntax: "extract [if (<filter>)] \"<pattern>\" [from <field>] [keep_original_fields] [skip_empty_results]",
        summary: "extracts the texts between the fixed parts of a pattern into fields",
        example: "extract \"ip=<ip> port=<port>;\" from head",
    },
    parse: |cursor| parse(cursor, false).map(one),
};

pub(super) static EXTRACT_REGEXP: Registration = Registration {
    doc: Documentation {
        name: "extract_regexp",
        aliases: &[],
        syntax: "extract_regexp [if (<filter>)] \"<regexp>\" [from <field>] [keep_original_fields] [skip_empty_results]",
        summary: "extracts what the named groups of a regular expression match into fields",
        example: "extract_regexp \"ip=(?P<ip>[0-9.]+)\" from head",
    },
    parse: |cursor| parse(cursor, true).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>, is_regex: bool) -> Result<Extract, ParseError> {
    let condition = parse_condition(cursor)?;
    let what = if is_regex { "a \"regular expression\"" } else { "a \"pattern\"" };
    let written = cursor.expect_string(true, what)?;
    let compiled = is_regex.then(|| Pattern::of_logsql(&written.text, &mut cursor.regexes));
    let wrong = |message: String| cursor.error_at(written.position, &[what], message);
    let pattern = if let Some(compiled) = compiled {
        let pattern =
            compiled.map_err(|e| wrong(format!("the regular expression cannot be used: {e}")))?;
        if pattern.names().next().is_none() {
            return Err(wrong("the regular expression names no field with (?P<name>…)".to_owned()));
        }
        ExtractPattern::Regex(pattern)
    } else {
        check_steps(&parse_steps(&written.text).map_err(&wrong)?).map_err(wrong)?;
        ExtractPattern::Steps(written.text)
    };
    let from = parse_field(cursor, "from")?.unwrap_or(MSG.to_owned());
    Ok(Extract { condition, pattern, from, overwrite: Overwrite::parse(cursor) })
}

fn check_steps(steps: &[Step]) -> Result<(), String> {
    if steps.iter().all(|step| step.field.is_empty()) {
        return Err("the pattern names no field as <name>".to_owned());
    }
    match steps.iter().skip(1).find(|step| step.text.is_empty()) {
        Some(step) => {
            Err(format!("<{}> has no text before it, so its beginning cannot be found", step.field))
        }
        None => Ok(()),
    }
}

impl fmt::Display for Extract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, pattern) = match &self.pattern {
            ExtractPattern::Steps(text) => ("extract", text.as_str()),
            ExtractPattern::Regex(pattern) => ("extract_regexp", pattern.text()),
        };
        f.write_str(name)?;
        write_condition(&self.condition, f)?;
        write!(f, " {}", quote(pattern))?;
        write_field("from", &self.from, MSG, f)?;
        write!(f, "{}", self.overwrite)
    }
}

impl ComputePipe for Extract {
    fn prepare(&self) -> Box<dyn Compute> {
        let Extract { pattern, from, overwrite, .. } = self.clone();
        match pattern {
            ExtractPattern::Steps(text) => {
                let steps = parse_steps(&text).expect("it was read before");
                let texts = steps.iter().map(|step| Finder::new(step.text.as_bytes()).into_owned());
                Box::new(BySteps { texts: texts.collect(), steps, from, overwrite })
            }
            ExtractPattern::Regex(pattern) => Box::new(ByRegex { pattern, from, overwrite }),
        }
    }

    fn condition(&self) -> Option<&Filter> {
        self.condition.as_ref()
    }

    fn condition_mut(&mut self) -> Option<&mut Filter> {
        self.condition.as_mut()
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        let steps = match &self.pattern {
            ExtractPattern::Steps(text) => parse_steps(text).expect("it was read before"),
            ExtractPattern::Regex(_) => Vec::new(),
        };
        let fields = steps.iter().map(|step| step.field.as_str()).filter(|field| !field.is_empty());
        let results: Vec<&str> = self.results().into_iter().chain(fields).collect();
        let always = self.condition.is_none() && self.overwrite.is_always();
        needs_for(wanted, &results, always, [self.from.as_str()]);
    }

    fn results(&self) -> Vec<&str> {
        match &self.pattern {
            ExtractPattern::Steps(_) => Vec::new(),
            ExtractPattern::Regex(pattern) => pattern.names().collect(),
        }
    }

    fn sets_time(&self) -> bool {
        match &self.pattern {
            ExtractPattern::Steps(text) => {
                let steps = parse_steps(text).expect("it was read before");
                steps.iter().any(|step| step.field == TIME)
            }
            ExtractPattern::Regex(pattern) => pattern.names().any(|name| name == TIME),
        }
    }
}

struct BySteps {
    steps: Vec<Step>,
    /// The texts of the steps.
    texts: Vec<Finder<'static>>,
    from: String,
    overwrite: Overwrite,
}

impl Compute for BySteps {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let from = block.column(&self.from);
        let column = |step: &Step| (!step.field.is_empty()).then(|| out.column(&step.field));
        let columns: Vec<Option<usize>> = self.steps.iter().map(column).collect();
        let (mut unquoted, pulse) = (Vec::new(), out.pulse());
        for row in rows.iter() {
            let mut rest = Some(block.value(from, row, scratch));
            for (place, step) in self.steps.iter().enumerate() {
                // A quoted text may reach to the end, and not be one.
                if !pulse.may_continue(rest.map_or(0, <[u8]>::len)) {
                    return pulse.end();
                }
                if place == 0 {
                    rest = rest.and_then(|text| after(text, &self.texts[0]));
                }
                if !step.placeholder {
                    break;
                }
                let next = self.texts.get(place + 1);
                unquoted.clear();
                let is_plain = step.option == "plain";
                let quoted = rest
                    .filter(|_| !is_plain)
                    .and_then(|text| unquote(text, Dialect::GoOrJson, &mut unquoted).ok());
                let found = match (rest, quoted) {
                    (None, _) => None,
                    // A quoted value counts even if the text behind it does not match.
                    (Some(text), Some(length)) => {
                        let behind = &text[length..];
                        let text_behind = next.map_or(&[][..], |next| next.needle());
                        Some((unquoted.as_slice(), behind.strip_prefix(text_behind)))
                    }
                    (Some(text), None) => match next {
                        None => Some((text, None)),
                        Some(next) => next
                            .find(text)
                            .map(|at| (&text[..at], Some(&text[at + next.needle().len()..]))),
                    },
                };
                rest = found.and_then(|(_, behind)| behind);
                if let Some(column) = columns[place] {
                    let value = found.map_or(&[][..], |(value, _)| value);
                    out.put(column, row, value, self.overwrite)?;
                }
            }
        }
        pulse.end()
    }
}

fn after<'t>(text: &'t [u8], finder: &Finder<'_>) -> Option<&'t [u8]> {
    finder.find(text).map(|at| &text[at + finder.needle().len()..])
}

struct ByRegex {
    pattern: Pattern,
    from: String,
    overwrite: Overwrite,
}

impl Compute for ByRegex {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let from = block.column(&self.from);
        let expression = self.pattern.expression();
        let columns: Vec<(usize, usize)> =
            expression.names().map(|(group, name)| (group, out.column(name))).collect();
        let (mut groups, pulse) = (expression.groups(), out.pulse());
        for row in rows.iter() {
            let value = block.value(from, row, scratch);
            expression.find_groups(value, 0, &mut groups, &pulse);
            if pulse.is_over() {
                break;
            }
            for &(group, column) in &columns {
                // Without a match there are no groups.
                let part = groups.get_group(group).map(|place| &value[place.range()]);
                out.put(column, row, part.unwrap_or_default(), self.overwrite)?;
            }
        }
        pulse.end()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Record, check_pipe, record};

    fn message(text: &str) -> Vec<Record> {
        vec![record(1, &[("_msg", text), ("ip", "old"), ("kind", "x")])]
    }

    #[test]
    fn texts_between_texts() {
        let check = |text: &str, pipes: &str, expected: &str| {
            check_pipe(&message(text), pipes, &[expected]);
        };
        let line = r#"1.2.3.4 GET /foo/bar?baz 404 "Mozilla  foo \"bar baz" some tail here"#;
        check(
            line,
            "extract '<ip> <_> <path> <_> <user_agent> ' | fields ip, path, user_agent",
            "ip=1.2.3.4 path=/foo/bar?baz user_agent=Mozilla  foo \"bar baz",
        );
        check(
            line,
            "extract 'GET <path> <code> <rest>' | fields path, code, rest",
            r#"path=/foo/bar?baz code=404 rest=Mozilla  foo "bar baz"#,
        );
        let error = "error ip=1.2.3.4 from user_id=42";
        check(error, "extract 'ip=<ip> ' from _msg | fields ip", "ip=1.2.3.4");
        check(error, "extract 'ip=<ip> ' keep_original_fields | fields ip", "ip=old");
        check(error, "extract if (kind:y) 'ip=<ip> ' | fields ip", "ip=old");
        check(error, "extract if (ip:old) 'ip=<ip> ' | fields ip", "ip=1.2.3.4");
        check(error, "extract 'port=<ip> ' | fields ip, kind", "kind=x");
        check(error, "extract 'port=<ip> ' skip_empty_results | fields ip", "ip=old");
        check(error, "extract 'ip=<ip> to <x>' | fields ip, x, kind", "kind=x");
        check(
            r#"{"message":"a\u00e9\n\ud83d\ude00\"b"}"#,
            r#"extract '"message":<m>' | fields m | len(m) n"#,
            "m=aé\n😀\"b n=10",
        );
        check("x [\"a\",\"b\"]", "extract '[<plain:a>]' | fields a", "a=\"a\",\"b\"");
        check("a < b", "extract '<left> &lt; <right>' | fields left, right", "left=a right=b");
        check("'it' 5", r#"extract "<a> <b>" | fields a, b"#, "a=it b=5");
        check(
            r#"user="ann";x=1"#,
            "extract 'user=<user> ip=<ip> ' | fields user, ip, kind",
            "user=ann kind=x",
        );
        check("\"open 5", r#"extract "<a> <b>" | fields a, b"#, "a=\"open b=5");
    }

    #[test]
    fn groups_of_regular_expressions() {
        let ip = r#"extract_regexp "(?P<ip>([0-9]+[.]){3}[0-9]+)""#;
        check_pipe(&message("a 1.2.3.4 b"), &format!("{ip} | fields ip"), &["ip=1.2.3.4"]);
        check_pipe(&message("a"), &format!("{ip} skip_empty_results | fields ip"), &["ip=old"]);
        check_pipe(&message("a"), &format!("{ip} from _msg | fields ip, kind"), &["kind=x"]);
        check_pipe(
            &message("a 1.2.3.4"),
            &format!("{ip} keep_original_fields | fields ip"),
            &["ip=old"],
        );
    }
}
