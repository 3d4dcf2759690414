//! The state of a stats function for each group, independent of how groups are found.
//!
//! A function is an [`Aggregate`]: it defines how a row changes the state of its group, how the
//! states of two workers are merged, and how a result is written. [`PerGroup`] holds the states of
//! all groups. Its loop over the rows of a block is compiled for each function, so dispatch happens
//! once per block. The [`Meter`] counts the memory that states point to.

use std::any::Any;
use std::collections::HashSet;

use record::LineId;

use crate::base::bitmap::Bitmap;
use crate::base::names::NamePattern;
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, CHECK_ROWS, Meter, RunError, json};
use crate::block::{Block, Column, RowFields, Scratch, Vector};
use crate::lang::pipe::Next;

/// A running function; it may have buffers that it reuses for each row.
pub(super) trait Aggregate: Send + 'static {
    /// The state of one group.
    type State: Default + Send + 'static;

    /// Adds a row to a state.
    fn add(
        &mut self,
        state: &mut Self::State,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError>;

    /// Adds rows that are not read, only counted; only for functions that count rows.
    fn add_lines(&self, _state: &mut Self::State, _lines: u64) {
        unreachable!("only functions that count rows are given numbers of lines");
    }

    /// Whether the function takes the values of a single field as a vector.
    const TAKES_VECTORS: bool = false;

    /// Adds the values of the only field in some rows, as [`add`](Self::add) does row by row.
    fn add_vector(
        &mut self,
        _states: &mut [Self::State],
        _rows: &VectorRows<'_>,
        _meter: &mut Meter,
    ) -> Result<(), RunError> {
        unreachable!("only functions that take vectors are given any");
    }

    /// Merges the state of another worker.
    fn merge(
        &mut self,
        state: &mut Self::State,
        other: Self::State,
        meter: &mut Meter,
    ) -> Result<(), RunError>;

    /// Encodes the state of a group, for another process.
    fn encode(&self, state: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError>;

    /// Decodes a state of [`encode`](Self::encode). The memory that the state points to is counted
    /// as during collection.
    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError>;

    /// Lower bound of the bytes of the result, where it may be large.
    fn text_bytes(&self, _state: &Self::State) -> usize {
        0
    }

    /// Appends the result. `seconds`: length of the time range of the group, if it is known.
    fn write(&self, state: &mut Self::State, seconds: Option<f64>, out: &mut Vec<u8>);
}

/// The values of a field in the rows that a function reads.
pub(super) struct VectorRows<'v> {
    pub vector: &'v Vector,
    /// For each row, its place in `groups`; none: all are in the first.
    pub of_row: Option<&'v [u32]>,
    /// The indexes of states.
    pub groups: &'v [u32],
}

impl VectorRows<'_> {
    /// Calls `each` with the index of the state, and the number, of each row whose value is one.
    #[inline]
    pub fn each_number(
        &self,
        mut each: impl FnMut(usize, f64) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        match self.of_row {
            None => {
                let group = self.groups[0] as usize;
                self.vector.each_number(|_, number| each(group, number))
            }
            Some(of_row) => {
                let groups = self.groups;
                self.vector
                    .each_number(|row, number| each(groups[of_row[row] as usize] as usize, number))
            }
        }
    }

    /// The place of a row in [`VectorRows::groups`].
    #[inline]
    pub fn place(&self, row: usize) -> usize {
        self.of_row.map_or(0, |places| places[row] as usize)
    }

    /// Calls `each` once for each value that occurs in a group, and is not empty, with the index of
    /// the state and the text; values that each row has for itself may repeat.
    pub fn each_text(
        &self,
        mut each: impl FnMut(usize, &[u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let values = &self.vector.values;
        let mut seen = HashSet::<(u32, u32), foldhash::fast::RandomState>::default();
        let mut last = None;
        let mut buffer = Vec::new();
        for row in 0..self.vector.rows() {
            let (at, place) = (self.vector.at(row), self.place(row));
            if at >= values.len() || last == Some((at, place)) {
                continue;
            }
            last = Some((at, place));
            if self.vector.of_row.is_some() && !seen.insert((at as u32, place as u32)) {
                continue;
            }
            let text = values.text(at, &mut buffer);
            if !text.is_empty() {
                each(self.groups[place] as usize, text)?;
            }
        }
        Ok(())
    }
}

/// The rows of a block, as a function reads them.
pub(super) struct Input<'b> {
    block: &'b Block,
    fields: Fields<'b>,
    /// Counts the memory of copied rows.
    meter: Meter,
}

enum Fields<'b> {
    Columns(Vec<Column<'b>>),
    /// Some of the names are only beginnings.
    Patterns(&'b [NamePattern]),
}

impl<'b> Input<'b> {
    pub fn new(block: &'b Block, fields: &'b [NamePattern], meter: &Meter) -> Input<'b> {
        let fields = match fields.iter().any(|field| field.prefix) {
            true => Fields::Patterns(fields),
            false => Fields::Columns(fields.iter().map(|f| block.column(&f.name)).collect()),
        };
        Input { block, fields, meter: meter.clone() }
    }

    /// The id of the line in a row; none for rows that pipes made.
    pub fn line(&self, row: usize) -> Option<LineId> {
        self.block.line_key(row).map(|(_, id)| id)
    }

    /// Calls `each` with the values of the function's fields in a row. If any name is only a
    /// beginning, calls it with the values that are not empty, sorted by the names of their fields.
    #[inline]
    pub fn each(
        &self,
        row: usize,
        scratch: &mut Scratch,
        mut each: impl FnMut(&[u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        match &self.fields {
            Fields::Columns(columns) => {
                columns.iter().try_for_each(|&column| each(self.block.value(column, row, scratch)))
            }
            Fields::Patterns(patterns) => {
                // Sorted, because the order of a row's fields depends on whether it was sealed.
                let mut text = Buffer::default();
                let mut found = Vec::new();
                let mut meter = self.meter.clone();
                let mut result = Ok(());
                self.block.visit(row, &[], scratch, &mut |name, value, _| {
                    if result.is_err() || !patterns.iter().any(|p| p.matches(name)) {
                        return;
                    }
                    result = text.room(name.len() + value.len(), &mut meter).map(|text| {
                        let from = text.len();
                        text.extend_from_slice(name.as_bytes());
                        let value_from = text.len();
                        text.extend_from_slice(value);
                        found.push((from..value_from, value_from..text.len()));
                    });
                });
                result?;
                let bytes = text.bytes();
                found.sort_unstable_by(|(a, _), (b, _)| bytes[a.clone()].cmp(&bytes[b.clone()]));
                found.into_iter().try_for_each(|(_, value)| each(&bytes[value]))?;
                text.clear(&mut meter);
                Ok(())
            }
        }
    }

    /// Whether one of the function's fields has a value in a row.
    #[inline]
    pub fn any(&self, row: usize, scratch: &mut Scratch) -> bool {
        match &self.fields {
            Fields::Columns(columns) => {
                columns.iter().any(|&column| !self.block.value(column, row, scratch).is_empty())
            }
            Fields::Patterns(patterns) => {
                let mut any = false;
                self.block.visit(row, &[], scratch, &mut |name, value, _| {
                    any = any || !value.is_empty() && patterns.iter().any(|p| p.matches(name));
                });
                any
            }
        }
    }

    /// The value of a field that is not an argument of the function.
    #[inline]
    pub fn value<'a>(&'a self, name: &str, row: usize, scratch: &'a mut Scratch) -> &'a [u8] {
        self.block.value(self.block.column(name), row, scratch)
    }

    /// Writes a JSON object of the fields of a row that `fields` selects and that are not empty;
    /// all fields if `fields` is empty.
    pub fn write_json(
        &self,
        row: usize,
        fields: &[NamePattern],
        scratch: &mut Scratch,
        out: &mut Buffer,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        out.clear(meter);
        out.room(1, meter)?.push(b'{');
        // Sorted, because the order of a row's fields depends on whether it was sealed.
        let mut ordered = RowFields::default();
        let mut copied = 0;
        if fields.is_empty() {
            copied += self.wanted_bytes(row, &NamePattern::ANY, scratch);
            meter.take(copied)?;
            self.block.visit(row, &[], scratch, &mut |name, value, _| {
                ordered.add(RowFields::usual_rank(name), name, value);
            });
            put_members(&mut ordered, out, meter)?;
        }
        for field in fields {
            if field.prefix {
                ordered.clear();
                let bytes = self.wanted_bytes(row, field, scratch);
                meter.take(bytes)?;
                copied += bytes;
                self.block.visit(row, &[], scratch, &mut |name, value, _| {
                    if field.matches(name) {
                        ordered.add(0, name, value);
                    }
                });
                put_members(&mut ordered, out, meter)?;
            } else {
                match self.value(&field.name, row, scratch) {
                    b"" => {}
                    value => json::put_member(&field.name, value, out, meter)?,
                }
            }
        }
        meter.give_back(copied);
        out.room(1, meter)?.push(b'}');
        Ok(())
    }

    /// Bytes of a copy of the matching fields of a row, where they are many.
    fn wanted_bytes(&self, row: usize, pattern: &NamePattern, scratch: &mut Scratch) -> usize {
        let mut bytes = 0;
        self.block.visit(row, &[], scratch, &mut |name, value, _| {
            bytes += if pattern.matches(name) { name.len() + value.len() } else { 0 };
        });
        if bytes > COPIED_BYTES_FEW { bytes } else { 0 }
    }
}

/// Bytes of a row up to which a copy is not counted.
const COPIED_BYTES_FEW: usize = 64 << 10;

/// Appends fields in order as JSON members.
fn put_members(
    ordered: &mut RowFields,
    out: &mut Buffer,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let mut result = Ok(());
    ordered.each(|name, value| {
        if result.is_ok() {
            result = json::put_member(name, value, out, meter);
        }
    });
    result
}

/// The states of all groups of a function.
pub(super) trait States: Any + Send {
    /// Memory of the state of one group, without what it points to.
    fn state_bytes(&self) -> usize;

    /// Makes room for `groups` groups.
    fn grow(&mut self, groups: usize);

    /// Adds the rows of a block, or only those in `bits`; `groups` has the group of each row.
    fn add(
        &mut self,
        block: &Block,
        groups: &[u32],
        bits: Option<&Bitmap>,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError>;

    /// Adds `lines` rows to a group; only for functions that count rows.
    fn add_lines(&mut self, group: u32, lines: u64);

    /// The only field of the function, if it takes the field's values as a vector.
    fn vector_field(&self) -> Option<&str>;

    /// Adds the values of [that field](Self::vector_field) in some rows.
    fn add_vector(&mut self, rows: &VectorRows<'_>, meter: &mut Meter) -> Result<(), RunError>;

    /// Merges the states of another worker: its group `g` is our group `places[g]`.
    fn merge(
        &mut self,
        other: Box<dyn States>,
        places: &[u32],
        next: &mut Next<'_>,
    ) -> Result<(), RunError>;

    /// Encodes the states of all groups.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError>;

    /// Decodes states for all groups that exist.
    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError>;

    /// Lower bound of the bytes of a group's result, where it may be large.
    fn text_bytes(&self, group: u32) -> usize;

    /// Appends the result of a group; `seconds` as in [`Aggregate::write`].
    fn write(&mut self, group: u32, seconds: Option<f64>, out: &mut Vec<u8>);
}

/// A function, its fields, and its states.
pub(super) struct PerGroup<A: Aggregate> {
    function: A,
    fields: Vec<NamePattern>,
    states: Vec<A::State>,
}

impl<A: Aggregate> PerGroup<A> {
    pub fn boxed(function: A, fields: &[NamePattern]) -> Box<dyn States> {
        Box::new(PerGroup { function, fields: fields.to_vec(), states: Vec::new() })
    }
}

impl<A: Aggregate> States for PerGroup<A> {
    fn state_bytes(&self) -> usize {
        size_of::<A::State>()
    }

    fn grow(&mut self, groups: usize) {
        self.states.resize_with(groups, A::State::default);
    }

    fn add(
        &mut self,
        block: &Block,
        groups: &[u32],
        bits: Option<&Bitmap>,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let input = Input::new(block, &self.fields, meter);
        let (function, states) = (&mut self.function, &mut self.states);
        let mut add = |row: usize| {
            function.add(&mut states[groups[row] as usize], &input, row, scratch, meter)
        };
        match bits {
            None => (0..block.len()).try_for_each(add),
            Some(bits) => bits.iter().try_for_each(&mut add),
        }
    }

    fn add_lines(&mut self, group: u32, lines: u64) {
        self.function.add_lines(&mut self.states[group as usize], lines);
    }

    fn vector_field(&self) -> Option<&str> {
        match &self.fields[..] {
            [field] if A::TAKES_VECTORS && !field.prefix => Some(&field.name),
            _ => None,
        }
    }

    fn add_vector(&mut self, rows: &VectorRows<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.function.add_vector(&mut self.states, rows, meter)
    }

    fn merge(
        &mut self,
        other: Box<dyn States>,
        places: &[u32],
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        let other: Box<dyn Any> = other;
        let Ok(other) = other.downcast::<Self>() else {
            unreachable!("workers of one query have the same functions")
        };
        for (number, (state, place)) in other.states.into_iter().zip(places).enumerate() {
            if number % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            self.function.merge(&mut self.states[*place as usize], state, next.meter())?;
        }
        Ok(())
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        self.states.iter().try_for_each(|state| self.function.encode(state, out))
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.states.iter_mut().try_for_each(|state| {
            *state = self.function.decode(from, meter)?;
            Ok(())
        })
    }

    fn text_bytes(&self, group: u32) -> usize {
        self.function.text_bytes(&self.states[group as usize])
    }

    fn write(&mut self, group: u32, seconds: Option<f64>, out: &mut Vec<u8>) {
        self.function.write(&mut self.states[group as usize], seconds, out);
    }
}

/// Encodes an optional value.
pub(super) fn encode_optional(
    value: &Option<Box<[u8]>>,
    out: &mut Encoder<'_>,
) -> Result<(), RunError> {
    out.optional(value.as_deref())
}

/// Decodes an optional value; its bytes are counted.
pub(super) fn decode_optional(
    from: &mut Decoder<'_>,
    meter: &mut Meter,
) -> Result<Option<Box<[u8]>>, RunError> {
    let Some(value) = from.optional()? else { return Ok(None) };
    meter.take(value.len())?;
    Ok(Some(value.into()))
}

/// Appends to the bytes of a state, and counts the memory that this takes.
pub(super) fn extend(kept: &mut Vec<u8>, bytes: &[u8], meter: &mut Meter) -> Result<(), RunError> {
    let needed = kept.len() + bytes.len();
    if needed > kept.capacity() {
        let capacity = needed.max(2 * kept.capacity());
        meter.take(capacity - kept.capacity())?;
        kept.reserve_exact(capacity - kept.len());
    }
    kept.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Query;
    use crate::base::{Limits, RunError};
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, collect, record};

    /// Long values that functions keep count as memory of the query; values they do not keep do
    /// not.
    #[test]
    fn what_is_kept_is_limited() {
        let values: Vec<String> = (0..500).map(|i| format!("{i:0>100}x")).collect();
        let texts: Vec<(String, &String)> = (0..500).map(|i| i.to_string()).zip(&values).collect();
        let records: Vec<Record> =
            texts.iter().map(|(n, v)| record(1, &[("_msg", v), ("n", n)])).collect();
        let source = Memory::of(&records);
        let run = |function: &str, memory_bytes_max: u64| {
            let query = Query::parse(&format!("* | stats {function} x"), 0).unwrap();
            let limits = Limits { memory_bytes_max, ..Limits::default() };
            collect(&query, &source, &Context { limits, ..Context::default() }).1.map(drop)
        };
        let check = |function: &str, needed_min: u64, needed_max: u64| {
            let little = run(function, needed_min);
            assert!(matches!(little, Err(RunError::MemoryLimit(_))), "{function} {little:?}");
            assert!(run(function, needed_max).is_ok(), "{function}");
        };
        for function in ["count_uniq(_msg)", "values(_msg)", "uniq_values(_msg)"] {
            check(function, 50_000, 200_000);
        }
        check("json_values(_msg)", 50_000, 200_000);
        check("json_values(_msg, n) sort by (n desc) limit 3", 500, 100_000);
        check("count_uniq_hash(_msg)", 8_000, 20_000);
        check("quantile(0.5, n)", 4_000, 10_000);
        check("row_max(n)", 100, 1_000);
        check("row_any()", 100, 1_000);
        check("any(_msg)", 100, 1_000);
        check("histogram(n)", 100, 5_000);
        for function in ["count()", "sum(n)", "sum_len(_msg)", "stddev(n)", "rate_sum(n)", "max(n)"]
        {
            assert!(run(function, 400).is_ok(), "{function}");
        }
        // The function reads long values, but keeps none. Were the value unreadable, its row would
        // count as empty.
        let long = "x".repeat(200_000);
        let source = Memory::of(&[record(1, &[("_msg", &long), ("n", "1")])]);
        let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
        let query = Query::parse("* | stats count(_m*) x, count_empty(_m*) y", 0).unwrap();
        let (rows, outcome) = collect(&query, &source, &Context { limits, ..Context::default() });
        outcome.unwrap();
        let shown = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(rows, [[shown("x", "1"), shown("y", "0")]]);
        assert!(run("values(_msg) limit 3", 2_000).is_ok());
        assert!(run("count_uniq(_msg) limit 3", 2_000).is_ok());
    }
}
