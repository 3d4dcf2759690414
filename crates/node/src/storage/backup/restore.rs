//! Makes a data directory from a backup.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use platform::{Disk, check_regular, read_regular};
use store::{AtRest, SegmentKind};

use crate::data_dir::{STATE_FILES, STATE_FOLDERS};
use crate::storage::backup::{MANIFEST_FILE, Manifest, copy, sync_dir};
use crate::storage::verify::{Checked, Fault, Observer, verify_directory};

/// Name of the directory that a backup is fetched into, from elsewhere.
const FETCHED: &str = "fetch.part";
/// Name of the directory in which an incomplete restore is built.
const UNFINISHED: &str = "restore.part";

/// Checks a backup: its files like those of a data directory, and also against its list.
pub fn verify_backup(
    disk: &dyn Disk,
    backup: &Path,
    observer: &mut dyn Observer,
) -> Result<(Manifest, Checked)> {
    let manifest = Manifest::read(backup)?;
    let at_rest = AtRest::open(disk, backup)?;
    let mut lines_found: HashMap<(SegmentKind, u64), u64> = HashMap::new();
    let checked = verify_directory(disk, &at_rest, observer, |segment, lines| {
        lines_found.insert((segment.kind, segment.id), lines);
    });
    for file in &manifest.files {
        let path = backup.join(&file.file);
        let mut wrong = |part: &str, expected: String, found: String| {
            let part = format!("{part}, compared with {MANIFEST_FILE}");
            observer.fault(Fault { file: path.clone(), offset: None, part, expected, found });
        };
        // As they are: the list has the bytes of encrypted files, too.
        let bytes = match check_regular(&path) {
            Ok(found) => found.len(),
            Err(error) => {
                wrong("the file", "to exist".into(), error.to_string());
                continue;
            }
        };
        if let Some(expected) = file.bytes.filter(|expected| *expected != bytes) {
            wrong("its length", format!("{expected} bytes"), format!("{bytes}"));
        }
        if let (Some(key), Some(expected)) = (file.segment(), file.lines) {
            let found = lines_found.remove(&key).unwrap_or(0);
            if expected != found {
                wrong("its lines", format!("{expected}"), format!("{found}"));
            }
        }
    }
    for (kind, id) in lines_found.into_keys() {
        let found = format!("segment {id} ({kind:?}), which is not in the list");
        let (file, part) = (backup.join(MANIFEST_FILE), "the list".to_owned());
        observer.fault(Fault { file, offset: None, part, expected: String::new(), found });
    }
    Ok((manifest, checked))
}

/// Makes a data directory from a verified backup. `advanced` is called with the bytes as they are
/// copied.
///
/// Errors: the directory exists and is not empty; I/O errors. After a crash, a server takes the
/// directory for an empty one.
pub fn restore(
    backup: &Path,
    manifest: &Manifest,
    data_dir: &Path,
    mut advanced: impl FnMut(u64),
) -> Result<()> {
    check_empty(data_dir)?;
    let part = data_dir.join(UNFINISHED);
    let segments = part.join(store::SEGMENTS_DIR);
    fs::create_dir_all(&segments)
        .with_context(|| format!("cannot make the directory {}", segments.display()))?;
    for file in &manifest.files {
        let (from, to) = (backup.join(&file.file), part.join(&file.file));
        if let Some((folder, _)) = file.file.split_once('/') {
            fs::create_dir_all(part.join(folder))?;
        }
        let cannot = || format!("cannot read {}", from.display());
        let bytes = check_regular(&from).with_context(cannot)?.len();
        // A sealed segment is never changed, so backup and store may share the file. A hot one may
        // be written to.
        let shared = file.segment().is_some_and(|(kind, _)| kind == SegmentKind::Sealed)
            && fs::hard_link(&from, &to).is_ok();
        if !shared {
            copy(read_regular(&from).with_context(cannot)?, &to, bytes)?;
        }
        advanced(bytes);
    }
    sync_dir(&segments)?;
    for folder in STATE_FOLDERS.map(|folder| part.join(folder)) {
        if folder.exists() {
            sync_dir(&folder)?;
        }
    }
    sync_dir(&part)?;
    // The catalog last: a start finds segments without a catalog, but it would empty a catalog
    // without segments.
    let names = std::iter::once(store::SEGMENTS_DIR).chain(STATE_FOLDERS).chain(STATE_FILES);
    for name in names.chain([store::CATALOG_FILE]) {
        match fs::rename(part.join(name), data_dir.join(name)) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && name != store::SEGMENTS_DIR => {}
            renamed => {
                renamed.with_context(|| format!("cannot move {name} to {}", data_dir.display()))?
            }
        }
        sync_dir(data_dir)?;
    }
    fs::remove_dir(&part).with_context(|| format!("cannot remove {}", part.display()))
}

/// The directory that the backup `name` is fetched into before it is restored to `data_dir`. What
/// was fetched of it before stays, what was fetched of another one is deleted.
///
/// Errors: `data_dir` is not empty.
pub fn fetch_directory(data_dir: &Path, name: &str) -> Result<PathBuf> {
    check_empty(data_dir)?;
    let fetched = data_dir.join(FETCHED);
    for entry in fs::read_dir(&fetched).into_iter().flatten() {
        let entry = entry?;
        if entry.file_name() != name {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot delete {}", entry.path().display()))?;
        }
    }
    Ok(fetched.join(name))
}

/// Deletes what was fetched, once it is restored.
pub fn delete_fetched(data_dir: &Path) -> Result<()> {
    let fetched = data_dir.join(FETCHED);
    fs::remove_dir_all(&fetched).with_context(|| format!("cannot delete {}", fetched.display()))
}

/// Checks that a directory does not exist, is empty, or contains only an incomplete restore, which
/// is removed, or a backup that was fetched.
fn check_empty(data_dir: &Path) -> Result<()> {
    let entries = match fs::read_dir(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot list {}", data_dir.display()))?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name == FETCHED {
            continue;
        }
        if name != UNFINISHED {
            bail!(
                "{} is not empty: it contains '{}'; restore into a new directory, and move that afterwards",
                data_dir.display(),
                name.to_string_lossy().escape_default()
            );
        }
        let part = data_dir.join(UNFINISHED);
        fs::remove_dir_all(&part).with_context(|| format!("cannot delete {}", part.display()))?;
    }
    Ok(())
}
