//! Tables that people upload: kept in a folder of the data directory, one file each.
//!
//! A file is a line of JSON that says how keys are found, and the content behind it, so that both
//! are replaced at once. A table is read before its file is written: what cannot be read replaces
//! nothing. A file that cannot be read at the start is left out, and logged; it stays where it is.
//!
//! Limits: [`UPLOADS_MAX`] tables of [`UPLOAD_BYTES_MAX`], and [`MEMORY_BYTES_MAX`] together.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::{
    FILE_BYTES_MAX, Loaded, Lookup, LookupSpec, Lookups, Matching, check_name, load, version,
};
use crate::data_dir::{DocumentFolder, Documents};

/// Uploaded tables. More are refused.
///
/// limits.md, Queries: uploaded lookups | {} | the next one is refused
pub const UPLOADS_MAX: usize = 100;
/// The largest uploaded table, in bytes. A larger one is refused; a file of the configuration may
/// be larger.
///
/// limits.md, Queries: an uploaded lookup | {} | it is refused; the version before stays
pub const UPLOAD_BYTES_MAX: usize = 64 << 20;
/// The most memory of all uploaded tables. An upload beyond it is refused.
///
/// limits.md, Queries: memory of all uploaded lookups | {} | the next one is refused
pub const MEMORY_BYTES_MAX: usize = 512 << 20;
/// Longest first line of a file.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Why a table is not uploaded or deleted. The text is for the user.
#[derive(Debug)]
pub enum UploadError {
    /// What was sent is no such table.
    Invalid(String),
    /// The configuration has a table of this name.
    Configured(String),
    /// There is none of this name.
    NotFound(String),
    /// There is no room for it.
    Full(String),
    /// The file cannot be written.
    Kept(std::io::Error),
}

/// How keys are found: the first line of a file.
#[derive(Deserialize, Serialize)]
struct Head {
    keys: Vec<String>,
    #[serde(rename = "match")]
    matching: Matching,
    fields: Vec<String>,
}

#[derive(Default)]
pub(super) struct Uploads {
    tables: RwLock<Vec<Arc<Lookup>>>,
    /// None until [`Lookups::open_uploads`].
    folder: Mutex<Option<DocumentFolder>>,
}

impl Uploads {
    pub fn now(&self) -> Vec<Arc<Lookup>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, tables: Vec<Arc<Lookup>>) {
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables;
    }
}

impl Lookups {
    /// Reads the tables that were uploaded into `folder`. From now on, more can be.
    pub fn open_uploads(&self, folder: &Path) {
        let documents = DocumentFolder::new(folder);
        let mut tables = Vec::new();
        let listed = documents.list(FILE_BYTES_MAX as usize).unwrap_or_else(|error| {
            tracing::error!("uploaded lookups cannot be read: {error}");
            Vec::new()
        });
        for (name, body) in listed {
            if check_name(&name).is_err() || name.ends_with(".new") {
                continue;
            }
            let read = body.map_err(|error| error.to_string());
            match read.and_then(|body| parse(&name, &folder.join(&name), body)) {
                Ok(lookup) => tables.push(Arc::new(lookup)),
                Err(why) => tracing::error!("{}: {why}; upload it again", documents.place(&name)),
            }
        }
        self.uploads.set(tables);
        *self.uploads.folder.lock().unwrap_or_else(PoisonError::into_inner) = Some(documents);
    }

    /// Puts a table in the place of the uploaded one of its name, or beside the others. With an
    /// error, the one before stays in use. `spec.file` is left out of account.
    pub fn upload(&self, spec: LookupSpec, content: Vec<u8>) -> Result<(), UploadError> {
        check_name(&spec.name).map_err(UploadError::Invalid)?;
        if spec.name.ends_with(".new") {
            return Err(UploadError::Invalid("a name cannot end with '.new'".to_owned()));
        }
        if content.len() > UPLOAD_BYTES_MAX {
            return Err(UploadError::Invalid(format!(
                "an uploaded table has at most {} MiB; name a larger file in [[lookups]]",
                UPLOAD_BYTES_MAX >> 20
            )));
        }
        let folder = self.uploads.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(folder) = &*folder else {
            return Err(UploadError::Full("this process keeps no uploaded tables".to_owned()));
        };
        self.refuse_configured(&spec.name)?;
        let head =
            Head { keys: spec.keys.clone(), matching: spec.matching, fields: spec.fields.clone() };
        let mut body =
            serde_json::to_vec(&head).map_err(|error| UploadError::Kept(error.into()))?;
        if body.len() > HEAD_BYTES_MAX {
            return Err(UploadError::Invalid("it has too many keys and fields".to_owned()));
        }
        body.push(b'\n');
        body.extend_from_slice(&content);
        let loaded = load(&spec, content).map_err(|why| {
            UploadError::Invalid(format!("lookup '{}' cannot be used: {why}", spec.name))
        })?;
        let mut tables = self.uploads.now();
        tables.retain(|table| table.spec.name != spec.name);
        if tables.len() >= UPLOADS_MAX {
            return Err(UploadError::Full(format!(
                "there are {UPLOADS_MAX} uploaded tables already; delete one"
            )));
        }
        let others: usize = tables.iter().map(|table| table.now().memory_bytes()).sum();
        if others + loaded.memory_bytes() > MEMORY_BYTES_MAX {
            return Err(UploadError::Full(format!(
                "all uploaded tables together would take more than {} MiB of memory; delete one, or name its file in \
                 [[lookups]]",
                MEMORY_BYTES_MAX >> 20
            )));
        }
        folder.replace(&spec.name, &body).map_err(UploadError::Kept)?;
        tracing::info!("lookup '{}' was uploaded", spec.name);
        let place = folder.place(&spec.name);
        tables.push(Arc::new(Lookup::of(LookupSpec { file: place.into(), ..spec }, loaded)));
        tables.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        self.uploads.set(tables);
        Ok(())
    }

    /// Deletes an uploaded table. Queries that run keep it.
    pub fn delete_upload(&self, name: &str) -> Result<(), UploadError> {
        let folder = self.uploads.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = self.uploads.now();
        let count = tables.len();
        tables.retain(|table| table.spec.name != name);
        let Some(folder) = folder.as_ref().filter(|_| tables.len() < count) else {
            self.refuse_configured(name)?;
            return Err(UploadError::NotFound(format!("there is no uploaded table '{name}'")));
        };
        folder.remove(name).map_err(UploadError::Kept)?;
        self.uploads.set(tables);
        Ok(())
    }

    fn refuse_configured(&self, name: &str) -> Result<(), UploadError> {
        match self.now().iter().any(|table| table.spec.name == name) {
            true => Err(UploadError::Configured(format!(
                "the table '{name}' stands in [[lookups]] of the configuration; replace its file, or use another name"
            ))),
            false => Ok(()),
        }
    }
}

impl Lookup {
    /// A table that was read already.
    fn of(spec: LookupSpec, table: Loaded) -> Lookup {
        let seen = Mutex::new((version(&spec.file), None));
        Lookup { spec, table: RwLock::new(Arc::new(table)), seen }
    }
}

fn parse(name: &str, file: &Path, mut body: Vec<u8>) -> Result<Lookup, String> {
    let head = &body[..body.len().min(HEAD_BYTES_MAX + 1)];
    let end = memchr::memchr(b'\n', head).ok_or("its first line does not end")?;
    let head: Head = serde_json::from_slice(&head[..end]).map_err(|error| error.to_string())?;
    body.drain(..=end);
    let Head { keys, matching, fields } = head;
    let spec = LookupSpec { name: name.to_owned(), file: file.to_owned(), keys, matching, fields };
    let loaded = load(&spec, body)?;
    Ok(Lookup::of(spec, loaded))
}

#[cfg(test)]
mod tests {
    use query::source::Tables;

    use super::*;

    fn spec(name: &str, keys: &[&str], matching: Matching) -> LookupSpec {
        LookupSpec {
            name: name.to_owned(),
            file: Default::default(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            matching,
            fields: Vec::new(),
        }
    }

    fn owner(lookups: &Lookups, name: &str, key: &str) -> Option<String> {
        let mut found = None;
        lookups.table(name)?.find(&[key.as_bytes()], &mut |_, value| {
            found = Some(String::from_utf8_lossy(value).into_owned());
        });
        found
    }

    #[test]
    fn an_uploaded_table_holds_until_another_one_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("lookups");
        let lookups = Lookups::default();
        let hosts = || spec("hosts", &["host"], Matching::Equal);
        let early = lookups.upload(hosts(), b"host,owner\na,ann".to_vec());
        assert!(matches!(early, Err(UploadError::Full(_))));
        lookups.open_uploads(&folder);
        lookups.upload(hosts(), b"host,owner\na,ann".to_vec()).unwrap();
        assert_eq!(owner(&lookups, "hosts", "a").as_deref(), Some("ann"));
        for (broken, content) in [
            (hosts(), &b"host,owner\na"[..]),
            (hosts(), b""),
            (spec("hosts", &["other"], Matching::Equal), b"host,owner\na,bob"),
            (spec("../hosts", &["host"], Matching::Equal), b"host,owner\na,bob"),
            (spec("hosts.new", &["host"], Matching::Equal), b"host,owner\na,bob"),
            (spec("hosts", &[], Matching::Mmdb), b"host,owner\na,bob"),
        ] {
            let refused = lookups.upload(broken.clone(), content.to_vec());
            assert!(matches!(refused, Err(UploadError::Invalid(_))), "{broken:?}");
        }
        assert_eq!(owner(&lookups, "hosts", "a").as_deref(), Some("ann"));
        // Rules at ingest do not know it.
        assert!(lookups.for_rules().table("hosts").is_none());
        // It is there after a start, with its kind, and damage leaves out one table alone.
        let nets = spec("nets", &["net"], Matching::Cidr);
        lookups.upload(nets, b"net,owner\n10.0.0.0/8,net".to_vec()).unwrap();
        std::fs::write(folder.join("damaged"), "{").unwrap();
        let again = Lookups::default();
        again.open_uploads(&folder);
        assert_eq!(again.names(), ["hosts", "nets"]);
        assert_eq!(owner(&again, "nets", "10.1.2.3").as_deref(), Some("net"));
        let states = again.states();
        assert!(states.iter().all(|state| state.is_uploaded && state.rows == Some(1)));
        assert_eq!(states[1].fields, (vec!["net".to_owned()], vec!["owner".to_owned()]));
        again.delete_upload("hosts").unwrap();
        assert!(matches!(again.delete_upload("hosts"), Err(UploadError::NotFound(_))));
        assert_eq!(again.names(), ["nets"]);
    }

    #[test]
    fn a_table_of_the_configuration_hides_an_uploaded_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hosts.csv");
        std::fs::write(&file, "host,owner\na,configured").unwrap();
        let lookups = Lookups::default();
        lookups.open_uploads(&directory.path().join("lookups"));
        let hosts = || spec("hosts", &["host"], Matching::Equal);
        lookups.upload(hosts(), b"host,owner\na,uploaded".to_vec()).unwrap();
        lookups.set(lookups.read(&[LookupSpec { file, ..hosts() }]).unwrap());
        assert_eq!(owner(&lookups, "hosts", "a").as_deref(), Some("configured"));
        let refused = lookups.upload(hosts(), b"host,owner\na,uploaded".to_vec());
        assert!(matches!(refused, Err(UploadError::Configured(_))));
        // The uploaded one can be deleted though.
        lookups.delete_upload("hosts").unwrap();
        assert!(matches!(lookups.delete_upload("hosts"), Err(UploadError::Configured(_))));
        assert_eq!(lookups.names(), ["hosts"]);
    }

    #[test]
    fn uploads_have_limits() {
        let directory = tempfile::tempdir().unwrap();
        let lookups = Lookups::default();
        lookups.open_uploads(directory.path());
        let upload = |number: usize| {
            let hosts = spec(&format!("t{number}"), &["host"], Matching::Equal);
            lookups.upload(hosts, b"host,owner\na,ann".to_vec())
        };
        (0..UPLOADS_MAX).for_each(|number| upload(number).unwrap());
        assert!(matches!(upload(UPLOADS_MAX), Err(UploadError::Full(_))));
        upload(0).unwrap();
        let long = vec![b'a'; UPLOAD_BYTES_MAX + 1];
        let refused = lookups.upload(spec("t0", &[], Matching::Equal), long);
        assert!(matches!(refused, Err(UploadError::Invalid(_))));
    }
}
