//! Callers, roles and scopes.
//!
//! The gate ([`super::gate`]) makes a [`Principal`] for each request, which carries it to the
//! handler. Handlers take it, together with the address, as [`Caller`].

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use query::Restriction;
use query::macros::Callable;

use super::audit_log::AuditLog;
use super::gate::Gate;
use super::limits::UserLimits;
use super::rights::Rights;
use super::tenants::OfTenants;
use crate::wire::error::ApiError;
use node::cluster::Missing;

/// The role of a user or a token. They are in order, the least powerful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Inserts lines, reads none.
    Ingest,
    /// Reads lines, and changes only its own queries.
    Read,
    /// Reads lines, those of the audit log too, and changes only its own queries.
    Auditor,
    /// Another node that answers queries over the lines of this one: reads, and asks for shares.
    Node,
    /// Reads, and operates the server: seals, makes backups, cancels queries of others.
    Operate,
    /// Everything, deletions included.
    Admin,
}

impl Role {
    /// All roles, from the least to the most powerful.
    pub const ALL: [Role; 6] =
        [Role::Ingest, Role::Read, Role::Auditor, Role::Node, Role::Operate, Role::Admin];

    /// The role's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Read => "read",
            Role::Auditor => "auditor",
            Role::Node => "node",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether it covers a scope.
    pub fn may(self, scope: Scope) -> bool {
        match scope {
            Scope::Open => true,
            Scope::Ingest => matches!(self, Role::Ingest | Role::Admin),
            Scope::Read | Scope::ReadAll => {
                matches!(
                    self,
                    Role::Read | Role::Auditor | Role::Node | Role::Operate | Role::Admin
                )
            }
            Scope::Node => matches!(self, Role::Node | Role::Operate | Role::Admin),
            Scope::Operate => matches!(self, Role::Operate | Role::Admin),
            Scope::Admin => self == Role::Admin,
        }
    }
}

/// What a role has to cover to call a route. Every route has a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody may call it without credentials: the login, health.
    Open,
    /// It inserts lines.
    Ingest,
    /// It reads lines, and its answer is as if there were only what the restriction of the caller
    /// lets be seen; or it shows what all readers share, such as dashboards.
    Read,
    /// It reads what was made of all lines, such as the state of the server. Callers with
    /// restricted rights are refused.
    ReadAll,
    /// It does a part of a query for another node, which limits the query.
    Node,
    /// It operates the server.
    Operate,
    /// It deletes lines or backups.
    Admin,
}

#[cfg(test)]
impl Scope {
    /// As the documentation calls it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Open => "open",
            Scope::Ingest => "ingest",
            Scope::Read => "read",
            Scope::ReadAll => "read-all",
            Scope::Node => "node",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
        }
    }
}

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A caller without credentials.
    Nobody,
    /// Any caller, if neither users nor tokens are configured.
    Anybody,
    /// A user or a token, by name; names are unique among both.
    Named(Arc<str>),
}

/// A caller, and what the caller may do.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Who it is.
    pub who: Who,
    /// None: only routes of the scope [`Scope::Open`].
    pub rights: Option<Arc<Rights>>,
    /// What the caller sees of the lines, whatever the request asks for. The gate sets it, from the
    /// rights, and for callers that may not read the audit log. Handlers get it through
    /// [`Params`](crate::access::params::Params), together with `extra_filters`.
    pub restriction: Restriction,
    /// Limits of the caller's queries, from the rights or by default. The gate sets them.
    pub limits: UserLimits,
    /// Whose lines the request writes and reads, where there are tenants. The gate sets it.
    pub tenants: OfTenants,
}

impl Principal {
    /// A caller without credentials.
    pub fn nobody() -> Principal {
        Principal::of(Who::Nobody, None)
    }

    /// Any caller, if no credentials are needed.
    pub fn anybody() -> Principal {
        Principal::of(Who::Anybody, Some(Arc::new(Role::Admin.into())))
    }

    /// A user or a token.
    pub fn named(name: Arc<str>, rights: Arc<Rights>) -> Principal {
        Principal::of(Who::Named(name), Some(rights))
    }

    fn of(who: Who, rights: Option<Arc<Rights>>) -> Principal {
        let (restriction, tenants) = (Restriction::default(), OfTenants::default());
        Principal { who, rights, restriction, limits: UserLimits::default(), tenants }
    }

    /// Adds the tenant that the request names to the name of a caller that names one with each.
    pub fn name_tenant(&mut self) {
        if let (Who::Named(name), Some(suffix)) = (&self.who, self.tenants.suffix()) {
            self.who = Who::Named(format!("{name}{suffix}").into());
        }
    }

    /// The role of a caller with credentials.
    pub fn role(&self) -> Option<Role> {
        self.rights.as_ref().map(|rights| rights.role)
    }

    /// Whether the rights of the caller leave out lines or fields, as those of a caller that is not
    /// for all tenants do.
    pub fn is_restricted(&self) -> bool {
        self.tenants.is_bound() || self.rights.as_ref().is_some_and(|rights| rights.is_restricted())
    }

    /// The macros that queries of the caller may call.
    pub fn callable(&self) -> Callable {
        match self.tenants.is_bound() {
            true => Callable::Shared,
            false => Callable::All,
        }
    }

    /// The name of a user or a token.
    pub fn name(&self) -> Option<&str> {
        match &self.who {
            Who::Named(name) => Some(name),
            Who::Nobody | Who::Anybody => None,
        }
    }

    /// Whether the caller may call routes of that scope.
    pub fn may(&self, scope: Scope) -> bool {
        scope == Scope::Open || self.role().is_some_and(|role| role.may(scope))
    }

    /// Whether the caller may see and change the query of that client (as [`Caller::client`]
    /// formats it). Operators may for every query, others only for their own.
    pub fn may_touch(&self, client: &str) -> bool {
        self.may(Scope::Operate)
            || self.name().is_some_and(|name| {
                client.split_once(' ').is_some_and(|(owner, _address)| owner == name)
            })
    }
}

/// A caller and its address.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The address of the connection, which is a proxy's where one is in front.
    pub peer: SocketAddr,
    /// Who it is.
    pub principal: Principal,
    /// Receives the stores that the answer lacks the lines of.
    pub missing: Arc<Missing>,
    /// The audit log, if there is one.
    pub audit: Option<AuditLog>,
}

impl Caller {
    /// The client as the queue of queries shows it: the address, after the name and a space if the
    /// caller has a name. Names contain no spaces.
    pub fn client(&self) -> String {
        match self.principal.name() {
            Some(name) => format!("{name} {}", self.peer),
            None => self.peer.to_string(),
        }
    }
}

impl Caller {
    /// The user, or the address where nobody logs in, that limits hold for.
    pub fn owner(&self) -> String {
        client_owner(&self.client()).to_owned()
    }
}

/// The user or the address in the text of [`Caller::client`].
pub fn client_owner(client: &str) -> &str {
    match client.split_once(' ') {
        Some((name, _)) => name,
        None => client.rsplit_once(':').map_or(client, |(address, _)| address),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, ApiError> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let principal = parts.extensions.get::<Principal>();
        match (peer, principal) {
            (Some(&ConnectInfo(peer)), Some(principal)) => {
                let missing = parts.extensions.get().cloned().unwrap_or_default();
                let audit = parts.extensions.get::<Gate>().and_then(Gate::audit);
                Ok(Caller { peer, principal: principal.clone(), missing, audit })
            }
            _ => Err(ApiError::internal("the request did not come through the gate")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_roles_may() {
        let scopes =
            [Scope::Open, Scope::Ingest, Scope::Read, Scope::Node, Scope::Operate, Scope::Admin];
        let may = |role: Role| scopes.map(|scope| role.may(scope));
        assert_eq!(may(Role::Ingest), [true, true, false, false, false, false]);
        assert_eq!(may(Role::Read), [true, false, true, false, false, false]);
        assert_eq!(may(Role::Auditor), may(Role::Read));
        assert_eq!(may(Role::Node), [true, false, true, true, false, false]);
        assert_eq!(may(Role::Operate), [true, false, true, true, true, false]);
        assert_eq!(may(Role::Admin), [true; 6]);
        assert_eq!(
            scopes.map(|scope| Principal::nobody().may(scope)),
            [true, false, false, false, false, false]
        );
        assert_eq!(scopes.map(|scope| Principal::anybody().may(scope)), [true; 6]);
        assert!(Role::ALL.iter().all(|&role| Role::parse(role.name()) == Some(role)));
        assert_eq!(Role::parse("Admin"), None);
    }

    #[test]
    fn users_may_touch_their_own_queries() {
        let caller = |principal| Caller {
            peer: ([127, 0, 0, 1], 7).into(),
            principal,
            missing: Arc::default(),
            audit: None,
        };
        let ann = Principal::named("ann".into(), Arc::new(Role::Read.into()));
        let anna = Principal::named("anna".into(), Arc::new(Role::Read.into()));
        let bob = Principal::named("bob".into(), Arc::new(Role::Operate.into()));
        let client = caller(ann.clone()).client();
        assert_eq!(client, "ann 127.0.0.1:7");
        assert!(ann.may_touch(&client) && bob.may_touch(&client) && !anna.may_touch(&client));
        // Queries from a time without users belong to operators.
        let unnamed = caller(Principal::anybody()).client();
        assert_eq!(unnamed, "127.0.0.1:7");
        assert!(!ann.may_touch(&unnamed) && bob.may_touch(&unnamed));
        assert!(Principal::anybody().may_touch(&client) && !Principal::nobody().may_touch(&client));
    }
}
