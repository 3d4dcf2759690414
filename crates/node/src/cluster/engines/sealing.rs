//! Makes sealed segments: of the frames of a partition, of several segments, and of the lines of
//! one that are to stay.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use cluster::{
    FileBody, FrameRange, HotFrame, MergeFailed, Merger, NodeId, ObjectBody, Objects, Orders,
    Pruned, Pruner, RetentionRule, SealError, Sealed, Sealer, SegmentRow, TimeRange,
};
use platform::{Clock, RealDisk};
use programs::summary::SummaryConfig;
use record::{Batch, Row};
use segment::SegmentError;
use segment::sealed::{
    BlockEntry, Effort, Joined, NodeNumbers, SealOptions, SealedFile, SealedHeader, SealedWriter,
};
use store::LineFilter;

use super::Engines;
use super::hidden::{Compiled, Covering, HiddenLines};
use super::partition::OwnedPartition;
use super::segments::open_once;
use crate::storage::line_filter::line_filter;

/// The directory of files that are being written, and what writing needs.
pub struct Sealing {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    node: u32,
    threads: usize,
    summary: SummaryConfig,
    files: AtomicU64,
}

impl Sealing {
    /// Empties the directory: what is there was left by a crash, and no segment.
    ///
    /// Errors: the directory cannot be used.
    pub fn new(
        directory: &Path,
        clock: Arc<dyn Clock>,
        node: u32,
        threads: usize,
        summary: SummaryConfig,
    ) -> std::io::Result<Sealing> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let (directory, files) = (directory.to_owned(), AtomicU64::new(0));
        Ok(Sealing { directory, clock, node, threads, summary, files })
    }

    fn header(&self) -> SealedHeader {
        SealedHeader {
            node: self.node,
            segment: 0,
            created_ns: self.clock.now_ns(),
            sequence_next: 0,
        }
    }

    /// One segment of the blocks of several.
    fn joined(&self, segments: &[SegmentRow], files: Vec<SealedFile>) -> Sealed {
        let joined = Joined::new(&self.header(), files);
        let footer = joined.footer();
        let (first_ns, last_ns) = footer.time_ns().unwrap_or((i64::MIN, i64::MAX));
        let received = segments.iter().map(|row| row.received_last_ns);
        Sealed {
            times: TimeRange { first_ns, last_ns },
            received_last_ns: received.max().unwrap_or(0),
            lines: footer.lines(),
            searched: 0,
            frames: footer.numbers().into_iter().map(frames).collect(),
            body: Box::new(JoinedBody(joined)),
        }
    }

    /// Writes a segment of batches, in their order. Its file is deleted at once, and exists as long
    /// as it is open.
    fn seal(
        &self,
        effort: Effort,
        received_last_ns: i64,
        pieces: Pieces<'_>,
    ) -> Result<Sealed, SealError> {
        let number = self.files.fetch_add(1, Relaxed);
        let path = self.directory.join(format!("{number}.sealing"));
        let sealed = self.write(&path, effort, received_last_ns, pieces);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("{}: {error}", path.display());
        }
        sealed
    }

    fn write(
        &self,
        path: &Path,
        effort: Effort,
        received_last_ns: i64,
        pieces: Pieces<'_>,
    ) -> Result<Sealed, SealError> {
        let failed = |error: SegmentError| SealError(error.to_string());
        let header = self.header();
        let options = SealOptions::new(effort);
        let mut writer =
            SealedWriter::create(&RealDisk, path, &header, &[], options).map_err(failed)?;
        writer.set_threads(self.threads);
        for piece in pieces {
            let pushed = match piece.map_err(failed)? {
                Piece::Block { entry, stored, batch } => {
                    writer.count_block(&batch);
                    writer.copy_block(&entry, &stored)
                }
                Piece::Rows(batch, None) => writer.push(batch, None),
                Piece::Rows(batch, Some(gone)) => {
                    let stays = |row: &Row<'_>| !gone[row.index() as usize];
                    writer.push(batch, Some(&stays))
                }
            };
            pushed.map_err(failed)?;
        }
        let footer = writer.finish().map_err(failed)?;
        let body = platform::read_regular(path).and_then(FileBody::new);
        let body = body.map_err(|error| SealError(format!("{}: {error}", path.display())))?;
        let (first_ns, last_ns) = footer.time_ns().unwrap_or((i64::MIN, i64::MAX));
        Ok(Sealed {
            body: Box::new(body),
            times: TimeRange { first_ns, last_ns },
            received_last_ns,
            lines: footer.lines(),
            searched: 0,
            frames: footer.numbers().into_iter().map(frames).collect(),
        })
    }
}

/// Segments that are uploaded as one, block by block.
struct JoinedBody(Joined);

impl ObjectBody for JoinedBody {
    fn size(&self) -> u64 {
        self.0.bytes()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(offset, buffer).map_err(std::io::Error::other)
    }
}

/// What a segment is written of, in its order.
type Pieces<'a> = &'a mut dyn Iterator<Item = Result<Piece, SegmentError>>;

enum Piece {
    /// Rows, and which of them are left out, if any.
    Rows(Arc<Batch>, Option<Vec<bool>>),
    /// A block of another segment that stays as it is, with its lines, which are counted.
    Block { entry: BlockEntry, stored: Vec<u8>, batch: Arc<Batch> },
}

fn frames(numbers: NodeNumbers) -> FrameRange {
    let NodeNumbers { node, first, last } = numbers;
    FrameRange { node: NodeId(node), first, last }
}

/// Seals the frames of one partition, without the lines that deletions cover.
pub struct FrameSealer<'a> {
    /// The engines, which know the deletions.
    pub engines: &'a Engines,
    /// How.
    pub sealing: &'a Sealing,
    /// What has the records of the frames.
    pub partition: &'a OwnedPartition,
}

impl Sealer for FrameSealer<'_> {
    fn seal(&self, _: u32, frames: &[HotFrame]) -> Result<Sealed, SealError> {
        let received = frames.iter().filter_map(|hot| hot.frame.received_range_ns());
        let received_last_ns = received.map(|(_, last)| last).max().unwrap_or(0);
        let batches: Vec<Arc<Batch>> = frames.iter().map(|hot| self.partition.batch(hot)).collect();
        let first = frames.first().map_or(0, |hot| hot.offset);
        let rows = self.partition.summary_rows(
            &batches,
            first,
            self.sealing.node,
            &self.sealing.summary,
            self.sealing.clock.now_ns(),
        );
        // The rows count the lines that go, too.
        let covering = self.engines.covering().map_err(SealError)?;
        let mut batches = batches.into_iter().chain(rows).map(|batch| {
            let gone = covering.select(&batch, 0, &mut |_| {});
            Ok::<_, SegmentError>(Piece::Rows(batch, gone))
        });
        let sealed = self.sealing.seal(Effort::Fast, received_last_ns, &mut batches)?;
        Ok(Sealed { searched: covering.last_id(), ..sealed })
    }
}

/// Merges segments.
pub struct SegmentMerger<'a> {
    /// How.
    pub sealing: &'a Sealing,
    /// Where the segments are.
    pub bucket: &'a Arc<dyn Objects>,
}

/// Bytes of segments that were sealed in haste and are made anew, as small as can be: their lines
/// take that much of the local disk. Larger ones are joined as they are.
const REMADE_BYTES_MAX: u64 = 1 << 30;

impl Merger for SegmentMerger<'_> {
    /// Segments that are as small as can be are joined without the local disk: their blocks are
    /// read when they are uploaded.
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, MergeFailed> {
        let open = |row: &SegmentRow| {
            open_once(self.bucket, &row.name, row.bytes).map_err(|error| MergeFailed {
                unreadable: is_unreadable(&error).then(|| row.name.clone()),
                error: SealError(error.to_string()),
            })
        };
        let files = segments.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let is_small = files.iter().all(|file| file.footer().effort == Effort::Best);
        if is_small || bytes > REMADE_BYTES_MAX {
            return Ok(self.sealing.joined(segments, files));
        }
        let unreadable = RefCell::new(None);
        let read = |file: &SealedFile, row: &SegmentRow, block: usize| {
            let batch = file.read_block(block);
            if batch.as_ref().is_err_and(is_unreadable) {
                *unreadable.borrow_mut() = Some(row.name.clone());
            }
            Ok::<_, SegmentError>(Piece::Rows(Arc::new(batch?), None))
        };
        let read = &read;
        let mut batches = files.iter().zip(segments).flat_map(|(file, row)| {
            (0..file.footer().blocks.len()).map(move |block| read(file, row, block))
        });
        let received_last_ns = segments.iter().map(|row| row.received_last_ns).max().unwrap_or(0);
        let sealed = self.sealing.seal(Effort::Best, received_last_ns, &mut batches);
        sealed.map_err(|error| MergeFailed { error, unreadable: unreadable.take() })
    }
}

/// Whether an error is about the segment that is read, and not about the way to it.
fn is_unreadable(error: &SegmentError) -> bool {
    error.is_not_found() || !matches!(error, SegmentError::Io { .. })
}

/// A rule rewrites a segment when the lines that it selects are at least 1/`WORTH_PARTS` of the
/// bytes of its lines, as on one machine. Otherwise they stay until the segment is dropped as a
/// whole.
const WORTH_PARTS: u64 = 8;

/// Searches segments for lines that have to go, and writes them without these.
pub struct SegmentPruner<'a> {
    /// How.
    pub sealing: &'a Sealing,
    /// Where the segments are.
    pub bucket: &'a Arc<dyn Objects>,
    /// The filters of deletions.
    pub deletions: &'a Compiled,
    /// The filters of rules.
    pub rules: CompiledRules,
}

/// The filters of rules of retention, compiled once while segments of a partition are searched:
/// relative times in them refer to the time when that began.
#[derive(Default)]
pub struct CompiledRules {
    rules: Mutex<BTreeMap<(String, i64), Arc<LineFilter>>>,
}

impl CompiledRules {
    fn get(&self, rule: &RetentionRule, now_ns: i64) -> Result<Arc<LineFilter>, SealError> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of another time are not needed again.
        rules.retain(|(_, at_ns), _| *at_ns == now_ns);
        let key = (rule.filter.clone(), now_ns);
        if let Some(filter) = rules.get(&key) {
            return Ok(Arc::clone(filter));
        }
        let filter = line_filter(&rule.filter, now_ns).map_err(|error| {
            SealError(format!("the rule of retention '{}': {error}", rule.filter))
        })?;
        Ok(Arc::clone(rules.entry(key).or_insert(Arc::new(filter))))
    }
}

/// The filters of some orders.
struct Filters {
    covering: Covering,
    rules: Vec<Arc<LineFilter>>,
}

impl SegmentPruner<'_> {
    fn filters(&self, orders: &Orders) -> Result<Filters, SealError> {
        let hidden = orders.tombstones.iter().map(HiddenLines::from);
        let covering = self.deletions.covering(hidden).map_err(SealError)?;
        let rules = orders.rules.iter().map(|rule| self.rules.get(rule, orders.now_ns));
        Ok(Filters { covering, rules: rules.collect::<Result<_, _>>()? })
    }
}

impl Filters {
    fn concern(&self, times: (i64, i64)) -> bool {
        let overlaps =
            |rule: &Arc<LineFilter>| rule.range_ns.0 <= times.1 && times.0 <= rule.range_ns.1;
        self.covering.may_cover(0, Some(times)) || self.rules.iter().any(overlaps)
    }

    /// The rows of a batch that go; the bytes that rules select are added to the last parameter.
    fn select(
        &self,
        batch: &Arc<Batch>,
        deleted: &mut BTreeMap<u64, u64>,
        ruled_bytes: &mut u64,
    ) -> Option<Vec<bool>> {
        let mut count = |id| *deleted.entry(id).or_insert(0) += 1;
        let mut gone = self.covering.select(batch, 0, &mut count);
        for rule in &self.rules {
            let selected = (rule.selects)(batch);
            for row in batch.rows().filter(|row| selected[row.index() as usize]) {
                let gone = gone.get_or_insert_with(|| vec![false; batch.len()]);
                if !std::mem::replace(&mut gone[row.index() as usize], true) {
                    *ruled_bytes += row.raw().len() as u64 + 1;
                }
            }
        }
        gone
    }
}

impl Pruner for SegmentPruner<'_> {
    fn concerns(&self, segment: &SegmentRow, orders: &Orders) -> Result<bool, SealError> {
        Ok(self.filters(orders)?.concern((segment.times.first_ns, segment.times.last_ns)))
    }

    fn prune(&self, segment: &SegmentRow, orders: &Orders) -> Result<Pruned, SealError> {
        let failed = |error: SegmentError| SealError(error.to_string());
        let filters = self.filters(orders)?;
        let file = open_once(self.bucket, &segment.name, segment.bytes).map_err(failed)?;
        let blocks = &file.footer().blocks;
        // Most segments have no such lines: one pass finds that out, and a second one writes.
        let (mut deleted, mut ruled_bytes) = (BTreeMap::new(), 0);
        for (number, block) in blocks.iter().enumerate() {
            if filters.concern(block.time_ns) {
                let batch = Arc::new(file.read_block(number).map_err(failed)?);
                filters.select(&batch, &mut deleted, &mut ruled_bytes);
            }
        }
        let bytes_raw: u64 = blocks.iter().map(|block| block.bytes_raw).sum();
        let is_worth = ruled_bytes > 0 && ruled_bytes >= bytes_raw / WORTH_PARTS;
        if deleted.is_empty() && !is_worth {
            return Ok(Pruned::Kept);
        }
        let mut batches = (0..blocks.len()).map(|number| {
            let stored = file.stored_block(number)?;
            let batch = Arc::new(file.block_of(number, &stored)?);
            let gone = match filters.concern(blocks[number].time_ns) {
                true => filters.select(&batch, &mut BTreeMap::new(), &mut 0),
                false => None,
            };
            let entry = blocks[number].clone();
            Ok::<_, SegmentError>(match gone {
                // To encode a block anew takes ten times as long as to read it.
                None => Piece::Block { entry, stored, batch },
                gone => Piece::Rows(batch, gone),
            })
        });
        let effort = file.footer().effort;
        let sealed = self.sealing.seal(effort, segment.received_last_ns, &mut batches)?;
        let lines: u64 = deleted.values().sum();
        tracing::info!(
            target: "audit",
            "{}: {} lines are gone, of them {lines} by deletions and the others by rules of retention",
            segment.name,
            segment.lines - sealed.lines.min(segment.lines)
        );
        Ok(Pruned::Rewritten {
            sealed: Some(sealed).filter(|sealed| sealed.lines > 0),
            deleted: deleted.into_iter().collect(),
        })
    }
}

#[cfg(test)]
mod tests;
