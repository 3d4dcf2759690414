//! Short links: ids for long addresses of the page.
//!
//! The id is a hash of the address, so the same address has the same link on every machine, and
//! nobody can guess the links of others. Links are kept in documents of [`LINKS_EACH_MAX`], one for
//! each first character of the id; in a document that is full, the oldest link gives way.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::data_dir::Documents;

/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 16 << 10;
/// Links of a document; there are 64 documents.
///
/// limits.md, Queries: short links | {} for each of 64 first characters of their ids | the oldest
/// gives way
const LINKS_EACH_MAX: usize = 300;
/// Bytes of the hash in an id, which has 12 characters.
const HASH_BYTES: usize = 9;

/// The links.
pub struct Links {
    keep: Arc<dyn Documents>,
    /// Held while a document gets one more link.
    changing: Mutex<()>,
}

/// A link as it is kept.
#[derive(Serialize, Deserialize)]
struct Link {
    id: String,
    address: String,
}

/// Why there is no link. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is none of this id.
    #[error("there is no link '{0}'; it may have been replaced by newer ones")]
    NotFound(String),
    /// What was sent is no address of the page.
    #[error("{0}")]
    Invalid(&'static str),
    /// They cannot be read or written.
    #[error("the links cannot be kept: {0}")]
    Kept(#[from] io::Error),
}

impl Links {
    /// The links among the documents of `keep`.
    pub fn new(keep: Arc<dyn Documents>) -> Links {
        Links { keep, changing: Mutex::default() }
    }

    /// The id for an address of the page: `?` and parameters.
    pub fn save(&self, address: &str) -> Result<String, LinkError> {
        if !address.starts_with('?') || address.chars().any(char::is_control) {
            return Err(LinkError::Invalid(
                "a link is to an address of the page, such as ?range=1h",
            ));
        }
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(LinkError::Invalid("an address of the page has at most 16 KiB"));
        }
        let hash = digest(&SHA256, address.as_bytes());
        let id = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..HASH_BYTES]);
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut links = self.document(&id)?;
        if !links.iter().any(|link| link.id == id) {
            links.push(Link { id: id.clone(), address: address.to_owned() });
            let surplus = links.len().saturating_sub(LINKS_EACH_MAX);
            links.drain(..surplus);
            let body = serde_json::to_vec(&links).expect("plain values are JSON");
            self.keep.replace(&file_name(&id), &body)?;
        }
        Ok(id)
    }

    /// The address of a link.
    pub fn get(&self, id: &str) -> Result<String, LinkError> {
        let none = || LinkError::NotFound(id.to_owned());
        // Other ids would be names of files elsewhere.
        let is_hash = URL_SAFE_NO_PAD.decode(id).is_ok_and(|hash| hash.len() == HASH_BYTES);
        let links = if is_hash { self.document(id)? } else { return Err(none()) };
        let found = links.into_iter().find(|link| link.id == id);
        found.map(|link| link.address).ok_or_else(none)
    }

    fn document(&self, id: &str) -> io::Result<Vec<Link>> {
        match self.keep.read(&file_name(id))? {
            Some(body) => Ok(serde_json::from_slice(&body)?),
            None => Ok(Vec::new()),
        }
    }
}

/// The name of the document of an id, by its first character; as a number, since names of files may
/// not tell small letters from capital ones.
fn file_name(id: &str) -> String {
    format!("{}.json", id.as_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn the_same_address_has_the_same_link() {
        let directory = tempfile::tempdir().unwrap();
        let links = || Links::new(Arc::new(DocumentFolder::new(directory.path())));
        let id = links().save("?query=error&range=1h").unwrap();
        assert_eq!((id.len(), links().save("?query=error&range=1h").unwrap()), (12, id.clone()));
        assert_eq!(links().get(&id).unwrap(), "?query=error&range=1h");
        assert_ne!(links().save("?query=other").unwrap(), id);
        for id in ["", "..", "../../x", "AAAA", "AAAAAAAAAAAA", "ääääää", &"A".repeat(1000)] {
            assert!(matches!(links().get(id), Err(LinkError::NotFound(_))), "{id}");
        }
        for address in ["", "//evil.example", "https://evil.example", "javascript:1", "?a\nb", "/x"]
        {
            assert!(matches!(links().save(address), Err(LinkError::Invalid(_))), "{address}");
        }
        let long = format!("?{}", "x".repeat(ADDRESS_BYTES_MAX));
        assert!(matches!(links().save(&long), Err(LinkError::Invalid(_))));
    }

    #[test]
    fn the_oldest_links_give_way() {
        let directory = tempfile::tempdir().unwrap();
        let links = Links::new(Arc::new(DocumentFolder::new(directory.path())));
        let first = links.save("?n=first").unwrap();
        let ids = (0..).map(|n| {
            let hash = digest(&SHA256, format!("?n={n}").as_bytes());
            (n, URL_SAFE_NO_PAD.encode(&hash.as_ref()[..HASH_BYTES]))
        });
        let same = ids.filter(|(_, id)| id.as_bytes()[0] == first.as_bytes()[0]);
        for (n, id) in same.take(LINKS_EACH_MAX) {
            assert!(links.get(&first).is_ok() || n > 0);
            assert_eq!(links.save(&format!("?n={n}")).unwrap(), id);
        }
        assert!(matches!(links.get(&first), Err(LinkError::NotFound(_))));
        assert_eq!(links.document(&first).unwrap().len(), LINKS_EACH_MAX);
    }
}
