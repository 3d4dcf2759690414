//! Templates of labels and annotations: those of [`text::template`] with the values of an alert and
//! the functions of Prometheus and vmalert ([`functions`]).
//!
//! Whatever is not supported (`if`, `range`, `query`, …) is an error when the rule file is read;
//! expanding a template cannot fail. Labels come from log lines, so they are data: what a template
//! makes of them is never read as a template again.

pub mod functions;

use std::borrow::Cow;
use std::time::Duration;

use text::template::number::shortest;
use text::template::{Function, Language, Term, Value};

use crate::labels::{Labels, cut};
use functions::{FUNCTIONS, check_printf};

/// Bytes of a template.
const TEMPLATE_BYTES_MAX: usize = 16 << 10;
/// Bytes of the text that a function makes, before the whole is cut.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// A template that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(text::template::Template<Variable>);

#[derive(Clone, PartialEq)]
enum Variable {
    /// The label of a name; empty if there is none.
    Label(String),
    /// All labels; an argument of `index` alone.
    Labels,
    Value,
    Expr,
    ActiveAt,
    For,
    ExternalUrl,
}

static LANGUAGE: Language<Variable> = language(variable, check, TEMPLATE_BYTES_MAX);

/// Checks the arguments of a function, and how many it gets with the one of the pipe.
type Check<V> = fn(Option<&Function>, &[Term<V>], usize) -> Result<(), String>;

/// The language of templates of alerts: the functions of Prometheus and vmalert, without
/// conditions. `variable` says what may be named, and `check` which arguments a function takes.
pub(crate) const fn language<V>(
    variable: fn(&str) -> Result<Option<V>, String>,
    check: Check<V>,
    template_bytes_max: usize,
) -> Language<V> {
    Language {
        functions: &FUNCTIONS,
        variable,
        check,
        bound,
        show_number: shortest,
        has_conditions: false,
        template_bytes_max,
    }
}

/// Cuts what a function made.
fn bound(value: Value<'_>) -> Result<Value<'_>, String> {
    Ok(match value {
        Value::Text(text) if text.len() > VALUE_BYTES_MAX => {
            cut(text.into_owned(), VALUE_BYTES_MAX).into()
        }
        value => value,
    })
}

/// What templates are expanded with.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// The labels of the series.
    pub labels: &'a Labels,
    /// The value of the series.
    pub value: f64,
    /// The expression of the rule.
    pub expr: &'a str,
    /// Since when the alert is active, in nanoseconds since 1970.
    pub active_at_ns: i64,
    /// How long the alert has to be active before it fires.
    pub hold: Duration,
    /// The address of the page, for links.
    pub external_url: &'a str,
}

impl Template {
    /// Reads a template. The error names the part that is not supported.
    pub fn parse(text: &str) -> Result<Template, String> {
        text::template::Template::parse(text, &LANGUAGE).map(Template)
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The text with the results of its actions, at most `bytes_max` bytes of it.
    pub fn expand(&self, data: &Data<'_>, bytes_max: usize) -> String {
        let value = |variable: &Variable| match variable {
            Variable::Label(name) => {
                Value::Text(Cow::Borrowed(data.labels.get(name).map_or("", String::as_str)))
            }
            Variable::Labels => Value::Map(data.labels),
            Variable::Value => Value::Float(data.value),
            Variable::Expr => data.expr.into(),
            Variable::ActiveAt => text::time::format_time(data.active_at_ns).into(),
            Variable::For => format!("{:?}", data.hold).into(),
            Variable::ExternalUrl => data.external_url.into(),
        };
        // No function fails.
        let text = self.0.render(&value, bytes_max).unwrap_or_else(|error| error);
        cut(text, bytes_max)
    }
}

fn variable(written: &str) -> Result<Option<Variable>, String> {
    Ok(Some(match written {
        "$labels" | ".Labels" => Variable::Labels,
        "$value" | ".Value" => Variable::Value,
        "$expr" | ".Expr" => Variable::Expr,
        "$activeAt" | ".ActiveAt" => Variable::ActiveAt,
        "$for" | ".For" => Variable::For,
        "$externalURL" | ".ExternalURL" => Variable::ExternalUrl,
        word if !word.starts_with(['$', '.']) => return Ok(None),
        path => {
            let name = path.strip_prefix("$labels.").or_else(|| path.strip_prefix(".Labels."));
            let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
                format!(
                    "'{path}' is not supported; there are $labels.NAME, $value, $expr, $activeAt, \
                     $for and $externalURL"
                )
            })?;
            if name.contains('.') {
                return Err(format!("write index $labels \"{name}\" for a name with dots"));
            }
            Variable::Label(name.to_owned())
        }
    }))
}

fn check(
    function: Option<&Function>,
    arguments: &[Term<Variable>],
    given: usize,
) -> Result<(), String> {
    check_maps(function, arguments, given, |variable| *variable == Variable::Labels)
}

/// Checks that what `is_map` names is an argument of `index` alone, and the format of `printf`.
pub(crate) fn check_maps<V>(
    function: Option<&Function>,
    arguments: &[Term<V>],
    given: usize,
    is_map: fn(&V) -> bool,
) -> Result<(), String> {
    let name = function.map(|function| function.name);
    let is_map = |term: &Term<V>| term.variable().is_some_and(is_map);
    let wanted = usize::from(name == Some("index"));
    let maps = arguments.iter().filter(|term| is_map(term)).count();
    if maps != wanted || arguments.first().is_some_and(is_map) != (wanted == 1) {
        return Err("all labels are taken by index alone: index $labels \"name\"".to_owned());
    }
    match name {
        Some("printf") => check_printf(arguments, given),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
