//! How safe a row is once its store has acknowledged it: a property of every store and of every
//! number about writes.
//!
//! Each store of the lab lists the levels that it has, with the options of its driver and of its
//! server that make them. The list is read in both directions: `--durability` finds the options of
//! a level, and a report finds the level of the options that a store was measured with.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::options::{Known, OptionPairs};

/// When an acknowledged row is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before it is acknowledged.
    Each,
    /// Some time later: a crash of the machine loses the last acknowledged rows.
    Interval,
    /// At no defined time: a crash of the machine loses any number of acknowledged rows.
    None,
}

impl Durability {
    /// All levels, the safest first.
    pub const ALL: [Durability; 3] = [Durability::Each, Durability::Interval, Durability::None];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Each => "each",
            Durability::Interval => "interval",
            Durability::None => "none",
        }
    }

    /// The level with this name.
    pub fn named(name: &str) -> Option<Durability> {
        Durability::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A level of one store, and the options that make it.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// The level.
    pub durability: Durability,
    /// The acknowledged writes that a crash of the machine loses, for tables: `nothing`, `10 s`.
    pub loses: &'static str,
    /// Options of the driver.
    pub driver: OptionPairs,
    /// Options of the server.
    pub server: OptionPairs,
}

/// The durability with which a store was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The level.
    pub durability: Durability,
    /// See [`Level::loses`].
    pub loses: String,
}

impl fmt::Display for Promise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.durability {
            Durability::Each => write!(out, "each write"),
            Durability::Interval => write!(out, "interval ({})", self.loses),
            Durability::None => write!(out, "none"),
        }
    }
}

/// The level among `levels` that these options make. `server` is `None` for a server that the lab
/// did not start: then the level is known only if no option of a server decides it.
pub fn promise(
    levels: &[Level],
    driver: (&[Known], &BTreeMap<String, String>),
    server: Option<(&[Known], &BTreeMap<String, String>)>,
) -> Option<Promise> {
    let has = |(known, given): (&[Known], &BTreeMap<String, String>), pairs: OptionPairs| {
        pairs.iter().all(|(name, value)| {
            let default = known.iter().find(|option| option.name == *name);
            given.get(*name).map(String::as_str).or(default.map(|option| option.default))
                == Some(value)
        })
    };
    if server.is_none() && levels.iter().any(|level| !level.server.is_empty()) {
        return None;
    }
    let made = |level: &&Level| {
        has(driver, level.driver) && server.is_none_or(|server| has(server, level.server))
    };
    let level = levels.iter().find(made)?;
    Some(Promise { durability: level.durability, loses: level.loses.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[Known { name: "log", default: "no", help: "" }];
    const LEVELS: &[Level] = &[
        Level {
            durability: Durability::Each,
            loses: "nothing",
            driver: &[],
            server: &[("log", "always")],
        },
        Level {
            durability: Durability::None,
            loses: "everything",
            driver: &[],
            server: &[("log", "no")],
        },
    ];

    #[test]
    fn the_level_follows_from_the_options() {
        let none = BTreeMap::new();
        let set = |value: &str| BTreeMap::from([("log".to_owned(), value.to_owned())]);
        let level = |server: Option<&BTreeMap<String, String>>| {
            let found = promise(LEVELS, (&[], &none), server.map(|given| (KNOWN, given)));
            found.map(|found| found.durability)
        };
        assert_eq!(level(Some(&none)), Some(Durability::None), "by default");
        assert_eq!(level(Some(&set("always"))), Some(Durability::Each));
        assert_eq!(level(Some(&set("sometimes"))), None, "an unknown level has no name");
        assert_eq!(level(None), None, "the server is not ours");
    }

    #[test]
    fn levels_have_names() {
        for level in Durability::ALL {
            assert_eq!(Durability::named(level.name()), Some(level));
        }
        assert_eq!(Durability::named("all"), None);
    }
}
