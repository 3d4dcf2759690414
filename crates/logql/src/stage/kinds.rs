//! The stages behind a selector, and how they are written. [`super`] runs them.

use std::fmt;

use query::Pulse;

use super::filter::LabelTest;
use super::line::LineFilter;
use super::path::Path;
use super::pattern::Pattern;
use super::template::Template;
use crate::lex::{join, quote};
use crate::matcher::{Matcher, Regex};

/// A step behind the selector.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// `|= "…"` and its like.
    Line(LineFilter),
    /// `json`, with the labels to extract; all if there are none.
    Json(Vec<(String, Path)>),
    /// `logfmt`.
    Logfmt {
        /// Malformed lines are errors.
        strict: bool,
        /// Keys without value make empty labels.
        keep_empty: bool,
        /// The labels to extract, each from a key; all if there are none.
        labels: Vec<(String, String)>,
    },
    /// `regexp`.
    Regexp(Regex),
    /// `pattern`.
    Pattern(Pattern),
    /// `unpack`.
    Unpack,
    /// A test of labels.
    Label(LabelTest),
    /// `line_format`.
    LineFormat(Template),
    /// `label_format`: labels and the sources of their values.
    LabelFormat(Vec<(String, LabelSource)>),
    /// `decolorize`.
    Decolorize,
    /// `drop`.
    Drop(Vec<Named>),
    /// `keep`.
    Keep(Vec<Named>),
}

/// The source of a value in `label_format`.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelSource {
    /// Another label, which is removed.
    Rename(String),
    /// A template.
    Template(Template),
}

/// An argument of `drop` and `keep`: a label, or a label with certain values.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// A label.
    Name(String),
    /// A label, if its value passes.
    Matcher(Matcher),
}

impl Named {
    /// Whether it refers to this label.
    pub fn names(&self, name: &str, value: &str, pulse: &Pulse<'_>) -> bool {
        match self {
            Named::Name(named) => named == name,
            Named::Matcher(matcher) => matcher.name == name && matcher.matches(value, pulse),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Name(name) => f.write_str(name),
            Named::Matcher(matcher) => write!(f, "{matcher}"),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Line(filter) => write!(f, "{filter}"),
            Stage::Json(labels) if labels.is_empty() => f.write_str("| json"),
            Stage::Json(labels) => {
                let one = |(name, path): &(String, Path)| format!("{name}={}", quote(path.text()));
                write!(f, "| json {}", join(labels.iter().map(one)))
            }
            Stage::Logfmt { strict, keep_empty, labels } => {
                f.write_str("| logfmt")?;
                f.write_str(if *strict { " --strict" } else { "" })?;
                f.write_str(if *keep_empty { " --keep-empty" } else { "" })?;
                let one = |(name, key): &(String, String)| format!("{name}={}", quote(key));
                f.write_str(if labels.is_empty() { "" } else { " " })?;
                f.write_str(&join(labels.iter().map(one)))
            }
            Stage::Regexp(regex) => write!(f, "| regexp {}", quote(regex.text())),
            Stage::Pattern(pattern) => write!(f, "| pattern {}", quote(pattern.text())),
            Stage::Unpack => f.write_str("| unpack"),
            Stage::Label(test) => write!(f, "| {test}"),
            Stage::LineFormat(template) => write!(f, "| line_format {}", quote(template.text())),
            Stage::LabelFormat(labels) => {
                let one = |(name, source): &(String, LabelSource)| match source {
                    LabelSource::Rename(from) => format!("{name}={from}"),
                    LabelSource::Template(template) => format!("{name}={}", quote(template.text())),
                };
                write!(f, "| label_format {}", join(labels.iter().map(one)))
            }
            Stage::Decolorize => f.write_str("| decolorize"),
            Stage::Drop(named) => write!(f, "| drop {}", join(named)),
            Stage::Keep(named) => write!(f, "| keep {}", join(named)),
        }
    }
}
