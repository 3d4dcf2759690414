//! The check of parameters and headers between the gate and the handler of a route, with errors as
//! the client expects them.

use std::borrow::Cow;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::known::{check, check_headers};
use crate::loki;

/// The middleware around every handler, behind the gate: checks parameters in the URL, and headers. Forms are checked
/// where they are parsed.
pub async fn parameters(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        form_urlencoded::parse(query.as_bytes()).collect();
    let checked = check(path, pairs.iter().map(|(name, value)| (&**name, &**value)))
        .and_then(|()| check_headers(path, request.headers()));
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) if path.starts_with("/loki/") => loki::refused(error),
        Err(error) => error.into_response(),
    }
}
