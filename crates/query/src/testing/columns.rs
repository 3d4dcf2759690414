//! Columns of a batch, in every form that the columns of a block may have.

use std::sync::Arc;

use record::columns::{
    ColumnError, Columns, Decide, FieldColumn, Kind, NO_VALUE, Occurrences, Places, ValueCounts,
};
use record::{Batch, Place, RestoredBuilder};

/// A batch by columns. The form of each column depends on its name and `form`. Some forms cannot be
/// read without the lines.
pub(super) struct BatchColumns<'b> {
    batch: &'b Batch,
    form: usize,
    times: Vec<i64>,
    classes: Vec<u32>,
}

impl<'b> BatchColumns<'b> {
    pub fn new(batch: &'b Batch, form: usize) -> Self {
        let times = batch.rows().map(|row| row.time_ns()).collect();
        // The class of a row is its index counted from the end.
        let classes = (0..batch.len() as u32).rev().collect();
        BatchColumns { batch, form, times, classes }
    }

    fn value(&self, row: usize, name: &str) -> &'b [u8] {
        self.batch.row(row).get_by_name(name).unwrap_or_default()
    }

    fn form_of(&self, name: &str) -> usize {
        (self.form + name.bytes().map(usize::from).sum::<usize>()) % 11
    }

    fn has_outlines(&self) -> bool {
        self.form % 5 < 2
    }

    fn copy(&self, rows: &[u32], names: Option<&[&str]>) -> Batch {
        let all: Vec<&str> = self.batch.names().iter().map(|name| &**name).collect();
        let names = names.unwrap_or(&all);
        let shared = names.iter().map(|&name| Arc::from(name)).collect();
        let origins = self.batch.origins().to_vec().into();
        let mut builder = RestoredBuilder::new(shared, origins, rows.len(), 0, 0);
        for &row in rows {
            let row = self.batch.row(row as usize);
            builder.line().extend_from_slice(row.raw());
            for (number, name) in (0..).zip(names) {
                if let Some(value) = row.get_by_name(name) {
                    let at = builder.arena().len() as u32;
                    builder.arena().extend_from_slice(value);
                    let id = record::FieldId(number);
                    builder.push_field(id, Place::Made(at), value.len() as u32);
                }
            }
            let stem = builder.stem_of(row.origin_index());
            builder.end_row((row.id(), row.sequence()), row.time_ns(), row.received_ns(), stem);
        }
        builder.finish()
    }
}

impl Columns for BatchColumns<'_> {
    fn rows(&self) -> usize {
        self.batch.len()
    }

    fn times_ns(&self) -> Result<&[i64], ColumnError> {
        Ok(&self.times)
    }

    fn names(&self) -> Vec<&str> {
        self.batch.names().iter().map(|name| &**name).collect()
    }

    fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        let values: Vec<&[u8]> = (0..self.rows()).map(|row| self.value(row, name)).collect();
        let put_together = |values: &[&[u8]], gap: usize| {
            let (mut text, mut ends) = (Vec::new(), Vec::new());
            for value in values {
                text.extend_from_slice(value);
                ends.push(text.len() as u32);
                text.resize(text.len() + gap, b'\n');
            }
            (text.into(), ends)
        };
        let one_line = !values.concat().contains(&b'\n');
        let mut different = values.clone();
        different.sort_unstable();
        different.dedup();
        let place_of = |value: &[u8]| match value {
            b"" => NO_VALUE,
            value => different.binary_search(&value).expect("it is one of them") as u32,
        };
        // Half of the forms keep decimals as numbers.
        let numbers_of = |values: &[&[u8]]| match self.form.is_multiple_of(2) {
            true => values.iter().map(|value| decimal(value)).collect::<Option<Vec<i64>>>(),
            false => None,
        };
        if (1..10).contains(&self.form_of(name))
            && let Some(numbers) = numbers_of(&values)
        {
            return Ok(Some(FieldColumn::of_numbers(numbers, Places::Each)));
        }
        let filled: Vec<&[u8]> = different.iter().copied().filter(|v| !v.is_empty()).collect();
        if (5..8).contains(&self.form_of(name))
            && let Some(numbers) = numbers_of(&filled)
        {
            let empty = different.len() - filled.len();
            let place = |value: &&[u8]| match place_of(value) {
                NO_VALUE => NO_VALUE,
                place => place - empty as u32,
            };
            let places = Places::Listed(values.iter().map(place).collect());
            return Ok(Some(FieldColumn::of_numbers(numbers, places)));
        }
        Ok(Some(match self.form_of(name) {
            0 if self.batch.field_id(name).is_none() => FieldColumn::absent(),
            0..3 if one_line => {
                let (text, _) = put_together(&values, 1);
                FieldColumn::of_lines(text, values.len(), Places::Each)
            }
            3 if one_line => {
                let (text, ends) = put_together(&values, 1);
                FieldColumn::with_ends(text, ends, 1, Places::Each)
            }
            0..5 => {
                let (text, ends) = put_together(&values, 0);
                FieldColumn::with_ends(text, ends, 0, Places::Each)
            }
            5 if different.len() == 1 => {
                let (text, ends) = put_together(&different, 0);
                FieldColumn::with_ends(text, ends, 0, Places::All(0))
            }
            5..8 => {
                let (text, ends) = put_together(&different, 0);
                let places = values.iter().map(|value| place_of(value)).collect();
                FieldColumn::with_ends(text, ends, 0, Places::Listed(places))
            }
            8..10 => {
                let (text, ends) = put_together(&different, 0);
                let places = values.iter().rev().map(|value| place_of(value)).collect();
                FieldColumn::with_ends(text, ends, 0, Places::Classes(&self.classes, places))
            }
            _ => return Ok(None),
        }))
    }

    fn field_of(&self, name: &str, rows: &[u32]) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        assert!(rows.is_sorted(), "rows ascend");
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for &row in rows {
            text.extend_from_slice(self.value(row as usize, name));
            ends.push(text.len() as u32);
        }
        let values = FieldColumn::with_ends(text.into(), ends, 0, Places::Each);
        Ok(self.form.is_multiple_of(2).then_some(values))
    }

    fn value_counts(&self, name: &str) -> Result<Option<ValueCounts>, ColumnError> {
        let count = |row: usize| (self.value(row, name).to_vec(), 1);
        Ok((self.form % 5 < 3).then(|| (0..self.rows()).map(count).collect()))
    }

    fn kinds(&self, rows: Option<&[u32]>) -> Result<Option<Vec<Kind<'_>>>, ColumnError> {
        if self.form % 4 == 3 {
            return Ok(None);
        }
        let all: Vec<u32> = (0..self.rows() as u32).collect();
        let kind = |&row: &u32| {
            let fields = self.batch.row(row as usize).fields();
            let present = fields.filter(|(_, value)| !value.is_empty());
            (present.map(|(id, _)| self.batch.name(id)).collect(), 1)
        };
        Ok(Some(rows.unwrap_or(&all).iter().map(kind).collect()))
    }

    fn holding(
        &self,
        name: &str,
        text: &[u8],
        occurrences: Occurrences<'_>,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        assert!(!text.is_empty(), "an empty text is not searched");
        if !self.form.is_multiple_of(3) {
            return Ok(None);
        }
        let accept = occurrences.accept();
        let by_outline = self.has_outlines()
            && matches!(occurrences, Occurrences::Words(_))
            && !text.iter().any(u8::is_ascii_digit);
        let holds = |&row: &u32| {
            let value = self.value(row as usize, name);
            let value = if by_outline { outline(value) } else { value.to_vec() };
            let mut windows = value.windows(text.len()).enumerate();
            windows.any(|(at, part)| part == text && accept.is_none_or(|a| a(&value, at)))
        };
        Ok(Some((0..self.rows() as u32).filter(holds).collect()))
    }

    fn passing_outlines(
        &self,
        name: &str,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        let passes = |&row: &u32| test(&outline(self.value(row as usize, name)));
        let rows = 0..self.rows() as u32;
        Ok(self.has_outlines().then(|| rows.filter(passes).collect()))
    }

    fn passing(&self, name: &str, test: &dyn Decide) -> Result<Option<Vec<u32>>, ColumnError> {
        if self.form % 4 > 1 {
            return Ok(None);
        }
        let Some(automaton) = test.automaton() else { return Ok(None) };
        let passes = |&row: &u32| {
            let value = self.value(row as usize, name);
            automaton.says_of(value).unwrap_or_else(|| test.passes(value))
        };
        Ok(Some((0..self.rows() as u32).filter(passes).collect()))
    }

    fn batch(&self, rows: &[u32]) -> Result<Batch, ColumnError> {
        Ok(self.copy(rows, None))
    }

    fn batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, ColumnError> {
        let apart = fields.iter().all(|name| self.form_of(name) < 10);
        Ok(apart.then(|| self.copy(rows, Some(fields))))
    }

    fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError> {
        let names = record::batch::STREAM_FIELDS.map(str::to_owned).to_vec();
        Ok((!self.form.is_multiple_of(4)).then_some(names))
    }
}

/// The number whose decimal a value is.
fn decimal(value: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == value).then_some(number)
}

/// See [`Columns::passing_outlines`].
fn outline(value: &[u8]) -> Vec<u8> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let runs = value.chunk_by(|a, b| is_word(a) == is_word(b));
    let shortened = |run: &[u8]| match is_word(&run[0]) && run.iter().any(u8::is_ascii_digit) {
        true => b"0".to_vec(),
        false => run.to_vec(),
    };
    runs.flat_map(shortened).collect()
}
