//! Reusable memory of frames.
//!
//! A frame's megabyte of fresh memory costs 256 page faults, and zeroing by the kernel, about as
//! much as reading the lines into it. So the memory of a full frame returns to its builder's pool
//! when the last reader drops the frame, with its old content, and the next frame overwrites it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Buffers that a pool keeps for later, as many as a burst of frames has in flight. Beyond this,
/// memory is freed. A pool is empty until there were full frames.
const IDLE_MAX: usize = 32;

/// Buffers that wait for the next frame of one builder.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Vec<u8>>>,
    /// Size of the buffers worth keeping.
    buffer_bytes: usize,
}

impl Pool {
    /// An empty pool for buffers from `buffer_bytes` up to twice as long.
    pub fn new(buffer_bytes: usize) -> Arc<Pool> {
        Arc::new(Pool { idle: Mutex::default(), buffer_bytes })
    }

    /// A buffer, if one is idle. It has arbitrary content.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.idle.lock().expect("nothing panics").pop()
    }

    fn give_back(&self, memory: Vec<u8>) {
        if !(self.buffer_bytes..=2 * self.buffer_bytes).contains(&memory.len()) {
            return;
        }
        let mut idle = self.idle.lock().expect("nothing panics");
        if idle.len() < IDLE_MAX {
            idle.push(memory);
        }
    }
}

/// The bytes of a frame: the start of some memory, which goes back to a pool when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    memory: Vec<u8>,
    bytes: usize,
    pool: Option<Arc<Pool>>,
}

impl Memory {
    /// The first `bytes` of `memory`.
    pub fn pooled(memory: Vec<u8>, bytes: usize, pool: Arc<Pool>) -> Memory {
        assert!(bytes <= memory.len(), "the bytes are in the memory");
        Memory { memory, bytes, pool: Some(pool) }
    }

    /// Bytes held, used or not.
    pub fn held_bytes(&self) -> usize {
        self.memory.capacity()
    }
}

impl From<Vec<u8>> for Memory {
    fn from(memory: Vec<u8>) -> Memory {
        Memory { bytes: memory.len(), memory, pool: None }
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        self.to_vec().into()
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Memory) -> bool {
        **self == **other
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_once_and_only_of_the_right_size() {
        let pool = Pool::new(100);
        for (bytes, is_kept) in [(99, false), (100, true), (200, true), (201, false)] {
            let memory = Memory::pooled(vec![7; bytes], 10, Arc::clone(&pool));
            assert_eq!(*memory, [7; 10]);
            assert_eq!(memory.clone(), memory);
            drop(memory.clone());
            assert!(pool.take().is_none(), "a copy is not the pool's");
            drop(memory);
            assert_eq!(pool.take().map(|memory| memory.len()), is_kept.then_some(bytes));
            assert!(pool.take().is_none());
        }
    }

    #[test]
    fn a_pool_keeps_a_limited_number() {
        let pool = Pool::new(1);
        let frames: Vec<Memory> =
            (0..=IDLE_MAX).map(|_| Memory::pooled(vec![0], 1, Arc::clone(&pool))).collect();
        drop(frames);
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), IDLE_MAX);
    }
}
