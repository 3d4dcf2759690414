//! Delivers rows in order of event time, the oldest first, so that reading can resume behind any of
//! them. Exports and background queries use this order.
//!
//! The position of a row in that order is its [`RowKey`]: event time, then line id, which is
//! unique. A [`LineSet`] fixes which lines belong to an answer. An answer that is read in several
//! parts, on different days, therefore neither misses nor repeats a line, although lines with any
//! event time arrive meanwhile.
//!
//! Units come by their earliest time and overlap, so rows are held until no unit can hold an older
//! one. At most [`HELD_BYTES_MAX`] are held. Beyond it the newest half is dropped, and a further
//! pass reads the units of the dropped rows once more, behind the rows already sent. Memory is
//! therefore bounded whatever the units look like, and each pass sends some rows. Where units
//! overlap little, one pass is enough.
//!
//! Left out: order for queries whose pipes make rows of their own; these come as the pipes give
//! them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use record::LineId;

use crate::base::{Meter, RowKey, RunError, TimeOrder};
use crate::block::{Block, MadeRow, Scratch};

/// Bytes of rows held to bring them into order. Beyond it, overlapping units are read in several
/// passes.
///
/// limits.md, Queries: rows of an export that overlap in time | {} | the newest half is dropped,
/// and read again in a further pass
const HELD_BYTES_MAX: usize = 64 << 20;

/// Bytes of rows taken out at once. The rows of the last line may exceed it.
const TAKEN_BYTES_MAX: usize = 4 << 20;

struct Held {
    key: RowKey,
    /// Keeps the rows of one line in the order in which pipes made them.
    place: u64,
    row: MadeRow,
}

impl Held {
    fn order(&self) -> (RowKey, u64) {
        (self.key, self.place)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.order() == other.order()
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Brings rows into order.
pub(crate) struct Ordered {
    order: TimeOrder,
    /// Rows from this key on are left to the next pass.
    before: Option<RowKey>,
    /// The last row that was taken out.
    sent: Option<RowKey>,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    held_bytes_max: usize,
    places: u64,
}

impl Ordered {
    /// Prepares for rows as `order` wants them; `memory_bytes_max` is the memory limit of the
    /// query.
    pub fn new(order: TimeOrder, memory_bytes_max: u64) -> Ordered {
        let memory_bytes_max = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
        Ordered {
            order,
            before: None,
            sent: None,
            held: BinaryHeap::new(),
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX.min(memory_bytes_max / 2),
            places: 0,
        }
    }

    /// Older rows are not wanted.
    pub fn oldest_wanted_ns(&self) -> i64 {
        self.order.after.map_or(i64::MIN, |key| key.time_ns)
    }

    /// Newer rows are not wanted in this pass.
    pub fn newest_wanted_ns(&self) -> i64 {
        self.before.map_or(i64::MAX, |key| key.time_ns)
    }

    /// Takes the wanted rows of a block, with the hidden fields of `include`.
    pub fn add(
        &mut self,
        block: &Block,
        include: &[String],
        meter: &mut Meter,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        for row in 0..block.len() {
            let key = block.line_key(row).expect("row-wise pipes hand lines on as lines");
            let (time_ns, id) = key;
            let key = RowKey { time_ns, id };
            let sequence = block.line_sequence(row).expect("it is a line");
            if !self.order.wants(key, sequence) || self.before.is_some_and(|before| key >= before) {
                continue;
            }
            let row = block.copy_row(row, include, scratch, meter)?;
            meter.take(size_of::<Held>())?;
            let bytes = cost(&row);
            self.held_bytes += bytes;
            self.places += 1;
            self.held.push(Reverse(Held { key, place: self.places, row }));
            if self.held_bytes > self.held_bytes_max {
                self.drop_newest(meter);
            }
        }
        Ok(())
    }

    /// Drops the newer half of the held rows, but never all, and leaves it to the next pass.
    fn drop_newest(&mut self, meter: &mut Meter) {
        let mut rows: Vec<Held> = std::mem::take(&mut self.held).into_iter().map(|r| r.0).collect();
        rows.sort_unstable();
        let mut bytes = 0;
        let half = rows.iter().position(|held| {
            bytes += cost(&held.row);
            bytes > self.held_bytes_max / 2
        });
        // All rows of a line are sent in one pass, and each pass sends at least one line.
        let first = rows[0].key;
        let cut = half.map_or(rows.len(), |half| {
            let key = rows[half].key.max(RowKey { time_ns: first.time_ns, id: next(first.id) });
            rows.partition_point(|held| held.key < key)
        });
        if let Some(dropped) = rows.get(cut) {
            self.before = Some(dropped.key);
        }
        let gone: usize = rows[cut..].iter().map(|held| cost(&held.row)).sum();
        meter.give_back(gone);
        self.held_bytes -= gone;
        rows.truncate(cut);
        self.held = rows.into_iter().map(Reverse).collect();
    }

    /// Takes out, in order, rows that are older than an instant: about `count` rows, up to
    /// [`TAKEN_BYTES_MAX`] bytes, always whole lines. Returns the rows and their keys.
    pub fn take(
        &mut self,
        before_ns: i64,
        count: usize,
        meter: &mut Meter,
    ) -> Option<(Vec<MadeRow>, Vec<RowKey>)> {
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        let mut last: Option<RowKey> = None;
        let mut bytes = 0;
        while let Some(Reverse(first)) = self.held.peek() {
            let older = first.key.time_ns < before_ns || before_ns == i64::MAX;
            let enough = rows.len() >= count || bytes >= TAKEN_BYTES_MAX;
            if !older || (enough && last != Some(first.key)) {
                break;
            }
            last = Some(first.key);
            let Reverse(held) = self.held.pop().expect("it was seen");
            let cost = cost(&held.row);
            bytes += cost;
            self.held_bytes -= cost;
            meter.give_back(cost);
            rows.push(held.row);
            keys.push(held.key);
        }
        self.sent = last.or(self.sent);
        last.map(|_| (rows, keys))
    }

    /// Begins the next pass, and returns whether rows were left to it.
    pub fn next_pass(&mut self) -> bool {
        assert!(self.held.is_empty(), "all rows of a pass are sent before the next");
        let left = self.before.take().is_some();
        self.order.after = self.sent.or(self.order.after);
        left
    }
}

fn next(id: LineId) -> LineId {
    match id.line.checked_add(1) {
        Some(line) => LineId { line, ..id },
        None => LineId { sequence: id.sequence.saturating_add(1), line: 0, ..id },
    }
}

fn cost(row: &MadeRow) -> usize {
    row.memory_bytes() + size_of::<Held>()
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use proptest::prelude::*;

    use super::*;
    use crate::Query;
    use crate::base::Limits;
    use crate::base::LineSet;
    use crate::dist::run;
    use crate::lang::context::Context;
    use crate::testing::{Memory, batch, record};

    /// The text of each row, with its key where the row was the last of a block.
    fn read(
        source: &Memory,
        order: TimeOrder,
        memory_bytes_max: u64,
    ) -> Vec<(String, Option<RowKey>)> {
        let limits = Limits { memory_bytes_max, threads: 2, ..Limits::default() };
        let context = Context { order: Some(order), limits, ..Context::default() };
        let query = Query::parse("* | fields _msg", 0).unwrap();
        let mut scratch = Scratch::default();
        let mut found = Vec::new();
        run(&query, source, &context, &mut |rows| {
            for index in 0..rows.len() {
                let msg = rows.get(index, "_msg", &mut scratch).to_vec();
                let key = rows.last_key().filter(|_| index + 1 == rows.len());
                found.push((String::from_utf8(msg).unwrap(), key));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }

    proptest! {
        #[test]
        fn as_sorting_all(
            times in prop::collection::vec(prop::collection::vec(-20i64..20, 1..12), 1..12),
            memory_bytes_max in 1_500u64..20_000,
            known in any::<bool>(),
            cut in any::<prop::sample::Index>(),
            within in prop::option::of((0u64..14, prop::collection::btree_set(0u64..14, 0..4))),
            since in prop::option::of(0u64..8),
        ) {
            let mut all = Vec::new();
            let batches = times.iter().zip(1..).map(|(times, sequence)| {
                let named: Vec<_> = times.iter().enumerate().map(|(line, time)| {
                    let id = LineId { node: 1, sequence, line: line as u32 };
                    let name = id.to_string();
                    all.push((RowKey { time_ns: *time, id }, name.clone()));
                    record(*time, &[("_msg", &name)])
                }).collect();
                batch(sequence, &named)
            });
            let source = Memory { known, ..Memory::new(batches.collect()) };
            let set = |through, missing: Vec<u64>| LineSet { through, missing };
            let order = TimeOrder {
                after: None,
                since: since.map(|through| set(through, Vec::new())),
                within: within.map(|(through, missing)| set(through, missing.into_iter().collect())),
            };
            all.retain(|(key, _)| order.wants(*key, key.id.sequence));
            all.sort();
            let found = read(&source, order.clone(), memory_bytes_max);
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            let expected: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
            prop_assert_eq!(&names, &expected);
            // Resuming behind any block gives the rest.
            let pieces: Vec<usize> = (0..found.len()).filter(|&at| found[at].1.is_some()).collect();
            if !pieces.is_empty() {
                let at = pieces[cut.index(pieces.len())];
                let order = TimeOrder { after: found[at].1, ..order };
                let rest = read(&source, order, memory_bytes_max);
                let rest: Vec<&str> = rest.iter().map(|(name, _)| name.as_str()).collect();
                prop_assert_eq!(rest, &expected[at + 1..]);
            }
        }
    }

    #[test]
    fn a_limit_gives_the_oldest() {
        let records: Vec<_> = (0..5).map(|i| record(9 - i, &[("_msg", &i.to_string())])).collect();
        let context = Context {
            order: Some(TimeOrder::default()),
            limit: Some(2),
            offset: 1,
            ..Context::default()
        };
        let mut found = Vec::new();
        let mut scratch = Scratch::default();
        run(&Query::parse("*", 0).unwrap(), &Memory::of(&records), &context, &mut |rows| {
            (0..rows.len()).for_each(|i| found.push(rows.get(i, "_msg", &mut scratch).to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, [b"3", b"2"]);
    }
}
