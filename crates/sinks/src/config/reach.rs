//! Checks how servers are reached over HTTP: addresses, credentials, time limits.

use std::path::Path;
use std::time::Duration;

use ureq::http::Uri;

use super::SinkConfig;
use super::check::{ConfigError, Keys};
use crate::http::compress::Encoding;
use crate::http::{ClientOptions, Credentials};
use crate::secret::Secret;

/// Bytes of a request before compression. Elasticsearch refuses more than 100 MB.
const BODY_BYTES_MAX: u64 = 8 << 20;

/// What is common to requests of all destinations over HTTP.
pub struct Reach {
    pub client: ClientOptions,
    pub body_bytes_max: usize,
    pub encoding: Encoding,
}

/// Checks the keys that all destinations over HTTP share. `zstd` says whether the receiver knows
/// it.
pub fn check(config: &SinkConfig, keys: &Keys, zstd: bool) -> Result<Reach, ConfigError> {
    if config.urls.is_empty() {
        return Err(keys.error("urls", "is missing; write for example [\"https://HOST:PORT\"]"));
    }
    let urls: Result<Vec<String>, ConfigError> =
        config.urls.iter().map(|url| check_url(url, keys, config.json_lines.is_some())).collect();
    let mut encodings = vec![("gzip", Encoding::Gzip), ("none", Encoding::Plain)];
    if zstd {
        encodings.push(("zstd", Encoding::Zstd));
    }
    let bytes =
        keys.bytes("body_bytes_max", &config.body_bytes_max, BODY_BYTES_MAX, (1 << 10, 95 << 20))?;
    let (connect, request) = (Duration::from_secs(5), Duration::from_secs(60));
    Ok(Reach {
        client: ClientOptions {
            urls: urls?,
            credentials: credentials(config, keys)?,
            headers: headers(config, keys)?,
            ca: config.ca.clone(),
            connect_time_max: keys.duration("connect_timeout", &config.connect_timeout, connect)?,
            request_time_max: keys.duration("timeout", &config.timeout, request)?,
        },
        body_bytes_max: bytes as usize,
        encoding: keys.choice("compression", &config.compression, &encodings)?,
    })
}

/// Checks that none of these keys is given, for destinations that are not reached over HTTP.
pub fn check_absent(config: &SinkConfig, keys: &Keys) -> Result<(), ConfigError> {
    for (key, is_given) in [
        ("urls", !config.urls.is_empty()),
        ("user", config.user.is_some()),
        ("password", config.password.is_some()),
        ("password_file", config.password_file.is_some()),
        ("api_key", config.api_key.is_some()),
        ("api_key_file", config.api_key_file.is_some()),
        ("token", config.token.is_some()),
        ("token_file", config.token_file.is_some()),
        ("headers", !config.headers.is_empty()),
        ("ca", config.ca.is_some()),
        ("connect_timeout", config.connect_timeout.is_some()),
        ("timeout", config.timeout.is_some()),
        ("body_bytes_max", config.body_bytes_max.is_some()),
        ("compression", config.compression.is_some()),
    ] {
        if is_given {
            let what = "is for destinations that are reached over HTTP; remove it";
            return Err(keys.error(key, what));
        }
    }
    Ok(())
}

/// The address without a slash at its end. `query` says whether it may have parameters.
fn check_url(url: &str, keys: &Keys, query: bool) -> Result<String, ConfigError> {
    // An address with a password is not repeated in the error.
    if url.contains('@') {
        let what = "leave name and password out of the address; use `user` and `password_file`";
        return Err(keys.error("urls", what));
    }
    let url = url.trim_end_matches('/');
    let is_known = url.starts_with("http://") || url.starts_with("https://");
    let has_host = url.parse::<Uri>().ok().is_some_and(|uri| uri.host().is_some());
    if !is_known || !has_host {
        // Parameters may hold a token.
        let url = url.split('?').next().unwrap_or_default();
        let what = format!("'{url}' is no address; write for example https://HOST:PORT");
        return Err(keys.error("urls", what));
    }
    if url.contains('#') || !query && url.contains('?') {
        return Err(keys.error("urls", "leave out everything from '?' or '#' on"));
    }
    Ok(url.to_owned())
}

fn credentials(config: &SinkConfig, keys: &Keys) -> Result<Credentials, ConfigError> {
    let password = secret(keys, "password", &config.password, config.password_file.as_deref())?;
    let api_key = secret(keys, "api_key", &config.api_key, config.api_key_file.as_deref())?;
    let token = secret(keys, "token", &config.token, config.token_file.as_deref())?;
    match (&config.user, password, api_key, token) {
        (None, None, None, None) => Ok(Credentials::None),
        (Some(user), Some(password), None, None) if !user.contains(':') => {
            Ok(Credentials::Basic { user: user.clone(), password })
        }
        (Some(_), Some(_), None, None) => Err(keys.error("user", "must not contain a colon")),
        (None, None, Some(key), None) => Ok(Credentials::ApiKey(key)),
        (None, None, None, Some(token)) => Ok(Credentials::Bearer(token)),
        (Some(_), None, None, None) => {
            Err(keys.error("user", "has no password; add `password_file`"))
        }
        (None, Some(_), None, None) => Err(keys.error("password", "has no user; add `user`")),
        _ => Err(keys
            .error("user", "give only one of: `user` with its password, an API key, or a token")),
    }
}

/// A secret that is given itself or by a file.
fn secret(
    keys: &Keys,
    key: &str,
    given: &Option<Secret>,
    file: Option<&Path>,
) -> Result<Option<Secret>, ConfigError> {
    let secret = match (given, file) {
        (Some(_), Some(_)) => {
            let what = format!("give it either here or by `{key}_file`, not both");
            return Err(keys.error(key, what));
        }
        (None, None) => return Ok(None),
        (Some(secret), None) => secret.clone(),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot read {}: {error}", file.display());
                keys.error(&format!("{key}_file"), what)
            })?;
            Secret::new(text.trim())
        }
    };
    // A line break would end the header of the request.
    if secret.expose().is_empty() || secret.expose().contains(|c: char| c.is_control()) {
        return Err(keys.error(key, "is empty, or contains characters that no secret contains"));
    }
    Ok(Some(secret))
}

fn headers(config: &SinkConfig, keys: &Keys) -> Result<Vec<(String, Secret)>, ConfigError> {
    let mut headers = Vec::new();
    for (name, value) in &config.headers {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            let what = format!("'{name}' is no name of a header; use letters, digits and '-'");
            return Err(keys.error("headers", what));
        }
        let own = ["authorization", "content-type", "content-encoding", "content-length", "host"];
        if own.contains(&name.to_ascii_lowercase().as_str()) {
            let what = format!(
                "'{name}' is made by the sink; for credentials see `user`, `api_key` and `token`"
            );
            return Err(keys.error("headers", what));
        }
        if value.expose().contains(|c: char| c.is_control() || !c.is_ascii()) {
            let what =
                format!("the value of '{name}' contains characters that HTTP does not allow");
            return Err(keys.error("headers", what));
        }
        headers.push((name.clone(), value.clone()));
    }
    Ok(headers)
}
