//! Sweep: deletes objects that no query can need any more.
//!
//! An object is deleted if its segment was retired a grace time ago, or if it is an orphan: it has
//! no segment, and the epoch in its name is over, so that nobody can publish it any more. Objects
//! whose names are not ours are left alone.

use std::collections::VecDeque;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::ids::{OBJECT_PREFIX, ObjectName};
use crate::jobs::JobError;
use crate::objects::Objects;

/// When objects are deleted.
#[derive(Clone, Copy, Debug)]
pub struct SweepSettings {
    /// How long objects of retired segments stay: longer than the longest query, by an eighth or
    /// more. Orphans stay as long.
    pub grace: Duration,
}

/// Objects that are looked at with one call.
const PAGE: usize = 256;

enum State {
    Retired,
    /// Deletes objects, then forgets their segments.
    Deleting {
        left: VecDeque<String>,
        deleted: Vec<String>,
    },
    /// Lists objects after this name.
    Listing(Option<String>),
    Orphans {
        left: VecDeque<String>,
        after: Option<String>,
    },
}

/// Deletes objects; stepped by one thread, under a lease of [`crate::Resource::Sweep`], which
/// avoids double work: two sweeps at once do no harm.
pub struct Sweep {
    settings: SweepSettings,
    state: State,
}

impl Sweep {
    /// Begins with the objects of retired segments.
    pub fn new(settings: SweepSettings) -> Sweep {
        Sweep { settings, state: State::Retired }
    }

    /// Does the next thing, with two calls of an engine at most. False when it has looked at
    /// everything; the next step begins anew.
    pub fn step(&mut self, catalog: &dyn Catalog, objects: &dyn Objects) -> Result<bool, JobError> {
        match &mut self.state {
            State::Retired => {
                let names = catalog.retired(self.settings.grace, PAGE)?;
                self.state = match names.is_empty() {
                    true => State::Listing(None),
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
            State::Listing(after) => {
                let page = objects.list(OBJECT_PREFIX, after.as_deref(), PAGE)?;
                let last = (page.len() == PAGE).then(|| page[PAGE - 1].name.clone());
                let is_ours = |name: &str| name.parse::<ObjectName>().is_ok();
                let ours: Vec<_> = page.into_iter().filter(|info| is_ours(&info.name)).collect();
                let orphans = match ours.is_empty() {
                    true => Vec::new(),
                    false => catalog.orphans(&ours, self.settings.grace)?,
                };
                self.state = State::Orphans { left: orphans.into(), after: last };
            }
            State::Orphans { left, after } => match left.front() {
                Some(name) => {
                    objects.delete(name)?;
                    left.pop_front();
                }
                None => {
                    let after = after.take();
                    let is_more = after.is_some();
                    self.state = if is_more { State::Listing(after) } else { State::Retired };
                    return Ok(is_more);
                }
            },
        }
        Ok(true)
    }
}
