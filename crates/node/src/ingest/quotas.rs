//! Tenants are kept to their part of the disk: of a tenant whose sealed lines take more than
//! `disk_bytes_max`, those in the oldest segments are deleted, and no line of another one.
//!
//! A limit is not exact: the lines that a tenant has in the newest segment stay, and lines that are
//! not sealed yet are not told apart. Nothing of this is kept on disk. After a start the limits
//! are compared with what is there.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use query::Filter;
use record::Tenant;
use store::{Cutoff, Holding, Holdings, Store};

use super::tenants::Tenants;

/// Part of its limit of disk from which on a tenant is warned of, in percent.
pub const WARNED_PERCENT: u64 = 80;

/// What sealed segments hold of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its lines.
    pub lines: u64,
    /// Bytes of these lines with their newlines.
    pub bytes_raw: u64,
    /// Bytes that they take on disk.
    pub bytes_disk: u64,
}

impl Held {
    fn add(&mut self, holding: &Holding) {
        self.lines += holding.lines;
        self.bytes_raw += holding.bytes_raw;
        self.bytes_disk += holding.bytes_disk;
    }
}

/// What tenants hold of the disk, and how old their oldest lines may be.
#[derive(Debug)]
pub struct Quotas {
    tenants: Arc<Tenants>,
    known: Mutex<Known>,
    last: Mutex<BTreeMap<Tenant, Held>>,
}

#[derive(Debug, Default)]
struct Known {
    holdings: Holdings,
    /// Lines of segments whose newest line arrived before this go; nanoseconds since 1970 UTC.
    cutoffs_ns: BTreeMap<Tenant, i64>,
    /// Tenants that are near their limits, which the log has said.
    warned: Vec<Tenant>,
}

impl Quotas {
    /// Of these tenants.
    pub fn new(tenants: Arc<Tenants>) -> Quotas {
        Quotas { tenants, known: Mutex::default(), last: Mutex::default() }
    }

    /// What tenants held when that was looked at last.
    pub fn last(&self) -> BTreeMap<Tenant, Held> {
        lock(&self.last).clone()
    }

    /// Compares what tenants hold with their limits, lets the oldest lines go of those that hold
    /// too much, and returns what is held now, with what is about to go. Blocks: after a start it
    /// reads the footers of all segments.
    pub fn check(&self, store: &Store) -> BTreeMap<Tenant, Held> {
        if self.tenants.is_off() {
            return BTreeMap::new();
        }
        let mut known = lock(&self.known);
        let known = &mut *known;
        store.holdings(&mut known.holdings);
        let mut of: BTreeMap<Tenant, Vec<Holding>> = BTreeMap::new();
        for holding in known.holdings.all() {
            of.entry(holding.tenant).or_default().push(*holding);
        }
        let mut is_moved = false;
        for (options, counts) in self.tenants.all() {
            let (Some(limit), Some(held)) = (options.disk_bytes_max, of.get_mut(&options.id))
            else {
                continue;
            };
            let before_ns = known.cutoffs_ns.get(&options.id).copied();
            let stays =
                |holding: &Holding| before_ns.is_none_or(|ns| holding.received_max_ns >= ns);
            let bytes: u64 = held.iter().filter(|held| stays(held)).map(|h| h.bytes_disk).sum();
            self.warn(options.id, bytes, limit, &mut known.warned);
            let Some(cutoff_ns) = cutoff_ns(held, before_ns, limit) else { continue };
            let gone = held.iter().filter(|held| stays(held) && held.received_max_ns < cutoff_ns);
            for holding in gone {
                counts.evicted_lines.fetch_add(holding.lines, Relaxed);
                counts.evicted_bytes.fetch_add(holding.bytes_raw, Relaxed);
            }
            known.cutoffs_ns.insert(options.id, cutoff_ns);
            is_moved = true;
        }
        if is_moved {
            let cutoff = |(tenant, ns): (&Tenant, &i64)| Cutoff {
                filter: lines_of(*tenant),
                received_before_ns: *ns,
            };
            store.set_cutoffs(known.cutoffs_ns.iter().map(cutoff).collect());
        }
        let sum = |(tenant, holdings): (Tenant, Vec<Holding>)| {
            let mut held = Held::default();
            holdings.iter().for_each(|holding| held.add(holding));
            (tenant, held)
        };
        let held: BTreeMap<Tenant, Held> = of.into_iter().map(sum).collect();
        lock(&self.last).clone_from(&held);
        held
    }

    /// Says once in the log that a tenant is near its limit, until it is not any more.
    fn warn(&self, tenant: Tenant, bytes: u64, limit: u64, warned: &mut Vec<Tenant>) {
        let is_near = is_near(bytes, limit);
        match warned.iter().position(|known| *known == tenant) {
            Some(place) if !is_near => {
                warned.swap_remove(place);
            }
            None if is_near => {
                warned.push(tenant);
                tracing::warn!(
                    "the tenant {tenant} takes {bytes} bytes of the disk, and its disk_bytes_max is \
                     {limit}: beyond it, its oldest lines are deleted"
                );
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether so many bytes are to be warned of.
pub fn is_near(bytes: u64, limit: u64) -> bool {
    bytes >= (u128::from(limit) * u128::from(WARNED_PERCENT) / 100) as u64
}

/// The lines that senders sent for a tenant, as a filter.
fn lines_of(tenant: Tenant) -> String {
    Filter::and(vec![Filter::without_own(), Filter::of_tenants(&[tenant])]).to_string()
}

/// From which arrival on segments keep the lines of a tenant, so that these take at most `limit`
/// bytes; none where the cutoff of before does. The newest segment always keeps them.
fn cutoff_ns(held: &mut [Holding], before_ns: Option<i64>, limit: u64) -> Option<i64> {
    held.sort_unstable_by_key(|holding| std::cmp::Reverse(holding.received_max_ns));
    let newest_ns = held.first()?.received_max_ns;
    let mut sum = 0;
    for holding in held.iter() {
        sum += holding.bytes_disk;
        let goes_ns = holding.received_max_ns.saturating_add(1).min(newest_ns);
        if before_ns.is_some_and(|before_ns| goes_ns <= before_ns) {
            return None;
        }
        if sum > limit && goes_ns > holding.received_max_ns {
            return Some(goes_ns);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_segments_go_and_the_newest_stays() {
        let check = |before_ns: Option<i64>, limit: u64, expected: Option<i64>| {
            let holding = |(at, bytes_disk)| Holding {
                received_max_ns: at,
                bytes_disk,
                ..Holding::default()
            };
            let mut held = [(20, 5), (10, 7), (30, 3)].map(holding);
            assert_eq!(cutoff_ns(&mut held, before_ns, limit), expected, "{before_ns:?} {limit}");
        };
        check(None, 15, None);
        check(None, 14, Some(11));
        check(None, 8, Some(11));
        check(None, 7, Some(21));
        check(None, 3, Some(21));
        check(None, 1, Some(21));
        check(Some(11), 14, None);
        check(Some(11), 8, None);
        check(Some(11), 7, Some(21));
        check(Some(21), 1, None);
        assert_eq!(cutoff_ns(&mut [], None, 0), None);
        let only = Holding { received_max_ns: 5, bytes_disk: 9, ..Holding::default() };
        assert_eq!(cutoff_ns(&mut [only], None, 1), None);
        // Two segments whose newest lines arrived at the same instant stay together.
        assert_eq!(cutoff_ns(&mut [only, only], None, 1), None);
    }

    #[test]
    fn a_tenant_is_warned_of_before_its_limit() {
        for (bytes, expected) in [(79, false), (80, true), (101, true)] {
            assert_eq!(is_near(bytes, 100), expected);
        }
        assert!(!is_near(u64::MAX / 2, u64::MAX));
    }
}
