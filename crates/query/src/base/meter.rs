//! The memory of a run, and whether it may go on. Pipes collect memory, which is limited per query.
//! Units take memory while they are read, which is bounded by the number of threads and the size of
//! a block; it is outside the limit of the query, since a low limit would otherwise prevent reading
//! any block. Both come out of the budget of the process.
//!
//! Memory is counted before it is allocated. Where the size is known only while it grows (a key of
//! many values, the JSON of a row), a [`Buffer`] counts it piece by piece.
//!
//! Whatever has a meter can check the time limit and the cancellation of the query too, while it
//! works on a long value ([`Meter::pulse`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use platform::memory::{Budget, PIECE_BYTES, Purpose};

use super::{Progress, Pulse, RunError, Watch};

/// Bytes that a buffer may hold uncounted. Each thread and pipe of a query may exceed the limit by
/// this much.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;

/// The memory of a query, of all queries inside it, and of whatever assembles the answer.
#[derive(Debug)]
pub struct Account {
    /// Bytes held by pipes and answers.
    held: AtomicU64,
    /// Bytes of units that are being read.
    in_units: AtomicU64,
    /// Bytes reserved from the budget; at least the sum of the two above, except for short moments.
    reserved: AtomicU64,
    budget: Arc<Budget>,
    purpose: Purpose,
}

impl Account {
    /// An account that holds nothing yet and reserves from `budget`.
    pub fn new(budget: &Arc<Budget>, purpose: Purpose) -> Arc<Account> {
        Arc::new(Account {
            held: AtomicU64::new(0),
            in_units: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            budget: Arc::clone(budget),
            purpose,
        })
    }

    /// Reserves from the budget what is held beyond the present reservation.
    #[inline]
    fn cover(&self) -> Result<(), RunError> {
        let needed = self.held.load(Relaxed) + self.in_units.load(Relaxed);
        if needed <= self.reserved.load(Relaxed) { Ok(()) } else { self.reserve(needed) }
    }

    #[cold]
    fn reserve(&self, needed: u64) -> Result<(), RunError> {
        loop {
            let reserved = self.reserved.load(Relaxed);
            if needed <= reserved {
                return Ok(());
            }
            let more = needed.next_multiple_of(PIECE_BYTES) - reserved;
            self.budget.take(self.purpose, more).map_err(RunError::Budget)?;
            let to = reserved + more;
            if self.reserved.compare_exchange(reserved, to, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
            self.budget.give_back(self.purpose, more);
        }
    }

    /// Returns to the budget what is no longer held, unless that is little.
    #[inline]
    fn release(&self) {
        let needed = self.held.load(Relaxed) + self.in_units.load(Relaxed);
        let reserved = self.reserved.load(Relaxed);
        if reserved < needed + 8 * PIECE_BYTES {
            return;
        }
        let kept = needed.next_multiple_of(PIECE_BYTES);
        if self.reserved.compare_exchange(reserved, kept, Relaxed, Relaxed).is_ok() {
            self.budget.give_back(self.purpose, reserved - kept);
        }
    }
}

impl Default for Account {
    fn default() -> Account {
        Account {
            held: AtomicU64::new(0),
            in_units: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            budget: Budget::unlimited(),
            purpose: Purpose::Query,
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.give_back(self.purpose, self.reserved.load(Relaxed));
    }
}

/// Counts the memory that a query holds on all its threads, including all queries inside it.
#[derive(Clone)]
pub struct Meter {
    account: Arc<Account>,
    max: u64,
    progress: Arc<Progress>,
    watch: Arc<Watch>,
}

impl Meter {
    /// Counts in the account of a query, up to `bytes_max`, and shows the number in its progress.
    pub(crate) fn new(
        account: &Arc<Account>,
        bytes_max: u64,
        progress: &Arc<Progress>,
        watch: Watch,
    ) -> Meter {
        let (account, progress) = (Arc::clone(account), Arc::clone(progress));
        Meter { account, max: bytes_max, progress, watch: Arc::new(watch) }
    }

    /// Checks that the query may continue: not cancelled, within its time limit.
    pub fn check(&self) -> Result<(), RunError> {
        self.watch.check()
    }

    /// Checks the same now and then, while values are looked at.
    pub fn pulse(&self) -> Pulse<'static> {
        let watch = Arc::clone(&self.watch);
        Pulse::new(move || watch.check())
    }

    /// Counts memory that is about to be allocated. After an error the bytes stay counted until the
    /// query ends.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<(), RunError> {
        let held = self.account.held.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        self.show(held);
        if held > self.max {
            return Err(RunError::MemoryLimit(self.max));
        }
        self.account.cover()
    }

    /// Bytes counted now, without those of units.
    pub fn held(&self) -> u64 {
        self.account.held.load(Relaxed)
    }

    fn show(&self, held: u64) {
        self.progress.memory_bytes.store(held + self.account.in_units.load(Relaxed), Relaxed);
    }

    /// Counts memory that was freed.
    pub fn give_back(&mut self, bytes: usize) {
        let less = |held: u64| Some(held.saturating_sub(bytes as u64));
        let held = self.account.held.fetch_update(Relaxed, Relaxed, less).unwrap_or_default();
        self.show(held.saturating_sub(bytes as u64));
        self.account.release();
    }
}

/// The memory of a unit that is being read; counted until this value is dropped.
#[derive(Default)]
pub(crate) struct UnitMemory {
    meter: Option<Meter>,
    bytes: usize,
}

impl UnitMemory {
    /// Counts more bytes for this unit.
    pub fn add(&mut self, meter: &Meter, bytes: usize) -> Result<(), RunError> {
        self.bytes += bytes;
        meter.account.in_units.fetch_add(bytes as u64, Relaxed);
        meter.show(meter.held());
        self.meter.get_or_insert_with(|| meter.clone());
        meter.account.cover()
    }
}

impl Drop for UnitMemory {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.account.in_units.fetch_sub(self.bytes as u64, Relaxed);
            meter.show(meter.held());
            meter.account.release();
        }
    }
}

/// Assembles bytes, such as the key of a row, in a buffer that is reused. Its bytes are counted
/// while they grow beyond the first [`UNCOUNTED_BYTES_MAX`], and stay counted until the buffer is
/// dropped.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    counted: usize,
}

impl Buffer {
    /// Empties the buffer. It keeps its allocation, unless that is large.
    #[inline]
    pub fn clear(&mut self, meter: &mut Meter) {
        self.bytes.clear();
        if self.counted > 0 {
            self.bytes = Vec::new();
            meter.give_back(std::mem::take(&mut self.counted));
        }
    }

    /// Makes room for `more` bytes, and returns the vector to append them to.
    #[inline]
    pub fn room(&mut self, more: usize, meter: &mut Meter) -> Result<&mut Vec<u8>, RunError> {
        let needed = self.bytes.len() + more;
        if needed > UNCOUNTED_BYTES_MAX {
            self.count(needed, meter)?;
        }
        Ok(&mut self.bytes)
    }

    #[cold]
    fn count(&mut self, needed: usize, meter: &mut Meter) -> Result<(), RunError> {
        if needed <= self.counted && needed <= self.bytes.capacity() {
            return Ok(());
        }
        // Growing by half means that appending piece by piece copies each byte only a few times.
        let capacity = needed.max(self.bytes.capacity() + self.bytes.capacity() / 2);
        meter.take(capacity.saturating_sub(self.counted))?;
        self.counted = self.counted.max(capacity);
        // The old allocation exists until its bytes are copied.
        let old = self.bytes.capacity();
        meter.take(old)?;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        meter.give_back(old);
        Ok(())
    }

    /// The assembled bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the bytes out, with the number of bytes that are counted for them.
    pub fn into_bytes(self) -> (Vec<u8>, usize) {
        (self.bytes, self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(max: u64, budget: &Arc<Budget>) -> Meter {
        let watch = crate::Context::default().watch(std::time::Instant::now());
        Meter::new(&Account::new(budget, Purpose::Query), max, &Arc::default(), watch)
    }

    #[test]
    fn a_query_has_its_limit_and_all_have_the_budget() {
        let budget = Budget::new(16 << 20);
        let mut first = meter(10 << 20, &budget);
        first.take(8 << 20).unwrap();
        assert_eq!(budget.held(), 8 << 20);
        assert!(matches!(first.take(3 << 20), Err(RunError::MemoryLimit(_))));
        first.give_back(3 << 20);
        // Queries may use three quarters of the budget.
        let mut second = meter(10 << 20, &budget);
        second.take(4 << 20).unwrap();
        assert!(matches!(second.take(1 << 20), Err(RunError::Budget(_))));
        let mut held = UnitMemory::default();
        assert!(matches!(held.add(&second, 1), Err(RunError::Budget(_))));
        drop(held);
        drop(second);
        assert_eq!(budget.held(), 8 << 20);
        first.give_back(8 << 20);
        assert_eq!(budget.held(), 0);
        drop(first);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn buffers_are_counted_while_they_grow() {
        let budget = Budget::unlimited();
        let mut meter = meter(4 << 20, &budget);
        let mut buffer = Buffer::default();
        buffer.room(100, &mut meter).unwrap().extend_from_slice(&[0; 100]);
        assert_eq!(meter.held(), 0);
        let piece = [0; 40_000];
        let (mut fits, mut before) = (0, 0);
        while let Ok(bytes) = buffer.room(piece.len(), &mut meter) {
            bytes.extend_from_slice(&piece);
            fits += piece.len();
            assert!(buffer.bytes.capacity() <= buffer.counted.max(UNCOUNTED_BYTES_MAX));
            // While the buffer grows, the old and the new allocation both exist.
            let moved = if buffer.bytes.capacity() > before { before } else { 0 };
            assert!(moved + buffer.bytes.capacity() <= 4 << 20);
            before = buffer.bytes.capacity();
        }
        // Growing by half needs two and a half times the old capacity.
        assert!(fits > (4 << 20) / 3, "{fits}");
    }
}
