//! Finds the lines of a block whose value of a field passes an automaton, while assembling as few
//! values as possible.
//!
//! A template column evaluates the automaton on its own values. If the field contains others, the
//! automaton continues from part to part, and a line is skipped as soon as it is decided: a column
//! that no line reaches is not decoded.

use record::automaton::{Automaton, UNSURE, YES};
use record::columns::Decide;

use super::parts::Parts;
use super::search::indexes_of;
use super::{BlockColumns, Fault};
use crate::sealed::column::WRONG_TEMPLATES;
use crate::sealed::column::{Column, Encoding};
use crate::sealed::field::Source;
use crate::sealed::pack::Element;

/// A test of values, with an automaton.
struct ValueTest<'q> {
    automaton: &'q Automaton,
    test: &'q dyn Decide,
}

/// What is known about the lines of one layout.
enum Passing {
    /// All lines pass, or none.
    Alike(bool),
    /// The values of this column decide.
    Column(usize),
    /// The parts inside the field decide.
    Between,
}

impl ValueTest<'_> {
    fn passes(&self, value: &[u8]) -> bool {
        self.automaton.says_of(value).unwrap_or_else(|| self.test.passes(value))
    }
}

impl BlockColumns<'_> {
    /// See [`record::columns::Columns::passing`].
    pub(super) fn rows_passing(
        &self,
        name: &str,
        test: &dyn Decide,
    ) -> Result<Option<Vec<u32>>, Fault> {
        let Some(number) = self.number(name) else {
            return Ok(None);
        };
        if let Some(column) = self.only_column(number) {
            if !self.is_of(column, Encoding::Template) {
                return Ok(None);
            }
            let Some(automaton) = test.automaton() else { return Ok(None) };
            return Ok(Some(indexes_of(
                &self.values_passing(column, &ValueTest { automaton, test })?,
            )));
        }
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        if !self.have_templates(&sources) {
            return Ok(None);
        }
        let Some(automaton) = test.automaton() else { return Ok(None) };
        let value_test = ValueTest { automaton, test };
        let mut passing = Vec::with_capacity(sources.len());
        for (class, source) in sources.iter().enumerate() {
            passing.push(match source {
                Source::Nowhere => Passing::Alike(value_test.passes(b"")),
                Source::Constant(value) => Passing::Alike(value_test.passes(value)),
                // The values of a time column depend on the times of the lines.
                Source::Column(column) if self.is_of(*column, Encoding::Time) => return Ok(None),
                Source::Column(column) => Passing::Column(*column),
                Source::Between(..) => {
                    for column in self.between(class, source).iter().filter_map(Element::column) {
                        if !self.is_plain(column)? {
                            return Ok(None);
                        }
                    }
                    Passing::Between
                }
            });
        }
        self.test_lines(&sources, &passing, &value_test).map(Some)
    }

    /// Whether some value of the field comes from a template column.
    fn have_templates(&self, sources: &[Source<'_>]) -> bool {
        let is_template = |column: usize| self.is_of(column, Encoding::Template);
        sources.iter().enumerate().any(|(class, source)| match source {
            Source::Column(column) => is_template(*column),
            Source::Between(..) => {
                self.between(class, source).iter().filter_map(Element::column).any(is_template)
            }
            Source::Nowhere | Source::Constant(_) => false,
        })
    }

    /// For each value of a column, whether it passes.
    fn values_passing(&self, index: usize, value_test: &ValueTest<'_>) -> Result<Vec<bool>, Fault> {
        if self.is_of(index, Encoding::Template) {
            let templates = self.templates(index)?;
            let states = templates.passing(value_test.automaton).map_err(|_| WRONG_TEMPLATES)?;
            let mut passing: Vec<bool> = states.iter().map(|&end| end == YES).collect();
            let unsure = (0..).zip(&states).filter(|(_, end)| **end == UNSURE);
            let unsure: Vec<u32> = unsure.map(|(index, _)| index).collect();
            if !unsure.is_empty() {
                let values = templates.decode_rows(&unsure).map_err(|_| WRONG_TEMPLATES)?;
                for (at, &index) in unsure.iter().enumerate() {
                    passing[index as usize] = value_test.test.passes(values.get(at));
                }
            }
            return Ok(passing);
        }
        Ok(match self.decode(index)? {
            Column::Dictionary { values, codes, count } => {
                let passing: Vec<bool> =
                    values.iter().map(|value| value_test.passes(value)).collect();
                match codes.is_empty() {
                    true => vec![passing.first() == Some(&true); count],
                    false => codes.iter().map(|&code| passing[usize::from(code)]).collect(),
                }
            }
            mut column => {
                let mut value = Vec::new();
                let mut passes = |index| {
                    value.clear();
                    column.append(index, 0, &mut value);
                    value_test.passes(&value)
                };
                (0..self.listing.columns[index].values).map(&mut passes).collect()
            }
        })
    }

    /// Tests the lines one by one; returns those that pass, ascending.
    fn test_lines(
        &self,
        sources: &[Source<'_>],
        passing: &[Passing],
        value_test: &ValueTest<'_>,
    ) -> Result<Vec<u32>, Fault> {
        let mut values: Vec<Option<Vec<bool>>> = vec![None; self.listing.columns.len()];
        for passing in passing {
            if let Passing::Column(column) = passing
                && values[*column].is_none()
            {
                values[*column] = Some(self.values_passing(*column, value_test)?);
            }
        }
        let mut parts = Parts::new(self, sources, |column| values[column].is_some())?;
        let mut rows = Vec::new();
        for (row, &class) in (0..).zip(self.of_row()?) {
            let passes = match passing[class as usize] {
                Passing::Alike(passes) => passes,
                Passing::Column(column) => {
                    values[column].as_ref().is_some_and(|values| values[parts.value_index(column)])
                }
                Passing::Between => {
                    match value_test.automaton.says(parts.run(value_test.automaton)?) {
                        Some(passes) => passes,
                        None => value_test.test.passes(parts.value()?),
                    }
                }
            };
            if passes {
                rows.push(row);
            }
            parts.pass();
        }
        Ok(rows)
    }
}
