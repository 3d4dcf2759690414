//! Users whom another system vouches for: their names, their roles, their sessions.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};

use super::changes::Known;
use super::credentials::{KEYS, unauthorized};
use super::{Gate, Refused};
use crate::access::audit;
use crate::access::certificates;
use crate::access::groups::Groups;
use crate::access::oidc::Providers;
use crate::access::outside::Outside;
use crate::access::principal::{Principal, Who};
use crate::access::proxy::{self, Proxy};
use crate::access::rights::Rights;
use crate::access::users::check_name;
use crate::known::TOKEN_PATHS;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::certificate::ClientCertificate;

impl Gate {
    /// The providers by which users log in.
    pub fn providers(&self) -> Providers {
        self.access().providers.clone()
    }

    /// What users of other systems may do.
    pub fn groups(&self) -> Groups {
        self.access().groups.clone()
    }

    /// The rights of a user of another system; none if no rule lets the user in.
    pub fn rights_outside(&self, outside: &Outside) -> Option<Arc<Rights>> {
        self.access().groups.rights(&outside.source, &outside.groups())
    }

    /// The name that a user of another system has here; an error says why there is none.
    pub fn named_outside(&self, source: &str, name: &str) -> Result<Arc<str>, String> {
        if name.is_empty() {
            return Err("the name is empty; have the system tell one".to_owned());
        }
        let full = format!("{name}@{source}");
        check_name(&full).map_err(|why| format!("{why}; have the system tell another name"))?;
        match self.access().has_name(&full) {
            true => Err(format!("there is a user or a token '{full}' of this server")),
            false => Ok(full.into()),
        }
    }

    /// Counts an attempt to log in by another system.
    ///
    /// # Errors
    /// 429 after too many from that address.
    pub fn attempt(&self, peer: Option<SocketAddr>, name: &str) -> ApiResult<()> {
        let Some(peer) = peer else { return Ok(()) };
        self.0.attempts.begin(peer.ip(), name).map_err(|wait| {
            self.count(Refused::Limited);
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let message =
                format!("too many failed logins from this address; try again in {seconds} s");
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(seconds)
        })
    }

    /// Takes back an attempt that succeeded.
    pub fn attempt_succeeded(&self, peer: Option<SocketAddr>, name: &str) {
        if let Some(peer) = peer {
            self.0.attempts.succeeded(peer.ip(), name);
        }
    }

    /// The answer to a login by another system that is refused. Counts it, and logs it within the
    /// limit of its address.
    pub fn not_let_in(&self, peer: Option<SocketAddr>, source: &str, why: &str) -> ApiError {
        self.count(Refused::Wrong);
        if let Some(peer) = peer
            && self.0.logged.begin(peer.ip(), "").is_ok()
        {
            audit::note_failure(self.audit(), peer, &format!("a login by '{source}'"), why);
        }
        let message = format!("the login by '{source}' is refused: {why}");
        ApiError::new(StatusCode::FORBIDDEN, message)
    }

    /// Begins a session, and returns the value of its cookie. One that the browser had before ends.
    pub fn begin(
        &self,
        headers: &HeaderMap,
        user: Arc<str>,
        outside: Option<Outside>,
        peer: Option<SocketAddr>,
    ) -> ApiResult<String> {
        for cookie in self.cookies(headers) {
            self.0.sessions.end(cookie);
        }
        let id = self.0.sessions.begin_outside(Arc::clone(&user), outside.map(Arc::new));
        let id = id.ok_or_else(|| ApiError::internal("the system provides no random numbers"))?;
        if let Some(peer) = peer {
            audit::note_login(self.audit(), peer, &user, "logged in");
        }
        Ok(id)
    }

    /// The proxy that vouches for users, or names the addresses of clients.
    pub fn proxy(&self) -> Proxy {
        self.access().proxy.clone()
    }

    /// The caller by what is not a credential of its own: the headers of a proxy, or a token that
    /// is a parameter of the address. `None` if there is neither.
    pub fn by_request(
        &self,
        request: &Request,
        peer: Option<SocketAddr>,
    ) -> Option<ApiResult<Principal>> {
        if self.is_off() {
            return None;
        }
        let token = token_of_address(request);
        let proxy = self.proxy();
        let named =
            proxy.as_ref().map(|proxy| proxy.named(request.headers(), proxy::connection(request)));
        match named {
            None | Some(Ok(None)) => {}
            Some(Err(why)) => return Some(Err(self.refused_proxy(peer, &why))),
            Some(Ok(Some(named))) => {
                let headers = request.headers();
                let has_more = token.is_some()
                    || headers.contains_key(AUTHORIZATION)
                    || KEYS.iter().any(|name| headers.contains_key(*name));
                if has_more {
                    let why = "the request has the header of the proxy, and credentials besides; \
                               have the proxy remove one of them";
                    return Some(Err(self.refused_proxy(peer, why)));
                }
                let groups = named.groups.iter().map(String::as_str);
                let found = self.by_groups(proxy::SOURCE, &named.name, groups, peer);
                return Some(found.and_then(|principal| {
                    self.check_origin(request.method(), headers)?;
                    Ok(principal)
                }));
            }
        }
        let found = self.by_token(None, token?.as_bytes());
        Some(found.ok_or_else(|| self.failed(peer, "a token", "it is not known")))
    }

    /// The caller by the certificate of the client, if there is one and the request has nothing
    /// else.
    pub(in crate::access) fn or_by_certificate(
        &self,
        principal: Principal,
        request: &Request,
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        let certificate = request.extensions().get::<Arc<ClientCertificate>>();
        let (Who::Nobody, Some(named_by), Some(certificate)) =
            (&principal.who, self.access().certificates, certificate)
        else {
            return Ok(principal);
        };
        let source = certificates::SOURCE;
        let Some(name) = named_by.name(certificate) else {
            let why = "the certificate of the client has no name, or several, of the kind that \
                       http_tls.client_name says";
            return Err(self.not_let_in(peer, source, why));
        };
        self.by_groups(source, name, certificate.units.iter().map(String::as_str), peer)
    }

    /// A user of another system who shows with each request what vouches for it.
    fn by_groups<'a>(
        &self,
        source: &str,
        name: &str,
        groups: impl Iterator<Item = &'a str>,
        peer: Option<SocketAddr>,
    ) -> ApiResult<Principal> {
        let name = self.named_outside(source, name);
        let name = name.map_err(|why| self.not_let_in(peer, source, &why))?;
        let access = self.access();
        let groups = access.groups.named(source, groups);
        match access.groups.rights(source, &groups) {
            Some(rights) => Ok(Principal::named(name, rights)),
            None => {
                let why = format!(
                    "no group of {name} may log in here; have an administrator add one of them to \
                     [[access.groups]]"
                );
                Err(self.not_let_in(peer, source, &why))
            }
        }
    }

    fn refused_proxy(&self, peer: Option<SocketAddr>, why: &str) -> ApiError {
        self.not_let_in(peer, proxy::SOURCE, why);
        unauthorized(why)
    }

    /// Where the browser logs out at the provider of a session.
    pub fn logout_url(&self, outside: &Outside) -> Option<String> {
        let access = self.access();
        let provider = access.providers.get(&outside.source)?;
        provider.logout_url(outside.id_token().as_ref().map(|token| token.expose()))
    }

    /// The caller with the cookie of a session. A session of another system ends here if that
    /// refuses to confirm it, or if no rule lets its user in any more.
    pub(super) async fn by_session(
        &self,
        cookie: &[u8],
        peer: Option<SocketAddr>,
    ) -> Option<Principal> {
        let session = self.0.sessions.get(cookie)?;
        let access = self.access();
        let Some(outside) = session.outside else {
            return access.user(&session.user).map(Known::principal);
        };
        let may_go_on = match access.has_name(&session.user) {
            true => Err("a user or a token of this server has its name now".to_owned()),
            false if access.directories.get(&outside.source).is_some() => {
                access.directories.confirmed(&session.user, &outside, &access.groups).await
            }
            false => access.providers.confirmed(&outside, &access.groups).await,
        };
        let rights = access.groups.rights(&outside.source, &outside.groups());
        let rights = may_go_on.and_then(|()| {
            rights.ok_or_else(|| "no group of the user may log in here any more".to_owned())
        });
        match rights {
            Ok(rights) => Some(Principal::named(session.user, rights)),
            Err(why) => {
                if self.0.sessions.end(cookie).is_some()
                    && let Some(peer) = peer
                {
                    let why = format!("the session has ended: {why}");
                    audit::note_login(self.audit(), peer, &session.user, &why);
                }
                None
            }
        }
    }
}

/// The token that is a parameter of the address, where that is how tokens are given.
fn token_of_address(request: &Request) -> Option<String> {
    if !TOKEN_PATHS.contains(&request.uri().path()) {
        return None;
    }
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}
