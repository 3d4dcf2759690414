//! Queries whose first pipe counts rows by fields and a bucket of time: `error | stats count()`,
//! `stats by (app_name, level) count()`, `top 5 by (user)`, histograms.
//!
//! Over columns, selected rows are counted by the positions of their values in the columns; the
//! values themselves are not read. For each combination that occurs, one row with it is read and
//! goes to the pipe, with the number of rows it stands for. If a single field has too many values
//! for that, all values go to the pipe with the number of rows of each, and no row is read
//! ([`Tally`]).
//!
//! Left out: several fields, or a field and times, with too many combinations; then rows are read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::columns::{Columns, FieldColumn, NO_VALUE, Places};
use text::time::write_time;

use crate::base::SourceError;
use crate::base::bitmap::Bitmap;
use crate::base::names::{STREAM, TIME, is_stored};
use crate::block::{BatchLines, Block, Column, MadeRow, Scratch, Tally, Weighted};
use crate::lang::filter::Fields;
use crate::lang::pipe::{CountedBy, time_bucket};

/// Possible combinations of values in a block. If there may be more, rows are read.
const COMBINATIONS_MAX: usize = 1 << 16;
/// Possible combinations of values and buckets of time in a block. Beyond it, rows are read.
const COUNTERS_MAX: usize = 1 << 18;
/// Combinations of values in the lines of a frame. With more, the lines go to the pipe, and the
/// next query looks at them again.
const ROWS_KEPT_MAX: usize = 256;

/// The rows in `bits`, one row for each combination of values. None where rows must be read.
pub(crate) fn count(
    counted_by: &CountedBy,
    fields: &Fields<'_>,
    bits: &Bitmap,
) -> Result<Option<Weighted>, SourceError> {
    if counted_by.is_by_nothing() {
        return Ok(Some(Weighted::of_lines(bits.count() as u64)));
    }
    let columns = fields.columns();
    if counted_by.is_by_names {
        let rows: Vec<u32>;
        let some = match bits.is_full() {
            true => None,
            false => {
                rows = bits.iter().map(|row| row as u32).collect();
                Some(&rows[..])
            }
        };
        return Ok(columns.kinds(some)?.map(Weighted::of_kinds));
    }
    if let [name] = &counted_by.fields[..]
        && counted_by.bucket_ns.is_none()
        && bits.is_full()
        && is_stored(name)
        && let Some(counts) = columns.value_counts(name)?
    {
        return Ok(Some(Weighted::of_values(name, counts)));
    }
    let Some(names) = stored_fields(&counted_by.fields, columns)? else { return Ok(None) };
    let mut codes = Codes::new(columns.rows());
    for name in &names {
        let Some(column) = fields.get(name)? else { return Ok(None) };
        if !codes.add(&column) {
            return Ok(None);
        }
    }
    let times = match counted_by.bucket_ns {
        Some(bucket) => Some((columns.times_ns()?, bucket)),
        None => None,
    };
    let Some(mut counted) = codes.count(bits, times) else { return Ok(None) };
    counted.sort_unstable_by_key(|(row, _)| *row);
    let (rows, lines): (Vec<u32>, Vec<u64>) = counted.into_iter().unzip();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(batch) = columns.batch_of(&rows, &names)? else { return Ok(None) };
    let rows = (0..rows.len() as u32).collect();
    let block = Block::Lines(BatchLines::new(batch.into(), rows));
    Ok(Some(Weighted { block, lines, times_ns: Vec::new() }))
}

/// The rows of a block of lines, one row for each combination of values and bucket of time, which
/// holds no part of the lines. None where there are too many combinations to be worth keeping, or
/// where fields are computed.
pub(crate) fn count_rows(
    counted_by: &CountedBy,
    block: &Block,
    scratch: &mut Scratch,
) -> Option<Weighted> {
    if counted_by.is_by_nothing() {
        return Some(Weighted::of_lines(block.len() as u64));
    }
    if counted_by.is_by_names || !counted_by.fields.iter().all(|name| is_stored(name)) {
        return None;
    }
    let columns: Vec<Column<'_>> =
        counted_by.fields.iter().map(|name| block.column(name)).collect();
    let names: Vec<Arc<str>> = counted_by.fields.iter().map(|name| name.as_str().into()).collect();
    let time: Arc<str> = TIME.into();
    let mut places: HashMap<Vec<u8>, usize, foldhash::fast::RandomState> = HashMap::default();
    let (mut rows, mut lines, mut times_ns) = (Vec::new(), Vec::new(), Vec::new());
    let mut key = Vec::new();
    for row in 0..block.len() {
        key.clear();
        let time_ns = block.line_key(row)?.0;
        if let Some((step_ns, offset_ns)) = counted_by.bucket_ns {
            key.extend_from_slice(&time_bucket(time_ns, step_ns, offset_ns).to_le_bytes());
        }
        for &column in &columns {
            let value = block.value(column, row, scratch);
            key.extend_from_slice(&(value.len() as u64).to_le_bytes());
            key.extend_from_slice(value);
        }
        if let Some(&place) = places.get(&key) {
            lines[place] += 1;
            continue;
        }
        if rows.len() == ROWS_KEPT_MAX {
            return None;
        }
        let mut made = MadeRow::default();
        if counted_by.bucket_ns.is_some() {
            let mut text = Vec::new();
            write_time(time_ns, &mut text);
            made.push(time.clone(), &text);
            times_ns.push(time_ns);
        }
        for (name, &column) in names.iter().zip(&columns) {
            made.push(name.clone(), block.value(column, row, scratch));
        }
        places.insert(std::mem::take(&mut key), rows.len());
        rows.push(made);
        lines.push(1);
    }
    Some(Weighted { block: Block::Made(rows), lines, times_ns })
}

/// As [`tally`], without reading the whole column. None where that is no faster.
pub(crate) fn tally_few(
    counted_by: &CountedBy,
    fields: &Fields<'_>,
    bits: &Bitmap,
) -> Result<Option<Tally>, SourceError> {
    let [name] = counted_by.fields.as_slice() else { return Ok(None) };
    if !counted_by.is_tally || !is_stored(name) {
        return Ok(None);
    }
    Ok(fields.get_of(name, bits)?.map(|column| Tally::of_each(&column)))
}

/// The values of the only field in the rows in `bits`. None where the pipe needs more than
/// these, or the column does not keep its values separately.
pub(crate) fn tally(
    counted_by: &CountedBy,
    fields: &Fields<'_>,
    bits: &Bitmap,
) -> Result<Option<Tally>, SourceError> {
    let [name] = counted_by.fields.as_slice() else { return Ok(None) };
    if !counted_by.is_tally || !is_stored(name) {
        return Ok(None);
    }
    let Some(column) = fields.get(name)? else { return Ok(None) };
    let mut tally = Tally::default();
    if matches!(column.places(), Places::Each) {
        if bits.is_full() {
            return Ok(Some(Tally::of_each(&column)));
        }
        bits.iter().for_each(|row| tally.push(column.value(row as u32)));
        return Ok(Some(tally));
    }
    // The last counter is for rows without a value.
    let mut counts = vec![0u32; column.values() + 1];
    let none = column.values();
    bits.iter().for_each(|row| counts[(column.place(row) as usize).min(none)] += 1);
    let mut lines = Vec::new();
    for (place, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        tally.push(if place == none { &[] } else { column.value(place as u32) });
        lines.push(count);
    }
    tally.lines_of_each = Some(lines);
    Ok(Some(tally))
}

/// The stored fields that determine `fields`, with the fields of the stream if that is among them.
/// None where stored fields do not suffice.
pub(crate) fn stored_fields(
    fields: &[String],
    columns: &dyn Columns,
) -> Result<Option<Vec<String>>, SourceError> {
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    for name in fields {
        let of_stream = match name.as_str() {
            STREAM => columns.stream_fields()?.map(|mut fields| {
                // A line may bring its own `_stream` field.
                if columns.names().contains(&STREAM) {
                    fields.push(STREAM.to_owned());
                }
                fields
            }),
            name if is_stored(name) => Some(vec![name.to_owned()]),
            _ => None,
        };
        let Some(stored) = of_stream else { return Ok(None) };
        for name in stored {
            if known.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    Ok(Some(names))
}

/// A number for each row that encodes the combination of its values.
struct Codes {
    /// Empty as long as all rows have the same combination.
    of_row: Vec<u32>,
    rows: usize,
    /// Greater than every number.
    end: usize,
}

impl Codes {
    fn new(rows: usize) -> Self {
        Codes { of_row: Vec::new(), rows, end: 1 }
    }

    /// Distinguishes rows by one more field. False where there would be too many numbers.
    fn add(&mut self, column: &FieldColumn<'_>) -> bool {
        let values = column.values() + 1;
        if matches!(column.places(), Places::All(_)) {
            return true;
        }
        if matches!(column.places(), Places::Each) || self.end * values > COMBINATIONS_MAX {
            return false;
        }
        // The number behind those of all values stands for no value.
        let none = values as u32 - 1;
        let number = |place: u32| if place == NO_VALUE { none } else { place };
        if self.of_row.is_empty() {
            self.of_row.resize(self.rows, 0);
        }
        let of_row = self.of_row.iter_mut();
        match column.places() {
            Places::Listed(places) => {
                of_row.zip(places).for_each(|(code, &place)| {
                    *code = *code * values as u32 + number(place);
                });
            }
            Places::Classes(classes, places) => {
                let numbers: Vec<u32> = places.iter().map(|&place| number(place)).collect();
                of_row.zip(*classes).for_each(|(code, &class)| {
                    *code = *code * values as u32 + numbers[class as usize];
                });
            }
            Places::Each | Places::All(_) => unreachable!("they were seen to above"),
        }
        self.end *= values;
        true
    }

    /// For each number and bucket of time: one row that has it, and how many rows do. None where
    /// too many counters would be needed.
    fn count(&self, bits: &Bitmap, times: Option<(&[i64], (i64, i64))>) -> Option<Vec<(u32, u64)>> {
        let code = |row: usize| self.of_row.get(row).map_or(0, |&code| code as usize);
        let mut counters: Vec<(u32, u64)> = Vec::new();
        match times {
            None => {
                counters.resize(self.end, (0, 0));
                let mut add = |row: usize| {
                    let counter = &mut counters[code(row)];
                    counter.0 = row as u32;
                    counter.1 += 1;
                };
                if bits.is_full() {
                    (0..self.rows).for_each(&mut add);
                } else {
                    bits.iter().for_each(&mut add);
                }
            }
            Some((times, (step_ns, offset_ns))) => {
                let mut bases: HashMap<i64, usize, foldhash::fast::RandomState> =
                    HashMap::default();
                let (mut from, mut to, mut base) = (i64::MAX, i64::MIN, 0);
                for row in bits.iter() {
                    let time_ns = times[row];
                    if !(from <= time_ns && time_ns < to) {
                        from = time_bucket(time_ns, step_ns, offset_ns);
                        to = from.saturating_add(step_ns);
                        base = match bases.get(&from) {
                            Some(base) => *base,
                            None => {
                                let base = counters.len();
                                if base + self.end > COUNTERS_MAX {
                                    return None;
                                }
                                counters.resize(base + self.end, (0, 0));
                                bases.insert(from, base);
                                base
                            }
                        };
                    }
                    let counter = &mut counters[base + code(row)];
                    counter.0 = row as u32;
                    counter.1 += 1;
                }
            }
        }
        counters.retain(|(_, lines)| *lines > 0);
        Some(counters)
    }
}
