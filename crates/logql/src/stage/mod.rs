//! The stages of a query applied to a line: tests, parsers, formats.
//!
//! A line ([`Item`]) has three kinds of labels. Those of its stream, with `detected_level`, and
//! those that stages made are in the output and distinguish series. The fields that Loginson parsed
//! from the line at ingest can be used by name, but do not distinguish series, so that process ids
//! do not make a series for each process.

pub(crate) mod filter;
pub(crate) mod functions;
pub(crate) mod ip;
pub(crate) mod json;
pub(crate) mod kinds;
pub(crate) mod line;
pub(crate) mod logfmt;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod template;

use std::borrow::Cow;

use query::Pulse;
use record::parse::{JsonKind, json_items};

use json::label_name;
use kinds::{LabelSource, Named, Stage};

/// Labels as they are in the output: names in order, no value empty.
pub type Labels = Vec<(String, String)>;

/// The label with the level of a line, with Loki's names.
pub const DETECTED_LEVEL: &str = "detected_level";
/// The label with the error of the stage that failed on a line.
pub const ERROR: &str = "__error__";
const ERROR_DETAILS: &str = "__error_details__";
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
    made: Labels,
    made_bytes: usize,
    gone: Vec<String>,
    error: Option<(&'static str, String)>,
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
            made: Labels::new(),
            made_bytes: 0,
            gone: Vec::new(),
            error: None,
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

    /// Records that a stage failed on it; the first error stays.
    pub fn set_error(&mut self, error: &'static str, details: String) {
        self.error.get_or_insert((error, details));
    }

    /// Calls `with` with the value of a label; it is empty if the label is missing.
    pub fn with_label<T>(&self, name: &str, with: impl FnOnce(&str) -> T) -> T {
        if name == ERROR || name == ERROR_DETAILS {
            let error = self.error.as_ref();
            return with(error.map_or("", |(e, details)| if name == ERROR { e } else { details }));
        }
        if let Some((_, value)) = self.made.iter().find(|(made, _)| made == name) {
            return with(value);
        }
        if self.gone.iter().any(|gone| gone == name) {
            return with("");
        }
        if let Some((_, value)) = self.stream.iter().find(|(label, _)| label == name) {
            return with(value);
        }
        if name == DETECTED_LEVEL {
            return with(self.level);
        }
        if self.hides_fields || name.starts_with('_') {
            return with("");
        }
        with(&self.fields.field(name))
    }

    /// Sets a label; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) {
        // All names are compared with this one.
        if !self.may_continue(self.made.len() + self.gone.len() + value.len()) {
            return;
        }
        if let Some(place) = self.made.iter().position(|(made, _)| made == name) {
            let (name, value) = self.made.remove(place);
            self.made_bytes -= name.len() + value.len();
        }
        if value.is_empty() {
            if self.gone.len() < 2 * LABELS_MAX && !self.gone.iter().any(|gone| gone == name) {
                self.gone.push(name.to_owned());
            }
        } else if self.made_bytes + name.len() + value.len() > LABELS_BYTES_MAX {
            let details = format!("the labels of the line have more than {LABELS_BYTES_MAX} bytes");
            self.set_error("LabelsLimitErr", details);
        } else if self.made.len() < LABELS_MAX {
            self.made_bytes += name.len() + value.len();
            self.made.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Sets a label that a parser found. If the stream has a label of that name, that one keeps its
    /// value, and the new one gets another name.
    fn set_parsed(&mut self, name: &str, value: &str) {
        let taken = self.stream.iter().any(|(label, _)| label == name)
            && !self.gone.iter().any(|gone| gone == name);
        match taken {
            true => self.set(&format!("{name}_extracted"), value),
            false => self.set(name, value),
        }
    }

    /// Calls `each` with the remaining labels of the stream.
    pub fn stream_labels(&self, mut each: impl FnMut(&str, &str)) {
        let left = |name: &str| {
            !self.gone.iter().any(|gone| gone == name)
                && !self.made.iter().any(|(made, _)| made == name)
        };
        self.stream.iter().filter(|(name, _)| left(name)).for_each(|(n, v)| each(n, v));
    }

    /// The level, unless a stage removed or replaced it.
    pub fn level(&self) -> Option<&str> {
        let hidden = self.gone.iter().any(|gone| gone == DETECTED_LEVEL)
            || self.made.iter().any(|(made, _)| made == DETECTED_LEVEL);
        (!hidden && !self.level.is_empty()).then_some(self.level)
    }

    /// The labels made by stages, including errors, in the order of names.
    pub fn made_labels(&self) -> Labels {
        let mut labels = self.made.clone();
        if let Some((error, details)) = &self.error {
            labels.push((ERROR.to_owned(), (*error).to_owned()));
            labels.push((ERROR_DETAILS.to_owned(), details.clone()));
        }
        labels.sort_unstable();
        labels
    }

    /// All labels of the output.
    pub fn labels(&self) -> Labels {
        let mut labels = self.made_labels();
        self.stream_labels(|name, value| labels.push((name.to_owned(), value.to_owned())));
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
                                    self.set(from, "");
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
                        self.set(&label, "");
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
                        || name == DETECTED_LEVEL;
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
                Named::Name(name) if name == ERROR => self.error = None,
                Named::Name(name) if name == ERROR_DETAILS => {
                    if let Some((_, details)) = &mut self.error {
                        details.clear();
                    }
                }
                Named::Name(name) => self.set(name, ""),
                Named::Matcher(matcher) => {
                    let name = &matcher.name;
                    let pulse = self.pulse;
                    if self.with_label(name, |value| {
                        !value.is_empty() && matcher.matches(value, pulse)
                    }) {
                        match name == ERROR {
                            true => self.error = None,
                            false => self.set(name, ""),
                        }
                    }
                }
            }
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
            let found = path.find(line, self.pulse);
            if !found.is_empty() {
                self.set_parsed(name, &found);
            }
        }
    }

    fn unpack(&mut self) {
        let line = self.take_line();
        let mut entry = None;
        let whole = json::members(&line, |key, kind, value| match kind {
            JsonKind::Text if key == "_entry" => entry = Some(value.to_owned()),
            JsonKind::Text => self.set_parsed(&label_name(key), value),
            _ => {}
        });
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
        let found = logfmt::pairs(&line, strict, |key, value| {
            if labels.is_empty() {
                let name = label_name(key);
                if !name.is_empty() && (!value.is_empty() || keep_empty) {
                    self.set_parsed(&name, &value);
                }
            }
            self.may_continue(labels.len());
            for (name, _) in labels.iter().filter(|(_, wanted)| wanted == key) {
                self.set_parsed(name, &value);
            }
        });
        if let Err(error) = found {
            self.set_error("LogfmtParserErr", error.to_owned());
        }
        self.line = line;
    }
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
