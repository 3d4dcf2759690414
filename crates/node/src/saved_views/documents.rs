//! Documents of JSON that people make over the API: dashboards, links.
//!
//! A document has a name of ours, and is replaced as a whole. Whoever reads a document, changes it
//! and writes it again holds [`KeptDocuments::changing`] meanwhile, so that no change is lost.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data_dir::{Documents, ListedDocument};

/// The documents of one kind.
pub struct KeptDocuments {
    keep: Arc<dyn Documents>,
    changing: Mutex<()>,
}

/// Why a document cannot be read or changed. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// There is none of this id.
    #[error("{0}")]
    NotFound(String),
    /// What was sent is no such document.
    #[error("{0}")]
    Invalid(String),
    /// Somebody else has changed it meanwhile.
    #[error(
        "it has version {found} and not {sent}: somebody changed it meanwhile; load it again, or save yours under \
         another name"
    )]
    Changed {
        /// The version that there is; 0 if there is none.
        found: u64,
        /// The version that was sent.
        sent: u64,
    },
    /// It is a file that is changed by hand.
    #[error("it is the file {0}: change it there, or save yours under another name")]
    Provided(String),
    /// There are too many.
    #[error("there are {0} already; delete some")]
    Full(usize),
    /// The documents cannot be read or written.
    #[error("documents cannot be kept: {0}")]
    Kept(#[from] io::Error),
}

impl KeptDocuments {
    /// The documents of `keep`.
    pub fn new(keep: Arc<dyn Documents>) -> KeptDocuments {
        KeptDocuments { keep, changing: Mutex::default() }
    }

    /// Keeps other changes away.
    pub fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document of a name.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let read = || match self.keep.read(name)? {
            Some(body) => Ok(Some(serde_json::from_slice(&body)?)),
            None => Ok(None),
        };
        read().map_err(|error| self.named(name, &error))
    }

    /// Replaces a document, unless it has more than `bytes_max` bytes. Returns whether it has not.
    pub fn write<T: Serialize>(
        &self,
        name: &str,
        document: &T,
        bytes_max: usize,
    ) -> io::Result<bool> {
        let body = serde_json::to_vec(document)?;
        if body.len() > bytes_max {
            return Ok(false);
        }
        let written = self.keep.replace(name, &body);
        written.map(|()| true).map_err(|error| self.named(name, &error))
    }

    /// The error with the place of its document.
    fn named(&self, name: &str, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.place(name)))
    }

    /// Removes a document; no error if there is none.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.keep.remove(name).map_err(|error| self.named(name, &error))
    }

    /// All documents as they are kept, by name. A body that is longer than `bytes_max` is cut
    /// behind one byte more.
    pub fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        self.keep.list(bytes_max)
    }

    /// As [`list`](Self::list), of the documents whose names begin with `prefix` alone.
    pub fn list_of(&self, prefix: &str, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        self.keep.list_of(prefix, bytes_max)
    }

    /// Where a document is, for people.
    pub fn place(&self, name: &str) -> String {
        self.keep.place(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn documents_have_a_limit_and_damage_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let documents = KeptDocuments::new(Arc::new(DocumentFolder::new(directory.path())));
        assert_eq!(documents.read::<Vec<u8>>("a").unwrap(), None);
        assert!(documents.write("a", &[1, 2], 5).unwrap());
        assert!(!documents.write("a", &[1, 2, 3], 5).unwrap());
        assert_eq!(documents.read::<Vec<u8>>("a").unwrap(), Some(vec![1, 2]));
        assert_eq!(documents.list(9).unwrap()[0].1.as_deref().unwrap(), b"[1,2]");
        std::fs::write(directory.path().join("a"), "[").unwrap();
        let error = documents.read::<Vec<u8>>("a").unwrap_err();
        assert!(matches!(DocumentError::from(error), DocumentError::Kept(_)));
        documents.remove("a").unwrap();
        assert_eq!(documents.read::<Vec<u8>>("a").unwrap(), None);
    }
}
