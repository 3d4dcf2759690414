//! `unroll [if (filter)] by (a, b)`: one row for each item of the JSON arrays in the fields.
//!
//! The first row has the first item of each array, and so on up to the length of the longest array.
//! A field with a shorter array, or without one, is empty. Rows are handed on in groups of
//! [`COMPUTED_ROWS_MAX`], so that the rows of a long array never exist at once.

use std::fmt;
use std::ops::ControlFlow;

use memchr::memchr_iter;
use record::parse::json_items;

use super::compute::{parse_condition, write_condition};
use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use super::{parse_by, write_names};
use crate::base::bitmap::Bitmap;
use crate::base::names::HIDDEN;
use crate::base::{FieldSet, Meter, RunError};
use crate::block::{
    Block, COMPUTED_ROWS_MAX, Computed, MadeRow, Scratch, TooLong, VALUE_BYTES_MAX,
};
use crate::lang::filter::{Filter, Selector};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `unroll` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Unroll {
    /// Which rows are unrolled; the others stay as they are.
    pub condition: Option<Filter>,
    /// The fields of the arrays; at least one.
    pub fields: Vec<String>,
}

pub(super) static UNROLL: Registration = Registration {
    doc: Documentation {
        name: "unroll",
        aliases: &[],
        syntax: "unroll [if (<filter>)] by (<field>, …)",
        summary: "makes a row of each item of JSON arrays",
        example: "unroll by (tags, weights)",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Unroll, ParseError> {
    let condition = parse_condition(cursor)?;
    cursor.eat_keyword("by");
    let position = cursor.position();
    let fields = parse_by(cursor)?;
    if fields.is_empty() {
        let message = "unroll needs the fields with the arrays";
        return Err(cursor.error_at(position, &["field names"], message));
    }
    Ok(Unroll { condition, fields })
}

impl fmt::Display for Unroll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unroll")?;
        write_condition(&self.condition, f)?;
        write!(f, " by ({})", write_names(&self.fields))
    }
}

impl Operator for Unroll {
    fn mode(&self) -> Mode {
        Mode::Streaming
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        self.condition.iter().for_each(|filter| filter.add_fields(&mut wanted));
        wanted.add_all(&self.fields);
        wanted
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(UnrollRows::new(self))
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn filters(&self) -> Vec<&Filter> {
        self.condition.iter().collect()
    }

    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        self.condition.iter_mut().collect()
    }
}

struct UnrollRows {
    fields: Vec<String>,
    condition: Option<Selector>,
    scratch: Scratch,
}

/// The items of the arrays of a row: their bytes, and for each field the begin and end of each
/// item.
#[derive(Default)]
struct Items {
    bytes: Vec<u8>,
    spans: Vec<Vec<(usize, usize)>>,
    /// Bytes counted for the items.
    counted: usize,
}

/// Memory of an item besides its bytes: its span, and the entry of its row.
const ITEM_BYTES: usize = 2 * size_of::<(usize, usize)>();

impl Items {
    /// Number of rows that the items make.
    fn rows(&self) -> usize {
        self.spans.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }
}

impl UnrollRows {
    fn new(unroll: &Unroll) -> UnrollRows {
        UnrollRows {
            fields: unroll.fields.clone(),
            condition: unroll.condition.as_ref().map(Selector::new),
            scratch: Scratch::default(),
        }
    }

    /// The items of row `row`, or its values unchanged if it is not unrolled; their memory is
    /// counted.
    fn items(
        &mut self,
        block: &Block,
        row: usize,
        is_unrolled: bool,
        meter: &mut Meter,
    ) -> Result<Items, RunError> {
        let mut items = Items::default();
        for name in &self.fields {
            let value = block.value(block.column(name), row, &mut self.scratch);
            let begin = items.bytes.len();
            let mut spans = Vec::new();
            // Items are together no longer than their array, and at most one more than its commas.
            let items_max = if is_unrolled { memchr_iter(b',', value).count() + 1 } else { 1 };
            let bytes = value.len() + items_max * ITEM_BYTES;
            meter.take(bytes)?;
            items.counted += bytes;
            items.bytes.reserve_exact(value.len());
            spans.reserve_exact(items_max);
            if is_unrolled {
                let whole = json_items(value, |_, item| {
                    let begin = items.bytes.len();
                    items.bytes.extend_from_slice(item.as_bytes());
                    spans.push((begin, items.bytes.len()));
                });
                if whole.is_none() {
                    spans.clear();
                    items.bytes.truncate(begin);
                }
            } else {
                items.bytes.extend_from_slice(value);
                spans.push((begin, items.bytes.len()));
            }
            items.spans.push(spans);
        }
        Ok(items)
    }

    /// Hands on the rows of `block` at `picks`, each with one item of each field.
    fn flush(
        &mut self,
        block: &Block,
        picks: &[u32],
        values: &[&[u8]],
        next: &mut Next<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        next.check()?;
        let copied: usize = picks.iter().map(|&row| block.row_bytes(row as usize)).sum();
        next.meter().take(copied)?;
        let mut rows = block.repeat(picks);
        let mut computed = Computed::new(picks.len());
        for (name, values) in self.fields.iter().zip(values.chunks(picks.len())) {
            let column = computed.column(name);
            for (row, value) in values.iter().enumerate() {
                computed
                    .set_with(column, row, |out| out.extend_from_slice(value))
                    .map_err(|TooLong| RunError::ValueLimit(VALUE_BYTES_MAX))?;
            }
        }
        let held = computed.memory_bytes();
        next.meter().take(held)?;
        let more = computed.add_to(&mut rows, &mut self.scratch, next.meter())?;
        let flow = next.push(rows)?;
        next.meter().give_back(copied + held + more);
        Ok(flow)
    }

    /// Copies made rows without the arrays, so that the arrays are not copied with each new row.
    /// Returns the memory counted for the copies. Lines need no copy.
    fn lean(&mut self, block: Block, meter: &mut Meter) -> Result<(Block, usize), RunError> {
        if !matches!(block, Block::Made(_)) {
            return Ok((block, 0));
        }
        let hidden = HIDDEN.map(str::to_owned);
        let row = |row| {
            let without = &self.fields;
            MadeRow::copy_without(without, meter, |each| {
                block.visit(row, &hidden, &mut self.scratch, each);
            })
        };
        let rows: Vec<MadeRow> = (0..block.len()).map(row).collect::<Result<_, _>>()?;
        let bytes = rows.iter().map(MadeRow::memory_bytes).sum();
        Ok((Block::Made(rows), bytes))
    }
}

/// Bytes of rows that are copied at a time, unless one row has more.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// Splits `picks` into groups of few rows and few bytes.
fn few_at_a_time<'p>(
    block: &'p Block,
    mut picks: &'p [(usize, usize)],
) -> impl Iterator<Item = &'p [(usize, usize)]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let more = picks.iter().take(COMPUTED_ROWS_MAX).take_while(|(row, _)| {
            bytes += block.row_bytes(*row);
            bytes <= COPIED_BYTES_MAX
        });
        let count = more.count().max(1).min(picks.len());
        let (few, rest) = picks.split_at(count);
        picks = rest;
        (!few.is_empty()).then_some(few)
    })
}

impl Processor for UnrollRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        for part in block.into_parts(COMPUTED_ROWS_MAX) {
            let mut unrolled = Bitmap::full(part.len());
            if let Some(condition) = &self.condition {
                condition.narrow(&part, &mut unrolled, &mut self.scratch, next.meter())?;
            }
            let mut is_unrolled = vec![false; part.len()];
            unrolled.iter().for_each(|row| is_unrolled[row] = true);
            let all: Result<Vec<Items>, RunError> = (0..part.len())
                .map(|row| self.items(&part, row, is_unrolled[row], next.meter()))
                .collect();
            let all = all?;
            let held: usize = all.iter().map(|items| items.counted).sum();
            let (part, lean_bytes) = self.lean(part, next.meter())?;
            let held = held + lean_bytes;
            let mut picks: Vec<(usize, usize)> =
                Vec::with_capacity(all.iter().map(Items::rows).sum());
            for (row, items) in all.iter().enumerate() {
                picks.extend((0..items.rows()).map(|place| (row, place)));
            }
            for chunk in few_at_a_time(&part, &picks) {
                let rows: Vec<u32> = chunk.iter().map(|(row, _)| *row as u32).collect();
                let item = |field: usize, (row, place): (usize, usize)| {
                    let Items { bytes, spans, .. } = &all[row];
                    spans[field].get(place).map_or(&[][..], |&(begin, end)| &bytes[begin..end])
                };
                let values: Vec<&[u8]> = (0..self.fields.len())
                    .flat_map(|field| chunk.iter().map(move |pick| (field, *pick)))
                    .map(|(field, pick)| item(field, pick))
                    .collect();
                if self.flush(&part, &rows, &values, next)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            next.meter().give_back(held);
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn items_become_rows() {
        let records = [
            record(1, &[("t", "[1,\"b\"]"), ("v", "[\"x\",{\"y\":2},null]"), ("k", "a")]),
            record(2, &[("t", "no"), ("k", "b")]),
        ];
        check_pipe(
            &records,
            "unroll (t, v) | fields k, t, v",
            &["k=a t=1 v=x", "k=a t=b v={\"y\":2}", "k=a v=null", "k=b"],
        );
        check_pipe(&records, "unroll if (k:b) by (t) | fields t, k", &["t=[1,\"b\"] k=a", "k=b"]);
        check_pipe(
            &records,
            "sort by (k) | unroll v | fields k, v",
            &["k=a v=x", "k=a v={\"y\":2}", "k=a v=null", "k=b"],
        );
        check_pipe(
            &records,
            "unroll v | unpack_json from v | filter y:2 | fields k, y",
            &["k=a y=2"],
        );
        check_pipe(&records, "unroll t | unroll v | stats count() n", &["n=7"]);
        let many = format!("[{}]", (0..1_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
        let records = [record(1, &[("v", &many)]), record(2, &[("v", &many)])];
        check_pipe(
            &records,
            "unroll v | math v * 2 as w | stats count() n, sum(w) s",
            &["n=2000 s=1998000"],
        );
        check_pipe(
            &records,
            "split ',' from v as items | unroll items | top 1 (items) rank",
            &["items=1 hits=2 rank=1"],
        );
    }
}
