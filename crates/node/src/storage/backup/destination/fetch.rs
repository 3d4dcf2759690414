//! Fetches a backup into a directory, from which a data directory is restored.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, ensure};

use super::contents::{Contents, FileContents};
use super::{Destination, Progress, sum_of};

/// The backup of a name; else the newest one that was made at `at_ns` or before; else the newest.
pub fn chosen(
    destination: &Destination,
    name: Option<&str>,
    at_ns: Option<i64>,
) -> Result<Contents> {
    destination.need_place()?;
    if let Some(name) = name {
        crate::storage::backup::check_name(name)?;
        return destination.contents(&Contents::object(name));
    }
    let mut backups = destination.backups()?;
    let first = backups.first().map(|backup| backup.created.clone());
    backups.retain(|backup| at_ns.is_none_or(|at| backup.created_ns() <= at));
    backups.pop().with_context(|| match first {
        None => format!("{destination} has no complete backup"),
        Some(first) => format!("{destination} has no backup of that time; the first is of {first}"),
    })
}

/// Fetches a backup into `to`, where a fetch that broke off resumes: what is there already and
/// right stays.
///
/// Errors: a piece is missing or damaged; the place does not answer; the disk is full.
pub fn fetch(
    destination: &Destination,
    contents: &Contents,
    to: &Path,
    progress: &Progress,
) -> Result<()> {
    progress.bytes_total.store(contents.bytes, Relaxed);
    for file in &contents.files {
        let path = to.join(&file.file);
        let folder = path.parent().expect("below a directory");
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the directory {}", folder.display()))?;
        fetch_file(destination, file, &path, progress).with_context(|| {
            format!("cannot fetch {} of the backup {}", file.file, contents.name)
        })?;
    }
    // A store without lines has the folder, too.
    fs::create_dir_all(to.join(store::SEGMENTS_DIR))?;
    contents.manifest().write(to)
}

fn fetch_file(
    destination: &Destination,
    contents: &FileContents,
    path: &Path,
    progress: &Progress,
) -> Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    ensure!(file.metadata()?.is_file(), "{} is no file", path.display());
    let mut at = 0;
    for (sum, bytes) in contents.pieces() {
        let is_there = stored(&file, at, bytes)?.is_some_and(|found| sum_of(&found) == sum);
        if !is_there {
            let piece =
                destination.piece(sum, bytes).with_context(|| format!("the piece {sum}"))?;
            file.write_all_at(&piece, at)?;
            progress.bytes_sent.fetch_add(bytes, Relaxed);
        }
        at += bytes;
        progress.advance(bytes)?;
    }
    file.set_len(contents.bytes)?;
    file.sync_all()?;
    Ok(())
}

/// The bytes of a range that the file has; none if it ends before.
fn stored(file: &File, at: u64, bytes: u64) -> Result<Option<Vec<u8>>> {
    let mut found = vec![0; usize::try_from(bytes)?];
    match file.read_exact_at(&mut found, at) {
        Ok(()) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}
