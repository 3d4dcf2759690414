//! Who may call what: the gate that every route passes, with users, tokens and sessions; the guard
//! against calls of other sites, filters that restrict a caller, and the audit log.

pub mod accounts;
pub mod attempts;
pub mod audit;
pub mod audit_log;
pub mod authority;
pub mod certificates;
pub mod gate;
pub mod groups;
pub mod guard;
pub mod kept;
pub mod ldap;
pub mod limits;
pub mod login;
pub mod oidc;
pub mod outside;
pub mod params;
pub mod principal;
pub mod proxy;
pub mod restriction;
pub mod rights;
pub mod routes;
pub mod secrets;
pub mod sessions;
pub mod tenants;
pub mod users;
