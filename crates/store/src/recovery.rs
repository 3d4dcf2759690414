//! Opening a store: repairs hot segments after a crash. [`Directory`] has reconciled the list of
//! files with the catalog before.
//!
//! | found | done |
//! |---|---|
//! | file without row | it is read and listed |
//! | file that ends in a good index | the index is trusted |
//! | other file | every frame is read and checked, also behind damage |
//! | torn bytes behind the last good frame of the active segment | cut off; a copy is kept |
//! | damage, see [`damage`] | the file is kept as it is, `damaged`, with a second name that says so, and never sealed; one warning |
//! | file without a frame | removed, except the newest that was finished: it records which sequence numbers were issued |
//! | frames that a later segment has too | left out: they were written again after a failed write |

pub(crate) mod damage;
pub(crate) mod directory;
mod progress;
pub(crate) mod report;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Clock, Disk};
use record::frame::FRAME_FORWARDED;
use segment::{Contents, FrameEntry, HotWriter, Origin, SegmentError, SegmentHeader, read_segment};

use crate::catalog::ClockRecord;
use crate::catalog::{Catalog, RowState, SegmentRow};
use crate::config::{COMMIT_BYTES_MAX, StoreConfig};
use crate::error::StoreError;
use crate::recovery::damage::{Verdict, copy_torn, describe, judge};
use crate::recovery::directory::{Directory, Files};
use crate::recovery::progress::Progress;
use crate::recovery::report::{Dropped, RecoveryReport};
use crate::segments::damage::set_aside;
use crate::segments::file_names::hot_name;
use crate::segments::hot::{HotIndex, HotSegment};
use crate::segments::sealed::SealedSegment;
use crate::segments::{AnySegment, SegmentList};
use crate::store_core::InitialState;
use crate::store_core::nodes::recover_held;

/// The state that a store starts from, and the file that its writer continues.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) catalog: Catalog,
    /// Whether the catalog could not be written, because the disk is full.
    pub(crate) is_catalog_stale: bool,
    /// The hot segment to continue: the last one, unless later lines were sealed.
    pub(crate) active: Option<HotWriter>,
    pub(crate) beginning: InitialState,
    /// Whether files were removed whose directory is not synced yet.
    has_removed: bool,
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
    let dir = Directory { dir: config.segments_dir(), disk, clock, catalog: &catalog, rows: &rows };
    let Files { hot, sealed, id_max } = dir.put_in_order(&mut report)?;
    let mut found = Vec::new();
    let mut progress = Progress::new(clock, "reading unsealed segments", hot.len());
    for id in hot {
        progress.step();
        let row = rows.get(&id).filter(|row| row.file == hot_name(id)).cloned();
        let path = config.segments_dir().join(hot_name(id));
        let limit = row.as_ref().filter(|row| is_kept(row.state)).map(|row| row.data_end);
        let mut contents = read_segment(disk, &path, id, limit)?;
        if let Ok(header) = &contents.header
            && header.segment != id
        {
            let (expected, found) =
                (format!("segment {id}"), format!("segment {}", header.segment));
            let (path, part) = (path.clone(), "the file header");
            contents.header =
                Err(SegmentError::Damaged { path, offset: 16, part, expected, found });
        }
        found.push(FoundHot { id, path, row, contents, is_repeated: false, is_record: false });
    }
    drop_repeated(&mut found);

    let own_header = |f: &FoundHot| f.contents.header.as_ref().ok().map(|h| h.node);
    let node_known = catalog.node()?.or_else(|| found.iter().rev().find_map(own_header));
    let node_known = node_known.or_else(|| sealed.last().map(|s| s.node));
    let node = node_known.unwrap_or_else(|| fastrand::u32(1..));
    let mut is_catalog_stale = is_stale(catalog.set_node(node), &mut report)?;
    let of_hot = found.iter().filter_map(|f| Some((f.id, own_header(f)?)));
    for (id, other) in of_hot.chain(sealed.iter().map(|s| (s.id, s.node))) {
        if other != node {
            report.warnings.push(format!(
                "segment {id} is of another store, {other:08x}; this one is {node:08x}: its lines are read, and not \
                 counted or sent on; move its file away if it is here by mistake"
            ));
        }
    }

    let known = |s: &Arc<SealedSegment>| AnySegment::Sealed(s.clone()).sequence_known(node);
    let sequence_sealed = sealed.iter().map(known).max().unwrap_or(1);
    // Lines of another node have numbers of that node.
    let own = sealed.iter().filter(|s| s.node == node);
    let sealed_through = own.filter_map(|s| s.sequence).map(|(_, last)| last).max();
    let deletions = catalog.deletions()?;
    // Frames lost in a power cut may have had numbers that a deletion covers. Later frames must not
    // get these numbers: their lines came after the deletion was requested.
    let sequence_covered = deletions.iter().map(|d| d.scope.sequence_before).max().unwrap_or(1);
    // So had frames in files that are not there, or cannot be read.
    let listed = rows.values().filter(|row| row.node == node);
    let listed = listed.map(|row| {
        row.sequence.map_or(0, |(_, last)| last.saturating_add(1)).max(row.sequence_next)
    });
    let sequence_listed = listed.max().unwrap_or(1);
    // Its watermarks do not say what is counted here.
    let own = sealed.iter().filter(|s| s.node == node);
    let marks = own.filter_map(|s| s.summarised_through).max();
    report.segments += sealed.len() as u64;
    report.lines += sealed.iter().map(|s| s.lines).sum::<u64>();
    let beginning = InitialState {
        node,
        sequence_next: sequence_next(&found, node)
            .max(sequence_sealed)
            .max(sequence_covered)
            .max(sequence_listed),
        segment_next: rows.keys().copied().max().unwrap_or(0).max(id_max) + 1,
        segments: SegmentList { hot: Vec::new(), sealed },
        deletions,
        departed: catalog.departed()?,
        summarised_through: catalog.summarised_through()?.max(marks),
        clock: catalog.clock()?,
        held: recover_held(found.iter().map(|f| {
            // What another store held is not here, except for the frames of the file itself.
            let header = f.contents.header.as_ref().ok().filter(|header| header.node == node);
            (header.map_or(&[][..], |header| &header.held[..]), &f.contents.frames[..])
        })),
    };
    let mut recovered = Recovered {
        report: RecoveryReport::default(),
        catalog,
        is_catalog_stale: false,
        active: None,
        beginning,
        has_removed: false,
    };
    let last = found.last().map(|f| f.id);
    let record = found
        .iter_mut()
        .rfind(|f| f.contents.header.as_ref().is_ok_and(|header| header.node == node));
    if let Some(record) = record {
        record.is_record = true;
    }
    let mut progress = Progress::new(clock, "closing unsealed segments", found.len());
    for segment in found {
        progress.step();
        let is_last = last == Some(segment.id);
        recovered.adopt(segment, is_last, sealed_through, config, disk, &mut report)?;
    }
    if recovered.has_removed {
        let dir = config.segments_dir();
        disk.sync_dir(&dir).map_err(StoreError::io(&dir, "sync"))?;
    }
    is_catalog_stale |= is_stale(recovered.catalog.write_notes(&rows), &mut report)?;
    recovered.is_catalog_stale = is_catalog_stale;
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

/// Whether a write of the catalog failed because the disk is full. A start does not need it: all
/// that it writes stands in the files, and is written once there is room.
fn is_stale(
    written: Result<(), StoreError>,
    report: &mut RecoveryReport,
) -> Result<bool, StoreError> {
    match written {
        Err(error) if error.is_disk_full() => {
            report.warnings.push(format!("{error}, and is written once there is room"));
            Ok(true)
        }
        written => written.map(|()| false),
    }
}

/// Whether, by the catalog, only a part of the file is valid.
fn is_kept(state: RowState) -> bool {
    matches!(state, RowState::Kept | RowState::Damaged)
}

/// A hot segment's file as it was found.
struct FoundHot {
    id: u64,
    path: PathBuf,
    /// What the catalog knows of it.
    row: Option<SegmentRow>,
    contents: Contents,
    /// Whether frames at its end were left out, because a later segment has them.
    is_repeated: bool,
    /// Whether it is the newest file of this store whose header can be read: the record of the
    /// numbers that were issued and of the frames held, even if it has no frame.
    is_record: bool,
}

/// Leaves out frames of files that could not be closed, if a later file has the same frames.
fn drop_repeated(found: &mut [FoundHot]) {
    let scanned = |f: &FoundHot| matches!(f.contents.origin, Origin::Scan(_));
    // With its own number, too: the file of another store has other frames under the same sequence.
    let key = |entry: &FrameEntry| (entry.node, entry.sequence, entry.number);
    let Some(first) = found.iter().position(scanned) else { return };
    let last = found.len() - 1;
    let mut later: HashSet<(u32, u64, u64)> = HashSet::new();
    for place in (first..=last).rev().filter(|_| first < last) {
        let is_scanned = scanned(&found[place]);
        let frames = &mut found[place].contents.frames;
        if is_scanned && place < last {
            let before = frames.len();
            frames.retain(|entry| !later.contains(&key(entry)));
            found[place].is_repeated = frames.len() < before;
        }
        let frames = &found[place].contents.frames;
        later.extend(frames.iter().map(key));
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
        // Frames that cannot be read had numbers, too.
        let row = f.row.as_ref().filter(|row| row.node == node);
        let listed = row.map(|row| {
            let last = row.sequence.map_or(0, |(_, last)| last.saturating_add(1));
            row.sequence_next.max(last)
        });
        own.map(|entry| entry.sequence.saturating_add(1)).chain(floor).chain(listed)
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
        let mut verdict = judge(&found.contents, found.row.as_ref(), is_last, found.is_repeated);
        let FoundHot { id, path, row, contents, is_record, .. } = found;
        if let Origin::Scan(_) = contents.origin {
            report.segments_scanned += u64::from(!contents.frames.is_empty());
        }
        if let Verdict::Torn { from, bytes } = verdict {
            match copy_torn(disk, &path, from, bytes) {
                Ok(copy) => {
                    if let Origin::Scan(scan) = &contents.origin
                        && from < contents.data_end
                    {
                        let damage = scan.damages.first().map(ToString::to_string);
                        report.warnings.push(format!(
                            "{}; a crash interrupted the last write, or the file is damaged: the frames behind it are kept, \
                             and {} has a copy of the bytes from there on",
                            damage.unwrap_or_default(),
                            copy.display()
                        ));
                    }
                    report.dropped.push(Dropped { segment: id, bytes, copy });
                }
                Err(error) => {
                    let (id, path) = (id, path.display());
                    report.warnings.push(format!(
                        "{error}; so the {bytes} unreadable bytes at the end of {path} stay there, and segment {id} gets \
                         no new lines"
                    ));
                    verdict = Verdict::Damaged;
                }
            }
        }
        let is_damaged = verdict == Verdict::Damaged;
        let is_kept_row = row.as_ref().is_some_and(|row| row.state == RowState::Kept);
        let is_last_whole = is_last && contents.header.is_ok();
        let wanted = is_damaged || is_kept_row || is_record || is_last_whole;
        if contents.frames.is_empty() && !wanted {
            disk.remove(&path).map_err(StoreError::io(&path, "delete"))?;
            self.has_removed = true;
            self.catalog.note_gone(id);
            return Ok(());
        }
        let lines_missing = match is_damaged {
            true => self.set_aside(id, &path, row.as_ref(), &contents, disk, report)?,
            false => 0,
        };
        let Contents { header, frames, mut data_end, file_bytes, origin, .. } = contents;
        let header = header.unwrap_or_else(|error| {
            if !is_damaged {
                report.warnings.push(error.to_string());
            }
            let node = self.beginning.node;
            SegmentHeader { node, segment: id, created_ns: 0, sequence_next: 0, held: Vec::new() }
        });
        let (state, file_bytes) = match origin {
            _ if is_damaged => {
                // So long the next start still expects frames in it.
                data_end = match &row {
                    Some(row) if is_kept(row.state) => row.data_end.max(data_end),
                    row => row.as_ref().map_or(0, |row| row.data_end).max(file_bytes),
                };
                (RowState::Damaged, file_bytes)
            }
            _ if is_kept_row => (RowState::Kept, file_bytes),
            Origin::Index => (RowState::Rolled, file_bytes),
            Origin::Scan(scan) => {
                let is_index_only = scan.tail_bytes == 0 && scan.damaged_at.is_none();
                for damage in scan.damages.iter().filter(|_| is_index_only) {
                    report.warnings.push(format!("{damage}; its frames are intact"));
                }
                let writer = HotWriter::resume(disk, &path, id, data_end, COMMIT_BYTES_MAX)?;
                // A file that could not be closed may be older than lines that were sealed since.
                // It gets no new lines, since these would be kept and deleted together with its old
                // ones.
                let is_newest = frames.last().is_none_or(|f| Some(f.sequence) > sealed_through);
                // Nor does one with unreadable bytes between its frames: a later start would take
                // them for damage.
                let has_gap = scan.damaged_at.is_some();
                // Nor does one that is not encrypted, or with another key than new files.
                let is_as_new = disk.is_as_new(&path).map_err(StoreError::io(&path, "read"))?;
                let has_room = data_end < config.segment_bytes(config.bytes_max);
                // Nor does one of another store: readers in the order of arrival pass it over.
                let is_own = header.node == self.beginning.node;
                if is_last && is_newest && is_own && !has_gap && is_as_new && has_room {
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
        let segment = Arc::new(HotSegment::new(path, &header, index, lines_missing));
        self.catalog.note_row(&segment.row());
        self.beginning.segments.hot.push(segment);
        Ok(())
    }

    /// Gives a damaged file a second name, reports it, and returns how many lines are known to be
    /// missing.
    fn set_aside(
        &self,
        id: u64,
        path: &Path,
        row: Option<&SegmentRow>,
        contents: &Contents,
        disk: &dyn Disk,
        report: &mut RecoveryReport,
    ) -> Result<u64, StoreError> {
        let there: u64 = contents.frames.iter().map(|entry| u64::from(entry.lines)).sum();
        let listed = row.map_or(0, |row| row.lines);
        let recorded = self.catalog.lines_missing(id)?;
        let missing = match (recorded, &contents.origin) {
            (Some(missing), _) => missing,
            (None, Origin::Scan(scan)) => scan.damaged_lines.max(listed.saturating_sub(there)),
            (None, Origin::Index) => 0,
        };
        if missing > 0 {
            self.catalog.set_lines_missing(id, missing)?;
        }
        let known = match contents.origin {
            Origin::Index => listed,
            _ if listed == 0 && recorded.is_none() => 0,
            Origin::Scan(_) => listed.max(there + missing),
        };
        let aside = set_aside(disk, path);
        report.warnings.push(describe(path, id, contents, (missing, known), &aside));
        Ok(missing)
    }
}

/// Closes a file with its index. On a full disk it stays without one, which only costs a scan at
/// the next start.
fn close(writer: HotWriter, frames: &[FrameEntry], file_bytes: u64) -> u64 {
    writer.roll(frames).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        file_bytes
    })
}
