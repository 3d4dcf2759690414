//! The rows of a unit that a `sort by (field) limit N` may keep, chosen by the column of the field:
//! the first N in its order, and those that are equal to the last of them; of each group, if the
//! rows form any (`partition by`). Only these are read.

use std::cmp::Ordering;

use record::columns::{FieldColumn, NO_VALUE, Places};

use super::vectors::{Combinations, rows_of};
use crate::base::SourceError;
use crate::base::bitmap::Bitmap;
use crate::base::names::TIME;
use crate::base::number::{SortKind, compare_kinds};
use crate::lang::filter::Fields;
use crate::plan::first_rows::FirstBy;

/// Removes from `bits` the rows that cannot be kept, if columns tell which these are.
pub(crate) fn keep_first(
    first: &FirstBy,
    fields: &Fields<'_>,
    bits: &mut Bitmap,
) -> Result<(), SourceError> {
    let rows = rows_of(bits);
    let Some(groups) = groups_of(first, fields, &rows)? else { return Ok(()) };
    if first.field == TIME {
        let times_ns = fields.columns().times_ns()?;
        retain(bits, first, groups, |a, b| times_ns[a].cmp(&times_ns[b]));
    } else if let Some(column) = fields.get(&first.field)? {
        retain_by(&column, first, groups, bits);
    }
    Ok(())
}

fn retain_by(column: &FieldColumn<'_>, first: &FirstBy, groups: Vec<Vec<u32>>, bits: &mut Bitmap) {
    if let (Places::Each, Some(numbers)) = (column.places(), column.numbers()) {
        return retain(bits, first, groups, |a, b| numbers[a].cmp(&numbers[b]));
    }
    // The last kind is that of rows without a value.
    let none = column.values();
    let value = |at: usize| if at == none { &[] } else { column.value(at as u32) };
    let kinds: Vec<SortKind> = (0..=none).map(|at| SortKind::of(value(at))).collect();
    let compare = |a: usize, b: usize| compare_kinds((kinds[a], value(a)), (kinds[b], value(b)));
    if matches!(column.places(), Places::Each) {
        return retain(bits, first, groups, compare);
    }
    // Of values that several rows have, each gets its rank once.
    let mut order: Vec<u32> = (0..=none as u32).collect();
    order.sort_unstable_by(|&a, &b| compare(a as usize, b as usize));
    let mut ranks = vec![0u32; order.len()];
    for pair in order.windows(2) {
        let [before, at] = [pair[0] as usize, pair[1] as usize];
        ranks[at] = ranks[before] + u32::from(compare(before, at).is_ne());
    }
    let rank = |row: usize| match column.place(row) {
        NO_VALUE => ranks[none],
        place => ranks[place as usize],
    };
    retain(bits, first, groups, |a, b| rank(a).cmp(&rank(b)));
}

/// The rows of each group; all of them are one where nothing forms groups. None where a field
/// cannot be read separately.
fn groups_of(
    first: &FirstBy,
    fields: &Fields<'_>,
    rows: &[u32],
) -> Result<Option<Vec<Vec<u32>>>, SourceError> {
    let mut combinations = Combinations::new(Some(rows), fields.columns().rows());
    for name in &first.partition {
        let Some(column) = fields.get(name)? else { return Ok(None) };
        combinations.tell_apart(&column, Some(rows));
    }
    let Some(of_row) = combinations.of_row else { return Ok(Some(vec![rows.to_vec()])) };
    let mut groups = vec![Vec::new(); combinations.first.len()];
    rows.iter().zip(of_row).for_each(|(&row, group)| groups[group as usize].push(row));
    Ok(Some(groups))
}

/// Of the rows of each group, keeps the first in an order, and those that are equal to the last of
/// them.
fn retain(
    bits: &mut Bitmap,
    first: &FirstBy,
    groups: Vec<Vec<u32>>,
    compare: impl Fn(usize, usize) -> Ordering,
) {
    let by_value = |a: &u32, b: &u32| match first.descending {
        true => compare(*b as usize, *a as usize),
        false => compare(*a as usize, *b as usize),
    };
    for mut rows in groups {
        let last = first.count.checked_sub(1).filter(|last| *last < rows.len());
        let Some(last) = last else { continue };
        let (_, &mut nth, behind) = rows.select_nth_unstable_by(last, by_value);
        let gone = behind.iter().filter(|row| by_value(row, &nth).is_gt());
        gone.for_each(|&row| bits.unset(row as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::base::number::compare_values;
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, batch, collect, record};
    use proptest::prelude::*;

    /// A column of values, each of its own or each distinct one once.
    fn column(values: &[String], listed: bool) -> FieldColumn<'static> {
        if let Ok(numbers) = values.iter().map(|value| value.parse()).collect::<Result<_, _>>()
            && !listed
        {
            return FieldColumn::of_numbers(numbers, Places::Each);
        }
        let (mut text, mut ends, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            text.extend_from_slice(value.as_bytes());
            places.push(if value.is_empty() { NO_VALUE } else { ends.len() as u32 });
            ends.push(text.len() as u32);
        }
        let places = if listed { Places::Listed(places) } else { Places::Each };
        FieldColumn::with_ends(text.into(), ends, 0, places)
    }

    proptest! {
        #[test]
        fn no_row_is_lost_that_a_sort_may_keep(
            values in prop::collection::vec("[1-9]|[1-9][0-9]{2}", 1..20),
            odd in prop::collection::vec("|a|5ms|1e1|10|9007199254740993|9007199254740992", 0..20),
            descending in any::<bool>(),
            listed in any::<bool>(),
            count in 0usize..8,
        ) {
            let mut values = values;
            values.extend(odd);
            let first = FirstBy { field: "n".into(), descending, count, partition: Vec::new() };
            let mut bits = Bitmap::full(values.len());
            bits.retain(|row| row % 5 != 3);
            let mut sorted: Vec<&String> = bits.iter().map(|row| &values[row]).collect();
            let compare = |a: &String, b: &String| {
                let ordering = compare_values(a.as_bytes(), b.as_bytes());
                if descending { ordering.reverse() } else { ordering }
            };
            sorted.sort_by(|a, b| compare(a, b));
            let last = count.checked_sub(1).and_then(|last| sorted.get(last));
            let kept = |row: &usize| last.is_none_or(|last| compare(&values[*row], last).is_le());
            let expected: Vec<usize> = bits.iter().filter(kept).collect();
            let rows = rows_of(&bits);
            retain_by(&column(&values, listed), &first, vec![rows], &mut bits);
            prop_assert_eq!(bits.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn columns_are_sorted_as_lines_are(
            rows in prop::collection::vec((0i64..9, "|[0-9]|1[0-9]|a|1\\.5", "[0-9]?"), 1..30),
            columns in 0usize..22,
        ) {
            let records: Vec<Record> =
                rows.iter().map(|(time, n, m)| record(*time, &[("_msg", "a"), ("n", n), ("m", m)])).collect();
            for text in [
                "* | sort by (n desc) limit 3",
                "* | sort by (n, m desc) offset 2 limit 3 rank as r",
                "n:* | first 2 by (m, _time) | fields m",
                "* | sort by (m) | offset 1 | limit 2",
                "* | sort by (n) partition by (m) limit 1",
                "* | last 1 by (_time) partition by (m)",
                "n:* | first 2 by (_time, n) partition by (m, n) | fields _time, m",
                "* | sort by (m desc, _time) partition by (n) offset 1 limit 2 rank as r",
                "* | sort by (_time) partition by (_time) limit 1",
            ] {
                let query = Query::parse(text, 0).unwrap();
                let answer = |columns| {
                    let batches = (1..).zip(records.chunks(10)).map(|(at, rows)| batch(at, rows));
                    let source = Memory { columns, ..Memory::new(batches.collect()) };
                    collect(&query, &source, &Context::default()).0
                };
                prop_assert_eq!(answer(Some(columns)), answer(None), "{}", text);
            }
        }
    }
}
