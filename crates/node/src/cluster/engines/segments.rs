//! Sealed segments in object storage, as queries read them: parts of objects come over the network,
//! and stay on the local disk and in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::engines::ErrorKind;
use cluster::engines::cache::{Options, RangeCache};
use cluster::engines::objects::Bucket;
use cluster::{ObjectName, Objects};
use foldhash::quality::FixedState;
use query::source::{
    EachCount, Grouped, Phrases, ScanUnit, SourceError, UnitKey, Whose, WithColumns,
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
/// Objects that are known to be missing. Of more, all are asked for again.
const MISSING_MAX: usize = 1_024;
/// What an error says of an object that is missing; its name is before.
const IS_MISSING: &str = " is missing in the object storage";

/// The segment whose object is missing according to an error of any node.
pub fn missing_segment(error: &str) -> Option<&str> {
    let (before, _) = error.split_once(IS_MISSING)?;
    let name = before.rsplit(' ').next()?;
    name.parse::<ObjectName>().is_ok().then_some(name)
}

fn missing(name: &str) -> String {
    format!(
        "segment {name}{IS_MISSING}: restore the object from a backup of the bucket, or ask with \
         allow_partial_response=1 for an answer without it"
    )
}

/// The objects that were found missing lately.
#[derive(Default)]
struct MissingObjects(Mutex<HashMap<String, Instant>>);

impl MissingObjects {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &str) {
        let mut names = self.lock();
        if names.len() >= MISSING_MAX {
            names.clear();
        }
        if names.insert(name.to_owned(), Instant::now()).is_none() {
            tracing::error!("{}", missing(name));
        }
    }

    /// Whether the object was found missing a moment ago.
    fn has(&self, name: &str) -> bool {
        let mut names = self.lock();
        names.retain(|_, at| at.elapsed() < MISSING_FOR);
        names.contains_key(name)
    }
}

/// The bytes of an object, through the cache on the local disk.
struct CachedObject {
    cache: Arc<RangeCache<SharedBucket>>,
    missing: Arc<MissingObjects>,
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
        self.0.read_range(name, offset, buffer)
    }
}

impl Blob for CachedObject {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.cache.read_range(&self.name, offset, buffer).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                self.missing.add(&self.name);
                io::Error::new(io::ErrorKind::NotFound, missing(&self.name))
            }
            _ => io::Error::other(error),
        })
    }
}

/// The bytes of an object, without a cache: for what is read once.
struct WholeObject {
    bucket: Arc<Bucket>,
    name: String,
    bytes: u64,
}

impl Blob for WholeObject {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_range(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Objects::read_range(&*self.bucket, &self.name, offset, buffer).map_err(io::Error::other)
    }
}

/// Opens a segment for reading it once.
pub fn open_once(bucket: &Arc<Bucket>, name: &str, bytes: u64) -> Result<SealedFile, SegmentError> {
    let blob = WholeObject { bucket: Arc::clone(bucket), name: name.to_owned(), bytes };
    SealedFile::of_blob(Arc::new(blob), Path::new(name))
}

/// The open segments. The footers that were used longest ago are dropped beyond a limit.
pub struct Segments {
    disk: Arc<RangeCache<SharedBucket>>,
    memory: Arc<MemoryCache>,
    missing: Arc<MissingObjects>,
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
        let options = Options { bytes_max, ..Options::new(directory) };
        let disk = Arc::new(RangeCache::open(SharedBucket(bucket), options)?);
        let memory = MemoryCache::new(MEMORY_BYTES_MAX);
        Ok(Segments { disk, memory, missing: Arc::default(), open: Mutex::default() })
    }

    /// What the cache on the local disk did so far.
    pub fn counts(&self) -> cluster::engines::cache::Counts {
        self.disk.counts()
    }

    /// Opens segments, several at the same time, in their order.
    ///
    /// Errors: an object cannot be read or is damaged; the text names it.
    pub fn open_all(&self, segments: &[SegmentPiece]) -> Result<Vec<Arc<SealedFile>>, SourceError> {
        let mut files = Vec::with_capacity(segments.len());
        for some in segments.chunks(OPENINGS_MAX) {
            let opened: Vec<_> = match some {
                [one] => vec![self.open(one)],
                some => std::thread::scope(|scope| {
                    let calls: Vec<_> =
                        some.iter().map(|one| scope.spawn(|| self.open(one))).collect();
                    let joined = calls.into_iter().map(|call| call.join().ok());
                    joined.map(|file| file.unwrap_or_else(|| Err(panicked()))).collect()
                }),
            };
            for file in opened {
                files.push(file?);
            }
        }
        Ok(files)
    }

    /// Opens a segment.
    ///
    /// Errors: as of [`open_all`](Self::open_all).
    pub fn open(
        &self,
        SegmentPiece(name, bytes): &SegmentPiece,
    ) -> Result<Arc<SealedFile>, SourceError> {
        if self.missing.has(name) {
            return Err(SourceError(missing(name)));
        }
        if let Some(file) = self.get(name) {
            return Ok(file);
        }
        let object = CachedObject {
            cache: Arc::clone(&self.disk),
            missing: Arc::clone(&self.missing),
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
fn key(name: &str) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// A block of a segment.
pub struct ObjectBlock {
    file: Arc<SealedFile>,
    key: u64,
    block: usize,
    whose: Whose,
}

impl ObjectBlock {
    /// The blocks of a segment that may have lines of the range.
    pub fn of_file(
        file: &Arc<SealedFile>,
        (first_ns, last_ns): (i64, i64),
        whose: Whose,
    ) -> impl Iterator<Item = ObjectBlock> + use<> {
        let file = Arc::clone(file);
        let key = key(&file.path().to_string_lossy());
        (0..file.footer().blocks.len()).filter_map(move |block| {
            let entry = &file.footer().blocks[block];
            let overlaps = entry.time_ns.0 <= last_ns && first_ns <= entry.time_ns.1;
            let is_wanted = whose == Whose::All || entry.lines_internal < entry.lines;
            let file = Arc::clone(&file);
            (overlaps && is_wanted).then(|| ObjectBlock { file, key, block, whose })
        })
    }
}

fn source_error(error: SegmentError) -> SourceError {
    SourceError(error.to_string())
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
        let batch = self.file.read_block(self.block).map_err(source_error)?;
        Ok(Some(Arc::new(batch)))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        self.file.may_contain(self.block, words_of(phrases)).map_err(source_error)
    }

    fn tenant(&self) -> Option<Tenant> {
        Some(self.file.footer().blocks[self.block].tenant)
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let read = |number| self.file.chunk(self.block, number).map(Arc::new);
        let done = self.file.with_columns(self.block, &read, |columns| with(columns));
        done.map_err(source_error)??;
        Ok(true)
    }

    fn key(&self) -> Option<UnitKey> {
        Some((self.key, self.block as u32))
    }

    fn segment(&self) -> Option<(u64, usize)> {
        Some((self.key, self.file.footer().blocks.len()))
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
    fn the_segment_that_is_missing_is_known_from_the_error_of_a_node() {
        let name = "segments/partition-1/7-0000000a-12";
        assert!(name.parse::<ObjectName>().is_ok());
        let error = format!("store b:9514: cannot read {name}: {}", missing(name));
        assert_eq!(missing_segment(&error), Some(name));
        for other in ["", IS_MISSING, "segment x is missing in the object storage", name] {
            assert_eq!(missing_segment(other), None, "{other}");
        }
    }

    #[test]
    fn objects_are_remembered_as_missing() {
        let objects = MissingObjects::default();
        objects.add("a");
        assert!(objects.has("a") && !objects.has("b"));
        for number in 1..MISSING_MAX {
            objects.add(&number.to_string());
        }
        assert!(objects.has("a"));
        objects.add("b");
        assert!(!objects.has("a") && objects.has("b"));
    }
}
