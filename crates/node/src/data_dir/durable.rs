//! Names that outlive a power cut: a name that is new in a directory, or gone from it, is so for
//! good once the directory is synced.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Creates a directory and those above it, durably.
pub fn create_dirs(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.is_dir();
    let new: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    fs::create_dir_all(path)?;
    new.into_iter().try_for_each(sync_above)
}

/// The directory that has the name of a path; none for the root, which has no name.
pub(super) fn above(path: &Path) -> Option<&Path> {
    let above = path.parent()?;
    Some(if above.as_os_str().is_empty() { Path::new(".") } else { above })
}

/// Makes the name of a directory durable.
pub(super) fn sync_above(path: &Path) -> io::Result<()> {
    above(path).map_or(Ok(()), |above| File::open(above)?.sync_all())
}

/// Makes the names in a directory durable; no error if it does not exist.
pub(super) fn sync_dir_if_there(path: &Path) -> io::Result<()> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_made_above_each_other() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        sync_dir_if_there(&deep).unwrap();
        create_dirs(&deep).unwrap();
        create_dirs(&deep).unwrap();
        assert!(deep.is_dir());
        sync_dir_if_there(&deep).unwrap();
        sync_above(Path::new("/")).unwrap();
        sync_above(Path::new("name")).unwrap();
        assert_eq!(above(Path::new("a/b")), Some(Path::new("a")));
        fs::write(root.path().join("file"), "").unwrap();
        create_dirs(&root.path().join("file/below")).unwrap_err();
    }
}
