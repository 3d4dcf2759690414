//! Searches of log lines: what an operator asks a log store, in a form that every driver writes in
//! the language of its store.

use super::Answer;
use crate::row::{Row, Value};

/// A query about log lines. A line matches if everything that is given holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search {
    /// The text column, by its index in the schema, and what its text must have.
    pub text: Option<(usize, Match)>,
    /// Columns that must have these values.
    pub equals: Vec<(usize, Value)>,
    /// The time of the line, in milliseconds since 1970: from the first, and before the second.
    pub time: Option<(i64, i64)>,
    /// The result that is wanted of the matching lines.
    pub wanted: Wanted,
}

/// A condition on a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Match {
    /// This word. A workload asks only for words that every tokenizer finds in the same lines.
    Word(String),
    /// These words in a row, with one space between them.
    Phrase(String),
    /// A match of this regular expression somewhere in the text: classes of ASCII characters,
    /// groups with alternatives, and repetitions, which all engines understand alike.
    Regex(String),
}

/// The result that is wanted of the matching lines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Their number: `Answer::Count`.
    Count,
    /// The newest of them, newest first: `Answer::Rows`.
    Latest {
        /// Limit of the rows.
        rows_max: usize,
    },
    /// Their number by the value of a column: `Answer::Groups`.
    CountBy {
        /// Its index in the schema.
        column: usize,
    },
    /// Their number by time, in steps from a multiple of the step on: `Answer::Groups` with the
    /// beginnings of the steps that have lines, in milliseconds.
    CountOver {
        /// Length of a step, ms.
        step_ms: i64,
    },
}

/// Numbers of lines by a value, in the order of the values.
pub type Groups = Vec<(Value, u64)>;

impl Search {
    /// Whether it needs [`Ability::Regex`](super::Ability::Regex).
    pub fn has_regex(&self) -> bool {
        matches!(self.text, Some((_, Match::Regex(_))))
    }

    /// For messages.
    pub fn in_words(&self) -> String {
        let mut parts = Vec::new();
        match &self.text {
            Some((_, Match::Word(word))) => parts.push(format!("with the word {word:?}")),
            Some((_, Match::Phrase(phrase))) => parts.push(format!("with the phrase {phrase:?}")),
            Some((_, Match::Regex(regex))) => parts.push(format!("that match /{regex}/")),
            None => {}
        }
        parts.extend(self.equals.iter().map(|(at, value)| format!("column {at} = {value}")));
        parts.extend(self.time.map(|(from, to)| format!("from {from} ms to {to} ms")));
        let wanted = match &self.wanted {
            Wanted::Count => "the number of lines".to_owned(),
            Wanted::Latest { rows_max } => format!("the newest {rows_max} lines"),
            Wanted::CountBy { column } => format!("the number of lines by column {column}"),
            Wanted::CountOver { step_ms } => format!("the number of lines by {step_ms} ms"),
        };
        match parts.is_empty() {
            true => wanted,
            false => format!("{wanted} {}", parts.join(" and ")),
        }
    }
}

/// Makes one answer of those of several shards. `time` is the column by which rows are ordered. The
/// rows of a single one stay as it sent them, so that a wrong order is seen.
pub fn merged(parts: Vec<Answer>, search: &Search, time: Option<usize>) -> Answer {
    let several = parts.len() > 1;
    let mut count = 0;
    let mut rows: Vec<Row> = Vec::new();
    let mut groups = std::collections::BTreeMap::new();
    for part in parts {
        match part {
            Answer::Count(part) => count += part,
            Answer::Rows(part) => rows.extend(part),
            Answer::Groups(part) => {
                for (value, count) in part {
                    *groups.entry(value).or_default() += count;
                }
            }
            Answer::Done | Answer::Row(_) | Answer::Aggregate(_) => {}
        }
    }
    match search.wanted {
        Wanted::Count => Answer::Count(count),
        Wanted::Latest { rows_max } => {
            if let Some(time) = time.filter(|_| several) {
                rows.sort_by(|a, b| b.values[time].cmp(&a.values[time]));
                rows.truncate(rows_max);
            }
            Answer::Rows(rows)
        }
        Wanted::CountBy { .. } | Wanted::CountOver { .. } => {
            Answer::Groups(groups.into_iter().collect())
        }
    }
}
