//! Keeps other web pages out, and tells browsers what our page may do.
//!
//! - Host check: while we listen on loopback only, the `Host` must be a name of loopback. A page that has its own
//!   name resolve to 127.0.0.1 (DNS rebinding) is refused with 403.
//! - Cross-site check: a call that changes something (POST, DELETE) is refused with 403 when a browser says that
//!   another site made it. Programs send neither header and pass.
//! - Every answer carries a content security policy; text of logs cannot become code even if the page had a fault.

use axum::extract::{Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::{ApiError, ApiResult};

const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// What the guard has to know.
#[derive(Clone, Copy)]
pub struct Guard {
    /// Whether the listener is reachable from this machine only.
    pub loopback: bool,
}

/// The middleware around every route.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.admit(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

impl Guard {
    fn admit(self, method: &Method, headers: &HeaderMap) -> ApiResult<()> {
        let refuse = |message: &str| Err(ApiError::new(StatusCode::FORBIDDEN, message));
        let host = headers.get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        if self.loopback && !host.is_empty() && !is_loopback_name(host) {
            return refuse(
                "this server listens on loopback only and answers to localhost, 127.0.0.1 and [::1]; \
                           set http_listen to a reachable address to use another name",
            );
        }
        if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
        if site == Some(b"cross-site") || origin.is_some_and(|origin| !is_own(origin, host)) {
            return refuse("calls that change something are not taken from other web pages");
        }
        Ok(())
    }
}

/// Whether `host`, with or without a port, names loopback.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// Whether an `Origin` is the server that the request names as its host.
fn is_own(origin: &[u8], host: &str) -> bool {
    let name = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins() {
        let check = |loopback, method: Method, headers: &[(&'static str, &str)], admitted: bool| {
            let map =
                headers.iter().map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap())).collect();
            assert_eq!(
                Guard { loopback }.admit(&method, &map).is_ok(),
                admitted,
                "{method} {headers:?}"
            );
        };
        let (get, post) = (|| Method::GET, || Method::POST);
        for host in ["localhost", "LOCALHOST:9514", "127.0.0.1:1", "[::1]", "[::1]:9514"] {
            check(true, get(), &[("host", host)], true);
            check(true, post(), &[("host", host)], true);
        }
        for host in [
            "evil.example",
            "evil.example:9514",
            "127.0.0.1.evil.example",
            "localhost.evil:1",
            "::1",
        ] {
            check(true, get(), &[("host", host)], false);
            check(false, get(), &[("host", host)], true);
        }
        let own = ("host", "127.0.0.1:9514");
        check(true, post(), &[own, ("origin", "http://127.0.0.1:9514")], true);
        check(true, post(), &[own, ("sec-fetch-site", "same-origin")], true);
        check(true, post(), &[own, ("sec-fetch-site", "cross-site")], false);
        check(true, post(), &[own, ("origin", "http://evil.example")], false);
        check(true, post(), &[own, ("origin", "http://127.0.0.1:80")], false);
        check(true, post(), &[own, ("origin", "null")], false);
        check(true, Method::DELETE, &[own, ("origin", "null")], false);
        check(true, get(), &[own, ("sec-fetch-site", "cross-site")], true);
        check(false, post(), &[("host", "logs.example"), ("origin", "https://logs.example")], true);
    }
}
