//! Logins by OpenID Connect: the authorization code flow with PKCE.
//!
//! - [`routes`]: sends the browser to the provider, and takes it back;
//! - [`pending`]: logins between the two;
//! - [`provider`]: what the provider says of itself, and the calls to it;
//! - [`jwt`]: ID tokens.
//!
//! A login is accepted if the browser that began it brings back its `state`, the provider exchanges
//! the code for an ID token that is signed by one of its keys, is for this server and has the nonce
//! of that login, and a rule of groups lets the user in. The session is then one of the page, as
//! after a password. At intervals the provider is asked by the refresh token whether the session
//! may go on: at a request of the session, never without one, because asking keeps a session at the
//! provider alive.
//!
//! Invariants: the address to come back to is that of the configuration, whatever `Host` says. At
//! most [`CALLS_MAX`] calls to providers run at a time, and [`WAITING_MAX`] wait. While a provider
//! is away, its sessions go on for [`AWAY_MAX`]; other ways to log in do not depend on it.
//!
//! Left out: logouts that the provider begins (the next refresh finds them), encrypted tokens, and
//! dynamic registration.

pub mod jwt;
pub mod options;
pub mod pending;
pub mod provider;
pub mod routes;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use self::options::OidcOptions;
use self::pending::Pending;
use self::provider::{Fault, Provider};
use super::groups::Groups;
use super::outside::{Outside, Told};
use crate::wire::error::{ApiError, ApiResult};

/// Calls to providers at a time.
///
/// limits.md, Lines on their way in: calls to providers of logins at a time | {}; {WAITING_MAX}
/// callers wait | a further login is refused with 503
const CALLS_MAX: usize = 8;
/// Those that run or wait for their turn.
const WAITING_MAX: usize = 64;
/// How long sessions go on while their provider cannot be asked.
///
/// limits.md, Lines on their way in: sessions whose provider is away | an hour after it last
/// confirmed them | they end; their users log in again
const AWAY_MAX: Duration = Duration::from_secs(3_600);
/// The longest time between two calls to a provider that is away, for each session.
const AWAY_RETRY: Duration = Duration::from_secs(60);

/// The path to which providers send browsers back.
pub fn is_callback(path: &str) -> bool {
    let name = path.strip_prefix("/api/v1/login/oidc/").and_then(|p| p.strip_suffix("/callback"));
    name.is_some_and(|name| !name.contains('/'))
}

/// All providers, and the logins that have begun.
#[derive(Clone, Default)]
pub struct Providers {
    all: Vec<Arc<Provider>>,
    pending: Arc<Pending>,
    calls: Arc<Calls>,
}

struct Calls {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            running: Arc::new(Semaphore::new(CALLS_MAX)),
            waiting: Semaphore::new(CALLS_MAX + WAITING_MAX),
        }
    }
}

impl Providers {
    /// The providers with these settings. Those whose settings stayed keep what they said of
    /// themselves; logins that have begun go on.
    pub fn new(options: &[OidcOptions], before: Option<&Providers>) -> Providers {
        let before = before.cloned().unwrap_or_default();
        let known = |options: &OidcOptions| {
            let same = before.all.iter().find(|provider| provider.options == *options);
            same.map(Arc::clone).or_else(|| match Provider::new(options.clone()) {
                Ok(provider) => Some(Arc::new(provider)),
                Err(why) => {
                    tracing::error!("nobody can log in by '{}': {why}", options.name);
                    None
                }
            })
        };
        Providers { all: options.iter().filter_map(known).collect(), ..before }
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Provider>> {
        self.all.iter().find(|provider| *provider.options.name == *name)
    }

    /// Whether the provider of that name is as it was before.
    pub fn kept(&self, name: &str, before: &Providers) -> bool {
        let (now, before) = (self.get(name), before.get(name));
        now.is_some_and(|now| before.is_some_and(|before| Arc::ptr_eq(now, before)))
    }

    /// The names, as they were configured.
    pub fn names(&self) -> Vec<&str> {
        self.all.iter().map(|provider| &*provider.options.name).collect()
    }

    /// Logins that have begun.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Calls a provider, on a thread that may block, when it is the caller's turn.
    async fn called<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> ApiResult<T> {
        let busy = || {
            let message = "too many logins by providers at a time; try again in a moment";
            ApiError::unavailable(message).retry_after(1)
        };
        let _waits = self.calls.waiting.try_acquire().map_err(|_| busy())?;
        let permit = Arc::clone(&self.calls.running).acquire_owned().await.map_err(|_| busy())?;
        let called = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call()
        });
        called.await.map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Whether a session may go on; asks its provider if it is time to. An error says why not.
    pub async fn confirmed(&self, outside: &Arc<Outside>, groups: &Groups) -> Result<(), String> {
        let Some(provider) = self.get(&outside.source) else {
            return Err("nobody can log in by this provider any more".to_owned());
        };
        if !is_due(provider, outside) {
            return Ok(());
        }
        let (this, provider) = (self.clone(), Arc::clone(provider));
        let (outside, groups) = (Arc::clone(outside), groups.clone());
        // A refresh token may be of use once: its answer is kept even if the request is gone.
        let asked = tokio::spawn(async move {
            let _turn = outside.turn.lock().await;
            if !is_due(&provider, &outside) {
                return Ok(());
            }
            this.ask(&provider, &outside, &groups).await
        });
        asked.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn ask(
        &self,
        provider: &Arc<Provider>,
        outside: &Arc<Outside>,
        groups: &Groups,
    ) -> Result<(), String> {
        let Some(refresh) = outside.refresh() else { return Ok(()) };
        let (asked, of) = (Arc::clone(provider), Arc::clone(outside));
        let told = self.called(move || asked.by_refresh(refresh.expose(), &of.subject)).await;
        let told: Result<Told, Fault> =
            told.unwrap_or_else(|error| Err(Fault::Away(error.to_string())));
        match told {
            Ok(told) => {
                outside.confirm(&told, groups);
                Ok(())
            }
            Err(Fault::Refused(why)) => Err(why),
            Err(Fault::Away(why)) => {
                outside.was_away();
                provider.log_away(&why);
                match outside.times().0.elapsed() < AWAY_MAX {
                    true => Ok(()),
                    false => Err(format!("it could not be asked for an hour: {why}")),
                }
            }
        }
    }
}

/// Whether it is time to ask the provider.
fn is_due(provider: &Provider, outside: &Outside) -> bool {
    let (confirmed, asked) = outside.times();
    let recheck = provider.options.recheck;
    outside.refresh().is_some()
        && confirmed.elapsed() >= recheck
        && asked.elapsed() >= recheck.min(AWAY_RETRY)
}
