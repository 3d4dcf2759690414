//! Checks what keys of notifiers have in common: addresses, secrets, credentials.

use std::path::PathBuf;

use cluster::engines::Secret;
use sinks::Credentials;

/// A key with a wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ConfigError {
    /// The key, for example `alerts.notifiers.ops.webhook.url`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub what: String,
}

/// Names keys in errors, and reads what they name.
pub struct Keys(pub String);

impl Keys {
    pub fn below(&self, key: &str) -> Keys {
        Keys(format!("{}.{key}", self.0))
    }

    pub fn error(&self, key: &str, what: impl Into<String>) -> ConfigError {
        let separator = if key.is_empty() { "" } else { "." };
        ConfigError { key: format!("{}{separator}{key}", self.0), what: what.into() }
    }

    pub fn url(&self, key: &str, url: &str) -> Result<String, ConfigError> {
        // The address is not repeated: it may hold a secret.
        let is_known = url.starts_with("http://") || url.starts_with("https://");
        let host = url.split_once("://").map_or("", |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        if !is_known || host.is_empty() || url.contains(|c: char| c.is_control() || c == ' ') {
            return Err(self.error(key, "is no address; write for example https://HOST/PATH"));
        }
        if host.contains('@') {
            let what = "leave name and password out of the address; use `user` and `password_file`";
            return Err(self.error(key, what));
        }
        Ok(url.to_owned())
    }

    pub fn secret(
        &self,
        key: &str,
        file: &Option<PathBuf>,
        variable: &Option<String>,
    ) -> Result<Option<Secret>, ConfigError> {
        let text = match (file, variable) {
            (None, None) => return Ok(None),
            (Some(file), None) => std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot read {}: {error}", file.display());
                self.error(&format!("{key}_file"), what)
            })?,
            (None, Some(variable)) => std::env::var(variable).map_err(|_| {
                let what = format!("the environment has no variable '{variable}' with a text");
                self.error(&format!("{key}_env"), what)
            })?,
            (Some(_), Some(_)) => {
                return Err(self.error(key, format!("give one of `{key}_file` and `{key}_env`")));
            }
        };
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(self.error(key, "is empty, or has characters that no secret has"));
        }
        Ok(Some(Secret::new(text)))
    }

    pub fn credentials(
        &self,
        user: Option<&str>,
        password: Option<Secret>,
        token: Option<Secret>,
    ) -> Result<Credentials, ConfigError> {
        match (user, password, token) {
            (None, None, None) => Ok(Credentials::None),
            (Some(user), Some(password), None) if !user.contains(':') => {
                Ok(Credentials::Basic { user: user.to_owned(), password })
            }
            (None, None, Some(token)) => Ok(Credentials::Bearer(token)),
            _ => Err(self.error("user", "give `user` (without ':') with its password, or a token")),
        }
    }
}
