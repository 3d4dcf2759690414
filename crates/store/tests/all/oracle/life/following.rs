//! A reader that resumes behind its cursor: each acknowledged line comes to it once, in the order
//! of arrival, or is reported as skipped.

use std::collections::BTreeSet;
use std::sync::Arc;

use record::Batch;
use store::{ArrivalCursor, FrameHandle, StoreError};

use super::Life;
use crate::oracle::lines::number_of;
use crate::oracle::truth::Fate;

/// The state of a reader, kept over all restarts.
#[derive(Default)]
pub struct Reader {
    /// The cursor as text, as a client would store it.
    cursor: Option<String>,
    read: BTreeSet<usize>,
    /// The last line: number of its frame, place there.
    last: Option<(u64, u32)>,
    skipped: u64,
    /// Lines that were not there when the reader passed them, and that were reported as skipped.
    reported_gone: BTreeSet<usize>,
    pub acknowledged: BTreeSet<usize>,
    /// Whether the catalog may have lost its record of lines that were deleted.
    pub has_faults: bool,
}

impl Life {
    /// Continues to read, several times, until nothing comes.
    pub(super) fn follow(&mut self) {
        let times = self.rng.usize(1..8);
        self.tell(format!("a reader resumes {times} times"));
        for _ in 0..times {
            if !self.read_on() {
                return;
            }
        }
    }

    fn read_on(&mut self) -> bool {
        let bytes_max = self.rng.u64(..20_000);
        let store = self.store();
        let cursor: ArrivalCursor = match &self.reader.cursor {
            Some(text) => text.parse().expect("as it was written"),
            None => store.first_arrival(),
        };
        // While the store has no line, only the catalog records its id: losing the catalog changes
        // the id.
        let cursor = if cursor.through == 0 { store.first_arrival() } else { cursor };
        let load = |handle: &FrameHandle| -> Result<Option<Arc<Batch>>, StoreError> {
            if let Some(batch) = handle.cached() {
                return Ok(Some(batch));
            }
            let frame = handle.read_frame()?;
            Ok(frame.map(|frame| Arc::new(store::StoreCallbacks::parse(&self.host, frame))))
        };
        // The read may fail: faults of the disk may be armed.
        let Ok((arrivals, next)) = store.read_after(cursor, bytes_max, &load) else { return false };
        assert!(next >= cursor, "{next} after {cursor}");
        let lines: Vec<(u64, u32, usize)> = arrivals
            .rows()
            .map(|row| (row.sequence(), row.id().line, number_of(row.raw()).expect("one of ours")))
            .collect();
        assert_eq!(lines.len(), arrivals.batches.iter().map(|batch| batch.len()).sum::<usize>());
        assert_eq!(arrivals.unreadable, 0);
        let reader = &mut self.reader;
        for (sequence, line, number) in lines {
            assert!(cursor.through < sequence && sequence <= next.through, "{cursor} {next}");
            let place = Some((sequence, line));
            assert!(reader.last < place, "line {number} comes out of order");
            reader.last = place;
            assert!(reader.read.insert(number), "line {number} comes twice");
            assert_ne!(self.truth.lines[number].fate, Fate::Gone, "line {number} is gone");
            self.coverage.lines_followed += 1;
        }
        if arrivals.skipped > 0 {
            let passed = |number: &usize| {
                let sequence = self.truth.lines[*number].id.sequence;
                cursor.through < sequence && sequence <= next.through
            };
            let unread = reader.acknowledged.difference(&reader.read).copied();
            reader.reported_gone.extend(unread.filter(passed));
        }
        reader.skipped += arrivals.skipped;
        reader.cursor = Some(next.to_string());
        next > cursor
    }

    pub(super) fn read_to_the_end(&mut self) {
        while self.read_on() {}
    }

    /// Asserts that the reader passed no line that is there, and that all lines that went were
    /// reported.
    pub(super) fn check_what_was_read(&mut self) {
        let (limits, now_ns) = (self.limits(), platform::Clock::now_ns(&*self.clock));
        let mut went = 0;
        for number in self.reader.acknowledged.difference(&self.reader.read) {
            let line = &self.truth.lines[*number];
            // Retention removed the file, the lines were reported as skipped, and then a power cut
            // undid the removal, which was not durable.
            let came_back = self.reader.reported_gone.contains(number);
            assert!(line.fate != Fate::Kept || came_back, "the reader missed {}", line.text());
            went += u64::from(!limits.is_named(line, now_ns));
        }
        let skipped = self.reader.skipped;
        if !self.reader.has_faults {
            assert!(went <= skipped, "{went} lines went unread, {skipped} were reported");
        }
        self.coverage.lines_skipped += skipped;
    }
}
