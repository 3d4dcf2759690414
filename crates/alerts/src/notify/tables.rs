//! The tables of `[[alerts.notifiers]]`, one for each kind of receiver. A secret is named by a file
//! or a variable of the environment; over the API it is given beside the tables.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A name and its password. Unknown keys are refused by the table that it is a part of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoginConfig {
    /// The user of HTTP Basic or of the mail server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A variable of the environment with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
}

/// A token. Unknown keys are refused by the table that it is a part of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenConfig {
    /// A file with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A variable of the environment with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
}

/// Servers with the API of Alertmanager; each is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertmanagerConfig {
    /// `http://HOST:9093`, with the path below which the API is, if any.
    pub urls: Vec<String>,
    /// How it logs in there.
    #[serde(flatten)]
    pub login: LoginConfig,
    /// The token in place of name and password.
    #[serde(flatten)]
    pub token: TokenConfig,
}

/// An address that takes the payload of Alertmanager's webhooks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookConfig {
    /// The address, if it holds no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// A variable of the environment with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// How it logs in there.
    #[serde(flatten)]
    pub login: LoginConfig,
    /// The token in place of name and password.
    #[serde(flatten)]
    pub token: TokenConfig,
}

/// Mails by SMTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmailConfig {
    /// `HOST:PORT` of the mail server.
    pub server: String,
    /// `starttls` (default), `tls` (from the start) or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// How it logs in, if the server asks for that.
    #[serde(flatten)]
    pub login: LoginConfig,
    /// The sender: `Logs <logs@example.com>`.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
}

/// An incoming webhook of Slack, or the webhook of a workflow of Microsoft Teams: its address is a
/// secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookConfig {
    /// A file with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// A variable of the environment with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
}

/// PagerDuty or Opsgenie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IncidentConfig {
    /// The address of the service, for other regions than the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file with the key of an integration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// A variable of the environment with the key of an integration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// How bad an alert is whose label `severity` does not say it: `critical`, `error` (default),
    /// `warning` or `info`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
}

/// A topic of ntfy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NtfyConfig {
    /// The address of the server (default `https://ntfy.sh`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The topic.
    pub topic: String,
    /// The priority of alerts that fire, from 1 to 5 (default 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// How it logs in there.
    #[serde(flatten)]
    pub login: LoginConfig,
    /// The token in place of name and password.
    #[serde(flatten)]
    pub token: TokenConfig,
}

/// A room of Matrix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatrixConfig {
    /// The address of the homeserver.
    pub url: String,
    /// The id of the room: `!ROOM:SERVER`.
    pub room: String,
    /// The access token of the user who writes.
    #[serde(flatten)]
    pub token: TokenConfig,
}
