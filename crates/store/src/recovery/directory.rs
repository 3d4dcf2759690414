//! Opening a store: brings the directory of segments and the catalog into agreement about which
//! files exist.
//!
//! | found | done |
//! |---|---|
//! | row marked for deletion | its file is removed, then the row |
//! | `.sealing` | removed: a rewrite that was not finished, whose sources are there |
//! | `.sealed` whose length is that of its row | trusted without reading it |
//! | other `.sealed` | its footer is read; the row is made from it |
//! | `.sealed` whose footer cannot be read, and that is not listed | quarantined under another name, with a warning: its sources are there unless the catalog was lost too |
//! | `.sealed` whose footer cannot be read, and that is listed | stays listed by its row, with a warning |
//! | file that a `.sealed` without row names as a source | removed, with its row: the catalog step of the rewrite was not done |
//! | `.sealed` with another number than its name has, or naming as a source what it was not made of | quarantined likewise; nothing is removed |
//! | `.sealed` of another store | listed; what it names is not removed |
//! | link, pipe, directory or device with the name of a segment | left as it is, with its row and a warning; nothing is read of it |
//! | other row without file | the row is removed, with a warning |

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use platform::{Clock, Disk, is_not_regular};
use segment::SegmentError;
use segment::sealed::SealedFile;

use crate::catalog::{Catalog, LOCAL, RowState, SegmentRow};
use crate::error::StoreError;
use crate::recovery::progress::Progress;
use crate::recovery::report::{RecoveryReport, thousands};
use crate::segments::file_names::{
    DAMAGED, FileKind, file_kind, hot_name, sealed_name, sealing_name,
};
use crate::segments::sealed::{SealedSegment, row_of};

/// The directory of segments during recovery.
pub(crate) struct Directory<'a> {
    pub(crate) dir: PathBuf,
    pub(crate) disk: &'a dyn Disk,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) catalog: &'a Catalog,
    pub(crate) rows: &'a BTreeMap<u64, SegmentRow>,
}

/// The files in it.
pub(crate) struct Files {
    /// Ids of hot segments, in order.
    pub(crate) hot: BTreeSet<u64>,
    /// By id.
    pub(crate) sealed: Vec<Arc<SealedSegment>>,
    /// The greatest id in any name.
    pub(crate) id_max: u64,
}

fn name(kind: FileKind, id: u64) -> String {
    match kind {
        FileKind::Hot => hot_name(id),
        FileKind::Sealed => sealed_name(id),
        FileKind::Sealing => sealing_name(id),
    }
}

impl Directory<'_> {
    pub(crate) fn put_in_order(&self, report: &mut RecoveryReport) -> Result<Files, StoreError> {
        let names = self.disk.list(&self.dir).map_err(StoreError::io(&self.dir, "list"))?;
        let mut there: BTreeSet<(FileKind, u64)> =
            names.iter().filter_map(|name| file_kind(name)).collect();
        // Names of quarantined files count, too: their numbers are not used again.
        let number = |name: &String| name.split('.').next()?.parse::<u64>().ok();
        let id_max = names.iter().filter_map(number).max().unwrap_or(0);
        let irregular = self.leave_out_irregular(&mut there, report);
        let mut gone = Vec::new();
        there.retain(|&(kind, id)| {
            let leaves = kind == FileKind::Sealing || self.is_leaving(kind, id);
            if leaves {
                gone.push((kind, id));
            }
            !leaves
        });
        if let Some(row) = self.rows.values().find(|row| row.location != LOCAL) {
            let (segment, location) = (row.id, row.location.clone());
            return Err(StoreError::Location { segment, location });
        }
        let (sealed, replaced) = self.sealed(&mut there, report)?;
        for &id in &replaced {
            for kind in [FileKind::Hot, FileKind::Sealed] {
                if there.remove(&(kind, id)) {
                    gone.push((kind, id));
                }
            }
        }
        self.remove(&gone)?;
        for row in self.rows.values() {
            let is_there =
                [FileKind::Hot, FileKind::Sealed].iter().any(|&k| there.contains(&(k, row.id)));
            if is_there || (irregular.contains(&row.id) && !replaced.contains(&row.id)) {
                continue;
            }
            if row.state != RowState::Deleting && !replaced.contains(&row.id) {
                report.warnings.push(format!(
                    "segment {} with {} lines is missing: {} is not there",
                    row.id,
                    thousands(row.lines),
                    self.dir.join(&row.file).display(),
                ));
            }
            self.catalog.note_gone(row.id);
        }
        let hot = there.iter().filter(|(kind, _)| *kind == FileKind::Hot).map(|(_, id)| *id);
        let sealed = sealed.into_iter().filter(|s| !replaced.contains(&s.id)).collect();
        Ok(Files { hot: hot.collect(), sealed, id_max })
    }

    /// Leaves out links, pipes and whatever else has the name of a segment and is none, and reports
    /// them; returns their numbers. They stay as they are, and so do their rows.
    fn leave_out_irregular(
        &self,
        there: &mut BTreeSet<(FileKind, u64)>,
        report: &mut RecoveryReport,
    ) -> BTreeSet<u64> {
        let mut irregular = BTreeSet::new();
        there.retain(|&(kind, id)| {
            let path = self.dir.join(name(kind, id));
            match self.disk.file_bytes(&path) {
                Err(error) if is_not_regular(&error) && kind != FileKind::Sealing => {
                    let path = path.display();
                    report.warnings.push(format!("segment {id} cannot be read: {path}: {error}"));
                    irregular.insert(id);
                    false
                }
                _ => true,
            }
        });
        irregular
    }

    fn is_leaving(&self, kind: FileKind, id: u64) -> bool {
        let row = self.rows.get(&id).filter(|row| row.state == RowState::Deleting);
        row.is_some_and(|row| file_kind(&row.file) == Some((kind, id)))
    }

    /// The sealed segments, and the segments that they replace.
    fn sealed(
        &self,
        there: &mut BTreeSet<(FileKind, u64)>,
        report: &mut RecoveryReport,
    ) -> Result<(Vec<Arc<SealedSegment>>, BTreeSet<u64>), StoreError> {
        let mut segments = Vec::new();
        let mut replaced = BTreeSet::new();
        let node = self.catalog.node()?;
        let ids: Vec<u64> =
            there.iter().filter(|(kind, _)| *kind == FileKind::Sealed).map(|(_, id)| *id).collect();
        let mut progress = Progress::new(self.clock, "checking sealed segments", ids.len());
        for id in ids {
            progress.step();
            let path = self.dir.join(sealed_name(id));
            let row = self.rows.get(&id).filter(|row| row.state == RowState::Sealed);
            let bytes =
                self.disk.file_bytes(&path).map_err(StoreError::io(&path, "get the length of"))?;
            let known = row.filter(|row| row.bytes_disk == bytes);
            if let Some(row) = known {
                segments.push(Arc::new(SealedSegment::from_row(row, &self.dir)));
                continue;
            }
            let row = match SealedFile::open(self.disk, &path) {
                Ok(file) => {
                    let footer = file.footer();
                    if let Some(why) = self.is_out_of_place(&file, id, node, there) {
                        self.set_aside(&path, report, &why)?;
                        there.remove(&(FileKind::Sealed, id));
                        continue;
                    }
                    let is_own = node.is_none_or(|node| node == footer.header.node);
                    // A file of another store names segments of that store, which may be here, too.
                    let here = &*there;
                    let is_source = |id: u64| self.is_source(&file, id, here) == Some(true);
                    let sources = footer.replaces.iter().copied();
                    replaced.extend(sources.filter(|&id| is_own || is_source(id)));
                    row_of(footer)
                }
                Err(error @ (SegmentError::Io { .. } | SegmentError::Version { .. })) => {
                    return Err(error.into());
                }
                Err(error) => match row {
                    Some(row) => {
                        report.warnings.push(format!("{error}; its lines cannot all be read"));
                        row.clone()
                    }
                    None => {
                        self.set_aside(&path, report, &error)?;
                        there.remove(&(FileKind::Sealed, id));
                        continue;
                    }
                },
            };
            self.catalog.note_row(&row);
            segments.push(Arc::new(SealedSegment::from_row(&row, &self.dir)));
        }
        Ok((segments, replaced))
    }

    /// Why the file with the name of sealed segment `id` is not taken for it: it is another one, or
    /// a segment that is here, and that it says it replaces, is none that it was made of.
    fn is_out_of_place(
        &self,
        file: &SealedFile,
        id: u64,
        node: Option<u32>,
        there: &BTreeSet<(FileKind, u64)>,
    ) -> Option<String> {
        let (path, footer) = (file.path().display(), file.footer());
        let header = &footer.header;
        if header.segment != id {
            return Some(format!("{path}: it says that it is segment {}", header.segment));
        }
        if node.is_some_and(|node| node != header.node) {
            return None;
        }
        let is_none = |id: &u64| self.is_source(file, *id, there) == Some(false);
        let other = footer.replaces.iter().copied().find(is_none)?;
        Some(format!(
            "{path}: it says that it replaces segment {other}, and the one that is here was made by another store, or after \
             it"
        ))
    }

    /// Whether a segment that is here is one that the file can have been made of; None if it is not
    /// here, or its header cannot be read.
    fn is_source(
        &self,
        file: &SealedFile,
        id: u64,
        there: &BTreeSet<(FileKind, u64)>,
    ) -> Option<bool> {
        let path = |kind| self.dir.join(name(kind, id));
        let kinds = [FileKind::Hot, FileKind::Sealed].into_iter();
        let here = kinds.filter(|&kind| there.contains(&(kind, id)));
        let found = here.filter_map(|kind| file.may_be_made_of(self.disk, id, &path(kind)));
        found.reduce(|one, other| one && other)
    }

    /// Quarantines a file: renames it, so that the store no longer takes it for a segment.
    fn set_aside(
        &self,
        path: &std::path::Path,
        report: &mut RecoveryReport,
        error: &dyn std::fmt::Display,
    ) -> Result<(), StoreError> {
        let aside = path.with_added_extension(DAMAGED);
        self.disk.rename(path, &aside).map_err(StoreError::io(path, "rename"))?;
        self.disk.sync_dir(&self.dir).map_err(StoreError::io(&self.dir, "sync"))?;
        report.warnings.push(format!("{error}; the file is set aside as {}", aside.display()));
        Ok(())
    }

    fn remove(&self, files: &[(FileKind, u64)]) -> Result<(), StoreError> {
        for &(kind, id) in files {
            let path = self.dir.join(name(kind, id));
            self.disk.remove(&path).map_err(StoreError::io(&path, "delete"))?;
        }
        // The directory is synced even when nothing was removed. If a sync failed before this
        // start, files that are found may not be durable, and new lines go into one of them.
        self.disk.sync_dir(&self.dir).map_err(StoreError::io(&self.dir, "sync"))
    }
}
