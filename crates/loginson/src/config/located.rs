//! A configuration file, and where in it a wrong value stands.
//!
//! What cannot be parsed has a line of its own. A value that is refused later, such as an unknown
//! unit, is refused by the name of its key, as every check does: `query.run_max: '7' is no …`. The
//! line is found by that name, and among several tables of one name by the value that the message
//! repeats. Where that does not tell, the message names the file alone.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::de::{DeTable, DeValue};

use crate::config::{Config, RawConfig};

/// A configuration file that was read.
pub struct ConfigFile {
    path: PathBuf,
    text: String,
    raw: RawConfig,
}

impl ConfigFile {
    /// Reads a file. The error names file, line, key and, for an unknown key, the nearest known
    /// one.
    pub fn read(path: &Path) -> Result<ConfigFile> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        let raw = RawConfig::parse(&text)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        Ok(ConfigFile { path: path.to_owned(), text, raw })
    }

    /// What is written in it.
    pub fn raw(&self) -> &RawConfig {
        &self.raw
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds file and line to the error of a check, if a value of the file is the reason and not one
    /// of a flag or a variable.
    pub fn locate(&self, error: anyhow::Error) -> anyhow::Error {
        let said = format!("{error:#}");
        let own = Config::try_from(self.raw.clone()).err().map(|own| format!("{own:#}"));
        if own.as_ref() != Some(&said) {
            return error;
        }
        let path = self.path.display();
        match line(&self.text, &said) {
            None => error,
            Some(None) => error.context(format!("{path}")),
            Some(Some(line)) => error.context(format!("{path}: line {line}")),
        }
    }
}

/// The line of the key that a message begins with. The outer `None`: the text does not have it; the
/// inner one: it has several, and the message does not tell them apart.
fn line(text: &str, message: &str) -> Option<Option<usize>> {
    let table = DeTable::parse(text).ok()?;
    let at = offset(table.get_ref(), message)?;
    Some(at.map(|at| 1 + text[..at.min(text.len())].matches('\n').count()))
}

/// The same as the offset of the key, or of the element of an array, in the text of the table.
pub(super) fn offset(table: &DeTable<'_>, message: &str) -> Option<Option<usize>> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let key = message.split(|c: char| !is_key(c)).next()?.trim_end_matches('.');
    let mut names = key.split('.');
    let first = names.next()?;
    let (found, value) = table.get_key_value(first)?;
    let names: Vec<&str> = names.collect();
    Some(place(found.span().start, value.get_ref(), &names, message))
}

/// Where the value is that the names lead to, beginning with the value of the key at `at`; as deep
/// as there is one.
fn place(at: usize, value: &DeValue<'_>, names: &[&str], message: &str) -> Option<usize> {
    match value {
        DeValue::Table(table) => {
            let found = names.first().and_then(|name| table.get_key_value(*name));
            found.map_or(Some(at), |(key, value)| {
                place(key.span().start, value.get_ref(), &names[1..], message)
            })
        }
        DeValue::Array(array) => {
            let tables: Vec<(usize, &DeTable<'_>)> = array
                .iter()
                .filter_map(|value| Some((value.span().start, value.get_ref().as_table()?)))
                .collect();
            if tables.is_empty() {
                return Some(at);
            }
            // Messages name an element by its name where it has one.
            let name =
                |table: &DeTable<'_>| Some(table.get("name")?.get_ref().as_str()?.to_owned());
            if let Some((wanted, rest)) = names.split_first()
                && let Some((at, table)) =
                    tables.iter().find(|(_, table)| name(table).as_deref() == Some(*wanted))
            {
                return below(*at, table, rest, message);
            }
            let is_said = |table: &DeTable<'_>| {
                name(table).is_some_and(|name| {
                    message.contains(&format!(": {name}:"))
                        || message.contains(&format!("'{name}'"))
                }) || has_said_value(table, names, message)
            };
            // Of two with the same name, the second one is too many.
            let said = tables.iter().rev().find(|(_, table)| is_said(table));
            let only = tables.first().filter(|_| tables.len() == 1);
            let (at, table) = said.or(only)?;
            below(*at, table, names, message)
        }
        _ => Some(at),
    }
}

/// The same within one table of several; without a name, the value that the message repeats.
fn below(at: usize, table: &DeTable<'_>, names: &[&str], message: &str) -> Option<usize> {
    if let Some((key, value)) = names.first().and_then(|name| table.get_key_value(*name)) {
        return place(key.span().start, value.get_ref(), &names[1..], message);
    }
    let mut keys: Vec<_> = table.iter().collect();
    // The longest key first: a message about `sha256_file` contains `sha256` as well.
    keys.sort_by_key(|(key, _)| std::cmp::Reverse(key.get_ref().len()));
    let said = keys.iter().find(|(key, value)| {
        key.get_ref() != "name"
            && (is_said(value.get_ref(), message) || message.contains(&**key.get_ref()))
    });
    Some(said.map_or(at, |(key, _)| key.span().start))
}

/// Whether the message repeats the value that the names lead to; without names, any value.
fn has_said_value(table: &DeTable<'_>, names: &[&str], message: &str) -> bool {
    match names.split_first() {
        None => table.iter().any(|(_, value)| is_said(value.get_ref(), message)),
        Some((name, rest)) => table.get(*name).is_some_and(|value| match value.get_ref() {
            DeValue::Table(table) if !rest.is_empty() => has_said_value(table, rest, message),
            value => is_said(value, message),
        }),
    }
}

fn is_said(value: &DeValue<'_>, message: &str) -> bool {
    match value {
        DeValue::String(text) => message.contains(&format!("'{text}'")),
        DeValue::Array(array) => array.iter().any(|value| is_said(value.get_ref(), message)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a file, with `FILE` in place of its path.
    fn error(text: &str, apply: impl FnOnce(&mut RawConfig)) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loginson.toml");
        std::fs::write(&path, text).unwrap();
        let file = ConfigFile::read(&path).unwrap();
        let mut raw = file.raw().clone();
        apply(&mut raw);
        let error = file.locate(Config::try_from(raw).unwrap_err());
        format!("{error:#}").replace(path.to_str().unwrap(), "FILE")
    }

    #[test]
    fn wrong_values_name_file_and_line() {
        let sha256 = "0f".repeat(32);
        let tokens = |role: &str| {
            format!(
                "[[tokens]]\nname = 'a'\nsha256 = '{sha256}'\nrole = 'read'\n\
                 [[tokens]]\nname = 'b'\nsha256 = '{sha256}'\nrole = '{role}'\n"
            )
        };
        for (text, expected) in [
            ("\n[query]\nrun_max = '7'\n", "FILE: line 3: query.run_max: '7' is not a duration"),
            ("query.concurrent_max = 0", "FILE: line 1: query.concurrent_max must be"),
            ("query = {\n  pages_max = 0 }", "FILE: line 2: query.pages_max must be"),
            (
                "retention.age = '1d'\n[[retention.rules]]\nfilter = 'a'\nage = '1d'\n\
                 [[retention.rules]]\nfilter = 'b'\nage = 'soon'\n",
                "FILE: line 7: retention.rules.age: 'soon'",
            ),
            (
                "[[retention.rules]]\nfilter = 'a'\nage = '1d'\n\
                 [[retention.rules]]\nfilter = '('\nage = '1d'\n",
                "FILE: line 5: retention.rules: the filter '('",
            ),
            (
                "[[files]]\npaths = ['/a']\n[[files]]\npaths = ['/b',\n'/[']\n",
                "FILE: line 4: files.paths: '/['",
            ),
            (
                "[[files]]\npaths = ['/a']\nrecord_lines_max = 0",
                "FILE: line 3: files.record_lines_",
            ),
            // Which one is meant, the message does not say.
            ("[[files]]\npaths = []\n[[files]]\npaths = []\n", "FILE: files.paths is empty"),
            ("[tls]\n[stores]\naddresses = ['a:1']\ncopies = [['b:1']]", "FILE: line 2: stores: "),
            (&tokens("root"), "FILE: line 8: tokens: b: the role 'root'"),
            (&tokens("read").replace("'b'", "'a'"), "FILE: line 5: tokens: the name 'a'"),
            (
                &tokens("read").replacen(&sha256, "x", 1),
                "FILE: line 3: tokens: a: sha256 must be a hash",
            ),
        ] {
            let said = error(text, |_| {});
            assert!(said.starts_with(expected), "{text}\n{said}");
        }
    }

    #[test]
    fn values_of_flags_have_no_line() {
        let said = error("http_listen = '127.0.0.1:1'", |raw| raw.http_listen = "off".into());
        assert!(said.starts_with("http_listen cannot be off"), "{said}");
    }
}
