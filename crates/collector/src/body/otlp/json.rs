//! The messages of OTLP as JSON: names in lowerCamelCase (those of the `.proto` files are taken
//! too), ids in hexadecimal digits, numbers of 64 bits as text or as numbers.
//!
//! The whole request is checked by `serde_json` first; what walks over it here relies on that for
//! its results, but not for its safety. Strings are copied as they are written, escapes included.
//! Keys with escapes are not recognised as keys of OTLP.

use serde::de::IgnoredAny;

use super::super::json::{Items, Members, first};
use super::{AnyValue, ExportError, Found, List, Record, Rejection, Resource, Scope, Text, Wire};

const NO_TEXT: Text<'static> = Text::Json(b"\"\"");

/// What the members of a request are called: in lowerCamelCase and as in the `.proto` files.
pub(super) struct Levels {
    pub(super) of_resource: [&'static str; 2],
    pub(super) of_scope: [&'static str; 2],
    pub(super) items: [&'static str; 2],
}

const LOGS: Levels = Levels {
    of_resource: ["resourceLogs", "resource_logs"],
    of_scope: ["scopeLogs", "scope_logs"],
    items: ["logRecords", "log_records"],
};

/// Finds the records of a request.
pub(super) fn find<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    find_items(content, &LOGS, found, |record, found| found.push(record))
}

/// Finds the items of scopes, and gives each of them to `take`.
pub(super) fn find_items<'b>(
    content: &'b [u8],
    levels: &Levels,
    found: &mut Found<'b>,
    mut take: impl FnMut(&'b [u8], &mut Found<'b>) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let wrong = |error: String| ExportError::Wrong(error);
    let text = std::str::from_utf8(content).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| wrong(error.to_string()))?;
    if first(content) != Some(b'{') {
        return Err(wrong("it is no object of JSON".to_owned()));
    }
    let is = |key: &[u8], names: &[&str; 2]| names.iter().any(|name| name.as_bytes() == key);
    let [of_resources, of_scopes, items] =
        [levels.of_resource[0], levels.of_scope[0], levels.items[0]];
    let mut resources = None;
    let mut other = None;
    for (key, value) in Members::of(content) {
        match is(key, &levels.of_resource) {
            true => resources = Some(value),
            false => other = Some(key),
        }
    }
    if let (None, Some(key)) = (resources, other) {
        let key: String = String::from_utf8_lossy(key).chars().take(60).collect();
        return Err(wrong(format!("it has '{key}', but no {of_resources}")));
    }
    for of_resource in list(of_resources, resources.unwrap_or(b"null"))? {
        check_object(of_resources, of_resource)?;
        let mut resource = &[][..];
        for (key, value) in Members::of(of_resource) {
            if key == b"resource" {
                resource = value;
            }
        }
        for (key, value) in Members::of(of_resource) {
            if !is(key, &levels.of_scope) {
                continue;
            }
            for of_scope in list(of_scopes, value)? {
                check_object(of_scopes, of_scope)?;
                let mut scope = &[][..];
                for (key, value) in Members::of(of_scope) {
                    if key == b"scope" {
                        scope = value;
                    } else if is(key, &levels.items) {
                        for item in list(items, value)? {
                            take(item, found)?;
                        }
                    }
                }
                found.end_group(resource, scope);
            }
        }
    }
    Ok(())
}

pub(super) fn list<'b>(name: &str, value: &'b [u8]) -> Result<Items<'b>, ExportError> {
    match first(value) {
        Some(b'[' | b'n') => Ok(Items::of(value)),
        _ => Err(ExportError::Wrong(format!("{name} is not a list"))),
    }
}

pub(super) fn check_object(name: &str, item: &[u8]) -> Result<(), ExportError> {
    match first(item) {
        Some(b'{') => Ok(()),
        _ => Err(ExportError::Wrong(format!("{name} has an item that is no object"))),
    }
}

pub(super) struct Json;

impl Wire for Json {
    fn resource(content: &[u8]) -> Result<Resource<'_>, Rejection> {
        let mut resource = Resource { attributes: List { content: &[], field: 0 }, dropped: 0 };
        for (key, value) in object(content)? {
            match key {
                b"attributes" => resource.attributes.content = value,
                b"droppedAttributesCount" | b"dropped_attributes_count" => {
                    resource.dropped = count(value)?;
                }
                _ => {}
            }
        }
        Ok(resource)
    }

    fn scope(content: &[u8]) -> Result<Scope<'_>, Rejection> {
        let attributes = List { content: &[], field: 0 };
        let mut scope = Scope { name: NO_TEXT, version: NO_TEXT, attributes, dropped: 0 };
        for (key, value) in object(content)? {
            match key {
                b"name" => scope.name = text(value)?,
                b"version" => scope.version = text(value)?,
                b"attributes" => scope.attributes.content = value,
                b"droppedAttributesCount" | b"dropped_attributes_count" => {
                    scope.dropped = count(value)?;
                }
                _ => {}
            }
        }
        Ok(scope)
    }

    fn record(content: &[u8]) -> Result<Record<'_>, Rejection> {
        let mut record = Record {
            time_ns: 0,
            observed_ns: 0,
            severity_number: 0,
            severity_text: NO_TEXT,
            body: AnyValue::Empty,
            attributes: List { content: &[], field: 0 },
            dropped: 0,
            flags: 0,
            trace_id: NO_TEXT,
            span_id: NO_TEXT,
            event_name: NO_TEXT,
        };
        if first(content) != Some(b'{') {
            return Err(Rejection::Broken);
        }
        for (key, value) in Members::of(content) {
            match key {
                b"timeUnixNano" | b"time_unix_nano" => record.time_ns = count(value)?,
                b"observedTimeUnixNano" | b"observed_time_unix_nano" => {
                    record.observed_ns = count(value)?;
                }
                b"severityNumber" | b"severity_number" => {
                    record.severity_number = severity(value)?;
                }
                b"severityText" | b"severity_text" => record.severity_text = text(value)?,
                b"body" => record.body = Self::value(value)?,
                b"attributes" => record.attributes.content = value,
                b"droppedAttributesCount" | b"dropped_attributes_count" => {
                    record.dropped = count(value)?;
                }
                b"flags" => record.flags = count(value)?,
                b"traceId" | b"trace_id" => record.trace_id = id(value)?,
                b"spanId" | b"span_id" => record.span_id = id(value)?,
                b"eventName" | b"event_name" => record.event_name = text(value)?,
                _ => {}
            }
        }
        Ok(record)
    }

    fn value(content: &[u8]) -> Result<AnyValue<'_>, Rejection> {
        let mut found = AnyValue::Empty;
        for (key, value) in object(content)? {
            if value == b"null" {
                continue;
            }
            found = match key {
                b"stringValue" | b"string_value" => AnyValue::Text(text(value)?),
                b"boolValue" | b"bool_value" => AnyValue::Bool(match value {
                    b"true" => true,
                    b"false" => false,
                    _ => return Err(Rejection::Broken),
                }),
                b"intValue" | b"int_value" | b"doubleValue" | b"double_value" => number(value)?,
                b"arrayValue" | b"array_value" => AnyValue::List(values(value)?),
                b"kvlistValue" | b"kvlist_value" => AnyValue::Members(values(value)?),
                // They are in Base64 already.
                b"bytesValue" | b"bytes_value" => AnyValue::Text(text(value)?),
                _ => found,
            };
        }
        Ok(found)
    }

    fn items<'b>(
        list: List<'b>,
        visit: impl FnMut(&'b [u8]) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        match first(list.content) {
            None | Some(b'[' | b'n') => Items::of(list.content).try_for_each(visit),
            Some(_) => Err(Rejection::Broken),
        }
    }

    fn pair(content: &[u8]) -> Result<(Text<'_>, &[u8]), Rejection> {
        let mut pair = (NO_TEXT, &[][..]);
        for (key, value) in object(content)? {
            match key {
                b"key" => pair.0 = text(value)?,
                b"value" => pair.1 = value,
                _ => {}
            }
        }
        Ok(pair)
    }
}

/// The members of an object. Nothing and `null` have none.
pub(super) fn object(content: &[u8]) -> Result<Members<'_>, Rejection> {
    match first(content) {
        None | Some(b'{' | b'n') => Ok(Members::of(content)),
        Some(_) => Err(Rejection::Broken),
    }
}

/// `{"values":[…]}`
fn values(content: &[u8]) -> Result<List<'_>, Rejection> {
    let mut list = List { content: &[], field: 0 };
    for (key, value) in object(content)? {
        if key == b"values" {
            list.content = value;
        }
    }
    Ok(list)
}

pub(super) fn text(value: &[u8]) -> Result<Text<'_>, Rejection> {
    match first(value) {
        Some(b'"') => Ok(Text::Json(value)),
        Some(b'n') => Ok(NO_TEXT),
        _ => Err(Rejection::Broken),
    }
}

/// Zeros stand for no id.
fn id(value: &[u8]) -> Result<Text<'_>, Rejection> {
    let text = text(value)?;
    let is_zero = value.iter().all(|byte| matches!(byte, b'"' | b'0'));
    Ok(if is_zero { NO_TEXT } else { text })
}

/// A number that is written as one or as text.
fn number(value: &[u8]) -> Result<AnyValue<'_>, Rejection> {
    if first(value) != Some(b'"') {
        let is_number = first(value).is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
        return if is_number { Ok(AnyValue::Number(value)) } else { Err(Rejection::Broken) };
    }
    match std::str::from_utf8(unquoted(value)).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(number) => Ok(AnyValue::Int(number)),
        // `NaN`, `Infinity`, and what else a number may be as text.
        None => Ok(AnyValue::Text(Text::Json(value))),
    }
}

/// A count or a time that is written as a number or as text.
pub(super) fn count(value: &[u8]) -> Result<u64, Rejection> {
    if first(value) == Some(b'n') {
        return Ok(0);
    }
    let text = std::str::from_utf8(unquoted(value)).map_err(|_| Rejection::Broken)?;
    if text.is_empty() {
        return Ok(0);
    }
    // JavaScript writes large numbers as floating ones.
    let as_float = || text.parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| n as u64);
    text.parse().ok().or_else(as_float).ok_or(Rejection::Broken)
}

/// A severity as a number, or by the name that libraries of protobuf write although OTLP forbids
/// it, such as `SEVERITY_NUMBER_WARN2`.
fn severity(value: &[u8]) -> Result<i64, Rejection> {
    const LEVELS: [&[u8]; 6] = [b"TRACE", b"DEBUG", b"INFO", b"WARN", b"ERROR", b"FATAL"];
    let Some(name) = unquoted(value).strip_prefix(b"SEVERITY_NUMBER_") else {
        return Ok(count(value)? as i64);
    };
    let (level, step) = match name {
        [level @ .., step @ b'2'..=b'4'] => (level, i64::from(step - b'1')),
        level => (level, 0),
    };
    let rank = LEVELS.iter().position(|known| *known == level);
    Ok(rank.map_or(0, |rank| 1 + 4 * rank as i64 + step))
}

pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}
