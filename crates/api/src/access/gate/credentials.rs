//! Finds the caller of a request by its credentials.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use axum::http::header::{AUTHORIZATION, COOKIE, ORIGIN, USER_AGENT, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use subtle::ConstantTimeEq;

use super::hashing::marked;
use super::{Gate, Refused};
use crate::access::audit;
use crate::access::principal::Principal;
use crate::access::secrets::sha256;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Cookies with our name that are looked at. Another server on this host can set cookies of the
/// same name; the further ones are ignored.
pub(super) const COOKIES_MAX: usize = 4;
/// Schemes of the `Authorization` header whose credentials are a token: those of Splunk's and
/// InfluxDB's senders beside our own.
pub(super) const SCHEMES: [&[u8]; 3] = [b"bearer", b"splunk", b"token"];
/// Headers in which senders of other products give a token: those of Datadog and of Amazon Data
/// Firehose.
pub(super) const KEYS: [&str; 2] = ["dd-api-key", "x-amz-firehose-access-key"];

/// Adds `WWW-Authenticate` to an answer of 401. Browsers are not offered Basic: they would show
/// their own password dialog over the login of the page.
pub(super) fn challenge(error: ApiError, headers: &HeaderMap) -> Response {
    let status = error.status();
    let mut response = error.into_response();
    if status == StatusCode::UNAUTHORIZED {
        let agent = headers.get(USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
        let is_browser = agent.starts_with(b"Mozilla/") || headers.contains_key("sec-fetch-site");
        let schemes = match is_browser {
            true => "Bearer realm=\"Loginson\"",
            false => "Basic realm=\"Loginson\", charset=\"UTF-8\", Bearer realm=\"Loginson\"",
        };
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(schemes));
    }
    response
}

impl Gate {
    /// Identifies the caller of a request. A request without credentials has the principal
    /// [`Principal::nobody`].
    ///
    /// # Errors
    /// 401 for wrong credentials, 403 for a cookie without `Origin`, and the errors of
    /// [`Gate::by_password`].
    pub async fn identify(
        &self,
        method: &Method,
        headers: &HeaderMap,
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        if self.is_off() {
            return Ok(Principal::anybody());
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        if let Some(credentials) = given.next() {
            if given.next().is_some() {
                self.count(Refused::Wrong);
                return Err(unauthorized("the request has several Authorization headers"));
            }
            return self.by_authorization(credentials.as_bytes(), peer).await;
        }
        if let Some(key) = KEYS.iter().find_map(|name| headers.get(*name)) {
            let found = self.by_token(None, key.as_bytes());
            return found.ok_or_else(|| self.failed(peer, "a key", "it is not known"));
        }
        let cookies: Vec<&[u8]> = self.cookies(headers).collect();
        let mut found = None;
        for cookie in cookies {
            found = self.by_session(cookie, peer).await;
            if found.is_some() {
                break;
            }
        }
        let Some(principal) = found else { return Ok(Principal::nobody()) };
        self.check_origin(method, headers)?;
        Ok(principal)
    }

    /// Refuses a call that changes something and is identified by what a browser adds by itself, if
    /// it does not say which page made it.
    pub(super) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> ApiResult<()> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if reads || headers.contains_key(ORIGIN) {
            return Ok(());
        }
        self.count(Refused::Forbidden);
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "a call with the cookie of a login that changes something must come from the page (it \
             has no Origin), as one by a proxy that logs in must; programs send a token instead",
        ))
    }

    /// The values of cookies with our name.
    pub fn cookies<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
        let fields = headers
            .get_all(COOKIE)
            .iter()
            .flat_map(|field| field.as_bytes().split(|&byte| byte == b';').map(<[u8]>::trim_ascii));
        let own = fields
            .filter_map(|field| field.strip_prefix(self.0.cookie.as_bytes())?.strip_prefix(b"="));
        own.take(COOKIES_MAX)
    }

    pub(super) async fn by_authorization(
        &self,
        credentials: &[u8],
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        let scheme_ends = credentials.iter().position(|&byte| byte == b' ');
        let (scheme, rest) = credentials.split_at(scheme_ends.unwrap_or(credentials.len()));
        let rest = rest.trim_ascii();
        if SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return self
                .by_token(None, rest)
                .ok_or_else(|| self.failed(peer, "a token", "it is not known"));
        }
        if !scheme.eq_ignore_ascii_case(b"basic") {
            self.count(Refused::Wrong);
            return Err(unauthorized(
                "the Authorization header is neither Basic nor Bearer nor Splunk nor Token",
            ));
        }
        let decoded = STANDARD.decode(rest).unwrap_or_default();
        let colon = decoded.iter().position(|&byte| byte == b':');
        let pair = colon
            .and_then(|at| Some((std::str::from_utf8(&decoded[..at]).ok()?, &decoded[at + 1..])));
        let Some((name, secret)) = pair else {
            self.count(Refused::Wrong);
            return Err(unauthorized("the Authorization header has no NAME:PASSWORD in base64"));
        };
        if self.access().tokens.iter().any(|token| *token.name == *name) {
            return self
                .by_token(Some(name), secret)
                .ok_or_else(|| self.failed(peer, &format!("'{name}'"), "its token is another"));
        }
        self.by_password(name, secret, peer).await
    }

    /// The token with that secret, and with that name if one is given.
    pub(super) fn by_token(&self, name: Option<&str>, secret: &[u8]) -> Option<Principal> {
        // A file with a token that was never written is no secret.
        if secret.trim_ascii().is_empty() {
            return None;
        }
        let given = sha256(secret);
        let now_s = now_ns() / 1_000_000_000;
        // Every token is compared, so that the time does not tell which one matches.
        let access = self.access();
        let mut found = None;
        for token in &access.tokens {
            let is_valid = token.expires_s.is_none_or(|expires_s| now_s < expires_s);
            let was_it = token.previous.is_some_and(|(digest, until_s)| {
                bool::from(digest.ct_eq(&given)) && now_s < until_s
            });
            let is_it = (bool::from(token.digest.ct_eq(&given)) || was_it) && is_valid;
            if is_it && name.is_none_or(|name| *token.name == *name) {
                found = Some(token);
            }
        }
        found.map(|token| {
            token.used(now_s);
            Principal::named(Arc::clone(&token.name), Arc::clone(&token.rights))
        })
    }

    /// The user with that name and password.
    ///
    /// # Errors
    /// 401 if name or password is wrong, 429 after too many attempts, 503 while too many passwords
    /// are being checked, and what a directory adds ([`Gate::by_login`]).
    pub async fn by_password(
        &self,
        name: &str,
        password: &[u8],
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        if let Some(directories) = self.directories_of(name) {
            let found = self.by_directories(&directories, name, password, peer, false).await;
            return found.map(|(principal, _)| principal);
        }
        // Only requests of tests have no address.
        let address = peer.map_or([0, 0, 0, 0].into(), |peer| peer.ip());
        let access = self.access();
        let found = access.user(name);
        if let Some(known) = found
            && self.was_right(known, password)
        {
            return Ok(known.principal());
        }
        if let Err(wait) = self.0.attempts.begin(address, name) {
            self.count(Refused::Limited);
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let message =
                format!("too many wrong passwords from this address; try again in {seconds} s");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(seconds));
        }
        // For an unknown name, the hash of another user is computed, which takes as long.
        let Some(tried) = found.or(access.users.first()) else {
            return Err(self.failed(peer, "somebody", "there are tokens alone, no users"));
        };
        let is_right = self.computes_to(password, &tried.user).await;
        let is_right = is_right.inspect_err(|_| self.0.attempts.succeeded(address, name))?;
        match found.filter(|_| is_right) {
            Some(known) => {
                self.0.attempts.succeeded(address, name);
                let mark = hmac::sign(&self.0.key, &marked(known, password));
                *known.right.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark);
                Ok(known.principal())
            }
            None => Err(match found {
                Some(known) => {
                    self.failed(peer, &format!("'{}'", known.user.name), "the password is wrong")
                }
                // The name is not logged: it may be a password, typed into the wrong field.
                None => self.failed(peer, "somebody", "there is no user of that name"),
            }),
        }
    }

    /// The answer 401, which does not say what was wrong. Counts the failure, and logs it within
    /// the limit of its address.
    pub(super) fn failed(&self, peer: Option<SocketAddr>, who: &str, why: &str) -> ApiError {
        self.count(Refused::Wrong);
        if let Some(peer) = peer
            && self.0.logged.begin(peer.ip(), "").is_ok()
        {
            audit::note_failure(self.audit(), peer, who, why);
        }
        unauthorized("the name or the password is wrong, or the token is not known")
    }
}

pub(super) fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, message)
}
