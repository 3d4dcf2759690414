//! The functions of templates, with the results that Prometheus and vmalert give.
//!
//! A function that formats numbers leaves a text that is no number as it is.

use text::template::number::{general, shortest};
use text::template::printf::Format;
use text::template::{Function, Run, Term, Value};

use super::VALUE_BYTES_MAX;

/// Digits that the functions `humanize…` show.
const DIGITS: usize = 4;
/// The largest width and precision of `printf`.
const WIDTH_MAX: usize = 100;
/// Arguments of `printf`; its format says how many there have to be.
const MANY: usize = usize::MAX;

type Made<'v> = Result<Value<'v>, String>;

const fn of(name: &'static str, call: for<'v> fn(&[Value<'v>]) -> Made<'v>) -> Function {
    Function { name, least: 1, most: 1, call: Run::Linear(call) }
}

/// All functions. None of them fails.
pub static FUNCTIONS: [Function; 12] = [
    of("humanize", |a| of_number(a, humanize)),
    of("humanize1024", |a| of_number(a, humanize_1024)),
    of("humanizeDuration", |a| of_number(a, humanize_duration)),
    of("humanizePercentage", |a| {
        of_number(a, |ratio| format!("{}%", general(ratio * 100.0, DIGITS)))
    }),
    of("humanizeTimestamp", |a| {
        of_number(a, |seconds| text::time::format_time((seconds * 1e9) as i64))
    }),
    of("toUpper", |a| Ok(a[0].shown(shortest).to_uppercase().into())),
    of("toLower", |a| Ok(a[0].shown(shortest).to_lowercase().into())),
    of("title", |a| Ok(title(&a[0].shown(shortest)).into())),
    of("stripPort", |a| Ok(strip_port(&a[0].shown(shortest)).to_owned().into())),
    of("queryEscape", |a| {
        let text = a[0].shown(shortest);
        Ok(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().into())
    }),
    // The label of a name that holds other characters than letters: `index $labels "a.b"`.
    Function { name: "index", least: 2, most: 2, call: Run::Linear(index) },
    Function { name: "printf", least: 1, most: MANY, call: Run::Linear(printf) },
];

/// Checks that the format of a `printf` is a text with as many verbs as there are arguments, of
/// which `given` are given.
pub fn check_printf<V>(arguments: &[Term<V>], given: usize) -> Result<(), String> {
    let format = arguments
        .first()
        .and_then(Term::text)
        .ok_or_else(|| "the format of printf has to be a text in quotes".to_owned())?;
    let verbs = format_of(format)?.verbs();
    match given - 1 == verbs {
        true => Ok(()),
        false => Err(format!("this printf takes {verbs} arguments, and gets {}", given - 1)),
    }
}

/// The format of `printf`.
fn format_of(text: &str) -> Result<Format, String> {
    Format::parse(text, WIDTH_MAX)
}

fn printf<'v>(arguments: &[Value<'v>]) -> Made<'v> {
    let format = format_of(&arguments[0].shown(shortest))?;
    Ok(format.print(&arguments[1..], shortest, VALUE_BYTES_MAX).into())
}

fn index<'v>(arguments: &[Value<'v>]) -> Made<'v> {
    let Value::Map(labels) = &arguments[0] else { return Ok("".into()) };
    Ok(labels.get(&*arguments[1].shown(shortest)).map_or("", String::as_str).into())
}

fn of_number<'v>(arguments: &[Value<'v>], format: fn(f64) -> String) -> Made<'v> {
    Ok(match arguments[0].number() {
        Some(number) => format(number).into(),
        None => arguments[0].clone(),
    })
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
