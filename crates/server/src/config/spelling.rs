//! Durations and sizes in the configuration file: text with a unit, and the spellings of earlier
//! versions.
//!
//! Version 0.1 took some durations as numbers of seconds, in keys that ended with the unit. Both
//! spellings are accepted; for an old one, the log says at the start how to write it now.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// A key that an earlier version spelled in another way.
struct Spelling {
    section: &'static str,
    /// The earlier key; the same as `new` if only the value was a number.
    old: &'static str,
    new: &'static str,
    /// The unit of a number without one.
    unit: &'static str,
}

const OLD: [Spelling; 6] = [
    seconds("wait_s_max", "wait_max"),
    seconds("run_s_max", "run_max"),
    seconds("pause_s_max", "pause_max"),
    seconds("background_run_s_max", "background_run_max"),
    seconds("results_keep_s", "results_keep"),
    Spelling { section: "insert", old: "bytes_per_s_min", new: "bytes_per_s_min", unit: "B" },
];

const fn seconds(old: &'static str, new: &'static str) -> Spelling {
    Spelling { section: "query", old, new, unit: "s" }
}

/// One sentence for each key of `file` in the earlier spelling.
pub fn outdated(file: &toml::Table) -> Vec<String> {
    let mut found = Vec::new();
    for Spelling { section, old, new, unit } in OLD {
        let Some(value) = file.get(section).and_then(|section| section.get(old)) else { continue };
        let text = match value {
            toml::Value::Integer(number) => format!("\"{number}{unit}\""),
            _ if old == new => continue,
            other => other.to_string(),
        };
        found.push(format!(
            "the configuration has {section}.{old} = {value}, which is understood; write \
             {section}.{new} = {text}"
        ));
    }
    found
}

/// Reads a duration as text, or a number of seconds.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    from.deserialize_any(TextOrNumber { expected: "a duration as \"30s\"", unit: "s" })
}

/// Reads a size as text, or a number of bytes.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    from.deserialize_any(TextOrNumber { expected: "a size as \"512MiB\"", unit: "B" })
}

struct TextOrNumber {
    expected: &'static str,
    unit: &'static str,
}

impl Visitor<'_> for TextOrNumber {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(format!("{number}{}", self.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_are_named_with_what_to_write() {
        for (text, expected) in [
            ("[query]\nrun_s_max = 60\n", Some("write query.run_max = \"60s\"")),
            ("[query]\nresults_keep_s = 5\n", Some("write query.results_keep = \"5s\"")),
            ("[insert]\nbytes_per_s_min = 16\n", Some("write insert.bytes_per_s_min = \"16B\"")),
            ("[insert]\nbytes_per_s_min = '16B'\n", None),
            ("[query]\nrun_max = '1m'\n", None),
            ("query = 1\n", None),
        ] {
            let found = outdated(&toml::from_str(text).unwrap());
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(
                found.iter().all(|sentence| sentence.ends_with(expected.unwrap_or_default())),
                "{found:?}"
            );
        }
    }
}
