//! The configuration of notifiers, as it stands in the file or is given over the API, and its
//! check.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Policy;
use super::endpoint::Reach;
use super::keys::{ConfigError, Keys, Secrets};
use super::message::Templates;
use super::receiver::NotifierOptions;
use super::tables::{
    AlertmanagerConfig, EmailConfig, HookConfig, IncidentConfig, MatrixConfig, NtfyConfig,
    WebhookConfig,
};
use crate::duration;
use crate::matcher::Matcher;

/// The kinds of receivers, as their tables are called.
pub const KINDS: [&str; 9] = [
    "alertmanager",
    "webhook",
    "email",
    "slack",
    "teams",
    "pagerduty",
    "opsgenie",
    "ntfy",
    "matrix",
];
/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// Matchers of a notifier.
const MATCHERS_MAX: usize = 16;
/// After which time Alertmanager is told again.
const ALERTMANAGER_REPEAT: Duration = Duration::from_secs(60);
/// After which time people are told again.
const REPEAT: Duration = Duration::from_secs(4 * 3600);
/// A shorter time would tell people all the time.
const REPEAT_MIN: Duration = Duration::from_secs(10);

/// A notifier, with exactly one of the tables of [`KINDS`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifierConfig {
    /// Names it in messages and metrics.
    pub name: String,
    /// Conditions on labels, for example `severity="page"`; all have to match.
    pub matchers: Vec<String>,
    /// After which time an alert that still fires is told again (default 4h; Alertmanager: 1m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_interval: Option<String>,
    /// Whether the end of an alert is told (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_resolved: Option<bool>,
    /// A template of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A template of the text of one alert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether a line is told as an example (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_line: Option<bool>,
    /// A file of certificates with which servers are verified, in place of those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Alertmanager of Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alertmanager: Option<AlertmanagerConfig>,
    /// A webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// E-mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailConfig>,
    /// Slack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<HookConfig>,
    /// Microsoft Teams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teams: Option<HookConfig>,
    /// PagerDuty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagerduty: Option<IncidentConfig>,
    /// Opsgenie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opsgenie: Option<IncidentConfig>,
    /// ntfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntfy: Option<NtfyConfig>,
    /// Matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<MatrixConfig>,
}

impl NotifierConfig {
    /// The tables that there are; a valid notifier has one.
    pub fn kinds(&self) -> Vec<&'static str> {
        let are_there = [
            self.alertmanager.is_some(),
            self.webhook.is_some(),
            self.email.is_some(),
            self.slack.is_some(),
            self.teams.is_some(),
            self.pagerduty.is_some(),
            self.opsgenie.is_some(),
            self.ntfy.is_some(),
            self.matrix.is_some(),
        ];
        let kinds = KINDS.into_iter().zip(are_there);
        kinds.filter(|(_, is_there)| *is_there).map(|(kind, _)| kind).collect()
    }

    /// The names of the secrets that a receiver of its kind may have.
    pub fn secret_names(&self) -> &'static [&'static str] {
        match self.kinds()[..] {
            ["alertmanager" | "ntfy"] => &["password", "token"],
            ["webhook"] => &["url", "password", "token"],
            ["email"] => &["password"],
            ["slack" | "teams"] => &["url"],
            ["pagerduty" | "opsgenie"] => &["key"],
            ["matrix"] => &["token"],
            _ => &[],
        }
    }

    /// Where its secrets go: the kind, the server and the user. Who changes that has to give the
    /// secrets again; else an administrator, who cannot read them, could have them sent elsewhere.
    pub fn destination(&self) -> String {
        let of_login = |url: &Option<String>, user: &Option<String>| format!("{url:?} {user:?}");
        let of = |part: Option<String>| part.unwrap_or_default();
        let parts = [
            of(self
                .alertmanager
                .as_ref()
                .map(|one| format!("{:?} {:?}", one.urls, one.login.user))),
            of(self.webhook.as_ref().map(|one| of_login(&one.url, &one.login.user))),
            of(self
                .email
                .as_ref()
                .map(|one| format!("{} {:?} {:?}", one.server, one.tls, one.login.user))),
            of(self.pagerduty.as_ref().map(|one| format!("{:?}", one.url))),
            of(self.opsgenie.as_ref().map(|one| format!("{:?}", one.url))),
            of(self.ntfy.as_ref().map(|one| of_login(&one.url, &one.login.user))),
            of(self.matrix.as_ref().map(|one| one.url.clone())),
        ];
        format!("{:?} {parts:?}", self.kinds())
    }

    /// Checks everything, and reads the files of secrets. `external_url` is the address of the
    /// page, for links.
    ///
    /// Errors: the first key with a wrong value.
    pub fn check(&self, external_url: &str) -> Result<Vec<NotifierOptions>, ConfigError> {
        self.check_with(external_url, Secrets::Named, Reach::Any)
    }

    /// As [`check`](Self::check), with secrets from elsewhere, and with the addresses that `reach`
    /// allows.
    ///
    /// Errors: the first key with a wrong value.
    pub fn check_with(
        &self,
        external_url: &str,
        secrets: Secrets<'_>,
        reach: Reach,
    ) -> Result<Vec<NotifierOptions>, ConfigError> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let length = self.name.chars().count();
        if length == 0 || length > NAME_CHARS_MAX || !self.name.chars().all(is_name) {
            return Err(ConfigError {
                key: "alerts.notifiers.name".to_owned(),
                what: format!(
                    "'{}' is no name; write 1 to {NAME_CHARS_MAX} lower-case letters, digits, '-' \
                     or '_'",
                    self.name
                ),
            });
        }
        let keys = Keys::new(format!("alerts.notifiers.{}", self.name), secrets);
        if self.ca.is_some() && matches!(secrets, Secrets::Given(_)) {
            let what = "over the API, the certificates of the system are used; give a receiver \
                        with a CA of its own in the configuration file";
            return Err(keys.error("ca", what));
        }
        let receivers = self.receivers(&keys)?;
        if self.matchers.len() > MATCHERS_MAX {
            return Err(keys.error("matchers", format!("write at most {MATCHERS_MAX}")));
        }
        let matchers = self
            .matchers
            .iter()
            .map(|text| Matcher::parse(text).map_err(|what| keys.error("matchers", what)));
        let default = if self.alertmanager.is_some() { ALERTMANAGER_REPEAT } else { REPEAT };
        let repeat_interval = match &self.repeat_interval {
            Some(text) => duration::parse(text)
                .ok()
                .filter(|repeat| *repeat >= REPEAT_MIN)
                .ok_or_else(|| {
                    let what = format!("'{text}' is not a duration of at least 10s");
                    keys.error("repeat_interval", what)
                })?,
            None => default,
        };
        let templates = Templates::parse(self.subject.as_deref(), self.text.as_deref())
            .map_err(|(key, what)| keys.error(key, what))?;
        let shows_texts = receivers.iter().all(|receiver| receiver.shows_texts());
        if !shows_texts && (templates.has_subject() || templates.has_text()) {
            let what = "`alertmanager` and `webhook` make their texts themselves; remove it";
            let key = if self.subject.is_some() { "subject" } else { "text" };
            return Err(keys.error(key, what));
        }
        let policy = Policy {
            name: self.name.clone(),
            matchers: matchers.collect::<Result<_, _>>()?,
            repeat_interval,
            sends_resolved: self.send_resolved.unwrap_or(true),
            sends_acknowledged: receivers.iter().any(|receiver| receiver.keeps_incidents()),
            tells_each: receivers.iter().any(|receiver| receiver.tells_each()),
            wants_line: self.sample_line.unwrap_or(false),
        };
        let is_one = receivers.len() == 1;
        let all = receivers.into_iter().enumerate().map(|(index, receiver)| {
            let name = match is_one {
                true => self.name.clone(),
                false => format!("{}-{}", self.name, index + 1),
            };
            NotifierOptions {
                policy: Policy { name, ..policy.clone() },
                ca: self.ca.clone(),
                external_url: external_url.to_owned(),
                receiver,
                templates: templates.clone(),
                reach,
            }
        });
        Ok(all.collect())
    }
}

/// The names of all notifiers, each once.
pub fn check_names(all: &[NotifierConfig]) -> Result<(), ConfigError> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for config in all {
        *counts.entry(&config.name).or_default() += 1;
    }
    match counts.into_iter().find(|(_, count)| *count > 1) {
        Some((name, _)) => Err(ConfigError {
            key: "alerts.notifiers".to_owned(),
            what: format!("there are two notifiers '{name}'; rename one"),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
