//! The phrases that a filter needs in a line. Units without them are not read.
//!
//! A filter by a word, a phrase, a value or a part of one, or by a regular expression with a
//! literal part, selects a line only if some value holds the words of that text. Units with a word
//! filter report whether they may hold a phrase. The tree of needs then decides whether the unit
//! can be skipped.
//!
//! Left out: case-insensitive texts, numbers and computed fields, since a filter on those may
//! select lines of any unit; and asking the units, which `exec/words.rs` does.

use record::Tenant;
use text::quoted::quote;

use crate::base::names::is_stored;
use crate::base::{Phrase, Phrases};
use crate::lang::filter::{Filter, Test, tests_of};

/// What a filter needs, computed once for all units.
pub(crate) struct Needs {
    need: Need,
    /// The need of each [test](tests_of) of the filter, negated tests included.
    tests: Vec<Need>,
    phrases: Phrases,
    /// The only tenants of whom it selects lines; none where it may be any.
    tenants: Option<Vec<Tenant>>,
}

/// What the words of a unit rule out, before the unit is read. By default nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RuledOut {
    /// Whether the unit has no line that the filter selects.
    pub unit: bool,
    /// For each [test](tests_of) of the filter, whether no value of the unit can pass it. Empty
    /// where this is unknown, and where the whole unit is ruled out.
    pub tests: Vec<bool>,
}

/// A condition that a unit must meet for the filter to select lines of it.
#[derive(Clone)]
enum Need {
    /// The phrase at this index.
    Phrase(usize),
    /// All of these.
    All(Vec<Need>),
    /// At least one of these.
    Any(Vec<Need>),
}

impl Needs {
    pub fn new(filter: &Filter) -> Self {
        let mut phrases = Phrases::default();
        let each = tests_of(filter).into_iter();
        let tests: Vec<Need> = each.map(|test| Need::of_test(test, &mut phrases.all)).collect();
        let need = Need::of(filter, &mut tests.iter());
        Needs { need, tests, phrases, tenants: filter.tenants() }
    }

    /// Whether a unit that holds only lines of that tenant has none that the filter selects.
    pub fn rules_out(&self, tenant: Tenant) -> bool {
        self.tenants.as_ref().is_some_and(|wanted| !wanted.contains(&tenant))
    }

    /// Whether there is something to ask a unit, before it is read.
    pub fn ask(&self) -> bool {
        self.tenants.is_some() || !self.phrases.all.is_empty()
    }

    /// What the phrases of a unit rule out: `held` says for each phrase whether the unit may hold
    /// it.
    pub fn ruled_out(&self, held: &[bool]) -> RuledOut {
        assert_eq!(held.len(), self.phrases.all().len(), "an answer for each phrase");
        match self.need.is_met(held) {
            true => RuledOut { unit: false, tests: self.passing(held).map(|may| !may).collect() },
            false => RuledOut { unit: true, tests: Vec::new() },
        }
    }

    /// For each [test](tests_of) of the filter, whether a unit that holds these phrases may hold a
    /// value that passes it.
    pub fn passing(&self, held: &[bool]) -> impl Iterator<Item = bool> {
        self.tests.iter().map(|test| test.is_met(held))
    }

    /// Number of tests of the filter.
    pub fn tests(&self) -> usize {
        self.tests.len()
    }

    /// The phrases, which a unit is asked about.
    pub fn phrases(&self) -> &Phrases {
        &self.phrases
    }

    /// The needs as an expression of phrases; none where nothing is needed.
    pub fn shown(&self) -> Option<String> {
        self.need.shown(self.phrases.all(), false)
    }
}

impl Need {
    /// The need as an expression; none where it is always met. `inside`: puts parentheses around an
    /// expression of several parts.
    fn shown(&self, phrases: &[Phrase], inside: bool) -> Option<String> {
        let (needs, word) = match self {
            Need::Phrase(place) => return Some(quote(&phrases[*place].text)),
            Need::Any(needs) if needs.is_empty() => return Some("one of no words".to_owned()),
            Need::All(needs) => (needs, " and "),
            Need::Any(needs) => (needs, " or "),
        };
        let parts: Vec<Option<String>> = needs.iter().map(|n| n.shown(phrases, true)).collect();
        if matches!(self, Need::Any(_)) && parts.iter().any(Option::is_none) {
            return None;
        }
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.len() {
            0 => None,
            1 => parts.into_iter().next(),
            _ if inside => Some(format!("({})", parts.join(word))),
            _ => Some(parts.join(word)),
        }
    }

    /// What a filter needs; `tests` gives the needs of its tests.
    fn of<'n>(filter: &Filter, tests: &mut impl Iterator<Item = &'n Need>) -> Need {
        match filter {
            Filter::And(filters) => Need::All(Need::of_each(filters, tests)),
            Filter::Or(filters) => Need::Any(Need::of_each(filters, tests)),
            Filter::Not(filter) => {
                let _ = Need::of(filter, tests);
                Need::All(Vec::new())
            }
            Filter::Field { name, .. } if is_stored(name) => Need::next(tests),
            Filter::AnyField { .. } => Need::next(tests),
            Filter::Field { .. }
            | Filter::Fields { .. }
            | Filter::Subquery(_)
            | Filter::All
            | Filter::Time(_)
            | Filter::Recurring(_) => Need::All(Vec::new()),
        }
    }

    fn next<'n>(tests: &mut impl Iterator<Item = &'n Need>) -> Need {
        tests.next().expect("one for each test").clone()
    }

    fn of_each<'n>(filters: &[Filter], tests: &mut impl Iterator<Item = &'n Need>) -> Vec<Need> {
        filters.iter().map(|filter| Need::of(filter, tests)).collect()
    }

    fn of_test(test: &Test, phrases: &mut Vec<Phrase>) -> Need {
        let needed = test.needed();
        let places = phrases.len()..phrases.len() + needed.phrases.len();
        phrases.extend(needed.phrases);
        let needs = places.map(Need::Phrase).collect();
        if needed.any { Need::Any(needs) } else { Need::All(needs) }
    }

    /// Whether the need is met; `held` says for each phrase whether the unit may hold it.
    fn is_met(&self, held: &[bool]) -> bool {
        match self {
            Need::Phrase(place) => held[*place],
            Need::All(needs) => needs.iter().all(|need| need.is_met(held)),
            Need::Any(needs) => needs.iter().any(|need| need.is_met(held)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::syntax::query::Query;

    #[test]
    fn a_source_makes_something_of_phrases_once() {
        let query = Query::parse("a b", 0).unwrap();
        let needs = Needs::new(query.filter());
        let count = |phrases: &[Phrase]| phrases.len();
        assert_eq!(needs.phrases.made(count), &2);
        let again: &usize = needs.phrases.made(|_| panic!("it was made before"));
        assert_eq!(again, &2);
    }
}
