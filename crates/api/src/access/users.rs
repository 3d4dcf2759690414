//! Users and tokens that may call, as the configuration names them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;

use super::principal::Role;

/// Users and tokens. If there are none, everybody may call everything.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// People, with passwords.
    pub users: Vec<User>,
    /// Programs, with tokens.
    pub tokens: Vec<Token>,
    /// How long a login at the page lasts.
    pub session_max: Duration,
}

/// A person, who authenticates by password.
#[derive(Clone)]
pub struct User {
    /// Unique among users and tokens.
    pub name: Arc<str>,
    /// The argon2id hash of the password.
    pub hash: PasswordHash,
    /// The user's role.
    pub role: Role,
}

/// A program, which authenticates by token.
#[derive(Clone)]
pub struct Token {
    /// Unique among users and tokens.
    pub name: Arc<str>,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// The token's role.
    pub role: Role,
}

impl Default for AccessOptions {
    fn default() -> Self {
        AccessOptions {
            users: Vec::new(),
            tokens: Vec::new(),
            session_max: Duration::from_secs(12 * 3600),
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({} {})", self.name, self.role.name())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} {})", self.name, self.role.name())
    }
}

impl AccessOptions {
    /// Whether no credentials are needed.
    pub fn is_off(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }
}
