//! Retention: drops whole segments by age and by the size of all.

use std::time::Duration;

use crate::catalog::Catalog;
use crate::ids::Lease;
use crate::jobs::JobError;

/// Limits on what is kept; `None` keeps everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetentionSettings {
    /// Age of the latest arrival of a segment, beyond which the segment is dropped.
    pub age_max: Option<Duration>,
    /// Bytes of all segments, beyond which the oldest are dropped.
    pub bytes_max: Option<u64>,
}

/// Segments that are dropped with one transaction.
const BATCH: usize = 256;

/// Drops segments; stepped by one thread, under a lease of [`crate::Resource::Retention`].
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
