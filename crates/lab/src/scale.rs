//! Scales of a study: the sizes of the paper, the same shape in minutes on a small machine, and
//! seconds for tests.
//!
//! In a definition any value may be given per scale, `{ paper = 30, small = 5, smoke = 2 }`;
//! [`resolve`] selects that of the requested scale.

use serde::{Deserialize, Serialize};

/// How much is measured. Reports of different scales must not be mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The sizes of the paper.
    Paper,
    /// The same shape in minutes on 2 cores.
    Small,
    /// Seconds: shows that everything works, but nothing about performance.
    Smoke,
}

impl Scale {
    /// All scales, the largest first.
    pub const ALL: [Scale; 3] = [Scale::Paper, Scale::Small, Scale::Smoke];

    /// The name in definitions and results.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Paper => "paper",
            Scale::Small => "small",
            Scale::Smoke => "smoke",
        }
    }

    /// The scale with this name.
    pub fn named(name: &str) -> Option<Scale> {
        Scale::ALL.into_iter().find(|scale| scale.name() == name)
    }
}

/// A value is given per scale, but not for the requested one.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("`{path}` has no value for scale {}", scale.name())]
pub struct NoValue {
    /// Its path in the definition.
    path: String,
    /// The requested scale.
    scale: Scale,
}

/// Replaces every table whose keys are all names of scales by its value for `scale`.
pub fn resolve(value: toml::Value, scale: Scale) -> Result<toml::Value, NoValue> {
    within(value, scale, "")
}

fn within(value: toml::Value, scale: Scale, path: &str) -> Result<toml::Value, NoValue> {
    match value {
        toml::Value::Table(mut table) => {
            if !table.is_empty() && table.keys().all(|key| Scale::named(key).is_some()) {
                let value = table.remove(scale.name());
                return value.ok_or_else(|| NoValue { path: path.to_owned(), scale });
            }
            let resolved = table.into_iter().map(|(key, value)| {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                Ok((key, within(value, scale, &below)?))
            });
            Ok(toml::Value::Table(resolved.collect::<Result<_, _>>()?))
        }
        toml::Value::Array(items) => {
            let resolved = items
                .into_iter()
                .enumerate()
                .map(|(at, item)| within(item, scale, &format!("{path}[{at}]")));
            Ok(toml::Value::Array(resolved.collect::<Result<_, _>>()?))
        }
        plain => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, scale: Scale) -> Result<String, NoValue> {
        let value = toml::Value::Table(toml::from_str(text).unwrap());
        Ok(toml::to_string(&resolve(value, scale)?).unwrap())
    }

    #[test]
    fn values_by_scale() {
        let text = "plain = 1\n[[list]]\nn = { paper = 30, small = 5 }\n[t]\nx = { paper = [1, 2], small = [1] }\n";
        assert_eq!(
            resolved(text, Scale::Small).unwrap(),
            "plain = 1\n\n[[list]]\nn = 5\n\n[t]\nx = [1]\n"
        );
        assert_eq!(
            resolved(text, Scale::Paper).unwrap(),
            "plain = 1\n\n[[list]]\nn = 30\n\n[t]\nx = [1, 2]\n"
        );
        let missing = resolved(text, Scale::Smoke).unwrap_err();
        assert_eq!(missing.to_string(), "`list[0].n` has no value for scale smoke");
    }

    #[test]
    fn tables_with_other_keys_stay() {
        let text = "[store]\nother = 2\npaper = 1\n";
        assert_eq!(resolved(text, Scale::Small).unwrap(), text);
    }
}
