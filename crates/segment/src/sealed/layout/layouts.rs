//! All layouts of the lines seen so far; splits rows into the values of columns.

use std::collections::HashMap;

use record::{Batch, Place, Row};

use super::alike::Alike;
use super::gap::{Gap, UNSEEN, put};
use super::in_batch::{BatchShape, BatchShapes, StemRows, hash_of};
use super::numbered::Numbered;
use super::shape::{Shape, ShapeKey, Stop};
use super::steps::{Step, arrange, fold};
use super::{ColumnKey, EDGE, FieldKind, Layout, Part, Sink};

/// Rows of one stem in one batch from which on the stem's values are folded. With fewer rows the
/// layout, which contains the values, would take more space than the columns.
const FOLDED_ROWS_MIN: u32 = 16;
/// Orders of the same fields in a line. Lines in further orders have their values kept apart.
const ORDERS_MAX: u32 = 8;

/// How many [`Alike`]s are made per stem. For rows that differ more often, making them does not
/// pay.
const ALIKES_MAX: u8 = 8;

/// All layouts of the lines seen so far.
#[derive(Default)]
pub(crate) struct Layouts {
    pub(crate) names: Numbered<String>,
    pub(crate) shared: Numbered<Vec<u8>>,
    pub(crate) columns: Numbered<ColumnKey>,
    pub(crate) layouts: Numbered<Layout>,
    gap_indexes: HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    gaps: Vec<Gap>,
    shapes: Vec<Shape>,
    shape_indexes: HashMap<ShapeKey, u32, foldhash::fast::RandomState>,
    parts: Vec<Part>,
    /// Bounds of the current row, see [`Shape::fits`].
    bounds: Vec<(u32, u32)>,
}

impl Layouts {
    /// Number of names and layouts so far.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.layouts.len() + self.shared.len() + self.shapes.len()
    }

    /// Splits a row into values; returns the number of its layout. `known` belongs to the row's
    /// batch.
    pub(crate) fn split(
        &mut self,
        batch: &Batch,
        row: &Row<'_>,
        known: &mut BatchShapes,
        sink: &mut impl Sink,
    ) -> u32 {
        let raw = row.raw();
        if let Some(alike) = known.alike(row.stem())
            && alike.holds(row)
        {
            alike.split(raw, sink);
            return alike.layout;
        }
        let index = self.shape(batch, row, known);
        let shape = &mut self.shapes[index as usize];
        let mut rest = raw;
        let mut changed = false;
        let (last, literals) = shape.literals.split_last_mut().expect("there is one more");
        for ((stop, literal), &(gap, length)) in shape.stops.iter().zip(literals).zip(&self.bounds)
        {
            let (text, behind) = rest.split_at(gap as usize);
            changed |= put(&mut self.gaps, stop.gap, text, literal, sink);
            let (value, behind) = behind.split_at(length as usize);
            if let Step::Value { column, .. } = stop.step {
                sink.value(column, value);
            }
            rest = behind;
        }
        changed |= put(&mut self.gaps, shape.tail, rest, last, sink);
        for &(part, column) in &shape.made {
            let value = row.field_at(usize::from(part)).expect("a row has its parts");
            sink.value(column, value);
        }
        let layout = if changed { self.other_layout(index) } else { shape.layout };
        let StemRows { count, alikes, .. } = known.stems[usize::from(row.stem().0)];
        if count >= FOLDED_ROWS_MIN && alikes < ALIKES_MAX {
            self.make_alike(row, known, index, layout);
        }
        layout
    }

    /// Remembers how the current row was split, for rows with the same structure.
    #[cold]
    fn make_alike(&self, row: &Row<'_>, known: &mut BatchShapes, shape: u32, layout: u32) {
        let stem = &mut known.stems[usize::from(row.stem().0)];
        stem.alikes += 1;
        let shape = &self.shapes[shape as usize];
        let Some(alike) = Alike::of(row, shape, &self.bounds, &self.gaps, layout) else { return };
        if stem.alike == 0 {
            known.alikes.push(alike);
            stem.alike = known.alikes.len() as u32;
        } else {
            known.alikes[stem.alike as usize - 1] = alike;
        }
    }

    /// The layout of the shape's rows with other literals than in the previous row.
    fn other_layout(&mut self, shape: u32) -> u32 {
        let shape = &mut self.shapes[shape as usize];
        shape.layout = match shape.layouts.get(&shape.literals) {
            Some(&layout) => layout,
            None => {
                let layout = self.layouts.number(&shape.layout_of(&self.gaps));
                shape.layouts.insert(shape.literals.clone(), layout);
                layout
            }
        };
        shape.layout
    }

    /// The shape of the row, whose parts are already taken.
    #[inline]
    fn shape(&mut self, batch: &Batch, row: &Row<'_>, known: &mut BatchShapes) -> u32 {
        let stem = usize::from(row.stem().0);
        let StemRows { count, last, .. } = known.stems[stem];
        let folded = (count >= FOLDED_ROWS_MIN).then(|| row.stem());
        self.parts.clear();
        match folded {
            Some(_) => self.parts.extend(row.own_places()),
            None => self.parts.extend(row.places()),
        }
        let line = row.raw();
        if let Some(last) = known.shapes.get(last as usize)
            && last.holds(folded, &self.parts)
            && self.shapes[last.shape as usize].fits(&self.parts, line, &mut self.bounds)
        {
            return last.shape;
        }
        let hash = hash_of(folded, &self.parts);
        let mut orders = 0;
        for &index in known.by_hash.get(&hash).into_iter().flatten() {
            let of_batch = &known.shapes[index as usize];
            if of_batch.holds(folded, &self.parts) {
                if self.shapes[of_batch.shape as usize].fits(&self.parts, line, &mut self.bounds) {
                    known.stems[stem].last = index;
                    return of_batch.shape;
                }
                orders += 1;
            }
        }
        let shape = self.find_shape(batch, row, known, folded.is_some(), orders);
        let fits = self.shapes[shape as usize].fits(&self.parts, line, &mut self.bounds);
        assert!(fits, "a row fits in the shape that was made for it");
        let index = known.shapes.len() as u32;
        known.shapes.push(BatchShape { folded, parts: self.parts.clone(), shape });
        known.by_hash.entry(hash).or_default().push(index);
        known.stems[stem].last = index;
        shape
    }

    /// The shape of the row; makes it if no row of any batch had it.
    #[cold]
    fn find_shape(
        &mut self,
        batch: &Batch,
        row: &Row<'_>,
        known: &mut BatchShapes,
        folded: bool,
        order: u32,
    ) -> u32 {
        known.names.resize(batch.names().len(), None);
        let parts: Vec<Part> = row.places().collect();
        let (mut steps, apart) = match order < ORDERS_MAX {
            true => arrange(&parts),
            // Made fields are always in order.
            false => (Vec::new(), (0..parts.len() as u16).collect()),
        };
        if folded {
            let own = (parts.len() - row.stem_fields()) as u16;
            steps = fold(steps, &parts, own, row.raw());
        }
        let mut fields = Vec::with_capacity(parts.len());
        for (part, (id, position, length)) in parts.iter().enumerate() {
            let name = *known.names[usize::from(id.0)]
                .get_or_insert_with(|| self.names.number(batch.name(*id)));
            let kind = match position {
                _ if *length == 0 => FieldKind::Empty,
                Place::Shared(_) => {
                    let value = row.field_at(part).expect("a row has its parts");
                    FieldKind::Shared(self.shared.number(value))
                }
                Place::Line(_) if !apart.contains(&(part as u16)) => FieldKind::InLine,
                _ => FieldKind::Made(self.columns.number(&ColumnKey::Made(name))),
            };
            fields.push((name, kind));
        }
        for step in &mut steps {
            if let Step::Value { part, column } = step {
                let name = fields[usize::from(*part)].0;
                *column = self.columns.number(&ColumnKey::Field(name));
            }
        }
        let key = (fields, steps);
        if let Some(&index) = self.shape_indexes.get(&key) {
            return index;
        }
        let (fields, steps) = key.clone();
        let mut stops = Vec::with_capacity(steps.len());
        let mut before = EDGE;
        for step in steps {
            let (first, last) = step.ends();
            let gap = self.gap(before, fields[first].0);
            stops.push(Stop { gap, step });
            before = fields[last].0;
        }
        let tail = self.gap(before, EDGE);
        let made = fields.iter().enumerate().filter_map(|(part, (_, kind))| match kind {
            FieldKind::Made(column) => Some((part as u16, *column)),
            _ => None,
        });
        let literals = vec![UNSEEN; stops.len() + 1];
        let shape = Shape {
            stops,
            tail,
            made: made.collect(),
            fields,
            literals,
            layout: 0,
            layouts: HashMap::default(),
        };
        let index = self.shapes.len() as u32;
        self.shapes.push(shape);
        self.shape_indexes.insert(key, index);
        index
    }

    fn gap(&mut self, before: u32, behind: u32) -> u32 {
        if let Some(&index) = self.gap_indexes.get(&(before, behind)) {
            return index;
        }
        let column = self.columns.number(&ColumnKey::Gap(before, behind));
        let index = self.gaps.len() as u32;
        self.gaps.push(Gap::new(column));
        self.gap_indexes.insert((before, behind), index);
        index
    }
}
