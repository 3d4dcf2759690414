//! `facets [N] [max_values_per_field M] [max_value_len L] [keep_const_fields]`: the most frequent
//! values of every field.
//!
//! Fields that would make no useful facet are left out: those with more than M different values,
//! with a value longer than L bytes, and, unless `keep_const_fields`, with one value in every row.
//! Computed fields are not counted.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Operator, Processor, Registration, one};
use super::outgoing::{Outgoing, RowBuilder};
use super::tuples;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{BatchLines, Block, Scratch, Weighted};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `facets` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facets {
    /// Most values of a field in the result.
    pub limit: u64,
    /// Fields with more different values are left out.
    pub values_max: u64,
    /// Fields with a value of more bytes are left out.
    pub value_bytes_max: u64,
    /// Whether fields with the same value in every row are kept.
    pub keep_const_fields: bool,
}

impl Default for Facets {
    fn default() -> Self {
        Facets { limit: 10, values_max: 1_000, value_bytes_max: 128, keep_const_fields: false }
    }
}

pub(super) static FACETS: Registration = Registration {
    doc: Documentation {
        name: "facets",
        aliases: &[],
        syntax: "facets [<n>] [max_values_per_field <n>] [max_value_len <n>] [keep_const_fields]",
        summary: "counts the most frequent values of every field",
        example: "facets 5 max_values_per_field 100 max_value_len 50 keep_const_fields",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Facets, ParseError> {
    let mut facets = Facets::default();
    if cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        facets.limit = parse_count(cursor, None)?;
    }
    loop {
        if cursor.eat_keyword("max_values_per_field") {
            facets.values_max = parse_count(cursor, None)?;
        } else if cursor.eat_keyword("max_value_len") {
            facets.value_bytes_max = parse_count(cursor, None)?;
        } else if cursor.eat_keyword("keep_const_fields") {
            facets.keep_const_fields = true;
        } else {
            return Ok(facets);
        }
    }
}

impl fmt::Display for Facets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facets { limit, values_max, value_bytes_max, keep_const_fields } = self;
        write!(
            f,
            "facets {limit} max_values_per_field {values_max} max_value_len {value_bytes_max}"
        )?;
        if *keep_const_fields { f.write_str(" keep_const_fields") } else { Ok(()) }
    }
}

impl Operator for Facets {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::all()
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        let (counts, scratch) = (Counts::default(), Scratch::default());
        Box::new(FacetCounts { facets: self.clone(), counts, scratch })
    }
}

struct FacetCounts {
    facets: Facets,
    counts: Counts,
    scratch: Scratch,
}

/// Counts of one worker; those of two workers can be merged.
#[derive(Default)]
struct Counts {
    places: HashMap<Arc<str>, usize, foldhash::fast::RandomState>,
    fields: Vec<FieldCounts>,
    rows: u64,
}

struct FieldCounts {
    name: Arc<str>,
    rows: u64,
    left_out: bool,
    hits: HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
}

impl FieldCounts {
    /// Adds a value that some lines have.
    #[inline]
    fn add(
        &mut self,
        value: &[u8],
        lines: u64,
        facets: &Facets,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        self.rows += lines;
        if self.left_out {
            return Ok(());
        }
        if let Some(hits) = self.hits.get_mut(value) {
            *hits += lines;
            return Ok(());
        }
        if value.len() as u64 > facets.value_bytes_max
            || self.hits.len() as u64 >= facets.values_max
        {
            self.leave_out(meter);
            return Ok(());
        }
        meter.take(value.len() + tuples::ENTRY_BYTES)?;
        self.hits.insert(value.into(), lines);
        Ok(())
    }

    fn leave_out(&mut self, meter: &mut Meter) {
        self.left_out = true;
        let bytes: usize = self.hits.keys().map(|v| v.len() + tuples::ENTRY_BYTES).sum();
        meter.give_back(bytes);
        self.hits = HashMap::default();
    }

    /// Merges the counts of another worker for the same field.
    fn merge(&mut self, mut other: FieldCounts, facets: &Facets, meter: &mut Meter) {
        self.rows += other.rows;
        if other.left_out && !self.left_out {
            self.leave_out(meter);
        }
        if self.left_out {
            return other.leave_out(meter);
        }
        for (value, hits) in other.hits {
            match self.hits.entry(value) {
                Entry::Occupied(mut known) => {
                    meter.give_back(known.key().len() + tuples::ENTRY_BYTES);
                    *known.get_mut() += hits;
                }
                Entry::Vacant(new) => {
                    new.insert(hits);
                }
            }
        }
        if self.hits.len() as u64 > facets.values_max {
            self.leave_out(meter);
        }
    }
}

/// Memory of a field besides its name and values.
const FIELD_BYTES: usize = size_of::<FieldCounts>() + tuples::ENTRY_BYTES;

impl Counts {
    fn place(&mut self, name: &Arc<str>, meter: &mut Meter) -> Result<usize, RunError> {
        if let Some(&place) = self.places.get(name) {
            return Ok(place);
        }
        meter.take(name.len() + FIELD_BYTES)?;
        let place = self.fields.len();
        self.places.insert(name.clone(), place);
        self.fields.push(FieldCounts {
            name: name.clone(),
            rows: 0,
            left_out: false,
            hits: HashMap::default(),
        });
        Ok(place)
    }
}

impl Processor for FacetCounts {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let counts = &mut self.counts;
        counts.rows += block.len() as u64;
        if let Block::Lines(lines) = &block
            && lines.is_plain()
        {
            let BatchLines { batch, rows, .. } = lines;
            let meter = next.meter();
            let places: Result<Vec<usize>, RunError> =
                batch.names().iter().map(|name| counts.place(name, meter)).collect();
            let places = places?;
            for &row in rows {
                for (id, value) in batch.row(row as usize).fields() {
                    if !value.is_empty() {
                        let field = &mut counts.fields[places[id.0 as usize]];
                        field.add(value, 1, &self.facets, meter)?;
                    }
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let meter = next.meter();
            let mut result = Ok(());
            block.visit(row, &[], &mut scratch, &mut |name, value, _| {
                if result.is_ok() && !matches!(&**name, "_time" | "_stream") {
                    result = counts
                        .place(name, meter)
                        .and_then(|place| counts.fields[place].add(value, 1, &self.facets, meter));
                }
            });
            result?;
        }
        self.scratch = scratch;
        Ok(ControlFlow::Continue(()))
    }

    /// A row without fields stands for its lines, any other for those with the value of its only
    /// field; if these are none, the field is left out.
    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        let Block::Made(values) = &rows.block else { unreachable!("values are made rows") };
        for (row, &lines) in values.iter().zip(&rows.lines) {
            let Some((name, value)) = row.fields().next() else {
                self.counts.rows += lines;
                continue;
            };
            let place = self.counts.place(name, next.meter())?;
            let field = &mut self.counts.fields[place];
            match lines {
                0 => field.leave_out(next.meter()),
                lines => field.add(value, lines, &self.facets, next.meter())?,
            }
        }
        Ok(())
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.counts)
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let other = collected.downcast_mut::<Counts>().expect("of the same pipe");
        let other = std::mem::take(other);
        self.counts.rows += other.rows;
        for field in other.fields {
            next.check()?;
            let place = self.counts.place(&field.name, next.meter())?;
            next.meter().give_back(field.name.len() + FIELD_BYTES);
            self.counts.fields[place].merge(field, &self.facets, next.meter());
        }
        Ok(())
    }

    /// Format: number of rows, then each field: its name, its rows, whether it is left out, and its
    /// values with their hits.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.counts.rows)?;
        out.number(self.counts.fields.len() as u64)?;
        for field in &self.counts.fields {
            out.bytes(field.name.as_bytes())?;
            out.number(field.rows)?;
            out.flag(field.left_out)?;
            out.number(field.hits.len() as u64)?;
            for (value, hits) in &field.hits {
                out.bytes(value)?;
                out.number(*hits)?;
            }
        }
        Ok(())
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.counts.rows = from.count()?;
        for _ in 0..from.length(size_of::<u32>())? {
            let name = from.name(meter)?;
            if self.counts.places.contains_key(&name) {
                return Err(wrong_state("a field comes twice"));
            }
            let place = self.counts.place(&name, meter)?;
            let field = &mut self.counts.fields[place];
            field.rows = from.count()?;
            field.left_out = from.flag()?;
            for _ in 0..from.length(size_of::<u32>())? {
                let value = from.bytes()?;
                meter.take(value.len() + tuples::ENTRY_BYTES)?;
                if field.hits.insert(value.into(), from.count()?).is_some() {
                    return Err(wrong_state("a value comes twice"));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let [field_name, field_value, hits_name]: [Arc<str>; 3] =
            ["field_name", "field_value", "hits"].map(Into::into);
        let mut fields = std::mem::take(&mut self.counts.fields);
        fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut outgoing = Outgoing::default();
        for mut field in fields {
            let constant = field.hits.len() == 1 && field.rows == self.counts.rows;
            if field.left_out || constant && !self.facets.keep_const_fields {
                continue;
            }
            let mut values = tuples::taken_out(&mut field.hits, next.meter())?;
            values.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            values.truncate(usize::try_from(self.facets.limit).unwrap_or(usize::MAX));
            for (value, hits) in values {
                let mut row = RowBuilder::default();
                row.push(field_name.clone(), field.name.as_bytes(), next.meter())?;
                row.push(field_value.clone(), &value, next.meter())?;
                row.push(hits_name.clone(), hits.to_string().as_bytes(), next.meter())?;
                if outgoing.push(row, next)?.is_break() {
                    return Ok(());
                }
            }
        }
        outgoing.flush(next).map(drop)
    }
}
