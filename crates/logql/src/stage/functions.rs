//! The functions of templates, with the names and arguments of Loki and Sprig.

use std::borrow::Cow;

use query::{REGEX_NESTING_MAX, RegexBudget};
use text::url;

use super::template::OUTPUT_BYTES_MAX;
use crate::units::{format_number, parse_bytes, parse_duration_ns};

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// True or false.
    Bool(bool),
}

impl Value {
    /// The value as it is written into the output.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Int(number) => Cow::Owned(number.to_string()),
            Value::Float(number) => Cow::Owned(format_number(*number)),
            Value::Bool(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
        }
    }

    /// Whether `if` treats the value as true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Bool(truth) => *truth,
        }
    }

    fn float(&self) -> f64 {
        match self {
            Value::Text(text) => text.trim().parse().unwrap_or(0.0),
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            Value::Bool(truth) => f64::from(u8::from(*truth)),
        }
    }

    fn int(&self) -> i64 {
        match self {
            Value::Int(number) => *number,
            Value::Text(text) => text.trim().parse().unwrap_or_else(|_| self.float() as i64),
            _ => self.float() as i64,
        }
    }
}

/// `true` and `false`.
pub fn constant(name: &str) -> Option<Value> {
    match name {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    name: &'static str,
    least: usize,
    most: usize,
}

/// Names, with the least and the greatest number of arguments.
const FUNCTIONS: [(&str, usize, usize); 64] = [
    ("ToLower", 1, 1),
    ("ToUpper", 1, 1),
    ("lower", 1, 1),
    ("upper", 1, 1),
    ("title", 1, 1),
    ("Replace", 4, 4),
    ("replace", 3, 3),
    ("Trim", 2, 2),
    ("TrimLeft", 2, 2),
    ("TrimRight", 2, 2),
    ("TrimPrefix", 2, 2),
    ("TrimSuffix", 2, 2),
    ("TrimSpace", 1, 1),
    ("trim", 1, 1),
    ("trimAll", 2, 2),
    ("trimPrefix", 2, 2),
    ("trimSuffix", 2, 2),
    ("trunc", 2, 2),
    ("substr", 3, 3),
    ("contains", 2, 2),
    ("hasPrefix", 2, 2),
    ("hasSuffix", 2, 2),
    ("repeat", 2, 2),
    ("nospace", 1, 1),
    ("alignLeft", 2, 2),
    ("alignRight", 2, 2),
    ("indent", 2, 2),
    ("nindent", 2, 2),
    ("count", 2, 2),
    ("regexReplaceAll", 3, 3),
    ("regexReplaceAllLiteral", 3, 3),
    ("urlencode", 1, 1),
    ("urldecode", 1, 1),
    ("printf", 1, 32),
    ("print", 1, 32),
    ("default", 2, 2),
    ("len", 1, 1),
    ("eq", 2, 32),
    ("ne", 2, 2),
    ("lt", 2, 2),
    ("le", 2, 2),
    ("gt", 2, 2),
    ("ge", 2, 2),
    ("and", 1, 32),
    ("or", 1, 32),
    ("not", 1, 1),
    ("int", 1, 1),
    ("float64", 1, 1),
    ("add", 2, 32),
    ("sub", 2, 2),
    ("mul", 2, 32),
    ("div", 2, 2),
    ("mod", 2, 2),
    ("addf", 2, 32),
    ("subf", 2, 32),
    ("mulf", 2, 32),
    ("divf", 2, 32),
    ("max", 1, 32),
    ("min", 1, 32),
    ("ceil", 1, 1),
    ("floor", 1, 1),
    ("round", 2, 2),
    ("bytes", 1, 1),
    ("duration", 1, 1),
];

impl Function {
    /// The function with that name.
    pub fn named(name: &str) -> Option<Function> {
        let name = if name == "duration_seconds" { "duration" } else { name };
        let found = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        found.map(|&(name, least, most)| Function { name, least, most })
    }

    /// Checks that it can be called with `count` arguments.
    pub fn check(self, count: usize) -> Result<(), String> {
        let Function { name, least, most } = self;
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let plural = if least == 1 { "" } else { "s" };
        let more = if most > least { " or more" } else { "" };
        Err(format!("{name} takes {least}{more} argument{plural}"))
    }

    /// Its value; the number of arguments has been checked.
    pub fn call(self, arguments: &[Value]) -> Result<Value, String> {
        let texts: Vec<Cow<'_, str>> = arguments.iter().map(Value::shown).collect();
        let text = |place: usize| &*texts[place];
        let int = |place: usize| arguments[place].int();
        let float = |place: usize| arguments[place].float();
        let ints = |op: fn(i64, i64) -> i64| {
            Value::Int(arguments.iter().map(Value::int).reduce(op).unwrap_or_default())
        };
        let floats = |op: fn(f64, f64) -> f64| {
            Value::Float(arguments.iter().map(Value::float).reduce(op).unwrap_or_default())
        };
        let made = |text: String| Ok(Value::Text(text));
        let of = |text: &str| Ok(Value::Text(text.to_owned()));
        match self.name {
            "ToLower" | "lower" => made(text(0).to_lowercase()),
            "ToUpper" | "upper" => made(text(0).to_uppercase()),
            "title" => made(title(text(0))),
            "Replace" => {
                let times = usize::try_from(int(3)).unwrap_or(usize::MAX);
                self.replaced(text(0), text(1), text(2), times)
            }
            "replace" => self.replaced(text(2), text(0), text(1), usize::MAX),
            "Trim" => of(text(0).trim_matches(|c| text(1).contains(c))),
            "TrimLeft" => of(text(0).trim_start_matches(|c| text(1).contains(c))),
            "TrimRight" => of(text(0).trim_end_matches(|c| text(1).contains(c))),
            "TrimPrefix" => of(text(0).strip_prefix(text(1)).unwrap_or(text(0))),
            "TrimSuffix" => of(text(0).strip_suffix(text(1)).unwrap_or(text(0))),
            "TrimSpace" | "trim" => of(text(0).trim()),
            "trimAll" => of(text(1).trim_matches(|c| text(0).contains(c))),
            "trimPrefix" => of(text(1).strip_prefix(text(0)).unwrap_or(text(1))),
            "trimSuffix" => of(text(1).strip_suffix(text(0)).unwrap_or(text(1))),
            "trunc" => {
                let (count, all) = (int(0), text(1).chars().count());
                let size = count.unsigned_abs().min(all as u64) as usize;
                let skipped = if count < 0 { all - size } else { 0 };
                made(text(1).chars().skip(skipped).take(size).collect())
            }
            "substr" => {
                let from = usize::try_from(int(0)).unwrap_or(0);
                let to = usize::try_from(int(1)).unwrap_or(usize::MAX);
                made(text(2).chars().take(to).skip(from).collect())
            }
            "contains" => Ok(Value::Bool(text(1).contains(text(0)))),
            "hasPrefix" => Ok(Value::Bool(text(1).starts_with(text(0)))),
            "hasSuffix" => Ok(Value::Bool(text(1).ends_with(text(0)))),
            "repeat" => {
                let times = usize::try_from(int(0)).unwrap_or(0);
                self.fits(text(1).len().saturating_mul(times))?;
                made(text(1).repeat(times))
            }
            "nospace" => made(text(0).split_whitespace().collect()),
            "alignLeft" | "alignRight" => {
                let width = usize::try_from(int(0)).unwrap_or(0);
                self.fits(width)?;
                let all = text(1).chars().count();
                let pad = " ".repeat(width.saturating_sub(all));
                match self.name {
                    "alignLeft" => made(text(1).chars().take(width).collect::<String>() + &pad),
                    _ => {
                        let skipped = all.saturating_sub(width);
                        made(pad + &text(1).chars().skip(skipped).collect::<String>())
                    }
                }
            }
            "indent" | "nindent" => {
                let width = usize::try_from(int(0)).unwrap_or(0);
                let lines = text(1).matches('\n').count() + 1;
                self.fits(width.saturating_mul(lines).saturating_add(text(1).len()))?;
                let pad = " ".repeat(width);
                let start = if self.name == "nindent" { "\n" } else { "" };
                made(format!("{start}{pad}{}", text(1).replace('\n', &format!("\n{pad}"))))
            }
            "count" => Ok(Value::Int(self.regex(text(0))?.find_iter(text(1)).count() as i64)),
            "regexReplaceAll" => {
                let replaced = self.regex(text(0))?.replace_all(text(1), text(2)).into_owned();
                self.fits(replaced.len())?;
                made(replaced)
            }
            "regexReplaceAllLiteral" => {
                let literal = regex::NoExpand(text(2));
                let replaced = self.regex(text(0))?.replace_all(text(1), literal).into_owned();
                self.fits(replaced.len())?;
                made(replaced)
            }
            "urlencode" => {
                let mut encoded = Vec::new();
                url::encode(text(0).as_bytes(), b"-_.~", &mut encoded);
                made(String::from_utf8(encoded).expect("ASCII"))
            }
            "urldecode" => {
                let mut decoded = Vec::new();
                let is_valid = url::decode(text(0).as_bytes(), &mut decoded);
                let decoded = String::from_utf8(decoded).ok().filter(|_| is_valid);
                decoded.map(Value::Text).ok_or_else(|| self.wrong("not URL-encoded"))
            }
            "printf" => self.printf(arguments).map(Value::Text),
            "print" => made(texts.concat()),
            "default" => Ok(match arguments[1].is_true() {
                true => arguments[1].clone(),
                false => arguments[0].clone(),
            }),
            "len" => Ok(Value::Int(text(0).len() as i64)),
            "eq" => Ok(Value::Bool(arguments[1..].iter().any(|a| same(&arguments[0], a)))),
            "ne" => Ok(Value::Bool(!same(&arguments[0], &arguments[1]))),
            "lt" => Ok(Value::Bool(order(arguments).is_lt())),
            "le" => Ok(Value::Bool(order(arguments).is_le())),
            "gt" => Ok(Value::Bool(order(arguments).is_gt())),
            "ge" => Ok(Value::Bool(order(arguments).is_ge())),
            "and" => Ok(arguments.iter().find(|a| !a.is_true()).unwrap_or(last(arguments)).clone()),
            "or" => Ok(arguments.iter().find(|a| a.is_true()).unwrap_or(last(arguments)).clone()),
            "not" => Ok(Value::Bool(!arguments[0].is_true())),
            "int" => Ok(Value::Int(int(0))),
            "float64" => Ok(Value::Float(float(0))),
            "add" => Ok(ints(i64::wrapping_add)),
            "sub" => Ok(ints(i64::wrapping_sub)),
            "mul" => Ok(ints(i64::wrapping_mul)),
            "div" | "mod" if int(1) == 0 => Err(self.wrong("division by zero")),
            "div" => Ok(ints(i64::wrapping_div)),
            "mod" => Ok(ints(i64::wrapping_rem)),
            "addf" => Ok(floats(|a, b| a + b)),
            "subf" => Ok(floats(|a, b| a - b)),
            "mulf" => Ok(floats(|a, b| a * b)),
            "divf" => Ok(floats(|a, b| a / b)),
            "max" => Ok(ints(i64::max)),
            "min" => Ok(ints(i64::min)),
            "ceil" => Ok(Value::Float(float(0).ceil())),
            "floor" => Ok(Value::Float(float(0).floor())),
            "round" => {
                let scale = 10f64.powi(int(1).clamp(0, 15) as i32);
                Ok(Value::Float((float(0) * scale).round() / scale))
            }
            "bytes" => parse_bytes(text(0)).map(Value::Float).ok_or_else(|| self.wrong("no size")),
            "duration" => parse_duration_ns(text(0))
                .map(|ns| Value::Float(ns as f64 / 1e9))
                .ok_or_else(|| self.wrong("no duration")),
            name => unreachable!("{name} is listed"),
        }
    }

    fn wrong(self, what: &str) -> String {
        format!("{}: {what}", self.name)
    }

    fn fits(self, bytes: usize) -> Result<(), String> {
        match bytes <= OUTPUT_BYTES_MAX {
            true => Ok(()),
            false => Err(self.wrong(&format!("more than {OUTPUT_BYTES_MAX} bytes"))),
        }
    }

    fn replaced(self, text: &str, from: &str, to: &str, times: usize) -> Result<Value, String> {
        let found = (text.matches(from).count()).min(times);
        self.fits(text.len().saturating_add(found.saturating_mul(to.len())))?;
        Ok(Value::Text(text.replacen(from, to, found)))
    }

    fn regex(self, text: &str) -> Result<regex::Regex, String> {
        let built = RegexBudget::default().build(text, |_| {
            let mut builder = regex::RegexBuilder::new(text);
            builder.nest_limit(REGEX_NESTING_MAX).size_limit(1 << 20).build()
        });
        built.map_err(|_| self.wrong("the regular expression is wrong or too large"))
    }

    /// `%s %d %f %v %q %x %t %%`, with flags `-`, `0`, width and precision.
    fn printf(self, arguments: &[Value]) -> Result<String, String> {
        let format = arguments[0].shown();
        let mut left = arguments[1..].iter();
        let mut out = String::new();
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            if chars.next_if_eq(&'%').is_some() {
                out.push('%');
                continue;
            }
            let (mut minus, mut zero) = (false, false);
            while let Some(flag) = chars.next_if(|c| "-0+ ".contains(*c)) {
                minus |= flag == '-';
                zero |= flag == '0';
            }
            let mut digits = || {
                let mut number = None;
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    let digit = digit as usize - '0' as usize;
                    number = Some(usize::min(number.unwrap_or(0) * 10 + digit, OUTPUT_BYTES_MAX));
                }
                number
            };
            let width = digits().unwrap_or(0);
            let precision = match chars.next_if_eq(&'.') {
                Some(_) => {
                    let mut number = 0;
                    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                        number = usize::min(number * 10 + digit as usize - '0' as usize, 64);
                    }
                    Some(number)
                }
                None => None,
            };
            let verb = chars.next().ok_or_else(|| self.wrong("the format ends too early"))?;
            let value = left.next().ok_or_else(|| self.wrong("too few arguments"))?;
            let shown = match verb {
                's' | 'v' => match precision {
                    Some(count) => value.shown().chars().take(count).collect(),
                    None => value.shown().into_owned(),
                },
                'd' => value.int().to_string(),
                'f' => format!("{:.*}", precision.unwrap_or(6), value.float()),
                'q' => format!("{:?}", value.shown()),
                'x' => format!("{:x}", value.int()),
                't' => value.is_true().to_string(),
                other => return Err(self.wrong(&format!("not supported: %{other}"))),
            };
            self.fits(out.len() + width.max(shown.len()))?;
            let pad = width.saturating_sub(shown.chars().count());
            match (minus, zero && verb != 's') {
                (true, _) => out.push_str(&(shown + &" ".repeat(pad))),
                (_, true) => out.push_str(&("0".repeat(pad) + &shown)),
                _ => out.push_str(&(" ".repeat(pad) + &shown)),
            }
        }
        if left.next().is_some() {
            return Err(self.wrong("too many arguments"));
        }
        Ok(out)
    }
}

fn last(arguments: &[Value]) -> &Value {
    arguments.last().expect("one argument at least")
}

/// Labels are compared with numbers as numbers.
fn order(arguments: &[Value]) -> std::cmp::Ordering {
    match (&arguments[0], &arguments[1]) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (a, b) => a.float().total_cmp(&b.float()),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (a, b) => a.float() == b.float(),
    }
}

fn title(text: &str) -> String {
    let mut at_start = true;
    let up = |c: char| {
        let first = std::mem::replace(&mut at_start, c.is_whitespace());
        if first { c.to_uppercase().next().unwrap_or(c) } else { c }
    };
    text.chars().map(up).collect()
}
