//! What a filter needs a line to hold, so that units without it are not read.
//!
//! A filter that selects a line by a word, a phrase, a value or a part of one, or by a regular expression with such a part, cannot select any where no value holds the
//! words of that text. Units that know the words of their lines say so ([`ScanUnit::may_hold`]); the tree of the filter
//! then says whether the unit can be left out. Left out here: case, numbers, and fields that
//! are computed; a filter on those may select lines of any unit.

use crate::filter::{Filter, Test};
use crate::source::{ScanUnit, SourceError};

/// A text that a value must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The text.
    pub text: String,
    /// Whether no word goes on before it in the value.
    pub whole_start: bool,
    /// Whether no word goes on behind it.
    pub whole_end: bool,
}

/// The phrases of a filter.
pub(crate) struct Needs<'f> {
    filter: &'f Filter,
    /// In the order of the tree.
    phrases: Vec<Phrase>,
}

impl<'f> Needs<'f> {
    pub fn new(filter: &'f Filter) -> Self {
        let mut phrases = Vec::new();
        collect(filter, &mut phrases);
        Needs { filter, phrases }
    }

    /// Whether a unit may have lines that the filter selects. It is not read for that.
    pub fn may_be_in(&self, unit: &dyn ScanUnit) -> Result<bool, SourceError> {
        if self.phrases.is_empty() {
            return Ok(true);
        }
        let Some(held) = unit.may_hold(&self.phrases)? else { return Ok(true) };
        assert_eq!(held.len(), self.phrases.len(), "an answer for each phrase");
        Ok(may_select(self.filter, &mut held.into_iter()))
    }
}

/// Appends the phrases of each part of the tree.
fn collect(filter: &Filter, out: &mut Vec<Phrase>) {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().for_each(|f| collect(f, out)),
        Filter::Field { name, test } if is_stored(name) => out.extend(test.needed().phrases),
        Filter::AnyField { test, .. } => out.extend(test.needed().phrases),
        Filter::Field { .. }
        | Filter::Fields { .. }
        | Filter::Subquery(_)
        | Filter::All
        | Filter::Not(_)
        | Filter::Time(_)
        | Filter::Recurring(_) => {}
    }
}

/// Whether the filter may select lines, given which of its phrases may be there.
fn may_select(filter: &Filter, held: &mut impl Iterator<Item = bool>) -> bool {
    // Every part takes its answers, whatever the parts before it said.
    match filter {
        Filter::And(filters) => filters.iter().fold(true, |all, f| may_select(f, held) & all),
        Filter::Or(filters) => filters.iter().fold(false, |any, f| may_select(f, held) | any),
        Filter::Field { name, test } if is_stored(name) => may_pass(test, held),
        Filter::AnyField { test, .. } => may_pass(test, held),
        Filter::Field { .. }
        | Filter::Fields { .. }
        | Filter::Subquery(_)
        | Filter::All
        | Filter::Not(_)
        | Filter::Time(_)
        | Filter::Recurring(_) => true,
    }
}

fn may_pass(test: &Test, held: &mut impl Iterator<Item = bool>) -> bool {
    let needed = test.needed();
    let held = held.take(needed.phrases.len());
    match needed.any {
        true => held.fold(false, |any, one| any | one),
        false => held.fold(true, |all, one| all & one),
    }
}

pub(crate) fn is_stored(name: &str) -> bool {
    !matches!(name, "_time" | "_received" | "_raw" | "_id" | "_stream")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use record::Batch;

    use super::*;
    use crate::query::Query;

    /// A unit with these words only.
    struct Words(&'static [&'static str]);

    impl ScanUnit for Words {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            None
        }
        fn lines(&self) -> u64 {
            1
        }
        fn bytes(&self) -> u64 {
            1
        }
        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            panic!("it is not read")
        }
        fn may_hold(&self, phrases: &[Phrase]) -> Result<Option<Vec<bool>>, SourceError> {
            Ok(Some(phrases.iter().map(|phrase| self.0.contains(&phrase.text.as_str())).collect()))
        }
    }

    #[test]
    fn units_without_the_words_are_left_out() {
        let check = |query: &str, expected: bool| {
            let query = Query::parse(query, 0).unwrap();
            let found = Needs::new(query.filter()).may_be_in(&Words(&["a", "b"]));
            assert_eq!(found.unwrap(), expected, "{query:?}");
        };
        check("*", true);
        check("a", true);
        check("x", false);
        check("a b", true);
        check("a x", false);
        check("a or x", true);
        check("x or y", false);
        check("(x or a) b", true);
        check("(x or y) b", false);
        check("a (x or !y)", true);
        check("!x", true);
        check("x or level:>5", true);
        check("app_name:=x", false);
        check("app_name:in(x)", false);
        check("app_name:in(x,y)", false);
        check("app_name:in(x,a)", true);
        check("app_name:in(x,\"\")", true);
        check("app_name:\"\"", true);
        check("_stream:x", true);
        check("_raw:x", true);
        check("~x", false);
        check("~a", true);
        check("~\"x|y\"", true);
        check("i(x)", true);
        check("*x*", false);
        check("x*", false);
        check("seq(a, x)", false);
        check("seq(a, b)", true);
        check("*:x", false);
        check("*:a", true);
        check("k8s*:x or *:a", true);
        check("k8s*:=x *:a", false);
        check("*:i(x)", true);
    }
}
