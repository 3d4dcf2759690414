//! What becomes of files that are damaged.

use std::path::{Path, PathBuf};

use platform::Disk;

use crate::error::StoreError;
use crate::segments::file_names::DAMAGED;

/// Gives a damaged file a second name that says so, durably; returns that name. A name that exists
/// stays.
pub(crate) fn set_aside(disk: &dyn Disk, path: &Path) -> Result<PathBuf, StoreError> {
    let aside = path.with_added_extension(DAMAGED);
    match disk.hard_link(path, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io(&aside, "make the link")(error));
        }
        _ => {}
    }
    let dir = path.parent().expect("a segment is in a directory");
    disk.sync_dir(dir).map_err(StoreError::io(dir, "sync"))?;
    Ok(aside)
}
