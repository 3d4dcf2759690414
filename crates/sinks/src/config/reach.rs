//! Checks how servers are reached over HTTP: addresses, credentials, time limits.

use std::path::PathBuf;
use std::time::Duration;

use ureq::http::Uri;

use super::SinkConfig;
use super::check::{ConfigError, Keys};
use crate::http::compress::Encoding;
use crate::http::{ClientOptions, Credentials};
use cluster::engines::Secret;

/// Bytes of a request before compression. Elasticsearch refuses more than 100 MB.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// The longest time for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest time for a request and its response.
const REQUEST: Duration = Duration::from_secs(60);

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
    Ok(Reach {
        client: ClientOptions {
            urls: urls?,
            credentials: credentials(config, keys)?,
            headers: headers(config, keys)?,
            ca: config.ca.clone(),
            connect_time_max: keys.duration("connect_timeout", &config.connect_timeout, CONNECT)?,
            request_time_max: keys.duration("timeout", &config.timeout, REQUEST)?,
        },
        body_bytes_max: body_bytes_max(config, keys)?,
        encoding: keys.choice("compression", &config.compression, &encodings)?,
    })
}

/// How brokers of Kafka are reached, with those of the keys that are not about HTTP.
pub struct KafkaReach {
    pub login: Option<(String, Secret)>,
    pub connect_time_max: Duration,
    pub request_time_max: Duration,
    pub body_bytes_max: usize,
    pub encoding: Encoding,
}

/// Checks the keys that Kafka shares with destinations over HTTP.
pub fn check_kafka(config: &SinkConfig, keys: &Keys) -> Result<KafkaReach, ConfigError> {
    for (key, is_given) in [
        ("urls", !config.urls.is_empty()),
        ("api_key", config.api_key.is_some()),
        ("api_key_file", config.api_key_file.is_some()),
        ("api_key_env", config.api_key_env.is_some()),
        ("token", config.token.is_some()),
        ("token_file", config.token_file.is_some()),
        ("token_env", config.token_env.is_some()),
        ("headers", !config.headers.is_empty()),
    ] {
        if is_given {
            let what = "is for destinations that are reached over HTTP; remove it";
            return Err(keys.error(key, what));
        }
    }
    let login = match credentials(config, keys)? {
        Credentials::Basic { user, password } => Some((user, password)),
        Credentials::None | Credentials::ApiKey(_) | Credentials::Bearer(_) => None,
    };
    let encodings = [("gzip", Encoding::Gzip), ("none", Encoding::Plain), ("zstd", Encoding::Zstd)];
    Ok(KafkaReach {
        login,
        connect_time_max: keys.duration("connect_timeout", &config.connect_timeout, CONNECT)?,
        request_time_max: keys.duration("timeout", &config.timeout, REQUEST)?,
        body_bytes_max: body_bytes_max(config, keys)?,
        encoding: keys.choice("compression", &config.compression, &encodings)?,
    })
}

fn body_bytes_max(config: &SinkConfig, keys: &Keys) -> Result<usize, ConfigError> {
    let range = (1 << 10, 95 << 20);
    Ok(keys.bytes("body_bytes_max", &config.body_bytes_max, BODY_BYTES_MAX, range)? as usize)
}

/// Checks that none of these keys is given, for destinations that are not reached over HTTP.
pub fn check_absent(config: &SinkConfig, keys: &Keys) -> Result<(), ConfigError> {
    for (key, is_given) in [
        ("urls", !config.urls.is_empty()),
        ("user", config.user.is_some()),
        ("password", config.password.is_some()),
        ("password_file", config.password_file.is_some()),
        ("password_env", config.password_env.is_some()),
        ("api_key", config.api_key.is_some()),
        ("api_key_file", config.api_key_file.is_some()),
        ("api_key_env", config.api_key_env.is_some()),
        ("token", config.token.is_some()),
        ("token_file", config.token_file.is_some()),
        ("token_env", config.token_env.is_some()),
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
    let password =
        secret(keys, "password", &config.password, &config.password_file, &config.password_env)?;
    let api_key =
        secret(keys, "api_key", &config.api_key, &config.api_key_file, &config.api_key_env)?;
    let token = secret(keys, "token", &config.token, &config.token_file, &config.token_env)?;
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

/// A secret that is given itself, by a file or by a variable of the environment.
fn secret(
    keys: &Keys,
    key: &str,
    given: &Option<Secret>,
    file: &Option<PathBuf>,
    variable: &Option<String>,
) -> Result<Option<Secret>, ConfigError> {
    let secret = match (given, file, variable) {
        (None, None, None) => return Ok(None),
        (Some(secret), None, None) => secret.clone(),
        (None, None, Some(variable)) => {
            let text = std::env::var(variable).map_err(|_| {
                let what = format!("the environment has no variable '{variable}' with a text");
                keys.error(&format!("{key}_env"), what)
            })?;
            Secret::new(text.trim())
        }
        (None, Some(file), None) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot read {}: {error}", file.display());
                keys.error(&format!("{key}_file"), what)
            })?;
            Secret::new(text.trim())
        }
        _ => {
            let what = format!("give it once: here, by `{key}_file` or by `{key}_env`");
            return Err(keys.error(key, what));
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
