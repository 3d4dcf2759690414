//! Assigns rows to groups and runs the functions over them.
//!
//! For each block, the group of every row is found first; then each function runs over the rows.
//! Groups by a single field and groups by a time bucket have specialised tables. A row in the same
//! group as the row before it needs no lookup.

use std::any::Any;
use std::collections::HashMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;

use text::duration::write_duration;
use text::time::write_time;

use super::aggregate::{States, VectorRows};
use super::{Bucket, By, Stats};
use crate::base::bitmap::Bitmap;
use crate::base::number::{SortKind, compare_kinds, parse_number, parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::sorted::Sorted;
use crate::base::time::parse_duration;
use crate::base::{Buffer, CHECK_ROWS, Meter, RunError};
use crate::block::{Block, Column, Scratch, Tally, VALUE_BYTES_MAX, Vectors, Weighted};
use crate::lang::filter::Selector;
use crate::lang::pipe::Next;
use crate::lang::pipe::byte_table::{ByteTable, TOGETHER, hash_of};
use crate::lang::pipe::operator::Processor;
use crate::lang::pipe::outgoing::{Outgoing, RowBuilder};
use crate::lang::pipe::tuples::{ENTRY_BYTES, is_key, put_part, values_of};

/// The event time. Its buckets have times only: rows without a time form one group of their own.
const TIME: &str = "_time";

/// Longest text of a time, bytes.
const TIME_BYTES_MAX: usize = "2026-01-31T12:00:00.123456789Z".len();

/// Bytes of a large count as text.
const NUMBER_BYTES: usize = 8;

/// A group as it is handed on: its number, the values of its `by` fields, and the index of the
/// kinds of these values.
#[derive(Clone, Copy)]
struct Group<'k> {
    number: u32,
    key: &'k [u8],
    kinds: usize,
}

type Times = HashMap<Option<i64>, u32, foldhash::fast::RandomState>;

/// The running `stats` pipe.
pub(super) struct Grouping {
    stats: Stats,
    selectors: Vec<Option<Selector>>,
    state: GroupState,
    /// The group of each row of the present block.
    places: Vec<u32>,
    scratch: Scratch,
}

/// The state of all groups; those of two workers can be merged.
pub(super) struct GroupState {
    keys: Keys,
    groups: usize,
    states: Vec<Box<dyn States>>,
}

/// Maps the values of a group to its number.
enum Keys {
    /// A single group.
    Single,
    /// A bucket of time; rows without a time form one group.
    Time(Times),
    /// One field.
    One(ByteTable),
    /// Several fields: each value behind its length.
    Many(ByteTable),
}

impl GroupState {
    fn new(stats: &Stats) -> GroupState {
        let keys = match stats.by.as_slice() {
            [] => Keys::Single,
            [By { name, bucket: Some(Bucket::Time { .. } | Bucket::Months { .. }) }]
                if name == TIME =>
            {
                Keys::Time(Times::default())
            }
            [_] => Keys::One(ByteTable::default()),
            _ => Keys::Many(ByteTable::default()),
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

    /// Memory of a group besides that in the table of keys.
    fn group_bytes(&self) -> usize {
        let key_bytes = if matches!(self.keys, Keys::Time(_)) { ENTRY_BYTES } else { 0 };
        key_bytes + self.states.iter().map(|s| s.state_bytes()).sum::<usize>()
    }

    /// Merges the state of another worker of the same query.
    pub(super) fn merge(&mut self, other: GroupState, next: &mut Next<'_>) -> Result<(), RunError> {
        let mut places = vec![0; other.groups];
        let (before, group_bytes) = (self.groups, self.group_bytes());
        let groups = &mut self.groups;
        match (&mut self.keys, other.keys) {
            (Keys::Single, Keys::Single) => {}
            (Keys::Time(own), Keys::Time(other)) => {
                for (key, group) in other {
                    places[group as usize] = *own.entry(key).or_insert_with(|| next_group(groups));
                }
            }
            (Keys::One(own), Keys::One(other)) | (Keys::Many(own), Keys::Many(other)) => {
                own.merge(other, next, |own, is_new, other| {
                    if is_new {
                        *own = u64::from(next_group(groups));
                    }
                    places[other as usize] = *own as u32;
                })?;
            }
            _ => unreachable!("workers of one query have the same groups"),
        }
        // Groups of both workers exist once from here on.
        let common = other.groups - (self.groups - before);
        next.meter().give_back(common * group_bytes);
        self.grow();
        for (own, other) in self.states.iter_mut().zip(other.states) {
            own.merge(other, &places, next)?;
        }
        Ok(())
    }
}

fn next_group(groups: &mut usize) -> u32 {
    *groups += 1;
    u32::try_from(*groups - 1).expect("memory ends before 2^32 groups")
}

/// The values of the `by` fields of all groups, and the kinds of these values.
struct Keyed<'k> {
    groups: Vec<Group<'k>>,
    kinds: Vec<SortKind>,
    fields: usize,
}

impl<'k> Keyed<'k> {
    /// Groups of a table; the kinds of their values only if `with_kinds`.
    fn of_table(
        table: &'k ByteTable,
        fields: usize,
        with_kinds: bool,
        next: &mut Next<'_>,
    ) -> Result<Keyed<'k>, RunError> {
        let kinds = if with_kinds { table.len() * fields } else { 0 };
        next.meter().take(table.len() * size_of::<Group<'_>>() + kinds * size_of::<SortKind>())?;
        let (groups, kinds) = (Vec::with_capacity(table.len()), Vec::with_capacity(kinds));
        let mut keyed = Keyed { groups, kinds, fields };
        for (key, number) in table.iter() {
            if keyed.groups.len() % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let kinds = keyed.kinds.len();
            keyed.groups.push(Group { number: number as u32, key, kinds });
            if with_kinds {
                keyed.kinds.extend(values_of(key, fields == 1).map(SortKind::of));
            }
        }
        Ok(keyed)
    }

    /// Groups of buckets of time, whose texts are appended to `texts`.
    fn of_times(
        times: &Times,
        texts: &'k mut Vec<u8>,
        next: &mut Next<'_>,
    ) -> Result<Keyed<'k>, RunError> {
        let pair_bytes = size_of::<(Option<i64>, u32)>();
        let group_bytes =
            size_of::<Group<'_>>() + size_of::<SortKind>() + pair_bytes + TIME_BYTES_MAX;
        next.meter().take(times.len() * group_bytes)?;
        // Sorting numbers is faster than sorting kinds and texts later; that sort is then quick,
        // because its input is in order.
        let mut times: Vec<(Option<i64>, u32)> = times.iter().map(|(&ns, &n)| (ns, n)).collect();
        times.sort_unstable();
        texts.reserve(times.len() * TIME_BYTES_MAX);
        let mut ends = Vec::with_capacity(times.len());
        for (ns, _) in &times {
            ns.iter().for_each(|&ns| write_time(ns, texts));
            ends.push(texts.len());
        }
        let (mut groups, mut kinds) =
            (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
        let mut from = 0;
        for ((ns, number), end) in times.into_iter().zip(ends) {
            groups.push(Group { number, key: &texts[from..end], kinds: kinds.len() });
            kinds.push(ns.map_or(SortKind::Empty, SortKind::Time));
            from = end;
        }
        Ok(Keyed { groups, kinds, fields: 1 })
    }

    /// The groups, ordered by the values of their fields.
    fn into_sorted(
        self,
        next: &Next<'_>,
    ) -> Result<impl Iterator<Item = Group<'k>> + use<'k>, RunError> {
        let Keyed { groups, kinds, fields } = self;
        let compare = move |a: &Group<'_>, b: &Group<'_>| {
            let kinds_of = |group: &Group<'_>| kinds[group.kinds..][..fields].iter();
            let [a_values, b_values] = [a, b].map(|group| values_of(group.key, fields == 1));
            let (a, b) = (kinds_of(a).zip(a_values), kinds_of(b).zip(b_values));
            let mut orders = a.zip(b).map(|((a, x), (b, y))| compare_kinds((*a, x), (*b, y)));
            orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        };
        Sorted::new(groups, compare, || next.check())
    }
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

    /// Finds the group of every row of `block`; `times` are the times of the rows, if they are
    /// known.
    fn find_groups(
        &mut self,
        block: &Block,
        times_ns: &[i64],
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
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
                    let ns = match times_ns.get(row) {
                        Some(&ns) => Some(ns),
                        None => block.time_ns(column, row, scratch),
                    };
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
                let (mut key, mut made) = (Buffer::default(), Vec::new());
                for row in 0..block.len() {
                    if row % CHECK_ROWS == CHECK_ROWS - 1 {
                        next.check()?;
                    }
                    key.clear(next.meter());
                    for (by, &column) in by.iter().zip(&columns) {
                        if by.bucket.is_none() {
                            let value = block.value(column, row, scratch);
                            put_part(value, &mut key, next.meter())?;
                        } else {
                            made.clear();
                            write_bucket(block, column, row, by, scratch, &mut made);
                            put_part(&made, &mut key, next.meter())?;
                        }
                    }
                    places.push(find_group(table, key.bytes(), groups, new_bytes, next.meter())?);
                }
                key.clear(next.meter());
            }
        }
        self.state.grow();
        Ok(())
    }
}

#[inline]
fn find_group(
    table: &mut ByteTable,
    key: &[u8],
    groups: &mut usize,
    new_bytes: usize,
    meter: &mut Meter,
) -> Result<u32, RunError> {
    let (group, is_new) = table.entry(hash_of(key), key, meter)?;
    if is_new {
        *group = u64::from(next_group(groups));
        let group = *group as u32;
        meter.take(new_bytes)?;
        return Ok(group);
    }
    Ok(*group as u32)
}

/// Appends the start of the bucket of a value; a value without a bucket is appended unchanged.
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
            // Values that are durations count as nanoseconds.
            if let Bucket::Time { step_ns, offset_ns } = bucket {
                let value = block.value(column, row, scratch);
                return write_step(value, *step_ns as f64, *offset_ns as f64, out);
            }
        }
        Some(Bucket::Number { size, offset }) => {
            let shift = offset.as_ref().map_or(0.0, |offset| -offset.value);
            return write_step(block.value(column, row, scratch), size.value, shift, out);
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

/// Appends the start of the step that holds a value, in the form of the value: a number, a duration
/// or an address. Any other value is appended unchanged.
pub(crate) fn write_step(value: &[u8], size: f64, shift: f64, out: &mut Vec<u8>) {
    let Some(number) = parse_number(value) else { return out.extend_from_slice(value) };
    let start = step_start(number, size, shift);
    let text = std::str::from_utf8(value).unwrap_or_default();
    if parse_quantity(value).is_none() && text.parse::<Ipv4Addr>().is_ok() {
        // The conversion limits the number to the range of addresses.
        write!(out, "{}", Ipv4Addr::from_bits(start as u32)).expect("writing to memory");
    } else if is_duration(text) {
        write_duration(start as i64, out);
    } else {
        write_number(start, out);
    }
}

/// Places behind the point up to which steps are exact. A power of ten up to this one, and a whole
/// number up to 2^53, are doubles, and the quotient of both is the double nearest to the decimal.
const EXACT_PLACES_MAX: usize = 15;

/// The start of the step that holds a number. Steps of 0.1 begin at 0.1, 0.2, 0.3 … as a person
/// reads them: decimals are counted as whole numbers of their last place, because 0.3 / 0.1 is less
/// than 3 in doubles.
fn step_start(number: f64, size: f64, shift: f64) -> f64 {
    let nearest = ((number - shift) / size).floor();
    let plain = nearest * size + shift;
    let places = decimal_places(size).max(decimal_places(shift));
    if places == 0 || places > EXACT_PLACES_MAX || !plain.is_finite() {
        return plain;
    }
    let scale = 10_f64.powi(places as i32);
    let (size, shift) = ((size * scale).round(), (shift * scale).round());
    let start = |step: f64| (step * size + shift) / scale;
    // The division is wrong by one step at most.
    let [below, at, above] = [-1.0, 0.0, 1.0].map(|more| start(nearest + more));
    match (above <= number, at <= number) {
        (true, _) => above,
        (false, true) => at,
        (false, false) => below,
    }
}

/// Digits behind the point of a number as it is written.
fn decimal_places(number: f64) -> usize {
    if number.fract() == 0.0 {
        return 0;
    }
    number.to_string().split_once('.').map_or(0, |(_, places)| places.len())
}

/// Whether a number is written as a duration, rather than as a size.
fn is_duration(text: &str) -> bool {
    text.ends_with(['s', 'm', 'h', 'd', 'w', 'y']) && parse_duration(text).is_some()
}

impl Processor for Grouping {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        next.check()?;
        self.find_groups(&block, &[], next)?;
        for (selector, states) in self.selectors.iter().zip(&mut self.state.states) {
            let bits = selector.as_ref().map(|selector| {
                let mut bits = Bitmap::full(block.len());
                let narrowed = selector.narrow(&block, &mut bits, &mut self.scratch, next.meter());
                narrowed.map(|()| bits)
            });
            let bits = bits.transpose()?;
            let (places, scratch) = (&self.places, &mut self.scratch);
            states.add(&block, places, bits.as_ref(), scratch, next.meter())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        next.check()?;
        self.find_groups(&rows.block, &rows.times_ns, next)?;
        let functions = self.stats.functions.iter().zip(&self.selectors);
        for ((called, selector), states) in functions.zip(&mut self.state.states) {
            let mut bits = Bitmap::full(rows.block.len());
            if let Some(selector) = selector {
                selector.narrow(&rows.block, &mut bits, &mut self.scratch, next.meter())?;
            }
            if called.function.counts_rows() {
                for row in bits.iter() {
                    states.add_lines(self.places[row], rows.lines[row]);
                }
            } else {
                // The function takes each value once, so the number of lines that a row stands for
                // does not matter.
                let (places, scratch) = (&self.places, &mut self.scratch);
                states.add(&rows.block, places, Some(&bits), scratch, next.meter())?;
            }
        }
        Ok(())
    }

    fn push_tally(&mut self, tally: &Tally, next: &mut Next<'_>) -> Result<(), RunError> {
        let new_bytes = self.state.group_bytes();
        let GroupState { keys: Keys::One(table), groups, .. } = &mut self.state else {
            unreachable!("it is of one field");
        };
        self.places.clear();
        for from in (0..tally.len()).step_by(TOGETHER) {
            if from % CHECK_ROWS == 0 {
                next.check()?;
            }
            let before = *groups;
            let keys = (from..tally.len().min(from + TOGETHER)).map(|place| tally.value(place));
            table.look_up(keys, next.meter(), |group, is_new| {
                if is_new {
                    *group = u64::from(next_group(groups));
                }
                self.places.push(*group as u32);
            })?;
            next.meter().take((*groups - before) * new_bytes)?;
        }
        self.state.grow();
        for states in &mut self.state.states {
            for (place, &group) in self.places.iter().enumerate() {
                states.add_lines(group, tally.lines(place));
            }
        }
        Ok(())
    }

    fn push_vectors(&mut self, rows: &Vectors, next: &mut Next<'_>) -> Result<(), RunError> {
        next.check()?;
        self.find_groups(&rows.groups, &rows.times_ns, next)?;
        for ((selection, vector), states) in rows.inputs.iter().zip(&mut self.state.states) {
            let selection = &rows.selections[*selection];
            let of_row = selection.of_row.as_deref();
            match (vector, of_row) {
                (Some(vector), _) => {
                    let rows = VectorRows { vector, of_row, groups: &self.places };
                    states.add_vector(&rows, next.meter())?;
                }
                (None, None) => states.add_lines(self.places[0], selection.rows as u64),
                (None, Some(of_row)) => {
                    let mut lines = vec![0; self.places.len()];
                    of_row.iter().for_each(|&place| lines[place as usize] += 1);
                    let groups = self.places.iter().zip(lines);
                    groups.for_each(|(&group, lines)| states.add_lines(group, lines));
                }
            }
        }
        Ok(())
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.state)
    }

    fn takes_any_order(&self) -> bool {
        self.stats.functions.iter().all(|f| f.function.only_counts())
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        next.check()?;
        let other = collected.downcast_mut::<GroupState>().expect("of the same pipe");
        let other = std::mem::replace(other, GroupState::new(&self.stats));
        self.state.merge(other, next)
    }

    /// Format: the number of groups, the values of each in the order of the group numbers, and for
    /// each function the states of all groups.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        let GroupState { keys, groups, states } = &self.state;
        out.number(*groups as u64)?;
        match keys {
            Keys::Single => {}
            Keys::Time(times) => {
                let mut starts = vec![None; *groups];
                times.iter().for_each(|(start, group)| starts[*group as usize] = *start);
                for start in starts {
                    out.flag(start.is_some())?;
                    start.map_or(Ok(()), |ns| out.number(ns.cast_unsigned()))?;
                }
            }
            Keys::One(table) | Keys::Many(table) => {
                let mut values: Vec<&[u8]> = vec![&[]; *groups];
                table.iter().for_each(|(key, group)| values[group as usize] = key);
                values.into_iter().try_for_each(|key| out.bytes(key))?;
            }
        }
        states.iter().try_for_each(|states| states.encode(out))
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        let new_bytes = self.state.group_bytes();
        let count = from.length(usize::from(!self.stats.by.is_empty()))?;
        let GroupState { keys, groups, .. } = &mut self.state;
        if matches!(keys, Keys::Single) && count != 1 {
            return Err(wrong_state("there is one group"));
        }
        for _ in 0..count {
            let before = *groups;
            match keys {
                Keys::Single => break,
                Keys::Time(times) => {
                    let bucket = self.stats.by[0].bucket.as_ref();
                    let start = match from.flag()? {
                        true => Some(from.number()?.cast_signed()),
                        false => None,
                    };
                    if start.is_some_and(|ns| bucket.and_then(|b| b.start_ns(ns)) != Some(ns)) {
                        return Err(wrong_state("no bucket begins at that time"));
                    }
                    meter.take(new_bytes)?;
                    times.entry(start).or_insert_with(|| next_group(groups));
                }
                Keys::One(table) | Keys::Many(table) => {
                    let key = from.bytes()?;
                    if !is_key(key, self.stats.by.len()) {
                        return Err(wrong_state("a group is not of these fields"));
                    }
                    find_group(table, key, groups, new_bytes, meter)?;
                }
            }
            if *groups == before {
                return Err(wrong_state("a group comes twice"));
            }
        }
        self.state.grow();
        self.state.states.iter_mut().try_for_each(|states| states.decode(from, meter))
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let keys = std::mem::replace(&mut self.state.keys, Keys::Single);
        let fields = self.stats.by.len();
        let timed = self.stats.by.iter().position(|by| by.name == TIME && by.bucket.is_some());
        // The next pipe may not need any order.
        let is_sorted = !next.takes_any_order();
        let with_kinds = is_sorted || timed.is_some();
        let mut texts = Vec::new();
        let keyed = match &keys {
            Keys::Single => {
                let groups = vec![Group { number: 0, key: &[], kinds: 0 }];
                Keyed { groups, kinds: Vec::new(), fields: 0 }
            }
            Keys::Time(times) => Keyed::of_times(times, &mut texts, next)?,
            Keys::One(table) | Keys::Many(table) => {
                Keyed::of_table(table, fields, with_kinds, next)?
            }
        };
        // The start of a group's time bucket, if rows are grouped by time.
        let start_ns = |group: &Group<'_>, kinds: &[SortKind]| match kinds[group.kinds + timed?] {
            SortKind::Time(start_ns) => Some(start_ns),
            _ => None,
        };
        let starts: Vec<Option<i64>> = match timed {
            Some(_) => {
                next.meter().take(keyed.groups.len() * size_of::<Option<i64>>())?;
                let mut starts = vec![None; keyed.groups.len()];
                for group in &keyed.groups {
                    starts[group.number as usize] = start_ns(group, &keyed.kinds);
                }
                starts
            }
            None => Vec::new(),
        };
        if is_sorted {
            self.send(keyed.into_sorted(next)?, &starts, next)
        } else {
            self.send(keyed.groups.into_iter(), &starts, next)
        }
    }
}

impl Grouping {
    /// Hands groups on; `starts` has the start of each group's time bucket, if rows are grouped by
    /// time.
    fn send<'k>(
        &mut self,
        groups: impl Iterator<Item = Group<'k>>,
        starts: &[Option<i64>],
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        let by: Vec<Arc<str>> = self.stats.by.iter().map(|by| by.name.as_str().into()).collect();
        let names: Vec<Arc<str>> =
            self.stats.functions.iter().map(|f| f.name.as_str().into()).collect();
        let bucket =
            self.stats.by.iter().find(|by| by.name == TIME).and_then(|by| by.bucket.clone());
        let range_seconds = next.query.range().seconds();
        let mut text = Vec::new();
        let mut outgoing = Outgoing::default();
        for group in groups {
            let room = group.key.len() + names.len() * NUMBER_BYTES;
            let mut row = RowBuilder::with_room(by.len() + names.len(), room, next.meter())?;
            for (name, value) in by.iter().zip(values_of(group.key, by.len() == 1)) {
                row.push(name.clone(), value, next.meter())?;
            }
            let start_ns = starts.get(group.number as usize).copied().flatten();
            let bucket_seconds = start_ns.and_then(|ns| bucket.as_ref()?.seconds(ns));
            let seconds = bucket_seconds.or(range_seconds);
            for (name, states) in names.iter().zip(&mut self.state.states) {
                text.clear();
                // Checked before writing, so that a result that is too long takes no memory.
                if states.text_bytes(group.number) <= VALUE_BYTES_MAX {
                    states.write(group.number, seconds, &mut text);
                } else {
                    return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
                }
                if text.len() > VALUE_BYTES_MAX {
                    return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
                }
                row.push(name.clone(), &text, next.meter())?;
            }
            if outgoing.push(row, next)?.is_break() {
                return Ok(());
            }
        }
        outgoing.flush(next).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BatchLines;
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
        Block::Lines(BatchLines::new(batch(sequence, &records), places))
    }

    #[test]
    fn decimals_are_in_the_step_that_a_person_reads() {
        let step = |value: &str, size: f64, shift: f64| {
            let mut out = Vec::new();
            write_step(value.as_bytes(), size, shift, &mut out);
            String::from_utf8(out).unwrap()
        };
        for whole in 0..200 {
            for place in 0..10 {
                // The tenth of a text is its digit behind the point.
                let tenth = match place {
                    0 => format!("{whole}"),
                    place => format!("{whole}.{place}"),
                };
                assert_eq!(step(&format!("{whole}.{place}"), 0.1, 0.0), tenth);
                assert_eq!(step(&format!("{whole}.{place}7"), 0.1, 0.0), tenth);
                assert_eq!(step(&format!("{whole}.{place}"), 0.01, 0.0), tenth);
            }
        }
        for (value, size, shift, expected) in [
            ("130", 100.0, 30.3, "30.3"),
            ("130.3", 100.0, 30.3, "130.3"),
            ("-0.01", 0.1, 0.0, "-0.1"),
            ("-0.3", 0.1, 0.0, "-0.3"),
            ("0.7", 0.35, 0.0, "0.7"),
        ] {
            assert_eq!(step(value, size, shift), expected, "{value} {size} {shift}");
        }
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
            let stats = query.pipes()[0].get::<Stats>().unwrap();
            let (left, right) = rows.split_at(1 + (share * (rows.len() - 2) as f64) as usize);
            let shown = |parts: &[&[(u8, u8)]]| {
                let (_, sent) = crate::testing::with_next(|next| {
                    let mut workers: Vec<Grouping> = parts.iter().map(|_| Grouping::new(stats)).collect();
                    for ((worker, part), sequence) in workers.iter_mut().zip(parts).zip(1..) {
                        let _ = worker.push(block(sequence, part), next).unwrap();
                    }
                    let mut first = workers.remove(0);
                    for other in workers {
                        first.state.merge(other.state, next).unwrap();
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
