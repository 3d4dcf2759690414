//! The messages of OTLP in protobuf (`opentelemetry/proto/logs/v1/logs.proto`).

use super::{AnyValue, ExportError, Found, List, Record, Rejection, Resource, Scope, Text, Wire};
use crate::body::protobuf::{Broken, Fields, Value};

const NO_TEXT: Text<'static> = Text::Plain(b"");

/// Finds the records of a request.
pub(super) fn find<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    let wrong = |error: Broken| ExportError::Wrong(error.to_string());
    for field in Fields(content) {
        let (1, Value::Bytes(of_resource)) = field.map_err(wrong)? else { continue };
        let mut resource = &[][..];
        for field in Fields(of_resource) {
            if let (1, Value::Bytes(found)) = field.map_err(wrong)? {
                resource = found;
            }
        }
        for field in Fields(of_resource) {
            let (2, Value::Bytes(of_scope)) = field.map_err(wrong)? else { continue };
            let mut scope = &[][..];
            for field in Fields(of_scope) {
                match field.map_err(wrong)? {
                    (1, Value::Bytes(content)) => scope = content,
                    (2, Value::Bytes(record)) => found.push(record)?,
                    _ => {}
                }
            }
            found.end_group(resource, scope);
        }
    }
    Ok(())
}

pub(super) struct Protobuf;

impl Wire for Protobuf {
    fn resource(content: &[u8]) -> Result<Resource<'_>, Rejection> {
        let mut dropped = 0;
        for field in Fields(content) {
            if let (2, Value::Number(count)) = field? {
                dropped = count;
            }
        }
        Ok(Resource { attributes: List { content, field: 1 }, dropped })
    }

    fn scope(content: &[u8]) -> Result<Scope<'_>, Rejection> {
        let attributes = List { content, field: 3 };
        let mut scope = Scope { name: NO_TEXT, version: NO_TEXT, attributes, dropped: 0 };
        for field in Fields(content) {
            match field? {
                (1, Value::Bytes(name)) => scope.name = Text::Plain(name),
                (2, Value::Bytes(version)) => scope.version = Text::Plain(version),
                (4, Value::Number(count)) => scope.dropped = count,
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
            attributes: List { content, field: 6 },
            dropped: 0,
            flags: 0,
            trace_id: NO_TEXT,
            span_id: NO_TEXT,
            event_name: NO_TEXT,
        };
        for field in Fields(content) {
            match field? {
                (1, Value::Fixed64(time)) => record.time_ns = time,
                (2, Value::Number(number)) => record.severity_number = number as i64,
                (3, Value::Bytes(text)) => record.severity_text = Text::Plain(text),
                (5, Value::Bytes(value)) => record.body = Self::value(value)?,
                (7, Value::Number(count)) => record.dropped = count,
                (8, Value::Fixed32(flags)) => record.flags = flags.into(),
                (9, Value::Bytes(id)) => record.trace_id = Text::Hex(id),
                (10, Value::Bytes(id)) => record.span_id = Text::Hex(id),
                (11, Value::Fixed64(time)) => record.observed_ns = time,
                (12, Value::Bytes(name)) => record.event_name = Text::Plain(name),
                _ => {}
            }
        }
        Ok(record)
    }

    fn value(content: &[u8]) -> Result<AnyValue<'_>, Rejection> {
        let mut value = AnyValue::Empty;
        for field in Fields(content) {
            value = match field? {
                (1, Value::Bytes(text)) => AnyValue::Text(Text::Plain(text)),
                (2, Value::Number(number)) => AnyValue::Bool(number != 0),
                (3, Value::Number(number)) => AnyValue::Int(number as i64),
                (4, Value::Fixed64(bits)) => AnyValue::Double(f64::from_bits(bits)),
                (5, Value::Bytes(content)) => AnyValue::List(List { content, field: 1 }),
                (6, Value::Bytes(content)) => AnyValue::Members(List { content, field: 1 }),
                (7, Value::Bytes(bytes)) => AnyValue::Bytes(bytes),
                _ => value,
            };
        }
        Ok(value)
    }

    fn items<'b>(
        list: List<'b>,
        mut visit: impl FnMut(&'b [u8]) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        for field in Fields(list.content) {
            if let (number, Value::Bytes(content)) = field?
                && number == list.field
            {
                visit(content)?;
            }
        }
        Ok(())
    }

    fn pair(content: &[u8]) -> Result<(Text<'_>, &[u8]), Rejection> {
        let (mut key, mut value) = (NO_TEXT, &[][..]);
        for field in Fields(content) {
            match field? {
                (1, Value::Bytes(text)) => key = Text::Plain(text),
                (2, Value::Bytes(content)) => value = content,
                _ => {}
            }
        }
        Ok((key, value))
    }
}
