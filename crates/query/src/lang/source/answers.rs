//! Cache of per-unit answers for immutable units, so that a query that a dashboard repeats every
//! minute counts each unit once.
//!
//! An entry holds what one unit gave to a counting query: a few rows, each with the number of lines
//! it stands for. The key is the unit and the text of the query without its time range. An entry is
//! therefore used only when all lines of the unit lie in the range. Rewriting or deleting a segment
//! removes its units; their entries are never looked up again and are evicted in order of age.
//!
//! Limits: total bytes (the oldest entries are evicted first), bytes per entry (a larger answer is
//! not cached), and number of distinct queries (beyond it the cache is cleared).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::block::Weighted;
use crate::lang::source::UnitKey;

/// Memory of one answer. A larger answer is not cached and is computed again each time.
///
/// limits.md, Queries: results of blocks that are kept for repeated queries |
/// `query.answers_bytes_max`, 64 MiB; {} each; {QUERIES_MAX} queries | the oldest are forgotten,
/// and computed again when they are needed
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Distinct queries. One more clears the whole cache.
const QUERIES_MAX: usize = 1_024;
/// Approximate memory of an entry besides its rows.
const ENTRY_BYTES: usize = 200;

/// Identifies the text of a query within the cache.
type QueryNumber = u32;

/// The answers cached for one store, bounded in memory and shared by all queries.
#[derive(Debug)]
pub struct Answers {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    queries: HashMap<String, QueryNumber>,
    /// Numbers are never reused: an answer of a forgotten query must not be taken for that of
    /// another.
    number_next: QueryNumber,
    answers: HashMap<(UnitKey, QueryNumber), (Arc<Weighted>, usize), foldhash::fast::RandomState>,
    /// Keys in order of insertion.
    order: VecDeque<(UnitKey, QueryNumber)>,
    bytes: usize,
}

impl Answers {
    /// Creates a cache for at most `bytes_max` bytes of answers; with 0 it keeps none.
    pub fn new(bytes_max: usize) -> Answers {
        Answers { bytes_max, kept: Mutex::default() }
    }

    /// Approximate memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The number for the text of a query, assigned at its first use.
    pub(crate) fn number_of(&self, text: &str) -> QueryNumber {
        let mut kept = self.lock();
        if let Some(&query) = kept.queries.get(text) {
            return query;
        }
        if kept.queries.len() == QUERIES_MAX {
            *kept = Kept { number_next: kept.number_next, ..Kept::default() };
        }
        let query = kept.number_next;
        kept.number_next += 1;
        kept.queries.insert(text.to_owned(), query);
        query
    }

    /// The cached answers of `units`, if any.
    pub(crate) fn get_all(
        &self,
        units: impl Iterator<Item = Option<UnitKey>>,
        query: QueryNumber,
    ) -> Vec<Option<Arc<Weighted>>> {
        let kept = self.lock();
        let answer = |unit| kept.answers.get(&(unit, query)).map(|(answer, _)| answer.clone());
        units.map(|unit| unit.and_then(&answer)).collect()
    }

    pub(crate) fn put(&self, unit: UnitKey, query: QueryNumber, answer: Arc<Weighted>) {
        let bytes = answer.memory_bytes() + ENTRY_BYTES;
        if bytes > ANSWER_BYTES_MAX.min(self.bytes_max) {
            return;
        }
        let mut kept = self.lock();
        let key = (unit, query);
        if kept.answers.insert(key, (answer, bytes)).is_some() {
            // Two threads computed the same answer at the same time.
            return;
        }
        kept.order.push_back(key);
        kept.bytes += bytes;
        while kept.bytes > self.bytes_max {
            let oldest = kept.order.pop_front().expect("bytes are held by answers");
            let (_, bytes) = kept.answers.remove(&oldest).expect("what is listed is there");
            kept.bytes -= bytes;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: u64) -> Arc<Weighted> {
        Arc::new(Weighted::of_lines(lines))
    }

    impl Answers {
        fn get(&self, unit: UnitKey, query: QueryNumber) -> Option<Arc<Weighted>> {
            self.get_all([Some(unit), None].into_iter(), query).swap_remove(0)
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let one = lines(1).memory_bytes() + ENTRY_BYTES;
        let answers = Answers::new(3 * one);
        let query = answers.number_of("a");
        assert_eq!((answers.number_of("a"), answers.number_of("b")), (query, query + 1));
        (0..4).for_each(|block| answers.put((7, block), query, lines(u64::from(block))));
        assert_eq!(answers.bytes(), 3 * one);
        assert!(answers.get((7, 0), query).is_none());
        assert!(answers.get((7, 1), query + 1).is_none());
        assert_eq!(answers.get((7, 3), query).unwrap().lines, [3]);
        answers.put((7, 3), query, lines(3));
        assert_eq!(answers.bytes(), 3 * one);
        let none = Answers::new(one - 1);
        none.put((7, 0), query, lines(0));
        assert_eq!(none.bytes(), 0);
    }

    #[test]
    fn too_many_queries_start_anew() {
        let answers = Answers::new(1 << 20);
        answers.put((1, 1), answers.number_of("first"), lines(1));
        let last = (0..QUERIES_MAX).map(|i| answers.number_of(&i.to_string())).last();
        assert_eq!((answers.bytes(), last), (0, Some(QUERIES_MAX as u32)));
        assert!(answers.get((1, 1), answers.number_of("first")).is_none());
    }
}
