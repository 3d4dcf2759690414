//! Puts rows into groups and runs the functions over them.
//!
//! For each block, first the group of every row is found, then each function goes over the rows. Groups by one
//! field and by a time bucket have tables of their own; a row in the group of the row before it needs no look-up.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::aggregate::States;
use super::{Bucket, By, Stats};
use crate::bitmap::Bitmap;
use crate::block::{BLOCK_ROWS_MAX, Block, Column, MadeRow, Scratch, VALUE_BYTES_MAX};
use crate::filter::Selector;
use crate::number::{Kind, compare_kinds, parse_number, write_number};
use crate::pipe::Processor;
use crate::pipe::tuples::{ENTRY_BYTES, parts, write_part};
use crate::rolled::Weighted;
use crate::run::{CHECK_ROWS, Meter, Next, RunError};
use crate::time::write_time;

/// The field whose buckets are times only: a row without a time is in the group of none.
const TIME: &str = "_time";

/// Longest text of a time.
const TIME_BYTES_MAX: usize = "2026-01-31T12:00:00.123456789Z".len();

/// Groups of the smallest pieces that are sorted between two looks at the wish to cancel.
const SORT_GROUPS: usize = 65_536;

/// What makes a group, and its number.
struct Group {
    key: Key,
    /// What the value of each `by` field is, found out once and not in each comparison.
    kinds: Box<[Kind]>,
    number: u32,
}

/// The values of the `by` fields.
enum Key {
    /// Of one field.
    One(Box<[u8]>),
    /// Of several: each value behind its length.
    Many(Box<[u8]>),
}

impl Key {
    fn values(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match self {
            Key::One(value) => (Some(&**value), &[][..]),
            Key::Many(values) => (None, &**values),
        };
        one.into_iter().chain(parts(many))
    }
}

type Table<K> = HashMap<K, u32, foldhash::fast::RandomState>;

/// The `stats` pipe at work.
pub(in crate::pipe) struct Grouping {
    stats: Stats,
    selectors: Vec<Option<Selector>>,
    state: GroupState,
    /// Group of each row of the block at hand.
    places: Vec<u32>,
    scratch: Scratch,
}

/// What is known of all groups; that of two workers can be merged.
pub(super) struct GroupState {
    keys: Keys,
    groups: usize,
    states: Vec<Box<dyn States>>,
}

/// From what makes a group to its number.
enum Keys {
    /// One group for all.
    Single,
    /// One time bucket; rows without a time are in the group of none.
    Time(Table<Option<i64>>),
    /// One field.
    One(Table<Box<[u8]>>),
    /// Several: each value behind its length.
    Many(Table<Box<[u8]>>),
}

impl GroupState {
    fn new(stats: &Stats) -> GroupState {
        let keys = match stats.by.as_slice() {
            [] => Keys::Single,
            [By { name, bucket: Some(Bucket::Time { .. } | Bucket::Months { .. }) }]
                if name == TIME =>
            {
                Keys::Time(Table::default())
            }
            [_] => Keys::One(Table::default()),
            _ => Keys::Many(Table::default()),
        };
        let states = stats.functions.iter().map(|f| f.function.states()).collect();
        let mut state = GroupState { keys, groups: 0, states };
        if stats.by.is_empty() {
            state.groups = 1;
            state.grow();
        }
        state
    }

    fn grow(&mut self) {
        self.states.iter_mut().for_each(|states| states.grow(self.groups));
    }

    fn group_bytes(&self) -> usize {
        ENTRY_BYTES + self.states.iter().map(|s| s.state_bytes()).sum::<usize>()
    }

    /// Takes over what another worker of the same query found.
    pub(super) fn merge(&mut self, other: GroupState, meter: &mut Meter) -> Result<(), RunError> {
        let mut places = vec![0; other.groups];
        let new_bytes = self.group_bytes();
        let groups = &mut self.groups;
        match (&mut self.keys, other.keys) {
            (Keys::Single, Keys::Single) => {}
            (Keys::Time(own), Keys::Time(other)) => {
                for (key, group) in other {
                    places[group as usize] = place(own, key, groups, new_bytes, meter);
                }
            }
            (Keys::One(own), Keys::One(other)) | (Keys::Many(own), Keys::Many(other)) => {
                for (key, group) in other {
                    let key_bytes = key.len();
                    places[group as usize] = place(own, key, groups, key_bytes + new_bytes, meter);
                }
            }
            _ => unreachable!("workers of one query have the same groups"),
        }
        self.grow();
        for (own, other) in self.states.iter_mut().zip(other.states) {
            own.merge(other, &places, meter)?;
        }
        Ok(())
    }

    /// The groups with their values of the `by` fields, in the order of these.
    fn take_sorted(&mut self, next: &mut Next<'_, '_>) -> Result<Vec<Group>, RunError> {
        let keys = std::mem::replace(&mut self.keys, Keys::Single);
        let fields = match &keys {
            Keys::Single => 0,
            Keys::Time(_) | Keys::One(_) => 1,
            Keys::Many(table) => table.keys().next().map_or(0, |key| parts(key).count()),
        };
        let text_bytes = if matches!(keys, Keys::Time(_)) { TIME_BYTES_MAX } else { 0 };
        // The keys themselves are moved, not copied.
        let group_bytes = size_of::<Group>() + fields * size_of::<Kind>() + text_bytes;
        next.meter().take(self.groups * group_bytes)?;
        let group = |key: Key, number: u32| {
            let kinds = key.values().map(Kind::of).collect();
            Group { key, kinds, number }
        };
        let at_time = |ns: Option<i64>, number: u32| {
            let mut text = Vec::with_capacity(TIME_BYTES_MAX);
            ns.iter().for_each(|&ns| write_time(ns, &mut text));
            let kinds = [ns.map_or(Kind::Empty, Kind::Time)].into();
            Group { key: Key::One(text.into()), kinds, number }
        };
        let mut groups: Vec<Group> = match keys {
            Keys::Single => vec![group(Key::Many(Box::default()), 0)],
            Keys::Time(table) => table.into_iter().map(|(ns, g)| at_time(ns, g)).collect(),
            Keys::One(table) => table.into_iter().map(|(v, g)| group(Key::One(v), g)).collect(),
            Keys::Many(table) => table.into_iter().map(|(v, g)| group(Key::Many(v), g)).collect(),
        };
        sort_groups(&mut groups, next)?;
        Ok(groups)
    }
}

/// Sorts in pieces, then pieces four times as large and so on, so that the query can be ended in between.
fn sort_groups(groups: &mut [Group], next: &Next<'_, '_>) -> Result<(), RunError> {
    let compare = |a: &Group, b: &Group| {
        let kinds = a.kinds.iter().zip(&b.kinds);
        let mut orders = kinds
            .zip(a.key.values().zip(b.key.values()))
            .map(|((a_kind, b_kind), (a, b))| compare_kinds((*a_kind, a), (*b_kind, b)));
        orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    // Stable sorting finds the runs of the smaller pieces and only merges them.
    let mut size = SORT_GROUPS;
    loop {
        for piece in groups.chunks_mut(size) {
            next.check()?;
            piece.sort_by(compare);
        }
        if size >= groups.len() {
            return next.check();
        }
        size *= 4;
    }
}

/// The place of another worker's group among our own; `bytes`: what it took, which is given back when we
/// have it already.
fn place<K: std::hash::Hash + Eq>(
    own: &mut Table<K>,
    key: K,
    groups: &mut usize,
    bytes: usize,
    meter: &mut Meter,
) -> u32 {
    match own.entry(key) {
        Entry::Occupied(entry) => {
            meter.give_back(bytes);
            *entry.get()
        }
        Entry::Vacant(entry) => *entry.insert(next_group(groups)),
    }
}

fn next_group(groups: &mut usize) -> u32 {
    *groups += 1;
    u32::try_from(*groups - 1).expect("memory ends before 2^32 groups")
}

impl Grouping {
    pub fn new(stats: &Stats) -> Grouping {
        let selector = |f: &super::StatsFunction| f.filter.as_ref().map(Selector::new);
        Grouping {
            selectors: stats.functions.iter().map(selector).collect(),
            state: GroupState::new(stats),
            stats: stats.clone(),
            places: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Finds the group of every row of `block`.
    fn find_groups(&mut self, block: &Block, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        self.places.clear();
        let new_bytes = self.state.group_bytes();
        let GroupState { keys, groups, .. } = &mut self.state;
        let (places, scratch, by) = (&mut self.places, &mut self.scratch, &self.stats.by);
        match keys {
            Keys::Single => places.resize(block.len(), 0),
            Keys::Time(table) => {
                let bucket = by[0].bucket.as_ref().expect("made for a time bucket");
                let column = block.column(&by[0].name);
                let mut last = None;
                for row in 0..block.len() {
                    let ns = block.time_ns(column, row, scratch);
                    let key = ns.and_then(|ns| bucket.start_ns(ns));
                    let group = match last {
                        Some((last_key, group)) if last_key == key => group,
                        _ => match table.get(&key) {
                            Some(&group) => group,
                            None => {
                                next.meter().take(new_bytes)?;
                                let group = next_group(groups);
                                table.insert(key, group);
                                group
                            }
                        },
                    };
                    last = Some((key, group));
                    places.push(group);
                }
            }
            Keys::One(table) => {
                let column = block.column(&by[0].name);
                let mut made = Vec::new();
                let mut last: Option<(Vec<u8>, u32)> = None;
                for row in 0..block.len() {
                    if row % CHECK_ROWS == CHECK_ROWS - 1 {
                        next.check()?;
                    }
                    let value = match &by[0].bucket {
                        None => block.value(column, row, scratch),
                        Some(_) => {
                            made.clear();
                            write_bucket(block, column, row, &by[0], scratch, &mut made);
                            made.as_slice()
                        }
                    };
                    if let Some((last, group)) = &last
                        && last == value
                    {
                        places.push(*group);
                        continue;
                    }
                    let group = find_group(table, value, groups, new_bytes, next.meter())?;
                    let mut text = last.take().map_or_else(Vec::new, |(text, _)| text);
                    text.clear();
                    text.extend_from_slice(value);
                    last = Some((text, group));
                    places.push(group);
                }
            }
            Keys::Many(table) => {
                let columns: Vec<Column<'_>> = by.iter().map(|by| block.column(&by.name)).collect();
                let (mut key, mut made) = (Vec::new(), Vec::new());
                for row in 0..block.len() {
                    if row % CHECK_ROWS == CHECK_ROWS - 1 {
                        next.check()?;
                    }
                    key.clear();
                    for (by, &column) in by.iter().zip(&columns) {
                        if by.bucket.is_none() {
                            write_part(block.value(column, row, scratch), &mut key);
                        } else {
                            made.clear();
                            write_bucket(block, column, row, by, scratch, &mut made);
                            write_part(&made, &mut key);
                        }
                    }
                    places.push(find_group(table, &key, groups, new_bytes, next.meter())?);
                }
            }
        }
        self.state.grow();
        Ok(())
    }
}

#[inline]
fn find_group(
    table: &mut Table<Box<[u8]>>,
    key: &[u8],
    groups: &mut usize,
    new_bytes: usize,
    meter: &mut Meter,
) -> Result<u32, RunError> {
    if let Some(&group) = table.get(key) {
        return Ok(group);
    }
    meter.take(key.len() + new_bytes)?;
    let group = next_group(groups);
    table.insert(key.into(), group);
    Ok(group)
}

/// Appends the beginning of the bucket that a value is in; what has no bucket stays as it is.
fn write_bucket(
    block: &Block,
    column: Column<'_>,
    row: usize,
    by: &By,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    match &by.bucket {
        Some(bucket @ (Bucket::Time { .. } | Bucket::Months { .. })) => {
            let time_ns = block.time_ns(column, row, scratch);
            if let Some(start_ns) = time_ns.and_then(|ns| bucket.start_ns(ns)) {
                return write_time(start_ns, out);
            }
            if by.name == TIME {
                return;
            }
            // Durations as values are numbers of nanoseconds.
            if let Bucket::Time { step_ns, offset_ns } = bucket
                && let Some(number) = parse_number(block.value(column, row, scratch))
            {
                return write_number(step_of(number, *step_ns as f64, *offset_ns as f64), out);
            }
        }
        Some(Bucket::Number { size, offset }) => {
            if let Some(number) = parse_number(block.value(column, row, scratch)) {
                let offset = offset.as_ref().map_or(0.0, |offset| offset.value);
                return write_number(step_of(number, size.value, offset), out);
            }
        }
        Some(Bucket::Ipv4 { bits }) => {
            let value = std::str::from_utf8(block.value(column, row, scratch)).unwrap_or_default();
            if let Ok(address) = value.parse::<Ipv4Addr>() {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                let network = Ipv4Addr::from_bits(address.to_bits() & mask);
                return write!(out, "{network}").expect("writing to memory");
            }
        }
        None => {}
    }
    out.extend_from_slice(block.value(column, row, scratch));
}

/// The beginning of the step that a number is in.
fn step_of(number: f64, size: f64, offset: f64) -> f64 {
    ((number - offset) / size).floor() * size + offset
}

impl Processor for Grouping {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        next.check()?;
        self.find_groups(&block, next)?;
        for (selector, states) in self.selectors.iter().zip(&mut self.state.states) {
            let bits = selector.as_ref().map(|selector| {
                let mut bits = Bitmap::full(block.len());
                selector.narrow(&block, &mut bits, &mut self.scratch);
                bits
            });
            let (places, scratch) = (&self.places, &mut self.scratch);
            states.add(&block, places, bits.as_ref(), scratch, next.meter())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        next.check()?;
        self.find_groups(&rows.block, next)?;
        for (selector, states) in self.selectors.iter().zip(&mut self.state.states) {
            let mut bits = Bitmap::full(rows.block.len());
            if let Some(selector) = selector {
                selector.narrow(&rows.block, &mut bits, &mut self.scratch);
            }
            for row in bits.iter() {
                states.add_lines(self.places[row], rows.lines[row]);
            }
        }
        Ok(())
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        let order_free = self.stats.functions.iter().all(|f| f.function.is_order_free());
        order_free.then_some(&mut self.state as &mut dyn Any)
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        next.check()?;
        let other = collected.downcast_mut::<GroupState>().expect("of the same pipe");
        let other = std::mem::replace(other, GroupState::new(&self.stats));
        self.state.merge(other, next.meter())
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        let by: Vec<Arc<str>> = self.stats.by.iter().map(|by| by.name.as_str().into()).collect();
        let names: Vec<Arc<str>> =
            self.stats.functions.iter().map(|f| f.name.as_str().into()).collect();
        let groups = self.state.take_sorted(next)?;
        let timed = self.stats.by.iter().position(|by| by.name == TIME && by.bucket.is_some());
        let range_seconds = next.range().seconds();
        let mut text = Vec::new();
        for chunk in groups.chunks(BLOCK_ROWS_MAX) {
            let mut rows = Vec::with_capacity(chunk.len());
            for group in chunk {
                let mut row = MadeRow::default();
                by.iter().zip(group.key.values()).for_each(|(name, v)| row.push(name.clone(), v));
                let bucket_seconds = timed.and_then(|place| match group.kinds[place] {
                    Kind::Time(start_ns) => self.stats.by[place].bucket.as_ref()?.seconds(start_ns),
                    _ => None,
                });
                let seconds = bucket_seconds.or(range_seconds);
                for (name, states) in names.iter().zip(&mut self.state.states) {
                    text.clear();
                    states.write(group.number, seconds, &mut text);
                    if text.len() > VALUE_BYTES_MAX {
                        return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
                    }
                    row.push(name.clone(), &text);
                }
                rows.push(row);
            }
            if next.push(Block::Made(rows))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Lines;
    use crate::pipe::Pipe;
    use crate::testing::{batch, record};
    use proptest::prelude::*;

    fn block(sequence: u64, rows: &[(u8, u8)]) -> Block {
        let texts: Vec<_> = rows.iter().map(|(a, b)| (format!("g{a}"), b.to_string())).collect();
        let records: Vec<_> = texts
            .iter()
            .zip(rows)
            .map(|((a, b), (_, time))| record(i64::from(*time), &[("a", a), ("n", b)]))
            .collect();
        let places = (0..rows.len() as u32).collect();
        Block::Lines(Lines::new(batch(sequence, &records), places))
    }

    proptest! {
        #[test]
        fn merged_workers_find_what_one_finds(
            rows in prop::collection::vec((0u8..4, 0u8..20), 2..60),
            by in prop::sample::select(vec!["", "by (a)", "by (_time:3ns)", "by (a, n:5)"]),
            share in 0.1f64..0.9,
        ) {
            let text = format!(
                "* | stats {by} count() c, count_empty(n) e, count_uniq(n) u, count_uniq(n) limit 2 v, sum(n) s, \
                 avg(n) g, min(n) lo, max(n) hi, median(n) q, count(n*) w, count_uniq_hash(a, n) x, sum_len(n) y, \
                 any(a, n) z, values(n) aa, values(a, n) limit 5 ab, uniq_values(n) ac, row_any(n) ad, \
                 row_min(n, a, n) ae, row_max(n, n) af, field_min(n, a) ag, field_max(a, n) ah, histogram(n) ai, \
                 rate() aj, rate_sum(n) ak, json_values(a) limit 3 al, json_values(n) sort by (n, a) limit 2 am"
            );
            let query = crate::Query::parse(&text, 0).unwrap();
            let Pipe::Stats(stats) = &query.pipes()[0] else { unreachable!() };
            let (left, right) = rows.split_at(1 + (share * (rows.len() - 2) as f64) as usize);
            let shown = |parts: &[&[(u8, u8)]]| {
                let (_, sent) = crate::run::with_next(|next| {
                    let mut workers: Vec<Grouping> = parts.iter().map(|_| Grouping::new(stats)).collect();
                    for (worker, part) in workers.iter_mut().zip(parts) {
                        let _ = worker.push(block(1, part), next).unwrap();
                    }
                    let mut first = workers.remove(0);
                    for other in workers {
                        first.state.merge(other.state, next.meter()).unwrap();
                    }
                    first.finish(next).unwrap();
                });
                let mut shown = Vec::new();
                let mut scratch = Scratch::default();
                for block in &sent {
                    for row in 0..block.len() {
                        block.visit(row, &mut scratch, |name, value| {
                            shown.push(format!("{name}={}", String::from_utf8_lossy(value)));
                        });
                    }
                }
                shown
            };
            prop_assert_eq!(shown(&[left, right]), shown(&[&rows]));
        }
    }
}
