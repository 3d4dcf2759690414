//! A line as an event, and an event as a row.
//!
//! Dots in names of fields make objects: `kubernetes.pod` is `.kubernetes.pod` in VRL, and has the
//! same name again in the row. A name stays flat (`."a.b"`) where an object cannot hold it: when it
//! has empty parts or more than [`PARTS_MAX`], or when a part of it is the name of another field.

use std::borrow::Cow;

use ::vrl::prelude::Bytes;
use ::vrl::value::{KeyString, ObjectMap, Value as VrlValue};

use crate::limits::OutputLimits;
use crate::rows::parse::{Fields, RowProblem};
use crate::rows::{Row, Value, is_reserved};

/// Parts of a name with dots, in events and in rows.
const PARTS_MAX: usize = 4;
const LINE: &str = "_line";

/// The event of one line.
pub(super) struct Event {
    value: VrlValue,
    /// The first parts of the line's fields that rows must not have; they are left out of the row.
    own: Vec<KeyString>,
    raw: Bytes,
}

impl Default for Event {
    fn default() -> Self {
        let value = VrlValue::Object(ObjectMap::new());
        Self { value, own: Vec::new(), raw: Bytes::new() }
    }
}

impl Event {
    /// Sets a field; the value is text, whatever it looks like.
    pub(super) fn insert(&mut self, name: &str, value: &[u8]) {
        let value = Bytes::copy_from_slice(value);
        if name == LINE {
            self.raw = value.clone();
        }
        let first = name.split('.').next().unwrap_or_default();
        for own in [name, first] {
            if is_reserved(own) && !self.own.iter().any(|key| key.as_str() == own) {
                self.own.push(own.into());
            }
        }
        let VrlValue::Object(map) = &mut self.value else { return };
        insert(map, name, VrlValue::Bytes(value));
    }

    pub(super) fn value(&mut self) -> &mut VrlValue {
        &mut self.value
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.value, VrlValue::Object(_))
    }

    /// The raw line.
    pub(super) fn raw(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.raw)
    }

    /// The event as a row, and its bytes. The event has no fields behind.
    pub(super) fn take_row(&mut self, limits: &OutputLimits) -> Result<(Row, usize), RowProblem> {
        let VrlValue::Object(map) = &mut self.value else { return Ok((Row::default(), 0)) };
        let mut map = std::mem::take(map);
        for own in &self.own {
            map.remove(own.as_str());
        }
        let mut fields = Fields::new(limits.fields_max);
        let mut bytes = 0;
        for (key, value) in map {
            push(&mut fields, key.into(), 1, value, &mut bytes)?;
            if bytes > limits.line_bytes_max {
                let limit = limits.line_bytes_max;
                let message = format!("the row is longer than {limit} bytes; leave fields out");
                return Err(RowProblem::Event { message });
            }
        }
        Ok((fields.into_row(), bytes))
    }
}

fn insert(root: &mut ObjectMap, name: &str, value: VrlValue) {
    let mut parts: Vec<&str> = Vec::new();
    if name.contains('.') {
        parts.extend(name.split('.').take(PARTS_MAX + 1));
    }
    let is_flat = parts.len() > PARTS_MAX || parts.iter().any(|part| part.is_empty());
    let last = match parts.pop() {
        Some(last) if !is_flat => last,
        _ => name,
    };
    if is_flat {
        parts.clear();
    }
    let Some(parent) = object_at(root, &parts) else {
        root.insert(name.into(), value);
        return;
    };
    // The object of longer names gives way: they become flat.
    if let Some(VrlValue::Object(longer)) = parent.insert(last.into(), value) {
        flatten(root, name, longer);
    }
}

/// The object at a path, made where there is nothing; none where another field is in the way.
fn object_at<'m>(map: &'m mut ObjectMap, parts: &[&str]) -> Option<&'m mut ObjectMap> {
    let Some((first, rest)) = parts.split_first() else { return Some(map) };
    let next = map.entry((*first).into());
    match next.or_insert_with(|| VrlValue::Object(ObjectMap::new())) {
        VrlValue::Object(inner) => object_at(inner, rest),
        _ => None,
    }
}

fn flatten(root: &mut ObjectMap, prefix: &str, object: ObjectMap) {
    for (key, value) in object {
        let name = format!("{prefix}.{key}");
        match value {
            VrlValue::Object(inner) => flatten(root, &name, inner),
            value => drop(root.insert(name.into(), value)),
        }
    }
}

/// Appends the fields of a value at a depth, the first of which is 1.
fn push(
    fields: &mut Fields,
    name: String,
    depth: usize,
    value: VrlValue,
    bytes: &mut usize,
) -> Result<(), RowProblem> {
    let value = match value {
        VrlValue::Object(_) if depth >= PARTS_MAX => {
            let message = format!("objects nest deeper than {PARTS_MAX} levels");
            return Err(RowProblem::Event { message });
        }
        VrlValue::Object(map) => {
            for (key, value) in map {
                push(fields, format!("{name}.{key}"), depth + 1, value, bytes)?;
            }
            return Ok(());
        }
        VrlValue::Array(_) => {
            let message =
                format!("`{name}` is an array; make a text of it with join!, or delete it");
            return Err(RowProblem::Event { message });
        }
        VrlValue::Null => Value::Null,
        VrlValue::Boolean(value) => Value::Bool(value),
        VrlValue::Integer(value) => Value::Integer(value),
        VrlValue::Float(value) if value.is_finite() => Value::Float(value.into_inner()),
        VrlValue::Float(_) => Value::Null,
        text => Value::Text(text.to_string_lossy().into_owned()),
    };
    *bytes += name.len() + if let Value::Text(text) = &value { text.len() } else { 8 };
    fields.push(name, value)
}
