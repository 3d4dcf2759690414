//! Opens files that only this program writes: those of a data directory or a spool.
//!
//! Whoever may write such a directory could put something else in the place of a file: a link to a
//! file of somebody else, which would be truncated; a named pipe, whose reader waits for ever; a
//! device; a sparse file of a terabyte where a short text is expected. So a file is opened without
//! following a link and without waiting, and only a regular file is used. Everything else is an
//! error ([`is_not_regular`]) that says what was found and what to do; the caller adds the path.
//!
//! Left out: links in the folders above the file. An operator may place a data directory, or a
//! folder of it, on another disk by a link.

use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What was found in the place of a regular file.
#[derive(Debug)]
struct NotRegular(&'static str);

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotRegular(what) = self;
        write!(
            f,
            "it is {what} and not a regular file; move it away, or put the file itself in its place"
        )
    }
}

impl std::error::Error for NotRegular {}

fn not_regular(found: FileType) -> io::Error {
    let what = match found {
        found if found.is_symlink() => "a symbolic link",
        found if found.is_dir() => "a directory",
        found if found.is_fifo() => "a named pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    };
    io::Error::new(io::ErrorKind::InvalidInput, NotRegular(what))
}

/// Whether a file was refused because something else is in its place.
pub fn is_not_regular(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NotRegular>())
}

/// Whether an operation failed because the disk is full, or the quota of the user is.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Opens a file of ours. Do not truncate it by `options`: the file is looked at only after it is
/// open.
///
/// # Errors
/// Those of the operating system; a link, or anything else that is not a regular file.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_with(path, options, OFlags::NOFOLLOW)
}

/// Opens a file of ours to read it.
///
/// # Errors
/// As [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Opens a file that somebody else provides, to read it. A link is followed, since systems that
/// distribute files place them by links; what it leads to must be a regular file.
///
/// # Errors
/// Those of the operating system; anything that is not a regular file.
pub fn read_provided(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true), OFlags::empty())
}

/// Opens a regular file with further flags.
pub(crate) fn open_with(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    // Opening a pipe or a terminal does not wait, and makes no terminal that of this process.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    match options.custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => {
            let found = file.metadata()?.file_type();
            if found.is_file() { Ok(file) } else { Err(not_regular(found)) }
        }
        Err(error) => {
            // The errors for links, pipes without a reader, sockets and directories differ, and say
            // little.
            let look =
                if flags.contains(OFlags::NOFOLLOW) { fs::symlink_metadata } else { fs::metadata };
            match look(path) {
                Ok(found) if !found.is_file() => Err(not_regular(found.file_type())),
                _ => Err(error),
            }
        }
    }
}

/// Looks at a file of ours that is not opened, or that a library opens.
///
/// # Errors
/// Those of the operating system; a link, or anything else that is not a regular file.
pub fn check_regular(path: &Path) -> io::Result<Metadata> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() { Ok(found) } else { Err(not_regular(found.file_type())) }
}

/// The content of a small file.
///
/// # Errors
/// Those of the operating system; a file with more than `bytes_max` bytes.
pub fn read_all(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let bytes = file.metadata()?.len();
    let too_large = |bytes: u64| {
        let text = format!(
            "it has {bytes} bytes, and a file of its kind has at most {bytes_max}; move it away"
        );
        io::Error::new(io::ErrorKind::FileTooLarge, text)
    };
    if bytes > bytes_max {
        return Err(too_large(bytes));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    // It may grow meanwhile.
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut content)? as u64;
    if read > bytes_max { Err(too_large(read)) } else { Ok(content) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;
    use crate::disk::{Access, Disk, LockError};
    use crate::real::RealDisk;

    /// Makes a named pipe.
    fn fifo(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    /// Everything that may be in the place of a file, each with the words that tell it.
    fn others(dir: &Path) -> Vec<(PathBuf, &'static str)> {
        let victim = dir.join("victim");
        fs::write(&victim, "precious").unwrap();
        let at = |name: &str| dir.join(name);
        symlink(&victim, at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fifo(&at("pipe"));
        fs::create_dir(at("folder")).unwrap();
        drop(UnixListener::bind(at("socket")).unwrap());
        vec![
            (at("link"), "a symbolic link"),
            (at("dangling"), "a symbolic link"),
            (at("pipe"), "a named pipe"),
            (at("folder"), "a directory"),
            (at("socket"), "a socket"),
            (PathBuf::from("/dev/null"), "a device"),
        ]
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        for (path, what) in others(dir.path()) {
            let refused = |error: io::Error| {
                let text = error.to_string();
                assert!(is_not_regular(&error) && text.contains(what), "{what}: {text}");
                assert!(text.contains("move it away"), "{text}");
            };
            refused(RealDisk.open(&path, Access::Read).err().unwrap());
            refused(RealDisk.open(&path, Access::Write).err().unwrap());
            refused(RealDisk.file_bytes(&path).unwrap_err());
            refused(check_regular(&path).unwrap_err());
            refused(read_regular(&path).unwrap_err());
            match RealDisk.lock(&path) {
                Err(LockError::Io(error)) => refused(error),
                other => panic!("{what}: {:?}", other.map(|_| ())),
            }
        }
        let names = ["dangling", "folder", "link", "pipe", "socket", "victim"];
        assert_eq!(
            RealDisk.list(dir.path()).unwrap(),
            names,
            "nothing was made, nothing is hidden"
        );
        assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"precious");
        let absent = read_regular(&dir.path().join("absent")).unwrap_err();
        assert!(absent.kind() == io::ErrorKind::NotFound && !is_not_regular(&absent));
    }

    #[test]
    fn a_provided_file_may_be_a_link_but_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for (path, what) in others(dir.path()) {
            match (read_provided(&path), what) {
                (Ok(file), _) => {
                    assert!(path.ends_with("link"), "{what}");
                    assert_eq!(read_all(file, 8).unwrap(), b"precious");
                }
                (Err(error), "a symbolic link") => {
                    assert_eq!(error.kind(), io::ErrorKind::NotFound);
                }
                (Err(error), what) => assert!(error.to_string().contains(what), "{error}"),
            }
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let sparse = File::create(&path).unwrap();
        for (bytes, good) in [(0, true), (9, true), (10, true), (11, false), (1 << 40, false)] {
            sparse.set_len(bytes).unwrap();
            let read = read_all(read_regular(&path).unwrap(), 10);
            match read {
                Ok(content) => assert!(good && content.len() as u64 == bytes),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!good && text.contains(&format!("{bytes} bytes")), "{text}");
                    assert!(text.contains("move it away"), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_lock_truncates_nothing_but_a_process_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        // A hard link to something of somebody else looks like this.
        for text in ["precious\n", "12 34\n", "-1\n"] {
            fs::write(&path, text).unwrap();
            match RealDisk.lock(&path) {
                Err(LockError::Io(error)) => {
                    assert!(error.to_string().contains("move it away"), "{error}");
                }
                other => panic!("{text:?}: {:?}", other.map(|_| ())),
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(RealDisk.lock(&path), Err(LockError::Io(_))));
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 40);
        // What a full disk, or a process that was killed, left.
        for text in ["", "1\n", "4294967295\n", "42"] {
            fs::write(&path, text).unwrap();
            drop(RealDisk.lock(&path).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        }
    }

    #[test]
    fn a_link_that_is_removed_leaves_its_target() {
        let dir = tempfile::tempdir().unwrap();
        for (path, what) in others(dir.path()) {
            if !["a device", "a directory"].contains(&what) {
                RealDisk.remove(&path).unwrap();
            }
        }
        assert_eq!(RealDisk.list(dir.path()).unwrap(), ["folder", "victim"]);
        assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"precious");
    }
}
