//! The directories of servers: for each store `software`, `data`, `log` and `run`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Say, ServerError, io, store_of};

/// Bytes at the end of a log that are read for its last lines.
const TAIL_BYTES_MAX: u64 = 8 * 1024;

/// The directory of all stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    software: PathBuf,
    state: PathBuf,
}

/// The directories of one store, which are created on first use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Installed software.
    pub software: PathBuf,
    /// Data of servers.
    pub data: PathBuf,
    /// Output of servers and installers.
    pub log: PathBuf,
    /// Records of started processes.
    pub run: PathBuf,
}

/// Held while a store is installed, started or stopped: other processes wait.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Home {
    /// All directories are below `path`, which is made absolute.
    pub fn new(path: &Path) -> std::io::Result<Home> {
        let path = std::path::absolute(path)?;
        Ok(Home { software: path.clone(), state: path })
    }

    /// `~/.cache/loginson-lab`; `None` without a home directory.
    pub fn usual() -> Option<Home> {
        let path = std::env::home_dir()?.join(".cache/loginson-lab");
        Home::new(&path).ok()
    }

    /// The same software, with data, logs and processes below `path`: two such homes can run at the
    /// same time on different ports.
    pub fn apart(&self, path: &Path) -> std::io::Result<Home> {
        Ok(Home { software: self.software.clone(), state: std::path::absolute(path)? })
    }

    /// The directories of a store, or of an instance of one: instances share its software.
    pub fn site(&self, name: &str) -> Site {
        let state = self.state.join(name);
        Site {
            software: self.software.join(store_of(name)).join("software"),
            data: state.join("data"),
            log: state.join("log"),
            run: state.join("run"),
        }
    }
}

impl Site {
    /// The log of a node.
    pub fn log_of(&self, node: &str) -> PathBuf {
        self.log.join(format!("{node}.log"))
    }

    /// The record of a node's process.
    pub fn record_of(&self, node: &str) -> PathBuf {
        self.run.join(format!("{node}.json"))
    }

    /// All records.
    pub fn records(&self) -> Result<Vec<PathBuf>, ServerError> {
        let entries = match std::fs::read_dir(&self.run) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io(&self.run)(e)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(io(&self.run))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Waits until no other process works on this store.
    pub fn lock(&self, say: &Say) -> Result<Lock, ServerError> {
        let open = |path: PathBuf| {
            let parent = path.parent().expect("a lock is in a directory");
            std::fs::create_dir_all(parent).map_err(io(parent))?;
            let file = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
            Ok::<_, ServerError>((file, path))
        };
        // Several homes may share the software, and must not install it at the same time.
        let (file, path) = open(self.software.with_file_name("lock"))?;
        if file.try_lock().is_err() {
            say("waits for another loginson-lab that works on this store");
            file.lock().map_err(io(&path))?;
        }
        Ok(Lock { _file: file })
    }
}

/// Writes a file atomically.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), ServerError> {
    let part = path.with_extension("part");
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().map_err(io(path))
}

/// Fills a directory atomically: afterwards it is complete, or does not exist.
pub(crate) fn once(
    directory: &Path,
    fill: impl FnOnce(&Path) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    if directory.exists() {
        return Ok(());
    }
    let mut part = directory.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(io(&part))?;
    }
    std::fs::create_dir_all(&part).map_err(io(&part))?;
    fill(&part)?;
    std::fs::rename(&part, directory).map_err(io(directory))
}

/// The last `lines` of a log, within its last 8 KiB; bytes that are not text are replaced, because
/// a log is data.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = match read() {
        Ok(bytes) if bytes.is_empty() => return "(it is empty)".to_owned(),
        Ok(bytes) => bytes,
        Err(error) => return format!("({error})"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let last = &all[all.len().saturating_sub(lines)..];
    let printable = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    last.iter()
        .map(|line| line.chars().map(printable).collect::<String>())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A program in the directory of this one, or in the directory above, because test programs are one
/// level deeper.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folders = own.parent().into_iter().flat_map(|folder| folder.ancestors().take(2));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The path of this program, or, in a test, of the program that was built beside the test.
pub(crate) fn program() -> Result<PathBuf, ServerError> {
    const NAME: &str = "loginson-lab";
    beside(NAME).ok_or_else(|| ServerError::Missing {
        what: format!("there is no program {NAME} beside this one"),
        remedy: "build it: make lab".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_as_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert!(tail(&path, 2).contains("No such file"));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(tail(&path, 2), "(it is empty)");
        std::fs::write(&path, b"one\ntwo\n\x1b[31mthree\xff\n").unwrap();
        assert_eq!(tail(&path, 2), "two\n\u{fffd}[31mthree\u{fffd}");
        assert_eq!(tail(&path, 9).lines().count(), 3);
        std::fs::write(&path, "x\n".repeat(100_000)).unwrap();
        assert_eq!(tail(&path, 3), "x\nx\nx");
    }

    #[test]
    fn homes_apart_share_software_only() {
        let home = Home::new(Path::new("/home")).unwrap();
        let apart = home.apart(Path::new("/other")).unwrap();
        assert_eq!(apart.site("redis").software, Path::new("/home/redis/software"));
        assert_eq!(apart.site("redis").data, Path::new("/other/redis/data"));
        let instance = apart.site("redis@lxc");
        assert_eq!(instance.software, Path::new("/home/redis/software"));
        assert_eq!(instance.data, Path::new("/other/redis@lxc/data"));
    }

    #[test]
    fn a_directory_is_filled_whole_or_not_at_all() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("5.0.2");
        let file = |part: &Path| std::fs::write(part.join("file"), "").map_err(io(part));
        let failed = once(&directory, |part| {
            file(part)?;
            Err(io(part)(std::io::Error::other("no")))
        });
        assert!(failed.is_err() && !directory.exists());
        once(&directory, |part| {
            assert_eq!(std::fs::read_dir(part).unwrap().count(), 0);
            file(part)
        })
        .unwrap();
        once(&directory, |_| panic!("it is there")).unwrap();
        assert!(directory.join("file").exists());
    }
}
