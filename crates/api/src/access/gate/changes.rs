//! The users and tokens in force, and their changes: those of the configuration, and those of the
//! data directory ([`Kept`]). A change is durable before it is in force.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use node::data_dir::{ACCESS_FILE, Documents};
use ring::hmac;

use super::Gate;
use super::shared::Sharing;
use crate::access::certificates::NamedBy;
use crate::access::groups::Groups;
use crate::access::kept::Kept;
use crate::access::ldap::Directories;
use crate::access::limits::UserLimits;
use crate::access::oidc::Providers;
use crate::access::principal::Principal;
use crate::access::proxy::Proxy;
use crate::access::rights::Rights;
use crate::access::users::{AccessOptions, Token, User};
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Where users and tokens come from.
pub(super) struct Sources {
    pub(super) configured: AccessOptions,
    pub(super) kept: Kept,
    /// Where [`Kept`] is written; a collector has none.
    pub(super) documents: Option<Arc<dyn Documents>>,
    /// Whether other nodes have the same users and tokens.
    pub(super) sharing: Sharing,
}

/// What a change made.
pub(super) struct Changed<T> {
    /// Users and tokens that are kept.
    pub(super) kept: Kept,
    /// All of them, with those of the configuration.
    pub(super) all: AccessOptions,
    /// What the change returned.
    pub(super) result: T,
}

/// Who may call.
pub(super) struct Access {
    pub(super) users: Vec<Known>,
    pub(super) tokens: Vec<Token>,
    /// Those of each caller that has no others.
    pub(super) limits: UserLimits,
    pub(super) providers: Providers,
    pub(super) directories: Directories,
    pub(super) proxy: Proxy,
    pub(super) certificates: Option<NamedBy>,
    /// What users of other systems may do.
    pub(super) groups: Groups,
    /// Whether no credentials are needed.
    pub(super) is_off: bool,
}

/// A user, and a mark (HMAC) of the last password that was right. Tools send the password with
/// every request, and computing its argon2 hash each time would take longer than most answers.
pub(super) struct Known {
    pub(super) user: User,
    pub(super) right: Mutex<Option<hmac::Tag>>,
}

impl Known {
    /// The user as a caller.
    pub(super) fn principal(&self) -> Principal {
        Principal::named(Arc::clone(&self.user.name), Arc::clone(&self.user.rights))
    }
}

impl Gate {
    /// Why users and tokens of the configuration cannot become these while the server runs.
    pub fn refusal(&self, access: &AccessOptions) -> Option<String> {
        let all = self.sources().kept.added_to(access);
        match all {
            Ok(all) if all.is_off() && !self.is_off() => Some(
                "there would be no users and tokens any more, and everybody could do everything; \
                 restart Loginson for that"
                    .to_owned(),
            ),
            Ok(_) => None,
            // With those of the data directory.
            Err(why) => Some(why),
        }
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
        let Changed { kept, all, result } = match sources.sharing.clone() {
            Sharing::No => {
                let changed = self.changed(&sources.kept, &sources.configured, change)?;
                write(&*documents, &changed.kept)?;
                changed
            }
            sharing => self.change_shared(&sharing, &sources, &*documents, change)?,
        };
        sources.kept = kept;
        self.replace(&all);
        Ok(result)
    }

    /// What a change makes of users and tokens.
    pub(super) fn changed<T>(
        &self,
        before: &Kept,
        configured: &AccessOptions,
        change: impl FnOnce(&mut Kept, &AccessOptions) -> ApiResult<T>,
    ) -> ApiResult<Changed<T>> {
        let mut kept = before.clone();
        let result = change(&mut kept, configured)?;
        let conflict = |why: &str| ApiError::new(StatusCode::CONFLICT, why);
        let all = kept.added_to(configured).map_err(|why| conflict(&why))?;
        let access = self.access();
        let had_admin =
            access.is_off || before.added_to(configured).is_ok_and(|all| all.has_admin());
        if had_admin && !all.has_admin() {
            return Err(conflict(
                "nobody could administer the server any more; make another user or token with the \
                 role admin first",
            ));
        }
        kept.note_uses(&access.tokens);
        Ok(Changed { kept, all, result })
    }

    /// Ends what was begun by tokens that have expired since.
    pub fn end_expired(&self) {
        let (access, now_s) = (self.access(), now_ns() / 1_000_000_000);
        let has_expired = |token: &Token| token.expires_s.is_some_and(|end_s| end_s <= now_s);
        let Some(revoked) = self.0.revoked.get() else { return };
        if access.tokens.iter().any(has_expired) {
            let is_over = |name: Option<&str>| {
                let token = name.and_then(|name| access.token(name));
                token.is_some_and(has_expired)
            };
            revoked(&is_over);
        }
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
        let shared = self.share_uses(&sources.sharing.clone());
        if let Err(why) = shared {
            tracing::warn!("when tokens were used last is not kept: {why}");
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

    /// Sessions stay, except those of users that are no more, or have another password, and those
    /// of providers and directories whose settings changed. What users and tokens began that may
    /// not go on ends.
    pub(super) fn replace(&self, access: &AccessOptions) {
        let before = self.access();
        let after = Arc::new(Access::new(access, Some(&before)));
        *self.0.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        self.0.sessions.set_lasts(access.session_max);
        self.0.sessions.keep(|session| {
            let hash =
                |access: &Access| access.user(&session.user).map(|known| known.user.hash.clone());
            match &session.outside {
                None => hash(&after).is_some_and(|now| hash(&before).as_ref() == Some(&now)),
                Some(outside) => {
                    after.providers.kept(&outside.source, &before.providers)
                        || after.directories.kept(&outside.source, &before.directories)
                }
            }
        });
        if let Some(revoked) = self.0.revoked.get() {
            let is_over = |name: Option<&str>| match name {
                Some(name) => !after.lets_go_on(name, &before),
                None => before.is_off && !after.is_off,
            };
            revoked(&is_over);
        }
    }
}

impl Access {
    /// Of these settings. Users whose password stayed keep the mark of the last right one.
    pub(super) fn new(options: &AccessOptions, before: Option<&Access>) -> Access {
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
            limits: options.limits,
            providers: Providers::new(&options.oidc, before.map(|before| &before.providers)),
            directories: Directories::new(&options.ldap, before.map(|before| &before.directories)),
            proxy: options.proxy.clone(),
            certificates: options.certificates,
            groups: options.groups.clone(),
            is_off: options.is_off(),
        }
    }

    /// Whether what a caller began under `before` may go on: a user or a token of that name has the
    /// same secret and sees the same. Those of other systems are not known here.
    fn lets_go_on(&self, name: &str, before: &Access) -> bool {
        let sees_same = |now: &Rights, then: &Rights| {
            now.role == then.role
                && now.filter == then.filter
                && now.hidden == then.hidden
                && now.tenant == then.tenant
        };
        if let Some(then) = before.user(name) {
            return self.user(name).is_some_and(|now| {
                now.user.hash == then.user.hash && sees_same(&now.user.rights, &then.user.rights)
            });
        }
        let Some(then) = before.token(name) else { return true };
        self.token(name).is_some_and(|now| {
            let was_it = now.previous.is_some_and(|(digest, _)| digest == then.digest);
            (now.digest == then.digest || was_it) && sees_same(&now.rights, &then.rights)
        })
    }

    fn token(&self, name: &str) -> Option<&Token> {
        self.tokens.iter().find(|token| *token.name == *name)
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.user(name).is_some() || self.token(name).is_some()
    }

    pub(super) fn user(&self, name: &str) -> Option<&Known> {
        self.users.iter().find(|known| *known.user.name == *name)
    }
}

/// Writes the file of users and tokens.
pub(super) fn write(documents: &dyn Documents, kept: &Kept) -> ApiResult<()> {
    let text = serde_json::to_vec(kept).expect("it is plain values");
    documents.replace(ACCESS_FILE, &text).map_err(|error| {
        let place = documents.place(ACCESS_FILE);
        let message = format!("the file with users and tokens cannot be written: {place}: {error}");
        ApiError::of_disk(message, &error)
    })
}
