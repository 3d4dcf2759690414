//! A file that is appended to in whole pieces, and renamed when it is large or old.
//!
//! The file `NAME.EXT` is current. A rotated file is `NAME-20260102T030405Z-0001.EXT`, with `.gz`
//! if compressed: the time of the rotation, and a number that makes the name unique. Names are in
//! the order of rotations: where the clock was set back, a file has the time of the one before it,
//! and the next number.
//!
//! Invariants: a piece is in the file as a whole or not at all, because a failed write is cut off
//! again, and so is an incomplete last line when the file is opened. [`RotatingFile::append`]
//! returns after the bytes are on disk. Only regular files are opened: a link or a pipe in the
//! place of one is an error, and what it leads to stays as it is ([`platform::open_regular`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use platform::{check_regular, open_regular, read_regular};

use crate::time::compact;

/// Bytes that are read at once while the end of the last line is searched.
const SEARCHED_BYTES: u64 = 64 << 10;
/// Behind the name of a file that is being made.
const PARTIAL: &str = ".part";

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

/// A rotated file, in the order of rotations.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rotated {
    time: String,
    number: u64,
    path: PathBuf,
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
                self.remove_partial()?;
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

    /// A name for a rotated file behind those of all others.
    fn free_path(&self, now_ns: i64) -> io::Result<PathBuf> {
        let time = compact(now_ns);
        let time = time.strip_suffix('Z').unwrap_or(&time);
        let newest = self.beside("")?.pop();
        let (time, number) = match &newest {
            Some(newest) if newest.time.as_str() >= time => (&*newest.time, newest.number + 1),
            _ => (time, 1),
        };
        Ok(self.rotated_path(&format!("{time}Z-{number:04}")))
    }

    fn move_current(&self, now_ns: i64) -> io::Result<PathBuf> {
        let rotated = self.free_path(now_ns)?;
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
            match check_regular(&compressed) {
                Ok(_) => fs::remove_file(path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&compressed, &error)),
            }
        }
        Ok(())
    }

    /// Removes what a crash left of files that were being made: their lines are still elsewhere.
    fn remove_partial(&self) -> io::Result<()> {
        self.beside(PARTIAL)?.iter().try_for_each(|partial| remove_if_there(&partial.path))
    }

    /// Rotates the current file whatever its size, and compresses nothing. From then on the rotated
    /// files do not change, and can be read and removed.
    pub fn freeze(&mut self, now_ns: i64) -> io::Result<()> {
        self.open = None;
        match check_regular(&self.path) {
            Ok(current) if current.len() > 0 => {
                // An incomplete last line is what a crash left.
                drop(Open::at(&self.path, now_ns)?);
                self.move_current(now_ns).map(drop)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(named(&self.path, &error)),
            _ => Ok(()),
        }
    }

    /// Adds whole lines as a rotated file of their own, durably. The limit of rotated files holds
    /// at the next rotation.
    pub fn adopt(&mut self, lines: &[u8], now_ns: i64) -> io::Result<()> {
        let write = |mut file: File| file.write_all(lines).map(|()| file);
        make(&self.free_path(now_ns)?, write)
    }

    /// Removes a rotated file, durably. One that is gone is no error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        remove_if_there(path)?;
        sync_folder(&self.path)
    }

    /// The rotated files, oldest first.
    pub fn rotated_files(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.beside("")?.into_iter().map(|rotated| rotated.path).collect())
    }

    /// The files whose names are those of rotated files with `suffix` behind them, oldest first.
    fn beside(&self, suffix: &str) -> io::Result<Vec<Rotated>> {
        let (stem, extension) = self.name_parts();
        let start = format!("{stem}-");
        let mut found = Vec::new();
        for entry in fs::read_dir(folder_of(&self.path))? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(name) = name.strip_suffix(suffix) else { continue };
            let name = name.strip_suffix(".gz").unwrap_or(name);
            let middle =
                name.strip_prefix(&start).and_then(|name| name.strip_suffix(extension.as_str()));
            if let Some((time, number)) = middle.and_then(rotation) {
                found.push(Rotated { time: time.to_owned(), number, path });
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
        let mut options = OpenOptions::new();
        let mut file = open_regular(path, options.create(true).read(true).append(true))?;
        if is_new {
            sync_folder(path)?;
        }
        // A file that an earlier process began is as old as its last change at least.
        let found = file.metadata()?;
        let changed = found.modified()?.duration_since(std::time::UNIX_EPOCH);
        let bytes = whole_lines_bytes(&mut file)?;
        if bytes < found.len() {
            file.set_len(bytes)?;
        }
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
    make(&gz(path), |file| {
        let mut encoder = GzEncoder::new(file, Compression::default());
        io::copy(&mut read_regular(path)?, &mut encoder)?;
        encoder.finish()
    })?;
    fs::remove_file(path)
}

/// Makes a file: it has its name once all that `write` writes is on disk. After an error nothing
/// of it is left.
fn make(path: &Path, write: impl FnOnce(File) -> io::Result<File>) -> io::Result<()> {
    let mut partial = path.to_path_buf().into_os_string();
    partial.push(PARTIAL);
    let partial = PathBuf::from(partial);
    // What a crash left, or whatever else is there.
    remove_if_there(&partial)?;
    let written = File::create_new(&partial).and_then(write).and_then(|file| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&partial, path)) {
        // Half a file would only take space on a full disk.
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    sync_folder(path)
}

/// Time and number in the name of a rotated file, `20260102T030405Z-0001`.
fn rotation(middle: &str) -> Option<(&str, u64)> {
    let (time, number) = middle.split_once("Z-")?;
    let is_time = time.len() == 15 && time.bytes().all(|b| b.is_ascii_digit() || b == b'T');
    let is_number = number.len() >= 4 && number.bytes().all(|b| b.is_ascii_digit());
    if !is_time || !is_number {
        return None;
    }
    Some((time, number.parse().ok()?))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The error with the name of the file, for callers that do not know which one it is about.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn rotating(path: &Path) -> RotatingFile {
        let rotation = Rotation {
            file_bytes_max: 10,
            file_age_max: None,
            rotated_files_max: None,
            is_compressed: true,
        };
        RotatingFile::new(path.to_owned(), rotation)
    }

    #[test]
    fn a_compression_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        fs::write(&path, "a line\n").unwrap();
        // The compressed file cannot get its name.
        fs::create_dir(folder.path().join("out.jsonl.gz")).unwrap();
        assert!(compress(&path).is_err());
        assert_eq!(names(folder.path()), ["out.jsonl", "out.jsonl.gz"]);
        assert_eq!(fs::read(&path).unwrap(), b"a line\n");
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_delete_the_newest_file() {
        const DAY_NS: i64 = 86_400_000_000_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let before = rotating(&path).rotation;
        let rotation = Rotation { rotated_files_max: Some(2), is_compressed: false, ..before };
        let mut file = RotatingFile::new(path, rotation);
        let mut deleted = Vec::new();
        for (line, day) in [(1, 300), (2, 300), (3, 1), (4, 1), (5, 301)] {
            let mut deleting = |path: &Path| deleted.push(fs::read_to_string(path).unwrap());
            file.append(format!("line {line}\n").as_bytes(), day * DAY_NS, &mut deleting).unwrap();
        }
        assert_eq!(deleted, ["line 1\n", "line 2\n"]);
        let kept = file.rotated_files().unwrap();
        let kept: Vec<_> = kept.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(kept, ["line 3\n", "line 4\n"]);
    }

    #[test]
    fn names_of_rotated_files_are_read() {
        let time = "20260102T030405";
        assert_eq!(rotation(&format!("{time}Z-0001")), Some((time, 1)));
        assert_eq!(rotation(&format!("{time}Z-10000")), Some((time, 10_000)));
        for other in ["", "notes", "20260102T030405Z-1", "20260102T030405Z-0001-x", "2026Z-0001"] {
            assert_eq!(rotation(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_crash_left_of_files_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let rotated = "out-20260102T030405Z-0001.jsonl";
        let others = ["out-notes.part", "out.jsonl.part", rotated];
        let partial = [format!("{rotated}.gz.part"), format!("{rotated}.part")];
        let all = others.iter().map(|name| (*name).to_owned()).chain(partial);
        all.for_each(|name| fs::write(folder.path().join(name), "a line\n").unwrap());
        let mut file = rotating(&folder.path().join("out.jsonl"));
        file.append(b"a line\n", 0, &mut |_| {}).unwrap();
        assert_eq!(
            names(folder.path()),
            [rotated, "out-notes.part", "out.jsonl", "out.jsonl.part"]
        );
    }

    #[test]
    fn a_link_with_the_name_of_a_compressed_file_takes_no_lines() {
        let folder = tempfile::tempdir().unwrap();
        let rotated = folder.path().join("out-20260102T030405Z-0001.jsonl");
        fs::write(&rotated, "a line\n").unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, gz(&rotated)).unwrap();
        let mut file = rotating(&folder.path().join("out.jsonl"));
        let error = file.append(b"a line\n", 0, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("0001.jsonl.gz: it is a symbolic link"), "{error}");
        assert_eq!(fs::read(&rotated).unwrap(), b"a line\n");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
