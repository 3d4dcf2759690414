//! Sets of field names: which fields of its lines a query needs.
//!
//! A set is an upper bound: it may have names that are not needed, never the other way round. Computed fields that are
//! shown only when asked for ([`HIDDEN`]) are in it only by their own name, not as part of "all".

use crate::block::{HIDDEN, NamePattern};
use crate::filter::Filter;
use crate::pipe::write_patterns;

/// A set of field names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    wanted: Vec<NamePattern>,
    /// Names that patterns with a beginning would take in, but are not meant.
    left_out: Vec<NamePattern>,
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

    /// All fields that are shown when nothing else is said.
    pub fn all() -> FieldSet {
        FieldSet { wanted: vec![NamePattern::ANY], left_out: Vec::new() }
    }

    /// Whether a field is in it.
    pub fn contains(&self, name: &str) -> bool {
        if HIDDEN.contains(&name) {
            return self.names_exactly(name);
        }
        self.wanted.iter().any(|p| p.matches(name))
            && !self.left_out.iter().any(|p| p.matches(name))
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The names of all its fields; none where it has them by their beginnings.
    pub(crate) fn names(&self) -> Option<Vec<&str>> {
        self.wanted.iter().map(|p| (!p.prefix).then_some(p.name.as_str())).collect()
    }

    /// The set as it is shown to people.
    pub(crate) fn shown(&self) -> String {
        let mut shown = match self.wanted.is_empty() {
            true => "none".to_owned(),
            false => write_patterns(&self.wanted),
        };
        if !self.left_out.is_empty() {
            shown += &format!(", but not {}", write_patterns(&self.left_out));
        }
        shown
    }

    fn names_exactly(&self, name: &str) -> bool {
        self.wanted.iter().any(|p| !p.prefix && p.name == name)
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
        self.left_out.retain(|p| !overlap(p, pattern));
        if !self.wanted.iter().any(|p| covers(p, pattern)) || is_hidden(pattern) {
            self.wanted.retain(|p| !covers(pattern, p) || is_hidden(p));
            self.wanted.push(pattern.clone());
        }
    }

    /// Adds the fields of another set.
    pub fn add_set(&mut self, other: &FieldSet) {
        // What one of them leaves out, the other may want.
        let both_leave_out = |p: &NamePattern| {
            self.left_out.contains(p) && !other.wanted.iter().any(|w| overlap(w, p))
                || other.left_out.contains(p) && !self.wanted.iter().any(|w| overlap(w, p))
                || self.left_out.contains(p) && other.left_out.contains(p)
        };
        let left_out: Vec<NamePattern> = self
            .left_out
            .iter()
            .chain(&other.left_out)
            .filter(|p| both_leave_out(p))
            .cloned()
            .collect();
        self.left_out.clear();
        other.wanted.iter().for_each(|p| self.add_pattern(p));
        self.left_out = left_out;
    }

    /// Takes out the fields that a pattern matches.
    pub fn remove_pattern(&mut self, pattern: &NamePattern) {
        self.wanted.retain(|p| !covers(pattern, p) || pattern.prefix && is_hidden(p));
        let taken_in = self.wanted.iter().any(|p| p.prefix && overlap(p, pattern));
        if taken_in && !self.left_out.iter().any(|p| covers(p, pattern)) {
            self.left_out.push(pattern.clone());
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) {
        self.remove_pattern(&NamePattern::exact(name));
    }

    /// Takes out the fields that no pattern matches; those that are hidden until they are named stay.
    pub fn retain(&mut self, patterns: &[NamePattern]) {
        let mut kept: Vec<NamePattern> =
            self.wanted.iter().filter(|p| is_hidden(p)).cloned().collect();
        for pattern in patterns {
            for wanted in &self.wanted {
                let narrower = if covers(pattern, wanted) { wanted } else { pattern };
                let exact_and_left_out =
                    !narrower.prefix && self.left_out.iter().any(|p| covers(p, narrower));
                if overlap(pattern, wanted) && !exact_and_left_out && !kept.contains(narrower) {
                    kept.push(narrower.clone());
                }
            }
        }
        self.wanted = kept;
    }

    /// Adds the fields that a filter looks at.
    pub fn add_filter(&mut self, filter: &Filter) {
        match filter {
            Filter::All => {}
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().for_each(|f| self.add_filter(f));
            }
            Filter::Not(filter) => self.add_filter(filter),
            Filter::Time(_) | Filter::Recurring(_) => self.add("_time"),
            Filter::Fields { left, right, .. } => {
                self.add(left);
                self.add(right);
            }
            Filter::Field { name, .. } => self.add(name),
            Filter::AnyField { beginning, .. } => {
                self.add_pattern(&NamePattern { name: beginning.clone(), prefix: true });
            }
            Filter::Subquery(subquery) => self.add_pattern(&subquery.field),
        }
    }
}

fn is_hidden(pattern: &NamePattern) -> bool {
    !pattern.prefix && HIDDEN.contains(&pattern.name.as_str())
}

/// Whether `wide` matches all that `narrow` does.
fn covers(wide: &NamePattern, narrow: &NamePattern) -> bool {
    if wide.prefix { narrow.name.starts_with(&wide.name) } else { wide == narrow }
}

/// Whether some name may match both.
fn overlap(a: &NamePattern, b: &NamePattern) -> bool {
    covers(a, b) || covers(b, a)
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
        /// It may have more than it should, never less.
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
