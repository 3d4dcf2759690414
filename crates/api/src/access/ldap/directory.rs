//! A directory: finds users, proves their passwords, reads their groups. All of it blocks.
//!
//! The servers are asked in turn, beginning with the one that answered last; one that was away is
//! left alone for [`AWAY`], so that callers do not wait for it one after another. Only a server
//! that is away is followed by the next: a password that one refuses is not shown to the others,
//! where it would count as a further wrong one.
//!
//! No message contains a password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

use super::connection::{Connection, Depth, Entry, Search};
use super::filter::Given;
use super::names;
use super::options::{Encryption, LdapOptions};
use crate::access::outside::Told;
use crate::wire::clock::now_ns;

/// How long a server that was away is left alone.
const AWAY: Duration = Duration::from_secs(5);
/// The least time between two messages in the log that a directory is away.
const LOGGED: Duration = Duration::from_secs(60);
/// Groups of a user. A user with more is refused, since a rule for a group that is not read could
/// be the one that counts.
///
/// limits.md, Lines on their way in: groups of a user of a directory | {} | the user is refused;
/// let `groups_filter` find fewer
const GROUPS_MAX: usize = 1_000;
/// Passwords that were right, and are taken for right for [`KNOWN_AGE_MAX`].
///
/// limits.md, Lines on their way in: right passwords of a directory that are kept | {}, for a
/// minute | the oldest is forgotten, and the directory is asked again
const KNOWN_MAX: usize = 1_024;
/// How long a right password is taken for right, if `recheck` is not shorter.
const KNOWN_AGE_MAX: Duration = Duration::from_secs(60);

/// Attributes by which directories say that a user is locked; see [`locked`].
const LOCKS: [&str; 5] = [
    "userAccountControl",
    "accountExpires",
    "pwdAccountLockedTime",
    "nsAccountLock",
    "loginDisabled",
];
/// Seconds from 1601, where Active Directory begins to count, to 1970.
const FROM_1601_S: i64 = 11_644_473_600;

/// Codes of RFC 4511 that mean success, too many entries, and no such entry.
const SUCCESS: i32 = 0;
const SIZE_LIMIT: i32 = 4;
const NO_SUCH_ENTRY: i32 = 32;
/// Codes by which a server refuses a password, or a user: constraintViolation (too many wrong
/// ones), noSuchObject, inappropriateAuthentication (there is no password), invalidCredentials,
/// insufficientAccessRights, unwillingToPerform (the user is locked).
const REFUSALS: [i32; 6] = [19, NO_SUCH_ENTRY, 48, 49, 50, 53];

/// Why there is no login, or no session any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The directory cannot be asked now, or its answers are of no use.
    Away(String),
    /// It refuses.
    Refused(String),
}

/// A directory.
pub struct Directory {
    /// Its settings.
    pub options: LdapOptions,
    tls: Arc<ClientConfig>,
    /// Random for each directory, so that a table that somebody reads says nothing of passwords.
    key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The server that answered last.
    good: usize,
    /// Until when each server is left alone.
    away: HashMap<usize, Instant>,
    logged: Option<Instant>,
    known: HashMap<[u8; 32], (Arc<Told>, Instant)>,
}

impl Directory {
    /// The directory with these settings.
    ///
    /// # Errors
    /// The certificates that servers are verified with cannot be read.
    pub fn new(options: LdapOptions) -> Result<Directory, String> {
        let mut roots = RootCertStore::empty();
        let found = node::cluster::roots(options.ca.as_deref());
        match found {
            Ok(found) => {
                let found = found.iter().map(|one| CertificateDer::from(one.der().to_vec()));
                let (added, _) = roots.add_parsable_certificates(found);
                if added == 0 {
                    return Err("there is no certificate of use in ca_file".to_owned());
                }
            }
            // A directory on this machine needs none.
            Err(_)
                if options.servers.iter().all(|server| server.encryption == Encryption::None) => {}
            Err(error) => return Err(format!("{error:#}")),
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the system provides no random numbers")?;
        Ok(Directory { options, tls: Arc::new(tls), key, state: Mutex::default() })
    }

    /// Tells the log that the directory is away, once a minute: callers and sessions may be many.
    pub fn log_away(&self, why: &str) {
        let mut state = self.lock();
        if state.logged.is_some_and(|at| at.elapsed() < LOGGED) {
            return;
        }
        state.logged = Some(Instant::now());
        drop(state);
        let name = &self.options.name;
        tracing::warn!(
            "the directory '{name}' does not answer in time: logins by it may fail, and its sessions end \
             an hour after it last confirmed them: {why}"
        );
    }

    /// The user with that name and password, if it was right a short time ago.
    pub fn known(&self, name: &str, password: &[u8]) -> Option<Arc<Told>> {
        let age_max = KNOWN_AGE_MAX.min(self.options.recheck);
        let mut state = self.lock();
        let mark = self.mark(name, password);
        let (told, at) = state.known.get(&mark)?;
        if at.elapsed() < age_max {
            return Some(Arc::clone(told));
        }
        state.known.remove(&mark);
        None
    }

    /// Finds a user and proves the password. None if there is no user of that name.
    ///
    /// # Errors
    /// The directory is away, or refuses.
    pub fn log_in(&self, name: &str, password: &[u8]) -> Result<Option<Arc<Told>>, Fault> {
        let told = self.asked(|connection| {
            let base = &self.options.user_base;
            let Some(entry) = self.user(connection, base, Depth::All, name)? else {
                return Ok(None);
            };
            // The groups are read by the account, which the bind of the user replaces.
            let told = self.told(connection, &entry, name)?;
            let outcome = connection.bind(&entry.dn, password).map_err(Fault::Away)?;
            match outcome.code {
                SUCCESS => {}
                code if REFUSALS.contains(&code) => {
                    let why = format!("it does not accept the password: {}", outcome.shown());
                    return Err(Fault::Refused(why));
                }
                _ => return Err(Fault::Away(format!("it answered {}", outcome.shown()))),
            }
            // Only who knows the password is told that the user is locked.
            locked(&entry, now_ns() / 1_000_000_000)?;
            Ok(Some(Arc::new(told)))
        })?;
        let Some(told) = told else { return Ok(None) };
        let mark = self.mark(name, password);
        let mut state = self.lock();
        if state.known.len() >= KNOWN_MAX && !state.known.contains_key(&mark) {
            let oldest = state.known.iter().min_by_key(|(_, (_, at))| *at).map(|(mark, _)| *mark);
            oldest.map(|mark| state.known.remove(&mark));
        }
        state.known.insert(mark, (Arc::clone(&told), Instant::now()));
        Ok(Some(told))
    }

    /// Whether the session of a user may go on, and what holds for the user now: `dn` is the
    /// user's entry, and `typed` the name with which the session began.
    ///
    /// # Errors
    /// The directory is away, or has no such user any more, or has locked the user.
    pub fn confirm(&self, typed: &str, dn: &str) -> Result<Told, Fault> {
        self.asked(|connection| {
            let entry = self.user(connection, dn, Depth::Entry, typed)?.ok_or_else(|| {
                let why = "it has no such user any more, or user_filter leaves the user out";
                Fault::Refused(why.to_owned())
            })?;
            locked(&entry, now_ns() / 1_000_000_000)?;
            self.told(connection, &entry, typed)
        })
    }

    /// Asks one server after the other, until one is not away.
    fn asked<T>(&self, ask: impl Fn(&mut Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut faults = Vec::new();
        for at in self.turns() {
            let server = &self.options.servers[at];
            let answer = Connection::new(server, &self.tls, self.options.timeout)
                .map_err(Fault::Away)
                .and_then(|mut connection| {
                    self.bind_account(&mut connection)?;
                    ask(&mut connection)
                });
            let mut state = self.lock();
            match answer {
                Err(Fault::Away(why)) => {
                    state.away.insert(at, Instant::now() + AWAY);
                    faults.push(format!("{}:{}: {why}", server.host, server.port));
                }
                answer => {
                    state.away.remove(&at);
                    state.good = at;
                    return answer;
                }
            }
        }
        match faults.is_empty() {
            true => Err(Fault::Away("it was away a moment ago".to_owned())),
            false => Err(Fault::Away(faults.join("; "))),
        }
    }

    /// The servers to ask, in order.
    fn turns(&self) -> Vec<usize> {
        let state = self.lock();
        let count = self.options.servers.len();
        let all = (0..count).map(|n| (state.good + n) % count);
        let now = Instant::now();
        let is_left_alone = |at: &usize| state.away.get(at).is_some_and(|until| now < *until);
        all.filter(|at| !is_left_alone(at)).collect()
    }

    fn bind_account(&self, connection: &mut Connection) -> Result<(), Fault> {
        let Some((dn, password)) = &self.options.account else { return Ok(()) };
        let outcome = connection.bind(dn, password.expose().as_bytes()).map_err(Fault::Away)?;
        match outcome.code {
            SUCCESS => Ok(()),
            _ => Err(Fault::Away(format!("it refuses bind_dn: {}", outcome.shown()))),
        }
    }

    /// The only entry of a user.
    fn user(
        &self,
        connection: &mut Connection,
        base: &str,
        depth: Depth,
        name: &str,
    ) -> Result<Option<Entry>, Fault> {
        let options = &self.options;
        let mut attributes = vec![&*options.name_attribute];
        attributes.extend(options.groups_attribute.as_deref());
        attributes.extend(LOCKS);
        let search = Search {
            base,
            depth,
            filter: options.user_filter.encoded(&Given { user: name, dn: base }),
            attributes: &attributes,
            entries_max: 2,
        };
        let (outcome, mut entries) = connection.search(&search).map_err(Fault::Away)?;
        match (outcome.code, entries.len(), depth) {
            // An empty name would be taken for no name, which proves nothing.
            (SUCCESS, 1, _) if !entries[0].dn.is_empty() => Ok(entries.pop()),
            (SUCCESS, 0, _) | (NO_SUCH_ENTRY, _, Depth::Entry) => Ok(None),
            (SUCCESS | SIZE_LIMIT, ..) => {
                let why = "user_filter finds several entries for this name";
                Err(Fault::Refused(why.to_owned()))
            }
            (NO_SUCH_ENTRY, ..) => {
                Err(Fault::Away("it has no entry user_base, or hides it from bind_dn".to_owned()))
            }
            _ => Err(Fault::Away(format!("it answered a search with {}", outcome.shown()))),
        }
    }

    fn told(&self, connection: &mut Connection, entry: &Entry, typed: &str) -> Result<Told, Fault> {
        let attribute = &self.options.name_attribute;
        let mut names = entry.values(attribute);
        // Of several names that counts which was typed.
        let same = entry.values(attribute).find(|name| name.eq_ignore_ascii_case(typed));
        let name = match (names.next(), names.next()) {
            (Some(name), None) => Some(name),
            _ => same,
        };
        let name = name.ok_or_else(|| {
            let why = format!("the user has no attribute '{attribute}', or several");
            Fault::Refused(why)
        })?;
        Ok(Told {
            name: name.to_owned(),
            subject: entry.dn.clone(),
            groups: self.groups(connection, entry, typed)?,
            refresh: Some(typed.to_owned()),
            id_token: None,
        })
    }

    /// The names of the user's groups.
    fn groups(
        &self,
        connection: &mut Connection,
        user: &Entry,
        typed: &str,
    ) -> Result<Vec<String>, Fault> {
        let options = &self.options;
        let too_many = || {
            let why = format!(
                "the user has more than {GROUPS_MAX} groups; let groups_filter find \
                               fewer"
            );
            Fault::Refused(why)
        };
        let mut all: Vec<String> = match &options.groups_attribute {
            Some(attribute) if user.is_partial(attribute) => return Err(too_many()),
            Some(attribute) => user.values(attribute).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        if let (Some(filter), Some(base)) = (&options.groups_filter, &options.groups_base) {
            let search = Search {
                base,
                depth: Depth::All,
                filter: filter.encoded(&Given { user: typed, dn: &user.dn }),
                // No attribute (RFC 4511, 4.5.1.8): the names of entries are enough.
                attributes: &["1.1"],
                entries_max: GROUPS_MAX as i32,
            };
            let (outcome, entries) = connection.search(&search).map_err(Fault::Away)?;
            match outcome.code {
                SUCCESS => all.extend(entries.into_iter().map(|entry| entry.dn)),
                SIZE_LIMIT => return Err(too_many()),
                NO_SUCH_ENTRY => {
                    let why = "it has no entry groups_base, or hides it from bind_dn";
                    return Err(Fault::Away(why.to_owned()));
                }
                _ => {
                    let why = format!("it answered a search of groups with {}", outcome.shown());
                    return Err(Fault::Away(why));
                }
            }
        }
        if all.len() > GROUPS_MAX {
            return Err(too_many());
        }
        let base = options.groups_base.as_deref();
        Ok(all.iter().flat_map(|dn| names::of_group(dn, base)).collect())
    }

    /// The key of a right password in the table.
    fn mark(&self, name: &str, password: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(name.len() as u64).to_le_bytes());
        context.update(name.as_bytes());
        context.update(password);
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a user whom the directory says that it has locked, in the ways of Active Directory,
/// OpenLDAP's password policy, 389 Directory Server (FreeIPA) and eDirectory. A lock that wrong
/// passwords brought about does not count here: it ends by itself, the server itself refuses
/// passwords meanwhile, and strangers could end sessions by it.
fn locked(entry: &Entry, now_s: i64) -> Result<(), Fault> {
    let number = |name: &str| entry.values(name).next().and_then(|n| n.parse::<i64>().ok());
    let is_true = |name: &str| entry.values(name).any(|value| value.eq_ignore_ascii_case("true"));
    let is_disabled = number("userAccountControl").is_some_and(|flags| flags & 2 != 0)
        || is_true("nsAccountLock")
        || is_true("loginDisabled")
        || entry.values("pwdAccountLockedTime").any(|time| time.starts_with("000001010000"));
    // Tenths of a microsecond; 0 and the largest number mean never.
    let expires = number("accountExpires").filter(|&ticks| ticks > 0 && ticks != i64::MAX);
    let has_expired = expires.is_some_and(|ticks| ticks / 10_000_000 - FROM_1601_S <= now_s);
    match (is_disabled, has_expired) {
        (true, _) => Err(Fault::Refused("the user is locked there".to_owned())),
        (_, true) => Err(Fault::Refused("the account of the user has expired there".to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_several_directories() {
        let entry = |name: &str, value: &str| Entry::with(&[(name, &[value])]);
        let new_year = "135379296000000000";
        let new_year_s = 1_893_456_000;
        for (name, value, is_locked) in [
            ("userAccountControl", "512", false),
            ("userAccountControl", "514", true),
            ("useraccountcontrol", "66050", true),
            ("userAccountControl", "x", false),
            ("nsAccountLock", "TRUE", true),
            ("nsAccountLock", "false", false),
            ("loginDisabled", "TRUE", true),
            ("pwdAccountLockedTime", "000001010000Z", true),
            ("pwdAccountLockedTime", "20260101120000Z", false),
            ("accountExpires", "0", false),
            ("accountExpires", "9223372036854775807", false),
            ("accountExpires", new_year, false),
        ] {
            let found = locked(&entry(name, value), new_year_s - 1).is_err();
            assert_eq!(found, is_locked, "{name} {value}");
        }
        assert!(locked(&entry("accountExpires", new_year), new_year_s).is_err());
    }
}
