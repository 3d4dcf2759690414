//! Merging: several small neighbouring segments of a partition become one.

use crate::catalog::{Catalog, SegmentRow};
use crate::error::{Failure, ObjectError};
use crate::ids::{Lease, ObjectName};
use crate::jobs::JobError;
use crate::objects::Objects;
use crate::publisher::{SealError, Sealed};

/// Makes one sealed segment of the lines of several, whose objects it reads.
pub trait Merger: Send + Sync {
    /// The merged segment; the inputs are in the order of their offsets.
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, SealError>;
}

/// What is merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeSettings {
    /// Neighbours that are merged at least; 8 means that a line is rewritten once for each
    /// eightfold growth.
    pub segments_min: usize,
    /// The largest sum of the sizes of segments that are merged.
    pub bytes_max: u64,
}

/// Segments that are looked at with one call.
const PAGE: usize = 256;

enum State {
    /// Looks for neighbours from this offset on.
    Looking(u64),
    Chosen(Vec<SegmentRow>),
    Merged {
        replaced: Vec<String>,
        by: SegmentRow,
        sealed: Sealed,
        may_exist: bool,
    },
    Stored {
        replaced: Vec<String>,
        by: SegmentRow,
    },
}

/// Merges the segments of one partition; stepped by one thread, under a lease of
/// [`crate::Resource::Merge`].
pub struct Merge {
    lease: Lease,
    partition: u32,
    settings: MergeSettings,
    counter: u64,
    state: State,
}

impl Merge {
    /// Begins with the oldest segments of the partition.
    pub fn new(lease: Lease, partition: u32, settings: MergeSettings) -> Merge {
        Merge { lease, partition, settings, counter: 0, state: State::Looking(0) }
    }

    /// Does the next thing, with one call of an engine or the merger at most. False when it has
    /// looked at all segments; the next step begins anew.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        objects: &dyn Objects,
        merger: &dyn Merger,
    ) -> Result<bool, JobError> {
        match std::mem::replace(&mut self.state, State::Looking(0)) {
            State::Looking(from) => {
                let segments = catalog.segments_of(self.partition, from, PAGE)?;
                let is_last = segments.len() < PAGE;
                let end = segments.last().map_or(from, |segment| segment.offsets.end);
                match choose(segments, &self.settings) {
                    Some(chosen) => self.state = State::Chosen(chosen),
                    None if is_last => return Ok(false),
                    None => self.state = State::Looking(end),
                }
            }
            State::Chosen(chosen) => {
                let sealed = merger.merge(&chosen)?;
                let lines: u64 = chosen.iter().map(|segment| segment.lines).sum();
                if sealed.lines != lines {
                    let found = sealed.lines;
                    let error = format!("{found} lines in the merged segment, expected {lines}");
                    return Err(SealError(error).into());
                }
                let by = self.row(&chosen, &sealed);
                let replaced = chosen.into_iter().map(|segment| segment.name).collect();
                self.state = State::Merged { replaced, by, sealed, may_exist: false };
            }
            State::Merged { replaced, by, sealed, may_exist } => {
                match objects.put_new(&by.name, &*sealed.body) {
                    Ok(()) => self.state = State::Stored { replaced, by },
                    Err(ObjectError::Exists(_)) if may_exist => {
                        self.state = State::Stored { replaced, by };
                    }
                    // Nobody else gives this name, unless the catalog was restored from a backup:
                    // the work is planned anew, under another name.
                    Err(error @ ObjectError::Exists(_)) => return Err(error.into()),
                    Err(error) => {
                        let may_exist = may_exist || error.failure() == Failure::Unknown;
                        self.state = State::Merged { replaced, by, sealed, may_exist };
                        return Err(error.into());
                    }
                }
            }
            State::Stored { replaced, by } => {
                if let Err(error) = catalog.replace(&self.lease, &replaced, Some(&by)) {
                    if error.failure() == Failure::Retry {
                        self.state = State::Stored { replaced, by };
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(true)
    }

    fn row(&mut self, chosen: &[SegmentRow], sealed: &Sealed) -> SegmentRow {
        let name = ObjectName { lease: self.lease, counter: self.counter };
        self.counter += 1;
        let start = chosen.first().map_or(0, |segment| segment.offsets.start);
        let end = chosen.last().map_or(0, |segment| segment.offsets.end);
        SegmentRow {
            name: name.to_string(),
            partition: self.partition,
            offsets: start..end,
            times: sealed.times,
            received_last_ns: sealed.received_last_ns,
            lines: sealed.lines,
            bytes: sealed.body.size(),
        }
    }
}

/// The first run of neighbours that is worth merging.
fn choose(segments: Vec<SegmentRow>, settings: &MergeSettings) -> Option<Vec<SegmentRow>> {
    let segments_min = settings.segments_min.max(2);
    // A segment of this size is not merged again: its run would be too large.
    let small = settings.bytes_max / segments_min as u64;
    let mut run: Vec<SegmentRow> = Vec::new();
    let mut bytes = 0;
    for segment in segments {
        let fits = bytes + segment.bytes <= settings.bytes_max;
        if segment.bytes > small || !fits {
            if run.len() >= segments_min {
                break;
            }
            run.clear();
            bytes = 0;
        }
        if segment.bytes <= small {
            bytes += segment.bytes;
            run.push(segment);
        }
    }
    (run.len() >= segments_min).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TimeRange;

    #[test]
    fn small_neighbours_are_chosen() {
        let check = |sizes: &[u64], expected: std::ops::Range<u64>| {
            let row = |(index, &bytes): (usize, &u64)| SegmentRow {
                name: index.to_string(),
                partition: 0,
                offsets: index as u64..index as u64 + 1,
                times: TimeRange::ALL,
                received_last_ns: 0,
                lines: 1,
                bytes,
            };
            let segments = sizes.iter().enumerate().map(row).collect();
            let settings = MergeSettings { segments_min: 3, bytes_max: 30 };
            let chosen = choose(segments, &settings).unwrap_or_default();
            let offsets: Vec<u64> = chosen.iter().map(|segment| segment.offsets.start).collect();
            assert_eq!(offsets, expected.collect::<Vec<_>>(), "{sizes:?}");
        };
        check(&[], 0..0);
        check(&[1, 1], 0..0);
        check(&[1, 1, 1], 0..3);
        check(&[1, 1, 11, 1, 1], 0..0);
        check(&[1, 11, 1, 1, 1, 11], 2..5);
        check(&[10, 10, 10, 10], 0..3);
        check(&[10, 9, 9, 9], 0..3);
    }
}
