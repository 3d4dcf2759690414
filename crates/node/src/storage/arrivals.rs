//! Lines in the order of arrival, for those that read behind a cursor of their own: programs learn
//! from them which buckets they have to compute, and sinks deliver them.
//!
//! A cursor is a text, which its reader keeps. On one machine it is a place in the store
//! ([`StoreArrivals`]); in a cluster, offsets of the log ([`crate::cluster::engines`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use record::Batch;
use store::{ArrivalCursor, FrameHandle, NoArrivalCursor, Store};

use crate::storage::stored::Parsers;

/// Bytes of lines that are noted together.
const NOTE_BYTES: u64 = 8 << 20;

/// Lines behind a cursor.
pub struct Arrived {
    /// Them, in the order of arrival.
    pub batches: Vec<Arc<Batch>>,
    /// The cursor behind them.
    pub next: String,
    /// What was deleted before it was read.
    pub skipped: Skipped,
}

/// What was deleted before it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// So many lines at most.
    Lines(u64),
    /// So many messages of the log, each with the lines of a frame. Nobody knows how many those
    /// were.
    Messages(u64),
}

impl Skipped {
    /// A sentence about what a sink missed before a cursor; none if that is nothing.
    pub fn told(&self, cursor: &str) -> Option<String> {
        match self {
            Skipped::Lines(0) | Skipped::Messages(0) => None,
            Skipped::Lines(lines) => Some(format!(
                "at most {lines} lines up to {cursor} were deleted by retention before a sink read them"
            )),
            Skipped::Messages(messages) => Some(format!(
                "{messages} messages of Kafka up to {cursor}, with the lines of a frame each, were deleted by its retention \
                 before a sink read them; raise retention.ms and retention.bytes of the topic so that sinks keep up"
            )),
        }
    }
}

/// Reads lines in the order of arrival. Calls block. Errors are sentences.
pub trait Arrivals: Send + Sync {
    /// The cursor before the first line that there is.
    fn first(&self) -> Result<String, String>;

    /// The cursor behind all lines that are durable now.
    fn now(&self) -> Result<String, String>;

    /// Some of the lines behind a cursor, about `bytes`; `None` if there are none.
    fn after(&self, cursor: &str, bytes: u64) -> Result<Option<Arrived>, String>;

    /// Frames of lines behind a cursor, about.
    fn frames_left(&self, cursor: &str) -> u64;

    /// An error if a text is no cursor of these lines.
    fn check(&self, cursor: &str) -> Result<(), String>;
}

/// Event times of lines behind a cursor.
pub struct Noted {
    /// In whole seconds since 1970 UTC, by type. There may be more than those of the lines, and
    /// never fewer.
    pub seconds: BTreeMap<Vec<u8>, BTreeSet<i64>>,
    /// The same of lines whose type is not told: it may be any.
    pub seconds_of_any: BTreeSet<i64>,
    /// When the last of the lines arrived, nanoseconds since 1970 UTC, if that is known.
    pub received_ns: Option<i64>,
    /// The cursor behind the lines.
    pub next: String,
    /// Lines at most that were deleted before they were read.
    pub skipped: u64,
}

/// Tells which times lines have that arrived. Calls block. Errors are sentences.
pub trait Notes: Send + Sync {
    /// The cursor behind all lines that are durable now.
    fn now(&self) -> Result<String, String>;

    /// Times of lines behind a cursor; `None` if there are no such lines.
    fn after(&self, cursor: &str) -> Result<Option<Noted>, String>;

    /// Frames of lines behind a cursor, about.
    fn frames_left(&self, cursor: &str) -> u64;
}

/// The lines of a store on this machine.
pub struct StoreArrivals {
    /// The store.
    pub store: Arc<Store>,
    /// Parsers of its frames.
    pub parsers: Arc<Parsers>,
}

fn cursor_of(text: &str) -> Result<ArrivalCursor, String> {
    text.parse().map_err(|error: NoArrivalCursor| error.to_string())
}

impl Arrivals for StoreArrivals {
    fn first(&self) -> Result<String, String> {
        Ok(self.store.first_arrival().to_string())
    }

    fn now(&self) -> Result<String, String> {
        let through = self.store.durable_now().through;
        Ok(ArrivalCursor { through, ..self.store.first_arrival() }.to_string())
    }

    fn after(&self, cursor: &str, bytes: u64) -> Result<Option<Arrived>, String> {
        let cursor = cursor_of(cursor)?;
        let load = |handle: &FrameHandle| self.parsers.load_arrival(handle);
        let read = self.store.read_after(cursor, bytes, &load);
        let (arrivals, next) = read.map_err(|error| error.to_string())?;
        if next == cursor {
            return Ok(None);
        }
        if arrivals.unreadable > 0 {
            tracing::error!(
                "of the lines up to {next}, {} are damaged and left out for their reader",
                arrivals.unreadable
            );
        }
        let (batches, skipped) = (arrivals.batches, Skipped::Lines(arrivals.skipped));
        Ok(Some(Arrived { batches, next: next.to_string(), skipped }))
    }

    fn frames_left(&self, cursor: &str) -> u64 {
        let through = self.store.durable_now().through;
        cursor_of(cursor).map_or(0, |cursor| through.saturating_sub(cursor.through))
    }

    fn check(&self, cursor: &str) -> Result<(), String> {
        cursor_of(cursor).map(drop)
    }
}

impl Notes for StoreArrivals {
    fn now(&self) -> Result<String, String> {
        Arrivals::now(self)
    }

    fn after(&self, cursor: &str) -> Result<Option<Noted>, String> {
        let arrived = Arrivals::after(self, cursor, NOTE_BYTES)?;
        Ok(arrived.map(|Arrived { batches, next, skipped }| Noted {
            seconds: seconds_of(&batches),
            seconds_of_any: BTreeSet::new(),
            received_ns: batches.iter().filter_map(|batch| batch.received_max_ns()).max(),
            next,
            skipped: match skipped {
                Skipped::Lines(lines) => lines,
                Skipped::Messages(_) => 0,
            },
        }))
    }

    fn frames_left(&self, cursor: &str) -> u64 {
        Arrivals::frames_left(self, cursor)
    }
}

/// Event times in whole seconds, by type, of lines that were sent.
fn seconds_of(batches: &[Arc<Batch>]) -> BTreeMap<Vec<u8>, BTreeSet<i64>> {
    let mut found: BTreeMap<Vec<u8>, BTreeSet<i64>> = BTreeMap::new();
    for batch in batches.iter().filter(|batch| !batch.is_internal()) {
        let Some(type_id) = batch.field_id("_type") else { continue };
        let mut last: Option<(&[u8], i64)> = None;
        for row in batch.rows() {
            let log_type = row.get(type_id).unwrap_or_default();
            let second = row.time_ns().div_euclid(1_000_000_000);
            if last.replace((log_type, second)) == Some((log_type, second)) {
                continue;
            }
            match found.get_mut(log_type) {
                Some(seconds) => {
                    seconds.insert(second);
                }
                None => {
                    found.insert(log_type.to_vec(), [second].into());
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use platform::{Clock, Disk, Fault, ManualClock, OnDurable, Operation, Patience, SimDisk};
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};
    use store::StoreConfig;

    use super::*;

    /// A message of Kafka has thousands of lines.
    #[test]
    fn messages_that_a_sink_missed_are_not_called_lines() {
        assert_eq!(Skipped::Lines(0).told("a1"), None);
        assert_eq!(Skipped::Messages(0).told("k1-7"), None);
        let lines = Skipped::Lines(12).told("a1").unwrap();
        assert!(lines.starts_with("at most 12 lines up to a1 were deleted"), "{lines}");
        let messages = Skipped::Messages(12).told("k1-7").unwrap();
        assert!(messages.starts_with("12 messages of Kafka up to k1-7"), "{messages}");
    }

    #[test]
    fn a_frame_that_cannot_be_read_now_is_waited_for() {
        let disk = SimDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1));
        let config = StoreConfig {
            disk_free_bytes_min: 0,
            commit_interval_ms: 0,
            cache_bytes_max: 0,
            ..StoreConfig::new("/data")
        };
        let (store, _) = Store::open_stepped(config, shared, clock).unwrap();
        let (node, sequence) = store.next_sequence();
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        for _ in 0..3 {
            builder.push_line(&origin, 1, b"a line", false);
        }
        let frame = builder.finish(node, sequence).unwrap();
        let done: OnDurable = Box::new(|result| result.unwrap());
        store.append(vec![(frame, done)], Patience::Unlimited).unwrap();
        store.writer_step();
        let parser = Parser::new(&ParserConfig::default()).expect("no rules");
        let parsers = Arc::new(Parsers::new(parser));
        let arrivals = StoreArrivals { store: Arc::new(store), parsers };
        let first = Arrivals::first(&arrivals).unwrap();
        let fail = |errno| {
            disk.fail(Fault { operation: Operation::Open, skip: 0, times: 1, errno });
        };
        let lines = |found: Option<Arrived>| {
            found.unwrap().batches.iter().map(|batch| batch.len()).sum::<usize>()
        };
        // A disk that does not give the frame holds no reader up.
        fail(5);
        assert_eq!(lines(Arrivals::after(&arrivals, &first, 1 << 20).unwrap()), 0);
        // Too many files are open.
        fail(24);
        let error = Arrivals::after(&arrivals, &first, 1 << 20).err().unwrap();
        assert!(error.contains("/data/segments/1.hot: cannot open"), "{error}");
        assert_eq!(lines(Arrivals::after(&arrivals, &first, 1 << 20).unwrap()), 3);
    }
}
