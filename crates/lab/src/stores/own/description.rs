//! What a program of the user's own says about its store when it is called with `describe`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::driver::durability::{Durability, Level};
use crate::driver::{Ability, Scans, TIMEOUT};
use crate::options::{Known, OptionPairs};

/// The description, as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The operations that it has.
    pub abilities: Vec<Ability>,
    /// What its scans return; without scans it says nothing.
    #[serde(default)]
    pub scans: Scans,
    /// Whether a read sees a row as soon as its insert is acknowledged.
    #[serde(default = "yes")]
    pub reads_own_writes: bool,
    /// Its options.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Its levels of durability, that of the defaults first.
    #[serde(default)]
    pub durability: Vec<Kept>,
}

/// An option.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    name: String,
    default: String,
    help: String,
}

/// A level of durability.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    level: Durability,
    loses: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

impl Description {
    /// Reads and checks it. The error says what is wrong, as a part of a sentence.
    pub fn parse(text: &[u8]) -> Result<Description, String> {
        let description: Description =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if description.abilities.contains(&Ability::Stream) {
            return Err("a program cannot have the ability `stream`".to_owned());
        }
        if !description.abilities.contains(&Ability::InsertMany) {
            return Err("it needs the ability `insert_many`, with which data is loaded".to_owned());
        }
        let named = |name: &str| description.options.iter().any(|option| option.name == name);
        if named(TIMEOUT.name) {
            return Err(format!("every store has the option `{}` already", TIMEOUT.name));
        }
        let levels = description.durability.iter();
        match levels.flat_map(|level| level.options.keys()).find(|name| !named(name)) {
            Some(name) => Err(format!("a durability names the option `{name}`, which is missing")),
            None => Ok(description),
        }
    }

    /// Its options, and the one of every driver, for as long as the process lives.
    pub fn known(&self) -> &'static [Known] {
        let own = self.options.iter().map(|option| Known {
            name: leak(&option.name),
            default: leak(&option.default),
            help: leak(&option.help),
        });
        Vec::leak(std::iter::once(TIMEOUT).chain(own).collect())
    }

    /// Its levels of durability, for as long as the process lives.
    pub fn levels(&self) -> &'static [Level] {
        let pairs = |options: &BTreeMap<String, String>| -> OptionPairs {
            let pairs = options.iter().map(|(name, value)| (leak(name), leak(value)));
            Vec::leak(pairs.collect())
        };
        let level = |kept: &Kept| Level {
            durability: kept.level,
            loses: leak(&kept.loses),
            driver: pairs(&kept.options),
            server: &[],
        };
        Vec::leak(self.durability.iter().map(level).collect())
    }
}

/// A text for as long as the process lives: a process adds few stores, and never removes one.
pub fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_a_store_can_do_and_promises() {
        let text = br#"{"abilities": ["insert", "insert_many", "read"], "scans": "late",
            "options": [{"name": "sync", "default": "on", "help": "when"}],
            "durability": [{"level": "each", "loses": "nothing", "options": {"sync": "on"}}]}"#;
        let description = Description::parse(text).unwrap();
        assert_eq!(description.scans, Scans::Late);
        assert!(description.reads_own_writes);
        let known: Vec<&str> = description.known().iter().map(|known| known.name).collect();
        assert_eq!(known, [TIMEOUT.name, "sync"]);
        let [level] = description.levels() else { panic!("one level") };
        assert_eq!((level.durability, level.driver), (Durability::Each, &[("sync", "on")][..]));
    }

    #[test]
    fn what_is_wrong_with_a_description_is_named() {
        for (text, why) in [
            ("hello", "expected value"),
            ("{}", "missing field `abilities`"),
            (r#"{"abilities": ["fly"]}"#, "unknown variant `fly`"),
            (r#"{"abilities": ["read"]}"#, "insert_many"),
            (r#"{"abilities": ["insert_many", "stream"]}"#, "stream"),
            (r#"{"abilities": ["insert_many"], "scan": "late"}"#, "unknown field `scan`"),
            (
                r#"{"abilities": ["insert_many"],
                    "options": [{"name": "timeout_s", "default": "1", "help": ""}]}"#,
                "timeout_s",
            ),
            (
                r#"{"abilities": ["insert_many"],
                    "durability": [{"level": "none", "loses": "all", "options": {"x": "1"}}]}"#,
                "option `x`",
            ),
        ] {
            let error = Description::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
