//! Retention: drops whole segments by age and by the size of all. Rules, which select lines, are
//! applied by [`crate::Prune`].

use std::time::Duration;

use crate::catalog::Catalog;
use crate::ids::Lease;
use crate::jobs::JobError;

/// Limits on what is kept; `None` keeps everything.
#[derive(Clone, Debug, Default)]
pub struct RetentionSettings {
    /// Age of the latest arrival of a segment, beyond which the segment is dropped.
    pub age_max: Option<Duration>,
    /// Bytes of all segments, beyond which the oldest are dropped.
    pub bytes_max: Option<u64>,
    /// Lines that are dropped earlier than others.
    pub rules: Vec<RetentionRule>,
}

impl RetentionSettings {
    /// The longest span of arrivals that a merge may make: an eighth of the shortest age, so that
    /// lines stay at most that much longer; `None` without ages.
    pub fn merged_span(&self) -> Option<Duration> {
        let ages = self.rules.iter().map(|rule| rule.age).chain(self.age_max);
        ages.min().map(|age| age / 8)
    }
}

/// Lines that are dropped earlier than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Selects the lines; a text that the jobs do not interpret.
    pub filter: String,
    /// Age since arrival at which they are dropped.
    pub age: Duration,
}

/// Segments that are dropped with one transaction.
const BATCH: usize = 256;

/// Drops segments, and ends deletions that are done; stepped by one thread, under a lease of
/// [`crate::Resource::Retention`].
pub struct Retention {
    lease: Lease,
    settings: RetentionSettings,
}

impl Retention {
    /// Drops what is beyond the limits.
    pub fn new(lease: Lease, settings: RetentionSettings) -> Retention {
        Retention { lease, settings }
    }

    /// Drops up to 256 segments; returns how many. After 0, nothing is due.
    pub fn step(&mut self, catalog: &dyn Catalog) -> Result<usize, JobError> {
        catalog.end_deletions(&self.lease)?;
        let mut names = Vec::new();
        if let Some(age_max) = self.settings.age_max {
            names.extend(catalog.older_than(age_max, BATCH)?.into_iter().map(|row| row.name));
        }
        if let (Some(bytes_max), true) = (self.settings.bytes_max, names.is_empty()) {
            let mut bytes = catalog.totals()?.bytes;
            if bytes > bytes_max {
                for segment in catalog.older_than(Duration::ZERO, BATCH)? {
                    if bytes <= bytes_max {
                        break;
                    }
                    bytes = bytes.saturating_sub(segment.bytes);
                    names.push(segment.name);
                }
            }
        }
        if !names.is_empty() {
            catalog.replace(&self.lease, &names, None)?;
        }
        Ok(names.len())
    }
}
