//! Users and tokens that may call: those of the configuration, and those of the data directory
//! ([`super::kept`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;

use super::certificates::NamedBy;
use super::groups::Groups;
use super::ldap::options::LdapOptions;
use super::limits::UserLimits;
use super::oidc::options::OidcOptions;
use super::principal::Role;
use super::proxy::Proxy;
use super::rights::Rights;

/// Limit of a name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Limit of the number of users and tokens together. Further ones are refused.
pub const NAMES_MAX: usize = 10_000;

/// Users and tokens, and who else may vouch for users. If there are none, everybody may call
/// everything.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// People, with passwords.
    pub users: Vec<User>,
    /// Programs, with tokens.
    pub tokens: Vec<Token>,
    /// How long a login at the page lasts.
    pub session_max: Duration,
    /// Limits of each user, token and address that has no others.
    pub limits: UserLimits,
    /// Providers of OpenID Connect, by which users log in.
    pub oidc: Vec<OidcOptions>,
    /// Directories, by whose passwords users log in.
    pub ldap: Vec<LdapOptions>,
    /// A proxy that vouches for users, or names the addresses of clients.
    pub proxy: Proxy,
    /// By which of their names the certificates of clients name users; `None` if they name nobody.
    pub certificates: Option<NamedBy>,
    /// What users of other systems may do.
    pub groups: Groups,
}

/// A person, who authenticates by password.
#[derive(Clone)]
pub struct User {
    /// Unique among users and tokens.
    pub name: Arc<str>,
    /// The argon2id hash of the password.
    pub hash: PasswordHash,
    /// What the user may do.
    pub rights: Arc<Rights>,
}

/// A program, which authenticates by token.
#[derive(Clone)]
pub struct Token {
    /// Unique among users and tokens.
    pub name: Arc<str>,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// What it may do.
    pub rights: Arc<Rights>,
    /// From when on it is not valid, in seconds since 1970; `None` if it does not expire.
    pub expires_s: Option<i64>,
    /// The SHA-256 of the token before the last rotation, and until when it is valid.
    pub previous: Option<([u8; 32], i64)>,
    /// When it was used last, in seconds since 1970; 0 if it was not. Clones share it.
    pub last_used_s: Arc<AtomicI64>,
}

impl Token {
    /// A token that does not expire.
    pub fn new(name: Arc<str>, digest: [u8; 32], rights: impl Into<Rights>) -> Token {
        let (rights, last_used_s) = (Arc::new(rights.into()), Arc::default());
        Token { name, digest, rights, expires_s: None, previous: None, last_used_s }
    }

    /// Notes that it was used.
    pub fn used(&self, now_s: i64) {
        self.last_used_s.fetch_max(now_s, Relaxed);
    }
}

/// Checks that a user or a token can have that name.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    match !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(format!(
            "the name '{name}' must consist of letters, digits and . _ @ -, {NAME_CHARS_MAX} at \
             most"
        )),
    }
}

impl Default for AccessOptions {
    fn default() -> Self {
        AccessOptions {
            users: Vec::new(),
            tokens: Vec::new(),
            session_max: Duration::from_secs(12 * 3600),
            limits: UserLimits::default(),
            oidc: Vec::new(),
            ldap: Vec::new(),
            proxy: None,
            certificates: None,
            groups: Groups::default(),
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({} {})", self.name, self.rights.role.name())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} {})", self.name, self.rights.role.name())
    }
}

impl AccessOptions {
    /// Whether there is a user or a token of that name.
    pub fn has_name(&self, name: &str) -> bool {
        self.users.iter().any(|user| *user.name == *name)
            || self.tokens.iter().any(|token| *token.name == *name)
    }

    /// Whether somebody may administer the server.
    pub fn has_admin(&self) -> bool {
        self.users.iter().any(|user| user.rights.role == Role::Admin)
            || self.tokens.iter().any(|token| token.rights.role == Role::Admin)
            || self.groups.has_admin()
    }

    /// Whether no credentials are needed.
    pub fn is_off(&self) -> bool {
        let by_proxy = self.proxy.as_ref().is_some_and(|proxy| proxy.user_header.is_some());
        let by_systems = !self.oidc.is_empty() || !self.ldap.is_empty();
        let by_others = by_systems || by_proxy || self.certificates.is_some();
        self.users.is_empty() && self.tokens.is_empty() && !by_others
    }
}
