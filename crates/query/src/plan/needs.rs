//! The phrases that a filter needs in a line. Units without them are not read.
//!
//! A filter by a word, a phrase, a value or a part of one, or by a regular expression with a
//! literal part, selects a line only if some value holds the words of that text. Units with a word
//! filter report whether they may hold a phrase ([`ScanUnit::may_hold`]). The tree of needs then
//! decides whether the unit can be skipped. Left out: case-insensitive texts, numbers and computed
//! fields; a filter on those may select lines of any unit.

use std::any::Any;
use std::sync::OnceLock;

use crate::block::{LINE, LINE_ID, RAW_LINE};
use crate::filter::{Filter, Test};
use crate::source::{ScanUnit, SourceError};
use crate::syntax::cursor::quote;

/// A text that a value must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The text.
    pub text: String,
    /// Whether the text must begin at the start of a word of the value.
    pub whole_start: bool,
    /// Whether the text must end at the end of a word of the value.
    pub whole_end: bool,
}

/// The phrases that a query needs, and what a source prepares from them once for all its units, of
/// which a query may read very many.
#[derive(Debug, Default)]
pub struct Phrases {
    all: Vec<Phrase>,
    made: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Phrases {
    /// All phrases.
    pub fn all(&self) -> &[Phrase] {
        &self.all
    }

    /// What `make` prepares from the phrases, computed at the first call. All units of a query must
    /// ask for the same type and value.
    pub fn made<T: Any + Send + Sync>(&self, make: impl FnOnce(&[Phrase]) -> T) -> &T {
        let made = self.made.get_or_init(|| Box::new(make(&self.all)));
        made.downcast_ref().expect("a source makes one thing of phrases")
    }
}

/// What a filter needs, computed once for all units.
pub(crate) struct Needs {
    need: Need,
    /// The need of each [test](tests_of) of the filter, negated tests included.
    tests: Vec<Need>,
    phrases: Phrases,
}

/// What the words of a unit rule out, before the unit is read.
pub(crate) struct Known {
    /// Whether the unit may have lines that the filter selects.
    pub may_pass: bool,
    /// For each test of the [filter](tests_of), whether no value of the unit can pass it. Empty
    /// where this is unknown, and where no line of the unit can pass the filter.
    pub ruled_out: Vec<bool>,
}

/// The tests of stored fields in a filter, each once, in the order of the text.
pub(crate) fn tests_of(filter: &Filter) -> Vec<&Test> {
    let test = |leaf| match leaf {
        &Filter::Field { ref test, .. } | &Filter::AnyField { ref test, .. } => Some(test),
        _ => None,
    };
    leaves_of(filter).into_iter().filter_map(test).collect()
}

/// The filters that hold the [tests](tests_of), with the names of their fields.
pub(crate) fn leaves_of(filter: &Filter) -> Vec<&Filter> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().flat_map(leaves_of).collect(),
        Filter::Not(filter) => leaves_of(filter),
        Filter::Field { name, .. } if is_stored(name) => vec![filter],
        Filter::AnyField { .. } => vec![filter],
        _ => Vec::new(),
    }
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
        Needs { need: Need::of(filter, &mut tests.iter()), tests, phrases }
    }

    /// Evaluates the needs by the words of a unit, without reading the unit.
    pub fn known(&self, unit: &dyn ScanUnit) -> Result<Known, SourceError> {
        let unknown = Known { may_pass: true, ruled_out: Vec::new() };
        if self.phrases.all.is_empty() {
            return Ok(unknown);
        }
        let Some(held) = unit.may_hold(&self.phrases)? else { return Ok(unknown) };
        assert_eq!(held.len(), self.phrases.all.len(), "an answer for each phrase");
        if !self.need.is_met(&held) {
            return Ok(Known { may_pass: false, ruled_out: Vec::new() });
        }
        let ruled_out = self.tests.iter().map(|test| !test.is_met(&held)).collect();
        Ok(Known { may_pass: true, ruled_out })
    }

    /// For each [test](tests_of) of the filter, the ascending indexes of those of `units` that may
    /// hold a value that passes it; none where this is unknown of a unit. The units are not read.
    pub fn open_units(
        &self,
        units: &[&dyn ScanUnit],
    ) -> Result<Option<Vec<Vec<usize>>>, SourceError> {
        if self.phrases.all.is_empty() {
            return Ok(None);
        }
        let mut open = vec![Vec::new(); self.tests.len()];
        for (index, unit) in units.iter().enumerate() {
            let Some(held) = unit.may_hold(&self.phrases)? else { return Ok(None) };
            for (open, test) in open.iter_mut().zip(&self.tests) {
                if test.is_met(&held) {
                    open.push(index);
                }
            }
        }
        Ok(Some(open))
    }
}

impl Needs {
    /// The needs as an expression of phrases; none where nothing is needed.
    pub fn shown(&self) -> Option<String> {
        self.need.shown(&self.phrases.all, false)
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

pub(crate) fn is_stored(name: &str) -> bool {
    !matches!(name, "_time" | "_received" | LINE | LINE_ID | RAW_LINE | "_stream")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use record::Batch;

    use super::*;
    use crate::syntax::query::Query;

    /// A unit that holds only these words.
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
        fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
            let held = |phrase: &Phrase| self.0.contains(&phrase.text.as_str());
            Ok(Some(phrases.all().iter().map(held).collect()))
        }
    }

    #[test]
    fn a_source_makes_something_of_phrases_once() {
        let query = Query::parse("a b", 0).unwrap();
        let needs = Needs::new(query.filter());
        let count = |phrases: &[Phrase]| phrases.len();
        assert_eq!(needs.phrases.made(count), &2);
        let again: &usize = needs.phrases.made(|_| panic!("it was made before"));
        assert_eq!(again, &2);
    }

    #[test]
    fn tests_that_no_value_passes_are_known() {
        let check = |query: &str, expected: &[bool]| {
            let query = Query::parse(query, 0).unwrap();
            let found = Needs::new(query.filter()).known(&Words(&["a", "b"]));
            assert_eq!(found.unwrap().ruled_out, expected, "{query:?}");
        };
        check("*", &[]);
        check("!x", &[true]);
        check("!a", &[false]);
        check("a !(x or b)", &[false, true, false]);
        check("_time:5m x or level:>5 !*:x", &[true, false, true]);
        check("_line:q !x", &[true]);
        // The whole unit is skipped, so no test is ruled out.
        check("x", &[]);
    }

    #[test]
    fn units_without_the_words_are_left_out() {
        let check = |query: &str, expected: bool| {
            let query = Query::parse(query, 0).unwrap();
            let found = Needs::new(query.filter()).known(&Words(&["a", "b"]));
            assert_eq!(found.unwrap().may_pass, expected, "{query:?}");
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
        check("_line:x", true);
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
