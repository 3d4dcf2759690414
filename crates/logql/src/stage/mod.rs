//! The stages of a query applied to a line: tests, parsers, formats.
//!
//! A line ([`Item`]) has four kinds of labels. Those of its stream, its structured metadata with
//! `detected_level`, and those that stages made are in the output and distinguish series. Where
//! names clash, a stream's label goes before metadata, and metadata before what a parser finds; the
//! loser is called `NAME_extracted`. The fields that Loginson parsed from the line at ingest can be
//! used by name, but do not distinguish series, so that process ids do not make a series for each
//! process.

pub(crate) mod filter;
pub(crate) mod functions;
mod go_time;
pub(crate) mod ip;
pub(crate) mod json;
pub(crate) mod kinds;
pub(crate) mod line;
pub(crate) mod logfmt;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod template;

use std::borrow::Cow;
use std::cell::OnceCell;

use query::Pulse;
use record::parse::{JsonKind, json_items};

use json::label_name;
use kinds::{LabelSource, Named, Stage};

/// Labels as they are in the output: names in order. A parser can make a label without value.
pub type Labels = Vec<(String, String)>;

/// The label with the level of a line, with Loki's names.
pub const DETECTED_LEVEL: &str = "detected_level";
/// The label with the error of the stage that failed on a line.
pub const ERROR: &str = "__error__";
const ERROR_DETAILS: &str = "__error_details__";
/// The label of series whose lines have an error that the query asks for.
pub const PRESERVE_ERROR: &str = "__preserve_error__";
/// The end of the name of a label whose name was taken.
pub const EXTRACTED: &str = "_extracted";
/// The member of a packed line that has its text.
const ENTRY: &str = "_entry";
/// Limit of the labels of one line; further ones are left out, because a hostile line could consist
/// of keys only.
pub const LABELS_MAX: usize = 1_000;
/// Limit of the bytes of those labels with their names: keys of nested objects are repeated in the
/// name of each label. A line with more has an error, and further labels are left out.
pub const LABELS_BYTES_MAX: usize = 16 << 20;

/// Access to the fields of a line by name; empty if a field is missing.
pub trait Fields {
    /// The value of a field.
    fn field(&self, name: &str) -> Cow<'_, str>;

    /// What a shipper sent with the line besides the labels of its stream.
    fn metadata(&self) -> Labels {
        Labels::new()
    }
}

/// A line that passes through the stages.
pub struct Item<'a> {
    /// Its time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its text.
    pub line: Cow<'a, str>,
    stream: &'a [(String, String)],
    level: &'static str,
    fields: &'a dyn Fields,
    hides_fields: bool,
    metadata: OnceCell<Labels>,
    made: Labels,
    made_bytes: usize,
    gone: Vec<String>,
    error: Option<&'static str>,
    error_details: Option<String>,
    /// Ends the work on a long line when the query ends.
    pulse: &'a Pulse<'a>,
}

impl<'a> Item<'a> {
    /// A line as it is stored; `stream` in the order of names.
    pub fn new(
        time_ns: i64,
        line: Cow<'a, str>,
        stream: &'a [(String, String)],
        level: &'static str,
        fields: &'a dyn Fields,
        pulse: &'a Pulse<'a>,
    ) -> Item<'a> {
        Item {
            time_ns,
            line,
            stream,
            level,
            fields,
            hides_fields: false,
            metadata: OnceCell::new(),
            made: Labels::new(),
            made_bytes: 0,
            gone: Vec::new(),
            error: None,
            error_details: None,
            pulse,
        }
    }

    /// The pulse of the query.
    pub fn pulse(&self) -> &'a Pulse<'a> {
        self.pulse
    }

    /// Whether the query goes on, before this many bytes are looked at.
    pub fn may_continue(&self, bytes: usize) -> bool {
        self.pulse.may_continue(bytes)
    }

    /// Whether a stage failed on it.
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Records that a stage failed on it; the last error counts.
    pub fn set_error(&mut self, error: &'static str, details: String) {
        self.error = Some(error);
        self.error_details = Some(details);
    }

    /// Its structured metadata as it was sent.
    fn metadata(&self) -> &Labels {
        self.metadata.get_or_init(|| self.fields.metadata())
    }

    fn is_gone(&self, name: &str) -> bool {
        self.gone.iter().any(|gone| gone == name)
    }

    fn is_made(&self, name: &str) -> bool {
        self.made.iter().any(|(made, _)| made == name)
    }

    /// Whether it has a label of that name without a value.
    pub fn has_empty(&self, name: &str) -> bool {
        self.made.iter().any(|(made, value)| made == name && value.is_empty())
    }

    /// Calls `with` with the value of a label; it is empty if the label is missing.
    pub fn with_label<T>(&self, name: &str, with: impl FnOnce(&str) -> T) -> T {
        if name == ERROR {
            return with(self.error.unwrap_or_default());
        }
        if name == ERROR_DETAILS
            && let Some(details) = &self.error_details
        {
            return with(details);
        }
        if let Some((_, value)) = self.made.iter().find(|(made, _)| made == name) {
            return with(value);
        }
        if self.is_gone(name) {
            return with("");
        }
        if let Some((_, value)) = self.stream.iter().find(|(label, _)| label == name) {
            return with(value);
        }
        if name == DETECTED_LEVEL {
            return with(self.level);
        }
        if self.hides_fields || name.starts_with('_') {
            // Loginson's own fields are none of the sender.
            let own = self.metadata().iter().find(|(label, _)| label == name);
            return with(own.filter(|_| !self.hides_fields).map_or("", |(_, value)| value));
        }
        with(&self.fields.field(name))
    }

    /// Removes a label.
    pub fn remove(&mut self, name: &str) {
        // All names are compared with this one.
        if !self.may_continue(self.made.len() + self.gone.len()) {
            return;
        }
        self.unset(name);
        if self.gone.len() < 2 * LABELS_MAX && !self.is_gone(name) {
            self.gone.push(name.to_owned());
        }
    }

    fn unset(&mut self, name: &str) {
        if let Some(place) = self.made.iter().position(|(made, _)| made == name) {
            let (name, value) = self.made.remove(place);
            self.made_bytes -= name.len() + value.len();
        }
    }

    /// Sets a label, which may be empty.
    pub fn set(&mut self, name: &str, value: &str) {
        // All names are compared with this one.
        if !self.may_continue(self.made.len() + self.gone.len() + value.len()) {
            return;
        }
        self.unset(name);
        if self.made_bytes + name.len() + value.len() > LABELS_BYTES_MAX {
            let details = format!("the labels of the line have more than {LABELS_BYTES_MAX} bytes");
            self.set_error("LabelsLimitErr", details);
        } else if self.made.len() < LABELS_MAX {
            self.made_bytes += name.len() + value.len();
            self.made.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Sets a label that a parser found. If the stream or the metadata has a label of that name,
    /// that one keeps its value, and the new one gets another name. What an earlier stage or an
    /// earlier part of the line set, stays.
    fn set_parsed(&mut self, name: &str, value: &str) {
        let name = self.parsed_name(name);
        if !self.may_continue(self.made.len()) || self.is_made(&name) {
            return;
        }
        self.set(&name, value);
    }

    /// The name of a label that a parser found.
    fn parsed_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let is_among = |labels: &[(String, String)]| labels.iter().any(|(label, _)| label == name);
        let taken = is_among(self.stream) || (is_among(self.metadata()) && !self.is_gone(name));
        if taken { Cow::Owned(format!("{name}{EXTRACTED}")) } else { Cow::Borrowed(name) }
    }

    /// Calls `each` with the remaining labels of the stream.
    pub fn stream_labels(&self, mut each: impl FnMut(&str, &str)) {
        let left = |name: &str| !self.is_gone(name) && !self.is_made(name);
        self.stream.iter().filter(|(name, _)| left(name)).for_each(|(n, v)| each(n, v));
    }

    /// Calls `each` with the remaining labels of the structured metadata but the level.
    pub fn metadata_labels(&self, mut each: impl FnMut(&str, &str)) {
        let left =
            |name: &str| name != DETECTED_LEVEL && !self.is_gone(name) && !self.is_made(name);
        self.metadata().iter().filter(|(name, _)| left(name)).for_each(|(n, v)| each(n, v));
    }

    /// Whether a field that is neither a label of the stream nor metadata can be shown.
    pub fn shows_field(&self, name: &str) -> bool {
        !self.hides_fields && !self.is_gone(name) && !self.is_made(name)
    }

    /// The level, unless a stage removed or replaced it.
    pub fn level(&self) -> Option<&str> {
        let hidden = self.is_gone(DETECTED_LEVEL)
            || self.is_made(DETECTED_LEVEL)
            || self.stream.iter().any(|(label, _)| label == DETECTED_LEVEL);
        (!hidden && !self.level.is_empty()).then_some(self.level)
    }

    /// The labels made by stages, including errors, in the order of names.
    pub fn made_labels(&self) -> Labels {
        let mut labels = self.made.clone();
        self.push_errors(&mut labels);
        labels.sort_unstable();
        labels
    }

    /// Appends the labels of the error.
    pub fn push_errors(&self, labels: &mut Labels) {
        labels.extend(self.error.map(|error| (ERROR.to_owned(), error.to_owned())));
        if let Some(details) = &self.error_details {
            labels.retain(|(name, _)| name != ERROR_DETAILS);
            labels.push((ERROR_DETAILS.to_owned(), details.clone()));
        }
    }

    /// All labels of the output.
    pub fn labels(&self) -> Labels {
        let mut labels = self.made_labels();
        self.stream_labels(|name, value| labels.push((name.to_owned(), value.to_owned())));
        self.metadata_labels(|name, value| labels.push((name.to_owned(), value.to_owned())));
        labels.extend(self.level().map(|level| (DETECTED_LEVEL.to_owned(), level.to_owned())));
        labels.sort_unstable();
        labels
    }

    /// Passes the line through a stage; false if it does not pass, or the query ended.
    pub fn apply(&mut self, stage: &Stage) -> bool {
        if !self.may_continue(self.line.len()) {
            return false;
        }
        match stage {
            Stage::Line(filter) => return filter.passes(&self.line, self.pulse),
            Stage::Label(test) => return test.passes(self),
            Stage::Json(labels) => self.json(labels),
            Stage::Unpack => self.unpack(),
            Stage::Logfmt { strict, keep_empty, labels } => {
                self.logfmt(*strict, *keep_empty, labels)
            }
            Stage::Regexp(regex) => {
                let line = self.take_line();
                let pulse = self.pulse;
                regex.pattern().each_group(line.as_bytes(), pulse, |name, value| {
                    let value = String::from_utf8_lossy(value.unwrap_or_default());
                    self.set_parsed(name, &value);
                });
                self.line = line;
            }
            Stage::Pattern(pattern) => {
                let line = self.take_line();
                pattern.captures(&line, |name, value| self.set_parsed(name, value));
                self.line = line;
            }
            Stage::LineFormat(template) => match template::render(template, self) {
                Ok(line) => self.line = Cow::Owned(line),
                Err(error) => self.set_error("TemplateFormatErr", error),
            },
            Stage::LabelFormat(labels) => {
                for (name, source) in labels {
                    match source {
                        LabelSource::Rename(from) => {
                            let value = self.with_label(from, str::to_owned);
                            if !value.is_empty() {
                                self.set(name, &value);
                                if name != from {
                                    self.remove(from);
                                }
                            }
                        }
                        LabelSource::Template(template) => match template::render(template, self) {
                            Ok(value) => self.set(name, &value),
                            Err(error) => self.set_error("TemplateFormatErr", error),
                        },
                    }
                }
            }
            Stage::Decolorize => {
                if self.line.contains('\x1b') {
                    let mut plain = Vec::with_capacity(self.line.len());
                    query::decolorize(self.line.as_bytes(), &mut plain);
                    let plain = String::from_utf8(plain).expect("whole characters went");
                    self.line = Cow::Owned(plain);
                }
            }
            Stage::Drop(named) => self.drop_labels(named),
            Stage::Keep(named) => {
                for (label, value) in self.labels() {
                    let kept = named.iter().any(|n| n.names(&label, &value, self.pulse));
                    // Errors are not labels that users can keep or drop.
                    if !kept && !label.starts_with("__error") {
                        self.remove(&label);
                    }
                }
                // Named fields stay, as labels.
                for named in named {
                    let name = match named {
                        Named::Name(name) => name,
                        Named::Matcher(matcher) => &matcher.name,
                    };
                    let value = self.with_label(name, str::to_owned);
                    let shown = self.stream.iter().any(|(label, _)| label == name)
                        || self.metadata().iter().any(|(label, _)| label == name)
                        || self.is_made(name)
                        || name == DETECTED_LEVEL
                        || name.starts_with("__error");
                    if !shown && named.names(name, &value, self.pulse) && !value.is_empty() {
                        self.set(name, &value);
                    }
                }
                self.hides_fields = true;
            }
        }
        true
    }

    fn take_line(&mut self) -> Cow<'a, str> {
        std::mem::take(&mut self.line)
    }

    fn drop_labels(&mut self, named: &[Named]) {
        for named in named {
            match named {
                Named::Name(name) => self.drop_label(name),
                Named::Matcher(matcher) => {
                    let name = &matcher.name;
                    let pulse = self.pulse;
                    if self.with_label(name, |value| {
                        !value.is_empty() && matcher.matches(value, pulse)
                    }) {
                        self.drop_label(name);
                    }
                }
            }
        }
    }

    /// Removes a label or one of those of an error, which go one by one.
    fn drop_label(&mut self, name: &str) {
        match name {
            ERROR => self.error = None,
            ERROR_DETAILS => {
                self.error_details = None;
                self.remove(name);
            }
            _ => self.remove(name),
        }
    }

    fn json(&mut self, labels: &[(String, path::Path)]) {
        let line = self.take_line();
        let whole = match labels.is_empty() {
            true => json::labels(&line, |name, value| self.set_parsed(name, value)),
            false => json::members_at_once(&line, |_, _, _| {})
                .or_else(|| json_items(line.as_bytes(), |_, _| {}))
                .map(|()| self.json_places(&line, labels)),
        };
        self.line = line;
        self.note_json(whole);
    }

    fn json_places(&mut self, line: &str, labels: &[(String, path::Path)]) {
        for (name, path) in labels {
            match path.find(line, self.pulse) {
                Some(found) => self.set_parsed(name, &found),
                // A label that was asked for is there, also without a value.
                None if self.has_label(name) => {}
                None => self.set(name, ""),
            }
        }
    }

    fn has_label(&self, name: &str) -> bool {
        self.is_made(name) || self.with_label(name, |value| !value.is_empty())
    }

    fn unpack(&mut self) {
        let line = self.take_line();
        let mut entry = None;
        let whole = json::members(&line, |key, kind, value| {
            if kind == JsonKind::Text && key == ENTRY {
                entry = Some(value.to_owned());
            }
        });
        // Labels are those of a line that was packed, which has an entry.
        if entry.is_some() {
            json::members_at_once(&line, |key, kind, value| {
                if kind == JsonKind::Text && key != ENTRY {
                    self.set_parsed(&label_name(key), value);
                }
            });
        }
        self.line = entry.map_or(line, Cow::Owned);
        self.note_json(whole);
    }

    fn note_json(&mut self, whole: Option<()>) {
        if whole.is_none() {
            self.set_error("JSONParserErr", "the line is not a JSON object".to_owned());
        }
    }

    fn logfmt(&mut self, strict: bool, keep_empty: bool, labels: &[(String, String)]) {
        let line = self.take_line();
        // A label that was asked for is there, also without a value.
        let mut missing: Vec<&str> = labels.iter().map(|(name, _)| name.as_str()).collect();
        let found = logfmt::pairs(&line, strict, |key, value| {
            if labels.is_empty() {
                let name = label_name(key);
                if !name.is_empty() && (!value.is_empty() || keep_empty) {
                    self.set_parsed(&name, &value);
                }
            }
            self.may_continue(labels.len());
            for (name, _) in labels.iter().filter(|(_, wanted)| wanted == key) {
                missing.retain(|other| other != name);
                self.set_parsed(name, &value);
            }
        });
        for name in missing {
            if !self.has_label(name) {
                self.set(name, "");
            }
        }
        if let Err(error) = found {
            self.set_error("LogfmtParserErr", error.to_owned());
        }
        self.line = line;
    }
}

/// Calls `each` with the labels that `json`, or else `logfmt`, makes of a line, as far as they have
/// a value; returns which of the two it was, if there are any.
pub fn found_in(line: &str, mut each: impl FnMut(&str, &str)) -> Option<&'static str> {
    let mut any = false;
    let mut take = |name: &str, value: &str| {
        if !name.is_empty() && !value.is_empty() {
            any = true;
            each(name, value);
        }
    };
    let is_json = json::labels(line, &mut take).is_some();
    if !is_json {
        // Without `--strict` there is no error.
        let _ = logfmt::pairs(line, false, |key, value| take(&label_name(key), &value));
    }
    any.then_some(if is_json { "json" } else { "logfmt" })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use query::RunError;

    use super::*;
    use crate::ast::Expr;

    struct NoFields;

    impl Fields for NoFields {
        fn field(&self, _name: &str) -> Cow<'_, str> {
            Cow::Borrowed("")
        }
    }

    #[test]
    fn labels_are_found_in_lines_of_json_and_logfmt() {
        for (line, expected) in [
            (r#"{"a":{"b":1},"c":"","d":"x"}"#, "json a_b=1 d=x"),
            ("GET /x took=5ms n= alone", "logfmt took=5ms"),
            ("nothing here", ""),
            ("{}", ""),
        ] {
            let mut found = String::new();
            let parser = found_in(line, |name, value| found += &format!(" {name}={value}"));
            assert_eq!(parser.unwrap_or_default().to_owned() + &found, expected, "{line}");
        }
    }

    #[test]
    fn work_on_one_long_line_ends_when_the_query_does() {
        const CHECKS: usize = 20;
        let spaced = "ab ".repeat(30_000);
        let object = format!("{{\"a\":\"{spaced}\"}}");
        let paths: Vec<String> = (0..60).map(|n| format!("l{n}=\"b{n}\"")).collect();
        let needles = vec!["\"no\""; 60].join(" or ");
        let slow = "(ab ){1,1000}z";
        for (line, stages) in [
            (&spaced, format!("|~ `{slow}`")),
            (&spaced, format!("!~ `{slow}`")),
            (&spaced, format!("|= {needles}")),
            (&spaced, format!("| regexp `(?P<x>{slow})`")),
            (&spaced, format!("| pattern `<x>;` | x =~ `.*{slow}`")),
            (&spaced, format!("| pattern `<x>;` | drop x=~`.*{slow}`")),
            (&object, format!("| json {}", paths.join(", "))),
            (&spaced, format!("| line_format `{{{{ count \"{slow}\" __line__ }}}}`")),
            (
                &spaced,
                format!("| line_format `{{{{ regexReplaceAll \"{slow}\" __line__ \"\" }}}}`"),
            ),
        ] {
            let query = match crate::parse(&format!("{{a=\"b\"}} {stages}")) {
                Ok(Expr::Log(query)) => query,
                other => panic!("{stages}: {other:?}"),
            };
            let checks = Cell::new(0);
            let pulse = Pulse::new(|| {
                checks.set(checks.get() + 1);
                if checks.get() < CHECKS { Ok(()) } else { Err(RunError::Cancelled) }
            });
            let mut item = Item::new(0, Cow::Borrowed(line), &[], "info", &NoFields, &pulse);
            query.stages.iter().for_each(|stage| _ = item.apply(stage));
            assert!(pulse.is_over(), "{stages}: {} checks", checks.get());
            assert_eq!(checks.get(), CHECKS, "{stages}");
        }
    }
}
