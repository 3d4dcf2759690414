//! The file that holds how far a sink has delivered.
//!
//! It is written after deliveries, now and then: after a crash some documents are delivered once
//! more.

use std::io;
use std::path::{Path, PathBuf};

use crate::summaries::reruns::replace;

/// Folder of sinks in the data directory: cursors, and rejected documents.
pub const FOLDER: &str = "sinks";
/// A longer file is damaged.
const BYTES_MAX: usize = 1024;

/// The file of one sink.
pub struct CursorFile {
    folder: PathBuf,
    name: String,
}

impl CursorFile {
    /// The file of the sink `name`, which need not exist; its folder is made.
    pub fn new(data_dir: &Path, name: &str) -> io::Result<CursorFile> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        Ok(CursorFile { folder, name: format!("{name}.cursor") })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The cursor; `None` if nothing was delivered yet.
    pub fn read(&self) -> io::Result<Option<String>> {
        match std::fs::read_to_string(self.folder.join(&self.name)) {
            Ok(text) if text.len() > BYTES_MAX => Err(io::Error::other("the file is damaged")),
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the cursor, durably.
    pub fn write(&self, cursor: &str) -> io::Result<()> {
        replace(&self.folder, &self.name, format!("{cursor}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = CursorFile::new(folder.path(), "es").unwrap();
        assert_eq!(file.read().unwrap(), None);
        file.write("a1-00000001-7").unwrap();
        let again = CursorFile::new(folder.path(), "es").unwrap();
        assert_eq!(again.read().unwrap().as_deref(), Some("a1-00000001-7"));
        std::fs::write(again.folder().join("es.cursor"), "x".repeat(2000)).unwrap();
        assert!(again.read().is_err());
    }
}
