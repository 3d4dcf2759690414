//! A directory as a place for objects. An object is a file that got its name once it was durable.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use cluster::{ObjectBody, ObjectError, ObjectInfo, Objects};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::data_dir::create_dirs;

/// Files that are not complete begin so; no object does.
const UNFINISHED: &str = ".part-";
/// Bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// Files below a directory.
pub(super) struct Directory {
    root: PathBuf,
}

impl Directory {
    /// The files below `root`.
    ///
    /// Errors: it is no directory. It is not made, since the disk that should be mounted there may
    /// be missing.
    pub(super) fn open(root: &Path) -> Result<Directory> {
        let found = fs::metadata(root).with_context(|| {
            let shown = root.display();
            format!("cannot use {shown} for backups; mount the disk, or make the directory: mkdir {shown}")
        })?;
        ensure!(found.is_dir(), "{} is no directory; name one for backups", root.display());
        let directory = Directory { root: root.to_owned() };
        directory.sweep();
        Ok(directory)
    }

    /// Removes what a kill left long ago.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let is_unfinished =
                entry.file_name().to_str().is_some_and(|name| name.starts_with(UNFINISHED));
            let age = entry.metadata().and_then(|file| file.modified()).map(|time| time.elapsed());
            let is_old = matches!(age, Ok(Ok(age)) if age.as_secs() > 86_400);
            if is_unfinished && is_old {
                // The next call tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, ObjectError> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        match name.split('/').all(is_plain) && !name.contains('\0') {
            true => Ok(self.root.join(name)),
            false => Err(ObjectError::Refused(format!("'{}' is no name", name.escape_default()))),
        }
    }

    /// Writes a file and gives it its name.
    fn write(&self, part: &Path, path: &Path, body: &dyn ObjectBody) -> io::Result<()> {
        let folder = path.parent().expect("below the root");
        create_dirs(folder)?;
        let mut file = File::create_new(part)?;
        let (mut at, bytes) = (0, body.size());
        let mut buffer = vec![0; WRITE_BYTES];
        while at < bytes {
            let count = usize::try_from(bytes - at).unwrap_or(WRITE_BYTES).min(WRITE_BYTES);
            body.read_exact_at(at, &mut buffer[..count])?;
            file.write_all(&buffer[..count])?;
            at += count as u64;
        }
        file.sync_all()?;
        match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
            // The file system cannot tell: whoever writes holds the lock of the place.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !path.exists() => {
                fs::rename(part, path)?;
            }
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            renamed => renamed?,
        }
        sync(folder)
    }

    /// Adds the files of a folder to `found`.
    fn walk(&self, folder: &str, prefix: &str, found: &mut Vec<ObjectInfo>) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            // A name that is not text is none of ours.
            let Ok(own) = entry.file_name().into_string() else { continue };
            if own.starts_with('.') {
                continue;
            }
            let name = if folder.is_empty() { own } else { format!("{folder}/{own}") };
            if entry.file_type()?.is_dir() {
                if prefix.starts_with(&format!("{name}/")) || name.starts_with(prefix) {
                    self.walk(&name, prefix, found)?;
                }
            } else if name.starts_with(prefix) {
                let file = entry.metadata()?;
                let written = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                found.push(ObjectInfo {
                    name,
                    bytes: file.len(),
                    written_ns: i64::try_from(written.as_nanos()).unwrap_or(i64::MAX),
                });
            }
        }
        Ok(())
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The error of a call, whose remedy the operating system's text names well enough.
fn failed(path: &Path, error: &io::Error) -> ObjectError {
    match error.kind() {
        io::ErrorKind::NotFound => ObjectError::Missing(path.display().to_string()),
        io::ErrorKind::AlreadyExists => ObjectError::Exists(path.display().to_string()),
        _ => ObjectError::Refused(format!("{}: {error}", path.display())),
    }
}

impl Objects for Directory {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        let path = self.path(name)?;
        let part = self.root.join(format!("{UNFINISHED}{:016x}", fastrand::u64(..)));
        self.write(&part, &path, body).map_err(|error| {
            // A leftover is removed a day later.
            let _ = fs::remove_file(&part);
            failed(&path, &error)
        })
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        let path = self.path(name)?;
        let mut read = || {
            let file = platform::read_regular(&path)?;
            let mut read = 0;
            while read < buffer.len() {
                match file.read_at(&mut buffer[read..], offset + read as u64)? {
                    0 => break,
                    more => read += more,
                }
            }
            Ok(read)
        };
        read().map_err(|error: io::Error| failed(&path, &error))
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        let path = self.path(name)?;
        fs::metadata(&path).map(|file| file.len()).map_err(|error| failed(&path, &error))
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed
                .and_then(|()| sync(path.parent().expect("below the root")))
                .map_err(|error| failed(&path, &error)),
        }
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        let mut found = Vec::new();
        self.walk("", prefix, &mut found).map_err(|error| failed(&self.root, &error))?;
        found.retain(|info| after.is_none_or(|after| info.name.as_str() > after));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.truncate(max);
        Ok(found)
    }
}
