//! Sweep: deletes objects that no query can need any more.
//!
//! An object is deleted if its segment was retired a grace time ago, or if it is an orphan: it has
//! no segment, and the epoch in its name is over, so that nobody can publish it any more. Objects
//! whose names are not ours are left alone.
//!
//! Retired segments are known to the catalog. Orphans are found by listing the bucket alone. They
//! are what a node left that ended between an upload and its publication, and cost room and nothing
//! else. So the bucket is listed rarely, and a slice of it at a time: a mark of the catalog says
//! how far, so that it does not matter which node sweeps.

use std::collections::VecDeque;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::ids::{Lease, OBJECT_PREFIX, ObjectName};
use crate::jobs::JobError;
use crate::objects::Objects;

/// When objects are deleted.
#[derive(Clone, Copy, Debug)]
pub struct SweepSettings {
    /// How long objects of retired segments stay: longer than the longest query, by an eighth or
    /// more. Orphans stay as long.
    pub grace: Duration,
    /// How long after the beginning of one listing of the bucket the next one begins.
    pub list_every: Duration,
}

/// Objects of retired segments that are deleted before their segments are forgotten.
const PAGE: usize = 256;
/// Objects of a slice: what S3 lists with one request.
const SLICE: usize = 1000;
/// The mark that says how far the bucket is listed.
const MARK: &str = "sweep/listing";

/// How far the bucket is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    /// When the listing began, in milliseconds since 1970 by the clock of a node.
    begun_ms: u64,
    /// The last object that was looked at; none if all were.
    after: Option<String>,
}

impl Listed {
    fn parse(body: &[u8]) -> Option<Listed> {
        let (begun_ms, after) = std::str::from_utf8(body).ok()?.split_once(' ')?;
        let after = Some(after).filter(|after| !after.is_empty()).map(str::to_owned);
        Some(Listed { begun_ms: begun_ms.parse().ok()?, after })
    }

    fn body(&self) -> Vec<u8> {
        format!("{} {}", self.begun_ms, self.after.as_deref().unwrap_or("")).into_bytes()
    }
}

enum State {
    Retired,
    /// Deletes objects, then forgets their segments.
    Deleting {
        left: VecDeque<String>,
        deleted: Vec<String>,
    },
    /// Looks up how far the bucket is listed.
    Position,
    Listing(Listed),
    /// Deletes orphans, then notes how far the bucket is listed.
    Orphans {
        left: VecDeque<String>,
        listed: Listed,
    },
}

/// Deletes objects; stepped by one thread, under a lease of [`crate::Resource::Sweep`], which
/// avoids double work: two sweeps at once do no harm.
pub struct Sweep {
    lease: Lease,
    settings: SweepSettings,
    now_ms: u64,
    state: State,
}

impl Sweep {
    /// Begins with the objects of retired segments. `now_ms` is the time in milliseconds since
    /// 1970.
    pub fn new(lease: Lease, settings: SweepSettings, now_ms: u64) -> Sweep {
        Sweep { lease, settings, now_ms, state: State::Retired }
    }

    /// Does the next thing, with two calls of an engine at most. False when it has deleted what
    /// belongs to retired segments, and looked at a slice of the bucket if one is due.
    pub fn step(&mut self, catalog: &dyn Catalog, objects: &dyn Objects) -> Result<bool, JobError> {
        match &mut self.state {
            State::Retired => {
                let names = catalog.retired(self.settings.grace, PAGE)?;
                self.state = match names.is_empty() {
                    true => State::Position,
                    false => State::Deleting { left: names.into(), deleted: Vec::new() },
                };
            }
            State::Deleting { left, deleted } => match left.front() {
                Some(name) => {
                    objects.delete(name)?;
                    deleted.extend(left.pop_front());
                }
                None => {
                    catalog.forget(deleted)?;
                    self.state = State::Retired;
                }
            },
            State::Position => {
                let marks = catalog.marks(MARK)?;
                let mark = marks.iter().find(|(name, _)| name == MARK);
                let listed = mark.and_then(|(_, body)| Listed::parse(body));
                match next(listed, self.now_ms, self.settings.list_every) {
                    Some(listed) => self.state = State::Listing(listed),
                    None => {
                        self.state = State::Retired;
                        return Ok(false);
                    }
                }
            }
            State::Listing(Listed { begun_ms, after }) => {
                let page = objects.list(OBJECT_PREFIX, after.as_deref(), SLICE)?;
                let last = (page.len() == SLICE).then(|| page[SLICE - 1].name.clone());
                let is_ours = |name: &str| name.parse::<ObjectName>().is_ok();
                let ours: Vec<_> = page.into_iter().filter(|info| is_ours(&info.name)).collect();
                let orphans = match ours.is_empty() {
                    true => Vec::new(),
                    false => catalog.orphans(&ours, self.settings.grace)?,
                };
                let listed = Listed { begun_ms: *begun_ms, after: last };
                self.state = State::Orphans { left: orphans.into(), listed };
            }
            State::Orphans { left, listed } => match left.front() {
                Some(name) => {
                    objects.delete(name)?;
                    left.pop_front();
                }
                None => {
                    catalog.put_mark(&self.lease, MARK, Some(&listed.body()))?;
                    self.state = State::Retired;
                    return Ok(false);
                }
            },
        }
        Ok(true)
    }
}

/// Where the next slice begins; `None` if none is due.
fn next(listed: Option<Listed>, now_ms: u64, every: Duration) -> Option<Listed> {
    let Some(listed) = listed else { return Some(Listed { begun_ms: now_ms, after: None }) };
    if listed.after.is_some() {
        return Some(listed);
    }
    let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    // A clock that was ahead when it was read does not hold up the next listing for longer.
    let is_due = now_ms.abs_diff(listed.begun_ms) >= every_ms;
    is_due.then_some(Listed { begun_ms: now_ms, after: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_continued_and_begins_anew_when_it_is_due() {
        let every = Duration::from_secs(100);
        let listed = |begun_ms, after: &str| Listed {
            begun_ms,
            after: Some(after.to_owned()).filter(|after| !after.is_empty()),
        };
        let check = |found: Option<Listed>, expected: Option<Listed>| {
            assert_eq!(next(found.clone(), 500_000, every), expected, "{found:?}");
        };
        check(None, Some(listed(500_000, "")));
        check(Some(listed(1, "a b")), Some(listed(1, "a b")));
        check(Some(listed(400_001, "")), None);
        check(Some(listed(400_000, "")), Some(listed(500_000, "")));
        check(Some(listed(599_999, "")), None);
        check(Some(listed(600_000, "")), Some(listed(500_000, "")));
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        for after in [None, Some("segments/partition-1/1-00000002-3".to_owned())] {
            let listed = Listed { begun_ms: 17, after };
            assert_eq!(Listed::parse(&listed.body()), Some(listed));
        }
        for body in [&b""[..], b"17", b"x ", &[0xff, b' ']] {
            assert_eq!(Listed::parse(body), None);
        }
    }
}
