//! Collects rows for a chunk: counts them, and groups them so that similar lines are next to each
//! other.
//!
//! Rows are grouped by type, application and service, and within these by what their sender calls
//! their stream. A group that is large enough gets blocks of its own. What is too small shares
//! blocks with others of its application, ordered by stream. Rows of different tenants never share
//! a group, however small: no block has texts of two tenants.
//!
//! Left out: groups by host. Lines of one kind compress best in the order in which they arrived,
//! see decision 0021.
//!
//! The values that a row is counted and grouped by are mostly in its stem, or are its own `_level`:
//! they are looked up once for the rows of a batch with the same stem and the same such values.

use std::collections::HashMap;
use std::sync::Arc;

use record::{Batch, Row, StemId, Tenant, Transport};

use super::Clustering;
use super::block::RowRef;
use super::layout::BatchShapes;
use super::rollup::{COUNTED_FIELDS, Counter, SECOND_NS, ValueNumbers};
use crate::hash::{K0, fold, hash64};

/// A line whose event time is this far from its arrival is *displaced*: it arrived late, its clock
/// is wrong, or it was imported.
const DISPLACED_NS: u64 = 60_000_000_000;
/// A smaller part of a block does not get blocks of its own: lines of an application, and those of
/// a stream of one. Applications differ most, so that a small block of one is worth it.
const GROUP_PARTS: [usize; LEVELS] = [8, 2];
/// Groups of one chunk before small ones are joined. Rows of further applications and streams share
/// one group, those of each tenant another one.
const PATHS_MAX: usize = 1 << 15;
/// Fields that name the program that wrote a line, as the application and the service do, which are
/// counted.
const SERVICE_FIELDS: [&str; 3] =
    ["service.name", "kubernetes.container_name", "kubernetes.container.name"];

/// Rows that wait until their chunk is full.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) batches: Vec<Arc<Batch>>,
    /// For each batch, how many rows each of its stems has here.
    rows_of_stems: Vec<Vec<u32>>,
    groups: Vec<Group>,
    /// Index in `groups`, by tenant and path.
    indexes: HashMap<(Tenant, Path), u32, foldhash::fast::RandomState>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// Levels of a [`Path`].
const LEVELS: usize = 2;

/// Numbers of what rows are grouped by: type, application and service, with the bits below; stream.
type Path = [u64; LEVELS];

/// Rows that are written into blocks together.
#[derive(Default)]
pub(crate) struct Group {
    tenant: Tenant,
    path: Path,
    pub(crate) rows: Vec<RowRef>,
    /// Bytes of their lines, each with a newline.
    pub(crate) bytes: usize,
}

impl Group {
    fn add(&mut self, other: Group) {
        self.rows.extend(other.rows);
        self.bytes += other.bytes;
    }

    fn has(&self, bit: u64) -> bool {
        self.path[0] & bit != 0
    }
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
                let [number, stream] = key.path;
                let path = [number | if displaced { DISPLACED } else { 0 }, stream];
                *group = self.group(key.tenant, path);
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
    fn group(&mut self, tenant: Tenant, path: Path) -> u32 {
        let is_known = self.indexes.contains_key(&(tenant, path));
        let path = match is_known || self.indexes.len() < PATHS_MAX {
            true => path,
            false => [path[0] & (DISPLACED | INTERNAL), 0],
        };
        *self.indexes.entry((tenant, path)).or_insert_with(|| {
            self.groups.push(Group { tenant, path, ..Group::default() });
            self.groups.len() as u32 - 1
        })
    }

    /// The groups; those of a tenant that are too small for a block of `block_bytes` are joined.
    /// Displaced lines are in the order of event time, the others by path and then in the order of
    /// arrival.
    pub(crate) fn grouped(&mut self, block_bytes: usize) -> Vec<Group> {
        let mut paths = std::mem::take(&mut self.groups);
        let apart = |group: &Group| (group.has(DISPLACED), group.tenant);
        paths.sort_unstable_by_key(|group| (apart(group), group.path));
        let mut groups = Vec::new();
        let mut paths = paths.into_iter().peekable();
        while let Some(first) = paths.next() {
            let of = apart(&first);
            let mut alike = vec![first];
            alike.extend(std::iter::from_fn(|| paths.next_if(|next| apart(next) == of)));
            let rest = share_out(alike, 0, block_bytes, &mut groups);
            groups.extend((!rest.rows.is_empty()).then_some(rest));
        }
        for group in groups.iter_mut().filter(|group| group.has(DISPLACED)) {
            let time_ns =
                |at: &RowRef| self.batches[at.batch as usize].row(at.row as usize).time_ns();
            group.rows.sort_by_cached_key(time_ns);
        }
        groups
    }
}

/// Makes groups of these ones, which are of one tenant, are ordered by path, and have the same path
/// above `level`.
/// Returns the rows that are left because they are too few.
fn share_out(
    paths: Vec<Group>,
    level: usize,
    block_bytes: usize,
    groups: &mut Vec<Group>,
) -> Group {
    let (tenant, path) = paths.first().map(|first| (first.tenant, first.path)).unwrap_or_default();
    let mut rest = Group { tenant, path, ..Group::default() };
    let mut paths = paths.into_iter().peekable();
    while let Some(first) = paths.next() {
        let mut alike = vec![first];
        while let Some(next) = paths.next_if(|next| next.path[level] == alike[0].path[level]) {
            alike.push(next);
        }
        let bytes: usize = alike.iter().map(|group| group.bytes).sum();
        let is_large = |bytes: usize| bytes >= block_bytes / GROUP_PARTS[level];
        if !is_large(bytes) && !alike[0].has(INTERNAL) {
            alike.into_iter().for_each(|group| rest.add(group));
        } else if alike.len() == 1 {
            groups.extend(alike);
        } else {
            let left = share_out(alike, level + 1, block_bytes, groups);
            match is_large(left.bytes) {
                true => groups.push(left),
                false => rest.add(left),
            }
        }
    }
    rest
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
        self.lines += u32::from(key.path[0] != INTERNAL);
    }

    fn end(&self, counter: &mut Counter) {
        counter.add(self.second, self.lines, &self.values);
    }
}

/// Values of [`COUNTED_FIELDS`], as far as they exist, and numbers for the values of other fields
/// that rows are grouped by.
type Values<'a> = ([Option<&'a [u8]>; COUNTED_FIELDS.len()], Path);

/// The values that rows are counted and grouped by.
struct Key<'a> {
    /// Values among the rows' own fields.
    own: Values<'a>,
    has_own: bool,
    counted: ValueNumbers,
    tenant: Tenant,
    /// Path of the group, without [`DISPLACED`].
    path: Path,
    /// Indexes of the groups without and with [`DISPLACED`]; [`UNKNOWN`] before the first row.
    groups: [u32; 2],
}

const UNKNOWN: u32 = u32::MAX;

/// What the values of a field are needed for.
#[derive(Clone, Copy)]
enum Use {
    Nothing,
    /// Lines are counted by them. The index in [`COUNTED_FIELDS`].
    Counted(u8),
    /// They are not counted, and belong to this level of a path.
    Level(u8),
}

/// The keys of the rows of one batch.
struct Keys<'a> {
    batch: &'a Batch,
    clustering: Clustering,
    /// For each name.
    uses: Vec<Use>,
    keys: Vec<Key<'a>>,
    indexes: HashMap<(StemId, Values<'a>), u32, foldhash::fast::RandomState>,
    /// For each stem, the index of the key of its last row.
    last: Vec<u32>,
}

impl<'a> Keys<'a> {
    fn new(batch: &'a Batch, clustering: Clustering) -> Self {
        let mut uses = vec![Use::Nothing; batch.names().len()];
        let mut note = |name: &str, what: Use| {
            if let Some(id) = batch.field_id(name) {
                uses[usize::from(id.0)] = what;
            }
        };
        if clustering == Clustering::Stream {
            let of_senders = batch.origins().iter().flat_map(|origin| &origin.hints.stream_fields);
            of_senders.for_each(|name| note(name, Use::Level(1)));
            SERVICE_FIELDS.iter().for_each(|name| note(name, Use::Level(0)));
        }
        (0..).zip(COUNTED_FIELDS).for_each(|(index, name)| note(name, Use::Counted(index)));
        let last = vec![UNKNOWN; batch.stems()];
        Keys { batch, clustering, uses, keys: Vec::new(), indexes: HashMap::default(), last }
    }

    #[inline]
    fn of(&mut self, row: &Row<'a>, counter: &mut Counter) -> &mut Key<'a> {
        let mut own: Values<'a> = Values::default();
        let mut has_own = false;
        for (index, (id, ..)) in row.own_places().enumerate() {
            match self.uses[usize::from(id.0)] {
                Use::Nothing => continue,
                Use::Counted(field) => own.0[usize::from(field)] = row.field_at(index),
                Use::Level(level) => {
                    let value = row.field_at(index).unwrap_or_default();
                    add_value(&mut own.1[usize::from(level)], value);
                }
            }
            has_own = true;
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
        let mut levels = Path::default();
        for (id, value) in row.fields() {
            match self.uses[usize::from(id.0)] {
                Use::Nothing => {}
                Use::Counted(field) => values[usize::from(field)] = value,
                Use::Level(level) => add_value(&mut levels[usize::from(level)], value),
            }
        }
        let [_, _, app_name, type_name, _, _, service] = values;
        let [other_services, stream] = levels;
        let service = if self.clustering == Clustering::Stream { service } else { b"" };
        let of_program = number_of(other_services, &[type_name, app_name, service]);
        let path = match self.clustering {
            _ if is_internal(self.batch, row) => [INTERNAL, 0],
            Clustering::Arrival => [1, 0],
            Clustering::Application => [of_program, 0],
            Clustering::Stream => [of_program, stream],
        };
        let has_own = own != Values::default();
        let counted = match path[0] {
            INTERNAL => ValueNumbers::default(),
            _ => counter.numbers(values),
        };
        let tenant = self.batch.origins()[usize::from(row.origin_index())].hints.tenant;
        Key { own, has_own, counted, tenant, path, groups: [UNKNOWN; 2] }
    }
}

fn is_internal(batch: &Batch, row: &Row<'_>) -> bool {
    batch.origins()[usize::from(row.origin_index())].transport == Transport::Internal
}

/// A number for the values that lines are grouped by; less than [`INTERNAL`].
fn number_of(mut number: u64, values: &[&[u8]]) -> u64 {
    values.iter().for_each(|value| add_value(&mut number, value));
    (number >> 3) + 1
}

fn add_value(number: &mut u64, value: &[u8]) {
    *number = fold(*number ^ hash64(value), K0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_rows_are_not_told_apart() {
        let mut pending = Pending::default();
        for stream in 0..PATHS_MAX as u64 {
            assert_eq!(pending.group(Tenant::DEFAULT, [1, stream + 1]), stream as u32);
        }
        let rest = pending.group(Tenant::DEFAULT, [1, u64::MAX]);
        assert_eq!(rest as usize, PATHS_MAX);
        let mut group = |path| pending.group(Tenant::DEFAULT, path);
        assert_eq!(group([1, u64::MAX - 1]), rest);
        assert_eq!(group([1, 7]), 6);
        assert_eq!(group([2, 7]), rest);
        assert_eq!(group([2 | DISPLACED, 7]), rest + 1);
        assert_eq!(group([INTERNAL, 0]), rest + 2);
        let other = Tenant { account: 1, project: 0 };
        assert_eq!(pending.group(other, [1, 7]), rest + 3);
        assert_eq!(pending.group(other, [2, 7]), rest + 3);
    }

    #[test]
    fn what_is_too_small_is_handed_up() {
        // Groups of an application and a stream, with their bytes; a block has 80.
        let check = |groups: &[(u64, u64, usize)], expected: &[usize]| {
            let group = |&(number, stream, bytes)| Group {
                path: [number, stream],
                bytes,
                ..Group::default()
            };
            let mut made = Vec::new();
            let rest = share_out(groups.iter().map(group).collect(), 0, 80, &mut made);
            let mut found: Vec<usize> = made.iter().map(|group| group.bytes).collect();
            found.push(rest.bytes);
            assert_eq!(found, expected, "{groups:?}");
        };
        check(&[], &[0]);
        check(&[(1, 1, 9), (2, 1, 10)], &[10, 9]);
        // Streams share blocks, unless they are large.
        check(&[(1, 1, 20), (1, 2, 39)], &[59, 0]);
        check(&[(1, 1, 20), (1, 2, 40), (1, 3, 7)], &[40, 27, 0]);
        check(&[(1, 1, 9), (1, 2, 40)], &[40, 9]);
        // Lines that Loginson made have blocks of their own, however few they are.
        check(&[(1, 1, 9), (INTERNAL, 0, 1)], &[1, 9]);
    }
}
