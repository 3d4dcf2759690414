//! Collects rows for a chunk: counts them, and groups them so that similar lines are next to each
//! other.
//!
//! The values that a row is counted and grouped by are mostly in its stem, or are its own `_level`:
//! they are looked up once for the rows of a batch with the same stem and the same such values.

use std::collections::HashMap;
use std::sync::Arc;

use record::{Batch, Row, StemId, Transport};

use super::Clustering;
use super::block::RowRef;
use super::column::ByHash;
use super::layout::BatchShapes;
use super::rollup::{COUNTED_FIELDS, Counter, SECOND_NS, ValueNumbers};
use crate::hash::{K0, fold, hash64};

/// A line whose event time is this far from its arrival is *displaced*: it arrived late, its clock
/// is wrong, or it was imported.
const DISPLACED_NS: u64 = 60_000_000_000;
/// A group smaller than this part of a block does not get blocks of its own.
const GROUP_PARTS: usize = 8;

/// Rows that wait until their chunk is full.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// For each batch, how many rows each of its stems has here.
    rows_of_stems: Vec<Vec<u32>>,
    groups: Vec<Group>,
    /// Index in `groups`, by the group's number.
    indexes: ByHash<u32>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// Rows that are written into blocks together.
#[derive(Default)]
pub(crate) struct Group {
    number: u64,
    pub(crate) rows: Vec<RowRef>,
    /// Bytes of their lines, each with a newline.
    pub(crate) bytes: usize,
}

/// Bit of a group: the event times of its lines are far from their arrival.
const DISPLACED: u64 = 1 << 63;
/// Bit of a group: Loginson made the lines itself. However few there are, they get blocks of their
/// own.
const INTERNAL: u64 = 1 << 62;

impl Pending {
    /// Takes the rows of a batch for which `keep` returns true, or all.
    pub(crate) fn take(
        &mut self,
        batch: Arc<Batch>,
        keep: Option<&dyn Fn(&Row<'_>) -> bool>,
        clustering: Clustering,
        counter: &mut Counter,
    ) {
        let mut keys = Keys::new(&batch, clustering);
        let mut rows_of_stems = vec![0; batch.stems()];
        let index = self.batches.len() as u32;
        let mut run = Run::default();
        for row in batch.rows() {
            if keep.is_some_and(|keep| !keep(&row)) {
                continue;
            }
            rows_of_stems[usize::from(row.stem().0)] += 1;
            let key = keys.of(&row, counter);
            run.take(&row, key, counter);
            let displaced = row.time_ns().abs_diff(row.received_ns()) > DISPLACED_NS;
            let group = &mut key.groups[usize::from(displaced)];
            if *group == UNKNOWN {
                *group = self.group(key.number | if displaced { DISPLACED } else { 0 });
            }
            let bytes = row.raw_bytes() + 1;
            let group = &mut self.groups[*group as usize];
            group.rows.push(RowRef { batch: index, row: row.index() });
            group.bytes += bytes;
            self.bytes += bytes;
        }
        run.end(counter);
        let rows: u32 = rows_of_stems.iter().sum();
        if rows > 0 {
            self.rows += rows as usize;
            self.rows_of_stems.push(rows_of_stems);
            self.batches.push(batch);
        }
    }

    /// For each batch, the state for splitting its rows.
    pub(crate) fn shapes(&self) -> Vec<BatchShapes> {
        self.rows_of_stems.iter().map(|rows| BatchShapes::new(rows.iter().copied())).collect()
    }

    /// The index of a group.
    fn group(&mut self, number: u64) -> u32 {
        *self.indexes.entry(number).or_insert_with(|| {
            self.groups.push(Group { number, ..Group::default() });
            self.groups.len() as u32 - 1
        })
    }

    /// The groups; those too small for a block of `block_bytes` are joined. Each is in the order of
    /// arrival, displaced lines in the order of event time.
    pub(crate) fn grouped(&mut self, block_bytes: usize) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut rests = [Group::default(), Group { number: DISPLACED, ..Group::default() }];
        for group in self.groups.drain(..) {
            if group.bytes >= block_bytes / GROUP_PARTS || group.number & INTERNAL != 0 {
                groups.push(group);
            } else {
                let rest = &mut rests[usize::from(group.number & DISPLACED != 0)];
                rest.rows.extend(group.rows);
                rest.bytes += group.bytes;
            }
        }
        for mut rest in rests {
            rest.rows.sort_unstable_by_key(|row| (row.batch, row.row));
            if !rest.rows.is_empty() {
                groups.push(rest);
            }
        }
        for group in groups.iter_mut().filter(|group| group.number & DISPLACED != 0) {
            let time_ns =
                |at: &RowRef| self.batches[at.batch as usize].row(at.row as usize).time_ns();
            group.rows.sort_by_cached_key(time_ns);
        }
        groups
    }
}

/// Counts the rows of a batch that is not to be written.
pub(crate) fn count(batch: &Batch, counter: &mut Counter) {
    let mut keys = Keys::new(batch, Clustering::Arrival);
    let mut run = Run::default();
    for row in batch.rows() {
        run.take(&row, keys.of(&row, counter), counter);
    }
    run.end(counter);
}

/// Consecutive lines with the same second and values, which are counted together.
#[derive(Default)]
struct Run {
    second: i64,
    values: ValueNumbers,
    lines: u32,
}

impl Run {
    #[inline]
    fn take(&mut self, row: &Row<'_>, key: &Key<'_>, counter: &mut Counter) {
        let second = row.time_ns().div_euclid(SECOND_NS);
        if (second, key.counted) != (self.second, self.values) {
            self.end(counter);
            *self = Run { second, values: key.counted, lines: 0 };
        }
        self.lines += u32::from(key.number != INTERNAL);
    }

    fn end(&self, counter: &mut Counter) {
        counter.add(self.second, self.lines, &self.values);
    }
}

/// Values of [`COUNTED_FIELDS`], as far as they exist.
type Values<'a> = [Option<&'a [u8]>; COUNTED_FIELDS.len()];

/// The values that rows are counted and grouped by.
struct Key<'a> {
    /// Values among the rows' own fields.
    own: Values<'a>,
    has_own: bool,
    counted: ValueNumbers,
    /// Number of the group, without [`DISPLACED`].
    number: u64,
    /// Indexes of the groups without and with [`DISPLACED`]; [`UNKNOWN`] before the first row.
    groups: [u32; 2],
}

const UNKNOWN: u32 = u32::MAX;

/// The keys of the rows of one batch.
struct Keys<'a> {
    batch: &'a Batch,
    clustering: Clustering,
    /// For each name, its index in [`COUNTED_FIELDS`].
    fields: Vec<Option<u8>>,
    keys: Vec<Key<'a>>,
    indexes: HashMap<(StemId, Values<'a>), u32, foldhash::fast::RandomState>,
    /// For each stem, the index of the key of its last row.
    last: Vec<u32>,
}

impl<'a> Keys<'a> {
    fn new(batch: &'a Batch, clustering: Clustering) -> Self {
        let mut fields = vec![None; batch.names().len()];
        for (index, name) in COUNTED_FIELDS.iter().enumerate() {
            if let Some(id) = batch.field_id(name) {
                fields[usize::from(id.0)] = Some(index as u8);
            }
        }
        let last = vec![UNKNOWN; batch.stems()];
        Keys { batch, clustering, fields, keys: Vec::new(), indexes: HashMap::default(), last }
    }

    #[inline]
    fn of(&mut self, row: &Row<'a>, counter: &mut Counter) -> &mut Key<'a> {
        let mut own: Values<'a> = [None; COUNTED_FIELDS.len()];
        let mut has_own = false;
        for (index, (id, ..)) in row.own_places().enumerate() {
            if let Some(field) = self.fields[usize::from(id.0)] {
                own[usize::from(field)] = row.field_at(index);
                has_own = true;
            }
        }
        let last = self.last[usize::from(row.stem().0)] as usize;
        let index = match self.keys.get(last) {
            Some(key) if key.has_own == has_own && (!has_own || key.own == own) => last,
            _ => self.other(row, own, counter),
        };
        &mut self.keys[index]
    }

    fn other(&mut self, row: &Row<'a>, own: Values<'a>, counter: &mut Counter) -> usize {
        let index = match self.indexes.get(&(row.stem(), own)) {
            Some(&index) => index,
            None => {
                let index = self.keys.len() as u32;
                self.keys.push(self.make(row, own, counter));
                self.indexes.insert((row.stem(), own), index);
                index
            }
        };
        self.last[usize::from(row.stem().0)] = index;
        index as usize
    }

    fn make(&self, row: &Row<'a>, own: Values<'a>, counter: &mut Counter) -> Key<'a> {
        let mut values: [&[u8]; COUNTED_FIELDS.len()] = [b""; COUNTED_FIELDS.len()];
        for (id, value) in row.fields() {
            if let Some(field) = self.fields[usize::from(id.0)] {
                values[usize::from(field)] = value;
            }
        }
        let [_, hostname, app_name, type_name, _, _] = values;
        let number = match self.clustering {
            _ if is_internal(self.batch, row) => INTERNAL,
            Clustering::Arrival => 1,
            Clustering::Application => number_of(&[type_name, app_name]),
            Clustering::Stream => number_of(&[type_name, app_name, hostname]),
        };
        let has_own = own != Values::default();
        let counted = match number {
            INTERNAL => ValueNumbers::default(),
            _ => counter.numbers(values),
        };
        Key { own, has_own, counted, number, groups: [UNKNOWN; 2] }
    }
}

fn is_internal(batch: &Batch, row: &Row<'_>) -> bool {
    batch.origins()[usize::from(row.origin_index())].transport == Transport::Internal
}

/// A number for the values that lines are grouped by; less than [`INTERNAL`].
fn number_of(values: &[&[u8]]) -> u64 {
    let joined = |number: u64, value: &&[u8]| fold(number ^ hash64(value), K0);
    (values.iter().fold(K0, joined) >> 3) + 1
}
