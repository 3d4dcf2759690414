//! The lines that queries read: a snapshot of the store, hot frames and sealed blocks; parsed
//! earlier and cached, or parsed now.

use std::cmp::Reverse;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use query::LineSet;
use query::source::{
    Answers, ChooseLines, DamagedUnit, EachCount, Grouped, Phrase, Phrases, Revisions, ScanUnit,
    SomeLines, Source, SourceError, Tables, TimeRange, UnitKey, Whose, WithColumns,
};
use record::{Batch, Frame, LineId, Parser, Tenant};
use rustix::io::Errno;
use segment::SegmentError;
use segment::tokens::{TokenHash, required_tokens};
use store::{Committed, FrameGroup, FrameHandle, Store, StoreError, Unit};

/// Parsers kept for the next query. Further concurrent parses make their own and drop them.
const PARSERS_KEPT: usize = 8;

/// Groups of small frames that a query builds for later queries before it begins: some milliseconds
/// of work. Of further groups it reads the frames.
const GROUPS_MADE_MAX: usize = 8;

/// Distinguishes the keys of frames from those of the blocks of the same segment, once it is
/// sealed.
const FRAME_KEY: u32 = 1 << 31;

/// A pool of parsers: each concurrent parse uses one.
pub struct Parsers {
    pattern: Parser,
    idle: Mutex<Vec<Parser>>,
    /// The segment of which the log told last that readers pass its frames over; 0: none.
    passed_over: AtomicU64,
}

impl Parsers {
    /// A pool of copies of `pattern`.
    pub fn new(pattern: Parser) -> Self {
        Parsers { pattern, idle: Mutex::default(), passed_over: AtomicU64::new(0) }
    }

    /// The records of a frame.
    pub fn parse(&self, frame: Arc<Frame>) -> Batch {
        self.with(|parser| parser.parse(frame))
    }

    /// Calls `parse` with a parser of the pool.
    pub fn with<T>(&self, parse: impl FnOnce(&mut Parser) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut parser = idle().pop().unwrap_or_else(|| self.pattern.clone());
        let parsed = parse(&mut parser);
        let mut idle = idle();
        if idle.len() < PARSERS_KEPT {
            idle.push(parser);
        }
        parsed
    }

    /// The records of a unit: cached, or parsed or read now, and then cached. `None` if they were
    /// deleted.
    pub fn load(&self, unit: &Unit) -> Result<Option<Arc<Batch>>, StoreError> {
        match unit {
            Unit::Frame(frame) => self.load_frame(frame),
            Unit::Block(block) => block.read(),
        }
    }

    /// The records of a frame.
    pub fn load_frame(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        if let Some(batch) = handle.cached() {
            return Ok(Some(batch));
        }
        let frame = handle.read_frame()?;
        Ok(frame.map(|frame| self.parse_and_keep(handle, frame)))
    }

    /// Records of the lines of a frame that `choose` chooses from its text; none where it chooses
    /// none, or the frame was deleted meanwhile. Those of a frame that is not parsed yet are not
    /// kept.
    fn load_lines(
        &self,
        handle: &FrameHandle,
        choose: ChooseLines<'_>,
    ) -> Result<Option<SomeLines>, StoreError> {
        if let Some(batch) = handle.cached() {
            let rows = batch.frame().and_then(|frame| choose(frame));
            return Ok(rows.map(|rows| SomeLines { batch, rows }));
        }
        let Some(frame) = handle.read_frame()? else { return Ok(None) };
        let Some(lines) = choose(&frame) else { return Ok(None) };
        let batch = Arc::new(self.with(|parser| parser.parse_lines(frame, &lines)));
        let rows = (0..batch.len() as u32).collect();
        Ok(Some(SomeLines { batch, rows }))
    }

    /// The event times of the lines of a frame, if finding them takes far less than parsing it; the
    /// store keeps the first and the last. None also where the frame was deleted meanwhile.
    pub fn times(&self, handle: &FrameHandle) -> Result<Option<Vec<i64>>, StoreError> {
        if let Some(batch) = handle.cached() {
            return Ok(Some(batch.rows().map(|row| row.time_ns()).collect()));
        }
        let Some(frame) = handle.read_frame()? else { return Ok(None) };
        Ok(self.find_times(handle, &frame))
    }

    /// Finds the first and the last event time of a frame, if they are not known and finding them
    /// takes far less than parsing it. For readers that pass over all frames once.
    pub fn learn_times(&self, handle: &FrameHandle) -> Result<(), StoreError> {
        if handle.time_range().is_none()
            && let Some(frame) = handle.read_frame_once()?
        {
            let _ = self.find_times(handle, &frame);
        }
        Ok(())
    }

    fn find_times(&self, handle: &FrameHandle, frame: &Arc<Frame>) -> Option<Vec<i64>> {
        let times = self.with(|parser| parser.times(frame))?;
        let (oldest, newest) = (times.iter().min()?, times.iter().max()?);
        handle.set_times((*oldest, *newest));
        Some(times)
    }

    /// The records of a frame, for readers that pass over all frames once.
    pub fn load_frame_once(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        if let Some(batch) = handle.cached() {
            return Ok(Some(batch));
        }
        let frame = handle.read_frame_once()?;
        Ok(frame.map(|frame| self.parse_and_keep(handle, frame)))
    }

    /// The records of a frame, for stages that read behind a cursor: none of a frame that cannot be
    /// parsed, which the parse stage reports, or that the disk does not give, which the log tells
    /// once for a segment; `None` where it was deleted.
    ///
    /// Errors: the frame is damaged, which the store tells readers; or it cannot be read now, for a
    /// reason that may pass. A reader that passed it over would never come back to its lines.
    pub fn load_arrival(&self, handle: &FrameHandle) -> Result<Option<Arc<Batch>>, StoreError> {
        let none = || Ok(Some(Arc::new(Batch::merged(&[]).expect("nothing is too much"))));
        match catch_unwind(AssertUnwindSafe(|| self.load_frame_once(handle))) {
            Err(_) => none(),
            Ok(Err(error)) if handle.damage().is_none() && is_lasting(&error) => {
                let segment = handle.position().segment;
                if self.passed_over.swap(segment, Relaxed) != segment {
                    tracing::error!(
                        "frames of segment {segment} are passed over, so that the summary, programs and sinks may lack their \
                         lines; the first: {error}"
                    );
                }
                none()
            }
            Ok(loaded) => loaded,
        }
    }

    fn parse_and_keep(&self, handle: &FrameHandle, frame: Arc<Frame>) -> Arc<Batch> {
        let batch = Arc::new(self.parse(frame));
        handle.set_times(batch.time_range_ns());
        handle.put(Arc::clone(&batch));
        batch
    }

    /// Builds the records of a group of frames; it gets none if its frames cannot be merged, or
    /// were deleted meanwhile.
    fn merge_group(&self, group: &mut FrameGroup) -> Result<(), StoreError> {
        let mut batches = Vec::new();
        for frame in group.frames() {
            match self.load_frame(&frame)? {
                Some(batch) => batches.push(batch),
                None => return Ok(()),
            }
        }
        group.put(Batch::merged(&batches).map(Arc::new));
        Ok(())
    }
}

/// Whether the operating system does not give a frame, for another reason than that too many files
/// are open or memory is short.
fn is_lasting(error: &StoreError) -> bool {
    let StoreError::Segment(SegmentError::Io { source, .. }) = error else { return false };
    let pass = [io::ErrorKind::OutOfMemory, io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
    let too_many_files = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    !pass.contains(&source.kind()) && !too_many_files.contains(&source.raw_os_error())
}

/// The store as a source of records: frames, which are parsed here, and blocks, which were parsed
/// before they were sealed.
#[derive(Clone)]
pub struct Stored {
    store: Arc<Store>,
    parsers: Arc<Parsers>,
    answers: Arc<Answers>,
    /// Set once the programs run.
    revisions: Arc<OnceLock<Arc<dyn Revisions>>>,
    /// Set once they are read.
    tables: Arc<OnceLock<Arc<dyn Tables>>>,
}

impl Stored {
    /// The lines in `store`.
    pub fn new(store: Arc<Store>, parsers: Arc<Parsers>, answers: Arc<Answers>) -> Self {
        Stored { store, parsers, answers, revisions: Arc::default(), tables: Arc::default() }
    }

    /// Makes queries leave out the rows of programs that do not count, also over clones.
    pub fn count_revisions(&self, revisions: Arc<dyn Revisions>) {
        // The first ones stay.
        let _ = self.revisions.set(revisions);
    }

    /// Gives queries the tables that they look values up in, also over clones.
    pub fn look_up_in(&self, tables: Arc<dyn Tables>) {
        // The first ones stay.
        let _ = self.tables.set(tables);
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The parsers of its frames.
    pub fn parsers(&self) -> &Arc<Parsers> {
        &self.parsers
    }

    /// The lines that are durable now. Every later snapshot contains all of them.
    pub fn lines_now(&self) -> LineSet {
        let Committed { through, missing } = self.store.durable_now();
        LineSet { through, missing }
    }
}

impl Stored {
    /// Calls `each` with records among which are those of another node's frames with the numbers
    /// from `first` to `last`, until it breaks.
    ///
    /// Errors: some of them cannot be read.
    pub fn read_frames(
        &self,
        node: u32,
        range: (u64, u64),
        each: &mut dyn FnMut(&Arc<Batch>) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        for unit in self.store.units_of_frames(node, range).map_err(source_error)? {
            if let Some(damage) = unit.damage() {
                let store::DamagedLines { segment, error, .. } = damage;
                return Err(SourceError(format!("segment {segment} is damaged: {error}")));
            }
            if let Some(batch) = self.parsers.load(&unit).map_err(source_error)?
                && each(&batch).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl Source for Stored {
    fn tables(&self) -> Option<Arc<dyn Tables>> {
        self.tables.get().map(Arc::clone)
    }

    fn revisions(&self) -> Option<Arc<dyn Revisions>> {
        self.revisions.get().map(Arc::clone)
    }

    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        if range.start_ns >= range.end_ns {
            return Ok(Vec::new());
        }
        let last_ns = if range.end_ns == i64::MAX { i64::MAX } else { range.end_ns - 1 };
        let (mut groups, mut units) =
            self.store.snapshot_in_groups((range.start_ns, last_ns)).map_err(source_error)?;
        if whose == Whose::Sent {
            groups.retain(|group| !group.is_internal());
            units.retain(|unit| !unit.is_internal());
        }
        let scan = |unit| {
            Box::new(StoredUnit { unit, whose, parsers: Arc::clone(&self.parsers) })
                as Box<dyn ScanUnit>
        };
        if groups.is_empty() {
            return Ok(units.into_iter().map(scan).collect());
        }
        let mut scanned: Vec<Box<dyn ScanUnit>> = Vec::with_capacity(groups.len() + units.len());
        let mut to_make = GROUPS_MADE_MAX;
        for mut group in groups {
            if group.batch().is_none() && to_make > 0 {
                to_make -= 1;
                // Frames that cannot be merged are read one by one, each with its own error.
                let _ = self.parsers.merge_group(&mut group);
            }
            match group.batch().cloned() {
                Some(batch) => scanned.push(Box::new(StoredGroup { group, batch })),
                None => scanned.extend(group.frames().into_iter().map(Unit::Frame).map(scan)),
            }
        }
        scanned.extend(units.into_iter().map(scan));
        // Newest first, after those whose times are not known yet.
        scanned.sort_by_key(|unit| Reverse(unit.time_range_ns().map_or(i64::MAX, |times| times.1)));
        Ok(scanned)
    }

    fn answers(&self) -> Option<&Answers> {
        Some(&self.answers)
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        for unit in self.store.find(id).map_err(source_error)? {
            if let Some(batch) = self.parsers.load(&unit).map_err(source_error)?
                && batch.rows().any(|row| row.id() == id)
            {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

fn source_error(error: StoreError) -> SourceError {
    SourceError(error.to_string())
}

/// The hashes of the words that a line must have for each of the phrases.
pub fn words_of(phrases: &Phrases) -> &[Vec<TokenHash>] {
    let words = |phrase: &Phrase| {
        let Phrase { text, whole_start, whole_end } = phrase;
        required_tokens(text.as_bytes(), *whole_start, *whole_end)
    };
    phrases.made(|phrases| phrases.iter().map(words).collect::<Vec<_>>())
}

/// A group of small frames that is read as one unit.
struct StoredGroup {
    group: FrameGroup,
    batch: Arc<Batch>,
}

impl ScanUnit for StoredGroup {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.batch.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.group.lines()
    }

    fn bytes(&self) -> u64 {
        self.group.payload_bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.batch)))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        Ok(self.group.may_contain(words_of(phrases)))
    }
}

struct StoredUnit {
    unit: Unit,
    whose: Whose,
    parsers: Arc<Parsers>,
}

impl ScanUnit for StoredUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.unit.time_range()
    }

    fn lines(&self) -> u64 {
        self.unit.lines()
    }

    fn bytes(&self) -> u64 {
        self.unit.bytes_raw()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        self.parsers.load(&self.unit).map_err(source_error)
    }

    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        let Unit::Frame(frame) = &self.unit else { return Ok(None) };
        self.parsers.load_lines(frame, choose).map_err(source_error)
    }

    fn times_ns(&self) -> Result<Option<Vec<i64>>, SourceError> {
        let Unit::Frame(frame) = &self.unit else { return Ok(None) };
        self.parsers.times(frame).map_err(source_error)
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        self.unit.may_contain(words_of(phrases)).map_err(source_error)
    }

    fn tenant(&self) -> Option<Tenant> {
        self.unit.tenant()
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let Unit::Block(block) = &self.unit else { return Ok(false) };
        let done = block.with_columns(|columns| with(columns)).map_err(source_error)?;
        Ok(done.transpose()?.is_some())
    }

    fn damage(&self) -> Option<DamagedUnit> {
        let store::DamagedLines { segment, unit, lines, error } = self.unit.damage()?;
        Some(DamagedUnit { segment, unit, lines, error })
    }

    fn key(&self) -> Option<UnitKey> {
        let position = self.unit.position();
        match &self.unit {
            Unit::Frame(_) => Some((position.segment, position.frame | FRAME_KEY)),
            Unit::Block(_) => Some((position.segment, position.frame)),
        }
    }

    fn segment(&self) -> Option<(u64, usize)> {
        let Unit::Block(block) = &self.unit else { return None };
        Some((block.position().segment, block.blocks_of_segment() as usize))
    }

    fn count_segment(
        &self,
        grouped: Grouped<'_>,
        each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        let Unit::Block(block) = &self.unit else { return Ok(false) };
        let Some(file) = block.file().map_err(source_error)? else { return Ok(false) };
        let Grouped { fields, bucket_ns, range } = grouped;
        let from_ns = Some(range.start_ns).filter(|&ns| ns != i64::MIN);
        let to_ns = Some(range.end_ns).filter(|&ns| ns != i64::MAX);
        // Segments keep counts of the lines from senders only.
        if self.whose == Whose::All && file.footer().lines_internal() > 0 {
            return Ok(false);
        }
        Ok(file.footer().visit_counts(fields, bucket_ns, (from_ns, to_ns), each))
    }
}

#[cfg(test)]
mod tests;
