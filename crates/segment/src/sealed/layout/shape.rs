//! Shapes: a shape is shared by rows whose fields are of the same kinds and in the same order. It
//! has a layout for each combination of literals between its fields.

use std::collections::HashMap;

use super::gap::{Gap, NOTHING, VARIES};
use super::steps::Step;
use super::{Element, FieldKind, Layout, Part};
use crate::short::same;

/// Rows with the same fields of the same kinds in the same order of the line.
pub(super) struct Shape {
    pub(super) stops: Vec<Stop>,
    /// Index, among the gaps of all layouts, of the text behind the last step.
    pub(super) tail: u32,
    pub(super) fields: Vec<(u32, FieldKind)>,
    /// Parts that are kept apart, and their columns.
    pub(super) made: Vec<(u16, u32)>,
    /// Which literal was in each gap of the previous row; `layout` is the layout of that
    /// combination.
    pub(super) literals: Vec<u8>,
    pub(super) layout: u32,
    pub(super) layouts: HashMap<Vec<u8>, u32, foldhash::fast::RandomState>,
}

/// A step with the text before it.
pub(super) struct Stop {
    /// Index among the gaps of all layouts.
    pub(super) gap: u32,
    pub(super) step: Step,
}

/// Fields and steps, which identify a shape.
pub(super) type ShapeKey = (Vec<(u32, FieldKind)>, Vec<Step>);

impl Shape {
    /// Whether the parts of a row are in the shape's order, and the folded texts at their
    /// positions. `bounds` gets the lengths of the text before each step and of the step itself.
    #[inline]
    pub(super) fn fits(&self, parts: &[Part], line: &[u8], bounds: &mut Vec<(u32, u32)>) -> bool {
        bounds.resize(self.stops.len(), (0, 0));
        let mut at = 0;
        for (Stop { step, .. }, bounds) in self.stops.iter().zip(bounds) {
            let (from, to) = step.bounds(parts);
            let in_place = match step {
                Step::Folded(folded) => {
                    line.get(from..to).is_some_and(|text| same(text, &folded.text))
                }
                _ => true,
            };
            if from < at || !in_place {
                return false;
            }
            *bounds = ((from - at) as u32, (to - from) as u32);
            at = to;
        }
        at <= line.len()
    }

    /// The layout of the shape's rows with the literals of the previous row.
    pub(super) fn layout_of(&self, gaps: &[Gap]) -> Layout {
        let mut elements = Vec::new();
        let stops = self.stops.iter().map(|stop| (stop.gap, Some(&stop.step)));
        let stops = stops.chain(std::iter::once((self.tail, None)));
        for ((gap, step), &literal) in stops.zip(&self.literals) {
            let gap = &gaps[gap as usize];
            match literal {
                NOTHING => {}
                VARIES => elements.push(Element::Gap(gap.column)),
                literal => {
                    elements.push(Element::Literal(gap.literals[usize::from(literal)].clone()));
                }
            }
            match step {
                None => {}
                Some(Step::Value { part, column }) => {
                    elements.push(Element::Value { field: *part, column: *column });
                }
                Some(Step::Open { part }) => elements.push(Element::Open(*part)),
                Some(Step::Close { part }) => elements.push(Element::Close(*part)),
                Some(Step::Folded(folded)) => elements.extend_from_slice(&folded.elements),
            }
        }
        Layout { elements, fields: self.fields.clone() }
    }
}
