//! A hash table from byte strings to numbers, for millions of distinct strings: holds the values of
//! `top`, `uniq` and `stats by`.
//!
//! A slot holds the string itself if it is short ([`SHORT_BYTES`]), so that a lookup takes one
//! memory access. Longer strings are stored one behind the other in few allocations ([`Texts`]).
//! All tables use the same hash function and are split into the same parts by hash. Two tables are
//! therefore merged part by part, on several threads and without hashing again; a part grows by
//! itself; and dropping a table frees few allocations, however many strings it holds.
//!
//! The [`Meter`] counts memory before it is allocated. A slot takes 32 bytes, and between three
//! eighths and three quarters of the slots are used: 43 to 85 bytes per string, plus the bytes of
//! long strings. Left out: removing strings, and any order.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use crate::base::{Meter, RunError};
use crate::lang::pipe::Next;

/// Longest string that is stored in its slot, in bytes.
const SHORT_BYTES: usize = 16;
/// Number of highest bits of a hash that select the part.
const PART_BITS: u32 = 6;
const PARTS: usize = 1 << PART_BITS;
/// Slots of a part with its first string; the number of slots is always a power of two.
const SLOTS_MIN: usize = 4;
/// Sizes of allocations for long strings: the first, and the largest unless a string is longer.
const PIECE_BYTES_MIN: usize = 1 << 7;
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Merging visits the slots of a part with this odd step. In the order of the slots, strings would
/// come in the order of their hashes, and fill one end of the other part before it grows.
const MERGE_STEP: usize = 0x9e37_79b1;

/// Tables with fewer strings are merged on one thread.
const ALONE_MAX: usize = 1 << 14;

/// Most strings that [`ByteTable::look_up`] looks up together.
pub(crate) const TOGETHER: usize = 64;

/// Maps strings to numbers.
#[derive(Default)]
pub(crate) struct ByteTable {
    /// Empty before the first string.
    parts: Vec<Part>,
}

/// The strings of one part, in slots ordered by the hash bits behind those of the part. Strings
/// with equal bits take the next free slots.
#[derive(Default)]
struct Part {
    slots: Vec<Slot>,
    used: usize,
    texts: Texts,
}

#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Slot {
    /// Bits of the hash; 0 in a free slot.
    tag: u32,
    /// Length of the string, bytes.
    len: u32,
    number: u64,
    /// A short string padded with zeros, or the location of a long one.
    bytes: [u8; SHORT_BYTES],
}

/// Long strings.
#[derive(Default)]
struct Texts {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
}

/// The hash of a string: the same in all tables of a process, different in other processes.
#[inline]
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    static HASHES: LazyLock<foldhash::quality::RandomState> = LazyLock::new(Default::default);
    let mut hasher = HASHES.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// A short string padded with zeros, as a number; 0 for a long string. Takes few steps and no call,
/// which copying so few bytes would need.
#[inline]
fn short_of(key: &[u8]) -> u128 {
    // Two reads that may overlap; the shift removes the bytes of the second read that both have.
    let joined = |first: u64, last: u64, width: usize| {
        let behind = 8 * (2 * width - key.len()) as u32;
        u128::from(first) | (u128::from(last >> behind) << (8 * width))
    };
    match key.len() {
        8..=SHORT_BYTES => {
            let (first, last) = (key.first_chunk(), key.last_chunk());
            let read = |bytes: Option<&[u8; 8]>| u64::from_le_bytes(*bytes.expect("long enough"));
            match key.len() {
                8 => u128::from(read(first)),
                _ => joined(read(first), read(last), 8),
            }
        }
        4..8 => {
            let (first, last) = (key.first_chunk(), key.last_chunk());
            let read = |bytes: Option<&[u8; 4]>| {
                u64::from(u32::from_le_bytes(*bytes.expect("long enough")))
            };
            match key.len() {
                4 => u128::from(read(first)),
                _ => joined(read(first), read(last), 4),
            }
        }
        0..4 => key.iter().rev().fold(0, |all, &byte| (all << 8) | u128::from(byte)),
        _ => 0,
    }
}

#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PART_BITS)) as usize
}

/// The hash bits behind those that select the part.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> (u64::BITS - PART_BITS - u32::BITS)) as u32 | 1
}

impl Slot {
    fn key<'t>(&'t self, texts: &'t Texts) -> &'t [u8] {
        let len = self.len as usize;
        if len <= SHORT_BYTES { &self.bytes[..len] } else { texts.get(self.bytes, len) }
    }
}

impl Texts {
    /// Stores a string, and returns its location.
    fn push(&mut self, text: &[u8], meter: &mut Meter) -> Result<[u8; SHORT_BYTES], RunError> {
        let fits = |piece: &Vec<u8>| piece.capacity() - piece.len() >= text.len();
        if !self.pieces.last().is_some_and(fits) {
            // At most a fifth of the memory is unused room.
            let bytes = (self.bytes / 4).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX).max(text.len());
            meter.take(bytes)?;
            self.bytes += bytes;
            self.pieces.push(Vec::with_capacity(bytes));
        }
        let number = self.pieces.len() as u64 - 1;
        let piece = self.pieces.last_mut().expect("there is one");
        let mut place = [0; SHORT_BYTES];
        place[..8].copy_from_slice(&number.to_le_bytes());
        place[8..].copy_from_slice(&(piece.len() as u64).to_le_bytes());
        piece.extend_from_slice(text);
        Ok(place)
    }

    fn get(&self, place: [u8; SHORT_BYTES], len: usize) -> &[u8] {
        let [number, from] = [0, 8].map(|at| {
            let bytes = place[at..at + 8].try_into().expect("8 bytes");
            u64::from_le_bytes(bytes) as usize
        });
        &self.pieces[number][from..from + len]
    }
}

impl Part {
    /// Index of the slot where probing for a tag begins.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> u32::BITS) as usize
    }

    /// Ok: the slot of the string. Err: the free slot that it would take; there must be a free
    /// slot. `short`: the result of [`short_of`] for the string.
    #[inline]
    fn find(&self, tag: u32, key: &[u8], short: u128) -> Result<usize, usize> {
        let mut at = self.home(tag);
        loop {
            let slot = &self.slots[at];
            if slot.tag == 0 {
                return Err(at);
            }
            if slot.tag == tag && slot.len as usize == key.len() {
                let same = match key.len() <= SHORT_BYTES {
                    true => slot.bytes == short.to_le_bytes(),
                    false => self.texts.get(slot.bytes, key.len()) == key,
                };
                if same {
                    return Ok(at);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The number of a string with this tag, and whether the string is new; a new number is 0.
    #[inline]
    fn entry(
        &mut self,
        tag: u32,
        key: &[u8],
        meter: &mut Meter,
    ) -> Result<(&mut u64, bool), RunError> {
        self.grow(meter)?;
        let short = short_of(key);
        let found = self.find(tag, key, short);
        let (Ok(at) | Err(at)) = found;
        let is_new = found.is_err();
        if is_new {
            let bytes = match key.len() <= SHORT_BYTES {
                true => short.to_le_bytes(),
                false => self.texts.push(key, meter)?,
            };
            let len = u32::try_from(key.len()).expect("values are shorter than 4 GiB");
            self.slots[at] = Slot { tag, len, number: 0, bytes };
            self.used += 1;
        }
        Ok((&mut self.slots[at].number, is_new))
    }

    /// Merges the same part of another table; see [`ByteTable::merge`].
    fn merge(
        &mut self,
        other: Part,
        meter: &mut Meter,
        each: &mut impl FnMut(&mut u64, bool, u64),
    ) -> Result<(), RunError> {
        let Part { slots, texts, .. } = other;
        let mut at = 0;
        for _ in 0..slots.len() {
            at = (at + MERGE_STEP) & (slots.len() - 1);
            let slot = &slots[at];
            if slot.tag != 0 {
                let (own, is_new) = self.entry(slot.tag, slot.key(&texts), meter)?;
                each(own, is_new, slot.number);
            }
        }
        meter.give_back(slots.len() * size_of::<Slot>() + texts.bytes + size_of::<Part>());
        Ok(())
    }

    /// Makes room for one more string.
    #[inline]
    fn grow(&mut self, meter: &mut Meter) -> Result<(), RunError> {
        if self.used * 4 < self.slots.len() * 3 {
            return Ok(());
        }
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        meter.take(slots * size_of::<Slot>())?;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in old.iter().filter(|slot| slot.tag != 0) {
            let mut at = self.home(slot.tag);
            while self.slots[at].tag != 0 {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = *slot;
        }
        meter.give_back(old.len() * size_of::<Slot>());
        Ok(())
    }
}

impl ByteTable {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.used).sum()
    }

    /// The number of a string with this hash, if the table has it.
    pub fn get_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut u64> {
        let part = self.parts.get_mut(part_of(hash)).filter(|part| part.used > 0)?;
        let at = part.find(tag_of(hash), key, short_of(key)).ok()?;
        Some(&mut part.slots[at].number)
    }

    /// The number of a string with this hash, and whether the string is new; a new number is 0.
    #[inline]
    pub fn entry(
        &mut self,
        hash: u64,
        key: &[u8],
        meter: &mut Meter,
    ) -> Result<(&mut u64, bool), RunError> {
        self.take_parts(meter)?;
        self.parts[part_of(hash)].entry(tag_of(hash), key, meter)
    }

    #[inline]
    fn take_parts(&mut self, meter: &mut Meter) -> Result<(), RunError> {
        if self.parts.is_empty() {
            meter.take(PARTS * size_of::<Part>())?;
            self.parts.resize_with(PARTS, Part::default);
        }
        Ok(())
    }

    /// Calls `each` with the numbers of at most [`TOGETHER`] strings, in their order, and whether
    /// they are new. All slots are touched before the first is read, so that their cache misses
    /// overlap.
    #[inline]
    pub fn look_up<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        meter: &mut Meter,
        mut each: impl FnMut(&mut u64, bool),
    ) -> Result<(), RunError> {
        let mut hashes = [0; TOGETHER];
        hashes.iter_mut().zip(keys.clone()).for_each(|(hash, key)| *hash = hash_of(key));
        let touched = hashes.iter().fold(0, |touched, &hash| {
            let part = self.parts.get(part_of(hash));
            let slot = part.and_then(|part| part.slots.get(part.home(tag_of(hash))));
            touched ^ slot.map_or(0, |slot| slot.tag)
        });
        std::hint::black_box(touched);
        for (key, hash) in keys.zip(hashes) {
            let (number, is_new) = self.entry(hash, key, meter)?;
            each(number, is_new);
        }
        Ok(())
    }

    /// Merges another table: for each of its strings, calls `each` with our number of the string,
    /// whether that is new, and the number in the other table.
    pub fn merge(
        &mut self,
        other: ByteTable,
        next: &mut Next<'_>,
        mut each: impl FnMut(&mut u64, bool, u64),
    ) -> Result<(), RunError> {
        self.take_parts(next.meter())?;
        for (own, other) in self.parts.iter_mut().zip(other.parts) {
            next.check()?;
            own.merge(other, next.meter(), &mut each)?;
        }
        Ok(())
    }

    /// As [`ByteTable::merge`], adding the numbers of both tables; large tables on several threads.
    pub fn merge_sums(
        &mut self,
        mut other: ByteTable,
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        self.take_parts(next.meter())?;
        let sharing = next.query.sharing();
        let share = match other.len() {
            ..ALONE_MAX => PARTS,
            _ => PARTS.div_ceil(sharing.threads()),
        };
        let shares = self.parts.chunks_mut(share).zip(other.parts.chunks_mut(share));
        sharing.each(shares, |(own, other)| {
            let mut meter = sharing.meter();
            for (own, other) in own.iter_mut().zip(other) {
                sharing.check()?;
                own.merge(std::mem::take(other), &mut meter, &mut |own, _, other| *own += other)?;
            }
            Ok(())
        })
    }

    /// The strings and their numbers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.parts.iter().flat_map(|part| {
            let slots = part.slots.iter().filter(|slot| slot.tag != 0);
            slots.map(|slot| (slot.key(&part.texts), slot.number))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::base::Limits;
    use crate::lang::context::Context;
    use crate::testing::with_next;

    fn meter(memory_bytes_max: u64) -> Meter {
        let limits = Limits { memory_bytes_max, ..Limits::default() };
        Context { limits, ..Context::default() }.meter()
    }

    fn shown(table: &ByteTable) -> BTreeMap<Vec<u8>, u64> {
        table.iter().map(|(key, number)| (key.to_vec(), number)).collect()
    }

    #[test]
    fn strings_of_any_length_are_told_apart() {
        let mut table = ByteTable::default();
        let mut meter = meter(u64::MAX);
        let keys: Vec<Vec<u8>> = (0..40)
            .flat_map(|len| [vec![0; len], vec![b'a'; len]])
            .chain([vec![b'x'; PIECE_BYTES_MAX + 1]])
            .collect();
        for round in 0..3 {
            for key in &keys {
                // The empty key occurs twice.
                let hash = hash_of(key);
                *table.entry(hash, key, &mut meter).unwrap().0 += 1;
                assert!(*table.get_mut(hash, key).unwrap() > round);
            }
        }
        assert_eq!(table.len(), keys.len() - 1);
        assert!(table.get_mut(hash_of(b"b"), b"b").is_none());
        let shown = shown(&table);
        assert!(keys.iter().all(|key| shown[key] == if key.is_empty() { 6 } else { 3 }));
    }

    #[test]
    fn a_short_string_is_a_number() {
        let text: Vec<u8> = (1..=SHORT_BYTES as u8 + 1).map(|byte| byte | 0x80).collect();
        for len in 0..=SHORT_BYTES {
            let mut bytes = [0; SHORT_BYTES];
            bytes[..len].copy_from_slice(&text[..len]);
            assert_eq!(short_of(&text[..len]).to_le_bytes(), bytes, "{len}");
        }
        assert_eq!(short_of(&text), 0);
    }

    /// A table with a string for each number, half of the strings long.
    fn numbered(numbers: std::ops::Range<u64>, meter: &mut Meter) -> ByteTable {
        let mut table = ByteTable::default();
        for number in numbers {
            let key = format!("{number:0width$}", width = if number % 2 == 0 { 7 } else { 20 });
            *table.entry(hash_of(key.as_bytes()), key.as_bytes(), meter).unwrap().0 += number;
        }
        table
    }

    #[test]
    fn large_tables_are_added_by_threads() {
        let half = ALONE_MAX as u64;
        crate::testing::with_next(|next| {
            let held = next.meter().held();
            let mut own = numbered(0..2 * half, next.meter());
            let other = numbered(half..3 * half, next.meter());
            own.merge_sums(other, next).unwrap();
            assert_eq!(own.len() as u64, 3 * half);
            for (key, number) in own.iter() {
                let written: u64 = std::str::from_utf8(key).unwrap().parse().unwrap();
                let times = 1 + u64::from((half..2 * half).contains(&written));
                assert_eq!(number, written * times);
            }
            let alone = numbered(0..3 * half, next.meter());
            let [of_both, of_one] = [&own, &alone].map(|table| {
                let parts = table.parts.iter();
                let bytes = |p: &Part| p.slots.len() * size_of::<Slot>() + p.texts.bytes;
                parts.map(bytes).sum::<usize>() + PARTS * size_of::<Part>()
            });
            assert_eq!(next.meter().held() - held, (of_both + of_one) as u64);
        });
    }

    #[test]
    fn memory_ends_it() {
        let fill = |memory_bytes_max: u64, len: usize| {
            let (mut table, mut meter) = (ByteTable::default(), meter(memory_bytes_max));
            let keys = (0..100_000).map(|i| format!("{i:0len$}"));
            let added = keys.map(|key| {
                table.entry(hash_of(key.as_bytes()), key.as_bytes(), &mut meter).map(drop)
            });
            let error = added.filter_map(Result::err).next();
            (error.is_some(), table.len())
        };
        assert_eq!(fill(8_600_000, 10), (false, 100_000));
        assert_eq!(fill(14_000_000, 50), (false, 100_000));
        let (full, len) = fill(1_000_000, 10);
        assert!(full && (8_000..24_000).contains(&len), "{len}");
        let (full, len) = fill(1_000_000, 50);
        assert!(full && (4_000..11_000).contains(&len), "{len}");
    }

    proptest! {
        #[test]
        fn tables_are_what_maps_are(
            keys in prop::collection::vec("[ab]{0,3}|[ab]{15,18}", 0..400),
            share in 0.0f64..=1.0,
        ) {
            let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            keys.iter().for_each(|key| *expected.entry(key.clone().into_bytes()).or_default() += 1);
            let filled = |keys: &[String], meter: &mut Meter| {
                let mut table = ByteTable::default();
                for keys in keys.chunks(TOGETHER) {
                    let keys = keys.iter().map(String::as_bytes);
                    table.look_up(keys, meter, |number, is_new| {
                        assert_eq!(is_new, *number == 0);
                        *number += 1;
                    }).unwrap();
                }
                table
            };
            let (left, right) = keys.split_at((share * keys.len() as f64) as usize);
            let (merged, _) = with_next(|next| {
                let (mut own, other) = (filled(left, next.meter()), filled(right, next.meter()));
                own.merge(other, next, |own, is_new, other| {
                    assert_eq!(is_new, *own == 0);
                    *own += other;
                }).unwrap();
                own
            });
            prop_assert_eq!(merged.len(), expected.len());
            prop_assert_eq!(shown(&merged), expected);
        }
    }
}
