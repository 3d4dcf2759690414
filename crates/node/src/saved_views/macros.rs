//! Macros of LogsQL as they are written: `[[macros]]` of the configuration, and those that people
//! save over the API, a document each.
//!
//! Queries of this process may call them once they are passed on to [`query::macros`]. A macro of
//! the configuration hides a saved one of the same name. A document that is damaged is left out,
//! and logged.

use std::sync::Arc;

use query::macros::{MACRO_BYTES_MAX, MACROS_MAX, Macro, configured, set_saved};
use serde::{Deserialize, Serialize};

use crate::data_dir::Documents;
use crate::saved_views::documents::{DocumentError, KeptDocuments};

/// Bytes of a document: the text with escapes, and the names around it.
const DOCUMENT_BYTES_MAX: usize = 8 * MACRO_BYTES_MAX;

/// `[[macros]]`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MacroSpec {
    /// Its name; of a saved one, that of its document.
    #[serde(default)]
    pub name: String,
    /// The names of its parameters.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// What it stands for.
    pub text: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Whether callers who see the lines of one tenant alone may call it, too.
    #[serde(default)]
    pub shared: bool,
}

impl MacroSpec {
    /// The macro; the error says what is wrong with it.
    pub fn check(self) -> Result<Macro, String> {
        let made = Macro::new(&self.name, self.parameters, &self.text, &self.description)?;
        Ok(made.shared(self.shared))
    }
}

/// The macros of a configuration; the error names the one that is wrong.
pub fn check_all(specs: &[MacroSpec]) -> Result<Vec<Macro>, String> {
    if specs.len() > MACROS_MAX {
        return Err(format!("there are more than {MACROS_MAX}"));
    }
    let mut macros: Vec<Macro> = Vec::with_capacity(specs.len());
    for spec in specs {
        if macros.iter().any(|other| other.name() == spec.name) {
            return Err(format!("@{} is there twice", spec.name));
        }
        macros.push(spec.clone().check()?);
    }
    Ok(macros)
}

/// The macros that people save.
pub struct SavedMacros {
    kept: KeptDocuments,
}

impl SavedMacros {
    /// The macros among the documents of `keep`, which queries may call from now on.
    pub fn new(keep: Arc<dyn Documents>) -> SavedMacros {
        let macros = SavedMacros { kept: KeptDocuments::new(keep) };
        if let Err(error) = macros.pass_on() {
            tracing::error!("saved macros cannot be read: {error}");
        }
        macros
    }

    /// Saves a macro: a new one, or another text of one.
    pub fn save(&self, name: &str, body: &str) -> Result<(), DocumentError> {
        let sent: MacroSpec = serde_json::from_str(body).map_err(|error| {
            let text =
                format!("the body is an object with parameters, text and description: {error}");
            DocumentError::Invalid(text)
        })?;
        let spec = MacroSpec { name: name.to_owned(), ..sent };
        spec.clone().check().map_err(DocumentError::Invalid)?;
        let file = file_name(name);
        let _guard = self.kept.changing();
        refuse_configured(name)?;
        let kept = self.kept.list(0)?;
        if kept.len() >= MACROS_MAX && !kept.iter().any(|(other, _)| *other == file) {
            return Err(DocumentError::Full(MACROS_MAX));
        }
        if !self.kept.write(&file, &spec, DOCUMENT_BYTES_MAX)? {
            return Err(DocumentError::Invalid("the macro is too long".to_owned()));
        }
        self.pass_on()
    }

    /// Deletes a macro. Queries that call it are refused from now on.
    pub fn delete(&self, name: &str) -> Result<(), DocumentError> {
        let _guard = self.kept.changing();
        refuse_configured(name)?;
        if !query::macros::saved().iter().any(|kept| kept.name() == name) {
            return Err(DocumentError::NotFound(format!("there is no saved macro @{name}")));
        }
        self.kept.remove(&file_name(name))?;
        self.pass_on()
    }

    /// From now on, queries may call the macros that are kept.
    fn pass_on(&self) -> Result<(), DocumentError> {
        let mut macros = Vec::new();
        for (name, body) in self.kept.list(DOCUMENT_BYTES_MAX)? {
            let Some(name) = name.strip_suffix(".json") else { continue };
            let read = body.map_err(|error| error.to_string()).and_then(|body| {
                serde_json::from_slice::<MacroSpec>(&body).map_err(|error| error.to_string())
            });
            match read.and_then(|spec| MacroSpec { name: name.to_owned(), ..spec }.check()) {
                Ok(read) => macros.push(read),
                Err(error) => {
                    tracing::warn!("{}: {error}", self.kept.place(&file_name(name)));
                }
            }
        }
        macros.truncate(MACROS_MAX);
        set_saved(macros);
        Ok(())
    }
}

/// The name of a document. Names of macros have letters, digits and `_` alone.
fn file_name(name: &str) -> String {
    format!("{name}.json")
}

fn refuse_configured(name: &str) -> Result<(), DocumentError> {
    match configured().iter().any(|known| known.name() == name) {
        true => Err(DocumentError::Provided(format!("of the configuration, [[macros]] {name}"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use query::Query;

    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn saved_macros_can_be_called_until_they_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("damaged.json"), "{").unwrap();
        let open = || SavedMacros::new(Arc::new(DocumentFolder::new(directory.path())));
        let written = |text: &str| Query::parse(text, 0).map(|query| query.to_string());
        let macros = open();
        let body = r#"{"parameters":["app"],"text":"app:=$app level:error"}"#;
        macros.save("errors_of", body).unwrap();
        let expected = written("app:=shop level:error").unwrap();
        assert_eq!(written("@errors_of(shop)").unwrap(), expected);
        for (name, wrong) in [
            ("a/b", body),
            ("", body),
            ("m", "{}"),
            ("m", "text"),
            ("m", r#"{"text":"a)"}"#),
            ("m", r#"{"text":"a","else":1}"#),
        ] {
            let refused = macros.save(name, wrong);
            assert!(matches!(refused, Err(DocumentError::Invalid(_))), "{name} {wrong}");
        }
        // They are there after a start.
        set_saved(Vec::new());
        let macros = open();
        assert_eq!(written("@errors_of(shop)").unwrap(), expected);
        macros.delete("errors_of").unwrap();
        assert!(written("@errors_of(shop)").is_err());
        assert!(matches!(macros.delete("errors_of"), Err(DocumentError::NotFound(_))));
    }

    #[test]
    fn macros_of_a_configuration_have_names_of_their_own() {
        let spec = |name: &str, text: &str| MacroSpec {
            name: name.to_owned(),
            parameters: Vec::new(),
            text: text.to_owned(),
            description: String::new(),
            shared: false,
        };
        assert_eq!(check_all(&[spec("a", "x"), spec("b", "@a()")]).unwrap().len(), 2);
        assert!(check_all(&[spec("a", "x"), spec("a", "y")]).unwrap_err().contains("twice"));
        assert!(check_all(&[spec("a", "(")]).unwrap_err().contains("@a"));
        let many: Vec<MacroSpec> = (0..=MACROS_MAX).map(|n| spec(&format!("m{n}"), "x")).collect();
        assert!(check_all(&many[1..]).is_ok());
        assert!(check_all(&many).is_err());
    }
}
