//! The values of each field, on both sides.

use std::collections::HashMap;
use std::sync::Arc;

use super::numbers::Numbers;
use super::row::VALUE_BYTES_MAX;
use crate::base::number::parse_quantity;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};
use crate::lang::pipe::tuples::ENTRY_BYTES;

/// Most different values of a field that are counted at a time. Beyond it, the half with fewer rows
/// is forgotten (Misra and Gries, *Finding Repeated Elements*, 1982), so that frequent values stay.
///
/// limits.md, Queries: different values of a field in the pipe `differences` | {} of up to 128
/// bytes | rare values of that field are not compared
const VALUES_MAX: usize = 1_000;
/// A field none of whose values had [`REPEATED`] rows after values were forgotten this many times
/// has identifiers. They are not counted any more.
const FORGOTTEN_TIMES_MAX: u32 = 32;
/// See [`FORGOTTEN_TIMES_MAX`].
const REPEATED: u64 = 4;

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

/// The values of a field, or the frequent ones of very many.
#[derive(Default)]
pub(super) struct Values {
    hits: HashMap<Box<[u8]>, Hits, foldhash::fast::RandomState>,
    /// How often the rarer half was forgotten.
    forgotten_times: u32,
    /// Rows of both sides that a value may have had besides, because it was forgotten.
    forgotten: [u64; 2],
    /// Every value is another one: none is counted.
    are_identifiers: bool,
    /// Some values were too long.
    has_long: bool,
}

impl Values {
    /// Whether there are values that are not counted.
    pub fn is_cut(&self) -> bool {
        self.forgotten_times > 0 || self.are_identifiers || self.has_long
    }

    pub fn len(&self) -> usize {
        self.hits.len()
    }

    /// The rows of a value; where values were forgotten, they are at least so many.
    pub fn get(&self, value: &[u8]) -> Option<&Hits> {
        self.hits.get(value)
    }

    /// Each value with its rows on both sides. Rows that may have been forgotten are added where
    /// they make a difference smaller.
    pub fn iter(&self, scale: f64) -> impl Iterator<Item = (&[u8], Hits)> {
        self.hits.iter().map(move |(value, hits)| {
            let mut hits = *hits;
            let expected = hits.rows[0] as f64 * scale;
            let side = usize::from(hits.rows[1] as f64 <= expected);
            hits.rows[side] += self.forgotten[side];
            (&**value, hits)
        })
    }

    fn add(&mut self, value: &[u8], hits: Hits, meter: &mut Meter) -> Result<(), RunError> {
        if let Some(own) = self.hits.get_mut(value) {
            own.merge(hits);
            return Ok(());
        }
        if self.are_identifiers {
            return Ok(());
        }
        if value.len() > VALUE_BYTES_MAX {
            self.has_long = true;
            return Ok(());
        }
        if self.hits.len() >= VALUES_MAX {
            self.forget_rare(meter);
            if self.are_identifiers {
                return Ok(());
            }
        }
        meter.take(value_bytes(value))?;
        self.hits.insert(value.into(), hits);
        Ok(())
    }

    fn forget_rare(&mut self, meter: &mut Meter) {
        let mut all: Vec<_> = std::mem::take(&mut self.hits).into_iter().collect();
        let rows = |hits: &Hits| hits.rows[0] + hits.rows[1];
        all.sort_unstable_by(|a, b| rows(&b.1).cmp(&rows(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let mut most = [0; 2];
        for (value, hits) in all.drain(VALUES_MAX / 2..) {
            most = [most[0].max(hits.rows[0]), most[1].max(hits.rows[1])];
            meter.give_back(value_bytes(&value));
        }
        self.forgotten = [self.forgotten[0] + most[0], self.forgotten[1] + most[1]];
        self.forgotten_times += 1;
        let repeats = all.first().is_some_and(|(_, hits)| rows(hits) >= REPEATED);
        self.hits = all.into_iter().collect();
        if self.forgotten_times >= FORGOTTEN_TIMES_MAX && !repeats {
            self.give_up(meter);
        }
    }

    fn give_up(&mut self, meter: &mut Meter) {
        self.are_identifiers = true;
        let hits = std::mem::take(&mut self.hits);
        meter.give_back(hits.keys().map(|value| value_bytes(value)).sum());
    }

    fn merge(&mut self, other: Values, meter: &mut Meter) -> Result<(), RunError> {
        self.forgotten_times = self.forgotten_times.saturating_add(other.forgotten_times);
        let sum = |side: usize| self.forgotten[side].saturating_add(other.forgotten[side]);
        self.forgotten = [sum(0), sum(1)];
        self.has_long |= other.has_long;
        if other.are_identifiers && !self.are_identifiers {
            self.give_up(meter);
        }
        for (value, hits) in other.hits {
            self.add(&value, hits, meter)?;
            meter.give_back(value_bytes(&value));
        }
        Ok(())
    }

    /// Format: whether the values are identifiers, and some too long; how often values were
    /// forgotten, and the rows that this may have cost on both sides; the number of values, and
    /// each with the rows of both sides, the first and the last time.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.flag(self.are_identifiers)?;
        out.flag(self.has_long)?;
        out.number(u64::from(self.forgotten_times))?;
        self.forgotten.iter().try_for_each(|rows| out.number(*rows))?;
        out.number(self.hits.len() as u64)?;
        for (value, hits) in &self.hits {
            out.bytes(value)?;
            hits.rows.iter().try_for_each(|rows| out.number(*rows))?;
            out.time(hits.first_ns)?;
            out.time(hits.last_ns)?;
        }
        Ok(())
    }

    fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Values, RunError> {
        let (are_identifiers, has_long) = (from.flag()?, from.flag()?);
        let forgotten_times = u32::try_from(from.count()?).unwrap_or(u32::MAX);
        let forgotten = [from.count()?, from.count()?];
        let mut values = Values { forgotten_times, forgotten, has_long, ..Values::default() };
        for _ in 0..from.length(size_of::<u32>())? {
            let (value, rows) = (from.bytes()?, [from.count()?, from.count()?]);
            let (first_ns, last_ns) = (from.time()?, from.time()?);
            values.add(value, Hits { rows, first_ns, last_ns }, meter)?;
        }
        if are_identifiers {
            values.give_up(meter);
        }
        Ok(values)
    }
}

/// A field.
pub(super) struct Field {
    pub name: Arc<str>,
    pub values: Values,
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
        self.values.add(value, Hits::of(side, time_ns), meter)
    }

    fn merge(&mut self, other: Field, meter: &mut Meter) -> Result<(), RunError> {
        self.texts += other.texts;
        self.numbers.merge(other.numbers, meter)?;
        self.values.merge(other.values, meter)
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
        let (values, numbers) = (Values::default(), Numbers::default());
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
    /// the numbers, the values.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.fields.len() as u64)?;
        for field in &self.fields {
            out.bytes(field.name.as_bytes())?;
            out.number(field.texts)?;
            field.numbers.encode(out)?;
            field.values.encode(out)?;
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
            field.values = Values::decode(from, meter)?;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;

    fn push(values: &mut Values, value: &str, meter: &mut Meter) {
        values.add(value.as_bytes(), Hits::of(1, None), meter).unwrap();
    }

    #[test]
    fn a_frequent_value_stays_among_very_many() {
        let mut meter = Context::default().meter();
        let mut values = Values::default();
        for n in 0..20_000 {
            push(&mut values, &format!("user{n}"), &mut meter);
            if n % 40 == 0 {
                push(&mut values, "admin", &mut meter);
            }
            push(&mut values, &"long".repeat(40), &mut meter);
        }
        assert!(values.len() <= VALUES_MAX && values.is_cut());
        assert_eq!(values.get(b"admin").map(|hits| hits.rows), Some([0, 500]));
        // What may have been forgotten is counted against a difference.
        let (_, admin) = values.iter(1.0).find(|(value, _)| *value == b"admin").unwrap();
        assert_eq!(admin.rows, [values.forgotten[0], 500]);
        values.give_up(&mut meter);
        assert_eq!(meter.held(), 0, "all memory is given back");
    }

    #[test]
    fn identifiers_are_not_counted_for_ever() {
        let mut meter = Context::default().meter();
        let mut values = Values::default();
        (0..40_000).for_each(|n| push(&mut values, &n.to_string(), &mut meter));
        assert!(values.are_identifiers && values.len() == 0);
        assert_eq!(meter.held(), 0);
    }
}
