//! `[placement]`: how threads share processors and disk. See `docs/placement.md`.

use std::num::NonZero;

use anyhow::{Result, bail, ensure};
use platform::placement::Priorities;
use serde::{Deserialize, Serialize};

/// Limit of the threads of one kind, on any machine: more would wait for the single thread before
/// or behind them.
const THREADS_MAX: usize = 64;
/// Niceness goes up to this, sched(7).
const NICE_MAX: u8 = 19;

/// `[placement]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawPlacement {
    pub parse_nice: u8,
    pub query_nice: u8,
    pub parse_threads: usize,
    pub http_threads: usize,
    pub sealing_threads: usize,
    pub background_bytes_per_s_max: String,
}

/// `[placement]`, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which threads yield to which.
    pub priorities: Priorities,
    /// Threads that parse durable frames.
    pub parse_threads: usize,
    /// Threads that serve HTTP connections; they do nothing else.
    pub http_threads: usize,
    /// Threads that seal.
    pub sealing_threads: usize,
}

impl Default for RawPlacement {
    fn default() -> Self {
        let Priorities { parse_nice, query_nice } = Priorities::default();
        RawPlacement {
            parse_nice,
            query_nice,
            parse_threads: 0,
            http_threads: 0,
            sealing_threads: 0,
            background_bytes_per_s_max: "512MiB".into(),
        }
    }
}

impl RawPlacement {
    /// Checks the section, for a machine with that many processors.
    pub fn placement(&self, processors: usize) -> Result<Placement> {
        let nice = |key: &str, value: u8| match value <= NICE_MAX {
            true => Ok(value),
            false => bail!("{key} must be between 0 and {NICE_MAX}"),
        };
        Ok(Placement {
            priorities: Priorities {
                parse_nice: nice("placement.parse_nice", self.parse_nice)?,
                query_nice: nice("placement.query_nice", self.query_nice)?,
            },
            // One thread keeps up with one receiver; half of the machine is left to queries and
            // sealing.
            parse_threads: threads(
                "placement.parse_threads",
                self.parse_threads,
                (processors / 4).clamp(1, 8),
            )?,
            // They only move bytes; blocking and computing work has threads of its own.
            http_threads: threads(
                "placement.http_threads",
                self.http_threads,
                processors.clamp(2, 8),
            )?,
            // They only take time that no other thread uses. Each needs some tens of MiB, and
            // sixteen outrun most disks.
            sealing_threads: threads(
                "placement.sealing_threads",
                self.sealing_threads,
                processors.clamp(1, 16),
            )?,
        })
    }
}

/// The configured number of threads, or `fitting` if it is 0.
fn threads(key: &str, number: usize, fitting: usize) -> Result<usize> {
    ensure!(
        number <= THREADS_MAX,
        "{key} must be at most {THREADS_MAX}, or 0 for a number that fits the machine"
    );
    Ok(if number == 0 { fitting } else { number })
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_fit_the_machine() {
        for (processors, parse, http, sealing) in
            [(1, 1, 2, 1), (2, 1, 2, 2), (8, 2, 8, 8), (64, 8, 8, 16)]
        {
            let placement = RawPlacement::default().placement(processors).unwrap();
            assert_eq!(
                (placement.parse_threads, placement.http_threads, placement.sealing_threads),
                (parse, http, sealing),
                "of {processors} processors"
            );
        }
    }

    #[test]
    fn wrong_values_name_their_key() {
        let check = |change: fn(&mut RawPlacement), expected: &str| {
            let mut raw = RawPlacement::default();
            change(&mut raw);
            let found = raw.placement(2).map_err(|error| error.to_string());
            match expected {
                "" => assert!(found.is_ok(), "{found:?}"),
                _ => assert!(found.as_ref().is_err_and(|e| e.contains(expected)), "{found:?}"),
            }
        };
        check(|p| p.parse_nice = NICE_MAX, "");
        check(|p| p.parse_nice = NICE_MAX + 1, "placement.parse_nice must be between 0 and 19");
        check(|p| p.query_nice = NICE_MAX + 1, "placement.query_nice must be between 0 and 19");
        check(|p| p.parse_threads = THREADS_MAX, "");
        check(|p| p.parse_threads = THREADS_MAX + 1, "placement.parse_threads must be at most 64");
        check(|p| p.http_threads = THREADS_MAX + 1, "placement.http_threads must be at most 64");
    }
}
