//! Blobs, from which sealed segments are read: the local disk, or any other storage with range
//! reads, such as object storage.
//!
//! A blob never changes. Calls block; the caller reads on threads that may. Local files are read
//! directly, through the page cache of the operating system. In front of a remote blob a
//! [`CachedBlob`] keeps ranges in memory, bounded for all blobs together.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::DiskFile;

use crate::error::SegmentError;

/// Immutable bytes. All methods may be called from several threads at once.
pub trait Blob: Send + Sync {
    /// Number of bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads from `offset` on until `buffer` is full or the blob ends; returns the number of bytes
    /// read.
    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// As [`read_range`](Self::read_range), for what says where lines are: footers and word
    /// filters. Many queries read them, so a cache keeps them longer than lines.
    fn read_index(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_range(offset, buffer)
    }
}

/// A file on a local disk.
pub struct DiskBlob(pub Arc<dyn DiskFile>);

impl Blob for DiskBlob {
    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

/// Reads this number of bytes from this offset on.
///
/// Errors: the blob cannot be read, or ends before; the text names the blob and the byte.
pub(crate) fn read_exact(
    blob: &dyn Blob,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, SegmentError> {
    let read = |buffer: &mut [u8]| blob.read_range(offset, buffer);
    exactly(read, path, offset, bytes)
}

/// As [`read_exact`], for footers and word filters.
pub(crate) fn read_index_exact(
    blob: &dyn Blob,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, SegmentError> {
    let read = |buffer: &mut [u8]| blob.read_index(offset, buffer);
    exactly(read, path, offset, bytes)
}

fn exactly(
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, SegmentError> {
    let mut buffer = vec![0; bytes];
    let found = read(&mut buffer).map_err(SegmentError::io(path, "read"))?;
    if found < bytes {
        return Err(SegmentError::Damaged {
            path: path.to_owned(),
            offset: offset + found as u64,
            part: "the file",
            expected: format!("{bytes} bytes from byte {offset}"),
            found: format!("the end of the file after {found}"),
        });
    }
    Ok(buffer)
}

/// Ranges are cached in pieces of this size, bytes; the last piece of a blob may be shorter.
pub const PIECE_BYTES: usize = 64 << 10;
/// Memory of a piece besides its bytes, roughly.
const PIECE_EXTRA_BYTES: usize = 128;

/// A blob and the index of a piece in it.
type Key = (u64, u64);

/// Pieces of blobs in memory, bounded in bytes. Beyond the bound a random piece is evicted: a scan
/// over more than fits finds a part of it again, where evicting by last use would find nothing.
pub struct RangeCache {
    bytes_max: usize,
    pieces: Mutex<Pieces>,
}

#[derive(Default)]
struct Pieces {
    by_key: HashMap<Key, Arc<[u8]>, foldhash::fast::RandomState>,
    /// The keys, to choose a random one.
    keys: Vec<Key>,
    bytes: usize,
    /// State of the pseudo-random choice of a victim. Any sequence works that does not depend on
    /// the access pattern.
    drawn: u64,
}

impl Pieces {
    /// A random index of the keys, of which there is at least one.
    fn draw(&mut self) -> usize {
        self.drawn =
            self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.drawn >> 33) as usize % self.keys.len()
    }
}

impl RangeCache {
    /// A cache of at most this number of bytes.
    pub fn new(bytes_max: usize) -> Arc<RangeCache> {
        Arc::new(RangeCache { bytes_max, pieces: Mutex::default() })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: Key) -> Option<Arc<[u8]>> {
        self.lock().by_key.get(&key).cloned()
    }

    fn put(&self, key: Key, piece: Arc<[u8]>) {
        let cost = piece.len() + PIECE_EXTRA_BYTES;
        if cost > self.bytes_max {
            return;
        }
        let mut pieces = self.lock();
        if pieces.by_key.contains_key(&key) {
            return;
        }
        while pieces.bytes + cost > self.bytes_max {
            let any = pieces.draw();
            let gone = pieces.keys.swap_remove(any);
            let gone = pieces.by_key.remove(&gone).expect("what is listed is there");
            pieces.bytes -= gone.len() + PIECE_EXTRA_BYTES;
        }
        pieces.bytes += cost;
        pieces.keys.push(key);
        pieces.by_key.insert(key, piece);
    }

    /// Drops the pieces of a blob that was deleted.
    pub fn forget(&self, id: u64) {
        let mut pieces = self.lock();
        let Pieces { by_key, keys, bytes, .. } = &mut *pieces;
        keys.retain(|key| {
            let stays = key.0 != id;
            if !stays && let Some(gone) = by_key.remove(key) {
                *bytes -= gone.len() + PIECE_EXTRA_BYTES;
            }
            stays
        });
    }
}

/// A blob whose ranges are cached.
pub struct CachedBlob {
    blob: Arc<dyn Blob>,
    /// Identifies this blob in the cache.
    id: u64,
    cache: Arc<RangeCache>,
    bytes: u64,
}

impl CachedBlob {
    /// Reads `blob` through `cache`, in which `id` must be unique.
    ///
    /// Errors: the blob cannot tell its length.
    pub fn new(blob: Arc<dyn Blob>, id: u64, cache: Arc<RangeCache>) -> io::Result<CachedBlob> {
        let bytes = blob.bytes()?;
        Ok(CachedBlob { blob, id, cache, bytes })
    }

    /// Reads missing pieces, from the first index to before the second, in one request.
    fn fetch(&self, from: u64, to: u64, read: ReadBlob) -> io::Result<Vec<Arc<[u8]>>> {
        let begin = from * PIECE_BYTES as u64;
        let end = (to * PIECE_BYTES as u64).min(self.bytes);
        let mut bytes = vec![0; (end - begin) as usize];
        if read(&*self.blob, begin, &mut bytes)? < bytes.len() {
            let error = "the blob became shorter";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
        }
        let pieces = (from..to).zip(bytes.chunks(PIECE_BYTES));
        Ok(pieces
            .map(|(index, bytes)| {
                let piece: Arc<[u8]> = bytes.into();
                self.cache.put((self.id, index), piece.clone());
                piece
            })
            .collect())
    }
}

/// How the blob behind a cache is read.
type ReadBlob = fn(&dyn Blob, u64, &mut [u8]) -> io::Result<usize>;

impl Blob for CachedBlob {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(offset, buffer, |blob, offset, buffer| blob.read_range(offset, buffer))
    }

    fn read_index(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(offset, buffer, |blob, offset, buffer| blob.read_index(offset, buffer))
    }
}

impl CachedBlob {
    fn read(&self, offset: u64, buffer: &mut [u8], read: ReadBlob) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.bytes);
        if offset >= end {
            return Ok(0);
        }
        let piece_bytes = PIECE_BYTES as u64;
        let (first, behind) = (offset / piece_bytes, end.div_ceil(piece_bytes));
        let mut copy = |index: u64, piece: &[u8]| {
            let begin = index * piece_bytes;
            let (from, to) = (offset.max(begin), end.min(begin + piece.len() as u64));
            let part = &piece[(from - begin) as usize..(to - begin) as usize];
            buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        };
        let mut index = first;
        while index < behind {
            if let Some(piece) = self.cache.get((self.id, index)) {
                copy(index, &piece);
                index += 1;
                continue;
            }
            // Neighbouring missing pieces are one request: each request to a remote blob costs some
            // tens of milliseconds.
            let is_missing = |index: &u64| self.cache.get((self.id, *index)).is_none();
            let to =
                (index + 1..behind).take_while(is_missing).last().map_or(index, |last| last) + 1;
            for piece in self.fetch(index, to, read)? {
                copy(index, &piece);
                index += 1;
            }
        }
        Ok((end - offset) as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// A blob in memory that counts requests and may fail.
    struct RemoteBlob {
        bytes: Vec<u8>,
        requests: AtomicUsize,
        fails: std::sync::atomic::AtomicBool,
    }

    impl Blob for RemoteBlob {
        fn bytes(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("far away"));
            }
            let rest = self.bytes.get(offset as usize..).unwrap_or_default();
            let bytes = rest.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
            Ok(bytes)
        }
    }

    fn far(bytes: usize) -> Arc<RemoteBlob> {
        let bytes = (0..bytes).map(|at| (at * 7 / 3) as u8).collect();
        Arc::new(RemoteBlob { bytes, requests: AtomicUsize::new(0), fails: false.into() })
    }

    fn read(blob: &dyn Blob, offset: u64, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![1; bytes];
        let read = blob.read_range(offset, &mut buffer).unwrap();
        buffer.truncate(read);
        buffer
    }

    #[test]
    fn adjacent_missing_pieces_are_one_request_and_cached_ones_none() {
        let blob = far(10 * PIECE_BYTES + 5);
        let cached = CachedBlob::new(blob.clone(), 1, RangeCache::new(1 << 20)).unwrap();
        let requests = || blob.requests.load(Ordering::Relaxed);
        assert_eq!(read(&cached, 0, 3 * PIECE_BYTES).len(), 3 * PIECE_BYTES);
        assert_eq!(requests(), 1);
        read(&cached, 10, 2 * PIECE_BYTES);
        assert_eq!(requests(), 1);
        read(&cached, 5 * PIECE_BYTES as u64, 1);
        read(&cached, 0, 20 * PIECE_BYTES);
        assert_eq!(requests(), 4, "what was missing before and behind the sixth piece");
        blob.fails.store(true, Ordering::Relaxed);
        assert_eq!(read(&cached, 10 * PIECE_BYTES as u64, 99).len(), 5);
        cached.cache.forget(2);
        assert!(cached.cache.bytes() > 0);
        cached.cache.forget(1);
        assert_eq!(cached.cache.bytes(), 0);
        assert!(cached.read_range(0, &mut [0; 9]).is_err());
    }

    proptest! {
        #[test]
        fn through_a_cache_the_bytes_are_the_same(
            bytes in 0usize..5 * PIECE_BYTES,
            bytes_max in 0usize..4 * PIECE_BYTES,
            reads in prop::collection::vec((0u64..6 * PIECE_BYTES as u64, 0usize..3 * PIECE_BYTES), 1..20),
        ) {
            let blobs = [far(bytes), far(bytes / 2)];
            let cache = RangeCache::new(bytes_max);
            for (offset, bytes) in reads {
                for (id, blob) in blobs.iter().enumerate() {
                    let cached =
                        CachedBlob::new(blob.clone(), id as u64, cache.clone()).unwrap();
                    prop_assert_eq!(read(&cached, offset, bytes), read(&**blob, offset, bytes));
                    prop_assert!(cache.bytes() <= bytes_max);
                }
            }
        }
    }
}
