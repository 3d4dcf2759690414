//! What each function keeps of each group, and how it becomes a value.
//!
//! A function's states are one vector over all groups; the kind is looked at once a block, not once a row.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::Function;
use crate::bitmap::Bitmap;
use crate::block::{Block, Column, Scratch};
use crate::number::{compare_values, parse_number, write_number};
use crate::pipe::tuples::{ENTRY_BYTES, write_part};
use crate::run::{Meter, RunError};

/// Numbers of a group that `quantile` and `median` keep. Up to so many the answer is exact; of more, a random
/// sample of this size is kept, which is off by less than a percentage point of rank in 99 of 100 cases.
pub const QUANTILE_SAMPLES_MAX: usize = 32_768;

/// The states of one function.
pub(super) enum States {
    Count(Vec<u64>),
    Uniq(Vec<HashSet<Box<[u8]>, foldhash::fast::RandomState>>),
    Sum(Vec<Sum>),
    Best(Vec<Option<Box<[u8]>>>),
    Samples(Vec<Samples>),
}

#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    sum: f64,
    count: u64,
}

impl States {
    pub fn new(function: &Function) -> States {
        match function {
            Function::Count(_) | Function::CountEmpty(_) => States::Count(Vec::new()),
            Function::CountUniq(..) => States::Uniq(Vec::new()),
            Function::Sum(_) | Function::Avg(_) => States::Sum(Vec::new()),
            Function::Min(_) | Function::Max(_) => States::Best(Vec::new()),
            Function::Quantile(..) | Function::Median(_) => States::Samples(Vec::new()),
        }
    }

    /// Memory of one group's state, without what it points to.
    pub fn state_bytes(&self) -> usize {
        match self {
            States::Count(_) => 8,
            States::Uniq(_) => 48,
            States::Sum(_) | States::Best(_) => 16,
            States::Samples(_) => size_of::<Samples>(),
        }
    }

    /// Makes room for `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        match self {
            States::Count(states) => states.resize(groups, 0),
            States::Uniq(states) => states.resize_with(groups, HashSet::default),
            States::Sum(states) => states.resize_with(groups, Sum::default),
            States::Best(states) => states.resize_with(groups, || None),
            States::Samples(states) => states.resize_with(groups, Samples::default),
        }
    }

    /// Adds the rows of a block, those of `bits` if given; `groups` is the group of each row.
    pub fn add(
        &mut self,
        function: &Function,
        block: &Block,
        groups: &[u32],
        bits: Option<&Bitmap>,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let columns: Vec<Column<'_>> =
            function.fields().iter().map(|name| block.column(name)).collect();
        match self {
            States::Count(counts) => {
                let empty = matches!(function, Function::CountEmpty(_));
                if columns.is_empty() {
                    each_row(block, bits, |row| {
                        counts[groups[row] as usize] += 1;
                        Ok(())
                    })
                } else {
                    each_row(block, bits, |row| {
                        let any = columns.iter().any(|&c| !block.value(c, row, scratch).is_empty());
                        counts[groups[row] as usize] += u64::from(any != empty);
                        Ok(())
                    })
                }
            }
            States::Uniq(sets) => {
                let Function::CountUniq(_, limit) = function else { unreachable!("made for it") };
                let limit = limit.unwrap_or(u64::MAX);
                let mut key = Vec::new();
                each_row(block, bits, |row| {
                    let set = &mut sets[groups[row] as usize];
                    key.clear();
                    let mut any = false;
                    for &column in &columns {
                        let value = block.value(column, row, scratch);
                        any |= !value.is_empty();
                        write_part(value, &mut key);
                    }
                    if any && (set.len() as u64) < limit && !set.contains(key.as_slice()) {
                        meter.take(key.len() + ENTRY_BYTES)?;
                        set.insert(key.as_slice().into());
                    }
                    Ok(())
                })
            }
            States::Sum(sums) => each_row(block, bits, |row| {
                for &column in &columns {
                    if let Some(number) = parse_number(block.value(column, row, scratch)) {
                        let state = &mut sums[groups[row] as usize];
                        state.sum += number;
                        state.count += 1;
                    }
                }
                Ok(())
            }),
            States::Best(bests) => {
                let better = if matches!(function, Function::Min(_)) {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                each_row(block, bits, |row| {
                    for &column in &columns {
                        let value = block.value(column, row, scratch);
                        let best = &mut bests[groups[row] as usize];
                        take_better(best, value, better, meter)?;
                    }
                    Ok(())
                })
            }
            States::Samples(samples) => each_row(block, bits, |row| {
                for &column in &columns {
                    if let Some(number) = parse_number(block.value(column, row, scratch)) {
                        samples[groups[row] as usize].add(number, meter)?;
                    }
                }
                Ok(())
            }),
        }
    }

    /// Takes over the states of another worker: its group `g` belongs to our group `places[g]`.
    pub fn merge(
        &mut self,
        function: &Function,
        other: States,
        places: &[u32],
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let place = |group: usize| places[group] as usize;
        match (self, other) {
            (States::Count(own), States::Count(other)) => {
                other.into_iter().enumerate().for_each(|(g, count)| own[place(g)] += count);
            }
            (States::Uniq(own), States::Uniq(other)) => {
                for (group, set) in other.into_iter().enumerate() {
                    own[place(group)].extend(set);
                }
            }
            (States::Sum(own), States::Sum(other)) => {
                for (group, sum) in other.into_iter().enumerate() {
                    own[place(group)].sum += sum.sum;
                    own[place(group)].count += sum.count;
                }
            }
            (States::Best(own), States::Best(other)) => {
                let better = if matches!(function, Function::Min(_)) {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                for (group, value) in other.into_iter().enumerate() {
                    if let Some(value) = value {
                        take_better(&mut own[place(group)], &value, better, meter)?;
                    }
                }
            }
            (States::Samples(own), States::Samples(other)) => {
                for (group, samples) in other.into_iter().enumerate() {
                    own[place(group)].merge(samples);
                }
            }
            _ => unreachable!("workers of one query have the same functions"),
        }
        Ok(())
    }

    /// Appends the value of a group.
    pub fn write(&mut self, function: &Function, group: usize, out: &mut Vec<u8>) {
        match (self, function) {
            (States::Count(counts), _) => {
                out.extend_from_slice(counts[group].to_string().as_bytes())
            }
            (States::Uniq(sets), Function::CountUniq(_, limit)) => {
                let count = (sets[group].len() as u64).min(limit.unwrap_or(u64::MAX));
                out.extend_from_slice(count.to_string().as_bytes());
            }
            (States::Sum(sums), Function::Avg(_)) => {
                write_number(sums[group].sum / sums[group].count as f64, out);
            }
            (States::Sum(sums), _) => {
                let Sum { sum, count } = sums[group];
                write_number(if count == 0 { f64::NAN } else { sum }, out);
            }
            (States::Best(bests), _) => {
                out.extend_from_slice(bests[group].as_deref().unwrap_or_default())
            }
            (States::Samples(samples), Function::Quantile(share, _)) => {
                write_number(samples[group].quantile(*share), out);
            }
            (States::Samples(samples), _) => write_number(samples[group].quantile(0.5), out),
            (States::Uniq(_), _) => unreachable!("made for count_uniq"),
        }
    }
}

/// Calls `each` with the rows of a block, or those of `bits`.
#[inline]
fn each_row(
    block: &Block,
    bits: Option<&Bitmap>,
    mut each: impl FnMut(usize) -> Result<(), RunError>,
) -> Result<(), RunError> {
    match bits {
        None => (0..block.len()).try_for_each(each),
        Some(bits) => bits.iter().try_for_each(&mut each),
    }
}

fn take_better(
    best: &mut Option<Box<[u8]>>,
    value: &[u8],
    better: Ordering,
    meter: &mut Meter,
) -> Result<(), RunError> {
    if value.is_empty() {
        return Ok(());
    }
    let length = match best {
        None => 0,
        Some(best) if compare_values(value, best) == better => best.len(),
        Some(_) => return Ok(()),
    };
    meter.give_back(length);
    meter.take(value.len())?;
    *best = Some(value.into());
    Ok(())
}

/// The numbers of a group, or a random sample of them (algorithm R, J. S. Vitter 1985).
#[derive(Default)]
pub(super) struct Samples {
    numbers: Vec<f64>,
    seen: u64,
    random: u64,
}

impl Samples {
    #[inline]
    fn add(&mut self, number: f64, meter: &mut Meter) -> Result<(), RunError> {
        self.seen += 1;
        if self.numbers.len() < QUANTILE_SAMPLES_MAX {
            if self.numbers.len() == self.numbers.capacity() {
                let more = self.numbers.len().max(4);
                meter.take(more * size_of::<f64>())?;
                self.numbers.reserve_exact(more);
            }
            self.numbers.push(number);
            return Ok(());
        }
        let place = self.random_below(self.seen);
        if let Some(place) = self.numbers.get_mut(place as usize) {
            *place = number;
        }
        Ok(())
    }

    /// A fixed sequence, so that the same rows give the same answer (SplitMix64).
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }

    fn merge(&mut self, mut other: Samples) {
        let seen = self.seen + other.seen;
        if self.numbers.len() + other.numbers.len() <= QUANTILE_SAMPLES_MAX {
            self.numbers.append(&mut other.numbers);
        } else {
            // Each place is drawn from one side as often as that side's rows are of all rows.
            let mut merged = Vec::with_capacity(QUANTILE_SAMPLES_MAX);
            while merged.len() < QUANTILE_SAMPLES_MAX {
                let own = self.random_below(seen) < self.seen;
                let own = (own && !self.numbers.is_empty()) || other.numbers.is_empty();
                let left = if own { self.numbers.len() } else { other.numbers.len() };
                let place = self.random_below(left as u64) as usize;
                let side = if own { &mut self.numbers } else { &mut other.numbers };
                merged.push(side.swap_remove(place));
            }
            self.numbers = merged;
        }
        self.seen = seen;
    }

    /// The number at that share of the numbers in order; NaN without numbers.
    fn quantile(&mut self, share: f64) -> f64 {
        if self.numbers.is_empty() {
            return f64::NAN;
        }
        let place = ((share * self.numbers.len() as f64) as usize).min(self.numbers.len() - 1);
        *self.numbers.select_nth_unstable_by(place, f64::total_cmp).1
    }
}
