//! Programs that come with Loginson: for a start, and as examples to change.

use crate::{Definition, Language, Loaded};

/// A program that comes with Loginson.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them.
pub static BUILTIN: [Builtin; 6] = [
    Builtin { name: "levels", text: include_str!("builtin/levels.logsql") },
    Builtin { name: "hosts", text: include_str!("builtin/hosts.logsql") },
    Builtin { name: "access", text: include_str!("builtin/access.logsql") },
    Builtin { name: "paths", text: include_str!("builtin/paths.logsql") },
    Builtin { name: "logins", text: include_str!("builtin/logins.logsql") },
    Builtin { name: "durations", text: include_str!("builtin/durations.logsql") },
];

impl Builtin {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Builtin> {
        BUILTIN.iter().find(|builtin| builtin.name == name)
    }

    /// It as a program of the configuration.
    pub fn loaded(&self) -> Loaded {
        Loaded {
            name: self.name.to_owned(),
            extension: Language::LogsQl.name(),
            text: self.text.to_owned(),
            definition: Definition::parse_as(self.name, Language::LogsQl, self.text),
        }
    }

    /// Its first comment, in one line.
    pub fn about(&self) -> String {
        let is_text = |line: &&str| {
            line.strip_prefix("# ").is_some_and(|text| !text.starts_with(char::is_lowercase))
        };
        let first = self.text.lines().find(is_text).unwrap_or_default();
        first.trim_start_matches("# ").to_owned()
    }
}
