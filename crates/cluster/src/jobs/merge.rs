//! Merging: several small neighbouring segments of a partition become one.

use std::time::Duration;

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
    /// The longest time between the latest arrivals of two of them; `None`: any. A segment is
    /// dropped when its newest line is too old.
    pub span_max: Option<Duration>,
}

/// Segments that are looked at with one call.
const PAGE: usize = 256;

enum State {
    /// Looks for neighbours from `settled` on.
    Looking,
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
    /// Nothing below this offset is to be merged.
    settled: u64,
    state: State,
}

impl Merge {
    /// Looks at the segments of the partition that end behind an offset: 0, or where an earlier
    /// merge of the partition [`settled`](Self::settled).
    pub fn new(lease: Lease, partition: u32, settings: MergeSettings, settled: u64) -> Merge {
        Merge { lease, partition, settings, counter: 0, settled, state: State::Looking }
    }

    /// The offset where the next merge of the partition begins to look: the segments below it are
    /// large, or too few between large ones. Two such groups become neighbours when retention drops
    /// the segments between them, so somebody begins with 0 from time to time.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether it may be ended without the loss of work: nothing is merged that the catalog does
    /// not know. Another one goes on from [`settled`](Self::settled).
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Looking | State::Chosen(_))
    }

    /// Does the next thing, with one call of an engine or the merger at most. False when it has
    /// looked at all segments; the next step looks at those that are not settled again.
    pub fn step(
        &mut self,
        catalog: &dyn Catalog,
        objects: &dyn Objects,
        merger: &dyn Merger,
    ) -> Result<bool, JobError> {
        match std::mem::replace(&mut self.state, State::Looking) {
            State::Looking => {
                let segments = catalog.segments_of(self.partition, self.settled, PAGE)?;
                let is_last = segments.len() < PAGE;
                match choose(segments, &self.settings) {
                    Found::Run(chosen) => self.state = State::Chosen(chosen),
                    Found::Settled(offset) => {
                        // A run that goes on behind the page is shorter than the page.
                        self.settled = offset.unwrap_or(self.settled);
                        return Ok(!is_last);
                    }
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
            searched: chosen.iter().map(|segment| segment.searched).min().unwrap_or(0),
            rules: rules_of(chosen),
            frames: sealed.frames.clone(),
        }
    }
}

/// The rules of retention that were applied to all of the segments: none unless they are the same,
/// since a hash does not tell which of two sets has more. Then the whole is searched again.
fn rules_of(segments: &[SegmentRow]) -> u64 {
    let first = segments.first().map_or(0, |segment| segment.rules);
    if segments.iter().all(|segment| segment.rules == first) { first } else { 0 }
}

enum Found {
    /// The first run of neighbours that is worth merging.
    Run(Vec<SegmentRow>),
    /// There is none. The segments below this offset stay as they are, whatever comes behind them;
    /// `None` if there is no segment.
    Settled(Option<u64>),
}

fn choose(segments: Vec<SegmentRow>, settings: &MergeSettings) -> Found {
    let segments_min = settings.segments_min.max(2);
    // A segment of this size is not merged again: its run would be too large.
    let small = settings.bytes_max / segments_min as u64;
    let mut run: Vec<SegmentRow> = Vec::new();
    let (mut bytes, mut settled) = (0, None);
    for segment in segments {
        settled = Some(segment.offsets.end);
        let is_near = |first: &SegmentRow| {
            let apart_ns = first.received_last_ns.abs_diff(segment.received_last_ns);
            settings.span_max.is_none_or(|span| u128::from(apart_ns) <= span.as_nanos())
        };
        let fits = bytes + segment.bytes <= settings.bytes_max && run.first().is_none_or(is_near);
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
    match run.len() >= segments_min {
        true => Found::Run(run),
        false => Found::Settled(run.first().map(|segment| segment.offsets.start).or(settled)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TimeRange;

    #[test]
    fn small_neighbours_are_chosen() {
        // The offsets of the run, or the offset that is settled.
        let check = |sizes: &[u64], expected: std::ops::Range<u64>, settled: u64| {
            let row = |(index, &bytes): (usize, &u64)| SegmentRow {
                name: index.to_string(),
                partition: 0,
                offsets: index as u64..index as u64 + 1,
                times: TimeRange::ALL,
                received_last_ns: 0,
                lines: 1,
                bytes,
                searched: 0,
                rules: 0,
                frames: Vec::new(),
            };
            let segments = sizes.iter().enumerate().map(row).collect();
            let settings = MergeSettings { segments_min: 3, bytes_max: 30, span_max: None };
            let (chosen, found) = match choose(segments, &settings) {
                Found::Run(chosen) => (chosen, 0),
                Found::Settled(offset) => (Vec::new(), offset.unwrap_or(99)),
            };
            assert_eq!(found, settled, "{sizes:?}");
            let offsets: Vec<u64> = chosen.iter().map(|segment| segment.offsets.start).collect();
            assert_eq!(offsets, expected.collect::<Vec<_>>(), "{sizes:?}");
        };
        check(&[], 0..0, 99);
        check(&[1, 1], 0..0, 0);
        check(&[11, 1, 1], 0..0, 1);
        check(&[1, 1, 11], 0..0, 3);
        check(&[1, 1, 1], 0..3, 0);
        check(&[1, 1, 11, 1, 1], 0..0, 3);
        check(&[1, 11, 1, 1, 1, 11], 2..5, 0);
        check(&[10, 10, 10, 10], 0..3, 0);
        check(&[10, 9, 9, 9], 0..3, 0);
        check(&[10, 10, 11, 10], 0..0, 3);
    }

    #[test]
    fn rules_count_as_applied_if_they_were_to_all_segments() {
        let check = |rules: &[u64], expected: u64| {
            let row = |rules: &u64| SegmentRow {
                name: String::new(),
                partition: 0,
                offsets: 0..1,
                times: TimeRange::ALL,
                received_last_ns: 0,
                lines: 1,
                bytes: 1,
                searched: 0,
                rules: *rules,
                frames: Vec::new(),
            };
            let rows: Vec<SegmentRow> = rules.iter().map(row).collect();
            assert_eq!(rules_of(&rows), expected, "{rules:?}");
        };
        check(&[], 0);
        check(&[7, 7, 7], 7);
        check(&[7, 9], 0);
        check(&[9, 7], 0);
        check(&[0, 7], 0);
    }

    #[test]
    fn segments_whose_arrivals_are_far_apart_are_not_merged() {
        let check = |span_s: Option<u64>, expected: usize| {
            let row = |index: u64| SegmentRow {
                name: index.to_string(),
                partition: 0,
                offsets: index..index + 1,
                times: TimeRange::ALL,
                received_last_ns: index as i64 * 1_000_000_000,
                lines: 1,
                bytes: 1,
                searched: 0,
                rules: 0,
                frames: Vec::new(),
            };
            let span_max = span_s.map(Duration::from_secs);
            let settings = MergeSettings { segments_min: 3, bytes_max: 30, span_max };
            let chosen = match choose((0..10).map(row).collect(), &settings) {
                Found::Run(run) => run.len(),
                Found::Settled(_) => 0,
            };
            assert_eq!(chosen, expected, "{span_s:?}");
        };
        check(None, 10);
        check(Some(9), 10);
        check(Some(3), 4);
        check(Some(1), 0);
    }
}
