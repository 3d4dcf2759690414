//! The record of the clock of retention.

use super::Catalog;
use crate::error::StoreError;

const BELIEVED: &str = "clock_believed_ns";
const HELD_SINCE: &str = "clock_held_since_ns";
const HELD_SEEN: &str = "clock_held_seen_ns";

/// What is kept in the catalog. Times are wall clock times, nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockRecord {
    /// The last time that was believed.
    pub(crate) believed_ns: i64,
    pub(crate) held: Option<HeldClock>,
}

/// A clock that jumped ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldClock {
    /// What it showed after the jump.
    pub(crate) since_ns: i64,
    /// What it showed last.
    pub(crate) seen_ns: i64,
}

impl Catalog {
    /// The last record; None when there is none yet.
    pub(crate) fn clock(&self) -> Result<Option<ClockRecord>, StoreError> {
        let Some(believed_ns) = self.meta(BELIEVED)? else { return Ok(None) };
        let held = self.meta(HELD_SINCE)?.zip(self.meta(HELD_SEEN)?);
        let held = held.map(|(since_ns, seen_ns)| HeldClock { since_ns, seen_ns });
        Ok(Some(ClockRecord { believed_ns, held }))
    }

    /// Replaces the record.
    pub(crate) fn set_clock(&mut self, record: ClockRecord) -> Result<(), StoreError> {
        self.transact(|connection| {
            let put = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
            connection.execute(put, (BELIEVED, record.believed_ns))?;
            match record.held {
                Some(held) => {
                    connection.execute(put, (HELD_SINCE, held.since_ns))?;
                    connection.execute(put, (HELD_SEEN, held.seen_ns))?;
                }
                None => {
                    let remove = "DELETE FROM meta WHERE key IN (?1, ?2)";
                    connection.execute(remove, (HELD_SINCE, HELD_SEEN))?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_replaces_another() {
        let mut catalog = Catalog::open(None).unwrap();
        assert_eq!(catalog.clock().unwrap(), None);
        let held = Some(HeldClock { since_ns: i64::MAX, seen_ns: -1 });
        for held in [None, held, None] {
            let record = ClockRecord { believed_ns: i64::MIN, held };
            catalog.set_clock(record).unwrap();
            assert_eq!(catalog.clock().unwrap(), Some(record));
        }
    }
}
