//! A source whose lines are as if they had never had some fields.
//!
//! Everything that a source says comes from its units, so fields are hidden there, and filters,
//! pipes and endpoints see none. Counts, answers and words that were kept of whole units count
//! hidden fields too, so nothing is said of them.
//!
//! Sides hide by themselves: the option `hide_fields` of a query goes with it.

use std::sync::Arc;

use record::batch::STREAM;
use record::columns::{ColumnError, Columns, Decide, FieldColumn, Kind, Occurrences, ValueCounts};
use record::{Batch, LineId, Tenant};

use super::{
    Answers, ChooseLines, Revisions, ScanUnit, Sides, SomeLines, Source, Tables, WithColumns,
};
use crate::base::{DamagedUnit, HiddenFields, Phrases, SourceError, TimeRange, Whose};
use crate::lang::restriction::Restriction;

/// A source without the hidden fields of a restriction; with none, the source itself.
pub struct Hiding<'a> {
    source: Lines<'a>,
    hidden: Option<Arc<HiddenFields>>,
}

enum Lines<'a> {
    Lent(&'a dyn Source),
    Held(Box<dyn Source + 'a>),
}

impl<'a> Hiding<'a> {
    /// The source as the restriction lets it be seen. The filter of the restriction is not applied
    /// here.
    pub fn of(source: &'a dyn Source, restriction: &Restriction) -> Hiding<'a> {
        Hiding { source: Lines::Lent(source), hidden: restriction.hidden.clone() }
    }

    /// As [`Hiding::of`], of a source that it keeps.
    pub fn over(source: Box<dyn Source + 'a>, restriction: &Restriction) -> Hiding<'a> {
        Hiding { source: Lines::Held(source), hidden: restriction.hidden.clone() }
    }

    fn source(&self) -> &dyn Source {
        match &self.source {
            Lines::Lent(source) => *source,
            Lines::Held(source) => &**source,
        }
    }
}

impl Source for Hiding<'_> {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let units = self.source().units(range, whose)?;
        let Some(hidden) = &self.hidden else { return Ok(units) };
        let hiding = |unit| {
            let hidden = Arc::clone(hidden);
            Box::new(HidingUnit { unit, hidden }) as Box<dyn ScanUnit>
        };
        Ok(units.into_iter().map(hiding).collect())
    }

    fn answers(&self) -> Option<&Answers> {
        if self.hidden.is_some() { None } else { self.source().answers() }
    }

    fn sides(&self) -> Option<&dyn Sides> {
        self.source().sides()
    }

    fn revisions(&self) -> Option<Arc<dyn Revisions>> {
        self.source().revisions()
    }

    fn tables(&self) -> Option<Arc<dyn Tables>> {
        self.source().tables()
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let found = self.source().find(id)?;
        Ok(match &self.hidden {
            None => found,
            Some(hidden) => found.map(|batch| without(batch, hidden)),
        })
    }
}

impl Restriction {
    /// The lines of a batch as a query sees them. The filter is not applied here.
    pub fn seen(&self, batch: &Arc<Batch>) -> Arc<Batch> {
        match &self.hidden {
            None => Arc::clone(batch),
            Some(hidden) => without(Arc::clone(batch), hidden),
        }
    }
}

/// A batch without the hidden fields.
pub(crate) fn without(batch: Arc<Batch>, hidden: &HiddenFields) -> Arc<Batch> {
    Arc::new(Arc::unwrap_or_clone(batch).without(&|name| hidden.hides(name)))
}

struct HidingUnit {
    unit: Box<dyn ScanUnit>,
    hidden: Arc<HiddenFields>,
}

impl ScanUnit for HidingUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.unit.time_range_ns()
    }

    fn lines(&self) -> u64 {
        self.unit.lines()
    }

    fn are_lines_exact(&self) -> bool {
        self.unit.are_lines_exact()
    }

    fn bytes(&self) -> u64 {
        self.unit.bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(self.unit.load()?.map(|batch| without(batch, &self.hidden)))
    }

    /// The filter then finds no hidden value in the lines that were chosen for one.
    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        let some = self.unit.load_lines(choose)?;
        Ok(some.map(|SomeLines { batch, rows }| SomeLines {
            batch: without(batch, &self.hidden),
            rows,
        }))
    }

    fn times_ns(&self) -> Result<Option<Vec<i64>>, SourceError> {
        self.unit.times_ns()
    }

    /// Words of hidden values must not show in what a query reads.
    fn may_hold(&self, _: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        Ok(None)
    }

    fn tenant(&self) -> Option<Tenant> {
        self.unit.tenant()
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let hidden = &*self.hidden;
        self.unit.with_columns(&mut |columns| with(&HidingColumns { columns, hidden }))
    }

    fn damage(&self) -> Option<DamagedUnit> {
        self.unit.damage()
    }
}

/// A stream that a line names itself may have hidden labels, so it is not read by columns.
struct HidingColumns<'a> {
    columns: &'a dyn Columns,
    hidden: &'a HiddenFields,
}

impl Columns for HidingColumns<'_> {
    fn rows(&self) -> usize {
        self.columns.rows()
    }

    fn times_ns(&self) -> Result<&[i64], ColumnError> {
        self.columns.times_ns()
    }

    fn names(&self) -> Vec<&str> {
        let mut names = self.columns.names();
        names.retain(|name| !self.hidden.hides(name));
        names
    }

    fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        match self.hidden.hides(name) {
            true => Ok(Some(FieldColumn::absent())),
            false if name == STREAM => Ok(None),
            false => self.columns.field(name),
        }
    }

    fn field_of(&self, name: &str, rows: &[u32]) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        match self.hidden.hides(name) {
            // It would need a value for each of the rows.
            true => Ok(None),
            false if name == STREAM => Ok(None),
            false => self.columns.field_of(name, rows),
        }
    }

    fn value_counts(&self, name: &str) -> Result<Option<ValueCounts>, ColumnError> {
        match self.hidden.hides(name) {
            true => Ok(None),
            false if name == STREAM => Ok(None),
            false => self.columns.value_counts(name),
        }
    }

    fn kinds(&self, rows: Option<&[u32]>) -> Result<Option<Vec<Kind<'_>>>, ColumnError> {
        if self.columns.names().contains(&STREAM) {
            return Ok(None);
        }
        let mut kinds = self.columns.kinds(rows)?;
        for (names, _) in kinds.iter_mut().flatten() {
            names.retain(|name| !self.hidden.hides(name));
        }
        Ok(kinds)
    }

    fn holding(
        &self,
        name: &str,
        text: &[u8],
        occurrences: Occurrences<'_>,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        match self.hidden.hides(name) {
            true => Ok(None),
            false if name == STREAM => Ok(None),
            false => self.columns.holding(name, text, occurrences),
        }
    }

    fn passing_outlines(
        &self,
        name: &str,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        match self.hidden.hides(name) {
            true => Ok(None),
            false if name == STREAM => Ok(None),
            false => self.columns.passing_outlines(name, test),
        }
    }

    fn passing(&self, name: &str, test: &dyn Decide) -> Result<Option<Vec<u32>>, ColumnError> {
        match self.hidden.hides(name) {
            true => Ok(None),
            false if name == STREAM => Ok(None),
            false => self.columns.passing(name, test),
        }
    }

    fn batch(&self, rows: &[u32]) -> Result<Batch, ColumnError> {
        Ok(self.columns.batch(rows)?.without(&|name| self.hidden.hides(name)))
    }

    fn batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, ColumnError> {
        let batch = self.columns.batch_of(rows, fields)?;
        Ok(batch.map(|batch| batch.without(&|name| self.hidden.hides(name))))
    }

    /// The names of the fields that identify streams; a hidden one has no value.
    fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError> {
        self.columns.stream_fields()
    }
}
