//! Sessions of users who logged in at the page. The cookie holds a random id of 256 bits.
//!
//! The table is keyed by the SHA-256 of the id: whoever reads the table cannot take a session over,
//! and the time of a lookup says nothing about ids. A restart ends all sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use super::outside::Outside;

/// Sessions at a time. If another one begins, the oldest ends.
///
/// limits.md, Lines on their way in: sessions of the page | {}; {USER_SESSIONS_MAX} of one user |
/// the oldest session ends
const SESSIONS_MAX: usize = 1024;
/// Sessions of one user at a time. If another one begins, the oldest of this user ends, so one user
/// cannot end the sessions of all others.
const USER_SESSIONS_MAX: usize = 32;
/// Random bytes of a session's id.
const ID_BYTES: usize = 32;

/// All sessions.
pub struct Sessions {
    /// Nanoseconds; settings may change it.
    lasts_ns: AtomicU64,
    table: Mutex<HashMap<[u8; 32], Session>>,
}

/// A session.
#[derive(Clone)]
pub struct Session {
    /// Who logged in.
    pub user: Arc<str>,
    /// What another system says of the user; `None` for users of this server.
    pub outside: Option<Arc<Outside>>,
    begun: Instant,
}

impl Sessions {
    /// An empty table; each session lasts for that time.
    pub fn new(lasts: Duration) -> Sessions {
        let sessions = Sessions { lasts_ns: AtomicU64::new(0), table: Mutex::default() };
        sessions.set_lasts(lasts);
        sessions
    }

    /// How long each lasts.
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.lasts_ns.load(Relaxed))
    }

    /// Changes that, also for those that have begun.
    pub fn set_lasts(&self, lasts: Duration) {
        self.lasts_ns.store(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Ends all sessions but those for which `stays` holds.
    pub fn keep(&self, stays: impl Fn(&Session) -> bool) {
        self.lock().retain(|_, session| stays(session));
    }

    /// The users whom other systems vouch for, each once, by name.
    pub fn outside(&self) -> Vec<(Arc<str>, Arc<Outside>)> {
        let table = self.lock();
        let of = |session: &Session| Some((Arc::clone(&session.user), session.outside.clone()?));
        let mut found: Vec<_> = table.values().filter_map(of).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.dedup_by(|(one, _), (other, _)| one == other);
        found
    }

    /// Sessions that have not ended.
    pub fn open(&self) -> usize {
        let mut table = self.lock();
        self.forget_ended(&mut table);
        table.len()
    }

    /// Begins a session of a user of this server; see [`Sessions::begin_outside`].
    #[cfg(test)]
    pub fn begin(&self, user: Arc<str>) -> Option<String> {
        self.begin_outside(user, None)
    }

    /// Begins a session and returns the value of its cookie; none if the system has no random
    /// numbers.
    pub fn begin_outside(&self, user: Arc<str>, outside: Option<Arc<Outside>>) -> Option<String> {
        let mut id = [0; ID_BYTES];
        SystemRandom::new().fill(&mut id).ok()?;
        let mut table = self.lock();
        self.forget_ended(&mut table);
        let own = table.values().filter(|session| session.user == user).count();
        let of = (own >= USER_SESSIONS_MAX).then_some(&user);
        if of.is_some() || table.len() >= SESSIONS_MAX {
            let candidates = table.iter().filter(|(_, s)| of.is_none_or(|user| s.user == *user));
            let oldest = candidates.min_by_key(|(_, session)| session.begun).map(|(key, _)| *key);
            oldest.map(|key| table.remove(&key));
        }
        table.insert(key(&id), Session { user, outside, begun: Instant::now() });
        Some(URL_SAFE_NO_PAD.encode(id))
    }

    /// The user of the session with that cookie, unless it has ended.
    #[cfg(test)]
    pub fn user(&self, cookie: &[u8]) -> Option<Arc<str>> {
        self.get(cookie).map(|session| session.user)
    }

    /// The session with that cookie, unless it has ended.
    pub fn get(&self, cookie: &[u8]) -> Option<Session> {
        let key = key(&decode(cookie)?);
        let mut table = self.lock();
        let session = table.get(&key)?;
        if session.begun.elapsed() >= self.lasts() {
            table.remove(&key);
            return None;
        }
        Some(session.clone())
    }

    /// Ends the session with that cookie, and returns it.
    pub fn end(&self, cookie: &[u8]) -> Option<Session> {
        let key = key(&decode(cookie)?);
        self.lock().remove(&key)
    }

    fn forget_ended(&self, table: &mut HashMap<[u8; 32], Session>) {
        let lasts = self.lasts();
        table.retain(|_, session| session.begun.elapsed() < lasts);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decode(cookie: &[u8]) -> Option<[u8; ID_BYTES]> {
    let mut id = [0; ID_BYTES];
    let length = URL_SAFE_NO_PAD.decode_slice(cookie, &mut id).ok()?;
    (length == ID_BYTES).then_some(id)
}

fn key(id: &[u8; ID_BYTES]) -> [u8; 32] {
    digest(&SHA256, id).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_and_end() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let first = sessions.begin("ann".into()).unwrap();
        let second = sessions.begin("bob".into()).unwrap();
        assert_eq!((first.len(), first == second), (43, false));
        assert_eq!(sessions.user(first.as_bytes()).as_deref(), Some("ann"));
        assert_eq!(sessions.user(second.as_bytes()).as_deref(), Some("bob"));
        let long = "x".repeat(100_000);
        for wrong in ["", "x", &first[..42], &"A".repeat(43), &format!("{first}A"), &long, "é"] {
            assert_eq!(sessions.user(wrong.as_bytes()), None, "{wrong:.50}");
        }
        assert_eq!(&*sessions.end(first.as_bytes()).unwrap().user, "ann");
        assert!(sessions.get(first.as_bytes()).is_none());
        assert!(sessions.end(first.as_bytes()).is_none());
        assert_eq!(sessions.open(), 1);
    }

    #[test]
    fn they_end_by_themselves() {
        let sessions = Sessions::new(Duration::ZERO);
        let cookie = sessions.begin("ann".into()).unwrap();
        assert_eq!((sessions.user(cookie.as_bytes()), sessions.open()), (None, 0));
    }

    #[test]
    fn their_number_is_bounded() {
        let sessions = Sessions::new(Duration::from_secs(3_600));
        let bob = sessions.begin("bob".into()).unwrap();
        let of_ann: Vec<_> =
            (0..=USER_SESSIONS_MAX).map(|_| sessions.begin("ann".into()).unwrap()).collect();
        // Ann's own oldest gave way, not that of Bob, which is older.
        assert_eq!(sessions.user(of_ann[0].as_bytes()), None);
        assert!(sessions.user(of_ann[1].as_bytes()).is_some());
        assert!(sessions.user(bob.as_bytes()).is_some());
        for n in 0..SESSIONS_MAX {
            sessions.begin(format!("user{n}").into()).unwrap();
        }
        assert_eq!((sessions.open(), sessions.user(bob.as_bytes())), (SESSIONS_MAX, None));
    }
}
