//! Sealed segments in object storage, as queries read them: parts of objects come over the network,
//! and stay on the local disk and in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::engines::ErrorKind;
use cluster::engines::cache::{Counts, Options, RangeCache};
use cluster::engines::objects::Bucket;
use cluster::{ObjectError, Objects};
use foldhash::quality::FixedState;
use query::source::{
    DamagedUnit, EachCount, Grouped, Phrases, ScanUnit, SourceError, UnitKey, Whose, WithColumns,
};
use record::{Batch, Tenant};
use segment::sealed::SealedFile;
use segment::{Blob, CachedBlob, RangeCache as MemoryCache, SegmentError};

use super::SegmentPiece;
use crate::storage::stored::words_of;

/// Memory for parts of objects.
const MEMORY_BYTES_MAX: usize = 128 << 20;
/// Memory for footers of segments.
///
/// limits.md, Nodes of a cluster: footers of segments in memory, and parts of segments in memory |
/// {} each | the footers used longest ago, and random parts, are dropped
const FOOTERS_BYTES_MAX: usize = 128 << 20;
/// Segments that are opened at the same time for one query.
///
/// limits.md, Nodes of a cluster: segments that a query opens at a time | {} | further ones wait
const OPENINGS_MAX: usize = 16;

/// How long an object that was missing is not asked for again. Until then queries over its segment
/// fail before they send rows, or leave it out.
const MISSING_FOR: Duration = Duration::from_secs(30);
/// How long a block that could not be read otherwise counts as one that cannot be.
const UNREADABLE_FOR: Duration = Duration::from_secs(2);
/// Objects, and blocks, that are known to be missing or unreadable. Of more, all are asked for
/// again.
const UNREADABLE_MAX: usize = 4_096;
/// What an error says of an object that is missing; its name is before.
const IS_MISSING: &str = " is missing in the object storage";
/// What an error says when the object storage does not answer.
const AWAY: &str = "the object storage cannot be read: ";

fn missing(name: &str) -> String {
    format!(
        "segment {name}{IS_MISSING}: restore the object from a backup of the bucket, or ask with \
         allow_partial_response=1 for an answer without it"
    )
}

/// Whether an error says that the storage does not answer, so that the same query may succeed
/// later.
pub fn is_storage_away(error: &str) -> bool {
    error.contains(AWAY)
}

/// The objects and blocks that could not be read lately: since when, for how long they are left
/// alone, and the errors.
#[derive(Default)]
struct Unreadable(Mutex<UnreadablePlaces>);

type UnreadablePlaces = HashMap<(u64, Option<u32>), (Instant, Duration, String)>;

impl Unreadable {
    fn lock(&self) -> MutexGuard<'_, UnreadablePlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an object, or a block of it. True if it is not known yet.
    fn add(&self, at: (u64, Option<u32>), lasts: Duration, error: String) -> bool {
        let mut known = self.lock();
        if known.len() >= UNREADABLE_MAX {
            known.retain(|_, (since, lasts, _)| since.elapsed() < *lasts);
        }
        if known.len() >= UNREADABLE_MAX {
            known.clear();
        }
        known.insert(at, (Instant::now(), lasts, error)).is_none()
    }

    /// Why an object, or a block of it, could not be read a moment ago; none if it may be read now.
    fn why(&self, at: (u64, Option<u32>)) -> Option<String> {
        let known = self.lock();
        let (since, lasts, error) = known.get(&at)?;
        (since.elapsed() < *lasts).then(|| error.clone())
    }
}

/// Footers and word filters have one of so many parts of the cache on the local disk for
/// themselves, so that no scan over lines drops them: they are about that part of a segment.
///
/// limits.md, Nodes of a cluster: parts of `cluster.objects.cache_bytes` of which one is for
/// footers and word filters | {} | those read longest ago are fetched again
const INDEX_PART: u64 = 8;
/// They are kept in chunks of this size: a footer alone is smaller than a chunk of lines.
const INDEX_CHUNK_BYTES: u32 = 128 << 10;
/// Chunks of them that are fetched at the same time, several of them with one request.
const INDEX_FETCHES_MAX: usize = 128;
/// The folder of these chunks, in that of all others.
const INDEX_FOLDER: &str = "index";

/// The bytes of an object, through the caches on the local disk.
struct CachedObject {
    cache: Arc<RangeCache<SharedBucket>>,
    index: Arc<RangeCache<SharedBucket>>,
    unreadable: Arc<Unreadable>,
    name: String,
    bytes: u64,
}

/// The bucket that the cache shares with uploads.
pub struct SharedBucket(pub Arc<Bucket>);

impl cluster::engines::cache::Source for SharedBucket {
    fn read_range(
        &self,
        name: &str,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, cluster::engines::Error> {
        self.0.read_range_soon(name, offset, buffer)
    }
}

impl Blob for CachedObject {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(&self.cache, offset, buffer)
    }

    fn read_index(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(&self.index, offset, buffer)
    }
}

impl CachedObject {
    fn read(
        &self,
        cache: &RangeCache<SharedBucket>,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        cache.read_range(&self.name, offset, buffer).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                let error = missing(&self.name);
                if self.unreadable.add((key(&self.name), None), MISSING_FOR, error.clone()) {
                    tracing::error!("{error}");
                }
                io::Error::new(io::ErrorKind::NotFound, error)
            }
            _ if error.is_failure() => io::Error::other(format!("{AWAY}{error}")),
            _ => io::Error::other(error),
        })
    }
}

/// The bytes of an object, without a cache: for what is read once.
struct WholeObject {
    bucket: Arc<dyn Objects>,
    name: String,
    bytes: u64,
}

impl Blob for WholeObject {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.bucket.read_range(&self.name, offset, buffer).map_err(|error| match error {
            ObjectError::Missing(_) => io::Error::new(io::ErrorKind::NotFound, error),
            error => io::Error::other(error),
        })
    }
}

/// Opens a segment for reading it once.
pub fn open_once(
    bucket: &Arc<dyn Objects>,
    name: &str,
    bytes: u64,
) -> Result<SealedFile, SegmentError> {
    let blob = WholeObject { bucket: Arc::clone(bucket), name: name.to_owned(), bytes };
    SealedFile::of_blob(Arc::new(blob), Path::new(name))
}

/// The open segments. The footers that were used longest ago are dropped beyond a limit.
pub struct Segments {
    disk: Arc<RangeCache<SharedBucket>>,
    /// Footers and word filters.
    index: Arc<RangeCache<SharedBucket>>,
    memory: Arc<MemoryCache>,
    unreadable: Arc<Unreadable>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: HashMap<String, (Arc<SealedFile>, u64)>,
    bytes: usize,
    /// Counts uses, to know which file was used longest ago.
    uses: u64,
}

impl Segments {
    /// Keeps up to `bytes_max` of parts of objects in `directory`.
    ///
    /// Errors: the directory cannot be used, or another process uses it.
    pub fn new(
        bucket: Arc<Bucket>,
        directory: &Path,
        bytes_max: u64,
    ) -> Result<Segments, cluster::engines::Error> {
        let of_index = bytes_max / INDEX_PART;
        let options = Options { bytes_max: bytes_max - of_index, ..Options::new(directory) };
        let disk = Arc::new(RangeCache::open(SharedBucket(Arc::clone(&bucket)), options)?);
        let options = Options {
            bytes_max: of_index,
            chunk_bytes: INDEX_CHUNK_BYTES,
            fetches_max: INDEX_FETCHES_MAX,
            ..Options::new(directory.join(INDEX_FOLDER))
        };
        let index = Arc::new(RangeCache::open(SharedBucket(bucket), options)?);
        let memory = MemoryCache::new(MEMORY_BYTES_MAX);
        Ok(Segments { disk, index, memory, unreadable: Arc::default(), open: Mutex::default() })
    }

    /// What the caches on the local disk did so far: that of lines, and that of footers and word
    /// filters.
    pub fn counts(&self) -> [Counts; 2] {
        [self.disk.counts(), self.index.counts()]
    }

    /// Opens segments, several at the same time, in their order. An error says why an object cannot
    /// be read, or is damaged; the text names it.
    pub fn open_each(
        &self,
        segments: &[SegmentPiece],
    ) -> Vec<Result<Arc<SealedFile>, SourceError>> {
        let mut files = Vec::with_capacity(segments.len());
        for some in segments.chunks(OPENINGS_MAX) {
            match some {
                [one] => files.push(self.open(one)),
                some => std::thread::scope(|scope| {
                    let calls: Vec<_> =
                        some.iter().map(|one| scope.spawn(|| self.open(one))).collect();
                    let joined = calls.into_iter().map(|call| call.join().ok());
                    files.extend(joined.map(|file| file.unwrap_or_else(|| Err(panicked()))));
                }),
            }
        }
        files
    }

    /// Opens a segment.
    ///
    /// Errors: as of [`open_each`](Self::open_each).
    pub fn open(
        &self,
        SegmentPiece(name, bytes, _): &SegmentPiece,
    ) -> Result<Arc<SealedFile>, SourceError> {
        if let Some(error) = self.unreadable.why((key(name), None)) {
            return Err(SourceError(error));
        }
        if let Some(file) = self.get(name) {
            return Ok(file);
        }
        let object = CachedObject {
            cache: Arc::clone(&self.disk),
            index: Arc::clone(&self.index),
            unreadable: Arc::clone(&self.unreadable),
            name: name.clone(),
            bytes: *bytes,
        };
        let blob = CachedBlob::new(Arc::new(object), key(name), Arc::clone(&self.memory));
        let blob = blob.map_err(|error| SourceError(format!("{name}: {error}")))?;
        let file = SealedFile::of_blob(Arc::new(blob), Path::new(name));
        let file = Arc::new(file.map_err(|error| SourceError(error.to_string()))?);
        self.put(name, &file);
        Ok(file)
    }

    fn get(&self, name: &str) -> Option<Arc<SealedFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let uses = open.uses;
        let (file, used) = open.files.get_mut(name)?;
        *used = uses;
        Some(Arc::clone(file))
    }

    fn put(&self, name: &str, file: &Arc<SealedFile>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = file.footer().memory_bytes();
        while open.bytes + bytes > FOOTERS_BYTES_MAX {
            let oldest = open.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            let gone = open.files.remove(&oldest).expect("just found");
            open.bytes -= gone.0.footer().memory_bytes();
        }
        let uses = open.uses;
        if open.files.insert(name.to_owned(), (Arc::clone(file), uses)).is_none() {
            open.bytes += bytes;
        }
    }
}

fn panicked() -> SourceError {
    SourceError("a segment could not be opened because of a bug; see the log".to_owned())
}

/// A number for an object: names are never given again.
pub fn key(name: &str) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// A block of a segment.
pub struct ObjectBlock {
    unreadable: Arc<Unreadable>,
    file: Arc<SealedFile>,
    key: u64,
    block: usize,
    whose: Whose,
    /// Whether the counts that the segment keeps are those of the lines that a query sees.
    is_counted: bool,
}

impl ObjectBlock {
    /// The blocks of a segment that may have lines of the range. `is_counted`: no line of the
    /// segment is hidden, so that the counts that it keeps may be used.
    pub fn of_file(
        segments: &Segments,
        file: &Arc<SealedFile>,
        (first_ns, last_ns): (i64, i64),
        whose: Whose,
        is_counted: bool,
    ) -> impl Iterator<Item = ObjectBlock> + use<> {
        let (unreadable, file) = (Arc::clone(&segments.unreadable), Arc::clone(file));
        let key = key(&file.path().to_string_lossy());
        (0..file.footer().blocks.len()).filter_map(move |block| {
            let entry = &file.footer().blocks[block];
            let overlaps = entry.time_ns.0 <= last_ns && first_ns <= entry.time_ns.1;
            let is_wanted = whose == Whose::All || entry.lines_internal < entry.lines;
            let (unreadable, file) = (Arc::clone(&unreadable), Arc::clone(&file));
            let block = ObjectBlock { unreadable, file, key, block, whose, is_counted };
            (overlaps && is_wanted).then_some(block)
        })
    }

    /// The error of a read, which is remembered.
    fn failed(&self, error: &SegmentError) -> SourceError {
        let text = error.to_string();
        self.unreadable.add((self.key, Some(self.block as u32)), UNREADABLE_FOR, text.clone());
        SourceError(text)
    }
}

impl ScanUnit for ObjectBlock {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.file.footer().blocks[self.block].time_ns)
    }

    fn lines(&self) -> u64 {
        u64::from(self.file.footer().blocks[self.block].lines)
    }

    fn bytes(&self) -> u64 {
        self.file.footer().blocks[self.block].bytes_raw
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let batch = self.file.read_block(self.block).map_err(|error| self.failed(&error))?;
        Ok(Some(Arc::new(batch)))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        self.file.may_contain(self.block, words_of(phrases)).map_err(|error| self.failed(&error))
    }

    fn tenant(&self) -> Option<Tenant> {
        Some(self.file.footer().blocks[self.block].tenant)
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let read = |number| self.file.chunk(self.block, number).map(Arc::new);
        let done = self.file.with_columns(self.block, &read, |columns| with(columns));
        done.map_err(|error| self.failed(&error))??;
        Ok(true)
    }

    /// A block that could not be read: the query goes on without it, where it may.
    fn damage(&self) -> Option<DamagedUnit> {
        let block = self.block as u32;
        let of_object = || self.unreadable.why((self.key, None));
        let error = self.unreadable.why((self.key, Some(block))).or_else(of_object)?;
        Some(DamagedUnit { segment: self.key, unit: Some(block), lines: self.lines(), error })
    }

    fn key(&self) -> Option<UnitKey> {
        Some((self.key, self.block as u32))
    }

    fn segment(&self) -> Option<(u64, usize)> {
        self.is_counted.then(|| (self.key, self.file.footer().blocks.len()))
    }

    fn count_segment(
        &self,
        grouped: Grouped<'_>,
        each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        let Grouped { fields, bucket_ns, range } = grouped;
        let from_ns = Some(range.start_ns).filter(|&ns| ns != i64::MIN);
        let to_ns = Some(range.end_ns).filter(|&ns| ns != i64::MAX);
        // Segments keep counts of the lines from senders only.
        if self.whose == Whose::All && self.file.footer().lines_internal() > 0 {
            return Ok(false);
        }
        Ok(self.file.footer().visit_counts(fields, bucket_ns, (from_ns, to_ns), each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_blocks_are_remembered_as_unreadable() {
        let unreadable = Unreadable::default();
        let name = "segments/partition-1/7-0000000a-12";
        let long = Duration::from_secs(3_600);
        assert!(unreadable.add((key(name), None), long, missing(name)));
        assert!(!unreadable.add((key(name), None), long, missing(name)));
        assert_eq!(unreadable.why((key(name), None)), Some(missing(name)));
        assert_eq!(unreadable.why((key(name), Some(1))), None);
        unreadable.add((1, Some(1)), Duration::ZERO, "away".to_owned());
        assert_eq!(unreadable.why((1, Some(1))), None, "its time is over");
        for number in 0..UNREADABLE_MAX as u64 {
            unreadable.add((number, Some(0)), long, String::new());
        }
        assert!(unreadable.lock().len() <= UNREADABLE_MAX);
        assert!(is_storage_away(&format!("x: {AWAY}refused")) && !is_storage_away(&missing(name)));
    }
}
