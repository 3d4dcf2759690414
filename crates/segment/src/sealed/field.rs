//! Where the values of a field are, in the lines of one layout.

use std::borrow::Cow;

use super::pack::{Element, Kind, Layout};

/// Where the values of a field are, in the lines of one layout.
pub(super) enum Source<'a> {
    Nowhere,
    Column(usize),
    /// All lines of the layout have the same value.
    Constant(Cow<'a, [u8]>),
    /// The value is assembled from the elements between these indexes.
    Between(usize, usize),
}

impl<'a> Source<'a> {
    /// The source of the field with that number; `shared` are the values that layouts refer to.
    pub(super) fn of(layout: &Layout<'a>, field: usize, shared: &[&'a [u8]]) -> Source<'a> {
        let found = layout.fields.iter().position(|(name, _)| usize::from(name.0) == field);
        let Some(index) = found else { return Source::Nowhere };
        match layout.fields[index].1 {
            Kind::Empty => Source::Nowhere,
            Kind::Made(column) => Source::Column(column),
            Kind::Shared { index, .. } => Source::Constant(shared[index].into()),
            Kind::InLine => Source::in_line(layout, index),
        }
    }

    /// The source of the layout's field at `index`, which is part of the line.
    fn in_line(layout: &Layout<'a>, index: usize) -> Source<'a> {
        let mut opened = None;
        // `None` once an element other than a literal was seen.
        let mut text: Option<Vec<u8>> = Some(Vec::new());
        for (at, element) in layout.elements.iter().enumerate() {
            match *element {
                Element::Value { field, column } if field == index => {
                    return Source::Column(column);
                }
                Element::Open(field) if field == index => opened = Some(at),
                Element::Close(field) if field == index => {
                    let from = opened.unwrap_or(at);
                    return text.map_or(Source::Between(from, at), |t| Source::Constant(t.into()));
                }
                Element::Literal(literal) if opened.is_some() => {
                    text.iter_mut().for_each(|text| text.extend_from_slice(literal));
                }
                Element::Gap(_) | Element::Value { .. } if opened.is_some() => text = None,
                _ => {}
            }
        }
        Source::Nowhere
    }
}
