//! The functions of templates, with the names and arguments of Loki and Sprig.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use query::{Pattern, Pulse, RegexBudget, RunError};
use text::template::number::shortest;
use text::template::printf::Format;
use text::template::{Function, Run, Value};
use text::url;

use super::go_time;
use super::template::OUTPUT_BYTES_MAX;
use crate::units::{parse_bytes, parse_value_duration_ns};

const SECOND_NS: i64 = 1_000_000_000;
/// Arguments of a function that takes any number of them.
const MANY: usize = 32;

type Made<'v> = Result<Value<'v>, String>;

const fn of(
    name: &'static str,
    arguments: usize,
    call: for<'v> fn(&[Value<'v>]) -> Made<'v>,
) -> Function {
    Function { name, least: arguments, most: arguments, call: Run::Linear(call) }
}

/// A function of a regular expression, which is slow on a long text.
const fn checked(
    name: &'static str,
    arguments: usize,
    call: for<'v> fn(&[Value<'v>], &dyn Fn(usize) -> bool) -> Made<'v>,
) -> Function {
    Function { name, least: arguments, most: arguments, call: Run::Checked(call) }
}

const fn many(
    name: &'static str,
    least: usize,
    call: for<'v> fn(&[Value<'v>]) -> Made<'v>,
) -> Function {
    Function { name, least, most: MANY, call: Run::Linear(call) }
}

/// All functions.
pub static FUNCTIONS: [Function; 79] = [
    of("ToLower", 1, |a| Ok(text(a, 0).to_lowercase().into())),
    of("ToUpper", 1, |a| Ok(text(a, 0).to_uppercase().into())),
    of("lower", 1, |a| Ok(text(a, 0).to_lowercase().into())),
    of("upper", 1, |a| Ok(text(a, 0).to_uppercase().into())),
    of("title", 1, |a| Ok(title(&text(a, 0)).into())),
    of("Replace", 4, |a| {
        let times = usize::try_from(int(a, 3)).unwrap_or(usize::MAX);
        replaced(&text(a, 0), &text(a, 1), &text(a, 2), times)
    }),
    of("replace", 3, |a| replaced(&text(a, 2), &text(a, 0), &text(a, 1), usize::MAX)),
    of("Trim", 2, |a| trimmed(&text(a, 0), &text(a, 1), true, true)),
    of("TrimLeft", 2, |a| trimmed(&text(a, 0), &text(a, 1), true, false)),
    of("TrimRight", 2, |a| trimmed(&text(a, 0), &text(a, 1), false, true)),
    of("TrimPrefix", 2, |a| without_prefix(&text(a, 0), &text(a, 1))),
    of("TrimSuffix", 2, |a| without_suffix(&text(a, 0), &text(a, 1))),
    of("TrimSpace", 1, |a| Ok(text(a, 0).trim().to_owned().into())),
    of("trim", 1, |a| Ok(text(a, 0).trim().to_owned().into())),
    of("trimAll", 2, |a| trimmed(&text(a, 1), &text(a, 0), true, true)),
    of("trimPrefix", 2, |a| without_prefix(&text(a, 1), &text(a, 0))),
    of("trimSuffix", 2, |a| without_suffix(&text(a, 1), &text(a, 0))),
    of("trunc", 2, |a| {
        let (count, text) = (int(a, 0), text(a, 1));
        let all = text.chars().count();
        let size = count.unsigned_abs().min(all as u64) as usize;
        let skipped = if count < 0 { all - size } else { 0 };
        Ok(text.chars().skip(skipped).take(size).collect::<String>().into())
    }),
    of("substr", 3, |a| {
        let from = usize::try_from(int(a, 0)).unwrap_or(0);
        let to = usize::try_from(int(a, 1)).unwrap_or(usize::MAX);
        Ok(text(a, 2).chars().take(to).skip(from).collect::<String>().into())
    }),
    of("contains", 2, |a| Ok(Value::Bool(text(a, 1).contains(&*text(a, 0))))),
    of("hasPrefix", 2, |a| Ok(Value::Bool(text(a, 1).starts_with(&*text(a, 0))))),
    of("hasSuffix", 2, |a| Ok(Value::Bool(text(a, 1).ends_with(&*text(a, 0))))),
    of("repeat", 2, |a| {
        let (times, text) = (width(a), text(a, 1));
        fits(text.len().saturating_mul(times))?;
        Ok(text.repeat(times).into())
    }),
    of("nospace", 1, |a| Ok(text(a, 0).split_whitespace().collect::<String>().into())),
    of("alignLeft", 2, |a| {
        let (width, text) = (width(a), text(a, 1));
        fits(width)?;
        let pad = " ".repeat(width.saturating_sub(text.chars().count()));
        Ok((text.chars().take(width).collect::<String>() + &pad).into())
    }),
    of("alignRight", 2, |a| {
        let (width, text) = (width(a), text(a, 1));
        fits(width)?;
        let all = text.chars().count();
        let pad = " ".repeat(width.saturating_sub(all));
        let skipped = all.saturating_sub(width);
        Ok((pad + &text.chars().skip(skipped).collect::<String>()).into())
    }),
    of("indent", 2, |a| indented(width(a), &text(a, 1), "")),
    of("nindent", 2, |a| indented(width(a), &text(a, 1), "\n")),
    checked("count", 2, |a, may_continue| {
        let pattern = regex(&text(a, 0), may_continue)?;
        let count = pattern.count(text(a, 1).as_bytes(), &pulse(may_continue));
        Ok(Value::Int(count as i64))
    }),
    checked("regexReplaceAll", 3, |a, may_continue| {
        regex_replaced(&text(a, 0), &text(a, 1), &text(a, 2), may_continue)
    }),
    checked("regexReplaceAllLiteral", 3, |a, may_continue| {
        let literal = text(a, 2).replace('$', "$$");
        regex_replaced(&text(a, 0), &text(a, 1), &literal, may_continue)
    }),
    of("urlencode", 1, |a| {
        let mut encoded = Vec::new();
        url::encode(text(a, 0).as_bytes(), b"-_.~", &mut encoded);
        Ok(String::from_utf8(encoded).expect("ASCII").into())
    }),
    of("urldecode", 1, |a| {
        let mut decoded = Vec::new();
        let is_valid = url::decode(text(a, 0).as_bytes(), &mut decoded);
        let decoded = String::from_utf8(decoded).ok().filter(|_| is_valid);
        decoded.map(Value::from).ok_or_else(|| "not URL-encoded".to_owned())
    }),
    many("printf", 1, |a| {
        let format = Format::parse(&text(a, 0), OUTPUT_BYTES_MAX)?;
        match (a.len() - 1).cmp(&format.verbs()) {
            std::cmp::Ordering::Less => Err("too few arguments".to_owned()),
            std::cmp::Ordering::Equal => {
                Ok(format.print(&a[1..], shortest, OUTPUT_BYTES_MAX).into())
            }
            std::cmp::Ordering::Greater => Err("too many arguments".to_owned()),
        }
    }),
    many("print", 1, |a| Ok(printed(a, |one, other| !is_text(one) && !is_text(other)).into())),
    many("println", 0, |a| Ok((printed(a, |_, _| true) + "\n").into())),
    of("date", 2, |a| {
        let time_ns = match &a[1] {
            Value::Time(time_ns) => *time_ns,
            Value::Int(seconds) => seconds.saturating_mul(SECOND_NS),
            _ => return Err("no time".to_owned()),
        };
        Ok(go_time::format(time_ns, &text(a, 0)).into())
    }),
    of("toDate", 2, |a| to_date(&text(a, 0), &text(a, 1))),
    of("toDateInZone", 3, |a| match &*text(a, 1) {
        "" | "UTC" | "Local" => to_date(&text(a, 0), &text(a, 2)),
        zone => Err(format!(
            "the zone '{zone}' is not supported; write UTC, and an offset into the time"
        )),
    }),
    of("unixEpoch", 1, |a| epoch(&a[0], SECOND_NS)),
    of("unixEpochMillis", 1, |a| epoch(&a[0], SECOND_NS / 1_000)),
    of("unixEpochNanos", 1, |a| epoch(&a[0], 1)),
    of("unixToTime", 1, |a| unix_to_time(&text(a, 0))),
    of("b64enc", 1, |a| Ok(STANDARD.encode(text(a, 0).as_bytes()).into())),
    of("b64dec", 1, |a| {
        let decoded =
            STANDARD.decode(text(a, 0).as_bytes()).map_err(|_| "not Base64".to_owned())?;
        Ok(String::from_utf8_lossy(&decoded).into_owned().into())
    }),
    of("fromJson", 1, |a| from_json(&text(a, 0))),
    many("index", 1, |a| {
        a[1..].iter().try_fold(a[0].clone(), |value, place| indexed(&value, place))
    }),
    of("default", 2, |a| Ok(if a[1].is_true() { a[1].clone() } else { a[0].clone() })),
    of("len", 1, |a| {
        Ok(Value::Int(match &a[0] {
            Value::List(values) => values.len(),
            Value::Object(values) => values.len(),
            _ => text(a, 0).len(),
        } as i64))
    }),
    many("eq", 2, |a| Ok(Value::Bool(a[1..].iter().any(|other| is_same(&a[0], other))))),
    of("ne", 2, |a| Ok(Value::Bool(!is_same(&a[0], &a[1])))),
    of("lt", 2, |a| Ok(Value::Bool(order(a).is_lt()))),
    of("le", 2, |a| Ok(Value::Bool(order(a).is_le()))),
    of("gt", 2, |a| Ok(Value::Bool(order(a).is_gt()))),
    of("ge", 2, |a| Ok(Value::Bool(order(a).is_ge()))),
    many("and", 1, |a| Ok(first_or_last(a, |value| !value.is_true()))),
    many("or", 1, |a| Ok(first_or_last(a, Value::is_true))),
    of("not", 1, |a| Ok(Value::Bool(!a[0].is_true()))),
    of("int", 1, |a| Ok(Value::Int(int(a, 0)))),
    of("float64", 1, |a| Ok(Value::Float(float(&a[0])))),
    many("add", 2, |a| ints(a, i64::wrapping_add)),
    of("sub", 2, |a| ints(a, i64::wrapping_sub)),
    many("mul", 2, |a| ints(a, i64::wrapping_mul)),
    of("div", 2, |a| divisor(a).and_then(|()| ints(a, i64::wrapping_div))),
    of("mod", 2, |a| divisor(a).and_then(|()| ints(a, i64::wrapping_rem))),
    many("addf", 2, |a| floats(a, |x, y| x + y)),
    many("subf", 2, |a| floats(a, |x, y| x - y)),
    many("mulf", 2, |a| floats(a, |x, y| x * y)),
    many("divf", 2, |a| floats(a, |x, y| x / y)),
    many("max", 1, |a| ints(a, i64::max)),
    many("min", 1, |a| ints(a, i64::min)),
    many("maxf", 1, |a| floats(a, f64::max)),
    many("minf", 1, |a| floats(a, f64::min)),
    of("ceil", 1, |a| Ok(Value::Float(float(&a[0]).ceil()))),
    of("floor", 1, |a| Ok(Value::Float(float(&a[0]).floor()))),
    Function {
        name: "round",
        least: 2,
        most: 3,
        call: Run::Linear(|a| {
            let scale = 10f64.powi(int(a, 1).clamp(0, 15) as i32);
            // From this part of the last digit on, it is rounded up.
            let round_on = a.get(2).map_or(0.5, float);
            let scaled = float(&a[0]) * scale;
            let up = scaled - scaled.floor() >= round_on;
            Ok(Value::Float(if up { scaled.ceil() } else { scaled.floor() } / scale))
        }),
    },
    of("bytes", 1, |a| {
        parse_bytes(&text(a, 0)).map(Value::Float).ok_or_else(|| "no size".to_owned())
    }),
    of("duration", 1, seconds),
    of("duration_seconds", 1, seconds),
];

/// An error if a value has more bytes than a template may make.
pub fn fits(bytes: usize) -> Result<(), String> {
    match bytes <= OUTPUT_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("more than {OUTPUT_BYTES_MAX} bytes")),
    }
}

fn text<'a>(arguments: &'a [Value<'_>], place: usize) -> Cow<'a, str> {
    arguments[place].shown(shortest)
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(_))
}

/// Values beside each other; `is_apart` says whether a blank is between two.
fn printed(values: &[Value<'_>], is_apart: fn(&Value<'_>, &Value<'_>) -> bool) -> String {
    let mut out = String::new();
    for (place, value) in values.iter().enumerate() {
        if place > 0 && is_apart(&values[place - 1], value) {
            out.push(' ');
        }
        out += &value.shown(shortest);
    }
    out
}

fn to_date<'v>(layout: &str, text: &str) -> Made<'v> {
    let time_ns = go_time::parse(text, layout);
    time_ns.map(Value::Time).ok_or_else(|| format!("'{text}' is no time in the layout '{layout}'"))
}

/// The time as a number of these units since 1970, as text.
fn epoch<'v>(value: &Value<'_>, unit_ns: i64) -> Made<'v> {
    match value {
        Value::Time(time_ns) => Ok(time_ns.div_euclid(unit_ns).to_string().into()),
        _ => Err("no time; make one with toDate or unixToTime".to_owned()),
    }
}

/// The number of digits says what they count: days, seconds, ms, µs or ns.
fn unix_to_time<'v>(text: &str) -> Made<'v> {
    let unit_ns = match text.len() {
        5 => 86_400 * SECOND_NS,
        10 => SECOND_NS,
        13 => SECOND_NS / 1_000,
        16 => SECOND_NS / 1_000_000,
        19 => 1,
        length => {
            return Err(format!("'{text}' has {length} digits; 5, 10, 13, 16 or 19 are known"));
        }
    };
    let number: i64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    let time_ns = number.checked_mul(unit_ns).ok_or_else(|| format!("'{text}' is too large"))?;
    Ok(Value::Time(time_ns))
}

/// A document of JSON; an empty text if it is none.
fn from_json<'v>(text: &str) -> Made<'v> {
    if text.len() > OUTPUT_BYTES_MAX {
        return Err(format!("more than {OUTPUT_BYTES_MAX} bytes"));
    }
    Ok(serde_json::from_str(text).map_or_else(|_| "".into(), json_value))
}

/// `serde_json` bounds the depth.
fn json_value(value: serde_json::Value) -> Value<'static> {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Nothing,
        Json::Bool(truth) => Value::Bool(truth),
        // As in Go, all numbers have a fraction.
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => text.into(),
        Json::Array(values) => Value::List(Arc::new(values.into_iter().map(json_value).collect())),
        Json::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, json_value(value)));
            Value::Object(Arc::new(members.collect()))
        }
    }
}

fn indexed<'v>(value: &Value<'v>, place: &Value<'_>) -> Made<'v> {
    match value {
        Value::List(values) => {
            let found = usize::try_from(int_of(place)).ok().and_then(|place| values.get(place));
            found.cloned().ok_or_else(|| format!("the list has no place {}", place.shown(shortest)))
        }
        Value::Object(values) => {
            Ok(values.get(&*place.shown(shortest)).cloned().unwrap_or(Value::Nothing))
        }
        _ => Err("index needs a list or an object".to_owned()),
    }
}

fn float(value: &Value<'_>) -> f64 {
    value.number().unwrap_or(0.0)
}

fn int_of(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(int) => *int,
        Value::Text(text) => text.trim().parse().unwrap_or_else(|_| float(value) as i64),
        _ => float(value) as i64,
    }
}

fn int(arguments: &[Value<'_>], place: usize) -> i64 {
    int_of(&arguments[place])
}

/// The first argument as a width or a number of times.
fn width(arguments: &[Value<'_>]) -> usize {
    usize::try_from(int(arguments, 0)).unwrap_or(0)
}

fn ints<'v>(arguments: &[Value<'_>], op: fn(i64, i64) -> i64) -> Made<'v> {
    Ok(Value::Int(arguments.iter().map(int_of).reduce(op).unwrap_or_default()))
}

fn floats<'v>(arguments: &[Value<'_>], op: fn(f64, f64) -> f64) -> Made<'v> {
    Ok(Value::Float(arguments.iter().map(float).reduce(op).unwrap_or_default()))
}

fn divisor(arguments: &[Value<'_>]) -> Result<(), String> {
    if int(arguments, 1) == 0 { Err("division by zero".to_owned()) } else { Ok(()) }
}

fn seconds<'v>(arguments: &[Value<'v>]) -> Made<'v> {
    let ns =
        parse_value_duration_ns(&text(arguments, 0)).ok_or_else(|| "no duration".to_owned())?;
    Ok(Value::Float(ns as f64 / 1e9))
}

fn replaced<'v>(text: &str, from: &str, to: &str, times: usize) -> Made<'v> {
    let found = text.matches(from).count().min(times);
    fits(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(text.replacen(from, to, found).into())
}

fn trimmed<'v>(text: &str, characters: &str, left: bool, right: bool) -> Made<'v> {
    let is_cut = |c| characters.contains(c);
    let text = if left { text.trim_start_matches(is_cut) } else { text };
    let text = if right { text.trim_end_matches(is_cut) } else { text };
    Ok(text.to_owned().into())
}

fn without_prefix<'v>(text: &str, prefix: &str) -> Made<'v> {
    Ok(text.strip_prefix(prefix).unwrap_or(text).to_owned().into())
}

fn without_suffix<'v>(text: &str, suffix: &str) -> Made<'v> {
    Ok(text.strip_suffix(suffix).unwrap_or(text).to_owned().into())
}

fn indented<'v>(width: usize, text: &str, start: &str) -> Made<'v> {
    let lines = text.matches('\n').count() + 1;
    fits(width.saturating_mul(lines).saturating_add(text.len()))?;
    let pad = " ".repeat(width);
    Ok(format!("{start}{pad}{}", text.replace('\n', &format!("\n{pad}"))).into())
}

/// Bytes as which a byte of a regular expression counts that is compiled: some microseconds.
const COMPILED_WEIGHT: usize = 256;

fn regex(text: &str, may_continue: &dyn Fn(usize) -> bool) -> Result<Pattern, String> {
    // Each line may have an expression of its own.
    may_continue(text.len().saturating_mul(COMPILED_WEIGHT));
    Pattern::within(text, &mut RegexBudget::default())
        .map_err(|why| format!("the regular expression cannot be used: {why}"))
}

/// A pulse that is over when the query is.
fn pulse<'p>(may_continue: &'p dyn Fn(usize) -> bool) -> Pulse<'p> {
    let is_over = || if may_continue(usize::MAX) { Ok(()) } else { Err(RunError::Cancelled) };
    Pulse::new(is_over)
}

fn regex_replaced<'v>(
    expression: &str,
    text: &str,
    new: &str,
    may_continue: &dyn Fn(usize) -> bool,
) -> Made<'v> {
    let (pattern, mut out) = (regex(expression, may_continue)?, Vec::new());
    let most = (u64::MAX, OUTPUT_BYTES_MAX);
    pattern.replace(text.as_bytes(), new.as_bytes(), most, &mut out, &pulse(may_continue));
    fits(out.len())?;
    Ok(String::from_utf8_lossy(&out).into_owned().into())
}

fn first_or_last<'v>(arguments: &[Value<'v>], is_it: impl Fn(&Value<'v>) -> bool) -> Value<'v> {
    let last = arguments.last().expect("one argument at least");
    arguments.iter().find(|value| is_it(value)).unwrap_or(last).clone()
}

/// Labels are compared with numbers as numbers.
fn order(arguments: &[Value<'_>]) -> std::cmp::Ordering {
    match (&arguments[0], &arguments[1]) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (a, b) => float(a).total_cmp(&float(b)),
    }
}

fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (a, b) => float(a) == float(b),
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
