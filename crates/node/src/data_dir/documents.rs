//! Small documents from which a server resumes after a start: programs, and up to where lines were
//! read.
//!
//! On one machine they are files of the data directory. In a cluster they are marks of the catalog,
//! which only the node that has the lease of the programs can change
//! ([`crate::cluster::engines::Marks`]).

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A document of [`Documents::list`]: its name, and its body or why it cannot be read.
pub type ListedDocument = (String, io::Result<Vec<u8>>);

/// Keeps documents under names. Names are those that Loginson gives, never those of a sender.
pub trait Documents: Send + Sync {
    /// The document of a name; `None` if there is none.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a document, durably: after a crash there is the old one or the new one.
    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()>;

    /// Removes a document; no error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All documents, by name. A body that is longer than `bytes_max` is cut behind one byte more.
    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>>;

    /// Where a document is, for people; without a name, where all of them are.
    fn place(&self, name: &str) -> String;
}

/// Files of a directory, which need not exist.
pub struct DocumentFolder(PathBuf);

impl DocumentFolder {
    /// The files of `directory`.
    pub fn new(directory: &Path) -> DocumentFolder {
        DocumentFolder(directory.to_owned())
    }
}

impl Documents for DocumentFolder {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.0.join(name)) {
            Ok(body) => Ok(Some(body)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let new = self.0.join(format!("{name}.new"));
        let mut file = fs::File::create(&new)?;
        file.write_all(body)?;
        file.sync_all()?;
        fs::rename(&new, self.0.join(name))?;
        fs::File::open(&self.0)?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // A name that is no text is none of ours.
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            found.push((name.to_owned(), read_bounded(&path, bytes_max)));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    fn place(&self, name: &str) -> String {
        match name {
            "" => self.0.display().to_string(),
            name => self.0.join(name).display().to_string(),
        }
    }
}

fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    fs::File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_there_until_they_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let keep = DocumentFolder::new(&directory.path().join("below"));
        assert!(keep.list(9).unwrap().is_empty() && keep.read("a").unwrap().is_none());
        keep.remove("a").unwrap();
        for (name, body) in [("b", "1234"), ("a", "old"), ("a", "new")] {
            keep.replace(name, body.as_bytes()).unwrap();
        }
        // What a crash left behind is not the document.
        fs::write(directory.path().join("below/a.new"), "part").unwrap();
        assert_eq!(keep.read("a").unwrap().as_deref(), Some(&b"new"[..]));
        let listed: Vec<_> = keep.list(3).unwrap();
        let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "a.new", "b"]);
        assert_eq!(listed[2].1.as_deref().unwrap(), b"1234");
        assert_eq!(keep.list(2).unwrap()[2].1.as_deref().unwrap(), b"123");
        keep.remove("b").unwrap();
        assert_eq!(keep.read("b").unwrap(), None);
    }
}
