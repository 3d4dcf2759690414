//! Errors as the API shows them: a status and `{"error":"what went wrong and what to do"}`.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use query::{ParseError, QueueError};
use serde_json::{Map, Value};

use node::process::disk_full::is_disk_full;
use node::saved_views::documents::DocumentError;

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    body: Map<String, Value>,
    retry_after_s: Option<u32>,
}

/// The result of a handler.
pub type ApiResult<T = Response> = Result<T, ApiError>;

impl ApiError {
    /// An error with its message, which should name the remedy.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut body = Map::new();
        body.insert("error".into(), Value::String(message.into()));
        ApiError { status, body, retry_after_s: None }
    }

    /// 400: the client has to change the request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::NOT_FOUND, message)
    }

    /// 503: the request may succeed later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 500: the disk failed, or there is a bug in Loginson.
    pub fn internal(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 507 if the disk is full, which the client, or the operator, can mend; else 500. `message` is
    /// the text of `error`, perhaps with its causes.
    pub fn of_disk(message: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> Self {
        let message = message.into();
        if !is_disk_full(error) {
            return ApiError::internal(message);
        }
        ApiError::new(
            StatusCode::INSUFFICIENT_STORAGE,
            format!(
                "{message}; nothing was changed. Free some space on the server's disk, then try again"
            ),
        )
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Sets the time after which the request should be sent again.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Adds a field next to `error`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.body.insert(name.into(), value.into());
        self
    }
}

impl From<DocumentError> for ApiError {
    fn from(error: DocumentError) -> ApiError {
        let status = match &error {
            DocumentError::Kept(_) => return ApiError::of_disk(error.to_string(), &error),
            DocumentError::NotFound(_) => StatusCode::NOT_FOUND,
            DocumentError::Invalid(_) => StatusCode::BAD_REQUEST,
            DocumentError::Changed { .. } | DocumentError::Full(_) | DocumentError::Provided(_) => {
                StatusCode::CONFLICT
            }
        };
        ApiError::new(status, error.to_string())
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.body["error"].as_str().unwrap_or_default())
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// The error as plain text, which clients of Loki expect.
    pub fn into_text(self) -> Response {
        let text = format!("{self}\n");
        let mut response = self.into_response();
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        *response.body_mut() = text.into();
        response
    }

    /// The error with the body that clients of another product expect; status and headers stay.
    pub fn in_form(self, body: Value) -> Response {
        let mut response = self.into_response();
        *response.body_mut() = body.to_string().into();
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self.body).expect("maps of values are JSON");
        let mut response =
            (self.status, [(CONTENT_TYPE, "application/json")], body + "\n").into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// 400, with the position in the query.
pub fn wrong_query(error: ParseError) -> ApiError {
    let mut message = error.message;
    if !error.expected.is_empty() {
        message.push_str(&format!("; expected {}", error.expected.join(" or ")));
    }
    ApiError::bad_request(message)
        .with("position", error.position)
        .with("expected", error.expected)
        .with("query", error.query)
}

/// 429 when the queue is full, 503 when it is closed.
pub fn queue_refusal(error: QueueError) -> ApiError {
    let status = match error {
        QueueError::Full(_)
        | QueueError::WaitedTooLong(_)
        | QueueError::BackgroundFull(_)
        | QueueError::ExportWaitedTooLong(_)
        | QueueError::TailsFull(_)
        | QueueError::ShareTaken(..)
        | QueueError::OwnLimit(..)
        | QueueError::KeptForOperators(..) => StatusCode::TOO_MANY_REQUESTS,
        QueueError::PausedTooLong(_) | QueueError::Cancelled | QueueError::Closed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    ApiError::new(status, error.to_string())
}

/// 405, as JSON like every error.
pub async fn wrong_method(method: Method) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("this call does not take {method}; docs/api.md lists the methods of each call"),
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_507_and_another_fault_500() {
        for (kind, status) in [
            (io::ErrorKind::StorageFull, 507),
            (io::ErrorKind::QuotaExceeded, 507),
            (io::ErrorKind::PermissionDenied, 500),
        ] {
            let error = ApiError::from(DocumentError::Kept(io::Error::new(kind, "/d/a.json: x")));
            assert_eq!(error.status().as_u16(), status);
            let text = error.to_string();
            assert!(text.contains("/d/a.json"), "{text}");
            assert_eq!(text.contains("Free some space"), status == 507, "{text}");
        }
    }
}
