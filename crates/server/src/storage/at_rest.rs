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

/// All lines of a directory, by the frames and blocks that they are in.
///
/// What can be read of a damaged directory can be queried; what cannot is left out, and told by
/// [`faults`](Self::faults).
pub struct RestSource {
    shared: Arc<Shared>,
    units: Vec<Place>,
    /// Holds the lock of the directory.
    _directory: AtRest,
}

/// Sealed segments kept open, each with its footer. Beyond that the one opened first is closed: a
/// directory may have many thousands.
const OPEN_FILES_MAX: usize = 32;

/// What reading needs.
struct Shared {
    disk: Arc<dyn Disk>,
    parsers: Parsers,
    faults: Mutex<Vec<String>>,
    open: Mutex<VecDeque<SealedFile>>,
    /// Is told the bytes of raw lines that were dealt with.
    advanced: Box<dyn Fn(u64) + Send + Sync>,
}

/// Where records are: a frame of a hot segment, or a block of a sealed one.
#[derive(Clone)]
struct Place {
    path: Arc<PathBuf>,
    what: What,
    time_ns: Option<(i64, i64)>,
    sequence: (u64, u64),
    /// The frames that its lines came in.
    numbers: Vec<NodeNumbers>,
    lines: u64,
    bytes_raw: u64,
    /// Loginson made the lines itself.
    is_own: bool,
}

#[derive(Clone)]
enum What {
    Frame(FrameEntry),
    Block(usize),
}

impl RestSource {
    /// The lines of a directory. Reads the ends of its files, or whole hot segments that were not
    /// closed. `advanced` is told the bytes of raw lines as they are read.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: AtRest,
        parsers: Parsers,
        advanced: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let mut units = Vec::new();
        let mut faults: Vec<String> = Vec::new();
        for (segment, contents) in directory.hot_contents(&*disk) {
            let path = Arc::new(segment.path.clone());
            match contents {
                Ok(contents) => {
                    // A last write that a crash interrupted was never acknowledged.
                    if let segment::Origin::Scan(scan) = contents.origin
                        && (scan.damaged_frames > 0 || scan.tail_has_frames)
                    {
                        faults.extend(scan.damages.iter().map(ToString::to_string));
                    }
                    units.extend(contents.frames.into_iter().map(|entry| Place {
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
                    units.extend(blocks.map(|(place, block)| Place {
                        path: Arc::clone(&path),
                        what: What::Block(place),
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

    /// Files, or parts of them, that could not be read so far.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults().clone()
    }

    /// Bytes of raw lines that a query of that range reads.
    pub fn bytes(&self, range: TimeRange) -> u64 {
        self.places(range).map(|place| place.bytes_raw).sum()
    }

    /// Where lines of that range may be.
    fn places(&self, range: TimeRange) -> impl Iterator<Item = &Place> {
        self.units.iter().filter(move |place| {
            place.time_ns.is_none_or(|(oldest, newest)| range.overlaps(oldest, newest))
        })
    }
}

impl Source for RestSource {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let mut places: Vec<&Place> = self.places(range).collect();
        places.retain(|place| whose == Whose::All || !place.is_own);
        places.sort_by_key(|place| {
            let newest = place.time_ns.map_or(i64::MAX, |(_, newest)| newest);
            std::cmp::Reverse((newest, place.sequence))
        });
        let unit = |place: &Place| -> Box<dyn ScanUnit> {
            Box::new(Unit { shared: Arc::clone(&self.shared), place: place.clone() })
        };
        Ok(places.into_iter().map(unit).collect())
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let may_hold = |numbers: &NodeNumbers| numbers.may_hold(id.node, id.sequence);
        for place in self.units.iter().filter(|place| place.numbers.iter().any(may_hold)) {
            let Some(batch) = self.shared.load(place) else { continue };
            if batch.rows().any(|row| row.id() == id) {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

struct Unit {
    shared: Arc<Shared>,
    place: Place,
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.place.time_ns
    }

    fn lines(&self) -> u64 {
        self.place.lines
    }

    fn bytes(&self) -> u64 {
        self.place.bytes_raw
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let batch = self.shared.load(&self.place);
        (self.shared.advanced)(self.place.bytes_raw);
        Ok(batch)
    }
}

impl Shared {
    /// The records of a place; none, and a fault, when they cannot be read.
    fn load(&self, place: &Place) -> Option<Arc<Batch>> {
        match self.read(place) {
            Ok(batch) => Some(Arc::new(batch)),
            Err(error) => {
                self.faults().push(error.to_string());
                None
            }
        }
    }

    fn read(&self, place: &Place) -> Result<Batch, SegmentError> {
        let path = &*place.path;
        match &place.what {
            What::Frame(entry) => {
                // Opened for each frame: a few microseconds beside reading a mebibyte.
                let file = self.disk.open(path, Access::Read);
                let file = file.map_err(SegmentError::io(path, "open"))?;
                Ok(self.parsers.parse(Arc::new(read_frame(&*file, path, entry)?)))
            }
            What::Block(block) => self.open(path)?.read_block(*block),
        }
    }

    /// A sealed segment, open.
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
