//! The time by which retention measures ages.
//!
//! Retention drops for good, so it does not believe a clock of the catalog that jumps ahead, as a
//! store of one machine does not believe that of its machine: all segments would look too old at
//! once. The nodes that do the job one after the other have no monotonic clock in common, so a mark
//! of the catalog keeps what the last of them believed. A clock that shows more than [`JUMP_NS`]
//! later than that was set ahead, or no node ran for so long. Ages are then measured by the time
//! that was believed and what has passed since. Once the clock has gone on from there for
//! [`HOLD_NS`] without another jump, it is believed. One that is set back is believed at once: that
//! drops less.

use crate::catalog::Catalog;
use crate::error::CatalogError;
use crate::ids::Lease;

/// The mark that keeps the clock.
const MARK: &str = "retention/clock";
/// A clock that is further ahead of the believed time than this is held, nanoseconds.
const JUMP_NS: i64 = 24 * 3_600_000_000_000;
/// Time for which a clock that jumped ahead is held, by that clock, nanoseconds: long enough that
/// somebody reads the warning after a weekend.
const HOLD_NS: i64 = 3 * 24 * 3_600_000_000_000;
/// The mark is written when it is this old, nanoseconds: much less than a jump.
const RECORD_NS: i64 = 3_600_000_000_000;

/// What became of a clock that jumped ahead. Times are nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockNotice {
    /// It jumped now, and is held.
    Held {
        /// What it shows.
        shown_ns: i64,
        /// The time by which ages are measured meanwhile.
        believed_ns: i64,
        /// Once it shows this, it is believed.
        until_ns: i64,
    },
    /// It was held, and is believed now.
    Believed {
        /// What it shows.
        shown_ns: i64,
    },
}

/// The clock as it was at a turn of retention, by the catalog's clock: nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetentionClock {
    /// The time by which ages are measured.
    pub(super) believed_ns: i64,
    held: Option<HeldClock>,
}

/// A clock that jumped ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldClock {
    /// What it showed after the jump.
    since_ns: i64,
    /// What it showed last.
    seen_ns: i64,
}

impl RetentionClock {
    fn believing(now_ns: i64) -> RetentionClock {
        RetentionClock { believed_ns: now_ns, held: None }
    }

    /// What the catalog keeps; none before the first turn of retention.
    fn kept(catalog: &dyn Catalog) -> Result<Option<RetentionClock>, CatalogError> {
        let marks = catalog.marks(MARK)?;
        let Some((_, body)) = marks.iter().find(|(name, _)| name == MARK) else { return Ok(None) };
        let parsed = RetentionClock::parse(body);
        // To take it for none would be to believe any clock.
        parsed.map(Some).ok_or_else(|| {
            let body = String::from_utf8_lossy(body);
            CatalogError::Refused(format!(
                "the mark {MARK} of the catalog has no times of this release: '{body}'; upgrade this node, or delete the \
                 mark if the clock of PostgreSQL is right"
            ))
        })
    }

    fn parse(body: &[u8]) -> Option<RetentionClock> {
        let words = std::str::from_utf8(body).ok()?.split(' ');
        let times: Vec<i64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        match times[..] {
            [believed_ns] => Some(RetentionClock::believing(believed_ns)),
            [believed_ns, since_ns, seen_ns] => {
                Some(RetentionClock { believed_ns, held: Some(HeldClock { since_ns, seen_ns }) })
            }
            _ => None,
        }
    }

    fn body(&self) -> Vec<u8> {
        let held = self.held.map(|held| format!(" {} {}", held.since_ns, held.seen_ns));
        format!("{}{}", self.believed_ns, held.unwrap_or_default()).into_bytes()
    }

    /// The clock at a later turn, when that of the catalog shows `now_ns`.
    fn read(self, now_ns: i64) -> RetentionClock {
        // While it is held, time goes on by what passes from turn to turn.
        let passed_ns = self.held.map_or(0, |held| now_ns.saturating_sub(held.seen_ns));
        let passed_ns = if passed_ns <= JUMP_NS { passed_ns.max(0) } else { 0 };
        let believed_ns = self.believed_ns.saturating_add(passed_ns);
        if now_ns <= believed_ns.saturating_add(JUMP_NS) {
            return RetentionClock::believing(now_ns);
        }
        let goes_on = |held: &HeldClock| {
            held.since_ns <= now_ns && now_ns <= held.seen_ns.saturating_add(JUMP_NS)
        };
        // Without one that goes on, it jumped now, or once more.
        let since_ns = self.held.filter(goes_on).map_or(now_ns, |held| held.since_ns);
        if now_ns.saturating_sub(since_ns) >= HOLD_NS {
            return RetentionClock::believing(now_ns);
        }
        RetentionClock { believed_ns, held: Some(HeldClock { since_ns, seen_ns: now_ns }) }
    }

    /// Whether this one takes the place of another one in the catalog: they differ by more than a
    /// little time.
    fn replaces(&self, kept: Option<RetentionClock>) -> bool {
        let since = |clock: &RetentionClock| clock.held.map(|held| held.since_ns);
        let seen =
            |clock: &RetentionClock| clock.held.map_or(clock.believed_ns, |held| held.seen_ns);
        kept.is_none_or(|kept| {
            since(&kept) != since(self) || seen(&kept).abs_diff(seen(self)) >= RECORD_NS as u64
        })
    }

    fn notice(&self, kept: Option<RetentionClock>, now_ns: i64) -> Option<ClockNotice> {
        let was_held = kept.and_then(|kept| kept.held);
        match self.held {
            Some(held) if was_held.is_none_or(|was| was.since_ns != held.since_ns) => {
                Some(ClockNotice::Held {
                    shown_ns: now_ns,
                    believed_ns: self.believed_ns,
                    until_ns: held.since_ns.saturating_add(HOLD_NS),
                })
            }
            None if was_held.is_some() => Some(ClockNotice::Believed { shown_ns: now_ns }),
            _ => None,
        }
    }
}

/// The time by which ages are measured, for those who do not keep it; `now_ns` is the time of the
/// catalog.
pub(super) fn believed_ns(catalog: &dyn Catalog, now_ns: i64) -> Result<i64, CatalogError> {
    let kept = RetentionClock::kept(catalog)?;
    Ok(kept.map_or(now_ns, |kept| kept.read(now_ns).believed_ns))
}

/// The same at a turn of retention, which keeps it for the next one; and what is to be told.
pub(super) fn turn(
    catalog: &dyn Catalog,
    lease: &Lease,
) -> Result<(i64, Option<ClockNotice>), CatalogError> {
    let now_ns = catalog.now_ns()?;
    let kept = RetentionClock::kept(catalog)?;
    let clock = kept.map_or(RetentionClock::believing(now_ns), |kept| kept.read(now_ns));
    if clock.replaces(kept) {
        catalog.put_mark(lease, MARK, Some(&clock.body()))?;
    }
    Ok((clock.believed_ns, clock.notice(kept, now_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = RECORD_NS;
    const DAY_NS: i64 = JUMP_NS;

    /// A turn at each hour; the clock of the catalog is ahead by `ahead_ns`.
    fn run(clock: &mut RetentionClock, hours: std::ops::RangeInclusive<i64>, ahead_ns: i64) -> i64 {
        for hour in hours {
            *clock = clock.read(hour * HOUR_NS + ahead_ns);
        }
        clock.believed_ns
    }

    #[test]
    fn a_clock_that_jumps_by_more_than_a_day_is_held_for_three() {
        let mut clock = RetentionClock::believing(0);
        assert_eq!(run(&mut clock, 0..=10, 0), 10 * HOUR_NS);
        assert_eq!(run(&mut clock, 11..=12, DAY_NS - HOUR_NS), 11 * HOUR_NS + DAY_NS, "a day");
        assert_eq!(run(&mut clock, 12..=20, 0), 20 * HOUR_NS, "it is set back");
        let ahead_ns = 300 * DAY_NS;
        // What passed in the hour of the jump is not known.
        assert_eq!(run(&mut clock, 21..=92, ahead_ns), 91 * HOUR_NS, "held");
        assert_eq!(run(&mut clock, 93..=93, ahead_ns), 93 * HOUR_NS + ahead_ns, "believed");
        assert_eq!(run(&mut clock, 94..=94, 0), 94 * HOUR_NS, "it is set back");
        assert_eq!(run(&mut clock, 95..=100, ahead_ns), 99 * HOUR_NS, "held");
        assert_eq!(run(&mut clock, 101..=172, 2 * ahead_ns), 170 * HOUR_NS, "a second jump");
        assert_eq!(run(&mut clock, 173..=173, 2 * ahead_ns), 173 * HOUR_NS + 2 * ahead_ns);
        // No node ran for two days, as far as anybody can tell.
        let stopped_ns = clock.believed_ns;
        assert_eq!(run(&mut clock, 221..=221, 2 * ahead_ns), stopped_ns);
    }

    #[test]
    fn what_is_kept_is_read_again_and_written_when_it_matters() {
        let mut clock = RetentionClock::believing(-5);
        assert!(clock.replaces(None) && !clock.replaces(Some(clock)));
        for (now_ns, is_written) in [
            (HOUR_NS - 6, false),
            (HOUR_NS - 5, true),
            (90 * DAY_NS, true),
            (90 * DAY_NS + HOUR_NS - 1, false),
            (90 * DAY_NS + HOUR_NS, true),
            (0, true),
        ] {
            let next = clock.read(now_ns);
            assert_eq!(RetentionClock::parse(&next.body()), Some(next));
            assert_eq!(next.replaces(Some(clock)), is_written, "{now_ns}");
            if is_written {
                clock = next;
            }
        }
        for body in [&b""[..], b"1 2", b"1 2 3 4", b"x", &[0xff]] {
            assert_eq!(RetentionClock::parse(body), None);
        }
    }

    #[test]
    fn a_jump_is_told_once() {
        let start = RetentionClock::believing(0);
        let jumped = start.read(9 * DAY_NS);
        let held =
            ClockNotice::Held { shown_ns: 9 * DAY_NS, believed_ns: 0, until_ns: 12 * DAY_NS };
        assert_eq!(jumped.notice(Some(start), 9 * DAY_NS), Some(held));
        let later = jumped.read(10 * DAY_NS);
        assert_eq!(later.notice(Some(jumped), 10 * DAY_NS), None);
        let back = later.read(DAY_NS);
        let believed = ClockNotice::Believed { shown_ns: DAY_NS };
        assert_eq!(back.notice(Some(later), DAY_NS), Some(believed));
        assert_eq!(start.notice(None, 0), None);
    }
}
