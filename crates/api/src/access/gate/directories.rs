//! Users whom a directory vouches for: their passwords at the page and by HTTP Basic.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;

use super::Gate;
use crate::access::ldap::{Directories, Found, Miss};
use crate::access::outside::Outside;
use crate::access::principal::Principal;
use crate::access::secrets::PASSWORD_BYTES_MAX;
use crate::wire::error::{ApiError, ApiResult};

/// Bytes of a name that a directory is asked for. A longer one is nobody's.
const NAME_BYTES_MAX: usize = 256;

impl Gate {
    /// Whether somebody can log in with a password.
    pub fn has_passwords(&self) -> bool {
        self.has_users() || !self.access().directories.is_empty()
    }

    /// The user of a login at the page, and what a directory says of one whom it vouches for. A
    /// directory is asked even if it said so a moment ago.
    ///
    /// # Errors
    /// Those of [`Gate::by_password`].
    pub async fn by_login(
        &self,
        name: &str,
        password: &[u8],
        peer: Option<SocketAddr>,
    ) -> ApiResult<(Principal, Option<Outside>)> {
        match self.directories_of(name) {
            Some(directories) => {
                let found = self.by_directories(&directories, name, password, peer, true).await?;
                Ok((found.0, Some(found.1)))
            }
            None => Ok((self.by_password(name, password, peer).await?, None)),
        }
    }

    /// The directories, if they are to be asked for a name.
    pub(super) fn directories_of(&self, name: &str) -> Option<Directories> {
        let access = self.access();
        let is_asked = !access.directories.is_empty() && access.user(name).is_none();
        is_asked.then(|| access.directories.clone())
    }

    /// The user of a directory with that name and password.
    ///
    /// # Errors
    /// 401 if name or password is wrong, 403 if no rule lets the user in, 429 after too many
    /// attempts, 502 if a directory is away, 503 while too many are being asked for.
    pub(super) async fn by_directories(
        &self,
        directories: &Directories,
        name: &str,
        password: &[u8],
        peer: Option<SocketAddr>,
        is_fresh: bool,
    ) -> ApiResult<(Principal, Outside)> {
        let is_name =
            !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
        // A server that ends texts at a zero would take a password that begins with it for empty.
        let is_password =
            !password.is_empty() && password.len() <= PASSWORD_BYTES_MAX && !password.contains(&0);
        if is_name
            && is_password
            && !is_fresh
            && let Some(found) = directories.known(name, password)
        {
            return self.let_in(&found, peer);
        }
        // Directories compare names without regard to case and repeated blanks, so that one name
        // in many spellings counts as one.
        let counted = name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        self.attempt(peer, &counted)?;
        // A bind with an empty password succeeds, and proves nothing (RFC 4513, 5.1.2).
        if !is_name || !is_password {
            return Err(self.failed(peer, "somebody", "a name or a password of no use"));
        }
        let found = directories.log_in(name, password, is_fresh).await;
        let found = found.inspect_err(|_| self.attempt_succeeded(peer, &counted))?;
        match found {
            Ok(found) => {
                self.attempt_succeeded(peer, &counted);
                self.let_in(&found, peer)
            }
            // The name is not logged: it may be a password, typed into the wrong field.
            Err(Miss::Unknown) => {
                Err(self.failed(peer, "somebody", "there is no user of that name"))
            }
            Err(Miss::Refused(source, why)) => {
                Err(self.failed(peer, &format!("a user of '{source}'"), &why))
            }
            Err(Miss::Away(source)) => {
                self.attempt_succeeded(peer, &counted);
                let message = format!(
                    "the directory '{source}' cannot be asked now; try again later, or log in as a \
                     user of this server"
                );
                Err(ApiError::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    /// A user whose password was right, if a rule lets the user in.
    fn let_in(&self, found: &Found, peer: Option<SocketAddr>) -> ApiResult<(Principal, Outside)> {
        let source = &found.source;
        let name = self.named_outside(source, &found.told.name);
        let name = name.map_err(|why| self.not_let_in(peer, source, &why))?;
        let outside = Outside::new(Arc::clone(source), &found.told, &self.groups());
        match self.rights_outside(&outside) {
            Some(rights) => Ok((Principal::named(name, rights), outside)),
            None => {
                let why = format!(
                    "no group of {name} may log in here; have an administrator add one of them to \
                     [[access.groups]], or the user to a group that is there"
                );
                Err(self.not_let_in(peer, source, &why))
            }
        }
    }
}
