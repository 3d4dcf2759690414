//! How a line is put together from its columns.
//!
//! The parser says where in a line each value stands. What is between the values is either *literal*, a text that
//! many lines share (`[`, `]: `, `","level":"`), or varies (a time) and becomes a column of its own: a *gap*. A
//! *layout* is the order of all that, with the values that many rows share (type, level, facility) in it. A block of
//! syslog has some dozens of layouts, and a row names its own with one number.
//!
//! ```text
//! line      <86>Jan 31 12:00:00 web1 sshd[4711]: Accepted publickey …
//! layout    "<" priority gap(>…time… ) hostname " " app_name "[" proc_id "]: " _msg   type=syslog level=info …
//! ```
//!
//! Rows of one stem (the same host, application, process …) have the same values in most of their fields. Where a batch
//! has many rows of a stem, those values are *folded*: they stand in the layout as literals, with the literals
//! between them, and not in columns. Such a line is compared with two or three texts, and split into time and message.
//!
//! ```text
//! folded    <«30»  gap(>…time… )  «web1» «sshd»[«4711»]:  _msg   type=syslog level=info …
//! ```
//!
//! A value that holds others (`_msg` of an access line is the whole line) opens before and closes behind them. A
//! value that partly overlaps another cannot be so: it is kept apart, as if the parser had made it. So is every value
//! of lines whose parts come in ever new orders.

use std::collections::HashMap;

use record::{Batch, FieldId, Place, Row, StemId};

use super::column::ByHash;
use crate::short::{same, starts_with};

/// Texts that may stand between two fields before what is there counts as varying.
const LITERALS_MAX: usize = 8;
/// A longer text between two fields is no literal.
const LITERAL_BYTES_MAX: usize = 64;
/// A text between two fields with so many digits is no literal: it is a time, or a number.
const LITERAL_DIGITS_MAX: usize = 3;
/// Rows of one stem in one batch from which on their values are folded. With fewer the layout, which has the values,
/// would take more than the columns do.
const FOLDED_ROWS_MIN: u32 = 16;
/// Orders of the same fields; lines in other orders have their values kept apart.
const ORDERS_MAX: u32 = 8;

/// A part of a line, or a mark in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    /// The same text in all lines of the layout.
    Literal(Box<[u8]>),
    /// The next value of a column, not a field.
    Gap(u32),
    /// The next value of a column, the field of this number among [`Layout::fields`].
    Value { field: u16, column: u32 },
    /// A field begins here.
    Open(u16),
    /// It ends here.
    Close(u16),
}

/// Where a field's value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldKind {
    /// The elements say.
    InLine,
    /// One value for all rows of the layout: a number in [`Layouts::shared`].
    Shared(u32),
    /// The next value of a column, not in the line.
    Made(u32),
    /// There, and empty.
    Empty,
}

/// How lines of one kind are put together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) elements: Vec<Element>,
    /// Number of the name, and kind, in the order of the parser.
    pub(crate) fields: Vec<(u32, FieldKind)>,
}

/// What a column holds. Names are numbers in [`Layouts::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ColumnKey {
    /// A field that stands in the line.
    Field(u32),
    /// A field that does not.
    Made(u32),
    /// The text between two fields; [`EDGE`] for the ends of the line.
    Gap(u32, u32),
}

/// Stands for the beginning or the end of a line where a field is named.
pub(crate) const EDGE: u32 = u32::MAX;

/// Things that are numbered as they come.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    places: HashMap<T, u32, foldhash::fast::RandomState>,
    all: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { places: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    pub(crate) fn number<Q>(&mut self, thing: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + std::hash::Hash + ToOwned<Owned = T>,
    {
        if let Some(&place) = self.places.get(thing) {
            return place;
        }
        let place = self.all.len() as u32;
        self.all.push(thing.to_owned());
        self.places.insert(thing.to_owned(), place);
        place
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// A row's value, with where it stands.
type Part = (FieldId, Place, u32);

/// A step through a line, from left to right. `part` is the place among the row's fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Value { part: u16, column: u32 },
    Open { part: u16 },
    Close { part: u16 },
    Folded(Folded),
}

/// Values of a stem that stand in the line, with the literals around: always this text at this place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Folded {
    at: u32,
    text: Box<[u8]>,
    elements: Vec<Element>,
    /// Parts of the first and the last value.
    first: u16,
    last: u16,
}

/// Rows with the same fields of the same kinds in the same order of the line.
struct Shape {
    stops: Vec<Stop>,
    /// Place in [`Layouts::gaps`] of the text behind the last step.
    tail: u32,
    fields: Vec<(u32, FieldKind)>,
    /// Parts that are kept apart, and their columns.
    made: Vec<(u16, u32)>,
    /// Which literal stood in each gap of the row before, and what layout that is.
    literals: Vec<u8>,
    layout: u32,
    layouts: HashMap<Vec<u8>, u32, foldhash::fast::RandomState>,
}

/// A step with the text before it.
struct Stop {
    /// Place in [`Layouts::gaps`].
    gap: u32,
    step: Step,
}

/// Fields and steps: what tells shapes apart.
type ShapeKey = (Vec<(u32, FieldKind)>, Vec<Step>);

/// A shape as rows of one batch have it, with that batch's numbers.
struct BatchShape {
    /// The stem whose values are folded.
    folded: Option<StemId>,
    /// The parts of a row of that shape, without those that are folded; places in the line and lengths do not count.
    parts: Vec<Part>,
    /// Place in [`Layouts::shapes`].
    shape: u32,
}

/// Rows of a folded stem that have the same layout, and each part at the same place; the last one goes on to the end of
/// the line. Most rows of syslog are like the row before in that, and need not be taken apart anew.
pub(crate) struct Alike {
    /// The row's own parts.
    own: Vec<Part>,
    /// Which of them goes to the end of the line.
    last: usize,
    /// Texts that have to stand in the line.
    texts: Vec<(u32, Vec<u8>)>,
    /// Gaps and values from left to right, each with its column; the value of `last` is the last one.
    pieces: Vec<Piece>,
    pub(crate) layout: u32,
}

/// A part of a line that goes to a column.
struct Piece {
    from: u32,
    to: u32,
    column: u32,
    is_gap: bool,
}

/// Alikes that are made for a stem. With rows that differ more often, making them would not pay.
const ALIKES_MAX: u8 = 8;

/// What was found out about the rows of one batch.
#[derive(Default)]
pub(crate) struct BatchShapes {
    shapes: Vec<BatchShape>,
    alikes: Vec<Alike>,
    by_hash: ByHash<Vec<u32>>,
    stems: Vec<StemRows>,
    /// By number of a name in the batch, its number in [`Layouts::names`].
    names: Vec<Option<u32>>,
}

/// The rows of one stem.
#[derive(Clone, Copy, Default)]
struct StemRows {
    count: u32,
    /// Place among [`BatchShapes::shapes`] of the shape met last.
    last: u32,
    /// Place among [`BatchShapes::alikes`], from 1; 0 without.
    alike: u32,
    /// How many of them were made.
    alikes: u8,
}

impl BatchShapes {
    /// For a batch with so many rows to split of each of its stems.
    pub(crate) fn new(rows_of_stems: impl Iterator<Item = u32>) -> Self {
        let stems = rows_of_stems.map(|count| StemRows { count, ..StemRows::default() });
        let stems = stems.collect();
        BatchShapes { stems, ..BatchShapes::default() }
    }

    /// How rows of a stem were split before.
    #[inline]
    pub(crate) fn alike(&self, stem: StemId) -> Option<&Alike> {
        let place = self.stems[usize::from(stem.0)].alike.checked_sub(1)?;
        Some(&self.alikes[place as usize])
    }

    /// Forgets the shapes, whose numbers [`Layouts`] gave.
    pub(crate) fn forget(&mut self) {
        *self = BatchShapes::new(std::mem::take(&mut self.stems).into_iter().map(|s| s.count));
    }
}

/// Not a literal.
const VARIES: u8 = u8::MAX;
/// Nothing stands there.
const NOTHING: u8 = u8::MAX - 1;

/// No row was split yet.
const UNSEEN: u8 = u8::MAX - 2;

/// What was seen between two fields.
struct Gap {
    column: u32,
    literals: Vec<Box<[u8]>>,
    varies: bool,
}

/// All layouts of the lines that were looked at.
#[derive(Default)]
pub(crate) struct Layouts {
    pub(crate) names: Numbered<String>,
    pub(crate) shared: Numbered<Vec<u8>>,
    pub(crate) columns: Numbered<ColumnKey>,
    pub(crate) layouts: Numbered<Layout>,
    gap_places: HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    gaps: Vec<Gap>,
    shapes: Vec<Shape>,
    shape_places: HashMap<ShapeKey, u32, foldhash::fast::RandomState>,
    parts: Vec<Part>,
    /// Of the row at hand, see [`Shape::fits`].
    bounds: Vec<(u32, u32)>,
}

/// Takes the values of a row.
pub(crate) trait Sink {
    /// The next value of a field.
    fn value(&mut self, column: u32, value: &[u8]);
    /// The next text between two fields.
    fn gap(&mut self, column: u32, text: &[u8]);
}

impl Layouts {
    /// Names and layouts so far.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.layouts.len() + self.shared.len() + self.shapes.len()
    }

    /// Splits a row into values; returns the number of its layout. `known` is of the row's batch alone.
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
        let place = self.shape(batch, row, known);
        let shape = &mut self.shapes[place as usize];
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
        let layout = if changed { self.other_layout(place) } else { shape.layout };
        let StemRows { count, alikes, .. } = known.stems[usize::from(row.stem().0)];
        if count >= FOLDED_ROWS_MIN && alikes < ALIKES_MAX {
            self.make_alike(row, known, place, layout);
        }
        layout
    }

    /// Remembers how the row at hand was split, for those that are alike.
    #[cold]
    fn make_alike(&self, row: &Row<'_>, known: &mut BatchShapes, shape: u32, layout: u32) {
        let stem = &mut known.stems[usize::from(row.stem().0)];
        stem.alikes += 1;
        let shape = &self.shapes[shape as usize];
        let line = row.raw();
        let mut alike = Alike {
            own: row.own_places().collect(),
            last: 0,
            texts: Vec::new(),
            pieces: Vec::new(),
            layout,
        };
        let mut at = 0;
        let mut last = None;
        for ((stop, &literal), &(gap, length)) in
            shape.stops.iter().zip(&shape.literals).zip(&self.bounds)
        {
            let (from, to) = (at + gap, at + gap + length);
            match literal {
                VARIES => {
                    let column = self.gaps[stop.gap as usize].column;
                    alike.pieces.push(Piece { from: at, to: from, column, is_gap: true });
                }
                _ => alike.put_text(line, at, from),
            }
            match &stop.step {
                Step::Value { part, column } => {
                    last = Some(usize::from(*part));
                    alike.pieces.push(Piece { from, to, column: *column, is_gap: false });
                }
                Step::Folded(_) => alike.put_text(line, from, to),
                Step::Open { .. } | Step::Close { .. } => {}
            }
            at = to;
        }
        let ends = alike.pieces.last().is_some_and(|p| !p.is_gap && p.to as usize == line.len());
        let Some(last) =
            last.filter(|last| ends && shape.made.is_empty() && *last < alike.own.len())
        else {
            return;
        };
        alike.last = last;
        if stem.alike == 0 {
            known.alikes.push(alike);
            stem.alike = known.alikes.len() as u32;
        } else {
            known.alikes[stem.alike as usize - 1] = alike;
        }
    }

    /// The layout of the shape's rows with other literals than the row before.
    fn other_layout(&mut self, shape: u32) -> u32 {
        let shape = &mut self.shapes[shape as usize];
        shape.layout = match shape.layouts.get(&shape.literals) {
            Some(&layout) => layout,
            None => {
                let layout = self.layouts.number(&layout_of(shape, &self.gaps));
                shape.layouts.insert(shape.literals.clone(), layout);
                layout
            }
        };
        shape.layout
    }

    /// The shape of the row, whose parts are taken.
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
        for &place in known.by_hash.get(&hash).into_iter().flatten() {
            let of_batch = &known.shapes[place as usize];
            if of_batch.holds(folded, &self.parts) {
                if self.shapes[of_batch.shape as usize].fits(&self.parts, line, &mut self.bounds) {
                    known.stems[stem].last = place;
                    return of_batch.shape;
                }
                orders += 1;
            }
        }
        let shape = self.find_shape(batch, row, known, folded.is_some(), orders);
        let fits = self.shapes[shape as usize].fits(&self.parts, line, &mut self.bounds);
        assert!(fits, "a row fits in the shape that was made for it");
        let place = known.shapes.len() as u32;
        known.shapes.push(BatchShape { folded, parts: self.parts.clone(), shape });
        known.by_hash.entry(hash).or_default().push(place);
        known.stems[stem].last = place;
        shape
    }

    /// The shape of the row, made if no row of any batch had it.
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
            // Always in order.
            false => (Vec::new(), (0..parts.len() as u16).collect()),
        };
        if folded {
            let own = (parts.len() - row.stem_fields()) as u16;
            steps = fold(steps, &parts, own, row.raw());
        }
        let mut fields = Vec::with_capacity(parts.len());
        for (part, (id, place, length)) in parts.iter().enumerate() {
            let name = *known.names[usize::from(id.0)]
                .get_or_insert_with(|| self.names.number(batch.name(*id)));
            let kind = match place {
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
        if let Some(&place) = self.shape_places.get(&key) {
            return place;
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
        let place = self.shapes.len() as u32;
        self.shapes.push(shape);
        self.shape_places.insert(key, place);
        place
    }

    fn gap(&mut self, before: u32, behind: u32) -> u32 {
        if let Some(&place) = self.gap_places.get(&(before, behind)) {
            return place;
        }
        let column = self.columns.number(&ColumnKey::Gap(before, behind));
        let place = self.gaps.len() as u32;
        self.gaps.push(Gap { column, literals: Vec::new(), varies: false });
        self.gap_places.insert((before, behind), place);
        place
    }
}

impl Step {
    /// The parts where it begins and ends.
    fn ends(&self) -> (usize, usize) {
        match *self {
            Step::Value { part, .. } | Step::Open { part } | Step::Close { part } => {
                (part.into(), part.into())
            }
            Step::Folded(Folded { first, last, .. }) => (first.into(), last.into()),
        }
    }

    /// Where the gap before ends, and where the next one begins.
    #[inline]
    fn bounds(&self, parts: &[Part]) -> (usize, usize) {
        let span = |part: u16| match parts[usize::from(part)] {
            (_, Place::Line(at), length) => (at as usize, (at + length) as usize),
            _ => (0, 0),
        };
        match self {
            Step::Value { part, .. } => span(*part),
            Step::Open { part } => (span(*part).0, span(*part).0),
            Step::Close { part } => (span(*part).1, span(*part).1),
            Step::Folded(folded) => folded.bounds(),
        }
    }
}

impl Folded {
    #[inline]
    fn bounds(&self) -> (usize, usize) {
        (self.at as usize, self.at as usize + self.text.len())
    }
}

impl Alike {
    fn put_text(&mut self, line: &[u8], from: u32, to: u32) {
        let text = &line[from as usize..to as usize];
        match self.texts.last_mut() {
            _ if text.is_empty() => {}
            Some((at, before)) if *at as usize + before.len() == from as usize => {
                before.extend_from_slice(text);
            }
            _ => self.texts.push((from, text.to_vec())),
        }
    }

    /// Whether a row of the stem is one of these.
    #[inline]
    pub(crate) fn holds(&self, row: &Row<'_>) -> bool {
        let (own, line) = (row.own_places(), row.raw());
        if own.len() != self.own.len() {
            return false;
        }
        for (place, (part, known)) in own.zip(&self.own).enumerate() {
            let (known_name, known_place, known_length) = *known;
            let (name, at, length) = part;
            let fits = match at {
                Place::Line(at) if place == self.last => {
                    (at + length) as usize == line.len() && length > 0
                }
                _ => length == known_length,
            };
            if name != known_name || at != known_place || !fits {
                return false;
            }
        }
        let stands = |(at, text): &(u32, Vec<u8>)| {
            line.get(*at as usize..).is_some_and(|rest| starts_with(rest, text))
        };
        self.texts.iter().all(stands)
    }

    /// Hands over the gaps and values of a row that is one of these.
    #[inline]
    pub(crate) fn split(&self, line: &[u8], sink: &mut impl Sink) {
        let Some((last, pieces)) = self.pieces.split_last() else { return };
        for piece in pieces {
            let text = &line[piece.from as usize..piece.to as usize];
            match piece.is_gap {
                true => sink.gap(piece.column, text),
                false => sink.value(piece.column, text),
            }
        }
        sink.value(last.column, &line[last.from as usize..]);
    }
}

impl BatchShape {
    /// Whether a row has the same fields from the same kinds of places.
    #[inline]
    fn holds(&self, folded: Option<StemId>, parts: &[Part]) -> bool {
        let alike = |(a, b): (&Part, &Part)| {
            let kind = match (a.1, b.1) {
                (Place::Line(_), Place::Line(_)) | (Place::Made(_), Place::Made(_)) => true,
                (Place::Shared(a), Place::Shared(b)) => a == b,
                _ => false,
            };
            a.0 == b.0 && kind && (a.2 == 0) == (b.2 == 0)
        };
        folded == self.folded
            && parts.len() == self.parts.len()
            && self.parts.iter().zip(parts).all(alike)
    }
}

impl Shape {
    /// Whether the parts of a row stand in the shape's order, and the folded texts in their places; `bounds` gets the
    /// lengths of the text before each step and of its own.
    #[inline]
    fn fits(&self, parts: &[Part], line: &[u8], bounds: &mut Vec<(u32, u32)>) -> bool {
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
}

/// Notes the text before a step, and whether another literal stands there than in the row before.
#[inline(always)]
fn put(gaps: &mut [Gap], gap: u32, text: &[u8], literal: &mut u8, sink: &mut impl Sink) -> bool {
    let found = match text {
        [] => NOTHING,
        text => gaps[gap as usize].put(text, *literal, sink),
    };
    let changed = *literal != found;
    *literal = found;
    changed
}

impl Gap {
    /// Notes the text of a gap, which is not empty, and mostly the literal of the row before; returns which literal it is, or that it was given to the sink.
    #[inline]
    fn put(&mut self, text: &[u8], last: u8, sink: &mut impl Sink) -> u8 {
        if !self.varies {
            if self.literals.get(usize::from(last)).is_some_and(|literal| same(literal, text)) {
                return last;
            }
            if let Some(place) = self.literals.iter().position(|literal| same(literal, text)) {
                return place as u8;
            }
            return self.put_new(text, sink);
        }
        sink.gap(self.column, text);
        VARIES
    }

    #[cold]
    fn put_new(&mut self, text: &[u8], sink: &mut impl Sink) -> u8 {
        if !is_literal(text) || self.literals.len() >= LITERALS_MAX {
            self.varies = true;
            sink.gap(self.column, text);
            return VARIES;
        }
        self.literals.push(text.into());
        (self.literals.len() - 1) as u8
    }
}

/// Whether a text between two fields may be a literal.
fn is_literal(text: &[u8]) -> bool {
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    digits <= LITERAL_DIGITS_MAX && text.len() <= LITERAL_BYTES_MAX
}

/// Kinds and names of the parts, without where they stand, and the stem that is folded.
#[inline]
fn hash_of(folded: Option<StemId>, parts: &[Part]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = folded.map_or(0, |stem| (u64::from(stem.0) + 1) << 10) + parts.len() as u64;
    for (name, place, length) in parts {
        let kind = match place {
            Place::Line(_) => 0,
            Place::Made(_) => 1,
            Place::Shared(at) => 2 + u64::from(*at),
        };
        let empty = u64::from(*length == 0);
        hash = (hash.rotate_left(7) ^ (u64::from(name.0) << 34 | kind << 1 | empty))
            .wrapping_mul(FACTOR);
    }
    hash ^ hash >> 29
}

/// The steps through a line with these parts, and the parts that do not fit in.
fn arrange(parts: &[Part]) -> (Vec<Step>, Vec<u16>) {
    let mut spans: Vec<(u32, u32, u16)> = Vec::new();
    for (part, (_, place, length)) in parts.iter().enumerate() {
        if let Place::Line(at) = place
            && *length > 0
        {
            spans.push((*at, at + length, part as u16));
        }
    }
    spans.sort_by_key(|&(from, to, part)| (from, std::cmp::Reverse(to), part));
    let (mut steps, mut apart) = (Vec::new(), Vec::new());
    let mut open: Vec<(u32, u16)> = Vec::new();
    let mut spans = spans.into_iter().peekable();
    while let Some((from, to, part)) = spans.next() {
        while let Some(&(end, outer)) = open.last()
            && end <= from
        {
            steps.push(Step::Close { part: outer });
            open.pop();
        }
        if open.last().is_some_and(|&(end, _)| to > end) {
            apart.push(part);
        } else if spans.peek().is_some_and(|&(next, next_to, _)| next < to && next_to <= to) {
            steps.push(Step::Open { part });
            open.push((to, part));
        } else {
            steps.push(Step::Value { part, column: 0 });
            // What overlaps a value and sticks out of it does not fit in.
            open.push((to, part));
            while spans.peek().is_some_and(|&(next, ..)| next < to) {
                apart.extend(spans.next().map(|(.., part)| part));
            }
            open.pop();
        }
    }
    steps.extend(open.into_iter().rev().map(|(_, part)| Step::Close { part }));
    (steps, apart)
}

/// The same steps, with those through the parts from `own` on, which are of the row's stem, taken together to texts.
fn fold(steps: Vec<Step>, parts: &[Part], own: u16, line: &[u8]) -> Vec<Step> {
    let mut folded: Vec<Step> = Vec::new();
    let mut at = 0;
    for step in steps {
        let (from, to) = step.bounds(parts);
        let (first, last) = step.ends();
        let gap = &line[at..from];
        let joins = match folded.last_mut() {
            None => is_literal(gap),
            Some(Step::Folded(before)) if is_literal(gap) => {
                before.put_literal(gap);
                true
            }
            Some(_) => false,
        };
        if (first as u16) < own {
            folded.push(step);
        } else {
            if !matches!(folded.last(), Some(Step::Folded(_)) if joins) {
                let begin = if joins { at } else { from };
                let mut new = Folded {
                    at: begin as u32,
                    text: Box::default(),
                    elements: Vec::new(),
                    first: first as u16,
                    last: last as u16,
                };
                new.put_literal(&line[begin..from]);
                folded.push(Step::Folded(new));
            }
            let Some(Step::Folded(text)) = folded.last_mut() else { unreachable!("it is one") };
            text.put(&step, &line[from..to]);
        }
        at = to;
    }
    folded
}

impl Folded {
    fn put_literal(&mut self, text: &[u8]) {
        if !text.is_empty() {
            self.elements.push(Element::Literal(text.into()));
            self.text = [&self.text, text].concat().into();
        }
    }

    fn put(&mut self, step: &Step, text: &[u8]) {
        self.last = step.ends().1 as u16;
        match *step {
            Step::Value { part, .. } => {
                self.elements.push(Element::Open(part));
                self.put_literal(text);
                self.elements.push(Element::Close(part));
            }
            Step::Open { part } => self.elements.push(Element::Open(part)),
            Step::Close { part } => self.elements.push(Element::Close(part)),
            Step::Folded(_) => unreachable!("steps are folded once"),
        }
    }
}

fn layout_of(shape: &Shape, gaps: &[Gap]) -> Layout {
    let mut elements = Vec::new();
    let stops = shape.stops.iter().map(|stop| (stop.gap, Some(&stop.step)));
    let stops = stops.chain(std::iter::once((shape.tail, None)));
    for ((gap, step), &literal) in stops.zip(&shape.literals) {
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
    Layout { elements, fields: shape.fields.clone() }
}
