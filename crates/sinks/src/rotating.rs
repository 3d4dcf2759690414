//! A file that is appended to in whole pieces, and renamed when it is large or old.
//!
//! The file `NAME.EXT` is current. A rotated file is `NAME-20260102T030405Z-0001.EXT`, with `.gz`
//! if compressed: the time of the rotation, and a number that makes the name unique. Names sort by
//! time.
//!
//! Invariants: a piece is in the file as a whole or not at all, because a failed write is cut off
//! again, and so is an incomplete last line when the file is opened. [`RotatingFile::append`]
//! returns after the bytes are on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::time::compact;

/// Bytes that are read at once while the end of the last line is searched.
const SEARCHED_BYTES: u64 = 64 << 10;

/// When files are rotated, and how many are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// A piece that would make the file larger goes to a new file.
    pub file_bytes_max: u64,
    /// A file is rotated at the first piece that comes this long after the file was begun.
    pub file_age_max: Option<Duration>,
    /// Rotated files that are kept; the oldest are deleted. `None` keeps all.
    pub rotated_files_max: Option<usize>,
    /// Whether rotated files are compressed with gzip.
    pub is_compressed: bool,
}

/// The current file and its rotated predecessors.
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    open: Option<Open>,
}

struct Open {
    file: File,
    bytes: u64,
    begun_ns: i64,
}

/// A rotated file is about to be deleted: the callback may count its lines.
pub type Deleting<'a> = &'a mut dyn FnMut(&Path);

impl RotatingFile {
    /// A file that is opened at the first piece. Its folder must exist by then.
    pub fn new(path: PathBuf, rotation: Rotation) -> RotatingFile {
        RotatingFile { path, rotation, open: None }
    }

    /// Where the current file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines and syncs them. On an error nothing was added.
    pub fn append(&mut self, lines: &[u8], now_ns: i64, deleting: Deleting<'_>) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                self.remove_compressed_twice()?;
                Open::at(&self.path, now_ns)?
            }
        };
        if self.is_due(&open, lines.len() as u64, now_ns) {
            drop(open);
            self.rotate(now_ns, deleting)?;
            open = Open::at(&self.path, now_ns)?;
        }
        let written = open.file.write_all(lines).and_then(|()| open.file.sync_data());
        if let Err(error) = written {
            // If cutting off fails too, the next opening finds an incomplete last line, or whole
            // lines that are then there twice.
            let _ = open.file.set_len(open.bytes);
            return Err(error);
        }
        open.bytes += lines.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    fn is_due(&self, open: &Open, more_bytes: u64, now_ns: i64) -> bool {
        let age_ns = u128::try_from(now_ns.saturating_sub(open.begun_ns)).unwrap_or(0);
        let is_old = self.rotation.file_age_max.is_some_and(|most| age_ns >= most.as_nanos());
        open.bytes > 0 && (is_old || open.bytes + more_bytes > self.rotation.file_bytes_max)
    }

    /// A name for a rotated file that no file has.
    fn free_path(&self, now_ns: i64) -> PathBuf {
        let time = compact(now_ns);
        let mut number = 1;
        loop {
            let path = self.rotated_path(&format!("{time}-{number:04}"));
            if !path.exists() && !gz(&path).exists() {
                return path;
            }
            number += 1;
        }
    }

    fn move_current(&self, now_ns: i64) -> io::Result<PathBuf> {
        let rotated = self.free_path(now_ns);
        fs::rename(&self.path, &rotated)?;
        sync_folder(&self.path)?;
        Ok(rotated)
    }

    fn rotate(&self, now_ns: i64, deleting: Deleting<'_>) -> io::Result<()> {
        let rotated = self.move_current(now_ns)?;
        if self.rotation.is_compressed {
            compress(&rotated)?;
        }
        let Some(kept) = self.rotation.rotated_files_max else { return Ok(()) };
        let rotated = self.rotated_files()?;
        for path in &rotated[..rotated.len().saturating_sub(kept)] {
            deleting(path);
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Removes rotated files whose compressed form is complete: a crash can leave both.
    fn remove_compressed_twice(&self) -> io::Result<()> {
        for path in self.rotated_files()? {
            let compressed = gz(&path);
            if compressed.exists() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Rotates the current file whatever its size, and compresses nothing. From then on the rotated
    /// files do not change, and can be read and removed.
    pub fn freeze(&mut self, now_ns: i64) -> io::Result<()> {
        self.open = None;
        match fs::metadata(&self.path) {
            Ok(current) if current.len() > 0 => {
                // An incomplete last line is what a crash left.
                drop(Open::at(&self.path, now_ns)?);
                self.move_current(now_ns).map(drop)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Adds whole lines as a rotated file of their own, durably. The limit of rotated files holds
    /// at the next rotation.
    pub fn adopt(&mut self, lines: &[u8], now_ns: i64) -> io::Result<()> {
        let path = self.free_path(now_ns);
        let mut partial = path.clone().into_os_string();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&partial)?;
        file.write_all(lines)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        sync_folder(&self.path)
    }

    /// Removes a rotated file, durably. One that is gone is no error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        sync_folder(&self.path)
    }

    /// The rotated files, oldest first.
    pub fn rotated_files(&self) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name_parts();
        let start = format!("{stem}-");
        let mut found = Vec::new();
        for entry in fs::read_dir(folder_of(&self.path))? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let name = name.strip_suffix(".gz").unwrap_or(name);
            let middle =
                name.strip_prefix(&start).and_then(|name| name.strip_suffix(extension.as_str()));
            // 20260102T030405Z-0001
            let is_ours = middle.is_some_and(|middle| {
                middle.len() >= 21
                    && middle.is_char_boundary(15)
                    && middle[15..].starts_with("Z-")
                    && middle.bytes().all(|b| b.is_ascii_digit() || b"TZ-".contains(&b))
            });
            if is_ours {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn rotated_path(&self, middle: &str) -> PathBuf {
        let (stem, extension) = self.name_parts();
        self.path.with_file_name(format!("{stem}-{middle}{extension}"))
    }

    /// The name without its extension, and the extension with its dot.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let extension = text(self.path.extension());
        let dot = if extension.is_empty() { "" } else { "." };
        (text(self.path.file_stem()), format!("{dot}{extension}"))
    }
}

impl Open {
    fn at(path: &Path, now_ns: i64) -> io::Result<Open> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        if is_new {
            sync_folder(path)?;
        }
        let bytes = whole_lines_bytes(&mut file)?;
        file.set_len(bytes)?;
        // A file that an earlier process began is as old as its last change at least.
        let changed = fs::metadata(path)?.modified()?.duration_since(std::time::UNIX_EPOCH);
        let changed_ns = changed.ok().and_then(|time| i64::try_from(time.as_nanos()).ok());
        let begun_ns = if bytes == 0 { now_ns } else { changed_ns.unwrap_or(now_ns).min(now_ns) };
        Ok(Open { file, bytes, begun_ns })
    }
}

/// The length up to the last newline.
fn whole_lines_bytes(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let start = end.saturating_sub(SEARCHED_BYTES);
        let mut bytes = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Compresses a file; it is replaced once the compressed one is on disk.
fn compress(path: &Path) -> io::Result<()> {
    let target = gz(path);
    let mut partial = target.clone().into_os_string();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    // What a crash left; a link would be written through.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut encoder = GzEncoder::new(File::create_new(&partial)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&partial, &target)?;
    sync_folder(path)?;
    fs::remove_file(path)
}

fn gz(path: &Path) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(".gz");
    PathBuf::from(name)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes new names in the folder of `path` durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}
