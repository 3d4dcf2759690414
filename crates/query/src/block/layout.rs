//! The columns that a block of lines shows, and their names, after `fields`, `rename` and similar
//! pipes.

use std::collections::HashMap;
use std::sync::Arc;

use record::{Batch, FieldId};

use super::change::{Change, Named, NewNames, work_bytes};
use super::{Column, Hidden, common_names, is_computed};
use crate::base::names::MSG;
use crate::base::{Meter, RunError};

/// The columns of a block of lines after pipes have changed them.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(super) columns: Vec<LayoutColumn>,
    /// Index in `columns` by field id; `u32::MAX` for fields that are not shown.
    pub(super) by_field: Vec<u32>,
    /// Indexes of columns that are computed, or copies of a field.
    pub(super) others: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct LayoutColumn {
    pub name: Arc<str>,
    pub column: Column<'static>,
    pub hidden: bool,
}

impl Named for LayoutColumn {
    fn name(&self) -> &Arc<str> {
        &self.name
    }
    fn set_name(&mut self, name: Arc<str>) {
        self.name = name;
    }
    fn hidden(&self) -> bool {
        self.hidden
    }
    fn set_hidden(&mut self, hidden: bool) {
        self.hidden = hidden;
    }
}

impl Layout {
    /// The layout of a batch that no pipe has changed.
    pub fn of_batch(batch: &Batch) -> Layout {
        Layout::new(Layout::base_columns(batch), batch.names().len())
    }

    fn base_columns(batch: &Batch) -> Vec<LayoutColumn> {
        let names = common_names();
        let column =
            |name: &Arc<str>, column, hidden| LayoutColumn { name: name.clone(), column, hidden };
        let mut columns = vec![
            column(&names.time, Column::Time, false),
            column(&names.stream, Column::Stream, false),
        ];
        let msg = batch.field_id(MSG);
        let fields =
            (0..batch.names().len()).map(|i| FieldId(i as u16)).filter(|id| Some(*id) != msg);
        for id in msg.into_iter().chain(fields) {
            let name = &batch.names()[id.0 as usize];
            let brought = match Hidden::of(name) {
                Some(hidden) => Column::Brought(id, hidden),
                None => Column::Field(id),
            };
            if !is_computed(name) {
                columns.push(column(name, brought, false));
            }
        }
        columns.extend(names.hidden.iter().map(|(name, c)| column(name, *c, true)));
        columns
    }

    fn new(columns: Vec<LayoutColumn>, fields: usize) -> Layout {
        let mut by_field = vec![u32::MAX; fields];
        let mut others = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            match column.column {
                Column::Field(id) | Column::Brought(id, _)
                    if by_field[id.0 as usize] == u32::MAX =>
                {
                    by_field[id.0 as usize] = at as u32;
                }
                _ => others.push(at as u32),
            }
        }
        Layout { columns, by_field, others }
    }

    /// The layout after a change by a pipe, and the memory counted for it.
    pub fn changed(
        &self,
        change: &Change,
        names: &mut NewNames,
        meter: &mut Meter,
    ) -> Result<(Layout, usize), RunError> {
        let mut columns = self.columns.clone();
        let counted = change.apply(&mut columns, names, meter)?;
        Ok((Layout::new(columns, self.by_field.len()), counted))
    }

    /// The layout with additional columns, which replace visible columns of the same names or come
    /// behind these; and the memory counted for it.
    pub fn with(
        &self,
        added: impl ExactSizeIterator<Item = (Arc<str>, Column<'static>)>,
        meter: &mut Meter,
    ) -> Result<(Layout, usize), RunError> {
        let counted = work_bytes::<LayoutColumn>(self.columns.len() + added.len());
        meter.take(counted)?;
        let mut columns = self.columns.clone();
        let mut visible = columns.iter().filter(|c| !c.hidden).count();
        // Hidden columns come last, so that a visible column of the same name is found first.
        columns.sort_by_key(|c| c.hidden);
        let mut places: HashMap<Arc<str>, usize, foldhash::fast::RandomState> =
            columns[..visible].iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        for (name, column) in added {
            match places.get(&name) {
                Some(&place) => columns[place].column = column,
                None => {
                    places.insert(name.clone(), visible);
                    columns.insert(visible, LayoutColumn { name, column, hidden: false });
                    visible += 1;
                }
            }
        }
        Ok((Layout::new(columns, self.by_field.len()), counted))
    }

    pub fn column(&self, name: &str) -> Column<'static> {
        self.columns.iter().find(|c| *c.name == *name).map_or(Column::Absent, |c| c.column)
    }
}
