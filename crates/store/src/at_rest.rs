//! Inspects a data directory, or a backup, that no server has open. No byte is changed, with one
//! exception: SQLite rolls back a catalog transaction that a crash interrupted, as at every
//! opening.
//!
//! The same files count as at a start of the store. Files whose row is marked for deletion, sources
//! of a finished rewrite, and files of an unfinished rewrite are left out. Damage that a start
//! would repair is left as it is and listed in [`AtRest::notes`].
//!
//! Left out: event times, pending deletions, and everything that writes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use platform::{Disk, DiskLock, LockError, is_not_regular};
use rusqlite::{OpenFlags, OptionalExtension};
use segment::sealed::SealedFile;
use segment::{Contents, FrameEntry, Origin, SegmentError, read_segment};

use crate::catalog::{open_file, schema, without_links};
use crate::error::StoreError;

/// Name of the catalog in a data directory.
pub const CATALOG_FILE: &str = "catalog.sqlite";
const JOURNAL_FILE: &str = "catalog.sqlite-journal";
/// Name of the directory of segments in a data directory.
pub const SEGMENTS_DIR: &str = "segments";

/// The form of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// Frames as they arrived.
    Hot,
    /// Columns.
    Sealed,
}

impl SegmentKind {
    /// The kind and number of a segment by its file name; None when no segment has such a name.
    pub fn of_file(name: &str) -> Option<(SegmentKind, u64)> {
        let (number, extension) = name.split_once('.')?;
        let kind = match extension {
            "hot" => SegmentKind::Hot,
            "sealed" => SegmentKind::Sealed,
            _ => return None,
        };
        let id: u64 = number.parse().ok()?;
        (id > 0 && id.to_string() == number).then_some((kind, id))
    }

    /// The kind of a segment by the first bytes of its file.
    pub fn of_bytes(start: &[u8]) -> Option<SegmentKind> {
        match start.get(..8)? {
            b"LGNHOTSG" => Some(SegmentKind::Hot),
            b"LGNSEALD" => Some(SegmentKind::Sealed),
            _ => None,
        }
    }
}

/// The catalog row of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its state: `hot`, `rolled`, `sealed`, ….
    pub state: String,
    /// Its file.
    pub file: String,
    /// Lines in it; outdated for a hot segment that was not closed.
    pub lines: u64,
    /// Bytes of its lines with their newlines; outdated for a hot segment that was not closed.
    pub bytes_raw: u64,
    /// Offset of the first byte behind its frames; bounds the valid part in the state `kept`.
    pub data_end: u64,
}

/// A segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestSegment {
    /// Its number.
    pub id: u64,
    /// Its form.
    pub kind: SegmentKind,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
    /// Its row in the catalog; None when that was lost or not written yet.
    pub listed: Option<Listed>,
}

impl RestSegment {
    /// Whether the catalog's counts of this segment are final.
    pub fn is_closed(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.state != "hot")
    }

    /// Whether acknowledged frames that the catalog knows are not among the contents of its file.
    pub fn lacks_frames(&self, contents: &Contents) -> bool {
        self.listed.as_ref().is_some_and(|listed| contents.data_end < listed.data_end)
    }

    /// The valid length of its file, bytes; None when the whole file is valid.
    pub fn limit(&self) -> Option<u64> {
        self.listed.as_ref().filter(|listed| listed.state == "kept").map(|listed| listed.data_end)
    }
}

/// A data directory that no process writes.
pub struct AtRest {
    /// The directory.
    pub dir: PathBuf,
    /// Its segments, hot and sealed, by number.
    pub segments: Vec<RestSegment>,
    /// Catalog rows whose file is missing: segment number and row.
    pub missing: Vec<(u64, Listed)>,
    /// Why the catalog could not be used, if it could not.
    pub catalog_fault: Option<StoreError>,
    /// The repairs that the next start will do.
    pub notes: Vec<String>,
    _lock: Option<Box<dyn DiskLock>>,
}

impl AtRest {
    /// Whether a directory looks like a data directory or a backup.
    pub fn is_one(disk: &dyn Disk, dir: &Path) -> bool {
        disk.list(&dir.join(SEGMENTS_DIR)).is_ok()
    }

    /// Inspects a directory. No server can open it meanwhile.
    ///
    /// Errors: a server has it open; it is no data directory or cannot be read.
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<AtRest, StoreError> {
        let segments_dir = dir.join(SEGMENTS_DIR);
        let lock = lock(disk, dir)?;
        let names = disk.list(&segments_dir).map_err(|source| StoreError::Io {
            path: segments_dir.clone(),
            action: "read it as the segments of a data directory",
            source,
        })?;
        let mut at_rest = AtRest {
            dir: dir.to_owned(),
            segments: Vec::new(),
            missing: Vec::new(),
            catalog_fault: None,
            notes: Vec::new(),
            _lock: lock,
        };
        let mut rows = match read_catalog(disk, dir) {
            Ok(rows) => rows,
            Err(error) => {
                at_rest.catalog_fault = Some(error);
                BTreeMap::new()
            }
        };
        for name in names {
            let path = segments_dir.join(&name);
            if let Some((kind, id)) = SegmentKind::of_file(&name) {
                let listed = rows.get(&id).filter(|row| row.file == name).cloned();
                if listed.as_ref().is_some_and(|row| row.state == "deleting") {
                    at_rest.notes.push(format!("{}: is about to be deleted", path.display()));
                    continue;
                }
                let bytes = match disk.file_bytes(&path) {
                    Ok(bytes) => bytes,
                    Err(error) if is_not_regular(&error) => {
                        at_rest.notes.push(format!("{}: {error}", path.display()));
                        continue;
                    }
                    Err(error) => return Err(StoreError::io(&path, "get the length of")(error)),
                };
                at_rest.segments.push(RestSegment { id, kind, path, bytes, listed });
            } else {
                at_rest.notes.push(format!("{}: is none of the segments", path.display()));
            }
        }
        at_rest.segments.sort_by_key(|segment| (segment.id, segment.kind));
        let replaced = at_rest.leave_out_replaced(disk);
        let there: BTreeSet<u64> = at_rest.segments.iter().map(|segment| segment.id).collect();
        rows.retain(|id, row| {
            row.state != "deleting" && !there.contains(id) && !replaced.contains(id)
        });
        at_rest.missing = rows.into_iter().collect();
        Ok(at_rest)
    }

    /// Leaves out the sources of rewrites whose catalog step was not done; returns their numbers.
    fn leave_out_replaced(&mut self, disk: &dyn Disk) -> BTreeSet<u64> {
        let unlisted = self
            .segments
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Sealed && segment.listed.is_none());
        let node = node_of(&self.dir).ok().flatten();
        let (mut replaced, mut out_of_place) = (BTreeSet::new(), BTreeSet::new());
        for segment in unlisted {
            let Ok(file) = SealedFile::open(disk, &segment.path) else { continue };
            let (header, sources) = (&file.footer().header, &file.footer().replaces);
            if header.segment != segment.id {
                continue;
            }
            let is_source = |other: &RestSegment| {
                let is_named = sources.contains(&other.id);
                let made_of = || file.may_be_made_of(disk, other.id, &other.path);
                is_named.then(made_of).flatten()
            };
            let known = |other: &RestSegment| Some((other.id, is_source(other)?));
            let found: Vec<(u64, bool)> = self.segments.iter().filter_map(known).collect();
            if node.is_some_and(|node| node != header.node) {
                // It names segments of another store, which may be here, too.
                let here = found.iter().filter(|(_, is_source)| *is_source);
                replaced.extend(here.map(|(id, _)| *id));
            } else if found.iter().any(|(_, is_source)| !is_source) {
                out_of_place.insert(segment.id);
            } else {
                replaced.extend(sources);
            }
        }
        let notes = &mut self.notes;
        self.segments.retain(|segment| {
            let path = segment.path.display();
            let is_replaced = replaced.contains(&segment.id);
            if is_replaced {
                notes.push(format!("{path}: its lines stand in a newer segment"));
            }
            let is_out_of_place =
                segment.kind == SegmentKind::Sealed && out_of_place.contains(&segment.id);
            if is_out_of_place {
                notes.push(format!(
                    "{path}: is about to be set aside: segments that it says it replaces were made by another store, or \
                     after it"
                ));
            }
            !is_replaced && !is_out_of_place
        });
        replaced
    }

    /// The frames of every hot segment, each frame once: a frame that was written again after a
    /// failed write counts in the later file. A file that cannot be read is returned with its
    /// error.
    pub fn hot_contents(
        &self,
        disk: &dyn Disk,
    ) -> Vec<(&RestSegment, Result<Contents, SegmentError>)> {
        let hot = self.segments.iter().filter(|segment| segment.kind == SegmentKind::Hot);
        let mut found: Vec<_> = hot
            .map(|segment| {
                (segment, read_segment(disk, &segment.path, segment.id, segment.limit()))
            })
            .collect();
        let mut later: HashSet<(u32, u64)> = HashSet::new();
        let scanned = |contents: &Contents| matches!(contents.origin, Origin::Scan(_));
        let is_scanned = |contents: &Result<Contents, _>| contents.as_ref().is_ok_and(scanned);
        let first = found.iter().position(|(_, contents)| is_scanned(contents));
        for (_, contents) in found.iter_mut().skip(first.unwrap_or(usize::MAX)).rev() {
            let Ok(contents) = contents else { continue };
            let key = |entry: &FrameEntry| (entry.node, entry.sequence);
            if scanned(contents) {
                contents.frames.retain(|entry| !later.contains(&key(entry)));
            }
            later.extend(contents.frames.iter().map(key));
        }
        found
    }
}

/// Takes the lock of a data directory. None for a backup, which has no lock file, and for a
/// directory that is not writable, since no server can have such a directory open.
fn lock(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn DiskLock>>, StoreError> {
    let path = dir.join("LOCK");
    match disk.file_bytes(&path) {
        Err(error) if is_not_regular(&error) => return Err(StoreError::io(&path, "lock")(error)),
        Err(_) => return Ok(None),
        Ok(_) => {}
    }
    match disk.lock(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { holder }) => {
            Err(StoreError::Locked { data_dir: dir.to_owned(), holder })
        }
        Err(LockError::Io(_)) => Ok(None),
    }
}

/// Copies the catalog of a data directory, whole and as one file. A server that has the directory
/// open must not change the catalog meanwhile (see [`Store::freeze`](crate::Store::freeze)).
pub fn copy_catalog(dir: &Path, to: &Path) -> Result<(), StoreError> {
    let path = dir.join(CATALOG_FILE);
    let connection = open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // Makes a consistent copy, as SQLite's backup interface does, without unused pages.
    let to = without_links(to)?;
    let copied = connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    copied.map(|_| ()).map_err(|source| StoreError::catalog(&path.display().to_string(), source))
}

/// The number of the store that a data directory or a backup is of; none without a catalog.
pub fn node_of(dir: &Path) -> Result<Option<u32>, StoreError> {
    let path = dir.join(CATALOG_FILE);
    if fs::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let connection = open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let sql = "SELECT value FROM meta WHERE key = 'node'";
    let found = connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional();
    let found = found.map_err(|source| StoreError::catalog(&path.display().to_string(), source))?;
    Ok(found.map(|node| node as u32))
}

/// The rows of the catalog, by number; none when there is no catalog.
fn read_catalog(disk: &dyn Disk, dir: &Path) -> Result<BTreeMap<u64, Listed>, StoreError> {
    let path = dir.join(CATALOG_FILE);
    // A link that leads nowhere is there, too.
    let Some(path) = disk.os_path(&path).filter(|path| fs::symlink_metadata(path).is_ok()) else {
        return Ok(BTreeMap::new());
    };
    // A journal that is not empty holds a change to be rolled back. A read-only connection cannot
    // roll it back, and cannot read the catalog before that is done.
    let interrupted =
        fs::metadata(path.with_file_name(JOURNAL_FILE)).is_ok_and(|file| file.len() > 0);
    let flags = match interrupted {
        true => OpenFlags::SQLITE_OPEN_READ_WRITE,
        false => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let connection = open_file(&path, flags)?;
    let read = || {
        let check: Option<String> =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).optional()?;
        if let Some(fault) = check.filter(|text| text != "ok") {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(code, Some(fault)));
        }
        match schema::version(&connection)? {
            Some(schema::SCHEMA_VERSION) => {}
            found => return Ok(Err(found.unwrap_or(0))),
        }
        let sql = "SELECT id, state, file, lines, bytes_raw, data_end FROM segments ORDER BY id";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let number = |place: usize| row.get::<_, i64>(place).map(|value| value as u64);
            let listed = Listed {
                state: row.get(1)?,
                file: row.get(2)?,
                lines: number(3)?,
                bytes_raw: number(4)?,
                data_end: number(5)?,
            };
            Ok((number(0)?, listed))
        })?;
        rows.collect::<Result<_, _>>().map(Ok)
    };
    let file = path.display().to_string();
    match read() {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(found)) => {
            Err(StoreError::CatalogVersion { file, expected: schema::SCHEMA_VERSION, found })
        }
        Err(source) => Err(StoreError::catalog(&file, source)),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_change_of_the_catalog_that_a_crash_interrupted_is_undone() {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = before.path().join(CATALOG_FILE);
        crate::catalog::Catalog::open(Some(file.clone())).unwrap();
        let connection = Connection::open(&file).unwrap();
        // A cache so small that the change reaches the file before it is committed.
        connection.execute_batch("PRAGMA journal_mode = TRUNCATE; PRAGMA cache_size = 1;").unwrap();
        connection.execute_batch("BEGIN; CREATE TABLE t (x); ").unwrap();
        for _ in 0..200 {
            connection.execute("INSERT INTO t VALUES (zeroblob(4000))", []).unwrap();
        }
        for name in [CATALOG_FILE, JOURNAL_FILE] {
            fs::copy(before.path().join(name), after.path().join(name)).unwrap();
        }
        assert!(fs::metadata(after.path().join(JOURNAL_FILE)).unwrap().len() > 0);
        assert_eq!(read_catalog(&platform::RealDisk, after.path()).unwrap(), BTreeMap::new());
        copy_catalog(after.path(), &after.path().join("copy")).unwrap();
        assert!(copy_catalog(after.path(), &after.path().join("copy")).is_err(), "it is there");
        let other = "UPDATE meta SET value = value - 1 WHERE key = 'schema_version'";
        Connection::open(after.path().join(CATALOG_FILE)).unwrap().execute(other, []).unwrap();
        let error = read_catalog(&platform::RealDisk, after.path()).unwrap_err().to_string();
        assert!(error.contains("has schema version"), "{error}");
    }

    #[test]
    fn only_names_of_segments_are_segments() {
        for (name, expected) in [
            ("1.hot", Some((SegmentKind::Hot, 1))),
            ("12.sealed", Some((SegmentKind::Sealed, 12))),
            ("12.sealing", None),
            ("0.hot", None),
            ("01.hot", None),
            ("1.hot.damaged", None),
            ("hot", None),
            ("../1.hot", None),
        ] {
            assert_eq!(SegmentKind::of_file(name), expected, "{name}");
        }
    }
}
