//! `[watch]`: what is watched for what stands out.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::config::duration;
use node::watch::WatchOptions;

/// Series. Each takes some 10 KiB of memory, and a few microseconds a minute.
const SERIES_MAX: usize = 5_000;
/// Names of fields in one setting.
const FIELDS_MAX: usize = 100;

/// `[watch]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawWatch {
    pub enabled: bool,
    /// limits.md, What stands out: watched series, of all fields | `watch.series_max`, 500 |
    /// further values are not watched; they are counted
    pub series_max: usize,
    pub delay: String,
    pub history: String,
    pub fields: Vec<String>,
    pub ignored: Vec<String>,
}

impl Default for RawWatch {
    fn default() -> Self {
        RawWatch {
            enabled: true,
            series_max: 500,
            delay: "30s".into(),
            history: "1d".into(),
            fields: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

impl TryFrom<&RawWatch> for WatchOptions {
    type Error = anyhow::Error;

    fn try_from(raw: &RawWatch) -> Result<WatchOptions> {
        ensure!(
            (1..=SERIES_MAX).contains(&raw.series_max),
            "watch.series_max must be between 1 and {SERIES_MAX}; to watch nothing, write `enabled = false`"
        );
        let delay = duration("watch.delay", &raw.delay)?;
        ensure!(delay <= Duration::from_secs(3_600), "watch.delay must be at most 1h");
        let history = duration("watch.history", &raw.history)?;
        ensure!(
            (Duration::from_secs(3_600)..=Duration::from_secs(28 * 86_400)).contains(&history),
            "watch.history must be between 1h and 28d"
        );
        for (key, fields) in [("fields", &raw.fields), ("ignored", &raw.ignored)] {
            ensure!(
                fields.len() <= FIELDS_MAX && fields.iter().all(|name| !name.is_empty()),
                "watch.{key} must be at most {FIELDS_MAX} names of fields, none of them empty"
            );
        }
        Ok(WatchOptions {
            is_enabled: raw.enabled,
            series_max: raw.series_max,
            delay,
            history,
            fields: raw.fields.clone(),
            ignored: raw.ignored.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_and_the_defaults_are_those_of_the_node() {
        let of = |text: &str| WatchOptions::try_from(&toml::from_str::<RawWatch>(text).unwrap());
        assert_eq!(of("").unwrap(), WatchOptions::default());
        assert!(!of("enabled = false").unwrap().is_enabled);
        for (text, part) in [
            ("series_max = 0", "enabled = false"),
            ("series_max = 5001", "between 1 and 5000"),
            ("delay = '2h'", "at most 1h"),
            ("history = '1m'", "between 1h and 28d"),
            ("fields = ['']", "watch.fields"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
