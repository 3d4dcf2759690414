//! The lock of a place: one sends or deletes at a time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cluster::ObjectError;
use platform::{Clock, RealClock};
use serde::{Deserialize, Serialize};

use super::Destination;

const LOCK: &str = "lock.json";
/// A lock of this age was left by somebody who died; a longer backup renews its lock.
const AGE_MAX_NS: i64 = 24 * text::duration::HOUR_NS;
/// Age at which a lock is renewed.
const RENEWED_AFTER: Duration = Duration::from_secs(3600);

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    holder: String,
    since: String,
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

/// A held lock; released when it is dropped.
pub(super) struct Lock<'d> {
    destination: &'d Destination,
    holder: String,
    renewed: Cell<Instant>,
}

impl Destination {
    /// Takes the lock. `holder` is named to others, and takes over a lock that it left itself.
    pub(super) fn lock(&self, holder: &str) -> Result<Lock<'_>> {
        if !self.try_lock(holder)? {
            let now_ns = RealClock::new().now_ns();
            let full = format!("{}{LOCK}", self.prefix);
            let listed = self.objects.list(&full, None, 1);
            let listed = listed.with_context(|| format!("cannot list {}", self.shown))?;
            let found = match listed.first() {
                None => None,
                Some(info) => {
                    let found: Option<Holder> =
                        serde_json::from_slice(&self.read(LOCK, 1 << 16)?).ok();
                    Some((info.written_ns, found))
                }
            };
            let busy = |found: Option<Holder>| {
                let unknown = || "somebody".to_owned();
                let (holder, since) =
                    found.map_or_else(|| (unknown(), unknown()), |f| (f.holder, f.since));
                Busy { place: self.shown.clone(), holder, since }
            };
            if let Some((written_ns, found)) = found {
                let is_own = found.as_ref().is_some_and(|found| found.holder == holder);
                if !is_own && now_ns.saturating_sub(written_ns) < AGE_MAX_NS {
                    return Err(busy(found).into());
                }
                self.delete(LOCK)?;
            }
            if !self.try_lock(holder)? {
                return Err(busy(None).into());
            }
        }
        let renewed = Cell::new(Instant::now());
        Ok(Lock { destination: self, holder: holder.to_owned(), renewed })
    }

    fn try_lock(&self, holder: &str) -> Result<bool> {
        let since = text::time::format_time(RealClock::new().now_ns());
        let body = serde_json::to_vec(&Holder { holder: holder.to_owned(), since });
        let body = body.expect("plain values");
        match self.objects.put_new(&format!("{}{LOCK}", self.prefix), &body) {
            Ok(()) => Ok(true),
            Err(ObjectError::Exists(_)) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot use {}", self.shown)),
        }
    }
}

impl Lock<'_> {
    /// Makes the lock look as young as it is.
    pub(super) fn renew(&self) -> Result<()> {
        if self.renewed.get().elapsed() > RENEWED_AFTER {
            self.destination.delete(LOCK)?;
            self.destination.try_lock(&self.holder)?;
            self.renewed.set(Instant::now());
        }
        Ok(())
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // The same holder takes over what is left; others do so after a day.
        let _ = self.destination.delete(LOCK);
    }
}
