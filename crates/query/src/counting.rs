//! Questions that only count the lines with a text in one field: `error | stats count()`.
//!
//! A unit that can count such lines without giving them ([`ScanUnit::count`]) is asked to; the number goes to the
//! pipe as it is. Left out: groups, conditions, filters of other kinds; those look at lines.

use crate::filter::{Filter, PhraseFinder, Test};
use crate::needs::is_stored;
use crate::pipe::{Function, Pipe};
use crate::query::Query;
use crate::source::{Counted, ScanUnit, SourceError};

/// What is counted.
pub(crate) struct Counting<'q> {
    field: &'q str,
    text: &'q str,
    /// None: occurrences anywhere.
    words: Option<PhraseFinder>,
}

impl<'q> Counting<'q> {
    /// None when the question does more.
    pub fn of(query: &'q Query) -> Option<Self> {
        let [Pipe::Stats(stats)] = query.pipes() else { return None };
        let counts = |f: &crate::pipe::StatsFunction| {
            f.filter.is_none()
                && matches!(&f.function, Function::Count(fields) if fields.is_empty())
        };
        if !stats.by.is_empty() || !stats.functions.iter().all(counts) {
            return None;
        }
        let (field, test) = one_test(query.filter())?;
        let (text, words) = match test {
            Test::Phrase(text) => (text, Some(PhraseFinder::new(text, false))),
            Test::Substring(text) => (text, None),
            _ => return None,
        };
        (is_stored(field) && !text.is_empty()).then_some(Counting { field, text, words })
    }

    /// The lines of a unit whose event times are all wanted.
    pub fn count_in(&self, unit: &dyn ScanUnit) -> Result<Option<u64>, SourceError> {
        let text = self.text.as_bytes();
        let Some(words) = &self.words else {
            return unit.count(&Counted { field: self.field, text, accept: None });
        };
        let accept = |value: &[u8], at: usize| words.accepts(value, at);
        unit.count(&Counted { field: self.field, text, accept: Some(&accept) })
    }
}

/// The one test of a filter that besides looks at times only.
fn one_test(filter: &Filter) -> Option<(&str, &Test)> {
    match filter {
        Filter::Field { name, test } => Some((name, test)),
        Filter::And(filters) => {
            let mut others = filters.iter().filter(|f| !matches!(f, Filter::Time(_)));
            match (others.next(), others.next()) {
                (Some(Filter::Field { name, test }), None) => Some((name, test)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_of_one_text_are_counted_so() {
        let check = |text: &str, expected: Option<(&str, &str, bool)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = Counting::of(&query);
            let found = found.as_ref().map(|c| (c.field, c.text, c.words.is_some()));
            assert_eq!(found, expected, "{text}");
        };
        check("error | stats count()", Some(("_msg", "error", true)));
        check("error | stats count() as a, count() as b", Some(("_msg", "error", true)));
        check("_time:5m path:*xy* | stats count()", Some(("path", "xy", false)));
        check("error fatal | stats count()", None);
        check("error | stats by (level) count()", None);
        check("error | stats count(level)", None);
        check("error | stats count() if (fatal)", None);
        check("error | stats count() | limit 1", None);
        check("error or fatal | stats count()", None);
        check("* | stats count()", None);
        check("_stream:error | stats count()", None);
        check("error", None);
    }
}
