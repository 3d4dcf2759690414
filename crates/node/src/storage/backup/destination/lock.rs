//! The lock of a place: one sends or deletes at a time.
//!
//! Each holding has a lock of other bytes than any other one. Whoever holds it looks before each
//! step that relies on it whether these are still there, so that one whose lock was taken over, or
//! deleted, ends instead of deleting under others, or relying on what they delete.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cluster::ObjectError;
use platform::{Clock, RealClock};
use serde::{Deserialize, Serialize};

use super::Destination;

const LOCK: &str = "lock.json";
/// Length of a lock; it has the name of its holder.
const BYTES_MAX: usize = 64 << 10;
/// A lock of this age was left by somebody who died; a longer backup renews its lock.
const AGE_MAX_NS: i64 = 24 * text::duration::HOUR_NS;
/// Age at which a lock is renewed.
const RENEWED_AFTER: Duration = Duration::from_secs(3600);
/// Time after which a step that deletes nothing looks again whether the lock is held.
const LOOKED_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    holder: String,
    since: String,
    /// Tells holdings of one holder apart. Locks of earlier releases have none.
    #[serde(default)]
    token: String,
}

/// Somebody else is at work in the place.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place} is in use by {holder} since {since}; wait until that is done. If it was killed, its lock ends a day after that, or \
     when {LOCK} is deleted by the tools of the storage"
)]
pub struct Busy {
    place: String,
    holder: String,
    since: String,
}

/// A moment by both clocks: the monotonic one stands while a machine sleeps.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    at_ns: i64,
}

impl Moment {
    fn now() -> Moment {
        Moment { at: Instant::now(), at_ns: RealClock::new().now_ns() }
    }

    fn age(self) -> Duration {
        let by_wall_ns = RealClock::new().now_ns().saturating_sub(self.at_ns);
        let by_wall = Duration::from_nanos(u64::try_from(by_wall_ns).unwrap_or(0));
        self.at.elapsed().max(by_wall)
    }
}

/// A held lock; released when it is dropped.
pub(super) struct Lock<'d> {
    destination: &'d Destination,
    /// The bytes of its object.
    body: Vec<u8>,
    renewed: Cell<Moment>,
    looked: Cell<Moment>,
}

impl Destination {
    /// Takes the lock. `holder` is named to others, and takes over a lock that it left itself.
    pub(super) fn lock(&self, holder: &str) -> Result<Lock<'_>> {
        let since = text::time::format_time(RealClock::new().now_ns());
        let token = format!("{:016x}", fastrand::u64(..));
        let own = Holder { holder: holder.to_owned(), since, token };
        let body = serde_json::to_vec(&own).expect("plain values");
        if !self.try_lock(&body)? {
            // Its bytes before its age: a lock that is replaced meanwhile is young.
            let found = self.lock_holder()?;
            let now_ns = RealClock::new().now_ns();
            let full = format!("{}{LOCK}", self.prefix);
            let listed = self.objects.list(&full, None, 1);
            let listed = listed.with_context(|| format!("cannot list {}", self.shown))?;
            if let Some(info) = listed.first().filter(|info| info.name == full) {
                let is_own = found.as_ref().is_some_and(|found| found.holder == holder);
                if !is_own && now_ns.saturating_sub(info.written_ns) < AGE_MAX_NS {
                    return Err(self.busy(found).into());
                }
                self.delete(LOCK)?;
            }
            if !self.try_lock(&body)? {
                return Err(self.busy(self.lock_holder()?).into());
            }
        }
        let now = Moment::now();
        let (renewed, looked) = (Cell::new(now), Cell::new(now));
        Ok(Lock { destination: self, body, renewed, looked })
    }

    fn busy(&self, found: Option<Holder>) -> Busy {
        let unknown = || "somebody".to_owned();
        let (holder, since) = found.map_or_else(|| (unknown(), unknown()), |f| (f.holder, f.since));
        Busy { place: self.shown.clone(), holder, since }
    }

    /// Writes a lock; false if another one is there.
    fn try_lock(&self, body: &[u8]) -> Result<bool> {
        match self.objects.put_new(&format!("{}{LOCK}", self.prefix), &body.to_vec()) {
            Ok(()) => Ok(true),
            // The answer to an earlier attempt may have been lost.
            Err(ObjectError::Exists(_)) => Ok(self.lock_body()?.as_deref() == Some(body)),
            Err(error) => Err(error).with_context(|| format!("cannot use {}", self.shown)),
        }
    }

    /// The bytes of the lock; none if nobody holds it.
    fn lock_body(&self) -> Result<Option<Vec<u8>>> {
        let mut body = vec![0; BYTES_MAX];
        match self.objects.read_range(&format!("{}{LOCK}", self.prefix), 0, &mut body) {
            Ok(read) => {
                body.truncate(read);
                Ok(Some(body))
            }
            Err(ObjectError::Missing(_)) => Ok(None),
            Err(error) => {
                Err(error).with_context(|| format!("cannot read {LOCK} of {}", self.shown))
            }
        }
    }

    /// Who holds the lock; none if nobody does, or a lock that cannot be read.
    fn lock_holder(&self) -> Result<Option<Holder>> {
        Ok(self.lock_body()?.and_then(|body| serde_json::from_slice(&body).ok()))
    }
}

impl Lock<'_> {
    /// Before a step that deletes nothing: looks from time to time whether the lock is held, and
    /// renews it once it is old.
    ///
    /// Errors: it is lost.
    pub(super) fn keep(&self) -> Result<()> {
        match self.looked.get().age() > LOOKED_AFTER {
            true => self.check(),
            false => Ok(()),
        }
    }

    /// Before a step that deletes, or that says that a backup is whole: looks whether the lock is
    /// held, and renews it once it is old.
    ///
    /// Errors: it is lost.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_held()? {
            return self.lost();
        }
        if self.renewed.get().age() > RENEWED_AFTER {
            // Objects are not replaced, so somebody may be faster in between.
            self.destination.delete(LOCK)?;
            if !self.destination.try_lock(&self.body)? {
                return self.lost();
            }
            self.renewed.set(Moment::now());
        }
        self.looked.set(Moment::now());
        Ok(())
    }

    fn is_held(&self) -> Result<bool> {
        Ok(self.destination.lock_body()?.as_ref() == Some(&self.body))
    }

    fn lost(&self) -> Result<()> {
        let place = &self.destination.shown;
        match self.destination.lock_holder()? {
            Some(Holder { holder, since, .. }) => bail!(
                "{place} was taken over by {holder} at {since}, so this ends without a result; start it again when that is done"
            ),
            None => bail!(
                "the lock {LOCK} of {place} was taken over or deleted, so this ends without a result; start it again when nobody \
                 else is at work there"
            ),
        }
    }

    /// Has the lock look as if nobody had renewed it for long.
    #[cfg(test)]
    pub(super) fn make_old(&self) {
        let long_ago = Moment { at: Instant::now(), at_ns: 0 };
        self.renewed.set(long_ago);
        self.looked.set(long_ago);
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // That of somebody else stays. The same holder takes over what is left; others do so after
        // a day.
        if self.is_held().unwrap_or(false) {
            let _ = self.destination.delete(LOCK);
        }
    }
}
