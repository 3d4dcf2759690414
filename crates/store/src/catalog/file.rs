//! Opens the file of a catalog.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;

/// Files that SQLite opens beside a database of any journal mode.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Opens a catalog. What is in the place of its file, or of its journal, is looked at before:
/// SQLite would follow a link, and wait for ever at a named pipe.
pub(crate) fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    for suffix in std::iter::once("").chain(BESIDE) {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let file = Path::new(&name);
        match platform::check_regular(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io(file, "open")(error));
            }
            _ => {}
        }
    }
    let opened =
        Connection::open_with_flags(without_links(path)?, flags | OpenFlags::SQLITE_OPEN_NOFOLLOW);
    opened.map_err(|source| StoreError::catalog(&path.display().to_string(), source))
}

/// The path of a file, with the links of its folders followed. Those are the operator's, and SQLite
/// refuses a path with a link anywhere in it; so does `VACUUM INTO` of a catalog that was opened
/// here.
pub(crate) fn without_links(path: &Path) -> Result<PathBuf, StoreError> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = dir.canonicalize().map_err(StoreError::io(dir, "open"))?;
    Ok(dir.join(path.file_name().expect("a catalog has a name")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use crate::catalog::Catalog;

    #[test]
    fn only_regular_files_are_opened_in_any_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (real, linked) = (dir.path().join("real"), dir.path().join("linked"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &linked).unwrap();
        let path = linked.join("catalog.sqlite");
        drop(Catalog::open(Some(path.clone())).unwrap());
        assert!(fs::symlink_metadata(real.join("catalog.sqlite")).unwrap().is_file());
        crate::at_rest::copy_catalog(&linked, &linked.join("copy")).unwrap();
        assert!(fs::symlink_metadata(real.join("copy")).unwrap().is_file());
        for suffix in ["-journal", "-wal", "-shm", ""] {
            let file = real.join(format!("catalog.sqlite{suffix}"));
            let _ = fs::remove_file(&file);
            symlink("elsewhere", &file).unwrap();
            let error = Catalog::open(Some(path.clone())).err().unwrap().to_string();
            let named = format!("catalog.sqlite{suffix}: cannot open: it is a symbolic link");
            assert!(error.contains(&named), "{error}");
            assert!(!real.join("elsewhere").exists());
            fs::remove_file(&file).unwrap();
        }
    }
}
