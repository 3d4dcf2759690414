//! Refuses requests of other web pages, and restricts what browsers let our page do.
//!
//! Every request is checked before its route, upgrades to WebSockets included:
//!
//! - **Host.** The host that a request names must be one of this server's. A page that makes its
//!   own name resolve to our address (DNS rebinding) is refused with 403. Known names are those of
//!   loopback and `http_hosts`. An address cannot be rebound, so any address passes if the listener
//!   is reachable from other machines; on loopback, only addresses of loopback pass.
//! - **Origin.** A browser adds `Origin` to a request of a web page that may change something, read
//!   the response, or open a WebSocket. It must be the origin of our page: the host and port that
//!   the request names, or one of `http_hosts`, which is how a page reaches us through a proxy that
//!   changes `Host`.
//! - **Site.** A request that another site or origin made, according to the browser
//!   (`Sec-Fetch-Site`), is refused, even if it only reads: an `<img>` would run a query. A link to
//!   the page itself may be anywhere, and a provider of logins sends the browser back to
//!   [`oidc::is_callback`].
//!
//! Programs send neither `Origin` nor `Sec-Fetch-Site` and pass. Every response has a content
//! security policy, so text of logs cannot become code even if the page had a bug. Browsers do not
//! store responses, and other origins cannot embed them.
//!
//! Left out: `X-Forwarded-Host` and `Forwarded`, which anybody can send; and a login.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::authority::{Authority, Host};
use crate::access::oidc;
use crate::wire::error::ApiError;

/// Without `frame-ancestors`, which depend on the configuration.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors ";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const FETCH_SITE: &str = "sec-fetch-site";
/// Refused hosts and origins that are named in our log, each once. Further ones are only counted,
/// so that a stranger cannot fill the log or memory with invented names.
const NAMES_LOGGED_MAX: usize = 64;

/// Checks requests. Clones share the counters.
#[derive(Clone)]
pub struct Guard(Arc<Shared>);

struct Shared {
    /// Whether the listener is reachable from this machine only.
    loopback: bool,
    /// Names of this server besides those of loopback, each with its port if it is not the default
    /// of its scheme.
    hosts: Vec<Authority>,
    /// The policy of every response.
    policy: HeaderValue,
    /// Whether pages of other origins may show the page in a frame.
    framed: bool,
    refused: [AtomicU64; Reason::ALL.len()],
    logged: Mutex<HashSet<String>>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It names no host, several, or one that cannot be parsed.
    Malformed,
    /// It names a host that is not this server.
    Host,
    /// The page of another origin made it.
    Origin,
    /// The browser says that another site made it.
    Site,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 4] = [Reason::Malformed, Reason::Host, Reason::Origin, Reason::Site];

    /// The reason's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::Host => "host",
            Reason::Origin => "origin",
            Reason::Site => "site",
        }
    }
}

struct Refusal {
    reason: Reason,
    message: String,
    /// What the operator should be told once, keyed by the name it is about.
    log: Option<(String, String)>,
}

impl Refusal {
    fn new(reason: Reason, message: impl Into<String>) -> Refusal {
        Refusal { reason, message: message.into(), log: None }
    }
}

/// The middleware around every route.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => guard.refuse(refusal, &request),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, guard.0.policy.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // It cannot name origins. Browsers that know `frame-ancestors` do not read it.
    if !guard.0.framed {
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Only files of the page set how long they may be cached.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

impl Guard {
    /// For a listener at this address that is also known by the names `hosts`. Pages of the origins
    /// `frame_ancestors` may show the page in a frame.
    pub fn new(address: SocketAddr, hosts: &[Authority], frame_ancestors: &[String]) -> Guard {
        let ancestors = match frame_ancestors {
            [] => "'none'".to_owned(),
            origins => format!("'self' {}", origins.join(" ")),
        };
        let policy = HeaderValue::try_from(format!("{POLICY}{ancestors}"));
        Guard(Arc::new(Shared {
            policy: policy.expect("the origins were checked"),
            framed: !frame_ancestors.is_empty(),
            loopback: address.ip().to_canonical().is_loopback(),
            hosts: hosts.to_vec(),
            refused: Default::default(),
            logged: Mutex::default(),
        }))
    }

    /// Requests refused so far.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.0.refused[reason as usize].load(Relaxed)
    }

    fn refuse(&self, refusal: Refusal, request: &Request) -> Response {
        self.0.refused[refusal.reason as usize].fetch_add(1, Relaxed);
        if let Some((name, text)) = refusal.log
            && self.is_news(name)
        {
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let peer = peer.map_or_else(String::new, |ConnectInfo(peer)| format!(" (from {peer})"));
            tracing::warn!("{text}{peer}");
        }
        let status = match refusal.reason {
            Reason::Malformed => StatusCode::BAD_REQUEST,
            Reason::Host | Reason::Origin | Reason::Site => StatusCode::FORBIDDEN,
        };
        ApiError::new(status, refusal.message).into_response()
    }

    /// Whether this is the first time that the name occurs, and it may be logged.
    fn is_news(&self, name: String) -> bool {
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < NAMES_LOGGED_MAX && logged.insert(name)
    }

    fn admit(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = self.host(request)?;
        self.check_origin(headers, host.as_ref())?;
        check_site(request.method(), request.uri().path(), headers, self.0.framed)
    }

    /// The host that a request names, if it is one of ours.
    fn host(&self, request: &Request) -> Result<Option<Authority>, Refusal> {
        let malformed = |message: &str| Refusal::new(Reason::Malformed, message);
        let parse = |text: &[u8]| {
            Authority::parse(text)
                .ok_or_else(|| malformed("the host of the request is not HOST:PORT"))
        };
        let mut fields = request.headers().get_all(HOST).iter();
        let field = fields.next();
        if fields.next().is_some() {
            return Err(malformed("the request has several Host headers"));
        }
        let field = match field.map(HeaderValue::as_bytes) {
            // In HTTP/2 the target names the host.
            None if request.version() > Version::HTTP_10 && !names_host_by_target(request) => {
                return Err(malformed("the request has no Host header"));
            }
            None | Some(b"") => None,
            Some(text) => Some(parse(text)?),
        };
        // The target of a request through a proxy (`GET http://host/path`) precedes Host; both must
        // be ours, so it does not matter which one an intermediary relied on.
        let target =
            request.uri().authority().map(|authority| parse(authority.as_str().as_bytes()));
        let target = target.transpose()?;
        for host in [&field, &target].into_iter().flatten() {
            self.check_host(host)?;
        }
        Ok(target.or(field))
    }

    fn check_host(&self, authority: &Authority) -> Result<(), Refusal> {
        let host = &authority.host;
        let is_address = matches!(host, Host::Ip(_)) && !self.0.loopback;
        let is_configured = || self.0.hosts.iter().any(|known| known.host == *host);
        if host.is_loopback() || is_address || is_configured() {
            return Ok(());
        }
        let listens = match self.0.loopback {
            true => {
                "it listens on loopback only and answers to localhost and to addresses of loopback"
            }
            false => "it answers to its addresses, to localhost",
        };
        let message = format!(
            "this server does not know the name '{host}': {listens} and to the names in \
            http_hosts; if '{host}' is a \
             name of this server or of a proxy in front of it, start it with --http-host {host}, \
             or add it to http_hosts \
             in its configuration"
        );
        let log = format!(
            "HTTP requests for the host '{host}' are refused; if that is a name of this server, \
            add it to http_hosts"
        );
        Err(Refusal {
            log: Some((format!("host {host}"), log)),
            ..Refusal::new(Reason::Host, message)
        })
    }

    fn check_origin(&self, headers: &HeaderMap, host: Option<&Authority>) -> Result<(), Refusal> {
        let mut fields = headers.get_all(ORIGIN).iter();
        let Some(field) = fields.next() else { return Ok(()) };
        let refuse = |message: &str| Err(Refusal::new(Reason::Origin, message));
        if fields.next().is_some() {
            return refuse("the request has several Origin headers");
        }
        let Some((origin, port)) = parse_origin(field.as_bytes()) else {
            return refuse(
                "requests of other web pages are refused: the Origin is not this server's",
            );
        };
        let is_own = |known: &Authority| origin.is_same(known, port);
        if host.is_some_and(is_own) || self.0.hosts.iter().any(is_own) {
            return Ok(());
        }
        let message = format!(
            "requests of other web pages are refused, and this one comes from a page at {origin}; \
            if that is the address of \
             a proxy in front of this server, start it with --http-host {origin}, or add that to \
             http_hosts in its \
             configuration"
        );
        let log = format!(
            "HTTP requests of web pages at {origin} are refused; if that is the address of a \
            proxy in front of this \
             server, add it to http_hosts"
        );
        let log = Some((format!("origin {origin}"), log));
        Err(Refusal { log, ..Refusal::new(Reason::Origin, message) })
    }
}

/// The host of `http://host` or `https://host:port`, and the port that its scheme implies.
fn parse_origin(origin: &[u8]) -> Option<(Authority, u16)> {
    let split = |scheme: &[u8], port| Some((origin.strip_prefix(scheme)?, port));
    let (host, port) = split(b"https://", 443).or_else(|| split(b"http://", 80))?;
    Some((Authority::parse(host)?, port))
}

fn names_host_by_target(request: &Request) -> bool {
    request.version() == Version::HTTP_2 && request.uri().authority().is_some()
}

/// Refuses requests that another origin made according to the browser, except links to the page,
/// and frames with it where it is `framed`.
fn check_site(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    framed: bool,
) -> Result<(), Refusal> {
    let says = |name: &str, expected: &[u8]| {
        headers.get_all(name).iter().all(|value| value.as_bytes() == expected)
    };
    // "none": the user typed the address, or opened a bookmark.
    if says(FETCH_SITE, b"same-origin") || says(FETCH_SITE, b"none") {
        return Ok(());
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let navigates = headers.contains_key("sec-fetch-mode")
        && says("sec-fetch-mode", b"navigate")
        && (says("sec-fetch-dest", b"document") || framed && says("sec-fetch-dest", b"iframe"));
    match reads && navigates && (is_document(path) || oidc::is_callback(path)) {
        true => Ok(()),
        false => Err(Refusal::new(
            Reason::Site,
            "another web page made this request; it may only link to the page of this \
            server at /",
        )),
    }
}

/// Whether a path is that of the page itself, to which other sites may link, and not of one of its
/// parts.
fn is_document(path: &str) -> bool {
    matches!(path, "/" | "/index.html")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// Parses `GET / Host: h` and further fields, one per line; returns why it is refused.
    fn refusal(guard: &Guard, text: &str) -> Option<Reason> {
        let mut lines = text.lines().map(str::trim);
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let (target, old) = match target.strip_suffix(" HTTP/1.0") {
            Some(target) => (target, true),
            None => (target, false),
        };
        let mut request = axum::http::Request::builder().method(method).uri(target);
        if old {
            request = request.version(Version::HTTP_10);
        }
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            request = request.header(name, value.trim());
        }
        guard.admit(&request.body(Body::empty()).unwrap()).err().map(|refusal| refusal.reason)
    }

    fn guard(address: &str, hosts: &[&str]) -> Guard {
        let hosts: Vec<Authority> =
            hosts.iter().map(|host| Authority::parse(host.as_bytes()).unwrap()).collect();
        Guard::new(address.parse().unwrap(), &hosts, &[])
    }

    #[test]
    fn hosts() {
        let loopback = guard("127.0.0.1:9514", &[]);
        let mapped = guard("[::ffff:127.0.0.1]:9514", &[]);
        let open = guard("0.0.0.0:9514", &[]);
        let named = guard("10.0.0.1:9514", &["logs.example", "10.9.9.9"]);
        for (host, at_loopback, at_open, at_named) in [
            ("localhost", true, true, true),
            ("LOCALHOST.:9514", true, true, true),
            ("127.0.0.1:1", true, true, true),
            ("[::1]:9514", true, true, true),
            ("[::ffff:127.0.0.1]", true, true, true),
            ("10.1.2.3:9514", false, true, true),
            ("[2001:db8::1]", false, true, true),
            ("0.0.0.0", false, true, true),
            ("logs.example", false, false, true),
            ("Logs.Example.:443", false, false, true),
            ("evil.example", false, false, false),
            ("x.logs.example", false, false, false),
            ("127.0.0.1.evil.example", false, false, false),
            ("localhost.evil:1", false, false, false),
            ("2130706433", false, false, false),
            ("0x7f.1", false, false, false),
        ] {
            for (guard, admitted) in [
                (&loopback, at_loopback),
                (&mapped, at_loopback),
                (&open, at_open),
                (&named, at_named),
            ] {
                let expected = (!admitted).then_some(Reason::Host);
                for path in ["/", "/select/logsql/query?query=*", "/loki/api/v1/tail"] {
                    assert_eq!(
                        refusal(guard, &format!("GET {path}\nHost: {host}")),
                        expected,
                        "{host}"
                    );
                }
            }
        }
    }

    #[test]
    fn hosts_that_are_missing_doubled_or_no_hosts() {
        let guard = guard("127.0.0.1:9514", &[]);
        let malformed = Some(Reason::Malformed);
        for (text, expected) in [
            ("GET /health", malformed),
            ("GET /health HTTP/1.0", None),
            ("GET /health\nHost:", None),
            ("POST /insert/lines\nHost:\nOrigin: http://localhost", Some(Reason::Origin)),
            ("GET /\nHost: localhost\nHost: localhost", malformed),
            ("GET /\nHost: localhost\nHost: evil.example", malformed),
            ("GET / HTTP/1.0\nHost: localhost\nHost: evil.example", malformed),
            ("GET /\nHost: user@localhost", malformed),
            ("GET /\nHost: ::1", malformed),
            ("GET /\nHost: localhost/x", malformed),
            ("GET http://localhost:9514/\nHost: localhost:9514", None),
            ("GET http://localhost:9514/", malformed),
            ("GET http://evil.example/\nHost: localhost", Some(Reason::Host)),
            ("GET http://localhost/\nHost: evil.example", Some(Reason::Host)),
            ("GET http://localhost@evil.example/\nHost: localhost", malformed),
            ("CONNECT evil.example:80\nHost: localhost", Some(Reason::Host)),
            ("GET /\nHost: evil.example\nX-Forwarded-Host: localhost", Some(Reason::Host)),
            ("GET /\nHost: evil.example\nForwarded: host=localhost", Some(Reason::Host)),
        ] {
            assert_eq!(refusal(&guard, text), expected, "{text}");
        }
    }

    #[test]
    fn origins() {
        let guard = guard("0.0.0.0:9514", &["logs.example", "other.example:8443"]);
        for (host, origin, admitted) in [
            ("10.0.0.1:9514", "http://10.0.0.1:9514", true),
            ("[::1]:9514", "http://[::1]:9514", true),
            ("10.0.0.1", "http://10.0.0.1:80", true),
            ("10.0.0.1:9514", "http://10.0.0.1", false),
            ("10.0.0.1:9514", "http://10.0.0.1:9515", false),
            ("10.0.0.1:9514", "http://evil.example", false),
            ("10.0.0.1:9514", "http://localhost:9514", false),
            // A proxy that speaks HTTPS and passes Host on, with or without its port.
            ("logs.example", "https://logs.example", true),
            ("logs.example:443", "https://logs.example", true),
            ("LOGS.example.", "https://logs.example", true),
            ("logs.example:8443", "https://logs.example:8443", true),
            // A proxy that changes Host.
            ("127.0.0.1:9514", "https://logs.example", true),
            ("127.0.0.1:9514", "https://other.example:8443", true),
            ("127.0.0.1:9514", "https://other.example", false),
            ("127.0.0.1:9514", "https://logs.example:8443", false),
            ("127.0.0.1:9514", "https://logs.example.evil", false),
            ("127.0.0.1:9514", "https://evil@logs.example", false),
            ("127.0.0.1:9514", "https://logs.example/", false),
            ("127.0.0.1:9514", "ftp://logs.example", false),
            ("127.0.0.1:9514", "chrome-extension://abc", false),
            ("127.0.0.1:9514", "logs.example", false),
            ("127.0.0.1:9514", "null", false),
            ("127.0.0.1:9514", "", false),
        ] {
            let expected = (!admitted).then_some(Reason::Origin);
            for method in ["GET", "POST", "DELETE", "OPTIONS"] {
                let text = format!("{method} /loki/api/v1/tail\nHost: {host}\nOrigin: {origin}");
                assert_eq!(refusal(&guard, &text), expected, "{text}");
            }
        }
        let both = "GET /\nHost: 10.0.0.1\nOrigin: http://10.0.0.1\nOrigin: http://10.0.0.1";
        assert_eq!(refusal(&guard, both), Some(Reason::Origin));
        let forwarded = "GET /\nHost: 10.0.0.1\nOrigin: https://x\nX-Forwarded-Host: x";
        assert_eq!(refusal(&guard, forwarded), Some(Reason::Origin));
    }

    #[test]
    fn sites() {
        let guard = guard("127.0.0.1:9514", &[]);
        let link = "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document";
        for site in ["cross-site", "same-site", "CROSS-SITE", "", "new-word"] {
            let check = |line: &str, more: &str, admitted: bool| {
                let text = format!("{line}\nHost: localhost\nSec-Fetch-Site: {site}\n{more}");
                let expected = (!admitted).then_some(Reason::Site);
                assert_eq!(refusal(&guard, text.trim()), expected, "{text}");
            };
            check("GET /?q=error", link, true);
            check("HEAD /index.html", link, true);
            check("POST /", link, false);
            check("GET /select/logsql/query?query=*", link, false);
            check("GET /api/v1/export?format=raw", link, false);
            check("GET /metrics", link, false);
            check("GET //", link, false);
            check("GET /assets/index.js", link, false);
            check("GET /", "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe", false);
            check("GET /", "Sec-Fetch-Mode: no-cors\nSec-Fetch-Dest: document", false);
            check("GET /", "", false);
        }
        let origins = ["https://wiki.example".to_owned(), "http://10.0.0.9:8080".to_owned()];
        let framed = Guard::new("127.0.0.1:9514".parse().unwrap(), &[], &origins);
        let frame = "Host: localhost\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\n\
                     Sec-Fetch-Dest: iframe";
        for (line, admitted) in
            [("GET /?embed=1", true), ("GET /metrics", false), ("POST /", false)]
        {
            assert_eq!(refusal(&framed, &format!("{line}\n{frame}")).is_none(), admitted, "{line}");
        }
        let policy = framed.0.policy.to_str().unwrap();
        assert!(
            policy.ends_with("frame-ancestors 'self' https://wiki.example http://10.0.0.9:8080"),
            "{policy}"
        );
        for site in ["same-origin", "none"] {
            let text = format!("POST /api/v1/queries\nHost: localhost\nSec-Fetch-Site: {site}");
            assert_eq!(refusal(&guard, &text), None);
            let both = format!("{text}\nSec-Fetch-Site: cross-site");
            assert_eq!(refusal(&guard, &both), Some(Reason::Site));
        }
    }

    #[test]
    fn strangers_cannot_fill_the_log() {
        let guard = guard("127.0.0.1:9514", &[]);
        assert!(guard.is_news("a".into()) && !guard.is_news("a".into()));
        let news = (0..1_000).filter(|n| guard.is_news(n.to_string())).count();
        assert_eq!(news, NAMES_LOGGED_MAX - 1);
    }
}
