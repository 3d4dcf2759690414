//! `filter size:>10`, `where …`: selects rows by a filter. The word is optional.

use std::fmt;

use super::operator::{Documentation, Mode, Names, Operator, Registration, RowWise, Work, one};
use super::shown::Shown;
use crate::base::{FieldSet, RunError};
use crate::block::Block;
use crate::lang::filter::{Filter, Selector, parse_filter};

/// The `filter` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Selects the rows that pass.
    pub filter: Filter,
}

pub(super) static FILTER: Registration = Registration {
    doc: Documentation {
        name: "filter",
        aliases: &["where"],
        syntax: "filter <filter>",
        summary: "passes only the rows that a filter selects",
        example: "filter size:>10",
    },
    parse: |cursor| parse_filter(cursor).map(|filter| one(Select { filter })),
};

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter {}", self.filter)
    }
}

impl Operator for Select {
    fn mode(&self) -> Mode {
        Mode::RowWise
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        self.filter.add_fields(&mut wanted);
        wanted
    }

    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        Some(Box::new(SelectRows(Selector::new(&self.filter))))
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn filters(&self) -> Vec<&Filter> {
        vec![&self.filter]
    }

    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        vec![&mut self.filter]
    }

    fn names(&self) -> Names {
        Names::Same
    }

    fn value_field(&self) -> Names {
        Names::Same
    }

    fn follow_names(&self, _shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        Ok(())
    }
}

struct SelectRows(Selector);

impl RowWise for SelectRows {
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError> {
        let pulse = work.meter.pulse();
        self.0.select(block, work.scratch, &pulse);
        pulse.end().map(|()| 0)
    }
}
