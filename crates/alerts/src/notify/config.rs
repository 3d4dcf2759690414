//! The configuration of notifiers, as it stands in the file, and its check.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use sinks::{ClientOptions, Credentials, Fault};

use super::alertmanager::Alertmanager;
use super::email::{Email, EmailOptions, Encryption};
use super::keys::{ConfigError, Keys};
use super::webhook::Webhook;
use super::{Channel, Notification, Policy, Sent};
use crate::duration;
use crate::matcher::Matcher;

/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// Receivers of a mail.
const RECEIVERS_MAX: usize = 50;
/// Servers of Alertmanager, or matchers, of a notifier.
const LIST_MAX: usize = 16;
/// The longest time for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest time for a request and its response.
const REQUEST: Duration = Duration::from_secs(10);
/// After which time Alertmanager is told again.
const ALERTMANAGER_REPEAT: Duration = Duration::from_secs(60);
/// After which time people are told again.
const REPEAT: Duration = Duration::from_secs(4 * 3600);
/// A shorter time would tell people all the time.
const REPEAT_MIN: Duration = Duration::from_secs(10);

/// A notifier: one of `alertmanager`, `webhook` and `email`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifierConfig {
    /// Names it in messages and metrics.
    pub name: String,
    /// Conditions on labels, for example `severity="page"`; all have to match.
    pub matchers: Vec<String>,
    /// After which time an alert that still fires is told again (default 4h; Alertmanager: 1m).
    pub repeat_interval: Option<String>,
    /// Whether the end of an alert is told (default true).
    pub send_resolved: Option<bool>,
    /// A file of certificates with which servers are verified, in place of those of the system.
    pub ca: Option<PathBuf>,
    /// Alertmanager of Prometheus.
    pub alertmanager: Option<AlertmanagerConfig>,
    /// A webhook.
    pub webhook: Option<WebhookConfig>,
    /// E-mail.
    pub email: Option<EmailConfig>,
}

/// Servers with the API of Alertmanager; each is told.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertmanagerConfig {
    /// `http://HOST:9093`, with the path below which the API is, if any.
    pub urls: Vec<String>,
    /// The user of HTTP Basic.
    pub user: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// A variable of the environment with the password.
    pub password_env: Option<String>,
    /// A file with a token.
    pub token_file: Option<PathBuf>,
    /// A variable of the environment with a token.
    pub token_env: Option<String>,
}

/// An address that takes the payload of Alertmanager's webhooks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookConfig {
    /// The address, if it holds no secret.
    pub url: Option<String>,
    /// A file with the address.
    pub url_file: Option<PathBuf>,
    /// A variable of the environment with the address.
    pub url_env: Option<String>,
    /// The user of HTTP Basic.
    pub user: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// A variable of the environment with the password.
    pub password_env: Option<String>,
    /// A file with a token.
    pub token_file: Option<PathBuf>,
    /// A variable of the environment with a token.
    pub token_env: Option<String>,
}

/// Mails by SMTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmailConfig {
    /// `HOST:PORT` of the mail server.
    pub server: String,
    /// `starttls` (default), `tls` (from the start) or `none`.
    pub tls: Option<String>,
    /// The user, if the server asks for one.
    pub user: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// A variable of the environment with the password.
    pub password_env: Option<String>,
    /// The sender: `Logs <logs@example.com>`.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
}

/// A checked notifier: one receiver. A configuration with several servers of Alertmanager makes
/// several.
#[derive(Debug, Clone)]
pub struct NotifierOptions {
    /// Whom it tells about what.
    pub policy: Policy,
    ca: Option<PathBuf>,
    external_url: String,
    receiver: Receiver,
}

#[derive(Debug, Clone)]
enum Receiver {
    Alertmanager(Box<ClientOptions>),
    Webhook(Box<ClientOptions>),
    Email(Box<EmailOptions>),
}

impl NotifierOptions {
    /// What kind of receiver it has, as the configuration calls it.
    pub fn kind(&self) -> &'static str {
        match self.receiver {
            Receiver::Alertmanager(_) => "alertmanager",
            Receiver::Webhook(_) => "webhook",
            Receiver::Email(_) => "email",
        }
    }

    /// Sends a notification that says it is a test, once and on a connection of its own. Blocks up
    /// to the time limits of the channel.
    ///
    /// Errors: the receiver did not take it, or cannot be reached.
    pub fn test(&self, time_ns: i64) -> Result<(), Fault> {
        let test = Notification::test(&self.policy.name, &self.external_url, time_ns);
        match self.channel()?.send(&test) {
            Sent::Accepted => Ok(()),
            Sent::Refused(fault) | Sent::Failed { fault, .. } => Err(fault),
        }
    }

    /// Makes the channel. Nothing is connected yet, but certificates are read.
    pub fn channel(&self) -> Result<Box<dyn Channel>, Fault> {
        Ok(match &self.receiver {
            Receiver::Alertmanager(options) => Box::new(Alertmanager::new(options)?),
            Receiver::Webhook(options) => {
                let name = self.policy.name.clone();
                Box::new(Webhook::new(options, name, self.external_url.clone())?)
            }
            Receiver::Email(options) => Box::new(Email::new(options, self.ca.as_deref())?),
        })
    }
}

impl NotifierConfig {
    /// Checks everything, and reads the files of secrets. `external_url` is the address of the
    /// page, for links. Returns the first error.
    pub fn check(&self, external_url: &str) -> Result<Vec<NotifierOptions>, ConfigError> {
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
        let keys = Keys(format!("alerts.notifiers.{}", self.name));
        let receivers = match (&self.alertmanager, &self.webhook, &self.email) {
            (Some(config), None, None) => {
                self.alertmanagers(config, &keys.below("alertmanager"))?
            }
            (None, Some(config), None) => vec![self.webhook(config, &keys.below("webhook"))?],
            (None, None, Some(config)) => vec![email(config, &keys.below("email"))?],
            _ => {
                let what = "give exactly one of `alertmanager`, `webhook` and `email`";
                return Err(keys.error("", what));
            }
        };
        if self.matchers.len() > LIST_MAX {
            return Err(keys.error("matchers", format!("write at most {LIST_MAX}")));
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
        let policy = Policy {
            name: self.name.clone(),
            matchers: matchers.collect::<Result<_, _>>()?,
            repeat_interval,
            sends_resolved: self.send_resolved.unwrap_or(true),
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
            }
        });
        Ok(all.collect())
    }

    fn alertmanagers(
        &self,
        config: &AlertmanagerConfig,
        keys: &Keys,
    ) -> Result<Vec<Receiver>, ConfigError> {
        if config.urls.is_empty() || config.urls.len() > LIST_MAX {
            let what = format!("give 1 to {LIST_MAX} addresses, for example http://HOST:9093");
            return Err(keys.error("urls", what));
        }
        let password = keys.secret("password", &config.password_file, &config.password_env)?;
        let token = keys.secret("token", &config.token_file, &config.token_env)?;
        let credentials = keys.credentials(config.user.as_deref(), password, token)?;
        let one = |url: &String| {
            let url = keys.url("urls", url.trim_end_matches('/'))?;
            Ok(Receiver::Alertmanager(Box::new(self.client(url, credentials.clone()))))
        };
        config.urls.iter().map(one).collect()
    }

    fn webhook(&self, config: &WebhookConfig, keys: &Keys) -> Result<Receiver, ConfigError> {
        let hidden = keys.secret("url", &config.url_file, &config.url_env)?;
        let url = match (&config.url, &hidden) {
            (Some(url), None) => url.as_str(),
            (None, Some(hidden)) => hidden.expose(),
            _ => return Err(keys.error("url", "give one of `url`, `url_file` and `url_env`")),
        };
        let url = keys.url("url", url)?;
        let password = keys.secret("password", &config.password_file, &config.password_env)?;
        let token = keys.secret("token", &config.token_file, &config.token_env)?;
        let credentials = keys.credentials(config.user.as_deref(), password, token)?;
        Ok(Receiver::Webhook(Box::new(self.client(url, credentials))))
    }

    fn client(&self, url: String, credentials: Credentials) -> ClientOptions {
        ClientOptions {
            urls: vec![url],
            credentials,
            headers: Vec::new(),
            ca: self.ca.clone(),
            connect_time_max: CONNECT,
            request_time_max: REQUEST,
        }
    }
}

fn email(config: &EmailConfig, keys: &Keys) -> Result<Receiver, ConfigError> {
    let server = config.server.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some((host, port.parse::<u16>().ok()?)).filter(|(host, port)| !host.is_empty() && *port > 0)
    });
    let (host, port) = server
        .ok_or_else(|| keys.error("server", format!("'{}' is not HOST:PORT", config.server)))?;
    let encryption = match config.tls.as_deref() {
        None | Some("starttls") => Encryption::StartTls,
        Some("tls") => Encryption::Tls,
        Some("none") => Encryption::None,
        Some(other) => {
            let what = format!("'{other}' is not one of `starttls`, `tls` and `none`");
            return Err(keys.error("tls", what));
        }
    };
    let password = keys.secret("password", &config.password_file, &config.password_env)?;
    let login = match (&config.user, password) {
        (Some(user), Some(password)) => Some((user.clone(), password)),
        (None, None) => None,
        _ => return Err(keys.error("user", "give both `user` and `password_file`, or neither")),
    };
    if login.is_some() && encryption == Encryption::None {
        let what = "a password would be sent as plain text; set `tls`, or remove `user`";
        return Err(keys.error("tls", what));
    }
    let address = |key: &str, text: &str| {
        text.parse()
            .map_err(|_| keys.error(key, format!("'{text}' is no address; write NAME <NAME@HOST>")))
    };
    if config.to.is_empty() || config.to.len() > RECEIVERS_MAX {
        return Err(keys.error("to", format!("give 1 to {RECEIVERS_MAX} addresses")));
    }
    Ok(Receiver::Email(Box::new(EmailOptions {
        host: host.to_owned(),
        port,
        encryption,
        login,
        from: address("from", &config.from)?,
        to: config.to.iter().map(|to| address("to", to)).collect::<Result<_, _>>()?,
    })))
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
