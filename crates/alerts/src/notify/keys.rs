//! Checks what keys of notifiers have in common: addresses, secrets, credentials.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cluster::engines::Secret;
use sinks::Credentials;

use super::tables::{LoginConfig, TokenConfig};

/// Bytes of a secret.
const SECRET_BYTES_MAX: usize = 4 << 10;

/// A key with a wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ConfigError {
    /// The key, for example `alerts.notifiers.ops.webhook.url`.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub what: String,
}

/// Where secrets come from.
#[derive(Debug, Clone, Copy)]
pub enum Secrets<'a> {
    /// From the files and the variables that the configuration names.
    Named,
    /// They are given, by their keys. Files and variables are refused: who may call the API may not
    /// read every file of this machine.
    Given(&'a BTreeMap<String, Secret>),
}

/// Names keys in errors, and reads what they name.
pub struct Keys<'a> {
    path: String,
    secrets: Secrets<'a>,
}

impl<'a> Keys<'a> {
    pub fn new(path: String, secrets: Secrets<'a>) -> Keys<'a> {
        Keys { path, secrets }
    }

    pub fn below(&self, key: &str) -> Keys<'a> {
        Keys { path: format!("{}.{key}", self.path), secrets: self.secrets }
    }

    pub fn error(&self, key: &str, what: impl Into<String>) -> ConfigError {
        let separator = if key.is_empty() { "" } else { "." };
        ConfigError { key: format!("{}{separator}{key}", self.path), what: what.into() }
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
            (None, None) => match self.secrets {
                Secrets::Named => return Ok(None),
                Secrets::Given(given) => match given.get(key) {
                    Some(secret) => secret.expose().to_owned(),
                    None => return Ok(None),
                },
            },
            _ if matches!(self.secrets, Secrets::Given(_)) => {
                let what = format!(
                    "over the API, give the secret itself as `secrets.{key}`; no file and no \
                     variable is read"
                );
                return Err(self.error(key, what));
            }
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
        if text.is_empty() || text.len() > SECRET_BYTES_MAX || text.contains(char::is_control) {
            return Err(self.error(key, "is empty, too long, or has characters that no secret has"));
        }
        Ok(Some(Secret::new(text)))
    }

    pub fn password(&self, login: &LoginConfig) -> Result<Option<Secret>, ConfigError> {
        self.secret("password", &login.password_file, &login.password_env)
    }

    pub fn token(&self, token: &TokenConfig) -> Result<Option<Secret>, ConfigError> {
        self.secret("token", &token.token_file, &token.token_env)
    }

    /// Name and password, or a token, or neither.
    pub fn credentials(
        &self,
        login: &LoginConfig,
        token: &TokenConfig,
    ) -> Result<Credentials, ConfigError> {
        match (login.user.as_deref(), self.password(login)?, self.token(token)?) {
            (None, None, None) => Ok(Credentials::None),
            (Some(user), Some(password), None) if !user.contains(':') => {
                Ok(Credentials::Basic { user: user.to_owned(), password })
            }
            (None, None, Some(token)) => Ok(Credentials::Bearer(token)),
            _ => Err(self.error("user", "give `user` (without ':') with its password, or a token")),
        }
    }
}
