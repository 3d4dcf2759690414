//! Sets of field names: the fields of lines that a query needs.
//!
//! A set is an upper bound: it may contain names that are not needed, but never lacks one that is.
//! Computed fields that are shown only on request ([`HIDDEN`]) are in a set only by their own name;
//! "all" does not include them.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::base::names::{HIDDEN, NamePattern};

/// A set of field names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    wanted: Patterns,
    /// Exceptions: names and beginnings that the wanted beginnings match, but that are not in the
    /// set.
    left_out: Patterns,
}

impl FieldSet {
    /// No field.
    pub fn none() -> FieldSet {
        FieldSet::default()
    }

    /// These fields.
    pub(crate) fn of<'n>(names: impl IntoIterator<Item = &'n String>) -> FieldSet {
        let mut set = FieldSet::none();
        set.add_all(names);
        set
    }

    /// All fields that are shown by default.
    pub fn all() -> FieldSet {
        let mut set = FieldSet::none();
        set.wanted.insert(&NamePattern::ANY);
        set
    }

    /// Whether a field is in the set.
    pub fn contains(&self, name: &str) -> bool {
        if HIDDEN.contains(&name) {
            return self.wanted.names.contains(name);
        }
        self.wanted.matches(name) && !self.left_out.matches(name)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.wanted.names.is_empty() && self.wanted.beginnings.is_empty()
    }

    /// The names of all its fields; none where the set contains beginnings of names.
    pub(crate) fn names(&self) -> Option<Vec<&str>> {
        let names = self.wanted.names.iter().map(String::as_str);
        self.wanted.beginnings.is_empty().then(|| names.collect())
    }

    /// Its names and beginnings of names, and the exceptions from these.
    pub(crate) fn patterns(&self) -> [Vec<NamePattern>; 2] {
        [self.wanted.all().collect(), self.left_out.all().collect()]
    }

    /// Adds a field.
    pub fn add(&mut self, name: &str) {
        self.add_pattern(&NamePattern::exact(name));
    }

    /// Adds fields.
    pub fn add_all<'n>(&mut self, names: impl IntoIterator<Item = &'n String>) {
        names.into_iter().for_each(|name| self.add(name));
    }

    /// Adds the fields that a pattern matches.
    pub fn add_pattern(&mut self, pattern: &NamePattern) {
        self.left_out.remove_covering(pattern);
        self.left_out.remove_covered(pattern, |_| true);
        if !self.wanted.covers(pattern) || is_hidden(pattern) {
            self.wanted.remove_covered(pattern, |name| !HIDDEN.contains(&name));
            self.wanted.insert(pattern);
        }
    }

    /// Adds the fields of another set.
    pub fn add_set(&mut self, other: &FieldSet) {
        // An exception of one set remains only if the other set does not want the name.
        let both_leave_out = |p: &NamePattern| {
            self.left_out.has(p) && !other.wanted.overlaps(p)
                || other.left_out.has(p) && !self.wanted.overlaps(p)
                || self.left_out.has(p) && other.left_out.has(p)
        };
        let mut left_out = Patterns::default();
        let both = self.left_out.all().chain(other.left_out.all());
        both.filter(both_leave_out).for_each(|p| left_out.insert(&p));
        self.left_out = Patterns::default();
        other.wanted.all().for_each(|p| self.add_pattern(&p));
        self.left_out = left_out;
    }

    /// Removes the fields that a pattern matches.
    pub fn remove_pattern(&mut self, pattern: &NamePattern) {
        self.wanted.remove_covered(pattern, |name| !pattern.prefix || !HIDDEN.contains(&name));
        let taken_in = self.wanted.begins(&pattern.name);
        if taken_in && !self.left_out.covers(pattern) {
            self.left_out.insert(pattern);
        }
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) {
        self.remove_pattern(&NamePattern::exact(name));
    }

    /// Keeps only the fields that a pattern matches, and the hidden fields.
    pub fn retain(&mut self, patterns: &[NamePattern]) {
        let mut kept = Patterns::default();
        self.wanted.all().filter(is_hidden).for_each(|p| kept.insert(&p));
        for pattern in patterns {
            let wider = self.wanted.covers(pattern).then(|| pattern.clone());
            for narrower in wider.into_iter().chain(self.wanted.covered(pattern)) {
                if narrower.prefix || !self.left_out.covers(&narrower) {
                    kept.insert(&narrower);
                }
            }
        }
        self.wanted = kept;
    }
}

fn is_hidden(pattern: &NamePattern) -> bool {
    !pattern.prefix && HIDDEN.contains(&pattern.name.as_str())
}

/// Patterns in the order of their texts, so that those that cover a pattern, or are covered by it,
/// are found without testing each: a query may name tens of thousands of fields. A pattern covers
/// another if it matches all names that the other matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    names: BTreeSet<String>,
    beginnings: BTreeSet<String>,
}

impl Patterns {
    fn insert(&mut self, pattern: &NamePattern) {
        let texts = if pattern.prefix { &mut self.beginnings } else { &mut self.names };
        if !texts.contains(&pattern.name) {
            texts.insert(pattern.name.clone());
        }
    }

    fn has(&self, pattern: &NamePattern) -> bool {
        let texts = if pattern.prefix { &self.beginnings } else { &self.names };
        texts.contains(&pattern.name)
    }

    fn all(&self) -> impl Iterator<Item = NamePattern> {
        let beginnings = self.beginnings.iter().cloned();
        let beginnings = beginnings.map(|name| NamePattern { name, prefix: true });
        self.names.iter().map(|name| NamePattern::exact(name)).chain(beginnings)
    }

    /// A beginning in the set with which `text` begins.
    fn beginning_of(&self, text: &str) -> Option<&String> {
        let mut part = text;
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(part));
            let last = self.beginnings.range::<str, _>(up_to).next_back()?;
            if text.starts_with(last.as_str()) {
                return Some(last);
            }
            // Every text between a beginning of `text` and `text` itself starts with that
            // beginning. As `last` does not, a match is no longer than the common part of both.
            let common = part.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
            part = &part[..part.floor_char_boundary(common)];
        }
    }

    fn begins(&self, text: &str) -> bool {
        self.beginning_of(text).is_some()
    }

    /// Whether a pattern of the set matches a name.
    fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.begins(name)
    }

    /// Whether a pattern of the set covers this pattern.
    fn covers(&self, pattern: &NamePattern) -> bool {
        !pattern.prefix && self.names.contains(&pattern.name) || self.begins(&pattern.name)
    }

    /// The patterns of the set that this pattern covers.
    fn covered<'s>(&'s self, pattern: &'s NamePattern) -> impl Iterator<Item = NamePattern> + 's {
        let names = covered(&self.names, pattern, false).map(|name| NamePattern::exact(name));
        let beginnings = covered(&self.beginnings, pattern, true).cloned();
        names.chain(beginnings.map(|name| NamePattern { name, prefix: true }))
    }

    /// Whether some name matches both this pattern and a pattern of the set.
    fn overlaps(&self, pattern: &NamePattern) -> bool {
        self.covers(pattern) || self.covered(pattern).next().is_some()
    }

    /// Removes the patterns that this pattern covers; names only where `goes` holds.
    fn remove_covered(&mut self, pattern: &NamePattern, goes: impl Fn(&str) -> bool) {
        let names = covered(&self.names, pattern, false).filter(|name| goes(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.names.remove(&name);
        }
        for name in covered(&self.beginnings, pattern, true).cloned().collect::<Vec<_>>() {
            self.beginnings.remove(&name);
        }
    }

    /// Removes the patterns that cover this pattern.
    fn remove_covering(&mut self, pattern: &NamePattern) {
        while let Some(beginning) = self.beginning_of(&pattern.name).cloned() {
            self.beginnings.remove(&beginning);
        }
        if !pattern.prefix {
            self.names.remove(&pattern.name);
        }
    }
}

/// The names, or the beginnings of names, that a pattern covers.
fn covered<'s>(
    texts: &'s BTreeSet<String>,
    pattern: &'s NamePattern,
    are_beginnings: bool,
) -> impl Iterator<Item = &'s String> {
    let NamePattern { name, prefix } = pattern;
    // A single name covers itself, but no beginning.
    let from = texts.range::<str, _>((Bound::Included(name.as_str()), Bound::Unbounded));
    from.take_while(move |text| match prefix {
        true => text.starts_with(name.as_str()),
        false => *text == name && !are_beginnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_fields_are_in_by_their_name_only() {
        let mut set = FieldSet::all();
        assert!(set.contains("a") && set.contains("_time") && !set.contains("_line"));
        set.add("_line");
        assert!(set.contains("_line"));
        set.remove_pattern(&NamePattern::ANY);
        assert!(set.contains("_line") && !set.contains("a"));
        set.retain(&[NamePattern::exact("a")]);
        assert!(set.contains("_line"));
        set.remove("_line");
        assert!(set.is_empty());
    }

    const NAMES: &[&str] = &["a", "ab", "abc", "b", "bc", "ba", ""];

    #[derive(Clone, Debug)]
    enum Step {
        Add(NamePattern),
        Remove(NamePattern),
        Retain(Vec<NamePattern>),
        AddSet(Vec<(bool, NamePattern)>),
    }

    fn any_pattern() -> impl Strategy<Value = NamePattern> + Clone {
        (prop::sample::select(NAMES), any::<bool>())
            .prop_map(|(name, prefix)| NamePattern { name: name.to_owned(), prefix })
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            any_pattern().prop_map(Step::Add),
            any_pattern().prop_map(Step::Remove),
            prop::collection::vec(any_pattern(), 0..3).prop_map(Step::Retain),
            prop::collection::vec((any::<bool>(), any_pattern()), 0..4).prop_map(Step::AddSet),
        ]
    }

    fn built(steps: &[(bool, NamePattern)], set: &mut FieldSet, naive: &mut Vec<&'static str>) {
        for (adds, pattern) in steps {
            if *adds {
                set.add_pattern(pattern);
                naive.extend(NAMES.iter().filter(|n| pattern.matches(n)));
            } else {
                set.remove_pattern(pattern);
                naive.retain(|n| !pattern.matches(n));
            }
        }
    }

    proptest! {
        /// The set may contain fields that are not needed, but never lacks one that is.
        #[test]
        fn no_needed_field_is_missing(all in any::<bool>(), steps in prop::collection::vec(any_step(), 0..8)) {
            let mut set = if all { FieldSet::all() } else { FieldSet::none() };
            let mut naive: Vec<&str> = if all { NAMES.to_vec() } else { Vec::new() };
            for step in &steps {
                match step {
                    Step::Add(p) => built(&[(true, p.clone())], &mut set, &mut naive),
                    Step::Remove(p) => built(&[(false, p.clone())], &mut set, &mut naive),
                    Step::Retain(patterns) => {
                        set.retain(patterns);
                        naive.retain(|n| patterns.iter().any(|p| p.matches(n)));
                    }
                    Step::AddSet(steps) => {
                        let mut other = FieldSet::none();
                        built(steps, &mut other, &mut naive.clone());
                        let mut others = Vec::new();
                        built(steps, &mut FieldSet::none(), &mut others);
                        set.add_set(&other);
                        naive.extend(others);
                    }
                }
                for name in &naive {
                    prop_assert!(set.contains(name), "{name} is not in {set:?}");
                }
                if let Step::Remove(p) = step {
                    prop_assert!(NAMES.iter().all(|n| !p.matches(n) || !set.contains(n)), "{p:?} is in {set:?}");
                }
            }
        }
    }
}
