//! Dashboards that people make on the page: documents of JSON, each with a version.
//!
//! The server knows title and version alone; what panels mean is the page's. A change names the
//! version that it began with, so that two people do not overwrite each other's work unseen.
//!
//! Others are provided as files of a folder, by whoever manages the machine. They are read whenever
//! they are wanted, and are changed there alone.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Map, Value};

use crate::data_dir::{DocumentFolder, Documents, ListedDocument};
use crate::saved_views::documents::{DocumentError, KeptDocuments};

/// Dashboards that are kept.
pub const DASHBOARDS_MAX: usize = 1_000;
/// Bytes of a document, and characters of its title.
pub const BYTES_MAX: usize = 1 << 20;
const TITLE_CHARS_MAX: usize = 200;
const ID_BYTES_MAX: usize = 100;
/// The member that marks the dashboard of a file.
const PROVIDED: &str = "provided";

/// The dashboards.
pub struct Dashboards {
    pub(super) kept: KeptDocuments,
    /// Those of the configured folder.
    provided: Option<DocumentFolder>,
    /// Counts changes of schedules ([`super::mails`]).
    pub(super) mails_changes: AtomicU64,
}

impl Dashboards {
    /// The dashboards among the documents of `keep`, and those of the folder `provided`.
    pub fn new(keep: Arc<dyn Documents>, provided: Option<&Path>) -> Dashboards {
        Dashboards {
            kept: KeptDocuments::new(keep),
            provided: provided.map(DocumentFolder::provided),
            mails_changes: AtomicU64::new(0),
        }
    }

    /// All dashboards, by id; those of files first. Documents that are damaged are left out, and
    /// logged.
    pub fn list(&self) -> Result<Vec<Map<String, Value>>, DocumentError> {
        let mut found = Vec::new();
        let provided = self.provided.as_ref().map_or_else(|| Ok(Vec::new()), |f| f.list(BYTES_MAX));
        for (name, body) in provided? {
            let Some(id) = name.strip_suffix(".json") else { continue };
            match body.and_then(|body| parse_provided(id, &body)) {
                Ok(document) => found.push(document),
                Err(error) => tracing::warn!("{}: {error}", self.place_provided(&name)),
            }
        }
        let provided = found.len();
        for (name, body) in self.kept.list(BYTES_MAX)? {
            let Some(id) = name.strip_suffix(".json") else { continue };
            match body.and_then(|body| parse(&body)) {
                Ok(document) if text(&document, "id") == Some(id) => {
                    let is_hidden = |other: &Map<String, Value>| text(other, "id") == Some(id);
                    if !found[..provided].iter().any(is_hidden) {
                        found.push(document);
                    }
                }
                Ok(_) => tracing::warn!("{} has another id", self.kept.place(&name)),
                Err(error) => tracing::warn!("{}: {error}", self.kept.place(&name)),
            }
        }
        Ok(found)
    }

    /// One dashboard. That of a file hides one of the same id.
    pub fn get(&self, id: &str) -> Result<Map<String, Value>, DocumentError> {
        let none = || DocumentError::NotFound(format!("there is no dashboard '{id}'"));
        let name = file_name(id).map_err(|_| none())?;
        if let Some(folder) = &self.provided
            && let Some(body) = folder.read(&name)?
        {
            return Ok(parse_provided(id, &body)?);
        }
        self.kept.read(&name)?.ok_or_else(none)
    }

    fn place_provided(&self, name: &str) -> String {
        self.provided.as_ref().map(|folder| folder.place(name)).unwrap_or_default()
    }

    /// Refuses to change the dashboard of a file.
    fn check_own(&self, name: &str) -> Result<(), DocumentError> {
        match &self.provided {
            Some(folder) if folder.read(name)?.is_some() => {
                Err(DocumentError::Provided(folder.place(name)))
            }
            _ => Ok(()),
        }
    }

    /// Saves a dashboard that was made from version `version` of it, 0 for a new one. Returns it
    /// with its next version.
    pub fn save(&self, id: &str, body: &str) -> Result<Map<String, Value>, DocumentError> {
        let wrong = |why: &str| DocumentError::Invalid(why.to_owned());
        let name = file_name(id)?;
        let sent: Value = serde_json::from_str(body)
            .map_err(|error| DocumentError::Invalid(error.to_string()))?;
        let Value::Object(mut document) = sent else {
            return Err(wrong("a dashboard is an object of JSON"));
        };
        let is_title =
            |title: &str| !title.trim().is_empty() && title.chars().count() <= TITLE_CHARS_MAX;
        if !text(&document, "title").is_some_and(is_title) {
            return Err(wrong("\"title\" must be a text of 1 to 200 characters"));
        }
        if !document.get("panels").is_some_and(Value::is_array) {
            return Err(wrong("\"panels\" must be a list"));
        }
        let Some(sent) = document.get("version").and_then(Value::as_u64) else {
            return Err(wrong(
                "\"version\" must be the version that was read, 0 for a new dashboard",
            ));
        };
        let _guard = self.kept.changing();
        self.check_own(&name)?;
        let found = match self.get(id) {
            Ok(before) => version(&before),
            Err(DocumentError::NotFound(_)) => 0,
            Err(error) => return Err(error),
        };
        if found != sent {
            return Err(DocumentError::Changed { found, sent });
        }
        let is_dashboard = |(name, _): &ListedDocument| name.ends_with(".json");
        if found == 0
            && self.kept.list(0)?.iter().filter(|one| is_dashboard(one)).count() >= DASHBOARDS_MAX
        {
            return Err(DocumentError::Full(DASHBOARDS_MAX));
        }
        document.insert("id".to_owned(), id.into());
        document.remove(PROVIDED);
        // Schedules are kept beside it.
        document.remove("mails");
        document.insert("version".to_owned(), (found + 1).into());
        match self.kept.write(&name, &document, BYTES_MAX)? {
            true => Ok(document),
            false => Err(wrong("a dashboard has at most 1 MiB; take some panels out")),
        }
    }

    /// Deletes a dashboard.
    pub fn delete(&self, id: &str) -> Result<(), DocumentError> {
        let _guard = self.kept.changing();
        self.get(id)?;
        let name = file_name(id)?;
        self.check_own(&name)?;
        self.kept.remove(&name)?;
        self.remove_mails(id)
    }
}

/// The name of a document. Ids of others would be names of files elsewhere.
pub(super) fn file_name(id: &str) -> Result<String, DocumentError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    match id.is_empty() || id.len() > ID_BYTES_MAX || !id.chars().all(is_allowed) {
        true => Err(DocumentError::Invalid(format!(
            "the id of a dashboard has 1 to {ID_BYTES_MAX} characters of a-z, 0-9, - and _"
        ))),
        false => Ok(format!("{id}.json")),
    }
}

fn parse(body: &[u8]) -> io::Result<Map<String, Value>> {
    match serde_json::from_slice(body)? {
        Value::Object(document) => Ok(document),
        _ => Err(io::Error::other("it is damaged: no object of JSON")),
    }
}

/// The dashboard of a file: an exported one, whose name is its id.
fn parse_provided(id: &str, body: &[u8]) -> io::Result<Map<String, Value>> {
    let mut document = parse(body)?;
    if text(&document, "title").is_none() || !document.get("panels").is_some_and(Value::is_array) {
        return Err(io::Error::other("no dashboard: \"title\" or \"panels\" is missing"));
    }
    file_name(id).map_err(io::Error::other)?;
    document.insert("id".to_owned(), id.into());
    document.insert("version".to_owned(), 0.into());
    document.insert(PROVIDED.to_owned(), true.into());
    Ok(document)
}

fn text<'d>(document: &'d Map<String, Value>, name: &str) -> Option<&'d str> {
    document.get(name).and_then(Value::as_str)
}

fn version(document: &Map<String, Value>) -> u64 {
    document.get("version").and_then(Value::as_u64).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn a_dashboard_is_saved_if_nobody_changed_it_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let dashboards = || Dashboards::new(Arc::new(DocumentFolder::new(directory.path())), None);
        let text = |version: u64, title: &str| {
            json!({"id": "other", "title": title, "version": version, "panels": [{"n": 1}]})
                .to_string()
        };
        let saved = dashboards().save("web", &text(0, "Web")).unwrap();
        assert_eq!((saved["id"].as_str(), saved["version"].as_u64()), (Some("web"), Some(1)));
        assert_eq!(dashboards().get("web").unwrap(), saved);
        let error = dashboards().save("web", &text(0, "Mine")).unwrap_err();
        assert!(matches!(error, DocumentError::Changed { found: 1, sent: 0 }), "{error}");
        dashboards().save("web", &text(1, "Web servers")).unwrap();
        dashboards().save("a", &text(0, "A")).unwrap();
        std::fs::write(directory.path().join("damaged.json"), "{").unwrap();
        let titles = || -> Vec<String> {
            let list = dashboards().list().unwrap().into_iter();
            list.map(|document| document["title"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(titles(), ["A", "Web servers"]);
        dashboards().delete("a").unwrap();
        assert!(matches!(dashboards().delete("a"), Err(DocumentError::NotFound(_))));
        assert_eq!(titles(), ["Web servers"]);
    }

    #[test]
    fn dashboards_of_files_are_shown_and_not_changed() {
        let (own, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let keep = Arc::new(DocumentFolder::new(own.path()));
        let dashboards = Dashboards::new(keep.clone(), Some(files.path()));
        let body = |title: &str| json!({"title": title, "version": 0, "panels": []}).to_string();
        dashboards.save("web", &body("Mine")).unwrap();
        std::fs::write(files.path().join("web.json"), body("Ours")).unwrap();
        std::fs::write(files.path().join("Bad Name.json"), body("x")).unwrap();
        std::fs::write(files.path().join("empty.json"), "{}").unwrap();
        std::fs::write(files.path().join("notes.txt"), "x").unwrap();
        let found = dashboards.get("web").unwrap();
        assert_eq!((&found["title"], &found["provided"]), (&json!("Ours"), &json!(true)));
        assert_eq!(dashboards.list().unwrap(), [found]);
        let error = dashboards.save("web", &body("Mine again")).unwrap_err();
        assert!(error.to_string().contains("web.json"), "{error}");
        assert!(matches!(dashboards.delete("web"), Err(DocumentError::Provided(_))));
        // Without the file, the hidden one is there again.
        std::fs::remove_file(files.path().join("web.json")).unwrap();
        assert_eq!(dashboards.get("web").unwrap()["title"], "Mine");
        let absent = own.path().join("absent");
        assert_eq!(Dashboards::new(keep, Some(&absent)).list().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_dashboard_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dashboards =
            Dashboards::new(Arc::new(DocumentFolder::new(&directory.path().join("below"))), None);
        let good = r#"{"title":"A","version":0,"panels":[]}"#;
        for id in ["", "..", "../a", "a/b", "A", "a.json", "ä", &"a".repeat(101)] {
            assert!(matches!(dashboards.save(id, good), Err(DocumentError::Invalid(_))), "{id}");
            assert!(matches!(dashboards.get(id), Err(DocumentError::NotFound(_))), "{id}");
        }
        for body in [
            "",
            "[]",
            r#"{"version":0,"panels":[]}"#,
            r#"{"title":" ","version":0,"panels":[]}"#,
            r#"{"title":"A","panels":[]}"#,
            r#"{"title":"A","version":-1,"panels":[]}"#,
            r#"{"title":"A","version":0,"panels":{}}"#,
        ] {
            assert!(matches!(dashboards.save("a", body), Err(DocumentError::Invalid(_))), "{body}");
        }
        assert!(!directory.path().join("below").exists());
    }
}
