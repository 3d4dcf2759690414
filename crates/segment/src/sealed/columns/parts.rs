//! Assembles the values of a field that contains others, line by line, from the elements of each
//! line's layout.

use record::automaton::{Automaton, AutomatonState, BEGIN, KnownValues, is_last};

use super::{BlockColumns, Fault, TIMES};
use crate::sealed::column::Column;
use crate::sealed::field::Source;
use crate::sealed::pack::Element;

/// The parts of a field, for one line after the other from the first. A column is decoded when a
/// line first needs it.
pub(super) struct Parts<'b, 'p> {
    block: &'b BlockColumns<'p>,
    sources: &'b [Source<'b>],
    times: &'b [i64],
    of_row: &'b [u32],
    row: usize,
    columns: Vec<Option<Part<'b>>>,
    /// The index of the next value in each column.
    next: Vec<usize>,
    /// For each layout, the tracked columns of which its lines take a value.
    taken: Vec<Vec<usize>>,
    text: Vec<u8>,
}

struct Part<'b> {
    column: Column<'b>,
    /// Results for the values of a dictionary.
    known: KnownValues,
}

impl<'b, 'p> Parts<'b, 'p> {
    /// The parts of a field with these sources. `also`: another column whose value indexes are
    /// tracked too.
    pub fn new(
        block: &'b BlockColumns<'p>,
        sources: &'b [Source<'b>],
        also: impl Fn(usize) -> bool,
    ) -> Result<Self, Fault> {
        let count = block.listing.columns.len();
        let mut is_tracked: Vec<bool> = (0..count).map(also).collect();
        for (class, source) in sources.iter().enumerate() {
            let columns = block.between(class, source).iter().filter_map(Element::column);
            columns.for_each(|column| is_tracked[column] = true);
        }
        let taken = block.layouts.iter().map(|layout| {
            let mut taken = Vec::new();
            layout.each_column(|column| taken.extend(is_tracked[column].then_some(column)));
            taken
        });
        let mut columns = Vec::new();
        columns.resize_with(count, || None);
        Ok(Parts {
            block,
            sources,
            times: block.numbers(TIMES)?,
            of_row: block.of_row()?,
            row: 0,
            columns,
            next: vec![0; count],
            taken: taken.collect(),
            text: Vec::new(),
        })
    }

    /// The index of the line's value in a column.
    pub fn value_index(&self, column: usize) -> usize {
        self.next[column]
    }

    /// Advances to the next line.
    pub fn pass(&mut self) {
        let class = self.of_row[self.row] as usize;
        self.taken[class].iter().for_each(|&column| self.next[column] += 1);
        self.row += 1;
    }

    /// The line's value.
    pub fn value(&mut self) -> Result<&[u8], Fault> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        for element in self.elements() {
            if let Element::Literal(literal) = element {
                text.extend_from_slice(literal);
            } else if let Some(column) = element.column() {
                let (index, time_ns) = (self.next[column], self.times[self.row]);
                self.part(column)?.column.append(index, time_ns, &mut text);
            }
        }
        self.text = text;
        Ok(&self.text)
    }

    /// The state behind the line's value, or a final state that an earlier part leads to.
    pub fn run(&mut self, automaton: &Automaton) -> Result<AutomatonState, Fault> {
        let mut state = BEGIN;
        for element in self.elements() {
            if let Element::Literal(literal) = element {
                state = automaton.step(state, literal);
            } else if let Some(column) = element.column() {
                let (index, time_ns) = (self.next[column], self.times[self.row]);
                let mut text = std::mem::take(&mut self.text);
                state = self.part(column)?.step(index, time_ns, state, automaton, &mut text);
                self.text = text;
            }
            if is_last(state) {
                break;
            }
        }
        Ok(state)
    }

    fn elements(&self) -> &'b [Element<'p>] {
        let class = self.of_row[self.row] as usize;
        self.block.between(class, &self.sources[class])
    }

    fn part(&mut self, column: usize) -> Result<&mut Part<'b>, Fault> {
        let slot = &mut self.columns[column];
        if slot.is_none() {
            *slot = Some(Part::new(self.block.decode(column)?));
        }
        Ok(slot.as_mut().expect("it was decoded"))
    }
}

impl<'b> Part<'b> {
    fn new(column: Column<'b>) -> Part<'b> {
        let values = if let Column::Dictionary { values, .. } = &column { values.len() } else { 0 };
        Part { column, known: KnownValues::new(values) }
    }

    /// The state behind a value. The value is rendered to `text` if it is not stored as such.
    fn step(
        &mut self,
        index: usize,
        time_ns: i64,
        state: AutomatonState,
        automaton: &Automaton,
        text: &mut Vec<u8>,
    ) -> AutomatonState {
        if let Column::Dictionary { values, codes, .. } = &self.column {
            let code = codes.get(index).map_or(0, |&code| usize::from(code));
            return self.known.step(code, state, automaton, || values.get(code));
        }
        text.clear();
        self.column.append(index, time_ns, text);
        automaton.step(state, text)
    }
}
