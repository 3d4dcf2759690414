//! Receivers of alerts that are made over the API: documents with their secrets.
//!
//! A secret goes in and is never given out: neither by the API, nor by a message, a log or the
//! audit log. It stays when the rest of its receiver is changed, unless it would go to another
//! server then ([`NotifierConfig::destination`]).
//!
//! A document that cannot be used is listed with the reason, and tells nobody.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use alerts::{NotifierConfig, NotifierOptions, Reach, Secrets};
use cluster::engines::Secret;
use serde_json::{Value, json};

use super::AlertError;
use crate::data_dir::Documents;
use crate::process::stages::lock;

/// Receivers that are made over the API, each with a thread.
///
/// limits.md, Alerts: receivers that are made over the API; bytes of one | {};
/// {RECEIVER_BYTES_MAX} | a new one is refused
pub const RECEIVERS_MAX: usize = 64;
/// Bytes of a receiver.
const RECEIVER_BYTES_MAX: usize = 64 << 10;
/// The end of the name of a document.
const END: &str = ".json";

/// A receiver, and what is made of it.
#[derive(Clone)]
pub struct KeptReceiver {
    /// As it was given, without the secrets.
    pub config: NotifierConfig,
    secrets: BTreeMap<String, Secret>,
    /// What is started, or why it cannot be used.
    pub options: Result<NotifierOptions, String>,
}

impl KeptReceiver {
    /// The names of its secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }
}

/// The receivers, by name.
pub struct Receivers {
    documents: Arc<dyn Documents>,
    /// None: there are none, and none can be made.
    reach: Option<Reach>,
    external_url: String,
    kept: Mutex<BTreeMap<String, KeptReceiver>>,
}

impl Receivers {
    /// The receivers among `documents`. Those that cannot be used are logged.
    ///
    /// Errors: the documents cannot be listed.
    pub fn open(
        documents: Arc<dyn Documents>,
        reach: Option<Reach>,
        external_url: &str,
        is_taken: impl Fn(&str) -> bool,
    ) -> io::Result<Receivers> {
        let mut receivers = Receivers {
            documents,
            reach,
            external_url: external_url.to_owned(),
            kept: Mutex::default(),
        };
        let mut kept = BTreeMap::new();
        let listed = match reach {
            Some(_) => receivers.documents.list(RECEIVER_BYTES_MAX)?,
            None => Vec::new(),
        };
        for (document, body) in listed {
            let Some(name) = document.strip_suffix(END) else { continue };
            let place = receivers.documents.place(&document);
            let read = body.map_err(|error| error.to_string());
            let receiver = read.and_then(|body| receivers.read(name, &body));
            let mut receiver = receiver.unwrap_or_else(|why| KeptReceiver {
                config: NotifierConfig { name: name.to_owned(), ..NotifierConfig::default() },
                secrets: BTreeMap::new(),
                options: Err(why),
            });
            if is_taken(name) {
                let why = "the configuration file has a notifier of this name; rename one";
                receiver.options = Err(why.to_owned());
            }
            if let Err(why) = &receiver.options {
                tracing::error!("{place}: this receiver of alerts is told nothing: {why}");
            }
            kept.insert(name.to_owned(), receiver);
        }
        *receivers.kept.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner) = kept;
        Ok(receivers)
    }

    /// All receivers, by name.
    pub fn all(&self) -> Vec<KeptReceiver> {
        lock(&self.kept).values().cloned().collect()
    }

    /// One receiver.
    pub fn get(&self, name: &str) -> Option<KeptReceiver> {
        lock(&self.kept).get(name).cloned()
    }

    /// Checks what was sent for the receiver `name`; returns it as it would be kept.
    ///
    /// Errors: it is wrong, or there are too many.
    pub fn checked(&self, name: &str, sent: &str) -> Result<KeptReceiver, AlertError> {
        let reach = self.reach.ok_or(AlertError::NoReceivers)?;
        let invalid = |what: String| AlertError::Invalid(what);
        if sent.len() > RECEIVER_BYTES_MAX {
            return Err(invalid(format!("a receiver has at most {RECEIVER_BYTES_MAX} bytes")));
        }
        let sent: Value = serde_json::from_str(sent)
            .map_err(|error| invalid(format!("this is no JSON: {error}")))?;
        let (config, given) = parts(name, sent).map_err(invalid)?;
        let before = self.get(name);
        let is_full = before.is_none() && lock(&self.kept).len() >= RECEIVERS_MAX;
        if is_full {
            return Err(AlertError::TooManyReceivers);
        }
        let secrets = secrets(&config, given, before.as_ref()).map_err(invalid)?;
        let options = options(&config, &secrets, reach, &self.external_url).map_err(invalid)?;
        Ok(KeptReceiver { config, secrets, options: Ok(options) })
    }

    /// Keeps a receiver, durably.
    pub fn keep(&self, receiver: KeptReceiver) -> io::Result<()> {
        let secrets: BTreeMap<&str, &str> =
            receiver.secrets.iter().map(|(key, secret)| (key.as_str(), secret.expose())).collect();
        let body = json!({ "config": receiver.config, "secrets": secrets });
        let name = receiver.config.name.clone();
        self.documents.replace(&format!("{name}{END}"), body.to_string().as_bytes())?;
        lock(&self.kept).insert(name, receiver);
        Ok(())
    }

    /// Forgets a receiver, durably. False: there is none.
    pub fn remove(&self, name: &str) -> io::Result<bool> {
        if self.get(name).is_none() {
            return Ok(false);
        }
        self.documents.remove(&format!("{name}{END}"))?;
        Ok(lock(&self.kept).remove(name).is_some())
    }

    /// Reads a document.
    fn read(&self, name: &str, body: &[u8]) -> Result<KeptReceiver, String> {
        let damaged =
            |_| "the document is damaged; delete the receiver and make it again".to_owned();
        let mut document: Value = serde_json::from_slice(body).map_err(damaged)?;
        let config = document["config"].take();
        let config: NotifierConfig = serde_json::from_value(config).map_err(damaged)?;
        let secrets = document["secrets"].take();
        let secrets: BTreeMap<String, Secret> = serde_json::from_value(secrets).map_err(damaged)?;
        if config.name != name {
            return Err("the document has another name than its receiver".to_owned());
        }
        let reach = self.reach.unwrap_or(Reach::Outside);
        let options = options(&config, &secrets, reach, &self.external_url);
        Ok(KeptReceiver { config, secrets, options })
    }
}

/// The configuration and the secrets of what was sent.
fn parts(
    name: &str,
    mut sent: Value,
) -> Result<(NotifierConfig, BTreeMap<String, Secret>), String> {
    let Some(members) = sent.as_object_mut() else {
        return Err("a receiver is an object of JSON".to_owned());
    };
    let given = members.remove("secrets").unwrap_or_else(|| json!({}));
    members.insert("name".to_owned(), name.into());
    let given = serde_json::from_value(given)
        .map_err(|_| "`secrets` is an object of texts, by their keys".to_owned())?;
    let config = serde_json::from_value(sent).map_err(|error| error.to_string())?;
    Ok((config, given))
}

/// The secrets of a receiver: those that are given, and those of before.
fn secrets(
    config: &NotifierConfig,
    given: BTreeMap<String, Secret>,
    before: Option<&KeptReceiver>,
) -> Result<BTreeMap<String, Secret>, String> {
    let known = config.secret_names();
    if let Some(key) = given.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!(
            "a receiver of this kind has no secret '{key}'; it has {}",
            known.join(", ")
        ));
    }
    let Some(before) = before else { return Ok(given) };
    let is_other_address =
        given.get("url").is_some_and(|url| before.secrets.get("url") != Some(url));
    let has_moved = is_other_address || config.destination() != before.config.destination();
    let mut secrets = given;
    for (key, secret) in &before.secrets {
        if secrets.contains_key(key) || !known.contains(&key.as_str()) {
            continue;
        }
        if has_moved {
            return Err(format!(
                "the kind, the server or the user is another one than before; give the secrets \
                 again (`{key}`)"
            ));
        }
        secrets.insert(key.clone(), secret.clone());
    }
    // An empty text takes a secret away.
    secrets.retain(|_, secret| !secret.expose().is_empty());
    Ok(secrets)
}

fn options(
    config: &NotifierConfig,
    secrets: &BTreeMap<String, Secret>,
    reach: Reach,
    external_url: &str,
) -> Result<NotifierOptions, String> {
    let checked = config.check_with(external_url, Secrets::Given(secrets), reach);
    let mut checked = checked.map_err(|error| error.to_string())?;
    match checked.len() {
        1 => Ok(checked.remove(0)),
        _ => Err("give one address, and make a receiver for each server".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    fn open(directory: &std::path::Path, reach: Option<Reach>) -> Receivers {
        let documents = Arc::new(DocumentFolder::new(directory));
        Receivers::open(documents, reach, "", |name| name == "taken").unwrap()
    }

    fn save(receivers: &Receivers, name: &str, sent: Value) -> Result<(), String> {
        let checked = receivers.checked(name, &sent.to_string()).map_err(|e| e.to_string())?;
        receivers.keep(checked).map_err(|e| e.to_string())
    }

    #[test]
    fn secrets_stay_with_their_server_and_are_there_after_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let receivers = open(directory.path(), Some(Reach::Outside));
        let matrix = |url: &str, room: &str| json!({ "matrix": { "url": url, "room": room } });
        let mut first = matrix("https://m", "!a:m");
        first["secrets"] = json!({ "token": "hunter22" });
        save(&receivers, "ops", first).unwrap();
        // Another room of the same server: the token stays. Another server: it does not go there.
        save(&receivers, "ops", matrix("https://m", "!b:m")).unwrap();
        let error = save(&receivers, "ops", matrix("https://evil", "!b:m")).unwrap_err();
        assert!(error.contains("give the secrets again (`token`)"), "{error}");
        let error = save(&receivers, "ops", json!({ "slack": {} })).unwrap_err();
        assert!(error.contains("address is missing"), "{error}");
        let receivers = open(directory.path(), Some(Reach::Outside));
        let kept = receivers.get("ops").unwrap();
        assert_eq!(kept.secret_names().collect::<Vec<_>>(), ["token"]);
        assert_eq!(kept.options.unwrap().kind(), "matrix");
        let shown = serde_json::to_string(&kept.config).unwrap();
        assert!(!shown.contains("hunter22") && !format!("{:?}", kept.secrets).contains("hunter22"));
        let mut other = matrix("https://evil", "!b:m");
        other["secrets"] = json!({ "token": "other" });
        save(&receivers, "ops", other).unwrap();
        assert!(receivers.remove("ops").unwrap() && !receivers.remove("ops").unwrap());
        assert!(open(directory.path(), Some(Reach::Outside)).all().is_empty());
    }

    #[test]
    fn the_secret_address_of_a_webhook_moves_with_no_other_secret() {
        let directory = tempfile::tempdir().unwrap();
        let receivers = open(directory.path(), Some(Reach::Outside));
        let hook = |secrets: Value| json!({ "webhook": {}, "secrets": secrets });
        save(&receivers, "w", hook(json!({ "url": "https://a/x", "token": "hunter22" }))).unwrap();
        let error = save(&receivers, "w", hook(json!({ "url": "https://evil/" }))).unwrap_err();
        assert!(error.contains("(`token`)"), "{error}");
        save(&receivers, "w", hook(json!({ "url": "https://a/x" }))).unwrap();
        save(&receivers, "w", hook(json!({ "token": "" }))).unwrap();
        assert_eq!(receivers.get("w").unwrap().secret_names().collect::<Vec<_>>(), ["url"]);
    }

    #[test]
    fn wrong_receivers_are_refused_and_damaged_ones_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let receivers = open(directory.path(), Some(Reach::Outside));
        for (name, sent, part) in [
            ("a", json!(1), "an object"),
            ("a", json!({}), "exactly one of"),
            ("A", json!({ "ntfy": { "topic": "x" } }), "no name"),
            (
                "a",
                json!({ "ntfy": { "topic": "x" }, "secrets": { "key": "k" } }),
                "no secret 'key'",
            ),
            ("a", json!({ "ntfy": { "topic": "x" }, "secrets": "hunter22" }), "object of texts"),
            ("a", json!({ "ntfy": { "topic": "x", "token_file": "/etc/passwd" } }), "no file"),
            ("a", json!({ "alertmanager": { "urls": ["http://a", "http://b"] } }), "one address"),
            ("a", json!({ "ntfy": { "topic": "x" }, "text": "y".repeat(70_000) }), "at most"),
        ] {
            let error = save(&receivers, name, sent).unwrap_err();
            assert!(error.contains(part) && !error.contains("hunter22"), "{error}");
        }
        for n in 0..RECEIVERS_MAX {
            save(&receivers, &format!("r{n}"), json!({ "ntfy": { "topic": "x" } })).unwrap();
        }
        let error = save(&receivers, "more", json!({ "ntfy": { "topic": "x" } })).unwrap_err();
        assert!(error.contains("delete"), "{error}");
        std::fs::write(directory.path().join("bad.json"), "{\"config\":").unwrap();
        std::fs::copy(directory.path().join("r1.json"), directory.path().join("r0.json")).unwrap();
        let receivers = open(directory.path(), Some(Reach::Outside));
        for (name, part) in [("bad", "damaged"), ("r0", "another name")] {
            let why = receivers.get(name).unwrap().options.unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert!(receivers.get("r1").unwrap().options.is_ok());
        let off = open(directory.path(), None);
        assert!(off.all().is_empty());
        let error = save(&off, "a", json!({ "ntfy": { "topic": "x" } })).unwrap_err();
        assert!(error.contains("alerts.receivers"), "{error}");
    }
}
