//! Opening a store: repairs hot segments after a crash. [`Directory`] has reconciled the list of
//! files with the catalog before.
//!
//! | found | done |
//! |---|---|
//! | file without row | it is read and listed |
//! | file that ends in a good index | the index is trusted |
//! | other file | every frame is read and checked; damaged ones are left out |
//! | torn bytes behind the last good frame | cut off: they were never acknowledged |
//! | whole frames behind a damaged header | the file is kept as it is, `damaged`, and never sealed, with a warning |
//! | file without a frame | removed, except the newest: it records which sequence numbers were issued |
//! | frames that a later segment has too | left out: they were written again after a failed write |

pub(crate) mod directory;
pub(crate) mod report;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use platform::{Clock, Disk};
use record::frame::FRAME_FORWARDED;
use segment::{Contents, FrameEntry, HotWriter, Origin, SegmentError, SegmentHeader, read_segment};

use crate::catalog::{Catalog, RowState, SegmentRow};
use crate::config::{COMMIT_BYTES_MAX, StoreConfig};
use crate::error::StoreError;
use crate::recovery::directory::{Directory, Files};
use crate::recovery::report::{Dropped, RecoveryReport};
use crate::segments::file_names::hot_name;
use crate::segments::hot::{HotIndex, HotSegment};
use crate::segments::sealed::SealedSegment;
use crate::segments::{AnySegment, SegmentList};
use crate::store_core::InitialState;
use crate::store_core::nodes::recover_held;
use crate::store_core::retention_clock::ClockRecord;

/// The state that a store starts from, and the file that its writer continues.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) catalog: Catalog,
    /// The hot segment to continue: the last one, unless later lines were sealed.
    pub(crate) active: Option<HotWriter>,
    pub(crate) beginning: InitialState,
}

/// Reads the data directory, which must be locked, and repairs it.
pub(crate) fn recover(
    config: &StoreConfig,
    disk: &dyn Disk,
    clock: &dyn Clock,
) -> Result<Recovered, StoreError> {
    let start_ns = clock.monotonic_ns();
    let catalog = Catalog::open(disk.os_path(&config.data_dir.join("catalog.sqlite")))?;
    let mut report = RecoveryReport::default();
    let rows: BTreeMap<u64, SegmentRow> =
        catalog.rows()?.into_iter().map(|row| (row.id, row)).collect();
    let dir = Directory { dir: config.segments_dir(), disk, catalog: &catalog, rows: &rows };
    let Files { hot, sealed, id_max } = dir.put_in_order(&mut report)?;
    let mut found = Vec::new();
    for id in hot {
        let row = rows.get(&id);
        let kept = row.map(|row| row.state).filter(|state| is_kept(*state));
        let path = config.segments_dir().join(hot_name(id));
        let limit = row.filter(|_| kept.is_some()).map(|row| row.data_end);
        let contents = read_segment(disk, &path, id, limit)?;
        found.push(FoundHot { id, path, kept, contents });
    }
    drop_repeated(&mut found);

    let own_header = |f: &FoundHot| f.contents.header.as_ref().ok().map(|h| h.node);
    let node_known = catalog.node()?.or_else(|| found.iter().rev().find_map(own_header));
    let node_known = node_known.or_else(|| sealed.last().map(|s| s.node));
    let node = node_known.unwrap_or_else(|| fastrand::u32(1..));
    catalog.set_node(node)?;

    let known = |s: &Arc<SealedSegment>| AnySegment::Sealed(s.clone()).sequence_known(node);
    let sequence_sealed = sealed.iter().map(known).max().unwrap_or(1);
    // Lines of another node have numbers of that node.
    let own = sealed.iter().filter(|s| s.node == node);
    let sealed_through = own.filter_map(|s| s.sequence).map(|(_, last)| last).max();
    let deletions = catalog.deletions()?;
    // Frames lost in a power cut may have had numbers that a deletion covers. Later frames must not
    // get these numbers: their lines came after the deletion was requested.
    let sequence_covered = deletions.iter().map(|d| d.scope.sequence_before).max().unwrap_or(1);
    let marks = sealed.iter().filter_map(|s| s.summarised_through).max();
    report.segments += sealed.len() as u64;
    report.lines += sealed.iter().map(|s| s.lines).sum::<u64>();
    let beginning = InitialState {
        node,
        sequence_next: sequence_next(&found, node).max(sequence_sealed).max(sequence_covered),
        segment_next: rows.keys().copied().max().unwrap_or(0).max(id_max) + 1,
        segments: SegmentList { hot: Vec::new(), sealed },
        deletions,
        departed: catalog.departed()?,
        summarised_through: catalog.summarised_through()?.max(marks),
        clock: catalog.clock()?,
        held: recover_held(found.iter().map(|f| {
            let header = f.contents.header.as_ref();
            (header.map_or(&[][..], |header| &header.held), &f.contents.frames[..])
        })),
    };
    let mut recovered =
        Recovered { report: RecoveryReport::default(), catalog, active: None, beginning };
    let last = found.last().map(|f| f.id);
    for segment in found {
        let is_last = last == Some(segment.id);
        recovered.adopt(segment, is_last, sealed_through, config, disk, &mut report)?;
    }
    let beginning = &mut recovered.beginning;
    if beginning.clock.is_none() {
        let received = beginning.segments.by_age().into_iter().filter_map(|s| s.received_ns());
        let newest_ns = received.map(|(_, newest_ns)| newest_ns).max();
        beginning.clock = newest_ns.map(|believed_ns| ClockRecord { believed_ns, held: None });
    }
    report.elapsed_ms = (clock.monotonic_ns() - start_ns) / 1_000_000;
    recovered.report = report;
    Ok(recovered)
}

/// Whether, by the catalog, only a part of the file is valid.
fn is_kept(state: RowState) -> bool {
    matches!(state, RowState::Kept | RowState::Damaged)
}

/// A hot segment's file as it was found.
struct FoundHot {
    id: u64,
    path: PathBuf,
    /// Its state in the catalog, if only a part of the file counts.
    kept: Option<RowState>,
    contents: Contents,
}

/// Leaves out frames of files that could not be closed, if a later file has the same frames.
fn drop_repeated(found: &mut [FoundHot]) {
    let scanned = |f: &FoundHot| matches!(f.contents.origin, Origin::Scan(_));
    let Some(first) = found.iter().position(scanned) else { return };
    let last = found.len() - 1;
    let mut later: HashSet<(u32, u64)> = HashSet::new();
    for place in (first..=last).rev().filter(|_| first < last) {
        let is_scanned = scanned(&found[place]);
        let frames = &mut found[place].contents.frames;
        if is_scanned && place < last {
            frames.retain(|entry| !later.contains(&(entry.node, entry.sequence)));
        }
        later.extend(frames.iter().map(|entry| (entry.node, entry.sequence)));
        if is_scanned && let Some(end) = frames.last().map(FrameEntry::end) {
            found[place].contents.data_end = end;
        }
    }
}

fn sequence_next(found: &[FoundHot], node: u32) -> u64 {
    let given = found.iter().flat_map(|f| {
        let own = f
            .contents
            .frames
            .iter()
            .filter(move |entry| entry.node == node || entry.flags & FRAME_FORWARDED != 0);
        let floor = f.contents.header.as_ref().ok().map(|header| header.sequence_next);
        own.map(|entry| entry.sequence.saturating_add(1)).chain(floor)
    });
    given.max().unwrap_or(1)
}

impl Recovered {
    /// Adopts a file: as it is, closed with an index, or as the active segment.
    fn adopt(
        &mut self,
        found: FoundHot,
        is_last: bool,
        sealed_through: Option<u64>,
        config: &StoreConfig,
        disk: &dyn Disk,
        report: &mut RecoveryReport,
    ) -> Result<(), StoreError> {
        let FoundHot { id, path, kept, contents } = found;
        let Contents { header, frames, data_end, file_bytes, origin } = contents;
        let mut whole_tail = false;
        let mut tail_bytes = 0;
        if let Origin::Scan(scan) = &origin {
            report.segments_scanned += u64::from(!frames.is_empty());
            whole_tail = scan.tail_has_frames;
            tail_bytes = scan.tail_bytes;
            let torn_only = scan.damaged_frames == 0 && !whole_tail;
            if scan.damaged_frames > 0 && data_end > HEADER_END {
                warn_damage(report, &scan.damages, "damaged frames are left out");
            } else if !torn_only {
                warn_damage(report, &scan.damages, "what is behind it is kept but not read");
            }
        }
        let wanted = kept.is_some() || whole_tail || (is_last && header.is_ok());
        if frames.is_empty() && !wanted {
            disk.remove(&path).map_err(StoreError::io(&path, "delete"))?;
            let dir = config.segments_dir();
            disk.sync_dir(&dir).map_err(StoreError::io(&dir, "sync"))?;
            self.catalog.remove(id)?;
            return Ok(());
        }
        let header = header.unwrap_or_else(|error| {
            report.warnings.push(error.to_string());
            let node = self.beginning.node;
            SegmentHeader { node, segment: id, created_ns: 0, sequence_next: 0, held: Vec::new() }
        });
        let (state, file_bytes) = match origin {
            _ if whole_tail => (RowState::Damaged, file_bytes),
            _ if kept.is_some() => (kept.unwrap_or(RowState::Kept), file_bytes),
            Origin::Index => (RowState::Rolled, file_bytes),
            Origin::Scan(_) => {
                if tail_bytes > 0 {
                    report.dropped.push(Dropped { segment: id, bytes: tail_bytes });
                }
                let writer = HotWriter::resume(disk, &path, id, data_end, COMMIT_BYTES_MAX)?;
                // A file that could not be closed may be older than lines that were sealed since.
                // It gets no new lines, since these would be kept and deleted together with its old
                // ones.
                let is_newest = frames.last().is_none_or(|f| Some(f.sequence) > sealed_through);
                if is_last && is_newest && data_end < config.segment_bytes() {
                    self.active = Some(writer);
                    (RowState::Hot, data_end)
                } else {
                    (RowState::Rolled, close(writer, &frames, file_bytes))
                }
            }
        };
        report.segments += u64::from(!frames.is_empty());
        report.frames += frames.len() as u64;
        report.lines += frames.iter().map(|entry| u64::from(entry.lines)).sum::<u64>();
        let index = HotIndex::new(state, frames, data_end, file_bytes);
        let segment = Arc::new(HotSegment::new(path, &header, index));
        self.catalog.put(&segment.row())?;
        self.beginning.segments.hot.push(segment);
        Ok(())
    }
}

const HEADER_END: u64 = segment::HEADER_BYTES as u64;

fn warn_damage(report: &mut RecoveryReport, damages: &[SegmentError], consequence: &str) {
    report.warnings.extend(damages.iter().map(|damage| format!("{damage}; {consequence}")));
}

/// Closes a file with its index. On a full disk it stays without one, which only costs a scan at
/// the next start.
fn close(writer: HotWriter, frames: &[FrameEntry], file_bytes: u64) -> u64 {
    writer.roll(frames).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        file_bytes
    })
}
