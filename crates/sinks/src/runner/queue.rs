//! The bounded queue between the reader of a cursor and the thread of its sink.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::document::Batch;

/// Limits of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Batches that wait. Beyond them, submitting waits or is refused.
    pub batches_max: usize,
    /// Bytes of the batches that wait. A larger batch is taken when the queue is empty.
    pub bytes_max: usize,
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        QueueLimits { batches_max: 64, bytes_max: 32 << 20 }
    }
}

/// Why a batch was not taken; the batch comes back.
#[derive(Debug, PartialEq)]
pub enum NotTaken {
    /// The queue is full.
    Full(Batch),
    /// The runner ends, or has ended.
    Closed(Batch),
}

pub(crate) struct Queue {
    limits: QueueLimits,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    batches: VecDeque<(Batch, usize)>,
    bytes: usize,
    is_closed: bool,
}

impl Queue {
    pub fn new(limits: QueueLimits) -> Queue {
        Queue { limits, inner: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a batch if there is room. `taken` runs before the batch can be popped.
    pub fn offer(&self, batch: Batch, taken: impl FnOnce(&Batch)) -> Result<(), NotTaken> {
        let bytes = batch.bytes();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_closed {
            return Err(NotTaken::Closed(batch));
        }
        if !self.has_room(&inner, bytes) {
            return Err(NotTaken::Full(batch));
        }
        taken(&batch);
        inner.bytes += bytes;
        inner.batches.push_back((batch, bytes));
        self.changed.notify_all();
        Ok(())
    }

    /// Adds a batch, waiting for room. Returns it if the queue is closed.
    pub fn push(&self, mut batch: Batch, taken: impl Fn(&Batch)) -> Result<(), Batch> {
        loop {
            batch = match self.offer(batch, &taken) {
                Ok(()) => return Ok(()),
                Err(NotTaken::Closed(batch)) => return Err(batch),
                Err(NotTaken::Full(batch)) => batch,
            };
            let bytes = batch.bytes();
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            while !inner.is_closed && !self.has_room(&inner, bytes) {
                inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The next batch; waits for one. `None` once the queue is closed and empty.
    pub fn pop(&self) -> Option<Batch> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some((batch, bytes)) = inner.batches.pop_front() {
                inner.bytes -= bytes;
                self.changed.notify_all();
                return Some(batch);
            }
            if inner.is_closed {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).batches.is_empty()
    }

    /// Takes no more batches.
    pub fn close(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.changed.notify_all();
    }

    fn has_room(&self, inner: &Inner, bytes: usize) -> bool {
        inner.batches.is_empty()
            || inner.batches.len() < self.limits.batches_max
                && inner.bytes + bytes <= self.limits.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn batch(cursor: &str, id_bytes: usize) -> Batch {
        let document = Document::new("x".repeat(id_bytes), 0, Vec::new());
        Batch { documents: vec![document], cursor: cursor.to_owned() }
    }

    #[test]
    fn batches_and_bytes_are_bounded() {
        let bytes = batch("", 100).bytes();
        let limits = QueueLimits { batches_max: 3, bytes_max: 2 * bytes };
        let queue = Queue::new(limits);
        let offer = |cursor: &str, id_bytes| queue.offer(batch(cursor, id_bytes), |_| {});
        // A batch above the limit is taken by an empty queue alone.
        assert_eq!(offer("large", 10_000), Ok(()));
        assert!(matches!(offer("b", 100), Err(NotTaken::Full(_))));
        assert_eq!(queue.pop().unwrap().cursor, "large");
        assert_eq!((offer("a", 100), offer("b", 100)), (Ok(()), Ok(())));
        assert!(matches!(offer("c", 0), Err(NotTaken::Full(_))), "bytes");
        assert_eq!(queue.pop().unwrap().cursor, "a");
        assert_eq!((offer("c", 0), offer("d", 0)), (Ok(()), Ok(())));
        assert!(matches!(offer("e", 0), Err(NotTaken::Full(_))), "batches");
        queue.close();
        assert!(matches!(offer("e", 0), Err(NotTaken::Closed(_))));
        assert_eq!(queue.push(batch("e", 0), |_| {}), Err(batch("e", 0)));
        let left: Vec<String> = std::iter::from_fn(|| queue.pop()).map(|b| b.cursor).collect();
        assert_eq!(left, ["b", "c", "d"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_push_waits_for_room() {
        let queue = Queue::new(QueueLimits { batches_max: 1, bytes_max: 1 << 20 });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..100 {
                    queue.push(batch(&n.to_string(), 1), |_| {}).unwrap();
                }
                queue.close();
            });
            let popped: Vec<String> =
                std::iter::from_fn(|| queue.pop()).map(|batch| batch.cursor).collect();
            let expected: Vec<String> = (0..100).map(|n: u32| n.to_string()).collect();
            assert_eq!(popped, expected);
        });
    }
}
