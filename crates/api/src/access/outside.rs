//! What a session keeps of a user whom another system vouches for: the groups, and what is needed
//! to ask the system again.
//!
//! Such a user is named `NAME@SYSTEM`. So nobody can take the name of a user or a token of this
//! server, or that of a user of another system, by choosing it there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cluster::engines::Secret;

use super::groups::Groups;

/// Bytes of a token that is kept. One that is longer is not kept: without a refresh token the
/// session lasts as long as its settings allow, without an ID token the logout at the provider may
/// ask for a confirmation.
///
/// limits.md, Lines on their way in: tokens of a provider that a session keeps | {} bytes each |
/// the session goes on without it
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The other system's part of a session.
pub struct Outside {
    /// The name of the system in the configuration.
    pub source: Arc<str>,
    /// Who the user is there, which does not change with the name.
    pub subject: String,
    state: Mutex<State>,
    /// Held while the system is asked.
    pub turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Clone)]
struct State {
    groups: Arc<[Arc<str>]>,
    refresh: Option<Secret>,
    id_token: Option<Secret>,
    /// When the system last said that all is well.
    confirmed: Instant,
    /// When it was last asked.
    asked: Instant,
}

/// What a system says of a user.
pub struct Told {
    /// The name, without that of the system.
    pub name: String,
    /// Who the user is there.
    pub subject: String,
    /// All groups.
    pub groups: Vec<String>,
    /// What to ask again with: the token of a provider; for a directory, the name that was typed.
    pub refresh: Option<String>,
    /// The token that names the user at the logout.
    pub id_token: Option<String>,
}

impl Outside {
    /// For a user who has just logged in.
    pub fn new(source: Arc<str>, told: &Told, groups: &Groups) -> Outside {
        let now = Instant::now();
        let groups = groups.named(&source, told.groups.iter().map(String::as_str));
        Outside {
            source,
            subject: told.subject.clone(),
            state: Mutex::new(State {
                groups,
                refresh: kept(&told.refresh),
                id_token: kept(&told.id_token),
                confirmed: now,
                asked: now,
            }),
            turn: Arc::default(),
        }
    }

    /// The groups that rules named when the system was last asked.
    pub fn groups(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.state().groups)
    }

    /// What to ask again with: a token, or the name that was typed.
    pub fn refresh(&self) -> Option<Secret> {
        self.state().refresh.clone()
    }

    /// The token that names the user at the logout.
    pub fn id_token(&self) -> Option<Secret> {
        self.state().id_token.clone()
    }

    /// When the system last said that all is well, and when it was last asked.
    pub fn times(&self) -> (Instant, Instant) {
        let state = self.state();
        (state.confirmed, state.asked)
    }

    /// Takes over what the system says now.
    pub fn confirm(&self, told: &Told, groups: &Groups) {
        let mut state = self.state();
        state.confirmed = Instant::now();
        state.asked = state.confirmed;
        state.groups = groups.named(&self.source, told.groups.iter().map(String::as_str));
        // A system that does not replace its tokens goes on with the old ones.
        state.refresh = kept(&told.refresh).or(state.refresh.take());
        state.id_token = kept(&told.id_token).or(state.id_token.take());
    }

    /// Notes that the system could not be asked.
    pub fn was_away(&self) {
        self.state().asked = Instant::now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kept(token: &Option<String>) -> Option<Secret> {
    token.as_ref().filter(|token| token.len() <= TOKEN_BYTES_MAX).map(Secret::new)
}
