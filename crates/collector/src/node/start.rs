//! The start of delivery: one collector locks and opens a spool directory, and no lines are left
//! behind there for stores that it does not deliver to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskLock, LockError};
use segment::SegmentError;

use super::directory::{Directory, DirectoryError, Place};
use super::spool::Spool;

/// Why delivery cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// Another collector uses the spool directory.
    #[error(
        "the spool directory {} is in use by {}; give this collector a --spool-dir of its own",
        dir.display(),
        holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The other process, if it is known.
        holder: Option<u32>,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A spool file cannot be used.
    #[error(transparent)]
    Spool(#[from] SegmentError),
    /// Lines wait for stores that this configuration does not deliver to.
    #[error(
        "{lines} lines in {} wait for stores of another configuration{}; start with that configuration until /api/v1/nodes shows none of \
         them in the spool, or, to give these lines up, delete the .hot files in that directory",
        dir.display(),
        place.map(|place| format!(" ({place})")).unwrap_or_default()
    )]
    LeftOver {
        /// The directory.
        dir: PathBuf,
        /// The place of their store, if they were for one of several copies.
        place: Option<Place>,
        /// The lines.
        lines: u64,
    },
    /// The copies are of different sizes.
    #[error(
        "the copies have {0:?} stores; each copy needs equally many, because a store holds the same lines as the store at its position in the \
         other copies"
    )]
    Uneven(Vec<usize>),
    /// A thread cannot be started.
    #[error("cannot start a thread to send frames: {0}")]
    Thread(#[from] std::io::Error),
}

/// Locks and opens a spool directory.
pub(super) fn open_directory(
    dir: &Path,
    disk: &Arc<dyn Disk>,
) -> Result<(Box<dyn DiskLock>, Directory), ForwardError> {
    disk.create_dir_all(dir).map_err(DirectoryError::io(dir, "create"))?;
    let lock_path = dir.join("LOCK");
    let lock = disk.lock(&lock_path).map_err(|error| match error {
        LockError::Held { holder } => ForwardError::Locked { dir: dir.to_owned(), holder },
        LockError::Io(source) => DirectoryError::io(&lock_path, "lock")(source).into(),
    })?;
    Ok((lock, Directory::open(Arc::clone(disk), dir)?))
}

/// The spool of one store of one copy.
pub(super) fn spool_dir(root: &Path, place: Place) -> PathBuf {
    root.join(format!("copy-{}-store-{}", place.copy + 1, place.stripe + 1))
}

/// Makes `places` those of this start. An error if lines wait in the spool of another place.
pub(super) fn retire_places(
    directory: &mut Directory,
    places: &[Place],
    lost_stores: &[u32],
    root: &Path,
    disk: &Arc<dyn Disk>,
) -> Result<(), ForwardError> {
    let node = directory.identity().node;
    for place in directory.places().filter(|place| !places.contains(place)) {
        let dir = spool_dir(root, place);
        disk.create_dir_all(&dir).map_err(DirectoryError::io(&dir, "create"))?;
        check_empty(&dir, Some(place), node, disk)?;
    }
    Ok(directory.set_places(places, lost_stores)?)
}

/// An error if lines wait in a spool that this configuration does not deliver.
pub(super) fn check_empty(
    dir: &Path,
    place: Option<Place>,
    node: u32,
    disk: &Arc<dyn Disk>,
) -> Result<(), ForwardError> {
    let (spool, warnings) = Spool::open(Arc::clone(disk), dir, node, u64::MAX)?;
    for warning in warnings {
        tracing::warn!("{warning}; its lines are lost");
    }
    match spool.lines() {
        0 => Ok(()),
        lines => Err(ForwardError::LeftOver { dir: dir.to_owned(), place, lines }),
    }
}
