//! One rewrite: lines of some segments, without those to be deleted, into one new sealed segment.
//!
//! Sealing, merging, deleting lines and re-encoding are all rewrites. A rewrite goes in steps of a
//! few frames or blocks, so that its driver can stop between any two. The active segment can be
//! sealed as far as it is written and parsed: then the rewrite [waits](Stepped::Waits) for more.
//!
//! ```text
//! N.sealing written → synced → N.sealed → directory synced → one transaction: row of N, sources `deleting`
//!     → one lock: N in the list, sources out → files of the sources removed → their rows removed
//! ```
//!
//! A crash before the transaction leaves the sources, and perhaps a `.sealed` file that names them,
//! which then replaces them. A crash after it leaves rows marked for deletion; the next start
//! completes that deletion. While a replaced file cannot be removed, its segment is not rewritten
//! again and no other rewrite begins, because a file names only its own sources. Snapshots see the
//! sources or the new segment, never both; older snapshots continue to read the open files of the
//! sources.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use platform::ReadOnce;
use platform::helpers::shared_out;
use record::Batch;
use segment::sealed::{
    Effort, Footer, HELPERS_NAME, SealOptions, SealedFile, SealedHeader, SealedWriter,
};
use segment::{FrameEntry, SegmentError, read_frame};

use crate::background::pruning::{Findings, Pruning};
use crate::callbacks::StoreCallbacks;
use crate::catalog::RowState;
use crate::error::StoreError;
use crate::ledger::{Ledger, Removing};
use crate::position::Position;
use crate::segments::AnySegment;
use crate::segments::fate::Fate;
use crate::segments::file_names::{sealed_name, sealing_name};
use crate::segments::hot::HotSegment;
use crate::segments::sealed::{SealedSegment, row_of};
use crate::store_core::StoreCore;
use crate::store_core::counters::add;
use crate::sync::{lock, read};
use crate::writer::Writer;

/// The room that is looked for is 1/`ROOM_PARTS` of the raw bytes. Logs take a tenth when sealed;
/// lines that cannot be compressed may fill the disk, and then the rewrite is tried again later.
const ROOM_PARTS: u64 = 4;
/// Where full segments are small, a merge copies the blocks of a source that holds at least
/// 1/`COPIED_PARTS` of a full one.
const COPIED_PARTS: u64 = 8;
/// Room for everything but lines.
const ROOM_BYTES: u64 = 64 << 10;
/// Frames or blocks that each thread reads in a step, where several threads do. The threads wait
/// for each other at the end of the step.
const UNITS_EACH: usize = 4;
/// Bytes of lines that are read in a step, apart from the last unit: whatever the number of
/// threads, a step takes no more memory.
const STEP_BYTES_MAX: u64 = 32 << 20;

/// The reason for a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Seal,
    /// Seal the active segment while it is written.
    Trail,
    Merge,
    Prune,
    Reencode,
}

/// A rewrite under way.
pub(crate) struct Rewrite {
    core: Arc<StoreCore>,
    pub(crate) purpose: Purpose,
    sources: Vec<Source>,
    /// The next unit: index of its source, and its index there.
    next: (usize, usize),
    id: u64,
    path: PathBuf,
    /// None once the file is complete.
    writer: Option<SealedWriter>,
    pruning: Pruning,
    lines_kept: u64,
    /// Bytes that were read from the disk.
    read_bytes: u64,
    /// Bytes that the new file may take, as noted in the segment table.
    room_bytes: u64,
    /// The footer of the file, once it is complete and has lines.
    footer: Option<Footer>,
}

enum Source {
    Hot(Arc<HotSegment>),
    Sealed(Arc<SealedSegment>, Arc<SealedFile>, Blocks),
}

/// What becomes of the blocks of a sealed segment.
#[derive(Clone, Copy)]
enum Blocks {
    /// Their lines are encoded again.
    Encoded,
    /// They are copied as they are.
    Copied,
    /// They are copied as they are, except for those of which lines go.
    Sifted,
}

/// What a step read of a unit.
enum Unit {
    /// Its records.
    Rows(Arc<Batch>),
    /// A block as stored in its file.
    Block(Vec<u8>),
    /// A block as stored in its file, and its records.
    Sifted(Vec<u8>, Arc<Batch>),
}

impl Source {
    fn segment(&self) -> AnySegment {
        match self {
            Source::Hot(hot) => AnySegment::Hot(hot.clone()),
            Source::Sealed(sealed, ..) => AnySegment::Sealed(sealed.clone()),
        }
    }

    /// Number of frames or blocks; None while more may come.
    fn units(&self) -> Option<usize> {
        match self {
            Source::Hot(hot) => hot.is_rolled().then(|| read(&hot.index).frames.len()),
            Source::Sealed(_, file, _) => Some(file.footer().blocks.len()),
        }
    }

    /// Bytes of lines of the readable units from index `from` on, at most `count`. Of a hot segment
    /// those frames are readable that are parsed, or that the parse stage has given up.
    fn readable(&self, from: usize, count: usize, settled: Position) -> Vec<u64> {
        match self {
            Source::Sealed(_, file, _) => {
                let blocks = file.footer().blocks.iter().skip(from).take(count);
                blocks.map(|block| block.bytes_raw).collect()
            }
            Source::Hot(hot) => {
                let index = read(&hot.index);
                let frames = index.frames.iter().enumerate().skip(from).take(count);
                let parsed =
                    frames.take_while(|(at, entry)| is_parsed(hot.id, *at, entry, settled));
                parsed.map(|(_, entry)| entry.payload_bytes.into()).collect()
            }
        }
    }
}

/// Whether a frame of a hot segment is parsed, or the parse stage has given it up.
fn is_parsed(segment: u64, frame: usize, entry: &FrameEntry, settled: Position) -> bool {
    entry.time_range_ns().is_some() || Position { segment, frame: frame as u32 } <= settled
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// The step wrote something, and there may be more.
    Worked,
    /// No more of the active segment can be written yet: it is still growing, or not parsed.
    Waits,
    /// All units are written, and the new file is complete and durable: it is to be
    /// [published](Rewrite::finish).
    Whole,
}

/// Why a rewrite ended early.
#[derive(Debug)]
pub(crate) enum RewriteError {
    /// A source cannot be read.
    Source { segment: u64, error: SegmentError },
    /// The new file cannot be written.
    Target(StoreError),
    /// A source was deleted meanwhile, so the rewrite is void.
    Overtaken,
    /// A bug: the code that processed its lines panicked.
    Panicked,
    /// The same after the catalog may have got the new file, and before the list of segments did.
    /// The next start puts that file in the place of its sources, which stay as they are until
    /// then.
    HalfPublished,
}

/// Who knows of the new file when it is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nobody,
    /// The catalog, perhaps.
    Catalog,
    /// The list of segments, too: the sources are replaced.
    List,
}

impl Rewrite {
    /// Creates the new file. Besides the room that the new segment may take, `spare` bytes of the
    /// disk must stay free. Nothing is deleted to make that room.
    pub(crate) fn begin(
        core: &Arc<StoreCore>,
        ledger: &Mutex<Ledger>,
        callbacks: &dyn StoreCallbacks,
        purpose: Purpose,
        sources: Vec<AnySegment>,
        effort: Effort,
        spare: u64,
    ) -> Result<Rewrite, RewriteError> {
        let now_ns = core.clock.now_ns();
        let retention_ns = core.retention_ns(now_ns);
        let pruning = Pruning::of(core, ledger, callbacks, &sources, retention_ns);
        let bytes = room_bytes(&sources);
        let free_bytes = core.space().map_err(target)?.free_bytes;
        if free_bytes < bytes.saturating_add(spare) {
            let source = std::io::ErrorKind::StorageFull.into();
            let path = core.config.segments_dir();
            return Err(target(SegmentError::Io { path, action: "find room to seal in", source }));
        }
        let open = |segment: AnySegment| match segment {
            AnySegment::Hot(hot) => Ok(Source::Hot(hot)),
            AnySegment::Sealed(sealed) => match core.segments.open_sealed(&sealed) {
                Ok(file) => Ok(Source::Sealed(sealed, file, Blocks::Encoded)),
                Err(error) => Err(RewriteError::Source { segment: sealed.id, error }),
            },
        };
        let sources = sources.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let id = {
            let mut ledger = lock(ledger);
            ledger.remove_files();
            if ledger.is_removing() {
                let text = "files that were replaced cannot be removed for good yet; the log says what the disk refuses";
                return Err(RewriteError::Target(StoreError::Refused(text.to_owned())));
            }
            core.segments.set_rewriting(0, bytes);
            core.segments.issue_id()
        };
        let path = core.config.segments_dir().join(sealing_name(id));
        let header = SealedHeader {
            // Lines of another store keep its node, since their numbers are those of that store.
            node: sources.first().map_or(core.node, |source| source.segment().node()),
            segment: id,
            created_ns: now_ns,
            sequence_next: core.numbers.next(),
        };
        let replaces: Vec<u64> = sources.iter().map(|s| s.segment().id()).collect();
        let options = SealOptions::new(effort);
        let mut rewrite = Rewrite {
            core: core.clone(),
            purpose,
            sources,
            next: (0, 0),
            id,
            path,
            writer: None,
            pruning,
            lines_kept: 0,
            read_bytes: 0,
            room_bytes: bytes,
            footer: None,
        };
        let full_bytes = core.segment_bytes();
        let disk = &*core.disk;
        match SealedWriter::create(disk, &rewrite.path, &header, &replaces, options) {
            Ok(mut writer) => {
                writer.set_threads(core.config.sealing_threads);
                let chunk_bytes = options.chunk_bytes as u64;
                rewrite.copy_where_possible(chunk_bytes.min(full_bytes / COPIED_PARTS));
                rewrite.writer = Some(writer);
            }
            Err(error) => {
                rewrite.abandon(ledger);
                return Err(target(error));
            }
        }
        Ok(rewrite)
    }

    /// Makes a merge and a deletion copy the blocks of which no line is deleted. A merge does so
    /// where the result is the same as writing the lines again: the source has so many bytes of
    /// lines, at least `bytes_min`, that its blocks are of full size.
    fn copy_where_possible(&mut self, bytes_min: u64) {
        let bytes_min = match self.purpose {
            Purpose::Merge => bytes_min,
            Purpose::Prune => 0,
            Purpose::Seal | Purpose::Trail | Purpose::Reencode => return,
        };
        for source in &mut self.sources {
            if let Source::Sealed(sealed, file, blocks) = source
                && sealed.bytes_raw >= bytes_min
            {
                let range = file.footer().time_ns();
                *blocks = match range.is_some_and(|range| self.pruning.may_name(range, None)) {
                    true => Blocks::Sifted,
                    false => Blocks::Copied,
                };
            }
        }
    }

    /// Writes the next frame or block, or several of them where several threads work.
    pub(crate) fn step(&mut self, callbacks: &dyn StoreCallbacks) -> Result<Stepped, RewriteError> {
        let threads = self.core.config.sealing_threads;
        let units = self.next_units(if threads == 1 { 1 } else { threads * UNITS_EACH });
        let Some(&(source, place)) = units.last() else {
            if !self.is_read() {
                return Ok(Stepped::Waits);
            }
            self.complete()?;
            return Ok(Stepped::Whole);
        };
        if units.iter().any(|&(source, _)| !self.sources[source].segment().is_listed()) {
            return Err(RewriteError::Overtaken);
        }
        self.next = (source, place + 1);
        let mut threads = vec![(); threads];
        let loaded =
            shared_out(HELPERS_NAME, &mut threads, &units, |(), unit| self.load(*unit, callbacks));
        for (&(source, place), unit) in units.iter().zip(loaded) {
            let (unit, read_bytes) = unit?;
            self.read_bytes += read_bytes;
            match unit {
                Unit::Rows(batch) => self.push(batch)?,
                Unit::Block(stored) => self.copy(source, place, &stored)?,
                Unit::Sifted(stored, batch) => self.sift(source, place, &stored, batch)?,
            }
        }
        if self.purpose == Purpose::Trail {
            // The source grows, and with it the room that the new file may take.
            self.note_room(room_bytes(&[self.sources[source].segment()]));
        }
        Ok(Stepped::Worked)
    }

    /// The next units, as indexes of source and unit: at most `count`, and at most
    /// [`STEP_BYTES_MAX`].
    fn next_units(&self, count: usize) -> Vec<(usize, usize)> {
        let settled = self.core.progress.settled();
        let (mut units, mut sum) = (Vec::with_capacity(count), 0);
        let (first, mut from) = self.next;
        for (place, source) in self.sources.iter().enumerate().skip(first) {
            for (unit, bytes) in (from..).zip(source.readable(from, count - units.len(), settled)) {
                if sum >= STEP_BYTES_MAX {
                    return units;
                }
                units.push((place, unit));
                sum += bytes;
            }
            from = 0;
        }
        units
    }

    /// Whether all units were read and no more will come.
    fn is_read(&self) -> bool {
        let (first, from) = self.next;
        let left = self.sources.iter().enumerate().skip(first);
        left.into_iter()
            .all(|(place, source)| source.units() == Some(if place == first { from } else { 0 }))
    }

    /// Loads what the rewrite needs of a unit; also returns the bytes that were read from the disk
    /// for it.
    fn load(
        &self,
        (source, place): (usize, usize),
        callbacks: &dyn StoreCallbacks,
    ) -> Result<(Unit, u64), RewriteError> {
        let source = &self.sources[source];
        let segment = source.segment();
        let loaded = match source {
            Source::Hot(hot) => {
                let frame = self.frame(hot, place, callbacks);
                frame.map(|(batch, bytes)| (Unit::Rows(batch), bytes))
            }
            Source::Sealed(_, file, blocks) => {
                let bytes = file.footer().blocks[place].bytes_disk();
                let unit = match blocks {
                    Blocks::Encoded => {
                        file.read_block(place).map(|batch| Unit::Rows(Arc::new(batch)))
                    }
                    Blocks::Copied => file.stored_block(place).map(Unit::Block),
                    Blocks::Sifted => file.stored_block(place).and_then(|stored| {
                        let batch = file.block_of(place, &stored)?;
                        Ok(Unit::Sifted(stored, Arc::new(batch)))
                    }),
                };
                unit.map(|unit| (unit, bytes))
            }
        };
        // Retention may have removed the file just now, which is no fault.
        loaded.map_err(|error| match segment.may_be_gone() {
            true => RewriteError::Overtaken,
            false => RewriteError::Source { segment: segment.id(), error },
        })
    }

    /// Adds a block of a source that is copied.
    fn copy(&mut self, source: usize, place: usize, stored: &[u8]) -> Result<(), RewriteError> {
        let Source::Sealed(_, file, _) = &self.sources[source] else {
            unreachable!("only sealed sources have blocks")
        };
        let entry = &file.footer().blocks[place];
        self.lines_kept += u64::from(entry.lines);
        let writer = self.writer.as_mut().expect("not finished");
        if place == 0 {
            writer.count_copied(file.footer());
        }
        writer.copy_block(entry, stored).map_err(target)
    }

    /// Adds a block of a source that is sifted: as it is, or without the lines that are deleted.
    fn sift(
        &mut self,
        source: usize,
        place: usize,
        stored: &[u8],
        batch: Arc<Batch>,
    ) -> Result<(), RewriteError> {
        let goes = self.going(&batch);
        if goes.is_some() {
            return self.push_kept(batch, goes);
        }
        let Source::Sealed(_, file, _) = &self.sources[source] else {
            unreachable!("only sealed sources have blocks")
        };
        self.lines_kept += batch.len() as u64;
        let writer = self.writer.as_mut().expect("not finished");
        writer.count_block(&batch);
        writer.copy_block(&file.footer().blocks[place], stored).map_err(target)
    }

    /// Writes a unit, without the lines that are deleted.
    fn push(&mut self, batch: Arc<Batch>) -> Result<(), RewriteError> {
        let goes = self.going(&batch);
        self.push_kept(batch, goes)
    }

    /// Returns for each row whether it is deleted; None when no row is.
    fn going(&mut self, batch: &Arc<Batch>) -> Option<Vec<bool>> {
        match self.pruning.may_name(batch.time_range_ns(), None) {
            true => self.pruning.select(batch, &mut Findings::default()),
            false => None,
        }
    }

    fn push_kept(
        &mut self,
        batch: Arc<Batch>,
        goes: Option<Vec<bool>>,
    ) -> Result<(), RewriteError> {
        let gone = goes.iter().flatten().filter(|goes| **goes).count();
        self.lines_kept += (batch.len() - gone) as u64;
        let writer = self.writer.as_mut().expect("not finished");
        let pushed = match &goes {
            None => writer.push(batch, None),
            Some(goes) => writer.push(batch, Some(&|row| !goes[row.index() as usize])),
        };
        pushed.map_err(target)
    }

    /// The records of a frame, and the bytes that were read from the disk for them.
    fn frame(
        &self,
        hot: &Arc<HotSegment>,
        place: usize,
        callbacks: &dyn StoreCallbacks,
    ) -> Result<(Arc<Batch>, u64), SegmentError> {
        let position = Position { segment: hot.id, frame: place as u32 };
        if let Some(batch) = self.core.segments.cache.batch(position) {
            return Ok((batch, 0));
        }
        if let Some(frame) = self.core.segments.cache.frame(position) {
            return Ok((Arc::new(callbacks.parse(frame)), 0));
        }
        let entry = read(&hot.index).frames[place];
        let file = self.core.segments.open_hot(hot)?;
        let frame = Arc::new(read_frame(&ReadOnce(&*file), &hot.path, &entry)?);
        let bytes = frame.bytes().len() as u64;
        Ok((Arc::new(callbacks.parse(frame)), bytes))
    }

    /// Bytes read from and written to the disk so far.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let written = self.writer.as_ref().map(SealedWriter::end);
        let written = written.or(self.footer.as_ref().map(|footer| footer.bytes_disk));
        self.read_bytes + written.unwrap_or(0)
    }

    /// Ends the new file; removes it when it has no line.
    fn complete(&mut self) -> Result<(), RewriteError> {
        let file = self.writer.take().expect("completed once");
        if self.lines_kept == 0 {
            drop(file);
            let _ = self.core.disk.remove(&self.path);
            self.note_room(0);
            return Ok(());
        }
        let footer = file.finish().map_err(target)?;
        add(&self.core.counters.sealed_bytes_written, footer.bytes_disk);
        self.note_room(footer.bytes_disk);
        self.footer = Some(footer);
        Ok(())
    }

    /// Publishes the new file in the place of its sources. A bug that panics is an error like
    /// others.
    pub(crate) fn finish(
        mut self,
        writer: &Mutex<Writer>,
        ledger: &Mutex<Ledger>,
    ) -> Result<(), RewriteError> {
        let mut known = Known::Nobody;
        let publish = || self.publish(writer, ledger, self.footer.as_ref(), &mut known);
        let published = catch_unwind(AssertUnwindSafe(publish));
        let result = match (published, known) {
            (Ok(result), _) => result,
            (Err(_), Known::Nobody) => Err(RewriteError::Panicked),
            (Err(_), Known::Catalog) => {
                // All rows are written again, without that of the new file: the next start then
                // reads in the file what it replaces.
                lock(ledger).catalog_stale = true;
                self.note_room(0);
                return Err(RewriteError::HalfPublished);
            }
            (Err(_), Known::List) => {
                tracing::error!(
                    "a bug after segment {} took the place of others; files of these that are left go with the next start",
                    self.id
                );
                Ok(())
            }
        };
        if result.is_err() {
            self.abandon(ledger);
        } else {
            self.note_room(0);
            self.count();
        }
        result
    }

    fn publish(
        &self,
        writer: &Mutex<Writer>,
        ledger: &Mutex<Ledger>,
        new: Option<&Footer>,
        known: &mut Known,
    ) -> Result<(), RewriteError> {
        let core = &self.core;
        let sources: Vec<AnySegment> = self.sources.iter().map(Source::segment).collect();
        let lines: u64 = sources.iter().map(AnySegment::lines).sum();
        let kept = new.map_or(0, Footer::lines);
        assert_eq!(kept + self.pruning.lines(), lines, "each line is kept or deleted");
        let is_last_record_of_numbers = |s: &AnySegment| core.is_last_record_of_numbers(s);
        let of_nodes = |s: &AnySegment| core.is_last_record_of_nodes(s);
        if new.is_none() || sources.iter().any(of_nodes) {
            let mut writer = lock(writer);
            if sources.iter().any(is_last_record_of_numbers) {
                writer.create_number_record().map_err(target)?;
            }
        }
        let mut ledger = lock(ledger);
        if !sources.iter().all(AnySegment::is_listed)
            || (new.is_none() && sources.iter().any(is_last_record_of_numbers))
            || sources.iter().any(of_nodes)
        {
            return Err(RewriteError::Overtaken);
        }
        let mut segment = None;
        if let Some(footer) = new {
            let dir = core.config.segments_dir();
            let path = dir.join(sealed_name(self.id));
            let io = |action| {
                let path = path.clone();
                move |source| RewriteError::Target(StoreError::Io { path, action, source })
            };
            core.disk.rename(&self.path, &path).map_err(io("rename to"))?;
            core.disk.sync_dir(&dir).map_err(io("sync the directory of"))?;
            let mut row = row_of(footer);
            row.deletions_through = self.pruning.deletions_through;
            row.rules = self.pruning.rules;
            // The rows of the summary may have been deleted; their watermark still holds.
            let marks = sources.iter().filter_map(|s| s.row().summarised_through).max();
            row.summarised_through = match row.node == core.node {
                true => row.summarised_through.max(marks),
                false => None,
            };
            segment = Some((SealedSegment::from_row(&row, &dir), row));
        }
        let ids: Vec<u64> = sources.iter().map(AnySegment::id).collect();
        *known = Known::Catalog;
        if let Err(error) = ledger.catalog.replace(segment.as_ref().map(|(_, row)| row), &ids) {
            // The files carry the same information: the new one names its sources. The rows are
            // written later.
            tracing::warn!("{error}");
            ledger.catalog_stale = true;
        }
        let mut open = Vec::new();
        for source in &self.sources {
            match source {
                Source::Hot(hot) => {
                    open.extend(core.segments.open_hot(hot).ok().map(|file| (hot, file)));
                }
                Source::Sealed(sealed, file, _) => sealed.keep_open(file.clone()),
            }
        }
        let segment = segment.map(|(segment, _)| segment);
        core.progress.raise_summarised(segment.as_ref().and_then(|new| new.summarised_through));
        core.segments.replace(&sources, segment);
        *known = Known::List;
        for source in &sources {
            core.segments.forget(source, Fate::Replaced);
            let path = source.path().to_owned();
            ledger.leave([Removing { path, row: Some(source.row()) }]);
        }
        // A reader of another segment may have closed it, as one too many, before it was replaced.
        open.into_iter().for_each(|(hot, file)| hot.keep_open(file));
        self.pruning.count(&mut ledger, &sources);
        ledger.remove_files();
        Ok(())
    }

    /// Undoes the rewrite.
    pub(crate) fn abandon(&mut self, ledger: &Mutex<Ledger>) {
        self.writer = None;
        let mut ledger = lock(ledger);
        let published = self.core.config.segments_dir().join(sealed_name(self.id));
        for path in [&self.path, &published] {
            ledger.leave([Removing { path: path.clone(), row: None }]);
        }
        ledger.remove_files();
        self.note_room(0);
    }

    /// Notes how many bytes the new file may take; 0 once it is listed or given up.
    fn note_room(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.room_bytes, bytes);
        self.core.segments.set_rewriting(before, bytes);
    }

    fn count(&self) {
        let counters = &self.core.counters;
        match self.purpose {
            Purpose::Seal | Purpose::Trail => {
                let raw: u64 = self.sources.iter().map(|s| s.segment().row().bytes_raw).sum();
                add(&counters.sealed_segments, 1);
                add(&counters.sealed_bytes_raw, raw);
                let trailed = self.purpose == Purpose::Trail;
                add(&counters.trailed_segments, trailed.into());
            }
            Purpose::Merge => add(&counters.merges, 1),
            Purpose::Prune => {}
            Purpose::Reencode => add(&counters.reencoded_segments, 1),
        }
        if self.pruning.lines() > 0 {
            add(&counters.deleted_from_segments, 1);
            add(&counters.lines_deleted, self.pruning.lines());
        }
    }

    /// Whether the new file is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.writer.is_none()
    }

    /// Whether a source was deleted meanwhile.
    pub(crate) fn is_overtaken(&self) -> bool {
        !self.sources.iter().all(|source| source.segment().is_listed())
    }

    /// Whether a step is worthwhile: `bytes` of lines can be read, or everything that will come.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        let (source, from) = self.next;
        let Some(Source::Hot(hot)) = self.sources.get(source) else { return true };
        if self.is_read() {
            return true;
        }
        let settled = self.core.progress.settled();
        let index = read(&hot.index);
        let mut bytes_left = if index.state == RowState::Hot { bytes } else { 1 };
        let frames = index.frames.iter().enumerate().skip(from);
        for (place, entry) in frames {
            if bytes_left == 0 || !is_parsed(hot.id, place, entry, settled) {
                break;
            }
            bytes_left = bytes_left.saturating_sub(entry.payload_bytes.into());
        }
        bytes_left == 0
    }

    /// The segments that are rewritten.
    pub(crate) fn source_ids(&self) -> Vec<u64> {
        self.sources.iter().map(|s| s.segment().id()).collect()
    }
}

fn target(error: SegmentError) -> RewriteError {
    RewriteError::Target(error.into())
}

/// Room that a rewrite of these sources may take, bytes.
pub(crate) fn room_bytes(sources: &[AnySegment]) -> u64 {
    let bytes = |source: &AnySegment| match source {
        AnySegment::Hot(hot) => read(&hot.index).totals.bytes_raw / ROOM_PARTS,
        AnySegment::Sealed(sealed) => sealed.bytes_disk,
    };
    sources.iter().map(bytes).sum::<u64>() + ROOM_BYTES
}
