//! Short links: ids for long addresses of the page.
//!
//! The id is a hash of the address, so the same address has the same link on every machine, and
//! nobody can guess the links of others. Links are kept in documents of [`LINKS_EACH_MAX`], one for
//! each first character of the id; in a document that is full, the oldest link gives way.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::data_dir::Documents;
use crate::saved_views::documents::{DocumentError, KeptDocuments};

/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 16 << 10;
/// Links of a document; there are 64 documents.
///
/// limits.md, Queries: short links | {} for each of 64 first characters of their ids | the oldest
/// gives way
pub const LINKS_EACH_MAX: usize = 300;
/// Bytes of the hash in an id, which has 12 characters.
const HASH_BYTES: usize = 9;

/// The same of a tenant, whose readers make them.
///
/// limits.md, Queries: short links of a tenant | {} for each of 64 first characters of their ids |
/// the oldest gives way
pub const LINKS_OF_TENANT_EACH_MAX: usize = 20;

/// The links.
pub struct Links {
    kept: KeptDocuments,
    each_max: usize,
}

/// A link as it is kept.
#[derive(Serialize, Deserialize)]
struct Link {
    id: String,
    address: String,
}

impl Links {
    /// The links among the documents of `keep`, each of which has at most `each_max`.
    pub fn new(keep: Arc<dyn Documents>, each_max: usize) -> Links {
        Links { kept: KeptDocuments::new(keep), each_max }
    }

    /// The id for an address of the page: `?` and parameters.
    pub fn save(&self, address: &str) -> Result<String, DocumentError> {
        let invalid = |what: &str| DocumentError::Invalid(what.to_owned());
        if !address.starts_with('?') || address.chars().any(char::is_control) {
            return Err(invalid("a link is to an address of the page, such as ?range=1h"));
        }
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(invalid("an address of the page has at most 16 KiB"));
        }
        let hash = digest(&SHA256, address.as_bytes());
        let id = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..HASH_BYTES]);
        let _guard = self.kept.changing();
        let mut links = self.document(&id)?;
        if !links.iter().any(|link| link.id == id) {
            links.push(Link { id: id.clone(), address: address.to_owned() });
            let surplus = links.len().saturating_sub(self.each_max);
            links.drain(..surplus);
            self.kept.write(&file_name(&id), &links, usize::MAX)?;
        }
        Ok(id)
    }

    /// The address of a link.
    pub fn get(&self, id: &str) -> Result<String, DocumentError> {
        let none = || {
            let what = format!("there is no link '{id}'; it may have been replaced by newer ones");
            DocumentError::NotFound(what)
        };
        // Other ids would be names of files elsewhere.
        let is_hash = URL_SAFE_NO_PAD.decode(id).is_ok_and(|hash| hash.len() == HASH_BYTES);
        let links = if is_hash { self.document(id)? } else { return Err(none()) };
        let found = links.into_iter().find(|link| link.id == id);
        found.map(|link| link.address).ok_or_else(none)
    }

    fn document(&self, id: &str) -> Result<Vec<Link>, DocumentError> {
        Ok(self.kept.read(&file_name(id))?.unwrap_or_default())
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
        let links = || Links::new(Arc::new(DocumentFolder::new(directory.path())), LINKS_EACH_MAX);
        let id = links().save("?query=error&range=1h").unwrap();
        assert_eq!((id.len(), links().save("?query=error&range=1h").unwrap()), (12, id.clone()));
        assert_eq!(links().get(&id).unwrap(), "?query=error&range=1h");
        assert_ne!(links().save("?query=other").unwrap(), id);
        for id in ["", "..", "../../x", "AAAA", "AAAAAAAAAAAA", "ääääää", &"A".repeat(1000)] {
            assert!(matches!(links().get(id), Err(DocumentError::NotFound(_))), "{id}");
        }
        for address in ["", "//evil.example", "https://evil.example", "javascript:1", "?a\nb", "/x"]
        {
            assert!(matches!(links().save(address), Err(DocumentError::Invalid(_))), "{address}");
        }
        let long = format!("?{}", "x".repeat(ADDRESS_BYTES_MAX));
        assert!(matches!(links().save(&long), Err(DocumentError::Invalid(_))));
    }

    #[test]
    fn the_oldest_links_give_way() {
        let directory = tempfile::tempdir().unwrap();
        let links = Links::new(Arc::new(DocumentFolder::new(directory.path())), LINKS_EACH_MAX);
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
        assert!(matches!(links.get(&first), Err(DocumentError::NotFound(_))));
        assert_eq!(links.document(&first).unwrap().len(), LINKS_EACH_MAX);
    }
}
