//! Taking locks of this crate.
//!
//! # Lock order
//!
//! A thread that holds a lock takes only locks further down this list. No two locks of one line are
//! held together, unless a line says so.
//!
//! 1. `Store::background`: the rewrites under way.
//! 2. [`Writer`](crate::writer::Writer): the active segment.
//! 3. [`Ledger`](crate::ledger::Ledger): catalog, indexes, removals. A thread that holds it never
//!    waits for the writer.
//! 4. [`DeletionTable`](crate::store_core::deletions::DeletionTable),
//!    [`RemoteNodes`](crate::store_core::nodes::RemoteNodes).
//! 5. The list of [`SegmentTable`](crate::segments::table::SegmentTable).
//! 6. The index of one hot segment ([`HotIndex`](crate::segments::hot::HotIndex)).
//! 7. Open files of segments, then the [`Cache`](crate::segments::cache::Cache).
//! 8. Locks that are held for a few instructions and under which no other is taken: the queue,
//!    sequence numbers, progress, write state, signals, expired ranges, the clock of retention.
//!
//! A panic of one thread must not stop the others, so a poisoned lock is taken all the same: the
//! data behind these locks is consistent between statements.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, at most for `timeout`.
pub(crate) fn wait<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}
