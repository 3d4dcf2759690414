//! Documents that are encrypted at rest where the data directory is: they have secrets of people in
//! them, such as the token of a receiver of alerts.
//!
//! Whether a document is encrypted is a matter of the [`Disk`]. One that was written before
//! encryption was turned on is read as it is, and encrypted when it is replaced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use platform::{Access, Disk};

use super::documents::{Documents, ListedDocument};
use super::durable::above;

/// Bytes of a document; a longer one is not read and not written.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// What a document is called while it is written.
const PART: &str = ".new";

/// Documents of one directory, through a disk.
pub struct DiskDocuments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// Whether the name of the directory is known to be durable.
    is_named: AtomicBool,
}

impl DiskDocuments {
    /// The documents of `directory`, which need not exist.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path) -> DiskDocuments {
        DiskDocuments { disk, directory: directory.to_owned(), is_named: AtomicBool::new(false) }
    }
}

impl Documents for DiskDocuments {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match self.disk.open(&self.directory.join(name), Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let bytes = file.bytes()?;
        if bytes > DOCUMENT_BYTES_MAX {
            let text = format!("{bytes} bytes are too many for a document");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let mut body = vec![0; bytes as usize];
        let read = file.read_at(&mut body, 0)?;
        body.truncate(read);
        Ok(Some(body))
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        if body.len() as u64 > DOCUMENT_BYTES_MAX {
            let text = format!("{} bytes are too many for a document", body.len());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        self.disk.create_dir_all(&self.directory)?;
        if !self.is_named.load(Relaxed) {
            above(&self.directory).map_or(Ok(()), |above| self.disk.sync_dir(above))?;
            self.is_named.store(true, Relaxed);
        }
        let part = self.directory.join(format!("{name}{PART}"));
        // What a crash left.
        remove_if_there(&*self.disk, &part)?;
        let file = self.disk.open(&part, Access::Create)?;
        let written = file.write_at(body, 0).and_then(|()| file.sync_data());
        let written = written.and_then(|()| self.disk.rename(&part, &self.directory.join(name)));
        if let Err(error) = written {
            let _ = self.disk.remove(&part);
            return Err(error);
        }
        self.disk.sync_dir(&self.directory)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove_if_there(&*self.disk, &self.directory.join(name))?;
        // Also without a file: the call that removed it may have failed here.
        match self.disk.sync_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let names = match self.disk.list(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| !name.ends_with(PART)) {
            let body = match self.read(&name) {
                Ok(None) => continue,
                Ok(Some(mut body)) => {
                    body.truncate(bytes_max.saturating_add(1));
                    Ok(body)
                }
                Err(error) => Err(error),
            };
            found.push((name, body));
        }
        Ok(found)
    }

    fn place(&self, name: &str) -> String {
        match name {
            "" => self.directory.display().to_string(),
            name => self.directory.join(name).display().to_string(),
        }
    }
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
    use platform::{Fault, Operation, RealDisk, SimDisk};

    use super::*;

    #[test]
    fn what_was_replaced_or_removed_stays_so_over_a_power_cut() {
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let kept = DiskDocuments::new(Arc::new(disk.clone()), Path::new("/data/receivers"));
            kept.replace("a", b"a token").unwrap();
            kept.replace("b", b"another").unwrap();
            kept.remove("a").unwrap();
            disk.crash();
            disk.restart();
            let listed = kept.list(9).unwrap();
            let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["b"], "seed {seed}");
        }
    }

    #[test]
    fn what_is_not_durable_is_an_error() {
        let disk = SimDisk::new(1);
        let kept = DiskDocuments::new(Arc::new(disk.clone()), Path::new("/data/receivers"));
        let fail =
            |skip| disk.fail(Fault { operation: Operation::SyncDir, skip, times: 1, errno: 5 });
        // The name of the new directory, and then that of the document in it.
        for skip in 0..2 {
            fail(skip);
            kept.replace("a", b"a token").unwrap_err();
        }
        kept.replace("a", b"a token").unwrap();
        fail(0);
        kept.remove("a").unwrap_err();
        // The second call makes durable what the first one did.
        kept.remove("a").unwrap();
        disk.crash();
        disk.restart();
        assert!(kept.list(9).unwrap().is_empty());
    }

    #[test]
    fn documents_are_encrypted_once_the_directory_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("receivers");
        let plain = DiskDocuments::new(Arc::new(RealDisk), &folder);
        assert!(plain.list(9).unwrap().is_empty() && plain.read("a").unwrap().is_none());
        plain.remove("a").unwrap();
        plain.replace("a", b"hunter22").unwrap();
        plain.replace("b", b"").unwrap();
        let masters = [MasterKey::random().unwrap()];
        let keys = Keyring::open(&RealDisk, root.path(), &masters).unwrap().unwrap();
        let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys));
        let sealed = DiskDocuments::new(Arc::new(disk), &folder);
        assert_eq!(sealed.read("a").unwrap().as_deref(), Some(&b"hunter22"[..]));
        sealed.replace("a", b"hunter23").unwrap();
        // What a crash left is no document.
        fs::write(folder.join("c.new"), "part").unwrap();
        let listed = sealed.list(3).unwrap();
        let shown: Vec<(&str, &[u8])> = listed
            .iter()
            .map(|(name, body)| (name.as_str(), &body.as_ref().unwrap()[..]))
            .collect();
        assert_eq!(shown, [("a", &b"hunt"[..]), ("b", &b""[..])]);
        assert_eq!(sealed.read("a").unwrap().as_deref(), Some(&b"hunter23"[..]));
        let stored = fs::read(folder.join("a")).unwrap();
        assert!(!stored.windows(8).any(|window| window == b"hunter23"));
        sealed.remove("a").unwrap();
        assert_eq!(sealed.read("a").unwrap(), None);
        sealed.replace("d", &vec![0; 1 + DOCUMENT_BYTES_MAX as usize]).unwrap_err();
    }
}
