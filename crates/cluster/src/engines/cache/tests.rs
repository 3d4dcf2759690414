//! The cache over a source of this process that fails and counts.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;

/// Objects whose bytes follow from their name; the name ends with their size.
#[derive(Debug, Default)]
struct Made {
    reads: Mutex<Vec<(String, u64)>>,
    failures: AtomicUsize,
    /// Reads that are under way, and how many there were at most.
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
}

fn bytes_of(name: &str) -> Vec<u8> {
    let size: usize = name.rsplit('-').next().unwrap().parse().unwrap();
    let seed = u64::from(crc32c::crc32c(name.as_bytes()));
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}

impl Source for Made {
    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        self.reads.lock().unwrap().push((name.to_owned(), offset));
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.under_way_max.fetch_max(under_way, Ordering::SeqCst);
        // Others that want the same arrive meanwhile.
        std::thread::yield_now();
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        let is_failing = |count: usize| count.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_failing).is_ok() {
            return Err(Error::new(ErrorKind::Retriable, "broken", ""));
        }
        Ok(copy(&bytes_of(name), offset as usize, buffer))
    }
}

fn open(directory: &Path, chunk_bytes: u32, bytes_max: u64) -> RangeCache<Made> {
    let options = Options { bytes_max, chunk_bytes, fetches_max: 3, ..Options::new(directory) };
    RangeCache::open(Made::default(), options).unwrap()
}

fn read(cache: &RangeCache<Made>, name: &str, offset: u64, count: usize) -> Vec<u8> {
    let mut buffer = vec![0; count];
    let read = cache.read_range(name, offset, &mut buffer).unwrap();
    buffer.truncate(read);
    buffer
}

fn expected(name: &str, offset: usize, count: usize) -> Vec<u8> {
    bytes_of(name).into_iter().skip(offset).take(count).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(directory).unwrap().map(|folder| folder.unwrap().path());
    let folders = folders.filter(|folder| folder.is_dir());
    folders
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The cache gives what the source has, whatever is evicted, and however it is opened anew.
    #[test]
    fn reads_are_those_of_the_source(
        chunk_bytes in prop_oneof![1_u32..300, Just(65_536), Just(100_000)],
        bytes_max in 0_u64..300_000,
        reads in proptest::collection::vec((0..4_usize, 0..220_000_u64, 0..150_000_usize), 1..30),
        reopened in proptest::collection::hash_set(0..30_usize, 0..3),
    ) {
        let names = ["a-0", "b-1000", "c-65536", "d-200000"];
        let folder = tempfile::tempdir().unwrap();
        let mut cache = open(folder.path(), chunk_bytes, bytes_max);
        for (number, (object, offset, count)) in reads.into_iter().enumerate() {
            // Small chunks of large ranges would be many files.
            let count = count.min(chunk_bytes as usize * 20);
            if reopened.contains(&number) {
                drop(cache);
                cache = open(folder.path(), chunk_bytes, bytes_max);
            }
            let found = read(&cache, names[object], offset, count);
            prop_assert!(found == expected(names[object], offset as usize, count));
            prop_assert!(cache.counts().bytes <= bytes_max);
        }
        let sizes: u64 = files(folder.path()).iter().map(|f| f.metadata().unwrap().len()).sum();
        prop_assert_eq!(sizes, cache.counts().bytes);
        prop_assert_eq!(cache.counts().damaged, 0);
    }

    /// A file with a wrong byte, or cut, is noticed and fetched again.
    #[test]
    fn damaged_files_are_fetched_again(at in any::<prop::sample::Index>(), is_cut in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 200_000, u64::MAX);
        let name = "d-150000";
        read(&cache, name, 0, 1);
        let file = files(folder.path()).remove(0);
        let mut bytes = std::fs::read(&file).unwrap();
        let at = at.index(bytes.len());
        match is_cut {
            true => bytes.truncate(at),
            false => bytes[at] ^= 0x10,
        }
        std::fs::write(&file, bytes).unwrap();
        prop_assert!(read(&cache, name, 0, 200_000) == expected(name, 0, 200_000));
        prop_assert_eq!((cache.counts().damaged, cache.counts().fetches), (1, 2));
        prop_assert!(read(&cache, name, 0, 200_000) == expected(name, 0, 200_000));
        prop_assert_eq!((cache.counts().damaged, cache.counts().fetches), (1, 2));
    }
}

#[test]
fn a_restart_keeps_the_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    read(&cache, "x-1000", 0, 1000);
    assert_eq!(cache.counts().fetches, 10);
    let bytes = cache.counts().bytes;
    drop(cache);
    std::fs::write(folder.path().join("note"), "of somebody else").unwrap();
    let part = files(folder.path())[0].with_extension("part");
    std::fs::write(&part, "not finished").unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    assert_eq!(cache.counts().bytes, bytes);
    assert!(read(&cache, "x-1000", 0, 1000) == expected("x-1000", 0, 1000));
    assert_eq!((cache.counts().fetches, cache.counts().hits), (0, 10));
    assert!(!part.exists());
    drop(cache);
    // Chunks of another size are of no use.
    let cache = open(folder.path(), 200, u64::MAX);
    assert_eq!((cache.counts().bytes, files(folder.path()).len()), (0, 0));
}

#[test]
fn the_chunk_read_longest_ago_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    read(&cache, "x-100", 0, 100);
    let size = cache.counts().bytes;
    drop(cache);
    let cache = open(folder.path(), 100, 3 * size);
    for name in ["x-100", "y-100", "z-100", "x-100", "w-100"] {
        read(&cache, name, 0, 100);
    }
    assert_eq!(cache.counts().fetches, 3);
    read(&cache, "x-100", 0, 100);
    assert_eq!(cache.counts().fetches, 3);
    read(&cache, "y-100", 0, 100);
    assert_eq!(cache.counts().fetches, 4);
}

#[test]
fn a_chunk_is_fetched_once_by_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 1000, u64::MAX);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for round in 0..20 {
                    let name = format!("o-{}", 10_000 + round);
                    assert!(read(&cache, &name, 0, 20_000) == expected(&name, 0, 20_000));
                }
            });
        }
    });
    let reads = cache.source.reads.lock().unwrap();
    // What is behind the end of an object of full chunks is asked for each time.
    let kept: Vec<_> = reads.iter().filter(|(_, offset)| *offset < 10_000).collect();
    let different: HashSet<_> = kept.iter().collect();
    assert_eq!(kept.len(), different.len());
    assert!(cache.source.under_way_max.load(Ordering::SeqCst) <= 3);
}

#[test]
fn neighbouring_chunks_that_are_missing_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    let check = |offset, count, fetches, requests| {
        assert!(read(&cache, "x-950", offset, count) == expected("x-950", offset as usize, count));
        let counts = cache.counts();
        assert_eq!((counts.fetches, counts.requests), (fetches, requests), "{offset} {count}");
    };
    // At most three chunks are in memory.
    check(50, 200, 3, 1);
    check(0, 300, 3, 1);
    check(500, 100, 4, 2);
    // A chunk in between is there.
    check(250, 450, 7, 4);
    check(700, 1000, 10, 5);
    check(0, 1000, 10, 5);
}

#[test]
fn a_failure_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    cache.source.failures.store(1, Ordering::SeqCst);
    let error = cache.read_range("x-100", 0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable);
    assert!(read(&cache, "x-100", 0, 10) == expected("x-100", 0, 10));
}

#[test]
fn a_directory_that_cannot_be_written_costs_speed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 100, u64::MAX);
    // A file stands where the folder of the chunk should be.
    let id = ChunkId { object: ChunkId::object("x-100"), index: 0 };
    std::fs::write(id.path(folder.path()).parent().unwrap(), "").unwrap();
    for _ in 0..2 {
        assert!(read(&cache, "x-100", 0, 100) == expected("x-100", 0, 100));
    }
    assert_eq!((cache.counts().fetches, cache.counts().bytes), (2, 0));
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |options| RangeCache::open(Made::default(), options).err().map(|e| e.to_string());
    let right = Options::new(folder.path());
    let first = RangeCache::open(Made::default(), right.clone()).unwrap();
    let error = open(right.clone()).unwrap();
    assert!(error.contains("another process uses the cache"), "{error}");
    drop(first);
    assert!(open(Options { chunk_bytes: 0, ..right.clone() }).is_some());
    assert!(open(Options { chunk_bytes: u32::MAX, ..right.clone() }).is_some());
    assert!(open(Options { fetches_max: 0, ..right.clone() }).is_some());
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = open(Options::new(file)).unwrap();
    assert!(error.contains("name a directory that Loginson may write"), "{error}");
    assert_eq!(open(right), None);
}
