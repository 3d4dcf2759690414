//! Determines which fields behind the last `stats` of a query are labels and which are numbers,
//! pipe by pipe, before the query runs.

use std::collections::HashMap;

use crate::base::names::NamePattern;

/// The meaning of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Groups rows.
    Label,
    /// Is a number.
    Value,
}

/// The fields of rows that are labels, and those that are numbers.
///
/// A query may have thousands of names, so they are found by hash.
#[derive(Default)]
pub(crate) struct Shown {
    /// By name: the kind of a field, and a counter that orders the fields by their addition.
    fields: HashMap<String, (Kind, u64)>,
    added: u64,
}

impl Shown {
    pub fn add_label(&mut self, name: &str) {
        self.add(name, Kind::Label);
    }

    pub fn add_value(&mut self, name: &str) {
        self.add(name, Kind::Value);
    }

    /// Adds a field. A field that exists with the same kind keeps its position.
    fn add(&mut self, name: &str, kind: Kind) {
        if self.fields.get(name).is_some_and(|(known, _)| *known == kind) {
            return;
        }
        self.fields.insert(name.to_owned(), (kind, self.added));
        self.added += 1;
    }

    pub fn is_label(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|(kind, _)| *kind == Kind::Label)
    }

    /// The names of the fields that group rows, in the order of their addition.
    pub fn labels(&self) -> Vec<String> {
        self.of_kind(Kind::Label, |_| true)
    }

    /// The names of numbers, in the order of their addition.
    pub fn values(&self) -> Vec<String> {
        self.of_kind(Kind::Value, |_| true)
    }

    fn of_kind(&self, kind: Kind, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let fields = self.fields.iter().filter(|(name, (k, _))| *k == kind && wanted(name));
        let mut ordered: Vec<(u64, &String)> = fields.map(|(name, (_, n))| (*n, name)).collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, name)| name.clone()).collect()
    }

    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.fields.retain(|name, _| wanted(name));
    }

    /// Copies fields under other names; `moved`: the old names are removed.
    pub fn copy(&mut self, from: &NamePattern, to: &NamePattern, moved: bool) {
        let labels = self.of_kind(Kind::Label, |name| from.matches(name));
        let values = self.of_kind(Kind::Value, |name| from.matches(name));
        if moved {
            self.retain(|name| !from.matches(name));
        }
        labels.iter().for_each(|name| self.add_label(&from.replaced(name, to)));
        values.iter().for_each(|name| self.add_value(&from.replaced(name, to)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_or_a_number() {
        let mut shown = Shown::default();
        shown.add_label("host");
        shown.add_label("app");
        shown.add_value("n");
        shown.add_label("host");
        assert_eq!(shown.labels(), ["host", "app"]);
        shown.add_value("host");
        assert_eq!(shown.labels(), ["app"]);
        assert_eq!(shown.values(), ["n", "host"]);
        assert!(shown.is_label("app") && !shown.is_label("host") && !shown.is_label("other"));
    }
}
