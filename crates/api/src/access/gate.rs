//! The gate: identifies the caller of each request, and decides whether the caller's role covers
//! the scope of the route. Every request passes [`pass`] before its handler runs; WebSockets and
//! streams are no exception.
//!
//! Credentials, in the order in which the gate looks for them:
//!
//! - the headers of a proxy ([`super::proxy`]);
//! - `Authorization: Bearer TOKEN`, or another of [`SCHEMES`], as senders of others write it;
//! - `Authorization: Basic NAME:SECRET`, where the secret is the password of a user, or a token;
//! - a token in the header of a sender of another product ([`KEYS`]);
//! - the parameter `token`, at the addresses of [`crate::known::TOKEN_PATHS`];
//! - the cookie of a login at the page ([`super::login`]). A call that changes something and
//!   authenticates by cookie must have an `Origin` header. [`super::guard`] has checked that header
//!   before, so pages of other sites cannot use the cookie.
//!
//! Wrong credentials are refused with 401, even if the request has other credentials as well. If
//! there are neither users nor tokens, and no other system vouches for users, every caller has the
//! role `admin`.
//!
//! Invariants: the gate compares hashes of secrets, in constant time. An empty secret is wrong,
//! whatever hash the configuration has. The gate computes at most
//! [`COMPUTING_MAX`] password hashes at a time, and at most [`WAITING_MAX`] requests wait for that;
//! [`Attempts`] limits wrong passwords. An unknown name takes as long as a wrong password.
//!
//! Left out: a stream does not end with the session that started it; it continues until the client
//! or the server closes it.

mod first;
mod outside;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{AUTHORIZATION, COOKIE, ORIGIN, USER_AGENT, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use node::data_dir::{ACCESS_FILE, Documents};
use query::Filter;
use ring::hmac;
use ring::rand::SystemRandom;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use self::first::First;
use super::attempts::Attempts;
use super::audit;
use super::audit_log::AuditLog;
use super::groups::Groups;
use super::oidc::Providers;
use super::principal::{Principal, Scope};
use super::proxy::Proxy;
use super::sessions::Sessions;
use crate::access::kept::Kept;
use crate::access::principal::Role;
use crate::access::secrets::{PASSWORD_BYTES_MAX, hash_password, sha256};
use crate::access::users::{AccessOptions, Token, User};
use crate::wire::body;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Password hashes that are computed at a time. Each takes the memory that its parameters say: 19
/// MiB for hashes of `loginson hash-password`.
///
/// limits.md, Lines on their way in: hashes of passwords computed at a time | {}; {WAITING_MAX}
/// callers wait | a further login is refused with 503
const COMPUTING_MAX: usize = 2;
/// Requests that wait for such a computation. A further request is refused with 503.
const WAITING_MAX: usize = 32;
/// Cookies with our name that are looked at. Another server on this host can set cookies of the
/// same name; the further ones are ignored.
const COOKIES_MAX: usize = 4;
/// Schemes of the `Authorization` header whose credentials are a token: those of Splunk's and
/// InfluxDB's senders beside our own.
const SCHEMES: [&[u8]; 3] = [b"bearer", b"splunk", b"token"];
/// Headers in which senders of other products give a token: those of Datadog and of Amazon Data
/// Firehose.
const KEYS: [&str; 2] = ["dd-api-key", "x-amz-firehose-access-key"];

/// Users, tokens, sessions, and what limits logins. Clones share everything.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    /// Replaced as a whole when users or tokens change.
    access: RwLock<Arc<Access>>,
    /// Where users and tokens come from. Held while they change.
    sources: Mutex<Sources>,
    audit: OnceLock<AuditLog>,
    /// What decides who sees lines of the audit log.
    auditing: RwLock<Auditing>,
    /// The link for the first administrator, if one was given.
    first: Mutex<Option<First>>,
    sessions: Sessions,
    attempts: Attempts,
    /// Limits the entries of the audit log about failures, so that nobody can fill the log.
    logged: Attempts,
    computing: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Key of the marks in [`Known::right`]; random for each process.
    key: hmac::Key,
    hides_audit: AtomicBool,
    cookie: String,
    is_https: bool,
    /// Whether only this machine can reach the listener.
    is_loopback: bool,
    refused: [AtomicU64; Refused::ALL.len()],
}

/// Where users and tokens come from.
struct Sources {
    configured: AccessOptions,
    kept: Kept,
    /// Where [`Kept`] is written; a collector has none.
    documents: Option<Arc<dyn Documents>>,
}

/// The settings of the audit log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auditing {
    /// Whether it is written.
    pub enabled: bool,
    /// Whether administrators may read it, as auditors may.
    pub admins_read: bool,
}

/// The filter of callers that may not read the audit log.
static WITHOUT_AUDIT: LazyLock<Arc<Filter>> = LazyLock::new(|| Arc::new(Filter::without_audit()));

/// Who may call.
struct Access {
    users: Vec<Known>,
    tokens: Vec<Token>,
    providers: Providers,
    proxy: Proxy,
    /// What users of other systems may do.
    groups: Groups,
    /// Whether no credentials are needed.
    is_off: bool,
}

/// A user, and a mark (HMAC) of the last password that was right. Tools send the password with
/// every request, and computing its argon2 hash each time would take longer than most answers.
struct Known {
    user: User,
    right: Mutex<Option<hmac::Tag>>,
}

/// Why a call was refused, for metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refused {
    /// It had no credentials.
    Unnamed,
    /// Its credentials were wrong.
    Wrong,
    /// The role of the caller does not cover it.
    Forbidden,
    /// There were too many wrong passwords before, or too many passwords were being checked.
    Limited,
}

impl Refused {
    /// All, in the order of their numbers.
    pub const ALL: [Refused; 4] =
        [Refused::Unnamed, Refused::Wrong, Refused::Forbidden, Refused::Limited];

    /// As metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Refused::Unnamed => "unnamed",
            Refused::Wrong => "wrong",
            Refused::Forbidden => "forbidden",
            Refused::Limited => "limited",
        }
    }
}

/// The middleware around every handler: calls the handler if [`admit`] lets the request pass.
pub async fn pass(scope: Scope, mut request: Request, next: Next) -> Response {
    match admit(scope, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(response) => {
            body::discard(request).await;
            response
        }
    }
}

/// The one place that decides whether a request may call a route of that scope. If so, the request
/// carries its [`Principal`] afterwards; otherwise the answer is 401, 403, 429 or 503.
pub async fn admit(scope: Scope, request: &mut Request) -> Result<(), Response> {
    let Some(gate) = request.extensions().get::<Gate>().cloned() else {
        let error = ApiError::internal("there is no gate before this route");
        return Err(error.into_response());
    };
    let principal = match scope {
        // A probe of `/health` with outdated credentials is answered like one without.
        Scope::Open => Principal::nobody(),
        _ => {
            let peer = peer(request);
            let identified = match gate.by_request(request, peer) {
                Some(found) => found,
                None => gate.identify(request.method(), request.headers(), peer).await,
            };
            let checked = identified.and_then(|principal| {
                let mut principal = gate.check(principal, scope).inspect_err(|error| {
                    gate.note_denial(request, error, peer);
                })?;
                if scope != Scope::Ingest {
                    gate.0.audit.get().map_or(Ok(()), AuditLog::check)?;
                }
                principal.restriction = gate.restriction(principal.role, scope);
                Ok(principal)
            });
            checked.map_err(|error| challenge(error, request.headers()))?
        }
    };
    request.extensions_mut().insert(principal);
    Ok(())
}

/// The address of a request's connection; none where there is no connection.
pub fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer)
}

/// Adds `WWW-Authenticate` to an answer of 401. Browsers are not offered Basic: they would show
/// their own password dialog over the login of the page.
fn challenge(error: ApiError, headers: &HeaderMap) -> Response {
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
    /// For a listener at that address.
    pub fn new(access: &AccessOptions, address: SocketAddr, is_https: bool) -> Gate {
        let is_loopback = address.ip().to_canonical().is_loopback();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Gate(Arc::new(Shared {
            access: RwLock::new(Arc::new(Access::new(access, None))),
            sources: Mutex::new(Sources {
                configured: access.clone(),
                kept: Kept::default(),
                documents: None,
            }),
            audit: OnceLock::new(),
            auditing: RwLock::default(),
            first: Mutex::default(),
            sessions: Sessions::new(access.session_max),
            attempts: Attempts::default(),
            logged: Attempts::default(),
            computing: Arc::new(Semaphore::new(COMPUTING_MAX)),
            waiting: AtomicUsize::new(0),
            key: key.expect("the system gives random numbers"),
            // Browsers send cookies to all ports of a host. With the port in the name, servers on
            // the same host do not overwrite each other's cookies.
            hides_audit: AtomicBool::new(false),
            cookie: format!("loginson_session_{}", address.port()),
            is_https,
            is_loopback,
            refused: Default::default(),
        }))
    }

    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.0.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why users and tokens of the configuration cannot become these while the server runs.
    pub fn refusal(&self, access: &AccessOptions) -> Option<&'static str> {
        let all = self.sources().kept.added_to(access);
        (all.is_ok_and(|all| all.is_off()) && !self.is_off()).then_some(
            "there would be no users and tokens any more, and everybody could do everything; \
             restart Loginson for that",
        )
    }

    /// Replaces users and tokens of the configuration.
    pub fn set_access(&self, configured: &AccessOptions) {
        let mut sources = self.sources();
        match sources.kept.added_to(configured) {
            Ok(all) => self.replace(&all),
            // Too many together: those of the data directory are as they were checked before.
            Err(why) => {
                tracing::error!("users and tokens of the configuration stay as they were: {why}");
                return;
            }
        }
        sources.configured = configured.clone();
    }

    /// Reads users and tokens from the data directory, and keeps changes of them there from now
    /// on. Called once, before requests are answered.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake.
    pub fn keep_in(&self, documents: Arc<dyn Documents>) -> Result<(), String> {
        let text = documents.read(ACCESS_FILE).map_err(|error| {
            let place = documents.place(ACCESS_FILE);
            format!("the file with users and tokens cannot be read: {place}: {error}")
        })?;
        let mut sources = self.sources();
        sources.kept = text.as_deref().map(Kept::parse).transpose()?.unwrap_or_default();
        self.replace(&sources.kept.added_to(&sources.configured)?);
        sources.documents = Some(documents);
        Ok(())
    }

    /// Sets what holds for the audit log. Once it was enabled, its lines are hidden from others
    /// for good, because they stay in the store. Blocks.
    ///
    /// # Errors
    /// That cannot be written.
    pub fn set_auditing(&self, auditing: Auditing) -> Result<(), String> {
        let mut sources = self.sources();
        if auditing.enabled && !sources.kept.audited {
            let kept = Kept { audited: true, ..sources.kept.clone() };
            if let Some(documents) = &sources.documents {
                write(&**documents, &kept).map_err(|error| error.to_string())?;
            }
            sources.kept = kept;
        }
        // What was there before may be in the store, too.
        let enabled = auditing.enabled;
        *self.0.auditing.write().unwrap_or_else(PoisonError::into_inner) = auditing;
        self.0.hides_audit.store(enabled || sources.kept.audited, Relaxed);
        Ok(())
    }

    /// The store is open: the audit log is written from now on.
    pub fn audit_to(&self, log: AuditLog) {
        assert!(self.0.audit.set(log).is_ok(), "the store is opened once");
    }

    /// The audit log, if it is written.
    pub fn audit(&self) -> Option<AuditLog> {
        self.0.audit.get().cloned()
    }

    fn auditing(&self) -> Auditing {
        *self.0.auditing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What callers with that role may see by calls of that scope; `None` means all. Nodes ask for
    /// shares of queries that were restricted where they began.
    fn restriction(&self, role: Option<Role>, scope: Scope) -> Option<Arc<Filter>> {
        let sees_all = match role {
            Some(Role::Auditor) => true,
            Some(Role::Admin) => self.auditing().admins_read,
            Some(Role::Node) => scope == Scope::Node,
            _ => false,
        };
        let hides = self.0.hides_audit.load(Relaxed) && !sees_all;
        hides.then(|| Arc::clone(&WITHOUT_AUDIT))
    }

    /// Notes in the audit log that a call was denied, within the limit of its address.
    fn note_denial(&self, request: &Request, error: &ApiError, peer: Option<SocketAddr>) {
        let (Some(audit), Some(peer)) = (self.0.audit.get(), peer) else { return };
        if error.status() == StatusCode::FORBIDDEN
            && self.0.logged.begin(peer.ip(), "denied").is_ok()
        {
            let call = format!("{} {}", request.method(), request.uri().path());
            audit::note_denial(audit, peer, None, &format!("{call}: {error}"));
        }
    }

    /// Changes users and tokens of the data directory: durable, and in force at once. Blocks.
    ///
    /// # Errors
    /// Those of `change`; 409 if nobody could administer the server any more; 500 or 507 if the
    /// file cannot be written. Then nothing has changed.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Kept, &AccessOptions) -> ApiResult<T>,
    ) -> ApiResult<T> {
        let mut sources = self.sources();
        let documents = sources.documents.clone().ok_or_else(|| {
            ApiError::new(
                StatusCode::CONFLICT,
                "this process keeps no users and tokens; they are in its configuration",
            )
        })?;
        if self.auditing().enabled && self.0.audit.get().is_none() {
            return Err(ApiError::unavailable(
                "the server is still starting, and the audit log cannot be written yet; try again \
                 in a moment",
            ));
        }
        let mut kept = sources.kept.clone();
        let result = change(&mut kept, &sources.configured)?;
        let conflict = |why: &str| ApiError::new(StatusCode::CONFLICT, why);
        let all = kept.added_to(&sources.configured).map_err(|why| conflict(&why))?;
        let access = self.access();
        let had_admin = access.is_off
            || sources.kept.added_to(&sources.configured).is_ok_and(|all| all.has_admin());
        if had_admin && !all.has_admin() {
            return Err(conflict(
                "nobody could administer the server any more; make another user or token with the \
                 role admin first",
            ));
        }
        kept.note_uses(&access.tokens);
        write(&*documents, &kept)?;
        sources.kept = kept;
        self.replace(&all);
        Ok(result)
    }

    /// Writes when tokens were used last, if that has changed. Blocks.
    pub fn save_uses(&self) {
        let mut sources = self.sources();
        let Some(documents) = sources.documents.clone() else { return };
        let mut kept = sources.kept.clone();
        kept.note_uses(&self.access().tokens);
        if kept == sources.kept {
            return;
        }
        match write(&*documents, &kept) {
            Ok(()) => sources.kept = kept,
            Err(error) => tracing::warn!("when tokens were used last is not kept: {error}"),
        }
    }

    /// What `shown` makes of all users and tokens, and of those of the data directory.
    pub fn seen<T>(&self, shown: impl FnOnce(&[&User], &[Token], &Kept) -> T) -> T {
        let sources = self.sources();
        let access = self.access();
        let users: Vec<&User> = access.users.iter().map(|known| &known.user).collect();
        shown(&users, &access.tokens, &sources.kept)
    }

    /// The hash of a password, computed when it is its turn.
    ///
    /// # Errors
    /// 503 while too many passwords are being checked.
    pub async fn hash(&self, password: String) -> ApiResult<PasswordHash> {
        let computed = self.computed(move || hash_password(&password)).await?;
        computed.map_err(ApiError::internal)
    }

    /// Sessions stay, except those of users that are no more, or have another password, and those
    /// of providers whose settings changed.
    fn replace(&self, access: &AccessOptions) {
        let before = self.access();
        let after = Arc::new(Access::new(access, Some(&before)));
        *self.0.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        self.0.sessions.set_lasts(access.session_max);
        self.0.sessions.keep(|session| {
            let hash =
                |access: &Access| access.user(&session.user).map(|known| known.user.hash.clone());
            match &session.outside {
                None => hash(&after).is_some_and(|now| hash(&before).as_ref() == Some(&now)),
                Some(outside) => after.providers.kept(&outside.source, &before.providers),
            }
        });
    }

    /// Whether no credentials are needed, as there are no users and no tokens, and no other system
    /// vouches for users.
    pub fn is_off(&self) -> bool {
        self.access().is_off
    }

    /// Whether no credentials are needed although other machines can reach the listener.
    pub fn is_exposed(&self) -> bool {
        !self.0.is_loopback && self.is_off()
    }

    /// Whether the listener speaks HTTPS.
    pub fn is_https(&self) -> bool {
        self.0.is_https
    }

    /// Whether there are users, who can log in with a password.
    pub fn has_users(&self) -> bool {
        !self.access().users.is_empty()
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The name of the cookie.
    pub fn cookie(&self) -> &str {
        &self.0.cookie
    }

    /// Calls refused so far.
    pub fn refused(&self, why: Refused) -> u64 {
        self.0.refused[why as usize].load(Relaxed)
    }

    fn count(&self, why: Refused) {
        self.0.refused[why as usize].fetch_add(1, Relaxed);
    }

    /// Compares the role of a caller with a scope.
    fn check(&self, principal: Principal, scope: Scope) -> ApiResult<Principal> {
        if principal.may(scope) {
            return Ok(principal);
        }
        match (principal.name(), principal.role) {
            (Some(name), Some(role)) => {
                self.count(Refused::Forbidden);
                Err(ApiError::new(
                    StatusCode::FORBIDDEN,
                    format!(
                        "'{name}' has the role {}, and this call needs {}; docs/access.md says \
                         what each role may do",
                        role.name(),
                        needed(scope)
                    ),
                ))
            }
            _ => {
                self.count(Refused::Unnamed);
                Err(unauthorized("log in first, or send a token or a name with its password"))
            }
        }
    }

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
    fn check_origin(&self, method: &Method, headers: &HeaderMap) -> ApiResult<()> {
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

    async fn by_authorization(
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
    fn by_token(&self, name: Option<&str>, secret: &[u8]) -> Option<Principal> {
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
            Principal::named(Arc::clone(&token.name), token.role)
        })
    }

    /// The user with that name and password.
    ///
    /// # Errors
    /// 401 if name or password is wrong, 429 after too many attempts, 503 while too many passwords
    /// are being checked.
    pub async fn by_password(
        &self,
        name: &str,
        password: &[u8],
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        // Only requests of tests have no address.
        let address = peer.map_or([0, 0, 0, 0].into(), |peer| peer.ip());
        let access = self.access();
        let found = access.user(name);
        if let Some(known) = found
            && self.was_right(known, password)
        {
            return Ok(Principal::named(Arc::clone(&known.user.name), known.user.role));
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
                Ok(Principal::named(Arc::clone(&known.user.name), known.user.role))
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
    fn failed(&self, peer: Option<SocketAddr>, who: &str, why: &str) -> ApiError {
        self.count(Refused::Wrong);
        if let Some(peer) = peer
            && self.0.logged.begin(peer.ip(), "").is_ok()
        {
            audit::note_failure(self.audit(), peer, who, why);
        }
        unauthorized("the name or the password is wrong, or the token is not known")
    }

    fn was_right(&self, known: &Known, password: &[u8]) -> bool {
        let mark = *known.right.lock().unwrap_or_else(PoisonError::into_inner);
        mark.is_some_and(|mark| {
            hmac::verify(&self.0.key, &marked(known, password), mark.as_ref()).is_ok()
        })
    }

    /// Whether the password has the hash of a user. Waits for its turn to compute.
    async fn computes_to(&self, password: &[u8], user: &User) -> ApiResult<bool> {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Ok(false);
        }
        let (password, hash) = (password.to_vec(), user.hash.clone());
        self.computed(move || Argon2::default().verify_password(&password, &hash).is_ok()).await
    }

    /// Computes a hash, on a thread that may block, when it is its turn.
    async fn computed<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ApiResult<T> {
        let busy = || {
            self.count(Refused::Limited);
            let message = "too many passwords are being checked; try again in a moment";
            ApiError::unavailable(message).retry_after(1)
        };
        let _waits = Waiting::enter(&self.0.waiting).ok_or_else(busy)?;
        let permit = Arc::clone(&self.0.computing).acquire_owned().await.map_err(|_| busy())?;
        let computed = tokio::task::spawn_blocking(move || {
            // If the client goes away, the computation continues, and its memory still counts.
            let _permit = permit;
            compute()
        });
        computed.await.map_err(|error| ApiError::internal(error.to_string()))
    }
}

impl Access {
    /// Of these settings. Users whose password stayed keep the mark of the last right one.
    fn new(options: &AccessOptions, before: Option<&Access>) -> Access {
        let known = |user: &User| {
            let same = before.and_then(|before| before.user(&user.name));
            let same = same.filter(|known| known.user.hash == user.hash);
            let right =
                same.and_then(|known| *known.right.lock().unwrap_or_else(PoisonError::into_inner));
            Known { user: user.clone(), right: Mutex::new(right) }
        };
        let tokens = options.tokens.iter().cloned().map(|mut token| {
            let same =
                before.and_then(|before| before.tokens.iter().find(|t| t.name == token.name));
            if let Some(same) = same {
                same.used(token.last_used_s.load(Relaxed));
                token.last_used_s = Arc::clone(&same.last_used_s);
            }
            token
        });
        Access {
            users: options.users.iter().map(known).collect(),
            tokens: tokens.collect(),
            providers: Providers::new(&options.oidc, before.map(|before| &before.providers)),
            proxy: options.proxy.clone(),
            groups: options.groups.clone(),
            is_off: options.is_off(),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        self.user(name).is_some() || self.tokens.iter().any(|token| *token.name == *name)
    }

    fn user(&self, name: &str) -> Option<&Known> {
        self.users.iter().find(|known| *known.user.name == *name)
    }
}

/// Writes the file of users and tokens.
fn write(documents: &dyn Documents, kept: &Kept) -> ApiResult<()> {
    let text = serde_json::to_vec(kept).expect("it is plain values");
    documents.replace(ACCESS_FILE, &text).map_err(|error| {
        let place = documents.place(ACCESS_FILE);
        let message = format!("the file with users and tokens cannot be written: {place}: {error}");
        ApiError::of_disk(message, &error)
    })
}

/// A request that waits for the computation of a hash, or computes.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn enter(count: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Relaxed) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The message of the mark of a password.
fn marked(known: &Known, password: &[u8]) -> Vec<u8> {
    [known.user.name.as_bytes(), b"\0", password].concat()
}

/// The roles that cover a scope, for messages.
fn needed(scope: Scope) -> String {
    let roles = Role::ALL.into_iter().filter(|role| role.may(scope));
    roles.map(Role::name).collect::<Vec<_>>().join(" or ")
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, message)
}
