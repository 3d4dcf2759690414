//! Rows as vectors: the values of each field that a pipe reads, one behind the other, without rows.
//!
//! Most of what `stats` and `math` read are numbers. A column of a sealed block keeps them as
//! numbers, or as few distinct texts; a [`Vector`] hands these on, so that no row is assembled and
//! a distinct text is parsed once. The text of a number is written only for a function that needs
//! it: the vector of a column has numbers only where their decimals are the very text of the lines.
//!
//! Left out: which rows and fields, and how they are read; `exec` does that.

use record::columns::{DECIMAL_BYTES, FieldColumn, Places, decimal_of};

use super::Block;
use crate::base::RunError;
use crate::base::number::{parse_quantity, write_number};

/// The rows of a unit that a filter selected, as the functions of a `stats` pipe read them.
#[derive(Debug)]
pub(crate) struct Vectors {
    /// Index of the pipe that takes them.
    pub place: usize,
    /// One row for each combination of the values that form groups; other rows with the same values
    /// are not here.
    pub groups: Block,
    /// The time of each of these rows, nanoseconds since 1970 UTC; empty where it does not matter.
    pub times_ns: Vec<i64>,
    /// The rows that are counted.
    pub selections: Vec<Selection>,
    /// For each function: the index of its rows in `selections`, and the values of its field in
    /// them; no values for a function that only counts rows.
    pub inputs: Vec<(usize, Option<Vector>)>,
}

/// Some of the selected rows.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Number of rows.
    pub rows: usize,
    /// For each row, the index of its combination in [`Vectors::groups`]; none: all are the first.
    pub of_row: Option<Vec<u32>>,
}

impl Vectors {
    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let selection = |s: &Selection| s.of_row.as_ref().map_or(0, |places| places.len() * 4);
        let vectors = self.inputs.iter().filter_map(|(_, vector)| vector.as_ref());
        self.groups.memory_bytes()
            + self.times_ns.len() * size_of::<i64>()
            + self.selections.iter().map(selection).sum::<usize>()
            + vectors.map(Vector::memory_bytes).sum::<usize>()
    }
}

/// The values of a field in some rows.
#[derive(Debug)]
pub(crate) struct Vector {
    pub values: Values,
    /// The index of each row's value, `NO_VALUE` for an empty one; none: each row has its own.
    pub of_row: Option<Vec<u32>>,
}

/// Values of a vector.
#[derive(Debug)]
pub(crate) enum Values {
    /// Whole numbers; the text of each is its decimal.
    Whole(Vec<i64>),
    /// Numbers that a pipe computed; the text of each is that of [`write_number`].
    Computed(Vec<f64>),
    /// Any text.
    Texts(Texts),
}

/// Texts, one behind the other, with `gap` bytes between them; `ends` has the end of each.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    text: Vec<u8>,
    gap: usize,
    ends: Vec<u32>,
}

impl Texts {
    fn push(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len() as u32);
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text at an index; empty for one that does not exist.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        let Some(&end) = self.ends.get(at) else { return &[] };
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize + self.gap);
        &self.text[from..end as usize]
    }
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Whole(numbers) => numbers.len(),
            Values::Computed(numbers) => numbers.len(),
            Values::Texts(texts) => texts.len(),
        }
    }

    /// The text of a value, in `buffer` if it has to be written; empty for one that does not exist.
    #[inline]
    pub fn text<'a>(&'a self, at: usize, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        buffer.clear();
        match self {
            Values::Texts(texts) => return texts.get(at),
            Values::Whole(numbers) => {
                if let Some(&number) = numbers.get(at) {
                    buffer.extend_from_slice(decimal_of(number, &mut [0; DECIMAL_BYTES]));
                }
            }
            Values::Computed(numbers) => {
                if let Some(&number) = numbers.get(at) {
                    write_number(number, buffer);
                }
            }
        }
        buffer
    }

    /// What `parse` reads of each value; `NaN` where that is no number.
    fn numbers(&self, parse: fn(&[u8]) -> Option<f64>) -> Vec<f64> {
        match self {
            Values::Whole(numbers) => numbers.iter().map(|&number| number as f64).collect(),
            Values::Computed(numbers) => numbers.iter().map(|&number| as_read(number)).collect(),
            Values::Texts(texts) => {
                (0..texts.len()).map(|at| parse(texts.get(at)).unwrap_or(f64::NAN)).collect()
            }
        }
    }
}

impl Vector {
    /// The values of a column in `rows`, which ascend; none: in all rows, of which there are
    /// `count`.
    pub fn of_column(column: &FieldColumn<'_>, rows: Option<&[u32]>, count: usize) -> Vector {
        let of_row = match (column.places(), rows) {
            (Places::Each, None) => None,
            (Places::Each, Some(rows)) => {
                let values = match column.numbers() {
                    Some(numbers) => {
                        Values::Whole(rows.iter().map(|&row| numbers[row as usize]).collect())
                    }
                    None => {
                        let mut texts = Texts::default();
                        rows.iter().for_each(|&row| texts.push(column.value(row)));
                        Values::Texts(texts)
                    }
                };
                return Vector { values, of_row: None };
            }
            (Places::All(place), _) => Some(vec![*place; rows.map_or(count, <[u32]>::len)]),
            (Places::Listed(places), None) => Some(places.clone()),
            (_, None) => Some((0..count).map(|row| column.place(row)).collect()),
            (_, Some(rows)) => Some(rows.iter().map(|&row| column.place(row as usize)).collect()),
        };
        let values = match column.numbers() {
            Some(numbers) => Values::Whole(numbers.to_vec()),
            None => Values::Texts(Texts {
                text: column.text().to_vec(),
                gap: column.gap(),
                ends: column.ends().to_vec(),
            }),
        };
        Vector { values, of_row }
    }

    /// Numbers that a pipe computed, one for each row.
    pub fn of_computed(numbers: Vec<f64>) -> Vector {
        Vector { values: Values::Computed(numbers), of_row: None }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.of_row.as_ref().map_or_else(|| self.values.len(), Vec::len)
    }

    fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Whole(numbers) => size_of_val(&numbers[..]),
            Values::Computed(numbers) => size_of_val(&numbers[..]),
            Values::Texts(texts) => texts.text.len() + size_of_val(&texts.ends[..]),
        };
        values + self.of_row.as_ref().map_or(0, |places| size_of_val(&places[..]))
    }

    /// What `parse` reads of the value of each row; `NaN` where that is no number.
    pub fn numbers(&self, parse: fn(&[u8]) -> Option<f64>) -> Vec<f64> {
        let numbers = self.values.numbers(parse);
        match &self.of_row {
            None => numbers,
            Some(of_row) => {
                let number = |&at: &u32| numbers.get(at as usize).copied().unwrap_or(f64::NAN);
                of_row.iter().map(number).collect()
            }
        }
    }

    /// Calls `each` with every row whose value is a [quantity](parse_quantity), and the number.
    #[inline]
    pub fn each_number(
        &self,
        mut each: impl FnMut(usize, f64) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        if let Some(of_row) = &self.of_row {
            let numbers = self.values.numbers(parse_quantity);
            return of_row.iter().enumerate().try_for_each(|(row, &at)| {
                match numbers.get(at as usize) {
                    Some(&number) if !number.is_nan() => each(row, number),
                    _ => Ok(()),
                }
            });
        }
        match &self.values {
            Values::Whole(numbers) => {
                numbers.iter().enumerate().try_for_each(|(row, &number)| each(row, number as f64))
            }
            Values::Computed(numbers) => {
                numbers.iter().enumerate().try_for_each(|(row, &number)| match as_read(number) {
                    number if number.is_nan() => Ok(()),
                    number => each(row, number),
                })
            }
            Values::Texts(texts) => (0..texts.len()).try_for_each(|row| {
                parse_quantity(texts.get(row)).map_or(Ok(()), |number| each(row, number))
            }),
        }
    }

    /// The index of the value of a row in [`Vector::values`]; an index that does not exist for an
    /// empty value.
    #[inline]
    pub fn at(&self, row: usize) -> usize {
        self.of_row.as_ref().map_or(row, |places| places[row] as usize)
    }
}

/// Numbers from here to [`PLAIN_MAX`], of either sign, have a text that is short enough to be read
/// as the same number.
const PLAIN_MIN: f64 = 1e-20;
const PLAIN_MAX: f64 = 1e20;

/// Whether the text of a number is read as that number, whatever the limits of texts are.
#[inline]
pub(crate) fn is_plain(number: f64) -> bool {
    let size = number.abs();
    (PLAIN_MIN..=PLAIN_MAX).contains(&size) || size == 0.0 || size == f64::INFINITY
}

/// The number that is read of the text that a computed number has; `NaN` if that is no number.
#[inline]
pub(crate) fn as_read(number: f64) -> f64 {
    if is_plain(number) {
        // The text of -0 is 0.
        return number + 0.0;
    }
    #[cold]
    fn by_text(number: f64) -> f64 {
        let mut text = Vec::new();
        write_number(number, &mut text);
        parse_quantity(&text).unwrap_or(f64::NAN)
    }
    if number.is_nan() { number } else { by_text(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::columns::NO_VALUE;

    #[test]
    fn a_computed_number_is_read_as_its_text_is() {
        let by_text = |number: f64| {
            let mut text = Vec::new();
            write_number(number, &mut text);
            parse_quantity(&text).unwrap_or(f64::NAN)
        };
        let check = |number: f64| {
            let (found, expected) = (as_read(number), by_text(number));
            assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
        };
        for power in -320..=308 {
            for digits in ["1", "9.999999999999999", "1.7976931348623157", "3.3"] {
                let number: f64 = format!("{digits}e{power}").parse().unwrap();
                check(number);
                check(-number);
            }
        }
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].into_iter().for_each(check);
    }

    /// A column of these values: each its own, or each distinct one once.
    fn column(values: &[String], listed: bool, are_numbers: bool) -> FieldColumn<'static> {
        let mut stored: Vec<&String> = values.iter().collect();
        let mut places = Places::Each;
        if listed {
            stored.sort_unstable();
            stored.dedup();
            stored.retain(|value| !value.is_empty());
            let place = |value| stored.binary_search(&value).map_or(NO_VALUE, |at| at as u32);
            places = Places::Listed(values.iter().map(place).collect());
        }
        if are_numbers {
            let numbers = stored.iter().map(|value| value.parse().unwrap()).collect();
            return FieldColumn::of_numbers(numbers, places);
        }
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for value in stored {
            text.extend_from_slice(value.as_bytes());
            ends.push(text.len() as u32);
        }
        FieldColumn::with_ends(text.into(), ends, 0, places)
    }

    proptest! {
        #[test]
        fn vectors_have_the_values_of_their_columns(
            values in prop::collection::vec("0|7|[1-9][0-9]{0,17}", 1..20),
            odd in prop::collection::vec("|[0-9x.]{1,3}|1KiB|5ms", 0..20),
            are_numbers in any::<bool>(),
            listed in any::<bool>(),
            step in 1usize..4,
        ) {
            let mut values = values;
            if !are_numbers {
                values.extend(odd);
            }
            let column = column(&values, listed, are_numbers);
            let rows: Vec<u32> = (0..values.len() as u32).step_by(step).collect();
            let rows = (step > 1).then_some(&rows[..]);
            let vector = Vector::of_column(&column, rows, values.len());
            let expected: Vec<&String> = values.iter().step_by(step).collect();
            prop_assert_eq!(vector.rows(), expected.len());
            let mut buffer = Vec::new();
            for (row, value) in expected.iter().enumerate() {
                prop_assert_eq!(vector.values.text(vector.at(row), &mut buffer), value.as_bytes());
            }
            let mut found = Vec::new();
            vector.each_number(|row, number| {
                found.push((row, number));
                Ok(())
            }).unwrap();
            let number = |(row, value): (usize, &&String)| Some((row, parse_quantity(value.as_bytes())?));
            let numbers: Vec<(usize, f64)> = expected.iter().enumerate().filter_map(number).collect();
            prop_assert_eq!(found, numbers);
        }
    }
}
