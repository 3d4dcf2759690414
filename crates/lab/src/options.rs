//! Options of drivers and servers: unknown ones are refused with a list of the known ones, so that
//! a typing error never measures a default unnoticed.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Names and values of options.
pub type OptionPairs = &'static [(&'static str, &'static str)];

/// An option that a driver or a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// Its description, in a few words.
    pub help: &'static str,
}

/// An option.
pub const fn known(name: &'static str, default: &'static str, help: &'static str) -> Known {
    Known { name, default, help }
}

/// The option of a server whose nodes have a port each, from this one on.
pub const fn port(first: &'static str) -> Known {
    known("port", first, "port of the first node; further nodes use the ports after it")
}

/// An option that does not exist, or does not accept the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{owner}: option `{option}`: {reason}")]
pub struct OptionError {
    /// The driver or server.
    pub owner: String,
    /// The option.
    pub option: String,
    /// The accepted values, or the existing options.
    pub reason: String,
}

/// Options with their defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    owner: String,
    values: BTreeMap<&'static str, String>,
}

impl Options {
    /// Merges `given` over the defaults of `known`.
    pub fn read(
        owner: &str,
        known: &'static [Known],
        given: &BTreeMap<String, String>,
    ) -> Result<Options, OptionError> {
        if let Some(option) = given.keys().find(|name| known.iter().all(|k| k.name != **name)) {
            let names: Vec<&str> = known.iter().map(|k| k.name).collect();
            let reason = match names.is_empty() {
                true => "it takes no options".to_owned(),
                false => format!("there is none of this name; there are: {}", names.join(", ")),
            };
            return Err(OptionError { owner: owner.to_owned(), option: option.clone(), reason });
        }
        let value = |k: &Known| given.get(k.name).cloned().unwrap_or_else(|| k.default.to_owned());
        let values = known.iter().map(|k| (k.name, value(k))).collect();
        Ok(Options { owner: owner.to_owned(), values })
    }

    /// The value of an option.
    ///
    /// # Panics
    /// If `name` is not a known option.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).unwrap_or_else(|| panic!("option `{name}` is not declared"))
    }

    /// Its value, which must be one of `choices`.
    pub fn choice<'a>(&self, name: &str, choices: &[&'a str]) -> Result<&'a str, OptionError> {
        let value = self.text(name);
        let found = choices.iter().copied().find(|choice| *choice == value);
        found.ok_or_else(|| self.wrong(name, format!("it takes one of: {}", choices.join(", "))))
    }

    /// Its value as a number from `least` to `most`.
    pub fn number<T>(&self, name: &str, least: T, most: T) -> Result<T, OptionError>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let number = self.text(name).parse().ok().filter(|n| *n >= least && *n <= most);
        number.ok_or_else(|| self.wrong(name, format!("it takes a number from {least} to {most}")))
    }

    /// The error for an invalid value of `name`.
    pub fn wrong(&self, name: &str, reason: impl Into<String>) -> OptionError {
        let reason = format!("`{}`: {}", self.text(name), reason.into());
        OptionError { owner: self.owner.clone(), option: name.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[
        Known { name: "port", default: "1000", help: "the first port" },
        Known { name: "sync", default: "on", help: "whether it waits for the disk" },
    ];

    fn read(given: &[(&str, &str)]) -> Result<Options, OptionError> {
        let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Options::read("store", KNOWN, &given)
    }

    #[test]
    fn defaults_are_filled_in_and_values_checked() {
        let options = read(&[("sync", "off")]).unwrap();
        assert_eq!(options.number("port", 1, u16::MAX), Ok(1000));
        assert_eq!(options.choice("sync", &["on", "off"]), Ok("off"));
        assert_eq!(options.number("port", 1, 1000u16), Ok(1000));
        assert_eq!(
            options.number("port", 1, 999u16).unwrap_err().to_string(),
            "store: option `port`: `1000`: it takes a number from 1 to 999"
        );
        assert_eq!(
            options.choice("sync", &["yes", "no"]).unwrap_err().to_string(),
            "store: option `sync`: `off`: it takes one of: yes, no"
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(
            read(&[("porte", "1")]).unwrap_err().to_string(),
            "store: option `porte`: there is none of this name; there are: port, sync"
        );
    }
}
