//! The queries of the 2015 study over historical data, whose results are known.
//!
//! The number n (from 0) of a record determines its time stamp, machine, service and severity, each
//! by the remainder of n in a cycle. The number of records below the table's size with given
//! remainders follows from the Chinese remainder theorem: they repeat with the least common
//! multiple of the cycles, even if the cycles of a definition share a divisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::logs::{self, SEVERITIES};
use super::{Expect, History, Opening, Request, Step, Steps, WorkloadError, WorkloadPlan};
use crate::driver::Operation;
use crate::row::{Row, Value};

/// Limit of the record numbers that can be counted; far above the size of any table.
const RECORDS_MAX: u64 = 1 << 40;

/// Limit of the values of one cycle, so that a count is computed quickly.
const CYCLE_MAX: u64 = 1_000_000;

/// Refuses empty cycles.
pub fn check_cycles(history: &History) -> Result<(), WorkloadError> {
    let cycles = [
        ("timestamps", history.timestamps),
        ("machines", history.machines),
        ("services", history.services),
    ];
    for (name, cycle) in cycles {
        if cycle == 0 || cycle > CYCLE_MAX {
            return Err(WorkloadError::Value {
                name: name.to_owned(),
                value: cycle.to_string(),
                takes: format!("1 to {CYCLE_MAX}"),
            });
        }
    }
    if history.records == 0 || history.records > RECORDS_MAX {
        return Err(WorkloadError::Value {
            name: "records".to_owned(),
            value: history.records.to_string(),
            takes: format!("1 to {RECORDS_MAX}"),
        });
    }
    Ok(())
}

/// How many numbers below `records` have the remainder `r` modulo `m` for each `(r, m)`.
fn count(records: u64, remainders: &[(u64, u64)]) -> u64 {
    // Numbers with the remainders so far are `first + k * period`.
    let (mut first, mut period) = (u128::from(remainders[0].0), u128::from(remainders[0].1));
    for &(remainder, cycle) in &remainders[1..] {
        let (remainder, cycle) = (u128::from(remainder), u128::from(cycle));
        // One of the next `cycle` candidates fits, or none ever does. Cycles are short, and this
        // runs once per query.
        match (0..cycle).map(|k| first + k * period).find(|n| n % cycle == remainder) {
            Some(fits) => first = fits,
            None => return 0,
        }
        period *= cycle / greatest_common_divisor(period, cycle);
    }
    if first >= u128::from(records) {
        return 0;
    }
    ((u128::from(records) - 1 - first) / period + 1) as u64
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Records with one time stamp (query A).
pub fn count_a(history: &History, timestamp: u64) -> u64 {
    count(history.records, &[(timestamp, history.timestamps)])
}

/// Records with one time stamp and machine (query B).
pub fn count_b(history: &History, timestamp: u64, machine: u64) -> u64 {
    count(history.records, &[(timestamp, history.timestamps), (machine, history.machines)])
}

/// Records with one time stamp, service and severity (query C).
pub fn count_c(history: &History, timestamp: u64, service: u64, severity: i64) -> u64 {
    let rows = SEVERITIES.iter().zip(0..).filter(|(value, _)| **value == severity);
    rows.map(|(_, row)| {
        let remainders = [
            (timestamp, history.timestamps),
            (service, history.services),
            (row, SEVERITIES.len() as u64),
        ];
        count(history.records, &remainders)
    })
    .sum()
}

/// The queries A, B and C in turn, each with its own values.
pub struct Queries {
    history: History,
    opening: Opening,
    turns_taken: Arc<AtomicU64>,
}

impl Queries {
    /// On the whole table.
    pub fn new(history: &History, opening: &Opening) -> Result<Queries, WorkloadError> {
        check_cycles(history)?;
        Ok(Queries {
            history: history.clone(),
            opening: opening.clone(),
            turns_taken: Arc::new(AtomicU64::new(0)),
        })
    }
}

impl WorkloadPlan for Queries {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        Box::new(QuerySteps {
            history: self.history.clone(),
            opening: self.opening.clone(),
            turns_taken: self.turns_taken.clone(),
        })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        logs::row_of(&self.history, key)
    }
}

struct QuerySteps {
    history: History,
    opening: Opening,
    turns_taken: Arc<AtomicU64>,
}

/// The number of turn `turn` in a cycle: every number occurs once before any is repeated, in an
/// order that the seed determines.
fn in_turn(turn: u64, cycle: u64, seed: u64) -> u64 {
    let mut stride = 1 + seed % cycle;
    while greatest_common_divisor(u128::from(stride), u128::from(cycle)) != 1 {
        stride += 1;
    }
    let from = (seed >> 32) % cycle;
    ((u128::from(turn) * u128::from(stride) + u128::from(from)) % u128::from(cycle)) as u64
}

impl Steps for QuerySteps {
    fn next(&mut self) -> Option<Step> {
        let share = self.opening.share;
        let own = self.turns_taken.fetch_add(1, Ordering::Relaxed);
        let turn = own * u64::from(share.of) + u64::from(share.index);
        Some(Step::one(query(&self.history, turn, self.opening.seed)))
    }
}

/// The query of one turn: A, B, C, A, … All time stamps are used before one is repeated.
fn query(history: &History, turn: u64, seed: u64) -> Request {
    let draw = |cycle: u64, salt: u64| in_turn(turn, cycle, super::letters::mix(seed ^ salt));
    let timestamp = draw(history.timestamps, 1);
    let mut conditions =
        vec![(logs::TIMESTAMP, Value::Integer(logs::TIMESTAMP_FROM + timestamp as i64))];
    let (label, count) = match turn % 3 {
        0 => ("query_a", count_a(history, timestamp)),
        1 => {
            let machine = draw(history.machines, 2);
            conditions.push((logs::MACHINE, logs::machine(machine)));
            ("query_b", count_b(history, timestamp, machine))
        }
        _ => {
            let service = draw(history.services, 3);
            let severity = SEVERITIES[draw(SEVERITIES.len() as u64, 4) as usize];
            conditions.push((logs::SERVICE, logs::service(service)));
            conditions.push((logs::SEVERITY, Value::Integer(severity)));
            ("query_c", count_c(history, timestamp, service, severity))
        }
    };
    Request { label, operation: Operation::Count { conditions }, expect: Expect::Count(count) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The paper's table.
    fn paper() -> History {
        logs::cycles(7_495_861)
    }

    #[test]
    fn answers_at_the_papers_scale_are_the_papers() {
        let history = paper();
        for number in [0, 1, 16, 500, 1008] {
            assert_eq!(count_a(&history, number), 7429);
            assert_eq!(count_b(&history, number, number % 23), 323);
            let c = [0, 1, 2, 3, 4, 5, 6, 7].map(|s| count_c(&history, number, number % 17, s));
            assert_eq!(c, [23, 23, 46, 92, 69, 92, 46, 46]);
        }
    }

    #[test]
    fn the_studys_queries_are_all_different() {
        let turns = 69;
        let mut stamps = std::collections::BTreeSet::new();
        let mut labels = std::collections::BTreeMap::new();
        for turn in 0..turns {
            let request = query(&paper(), turn, 42);
            *labels.entry(request.label).or_insert(0) += 1;
            match request.operation {
                Operation::Count { conditions } => assert!(stamps.insert(conditions[0].clone())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(labels.into_values().collect::<Vec<_>>(), [23, 23, 23]);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_rows(
            records in 1u64..3000,
            timestamps in 1u64..40,
            machines in 1u64..12,
            services in 1u64..12,
            turn in 0u64..100,
            seed: u64,
        ) {
            let history = History { records, timestamps, machines, services };
            let request = query(&history, turn, seed);
            let Operation::Count { conditions } = &request.operation else { panic!() };
            let naive = (1..=records)
                .map(|number| logs::record(&history, number))
                .filter(|row| conditions.iter().all(|(at, value)| row.values[*at] == *value))
                .count();
            prop_assert_eq!(request.expect, Expect::Count(naive as u64));
        }

        #[test]
        fn turns_take_every_number_once(cycle in 1u64..500, seed: u64) {
            let mut all: Vec<_> = (0..cycle).map(|turn| in_turn(turn, cycle, seed)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..cycle).collect::<Vec<_>>());
        }
    }
}
