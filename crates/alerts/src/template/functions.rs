//! The functions of templates, with the results that Prometheus and vmalert give.
//!
//! A function that formats numbers leaves a text that is no number as it is.

use std::iter::{Peekable, repeat_n};
use std::str::Chars;

use super::number::{exponential, fixed, general, shortest};

/// Digits that the functions `humanize…` show.
const DIGITS: usize = 4;
/// The largest width and precision of `printf`.
const WIDTH_MAX: usize = 100;

/// A value in a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Number(f64),
}

impl Value {
    /// The value as a template shows it.
    pub fn to_text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(number) => shortest(*number),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Value::Text(text) => text.trim().parse().ok(),
            Value::Number(number) => Some(*number),
        }
    }
}

/// A function of templates.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Function {
    Humanize,
    Humanize1024,
    HumanizeDuration,
    HumanizePercentage,
    HumanizeTimestamp,
    ToUpper,
    ToLower,
    Title,
    StripPort,
    QueryEscape,
    /// The label of a name that holds other characters than letters: `index $labels "a.b"`.
    Index,
    /// The format, cut into its directives.
    Printf(Vec<Directive>),
}

/// The names of all functions, for errors.
pub const NAMES: &str = "humanize, humanize1024, humanizeDuration, humanizePercentage, \
                         humanizeTimestamp, toUpper, toLower, title, stripPort, queryEscape, \
                         index and printf";

impl Function {
    /// The function of a name; `printf` is made by [`directives`].
    pub fn of(name: &str) -> Option<Function> {
        Some(match name {
            "humanize" => Function::Humanize,
            "humanize1024" => Function::Humanize1024,
            "humanizeDuration" => Function::HumanizeDuration,
            "humanizePercentage" => Function::HumanizePercentage,
            "humanizeTimestamp" => Function::HumanizeTimestamp,
            "toUpper" => Function::ToUpper,
            "toLower" => Function::ToLower,
            "title" => Function::Title,
            "stripPort" => Function::StripPort,
            "queryEscape" => Function::QueryEscape,
            "index" => Function::Index,
            "printf" => Function::Printf(Vec::new()),
            _ => return None,
        })
    }

    /// How many arguments the function takes, that of the pipe among them.
    pub fn arguments(&self) -> usize {
        match self {
            Function::Index => 2,
            Function::Printf(directives) => {
                directives.iter().filter(|part| !matches!(part, Directive::Text(_))).count()
            }
            _ => 1,
        }
    }

    /// The result for as many arguments as [`arguments`](Self::arguments) says.
    pub fn call(&self, arguments: &[Value]) -> Value {
        if let Function::Printf(directives) = self {
            return Value::Text(print(directives, arguments));
        }
        let Some(argument) = arguments.last() else { return Value::Text(String::new()) };
        let of_number = |format: fn(f64) -> String| match argument.number() {
            Some(number) => format(number),
            None => argument.to_text(),
        };
        Value::Text(match self {
            Function::Humanize => of_number(humanize),
            Function::Humanize1024 => of_number(humanize_1024),
            Function::HumanizeDuration => of_number(humanize_duration),
            Function::HumanizePercentage => {
                of_number(|ratio| format!("{}%", general(ratio * 100.0, DIGITS)))
            }
            Function::HumanizeTimestamp => {
                of_number(|seconds| text::time::format_time((seconds * 1e9) as i64))
            }
            Function::ToUpper => argument.to_text().to_uppercase(),
            Function::ToLower => argument.to_text().to_lowercase(),
            Function::Title => title(&argument.to_text()),
            Function::StripPort => strip_port(&argument.to_text()).to_owned(),
            Function::QueryEscape => {
                form_urlencoded::byte_serialize(argument.to_text().as_bytes()).collect()
            }
            Function::Index | Function::Printf(_) => argument.to_text(),
        })
    }
}

fn humanize(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return general(value, DIGITS);
    }
    let large = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
    let small = ["", "m", "u", "n", "p", "f", "a", "z", "y"];
    let (scaled, prefix) = match value.abs() >= 1.0 {
        true => scale(value, &large, |value| value / 1000.0, |value| value < 1000.0),
        false => scale(value, &small, |value| value * 1000.0, |value| value >= 1.0),
    };
    format!("{}{prefix}", general(scaled, DIGITS))
}

fn humanize_1024(value: f64) -> String {
    if value.abs() <= 1.0 || !value.is_finite() {
        return general(value, DIGITS);
    }
    let prefixes = ["", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];
    let (scaled, prefix) = scale(value, &prefixes, |value| value / 1024.0, |value| value < 1024.0);
    format!("{}{prefix}", general(scaled, DIGITS))
}

/// Takes the next prefix until the number has the right size.
fn scale<'a>(
    mut value: f64,
    prefixes: &[&'a str],
    step: fn(f64) -> f64,
    fits: fn(f64) -> bool,
) -> (f64, &'a str) {
    let mut used = "";
    for (index, prefix) in prefixes.iter().enumerate() {
        if index > 0 {
            if fits(value.abs()) {
                break;
            }
            value = step(value);
        }
        used = prefix;
    }
    (value, used)
}

fn humanize_duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return general(seconds, DIGITS);
    }
    if seconds.abs() < 1.0 {
        return format!("{}s", humanize(seconds));
    }
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    // A float beyond the range becomes the largest integer.
    let whole = seconds as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    if days > 0 {
        format!("{sign}{days}d {hours}h {minutes}m {}s", whole % 60)
    } else if hours > 0 {
        format!("{sign}{hours}h {minutes}m {}s", whole % 60)
    } else if minutes > 0 {
        format!("{sign}{minutes}m {}s", whole % 60)
    } else {
        format!("{sign}{}s", general(seconds, DIGITS))
    }
}

fn title(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut starts_word = true;
    for character in text.chars() {
        if starts_word {
            result.extend(character.to_uppercase());
        } else {
            result.push(character);
        }
        starts_word = !character.is_alphanumeric() && character != '_' && character != '\'';
    }
    result
}

/// `host` of `host:port` and `[host]:port`.
fn strip_port(text: &str) -> &str {
    if let Some((host, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => text,
    }
}

/// A part of the format of `printf`.
#[derive(Debug, Clone, PartialEq)]
pub enum Directive {
    Text(String),
    Verb { verb: char, left: bool, zeros: bool, width: usize, precision: Option<usize> },
}

/// Cuts the format of `printf` into its directives.
pub fn directives(format: &str) -> Result<Vec<Directive>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let (mut left, mut zeros) = (false, false);
        while let Some(flag) = characters.next_if(|flag| "-0".contains(*flag)) {
            left |= flag == '-';
            zeros |= flag == '0';
        }
        let width = digits(&mut characters)?;
        let precision = match characters.next_if_eq(&'.') {
            Some(_) => Some(digits(&mut characters)?),
            None => None,
        };
        let verb = characters.next().unwrap_or(' ');
        if !"vsqdfFgeG".contains(verb) {
            return Err(format!(
                "the format '{format}' of printf is not supported at '%{verb}'; write one of %v, \
                 %s, %q, %d, %f, %g and %e"
            ));
        }
        if !text.is_empty() {
            parts.push(Directive::Text(std::mem::take(&mut text)));
        }
        parts.push(Directive::Verb { verb, left, zeros, width, precision });
    }
    if !text.is_empty() {
        parts.push(Directive::Text(text));
    }
    Ok(parts)
}

/// The number that comes next; 0 if there is none.
fn digits(characters: &mut Peekable<Chars<'_>>) -> Result<usize, String> {
    let mut number = 0;
    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
        number = number * 10 + digit as usize - '0' as usize;
        if number > WIDTH_MAX {
            return Err(format!("a width or precision of printf is above {WIDTH_MAX}"));
        }
    }
    Ok(number)
}

fn print(directives: &[Directive], arguments: &[Value]) -> String {
    let mut text = String::new();
    let mut arguments = arguments.iter();
    for directive in directives {
        match directive {
            Directive::Text(part) => text.push_str(part),
            Directive::Verb { verb, left, zeros, width, precision } => {
                let Some(argument) = arguments.next() else { break };
                let shown = verb_text(*verb, *precision, argument);
                let missing = width.saturating_sub(shown.chars().count());
                match (left, *zeros && argument.number().is_some()) {
                    (true, _) => {
                        text.push_str(&shown);
                        text.extend(repeat_n(' ', missing));
                    }
                    (false, true) => {
                        let (sign, digits) = match shown.strip_prefix('-') {
                            Some(digits) => ("-", digits),
                            None => ("", shown.as_str()),
                        };
                        text.push_str(sign);
                        text.extend(repeat_n('0', missing));
                        text.push_str(digits);
                    }
                    (false, false) => {
                        text.extend(repeat_n(' ', missing));
                        text.push_str(&shown);
                    }
                }
            }
        }
    }
    text
}

/// One argument; `%d` rounds, where Go refuses a number with a fraction.
fn verb_text(verb: char, precision: Option<usize>, argument: &Value) -> String {
    match (verb, argument.number()) {
        ('d', Some(number)) => fixed(number, 0),
        ('f' | 'F', Some(number)) => fixed(number, precision.unwrap_or(6)),
        ('e', Some(number)) => exponential(number, precision.unwrap_or(6)),
        ('g' | 'G', Some(number)) => match precision {
            Some(precision) => general(number, precision),
            None => shortest(number),
        },
        ('q', _) => format!("{:?}", argument.to_text()),
        _ => match precision {
            Some(precision) => argument.to_text().chars().take(precision).collect(),
            None => argument.to_text(),
        },
    }
}
