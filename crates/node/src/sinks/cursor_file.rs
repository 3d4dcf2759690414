//! The file that holds how far a sink has delivered.
//!
//! It is written after deliveries, now and then: after a crash some documents are delivered once
//! more.

use std::io;
use std::sync::Arc;

use crate::data_dir::Documents;

/// A longer file is damaged.
const BYTES_MAX: usize = 1 << 20;

/// The file of one sink.
pub struct CursorFile {
    folder: Arc<dyn Documents>,
    name: String,
}

impl CursorFile {
    /// The file of the sink `name`, which need not exist.
    pub fn new(folder: &Arc<dyn Documents>, name: &str) -> CursorFile {
        CursorFile { folder: Arc::clone(folder), name: format!("{name}.cursor") }
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        self.folder.place(&self.name)
    }

    /// The cursor; `None` if nothing was delivered yet.
    pub fn read(&self) -> io::Result<Option<String>> {
        let Some(bytes) = self.folder.read(&self.name)? else { return Ok(None) };
        match String::from_utf8(bytes) {
            Ok(text) if text.len() <= BYTES_MAX => Ok(Some(text.trim_end().to_owned())),
            _ => Err(io::Error::other("the file is damaged")),
        }
    }

    /// Replaces the cursor, durably.
    pub fn write(&self, cursor: &str) -> io::Result<()> {
        self.folder.replace(&self.name, format!("{cursor}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn a_cursor_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let folder: Arc<dyn Documents> = Arc::new(DocumentFolder::new(directory.path()));
        let file = CursorFile::new(&folder, "es");
        assert_eq!(file.read().unwrap(), None);
        file.write("a1-00000001-7").unwrap();
        let again = CursorFile::new(&folder, "es");
        assert_eq!(again.read().unwrap().as_deref(), Some("a1-00000001-7"));
        for damage in [vec![b'x'; BYTES_MAX + 1], vec![0xff]] {
            std::fs::write(directory.path().join("es.cursor"), damage).unwrap();
            assert!(again.read().is_err());
        }
    }
}
