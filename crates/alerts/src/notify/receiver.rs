//! Receivers: what each kind needs, checked, and the channel that is made of it.

use std::path::PathBuf;
use std::time::Duration;

use cluster::engines::Secret;
use sinks::{ClientOptions, Credentials, Fault};

use super::alertmanager::Alertmanager;
use super::config::{KINDS, NotifierConfig};
use super::email::{Email, EmailOptions, Mail};
use super::endpoint::Reach;
use super::incidents::{Opsgenie, PagerDuty, Severity};
use super::keys::{ConfigError, Keys};
use super::matrix::Matrix;
use super::message::Templates;
use super::ntfy::{FIRING_PRIORITY, Ntfy};
use super::slack::Slack;
use super::smtp::Encryption;
use super::tables::{
    AlertmanagerConfig, EmailConfig, HookConfig, IncidentConfig, MatrixConfig, NtfyConfig,
    WebhookConfig,
};
use super::teams::Teams;
use super::webhook::Webhook;
use super::{Channel, Notification, Policy, Sent};

/// Receivers of a mail.
const RECEIVERS_MAX: usize = 50;
/// Servers of Alertmanager.
const SERVERS_MAX: usize = 16;
/// The longest time for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest time for a request and its response.
const REQUEST: Duration = Duration::from_secs(10);
/// Characters of a key of PagerDuty.
const PAGERDUTY_KEY_CHARS: usize = 32;
/// Characters of a topic of ntfy.
const TOPIC_CHARS_MAX: usize = 64;
/// Bytes of the id of a room.
const ROOM_BYTES_MAX: usize = 255;

/// A checked notifier: one receiver. A configuration with several servers of Alertmanager makes
/// several.
#[derive(Debug, Clone)]
pub struct NotifierOptions {
    /// Whom it tells about what.
    pub policy: Policy,
    pub(super) ca: Option<PathBuf>,
    pub(super) external_url: String,
    pub(super) receiver: Receiver,
    pub(super) templates: Templates,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone)]
pub(super) enum Receiver {
    Alertmanager(Box<ClientOptions>),
    Webhook(Box<ClientOptions>),
    Email(Box<EmailOptions>),
    Slack(Box<ClientOptions>),
    Teams(Box<ClientOptions>),
    PagerDuty(Box<ClientOptions>, Secret, Severity),
    Opsgenie(Box<ClientOptions>, Secret, Severity),
    Ntfy { client: Box<ClientOptions>, topic: String, priority: u8 },
    Matrix { client: Box<ClientOptions>, room: String },
}

impl Receiver {
    /// Whether each alert is an incident there, which is opened and closed.
    pub(super) fn keeps_incidents(&self) -> bool {
        matches!(self, Receiver::PagerDuty(..) | Receiver::Opsgenie(..))
    }

    /// Whether it keeps each alert by itself.
    pub(super) fn tells_each(&self) -> bool {
        self.keeps_incidents() || matches!(self, Receiver::Alertmanager(_))
    }

    /// Whether texts are shown to people there as they are sent.
    pub(super) fn shows_texts(&self) -> bool {
        !matches!(self, Receiver::Alertmanager(_) | Receiver::Webhook(_))
    }
}

impl NotifierOptions {
    /// What kind of receiver it has, as the configuration calls it.
    pub fn kind(&self) -> &'static str {
        match self.receiver {
            Receiver::Alertmanager(_) => "alertmanager",
            Receiver::Webhook(_) => "webhook",
            Receiver::Email(_) => "email",
            Receiver::Slack(_) => "slack",
            Receiver::Teams(_) => "teams",
            Receiver::PagerDuty(..) => "pagerduty",
            Receiver::Opsgenie(..) => "opsgenie",
            Receiver::Ntfy { .. } => "ntfy",
            Receiver::Matrix { .. } => "matrix",
        }
    }

    /// Sends a notification that says it is a test, once and on a connection of its own. An
    /// incident that this opens is closed at once. Blocks up to the time limits of the channel.
    ///
    /// Errors: the receiver did not take it, or cannot be reached.
    pub fn test(&self, time_ns: i64) -> Result<(), Fault> {
        let mut test = Notification::test(&self.policy.name, &self.external_url, time_ns);
        let mut channel = self.channel()?;
        let mut send = |test: &Notification| match channel.send(test) {
            // A test has one alert, so there is no other part.
            Sent::Accepted | Sent::InPart => Ok(()),
            Sent::Refused(fault) | Sent::Failed { fault, .. } => Err(fault),
        };
        send(&test)?;
        if self.receiver.keeps_incidents() {
            test.alerts.iter_mut().for_each(|notice| notice.is_firing = false);
            test.time_ns = test.time_ns.saturating_add(1);
            send(&test)?;
        }
        Ok(())
    }

    /// Whether its receiver takes mails.
    pub fn sends_mail(&self) -> bool {
        matches!(self.receiver, Receiver::Email(_))
    }

    /// The address of the page, for links; empty if it is not known.
    pub fn external_url(&self) -> &str {
        &self.external_url
    }

    /// Sends a mail that is no notification by the server of this receiver, on a connection of its
    /// own. Blocks up to the time limits of the protocol.
    pub fn send_mail(&self, mail: &Mail) -> Sent {
        let Receiver::Email(options) = &self.receiver else {
            let what = format!("the receiver {} takes no mails", self.policy.name);
            return Sent::Refused(Fault::new(what, "choose one of the kind `email`"));
        };
        match Email::new(options, self.ca.as_deref(), self.reach, self.templates.clone()) {
            Ok(email) => email.send_mail(mail),
            Err(fault) => Sent::Failed { fault, retry_after: None },
        }
    }

    /// Makes the channel. Nothing is connected yet, but certificates are read.
    ///
    /// Errors: the certificates cannot be read.
    pub fn channel(&self) -> Result<Box<dyn Channel>, Fault> {
        let (reach, templates) = (self.reach, self.templates.clone());
        Ok(match &self.receiver {
            Receiver::Alertmanager(options) => Box::new(Alertmanager::new(options, reach)?),
            Receiver::Webhook(options) => {
                let name = self.policy.name.clone();
                Box::new(Webhook::new(options, reach, name, self.external_url.clone())?)
            }
            Receiver::Email(options) => {
                Box::new(Email::new(options, self.ca.as_deref(), reach, templates)?)
            }
            Receiver::Slack(options) => Box::new(Slack::new(options, reach, templates)?),
            Receiver::Teams(options) => Box::new(Teams::new(options, reach, templates)?),
            Receiver::PagerDuty(options, key, severity) => {
                Box::new(PagerDuty::new(options, reach, key.clone(), *severity, templates)?)
            }
            Receiver::Opsgenie(options, key, severity) => {
                Box::new(Opsgenie::new(options, reach, key.clone(), *severity, templates)?)
            }
            Receiver::Ntfy { client, topic, priority } => {
                Box::new(Ntfy::new(client, reach, topic.clone(), *priority, templates)?)
            }
            Receiver::Matrix { client, room } => {
                Box::new(Matrix::new(client, reach, room, templates)?)
            }
        })
    }
}

impl NotifierConfig {
    /// The receivers of the one table that there is.
    pub(super) fn receivers(&self, keys: &Keys<'_>) -> Result<Vec<Receiver>, ConfigError> {
        let [kind] = self.kinds()[..] else {
            let what =
                format!("give exactly one of {}", KINDS.map(|kind| format!("`{kind}`")).join(", "));
            return Err(keys.error("", what));
        };
        let keys = keys.below(kind);
        if let Some(config) = &self.alertmanager {
            return self.alertmanagers(config, &keys);
        }
        let mut receivers = Vec::new();
        if let Some(config) = &self.webhook {
            receivers.push(self.webhook(config, &keys)?);
        }
        if let Some(config) = &self.email {
            receivers.push(email(config, &keys)?);
        }
        if let Some(config) = &self.slack {
            receivers.push(Receiver::Slack(Box::new(self.hook(config, &keys)?)));
        }
        if let Some(config) = &self.teams {
            receivers.push(Receiver::Teams(Box::new(self.hook(config, &keys)?)));
        }
        if let Some(config) = &self.pagerduty {
            receivers.push(self.pagerduty(config, &keys)?);
        }
        if let Some(config) = &self.opsgenie {
            receivers.push(self.opsgenie(config, &keys)?);
        }
        if let Some(config) = &self.ntfy {
            receivers.push(self.ntfy(config, &keys)?);
        }
        if let Some(config) = &self.matrix {
            receivers.push(self.matrix(config, &keys)?);
        }
        Ok(receivers)
    }

    fn alertmanagers(
        &self,
        config: &AlertmanagerConfig,
        keys: &Keys<'_>,
    ) -> Result<Vec<Receiver>, ConfigError> {
        if config.urls.is_empty() || config.urls.len() > SERVERS_MAX {
            let what = format!("give 1 to {SERVERS_MAX} addresses, for example http://HOST:9093");
            return Err(keys.error("urls", what));
        }
        let credentials = keys.credentials(&config.login, &config.token)?;
        let one = |url: &String| {
            let url = keys.url("urls", url.trim_end_matches('/'))?;
            Ok(Receiver::Alertmanager(Box::new(self.client(url, credentials.clone()))))
        };
        config.urls.iter().map(one).collect()
    }

    fn webhook(&self, config: &WebhookConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
        let hidden = keys.secret("url", &config.url_file, &config.url_env)?;
        let url = match (&config.url, &hidden) {
            (Some(url), None) => url.as_str(),
            (None, Some(hidden)) => hidden.expose(),
            _ => return Err(keys.error("url", "give one of `url`, `url_file` and `url_env`")),
        };
        let url = keys.url("url", url)?;
        let credentials = keys.credentials(&config.login, &config.token)?;
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

    /// The address of a service is a secret.
    fn hook(&self, config: &HookConfig, keys: &Keys<'_>) -> Result<ClientOptions, ConfigError> {
        let hidden = keys.secret("url", &config.url_file, &config.url_env)?;
        let hidden = hidden.ok_or_else(|| {
            keys.error("url", "the address is missing; name a file or a variable that has it")
        })?;
        Ok(self.client(keys.url("url", hidden.expose())?, Credentials::None))
    }

    fn pagerduty(&self, config: &IncidentConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
        let (url, key, severity) = incidents(config, "https://events.pagerduty.com", keys)?;
        let is_known = |key: &str| {
            key.len() == PAGERDUTY_KEY_CHARS && key.chars().all(|c| c.is_ascii_alphanumeric())
        };
        if !is_known(key.expose()) {
            let what = format!(
                "is not the key of an integration with the Events API v2, which has \
                 {PAGERDUTY_KEY_CHARS} letters and digits"
            );
            return Err(keys.error("key", what));
        }
        let client = self.client(url, Credentials::None);
        Ok(Receiver::PagerDuty(Box::new(client), key, severity))
    }

    fn opsgenie(&self, config: &IncidentConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
        let (url, key, severity) = incidents(config, "https://api.opsgenie.com", keys)?;
        let mut client = self.client(url, Credentials::None);
        let value = Secret::new(format!("GenieKey {}", key.expose()));
        client.headers.push(("authorization".to_owned(), value));
        Ok(Receiver::Opsgenie(Box::new(client), key, severity))
    }

    fn ntfy(&self, config: &NtfyConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
        let url = config.url.as_deref().unwrap_or("https://ntfy.sh");
        let url = keys.url("url", url.trim_end_matches('/'))?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let topic = config.topic.clone();
        if !(1..=TOPIC_CHARS_MAX).contains(&topic.len()) || !topic.chars().all(is_allowed) {
            let what = format!("write 1 to {TOPIC_CHARS_MAX} letters, digits, '-' or '_'");
            return Err(keys.error("topic", what));
        }
        let priority = config.priority.unwrap_or(FIRING_PRIORITY);
        if !(1..=5).contains(&priority) {
            return Err(keys.error("priority", "write a number from 1 (lowest) to 5 (highest)"));
        }
        let credentials = keys.credentials(&config.login, &config.token)?;
        Ok(Receiver::Ntfy { client: Box::new(self.client(url, credentials)), topic, priority })
    }

    fn matrix(&self, config: &MatrixConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
        let url = keys.url("url", config.url.trim_end_matches('/'))?;
        let room = config.room.clone();
        let has_space = room.contains(|c: char| c.is_whitespace() || c.is_control());
        if !room.starts_with('!') || room.len() > ROOM_BYTES_MAX || has_space {
            let what = "write the id of the room, which begins with '!' (in Element: settings of \
                        the room, Advanced); an alias with '#' is none";
            return Err(keys.error("room", what));
        }
        let token = keys.token(&config.token)?;
        let token = token.ok_or_else(|| {
            keys.error("token", "the access token of the user who writes is missing")
        })?;
        let client = Box::new(self.client(url, Credentials::Bearer(token)));
        Ok(Receiver::Matrix { client, room })
    }
}

fn incidents(
    config: &IncidentConfig,
    default_url: &str,
    keys: &Keys<'_>,
) -> Result<(String, Secret, Severity), ConfigError> {
    let url = config.url.as_deref().unwrap_or(default_url);
    let url = keys.url("url", url.trim_end_matches('/'))?;
    let key = keys.secret("key", &config.key_file, &config.key_env)?;
    let key = key.ok_or_else(|| keys.error("key", "the key of an integration is missing"))?;
    let severity = match &config.severity {
        None => Severity::Error,
        Some(name) => Severity::parse(name).ok_or_else(|| {
            keys.error("severity", "write one of `critical`, `error`, `warning` and `info`")
        })?,
    };
    Ok((url, key, severity))
}

fn email(config: &EmailConfig, keys: &Keys<'_>) -> Result<Receiver, ConfigError> {
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
    let password = keys.password(&config.login)?;
    let login = match (&config.login.user, password) {
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
