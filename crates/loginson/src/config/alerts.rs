//! `[alerts]` and `[[alerts.notifiers]]`: how rules are evaluated, and who is told.

use std::path::PathBuf;
use std::time::Duration;

use alerts::{Defaults, NotifierConfig, Reach, check_names};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::config::duration;
use node::alerts::AlertOptions;

/// Threads that evaluate; each runs one query at a time.
const THREADS_MAX: usize = 16;
/// Series of one rule.
const SERIES_MAX: usize = 10_000;
/// Notifiers, each with a thread.
const NOTIFIERS_MAX: usize = 32;

/// `[alerts]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAlerts {
    pub rules: String,
    pub interval: String,
    pub delay: String,
    pub series_max: usize,
    /// limits.md, Alerts: evaluations at a time | `alerts.threads`, 2 | groups wait for each other.
    /// A group whose time came again meanwhile leaves evaluations out; they are counted
    pub threads: usize,
    pub external_url: String,
    pub receivers: String,
    #[serde(skip_serializing)]
    pub notifiers: Vec<NotifierConfig>,
}

impl Default for RawAlerts {
    fn default() -> Self {
        let defaults = Defaults::default();
        RawAlerts {
            rules: "off".into(),
            interval: "1m".into(),
            delay: "5s".into(),
            series_max: defaults.series_max,
            threads: 2,
            external_url: "off".into(),
            receivers: "on".into(),
            notifiers: Vec::new(),
        }
    }
}

impl TryFrom<&RawAlerts> for AlertOptions {
    type Error = anyhow::Error;

    fn try_from(raw: &RawAlerts) -> Result<AlertOptions> {
        let interval = duration("alerts.interval", &raw.interval)?;
        ensure!(
            (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&interval),
            "alerts.interval must be between 1s and 1d"
        );
        let delay = duration("alerts.delay", &raw.delay)?;
        ensure!(delay <= Duration::from_secs(3600), "alerts.delay must be at most 1h");
        ensure!(
            (1..=SERIES_MAX).contains(&raw.series_max),
            "alerts.series_max must be between 1 and {SERIES_MAX}"
        );
        ensure!(
            (1..=THREADS_MAX).contains(&raw.threads),
            "alerts.threads must be between 1 and {THREADS_MAX}"
        );
        let external_url = match raw.external_url.trim_end_matches('/') {
            "off" | "" => String::new(),
            url if url.starts_with("http://") || url.starts_with("https://") => url.to_owned(),
            url => anyhow::bail!(
                "alerts.external_url: '{url}' is not an address; write https://HOST:PORT or off"
            ),
        };
        let receivers = match raw.receivers.as_str() {
            "on" => Some(Reach::Outside),
            "local" => Some(Reach::Local),
            "off" => None,
            other => {
                anyhow::bail!(
                    "alerts.receivers: '{other}' is none of \"on\", \"local\" and \"off\""
                )
            }
        };
        check_names(&raw.notifiers)?;
        let mut notifiers = Vec::new();
        for notifier in &raw.notifiers {
            notifiers.extend(notifier.check(&external_url)?);
        }
        ensure!(
            notifiers.len() <= NOTIFIERS_MAX,
            "there are more than {NOTIFIERS_MAX} receivers in alerts.notifiers"
        );
        Ok(AlertOptions {
            folder: match raw.rules.as_str() {
                "off" => None,
                folder => Some(PathBuf::from(folder)),
            },
            defaults: Defaults { interval, delay, series_max: raw.series_max },
            threads: raw.threads,
            external_url,
            notifiers,
            receivers,
        })
    }
}
