//! The values of each field, on both sides.

use std::collections::HashMap;
use std::sync::Arc;

use super::numbers::Numbers;
use super::row::VALUE_BYTES_MAX;
use crate::base::number::parse_quantity;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};
use crate::lang::pipe::tuples::ENTRY_BYTES;

/// Most different values of a field. Of a field with more, only the numbers are compared.
///
/// limits.md, Queries: different values of a field in the pipe `differences` | {} of up to 128
/// bytes | the values of that field are not compared
const VALUES_MAX: usize = 1_000;

/// Rows with a value on both sides: first the others, then the selected ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    pub rows: [u64; 2],
    /// The first time of a selected row.
    pub first_ns: Option<i64>,
    /// The last time of another row.
    pub last_ns: Option<i64>,
}

impl Hits {
    fn of(side: usize, time_ns: Option<i64>) -> Hits {
        let mut hits = Hits::default();
        hits.rows[side] = 1;
        if side == 0 {
            hits.last_ns = time_ns;
        } else {
            hits.first_ns = time_ns;
        }
        hits
    }

    fn merge(&mut self, other: Hits) {
        let sum = |side: usize| self.rows[side] + other.rows[side];
        self.rows = [sum(0), sum(1)];
        self.first_ns = match (self.first_ns, other.first_ns) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// A field.
pub(super) struct Field {
    pub name: Arc<str>,
    /// None: there were too many values, or too long ones.
    pub values: Option<HashMap<Box<[u8]>, Hits, foldhash::fast::RandomState>>,
    pub numbers: Numbers,
    /// Rows with a value that is not a number.
    pub texts: u64,
}

/// Memory of a field besides its name and values.
const FIELD_BYTES: usize = size_of::<Field>() + ENTRY_BYTES;

fn value_bytes(value: &[u8]) -> usize {
    value.len() + size_of::<Hits>() + ENTRY_BYTES
}

impl Field {
    fn push(
        &mut self,
        side: usize,
        value: &[u8],
        time_ns: Option<i64>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        match parse_quantity(value).filter(|number| number.is_finite()) {
            Some(number) => self.numbers.push(side, number, meter)?,
            None => self.texts += 1,
        }
        self.add(value, Hits::of(side, time_ns), meter)
    }

    fn add(&mut self, value: &[u8], hits: Hits, meter: &mut Meter) -> Result<(), RunError> {
        let Some(values) = &mut self.values else { return Ok(()) };
        if let Some(own) = values.get_mut(value) {
            own.merge(hits);
            return Ok(());
        }
        if value.len() > VALUE_BYTES_MAX || values.len() >= VALUES_MAX {
            self.leave_out(meter);
            return Ok(());
        }
        meter.take(value_bytes(value))?;
        values.insert(value.into(), hits);
        Ok(())
    }

    fn leave_out(&mut self, meter: &mut Meter) {
        if let Some(values) = self.values.take() {
            meter.give_back(values.keys().map(|value| value_bytes(value)).sum());
        }
    }

    fn merge(&mut self, other: Field, meter: &mut Meter) -> Result<(), RunError> {
        self.texts += other.texts;
        self.numbers.merge(other.numbers, meter)?;
        let Some(values) = other.values else {
            self.leave_out(meter);
            return Ok(());
        };
        for (value, hits) in values {
            self.add(&value, hits, meter)?;
            meter.give_back(value_bytes(&value));
        }
        Ok(())
    }
}

/// All fields.
#[derive(Default)]
pub(super) struct Fields {
    places: HashMap<Arc<str>, usize, foldhash::fast::RandomState>,
    fields: Vec<Field>,
}

impl Fields {
    /// Counts a value, and returns the shared name of its field.
    pub fn push(
        &mut self,
        name: &Arc<str>,
        side: usize,
        value: &[u8],
        time_ns: Option<i64>,
        meter: &mut Meter,
    ) -> Result<&Arc<str>, RunError> {
        let place = self.place(name, meter)?;
        let field = &mut self.fields[place];
        field.push(side, value, time_ns, meter)?;
        Ok(&field.name)
    }

    fn place(&mut self, name: &Arc<str>, meter: &mut Meter) -> Result<usize, RunError> {
        if let Some(&place) = self.places.get(name) {
            return Ok(place);
        }
        meter.take(name.len() + FIELD_BYTES)?;
        let (name, place) = (name.clone(), self.fields.len());
        self.places.insert(name.clone(), place);
        let (values, numbers) = (Some(HashMap::default()), Numbers::default());
        self.fields.push(Field { name, values, numbers, texts: 0 });
        Ok(place)
    }

    pub fn merge(&mut self, other: Fields, meter: &mut Meter) -> Result<(), RunError> {
        for field in other.fields {
            let place = self.place(&field.name, meter)?;
            meter.give_back(field.name.len() + FIELD_BYTES);
            self.fields[place].merge(field, meter)?;
        }
        Ok(())
    }

    /// All fields, by name.
    pub fn into_sorted(self) -> Vec<Field> {
        let mut fields = self.fields;
        fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        fields
    }

    /// Format: the number of fields, then each: its name, the rows whose values are not numbers,
    /// the numbers, whether there are values, and each value with the rows of both sides, the first
    /// and the last time.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.fields.len() as u64)?;
        for field in &self.fields {
            out.bytes(field.name.as_bytes())?;
            out.number(field.texts)?;
            field.numbers.encode(out)?;
            out.flag(field.values.is_some())?;
            let Some(values) = &field.values else { continue };
            out.number(values.len() as u64)?;
            for (value, hits) in values {
                out.bytes(value)?;
                hits.rows.iter().try_for_each(|rows| out.number(*rows))?;
                out.time(hits.first_ns)?;
                out.time(hits.last_ns)?;
            }
        }
        Ok(())
    }

    pub fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Fields, RunError> {
        let mut fields = Fields::default();
        for _ in 0..from.length(size_of::<u32>())? {
            let name = from.name(meter)?;
            if fields.places.contains_key(&name) {
                return Err(wrong_state("a field comes twice"));
            }
            let place = fields.place(&name, meter)?;
            let field = &mut fields.fields[place];
            field.texts = from.count()?;
            field.numbers = Numbers::decode(from, meter)?;
            if !from.flag()? {
                field.leave_out(meter);
                continue;
            }
            for _ in 0..from.length(size_of::<u32>())? {
                let (value, rows) = (from.bytes()?, [from.count()?, from.count()?]);
                let (first_ns, last_ns) = (from.time()?, from.time()?);
                field.add(value, Hits { rows, first_ns, last_ns }, meter)?;
            }
        }
        Ok(fields)
    }
}
