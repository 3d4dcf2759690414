//! Counts that are kept with a segment, so that a question for them opens no block: lines by level, host, application
//! and type, per stretch of event time.
//!
//! The stretch is as short as pays: a segment has at most one stretch for [`LINES_PER_STRETCH`] of its lines. A field
//! with more than [`VALUES_MAX`] values has no counts; one that lacks in some lines counts those under no name.

use std::collections::{BTreeMap, HashMap};

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::ints;

/// The fields that are counted.
pub const ROLLUP_FIELDS: [&str; 4] = ["level", "hostname", "app_name", "type"];
/// Different values of a field that is counted. With more, questions read the blocks.
pub const VALUES_MAX: usize = 256;
/// Lines for each stretch of time, at least, so that counts stay small beside lines.
pub const LINES_PER_STRETCH: u64 = 32;
/// A value of more bytes makes its field one without counts.
const VALUE_BYTES_MAX: usize = 256;
/// Lengths of a stretch, seconds.
const STRETCHES_S: [i64; 7] = [1, 10, 60, 600, 3_600, 86_400, 864_000];

const SECOND_NS: i64 = 1_000_000_000;

/// Counts of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// The field.
    pub field: String,
    /// Its values; the empty one stands for lines without it.
    pub values: Vec<Vec<u8>>,
    /// Length of a stretch, seconds. Stretches begin at whole multiples of it since 1970 UTC.
    pub stretch_s: i64,
    /// Stretch (since 1970), place of the value, lines; in order.
    pub counts: Vec<(i64, u32, u64)>,
}

impl Rollup {
    /// Lines with each value, in all stretches.
    pub fn totals(&self) -> Vec<(&[u8], u64)> {
        let mut totals: Vec<(&[u8], u64)> =
            self.values.iter().map(|value| (&value[..], 0)).collect();
        self.counts.iter().for_each(|&(_, value, lines)| totals[value as usize].1 += lines);
        totals
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_piece(out, self.field.as_bytes());
        put_varint(out, self.stretch_s as u64);
        put_varint(out, self.values.len() as u64);
        self.values.iter().for_each(|value| put_piece(out, value));
        put_varint(out, self.counts.len() as u64);
        let column = |get: &dyn Fn(&(i64, u32, u64)) -> i64| -> Vec<i64> {
            self.counts.iter().map(get).collect()
        };
        ints::encode(&column(&|c| c.0), out);
        ints::encode(&column(&|c| i64::from(c.1)), out);
        ints::encode(&column(&|c| c.2 as i64), out);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>, lines: u64) -> Read<Rollup> {
        let field = cursor.text()?.to_owned();
        let stretch_s = cursor.varint()? as i64;
        if !STRETCHES_S.contains(&stretch_s) {
            return Err(Corrupt("the stretch of a rollup"));
        }
        let values = (0..cursor.count(VALUES_MAX)?)
            .map(|_| cursor.piece().map(<[u8]>::to_vec))
            .collect::<Read<Vec<_>>>()?;
        let count = cursor.count(lines as usize)?;
        let stretches = ints::decode(cursor, count)?;
        let places = ints::decode(cursor, count)?;
        let numbers = ints::decode(cursor, count)?;
        let counts = stretches.into_iter().zip(places).zip(numbers).map(|((at, place), number)| {
            let known = (0..values.len() as i64).contains(&place);
            known.then_some((at, place as u32, number as u64)).ok_or(Corrupt("a rollup"))
        });
        let counts = counts.collect::<Read<Vec<_>>>()?;
        Ok(Rollup { field, values, stretch_s, counts })
    }
}

/// Counts lines as they come.
#[derive(Default)]
pub(crate) struct Counter {
    fields: [FieldCounter; ROLLUP_FIELDS.len()],
}

#[derive(Default)]
struct FieldCounter {
    numbers: HashMap<Vec<u8>, u16, foldhash::fast::RandomState>,
    values: Vec<Vec<u8>>,
    /// Lines by second and value.
    counts: HashMap<(i64, u16), u64, foldhash::fast::RandomState>,
    last: Option<((i64, u16), u64)>,
    overflowed: bool,
}

impl Counter {
    /// Counts a line; values in the order of [`ROLLUP_FIELDS`], empty where it has none.
    #[inline]
    pub(crate) fn add(&mut self, time_ns: i64, values: [&[u8]; ROLLUP_FIELDS.len()]) {
        let second = time_ns.div_euclid(SECOND_NS);
        for (field, value) in self.fields.iter_mut().zip(values) {
            if !field.overflowed {
                field.add(second, value);
            }
        }
    }

    pub(crate) fn finish(self, lines: u64) -> Vec<Rollup> {
        let counted = self.fields.into_iter().zip(ROLLUP_FIELDS);
        counted.filter_map(|(field, name)| field.finish(name, lines)).collect()
    }
}

impl FieldCounter {
    #[inline]
    fn add(&mut self, second: i64, value: &[u8]) {
        if let Some(((last_second, place), lines)) = &mut self.last
            && *last_second == second
            && self.values[usize::from(*place)] == value
        {
            *lines += 1;
            return;
        }
        self.settle();
        let place = match self.numbers.get(value) {
            Some(&place) => place,
            None if self.values.len() < VALUES_MAX && value.len() <= VALUE_BYTES_MAX => {
                let place = self.values.len() as u16;
                self.values.push(value.to_vec());
                self.numbers.insert(value.to_vec(), place);
                place
            }
            None => {
                *self = FieldCounter { overflowed: true, ..FieldCounter::default() };
                return;
            }
        };
        self.last = Some(((second, place), 1));
    }

    fn settle(&mut self) {
        if let Some((key, lines)) = self.last.take() {
            *self.counts.entry(key).or_default() += lines;
        }
    }

    fn finish(mut self, name: &str, lines: u64) -> Option<Rollup> {
        self.settle();
        if self.overflowed {
            return None;
        }
        let stretch_s = STRETCHES_S.into_iter().find(|stretch_s| {
            let stretches: std::collections::HashSet<i64, foldhash::fast::RandomState> =
                self.counts.keys().map(|(second, _)| second.div_euclid(*stretch_s)).collect();
            stretches.len() as u64 * LINES_PER_STRETCH <= lines.max(LINES_PER_STRETCH)
        });
        let stretch_s = stretch_s.unwrap_or(STRETCHES_S[STRETCHES_S.len() - 1]);
        let mut counts: BTreeMap<(i64, u16), u64> = BTreeMap::new();
        for ((second, value), lines) in self.counts {
            *counts.entry((second.div_euclid(stretch_s), value)).or_default() += lines;
        }
        let counts = counts.into_iter().map(|((at, value), n)| (at, u32::from(value), n));
        Some(Rollup {
            field: name.to_owned(),
            values: self.values,
            stretch_s,
            counts: counts.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &[(i64, &str)]) -> Vec<Rollup> {
        let mut counter = Counter::default();
        for (second, level) in lines {
            counter.add(second * SECOND_NS, [level.as_bytes(), b"", b"", b"t"]);
        }
        counter.finish(lines.len() as u64)
    }

    #[test]
    fn counts_come_back_and_agree_with_the_lines() {
        let lines: Vec<(i64, &str)> =
            (0..10_000).map(|i| (i / 100, if i % 10 == 0 { "error" } else { "info" })).collect();
        let rollups = count(&lines);
        assert_eq!(rollups.len(), ROLLUP_FIELDS.len());
        assert_eq!((rollups[0].stretch_s, rollups[0].counts.len()), (1, 200));
        assert_eq!(rollups[0].totals(), [(&b"error"[..], 1000), (&b"info"[..], 9000)]);
        assert_eq!(rollups[1].totals(), [(&b""[..], 10_000)]);
        for rollup in rollups {
            let mut out = Vec::new();
            rollup.encode(&mut out);
            let mut cursor = Cursor::new(&out);
            assert_eq!(Rollup::decode(&mut cursor, 10_000).unwrap(), rollup);
            cursor.end().unwrap();
        }
    }

    #[test]
    fn stretches_grow_where_lines_are_rare() {
        let lines: Vec<(i64, &str)> = (0..100).map(|i| (i * 60, "info")).collect();
        let rollups = count(&lines);
        assert_eq!(rollups[0].stretch_s, 3_600);
        assert_eq!(rollups[0].totals(), [(&b"info"[..], 100)]);
    }

    #[test]
    fn too_many_values_have_no_counts() {
        let values: Vec<String> = (0..=VALUES_MAX).map(|i| i.to_string()).collect();
        let lines: Vec<(i64, &str)> = values.iter().map(|v| (0, v.as_str())).collect();
        assert_eq!(count(&lines[1..])[0].values.len(), VALUES_MAX);
        let fields: Vec<String> = count(&lines).into_iter().map(|r| r.field).collect();
        assert_eq!(fields, ["hostname", "app_name", "type"]);
    }
}
