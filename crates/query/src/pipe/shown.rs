//! Which fields behind the last `stats` of a query are labels, and which are numbers: followed from
//! pipe to pipe before the query runs.

use crate::block::NamePattern;

/// Which fields of rows are labels, and which are numbers.
#[derive(Default)]
pub(crate) struct Shown {
    /// Names of what groups rows.
    pub labels: Vec<String>,
    /// Names of numbers.
    pub values: Vec<String>,
}

impl Shown {
    pub fn add_label(&mut self, name: &str) {
        self.values.retain(|known| known != name);
        if !self.labels.iter().any(|known| known == name) {
            self.labels.push(name.to_owned());
        }
    }

    pub fn add_value(&mut self, name: &str) {
        self.labels.retain(|known| known != name);
        if !self.values.iter().any(|known| known == name) {
            self.values.push(name.to_owned());
        }
    }

    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.labels.retain(|name| wanted(name));
        self.values.retain(|name| wanted(name));
    }

    /// Gives fields other names; `moved`: the old names go.
    pub fn copy(&mut self, from: &NamePattern, to: &NamePattern, moved: bool) {
        let matching = |names: &[String]| -> Vec<String> {
            names.iter().filter(|name| from.matches(name)).cloned().collect()
        };
        let (labels, values) = (matching(&self.labels), matching(&self.values));
        if moved {
            self.retain(|name| !from.matches(name));
        }
        labels.iter().for_each(|name| self.add_label(&from.replaced(name, to)));
        values.iter().for_each(|name| self.add_value(&from.replaced(name, to)));
    }
}
