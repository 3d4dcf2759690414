//! One budget for memory whose amount is determined by clients: queries, live tails, answers being
//! sent, bodies of insert requests. Parts with a fixed limit of their own (the store's cache, the
//! writer's queue) are not counted.
//!
//! Memory is first taken from the budget, through a [`Share`], and then allocated. When the budget
//! is used up, the request for memory fails and the failure is reported. Nobody waits for memory,
//! since two waiting for each other would deadlock. A part is reserved for inserts
//! ([`INSERT_SHARE`]), so that no number or size of queries stops a sender.
//!
//! Memory is taken in pieces of at least [`PIECE_BYTES`], so that threads do not contend for the
//! budget at each row. Rounding by the allocator and spare capacity of vectors are not counted; the
//! budget leaves room for them ([`bytes_auto`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use procfs::{Current, Meminfo};

use crate::groups;

/// Requests are rounded up to this many bytes. Larger pieces mean fewer updates of the shared
/// counter, but more memory that is taken and not used.
pub const PIECE_BYTES: u64 = 256 << 10;

/// The part of the budget (one in this many bytes) that is reserved for inserts: other purposes
/// cannot use it.
pub const INSERT_SHARE: u64 = 4;

/// Upper limit of the automatic budget, unless the limit of one query is more than two thirds of
/// it. With the cache of the store (512 MiB), queues and what the allocator retains, a process
/// stays below 2 GiB: the hostile inputs brought it to 1,861 MiB.
const AUTO_BYTES_MAX: u64 = 768 << 20;
/// Lower limit of the automatic budget, however small the machine.
const AUTO_BYTES_MIN: u64 = 32 << 20;
/// The automatic budget is this part of the machine's memory.
const AUTO_SHARE: u64 = 4;

/// The purpose of taken memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Queries, with the units that they read.
    Query,
    /// Live tails.
    Tail,
    /// Answers being sent to a client.
    Answer,
    /// Bodies of insert requests.
    Insert,
}

impl Purpose {
    /// The number of purposes.
    pub const COUNT: usize = 4;
    /// All purposes.
    pub const ALL: [Purpose; Purpose::COUNT] =
        [Purpose::Query, Purpose::Tail, Purpose::Answer, Purpose::Insert];

    /// Its name in metrics and in the API.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Query => "query",
            Purpose::Tail => "tail",
            Purpose::Answer => "answer",
            Purpose::Insert => "insert",
        }
    }
}

/// The budget is used up. The text is shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The whole budget, bytes.
    pub bytes_max: u64,
}

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the memory that all queries, tails and inserts share ({} bytes) is used up; try again when others have \
             ended, or raise memory.bytes_max",
            self.bytes_max
        )
    }
}

impl std::error::Error for Exhausted {}

/// The budget of a process.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    held: AtomicU64,
    peak: AtomicU64,
    by_purpose: [AtomicU64; Purpose::COUNT],
    refused: [AtomicU64; Purpose::COUNT],
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget {
            bytes_max,
            held: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            by_purpose: Default::default(),
            refused: Default::default(),
        })
    }

    /// A budget without a limit, for tools and for tests of other things.
    pub fn unlimited() -> Arc<Budget> {
        Budget::new(u64::MAX)
    }

    /// The whole budget, bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes taken now.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// The most bytes that were taken at one time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Bytes taken now for a purpose.
    pub fn held_for(&self, purpose: Purpose) -> u64 {
        self.by_purpose[purpose as usize].load(Relaxed)
    }

    /// How often a request for this purpose was refused.
    pub fn refused(&self, purpose: Purpose) -> u64 {
        self.refused[purpose as usize].load(Relaxed)
    }

    /// An empty share of the budget, with which memory is taken.
    pub fn share(self: &Arc<Self>, purpose: Purpose) -> Share {
        Share { budget: Arc::clone(self), purpose, bytes: 0 }
    }

    /// Takes bytes; the caller must return them.
    pub fn take(&self, purpose: Purpose, bytes: u64) -> Result<(), Exhausted> {
        let bytes_max = match purpose {
            Purpose::Insert => self.bytes_max,
            _ => self.bytes_max - self.bytes_max / INSERT_SHARE,
        };
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= bytes_max);
        match self.held.fetch_update(Relaxed, Relaxed, more) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Relaxed);
                self.by_purpose[purpose as usize].fetch_add(bytes, Relaxed);
                Ok(())
            }
            Err(_) => {
                self.refused[purpose as usize].fetch_add(1, Relaxed);
                Err(Exhausted { bytes_max: self.bytes_max })
            }
        }
    }

    /// Returns bytes that were taken for the same purpose.
    pub fn give_back(&self, purpose: Purpose, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
        self.by_purpose[purpose as usize].fetch_sub(bytes, Relaxed);
    }
}

/// The part of the budget that one user holds; it is returned when this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    purpose: Purpose,
    bytes: u64,
}

impl Share {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ensures that at least `bytes` are held in total, rounded up to whole pieces.
    #[inline]
    pub fn cover(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let bytes = bytes as u64;
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes) }
    }

    #[cold]
    fn grow(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let more = bytes.next_multiple_of(PIECE_BYTES) - self.bytes;
        self.budget.take(self.purpose, more)?;
        self.bytes += more;
        Ok(())
    }

    /// Returns everything beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let kept = (bytes as u64).next_multiple_of(PIECE_BYTES);
        if kept < self.bytes {
            self.budget.give_back(self.purpose, self.bytes - kept);
            self.bytes = kept;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.purpose, self.bytes);
    }
}

/// The budget if none is configured, in bytes: a quarter of the memory that the machine, or the
/// control group of the process, has (`machine_bytes`; `None`: unknown); at most 768 MiB, or 1.5
/// times the limit of one query (`query_bytes_max`) if that is more; at least 32 MiB.
///
/// 1.5 times leaves room for one query at its limit beside the quarter that is reserved for
/// inserts.
pub fn bytes_auto(machine_bytes: Option<u64>, query_bytes_max: u64) -> u64 {
    let most = AUTO_BYTES_MAX.max(query_bytes_max.saturating_add(query_bytes_max / 2));
    let share = machine_bytes.map_or(most, |bytes| bytes / AUTO_SHARE);
    share.min(most).max(AUTO_BYTES_MIN)
}

/// The cache of the store if none is configured, in bytes: an eighth of the memory
/// (`machine_bytes`), between 16 and 512 MiB.
pub fn cache_bytes_auto(machine_bytes: Option<u64>) -> u64 {
    machine_bytes.map_or(u64::MAX, |bytes| bytes / 8).clamp(16 << 20, 512 << 20)
}

/// The lines that wait for the disk if no limit is configured, in bytes: a thirty-second of the
/// memory (`machine_bytes`), between 8 and 64 MiB.
pub fn queue_bytes_auto(machine_bytes: Option<u64>) -> u64 {
    machine_bytes.map_or(u64::MAX, |bytes| bytes / 32).clamp(8 << 20, 64 << 20)
}

/// The memory of the machine, or of the control groups of this process if that is less. `None` if
/// neither is known.
pub fn machine_bytes() -> Option<u64> {
    let machine = Meminfo::current().ok().map(|memory| memory.mem_total);
    [machine, groups::memory_limit_bytes()].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_memory_is_returned() {
        let budget = Budget::new(16 * PIECE_BYTES);
        let mut query = budget.share(Purpose::Query);
        query.cover(1).unwrap();
        assert_eq!((query.bytes(), budget.held()), (PIECE_BYTES, PIECE_BYTES));
        query.cover(PIECE_BYTES as usize).unwrap();
        assert_eq!(budget.held(), PIECE_BYTES);
        // A quarter is reserved for inserts.
        query.cover(12 * PIECE_BYTES as usize).unwrap();
        let refused = query.cover(12 * PIECE_BYTES as usize + 1).unwrap_err();
        assert!(refused.to_string().contains("memory.bytes_max"));
        assert_eq!((budget.refused(Purpose::Query), budget.held()), (1, 12 * PIECE_BYTES));
        let mut insert = budget.share(Purpose::Insert);
        insert.cover(4 * PIECE_BYTES as usize).unwrap();
        assert!(insert.cover(4 * PIECE_BYTES as usize + 1).is_err());
        query.shrink(PIECE_BYTES as usize + 1);
        assert_eq!(budget.held_for(Purpose::Query), 2 * PIECE_BYTES);
        drop(query);
        assert_eq!(budget.held_for(Purpose::Query), 0);
        drop(insert);
        assert_eq!((budget.held(), budget.peak()), (0, 16 * PIECE_BYTES));
    }

    #[test]
    fn concurrent_threads_stay_within_the_budget() {
        let budget = Budget::new(64 * PIECE_BYTES);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let mut share = budget.share(Purpose::Insert);
                        let _ = share.cover((round % 40) * PIECE_BYTES as usize);
                        assert!(budget.held() <= budget.bytes_max());
                    }
                });
            }
        });
        assert_eq!(budget.held(), 0);
        assert!(budget.peak() <= budget.bytes_max());
        assert!(Budget::unlimited().take(Purpose::Query, 1 << 50).is_ok());
    }

    #[test]
    fn the_budget_of_a_machine() {
        const GIB: u64 = 1 << 30;
        for (machine, query, expected) in [
            (Some(24 * GIB), GIB / 2, 3 * GIB / 4),
            (Some(24 * GIB), GIB, 3 * GIB / 2),
            (Some(24 * GIB), GIB / 4, 3 * GIB / 4),
            (Some(3 * GIB), GIB / 2, 3 * GIB / 4),
            (Some(2 * GIB), GIB / 2, GIB / 2),
            (Some(GIB / 4), GIB / 2, GIB / 16),
            (Some(GIB / 16), GIB / 2, AUTO_BYTES_MIN),
            (Some(64 * GIB), 4 * GIB, 6 * GIB),
            (Some(16 * GIB), 4 * GIB, 4 * GIB),
            (None, GIB / 2, 3 * GIB / 4),
        ] {
            assert_eq!(bytes_auto(machine, query), expected, "{machine:?} {query}");
            let whole = machine.is_none_or(|bytes| bytes / AUTO_SHARE > expected);
            let beside_inserts = expected - expected / INSERT_SHARE;
            assert!(!whole || beside_inserts >= query, "one query fits: {machine:?} {query}");
        }
        assert!(machine_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn cache_and_queue_follow_the_memory() {
        const MIB: u64 = 1 << 20;
        for (machine, cache, queue) in [
            (None, 512, 64),
            (Some(24 << 10), 512, 64),
            (Some(4 << 10), 512, 64),
            (Some(1 << 10), 128, 32),
            (Some(256), 32, 8),
            (Some(64), 16, 8),
        ] {
            let machine = machine.map(|mib: u64| mib * MIB);
            assert_eq!(cache_bytes_auto(machine), cache * MIB, "{machine:?}");
            assert_eq!(queue_bytes_auto(machine), queue * MIB, "{machine:?}");
        }
    }
}
