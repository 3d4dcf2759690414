//! The gate: identifies the caller of each request, and decides whether the caller's role covers
//! the scope of the route. Every request passes [`pass`] before its handler runs; WebSockets and
//! streams are no exception.
//!
//! Credentials, in the order in which the gate looks for them:
//!
//! - the headers of a proxy ([`super::proxy`]);
//! - `Authorization: Bearer TOKEN`, or another of `SCHEMES`, as senders of others write it;
//! - `Authorization: Basic NAME:SECRET`, where the secret is the password of a user, of this server
//!   or of a directory ([`super::ldap`]), or a token;
//! - a token in the header of a sender of another product (`KEYS`);
//! - the parameter `token`, at the addresses of [`crate::known::TOKEN_PATHS`];
//! - the cookie of a login at the page ([`super::login`]). A call that changes something and
//!   authenticates by cookie must have an `Origin` header. [`super::guard`] has checked that header
//!   before, so pages of other sites cannot use the cookie;
//! - the certificate of the client ([`super::certificates`]).
//!
//! Wrong credentials are refused with 401, even if the request has other credentials as well. If
//! the configuration has neither users nor tokens, every caller has the role `admin`.
//!
//! Invariants: the gate compares hashes of secrets, in constant time. An empty secret is wrong,
//! whatever hash the configuration has. The gate computes at most
//! `COMPUTING_MAX` password hashes at a time, and at most `WAITING_MAX` requests wait for that;
//! [`Attempts`] limits wrong passwords. An unknown name takes as long as a wrong password.
//!
//! A live tail or an export ends when its user or token is removed, has expired, or has other
//! rights or another secret ([`Gate::on_revoked`]).
//!
//! Left out: a stream does not end with the session that started it, or with what another system
//! says of its user later; it continues until the client or the server closes it.

mod changes;
mod credentials;
mod directories;
mod first;
mod hashing;
mod later;
mod outside;
mod shared;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use node::data_dir::TENANTS_FILE;
use node::ingest::tenants::Tenants;
use query::{Filter, Restriction};
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

use super::attempts::Attempts;
use super::audit;
use super::audit_log::AuditLog;
use super::limits::UserLimits;
use super::principal::{Principal, Scope};
use super::sessions::Sessions;
use super::tenants::OfTenants;
use crate::access::kept::Kept;
use crate::access::principal::Role;
use crate::access::rights::RightsText;
use crate::access::users::AccessOptions;
use crate::known::TenantsAreRead;
use crate::wire::body;
use crate::wire::error::{ApiError, ApiResult};
use changes::{Access, Sources, write};
use credentials::{challenge, unauthorized};
use first::First;
use hashing::COMPUTING_MAX;
pub use shared::LOOK_EVERY;
use shared::Sharing;

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
    /// Key of the marks of right passwords; random for each process.
    key: hmac::Key,
    hides_audit: AtomicBool,
    tenants: OnceLock<Arc<Tenants>>,
    /// Ends what callers began who may not go on.
    revoked: OnceLock<Revoked>,
    cookie: String,
    is_https: bool,
    /// Whether only this machine can reach the listener.
    is_loopback: bool,
    refused: [AtomicU64; Refused::ALL.len()],
}

/// Ends what callers began for whom its argument is true: the name of a user or token, none where
/// nobody had to log in.
pub type Revoked = Box<dyn Fn(&dyn Fn(Option<&str>) -> bool) + Send + Sync>;

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
                None => gate
                    .identify(request.method(), request.headers(), peer)
                    .await
                    .and_then(|principal| gate.or_by_certificate(principal, request, peer)),
            };
            let checked = identified.and_then(|mut principal| {
                let of_tenants = gate.of_tenants(&principal, scope, request);
                principal.tenants = of_tenants.as_ref().ok().cloned().unwrap_or_default();
                gate.check(&principal, scope)
                    .and_then(|()| of_tenants.map(drop))
                    .inspect_err(|error| gate.note_denial(request, error, &principal, peer))?;
                principal.name_tenant();
                if scope != Scope::Ingest {
                    gate.0.audit.get().map_or(Ok(()), AuditLog::check)?;
                }
                principal.restriction = gate.restriction(&principal, scope);
                principal.limits = gate.limits(&principal);
                Ok(principal)
            });
            checked.map_err(|error| challenge(error, request.headers()))?
        }
    };
    if principal.tenants.are_there() {
        request.extensions_mut().insert(TenantsAreRead);
    }
    request.extensions_mut().insert(principal);
    Ok(())
}

/// The address of a request's connection; none where there is no connection.
pub fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer)
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
                sharing: Sharing::No,
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
            tenants: OnceLock::new(),
            revoked: OnceLock::new(),
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

    /// Sets the tenants. Once there were some, callers are restricted to tenants for good, because
    /// their lines stay in the store. Called once, before requests are answered. Blocks.
    ///
    /// # Errors
    /// That cannot be written.
    pub fn set_tenants(&self, tenants: Arc<Tenants>) -> Result<(), String> {
        let mut sources = self.sources();
        if !tenants.is_off() && !sources.kept.had_tenants {
            let kept = Kept { had_tenants: true, ..sources.kept.clone() };
            if let Some(documents) = &sources.documents {
                write(&**documents, &kept).map_err(|error| error.to_string())?;
            }
            sources.kept = kept;
        }
        let tenants = match tenants.is_off() && sources.kept.had_tenants {
            true => Arc::new(Tenants::of_default()),
            false => tenants,
        };
        if let Some(documents) = sources.documents.as_ref().filter(|_| !tenants.is_off()) {
            let before = documents.read(TENANTS_FILE).map_err(|error| error.to_string());
            let resumed =
                before.and_then(|text| text.map_or(Ok(()), |text| tenants.resume_days(&text)));
            // A server without it works as well.
            if let Err(why) = resumed {
                let place = documents.place(TENANTS_FILE);
                tracing::warn!("what tenants used before is not known: {place}: {why}");
            }
        }
        assert!(self.0.tenants.set(tenants).is_ok(), "tenants are set once");
        Ok(())
    }

    /// Writes what tenants used. Blocks.
    pub fn save_days(&self) {
        let documents = self.sources().documents.clone();
        let (Some(documents), Some(tenants)) = (documents, self.tenants()) else { return };
        if let Err(error) = documents.replace(TENANTS_FILE, &tenants.days_document()) {
            tracing::warn!("what tenants used is not kept: {error}");
        }
    }

    /// The tenants; none if there are none.
    pub fn tenants(&self) -> Option<&Arc<Tenants>> {
        self.0.tenants.get().filter(|tenants| !tenants.is_off())
    }

    /// Checks rights that are to be given away.
    ///
    /// # Errors
    /// 400 if they are wrong, or name a tenant that is not there.
    pub fn check_rights(&self, text: &RightsText) -> ApiResult<()> {
        let rights = text.checked().map_err(ApiError::bad_request)?;
        let none = Tenants::default();
        let tenants = self.tenants().map_or(&none, |tenants| &**tenants);
        rights.tenant.check(tenants).map_err(ApiError::bad_request)
    }

    /// Whether a caller sees some of the lines only, or not all of their fields. It has made no
    /// request for lines yet, so it need not know its tenants.
    pub fn restricts(&self, principal: &Principal) -> bool {
        let is_bound = principal
            .rights
            .as_ref()
            .is_some_and(|rights| self.tenants().is_some() && rights.tenant.is_bound(rights.role));
        is_bound || principal.is_restricted()
    }

    /// Whose lines a request writes and reads.
    fn of_tenants(
        &self,
        principal: &Principal,
        scope: Scope,
        request: &Request,
    ) -> ApiResult<OfTenants> {
        match (self.tenants(), &principal.rights) {
            (Some(tenants), Some(rights)) => {
                OfTenants::of(tenants, &rights.tenant, rights.role, scope, request)
            }
            _ => Ok(OfTenants::default()),
        }
    }

    /// Calls `revoked` whenever users or tokens were removed, have expired, or have other rights or
    /// another secret. Called once.
    pub fn on_revoked(&self, revoked: Revoked) {
        assert!(self.0.revoked.set(revoked).is_ok(), "it is set once");
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

    /// What a caller sees by calls of that scope. Nodes ask for shares of queries that were
    /// restricted where they began.
    fn restriction(&self, principal: &Principal, scope: Scope) -> Restriction {
        let of_rights = self.restriction_of_rights(principal, scope);
        match principal.tenants.filter() {
            Some(filter) => Restriction::from(Arc::new(filter)).and(&of_rights),
            None => of_rights,
        }
    }

    fn restriction_of_rights(&self, principal: &Principal, scope: Scope) -> Restriction {
        // The restriction of rights leaves out the audit log, too.
        if let Some(rights) = principal.rights.as_ref().filter(|rights| rights.is_restricted()) {
            return rights.restriction();
        }
        let sees_all = match principal.role() {
            Some(Role::Auditor) => true,
            Some(Role::Admin) => self.auditing().admins_read,
            Some(Role::Node) => scope == Scope::Node,
            _ => false,
        };
        match self.0.hides_audit.load(Relaxed) && !sees_all {
            true => Arc::clone(&WITHOUT_AUDIT).into(),
            false => Restriction::default(),
        }
    }

    /// Whether lines of the audit log are in the store, or may be, that a caller may not read.
    pub fn hides_audit_from(&self, principal: &Principal) -> bool {
        !self.restriction_of_rights(principal, Scope::Node).is_none()
    }

    /// The limits of a caller's queries.
    fn limits(&self, principal: &Principal) -> UserLimits {
        let own = principal.rights.as_ref().map(|rights| rights.limits).unwrap_or_default();
        own.or(&self.access().limits)
    }

    /// Notes in the audit log that a call was denied, within the limit of its address.
    fn note_denial(
        &self,
        request: &Request,
        error: &ApiError,
        principal: &Principal,
        peer: Option<SocketAddr>,
    ) {
        let (Some(audit), Some(peer)) = (self.0.audit.get(), peer) else { return };
        if error.status() == StatusCode::FORBIDDEN
            && self.0.logged.begin(peer.ip(), "denied").is_ok()
        {
            let call = format!("{} {}", request.method(), request.uri().path());
            audit::note_denial(audit, peer, principal, &format!("{call}: {error}"));
        }
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

    /// Whether there are users of this server, who can log in with a password.
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
    fn check(&self, principal: &Principal, scope: Scope) -> ApiResult<()> {
        if scope == Scope::ReadAll && principal.is_restricted() {
            self.count(Refused::Forbidden);
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "this call shows what was made of all lines, and you see only some of them, or not \
                 all of their fields; query the lines instead, or ask an administrator for other \
                 rights (docs/access.md#restrictions)",
            ));
        }
        if principal.may(scope) {
            return Ok(());
        }
        match (principal.name(), principal.role()) {
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
}

/// The roles that cover a scope, for messages.
fn needed(scope: Scope) -> String {
    let roles = Role::ALL.into_iter().filter(|role| role.may(scope));
    roles.map(Role::name).collect::<Vec<_>>().join(" or ")
}
