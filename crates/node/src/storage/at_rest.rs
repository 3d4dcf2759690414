//! A data directory at rest as a source of records: for queries without a server.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::{Access, Disk};
use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use record::frame::FRAME_INTERNAL;
use record::{Batch, LineId};
use segment::sealed::{NodeNumbers, SealedFile};
use segment::{FrameEntry, SegmentError, read_frame};
use store::{AtRest, SegmentKind};

use crate::storage::stored::Parsers;

/// All lines of a directory, by frame and block.
///
/// The readable part of a damaged directory can be queried; the rest is left out, and reported by
/// [`faults`](Self::faults).
pub struct RestSource {
    shared: Arc<Shared>,
    units: Vec<UnitLocation>,
    /// Holds the lock of the directory.
    _directory: AtRest,
}

/// Sealed segments that are kept open, with their footers. Beyond that the one opened first is
/// closed: a directory may have many thousands.
const OPEN_FILES_MAX: usize = 32;

/// The state for reading.
struct Shared {
    disk: Arc<dyn Disk>,
    parsers: Parsers,
    faults: Mutex<Vec<String>>,
    open: Mutex<VecDeque<SealedFile>>,
    /// Called with the bytes of raw lines that were read or skipped.
    advanced: Box<dyn Fn(u64) + Send + Sync>,
}

/// The location of records: a frame of a hot segment, or a block of a sealed one.
#[derive(Clone)]
struct UnitLocation {
    path: Arc<PathBuf>,
    what: What,
    time_ns: Option<(i64, i64)>,
    sequence: (u64, u64),
    /// The frames that its lines arrived in.
    numbers: Vec<NodeNumbers>,
    lines: u64,
    bytes_raw: u64,
    /// The lines are own lines of Loginson.
    is_own: bool,
}

#[derive(Clone)]
enum What {
    Frame(FrameEntry),
    Block(usize),
}

impl RestSource {
    /// The lines of a directory. Reads the ends of its files, or whole hot segments that were not
    /// closed. `advanced` is called with the bytes of raw lines as they are read.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: AtRest,
        parsers: Parsers,
        advanced: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let mut units = Vec::new();
        let mut faults: Vec<String> = Vec::new();
        faults.extend(directory.catalog_fault.as_ref().map(ToString::to_string));
        faults.extend(directory.missing.iter().map(|(id, row)| {
            let path = directory.dir.join(store::SEGMENTS_DIR).join(&row.file);
            let (path, lines) = (path.display(), row.lines);
            format!("{path}: segment {id}, of which the catalog knows {lines} lines, is not there")
        }));
        for (segment, contents) in directory.hot_contents(&*disk) {
            let path = Arc::new(segment.path.clone());
            match contents {
                Ok(contents) => {
                    // A last write that a crash interrupted was never acknowledged, so it is not a
                    // fault.
                    let lacks_frames = segment.lacks_frames(&contents);
                    if let segment::Origin::Scan(scan) = contents.origin
                        && (scan.damaged_places > 0 || lacks_frames)
                    {
                        faults.extend(scan.damages.iter().map(ToString::to_string));
                        // A file that ends behind a whole frame shows no damage.
                        if scan.damages.is_empty() {
                            let (path, at) = (path.display(), contents.data_end);
                            faults.push(format!(
                                "{path} at byte {at}: its frames end here, and the catalog knows of more lines"
                            ));
                        }
                    }
                    units.extend(contents.frames.into_iter().map(|entry| UnitLocation {
                        path: Arc::clone(&path),
                        what: What::Frame(entry),
                        time_ns: entry.time_range_ns(),
                        sequence: (entry.sequence, entry.sequence),
                        numbers: {
                            let (node, number) = entry.name();
                            vec![NodeNumbers { node, first: number, last: number }]
                        },
                        lines: entry.lines.into(),
                        bytes_raw: entry.payload_bytes.into(),
                        is_own: entry.flags & FRAME_INTERNAL != 0,
                    }));
                }
                Err(error) => faults.push(error.to_string()),
            }
        }
        for segment in directory.segments.iter().filter(|s| s.kind == SegmentKind::Sealed) {
            let path = Arc::new(segment.path.clone());
            match SealedFile::open(&*disk, &path) {
                Ok(file) => {
                    let blocks = file.footer().blocks.iter().enumerate();
                    units.extend(blocks.map(|(location, block)| UnitLocation {
                        path: Arc::clone(&path),
                        what: What::Block(location),
                        time_ns: Some(block.time_ns),
                        sequence: block.sequence,
                        numbers: block.numbers.clone(),
                        lines: block.lines.into(),
                        bytes_raw: block.bytes_raw,
                        is_own: block.lines_internal == block.lines && block.lines > 0,
                    }));
                }
                Err(error) => faults.push(error.to_string()),
            }
        }
        let advanced = Box::new(advanced);
        let faults = Mutex::new(faults);
        let shared = Shared { disk, parsers, faults, open: Mutex::default(), advanced };
        RestSource { shared: Arc::new(shared), units, _directory: directory }
    }

    /// Files, or parts of them, that could not be read so far, with the reason.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults().clone()
    }

    /// Bytes of raw lines that a query of that range reads.
    pub fn bytes(&self, range: TimeRange) -> u64 {
        self.locations(range).map(|location| location.bytes_raw).sum()
    }

    /// The locations of lines that may be in that range.
    fn locations(&self, range: TimeRange) -> impl Iterator<Item = &UnitLocation> {
        self.units.iter().filter(move |location| {
            location.time_ns.is_none_or(|(oldest, newest)| range.overlaps(oldest, newest))
        })
    }
}

impl Source for RestSource {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let mut locations: Vec<&UnitLocation> = self.locations(range).collect();
        locations.retain(|location| whose == Whose::All || !location.is_own);
        locations.sort_by_key(|location| {
            let newest = location.time_ns.map_or(i64::MAX, |(_, newest)| newest);
            std::cmp::Reverse((newest, location.sequence))
        });
        let unit = |location: &UnitLocation| -> Box<dyn ScanUnit> {
            Box::new(Unit { shared: Arc::clone(&self.shared), location: location.clone() })
        };
        Ok(locations.into_iter().map(unit).collect())
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let may_hold = |numbers: &NodeNumbers| numbers.may_hold(id.node, id.sequence);
        for location in self.units.iter().filter(|location| location.numbers.iter().any(may_hold)) {
            let Some(batch) = self.shared.load(location) else { continue };
            if batch.rows().any(|row| row.id() == id) {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

struct Unit {
    shared: Arc<Shared>,
    location: UnitLocation,
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.location.time_ns
    }

    fn lines(&self) -> u64 {
        self.location.lines
    }

    fn bytes(&self) -> u64 {
        self.location.bytes_raw
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let batch = self.shared.load(&self.location);
        (self.shared.advanced)(self.location.bytes_raw);
        Ok(batch)
    }
}

impl Shared {
    /// The records at a location; if they cannot be read, none, and a fault.
    fn load(&self, location: &UnitLocation) -> Option<Arc<Batch>> {
        match self.read(location) {
            Ok(batch) => Some(Arc::new(batch)),
            Err(error) => {
                self.faults().push(error.to_string());
                None
            }
        }
    }

    fn read(&self, location: &UnitLocation) -> Result<Batch, SegmentError> {
        let path = &*location.path;
        match &location.what {
            What::Frame(entry) => {
                // Opened for each frame: that takes a few microseconds, little compared with
                // reading a mebibyte.
                let file = self.disk.open(path, Access::Read);
                let file = file.map_err(SegmentError::io(path, "open"))?;
                Ok(self.parsers.parse(Arc::new(read_frame(&*file, path, entry)?)))
            }
            What::Block(block) => self.open(path)?.read_block(*block),
        }
    }

    /// Opens a sealed segment.
    fn open(&self, path: &Path) -> Result<SealedFile, SegmentError> {
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = lock().iter().find(|file| file.path() == path) {
            return Ok(file.clone());
        }
        let file = SealedFile::open(&*self.disk, path)?;
        let mut open = lock();
        if open.len() == OPEN_FILES_MAX {
            open.pop_front();
        }
        open.push_back(file.clone());
        Ok(file)
    }

    fn faults(&self) -> MutexGuard<'_, Vec<String>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use platform::{Clock, ManualClock, OnDurable, Patience, RealDisk};
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};
    use segment::read_segment;
    use store::{Store, StoreConfig};

    use super::*;

    fn frame(store: &Store) -> (record::Frame, OnDurable) {
        let (node, sequence) = store.next_sequence();
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        builder.push_line(&origin, 1, b"a line", false);
        (builder.finish(node, sequence).unwrap(), Box::new(|_| ()))
    }

    #[test]
    fn lines_that_are_not_there_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        let config = StoreConfig {
            disk_free_bytes_min: 0,
            commit_interval_ms: 0,
            ..StoreConfig::new(directory.path())
        };
        let (store, _) = Store::open_stepped(config, Arc::new(RealDisk), clock).unwrap();
        for _ in 0..2 {
            store.append(vec![frame(&store), frame(&store)], Patience::Unlimited).unwrap();
            store.writer_step();
            store.roll();
        }
        store.close().unwrap();
        drop(store);
        let faults = || {
            let parser = Parser::new(&ParserConfig::default()).expect("no rules");
            let at_rest = AtRest::open(&RealDisk, directory.path()).unwrap();
            RestSource::new(Arc::new(RealDisk), at_rest, Parsers::new(parser), |_| ()).faults()
        };
        assert_eq!(faults(), [""; 0]);
        // A file that ends behind its first frame.
        let path = directory.path().join("segments/1.hot");
        let end = read_segment(&RealDisk, &path, 1, None).unwrap().frames[0].end();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(end).unwrap();
        let told = faults();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("1.hot at byte ") && told[0].contains("more lines"), "{told:?}");
        fs::remove_file(&path).unwrap();
        let told = faults();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("segment 1, of which the catalog knows 2 lines"), "{told:?}");
    }
}
