//! Frames and stores for the tests.
#![allow(dead_code)] // Each test file uses its part.

mod log;

pub use log::logged;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use platform::{Clock, Disk, KeepError, OnDurable, Patience};
use record::{Batch, Format, Frame, FrameBuilder, LineId, Origin, Parser, ParserConfig, Transport};
use store::{FrameHandle, LineFilter, Position, Step, Store, StoreCallbacks, StoreConfig, Unit};

/// A frame of `lines` lines. Each line contains its sequence and place, and is padded to
/// `line_bytes`.
pub fn frame_at(id: (u32, u64), lines: u32, line_bytes: usize, received_ns: i64) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    for line in 0..lines {
        let mut text = format!("{}-{line}", id.1);
        text.push_str(&".".repeat(line_bytes.saturating_sub(text.len() + 1)));
        builder.push_line(&origin, received_ns, text.as_bytes(), false);
    }
    builder.finish(id.0, id.1).expect("has lines")
}

/// Settings without pauses, so that a test on a manual clock does not hang.
pub fn config(dir: impl Into<PathBuf>) -> StoreConfig {
    StoreConfig {
        segment_bytes_max: 1 << 20,
        commit_interval_ms: 0,
        disk_free_bytes_min: 0,
        retry_ms: 1,
        ..StoreConfig::new(dir)
    }
}

pub fn open(config: &StoreConfig, disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>) -> Arc<Store> {
    Store::open(config.clone(), disk.clone(), clock.clone()).expect("opens").0
}

/// Appends frames together and waits for the result of each.
pub fn append(store: &Store, frames: Vec<Frame>) -> Vec<Result<(), KeepError>> {
    let count = frames.len();
    let (sender, receiver) = mpsc::channel();
    let with_callbacks = frames.into_iter().enumerate().map(|(i, frame)| {
        let sender = sender.clone();
        let done: OnDurable = Box::new(move |result| sender.send((i, result)).unwrap());
        (frame, done)
    });
    let _ = store.append(with_callbacks.collect(), Patience::Awaited);
    let mut results = vec![None; count];
    for _ in 0..count {
        let (i, result) = receiver.recv().expect("each is called once");
        assert!(results[i].replace(result).is_none(), "frame {i} called twice");
    }
    results.into_iter().flatten().collect()
}

/// All frames in the order in which they became durable.
pub fn all(store: &Store) -> Vec<FrameHandle> {
    let mut after = Position::START;
    let mut handles = Vec::new();
    loop {
        let frames = store.wait_committed(after, std::time::Duration::ZERO, || false);
        let Some(last) = frames.last() else { return handles };
        after = last.position;
        handles.extend(frames.into_iter().map(|f| f.handle));
    }
}

pub fn sequences(store: &Store) -> Vec<u64> {
    all(store).iter().map(FrameHandle::sequence).collect()
}

/// A host whose filters select the lines that contain their text. The empty text is an invalid
/// filter.
pub struct TestHost {
    parser: std::sync::Mutex<Parser>,
    pub idle: std::sync::atomic::AtomicBool,
}

impl TestHost {
    pub fn new() -> Self {
        let config = ParserConfig::default();
        let parser = Parser::new(&config).expect("no rules");
        TestHost { parser: std::sync::Mutex::new(parser), idle: false.into() }
    }
}

impl StoreCallbacks for TestHost {
    fn parse(&self, frame: Arc<Frame>) -> Batch {
        self.parser.lock().unwrap().parse(frame)
    }

    fn filter(&self, text: &str, _now_ns: i64) -> Result<LineFilter, String> {
        if text.is_empty() {
            return Err("the filter is empty".to_owned());
        }
        let text = text.as_bytes().to_vec();
        let selects = move |batch: &Arc<Batch>| -> Vec<bool> {
            let has = |raw: &[u8]| raw.windows(text.len()).any(|w| w == text);
            batch.rows().map(|row| has(row.raw())).collect()
        };
        Ok(LineFilter { range_ns: (i64::MIN, i64::MAX), tenants: None, selects: Box::new(selects) })
    }

    fn is_idle(&self) -> bool {
        self.idle.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Parses all frames that are not parsed, and marks them as settled.
pub fn parse_all(store: &Store, host: &TestHost) {
    for frame in all(store) {
        let batch = host.parse(frame.read_frame().expect("reads").expect("is there"));
        store.set_times(frame.position(), batch.time_range_ns());
        store.set_settled(frame.position());
    }
}

/// Runs background steps until no work is due; returns the number of steps.
pub fn work(store: &Store, host: &TestHost) -> usize {
    let mut steps = 0;
    while store.background_step(host) == Step::Worked {
        steps += 1;
        assert!(steps < 100_000, "it does not end");
    }
    steps
}

/// All lines of units, sorted by id: id, event time, arrival, raw bytes. Asserts that each is there
/// once.
pub fn lines_of(units: &[Unit], host: &TestHost) -> Vec<(LineId, i64, i64, Vec<u8>)> {
    let mut lines = Vec::new();
    for unit in units {
        let batch = match unit {
            Unit::Frame(frame) => {
                frame.read_frame().expect("reads").map(|frame| Arc::new(host.parse(frame)))
            }
            Unit::Block(block) => block.read().expect("reads"),
        };
        let Some(batch) = batch else { continue };
        assert_eq!(batch.len() as u64, unit.lines());
        assert_eq!(unit.time_range().unwrap_or(batch.time_range_ns()), batch.time_range_ns());
        lines.extend(
            batch
                .rows()
                .map(|row| (row.id(), row.time_ns(), row.received_ns(), row.raw().to_vec())),
        );
    }
    lines.sort();
    assert!(lines.windows(2).all(|w| w[0].0 != w[1].0), "no line twice");
    lines
}

pub fn lines(store: &Store, host: &TestHost) -> Vec<(LineId, i64, i64, Vec<u8>)> {
    lines_of(&store.snapshot((i64::MIN, i64::MAX)).expect("reads"), host)
}
