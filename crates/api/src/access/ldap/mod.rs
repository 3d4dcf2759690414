//! Logins by the directory of a company, which is asked by LDAP.
//!
//! - [`directory`]: finds a user, proves the password, reads groups;
//! - [`connection`]: requests and answers of LDAP over TLS;
//! - [`filter`], [`names`], [`ber`]: filters of searches, names of entries, and how both travel.
//!
//! Somebody types a name and a password where passwords of users of this server work: at the page,
//! or by HTTP Basic. A name of a user of this server is looked up here alone. Any other name is
//! looked up in the directories in the order of the configuration; `NAME@DIRECTORY` in that one
//! alone. The first one that has the name decides, so a password is shown to no other; one that is
//! away ends the search, since it may be the one that has the name. Users are named
//! `NAME@DIRECTORY`, where `NAME` is what the directory says, whatever was typed.
//!
//! A session is one of the page, as after any other login. At intervals the directory is asked, at
//! a request of the session, whether it still has the user, has not locked the user, and what the
//! user's groups are.
//!
//! Invariants: an empty password never reaches a directory (RFC 4513, 5.1.2). What is typed never
//! becomes part of a filter ([`filter`]). At most [`CALLS_MAX`] logins are asked for at a time, and
//! [`WAITING_MAX`] wait. Sessions are confirmed in a queue of their own, [`CHECKS_MAX`] at a time,
//! so that many sessions of a slow directory do not delay the logins of all.
//!
//! Left out: the time of an answer tells whether a name is one of this server, of a directory, or
//! unknown; attempts are limited instead.

mod ber;
mod connection;
pub(crate) mod directory;
pub mod filter;
pub mod names;
pub mod options;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use self::directory::{Directory, Fault};
use self::options::LdapOptions;
use super::groups::Groups;
use super::outside::{Outside, Told};
use crate::wire::error::{ApiError, ApiResult};

/// Questions to directories at a time.
///
/// limits.md, Lines on their way in: questions to directories at a time | {}; {WAITING_MAX} callers
/// wait | a further login is refused with 503
const CALLS_MAX: usize = 8;
/// Those that wait for their turn.
const WAITING_MAX: usize = 64;
/// Sessions that are confirmed at a time.
///
/// limits.md, Lines on their way in: sessions that directories are asked about at a time | {};
/// {CHECKS_WAITING_MAX} wait | a further one goes on unconfirmed, and is asked about a minute
/// later; after an hour without an answer it ends
const CHECKS_MAX: usize = 4;
/// Those that wait for their turn.
const CHECKS_WAITING_MAX: usize = 64;
/// Why a session was not confirmed that found no place in the queue.
const CHECKS_WAIT: &str = "too many sessions wait for answers of directories";
/// How long sessions go on while their directory cannot be asked.
///
/// limits.md, Lines on their way in: sessions whose directory is away | an hour after it last
/// confirmed them | they end; their users log in again
const AWAY_MAX: Duration = Duration::from_secs(3_600);
/// The longest time between two questions to a directory that is away, for each session.
const AWAY_RETRY: Duration = Duration::from_secs(60);

/// All directories.
#[derive(Clone)]
pub struct Directories {
    all: Vec<Arc<Directory>>,
    logins: Turns,
    checks: Turns,
}

impl Default for Directories {
    fn default() -> Directories {
        Directories {
            all: Vec::new(),
            logins: Turns::new(CALLS_MAX, WAITING_MAX),
            checks: Turns::new(CHECKS_MAX, CHECKS_WAITING_MAX),
        }
    }
}

/// Calls that run at a time, and those that wait for it.
#[derive(Clone)]
struct Turns {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Turns {
    fn new(running: usize, waiting: usize) -> Turns {
        Turns {
            running: Arc::new(Semaphore::new(running)),
            waiting: Arc::new(Semaphore::new(running + waiting)),
        }
    }

    /// Calls on a thread that may block, when it is the caller's turn; None if too many wait.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> ApiResult<Option<T>> {
        let Ok(_waits) = self.waiting.try_acquire() else { return Ok(None) };
        let Ok(permit) = Arc::clone(&self.running).acquire_owned().await else { return Ok(None) };
        let called = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call()
        });
        called.await.map(Some).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// A user whom a directory vouches for.
pub struct Found {
    /// The directory.
    pub source: Arc<str>,
    /// What it says.
    pub told: Arc<Told>,
}

/// Why nobody was found.
pub enum Miss {
    /// No directory has a user of that name.
    Unknown,
    /// That directory refuses.
    Refused(Arc<str>, String),
    /// That directory cannot be asked.
    Away(Arc<str>),
}

impl Directories {
    /// The directories with these settings. Those whose settings stayed keep what they know.
    pub fn new(options: &[LdapOptions], before: Option<&Directories>) -> Directories {
        let before = before.cloned().unwrap_or_default();
        let known = |options: &LdapOptions| {
            let same = before.all.iter().find(|directory| directory.options == *options);
            same.map(Arc::clone).or_else(|| match Directory::new(options.clone()) {
                Ok(directory) => Some(Arc::new(directory)),
                Err(why) => {
                    tracing::error!("nobody can log in by '{}': {why}", options.name);
                    None
                }
            })
        };
        Directories { all: options.iter().filter_map(known).collect(), ..before }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The directory of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Directory>> {
        self.all.iter().find(|directory| *directory.options.name == *name)
    }

    /// Whether the directory of that name is as it was before.
    pub fn kept(&self, name: &str, before: &Directories) -> bool {
        let (now, before) = (self.get(name), before.get(name));
        now.is_some_and(|now| before.is_some_and(|before| Arc::ptr_eq(now, before)))
    }

    /// The directories that are asked for a name, and the name that they are asked for.
    fn asked<'a>(&self, name: &'a str) -> (Vec<Arc<Directory>>, &'a str) {
        // An empty name would be a value that some directories take for an error of theirs.
        let parts = name.rsplit_once('@').filter(|(name, _)| !name.trim().is_empty());
        let with_source = parts.and_then(|(name, source)| {
            self.get(source).map(|directory| (vec![Arc::clone(directory)], name))
        });
        with_source.unwrap_or_else(|| (self.all.clone(), name))
    }

    /// The user with that name and password, if the password was right a short time ago.
    pub fn known(&self, name: &str, password: &[u8]) -> Option<Found> {
        let (all, name) = self.asked(name);
        known(&all, name, password)
    }

    /// The user with that name and password. `is_fresh`: a directory is asked even if the password
    /// was right a short time ago.
    ///
    /// # Errors
    /// 503 while too many are being asked for. The inner error says why there is no such user.
    pub async fn log_in(
        &self,
        name: &str,
        password: &[u8],
        is_fresh: bool,
    ) -> ApiResult<Result<Found, Miss>> {
        let (all, name) = self.asked(name);
        let (name, password) = (name.to_owned(), password.to_vec());
        let found = self.logins.call(move || {
            // Many calls of one program may have waited for the answer to the first.
            if !is_fresh && let Some(found) = known(&all, &name, &password) {
                return Ok(found);
            }
            for directory in all {
                let source = Arc::clone(&directory.options.name);
                match directory.log_in(&name, &password) {
                    Ok(Some(told)) => return Ok(Found { source, told }),
                    Ok(None) => {}
                    Err(Fault::Refused(why)) => return Err(Miss::Refused(source, why)),
                    Err(Fault::Away(why)) => {
                        directory.log_away(&why);
                        return Err(Miss::Away(source));
                    }
                }
            }
            Err(Miss::Unknown)
        });
        found.await?.ok_or_else(|| {
            let message = "too many logins by directories at a time; try again in a moment";
            ApiError::unavailable(message).retry_after(1)
        })
    }

    /// Whether a session may go on; asks its directory if it is time to. An error says why not.
    pub async fn confirmed(
        &self,
        user: &str,
        outside: &Arc<Outside>,
        groups: &Groups,
    ) -> Result<(), String> {
        let Some(directory) = self.get(&outside.source) else {
            return Err("nobody can log in by this directory any more".to_owned());
        };
        if !is_due(directory, outside) {
            return Ok(());
        }
        let _turn = outside.turn.lock().await;
        let Some(typed) = outside.refresh().filter(|_| is_due(directory, outside)) else {
            return Ok(());
        };
        let (asked, of) = (Arc::clone(directory), Arc::clone(outside));
        let told = self.checks.call(move || asked.confirm(typed.expose(), &of.subject)).await;
        let told = match told {
            Ok(Some(told)) => told,
            Ok(None) => Err(Fault::Away(CHECKS_WAIT.to_owned())),
            Err(error) => Err(Fault::Away(error.to_string())),
        };
        match told {
            Ok(told) if format!("{}@{}", told.name, outside.source) != user => {
                Err("the user has another name there now".to_owned())
            }
            Ok(told) => {
                outside.confirm(&told, groups);
                Ok(())
            }
            Err(Fault::Refused(why)) => Err(why),
            Err(Fault::Away(why)) => {
                outside.was_away();
                directory.log_away(&why);
                match outside.times().0.elapsed() < AWAY_MAX {
                    true => Ok(()),
                    false => Err(format!("it could not be asked for an hour: {why}")),
                }
            }
        }
    }
}

fn known(all: &[Arc<Directory>], name: &str, password: &[u8]) -> Option<Found> {
    all.iter().find_map(|directory| {
        let source = Arc::clone(&directory.options.name);
        directory.known(name, password).map(|told| Found { source, told })
    })
}

/// Whether it is time to ask the directory.
fn is_due(directory: &Directory, outside: &Outside) -> bool {
    let (confirmed, asked) = outside.times();
    let recheck = directory.options.recheck;
    confirmed.elapsed() >= recheck && asked.elapsed() >= recheck.min(AWAY_RETRY)
}
