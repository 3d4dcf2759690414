//! From a backup to a data directory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use platform::Disk;
use store::{AtRest, SegmentKind};

use crate::storage::RERUNS_FILE;
use crate::storage::backup::{MANIFEST_FILE, Manifest, copy, sync_dir};
use crate::storage::verify::{Checked, Fault, Observer, verify_directory};

/// What a restore is called while it is not whole.
const UNFINISHED: &str = "restore.part";

/// Checks a backup: its files as those of a data directory, and against its list.
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
        let Ok(bytes) = disk.file_bytes(&path) else {
            wrong("the file", "to be there".into(), "no file".into());
            continue;
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
        let found = format!("segment {id} ({kind:?}), which is not in it");
        let (file, part) = (backup.join(MANIFEST_FILE), "the list".to_owned());
        observer.fault(Fault { file, offset: None, part, expected: String::new(), found });
    }
    Ok((manifest, checked))
}

/// Makes a data directory of a backup that was verified. `advanced` is told bytes as they are
/// copied.
///
/// Errors: the directory is there and not empty; the disk refuses. A crash leaves an empty
/// directory as far as a server can see.
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
        let cannot = || format!("cannot read {}", from.display());
        let bytes = fs::metadata(&from).with_context(cannot)?.len();
        // A sealed segment is never changed, so backup and store may share it. A hot one may be
        // written.
        let shared = file.segment().is_some_and(|(kind, _)| kind == SegmentKind::Sealed)
            && fs::hard_link(&from, &to).is_ok();
        if !shared {
            copy(File::open(&from).with_context(cannot)?, &to, bytes)?;
        }
        advanced(bytes);
    }
    sync_dir(&segments)?;
    sync_dir(&part)?;
    // The catalog last: segments without it are found, and it without them would be emptied.
    for name in [store::SEGMENTS_DIR, RERUNS_FILE, store::CATALOG_FILE] {
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

/// A directory that is not there, empty, or has nothing but what a restore left that was not
/// finished.
fn check_empty(data_dir: &Path) -> Result<()> {
    let entries = match fs::read_dir(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot list {}", data_dir.display()))?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name != UNFINISHED {
            bail!(
                "{} is not empty: it has '{}'; restore into a directory of its own and move it then",
                data_dir.display(),
                name.to_string_lossy().escape_default()
            );
        }
        let part = data_dir.join(UNFINISHED);
        fs::remove_dir_all(&part).with_context(|| format!("cannot delete {}", part.display()))?;
    }
    Ok(())
}
