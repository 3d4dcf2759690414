//! Small documents from which a server resumes after a start: programs, and up to where lines were
//! read.
//!
//! On one machine they are files of the data directory. In a cluster they are marks of the catalog,
//! which only the node that has the lease of the programs can change
//! ([`crate::cluster::engines::Marks`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use platform::{open_regular, read_all, read_provided, read_regular};

use super::durable::{create_dirs, sync_above, sync_dir_if_there};

/// Length of a document. A longer file is not read and not written: it stands for something else
/// that was put in the place of a document, since none comes near this.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// A document of [`Documents::list`]: its name, and its body or why it cannot be read.
pub type ListedDocument = (String, io::Result<Vec<u8>>);

/// Keeps documents under names. Names are those that Loginson gives, never those of a sender.
pub trait Documents: Send + Sync {
    /// The document of a name; `None` if there is none.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a document, durably: after a crash there is the old one or the new one.
    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()>;

    /// Removes a document, durably; no error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All documents, by name. A body that is longer than `bytes_max` is cut behind one byte more.
    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>>;

    /// As [`list`](Self::list), of the documents whose names begin with `prefix` alone. Others are
    /// not read where that can be avoided.
    fn list_of(&self, prefix: &str, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let mut found = self.list(bytes_max)?;
        found.retain(|(name, _)| name.starts_with(prefix));
        Ok(found)
    }

    /// Where a document is, for people; without a name, where all of them are.
    fn place(&self, name: &str) -> String;
}

/// A document that the nodes of a cluster share.
pub trait SharedDocument: Send + Sync {
    /// The document; `None` if there is none yet.
    fn read(&self) -> io::Result<Option<Vec<u8>>>;

    /// Calls `change` with the document while no other node changes it, and writes what it returns,
    /// if anything. Without an error it was called once; with one, once or not at all. Blocks.
    ///
    /// Errors: the catalog cannot be reached, and the document may or may not be written; others
    /// change it for too long.
    fn change(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>) -> io::Result<()>;
}

/// Files of a directory, which need not exist. Only regular files are read; see
/// [`platform::open_regular`].
pub struct DocumentFolder {
    directory: PathBuf,
    /// Opens a file to read it.
    open: fn(&Path) -> io::Result<File>,
    /// Whether the name of the directory is known to be durable.
    is_named: AtomicBool,
}

impl DocumentFolder {
    /// The files of `directory`, which only this program writes. A link is no document.
    pub fn new(directory: &Path) -> DocumentFolder {
        DocumentFolder::opened_by(directory, read_regular)
    }

    /// The files of `directory`, which somebody else provides. Links are followed.
    pub fn provided(directory: &Path) -> DocumentFolder {
        DocumentFolder::opened_by(directory, read_provided)
    }

    fn opened_by(directory: &Path, open: fn(&Path) -> io::Result<File>) -> DocumentFolder {
        DocumentFolder { directory: directory.to_owned(), open, is_named: AtomicBool::new(false) }
    }

    /// The files of `directory`: ours if it is in `data_dir`, else provided by somebody else.
    pub fn configured(directory: &Path, data_dir: &Path) -> DocumentFolder {
        match directory.starts_with(data_dir) {
            true => DocumentFolder::new(directory),
            false => DocumentFolder::provided(directory),
        }
    }
}

impl Documents for DocumentFolder {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match (self.open)(&self.directory.join(name)) {
            Ok(file) => read_all(file, DOCUMENT_BYTES_MAX).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        if body.len() as u64 > DOCUMENT_BYTES_MAX {
            let text = format!("{} bytes are too many for a document", body.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        create_dirs(&self.directory)?;
        // A process that was killed may have made it and not more.
        if !self.is_named.load(Relaxed) {
            sync_above(&self.directory)?;
            self.is_named.store(true, Relaxed);
        }
        let new = self.directory.join(format!("{name}.new"));
        // What a crash left, or whatever else is there.
        remove_if_there(&new)?;
        let mut file = open_regular(&new, OpenOptions::new().write(true).create_new(true))?;
        let written = file.write_all(body).and_then(|()| file.sync_all());
        let written = written.and_then(|()| fs::rename(&new, self.directory.join(name)));
        if let Err(error) = written {
            // Half a document would only take space on a full disk.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        File::open(&self.directory)?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove_if_there(&self.directory.join(name))?;
        // Also without a file: the call that removed it may have failed here.
        sync_dir_if_there(&self.directory)
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        self.list_of("", bytes_max)
    }

    fn list_of(&self, prefix: &str, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // A name that is no text is none of ours.
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !name.starts_with(prefix) {
                continue;
            }
            let body = (self.open)(&path).and_then(|file| read_start(file, bytes_max));
            found.push((name.to_owned(), body));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    fn place(&self, name: &str) -> String {
        match name {
            "" => self.directory.display().to_string(),
            name => self.directory.join(name).display().to_string(),
        }
    }
}

/// Those of some documents whose names begin with a prefix, under names without it.
pub struct PrefixedDocuments {
    of: Arc<dyn Documents>,
    prefix: String,
}

impl PrefixedDocuments {
    /// Those of `of`. No prefix of two such parts may begin the other.
    pub fn new(of: Arc<dyn Documents>, prefix: String) -> PrefixedDocuments {
        PrefixedDocuments { of, prefix }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Documents for PrefixedDocuments {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.of.read(&self.full(name))
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.of.replace(&self.full(name), body)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.of.remove(&self.full(name))
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let own = |(name, body): ListedDocument| {
            Some((name.strip_prefix(&self.prefix)?.to_owned(), body))
        };
        // Those of all tenants together may be more than memory has room for.
        Ok(self.of.list_of(&self.prefix, bytes_max)?.into_iter().filter_map(own).collect())
    }

    fn place(&self, name: &str) -> String {
        self.of.place(&self.full(name))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The content of a file, or its first `bytes_max + 1` bytes.
fn read_start(file: File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut body)?;
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

    #[test]
    fn a_part_lists_its_own_documents() {
        let directory = tempfile::tempdir().unwrap();
        let all: Arc<dyn Documents> = Arc::new(DocumentFolder::new(directory.path()));
        for name in ["1-0.a", "1-0.b", "11-0.c", "d"] {
            all.replace(name, name.as_bytes()).unwrap();
        }
        let part = PrefixedDocuments::new(Arc::clone(&all), "1-0.".to_owned());
        let listed = part.list(99).unwrap();
        let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(listed[1].1.as_deref().unwrap(), b"1-0.b");
        assert_eq!(part.read("a").unwrap().as_deref(), Some(&b"1-0.a"[..]));
        assert_eq!((part.read("c").unwrap(), all.list(0).unwrap().len()), (None, 4));
    }

    #[test]
    fn a_link_is_a_document_only_where_others_provide_it() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let folder = directory.path().join("folder");
        let keep = DocumentFolder::configured(&folder, directory.path());
        let provided = DocumentFolder::configured(&folder, Path::new("/elsewhere"));
        fs::create_dir(&folder).unwrap();
        for name in ["a", "b.new"] {
            symlink(&victim, folder.join(name)).unwrap();
        }
        let error = keep.read("a").unwrap_err().to_string();
        assert!(error.contains("it is a symbolic link"), "{error}");
        assert!(keep.list(99).unwrap().iter().all(|(_, body)| body.is_err()));
        assert_eq!(provided.read("a").unwrap().as_deref(), Some(&b"precious"[..]));
        assert_eq!(provided.list(99).unwrap()[0].1.as_deref().unwrap(), b"precious");
        // Neither the document nor its successor is written through a link.
        keep.replace("a", b"new").unwrap();
        keep.replace("b", b"new").unwrap();
        assert_eq!(keep.read("a").unwrap(), keep.read("b").unwrap());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        // A folder in its place stays.
        fs::create_dir(folder.join("c.new")).unwrap();
        keep.replace("c", b"new").unwrap_err();
    }

    #[test]
    fn a_document_without_end_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let keep = DocumentFolder::new(directory.path());
        File::create(directory.path().join("a")).unwrap().set_len(1 << 40).unwrap();
        let error = keep.read("a").unwrap_err().to_string();
        assert!(error.contains("1099511627776 bytes"), "{error}");
        assert_eq!(keep.list(3).unwrap()[0].1.as_deref().unwrap(), [0; 4]);
    }
}
