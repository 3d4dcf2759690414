//! Makes a data directory from a backup.
//!
//! Everything is copied into a directory of its own below it, which is marked once it is complete.
//! Then its parts get their names one after the other. A crash before the mark leaves what the next
//! restore deletes; after it, the same command gives the other parts their names, too.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use platform::{Disk, check_regular, read_all, read_regular};
use store::{AtRest, SegmentKind};

use crate::data_dir::{STATE_FILES, STATE_FOLDERS, create_dirs};
use crate::storage::backup::{MANIFEST_FILE, Manifest, copy, sync_dir};
use crate::storage::verify::{Checked, Fault, Observer, verify_directory};

/// Name of the directory that a backup is fetched into, from elsewhere.
const FETCHED: &str = "fetch.part";
/// Name of the directory in which an incomplete restore is built.
const UNFINISHED: &str = "restore.part";
/// The file in it that says that it is complete, and of which backup.
const COMPLETE: &str = "complete";
/// The same while it is written.
const COMPLETE_NEW: &str = "complete.new";
/// Length of that file; it has a name and a time.
const COMPLETE_BYTES_MAX: u64 = 4 << 10;

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
/// Errors: the directory exists and is not empty; I/O errors. After a crash, [`finish_restore`]
/// goes on if everything was copied; else the next restore begins anew.
pub fn restore(
    backup: &Path,
    manifest: &Manifest,
    data_dir: &Path,
    mut advanced: impl FnMut(u64),
) -> Result<()> {
    check_empty(data_dir)?;
    let part = data_dir.join(UNFINISHED);
    let segments = part.join(store::SEGMENTS_DIR);
    create_dirs(&segments)
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
    // It has its name once it is whole: half a mark would be of no backup.
    let (new, mark) = (part.join(COMPLETE_NEW), part.join(COMPLETE));
    fs::write(&new, of(&manifest.name, &manifest.created))
        .and_then(|()| File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, &mark))
        .with_context(|| format!("cannot write {}", mark.display()))?;
    sync_dir(&part)?;
    give_names(data_dir)
}

/// Ends a restore of a backup that broke off when everything was copied; false if there is none.
///
/// Errors: it is one of another backup; somebody else put something into the directory; I/O errors.
pub fn finish_restore(data_dir: &Path, name: &str, created: &str) -> Result<bool> {
    let mark = data_dir.join(UNFINISHED).join(COMPLETE);
    let found = match read_regular(&mark).and_then(|file| read_all(file, COMPLETE_BYTES_MAX)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.with_context(|| format!("cannot read {}", mark.display()))?,
    };
    let found = String::from_utf8_lossy(&found);
    ensure!(
        found == of(name, created),
        "{} has a restore of the backup {}, which broke off; give the command for that one again, or delete the directory",
        data_dir.display(),
        found.escape_default()
    );
    for entry in list(data_dir)? {
        let is_ours = entry == FETCHED || entry == UNFINISHED || names().any(|name| name == entry);
        let is_twice = names().any(|name| name == entry)
            && data_dir.join(UNFINISHED).join(&entry).symlink_metadata().is_ok();
        ensure!(
            is_ours && !is_twice,
            "{} has '{}', which the restore that broke off has not made; restore into a new directory",
            data_dir.display(),
            entry.escape_default()
        );
    }
    give_names(data_dir)?;
    Ok(true)
}

/// Refuses a directory whose restore broke off: parts of it, or all, would be missing without
/// notice, and the restore could not go on once there are other files.
pub fn check_restored(data_dir: &Path) -> Result<()> {
    ensure!(
        !data_dir.join(UNFINISHED).join(COMPLETE).exists(),
        "a restore into {} broke off at its end; give the same command again",
        data_dir.display()
    );
    // Without the mark nothing of it has its name yet.
    let entries = list(data_dir)?;
    ensure!(
        entries.is_empty() || entries.iter().any(|name| name != FETCHED && name != UNFINISHED),
        "a restore into {} broke off; give the same command again, or delete what is in the directory for an empty store",
        data_dir.display()
    );
    Ok(())
}

/// What the mark says of a backup.
fn of(name: &str, created: &str) -> String {
    format!("{name} of {created}")
}

/// The names of the parts, in the order in which they get them. The catalog is last: a start finds
/// segments without a catalog, but it would empty a catalog without segments.
fn names() -> impl Iterator<Item = &'static str> {
    let first = std::iter::once(store::SEGMENTS_DIR);
    first.chain(STATE_FOLDERS).chain(STATE_FILES).chain([store::CATALOG_FILE])
}

/// Gives the parts of a complete restore their names, and deletes what is not needed any more. What
/// was done before is passed over.
fn give_names(data_dir: &Path) -> Result<()> {
    let part = data_dir.join(UNFINISHED);
    for name in names() {
        let to = data_dir.join(name);
        match fs::rename(part.join(name), &to) {
            // It was moved before, or is not in the backup.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && (name != store::SEGMENTS_DIR || to.exists()) => {}
            renamed => {
                renamed.with_context(|| format!("cannot move {name} to {}", data_dir.display()))?
            }
        }
        sync_dir(data_dir)?;
    }
    // The mark last: what was fetched is deleted by the same command, too.
    let fetched = data_dir.join(FETCHED);
    match fs::remove_dir_all(&fetched) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.with_context(|| format!("cannot delete {}", fetched.display()))?,
    }
    sync_dir(data_dir)?;
    fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
    sync_dir(data_dir)
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

/// Checks that a directory does not exist, is empty, or contains only an incomplete restore, which
/// is removed, or a backup that was fetched.
fn check_empty(data_dir: &Path) -> Result<()> {
    // Nothing is removed before it is known that the rest is ours.
    let entries = list(data_dir)?;
    if let Some(other) = entries.iter().find(|name| *name != FETCHED && *name != UNFINISHED) {
        bail!(
            "{} is not empty: it contains '{}'; restore into a new directory, and move that afterwards",
            data_dir.display(),
            other.escape_default()
        );
    }
    if entries.iter().any(|name| name == UNFINISHED) {
        let part = data_dir.join(UNFINISHED);
        fs::remove_dir_all(&part).with_context(|| format!("cannot delete {}", part.display()))?;
    }
    Ok(())
}

/// The names in a directory, which need not exist.
fn list(data_dir: &Path) -> Result<Vec<String>> {
    let cannot = || format!("cannot list {}", data_dir.display());
    let entries = match fs::read_dir(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(cannot)?,
    };
    let name = |entry: io::Result<fs::DirEntry>| {
        Ok(entry.with_context(cannot)?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::backup::ManifestFile;

    const FILES: [(&str, &str); 5] = [
        ("segments/1.sealed", "sealed"),
        ("dashboards/web.json", "{}"),
        ("encryption.keys", "the keys"),
        ("access.json", "who"),
        ("catalog.sqlite", "rows"),
    ];
    const CREATED_NS: i64 = 1_795_305_600_000_000_000;

    fn backup_in(folder: &Path) -> Manifest {
        let listed = FILES.map(|(file, body)| {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, body).unwrap();
            ManifestFile { file: file.to_owned(), bytes: Some(body.len() as u64), lines: None }
        });
        Manifest::new("one", CREATED_NS, listed.to_vec(), 0, 0)
    }

    fn check_whole(data_dir: &Path) {
        for (file, body) in FILES {
            assert_eq!(fs::read_to_string(data_dir.join(file)).unwrap(), body, "{file}");
        }
        let mut found = list(data_dir).unwrap();
        found.sort();
        let whole = ["access.json", "catalog.sqlite", "dashboards", "encryption.keys", "segments"];
        assert_eq!(found, whole);
        check_restored(data_dir).unwrap();
    }

    /// The directory as a crash leaves it when `moved` parts have their names.
    fn broken_off(data_dir: &Path, moved: usize) {
        let part = data_dir.join(UNFINISHED);
        fs::create_dir(&part).unwrap();
        fs::write(part.join(COMPLETE), of("one", &text::time::format_time(CREATED_NS))).unwrap();
        let parts = names().filter(|name| data_dir.join(name).exists());
        for name in parts.skip(moved).collect::<Vec<_>>() {
            fs::rename(data_dir.join(name), part.join(name)).unwrap();
        }
    }

    #[test]
    fn a_restore_that_broke_off_between_its_renames_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let backup = directory.path().join("backup");
        let manifest = backup_in(&backup);
        for moved in 0..=FILES.len() {
            let data_dir = directory.path().join(format!("below/{moved}"));
            assert!(!finish_restore(&data_dir, "one", &manifest.created).unwrap());
            restore(&backup, &manifest, &data_dir, |_| {}).unwrap();
            check_whole(&data_dir);
            assert!(!finish_restore(&data_dir, "one", &manifest.created).unwrap());
            broken_off(&data_dir, moved);
            fs::create_dir_all(data_dir.join(FETCHED).join("one")).unwrap();
            // A server would begin without what is missing.
            assert!(check_restored(&data_dir).unwrap_err().to_string().contains("same command"));
            // Nothing is deleted by another command.
            let error = finish_restore(&data_dir, "two", &manifest.created).unwrap_err();
            assert!(error.to_string().contains("of the backup one of"), "{error}");
            fs::write(data_dir.join("lines.txt"), "of somebody").unwrap();
            let error = finish_restore(&data_dir, "one", &manifest.created).unwrap_err();
            assert!(error.to_string().contains("'lines.txt'"), "{error}");
            assert!(restore(&backup, &manifest, &data_dir, |_| {}).is_err());
            fs::remove_file(data_dir.join("lines.txt")).unwrap();
            assert!(finish_restore(&data_dir, "one", &manifest.created).unwrap());
            check_whole(&data_dir);
        }
    }

    #[test]
    fn a_directory_without_a_restore_is_not_refused() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().join("data");
        check_restored(&data_dir).unwrap();
        fs::create_dir(&data_dir).unwrap();
        check_restored(&data_dir).unwrap();
        // What a fetch that broke off left is all that is there.
        fs::create_dir(data_dir.join(FETCHED)).unwrap();
        check_restored(&data_dir).unwrap_err();
        // A kill at the end of a restore leaves its directory beside what was restored.
        fs::create_dir(data_dir.join(UNFINISHED)).unwrap();
        fs::create_dir(data_dir.join("segments")).unwrap();
        check_restored(&data_dir).unwrap();
    }

    #[test]
    fn a_restore_that_was_not_complete_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let backup = directory.path().join("backup");
        let manifest = backup_in(&backup);
        let data_dir = directory.path().join("data");
        let half = data_dir.join(UNFINISHED).join("segments");
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("1.sealed"), "sea").unwrap();
        // A crash while the mark was written.
        fs::write(data_dir.join(UNFINISHED).join(COMPLETE_NEW), "").unwrap();
        // A server would begin with an empty store.
        let error = check_restored(&data_dir).unwrap_err().to_string();
        assert!(error.contains("broke off; give the same command again"), "{error}");
        assert!(!finish_restore(&data_dir, "one", &manifest.created).unwrap());
        restore(&backup, &manifest, &data_dir, |_| {}).unwrap();
        check_whole(&data_dir);
    }
}
