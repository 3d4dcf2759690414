//! What the errors of the library mean, and what can be done about them.

use object_store::Error as StoreError;
use object_store::client::{HttpError, HttpErrorKind};

use super::Config;
use super::http::Busy;
use crate::error::{Error, ErrorKind};

/// Explains an error of a call that may be repeated, about the object `name` if there is one.
pub fn explain(error: &StoreError, name: &str, config: &Config) -> Error {
    let bucket = &config.bucket;
    let place = match name {
        "" => format!("bucket {bucket}"),
        name => format!("object {name} of bucket {bucket}"),
    };
    let text = hide(&error.to_string(), config);
    match error {
        StoreError::NotFound { .. } if text.contains("NoSuchBucket") => Error::new(
            ErrorKind::Refused,
            format!("there is no bucket {bucket}"),
            "create it, or correct `bucket`",
        ),
        StoreError::NotFound { .. } => {
            Error::new(ErrorKind::NotFound, format!("{place} is not there"), "")
        }
        StoreError::AlreadyExists { .. }
        | StoreError::Precondition { .. }
        | StoreError::NotModified { .. } => {
            Error::new(ErrorKind::Exists, format!("{place} exists already"), "")
        }
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => Error::new(
            ErrorKind::Refused,
            format!("{place}: the storage refuses access: {}", code(&text)),
            remedy_of_access(&text),
        ),
        _ => match http_error(error) {
            Some(found) => network(found, config),
            None if text.contains("InternalError") || text.contains("SlowDown") => {
                let what = format!("{place}: the storage is overloaded: {text}");
                Error::new(ErrorKind::OutcomeUnknown, what, "")
            }
            None => Error::new(
                ErrorKind::Refused,
                format!("{place}: {text}"),
                "check `endpoint`, `region` and `bucket`, and the log of the storage",
            ),
        },
    }
}

/// The error of the HTTP client below an error, if there is one.
fn http_error(error: &StoreError) -> Option<&HttpError> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<HttpError>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

fn network(error: &HttpError, config: &Config) -> Error {
    let at = config.endpoint.as_deref().unwrap_or("Amazon S3");
    let mut text = String::new();
    let mut source: Option<&dyn std::error::Error> = Some(error);
    let mut is_busy = false;
    while let Some(error) = source {
        is_busy |= error.downcast_ref::<Busy>().is_some();
        text = error.to_string();
        source = error.source();
    }
    let text = hide(&text, config);
    let check = "check that the storage runs, `endpoint` and the network";
    match error.kind() {
        _ if is_busy => {
            let what = format!("{text} at {at}");
            Error::new(ErrorKind::OutcomeUnknown, what, "see the log of the storage")
        }
        _ if text.contains("UnknownIssuer") => Error::new(
            ErrorKind::Refused,
            format!("{at} cannot be verified: {text}"),
            "if you trust the storage, give its certificate, or that of its CA, with `ca`",
        ),
        _ if text.contains("InvalidContentType") || text.contains("corrupt message") => Error::new(
            ErrorKind::Refused,
            format!("{at}: {text}"),
            "it seems to speak no TLS there; write http:// if that is meant",
        ),
        // Nothing was sent.
        HttpErrorKind::Connect => {
            Error::new(ErrorKind::Retriable, format!("no storage answers at {at}: {text}"), check)
        }
        HttpErrorKind::Timeout => {
            let what = format!("{at} did not answer in time: {text}");
            Error::new(ErrorKind::OutcomeUnknown, what, check)
        }
        _ => Error::new(
            ErrorKind::OutcomeUnknown,
            format!("the connection to {at} broke: {text}"),
            check,
        ),
    }
}

/// The code in an error of S3, or all of the text.
fn code(text: &str) -> &str {
    let between = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    between.map_or(text, |(code, _)| code)
}

fn remedy_of_access(text: &str) -> &'static str {
    match code(text) {
        "InvalidAccessKeyId" => "check the access key",
        "SignatureDoesNotMatch" => "check the secret key and `region`",
        "RequestTimeTooSkewed" => "set the clock of this machine",
        "ExpiredToken" => "give new credentials",
        _ => "permit the user to list, read, write and delete objects of the bucket",
    }
}

/// `text` without secrets: servers repeat parts of requests in their errors.
fn hide(text: &str, config: &Config) -> String {
    let hidden = config.credentials.secret.hidden_in(text);
    match &config.credentials.token {
        Some(token) => token.hidden_in(&hidden),
        None => hidden,
    }
}
