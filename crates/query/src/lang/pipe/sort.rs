//! `sort by (a desc, b) [desc] [partition by (c)] [limit N] [offset N] [rank as d]`: sorts rows by
//! values; also `first N by (a)` and `last N by (a)`, which sort with a limit.
//!
//! With `partition by`, rows with equal values of these fields form a group. Each group is sorted
//! separately, with its own limit and offset. Groups come in the order of their values. `rank` is
//! the position of a row in its group, from 1.
//!
//! Without fields, rows are sorted by all their fields, in the order in which earlier pipes define
//! them; by `_time` if no pipe does.
//!
//! Rows are copied, so that a few rows do not keep their batches in memory. With a limit, at most
//! twice as many rows are held; without one, all rows, up to the memory limit of queries. Rows with
//! equal keys come in the order in which their lines arrived, whichever unit holds the lines and
//! whichever thread reads them. Rows that pipes made stay in the order of units, and as they came.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use record::LineId;
use text::time::parse_timestamp;

use super::compute::parse_field;
use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Names, Operator, Processor, Registration, one};
use super::shown::Shown;
use super::{Pipe, parse_by, tuples, write_names};
use crate::base::number::{SortKind, compare_kinds};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::sorted::{Sorted, key_bytes_max, put_key, select};
use crate::base::{Buffer, CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, Column, MadeRow, Scratch};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `sort` pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// Fields to sort by; the first key has precedence.
    pub keys: Vec<SortKey>,
    /// Fields whose values form groups that are sorted separately.
    pub partition: Vec<String>,
    /// Rows of each group that are skipped.
    pub offset: u64,
    /// Rows of each group that are kept behind those.
    pub limit: Option<u64>,
    /// Field for the position of a row in its group, from 1.
    pub rank: Option<String>,
}

/// A field to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Name of the field.
    pub name: String,
    /// Whether greater values come first.
    pub descending: bool,
}

pub(super) static SORT: Registration = Registration {
    doc: Documentation {
        name: "sort",
        aliases: &["order"],
        syntax: "sort [by (<field> [desc], …)] [desc] [partition by (<field>, …)] [offset <n>] [limit <n>] [rank [as] <name>]",
        summary: "sorts rows by the values of fields",
        example: "sort by (took desc, _time) partition by (host) offset 10 limit 5 rank as r",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) static FIRST: Registration = Registration {
    doc: Documentation {
        name: "first",
        aliases: &[],
        syntax: "first [<n>] [by (<field> [desc], …)] [partition by (<field>, …)] [rank [as] <name>]",
        summary: "passes the first <n> rows in the order of these fields, 1 by default",
        example: "first 3 by (took) partition by (host)",
    },
    parse: |cursor| parse_ends(cursor, false).map(one),
};

pub(super) static LAST: Registration = Registration {
    doc: Documentation {
        name: "last",
        aliases: &[],
        syntax: "last [<n>] [by (<field> [desc], …)] [partition by (<field>, …)] [rank [as] <name>]",
        summary: "passes the last <n> rows in the order of these fields, 1 by default",
        example: "last 3 by (took)",
    },
    parse: |cursor| parse_ends(cursor, true).map(one),
};

pub(super) static DEDUPLICATE: Registration = Registration {
    doc: Documentation {
        name: "deduplicate",
        aliases: &["dedup"],
        syntax: "deduplicate [by (<field>, …)]",
        summary: "passes the first row of those with the same values in these fields, or in all",
        example: "deduplicate by (hostname, _msg)",
    },
    parse: parse_deduplicate,
};

/// Field that holds a whole row while rows that are the same are looked for.
const WHOLE_ROW: &str = "_whole_row";

/// Parses `deduplicate`, which is short for the first row by time of each group of rows.
fn parse_deduplicate(cursor: &mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError> {
    let named = cursor.eat_keyword("by");
    let partition = match named || !matches!(cursor.peek(), None | Some('|' | ')')) {
        true => parse_by(cursor)?,
        false => Vec::new(),
    };
    if named && partition.is_empty() {
        return Err(cursor.error(&["field names"], "the fields are missing behind \"by\""));
    }
    let first = |partition| Sort {
        keys: vec![SortKey { name: "_time".to_owned(), descending: false }],
        partition,
        limit: Some(1),
        ..Sort::default()
    };
    if !partition.is_empty() {
        return Ok(vec![Pipe::new(first(partition))]);
    }
    let mut around = Cursor::new(WHOLE_ROW, cursor.now_ns);
    let mut pipes =
        (super::pack::PACK_JSON.parse)(&mut Cursor::new("as _whole_row", cursor.now_ns))?;
    pipes.push(Pipe::new(first(vec![WHOLE_ROW.to_owned()])));
    pipes.extend((super::columns::DELETE.parse)(&mut around)?);
    Ok(pipes)
}

fn parse(cursor: &mut Cursor<'_>) -> Result<Sort, ParseError> {
    let mut sort = Sort::default();
    parse_keys(cursor, &mut sort, false)?;
    parse_rest(cursor, &mut sort)?;
    Ok(sort)
}

/// Parses the arguments of `first`, or with `last` those of `last`.
fn parse_ends(cursor: &mut Cursor<'_>, last: bool) -> Result<Sort, ParseError> {
    let number = cursor.peek().is_some_and(|c| c.is_ascii_digit());
    let limit = if number { parse_count(cursor, None)? } else { 1 };
    let mut sort = Sort { limit: Some(limit), ..Sort::default() };
    parse_keys(cursor, &mut sort, last)?;
    parse_rest(cursor, &mut sort)?;
    Ok(sort)
}

fn parse_keys(cursor: &mut Cursor<'_>, sort: &mut Sort, last: bool) -> Result<(), ParseError> {
    cursor.eat_keyword("by");
    if cursor.eat('(') {
        while !cursor.eat(')') {
            let name = cursor.expect_string(false, "a field name")?.text;
            let descending = parse_direction(cursor);
            sort.keys.push(SortKey { name, descending });
            if !cursor.eat(',') {
                cursor.expect(')', "the fields to sort by")?;
                break;
            }
        }
    }
    let descending = parse_direction(cursor);
    if sort.keys.is_empty() {
        sort.keys.push(SortKey { name: ALL_FIELDS.to_owned(), descending: false });
    }
    if descending != last {
        sort.keys.iter_mut().for_each(|key| key.descending = !key.descending);
    }
    Ok(())
}

/// The keys, each field once. Rows that are equal in a field cannot be ordered by it again.
pub(super) fn once(keys: &[SortKey]) -> Vec<SortKey> {
    let mut known = HashSet::with_capacity(keys.len());
    keys.iter().filter(|key| known.insert(key.name.as_str())).cloned().collect()
}

fn parse_rest(cursor: &mut Cursor<'_>, sort: &mut Sort) -> Result<(), ParseError> {
    loop {
        if cursor.eat_keyword("limit") {
            sort.limit = Some(parse_count(cursor, None)?);
        } else if cursor.eat_keyword("offset") {
            sort.offset = parse_count(cursor, None)?;
        } else if cursor.eat_keyword("partition") {
            if !cursor.eat_keyword("by") {
                return Err(cursor.error(&["\"by\""], "\"by\" is missing behind \"partition\""));
            }
            sort.partition = parse_by(cursor)?;
        } else if let Some(name) = parse_rank(cursor)? {
            sort.rank = Some(name);
        } else {
            return Ok(());
        }
    }
}

/// Parses `rank [[as] name]`, if it comes next.
pub(super) fn parse_rank(cursor: &mut Cursor<'_>) -> Result<Option<String>, ParseError> {
    if !cursor.eat_keyword("rank") {
        return Ok(None);
    }
    if let Some(name) = parse_field(cursor, "as")? {
        return Ok(Some(name));
    }
    // Another word that may follow is not the name.
    let word = cursor.peek_word(false);
    let others = ["limit", "offset", "partition", "hits", "by"];
    let is_name = !others.iter().any(|other| other.eq_ignore_ascii_case(word));
    let name = if is_name { cursor.string(false)? } else { None };
    Ok(Some(name.map_or("rank".to_owned(), |name| name.text)))
}

/// Writes ` rank as name`.
pub(super) fn write_rank(rank: &Option<String>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    rank.as_ref().map_or(Ok(()), |name| write!(f, " rank as {}", quote_name(name)))
}

/// Stands for all fields until [`Sort::name_keys`].
const ALL_FIELDS: &str = "*\0";

impl Sort {
    /// Chooses the fields of a sort that names none: all of `fixed`, if they are known, else
    /// `_time`.
    fn name_keys(&mut self, fixed: Option<Vec<String>>) {
        let [SortKey { name, descending }] = &self.keys[..] else { return };
        if name == ALL_FIELDS {
            let descending = *descending;
            let names = fixed.filter(|names| !names.is_empty());
            let names = names.unwrap_or_else(|| vec!["_time".to_owned()]);
            self.keys = names.into_iter().map(|name| SortKey { name, descending }).collect();
        }
    }
}

impl Operator for Sort {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        self.rank.iter().for_each(|name| wanted.remove(name));
        self.keys.iter().for_each(|key| wanted.add(&key.name));
        wanted.add_all(&self.partition);
        wanted
    }

    fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        Box::new(Sorter::new(self, carried))
    }

    fn names(&self) -> Names {
        if self.rank.is_none() { Names::Same } else { Names::Unknown }
    }

    fn value_field(&self) -> Names {
        Names::Same
    }

    fn settle_order(&mut self, before: &dyn Fn() -> Option<Vec<String>>) {
        self.name_keys(before());
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        self.rank.iter().for_each(|name| shown.add_value(name));
        Ok(())
    }
}

fn parse_direction(cursor: &mut Cursor<'_>) -> bool {
    let descending = cursor.eat_keyword("desc");
    if !descending {
        cursor.eat_keyword("asc");
    }
    descending
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |k: &SortKey| {
            format!("{}{}", quote_name(&k.name), if k.descending { " desc" } else { "" })
        };
        let keys: Vec<String> = self.keys.iter().map(key).collect();
        write!(f, "sort by ({})", keys.join(", "))?;
        if !self.partition.is_empty() {
            write!(f, " partition by ({})", write_names(&self.partition))?;
        }
        if self.offset > 0 {
            write!(f, " offset {}", self.offset)?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))?;
        write_rank(&self.rank, f)
    }
}

/// Groups by the values of the partition fields.
type Groups = HashMap<Box<[u8]>, Group, foldhash::fast::RandomState>;

pub(super) struct Sorter {
    sort: Sort,
    carried: Vec<String>,
    groups: Groups,
    rows: u64,
    /// Number of newest rows that are kept, if the sort keeps only those. `oldest_wanted_ns`: the
    /// time of the oldest of them, once there are enough.
    newest: Option<usize>,
    oldest_wanted_ns: i64,
    /// The same for the oldest rows, and the time of the newest of them.
    oldest: Option<usize>,
    newest_wanted_ns: i64,
    /// Entries of a group at which it is trimmed to the rows that may come out.
    entries_max: usize,
    group: Buffer,
    key: Buffer,
    scratch: Scratch,
}

#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    /// Rows at this position or behind it can no longer come out.
    threshold: Option<Place>,
}

impl Group {
    /// A group that is about to get a row. Of many groups, most have one row, and a vector that
    /// grows to one row has room for four.
    fn new() -> Group {
        Group { entries: Vec::with_capacity(1), threshold: None }
    }
}

struct Entry {
    place: Place,
    row: MadeRow,
}

/// The sort position of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Values of the sort fields, encoded by [`put_key`].
    key: Box<[u8]>,
    arrived: Arrival,
}

/// What comes first among rows with equal keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    /// The line, whose id stays the same wherever it is kept; none for rows that pipes made.
    line: Option<LineId>,
    /// Index of the row's unit.
    unit: usize,
    /// Count of rows that came before.
    count: u64,
}

impl Arrival {
    /// The arrival of a row of a block from the unit at this index, behind `count` other rows.
    pub fn of(block: &Block, row: usize, unit: usize, count: u64) -> Arrival {
        Arrival { line: block.line_key(row).map(|(_, id)| id), unit, count }
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.line(self.line)?;
        out.number(self.unit as u64)?;
        out.number(self.count)
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Arrival, RunError> {
        let line = from.line()?;
        let unit = usize::try_from(from.count()?).map_err(|_| wrong_state("there is no place"))?;
        Ok(Arrival { line, unit, count: from.count()? })
    }
}

impl Entry {
    fn memory_bytes(&self) -> usize {
        self.place.key.len() + size_of::<Place>() + self.row.memory_bytes()
    }
}

/// Rows held beyond the limit before the last ones are dropped.
const SPARE_ROWS: usize = 1_024;
/// As [`SPARE_ROWS`], for each of many groups.
const SPARE_ROWS_OF_GROUP: usize = 16;

impl Sorter {
    pub fn new(sort: &Sort, carried: &[String]) -> Sorter {
        let spare = if sort.partition.is_empty() { SPARE_ROWS } else { SPARE_ROWS_OF_GROUP };
        Sorter {
            sort: Sort { keys: once(&sort.keys), ..sort.clone() },
            carried: carried.to_vec(),
            groups: HashMap::default(),
            rows: 0,
            newest: sort.newest_kept(),
            oldest_wanted_ns: i64::MIN,
            oldest: sort.oldest_kept(),
            newest_wanted_ns: i64::MAX,
            entries_max: sort.kept().saturating_mul(2).saturating_add(spare),
            group: Buffer::default(),
            key: Buffer::default(),
            scratch: Scratch::default(),
        }
    }

    fn add(
        &mut self,
        block: &Block,
        row: usize,
        columns: &[Column<'_>],
        partition: &[Column<'_>],
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        let unit = next.unit;
        self.group.clear(next.meter());
        for &column in partition {
            let value = block.value(column, row, &mut self.scratch);
            tuples::put_part(value, &mut self.group, next.meter())?;
        }
        let own = self.group.bytes();
        if !self.groups.contains_key(own) {
            next.meter().take(own.len() + tuples::ENTRY_BYTES + size_of::<Group>())?;
            self.groups.insert(own.into(), Group::new());
        }
        let group = self.groups.get_mut(own).expect("just looked at");
        self.key.clear(next.meter());
        for (key, &column) in self.sort.keys.iter().zip(columns) {
            let value = block.value(column, row, &mut self.scratch);
            let room = self.key.room(key_bytes_max(value), next.meter())?;
            put_key(value, key.descending, room);
        }
        let arrived = Arrival::of(block, row, unit, self.rows);
        let key = self.key.bytes();
        if let Some(threshold) = &group.threshold
            && (key, arrived) >= (&threshold.key, threshold.arrived)
        {
            return Ok(());
        }
        next.meter().take(key.len() + size_of::<Place>())?;
        let place = Place { key: key.into(), arrived };
        let row = block.copy_row(row, &self.carried, &mut self.scratch, next.meter())?;
        self.rows += 1;
        group.entries.push(Entry { place, row });
        if group.entries.len() >= self.entries_max {
            group.trim(&self.sort, next)?;
        }
        Ok(())
    }
}

impl Sorter {
    /// Records the time of the last row that is kept, if the sort keeps the newest or the oldest
    /// rows and has enough of them.
    fn note_last_wanted(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let Some(kept) = self.newest.or(self.oldest) else { return Ok(()) };
        let Some(group) = self.groups.values_mut().next() else { return Ok(()) };
        if group.entries.len() < kept {
            return Ok(());
        }
        group.trim(&self.sort, next)?;
        let last = group.entries.get(kept - 1).and_then(|e| parse_timestamp(e.row.get("_time")));
        if self.newest.is_some() {
            self.oldest_wanted_ns = last.unwrap_or(i64::MIN);
        } else {
            self.newest_wanted_ns = last.unwrap_or(i64::MAX);
        }
        Ok(())
    }
}

impl Sort {
    /// The same sort, of which at most `rows` rows are needed.
    pub(crate) fn limited(&self, rows: u64) -> Sort {
        if !self.partition.is_empty() {
            return self.clone();
        }
        Sort { limit: Some(self.limit.unwrap_or(u64::MAX).min(rows)), ..self.clone() }
    }

    /// The number of newest rows that the sort keeps; none unless it sorts only by time, newest
    /// first, with a limit.
    pub(crate) fn newest_kept(&self) -> Option<usize> {
        self.kept_by_time(true)
    }

    /// The number of rows, of each group, that come out or are skipped, if only so many can.
    pub(crate) fn rows_kept(&self) -> Option<usize> {
        self.limit.map(|_| self.kept())
    }

    /// As [`Sort::newest_kept`], for the oldest rows.
    pub(crate) fn oldest_kept(&self) -> Option<usize> {
        self.kept_by_time(false)
    }

    fn kept_by_time(&self, newest_first: bool) -> Option<usize> {
        let keys = once(&self.keys);
        let [SortKey { name, descending }] = &keys[..] else { return None };
        let is_by_time =
            name == "_time" && *descending == newest_first && self.partition.is_empty();
        let kept = self.limit.is_some().then(|| self.kept())?;
        (is_by_time && kept > 0).then_some(kept)
    }

    /// Rows of a group that may come out, plus those that are skipped.
    fn kept(&self) -> usize {
        let limit = self.limit.unwrap_or(u64::MAX);
        usize::try_from(limit.saturating_add(self.offset)).unwrap_or(usize::MAX)
    }
}

impl Group {
    /// Drops the entries that cannot come out; the others stay in any order.
    fn trim(&mut self, sort: &Sort, next: &mut Next<'_>) -> Result<(), RunError> {
        let kept = sort.kept();
        if self.entries.len() < kept {
            return Ok(());
        }
        if let Some(last) = kept.checked_sub(1) {
            let compare = |a: &Entry, b: &Entry| a.place.cmp(&b.place);
            select(&mut self.entries, last, compare, || next.check())?;
            self.threshold = Some(self.entries[last].place.clone());
        }
        while self.entries.len() > kept {
            next.check()?;
            let from = kept.max(self.entries.len().saturating_sub(CHECK_ROWS));
            let gone = self.entries.drain(from..);
            next.meter().give_back(gone.map(|e| e.memory_bytes()).sum());
        }
        Ok(())
    }
}

/// Orders groups by their values.
pub(super) fn compare_groups(a: &[u8], b: &[u8]) -> Ordering {
    let pairs = tuples::parts(a).zip(tuples::parts(b));
    let compare = |(a, b)| compare_kinds((SortKind::of(a), a), (SortKind::of(b), b));
    pairs.map(compare).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

impl Processor for Sorter {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        if self.sort.kept() == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let Sort { keys, partition, .. } = self.sort.clone();
        let columns: Vec<Column<'_>> = keys.iter().map(|key| block.column(&key.name)).collect();
        let partition: Vec<Column<'_>> = partition.iter().map(|name| block.column(name)).collect();
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            self.add(&block, row, &columns, &partition, next)?;
        }
        self.note_last_wanted(next)?;
        Ok(ControlFlow::Continue(()))
    }

    fn oldest_wanted_ns(&self) -> i64 {
        self.oldest_wanted_ns
    }

    fn newest_wanted_ns(&self) -> i64 {
        self.newest_wanted_ns
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.groups)
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let others = collected.downcast_mut::<Groups>().expect("of the same pipe");
        for (key, group) in std::mem::take(others) {
            next.check()?;
            let key_bytes = key.len();
            match self.groups.entry(key) {
                MapEntry::Occupied(mut own) => {
                    next.meter().give_back(key_bytes + tuples::ENTRY_BYTES + size_of::<Group>());
                    let own = own.get_mut();
                    own.entries.extend(group.entries);
                    if own.entries.len() >= self.entries_max {
                        own.trim(&self.sort, next)?;
                    }
                }
                MapEntry::Vacant(place) => {
                    place.insert(group);
                }
            }
        }
        Ok(())
    }

    /// Format of each group: its values, then its rows, each behind its sort position. Rows that
    /// cannot come out are left out.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.groups.len() as u64)?;
        let kept = self.sort.kept();
        for (group, Group { entries, .. }) in &self.groups {
            let mut entries: Vec<&Entry> = entries.iter().collect();
            if kept > 0 && entries.len() > kept {
                entries.select_nth_unstable_by(kept - 1, |a, b| a.place.cmp(&b.place));
            }
            entries.truncate(kept);
            out.bytes(group)?;
            out.number(entries.len() as u64)?;
            for Entry { place, row } in entries {
                out.bytes(&place.key)?;
                place.arrived.encode(out)?;
                row.encode(out)?;
            }
        }
        Ok(())
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        for _ in 0..from.length(size_of::<u32>())? {
            let key = from.bytes()?;
            // Group values are encoded behind their lengths, even a single one.
            let has_values = tuples::parts_fit(key, self.sort.partition.len());
            if !has_values || self.groups.contains_key(key) {
                return Err(wrong_state("a group is not one of its own"));
            }
            meter.take(key.len() + tuples::ENTRY_BYTES + size_of::<Group>())?;
            let mut group = Group::new();
            for _ in 0..from.length(size_of::<u32>())? {
                let key = from.bytes()?;
                meter.take(key.len() + size_of::<Place>())?;
                let place = Place { key: key.into(), arrived: Arrival::decode(from)? };
                group.entries.push(Entry { place, row: MadeRow::decode(from, meter)? });
            }
            self.groups.insert(key.into(), group);
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let rank: Option<Arc<str>> = self.sort.rank.as_deref().map(Into::into);
        let groups = tuples::taken_out(&mut self.groups, next.meter())?;
        let compare = |a: &(Box<[u8]>, Group), b: &(Box<[u8]>, Group)| compare_groups(&a.0, &b.0);
        let groups = Sorted::new(groups, compare, || next.check())?;
        let skipped = usize::try_from(self.sort.offset).unwrap_or(usize::MAX);
        let (mut bytes, mut rows) = (0, Vec::new());
        for (_, mut group) in groups {
            group.trim(&self.sort, next)?;
            let compare = |a: &Entry, b: &Entry| a.place.cmp(&b.place);
            let entries = Sorted::new(group.entries, compare, || next.check())?;
            for (place, mut entry) in entries.enumerate() {
                bytes += entry.memory_bytes();
                if place < skipped {
                    continue;
                }
                if let Some(rank) = &rank {
                    entry.row.set(rank, (place + 1).to_string().as_bytes());
                }
                rows.push(entry.row);
                if rows.len() == BLOCK_ROWS_MAX {
                    let flow = next.push(Block::Made(std::mem::take(&mut rows)))?;
                    next.meter().give_back(std::mem::take(&mut bytes));
                    if flow.is_break() {
                        return Ok(());
                    }
                }
            }
        }
        let _ = next.push(Block::Made(rows))?;
        next.meter().give_back(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};

    #[test]
    fn the_earliest_of_equal_rows_passes() {
        let records = [
            record(3, &[("a", "x"), ("b", "1")]),
            record(1, &[("a", "x"), ("b", "2")]),
            record(2, &[("a", "y")]),
            record(1, &[("a", "x"), ("b", "2")]),
        ];
        check_pipe(&records, "deduplicate by (a) | fields a, b", &["a=x b=2", "a=y"]);
        check_pipe(
            &records,
            "deduplicate | sort by (_time) | fields a, b, _whole_row",
            &["a=x b=2", "a=y", "a=x b=1"],
        );
    }
}
