//! Reads sealed segments in idle time and compares them with their checksums, so that damage is
//! found before a query meets it, and while a backup or another copy still has the lines.
//!
//! A step checks blocks of at least [`STEP_BYTES`]. The driver takes one step each time it finds
//! nothing else to do, twice a second: some 2 MiB/s, a hundred gigabytes in half a day. A round
//! goes through all segments by number, and begins a day after the last one began.
//!
//! Left out: hot segments, which are read when they are sealed, and the place of the check across
//! restarts: a store that is started every hour begins every hour with the oldest segments.

use std::sync::Arc;

use segment::sealed::SealedFile;

use crate::segments::sealed::SealedSegment;
use crate::store_core::StoreCore;

/// Bytes read in a step, apart from the last block.
const STEP_BYTES: u64 = 1 << 20;
/// Least time between the beginnings of two rounds, nanoseconds.
const ROUND_NS: u64 = 24 * 3_600_000_000_000;

/// Where the check is.
#[derive(Default)]
pub(crate) struct Scrub {
    /// When the next round may begin, monotonic nanoseconds.
    due_ns: u64,
    /// The segments up to this number are checked in this round; None: no round is under way.
    after: Option<u64>,
    /// The segment that is being checked, and its next block.
    open: Option<(Arc<SealedSegment>, Arc<SealedFile>, usize)>,
}

impl Scrub {
    /// Checks the next blocks; returns the bytes that it read.
    pub(crate) fn step(&mut self, core: &StoreCore) -> u64 {
        let now_ns = core.clock.monotonic_ns();
        if self.after.is_none() && now_ns < self.due_ns {
            return 0;
        }
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            let Some((segment, file, block)) = self.open.take() else {
                if !self.open_next(core, now_ns) {
                    return bytes;
                }
                continue;
            };
            if block < file.footer().blocks.len() && segment.fate.is_listed() {
                bytes += segment.check_block(&file, block);
                self.open = Some((segment, file, block + 1));
            }
        }
        bytes
    }

    /// Opens the next segment; false at the end of the round.
    fn open_next(&mut self, core: &StoreCore, now_ns: u64) -> bool {
        let after = *self.after.get_or_insert_with(|| {
            self.due_ns = now_ns.saturating_add(ROUND_NS);
            0
        });
        let next = core.segments.list().sealed.into_iter().find(|segment| segment.id > after);
        let Some(segment) = next else {
            self.after = None;
            return false;
        };
        self.after = Some(segment.id);
        // Read anew: a footer in memory says nothing about the disk.
        match core.segments.open_fresh(&segment) {
            Ok(file) => self.open = Some((segment, Arc::new(file), 0)),
            Err(error) => tracing::debug!("segment {} is not checked: {error}", segment.id),
        }
        true
    }
}
