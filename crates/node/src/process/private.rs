//! Logs belong to their owner: files that a process with a data directory or spool writes are
//! readable only by its user.
//!
//! Files get their mode from the mask of the process, which also applies to those of SQLite;
//! existing directories are closed to others at the start.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;

/// Makes all files and directories that this process creates from now on accessible only to its
/// user. Call it before threads start.
pub fn own_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Creates a directory, or closes an existing one to others. If that fails because it belongs to
/// another user, a warning is logged.
///
/// # Errors
/// It can neither be created nor read.
pub fn own_directory(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mode = fs::metadata(dir)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(dir, fs::Permissions::from_mode(mode & 0o7700)) {
        Ok(()) => tracing::info!(
            "{} was readable by other users (mode {:o}), and no longer is",
            dir.display(),
            mode & 0o7777
        ),
        Err(error) => tracing::warn!(
            "{} is readable by other users (mode {:o}), and that cannot be changed: {error}; run chmod 700",
            dir.display(),
            mode & 0o7777
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        own_directory(&open).unwrap();
        assert_eq!(mode(&open), 0o700);
        own_directory(&open).unwrap();
        assert_eq!(mode(&open), 0o700);
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(own_directory(&dir.path().join("file/below")).is_err());
    }
}
