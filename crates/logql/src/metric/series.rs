//! Series of points.

use crate::ast::Grouping;
use crate::stage::Labels;

/// The result of a query for samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number for all times.
    Scalar(f64),
    /// Series, each with labels of its own.
    Series(Vec<Series>),
}

/// Points with the same labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels, in order of names.
    pub labels: Labels,
    /// A point for each time of the grid; `None` where there is no sample.
    pub points: Vec<Option<f64>>,
}

/// The value of a label; empty if it is missing.
pub fn label<'l>(labels: &'l Labels, name: &str) -> &'l str {
    labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
}

/// Sets a label; an empty value removes it.
pub fn set_label(labels: &mut Labels, name: &str, value: &str) {
    labels.retain(|(label, _)| label != name);
    if !value.is_empty() {
        let place = labels.partition_point(|(label, _)| label.as_str() < name);
        labels.insert(place, (name.to_owned(), value.to_owned()));
    }
}

/// The labels that a grouping keeps.
pub fn grouped(labels: &Labels, grouping: &Grouping) -> Labels {
    labels.iter().filter(|(name, _)| grouping.keeps(name)).cloned().collect()
}
