//! What the errors of the library mean, and what can be done about them.

use object_store::Error as StoreError;
use object_store::client::{HttpError, HttpErrorKind};

use super::Config;
use super::credentials::NoRole;
use super::http::Busy;
use crate::engines::error::{Error, ErrorKind};

const PERMIT: &str = "permit the user to list, read, write and delete objects of the bucket";

/// Explains an error of a call that may be repeated, about the object `name` if there is one.
pub fn explain(error: &StoreError, name: &str, config: &Config) -> Error {
    let bucket = &config.bucket;
    let place = match name {
        "" => format!("bucket {bucket}"),
        name => format!("object {name} of bucket {bucket}"),
    };
    let text = hide(&error.to_string(), config);
    // The library tells some errors by their text alone.
    let code = code(&text).unwrap_or_default();
    if code == "NoSuchBucket" {
        let what = format!("there is no bucket {bucket}");
        return Error::new(ErrorKind::Refused, what, "create it, or correct `bucket`");
    }
    if let Some(remedy) = remedy_of_access(code) {
        let what = format!("{place}: the storage refuses access: {code}");
        return Error::new(ErrorKind::Refused, what, remedy);
    }
    match error {
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
            format!("{place}: the storage refuses access: {text}"),
            PERMIT,
        ),
        _ => match source_of::<HttpError>(error) {
            _ if source_of::<NoRole>(error).is_some() => Error::new(
                ErrorKind::Retriable,
                format!("{place}: {text}"),
                "check the service account of this process, or the role of this machine",
            ),
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

/// The error of this type below an error, if there is one.
fn source_of<E: std::error::Error + 'static>(error: &StoreError) -> Option<&E> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<E>() {
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

/// The code in an error of S3, if there is one.
fn code(text: &str) -> Option<&str> {
    Some(text.split_once("<Code>")?.1.split_once("</Code>")?.0)
}

/// What to do about a code that is about who may do what; `None` for other codes.
fn remedy_of_access(code: &str) -> Option<&'static str> {
    match code {
        "InvalidAccessKeyId" | "XAdminUserNotFound" => Some("check the access key"),
        "SignatureDoesNotMatch" => Some("check the secret key and `region`"),
        "RequestTimeTooSkewed" => Some("set the clock of this machine"),
        "ExpiredToken" | "InvalidToken" => Some("give new credentials"),
        "AccessDenied" => Some(PERMIT),
        _ => None,
    }
}

/// `text` without secrets: servers repeat parts of requests in their errors.
fn hide(text: &str, config: &Config) -> String {
    let mut text = config.credentials.hidden_in(text);
    // An error about temporary credentials has their token in an element of this name.
    while let Some((before, rest)) = text.split_once("<Token-")
        && let Some((_, after)) = rest.split_once("</Token-")
    {
        text = format!("{before}[secret]<{after}");
    }
    text
}
