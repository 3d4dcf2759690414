//! Logins that have begun: a browser was sent to a provider and has not come back.
//!
//! Each is known by a random `state`, which the provider sends back, and belongs to the browser
//! that began it, which has a cookie. It is removed when it is taken, so it is of use once. The
//! table has hashes of both, as that of sessions has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use crate::access::secrets::sha256;
use crate::wire::listen::seats::network;

/// Logins that have begun, at a time. If another one begins, the oldest is forgotten, and has to
/// begin again.
///
/// limits.md, Lines on their way in: logins by a provider that have begun | {};
/// {ADDRESS_PENDING_MAX} from one address; ten minutes each | the oldest has to begin again
const PENDING_MAX: usize = 4096;
/// Those from one address, so that one address does not end the logins of all others.
const ADDRESS_PENDING_MAX: usize = 256;
/// How long a user may take at the provider.
pub const PENDING_TIME_MAX: Duration = Duration::from_secs(600);

/// Logins that have begun.
#[derive(Default)]
pub struct Pending(Mutex<HashMap<[u8; 32], Begun>>);

/// A login that has begun.
pub struct Begun {
    /// The provider.
    pub provider: Arc<str>,
    /// Ties the ID token to this login.
    pub nonce: String,
    /// Ties the code to this server (RFC 7636).
    pub verifier: String,
    /// Where on the page the login leads.
    pub to: String,
    browser: [u8; 32],
    address: IpAddr,
    begun: Instant,
}

/// What the browser is given.
pub struct Given {
    /// The parameter that comes back.
    pub state: String,
    /// The value of the cookie.
    pub cookie: String,
    /// For the ID token.
    pub nonce: String,
    /// For the code.
    pub verifier: String,
}

impl Pending {
    /// Begins a login; none if the system has no random numbers.
    pub fn begin(&self, provider: Arc<str>, to: String, address: IpAddr) -> Option<Given> {
        let given =
            Given { state: random()?, cookie: random()?, nonce: random()?, verifier: random()? };
        let address = network(address);
        let begun = Begun {
            provider,
            nonce: given.nonce.clone(),
            verifier: given.verifier.clone(),
            to,
            browser: sha256(given.cookie.as_bytes()),
            address,
            begun: Instant::now(),
        };
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, begun| begun.begun.elapsed() < PENDING_TIME_MAX);
        let own = table.values().filter(|begun| begun.address == address).count();
        let is_own = own >= ADDRESS_PENDING_MAX;
        if is_own || table.len() >= PENDING_MAX {
            let candidates = table.iter().filter(|(_, begun)| !is_own || begun.address == address);
            let oldest = candidates.min_by_key(|(_, begun)| begun.begun).map(|(key, _)| *key);
            oldest.map(|key| table.remove(&key));
        }
        table.insert(sha256(given.state.as_bytes()), begun);
        Some(given)
    }

    /// Takes the login with that state, if it is of that provider and one of these cookies is that
    /// of the browser that began it.
    pub fn take<'a>(
        &self,
        state: &str,
        mut cookies: impl Iterator<Item = &'a [u8]>,
        provider: &str,
    ) -> Option<Begun> {
        let key = sha256(state.as_bytes());
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = table.get(&key)?;
        let is_own = cookies.any(|cookie| bool::from(sha256(cookie).ct_eq(&begun.browser)));
        if !is_own || *begun.provider != *provider {
            return None;
        }
        table.remove(&key).filter(|begun| begun.begun.elapsed() < PENDING_TIME_MAX)
    }
}

/// 256 random bits as text.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_belongs_to_its_browser_and_is_taken_once() {
        let pending = Pending::default();
        let begin = |provider: &str| {
            pending.begin(provider.into(), "/".into(), [10, 0, 0, 1].into()).unwrap()
        };
        let (one, other) = (begin("one"), begin("two"));
        let take = |state: &str, cookie: &str, provider: &str| {
            pending.take(state, [&b"x"[..], cookie.as_bytes()].into_iter(), provider).is_some()
        };
        assert!(!take(&one.state, &other.cookie, "one"));
        assert!(!take(&one.state, &one.cookie, "two"));
        assert!(!take(&other.state, &one.cookie, "two"));
        assert!(!take("", "", "one"));
        assert!(take(&one.state, &one.cookie, "one"));
        assert!(!take(&one.state, &one.cookie, "one"));
        assert!(take(&other.state, &other.cookie, "two"));
    }

    #[test]
    fn their_number_is_bounded() {
        let pending = Pending::default();
        let begin =
            |address: u32| pending.begin("one".into(), "/".into(), address.to_be_bytes().into());
        let ours = begin(1).unwrap();
        for _ in 0..ADDRESS_PENDING_MAX {
            begin(2).unwrap();
        }
        let count = || pending.0.lock().unwrap().len();
        assert_eq!(count(), 1 + ADDRESS_PENDING_MAX);
        begin(2).unwrap();
        assert_eq!(count(), 1 + ADDRESS_PENDING_MAX);
        assert!(pending.take(&ours.state, [ours.cookie.as_bytes()].into_iter(), "one").is_some());
        for address in 0..2 * PENDING_MAX as u32 {
            begin(address).unwrap();
        }
        assert_eq!(count(), PENDING_MAX);
    }

    #[test]
    fn they_expire() {
        let pending = Pending::default();
        let ours = pending.begin("one".into(), "/".into(), [10, 0, 0, 1].into()).unwrap();
        let Some(before) = Instant::now().checked_sub(PENDING_TIME_MAX) else { return };
        pending.0.lock().unwrap().values_mut().for_each(|begun| begun.begun = before);
        assert!(pending.take(&ours.state, [ours.cookie.as_bytes()].into_iter(), "one").is_none());
    }
}
