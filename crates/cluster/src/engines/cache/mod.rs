//! Parts of objects on the local disk, so that they need not be fetched again.
//!
//! An object is divided into chunks of fixed size. A chunk that is read for the first time is
//! fetched as a whole and kept in a file of its own; the chunks that were not read for longest are
//! deleted when the files together exceed a limit. Objects never change, so a chunk is never stale.
//!
//! - **Damaged chunks are noticed**, by checksums of their blocks, and fetched again.
//! - **A chunk is fetched once**, however many threads want it; the others wait for that fetch, and
//!   share its outcome. Neighbouring chunks that one read lacks are one request.
//! - **Memory is bounded**: at most [`Options::fetches_max`] chunks are fetched at the same time;
//!   further ones wait.
//! - **A restart keeps the chunks**, in the order in which they were fetched. Files are not synced:
//!   what a power cut damages is fetched again.
//! - **A disk that is full, or fails, costs speed alone**: what cannot be kept is fetched again.
//!
//! Left out: deleting the chunks of an object that is deleted, which age out like others.

mod chunk;
mod flight;
mod index;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::engines::error::{Error, ErrorKind};
use crate::engines::objects::Bucket;
use chunk::ChunkId;
use flight::Flight;
use index::Index;

/// The file whose lock says that a process uses the directory.
const LOCK: &str = "lock";

/// Where objects are read from. An object of a name never changes.
pub trait Source: Send + Sync {
    /// Reads from `offset` into `buffer`. Returns the bytes read, which are fewer than asked for
    /// only at the end of the object.
    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, Error>;
}

impl Source for Bucket {
    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        Bucket::read_range(self, name, offset, buffer)
    }
}

/// Options of a [`RangeCache`].
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory of its own; it is created.
    pub directory: PathBuf,
    /// Bytes of all files. The chunks read longest ago are deleted beyond them.
    pub bytes_max: u64,
    /// Bytes of a chunk, at most 1 GiB. A cache that is opened with another size begins empty.
    pub chunk_bytes: u32,
    /// Chunks that are fetched, and in memory, at the same time.
    pub fetches_max: usize,
}

impl Options {
    /// 10 GiB in chunks of 1 MiB, of which 16 are fetched at the same time.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        let directory = directory.into();
        Options { directory, bytes_max: 10 << 30, chunk_bytes: 1 << 20, fetches_max: 16 }
    }
}

/// How often the cache helped, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of a chunk that its file answered.
    pub hits: u64,
    /// Chunks that were fetched.
    pub fetches: u64,
    /// Requests for them.
    pub requests: u64,
    /// Files that were damaged, and deleted.
    pub damaged: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// A cache of a [`Source`], which may be used by several threads at the same time.
#[derive(Debug)]
pub struct RangeCache<S> {
    source: S,
    options: Options,
    state: Mutex<State>,
    /// A fetch has ended, so that another one may begin.
    ended: Condvar,
    hits: AtomicU64,
    fetches: AtomicU64,
    requests: AtomicU64,
    damaged: AtomicU64,
    /// Locked while the directory is in use.
    _lock: File,
}

#[derive(Debug)]
struct State {
    index: Index,
    flights: HashMap<ChunkId, Arc<Flight>>,
}

impl<S: Source> RangeCache<S> {
    /// Opens a cache with the chunks that are in its directory.
    pub fn open(source: S, options: Options) -> Result<RangeCache<S>, Error> {
        if options.chunk_bytes == 0 || options.chunk_bytes > 1 << 30 || options.fetches_max == 0 {
            let what = "a cache needs chunks of 1 byte to 1 GiB, and at least one fetch";
            return Err(Error::new(ErrorKind::Refused, what, "correct the options of the cache"));
        }
        let failed = |error: std::io::Error| {
            let what = format!("the cache {} cannot be used: {error}", options.directory.display());
            Error::new(ErrorKind::Refused, what, "name a directory that Loginson may write")
        };
        std::fs::create_dir_all(&options.directory).map_err(failed)?;
        let mut lock = File::options();
        let lock = lock.write(true).create(true).truncate(false);
        let lock = platform::open_regular(&options.directory.join(LOCK), lock).map_err(failed)?;
        if lock.try_lock().is_err() {
            let what = format!("another process uses the cache {}", options.directory.display());
            return Err(Error::new(ErrorKind::Refused, what, "give each its own directory"));
        }
        let index = Index::read(&options.directory, options.chunk_bytes).map_err(failed)?;
        let cache = RangeCache {
            source,
            state: Mutex::new(State { index, flights: HashMap::new() }),
            options,
            ended: Condvar::new(),
            hits: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            _lock: lock,
        };
        cache.delete_oldest(&mut cache.lock());
        Ok(cache)
    }

    /// Reads from `offset` into `buffer`. Returns the bytes read, which are fewer than asked for
    /// only at the end of the object. Fails if the source does.
    pub fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let chunk_bytes = u64::from(self.options.chunk_bytes);
        let object = ChunkId::object(name);
        let mut read = 0;
        while read < buffer.len() {
            let Some(at) = offset.checked_add(read as u64) else { break };
            let id = ChunkId { object, index: at / chunk_bytes };
            let within = (at % chunk_bytes) as usize;
            let rest = &mut buffer[read..];
            let wanted = rest.len().min(chunk_bytes as usize - within);
            let got = self.read_chunk(name, id, within, rest)?;
            read += got;
            if got < wanted {
                break;
            }
        }
        Ok(read)
    }

    /// What the cache did so far.
    pub fn counts(&self) -> Counts {
        Counts {
            hits: self.hits.load(Ordering::Relaxed),
            fetches: self.fetches.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            bytes: self.lock().index.bytes(),
        }
    }

    /// Reads from within a chunk on; a part of `buffer` at least, which is less than the rest of
    /// the chunk only at the end of the object.
    fn read_chunk(
        &self,
        name: &str,
        id: ChunkId,
        within: usize,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let chunk_bytes = self.options.chunk_bytes as usize;
        let of_chunk = buffer.len().min(chunk_bytes - within);
        let mut state = self.lock();
        loop {
            if let Some(version) = state.index.touch(&id) {
                drop(state);
                let buffer = &mut buffer[..of_chunk];
                let file = id.path(&self.options.directory);
                match chunk::read(&file, &id, self.options.chunk_bytes, within, buffer) {
                    Ok(read) => {
                        self.hits.fetch_add(1, Ordering::Relaxed);
                        return Ok(read);
                    }
                    Err(error) => self.drop_chunk(&id, version, &error),
                }
                state = self.lock();
            } else if let Some(flight) = state.flights.get(&id).cloned() {
                drop(state);
                let buffer = &mut buffer[..of_chunk];
                return flight.wait().map(|bytes| copy(&bytes, within, buffer));
            } else if state.flights.len() < self.options.fetches_max {
                let wanted = (within + buffer.len()).div_ceil(chunk_bytes);
                let flights = self.begin_flights(&mut state, id, wanted);
                drop(state);
                let bytes = self.fetch(name, id, &flights)?;
                return Ok(copy(&bytes, within, buffer));
            } else {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Begins to fetch a chunk, with those behind it that are wanted and missing too.
    fn begin_flights(&self, state: &mut State, first: ChunkId, wanted: usize) -> Vec<Arc<Flight>> {
        let room = self.options.fetches_max - state.flights.len();
        let mut flights = Vec::new();
        for step in 0..wanted.min(room).max(1) {
            let id = ChunkId { index: first.index.saturating_add(step as u64), ..first };
            if step > 0 && (state.index.has(&id) || state.flights.contains_key(&id)) {
                break;
            }
            let flight = Arc::new(Flight::default());
            state.flights.insert(id, Arc::clone(&flight));
            flights.push(flight);
        }
        flights
    }

    /// Fetches neighbouring chunks with one request, and returns their bytes.
    fn fetch(&self, name: &str, first: ChunkId, flights: &[Arc<Flight>]) -> Result<Bytes, Error> {
        // Ends the flights also if the source panics: others wait for them.
        let _landing = Landing { cache: self, first, flights };
        let chunk_bytes = self.options.chunk_bytes as usize;
        let mut bytes = vec![0; chunk_bytes * flights.len()];
        let offset = first.index.saturating_mul(chunk_bytes as u64);
        self.fetches.fetch_add(flights.len() as u64, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let outcome = self.source.read_range(name, offset, &mut bytes).map(|read| {
            bytes.truncate(read);
            Bytes::from(bytes)
        });
        let part = |bytes: &Bytes, step: usize| {
            let begin = (step * chunk_bytes).min(bytes.len());
            bytes.slice(begin..(begin + chunk_bytes).min(bytes.len()))
        };
        for (step, flight) in flights.iter().enumerate() {
            flight.end(outcome.clone().map(|bytes| part(&bytes, step)));
        }
        if let Ok(bytes) = &outcome {
            for step in 0..flights.len() {
                let id = ChunkId { index: first.index.saturating_add(step as u64), ..first };
                let part = part(bytes, step);
                // Nothing is kept of what is behind the end of an object.
                if !part.is_empty() {
                    self.keep(&id, &part);
                }
            }
        }
        outcome
    }

    fn keep(&self, id: &ChunkId, bytes: &[u8]) {
        match chunk::write(&self.options.directory, id, self.options.chunk_bytes, bytes) {
            Ok(size) => {
                let mut state = self.lock();
                state.index.insert(*id, size);
                self.delete_oldest(&mut state);
            }
            Err(error) => {
                let directory = self.options.directory.display();
                log::warn!("the cache {directory} cannot keep a chunk: {error}");
            }
        }
    }

    fn drop_chunk(&self, id: &ChunkId, version: u64, error: &std::io::Error) {
        let mut state = self.lock();
        // It may have been deleted for its age since it was looked up, and fetched again.
        if state.index.remove_version(id, version) {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            let file = id.path(&self.options.directory);
            log::warn!("the cache deletes {}, which cannot be used: {error}", file.display());
            remove(&file);
        }
    }

    fn delete_oldest(&self, state: &mut State) {
        while state.index.bytes() > self.options.bytes_max {
            let Some(id) = state.index.remove_oldest() else { break };
            remove(&id.path(&self.options.directory));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends flights when it is dropped.
struct Landing<'a, S> {
    cache: &'a RangeCache<S>,
    first: ChunkId,
    flights: &'a [Arc<Flight>],
}

impl<S> Drop for Landing<'_, S> {
    fn drop(&mut self) {
        let broken = Error::new(ErrorKind::Retriable, "the fetch was broken off", "");
        let mut state = self.cache.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (step, flight) in (0..).zip(self.flights) {
            flight.end(Err(broken.clone()));
            let index = self.first.index.saturating_add(step);
            state.flights.remove(&ChunkId { index, ..self.first });
        }
        self.cache.ended.notify_all();
    }
}

/// Copies what `bytes` have from `within` on; returns how much that is.
fn copy(bytes: &[u8], within: usize, buffer: &mut [u8]) -> usize {
    let rest = bytes.get(within..).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

fn remove(file: &Path) {
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        log::warn!("the cache cannot delete {}: {error}", file.display());
    }
}

#[cfg(test)]
mod tests;
