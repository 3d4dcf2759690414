//! Rows of alerts as lines of JSON, of type `alert`: changes of states, and rows of recording
//! rules.
//!
//! ```json
//! {"_time":"2026-01-31T12:00:00Z","alert":"Errors","alertgroup":"web","rule_id":"6f…","from":"pending",
//!  "to":"firing","value":12.0,"labels":{"hostname":"a"},"annotations":{"summary":"…"},"_msg":"alert Errors: firing"}
//! {"_time":"2026-01-31T12:00:00Z","record":"requests","alertgroup":"web","value":120.0,"labels":{"hostname":"a"},
//!  "_msg":"rule requests"}
//! ```
//!
//! Like rows of the summary they are lines that Loginson made itself, which only queries that name
//! their type see.

use std::ops::ControlFlow;
use std::sync::Arc;

use alerts::{Change, Labels, Recorded};
use collector::ALONE_BYTES_MAX;
use query::source::Source;
use query::{Context, Query, RunError};
use record::batch::ALERT_TYPE;
use record::{Format, Hints, Origin, Transport};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use text::quoted::quote;

/// A change as it is stored and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredChange {
    #[serde(rename(deserialize = "_time"))]
    /// When the state changed, RFC 3339.
    pub time: String,
    #[serde(rename(deserialize = "alert"))]
    /// The name of the rule.
    pub rule: String,
    #[serde(rename(deserialize = "alertgroup"))]
    /// The group of the rule.
    pub group: String,
    /// The rule, also after it was renamed.
    pub rule_id: String,
    /// The state before.
    pub from: String,
    /// The state since.
    pub to: String,
    /// A number, or a text where JSON has no number.
    pub value: Value,
    /// The labels of the alert.
    pub labels: Labels,
    /// Its annotations, as they were then.
    pub annotations: Labels,
}

/// The origin of frames of rows.
pub fn origin() -> Origin {
    let hints = Hints { log_type: Some(ALERT_TYPE.to_owned()), ..Hints::default() };
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::Internal, Format::Json, None) }
}

/// The line of a change.
pub fn change(change: &Change) -> Vec<u8> {
    line(&json!({
        "_time": text::time::format_time(change.time_ns),
        "alert": change.rule,
        "alertgroup": change.group,
        "rule_id": change.rule_id,
        "from": change.from.name(),
        "to": change.to.name(),
        "value": number(change.value),
        "labels": change.labels,
        "annotations": change.annotations,
        // It names no label: a search for a word should find lines, not alerts about them.
        "_msg": format!("alert {}: {}", change.rule, change.to.name()),
    }))
}

/// The line of a row of a recording rule.
pub fn recorded(row: &Recorded) -> Vec<u8> {
    line(&json!({
        "_time": text::time::format_time(row.time_ns),
        "record": row.record,
        "alertgroup": row.group,
        "value": number(row.value),
        "labels": row.labels,
        "_msg": format!("rule {}", row.record),
    }))
}

/// A number, or its name where JSON has none.
pub fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number)
}

fn line(row: &Value) -> Vec<u8> {
    let mut line = row.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// The lines in portions that are each stored as a whole, and how many lines are longer than a
/// portion.
pub fn portions(lines: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, u64) {
    let mut portions: Vec<Vec<u8>> = Vec::new();
    let mut too_long = 0;
    for line in lines {
        if line.len() > ALONE_BYTES_MAX {
            too_long += 1;
            continue;
        }
        match portions.last_mut().filter(|last| last.len() + line.len() <= ALONE_BYTES_MAX) {
            Some(last) => last.extend_from_slice(&line),
            None => portions.push(line),
        }
    }
    (portions, too_long)
}

/// The newest `limit` changes in the range of `context`, of one rule or all, the newest first.
pub fn read(
    source: &dyn Source,
    context: &Context,
    rule: Option<&str>,
    limit: usize,
) -> Result<Vec<StoredChange>, RunError> {
    let of_rule = rule.map(|rule| format!(" alert:={}", quote(rule))).unwrap_or_default();
    let text = format!("_type:={} to:*{of_rule}", quote(ALERT_TYPE));
    let query = Query::parse(&text, 0).map_err(|error| RunError::Failed(error.message))?;
    // The newest rows are kept as copies, which have the line only if it is included.
    let include = vec!["_line".to_owned()];
    let context = Context { limit: Some(limit), include, ..context.clone() };
    let mut changes: Vec<StoredChange> = Vec::new();
    query::run(&query, source, &context, &mut |rows| {
        for index in 0..rows.len() {
            // A line of a sender that has this type by chance is none of ours.
            let parsed = rows.raw(index).and_then(|raw| serde_json::from_slice(raw).ok());
            changes.extend(parsed);
        }
        ControlFlow::Continue(())
    })?;
    changes.sort_by(|a, b| b.time.cmp(&a.time));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use alerts::State;

    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let labels: Labels = [("h\"ost".to_owned(), "a\nb".to_owned())].into();
        let made = Change {
            time_ns: 1_000_000_000,
            rule_id: "id".to_owned(),
            rule: "A".to_owned(),
            group: "g".to_owned(),
            labels: labels.clone(),
            annotations: Labels::new(),
            from: State::Pending,
            to: State::Firing,
            value: f64::NAN,
        };
        let line = change(&made);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: StoredChange = serde_json::from_slice(&line).unwrap();
        assert_eq!((read.time.as_str(), read.to.as_str()), ("1970-01-01T00:00:01Z", "firing"));
        assert_eq!((read.labels, read.value), (labels, json!("NaN")));
    }

    #[test]
    fn portions_are_as_long_as_a_frame_takes() {
        let lines = vec![vec![b'x'; ALONE_BYTES_MAX / 2]; 5];
        let lengths: Vec<usize> = portions(lines).0.iter().map(Vec::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), ALONE_BYTES_MAX / 2 * 5);
        assert_eq!(lengths.len(), 3);
        assert_eq!(portions(vec![vec![b'x'; ALONE_BYTES_MAX + 1]]), (Vec::new(), 1));
    }
}
