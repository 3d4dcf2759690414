//! How the rows of one layout are assembled, prepared once per block.
//!
//! Adjacent literals are copied at once. Fields that have the same value at the same offset of the
//! line in all rows of the layout need no work per row; those at the end of the field list become a
//! stem.

use std::collections::HashMap;

use record::{FieldId, Place, RestoredBuilder, StemId};

use super::column::ColumnReader;
use super::pack::{Element, Kind, Layout};
use crate::short::starts_with;

/// Layouts with at least this many rows get a stem.
const STEM_ROWS_MIN: usize = 4;

/// A step of writing a line.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A range of [`Plan::text`].
    Literal {
        from: u32,
        to: u32,
    },
    /// The next value of a column, and the index of its span; for a gap, an index behind all
    /// fields.
    Value {
        span: usize,
        column: usize,
    },
    Open(usize),
    Close(usize),
}

/// A layout whose lines have fixed offsets up to the last value, which is the only field that
/// differs from row to row. Most syslog lines are like this.
#[derive(Debug, Default)]
pub(super) struct Straight {
    /// Position in the line, and range of [`Plan::text`].
    texts: Vec<(u32, u32, u32)>,
    /// Columns whose values have one length, and their positions.
    fixed: Vec<(u32, usize)>,
    /// Where the last value begins.
    pub(super) at: u32,
    column: usize,
}

pub(super) struct Plan {
    steps: Vec<Step>,
    /// All literals.
    text: Vec<u8>,
    /// Fields that each row stores itself.
    pub(super) own: Vec<(FieldId, Kind)>,
    /// The fields behind them, which all rows share.
    pub(super) shared: Vec<(FieldId, Place, u32)>,
    /// How lines are compared at once, if the layout allows it.
    pub(super) straight: Option<Straight>,
    has_stem: bool,
    /// Origin and stem of the previous row, and the stem of each origin.
    last: Option<(u16, StemId)>,
    stems: HashMap<u16, Option<StemId>, foldhash::fast::RandomState>,
    /// Whether the current row must store the shared fields itself, because there are too many
    /// stems.
    apart: bool,
}

impl Plan {
    /// The plan of a layout with `rows` rows.
    pub(super) fn new(layout: &Layout<'_>, rows: usize, readers: &[ColumnReader<'_>]) -> Plan {
        let fixed = fixed_positions(layout, readers);
        let position = |field: usize| match layout.fields[field].1 {
            Kind::InLine => fixed[field].map(|(from, to)| (Place::Line(from), to - from)),
            Kind::Shared { at, length, .. } => Some((Place::Shared(at), length)),
            Kind::Empty => Some((Place::Line(0), 0)),
            Kind::Made(_) => None,
        };
        let fields = layout.fields.len();
        let own = (0..fields).rev().find(|&field| position(field).is_none()).map_or(0, |f| f + 1);
        let shared = (own..fields)
            .filter_map(|field| {
                position(field).map(|(at, length)| (layout.fields[field].0, at, length))
            })
            .collect::<Vec<_>>();
        let mut plan = Plan {
            steps: Vec::new(),
            text: Vec::new(),
            own: layout.fields[..own].to_vec(),
            straight: None,
            has_stem: rows >= STEM_ROWS_MIN && !shared.is_empty(),
            shared,
            last: None,
            stems: HashMap::default(),
            apart: false,
        };
        for element in &layout.elements {
            match *element {
                Element::Literal(text) => plan.put_literal(text),
                Element::Gap(column) => plan.steps.push(Step::Value { span: own, column }),
                Element::Value { field, column } => {
                    plan.steps.push(Step::Value { span: field, column });
                }
                Element::Open(field) if field < own => plan.steps.push(Step::Open(field)),
                Element::Close(field) if field < own => plan.steps.push(Step::Close(field)),
                Element::Open(_) | Element::Close(_) => {}
            }
        }
        plan.straight = plan.find_straight(readers);
        plan
    }

    fn find_straight(&self, readers: &[ColumnReader<'_>]) -> Option<Straight> {
        let (&[(_, Kind::InLine)], Some((&Step::Value { span: 0, column }, before))) =
            (&self.own[..], self.steps.split_last())
        else {
            return None;
        };
        let mut straight = Straight { column, ..Straight::default() };
        for step in before {
            match *step {
                Step::Literal { from, to } => {
                    straight.texts.push((straight.at, from, to));
                    straight.at += to - from;
                }
                Step::Value { column, .. } => {
                    straight.fixed.push((straight.at, column));
                    straight.at += readers[column].width()?;
                }
                Step::Open(_) | Step::Close(_) => return None,
            }
        }
        Some(straight)
    }

    /// As [`compare_line`](Self::compare_line), for a line whose only own field begins at
    /// [`Straight::at`].
    #[inline]
    pub(super) fn compare_straight(
        &self,
        straight: &Straight,
        time_ns: i64,
        readers: &mut [ColumnReader<'_>],
        line: &[u8],
    ) -> bool {
        let Some((head, value)) = line.split_at_checked(straight.at as usize) else { return false };
        straight.texts.iter().all(|&(at, from, to)| {
            starts_with(&head[at as usize..], &self.text[from as usize..to as usize])
        }) && straight
            .fixed
            .iter()
            .all(|&(at, column)| readers[column].matches(time_ns, &head[at as usize..]).is_some())
            && readers[straight.column].matches(time_ns, value) == Some(value.len())
    }

    fn put_literal(&mut self, text: &[u8]) {
        let from = self.text.len() as u32;
        self.text.extend_from_slice(text);
        let end = self.text.len() as u32;
        match self.steps.last_mut() {
            Some(Step::Literal { to, .. }) => *to = end,
            _ => self.steps.push(Step::Literal { from, to: end }),
        }
    }

    /// How many fields that many rows will store.
    pub(super) fn fields(&self, rows: usize) -> usize {
        let stored = if self.has_stem { 0 } else { self.shared.len() };
        rows * (self.own.len() + stored) + self.shared.len()
    }

    /// How many spans [`write_line`](Self::write_line) may write.
    pub(super) fn spans(&self) -> usize {
        self.own.len() + 1
    }

    /// The stem of a row; called before its line and fields are written.
    #[inline]
    pub(super) fn stem(&mut self, origin: u16, builder: &mut RestoredBuilder) -> StemId {
        match self.last {
            Some((last, stem)) if last == origin => stem,
            _ => self.other_stem(origin, builder),
        }
    }

    fn other_stem(&mut self, origin: u16, builder: &mut RestoredBuilder) -> StemId {
        let shared = &self.shared;
        let stem = self.has_stem.then(|| {
            *self.stems.entry(origin).or_insert_with(|| {
                for &(name, position, length) in shared {
                    builder.push_field(name, position, length);
                }
                builder.share(origin)
            })
        });
        self.apart = stem.flatten().is_none();
        let stem = stem.flatten().unwrap_or_else(|| builder.stem_of(origin));
        self.last = Some((origin, stem));
        stem
    }

    /// Appends a line to `out`, and writes the spans of its own fields, relative to its first byte.
    #[inline]
    pub(super) fn write_line(
        &self,
        time_ns: i64,
        readers: &mut [ColumnReader<'_>],
        out: &mut Vec<u8>,
        spans: &mut [(u32, u32)],
    ) {
        let begin = out.len();
        let at = |out: &Vec<u8>| (out.len() - begin) as u32;
        for step in &self.steps {
            match *step {
                Step::Literal { from, to } => {
                    out.extend_from_slice(&self.text[from as usize..to as usize]);
                }
                Step::Value { span, column } => {
                    let from = at(out);
                    readers[column].append(time_ns, out);
                    spans[span] = (from, at(out));
                }
                Step::Open(field) => spans[field].0 = at(out),
                Step::Close(field) => spans[field].1 = at(out),
            }
        }
    }

    /// Whether `line` is the next line; fills the spans as [`write_line`](Self::write_line) does.
    #[inline]
    pub(super) fn compare_line(
        &self,
        time_ns: i64,
        readers: &mut [ColumnReader<'_>],
        line: &[u8],
        spans: &mut [(u32, u32)],
    ) -> bool {
        let mut at = 0;
        for step in &self.steps {
            match *step {
                Step::Literal { from, to } => {
                    let text = &self.text[from as usize..to as usize];
                    if !starts_with(&line[at..], text) {
                        return false;
                    }
                    at += text.len();
                }
                Step::Value { span, column } => {
                    let Some(bytes) = readers[column].matches(time_ns, &line[at..]) else {
                        return false;
                    };
                    spans[span] = (at as u32, (at + bytes) as u32);
                    at += bytes;
                }
                Step::Open(field) => spans[field].0 = at as u32,
                Step::Close(field) => spans[field].1 = at as u32,
            }
        }
        at == line.len()
    }

    /// Skips `rows` rows.
    pub(super) fn skip(&self, rows: usize, readers: &mut [ColumnReader<'_>]) {
        for step in &self.steps {
            if let Step::Value { column, .. } = *step {
                readers[column].skip(rows);
            }
        }
        for &(_, kind) in &self.own {
            if let Kind::Made(column) = kind {
                readers[column].skip(rows);
            }
        }
    }

    /// Adds the row's own fields.
    #[inline]
    pub(super) fn push_fields(
        &self,
        time_ns: i64,
        readers: &mut [ColumnReader<'_>],
        spans: &[(u32, u32)],
        builder: &mut RestoredBuilder,
    ) {
        for (&(name, kind), &(from, to)) in self.own.iter().zip(spans) {
            match kind {
                Kind::InLine => builder.push_field(name, Place::Line(from), to - from),
                Kind::Shared { at, length, .. } => {
                    builder.push_field(name, Place::Shared(at), length)
                }
                Kind::Made(column) => {
                    let arena = builder.arena();
                    let at = arena.len() as u32;
                    readers[column].append(time_ns, arena);
                    let length = arena.len() as u32 - at;
                    builder.push_field(name, Place::Made(at), length);
                }
                Kind::Empty => builder.push_field(name, Place::Line(0), 0),
            }
        }
        if self.apart {
            for &(name, position, length) in &self.shared {
                builder.push_field(name, position, length);
            }
        }
    }
}

/// For each field, its offset and length, if it has the same value at the same offset in every
/// line.
fn fixed_positions(layout: &Layout<'_>, readers: &[ColumnReader<'_>]) -> Vec<Option<(u32, u32)>> {
    let mut fixed = vec![None; layout.fields.len()];
    // Where the open fields began; a value that is not a literal disqualifies all of them.
    let mut open: Vec<Option<u32>> = vec![None; layout.fields.len()];
    // The position in the line, as long as it is the same in all lines.
    let mut at = Some(0u32);
    for element in &layout.elements {
        match *element {
            Element::Literal(text) => at = at.map(|at| at + text.len() as u32),
            Element::Gap(column) | Element::Value { column, .. } => {
                open.fill(None);
                at = at.zip(readers[column].width()).map(|(at, width)| at.saturating_add(width));
            }
            Element::Open(field) => open[field] = at,
            Element::Close(field) => fixed[field] = open[field].zip(at),
        }
    }
    fixed
}
