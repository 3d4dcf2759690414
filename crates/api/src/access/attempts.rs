//! Limits failed logins in a window of a minute: for each name from an address, and for each
//! address.
//!
//! An attempt counts from its start, and is taken back if it succeeds, so parallel attempts cannot
//! exceed the limit. An attacker behind the same proxy as a user can use up the limit of the user's
//! name; therefore the gate does not count sessions, tokens, and the last correct password of a
//! user.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::listen::seats::network;

/// How long attempts count.
const WINDOW: Duration = Duration::from_secs(60);
/// Attempts with one name from one address.
///
/// limits.md, Lines on their way in: wrong passwords | {} a minute for a name from an address,
/// {ADDRESS_ATTEMPTS_MAX} a minute from an address | further attempts are refused with 429, without
/// computing a hash. The table has {ENTRIES_MAX} entries; beyond, the oldest entry is dropped
const NAME_ATTEMPTS_MAX: u32 = 10;
/// Attempts with any names from one address (of IPv6, one /64).
const ADDRESS_ATTEMPTS_MAX: u32 = 100;
/// Limit of the entries of the table. A further one replaces the entry that began first.
const ENTRIES_MAX: usize = 4096;

/// An address, and the hash of a name; no hash for all names of the address.
type Key = (IpAddr, Option<u64>);

/// Failed attempts of the last minute.
pub struct Attempts {
    hasher: RandomState,
    table: Mutex<HashMap<Key, Window>>,
    window: Duration,
}

impl Default for Attempts {
    fn default() -> Attempts {
        // A hundred logins of a test may take longer than a minute on a slow machine.
        let window = if cfg!(test) { 60 * WINDOW } else { WINDOW };
        Attempts { hasher: RandomState::default(), table: Mutex::default(), window }
    }
}

#[derive(Clone, Copy)]
struct Window {
    begun: Instant,
    count: u32,
}

impl Attempts {
    /// Counts an attempt, or returns how long the caller has to wait before the next one.
    pub fn begin(&self, address: IpAddr, name: &str) -> Result<(), Duration> {
        let keys = self.keys(address, name);
        let mut table = self.lock();
        for (key, most) in keys {
            let window = table.get(&key).filter(|window| window.begun.elapsed() < self.window);
            if let Some(window) = window.filter(|window| window.count >= most) {
                return Err(self.window.saturating_sub(window.begun.elapsed()));
            }
        }
        for (key, _) in keys {
            self.make_room(&mut table, &key);
            let fresh = Window { begun: Instant::now(), count: 0 };
            let window = table.entry(key).or_insert(fresh);
            if window.begun.elapsed() >= self.window {
                *window = fresh;
            }
            window.count += 1;
        }
        Ok(())
    }

    /// Takes back an attempt that succeeded.
    pub fn succeeded(&self, address: IpAddr, name: &str) {
        let mut table = self.lock();
        for (key, _) in self.keys(address, name) {
            if let Some(window) = table.get_mut(&key) {
                window.count = window.count.saturating_sub(1);
                if window.count == 0 {
                    table.remove(&key);
                }
            }
        }
    }

    fn keys(&self, address: IpAddr, name: &str) -> [(Key, u32); 2] {
        let (address, name) = (network(address), self.hasher.hash_one(name));
        [((address, Some(name)), NAME_ATTEMPTS_MAX), ((address, None), ADDRESS_ATTEMPTS_MAX)]
    }

    fn make_room(&self, table: &mut HashMap<Key, Window>, key: &Key) {
        if table.len() < ENTRIES_MAX || table.contains_key(key) {
            return;
        }
        table.retain(|_, window| window.begun.elapsed() < self.window);
        if table.len() >= ENTRIES_MAX
            && let Some(oldest) = table.iter().min_by_key(|(_, w)| w.begun).map(|(key, _)| *key)
        {
            table.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Window>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_limited() {
        let attempts = Attempts::default();
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..NAME_ATTEMPTS_MAX {
            attempts.begin(here, "ann").unwrap();
        }
        let wait = attempts.begin(here, "ann").unwrap_err();
        assert!(wait <= attempts.window && wait > attempts.window / 2);
        // Others are not hindered, and a successful attempt makes room.
        attempts.begin(here, "bob").unwrap();
        attempts.begin(there, "ann").unwrap();
        attempts.succeeded(here, "ann");
        attempts.begin(here, "ann").unwrap();
        assert!(attempts.begin(here, "ann").is_err());
        // All names of an address together.
        let more = (0..1_000).take_while(|n| attempts.begin(here, &n.to_string()).is_ok()).count();
        assert_eq!(more as u32, ADDRESS_ATTEMPTS_MAX - NAME_ATTEMPTS_MAX - 1);
        assert!(attempts.begin(here, "bob").is_err());
    }

    #[test]
    fn a_successful_attempt_does_not_count() {
        let attempts = Attempts::default();
        for _ in 0..1_000 {
            attempts.begin([10, 0, 0, 1].into(), "ann").unwrap();
            attempts.succeeded([10, 0, 0, 1].into(), "ann");
        }
        assert!(attempts.lock().is_empty());
    }

    #[test]
    fn the_table_is_bounded() {
        let attempts = Attempts::default();
        for n in 0..2 * ENTRIES_MAX as u32 {
            let _ = attempts.begin(IpAddr::from(n.to_be_bytes()), "ann");
        }
        assert_eq!(attempts.lock().len(), ENTRIES_MAX);
    }

    #[test]
    fn attempts_expire() {
        let attempts = Attempts { window: WINDOW, ..Attempts::default() };
        let here = IpAddr::from([10, 0, 0, 1]);
        while attempts.begin(here, "ann").is_ok() {}
        let Some(before) = Instant::now().checked_sub(WINDOW) else { return };
        attempts.lock().values_mut().for_each(|window| window.begun = before);
        attempts.begin(here, "ann").unwrap();
        assert!(attempts.lock().values().all(|window| window.count == 1));
    }
}
