//! Templates of labels and annotations: the part of Go's templates that rules use.
//!
//! A template is text with actions in `{{ … }}`. An action is a pipeline of values and functions:
//! `{{ $labels.host }}`, `{{ $value | humanize }}`, `{{ printf "%.2f" $value }}`. Whatever is not
//! supported (`if`, `range`, `query`, …) is an error when the rule file is read; expanding a
//! template cannot fail. Labels come from log lines, so they are data: what a template makes of
//! them is never read as a template again.
//!
//! [`parse`] has the grammar, [`functions`] the functions, [`number`] prints numbers as Go does.

mod functions;
mod number;
mod parse;

use std::time::Duration;

use crate::labels::{Labels, cut};
use functions::{Function, Value};

/// Bytes of the text that an action makes, before the whole is cut.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// A template that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Action(Pipeline),
}

/// Commands; each gets the result of the one before as its last argument.
#[derive(Debug, Clone, PartialEq)]
struct Pipeline {
    first: Operand,
    then: Vec<Call>,
}

/// A function with its arguments.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    function: Function,
    arguments: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Text(String),
    Number(f64),
    /// The label of a name; empty if there is none.
    Label(String),
    /// All labels; an argument of `index` alone.
    Labels,
    Value,
    Expr,
    ActiveAt,
    For,
    ExternalUrl,
    Call(Box<Call>),
    Pipeline(Box<Pipeline>),
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
        Ok(Template { text: text.to_owned(), parts: parse::parts(text)? })
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with the results of its actions, at most `bytes_max` bytes of it.
    pub fn expand(&self, data: &Data<'_>, bytes_max: usize) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Action(pipeline) => text.push_str(&pipeline.value(data).to_text()),
            }
            if text.len() > bytes_max {
                break;
            }
        }
        cut(text, bytes_max)
    }
}

impl Pipeline {
    fn value(&self, data: &Data<'_>) -> Value {
        let first = self.first.value(data);
        self.then.iter().fold(first, |value, call| call.value(data, Some(value)))
    }
}

impl Call {
    fn value(&self, data: &Data<'_>, piped: Option<Value>) -> Value {
        if let Function::Index = self.function {
            let name = match self.arguments.get(1) {
                Some(name) => name.value(data),
                None => piped.unwrap_or(Value::Text(String::new())),
            };
            return Value::Text(data.labels.get(&name.to_text()).cloned().unwrap_or_default());
        }
        let arguments = self.arguments.iter().map(|operand| operand.value(data));
        match self.function.call(&arguments.chain(piped).collect::<Vec<Value>>()) {
            Value::Text(text) => Value::Text(cut(text, VALUE_BYTES_MAX)),
            number => number,
        }
    }
}

impl Operand {
    fn value(&self, data: &Data<'_>) -> Value {
        match self {
            Operand::Text(text) => Value::Text(text.clone()),
            Operand::Number(number) => Value::Number(*number),
            Operand::Label(name) => Value::Text(data.labels.get(name).cloned().unwrap_or_default()),
            // Only `index` takes all labels, and does not ask for them here.
            Operand::Labels => Value::Text(String::new()),
            Operand::Value => Value::Number(data.value),
            Operand::Expr => Value::Text(data.expr.to_owned()),
            Operand::ActiveAt => Value::Text(text::time::format_time(data.active_at_ns)),
            Operand::For => Value::Text(format!("{:?}", data.hold)),
            Operand::ExternalUrl => Value::Text(data.external_url.to_owned()),
            Operand::Call(call) => call.value(data, None),
            Operand::Pipeline(pipeline) => pipeline.value(data),
        }
    }
}

#[cfg(test)]
mod tests;
