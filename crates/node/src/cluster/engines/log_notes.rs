//! Which times the new lines of a cluster have, for programs.
//!
//! The owners of partitions have parsed the lines, so they tell: by rows of the summary, made of
//! the frames behind the cursor, or kept in the segments that have these frames by now. A row says
//! that lines of a type are in its bucket. So a program may have more buckets to compute than it
//! needs to, and never fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::{Catalog, FrameLog};
use programs::summary::OTHER;
use query::Context;
use query::source::TimeRange;

use super::log_cursor::LogCursor;
use super::spread::reader_of;
use super::summaries::{collect, share_of_rows};
use super::{Engines, HotPiece, Pieces, SegmentPiece, none};
use crate::cluster::source::ask;
use crate::storage::arrivals::{Noted, Notes};

/// Segments of a partition that are read together.
///
/// limits.md, Nodes of a cluster: segments of a partition whose new lines are noted for programs
/// together | {} | further ones are noted a second later
const SEGMENTS_MAX: usize = 64;
/// Time for the nodes to answer.
const READ_TIME_MAX: Duration = Duration::from_secs(60);
/// How long partitions may be on their way from one node to another before that is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the nodes of a cluster for new lines.
pub struct LogNotes {
    engines: Arc<Engines>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The ends of all partitions when they were last looked at.
    ends: Vec<u64>,
    /// Since when nodes fail to answer.
    failing: Option<Instant>,
}

impl LogNotes {
    /// Asks nothing yet.
    pub fn new(engines: Arc<Engines>) -> LogNotes {
        LogNotes { engines, state: Mutex::default() }
    }

    fn ends(&self) -> Result<Vec<u64>, String> {
        let ends = FrameLog::ends(&*self.engines.log).map_err(|error| error.to_string())?;
        self.state().ends.clone_from(&ends);
        Ok(ends)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be read behind a cursor, by the address of the node that reads it; and the cursor
    /// behind it.
    fn plan(&self, mut cursor: LogCursor) -> Result<(BTreeMap<String, Pieces>, LogCursor), String> {
        let Engines { catalog, .. } = &*self.engines;
        // The catalog first: what lies between its offset and the end is with the owner.
        let snapshot = catalog.snapshot(none(), 0).map_err(|error| error.to_string())?;
        let mut shares: BTreeMap<String, Pieces> = BTreeMap::new();
        let readers = self.engines.readers();
        for (partition, end) in (0..).zip(self.ends()?) {
            let mut at = cursor.offset(partition);
            let row = snapshot.partitions.iter().find(|row| row.partition == partition);
            let published = row.map_or(0, |row| row.offset);
            if at < published {
                let segments = catalog.segments_of(partition, at, SEGMENTS_MAX);
                let segments = segments.map_err(|error| error.to_string())?;
                // What is in no segment was no new frame, or its segment was dropped.
                let is_last = segments.len() < SEGMENTS_MAX;
                at = segments.last().map_or(at, |segment| segment.offsets.end);
                if is_last {
                    at = at.max(published);
                }
                for segment in segments {
                    let reader = reader_of(&readers, &segment.name).to_owned();
                    let piece = SegmentPiece::from(segment);
                    shares.entry(reader).or_default().segments.push(piece);
                }
            }
            // The lines of a partition that is on its way to another owner are noted later.
            let owner = row.and_then(|row| row.owner.as_ref());
            if let Some(owner) = owner.filter(|_| published <= at && at < end) {
                let piece = HotPiece { partition, from: at, until: end, open: false };
                shares.entry(owner.address.clone()).or_default().hot.push(piece);
                at = end;
            }
            cursor.set(partition, at);
        }
        Ok((shares, cursor))
    }

    fn read(&self, cursor: &str) -> Result<Option<Noted>, String> {
        let before = LogCursor::parse(cursor)?;
        let (pieces, next) = self.plan(before.clone())?;
        if next == before {
            return Ok(None);
        }
        let mut shares = Vec::with_capacity(pieces.len());
        for (address, pieces) in pieces {
            let node = self.engines.node(&address).map_err(|error| format!("{error:#}"))?;
            shares.push((node, pieces));
        }
        let mut seconds: BTreeMap<Vec<u8>, BTreeSet<i64>> = BTreeMap::new();
        let mut seconds_of_any = BTreeSet::new();
        if !shares.is_empty() {
            let share = share_of_rows(TimeRange::ALL);
            let mut context = Context::default();
            context.limits.run_time = READ_TIME_MAX;
            let mut answer = ask(shares, &share, &context).map_err(|error| error.to_string())?;
            let rows = collect(&mut *answer, &context).map_err(|error| error.to_string())?;
            for row in rows {
                let first_s = row.time_ns.div_euclid(1_000_000_000);
                let bucket = first_s..first_s.saturating_add_unsigned(row.bucket_s);
                // The types beyond those that the summary tells apart are counted together.
                match row.summary_of == OTHER {
                    true => seconds_of_any.extend(bucket),
                    false => seconds.entry(row.summary_of.into_bytes()).or_default().extend(bucket),
                }
            }
        }
        let next = next.to_string();
        Ok(Some(Noted { seconds, seconds_of_any, received_ns: None, next, skipped: 0 }))
    }
}

impl Notes for LogNotes {
    fn now(&self) -> Result<String, String> {
        Ok(LogCursor(self.ends()?).to_string())
    }

    fn after(&self, cursor: &str) -> Result<Option<Noted>, String> {
        let read = self.read(cursor);
        let mut state = self.state();
        match read {
            Ok(noted) => {
                state.failing = None;
                Ok(noted)
            }
            Err(error) => {
                let since = *state.failing.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(error);
                }
                tracing::debug!("new lines are noted later: {error}");
                Ok(None)
            }
        }
    }

    fn frames_left(&self, cursor: &str) -> u64 {
        LogCursor::parse(cursor).map_or(0, |cursor| cursor.left(&self.state().ends))
    }
}
