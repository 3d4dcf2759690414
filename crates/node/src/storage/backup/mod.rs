//! A backup is a directory with the layout of a data directory, as it was at one moment, and a list
//! of its files.
//!
//! ```text
//! BACKUP/catalog.sqlite          a copy
//! BACKUP/segments/1.sealed       a second name (hard link) of a file that is never changed again
//! BACKUP/segments/9.hot          a copy of its acknowledged lines
//! BACKUP/dashboards/web.json     copies of what people made: dashboards, programs, rules of alerts
//! BACKUP/backup.json             the list, with bytes and lines of each file
//! ```
//!
//! A backup by a server contains every line that was acknowledged before it began. Writing stops
//! while hard links are made, some milliseconds; copies are made afterwards. The directory has a
//! temporary name until all of it is durable, so a crash leaves none that looks complete.
//!
//! A backup shares bytes with its store, so it takes space only for what the store has deleted
//! since, and does not help if the disk breaks: for that, [`destination`] sends it to another disk
//! or to S3 storage, by itself as [`schedule`] says. Left out: the configuration.

pub mod destination;
mod manifest;
mod restore;
pub mod schedule;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use platform::{Access, AlignedBuffer, Disk, DiskFile, check_regular, read_regular};
use segment::sealed::SealedFile;
use segment::{Origin, read_segment};
use store::{AtRest, RestSegment, SegmentKind, SegmentState, Store};

use crate::data_dir::{BACKUPS_FOLDER, STATE_FILES, STATE_FOLDERS, create_dirs, is_state};
use crate::process::log::one_line;
pub use manifest::{MANIFEST_FILE, Manifest, ManifestFile};
pub use restore::{check_restored, fetch_directory, finish_restore, restore, verify_backup};
use text::size::show_bytes;

/// Limit of a backup's name in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Suffixes of directories that are incomplete: being made, or being deleted.
const UNFINISHED: &str = ".part";
const LEAVING: &str = ".gone";

/// Checks the name of a backup: letters, digits, `.`, `_` and `-`, beginning with a letter or
/// digit. So, whoever gave it, it names a directory below that of all backups.
pub fn check_name(name: &str) -> Result<()> {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !letters || !begins || name.len() > NAME_BYTES_MAX {
        bail!(
            "'{}' is not a valid name for a backup; it has letters, digits, '.', '_' and '-', begins with a letter or digit, and is \
             no longer than {NAME_BYTES_MAX}",
            name.escape_default()
        );
    }
    Ok(())
}

/// The default name of a backup: `2026-11-22T00-15-00Z`.
pub fn name_of_time(now_ns: i64) -> String {
    const SECOND_NS: i64 = 1_000_000_000;
    text::time::format_time(now_ns.div_euclid(SECOND_NS) * SECOND_NS).replace(':', "-")
}

/// A backup with that name exists.
#[derive(Debug, thiserror::Error)]
#[error("there is a backup '{0}' already; choose another name, or delete it first")]
pub struct Exists(String);

/// The disk has no space for the copies.
#[derive(Debug, thiserror::Error)]
#[error(
    "a backup needs {needed} besides the space to be left free, and {free} are free; free space, delete lookups that nobody needs, or \
     wait until the hot segment is sealed"
)]
pub struct NoRoom {
    needed: String,
    free: String,
}

/// A segment file, and how it is put into a backup.
struct Piece {
    path: PathBuf,
    kind: SegmentKind,
    lines: u64,
    /// Bytes to copy; `None` for a hard link.
    copied: Option<u64>,
}

/// Makes a backup of a store in use. The caller ensures that only one is made at a time.
///
/// Errors: a backup with that name exists; the copies would take more space than there is, with
/// `free_bytes_min` left free.
pub fn of_store(
    store: &Store,
    data_dir: &Path,
    name: &str,
    now_ns: i64,
    free_bytes_min: u64,
) -> Result<Manifest> {
    let backups = data_dir.join(BACKUPS_FOLDER);
    sweep(&backups)?;
    of_store_in(&backups, store, data_dir, name, now_ns, free_bytes_min)
}

/// The same in another folder of the disk.
fn of_store_in(
    backups: &Path,
    store: &Store,
    data_dir: &Path,
    name: &str,
    now_ns: i64,
    free_bytes_min: u64,
) -> Result<Manifest> {
    let need_room = |needed: u64| -> Result<()> {
        let free = store.disk_space()?.free_bytes;
        if free < needed.saturating_add(free_bytes_min) {
            return Err(NoRoom { needed: show_bytes(needed), free: show_bytes(free) }.into());
        }
        Ok(())
    };
    let mut backup = Unfinished::begin(store.disk(), backups, name)?;
    // Before each part is copied.
    let folders_bytes = state_folders_bytes(data_dir)?;
    need_room(folders_bytes.saturating_add(state_files_bytes(data_dir)))?;
    // Nothing is written meanwhile: links, catalog and lengths are of the same moment.
    store.freeze(|segments| {
        backup.catalog(data_dir)?;
        backup.state_files(data_dir)?;
        segments.iter().try_for_each(|segment| {
            let is_sealed = segment.state == SegmentState::Sealed;
            // Durable frames never change, and a closed file gets no more frames.
            let copied = (segment.state == SegmentState::Hot).then_some(segment.data_end);
            let kind = if is_sealed { SegmentKind::Sealed } else { SegmentKind::Hot };
            backup.take(&Piece { path: segment.path.clone(), kind, lines: segment.lines, copied })
        })
    })?;
    need_room(folders_bytes.saturating_add(backup.bytes_to_copy()))?;
    backup.state_folders(data_dir)?;
    backup.finish(now_ns)
}

/// Bytes of the catalog and of the files of [`STATE_FILES`], which are copied while nothing is
/// written.
fn state_files_bytes(data_dir: &Path) -> u64 {
    let names = STATE_FILES.iter().copied().chain([store::CATALOG_FILE]);
    // What cannot be read is told when it is copied.
    names.map(|name| fs::metadata(data_dir.join(name)).map_or(0, |file| file.len())).sum()
}

/// Bytes of the files of [`STATE_FOLDERS`], lookups among them.
fn state_folders_bytes(data_dir: &Path) -> Result<u64> {
    let mut bytes = 0_u64;
    for file in state_folder_files(data_dir)? {
        // One that has gone meanwhile is not copied.
        let length = fs::metadata(data_dir.join(file)).map_or(0, |file| file.len());
        bytes = bytes.saturating_add(length);
    }
    Ok(bytes)
}

/// The files of [`STATE_FOLDERS`] that belong to a backup, from the data directory.
fn state_folder_files(data_dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in STATE_FOLDERS {
        let path = data_dir.join(folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("cannot list {}", path.display()))?,
        };
        for entry in entries {
            let entry = entry?;
            // A name that is not text, and a file that is half written, are of nobody; nor is a
            // link, which the server does not read.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let file = format!("{folder}/{name}");
            if entry.file_type()?.is_file() && is_state(&file) && !name.ends_with(".new") {
                found.push(file);
            }
        }
    }
    Ok(found)
}

/// Makes a backup, in `backups`, of a data directory at rest; on another file system everything is
/// copied. `damaged` is told a sentence for each sealed segment that cannot be read: the backup has
/// its file as it is.
pub fn of_directory(
    disk: &Arc<dyn Disk>,
    data_dir: &Path,
    backups: &Path,
    name: &str,
    now_ns: i64,
    damaged: &mut dyn FnMut(&str),
) -> Result<Manifest> {
    let rest = AtRest::open(&**disk, data_dir)?;
    if let Some(fault) = &rest.catalog_fault {
        bail!("{fault}");
    }
    if backups == data_dir.join(BACKUPS_FOLDER) {
        sweep(backups)?;
    }
    let mut backup = Unfinished::begin(disk, backups, name)?;
    if data_dir.join(store::CATALOG_FILE).exists() {
        backup.catalog(data_dir)?;
    }
    backup.state_files(data_dir)?;
    backup.state_folders(data_dir)?;
    for segment in &rest.segments {
        backup.take(&piece_at_rest(&**disk, segment, damaged)?)?;
    }
    backup.finish(now_ns)
}

fn piece_at_rest(
    disk: &dyn Disk,
    segment: &RestSegment,
    damaged: &mut dyn FnMut(&str),
) -> Result<Piece> {
    let path = segment.path.clone();
    let (lines, copied) = match segment.kind {
        SegmentKind::Sealed => match SealedFile::open(disk, &path) {
            Ok(file) => (file.footer().lines(), None),
            Err(error) => {
                damaged(&format!(
                    "segment {} cannot be read: {error}; the backup has its file as it is",
                    segment.id
                ));
                (segment.listed.as_ref().map_or(0, |listed| listed.lines), None)
            }
        },
        SegmentKind::Hot => {
            let contents = read_segment(disk, &path, segment.id, segment.limit())?;
            let lines = contents.frames.iter().map(|entry| u64::from(entry.lines)).sum();
            let lacks_frames = segment.lacks_frames(&contents);
            let copied = match contents.origin {
                Origin::Index => None,
                Origin::Scan(scan) if scan.damaged_places > 0 || lacks_frames => {
                    Some(contents.file_bytes)
                }
                // The bytes behind it were never acknowledged.
                Origin::Scan(_) => Some(contents.data_end),
            };
            (lines, copied)
        }
    };
    Ok(Piece { path, kind: segment.kind, lines, copied })
}

/// The backups in a directory.
#[derive(Debug, Default)]
pub struct Listed {
    /// Those whose lists can be read, by name.
    pub readable: Vec<Manifest>,
    /// Names of the others, which may have lines all the same, and why they cannot be used.
    pub damaged: Vec<(String, String)>,
}

/// The backups in a directory. Other entries are skipped.
pub fn list(backups: &Path) -> Result<Listed> {
    let entries = match fs::read_dir(backups) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listed::default()),
        entries => entries.with_context(|| format!("cannot list {}", backups.display()))?,
    };
    let mut found = Listed::default();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if check_name(name).is_ok() && path.join(MANIFEST_FILE).exists() {
            match Manifest::read(&path) {
                // The name is that of the directory, which an operator may have changed.
                Ok(read) => found.readable.push(Manifest { name: name.to_owned(), ..read }),
                Err(error) => found.damaged.push((name.to_owned(), one_line(&error))),
            }
        }
    }
    found.readable.sort_by(|a, b| a.name.cmp(&b.name));
    found.damaged.sort();
    Ok(found)
}

/// Deletes a backup; false if there is none with that name.
pub fn delete(backups: &Path, name: &str) -> Result<bool> {
    check_name(name)?;
    // A partly deleted backup must not look complete.
    let leaving = backups.join(format!(".{name}{LEAVING}"));
    match fs::rename(backups.join(name), &leaving) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed.with_context(|| format!("cannot rename the backup '{name}'"))?,
    }
    sync_dir(backups)?;
    fs::remove_dir_all(&leaving).with_context(|| format!("cannot delete {}", leaving.display()))?;
    Ok(true)
}

/// Removes incomplete backups that a crash left.
fn sweep(backups: &Path) -> Result<()> {
    for entry in fs::read_dir(backups).into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') && (name.ends_with(UNFINISHED) || name.ends_with(LEAVING)) {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot delete {}", path.display()))?;
        }
    }
    Ok(())
}

/// A backup being made, under a name that no backup can have. Removed if it is dropped before it is
/// complete.
struct Unfinished {
    /// The disk of the store, which may encrypt.
    disk: Arc<dyn Disk>,
    name: String,
    backups: PathBuf,
    part: PathBuf,
    files: Vec<ManifestFile>,
    /// Files to copy, opened when the segments were frozen: they may be replaced and removed
    /// meanwhile.
    copies: Vec<Copied>,
    linked: u64,
}

/// A file to copy.
struct Copied {
    source: Source,
    to: PathBuf,
    bytes: u64,
    /// Its place among the files of the list.
    listed: usize,
}

/// From where a file is copied.
enum Source {
    /// Byte for byte, encrypted or not.
    Whole(File),
    /// The beginning of a file to which a store may append: through the disk, since the encrypted
    /// bytes of its last block change.
    Beginning(Arc<dyn DiskFile>),
}

impl Unfinished {
    fn begin(disk: &Arc<dyn Disk>, backups: &Path, name: &str) -> Result<Unfinished> {
        check_name(name)?;
        if backups.join(name).exists() {
            return Err(Exists(name.to_owned()).into());
        }
        let part = backups.join(format!(".{name}{UNFINISHED}"));
        if part.exists() {
            fs::remove_dir_all(&part)
                .with_context(|| format!("cannot delete {}", part.display()))?;
        }
        let segments = part.join(store::SEGMENTS_DIR);
        create_dirs(&segments)
            .with_context(|| format!("cannot make the directory {}", segments.display()))?;
        Ok(Unfinished {
            disk: Arc::clone(disk),
            name: name.to_owned(),
            backups: backups.to_owned(),
            part,
            files: Vec::new(),
            copies: Vec::new(),
            linked: 0,
        })
    }

    fn catalog(&mut self, data_dir: &Path) -> Result<()> {
        let copy = self.part.join(store::CATALOG_FILE);
        store::copy_catalog(data_dir, &copy)?;
        let bytes = fs::metadata(&copy)?.len();
        self.files.push(ManifestFile {
            file: store::CATALOG_FILE.to_owned(),
            bytes: Some(bytes),
            lines: None,
        });
        Ok(())
    }

    /// Copies the files of [`STATE_FILES`] that exist; the rows they speak of are in segments.
    fn state_files(&mut self, data_dir: &Path) -> Result<()> {
        STATE_FILES.iter().try_for_each(|name| self.state_file(data_dir, name))
    }

    /// Copies the files of [`STATE_FOLDERS`]. They need not be of the moment of the segments.
    fn state_folders(&mut self, data_dir: &Path) -> Result<()> {
        for folder in STATE_FOLDERS.iter().filter(|folder| data_dir.join(folder).exists()) {
            let copy = self.part.join(folder);
            fs::create_dir_all(&copy)
                .with_context(|| format!("cannot make the directory {}", copy.display()))?;
        }
        for file in state_folder_files(data_dir)? {
            self.state_file(data_dir, &file)?;
        }
        for copy in STATE_FOLDERS.map(|folder| self.part.join(folder)) {
            if copy.exists() {
                sync_dir(&copy)?;
            }
        }
        Ok(())
    }

    /// Copies a file, if it exists.
    fn state_file(&mut self, data_dir: &Path, name: &str) -> Result<()> {
        let (from, to) = (data_dir.join(name), self.part.join(name));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the directory {}", folder.display()))?;
        }
        let source = match read_regular(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.with_context(|| format!("cannot copy {}", from.display()))?,
        };
        let bytes = source.metadata()?.len();
        copy(source, &to, bytes)?;
        self.files.push(ManifestFile { file: name.to_owned(), bytes: Some(bytes), lines: None });
        Ok(())
    }

    fn take(&mut self, piece: &Piece) -> Result<()> {
        let file_name =
            piece.path.file_name().and_then(|name| name.to_str()).expect("ours is text");
        let file = format!("{}/{file_name}", store::SEGMENTS_DIR);
        let to = self.part.join(&file);
        let cannot = || format!("cannot read {}", piece.path.display());
        let copied = match piece.copied {
            Some(bytes) => Some(bytes),
            None => match fs::hard_link(&piece.path, &to) {
                Ok(()) => None,
                Err(error) if cannot_share(error.kind()) => {
                    Some(check_regular(&piece.path).with_context(cannot)?.len())
                }
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("cannot make a hard link to {}", piece.path.display())
                    });
                }
            },
        };
        match copied {
            Some(bytes) => {
                let source = match piece.copied {
                    Some(_) => {
                        let opened = self.disk.open(&piece.path, Access::Read);
                        Source::Beginning(opened.with_context(cannot)?)
                    }
                    None => Source::Whole(read_regular(&piece.path).with_context(cannot)?),
                };
                let listed = self.files.len();
                self.copies.push(Copied { source, to, bytes, listed });
            }
            None => self.linked += 1,
        }
        // The index behind the frames of a hot segment may not be complete yet.
        let bytes = match (copied, piece.kind) {
            (Some(bytes), _) => Some(bytes),
            (None, SegmentKind::Sealed) => {
                Some(check_regular(&piece.path).with_context(cannot)?.len())
            }
            (None, SegmentKind::Hot) => None,
        };
        self.files.push(ManifestFile { file, bytes, lines: Some(piece.lines) });
        Ok(())
    }

    fn bytes_to_copy(&self) -> u64 {
        self.copies.iter().map(|copied| copied.bytes).sum()
    }

    /// Makes the copies, writes the list, makes everything durable and gives the backup its name.
    fn finish(mut self, created_ns: i64) -> Result<Manifest> {
        let bytes_copied = self.bytes_to_copy();
        for Copied { source, to, bytes, listed } in std::mem::take(&mut self.copies) {
            match source {
                Source::Whole(file) => copy(file, &to, bytes)?,
                Source::Beginning(file) => copy_beginning(&*self.disk, &*file, &to, bytes)?,
            }
            // An encrypted copy is longer than what it holds.
            self.files[listed].bytes = Some(check_regular(&to)?.len());
        }
        let manifest = Manifest::new(
            &self.name,
            created_ns,
            std::mem::take(&mut self.files),
            self.linked,
            bytes_copied,
        );
        let catalog = self.part.join(store::CATALOG_FILE);
        match File::open(&catalog).and_then(|file| file.sync_all()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            synced => {
                synced.with_context(|| format!("cannot make {} durable", catalog.display()))?;
            }
        }
        manifest.write(&self.part)?;
        sync_dir(&self.part.join(store::SEGMENTS_DIR))?;
        sync_dir(&self.part)?;
        let whole = self.backups.join(&self.name);
        fs::rename(&self.part, &whole)
            .with_context(|| format!("cannot name the backup {}", whole.display()))?;
        sync_dir(&self.backups)?;
        Ok(manifest)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has another name if the backup was made; otherwise the next backup removes what this
        // leaves.
        let _ = fs::remove_dir_all(&self.part);
    }
}

/// Whether a hard link failed for a reason that does not affect a copy: another file system, or one
/// without hard links.
fn cannot_share(error: io::ErrorKind) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error, CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// Copies the first `bytes` bytes of a file, durably.
fn copy(source: impl Read, to: &Path, bytes: u64) -> Result<()> {
    let cannot = || format!("cannot write {}", to.display());
    let mut target = File::create_new(to).with_context(cannot)?;
    let copied = io::copy(&mut source.take(bytes), &mut target).with_context(cannot)?;
    if copied != bytes {
        bail!("{}: {bytes} bytes expected, {copied} found", to.display());
    }
    target.sync_all().with_context(cannot)
}

/// Bytes read and written at once.
const COPY_BYTES: usize = 1 << 20;

/// Copies the first `bytes` bytes of a file through a disk, durably.
fn copy_beginning(disk: &dyn Disk, source: &dyn DiskFile, to: &Path, bytes: u64) -> Result<()> {
    let cannot = || format!("cannot write {}", to.display());
    let target = disk.open(to, Access::Create).with_context(cannot)?;
    let mut buffer = AlignedBuffer::new(COPY_BYTES);
    let mut at = 0;
    while at < bytes {
        let wanted = (bytes - at).min(COPY_BYTES as u64) as usize;
        let read = source.read_at(&mut buffer[..wanted], at).with_context(cannot)?;
        if read < wanted {
            bail!("{}: {bytes} bytes expected, {} found", to.display(), at + read as u64);
        }
        target.write_at(&buffer[..wanted], at).with_context(cannot)?;
        at += wanted as u64;
    }
    target.truncate(bytes).with_context(cannot)?;
    target.sync_data().with_context(cannot)
}

fn sync_dir(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.with_context(|| format!("cannot make {} durable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_asked_for_everything_that_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path();
        let make = |file: &str, bytes: u64| {
            let path = data_dir.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create(path).unwrap().set_len(bytes).unwrap();
        };
        assert_eq!((state_files_bytes(data_dir), state_folders_bytes(data_dir).unwrap()), (0, 0));
        for (file, bytes) in [
            ("catalog.sqlite", 10),
            ("access.json", 100),
            ("lookups/hosts.csv", 1 << 40),
            ("dashboards/web.json", 1_000),
            // What is not copied.
            ("dashboards/web.json.new", 1 << 41),
            ("segments/1.sealed", 1 << 41),
        ] {
            make(file, bytes);
        }
        assert_eq!(state_files_bytes(data_dir), 110);
        assert_eq!(state_folders_bytes(data_dir).unwrap(), (1 << 40) + 1_000);
    }

    #[test]
    fn a_damaged_segment_is_in_the_backup_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (data_dir, backups) = (directory.path().join("data"), directory.path().join("backups"));
        fs::create_dir_all(data_dir.join(store::SEGMENTS_DIR)).unwrap();
        fs::write(data_dir.join("segments/1.sealed"), "no segment").unwrap();
        let disk: Arc<dyn Disk> = Arc::new(platform::RealDisk);
        let mut told = Vec::new();
        let mut damaged = |why: &str| told.push(why.to_owned());
        let made = of_directory(&disk, &data_dir, &backups, "one", 0, &mut damaged).unwrap();
        assert_eq!((made.files.len(), made.lines, told.len()), (1, 0, 1), "{told:?}");
        assert!(told[0].starts_with("segment 1 cannot be read: "), "{told:?}");
        assert_eq!(fs::read(backups.join("one/segments/1.sealed")).unwrap(), b"no segment");
    }

    #[test]
    fn a_damaged_list_hides_no_other_backup() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["c", "b", "a"] {
            let backup = directory.path().join(name);
            fs::create_dir(&backup).unwrap();
            Manifest::new(name, 0, Vec::new(), 0, 0).write(&backup).unwrap();
        }
        fs::write(directory.path().join("b").join(MANIFEST_FILE), "{").unwrap();
        let found = list(directory.path()).unwrap();
        let names: Vec<&str> = found.readable.iter().map(|read| read.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        let [(name, why)] = &found.damaged[..] else { panic!("{found:?}") };
        assert!(name == "b" && why.contains("backup.json is damaged"), "{name}: {why}");
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        for (name, good) in [
            ("nightly", true),
            ("2026-11-22T00.15_a", true),
            ("a", true),
            (&"n".repeat(NAME_BYTES_MAX), true),
            (&"n".repeat(NAME_BYTES_MAX + 1), false),
            ("", false),
            (".", false),
            ("..", false),
            (".hidden", false),
            ("-flag", false),
            ("a/b", false),
            ("../a", false),
            ("a\0", false),
            ("ä", false),
            ("a b", false),
        ] {
            assert_eq!(check_name(name).is_ok(), good, "{name:?}");
        }
    }
}
